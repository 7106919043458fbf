//! The command: what it prints and writes for some rows, and its exit codes.

use std::process::{Command, Output};

fn self_audit(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_dpopt-self-audit")).args(arguments).output().expect("the binary runs")
}

#[test]
fn some_rows_are_run_printed_and_written() {
    let directory = tempfile::tempdir().expect("a directory");
    let folder = directory.path().to_str().expect("UTF-8");
    let output = self_audit(&["--short", "--only", "discrete Laplace", "--seed", "2", "--write", folder]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text} {}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("\ndiscrete Laplace ") && text.ends_with("violations 0\n"), "{text}");
    let mut files: Vec<String> = std::fs::read_dir(directory.path())
        .expect("the directory")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"))
        .collect();
    files.sort();
    assert!(files.len() == 3 && files[0].ends_with("-seed-2.json") && files[1].ends_with("-seed-2.md"), "{files:?}");
    assert_eq!(files[2], "pictures-seed-2");
}

/// Writes the rows of an earlier run and changes one of them: the second run shows what was kept, so it did not run the row.
#[test]
fn a_run_goes_on_with_the_rows_that_are_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rows.jsonl");
    let keep = path.to_str().expect("UTF-8");
    let arguments = ["--short", "--only", "discrete Laplace", "--keep", keep];
    // a directory that cannot be made: the run fails after its rows, and keeps them
    let nowhere = folder.path().join("file");
    std::fs::write(&nowhere, "").expect("a file");
    let failed = self_audit(&[&arguments[..], &["--write", nowhere.to_str().expect("UTF-8")]].concat());
    assert_eq!(failed.status.code(), Some(1));
    let kept = std::fs::read_to_string(&path).expect("rows");
    assert!(kept.contains("\"seeds\":1"), "{kept}");
    std::fs::write(&path, kept.replace("\"seeds\":1", "\"seeds\":77")).expect("changed rows");

    let refused = self_audit(&[&arguments[..], &["--seed", "2"]].concat());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("holds no rows of this program, tier and seed"));
    let second = self_audit(&arguments);
    let text = String::from_utf8_lossy(&second.stdout).into_owned();
    assert!(second.status.success() && text.contains("1/77"), "{text}");
    assert!(!path.exists());
}

#[test]
fn a_name_that_nothing_has_is_a_wrong_flag() {
    let output = self_audit(&["--short", "--only", "no such row", "--json"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("dpopt-self-audit: error: no bug's number"));
    let run: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(run["library"].as_array().map(Vec::len), Some(0));
    assert_eq!(self_audit(&["--no-such-flag"]).status.code(), Some(2));
}
