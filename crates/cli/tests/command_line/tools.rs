//! split, generate, predict: small things that must not go wrong.

use crate::{dpopt, files, refuse, succeed};

#[test]
fn a_split_keeps_every_row_once_and_is_reproducible() {
    let d = tempfile::tempdir().unwrap();
    let rows: Vec<String> = (0..100).map(|i| format!("{i},\"a\nb\"")).collect();
    std::fs::write(d.path().join("t.csv"), format!("x,y\n{}", rows.join("\n"))).unwrap();
    let split = |a: &str, b: &str, seed: &str| {
        succeed(d.path(), &["split", "t.csv", "--quoted-newlines", "--fraction", "0.7", "--seed", seed, "-o", a, b]);
        let read = |name: &str| std::fs::read_to_string(d.path().join(name)).unwrap();
        (read(a), read(b))
    };
    let (train, test) = split("a", "b", "1");
    assert_eq!((train.matches("\nb\"").count(), test.matches("\nb\"").count()), (70, 30));
    for row in &rows {
        assert_eq!(
            usize::from(train.contains(&format!("\n{row}"))) + usize::from(test.contains(&format!("\n{row}"))),
            1
        );
    }
    assert!(train.starts_with("x,y\n") && test.starts_with("x,y\n"));
    assert_eq!(split("c", "d", "1"), (train.clone(), test));
    assert_ne!(split("e", "f", "2").0, train);
    for bad in [["--fraction", "1.5"], ["--fraction", "-1"]] {
        let line = refuse(d.path(), &["split", "t.csv", bad[0], bad[1], "-o", "g", "h"]);
        assert!(line.contains("between 0 and 1"), "{line}");
    }
    assert!(refuse(d.path(), &["split", "t.csv", "-o", "g", "g"]).contains("the same file"));
    assert!(!files(d.path()).contains(&"g".to_string()));
}

#[test]
fn generate_writes_bounds_beside_the_table() {
    let d = tempfile::tempdir().unwrap();
    succeed(d.path(), &["generate", "census", "--rows", "50", "--seed", "3", "-o", "c.csv"]);
    assert_eq!(files(d.path()), ["bounds.toml", "c.csv"]);
    let first = std::fs::read(d.path().join("c.csv")).unwrap();
    succeed(d.path(), &["generate", "census", "--rows", "50", "--seed", "3", "-o", "c.csv"]);
    assert_eq!(first, std::fs::read(d.path().join("c.csv")).unwrap());
}

#[test]
fn a_panel_has_persons_with_many_rows_and_a_bounds_file_that_fits() {
    let d = tempfile::tempdir().unwrap();
    let panel = ["generate", "panel", "--units", "30", "--rows-per-unit", "20"];
    let made = |more: &[&str]| {
        let printed = succeed(d.path(), &[&panel[..], more, &["-o", "visits.csv"]].concat());
        assert_eq!(files(d.path()), ["bounds.toml", "visits.csv"]);
        (printed, std::fs::read_to_string(d.path().join("visits.csv")).unwrap())
    };
    let counts = |table: &str| {
        let mut rows = std::collections::BTreeMap::new();
        table
            .lines()
            .skip(1)
            .for_each(|line| *rows.entry(line.split(',').next().unwrap().to_string()).or_insert(0) += 1);
        rows.into_values().collect::<Vec<u32>>()
    };
    let (printed, even) = made(&["--correlation", "0.5", "--seed", "3"]);
    assert!(
        printed.starts_with("600 rows of 30 persons to visits.csv") && printed.contains("an expected accuracy of 0."),
        "{printed}"
    );
    assert_eq!(counts(&even), [20; 30]);
    assert_eq!(made(&["--correlation", "0.5", "--seed", "3"]).1, even);
    assert_ne!(made(&["--correlation", "0.5", "--seed", "4"]).1, even);
    assert_ne!(made(&["--correlation", "1", "--seed", "3"]).1, even);
    let (printed, uneven) = made(&["--seed", "3", "--uneven"]);
    let (least, most) = (*counts(&uneven).iter().min().unwrap(), *counts(&uneven).iter().max().unwrap());
    assert!(printed.contains(&format!("600 rows of 30 persons ({least} to {most} each)")), "{printed}");
    assert!(counts(&uneven).len() == 30 && uneven.lines().count() == 601 && least < 10 && most > 60, "{printed}");
    // the public facts are all that a plan needs: without what they say of the person it is taken for a category
    let plan = ["explain", "visits.csv", "--target", "outcome", "--epsilon", "1", "--bounds"];
    let warned = |facts: &str| {
        let output = dpopt(d.path(), &[&plan[..], &[facts]].concat());
        let notes = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{notes}");
        notes.contains("undeclared columns")
    };
    let facts = std::fs::read_to_string(d.path().join("bounds.toml")).unwrap();
    std::fs::write(d.path().join("less.toml"), facts.replace("[person]\nignore = true\n", "")).unwrap();
    assert_eq!((warned("bounds.toml"), warned("less.toml")), (false, true));
}

