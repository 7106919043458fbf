//! DP-FTRL: descent over a stream of batches with correlated noise, without amplification (Kairouz et al. 2021; docs/proofs/correlated.md).
//!
//! Records come in their own order, each once per epoch; those whose places others could move have a batch by a secret coin of their own. No amplification is
//! claimed either way: all steps together are one Gaussian release of a sensitivity that accounts for every participation.

use super::{Average, DescentOptions, DescentSchedule, Recipe, default_clip_norm, descend};
use dpopt_mechanism::{Batching, Clipped, Correlation, StreamPlan, StreamShape};
use dpopt_noise::Grid;
use dpopt_objective::objective::OfRows;
use dpopt_optimize::algorithm::{Capabilities, RowAccess};
use dpopt_optimize::options::OptionReader;
use dpopt_optimize::options::common::{CORRELATION, SAMPLING_PROBABILITY};
use dpopt_optimize::plan::{Assumption, NotApplicable, Plan, Problem, RecordUnit, Summary};
use dpopt_optimize::planning::{SamplerError, can_sum, clipped, gaussian_mu, in_range, noise};
use dpopt_optimize::risk::RiskModel;
use dpopt_optimize::{Algorithm, Run, RunResult};
use dpopt_privacy::{Budget, Event, Relation};
use serde::Serialize;

/// Options of DP-FTRL.
#[derive(Clone, Debug, Default)]
pub struct DpFtrl {
    /// Share of the records in a batch, in (0, 1]: an epoch has its inverse number of steps. Default 1/64.
    pub batch_share: Option<f64>,
    /// How the noises of the steps are correlated. Default: BLT or banded, whichever has the better prediction.
    pub correlation: Option<Correlation>,
    /// What every descent has; `steps` counts all epochs (default: 1 to 64 epochs, by prediction), momentum is 0 by default.
    pub descent: DescentOptions,
    /// Records come batch by batch while it runs, in one pass: see [`LinearStreamPlan`](crate::online::LinearStreamPlan), which runs it then.
    pub arrives: bool,
}

