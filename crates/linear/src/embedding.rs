//! DP-SGD for embedding models: sums of embeddings and two towers, by the engine of sparse linear models.
//!
//! The whole gradient of a record is clipped, so the event is that of DP-SGD whatever the model is; the loss is not convex in
//! the weights, and nothing about privacy rests on it. Step sizes are those of the linear model that the embedding model is near
//! its start: a score's gradient there has a public length. With [`RowSelection`] only rows that a noisy count chose are moved.

mod selection;
#[cfg(test)]
mod tests;

pub use selection::SelectionSchedule;

use super::descent::{DescentOptions, DescentSchedule, NoisySgd, descend, train};
use crate::adaptive::{AdaptiveSchedule, DpAdam, More, Pagan, Pasan, only_with};
use crate::choices::{AdaptiveOptions, Moments, RowSelection};
use dpopt_mechanism::Clipped;
use dpopt_noise::Grid;
use dpopt_objective::loss::embedding::Embedding;
use dpopt_objective::objective::OfRows;
use dpopt_objective::objective::{Embedded, Scaled};
use dpopt_objective::records::Records;
use dpopt_optimize::RunError;
use dpopt_optimize::algorithm::ByRow;
use dpopt_optimize::algorithm::{Capabilities, RowAccess};
use dpopt_optimize::choices::AdaptiveRule;
use dpopt_optimize::driver::AdaptiveSteps;
use dpopt_optimize::options::common::SAMPLING_PROBABILITY;
use dpopt_optimize::options::{Choice, OptionReader, Range, Setting};
use dpopt_optimize::oracle::NoisySum;
use dpopt_optimize::plan::{NotApplicable, Plan, Problem};
use dpopt_optimize::{Algorithm, Run, RunResult};
use dpopt_privacy::Budget;
use serde::Serialize;

static SELECT_ROWS: Setting<bool> = Setting::flag(
    "select_rows",
    "train only embeddings of features chosen by a noisy count in each batch, so that the model stays sparse",
);
static COUNT_NOISE: Setting<f64> = Setting::real(
    "count_noise",
    Range::closed(0.1, 100.0, "a number from 0.1 to 100"),
    "with select_rows: ratio of the noise of counts to that of gradients [default: 3]",
)
.called("RATIO");
static COUNT_LEVEL: Setting<f64> = Setting::real(
    "count_level",
    Range::closed(0.125, 9.0, "a number from 0.125 to 9"),
    "with select_rows: threshold of the noisy counts, in standard deviations of their noise",
)
.called("LEVEL");
static EMBEDDING_UPDATE: Setting<AdaptiveRule> = Setting::choice(
    "embedding_update",
    &[
        Choice { word: "scalar", meaning: "one adaptive learning rate, as in pasan", value: AdaptiveRule::Scalar },
        Choice { word: "diagonal", meaning: "a learning rate per weight, as in pagan", value: AdaptiveRule::Diagonal },
        Choice { word: "adam", meaning: "as dp-adam", value: AdaptiveRule::Adam },
    ],
    "adaptive steps instead of momentum; `moments` and `domain` configure them",
);

/// Options of DP-SGD for embeddings.
#[derive(Clone, Debug)]
pub struct EmbeddingSgd {
    /// The embedding model that is trained.
    pub model: Embedding,
    /// Move only privately chosen rows. Default: none, all rows get noise.
    pub selection: Option<RowSelection>,
    /// q in (0, 1]. Default 0.1.
    pub sampling_probability: Option<f64>,
    /// Whether the noise of untouched weights is drawn lazily. Default: if that costs less.
    pub lazy: Option<bool>,
    /// Adaptive steps instead of momentum, with ellipsoid and domain. Default: none.
    pub update: Option<AdaptiveRule>,
    /// Options of an adaptive update.
    pub adaptive: AdaptiveOptions,
    /// What every descent has. Momentum is .95 by default, but 0 with a choice of rows or a given rate; steps: four times
    /// those of a linear model, since vectors have to grow before their products tell anything.
    pub descent: DescentOptions,
}

/// The schedule of DP-SGD for embeddings.
#[derive(Clone, Debug, Serialize)]
pub struct EmbeddingSchedule {
    /// The descent, as in the schedule of `noisy-sgd`.
    #[serde(flatten)]
    pub descent: DescentSchedule,
    /// Form and length of the vectors, public start.
    pub model: Embedding,
    /// Private choice of rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selection: Option<SelectionSchedule>,
    /// Adaptive steps, and where their ellipsoid comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adaptive: Option<AdaptiveSchedule>,
}

/// The linear model that the embedding model is near its start, padded so that it has a multiple of the outputs as weights.
pub(super) fn linearised(model: &Embedding, problem: &Problem) -> Problem {
    let outputs = problem.loss.outputs();
    let touched = problem.nonzeros.saturating_mul(model.width()).saturating_add(model.head(outputs));
    Problem {
        features: model.weights(problem.features, outputs).div_ceil(outputs),
        nonzeros: if problem.nonzeros < problem.features { touched.div_ceil(outputs) } else { usize::MAX },
        row_norm: model.linearised_norm(problem.row_norm),
        ..problem.clone()
    }
}

