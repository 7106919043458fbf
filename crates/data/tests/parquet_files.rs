//! Every cell of Parquet files that other programs wrote (`parquet/make.py`), and of files in every layout that this one can write.

use std::path::PathBuf;

use dpopt_data::{DataError, Field, Format, ReadOptions, Stored, TableReader, Ticks, Unit, open, open_bytes};
use parquet::basic::{Compression, Encoding};
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DoubleType, FixedLenByteArray, FixedLenByteArrayType, FloatType, Int32Type,
    Int64Type, Int96, Int96Type,
};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{WriterProperties, WriterVersion};
use proptest::prelude::*;
use serde_json::Value;

#[allow(dead_code, reason = "each test file uses a part")]
#[path = "parquet/written.rs"]
mod written;

use written::{Leaf, levels, list_of, lists, optional, required, table};

/// A cell of its own.
#[derive(Clone, Debug, PartialEq)]
enum Cell {
    Missing,
    Truth(bool),
    Integer(i64),
    /// A number, by its bits.
    Number(u64),
    Text(Vec<u8>),
    Time(i64, Ticks),
    Sparse(Vec<(u32, f32)>),
    Malformed(String),
}

impl From<Field<'_>> for Cell {
    fn from(field: Field<'_>) -> Self {
        match field {
            Field::Missing => Self::Missing,
            Field::Truth(truth) => Self::Truth(truth),
            Field::Integer(whole) => Self::Integer(whole),
            Field::Number(number) => Self::Number(number.to_bits()),
            Field::Text(text) => Self::Text(text.to_vec()),
            Field::Time(ticks, of) => Self::Time(ticks, of),
            Field::Sparse(entries) => Self::Sparse(entries.to_vec()),
            Field::Malformed(why) => Self::Malformed(why.to_string()),
        }
    }
}

/// All cells, by column, and the sizes of the blocks that they came in.
fn read(table: &dyn TableReader) -> Result<(Vec<Vec<Cell>>, Vec<usize>), DataError> {
    let mut columns = vec![Vec::new(); table.columns().len()];
    let mut blocks = Vec::new();
    table.for_each_block(&mut |block| {
        assert_eq!(block.first_row(), blocks.iter().sum::<usize>() as u64);
        for (c, cells) in columns.iter_mut().enumerate() {
            cells.extend((0..block.len()).map(|row| Cell::from(block.field(row, c))));
        }
        blocks.push(block.len());
        Ok(())
    })?;
    Ok((columns, blocks))
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/parquet")
}

/// The cells that make.py names for a column, and what its schema is to say.
fn expected(column: &Value) -> (Vec<Cell>, Option<Ticks>) {
    let unit = column["unit"].as_str().map(|unit| if unit == "date" { Unit::Date } else { Unit::Duration });
    let ticks = unit.map(|unit| Ticks { per_day: column["per_day"].as_i64().unwrap(), unit });
    let cell = |cell: &Value| match cell {
        Value::Null => Cell::Missing,
        Value::Bool(truth) => Cell::Truth(*truth),
        Value::Number(whole) => Cell::Integer(whole.as_i64().unwrap()),
        cell => match cell.as_object().unwrap().iter().next().map(|(kind, value)| (kind.as_str(), value)).unwrap() {
            ("f", number) => Cell::Number(number.as_str().unwrap().parse::<f64>().unwrap().to_bits()),
            ("t", text) => Cell::Text(text.as_str().unwrap().as_bytes().to_vec()),
            ("x", hex) => {
                let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
                Cell::Text(hex.as_str().unwrap().as_bytes().chunks(2).map(byte).collect())
            }
            ("at", at) => Cell::Time(at.as_i64().unwrap(), ticks.unwrap()),
            ("v", entries) => Cell::Sparse(serde_json::from_value(entries.clone()).unwrap()),
            (_, why) => Cell::Malformed(why.as_str().unwrap().into()),
        },
    };
    (column["cells"].as_array().unwrap().iter().map(cell).collect(), ticks)
}