/// Epochs among which the prediction chooses.
const EPOCHS: [u64; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Banded noise keeps a vector of all weights per step of an epoch: beyond 512 MiB of them it is not chosen by itself.
const MAX_BANDED_NUMBERS: u64 = 1 << 26;

/// A stream with its recipe, before its noise is calibrated.
struct Draft {
    recipe: Recipe,
    shape: StreamShape,
    /// l2 sensitivity over the clip norm; noise of the sum of all steps per unit of a normal variable's.
    sensitivity: f64,
    error: f64,
}

impl Draft {
    fn time(&self) -> f64 {
        self.recipe.time()
    }

    /// Noise in a weight without curvature, at noise multiplier z.
    fn weight_noise(&self, problem: &Problem, z: f64) -> f64 {
        let noise_std = z * self.recipe.clip_norm * self.sensitivity;
        let batches = self.shape.batches as f64;
        self.recipe.learning_rate / (1.0 - self.recipe.momentum) * noise_std * self.error * batches
            / problem.rows as f64
    }

    fn risk(&self, problem: &Problem, z: f64) -> f64 {
        RiskModel::of(problem)
            .clipped(self.recipe.clip_norm, problem.lipschitz())
            .learning_time(self.time(), self.weight_noise(problem, z))
    }
}

impl DpFtrl {
    fn draft(&self, problem: &Problem, budget: Budget, shape: StreamShape) -> Result<Draft, NotApplicable> {
        let options = DescentOptions {
            steps: Some(shape.steps as u64),
            momentum: Some(self.descent.momentum.unwrap_or(0.0)),
            clip_norm: Some(self.descent.clip_norm.unwrap_or_else(|| default_clip_norm(problem))),
            ..self.descent.clone()
        };
        let mut recipe = options.recipe(problem, budget)?;
        let unusable = |e: dpopt_mechanism::CuratorError| NotApplicable::Option(e.to_string().into());
        let (sensitivity, error) = (shape.sensitivity().map_err(unusable)?, shape.final_error().map_err(unusable)?);
        // the noise of the whole way over that of full batches with the same learning time
        let steps = shape.steps as f64;
        let excess_noise = shape.batches as f64 * sensitivity * error / steps;
        if self.descent.learning_rate.is_none() {
            let mean = recipe.rates.mean(recipe.steps);
            recipe.learning_rate = recipe.largest_rate.min(recipe.tolerable_time / (excess_noise * steps * mean));
        }
        Ok(Draft { recipe, shape, sensitivity, error })
    }

    /// What is fixed stays; of the rest the best prediction, at the noise that the budget allows about.
    fn best_draft(&self, problem: &Problem, budget: Budget, batches: u64) -> Result<Draft, NotApplicable> {
        let z = 1.0 / gaussian_mu(problem, budget)?;
        let lengths = match self.descent.steps {
            Some(steps) if steps > MAX_STEPS => {
                return Err(NotApplicable::Option(
                    format!("{steps} steps are more than {MAX_STEPS}; give fewer steps, or larger batches").into(),
                ));
            }
            Some(steps) => vec![steps],
            // no longer than costs seconds to plan
            None => {
                EPOCHS.iter().map(|e| e * batches).filter(|&t| t <= (4096).max(batches) && t <= MAX_STEPS).collect()
            }
        };
        let wide = batches.saturating_mul(problem.weights() as u64) > MAX_BANDED_NUMBERS;
        let correlations = match self.correlation {
            Some(one) => vec![one],
            None if wide => vec![Correlation::Blt],
            None => vec![Correlation::Blt, Correlation::Banded],
        };
        let mut best: Option<(f64, Draft)> = None;
        for &steps in &lengths {
            for &correlation in &correlations {
                let shape = StreamShape { batches: batches as usize, steps: steps as usize, correlation };
                let draft = self.draft(problem, budget, shape)?;
                let risk = draft.risk(problem, z);
                // a longer stream must be better by more than predictions are worth
                if best.as_ref().is_none_or(|(least, _)| risk < 0.98 * least) {
                    best = Some((risk, draft));
                }
            }
        }
        best.map(|(_, draft)| draft)
            .ok_or_else(|| NotApplicable::Option("an epoch has too many steps; give larger batches".into()))
    }
}

/// The schedule of DP-FTRL.
#[derive(Clone, Debug, Serialize)]
pub struct StreamSchedule {
    /// Steps, rates, clip norm, noise of a step's normal variable.
    #[serde(flatten)]
    pub descent: DescentSchedule,
    /// Number of batches and epochs, and the correlation of the noise.
    #[serde(flatten)]
    pub shape: StreamShape,
    /// Which batch a record is in.
    pub batching: Batching,
    /// l2 sensitivity of the whole stream over the clip norm.
    pub sensitivity: f64,
}

/// By position where no unit's records can move another's.
fn batching(problem: &Problem) -> Batching {
    match (problem.record, problem.relation()) {
        (RecordUnit::Row, Relation::ZeroOut | Relation::ReplaceOne) => Batching::Position,
        _ => Batching::Coin,
    }
}

fn which(batching: Batching) -> &'static str {
    match batching {
        Batching::Position => "by its position in the table",
        Batching::Coin => "at random and in secret, drawn once",
        Batching::Shuffled => "by its position in a public random order",
        Batching::Arrival | Batching::Arrivals(_) => "the batch that it arrived in",
    }
}

/// Most steps: the sensitivity is a sum over all of them.
const MAX_STEPS: u64 = 1 << 20;

impl Algorithm for DpFtrl {
    type Schedule = StreamSchedule;
    const NAME: &'static str = "dp-ftrl";
    const ABOUT: &'static str = "releases noisy sums over the batches of a stream, with noise that is correlated \
                                 between steps (DP-FTRL); for rows that arrive in an order";
    const CAPABILITIES: Capabilities =
        Capabilities { rows: RowAccess::Batches, supports_user_level: true, ..Capabilities::NONE };

