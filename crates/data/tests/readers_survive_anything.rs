//! Any bytes as a table, any damage to a good table: an error or rows within the norm, never a panic, and no message
//! with a record's value in it.

use dpopt_data::{
    BadCells, DataError, Encoder, Field, Format, Kind, ReadOptions, Schema, TableReader, Ticks, Transform, Unit,
    label_counts, open, open_bytes, quantile_counts,
};
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use parquet::file::properties::WriterProperties;
use proptest::prelude::*;

#[allow(dead_code, reason = "each test file uses a part")]
#[path = "parquet/written.rs"]
mod written;

use written::{Leaf, list_of, lists, optional};

/// Reads, counts and encodes a table in every way there is; all that is asked is that it comes back.
fn exercise(bytes: &[u8], format: Format, options: &ReadOptions) {
    let table = match open_bytes(bytes.to_vec(), format, options) {
        Ok(table) => table,
        Err(error) => return one_line(&error),
    };
    let counted = table.count_rows();
    let mut seen = 0u64;
    let read = table.for_each_block(&mut |block| {
        assert_eq!(block.first_row(), seen);
        seen += block.len() as u64;
        Ok(())
    });
    match (counted, read) {
        (Ok(counted), Ok(())) => assert_eq!(counted, seen),
        (counted, read) => {
            let errors = [counted.err(), read.err()];
            errors.iter().flatten().for_each(one_line);
        }
    }
    let columns = table.columns().to_vec();
    let first = columns[0].name.clone();
    let _ = label_counts(&*table, &first).map_err(|e| one_line(&e));
    let _ = quantile_counts(&*table, &[first], BadCells::Missing).map_err(|e| one_line(&e));
    let last = columns[columns.len() - 1].name.clone();
    let mut schema = Schema::default();
    for (i, column) in columns.iter().enumerate() {
        let kind = match i % 3 {
            0 => Kind::numeric(&column.name, -1.0, 50.0).unwrap(),
            1 => Kind::Text,
            _ => Kind::Hashed,
        };
        if format != Format::Libsvm && column.name != last {
            let _ = schema.declare(&column.name, kind);
        }
    }
    let _ = schema.set_levels(&last, vec!["0".into(), "1".into()]);
    schema.options.text_bits = Some(8);
    let target = (columns.len() > 1 && format != Format::Libsvm).then_some(last.as_str());
    let target = if format == Format::Libsvm { Some("label") } else { target };
    if format == Format::Libsvm {
        schema = Schema::default();
        schema.set_levels("label", vec!["-1".into(), "1".into()]).unwrap();
    }
    let encoder = match schema.resolve(&columns, target).and_then(|layout| Encoder::new(&layout)) {
        Ok(encoder) => encoder,
        Err(error) => return one_line(&error),
    };
    for bad_cells in [BadCells::Error, BadCells::Missing] {
        match encoder.encode_public(&*table, bad_cells) {
            Ok(examples) => {
                assert_eq!(examples.rows.len() as u64, seen);
                for i in 0..examples.rows.len() {
                    let (indices, values) = examples.rows.row(i);
                    assert!(values.len() <= encoder.max_nonzeros());
                    assert!(indices.windows(2).all(|w| w[0] < w[1]));
                    assert!(values.iter().all(|v| v.is_finite()));
                    assert!(values.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>() <= 1.0);
                }
            }
            Err(error) => one_line(&error),
        }
    }
    let mut learnt = Schema::default();
    let _ = learnt.complete_from_public(&*table, target).map_err(|e| one_line(&e));
}

fn one_line(error: &DataError) {
    let message = error.to_string();
    assert!(!message.contains(char::is_control), "{message:?}");
}

