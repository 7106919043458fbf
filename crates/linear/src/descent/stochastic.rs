//! DP-SGD with Poisson batches (docs/proofs/noisy-gradient-descent.md): the steps of [`NoisyGradientDescent`] on secret random batches.
//!
//! Each record enters each batch with probability q, independently; the curator draws the batches, the sum is divided by
//! the public q·n, and an empty batch is a noisy step like any other. A smaller q saves time, never accuracy.

use super::lazy::{self, Path};
use super::{DescentOptions, DescentSchedule, Releases, descend};
use dpopt_mechanism::{Clipped, Released, SamplerError};
use dpopt_noise::Grid;
use dpopt_objective::objective::Objective;
use dpopt_objective::objective::OfRows;
use dpopt_optimize::algorithm::{Capabilities, RowAccess};
use dpopt_optimize::options::OptionReader;
use dpopt_optimize::options::common::SAMPLING_PROBABILITY;
use dpopt_optimize::oracle::{GradientSums, NoisySum};
use dpopt_optimize::plan::{NotApplicable, Plan, Problem};
use dpopt_optimize::planning::{in_range, sampled_secretly};
use dpopt_optimize::{Algorithm, Run, RunError, RunResult};
use dpopt_privacy::Budget;

/// Options of DP-SGD.
#[derive(Clone, Debug, Default)]
pub struct NoisySgd {
    /// q in (0, 1]. Default 0.1.
    pub sampling_probability: Option<f64>,
    /// Whether the noise of untouched weights is drawn lazily. Default: if that costs less.
    pub lazy: Option<bool>,
    /// Whether the rows are in remote partitions, which answer with sums.
    pub in_parts: bool,
    /// What every descent has.
    pub descent: DescentOptions,
}

impl Algorithm for NoisySgd {
    type Schedule = DescentSchedule;
    const NAME: &'static str = "noisy-sgd";
    const ABOUT: &'static str =
        "releases noisy sums of clipped gradients over Poisson batches (DP-SGD); for very many rows";
    const CAPABILITIES: Capabilities = Capabilities {
        rows: RowAccess::Batches,
        supports_user_level: true,
        sums: true,
        usual_scale: 0.6,
        ..Capabilities::NONE
    };

    fn read(options: &OptionReader<'_>) -> Self {
        Self {
            sampling_probability: options.get(&SAMPLING_PROBABILITY),
            lazy: None,
            in_parts: options.remote(),
            descent: DescentOptions::read(options),
        }
    }

    fn plan(&self, problem: &Problem, budget: Budget) -> Result<Plan<DescentSchedule>, NotApplicable> {
        let q = in_range("the sampling probability", self.sampling_probability.unwrap_or(0.1), 1e-9, 1.0)?;
        let recipe = self.descent.recipe(problem, budget)?;
        let steps = recipe.steps;
        let path = match self.in_parts {
            true => Path::Eager { because: "remote records answer with sums only".into() },
            false => lazy::path(&recipe, problem, budget, q, self.lazy),
        };
        let sums = GradientSums::of(problem, recipe.clip_norm).steps(steps).sampled(q);
        let drawn = match &path {
            Path::Lazy { total_variation } => {
                SamplerError::subset(problem.rows) * steps as f64 + SamplerError::proved(*total_variation)
            }
            Path::Eager { .. } => sums.sampler_error(),
        };
        let releases = Releases {
            method: Self::NAME,
            sampling_probability: q,
            event: |z: f64| drawn.on(sums.exact_event(z)),
            assumptions: std::iter::once(sampled_secretly()).chain(path.is_lazy().then(lazy::assumption)).collect(),
            noise_drawn: path.to_string(),
        };
        let plan = recipe.plan(problem, budget, releases)?;
        // the bound was taken at a noise multiplier that a plan does not fall below
        match &path {
            Path::Lazy { total_variation } if !lazy::fits(&plan.schedule, problem, *total_variation) => {
                let descent = NoisySgd { lazy: Some(false), ..self.clone() };
                descent.plan(problem, budget)
            }
            _ => Ok(plan),
        }
    }

    fn passes(&self, plan: &Plan<DescentSchedule>, _: &Problem) -> u64 {
        // and one for the order of the records, of which samples are drawn
        plan.schedule.steps + 1
    }

    fn run<R: OfRows + 'static>(&self, plan: &Plan<DescentSchedule>, run: Run<'_, R>) -> RunResult {
        let Run { problem, examples, curator, progress } = run;
        let schedule = &plan.schedule;
        let objective = problem.objective().with_loss(schedule.loss);
        let weights = train(schedule, NoisySgd::NAME, objective, Run { problem, examples, curator, progress })?;
        Ok(weights.map(|weights| schedule.scaled(weights.into())))
    }
}

/// The steps of a schedule on any objective with the weights of the run's problem: one release of all of them if noise is drawn
/// lazily, else one per step.
pub(crate) fn train<R: OfRows, O: Objective<R::Rows> + Clone>(
    schedule: &DescentSchedule,
    name: &str,
    objective: O,
    run: Run<'_, R>,
) -> Result<Released<Vec<f64>>, RunError> {
    let Run { problem, examples, curator, progress } = run;
    let objective = R::over(objective);
    if schedule.is_lazy() {
        let gradient = Clipped::new(objective, schedule.clip_norm, Grid::new(schedule.grid_exponent))?;
        let mechanism = lazy::mechanism(schedule, problem, gradient, progress);
        progress.start(name, schedule.steps);
        let weights = curator.release(&mechanism, examples)?;
        progress.finish();
        return Ok(weights);
    }
    let noise = schedule.noise(problem.weights(), "batch gradient");
    let gradients = NoisySum::new(objective, noise)?.sampled(schedule.sampling_probability);
    let mut driver = schedule.heavy_ball(problem);
    let solution = descend(&mut driver, schedule, problem, progress, name, |weights| {
        gradients.release(examples, curator, weights)
    })?;
    Ok(curator.postprocess(solution.weights))
}
