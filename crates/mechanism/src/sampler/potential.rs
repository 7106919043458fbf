//! Potentials F = β·Σφ_i of targets e^(−F − quadratic): what a restricted Gaussian oracle asks of a loss.

use crate::sampler::wide::{Wide, two_sum};
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::Objective;
use dpopt_objective::records::{RecordSet, Rows};
use dpopt_process::in_threads;
use dpopt_process::stop::Stop;
use rayon::prelude::*;
use std::convert::Infallible;

/// β·Σ φ_i(x) over n convex terms. `value` and `term` are pure functions of the point: the same bits each time.
pub trait Potential: Sync {
    /// Dimension d of the points.
    fn dimension(&self) -> usize;
    /// The inverse temperature β > 0.
    fn scale(&self) -> f64;
    /// Number n of terms.
    fn terms(&self) -> usize;
    /// The value Σφ_i at a point.
    fn value(&self, point: &[f64]) -> f64;
    /// Σφ_i, with an element of its subdifferential in `subgradient` (length d).
    fn value_and_subgradient(&self, point: &[f64], subgradient: &mut [f64]) -> f64;
    /// The value of one term φ_i at a point.
    fn term(&self, index: usize, point: &[f64]) -> f64;
}

/// A sum that carries its rounding errors along (Neumaier): off by less than 2u of the sum of the sizes.
#[derive(Clone, Copy, Default)]
struct Sum {
    head: f64,
    rest: f64,
}

impl Sum {
    #[inline(always)]
    fn add(&mut self, x: f64) {
        let (head, error) = two_sum(self.head, x);
        self.head = head;
        self.rest += error;
    }
}

/// Rows per chunk: the order of sums depends on the number of rows only.
pub(crate) const CHUNK: usize = 1024;
/// Entries from which a second thread is worth waking.
const PARALLEL: usize = 200_000;

/// β·Σ φ(⟨a_i, origin + v⟩; y_i) as a function of v, for a registered loss. Scores at the origin are kept, so that rounding
/// errors grow with the distance from it only.
pub(crate) struct GlmPotential<'a> {
    rows: &'a Rows,
    /// Usable targets; NaN: the record contributes nothing.
    targets: Vec<f64>,
    loss: Loss,
    scale: f64,
    /// Scores at the origin, one for each record and output.
    origin_scores: Vec<f64>,
}

impl<'a> GlmPotential<'a> {
    pub(crate) fn new(
        rows: &'a Rows,
        targets: &[f32],
        loss: Loss,
        target_bound: f64,
        scale: f64,
        origin: &[f64],
    ) -> Self {
        let targets =
            targets.iter().map(|&y| loss.usable_target(f64::from(y), target_bound).unwrap_or(f64::NAN)).collect();
        let d = rows.columns();
        let origin_scores = (0..rows.len())
            .flat_map(|i| (0..loss.outputs()).map(move |out| exact_score(rows, i, &origin[out * d..(out + 1) * d])))
            .collect();
        Self { rows, targets, loss, scale, origin_scores }
    }

    /// φ of row `i`, its scores in `scores`; `None` for a record that contributes nothing.
    #[inline]
    fn scores(&self, i: usize, point: &[f64], scores: &mut [f64]) -> Option<f64> {
        let target = self.targets[i];
        if target.is_nan() {
            return None;
        }
        let (indices, values) = self.rows.row(i);
        let (d, k) = (self.rows.columns(), scores.len());
        for (out, s) in scores.iter_mut().enumerate() {
            let part = &point[out * d..(out + 1) * d];
            *s = self.origin_scores[i * k + out] + dpopt_objective::solver::plain_dot(indices, values, part);
        }
        Some(target)
    }

    fn chunks<T: Send>(&self, of: impl Fn(std::ops::Range<usize>) -> T + Sync) -> Vec<T> {
        let n = self.rows.len();
        chunks(n, self.rows.nonzeros() + 10 * n >= PARALLEL, of)
    }
}

/// `of` each chunk of `n` records, in order.
fn chunks<T: Send>(n: usize, parallel: bool, of: impl Fn(std::ops::Range<usize>) -> T + Sync) -> Vec<T> {
    let stop = Stop::here();
    let range = |c: usize| {
        stop.point();
        c * CHUNK..((c + 1) * CHUNK).min(n)
    };
    if parallel {
        in_threads(|| (0..n.div_ceil(CHUNK)).into_par_iter().map(|c| of(range(c))).collect())
    } else {
        (0..n.div_ceil(CHUNK)).map(|c| of(range(c))).collect()
    }
}

