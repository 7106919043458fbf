//! Private adaptive gradients: PASAN and PAGAN (Asi, Duchi, Fallah, Javidbakht, Talwar 2021, Algorithms 1 and 2), Adam and AdaGrad on released gradients.
//!
//! Each record's gradient is clipped to an ellipsoid {‖g‖_C ≤ B} and gets noise of the same shape, N(0, z²B²C⁻¹): large where
//! gradients are large, small where they are small. In coordinates √C_j·g_j the ellipsoid is a ball, so the mechanism and the
//! event are those of DP-SGD for *any* C that is public or was released before. Step sizes, Adam's means, momentum and
//! projections read released gradients only.
//!
//! All of them need the noise of every weight at every step, so none can draw it lazily.
//!
//! Covers: adaptive-gradients algorithm 1, algorithm 2 (certified: Poisson batches, noise by the accountant)
//! Covers: adaptive-gradients theorem 2 (part: the method is certified; the rate is measured, not claimed)
//! Covers: adaptive-gradients theorem 1, theorem 8, theorem 9 (part: the method is certified; the rate is not claimed)

#[cfg(test)]
mod analysis;
mod geometry;
mod moments;
mod options;
mod subspace;
#[cfg(test)]
mod tests;

pub use geometry::MomentSchedule;
pub use moments::MomentRelease;
pub(crate) use options::{More, only_with};
pub use subspace::SubspaceSchedule;

use super::descent::{DescentOptions, DescentSchedule, Releases, descend};
use crate::choices::{AdaptiveOptions, Moments, Subspace};
use dpopt_mechanism::{Curator, Sensitive};
use dpopt_objective::objective::NearestPoint;
use dpopt_objective::objective::OfRows;
use dpopt_objective::records::Records;
use dpopt_optimize::algorithm::ByRow;
use dpopt_optimize::algorithm::{Capabilities, RowAccess};
use dpopt_optimize::choices::{AdaptiveRule, Domain};
use dpopt_optimize::driver::{AdaptiveStep, AdaptiveSteps, Watched};
use dpopt_optimize::options::OptionReader;
use dpopt_optimize::options::common::SAMPLING_PROBABILITY;
use dpopt_optimize::oracle::NoisySum;
use dpopt_optimize::plan::{Assumption, NotApplicable, Plan, Problem};
use dpopt_optimize::planning::{SamplerError, gaussian_mu, in_range, positive, sampled_secretly};
use dpopt_optimize::risk::RiskModel;
use dpopt_optimize::{Algorithm, Run, RunError, RunResult, Solution};
use dpopt_privacy::{Budget, Event};
use geometry::Units;
use serde::Serialize;
use std::marker::PhantomData;

/// One of the methods here: a name and a rule.
pub trait AdaptiveKind: Clone + Send + Sync + 'static {
    /// Name as in `--method`.
    const NAME: &'static str;
    /// What it releases, and when to take it.
    const ABOUT: &'static str;
    /// How the step sizes of the method adapt.
    const RULE: AdaptiveRule;
    /// √C ∝ σ^−e for the moments σ: ½ where one rate serves all weights, ⅔ where each has its own.
    const EXPONENT: f64;
    /// β of momentum if none is given.
    const MOMENTUM: f64;
    /// Whether moments are released if nothing else is said.
    const PRIVATE_MOMENTS: bool;
    /// Directions of a private subspace if nothing else is said.
    const SUBSPACE: Option<usize> = None;
}

