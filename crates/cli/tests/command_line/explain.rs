//! `explain` looks at the header and nothing else.

use crate::init::{WIDE, filled_in, wide};
use crate::{census, dpopt, files, path, refuse, succeed};
use std::collections::BTreeMap;

#[test]
fn every_method_is_shown_with_its_reasons() {
    let d = tempfile::tempdir().unwrap();
    let (data, bounds) = (path(census(), "census.csv"), path(census(), "bounds.toml"));
    let common = ["explain", &data, "--target", "income", "--epsilon", "1", "--delta", "1e-6", "--bounds", &bounds];
    let out = succeed(d.path(), &[&common[..], &["--all"]].concat());
    for part in ["objective-perturbation", "noisy-sgd", "not applicable: ", "rows were counted", "3000 rows"] {
        assert!(out.contains(part), "{part}: {out}");
    }
    let json = succeed(d.path(), &[&common[..], &["--json"]].concat());
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let planned: Vec<f64> =
        json["candidates"].as_array().unwrap().iter().filter_map(|c| c["epsilon"].as_f64()).collect();
    assert!(planned.len() >= 4 && planned.iter().all(|e| *e <= 1.0), "{json}");
    assert!(files(d.path()).is_empty());
}

#[test]
fn numbers_are_enough() {
    let d = tempfile::tempdir().unwrap();
    let out = succeed(d.path(), &["explain", "--rows", "50000", "--features", "100", "--epsilon", "1"]);
    assert!(out.contains("no table was opened") && out.contains("50000 rows, 100 features"), "{out}");
    let three = ["explain", "--rows", "50000", "--features", "100", "--epsilon", "1", "--class-count", "3"];
    assert!(succeed(d.path(), &three).contains("300 weights"));
    assert!(refuse(d.path(), &["explain", "--features", "100", "--epsilon", "1"]).contains("--rows"));
    assert!(refuse(d.path(), &["explain", "--rows", "1", "--features", "1", "--epsilon", "1"]).contains("at least 2"));
}

/// The bound that is proved for `regularized-descent`, as the line below the table tells it.
fn proved(arguments: &[&str]) -> f64 {
    let d = tempfile::tempdir().unwrap();
    let common = ["explain", "--rows", "50000", "--features", "3000000", "--epsilon", "1", "--delta", "1e-6"];
    let out = succeed(d.path(), &[&common[..], &["--all", "--method", "regularized-descent"], arguments].concat());
    let line = out.lines().find(|l| l.starts_with("regularized-descent: proved")).unwrap_or_else(|| panic!("{out}"));
    line.split("risk at most ").nth(1).and_then(|rest| rest.split(' ').next()).and_then(|x| x.parse().ok()).unwrap()
}

#[test]
fn who_knows_that_features_decay_sees_a_smaller_bound() {
    let plain = proved(&[]);
    let decay = proved(&["--gradient-decay", "1.5"]);
    let rank = proved(&["--gradient-rank", "20"]);
    assert!(decay < 0.9 * plain && rank < decay, "{plain}, {decay}, {rank}");
}

#[test]
fn rows_that_no_reader_could_digest_are_not_looked_at() {
    let d = tempfile::tempdir().unwrap();
    // ragged, binary, an unclosed quote: any look at a value would fail
    std::fs::write(d.path().join("t.csv"), b"x,y\nPOISON\n\xff\xfe,,,,\n\"never closed").unwrap();
    std::fs::write(d.path().join("b.toml"), "[x]\nlower = 0\nupper = 1\n[y]\nlevels = ['a', 'b']\n").unwrap();
    let explain = ["explain", "t.csv", "--target", "y", "--epsilon", "1", "--bounds", "b.toml", "--rows", "1000"];
    let out = succeed(d.path(), &explain);
    assert!(out.contains("only the header was read") && !out.contains("POISON"), "{out}");
}

#[cfg(unix)]
#[test]
fn with_a_row_count_nothing_behind_the_header_is_asked_for() {
    // a pipe that delivers a header and then stays open: a reader that asks for a row waits for ever
    let d = tempfile::tempdir().unwrap();
    let pipe = d.path().join("t.csv");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    std::fs::write(d.path().join("b.toml"), "[x]\nlower = 0\nupper = 1\n[y]\nlevels = ['a', 'b']\n").unwrap();
    let explain = ["explain", "t.csv", "--target", "y", "--epsilon", "1", "--bounds", "b.toml", "--rows", "1000"];
    assert!(crate::init::header_then_silence(d.path(), &pipe, &explain), "explain waited for a row");
}

