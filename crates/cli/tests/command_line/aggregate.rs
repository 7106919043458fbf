//! `dpopt aggregate`: any program's answer, made private; what goes wrong in a group, and what is left when it is stopped.
#![cfg(unix)]

use crate::{command, dpopt, files, refuse, succeed};
use std::fmt::Write;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

const ROWS: u32 = 6000;
/// Mean of the second column.
const MEAN: &str = "awk -F, 'NR > 1 {s += $2} END {print s / (NR - 1)}' {group}";
const TERMS: [&str; 10] =
    ["--groups", "150", "--range", "0:10", "--radius", "0.4", "--epsilon", "4", "--delta", "1e-6"];

/// Numbers of mean 4.5 in 0..=9; five rows each of 1200 persons.
fn table(directory: &Path) {
    let mut text = "person,x\n".to_string();
    for i in 0..ROWS {
        let _ = writeln!(text, "p{},{}", i % 1200, (i * 7 + i / 1200 * 3) % 10);
    }
    std::fs::write(directory.join("t.csv"), text).unwrap();
}

fn aggregate<'a>(program: &'a str, extra: &[&'a str]) -> Vec<&'a str> {
    ["aggregate", "t.csv", "--command", program].into_iter().chain(TERMS).chain(extra.iter().copied()).collect()
}

fn json(path: &Path) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn what_most_groups_agree_on_is_released_with_its_guarantee() {
    let d = tempfile::tempdir().unwrap();
    table(d.path());
    let printed = succeed(
        d.path(),
        &aggregate(MEAN, &["--unit", "person", "--report", "r.html", "--ledger", "l.jsonl", "--total-epsilon", "9"]),
    );
    assert!(printed.contains("150 groups of 1200 units (person)") && printed.contains("charge 1"), "{printed}");
    let found = json(&d.path().join("aggregate.json"));
    let (value, noise) = (found["value"][0].as_f64().unwrap(), found["noise_std"][0].as_f64().unwrap());
    // a ledger takes secret noise only. It is .3: 5.6 standard deviations, beyond which it lies with probability below 1e-7; that no answer comes
    // though all groups agree has 1e-7 at most
    assert!((value - 4.5).abs() < 5.0 * noise + 0.2 && noise < 1.0, "{value} {noise}");
    assert_eq!((&found["guarantee"]["unit"], &found["guarantee"]["grade"]), (&"user".into(), &"certified".into()));
    assert!(succeed(d.path(), &["verify", "aggregate.json"]).contains("holds"));
    let report = std::fs::read_to_string(d.path().join("r.html")).unwrap();
    assert!(
        report.contains("What groups of records agree on") && report.contains("depends on no record outside its group")
    );
    // a seed repeats, and lines are the same numbers
    let seeded = |file| succeed(d.path(), &aggregate(MEAN, &["--insecure-seed", "3", "-o", file]));
    assert!(seeded("a.json").contains("NO privacy"));
    seeded("b.csv");
    let lines = std::fs::read_to_string(d.path().join("b.csv")).unwrap();
    let value = json(&d.path().join("a.json"))["value"][0].as_f64().unwrap();
    let line: Vec<&str> = lines.lines().nth(1).unwrap().split(',').collect();
    assert_eq!((lines.lines().next().unwrap(), line[0], line[1].parse()), ("number,value,noise_std", "1", Ok(value)));
}

#[test]
fn a_plan_runs_nothing_and_tells_noise_and_time() {
    let d = tempfile::tempdir().unwrap();
    table(d.path());
    let printed =
        succeed(d.path(), &aggregate("touch ran {group}", &["--explain", "--jobs", "3", "--time-limit", "2m"]));
    assert!(printed.contains("no record was read") && printed.contains("at most about 6000 s"), "{printed}");
    let plan: serde_json::Value =
        serde_json::from_str(&succeed(d.path(), &aggregate("touch ran {group}", &["--explain", "--json"]))).unwrap();
    assert!(plan["certified_epsilon"].as_f64().unwrap() <= 4.0 && plan["schedule"]["core"].as_u64().unwrap() > 100);
    assert_eq!(files(d.path()), ["t.csv"]);
}

#[test]
fn whatever_a_run_does_is_no_answer_and_nobody_sees_why() {
    let d = tempfile::tempdir().unwrap();
    table(d.path());
    for wrong in [
        "false {group}",
        "cat {group}",
        "yes {group}",
        "sh -c 'cat $0 >&2; echo 4 5' {group}",
        "sh -c 'kill -9 $$' {group}",
    ] {
        let output = dpopt(d.path(), &aggregate(wrong, &["--insecure-seed", "3", "--bad-cells", "missing"]));
        let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        assert!(output.status.success() && out.contains("no answer: too few groups agree"), "{wrong}: {out} {err}");
        assert!(!err.contains("p17") && !out.contains("p17"), "{err}");
        assert!(json(&d.path().join("aggregate.json"))["value"].is_null());
    }
    // a person who breaks the program breaks one group
    std::fs::write(
        d.path().join("f.sh"),
        format!("grep -q p17, \"$1\" && exit 3; {}", MEAN.replace("{group}", "\"$1\"")),
    )
    .unwrap();
    let fragile = aggregate("sh f.sh {group}", &["--insecure-seed", "3", "--unit", "person"]);
    assert!(succeed(d.path(), &fragile).contains("number 1: 4."));
}

#[test]
fn a_run_that_does_not_end_ends_with_its_limit() {
    let d = tempfile::tempdir().unwrap();
    table(d.path());
    std::fs::write(
        d.path().join("s.sh"),
        format!("grep -q p17, \"$1\" && sleep 1000; {}", MEAN.replace("{group}", "\"$1\"")),
    )
    .unwrap();
    let begun = Instant::now();
    let slow = ["--unit", "person", "--time-limit", "3s", "--jobs", "2", "--insecure-seed", "3"];
    assert!(succeed(d.path(), &aggregate("sh s.sh {group}", &slow)).contains("number 1: "));
    // well before the program would have ended by itself, on a busy machine too
    assert!(begun.elapsed() < Duration::from_secs(900));
}

#[test]
fn what_is_wrong_is_refused_before_anything_is_charged_or_run() {
    let d = tempfile::tempdir().unwrap();
    table(d.path());
    let ledger = ["--ledger", "l.jsonl", "--total-epsilon", "9"];
    let touch = "touch ran {group}";
    for (program, extra, expected) in [
        ("touch ran", &[][..], "{group}"),
        ("no-such-program {group}", &[], "no program"),
        ("touch 'ran {group}", &[], "quote"),
        (touch, &["--groups", "20"], "too few"),
        (touch, &["--range", "3:1"], "range 1"),
        (touch, &["--range", "0-1"], "write LOW:HIGH"),
        (touch, &["--range", "0:1,0:1", "--dimension", "3"], "--dimension is 3"),
        (touch, &["--dimension", "0"], "--dimension is 0"),
        (touch, &["--dimension", "99999999999"], "1 to 2^24 numbers"),
        (touch, &["--jobs", "0"], "jobs is 0"),
        (touch, &["--delta", "0"], "delta > 0"),
        (touch, &["--radius", "40"], "the radius is 40"),
        (touch, &["--outliers", "0.5"], "outliers is 0.5"),
        (touch, &["--unit", "nobody"], "not a column"),
        (touch, &["--unit", "person", "--unit", "x", "--max-rows-per-unit", "2"], "several owners"),
        (touch, &["--relation", "add-or-remove"], "--rows"),
        (touch, &["--rows", "7"], "--rows is 7"),
        (touch, &["-o", "no/where.json"], "does not exist"),
    ] {
        let mut arguments = aggregate(program, &ledger);
        // a flag that the test gives replaces the usual one
        for pair in extra.chunks(2) {
            if let Some(at) = arguments.iter().position(|word| *word == pair[0] && pair[0] != "--unit") {
                arguments.drain(at..at + 2);
            }
            arguments.extend(pair);
        }
        let error = refuse(d.path(), &arguments);
        assert!(error.contains(expected), "{extra:?}: {error}");
        assert_eq!(files(d.path()), ["t.csv"], "{extra:?}");
    }
    let time = dpopt(d.path(), &aggregate(touch, &["--time-limit", "soon"]));
    assert_eq!(time.status.code(), Some(2));
    // an account that is empty
    let spent = aggregate(touch, &["--ledger", "l.jsonl", "--total-epsilon", "1"]);
    refuse(d.path(), &spent);
    assert_eq!(files(d.path()), ["t.csv"]);
}

#[test]
fn a_signal_stops_what_runs_and_leaves_no_rows() {
    for signal in ["-INT", "-TERM"] {
        let d = tempfile::tempdir().unwrap();
        table(d.path());
        let temporary = d.path().join("tmp");
        std::fs::create_dir(&temporary).unwrap();
        let program = format!("sh -c 'echo $$ >> {0}/pids; cp $0 {0}/seen; sleep 600' {{group}}", d.path().display());
        let mut child = command(d.path(), &aggregate(&program, &["--jobs", "2"]))
            .env("TMPDIR", &temporary)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let pids = || std::fs::read_to_string(d.path().join("pids")).unwrap_or_default();
        let begun = Instant::now();
        while pids().lines().count() < 2 {
            assert!(begun.elapsed() < Duration::from_secs(60), "no group was begun");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(files(&temporary).len(), 2, "a directory for each of two groups, and no name for the others' rows");
        std::process::Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
        assert!(!child.wait().unwrap().success());
        assert!(files(&temporary).is_empty(), "{signal}: {:?}", files(&temporary));
        assert!(!d.path().join("aggregate.json").exists());
        let goes_on = |pid: &str| {
            let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            !state.is_empty() && !state.contains(" Z ")
        };
        // a process that was killed ends when the machine comes to it, and this one would sleep for ten minutes
        let ended = Instant::now();
        while pids().lines().any(goes_on) {
            assert!(ended.elapsed() < Duration::from_secs(60), "{signal}: a program goes on");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
