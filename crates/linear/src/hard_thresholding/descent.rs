//! DP-GD-HT and DP-SGD-HT (Liang, Tong, Ding, Pan, Bi 2022, Algorithm 1), with numerical accounting and a second fit of the chosen features.
//!
//! Covers: hard-thresholding algorithm 1 (certified: Poisson batches, noise by the accountant)
//! Covers: hard-thresholding theorem 4.2, theorem 4.3 (part: the method is certified; the rate is measured, not claimed)
//! Covers: hard-thresholding corollary 4.4.1 (part: the number of gradients is the plan's own)

use super::refit::{RefitSchedule, Shared, recipe, refit};
use super::{INITIAL_FEATURES, REFIT_SHARE, SparseOptions, Sparsity};
use crate::descent::{DescentOptions, default_clip_norm};
use dpopt_mechanism::{Clipped, Formed, Released, SparseGridSum, SparseVector, ThresholdedGaussian};
use dpopt_noise::Grid;
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::OfRows;
use dpopt_objective::records::Records;
use dpopt_optimize::algorithm::ByRow;
use dpopt_optimize::algorithm::{Capabilities, RowAccess};
use dpopt_optimize::options::OptionReader;
use dpopt_optimize::options::common::{MOMENTUM, SAMPLING_PROBABILITY};
use dpopt_optimize::plan::{Assumption, NotApplicable, Plan, Problem, Summary};
use dpopt_optimize::planning::{
    COST_RATIO, SamplerError, asked_or_stable_rate, asked_steps, check_decay, check_problem, clipped, entries,
    in_range, noise, positive, require_delta, sampled_secretly, sum_grid,
};
use dpopt_optimize::risk::RiskModel;
use dpopt_optimize::{Algorithm, Run, RunError, RunResult};
use dpopt_privacy::{Budget, Event};
use dpopt_refusal::option;
use serde::Serialize;

/// Steps of the selection by default. Few: a coordinate is chosen by its gradient against the noise of one step, and
/// that noise grows with √T.
const SELECTION_STEPS: u64 = 10;

/// The schedule of hard-thresholded descent, full-batch (`sampling_probability` 1) or stochastic.
#[derive(Clone, Debug, Serialize)]
pub struct HardThresholdSchedule {
    /// The loss that is minimised.
    pub loss: Loss,
    /// k: features that the answer may have.
    pub max_features: usize,
    /// k₀: features that the first steps keep.
    pub initial_features: usize,
    /// Always kept, not counted, not decayed.
    pub intercept: Option<u32>,
    /// T: number of noisy steps.
    pub steps: u64,
    /// η on the mean loss.
    pub learning_rate: f64,
    /// β: momentum of the heavy ball.
    pub momentum: f64,
    /// C: l2 clip norm of a record's gradient.
    pub clip_norm: f64,
    /// z: noise standard deviation of the *sum*, over C.
    pub noise_multiplier: f64,
    /// Noise standard deviation of the sum, per coordinate.
    pub noise_std: f64,
    /// q: probability of a record to be in a batch; 1 for full batches.
    pub sampling_probability: f64,
    /// λ of the sum objective.
    pub regularization: f64,
    /// log2 of the grid step.
    pub grid_exponent: i32,
    /// How a step is computed; its law is the same.
    pub computed: String,
    /// The second stage, which fits the chosen features again.
    pub refit: Option<RefitSchedule>,
}

pub(super) const BY_ENTRIES: &str =
    "for the entries of the batch; for all other coordinates only the largest values of the noise are drawn";
pub(super) const OVER_ALL: &str = "for all coordinates: batches touch so many that this costs less";

impl HardThresholdSchedule {
    /// Steps by the batch's entries, whatever the plan found cheaper: the law is the same.
    pub fn by_entries(&mut self) {
        self.computed = BY_ENTRIES.into();
    }

