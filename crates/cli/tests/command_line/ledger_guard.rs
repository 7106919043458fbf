//! What a ledger is and is not, what is found out before it is charged, receipts, held locks, runs killed while they write.

use crate::{census, command, dpopt, files, path, refuse, succeed};
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

const TOTAL: [&str; 5] = ["--ledger", "budget.jsonl", "--total-epsilon", "1", "--total-delta=1e-6"];

fn fit(epsilon: &str, more: &[&str]) -> Vec<String> {
    let (data, bounds) = (path(census(), "census.csv"), path(census(), "bounds.toml"));
    let mut arguments: Vec<String> =
        ["fit", &data, "--target", "income", "--epsilon", epsilon, "--delta=1e-6", "--bounds", &bounds]
            .map(String::from)
            .into();
    arguments.extend(more.iter().map(|s| s.to_string()));
    arguments
}

fn charged(epsilon: &str, more: &[&str]) -> Vec<String> {
    fit(epsilon, &[&TOTAL[..], more].concat())
}

fn words(arguments: &[String]) -> Vec<&str> {
    arguments.iter().map(String::as_str).collect()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Ends on its own, soon.
fn soon(directory: &Path, arguments: &[String]) -> Output {
    let mut child =
        command(directory, &words(arguments)).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > Duration::from_secs(600) {
            child.kill().unwrap();
            panic!("{arguments:?} hangs: {}", stderr(&child.wait_with_output().unwrap()));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.wait_with_output().unwrap()
}

#[test]
fn predictable_noise_is_not_charged_and_its_models_are_marked() {
    let d = tempfile::tempdir().unwrap();
    let line = refuse(d.path(), &words(&charged("0.3", &["--insecure-seed", "1"])));
    assert!(line.contains("--insecure-seed") && line.contains("--ledger"), "{line}");
    std::fs::write(d.path().join("v.libsvm"), "0 1:0.5\n".repeat(500)).unwrap();
    let mean = [
        "mean",
        "v.libsvm",
        "--features",
        "9",
        "--sparsity",
        "1",
        "--epsilon",
        "0.3",
        "--delta=1e-6",
        "--insecure-seed",
        "1",
    ];
    let line = refuse(d.path(), &[&mean[..], &TOTAL].concat());
    assert!(line.contains("--insecure-seed") && line.contains("--ledger"), "{line}");
    assert_eq!(files(d.path()), ["v.libsvm"]);
    succeed(d.path(), &words(&fit("0.3", &["--insecure-seed", "1", "--report", "r.json"])));
    let data = path(census(), "census.csv");
    for arguments in [
        &["predict", "model.json", &data][..],
        &["evaluate", "model.json", &data],
        &["evaluate", "model.json", &data, "--json"],
    ] {
        let output = dpopt(d.path(), arguments);
        assert!(
            output.status.success() && stderr(&output).contains("fixed seed"),
            "{arguments:?}: {}",
            stderr(&output)
        );
    }
    let output = dpopt(d.path(), &["evaluate", "model.json", &data, "--json"]);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["insecure_seed"], true);
    // there is nothing to verify
    let line = refuse(d.path(), &["verify", "model.json"]);
    assert!(line.contains("fixed seed"), "{line}");
}

#[test]
fn what_is_wrong_is_found_before_the_charge() {
    let d = tempfile::tempdir().unwrap();
    // a wrong number of rows is reported, right or wrong it is public
    let line = refuse(d.path(), &words(&charged("0.3", &["--rows", "2999"])));
    assert!(
        line.contains("--rows") && line.contains("2999") && line.contains("3000") && !line.contains("keeps the charge"),
        "{line}"
    );
    // places where no file can be made
    std::fs::write(d.path().join("file"), "").unwrap();
    for place in ["/proc/m.json", "file/m.json", "missing/m.json"] {
        for flag in ["-o", "--report"] {
            let output = dpopt(d.path(), &words(&charged("0.3", &[flag, place])));
            assert!(!output.status.success() && !stderr(&output).contains("is spent"), "{}", stderr(&output));
        }
    }
    // more than the totals: a first run that is refused leaves no ledger
    let line = refuse(d.path(), &words(&charged("2", &[])));
    assert!(line.contains("budget.jsonl"), "{line}");
    std::fs::write(d.path().join("v.libsvm"), "0 1:0.5\n".repeat(500)).unwrap();
    let mean = ["mean", "v.libsvm", "--features", "9", "--sparsity", "1", "--delta=1e-6"];
    refuse(d.path(), &[&mean[..], &["--epsilon", "2"], &TOTAL].concat());
    let line = refuse(d.path(), &[&mean[..], &["--epsilon", "0.3", "--rows", "499"], &TOTAL].concat());
    assert!(line.contains("--rows") && line.contains("500"), "{line}");
    assert_eq!(files(d.path()), ["file", "v.libsvm"]);
}

#[test]
fn the_rule_and_the_cost_are_printed() {
    let d = tempfile::tempdir().unwrap();
    let output = dpopt(d.path(), &words(&charged("0.3", &[])));
    let text = stderr(&output);
    assert!(
        output.status.success()
            && text.contains("(the renyi rule)")
            && text.contains("for the life of the ledger")
            && text.contains("so that their epsilons do not simply add"),
        "{text}"
    );
    // what is spent and what is left are the whole
    let share = |text: &str, start: &str, end: &str| -> f64 {
        text.split(start).nth(1).unwrap().split(end).next().unwrap().parse().unwrap()
    };
    let (spent, left) = (share(&text, "this run spends ", " % of the total"), share(&text, "; ", " % is left"));
    assert!(spent > 0.0 && (spent + left - 100.0).abs() < 0.011, "{text}");
    assert!(!text.contains("own delta"), "{text}");
    let text = stderr(&dpopt(d.path(), &words(&charged("0.3", &["-o", "b.json"]))));
    assert!(text.contains("under the renyi rule") && !text.contains("for the life of the ledger"), "{text}");
    succeed(d.path(), &words(&charged("0.65", &["-o", "d.json"])));
    // asked for in full
    let line = refuse(d.path(), &words(&charged("1", &["-o", "c.json"])));
    assert!(line.contains("half") && line.contains("epsilon 1,") && line.contains("is left under"), "{line}");
    let room = succeed(d.path(), &["ledger", "budget.jsonl"]);
    let room = room.split("may have about epsilon ").nth(1).unwrap().split(' ').next().unwrap();
    assert!(line.ends_with(&format!("at delta 1e-6 a run of up to about epsilon {room} fits")), "{line}");
}

/// A run may have a larger δ than the ledger: what it releases is composed, not its (ε, δ).
#[test]
fn a_delta_above_the_ledgers_is_explained() {
    let d = tempfile::tempdir().unwrap();
    let arguments = fit("0.3", &["--ledger", "budget.jsonl", "--total-epsilon", "2", "--total-delta=1e-8"]);
    let text = stderr(&dpopt(d.path(), &words(&arguments)));
    assert!(
        text.contains(
            "The run's own delta 1e-6 is above the total delta, and the total still holds: the ledger composes"
        ),
        "{text}"
    );
}

#[test]
fn only_a_ledger_is_a_ledger() {
    let d = tempfile::tempdir().unwrap();
    let notes = [
        ("note.txt", "hello"),
        ("lines.txt", "a\nb\n"),
        ("almost.jsonl", "{\"format\":\"dpopt-model\",\"version\":1}"),
        ("zeros", "\0\0\0"),
    ];
    for (name, text) in notes {
        std::fs::write(d.path().join(name), text).unwrap();
    }
    std::fs::create_dir(d.path().join("folder")).unwrap();
    let mut places: Vec<&str> = notes.iter().map(|(name, _)| *name).collect();
    places.push("folder");
    #[cfg(unix)]
    let _socket = std::os::unix::net::UnixListener::bind(d.path().join("socket")).unwrap();
    if cfg!(unix) {
        assert!(std::process::Command::new("mkfifo").arg(d.path().join("pipe")).status().unwrap().success());
        places.extend(["/dev/zero", "/dev/null", "pipe", "socket"]);
    }
    for place in places {
        for arguments in [
            fit("0.3", &["--ledger", place, "--total-epsilon", "1", "--total-delta=1e-6"]),
            ["ledger", place].map(String::from).into(),
        ] {
            let output = soon(d.path(), &arguments);
            let text = stderr(&output);
            assert_eq!(output.status.code(), Some(2), "{place}: {text}");
            assert!(text.contains("not a ledger") && text.lines().count() == 1, "{place}: {text}");
        }
    }
    for (name, text) in notes {
        assert_eq!(std::fs::read_to_string(d.path().join(name)).unwrap(), text);
    }
    assert!(!files(d.path()).contains(&"model.json".to_string()));
}

#[test]
fn a_cut_line_is_reported() {
    let d = tempfile::tempdir().unwrap();
    succeed(d.path(), &words(&charged("0.2", &[])));
    let mut bytes = std::fs::read(d.path().join("budget.jsonl")).unwrap();
    bytes.extend(b"{\"charge\":2,\"id\":");
    std::fs::write(d.path().join("budget.jsonl"), &bytes).unwrap();
    let text = succeed(d.path(), &["ledger", "budget.jsonl"]);
    assert!(text.contains("17 bytes") && text.contains("line 3"), "{text}");
    let output = dpopt(d.path(), &words(&charged("0.2", &["-o", "b.json"])));
    assert!(output.status.success() && stderr(&output).contains("17 bytes"), "{}", stderr(&output));
    // it stays, and is still reported, though lines follow it
    assert!(std::fs::read(d.path().join("budget.jsonl")).unwrap().starts_with(&bytes));
    let status: serde_json::Value =
        serde_json::from_str(&succeed(d.path(), &["ledger", "budget.jsonl", "--json"])).unwrap();
    assert_eq!(status["cut_lines"][0]["bytes"], 17);
    assert_eq!(status["charges"].as_array().unwrap().len(), 2);
}

#[test]
fn a_receipt_finds_a_ledger_that_lost_its_charge() {
    let d = tempfile::tempdir().unwrap();
    succeed(d.path(), &words(&charged("0.2", &["-o", "a.json"])));
    let early = std::fs::read(d.path().join("budget.jsonl")).unwrap();
    succeed(d.path(), &words(&charged("0.2", &["-o", "b.json", "--report", "b-report.json"])));
    std::fs::write(d.path().join("v.libsvm"), "0 1:0.5\n".repeat(500)).unwrap();
    let mean = [
        "mean",
        "v.libsvm",
        "--features",
        "9",
        "--sparsity",
        "1",
        "--epsilon",
        "0.2",
        "--delta=1e-6",
        "-o",
        "mean.json",
    ];
    succeed(d.path(), &[&mean[..], &TOTAL].concat());
    let model: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(d.path().join("b.json")).unwrap()).unwrap();
    assert_eq!(model["receipt"]["number"], 2);
    assert_eq!(model["receipt"]["check"].as_str().unwrap().len(), 16);
    let report: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(d.path().join("b-report.json")).unwrap()).unwrap();
    assert_eq!(report["receipt"], model["receipt"]);
    let verify = ["ledger", "budget.jsonl", "--verify", "a.json", "b.json", "b-report.json", "mean.json"];
    let text = succeed(d.path(), &verify);
    assert!(text.matches("is in the ledger").count() == 4, "{text}");
    // an old copy of the ledger
    let whole = std::fs::read(d.path().join("budget.jsonl")).unwrap();
    std::fs::write(d.path().join("budget.jsonl"), &early).unwrap();
    let output = dpopt(d.path(), &verify);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text.matches("is in the ledger").count() == 1 && text.contains("b.json") && text.contains("rolled back"),
        "{text}"
    );
    // another ledger with as many charges
    std::fs::remove_file(d.path().join("budget.jsonl")).unwrap();
    for name in ["x.json", "y.json", "z.json"] {
        succeed(d.path(), &words(&charged("0.2", &["-o", name])));
    }
    let output = dpopt(d.path(), &verify);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(2));
    assert!(!text.contains("is in the ledger") && text.contains("another ledger"), "{text}");
    // a model without a receipt is loaded, and reported
    std::fs::write(d.path().join("budget.jsonl"), whole).unwrap();
    succeed(d.path(), &words(&fit("0.2", &["-o", "free.json"])));
    let output = dpopt(d.path(), &["ledger", "budget.jsonl", "--verify", "free.json"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stdout).contains("no receipt"));
    succeed(d.path(), &["predict", "free.json", &path(census(), "census.csv"), "-o", "p.csv"]);
    // a claim that is larger than its charge
    let mut model = model;
    model["guarantee"]["epsilon"] = 5.0.into();
    std::fs::write(d.path().join("b.json"), model.to_string()).unwrap();
    let output = dpopt(d.path(), &["ledger", "budget.jsonl", "--verify", "b.json"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_guarantee_is_recomputed_from_its_event() {
    let d = tempfile::tempdir().unwrap();
    // labels are found privately: two stages. What is verified has no seed; of 728 and 2,272 rows with each label, noise of scale 20 takes one below the
    // threshold of 339 with probability 1.7e-9
    let (data, bounds) = (path(census(), "census.csv"), d.path().join("b.toml"));
    let facts = std::fs::read_to_string(census().join("bounds.toml")).unwrap();
    let without: String = facts.split("\n[").filter(|part| !part.contains("income]")).collect::<Vec<_>>().join("\n[");
    std::fs::write(&bounds, without).unwrap();
    succeed(
        d.path(),
        &["fit", &data, "--target", "income", "--epsilon", "1", "--delta=1e-6", "--bounds", "b.toml", "-o", "two.json"],
    );
    succeed(d.path(), &words(&fit("1", &["-o", "one.json", "--method", "noisy-sgd", "--report", "r.json"])));
    let text = succeed(d.path(), &["verify", "one.json", "two.json", "r.json"]);
    assert_eq!(text.matches("holds").count(), 3, "{text}");
    assert!(text.contains("labels") && text.contains("model"), "{text}");
    let text = std::fs::read_to_string(d.path().join("one.json")).unwrap();
    let model: serde_json::Value = serde_json::from_str(&text).unwrap();
    let noise = {
        let start = text.find("\"noise_multiplier\": ").unwrap() + 20;
        text[start..].split([',', '\n', '}']).next().unwrap().trim().to_string()
    };
    let less = format!("{}", noise.parse::<f64>().unwrap() / 2.0);
    // less noise than the claim needs; a smaller claim than the noise allows
    std::fs::write(d.path().join("less.json"), text.replace(&noise, &less)).unwrap();
    assert!(refuse(d.path(), &["verify", "less.json"]).contains("less.json"));
    let mut bold = model.clone();
    bold["guarantee"]["certified_epsilon"] = 0.1.into();
    std::fs::write(d.path().join("bold.json"), bold.to_string()).unwrap();
    refuse(d.path(), &["verify", "bold.json"]);
    let mut bold = model;
    bold["guarantee"]["epsilon"] = 0.1.into();
    std::fs::write(d.path().join("bold.json"), bold.to_string()).unwrap();
    let line = refuse(d.path(), &["verify", "bold.json"]);
    let fault = "does NOT hold: it states epsilon 0.1, but the events in it cost epsilon ";
    assert!(line.contains(&format!("bold.json {fault}")) && !line.contains("inf"), "{line}");
    bold["guarantee"]["stages"][0]["epsilon"] = 0.1.into();
    std::fs::write(d.path().join("bold.json"), bold.to_string()).unwrap();
    let output = dpopt(d.path(), &["verify", "bold.json"]);
    let shown = String::from_utf8(output.stdout).unwrap();
    let fault = "\ndoes NOT hold: stage model states epsilon 0.1, but its event costs epsilon ";
    assert!(output.status.code() == Some(2) && shown.contains(fault), "{shown}");
    assert!(shown.matches("NOT").count() == 1 && shown.contains("\ndo not rely on this file"), "{shown}");
    // whatever else is given: one line, without its content
    std::fs::write(d.path().join("t.csv"), "name\nCANARY\n").unwrap();
    let line = refuse(d.path(), &["verify", "t.csv"]);
    assert!(!line.contains("CANARY") && line.contains("has no guarantee that this version"), "{line}");
    std::fs::write(d.path().join("report.html"), "<html>CANARY</html>").unwrap();
    let line = refuse(d.path(), &["verify", "report.html"]);
    assert!(line.contains("report.html is a page") && line.contains("--report report.json"), "{line}");
    std::fs::write(d.path().join("cut.json"), &text[..text.len() / 2]).unwrap();
    let line = refuse(d.path(), &["verify", "cut.json"]);
    assert!(line.contains("cut.json is not complete JSON: it may be damaged"), "{line}");
    for place in [".", "missing.json", "/dev/zero"] {
        assert!(refuse(d.path(), &["verify", place]).contains(place));
    }
}

#[cfg(unix)]
#[test]
fn a_held_lock_says_so_and_ends() {
    let d = tempfile::tempdir().unwrap();
    succeed(d.path(), &words(&charged("0.2", &[])));
    let before = std::fs::read(d.path().join("budget.jsonl")).unwrap();
    let held = std::fs::File::open(d.path().join("budget.jsonl")).unwrap();
    held.lock().unwrap();
    let start = Instant::now();
    let output = soon(d.path(), &charged("0.2", &["-o", "b.json", "--ledger-wait", "2"]));
    assert!(start.elapsed() >= Duration::from_secs(2));
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("waiting") && text.contains("2 seconds") && text.contains("--ledger-wait"), "{text}");
    if cfg!(target_os = "linux")
        && std::fs::read_to_string("/proc/locks").is_ok_and(|l| l.contains(&format!(" {} ", std::process::id())))
    {
        assert!(text.contains(&format!("process {}", std::process::id())), "{text}");
    }
    assert_eq!(before, std::fs::read(d.path().join("budget.jsonl")).unwrap());
    // let go while it waits
    let mut child = command(d.path(), &words(&charged("0.2", &["-o", "b.json"])))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(700));
    drop(held);
    assert!(child.wait().unwrap().success());
}

