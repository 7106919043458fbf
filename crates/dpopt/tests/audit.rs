//! The audits of every commit: planted bugs are caught, correct code is not (spec 20 §1.5). False alarm below 2e-4 in all.

use dpopt::audit::Tier;
use dpopt::audit::catalogue;
use dpopt::audit::library;
use dpopt::progress::Silent;

#[test]
fn every_planted_bug_is_caught_and_its_correct_twin_passes() {
    let summary = catalogue::run(Tier::Short, 1, &Silent);
    for o in &summary.outcomes {
        assert!(!o.violation, "correct code rejected: {o:?}");
    }
    let missed: Vec<_> = summary.outcomes.iter().filter(|o| !o.caught).collect();
    assert!(missed.is_empty(), "missed: {missed:#?}");
}

#[test]
fn no_claim_of_the_library_is_refuted() {
    for o in library::run(Tier::Short, 1, &Silent) {
        println!("{:52} claimed {:.3} proved {:.3} model {:?} share {:.2}", o.name, o.claimed, o.lower_bound, o.gaussian_model, o.share());
        assert!(o.failure.is_none(), "{o:?}");
        assert!(!o.violation, "{o:?}");
    }
}

#[test]
fn the_documentation_lists_every_row() {
    let page = include_str!("../../../docs/audit.md");
    for bug in catalogue::all() {
        assert!(page.contains(&format!("| {} | {} |", bug.number, bug.source.name())), "{} is not in docs/audit.md", bug.number);
    }
    for row in library::all() {
        assert!(page.contains(&format!("| {} | {} |", row.name, row.pair)), "{} is not in docs/audit.md", row.name);
    }
}
