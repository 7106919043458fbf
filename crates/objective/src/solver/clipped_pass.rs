//! One pass of SGD along clipped gradients of any convex smooth loss, with what is proved of how far two neighbours' iterates come apart
//! (docs/proofs/certified-clipped-sgd.md).
//!
//! A clipped gradient of several scores need not be monotone, so that a step may bring two points further apart: by a factor of
//! Γ = (1 − ηβ/4)^(−1/2) at most, and only where one of the two gradients is clipped. Where few are, the factors come to little.

use super::double::{self, Double};
use super::pass::{Compensated, MOST, STRETCH};
use super::sums::UNIT;
use crate::objective::Linear;
use crate::records::Examples;
use dpopt_process::stop;

/// Steps y ← y − η·Π_C(∇φ_i(y)) over records in a given order, Π_C shortening a vector to norm C.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClippedPass {
    /// φ of rows of at most the norm that it names.
    pub objective: Linear,
    /// η > 0, of one record's step.
    pub learning_rate: f64,
    /// C > 0: bound on the norm of a record's step over η.
    pub clip_norm: f64,
    /// Largest |target| of regression losses; targets are clamped to it.
    pub target_bound: f64,
}

/// What a pass did. Depends on records: neither may leave as it is.
#[derive(Clone, Debug)]
pub struct Walked {
    /// Mean of the iterates after each step, less the start.
    pub mean: Vec<f64>,
    /// Norm of each record's gradient before the clip, in turn; 0 where it made no step.
    pub norms: Vec<f64>,
}

impl ClippedPass {
    /// β of a record's loss in the weights, by the rows' norm; infinite where it has corners.
    pub fn smoothness(&self) -> f64 {
        let row_norm = self.objective.row_norm();
        let curvature = self.objective.loss().facts().smoothness.unwrap_or(f64::INFINITY);
        curvature * row_norm * row_norm * (1.0 + 8.0 * UNIT)
    }

    /// Whether steps that are not clipped on either side contract: a convex loss of bounded slope and ηβ ≤ 2.
    ///
    /// ```
    /// use dpopt_objective::{loss::Loss, objective::Linear, solver::ClippedPass};
    /// let pass = |loss, learning_rate| {
    ///     ClippedPass { objective: Linear::new(loss, 3, 2.0), learning_rate, clip_norm: 1.0, target_bound: 1.0 }
    /// };
    /// let softmax = Loss::Softmax { classes: 3 }; // curvature at most 1, rows of norm 2
    /// assert!(pass(softmax, 0.4).is_covered() && !pass(softmax, 9.0).is_covered());
    /// assert!(!pass(Loss::Hinge, 1e-3).is_covered() && !pass(Loss::Sigmoid, 1e-3).is_covered());
    /// ```
    pub fn is_covered(&self) -> bool {
        let (facts, row_norm) = (self.objective.loss().facts(), self.objective.row_norm());
        let positive = |x: f64| x > 0.0 && x.is_finite();
        positive(self.learning_rate)
            && positive(self.clip_norm)
            && positive(row_norm)
            && facts.convex
            // squared lengths of gradients are numbers
            && facts.lipschitz.is_some_and(|slope| slope * row_norm < 1e150)
            && facts.lipschitz.is_some()
            && self.learning_rate * self.smoothness() <= 2.0 * (1.0 - 2f64.powi(-40))
    }

    /// Γ: a step brings two points no further apart than by this factor, rounded up.
    pub fn growth(&self) -> f64 {
        (1.0 - 0.25 * self.learning_rate * self.smoothness()).powf(-0.5) * (1.0 + 16.0 * UNIT)
    }

    /// M: so many steps grow a distance by `drift_growth` at most, rounded down.
    pub fn allowed(&self, drift_growth: f64) -> u64 {
        // where Γ is 1 to the last place there is nothing to count: 2^53 steps
        let ratio = drift_growth.ln() / self.growth().ln().max(f64::EPSILON);
        (ratio * (1.0 - 1e-9)).floor().clamp(0.0, 9e15) as u64
    }

    /// V: bound on how far a pass over so many records goes.
    fn longest(&self, records: u64) -> f64 {
        records as f64 * self.learning_rate * self.clip_norm * (1.0 + 2f64.powi(-18))
    }

    /// Bound on how far a computed gradient is from the exact one, at any point that the pass reaches from a start of norm at most `start`.
    fn gradient_error(&self, records: u64, start: f64) -> f64 {
        let facts = self.objective.loss().facts();
        let (Some(curvature), Some(slope)) = (facts.smoothness, facts.lipschitz) else { return f64::INFINITY };
        let (m, row_norm) = (self.objective.features() as f64, self.objective.row_norm());
        let score = (m + 5.0) * UNIT * row_norm * (start + self.longest(records));
        row_norm * (curvature * score + 2.0 * UNIT * slope)
    }

