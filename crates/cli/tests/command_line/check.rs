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
fn all_problems_are_listed_with_rows_and_without_values() {
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
    // with --bad-cells missing cells are no obstacle, but still reported
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
        (rows(&|i| format!("{i},f,{}", ["N", "Y"][i % 2])), number, "none has a usable target `y`"),
        (rows(&|i| format!("{i},f,\"{}", ["no", "yes"][i % 2])), number, "none has a usable target `y`"),
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
fn what_keeps_the_table_from_being_opened_is_listed_beside_the_rest() {
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
    assert!(output.status.code() == Some(2) && text.contains("have no declared range"), "{text}");
}

#[test]
fn identifiers_are_found_by_their_values_whatever_their_name() {
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
    assert!(text.contains("`contract` looks like an identifier: it has 1000 different values"), "{text}");
    assert!(!text.contains("`id`"), "{text}");
    let text = check(&["--ignore", "id,contract"]);
    assert!(!text.contains("identifier"), "{text}");
}

/// A label that is spelt otherwise in the table keeps a model from learning it, and a fit may not say so.
#[test]
fn a_label_that_no_row_has_is_a_problem_where_rows_have_others() {
    let d = tempfile::tempdir().unwrap();
    let bounds = std::fs::read_to_string(census().join("bounds.toml")).unwrap();
    let data = path(census(), "census.csv");
    let rows = std::fs::read_to_string(&data).unwrap();
    let high: Vec<usize> = rows.lines().enumerate().filter(|(_, row)| row.ends_with(",high")).map(|(i, _)| i).collect();
    let check = |levels: &str| {
        std::fs::write(d.path().join("b.toml"), bounds.replace("[\"low\", \"high\"]", levels)).unwrap();
        let output = dpopt(d.path(), &[&["check", &data], &FLAGS[..], &["b.toml"]].concat());
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, text) = check("[\"low\", \"hihg\"]");
    assert!(high.len() > 100, "{}", high.len());
    let problem = format!(
        "problem  no row has the declared label `hihg` of the target `income`, and {} of 3000 rows (rows {}, {}, ",
        high.len(),
        high[0],
        high[1]
    );
    assert!(code == Some(2) && text.contains(&problem), "{text}");
    let end = " …) have a label that is not declared: they teach the model nothing; check how the declared labels are spelt \
               (levels in [income], or --classes)\n";
    assert!(text.contains(end) && text.contains("next     mend this, then: dpopt check "), "{text}");
    // the labels of the rows are not shown
    assert!(!text.contains("high"), "{text}");
    // a label that only few tables have is no mistake
    let (code, text) = check("[\"low\", \"high\", \"rare\"]");
    assert!(code == Some(0) && text.contains("note     no row has the declared label `rare` of the target"), "{text}");
    // nor are rows of labels that are left out on purpose
    let table = rows.replace(",high", ",medium").replacen(",medium", ",high", 200);
    std::fs::write(d.path().join("t.csv"), table).unwrap();
    let text = succeed(d.path(), &[&["check", "t.csv"], &FLAGS[..], &[&path(census(), "bounds.toml")]].concat());
    assert!(text.contains("rows with a label of the target `income` that is not declared: they teach"), "{text}");
    assert!(!text.contains("medium"), "{text}");
    // as data for a program
    let data = [&["check", &data], &FLAGS[..], &["b.toml", "--classes", "low,hihg", "--json"]].concat();
    let output = dpopt(d.path(), &data);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(
        output.status.code() == Some(2) && document["problems"][0].as_str().unwrap().contains("`hihg`"),
        "{document}"
    );
}

#[test]
fn labels_that_are_found_privately_are_told_with_their_price() {
    let d = tempfile::tempdir().unwrap();
    let row = |i: usize| format!("{},{}\n", i % 30, if i % 30 > 10 { "CANARYa" } else { "CANARYb" });
    std::fs::write(d.path().join("t.csv"), "x,y\n".to_string() + &(0..1000).map(row).collect::<String>()).unwrap();
    std::fs::write(d.path().join("b.toml"), "[x]\nlower = 0\nupper = 30\n").unwrap();
    let check = ["check", "t.csv", "--target", "y", "--epsilon", "1", "--bounds", "b.toml"];
    let text = succeed(d.path(), &check);
    let note = "note     the labels of the target `y` are not declared: 5 % of epsilon and delta will find them privately; \
                declare them to save that, with levels in [y] or --classes A,B\n";
    assert!(text.contains(note) && !text.contains("CANARY"), "{text}");
    let text = succeed(d.path(), &[&check[..], &["--classes", "CANARYa,CANARYb"]].concat());
    assert!(!text.contains("are not declared"), "{text}");
}

/// Everything that is open or wrong in a bounds file at once, and the command to go on with.
#[test]
fn a_bounds_file_is_looked_at_section_by_section() {
    let d = tempfile::tempdir().unwrap();
    let rows: String =
        (0..300).map(|i| format!("{},{},{},CANARY{i},{}\n", i % 50, i % 7, i % 3, ["no", "yes"][i % 2])).collect();
    std::fs::write(d.path().join("t.csv"), format!("x,z,w,name,y\n{rows}")).unwrap();
    let run = |bounds: &str, more: &[&str]| {
        std::fs::write(d.path().join("b.toml"), bounds).unwrap();
        let flags = ["check", "t.csv", "--target", "y", "--epsilon", "1"];
        let output = dpopt(d.path(), &[&flags[..], more].concat());
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let open = "[x]\nlower = \"FILL IN\"\nupper = 50\n[z]\n# lower = 0\n";
    let (code, text) = run(&format!("{open}[nmae]\n"), &["--bounds", "b.toml"]);
    for part in [
        "open     b.toml: nothing is chosen yet for 2 of 5 columns (`z`, `nmae`)",
        "open     b.toml: \"FILL IN\" still stands in `x` lower\n",
        "problem  b.toml: the table has no column `nmae`\n",
        "note     b.toml: no section for `w`, `name`: ",
        "next     fill it in (dpopt help bounds), then: dpopt check t.csv --target y --epsilon 1 --bounds b.toml\n",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // the last word is about the columns
    let last = |bounds: &str| {
        std::fs::write(d.path().join("b.toml"), bounds).unwrap();
        crate::refuse(d.path(), &["check", "t.csv", "--target", "y", "--epsilon", "1", "--bounds", "b.toml"])
    };
    assert_eq!(last("[x]\n"), "dpopt: error: 1 column of b.toml is still to be filled in");
    assert_eq!(
        last(&format!("{open}[nmae]\n")),
        "dpopt: error: 3 columns of b.toml are still to be filled in, and 1 problem stands in the way of this fit"
    );
    // without a target the command to go on with has a place for it
    let check = ["check", "t.csv", "--epsilon", "1", "--bounds", "b.toml"];
    for (bounds, next) in [
        ("[x]\nlower = 0\nupper = 50\n", "next     dpopt check t.csv --target COLUMN --epsilon 1 --bounds b.toml\n"),
        ("[x]\n", "bounds), then: dpopt check t.csv --target COLUMN --epsilon 1 --bounds b.toml\n"),
    ] {
        std::fs::write(d.path().join("b.toml"), bounds).unwrap();
        let text = String::from_utf8(dpopt(d.path(), &check).stdout).unwrap();
        assert!(text.contains("no target is given") && text.contains(next), "{next}: {text}");
    }
    assert!(code == Some(2) && !text.contains("CANARY"), "{text}");
    // no mistake hides another
    let mistakes =
        "[x]\nlower = 3\n[z]\nlower = 5\nupper = 1\n[dpopt]\nknots = 1\n[w]\nhahs = true\n[name]\nignore = true\n";
    let (_, text) = run(mistakes, &["--bounds", "b.toml"]);
    for part in
        ["no upper", "swap them", "2 to 64", "did you mean `hash`?", "next     mend this, then: dpopt check t.csv "]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(text.matches("\nproblem  ").count(), 4, "{text}");
    // as data for a program they are problems
    let (_, text) = run(open, &["--bounds", "b.toml", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["problems"].as_array().unwrap().len(), 2, "{document}");
    // no file at all: the command that writes one reads the table as this one does
    let (_, text) = run("", &["--separator", ","]);
    assert!(text.contains("next     dpopt init t.csv --target y --separator=, (writes a bounds.toml"), "{text}");
    let (_, text) = run("", &["--numeric", "x,z,w", "--ignore", "name"]);
    assert!(
        text.contains("have no declared range") && text.contains("next     dpopt init t.csv --target y ("),
        "{text}"
    );
    // a record in the place of the header is not shown
    std::fs::write(d.path().join("t.csv"), "CANARYa,CANARYb,CANARYc\nCANARYa,CANARYb,CANARYc\n").unwrap();
    let (code, text) = run(open, &["--bounds", "b.toml"]);
    assert!(code == Some(2) && text.contains("no column `x`, `z`") && !text.contains("CANARY"), "{text}");
}