#[test]
fn files_of_other_programs_are_read_to_the_last_bit() {
    let text = std::fs::read_to_string(folder().join("cells.json")).unwrap();
    let files: Value = serde_json::from_str(&text).unwrap();
    let (mut count, mut cells) = (0, 0);
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if !name.ends_with(".parquet") || name == "lists_long.parquet" {
            continue;
        }
        let by_column = &files[if name.starts_with("matrix") { "matrix" } else { name }];
        let options = ReadOptions { features: Some(9), ..ReadOptions::default() };
        for table in [
            open(&path, &options).unwrap(),
            open_bytes(std::fs::read(&path).unwrap(), Format::Parquet, &options).unwrap(),
        ] {
            let (columns, _) = read(&*table).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(!columns.is_empty());
            for (column, seen) in table.columns().iter().zip(columns) {
                let (expected, ticks) = expected(&by_column[&column.name]);
                assert_eq!(seen, expected, "{name}, {}", column.name);
                match (&column.stored, ticks) {
                    (Stored::Time(stored), Some(ticks)) => assert_eq!(*stored, ticks, "{name}, {}", column.name),
                    (stored, None) => assert!(!matches!(stored, Stored::Time(_) | Stored::Unsupported(_)), "{name}"),
                    (stored, _) => panic!("{name}, {}: {stored:?}", column.name),
                }
                cells += seen.len();
            }
        }
        count += 1;
    }
    assert!(count >= 30 && cells > 7000, "{count} files, {cells} cells");
}

#[test]
fn lists_over_many_pages_and_row_groups_are_read() {
    let options = ReadOptions { features: Some(30), ..ReadOptions::default() };
    let table = open(folder().join("lists_long.parquet"), &options).unwrap();
    let (columns, blocks) = read(&*table).unwrap();
    assert_eq!(blocks, [2048, 252]);
    let length = |i: u32| [0, 0, 3, 0, 0, 0, 1, 0][i as usize % 8];
    let entry = |place: u32| (place % 30, (place % 30) as f32);
    let row = |i: u32| Cell::Sparse((i..i + length(i)).map(entry).collect());
    assert!(columns == [(0..2300).map(row).collect::<Vec<Cell>>()]);
}

/// All cells of a file that this test wrote, with lists of `features`.
fn cells_of(bytes: Vec<u8>, features: Option<u64>) -> Vec<Vec<Cell>> {
    let table = open_bytes(bytes, Format::Parquet, &ReadOptions { features, ..ReadOptions::default() }).unwrap();
    read(&*table).unwrap().0
}

#[test]
fn blocks_do_not_depend_on_row_groups_or_pages() {
    let (rows, per_group) = (5000, [1, 2047, 2, 0, 2950]);
    let columns = "REQUIRED INT64 a; OPTIONAL DOUBLE b; OPTIONAL BYTE_ARRAY c (UTF8);";
    let real = |i: i64| (i % 7 != 3).then_some(i as f64 / 8.0);
    let word = |i: i64| (i % 5 != 0).then(|| format!("word {}", i % 40));
    for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
        for dictionary in [true, false] {
            let how = WriterProperties::builder()
                .set_writer_version(version)
                .set_dictionary_enabled(dictionary)
                .set_compression(Compression::LZ4_RAW)
                .set_write_batch_size(16)
                .set_data_page_row_count_limit(100);
            let mut first = 0;
            let groups = per_group.map(|size| {
                let of = first..first + size;
                first += size;
                vec![
                    required::<Int64Type>(of.clone()),
                    optional::<DoubleType>(of.clone().map(real)),
                    optional::<ByteArrayType>(of.map(|i| word(i).map(|word| ByteArray::from(&*word)))),
                ]
            });
            let bytes = table(columns, how, &groups);
            let table = open_bytes(bytes, Format::Parquet, &ReadOptions::default()).unwrap();
            let (seen, blocks) = read(&*table).unwrap();
            assert_eq!(blocks, [2048, 2048, 904]);
            assert!(seen[0] == (0..rows).map(Cell::Integer).collect::<Vec<_>>());
            let expected = |i| real(i).map_or(Cell::Missing, |real| Cell::Number(real.to_bits()));
            assert!(seen[1] == (0..rows).map(expected).collect::<Vec<_>>());
            let expected = |i| word(i).map_or(Cell::Missing, |word| Cell::Text(word.into_bytes()));
            assert!(seen[2] == (0..rows).map(expected).collect::<Vec<_>>());
        }
    }
}

