//! Every command on tables full of canaries, with files in each other's places: none may come out.

use crate::neighbours::{CANARY, CANARY_NUMBER, CANARY_TEXT};
use crate::observe::run;
use std::path::Path;
use std::process::Command;

/// Runs that were made, and those whose output held a canary.
#[derive(Default)]
pub(crate) struct Leaks {
    /// Number of runs made.
    pub(crate) pairs: usize,
    pub(crate) differences: Vec<String>,
}

/// A file of the sandbox.
struct Input {
    name: &'static str,
    bytes: Vec<u8>,
}

fn text_table(header: &str, row: &str) -> Vec<u8> {
    let mut all = header.as_bytes().to_vec();
    for i in 0..60 {
        all.extend(
            row.replace("{i}", &format!("{}", i % 2)).replace("{n}", CANARY_NUMBER).replace("{t}", CANARY_TEXT).bytes(),
        );
        all.push(b'\n');
    }
    all
}

/// Files whose every cell is a canary, in each of the formats, well formed and broken, and good files for the other places.
fn inputs(directory: &Path) -> Vec<Input> {
    let good = || {
        let mut all = "a,b,c,y\n".to_string();
        for i in 0..60 {
            all += &format!("0.{},{},red,{}\n", i % 10, i % 7, ["no", "yes"][i % 2]);
        }
        all.into_bytes()
    };
    std::fs::write(directory.join("good.csv"), good()).expect("written");
    let bounds: &[u8] =
        b"[a]\nlower = 0\nupper = 1\n[b]\nlower = 0\nupper = 6\n[c]\nlevels = ['red']\n[y]\nlevels = ['no', 'yes']\n";
    std::fs::write(directory.join("good.toml"), bounds).expect("written");
    let made = Command::new(env!("CARGO_BIN_EXE_dpopt"))
        .args([
            "fit",
            "good.csv",
            "--target",
            "y",
            "--bounds",
            "good.toml",
            "--epsilon",
            "1",
            "--delta",
            "1e-6",
            "-q",
            "--insecure-seed",
            "1",
            "-o",
            "model.json",
        ])
        .current_dir(directory)
        .status()
        .expect("the binary starts");
    assert!(made.success(), "a model for the other commands");
    let read = |name: &str| std::fs::read(directory.join(name)).expect("a file");
    let model = read("model.json");
    for name in ["good.csv", "good.toml", "model.json"] {
        std::fs::remove_file(directory.join(name)).expect("removed");
    }
    vec![
        Input { name: "good.csv", bytes: good() },
        Input { name: "good.toml", bytes: bounds.to_vec() },
        Input { name: "model.json", bytes: model },
        Input { name: "numbers.csv", bytes: text_table("a,b,c,y\n", "{n},{n},{n},{n}") },
        Input { name: "texts.csv", bytes: text_table("a,b,c,y\n", "{t},{t},{t},{t}") },
        Input { name: "headerless.csv", bytes: text_table("", "{n},{t},{t},{t}") },
        Input { name: "ragged.csv", bytes: text_table("a,b,c,y\n", "{t},{n}") },
        Input { name: "quote.csv", bytes: text_table("a,b,c,y\n", "\"{t},{n},{t},{t}") },
        Input {
            name: "bytes.csv",
            bytes: [text_table("a,b,c,y\n", "{t},{n},{t},{t}"), b"\xff\xfe\0".to_vec()].concat(),
        },
        Input { name: "table.tsv", bytes: text_table("a\tb\tc\ty\n", "{t}\t{n}\t{t}\t{t}") },
        Input { name: "rows.libsvm", bytes: text_table("", "{i} 1:{n} 2:{n}") },
        Input { name: "broken.libsvm", bytes: text_table("", "{t} {t}:{n}") },
        Input {
            name: "object.json",
            bytes: format!("{{\"{CANARY_TEXT}\": {CANARY_NUMBER}, \"format\": \"{CANARY_TEXT}\"}}").into(),
        },
        Input { name: "list.json", bytes: format!("[\"{CANARY_TEXT}\", {CANARY_NUMBER}]").into() },
        Input { name: "table.parquet", bytes: [b"PAR1".to_vec(), text_table("", "{t}{n}"), b"PAR1".to_vec()].concat() },
        Input {
            name: "table.csv.gz",
            bytes: [b"\x1f\x8b\x08\0\0\0\0\0\0\0".to_vec(), text_table("", "{t}{n}")].concat(),
        },
        Input {
            name: "ledger.jsonl",
            bytes: format!("{{\"format\":\"dpopt-ledger\",\"version\":\"{CANARY_TEXT}\"}}\n").into(),
        },
    ]
}

