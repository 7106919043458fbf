//! What a row and a column are: by public rules, whatever one record holds.

use crate::{dpopt, files, refuse, succeed};
use std::path::Path;

fn write(directory: &Path, name: &str, text: impl AsRef<[u8]>) {
    std::fs::write(directory.join(name), text).unwrap();
}

/// Rows `x,y` with one line replaced.
fn rows(header: &str, hostile: &str, at: usize) -> String {
    let mut text = header.to_string();
    for i in 0..400 {
        if i == at {
            text += &format!("{hostile}\n");
        } else {
            text += &format!("{},{}\n", (i % 11) as f64 / 10.0, if i % 11 > 5 { "yes" } else { "no" });
        }
    }
    text
}

const BOUNDS: &str = "[c1]\nlower = 0\nupper = 1\n[c2]\nlevels = ['no', 'yes']\n";

#[test]
fn the_first_row_does_not_say_how_many_columns_there_are() {
    let d = tempfile::tempdir().unwrap();
    write(d.path(), "b.toml", BOUNDS);
    write(d.path(), "one.toml", "[c1]\nlower = 0\nupper = 1\n");
    let mut seen = Vec::new();
    for first in ["0.5,yes", "", "0.5", "0.5,yes,0.5,0.5"] {
        write(d.path(), "t.csv", rows("", first, 0));
        let fit = [
            "fit",
            "t.csv",
            "--no-header",
            "--target",
            "c2",
            "--epsilon",
            "1",
            "--delta",
            "1e-6",
            "--bad-cells",
            "missing",
        ];
        // nothing declares the number: the same refusal, whatever the row
        for undeclared in [&["--numeric", "c1", "--bounds-budget", "0.1", "--ignore", "c4"][..], &["--text", "c3"]] {
            let line = refuse(d.path(), &[&fit[..], undeclared].concat());
            assert!(line.contains("--columns N"), "{line}");
        }
        let line =
            refuse(d.path(), &["mean", "t.csv", "--no-header", "--sparsity", "1", "--epsilon", "1", "--delta", "1e-6"]);
        assert!(line.contains("--columns N"), "{line}");
        let line = refuse(
            d.path(),
            &["explain", "t.csv", "--no-header", "--target", "y", "--epsilon", "1", "--bounds", "b.toml"],
        );
        assert!(line.contains("--columns N"), "{line}");
        // a bounds file that names all, or the flag
        let declared = [&fit[..], &["--bounds", "b.toml", "--report", "r.html", "--insecure-seed", "1"]].concat();
        seen.push(succeed(d.path(), &declared));
        succeed(d.path(), &["predict", "model.json", "t.csv"]);
        assert!(std::fs::read_to_string(d.path().join("r.html")).unwrap().contains("The table has 2 columns"));
        succeed(d.path(), &[&fit[..], &["--bounds", "one.toml", "--classes", "no,yes", "--columns", "2"]].concat());
        let line = refuse(d.path(), &[&fit[..], &["--bounds", "b.toml", "--columns", "18446744073709551615"]].concat());
        assert!(line.contains("--columns") && line.contains("out of range"), "{line}");
        succeed(
            d.path(),
            &[
                "mean",
                "t.csv",
                "--no-header",
                "--columns",
                "2",
                "--sparsity",
                "1",
                "--epsilon",
                "1",
                "--delta",
                "1e-6",
                "--bad-cells",
                "missing",
                "--report",
                "m.html",
            ],
        );
        assert!(std::fs::read_to_string(d.path().join("m.html")).unwrap().contains("The table has 2 columns"));
        // the model knows the options that the fit had
        succeed(d.path(), &["predict", "model.json", "t.csv"]);
        succeed(
            d.path(),
            &["predict", "model.json", "t.csv", "--no-header", "--columns", "2", "--bad-cells", "missing"],
        );
    }
    assert!(seen.windows(2).all(|pair| pair[0].lines().next() == pair[1].lines().next()), "{seen:?}");
}

