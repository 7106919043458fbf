//! The calculator.

use crate::{refuse, succeed};
use serde_json::Value;
use std::path::Path;

fn ask(arguments: &[&str]) -> Value {
    let mut all = vec!["account"];
    all.extend(arguments);
    all.push("--json");
    serde_json::from_str(&succeed(Path::new("."), &all)).unwrap()
}

fn best(arguments: &[&str]) -> f64 {
    ask(arguments)["best"]["upper"].as_f64().unwrap()
}

#[test]
fn the_gaussian_mechanism_costs_what_it_costs() {
    // Balle and Wang 2018: sigma 3.730632 is epsilon 1 at delta 1e-5
    let epsilon = best(&["gaussian(3.730632)", "--delta", "1e-5"]);
    assert!((epsilon - 1.0).abs() < 1e-5, "{epsilon}");
    let delta = best(&["gaussian(3.730632)", "--epsilon", "1"]);
    assert!((delta / 1e-5 - 1.0).abs() < 1e-4, "{delta}");
    // under replace-one the noise is worth half
    let half = best(&["gaussian(7.461264)", "--delta", "1e-5", "--relation", "replace-one"]);
    assert!((half - epsilon).abs() < 1e-5, "{half}");
}

#[test]
fn several_mechanisms_compose_however_they_are_written() {
    let together = best(&["gaussian(2) x 3 + gaussian(4)", "--delta", "1e-6"]);
    let apart = best(&["gaussian(2) x 3", "--mechanism", "gaussian(4)", "--delta", "1e-6"]);
    // 3/4 + 1/16 = 13/16 = 1/(1.109400392...)^2
    let one = best(&["gaussian(1.1094003924504583)", "--delta", "1e-6"]);
    assert!((together - apart).abs() < 1e-12 && (together - one).abs() < 1e-9, "{together} {apart} {one}");
}

#[test]
fn the_noise_of_a_budget_is_found_and_meets_it() {
    let found = ask(&["poisson(0.01, gaussian(?)) x 1000", "--find", "noise", "--epsilon", "1", "--delta", "1e-5"]);
    assert_eq!(found["within_budget"], true);
    let noise = found["found"].as_f64().unwrap();
    assert!((0.5..5.0).contains(&noise), "{noise}");
    let less = format!("poisson(0.01, gaussian({})) x 1000", noise * 0.98);
    assert!(best(&[&less, "--delta", "1e-5"]) > 1.0);
}

#[test]
fn an_accountant_that_has_no_bound_says_why() {
    let out = succeed(Path::new("."), &["account", "poisson(0.01, gaussian(1)) x 100", "--delta", "1e-6"]);
    assert!(out.contains("not supported: ") && out.contains("tightest"), "{out}");
}

#[test]
fn events_of_dp_accounting_are_read() {
    let d = tempfile::tempdir().unwrap();
    let event = r#"{"module_name": "dp_accounting.dp_event", "class_name": "SelfComposedDpEvent", "count": 4, "event":
        {"module_name": "dp_accounting.dp_event", "class_name": "GaussianDpEvent", "noise_multiplier": 2.0}}"#;
    std::fs::write(d.path().join("e.json"), event).unwrap();
    let file = d.path().join("e.json").display().to_string();
    let from_file = best(&["--event", &file, "--delta", "1e-6"]);
    assert!((from_file - best(&["gaussian(1)", "--delta", "1e-6"])).abs() < 1e-9);
}

#[test]
fn wrong_questions_get_one_line() {
    for (arguments, part) in [
        (&["gaussian(1)"][..], "--delta 1e-6"),
        (&["--delta", "1e-6"], "give a mechanism"),
        (&["gausian(1)", "--delta", "1e-6"], "is not a mechanism"),
        (&["gaussian(0)", "--delta", "1e-6"], "positive"),
        (&["gaussian(1)", "--delta", "1"], "[0, 1)"),
        (&["gaussian(1)", "--delta", "-1"], "[0, 1)"),
        (&["gaussian(1)", "--epsilon", "0", "--delta", "0.1"], "positive"),
        (&["gaussian(?)", "--delta", "1e-6"], "--epsilon and --delta"),
        (&["gaussian(1)", "--find", "noise", "--delta", "1e-6", "--epsilon", "1"], "`?`"),
        (&["--event", "/nonexistent", "--delta", "1e-6"], "cannot read"),
        (&["gaussian(1)", "--delta", "1e-6", "--epsilon", "0.1"], "more than the budget"),
    ] {
        let mut all = vec!["account"];
        all.extend(arguments);
        let line = refuse(Path::new("."), &all);
        assert!(line.contains(part), "{line}");
    }
}
