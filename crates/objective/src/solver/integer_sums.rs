//! Gradient and curvature of a convex sum as integers on public grids: what each partition of remote records adds up for the
//! certified minimiser (docs/proofs/solver.md). Integers commute, so the sums are the same bits however the records are divided.
//!
//! A gradient is summed in two words for each weight, so that its grid is as far below the tolerance as the rounding of a sum in three
//! floats; a curvature, which only points the way, in one.

use super::double::{self, Double};
use super::sums::{Split, exact_scores, split_slope};
use crate::loss::Loss;
use crate::objective::Linear;
use crate::records::Examples;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Most weights of which a matrix of curvature is asked for: with one output, a megabyte from each part.
pub const MAX_CURVED_WEIGHTS: usize = 512;

/// Which sums, all public: of records wherever they are.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct IntegerSums {
    loss: Loss,
    features: usize,
    row_norm: f64,
    /// Every |target| is at most this.
    target_bound: f64,
    /// n: at least the number of records.
    most_rows: u64,
    /// Whether the curvature is asked for besides the gradient.
    curved: bool,
}

impl IntegerSums {
    /// Gradient and curvature of `objective` over at most `most_rows` records.
    pub fn new(objective: &Linear, most_rows: u64, target_bound: f64) -> Self {
        Self {
            loss: objective.loss(),
            features: objective.features(),
            row_norm: objective.row_norm(),
            target_bound,
            most_rows,
            curved: true,
        }
    }

    /// The sums of the gradient alone, without curvature.
    pub fn flat(self) -> Self {
        Self { curved: false, ..self }
    }

    /// Whether it is about such records.
    pub fn describes(&self, examples: &Examples) -> bool {
        examples.rows.columns() == self.features && examples.rows.norm_bound() <= self.row_norm
    }

    pub(super) fn loss(&self) -> Loss {
        self.loss
    }

    pub(super) fn row_norm(&self) -> f64 {
        self.row_norm
    }

    pub(super) fn most_rows(&self) -> u64 {
        self.most_rows
    }

    /// Number of weights.
    pub fn weights(&self) -> usize {
        self.loss.outputs() * self.features
    }

    /// Number of integers: two for each weight, and one for each pair of features and of outputs.
    pub fn width(&self) -> usize {
        2 * self.weights() + if self.curved { triangle(self.loss.outputs()) * triangle(self.features) } else { 0 }
    }

    /// c with n < 2^c.
    fn log_rows(&self) -> i32 {
        (u64::BITS - self.most_rows.leading_zeros()) as i32
    }

    /// Bits of a contribution that are summed in the lower word: n·2^bits stays below 2^62.
    fn low_bits(&self) -> i32 {
        (62 - self.log_rows()).clamp(1, 62)
    }

    /// log2 of the grid step h of gradients: a contribution is at most 2^(123 − 2c) steps, so that its upper word stays below
    /// 2^(61 − c), and n of them below 2^62.
    fn gradient_exponent(&self) -> i32 {
        let slope = self.loss.facts().lipschitz.unwrap_or(1.0);
        above(slope * self.row_norm) + 1 - (61 + self.low_bits() - self.log_rows())
    }

    /// log2 of the grid step of curvatures, of which n stay below 2^62.
    fn curvature_exponent(&self) -> i32 {
        let curvature = self.loss.facts().smoothness.unwrap_or(1.0);
        above(curvature * self.row_norm * self.row_norm) + 1 - (61 - self.log_rows())
    }

    /// Bound on what the grid moves a gradient by, in l2 norm: two truncations for each record and weight. Infinite where the words would
    /// not hold the sum.
    pub fn grid_error(&self) -> f64 {
        if self.log_rows() > 45 {
            return f64::INFINITY;
        }
        let each = 2.0 * 2f64.powi(self.gradient_exponent()) * (self.weights() as f64).sqrt();
        each * self.most_rows as f64 * (1.0 + 1e-12)
    }

    /// The integers over a range of records, at `theta`.
    pub fn over(&self, examples: &Examples, range: Range<usize>, theta: &Split) -> Vec<i64> {
        let (d, k) = (self.features, self.loss.outputs());
        let mut sums = vec![0i64; self.width()];
        let (gradient, curvature) = sums.split_at_mut(2 * self.weights());
        let (low, high) = gradient.split_at_mut(self.weights());
        let (bits, per_unit) = (self.low_bits(), 2f64.powi(-self.gradient_exponent()));
        let mask = (1i128 << bits) - 1;
        let mut pairs = Pairs::new(self);
        let (mut score, mut slope) = (vec![Double::default(); k], vec![Double::default(); k]);
        for i in range {
            let (indices, values) = examples.rows.row(i);
            let target = f64::from(examples.targets[i]);
            let Some(target) = self.loss.usable_target(target, self.target_bound) else { continue };
            exact_scores(indices, values, theta, d, &mut score);
            double::slope(self.loss, &score, target, &mut slope);
            for (out, &c) in slope.iter().enumerate() {
                let (head, tail) = split_slope(c);
                for (&j, &x) in indices.iter().zip(values) {
                    // a head's product is exact, and so is what a power of two multiplies
                    let x = f64::from(x);
                    let quanta = (head * x * per_unit) as i128 + (tail * x * per_unit) as i128;
                    let at = out * d + j as usize;
                    low[at] = low[at].wrapping_add((quanta & mask) as i64);
                    high[at] = high[at].wrapping_add((quanta >> bits) as i64);
                }
            }
            if self.curved {
                pairs.add(self.loss, &score, &slope, target, (indices, values), curvature);
            }
        }
        sums
    }

