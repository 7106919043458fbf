//! `dpopt check`: everything a fit would trip over, at no budget.

use crate::{census, dpopt, files, path, succeed};

const FLAGS: [&str; 6] = ["--target", "income", "--epsilon", "0.5", "--delta=1e-6", "--bounds"];

#[test]
fn a_good_table_passes_and_nothing_is_charged_or_written() {
    let d = tempfile::tempdir().unwrap();
    let (data, bounds) = (path(census(), "census.csv"), path(census(), "bounds.toml"));
    let ledger = ["--ledger", "budget.jsonl", "--total-epsilon", "1", "--total-delta=1e-6"];
    let text = succeed(d.path(), &[&["check", &data], &FLAGS[..], &[&bounds], &ledger].concat());
    assert!(
        text.contains("NOT PRIVATE") && text.contains("nothing stands in the way") && text.contains("renyi"),
        "{text}"
    );
    assert!(files(d.path()).is_empty());
}

#[test]
fn all_problems_are_told_with_rows_and_without_values() {
    let d = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(census().join("census.csv")).unwrap();
    let mut lines: Vec<String> = text.lines().map(String::from).collect();
    let columns: Vec<&str> = text.lines().next().unwrap().split(',').collect();
    let (age, income) =
        (columns.iter().position(|c| *c == "age").unwrap(), columns.iter().position(|c| *c == "income").unwrap());
    let mut set = |row: usize, column: usize, value: &str| {
        let mut cells: Vec<String> = lines[row].split(',').map(String::from).collect();
        cells[column] = value.into();
        lines[row] = cells.join(",");
    };
    set(7, age, "CANARY7");
    set(30, age, "CANARY30");
    set(2000, age, "1e999");
    set(40, income, "CANARY40");
    set(41, income, "");
    lines[50].push_str(",CANARY50");
    lines[60] = ",CANARY60".into();
    std::fs::write(d.path().join("t.csv"), lines.join("\n") + "\n").unwrap();
    let bounds = path(census(), "bounds.toml");
    // not a ledger; an output that is the table; a wrong number of rows
    std::fs::write(d.path().join("note"), "hello").unwrap();
    let wrong = ["--bad-cells", "error", "--ledger", "note", "--total-epsilon", "1", "-o", "./t.csv", "--rows", "2999"];
    let output = dpopt(d.path(), &[&["check", "t.csv"], &FLAGS[..], &[&bounds], &wrong].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.starts_with("NOT PRIVATE"), "{text}");
    for part in [
        "`age`",
        "3 cells",
        "rows 7, 30, 2000",
        "2 rows have",
        "rows 50, 60",
        "not a ledger",
        "the data",
        "--rows",
        "`income`",
        "row 40",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("CANARY") && !String::from_utf8_lossy(&output.stderr).contains("CANARY"), "{text}");
    assert_eq!(std::fs::read_to_string(d.path().join("note")).unwrap(), "hello");
    // as data for a program
    let output = dpopt(d.path(), &[&["check", "t.csv", "--json"], &FLAGS[..], &[&bounds], &wrong].concat());
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["private"], false);
    assert!(document["problems"].as_array().unwrap().len() >= 5, "{document}");
    // with --bad-cells missing cells are no obstacle, but still told
    let output = dpopt(d.path(), &[&["check", "t.csv", "--bad-cells", "missing"], &FLAGS[..], &[&bounds]].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("3 cells"), "{text}");
}

