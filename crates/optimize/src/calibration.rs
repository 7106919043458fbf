//! The last step of a fit: a few noisy sums over all records from which the model's scores get their scale and the intercept its value, so that
//! probabilities agree with shares and predicted means with means, whatever a clip or a shifted loss made of them (Platt's scaling in a handful of
//! Newton steps). What was released before is only multiplied and moved, so that a linear model stays one.
//!
//! Each sum has the residuals at the present weights and their derivatives ([`Calibration`](dpopt_objective::objective::Calibration)). A step is what the noise leaves of Newton's: with H the derivatives
//! where they are larger than noise, σ the noise of a sum and P the inverse covariance of what the unknowns are off by, (H² + σ²P)⁻¹H times the sum of residuals; after it P is P + H²/σ²
//! (a Kalman filter). Where noise is all there is to see nothing is changed.

use crate::algorithm::{Run, RunError, Solution};
use crate::oracle::NoisySum;
use crate::plan::{Calibrated, Problem};
use crate::planning::sum_grid;
use crate::{RunResult, plan::NotApplicable};
use dpopt_mechanism::{Gaussian, Released};
use dpopt_noise::Grid;
use dpopt_objective::loss::{Loss, sigmoid};
use dpopt_objective::objective::{Calibration, OfRows, Scores, curvature_weight};
use dpopt_objective::solver::Spectrum;
use std::f64::consts::SQRT_2;

/// A usual score over what evenly spread weights would give rows of their expected strength: weights lie where rows are strong.
const UNIT: f64 = 1.5;
/// Mean squared norm of what is in a row besides the intercept, over its bound, where nothing is known of it.
const USUAL_SQUARE: f64 = 0.3;
/// Derivative in the scale over those in the offsets, where the unit is as it should be.
const USUAL_RATIO: f64 = 0.6;
/// [`USUAL_RATIO`] of numbers, whose scores then count as they are, so that nothing is changed where squares are least.
const USUAL_RATIO_OF_NUMBERS: f64 = 0.1;
/// Derivatives over their noise from which on scores need not be held close.
const CLEAR: f64 = 20.0;
/// Eigenvalues of the derivatives below this many times what noise alone has are noise.
const SEEN: f64 = 0.35;
/// Noise in a mean residual with which half of what is to be seen is.
const HALF_SEEN: f64 = 0.1;
/// A usual score of several classes is no larger: where one is so much above the others probabilities no longer change.
const MAX_UNIT: f64 = 2.0;
/// As many residuals as this say as much of how far off the unknowns are as what was expected beforehand.
const SURE: f64 = 3.0;
/// Residuals that are further from 0 than so much of their noise are taken at their word.
const FAR: f64 = 2.0;

/// What the unknowns are expected to be off by, and how far they move in a step: where the loss is a square far, as derivatives stay what they are.
struct Expected {
    offset: f64,
    log_scale: f64,
    furthest_offset: f64,
    furthest_scale: f64,
}

impl Expected {
    fn of(loss: Loss) -> Self {
        match loss {
            // in halves of the target's range
            Loss::Squared => Self { offset: 0.05, log_scale: 0.5, furthest_offset: 0.5, furthest_scale: 4.0 },
            _ => Self { offset: 0.25, log_scale: 0.5, furthest_offset: 1.5, furthest_scale: 0.9 },
        }
    }
}

/// The loss whose scores they are then; `None` for a model that has none.
pub fn calibrated_loss(loss: Loss) -> Option<Loss> {
    match loss {
        Loss::Logistic { .. } => Some(Loss::Logistic { shift: 0.0 }),
        Loss::Softmax { .. } | Loss::Squared | Loss::Poisson { .. } => Some(loss),
        _ => None,
    }
}

fn entries(problem: &Problem, calibrated: &Calibrated) -> usize {
    let unknowns = 1 + calibrated.intercept.map_or(0, |_| problem.loss.outputs());
    problem.weights().max(unknowns + unknowns * (unknowns + 1) / 2)
}

fn grid(problem: &Problem, calibrated: &Calibrated) -> Result<Grid, NotApplicable> {
    let clip = Calibrated::clip_norm(problem.loss);
    sum_grid(clip, problem.calibration_noise(calibrated) * clip, problem.rows, entries(problem, calibrated))
}