/// What a column of one row group holds, and what its cells are.
fn types() -> Vec<(&'static str, Box<dyn Leaf>, Vec<Cell>)> {
    use Cell::{Integer, Missing, Time};
    let ticks = |per_day, unit| Ticks { per_day, unit };
    let (milli, micro, nano) = (86_400_000, 86_400_000_000, 86_400_000_000_000);
    let point = |v: i64, per_day| Time(v, ticks(per_day, Unit::Date));
    let span = |v: i64, per_day| Time(v, ticks(per_day, Unit::Duration));
    let number = |v: f64| Cell::Number(v.to_bits());
    let text = |v: &[u8]| Cell::Text(v.to_vec());
    let short = |v: [i32; 2]| optional::<Int32Type>([Some(v[0]), Some(v[1]), None]);
    let long = |v: [i64; 2]| optional::<Int64Type>([Some(v[0]), Some(v[1]), None]);
    let bytes = |v: [&[u8]; 2]| optional::<ByteArrayType>([Some(v[0].into()), Some(v[1].into()), None]);
    let fixed = |v: [&[u8]; 2]| {
        let of = |bytes: &[u8]| Some(FixedLenByteArray::from(bytes.to_vec()));
        optional::<FixedLenByteArrayType>([of(v[0]), of(v[1]), None])
    };
    let int96 = |words: [u32; 3]| Int96::from(words.to_vec());
    let noon = 43_200_000_000_000u64;
    vec![
        (
            "BOOLEAN x",
            optional::<BoolType>([Some(true), Some(false), None]),
            vec![Cell::Truth(true), Cell::Truth(false), Missing],
        ),
        ("INT32 x", short([i32::MIN, i32::MAX]), vec![Integer(i32::MIN.into()), Integer(i32::MAX.into()), Missing]),
        // what the type has no bits for is cut off, as before
        ("INT32 x (INT_8)", short([-128, 300]), vec![Integer(-128), Integer(44), Missing]),
        ("INT32 x (INT_16)", short([-32_768, 65_535]), vec![Integer(-32_768), Integer(-1), Missing]),
        ("INT32 x (INT_32)", short([-1, 1]), vec![Integer(-1), Integer(1), Missing]),
        ("INT32 x (UINT_8)", short([255, -1]), vec![Integer(255), Integer(255), Missing]),
        ("INT32 x (UINT_16)", short([65_535, -1]), vec![Integer(65_535), Integer(65_535), Missing]),
        ("INT32 x (UINT_32)", short([-1, 1]), vec![Integer(u32::MAX.into()), Integer(1), Missing]),
        ("INT32 x (INTEGER(16,false))", short([-1, 1]), vec![Integer(65_535), Integer(1), Missing]),
        ("INT64 x", long([i64::MIN, i64::MAX]), vec![Integer(i64::MIN), Integer(i64::MAX), Missing]),
        ("INT64 x (INT_64)", long([-1, 1]), vec![Integer(-1), Integer(1), Missing]),
        ("INT64 x (UINT_64)", long([-1, 1]), vec![number(u64::MAX as f64), number(1.0), Missing]),
        ("INT64 x (INTEGER(64,false))", long([-1, 1]), vec![number(u64::MAX as f64), number(1.0), Missing]),
        (
            "FLOAT x",
            optional::<FloatType>([Some(0.1), Some(-1e30), None]),
            vec![number(0.1f32.into()), number((-1e30f32).into()), Missing],
        ),
        ("DOUBLE x", optional::<DoubleType>([Some(0.1), Some(-0.0), None]), vec![number(0.1), number(-0.0), Missing]),
        (
            "FIXED_LEN_BYTE_ARRAY (2) x (FLOAT16)",
            fixed([b"\x55\x35", b"\x00\xc0"]),
            vec![number(0.333_251_953_125), number(-2.0), Missing],
        ),
        ("INT32 x (DATE)", short([-1, 19_000]), vec![point(-1, 1), point(19_000, 1), Missing]),
        ("INT32 x (TIME_MILLIS)", short([0, 5]), vec![span(0, milli), span(5, milli), Missing]),
        ("INT32 x (TIME(MILLIS,true))", short([0, 5]), vec![span(0, milli), span(5, milli), Missing]),
        ("INT64 x (TIME_MICROS)", long([0, 5]), vec![span(0, micro), span(5, micro), Missing]),
        ("INT64 x (TIME(NANOS,false))", long([0, 5]), vec![span(0, nano), span(5, nano), Missing]),
        ("INT64 x (TIMESTAMP_MILLIS)", long([-5, 5]), vec![point(-5, milli), point(5, milli), Missing]),
        ("INT64 x (TIMESTAMP_MICROS)", long([-5, 5]), vec![point(-5, micro), point(5, micro), Missing]),
        ("INT64 x (TIMESTAMP(NANOS,true))", long([-5, 5]), vec![point(-5, nano), point(5, nano), Missing]),
        (
            "INT96 x",
            optional::<Int96Type>([
                Some(int96([noon as u32, (noon >> 32) as u32, 2_440_588])),
                Some(int96([1, 0, 2_440_587])),
                None,
            ]),
            vec![point(noon as i64, nano), point(1 - nano, nano), Missing],
        ),
        ("INT32 x (DECIMAL(9,2))", short([-125, 1]), vec![number(-1.25), number(0.01), Missing]),
        (
            "INT64 x (DECIMAL(18,10))",
            long([9_007_199_254_740_993, -5]),
            vec![number(900_719.925_474_099_3), number(-5e-10), Missing],
        ),
        ("BYTE_ARRAY x (DECIMAL(20,1))", bytes([b"\xff\x83", b""]), vec![number(-12.5), number(0.0), Missing]),
        (
            "BYTE_ARRAY x (DECIMAL(60,0))",
            bytes([&[1; 40], &[0x7f; 20]]),
            vec![number(f64::NAN), number(727_885_129_180_488_904_360_266_563_744_972_327_436_484_050_815.0), Missing],
        ),
        (
            "FIXED_LEN_BYTE_ARRAY (3) x (DECIMAL(6,3))",
            fixed([b"\xff\xff\x83", b"\x00\x00\x01"]),
            vec![number(-0.125), number(0.001), Missing],
        ),
        ("BYTE_ARRAY x (UTF8)", bytes([b" Rome ", b""]), vec![text(b"Rome"), text(b""), Missing]),
        ("BYTE_ARRAY x", bytes([b"a\0", b"\xff"]), vec![text(b"a\0"), text(b"\xff"), Missing]),
        ("BYTE_ARRAY x (ENUM)", bytes([b"a", b"b"]), vec![text(b"a"), text(b"b"), Missing]),
        ("BYTE_ARRAY x (JSON)", bytes([b"{}", b"[]"]), vec![text(b"{}"), text(b"[]"), Missing]),
        ("BYTE_ARRAY x (BSON)", bytes([b"a", b"b"]), vec![text(b"a"), text(b"b"), Missing]),
        ("FIXED_LEN_BYTE_ARRAY (3) x", fixed([b"abc", b" \xff "]), vec![text(b"abc"), text(b"\xff"), Missing]),
        ("INT32 x (UNKNOWN)", optional::<Int32Type>([None, None, None]), vec![Missing; 3]),
    ]
}

