//! The regularised exponential mechanism (Liu 2024, Theorems 3.1.5 and 4.4.2): one draw from e^(−β(Σφ + (λ/2)‖θ‖²)), made by a proximal
//! sampler with a certified distance from that law.
//!
//! One exact draw is s-GDP with s = G_Δ·√(β/λ); the sampler's error is added to δ. It needs neither smoothness nor an exact
//! minimiser. At equal λ its noise is the geometric mean of those of output and objective perturbation: in a direction with
//! curvature a the variance is G²/(s²λ(na + λ)), against G²/(s²λ²) and G²/(s²(na + λ)²).
//!
//! In the l_p norm, 1 ≤ p < 2, the public part is λr(θ), 1-strongly convex there, and a record's slope is measured in l_p*.
//!
//! Covers: thesis theorem 3.1.5, theorem 3.6.2 (certified: on the exact curve, 2G for a replaced record)
//! Covers: thesis theorem 3.6.4 (part: certified with a sampler of its own; the number of queries is not that of the theorem)

pub mod parameters;
mod schedule;
#[cfg(test)]
mod tests;

pub use schedule::ChainSchedule;

use super::output_perturbation::{check_shape, smooth_loss};
use dpopt_mechanism::{GibbsDraw, GibbsFacts, LpGeometry, Mechanism, Released};
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::OfRows;
use dpopt_optimize::options::common::{CLIP_NORM, REGULARIZATION, SHIFT};
use dpopt_optimize::options::{OptionReader, Range, Setting};
use dpopt_optimize::plan::{Assumption, NotApplicable, Plan, Problem, Summary, certify};
use dpopt_optimize::planning::{TARGET_BOUND, check_problem, left_of_mu, positive, products, require_delta};
use dpopt_optimize::risk::RiskModel;
use dpopt_optimize::{Algorithm, Run, RunError, RunResult, Solution};
use dpopt_privacy::{Budget, Relation, Shown};
use dpopt_refusal::{Text, option, text};
use parameters::{Shares, shares};
use schedule::gradients;
use serde::Serialize;

static DRAWS: Setting<u64> =
    Setting::whole("draws", "number of draws that share the budget; the result is their mean [default: 1]");
static CONSTANT_TIME: Setting<bool> =
    Setting::flag("constant_time", "make the number of evaluations independent of the data, at many times the cost");

static GEOMETRY: Setting<f64> = Setting::norm(
    "geometry",
    "norm of the regularizer; rows are bounded in its dual norm; p above 2 is l2 [default: l2]",
);
static DUAL_ROW_NORM: Setting<f64> = Setting::real(
    "dual_row_norm",
    Range::POSITIVE,
    "with geometry: rows are clipped to this norm of order p/(p-1) [default: their l2 norm, which clips none]",
);

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
    /// Whether the number of evaluations is independent of the data, at many times the cost: the chain starts at the public centre and
    /// evaluates all proposals of every round. Default false.
    pub constant_time: bool,
    /// p of the norm; from 2 on it is the Euclidean mechanism. Default 2.
    pub geometry: Option<f64>,
    /// C, below 2 only: rows count with a norm of order p/(p − 1) of at most C. Default: the row norm.
    pub dual_row_norm: Option<f64>,
}

/// The geometry of a draw as plans show it.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct GeometrySchedule {
    /// p: order of the norm.
    pub p: f64,
    /// q: the regulariser is λ(c/2)‖θ‖_q².
    pub exponent: f64,
    /// c: makes it λ-strongly convex in l_p.
    pub coefficient: f64,
    /// Bound on the norm of order p/(p − 1) of a row.
    pub dual_row_norm: f64,
}

