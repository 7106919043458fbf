//! Training on privately selected rows of an embedding table (DP-AdaFEST, Ghazi et al. 2023; docs/proofs/embeddings.md).
//!
//! Each step counts the touched features of its batch, adds noise to the counts of *all* features, and moves only the rows
//! whose noisy count passes a public level. Features that nobody touched pass by chance, as they must; they are drawn exactly,
//! without drawing the noise of the others. The model stays sparse: rows that were never chosen stay where they started.

use super::EmbeddingSgd;
use crate::choices::RowSelection;
use crate::descent::{Average, DescentOptions, DescentSchedule, Releases};
use dpopt_mechanism::{Clipped, SelectedRows, SelectedUpdate, TouchedRows, joint_multiplier};
use dpopt_noise::Grid;
use dpopt_objective::loss::embedding::Embedding;
use dpopt_objective::objective::Embedded;
use dpopt_objective::records::Records;
use dpopt_optimize::plan::{Assumption, NotApplicable, Plan, Problem};
use dpopt_optimize::planning::{SamplerError, in_range, positive, sampled_secretly, sum_grid};
use dpopt_optimize::{Algorithm, Run, RunResult};
use dpopt_privacy::{Budget, Event, special};
use serde::Serialize;

/// The private choice as planned.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SelectionSchedule {
    /// C₁: l2 clip norm of a record's counts.
    pub count_clip_norm: f64,
    /// σ₁: noise standard deviation of a count, over C₁.
    pub count_noise_multiplier: f64,
    /// σ of the one Gaussian that counts and gradients are together.
    pub joint_noise_multiplier: f64,
    /// Level over σ₁C₁, in eighths.
    pub level_eighths: u32,
    /// log2 of the grid step of counts.
    pub count_grid_exponent: i32,
    /// Features that no record touched and a step chooses all the same, on average.
    pub expected_untouched: f64,
}

/// Sizes of the parts of an embedding model.
pub(super) struct Shape {
    features: usize,
    width: usize,
    head: usize,
}

impl Shape {
    pub(super) fn of(model: &Embedding, problem: &Problem) -> Self {
        Self { features: problem.features, width: model.width(), head: model.head(problem.loss.outputs()) }
    }
}

/// Expected number of untouched features that are chosen, c·Φ̄(level).
fn expected_untouched(features: usize, eighths: u32) -> f64 {
    features as f64 * special::normal_cdf(-f64::from(eighths) / 8.0)
}

const DEFAULT_RATIO: f64 = 3.0;

impl RowSelection {
    fn level_eighths(&self, features: usize) -> Result<u32, NotApplicable> {
        match self.level {
            Some(level) => Ok((in_range("the level of counts", level, 0.125, 9.0)? * 8.0).round() as u32),
            None => Ok((32..72).find(|&e| expected_untouched(features, e) <= 1.0).unwrap_or(72)),
        }
    }