/// Every command that takes files; `{}` stands for a file that may be any.
fn commands() -> Vec<(Vec<&'static str>, usize)> {
    const FIT: [&str; 6] = ["--target", "y", "--epsilon", "1", "--delta", "1e-6"];
    let with = |head: &[&'static str], tail: &[&'static str]| {
        [head, FIT.as_slice(), tail, if head[0] == "fit" { &["-o", "fitted.json"] } else { &[] }].concat()
    };
    let mut all = Vec::new();
    let mut add = |mut words: Vec<&'static str>| {
        // among 10⁶ digits of secret noise nine are the canary's once in a thousand runs of the test; a ledger takes no seed, and none of the files is one
        if matches!(words[0], "fit" | "mean" | "aggregate") && !words.contains(&"--ledger") {
            words.extend(["--insecure-seed", "1"]);
        }
        let places = words.iter().filter(|w| **w == "{}").count();
        all.push((words, places));
    };
    add(with(&["fit", "{}"], &["--bounds", "{}"]));
    add(with(&["fit", "{}"], &["--bounds", "{}", "--bad-cells", "missing"]));
    add(with(&["fit", "{}"], &["--bounds", "{}", "--no-header"]));
    add(with(&["fit", "{}"], &["--public-data", "{}"]));
    add(with(&["fit", "{}"], &["--numeric", "a,b", "--bounds-budget", "0.2", "--classes", "no,yes"]));
    add(with(&["fit", "{}"], &["--numeric", "a,b,y", "--bounds-budget", "0.2", "--task", "regression"]));
    add(with(&["fit", "{}"], &["--bounds", "good.toml", "--method", "pagan", "--public-moments", "{}"]));
    add(with(&["fit", "{}"], &["--bounds", "good.toml", "--ledger", "{}", "--total-epsilon", "4"]));
    add(with(&["fit", "{}", "{}"], &["--bounds", "good.toml"]));
    add(with(&["fit", "{}"], &["--features", "10", "--format", "libsvm"]));
    add(with(&["fit", "{}"], &["--format", "parquet"]));
    add(with(&["explain", "{}"], &["--bounds", "{}"]));
    add(with(&["explain", "{}"], &["--no-header"]));
    add(with(&["check", "{}"], &["--bounds", "{}"]));
    add(with(&["check", "{}"], &["--no-header"]));
    add(vec!["mean", "{}", "--sparsity", "2", "--epsilon", "1", "--delta", "1e-6"]);
    for last in [&["--no-header", "--columns", "4"][..], &["--bad-cells", "missing"], &["--unit", "a"]] {
        let run =
            ["aggregate", "{}", "--command", "sh -c 'cat $0; cat $0 >&2' {group}", "--groups", "30", "--range", "0:1"];
        add([&run[..], &["--radius", "0.1", "--epsilon", "20", "--delta", "1e-3"], last].concat());
    }
    add(vec!["mean", "{}", "--sparsity", "2", "--epsilon", "1", "--delta", "1e-6", "--no-header"]);
    add(vec!["mean", "{}", "--sparsity", "2", "--epsilon", "1", "--delta", "1e-6", "--features", "9"]);
    add(vec!["mean", "{}", "--sparsity", "2", "--epsilon", "1", "--delta", "1e-6", "--bad-cells", "missing"]);
    add(vec!["mean", "{}", "--sparsity", "2", "--epsilon", "1", "--delta", "1e-6", "--unit", "a"]);
    add(vec!["mean", "{}", "--of", "a,b", "--moment", "2:3", "--epsilon", "1", "--delta", "1e-6"]);
    add(vec![
        "mean",
        "{}",
        "--of",
        "a",
        "--moment",
        "2",
        "--epsilon",
        "80",
        "--delta",
        "1e-6",
        "--bad-cells",
        "missing",
    ]);
    add(vec!["predict", "{}", "{}", "-o", "predicted.csv"]);
    add(vec!["predict", "{}", "{}", "--no-header", "-o", "predicted.csv"]);
    add(vec!["evaluate", "{}", "{}"]);
    add(vec!["evaluate", "{}", "{}", "--json"]);
    add(vec!["ledger", "{}"]);
    add(vec!["ledger", "{}", "--json"]);
    add(vec!["ledger", "{}", "--verify", "{}"]);
    add(vec!["verify", "{}"]);
    add(vec!["account", "{}"]);
    add(vec!["audit", "--command", "cat {}", "--runs", "20"]);
    all
}

/// All files in all places.
pub(crate) fn search(full: bool) -> Leaks {
    let directory = tempfile::tempdir().expect("a directory");
    let inputs = inputs(directory.path());
    let names: Vec<&str> = inputs.iter().map(|i| i.name).collect();
    let mut leaks = Leaks { pairs: 0, differences: Vec::new() };
    let mut turn = 0usize;
    for (words, places) in commands() {
        let fillings = inputs.len().pow(places as u32);
        for filling in 0..fillings {
            turn += 1;
            // a part takes every fifth filling; five has no factor in common with the number of files
            if !full && places > 1 && !turn.is_multiple_of(5) {
                continue;
            }
            let mut left = filling;
            let arguments: Vec<String> = words
                .iter()
                .map(|word| match word.contains("{}") {
                    true => {
                        let chosen = &inputs[left % inputs.len()];
                        left /= inputs.len();
                        word.replace("{}", chosen.name)
                    }
                    false => (*word).into(),
                })
                .collect();
            for input in &inputs {
                std::fs::write(directory.path().join(input.name), &input.bytes).expect("written");
            }
            let (seen, _) = run(directory.path(), &arguments, &names);
            leaks.pairs += 1;
            let command = arguments.join(" ");
            // a prediction repeats no cell either; a file that was given as input and then changed is looked at as well
            for input in &inputs {
                let now = std::fs::read(directory.path().join(input.name)).unwrap_or_default();
                if now != input.bytes && input.name != "ledger.jsonl" {
                    leaks.differences.push(format!("{command}: {} was changed", input.name));
                }
            }
            if !seen.leaks.is_empty() {
                let line = seen.messages.lines().chain(seen.text.lines()).find(|l| l.contains(CANARY)).unwrap_or("");
                leaks.differences.push(format!("{command}: the canary is in {}: {line}", seen.leaks.join(", ")));
            }
            match seen.code {
                Some(0..=2) => {}
                Some(code) => leaks.differences.push(format!("{command}: exit code {code}: {}", seen.messages)),
                None => leaks.differences.push(format!("{command}: does not end")),
            }
        }
    }
    leaks
}
