//! Full-batch DP gradient descent with heavy-ball momentum and no tuning (docs/proofs/noisy-gradient-descent.md).

use super::{DescentOptions, DescentSchedule, Releases, descend};
use dpopt_objective::objective::OfRows;
use dpopt_optimize::algorithm::{Capabilities, RowAccess};
use dpopt_optimize::options::OptionReader;
use dpopt_optimize::oracle::{GradientSums, NoisySum};
use dpopt_optimize::plan::{NotApplicable, Plan, Problem};
use dpopt_optimize::{Algorithm, Run, RunResult};
use dpopt_privacy::Budget;

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
    const CAPABILITIES: Capabilities = Capabilities {
        rows: RowAccess::Passes,
        supports_user_level: true,
        sums: true,
        usual_scale: 0.6,
        ..Capabilities::NONE
    };

    fn read(options: &OptionReader<'_>) -> Self {
        Self { descent: DescentOptions::read(options) }
    }

    fn plan(&self, problem: &Problem, budget: Budget) -> Result<Plan<DescentSchedule>, NotApplicable> {
        let recipe = self.descent.recipe(problem, budget)?;
        let sums = GradientSums::of(problem, recipe.clip_norm).steps(recipe.steps);
        let releases = Releases {
            method: Self::NAME,
            sampling_probability: 1.0,
            event: |z: f64| sums.event(z),
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
        Ok(curator.postprocess(schedule.scaled(solution)))
    }
}
