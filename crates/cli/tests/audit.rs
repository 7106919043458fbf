//! `dpopt audit` of a foreign program: the protocol, the verdict and the picture.
#![cfg(unix)]

use std::path::Path;
use std::process::{Command, Output};

/// A program that prints the file's number plus Laplace noise of scale 1, five thousand runs per call at most. Its seeds are
/// below 2^31: awk may cut off larger ones, and calls would repeat each other.
const PROGRAM: &str = r#"awk -v c="$(cat "$1")" -v n="$DPOPT_AUDIT_RUNS" -v seed="$(od -An -N4 -tu4 /dev/urandom)" '
BEGIN { srand(seed % 2147483629); if (n > 5000) n = 5000; for (i = 0; i < n; i++) { u = rand(); v = rand(); s = v < 0.5 ? -1 : 1; print c - s * log(1 - u) } }'
"#;

fn audit(directory: &Path, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_dpopt"))
        .current_dir(directory)
        .args(["audit", "--command", "sh ./noisy.sh", "--with", "one.txt", "--without", "zero.txt", "--runs", "10000"])
        .args(more)
        .output()
        .expect("the binary runs")
}

fn prepared() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).expect("written");
    write("noisy.sh", PROGRAM);
    write("one.txt", "1\n");
    write("zero.txt", "0\n");
    directory
}

#[test]
fn a_true_claim_stands_and_a_false_one_falls() {
    let directory = prepared();
    // Laplace noise of scale 1 on a count: exactly 1-DP. It is accused with probability 6.7e-7 at most, by two bets at a third of --alpha's 1e-6 each; two of
    // its calls on a file get one seed, which is refused, with 9e-8
    let fair = audit(directory.path(), &["--epsilon", "1", "--picture", "roc.svg"]);
    let text = String::from_utf8_lossy(&fair.stdout).into_owned();
    assert!(fair.status.success(), "{text} {}", String::from_utf8_lossy(&fair.stderr));
    assert!(text.contains("claim not refuted"), "{text}");
    let svg = std::fs::read_to_string(directory.path().join("roc.svg")).expect("the picture");
    assert!(svg.starts_with("<svg") && svg.contains("</svg>"));

    // every run made and counted: the bound is above the claim. Of 7,500 counted runs half and .18 are beyond 1, which bounds ε by .8 from below; for .3 they
    // would have to be 20 standard deviations nearer to each other
    let false_claim = audit(directory.path(), &["--epsilon", "0.3", "--json", "--all-runs"]);
    assert_eq!(false_claim.status.code(), Some(1));
    let report: serde_json::Value = serde_json::from_slice(&false_claim.stdout).expect("JSON");
    assert_eq!(report["verdict"], "violated");
    assert!(report["lower_bound"].as_f64().expect("a number") > 0.3);
    assert_eq!(report["runs"], 10_000);
}

#[test]
fn a_false_claim_falls_early_and_the_result_says_when() {
    let directory = prepared();
    let early = audit(directory.path(), &["--epsilon", "0.3", "--json", "--picture", "roc.svg"]);
    assert_eq!(early.status.code(), Some(1));
    let report: serde_json::Value = serde_json::from_slice(&early.stdout).expect("JSON");
    assert_eq!(report["verdict"], "violated");
    let needed = report["stopping"]["refuted_after"].as_u64().expect("a number of runs");
    // wealth grows by .05 in its logarithm per pair, with a deviation of .3, and 14.9 are needed: 320 pairs, and 5,000 with probability below 1e-20 (Bernstein)
    assert!(needed < 5000 && report["runs"].as_u64() == Some(needed), "{needed}");
    assert!(report["stopping"]["p_value"].as_f64().expect("a number") < 1e-5);
    let svg = std::fs::read_to_string(directory.path().join("roc.svg")).expect("the picture");
    assert!(svg.contains("claim violated") && svg.contains("bet on"));

    let text = audit(directory.path(), &["--epsilon", "0.3"]);
    assert!(String::from_utf8_lossy(&text.stdout).contains("the claim was refuted after"));
}

#[test]
fn mistakes_say_what_to_do() {
    let directory = prepared();
    let without_claim = audit(directory.path(), &[]);
    assert_eq!(without_claim.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&without_claim.stderr).contains("--epsilon"));
    std::fs::write(directory.path().join("noisy.sh"), "echo secret of alice").expect("written");
    let words = audit(directory.path(), &["--epsilon", "1"]);
    let error = String::from_utf8_lossy(&words.stderr).into_owned();
    assert!(error.contains("line 1") && !error.contains("alice"), "{error}");
}

/// Repeated runs are no independent runs: a true claim would fall by them.
#[test]
fn a_program_that_repeats_its_randomness_is_refused() {
    let directory = prepared();
    let seeded = PROGRAM.replace("$(od -An -N4 -tu4 /dev/urandom)", "7");
    std::fs::write(directory.path().join("noisy.sh"), seeded).expect("written");
    for more in [&["--epsilon", "1"][..], &["--epsilon", "1", "--all-runs"]] {
        let output = audit(directory.path(), more);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains("repeats its randomness"), "{error}");
    }
    // few different numbers may well come twice
    std::fs::write(
        directory.path().join("noisy.sh"),
        "yes 1 | head -n $(( DPOPT_AUDIT_RUNS < 50 ? DPOPT_AUDIT_RUNS : 50 ))",
    )
    .expect("written");
    let constant = audit(directory.path(), &["--epsilon", "1"]);
    assert!(constant.status.success(), "{}", String::from_utf8_lossy(&constant.stderr));
}

#[test]
fn an_output_without_end_is_stopped() {
    let directory = prepared();
    for (program, part) in [
        ("yes 1", "printed more than"),
        ("while :; do echo 1; done", "printed more than"),
        ("cat /dev/zero", "printed more than"),
        ("yes 1 | tr -d '\\n'", "printed more than"),
        ("yes secret of alice", "line 1"),
        ("echo 1; exit 3", "failed"),
        ("exit 0", "no number"),
    ] {
        std::fs::write(directory.path().join("noisy.sh"), program).expect("written");
        for more in [&["--epsilon", "1"][..], &["--epsilon", "1", "--all-runs"]] {
            let started = std::time::Instant::now();
            let output = audit(directory.path(), more);
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(2), "{program}: {error}");
            assert!(error.contains(part) && !error.contains("alice"), "{program}: {error}");
            // the programs do not end by themselves
            assert!(started.elapsed().as_secs() < 900, "{program}");
        }
    }
}
