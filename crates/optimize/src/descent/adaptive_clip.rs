//! Full-batch gradient descent whose clip norm follows the records' gradients (Andrew, Thakkar, McMahan, Ramaswamy 2021; spec 17 §5).
//!
//! A loss without a slope bound gets its scale from the residuals, and those shrink while a model is learnt: a clip norm that fits the
//! first step is several times too large for the last, and so is the noise. Before a few of the steps a noisy histogram of
//! gradient norms is released; the clip norm is a quantile of it from then on. Noise multipliers are fixed beforehand, so the event
//! does not depend on what is found. The rate does not either: what scores are worth goes with the size of the residuals, as noise does.

use super::{DescentOptions, default_clip_norm};
use crate::algorithm::{RowAccess, Traits};
use crate::driver::{Course, HeavyBall, drive};
use crate::options::Said;
use crate::options::common::{LEARNING_RATE, MOMENTUM, STEPS};
use crate::oracle::NoisySum;
use crate::plan::{Assumption, NotApplicable, Plan, Problem, Summary};
use crate::planning::{SamplerError, check_problem, clipped, gaussian_mu, noise};
use crate::risk::RiskModel;
use crate::{Algorithm, Run, RunError, RunResult, Solution};
use dpopt_mechanism::Gaussian;
use dpopt_noise::Grid;
use dpopt_objective::objective::{GradientSizes, Linear};
use dpopt_objective::records::Records;
use dpopt_privacy::{Budget, Event};
use serde::Serialize;

/// Options of descent with a clip norm that follows the gradients. `None` means: chosen from public facts.
#[derive(Clone, Debug, Default)]
pub struct AdaptiveClipDescent {
    /// T ≥ 1. Default 400.
    pub steps: Option<u64>,
    /// η > 0 on the mean loss. Default: at most 1/(φ''·R²), less where noise would be too large.
    pub learning_rate: Option<f64>,
    /// β in [0, 1). Default 0.95.
    pub momentum: Option<f64>,
}

/// The schedule of descent with a clip norm that follows the gradients.
#[derive(Clone, Debug, Serialize)]
pub struct AdaptiveClipSchedule {
    /// T.
    pub steps: u64,
    /// η on the mean loss.
    pub learning_rate: f64,
    /// β.
    pub momentum: f64,
    /// C of the steps before the first histogram.
    pub first_clip_norm: f64,
    /// Steps before which a histogram of gradient norms is released.
    pub looks: Vec<u64>,
    /// Cells of a histogram, the largest norm in the first, and the ratio of one's end to the next.
    pub cells: usize,
    /// See `cells`.
    pub smallest: f64,
    /// See `cells`.
    pub ratio: f64,
    /// Share of the records whose gradients are not clipped, at the time of the histogram.
    pub quantile: f64,
    /// Noise standard deviation of a histogram's cell.
    pub sizes_multiplier: f64,
    /// Noise standard deviation of a gradient sum, over C.
    pub noise_multiplier: f64,
}

/// Share of records that are not clipped: noise over curvature, C/P(|r| < C), is within a fifth of its smallest for residuals of any
/// bell shape, and a mean is still nearly one.
const QUANTILE: f64 = 0.7;
/// Cells end at 2^(k/2)·R/50: from a fiftieth of the targets' bound to 4 times it.
const CELLS: usize = 17;
const FIRST_END: f64 = 0.02;
const RATIO: f64 = std::f64::consts::SQRT_2;
/// Looks and their share of μ², the most looks first: taken where a quantile of the histogram is good to a twentieth of the records.
const LOOKS: [(u32, f64); 3] = [(5, 0.03), (3, 0.06), (2, 0.1)];
const WELL_COUNTED: f64 = 0.05;
/// Residuals to expect once a model is learnt, over the targets' bound: what plans are made for. Scores are expected to vary by
/// .43 of it (`risk`), so this says that they are 1.24 times as large as residuals, whatever the scale of both.
const EXPECTED_CLIP: f64 = 0.35;
/// Standard deviation of the count up to a quantile: it sums up to all cells of a histogram, each with its noise.
fn spread((looks, share): (u32, f64), mu: f64) -> f64 {
    (CELLS as f64 * f64::from(looks) / share).sqrt() / mu
}

