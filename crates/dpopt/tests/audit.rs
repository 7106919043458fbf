//! The audits of every commit: planted bugs are caught, correct code is not (spec 20 §1.5). False alarm below 1e-4 in all.

use dpopt::audit::catalogue::{Tier, run};
use dpopt::progress::Silent;

#[test]
fn the_short_tier_catches_every_planted_bug_and_passes_the_correct_code() {
    let summary = run(Tier::Short, 1, &Silent);
    for o in &summary.outcomes {
        assert!(!o.violation, "correct code rejected: {o:?}");
    }
    let missed: Vec<_> = summary.outcomes.iter().filter(|o| !o.caught).collect();
    assert!(missed.is_empty(), "missed: {missed:#?}");
}