    /// Roundings of a norm and of a clip, relative.
    fn of_a_clip(&self) -> f64 {
        (self.objective.features() as f64 + self.objective.loss().outputs() as f64 + 16.0) * UNIT
    }

    /// Bound on how far the computed norm of a gradient is from the exact one.
    pub fn norm_error(&self, records: u64, start: f64) -> f64 {
        let slope = self.objective.loss().facts().lipschitz.unwrap_or(f64::INFINITY);
        self.gradient_error(records, start) + self.of_a_clip() * slope * self.objective.row_norm()
    }

    /// What rounding adds to the distance between the computed means of two neighbours, before growth; infinite where nothing is proved.
    pub fn rounding(&self, records: u64, start: f64) -> f64 {
        if records.max(self.objective.weights() as u64) > MOST {
            return f64::INFINITY;
        }
        let (t, step, longest) = (records as f64, self.learning_rate * self.clip_norm, self.longest(records));
        let each = self.learning_rate * self.gradient_error(records, start)
            + self.of_a_clip() * step
            + 3.0 * t * UNIT * UNIT * longest;
        (2.0 * t * each + self.of_a_clip() * step + 4.0 * UNIT * longest) * (1.0 + 2f64.powi(-10))
    }

    /// b̄ for one record's presence: how far apart it drives two computed runs at most, and their means, if no more than [`allowed`](Self::allowed)
    /// steps are clipped on either side.
    pub fn reach(&self, records: u64, start: f64, drift_growth: f64) -> f64 {
        let bare = self.learning_rate * self.clip_norm;
        drift_growth * (bare + self.rounding(records, start)) * (1.0 + 8.0 * UNIT)
    }

