//! Plans: batches, steps and noise from public facts, with a bound on the excess for convex losses.
//!
//! With slopes of at most C, noise and the choice of batches of E‖·‖² ≤ V on the mean gradient, and D = ‖x₀ − x*‖, the mean iterate of T steps of
//! η = D/√(T(C² + V)) has an excess of at most D√((C² + V)/T); where the mean loss is L-smooth, one of η = min(1/(2L), D/√(2TV)) at most
//! D²/(2ηT) + ηV. What is clipped, or not convex, has no such bound: the numbers choose steps and batches all the same.

use super::kind::Method;
use super::o2nc_schedule::ConversionAsked;
use super::problem::{Answers, MinimizeProblem};
use super::schedule::{
    Averaged, Batches, DirectionSchedule, Goal, Layout, MinimizeSchedule, Rule, block_sizes, least_block, sum_grid,
};
use super::spider_schedule::SpiderAsked;
use super::walk::Walk;
use dpopt_mechanism::{Batching, Correlation, StreamShape};
use dpopt_noise::Grid;
use dpopt_optimize::choices::Domain;
use dpopt_optimize::clip_bias::{balanced_clip, clip_bias};
use dpopt_optimize::plan::{Assumption, Grade, NotApplicable, own_evidence};
use dpopt_optimize::planning::{SamplerError, asked_moment, can_sum, in_range, positive, require_delta};
use dpopt_privacy::special::gaussian_mu;
use dpopt_privacy::{Budget, Certificate, Event, Relation, calibrate};
use dpopt_refusal::{Refusal, Remedy, Text, option, setting, text};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a user said of a method.
#[derive(Clone, Debug, Default)]
pub(super) struct Asked {
    pub(super) steps: Option<u64>,
    pub(super) passes: Option<f64>,
    pub(super) sampling_probability: Option<f64>,
    pub(super) clip_norm: Option<f64>,
    pub(super) chunks: Option<u64>,
    pub(super) moment: Option<f64>,
    pub(super) moment_order: Option<f64>,
    pub(super) learning_rate: Option<f64>,
    pub(super) momentum: Option<f64>,
    pub(super) second_momentum: Option<f64>,
    pub(super) regularization: Option<f64>,
    pub(super) average: Option<Averaged>,
    pub(super) domain: Domain,
    pub(super) correlation: Option<Correlation>,
    pub(super) directions: Option<u64>,
    pub(super) difference: Option<f64>,
    pub(super) goal: Goal,
    pub(super) restarts: Option<u64>,
    pub(super) smoothing: Option<f64>,
    pub(super) fixed: bool,
    pub(super) spider: SpiderAsked,
    pub(super) points: Option<u64>,
    pub(super) conversion: ConversionAsked,
    pub(super) loss_bound: Option<f64>,
}

/// A schedule that is certified.
#[derive(Clone, Debug)]
pub struct MinimizePlan {
    /// Name of the method.
    pub method: &'static str,
    /// All numbers of the run.
    pub schedule: MinimizeSchedule,
    /// The certified privacy event of all steps.
    pub certificate: Certificate,
    /// Expected number of evaluations of one record: of gradients, derivatives or values.
    pub evaluations: f64,
    /// Bound on the expected excess of the mean loss, if it is convex, its slopes are at most C, and D is true.
    pub predicted_excess: f64,
    /// What the guarantee rests on, and why each item may be believed.
    pub assumptions: Vec<Assumption>,
    /// What the user should know.
    pub warnings: Vec<String>,
    /// What moves x, where a method brings its own; otherwise the schedule says it.
    pub walk: Option<Arc<dyn Walk>>,
}

impl MinimizePlan {
    /// How far the claim can be trusted.
    pub fn grade(&self) -> Grade {
        Grade::resting_on(Assumption::weakest(&self.assumptions))
    }
}

/// One row of the table that compares methods.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Name of the method.
    pub method: &'static str,
    /// The plan, or why there is none.
    pub plan: Result<MinimizePlan, NotApplicable>,
}