    pub(super) fn formed(&self) -> Formed {
        if self.computed == BY_ENTRIES { Formed::BySparseEntries } else { Formed::OverAllCoordinates }
    }

    fn shared(&self) -> Shared {
        Shared {
            loss: self.loss,
            sampling_probability: self.sampling_probability,
            regularization: self.regularization,
            intercept: self.intercept,
        }
    }

    fn sparsity(&self) -> Sparsity {
        Sparsity { max_features: self.max_features, initial_features: self.initial_features, intercept: self.intercept }
    }
}

/// Options of DP-GD-HT: all records at each step.
#[derive(Clone, Debug, Default)]
pub struct DpGdHt {
    /// What all methods here have.
    pub sparse: SparseOptions,
}

/// Options of DP-SGD-HT: Poisson batches.
#[derive(Clone, Debug, Default)]
pub struct DpSgdHt {
    /// q in (0, 1]. Default 0.1.
    pub sampling_probability: Option<f64>,
    /// What all methods here have.
    pub sparse: SparseOptions,
}

/// T Gaussian releases, each on a Poisson batch unless q = 1.
pub(super) fn releases(z: f64, q: f64, steps: u64) -> Event {
    let one = Event::gaussian(z);
    if q < 1.0 { one.poisson_sampled(q) } else { one }.self_composed(steps)
}

impl SparseOptions {
    /// Reads the options of methods that threshold at every step and fit again in the end.
    fn stepwise(options: &OptionReader<'_>) -> Self {
        Self {
            initial_features: options.get(&INITIAL_FEATURES),
            refit_share: options.get(&REFIT_SHARE),
            momentum: options.get(&MOMENTUM),
            ..Self::read(options)
        }
    }

    fn plan(
        &self,
        method: &'static str,
        q: f64,
        problem: &Problem,
        budget: Budget,
    ) -> Result<Plan<HardThresholdSchedule>, NotApplicable> {
        check_problem(problem)?;
        require_delta(budget)?;
        let sparsity = self.sparsity(problem)?;
        let share = in_range("the refit share", self.refit_share.unwrap_or(0.5), 0.0, 0.95)?;
        let steps = asked_steps(self.steps)?.unwrap_or(SELECTION_STEPS);
        let clip_norm = positive("the clip norm", self.clip_norm.unwrap_or_else(|| default_clip_norm(problem)))?;
        let regularization = in_range("the regularization", self.regularization.unwrap_or(0.0), 0.0, f64::MAX)?;
        let momentum = in_range(option("momentum"), self.momentum.unwrap_or(0.0), 0.0, 0.999)?;
        let learning_rate = asked_or_stable_rate(self.learning_rate, problem)?;
        let n = problem.rows as f64;
        check_decay(learning_rate * regularization / n, regularization, learning_rate)?;
        // the second stage: the recipe of noisy descent, for its share of the budget
        let second = if share > 0.0 {
            let options = DescentOptions {
                clip_norm: Some(clip_norm),
                regularization: Some(regularization),
                ..Default::default()
            };
            Some(recipe(&options, problem, budget, share)?)
        } else {
            None
        };
        // one parameter for both stages: their costs T/z² are as 1 − share to share
        let first_noise = |m: f64| m * (steps as f64 / (1.0 - share)).sqrt();
        let second_noise = |m: f64| second.as_ref().map(|r| m * (r.steps as f64 / share).sqrt());
        let subset = if q < 1.0 { SamplerError::subset(problem.rows) } else { SamplerError::NONE };
        let step = |coordinates: f64| SamplerError::rounded(coordinates) + subset;
        let kept = (sparsity.max_features + 1) as f64;
        let refitted = second.as_ref().map_or(SamplerError::NONE, |r| step(kept) * r.steps as f64);
        let drawn = step(problem.features as f64) * steps as f64 + refitted;
        let event = |m: f64| {
            let mut parts = vec![releases(first_noise(m), q, steps)];
            if let (Some(z), Some(r)) = (second_noise(m), &second) {
                parts.push(releases(z, q, r.steps));
            }
            drawn.on(Event::composed(parts))
        };
        let (m, certificate) = noise(problem, budget, event)?;
        let (noise_multiplier, second_multiplier) = (first_noise(m), second_noise(m));
        let refit = second
            .zip(second_multiplier)
            .map(|(recipe, z)| RefitSchedule::of(&recipe, z, problem.rows, sparsity.max_features + 1))
            .transpose()?;
        let by_entries = entries(problem, q * n) * COST_RATIO < problem.features as f64;
        let schedule = HardThresholdSchedule {
            loss: problem.loss,
            max_features: sparsity.max_features,
            initial_features: sparsity.initial_features,
            intercept: sparsity.intercept,
            steps,
            learning_rate,
            momentum,
            clip_norm,
            noise_multiplier,
            noise_std: noise_multiplier * clip_norm,
            sampling_probability: q,
            regularization,
            grid_exponent: sum_grid(clip_norm, noise_multiplier * clip_norm, problem.rows, problem.features)?
                .exponent(),
            computed: if by_entries { BY_ENTRIES } else { OVER_ALL }.into(),
            refit,
        };
        let total = steps + schedule.refit.as_ref().map_or(0, |r| r.steps);
        Ok(Plan {
            summary: Summary {
                method,
                loss: problem.loss,
                noise_multiplier,
                steps: total,
                gradients: q * n * total as f64,
                weight_noise: None,
                predicted_excess_risk: predicted(&schedule, problem),
                certificate,
                assumptions: assumptions(q),
                warnings: Vec::new(),
            },
            schedule,
        })
    }
}

