//! Peeling: which features were picked, seen in the answer, and the fit.
//!
//! The record raises the scores of some features and lowers those of as many others.

use super::methods::{BUDGET, row};
use super::releases::TIGHT_RUNS;
use super::{LibraryAudit, Reach};
use crate::worst_cases::indicator;
use crate::worst_cases::methods::{Subject, problem};
use crate::worst_cases::peeling::{swapped, unseen};
use dpopt_linear::{Peeling, SparseOptions, choose};
use dpopt_mechanism::PeelingLaw;
use dpopt_objective::loss::Loss;
use dpopt_optimize::plan::Problem;
use dpopt_privacy::{Neighbours, Relation};

/// k features of d, almost all of the budget for the picks; the fit has two steps.
fn peeling(law: PeelingLaw, k: u64) -> Peeling {
    let sparse = SparseOptions {
        max_features: Some(k),
        steps: Some(2),
        refit_share: Some(0.05),
        clip_norm: Some(1.0),
        ..SparseOptions::default()
    };
    Peeling { law: Some(law), sparse, fit: Some(choose) }
}

/// How many of the first k features have a weight.
fn first(weights: &[f64], k: usize) -> f64 {
    weights[..k].iter().map(|w| indicator(*w != 0.0)).sum()
}

pub(super) fn audits() -> Vec<LibraryAudit> {
    let bound = (BUDGET.1, TIGHT_RUNS);
    let subject = |law, k: u32, relation| {
        let public =
            Problem { neighbours: Neighbours::of_records(relation), ..problem(4, 2 * k as usize, Loss::Absolute) };
        Subject::new(peeling(law, u64::from(k)), public, BUDGET, swapped(k))
    };
    let one = subject(PeelingLaw::Gumbel, 1, Relation::ZeroOut);
    // odds of the raised feature: from e^(−ε₀/2) to e^(ε₀/2)
    let reach = one.schedule().map_or(Reach::Unknown, |s| Reach::Epsilon(0.5 * s.pick_epsilon));
    let lonely = Subject::new(peeling(PeelingLaw::Gumbel, 1), problem(4, 1000, Loss::Absolute), BUDGET, unseen(1000));
    vec![
        row(
            ("peeling, one pick", "record raises one score and lowers the other; whether the raised feature is picked"),
            one,
            bound,
            |_, _, view| first(view.weights, 1),
        )
        .counting(0.8)
        .reaching(reach)
        .costly(),
        row(
            (
                "peeling, Laplace, one pick",
                "record raises one score and lowers the other; whether the raised feature is picked",
            ),
            subject(PeelingLaw::Laplace, 1, Relation::ZeroOut),
            bound,
            |_, _, view| first(view.weights, 1),
        )
        .costly(),
        row(
            ("peeling, five picks", "record raises five scores and lowers five; how many raised features are picked"),
            subject(PeelingLaw::Gumbel, 5, Relation::ZeroOut),
            bound,
            |_, _, view| first(view.weights, 5),
        )
        .costly(),
        row(
            (
                "peeling, Laplace, five picks",
                "record raises five scores and lowers five; how many raised features are picked",
            ),
            subject(PeelingLaw::Laplace, 5, Relation::ZeroOut),
            bound,
            |_, _, view| first(view.weights, 5),
        )
        .costly(),
        row(
            ("peeling, one of 1000 features", "canary in a feature that no other record has; whether it is picked"),
            lonely,
            bound,
            |_, _, view| first(view.weights, 1),
        )
        .costly(),
    ]
}
