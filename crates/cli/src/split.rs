//! `dpopt split`: a random partition of a text table's rows into two files. A plain tool without a privacy claim.
//! What is a row follows the readers: quotes hide line breaks in CSV and are plain text in TSV and LIBSVM.

use crate::output::{Failure, print};
use crate::paths::Paths;
use crate::usage;
use clap::Args;
use dpopt::data::Format;
use dpopt::noise::{NoiseSource, Purpose};
use dpopt::output::Places;
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct SplitArguments {
    /// CSV, TSV or LIBSVM file
    data: PathBuf,
    /// Share of the rows that goes to the first file
    #[arg(long, default_value_t = 0.8, allow_negative_numbers = true)]
    fraction: f64,
    /// The same seed gives the same split
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// csv, tsv or libsvm; by default from the file's name
    #[arg(long)]
    format: Option<String>,
    /// The first line is a row, not a header (as always in LIBSVM)
    #[arg(long)]
    no_header: bool,
    /// Double quotes are plain text (as always in TSV)
    #[arg(long)]
    no_quoting: bool,
    /// Two files to write
    #[arg(short, long, num_args = 2, value_names = ["TRAIN", "TEST"], required = true)]
    output: Vec<PathBuf>,
}

pub(crate) fn run(arguments: &SplitArguments) -> Result<(), Failure> {
    if !(arguments.fraction > 0.0 && arguments.fraction < 1.0) {
        return Err(usage(format!("--fraction is {}; give a number between 0 and 1, for example 0.8", arguments.fraction)));
    }
    let [train, test] = &arguments.output[..] else {
        return Err(usage("give two files after -o"));
    };
    Paths::default()
        .written("TRAIN", Some(train))
        .written("TEST", Some(test))
        .data(std::slice::from_ref(&arguments.data))
        .check()?;
    let format = match &arguments.format {
        Some(name) => name.parse(),
        None => Format::of_path(&arguments.data),
    }
    .map_err(|e| usage(e.to_string()))?;
    let bytes = std::fs::read(&arguments.data)
        .map_err(|e| usage(format!("cannot read {}: {}", arguments.data.display(), e.kind())))?;
    if bytes.starts_with(b"\x1f\x8b") || bytes.starts_with(b"PAR1") || format == Format::Parquet {
        return Err(usage("split works on plain CSV or TSV text; unpack or convert the file first"));
    }
    let rows = rows_of(&bytes, format == Format::Csv && !arguments.no_quoting);
    let (header, rows) = match rows.split_first() {
        Some((header, rows)) if !arguments.no_header && format != Format::Libsvm => (*header, rows),
        Some(_) => (&[][..], &rows[..]),
        None => return Err(usage(format!("{} is empty", arguments.data.display()))),
    };
    let mut order: Vec<usize> = (0..rows.len()).collect();
    let mut stream = NoiseSource::insecure(arguments.seed).stream(Purpose::Noise, 0);
    for i in (1..order.len()).rev() {
        // Fisher–Yates
        let j = stream.below(i as u64 + 1) as usize;
        order.swap(i, j);
    }
    let first = (arguments.fraction * rows.len() as f64).round() as usize;
    let (mut chosen, mut rest) = (order[..first].to_vec(), order[first..].to_vec());
    // rows keep the order they had
    chosen.sort_unstable();
    rest.sort_unstable();
    let text = |chosen: &[usize]| {
        let mut out = header.to_vec();
        for &i in chosen {
            if !out.is_empty() && !out.ends_with(b"\n") {
                out.push(b'\n');
            }
            out.extend_from_slice(rows[i]);
        }
        out
    };
    // rows are for whoever the table is for
    Places::reserve(&[train, test], std::slice::from_ref(&arguments.data))
        .and_then(|places| places.write(&[&text(&chosen), &text(&rest)]))
        .map_err(|e| Failure::machine(format!("cannot write {} and {}: {}", train.display(), test.display(), e.kind())))?;
    print(&format!("{} rows to {}, {} rows to {}\n", chosen.len(), train.display(), rest.len(), test.display()))
}

/// Lines with their ends; with `quotes`, a line break inside double quotes does not end a row. Empty lines are dropped.
fn rows_of(bytes: &[u8], quotes: bool) -> Vec<&[u8]> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let (mut rows, mut start, mut quoted) = (Vec::new(), 0, false);
    let push = |row: &[u8], rows: &mut Vec<(usize, usize)>, start: usize| {
        if !row.trim_ascii().is_empty() {
            rows.push((start, start + row.len()));
        }
    };
    for (i, &byte) in bytes.iter().enumerate() {
        match byte {
            b'"' => quoted = quotes && !quoted,
            b'\n' if !quoted => {
                push(&bytes[start..=i], &mut rows, start);
                start = i + 1;
            }
            _ => {}
        }
    }
    push(&bytes[start..], &mut rows, start);
    rows.into_iter().map(|(a, b)| &bytes[a..b]).collect()
}

#[cfg(test)]
mod tests {
    use super::rows_of;

    #[test]
    fn quoted_line_breaks_stay_inside_a_row() {
        let rows = rows_of(b"a,b\n1,\"x\ny\"\n\n2,z", true);
        assert_eq!(rows, [&b"a,b\n"[..], b"1,\"x\ny\"\n", b"2,z"]);
    }

    #[test]
    fn without_quoting_a_stray_quote_joins_nothing() {
        let rows = rows_of(b"ham\tsaid \"hi\nspam\twin\n", false);
        assert_eq!(rows, [&b"ham\tsaid \"hi\n"[..], b"spam\twin\n"]);
    }
}