/// What the guarantee rests on.
pub(super) fn assumptions(q: f64) -> Vec<Assumption> {
    let mut all = vec![
        clipped(),
        Assumption::proved(
            "the largest coordinates are chosen from a vector with noise in every coordinate; noise too small to be \
             chosen is not drawn, which leaves the distribution unchanged",
        ),
    ];
    if q < 1.0 {
        all.push(sampled_secretly());
    }
    all
}

/// Excess risk of descent on k features, the noise of the last stage on each, and what the features are worth whose slope is lost
/// in the noise of a step: its largest among d/k features.
fn predicted(schedule: &HardThresholdSchedule, problem: &Problem) -> f64 {
    let kept = Problem { features: schedule.max_features + 1, nonzeros: schedule.max_features + 1, ..problem.clone() };
    let lipschitz = problem.lipschitz();
    let model = RiskModel::of(&kept).clipped(schedule.clip_norm, lipschitz);
    let batch = schedule.sampling_probability * problem.rows as f64;
    let steps = schedule.steps as f64;
    let selection = schedule.learning_rate * steps / (1.0 - schedule.momentum);
    let (time, noise) = match &schedule.refit {
        Some(refit) => (selection + refit.learning_time(), refit.noise_left(batch)),
        None => (selection, selection * schedule.noise_std / (batch * steps.sqrt())),
    };
    let rivals = (problem.features as f64 / schedule.max_features as f64).max(1.0);
    let visible = schedule.noise_std / batch * (2.0 * rivals.ln()).sqrt();
    model.learning_time(time, noise) + RiskModel::of(problem).missed(schedule.max_features, visible)
}

impl Algorithm for DpGdHt {
    type Schedule = HardThresholdSchedule;
    const NAME: &'static str = "dp-gd-ht";
    const ABOUT: &'static str =
        "keeps the k largest coordinates of noisy full-batch steps, then refits them; for few features";
    const CAPABILITIES: Capabilities = Capabilities { rows: RowAccess::Passes, ..Capabilities::NONE };

    fn read(options: &OptionReader<'_>) -> Self {
        Self { sparse: SparseOptions::stepwise(options) }
    }

    fn plan(&self, problem: &Problem, budget: Budget) -> Result<Plan<HardThresholdSchedule>, NotApplicable> {
        self.sparse.plan(Self::NAME, 1.0, problem, budget)
    }