macro_rules! kinds {
    ($(
        $(#[$doc:meta])*
        $kind:ident, $alias:ident, $name:literal, $about:literal, $rule:ident, $exponent:expr, $momentum:expr, $moments:expr, $subspace:expr;
    )*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $kind;

        impl AdaptiveKind for $kind {
            const NAME: &'static str = $name;
            const ABOUT: &'static str = $about;
            const RULE: AdaptiveRule = AdaptiveRule::$rule;
            const EXPONENT: f64 = $exponent;
            const MOMENTUM: f64 = $momentum;
            const PRIVATE_MOMENTS: bool = $moments;
            const SUBSPACE: Option<usize> = $subspace;
        }

        $(#[$doc])*
        pub type $alias = Adaptive<$kind>;
    )*};
}

kinds! {
    /// PASAN: SGD with one adaptive rate and adaptive noise.
    PasanKind, Pasan, "pasan",
    "noisy mean squares of the features, then noisy gradient sums clipped to an ellipsoid, with one adaptive \
     learning rate (PASAN); for features of very different scale",
    Scalar, 0.5, 0.0, true, None;
    /// PAGAN: AdaGrad with adaptive noise.
    PaganKind, Pagan, "pagan",
    "noisy mean squares of the features, then noisy gradient sums clipped to an ellipsoid, with a learning rate per \
     weight (PAGAN); for features of very different scale",
    Diagonal, 2.0 / 3.0, 0.0, true, None;
    /// Adam on noisy gradients.
    DpAdamKind, DpAdam, "dp-adam",
    "Adam on noisy gradient sums over Poisson batches (DP-Adam); for comparison",
    Adam, 2.0 / 3.0, 0.9, false, None;
    /// AdaGrad on noisy gradients: PAGAN in a ball.
    DpAdaGradKind, DpAdaGrad, "dp-adagrad",
    "AdaGrad on noisy gradient sums over Poisson batches (DP-AdaGrad); for comparison",
    Diagonal, 2.0 / 3.0, 0.0, false, None;
    /// PDP-SGD: one adaptive rate, noisy gradients projected on the leading directions of the features.
    PdpSgdKind, PdpSgd, "pdp-sgd",
    "noisy gradient sums projected on the leading directions of the features, which are released first; for \
     comparison",
    Scalar, 0.5, 0.0, false, Some(20);
}

/// An adaptive method with its options.
#[derive(Clone, Debug)]
pub struct Adaptive<K> {
    /// q in (0, 1]. Default 0.1.
    pub sampling_probability: Option<f64>,
    /// Options of the ellipsoid, of the domain and of the clip.
    pub adaptive: AdaptiveOptions,
    /// What every descent has. The learning rate is α; with every step about α/√t (Adam: α) long, its default depends on
    /// the loss and the row norm only.
    pub descent: DescentOptions,
    kind: PhantomData<K>,
}

impl<K> Default for Adaptive<K> {
    fn default() -> Self {
        Self {
            sampling_probability: None,
            adaptive: AdaptiveOptions::default(),
            descent: DescentOptions::default(),
            kind: PhantomData,
        }
    }
}

impl<K> Adaptive<K> {
    /// The method with the given options.
    pub fn new(sampling_probability: Option<f64>, adaptive: AdaptiveOptions, descent: DescentOptions) -> Self {
        Self { sampling_probability, adaptive, descent, kind: PhantomData }
    }
}

/// The schedule of an adaptive method.
#[derive(Clone, Debug, Serialize)]
pub struct AdaptiveSchedule {
    /// Steps, clip norm B, noise in units of the ellipsoid.
    #[serde(flatten)]
    pub descent: DescentSchedule,
    /// How the step sizes of the method adapt.
    pub rule: AdaptiveRule,
    /// β₂: decay of the second moments of Adam.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub second_momentum: Option<f64>,
    /// Where the weights lie.
    pub domain: Domain,
    /// Whether the clip is the Euclidean projection.
    pub euclidean_clip: bool,
    /// Where the ellipsoid comes from.
    pub moments: MomentSchedule,
    /// e of √C ∝ σ^−e, the scales of the ellipsoid from the moments σ.
    pub exponent: f64,
    /// Where gradients are projected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subspace: Option<SubspaceSchedule>,
}

/// Steps that are taken without being asked for.
const STEPS: u64 = 400;

impl<K: AdaptiveKind> Adaptive<K> {
    /// α if none is given: weights of rows of norm R have the size of a useful score over R.
    fn default_rate(problem: &Problem, steps: u64) -> f64 {
        let reach = super::descent::tolerable_noise(problem.loss) / problem.row_norm;
        match K::RULE {
            // every weight moves by α/√t at most: 2α√T in all if its gradients agree
            AdaptiveRule::Diagonal => RATE_SHARE * reach,
            // all of them together move by that
            AdaptiveRule::Scalar => RATE_SHARE * reach * (problem.weights() as f64).sqrt(),
            AdaptiveRule::Adam => RATE_SHARE * reach / (steps as f64).sqrt(),
        }
    }

    fn moments(&self, problem: &Problem, budget: Budget) -> Result<MomentSchedule, NotApplicable> {
        let share = in_range("the moments' share", self.adaptive.moment_share.unwrap_or(0.1), 1e-3, 0.5)?;
        let ratio = in_range("the moment ratio", self.adaptive.moment_ratio.unwrap_or(1.0), 1.0, 100.0)?;
        let mu = share.sqrt() * gaussian_mu(problem, budget)?;
        let settled = |release: Option<MomentRelease>| match release {
            Some(release) => MomentSchedule::Private { release, share },
            None => MomentSchedule::None {
                because: Some(
                    "there are too few records to estimate the moments privately, so no budget is spent on \
                               them"
                        .into(),
                ),
            },
        };
        Ok(match &self.adaptive.moments {
            Some(Moments::None) => MomentSchedule::None { because: None },
            None if !K::PRIVATE_MOMENTS => MomentSchedule::None { because: None },
            Some(Moments::Public { spreads }) => geometry::public(spreads, K::EXPONENT, problem)?,
            Some(Moments::Running) => MomentSchedule::Running,
            Some(Moments::Private) | None => settled(MomentRelease::direct(problem, mu)),
            Some(Moments::PrivateHalving) => settled(MomentRelease::halving(problem, mu, ratio)),
        })
    }

    fn subspace(&self, problem: &Problem, budget: Budget) -> Result<Option<SubspaceSchedule>, NotApplicable> {
        let usual = K::SUBSPACE.map(|rank| Subspace::Private { rank: rank.min(problem.features) });
        let Some(subspace) = self.adaptive.subspace.clone().or(usual) else { return Ok(None) };
        let share = in_range("the subspace's share", self.adaptive.moment_share.unwrap_or(0.1), 1e-3, 0.5)?;
        SubspaceSchedule::plan(&subspace, problem, share.sqrt() * gaussian_mu(problem, budget)?).map(Some)
    }

    /// As [`Algorithm::run`], with a look at the weights after each step; they are released.
    pub fn run_watched<R: Records + 'static>(
        &self,
        plan: &Plan<AdaptiveSchedule>,
        run: Run<'_, R>,
        look: &mut dyn FnMut(u64, &[f64]),
    ) -> RunResult {
        let Run { problem, examples, curator, progress } = run;
        let s = &plan.schedule;
        let schedule = &s.descent;
        let objective = problem.objective().with_loss(schedule.loss);
        let noise = schedule.noise(problem.weights(), "batch gradient");
        let gradients = NoisySum::new(objective, noise)?.sampled(schedule.sampling_probability);
        let mut units = s.units(problem, examples, curator, problem.features, |scales| scales)?;
        let projection =
            s.subspace.as_ref().map(|subspace| subspace.open(K::NAME, problem, examples, curator)).transpose()?;
        let steps = AdaptiveSteps::new(s.step(problem), problem.weights(), |step| schedule.rate(step));
        let mut driver = Watched { driver: steps, look };
        let mut solution = descend(&mut driver, schedule, problem, progress, K::NAME, |weights| {
            let noisy = if units.scales.is_empty() && !s.euclidean_clip {
                gradients.release(examples, curator, weights)?
            } else {
                let weights = units.weights(weights);
                let ones = vec![1.0; if units.scales.is_empty() { problem.features } else { 0 }];
                let scales = if ones.is_empty() { &units.scales } else { &ones };
                let scaled = examples.in_units(scales);
                if s.euclidean_clip {
                    let nearest = NearestPoint::new(objective, scales, problem.weights(), schedule.clip_norm);
                    gradients.with(nearest)?.release(&scaled, curator, &weights)?
                } else {
                    gradients.release(&scaled, curator, &weights)?
                }
            };
            Ok(noisy.map(|noisy| {
                let mut plain = units.gradient(noisy, schedule.noise_std);
                if let Some(projection) = &projection {
                    projection.apply(&mut plain, problem.features);
                }
                plain
            }))
        })?;
        // noise of the mechanism, and of the choice of the batch
        let std = gradient_noise(schedule, problem);
        let noise = units.noise(driver.driver.reach().map(|factor| factor * std));
        // a mean of points of the domain lies in it up to rounding
        s.domain.keep(&mut solution.weights);
        Ok(curator.postprocess(Solution { noise: Some(noise), ..solution }))
    }
}

