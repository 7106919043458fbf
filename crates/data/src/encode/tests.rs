//! Exact numbers of encoded rows, and one table with every kind of column.

use super::block::{Scales, Scratch};
use super::numeric::splines;
use super::*;
use crate::histograms::tests::released_counts;
use crate::{Format, Kind, ReadOptions, Schema, open_bytes};
use dpopt_objective::records::keep_largest;

fn csv(text: &str) -> Box<dyn TableReader> {
    open_bytes(text.as_bytes().to_vec(), Format::Csv, &ReadOptions::default()).unwrap()
}

fn encoder(bounds: &str, table: &dyn TableReader, target: Option<&str>) -> Encoder {
    Encoder::new(&Schema::from_toml(bounds).unwrap().resolve(table.columns(), target).unwrap()).unwrap()
}

/// Features of a row by name, multiplied back by the square root of the number of blocks.
fn named(encoder: &Encoder, rows: &Rows, row: usize, blocks: f64) -> Vec<(String, f64)> {
    let (columns, values) = rows.row(row);
    let name = |c: u32| encoder.feature_name(c as usize).unwrap();
    columns.iter().zip(values).map(|(&c, &v)| (name(c), f64::from(v) * blocks.sqrt())).collect()
}

#[test]
fn the_census_row_of_the_specification() {
    let ranges = [(17.0, 90.0), (0.0, 1.5e6), (1.0, 16.0), (0.0, 99999.0), (0.0, 4356.0), (1.0, 99.0)];
    let row = [39.0, 77516.0, 13.0, 2174.0, 0.0, 40.0];
    // 50-digit arithmetic: ln(77517)/ln(1500001), ln(2175)/ln(100000)
    let unit = [22.0 / 73.0, 0.791665233293944638, 0.8, 0.667491852258131227, 0.0, 39.0 / 98.0];
    for ((&(lower, upper), value), unit) in ranges.iter().zip(row).zip(unit) {
        let mut schema = Schema::default();
        schema.declare("v", Kind::numeric("v", lower, upper).unwrap()).unwrap();
        let table = csv("v\n1\n");
        let layout = schema.resolve(table.columns(), None).unwrap();
        let encoder = Encoder::new(&layout).unwrap();
        let PreparedColumn::Numeric { scale, .. } = &encoder.blocks[0].form else { panic!("numeric") };
        assert!((scale.unit(value) - unit).abs() < 1e-14, "{lower} {upper}: {}", scale.unit(value));
        assert!((scale.value(scale.unit(value)) - value).abs() < 1e-9 * upper);
    }
    let close = |unit: f64, expected: [f64; 5]| {
        let (i, left, right) = splines(unit, 5);
        let mut all = [0.0; 5];
        (all[i as usize], all[i as usize + 1]) = (left, right);
        assert!(all.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-13), "{all:?}");
    };
    close(22.0 / 73.0, [0.0, 58.0 / 73.0, 15.0 / 73.0, 0.0, 0.0]);
    close(0.667491852258131227, [0.0, 0.0, 0.330032590967475, 0.669967409032525, 0.0]);
    close(1.0, [0.0, 0.0, 0.0, 0.0, 1.0]);
}

#[test]
fn one_of_each_kind_with_missing_other_and_unknown_label() {
    let bounds = "[dpopt]\nknots = 5\n[age]\nlower = 0\nupper = 8\n[sex]\nlevels = ['M', 'F', '?']\n[city]\nhash = true\n\
                  [y]\nlevels = ['no', 'yes']\n";
    let table = csv("age,sex,city,y\n3,M,Rome,no\n?, ?,,yes\n99,X,Rome,yes\n1,F,Bern,maybe\n2,NA,Rome,\n");
    let encoder = encoder(bounds, &*table, Some("y"));
    assert_eq!(encoder.dimension(), 1 + 8 + 5 + 4097);
    assert_eq!(encoder.max_nonzeros(), 1 + 5 + 1 + 1);
    let Examples { rows, targets } = encoder.encode_public(&*table, BadCells::Error).unwrap();
    assert_eq!(targets, &[-1.0, 1.0, 1.0, 0.0, 0.0]);
    let first = named(&encoder, &rows, 0, 4.0);
    // 3 of 0..8 is u = 3/8: the line (5/8, 3/8), half way between the knots 2 and 4; the block has norm 1
    let norm = (25.0f64 / 64.0 + 9.0 / 64.0 + 0.5).sqrt();
    let age = [("age:low", 0.625), ("age:high", 0.375), ("age@2", 0.5), ("age@4", 0.5)];
    let age = age.map(|(name, value)| (name, value / norm));
    let expected = [("(intercept)", 1.0), age[0], age[1], age[2], age[3], ("sex=M", 1.0)];
    assert!(first.iter().zip(expected).all(|(a, b)| a.0 == b.0 && (a.1 - b.1).abs() < 1e-6), "{first:?}");
    assert!(first[6].0.starts_with("city#") && first.len() == 7);
    let second = named(&encoder, &rows, 1, 4.0);
    let names: Vec<&str> = second.iter().map(|f| f.0.as_str()).collect();
    // "?" is a level of sex and a missing marker elsewhere
    assert_eq!(names, ["(intercept)", "age:low", "age:high", "age@4", "age=(missing)", "sex=?", "city=(missing)"]);
    let expected = [1.0, 0.1f64.sqrt(), 0.1f64.sqrt(), 0.4f64.sqrt(), 0.4f64.sqrt(), 1.0, 1.0];
    assert!(second.iter().zip(expected).all(|(f, e)| (f.1 - e).abs() < 1e-6), "{second:?}");
    let third = named(&encoder, &rows, 2, 4.0);
    let names: Vec<&str> = third.iter().take(4).map(|f| f.0.as_str()).collect();
    assert_eq!(names, ["(intercept)", "age:high", "age@8", "sex=(other)"]);
    assert_eq!(third[4].0, first[6].0);
    assert!(rows.row(3).0.is_empty() && rows.row(4).0.is_empty());
}