    fn run<R: OfRows + 'static>(&self, plan: &Plan<HardThresholdSchedule>, run: Run<'_, R>) -> RunResult {
        densely(plan, run)
    }
}

impl Algorithm for DpSgdHt {
    type Schedule = HardThresholdSchedule;
    const NAME: &'static str = "dp-sgd-ht";
    const ABOUT: &'static str = "keeps the k largest coordinates of noisy steps on Poisson batches, then refits \
                                 them; for few features and huge tables";
    const CAPABILITIES: Capabilities = Capabilities { rows: RowAccess::Batches, ..Capabilities::NONE };

    fn read(options: &OptionReader<'_>) -> Self {
        Self { sampling_probability: options.get(&SAMPLING_PROBABILITY), sparse: SparseOptions::stepwise(options) }
    }

    fn plan(&self, problem: &Problem, budget: Budget) -> Result<Plan<HardThresholdSchedule>, NotApplicable> {
        let q = in_range("the sampling probability", self.sampling_probability.unwrap_or(0.1), 1e-9, 1.0)?;
        self.sparse.plan(Self::NAME, q, problem, budget)
    }

    fn run<R: OfRows + 'static>(&self, plan: &Plan<HardThresholdSchedule>, run: Run<'_, R>) -> RunResult {
        densely(plan, run)
    }
}

fn densely<R: OfRows + 'static>(plan: &Plan<HardThresholdSchedule>, run: Run<'_, R>) -> RunResult {
    let features = run.problem.features;
    let released = match run.by_row(plan.summary.method)? {
        ByRow::Memory(run) => run_sparse(plan, run),
        ByRow::Disk(run) => run_sparse(plan, run),
        ByRow::Partitions(_) => return Err(RunError::InMemory { method: plan.summary.method }),
    };
    Ok(released?.map(|x| x.dense(features).into()))
}

/// Runs a plan of [`DpGdHt`] or [`DpSgdHt`] without ever making a vector of all features: where a batch touches few of them,
/// time and memory do not depend on how many there are.
pub fn run_sparse<R: Records>(
    plan: &Plan<HardThresholdSchedule>,
    run: Run<'_, R>,
) -> Result<Released<SparseVector>, RunError> {
    let Run { problem, examples, curator, progress } = run;
    let s = &plan.schedule;
    let grid = Grid::new(s.grid_exponent);
    let gradient = Clipped::new(problem.objective().with_loss(s.loss), s.clip_norm, grid)?;
    let (sparsity, n) = (s.sparsity(), problem.rows as f64);
    let decay = 1.0 - s.learning_rate * s.regularization / n;
    let (mut x, mut previous) = (SparseVector::default(), SparseVector::default());
    progress.start(plan.summary.method, plan.summary.steps);
    for step in 0..s.steps {
        let batch = match s.sampling_probability < 1.0 {
            true => Some(curator.poisson_sample_of(examples, s.sampling_probability)?),
            false => None,
        };
        let sum = SparseGridSum::of(&gradient, examples, batch, &x, s.formed())?;
        let start = sparsity.start(&x, &previous, decay, s.momentum);
        let mechanism = ThresholdedGaussian {
            noise_multiplier: s.noise_multiplier,
            clip_norm: s.clip_norm,
            grid,
            dimension: problem.features as u64,
            start: &start,
            scale: s.learning_rate / (s.sampling_probability * n),
            keep: sparsity.at(step, s.steps),
            exempt: sparsity.intercept,
        };
        let next = curator.release(&mechanism, &sum)?.into_inner();
        previous = std::mem::replace(&mut x, next);
        progress.tick();
    }
    if let Some(second) = &s.refit {
        x = refit((&s.shared(), second), problem, examples, curator, progress, x)?;
    }
    progress.finish();
    Ok(curator.postprocess(x))
}
