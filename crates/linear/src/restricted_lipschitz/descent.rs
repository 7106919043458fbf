//! Private descent with l2 regularisation toward the start and uniform averaging (Liu 2024, Algorithm 35), with
//! the parameters that minimise its proved excess-risk bound for a public restricted-Lipschitz profile.
//!
//! x ← x − η(g + αx + noise) from x⁰ = 0, answer: the mean of the iterates 1..T. g is the mean of clipped gradients over all
//! records, or over a Poisson batch with the public divisor q·n. The regulariser has no data and costs no privacy.
//!
//! Covers: thesis algorithm 35 (certified: all records or Poisson batches in place of one record)

use super::{GradientNoise, Parameters, Profile, bound, minimise_bound, smooth_bound};
use crate::choices::RateSchedule;
use crate::descent::{Average, DescentOptions, DescentSchedule, NoisyGradientDescent, NoisySgd};
use dpopt_objective::objective::OfRows;
use dpopt_optimize::algorithm::{Capabilities, RowAccess};
use dpopt_optimize::options::common::{
    CLIP_NORM, DISTANCE, LEARNING_RATE, REGULARIZATION, SAMPLING_PROBABILITY, STEPS,
};
use dpopt_optimize::options::{OptionReader, Range, Setting};
use dpopt_optimize::plan::{Assumption, NotApplicable, Plan, Problem};
use dpopt_optimize::planning::{asked_steps, check_problem, gaussian_mu, in_range, positive};
use dpopt_optimize::risk::RiskModel;
use dpopt_optimize::{Algorithm, Run, RunResult};
use dpopt_privacy::Budget;
use dpopt_privacy::rounding::number;
use serde::Serialize;

static GRADIENT_RANK: Setting<u64> =
    Setting::whole("gradient_rank", "public fact: gradients (features) lie in a subspace of N dimensions");
static GRADIENT_DECAY: Setting<f64> = Setting::real(
    "gradient_decay",
    Range::NOT_NEGATIVE,
    "public fact: the k-th largest direction of gradients (features) decays like k^-C",
)
.called("C");

/// Options of regularised descent. `None` means: chosen from public facts.
#[derive(Clone, Debug, Default)]
pub struct RegularizedDescent {
    /// What is publicly known about the decay of gradients. Default: nothing.
    pub profile: Option<Profile>,
    /// D: a guess of the minimiser's distance from 0. Default: 4 s₀/R, s₀ a usual score: rows have cosine 1/4 with it.
    pub distance: Option<f64>,
    /// q in (0, 1]. Default: full batches up to 200 steps; with more of them as many as give 200 passes over the records.
    pub sampling_probability: Option<f64>,
    /// T. Default: until noise outweighs the length of the gradients by ten, at most 2000.
    pub steps: Option<u64>,
    /// η on the mean loss. Default: minimises the bound.
    pub learning_rate: Option<f64>,
    /// λ = α·n, in units of the sum of losses. Default: minimises the bound.
    pub regularization: Option<f64>,
    /// C. Default: the loss's own bound R·sup|φ'|, at which nothing is clipped.
    pub clip_norm: Option<f64>,
    /// All records at every step, and no samples: rows that are in parts.
    pub full_batches: bool,
}

/// The schedule of regularised descent.
#[derive(Clone, Debug, Serialize)]
pub struct RegularizedSchedule {
    /// The schedule of the steps.
    #[serde(flatten)]
    pub descent: DescentSchedule,
    /// The profile the parameters were chosen for.
    pub profile: Profile,
    /// D: public bound on ‖x*‖, the distance of the best point from the start.
    pub distance: f64,
    /// k: directions whose noise the bound pays for; d for plain descent.
    pub directions: u64,
    /// α, on the mean loss.
    pub alpha: f64,
    /// E F(x̄) − F(x*) is at most this, if the profile holds and ‖x*‖ ≤ D.
    pub excess_risk_bound: f64,
    /// The best bound on E F(x̄) − F(x*) that uses no profile (k = d).
    pub excess_risk_bound_without_profile: f64,
}