/// Counts, words and vector of a text with their shares of its norm, by hand; and a model file without the vectors.
#[test]
fn a_text_with_public_vectors() {
    use crate::{VectorsFile, WordVectors};
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("v.txt");
    std::fs::write(&path, "the 1 0 2\nof 0 2 1\ncat 0 1 3\ndog 1 1 3\n").unwrap();
    let declared_form = "[dpopt]\ntext_bits = 10\ncounts_share = 0.25\nvectors_share = 0.5\n[t]\ntext = true\n";
    let mut schema = Schema::from_toml(&declared_form.replace("vectors_share = 0.5\n", "")).unwrap();
    schema.form.vectors_share = Some(0.5);
    schema.vectors = Some(VectorsFile::new(&path));
    let table = csv("t\nA cat! the cat\nnothing known\n\n");
    let encoder = Encoder::new(&schema.resolve(table.columns(), None).unwrap()).unwrap();
    assert_eq!((encoder.dimension(), encoder.max_nonzeros()), (1 + 12 + 1024 + 3, 1 + 12 + 512 + 3));
    let rows = encoder.encode_features(&*table, BadCells::Error).unwrap();
    // an intercept and a text, which is worth three columns
    let row = named(&encoder, &rows, 0, 4.0);
    let norm = |part: &dyn Fn(&str) -> bool| row.iter().filter(|f| part(&f.0)).map(|f| f.1 * f.1).sum::<f64>();
    assert!((norm(&|name| name.contains("vector[")) - 3.0 * 0.5).abs() < 1e-6, "{row:?}");
    assert!((norm(&|name| name.contains('#')) - 3.0 * 0.25).abs() < 1e-6, "{row:?}");
    let value = |name: &str| row.iter().find(|f| f.0 == name).map_or(0.0, |f| f.1);
    let each = (3.0 * 0.25 / 12f64).sqrt();
    let marks = 2.0 * libm::log1p(1.0) / libm::log1p(10.0) * each;
    assert!((value("t:exclamation marks") - marks).abs() < 1e-6, "{row:?}");
    let words = (2.0 * libm::log1p(4.0) / libm::log1p(200.0) - 1.0) * each;
    assert!((value("t:words") - words).abs() < 1e-6 && value("t:links") == 0.0, "{row:?}");
    // a: 1, cat twice: 2, the: 1; square roots, together of norm 1
    let largest = row.iter().filter(|f| f.0.contains('#')).map(|f| f.1).fold(0.0, f64::max);
    assert!((largest - (0.5 * 3.0 * 0.25f64).sqrt()).abs() < 1e-6, "{row:?}");
    // no word with a vector, no text at all
    for row in 1..3 {
        let (columns, values) = rows.row(row);
        assert!(columns.iter().all(|c| *c < 1 + 12 + 1024));
        assert!(values.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>() <= 1.0);
    }
    let text = serde_json::to_string(&encoder).unwrap();
    assert!(
        text.contains("v.txt") && !text.contains(directory.path().to_str().unwrap()) && !text.contains("cat"),
        "{text}"
    );
    let stored: Encoder = serde_json::from_str(&text).unwrap();
    let message = stored.encode_features(&*table, BadCells::Error).unwrap_err().to_string();
    assert!(message.contains("v.txt") && message.contains("v.txt"), "{message}");
    let same = std::sync::Arc::new(WordVectors::open(&path).unwrap());
    let again = stored.clone().with_vectors(same.clone()).unwrap();
    assert_eq!(again.encode_features(&*table, BadCells::Error).unwrap(), rows);
    let others = WordVectors::from_bytes("v.txt", b"the 1 0 2\nof 0 2 1\ncat 0 1 3\ndog 1 1 4\n".to_vec()).unwrap();
    let message = stored.with_vectors(std::sync::Arc::new(others)).unwrap_err().to_string();
    assert!(message.contains("are others"), "{message}");
    for (from, to) in
        [("\"counts\":0.25", "\"counts\":0.75"), ("\"bits\":10", "\"bits\":23"), ("\"version\":5", "\"version\":2")]
    {
        assert!(text.contains(from), "{text}");
        assert!(serde_json::from_str::<Encoder>(&text.replace(from, to)).is_err(), "{to}");
    }
    // a column of numbers that is spread beside it: the vectors stay
    let numbers = csv("t,v\nthe cat,1\n");
    let mut both = Schema::from_toml(&format!(
        "{}[v]\nlower = 0\nupper = 2\n",
        declared_form.replace("vectors_share = 0.5\n", "")
    ))
    .unwrap();
    both.vectors = schema.vectors.clone();
    let both = Encoder::new(&both.resolve(numbers.columns(), None).unwrap()).unwrap();
    let counts = vec![0.0; both.histograms().dimension()];
    let spread = both.spread(&counts, 1.0, false).unwrap();
    assert!(spread.encode_features(&*numbers, BadCells::Error).is_ok());
    let plain = self::encoder("[t]\ntext = true\n", &*table, None);
    assert!(matches!(plain.with_vectors(same), Err(DataError::VectorsNotNeeded)));
    let schema = Schema { vectors: schema.vectors, ..Schema::from_toml("[t]\nhash = true\n").unwrap() };
    assert!(matches!(schema.resolve(table.columns(), None), Err(DataError::VectorsWithoutText)));
}

