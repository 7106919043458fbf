//! Passes over the records for the convex solver: scores, gradients to almost twice working precision, curvature.
//!
//! The certificate ‖∇J‖ ≤ τ of output and objective perturbation (docs/proofs/solver.md) must hold for the *exact* gradient,
//! so its rounding error must be far below τ. Weights are kept as head + tail with a head of 29 bits: its product with
//! an `f32` feature is exact, slopes are pairs of f64, and sums carry their rounding errors along (two-sum). All sums run over chunks that depend
//! on the shape of the data only, and chunks are added in order: the same bits for any number of threads.

use super::accuracy::rounding;
use super::double::{self, Double, two_sum};
use crate::loss::Loss;
use crate::objective::Linear;
use crate::records::{Examples, Rows};
use dpopt_lanes::{add_scaled, dot as row_dot};
use dpopt_process::in_threads;
use dpopt_process::stop::{self, Stop};
use rayon::prelude::*;

/// Unit roundoff of f64.
pub const UNIT: f64 = f64::EPSILON / 2.0;

/// A vector kept as head (29 significant bits) + tail.
#[derive(Clone)]
pub struct Split {
    head: Vec<f64>,
    tail: Vec<f64>,
}

fn head_of(x: f64) -> f64 {
    f64::from_bits(x.to_bits() & !((1 << 24) - 1))
}

impl Split {
    /// The vector of `len` zeros.
    pub fn zero(len: usize) -> Self {
        Self { head: vec![0.0; len], tail: vec![0.0; len] }
    }

    /// The point self + t·step, in heads and tails.
    pub(super) fn moved(&self, t: f64, step: &[f64]) -> Self {
        let (mut head, mut tail) = (self.head.clone(), self.tail.clone());
        for ((h, l), s) in head.iter_mut().zip(&mut tail).zip(step) {
            let (sum, error) = two_sum(*h, t * s);
            let (sum, rest) = two_sum(sum, *l);
            let top = head_of(sum);
            *l = (sum - top) + (rest + error);
            *h = top;
        }
        Self { head, tail }
    }

    /// λ·self + linear, to almost twice working precision.
    pub(super) fn ridge_residual(&self, lambda: f64, linear: &[f64]) -> Vec<f64> {
        self.head
            .iter()
            .zip(&self.tail)
            .zip(linear)
            .map(|((&h, &t), &b)| {
                let ridge = lambda * h;
                let error = lambda.mul_add(h, -ridge);
                let (sum, rest) = two_sum(ridge, b);
                sum + (rest + error + lambda * t)
            })
            .collect()
    }

    pub(super) fn copy_entry(&mut self, to: usize, source: &Self, from: usize) {
        self.head[to] = source.head[from];
        self.tail[to] = source.tail[from];
    }

    /// self − other, each difference rounded.
    pub(super) fn minus(&self, other: &Self) -> Vec<f64> {
        let parts = self.head.iter().zip(&self.tail).zip(other.head.iter().zip(&other.tail));
        parts.map(|((h, t), (other_h, other_t))| (h - other_h) + (t - other_t)).collect()
    }

    /// All heads, then all tails.
    pub fn numbers(&self) -> Vec<f64> {
        [&self.head[..], &self.tail[..]].concat()
    }

    /// From [`numbers`](Self::numbers); `None` if their number is odd.
    pub fn from_numbers(numbers: &[f64]) -> Option<Self> {
        let (head, tail) = numbers.split_at(numbers.len() / 2);
        (head.len() == tail.len()).then(|| Self { head: head.to_vec(), tail: tail.to_vec() })
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.head.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.head.is_empty()
    }

    /// The entries rounded to f64.
    pub fn rounded(&self) -> Vec<f64> {
        self.head.iter().zip(&self.tail).map(|(h, t)| h + t).collect()
    }

    pub(super) fn norm(&self) -> f64 {
        norm(&self.rounded())
    }
}

/// The l2 norm ‖v‖₂.
pub fn norm(v: &[f64]) -> f64 {
    v.iter().map(|x| x * x).sum::<f64>().sqrt()
}

/// The inner product a·b.
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