pub(super) const NOT_CONVEX: &str = "an embedding model is not convex: the predicted risk is that of its linear \
                                     approximation at the start, and only serves to compare noise";

impl Algorithm for EmbeddingSgd {
    type Schedule = EmbeddingSchedule;
    const NAME: &'static str = "embedding-sgd";
    const ABOUT: &'static str = "DP-SGD for embedding models, sums of embeddings and two towers";
    const CAPABILITIES: Capabilities = Capabilities {
        rows: RowAccess::Batches,
        supports_user_level: true,
        calibrates: false,
        intervals: false,
        ..Capabilities::NONE
    };

    fn read(options: &OptionReader<'_>) -> Self {
        only_with(options, &EMBEDDING_UPDATE);
        options.needs(&COUNT_NOISE, &SELECT_ROWS);
        options.needs(&COUNT_LEVEL, &SELECT_ROWS);
        let (noise_ratio, level) = (options.get(&COUNT_NOISE), options.get(&COUNT_LEVEL));
        let selection = RowSelection { noise_ratio, level, ..RowSelection::default() };
        Self {
            model: options.embedding().unwrap_or(Embedding { dimension: 16, towers: None, seed: 0 }),
            selection: options.get(&SELECT_ROWS).map(|_| selection),
            sampling_probability: options.get(&SAMPLING_PROBABILITY),
            lazy: None,
            update: options.get(&EMBEDDING_UPDATE),
            adaptive: AdaptiveOptions::read(options, More { adam: true, projections: false }),
            descent: DescentOptions::read(options),
        }
    }

    fn plan(&self, problem: &Problem, budget: Budget) -> Result<Plan<EmbeddingSchedule>, NotApplicable> {
        self.model.check(problem.features, &problem.loss).map_err(|why| NotApplicable::Option(why.into()))?;
        if problem.is_pooled() && (self.update.is_some() || self.selection.is_some()) {
            return Err(NotApplicable::Option(
                "adaptive steps and the choice of rows (`select_rows`) clip row by row and cannot clip a unit as a \
                 whole; give a bound on the rows of a unit, or leave them out"
                    .into(),
            ));
        }
        let linear = linearised(&self.model, problem);
        if let Some(rule) = self.update {
            return self.plan_adaptive(rule, &linear, problem, budget);
        }
        let descent = self.descent_of(&linear, budget)?;
        let (plan, selection) = match &self.selection {
            Some(selection) => {
                let shape = selection::Shape::of(&self.model, problem);
                let (plan, schedule) =
                    selection.plan(&descent, self.sampling_probability, (&linear, &shape), budget)?;
                (plan, Some(schedule))
            }
            None => {
                let sgd = NoisySgd {
                    sampling_probability: self.sampling_probability,
                    lazy: self.lazy,
                    descent,
                    in_parts: false,
                };
                (sgd.plan(&linear, budget)?, None)
            }
        };
        let mut summary = plan.summary;
        summary.method = Self::NAME;
        summary.warnings.push(NOT_CONVEX.into());
        Ok(Plan {
            schedule: EmbeddingSchedule {
                descent: plan.schedule,
                model: self.model.clone(),
                selection,
                adaptive: None,
            },
            summary,
        })
    }

    fn run<R: OfRows + 'static>(&self, plan: &Plan<EmbeddingSchedule>, run: Run<'_, R>) -> RunResult {
        let Run { problem, examples, curator, progress } = run;
        let EmbeddingSchedule { descent: schedule, model, selection, adaptive } = &plan.schedule;
        let linear = linearised(model, problem);
        let embedded =
            Embedded::new(model.clone(), schedule.loss, problem.features, problem.row_norm, linear.weights());
        if let Some(adaptive) = adaptive {
            return match (Run { problem, examples, curator, progress }).by_row(Self::NAME)? {
                ByRow::Memory(run) => run_adaptive(adaptive, &linear, embedded, run),
                ByRow::Disk(run) => run_adaptive(adaptive, &linear, embedded, run),
                ByRow::Partitions(_) => Err(RunError::InMemory { method: Self::NAME }),
            };
        }
        if let Some(selection) = selection {
            let gradient = Clipped::new(embedded, schedule.clip_norm, Grid::new(schedule.grid_exponent))?;
            return match (Run { problem, examples, curator, progress }).by_row(Self::NAME)? {
                ByRow::Memory(run) => selection::run(schedule, selection, &gradient, run),
                ByRow::Disk(run) => selection::run(schedule, selection, &gradient, run),
                ByRow::Partitions(_) => Err(RunError::InMemory { method: Self::NAME }),
            };
        }
        let on_weights = Run { problem: &linear, examples, curator, progress };
        let moved = train(schedule, Self::NAME, embedded.clone(), on_weights)?;
        Ok(moved.map(|moved| embedded.started(moved).into()))
    }
}