#[test]
fn directions_of_texts_have_all_shares_and_moments_of_the_norm() {
    let table = csv("t\nx\n");
    for replacement in
        ["", "counts_share = 0\n", "text_bits = 0\ncounts_share = 0.3\n", "text_bits = 22\ncounts_share = 0.9\n"]
    {
        let bounds = "[dpopt]\ncounts_share = 0.2\ncentred = true\n[t]\ntext = true\n".to_string();
        let bounds = if replacement.is_empty() { bounds } else { bounds.replace("counts_share = 0.2\n", replacement) };
        let directions = encoder(&bounds, &*table, None).directions().unwrap();
        let shares = directions.missed + directions.all.iter().map(|d| d.count * d.share).sum::<f64>();
        // what is left belongs to what columns have together, and a table of one column has nothing of that
        assert!((shares - 0.1 - 8.0 * 0.75).abs() < 1e-9, "{replacement}: {shares}");
        let moments: f64 = directions.all.iter().map(|d| d.count * d.moment).sum();
        assert!(moments > 0.5 && moments < 1.0 + 1e-9, "{replacement}: {moments}");
    }
    assert!(encoder("[t]\ntext = true\n", &*table, None).directions().is_none());
}

#[test]
fn encoding_one_record_does_not_depend_on_the_others() {
    let pairs = "[dpopt]\nknots = 8\nfine_knots = 32\ncentred = true\npairs = 'all'\n";
    let column = "[a]\nlower = 0\nupper = 1\n";
    let many: String = (0..9000).map(|i| format!("{},row {i} says {}\n", f64::from(i) / 9e3, i * 7)).collect();
    let of_two: String =
        (0..9000).map(|i| format!("{},{}\n", f64::from(i) / 9e3, ["x", "y", "", "?"][i as usize % 4])).collect();
    for (bounds, many) in
        [(format!("{column}[t]\ntext = true\n"), many), (format!("{pairs}{column}[t]\nlevels = ['x', 'y']\n"), of_two)]
    {
        let table = csv(&format!("a,t\n{many}"));
        let encoder = encoder(&bounds, &*table, None);
        let all = encoder.encode_features(&*table, BadCells::Error).unwrap();
        for i in [0usize, 2047, 2048, 8999] {
            let alone = csv(&format!("a,t\n{}\n", many.lines().nth(i).unwrap()));
            let alone = encoder.encode_features(&*alone, BadCells::Error).unwrap();
            assert_eq!(alone.row(0), all.row(i));
        }
        let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        assert_eq!(one.install(|| encoder.encode_features(&*table, BadCells::Error).unwrap()), all);
    }
}

/// A null in a column of vectors once left its neighbours' products to other columns, or to a panic.
#[test]
fn every_cell_of_every_column_leaves_one_factor() {
    let bounds = "[dpopt]\npairs = 'all'\n[a]\nlower = 0\nupper = 1\n[l]\nlevels = ['x', 'y']\n[h]\nhash = true\n[t]\ntext = true\n";
    let mut columns = csv("a,l,h,t\n").columns().to_vec();
    columns.insert(0, Column { name: "v".into(), stored: Stored::Sparse(4) });
    let encoder = Encoder::new(&Schema::from_toml(bounds).unwrap().resolve(&columns, None).unwrap()).unwrap();
    assert_eq!((encoder.blocks.len(), encoder.pairs.len()), (5, 1));
    let scales = Scales {
        rules: Rules::ByValue,
        splines: &[8],
        centred: true,
        text_knots: 8,
        pair_knots: 8,
        each: 0.5,
        row_norm: 1.0,
        vectors: None,
    };
    let mut scratch = Scratch::default();
    for block in &encoder.blocks {
        for field in [
            Field::Missing,
            Field::Text(b"x"),
            Field::Number(0.5),
            Field::Integer(1),
            Field::Sparse(&[(1, 2.0)]),
            Field::Malformed("".into()),
        ] {
            scratch.factors.clear();
            block.push(field, &scales, &mut scratch);
            assert_eq!(scratch.factors.len(), 1);
        }
    }
}

#[test]
fn bad_cells_name_column_and_row_and_never_the_value() {
    let bounds = "[age]\nlower = 0\nupper = 8\n[y]\nlower = 0\nupper = 10\n";
    for (text, expected) in [
        ("age,y\n1,1\nsecret,2\n", "column `age`, row 2"),
        ("age,y\n1,1\ninf,2\n", "column `age`, row 2"),
        ("age,y\n1,1\n\"1,5\",2\n", "column `age`, row 2"),
        ("age,y\n1,1\n3,secret\n", "column `y`, row 2"),
        ("age,y\n1,1\nsecret\n", "row 2 has 1 fields"),
        ("age,y\n1,1\n1,2,secret\n", "row 2 has 3 fields"),
    ] {
        let table = csv(text);
        let encoder = encoder(bounds, &*table, Some("y"));
        let message = encoder.encode(&*table, BadCells::Error).err().unwrap().to_string();
        assert!(message.contains(expected) && message.contains("`bad_cells` = missing"), "{message}");
        assert!(!message.contains("secret") && !message.contains('\n'));
        assert_eq!(encoder.encode_public(&*table, BadCells::Missing).unwrap().rows.len(), 2);
    }
}

