//! The rows of a text table as they stand in the file, for tools that move rows without reading their cells.

use std::path::Path;

use super::delimited::Delimited;
use super::libsvm::Libsvm;
use super::text_rows::split_fields;
use super::{Format, ReadOptions};
use crate::error::DataError;
use crate::source::Source;

/// A text table in memory, unzipped, byte for byte.
#[derive(Debug, Default)]
pub struct RawTable {
    /// The header with its line end; empty without one.
    pub header: Vec<u8>,
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl RawTable {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Row `i` with its line end.
    pub fn row(&self, i: usize) -> &[u8] {
        let from = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.bytes[from..self.ends[i]]
    }
}

/// The rows of a CSV, TSV or LIBSVM file, those that [`open`](super::open) finds with the same options. A header is looked at no
/// further than for its end, and cells for quotes alone: a line with a quote that it does not close is refused, as it may be a part of a record.
pub fn raw_rows(path: impl AsRef<Path>, options: &ReadOptions) -> Result<RawTable, DataError> {
    let path = path.as_ref();
    super::check_regular(path)?;
    let format = options.format.map_or_else(|| Format::of_path(path), Ok)?;
    let source = Source::Path(path.to_path_buf());
    let mut table = RawTable::default();
    let mut take = |mut rows: super::text_rows::TextRows<'_>, quotes: Option<u8>| -> Result<(), DataError> {
        while rows.advance()? {
            let row = rows.raw().ok_or(DataError::BadRow { row: rows.count, reason: super::TOO_LONG.into() })?;
            if let Some(separator) = quotes {
                let (mut fields, mut ends) = (Vec::new(), Vec::new());
                if split_fields(row, separator, true, 0, &mut fields, &mut ends).is_none() {
                    return Err(DataError::OpenQuote { row: rows.count });
                }
            }
            table.bytes.extend_from_slice(row);
            table.ends.push(table.bytes.len());
        }
        Ok(())
    };
    match format {
        Format::Parquet => return Err(DataError::NotText { source_name: super::super::error::name_of(path) }),
        Format::Libsvm => {
            let text = Libsvm::open(source, &ReadOptions { features: Some(1), ..options.clone() })?;
            take(text.rows()?, None)?;
        }
        Format::Csv | Format::Tsv => {
            // how many columns there are does not matter to the rows' ends
            let options = ReadOptions { columns: options.columns.or(Some(1)), ..options.clone() };
            let (separator, quoting) = if format == Format::Csv { (b',', true) } else { (b'\t', false) };
            let text = Delimited::open(source, separator, quoting, &options)?;
            // a line with an open quote may be the first of a record of several
            let quotes = options.quoting.unwrap_or(quoting) && !options.quoted_newlines;
            take(text.rows()?, quotes.then_some(options.separator.unwrap_or(separator)))?;
            table.header = text.header()?;
        }
    }
    Ok(table)
}
