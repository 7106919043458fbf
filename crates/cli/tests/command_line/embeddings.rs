//! Embedding models and tables in several files, from the table to scores.

use super::{dpopt, refuse, succeed};
use std::path::Path;

const USERS: u32 = 12;
const ITEMS: u32 = 15;

/// Who liked what: the parity of user and item, which no linear model can tell.
fn lines(rows: std::ops::Range<u32>) -> String {
    let mut text = String::from("user,item,liked\n");
    for r in rows {
        let (u, i) = (r.wrapping_mul(2_654_435_761) >> 8, r.wrapping_mul(40_503) >> 3);
        let (u, i) = (u % USERS, i % ITEMS);
        text += &format!("u{u},i{i},{}\n", if (u + i) % 2 == 0 { "yes" } else { "no" });
    }
    text
}

fn table() -> tempfile::TempDir {
    let d = tempfile::tempdir().expect("a directory");
    let names = |letter: char, n: u32| (0..n).map(|k| format!("'{letter}{k}'")).collect::<Vec<_>>().join(", ");
    let bounds = format!("[user]\nlevels = [{}]\n[item]\nlevels = [{}]\n", names('u', USERS), names('i', ITEMS));
    std::fs::write(d.path().join("bounds.toml"), bounds).expect("a file");
    std::fs::write(d.path().join("likes.csv"), lines(0..20_000)).expect("a file");
    std::fs::write(d.path().join("new.csv"), lines(20_000..22_000)).expect("a file");
    std::fs::create_dir(d.path().join("parts")).expect("a directory");
    for (k, rows) in [(0, 0..7_000), (1, 7_000..7_001), (2, 7_001..20_000)] {
        std::fs::write(d.path().join(format!("parts/part-{k}.csv")), lines(rows)).expect("a file");
    }
    d
}

const FACTS: [&str; 10] =
    ["--target", "liked", "--classes", "no,yes", "--epsilon", "8", "--delta", "1e-6", "--bounds", "bounds.toml"];
const TOWERS: [&str; 14] = [
    "--model",
    "two-tower",
    "--user-columns",
    "user",
    "--item-columns",
    "item",
    "--embedding-dim",
    "4",
    "--steps",
    "150",
    "--learning-rate",
    "8",
    "--insecure-seed",
    "1",
];

fn accuracy(d: &Path, model: &str) -> f64 {
    let scores: serde_json::Value =
        serde_json::from_str(&succeed(d, &["evaluate", model, "new.csv", "--json"])).expect("JSON");
    scores["accuracy"].as_f64().expect("a number")
}

#[test]
fn two_towers_fit_predict_and_evaluate() {
    let d = table();
    let d = d.path();
    for (extra, model) in [(&[][..], "all.json"), (&["--select-rows"][..], "chosen.json")] {
        let fit =
            [&["fit", "likes.csv"][..], &FACTS, &TOWERS, extra, &["-o", model, "--report", "report.html"]].concat();
        let printed = succeed(d, &fit);
        assert!(printed.contains("embedding-sgd"), "{printed}");
        assert!(accuracy(d, model) > 0.85, "{extra:?}: {}", accuracy(d, model));
        assert!(std::fs::read_to_string(d.join("report.html")).expect("a report").contains("not convex"));
    }
    // products of the two columns tell it too, each column alone does not
    let linear = [&["fit", "likes.csv"][..], &FACTS, &["-o", "linear.json", "--insecure-seed", "1"]].concat();
    succeed(d, &linear);
    assert!(accuracy(d, "linear.json") > 0.85, "{}", accuracy(d, "linear.json"));
    let bounds = std::fs::read_to_string(d.join("bounds.toml")).expect("a file");
    std::fs::write(d.join("bounds.toml"), format!("[dpopt]\npairs = 'none'\n{bounds}")).expect("a file");
    succeed(d, &linear);
    assert!(accuracy(d, "linear.json") < 0.6);
    std::fs::write(d.join("bounds.toml"), bounds).expect("a file");
    let predicted = succeed(d, &["predict", "all.json", "new.csv"]);
    assert!(predicted.starts_with("liked,p(no),p(yes)\n") && predicted.lines().count() == 2001);
    // a sum of embeddings, with rows on disk
    let bag = [&["fit", "likes.csv"][..], &FACTS, &["--model", "embedding", "--embedding-dim", "4", "--memory", "16K"]]
        .concat();
    succeed(d, &[&bag[..], &["-o", "bag.json", "--insecure-seed", "1"]].concat());
    assert!(accuracy(d, "bag.json") > 0.4);
}

#[test]
fn a_table_in_several_files_is_one_table() {
    let d = table();
    let d = d.path();
    let model = |data: &[&str], extra: &[&str]| {
        succeed(d, &[&["fit"][..], data, &FACTS, &TOWERS, extra, &["-o", "model.json"]].concat());
        let text = std::fs::read_to_string(d.join("model.json")).expect("a model");
        serde_json::from_str::<serde_json::Value>(&text).expect("JSON")["weights"].clone()
    };
    let whole = model(&["likes.csv"], &[]);
    assert_eq!(whole, model(&["parts/part-0.csv", "parts/part-1.csv", "parts/part-2.csv"], &[]));
    assert_eq!(whole, model(&["parts"], &["--memory", "64K"]));
}

#[test]
fn flags_that_do_not_fit_together_are_refused() {
    let d = table();
    let d = d.path();
    let refused = |extra: &[&str]| refuse(d, &[&["fit", "likes.csv"][..], &FACTS, extra].concat());
    assert!(refused(&["--model", "two-tower", "--user-columns", "user"]).contains("--item-columns"));
    assert!(refused(&["--user-columns", "user"]).contains("two-tower"));
    assert!(refused(&["--select-rows"]).contains("embedding"));
    assert!(refused(&["--model", "embedding", "--method", "noisy-newton"]).contains("leave the method out"));
    assert!(refused(&["--model", "embedding", "--embedding-dim", "0"]).contains("dimension"));
    let towers = ["--model", "two-tower", "--user-columns", "usr", "--item-columns", "item"];
    assert!(refused(&towers).contains("no feature column `usr`"));
    let both = ["--model", "two-tower", "--user-columns", "user,item", "--item-columns", "item"];
    assert!(refused(&both).contains("overlap"));
    assert!(!dpopt(d, &["fit", "--target", "liked", "--epsilon", "1"]).status.success());
}

#[test]
fn explain_shows_the_model_before_any_row_is_read() {
    let d = table();
    let printed = succeed(d.path(), &[&["explain", "likes.csv"][..], &FACTS, &TOWERS[..8]].concat());
    // 1 + 14 + 17 features with five numbers each
    assert!(printed.contains("embedding-sgd") && printed.contains("160 weights"), "{printed}");
    let numbers = [
        "explain",
        "--rows",
        "100000",
        "--features",
        "5000",
        "--epsilon",
        "1",
        "--model",
        "embedding",
        "--select-rows",
    ];
    assert!(succeed(d.path(), &numbers).contains("80016 weights"));
}
