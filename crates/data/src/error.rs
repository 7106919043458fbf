//! Every way in which a table, a bounds file or an encoder can be wrong, as one line each: what, column, row, fix.
//!
//! Errors go to the **data owner** who started the run; they are not part of a release. Still no message contains
//! the value of a record: a column's name, a row's number and the fix are enough to find it.

use dpopt_privacy::rounding::foreign;
use dpopt_refusal::{Remedy, Step, Text, option, setting, text};
use std::fmt;
use std::path::Path;

/// Why a header, a row or a cell can't be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Fault {
    /// The end of a sentence, with what to do.
    Is(&'static str),
    /// A quote is opened and not closed.
    OpenQuote,
    /// An index of a sparse vector is 0, and indices start at 1.
    IndexZero,
}

impl From<&'static str> for Fault {
    fn from(words: &'static str) -> Self {
        Self::Is(words)
    }
}

impl Fault {
    /// The end of a sentence, with what to do.
    pub fn text(self) -> Text {
        let on = |id| setting(id, "true");
        match self {
            Self::Is(words) => words.into(),
            Self::OpenQuote => text![
                "opens a quote and does not close it; close it, pass ",
                on("no_quoting"),
                " if quotes are plain text, or ",
                on("quoted_newlines"),
                " if fields in quotes hold line breaks"
            ],
            Self::IndexZero => text!["a feature has index 0 (pass ", on("zero_based"), " if indices start at 0)"],
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text().fmt(f)
    }
}

/// What is wrong with an input, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// Rows beyond the memory cap could not be put aside.
    #[error(
        "rows beyond the memory cap could not be written to a temporary file: {reason}; free disk space, or set \
         TMPDIR to a larger disk"
    )]
    TemporaryFile {
        /// What the operating system says.
        reason: String,
    },
    /// The file cannot be opened or read.
    #[error("cannot read {source_name}: {reason}; check the path and its permissions")]
    Unreadable {
        /// Path of the file, or `<memory>`.
        source_name: String,
        /// What the operating system says.
        reason: String,
    },
    /// A file that is read twice has other rows the second time.
    #[error("{source_name} was changed while it was read; run again when nothing writes to it")]
    Changed {
        /// Path of the file.
        source_name: String,
    },
    /// A further file of a table has other columns than the first.
    #[error("{source_name} has other columns than {first}, or in another order; all files of one table need the same")]
    OtherColumns {
        /// Path of the further file.
        source_name: String,
        /// Path of the first file.
        first: String,
    },
    /// A file is given twice, or stands in a directory under two names: its people would count twice.
    #[error(
        "{first} and {second} are the same file (links are followed), so that its rows would count twice; name it \
         once"
    )]
    SameFile {
        /// Path under which it was found first.
        first: String,
        /// Path under which it was found again.
        second: String,
    },
    /// A pipe or standard input, which can be read once.
    #[error(
        "{source_name} is a pipe or standard input, which can be read only once, and a table is read more than once; \
         save it to a file, and give its name"
    )]
    ReadOnce {
        /// Path of the file.
        source_name: String,
    },
    /// A file of another program.
    #[error("{source_name}: a {what} cannot be read; {remedy}")]
    OtherProgram {
        /// Path of the file.
        source_name: String,
        /// Which kind of file it is.
        what: &'static str,
        /// What the user can do about it.
        remedy: &'static str,
    },
    /// The extension does not name a format.
    #[error(
        "{source_name}: the name does not end in .csv, .tsv, .txt, .parquet, .libsvm or .svm (or those with .gz); \
         pass {}",
        setting("format", "csv|tsv|parquet|libsvm")
    )]
    UnknownFormat {
        /// Path of the file, or `<memory>`.
        source_name: String,
    },
    /// An explicit format that does not exist.
    #[error("unknown format `{given}`{nearest}; use csv, tsv, parquet or libsvm")]
    NoSuchFormat {
        /// The format that was given.
        given: String,
        /// ", did you mean `…`?" or nothing.
        nearest: String,
    },
    /// There is no header line.
    #[error(
        "{source_name} is empty: it has no header line; give a table, or {} with the number of columns",
        setting("no_header", "true")
    )]
    Empty {
        /// Path of the file, or `<memory>`.
        source_name: String,
    },
    /// A table without rows where at least one is needed.
    #[error("{source_name} has no rows; there is nothing to fit")]
    NoRows {
        /// Path of the file, or `<memory>`.
        source_name: String,
    },
    /// The header can't be read.
    #[error("{source_name}: the header {reason}")]
    BadHeader {
        /// Path of the file, or `<memory>`.
        source_name: String,
        /// What is wrong and what to do.
        reason: Fault,
    },
    /// The number of columns of a table without a header must be public.
    #[error(
        "the number of columns is unknown, since there is no header and counting the fields of the first row would \
         read a record; pass {}, or declare all of c1, c2, … in the bounds file",
        setting("columns", "N")
    )]
    ColumnsUnknown,
    /// The number of columns is out of range.
    #[error("{} is out of range; use 1 to {limit}", setting("columns", given.to_string()))]
    ColumnsOutOfRange {
        /// The number of columns that was given.
        given: u64,
        /// Largest number of columns allowed.
        limit: u64,
    },
    /// A row that can't be read as a whole.
    #[error("row {row} {reason}; or pass {}", setting("bad_cells", "missing"))]
    BadRow {
        /// 1-based row, header not counted.
        row: u64,
        /// What is wrong and what to do.
        reason: Fault,
    },
    /// A line with an open quote, where rows are moved as they stand.
    #[error(
        "row {row} opens a quote that its line does not close; pass {} if cells hold line breaks, or {} if quotes \
         are plain text",
        setting("quoted_newlines", "true"),
        setting("no_quoting", "true")
    )]
    OpenQuote {
        /// 1-based row, header not counted.
        row: u64,
    },
    /// A file that is not text, where text is needed.
    #[error("{source_name} is a Parquet file, which cannot be split by lines; convert it to CSV, TSV or LIBSVM")]
    NotText {
        /// Path of the file.
        source_name: String,
    },
    /// A gzipped file that has to be held whole, and is too large for that.
    #[error(
        "{source_name} exceeds the memory cap: it has unzipped to {held} MiB so far, and a Parquet file must fit as \
         a whole; unzip it first, or raise {}",
        option("memory")
    )]
    UnzipsTooLarge {
        /// Path of the file, or `<memory>`.
        source_name: String,
        /// MiB that were unzipped.
        held: u64,
    },
    /// The first line holds numbers or long texts: taken as names, a record would appear in plans and messages.
    #[error(
        "{source_name}: the first line looks like a record, not a header: its field {position} is a number, a marker \
         of a missing value or longer than {limit} bytes; {}",
        Remedy::one_of([Step::NoHeader.into(), "give the column a name".into()])
    )]
    HeaderLooksLikeData {
        /// Path of the file, or `<memory>`.
        source_name: String,
        /// 1-based position of the field.
        position: usize,
        /// Longest name allowed, in bytes.
        limit: usize,
    },
    /// Two columns have one name.
    #[error(
        "columns {first} and {second} have one name in the header; {}",
        Remedy::one_of(["rename one of them".into(), Step::NoHeader.into()])
    )]
    DuplicateColumn {
        /// 1-based position of the first.
        first: usize,
        /// 1-based position of the second.
        second: usize,
    },
    /// A column without a name that nothing is declared of.
    #[error(
        "column `{column}` has no name in the header and is not declared (pandas and R write row numbers in such a \
         column); give it a name, or leave it out: {}, or `ignore = true` under [{column}]",
        setting("ignore", column.clone())
    )]
    NoName {
        /// What it is called, by its place.
        column: String,
    },
    /// A column that the table does not have.
    #[error("{role} `{name}` is not a column of the table{nearest}; {columns}")]
    NoSuchColumn {
        /// "the target", "the bounds file's column", …
        role: String,
        /// The name that was asked for.
        name: String,
        /// ", did you mean `…`?" or nothing.
        nearest: String,
        /// The first few names, or why they are not told.
        columns: Text,
    },
    /// A row has more or fewer fields than the header.
    #[error(
        "row {row} has {found} fields, the header has {expected}; fix the row (an unquoted separator or a stray quote?) \
         or pass {}",
        setting("bad_cells", "missing")
    )]
    RaggedRow {
        /// 1-based row, header not counted.
        row: u64,
        /// Fields in the header.
        expected: usize,
        /// Fields in the row.
        found: usize,
    },
    /// A row that is to count nowhere: no error, whatever it holds.
    #[error("the row is left out")]
    LeftOut,
    /// A table has more units than can be numbered.
    #[error(
        "the table has more than 4294967295 units; name the column that identifies persons, or whatever else is to \
         be protected as a whole"
    )]
    TooManyUnits,
    /// A quote is opened and never closed, in a table whose fields may hold line breaks.
    #[error(
        "row {row} opens a quote that the file never closes; close it, pass {} if quotes are plain text, or leave out {} if no field \
         holds a line break",
        setting("no_quoting", "true"),
        option("quoted_newlines")
    )]
    UnbalancedQuote {
        /// 1-based row, header not counted.
        row: u64,
    },
    /// A cell of a numeric column is not a finite number.
    #[error(
        "column `{column}`, row {row}: not a finite number; fix the cell, leave it empty, or pass {}",
        setting("bad_cells", "missing")
    )]
    NotANumber {
        /// Name of the column.
        column: String,
        /// 1-based row, header not counted.
        row: u64,
    },
    /// A column that is no number.
    #[error("column `{column}` does not hold numbers; name columns of numbers")]
    NotNumbers {
        /// Name of the column.
        column: String,
    },
    /// A column that is no coordinate of a vector.
    #[error(
        "column `{column}` does not hold numbers; give a table of numbers (each column a coordinate), Parquet with the list columns \
         `indices` and `values`, or LIBSVM; the last two with {}",
        setting("features", "D")
    )]
    NotAVector {
        /// Name of the column.
        column: String,
    },
    /// A LIBSVM row that cannot be read.
    #[error(
        "row {row}: {reason}; write `label index:value …`, or pass {} to drop what cannot be read",
        setting("bad_cells", "missing")
    )]
    BadSparseRow {
        /// 1-based row of the file.
        row: u64,
        /// What is wrong, without the value.
        reason: Fault,
    },
    /// The number of LIBSVM features must be public.
    #[error(
        "the number of features is unknown, since a LIBSVM file does not state it and counting would read the \
         records; pass {}",
        setting("features", "D")
    )]
    FeaturesUnknown,
    /// The number of features is out of range.
    #[error("{} is out of range; use 1 to {limit}", setting("features", given.to_string()))]
    FeaturesOutOfRange {
        /// The number of features that was given.
        given: u64,
        /// Largest number of features allowed.
        limit: u64,
    },
    /// gzip data that ends early or is not gzip.
    #[error("{source_name}: the gzip data are damaged or end early; copy the file again")]
    DamagedGzip {
        /// Path of the file, or `<memory>`.
        source_name: String,
    },
    /// A Parquet file that cannot be read.
    #[error("{source_name}: not a readable Parquet file ({reason}); copy or write the file again")]
    DamagedParquet {
        /// Path of the file, or `<memory>`.
        source_name: String,
        /// Which part cannot be read.
        reason: &'static str,
    },
    /// A Parquet file whose columns can't be read, as its footer says.
    #[error("{source_name}: {why}")]
    UnreadableParquet {
        /// Path of the file, or `<memory>`.
        source_name: String,
        /// What the footer says, and what to do.
        why: String,
    },
    /// A Parquet column whose type no encoder understands.
    #[error(
        "column `{column}` has the nested or binary type {stored}; flatten it, or write `ignore = true` under [{column}]"
    )]
    UnsupportedType {
        /// Name of the column.
        column: String,
        /// The type as the file's schema names it.
        stored: String,
    },
    /// A bounds file that is no UTF-8.
    #[error("{source_name} is not UTF-8 text{how}; save it as UTF-8")]
    BoundsEncoding {
        /// Path of the file.
        source_name: String,
        /// ", it looks like UTF-16" or nothing.
        how: &'static str,
    },
    /// A heading of a bounds file whose name needs quotes.
    #[error(
        "{}: [{name}] is not the name of a column; names with dots, blanks or other signs stand in quotes: [\"{name}\"]",
        Step::BoundsFile
    )]
    BoundsName {
        /// The name in the heading.
        name: String,
    },
    /// The bounds file is not TOML.
    #[error("bounds file{line}: {reason}")]
    BoundsSyntax {
        /// " line N" or nothing.
        line: String,
        /// What is wrong and what to do.
        reason: &'static str,
    },
    /// An unknown key of the bounds file.
    #[error("{}: [{table}] has no key `{key}`{nearest}; known keys: {known}", Step::BoundsFile)]
    BoundsKey {
        /// Name of the table in the bounds file.
        table: String,
        /// The key that is unknown.
        key: String,
        /// ", did you mean `…`?" or nothing.
        nearest: String,
        /// The keys that are allowed.
        known: &'static str,
    },
    /// A declaration that makes no sense.
    #[error("column `{column}`: {what}; {fix}")]
    Declaration {
        /// Name of the declared column.
        column: String,
        /// What is wrong with the declaration.
        what: String,
        /// What the user can do about it.
        fix: String,
    },
    /// A file of word vectors that is none.
    #[error("{source_name} can't be used as public vectors: {reason}")]
    WordVectors {
        /// Path of the file, or its name.
        source_name: String,
        /// What is wrong and what to do.
        reason: String,
    },
    /// A model of texts needs the public vectors that it was fitted with, and has none or others.
    #[error("the model was fitted with the public vectors of {name}, {given}; {}", Step::GiveVectors)]
    VectorsNeeded {
        /// Name of the file at the fit.
        name: String,
        /// What is there instead.
        given: &'static str,
    },
    /// Public vectors for a model that has none.
    #[error("the model was fitted without public vectors; leave out {}", option("public_vectors"))]
    VectorsNotNeeded,
    /// Public vectors where no column is a text.
    #[error("{} needs a column of text, and there is none; {}", option("public_vectors"), Step::DeclareText)]
    VectorsWithoutText,
    /// An option of the encoder is out of range.
    #[error("[dpopt] {option} = {given} is out of range; use {allowed}")]
    Option {
        /// Name of the option.
        option: &'static str,
        /// The value that was given.
        given: String,
        /// The values that are allowed.
        allowed: String,
    },
    /// Nothing at all says what the columns are.
    #[error(
        "no column is declared, and inferring ranges and levels from the rows would not be private; {}",
        Step::DeclareColumns
    )]
    NothingDeclared,
    /// Numeric columns have neither public bounds nor a budget to find private ones.
    #[error("numeric columns have no declared range: {columns}; {}", Step::DeclareRanges)]
    Unbounded {
        /// Names of the columns.
        columns: String,
    },
    /// The target's classes or range are not declared.
    #[error(
        "the target `{column}` is not declared; {}, or write in the bounds file [{column}] levels = [\"no\", \"yes\"] or, for a \
         number, lower and upper",
        Step::DeclareClasses
    )]
    TargetUndeclared {
        /// Name of the target column.
        column: String,
    },
    /// The encoder of a saved model does not make sense.
    #[error("the encoder in the model file is not valid: {reason}; fit the model again with this version")]
    Encoder {
        /// What is wrong with the encoder.
        reason: String,
    },
}

