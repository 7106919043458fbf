//! `dpopt mean`: the mean of sparse vectors in every form, its plan, its files, its refusals.

use crate::written::{list_of, lists, optional, table};
use crate::{dpopt, files, refuse, succeed};
use parquet::data_type::{FloatType, Int32Type, Int64Type};
use parquet::file::properties::WriterProperties;
use std::fmt::Write;
use std::path::Path;

const RECORDS: u32 = 3000;

/// Entries of record i: 0.8 at 3, and 0.6 at a place of its own.
fn entries(i: u32) -> [(u32, f32); 2] {
    [(3, 0.8), (10 + (i * 7919) % 90_000, 0.6)]
}

/// The person who owns record i.
fn person(i: u32) -> u32 {
    (i * i) % 701
}

/// The label is the person.
fn write_libsvm(file: &Path) {
    let mut text = String::new();
    for i in 0..RECORDS {
        let [a, b] = entries(i);
        writeln!(text, "{} {}:{} {}:{}", person(i), a.0 + 1, a.1, b.0 + 1, b.1).unwrap();
    }
    std::fs::write(file, text).unwrap();
}

fn write_parquet(file: &Path, last_index: u32) {
    let place = |i: u32, j: u32| if i + 1 == RECORDS && j != 3 { last_index } else { j };
    let indices: Vec<_> =
        (0..RECORDS).map(|i| Some(entries(i).map(|(j, _)| Some(place(i, j) as i32)).to_vec())).collect();
    let values: Vec<_> = (0..RECORDS).map(|i| Some(entries(i).map(|(_, v)| Some(v)).to_vec())).collect();
    let persons = (0..RECORDS).map(|i| Some(i64::from(person(i))));
    let columns = "OPTIONAL INT64 person;".to_string() + &list_of("INT32", "indices") + &list_of("FLOAT", "values");
    let leaves = vec![optional::<Int64Type>(persons), lists::<Int32Type>(&indices), lists::<FloatType>(&values)];
    std::fs::write(file, table(&columns, WriterProperties::builder(), &[leaves])).unwrap();
}

const MEAN: [&str; 10] =
    ["--features", "100000", "--sparsity", "2", "--epsilon", "2", "--delta", "1e-6", "--insecure-seed", "5"];

fn mean<'a>(data: &'a str, extra: &[&'a str]) -> Vec<&'a str> {
    ["mean", data].into_iter().chain(MEAN).chain(extra.iter().copied()).collect()
}

#[test]
fn libsvm_and_parquet_give_the_same_sparse_mean() {
    let d = tempfile::tempdir().unwrap();
    write_libsvm(&d.path().join("v.libsvm"));
    write_parquet(&d.path().join("v.parquet"), entries(RECORDS - 1)[1].0);
    let printed = succeed(d.path(), &mean("v.libsvm", &["-o", "a.csv", "--report", "r.html"]));
    assert!(printed.contains("3000 vectors with 100000 coordinates") && printed.contains("NO privacy"), "{printed}");
    succeed(d.path(), &mean("v.parquet", &["-o", "b.csv"]));
    let a = std::fs::read_to_string(d.path().join("a.csv")).unwrap();
    assert_eq!(a, std::fs::read_to_string(d.path().join("b.csv")).unwrap());
    let lines: Vec<&str> = a.lines().collect();
    assert_eq!(lines[0], "index,value");
    assert!(lines.len() < 10_000, "noise on 100,000 coordinates, {} lines", lines.len());
    let at_3: f64 = lines.iter().find_map(|l| l.strip_prefix("3,")).unwrap().parse().unwrap();
    assert!((at_3 - 0.8).abs() < 0.05, "{at_3}");
    let report = std::fs::read_to_string(d.path().join("r.html")).unwrap();
    assert!(report.contains("A private mean of vectors") && report.contains("100,000 coordinates"));
    assert!(!report.contains("linear model"), "words of another answer");
    // the same as one JSON object
    succeed(d.path(), &mean("v.libsvm", &["-o", "c.json", "-q"]));
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(d.path().join("c.json")).unwrap()).unwrap();
    assert_eq!(json["indices"].as_array().unwrap().len() + 1, lines.len());
    assert!(json["guarantee"]["certified_epsilon"].as_f64().unwrap() <= 2.0);
}