    /// Σ∇φ, each entry as a float and what that lacks.
    pub(super) fn gradient(&self, sums: &[i64]) -> Vec<[f64; 3]> {
        let (low, rest) = sums.split_at(self.weights());
        let step = 2f64.powi(self.gradient_exponent());
        let entry = |(&low, &high): (&i64, &i64)| {
            let quanta = (i128::from(high) << self.low_bits()) + i128::from(low);
            let first = quanta as f64;
            [first * step, (quanta - first as i128) as f64 * step, 0.0]
        };
        low.iter().zip(rest).map(entry).collect()
    }

    /// Σ∇²φ, weights × weights, row-major.
    pub(super) fn hessian(&self, sums: &[i64]) -> Vec<f64> {
        let (d, k, w) = (self.features, self.loss.outputs(), self.weights());
        let step = 2f64.powi(self.curvature_exponent());
        let mut matrix = vec![0.0; w * w];
        let pairs = (0..k).flat_map(|a| (0..=a).map(move |b| (a, b)));
        for ((a, b), quanta) in pairs.zip(sums[2 * w..].chunks_exact(triangle(d))) {
            for j in 0..d {
                for i in 0..=j {
                    let value = quanta[triangle(j) + i] as f64 * step;
                    for (row, column) in [(a * d + j, b * d + i), (a * d + i, b * d + j)] {
                        matrix[row * w + column] = value;
                        matrix[column * w + row] = value;
                    }
                }
            }
        }
        matrix
    }

    /// Bound on what the grid moves the curvature by, as an error of the matrix.
    pub(super) fn curvature_error(&self) -> f64 {
        self.most_rows as f64 * self.weights() as f64 * 2f64.powi(self.curvature_exponent())
    }
}

/// Entries of a triangle of side m, m(m + 1)/2.
fn triangle(m: usize) -> usize {
    m * (m + 1) / 2
}

/// The least integer k with x < 2^k, for a positive normal number: from its bits, so that it is the same on every machine.
fn above(x: f64) -> i32 {
    ((x.to_bits() >> 52) & 0x7ff) as i32 - 1022
}

/// Adds up curvatures, each rounded to the grid.
struct Pairs {
    width: usize,
    per_unit: f64,
    /// Weights of every pair of outputs.
    weights: Vec<f64>,
}

impl Pairs {
    fn new(sums: &IntegerSums) -> Self {
        let pairs = triangle(sums.loss.outputs());
        let per_unit = 2f64.powi(-sums.curvature_exponent());
        Self { width: triangle(sums.features), per_unit, weights: vec![0.0; pairs] }
    }

    #[inline]
    fn add(
        &mut self,
        loss: Loss,
        scores: &[Double],
        slope: &[Double],
        target: f64,
        (indices, values): (&[u32], &[f32]),
        sums: &mut [i64],
    ) {
        match loss {
            // from slopes, which are the same bits on every machine
            Loss::Logistic { .. } => self.weights[0] = slope[0].hi.abs() * (1.0 - slope[0].hi.abs()),
            Loss::Softmax { .. } => {
                let p = |a: usize| slope[a].hi + f64::from(a == target as usize);
                for a in 0..slope.len() {
                    for b in 0..=a {
                        self.weights[triangle(a) + b] = p(a) * (f64::from(a == b) - p(b));
                    }
                }
            }
            _ => self.weights[0] = loss.scalar_curvature(scores[0].hi, target),
        }
        for (&weight, sums) in self.weights.iter().zip(sums.chunks_exact_mut(self.width)) {
            if weight == 0.0 {
                continue;
            }
            for (at, (&j, &x)) in indices.iter().zip(values).enumerate() {
                let scaled = weight * self.per_unit * f64::from(x);
                let line = &mut sums[triangle(j as usize)..];
                for (&i, &y) in indices[..=at].iter().zip(&values[..=at]) {
                    let cell = &mut line[i as usize];
                    *cell = cell.wrapping_add((scaled * f64::from(y)).round_ties_even() as i64);
                }
            }
        }
    }
}
