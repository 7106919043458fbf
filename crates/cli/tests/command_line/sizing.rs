//! `explain` with a goal: which ε, how many rows.

use crate::{dpopt, files, refuse, succeed};
use serde_json::Value;
use std::path::Path;

/// A table of which only the header can be read, and its bounds: a number, a category, two classes.
fn unreadable(directory: &Path) -> [&'static str; 6] {
    std::fs::write(directory.join("t.csv"), b"x,y\nPOISON\n\xff\xfe,,,,\n\"never closed").unwrap();
    std::fs::write(directory.join("b.toml"), "[x]\nlower = 0\nupper = 1\n[y]\nlevels = ['a', 'b']\n").unwrap();
    ["explain", "t.csv", "--target", "y", "--bounds", "b.toml"]
}

fn json(directory: &Path, arguments: &[&str]) -> Value {
    serde_json::from_str(&succeed(directory, &[arguments, &["--json"]].concat())).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// The excess risk that is predicted at ε by an explanation without a goal.
fn excess(directory: &Path, base: &[&str], epsilon: f64) -> f64 {
    let epsilon = epsilon.to_string();
    let plan = json(directory, &[base, &["--epsilon", &epsilon]].concat());
    let planned = plan["candidates"].as_array().unwrap().iter().find(|c| c["not_applicable"].is_null());
    number(&planned.unwrap()["predicted_excess_risk"])
}

#[test]
fn the_least_epsilon_is_found_without_a_row() {
    let d = tempfile::tempdir().unwrap();
    let base = [&unreadable(d.path())[..], &["--rows", "2000"]].concat();
    let goal = ["--accuracy", "0.84", "--best", "0.86"];
    let out = succeed(d.path(), &[&base[..], &goal].concat());
    assert!(out.starts_with("goal        accuracy 0.84 where what a model without privacy reaches is 0.86"), "{out}");
    assert!(out.contains("only the header was read") && !out.contains("POISON"), "{out}");
    let told = json(d.path(), &[&base[..], &goal].concat());
    let sizing = &told["sizing"];
    let least = number(&sizing["epsilon"]["value"]);
    assert!(out.contains(&format!("epsilon     {least} is the least that reaches it with 2,000 rows")), "{out}");
    // the plan beside it is of that ε, and so is that of an explanation that gives it
    assert_eq!(number(&told["epsilon"]), least);
    assert_eq!(number(&sizing["at"]["excess_risk"]), excess(d.path(), &base, least));
    assert!(number(&sizing["at"]["lost"]["middle"]) <= 2.0);
    // a little less does not reach it
    let less = (0.98 * least).to_string();
    let short = json(d.path(), &[&base[..], &goal, &["--epsilon", &less]].concat());
    assert!(number(&short["sizing"]["at"]["lost"]["middle"]) > 2.0, "{short}");
    assert!(number(&sizing["plans"]) <= 64.0);
    assert_eq!(files(d.path()), ["b.toml", "t.csv"]);
}

#[test]
fn the_least_number_of_rows_is_found() {
    let d = tempfile::tempdir().unwrap();
    let numbers = ["explain", "--features", "100", "--epsilon", "1", "--loss-points", "2"];
    let told = json(d.path(), &numbers);
    let rows = told["sizing"]["rows"]["value"].as_f64().unwrap() as u64;
    assert_eq!(told["problem"]["rows"].as_u64(), Some(rows));
    assert!(told["sizing"]["epsilon"].is_null() && told["sizing"]["given"]["rows"] == false);
    let base = ["explain", "--features", "100", "--loss-points", "2", "--epsilon", "1"];
    let lost = |rows: u64| {
        let told = json(d.path(), &[&base[..], &["--rows", &rows.to_string()]].concat());
        number(&told["sizing"]["at"]["lost"]["middle"])
    };
    assert!(lost(rows) <= 2.0 && lost(rows * 98 / 100) > 2.0, "{rows}");
    // a table has rows of its own, unless they are asked for
    let table = [&unreadable(d.path())[..], &["--loss-points", "2", "--epsilon", "1", "--rows", "?"]].concat();
    let out = succeed(d.path(), &table);
    assert!(out.contains("rows        ") && out.contains("is the least number that reaches it at epsilon 1"), "{out}");
    assert!(!out.contains("were counted"), "{out}");
}

#[test]
fn curves_fall_and_both_answers_are_given_where_both_are_known() {
    let d = tempfile::tempdir().unwrap();
    let told =
        json(d.path(), &["explain", "--features", "30", "--epsilon", "1", "--rows", "20000", "--loss-points", "2"]);
    let sizing = &told["sizing"];
    assert!(sizing["epsilon"]["value"].is_f64() && sizing["rows"]["value"].is_f64(), "{sizing}");
    for curve in ["over_epsilon", "over_rows"] {
        let points = sizing[curve].as_array().unwrap();
        assert!(points.len() >= 8, "{curve}");
        for ends in ["low", "middle", "high"] {
            let lost: Vec<f64> = points.iter().map(|point| number(&point["lost"][ends])).collect();
            assert!(lost.windows(2).all(|pair| pair[0] >= pair[1] - 1e-9), "{curve} {ends} {lost:?}");
        }
    }
}

#[test]
fn numbers_classes_and_units_have_goals() {
    let d = tempfile::tempdir().unwrap();
    std::fs::write(d.path().join("n.csv"), "x,y\n").unwrap();
    std::fs::write(d.path().join("n.toml"), "[x]\nlower = 0\nupper = 40\n[y]\nlower = 0\nupper = 1000\n").unwrap();
    let number_of = ["explain", "n.csv", "--target", "y", "--bounds", "n.toml", "--rows", "20000"];
    let out = succeed(d.path(), &[&number_of[..], &["--error", "105", "--best", "100"]].concat());
    assert!(out.contains("root-mean-square error 105 where") && out.contains("privacy may add 32.02"), "{out}");
    let out = succeed(d.path(), &[&number_of[..], &["--added-error", "40", "--epsilon", "1"]].concat());
    assert!(out.contains("in the unit of the target") && out.contains("\npredicted   an error of "), "{out}");
    let three = ["explain", "--features", "20", "--rows", "20000", "--class-count", "3", "--accuracy"];
    assert!(
        succeed(d.path(), &[&three[..], &["0.7", "--best", "0.75"]].concat()).contains("reaches it with 20,000 rows")
    );
    let guess = refuse(d.path(), &[&three[..], &["0.3", "--best", "0.75"]].concat());
    assert!(guess.contains("above 0.333 (a guess among 3 classes)"), "{guess}");
    succeed(d.path(), &["generate", "panel", "--units", "300", "--rows-per-unit", "3", "-o", "p.csv"]);
    let panel = ["explain", "p.csv", "--target", "outcome", "--bounds", "bounds.toml", "--unit", "person"];
    let told = json(d.path(), &[&panel[..], &["--loss-points", "1", "--epsilon", "1"]].concat());
    let units = number(&told["sizing"]["rows"]["value"]);
    let three_times = told["problem"]["rows"].as_f64().unwrap();
    assert_eq!(three_times, 300.0, "the plan is of the table's units");
    let more = json(d.path(), &[&panel[..], &["--loss-points", "1", "--epsilon", "1", "--rows", "?"]].concat());
    assert_eq!(number(&more["problem"]["rows"]), number(&more["sizing"]["rows"]["value"]));
    assert!(units > 300.0, "{units}");
}

#[test]
fn a_goal_out_of_reach_is_reported() {
    let d = tempfile::tempdir().unwrap();
    let few = ["explain", "--features", "50", "--rows", "60", "--accuracy", "0.855", "--best", "0.86"];
    let out = succeed(d.path(), &few);
    assert!(out.contains("epsilon     none up to 20 reaches it with 60 rows: accuracy "), "{out}");
    assert!(json(d.path(), &few)["sizing"]["epsilon"].is_null());
}

#[test]
fn what_makes_no_sense_is_refused() {
    let d = tempfile::tempdir().unwrap();
    let base = ["explain", "--features", "50", "--rows", "2000"];
    for (more, part) in [
        (&["--accuracy", "1.2", "--best", "0.9"][..], "--accuracy is 1.2; give a share above 0.5"),
        (&["--accuracy", "NaN", "--best", "0.9"], "--accuracy is NaN; give a share above 0.5"),
        (&["--accuracy", "-0.2", "--best", "0.9"], "--accuracy is -0.2; give a share above 0.5"),
        (
            &["--accuracy", "0.9", "--best", "0.86"],
            "above 0.86, what a model without privacy reaches (--best): no epsilon reaches it; lower --accuracy",
        ),
        (&["--accuracy", "0.8"], "--accuracy depends on the records, which no plan reads"),
        (&["--best", "0.8", "--epsilon", "1"], "--best belongs to a goal"),
        (
            &["--loss-points", "2", "--accuracy", "0.8"],
            "--accuracy and --loss-points are two goals; leave out --loss-points",
        ),
        (&["--error", "3", "--best", "2"], "--error is for numbers, and the target has classes"),
        (&["--loss-points", "0"], "--loss-points is 0; give points of accuracy between 0 and 50"),
        (&["--loss-points", "two"], "--loss-points is `two`; give a number"),
        (&["--epsilon", "1", "--plot", "a.svg"], "--plot draws what a goal needs"),
        (&["--loss-points", "2", "--plot", "a.png"], "the output is an SVG picture, not .png"),
        (&["--loss-points", "2", "--model", "embedding"], "was measured for linear models only; leave out --model"),
        (&["--loss-points", "2", "--epsilon", "-1"], "epsilon"),
        (&[], "--epsilon is missing"),
    ] {
        let told = refuse(d.path(), &[&base[..], more].concat());
        assert!(told.contains(part), "{more:?}: {told}");
    }
    let open = refuse(d.path(), &["explain", "--features", "50", "--loss-points", "2"]);
    assert!(open.contains("neither epsilon nor the number of rows is known; give --epsilon E, or --rows N"), "{open}");
    let sought = refuse(d.path(), &["explain", "--features", "50", "--epsilon", "1", "--rows", "?"]);
    assert!(sought.contains("--rows ? asks how many rows a goal needs"), "{sought}");
    let fit = [&["fit"], &unreadable(d.path())[1..], &["--epsilon", "1", "--rows", "?"]].concat();
    assert!(refuse(d.path(), &fit).contains("--rows ? asks how many rows a goal needs"));
    let over = [&unreadable(d.path())[..], &["--rows", "2000", "--loss-points", "2", "--plot", "b.toml"]].concat();
    assert_eq!(dpopt(d.path(), &over).status.code(), Some(2));
    assert_eq!(files(d.path()), ["b.toml", "t.csv"]);
}

#[test]
fn the_picture_is_drawn_once_the_answer_is_known() {
    let d = tempfile::tempdir().unwrap();
    let base = [&unreadable(d.path())[..], &["--rows", "9000", "--accuracy", "0.8", "--best", "0.86"]].concat();
    succeed(d.path(), &[&base[..], &["--plot", "p.svg"]].concat());
    let svg = std::fs::read_to_string(d.path().join("p.svg")).unwrap();
    for part in ["<svg", "9,000 rows", "goal", "without privacy", "accuracy", "epsilon"] {
        assert!(svg.contains(part), "{part}: {svg}");
    }
}

#[test]
fn the_help_shows_goals() {
    let d = tempfile::tempdir().unwrap();
    let help = succeed(d.path(), &["explain", "--help"]);
    for flag in
        ["--accuracy <A>", "--loss-points <P>", "--error <X>", "--added-error <X>", "--best <B>", "--plot <FILE>"]
    {
        assert!(help.contains(flag), "{flag}: {help}");
    }
}

/// Each plan opens the table: what can be read once only is refused before it is opened.
#[cfg(unix)]
#[test]
fn a_pipe_is_refused_where_there_is_a_goal() {
    let d = tempfile::tempdir().unwrap();
    let base = unreadable(d.path());
    std::fs::remove_file(d.path().join("t.csv")).unwrap();
    let made = std::process::Command::new("mkfifo").arg(d.path().join("t.csv")).status().unwrap();
    assert!(made.success());
    let told = refuse(d.path(), &[&base[..], &["--rows", "2000", "--loss-points", "2"]].concat());
    assert!(told.contains("is a pipe or standard input"), "{told}");
}