impl<K: AdaptiveKind> Adaptive<K> {
    /// Whether gradients are clipped as they are: nothing is asked of rows before.
    fn clips_to_a_ball(&self) -> bool {
        let asked = &self.adaptive;
        let moments = asked.moments.as_ref().map_or(K::PRIVATE_MOMENTS, |moments| !matches!(moments, Moments::None));
        !moments && asked.subspace.is_none() && K::SUBSPACE.is_none() && !asked.euclidean_clip
    }

    /// The steps where a record may have several rows.
    fn run_on_units<R: OfRows>(&self, plan: &Plan<AdaptiveSchedule>, run: Run<'_, R>) -> RunResult {
        let Run { problem, examples, curator, progress } = run;
        let s = &plan.schedule;
        let schedule = &s.descent;
        if s.subspace.is_some() || s.euclidean_clip || !matches!(s.moments, MomentSchedule::None { .. }) {
            return Err(RunError::ByRow { method: K::NAME });
        }
        let objective = R::over(problem.objective().with_loss(schedule.loss));
        let noise = schedule.noise(problem.weights(), "batch gradient");
        let gradients = NoisySum::new(objective, noise)?.sampled(schedule.sampling_probability);
        let mut driver = AdaptiveSteps::new(s.step(problem), problem.weights(), |step| schedule.rate(step));
        let mut solution = descend(&mut driver, schedule, problem, progress, K::NAME, |weights| {
            gradients.release(examples, curator, weights)
        })?;
        let std = gradient_noise(schedule, problem);
        let noise = driver.reach().map(|factor| factor * std).collect();
        s.domain.keep(&mut solution.weights);
        Ok(curator.postprocess(Solution { noise: Some(noise), ..solution }))
    }
}

