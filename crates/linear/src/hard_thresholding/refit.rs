//! Fitting the chosen features again: noisy descent on k coordinates with what is left of the budget.
//!
//! The support is released, so restricting records to it is deterministic per record: norms only fall, and a record's
//! clipped gradient still has norm at most C₂. No selection happens here, so the noise of the other coordinates is never made.

use crate::descent::{DescentOptions, Recipe};
use dpopt_mechanism::progress::Progress;
use dpopt_mechanism::{Curator, CuratorError, Gaussian, Sensitive, SparseVector};
use dpopt_noise::Grid;
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::Linear;
use dpopt_objective::records::Records;
use dpopt_optimize::RunError;
use dpopt_optimize::driver::{Course, HeavyBall, drive};
use dpopt_optimize::oracle::NoisySum;
use dpopt_optimize::plan::{NotApplicable, Problem};
use dpopt_optimize::planning::sum_grid;
use dpopt_privacy::Budget;
use serde::Serialize;

/// The schedule of the second stage: descent on the chosen features.
#[derive(Clone, Debug, Serialize)]
pub struct RefitSchedule {
    /// T₂: number of noisy steps.
    pub steps: u64,
    /// η on the mean loss.
    pub learning_rate: f64,
    /// β: momentum of the heavy ball.
    pub momentum: f64,
    /// C₂: l2 bound on a record's gradient on the chosen features.
    pub clip_norm: f64,
    /// z₂: noise standard deviation of the *sum*, over C₂.
    pub noise_multiplier: f64,
    /// Noise standard deviation of the sum, per coordinate.
    pub noise_std: f64,
    /// log2 of the grid step.
    pub grid_exponent: i32,
}

/// The recipe of noisy descent for a share of the budget (of μ²).
pub(super) fn recipe(
    options: &DescentOptions,
    problem: &Problem,
    budget: Budget,
    share: f64,
) -> Result<Recipe, NotApplicable> {
    let mut recipe = options.recipe(problem, budget)?;
    if options.learning_rate.is_none() {
        let time = recipe.tolerable_time * share.sqrt();
        recipe.learning_rate = recipe.largest_rate.min(time * (1.0 - recipe.momentum) / recipe.steps as f64);
    }
    Ok(recipe)
}

impl RefitSchedule {
    /// The recipe with noise multiplier z, on at most `features` coordinates.
    pub(super) fn of(
        recipe: &Recipe,
        noise_multiplier: f64,
        rows: u64,
        features: usize,
    ) -> Result<Self, NotApplicable> {
        let noise_std = noise_multiplier * recipe.clip_norm;
        Ok(Self {
            steps: recipe.steps,
            learning_rate: recipe.learning_rate,
            momentum: recipe.momentum,
            clip_norm: recipe.clip_norm,
            noise_multiplier,
            noise_std,
            grid_exponent: sum_grid(recipe.clip_norm, noise_std, rows, features)?.exponent(),
        })
    }

    /// Standard deviation that the noise of all steps on the sums of `batch` records leaves in a weight without curvature.
    pub(super) fn noise_left(&self, batch: f64) -> f64 {
        self.learning_time() * self.noise_std / (batch * (self.steps as f64).sqrt())
    }

    /// Learning time ηT/(1−β) of the second stage.
    pub(super) fn learning_time(&self) -> f64 {
        self.learning_rate * self.steps as f64 / (1.0 - self.momentum)
    }
}

/// What both stages share.
pub(super) struct Shared {
    pub(super) loss: Loss,
    pub(super) sampling_probability: f64,
    pub(super) regularization: f64,
    pub(super) intercept: Option<u32>,
}

/// Over Poisson batches, unless q = 1 says all records.
pub(super) fn sampled_below_one<O>(sum: NoisySum<O>, q: f64) -> NoisySum<O> {
    if q < 1.0 { sum.sampled(q) } else { sum }
}

/// T₂ noisy steps from `start` on its support; the mean of the last half of the iterates.
pub(super) fn refit<R: Records>(
    (schedule, refit): (&Shared, &RefitSchedule),
    problem: &Problem,
    examples: &Sensitive<R>,
    curator: &mut Curator,
    progress: &dyn Progress,
    start: SparseVector,
) -> Result<SparseVector, RunError> {
    let support = start.indices();
    let examples = examples.restricted(support, problem.row_norm).map_err(CuratorError::unreadable)?;
    let (n, rate, beta) = (problem.rows as f64, refit.learning_rate, refit.momentum);
    let q = schedule.sampling_probability;
    let objective = Linear::new(schedule.loss, support.len(), problem.row_norm);
    let (d, grid) = (support.len(), Grid::new(refit.grid_exponent));
    let noise = Gaussian::new(refit.noise_multiplier, refit.clip_norm, grid, d, "gradient on the chosen features");
    let gradients = sampled_below_one(NoisySum::new(objective, noise)?, q);
    let decay = 1.0 - rate * schedule.regularization / (n * (1.0 - beta));
    let intercept = support.iter().position(|j| schedule.intercept == Some(*j));
    let mut driver = HeavyBall::new(support.len(), beta, intercept, |_| (rate, decay));
    let course = Course { steps: refit.steps, first_averaged: refit.steps / 2, per_record: 1.0 / (q * n) };
    let mean = drive(&mut driver, course, start.values().to_vec(), progress, |weights| {
        gradients.release(&examples, curator, weights)
    })?;
    Ok(SparseVector::new(support.iter().copied().zip(mean)))
}
