//! The budget file: charged before a record is read, kept across runs, processes and crashes.

use crate::{census, command, dpopt, files, path, refuse, succeed};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

const TOTAL: [&str; 5] = ["--ledger", "budget.jsonl", "--total-epsilon", "1", "--total-delta=1e-6"];

fn fit<'a>(data: &'a str, bounds: &'a str, epsilon: &'a str, output: &'a str) -> Vec<&'a str> {
    let mut arguments = vec![
        "fit",
        data,
        "--target",
        "income",
        "--epsilon",
        epsilon,
        "--delta",
        "1e-6",
        "--bounds",
        bounds,
        "-o",
        output,
    ];
    arguments.extend(TOTAL);
    arguments
}

/// Lines of the ledger that are charges.
fn charges(directory: &Path) -> usize {
    let text = std::fs::read_to_string(directory.join("budget.jsonl")).unwrap_or_default();
    text.lines().filter(|l| l.contains("\"event\"")).count()
}

/// A model and a ledger that somebody sent: their words neither command the terminal nor make lines of their own.
#[test]
fn words_of_files_are_shown_and_not_obeyed() {
    const HOSTILE: &str = "\u{1b}]0;t\u{7}\u{1b}[2J\u{9b}1A\u{202e}red\nholds";
    let d = tempfile::tempdir().unwrap();
    let (data, bounds) = (path(census(), "census.csv"), path(census(), "bounds.toml"));
    succeed(d.path(), &fit(&data, &bounds, "0.9", "m.json"));
    let text = std::fs::read_to_string(d.path().join("m.json")).unwrap();
    let mut model: serde_json::Value = serde_json::from_str(&text).unwrap();
    let promise = &mut model["guarantee"];
    promise["unit_column"] = HOSTILE.into();
    promise["stages"][0]["name"] = HOSTILE.into();
    promise["stages"][0]["bound"]["accountant"] = HOSTILE.into();
    promise["stages"][0]["bound"]["upper"] = 1e-9.into();
    std::fs::write(d.path().join("hostile.json"), model.to_string()).unwrap();
    for arguments in [
        &["verify", "hostile.json"][..],
        &["verify", "hostile.json", "--json"],
        &["ledger", "budget.jsonl", "--verify", "hostile.json"],
    ] {
        let output = dpopt(d.path(), arguments);
        let shown = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
        let obeyed = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
        assert!(!shown.contains(obeyed) && !shown.lines().any(|line| line.starts_with("holds")), "{shown:?}");
    }
    // what the file alone states is named as such
    let printed = succeed(d.path(), &["verify", "m.json"]);
    assert!(
        printed.contains("\nnot checked, only stated by the file:\n- all that was released came from these events")
            && printed.contains("one row, zero-out")
            && printed.contains("no fixed seed"),
        "{printed}"
    );
}

#[test]
fn a_spent_budget_refuses_before_the_table_is_opened() {
    let d = tempfile::tempdir().unwrap();
    let (data, bounds) = (path(census(), "census.csv"), path(census(), "bounds.toml"));
    succeed(d.path(), &fit(&data, &bounds, "0.9", "m.json"));
    assert_eq!(charges(d.path()), 1);
    // neither table nor bounds exist: a run that looked for them first would say so
    let line = refuse(d.path(), &fit("missing.csv", "missing.toml", "0.9", "m2.json"));
    assert!(line.contains("budget.jsonl") && !line.contains("missing"), "{line}");
    // a run that would still fit is refused for the table
    let line = refuse(d.path(), &fit("missing.csv", &bounds, "0.01", "m2.json"));
    assert!(line.contains("missing.csv"), "{line}");
    assert_eq!((files(d.path()), charges(d.path())), (vec!["budget.jsonl".into(), "m.json".into()], 1));
}

#[test]
fn a_run_that_cannot_start_charges_nothing() {
    let d = tempfile::tempdir().unwrap();
    let (data, bounds) = (path(census(), "census.csv"), path(census(), "bounds.toml"));
    let mut arguments = fit(&data, &bounds, "0.5", "m.json");
    arguments.extend(["--method", "sufficient-statistics"]);
    refuse(d.path(), &arguments);
    assert!(files(d.path()).is_empty());
}

