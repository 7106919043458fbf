//! Faults of private Frank–Wolfe (Talwar, Thakurta, Zhang 2015; docs/proofs/frank-wolfe.md).

use super::Source::{Altered, Shipped};
use super::{Code, DELTA, InjectedFault};
use crate::library::vertices;
use crate::worst_cases::indicator;
use crate::worst_cases::methods::{Subject, problem};
use crate::worst_cases::sums::canaries;
use dpopt_audit::statistics::Claim;
use dpopt_mechanism::Sensitive;
use dpopt_objective::loss::Loss;
use dpopt_objective::records::{Examples, Rows};
use dpopt_optimize::plan::Problem;
use dpopt_privacy::{Neighbours, Relation};

/// Two records of label −1 and one of label `first`, all of the same row.
fn against_two(first: f32) -> Sensitive<Examples> {
    let mut rows = Rows::new(1);
    (0..3).for_each(|_| rows.push_clipped(&mut [(0, 1.0)], 1.0));
    Sensitive::new(Examples { rows, targets: vec![first, -1.0, -1.0] })
}

pub(super) fn bugs() -> Vec<InjectedFault> {
    let d = 1000;
    let wide = Subject::new(
        vertices(1),
        problem(4, d, Loss::Absolute),
        (1.0, DELTA),
        [canaries(4, d, &[0.0]), canaries(4, d, &[1.0])],
    );
    let wide_claim =
        wide.event().and_then(|event| Claim::reported(&event, Relation::ZeroOut, DELTA).map_err(|e| e.to_string()));
    let under = |relation| {
        let public = Problem { neighbours: Neighbours::of_records(relation), ..problem(3, 1, Loss::Absolute) };
        Subject::new(vertices(1), public, (1.0, DELTA), [-1.0, 1.0].map(against_two))
    };
    let (correct, injected) = (under(Relation::ReplaceOne), under(Relation::ZeroOut));
    let claim = correct
        .event()
        .and_then(|event| Claim::reported(&event, Relation::ReplaceOne, DELTA).map_err(|e| e.to_string()));
    vec![
        InjectedFault::counting(
            (
                "20.vertex-replaced",
                Shipped,
                "Frank-Wolfe under replace-one with scores that may move by C, not 2C",
                "record +C or -C against two of -C, one step; its sign",
            ),
            claim,
            (700, 20_000),
            move |code, with, draws| {
                code.pick(&correct, &injected).run(with, draws, |_, _, view| indicator(view.weights[0] > 0.0))
            },
        ),
        InjectedFault::counting(
            (
                "20.vertex-touched",
                Altered,
                "Frank-Wolfe chooses among the features that some record has (d = 1000)",
                "whether the canary's feature is chosen",
            ),
            wide_claim,
            (60, 20_000),
            move |code, with, draws| match code {
                Code::Correct => wide.run(with, draws, |_, _, view| indicator(view.weights[0] != 0.0)),
                // with nothing touched nothing is chosen
                Code::Injected => indicator(with),
            },
        ),
    ]
}