/// α over the size of weights.
const RATE_SHARE: f64 = 0.25;

impl<K: AdaptiveKind> Algorithm for Adaptive<K> {
    type Schedule = AdaptiveSchedule;
    const NAME: &'static str = K::NAME;
    const ABOUT: &'static str = K::ABOUT;
    const CAPABILITIES: Capabilities =
        Capabilities { rows: RowAccess::Batches, supports_user_level: true, ..Capabilities::NONE };

    fn read(options: &OptionReader<'_>) -> Self {
        let more = More { adam: matches!(K::RULE, AdaptiveRule::Adam), projections: true };
        Self::new(
            options.get(&SAMPLING_PROBABILITY),
            AdaptiveOptions::read(options, more),
            DescentOptions::read(options),
        )
    }

    fn plan(&self, problem: &Problem, budget: Budget) -> Result<Plan<AdaptiveSchedule>, NotApplicable> {
        if problem.is_pooled() && !self.clips_to_a_ball() {
            return Err(NotApplicable::Problem(
                format!(
                    "{} clips row by row (ellipsoid, subspace or Euclidean clip) and cannot clip a unit as a whole; \
                 choose it by name with a bound on the rows of a unit, or choose dp-adam or dp-adagrad",
                    K::NAME
                )
                .into(),
            ));
        }
        self.plan_for(problem, problem, budget)
    }

    fn run<R: OfRows + 'static>(&self, plan: &Plan<AdaptiveSchedule>, run: Run<'_, R>) -> RunResult {
        if R::POOLED {
            return self.run_on_units(plan, run);
        }
        match run.by_row(K::NAME)? {
            ByRow::Memory(run) => self.run_watched(plan, run, &mut |_, _| {}),
            ByRow::Disk(run) => self.run_watched(plan, run, &mut |_, _| {}),
            ByRow::Partitions(_) => Err(RunError::InMemory { method: K::NAME }),
        }
    }

    /// A private subspace needs all rows at once.
    fn runs_from_disk(&self, plan: &Plan<AdaptiveSchedule>) -> bool {
        plan.schedule.subspace.as_ref().is_none_or(|subspace| subspace.event().is_none())
    }
}

/// What is released before the first step, and what plans of all releases say.
struct Started {
    events: Vec<Event>,
    /// How often all records are read.
    passes: f64,
    /// How far the samplers of all releases, those of the steps included, are from their laws.
    drawn: SamplerError,
    assumptions: Vec<Assumption>,
}

impl Started {
    /// Nothing before steps whose samplers are `drawn` from their laws.
    fn nothing(drawn: SamplerError) -> Self {
        Self { events: Vec::new(), passes: 0.0, drawn, assumptions: vec![sampled_secretly()] }
    }

    fn add_moments(&mut self, moments: &MomentSchedule, features: &Problem) -> Result<(), NotApplicable> {
        match moments {
            MomentSchedule::Private { release, .. } => {
                release.can_sum(features)?;
                self.events.push(release.event());
                self.drawn = self.drawn + SamplerError::rounded(release.samples(features.features));
                self.passes = release.passes();
                self.assumptions.push(Assumption::enforced(
                    "squares of features are truncated and clipped as one vector: enforced in exact integers",
                ));
            }
            MomentSchedule::Public { .. } => {
                self.assumptions.push(Assumption::public("the given moments of features are public: not checked"))
            }
            MomentSchedule::None { .. } | MomentSchedule::Running => {}
        }
        Ok(())
    }

