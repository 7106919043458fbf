//! Noisy descent: one recipe and one loop for full batches, Poisson batches and streams (docs/proofs/noisy-gradient-descent.md).
//!
//! T steps of v ← βv + (Σ clip(∇φ_i) + noise)/(qn), θ ← aθ − ηv. Only the learning time s = ηT/(1−β) decides what noise and
//! data do to the answer (a direction without curvature ends with noise s·C/(μn)), so s is chosen by the noise that is
//! tolerable and T by stability. The methods differ in the batches and in the law of the noise, nothing else.

mod adaptive_clip;
mod full_batch;
mod lazy;
mod pace;
mod stochastic;
mod streaming;

pub use adaptive_clip::{AdaptiveClipDescent, AdaptiveClipSchedule};
pub use full_batch::NoisyGradientDescent;
pub use stochastic::NoisySgd;
pub(crate) use stochastic::train;
pub use streaming::{DpFtrl, StreamSchedule};

use crate::choices::RateSchedule;
use dpopt_mechanism::progress::Progress;
use dpopt_mechanism::{Gaussian, Released};
use dpopt_noise::Grid;
use dpopt_objective::loss::Loss;
use dpopt_optimize::driver::{Course, Driver, HeavyBall, drive};
use dpopt_optimize::options::common::{CLIP_NORM, LEARNING_RATE, MOMENTUM, REGULARIZATION, STEPS};
use dpopt_optimize::options::{Choice, OptionReader, Setting};
use dpopt_optimize::plan::{Assumption, NotApplicable, Plan, Problem, Summary};
use dpopt_optimize::planning::{
    asked_or_stable_rate, asked_steps, check_decay, check_problem, clipped, gaussian_mu, in_range, noise, positive,
    products, require_delta, sum_grid,
};
use dpopt_optimize::risk::RiskModel;
use dpopt_optimize::{RunError, Solution};
use dpopt_privacy::{Budget, Event};
use dpopt_refusal::option;
use serde::Serialize;

static RATE_SCHEDULE: Setting<RateSchedule> = Setting::choice(
    "rate_schedule",
    &[
        Choice { word: "constant", meaning: "a constant step size", value: RateSchedule::Constant },
        Choice { word: "linear", meaning: "falls linearly to an eighth", value: RateSchedule::Linear },
        Choice { word: "cosine", meaning: "falls along half a cosine to a hundredth", value: RateSchedule::Cosine },
        Choice {
            word: "inverse-sqrt",
            meaning: "falls as 1/√(1 + stage), in eight stages",
            value: RateSchedule::InverseSqrt,
        },
    ],
    "how the step size falls during the run [default: constant]",
);

/// Options that every noisy descent has. `None` means: chosen from public facts.
#[derive(Clone, Debug, Default)]
pub struct DescentOptions {
    /// T ≥ 1. Default: from the learning time, at most 400; for several classes at most 80, or more where that takes seconds.
    pub steps: Option<u64>,
    /// η > 0 on the *mean* loss, the largest of all steps. Default: at most 1/(φ''·R²), less if the learning time asks for it.
    pub learning_rate: Option<f64>,
    /// How the rate falls during the run. Default: not at all.
    pub rate_schedule: RateSchedule,
    /// C > 0: l2 bound on a record's gradient. Default: half of the loss's own bound R·sup|φ'|; a quarter for several classes.
    pub clip_norm: Option<f64>,
    /// β in [0, 1). Default 0.95; 0.9 for several classes, 0.5 for quantiles.
    pub momentum: Option<f64>,
    /// Weight decay λ ≥ 0 in units of the sum of losses. Default 0.
    pub regularization: Option<f64>,
    /// What is returned. Default: the mean of the last half of the iterates.
    pub average: Average,
    /// Whether labels are what the answer is for, which follow the order of scores alone: it is learnt as long as that gains, then scaled. So it always is for
    /// several classes.
    pub by_order: bool,
}

impl DescentOptions {
    /// Reads the options that the user gave.
    pub(crate) fn read(options: &OptionReader<'_>) -> Self {
        Self {
            steps: options.get(&STEPS),
            learning_rate: options.get(&LEARNING_RATE),
            rate_schedule: options.get(&RATE_SCHEDULE).unwrap_or_default(),
            clip_norm: options.get(&CLIP_NORM),
            momentum: options.get(&MOMENTUM),
            regularization: options.get(&REGULARIZATION),
            ..Self::default()
        }
    }
}

