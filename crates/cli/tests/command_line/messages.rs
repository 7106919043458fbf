//! Files given in each other's place: whatever a command then says or writes, no cell of a table is in it.

use crate::{dpopt, refuse, succeed};
use std::path::Path;

/// In every cell of every private table below, alone or inside a word.
const CANARY: &str = "7731977";

const FILES: [&str; 8] =
    ["t.csv", "words.csv", "numbers.csv", "pairs.csv", "t.libsvm", "model.json", "bounds.toml", "budget.jsonl"];

/// Private tables: with a header; without one, of words, of numbers, of words that look like TOML; LIBSVM.
fn write_tables(directory: &Path) {
    let write = |name: &str, row: &dyn Fn(usize) -> String, header: &str| {
        let rows: String = (0..40).map(row).collect();
        std::fs::write(directory.join(name), format!("{header}{rows}")).unwrap();
    };
    write("t.csv", &|i| format!("{CANARY}.{i},Zx{CANARY}a{i},Zx{CANARY}b\n"), "x,city,y\n");
    write("words.csv", &|i| format!("Zx{CANARY}a,Zx{CANARY}b{i},Zx{CANARY}c\n"), "");
    write("numbers.csv", &|i| format!("{CANARY}.{i},{CANARY},{CANARY}e3\n"), "");
    write("pairs.csv", &|_| format!("Zx{CANARY} = \"Zx{CANARY}\"\n"), "");
    write("t.libsvm", &|i| format!("{CANARY} {}:{CANARY}\n", i + 1), "");
}

/// Whether a text holds the canary, as a number or in a word. Its seven digits *inside* a longer number are chance: a model holds
/// thousands of digits of fresh noise.
fn holds_canary(text: &str) -> bool {
    let digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
    text.match_indices(CANARY)
        .any(|(at, _)| !digit(text[..at].chars().next_back()) && !digit(text[at + CANARY.len()..].chars().next()))
}

#[test]
fn a_canary_is_seen_and_chance_is_not() {
    for leak in ["7731977", "x7731977.3", "Zx7731977a3", "[-7731977]", "7731977e3", "0.17731977 7731977"] {
        assert!(holds_canary(leak), "{leak}");
    }
    for chance in ["0.17731977", "77319770", "1.2377319771e-3", ""] {
        assert!(!holds_canary(chance), "{chance}");
    }
}

fn check(directory: &Path, arguments: &[&str], may_hold_rows: &[&str]) {
    let output = dpopt(directory, arguments);
    for text in [&output.stdout, &output.stderr] {
        let text = String::from_utf8_lossy(text);
        assert!(!holds_canary(&text), "{arguments:?}: {text}");
        assert!(!text.contains("panicked"), "{arguments:?}: {text}");
    }
    let tables = &FILES[..5];
    for entry in std::fs::read_dir(directory).unwrap() {
        let name = entry.unwrap().file_name().to_string_lossy().into_owned();
        if !tables.contains(&name.as_str()) && !may_hold_rows.contains(&name.as_str()) {
            let bytes = std::fs::read(directory.join(&name)).unwrap();
            assert!(!holds_canary(&String::from_utf8_lossy(&bytes)), "{arguments:?} wrote {name}");
        }
    }
}

/// A directory with the tables, a model, its bounds and a budget file. A ledger takes no seed: one of three words of 16 hexadecimal digits holds the canary
/// with probability below 3e-8, and weights have more digits than seven.
fn prepared() -> tempfile::TempDir {
    let d = tempfile::tempdir().unwrap();
    write_tables(d.path());
    std::fs::write(d.path().join("bounds.toml"), "[x]\nlower = 0\nupper = 1\n[y]\nlevels = ['no', 'yes']\n").unwrap();
    let fit = [
        "fit",
        "t.csv",
        "--target",
        "y",
        "--epsilon",
        "1",
        "--delta",
        "1e-6",
        "--bounds",
        "bounds.toml",
        "--bad-cells",
        "missing",
        "--ledger",
        "budget.jsonl",
        "--total-epsilon",
        "1.5",
        "-q",
    ];
    crate::succeed(d.path(), &fit);
    d
}

