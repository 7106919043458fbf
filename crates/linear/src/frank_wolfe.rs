//! Private Frank–Wolfe on the l1 ball (Talwar, Thakurta, Zhang 2015; docs/proofs/frank-wolfe.md), at the cost of the entries that change
//! (after Raff, Khanna, Lu 2023): least squares or logistic regression with ‖w‖₁ ≤ λ, for far more features than rows.
//!
//! Each step chooses one vertex ±λe_j by the exponential mechanism and moves towards it, so the noise is that of a maximum over
//! 2d scores, ln(2d), where a noisy gradient would have √d; and after T steps at most T weights are not zero. Step lengths are
//! 2/(t + 2). Margins and scores are updated, not recomputed; neither time nor memory grows with d.

use dpopt_mechanism::{Mechanism, Released, SparseVector, VertexChoice, VertexFacts, VertexScores};
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::OfRows;
use dpopt_optimize::algorithm::Capabilities;
use dpopt_optimize::options::common::{CLIP_NORM, MAX_FEATURES, STEPS};
use dpopt_optimize::options::{OptionReader, Range, Setting};
use dpopt_optimize::plan::{Assumption, NotApplicable, Plan, Problem, Summary};
use dpopt_optimize::planning::{
    SamplerError, asked_steps, check_problem, gaussian_mu, in_range, noise, positive, typical_nonzeros,
};
use dpopt_optimize::risk::RiskModel;
use dpopt_optimize::{Algorithm, Run, RunError, RunResult};
use dpopt_privacy::{Budget, Event, Relation};
use dpopt_refusal::{Refusal, option};
use serde::Serialize;
use std::collections::BTreeMap;

static L1_NORM: Setting<f64> =
    Setting::real("l1_norm", Range::POSITIVE, "largest l1 norm of the weights").called("LAMBDA");
static REFRESH_EVERY: Setting<u64> = Setting::whole(
    "refresh_every",
    "all derivatives are recomputed every N steps; 1 for exact gradients [default: \
                                     10]",
);

/// Steps at the start after each of which all slopes are computed anew: the iterate moves far then.
const FRESH_STEPS: u64 = 8;
/// R: steps between two computations of all slopes, by default.
const USUAL_REFRESH: u64 = 10;
/// Most steps a plan makes by itself.
const MAX_STEPS: u64 = 1024;

/// Options of private Frank–Wolfe. `None` means: chosen from public facts.
#[derive(Clone, Debug, Default)]
pub struct FrankWolfe {
    /// λ > 0: bound on the l1 norm of the weights, intercept included.
    pub l1_norm: Option<f64>,
    /// T ≥ 1: number of steps.
    pub steps: Option<u64>,
    /// k ≥ 1: T is at most this, so that no more weights are not zero.
    pub max_features: Option<u64>,
    /// C > 0: bound on each entry of a record's gradient. Default L·R/√m for rows of m ≤ 128 non-zeros.
    pub clip_norm: Option<f64>,
    /// R ≥ 1: all slopes are computed anew every R steps; those of rows that have the chosen feature at once. 1 is the
    /// algorithm of Talwar, Thakurta and Zhang. Default 10.
    pub refresh_every: Option<u64>,
}

/// The schedule of private Frank–Wolfe.
#[derive(Clone, Debug, Serialize)]
pub struct VertexSchedule {
    /// The loss that is minimised.
    pub loss: Loss,
    /// λ: bound on the l1 norm of the weights.
    pub l1_norm: f64,
    /// T: number of steps.
    pub steps: u64,
    /// C: clip of each entry of a record's gradient.
    pub clip_norm: f64,
    /// ε₀ of one choice.
    pub step_epsilon: f64,
    /// Scale of the noise of a score, a sum over records (as if Gumbel noise were added).
    pub noise_scale: f64,
    /// R: all slopes are computed anew every R steps.
    pub refresh_every: u64,
}