#[test]
fn the_plan_is_shown_without_reading_and_methods_are_chosen_by_it() {
    let d = tempfile::tempdir().unwrap();
    write_libsvm(&d.path().join("v.libsvm"));
    let shown = succeed(d.path(), &mean("v.libsvm", &["--explain"]));
    assert!(shown.contains("no record was read") && shown.contains("projected-laplace"), "{shown}");
    let json = succeed(d.path(), &mean("v.libsvm", &["--explain", "--json"]));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    // two entries per vector: the l1 norm is small, and Laplace noise the better
    assert_eq!(json["candidates"][0]["method"], "projected-laplace");
    let wide = succeed(
        d.path(),
        &["mean", "v.libsvm", "--features", "100000", "--sparsity", "40", "--epsilon", "1", "--explain", "--json"],
    );
    let wide: serde_json::Value = serde_json::from_str(&wide).unwrap();
    assert_eq!(wide["candidates"][0]["method"], "projected-gaussian");
    assert_eq!(files(d.path()), ["v.libsvm"]);
    // a pure guarantee
    let pure = succeed(
        d.path(),
        &["mean", "v.libsvm", "--features", "100000", "--sparsity", "2", "--epsilon", "2", "--delta", "0"],
    );
    assert!(pure.contains("projected-laplace") && pure.contains("delta 0"), "{pure}");
    // a table of numbers
    std::fs::write(d.path().join("t.csv"), "x,y\n0.6,0.8\n0,1\n-0.5,\n").unwrap();
    let printed = succeed(d.path(), &["mean", "t.csv", "--sparsity", "2", "--epsilon", "1", "-o", "t.mean.csv"]);
    assert!(printed.contains("3 vectors with 2 coordinates"), "{printed}");
}

#[test]
fn bad_vectors_are_refused_without_their_values() {
    let d = tempfile::tempdir().unwrap();
    write_libsvm(&d.path().join("v.libsvm"));
    write_parquet(&d.path().join("v.parquet"), 123_456_789);
    let error = refuse(d.path(), &mean("v.parquet", &["--bad-cells", "error"]));
    assert!(error.contains("row 3000") && !error.contains("123456789"), "{error}");
    // counts as left out
    succeed(d.path(), &mean("v.parquet", &["-q"]));
    let error = refuse(d.path(), &["mean", "v.parquet", "--sparsity", "2", "--epsilon", "1"]);
    assert!(error.contains("--features"), "{error}");
    std::fs::write(d.path().join("t.csv"), "x,name\n1,ann\n2,bob\n").unwrap();
    let error = refuse(d.path(), &["mean", "t.csv", "--sparsity", "1", "--epsilon", "1", "--bad-cells", "error"]);
    assert!(error.contains("column `c2`, row 1") && !error.contains("ann"), "{error}");
    for (flag, value) in
        [("--sparsity", "0"), ("--norm", "-1"), ("--norm", "NaN"), ("--method", "median"), ("--epsilon", "-1")]
    {
        let mut arguments = mean("v.libsvm", &[]);
        match arguments.iter().position(|a| *a == flag) {
            Some(at) => arguments[at + 1] = value,
            None => arguments.extend([flag, value]),
        }
        refuse(d.path(), &arguments);
    }
    assert!(!files(d.path()).iter().any(|f| f.starts_with('.')), "{:?}", files(d.path()));
}

#[test]
fn a_ledger_pays_for_means_too() {
    let d = tempfile::tempdir().unwrap();
    write_libsvm(&d.path().join("v.libsvm"));
    // without the seed: predictable noise is not charged
    let mut arguments: Vec<&str> = mean("v.libsvm", &["--ledger", "budget.jsonl", "--total-epsilon", "3", "-q"]);
    let seed = arguments.iter().position(|a| *a == "--insecure-seed").unwrap();
    arguments.drain(seed..seed + 2);
    succeed(d.path(), &arguments);
    refuse(d.path(), &arguments);
    let status = succeed(d.path(), &["ledger", "budget.jsonl"]);
    assert!(status.contains("mean of"), "{status}");
}

