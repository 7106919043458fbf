//! Weights with their covariance, after Le Cam's one-step estimator (docs/proofs/one-step.md): noisy sums of slopes and curvatures *together*, each in one
//! Gaussian release, a Newton step from each, and at the last one Σφ'²xxᵀ beside them, of which the covariance of sampling follows. That of the noise is
//! known. Everything after the releases is post-processing.
//!
//! Logistic loss: three steps find where to start, the fourth, with most of the budget, is the answer. Squared loss: one step from 0 is exact, and a second
//! release asks for the squared residuals alone.

mod covariance;
mod sums;

use covariance::{NewtonStep, regularised};
use dpopt_mechanism::Gaussian;
use dpopt_noise::Grid;
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::OfRows;
use dpopt_objective::records::Records;
use dpopt_objective::solver::dot;
use dpopt_optimize::algorithm::{ByRow, Capabilities, RowAccess};
use dpopt_optimize::options::OptionReader;
use dpopt_optimize::oracle::NoisySum;
use dpopt_optimize::plan::{Assumption, NotApplicable, Plan, Problem, RecordUnit, Summary};
use dpopt_optimize::planning::{SamplerError, check_problem, noise, require_delta, sum_grid};
use dpopt_optimize::risk::RiskModel;
use dpopt_optimize::{Algorithm, Run, RunError, RunResult, Solution};
use dpopt_privacy::{Budget, Event};
use serde::Serialize;
use sums::{Cut, Parts, StepSums};

/// Options of the one-step estimator: it has none. Nothing is regularised, and all shares are fixed.
#[derive(Clone, Copy, Debug, Default)]
pub struct OneStep;

/// One release of the one-step estimator.
#[derive(Clone, Debug, Serialize)]
pub struct StepRelease {
    /// Noise multiplier, over the clip norm.
    pub noise_multiplier: f64,
    /// C: bound on the norm of a record's whole vector, all parts together.
    pub clip_norm: f64,
    /// Weight of a record's slope in its vector.
    pub slope_weight: f64,
    /// Weight of its curvature, over R.
    pub curvature_weight: f64,
    /// Weight of its squared slope, over R; for the squared loss over B² too, B being four standard deviations of the residuals by the release before.
    pub square_weight: f64,
    /// Weight of its squared target, times R.
    pub target_weight: f64,
    /// log2 of the grid step.
    pub grid_exponent: i32,
}

/// The schedule of the one-step estimator.
#[derive(Clone, Debug, Serialize)]
pub struct OneStepSchedule {
    /// The loss that is minimised.
    pub loss: Loss,
    /// What is released, in order.
    pub releases: Vec<StepRelease>,
}

/// Features beyond which a record's vector is too long: it has d(d + 1) entries.
const LARGEST: usize = 128;
/// Of the logistic loss: share of μ², weight of the curvature and of the squared slope of each step. From 0 all slopes are ½. Elsewhere a curvature
/// p(1 − p) is small where the slope is 1, so that with these weights it makes no vector longer than the slope alone does (docs/proofs/one-step.md).
const LOGISTIC: [(f64, Parts); 4] = [
    (0.08, Parts { slope: 1.0, curvature: 2.0, square: 0.0, target: 0.0 }),
    (0.10, Parts { slope: 1.0, curvature: 3.3, square: 0.0, target: 0.0 }),
    (0.14, Parts { slope: 1.0, curvature: 3.3, square: 0.0, target: 0.0 }),
    (0.68, Parts { slope: 1.0, curvature: 3.8, square: 0.5, target: 0.0 }),
];
/// Weight of a target beside its row in (x, w·y)(x, w·y)ᵀ, and the share of μ² of the moments; the squared residuals have the rest.
const TARGET_WEIGHT: f64 = 0.75;
const MOMENTS_SHARE: f64 = 0.75;
/// Standard deviations of the residuals up to which they count in their square.
const FAR: f64 = 4.0;

/// Share of μ² and parts of each release, and the most that the norm of a vector over R may be.
fn releases(loss: Loss) -> Option<Vec<(f64, Parts, f64)>> {
    match loss {
        Loss::Logistic { shift: 0.0 } => {
            let norm = |(k, (share, parts)): (usize, &(f64, Parts))| (*share, *parts, logistic_norm(parts, k == 0));
            Some(LOGISTIC.iter().enumerate().map(norm).collect())
        }
        Loss::Squared => {
            let root = std::f64::consts::SQRT_2;
            let (curvature, target) = (1.0 / (root * TARGET_WEIGHT), TARGET_WEIGHT / root);
            let moments = Parts { slope: 1.0, curvature, square: 0.0, target };
            let residuals = Parts { square: 1.0, ..Parts::default() };
            let norm = (1.0 + curvature * curvature + target * target).sqrt();
            Some(vec![(MOMENTS_SHARE, moments, norm), (1.0 - MOMENTS_SHARE, residuals, 1.0)])
        }
        _ => None,
    }
}