/// The system kills a process that writes past its limit: in the middle of a write, at a chosen byte.
#[cfg(target_os = "linux")]
#[test]
fn a_run_killed_in_the_middle_of_a_write_leaves_whole_files_and_its_charge() {
    let mut ends = std::collections::BTreeSet::new();
    for limit in [0, 1, 2, 3, 4, 6, 8, 12, 24, 64, 200] {
        let d = tempfile::tempdir().unwrap();
        // a header and some charges, so that the next one crosses one of the first limits
        for (name, epsilon) in [("a.json", "0.1"), ("b.json", "0.1")].iter().take(limit % 3) {
            succeed(d.path(), &words(&charged(epsilon, &["-o", name])));
        }
        let before = std::fs::read(d.path().join("budget.jsonl")).unwrap_or_default();
        let count = |bytes: &[u8]| String::from_utf8_lossy(bytes).lines().filter(|l| l.contains("\"event\"")).count();
        let quoted: Vec<String> =
            charged("0.3", &["-o", "m.json", "--report", "r.html"]).iter().map(|w| format!("'{w}'")).collect();
        // in units of 512 bytes
        let script =
            format!("ulimit -c 0; ulimit -f {limit}; exec '{}' {}", env!("CARGO_BIN_EXE_dpopt"), quoted.join(" "));
        let output = std::process::Command::new("dash").args(["-c", &script]).current_dir(d.path()).output().unwrap();
        let after = std::fs::read(d.path().join("budget.jsonl")).unwrap_or_default();
        assert!(after.starts_with(&before), "limit {limit}: the ledger's past changed");
        let whole = [("m.json", "}\n"), ("r.html", "</html>\n")].map(|(name, end)| {
            let text = std::fs::read_to_string(d.path().join(name));
            text.map(|text| assert!(text.ends_with(end), "limit {limit}: {name} is cut")).is_ok()
        });
        assert_eq!(whole[0], output.status.success(), "limit {limit}: {}", stderr(&output));
        if whole[0] || whole[1] {
            assert!(count(&after) > count(&before), "limit {limit}: an answer without a charge");
        }
        ends.insert((whole[0], after.len() == before.len(), after.ends_with(b"\n") || after.is_empty()));
        // the next run goes on, whatever was cut
        succeed(d.path(), &words(&charged("0.2", &["-o", "next.json"])));
        let status: serde_json::Value =
            serde_json::from_str(&succeed(d.path(), &["ledger", "budget.jsonl", "--json"])).unwrap();
        assert!(status["charges"].as_array().unwrap().len() > count(&before));
    }
    // at least: before the ledger, in its line, after it and before the answer, never
    assert!(ends.len() >= 3, "{ends:?}");
    println!("ways to end: {ends:?}");
}

/// A disk that is full is noticed before the charge, one that fills up later leaves no partial file.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_costs_no_budget() {
    let d = tempfile::tempdir().unwrap();
    let small = d.path().join("small");
    let Some(disk) = crate::SmallDisk::at(&small) else { return };
    std::fs::write(small.join("filler"), vec![1; 16 << 10]).unwrap();
    let output = dpopt(d.path(), &words(&charged("0.3", &["-o", "small/m.json"])));
    let left = files(&small);
    drop(disk);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(!stderr(&output).contains("is spent"), "{}", stderr(&output));
    assert_eq!((left, files(d.path())), (vec!["filler".to_string()], vec!["small".to_string()]));
}
