//! What a newcomer types first, and what each command then says of the next.

use crate::{census, dpopt, files, path, refuse, succeed};
use std::path::Path;

/// The command that a text names for the next step, as words.
fn next(text: &str) -> Vec<String> {
    let words = text.lines().find_map(|line| line.strip_prefix("next")).expect("a next step");
    let words: Vec<&str> = words.trim_start_matches([':', ' ']).split(' ').collect();
    assert_eq!(words[0], "dpopt", "{text}");
    words[1..].iter().map(ToString::to_string).collect()
}

fn words(command: &[String]) -> Vec<&str> {
    command.iter().map(String::as_str).collect()
}

#[test]
fn the_first_page_says_where_the_bounds_come_from() {
    let d = tempfile::tempdir().unwrap();
    // lines break where the terminal is narrow
    let page = |arguments: &[&str]| succeed(d.path(), arguments).split_whitespace().collect::<Vec<_>>().join(" ");
    let first = page(&["--help"]);
    for part in ["# also writes bounds.toml", "check lists what is still missing in it, and prints the next command"] {
        assert!(first.contains(part), "{first}");
    }
    let fit = page(&["fit", "--help"]);
    assert!(fit.contains("Privacy budget ε of this run: smaller is more private, 1 is usual"), "{fit}");
}

#[test]
fn a_generated_table_comes_with_a_fit_that_runs() {
    let d = tempfile::tempdir().unwrap();
    for (generate, flags) in [
        (&["census", "--rows", "2000"][..], "--target income"),
        (&["panel", "--units", "1000", "--rows-per-unit", "3"], "--target outcome --unit person"),
        (
            &["messages", "--units", "2000", "--rows", "6000"],
            "--target answered --unit sender --unit recipient --max-rows-per-unit 16",
        ),
    ] {
        let told = succeed(d.path(), &[&["generate"], generate, &["-o", "t.csv", "--overwrite"]].concat());
        assert!(told.contains("labels are drawn at random: the best possible model has an expected accuracy of 0."));
        let fit = next(&told);
        assert_eq!(fit.join(" "), format!("fit t.csv {flags} --epsilon 1 --bounds bounds.toml"));
        let told = succeed(d.path(), &words(&fit));
        assert_eq!(next(&told).join(" "), "predict model.json NEW.csv");
    }
    let line = refuse(d.path(), &["generate", "census"]);
    assert_eq!(line, "dpopt: error: --output is missing; for example: dpopt generate census -o census.csv");
}

/// Names of files decide what is told of them, and nothing else does.
#[test]
fn a_fit_tells_what_it_replaced_and_what_comes_next() {
    let d = tempfile::tempdir().unwrap();
    let (data, bounds) = (path(census(), "census.csv"), path(census(), "bounds.toml"));
    let flags = ["fit", &data, "--target", "income", "--epsilon", "1", "--bounds", &bounds, "--insecure-seed", "1"];
    let fit = |more: &[&str]| succeed(d.path(), &[&flags[..], more].concat());
    let first = fit(&["-o", "a model.json", "--report", "r.html"]);
    assert!(first.contains("model       a model.json\n") && first.contains("report      r.html\n"), "{first}");
    let note =
        "note        a fit never says whether the declared labels, levels and ranges fit the rows; dpopt check does\n";
    assert!(first.ends_with(&format!("{note}next        dpopt predict 'a model.json' NEW.csv\n")), "{first}");
    let second = fit(&["-o", "a model.json", "--report", "r.html"]);
    let replaced = |name: &str| format!("{name} (the file of that name was replaced)\n");
    assert_eq!(
        first.replace("a model.json\n", &replaced("a model.json")).replace("r.html\n", &replaced("r.html")),
        second
    );
    // standard output holds the model alone, or nothing
    serde_json::from_str::<serde_json::Value>(&fit(&["-o", "-"])).unwrap();
    assert_eq!(fit(&["-q"]), "");
}