/// Stages of a [`RateSchedule`].
pub(crate) const STAGES: u64 = 8;

impl RateSchedule {
    /// Rate of a stage over the largest one.
    fn of_stage(self, stage: u64) -> f64 {
        let (k, n) = (stage as f64, STAGES as f64);
        match self {
            Self::Constant => 1.0,
            Self::Linear => (n - k) / n,
            // from the middle of each stage, over that of the first
            Self::Cosine => {
                let middle = |k: f64| 1.0 + (std::f64::consts::PI * (k + 0.5) / n).cos();
                middle(k) / middle(0.0)
            }
            Self::InverseSqrt => 1.0 / (1.0 + k).sqrt(),
        }
    }

    /// Rate of step t of T over the largest one.
    pub(crate) fn factor(self, step: u64, steps: u64) -> f64 {
        self.of_stage((u128::from(step) * u128::from(STAGES) / u128::from(steps.max(1))) as u64)
    }

    /// First steps of the stages of a run of T steps, increasing; a stage without a step has none.
    pub(crate) fn starts(self, steps: u64) -> Vec<u64> {
        let stages = if self == Self::Constant { 1 } else { STAGES };
        let mut starts: Vec<u64> =
            (0..stages).map(|k| (u128::from(k) * u128::from(steps)).div_ceil(u128::from(stages)) as u64).collect();
        starts.dedup();
        starts.retain(|&start| start < steps);
        starts
    }

    /// Mean of the factors of T steps, and root of the mean of their squares.
    fn moments(self, steps: u64) -> (f64, f64) {
        let starts = self.starts(steps);
        let ends = starts.iter().skip(1).copied().chain([steps]);
        let (mut first, mut second) = (0.0, 0.0);
        for (start, end) in starts.iter().zip(ends) {
            let (factor, share) = (self.factor(*start, steps), (end - start) as f64 / steps as f64);
            first += factor * share;
            second += factor * factor * share;
        }
        (first, second.sqrt())
    }

    /// Mean of the factors of T steps.
    pub(crate) fn mean(self, steps: u64) -> f64 {
        self.moments(steps).0
    }
}

/// Which iterates make the answer; all are released, so this is post-processing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Average {
    /// Mean of the last half: less noise, the default.
    #[default]
    LastHalf,
    /// Mean of all iterates after the first step: what bounds on the excess risk are proved for.
    All,
    /// The last iterate.
    Last,
}

/// The schedule of gradient descent, full-batch (`sampling_probability` 1) or stochastic.
#[derive(Clone, Debug, Serialize)]
pub struct DescentSchedule {
    /// The loss that is minimised.
    pub loss: Loss,
    /// T: number of noisy steps.
    pub steps: u64,
    /// η on the mean loss, the largest of all steps.
    pub learning_rate: f64,
    /// How the learning rate falls during the run.
    pub rate_schedule: RateSchedule,
    /// β: momentum of the heavy ball.
    pub momentum: f64,
    /// C: l2 clip norm of a record's gradient.
    pub clip_norm: f64,
    /// z: noise standard deviation of the *sum*, over C.
    pub noise_multiplier: f64,
    /// Noise standard deviation of the sum, per coordinate.
    pub noise_std: f64,
    /// q: probability of a record to be in a batch; 1 for full batches.
    pub sampling_probability: f64,
    /// λ of the sum objective.
    pub regularization: f64,
    /// Which iterates make the answer.
    pub average: Average,
    /// What that is multiplied with: the order of scores stays, and they become no surer than their noise allows.
    pub answer_scale: f64,
    /// log2 of the grid step.
    pub grid_exponent: i32,
    /// When the noise of coordinates that a batch does not touch is drawn: `lazily`, or `at each step` and why.
    pub noise_drawn: String,
}

/// Noise std of a score that is tolerable in a flat direction, in units of a useful score (κ = 3 for
/// classification, chosen on synthetic tables); scores of regression targets in [−1, 1] are ten times smaller.
pub(crate) fn tolerable_noise(loss: Loss) -> f64 {
    match loss {
        Loss::Logistic { .. } | Loss::Softmax { .. } | Loss::Sigmoid => 3.0,
        Loss::Hinge | Loss::SmoothedHinge { .. } => 1.0,
        Loss::Squared | Loss::Absolute | Loss::Huber { .. } | Loss::Quantile { .. } => 0.3,
        Loss::Poisson { .. } => 1.0,
    }
}

