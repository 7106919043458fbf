//! Full-batch DP gradient descent with heavy-ball momentum and no tuning (spec 17 §5).

use super::{DescentOptions, DescentSchedule, Releases, descend};
use crate::Released;
use crate::mechanism::{Clipped, Gaussian};
use crate::optimize::options::Said;
use crate::optimize::planning::SamplerError;
use crate::optimize::{Algorithm, Run, RunError, Solution};
use crate::plan::{NotApplicable, Plan, Problem};
use dpopt_noise::Grid;
use dpopt_privacy::{Budget, Event};

/// Options of DP gradient descent.
#[derive(Clone, Debug, Default)]
pub struct NoisyGradientDescent {
    /// What every descent has.
    pub descent: DescentOptions,
}

impl Algorithm for NoisyGradientDescent {
    type Schedule = DescentSchedule;
    const NAME: &'static str = "noisy-gradient-descent";
    const ABOUT: &'static str = "releases noisy sums of clipped gradients over all rows, step by step; best for several classes and wide sparse data";

    fn read(said: &Said<'_>) -> Self {
        Self { descent: DescentOptions::read(said) }
    }

    fn plan(&self, problem: &Problem, budget: Budget) -> Result<Plan<DescentSchedule>, NotApplicable> {
        let recipe = self.descent.recipe(problem, budget)?;
        let (steps, draws) = (recipe.steps, recipe.steps as f64 * problem.weights() as f64);
        let event = |z: f64| SamplerError::rounded(draws).on(Event::gaussian(z).self_composed(steps));
        let releases = Releases {
            method: Self::NAME,
            sampling_probability: 1.0,
            event,
            assumptions: Vec::new(),
            noise_drawn: "at each step: full batches read every weight".into(),
        };
        recipe.plan(problem, budget, releases)
    }

    fn run(&self, plan: &Plan<DescentSchedule>, run: Run<'_>) -> Result<Released<Solution>, RunError> {
        let Run { problem, examples, curator, progress } = run;
        let schedule = &plan.schedule;
        let grid = Grid::new(schedule.grid_exponent);
        let gradient = Clipped::new(problem.objective().with_loss(schedule.loss), schedule.clip_norm, grid)?;
        let mechanism =
            Gaussian::new(schedule.noise_multiplier, schedule.clip_norm, grid, problem.weights(), "gradient sum");
        let solution = descend(schedule, problem, progress, Self::NAME, |weights| {
            let sum = gradient.sum(examples, weights);
            Ok(curator.release(&mechanism, &sum)?)
        })?;
        Ok(curator.answer(solution))
    }
}
