//! Private Frank–Wolfe: the chosen vertices are all that is released.
//!
//! In one dimension a step shows a sign. Opposite records push its odds to where one more record moves them by nearly all of ε₀.

use super::methods::{BUDGET, row};
use super::releases::TIGHT_RUNS;
use super::{LibraryAudit, Reach};
use crate::worst_cases::indicator;
use crate::worst_cases::methods::{Subject, crowd, problem};
use crate::worst_cases::sums::canaries;
use dpopt_linear::FrankWolfe;
use dpopt_objective::loss::Loss;
use dpopt_optimize::plan::Problem;
use dpopt_privacy::{Neighbours, Relation};

/// Steps of the rows that see all of them.
const STEPS: u64 = 4;

/// A radius so small that no slope of the absolute loss turns.
pub(crate) fn vertices(steps: u64) -> FrankWolfe {
    FrankWolfe { l1_norm: Some(1e-3), steps: Some(steps), clip_norm: Some(1.0), ..FrankWolfe::default() }
}

/// How often +1 was chosen.
fn positive(seen: &[Vec<f64>]) -> f64 {
    seen.iter().map(|vertex| indicator(vertex[0] > 0.0)).sum()
}

/// ε of "+1 in all steps", with the canary against `others` opposite records and without it.
fn all_positive(others: f64, step_epsilon: f64) -> f64 {
    let ln_chance = |ahead: f64| -(-step_epsilon * ahead).exp().ln_1p();
    STEPS as f64 * (ln_chance(1.0 - others) - ln_chance(-others))
}

pub(super) fn audits() -> Vec<LibraryAudit> {
    let bound = (BUDGET.1, TIGHT_RUNS);
    let subject = Subject::new(vertices(STEPS), problem(3, 1, Loss::Absolute), BUDGET, crowd(3, 1.0));
    let reach = subject.schedule().map_or(Reach::Unknown, |s| Reach::Epsilon(all_positive(2.0, s.step_epsilon)));
    let replaced =
        Problem { neighbours: Neighbours::of_records(Relation::ReplaceOne), ..problem(3, 1, Loss::Absolute) };
    vec![
        row(
            (
                "frank-wolfe, all vertices seen",
                "canary against two opposite records, one feature, 4 steps; how often its sign is chosen",
            ),
            subject,
            bound,
            |_, _, view| positive(view.seen),
        )
        .counting(0.5)
        .reaching(reach)
        .costly(),
        row(
            ("frank-wolfe, replace-one", "record +C or -C, one feature, 4 steps; how often its sign is chosen"),
            Subject::new(vertices(STEPS), replaced, BUDGET, [-1.0, 1.0].map(|t| canaries(3, 1, &[t]))),
            bound,
            |_, _, view| positive(view.seen),
        )
        .under(Relation::ReplaceOne)
        .costly(),
        row(
            (
                "frank-wolfe, one of 1000 features",
                "canary in a feature that no other record has, 4 steps; how often it is chosen",
            ),
            Subject::new(
                vertices(STEPS),
                problem(3, 1000, Loss::Absolute),
                BUDGET,
                [canaries(3, 1000, &[0.0]), canaries(3, 1000, &[1.0])],
            ),
            bound,
            |_, _, view| indicator(view.weights[0] > 0.0),
        )
        .costly(),
    ]
}
