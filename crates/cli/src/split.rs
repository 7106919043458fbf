//! `dpopt split`: a random partition of a text table's rows into two files. A plain tool without a privacy claim.
//! What is a row is what the readers say.

use crate::flags::separator;
use crate::output::{Failure, print};
use crate::paths::Paths;
use crate::usage;
use crate::written::Written;
use clap::Args;
use dpopt::data::failure;
use dpopt::data::{Format, RawTable, ReadOptions, raw_rows};
use dpopt::noise::{NoiseSource, Purpose};
use dpopt::output::{Packed, Places};
use dpopt_privacy::Shown;
use std::io::Write;
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct SplitArguments {
    /// CSV, TSV or LIBSVM file, also gzipped
    data: PathBuf,
    /// Share of the rows in the first file
    #[arg(long, default_value_t = 0.8, allow_negative_numbers = true)]
    fraction: f64,
    /// Seed of the split: equal seeds give equal splits
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// csv, tsv or libsvm; by default from the file's name
    #[arg(long)]
    format: Option<String>,
    /// The first line is a record, not a header (as always in LIBSVM)
    #[arg(long)]
    no_header: bool,
    /// Double quotes are plain text (as always in TSV)
    #[arg(long)]
    no_quoting: bool,
    /// A line break inside quotes does not end a row
    #[arg(long, conflicts_with = "no_quoting")]
    quoted_newlines: bool,
    /// Character between the fields; by default a comma (csv) or a tab (tsv). Quotes are recognized at the start of a
    /// field only
    #[arg(long, value_name = "CHAR", value_parser = separator)]
    separator: Option<u8>,
    /// Two files to write, gzipped where their names end in .gz
    #[arg(short, long, num_args = 2, value_names = ["TRAIN", "TEST"], required = true)]
    output: Vec<PathBuf>,
}

pub(crate) fn run(arguments: &SplitArguments) -> Result<(), Failure> {
    if !(arguments.fraction > 0.0 && arguments.fraction < 1.0) {
        return Err(usage(format!(
            "--fraction is {}; give a number between 0 and 1, for example 0.8",
            Shown(arguments.fraction)
        )));
    }
    let [train, test] = &arguments.output[..] else {
        return Err(usage("give two files after -o"));
    };
    Paths::default()
        .written("TRAIN", Some(train))
        .written("TEST", Some(test))
        .data(std::slice::from_ref(&arguments.data))
        .check()?;
    let options = ReadOptions {
        format: arguments.format.as_deref().map(str::parse::<Format>).transpose().map_err(usage)?,
        header: !arguments.no_header,
        quoting: arguments.no_quoting.then_some(false),
        separator: arguments.separator,
        quoted_newlines: arguments.quoted_newlines,
        ..ReadOptions::default()
    };
    let format = options.format.map_or_else(|| Format::of_path(&arguments.data), Ok).map_err(usage)?;
    let written = [("TRAIN", train), ("TEST", test)].map(|(role, path)| {
        let written = Written::table(role, path)?;
        // rows are moved as they stand; a name that says nothing is no contradiction
        if written.format != format && Format::of_path(path).is_ok() && options.separator.is_none() {
            return Err(usage(format!(
                "{role} {} has another extension than {}, and rows are copied without conversion; give names with \
                 the same extension",
                path.display(),
                arguments.data.display()
            )));
        }
        Ok(written)
    });
    let [first_written, second_written] = written;
    let (first_written, second_written) = (first_written?, second_written?);
    let table = raw_rows(&arguments.data, &options).map_err(usage)?;
    let in_train = chosen(&table, arguments)?;
    let failed = |e: std::io::Error| {
        Failure::machine(format!("cannot write {} and {}: {}", train.display(), test.display(), failure(&e)))
    };
    // rows are for whoever the table is for
    let mut places = Places::reserve(&[train, test], std::slice::from_ref(&arguments.data)).map_err(failed)?;
    let written = [first_written, second_written];
    let mut files: Vec<_> = places.files().zip(written).map(|(file, written)| written.packed(file)).collect();
    files.iter_mut().try_for_each(|file| file.write_all(&table.header)).map_err(failed)?;
    let mut rows = in_train.iter();
    table.each_row(|row| {
        // rows keep the order they had
        let file = if rows.next() == Some(&true) { 0 } else { 1 };
        files[file].write_all(row).map_err(failed)
    })?;
    files.into_iter().try_for_each(Packed::finish).map_err(failed)?;
    places.finish().map_err(failed)?;
    let count = in_train.iter().filter(|chosen| **chosen).count();
    let rest = in_train.len() - count;
    print(&format!("{count} rows to {}, {rest} rows to {}\n", train.display(), test.display()))
}

/// Which rows go to the first file.
fn chosen(table: &RawTable, arguments: &SplitArguments) -> Result<Vec<bool>, Failure> {
    let rows =
        u32::try_from(table.len()).map_err(|_| usage("the table has more than 4294967295 rows; split it in parts"))?;
    let mut order: Vec<u32> = (0..rows).collect();
    let mut stream = NoiseSource::insecure(arguments.seed).stream(Purpose::Noise, 0);
    for i in (1..order.len()).rev() {
        // Fisher–Yates
        let j = stream.below(i as u64 + 1) as usize;
        order.swap(i, j);
    }
    let first = (arguments.fraction * f64::from(rows)).round() as usize;
    let mut chosen = vec![false; order.len()];
    order[..first].iter().for_each(|row| chosen[*row as usize] = true);
    Ok(chosen)
}