/// Four rows in several spellings and storage types have one encoding.
#[test]
fn equal_values_encode_alike_whatever_their_spelling() {
    let bounds = "[paid]\nlower = 0\nupper = 2000\n[flag]\nlevels = [0, 1]\n[code]\nhash = true\n[seen]\nlower = 2010-01-01\nupper = 2020-01-01\n\
                  [took]\nlower = 'PT0S'\nupper = 'P1D'\n[y]\nlevels = [false, true]\n";
    let plain = csv(
        "paid,flag,code,seen,took,y\n1234.5,0,7,2011-03-04,PT6H,false\n45,1,0.5,2012-01-01T12:00,PT1H30M,true\n-3,1,x,,,true\n,,,,,\n",
    );
    let encoder = encoder(bounds, &*plain, Some("y"));
    let expected = encoder.encode_public(&*plain, BadCells::Error).unwrap();
    assert_eq!(expected.targets, [-1.0, 1.0, 1.0, 0.0]);
    for text in [
        "paid,flag,code,seen,took,y\n\"$1,234.50\",0.0,7.0,2011-03-04 00:00:00,0 days 06:00:00,False\n45%,1.0,.50,2012-01-01 12:00:00Z,01:30:00,TRUE\n(3),True,x,NaT,None,1\nNaN,nan,#N/A,n/a,<NA>,\n",
        "paid,flag,code,seen,took,y\n1 234.5 €,false,+7,2011-03-04T01:00:00+01:00,PT6H,0\n45.0,true,0.500,2012-01-01T12:00:00.000,PT90M,1.0\n3-,1,x,null,NULL,True\nNone,,NaN,,,N/A\n",
    ] {
        let table = csv(text);
        assert_eq!(encoder.encode_public(&*table, BadCells::Error).unwrap(), expected, "{text}");
    }
    assert!((0..encoder.dimension()).any(|i| encoder.feature_name(i).unwrap().starts_with("seen@2011-")));
    // a code is no number, and a word no label
    let other = csv("paid,flag,code,seen,took,y\n1234.5,00,07,2011-03-04,PT6H,no\n");
    let found = encoder.encode_public(&*other, BadCells::Missing).unwrap();
    assert_eq!(found.targets, [0.0]);
    // nothing of it changes what an encoder of an earlier version reads
    let first = serde_json::to_string(&self::encoder(
        "[paid]\nlower = 0\nupper = 2000\n[code]\nhash = true\n[t]\ntext = true\n",
        &*csv("paid,code,t\n"),
        None,
    ))
    .unwrap();
    let first: Encoder = serde_json::from_str(&first.replace("\"version\":5", "\"version\":1")).unwrap();
    let read = |text: &str| first.encode_features(&*csv(&format!("paid,code,t\n{text}")), BadCells::Missing).unwrap();
    assert_eq!(read("\"1,234\",x,a\nNaN,x,a\n").row(0), read("oops,x,a\n").row(0));
    assert_ne!(read("1,1.0,a\n").row(0), read("1,1,a\n").row(0));
    assert_ne!(read("1,NaN,a\n").row(0), read("1,,a\n").row(0));
    assert_eq!(read("1,1,很好用\n").row(0).0.len(), read("1,1,łóż\n").row(0).0.len());
}

#[test]
fn a_time_is_one_number_whatever_it_is_stored_as() {
    use crate::{Cells, ColumnTable, Ticks, Unit};
    let column = |per_day: i64| {
        let ticks = Ticks { per_day, unit: Unit::Date };
        let values = [14_610 * per_day, 18_000 * per_day, 0].to_vec();
        ColumnTable::new("t", vec![("seen".into(), Cells::Times(values, ticks, vec![2]))], &["seen"]).unwrap()
    };
    let text = csv("seen\n2010-01-01\n2019-04-14\n\n");
    let dates = "[seen]\nlower = 2010-01-01\nupper = 2020-01-01\n";
    let encoder = encoder(dates, &*text, None);
    let expected = encoder.encode_features(&*text, BadCells::Error).unwrap();
    for per_day in [1, 86_400, 86_400_000, 86_400_000_000, 86_400_000_000_000] {
        let table = column(per_day);
        assert_eq!(encoder.encode_features(&table, BadCells::Error).unwrap(), expected, "{per_day}");
        // plain numbers as bounds are ticks, and the encoder keeps days
        let bounds = format!("[seen]\nlower = {}\nupper = {}\n", 14_610 * per_day, 18_262 * per_day);
        let own = self::encoder(&bounds, &table, None);
        assert_eq!(serde_json::to_string(&own).unwrap(), serde_json::to_string(&encoder).unwrap(), "{per_day}");
    }
    let numbers = ColumnTable::new("t", vec![("seen".into(), Cells::Integers(vec![14_610], vec![]))], &[]).unwrap();
    let message = encoder.encode_features(&numbers, BadCells::Missing).unwrap_err().to_string();
    assert!(message.contains("`seen`") && message.contains("dates"), "{message}");
    let message = Schema::from_toml(dates).unwrap().resolve(numbers.columns(), None).unwrap_err().to_string();
    assert!(message.contains("its bounds are dates and it holds numbers"), "{message}");
    let span = Schema::from_toml("[seen]\nlower = 'P1D'\nupper = 'P9D'\n").unwrap();
    assert!(span.resolve(column(1).columns(), None).is_err());
    let message = Schema::from_toml("[seen]\nlower = 2010-01-01\nupper = 5\n").unwrap_err().to_string();
    assert!(message.contains("not of one kind"), "{message}");
    let schema = Schema::from_toml(
        "[seen]\nlower = 2010-01-01T06:00:00\nupper = 2020-01-01\n[took]\nlower = '-P1D'\nupper = 'PT12H'\n",
    )
    .unwrap();
    assert_eq!(Schema::from_toml(&schema.to_toml()).unwrap(), schema, "{}", schema.to_toml());
}