#[test]
fn messages_have_two_owners_each_of_whom_is_protected() {
    let d = tempfile::tempdir().unwrap();
    let generate = ["generate", "messages", "--units", "300", "--rows", "2000", "--seed", "3", "-o", "messages.csv"];
    let printed = succeed(d.path(), &generate);
    assert!(printed.starts_with("2000 messages among 300 persons to messages.csv"), "{printed}");
    let made = std::fs::read(d.path().join("messages.csv")).unwrap();
    succeed(d.path(), &generate);
    assert_eq!(std::fs::read(d.path().join("messages.csv")).unwrap(), made);
    let facts =
        ["messages.csv", "--target", "answered", "--epsilon", "2", "--delta", "1e-5", "--bounds", "bounds.toml"];
    let both = ["--unit", "sender", "--unit", "recipient", "--max-rows-per-unit", "1"];
    let all = |command: &'static str, more: &[&'static str]| [&[command], &facts[..], &both, more].concat();
    // who shares rows with whom is not protected: the plan, the check, the summary, the model and the report say so
    let open = "who shares rows with whom, is not protected";
    let explained = succeed(d.path(), &all("explain", &[]));
    assert!(explained.contains(open) && explained.contains("at most 1 of each owner"), "{explained}");
    let json: serde_json::Value = serde_json::from_str(&succeed(d.path(), &all("explain", &["--json"]))).unwrap();
    let kept = json["ownership"]["kept"].as_u64().unwrap();
    assert_eq!((&json["problem"]["rows"], &json["ownership"]["owners"]), (&kept.into(), &json["ownership"]["owners"]));
    assert!(kept > 100 && kept <= 150 && explained.contains(&format!("{kept} of")), "{kept}");
    assert!(succeed(d.path(), &all("check", &[])).contains(open));
    let ledger = ["--ledger", "l.jsonl", "--total-epsilon", "9", "--report", "r.html"];
    let summary = succeed(d.path(), &all("fit", &ledger));
    assert!(summary.contains(&format!("rows        {kept} kept, at most 1 per owner")), "{summary}");
    assert!(summary.contains("per sender and recipient, zero-out; who owns"), "{summary}");
    let model = std::fs::read_to_string(d.path().join("model.json")).unwrap();
    assert!(model.contains("public_ownership"));
    assert!(std::fs::read_to_string(d.path().join("r.html")).unwrap().contains(open));
    assert!(succeed(d.path(), &["verify", "model.json"]).contains("holds"));
    // the ledger is of both columns, in any order; another unit's runs are refused
    assert!(std::fs::read_to_string(d.path().join("l.jsonl")).unwrap().contains("values of recipient and sender"));
    let spend = |units: &[&'static str]| [&["fit"], &facts[..], units, &ledger[..4]].concat();
    succeed(d.path(), &spend(&["--unit", "recipient", "--unit", "sender", "--max-rows-per-unit", "1"]));
    let refused = refuse(d.path(), &spend(&["--unit", "sender"]));
    assert!(refused.contains("values of recipient and sender") && refused.contains("values of sender"), "{refused}");
    // what has no such guarantee says why
    for (more, why) in [
        (&["--relation", "add-or-remove", "--rows", "2000", "--units", "300"][..], "without bound"),
        (&["--unit-clipping", "unit"], "cannot be clipped as a whole"),
        (&["--memory", "1M"], "leave out --memory"),
        (&["--unit", "sender"], "named twice"),
    ] {
        assert!(refuse(d.path(), &all("fit", more)).contains(why), "{more:?}");
    }
    let unbounded = [&["fit"], &facts[..], &both[..4]].concat();
    assert!(refuse(d.path(), &unbounded).contains("--max-rows-per-unit"));
    let numbers = ["explain", "--rows", "900", "--features", "9", "--epsilon", "1"];
    assert!(refuse(d.path(), &[&numbers[..], &both].concat()).contains("give a table"));
    // a mean, of the rows that are kept
    std::fs::write(d.path().join("m.csv"), "x,from,to\n1,a,b\n0,b,a\n1,c,d\n1,e,\n0,,\n").unwrap();
    let mean =
        ["mean", "m.csv", "--sparsity", "1", "--epsilon", "1", "--delta", "1e-3", "--unit", "from", "--unit", "to"];
    let mean = [&mean[..], &["--max-rows-per-unit", "1"]].concat();
    assert!(succeed(d.path(), &[&mean[..], &["--explain"]].concat()).contains("3 of 5 rows of 5 owners are kept"));
    assert!(succeed(d.path(), &mean).contains("mean of 3 vectors, 1 of from and to at most, with 1 coordinates"));
}