/// J(θ) = Σ φ(θ; record) + (λ/2)‖θ‖² + b·θ over all records; λ in units of the *sum*.
#[derive(Clone, Copy)]
pub struct RegularizedSum<'a> {
    /// Features, one row per record.
    pub rows: &'a Rows,
    /// One per row; what is not usable counts as a zero loss.
    pub targets: &'a [f32],
    /// R, public: every row's norm is at most this.
    pub row_norm: f64,
    /// φ as a function of the scores.
    pub loss: Loss,
    /// λ of the sum objective.
    pub regularization: f64,
    /// b, outputs × features.
    pub linear: &'a [f64],
    /// Every |target| is below this.
    pub target_bound: f64,
}

/// Gradient of J at a point, with what the Newton step needs.
pub struct Evaluation {
    /// ∇J, rounded to f64 after an almost doubly precise sum.
    pub gradient: Vec<f64>,
    /// Computed ‖∇J‖ plus a bound on its error: the true norm is at most this. Infinite if nothing is proved.
    pub certified_norm: f64,
    /// Scores, n × outputs.
    pub scores: Vec<f64>,
}

impl<'a> RegularizedSum<'a> {
    /// The regularised sum over the records of `examples`; `linear` has one entry per weight.
    pub fn of(
        examples: &'a Examples,
        objective: &Linear,
        (regularization, linear): (f64, &'a [f64]),
        target_bound: f64,
    ) -> Self {
        Self {
            rows: &examples.rows,
            targets: &examples.targets,
            row_norm: objective.row_norm(),
            loss: objective.loss(),
            regularization,
            linear,
            target_bound,
        }
    }
}

impl RegularizedSum<'_> {
    fn outputs(&self) -> usize {
        self.loss.outputs()
    }

    pub(super) fn weights(&self) -> usize {
        self.outputs() * self.rows.columns()
    }

    fn target(&self, i: usize) -> Option<f64> {
        self.loss.usable_target(f64::from(self.targets[i]), self.target_bound)
    }

    /// Rows per chunk: a function of the shape only. Few chunks when the buffers of a chunk are large.
    fn chunk(&self, buffer: usize) -> usize {
        let most = (8_000_000 / buffer.max(1)).clamp(2, 16);
        self.rows.len().div_ceil(most).max(512)
    }

    /// `of` each chunk of rows, in order.
    fn chunks<T: Send>(&self, size: usize, of: impl Fn(std::ops::Range<usize>) -> T + Sync + Send) -> Vec<T> {
        let n = self.rows.len();
        stop::point();
        let stop = Stop::here();
        let range = |c: usize| {
            stop.point();
            c * size..((c + 1) * size).min(n)
        };
        in_threads(|| (0..n.div_ceil(size)).into_par_iter().map(|c| of(range(c))).collect())
    }

    /// Gradient at `theta` in plain arithmetic, without a certificate: three times cheaper, for the steps before the last.
    pub(super) fn evaluate_plainly(&self, theta: &Split) -> Evaluation {
        let theta = theta.rounded();
        let (d, k) = (self.rows.columns(), self.outputs());
        let parts: Vec<(Vec<f64>, Vec<f64>)> = self.chunks(self.chunk(d * k), |range| {
            let mut sum = vec![0.0; d * k];
            let mut scores = vec![0.0; range.len() * k];
            let mut slope = vec![0.0; k];
            for (i, score) in range.zip(scores.chunks_exact_mut(k)) {
                let (indices, values) = self.rows.row(i);
                for (out, s) in score.iter_mut().enumerate() {
                    *s = plain_dot(indices, values, &theta[out * d..(out + 1) * d]);
                }
                if let Some(target) = self.target(i) {
                    self.loss.slope(score, target, &mut slope);
                    for (out, &c) in slope.iter().enumerate() {
                        plain_add(indices, values, c, &mut sum[out * d..(out + 1) * d]);
                    }
                }
            }
            (scores, sum)
        });
        let mut gradient: Vec<f64> = theta.iter().zip(self.linear).map(|(t, b)| self.regularization * t + b).collect();
        let mut scores = Vec::with_capacity(self.rows.len() * k);
        for (part_scores, part) in parts {
            scores.extend_from_slice(&part_scores);
            gradient.iter_mut().zip(&part).for_each(|(g, p)| *g += p);
        }
        Evaluation { gradient, certified_norm: f64::INFINITY, scores }
    }

    /// Bound on |φ'|, or 1 where there is none.
    pub(super) fn slope_bound(&self) -> f64 {
        self.loss.facts().lipschitz.unwrap_or(1.0)
    }