/// max over slopes s of √(s² + h²s²(1 − s)² + m²s⁴), rounded up; from 0 only s = ½.
fn logistic_norm(parts: &Parts, from_zero: bool) -> f64 {
    let at =
        |s: f64| s * (parts.slope.powi(2) + (parts.curvature * (1.0 - s)).powi(2) + (parts.square * s).powi(2)).sqrt();
    let most = if from_zero { at(0.5) } else { (0..=1000).map(|k| at(f64::from(k) / 1000.0)).fold(0.0, f64::max) };
    // between two of these points it is larger by less than that
    most * (1.0 + 1e-5)
}

impl Algorithm for OneStep {
    type Schedule = OneStepSchedule;
    const NAME: &'static str = "one-step";
    const ABOUT: &'static str =
        "releases noisy sums of slopes and curvatures together; for coefficients with standard errors";
    const CAPABILITIES: Capabilities =
        Capabilities { rows: RowAccess::Passes, reference: true, calibrates: false, ..Capabilities::NONE };

    fn read(_: &OptionReader<'_>) -> Self {
        Self
    }

    fn plan(&self, problem: &Problem, budget: Budget) -> Result<Plan<OneStepSchedule>, NotApplicable> {
        check_problem(problem)?;
        require_delta(budget)?;
        let refuse = |why: String| Err(NotApplicable::Problem(why.into()));
        let Some(parts) = releases(problem.loss) else {
            return refuse(
                "standard errors are known for the logistic loss of two classes, without a shift, and for the squared \
                 loss; take one of these, or choose another method"
                    .into(),
            );
        };
        if problem.record != RecordUnit::Row {
            return refuse(
                "rows of one unit go together, and standard errors are for rows that do not; choose another method"
                    .into(),
            );
        }
        let (d, r) = (problem.features, problem.row_norm);
        if d > LARGEST {
            return refuse(format!(
                "the covariance of {d} weights is too large to find; use at most {LARGEST} features, or choose another \
                 method"
            ));
        }
        let sums = |parts| StepSums { loss: problem.loss, features: d, row_norm: r, parts, slope_bound: 1.0 };
        let draws: f64 = parts.iter().map(|(_, parts, _)| sums(*parts).width() as f64).sum();
        let event = |z: f64| {
            let each = parts.iter().map(|(share, ..)| Event::gaussian(z / share.sqrt())).collect();
            SamplerError::rounded(draws).on(Event::composed(each))
        };
        let (z, certificate) = noise(problem, budget, event)?;
        let release = |(share, parts, norm): &(f64, Parts, f64)| -> Result<StepRelease, NotApplicable> {
            let (noise_multiplier, clip_norm) = (z / share.sqrt(), norm * r);
            let grid = sum_grid(clip_norm, noise_multiplier * clip_norm, problem.rows, sums(*parts).width())?;
            Ok(StepRelease {
                noise_multiplier,
                clip_norm,
                slope_weight: parts.slope,
                curvature_weight: parts.curvature,
                square_weight: parts.square,
                target_weight: parts.target,
                grid_exponent: grid.exponent(),
            })
        };
        let releases = parts.iter().map(release).collect::<Result<Vec<_>, NotApplicable>>()?;
        // the one that the answer is made of
        let main = &releases[if problem.loss == Loss::Squared { 0 } else { releases.len() - 1 }];
        let (noise_multiplier, noise_std) = (main.noise_multiplier, main.noise_multiplier * main.clip_norm);
        Ok(Plan {
            summary: Summary {
                method: Self::NAME,
                loss: problem.loss,
                noise_multiplier,
                steps: releases.len() as u64,
                gradients: problem.rows as f64 * releases.len() as f64,
                weight_noise: None,
                predicted_excess_risk: RiskModel::of(problem).regularized(0.0, noise_std, 0.0),
                certificate,
                assumptions: vec![Assumption::enforced(
                    "slope, curvature and squared slope of a record are one vector, whose norm is at most the clip \
                     norm: enforced in exact integers",
                )],
                warnings: Vec::new(),
            },
            schedule: OneStepSchedule { loss: problem.loss, releases },
        })
    }

    fn run<R: OfRows + 'static>(&self, plan: &Plan<OneStepSchedule>, run: Run<'_, R>) -> RunResult {
        match run.by_row(Self::NAME)? {
            ByRow::Memory(run) => on(&plan.schedule, run),
            ByRow::Disk(run) => on(&plan.schedule, run),
            ByRow::Partitions(_) => Err(RunError::InMemory { method: Self::NAME }),
        }
    }
}