#[test]
fn sparse_vectors_are_pooled_by_person_in_every_form() {
    let d = tempfile::tempdir().unwrap();
    write_libsvm(&d.path().join("v.libsvm"));
    write_parquet(&d.path().join("v.parquet"), entries(RECORDS - 1)[1].0);
    let persons = (0..RECORDS).map(person).collect::<std::collections::BTreeSet<_>>().len();
    let printed = succeed(d.path(), &mean("v.libsvm", &["--unit", "label", "-o", "a.csv"]));
    let promised = (format!("mean of {persons} vectors, one per label, with 100000"), ", per label, zero-out");
    assert!(printed.contains(&promised.0) && printed.contains(promised.1), "{printed}");
    succeed(d.path(), &mean("v.parquet", &["--unit", "person", "-o", "b.csv"]));
    let a = std::fs::read_to_string(d.path().join("a.csv")).unwrap();
    assert_eq!(a, std::fs::read_to_string(d.path().join("b.csv")).unwrap());
    // the sparsity of a row is enough for means of rows that are no longer than the norm
    let at_3: f64 = a.lines().find_map(|l| l.strip_prefix("3,")).unwrap().parse().unwrap();
    assert!((at_3 - 0.8).abs() < 0.1, "{at_3}");
    let error = refuse(d.path(), &mean("v.parquet", &["--unit", "features"]));
    assert!(error.contains("holds the vectors"), "{error}");
}

/// Visits of 300 persons, of which person i has 1 + i % 7, not together.
fn write_visits(directory: &Path) {
    let mut rows: Vec<String> = Vec::new();
    for visit in 0..7 {
        rows.extend((0..300).filter(|i| visit <= i % 7).map(|i| format!("0.{}3,p{i},-0.{}", (i + visit) % 10, i % 9)));
    }
    let table = |rows: &mut dyn Iterator<Item = &String>| {
        rows.fold(String::from("x,person,y\n"), |text, row| text + row + "\n")
    };
    std::fs::write(directory.join("visits.csv"), table(&mut rows.iter())).unwrap();
    let (first, second) = rows.split_at(500);
    std::fs::write(directory.join("1.csv"), table(&mut second.iter().rev())).unwrap();
    std::fs::write(directory.join("2.csv"), table(&mut first.iter())).unwrap();
}

const VISITS: [&str; 8] = ["--unit", "person", "--sparsity", "2", "--epsilon", "1", "--delta", "1e-6"];

#[test]
fn files_shards_and_orders_of_visits_promise_the_same_per_person() {
    let d = tempfile::tempdir().unwrap();
    write_visits(d.path());
    let run = |files: &[&str], extra: &[&str], output: &str| -> serde_json::Value {
        let arguments = [&["mean"], files, &VISITS, &["--insecure-seed", "5", "-q", "-o", output], extra].concat();
        succeed(d.path(), &arguments);
        serde_json::from_slice(&std::fs::read(d.path().join(output)).unwrap()).unwrap()
    };
    let whole = run(&["visits.csv"], &["--report", "r.json"], "a.json");
    assert_eq!(whole["guarantee"]["unit"], "user");
    assert_eq!(whole["guarantee"]["unit_column"], "person");
    assert_eq!(run(&["1.csv", "2.csv"], &[], "b.json"), whole);
    // of at most two visits each, chosen by coins: another answer, and the same promise
    let two = run(&["1.csv", "2.csv"], &["--max-rows-per-unit", "2", "--units", "300"], "c.json");
    assert_eq!((&two["guarantee"], &two["error_bound"]), (&whole["guarantee"], &whole["error_bound"]));
    assert_ne!(two["values"], whole["values"]);
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(d.path().join("r.json")).unwrap()).unwrap();
    assert_eq!(report["facts"]["units"], 300);
    assert!(report["facts"].get("rows").is_none(), "{}", report["facts"]);
    assert!(report["assumptions"].to_string().contains("Each person has one value of `person`"), "{report}");
    let explained =
        |extra: &[&str]| succeed(d.path(), &[&["mean", "visits.csv", "--explain"], &VISITS[..], extra].concat());
    let shown = explained(&[]);
    assert!(shown.starts_with("mean of 300 vectors, one per person, with 2 coordinates"), "{shown}");
    assert!(shown.contains("no vector was read, only the column `person`"), "{shown}");
    let json: serde_json::Value = serde_json::from_str(&explained(&["--json"])).unwrap();
    assert_eq!((&json["unit_column"], &json["problem"]["unit"]), (&"person".into(), &"user".into()));
    assert_eq!(json["problem"]["records"], 300);
    assert!(succeed(d.path(), &["mean", "--help"]).contains("means of a unit's vectors"));
}