    /// Gradient at `theta` with a certified bound on its norm: the computed norm plus a bound on the error that depends on
    /// public facts and ‖θ‖ only (docs/proofs/solver.md).
    pub fn evaluate(&self, theta: &Split) -> Evaluation {
        let (d, k) = (self.rows.columns(), self.outputs());
        let width = d * k;
        let parts: Vec<(Vec<f64>, Vec<[f64; 3]>)> = self.chunks(self.chunk(width), |range| {
            let mut sums = vec![[0.0; 3]; width];
            let mut scores = Vec::with_capacity(range.len() * k);
            let (mut score, mut slope) = (vec![Double::default(); k], vec![Double::default(); k]);
            for i in range {
                let (indices, values) = self.rows.row(i);
                exact_scores(indices, values, theta, d, &mut score);
                scores.extend(score.iter().map(|s| s.hi));
                let Some(target) = self.target(i) else { continue };
                double::slope(self.loss, &score, target, &mut slope);
                for (out, &c) in slope.iter().enumerate() {
                    if c.hi != 0.0 {
                        add_outer(indices, values, c, &mut sums[out * d..(out + 1) * d]);
                    }
                }
            }
            (scores, sums)
        });
        let mut scores = Vec::with_capacity(self.rows.len() * k);
        let mut total = vec![[0.0; 3]; width];
        for (part_scores, part) in parts {
            scores.extend_from_slice(&part_scores);
            for (t, p) in total.iter_mut().zip(&part) {
                carry(t, p[0]);
                carry_low(t, p[1]);
                t[2] += p[2];
            }
        }
        let gradient = with_ridge(&total, theta, self.regularization, self.linear);
        let certified_norm = self.ridge().certified_norm(&gradient, self.rows.len() as f64, theta);
        Evaluation { gradient, certified_norm, scores }
    }

    fn ridge(&self) -> Ridge<'_> {
        Ridge { loss: self.loss, row_norm: self.row_norm, regularization: self.regularization, linear: self.linear }
    }

    /// φ''(score) per record (scalar losses).
    pub(super) fn curvatures(&self, scores: &[f64]) -> Vec<f64> {
        let of = |(i, &s): (usize, &f64)| self.target(i).map_or(0.0, |y| self.loss.scalar_curvature(s, y));
        in_threads(|| scores.par_iter().enumerate().with_min_len(4096).map(of).collect())
    }

    /// tanh(u/2)/(2u) with u = shift − margin per record: the curvature of the parabola that touches the logistic loss and
    /// lies above it everywhere; at most 1/4.
    pub fn majorising_curvatures(&self, theta: &[f64], shift: f64) -> Vec<f64> {
        let of = |i| {
            let (indices, values) = self.rows.row(i);
            let u = self.target(i).map_or(0.0, |y| shift - y * plain_dot(indices, values, theta));
            majorising_curvature(u)
        };
        in_threads(|| (0..self.rows.len()).into_par_iter().with_min_len(1024).map(of).collect())
    }

    /// (∇²J) v for a scalar loss with given curvatures, or for softmax with given scores.
    pub(super) fn hessian_product(&self, weights: &Curvature, v: &[f64]) -> Vec<f64> {
        let (d, k) = (self.rows.columns(), self.outputs());
        let width = d * k;
        let parts: Vec<Vec<f64>> = self.chunks(self.chunk(width), |range| {
            let mut sum = vec![0.0; width];
            let mut along = vec![0.0; k];
            for i in range {
                let (indices, values) = self.rows.row(i);
                for (out, a) in along.iter_mut().enumerate() {
                    *a = plain_dot(indices, values, &v[out * d..(out + 1) * d]);
                }
                match weights {
                    Curvature::Scalar(h) => along[0] *= h[i],
                    Curvature::Softmax(p) => {
                        let p = &p[i * k..(i + 1) * k];
                        let mean = dot(p, &along);
                        for (a, q) in along.iter_mut().zip(p) {
                            *a = q * (*a - mean);
                        }
                    }
                }
                for (out, &a) in along.iter().enumerate() {
                    if a != 0.0 {
                        plain_add(indices, values, a, &mut sum[out * d..(out + 1) * d]);
                    }
                }
            }
            sum
        });
        let mut total: Vec<f64> = v.iter().map(|x| self.regularization * x).collect();
        for part in parts {
            for (t, p) in total.iter_mut().zip(&part) {
                *t += p;
            }
        }
        total
    }

    /// Diagonal of the Hessian ∇²J.
    pub(super) fn hessian_diagonal(&self, weights: &Curvature) -> Vec<f64> {
        let (d, k) = (self.rows.columns(), self.outputs());
        let mut diagonal = vec![self.regularization; d * k];
        for i in 0..self.rows.len() {
            let (indices, values) = self.rows.row(i);
            for out in 0..k {
                let h = match weights {
                    Curvature::Scalar(h) => h[i],
                    Curvature::Softmax(p) => p[i * k + out] * (1.0 - p[i * k + out]),
                };
                for (&j, &x) in indices.iter().zip(values) {
                    diagonal[out * d + j as usize] += h * f64::from(x) * f64::from(x);
                }
            }
        }
        diagonal
    }

    /// Rows whose terms are added to the same d × d numbers before these are added up: long sums of one after the other err in
    /// proportion to their length.
    fn block(d: usize) -> usize {
        (d * d / 64).max(4096)
    }

    /// The number of additions that a term of [`dense_hessian`](Self::dense_hessian) goes through at most, for n rows.
    pub fn summation_depth(n: f64, d: usize) -> f64 {
        Self::block(d) as f64 + n / Self::block(d) as f64 + 32.0
    }

    /// Lower triangle of ∇²J (scalar losses), row-major d × d.
    pub fn dense_hessian(&self, curvatures: &[f64]) -> Vec<f64> {
        let d = self.rows.columns();
        let block = Self::block(d);
        let parts: Vec<Vec<f64>> = self.chunks(self.chunk(d * d), |range| {
            let mut sum = vec![0.0; d * d];
            let mut whole = Vec::new();
            for (place, i) in range.enumerate() {
                if place > 0 && place % block == 0 {
                    whole.resize(d * d, 0.0);
                    add_and_clear(&mut whole, &mut sum);
                }
                let h = curvatures[i];
                if h == 0.0 {
                    continue;
                }
                let (indices, values) = self.rows.row(i);
                for (a, (&ja, &xa)) in indices.iter().zip(values).enumerate() {
                    let scale = h * f64::from(xa);
                    let line = &mut sum[ja as usize * d..ja as usize * d + ja as usize + 1];
                    if line.len() == a + 1 {
                        add_scaled(&values[..=a], scale, line);
                        continue;
                    }
                    for (&jb, &xb) in indices[..=a].iter().zip(&values[..=a]) {
                        line[jb as usize] += scale * f64::from(xb);
                    }
                }
            }
            if !whole.is_empty() {
                add_and_clear(&mut whole, &mut sum);
                return whole;
            }
            sum
        });
        let mut total = vec![0.0; d * d];
        for part in parts {
            for (t, p) in total.iter_mut().zip(&part) {
                *t += p;
            }
        }
        for j in 0..d {
            total[j * d + j] += self.regularization;
        }
        total
    }
}

