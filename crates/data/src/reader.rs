//! Tables on disk: CSV, TSV, Parquet and LIBSVM, streamed in blocks, each optionally gzipped; and columns in memory.
//!
//! [`open`] reads names and types only (public facts). [`TableReader::count_rows`] reads no value.
//! [`TableReader::for_each_block`] hands out the records, a bounded block at a time.

mod columns;
mod delimited;
mod libsvm;
mod parquet;
mod parquet_arrow;
mod parquet_footer;
mod parquet_types;
mod parquet_values;
mod raw;
mod shards;
mod stripes;
mod text_block;
mod text_rows;

use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

pub use columns::{Cells, ColumnTable, Texts};
pub use raw::{RawTable, raw_rows};
pub use shards::{files_of, open_all, same_table};
pub use stripes::Stripe;
pub use text_rows::comma_separated;

use super::error::DataError;
use super::table::{Block, Column, Field, Stored, TableReader, Visit};
use crate::source::Source;

/// Rows per block at most; with [`BLOCK_BYTES`] it bounds what is in memory at once.
pub(crate) const BLOCK_ROWS: usize = 2048;
/// A block ends after the row that takes it past this many bytes.
pub(crate) const BLOCK_BYTES: usize = 1 << 20;
/// Longest row of text that is read, in bytes: a longer one is skipped to its end and is one bad row.
pub(crate) const ROW_BYTES: usize = 1 << 26;
/// What is wrong with a longer one.
const TOO_LONG: &str = "is longer than 64 MiB; check for a missing line end or a stray quote";
/// Most columns of a table without a header.
const MAX_COLUMNS: u64 = 1 << 20;
/// Most bytes that a gzipped Parquet file may unzip to, unless another number is given.
const UNZIPPED_BYTES: u64 = 1 << 31;

/// Largest dimension of a sparse vector: columns are u32 and leave room for the other features of an encoder.
pub const MAX_FEATURES: u64 = 1 << 31;

/// The file format of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Format {
    /// Comma-separated, quotes interpreted.
    Csv,
    /// Tab-separated, quotes are plain text.
    Tsv,
    /// Apache Parquet, flat columns.
    Parquet,
    /// `label index:value …` lines.
    Libsvm,
}

impl Format {
    /// From the extension: `.csv .tsv .txt .parquet .libsvm .svm`, each also with `.gz`. `.txt` is tab-separated.
    pub fn of_path(path: &Path) -> Result<Self, DataError> {
        let name = path.file_name().map(|n| n.to_string_lossy().to_lowercase()).unwrap_or_default();
        let name = name.strip_suffix(".gz").unwrap_or(&name);
        match name.rsplit_once('.').map(|(_, extension)| extension) {
            Some("csv") => Ok(Self::Csv),
            Some("tsv" | "tab" | "txt") => Ok(Self::Tsv),
            Some("parquet" | "pq") => Ok(Self::Parquet),
            Some("libsvm" | "svm" | "svmlight") => Ok(Self::Libsvm),
            extension => Err(unreadable_here(path, extension)),
        }
    }
}

/// What a name says that is no format of ours.
fn unreadable_here(path: &Path, extension: Option<&str>) -> DataError {
    let (what, remedy) = match extension {
        _ if is_read_once(path) => return DataError::ReadOnce { source_name: super::error::name_of(path) },
        Some("xlsx" | "xls" | "xlsm" | "xlsb" | "ods") => {
            ("spreadsheet", "save its sheet as CSV (UTF-8) and give that file")
        }
        Some("zip" | "zst" | "bz2" | "xz" | "7z" | "tar" | "tgz" | "rar" | "lz4" | "br") => {
            ("packed file", "unpack it, or pack it with gzip (.gz)")
        }
        Some(
            "feather" | "arrow" | "ipc" | "orc" | "avro" | "dta" | "sav" | "sas7bdat" | "rds" | "pkl" | "json"
            | "jsonl" | "ndjson",
        ) => ("file of this kind", "write it as .parquet or .csv"),
        _ => return DataError::UnknownFormat { source_name: super::error::name_of(path) },
    };
    DataError::OtherProgram { source_name: super::error::name_of(path), what, remedy }
}

/// Standard input as `-`, pipes and devices.
fn is_read_once(path: &Path) -> bool {
    match std::fs::metadata(path) {
        Ok(file) => !file.is_file() && !file.is_dir(),
        Err(_) => path == Path::new("-"),
    }
}