#[test]
fn no_pair_of_swapped_files_shows_a_cell() {
    let d = prepared();
    let readings: [&[&str]; 5] = [
        &[],
        &["--bad-cells", "missing"],
        &["--format", "csv"],
        &["--format", "csv", "--no-header", "--columns", "3"],
        &["--format", "libsvm", "--features", "50"],
    ];
    let mut runs = 0;
    for first in FILES {
        for second in FILES {
            for reading in readings {
                let mut commands = vec![
                    vec![
                        "fit",
                        first,
                        "--target",
                        "y",
                        "--epsilon",
                        "1",
                        "--delta",
                        "1e-6",
                        "--bounds",
                        second,
                        "-o",
                        "out.json",
                    ],
                    vec!["explain", first, "--target", "c3", "--epsilon", "1", "--delta", "1e-6", "--bounds", second],
                    vec!["predict", first, second, "-o", "out.csv"],
                    vec!["evaluate", first, second],
                    vec!["check", first, "--target", "y", "--epsilon", "1", "--delta", "1e-6", "--bounds", second],
                ];
                if second == FILES[0] {
                    commands.push(vec![
                        "mean",
                        first,
                        "--epsilon",
                        "1",
                        "--delta",
                        "1e-6",
                        "--sparsity",
                        "2",
                        "-o",
                        "out.csv",
                    ]);
                    commands.push(vec![
                        "fit",
                        first,
                        "--target",
                        "y",
                        "--epsilon",
                        "1",
                        "--delta",
                        "1e-6",
                        "--numeric",
                        "x",
                        "--bounds-budget",
                        "0.1",
                        "--text",
                        "city",
                        "-o",
                        "out.json",
                        "--report",
                        "out.html",
                    ]);
                    commands.push(vec![
                        "mean",
                        first,
                        "--epsilon",
                        "1",
                        "--delta",
                        "1e-6",
                        "--sparsity",
                        "2",
                        "-o",
                        "out.csv",
                        "--report",
                        "out.html",
                        "--norm",
                        "1e7",
                    ]);
                }
                for mut command in commands {
                    command.extend(reading);
                    // of some hundred secret numbers of the canary's size one is the canary's too often
                    if matches!(command[0], "fit" | "mean") {
                        command.extend(["--insecure-seed", "1"]);
                    }
                    check(d.path(), &command, &[]);
                    runs += 1;
                }
            }
        }
        for more in [&[][..], &["--no-header"], &["--format", "csv"], &["--format", "tsv", "--no-header"]] {
            let mut command = vec!["split", first, "-o", "a.rows", "b.rows"];
            command.extend(more);
            check(d.path(), &command, &["a.rows", "b.rows"]);
            runs += 1;
        }
        for command in [
            vec!["ledger", first],
            vec!["audit", "--command", "cat", "--with", first, "--without", first, "--epsilon", "1", "--runs", "100"],
        ] {
            check(d.path(), &command, &["a.rows", "b.rows"]);
            runs += 1;
        }
        for file in ["a.rows", "b.rows"] {
            let _ = std::fs::remove_file(d.path().join(file));
        }
    }
    assert!(runs > 1000, "{runs}");
}