#[test]
fn every_type_of_a_parquet_column_is_read() {
    for (name, leaf, expected) in types() {
        let bytes = table(&format!("OPTIONAL {name};"), WriterProperties::builder(), &[vec![leaf]]);
        let seen = cells_of(bytes, None);
        let nan = |cells: &[Cell]| {
            let bits = |cell: &Cell| matches!(cell, Cell::Number(bits) if f64::from_bits(*bits).is_nan());
            cells.iter().map(bits).collect::<Vec<bool>>()
        };
        assert_eq!(seen.len(), 1, "{name}");
        assert_eq!(nan(&seen[0]), nan(&expected), "{name}");
        for (seen, expected) in seen[0].iter().zip(&expected).filter(|(cell, _)| !nan(std::slice::from_ref(*cell))[0]) {
            assert_eq!(seen, expected, "{name}");
        }
        assert_eq!(seen[0].len(), expected.len(), "{name}");
    }
}

/// Rows of `indices` and `values` in each form of lists that Parquet has had: [3, 5], [], null (or [] where there is none), [7].
#[test]
fn every_form_of_lists_is_read() {
    let rows = [Some(vec![Some(3), Some(5)]), Some(vec![]), None, Some(vec![Some(7)])];
    let vectors = [vec![(3, 3.0), (5, 5.0)], vec![], vec![], vec![(7, 7.0)]].map(Cell::Sparse);
    let leaf = |definition: &[i16]| levels::<Int32Type>(vec![3, 5, 7], definition, &[0, 1, 0, 0, 0]);
    let forms: Vec<(&str, Box<dyn Fn() -> Box<dyn Leaf>>)> = vec![
        (
            "OPTIONAL group @ (LIST) { REPEATED group list { OPTIONAL INT32 element; } }",
            Box::new(move || lists::<Int32Type>(&rows)),
        ),
        (
            "OPTIONAL group @ (LIST) { REPEATED group bag { REQUIRED INT32 item; } }",
            Box::new(move || leaf(&[2, 2, 1, 0, 2])),
        ),
        (
            "REQUIRED group @ (LIST) { REPEATED group list { OPTIONAL INT32 element; } }",
            Box::new(move || leaf(&[2, 2, 0, 0, 2])),
        ),
        ("OPTIONAL group @ (LIST) { REPEATED INT32 element; }", Box::new(move || leaf(&[2, 2, 1, 0, 2]))),
        ("REQUIRED group @ (LIST) { REPEATED INT32 array; }", Box::new(move || leaf(&[1, 1, 0, 0, 1]))),
        ("REPEATED INT32 @;", Box::new(move || leaf(&[1, 1, 0, 0, 1]))),
    ];
    for (form, leaf) in forms {
        let columns = ["indices", "values"].map(|name| form.replace('@', name)).concat();
        let bytes = table(&columns, WriterProperties::builder(), &[vec![leaf(), leaf()]]);
        assert_eq!(cells_of(bytes.clone(), Some(9)), [vectors.to_vec()], "{form}");
        // without a dimension they are columns that no cell can hold
        let table = open_bytes(bytes, Format::Parquet, &ReadOptions::default()).unwrap();
        let of_lists = |column: &dpopt_data::Column| matches!(&column.stored, Stored::Unsupported(_));
        assert!(table.columns().len() == 2 && table.columns().iter().all(of_lists), "{form}");
        assert_eq!(read(&*table).unwrap().0, [vec![Cell::Missing; 4], vec![Cell::Missing; 4]]);
    }
}

