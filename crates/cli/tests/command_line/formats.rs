//! One table in every format: with the same noise, the same model.

use crate::written::{Leaf, optional, table};
use crate::{census, path, refuse, succeed};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType};
use parquet::file::properties::WriterProperties;
use std::fs::File;
use std::path::Path;

/// The census table as Parquet: doubles where every value is a number, text elsewhere, nulls for empty cells.
fn write_parquet(text: &str, file: &Path) {
    let mut lines = text.lines().map(|l| l.split(',').collect::<Vec<_>>());
    let header = lines.next().unwrap();
    let rows: Vec<Vec<&str>> = lines.collect();
    let (mut columns, mut leaves) = (String::new(), Vec::<Box<dyn Leaf>>::new());
    for (c, name) in header.iter().enumerate() {
        let cells: Vec<Option<&str>> = rows.iter().map(|r| Some(r[c]).filter(|cell| !cell.is_empty())).collect();
        let numbers: Option<Vec<Option<f64>>> =
            cells.iter().map(|cell| cell.map_or(Some(None), |text| text.parse().ok().map(Some))).collect();
        match numbers {
            Some(numbers) => {
                columns += &format!("OPTIONAL DOUBLE {name};");
                leaves.push(optional::<DoubleType>(numbers));
            }
            None => {
                columns += &format!("OPTIONAL BYTE_ARRAY {name} (UTF8);");
                leaves.push(optional::<ByteArrayType>(cells.iter().map(|cell| cell.map(ByteArray::from))));
            }
        }
    }
    std::fs::write(file, table(&columns, WriterProperties::builder(), &[leaves])).unwrap();
}

/// A codec that is not read, in the second of two files: what can be known from a footer is known before the charge.
#[test]
fn files_whose_footer_says_that_they_cannot_be_read_cost_nothing() {
    let d = tempfile::tempdir().unwrap();
    std::fs::write(d.path().join("b.toml"), "[x]\nlower = 0\nupper = 50\n[y]\nlevels = [0, 1]\n").unwrap();
    let rows: String = (0..300).map(|i| format!("{},{}\n", i % 50, u8::from(i % 50 > 20))).collect();
    for name in ["a.parquet", "b.parquet"] {
        write_parquet(&format!("x,y\n{rows}"), &d.path().join(name));
    }
    let mut bytes = std::fs::read(d.path().join("b.parquet")).unwrap();
    // the first column's path and codec: BROTLI in place of none
    let at = bytes.windows(6).rposition(|w| w == b"\x19\x18\x01x\x15\x00").unwrap();
    bytes[at + 5] = 8;
    std::fs::write(d.path().join("b.parquet"), bytes).unwrap();
    let ledger = ["--ledger", "l.jsonl", "--total-epsilon", "2", "--total-delta", "1e-2"];
    let table = ["a.parquet", "b.parquet", "--target", "y", "--epsilon", "1", "--bounds", "b.toml"];
    for command in [[&["fit", "-o", "m.json"], &ledger[..]].concat(), vec!["explain"]] {
        let line = refuse(d.path(), &[&command[..], &table].concat());
        assert!(
            line.contains("b.parquet") && line.contains("BROTLI") && line.contains("snappy, gzip, zstd or lz4"),
            "{line}"
        );
    }
    assert!(!d.path().join("l.jsonl").exists() && !d.path().join("m.json").exists());
}

fn weights(directory: &Path, data: &str, extra: &[&str]) -> serde_json::Value {
    let bounds = path(census(), "bounds.toml");
    let mut arguments = vec![
        "fit",
        data,
        "--target",
        "income",
        "--epsilon",
        "1",
        "--delta",
        "1e-6",
        "--bounds",
        &bounds,
        "-o",
        "m.json",
        "--insecure-seed",
        "3",
        "-q",
    ];
    arguments.extend(extra);
    succeed(directory, &arguments);
    let model = std::fs::read_to_string(directory.join("m.json")).unwrap();
    let model: serde_json::Value = serde_json::from_str(&model).unwrap();
    assert!(model["weights"].as_array().is_some_and(|w| w.len() > 50), "{model}");
    model["weights"].clone()
}

#[test]
fn csv_tsv_gzip_and_parquet_give_the_same_model() {
    let d = tempfile::tempdir().unwrap();
    let csv = std::fs::read_to_string(census().join("census.csv")).unwrap();
    let tsv = csv.replace(',', "\t");
    std::fs::write(d.path().join("t.tsv"), &tsv).unwrap();
    std::fs::write(d.path().join("t.data"), &csv).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(File::create(d.path().join("t.tsv.gz")).unwrap(), Default::default());
    std::io::Write::write_all(&mut gzip, tsv.as_bytes()).unwrap();
    gzip.finish().unwrap();
    write_parquet(&csv, &d.path().join("t.parquet"));

    let expected = weights(d.path(), &path(census(), "census.csv"), &[]);
    assert_eq!(weights(d.path(), "t.tsv", &[]), expected);
    assert_eq!(weights(d.path(), "t.tsv.gz", &[]), expected);
    assert_eq!(weights(d.path(), "t.data", &["--format", "csv"]), expected);
    assert_eq!(weights(d.path(), "t.parquet", &[]), expected);
    // a directory of Parquet files, rows in memory or on disk (which leaves fewer methods)
    std::fs::create_dir(d.path().join("parts")).unwrap();
    let (header, rows) = csv.split_once('\n').unwrap();
    let rows: Vec<&str> = rows.lines().collect();
    for (part, rows) in rows.chunks(1100).enumerate() {
        write_parquet(&format!("{header}\n{}\n", rows.join("\n")), &d.path().join(format!("parts/{part}.parquet")));
    }
    assert_eq!(weights(d.path(), "parts", &[]), expected);
    let on_disk = ["--memory", "64K"];
    assert_eq!(weights(d.path(), "parts", &on_disk), weights(d.path(), &path(census(), "census.csv"), &on_disk));
    // a Parquet model predicts and scores as well
    let scores = succeed(d.path(), &["evaluate", "m.json", "t.parquet", "--json"]);
    assert_eq!(scores, succeed(d.path(), &["evaluate", "m.json", &path(census(), "census.csv"), "--json"]));
    succeed(d.path(), &["predict", "m.json", "t.parquet", "-o", "out.csv"]);
    assert_eq!(std::fs::read_to_string(d.path().join("out.csv")).unwrap().lines().count(), 3001);
}