impl DataError {
    pub(crate) fn unreadable(source_name: &str, error: &std::io::Error) -> Self {
        Self::Unreadable { source_name: source_name.into(), reason: failure(error) }
    }

    pub(crate) fn declaration(column: &str, what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::Declaration { column: one_line(column), what: one_line(&what.into()), fix: fix.into() }
    }

    /// Names are shown only if one of the `declared` ones, which the user wrote, is among them: otherwise the first line may be a
    /// record that was taken for a header.
    pub(crate) fn no_such_column(role: &str, name: &str, columns: &[&str], declared: &[&str]) -> Self {
        let separator = match columns {
            [only] => only.chars().find(|c| matches!(c, ';' | '\t' | '|' | ',')),
            _ => None,
        };
        let header = declared.iter().any(|name| columns.contains(name));
        let columns_told = match separator {
            Some(separator) => {
                let one = format!("it has one column only; if fields are separated by {separator:?}, pass ");
                text![one, setting("separator", format!("{separator:?}"))]
            }
            None if header => format!("the table has {}", listed(columns.iter().map(|c| format!("`{c}`")))).into(),
            None => text![
                format!(
                    "none of the {} columns has a declared name, and their names are not shown since the first \
                         line may be a record; ",
                    columns.len()
                ),
                Step::NoHeader
            ],
        };
        let nearest = if header { super::nearest::did_you_mean(name, columns.iter().copied()) } else { String::new() };
        Self::NoSuchColumn { role: role.into(), name: one_line(name), nearest, columns: columns_told }
    }
}