#[test]
fn no_content_of_a_row_stops_a_run_or_changes_their_number() {
    let d = tempfile::tempdir().unwrap();
    write(d.path(), "b.toml", BOUNDS.replace("c1", "x").replace("c2", "y"));
    let long = format!("\"{}", "7".repeat(65 << 20));
    for hostile in
        ["0.5,yes", "", " ", "\"", "0.5,\"yes", "\0", "\r", "1,2,3", "nan,inf", "1e308,1e308", "0.5,maybe", &long]
    {
        for at in [0, 200, 399] {
            write(d.path(), "t.csv", rows("x,y\n", hostile, at));
            let printed = succeed(
                d.path(),
                &[
                    "fit",
                    "t.csv",
                    "--target",
                    "y",
                    "--epsilon",
                    "1",
                    "--delta",
                    "1e-6",
                    "--method",
                    "output-perturbation",
                    "--bounds",
                    "b.toml",
                    "--bad-cells",
                    "missing",
                ],
            );
            assert!(printed.contains("400 rows"), "{printed}");
            let printed = succeed(
                d.path(),
                &[
                    "mean",
                    "t.csv",
                    "--sparsity",
                    "1",
                    "--epsilon",
                    "1",
                    "--delta",
                    "1e-6",
                    "--bad-cells",
                    "missing",
                    "-o",
                    "m.csv",
                ],
            );
            assert!(printed.contains("mean of 400 vectors"), "{printed}");
            let check = ["check", "t.csv", "--target", "y", "--epsilon", "1", "--delta", "1e-6", "--bounds", "b.toml"];
            let printed = succeed(d.path(), &[&check[..], &["--bad-cells", "missing"]].concat());
            assert!(
                !hostile.starts_with('"')
                    || printed.contains(if hostile.len() > 100 { "64 MiB" } else { "opens a quote" }),
                "{printed}"
            );
            if hostile.len() > 100 {
                break;
            }
        }
    }
}

/// One model, whatever stands for a missing value and however numbers and labels are spelled.
#[test]
fn equal_tables_in_other_words_give_one_model() {
    let d = tempfile::tempdir().unwrap();
    write(
        d.path(),
        "b.toml",
        "[age]\nlower = 0\nupper = 90\n[paid]\nlower = 0\nupper = 3000\n[when]\nlower = 2020-01-01\nupper = 2020-02-01\n",
    );
    let table = |missing: &str, paid: &dyn Fn(usize) -> String, labels: [&str; 2]| {
        let row = |i: usize| {
            let age = if i.is_multiple_of(9) { missing.to_string() } else { (i % 90).to_string() };
            let label = if i.is_multiple_of(11) { missing } else { labels[usize::from(i % 90 > 40)] };
            format!("{age},{},2020-01-{:02},{label}\n", paid(i), 1 + i % 28)
        };
        format!("age,paid,when,y\n{}", (0..600).map(row).collect::<String>())
    };
    let fit = |text: String, classes: &str| {
        write(d.path(), "t.csv", text);
        let fit = [
            "fit",
            "t.csv",
            "--target",
            "y",
            "--epsilon",
            "2",
            "--delta",
            "1e-6",
            "--bounds",
            "b.toml",
            "--insecure-seed",
            "1",
            "-q",
        ];
        succeed(d.path(), &[&fit[..], &["--classes", classes]].concat());
        let model: serde_json::Value =
            serde_json::from_slice(&std::fs::read(d.path().join("model.json")).unwrap()).unwrap();
        model["weights"].to_string()
    };
    let plain = |i: usize| (1000 + i).to_string();
    let first = fit(table("", &plain, ["0", "1"]), "0,1");
    assert!(first.len() > 100, "{first}");
    for missing in ["NaN", "nan", "None", "NULL", "#N/A", "n/a", "<NA>", "NaT", "?"] {
        assert_eq!(fit(table(missing, &plain, ["0.0", "1.0"]), "0,1"), first, "{missing}");
    }
    let shown: [&dyn Fn(usize) -> String; 3] =
        [&|i| format!("\"${},{:03}.00\"", 1 + i / 1000, i % 1000), &|i| format!("{}.0%", 1000 + i), &|i| {
            format!("{} {:03} €", 1 + i / 1000, i % 1000)
        }];
    for paid in shown {
        assert_eq!(fit(table("", paid, ["False", "True"]), "0,1"), first);
    }
    assert_eq!(fit(table("", &plain, ["-1", "\"yes, sure\""]), "-1,\"yes, sure\""), first);
    // a mean of such a column is one of its numbers
    write(d.path(), "t.csv", table("NaN", shown[0], ["0", "1"]));
    let mean = [
        "mean",
        "t.csv",
        "--of",
        "paid",
        "--moment",
        "2:3000",
        "--epsilon",
        "2",
        "--insecure-seed",
        "1",
        "--delta",
        "1e-6",
    ];
    let printed = succeed(d.path(), &mean);
    write(d.path(), "t.csv", table("", &plain, ["0", "1"]));
    let numbers =
        |printed: &str| printed.lines().filter(|line| !line.contains("t.csv")).map(str::to_string).collect::<Vec<_>>();
    assert_eq!(numbers(&succeed(d.path(), &mean)), numbers(&printed));
}