/// The schedule of the exponential mechanism.
#[derive(Clone, Debug, Serialize)]
pub struct GibbsSchedule {
    /// The loss of the potential.
    pub loss: Loss,
    /// r: number of draws that share the budget.
    pub draws: u64,
    /// s of one exact draw.
    pub draw_mu: f64,
    /// The chain of one draw.
    pub chain: ChainSchedule,
    /// The geometry of a norm other than l2; `None` is the Euclidean mechanism.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub geometry: Option<GeometrySchedule>,
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
        Err(NotApplicable::Problem("it needs a convex loss with bounded gradient; choose logistic or huber".into()))
    }

    /// `None`: Euclidean, as for every p from 2 on: ‖·‖₂²/2 is 1-strongly convex in l_p too, and slopes are bounded in l_2.
    fn geometry(&self, problem: &Problem, loss: Loss) -> Result<Option<LpGeometry>, NotApplicable> {
        let refused = |why: Text| Err(NotApplicable::Option(why.into()));
        let Some(p) = self.geometry.filter(|p| !(*p >= 2.0)) else {
            return match self.dual_row_norm {
                None => Ok(None),
                Some(_) => refused(text![
                    option("dual_row_norm"),
                    " has no effect in l2, where the row norm bounds rows; leave it out"
                ]),
            };
        };
        if self.constant_time {
            return refused(text![
                option("constant_time"),
                " has no proof in this geometry; leave out one of ",
                option("geometry"),
                " and ",
                option("constant_time")
            ]);
        }
        if !(p >= 1.0) {
            return refused(text![option("geometry"), " has an order below 1; give l1, l2, or lp:P with P at least 1"]);
        }
        let bound = match self.dual_row_norm {
            Some(bound) if bound > problem.row_norm => {
                return refused(text![
                    option("dual_row_norm"),
                    " is above the row norm, which bounds it already; leave it out"
                ]);
            }
            Some(bound) => positive(option("dual_row_norm"), bound)?,
            None => problem.row_norm,
        };
        Ok(Some(LpGeometry::new(p, bound, loss.outputs() * problem.features)))
    }

    /// What the user should know of a plan, in l2 or `in_geometry`.
    fn warnings(&self, in_geometry: bool) -> Vec<String> {
        if in_geometry {
            return vec![
                "the run time depends on the records and is not covered by the guarantee, and constant time has no \
                 proof in this geometry; pad the run to a fixed time if it can be measured"
                    .into(),
                "the predicted risk assumes weights of equal size and rows with equal entries, which are clipped \
                 least; it is a model, not a bound"
                    .into(),
            ];
        }
        if self.constant_time {
            return vec!["constant time assumes that exp, ln and sparse rows take the same time for all values".into()];
        }
        vec![
            "the run time depends on the records (through the number of rejected proposals) and is not covered by \
             the guarantee; `constant_time` makes it independent of them"
                .into(),
        ]
    }
}

/// What the guarantee of a draw rests on.
fn rests_on(geometry: Option<&GeometrySchedule>) -> Vec<Assumption> {
    let mut assumptions = vec![
        Assumption::enforced("every row has norm at most the row norm: enforced when rows are built"),
        Assumption::proved("the loss is convex with bounded slope: it is one of the registered losses"),
        Assumption::proved(
            "the distance of the sampler from its exact distribution is proved, rounding errors included, and added \
             to delta",
        ),
    ];
    if let Some(GeometrySchedule { p, exponent, dual_row_norm, .. }) = geometry {
        assumptions.push(Assumption::enforced(format!(
            "every row has norm at most {} in the dual of l_{}: enforced by the sampler, which clips longer ones",
            Shown(*dual_row_norm),
            Shown(*p)
        )));
        assumptions.push(Assumption::proved(format!(
            "the regulariser, a multiple of the squared l_{} norm, is strongly convex in l_{}",
            Shown(*exponent),
            Shown(*p)
        )));
    }
    assumptions
}

/// Why no chain is certified. In a geometry the slope of the public part outgrows the certificate, and the number of rounds does without.
fn no_chain(geometry: Option<LpGeometry>) -> NotApplicable {
    NotApplicable::Problem(
        match geometry {
            Some(_) => {
                "no chain of affordable length can be certified for so many rows and features in this geometry; \
                 lower the regularization, take a norm nearer l2, or choose another method"
            }
            None => {
                "no chain of affordable length can be certified for so many rows and features; raise the \
                 regularization, or choose another method"
            }
        }
        .into(),
    )
}

