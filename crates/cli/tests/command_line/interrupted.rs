//! Ctrl-C, full disks, readers that go away: no partial file, a clear line.

use crate::{census, command, dpopt, files, path, succeed};
use std::process::Stdio;
use std::time::Duration;

#[cfg(unix)]
#[test]
fn ctrl_c_leaves_nothing_behind() {
    let (data, bounds) = (path(census(), "census.csv"), path(census(), "bounds.toml"));
    let mut stopped = 0;
    for round in 0u64..24 {
        let d = tempfile::tempdir().unwrap();
        let arguments = [
            "fit",
            &data,
            "--target",
            "income",
            "--epsilon",
            "1",
            "--bounds",
            &bounds,
            "--report",
            "r.html",
            "--method",
            "noisy-gradient-descent",
        ];
        let mut child = command(d.path(), &arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // the last rounds fall into the writing of the files on a fast machine
        std::thread::sleep(Duration::from_millis(5 + round * round * 2));
        let _ = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        let status = child.wait().unwrap();
        let names = files(d.path());
        if status.success() {
            assert_eq!(names, ["model.json", "r.html"]);
        } else {
            stopped += 1;
            // both files are whole when they exist; nothing else is there
            assert!(names.iter().all(|n| n == "model.json" || n == "r.html"), "{names:?}");
        }
    }
    assert!(stopped > 0, "no run was interrupted");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error_and_leaves_nothing() {
    let d = tempfile::tempdir().unwrap();
    let (data, bounds) = (path(census(), "census.csv"), path(census(), "bounds.toml"));
    let fit = ["fit", &data, "--target", "income", "--epsilon", "1", "--bounds", &bounds];
    let output = dpopt(d.path(), &[&fit[..], &["-o", "/dev/full"]].concat());
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("cannot write /dev/full"), "{stderr}");
    // the report fails: the model must not appear either
    let output = dpopt(d.path(), &[&fit[..], &["-o", "m.json", "--report", "/dev/full"]].concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(files(d.path()).is_empty(), "{:?}", files(d.path()));
    // standard output
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let status = command(d.path(), &["account", "gaussian(1)", "--delta", "1e-6"])
        .stdout(full)
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(1));
}

#[cfg(target_os = "linux")]
#[test]
fn a_small_disk_that_fills_up_leaves_no_partial_file() {
    let d = tempfile::tempdir().unwrap();
    let small = d.path().join("small");
    let Some(disk) = crate::SmallDisk::at(&small) else { return };
    let (data, bounds) = (path(census(), "census.csv"), path(census(), "bounds.toml"));
    let fit = [
        "fit",
        &data,
        "--target",
        "income",
        "--epsilon",
        "1",
        "--bounds",
        &bounds,
        "-o",
        "small/m.json",
        "--report",
        "small/r.html",
    ];
    let output = dpopt(d.path(), &fit);
    let left = files(&small);
    drop(disk);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let d = tempfile::tempdir().unwrap();
    let (data, bounds) = (path(census(), "census.csv"), path(census(), "bounds.toml"));
    succeed(d.path(), &["fit", &data, "--target", "income", "--epsilon", "1", "--bounds", &bounds]);
    let mut child = command(d.path(), &["predict", "model.json", &data]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}

#[cfg(unix)]
#[test]
fn a_charge_that_stays_after_ctrl_c_is_reported() {
    let d = tempfile::tempdir().unwrap();
    succeed(d.path(), &["generate", "census", "--rows", "60000", "--seed", "2", "-o", "t.csv"]);
    let fit = ["fit", "t.csv", "--target", "income", "--epsilon", "1", "--bounds", "bounds.toml"];
    // hours of passes
    let slow =
        ["--method", "noisy-gradient-descent", "--steps", "2000000", "--ledger", "l.jsonl", "--total-epsilon", "1"];
    let arguments = [&fit[..], &slow, &["--total-delta=1e-3"]].concat();
    let child = command(d.path(), &arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let charged = || std::fs::read_to_string(d.path().join("l.jsonl")).is_ok_and(|text| text.contains("\"charge\""));
    for _ in 0..600 {
        if charged() {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(charged());
    // the file is written a moment before the program knows that it is
    std::thread::sleep(Duration::from_millis(300));
    let asked = std::time::Instant::now();
    let _ = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    // milliseconds on an idle machine, hours if nobody hears of it
    assert!(asked.elapsed() < Duration::from_secs(600), "{:?}", asked.elapsed());
    assert!(stderr.contains("l.jsonl keeps the charge of this run"), "{stderr}");
    assert_eq!(files(d.path()), ["bounds.toml", "l.jsonl", "t.csv"]);
}