#[test]
fn nested_columns_are_named_in_the_words_of_parquet() {
    let one = || levels::<Int32Type>(vec![1], &[1], &[0]);
    for (columns, leaves, words) in [
        (list_of("BYTE_ARRAY", "x"), vec![lists::<ByteArrayType>(&[None])], "LIST of BYTE_ARRAY"),
        (
            "REQUIRED group x (LIST) { REPEATED BYTE_ARRAY y (UTF8); }".into(),
            vec![levels::<ByteArrayType>(vec![], &[0], &[0])],
            "LIST of UTF8",
        ),
        (
            "REQUIRED group x (LIST) { REPEATED group x_tuple { REQUIRED INT32 y; } }".into(),
            vec![one()],
            "LIST of INT32",
        ),
        ("REPEATED INT32 x;".into(), vec![one()], "repeated INT32"),
        ("OPTIONAL group x { REQUIRED INT32 y; }".into(), vec![levels::<Int32Type>(vec![1], &[1], &[])], "group"),
        (
            "REQUIRED group x (MAP) { REPEATED group key_value { REQUIRED INT32 key; REQUIRED INT32 value; } }".into(),
            vec![one(), one()],
            "MAP",
        ),
        (
            "REQUIRED FIXED_LEN_BYTE_ARRAY (12) x (INTERVAL);".into(),
            vec![required::<FixedLenByteArrayType>([vec![0; 12].into()])],
            "INTERVAL",
        ),
    ] {
        let columns: String = columns;
        let leaves: Vec<Box<dyn Leaf>> = leaves.into_iter().chain([required::<Int32Type>([8])]).collect();
        let bytes = table(&format!("{columns} REQUIRED INT32 last;"), WriterProperties::builder(), &[leaves]);
        let table = open_bytes(bytes, Format::Parquet, &ReadOptions::default()).unwrap();
        let stored: Vec<Stored> = table.columns().iter().map(|column| column.stored.clone()).collect();
        assert_eq!(stored, [Stored::Unsupported(words.into()), Stored::Number]);
        assert_eq!(read(&*table).unwrap().0, [vec![Cell::Missing], vec![Cell::Integer(8)]]);
    }
}

