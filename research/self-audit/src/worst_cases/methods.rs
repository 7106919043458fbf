//! Whole algorithms on two worlds, through the same plan and run that users call, with everything that they let out.

use super::sums::canaries;
use dpopt_audit::draws::Draws;
use dpopt_linear::{
    AdaptiveClipDescent, AdaptiveClipSchedule, Average, CentredDescent, DescentOptions, NewtonSchedule,
    NoisyGradientDescent, NoisySgd,
};
use dpopt_mechanism::progress::Silent;
use dpopt_mechanism::{Curator, Sensitive, past_the_curator};
use dpopt_noise::NoiseSource;
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::OfRows;
use dpopt_objective::records::{Examples, Rows, SpilledExamples};
use dpopt_optimize::plan::{Plan, Problem};
use dpopt_optimize::{Algorithm, Run};
use dpopt_privacy::{Budget, Event, Neighbours, Relation};

/// Public facts of a problem with rows of norm 1 under zero-out.
pub(crate) fn problem(rows: usize, features: usize, loss: Loss) -> Problem {
    Problem {
        directions: None,
        prior_release: None,
        calibrated: None,
        intervals: None,
        record: Default::default(),
        rows: rows as u64,
        features,
        nonzeros: features,
        row_norm: 1.0,
        loss,
        neighbours: Neighbours::of_records(Relation::ZeroOut),
    }
}

/// What an adversary sees of one run.
pub(crate) struct View<'a> {
    /// The released weights.
    pub(crate) weights: &'a [f64],
    /// Every release, in order: the event claims all of it.
    pub(crate) seen: &'a [Vec<f64>],
}

/// A planned algorithm and two worlds (without and with the record).
pub(crate) struct Subject<A: Algorithm> {
    algorithm: A,
    problem: Problem,
    worlds: [Sensitive<Examples>; 2],
    plan: Result<Plan<A::Schedule>, String>,
    certified: Result<Event, String>,
    /// What the curator is opened for: the certified event, but for injected faults.
    opened: Result<Event, String>,
}

impl<A: Algorithm> Subject<A> {
    /// Plans `algorithm` for (ε, δ) = `budget`.
    pub(crate) fn new(algorithm: A, problem: Problem, budget: (f64, f64), worlds: [Sensitive<Examples>; 2]) -> Self {
        let plan = Budget::new(budget.0, budget.1)
            .map_err(|e| e.to_string())
            .and_then(|budget| algorithm.plan(&problem, budget).map_err(|e| e.to_string()));
        let certified = plan.as_ref().map(|p| p.summary.certificate.event().clone()).map_err(Clone::clone);
        Self { algorithm, problem, worlds, plan, opened: certified.clone(), certified }
    }

    /// The certified event: the claim, whatever was injected since.
    pub(crate) fn event(&self) -> Result<Event, String> {
        self.certified.clone()
    }

    /// Plants a wrong schedule.
    pub(crate) fn altered(mut self, change: impl FnOnce(&mut A::Schedule)) -> Self {
        if let Ok(plan) = &mut self.plan {
            change(&mut plan.schedule);
        }
        self
    }

    /// Plants a wrong schedule whose mechanism says so, by another event: the certified curator refuses it, so that it runs only
    /// where somebody opens one for what the mechanism says. The claim stays the certified one.
    pub(crate) fn altered_and_opened(
        mut self,
        change: impl FnOnce(&mut A::Schedule, &Problem),
        says: impl FnOnce(&A::Schedule, &Problem) -> Event,
    ) -> Self {
        if let Ok(plan) = &mut self.plan {
            change(&mut plan.schedule, &self.problem);
            self.opened = Ok(says(&plan.schedule, &self.problem));
        }
        self
    }

    /// The schedule, if the plan was made.
    pub(crate) fn schedule(&self) -> Option<&A::Schedule> {
        self.plan.as_ref().ok().map(|p| &p.schedule)
    }

    /// The data of one world.
    pub(crate) fn world(&self, with: bool) -> &Examples {
        past_the_curator::read_for_tests(&self.worlds[usize::from(with)])
    }

    /// The data of one world, sealed as a method sees them.
    pub(crate) fn sensitive(&self, with: bool) -> &Sensitive<Examples> {
        &self.worlds[usize::from(with)]
    }

    /// One run on one world, reduced to a number; NaN if it is refused.
    pub(crate) fn run(
        &self,
        with: bool,
        draws: &mut Draws,
        statistic: impl Fn(&Self, &A::Schedule, View) -> f64,
    ) -> f64 {
        self.run_on(&self.worlds[usize::from(with)], draws, |schedule, view| statistic(self, schedule, view))
            .unwrap_or(f64::NAN)
    }

    /// The plan and a watched curator for it.
    fn open(&self, draws: &mut Draws) -> Option<(&Plan<A::Schedule>, Curator)> {
        let (Ok(plan), Ok(event)) = (&self.plan, &self.opened) else { return None };
        Some((plan, past_the_curator::watched(event, NoiseSource::insecure(draws.word()))))
    }

    /// Both worlds as rows in temporary files.
    pub(crate) fn spilled(&self) -> std::io::Result<[Sensitive<SpilledExamples>; 2]> {
        let spill = |with: bool| -> std::io::Result<Sensitive<SpilledExamples>> {
            Ok(Sensitive::new(SpilledExamples::of(self.world(with))?))
        };
        Ok([spill(false)?, spill(true)?])
    }