fn all_options() -> Vec<(Format, ReadOptions)> {
    let default = ReadOptions::default();
    vec![
        (Format::Csv, default.clone()),
        (Format::Csv, ReadOptions { header: false, columns: Some(2), quoting: Some(false), ..default.clone() }),
        (Format::Tsv, default.clone()),
        (Format::Csv, ReadOptions { quoted_newlines: true, ..default.clone() }),
        (Format::Tsv, ReadOptions { header: false, columns: Some(3), quoting: Some(true), ..default.clone() }),
        (Format::Parquet, default.clone()),
        (Format::Libsvm, ReadOptions { features: Some(9), ..default.clone() }),
        (Format::Libsvm, ReadOptions { features: Some(9), zero_based: true, ..default }),
    ]
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A Parquet table with every kind of column; `codec` 0 plain, 1 snappy, 2 zstd.
fn parquet_table(rows: usize, codec: u8) -> Vec<u8> {
    let city = |i: usize| (!i.is_multiple_of(5)).then_some(ByteArray::from(["Rome", "Bern"][i % 2]));
    let columns = "OPTIONAL DOUBLE age; OPTIONAL INT32 count; OPTIONAL BOOLEAN member; OPTIONAL BYTE_ARRAY city (UTF8);
        OPTIONAL INT32 day (DATE);";
    let leaves = vec![
        optional::<DoubleType>((0..rows).map(|i| (i % 7 != 3).then_some(i as f64 / 2.0))),
        optional::<Int32Type>((0..rows).map(|i| Some(i as i32 - 5))),
        optional::<BoolType>((0..rows).map(|i| Some(i % 2 == 0))),
        optional::<ByteArrayType>((0..rows).map(city)),
        optional::<Int32Type>((0..rows).map(|i| Some(19_000 + i as i32))),
    ];
    write_parquet(columns, leaves, codec)
}

fn write_parquet(columns: &str, leaves: Vec<Box<dyn Leaf>>, codec: u8) -> Vec<u8> {
    let compression =
        [Compression::UNCOMPRESSED, Compression::SNAPPY, Compression::ZSTD(ZstdLevel::default())][codec as usize];
    written::table(columns, WriterProperties::builder().set_compression(compression), &[leaves])
}

#[test]
fn parquet_types_nulls_and_row_count() {
    for codec in 0..3 {
        for zipped in [false, true] {
            let plain = parquet_table(5000, codec);
            let bytes = if zipped { gzip(&plain) } else { plain };
            let table = open_bytes(bytes, Format::Parquet, &ReadOptions::default()).unwrap();
            assert_eq!(table.count_rows().unwrap(), 5000);
            let layout = Schema::default().resolve(table.columns(), Some("member")).unwrap();
            assert_eq!(layout.unbounded(), ["age", "count", "day"]);
            assert_eq!(layout.undeclared, ["city"]);
            let mut nulls = (0, 0);
            let days = Ticks { per_day: 1, unit: Unit::Date };
            table
                .for_each_block(&mut |block| {
                    for r in 0..block.len() {
                        let i = block.first_row() + r as u64;
                        nulls.0 += u32::from(block.field(r, 0) == Field::Missing);
                        nulls.1 += u32::from(block.field(r, 3) == Field::Missing);
                        assert_eq!(block.field(r, 1), Field::Integer(i as i64 - 5));
                        assert_eq!(block.field(r, 2), Field::Truth(i.is_multiple_of(2)));
                        assert_eq!(block.field(r, 4), Field::Time(19_000 + i as i64, days));
                    }
                    Ok(())
                })
                .unwrap();
            assert_eq!(nulls, (714, 1000));
        }
    }
}

#[test]
fn sparse_vectors_of_any_number_type_are_read() {
    let some = |row: &[f64]| Some(row.iter().map(|v| Some(*v)).collect::<Vec<_>>());
    let indices =
        [some(&[0.0, 8.0]), None, some(&[]), some(&[9.0]), some(&[1.0]), some(&[1.0]), Some(vec![None]), some(&[1.5])];
    let values = [
        some(&[1.0, -2.0]),
        None,
        some(&[]),
        some(&[1.0]),
        some(&[1.0, 2.0]),
        some(&[1e300]),
        some(&[1.0]),
        some(&[1.0]),
    ];
    for whole in [true, false] {
        // as a whole number, 1.5 is 1
        let cut = |row: &Vec<Option<f64>>| row.iter().map(|v| v.map(|v| v as i64)).collect::<Vec<_>>();
        let (kind, indices) = match whole {
            true => ("INT64", lists::<Int64Type>(&indices.each_ref().map(|row| row.as_ref().map(cut)))),
            false => ("DOUBLE", lists::<DoubleType>(&indices)),
        };
        let columns = list_of(kind, "indices") + &list_of("DOUBLE", "values");
        let bytes = write_parquet(&columns, vec![indices, lists::<DoubleType>(&values)], 0);
        let options = ReadOptions { features: Some(9), ..ReadOptions::default() };
        let table = open_bytes(bytes, Format::Parquet, &options).unwrap();
        let (mut seen, mut faults) = (Vec::new(), Vec::new());
        table
            .for_each_block(&mut |block| {
                for row in 0..block.len() {
                    match block.field(row, 0) {
                        Field::Sparse(entries) => seen.push((row, entries.to_vec())),
                        Field::Malformed(why) => faults.push((row, why.to_string())),
                        other => panic!("row {row}: {other:?}"),
                    }
                }
                Ok(())
            })
            .unwrap();
        let mut vectors = vec![(0, vec![(0, 1.0), (8, -2.0)]), (1, vec![]), (2, vec![])];
        let index = "an index is not a whole number below the declared number of features";
        let lengths = "`indices` and `values` differ in length";
        let mut reasons = vec![(3, index), (4, lengths), (5, "a value is not a finite number"), (6, index)];
        if whole {
            vectors.push((7, vec![(1, 1.0)]))
        } else {
            reasons.push((7, index))
        }
        let reasons: Vec<_> = reasons.into_iter().map(|(row, why)| (row, why.to_string())).collect();
        assert_eq!((seen, faults), (vectors, reasons), "whole numbers: {whole}");
    }
}

#[test]
fn a_parquet_file_encodes_like_the_same_csv() {
    let table = open_bytes(parquet_table(300, 1), Format::Parquet, &ReadOptions::default()).unwrap();
    let mut csv = String::from("age,count,member,city,day\n");
    for i in 0..300usize {
        let age = if i % 7 != 3 { (i as f64 / 2.0).to_string() } else { String::new() };
        let city = if i % 5 != 0 { ["Rome", "Bern"][i % 2] } else { "" };
        csv.push_str(&format!("{age},{},{},{city},{}\n", i as i32 - 5, i % 2 == 0, 19_000 + i));
    }
    let same = open_bytes(csv.into_bytes(), Format::Csv, &ReadOptions::default()).unwrap();
    let schema = Schema::from_toml(
        "[age]\nlower = 0\nupper = 150\n[count]\nlevels = [0, 1, 2]\n[day]\nlower = 19000\nupper = 20000\n\
         [member]\nlevels = ['false', 'true']\n[city]\nhash = true\n",
    )
    .unwrap();
    let encode = |table: &dyn dpopt_data::TableReader| {
        let encoder = Encoder::new(&schema.resolve(table.columns(), Some("member")).unwrap()).unwrap();
        encoder.encode_public(table, BadCells::Error).unwrap()
    };
    assert_eq!(encode(&*table), encode(&*same));
}

#[test]
fn nested_parquet_columns_are_refused_unless_ignored() {
    let tags = lists::<ByteArrayType>(&[Some(vec![Some(ByteArray::from("a"))])]);
    let columns = list_of("BYTE_ARRAY", "tags") + "OPTIONAL DOUBLE x;";
    let bytes = write_parquet(&columns, vec![tags, optional::<DoubleType>([Some(1.0)])], 0);
    let table = open_bytes(bytes, Format::Parquet, &ReadOptions::default()).unwrap();
    let error = Schema::default().resolve(table.columns(), None).unwrap_err();
    assert!(matches!(&error, DataError::UnsupportedType { column, .. } if column == "tags"), "{error}");
    let schema = Schema::from_toml("[tags]\nignore = true\n[x]\nlower = 0\nupper = 2\n").unwrap();
    let encoder = Encoder::new(&schema.resolve(table.columns(), None).unwrap()).unwrap();
    assert_eq!(encoder.encode_features(&*table, BadCells::Error).unwrap().len(), 1);
}

#[test]
fn a_cut_parquet_file_is_an_error_at_every_length() {
    let whole = parquet_table(200, 1);
    for length in (0..whole.len()).step_by(97) {
        let opened = open_bytes(whole[..length].to_vec(), Format::Parquet, &ReadOptions::default());
        assert!(matches!(opened.err(), Some(DataError::DamagedParquet { .. })), "{length}");
    }
}

/// What a table of one column of doubles, uncompressed, becomes when its footer says otherwise.
fn with_footer(change: impl FnOnce(&mut Vec<u8>, usize)) -> Result<Box<dyn TableReader>, DataError> {
    let numbers = optional::<DoubleType>((0..40).map(|i| Some(f64::from(i))));
    let mut bytes = write_parquet("OPTIONAL DOUBLE x;", vec![numbers], 0);
    // in the column's metadata: the path ["x"], then the codec
    let path = b"\x19\x18\x01x\x15\x00";
    let at = bytes.windows(path.len()).rposition(|w| w == path).unwrap();
    change(&mut bytes, at + path.len() - 1);
    open_bytes(bytes, Format::Parquet, &ReadOptions::default())
}

#[test]
fn what_a_parquet_footer_says_of_unreadable_columns_is_known_before_they_are_read() {
    assert_eq!(with_footer(|_, _| {}).unwrap().count_rows().unwrap(), 40);
    // the codecs by number, in zigzag
    for (codec, name) in [(1, None), (2, None), (3, Some("LZO")), (4, Some("BROTLI")), (5, None), (6, None), (7, None)]
    {
        let opened = with_footer(|bytes, at| bytes[at] = 2 * codec);
        match (name, opened.err()) {
            // it is opened, and that its pages are no such data is found when they are read
            (None, None) => {}
            (Some(name), Some(DataError::UnreadableParquet { why, .. })) => {
                assert!(why.contains(name) && why.contains("write the file with snappy, gzip, zstd or lz4"), "{why}");
            }
            (_, error) => panic!("{codec}: {error:?}"),
        }
    }
    let why = |opened: Result<Box<dyn TableReader>, DataError>| match opened.err() {
        Some(DataError::UnreadableParquet { why, .. }) => why,
        other => panic!("{other:?}"),
    };
    let encrypted = with_footer(|bytes, _| {
        let end = bytes.len();
        bytes[end - 1] = b'E';
    });
    assert!(why(encrypted).starts_with("its footer is encrypted"));
    // the size of what is compressed, field 7 and two bytes long here, beyond the file's end
    let beyond = with_footer(|bytes, at| {
        let sizes = bytes[at + 1..].iter().position(|b| *b == 0x16).unwrap() + at + 1;
        // 5: values, one byte; 6: size, two bytes; 7: compressed size
        let compressed = bytes[sizes + 3..].iter().position(|b| *b == 0x16).unwrap() + sizes + 3;
        bytes[compressed + 2] = 0x7f;
    });
    assert!(why(beyond).contains("beyond its end"));
}

#[test]
fn files_are_opened_by_extension_and_by_magic_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let csv = b"a,b\n1,2\n";
    let default = ReadOptions::default();
    for (name, bytes) in [
        ("x.csv", csv.to_vec()),
        ("x.csv.gz", gzip(csv)),
        ("zipped-without-saying.csv", gzip(csv)),
        ("plain-called.csv.gz", csv.to_vec()),
        ("x.TSV", b"a\tb\n1\t2\n".to_vec()),
        ("x.txt", b"a\tb\n1\t2\n".to_vec()),
    ] {
        let table = open(put(name, &bytes), &default).unwrap();
        assert_eq!((table.columns().len(), table.count_rows().unwrap()), (2, 1), "{name}");
    }
    assert_eq!(open(put("x.parquet", &parquet_table(9, 0)), &default).unwrap().count_rows().unwrap(), 9);
    let svm = ReadOptions { features: Some(3), ..ReadOptions::default() };
    assert_eq!(open(put("x.libsvm", b"1 1:1\n"), &svm).unwrap().count_rows().unwrap(), 1);
    assert!(matches!(open(put("x.svm", b"1 1:1\n"), &default), Err(DataError::FeaturesUnknown)));
    assert!(matches!(open(put("noextension", csv), &default), Err(DataError::UnknownFormat { .. })));
    assert!(matches!(open(folder.path().join("absent.csv"), &default), Err(DataError::Unreadable { .. })));
    std::fs::create_dir(folder.path().join("folder.csv")).unwrap();
    assert!(matches!(open(folder.path().join("folder.csv"), &default), Err(DataError::Unreadable { .. })));
}