#[test]
fn number_targets_are_clipped_scaled_and_brought_back() {
    let table = csv("x,y\n1,0\n1,10\n1,2.5\n1,99\n1,\n");
    let encoder = encoder("[x]\nlower = 0\nupper = 1\n[y]\nlower = 0\nupper = 10\n", &*table, Some("y"));
    let examples = encoder.encode_public(&*table, BadCells::Error).unwrap();
    assert_eq!(examples.targets, [-1.0, 1.0, -0.5, 1.0, 0.0]);
    assert!(examples.rows.row(4).0.is_empty());
    assert_eq!(encoder.target().unwrap().1.unscale(-0.5), 2.5);
}

#[test]
fn libsvm_rows_stay_as_they_are_unless_too_long() {
    let options = ReadOptions { features: Some(4), ..ReadOptions::default() };
    let text = b"1 1:0.5 3:0.25\n-1 4:3 2:4\n1 1:1 1:-1\n7 1:1\n".to_vec();
    let table = open_bytes(text, Format::Libsvm, &options).unwrap();
    let mut schema = Schema::default();
    schema.set_levels("label", vec!["-1".into(), "1".into()]).unwrap();
    let encoder = Encoder::new(&schema.resolve(table.columns(), Some("label")).unwrap()).unwrap();
    assert_eq!((encoder.dimension(), encoder.max_nonzeros(), encoder.has_intercept()), (4, 4, false));
    let Examples { rows, targets } = encoder.encode_public(&*table, BadCells::Error).unwrap();
    assert_eq!(targets, &[1.0, -1.0, 1.0, 0.0]);
    assert_eq!(rows.row(0), (&[0u32, 2][..], &[0.5f32, 0.25][..]));
    let (columns, values) = rows.row(1);
    assert_eq!(columns, [1, 3]);
    assert!((values[0] - 0.8).abs() < 1e-6 && (values[1] - 0.6).abs() < 1e-6);
    assert!(rows.row(2).0.is_empty() && rows.row(3).0.is_empty());
    let mut scaled = schema.clone();
    scaled.options.scale_rows = true;
    let encoder = Encoder::new(&scaled.resolve(table.columns(), Some("label")).unwrap()).unwrap();
    let examples = encoder.encode_public(&*table, BadCells::Error).unwrap();
    let norm: f64 = examples.rows.row(0).1.iter().map(|v| f64::from(*v).powi(2)).sum();
    assert!(norm <= 1.0 && norm > 1.0 - 1e-6);
    // one entry a row: the largest, scaled after that
    scaled.options.max_nonzeros = Some(1);
    let encoder = Encoder::new(&scaled.resolve(table.columns(), Some("label")).unwrap()).unwrap();
    assert_eq!(encoder.max_nonzeros(), 1);
    let rows = encoder.encode_public(&*table, BadCells::Error).unwrap().rows;
    assert_eq!([0, 1].map(|i| rows.row(i).0.to_vec()), [vec![0], vec![1]]);
    assert!((rows.row(0).1[0] - 1.0).abs() < 1e-6);
    let again: Encoder = serde_json::from_str(&serde_json::to_string(&encoder).unwrap()).unwrap();
    assert_eq!(again.encode_public(&*table, BadCells::Error).unwrap().rows, rows);
    scaled.options.max_nonzeros = Some(0);
    assert!(scaled.resolve(table.columns(), Some("label")).and_then(|layout| Encoder::new(&layout)).is_err());
}

#[test]
fn the_largest_entries_of_a_row_are_kept() {
    let kept = |entries: &[(u32, f32)], start, most| {
        let mut entries = entries.to_vec();
        keep_largest(&mut entries, start, most);
        entries
    };
    let row = [(9, 5.0), (0, 1.0), (4, -3.0), (2, f32::NAN), (7, 3.0), (1, f32::INFINITY)];
    assert_eq!(kept(&row, 0, 6).len(), 6);
    assert_eq!(kept(&row, 1, 2), [(9, 5.0), (4, -3.0), (7, 3.0)]);
    assert_eq!(kept(&row, 1, 1), [(9, 5.0), (4, -3.0)]);
    assert_eq!(kept(&[], 0, 3), []);
}