/// Refuses what could not be drawn.
pub fn can_calibrate(problem: &Problem) -> Result<(), NotApplicable> {
    problem.calibrated.as_ref().map_or(Ok(()), |calibrated| grid(problem, calibrated).map(drop))
}

/// The method that released what is calibrated.
pub struct Ended {
    /// The loss that the method minimised.
    pub loss: Loss,
    /// What scores of such a method usually have to be multiplied with.
    pub usual_scale: f64,
    /// Bound on the noise in a weight that holds whatever was released.
    pub weight_noise: Option<f64>,
}

/// The released solution of a method, calibrated.
pub fn calibrate<R: OfRows + 'static>(solution: Released<Solution>, method: &Ended, run: Run<'_, R>) -> RunResult {
    let Run { problem, examples, curator, .. } = run;
    let (Some(calibrated), Some(loss)) = (&problem.calibrated, calibrated_loss(problem.loss)) else {
        return Ok(solution);
    };
    let grid =
        grid(problem, calibrated).map_err(|_| RunError::Numerical("the sums for a calibration cannot be drawn"))?;
    let noise = problem.calibration_noise(calibrated);
    let mut solution = solution.into_inner();
    let bound = |bound| vec![bound; solution.weights.len()];
    solution.noise = solution.noise.or_else(|| method.weight_noise.map(bound));
    let seen = visible(noise * Calibrated::clip_norm(loss) / problem.rows as f64);
    let usual = if matches!(loss, Loss::Softmax { .. }) { method.usual_scale } else { 1.0 };
    let start = unshifted(method.loss) * (usual / solution.scaled_by).powf(seen);
    let mut model = Scaled::new(solution, problem, calibrated, start);
    for _ in 0..Calibrated::ROUNDS {
        let told =
            Scores { intercept: model.intercept, origin: model.origin, unit: model.unit, own: model.own.clone() };
        let Some(sums) = Calibration::new(problem.objective().with_loss(loss), told) else {
            return Err(RunError::Numerical("the scores of the released weights have no scale"));
        };
        let entries = entries(problem, calibrated);
        let gaussian = Gaussian::new(noise, Calibrated::clip_norm(loss), grid, entries, "calibration");
        let mut point = model.solution.weights.clone();
        point.resize(entries, 0.0);
        let (unknowns, of_use) = (sums.unknowns(), sums.entries());
        let sum = NoisySum::new(R::over(sums), gaussian)?.release(examples, curator, &point)?;
        model.step(&sum.get()[..of_use], unknowns, noise * Calibrated::clip_norm(loss), &Expected::of(loss));
    }
    Ok(curator.postprocess(model.finished()))
}

/// What the scores of a shifted loss are multiplied with first: they are too large by 1 to 1/(2σ(−shift)) times, as they are far from 0 or near it.
fn unshifted(own: Loss) -> f64 {
    match own {
        Loss::Logistic { shift } if shift > 0.0 => (2.0 * sigmoid(-shift)).sqrt(),
        _ => 1.0,
    }
}

/// What the intercept's weights would be if usual rows had nothing else.
fn own_offsets(solution: &Solution, features: usize, intercept: Option<u32>) -> Vec<f64> {
    let Some(at) = intercept else { return Vec::new() };
    let common = |line: &[f64]| match &solution.usual_row {
        Some(row) => row.iter().zip(line).map(|(t, w)| t * w).sum(),
        None => 0.0,
    };
    solution.weights.chunks_exact(features).map(|line| line[at as usize] + common(line)).collect()
}

/// How much of what was chosen without looking is taken back, as sums with this noise in a mean will see what is right.
fn visible(noise: f64) -> f64 {
    1.0 / (1.0 + (noise / HALF_SEEN).powi(2))
}

/// The matrix of a linear map of so many numbers, row by row.
fn matrix_of(numbers: usize, map: impl Fn(&[f64]) -> Vec<f64>) -> Vec<f64> {
    let mut matrix = vec![0.0; numbers * numbers];
    for b in 0..numbers {
        let mut unit = vec![0.0; numbers];
        unit[b] = 1.0;
        map(&unit).into_iter().enumerate().for_each(|(a, v)| matrix[a * numbers + b] = v);
    }
    matrix
}