/// Σ∇φ + λθ + b from sums in three parts, rounded once.
pub(super) fn with_ridge(total: &[[f64; 3]], theta: &Split, lambda: f64, linear: &[f64]) -> Vec<f64> {
    let entry = |(j, part): (usize, &[f64; 3])| {
        let (sum, error) = two_sum(part[0], linear[j]);
        let ridge = lambda * theta.head[j];
        let ridge_error = lambda.mul_add(theta.head[j], -ridge);
        let (sum, more) = two_sum(sum, ridge);
        sum + (part[1] + error + more + ridge_error + lambda * theta.tail[j] + part[2])
    };
    total.iter().enumerate().map(entry).collect()
}

/// What the rounding of a gradient of J follows from, besides the number of records.
pub(super) struct Ridge<'a> {
    pub(super) loss: Loss,
    pub(super) row_norm: f64,
    pub(super) regularization: f64,
    pub(super) linear: &'a [f64],
}

impl Ridge<'_> {
    /// The norm of a gradient over `n` records that was summed in three parts, plus a bound on its error.
    pub(super) fn certified_norm(&self, gradient: &[f64], n: f64, theta: &Split) -> f64 {
        let (facts, r) = (self.loss.facts(), self.row_norm);
        let smoothness = n * r * r * facts.smoothness.unwrap_or(f64::INFINITY) + self.regularization;
        let gradients = n * r * facts.lipschitz.unwrap_or(f64::INFINITY);
        let bound = rounding(n, smoothness, gradients, norm(self.linear), theta.norm());
        norm(gradient) * (1.0 + UNIT * (gradient.len() as f64 + 16.0)) + bound
    }
}

fn add_and_clear(whole: &mut [f64], part: &mut [f64]) {
    for (w, p) in whole.iter_mut().zip(part) {
        *w += std::mem::take(p);
    }
}