#[test]
fn json_round_trip_encodes_identically_and_refuses_what_it_does_not_know() {
    let bounds = "[age]\nlower = 0.1\nupper = 8\n[sex]\nlevels = ['M', 'F']\n[city]\nhash = true\n[t]\ntext = true\n\
                  [y]\nlevels = ['no', 'yes', 'so']\n";
    let table = csv("age,sex,city,t,y\n3,M,Rome,hello there,no\n5,F,Bern,call 12345 now!,so\n");
    let original = encoder(bounds, &*table, Some("y"));
    let json = serde_json::to_string(&original).unwrap();
    let back: Encoder = serde_json::from_str(&json).unwrap();
    let (a, b) = (original.encode_public(&*table, BadCells::Error), back.encode_public(&*table, BadCells::Error));
    assert_eq!(a.unwrap(), b.unwrap());
    assert_eq!(serde_json::to_string(&back).unwrap(), json);
    for (from, to) in [
        ("\"version\":5", "\"version\":6"),
        ("\"knots\":8", "\"knots\":8,\"extra\":1"),
        ("\"knots\":8", "\"knots\":1"),
        ("\"lower\":0.1", "\"lower\":9.0"),
        ("\"bits\":12", "\"bits\":0"),
        ("\"bits\":12", "\"bits\":64"),
        ("\"column\":\"sex\"", "\"column\":\"age\""),
        ("[\"M\",\"F\"]", "[\"M\",\"M\"]"),
        ("[\"no\",\"yes\",\"so\"]", "[\"no\"]"),
        ("\"row_norm\":1.0", "\"row_norm\":-1.0"),
    ] {
        assert!(json.contains(from), "{from} not in {json}");
        assert!(serde_json::from_str::<Encoder>(&json.replacen(from, to, 1)).is_err(), "{to}");
    }
}

#[test]
fn a_spread_encoder_is_stored_and_encodes_by_the_shares_of_values() {
    // nine of ten values in the lowest hundredth of the range
    let text: String =
        (0..1000).map(|i| format!("{}\n", if i % 10 == 0 { i } else { i % 100 } as f64 / 10.0)).collect();
    let text = format!("v\n{text}");
    let table = csv(&text);
    let encoder = encoder(
        "[v]\nlower = 0\nupper = 1000\ntransform = 'linear'\n[dpopt]\nknots = 0\ncentred = true\n",
        &*table,
        None,
    );
    let shape = encoder.histograms();
    assert_eq!((shape.columns, shape.dimension()), (1, 584));
    let counts: Vec<f64> =
        released_counts(&encoder, &text, BadCells::Error).unwrap().into_iter().map(|count| count as f64).collect();
    let plain = encoder.clone();
    let encoder = encoder.spread(&counts, 1.0, false).unwrap();
    assert_eq!(encoder.dimension(), plain.dimension());
    let line = |encoder: &Encoder, value: &str| {
        let rows = encoder.encode_features(&*csv(&format!("v\n{value}\n")), BadCells::Error).unwrap();
        let row = rows.row(0);
        row.1[1] / row.1[0]
    };
    // 5 is at a two-hundredth of the range, and .451 of the values are below it: with a twentieth of the plain scale .4287
    assert!(line(&plain, "5") < -0.98 && (line(&encoder, "5") + 0.1426).abs() < 0.02, "{}", line(&encoder, "5"));
    assert!(line(&encoder, "0") == -1.0 && line(&encoder, "1000") == 1.0);
    let json = serde_json::to_string(&encoder).unwrap();
    let back: Encoder = serde_json::from_str(&json).unwrap();
    assert_eq!(
        back.encode_features(&*table, BadCells::Error).unwrap(),
        encoder.encode_features(&*table, BadCells::Error).unwrap()
    );
    for (from, to) in [
        ("\"version\":5", "\"version\":2"),
        ("\"spread\":true", "\"spread\":false"),
        ("\"spread\":[[0.0,0.0]", "\"spread\":[[0.0,0.5]"),
    ] {
        assert!(json.contains(from), "{from} not in {json}");
        assert!(serde_json::from_str::<Encoder>(&json.replacen(from, to, 1)).is_err(), "{to}");
    }
}

