//! Spider, all of whose releases are Gaussians of known cost in an order that depends on what was released (docs/proofs/spider.md).

use super::LibraryAudit;
use super::releases::TIGHT_RUNS;
use crate::worst_cases::spider::{evidence, plan};
use dpopt_audit::draws::Draws;
use dpopt_privacy::Relation;

const DELTA: f64 = 1e-5;

/// Two gradients and three changes in the walk, whose drift is at times enough for the second gradient; it comes after the walk then.
fn audit(name: &'static str, pair: &'static str, relation: Relation, absent: f64) -> LibraryAudit {
    let plan = plan(relation, (4.377, DELTA), (2, 3), (0.005, 0.25));
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

pub(super) fn audits() -> Vec<LibraryAudit> {
    vec![
        audit(
            "spider, both stages",
            "record beyond every clip or none, gradients and changes in the order that the drift asks for; all releases, each over its variance",
            Relation::ZeroOut,
            0.0,
        ),
        audit(
            "spider, replace-one",
            "record beyond every clip one way or the other; all releases of both stages, each over its variance",
            Relation::ReplaceOne,
            -1.0,
        )
        .with_runs(16),
    ]
}