/// Scale of a score's noise for T choices, before any accountant has been asked: that of zCDP, or T equal parts of ε.
fn rough_scale(problem: &Problem, budget: Budget, steps: u64, clip_norm: f64) -> Result<f64, NotApplicable> {
    let t = steps as f64;
    Ok(if budget.delta() > 0.0 {
        clip_norm * t.sqrt() / gaussian_mu(problem, budget)?
    } else {
        2.0 * clip_norm * problem.relation().sum_sensitivity() * t / budget.epsilon()
    })
}

impl FrankWolfe {
    /// λ and T of the smallest predicted risk among what is not fixed.
    fn radius_and_steps(
        &self,
        problem: &Problem,
        budget: Budget,
        clip_norm: f64,
    ) -> Result<(f64, u64, f64), NotApplicable> {
        let model = RiskModel::usual(problem);
        let candidates = (2 * problem.features) as f64;
        let radius = self.l1_norm.map(|radius| positive("the l1 norm", radius)).transpose()?;
        let nonzeros = typical_nonzeros(problem);
        let most = self.max_features.unwrap_or(u64::MAX);
        if most == 0 {
            return Err(NotApplicable::Option(Refusal::of(option("max_features")).given("0").allowed("at least 1")));
        }
        let all_steps: Vec<u64> = match asked_steps(self.steps)? {
            Some(steps) => vec![steps.min(most)],
            None => (0..=16).map(|i| (2f64.powf(2.0 + 0.5 * f64::from(i)) as u64).min(most).min(MAX_STEPS)).collect(),
        };
        let mut best = (f64::INFINITY, 1.0, 1, 0.0);
        for &steps in &all_steps {
            let scale = rough_scale(problem, budget, steps, clip_norm)? / problem.rows as f64;
            // each of T choices gives its feature a useful weight
            let radius = radius.unwrap_or(0.5 * (steps + 1) as f64 * model.useful_weight(nonzeros));
            let visible = scale * candidates.ln();
            let unfound = model.frank_wolfe_unfound(radius, steps as f64, visible, nonzeros);
            if unfound < best.0 {
                best = (unfound, radius, steps, visible);
            }
        }
        let (_, radius, steps, visible) = best;
        Ok((radius, steps, model.frank_wolfe(radius, steps as f64, visible, nonzeros)))
    }
}

impl Algorithm for FrankWolfe {
    type Schedule = VertexSchedule;
    const NAME: &'static str = "frank-wolfe";
    const ABOUT: &'static str = "releases the best vertex of the l1 ball in each of T steps (private Frank-Wolfe); for far more features \
         than rows, also with delta = 0";
    const CAPABILITIES: Capabilities = Capabilities { logarithmic: true, ..Capabilities::NONE };

    fn read(options: &OptionReader<'_>) -> Self {
        Self {
            l1_norm: options.get(&L1_NORM),
            steps: options.get(&STEPS),
            max_features: options.get(&MAX_FEATURES),
            clip_norm: options.get(&CLIP_NORM),
            refresh_every: options.get(&REFRESH_EVERY),
        }
    }