impl Algorithm for ExponentialMechanism {
    type Schedule = GibbsSchedule;
    const NAME: &'static str = "exponential-mechanism";
    const ABOUT: &'static str = "releases a draw from exp(-beta * regularised loss) by a certified sampler; for few \
                                 rows and small budgets; slow";

    fn read(options: &OptionReader<'_>) -> Self {
        options.needs(&DUAL_ROW_NORM, &GEOMETRY);
        Self {
            regularization: options.get(&REGULARIZATION),
            shift: options.get(&SHIFT),
            clip_norm: options.get(&CLIP_NORM),
            draws: options.get(&DRAWS),
            constant_time: options.get(&CONSTANT_TIME).unwrap_or(false),
            geometry: options.get(&GEOMETRY),
            dual_row_norm: options.get(&DUAL_ROW_NORM),
        }
    }

    fn plan(&self, problem: &Problem, budget: Budget) -> Result<Plan<GibbsSchedule>, NotApplicable> {
        check_problem(problem)?;
        require_delta(budget)?;
        if problem.relation() == Relation::AddOrRemove {
            return Err(NotApplicable::Problem(
                "the sampler's certificate depends on the number of rows, which add-or-remove protects; use zero-out"
                    .into(),
            ));
        }
        let draws = self.draws.unwrap_or(1);
        if !(1..=10_000).contains(&draws) {
            return Err(NotApplicable::Option(
                format!("the number of draws is {draws}; give a number from 1 to 10000").into(),
            ));
        }
        let loss = self.loss(problem)?;
        let geometry = self.geometry(problem, loss)?;
        let all = shares(budget);
        // a hair below what is left, for the rounding of sums of squares and of a group's multiple
        let mu = if problem.group() > 1 || problem.prior_release.is_some() { 1.0 - 1e-9 } else { 1.0 };
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
            geometry,
        };
        // curvature of the regulariser at weights of equal sizes, in units of λ
        let curvature = geometry.map_or(1.0, |g| (facts.objective.weights() as f64).powf(2.0 / g.p - 1.0));
        let risk = RiskModel::of(problem).shrunk(facts.counted_row_norm(problem.nonzeros) / problem.row_norm);
        let predicted = |lambda: f64| {
            let scale = lambda * (all.mu / facts.difference_lipschitz()).powi(2);
            risk.gibbs(lambda * curvature, scale * RiskModel::pull(loss).powi(2))
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
        let mechanism = draw.ok_or_else(|| no_chain(geometry))?;
        let chain = ChainSchedule::of(&mechanism);
        let (scale, lambda, rounds, gradients) =
            (chain.inverse_temperature, chain.regularization, chain.rounds, gradients(&mechanism));
        let drawn = chain.total_variation * draws as f64;
        let event = mechanism.event().self_composed(draws).approximate(drawn);
        let norm = mechanism.chain().norm;
        let shown = geometry.zip(norm).map(|(geometry, norm)| GeometrySchedule {
            p: geometry.p,
            exponent: norm.exponent,
            coefficient: norm.coefficient,
            dual_row_norm: facts.dual_row_norm(),
        });
        let convexity = norm.map_or(1.0, |norm| norm.convexity);
        let schedule = GibbsSchedule { loss, draws, draw_mu: facts.mu, chain, geometry: shown, mechanism };
        let certificate = certify(&event, problem, budget)?;
        let assumptions = rests_on(schedule.geometry.as_ref());
        let warnings = self.warnings(schedule.geometry.is_some());
        Ok(Plan {
            summary: Summary {
                method: Self::NAME,
                loss,
                noise_multiplier: problem.relation().sum_sensitivity() / all.mu,
                steps: draws * rounds,
                gradients: draws as f64 * gradients,
                weight_noise: Some((draws as f64 * scale * lambda * convexity).sqrt().recip()),
                predicted_excess_risk: predicted(lambda),
                certificate,
                assumptions,
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