/// How many histograms tell the sizes of residuals from noise, and their share of μ²; `None` where there are too few rows or steps.
fn looks(rows: u64, mu: f64, steps: u64) -> Option<(u32, f64)> {
    let fits = |look: &(u32, f64)| spread(*look, mu) <= WELL_COUNTED * rows as f64 && look.0 < steps.max(1).ilog2();
    LOOKS.into_iter().find(fits)
}

/// The clip norm that gradients have once a model is learnt: what encoders are compared by.
pub(super) fn expected_clip_norm(problem: &Problem, mu: f64) -> f64 {
    let first = default_clip_norm(problem);
    match looks(problem.rows, mu, STEPS_OF_DEFAULT) {
        Some(_) if problem.loss.facts().lipschitz.is_none() => first.min(EXPECTED_CLIP * problem.row_norm),
        _ => first,
    }
}

/// Steps where none are asked for.
const STEPS_OF_DEFAULT: u64 = 400;

impl AdaptiveClipDescent {
    /// Steps, rate and momentum as every descent checks them.
    fn descent(&self, clip_norm: f64) -> DescentOptions {
        DescentOptions {
            steps: self.steps.or(Some(STEPS_OF_DEFAULT)),
            learning_rate: self.learning_rate,
            momentum: self.momentum,
            clip_norm: Some(clip_norm),
            ..DescentOptions::default()
        }
    }
}

impl Algorithm for AdaptiveClipDescent {
    type Schedule = AdaptiveClipSchedule;
    const NAME: &'static str = "adaptive-clip-descent";
    const ABOUT: &'static str = "releases noisy sums of gradients over all rows, clipped to a norm that follows noisy histograms of the residuals; best for regression";
    const TRAITS: Traits = Traits { rows: RowAccess::Passes, ..Traits::NONE };

    fn read(said: &Said<'_>) -> Self {
        Self { steps: said.get(&STEPS), learning_rate: said.get(&LEARNING_RATE), momentum: said.get(&MOMENTUM) }
    }

    fn plan(&self, problem: &Problem, budget: Budget) -> Result<Plan<AdaptiveClipSchedule>, NotApplicable> {
        check_problem(problem)?;
        if problem.loss.facts().lipschitz.is_some() {
            return Err(NotApplicable::Problem(
                "the slope of this loss is bounded whatever the residuals are; a clip norm that follows them is for squared loss".into(),
            ));
        }
        let first = default_clip_norm(problem);
        let expected = EXPECTED_CLIP * problem.row_norm;
        let recipe = self.descent(expected).recipe(problem, budget)?;
        let (steps, weights) = (recipe.steps, problem.weights());
        let mu = gaussian_mu(problem, budget)?;
        let choice = looks(problem.rows, mu, steps);
        let Some((looks, share)) = choice else {
            let least = spread(LOOKS[LOOKS.len() - 1], mu) / WELL_COUNTED;
            return Err(NotApplicable::Problem(format!(
                "the sizes of residuals can't be told from noise: it takes {least:.0} rows at this budget, and 8 steps or more"
            )));
        };
        // at T/2, T/4, ...: the last before the steps that are averaged
        let places: Vec<u64> = (1..=looks).rev().map(|k| steps >> k).collect();
        let (sizes_of, sum_of) = (
            move |t: f64| t * (f64::from(looks) / share).sqrt(),
            move |t: f64| t * (steps as f64 / (1.0 - share)).sqrt(),
        );
        let draws = steps as f64 * weights as f64 + f64::from(looks) * weights.max(CELLS) as f64;
        let event = |t: f64| {
            let parts = vec![
                Event::gaussian(sizes_of(t)).self_composed(u64::from(looks)),
                Event::gaussian(sum_of(t)).self_composed(steps),
            ];
            SamplerError::rounded(draws).on(Event::composed(parts))
        };
        let (t, certificate) = noise(problem, budget, event)?;
        let noise_multiplier = sum_of(t);
        let schedule = AdaptiveClipSchedule {
            steps,
            learning_rate: recipe.learning_rate,
            momentum: recipe.momentum,
            first_clip_norm: first,
            looks: places,
            cells: CELLS,
            smallest: FIRST_END * problem.row_norm,
            ratio: RATIO,
            quantile: QUANTILE,
            sizes_multiplier: sizes_of(t),
            noise_multiplier,
        };
        let time = recipe.time();
        let flat_noise = time * noise_multiplier * expected / (problem.rows as f64 * (steps as f64).sqrt());
        let summary = Summary {
            method: Self::NAME,
            loss: problem.loss,
            noise_multiplier,
            steps,
            gradients: problem.rows as f64 * steps as f64,
            // the noise follows what is found
            weight_noise: None,
            predicted_excess_risk: RiskModel::of(problem).learning_time(time, flat_noise),
            certificate,
            assumptions: vec![
                clipped(),
                Assumption::enforced(
                    "a record is in one cell of a histogram of gradient norms: a clipped vector like a gradient",
                ),
            ],
            warnings: Vec::new(),
        };
        Ok(Plan { schedule, summary })
    }