    fn read(options: &OptionReader<'_>) -> Self {
        Self {
            batch_share: options.get(&SAMPLING_PROBABILITY),
            correlation: options.get(&CORRELATION),
            descent: DescentOptions::read(options),
            arrives: false,
        }
    }

    fn plan(&self, problem: &Problem, budget: Budget) -> Result<Plan<StreamSchedule>, NotApplicable> {
        let share = in_range("the share of records in a batch", self.batch_share.unwrap_or(1.0 / 64.0), 1e-6, 1.0)?;
        let batches = ((1.0 / share).round() as u64).clamp(1, problem.rows.max(1));
        let batching = if self.arrives { Batching::Arrival } else { batching(problem) };
        let draft = self.best_draft(problem, budget, batches)?;
        let Draft { shape, sensitivity, .. } = draft;
        let (recipe, steps) = (&draft.recipe, shape.steps as u64);
        let (clip_norm, dimension) = (recipe.clip_norm, problem.weights());
        let scale = clip_norm * sensitivity;
        let grid = |z: f64| Grid::for_sum(clip_norm, z * scale, problem.rows, dimension);
        // a multiplier at which the noise can't be made is impossible to certify
        let event = |z: f64| match shape.total_variation(z * scale, grid(z), dimension) {
            Ok(tv) if tv < 0.5 => SamplerError::proved(tv).on(Event::gaussian(z)),
            _ => Event::gaussian(z).approximate(1.0),
        };
        let (noise_multiplier, certificate) = noise(problem, budget, event)?;
        let noise_std = noise_multiplier * scale;
        can_sum(clip_norm, noise_std, grid(noise_multiplier))?;
        let (n, t) = (problem.rows as f64, steps as f64);
        // that a record comes once is the word of whoever hands the batches on
        let whence: fn(String) -> Assumption = match batching {
            Batching::Arrival | Batching::Arrivals(_) => {
                |options| Assumption::public(format!("assumed, not checked: {options}"))
            }
            _ => |options| Assumption::proved(options),
        };
        let weight_noise = draft.weight_noise(problem, noise_multiplier);
        Ok(Plan {
            summary: Summary {
                method: Self::NAME,
                loss: problem.loss,
                noise_multiplier,
                steps,
                gradients: n * t / batches as f64,
                weight_noise: Some(weight_noise),
                predicted_excess_risk: draft.risk(problem, noise_multiplier),
                certificate,
                assumptions: vec![
                    clipped(),
                    whence(format!(
                        "each record is in one of {batches} batches, {}, and contributes at most {} times, {batches} steps apart: all of it is \
                         accounted as one release",
                        which(batching),
                        shape.epochs()
                    )),
                ],
                warnings: Vec::new(),
            },
            schedule: StreamSchedule {
                descent: DescentSchedule {
                    average: Average::LastHalf,
                    ..recipe.schedule(
                        problem,
                        (noise_multiplier, noise_std),
                        1.0 / batches as f64,
                        "at each step: it is correlated between steps".into(),
                    )?
                },
                shape,
                batching,
                sensitivity,
            },
        })
    }

    fn run<R: OfRows + 'static>(&self, plan: &Plan<StreamSchedule>, run: Run<'_, R>) -> RunResult {
        let Run { problem, examples, curator, progress } = run;
        let schedule = &plan.schedule.descent;
        let grid = Grid::new(schedule.grid_exponent);
        let mut stream = curator.open(&StreamPlan {
            shape: plan.schedule.shape,
            batching: plan.schedule.batching,
            gradient: Clipped::new(R::over(problem.objective().with_loss(schedule.loss)), schedule.clip_norm, grid)?,
            noise_multiplier: schedule.noise_multiplier,
            dimension: problem.weights(),
            records: problem.rows,
            relation: problem.relation(),
        })?;
        let mut driver = schedule.heavy_ball(problem);
        let solution = descend(&mut driver, schedule, problem, progress, Self::NAME, |weights| {
            Ok(stream.next(examples, weights)?)
        })?;
        Ok(curator.postprocess(solution))
    }
}