    fn plan(&self, problem: &Problem, budget: Budget) -> Result<Plan<VertexSchedule>, NotApplicable> {
        check_problem(problem)?;
        if matches!(problem.loss, Loss::Softmax { .. }) {
            return Err(NotApplicable::Problem(
                "it fits one score per record and cannot fit several classes at once; fit one class against the \
                 rest, or choose another method"
                    .into(),
            ));
        }
        if problem.features as u64 > 1 << 32 {
            return Err(NotApplicable::Problem("there are more than 2^32 features; hash them to fewer".into()));
        }
        let lipschitz = problem.loss.facts().lipschitz.unwrap_or(1.0);
        let usual = lipschitz * problem.row_norm / typical_nonzeros(problem).sqrt();
        let clip_norm = positive("the clip norm", self.clip_norm.unwrap_or(usual))?;
        let refresh_every =
            in_range(option("refresh_every"), self.refresh_every.unwrap_or(USUAL_REFRESH) as f64, 1.0, 1e9)? as u64;
        let (l1_norm, steps, predicted) = self.radius_and_steps(problem, budget, clip_norm)?;
        let event = |m: f64| {
            let choices = Event::ExponentialMechanism { epsilon: 1.0 / m }.self_composed(steps);
            SamplerError::rounded(steps as f64).paid(choices, budget.delta())
        };
        let (m, certificate) = noise(problem, budget, event)?;
        let facts = VertexFacts { loss: problem.loss, clip_norm, epsilon: 1.0 / m, relation: problem.relation() };
        VertexChoice { facts, dimension: problem.features as u64 }.can_draw()?;
        let n = problem.rows as f64;
        let noise_multiplier = 2.0 * problem.relation().sum_sensitivity() * m;
        let mut warnings = Vec::new();
        if let Some(asked) = self.steps.filter(|asked| *asked > steps) {
            warnings.push(format!(
                "steps was lowered from {asked} to {steps}: each step may add a feature, and max_features is {steps}"
            ));
        }
        if problem.relation() == Relation::AddOrRemove {
            warnings.push(
                "steps and radius were chosen from the number of rows, which is assumed to be a public guess".into(),
            );
        }
        Ok(Plan {
            summary: Summary {
                method: Self::NAME,
                loss: problem.loss,
                noise_multiplier,
                steps,
                gradients: n * (FRESH_STEPS.min(steps) + steps.saturating_sub(FRESH_STEPS) / refresh_every + 1) as f64,
                predicted_excess_risk: predicted,
                // a weight lies in [−λ, λ]; nothing smaller is known of one that may or may not be chosen
                weight_noise: Some(l1_norm),
                certificate,
                assumptions: vec![
                    Assumption::enforced(
                        "no entry of a record's gradient exceeds the clip norm: enforced in exact integers",
                    ),
                    Assumption::proved(
                        "derivatives are recomputed at steps fixed in advance and in the rows of the released \
                         feature, never depending on other records",
                    ),
                ],
                warnings,
            },
            schedule: VertexSchedule {
                loss: problem.loss,
                l1_norm,
                steps,
                clip_norm,
                step_epsilon: 1.0 / m,
                noise_scale: noise_multiplier * clip_norm,
                refresh_every,
            },
        })
    }

    fn run<R: OfRows + 'static>(&self, plan: &Plan<VertexSchedule>, run: Run<'_, R>) -> RunResult {
        let features = run.problem.features;
        Ok(run_vertices(plan, run.in_memory(Self::NAME)?)?.map(|w| w.dense(features).into()))
    }
}

/// Runs a plan of [`FrankWolfe`] without ever making a vector of all features.
pub fn run_vertices(plan: &Plan<VertexSchedule>, run: Run<'_>) -> Result<Released<SparseVector>, RunError> {
    let Run { problem, examples, curator, progress } = run;
    let s = &plan.schedule;
    let facts =
        VertexFacts { loss: s.loss, clip_norm: s.clip_norm, epsilon: s.step_epsilon, relation: problem.relation() };
    let mechanism = VertexChoice { facts, dimension: problem.features as u64 };
    progress.start(plan.summary.method, s.steps);
    let mut scores = VertexScores::new(examples, facts)?;
    let mut weights: BTreeMap<u32, f64> = BTreeMap::new();
    let mut shrinkage = 1.0;
    for t in 0..s.steps {
        let vertex = curator.release(&mechanism, &scores)?.into_inner();
        let rate = 2.0 / (t as f64 + 2.0);
        if t == 0 {
            weights.clear(); // the first step goes all the way
        } else {
            shrinkage *= 1.0 - rate;
        }
        for (column, sign) in vertex.iter() {
            *weights.entry(column).or_insert(0.0) += rate * sign * s.l1_norm / shrinkage;
        }
        let all = t + 1 < FRESH_STEPS || (t + 1) % s.refresh_every == 0;
        VertexScores::step(&mut scores, &vertex, rate, s.l1_norm, all);
        progress.tick();
    }
    progress.finish();
    Ok(curator.postprocess(SparseVector::new(weights.into_iter().map(|(j, w)| (j, shrinkage * w)))))
}

#[cfg(test)]
#[path = "frank_wolfe_tests.rs"]
mod tests;
