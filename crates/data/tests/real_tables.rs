//! The census table and the text messages that many papers use, read and encoded as a user would.

use std::path::PathBuf;

use dpopt_data::{BadCells, Encoder, Kind, ReadOptions, Schema, open};

/// Looks in `$DPOPT_DATA`, then beside the workspace.
fn data(file: &str) -> Option<PathBuf> {
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let folders = [std::env::var_os("DPOPT_DATA").map(PathBuf::from), Some(beside)];
    let found = folders.into_iter().flatten().map(|folder| folder.join(file)).find(|path| path.exists());
    if found.is_none() {
        println!("skipped: {file} is neither in $DPOPT_DATA nor in ../shared/data");
    }
    found
}

/// Ranges as the census codebook states them.
const ADULT: &str = "[age]\nlower = 17\nupper = 90\n[fnlwgt]\nlower = 0\nupper = 1500000\n[education_num]\nlower = 1\n\
    upper = 16\n[capital_gain]\nlower = 0\nupper = 99999\n[capital_loss]\nlower = 0\nupper = 4356\n\
    [hours_per_week]\nlower = 1\nupper = 99\n[income]\nlevels = ['<=50K', '>50K']\n";

#[test]
fn the_census_table_is_encoded_completely() {
    let Some(path) = data("adult/adult.csv") else { return };
    let table = open(path, &ReadOptions::default()).unwrap();
    assert_eq!(table.count_rows().unwrap(), 32_561);
    let layout = Schema::from_toml(ADULT).unwrap().resolve(table.columns(), Some("income")).unwrap();
    assert_eq!(layout.undeclared.len(), 8);
    let encoder = Encoder::new(&layout).unwrap();
    assert_eq!(encoder.dimension(), 1 + 6 * (2 + 8 + 1) + 8 * 4097);
    let start = std::time::Instant::now();
    let examples = encoder.encode_public(&*table, BadCells::Error).unwrap();
    println!("{} rows read and encoded in {:?}", examples.rows.len(), start.elapsed());
    assert_eq!(examples.rows.len(), 32_561);
    assert_eq!(examples.targets.iter().filter(|t| **t == 1.0).count(), 7841);
    assert_eq!(examples.targets.iter().filter(|t| **t == -1.0).count(), 24_720);
    let norms =
        (0..examples.rows.len()).map(|i| examples.rows.row(i).1.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>());
    assert!(norms.clone().all(|n| n <= 1.0 && n > 0.7));
}

#[test]
fn text_messages_are_read_without_header_and_without_quotes() {
    let Some(path) = data("sms-spam/SMSSpamCollection") else { return };
    let options =
        ReadOptions { format: Some("tsv".parse().unwrap()), header: false, columns: Some(2), ..ReadOptions::default() };
    let table = open(&path, &options).unwrap();
    let lines = std::fs::read(&path).unwrap().split(|b| *b == b'\n').filter(|l| !l.trim_ascii().is_empty()).count();
    assert_eq!(table.count_rows().unwrap() as usize, lines);
    let mut schema = Schema::default();
    schema.declare("c2", Kind::Text).unwrap();
    schema.set_levels("c1", vec!["ham".into(), "spam".into()]).unwrap();
    let layout = schema.resolve(table.columns(), Some("c1")).unwrap();
    let encoder = Encoder::new(&layout).unwrap();
    let start = std::time::Instant::now();
    let examples = encoder.encode_public(&*table, BadCells::Error).unwrap();
    println!("{} texts read and encoded in {:?}", examples.rows.len(), start.elapsed());
    assert!(examples.targets.iter().all(|t| t.abs() == 1.0));
    let norms =
        (0..examples.rows.len()).map(|i| examples.rows.row(i).1.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>());
    assert!(norms.clone().all(|n| n <= 1.0 && n > 0.5));
}