/// The lines of the short form by their names; what has no name belongs to none.
fn lines(out: &str) -> BTreeMap<&str, &str> {
    out.lines().filter_map(|line| Some((line.get(..12)?.trim_end(), line.get(12..)?))).collect()
}

#[test]
fn a_plan_of_55_columns_is_ten_lines() {
    let d = tempfile::tempdir().unwrap();
    wide(d.path(), 400);
    filled_in(d.path());
    let base = ["explain", "wide.csv", "--target", "y", "--epsilon", "2", "--delta", "1e-6", "--bounds", "bounds.toml"];
    let out = succeed(d.path(), &base);
    assert!(out.lines().count() <= 10, "{out}");
    let explanation = lines(&out);
    let names =
        ["accuracy", "because", "budget", "encoder", "guarantee", "method", "more", "runners-up", "table", "time"];
    assert_eq!(explanation.keys().copied().collect::<Vec<_>>(), names, "{out}");
    let json: serde_json::Value = serde_json::from_str(&succeed(d.path(), &[&base[..], &["--json"]].concat())).unwrap();
    let all = json["candidates"].as_array().unwrap();
    // what a fit takes, for the reason that it gives
    let fitted = succeed(d.path(), &[&["fit"], &base[1..], &["-o", "m.json", "--insecure-seed", "1"]].concat());
    let of_fit = |start: &str| fitted.lines().find_map(|line| line.strip_prefix(start)).unwrap().to_string();
    let chosen = explanation["method"].split(':').next().unwrap();
    assert_eq!(chosen, of_fit("method      ").split(':').next().unwrap());
    assert_eq!(explanation["because"], of_fit("            because "));
    // two others that could run, in the order of preference, with what is predicted of them
    let planned: Vec<&serde_json::Value> = all
        .iter()
        .filter(|c| c["not_applicable"].is_null() && c["method"] != chosen && c["grade"] != "research")
        .collect();
    let places: Vec<usize> = planned[..2]
        .iter()
        .map(|c| explanation["runners-up"].find(&format!("{} (", c["method"].as_str().unwrap())).unwrap())
        .collect();
    assert!(places[0] < places[1], "{out}");
    assert!(explanation["runners-up"].ends_with(&format!("; {} more methods apply", planned.len() - 2)), "{out}");
    // the band holds the prediction in its middle, by a factor of two either way
    let numbers: Vec<f64> =
        explanation["accuracy"].split([' ', '(', ')', ':']).filter_map(|word| word.parse().ok()).take(3).collect();
    let predicted = all.iter().find(|c| c["method"] == chosen).unwrap()["predicted_excess_risk"].as_f64().unwrap();
    let off = |shown: f64, meant: f64| (shown / meant - 1.0).abs();
    assert!(off(numbers[0], predicted) < 1e-3 && off(numbers[1], predicted / 2.0) < 1e-3, "{out}");
    assert!(off(numbers[2], 2.0 * predicted) < 1e-3, "{out}");
    for part in [
        "loss is expected to be above that of the best linear model without privacy",
        ". For scale: a model that gives every class the same probability has a ",
        "; the excess is ",
    ] {
        assert!(explanation["accuracy"].contains(part), "{part}: {out}");
    }
    for part in [
        "30 numeric columns: ",
        "15 categorical columns: ",
        "4 hashed columns: ",
        "2 text columns: text statistics (",
        "3 not used",
    ] {
        assert!(explanation["encoder"].contains(part), "{part}: {out}");
    }
    assert_eq!(WIDE, 55);
    assert!(explanation["guarantee"].starts_with("epsilon 2, delta 1e-6, per row, zero-out; "), "{out}");
    assert!(
        explanation["table"].starts_with("400 rows, ") && explanation["budget"] == "all of it goes to the model",
        "{out}"
    );
    assert!(explanation["more"].starts_with(&format!("--all shows every method ({})", all.len())), "{out}");
    // the rest is there on request, but not in two forms at once
    let whole = succeed(d.path(), &[&base[..], &["--all"]].concat());
    assert!(all.iter().all(|c| whole.contains(&format!("\n{} ", c["method"].as_str().unwrap()))), "{whole}");
    assert_eq!(dpopt(d.path(), &[&base[..], &["--all", "--json"]].concat()).status.code(), Some(2));
}