#[test]
fn very_wide_rows_and_huge_fields() {
    let names: Vec<String> = (0..20_000).map(|i| format!("x{i}")).collect();
    let text = format!("{}\n{}\n", names.join(","), vec!["3"; 20_000].join(","));
    let table = open_bytes(text.into_bytes(), Format::Csv, &ReadOptions::default()).unwrap();
    let mut schema = Schema::default();
    for name in &names {
        schema.declare(name, Kind::numeric(name, 0.0, 10.0).unwrap()).unwrap();
    }
    let encoder = Encoder::new(&schema.resolve(table.columns(), None).unwrap()).unwrap();
    let rows = encoder.encode_features(&*table, BadCells::Error).unwrap();
    let norm: f64 = rows.row(0).1.iter().map(|v| f64::from(*v).powi(2)).sum();
    assert!(norm <= 1.0 && norm > 0.5);

    let huge = "word ".repeat(2_000_000);
    let table = open_bytes(format!("t\n{huge}\n1\n").into_bytes(), Format::Csv, &ReadOptions::default()).unwrap();
    let schema = Schema::from_toml("[t]\ntext = true\n").unwrap();
    let encoder = Encoder::new(&schema.resolve(table.columns(), None).unwrap()).unwrap();
    assert_eq!(encoder.encode_features(&*table, BadCells::Error).unwrap().len(), 2);

    // too long to be read: one bad row, and the next one is what it would be anyway
    let endless = format!("t\n\"{}\n1\n", "x".repeat(70 << 20));
    let table = open_bytes(endless.into_bytes(), Format::Csv, &ReadOptions::default()).unwrap();
    assert_eq!(table.count_rows().unwrap(), 2);
    let error = encoder.encode_features(&*table, BadCells::Error).unwrap_err();
    assert!(matches!(error, DataError::BadRow { row: 1, .. }), "{error}");
    let rows = encoder.encode_features(&*table, BadCells::Missing).unwrap();
    assert!(rows.len() == 2 && rows.row(0).0.is_empty() && !rows.row(1).0.is_empty());
}

