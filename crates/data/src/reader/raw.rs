//! The rows of a text table as they stand in the file, for tools that move rows without reading their cells.

use std::path::Path;

use super::delimited::Delimited;
use super::libsvm::Libsvm;
use super::text_rows::{TextRows, split_fields};
use super::{Format, ReadOptions, TableReader};
use crate::error::DataError;
use crate::source::Source;

/// A text table whose rows are read as they stand, unzipped, byte for byte.
pub struct RawTable {
    text: Text,
    quotes: Option<u8>,
    /// The header with its line end; empty without one.
    pub header: Vec<u8>,
    rows: u64,
}

enum Text {
    Delimited(Delimited),
    Libsvm(Libsvm),
}

impl RawTable {
    /// Number of rows.
    pub fn len(&self) -> u64 {
        self.rows
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Reads the rows in order, each with its line end, and hands out one after the other.
    ///
    /// # Errors
    /// If they can't be read, are no longer those that were found at first, or `visit` stops.
    pub fn each_row<E: From<DataError>>(&self, mut visit: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let mut rows = self.rows()?;
        while rows.advance()? {
            let row = rows.raw().ok_or(DataError::BadRow { row: rows.count, reason: super::TOO_LONG.into() })?;
            if let Some(separator) = self.quotes
                && row.contains(&b'"')
            {
                let (mut fields, mut ends) = (Vec::new(), Vec::new());
                if split_fields(row, separator, true, 0, &mut fields, &mut ends).is_none() {
                    return Err(DataError::OpenQuote { row: rows.count }.into());
                }
            }
            if rows.count > self.rows {
                break;
            }
            visit(row)?;
        }
        if rows.count == self.rows { Ok(()) } else { Err(DataError::Changed { source_name: self.name() }.into()) }
    }

    fn rows(&self) -> Result<TextRows<'_>, DataError> {
        match &self.text {
            Text::Delimited(text) => text.rows(),
            Text::Libsvm(text) => text.rows(),
        }
    }

    fn name(&self) -> String {
        match &self.text {
            Text::Delimited(text) => text.name(),
            Text::Libsvm(text) => text.name(),
        }
    }
}

/// The rows of a CSV, TSV or LIBSVM file, those that [`open`](super::open) finds with the same options, which are counted here and read again later. A header is
/// looked at no further than for its end, and cells for quotes alone: a line with a quote that it does not close is refused, as it may be a part of a record.
pub fn raw_rows(path: impl AsRef<Path>, options: &ReadOptions) -> Result<RawTable, DataError> {
    let path = path.as_ref();
    super::check_regular(path)?;
    let format = options.format.map_or_else(|| Format::of_path(path), Ok)?;
    let source = Source::Path(path.to_path_buf());
    let (text, quotes, header) = match format {
        Format::Parquet => return Err(DataError::NotText { source_name: super::super::error::name_of(path) }),
        Format::Libsvm => {
            let text = Libsvm::open(source, &ReadOptions { features: Some(1), ..options.clone() })?;
            (Text::Libsvm(text), None, Vec::new())
        }
        Format::Csv | Format::Tsv => {
            // how many columns there are does not matter to the rows' ends
            let options = ReadOptions { columns: options.columns.or(Some(1)), ..options.clone() };
            let (separator, quoting) = if format == Format::Csv { (b',', true) } else { (b'\t', false) };
            let text = Delimited::open(source, separator, quoting, &options)?;
            // a line with an open quote may be the first of a record of several
            let quotes = options.quoting.unwrap_or(quoting) && !options.quoted_newlines;
            let header = text.header()?;
            (Text::Delimited(text), quotes.then_some(options.separator.unwrap_or(separator)), header)
        }
    };
    let mut table = RawTable { text, quotes, header, rows: u64::MAX };
    let mut rows = 0;
    let counted = table.each_row(|_| {
        rows += 1;
        Ok(())
    });
    match counted {
        // no table has so many rows as were expected
        Ok(()) | Err(DataError::Changed { .. }) => {
            table.rows = rows;
            Ok(table)
        }
        Err(error) => Err(error),
    }
}