/// Most steps: accounting and the sensitivity of streams are sums over all of them.
const MAX_STEPS: u64 = 1 << 20;
/// Steps that are taken without being asked for.
const USUAL_STEPS: u64 = 2048;
/// Batches and steps with their noise.
pub(super) struct Draft {
    pub(super) batches: Batches,
    /// Share of the records in a batch.
    pub(super) share: f64,
    pub(super) steps: u64,
    /// Noise multiplier of the last round.
    pub(super) noise_multiplier: f64,
    pub(super) certificate: Certificate,
    /// V: variance of a mean gradient as it is released, summed over coordinates.
    pub(super) variance: f64,
    /// Noise standard deviation of one step's sum, before it is a mean.
    pub(super) noise_std: f64,
    /// Noise of the sum of all sums, per coordinate.
    pub(super) of_prefix: f64,
}

pub(super) struct Planner<'a> {
    pub(super) method: Method,
    pub(super) problem: &'a MinimizeProblem,
    pub(super) budget: Budget,
    pub(super) asked: Asked,
    /// Clip norm of a gradient; of all derivatives of a step it is √K times that.
    pub(super) clip_norm: f64,
    /// Root of what E‖clipped gradient‖² is at most: C, or less where a moment of gradients is given.
    pub(super) size: f64,
    /// D, or the radius of the domain.
    pub(super) distance: f64,
    pub(super) along: Option<DirectionSchedule>,
    pub(super) layout: Layout,
}

/// The certified plan of a method.
pub(super) fn plan(
    method: Method,
    problem: &MinimizeProblem,
    budget: Budget,
    asked: Asked,
) -> Result<MinimizePlan, NotApplicable> {
    if !method.takes(problem.answers) {
        return Err(NotApplicable::Problem(
            match problem.answers {
                Answers::Gradients => {
                    "it needs values or derivatives along directions, and this objective gives gradients; choose a \
                     method for gradients, such as noisy-sgd"
                }
                Answers::Derivatives | Answers::Values => {
                    "it needs gradients, and this objective gives values or derivatives along directions; choose \
                     zeroth-order"
                }
            }
            .into(),
        ));
    }
    require_delta(budget)?;
    let distance = match asked.domain {
        Domain::Unconstrained => problem.distance,
        Domain::Ball { radius } => problem.distance.min(radius),
        Domain::Box { radius } => problem.distance.min(radius * (problem.dimension as f64).sqrt()),
    };
    let usual = match problem.smoothness {
        // of gradients of norm G weighted differences are at most G + L(t − 1)‖x_t − x_{t−1}‖
        Some(smoothness) if method == Method::Recursive => problem.usual_clip_norm + 0.5 * smoothness * distance,
        _ => problem.usual_clip_norm,
    };
    let moment = asked_moment(asked.moment, asked.moment_order)?;
    let usual = match moment {
        Some((root, order)) => {
            // the noise of the whole run, as if it were that of one mean gradient
            let mu = gaussian_mu(budget.epsilon(), budget.delta());
            let per_clip = (problem.dimension as f64).sqrt() / (problem.records as f64 * mu);
            balanced_clip(order, root, per_clip).clamp(f64::MIN_POSITIVE, 1e30)
        }
        None => usual,
    };
    let clip_norm = positive("the clip norm", asked.clip_norm.unwrap_or(usual))?;
    // E‖g‖² ≤ G² for k ≥ 2, and C^(2−k)·G^k of clipped ones below that
    let size = moment.map_or(clip_norm, |(root, order)| {
        let k = order.min(2.0);
        (root.powf(k) * clip_norm.powf(2.0 - k)).sqrt().min(clip_norm)
    });
    let along = (method == Method::ZerothOrder).then(|| DirectionSchedule {
        directions: asked.directions.unwrap_or(8).min(1 << 16) as usize,
        difference: asked.difference.unwrap_or(1e-3 * distance / (problem.dimension as f64).sqrt()),
    });
    let with = |stages: u64| {
        let layout = layout(problem, budget, &asked, stages)?;
        Planner { method, problem, budget, asked: asked.clone(), clip_norm, size, distance, along, layout }.plan()
    };
    let mut best = with(1)?;
    for stages in 2..=most_stages(problem, budget, &asked) {
        let other = with(stages)?;
        if other.predicted_excess < WORTH * best.predicted_excess {
            best = other;
        }
    }
    Ok(best)
}

/// That what an objective evaluated outside of this library says of a record is that record's own, and why it may be believed.
pub(super) fn told_of_records(problem: &MinimizeProblem) -> Assumption {
    own_evidence(
        problem.own_evidence,
        "what the objective returns for a record depends on that record and on x only, not on other records of a \
         batch or on earlier calls",
    )
}