    fn run<R: Records + 'static>(&self, plan: &Plan<AdaptiveClipSchedule>, run: Run<'_, R>) -> RunResult {
        let Run { problem, examples, curator, progress } = run;
        let s = &plan.schedule;
        let (objective, weights) = (problem.objective(), problem.weights());
        let sizes = s.sizes(objective, problem)?;
        let mut gradients = s.gradients(objective, problem, s.first_clip_norm)?;
        let mut driver = HeavyBall::new(weights, s.momentum, None, |_| (s.learning_rate, 1.0));
        let per_record = 1.0 / problem.rows as f64;
        let course = Course { steps: s.steps, first_averaged: s.steps / 2, per_record };
        progress.start(Self::NAME, s.steps);
        // Σ of the squared noise that steps leave where nothing pulls back
        let (mut step, mut clip, mut variance) = (0, s.first_clip_norm, 0.0);
        let one_step = s.learning_rate / (1.0 - s.momentum) * s.noise_multiplier * per_record;
        let answer = drive(&mut driver, course, vec![0.0; weights], progress, |theta| {
            if s.looks.contains(&step) {
                let mut point = theta.to_vec();
                point.resize(weights.max(s.cells), 0.0);
                clip = s.clip_norm(sizes.release(examples, curator, &point)?.get());
                gradients = s.gradients(objective, problem, clip)?;
            }
            step += 1;
            variance += (one_step * clip).powi(2);
            gradients.release(examples, curator, theta)
        })?;
        progress.finish();
        Ok(curator.answer(Solution { noise: Some(vec![variance.sqrt(); weights]), weights: answer }))
    }
}

impl AdaptiveClipSchedule {
    fn sizes(&self, objective: Linear, problem: &Problem) -> Result<NoisySum<GradientSizes<Linear>>, RunError> {
        let dimension = problem.weights().max(self.cells);
        let grid = Grid::for_sum(1.0, self.sizes_multiplier, problem.rows, dimension);
        let noise = Gaussian::new(self.sizes_multiplier, 1.0, grid, dimension, "sizes of gradients");
        Ok(NoisySum::new(GradientSizes::new(objective, self.smallest, self.ratio, self.cells), noise)?)
    }

    fn gradients(&self, objective: Linear, problem: &Problem, clip: f64) -> Result<NoisySum<Linear>, RunError> {
        let (z, weights) = (self.noise_multiplier, problem.weights());
        let grid = Grid::for_sum(clip, z * clip, problem.rows, weights);
        Ok(NoisySum::new(objective, Gaussian::new(z, clip, grid, weights, "gradient sum"))?)
    }

    /// The cell of a gradient's norm.
    pub fn cell(&self, norm: f64) -> usize {
        GradientSizes::new((), self.smallest, self.ratio, self.cells).cell(norm)
    }

    /// C after a histogram: the end of the first cell up to which a share of `quantile` of the noisy counts lies; at most the first
    /// clip norm.
    pub fn clip_norm(&self, counts: &[f64]) -> f64 {
        let counts = &counts[..self.cells];
        let wanted = self.quantile * counts.iter().sum::<f64>();
        let mut below = 0.0;
        let cell = counts.iter().position(|count| {
            below += count;
            below >= wanted
        });
        let sizes = GradientSizes::new((), self.smallest, self.ratio, self.cells);
        cell.map_or(self.first_clip_norm, |cell| sizes.end(cell)).min(self.first_clip_norm)
    }
}