/// Noise std of a score at which bias and the noise of gradients clipped to `clip_norm` balance, where the rows' directions are known; the tolerable noise of the
/// loss elsewhere.
pub(crate) fn balanced_noise(problem: &Problem, clip_norm: f64, mu: f64) -> f64 {
    let balanced = |model: RiskModel| {
        model.clipped(clip_norm, problem.lipschitz()).tolerable_noise(clip_norm / mu, problem.row_norm)
    };
    match (&problem.directions, problem.loss) {
        // of several classes only the order of scores counts: what the noise may be does not depend on the encoder
        (_, loss @ Loss::Softmax { .. }) => tolerable_noise(loss),
        (Some(_), _) => balanced(RiskModel::of(problem)),
        (None, Loss::Squared | Loss::Poisson { .. } | Loss::Quantile { .. }) => {
            balanced(RiskModel::of_numbers(problem))
        }
        (None, loss) => tolerable_noise(loss),
    }
}

/// The excess risk to expect, whatever the method: what encoders are compared by. Of the same records and loss only.
///
/// # Errors
/// If the budget has no Gaussian noise.
pub fn expected_risk(problem: &Problem, budget: Budget) -> Result<f64, NotApplicable> {
    let mu = gaussian_mu(problem, budget)?;
    let clip_norm = adaptive_clip::expected_clip_norm(problem, mu);
    let model = RiskModel::of(problem).clipped(clip_norm, problem.lipschitz());
    Ok(model.balanced(clip_norm / mu, problem.row_norm))
}

/// Default clip norm: half of what the loss's slope bound allows; half the target range for squared loss. Of several classes a
/// quarter: there slopes are near √(1 − 1/K) and not √2 for as long as scores are small, and what only shortens the gradients of all
/// records shortens the noise as much. Of counts twice the usual one: means of what is clipped on one side are too small. Of a
/// quantile the whole: a clip would cut the slopes of one side only, and that is another level.
pub(crate) fn default_clip_norm(problem: &Problem) -> f64 {
    let share = match problem.loss {
        Loss::Poisson { .. } => return 2.0 * problem.row_norm,
        Loss::Softmax { .. } => 0.25,
        Loss::Quantile { .. } => 1.0,
        _ => 0.5,
    };
    share * problem.row_norm * problem.loss.facts().lipschitz.unwrap_or(1.0)
}

/// The largest rate on the mean loss. Softmax of K classes has a curvature of 1/K where scores are small, and clipped records have
/// less of it: 3K times what is stable at its worst (½, between two classes). On generated tables rates twice as large still were.
/// The curvature of a count's loss is its mean: over all records twice the usual count and not the largest one, which clips keep to. That of a quantile's is the
/// density of residuals at its corner: about 1, or a few times that.
fn largest_rate(problem: &Problem) -> Result<f64, NotApplicable> {
    let stable = asked_or_stable_rate(None, problem)?;
    Ok(match problem.loss {
        Loss::Softmax { classes } => 3.0 * f64::from(classes) * stable,
        Loss::Poisson { top } => 0.5 * top * stable,
        Loss::Quantile { width, .. } => 0.5 / width * stable,
        _ => stable,
    })
}

/// Steps of a descent for several classes: 80 are enough where noise is what limits it; where there is little, large weights take longer, as far as that takes seconds.
fn most_steps(problem: &Problem) -> u64 {
    (QUICK / products(problem, problem.rows as f64)).clamp(80.0, 400.0) as u64
}

/// Products of entries with weights that a descent for several classes may take beyond its 80 steps: a few seconds.
const QUICK: f64 = 4e9;

/// All numbers of a descent but its noise.
pub(crate) struct Recipe {
    pub(crate) steps: u64,
    pub(crate) learning_rate: f64,
    pub(crate) rates: RateSchedule,
    pub(crate) momentum: f64,
    pub(crate) clip_norm: f64,
    pub(crate) regularization: f64,
    pub(crate) average: Average,
    /// Whether the answer is scaled to the size that the data can tell.
    pub(crate) scaled: bool,
    /// ηT/(1−β) at which full-batch noise is just tolerable, and the rate beyond which descent is unstable.
    pub(crate) tolerable_time: f64,
    pub(crate) largest_rate: f64,
}