/// What the operating system says of a file, as people say it.
pub fn failure(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "no such file".into(),
        kind => kind.to_string(),
    }
}

/// Names listed at most.
const LISTED: usize = 12;

/// The first few names, and how many more there are: a table may have 200,000 columns.
pub fn listed<T: AsRef<str>>(names: impl IntoIterator<Item = T>) -> String {
    let mut names = names.into_iter();
    let mut text = String::new();
    for (i, name) in names.by_ref().take(LISTED).enumerate() {
        text.push_str(if i > 0 { ", " } else { "" });
        text.push_str(name.as_ref());
    }
    match names.count() {
        0 => text,
        more => format!("{text} and {more} more"),
    }
}

/// Names and levels come from files and may hold line breaks and worse; a message is one line.
pub(crate) fn one_line(text: &str) -> String {
    foreign(text)
}

/// A path as it appears in messages.
pub(crate) fn name_of(path: &Path) -> String {
    one_line(&path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_are_cut_and_counted() {
        let names: Vec<String> = (1..=200_000).map(|i| format!("c{i}")).collect();
        assert_eq!(listed(&names[..3]), "c1, c2, c3");
        assert_eq!(listed(&names[..12]), "c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11, c12");
        assert!(listed(&names).ends_with(", c12 and 199988 more"));
        assert_eq!(listed::<&str>([]), "");
    }

    #[test]
    fn names_of_a_first_line_that_matches_nothing_are_not_shown() {
        let error =
            |declared: &[&str]| DataError::no_such_column("the target", "how", &["low", "age"], declared).to_string();
        let matched = error(&["age", "how"]);
        assert!(matched.contains("`low`, `age`") && matched.contains("did you mean `low`?"), "{matched}");
        let unmatched = error(&["how"]);
        assert!(!unmatched.contains("low") && unmatched.contains("without a header"), "{unmatched}");
    }
}
