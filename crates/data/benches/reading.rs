//! What reading and encoding a table costs: megabytes of the file in a second, for each stage.
//!
//! Prints lines `name value`. `RAYON_NUM_THREADS=1 cargo bench -p dpopt-data --bench reading`; a word after `--` chooses the lines whose name contains it.

use dpopt_data::{BadCells, Encoder, EncoderForm, Field, ReadOptions, Schema, TableReader, field_number, open};
use dpopt_process::thread_count;
use parquet::basic::Compression;
use parquet::data_type::{DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Rows of a table of about 20 MB.
const ROWS: usize = 120_000;
const COLUMNS: usize = 20;
const WORDS: [&str; 8] = ["private", "state", "federal", "none", "without pay", "self-employed", "never", "other"];

/// What stands in a column: numbers of five decimals; or every other column, in turn, declared words and words that are hashed.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Numbers,
    Mixed,
}

/// Numbers from 0 to 2³² that look random.
fn scrambled(i: usize, j: usize) -> u64 {
    let mut x = (i * COLUMNS + j) as u64 + 1;
    for _ in 0..3 {
        x = (x ^ (x >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    x >> 32
}

fn is_number(kind: Kind, j: usize) -> bool {
    kind == Kind::Numbers || j.is_multiple_of(2)
}

fn table(kind: Kind) -> String {
    let mut text = (0..COLUMNS).map(|j| format!("c{j}")).collect::<Vec<_>>().join(",") + ",y\n";
    for i in 0..ROWS {
        for j in 0..COLUMNS {
            let random = scrambled(i, j);
            let written = match is_number(kind, j) {
                true => write!(text, "{:.5},", 6.0 * random as f64 / 4_294_967_296.0 - 3.0),
                false if j % 4 == 1 => write!(text, "{},", WORDS[random as usize % WORDS.len()]),
                false => write!(text, "item-{},", random % 5000),
            };
            written.expect("a string takes everything");
        }
        text.push_str(if scrambled(i, COLUMNS).is_multiple_of(2) { "no\n" } else { "yes\n" });
    }
    text
}

/// The table of numbers as other programs write it: columns of 64-bit numbers that may be missing.
fn write_parquet(path: &Path) -> parquet::errors::Result<()> {
    let columns: String = (0..COLUMNS).map(|j| format!("optional double c{j}; ")).collect();
    let schema = Arc::new(parse_message_type(&format!("message table {{ {columns} optional int64 y; }}"))?);
    let properties = Arc::new(WriterProperties::builder().set_compression(Compression::SNAPPY).build());
    let mut file = SerializedFileWriter::new(std::fs::File::create(path)?, schema, properties)?;
    let mut group = file.next_row_group()?;
    let present = vec![1; ROWS];
    for j in 0..=COLUMNS {
        let random = (0..ROWS).map(|i| scrambled(i, j));
        let mut column = group.next_column()?.expect("a column");
        if j < COLUMNS {
            let values: Vec<f64> = random.map(|x| (6e5 * x as f64 / 4_294_967_296.0).round() / 1e5 - 3.0).collect();
            column.typed::<DoubleType>().write_batch(&values, Some(&present), None)?;
        } else {
            let values: Vec<i64> = random.map(|x| (x % 2) as i64).collect();
            column.typed::<Int64Type>().write_batch(&values, Some(&present), None)?;
        }
        column.close()?;
    }
    group.close()?;
    file.close().map(drop)
}

fn schema(kind: Kind, labels: [&str; 2]) -> Schema {
    let mut bounds = format!("[y]\nlevels = {labels:?}\n");
    for j in 0..COLUMNS {
        bounds += &match is_number(kind, j) {
            true => format!("[c{j}]\nlower = -3\nupper = 3\n"),
            false if j % 4 == 1 => format!("[c{j}]\nlevels = {WORDS:?}\n"),
            false => format!("[c{j}]\nhash = true\n"),
        };
    }
    Schema::from_toml(&bounds).expect("a schema")
}

/// Seconds of work of this thread so far, where the system counts them.
fn worked() -> Option<f64> {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    told.split_whitespace().next()?.parse::<f64>().ok().map(|nanoseconds| nanoseconds * 1e-9)
}

/// Seconds of a round: of work, on the average of rounds of a second, if there is one thread and so nothing to wait for; or else by the clock, the fastest of five.
fn fastest(run: &mut dyn FnMut()) -> f64 {
    run();
    if thread_count() == 1
        && let Some(before) = worked()
    {
        let mut rounds = 0;
        loop {
            run();
            rounds += 1;
            let seconds = worked().map_or(1.0, |now| now - before);
            if seconds >= 1.0 {
                return seconds / f64::from(rounds);
            }
        }
    }
    let seconds = (0..5).map(|_| {
        let begun = Instant::now();
        run();
        begun.elapsed().as_secs_f64()
    });
    seconds.fold(f64::INFINITY, f64::min)
}

fn cells(table: &dyn TableReader, mut see: impl FnMut(Field<'_>)) {
    let columns = table.columns().len();
    table
        .for_each_block(&mut |block| {
            (0..block.len()).for_each(|row| (0..columns).for_each(|column| see(block.field(row, column))));
            Ok(())
        })
        .expect("a table");
}

fn main() {
    // cargo adds a flag of its own
    let only = std::env::args().skip(1).find(|word| !word.starts_with("--"));
    let directory = tempfile::tempdir().expect("a directory");
    for (name, kind) in [("numbers", Kind::Numbers), ("mixed", Kind::Mixed)] {
        let path = directory.path().join(format!("{name}.csv"));
        std::fs::write(&path, table(kind)).expect("room on disk");
        let megabytes = std::fs::metadata(&path).expect("a file").len() as f64 / 1e6;
        let stage = |stage: &str, run: &mut dyn FnMut()| {
            let name = format!("{name}_{stage}");
            if only.as_deref().is_none_or(|only| name.contains(only)) {
                println!("{name}_MB_s {:.0}", megabytes / fastest(run));
            }
        };
        let opened = open(&path, &ReadOptions::default()).expect("a table");
        let table = &*opened;
        stage("file", &mut || drop(black_box(std::fs::read(&path))));
        stage("count", &mut || drop(black_box(table.count_rows())));
        stage("blocks", &mut || {
            let visited = table.for_each_block(&mut |block| {
                black_box(block.first_row());
                Ok(())
            });
            drop(black_box(visited));
        });
        stage("cells", &mut || {
            let mut bytes = 0;
            cells(table, |field| bytes += if let Field::Text(text) = field { text.len() } else { 0 });
            black_box(bytes);
        });
        if kind == Kind::Numbers {
            stage("parsed", &mut || {
                let mut sum = 0.0;
                cells(table, |field| sum += field_number(field).unwrap_or(0.0));
                black_box(sum);
            });
        }
        encoding(schema(kind, ["no", "yes"]), table, &stage);
        if kind == Kind::Numbers {
            // in megabytes of the same table as text
            let path = directory.path().join("numbers.parquet");
            write_parquet(&path).expect("room on disk");
            let opened = open(&path, &ReadOptions::default()).expect("a table");
            let stage = |name: &str, run: &mut dyn FnMut()| stage(&format!("parquet_{name}"), run);
            stage("parsed", &mut || {
                let mut sum = 0.0;
                cells(&*opened, |field| sum += field_number(field).unwrap_or(0.0));
                black_box(sum);
            });
            encoding(schema(kind, ["0", "1"]), &*opened, &stage);
        }
    }
}

fn encoding(schema: Schema, table: &dyn TableReader, stage: &dyn Fn(&str, &mut dyn FnMut())) {
    let mut layout = schema.resolve(table.columns(), Some("y")).expect("a layout");
    for (form, knots, centred) in [("lines", 0, false), ("centred", 0, true), ("splines", 8, false)] {
        layout.form = EncoderForm { knots, centred, ..EncoderForm::default() };
        let encoder = Encoder::new(&layout).expect("an encoder");
        stage(&format!("encoded_{form}"), &mut || {
            let mut rows = 0;
            let done = encoder.encode_public_in_blocks(table, BadCells::Missing, &mut |part| {
                rows += part.rows.len();
                Ok(())
            });
            assert!(done.is_ok() && rows == ROWS);
        });
        stage(&format!("kept_{form}"), &mut || {
            let kept = encoder.encode_public(table, BadCells::Missing).expect("records");
            assert_eq!(kept.rows.len(), ROWS);
        });
    }
}