#[test]
fn tables_that_are_no_utf_8_or_leave_names_out_are_called_so() {
    let d = tempfile::tempdir().unwrap();
    let utf_16 = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    write(d.path(), "b.toml", BOUNDS.replace("c1", "x").replace("c2", "y"));
    let fit = ["fit", "t.csv", "--target", "y", "--epsilon", "1", "--delta", "1e-6", "--bounds", "b.toml"];
    for mark in ["\u{feff}", ""] {
        std::fs::write(d.path().join("t.csv"), utf_16(&format!("{mark}{}", rows("x,y\n", "0.5,yes", 0)))).unwrap();
        let line = refuse(d.path(), &fit);
        assert!(line.contains("UTF-16") && line.contains("save the file as UTF-8"), "{line}");
    }
    // row numbers in front, as pandas and R write them
    let numbered = |name: &str| {
        let body: String =
            (0..400).map(|i| format!("{i},{},{}\n", f64::from(i % 10) / 10.0, ["no", "yes"][i as usize % 2])).collect();
        format!("{name},x,y\n{body}")
    };
    write(d.path(), "t.csv", numbered(""));
    let line = refuse(d.path(), &fit);
    assert!(line.contains("`c1` has no name") && line.contains("--ignore c1"), "{line}");
    succeed(d.path(), &[&fit[..], &["--ignore", "c1"]].concat());
    assert!(!d.path().join("l.jsonl").exists());
}

#[test]
fn quoted_line_breaks_are_read_on_request() {
    let d = tempfile::tempdir().unwrap();
    write(d.path(), "b.toml", "[note]\ntext = true\n[y]\nlevels = ['no', 'yes']\n");
    let body: String = (0..300).map(|i| format!("\"a\nb {i}\",{}\n", if i % 2 == 0 { "no" } else { "yes" })).collect();
    write(d.path(), "t.csv", format!("note,y\n{body}"));
    let fit = ["fit", "t.csv", "--target", "y", "--epsilon", "1", "--delta", "1e-6", "--bounds", "b.toml"];
    let line = refuse(d.path(), &[&fit[..], &["--bad-cells", "error"]].concat());
    assert!(line.contains("row 1 opens a quote") && line.contains("--quoted-newlines"), "{line}");
    let quoted = [&fit[..], &["--quoted-newlines", "--report", "r.html"]].concat();
    assert!(succeed(d.path(), &quoted).contains("300 rows"));
    let report = std::fs::read_to_string(d.path().join("r.html")).unwrap();
    assert!(report.contains("a stray quote joins rows"), "the report tells what the flag costs");
    write(d.path(), "t.csv", format!("note,y\n{body}\"open,yes\n"));
    let line = refuse(d.path(), &[&quoted[..], &["--bad-cells", "missing"]].concat());
    assert!(line.contains("quote"), "{line}");
}

#[test]
fn split_sees_the_rows_that_fit_sees() {
    let d = tempfile::tempdir().unwrap();
    let gz = |name: &str, text: &str| {
        let file = std::fs::File::create(d.path().join(name)).unwrap();
        let mut encoder = flate2::write::GzEncoder::new(file, Default::default());
        std::io::Write::write_all(&mut encoder, text.as_bytes()).unwrap();
        encoder.finish().unwrap();
    };
    let body = "1,a\n\n2,it \"is\n3,\"b\n c\"\n4,d";
    write(d.path(), "t.csv", format!("\nx,y\n{body}"));
    gz("t.csv.gz", &format!("x,y\r\n{body}"));
    write(d.path(), "t.tsv", format!("x\ty\n{body}"));
    write(d.path(), "t.libsvm", "1 1:1\n\n# note\n-1 2:1");
    write(d.path(), "s.csv", "x;y\n1;\"a\nb\"\n2;c,\"\n3;d\n");
    for (arguments, expected) in [
        (&["t.csv", "--quoted-newlines"][..], 5),
        (&["t.csv", "--no-header", "--no-quoting"], 8),
        (&["t.csv.gz", "--no-quoting"], 6),
        (&["t.tsv"], 6),
        (&["t.libsvm"], 4),
        (&["s.csv", "--separator", ";", "--quoted-newlines"], 3),
    ] {
        let printed = succeed(d.path(), &[&["split"], arguments, &["--fraction", "0.5", "-o", "a", "b"]].concat());
        let counts: Vec<u64> = printed.split(' ').filter_map(|word| word.parse().ok()).collect();
        assert_eq!(counts.iter().sum::<u64>(), expected, "{arguments:?}: {printed}");
    }
    let line = refuse(d.path(), &["split", "t.csv", "--format", "parquet", "-o", "c", "d"]);
    assert!(line.contains("Parquet"), "{line}");
    assert!(!files(d.path()).contains(&"c".to_string()));
}

