//! DP-SGD with Poisson batches (spec 17 §5): the steps of [`NoisyGradientDescent`] on secret random batches.
//!
//! Each record enters each batch with probability q, independently; the curator draws the batches, the sum is divided by
//! the public q·n, and an empty batch is a noisy step like any other. A smaller q saves time, never accuracy.

use super::noisy_gradient_descent::{Average, DescentSchedule, NoisyGradientDescent, descend};
use super::planning::{approximate, in_range, noise};
use super::risk::RiskModel;
use super::{Algorithm, MethodOptions, RunError, Solution, check_shape};
use crate::data::Examples;
use crate::mechanism::{ClippedGradient, Curator, Gaussian};
use crate::plan::{Grade, NotApplicable, Plan, Problem, Summary};
use crate::progress::Progress;
use crate::{Released, Sensitive};
use dpopt_noise::Grid;
use dpopt_privacy::{Budget, Event};

/// Options of DP-SGD. `None` means: chosen from public facts.
#[derive(Clone, Debug, Default)]
pub struct NoisySgd {
    /// q in (0, 1]. Default 0.1.
    pub sampling_probability: Option<f64>,
    /// T ≥ 1, as for full-batch descent.
    pub steps: Option<u64>,
    /// η > 0 on the mean loss, as for full-batch descent.
    pub learning_rate: Option<f64>,
    /// C > 0: l2 bound on a record's gradient. Default: half of the loss's own bound.
    pub clip_norm: Option<f64>,
    /// β in [0, 1). Default 0.95.
    pub momentum: Option<f64>,
    /// Weight decay λ ≥ 0 in units of the sum of losses. Default 0.
    pub regularization: Option<f64>,
    /// What is returned.
    pub average: Average,
}

impl From<&MethodOptions> for NoisySgd {
    fn from(o: &MethodOptions) -> Self {
        Self {
            sampling_probability: o.sampling_probability,
            steps: o.steps,
            learning_rate: o.learning_rate,
            clip_norm: o.clip_norm,
            momentum: o.momentum,
            regularization: o.regularization,
            ..Self::default()
        }
    }
}

impl Algorithm for NoisySgd {
    type Schedule = DescentSchedule;
    const NAME: &'static str = "noisy-sgd";

    fn plan(&self, problem: &Problem, budget: Budget) -> Result<Plan<DescentSchedule>, NotApplicable> {
        let q = in_range("the sampling probability", self.sampling_probability.unwrap_or(0.1), 1e-9, 1.0)?;
        let recipe = NoisyGradientDescent {
            steps: self.steps,
            learning_rate: self.learning_rate,
            clip_norm: self.clip_norm,
            momentum: self.momentum,
            regularization: self.regularization,
            average: self.average,
        }
        .recipe(problem, budget)?;
        let dimension = problem.weights();
        // one rounded Gaussian per weight, and one subset of n per step (fewer than 42 + n exact comparisons)
        let draws = recipe.steps as f64 * (dimension as f64 + problem.rows as f64 + 42.0);
        let event = |z: f64| approximate(Event::gaussian(z).poisson_sampled(q).self_composed(recipe.steps), draws);
        let (noise_multiplier, certificate) = noise(problem, budget, event)?;
        let noise_std = noise_multiplier * recipe.clip_norm;
        let grid = Grid::for_sum(recipe.clip_norm, noise_std, problem.rows, dimension);
        let n = problem.rows as f64;
        let steps = recipe.steps as f64;
        let time = recipe.learning_rate * steps / (1.0 - recipe.momentum);
        // noise of the mechanism, and of the choice of the batch, on the mean gradient
        let choice = recipe.clip_norm * ((1.0 - q) / (q * n) / dimension as f64).sqrt();
        let flat_noise = time * (noise_std / (q * n)).hypot(choice) / steps.sqrt();
        Ok(Plan {
            summary: Summary {
                method: Self::NAME,
                loss: problem.loss,
                grade: Grade::Certified,
                noise_multiplier,
                steps: recipe.steps,
                gradients: q * n * steps,
                weight_noise: Some(time * noise_std / (q * n) / steps.sqrt()),
                predicted_excess_risk: RiskModel::of(problem)
                    .clipped(recipe.clip_norm, problem.loss.facts().lipschitz.map(|l| l * problem.row_norm))
                    .learning_time(time, flat_noise),
                certificate,
                assumptions: vec![
                    "each record's gradient has l2 norm at most the clip norm: enforced in exact integers".into(),
                    "each record enters each batch independently and secretly: drawn by the curator".into(),
                ],
                warnings: Vec::new(),
            },
            schedule: DescentSchedule {
                loss: problem.loss,
                steps: recipe.steps,
                learning_rate: recipe.learning_rate,
                momentum: recipe.momentum,
                clip_norm: recipe.clip_norm,
                noise_multiplier,
                noise_std,
                sampling_probability: q,
                regularization: recipe.regularization,
                average: self.average,
                grid_exponent: grid.exponent(),
            },
        })
    }

    fn run(
        &self,
        plan: &Plan<DescentSchedule>,
        problem: &Problem,
        examples: &Sensitive<Examples>,
        curator: &mut Curator,
        progress: &dyn Progress,
    ) -> Result<Released<Solution>, RunError> {
        check_shape(problem, examples)?;
        let schedule = &plan.schedule;
        let grid = Grid::new(schedule.grid_exponent);
        let gradient = ClippedGradient::new(schedule.loss, schedule.clip_norm, grid)?;
        let mechanism =
            Gaussian::new(schedule.noise_multiplier, schedule.clip_norm, grid, problem.weights(), "batch gradient");
        let records = examples.expose().rows.len();
        descend(schedule, problem, progress, Self::NAME, |weights| {
            let batch = curator.poisson_sample(records, schedule.sampling_probability)?;
            let sum = gradient.sum_batch(examples, batch, weights);
            Ok(curator.release(&mechanism, &sum)?)
        })
    }
}