/// β·Σφ_i(origin + v) of any objective, as a function of v.
pub(crate) struct SumPotential<'a, O, R> {
    pub(crate) objective: &'a O,
    pub(crate) records: &'a R,
    /// The inverse temperature β.
    pub(crate) scale: f64,
    pub(crate) origin: &'a [f64],
}

impl<O, R> SumPotential<'_, O, R> {
    fn moved(&self, v: &[f64]) -> Vec<f64> {
        v.iter().zip(self.origin).map(|(v, o)| v + o).collect()
    }
}

impl<R: RecordSet<Error = Infallible>, O: Objective<R>> SumPotential<'_, O, R> {
    /// φ_i(x); what is no number counts as 0, as its gradient does.
    fn at(&self, x: &[f64], i: usize, scratch: &mut O::Scratch) -> f64 {
        let Ok(value) = self.objective.value(x, self.records, i, scratch);
        if value.is_finite() { value } else { 0.0 }
    }
}

impl<R: RecordSet<Error = Infallible>, O: Objective<R>> Potential for SumPotential<'_, O, R> {
    fn dimension(&self) -> usize {
        self.objective.dimension()
    }

    fn scale(&self) -> f64 {
        self.scale
    }

    fn terms(&self) -> usize {
        self.records.len()
    }

    fn value(&self, point: &[f64]) -> f64 {
        let x = self.moved(point);
        total(chunks(self.records.len(), self.records.len() > CHUNK, |range| {
            let (mut sum, mut scratch) = (Sum::default(), O::Scratch::default());
            for i in range {
                sum.add(self.at(&x, i, &mut scratch));
            }
            sum
        }))
    }

    fn value_and_subgradient(&self, point: &[f64], subgradient: &mut [f64]) -> f64 {
        let x = self.moved(point);
        let parts = chunks(self.records.len(), self.records.len() > CHUNK, |range| {
            let (mut sum, mut scratch) = (vec![0.0; x.len()], O::Scratch::default());
            for i in range {
                let Ok(gradient) = self.objective.gradient(&mut &x[..], self.records, i, &mut scratch);
                gradient.add_to(&mut sum);
            }
            sum
        });
        subgradient.fill(0.0);
        for part in parts {
            subgradient.iter_mut().zip(part).for_each(|(g, p)| *g += p);
        }
        self.value(point)
    }

    fn term(&self, index: usize, point: &[f64]) -> f64 {
        self.at(&self.moved(point), index, &mut O::Scratch::default())
    }
}

/// ⟨a_i, origin⟩ to the last bit: products and sums with twice the digits.
fn exact_score(rows: &Rows, i: usize, origin: &[f64]) -> f64 {
    let (indices, values) = rows.row(i);
    let sum = indices
        .iter()
        .zip(values)
        .fold(Wide::default(), |sum, (&j, &x)| sum.plus(Wide::from(f64::from(x)).times(origin[j as usize])));
    sum.rounded()
}

fn total(parts: impl IntoIterator<Item = Sum>) -> f64 {
    let mut sum = Sum::default();
    for part in parts {
        sum.add(part.head);
        sum.rest += part.rest;
    }
    sum.head + sum.rest
}