#[test]
fn a_mean_refuses_what_it_cannot_mean() {
    let d = tempfile::tempdir().unwrap();
    write(d.path(), "t.csv", format!("a,b\n{}", "0.5,0\n".repeat(50)));
    write(d.path(), "one.csv", "a,b\n0.5,0\n");
    write(d.path(), "ragged.csv", format!("a,b\n{}0.5\n", "0.5,0\n".repeat(50)));
    let mean = |more: &[&str]| {
        let mut arguments = vec!["mean"];
        arguments.extend(more);
        for (flag, value) in [("--sparsity", "1"), ("--epsilon", "1"), ("--delta", "1e-6")] {
            if !more.contains(&flag) {
                arguments.extend([flag, value]);
            }
        }
        refuse(d.path(), &arguments)
    };
    for (arguments, parts) in [
        (&["t.csv", "--rows", "49"][..], &["--rows is 49", "50 rows"][..]),
        (&["t.csv", "--rows", "49", "--explain"], &["--rows is 49"]),
        (&["t.csv", "--rows", "51", "--relation", "replace-one"], &["--rows is 51"]),
        (&["one.csv"], &["1 row"]),
        (&["one.csv", "--rows", "1", "--relation", "add-or-remove"], &["1 row"]),
        (&["t.csv", "--norm", "1e300"], &["--norm is 1e300"]),
        (&["t.csv", "--norm", "1e-300"], &["--norm is 1e-300"]),
        (&["t.csv", "--norm", "nan"], &["--norm is NaN"]),
        (&["t.csv", "--norm", "0"], &["--norm is 0"]),
        (&["t.csv", "--norm=-1", "--explain"], &["--norm is -1"]),
        (&["t.csv", "--sparsity", "0"], &["--sparsity is 0"]),
        (&["t.csv", "--sparsity", "inf"], &["--sparsity is inf"]),
        (&["t.csv", "--sparsity", "1e300"], &["--sparsity is 1e300"]),
        (&["t.csv", "--epsilon", "0"], &["epsilon is 0"]),
        (&["t.csv", "--delta", "2"], &["delta is 2"]),
        (&["ragged.csv", "--bad-cells", "error"], &["row 51 has 1 field"]),
    ] {
        let line = mean(arguments);
        assert!(parts.iter().all(|part| line.contains(part)), "{arguments:?}: {line}");
    }
    for norm in ["1e-60", "1e60", "1e-20", "1e20"] {
        succeed(d.path(), &["mean", "t.csv", "--sparsity", "1", "--epsilon", "1", "--delta", "1e-6", "--norm", norm]);
    }
    assert!(
        succeed(d.path(), &["mean", "t.csv", "--sparsity", "1", "--epsilon", "1", "--delta", "1e-6", "--rows", "50"])
            .contains("50")
    );
}

#[test]
fn huge_declarations_are_answered_at_once() {
    let d = tempfile::tempdir().unwrap();
    let started = std::time::Instant::now();
    for features in ["18446744073709551615", "0", "4294967297"] {
        let line = refuse(d.path(), &["explain", "--rows", "1000", "--features", features, "--epsilon", "1"]);
        assert!(line.contains("--features") && line.contains("out of range"), "{line}");
    }
    let levels: Vec<String> = (0..300_000).map(|i| format!("'l{i}'")).collect();
    write(d.path(), "b.toml", format!("[x]\nlower = 0\nupper = 1\n[y]\nlevels = [{}]\n", levels.join(", ")));
    write(d.path(), "t.csv", format!("x,y\n{}", "0.5,l7\n".repeat(50)));
    dpopt(d.path(), &["explain", "t.csv", "--target", "y", "--epsilon", "1", "--delta", "1e-6", "--bounds", "b.toml"]);
    dpopt(d.path(), &["explain", "--rows", "1000", "--features", "10", "--class-count", "300000", "--epsilon", "1"]);
    dpopt(
        d.path(),
        &["explain", "--rows", "1000", "--features", "10", "--class-count", "4000000000", "--epsilon", "1"],
    );
    dpopt(d.path(), &["explain", "--rows", "1000", "--features", "2147483648", "--epsilon", "1"]);
    // seconds on an idle machine; what is declared would take hours to go through
    assert!(started.elapsed().as_secs() < 900, "{:?}", started.elapsed());
}