#[test]
fn a_run_that_stops_while_reading_has_spent_its_budget() {
    let d = tempfile::tempdir().unwrap();
    let mut text = std::fs::read_to_string(census().join("census.csv")).unwrap();
    text += "ragged\n";
    std::fs::write(d.path().join("t.csv"), text).unwrap();
    let bounds = path(census(), "bounds.toml");
    let strict = [&fit("t.csv", &bounds, "0.5", "m.json")[..], &["--bad-cells", "error"]].concat();
    let line = refuse(d.path(), &strict);
    assert!(line.contains("the ledger keeps the charge"), "{line}");
    assert_eq!((files(d.path()), charges(d.path())), (vec!["budget.jsonl".into(), "t.csv".into()], 1));
    // by default no content of a row stops a run
    succeed(d.path(), &fit("t.csv", &bounds, "0.5", "m.json"));
}

#[test]
fn other_totals_or_relations_are_refused() {
    let d = tempfile::tempdir().unwrap();
    let (data, bounds) = (path(census(), "census.csv"), path(census(), "bounds.toml"));
    succeed(d.path(), &fit(&data, &bounds, "0.1", "m.json"));
    let mut other = fit(&data, &bounds, "0.1", "m2.json");
    *other.iter_mut().find(|a| **a == "--total-delta=1e-6").unwrap() = "--total-delta=1e-5";
    assert!(refuse(d.path(), &other).contains("total budget"));
    let mut other = fit(&data, &bounds, "0.1", "m2.json");
    other.extend(["--relation", "replace-one"]);
    assert!(refuse(d.path(), &other).contains("relation"));
    assert_eq!(charges(d.path()), 1);
}