    /// One run on any data of the planned shape.
    pub(crate) fn run_on<R: OfRows + 'static, T>(
        &self,
        data: &Sensitive<R>,
        draws: &mut Draws,
        look: impl FnOnce(&A::Schedule, View) -> T,
    ) -> Option<T> {
        let (plan, mut curator) = self.open(draws)?;
        let released = self.algorithm.run(plan, Run::new(&self.problem, data, &mut curator, &Silent).ok()?).ok()?;
        Some(look(&plan.schedule, View { weights: &released.get().weights, seen: &past_the_curator::seen(&curator) }))
    }
}

/// Without and with the canary (row e_0, target 1) among `rows` records that contribute nothing.
pub(crate) fn alone(rows: usize) -> [Sensitive<Examples>; 2] {
    [canaries(rows, 1, &[0.0]), canaries(rows, 1, &[1.0])]
}

/// `rows` − 1 records of norm `size` with label −1 push the slope of the one with norm 1 to its bound (docs/proofs/output-perturbation.md).
pub(crate) fn crowd(rows: usize, size: f32) -> [Sensitive<Examples>; 2] {
    [false, true].map(|with| {
        let mut table = Rows::new(1);
        let mut targets = vec![-1.0f32; rows];
        targets[0] = if with { 1.0 } else { 0.0 };
        for i in 0..rows {
            match (i, with) {
                (0, true) => table.push_clipped(&mut [(0, 1.0)], 1.0),
                (0, false) => table.push_zero(),
                _ => table.push_clipped(&mut [(0, size)], 1.0),
            }
        }
        Sensitive::new(Examples { rows: table, targets })
    })
}

/// Full-batch descent in `steps` steps so small that the gradient of the absolute loss never turns: all sums of the canary
/// are clipped, and the last weight is their sum.
pub(crate) fn descent(steps: u64) -> NoisyGradientDescent {
    let descent = DescentOptions {
        steps: Some(steps),
        learning_rate: Some(1e-3),
        momentum: Some(0.0),
        average: Average::Last,
        ..DescentOptions::default()
    };
    NoisyGradientDescent { descent }
}

/// Descent of `steps` small steps around a released mean; the only feature is the constant one.
pub(crate) fn centred(steps: u64) -> CentredDescent {
    CentredDescent { intercept: Some(0), descent: descent(steps).descent, ..CentredDescent::default() }
}

/// Descent of `steps` small steps on Poisson batches of probability `q`; `lazy`: the noise of untouched weights is drawn when it is needed, and
/// the answer is the only release.
pub(crate) fn sgd(steps: u64, q: f64, lazy: bool) -> NoisySgd {
    NoisySgd { sampling_probability: Some(q), lazy: Some(lazy), in_parts: false, descent: descent(steps).descent }
}

/// Descent with a clip norm that follows the gradients, in steps so small that the canary's residual stays 1: it is clipped at all norms.
pub(crate) fn following(steps: u64) -> AdaptiveClipDescent {
    AdaptiveClipDescent { steps: Some(steps), learning_rate: Some(1e-6), momentum: Some(0.0) }
}

/// Everything that the canary moves, each release in units in which its noise has the standard deviation that the event says: the
/// cell of a residual of 1, and all sums over the clip norms that the histograms before them gave.
pub(crate) fn followed(schedule: &AdaptiveClipSchedule, seen: &[Vec<f64>]) -> f64 {
    let mut clip = schedule.first_clip_norm;
    let (mut step, mut total) = (0, 0.0);
    for release in seen {
        if release.len() > 1 {
            clip = schedule.clip_norm(release);
            total += release[schedule.cell(1.0)] / schedule.sizes_multiplier.powi(2);
        } else {
            total -= release[0] / clip / schedule.noise_multiplier.powi(2);
            step += 1;
        }
    }
    if step == schedule.steps { total } else { f64::NAN }
}

/// The canary's coordinate of all noisy gradient sums, in units of C; larger with the canary.
pub(crate) fn coordinate(seen: &[Vec<f64>], index: usize, clip_norm: f64) -> Vec<f64> {
    seen.iter().map(|sum| -sum[index] / clip_norm).collect()
}

/// Exact log-likelihood ratio of a run of double-noise Newton in one dimension: both releases of each step are Gaussian
/// around what each world gives at the released weights.
pub(crate) fn newton_log_ratio(worlds: [&Examples; 2], schedule: &NewtonSchedule, seen: &[Vec<f64>]) -> f64 {
    let ln_ratio = |y: f64, means: [f64; 2], std: f64| {
        let [without, with] = means.map(|m| (y - m) / std);
        0.5 * (without * without - with * with)
    };
    let mut theta = 0.0;
    let mut total = 0.0;
    for pair in seen.chunks_exact(2) {
        let (noisy, step) = (pair[0][0], pair[1][0]);
        let gradients = worlds.map(|w| gradient(w, schedule.loss, theta));
        total += ln_ratio(noisy, gradients, schedule.noise_multiplier);
        let directions = worlds.map(|w| schedule.facts.direction(w, &[theta], &[noisy])[0]);
        total += ln_ratio(step, directions, schedule.noise_multiplier * schedule.step_sensitivity * noisy.abs());
        theta -= step;
    }
    total
}

/// Σ φ'(θx)·x of a table with one column.
pub(crate) fn gradient(examples: &Examples, loss: Loss, theta: f64) -> f64 {
    let record = |i: usize| {
        let x = examples.rows.row(i).1.first().map_or(0.0, |&x| f64::from(x));
        if x == 0.0 { 0.0 } else { loss.scalar_slope(x * theta, f64::from(examples.targets[i])) * x }
    };
    (0..examples.targets.len()).map(record).sum()
}
