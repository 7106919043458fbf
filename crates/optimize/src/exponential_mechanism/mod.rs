//! The regularised exponential mechanism (spec 03 §3, 04 §A2): one draw from e^(−β(Σφ + (λ/2)‖θ‖²)), made by a proximal
//! sampler with a certified distance from that law.
//!
//! One exact draw is s-GDP with s = G_Δ·√(β/λ); the sampler's error is added to δ. It needs neither smoothness nor an exact
//! minimiser. At equal λ its noise is the geometric mean of those of output and objective perturbation: in a direction with
//! curvature a the variance is G²/(s²λ(na + λ)), against G²/(s²λ²) and G²/(s²(na + λ)²).
//!
//! Covers: thesis theorem 3.1.5, theorem 3.6.2 (certified: on the exact curve, 2G for a replaced record)
//! Covers: thesis theorem 3.6.4 (part: certified with a sampler of its own; the number of queries is not that of the theorem)

pub mod parameters;
mod schedule;
#[cfg(test)]
mod tests;

pub use schedule::ChainSchedule;

use super::output_perturbation::{check_shape, smooth_loss};
use super::planning::{TARGET_BOUND, check_problem, left_of_mu, positive, products, require_delta};
use super::risk::RiskModel;
use super::{Algorithm, Run, RunError, RunResult, Solution};
use crate::options::common::{CLIP_NORM, REGULARIZATION, SHIFT};
use crate::options::{Said, Setting};
use crate::plan::{Assumption, NotApplicable, Plan, Problem, Summary, certify};
use dpopt_mechanism::{GibbsDraw, GibbsFacts, Mechanism, Released};
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::OfRows;
use dpopt_privacy::{Budget, Relation};
use parameters::{Shares, shares};
use schedule::gradients;
use serde::Serialize;

static DRAWS: Setting<u64> =
    Setting::whole("draws", "draws that share the budget; the answer is their mean [default: 1]");
static CONSTANT_TIME: Setting<bool> =
    Setting::flag("constant_time", "as many evaluations whatever the data, at many times the cost");

/// Options of the exponential mechanism. `None` means: chosen from public facts.
#[derive(Clone, Debug, Default)]
pub struct ExponentialMechanism {
    /// λ > 0 of the sum objective. Default: the best predicted risk that [`MAX_EVALUATIONS`] allow.
    pub regularization: Option<f64>,
    /// Shift of a logistic loss, ≥ 0. Default 2.
    pub shift: Option<f64>,
    /// Slope bound of Huber's loss when the problem's loss is squared. Default 0.5.
    pub clip_norm: Option<f64>,
    /// r ≥ 1: draws that share the budget, each s/√r-GDP; the answer is their mean. Default 1.
    pub draws: Option<u64>,
    /// The same number of evaluations whatever the data, at many times the cost: starts at the public centre, evaluates
    /// all proposals of every round. Default false.
    pub constant_time: bool,
}

/// The schedule of the exponential mechanism.
#[derive(Clone, Debug, Serialize)]
pub struct GibbsSchedule {
    /// The loss of the potential.
    pub loss: Loss,
    /// r.
    pub draws: u64,
    /// s of one exact draw.
    pub draw_mu: f64,
    /// The chain of one draw.
    pub chain: ChainSchedule,
    /// One draw, its chain proved by the kernel.
    #[serde(skip)]
    pub mechanism: GibbsDraw,
}

/// Plans of more evaluations of a record's loss are not made unless λ is given: about half a minute on one core, for rows of few
/// entries and one output.
pub const MAX_EVALUATIONS: f64 = 1e9;

/// Nor are plans of more multiplications, of entries of rows with weights of each output.
const MAX_PRODUCTS: f64 = 3e10;

impl ExponentialMechanism {
    /// The loss of the potential: convex with a bounded slope; corners are allowed.
    fn loss(&self, problem: &Problem) -> Result<Loss, NotApplicable> {
        check_shape(problem.loss, self.shift, self.clip_norm)?;
        let loss = match problem.loss {
            Loss::Absolute | Loss::Hinge => problem.loss,
            other => smooth_loss(other, self.shift, self.clip_norm)?,
        };
        let facts = loss.facts();
        if facts.convex && facts.lipschitz.is_some() {
            return Ok(loss);
        }
        Err(NotApplicable::Problem("the exponential mechanism needs a convex loss with bounded slope".into()))
    }
}

impl Algorithm for ExponentialMechanism {
    type Schedule = GibbsSchedule;
    const NAME: &'static str = "exponential-mechanism";
    const ABOUT: &'static str = "releases a draw from exp(-beta * regularised loss) by a certified sampler; for few rows and small budgets, slow";

    fn read(said: &Said<'_>) -> Self {
        Self {
            regularization: said.get(&REGULARIZATION),
            shift: said.get(&SHIFT),
            clip_norm: said.get(&CLIP_NORM),
            draws: said.get(&DRAWS),
            constant_time: said.get(&CONSTANT_TIME).unwrap_or(false),
        }
    }