/// What is longer, or has more parts, must have a prediction that is lower by more than predictions are worth.
const WORTH: f64 = 0.98;

/// ⌈log2 log2 n⌉ + 1 stages of a strongly convex loss for the population, as long as each has the records of a few blocks; otherwise one.
fn most_stages(problem: &MinimizeProblem, budget: Budget, asked: &Asked) -> u64 {
    if asked.goal == Goal::Empirical || problem.strong_convexity == 0.0 {
        return 1;
    }
    let of_a_chunk = problem.records / asked.chunks.unwrap_or(1).max(1);
    let enough = (of_a_chunk as f64 / (4.0 * least_block(problem.dimension, budget))) as u64;
    let published = (problem.records.max(4) as f64).log2().log2().ceil() as u64 + 1;
    published.min(enough).max(1)
}

/// Most chunks of a phase.
const MAX_CHUNKS: u64 = 64;
/// Most rounds of a run with restarts: the noise of the first is 2^15 times that of the last.
const MAX_ROUNDS: u64 = 16;

fn layout(problem: &MinimizeProblem, budget: Budget, asked: &Asked, stages: u64) -> Result<Layout, NotApplicable> {
    let refuse = |why: Text| Err(NotApplicable::Option(why.into()));
    let rounds = asked.restarts.unwrap_or(1);
    if !(1..=MAX_ROUNDS).contains(&rounds) {
        return refuse(text![option("restarts"), " is out of range; give 1 (a single round) to 16"]);
    }
    if asked.smoothing.is_some_and(|smoothing| smoothing > 0.0) {
        if problem.remote {
            return refuse(text![
                option("smoothing"),
                " needs each record's gradient at a point of its own, and this objective evaluates many records at one point; leave it out"
            ]);
        }
        if problem.by_unit() {
            return refuse(text![
                "points are randomized by position, and units have no position; leave out ",
                option("smoothing")
            ]);
        }
        if problem.relation() == Relation::AddOrRemove {
            return refuse(text![
                "points are randomized by position, and an added record would change those of all others; leave out ",
                option("smoothing"),
                ", or use zero-out or replace-one"
            ]);
        }
    }
    if asked.fixed && problem.relation() == Relation::AddOrRemove {
        return refuse(
            "batches of fixed size use the number of records, which add-or-remove protects; use zero-out or replace-one, or Poisson batches"
.into(),
        );
    }
    if asked.chunks.is_some() && asked.goal == Goal::Empirical {
        return refuse(text![
            option("chunks"),
            " need phases on disjoint blocks of the records; give ",
            setting("goal", "population"),
            ", or leave out ",
            option("chunks")
        ]);
    }
    if asked.goal == Goal::Empirical {
        return Ok(if rounds == 1 { Layout::Once } else { Layout::Rounds(rounds as u32) });
    }
    if problem.relation() == Relation::AddOrRemove {
        return Err(NotApplicable::Problem(
            "the records are split into blocks, and an added record would move the borders; use zero-out or replace-one".into(),
        ));
    }
    if rounds > 1 {
        return refuse(text![
            option("restarts"),
            " repeat rounds on the same records, while goal population uses new records in each phase; leave out one of the two"
        ]);
    }
    if asked.fixed {
        return refuse(text!["with goal population batches are always Poisson samples; leave out ", option("batches")]);
    }
    let of_one_phase = [
        (asked.learning_rate.is_some(), "learning_rate"),
        (asked.momentum.is_some(), "momentum"),
        (asked.regularization.is_some(), "regularization"),
        (asked.average.is_some(), "average"),
    ];
    if let Some((_, name)) = of_one_phase.iter().find(|(options, _)| *options) {
        return Err(NotApplicable::Option(
            Refusal::of(
                "with goal population, learning rate, averaging and regularization follow from the number of records",
            )
            .or(Remedy::LeaveOut(name)),
        ));
    }
    let chunks = asked.chunks.unwrap_or(1);
    if chunks > MAX_CHUNKS {
        return refuse(text![
            option("chunks"),
            " is above 64, and the chunks share the records of a phase; give 1 to 5"
        ]);
    }
    let of_a_chunk = problem.records / chunks;
    if chunks > 1 && (of_a_chunk as f64) < least_block(problem.dimension, budget) {
        return Err(NotApplicable::Option(
            text![
                option("chunks"),
                format!(
                    " is {chunks}, so that a chunk has {of_a_chunk} records, too few for this budget and dimension; give fewer"
                )
            ]
            .into(),
        ));
    }
    let of_a_stage = of_a_chunk / stages;
    let rest = of_a_chunk - stages * of_a_stage;
    let sizes = |records: u64| block_sizes(records, problem.dimension, budget);
    let stages = (0..stages).map(|stage| sizes(of_a_stage + if stage == 0 { rest } else { 0 })).collect();
    Ok(Layout::Blocks { stages, chunks })
}

