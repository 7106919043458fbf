//! Running sums that begin anew, all of them seen.

use super::LibraryAudit;
use crate::worst_cases::restarted::{evidence, matched, one_pass, plan, run};
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
    let pass = one_pass("one-pass-spider", (4.377, 1e-5));
    let event = pass.as_ref().map(|plan| plan.certificate.event().clone()).map_err(Clone::clone);
    let method = LibraryAudit::new(
        "one-pass-spider",
        "record beyond every clip one way or the other, batches and restarts as the sums ask for; all sums, by the nodes that hold it",
        event,
        (1e-5, 40_000),
        move |with, draws| {
            let Ok(plan) = &pass else { return f64::NAN };
            evidence(plan, if with { 1.0 } else { -1.0 }, draws).unwrap_or(f64::NAN)
        },
    )
    .under(Relation::ReplaceOne)
    .costly();
    vec![
        row("running sums that begin anew", Relation::ZeroOut, 8),
        row("running sums that begin anew, replace-one", Relation::ReplaceOne, 8),
        method,
    ]
}