    fn add_subspace(&mut self, subspace: &SubspaceSchedule, features: &Problem) {
        let event = subspace.event();
        self.drawn = self.drawn + SamplerError::rounded(subspace.samples(features.features));
        self.assumptions.push(match event {
            Some(_) => Assumption::enforced("each record's outer product has bounded norm: enforced in exact integers"),
            None => Assumption::public("the directions that gradients are projected on are public: not checked"),
        });
        self.events.extend(event);
    }
}

impl<K: AdaptiveKind> Adaptive<K> {
    /// Refuses options that pay for, or are of, something that is not asked for, and two private releases before the first step.
    fn check_payments(
        &self,
        moments: &MomentSchedule,
        subspace: Option<&SubspaceSchedule>,
    ) -> Result<(), NotApplicable> {
        let private = matches!(self.adaptive.moments, Some(Moments::Private | Moments::PrivateHalving))
            || (self.adaptive.moments.is_none() && K::PRIVATE_MOMENTS);
        if self.adaptive.moment_share.is_some() && !private && subspace.is_none_or(|s| s.event().is_none()) {
            return Err(NotApplicable::Option(
                "`moment_share` has no effect without private moments or a private subspace; give `moments` private, \
                 or leave it out"
                    .into(),
            ));
        }
        if self.adaptive.moment_ratio.is_some() && self.adaptive.moments != Some(Moments::PrivateHalving) {
            return Err(NotApplicable::Option(
                "`moment_ratio` has no effect without `moments` private-halving; leave it out".into(),
            ));
        }
        if self.adaptive.second_momentum.is_some() && K::RULE != AdaptiveRule::Adam {
            return Err(NotApplicable::Option(
                "`second_momentum` has no effect without Adam's steps; leave it out".into(),
            ));
        }
        if matches!(moments, MomentSchedule::Private { .. }) && subspace.is_some_and(|s| s.event().is_some()) {
            return Err(NotApplicable::Option(
                "private moments and a private subspace (`subspace_rank`) exclude each other, since each costs \
                 budget; choose one of them, or set `moments` to none"
                    .into(),
            ));
        }
        Ok(())
    }

    /// The modelled risk after so many steps at this mean rate.
    fn predicted_risk(descent: &DescentSchedule, rate: f64, steps: u64, problem: &Problem) -> f64 {
        // Σ of squared gradients of a weight after T steps: noise, and a signal of a share of the clip norm that fades like t^−1/4.
        // Steps α/√Σĝ² then make a learning time, and leave noise, like those of descent
        let noise = gradient_noise(descent, problem);
        let t = steps as f64;
        let signal = descent.clip_norm / (problem.weights() as f64).sqrt() * t.powf(-0.25);
        let size = noise.hypot(signal);
        let time = match K::RULE {
            AdaptiveRule::Diagonal => 2.0 * rate * t.sqrt() / size,
            AdaptiveRule::Scalar => 2.0 * rate * t.sqrt() / (size * (problem.weights() as f64).sqrt()),
            AdaptiveRule::Adam => rate * t / size,
        };
        RiskModel::of(problem)
            .clipped(descent.clip_norm, problem.lipschitz())
            .learning_time(time, time * noise / t.sqrt())
    }