#[test]
fn a_ledger_by_person_refuses_rows_and_the_other_way_round() {
    let d = tempfile::tempdir().unwrap();
    write_visits(d.path());
    std::fs::write(d.path().join("rows.csv"), String::from("x,y\n") + &"0.1,0.2\n".repeat(300)).unwrap();
    let by_person = |ledger: &'static str| {
        [&["mean", "visits.csv", "-q", "--ledger", ledger, "--total-epsilon", "4"], &VISITS[..]].concat()
    };
    let by_row = |ledger: &'static str| {
        [&["mean", "rows.csv", "-q", "--ledger", ledger, "--total-epsilon", "4"], &VISITS[2..]].concat()
    };
    succeed(d.path(), &by_person("persons.jsonl"));
    succeed(d.path(), &by_row("rows.jsonl"));
    let before = ["persons.jsonl", "rows.jsonl"].map(|name| std::fs::read(d.path().join(name)).unwrap());
    for refused in [refuse(d.path(), &by_row("persons.jsonl")), refuse(d.path(), &by_person("rows.jsonl"))] {
        assert!(refused.contains("values of ") && refused.contains("records"), "{refused}");
    }
    // a number of persons that is wrong, and one that is missing
    for (extra, why) in [(["--units", "299"], "--units is 299"), (["--relation", "add-or-remove"], "with --units")] {
        let error = refuse(d.path(), &[&by_person("new.jsonl")[..], &extra].concat());
        assert!(error.contains(why), "{error}");
    }
    // flags that do not go together
    let (person, row) = (by_person("new.jsonl"), by_row("new.jsonl"));
    let missing = "--unit is missing; `dpopt help mean` lists the options";
    for (arguments, extra, why) in [
        (&row, "--units", missing),
        (&row, "--max-rows-per-unit", missing),
        (&person, "--rows", "cannot be used with '--rows"),
    ] {
        let output = dpopt(d.path(), &[&arguments[..], &[extra, "300"]].concat());
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(why), "{error}");
    }
    assert_eq!(before, ["persons.jsonl", "rows.jsonl"].map(|name| std::fs::read(d.path().join(name)).unwrap()));
    assert!(!d.path().join("new.jsonl").exists(), "charged for a run that was refused");
}

/// Incomes with a mean of 2 and second moment 16/3: u^(-1/2)-like tails, on an even grid of u. The last row is a person's of its own.
fn write_columns(file: &Path, rows: u32) {
    let mut text = String::from("person,income,\"late, days\"\n");
    for i in 0..rows {
        let u = (f64::from(i) + 0.5) / f64::from(rows);
        writeln!(text, "p{},{},{}", i / 4, 4.0 / 3.0 * u.powf(-1.0 / 3.0), f64::from(i % 7) - 3.0).unwrap();
    }
    std::fs::write(file, text).unwrap();
}

