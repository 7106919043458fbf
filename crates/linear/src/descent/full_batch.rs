//! Full-batch DP gradient descent with heavy-ball momentum and no tuning (spec 17 §5).

use super::{DescentOptions, DescentSchedule, Releases, descend};
use dpopt_objective::objective::OfRows;
use dpopt_optimize::algorithm::{RowAccess, Traits};
use dpopt_optimize::options::Said;
use dpopt_optimize::oracle::NoisySum;
use dpopt_optimize::plan::{NotApplicable, Plan, Problem};
use dpopt_optimize::planning::SamplerError;
use dpopt_optimize::{Algorithm, Run, RunResult};
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
    const ABOUT: &'static str =
        "releases noisy sums of clipped gradients over all rows, step by step; for any loss, and wide sparse data";
    const TRAITS: Traits =
        Traits { rows: RowAccess::Passes, pools: true, sums: true, usual_scale: 0.6, ..Traits::NONE };

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

    fn run<R: OfRows + 'static>(&self, plan: &Plan<DescentSchedule>, run: Run<'_, R>) -> RunResult {
        let Run { problem, examples, curator, progress } = run;
        let schedule = &plan.schedule;
        let objective = problem.objective().with_loss(schedule.loss);
        let gradients = NoisySum::new(R::over(objective), schedule.noise(problem.weights(), "gradient sum"))?;
        let mut driver = schedule.heavy_ball(problem);
        let solution = descend(&mut driver, schedule, problem, progress, Self::NAME, |weights| {
            gradients.release(examples, curator, weights)
        })?;
        Ok(curator.answer(schedule.scaled(solution)))
    }
}
