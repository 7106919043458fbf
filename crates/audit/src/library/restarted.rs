//! Running sums that begin anew, all of them seen.

use super::LibraryAudit;
use crate::worst_cases::restarted::{matched, plan, run};
use dpopt_mechanism::Interactive;
use dpopt_privacy::Relation;

pub(super) fn audits() -> Vec<LibraryAudit> {
    let row = |name, relation: Relation, place: u64| {
        let sums = plan(8, 16, 2.0, relation);
        let without = if relation == Relation::ReplaceOne { -1.0 } else { 0.0 };
        LibraryAudit::new(
            name,
            "canary in the first leaf of the second of two trees of 8; the nodes that hold it",
            Ok(sums.event()),
            (1e-5, 100_000),
            move |with, draws| {
                let seen = run(&sums, place, if with { 1.0 } else { without }, draws);
                if seen.len() == 16 { matched(&seen[8..], |_| 1.0) } else { f64::NAN }
            },
        )
        .under(relation)
        .gaussian()
        .costly()
    };
    vec![
        row("running sums that begin anew", Relation::ZeroOut, 8),
        row("running sums that begin anew, replace-one", Relation::ReplaceOne, 8),
    ]
}