/// A solution whose scale and intercept are still open.
struct Scaled {
    solution: Solution,
    loss: Loss,
    rows: f64,
    features: usize,
    outputs: usize,
    intercept: Option<u32>,
    origin: f64,
    unit: f64,
    /// Of the intercept's weights, what is not there to take off what usual rows have in common.
    own: Vec<f64>,
    /// What weights were multiplied with.
    scale: f64,
    /// Inverse variances of what the unknowns are expected to be off by: offsets, and the logarithm of the scale.
    prior: Vec<f64>,
    /// Inverse covariance of what they are off by, after what was found.
    precision: Vec<f64>,
    /// Standard deviations that the last step's noise leaves in the intercept's weights, and in the logarithm of the scale.
    offset_std: f64,
    log_scale_std: f64,
}

impl Scaled {
    fn new(solution: Solution, problem: &Problem, calibrated: &Calibrated, start: f64) -> Self {
        let (features, outputs) = (problem.features, problem.loss.outputs());
        let (intercept, origin) = match calibrated.intercept {
            Some((at, value)) => (Some(at), value),
            None => (None, problem.row_norm),
        };
        let bound = problem.row_norm * problem.row_norm - intercept.map_or(0.0, |_| origin * origin);
        let square = problem.directions.as_ref().map(|directions| {
            let all: f64 = directions.all.iter().map(|d| d.count * d.moment).sum();
            all - intercept.map_or(0.0, |_| origin * origin)
        });
        // of a feature's squared entry, on average
        let others = features.saturating_sub(usize::from(intercept.is_some())).max(1);
        let square = square.filter(|e| *e > 0.0).unwrap_or(USUAL_SQUARE * bound.max(0.0)) / others as f64;
        let own = own_offsets(&solution, features, intercept);
        let expected = Expected::of(problem.loss);
        let mut prior = vec![expected.offset.powi(-2); intercept.map_or(0, |_| outputs)];
        prior.push(expected.log_scale.powi(-2));
        let mut new = Self {
            solution,
            loss: problem.loss,
            rows: problem.rows as f64,
            features,
            outputs,
            intercept,
            origin,
            unit: 1.0,
            own,
            scale: 1.0,
            prior,
            precision: Vec::new(),
            offset_std: 0.0,
            log_scale_std: 0.0,
        };
        let wider = if problem.loss == Loss::Squared { 2.0 } else { 1.0 };
        new.precision = new.prior_precision();
        new.unit = (wider * UNIT * square.sqrt() * new.spread()).clamp(1e-6, 1e6);
        new.multiply(start);
        if outputs > 1 {
            new.unit = new.unit.min(MAX_UNIT);
        }
        let own: Vec<f64> = new.own.iter().map(|b| b * (start - 1.0)).collect();
        new.offset(&own);
        new
    }

    /// Adds to the intercept's weights.
    fn offset(&mut self, by: &[f64]) {
        let Some(at) = self.intercept else { return };
        let lines = self.solution.weights.chunks_exact_mut(self.features);
        for ((line, own), by) in lines.zip(&mut self.own).zip(by) {
            line[at as usize] += by;
            *own += by;
        }
    }

    /// l2 norm of an output's weights without the intercept's and without what all outputs have in common; root mean square over outputs.
    fn spread(&self) -> f64 {
        let column = |j: usize| (0..self.outputs).map(move |c| self.solution.weights[c * self.features + j]);
        let square = |j: usize| -> f64 {
            let mean = if self.outputs > 1 { column(j).sum::<f64>() / self.outputs as f64 } else { 0.0 };
            column(j).map(|w| (w - mean).powi(2)).sum()
        };
        let others = (0..self.features).filter(|&j| self.intercept.is_none_or(|at| at as usize != j));
        (others.map(square).sum::<f64>() / self.outputs as f64).sqrt()
    }

