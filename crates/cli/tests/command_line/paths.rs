//! Outputs that are also inputs, one file under two names, rights of what is written, standard output.

use crate::{census, command, dpopt, files, path, refuse, succeed};
use std::path::Path;

/// A directory with a table, its bounds, a model and a ledger that was charged once.
fn workplace() -> tempfile::TempDir {
    let d = tempfile::tempdir().unwrap();
    for name in ["census.csv", "bounds.toml"] {
        std::fs::copy(census().join(name), d.path().join(name)).unwrap();
    }
    succeed(d.path(), &[&FIT[..], &LEDGER, &["-o", "old.json"]].concat());
    d
}

const FIT: [&str; 9] =
    ["fit", "census.csv", "--target", "income", "--epsilon", "0.3", "--delta=1e-6", "--bounds", "bounds.toml"];
const LEDGER: [&str; 5] = ["--ledger", "budget.jsonl", "--total-epsilon", "1", "--total-delta=1e-6"];

/// Everything in a directory, by name.
fn contents(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let read = |name: String| {
        let bytes = std::fs::read(directory.join(&name)).unwrap_or_default();
        (name, bytes)
    };
    files(directory).into_iter().map(read).collect()
}

/// Refused, both roles named, nothing changed.
fn untouched(directory: &Path, arguments: &[&str], roles: [&str; 2]) {
    let before = contents(directory);
    let line = refuse(directory, arguments);
    assert!(roles.iter().all(|role| line.contains(role)), "{arguments:?}: {line}");
    assert!(before == contents(directory), "{arguments:?} changed a file");
}

#[test]
fn a_fit_never_writes_over_what_it_reads() {
    let d = workplace();
    let fit = |more: &[&'static str]| [&FIT[..], &LEDGER, more].concat();
    std::fs::create_dir(d.path().join("sub")).unwrap();
    std::fs::hard_link(d.path().join("census.csv"), d.path().join("hard.csv")).unwrap();
    untouched(d.path(), &fit(&["-o", "budget.jsonl"]), ["-o", "--ledger"]);
    untouched(d.path(), &fit(&["--report", "./budget.jsonl"]), ["--report", "--ledger"]);
    untouched(d.path(), &fit(&["-o", "census.csv"]), ["-o", "the data"]);
    untouched(d.path(), &fit(&["-o", "sub/../census.csv"]), ["-o", "the data"]);
    untouched(d.path(), &fit(&["-o", "hard.csv"]), ["-o", "the data"]);
    untouched(d.path(), &fit(&["-o", "m.json", "--report", "bounds.toml"]), ["--report", "--bounds"]);
    // neither exists yet
    untouched(d.path(), &fit(&["-o", "m.json", "--report", "sub/../m.json"]), ["-o", "--report"]);
    untouched(d.path(), &fit(&["-o", "m.json", "--report", "M.JSON"]), ["-o", "--report"]);
    untouched(d.path(), &fit(&["-o", "-", "--report", "-"]), ["-o", "--report"]);
    let new = ["--ledger", "new.jsonl", "--total-epsilon", "1", "--total-delta=1e-6", "-o", "./new.jsonl"];
    untouched(d.path(), &[&FIT[..], &new].concat(), ["-o", "--ledger"]);
    let same = ["--ledger", "census.csv", "--total-epsilon", "1", "--total-delta=1e-6"];
    untouched(d.path(), &[&FIT[..], &same].concat(), ["--ledger", "the data"]);
    let mut public = fit(&["-o", "sample.csv"]);
    std::fs::write(d.path().join("sample.csv"), "age,income\n20,low\n30,high\n").unwrap();
    let at = public.iter().position(|a| *a == "--bounds").unwrap();
    public.splice(at..at + 2, ["--public-data", "sample.csv"]);
    untouched(d.path(), &public, ["-o", "--public-data"]);
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("census.csv", d.path().join("link")).unwrap();
        std::os::unix::fs::symlink("later.json", d.path().join("dangling")).unwrap();
        untouched(d.path(), &fit(&["-o", "link"]), ["-o", "the data"]);
        untouched(d.path(), &fit(&["-o", "dangling", "--report", "later.json"]), ["-o", "--report"]);
    }
    // one device for two outputs is nobody's loss
    succeed(d.path(), &[&FIT[..], &["-o", "/dev/null", "--report", "/dev/null"]].concat());
}