#[test]
fn embedded_nul_and_bytes_that_are_not_utf8_are_just_bytes() {
    let text = b"city,note,y\nRo\0me,h\xff\xfe llo,0\nRome,hello,1\n\xff,?,1\n".to_vec();
    let table = open_bytes(text, Format::Csv, &ReadOptions::default()).unwrap();
    let schema = Schema::from_toml("[city]\nhash = true\n[note]\ntext = true\n[y]\nlevels = [0, 1]\n").unwrap();
    let encoder = Encoder::new(&schema.resolve(table.columns(), Some("y")).unwrap()).unwrap();
    let examples = encoder.encode_public(&*table, BadCells::Error).unwrap();
    assert_eq!(examples.targets, [-1.0, 1.0, 1.0]);
    assert_ne!(examples.rows.row(0), examples.rows.row(1));
}

#[test]
fn unbalanced_declarations_are_errors_and_not_panics() {
    let table = open_bytes(b"a,b\n1,2\n".to_vec(), Format::Csv, &ReadOptions::default()).unwrap();
    let mut schema = Schema::default();
    schema.declare("a", Kind::Numeric { bounds: None, transform: Transform::Log }).unwrap();
    let layout = schema.resolve(table.columns(), Some("b")).unwrap();
    assert!(matches!(Encoder::new(&layout), Err(DataError::Unbounded { .. })));
    schema.set_bounds("a", -1.0, 5.0).unwrap();
    assert!(matches!(schema.resolve(table.columns(), Some("b")), Err(DataError::Declaration { .. })));
    schema.set_bounds("a", 0.0, 5.0).unwrap();
    let layout = schema.resolve(table.columns(), Some("b")).unwrap();
    assert!(matches!(Encoder::new(&layout), Err(DataError::TargetUndeclared { .. })));
}