    fn plan(&self, problem: &Problem, budget: Budget) -> Result<Plan<GibbsSchedule>, NotApplicable> {
        check_problem(problem)?;
        require_delta(budget)?;
        if problem.relation() == Relation::AddOrRemove {
            return Err(NotApplicable::Problem(
                "the number of rows enters the sampler's certificate, and add-or-remove protects it; use zero-out"
                    .into(),
            ));
        }
        let draws = self.draws.unwrap_or(1);
        if !(1..=10_000).contains(&draws) {
            return Err(NotApplicable::Option(format!(
                "the number of draws is {draws}; give a number from 1 to 10000"
            )));
        }
        let loss = self.loss(problem)?;
        let all = shares(budget);
        // a hair below what is left, for the rounding of sums of squares and of a group's multiple
        let mu = if problem.group() > 1 || problem.before.is_some() { 1.0 - 1e-9 } else { 1.0 };
        let all = Shares { mu: mu * left_of_mu(problem, all.mu), ..all };
        let facts = GibbsFacts {
            objective: problem.objective().with_loss(loss),
            rows: problem.rows,
            nonzeros: problem.nonzeros,
            target_bound: TARGET_BOUND,
            relation: problem.relation(),
            mu: all.mu / (draws as f64).sqrt() * (1.0 - 1e-14),
            total_variation: all.total_variation / draws as f64 * (1.0 - 1e-14),
            constant_time: self.constant_time,
            geometry: None,
        };
        let risk = RiskModel::of(problem);
        let predicted = |lambda: f64| {
            let scale = lambda * (all.mu / facts.difference_lipschitz()).powi(2);
            risk.gibbs(lambda, scale * RiskModel::pull(loss).powi(2))
        };
        let draw = match self.regularization {
            Some(lambda) => facts.draw(positive("the regularization", lambda)?),
            // around where the noise of a score is 1 in a direction without curvature, by factors of √2
            None => {
                let base = facts.difference_lipschitz() * problem.row_norm / all.mu;
                let affordable = |draw: &GibbsDraw| {
                    let evaluations = draws as f64 * gradients(draw);
                    evaluations <= MAX_EVALUATIONS && products(problem, evaluations) <= MAX_PRODUCTS
                };
                let risk_of = |draw: &GibbsDraw| predicted(draw.chain().regularization);
                (-40..=40)
                    .filter_map(|k| facts.draw(base * 2f64.powf(0.5 * f64::from(k))).filter(affordable))
                    .min_by(|a, b| risk_of(a).total_cmp(&risk_of(b)))
            }
        };
        let Some(mechanism) = draw else {
            return Err(NotApplicable::Problem(
                "no certified chain of affordable length for so many rows and features; raise the regularization, or \
                 choose another method"
                    .into(),
            ));
        };
        let chain = ChainSchedule::of(&mechanism);
        let (scale, lambda, rounds, gradients) =
            (chain.inverse_temperature, chain.regularization, chain.rounds, gradients(&mechanism));
        let drawn = chain.total_variation * draws as f64;
        let event = mechanism.event().self_composed(draws).approximate(drawn);
        let schedule = GibbsSchedule { loss, draws, draw_mu: facts.mu, chain, mechanism };
        let certificate = certify(&event, problem, budget)?;
        let mut warnings = vec![
            "running time depends on the records (how many proposals are refused) and is not part of the guarantee; \
             constant-time evaluates them all"
                .into(),
        ];
        if self.constant_time {
            warnings =
                vec!["constant time assumes that exp, ln and sparse rows take the same time for all values".into()];
        }
        Ok(Plan {
            summary: Summary {
                method: Self::NAME,
                loss,
                noise_multiplier: problem.relation().sum_sensitivity() / all.mu,
                steps: draws * rounds,
                gradients: draws as f64 * gradients,
                weight_noise: Some((draws as f64 * scale * lambda).sqrt().recip()),
                predicted_excess_risk: predicted(lambda),
                certificate,
                assumptions: vec![
                    Assumption::enforced("every row has norm at most the row norm: enforced when rows are built"),
                    Assumption::proved("the loss is convex with bounded slope: it is one of the registered losses"),
                    Assumption::proved(
                        "the sampler's distance from its law is proved, rounding errors included, and paid for in delta",
                    ),
                ],
                warnings,
            },
            schedule,
        })
    }

    fn run<R: OfRows + 'static>(&self, plan: &Plan<GibbsSchedule>, run: Run<'_, R>) -> RunResult {
        let Run { examples, curator, progress, .. } = run.in_memory(Self::NAME)?;
        let schedule = &plan.schedule;
        progress.start(Self::NAME, schedule.draws);
        let mut mean: Option<Released<Vec<f64>>> = None;
        for draw in 0..schedule.draws {
            let released = curator.release(&schedule.mechanism, examples)?;
            progress.tick();
            mean = Some(match mean {
                None => released,
                // running mean of released values
                Some(mean) => mean.map(|mut mean| {
                    let share = 1.0 / (draw as f64 + 1.0);
                    mean.iter_mut().zip(released.get()).for_each(|(m, x)| *m += share * (x - *m));
                    mean
                }),
            });
        }
        progress.finish();
        // at least one draw is planned
        mean.map(|mean| mean.map(Solution::from)).ok_or(RunError::Numerical("no draw was planned"))
    }
}