#[test]
fn means_of_columns_have_intervals_in_every_form() {
    let d = tempfile::tempdir().unwrap();
    write_columns(&d.path().join("t.csv"), 8000);
    let run = |extra: &[&str]| {
        let of = ["--of", "income", "--of", "late, days", "--epsilon", "1", "--delta", "1e-6", "--insecure-seed", "5"];
        let all: Vec<&str> = ["mean", "t.csv"].into_iter().chain(of).chain(extra.iter().copied()).collect();
        succeed(d.path(), &all)
    };
    let known = ["--moment", "income=2:2.31", "--moment", "2:2.1@0.5"];
    let printed = run(&[&known[..], &["-o", "m.csv", "--report", "r.html"]].concat());
    assert!(
        printed.contains("means of 2 columns of 8000 rows")
            && printed.contains("clip bias")
            && printed.contains("NO privacy"),
        "{printed}"
    );
    let text = std::fs::read_to_string(d.path().join("m.csv")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "column,mean,low,high,noise,sampling,clip_bias,noise_std,centre,clipped_at,moment_root");
    assert!(lines.len() == 3 && lines[2].starts_with("\"late, days\","), "{text}");
    let numbers: Vec<f64> = lines[1].split(',').skip(1).map(|x| x.parse().unwrap()).collect();
    assert!(numbers[1] < 2.0 && 2.0 < numbers[2] && (numbers[0] - 2.0).abs() < 0.1, "{numbers:?}");
    assert!((numbers[2] - numbers[1] - 2.0 * (numbers[3] + numbers[4] + numbers[5])).abs() < 1e-9, "the parts add up");
    let report = std::fs::read_to_string(d.path().join("r.html")).unwrap();
    assert!(report.contains("Private means of columns") && report.contains("Means and intervals"), "{report}");
    assert!(!report.contains("linear model") && !report.contains("vectors read"), "words of another answer");
    // by person, and as JSON
    run(&[&known[..], &["--unit", "person", "-o", "m.json", "--report", "r.json", "-q"]].concat());
    let json = |name: &str| -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(d.path().join(name)).unwrap()).unwrap()
    };
    let answer = json("m.json");
    assert_eq!(answer["guarantee"]["unit_column"], "person");
    let of = &answer["columns"][0];
    assert!(of["column"] == "income" && of["interval"][0].as_f64() < of["mean"].as_f64(), "{of}");
    assert_eq!(json("r.json")["intervals"]["rows"].as_array().unwrap().len(), 2);
    // of which only the order is known: released, assumed, and reported
    let printed = run(&["--moment", "3", "-o", "o.csv"]);
    assert!(printed.contains("ASSUMED") && printed.contains("10 %"), "{printed}");
    let shown = run(&["--moment", "3", "--explain"]);
    assert!(
        shown.contains("no record was read") && shown.contains(" m ") && shown.contains("released first"),
        "{shown}"
    );
    let shown: serde_json::Value = serde_json::from_str(&run(&["--moment", "3:5", "--explain", "--json"])).unwrap();
    assert_eq!(shown["candidates"][0]["method"], "clipped-laplace");
    assert_eq!(shown["problem"]["moments"][1]["root"], 5.0);
}

#[test]
fn what_is_asked_of_columns_is_refused_before_anything_is_spent() {
    let d = tempfile::tempdir().unwrap();
    write_columns(&d.path().join("t.csv"), 300);
    let ledger = ["--ledger", "l.jsonl", "--total-epsilon", "5", "--total-delta", "1e-5"];
    let why = |extra: &[&str]| {
        let common = ["mean", "t.csv", "--epsilon", "1", "--delta", "1e-6"];
        refuse(d.path(), &common.into_iter().chain(extra.iter().copied()).chain(ledger).collect::<Vec<_>>())
    };
    for (extra, expected) in [
        (&["--of", "income", "--moment", "x"][..], "write k, k:m or k:m@a"),
        (&["--of", "income", "--moment", "1:2"], "above 1"),
        (&["--of", "income", "--moment", "2:-2"], "from 1e-60 to 1e60"),
        (&["--of", "income", "--moment", "late=2:2"], "not among the columns"),
        (&["--of", "income", "--moment", "income=2:2", "--moment", "income=3:2"], "two moments"),
        (&["--of", "income", "--moment", "2:2", "--moment", "3:2"], "two moments have no column"),
        (&["--of", "income", "--moment", "2"], "records at this budget"),
        (&["--of", "income", "--moment", "2:2", "--confidence", "1"], "confidence"),
        (&["--of", "income", "--moment", "2:2", "--spread-factor", "0"], "spread factor"),
        (&["--of", "income", "--moment", "2:2", "--method", "l1-recovery"], "clipped-laplace"),
        (&["--of", "salary", "--moment", "2:2"], "salary"),
        (&["--of", "income,income", "--moment", "2:2"], "twice"),
        (&["--of", "income", "--moment", "2:2", "--relation", "add-or-remove"], "--rows"),
        (&["--of", "income", "--moment", "2:2", "--unit", "income"], "numbers that are averaged"),
    ] {
        let error = why(extra);
        assert!(error.contains(expected), "{extra:?}: {error}");
    }
    assert_eq!(files(d.path()), ["t.csv"], "no ledger, no answer");
    // what stops a run after the charge keeps it
    std::fs::write(d.path().join("t.csv"), "income\n1\n2\noops\n").unwrap();
    let error = why(&["--of", "income", "--moment", "2:2", "--bad-cells", "error"]);
    assert!(error.contains("row 3") && error.contains("keeps the charge"), "{error}");
}
