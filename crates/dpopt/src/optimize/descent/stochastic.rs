//! DP-SGD with Poisson batches (spec 17 §5): the steps of [`NoisyGradientDescent`] on secret random batches.
//!
//! Each record enters each batch with probability q, independently; the curator draws the batches, the sum is divided by
//! the public q·n, and an empty batch is a noisy step like any other. A smaller q saves time, never accuracy.

use super::lazy::{self, Path};
use super::{DescentOptions, DescentSchedule, Releases, descend};
use crate::Released;
use crate::mechanism::{Clipped, CuratorError, Gaussian};
use crate::optimize::algorithm::{RowAccess, Traits};
use crate::optimize::options::Said;
use crate::optimize::options::common::SAMPLING_PROBABILITY;
use crate::optimize::planning::in_range;
use crate::optimize::{Algorithm, Run, RunError, Solution};
use crate::plan::{Assumption, NotApplicable, Plan, Problem};
use crate::records::{Records, SpilledExamples};
use crate::sampler_error::SamplerError;
use dpopt_noise::Grid;
use dpopt_privacy::{Budget, Event};

/// Options of DP-SGD.
#[derive(Clone, Debug, Default)]
pub struct NoisySgd {
    /// q in (0, 1]. Default 0.1.
    pub sampling_probability: Option<f64>,
    /// Whether the noise of untouched weights is drawn lazily. Default: if that costs less.
    pub lazy: Option<bool>,
    /// What every descent has.
    pub descent: DescentOptions,
}

impl Algorithm for NoisySgd {
    type Schedule = DescentSchedule;
    const NAME: &'static str = "noisy-sgd";
    const ABOUT: &'static str =
        "releases noisy sums of clipped gradients over secret Poisson batches (DP-SGD); for very many rows";
    const TRAITS: Traits = Traits { rows: RowAccess::Batches, ..Traits::NONE };

    fn read(said: &Said<'_>) -> Self {
        Self { sampling_probability: said.get(&SAMPLING_PROBABILITY), lazy: None, descent: DescentOptions::read(said) }
    }

    fn plan(&self, problem: &Problem, budget: Budget) -> Result<Plan<DescentSchedule>, NotApplicable> {
        let q = in_range("the sampling probability", self.sampling_probability.unwrap_or(0.1), 1e-9, 1.0)?;
        let recipe = self.descent.recipe(problem, budget)?;
        let steps = recipe.steps;
        let path = lazy::path(&recipe, problem, budget, q, self.lazy);
        // one subset per step, and one rounded Gaussian per weight or the lazy bound
        let subsets = SamplerError::subset(problem.rows) * steps as f64;
        let drawn = match &path {
            Path::Lazy { total_variation } => SamplerError::proved(*total_variation),
            Path::Eager { .. } => SamplerError::rounded(steps as f64 * problem.weights() as f64),
        };
        let releases = Releases {
            method: Self::NAME,
            sampling_probability: q,
            event: |z: f64| (subsets + drawn).on(Event::gaussian(z).poisson_sampled(q).self_composed(steps)),
            assumptions: std::iter::once(Assumption::enforced(
                "each record enters each batch independently and secretly: drawn by the curator",
            ))
            .chain(path.is_lazy().then(lazy::assumption))
            .collect(),
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

    fn run(&self, plan: &Plan<DescentSchedule>, run: Run<'_>) -> Result<Released<Solution>, RunError> {
        self::run(plan, run)
    }

    fn run_spilled(
        &self,
        plan: &Plan<DescentSchedule>,
        run: Run<'_, SpilledExamples>,
    ) -> Result<Released<Solution>, RunError> {
        self::run(plan, run)
    }
}

fn run<R: Records>(plan: &Plan<DescentSchedule>, run: Run<'_, R>) -> Result<Released<Solution>, RunError> {
    let Run { problem, examples, curator, progress } = run;
    let schedule = &plan.schedule;
    let grid = Grid::new(schedule.grid_exponent);
    let gradient = Clipped::new(problem.objective().with_loss(schedule.loss), schedule.clip_norm, grid)?;
    if schedule.is_lazy() {
        let mechanism = lazy::mechanism(schedule, problem, gradient, progress);
        progress.start(NoisySgd::NAME, schedule.steps);
        let weights = curator.release(&mechanism, examples)?;
        progress.finish();
        return Ok(weights.map(Solution::from));
    }
    let mechanism =
        Gaussian::new(schedule.noise_multiplier, schedule.clip_norm, grid, problem.weights(), "batch gradient");
    let solution = descend(schedule, problem, progress, NoisySgd::NAME, |weights| {
        let batch = curator.poisson_sample_of(examples, schedule.sampling_probability)?;
        let sum = gradient.sum_batch_of(examples, batch, weights).map_err(CuratorError::unreadable)?;
        Ok(curator.release(&mechanism, &sum)?)
    })?;
    Ok(curator.answer(solution))
}
