//! A census and text messages, generated in the layouts of public tables: read in every form that programs write, and encoded as a user would.

use std::io::Write;

use dpopt_data::{
    BadCells, DataError, Encoder, Field, Format, Kind, ReadOptions, Schema, TableReader, open, open_bytes,
};
use dpopt_noise::{NoiseSource, Purpose};
use dpopt_objective::records::Examples;
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::file::properties::WriterProperties;

#[path = "generated/tables.rs"]
mod generated;
#[allow(dead_code, reason = "each test file uses a part")]
#[path = "parquet/written.rs"]
mod written;

use generated::{COLUMNS, NUMBERS, Person, quoted};
use written::{Leaf, optional, required};

/// Ranges as the census codebook states them.
const CODEBOOK: &str = "[age]\nlower = 17\nupper = 90\n[fnlwgt]\nlower = 0\nupper = 1500000\n[education_num]\nlower = 1\n\
    upper = 16\n[capital_gain]\nlower = 0\nupper = 99999\n[capital_loss]\nlower = 0\nupper = 4356\n\
    [hours_per_week]\nlower = 1\nupper = 99\n[income]\nlevels = ['<=50K', '>50K']\n";

/// What `make` makes of draws that are equal for equal seeds.
fn drawn<T>(seed: u64, make: impl FnOnce(&mut dyn FnMut(u64) -> u64) -> T) -> T {
    let mut stream = NoiseSource::insecure(seed).stream(Purpose::Other(0), 0);
    make(&mut |bound| stream.below(bound))
}

fn persons(rows: usize) -> Vec<Person> {
    drawn(1, |below| generated::census(rows, below))
}

/// The examples of a census, by the codebook's ranges.
fn encoded(table: &dyn TableReader, bad_cells: BadCells) -> Result<Examples, DataError> {
    let layout = Schema::from_toml(CODEBOOK)?.resolve(table.columns(), Some("income"))?;
    Encoder::new(&layout)?.encode_public(table, bad_cells)
}

/// Squared norms of the rows, in their order.
fn squared_norms(examples: &Examples) -> Vec<f64> {
    let square = |i: usize| examples.rows.row(i).1.iter().map(|v| f64::from(*v).powi(2)).sum();
    (0..examples.rows.len()).map(square).collect()
}

/// Every cell as text, row by row; `?` is one that is empty or missing.
fn cells(table: &dyn TableReader) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    table
        .for_each_block(&mut |block| {
            for r in 0..block.len() {
                let at = rows.len();
                assert_eq!((block.first_row() as usize + r, block.fault(r)), (at, None));
                let cell = |c| match block.field(r, c) {
                    Field::Missing | Field::Text(b"") => "?".into(),
                    Field::Text(text) => String::from_utf8(text.to_vec()).unwrap(),
                    Field::Integer(whole) => whole.to_string(),
                    other => panic!("row {at}, column {c}: {other:?}"),
                };
                rows.push((0..block.width(r)).map(cell).collect());
            }
            Ok(())
        })
        .unwrap();
    assert_eq!(table.count_rows().unwrap() as usize, rows.len());
    rows
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Lines of a table, header first, each cell as `cell` writes it.
fn text(persons: &[Person], separator: &str, end: &str, cell: impl Fn(&str) -> String) -> Vec<u8> {
    let line = |cells: &mut dyn Iterator<Item = &str>| cells.map(&cell).collect::<Vec<_>>().join(separator);
    let mut lines = vec![line(&mut COLUMNS.into_iter())];
    lines.extend(persons.iter().map(|person| line(&mut person.iter().map(String::as_str))));
    lines.join(end).into_bytes()
}

/// The census as Parquet, in two row groups: whole numbers, and texts of which those without an answer are null.
fn parquet(persons: &[Person], compression: Compression) -> Vec<u8> {
    let column = |(c, name): (usize, &str)| {
        let kind = if NUMBERS.contains(&c) { "REQUIRED INT64" } else { "OPTIONAL BYTE_ARRAY" };
        let text = if NUMBERS.contains(&c) { "" } else { " (UTF8)" };
        format!("{kind} {name}{text}; ")
    };
    let columns: String = COLUMNS.into_iter().enumerate().map(column).collect();
    let leaf = |part: &[Person], c: usize| -> Box<dyn Leaf> {
        if NUMBERS.contains(&c) {
            return required::<Int64Type>(part.iter().map(|person| person[c].parse().unwrap()));
        }
        let answer = |person: &Person| (person[c] != "?").then(|| ByteArray::from(person[c].as_str()));
        optional::<ByteArrayType>(part.iter().map(answer))
    };
    let group = |part: &[Person]| (0..COLUMNS.len()).map(|c| leaf(part, c)).collect::<Vec<_>>();
    let (first, second) = persons.split_at(persons.len() / 3);
    written::table(&columns, WriterProperties::builder().set_compression(compression), &[group(first), group(second)])
}