impl Potential for GlmPotential<'_> {
    fn dimension(&self) -> usize {
        self.loss.outputs() * self.rows.columns()
    }

    fn scale(&self) -> f64 {
        self.scale
    }

    fn terms(&self) -> usize {
        self.rows.len()
    }

    fn value(&self, point: &[f64]) -> f64 {
        total(self.chunks(|range| {
            let mut sum = Sum::default();
            let mut scores = vec![0.0; self.loss.outputs()];
            for i in range {
                if let Some(target) = self.scores(i, point, &mut scores) {
                    sum.add(self.loss.value(&scores, target));
                }
            }
            sum
        }))
    }

    fn value_and_subgradient(&self, point: &[f64], subgradient: &mut [f64]) -> f64 {
        let (d, k) = (self.rows.columns(), self.loss.outputs());
        let parts = self.chunks(|range| {
            let mut sum = Sum::default();
            let mut gradient = vec![0.0; d * k];
            let (mut scores, mut slope) = (vec![0.0; k], vec![0.0; k]);
            for i in range {
                let Some(target) = self.scores(i, point, &mut scores) else { continue };
                sum.add(self.loss.value(&scores, target));
                self.loss.slope(&scores, target, &mut slope);
                let (indices, values) = self.rows.row(i);
                for (out, &c) in slope.iter().enumerate() {
                    if c != 0.0 {
                        dpopt_objective::solver::plain_add(indices, values, c, &mut gradient[out * d..(out + 1) * d]);
                    }
                }
            }
            (sum, gradient)
        });
        subgradient.fill(0.0);
        for (_, part) in &parts {
            subgradient.iter_mut().zip(part).for_each(|(g, p)| *g += p);
        }
        total(parts.into_iter().map(|(sum, _)| sum))
    }

    fn term(&self, index: usize, point: &[f64]) -> f64 {
        let mut scores = vec![0.0; self.loss.outputs()];
        match self.scores(index, point, &mut scores) {
            Some(target) => self.loss.value(&scores, target),
            None => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_objective::objective::Linear;
    use dpopt_objective::records::Examples;
    use dpopt_objective::synthetic::Lcg;

    fn table(n: usize, d: usize, random: &mut Lcg) -> (Rows, Vec<f32>) {
        let mut rows = Rows::new(d);
        let mut targets = Vec::new();
        for _ in 0..n {
            let mut row: Vec<(u32, f32)> = (0..d as u32).map(|j| (j, random.normal() as f32)).collect();
            rows.push_clipped(&mut row, 1.0);
            targets.push((random.uniform() * 3.0).floor() as f32 - 1.0);
        }
        (rows, targets)
    }

    #[test]
    fn values_slopes_and_terms_agree_with_each_other() {
        let mut random = Lcg::new(3);
        let (rows, targets) = table(2500, 4, &mut random);
        for loss in [
            Loss::Logistic { shift: 0.0 },
            Loss::Hinge,
            Loss::Absolute,
            Loss::Huber { threshold: 0.3 },
            Loss::Squared,
            Loss::Softmax { classes: 3 },
        ] {
            let d = 4 * loss.outputs();
            let origin: Vec<f64> = (0..d).map(|_| random.normal()).collect();
            let point: Vec<f64> = (0..d).map(|_| random.normal()).collect();
            let potential = GlmPotential::new(&rows, &targets, loss, 1.0, 2.0, &origin);
            assert_eq!((potential.dimension(), potential.terms(), potential.scale()), (d, 2500, 2.0));
            let value = potential.value(&point);
            let by_terms: f64 = (0..2500).map(|i| potential.term(i, &point)).sum();
            assert!((value - by_terms).abs() < 1e-10 * value.abs());
            let mut g = vec![0.0; d];
            assert_eq!(potential.value_and_subgradient(&point, &mut g), value);
            // a subgradient of a convex function: the tangent lies below it, in every direction
            for _ in 0..20 {
                let other: Vec<f64> = point.iter().map(|x| x + 0.3 * random.normal()).collect();
                let tangent = value + g.iter().zip(&other).zip(&point).map(|((g, a), b)| g * (a - b)).sum::<f64>();
                assert!(potential.value(&other) >= tangent - 1e-9, "{loss:?}");
            }
            // the same, term by term
            let examples = Examples { rows: rows.clone(), targets: targets.clone() };
            let (objective, zero) = (Linear::new(loss, 4, 1.0), vec![0.0; d]);
            let moved: Vec<f64> = origin.iter().zip(&point).map(|(a, b)| a + b).collect();
            let plain = SumPotential { objective: &objective, records: &examples, scale: 2.0, origin: &zero };
            assert!((plain.value(&moved) - value).abs() < 1e-9 * value.abs(), "{loss:?}");
            let mut other = vec![0.0; d];
            plain.value_and_subgradient(&moved, &mut other);
            assert!(other.iter().zip(&g).all(|(a, b)| (a - b).abs() < 1e-9 * value.abs()), "{loss:?}");
            // the origin is only another name for the point
            let moved: Vec<f64> = origin.iter().zip(&point).map(|(a, b)| a + b).collect();
            let same = GlmPotential::new(&rows, &targets, loss, 1.0, 2.0, &vec![0.0; d]);
            assert!((same.value(&moved) - value).abs() < 1e-9);
        }
    }
}
