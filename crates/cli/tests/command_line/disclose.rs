//! What is published about a release: an entry of the registry, a checklist, a model card.

use crate::{census, dpopt, files, path, refuse, succeed};
use std::path::Path;

/// A fit to the census table in `d`, with more flags.
fn fit(d: &Path, model: &str, more: &[&str]) {
    let (table, bounds) = (path(census(), "census.csv"), path(census(), "bounds.toml"));
    let flags = ["fit", &table, "--bounds", &bounds, "--epsilon", "2", "--delta", "1e-6", "-o", model];
    succeed(d, &[&flags[..], more].concat());
}

#[test]
fn a_model_becomes_an_entry_a_checklist_and_a_card() {
    let d = tempfile::tempdir().unwrap();
    let d = d.path();
    fit(d, "model.json", &["--target", "income", "--report", "report.json"]);
    let told = succeed(d, &["disclose", "model.json", "-o", "disclosure.yaml"]);
    assert!(told.contains("registry entry of model.json to disclosure.yaml; places marked FILL IN: "), "{told}");
    let entry = std::fs::read_to_string(d.join("disclosure.yaml")).unwrap();
    for line in [
        "status: Draft",
        "    data_product_type: \"Machine learning model\"",
        "    variant_name: \"Approximate DP\"",
        "      epsilon: 2",
        "      delta: 1.0e-6",
        "    privacy_unit: \"row\"",
        "    model_name: \"Central\"",
    ] {
        assert!(entry.lines().any(|found| found == line), "{line}\n{entry}");
    }
    assert!(entry.contains("dpopt 0.1.0") && entry.contains("FILL IN: who publishes it"), "{entry}");
    // standard output is the same, every time
    assert_eq!(succeed(d, &["disclose", "model.json"]), entry);

    let checklist = succeed(d, &["disclose", "model.json", "--format", "checklist"]);
    assert_eq!(checklist, succeed(d, &["disclose", "model.json", "--format", "markdown"]));
    assert!(checklist.starts_with("# Privacy checklist\n") && checklist.contains("Not known to dpopt: "));
    let card = succeed(d, &["disclose", "model.json", "--format", "model-card"]);
    assert!(card.contains("| age | number, clipped to 17 … 90 |"), "{card}");
    assert!(card.contains("\n| 1 % | 7.4 % | "), "{card}");
    // a report knows more: the number of rows, the method, how good it is
    let card = succeed(d, &["disclose", "report.json", "--format", "model-card"]);
    assert!(card.contains("Public facts: 3,000 rows.") && card.contains("Predicted excess risk"), "{card}");
}

#[test]
fn other_releases_have_entries_too() {
    let d = tempfile::tempdir().unwrap();
    let d = d.path();
    fit(d, "number.json", &["--target", "age"]);
    let entry = succeed(d, &["disclose", "number.json"]);
    assert!(entry.contains("description: \"A linear regression model of “age”. FILL IN"), "{entry}");

    let table = path(census(), "census.csv");
    let mean = ["mean", &table, "--of", "age", "--moment", "2:60", "--epsilon", "1", "--delta", "1e-6", "-o"];
    succeed(d, &[&mean[..], &["mean.json", "--unit", "occupation"]].concat());
    let entry = succeed(d, &["disclose", "mean.json"]);
    for part in
        ["Summary statistics", "privacy_unit: \"occupation\"", "one value of “occupation”", "The mean of one column"]
    {
        assert!(entry.contains(part), "{part}\n{entry}");
    }
    let card = succeed(d, &["disclose", "mean.json", "--format", "model-card"]);
    assert!(card.starts_with("# Release card of FILL IN: name\n"), "{card}");
}

#[test]
fn a_seed_is_told_loudly() {
    let d = tempfile::tempdir().unwrap();
    let d = d.path();
    fit(d, "seeded.json", &["--target", "income", "--insecure-seed", "1"]);
    for format in ["registry", "checklist", "model-card"] {
        let output = dpopt(d, &["disclose", "seeded.json", "--format", format]);
        let (text, notes) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && notes.contains("NO PRIVACY GUARANTEE"), "{notes}");
        let first = text.lines().take(3).collect::<Vec<_>>().join("\n");
        assert!(first.contains("NO PRIVACY GUARANTEE"), "{format}: {first}");
        assert!(!text.contains("\n      epsilon: "), "{text}");
    }
}

#[test]
fn nothing_is_written_over_or_about_what_does_not_hold() {
    let d = tempfile::tempdir().unwrap();
    let d = d.path();
    fit(d, "model.json", &["--target", "income"]);
    let model = std::fs::read_to_string(d.join("model.json")).unwrap();
    std::fs::write(d.join("facts.toml"), "name = 'Incomes'\n").unwrap();
    let facts = ["disclose", "model.json", "--facts", "facts.toml"];
    succeed(d, &[&facts[..], &["-o", "entry.yaml"]].concat());
    assert!(refuse(d, &[&facts[..], &["-o", "entry.yaml"]].concat()).contains("filled in by hand"));
    succeed(d, &[&facts[..], &["-o", "entry.yaml", "--overwrite"]].concat());
    assert!(std::fs::read_to_string(d.join("entry.yaml")).unwrap().contains("name: \"Incomes\""));

    std::fs::hard_link(d.join("model.json"), d.join("model.yaml")).unwrap();
    let same = refuse(d, &["disclose", "model.json", "-o", "model.yaml", "--overwrite"]);
    assert!(same.contains("the same file"), "{same}");
    let other = refuse(d, &["disclose", "model.json", "-o", "card.md"]);
    assert!(other.contains("--format checklist or model-card"), "{other}");
    std::fs::write(d.join("facts.toml"), "nmae = 'x'\n").unwrap();
    assert!(refuse(d, &facts).contains("did you mean `name`?"));

    let start = model.find("\"certified_epsilon\":").unwrap();
    let end = start + model[start..].find(',').unwrap();
    let lies = model.replacen(&model[start..end], "\"certified_epsilon\":0.01", 1);
    std::fs::write(d.join("lies.json"), lies).unwrap();
    assert!(refuse(d, &["disclose", "lies.json", "-o", "lies.yaml"]).contains("does not hold"));
    assert!(refuse(d, &["disclose", "facts.toml"]).contains("no guarantee that this version of dpopt can read"));
    assert_eq!(files(d), ["entry.yaml", "facts.toml", "lies.json", "model.json", "model.yaml"]);
}