    /// All weights but the intercept's own.
    fn multiply(&mut self, factor: f64) {
        for (c, line) in self.solution.weights.chunks_exact_mut(self.features).enumerate() {
            for (j, weight) in line.iter_mut().enumerate() {
                let own = if self.intercept == Some(j as u32) { self.own[c] } else { 0.0 };
                *weight = own + factor * (*weight - own);
            }
        }
        self.scale *= factor;
        self.unit *= factor;
    }

    fn prior_precision(&self) -> Vec<f64> {
        let unknowns = self.prior.len();
        let mut precision = vec![0.0; unknowns * unknowns];
        self.prior.iter().enumerate().for_each(|(a, p)| precision[a * unknowns + a] = *p);
        precision
    }

    /// What the unknown `at` is multiplied with so that the last one is a logarithm, to the power of `power`.
    fn in_unit(&self, at: usize, power: i32) -> f64 {
        if at + 1 == self.prior.len() { self.unit.powi(power) } else { 1.0 }
    }

    /// Inverse covariance of the unknowns, the last one in scores, before a sum with these residuals: what they are expected to be off by, corrected by how large residuals
    /// are beside what was expected of them.
    fn known(&self, residuals: &[f64], std: f64, derivative: &dyn Fn(&[f64]) -> Vec<f64>) -> Option<Vec<f64>> {
        let unknowns = residuals.len();
        let known: Vec<f64> = (0..unknowns * unknowns)
            .map(|at| self.precision[at] * self.in_unit(at / unknowns, -1) * self.in_unit(at % unknowns, -1))
            .collect();
        let spectrum = Spectrum::of(&known, unknowns)?;
        let derivatives = matrix_of(unknowns, derivative);
        let ratio = |at: usize| {
            // symmetric: a row is a column
            let row = &derivatives[at * unknowns..][..unknowns];
            let expected: f64 =
                spectrum.apply(|w| 1.0 / w.max(f64::MIN_POSITIVE), row).iter().zip(row).map(|(a, b)| a * b).sum();
            residuals[at].powi(2) / (std * std + expected)
        };
        let more = |range: std::ops::Range<usize>| {
            let count = range.len() as f64;
            ((SURE + range.map(ratio).sum::<f64>()) / (SURE + count)).sqrt()
        };
        let (offsets, scale) = (more(0..unknowns - 1), more(unknowns - 1..unknowns));
        let wider = |at: usize| if at + 1 == unknowns { scale } else { offsets };
        Some(known.iter().enumerate().map(|(at, k)| k / (wider(at / unknowns) * wider(at % unknowns))).collect())
    }