impl Planner<'_> {
    pub(super) fn n(&self) -> f64 {
        self.problem.records as f64
    }

    /// Coordinates of a release.
    fn released(&self) -> usize {
        self.along.map_or(self.problem.dimension, |along| along.directions)
    }

    /// C of what is clipped.
    fn vector_clip(&self) -> f64 {
        self.along.map_or(self.clip_norm, |along| self.clip_norm * (along.directions as f64).sqrt())
    }

    /// E‖·‖² of a mean gradient's noise, from the noise of a gradient sum per coordinate. Of derivatives along K directions, each of noise √K·zC, the mean
    /// of K vectors of length √d has as much.
    pub(super) fn variance(&self, noise_std_of_gradient: f64, share: f64, records: f64) -> f64 {
        let (squared, d) = (self.size * self.size, self.problem.dimension as f64);
        let noise = (noise_std_of_gradient / (share * records)).powi(2) * d;
        let choice = squared * (1.0 - share) / (share * records);
        // of K directions of d: E‖(1/K)Σ⟨g, u⟩u‖² is at most (1 + (d + 1)/K)‖g‖²
        let projection = self.along.map_or(0.0, |along| squared * (d + 1.0) / along.directions as f64);
        noise + choice + projection
    }

    /// Bound on the excess, and η that has it.
    fn bound(&self, steps: u64, variance: f64) -> (f64, f64) {
        let (t, d) = (steps as f64, self.distance);
        let all = self.size * self.size + variance;
        let lipschitz = (d * (all / t).sqrt(), d / (t * all).sqrt());
        let Some(smoothness) = self.problem.smoothness else { return lipschitz };
        let rate = (0.5 / smoothness).min(d / (2.0 * t * variance.max(f64::MIN_POSITIVE)).sqrt());
        let smooth = (d * d / (2.0 * rate * t) + rate * variance, rate);
        if smooth.0 < lipschitz.0 { smooth } else { lipschitz }
    }

    /// Bound of AC-SA, the curvature that it adds, and the L and μ that it works with.
    pub(super) fn accelerated(&self, steps: u64, variance: f64, smoothness: f64, away: f64) -> (f64, f64, f64, f64) {
        let (t, d) = (steps as f64, away);
        let excess = |l: f64, mu: f64| 2.0 * l * d * d / (t * (t + 1.0)) + 8.0 * variance / (mu * (t + 1.0));
        let own = self.problem.strong_convexity;
        let flat = {
            // u = 2√V/(√T·D) balances what the term costs and what it saves
            let added = (4.0 * variance.sqrt() / (t.sqrt() * d)).max(1e-9 * smoothness);
            (excess(smoothness + added, own + added) + 0.5 * added * d * d, added)
        };
        let (bound, added) = match own > 0.0 {
            true if excess(smoothness, own) <= flat.0 => (excess(smoothness, own), 0.0),
            _ => flat,
        };
        (bound, added, smoothness + added, own + added)
    }

    /// What is compared between lengths and batches.
    fn predicted(&self, draft: &Draft) -> f64 {
        match &self.layout {
            Layout::Blocks { stages, .. } => self.localised(draft, stages).1,
            Layout::Rounds(rounds) => self.rounds(draft, *rounds).1,
            Layout::Once if self.method == Method::Accelerated => self.accelerated_once(draft).0,
            Layout::Once if self.method == Method::Recursive => self.one_epoch_bound(draft).0,
            Layout::Once if self.method == Method::Spider => self.spider_bound(),
            Layout::Once if self.method == Method::OnePass => self.one_pass_bound(draft),
            Layout::Once => self.bound(draft.steps, draft.variance).0,
        }
    }

    /// The bound of one phase of AC-SA, and what it does.
    fn accelerated_once(&self, draft: &Draft) -> (f64, Rule, f64) {
        let (smoothness, radius) = self.smoothed(draft.steps, self.distance);
        let moved = if radius > 0.0 { self.size * self.size / (draft.share * self.n()) } else { 0.0 };
        let (bound, added_curvature, smoothness, strong_convexity) =
            self.accelerated(draft.steps, draft.variance + moved, smoothness, self.distance);
        (bound + self.clip_norm * radius, Rule::Accelerated { smoothness, strong_convexity, added_curvature }, radius)
    }

    fn grid(&self, noise_std: f64) -> Grid {
        sum_grid(self.vector_clip(), noise_std, self.problem.records, self.released())
    }

    /// T steps a phase on all records or on batches of a share of them.
    fn independent(&self, steps: u64, q: f64) -> Result<Draft, NotApplicable> {
        let n = self.problem.records;
        let batches = match q < 1.0 {
            false => Batches::All,
            true if self.asked.fixed => Batches::Fixed { batch_size: ((q * self.n()).round() as u64).clamp(1, n) },
            true => Batches::Poisson { sampling_probability: q },
        };
        let drawn = SamplerError::rounded(steps as f64 * self.released() as f64);
        let step = |z: f64| match batches {
            Batches::Poisson { .. } => Event::gaussian(z).poisson_sampled(q),
            Batches::Fixed { batch_size } => Event::gaussian(z).sampled_without_replacement(n, batch_size),
            Batches::All | Batches::Stream { .. } | Batches::Once(_) => Event::gaussian(z),
        };
        let samplers = match batches {
            Batches::Poisson { .. } => SamplerError::subset(self.problem.drawn_from()) * steps as f64 + drawn,
            _ => drawn,
        };
        // a block has fewer records than there are: what its samplers may be off is below this
        let phase = |z: f64| step(z).self_composed(steps);
        let event = |z: f64| match &self.layout {
            Layout::Once => samplers.on(phase(z)),
            Layout::Blocks { .. } => Event::Parallel { blocks: vec![samplers.on(phase(z)); self.layout.blocks()] },
            Layout::Rounds(rounds) => {
                let all = (0..*rounds).map(|i| phase(z * Layout::noise_ratio(*rounds, i))).collect();
                (samplers * f64::from(*rounds)).on(Event::composed(all))
            }
        };
        let (z, certificate) = calibrate::noise(event, self.problem.neighbours.within(self.budget))?;
        let share = match batches {
            Batches::Fixed { batch_size } => batch_size as f64 / self.n(),
            _ => q,
        };
        Ok(Draft {
            batches,
            share,
            steps,
            noise_multiplier: z,
            certificate,
            variance: self.variance(z * self.clip_norm, share, self.n()),
            noise_std: z * self.vector_clip(),
            of_prefix: z * self.vector_clip() * (steps as f64).sqrt(),
        })
    }

    /// T steps along a stream of `batches` batches an epoch.
    pub(super) fn stream(
        &self,
        batches: u64,
        steps: u64,
        correlation: Correlation,
        batching: Batching,
    ) -> Result<Draft, NotApplicable> {
        let shape = StreamShape { batches: batches as usize, steps: steps as usize, correlation };
        let unusable = |e: dpopt_mechanism::CuratorError| NotApplicable::Option(e.to_string().into());
        let (sensitivity, error) = (shape.sensitivity().map_err(unusable)?, shape.final_error().map_err(unusable)?);
        let scale = self.clip_norm * sensitivity;
        let event = |z: f64| match shape.total_variation(z * scale, self.grid(z * scale), self.released()) {
            Ok(tv) if tv < 0.5 => SamplerError::proved(tv).on(Event::gaussian(z)),
            _ => Event::gaussian(z).approximate(1.0),
        };
        let (z, certificate) = calibrate::noise(event, self.problem.neighbours.within(self.budget))?;
        // noise of the whole way, as if each step had an equal and independent part of it
        let per_step = z * scale * error / (steps as f64).sqrt();
        Ok(Draft {
            batches: Batches::Stream { shape, batching, sensitivity },
            share: 1.0 / batches as f64,
            steps,
            noise_multiplier: z,
            certificate,
            variance: self.variance(per_step, 1.0 / batches as f64, self.n()),
            noise_std: z * scale,
            of_prefix: z * scale * error,
        })
    }

    /// Lengths and batches among which the prediction chooses; what is fixed stays.
    fn drafts(&self) -> Result<Vec<Draft>, NotApplicable> {
        let n = self.n();
        let steps = match self.asked.steps {
            Some(steps) if steps > MAX_STEPS => {
                return Err(NotApplicable::Option(
                    format!("{steps} steps are more than {MAX_STEPS}; give fewer").into(),
                ));
            }
            steps => steps,
        };
        match self.method {
            Method::GradientDescent => {
                // what is proved of blocks is for losses with kinks, and gains by every step
                let usual = if self.layout.blocks() > 0 { vec![40, 160, 640] } else { vec![10, 20, 40, 80, 160] };
                let lengths = steps.map_or(usual, |steps| vec![steps]);
                lengths.into_iter().map(|t| self.independent(t, 1.0)).collect()
            }
            Method::Ftrl => {
                let passes = self.asked.passes.unwrap_or(1.0).clamp(1.0, 1e6).round() as u64;
                let epochs = |batches: u64| (passes * batches).clamp(1, MAX_STEPS);
                let most = self.problem.records.min(1024);
                let batches: Vec<u64> = match steps {
                    Some(steps) => vec![(steps / passes).clamp(1, self.problem.records)],
                    None => [16, 64, 256, 1024].into_iter().map(|b: u64| b.min(most)).collect(),
                };
                let correlations = match self.asked.correlation {
                    Some(one) => vec![one],
                    None if passes == 1 => vec![Correlation::Blt],
                    None => vec![Correlation::Blt, Correlation::Banded],
                };
                // units have no places
                let batching = if self.problem.by_unit() { Batching::Coin } else { Batching::Position };
                let mut all = Vec::new();
                for b in batches {
                    for &correlation in &correlations {
                        all.push(self.stream(b, steps.unwrap_or_else(|| epochs(b)), correlation, batching)?);
                    }
                }
                Ok(all)
            }
            Method::Recursive => {
                let lengths = steps.map_or_else(|| self.epoch_lengths(), |t| vec![t.clamp(1, self.problem.records)]);
                lengths.into_iter().map(|batches| self.one_epoch(batches)).collect()
            }
            Method::Spider => Ok(vec![self.spider_draft()?]),
            Method::OnePass => Ok(vec![self.one_pass_draft()?]),
            Method::Net | Method::Tree | Method::Conversion | Method::ConversionOnce => {
                Err(NotApplicable::Option("it has a plan of its own".into()))
            }
            Method::Sgd | Method::Adam | Method::Accelerated | Method::ZerothOrder => {
                let usual = if self.method == Method::ZerothOrder { 200.0 } else { 20.0 };
                let passes = positive(option("passes"), self.asked.passes.unwrap_or(usual))?;
                let given = self.asked.sampling_probability;
                let share = |t: u64| given.unwrap_or((passes / t as f64).min(1.0));
                let lengths: Vec<u64> = match (steps, given) {
                    (Some(steps), _) => vec![steps],
                    (None, Some(q)) => vec![((passes / q).round() as u64).clamp(1, MAX_STEPS)],
                    (None, None) => {
                        // batches of fewer than sixteen records are noise, and cost a release each
                        let first = passes.ceil().max(1.0) as u64;
                        let largest = match &self.layout {
                            Layout::Blocks { stages, .. } => {
                                stages.iter().flatten().next().map_or(n, |&size| size as f64)
                            }
                            _ => n,
                        };
                        let fits = |t: &u64| *t == first || (*t <= USUAL_STEPS && share(*t) * largest >= 16.0);
                        (0..8).map(|k| first << k).filter(fits).collect()
                    }
                };
                lengths
                    .into_iter()
                    .map(|t| self.independent(t, in_range("the share of a batch", share(t), 1e-9, 1.0)?))
                    .collect()
            }
        }
    }

    /// The best of the drafts; a longer one must be better by more than predictions are worth.
    fn best(&self) -> Result<Draft, NotApplicable> {
        let mut best: Option<(f64, Draft)> = None;
        for draft in self.drafts()? {
            let predicted = self.predicted(&draft);
            if best.as_ref().is_none_or(|(least, _)| predicted < WORTH * least) {
                best = Some((predicted, draft));
            }
        }
        best.map(|(_, draft)| draft).ok_or_else(|| {
            NotApplicable::Option(
                "no number of steps can be chosen \
                                                                          automatically; give steps"
                    .into(),
            )
        })
    }

    /// Refuses what has no proof, or no schedule, for this problem.
    fn check(&self) -> Result<(), NotApplicable> {
        let problem = self.problem;
        if self.method == Method::Ftrl && problem.by_unit() && problem.remote {
            return Err(NotApplicable::Problem(
                "units have no order, so that dp-ftrl would need a secret assignment to batches, which this \
                 objective would see; choose noisy-sgd"
                    .into(),
            ));
        }
        if self.method == Method::Recursive && problem.by_unit() {
            return Err(NotApplicable::Problem(
                "batches are formed by position, and units have no position; choose noisy-sgd".into(),
            ));
        }
        let placed = self.method == Method::Recursive || (self.method == Method::Ftrl && !problem.by_unit());
        if placed && problem.relation() == Relation::AddOrRemove {
            return Err(NotApplicable::Problem(
                "batches are formed by position, and an added record would move all others; use zero-out or \
                 replace-one"
                    .into(),
            ));
        }
        let rough = problem.smoothness.is_none() && self.asked.smoothing.unwrap_or(0.0) == 0.0;
        if self.method == Method::Recursive && problem.smoothness.is_none() {
            return Err(NotApplicable::Problem(
                "it needs a bound on the curvature of the loss, which is not given; give smoothness, or choose \
                 dp-ftrl"
                    .into(),
            ));
        }
        if self.method == Method::Accelerated && rough {
            return Err(NotApplicable::Problem(
                "accelerated steps need a bound on the curvature of the mean loss; give smoothness (or smoothing, if \
                 the loss is not smooth), or choose noisy-sgd"
                    .into(),
            ));
        }
        Ok(())
    }

    fn plan(self) -> Result<MinimizePlan, NotApplicable> {
        self.check()?;
        let problem = self.problem;
        let draft = self.best()?;
        let regularization = in_range("the regularization", self.asked.regularization.unwrap_or(0.0), 0.0, f64::MAX)?;
        let (phases, of_all) = match &self.layout {
            Layout::Once => (Vec::new(), None),
            Layout::Blocks { stages, .. } => {
                let (phases, bound) = self.localised(&draft, stages);
                (phases, Some(bound))
            }
            Layout::Rounds(rounds) => {
                let (phases, bound) = self.rounds(&draft, *rounds);
                (phases, Some(bound))
            }
        };
        let (rule, predicted_excess, smoothing) = match (phases.first(), of_all) {
            (Some(first), Some(bound)) => (first.rule, bound, first.smoothing),
            _ => self.rule(&draft)?,
        };
        let noise_multiplier = phases.first().map_or(draft.noise_multiplier, |first| first.noise_multiplier);
        let spider = (self.method == Method::Spider).then(|| self.spider_schedule(&draft)).transpose()?;
        // made for the least noise
        let grid = match draft.batches {
            Batches::Once(once) => sum_grid(once.leaf_clip, draft.noise_std, problem.records, problem.dimension),
            _ => self.grid(spider.as_ref().map_or(draft.noise_std, |s| s.least_fresh() * self.clip_norm)),
        };
        let summed = match draft.batches {
            Batches::Once(once) => once.leaf_clip,
            _ => self.vector_clip(),
        };
        can_sum(summed, draft.noise_std, grid)?;
        // its aggregate is the answer
        let average = match self.method {
            Method::Accelerated | Method::Recursive | Method::Spider | Method::OnePass => Averaged::Last,
            _ if self.asked.goal == Goal::Population => Averaged::All,
            _ => self.asked.average.unwrap_or_default(),
        };
        let schedule = MinimizeSchedule {
            batches: draft.batches,
            rule,
            steps: draft.steps,
            clip_norm: self.vector_clip(),
            clip_bias: self
                .asked
                .moment
                .map(|root| clip_bias(self.asked.moment_order.unwrap_or(2.0), root, self.clip_norm)),
            noise_multiplier,
            noise_std: noise_multiplier * self.noise_unit(&draft),
            grid_exponent: grid.exponent(),
            regularization,
            domain: self.asked.domain,
            average,
            goal: self.asked.goal,
            smoothing,
            phases,
            chunks: match &self.layout {
                Layout::Blocks { chunks, .. } => *chunks,
                _ => 1,
            },
            along: self.along,
            spider,
            own: BTreeMap::new(),
        };
        let each = match (self.along, problem.answers) {
            (Some(along), Answers::Values) => 2.0 * along.directions as f64,
            (Some(along), _) => along.directions as f64,
            (None, _) if matches!(self.method, Method::Recursive | Method::OnePass) => 2.0,
            (None, _) => 1.0,
        };
        let nothing = draft.variance.sqrt() >= self.size && predicted_excess >= self.size * self.distance;
        let warnings = nothing.then(|| {
            "the noise outweighs the records: the error bound is no better than that of the start; use more records, \
             a larger epsilon or fewer dimensions"
                .to_string()
        });
        Ok(MinimizePlan {
            method: self.method.name(),
            evaluations: match &spider {
                Some(spider) => spider.evaluations(draft.steps) * self.reads(),
                None => draft.share * draft.steps as f64 * each * self.reads(),
            },
            predicted_excess,
            assumptions: self.assumptions(&draft, spider.as_ref()),
            warnings: warnings.into_iter().chain(self.spider_warning()).chain(self.one_pass_warning(&draft)).collect(),
            certificate: draft.certificate,
            schedule,
            walk: None,
        })
    }

    /// Noise of a sum over its multiplier.
    fn noise_unit(&self, draft: &Draft) -> f64 {
        draft.noise_std / draft.noise_multiplier
    }

    /// Records that one step of every phase reads where all are in each batch.
    fn reads(&self) -> f64 {
        match self.layout {
            Layout::Once | Layout::Blocks { .. } => self.n(),
            Layout::Rounds(rounds) => self.n() * f64::from(rounds),
        }
    }

    fn rule(&self, draft: &Draft) -> Result<(Rule, f64, f64), NotApplicable> {
        let (t, d) = (draft.steps as f64, self.distance);
        let (bound, rate) = self.bound(draft.steps, draft.variance);
        let momentum = |usual: f64| in_range(option("momentum"), self.asked.momentum.unwrap_or(usual), 0.0, 0.999);
        let asked_rate = |usual: f64| positive("the learning rate", self.asked.learning_rate.unwrap_or(usual));
        Ok(match self.method {
            Method::Accelerated => {
                let (bound, rule, smoothing) = self.accelerated_once(draft);
                (rule, bound, smoothing)
            }
            Method::Recursive => self.recursive_rule(draft),
            Method::Spider | Method::OnePass => {
                let learning_rate = 1.0 / self.problem.smoothness.unwrap_or(1.0);
                (Rule::HeavyBall { learning_rate, momentum: 0.0 }, self.predicted(draft), 0.0)
            }
            Method::Adam => {
                // coordinates that agree move by α a step, those that are noise by α√T in all
                let usual = d / (t * self.problem.dimension as f64).sqrt();
                let second =
                    in_range(option("second_momentum"), self.asked.second_momentum.unwrap_or(0.999), 0.0, 1.0 - 1e-9)?;
                (
                    Rule::Adam { learning_rate: asked_rate(usual)?, momentum: momentum(0.9)?, second_momentum: second },
                    bound,
                    0.0,
                )
            }
            Method::Net | Method::Tree | Method::Conversion | Method::ConversionOnce => {
                return Err(NotApplicable::Option("it has a plan of its own".into()));
            }
            Method::Sgd | Method::GradientDescent | Method::Ftrl | Method::ZerothOrder => {
                let usual = match self.method {
                    // in a stream the noise of one step is taken back by the next ones, which a fading sum would not wait for
                    Method::Ftrl => 0.0,
                    // a swing shrinks by √β a step: in half of 10/(1 − β) steps to a twelfth, before the mean of the rest is taken
                    _ => (1.0 - 10.0 / t).clamp(0.0, 0.9),
                };
                let momentum = momentum(usual)?;
                (Rule::HeavyBall { learning_rate: asked_rate(rate * (1.0 - momentum))?, momentum }, bound, 0.0)
            }
        })
    }
}