#[test]
#[cfg(unix)]
fn a_bomb_in_gzip_takes_no_memory() {
    let d = tempfile::tempdir().unwrap();
    let bomb = |name: &str, first: &str| {
        let file = std::fs::File::create(d.path().join(name)).unwrap();
        let mut encoder = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
        std::io::Write::write_all(&mut encoder, first.as_bytes()).unwrap();
        for _ in 0..1024 {
            std::io::Write::write_all(&mut encoder, &vec![b'7'; 1 << 20]).unwrap();
        }
        encoder.finish().unwrap();
    };
    bomb("t.csv.gz", "x,y\n0.5,yes\n");
    bomb("t.parquet.gz", "PAR1");
    write(d.path(), "b.toml", BOUNDS.replace("c1", "x").replace("c2", "y"));
    // a process that may not have more than 800 MB of addresses
    let limited = |arguments: &str| {
        let command = format!("ulimit -v 800000; exec {} {arguments}", env!("CARGO_BIN_EXE_dpopt"));
        std::process::Command::new("sh")
            .arg("-c")
            .arg(command)
            .current_dir(d.path())
            .env("RAYON_NUM_THREADS", "2")
            .output()
            .unwrap()
    };
    let output = limited("fit t.csv.gz --target y --epsilon 1 --delta 1e-6 --bounds b.toml --bad-cells missing");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("2 rows"));
    for more in ["", "--memory 100M"] {
        let output =
            limited(&format!("explain t.parquet.gz --target y --epsilon 1 --delta 1e-6 --bounds b.toml {more}"));
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains("--memory"), "{error}");
    }
}

#[test]
fn reading_options_of_the_fit_hold_for_its_predictions() {
    let d = tempfile::tempdir().unwrap();
    let cell = |i: usize| if i % 97 == 5 { "oops".to_string() } else { (i % 50).to_string() };
    let row = |i: usize| format!("{};{};\"a\nb\"\n", cell(i), if i % 50 > 20 { "yes" } else { "no" });
    std::fs::write(d.path().join("t.csv"), "x;y;z\n".to_string() + &(0..1000).map(row).collect::<String>()).unwrap();
    std::fs::write(
        d.path().join("b.toml"),
        "[x]\nlower = 0\nupper = 50\n[y]\nlevels = ['no', 'yes']\n[z]\nignore = true\n",
    )
    .unwrap();
    let options = ["--separator", ";", "--bad-cells", "missing", "--quoted-newlines"];
    let fit = ["fit", "t.csv", "--target", "y", "--epsilon", "4", "--bounds", "b.toml", "-q"];
    succeed(d.path(), &[&fit[..], &options].concat());
    for command in ["predict", "evaluate"] {
        let plain = succeed(d.path(), &[command, "model.json", "t.csv"]);
        assert_eq!(plain, succeed(d.path(), &[&[command, "model.json", "t.csv"], &options[..]].concat()));
        // an option that is given again holds
        let line = refuse(d.path(), &[command, "model.json", "t.csv", "--bad-cells", "error"]);
        assert!(line.contains("row 6"), "{line}");
    }
}

#[test]
fn records_of_several_lines_are_not_torn() {
    let d = tempfile::tempdir().unwrap();
    std::fs::write(d.path().join("t.csv"), "a,b\n1,\"x\ny\"\n2,z\n3,w\n").unwrap();
    let line = refuse(d.path(), &["split", "t.csv", "-o", "a.csv", "b.csv"]);
    assert!(line.contains("row 1") && line.contains("--quoted-newlines") && line.contains("--no-quoting"), "{line}");
    assert_eq!(crate::files(d.path()), ["t.csv"]);
    succeed(d.path(), &["split", "t.csv", "-o", "a.csv", "b.csv", "--quoted-newlines"]);
    succeed(d.path(), &["split", "t.csv", "-o", "a.csv", "b.csv", "--no-quoting"]);
    let line = refuse(d.path(), &["split", "t.csv", "-o", "a.tsv", "b.csv", "--quoted-newlines"]);
    assert!(line.contains("a.tsv"), "{line}");
}