/// Curvature of the loss in the scores, per record.
pub(super) enum Curvature {
    /// Second derivative φ'' of the loss of each record.
    Scalar(Vec<f64>),
    /// Class probabilities p: the Hessian is diag(p) − pp^T.
    Softmax(Vec<f64>),
}

/// Scores to about 79 bits of ‖x‖‖θ‖: heads times `f32` features are exact products, and tails are 2^28 times smaller.
#[inline]
pub(super) fn exact_scores(indices: &[u32], values: &[f32], theta: &Split, d: usize, scores: &mut [Double]) {
    for (out, score) in scores.iter_mut().enumerate() {
        let head = &theta.head[out * d..(out + 1) * d];
        let tail = &theta.tail[out * d..(out + 1) * d];
        let mut sums = [0.0; 3];
        for (&j, &x) in indices.iter().zip(values) {
            let (j, x) = (j as usize, f64::from(x));
            carry(&mut sums, x * head[j]);
            carry_low(&mut sums, x * tail[j]);
        }
        *score = Double::of(sums[0], sums[1] + sums[2]);
    }
}

/// A slope as a head, whose product with an `f32` is exact, and the rest.
#[inline]
pub(super) fn split_slope(c: Double) -> (f64, f64) {
    let head = head_of(c.hi);
    (head, (c.hi - head) + c.lo)
}

/// sums += c·x, carrying the errors along.
#[inline]
fn add_outer(indices: &[u32], values: &[f32], c: Double, sums: &mut [[f64; 3]]) {
    let (head, tail) = split_slope(c);
    for (&j, &x) in indices.iter().zip(values) {
        let x = f64::from(x);
        let slot = &mut sums[j as usize];
        carry(slot, head * x);
        carry_low(slot, tail * x);
    }
}

/// Adds to a sum of three parts: the rounding error of the first goes to the second, of that to the third.
#[inline(always)]
fn carry(sums: &mut [f64; 3], term: f64) {
    let (sum, error) = two_sum(sums[0], term);
    sums[0] = sum;
    carry_low(sums, error);
}

/// Adds a small term.
#[inline(always)]
fn carry_low(sums: &mut [f64; 3], term: f64) {
    let (sum, error) = two_sum(sums[1], term);
    sums[1] = sum;
    sums[2] += error;
}

/// tanh(u/2)/(2u): at most 1/4.
#[inline]
pub fn majorising_curvature(u: f64) -> f64 {
    // series near 0: 1/4 − u²/48 + …
    let h = if u.abs() < 1e-4 { 0.25 - u * u / 48.0 } else { (0.5 * u).tanh() / (2.0 * u) };
    if h.is_finite() { h.clamp(0.0, 0.25) } else { 0.0 }
}

/// ⟨row, v⟩ in plain arithmetic.
#[inline]
pub fn plain_dot(indices: &[u32], values: &[f32], v: &[f64]) -> f64 {
    if fills(indices, v) { row_dot(values, v) } else { sparse_dot(indices, values, v) }
}

/// In four running sums by the place of the entry, which do not wait for each other.
#[inline]
fn sparse_dot(indices: &[u32], values: &[f32], v: &[f64]) -> f64 {
    let ((fours, left), (values, values_left)) = (indices.as_chunks::<4>(), values.as_chunks::<4>());
    let mut sums = [0.0; 4];
    for (j, x) in fours.iter().zip(values) {
        for lane in 0..4 {
            sums[lane] += f64::from(x[lane]) * v[j[lane] as usize];
        }
    }
    for (lane, (&j, &x)) in left.iter().zip(values_left).enumerate() {
        sums[lane] += f64::from(x) * v[j as usize];
    }
    (sums[0] + sums[1]) + (sums[2] + sums[3])
}

/// Whether a row has an entry for each of the numbers beside it; its columns increase.
#[inline]
fn fills<T>(indices: &[u32], beside: &[T]) -> bool {
    indices.len() == beside.len() && indices.last().is_some_and(|&last| last as usize + 1 == indices.len())
}

/// sum += c·row in plain arithmetic.
#[inline]
pub fn plain_add(indices: &[u32], values: &[f32], c: f64, sum: &mut [f64]) {
    if fills(indices, sum) {
        add_scaled(values, c, sum);
        return;
    }
    for (&j, &x) in indices.iter().zip(values) {
        sum[j as usize] += c * f64::from(x);
    }
}
