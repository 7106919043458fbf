//! Which pairs of columns have products, and how much of the norm: found by a first model with those of all pairs, in one event with the model
//! (docs/decisions/0016).

use super::error::FitError;
use dpopt_data::Encoder;
use dpopt_linear::choose;
use dpopt_mechanism::progress::Progress;
use dpopt_mechanism::{Curator, Sensitive};
use dpopt_objective::records::Examples;
use dpopt_optimize::plan::{Assumption, NotApplicable, PriorRelease, Problem};
use dpopt_optimize::{MethodOptions, Prepared, Run};
use dpopt_privacy::{Budget, Relation, special};

/// Share of the squared privacy parameter μ that the first model takes, the histograms before it among it.
const SHARE: f64 = 0.3;

/// A first model that was planned.
pub(super) struct PairChoice {
    problem: Problem,
    plan: Box<dyn Prepared>,
}

/// What the first model may cost of `budget`.
fn mu(budget: Budget) -> f64 {
    SHARE.sqrt() * special::gaussian_mu(budget.epsilon(), budget.delta())
}

/// A release that costs as much as a first model, for comparing forms before one is planned.
pub(super) fn as_costly(budget: Budget, relation: Relation) -> Option<PriorRelease> {
    (budget.delta() > 0.0).then(|| PriorRelease::gaussian(relation.sum_sensitivity() / mu(budget), 0, relation))
}

impl PairChoice {
    /// A model for `problem`, whose rows have products of all pairs, with its share of `budget`.
    pub(super) fn new(problem: Problem, budget: Budget, intercept: Option<u32>) -> Result<Self, NotApplicable> {
        if budget.delta() <= 0.0 {
            let why = "choosing pairs privately needs delta > 0; give a small delta, for example 1e-6, or name the \
                       pairs";
            return Err(NotApplicable::Problem(why.into()));
        }
        let epsilon = special::gaussian_epsilon(budget.delta(), mu(budget));
        let share =
            Budget::new(epsilon, budget.delta()).map_err(|why| NotApplicable::Problem(why.to_string().into()))?;
        let mut options = MethodOptions::default();
        options.intercept = intercept;
        let plan = choose(&problem, share, &options)?;
        Ok(Self { problem, plan })
    }

    /// What the model's own plan is certified together with: the histograms, if there are some, and the first model.
    pub(super) fn prior_release(&self) -> PriorRelease {
        PriorRelease::run(&self.plan.summary().certificate)
    }

    /// What the first model rests on.
    pub(super) fn assumptions(&self) -> &[Assumption] {
        &self.plan.summary().assumptions
    }

    /// Fits the first model to `examples`, the rows of `encoder`, and keeps the pairs of which its released weights say something.
    pub(super) fn weigh(
        &self,
        encoder: Encoder,
        examples: Examples,
        curator: &mut Curator,
        progress: &dyn Progress,
    ) -> Result<Encoder, FitError> {
        let examples = Sensitive::new(examples);
        let released = self.plan.run(Run::new(&self.problem, &examples, curator, progress)?)?;
        Ok(encoder.weigh_pairs(&released.into_inner().weights)?)
    }
}