#[test]
fn no_other_command_writes_over_what_it_reads() {
    let d = workplace();
    untouched(d.path(), &["predict", "old.json", "census.csv", "-o", "./census.csv"], ["-o", "the data"]);
    untouched(d.path(), &["predict", "old.json", "census.csv", "-o", "./old.json"], ["-o", "the model"]);
    untouched(d.path(), &["split", "census.csv", "-o", "./census.csv", "b.csv"], ["TRAIN", "the data"]);
    untouched(d.path(), &["split", "census.csv", "-o", "a.csv", "./a.csv"], ["TRAIN", "TEST"]);
    std::fs::write(d.path().join("v.libsvm"), "0 1:0.5\n".repeat(500)).unwrap();
    let mean = ["mean", "v.libsvm", "--features", "9", "--sparsity", "1", "--epsilon", "0.3", "--delta=1e-6"];
    untouched(d.path(), &[&mean[..], &["-o", "./v.libsvm"]].concat(), ["-o", "the data"]);
    untouched(d.path(), &[&mean[..], &LEDGER, &["-o", "budget.jsonl"]].concat(), ["-o", "--ledger"]);
    // public facts of another table beside the one that is asked for
    std::fs::write(d.path().join("bounds.toml"), "[age]\nlower = 0\nupper = 99\n").unwrap();
    std::fs::write(d.path().join("c.bounds.toml"), "[age]\nlower = 0\nupper = 98\n").unwrap();
    untouched(d.path(), &["generate", "census", "--rows", "50", "-o", "c.csv"], ["c.bounds.toml", "--overwrite"]);
    succeed(d.path(), &["generate", "census", "--rows", "50", "-o", "c.csv", "--overwrite"]);
    // the same public facts again are no loss
    succeed(d.path(), &["generate", "census", "--rows", "60", "-o", "c.csv"]);
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("bounds.toml", d.path().join("link.csv")).unwrap();
        untouched(d.path(), &["generate", "census", "--rows", "50", "-o", "link.csv"], ["-o", "bounds.toml"]);
    }
    let events = path(d.path(), "event.json");
    std::fs::write(&events, r#"{"gaussian":{"noise_multiplier":1.0}}"#).unwrap();
    let before = contents(d.path());
    let _ = dpopt(d.path(), &["account", "--event", "event.json", "--delta=1e-6", "--plot", "./event.json"]);
    assert!(before == contents(d.path()), "account --plot wrote over its event");
}

#[test]
fn a_table_is_not_counted_twice() {
    let d = workplace();
    let twice = |more: &str| {
        let line = refuse(
            d.path(),
            &["explain", "census.csv", more, "--target", "income", "--epsilon", "1", "--bounds", "bounds.toml"],
        );
        assert!(line.contains("census.csv") && line.contains("twice"), "{line}");
    };
    twice("./census.csv");
    std::fs::hard_link(d.path().join("census.csv"), d.path().join("other.csv")).unwrap();
    twice("other.csv");
    #[cfg(unix)]
    {
        std::fs::create_dir(d.path().join("parts")).unwrap();
        std::fs::rename(d.path().join("census.csv"), d.path().join("parts/a.csv")).unwrap();
        std::os::unix::fs::symlink("a.csv", d.path().join("parts/b.csv")).unwrap();
        let line =
            refuse(d.path(), &["explain", "parts", "--target", "income", "--epsilon", "1", "--bounds", "bounds.toml"]);
        assert!(line.contains("parts/a.csv") && line.contains("parts/b.csv"), "{line}");
    }
}