#[test]
fn the_census_table_is_encoded_completely() {
    let persons = persons(32_561);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("census.csv");
    std::fs::write(&path, generated::csv(&persons)).unwrap();
    let table = open(path, &ReadOptions::default()).unwrap();
    assert_eq!(table.count_rows().unwrap(), 32_561);
    let layout = Schema::from_toml(CODEBOOK).unwrap().resolve(table.columns(), Some("income")).unwrap();
    assert_eq!(layout.undeclared.len(), 8);
    let encoder = Encoder::new(&layout).unwrap();
    assert_eq!(encoder.dimension(), 1 + 6 * (2 + 8 + 1) + 8 * 4097);
    let start = std::time::Instant::now();
    let examples = encoder.encode_public(&*table, BadCells::Error).unwrap();
    println!("{} rows read and encoded in {:?}", examples.rows.len(), start.elapsed());
    assert_eq!(examples.rows.len(), 32_561);
    let expected: Vec<f32> = persons.iter().map(|person| if person[14] == ">50K" { 1.0 } else { -1.0 }).collect();
    assert_eq!(examples.targets, expected);
    let rich = expected.iter().filter(|target| **target == 1.0).count();
    assert!((4000..16_000).contains(&rich), "{rich} of the second class: both are to be common");
    // the intercept and 14 columns of equal norm, whatever a person answered
    assert!(squared_norms(&examples).iter().all(|n| *n <= 1.0 && *n > 0.99));
    // who did not answer has the feature for that, and nobody else
    for column in ["workclass", "occupation", "native_country"] {
        let c = COLUMNS.iter().position(|name| *name == column).unwrap();
        let missing = format!("{column}=(missing)");
        let feature = (0..encoder.dimension()).find(|&i| encoder.feature_name(i).as_deref() == Some(missing.as_str()));
        let feature = feature.expect("a feature of what is missing") as u32;
        for (i, person) in persons.iter().enumerate() {
            assert_eq!(examples.rows.row(i).0.contains(&feature), person[c] == "?", "row {i}, {column}");
        }
    }
}

#[test]
fn every_form_that_programs_write_has_equal_cells_and_examples() {
    let persons = persons(3000);
    let expected: Vec<Vec<String>> = persons.iter().map(|person| person.to_vec()).collect();
    let plain = generated::csv(&persons).into_bytes();
    let separator = |byte: u8| ReadOptions { separator: Some(byte), ..ReadOptions::default() };
    let always = |cell: &str| format!("\"{}\"", cell.replace('"', "\"\""));
    let padded = |cell: &str| if quoted(cell, ',') == cell { format!("  {cell}\t ") } else { always(cell) };
    let marked = |bytes: Vec<u8>| [b"\xef\xbb\xbf".to_vec(), bytes].concat();
    let unanswered = |word: &'static str| move |cell: &str| quoted(if cell == "?" { word } else { cell }, ',');
    let tabs = text(&persons, "\t", "\n", str::to_string);
    let (left, right) = plain.split_at(plain.len() / 2);
    let zstd = Compression::ZSTD(ZstdLevel::default());
    let default = ReadOptions::default;
    let forms = [
        ("as most programs write it", plain.clone(), Format::Csv, default()),
        ("no line end after the last row", text(&persons, ",", "\n", |cell| quoted(cell, ',')), Format::Csv, default()),
        ("every cell in quotes", text(&persons, ",", "\n", always), Format::Csv, default()),
        ("blanks around cells", text(&persons, ",", "\n", padded), Format::Csv, default()),
        ("byte order mark and CRLF", marked(text(&persons, ",", "\r\n", always)), Format::Csv, default()),
        ("empty cells", text(&persons, ",", "\n", unanswered("")), Format::Csv, default()),
        ("semicolons", text(&persons, ";", "\r\n", |cell| quoted(cell, ';')), Format::Csv, separator(b';')),
        ("bars", text(&persons, "|", "\n", |cell| quoted(cell, '|')), Format::Csv, separator(b'|')),
        ("tabs, quotes plain", tabs.clone(), Format::Tsv, default()),
        ("gzip", gzip(&plain), Format::Csv, default()),
        ("gzip in two members", [gzip(left), gzip(right)].concat(), Format::Csv, default()),
        ("gzip of tabs with a mark", gzip(&marked(tabs)), Format::Tsv, default()),
        ("Parquet", parquet(&persons, Compression::UNCOMPRESSED), Format::Parquet, default()),
        ("Parquet, Snappy", parquet(&persons, Compression::SNAPPY), Format::Parquet, default()),
        ("gzip of Parquet, Zstandard", gzip(&parquet(&persons, zstd)), Format::Parquet, default()),
    ];
    let examples = |bytes: Vec<u8>, format, options: &ReadOptions| {
        let table = open_bytes(bytes, format, options).unwrap();
        let names: Vec<&str> = table.columns().iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, COLUMNS);
        (cells(&*table), encoded(&*table, BadCells::Error).unwrap())
    };
    let (_, first) = examples(plain.clone(), Format::Csv, &default());
    for (form, bytes, format, options) in forms {
        let (cells, examples) = examples(bytes, format, &options);
        for (i, (found, expected)) in cells.iter().zip(&expected).enumerate() {
            assert_eq!(found, expected, "{form}: row {i}");
        }
        assert_eq!(cells.len(), expected.len(), "{form}");
        assert!(examples == first, "{form}: other examples");
    }
    // words for a missing value make no difference to the examples
    for word in ["NA", "null", "#N/A", "\\N"] {
        let table = open_bytes(text(&persons, ",", "\n", unanswered(word)), Format::Csv, &default()).unwrap();
        assert!(encoded(&*table, BadCells::Error).unwrap() == first, "{word}");
    }
}