    /// Plans descent on `problem`, whose records have the features of `features`: the same for linear models, fewer than weights
    /// for embeddings.
    pub(crate) fn plan_for(
        &self,
        problem: &Problem,
        features: &Problem,
        budget: Budget,
    ) -> Result<Plan<AdaptiveSchedule>, NotApplicable> {
        if self.adaptive.lazy == Some(true) {
            return Err(NotApplicable::Option(
                format!(
                    "{} cannot draw noise lazily: its step size depends on the noisy gradient of every weight in every \
                 step; choose noisy-sgd, or leave lazy out",
                    K::NAME
                )
                .into(),
            ));
        }
        let q = in_range("the sampling probability", self.sampling_probability.unwrap_or(0.1), 1e-9, 1.0)?;
        let steps = self.descent.steps.unwrap_or(STEPS);
        let second_momentum =
            in_range("the second momentum", self.adaptive.second_momentum.unwrap_or(0.999), 0.0, 0.999_999)?;
        let domain = self.adaptive.domain.unwrap_or_default();
        if let Domain::Box { radius } | Domain::Ball { radius } = domain {
            positive("the radius of the domain", radius)?;
        }
        dpopt_optimize::planning::check_problem(problem)?;
        let filled = DescentOptions {
            steps: Some(steps),
            learning_rate: Some(self.descent.learning_rate.unwrap_or_else(|| Self::default_rate(problem, steps))),
            momentum: Some(self.descent.momentum.unwrap_or(K::MOMENTUM)),
            ..self.descent.clone()
        };
        let recipe = filled.recipe(problem, budget)?;
        let moments = self.moments(features, budget)?;
        let subspace = self.subspace(features, budget)?;
        self.check_payments(&moments, subspace.as_ref())?;
        // a subset per step, one rounded Gaussian per weight and step
        let step = SamplerError::subset(problem.rows) + SamplerError::rounded(problem.weights() as f64);
        let mut before = Started::nothing(step * steps as f64);
        before.add_moments(&moments, features)?;
        if let Some(subspace) = &subspace {
            before.add_subspace(subspace, features);
        }
        let Started { events: before, passes, drawn, assumptions } = before;
        let releases = Releases {
            method: K::NAME,
            sampling_probability: q,
            event: |z: f64| {
                let descent = Event::gaussian(z).poisson_sampled(q).self_composed(steps);
                let all = before.iter().cloned().chain([descent]).collect();
                drawn.on(Event::composed(all))
            },
            assumptions,
            noise_drawn: "at each step: the step size depends on the noisy gradient of every weight".into(),
        };
        let schedule = recipe.rates;
        let plan = recipe.plan(problem, budget, releases)?;
        let (descent, mut summary) = (plan.schedule, plan.summary);
        let n = problem.rows as f64;
        summary.gradients += passes * n;
        summary.weight_noise = None;
        summary.predicted_excess_risk =
            Self::predicted_risk(&descent, descent.learning_rate * schedule.mean(steps), steps, problem);
        if let MomentSchedule::None { because: Some(because) } = &moments {
            summary.warnings.push(format!("isotropic noise: {because}"));
        }
        let second_momentum = (K::RULE == AdaptiveRule::Adam).then_some(second_momentum);
        let (euclidean_clip, exponent) = (self.adaptive.euclidean_clip, K::EXPONENT);
        let schedule = AdaptiveSchedule {
            descent,
            rule: K::RULE,
            second_momentum,
            domain,
            euclidean_clip,
            moments,
            exponent,
            subspace,
        };
        Ok(Plan { schedule, summary })
    }
}

impl AdaptiveSchedule {
    /// The ellipsoid that the first step clips to, after the moments have been released. `expand` makes scales of `length` out
    /// of those of the features.
    pub(crate) fn units<R: Records>(
        &self,
        problem: &Problem,
        examples: &Sensitive<R>,
        curator: &mut Curator,
        length: usize,
        expand: impl FnOnce(Vec<f64>) -> Vec<f64>,
    ) -> Result<Units, RunError> {
        Ok(match &self.moments {
            MomentSchedule::None { .. } => Units::new(Vec::new()),
            MomentSchedule::Public { scales, .. } => Units::new(expand(scales.clone())),
            MomentSchedule::Private { release, .. } => {
                Units::new(expand(geometry::scales(&release.run(problem, examples, curator)?, self.exponent)))
            }
            MomentSchedule::Running => Units::running(length, self.exponent),
        })
    }

    pub(crate) fn step(&self, problem: &Problem) -> AdaptiveStep {
        AdaptiveStep {
            rule: self.rule,
            momentum: self.descent.momentum,
            second_momentum: self.second_momentum.unwrap_or(0.0),
            regularization: self.descent.regularization / problem.rows as f64,
            domain: self.domain,
        }
    }
}

/// Standard deviation of an entry of the mean gradient in the units of the clip: of the mechanism's noise and of the choice
/// of the batch, the latter for gradients at the clip norm that point anywhere.
fn gradient_noise(schedule: &DescentSchedule, problem: &Problem) -> f64 {
    let (q, n) = (schedule.sampling_probability, problem.rows as f64);
    let choice = schedule.clip_norm * ((1.0 - q) / (q * n) / problem.weights() as f64).sqrt();
    (schedule.noise_std / (q * n)).hypot(choice)
}