#[test]
fn long_lists_and_long_numbers_are_short_in_messages() {
    let d = tempfile::tempdir().unwrap();
    let names: Vec<String> = (0..50_000).map(|i| format!("column{i}")).collect();
    let row = vec!["1"; 50_000].join(",");
    std::fs::write(d.path().join("wide.csv"), format!("{},y\n{row},no\n{row},yes\n", names.join(","))).unwrap();
    std::fs::write(d.path().join("b.toml"), "[column7]\nlower = 0\nupper = 1\n[y]\nlevels = ['no', 'yes']\n").unwrap();
    std::fs::write(d.path().join("far.toml"), "[column7]\nlower = -1.7e308\nupper = 1.7e308\n").unwrap();
    std::fs::write(d.path().join("down.toml"), "[column7]\nlower = 1.7e308\nupper = -1.5e308\n").unwrap();
    let all = names.join(",");
    std::fs::write(
        d.path().join("all.toml"),
        names.iter().map(|n| format!("[{n}]\nnumeric = true\n")).collect::<String>(),
    )
    .unwrap();
    assert!(all.len() > 100_000);
    for arguments in [
        vec!["explain", "wide.csv", "--target", "y", "--epsilon", "1", "--delta", "1e-6", "--bounds", "b.toml"],
        vec![
            "explain",
            "wide.csv",
            "--target",
            "y",
            "--epsilon",
            "1",
            "--delta",
            "1e-6",
            "--bounds",
            "b.toml",
            "--json",
        ],
        vec!["explain", "wide.csv", "--target", "z", "--epsilon", "1", "--bounds", "b.toml"],
        vec!["fit", "wide.csv", "--target", "y", "--epsilon", "1", "--bounds", "all.toml"],
        vec!["fit", "wide.csv", "--target", "y", "--epsilon", "1", "--bounds", "far.toml"],
        vec!["fit", "wide.csv", "--target", "y", "--epsilon", "1", "--bounds", "down.toml"],
        vec!["fit", "wide.csv", "--target", "y", "--epsilon", "1", "--bounds", "b.toml", "--bounds-budget", "1e300"],
        vec!["fit", "wide.csv", "--target", "y", "--epsilon=-1e300", "--bounds", "b.toml"],
        vec!["fit", "wide.csv", "--target", "y", "--epsilon", "1", "--delta", "1e300", "--bounds", "b.toml"],
        vec!["mean", "wide.csv", "--epsilon", "1", "--delta", "1e-6", "--sparsity", "1e300"],
        vec!["mean", "wide.csv", "--epsilon", "1e300", "--delta", "1e-6", "--sparsity", "1", "--explain"],
        vec!["mean", "wide.csv", "--epsilon", "1", "--delta", "1e-300", "--sparsity", "1", "--explain"],
        vec!["split", "wide.csv", "--fraction", "1e300", "-o", "a", "b"],
    ] {
        let output = dpopt(d.path(), &arguments);
        for text in [&output.stdout, &output.stderr] {
            let text = String::from_utf8_lossy(text);
            for line in text.lines() {
                assert!(
                    line.len() < 2000,
                    "{arguments:?}: {} bytes: {}",
                    line.len(),
                    line.chars().take(300).collect::<String>()
                );
                let digits = line.split(|c: char| !c.is_ascii_digit()).map(str::len).max().unwrap_or(0);
                assert!(digits < 30, "{arguments:?}: {line}");
            }
        }
    }
}

#[test]
fn a_slip_is_answered_with_what_was_meant() {
    let d = tempfile::tempdir().unwrap();
    for (topic, meant) in
        [("fitt", "`fit`"), ("objective-pertubation", "`objective-perturbation`"), ("option", "`options`")]
    {
        let line = refuse(d.path(), &["help", topic]);
        assert!(line.contains(&format!("did you mean {meant}")), "{line}");
    }
    let bounds = succeed(d.path(), &["help", "bounds"]);
    // what it shows is a bounds file
    let shown: String = bounds
        .lines()
        .take_while(|line| !line.starts_with("Keys of a column"))
        .filter_map(|line| line.strip_prefix("  "))
        .map(|line| line.split("   ").next().unwrap_or("").to_string() + "\n")
        .collect();
    let columns = "age,income,admitted,marital status,city,letter,phone\n30,5,2020-01-31,single,x,hello there,1\n";
    std::fs::write(d.path().join("b.toml"), shown).unwrap();
    std::fs::write(d.path().join("t.csv"), columns.to_string() + columns.lines().nth(1).unwrap()).unwrap();
    let explained =
        ["explain", "t.csv", "--target", "marital status", "--epsilon", "1", "--bounds", "b.toml", "--rows", "5000"];
    succeed(d.path(), &explained);
    let run = |data: &'static str| refuse(d.path(), &["fit", data, "--target", "y", "--epsilon", "1"]);
    for (data, words) in [
        ("nothing.csv", "no such file"),
        ("-", "save it to a file"),
        ("table.xlsx", "as CSV"),
        ("table.csv.zip", "unpack"),
        ("table.feather", ".parquet"),
    ] {
        let line = run(data);
        assert!(line.contains(words), "{data}: {line}");
    }
    assert!(refuse(d.path(), &["predict", "nothing.json", "t.csv"]).contains("no such file"));
}

#[cfg(unix)]
#[test]
fn a_pipe_is_not_read_as_half_a_table() {
    let d = tempfile::tempdir().unwrap();
    let made = std::process::Command::new("mkfifo").arg(d.path().join("t.csv")).status().unwrap();
    assert!(made.success());
    for command in
        [vec!["fit", "t.csv", "--target", "y", "--epsilon", "1"], vec!["split", "t.csv", "-o", "a.csv", "b.csv"]]
    {
        let line = refuse(d.path(), &command);
        assert!(line.contains("read only once"), "{line}");
    }
}