impl StepRelease {
    /// What is asked for: squared slopes up to `slope_bound`, which their weight makes 1.
    fn sums(&self, loss: Loss, problem: &Problem, slope_bound: f64) -> StepSums {
        let parts = Parts {
            slope: self.slope_weight,
            curvature: self.curvature_weight,
            square: self.square_weight / slope_bound.powi(2),
            target: self.target_weight,
        };
        StepSums { loss, features: problem.features, row_norm: problem.row_norm, parts, slope_bound }
    }

    /// The noisy sums at θ.
    fn at<R: Records + OfRows>(&self, sums: StepSums, theta: &[f64], run: &mut Run<'_, R>) -> Result<Cut, RunError> {
        let width = sums.width();
        let grid = Grid::new(self.grid_exponent);
        let noise = Gaussian::new(self.noise_multiplier, self.clip_norm, grid, width, "slopes and curvatures");
        let mut point = vec![0.0; width.max(theta.len())];
        point[..theta.len()].copy_from_slice(theta);
        point.truncate(width);
        let sum = NoisySum::new(sums, noise)?.release(run.examples, run.curator, &point)?;
        run.progress.tick();
        Ok(sums.cut(sum.get()))
    }

    /// Standard deviation of the noise of a part of this weight.
    fn std(&self, weight: f64) -> f64 {
        self.noise_multiplier * self.clip_norm / weight
    }
}

/// All releases, on rows wherever they are.
fn on<R: Records + OfRows>(s: &OneStepSchedule, mut run: Run<'_, R>) -> RunResult {
    let (d, r) = (run.problem.features, run.problem.row_norm);
    run.progress.start(OneStep::NAME, s.releases.len() as u64);
    let (mut theta, mut noise, mut last) = (vec![0.0; d], vec![0.0; d * d], None);
    for release in s.releases.iter().filter(|release| release.slope_weight > 0.0) {
        let sums = release.sums(s.loss, run.problem, 1.0);
        let cut = release.at(sums, &theta, &mut run)?;
        let curvature_std = release.std(release.curvature_weight) * r;
        let (spectrum, added) = regularised(&cut.curvature, d, curvature_std)
            .ok_or(RunError::Numerical("the released curvature has no spectrum"))?;
        let step: Vec<f64> = spectrum.apply(|w| -1.0 / (w + added), &cut.slope);
        theta.iter_mut().zip(&step).for_each(|(t, s)| *t += s);
        let slope_std = release.std(release.slope_weight);
        let step = NewtonStep { spectrum, added, step, slope_std, curvature_std };
        noise = step.noise(&noise);
        last = Some((release, cut, step));
    }
    let Some((release, cut, step)) = last else { return Err(RunError::Numerical("nothing was released")) };
    let (square, square_std) = match s.releases.last() {
        // residuals at the answer
        Some(asked) if asked.slope_weight == 0.0 => {
            let bound = residual_bound(&cut, &theta, run.problem, release.std(release.target_weight) / r);
            let sums = asked.sums(s.loss, run.problem, bound);
            let square = asked.at(sums, &theta, &mut run)?.square;
            (square, asked.std(sums.parts.square) * r)
        }
        _ => (cut.square, release.std(release.square_weight) * r),
    };
    run.progress.finish();
    // Σφ'''(x·e)²x/2 of the logistic loss, whose |φ'''| is at most φ'': half of the most that it can be
    let remainder = if s.loss == Loss::Squared { 0.0 } else { 0.25 * r * step.squared_length(&cut.curvature) };
    let found = step.covariance(&square, square_std, remainder);
    let covariance = found.ok_or(RunError::Numerical("a released matrix has no spectrum"))?;
    let noise = (0..d).map(|j| noise[j * d + j].max(0.0).sqrt()).collect();
    let note = covariance.is_none().then(|| NOT_SEEN.to_string());
    Ok(run.curator.postprocess(Solution { noise: Some(noise), covariance, note, ..theta.into() }))
}

/// Why there is no covariance.
const NOT_SEEN: &str = "there are no standard errors: along some direction of the columns the released curvature is no larger than its noise, so that the answer was \
                        regularised; raise epsilon, or give more rows or fewer columns";

/// B: what residuals count up to, by released moments Σy² and Σyx and Σxxᵀ: Σ(y − θ·x)² = Σy² − 2θ·Σyx + θᵀΣxxᵀθ.
fn residual_bound(moments: &Cut, theta: &[f64], problem: &Problem, target_std: f64) -> f64 {
    let image: Vec<f64> = moments.curvature.chunks_exact(theta.len()).map(|row| dot(row, theta)).collect();
    // slopes from 0 are −y
    let squares = moments.target + 2.0 * dot(theta, &moments.slope) + dot(theta, &image);
    let usual = (squares.max(2.0 * target_std) / problem.rows as f64).sqrt();
    let most = 1.0 + problem.row_norm * dot(theta, theta).sqrt();
    (FAR * usual).clamp(1e-3, most)
}

#[cfg(test)]
mod tests;
