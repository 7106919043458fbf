//! `--workers`: processes that hold the rows of a fit, however many, and whatever happens to them.

use crate::{census, command, files, refuse, succeed};
use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};

/// The census table in `shards` files with bounds that both ways of fitting know; returns the names of the files.
fn shards(directory: &Path, shards: usize) -> Vec<String> {
    let text = std::fs::read_to_string(census().join("census.csv")).unwrap();
    let mut lines = text.split_inclusive('\n');
    let header = lines.next().unwrap();
    let rows: Vec<&str> = lines.collect();
    let bounds = std::fs::read_to_string(census().join("bounds.toml")).unwrap();
    std::fs::write(directory.join("b.toml"), format!("{bounds}\n[dpopt]\nspread = false\n")).unwrap();
    // of different sizes, the last rows in the smallest
    let ends = (0..=shards).map(|i| (i * (2 * shards - i) * rows.len()) / (shards * shards)).collect::<Vec<_>>();
    let name = |(i, span): (usize, &[usize])| {
        let name = format!("part-{i}.csv");
        std::fs::write(directory.join(&name), header.to_string() + &rows[span[0]..span[1]].concat()).unwrap();
        name
    };
    ends.windows(2).enumerate().map(name).collect()
}

/// The flags of a fit of these files.
fn fit<'a>(data: &[&'a str], method: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    // of a number, or of two classes
    let number = matches!(method, "sufficient-statistics" | "adaptive-clip-descent");
    let target = if number { "hours_per_week" } else { "income" };
    let flags =
        ["--target", target, "--epsilon", "1", "--delta", "1e-6", "--bounds", "b.toml", "--bad-cells", "missing"];
    [&["fit"], data, &flags, &["--method", method, "-o", "m.json"], more].concat()
}

const SEED: [&str; 2] = ["--insecure-seed", "3"];

fn model(directory: &Path, arguments: &[&str]) -> Vec<u8> {
    succeed(directory, arguments);
    std::fs::read(directory.join("m.json")).unwrap()
}

#[test]
fn a_model_has_the_same_bytes_for_any_number_of_workers() {
    let d = tempfile::tempdir().unwrap();
    let names = shards(d.path(), 7);
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    // sums of integers in parts and of floats in memory: the last digits differ there
    let solved = ["objective-perturbation", "noisy-newton"];
    let exact = ["noisy-gradient-descent", "adaptive-clip-descent", "sufficient-statistics", "regularized-descent"];
    for method in exact.iter().chain(&solved) {
        let methods_own: &[&str] = match *method {
            "noisy-gradient-descent" | "adaptive-clip-descent" => &["--steps", "8"],
            "regularized-descent" => &["--steps", "5"],
            "noisy-newton" => &["--steps", "3"],
            _ => &[],
        };
        let one = model(d.path(), &fit(&all, method, &[&SEED, methods_own, &["--workers", "1"]].concat()));
        for workers in ["2", "7"] {
            // by whole files and by blocks of one, in memory and out of it
            let more = [&SEED, methods_own, &["--workers", workers, "--memory", "64K"]].concat();
            assert!(model(d.path(), &fit(&all, method, &more)) == one, "{method} {workers}");
        }
        let blocks = [&SEED, methods_own, &["--workers", "2"]].concat();
        std::fs::copy(census().join("census.csv"), d.path().join("whole.csv")).unwrap();
        assert!(model(d.path(), &fit(&["whole.csv"], method, &blocks)) == one, "{method}, one file");
        if !solved.contains(method) {
            let none = model(d.path(), &fit(&all, method, &[&SEED[..], methods_own].concat()));
            assert!(none == one, "{method}, no workers");
        }
    }
}