/// Refuses what could not be read again from its beginning: whoever reads rows reads them more than once, and a header before.
///
/// # Errors
/// If it is a pipe, a device, or standard input.
pub fn check_regular(path: &Path) -> Result<(), DataError> {
    if is_read_once(path) { Err(DataError::ReadOnce { source_name: super::error::name_of(path) }) } else { Ok(()) }
}

impl FromStr for Format {
    type Err = DataError;

    fn from_str(given: &str) -> Result<Self, DataError> {
        match given.to_lowercase().as_str() {
            "csv" => Ok(Self::Csv),
            "tsv" => Ok(Self::Tsv),
            "parquet" => Ok(Self::Parquet),
            "libsvm" | "svm" => Ok(Self::Libsvm),
            other => Err(DataError::NoSuchFormat {
                given: given.into(),
                nearest: super::nearest::did_you_mean(other, ["csv", "tsv", "parquet", "libsvm"]),
            }),
        }
    }
}

/// How to read a table. Everything here is a public fact about the file.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct ReadOptions {
    /// Format; `None`: by extension.
    pub format: Option<Format>,
    /// Delimited files: the first line holds the names. If false, columns are called `c1`, `c2`, ….
    pub header: bool,
    /// Delimited files: `"` encloses fields. `None`: yes for CSV, no for TSV.
    pub quoting: Option<bool>,
    /// Delimited files: the separator byte. `None`: comma for CSV, tab for TSV.
    pub separator: Option<u8>,
    /// Delimited files without a header: the number of columns (required there: the first row is a record).
    pub columns: Option<u64>,
    /// Delimited files with quotes: a line break inside quotes does not end the row. A quote that is never closed then stops the
    /// reading, and a stray one joins rows.
    pub quoted_newlines: bool,
    /// Parquet: most bytes that a gzipped file may unzip to, all of it in memory. `None`: 2 GiB.
    pub memory: Option<u64>,
    /// LIBSVM: number of features D (required there). Parquet: the list columns `indices` (from 0) and `values` are one sparse
    /// vector of that dimension.
    pub features: Option<u64>,
    /// LIBSVM: the first feature has index 0 instead of 1.
    pub zero_based: bool,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            format: None,
            header: true,
            quoting: None,
            separator: None,
            columns: None,
            quoted_newlines: false,
            memory: None,
            features: None,
            zero_based: false,
        }
    }
}

/// Opens a table; reads its names and types, no rows.
///
/// ```
/// use dpopt_data::{open_bytes, Format, ReadOptions};
/// let table = open_bytes(b"age, income\n39, <=50K\n".to_vec(), Format::Csv, &ReadOptions::default())?;
/// assert_eq!(table.columns()[1].name, "income");
/// assert_eq!(table.count_rows()?, 1);
/// # Ok::<(), dpopt_data::DataError>(())
/// ```
pub fn open(path: impl AsRef<Path>, options: &ReadOptions) -> Result<Box<dyn TableReader>, DataError> {
    let path = path.as_ref();
    if path == Path::new("-") {
        check_regular(path)?;
    }
    let format = match options.format {
        Some(format) => format,
        None => Format::of_path(path)?,
    };
    open_source(Source::Path(path.to_path_buf()), format, options)
}

/// Opens a table that is already in memory.
pub fn open_bytes(bytes: Vec<u8>, format: Format, options: &ReadOptions) -> Result<Box<dyn TableReader>, DataError> {
    open_source(Source::Memory(Arc::from(bytes)), format, options)
}

fn open_source(source: Source, format: Format, options: &ReadOptions) -> Result<Box<dyn TableReader>, DataError> {
    Ok(match format {
        Format::Csv => Box::new(delimited::Delimited::open(source, b',', true, options)?),
        Format::Tsv => Box::new(delimited::Delimited::open(source, b'\t', false, options)?),
        Format::Parquet => Box::new(parquet::Parquet::open(source, options)?),
        Format::Libsvm => Box::new(libsvm::Libsvm::open(source, options)?),
    })
}

/// Names the columns that have none `c<position>` and refuses two equal names. Control characters (a line break in a
/// quoted name) become spaces, so that messages and reports stay on one line.
fn checked_names(names: Vec<String>) -> Result<Vec<String>, DataError> {
    let mut seen = std::collections::HashMap::new();
    let mut checked = Vec::with_capacity(names.len());
    for (i, name) in names.into_iter().enumerate() {
        let name = name.replace(char::is_control, " ").trim().to_string();
        let name = if name.is_empty() { format!("c{}", i + 1) } else { name };
        if let Some(first) = seen.insert(name.clone(), i) {
            return Err(DataError::DuplicateColumn { first: first + 1, second: i + 1 });
        }
        checked.push(name);
    }
    Ok(checked)
}
