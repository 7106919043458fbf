//! The online-to-nonconvex conversion, all of whose releases are Gaussians of known cost in a fixed order (docs/proofs/o2nc.md).

use super::LibraryAudit;
use super::releases::TIGHT_RUNS;
use crate::worst_cases::o2nc::{evidence, plan};
use crate::worst_cases::restarted;
use dpopt_audit::draws::Draws;
use dpopt_privacy::Relation;

const DELTA: f64 = 1e-5;

/// Two gradients and three changes.
fn audit(name: &'static str, pair: &'static str, relation: Relation, absent: f64) -> LibraryAudit {
    let plan = plan(relation, (4.377, DELTA), 5, 3);
    let event = plan.as_ref().map(|plan| plan.certificate.event().clone()).map_err(Clone::clone);
    let opened = event.clone();
    LibraryAudit::new(name, pair, event, (DELTA, TIGHT_RUNS), move |with, draws: &mut Draws| {
        let (Ok(plan), Ok(opened)) = (&plan, &opened) else { return f64::NAN };
        evidence(plan, relation, opened, if with { 1.0 } else { absent }, draws).unwrap_or(f64::NAN)
    })
    .under(relation)
    .gaussian()
    .costly()
}

/// Records that are read once, in sums that begin anew.
fn once() -> LibraryAudit {
    let plan = restarted::one_pass("one-pass-o2nc", (4.377, DELTA));
    let event = plan.as_ref().map(|plan| plan.certificate.event().clone()).map_err(Clone::clone);
    LibraryAudit::new(
        "one-pass-o2nc",
        "record beyond every clip one way or the other, batches as the sums ask for; all sums, by the nodes that hold it",
        event,
        (DELTA, 40_000),
        move |with, draws| {
            let Ok(plan) = &plan else { return f64::NAN };
            restarted::evidence(plan, if with { 1.0 } else { -1.0 }, draws).unwrap_or(f64::NAN)
        },
    )
    .under(Relation::ReplaceOne)
    .costly()
}

pub(super) fn audits() -> Vec<LibraryAudit> {
    vec![
        once(),
        audit(
            "o2nc",
            "record beyond every clip or none, two gradients and three changes; all releases, each over its variance",
            Relation::ZeroOut,
            0.0,
        ),
        audit(
            "o2nc, replace-one",
            "record beyond every clip one way or the other, two gradients and three changes; all releases, each over its variance",
            Relation::ReplaceOne,
            -1.0,
        ),
    ]
}
