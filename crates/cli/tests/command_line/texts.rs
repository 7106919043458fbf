//! Texts with public vectors of words: from fit to predictions, and what neither a record nor the file may be quoted in.

use crate::{dpopt, path, refuse, succeed};
use std::fs::write;
use std::path::Path;

const VECTORS: &str = "the 1 0 2\nprize 0 2 1\nlunch 0 1 3\nwin 1 1 3\nsee 2 0 0\nyou 0.5 1 1\n";

/// 600 texts of two kinds, one of them replaced.
fn texts(at: usize, hostile: &str) -> String {
    let mut table = "text,label\n".to_string();
    for i in 0..600 {
        match i {
            _ if i == at => table += &format!("{hostile}\n"),
            _ if i % 2 == 0 => table += &format!("win the prize {i},spam\n"),
            _ => table += &format!("see you for lunch at {},ham\n", i % 12),
        }
    }
    table
}

const FIT: [&str; 13] = [
    "fit",
    "t.csv",
    "--target",
    "label",
    "--text",
    "text",
    "--classes",
    "ham,spam",
    "--epsilon",
    "2",
    "--delta",
    "1e-4",
    "--public-vectors",
];

fn made(directory: &Path) {
    write(directory.join("t.csv"), texts(600, "")).unwrap();
    write(directory.join("v.txt"), VECTORS).unwrap();
    write(directory.join("other.txt"), VECTORS.replace('3', "4")).unwrap();
}

/// Numbers are spread by a release of their own, after which texts must still become the file's vectors.
#[test]
fn numbers_are_spread_beside_texts_with_vectors() {
    let d = tempfile::tempdir().unwrap();
    made(d.path());
    let table = std::fs::read_to_string(d.path().join("t.csv")).unwrap();
    let beside =
        |(i, line): (usize, &str)| format!("{line},{}\n", if i == 0 { "size".into() } else { (i % 7).to_string() });
    write(d.path().join("t.csv"), table.lines().enumerate().map(beside).collect::<String>()).unwrap();
    write(d.path().join("b.toml"), "[dpopt]\nspread = true\n[size]\nlower = 0\nupper = 6\n").unwrap();
    let fit = [&FIT[..], &["v.txt", "--bounds", "b.toml", "-o", "m.json", "--insecure-seed", "1"]].concat();
    succeed(d.path(), &fit);
    let model = std::fs::read_to_string(d.path().join("m.json")).unwrap();
    assert!(model.contains("fingerprint") && model.contains("\"spread\""), "{model}");
    let evaluated = succeed(d.path(), &["evaluate", "m.json", "t.csv", "--public-vectors", "v.txt", "--json"]);
    let evaluated: serde_json::Value = serde_json::from_str(&evaluated).unwrap();
    assert!(evaluated["accuracy"].as_f64().unwrap() > 0.95, "{evaluated}");
}

#[test]
fn a_model_of_texts_needs_the_vectors_that_it_was_fitted_with() {
    let d = tempfile::tempdir().unwrap();
    made(d.path());
    let fit = [&FIT[..], &["v.txt", "-o", "m.json", "--report", "r.html", "--insecure-seed", "1"]].concat();
    succeed(d.path(), &fit);
    let model = std::fs::read_to_string(d.path().join("m.json")).unwrap();
    assert!(model.contains("fingerprint") && !model.contains("lunch") && !model.contains("prize"), "{model}");
    let report = std::fs::read_to_string(d.path().join("r.html")).unwrap();
    assert!(report.contains("public word vectors (") && report.contains("6 words of 3 numbers"));
    let printed = succeed(d.path(), &[&["explain"], &FIT[1..], &["v.txt", "--all"]].concat());
    assert!(printed.contains("encoder: text columns: ") && printed.contains("public word vectors"), "{printed}");
    for command in ["predict", "evaluate"] {
        let line = refuse(d.path(), &[command, "m.json", "t.csv"]);
        assert!(line.contains("v.txt") && line.contains("--public-vectors"), "{line}");
        let line = refuse(d.path(), &[command, "m.json", "t.csv", "--public-vectors", "other.txt"]);
        assert!(line.contains("are others"), "{line}");
        succeed(d.path(), &[command, "m.json", "t.csv", "--public-vectors", "v.txt"]);
    }
    let evaluated = succeed(d.path(), &["evaluate", "m.json", "t.csv", "--public-vectors", "v.txt", "--json"]);
    let evaluated: serde_json::Value = serde_json::from_str(&evaluated).unwrap();
    assert!(evaluated["accuracy"].as_f64().unwrap() > 0.95, "{evaluated}");
    succeed(d.path(), &[&["check"], &FIT[1..], &["v.txt"]].concat());
    // the same from a bounds file beside the vectors, whatever directory the program runs in
    let bounds = "[dpopt]\npublic_vectors = \"v.txt\"\n[text]\ntext = true\n[label]\nlevels = [\"ham\", \"spam\"]\n";
    write(d.path().join("b.toml"), bounds).unwrap();
    let other = tempfile::tempdir().unwrap();
    let (table, bounds) = (path(d.path(), "t.csv"), path(d.path(), "b.toml"));
    let flags = ["fit", &table, "--target", "label", "--bounds", &bounds, "--epsilon", "2", "--delta", "1e-4"];
    succeed(other.path(), &[&flags[..], &["-o", "m.json", "--insecure-seed", "1"]].concat());
    assert_eq!(std::fs::read_to_string(other.path().join("m.json")).unwrap(), model);
    let line = refuse(
        d.path(),
        &["fit", "t.csv", "--target", "label", "--categorical", "text", "--epsilon", "1", "--public-vectors", "v.txt"],
    );
    assert!(line.contains("needs a column of text"), "{line}");
}

#[test]
fn no_record_is_seen_from_outside_and_no_file_is_quoted() {
    let d = tempfile::tempdir().unwrap();
    made(d.path());
    let fit = [&FIT[..], &["v.txt", "-o", "m.json", "--bad-cells", "missing"]].concat();
    let mut seen = Vec::new();
    for record in [
        "win the prize 4,spam",
        "\"canary7 canary7 , !!! 123456789\",spam",
        ",",
        "\u{fffd}\0,ham",
        &format!("{},ham", "lunch ".repeat(9000)),
    ] {
        write(d.path().join("t.csv"), texts(4, record)).unwrap();
        let output = dpopt(d.path(), &fit);
        let shown = (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        );
        assert!(shown.0 == Some(0) && !shown.1.contains("canary") && !shown.2.contains("canary"), "{shown:?}");
        let model: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(d.path().join("m.json")).unwrap()).unwrap();
        // the next run replaces nothing, or it would say so
        std::fs::remove_file(d.path().join("m.json")).unwrap();
        seen.push((shown, model["encoder"].clone(), model["weights"].as_array().unwrap().len()));
    }
    assert!(seen.windows(2).all(|pair| pair[0] == pair[1]), "{seen:?}");
    // a table of records in the place of the vectors
    write(d.path().join("v.txt"), "canary7 says 1\ncanary7 2 3\n").unwrap();
    let line = refuse(d.path(), &fit);
    assert!(line.contains("line 1 holds a value that is not a finite number") && !line.contains("canary"), "{line}");
}