    /// The pass over records in this order. One without a usable target makes no step.
    pub fn walk(&self, examples: &Examples, order: &[u32], start: &[f64]) -> Walked {
        let (loss, d) = (self.objective.loss(), self.objective.features());
        let (mut path, mut mean) = (Compensated::zero(start.len()), Compensated::zero(start.len()));
        let mut scores = vec![Double::default(); loss.outputs()];
        let mut slopes = vec![Double::default(); loss.outputs()];
        let mut norms = vec![0.0; order.len()];
        for (t, &record) in order.iter().enumerate() {
            if t % STRETCH == 0 {
                stop::point();
            }
            let target = f64::from(examples.targets[record as usize]);
            let Some(target) = loss.usable_target(target, self.target_bound) else { continue };
            let (columns, values) = examples.rows.row(record as usize);
            for (out, score) in scores.iter_mut().enumerate() {
                let entries = columns.iter().zip(values).map(|(&j, &v)| (out * d + j as usize, f64::from(v)));
                *score = Double::from(entries.map(|(j, v)| v * (start[j] + path.get(j))).sum::<f64>());
            }
            double::slope(loss, &scores, target, &mut slopes);
            let size = values.iter().map(|&v| f64::from(v) * f64::from(v)).sum::<f64>();
            let slope = slopes.iter().map(|s| s.hi * s.hi).sum::<f64>();
            let length = (size * slope).sqrt();
            if !(length > 0.0 && length.is_finite()) {
                continue;
            }
            norms[t] = length;
            let shortened = if length > self.clip_norm { self.clip_norm / length } else { 1.0 };
            // its share of the mean: it is in the iterates from its own on
            let weight = (order.len() - t) as f64 / order.len() as f64;
            for (out, slope) in slopes.iter().enumerate() {
                let step = -self.learning_rate * (shortened * slope.hi);
                for (&j, &v) in columns.iter().zip(values) {
                    let change = step * f64::from(v);
                    path.add(out * d + j as usize, change);
                    mean.add(out * d + j as usize, weight * change);
                }
            }
        }
        Walked { mean: (0..start.len()).map(|j| mean.get(j)).collect(), norms }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::norm;
    use crate::loss::Loss;
    use crate::records::Rows;
    use crate::solver::Pass;
    use crate::synthetic::{Lcg, table};

    const LOGISTIC: Loss = Loss::Logistic { shift: 0.0 };
    const SOFTMAX: Loss = Loss::Softmax { classes: 3 };

    fn pass(loss: Loss, features: usize, learning_rate: f64, clip_norm: f64) -> ClippedPass {
        ClippedPass { objective: Linear::new(loss, features, 1.0), learning_rate, clip_norm, target_bound: 1.0 }
    }

    fn distance(a: &[f64], b: &[f64]) -> f64 {
        norm(&a.iter().zip(b).map(|(x, y)| x - y).collect::<Vec<_>>())
    }

    #[test]
    fn of_one_score_it_is_the_pass_that_cuts_slopes() {
        let examples = table(3, 60, 2, 3, 1.0, LOGISTIC);
        let d = examples.rows.columns();
        let order: Vec<u32> = (0..60).rev().collect();
        let start: Vec<f64> = (0..d).map(|j| 0.1 * j as f64).collect();
        let clipped = pass(LOGISTIC, d, 0.7, 0.3).walk(&examples, &order, &start);
        let cut =
            Pass { objective: Linear::new(LOGISTIC, d, 1.0), learning_rate: 0.7, clip_norm: 0.3, target_bound: 1.0 };
        assert!(distance(&clipped.mean, &cut.mean(&examples, &order, &start)) < 1e-14);
        assert!(clipped.norms.iter().any(|n| *n > 0.3) && clipped.norms.iter().any(|n| *n < 0.3 && *n > 0.0));
    }

    /// Liu 2024, Algorithm 40, by hand: f = ½(x − s)², s = (1, −2, 9, ½), η = ½, C = 1: iterates 0, .5, 0, .5 and .5, whose mean after each step is .375.
    #[test]
    fn the_iterates_are_those_of_the_listing() {
        let mut rows = Rows::new(1);
        (0..4).for_each(|_| rows.push_clipped(&mut [(0, 1.0)], 1.0));
        let examples = Examples { rows, targets: vec![1.0, -2.0, 9.0, 0.5] };
        let objective = Linear::new(Loss::Huber { threshold: 100.0 }, 1, 1.0);
        let pass = ClippedPass { objective, learning_rate: 0.5, clip_norm: 1.0, target_bound: 10.0 };
        let walked = pass.walk(&examples, &[0, 1, 2, 3], &[0.0]);
        // a row of norm 1 is kept a little below
        assert!(distance(&walked.mean, &[0.375]) < 1e-6 && distance(&walked.norms, &[1.0, 2.5, 9.0, 0.0]) < 1e-6);
    }

    /// The one-step growth along the worst curvature, by search over its direction: what the lemma says, and no more.
    #[test]
    fn growth_is_the_largest_that_a_step_has() {
        // ‖v − h·P·w‖² for H = ββᵀ of norm β along u, P across the gradient, h = cηβ: all in one plane
        let largest = |product: f64| {
            let along = |angle: f64, of_v: f64| {
                let (u, v) = ([angle.cos(), angle.sin()], [of_v.cos(), of_v.sin()]);
                // the gradient is e₂
                let w = u[0] * (u[0] * v[0] + u[1] * v[1]);
                ((v[0] - product * w).powi(2) + v[1] * v[1]).sqrt()
            };
            let mut best = (0.0, 0.0, 0.0);
            for i in 0..400 {
                for j in 0..400 {
                    let angle = |k: i32| f64::from(k) * std::f64::consts::PI / 400.0;
                    let (a, b) = (angle(i), angle(j));
                    if along(a, b) > best.0 {
                        best = (along(a, b), a, b);
                    }
                }
            }
            let mut width = 0.01;
            for _ in 0..60 {
                for (da, db) in [
                    (1.0, 0.0),
                    (-1.0, 0.0),
                    (0.0, 1.0),
                    (0.0, -1.0),
                    (1.0, 1.0),
                    (-1.0, -1.0),
                    (1.0, -1.0),
                    (-1.0, 1.0),
                ] {
                    let (a, b) = (best.1 + width * da, best.2 + width * db);
                    if along(a, b) > best.0 {
                        best = (along(a, b), a, b);
                    }
                }
                width *= 0.75;
            }
            best.0
        };
        for (product, value) in [
            (0.001, 1.000125023),
            (0.1, 1.0127394),
            (0.5, 1.0690450),
            (1.0, 1.1547005),
            (2.0, std::f64::consts::SQRT_2),
        ] {
            let pass = pass(Loss::Huber { threshold: 1.0 }, 2, product, 1.0);
            let (found, formula) = (largest(product), pass.growth());
            assert!((formula - value).abs() < 2e-7, "{product}: {formula}");
            assert!(found <= formula && found > formula - 1e-6, "{product}: {found} {formula}");
        }
        assert_eq!(format!("{:.6}", pass(Loss::Huber { threshold: 1.0 }, 2, 1.0, 1.0).growth()), "1.154701");
        // M = ⌊ln κ/ln Γ⌋
        let pass = pass(Loss::Huber { threshold: 1.0 }, 2, 0.0029, 1.0);
        assert_eq!(pass.allowed(1.1), (1.1f64.ln() / pass.growth().ln()) as u64);
        assert!((pass.allowed(1.1) as f64 * 0.0029 - 0.762).abs() < 0.004);
    }

    /// Lemma 12.10.2: ‖v − (Π₁g − Π₁h)‖ at vectors with ‖v − (g − h)‖ = C, up to what the points are apart; why clipped steps need a certificate.
    #[test]
    fn clipping_breaks_contraction() {
        let clip = |x: [f64; 2]| {
            let n = x[0].hypot(x[1]).max(1.0);
            [x[0] / n, x[1] / n]
        };
        for (c, expected) in [(0.5, "0.6493"), (1.0, "1.2393"), (3.0, "3.4218"), (10.0, "10.6224"), (100.0, "100.8645")]
        {
            let root = (2.0f64 * c + 1.0).sqrt();
            let (v, g, h) = ([-c, 0.0], [1.0, 0.0], [(2.0 * c + 1.0) / (c + 1.0), c * root / (c + 1.0)]);
            let apart = |a: [f64; 2], b: [f64; 2]| (v[0] - (a[0] - b[0])).hypot(v[1] - (a[1] - b[1]));
            assert!((apart(g, h) - c).abs() < 1e-12);
            let clipped = apart(clip(g), clip(h));
            assert_eq!(format!("{clipped:.4}"), expected);
            assert!(clipped > c);
        }
    }

    /// Pairs of tables that differ in one record, softmax with many clips: wherever no more steps are clipped than allowed (near the clip norm ones are counted
    /// as well), the iterates' means are within the reach.
    #[test]
    fn few_clips_mean_little_drift() {
        let mut random = Lcg::new(31);
        let (mut certified, mut worst) = (0, 0.0f64);
        for trial in 0..400 {
            let n = 40;
            let with = table(trial, n, 2, 4, 1.5, SOFTMAX);
            let d = with.rows.columns();
            let rate = 1.9 * 0.5f64.powi((trial % 6) as i32);
            let clip = 0.4 + 0.9 * random.uniform();
            let pass = pass(SOFTMAX, d, rate, clip);
            assert!(pass.is_covered());
            let (order, start): (Vec<u32>, Vec<f64>) =
                ((0..n as u32).collect(), (0..3 * d).map(|_| random.normal()).collect());
            let mut other = with.clone();
            let place = (40.0 * random.uniform()) as usize;
            other.targets[place] = if trial % 2 == 0 { f32::NAN } else { (with.targets[place] + 1.0) % 3.0 };
            let factor = if trial % 2 == 0 { 1.0 } else { 2.0 };
            let (a, b) = (pass.walk(&with, &order, &start), pass.walk(&other, &order, &start));
            for growth in [1.1, 1.5, 4.0, 30.0] {
                let reach = factor * pass.reach(n as u64, norm(&start), growth);
                let near = clip - pass.smoothness() * reach;
                let clips = a.norms.iter().filter(|x| **x > near).count() as u64;
                if near > 0.0 && clips <= pass.allowed(growth) {
                    certified += 1;
                    let moved = distance(&a.mean, &b.mean);
                    assert!(moved <= reach, "{trial} {growth}: {moved} {reach}");
                    worst = worst.max(moved / reach);
                }
            }
        }
        assert!(certified > 100 && worst > 0.05, "{certified} {worst}");
    }

    #[test]
    fn the_bound_on_rounding_is_above_what_rounding_does() {
        let examples = table(11, 3000, 3, 5, 2.0, SOFTMAX);
        let d = examples.rows.columns();
        let pass = pass(SOFTMAX, d, 1.0, 0.7);
        let order: Vec<u32> = (0..3000).collect();
        let start = vec![100.0; 3 * d];
        let far = pass.walk(&examples, &order, &start);
        // the columns in another order: the same real numbers, other roundings
        let mut swapped = Examples { rows: Rows::new(d), targets: examples.targets.clone() };
        for i in 0..3000 {
            let (columns, values) = examples.rows.row(i);
            let mut entries: Vec<(u32, f32)> =
                columns.iter().zip(values).map(|(&j, &v)| (d as u32 - 1 - j, v)).collect();
            swapped.rows.push_clipped(&mut entries, 1.0);
        }
        let mirrored = pass.walk(&swapped, &order, &start);
        let back: Vec<f64> =
            mirrored.mean.chunks(d).flat_map(|class| class.iter().rev().copied().collect::<Vec<_>>()).collect();
        let gap = distance(&far.mean, &back);
        assert!(gap > 0.0 && gap <= pass.rounding(3000, norm(&start)), "{gap}");
        let of_norms = far.norms.iter().zip(&mirrored.norms).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        let allowed = 2.0 * pass.norm_error(3000, norm(&start));
        assert!(of_norms > 0.0 && of_norms <= allowed + pass.smoothness() * gap * 3000.0, "{of_norms} {allowed}");
        assert!(pass.rounding(1 << 32, 1.0).is_infinite());
    }
}