#[test]
fn two_processes_at_once_never_overspend() {
    let d = tempfile::tempdir().unwrap();
    let (data, bounds) = (path(census(), "census.csv"), path(census(), "bounds.toml"));
    let outputs: Vec<String> = (0..4).map(|i| format!("m{i}.json")).collect();
    let children: Vec<_> = outputs
        .iter()
        .map(|o| {
            command(d.path(), &fit(&data, &bounds, "0.8", o))
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    let done = children.into_iter().map(|mut c| c.wait().unwrap()).filter(|s| s.success()).count();
    // one run at 0.8 fits into 1, a second does not
    assert_eq!((done, charges(d.path())), (1, 1));
    assert_eq!(files(d.path()).iter().filter(|f| f.ends_with(".json")).count(), 1);
}

#[cfg(unix)]
#[test]
fn a_killed_run_never_loses_its_charge_nor_leaves_half_a_file() {
    let (data, bounds) = (path(census(), "census.csv"), path(census(), "bounds.toml"));
    let (mut early, mut late) = (0, 0);
    for round in 0u64..16 {
        let d = tempfile::tempdir().unwrap();
        let mut arguments = fit(&data, &bounds, "0.5", "m.json");
        arguments.extend(["--report", "r.html", "--method", "noisy-gradient-descent"]);
        let mut child = command(d.path(), &arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(round * round * 4));
        let _ = child.kill(); // SIGKILL
        child.wait().unwrap();
        let (names, spent) = (files(d.path()), charges(d.path()));
        let model = names.contains(&"m.json".to_string());
        if model {
            assert_eq!(spent, 1, "a model without a charge");
            let text = std::fs::read_to_string(d.path().join("m.json")).unwrap();
            assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
            late += 1;
        } else {
            early += 1;
        }
        if names.contains(&"r.html".to_string()) {
            assert!(std::fs::read_to_string(d.path().join("r.html")).unwrap().ends_with("</html>\n"));
        }
        // whatever was cut off, the next run can use the ledger
        let again = [&fit(&data, &bounds, "0.3", "next.json")[..], &["--method", "output-perturbation"]].concat();
        let next = dpopt(d.path(), &again);
        assert!(next.status.success(), "{}", String::from_utf8_lossy(&next.stderr));
        assert_eq!(charges(d.path()), spent + 1);
    }
    assert!(early > 0, "no run was killed before its end");
    println!("killed before the model: {early}, after: {late}");
}

#[test]
fn the_status_tells_what_was_spent_and_what_is_left() {
    let d = tempfile::tempdir().unwrap();
    let (data, bounds) = (path(census(), "census.csv"), path(census(), "bounds.toml"));
    let line = refuse(d.path(), &["ledger", "budget.jsonl"]);
    assert!(
        line.contains("cannot read budget.jsonl: no such file; name the file that was given to fit --ledger"),
        "{line}"
    );
    assert!(files(d.path()).is_empty());
    succeed(d.path(), &fit(&data, &bounds, "0.3", "m.json"));
    let text = succeed(d.path(), &["ledger", "budget.jsonl"]);
    assert!(
        text.contains("total epsilon 1, delta 1e-6") && text.contains("fit income of ") && text.contains("census.csv"),
        "{text}"
    );
    let status = |d: &Path| -> serde_json::Value {
        serde_json::from_str(&succeed(d, &["ledger", "budget.jsonl", "--json"])).unwrap()
    };
    let before = status(d.path());
    let share = before["spent_share"].as_f64().unwrap();
    assert!(share > 0.02 && share < 0.3, "{share}");
    let room = before["next_run"]["epsilon_at_most"].as_f64().unwrap();
    // what is shown to fit does fit, and a twentieth more does not
    let line = refuse(d.path(), &fit(&data, &bounds, &format!("{}", 1.05 * room), "m2.json"));
    let fits = format!("give a smaller epsilon; at delta 1e-6 a run of up to about epsilon {room} fits");
    assert!(line.contains("% of the total budget (epsilon 1, delta 1e-6)") && line.ends_with(&fits), "{line}");
    succeed(d.path(), &fit(&data, &bounds, &format!("{}", 0.99 * room), "m2.json"));
    let after = status(d.path());
    assert_eq!(after["charges"].as_array().unwrap().len(), 2);
    assert!(after["spent_share"].as_f64().unwrap() > 0.9);
    assert!(after["spent_epsilon"].as_f64().unwrap() <= 1.0);
}

#[test]
fn a_ledger_that_is_there_says_its_totals_itself() {
    let d = tempfile::tempdir().unwrap();
    let (data, bounds) = (path(census(), "census.csv"), path(census(), "bounds.toml"));
    let fit =
        ["fit", &data, "--target", "income", "--epsilon", "0.5", "--bounds", &bounds, "-q", "--ledger", "l.jsonl"];
    let line = refuse(d.path(), &fit);
    let needs =
        "l.jsonl does not exist, and a new ledger needs a total epsilon and delta for all runs on this data set";
    assert!(
        line.contains(needs) && line.ends_with("give for example --total-epsilon 1.5 --total-delta 1e-5"),
        "{line}"
    );
    let line = refuse(d.path(), &[&fit[..], &["--total-epsilon", "3"]].concat());
    assert!(line.contains(needs) && line.ends_with("give for example --total-delta 1e-5"), "{line}");
    succeed(d.path(), &[&fit[..], &["--total-epsilon", "3", "--total-delta=1e-3"]].concat());
    succeed(d.path(), &fit);
    succeed(d.path(), &[&fit[..], &["--total-epsilon", "3"]].concat());
    let shown = succeed(d.path(), &["ledger", "l.jsonl"]);
    assert!(
        shown.contains("total epsilon 3, delta 1e-3") && shown.lines().any(|l| l.trim_start().starts_with("3 ")),
        "{shown}"
    );
    let line = refuse(d.path(), &[&fit[..], &["--total-epsilon", "4"]].concat());
    let kept = "l.jsonl has the total budget epsilon 3, delta 0.001, which cannot be changed, but ";
    assert!(line.ends_with(&format!("{kept}--total-epsilon is 4; leave out --total-epsilon")), "{line}");
    let line = refuse(d.path(), &[&fit[..], &["--total-epsilon", "4", "--total-delta=0.1"]].concat());
    let both = "--total-epsilon is 4 and --total-delta is 0.1; leave out --total-epsilon and --total-delta";
    assert!(line.ends_with(&format!("{kept}{both}")), "{line}");
}