#[test]
fn texts_of_a_dictionary_are_in_memory_once() {
    let long = "x".repeat(1 << 20);
    let rows = (0..2000).map(|_| Some(ByteArray::from(&*long)));
    // the writer would give up a dictionary of this size
    let how = WriterProperties::builder().set_dictionary_page_size_limit(1 << 22);
    let bytes = table("OPTIONAL BYTE_ARRAY x (UTF8);", how, &[vec![optional::<ByteArrayType>(rows)]]);
    assert!(bytes.len() < 3 << 20, "{}", bytes.len());
    let table = open_bytes(bytes, Format::Parquet, &ReadOptions::default()).unwrap();
    table
        .for_each_block(&mut |block| {
            let places = (0..block.len()).map(|row| match block.field(row, 0) {
                Field::Text(text) => (text.as_ptr(), text.len()),
                other => panic!("{other:?}"),
            });
            let places: std::collections::HashSet<_> = places.collect();
            assert_eq!((places.len(), places.iter().next().unwrap().1), (1, 1 << 20));
            Ok(())
        })
        .unwrap();
}

#[test]
fn every_encoding_is_read() {
    let whole = |i: i32| (i % 9 != 0).then_some(i * i);
    for encoding in [Encoding::PLAIN, Encoding::DELTA_BINARY_PACKED, Encoding::BYTE_STREAM_SPLIT] {
        let how = WriterProperties::builder().set_dictionary_enabled(false).set_encoding(encoding);
        let bytes = table("OPTIONAL INT32 x;", how, &[vec![optional::<Int32Type>((0..3000).map(whole))]]);
        let expected = |i| whole(i).map_or(Cell::Missing, |i| Cell::Integer(i.into()));
        assert!(cells_of(bytes, None) == [(0..3000).map(expected).collect::<Vec<_>>()], "{encoding}");
    }
}