#[test]
fn a_table_has_its_own_options_and_no_others() {
    let d = tempfile::tempdir().unwrap();
    for (arguments, named) in [
        (&["panel", "--rows", "50"][..], "--rows"),
        (&["census", "--units", "50"], "--units"),
        (&["census", "--rows-per-unit", "50"], "--rows-per-unit"),
        (&["census", "--correlation", "0.5"], "--correlation"),
        (&["census", "--uneven"], "--uneven"),
        (&["panel", "--units", "0"], "--units"),
        (&["pannel"], "panel"),
    ] {
        let output = dpopt(d.path(), &[&["generate"], arguments, &["-o", "t.csv"]].concat());
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(error.lines().next().unwrap().contains(named) || error.contains(&format!("'{named}'")), "{error}");
    }
    for correlation in ["1.5", "-0.1", "nan"] {
        let line = refuse(d.path(), &["generate", "panel", "--correlation", correlation, "-o", "t.csv"]);
        assert!(line.contains("--correlation is") && line.contains("from 0"), "{line}");
    }
    let many = ["generate", "panel", "--units", "100000", "--rows-per-unit", "100000", "-o", "t.csv"];
    assert!(refuse(d.path(), &many).contains("give fewer"));
    // the facts of a census are not lost to those of a panel
    succeed(d.path(), &["generate", "census", "--rows", "50", "-o", "t.csv"]);
    let facts = || std::fs::read(d.path().join("bounds.toml")).unwrap();
    let before = facts();
    let printed = succeed(d.path(), &["generate", "panel", "--units", "3", "--rows-per-unit", "2", "-o", "visits.csv"]);
    assert!(printed.contains("public facts to visits.bounds.toml") && facts() == before, "{printed}");
    assert_eq!(files(d.path()), ["bounds.toml", "t.csv", "visits.bounds.toml", "visits.csv"]);
}

#[test]
fn a_file_that_is_not_a_model_says_so() {
    let d = tempfile::tempdir().unwrap();
    std::fs::write(d.path().join("t.csv"), "x\n1\n").unwrap();
    for (text, part) in [("{}", "not a model"), ("not json", "not a model"), (r#"{"format":"other"}"#, "not a model")] {
        std::fs::write(d.path().join("m.json"), text).unwrap();
        let line = refuse(d.path(), &["predict", "m.json", "t.csv"]);
        assert!(line.contains(part), "{line}");
    }
    assert!(refuse(d.path(), &["predict", "missing.json", "t.csv"]).contains("cannot read"));
}

#[test]
fn help_and_version_work() {
    let d = tempfile::tempdir().unwrap();
    for arguments in [&["--help"][..], &["fit", "--help"], &["account", "--help"], &["--version"]] {
        let output = dpopt(d.path(), arguments);
        assert!(output.status.success() && !output.stdout.is_empty());
    }
    assert_eq!(dpopt(d.path(), &["fit"]).status.code(), Some(2));
    let version = concat!("dpopt ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!(succeed(d.path(), &["-V"]), version);
    let build = succeed(d.path(), &["--version"]);
    assert!(
        build.starts_with(version) && build.lines().count() == 5 && build.contains(std::env::consts::ARCH),
        "{build}"
    );
}

#[test]
fn help_shows_every_method_and_option_and_the_documentation_agrees() {
    let d = tempfile::tempdir().unwrap();
    let methods = succeed(d.path(), &["help", "methods"]);
    let options = succeed(d.path(), &["help", "options"]);
    for method in dpopt_methods::registry().names() {
        assert!(methods.contains(&format!("\n  {method} ")), "{method}");
        let page = succeed(d.path(), &["help", method]);
        for option in dpopt_methods::registry().catalogue() {
            let flag = format!("--{}", option.info.name.replace('_', "-"));
            let shown = page.lines().any(|line| line.split_whitespace().next() == Some(&flag));
            assert_eq!(shown, option.methods.contains(&method), "{method} {flag}");
            assert!(options.contains(&flag), "{flag}");
        }
    }
    // the first page has what everyone needs, and says where the rest is
    let fit = succeed(d.path(), &["fit", "--help"]);
    assert!(!fit.contains("\n      --steps") && fit.contains("dpopt help METHOD"));
    assert_eq!(fit, succeed(d.path(), &["help", "fit"]));
    assert!(refuse(d.path(), &["help", "nosuch"]).contains("`dpopt help methods`"));
    let table = succeed(d.path(), &["help", "options", "--markdown"]);
    let written = include_str!("../../../../docs/methods/options.md");
    assert!(table == written, "docs/methods/options.md is not what the methods say; run `make options`");
}