/// Most steps that are taken without being asked for.
const MAX_STEPS: f64 = 2000.0;
/// Passes over the records that are made without being asked for.
const MAX_PASSES: f64 = 200.0;

impl RegularizedDescent {
    fn descent(&self, steps: u64, clip_norm: f64, parameters: Option<Parameters>, rows: u64) -> DescentOptions {
        DescentOptions {
            steps: Some(steps),
            learning_rate: Some(parameters.map_or(1.0, |p| p.learning_rate)),
            rate_schedule: RateSchedule::Constant,
            clip_norm: Some(clip_norm),
            momentum: Some(0.0),
            regularization: Some(parameters.map_or(0.0, |p| p.regularization * rows as f64)),
            average: Average::All,
            by_order: false,
        }
    }

    fn plan_descent(
        problem: &Problem,
        budget: Budget,
        q: f64,
        descent: DescentOptions,
    ) -> Result<Plan<DescentSchedule>, NotApplicable> {
        if q == 1.0 {
            NoisyGradientDescent { descent }.plan(problem, budget)
        } else {
            NoisySgd { sampling_probability: Some(q), descent, ..NoisySgd::default() }.plan(problem, budget)
        }
    }
}

impl Algorithm for RegularizedDescent {
    type Schedule = RegularizedSchedule;
    const NAME: &'static str = "regularized-descent";
    const ABOUT: &'static str = "releases noisy sums of gradients of a regularised loss; has a proved error bound, \
                                 which improves for features of low rank or with decaying spectrum";
    const CAPABILITIES: Capabilities =
        Capabilities { rows: RowAccess::Passes, supports_user_level: true, sums: true, ..Capabilities::NONE };

    fn read(options: &OptionReader<'_>) -> Self {
        options.only_one(&GRADIENT_RANK, &GRADIENT_DECAY);
        let profile = match (options.get(&GRADIENT_RANK), options.get(&GRADIENT_DECAY)) {
            (Some(rank), _) => Some(Profile::Rank { rank }),
            (None, Some(exponent)) => Some(Profile::Decay { exponent }),
            (None, None) => None,
        };
        Self {
            profile,
            distance: options.get(&DISTANCE),
            sampling_probability: options.get(&SAMPLING_PROBABILITY),
            steps: options.get(&STEPS),
            learning_rate: options.get(&LEARNING_RATE),
            regularization: options.get(&REGULARIZATION),
            clip_norm: options.get(&CLIP_NORM),
            full_batches: options.remote(),
        }
    }