#[test]
fn numbers_of_the_census_are_read_from_libsvm_as_they_were_written() {
    let persons = persons(3000);
    let value = |person: &Person, c: usize| person[c].parse::<f32>().unwrap();
    let expected: Vec<(f64, Vec<(u32, f32)>)> = persons
        .iter()
        .map(|person| {
            let entries = (0u32..).zip(NUMBERS).map(|(j, c)| (j, value(person, c))).filter(|entry| entry.1 != 0.0);
            (if person[14] == ">50K" { 1.0 } else { -1.0 }, entries.collect())
        })
        .collect();
    let write = |first: u32, note: &str, end: &str| -> Vec<u8> {
        let line = |(label, entries): &(f64, Vec<(u32, f32)>)| {
            let entries: String = entries.iter().map(|(j, value)| format!(" {}:{value}", j + first)).collect();
            format!("{label:+}{entries}{note}{end}")
        };
        expected.iter().map(line).collect::<String>().into_bytes()
    };
    let options = |zero_based| ReadOptions { features: Some(6), zero_based, ..ReadOptions::default() };
    for (bytes, zero_based) in [
        (write(1, "", "\n"), false),
        (write(1, "  # a person", "\r\n"), false),
        (write(0, " ", "\n"), true),
        (gzip(&write(0, "", "\r\n")), true),
    ] {
        let table = open_bytes(bytes, Format::Libsvm, &options(zero_based)).unwrap();
        let mut found = Vec::new();
        table
            .for_each_block(&mut |block| {
                for r in 0..block.len() {
                    match (block.field(r, 0), block.field(r, 1)) {
                        (Field::Number(label), Field::Sparse(entries)) => found.push((label, entries.to_vec())),
                        other => panic!("row {}: {other:?}", found.len()),
                    }
                }
                Ok(())
            })
            .unwrap();
        assert!(found == expected, "zero-based {zero_based}");
        assert_eq!(table.count_rows().unwrap(), 3000);
    }
}

/// The census as CSV, with `line` in place of row 17 (1-based, header not counted).
fn with_line(persons: &[Person], line: &str) -> Box<dyn TableReader> {
    let csv = generated::csv(persons);
    let lines: String =
        csv.lines().enumerate().map(|(i, own)| format!("{}\n", if i == 17 { line } else { own })).collect();
    open_bytes(lines.into_bytes(), Format::Csv, &ReadOptions::default()).unwrap()
}

