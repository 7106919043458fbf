//! The commands of dpopt know the method, its options and its event.

use std::path::Path;
use std::process::{Command, Output};

fn own_method(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_own-method"))
        .current_dir(folder)
        .args(arguments)
        .output()
        .expect("the command runs")
}

/// What the command prints where it succeeds.
fn printed(folder: &Path, line: &str) -> String {
    let output = own_method(folder, &line.split(' ').collect::<Vec<_>>());
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {error}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn it_is_explained_fitted_and_its_guarantee_recomputed() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    printed(folder, "generate census --rows 6000 --seed 1 -o census.csv");
    let task = "census.csv --target income --epsilon 2 --delta 1e-6 --bounds bounds.toml";

    let explained = printed(folder, &format!("explain {task} --all"));
    let line = explained.lines().find(|line| line.starts_with("two-phases")).expect("a row of the table");
    assert!(!line.contains("not applicable") && line.contains(" 100 "), "{line}");

    let help = printed(folder, "help two-phases");
    assert!(
        help.contains("accelerated descent") && help.contains("--batch-share") && help.contains("--steps"),
        "{help}"
    );

    printed(folder, &format!("fit {task} --method two-phases --batch-share 0.1 --steps 60 -o model.json"));
    let model = std::fs::read_to_string(folder.join("model.json")).expect("a model");
    let model: serde_json::Value = serde_json::from_str(&model).expect("JSON");
    let stages = model["guarantee"]["stages"].as_array().expect("stages");
    let event = stages.last().expect("the model's stage")["event"].to_string();
    // an event of its own: both halves, of which the first is sampled
    assert!(event.contains("0.1") && event.to_lowercase().contains("poisson"), "{event}");

    let verified = printed(folder, "verify model.json");
    assert!(verified.contains("census") || verified.contains("epsilon"), "{verified}");
    let scored = printed(folder, "evaluate model.json census.csv");
    let accuracy = scored.split_whitespace().skip_while(|word| *word != "accuracy").nth(1).expect("an accuracy");
    assert!(accuracy.parse::<f64>().expect("a number") > 0.7, "{scored}");
}

#[test]
fn a_wrong_option_is_refused_by_its_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let task = "explain --rows 1000 --features 10 --epsilon 1 --method two-phases --batch-share 1.5";
    let refused = own_method(folder.path(), &task.split(' ').collect::<Vec<_>>());
    let error = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2));
    assert!(error.contains("--batch-share is 1.5; give a number above 0, at most 1"), "{error}");
}
