//! Tests of `dpopt account`, the privacy calculator.

use crate::{dpopt, refuse, succeed};
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

/// Whatever is marked is found, meets the budget, and one notch more does not.
#[test]
fn any_one_free_number_is_found_and_verified() {
    let budget = ["--epsilon", "1", "--delta", "1e-6"];
    for (text, flag, low, high, more) in [
        ("poisson(0.01, gaussian(1.5627)) x ?", "steps", 1000.0, 1004.0, 1.002),
        ("poisson(?, gaussian(1.5627)) x 1000", "sampling-rate", 0.00999, 0.01001, 1.001),
        ("poisson(0.01, gaussian(?)) x 1000", "noise", 1.5626, 1.5627, 0.999),
        ("permute_and_flip(?) x 20", "cost", 0.05, 0.2, 1.001),
        ("subset(1000, ?, gaussian(8)) x 50", "sample-size", 10.0, 999.0, 0.0),
    ] {
        let mut arguments = vec![text];
        arguments.extend(budget);
        let found = ask(&arguments);
        assert_eq!(found["within_budget"], true, "{text}");
        assert_eq!(found["found_is"], flag);
        let value = found["found"].as_f64().unwrap();
        assert!((low..high).contains(&value), "{text}: {value}");
        arguments.extend(["--find", flag]);
        assert_eq!(ask(&arguments)["found"], found["found"]);
        let next = if more == 0.0 { value + 1.0 } else { value * more };
        let next = if flag == "steps" { next.ceil() } else { next };
        assert!(best(&[&text.replace('?', &next.to_string()), "--delta", "1e-6"]) > 1.0, "{text}");
    }
    let shown = succeed(Path::new("."), &["account", "gaussian(2) x ?", "--epsilon", "20", "--delta", "1e-6"]);
    assert!(shown.contains("(steps)") && shown.contains("within the budget"), "{shown}");
}

#[test]
fn every_mechanism_of_the_language_is_accounted() {
    for text in [
        "discrete_gaussian(4, 1, 1) x 3",
        "discrete_gaussian(4, 2)",
        "permute_and_flip(0.1) x 9",
        "epsilon_delta(0.1, 1e-9) x 3",
        "randomized_response(0.5, 4)",
        "mixture(2, 0: 0.9, 1: 0.1) x 10",
        "chi_square(100, 0.1) x 4",
        "tree(8, 1000)",
        "gdp(0.1) + zcdp(0.01) + rdp(2: 0.01, 8: 0.05, 64: 0.5) + profile(0.1: 1e-8)",
        "truncated_poisson(1000, 0.1, 130, 2) x 5",
        "random_allocation(20, gaussian(2)) x 5",
        "draws(1000, 10, gaussian(4))",
        "best_of(5, 1, gaussian(8))",
        "parallel(gaussian(4), laplace(9))",
        "users(3, poisson(0.01, gaussian(4)))",
        "pure(0.1) + approx(0.1, 1e-9) + nothing()",
    ] {
        let epsilon = best(&[text, "--delta", "1e-6"]);
        assert!(epsilon > 0.0 && epsilon < 20.0, "{text}: {epsilon}");
    }
}

#[test]
fn the_help_lists_every_mechanism() {
    let help = succeed(Path::new("."), &["account", "--help"]);
    for mechanism in dpopt_privacy::expression::mechanisms() {
        assert!(help.contains(&format!("\n  {} ", mechanism.written)), "{}:\n{help}", mechanism.written);
    }
}

#[test]
fn an_accountant_that_has_no_bound_says_why() {
    let out = succeed(Path::new("."), &["account", "poisson(0.01, gaussian(1)) x 100", "--delta", "1e-6"]);
    assert!(out.contains("not supported: ") && out.contains("tightest"), "{out}");
    // numbers stand before reasons, and no reason advises an accountant of the same table
    assert!(out.find("\npld ").unwrap() < out.find("\ngdp ").unwrap() && !out.contains("use the"), "{out}");
    assert!(
        out.contains("\nzcdp        not supported: no finite ρ bounds Poisson(0.01, Gaussian(1)) at every order"),
        "{out}"
    );
}

#[test]
fn the_answer_comes_first() {
    let first = |arguments: &[&str]| {
        let output = dpopt(Path::new("."), &[&["account"], arguments].concat());
        let out = String::from_utf8(output.stdout).unwrap();
        (out.lines().next().unwrap_or_default().to_owned(), out)
    };
    let (line, out) = first(&["gaussian(1)", "--delta", "1e-5"]);
    assert_eq!(line, "answer      epsilon 4.37718 at delta 1e-5 (gdp)", "{out}");
    assert!(out.lines().nth(1).is_some_and(|line| line == "mechanism   Gaussian(1)"), "{out}");
    let (line, out) = first(&["gaussian(1)", "--epsilon", "1"]);
    assert!(line.starts_with("answer      delta 0.12") && line.contains(" at epsilon 1 ("), "{out}");
    let (line, out) = first(&["gaussian(4)", "--epsilon", "1", "--delta", "1e-5"]);
    assert!(line.ends_with(" at delta 1e-5 (gdp), within the budget"), "{out}");
    let (line, out) = first(&["gaussian(1)", "--epsilon", "1", "--delta", "1e-5"]);
    assert_eq!(line, "answer      epsilon 4.37718 at delta 1e-5 (gdp), NOT within the budget", "{out}");
    let (line, out) = first(&["gaussian(?)", "--epsilon", "1", "--delta", "1e-5"]);
    assert!(line.starts_with("found       ? = 3.73063") && line.ends_with(" (noise)"), "{out}");
}

