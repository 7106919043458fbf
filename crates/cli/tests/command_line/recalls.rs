//! Known faults of earlier versions, in the words of `verify`, `ledger` and `predict`.

use crate::{dpopt, path, refuse, succeed};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Files of an early program, which say nothing of its build.
fn old(name: &str) -> String {
    let set = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/old_files/2026-11-27");
    path(&set, name)
}

/// Writes a newer list with one recall, whose conditions are `more`.
fn list(directory: &Path, more: &str) -> PathBuf {
    let file = directory.join("recalls.toml");
    let text = "format = \"dpopt-recalls\"\nversion = 1\ndate = \"2027-01-10\"\n[[recall]]\nid = \"DPOPT-2027-001\"\ndate = \
                \"2027-01-09\"\nsummary = \"An invented fault.\"\nfollows = \"Fit again.\"\nversions = \"=0.1.0\"\n";
    std::fs::write(&file, format!("{text}{more}\n")).unwrap();
    file
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

#[test]
fn verify_says_what_may_concern_a_file_and_leaves_its_exit_code() {
    let d = tempfile::tempdir().unwrap();
    let shown = succeed(d.path(), &["verify", &old("number.json")]);
    let reasons = "it does not say which build wrote it, it does not name its method";
    let line = format!("recall DPOPT-2026-001 (may concern this file: {reasons}): Method adaptive-clip-descent");
    assert!(shown.contains("holds: ") && shown.contains(&line) && shown.contains("What follows: "), "{shown}");
    let said = json(&succeed(d.path(), &["verify", &old("number.json"), &old("labels.json"), "--json"]));
    let recall = &said[0]["recalls"][0];
    assert_eq!((&recall["id"], &recall["concern"]), (&"DPOPT-2026-001".into(), &"possible".into()));
    assert_eq!(recall["reasons"].as_array().map(Vec::len), Some(2));
    assert_eq!((said[1]["recalls"].as_array().map(Vec::len), &said[1]["holds"]), (Some(0), &true.into()));
    assert!(succeed(d.path(), &["verify", &old("labels.json")]).contains("recalls: none in the list of 20"));
    // a report names its method
    let report = succeed(d.path(), &["verify", &old("number.report.json")]);
    assert!(report.contains("(may concern this file: it does not say which build wrote it): Method"), "{report}");
}

#[test]
fn a_guarantee_that_is_certainly_too_small_does_not_hold() {
    let d = tempfile::tempdir().unwrap();
    let certain = list(d.path(), "effect = \"understated\"\nfiles = [\"model\"]").display().to_string();
    let verify = ["verify", &old("labels.json"), "--recalls", &certain];
    let output = dpopt(d.path(), &verify);
    let shown = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(2));
    let line =
        "does NOT hold: recall DPOPT-2027-001 (concerns this file): An invented fault. What follows: Fit again.\n";
    assert!(shown.contains(line) && shown.matches("DPOPT-2027-001").count() == 1, "{shown}");
    assert!(refuse(d.path(), &verify).contains("recall DPOPT-2027-001 (concerns this file)"));
    let said = json(&String::from_utf8(dpopt(d.path(), &[&verify[..], &["--json"]].concat()).stdout).unwrap());
    assert_eq!((&said[0]["holds"], &said[0]["recalls"][0]["concern"]), (&false.into(), &"certain".into()));
    // and nothing is written about it
    let line = refuse(d.path(), &["disclose", &old("labels.json"), "--recalls", &certain, "-o", "entry.yaml"]);
    assert!(line.contains("its guarantee does not hold: recall DPOPT-2027-001 (concerns this file)"), "{line}");
    assert!(!d.path().join("entry.yaml").exists());
    succeed(d.path(), &["disclose", &old("labels.json"), "-o", "entry.yaml"]);
    // of a lower grade the numbers hold
    list(d.path(), "effect = \"grade\"\nfiles = [\"model\"]");
    let shown = succeed(d.path(), &verify);
    assert!(shown.contains("holds: ") && shown.contains("\nrecall DPOPT-2027-001 (concerns this file): An"), "{shown}");
    // what accounting finds out, it did not find
    list(d.path(), "effect = \"understated\"\nsettled_by_accounting = true\nfiles = [\"model\"]");
    assert!(succeed(d.path(), &verify).contains("recalls: none in the list of 2027-01-10"));
}