/// A fit that can learn nothing is a problem, whatever the reason.
#[test]
fn nothing_that_can_be_read_is_a_problem() {
    let d = tempfile::tempdir().unwrap();
    let rows =
        |row: &dyn Fn(usize) -> String| format!("paid,sex,y\n{}", (0..300).map(|i| row(i) + "\n").collect::<String>());
    let bounds = |paid: &str| format!("[paid]\n{paid}\n[sex]\nlevels = ['f', 'm']\n[y]\nlevels = ['no', 'yes']\n");
    let number = "lower = 0\nupper = 2000";
    for (table, paid, part) in [
        (
            rows(&|i| format!("\"{i},5\",f,{}", ["no", "yes"][i % 2])),
            number,
            "no cell of column `paid` can be read as a number: its commas",
        ),
        (
            rows(&|i| format!("{i} kg,f,{}", ["no", "yes"][i % 2])),
            number,
            "no cell of column `paid` can be read as a number: there is a unit",
        ),
        (
            rows(&|i| format!("2020-01-{:02},f,{}", 1 + i % 28, ["no", "yes"][i % 2])),
            number,
            "write its bounds as dates",
        ),
        (
            rows(&|i| format!("{i},f,{}", ["no", "yes"][i % 2])),
            "lower = 2020-01-01\nupper = 2021-01-01",
            "its bounds are dates",
        ),
        (
            rows(&|i| format!("{i},{},{}", ["F", "M"][i % 2], ["no", "yes"][i % 2])),
            number,
            "no cell of column `sex` is one of its declared levels",
        ),
        (rows(&|i| format!("{i},f,{}", ["N", "Y"][i % 2])), number, "not one with a usable target `y`"),
        (rows(&|i| format!("{i},f,\"{}", ["no", "yes"][i % 2])), number, "not one with a usable target `y`"),
    ] {
        std::fs::write(d.path().join("t.csv"), &table).unwrap();
        std::fs::write(d.path().join("b.toml"), bounds(paid)).unwrap();
        let check = ["check", "t.csv", "--target", "y", "--epsilon", "1", "--delta", "1e-6", "--bounds", "b.toml"];
        let output = dpopt(d.path(), &check);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.code() == Some(2) && text.contains(part), "{part}: {text}");
    }
    // some of it is a note
    let table = rows(&|i| {
        format!(
            "{},{},{}",
            ["12", "1,5", "$1 200.50"][i % 3].replace(',', ";"),
            ["f", "X"][i % 2],
            ["no", "yes", "?"][i % 3]
        )
    });
    std::fs::write(d.path().join("t.csv"), table).unwrap();
    std::fs::write(d.path().join("b.toml"), bounds(number)).unwrap();
    let check = ["check", "t.csv", "--target", "y", "--epsilon", "1", "--delta", "1e-6", "--bounds", "b.toml"];
    let text = succeed(d.path(), &check);
    assert!(
        text.contains("100 cells of column `paid`: not a finite number") && text.contains("100 rows without a target"),
        "{text}"
    );
    assert!(text.contains("150 cells of column `sex` not among its levels"), "{text}");
}

#[test]
fn what_keeps_the_table_from_being_opened_is_told_beside_the_rest() {
    let d = tempfile::tempdir().unwrap();
    let output = dpopt(
        d.path(),
        &[
            &["check", "missing.csv"],
            &FLAGS[..],
            &["missing.toml", "-o", "nowhere/m.json", "--insecure-seed", "1", "--ledger", "l", "--total-epsilon", "1"],
        ]
        .concat(),
    );
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(2));
    for part in ["missing.csv", "missing.toml", "nowhere", "--insecure-seed"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // a budget that no method can use, and a range that is missing
    let data = path(census(), "census.csv");
    let output = dpopt(
        d.path(),
        &[
            "check",
            &data,
            "--target",
            "income",
            "--epsilon",
            "0.5",
            "--delta=1e-6",
            "--numeric",
            "age",
            "--method",
            "noisy-sgd",
        ],
    );
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.code() == Some(2) && text.contains("without bounds"), "{text}");
}

#[test]
fn identifiers_are_told_by_their_values_whatever_their_name() {
    let d = tempfile::tempdir().unwrap();
    let row = |i: usize| format!("{i},k{},{},{}\n", i * 7919 % 10007, i % 30, if i % 30 > 10 { "a" } else { "b" });
    std::fs::write(d.path().join("t.csv"), "id,contract,x,y\n".to_string() + &(0..1000).map(row).collect::<String>())
        .unwrap();
    std::fs::write(d.path().join("b.toml"), "[x]\nlower = 0\nupper = 30\n[y]\nlevels = ['a', 'b']\n").unwrap();
    let check = |more: &[&str]| {
        let flags = ["check", "t.csv", "--target", "y", "--epsilon", "1", "--bounds", "b.toml"];
        succeed(d.path(), &[&flags[..], more].concat())
    };
    let text = check(&["--ignore", "id"]);
    assert!(text.contains("`contract` looks like an identifier: 1000 different values"), "{text}");
    assert!(!text.contains("`id`"), "{text}");
    let text = check(&["--ignore", "id,contract"]);
    assert!(!text.contains("identifier"), "{text}");
}