#[test]
fn what_is_written_is_read_again_under_its_name() {
    let d = tempfile::tempdir().unwrap();
    let read = |name: &str| std::fs::read(d.path().join(name)).unwrap();
    for name in ["t.csv", "t.csv.gz", "t.tsv", "t.tsv.gz"] {
        succeed(d.path(), &["generate", "census", "--rows", "500", "--seed", "1", "-o", name]);
        succeed(d.path(), &["explain", name, "--target", "income", "--epsilon", "1", "--bounds", "bounds.toml"]);
        assert_eq!(read(name).starts_with(&[0x1f, 0x8b]), name.ends_with(".gz"), "{name}");
    }
    for name in ["t.parquet", "t.xlsx", "t.csv.zst", "t.json"] {
        let line = refuse(d.path(), &["generate", "census", "--rows", "500", "--seed", "1", "-o", name]);
        assert!(line.contains(".csv"), "{line}");
    }
    // other public facts stand beside what is there already
    let facts = read("bounds.toml");
    for rows in ["10", "20"] {
        succeed(d.path(), &["generate", "panel", "--units", "50", "--rows-per-unit", rows, "-o", "visits.csv"]);
    }
    assert!(
        read("bounds.toml") == facts && String::from_utf8(read("visits.bounds.toml")).unwrap().contains("[outcome]")
    );
    let fit = ["fit", "t.csv", "--target", "income", "--epsilon", "1", "--bounds", "bounds.toml", "-q"];
    for (flag, name) in [("-o", "m.parquet"), ("-o", "m.json.gz"), ("--report", "r.pdf")] {
        let line = refuse(d.path(), &[&fit[..], &[flag, name]].concat());
        assert!(line.contains(flag) && line.contains("give a name that ends in"), "{line}");
    }
    succeed(d.path(), &fit);
    succeed(d.path(), &["predict", "model.json", "t.csv", "-o", "p.csv"]);
    succeed(d.path(), &["predict", "model.json", "t.csv", "-o", "p.tsv"]);
    assert_eq!(String::from_utf8(read("p.csv")).unwrap().replace(',', "\t").into_bytes(), read("p.tsv"));
    succeed(d.path(), &["predict", "model.json", "t.csv", "-o", "p.csv.gz"]);
    let mut text = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&read("p.csv.gz")[..]), &mut text).unwrap();
    assert_eq!(text, read("p.csv"));
    for (name, more) in [("p.parquet", None), ("p.csv", Some("--json")), ("p.jsonl", None)] {
        let run = ["predict", "model.json", "t.csv", "-o", name];
        refuse(d.path(), &run.into_iter().chain(more).collect::<Vec<_>>());
    }
}

#[test]
fn an_id_column_is_kept_beside_the_predictions() {
    let d = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(census().join("census.csv")).unwrap();
    let with_id =
        |(i, line): (usize, &str)| format!("{},{line}\n", if i == 0 { "id".into() } else { format!("\"k, {i}\"") });
    std::fs::write(d.path().join("t.csv"), text.lines().enumerate().map(with_id).collect::<String>()).unwrap();
    let (data, bounds) = (path(census(), "census.csv"), path(census(), "bounds.toml"));
    succeed(d.path(), &["fit", &data, "--target", "income", "--epsilon", "1", "--bounds", &bounds, "-q"]);
    let alone = succeed(d.path(), &["predict", "model.json", "t.csv"]);
    let kept = succeed(d.path(), &["predict", "model.json", "t.csv", "--keep", "id"]);
    assert_eq!(kept.lines().count(), 3001);
    for (i, (kept, alone)) in kept.lines().zip(alone.lines()).enumerate() {
        let id = if i == 0 { "id".to_string() } else { format!("\"k, {i}\"") };
        assert_eq!(kept, format!("{id},{alone}"));
    }
    let json = succeed(d.path(), &["predict", "model.json", "t.csv", "--keep", "id", "--json"]);
    let second: serde_json::Value = serde_json::from_str(json.lines().nth(1).unwrap()).unwrap();
    assert_eq!(second["kept"]["id"], "k, 2");
    assert!(refuse(d.path(), &["predict", "model.json", "t.csv", "--keep", "di"]).contains("no such column"));
    assert!(
        refuse(d.path(), &["predict", "model.json", "t.csv", "--keep", "income"])
            .contains("have a column of that name already")
    );
}
