//! DP-FTRL: descent over a stream of batches with correlated noise, without amplification (Kairouz et al. 2021; spec 19 §5).
//!
//! Records come in their own order, each once per epoch, so nothing has to be sampled or kept secret about batches. All steps
//! together are one Gaussian release of a sensitivity that accounts for every participation.

use super::{Average, DescentOptions, DescentSchedule, descend, default_clip_norm};
use crate::data::{Records, SpilledExamples};
use crate::mechanism::{ClippedGradient, Correlation, StreamPlan, StreamShape};
use crate::optimize::planning::{in_range, noise};
use crate::optimize::risk::RiskModel;
use crate::optimize::{Algorithm, MethodOptions, Run, RunError, Solution};
use crate::plan::{Grade, NotApplicable, Plan, Problem, Summary};
use crate::Released;
use dpopt_noise::Grid;
use dpopt_privacy::{Budget, Event, Relation};
use serde::Serialize;

/// Options of DP-FTRL.
#[derive(Clone, Debug, Default)]
pub struct DpFtrl {
    /// Share of the records in a batch, in (0, 1]: an epoch has its inverse number of steps. Default 1/64.
    pub batch_share: Option<f64>,
    /// How the noises of the steps are correlated. Default: BLT.
    pub correlation: Option<Correlation>,
    /// What every descent has; `steps` counts all epochs (default four epochs), momentum is 0 by default.
    pub descent: DescentOptions,
}

/// The schedule of DP-FTRL.
#[derive(Clone, Debug, Serialize)]
pub struct StreamSchedule {
    /// Steps, rates, clip norm, noise of a step's normal variable.
    #[serde(flatten)]
    pub descent: DescentSchedule,
    /// Batches, epochs, correlation.
    #[serde(flatten)]
    pub shape: StreamShape,
    /// l2 sensitivity of the whole stream over the clip norm.
    pub sensitivity: f64,
}

/// Most steps: the sensitivity is a sum over all of them.
const MOST_STEPS: u64 = 1 << 20;

impl From<&MethodOptions> for DpFtrl {
    fn from(o: &MethodOptions) -> Self {
        Self { batch_share: o.sampling_probability, correlation: o.correlation, descent: o.into() }
    }
}

impl Algorithm for DpFtrl {
    type Schedule = StreamSchedule;
    const NAME: &'static str = "dp-ftrl";

    fn plan(&self, problem: &Problem, budget: Budget) -> Result<Plan<StreamSchedule>, NotApplicable> {
        if problem.relation == Relation::AddOrRemove {
            return Err(NotApplicable::Problem(
                "batches are made by position, and an added record would move all others; use zero-out or replace-one".into(),
            ));
        }
        let share = in_range("the share of records in a batch", self.batch_share.unwrap_or(1.0 / 64.0), 1e-6, 1.0)?;
        let batches = ((1.0 / share).round() as u64).clamp(1, problem.rows.max(1));
        let steps = self.descent.steps.unwrap_or(4 * batches);
        if steps > MOST_STEPS {
            return Err(NotApplicable::Option(format!("{steps} steps are more than {MOST_STEPS}; give fewer, or larger batches")));
        }
        let options = DescentOptions {
            steps: Some(steps),
            momentum: Some(self.descent.momentum.unwrap_or(0.0)),
            clip_norm: Some(self.descent.clip_norm.unwrap_or_else(|| default_clip_norm(problem))),
            ..self.descent.clone()
        };
        let mut recipe = options.recipe(problem, budget)?;
        let shape = StreamShape {
            batches: batches as usize,
            steps: steps as usize,
            correlation: self.correlation.unwrap_or_default(),
        };
        let unusable = |e: crate::mechanism::CuratorError| NotApplicable::Option(e.to_string());
        let (sensitivity, error) = (shape.sensitivity().map_err(unusable)?, shape.final_error().map_err(unusable)?);
        // the noise of the whole way over that of full batches with the same learning time
        let excess_noise = batches as f64 * sensitivity * error / steps as f64;
        if self.descent.learning_rate.is_none() {
            recipe.learning_rate = recipe.largest_rate.min(recipe.tolerable_time / (excess_noise * steps as f64));
        }
        let (clip_norm, dimension) = (recipe.clip_norm, problem.weights());
        let scale = clip_norm * sensitivity;
        let grid = |z: f64| Grid::for_sum(clip_norm, z * scale, problem.rows, dimension);
        // a multiplier at which the noise can't be made is impossible to certify
        let event = |z: f64| match shape.total_variation(z * scale, grid(z), dimension) {
            Ok(tv) => Event::gaussian(z).approximate(tv.min(1.0)),
            Err(_) => Event::gaussian(z).approximate(1.0),
        };
        let (noise_multiplier, certificate) = noise(problem, budget, event)?;
        let noise_std = noise_multiplier * scale;
        let (n, t) = (problem.rows as f64, steps as f64);
        let time = recipe.learning_rate * t / (1.0 - recipe.momentum);
        let weight_noise = recipe.learning_rate / (1.0 - recipe.momentum) * noise_std * error * batches as f64 / n;
        Ok(Plan {
            summary: Summary {
                method: Self::NAME,
                loss: problem.loss,
                grade: Grade::Certified,
                noise_multiplier,
                steps,
                gradients: n * t / batches as f64,
                weight_noise: Some(weight_noise),
                predicted_excess_risk: RiskModel::of(problem)
                    .clipped(clip_norm, problem.loss.facts().lipschitz.map(|l| l * problem.row_norm))
                    .learning_time(time, weight_noise),
                certificate,
                assumptions: vec![
                    "each record's gradient has l2 norm at most the clip norm: enforced in exact integers".into(),
                    format!(
                        "each record is in one of {batches} batches, by its position in the table, and contributes at most {} times, \
                         {batches} steps apart: all of it is accounted as one release",
                        shape.epochs()
                    ),
                ],
                warnings: Vec::new(),
            },
            schedule: StreamSchedule {
                descent: DescentSchedule {
                    loss: problem.loss,
                    steps,
                    learning_rate: recipe.learning_rate,
                    momentum: recipe.momentum,
                    clip_norm,
                    noise_multiplier,
                    noise_std,
                    sampling_probability: 1.0 / batches as f64,
                    regularization: recipe.regularization,
                    average: Average::LastHalf,
                    grid_exponent: grid(noise_multiplier).exponent(),
                    noise_drawn: "at each step: it is correlated between steps".into(),
                },
                shape,
                sensitivity,
            },
        })
    }

    fn run(&self, plan: &Plan<StreamSchedule>, run: Run<'_>) -> Result<Released<Solution>, RunError> {
        self::run(plan, run)
    }

    fn run_spilled(
        &self,
        plan: &Plan<StreamSchedule>,
        run: Run<'_, SpilledExamples>,
    ) -> Result<Released<Solution>, RunError> {
        self::run(plan, run)
    }
}

fn run<R: Records>(plan: &Plan<StreamSchedule>, run: Run<'_, R>) -> Result<Released<Solution>, RunError> {
    let Run { problem, examples, curator, progress } = run;
    let schedule = &plan.schedule.descent;
    let grid = Grid::new(schedule.grid_exponent);
    let mut stream = curator.open_stream(StreamPlan {
        shape: plan.schedule.shape,
        gradient: ClippedGradient::new(schedule.loss, schedule.clip_norm, grid)?,
        noise_multiplier: schedule.noise_multiplier,
        dimension: problem.weights(),
        records: problem.rows,
    })?;
    descend(schedule, problem, progress, DpFtrl::NAME, |weights| Ok(stream.next(examples, weights)?))
}