    /// Certified plan of T steps; `linear` gives noise scales and step sizes.
    pub(super) fn plan(
        &self,
        descent: &DescentOptions,
        sampling_probability: Option<f64>,
        (linear, shape): (&Problem, &Shape),
        budget: Budget,
    ) -> Result<(Plan<DescentSchedule>, SelectionSchedule), NotApplicable> {
        let q = in_range("the sampling probability", sampling_probability.unwrap_or(0.1), 1e-9, 1.0)?;
        let ratio = in_range(
            "the ratio of count noise to gradient noise",
            self.noise_ratio.unwrap_or(DEFAULT_RATIO),
            0.1,
            100.0,
        )?;
        let count_clip_norm = positive("the clip norm of counts", self.count_clip_norm.unwrap_or(1.0))?;
        let level_eighths = self.level_eighths(shape.features)?;
        let recipe = descent.recipe(linear, budget)?;
        if recipe.momentum > 0.0 || recipe.regularization > 0.0 {
            return Err(NotApplicable::Option(
                "momentum and regularization update all embeddings in every step, and `select_rows` only chosen \
                 ones; leave out momentum and regularization, or `select_rows`"
                    .into(),
            ));
        }
        let steps = recipe.steps;
        let step = SelectedRows::step_error([shape.features, shape.width, shape.head]);
        let drawn = (SamplerError::subset(linear.rows) + step) * steps as f64;
        let event = |z: f64| {
            drawn.on(Event::gaussian(joint_multiplier([ratio * z, z])).poisson_sampled(q).self_composed(steps))
        };
        let releases = Releases {
            method: EmbeddingSgd::NAME,
            sampling_probability: q,
            event,
            assumptions: vec![
                sampled_secretly(),
                Assumption::proved(
                    "noisy counts and noisy gradients of a step use one batch and are accounted as one release; \
                     features that no record has can be chosen by chance, like all others",
                ),
            ],
            noise_drawn: "for chosen embeddings only: noisy counts choose them".into(),
        };
        let plan = recipe.plan(linear, budget, releases)?;
        let count_noise_multiplier = ratio * plan.schedule.noise_multiplier;
        let grid = sum_grid(count_clip_norm, count_noise_multiplier * count_clip_norm, linear.rows, shape.features)?;
        let schedule = SelectionSchedule {
            count_clip_norm,
            count_noise_multiplier,
            joint_noise_multiplier: joint_multiplier([count_noise_multiplier, plan.schedule.noise_multiplier]),
            level_eighths,
            count_grid_exponent: grid.exponent(),
            expected_untouched: expected_untouched(shape.features, level_eighths),
        };
        Ok((plan, schedule))
    }
}

/// The loop: choose rows, move them.
pub(super) fn run<R: Records>(
    schedule: &DescentSchedule,
    selection: &SelectionSchedule,
    gradient: &Clipped<Embedded>,
    run: Run<'_, R>,
) -> RunResult {
    let Run { problem, examples, curator, progress } = run;
    let shape = Shape::of(gradient.objective().model(), problem);
    let grids = [Grid::new(selection.count_grid_exponent), Grid::new(schedule.grid_exponent)];
    let counts = (selection.count_clip_norm, grids[0]);
    let mechanism = SelectedRows {
        clip_norms: [selection.count_clip_norm, schedule.clip_norm],
        multipliers: [selection.count_noise_multiplier, schedule.noise_multiplier],
        grids,
        level_eighths: selection.level_eighths,
        shape: [shape.features, shape.width, shape.head],
    };
    let table = shape.features * shape.width;
    let (mut moved, first) = (vec![0.0; gradient.objective().length()], schedule.first_averaged());
    // a step moves the mean of the averaged iterates by the share of them that come after it
    let mut mean =
        if schedule.average == Average::Last { Vec::new() } else { vec![0.0; gradient.objective().length()] };
    progress.start(EmbeddingSgd::NAME, schedule.steps);
    for step in 0..schedule.steps {
        let batch = curator.poisson_sample_of(examples, schedule.sampling_probability)?;
        let touched = TouchedRows::of(gradient, examples, batch, &moved, counts)?;
        let update = curator.release(&mechanism, &touched)?;
        let rate = schedule.rate(step) * schedule.per_record(problem);
        let share = ((schedule.steps - step) as f64 / (schedule.steps - first) as f64).min(1.0);
        for_each_weight(update.get(), (table, shape.width), |at, g| {
            moved[at] -= rate * g;
            if let Some(mean) = mean.get_mut(at) {
                *mean -= share * rate * g;
            }
        });
        progress.tick();
    }
    progress.finish();
    let answer = if mean.is_empty() { moved } else { mean };
    Ok(curator.postprocess(gradient.objective().started(answer).into()))
}

fn for_each_weight(update: &SelectedUpdate, (table, width): (usize, usize), mut f: impl FnMut(usize, f64)) {
    update.dense().iter().enumerate().for_each(|(i, &g)| f(table + i, g));
    for (feature, row) in update.rows() {
        row.iter().enumerate().for_each(|(i, &g)| f(feature * width + i, g));
    }
}