#[test]
fn the_private_table_is_not_public_data() {
    let d = workplace();
    let packed = {
        use std::io::Write;
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(&std::fs::read(d.path().join("census.csv")).unwrap()).unwrap();
        packer.finish().unwrap()
    };
    std::fs::write(d.path().join("packed.csv.gz"), packed).unwrap();
    std::fs::copy(d.path().join("census.csv"), d.path().join("copy.csv")).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("census.csv", d.path().join("link.csv")).unwrap();
    let before = contents(d.path());
    let mut names = vec!["census.csv", "./census.csv", "copy.csv", "packed.csv.gz"];
    if cfg!(unix) {
        names.push("link.csv");
    }
    for public in names {
        let mut arguments = vec![
            "fit",
            "census.csv",
            "--target",
            "income",
            "--epsilon",
            "0.1",
            "--delta=1e-6",
            "--public-data",
            public,
        ];
        arguments.extend(LEDGER);
        let line = refuse(d.path(), &arguments);
        assert!(line.contains("--public-data") && line.contains("same"), "{line}");
    }
    assert!(before == contents(d.path()));
    // one row less is another table
    let text = std::fs::read_to_string(d.path().join("census.csv")).unwrap();
    let shorter: Vec<&str> = text.lines().take(2000).collect();
    std::fs::write(d.path().join("sample.csv"), shorter.join("\n")).unwrap();
    succeed(
        d.path(),
        &["fit", "census.csv", "--target", "income", "--epsilon", "0.1", "--delta=1e-6", "--public-data", "sample.csv"],
    );
}

#[cfg(unix)]
#[test]
fn rights_are_never_widened() {
    use std::os::unix::fs::PermissionsExt;
    let d = workplace();
    let set = |name: &str, mode: u32| {
        std::fs::set_permissions(d.path().join(name), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let mode = |name: &str| std::fs::metadata(d.path().join(name)).unwrap().permissions().mode() & 0o777;
    // what a new file gets here
    std::fs::write(d.path().join("plain"), "").unwrap();
    let usual = mode("plain");
    // what stood there keeps its rights
    set("old.json", 0o600);
    succeed(d.path(), &[&FIT[..], &["-o", "old.json"]].concat());
    assert_eq!(mode("old.json"), 0o600);
    set("old.json", 0o640);
    succeed(d.path(), &[&FIT[..], &["-o", "old.json"]].concat());
    assert_eq!(mode("old.json"), 0o640);
    succeed(d.path(), &[&FIT[..], &["-o", "new.json"]].concat());
    assert_eq!(mode("new.json"), usual);
    // what is made of rows is for whom the rows are
    set("census.csv", 0o600);
    succeed(d.path(), &["split", "census.csv", "-o", "a.csv", "b.csv"]);
    assert_eq!((mode("a.csv"), mode("b.csv")), (0o600, 0o600));
    set("a.csv", 0o666);
    succeed(d.path(), &["split", "census.csv", "-o", "a.csv", "b.csv"]);
    assert_eq!(mode("a.csv"), 0o600);
    succeed(d.path(), &["predict", "new.json", "census.csv", "-o", "p.csv"]);
    assert_eq!(mode("p.csv"), 0o600);
    set("census.csv", 0o400);
    succeed(d.path(), &["predict", "new.json", "census.csv", "-o", "q.csv"]);
    assert_eq!(mode("q.csv"), 0o400);
    // a private model of a closed table is for everybody
    succeed(d.path(), &[&FIT[..], &["-o", "open.json"]].concat());
    assert_eq!(mode("open.json"), usual);
}

#[test]
fn a_model_can_go_to_standard_output_and_a_report_be_json() {
    let d = workplace();
    let output = dpopt(d.path(), &[&FIT[..], &["-o", "-", "--report", "r.json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let model: serde_json::Value = serde_json::from_slice(&output.stdout).expect("nothing but the model");
    assert_eq!(model["format"], "dpopt-model");
    assert!(!files(d.path()).contains(&"-".to_string()));
    // a person still sees what happened
    assert!(String::from_utf8_lossy(&output.stderr).contains("guarantee"));
    let report: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(d.path().join("r.json")).unwrap()).unwrap();
    assert_eq!(report["guarantee"], model["guarantee"]);
    assert!(report["coefficients"].as_array().is_some_and(|c| !c.is_empty()));
    let status = command(d.path(), &["predict", "-", "census.csv"]).status().unwrap();
    assert!(!status.success());
}