    /// One step along a noisy sum, whose entries have noise of `std`.
    fn step(&mut self, sum: &[f64], unknowns: usize, std: f64, expected: &Expected) {
        let (residuals, derivatives) = sum.split_at(unknowns);
        // whatever noise says, a mean residual is at most 1 (of a number: 2; of a count: the largest one)
        let most = self.rows
            * match self.loss {
                Loss::Squared => 2.0,
                Loss::Poisson { top } => top,
                _ => 1.0,
            };
        let residuals: Vec<f64> = residuals.iter().map(|r| r.clamp(-most, most)).collect();
        let residuals = &residuals[..];
        let weight = curvature_weight(self.loss);
        let mut matrix = vec![0.0; unknowns * unknowns];
        let mut each = derivatives.iter();
        for a in 0..unknowns {
            for b in a..unknowns {
                let apart = if a == b { 1.0 } else { SQRT_2 };
                let value = each.next().copied().unwrap_or(0.0) / (weight * apart);
                (matrix[a * unknowns + b], matrix[b * unknowns + a]) = (value, value);
            }
        }
        if self.loss == Loss::Squared && unknowns > 1 {
            matrix[0] = self.rows;
        }
        let Some(spectrum) = Spectrum::of(&matrix, unknowns) else { return };
        // the largest eigenvalue of noise alone is about 2√unknowns times half of an entry's
        let least = 2.0 * SEEN * std / weight * (unknowns as f64).sqrt();
        let score = self.unit;
        let furthest =
            |at: usize| if at + 1 == unknowns { expected.furthest_scale * score } else { expected.furthest_offset };
        // where probabilities lie near 0 or 1 for everybody, derivatives do too, and say nothing of how far it is
        let far = |at: usize| (residuals[at].abs() - FAR * std).max(0.0) / furthest(at);
        let derivative = |v: &[f64]| {
            let mut along = spectrum.apply(|w| (w - least).max(0.0), v);
            along.iter_mut().zip(v).enumerate().for_each(|(at, (sum, v))| *sum += far(at) * v);
            along
        };
        let Some(known) = self.known(residuals, std, &derivative) else { return };
        let mut system = matrix_of(unknowns, |v| derivative(&derivative(v)));
        system.iter_mut().zip(&known).for_each(|(square, known)| *square = known + *square / (std * std));
        let Some(solver) = Spectrum::of(&system, unknowns) else { return };
        let smallest = f64::MIN_POSITIVE.max(1e-14 * solver.eigenvalues().iter().copied().fold(0.0, f64::max));
        let found = solver.apply(|w| 1.0 / (std * std * w.max(smallest)), &derivative(residuals));
        if found.iter().any(|v| !v.is_finite()) {
            return;
        }
        let (offsets, log_scale) = (&found[..unknowns - 1], found[unknowns - 1] / score);
        let largest = offsets.iter().fold(0.0, |most: f64, b| most.max(b.abs()));
        let held = |most: f64, value: f64| if value > most { most / value } else { 1.0 };
        let factor = held(expected.furthest_offset, largest).min(held(expected.furthest_scale, log_scale.abs()));
        if self.intercept.is_some() {
            let moved: Vec<f64> = offsets.iter().map(|offset| -factor * offset / self.origin).collect();
            self.offset(&moved);
        }
        self.precision = match factor < 1.0 {
            // the way was too long to be the end of it
            true => self.prior_precision(),
            false => {
                let at = |at: usize| system[at] * self.in_unit(at / unknowns, 1) * self.in_unit(at % unknowns, 1);
                let precision: Vec<f64> = (0..unknowns * unknowns).map(at).collect();
                let way = found[..unknowns - 1].iter().fold(log_scale.abs(), |most: f64, b| most.max(b.abs()));
                // what a straight line misses on the way, of a curve whose slope changes by itself
                let missed = if self.loss == Loss::Squared { 0.0 } else { way * way / 2.0 };
                let Some(spectrum) = Spectrum::of(&precision, unknowns) else { return };
                matrix_of(unknowns, |v| spectrum.apply(|w| w.max(0.0) / (1.0 + missed * missed * w.max(0.0)), v))
            }
        };
        let left = solver.diagonal(|w| 1.0 / w.max(smallest));
        (self.offset_std, self.log_scale_std) = (left[0].sqrt() / self.origin, left[unknowns - 1].sqrt() / score);
        let of_offsets: f64 = (0..unknowns - 1).map(|a| matrix[a * unknowns + a]).sum();
        let of_scale = matrix[unknowns * unknowns - 1];
        let change = -factor * log_scale;
        self.multiply(if self.loss == Loss::Squared { (1.0 + change).max(0.2) } else { change.exp() });
        // the unit itself, where it is not what scores are: larger where there is little noise, so that all scores count as they are
        let clear = of_offsets / (std * (unknowns as f64).sqrt());
        if self.outputs > 1 {
            self.unit = self.unit.min(MAX_UNIT);
        } else if unknowns > 1 && clear > 4.0 {
            let ratio = match self.loss {
                Loss::Squared => USUAL_RATIO_OF_NUMBERS,
                _ => USUAL_RATIO * (CLEAR / clear).sqrt().clamp(1.0 / 3.0, 1.0),
            };
            self.unit *= (of_scale / of_offsets / ratio).max(0.0).sqrt().clamp(0.25, 4.0);
        }
    }

    fn finished(self) -> Solution {
        let Self { mut solution, features, intercept, scale, offset_std, log_scale_std, .. } = self;
        // scale and offsets moved the weights
        solution.covariance = None;
        if let Some(noise) = &mut solution.noise {
            for (at, (std, weight)) in noise.iter_mut().zip(&solution.weights).enumerate() {
                *std = (*std * scale).hypot(weight * log_scale_std);
                if intercept.is_some_and(|j| at % features == j as usize) {
                    *std = std.hypot(offset_std);
                }
            }
        }
        solution
    }
}