/// Every record as the reader shows it; of record `but`, that there is one.
fn records(table: &dyn TableReader, but: usize) -> Vec<String> {
    let mut all = Vec::new();
    let columns = table.columns().len();
    table
        .for_each_block(&mut |block| {
            for r in 0..block.len() {
                let fields: Vec<Field> = (0..columns).map(|c| block.field(r, c)).collect();
                let seen = || format!("{:?} {} {fields:?}", block.fault(r), block.width(r));
                all.push(if all.len() == but { String::new() } else { seen() });
            }
            Ok(())
        })
        .expect("no content of a row stops a pass");
    assert_eq!(all.len() as u64, table.count_rows().unwrap());
    all
}

/// Text formats with what stands before the first row.
fn text_formats() -> Vec<(&'static str, &'static str, ReadOptions)> {
    let default = ReadOptions::default();
    let headless = ReadOptions { header: false, columns: Some(2), ..default.clone() };
    vec![
        ("t.csv", "a,b\n", default.clone()),
        ("t.csv", "", headless.clone()),
        ("t.csv", "\"a;\";b\r\n", ReadOptions { separator: Some(b';'), ..default.clone() }),
        ("t.csv", "a,b\n", ReadOptions { quoting: Some(false), ..default.clone() }),
        ("t.tsv", "a\tb\n", default.clone()),
        ("t.tsv", "", headless),
        ("t.libsvm", "", ReadOptions { features: Some(9), ..default }),
    ]
}