/// Steps of an embedding model over those of the linear model near its start.
const MORE_STEPS: u64 = 4;
/// Rate without momentum over the largest rate of the linear model, which is stable even if all rows shared all their features.
const BOLDER_RATE: f64 = 8.0;

impl EmbeddingSgd {
    /// The plan of an adaptive method on the linear model near the start, moments on the features of the records.
    fn plan_adaptive(
        &self,
        rule: AdaptiveRule,
        linear: &Problem,
        problem: &Problem,
        budget: Budget,
    ) -> Result<Plan<EmbeddingSchedule>, NotApplicable> {
        if self.selection.is_some() || self.adaptive.subspace.is_some() || self.adaptive.euclidean_clip {
            return Err(NotApplicable::Option(
                "adaptive steps of an embedding model update all embeddings and clip radially; leave out the choice \
                 of rows, the subspace and the Euclidean clip"
                    .into(),
            ));
        }
        let lazy = self.lazy.or(self.adaptive.lazy);
        // moments of features say nothing about which rows matter unless somebody asks
        let moments = self.adaptive.moments.clone().or(Some(Moments::None));
        let options = AdaptiveOptions { lazy, moments, ..self.adaptive.clone() };
        let (q, descent) = (self.sampling_probability, self.descent.clone());
        let plan = match rule {
            AdaptiveRule::Scalar => Pasan::new(q, options, descent).plan_for(linear, problem, budget),
            AdaptiveRule::Diagonal => Pagan::new(q, options, descent).plan_for(linear, problem, budget),
            AdaptiveRule::Adam => DpAdam::new(q, options, descent).plan_for(linear, problem, budget),
        }?;
        let mut summary = plan.summary;
        summary.method = Self::NAME;
        summary.warnings.push(NOT_CONVEX.into());
        let (descent, adaptive) = (plan.schedule.descent.clone(), Some(plan.schedule));
        Ok(Plan {
            schedule: EmbeddingSchedule { descent, model: self.model.clone(), selection: None, adaptive },
            summary,
        })
    }

    /// Fills in what the linear model near the start would choose too cautiously.
    fn descent_of(&self, linear: &Problem, budget: Budget) -> Result<DescentOptions, NotApplicable> {
        // a rate that somebody chose was chosen for plain steps
        let plain = self.selection.is_some() || self.descent.learning_rate.is_some();
        let usual = if plain { 0.0 } else { 0.95 };
        let mut descent =
            DescentOptions { momentum: Some(self.descent.momentum.unwrap_or(usual)), ..self.descent.clone() };
        if descent.steps.is_none() {
            descent.steps = Some(MORE_STEPS * descent.recipe(linear, budget)?.steps);
        }
        if descent.learning_rate.is_none() && descent.momentum == Some(0.0) {
            let recipe = descent.recipe(linear, budget)?;
            let tolerable = recipe.tolerable_time / (recipe.steps as f64 * recipe.rates.mean(recipe.steps));
            descent.learning_rate = Some((BOLDER_RATE * recipe.largest_rate).min(tolerable));
        }
        Ok(descent)
    }
}

/// Adaptive steps; the row of a feature has the scale of the feature, the dense part has scale 1.
fn run_adaptive<R: Records>(
    adaptive: &AdaptiveSchedule,
    linear: &Problem,
    embedded: Embedded,
    run: Run<'_, R>,
) -> RunResult {
    let Run { problem, examples, curator, progress } = run;
    let schedule = &adaptive.descent;
    let (width, length) = (embedded.model().width(), embedded.length());
    let mut units = adaptive.units(problem, examples, curator, length, |scales| {
        let rows = scales.iter().flat_map(|s| std::iter::repeat_n(*s, width));
        rows.chain(std::iter::repeat(1.0)).take(length).collect()
    })?;
    let in_units = |scales: &[f64]| Scaled::new(embedded.clone(), scales.to_vec());
    let noise = schedule.noise(length, "batch gradient");
    let mut gradients = NoisySum::new(in_units(&units.scales), noise)?.sampled(schedule.sampling_probability);
    let mut driver = AdaptiveSteps::new(adaptive.step(linear), length, |step| schedule.rate(step));
    let solution = descend(&mut driver, schedule, linear, progress, EmbeddingSgd::NAME, |moved| {
        let noisy = gradients.release(examples, curator, moved)?;
        let noisy = noisy.map(|noisy| units.gradient(noisy, schedule.noise_std));
        if gradients.objective().scales() != units.scales {
            gradients = gradients.with(in_units(&units.scales))?;
        }
        Ok(noisy)
    })?;
    Ok(curator.postprocess(embedded.started(solution.weights).into()))
}

impl EmbeddingSchedule {
    /// Whether the noise of untouched weights is drawn lazily.
    pub fn is_lazy(&self) -> bool {
        self.selection.is_none() && self.adaptive.is_none() && self.descent.is_lazy()
    }
}
