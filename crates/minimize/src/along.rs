//! Certified plans for user-defined methods: noisy sums of clipped gradients, as plain descent has them.

use super::kind::Method;
use super::plan::{Asked, MinimizePlan, plan};
use super::problem::MinimizeProblem;
use super::schedule::{Averaged, Rule};
use super::walk::{self, Walk};
use dpopt_optimize::choices::Domain;
use dpopt_optimize::plan::NotApplicable;
use dpopt_privacy::Budget;
use std::sync::Arc;

/// Numbers of all gradients together (steps times dimension) up to which a walk is tried while it is planned.
const TRIED: u64 = 1 << 20;

/// What a user-defined method may set for its sums of gradients; the rest follows from the problem.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sums {
    /// How many steps: each asks for one mean gradient.
    pub steps: Option<u64>,
    /// How often each record is read, on average [default: 20].
    pub passes: Option<f64>,
    /// Probability with which a record is in a step's Poisson batch; 1: all records in each step.
    pub sampling_probability: Option<f64>,
    /// Bound on the l2 norm of one record's gradient; larger ones are shortened to it.
    pub clip_norm: Option<f64>,
    /// Where x may lie, around the start.
    pub domain: Domain,
}

impl MinimizePlan {
    /// A certified plan for `walk`, a method called `name`: noisy sums of clipped gradients over all records or over Poisson batches, with the noise that `budget`
    /// allows. Lengths and batches that the user did not give are those that the bound of plain descent prefers, and that bound is the prediction until the method
    /// writes another one. A walk of up to a million numbers (gradients times their length) is taken along made-up gradients here, so that one which asks too
    /// often or ends nowhere is refused before anything is charged; a longer one is refused when it does so.
    ///
    /// # Errors
    /// If the budget or what is asked for does not allow it, or the walk fails on made-up gradients.
    pub fn along(
        name: &'static str,
        problem: &MinimizeProblem,
        budget: Budget,
        sums: Sums,
        walk: impl Walk + 'static,
    ) -> Result<Self, NotApplicable> {
        let Sums { steps, passes, sampling_probability, clip_norm, domain } = sums;
        let asked = Asked { steps, passes, sampling_probability, clip_norm, domain, ..Asked::default() };
        let mut planned = plan(Method::Sgd, problem, budget, asked)?;
        planned.method = name;
        planned.schedule.rule = Rule::Own;
        // of whatever it answers
        planned.schedule.average = Averaged::Last;
        planned.schedule.own = walk.numbers();
        if planned.schedule.steps.saturating_mul(problem.dimension as u64) <= TRIED {
            walk::rehearse(&walk, &planned.schedule, problem).map_err(|why| {
                NotApplicable::Problem(format!("its optimizer fails on synthetic gradients: {why}").into())
            })?;
        }
        planned.walk = Some(Arc::new(walk));
        Ok(planned)
    }
}