#[test]
fn what_workers_cannot_do_is_refused_before_anything_is_charged() {
    let d = tempfile::tempdir().unwrap();
    let names = shards(d.path(), 2);
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    let ledger = ["--workers", "2", "--ledger", "l.jsonl", "--total-epsilon", "3", "--total-delta", "1e-5"];
    let why = refuse(d.path(), &fit(&all, "dp-ftrl", &ledger));
    assert!(why.contains("noisy-gradient-descent"), "{why}");
    let strict: Vec<&str> =
        fit(&all, "auto", &ledger).into_iter().map(|word| if word == "missing" { "error" } else { word }).collect();
    assert!(refuse(d.path(), &strict).contains("--bad-cells error does not work with --workers"));
    let bounds = std::fs::read_to_string(d.path().join("b.toml")).unwrap();
    let of_persons = [&ledger[..], &["--unit", "age", "--bounds", "c.toml"]].concat();
    std::fs::write(d.path().join("c.toml"), bounds.replacen("lower = 17\nupper = 90", "ignore = true", 1)).unwrap();
    let of_persons: Vec<&str> = fit(&all, "auto", &of_persons).into_iter().filter(|word| *word != "b.toml").collect();
    let place = of_persons.iter().position(|word| *word == "--bounds").unwrap();
    let of_persons = [&of_persons[..place], &of_persons[place + 1..]].concat();
    let why = refuse(d.path(), &of_persons);
    assert!(why.contains("remote records with privacy units"), "{why}");
    // a file that cannot be read to its end: reported without a value of it, by the worker that has it
    std::fs::write(d.path().join("part-1.csv.gz"), b"\x1f\x8b\x08\x00 917 is no gzip").unwrap();
    let broken =
        refuse(d.path(), &fit(&["part-0.csv", "part-1.csv.gz"], "auto", &[&ledger[..], &["--rows", "3000"]].concat()));
    assert!(broken.contains("part-1.csv.gz") && !broken.contains("917"), "{broken}");
    assert!(!d.path().join("l.jsonl").exists() && !d.path().join("m.json").exists(), "{:?}", files(d.path()));
}

#[test]
fn workers_show_what_a_plan_asks_of_them() {
    let d = tempfile::tempdir().unwrap();
    shards(d.path(), 1);
    let facts = ["explain", "part-0.csv", "--target", "income", "--epsilon", "1", "--bounds", "b.toml"];
    let out = succeed(d.path(), &[&facts[..], &["--workers", "3", "--bad-cells", "missing"]].concat());
    assert!(out.contains("noisy-gradient-descent"), "{out}");
}

/// Process ids of the workers of `fit`.
#[cfg(target_os = "linux")]
fn workers_of(fit: u32) -> Vec<u32> {
    let is_child = |process: &u32| {
        let status = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        // after the name in brackets: state, then the parent
        status.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)) == Some(&fit.to_string())
    };
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| entry.file_name().to_string_lossy().parse().ok()).filter(is_child).collect()
}

#[cfg(target_os = "linux")]
fn kill(process: u32) {
    let _ = std::process::Command::new("kill").args(["-KILL", &process.to_string()]).stderr(Stdio::null()).status();
}

/// The first row of a file again and again, packed so that a few megabytes take a minute to read: no worker gets through it before it is killed.
#[cfg(target_os = "linux")]
fn read_for_a_minute(directory: &Path, name: &str) {
    let text = std::fs::read_to_string(directory.join(name)).unwrap();
    let (header, rows) = text.split_at(text.find('\n').unwrap() + 1);
    let row = rows.split_inclusive('\n').next().unwrap();
    let packed = |text: &str| {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gzip.write_all(text.as_bytes()).unwrap();
        gzip.finish().unwrap()
    };
    let mut file = std::fs::File::create(directory.join(format!("{name}.gz"))).unwrap();
    file.write_all(&packed(header)).unwrap();
    file.write_all(&packed(&row.repeat(10_000)).repeat(5_000)).unwrap();
}