impl DescentOptions {
    /// Checks the options and fills in the defaults from public facts.
    pub(crate) fn recipe(&self, problem: &Problem, budget: Budget) -> Result<Recipe, NotApplicable> {
        check_problem(problem)?;
        require_delta(budget)?;
        let several = matches!(problem.loss, Loss::Softmax { .. });
        let by_order = several || self.by_order;
        let momentum = self.momentum.unwrap_or(match problem.loss {
            Loss::Softmax { .. } => 0.9,
            // one slope is up to nine times the other: what went too far comes back slowly
            Loss::Quantile { .. } => 0.5,
            _ => 0.95,
        });
        let momentum = in_range(option("momentum"), momentum, 0.0, 0.999)?;
        let clip_norm = positive("the clip norm", self.clip_norm.unwrap_or_else(|| default_clip_norm(problem)))?;
        let regularization = in_range("the regularization", self.regularization.unwrap_or(0.0), 0.0, f64::MAX)?;
        let n = problem.rows as f64;
        let mu = gaussian_mu(problem, budget)?;
        // κ is in units of a score; weights of rows of norm R are 1/R times that
        let tolerable = if by_order { tolerable_noise(problem.loss) } else { balanced_noise(problem, clip_norm, mu) };
        let time = tolerable / problem.row_norm * mu * n / clip_norm;
        let largest = match self.learning_rate {
            Some(rate) => asked_or_stable_rate(Some(rate), problem)?,
            None => largest_rate(problem)?,
        };
        let schedule = self.rate_schedule;
        // a falling rate takes longer for the same learning time
        let wanted = (time * (1.0 - momentum) / (largest * schedule.mean(STAGES))).ceil();
        let steps = match asked_steps(self.steps)? {
            Some(steps) => steps,
            // in a steep direction momentum swings, and a swing shrinks by √β a step: 10/(1−β) steps leave e⁻⁵ of it; beyond 400
            // only time is lost. A swing of scores does not change which class is first
            None if several => (wanted as u64).max((6.0 / (1.0 - momentum)).ceil() as u64).min(most_steps(problem)),
            None => (wanted as u64).max((10.0 / (1.0 - momentum)).ceil() as u64).min(400),
        };
        let learning_rate = match self.learning_rate {
            Some(rate) => rate,
            None => largest.min(time * (1.0 - momentum) / (steps as f64 * schedule.mean(steps))),
        };
        // weight decay acts on the weights themselves: a = 1 − ηλ/(n(1−β)) has the fixed point of a ridge term in the gradient
        let decay = learning_rate * regularization / (n * (1.0 - momentum));
        check_decay(decay, regularization, learning_rate)?;
        Ok(Recipe {
            steps,
            learning_rate,
            rates: schedule,
            momentum,
            clip_norm,
            regularization,
            average: self.average,
            // who chose a rate gets the steps as they are
            scaled: by_order && self.learning_rate.is_none(),
            tolerable_time: time,
            largest_rate: largest,
        })
    }
}

/// How a descent releases its gradients: what is left to say after the recipe.
pub(crate) struct Releases<E> {
    /// Name as in `--method`.
    pub(crate) method: &'static str,
    /// q: probability of a record to be in a batch; 1 for full batches.
    pub(crate) sampling_probability: f64,
    /// Event of all steps for a noise multiplier.
    pub(crate) event: E,
    /// What the guarantee rests on besides the clip.
    pub(crate) assumptions: Vec<Assumption>,
    /// The text of [`DescentSchedule::noise_drawn`].
    pub(crate) noise_drawn: String,
}

impl Recipe {
    /// Σ η_t/(1−β): the learning time.
    pub(crate) fn time(&self) -> f64 {
        self.learning_rate * self.steps as f64 * self.rates.mean(self.steps) / (1.0 - self.momentum)
    }

