//! `explain` looks at the header and nothing else.

use crate::{census, command, files, path, refuse, succeed};
use std::time::{Duration, Instant};

#[test]
fn every_method_is_shown_with_its_reasons() {
    let d = tempfile::tempdir().unwrap();
    let (data, bounds) = (path(census(), "census.csv"), path(census(), "bounds.toml"));
    let common = ["explain", &data, "--target", "income", "--epsilon", "1", "--delta", "1e-6", "--bounds", &bounds];
    let out = succeed(d.path(), &common);
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
    let out = succeed(d.path(), &[&common[..], &["--method", "regularized-descent"], arguments].concat());
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
    // a pipe that delivers a header and then stays open: whoever asks for a row waits for ever
    let d = tempfile::tempdir().unwrap();
    let pipe = d.path().join("t.csv");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    std::fs::write(d.path().join("b.toml"), "[x]\nlower = 0\nupper = 1\n[y]\nlevels = ['a', 'b']\n").unwrap();
    let explain = ["explain", "t.csv", "--target", "y", "--epsilon", "1", "--bounds", "b.toml", "--rows", "1000"];
    let mut child = command(d.path(), &explain).stdout(std::process::Stdio::null()).spawn().unwrap();
    let mut writer = std::fs::OpenOptions::new().write(true).open(&pipe).unwrap();
    std::io::Write::write_all(&mut writer, b"x,y\n").unwrap();
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break Some(status);
        }
        if started.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            break None;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(status.is_some_and(|s| s.success()), "explain waited for a row");
}

/// Where units are protected, each method says what it clips; elsewhere nobody is bothered with it.
#[test]
fn what_is_clipped_is_a_column_where_units_are_protected() {
    let d = tempfile::tempdir().unwrap();
    succeed(d.path(), &["generate", "panel", "--units", "200", "--rows-per-unit", "3", "-o", "t.csv"]);
    let base = ["explain", "t.csv", "--target", "outcome", "--bounds", "bounds.toml", "--epsilon", "1"];
    let line = |out: &str, start: &str| out.lines().find(|l| l.starts_with(start)).unwrap_or_default().to_owned();
    let units = succeed(d.path(), &[&base[..], &["--unit", "person", "--max-rows-per-unit", "2"]].concat());
    assert!(line(&units, "method").ends_with("clips"), "{units}");
    assert!(line(&units, "noisy-gradient-descent").ends_with("  unit"), "{units}");
    assert!(line(&units, "objective-perturbation").ends_with("  row × 2"), "{units}");
    let rows = succeed(d.path(), &base);
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