#[test]
fn labels_that_no_row_has_change_nothing_that_a_fit_says() {
    let d = tempfile::tempdir().unwrap();
    let data = path(census(), "census.csv");
    let bounds = std::fs::read_to_string(census().join("bounds.toml")).unwrap();
    let told = ["high", "hihg"].map(|label| {
        std::fs::write(d.path().join("b.toml"), bounds.replace("\"high\"", &format!("\"{label}\""))).unwrap();
        let flags = ["fit", &data, "--target", "income", "--epsilon", "1", "--bounds", "b.toml", "-o"];
        succeed(d.path(), &[&flags[..], &[&format!("{label}.json"), "--insecure-seed", "1"]].concat())
            .replace(label, "LABEL")
    });
    assert_eq!(told[0], told[1]);
}

fn fitted(directory: &Path) {
    let (data, bounds) = (path(census(), "census.csv"), path(census(), "bounds.toml"));
    succeed(directory, &["fit", &data, "--target", "income", "--epsilon", "1", "--bounds", &bounds, "-q"]);
}

#[test]
fn a_model_in_the_place_of_the_table_is_told_apart() {
    let d = tempfile::tempdir().unwrap();
    fitted(d.path());
    let table = std::fs::read_to_string(census().join("census.csv")).unwrap();
    std::fs::write(d.path().join("t.csv"), &table).unwrap();
    for command in ["predict", "evaluate"] {
        let line = refuse(d.path(), &[command, "t.csv", "model.json"]);
        let way_out = format!("the model comes first: dpopt {command} model.json t.csv");
        assert!(line.contains("t.csv is not a model: it does not begin as a JSON object; "), "{line}");
        assert!(line.ends_with(&way_out) && !line.contains("fit the model again"), "{line}");
        let line = refuse(d.path(), &[command, "t.csv", "t.csv"]);
        assert!(line.ends_with(&format!("dpopt {command} MODEL.json t.csv")), "{line}");
    }
    // rows whose target nobody knows
    let at = table.lines().next().unwrap().split(',').position(|name| name == "income").unwrap();
    let without = |row: &str| {
        let cells = row.split(',').enumerate().filter(|(i, _)| *i != at).map(|(_, cell)| cell);
        cells.collect::<Vec<_>>().join(",") + "\n"
    };
    std::fs::write(d.path().join("feats.csv"), table.lines().map(without).collect::<String>()).unwrap();
    let line = refuse(d.path(), &["evaluate", "model.json", "feats.csv", "--json"]);
    let way_out =
        "evaluate needs the true `income` of each row; for rows without it: dpopt predict model.json feats.csv";
    assert!(line.contains("the target `income` is not a column") && line.ends_with(way_out), "{line}");
}

#[test]
fn predictions_in_a_file_are_counted() {
    let d = tempfile::tempdir().unwrap();
    fitted(d.path());
    let data = path(census(), "census.csv");
    let predict = |more: &[&str]| succeed(d.path(), &[&["predict", "model.json", &data], more].concat());
    assert_eq!(predict(&["-o", "p.csv"]), "3000 predictions to p.csv\n");
    assert_eq!(predict(&["-o", "p.csv"]), "3000 predictions to p.csv (the file of that name was replaced)\n");
    assert_eq!(predict(&["-o", "p.jsonl", "--json"]), "");
    assert_eq!(files(d.path()), ["model.json", "p.csv", "p.jsonl"]);
}

#[test]
fn too_few_rows_for_private_ranges_name_the_option() {
    let d = tempfile::tempdir().unwrap();
    let flags = ["fit", &path(census(), "census.csv"), "--target", "income", "--epsilon", "1", "--classes", "low,high"];
    let found = ["--numeric", "age,hours_per_week", "--bounds-budget", "0.1"];
    let output = dpopt(d.path(), &[&flags[..], &found].concat());
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("too few rows for private ranges: 2 numeric columns need about "), "{error}");
    assert!(error.contains("declare their ranges, or give a larger share of the budget, --bounds-budget\n"), "{error}");
}
