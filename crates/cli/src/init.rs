//! `dpopt init`: a bounds file to be filled in, from the names of a table's columns alone.

use crate::flags::TableFlags;
use crate::output::{Failure, note, print};
use crate::paths::is_standard_output;
use crate::typed::{arguments, typed};
use crate::usage;
use crate::written::document;
use clap::Args;
use dpopt::data::{Column, Stored, bounds_template, did_you_mean, failure, listed};
use dpopt::output::write_new;
use dpopt_privacy::rounding::foreign;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(crate) struct Arguments {
    /// The table; only its header is read, of Parquet its footer
    #[arg(required = true)]
    data: Vec<PathBuf>,
    /// Column to learn: its section asks for what a target needs
    #[arg(long)]
    target: Option<String>,
    /// Where the bounds file goes; `-` for standard output. A file that is there stays as it is
    #[arg(short, long, value_name = "FILE", default_value = "bounds.toml")]
    output: PathBuf,
    #[command(flatten)]
    reading: TableFlags,
}

/// The head of the file.
const HEAD: &str = "\
# In each section keep what holds, without the \"# \" before it, and put values in the place of \"FILL IN\". Take them
# from a codebook, a form or a law, never from the records: they cost nothing, and are published with the model.
#
#   lower, upper     a number: values beyond are clipped; dates: lower = 2020-01-31
#   numeric = true   a number whose range nobody knows: found privately, for a part of the budget (--bounds-budget 0.1)
#   levels           a category with these values
#   hash = true      a category whose values nobody lists
#   text = true      free text
#   ignore = true    not used
#
# The column to learn has levels (of two the second is the positive class), or lower and upper.
# The whole format: dpopt help bounds
";

/// Names and stored types of the columns, with the name of the table. What could read rows is gone when this returns.
fn header(arguments: &Arguments) -> Result<(Vec<Column>, String), Failure> {
    let table = arguments.reading.open(&arguments.data)?;
    Ok((table.columns().to_vec(), table.name()))
}

/// The command to go on with: this one's words about the table, and the bounds file.
fn check(arguments: &Arguments, words: Vec<String>) -> String {
    let (mut next, mut named) = (vec!["check".to_string()], false);
    for word in words.into_iter().skip(1) {
        let attached =
            word.strip_prefix("--output=").or_else(|| word.strip_prefix("-o").filter(|rest| !rest.is_empty()));
        named |= attached.is_some() || word == "-o" || word == "--output";
        next.push(match (attached, word.as_str()) {
            (Some(file), _) => format!("--bounds={}", file.trim_start_matches('=')),
            (None, "-o" | "--output") => "--bounds".into(),
            // what went to standard output is in whatever file people put it
            (None, "-") => "bounds.toml".into(),
            (None, _) => word,
        });
    }
    let mut add = |words: &[&str]| next.extend(words.iter().map(ToString::to_string));
    if arguments.target.is_none() {
        add(&["--target", "COLUMN"]);
    }
    add(&["--epsilon", "1"]);
    if !named {
        add(&["--bounds", "bounds.toml"]);
    }
    typed(next)
}

/// Whether something has this name already, were it a link that leads nowhere.
fn is_taken(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok()
}

/// A name like that of a file that is there, which is not taken.
fn free(taken: &Path) -> PathBuf {
    let stem = taken.file_stem().unwrap_or_default().to_string_lossy();
    let extension = taken.extension().map_or(String::new(), |extension| format!(".{}", extension.to_string_lossy()));
    let other = |n: u64| taken.with_file_name(format!("{stem}-{n}{extension}"));
    (2..).map(other).find(|path| !is_taken(path)).unwrap_or_else(|| other(2))
}

/// Why there is no section for the target. What is called a header where no given name is in it may be a record: then its names are not told.
fn no_target(target: &str, columns: &[Column], name: &str, has_header: bool) -> String {
    let start = format!("the target `{target}` is not a column of {name}");
    if !has_header {
        return format!("{start}; without a header the columns are called c1 to c{}", columns.len());
    }
    if is_first_line(columns) {
        return format!(
            "{start}; write it as the first line does (its names are not shown, since without a known one among them it may be a row), \
             or pass --no-header and --columns N if it is a row"
        );
    }
    let meant = did_you_mean(target, columns.iter().map(|column| column.name.as_str()));
    format!("{start}{meant}; it has {}", listed(columns.iter().map(|column| format!("`{}`", column.name))))
}

/// Whether the first line of a text is what the names were taken from.
fn is_first_line(columns: &[Column]) -> bool {
    columns.iter().any(|column| matches!(column.stored, Stored::Unknown | Stored::Unnamed))
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let output = &arguments.output;
    arguments.reading.refuse_bad_cells()?;
    document("-o", output, "TOML", "toml")?;
    let (columns, name) = header(arguments)?;
    let sparse = columns.iter().any(|column| matches!(column.stored, Stored::Sparse(_)));
    // the name of the target of sparse rows is not asked for elsewhere either
    let target = arguments.target.as_deref().or(sparse.then_some("label"));
    if let Some(target) = &arguments.target
        && columns.iter().all(|column| column.name != *target)
    {
        return Err(usage(no_target(target, &columns, &name, arguments.reading.has_header())));
    }
    let next = check(arguments, self::arguments());
    let taken = || {
        usage(format!(
            "{} exists and is not replaced; to use it: {next}; to write another file: -o {}",
            output.display(),
            free(output).display()
        ))
    };
    if !is_standard_output(output) && is_taken(output) {
        return Err(taken());
    }
    let text = format!(
        "# What is publicly known of the columns of {name}.\n# Written by dpopt init from the names of the columns; no row was read.\n#\n{HEAD}\
         # What is still open: {}\n{}",
        foreign(&next),
        bounds_template(&columns, target)
    );
    if is_standard_output(output) {
        print(&text)?;
    } else {
        write_new(output, text.as_bytes()).map_err(|e| match e.kind() {
            ErrorKind::AlreadyExists => taken(),
            _ => Failure::machine(format!("cannot write {}: {}", output.display(), failure(&e))),
        })?;
    }
    let count = match columns.len() {
        1 => "1 column".to_string(),
        count => format!("{count} columns"),
    };
    let told = format!(
        "{count} of {name} to {}; no row was read{}\nnext: fill it in (dpopt help bounds), then {next}\n",
        if is_standard_output(output) { "standard output".into() } else { output.display().to_string() },
        if is_first_line(&columns) && arguments.reading.has_header() {
            "\nthe first line was taken for their names: if it is a row, remove the file and give --no-header and --columns N"
        } else {
            ""
        }
    );
    if is_standard_output(output) {
        told.lines().for_each(note);
        return Ok(());
    }
    print(&told)
}