/// Replaces the bytes of row `at` and requires all other records, and their number, to stay what they are, in the readers and in
/// the encoded rows.
fn only_one_record_changes(rows: &[Vec<u8>], at: usize, replacement: &[u8]) {
    let folder = tempfile::tempdir().unwrap();
    for (name, header, options) in text_formats() {
        let text = |with: &[u8]| {
            let mut bytes = header.as_bytes().to_vec();
            for (i, row) in rows.iter().enumerate() {
                bytes.extend_from_slice(if i == at { with } else { row });
                bytes.push(b'\n');
            }
            bytes
        };
        for zipped in [false, true] {
            let read = |with: &[u8]| {
                let path = folder.path().join(if zipped { format!("{name}.gz") } else { name.to_string() });
                std::fs::write(&path, if zipped { gzip(&text(with)) } else { text(with) }).unwrap();
                let table = open(&path, &options).unwrap();
                let mut schema = Schema::default();
                let target = if name.ends_with("libsvm") { "label" } else { "b" };
                let names: Vec<String> = table.columns().iter().map(|c| c.name.clone()).collect();
                let target = if options.header || name.ends_with("libsvm") { target } else { "c2" };
                schema.set_levels(target, vec!["0".into(), "1".into()]).unwrap();
                if !name.ends_with("libsvm") {
                    schema.declare(&names[0], Kind::numeric(&names[0], 0.0, 9.0).unwrap()).unwrap();
                }
                let encoder = Encoder::new(&schema.resolve(table.columns(), Some(target)).unwrap()).unwrap();
                let examples =
                    encoder.encode_public(&*table, BadCells::Missing).expect("nothing about a row stops a run");
                let encoded: Vec<String> =
                    (0..rows.len()).map(|i| format!("{:?} {}", examples.rows.row(i), examples.targets[i])).collect();
                assert_eq!(examples.rows.len(), rows.len());
                (records(&*table, at), encoded)
            };
            let (before, after) = (read(&rows[at]), read(replacement));
            assert_eq!((before.0.len(), after.0.len()), (rows.len(), rows.len()), "{name} {header:?}");
            for i in (0..rows.len()).filter(|i| *i != at) {
                assert_eq!(before.0[i], after.0[i], "{name} {header:?}, row {i}");
                assert_eq!(before.1[i], after.1[i], "{name} {header:?}, row {i}");
            }
        }
    }
}