#[test]
fn weighed_pairs_share_the_norm_by_what_weights_say_of_them() {
    let names: Vec<String> = (0..6).map(|c| format!("x{c}")).collect();
    let table = csv(&format!("{}\n1,1,0,2,1,0\n", names.join(",")));
    let declared: String = names.iter().map(|n| format!("[{n}]\nlower = 0\nupper = 2\n")).collect();
    let form = "[dpopt]\nknots = 0\ncentred = true\npairs = 'private'\npair_knots = 2\npair_share = 0.5\n";
    let encoder = encoder(&format!("{form}{declared}"), &*table, None);
    assert_eq!(encoder.dimension(), 1 + 6 * 2 + 15 * 4);
    // two outputs, each of which finds a pair: a difference of differences, the second twice as strong; the other pairs little
    let mut weights = vec![0.0; 2 * encoder.dimension()];
    let dimension = encoder.dimension();
    for (output, first, second, size) in [(0, "x0", "x3", 1.0), (1, "x2", "x4", 2.0)] {
        for at in 0..dimension {
            let name = encoder.feature_name(at).unwrap();
            if let Some((a, b)) = name.split_once(" & ")
                && a.starts_with(first)
                && b.starts_with(second)
            {
                weights[output * dimension + at] = if a.ends_with("@2") == b.ends_with("@2") { size } else { -size };
            } else if name.contains(" & ") {
                // what one column does alone is no strength of a pair
                weights[output * dimension + at] = if name.contains("@2 &") { 5.0 } else { 0.0 };
            }
        }
    }
    let before = encoder.directions().unwrap();
    let weighed = encoder.clone().weigh_pairs(&weights).unwrap();
    assert_eq!(weighed.dimension(), 1 + 6 * 2 + 2 * 4);
    let rows = weighed.encode_features(&*csv("x0,x1,x2,x3,x4,x5\n0,0,0,0,0,0\n"), BadCells::Error).unwrap();
    let row = named(&weighed, &rows, 0, 1.0);
    let square = |name: &str| row.iter().find(|f| f.0 == name).map_or(0.0, |f| f.1 * f.1);
    // strengths 1 and 4 of fifteen, mean 1/3: 3.1 to 12.1, of a half of the norm
    let (small, large) = (square("x0@0 & x3@0"), square("x2@0 & x4@0"));
    assert!((large / small - 12.1 / 3.1).abs() < 1e-4 && (small + large - 0.5).abs() < 1e-4, "{row:?}");
    let whole: f64 = row.iter().map(|f| f.1 * f.1).sum();
    assert!((whole - 1.0).abs() < 1e-5);
    let json = serde_json::to_string(&weighed).unwrap();
    let back: Encoder = serde_json::from_str(&json).unwrap();
    assert_eq!(
        back.encode_features(&*table, BadCells::Error).unwrap(),
        weighed.encode_features(&*table, BadCells::Error).unwrap()
    );
    let weight = json.split("\"weights\":[").nth(1).unwrap().split(',').next().unwrap().to_string();
    for (from, to) in [
        ("\"version\":5".to_string(), "\"version\":3".to_string()),
        (format!("\"weights\":[{weight},"), "\"weights\":[0.0,".into()),
        (format!("\"weights\":[{weight},"), "\"weights\":[".into()),
        (format!("\"weights\":[{weight},"), "\"weights\":[1e308,1e308,".into()),
    ] {
        assert!(json.contains(&from), "{from} not in {json}");
        assert!(serde_json::from_str::<Encoder>(&json.replacen(&from, &to, 1)).is_err(), "{to}");
    }
    // nothing stands out: all stay as they are
    let same = encoder.clone().weigh_pairs(&vec![0.0; 2 * dimension]).unwrap();
    assert_eq!(serde_json::to_string(&same).unwrap(), serde_json::to_string(&encoder).unwrap());
    let plain = self::encoder(&declared, &*table, None);
    assert!(plain.clone().weigh_pairs(&vec![0.0; plain.dimension()]).is_err());
    // what can be expected afterwards: the same norm and variance, more of either in the same place
    let after = encoder.directions_after_weighing().unwrap();
    let sum = |found: &dpopt_objective::records::Directions, of: &dyn Fn(f64, f64) -> f64| {
        found.all.iter().map(|d| d.count * of(d.moment, d.share)).sum::<f64>()
    };
    assert!((sum(&before, &|m, _| m) - sum(&after, &|m, _| m)).abs() < 1e-9);
    assert!((sum(&before, &|_, s| s) - sum(&after, &|_, s| s)).abs() < 1e-9);
    assert!(sum(&after, &|m, s| m * s) > sum(&before, &|m, s| m * s) + 1e-6);
}

#[test]
fn missing_columns_at_prediction_time_get_the_nearest_name() {
    let table = csv("age,y\n3,no\n");
    let encoder = encoder("[age]\nlower = 0\nupper = 8\n[y]\nlevels = ['no', 'yes']\n", &*table, Some("y"));
    assert_eq!(encoder.encode_features(&*csv("age\n3\n"), BadCells::Error).unwrap().len(), 1);
    let message = encoder.encode_features(&*csv("Age,y\n3,no\n"), BadCells::Error).unwrap_err().to_string();
    assert!(message.contains("did you mean `Age`?"), "{message}");
    assert!(matches!(encoder.encode(&*csv("age,y\n"), BadCells::Error), Err(DataError::NoRows { .. })));
}

#[test]
fn every_feature_has_a_name_of_its_own() {
    let bounds = "[dpopt]\ntext_bits = 8\nhash_bits = 6\n[age]\nlower = 0\nupper = 80000\n[sex]\nlevels = ['M', 'F']\n\
                  [city]\nhash = true\n[t]\ntext = true\n";
    let table = csv("age,sex,city,t\n");
    let encoder = encoder(bounds, &*table, None);
    let names: std::collections::BTreeSet<String> =
        (0..encoder.dimension()).map(|i| encoder.feature_name(i).unwrap()).collect();
    assert_eq!(names.len(), encoder.dimension());
    assert_eq!(encoder.feature_name(encoder.dimension()), None);
}