#[test]
fn a_cell_of_another_type_is_an_error_or_missing_and_changes_no_other_row() {
    let persons = persons(200);
    let with_age = |age: &str| {
        let mut person = persons[16].clone();
        person[0] = age.into();
        let line: Vec<String> = person.iter().map(|cell| quoted(cell, ',')).collect();
        with_line(&persons, &line.join(","))
    };
    let missing = encoded(&*with_age(""), BadCells::Error).unwrap();
    for age in ["forty", "39 years", "inf", "--39", "1e999", "３９"] {
        let table = with_age(age);
        let error = encoded(&*table, BadCells::Error).unwrap_err();
        let names_the_cell = matches!(&error, DataError::NotANumber { column, row: 17 } if column == "age");
        assert!(names_the_cell && !error.to_string().contains(age), "{age}: {error}");
        assert!(encoded(&*table, BadCells::Missing).unwrap() == missing, "{age}");
    }
    let plain = encoded(&*with_age("39"), BadCells::Error).unwrap();
    assert!(plain != missing);
    for age in ["39.0", "+39", "3.9e1", "039", " 39 "] {
        assert!(encoded(&*with_age(age), BadCells::Error).unwrap() == plain, "{age}");
    }
    // a number beyond the codebook's range is the end of it
    assert!(
        encoded(&*with_age("200"), BadCells::Error).unwrap() == encoded(&*with_age("90"), BadCells::Error).unwrap()
    );
}

#[test]
fn a_row_of_another_width_is_an_error_or_counts_as_a_row_of_nothing() {
    let persons = persons(200);
    let csv = generated::csv(&persons);
    let own = csv.lines().nth(17).unwrap();
    let whole = encoded(&*with_line(&persons, own), BadCells::Error).unwrap();
    let (short, long) = (own.split_once(',').unwrap().1, format!("{own},more"));
    let open_quote = format!("\"{}", own.replace('"', ""));
    for line in [short, &long, &open_quote, "", " , "] {
        let table = with_line(&persons, line);
        assert_eq!(table.count_rows().unwrap(), 200);
        let error = encoded(&*table, BadCells::Error).unwrap_err();
        assert!(matches!(error, DataError::RaggedRow { row: 17, .. } | DataError::BadRow { row: 17, .. }), "{error}");
        let examples = encoded(&*table, BadCells::Missing).unwrap();
        assert!(examples.rows.row(16).0.is_empty() && examples.targets[16] == 0.0, "{line}");
        let others: Vec<usize> = (0..200).filter(|i| *i != 16).collect();
        assert!(examples.select(&others) == whole.select(&others), "{line}");
    }
}

#[test]
fn text_messages_are_read_without_header_and_without_quotes() {
    let messages = drawn(2, |below| generated::messages(5574, below));
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        std::fs::write(folder.path().join(name), bytes).unwrap();
        folder.path().join(name)
    };
    let tabs: String = messages.iter().map(|(label, text)| format!("{label}\t{text}\n")).collect();
    let commas: String =
        messages.iter().map(|(label, text)| format!("{label},\"{}\"\r\n", text.replace('"', "\"\""))).collect();
    let options = |format: &str| ReadOptions {
        format: Some(format.parse().unwrap()),
        header: false,
        columns: Some(2),
        ..ReadOptions::default()
    };
    let expected: Vec<Vec<String>> =
        messages.iter().map(|(label, text)| vec![label.to_string(), text.clone()]).collect();
    let mut schema = Schema::default();
    schema.declare("c2", Kind::Text).unwrap();
    schema.set_levels("c1", vec!["ham".into(), "spam".into()]).unwrap();
    let mut first = None;
    for (path, format) in [
        (write("messages", tabs.as_bytes()), "tsv"),
        (write("messages.gz", &gzip(tabs.as_bytes())), "tsv"),
        (write("messages.csv", commas.as_bytes()), "csv"),
    ] {
        let table = open(&path, &options(format)).unwrap();
        assert_eq!(table.count_rows().unwrap() as usize, messages.len());
        assert!(cells(&*table) == expected, "{format}");
        let layout = schema.resolve(table.columns(), Some("c1")).unwrap();
        let encoder = Encoder::new(&layout).unwrap();
        let start = std::time::Instant::now();
        let examples = encoder.encode_public(&*table, BadCells::Error).unwrap();
        println!("{} texts read and encoded in {:?}", examples.rows.len(), start.elapsed());
        let label = |(label, _): &(&str, String)| if *label == "spam" { 1.0 } else { -1.0 };
        assert_eq!(examples.targets, messages.iter().map(label).collect::<Vec<f32>>());
        assert!(squared_norms(&examples).iter().all(|n| *n <= 1.0 && *n > 0.5));
        // equal texts have equal rows, and others have others, but for a few of equal words
        let row = |i: usize| examples.rows.row(i);
        let pairs = || (1..messages.len()).map(|i| (messages[i].1 == messages[i - 1].1, row(i) == row(i - 1)));
        assert!(pairs().all(|(texts, rows)| rows || !texts));
        assert!(pairs().filter(|(_, rows)| *rows).count() < messages.len() / 100);
        assert!(*first.get_or_insert_with(|| examples.clone()) == examples, "{}", path.display());
    }
}
