//! Wide sparse rows: lazily drawn noise, a memory cap, streams of batches.

use crate::{refuse, succeed};
use std::fmt::Write;
use std::path::Path;

/// 2,000 LIBSVM rows of eight of 2^20 features; the first tells the label.
fn clicks(directory: &Path) {
    let mut text = String::new();
    for i in 0..2000u64 {
        let label = i % 2;
        write!(text, "{label} {}:1", 1 + label).unwrap();
        let mut others: Vec<u64> = (1..8).map(|k| 10 + (i * k * 2_654_435_761) % 1_048_000).collect();
        others.sort_unstable();
        others.dedup();
        others.iter().for_each(|j| write!(text, " {j}:0.3").unwrap());
        text.push('\n');
    }
    std::fs::write(directory.join("clicks.libsvm"), text).unwrap();
}

const FIT: [&str; 13] = [
    "fit",
    "clicks.libsvm",
    "--features",
    "1048576",
    "--classes",
    "0,1",
    "--epsilon",
    "4",
    "--delta",
    "1e-6",
    "--insecure-seed",
    "7",
    "-q",
];

fn weights(directory: &Path, extra: &[&str]) -> Vec<f64> {
    let arguments: Vec<&str> = FIT.iter().copied().chain(extra.iter().copied()).collect();
    succeed(directory, &arguments);
    let model = std::fs::read(directory.join("model.json")).unwrap();
    let model: serde_json::Value = serde_json::from_slice(&model).unwrap();
    model["weights"].as_array().unwrap().iter().map(|w| w.as_f64().unwrap()).collect()
}

#[test]
fn noisy_sgd_is_lazy_by_itself_and_the_memory_cap_changes_nothing() {
    let d = tempfile::tempdir().unwrap();
    clicks(d.path());
    let sgd = ["--method", "noisy-sgd", "--sampling-probability", "0.02", "--steps", "60", "--report", "report.html"];
    let in_memory = weights(d.path(), &sgd);
    let html = std::fs::read_to_string(d.path().join("report.html")).unwrap();
    assert!(html.contains("lazily") && html.contains("128-bit"), "the report says how noise was drawn");
    assert_eq!(in_memory.len(), 1 << 20);
    assert!(
        in_memory.iter().filter(|w| **w == 0.0).count() < 50_000,
        "every weight has noise, on a grid of about ν/16"
    );
    assert!(in_memory[1] > in_memory[0], "{} {}", in_memory[1], in_memory[0]);
    // with rows on disk: the same bits
    let on_disk = weights(d.path(), &[&sgd[..], &["--memory", "16K"]].concat());
    assert!(in_memory == on_disk);
    let other = [&FIT[..], &["--method", "objective-perturbation", "--memory", "16K"]].concat();
    assert!(refuse(d.path(), &other).contains("needs all rows in memory"));
}

#[test]
fn streams_of_batches_with_correlated_noise() {
    let d = tempfile::tempdir().unwrap();
    let mut text = String::new();
    (0..3000).for_each(|i| writeln!(text, "{} {}:1 {}:0.5", i % 2, 1 + i % 2, 3 + i % 5).unwrap());
    std::fs::write(d.path().join("small.libsvm"), text).unwrap();
    let base = [
        "fit",
        "small.libsvm",
        "--features",
        "8",
        "--classes",
        "0,1",
        "--epsilon",
        "4",
        "--delta",
        "1e-6",
        "--method",
        "dp-ftrl",
        "--insecure-seed",
        "3",
    ];
    for correlation in ["blt", "banded", "tree", "independent"] {
        let out = succeed(d.path(), &[&base[..], &["--correlation", correlation]].concat());
        assert!(out.contains("dp-ftrl"), "{out}");
        let model = std::fs::read(d.path().join("model.json")).unwrap();
        let model: serde_json::Value = serde_json::from_slice(&model).unwrap();
        let w = |j: usize| model["weights"][j].as_f64().unwrap();
        assert!(w(1) > w(0), "{correlation}: {} {}", w(1), w(0));
    }
    // rows may lie on disk here too; added records would move others where batches go by position
    succeed(d.path(), &[&base[..], &["--memory", "4K"]].concat());
    let moved = [&base[..], &["--relation", "add-or-remove", "--rows", "2900"]].concat();
    for memory in [&[][..], &["--memory", "4K"]] {
        succeed(d.path(), &[&moved[..], memory, &["--report", "report.html"]].concat());
        let html = std::fs::read_to_string(d.path().join("report.html")).unwrap();
        assert!(html.contains("at random and in secret, drawn once"), "{memory:?}");
    }
}

#[test]
fn rows_declared_sparse_are_cut_and_put_the_fit_into_its_regime() {
    let d = tempfile::tempdir().unwrap();
    clicks(d.path());
    let chosen = |extra: &[&str]| {
        let plan: serde_json::Value =
            serde_json::from_str(&succeed(d.path(), &[&["explain"], &FIT[1..10], &["--json"], extra].concat()))
                .unwrap();
        (plan["problem"]["nonzeros"].as_u64().unwrap(), plan["candidates"][0]["method"].as_str().unwrap().to_owned())
    };
    assert_eq!(chosen(&[]).0, 1 << 20);
    let (nonzeros, method) = chosen(&["--max-nonzeros", "8"]);
    assert_eq!(nonzeros, 8);
    assert!(["sparse-output-perturbation", "frank-wolfe"].contains(&method.as_str()), "{method}");
    // rows cut to their largest entry are those of a table that has no others
    let text: String = (0..2000).map(|i| format!("{} {}:1\n", i % 2, 1 + i % 2)).collect();
    let sgd = ["--method", "noisy-sgd", "--sampling-probability", "0.02", "--steps", "20"];
    let cut = weights(d.path(), &[&sgd[..], &["--max-nonzeros", "1"]].concat());
    std::fs::write(d.path().join("clicks.libsvm"), text).unwrap();
    assert!(cut == weights(d.path(), &[&sgd[..], &["--max-nonzeros", "1"]].concat()));
}