    fn plan(&self, problem: &Problem, budget: Budget) -> Result<Plan<RegularizedSchedule>, NotApplicable> {
        check_problem(problem)?;
        let profile = self.profile.clone().unwrap_or(Profile::Flat);
        if let Some(why) = profile.problem() {
            return Err(NotApplicable::Option(why.into()));
        }
        if !problem.loss.facts().convex {
            return Err(NotApplicable::Problem(
                "its error bound needs a convex loss; use logistic, or choose noisy-sgd".into(),
            ));
        }
        let own = problem.row_norm * problem.loss.facts().lipschitz.unwrap_or(1.0);
        let clip_norm = positive("the clip norm", self.clip_norm.unwrap_or(own))?;
        if clip_norm < own && problem.loss.outputs() > 1 {
            return Err(NotApplicable::Option(
                format!("with several classes the error bound is not proved for a clip norm below {own}; leave it out")
                    .into(),
            ));
        }
        let distance =
            positive("the distance", self.distance.unwrap_or_else(|| 4.0 * RiskModel::of(problem).signal.sqrt()))?;
        let (n, d) = (problem.rows as f64, problem.weights());
        let steps = match asked_steps(self.steps)? {
            Some(steps) => steps,
            // k·s²/T, the noise's share in the bound, does not depend on T for full batches; G²/T falls
            None => {
                let noise = 1.0 / (gaussian_mu(problem, budget)? * n);
                let k = minimise_bound(
                    &profile,
                    d,
                    GradientNoise { lipschitz: 1.0, sampling: 0.0, smoothness: None, std: noise },
                    1.0,
                    1,
                );
                (10.0 / (k.parameters.directions as f64 * noise * noise)).ceil().clamp(20.0, MAX_STEPS) as u64
            }
        };
        let most = if self.full_batches { 1.0 } else { (MAX_PASSES / steps as f64).min(1.0) };
        let q = in_range("the sampling probability", self.sampling_probability.unwrap_or(most), 1e-9, 1.0)?;
        if self.full_batches && q < 1.0 {
            return Err(NotApplicable::Option(
                "remote records cannot be sampled; leave out the sampling probability".into(),
            ));
        }
        // the event does not depend on the learning rate: this tells the noise
        let trial = Self::plan_descent(problem, budget, q, self.descent(steps, clip_norm, None, problem.rows))?;
        let noise = GradientNoise {
            lipschitz: clip_norm,
            sampling: clip_norm * ((1.0 - q) / (q * n)).sqrt(),
            // clipping a slope leaves the loss convex and no more curved
            smoothness: problem.loss.facts().smoothness.map(|beta| beta * problem.row_norm.powi(2)),
            std: trial.schedule.noise_std / (q * n),
        };
        let best = minimise_bound(&profile, d, noise, distance, steps);
        let plain = minimise_bound(&Profile::Flat, d, noise, distance, steps).excess_risk;
        let mut parameters = best.parameters;
        if let Some(rate) = self.learning_rate {
            parameters.learning_rate = positive("the learning rate", rate)?;
        }
        if let Some(lambda) = self.regularization {
            parameters.regularization = in_range("the regularization", lambda, 0.0, f64::MAX)? / n;
        }
        let excess_risk = if self.learning_rate.is_none() && self.regularization.is_none() {
            best.excess_risk
        } else {
            let tail = profile.tail(parameters.directions, d, clip_norm);
            let fixed = bound(noise, tail, distance, steps, parameters);
            let plain = bound(noise, 0.0, distance, steps, Parameters { directions: d, ..parameters });
            let smooth = match parameters.regularization {
                0.0 => smooth_bound(noise, d, distance, steps, parameters.learning_rate),
                _ => f64::INFINITY,
            };
            fixed.min(plain).min(smooth)
        };
        let Plan { schedule, mut summary } =
            Self::plan_descent(problem, budget, q, self.descent(steps, clip_norm, Some(parameters), problem.rows))?;
        summary.method = Self::NAME;
        summary.predicted_excess_risk = summary.predicted_excess_risk.min(excess_risk);
        summary.assumptions.push(Assumption::public(
            "the profile and the distance are public; the error bound depends on them, privacy does not",
        ));
        summary.warnings.push(format!(
            "proved: expected excess training risk at most {} if the minimiser is within {} of 0 ({profile}, k = {} of {d}); \
             at most {} if nothing is known about the decay",
            number(excess_risk),
            number(distance),
            parameters.directions,
            number(plain),
        ));
        let schedule = RegularizedSchedule {
            descent: schedule,
            profile,
            distance,
            directions: parameters.directions as u64,
            alpha: parameters.regularization,
            excess_risk_bound: excess_risk,
            excess_risk_bound_without_profile: plain,
        };
        Ok(Plan { schedule, summary })
    }

    fn run<R: OfRows + 'static>(&self, plan: &Plan<RegularizedSchedule>, run: Run<'_, R>) -> RunResult {
        let steps = Plan { schedule: plan.schedule.descent.clone(), summary: plan.summary.clone() };
        if steps.schedule.sampling_probability == 1.0 {
            NoisyGradientDescent::default().run(&steps, run)
        } else {
            NoisySgd::default().run(&steps, run)
        }
    }
}