#[test]
fn a_short_plan_tells_what_a_number_is_off_by_what_is_protected_and_why_nothing_runs() {
    let d = tempfile::tempdir().unwrap();
    let rows: String = (0..500).map(|i| format!("{},{}\n", i % 40, (i * 7) % 1000)).collect();
    std::fs::write(d.path().join("t.csv"), format!("x,y\n{rows}")).unwrap();
    std::fs::write(d.path().join("b.toml"), "[x]\nlower = 0\nupper = 40\n[y]\nlower = 0\nupper = 1000\n").unwrap();
    let base = ["explain", "t.csv", "--target", "y", "--epsilon", "1", "--bounds", "b.toml"];
    let number = succeed(d.path(), &base);
    assert!(
        number.contains("adds a root-mean-square error of ") && number.contains("always predicting 500 (the middle"),
        "{number}"
    );
    let none = succeed(d.path(), &[&base[..], &["--method", "noisy-newton"]].concat());
    assert!(none.starts_with("method      none: ") && !none.contains("runners-up"), "{none}");
    succeed(d.path(), &["generate", "panel", "--units", "300", "--rows-per-unit", "3", "-o", "p.csv"]);
    let panel = ["explain", "p.csv", "--target", "outcome", "--bounds", "bounds.toml", "--epsilon", "1"];
    let persons = succeed(d.path(), &[&panel[..], &["--unit", "person"]].concat());
    assert!(persons.contains("per person, zero-out") && persons.contains("900 rows of 300 units"), "{persons}");
    std::fs::write(d.path().join("x.toml"), "[x]\nlower = 0\nupper = 40\n").unwrap();
    let labels =
        ["explain", "t.csv", "--target", "y", "--epsilon", "1", "--bounds", "x.toml", "--task", "classification"];
    let labels = succeed(d.path(), &labels);
    assert!(
        labels.contains("budget      the model gets epsilon 0.95, ") && labels.contains("pays for private labels"),
        "{labels}"
    );
}

/// Where units are protected, each method says what it clips; no other page mentions it.
#[test]
fn what_is_clipped_is_a_column_where_units_are_protected() {
    let d = tempfile::tempdir().unwrap();
    succeed(d.path(), &["generate", "panel", "--units", "200", "--rows-per-unit", "3", "-o", "t.csv"]);
    let base = ["explain", "t.csv", "--target", "outcome", "--bounds", "bounds.toml", "--epsilon", "1"];
    let line = |out: &str, start: &str| out.lines().find(|l| l.starts_with(start)).unwrap_or_default().to_owned();
    let units = succeed(d.path(), &[&base[..], &["--all", "--unit", "person", "--max-rows-per-unit", "2"]].concat());
    assert!(line(&units, "method").ends_with("clips"), "{units}");
    assert!(line(&units, "noisy-gradient-descent").ends_with("  unit"), "{units}");
    assert!(line(&units, "objective-perturbation").ends_with("  row × 2"), "{units}");
    let rows = succeed(d.path(), &[&base[..], &["--all"]].concat());
    assert!(!line(&rows, "method").contains("clips") && !rows.contains("row ×"), "{rows}");
    let json = |extra: &[&str]| -> serde_json::Value {
        serde_json::from_str(&succeed(d.path(), &[&base[..], &["--json"], extra].concat())).unwrap()
    };
    let forced = json(&["--unit", "person", "--max-rows-per-unit", "2", "--unit-clipping", "row"]);
    let planned = |c: &&serde_json::Value| c.get("not_applicable").is_none();
    let clips: Vec<_> =
        forced["candidates"].as_array().unwrap().iter().filter(planned).map(|c| c["clips"].clone()).collect();
    assert!(clips.len() > 5 && clips.iter().all(|c| c == "row × 2"), "{clips:?}");
    assert!(json(&[])["candidates"].as_array().unwrap().iter().all(|c| c.get("clips").is_none()));
}
