//! What one cell says: a number, a text, or nothing; and what to do when it cannot be read.

use std::io::Write;

use crate::error::DataError;
use crate::table::{Block, Field};

/// What to do with a cell that cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BadCells {
    /// Stop with an error that names column and row. It tells the data owner that such a cell exists, so it must not
    /// be shown to anyone else.
    #[default]
    Error,
    /// Treat the cell as missing; a row that can't be read at all, or has another width, contributes nothing but is counted.
    Missing,
}

impl BadCells {
    /// What [`BadCells::Error`] gives away, for reports; what [`BadCells::Missing`] promises follows.
    pub const ERROR_WARNING: &str = "A cell or row that could not be read would have stopped the run (--bad-cells error), and \
        that would have told whoever sees the run that there is one. ";
    /// What [`BadCells::Missing`] promises, as reports, docs/data.md and docs/proofs/encoder.md say it.
    pub const PROMISE: &str = "With --bad-cells missing no content of a row can stop a run or change how another row is read: what is \
        left are failures of the machine, a file that cannot be read to its end (a damaged gzip or Parquet file, or text in Parquet \
        that is not UTF-8) and a disk without room for rows beyond --memory.";
    /// What that promise leaves out where quotes can hide the end of a row.
    pub const QUOTED_NEWLINES: &str = "With --quoted-newlines a stray quote joins rows, which changes their number, and one that is \
        never closed stops the run, whatever --bad-cells says.";

    /// `error`, or nothing where such a cell counts as missing.
    pub fn check(self, error: DataError) -> Result<(), DataError> {
        match (self, error) {
            (Self::Missing, _) | (_, DataError::LeftOut) => Ok(()),
            (Self::Error, error) => Err(error),
        }
    }
}

/// Why row `r` of a block can't be read as a whole, or is not to be, if so: it is to contribute nothing, but stays a row.
pub fn bad_row(block: &dyn Block, r: usize, width: usize) -> Option<DataError> {
    if block.is_left_out(r) {
        return Some(DataError::LeftOut);
    }
    let row = block.first_row() + r as u64 + 1;
    if let Some(reason) = block.fault(r) {
        return Some(DataError::BadRow { row, reason });
    }
    let found = block.width(r);
    (found != width).then_some(DataError::RaggedRow { row, expected: width, found })
}

/// The cell as a finite number.
#[inline]
pub fn field_number(field: Field<'_>) -> Option<f64> {
    let value = match field {
        Field::Number(value) => value,
        Field::Integer(value) => value as f64,
        Field::Text(text) => match small_integer(text) {
            Some(value) => value,
            None => std::str::from_utf8(text).ok()?.parse().ok()?,
        },
        Field::Missing | Field::Sparse(_) | Field::Malformed(_) => return None,
    };
    value.is_finite().then_some(value)
}

/// The common case, exact: up to 15 digits and nothing else.
#[inline]
fn small_integer(text: &[u8]) -> Option<f64> {
    if text.is_empty() || text.len() > 15 {
        return None;
    }
    let mut value = 0u64;
    for &byte in text {
        if !byte.is_ascii_digit() {
            return None;
        }
        value = value * 10 + u64::from(byte - b'0');
    }
    Some(value as f64)
}

/// The cell as text; numbers are written in full (`1`, `0.5`). `None` if there is nothing to write.
#[inline]
pub fn field_text<'a>(field: Field<'a>, scratch: &'a mut Vec<u8>) -> Option<&'a [u8]> {
    scratch.clear();
    match field {
        Field::Text(text) => return Some(text),
        // writing to a Vec cannot fail; adding 0 turns -0 into 0
        Field::Number(value) if !value.is_nan() => write!(scratch, "{}", value + 0.0).ok()?,
        Field::Integer(value) => write!(scratch, "{value}").ok()?,
        _ => return None,
    }
    Some(scratch)
}

/// `""`, `?`, `NA`, `N/A`, `null`, `NULL`, and nulls.
pub fn is_missing_marker(field: Field<'_>) -> bool {
    match field {
        Field::Missing => true,
        Field::Text(text) => is_missing_text(text),
        _ => false,
    }
}

pub(crate) fn is_missing_text(text: &[u8]) -> bool {
    matches!(text, b"" | b"?" | b"NA" | b"N/A" | b"null" | b"NULL")
}