/// Runs a fit while `meanwhile` gets its process id again and again.
#[cfg(target_os = "linux")]
fn while_running(directory: &Path, arguments: &[&str], mut meanwhile: impl FnMut(u32)) -> Output {
    let mut child = command(directory, arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while child.try_wait().unwrap().is_none() {
        meanwhile(child.id());
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    child.wait_with_output().unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn a_worker_that_is_killed_is_started_again_and_the_model_is_the_same() {
    let d = tempfile::tempdir().unwrap();
    let names = shards(d.path(), 2);
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    let more = [&SEED[..], &["--steps", "6000", "--sampling-probability", "0.5", "--workers", "2"]].concat();
    // one that is restarted has to find the same sample too
    let arguments = fit(&all, "noisy-sgd", &more);
    let expected = model(d.path(), &arguments);
    std::fs::remove_file(d.path().join("m.json")).unwrap();
    let (mut killed, mut seen, mut looked) = (Vec::new(), Vec::new(), 0);
    let output = while_running(d.path(), &arguments, |fit| {
        // one while it reads its rows, another one a while after the third is there, when queries are answered
        for worker in workers_of(fit) {
            if !seen.contains(&worker) {
                seen.push(worker);
            }
            if (killed.is_empty() || (killed.len() == 1 && looked > 100)) && !killed.contains(&worker) {
                kill(worker);
                killed.push(worker);
            }
        }
        looked += usize::from(seen.len() > 2);
    });
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}");
    assert_eq!(killed.len(), 2);
    assert!(stderr.contains("is restarted"), "{stderr}");
    assert!(std::fs::read(d.path().join("m.json")).unwrap() == expected);
}

#[cfg(target_os = "linux")]
#[test]
fn workers_that_are_killed_again_and_again_end_the_fit_before_it_is_charged() {
    let d = tempfile::tempdir().unwrap();
    shards(d.path(), 2);
    read_for_a_minute(d.path(), "part-1.csv");
    let ledger = ["--workers", "2", "--ledger", "l.jsonl", "--total-epsilon", "3", "--total-delta", "1e-5"];
    let arguments = fit(&["part-0.csv", "part-1.csv.gz"], "auto", &ledger);
    let output = while_running(d.path(), &arguments, |fit| workers_of(fit).into_iter().for_each(kill));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("ended 3 times") && stderr.contains("nothing was charged"), "{stderr}");
    assert!(!d.path().join("l.jsonl").exists() && !d.path().join("m.json").exists(), "{:?}", files(d.path()));
}

/// After the charge a fit that cannot go on ends with it: nothing is released, and nothing is given back.
#[cfg(target_os = "linux")]
#[test]
fn a_fit_that_loses_its_workers_or_their_records_after_the_charge_stays_charged() {
    for (lost, expected, code) in [(true, "ended 3 times", 1), (false, "changed since the fit began", 2)] {
        let d = tempfile::tempdir().unwrap();
        let names = shards(d.path(), 2);
        let all: Vec<&str> = names.iter().map(String::as_str).collect();
        let ledger = ["--steps", "100000", "--ledger", "l.jsonl", "--total-epsilon", "3", "--total-delta", "1e-5"];
        let arguments = fit(&all, "noisy-gradient-descent", &[&ledger[..], &["--workers", "2"]].concat());
        let mut done = false;
        let output = while_running(d.path(), &arguments, |fit| {
            // a ledger has a line for what it is about, and one for the charge
            let charged = std::fs::read_to_string(d.path().join("l.jsonl")).is_ok_and(|text| text.lines().count() > 1);
            if !charged || done {
                return;
            }
            if !lost {
                std::fs::copy(d.path().join("part-1.csv"), d.path().join("part-0.csv")).unwrap();
                done = true;
            }
            workers_of(fit).into_iter().for_each(kill);
        });
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{stderr}");
        assert!(stderr.contains(expected) && !stderr.contains("nothing was charged"), "{stderr}");
        assert!(!d.path().join("m.json").exists(), "{:?}", files(d.path()));
        let spent = succeed(d.path(), &["ledger", "l.jsonl"]);
        assert_eq!(spent.matches("fit income").count(), 1, "{spent}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn workers_end_with_the_fit() {
    let d = tempfile::tempdir().unwrap();
    let names = shards(d.path(), 2);
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    let more = ["--steps", "100000", "--workers", "2"];
    let mut child = command(d.path(), &fit(&all, "noisy-gradient-descent", &more))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut seen = Vec::new();
    while seen.len() < 2 {
        assert!(child.try_wait().unwrap().is_none(), "the fit ended before its workers were seen");
        seen = workers_of(child.id());
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // one that has ended stays in the list until somebody asks for it, if the machine's first process does not
    let alive = |process: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
    };
    for _ in 0..200 {
        if !seen.iter().any(alive) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("a worker outlives its fit");
}

#[test]
fn a_sampled_model_has_the_same_bytes_in_one_worker_and_none() {
    let d = tempfile::tempdir().unwrap();
    let mut names = shards(d.path(), 3);
    // the largest neither first nor last
    names.swap(0, 1);
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    let sampled = [&SEED[..], &["--steps", "20"]].concat();
    let none = model(d.path(), &fit(&all, "noisy-sgd", &sampled));
    let one = model(d.path(), &fit(&all, "noisy-sgd", &[&sampled[..], &["--workers", "1"]].concat()));
    assert!(one == none);
    // blocks lie at other places than in the table, and a worker that is out of memory finds the same ones
    let two = |more: &[&str]| model(d.path(), &fit(&all, "noisy-sgd", &[&sampled[..], more].concat()));
    assert!(two(&["--workers", "2"]) == two(&["--workers", "2", "--memory", "64K"]));
}

#[test]
fn a_worker_by_itself_says_who_starts_it() {
    let d = tempfile::tempdir().unwrap();
    let output = command(d.path(), &["worker"]).stdin(Stdio::null()).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && stderr.contains("dpopt fit --workers"), "{stderr}");
}

#[test]
fn a_worker_that_gets_another_message_says_so() {
    let d = tempfile::tempdir().unwrap();
    let mut child = command(d.path(), &["worker"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let message = [&3u64.to_le_bytes()[..], b"abc"].concat();
    // open until it has written its message: it ends at once when nobody is there any more
    let mut input = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, &message).unwrap();
    let output = child.wait_with_output().unwrap();
    drop(input);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && stderr.contains("dpopt fit --workers"), "{stderr}");
}