    /// The certified plan of T releases of noisy gradient sums.
    pub(crate) fn plan<E: Fn(f64) -> Event>(
        self,
        problem: &Problem,
        budget: Budget,
        releases: Releases<E>,
    ) -> Result<Plan<DescentSchedule>, NotApplicable> {
        let (noise_multiplier, certificate) = noise(problem, budget, releases.event)?;
        let noise_std = noise_multiplier * self.clip_norm;
        let dimension = problem.weights();
        let (n, q, steps) = (problem.rows as f64, releases.sampling_probability, self.steps as f64);
        let time = self.time();
        // noise of the steps' different rates over that of equal ones
        let (mean, root) = self.rates.moments(self.steps);
        let spread = root / mean / steps.sqrt();
        // noise of the mechanism, and of the choice of the batch, on the mean gradient
        let choice = self.clip_norm * ((1.0 - q) / (q * n) / dimension as f64).sqrt();
        let flat_noise = time * (noise_std / (q * n)).hypot(choice) * spread;
        let model = RiskModel::of(problem).clipped(self.clip_norm, problem.lipschitz());
        let (answer_scale, predicted_excess_risk) = match self.scaled {
            true => model.scaled_learning_time(time, flat_noise),
            false => (1.0, model.learning_time(time, flat_noise)),
        };
        Ok(Plan {
            summary: Summary {
                method: releases.method,
                loss: problem.loss,
                noise_multiplier,
                steps: self.steps,
                gradients: q * n * steps,
                weight_noise: Some(answer_scale * time * noise_std / (q * n) * spread),
                predicted_excess_risk,
                certificate,
                assumptions: std::iter::once(clipped()).chain(releases.assumptions).collect(),
                warnings: Vec::new(),
            },
            schedule: DescentSchedule {
                answer_scale,
                ..self.schedule(problem, (noise_multiplier, noise_std), q, releases.noise_drawn)?
            },
        })
    }

    /// The schedule with a noise multiplier z and standard deviation of the sum's noise, on batches of probability q.
    fn schedule(
        &self,
        problem: &Problem,
        (noise_multiplier, noise_std): (f64, f64),
        q: f64,
        noise_drawn: String,
    ) -> Result<DescentSchedule, NotApplicable> {
        let grid = sum_grid(self.clip_norm, noise_std, problem.rows, problem.weights())?;
        Ok(DescentSchedule {
            loss: problem.loss,
            steps: self.steps,
            learning_rate: self.learning_rate,
            rate_schedule: self.rates,
            momentum: self.momentum,
            clip_norm: self.clip_norm,
            noise_multiplier,
            noise_std,
            sampling_probability: q,
            regularization: self.regularization,
            average: self.average,
            answer_scale: 1.0,
            grid_exponent: grid.exponent(),
            noise_drawn,
        })
    }
}

impl DescentSchedule {
    /// 1/(qn): gradient sums become means of the *planned* number of records, never of the drawn one.
    pub fn per_record(&self, problem: &Problem) -> f64 {
        1.0 / (self.sampling_probability * problem.rows as f64)
    }

    /// η_t: learning rate of a step.
    pub fn rate(&self, step: u64) -> f64 {
        self.learning_rate * self.rate_schedule.factor(step, self.steps)
    }

    /// a_t = 1 − η_t·λ/(n(1−β)).
    pub fn decay(&self, problem: &Problem, step: u64) -> f64 {
        1.0 - self.rate(step) * self.regularization / (problem.rows as f64 * (1.0 - self.momentum))
    }

    /// v ← βv + g, θ ← a_tθ − η_tv.
    pub(crate) fn heavy_ball(&self, problem: &Problem) -> HeavyBall<impl Fn(u64) -> (f64, f64)> {
        let rule = |step| (self.rate(step), self.decay(problem, step));
        HeavyBall::new(problem.weights(), self.momentum, None, rule)
    }

    /// The noise of its sums of so many weights.
    pub(crate) fn noise(&self, weights: usize, label: &'static str) -> Gaussian {
        Gaussian::new(self.noise_multiplier, self.clip_norm, Grid::new(self.grid_exponent), weights, label)
    }

    /// The answer in its scale: post-processing by a public number.
    pub(crate) fn scaled(&self, solution: Solution) -> Solution {
        solution.scaled(self.answer_scale)
    }

    /// The first step whose iterate is averaged.
    pub(crate) fn first_averaged(&self) -> u64 {
        match self.average {
            Average::LastHalf => self.steps / 2,
            Average::All => 0,
            Average::Last => self.steps - 1,
        }
    }
}

/// The loop with dense noise; `oracle` releases the noisy gradient sum at given weights.
pub(crate) fn descend(
    driver: &mut dyn Driver,
    schedule: &DescentSchedule,
    problem: &Problem,
    progress: &dyn Progress,
    name: &str,
    oracle: impl FnMut(&[f64]) -> Result<Released<Vec<f64>>, RunError>,
) -> Result<Solution, RunError> {
    let (steps, first_averaged) = (schedule.steps, schedule.first_averaged());
    let course = Course { steps, first_averaged, per_record: schedule.per_record(problem) };
    progress.start(name, steps);
    let weights = drive(driver, course, vec![0.0; problem.weights()], progress, oracle)?;
    progress.finish();
    Ok(weights.into())
}

#[cfg(test)]
mod tests;