#[test]
fn arrows_schema_says_nothing_where_it_does_not_fit() {
    let encoded = std::fs::read_to_string(folder().join("arrow_schema.txt")).unwrap();
    let how = |value: &str| {
        let pair = KeyValue::new("ARROW:schema".into(), value.to_string());
        WriterProperties::builder().set_key_value_metadata(Some(vec![pair]))
    };
    // its first two columns are `whole`, and `span s`, which no other name is
    let columns = "REQUIRED INT64 whole; REQUIRED INT64 span_s; REQUIRED DOUBLE more;";
    for schema in [encoded.trim(), "", "AAAA", "no base64", &encoded[..40]] {
        let leaves = vec![required::<Int64Type>([5]), required::<Int64Type>([5]), required::<DoubleType>([0.5])];
        let seen = cells_of(table(columns, how(schema), &[leaves]), None);
        assert_eq!(seen, [vec![Cell::Integer(5)], vec![Cell::Integer(5)], vec![Cell::Number(0.5f64.to_bits())]]);
    }
}

#[test]
fn text_that_is_not_utf8_is_damage_where_the_schema_says_utf8() {
    for (kind, damaged) in [("(UTF8)", true), ("(STRING)", true), ("", false), ("(ENUM)", false)] {
        let rows = [&b"Rome"[..], b"R\xff"].map(|text| Some(ByteArray::from(text)));
        let columns = format!("OPTIONAL BYTE_ARRAY x {kind};");
        let bytes = table(&columns, WriterProperties::builder(), &[vec![optional::<ByteArrayType>(rows)]]);
        let table = open_bytes(bytes, Format::Parquet, &ReadOptions::default()).unwrap();
        match read(&*table) {
            Err(DataError::DamagedParquet { reason: "its row data", .. }) if damaged => {}
            Ok(_) if !damaged => {}
            other => panic!("{kind}: {other:?}"),
        }
    }
}

#[test]
fn a_footer_that_counts_more_rows_than_there_are_is_damage() {
    let rows = (0..40).map(f64::from);
    let bytes = table("REQUIRED DOUBLE x;", WriterProperties::builder(), &[vec![required::<DoubleType>(rows)]]);
    let footer = bytes.len() - u32::from_le_bytes(*bytes[bytes.len() - 8..].first_chunk().unwrap()) as usize - 8;
    // 40 as a number of 64 bits, in zigzag: of the column's values, the row group's rows and the file's; 63 of each
    let mut more = bytes.clone();
    for at in footer..more.len() - 1 {
        if more[at..at + 2] == [0x16, 80] {
            more[at + 1] = 126;
        }
    }
    let table = open_bytes(more, Format::Parquet, &ReadOptions::default()).unwrap();
    assert_eq!(table.count_rows().unwrap(), 63);
    assert!(matches!(read(&*table), Err(DataError::DamagedParquet { reason: "its row data", .. })));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn damaged_files_of_other_programs_are_refused_or_read(
        file in prop::sample::select(vec![
            "types.parquet", "decimals.parquet", "int96_us.parquet", "arrow_types.parquet", "polars.parquet", "lists.parquet",
            "lists_v2.parquet", "lists_item.parquet", "matrix_encodings.parquet", "matrix_encodings_2.parquet",
            "matrix_none_1_dictionary.parquet", "matrix_none_2_plain.parquet", "matrix_snappy_2_dictionary.parquet",
        ]),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = std::fs::read(folder().join(file)).unwrap();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let options = ReadOptions { features: Some(9), ..ReadOptions::default() };
        let error = match open_bytes(bytes, Format::Parquet, &options) {
            Ok(table) => read(&*table).err(),
            Err(error) => Some(error),
        };
        let of_the_file = |error: &DataError| {
            matches!(
                error,
                DataError::DamagedParquet { .. } | DataError::UnreadableParquet { .. } | DataError::DuplicateColumn { .. } | DataError::Empty { .. }
            )
        };
        prop_assert!(error.as_ref().is_none_or(of_the_file), "{error:?}");
    }
}