#[test]
fn predict_warns_of_certain_concerns_alone() {
    let d = tempfile::tempdir().unwrap();
    let certain = list(d.path(), "effect = \"grade\"\nfiles = [\"model\"]").display().to_string();
    let (model, rows) = (old("number.json"), old("rows.csv"));
    let plain = dpopt(d.path(), &["predict", &model, &rows]);
    assert!(plain.status.success() && plain.stderr.is_empty(), "{}", String::from_utf8_lossy(&plain.stderr));
    let warned = dpopt(d.path(), &["predict", &model, &rows, "--recalls", &certain]);
    let said = String::from_utf8(warned.stderr).unwrap();
    assert!(warned.status.success() && warned.stdout == plain.stdout);
    assert!(said.starts_with("dpopt: warning: ") && said.lines().count() == 1, "{said}");
    assert!(said.contains("recall DPOPT-2027-001 (concerns this file): An invented fault."), "{said}");
    let before = std::fs::read(&certain).unwrap();
    let over = refuse(d.path(), &["predict", &model, &rows, "--recalls", &certain, "-o", "recalls.toml"]);
    assert!(over.contains("--recalls") && std::fs::read(&certain).unwrap() == before, "{over}");
}

#[test]
fn a_ledger_names_the_charges() {
    let d = tempfile::tempdir().unwrap();
    std::fs::copy(old("ledger.jsonl"), d.path().join("l.jsonl")).unwrap();
    let shown = succeed(d.path(), &["ledger", "l.jsonl"]);
    let all = json(&succeed(d.path(), &["ledger", "l.jsonl", "--json"]));
    assert_eq!(all["recalls"][0]["id"], "DPOPT-2026-005", "{all}");
    // it takes a program older than the fix: nearly all ledgers have that, and people are not told
    assert!(!shown.contains("DPOPT"), "{shown}");
    let certain = list(
        d.path(),
        "effect = \"understated\"\nfiles = [\"ledger\"]\nbuilds = { before = \"2027-01-01T00:00:00Z\" }",
    );
    let certain = certain.display().to_string();
    let shown = succeed(d.path(), &["ledger", "l.jsonl", "--recalls", &certain]);
    assert!(shown.contains("recall DPOPT-2027-001 (concerns charges 1, 2): An invented fault."), "{shown}");
    let said = json(&succeed(d.path(), &["ledger", "l.jsonl", "--recalls", &certain, "--json"]));
    let recalls = said["recalls"].as_array().unwrap();
    let charges = &recalls.iter().find(|recall| recall["id"] == "DPOPT-2027-001").unwrap()["charges"];
    assert_eq!((&charges[1]["number"], &charges[1]["concern"]), (&2.into(), &"certain".into()));
}

#[test]
fn a_file_held_against_its_ledger_is_held_against_the_recalls_too() {
    let d = tempfile::tempdir().unwrap();
    std::fs::copy(old("ledger.jsonl"), d.path().join("l.jsonl")).unwrap();
    let verify = ["ledger", "l.jsonl", "--verify", &old("charged.json")];
    let plain = succeed(d.path(), &verify);
    assert!(plain.contains("its charge 1 of ") && !plain.contains("DPOPT-2027-001"), "{plain}");
    let certain = list(d.path(), "effect = \"understated\"\nfiles = [\"model\"]").display().to_string();
    let shown = succeed(d.path(), &[&verify[..], &["--recalls", &certain]].concat());
    let line = format!("{}: recall DPOPT-2027-001 (concerns this file): An invented fault.", old("charged.json"));
    assert!(shown.contains("its charge 1 of ") && shown.contains(&line), "{shown}");
    let said = json(&succeed(d.path(), &[&verify[..], &["--recalls", &certain, "--json"]].concat()));
    let last = said[0]["recalls"].as_array().and_then(|recalls| recalls.last()).expect("a recall");
    assert_eq!((&last["id"], &last["concern"]), (&"DPOPT-2027-001".into(), &"certain".into()));
}

#[test]
fn wrong_lists_are_refused_without_their_cells() {
    let d = tempfile::tempdir().unwrap();
    std::fs::write(d.path().join("t.csv"), "age,name\n7731977,Zx7731977\n").unwrap();
    std::fs::write(d.path().join("pairs.toml"), "Zx7731977 = \"Zx7731977\"\n").unwrap();
    list(d.path(), "effect = \"grade\"\nfiles = [\"model\"]\nmetods = [\"x\"]");
    std::fs::copy(old("ledger.jsonl"), d.path().join("l.jsonl")).unwrap();
    for (file, words) in [
        ("t.csv", "not a list of recalls"),
        ("pairs.toml", "not a list of recalls"),
        ("nothing.toml", "no such file"),
        ("recalls.toml", "line 12: unknown field `metods`"),
    ] {
        let model = old("labels.json");
        for command in [&["verify", &model][..], &["ledger", "l.jsonl"], &["predict", &model, &old("rows.csv")]] {
            let line = refuse(d.path(), &[command, &["--recalls", file]].concat());
            assert!(line.contains(&format!("--recalls {file}: ")) && line.contains(words), "{line}");
            assert!(!line.contains("7731977"), "{line}");
        }
    }
}