#[test]
fn hostile_rows_change_no_other_record() {
    let rows = [&b"1,0"[..], b"2,1", b"3\t1", b"1 2:1", b"4,1"].map(<[u8]>::to_vec);
    let long = vec![b'"'; (64 << 20) + 9];
    let cell = [&vec![b'7'; 60 << 20][..], b",1"].concat();
    let separators = vec![b','; 1 << 20];
    for at in [0, 1, 4] {
        for hostile in [
            &b""[..],
            b" ",
            b"\"",
            b"1,\"",
            b"\x1f\x8b\x08",
            b"\xef\xbb\xbf1,0",
            b"\xff\xfe",
            b"\0",
            b"\r",
            b"1e308,\r",
            b"#",
            b"nan,inf",
            b"1,0,\"\"\"",
            b"1 9999999999999999999999:1",
            b"1 :",
            &separators,
        ] {
            only_one_record_changes(&rows, at, hostile);
        }
    }
    for hostile in [&long, &cell] {
        only_one_record_changes(&rows[..3], 1, hostile);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        for (format, options) in all_options() {
            exercise(&bytes, format, &options);
        }
    }

    #[test]
    fn arbitrary_table_like_text(text in "[-+0-9a-z:.,\t\"?# \r\n\u{0}é]{0,200}") {
        for (format, options) in all_options() {
            exercise(text.as_bytes(), format, &options);
        }
    }

    #[test]
    fn one_rows_bytes_are_one_record(
        rows in prop::collection::vec("[-0-9a:.,\t\"? \r\u{0}é]{0,12}", 2..6),
        at in any::<prop::sample::Index>(),
        wild in prop::collection::vec(any::<u8>().prop_filter("no line break", |b| *b != b'\n'), 0..40),
        tame in "[-0-9a:.,\t\"? \r\u{0}é]{0,12}",
    ) {
        let rows: Vec<Vec<u8>> = rows.into_iter().map(String::into_bytes).collect();
        let at = at.index(rows.len());
        only_one_record_changes(&rows, at, &wild);
        only_one_record_changes(&rows, at, tame.as_bytes());
    }

    #[test]
    fn damaged_gzip(text in "[0-9,\n]{0,200}", at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>()) {
        let mut bytes = gzip(text.as_bytes());
        let at = at.index(bytes.len());
        if cut { bytes.truncate(at) } else { bytes[at] = byte }
        for (format, options) in all_options() {
            exercise(&bytes, format, &options);
        }
    }

    #[test]
    fn damaged_parquet(at in any::<prop::sample::Index>(), byte in any::<u8>(), codec in 0u8..3) {
        let mut bytes = parquet_table(60, codec);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        exercise(&bytes, Format::Parquet, &ReadOptions::default());
    }

    #[test]
    fn arbitrary_bounds_files(text in "[\\[\\]a-z=0-9.\"\n -]{0,120}") {
        let _ = Schema::from_toml(&text);
    }

    #[test]
    fn arbitrary_bounds_never_break_the_scale(lower in any::<f64>(), upper in any::<f64>(), value in any::<f64>(), knots in 2u32..65) {
        let mut schema = Schema::default();
        schema.form.knots = Some(knots);
        if let Ok(kind) = Kind::numeric("v", lower, upper) {
            schema.declare("v", kind).unwrap();
            let table = open_bytes(format!("v\n{value}\n").into_bytes(), Format::Csv, &ReadOptions::default()).unwrap();
            let encoder = Encoder::new(&schema.resolve(table.columns(), None).unwrap()).unwrap();
            let rows = encoder.encode_features(&*table, BadCells::Missing).unwrap();
            prop_assert!(rows.row(0).1.iter().all(|v| *v > 0.0 && *v <= 1.0));
        }
    }

    #[test]
    fn arbitrary_encoder_json(text in "[\\[\\]{}a-z:,0-9.\"_ -]{0,120}") {
        let _ = serde_json::from_str::<Encoder>(&text);
    }
}