/// Whoever is over the budget is given the command that finds the noise, which works.
#[test]
fn too_little_noise_is_answered_by_the_search_for_enough() {
    let over = |arguments: &[&str]| refuse(Path::new("."), &[&["account"], arguments].concat());
    let budget = ["--epsilon", "1", "--delta", "1e-5"];
    for (text, marked) in [
        ("gaussian(1)", "gaussian(?)"),
        ("poisson(0.01, gaussian(noise_multiplier=4e-1)) x 1000", "poisson(0.01, gaussian(noise_multiplier=?)) x 1000"),
        ("pure(0.5) + laplace(1.5)", "pure(0.5) + laplace(?)"),
    ] {
        let line = over(&[&[text], &budget[..]].concat());
        let wanted = format!("the least noise that fits: dpopt account '{marked}' --epsilon 1 --delta 1e-5");
        assert!(line.contains("more than the budget's 1; ") && line.ends_with(&wanted), "{line}");
        assert_eq!(ask(&[&[marked], &budget[..]].concat())["within_budget"], true);
    }
    let line = over(&["gaussian(1)", "--epsilon", "1", "--delta", "1e-5", "--relation", "replace-one"]);
    assert!(line.ends_with("--relation replace-one"), "{line}");
    // no noise to find, or several
    for text in ["pure(2)", "gaussian(1) + laplace(1)"] {
        let line = over(&[&[text], &budget[..]].concat());
        assert!(line.ends_with("add noise, or raise --epsilon or --delta"), "{line}");
    }
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
        (&["gaussian(1)"][..], "give --delta 1e-6 to get ε, --epsilon 1 to get δ, or both to check a budget"),
        (&["gaussian(1)"], "; for example: dpopt account 'gaussian(1)' --delta 1e-6"),
        (&["gaussian(?)"], "for example: dpopt account 'gaussian(?)' --epsilon 1 --delta 1e-6"),
        (&["gausian(1)"], "`gausian` is not a mechanism, did you mean `gaussian`?; dpopt account --help lists all"),
        (&["qqq(1)", "--delta", "1e-6"], "`qqq` is not a mechanism; dpopt account --help lists all"),
        (
            &["laplace", "1", "--delta", "1e-6"],
            "error: `laplace` needs its parameter in brackets: 'laplace(b)', for example 'laplace(1)'",
        ),
        (
            &["gaussian()", "--delta", "1e-6"],
            "error: `gaussian` needs its parameter in brackets: 'gaussian(z)', for example 'gaussian(1)'",
        ),
        (&["poisson()", "--delta", "1e-6"], "'poisson(q, M)'"),
        (&["--delta", "1e-6"], "give a mechanism"),
        (&["gausian(1)", "--delta", "1e-6"], "is not a mechanism"),
        (&["gaussian(0)", "--delta", "1e-6"], "positive"),
        (&["gaussian(1)", "--delta", "1.5"], "[0, 1)"),
        (&["gaussian(1)", "--delta", "-1"], "[0, 1)"),
        (&["gaussian(1)", "--epsilon", "0", "--delta", "0.1"], "positive"),
        (&["gaussian(?)", "--delta", "1e-6"], "--epsilon and --delta"),
        (&["gaussian(1)", "--find", "noise", "--delta", "1e-6", "--epsilon", "1"], "`?`"),
        (&["gaussian(?) x ?", "--delta", "1e-6", "--epsilon", "1"], "one `?` is a noise and another a number of steps"),
        (&["gaussian(?)", "--find", "steps", "--delta", "1e-6", "--epsilon", "1"], "the `?` is a noise"),
        (&["gaussian(0.1) x ?", "--delta", "1e-6", "--epsilon", "1"], "not even one step"),
        (&["non_private() + gaussian(?)", "--delta", "1e-6", "--epsilon", "1"], "without noise"),
        (&["pure(2) + gaussian(?)", "--delta", "1e-6", "--epsilon", "1"], "not even noise"),
        (&["randomized_response(?, 2)", "--delta", "1e-6", "--epsilon", "1"], "cannot be searched for"),
        (&["--event", "/nonexistent", "--delta", "1e-6"], "cannot read"),
        (&["gaussian(1)", "--delta", "1e-6", "--epsilon", "0.1"], "more than the budget"),
    ] {
        let mut all = vec!["account"];
        all.extend(arguments);
        let line = refuse(Path::new("."), &all);
        assert!(line.contains(part), "{line}");
    }
}

#[test]
fn ends_of_the_scale_are_numbers() {
    let refused =
        refuse(Path::new("."), &["account", "gaussian(1) + non_private()", "--delta", "1e-6", "--epsilon", "5"]);
    assert!(refused.contains("more than the budget"), "{refused}");
    assert_eq!(ask(&["non_private()", "--delta", "1e-6"])["best"]["upper"], "inf");
    assert_eq!(best(&["non_private()", "--epsilon", "3"]), 1.0);
    assert_eq!(best(&["poisson(0.1, gaussian(1)) x 10", "--delta", "1"]), 0.0);
    assert_eq!(best(&["subset(10, 0, laplace(1))", "--delta", "0"]), 0.0);
}

#[test]
fn a_search_for_steps_says_that_it_ended() {
    let arguments = ["account", "gaussian(1e9) x ?", "--find", "steps", "--epsilon", "1", "--delta", "1e-6"];
    let shown = succeed(Path::new("."), &arguments);
    assert!(shown.contains("the search ends at 1000000000"), "{shown}");
    assert_eq!(ask(&arguments[1..])["search_ended"], true);
    let fewer = ask(&["gaussian(100) x ?", "--find", "steps", "--epsilon", "1", "--delta", "1e-6"]);
    assert!(fewer.get("search_ended").is_none(), "{fewer}");
}