#[test]
fn centred_rows_have_their_norm_and_products_are_of_both_columns() {
    let bounds = "[dpopt]\nknots = 0\ncentred = true\npairs = [['age', 'sex']]\npair_knots = 3\npair_share = 0.5\n\
                  [age]\nlower = 0\nupper = 8\n[sex]\nlevels = ['M', 'F']\n[hours]\nlower = 0\nupper = 10\n";
    let table = csv("age,sex,hours\n3,M,5\n?,F,10\n8,X,0\n");
    let encoder = encoder(bounds, &*table, None);
    // the line and "missing" of two numbers, two levels with other and missing; three B-splines times two levels and any other
    assert_eq!(encoder.dimension(), 1 + 2 + 4 + 2 + 3 * 3);
    let rows = encoder.encode_features(&*table, BadCells::Error).unwrap();
    let row = |i: usize| -> Vec<(String, f64)> {
        let (columns, values) = rows.row(i);
        let name = |c: &u32| encoder.feature_name(*c as usize).unwrap();
        columns.iter().map(name).zip(values.iter().map(|v| f64::from(*v))).collect()
    };
    for i in 0..3 {
        let norm: f64 = row(i).iter().map(|e| e.1 * e.1).sum();
        assert!(norm <= 1.0 && norm > 1.0 - 1e-6, "{norm}");
    }
    // u = 3/8: 2u − 1 = −1/4, sex is ±(1, −1)/√2, hours in the middle is 0; B-splines ¾ and ¼ between 0 and 4, of norm √10/4, times M
    let (half, splines) = (0.5f64.sqrt(), 10f64.sqrt() / 4.0);
    let each = 0.125f64.sqrt(); // half of the norm for an intercept and three columns
    let expected = [
        ("(intercept)", each),
        ("age:line", -0.25 * each),
        ("sex=M", half * each),
        ("sex=F", -half * each),
        ("age@0 & sex=M", 0.25 / splines * half),
        ("age@4 & sex=M", 0.75 / splines * half),
    ];
    let norm = expected.iter().map(|e| e.1 * e.1).sum::<f64>().sqrt();
    let first = row(0);
    assert_eq!(first.len(), expected.len(), "{first:?}");
    assert!(first.iter().zip(expected).all(|(a, b)| a.0 == b.0 && (a.1 - b.1 / norm).abs() < 1e-6), "{first:?}");
    // a missing number has no product, and another value is one more level
    assert!(row(1).iter().all(|e| !e.0.contains('&')), "{:?}", row(1));
    assert!(row(2).iter().any(|e| e.0 == "age@8 & sex=(other)"), "{:?}", row(2));
    let most = (0..3).map(|i| rows.row(i).0.len()).max().unwrap();
    assert!(most <= encoder.max_nonzeros() && encoder.max_nonzeros() == 1 + 2 + 2 + 2 + 2);
    let json = serde_json::to_string(&encoder).unwrap();
    let back: Encoder = serde_json::from_str(&json).unwrap();
    assert_eq!(back.encode_features(&*table, BadCells::Error).unwrap(), rows);
    for (from, to) in [
        ("\"version\":5", "\"version\":1"),
        ("\"version\":5", "\"version\":6"),
        ("[[0,1]]", "[[0,9]]"),
        ("[[0,1]]", "[[1,1]]"),
        ("[[0,1]]", "[[0,1],[1,0]]"),
        ("[[0,1]]", "[]"),
        ("\"share\":0.5", "\"share\":1.0"),
        ("\"knots\":3", "\"knots\":17"),
    ] {
        assert!(json.contains(from), "{from} not in {json}");
        assert!(serde_json::from_str::<Encoder>(&json.replacen(from, to, 1)).is_err(), "{to}");
    }
}

#[test]
fn features_of_every_form_have_names_of_their_own_and_directions_hold_the_whole_norm_and_variance() {
    let columns = "[age]\nlower = 0\nupper = 80000\n[sex]\nlevels = ['M', 'F']\n[job]\nlevels = ['a', 'b', 'c', 'd', 'e']\n\
                   [x]\nlower = -1\nupper = 1\n";
    let table = csv("age,sex,job,x\n");
    for knots in [0, 4, 8] {
        for (fine, centred, pairs) in [(0, true, "none"), (32, true, "all"), (32, false, "none"), (0, false, "all")] {
            let form =
                format!("[dpopt]\nknots = {knots}\nfine_knots = {fine}\ncentred = {centred}\npairs = '{pairs}'\n");
            let encoder = encoder(&(form + columns), &*table, None);
            let names: std::collections::BTreeSet<String> =
                (0..encoder.dimension()).map(|i| encoder.feature_name(i).unwrap()).collect();
            assert_eq!(names.len(), encoder.dimension());
            let found = encoder.directions().unwrap();
            let moments: f64 = found.all.iter().map(|d| d.count * d.moment).sum();
            let shares: f64 = found.all.iter().map(|d| d.count * d.share).sum::<f64>() + found.missed;
            // a finite number of waves holds nearly all of a function of linear B-splines
            assert!(moments <= 1.0 + 1e-9 && moments > 0.8, "{knots} {fine} {centred} {pairs}: {moments}");
            assert!((shares - 1.0).abs() < 1e-9, "{shares}");
        }
    }
    let words = csv("t\n");
    assert!(encoder("[t]\ntext = true\n", &*words, None).directions().is_none());
}

#[test]
fn what_is_expected_of_a_hashed_column_does_not_depend_on_its_slots_where_these_are_enough() {
    let table = csv("city\n");
    let found = |bits: u32| {
        let bounds = format!("[dpopt]\nhash_bits = {bits}\n[city]\nhash = true\n");
        let directions = encoder(&bounds, &*table, None).directions().unwrap();
        directions.all.iter().map(|d| (d.count, d.moment, d.share)).collect::<Vec<_>>()
    };
    let [few, enough, many] = [4, 6, 16].map(found);
    assert_eq!(enough, many);
    assert!(few.len() < enough.len());
}
