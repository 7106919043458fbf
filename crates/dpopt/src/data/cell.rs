//! What one cell says: a number, a text, or nothing; and what to do when it cannot be read.

use std::io::Write;

use crate::data::error::DataError;
use crate::data::reader::Field;

/// What to do with a cell that cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BadCells {
    /// Stop with an error that names column and row. It tells the data owner that such a cell exists, so it must not
    /// be shown to anyone else.
    #[default]
    Error,
    /// Treat the cell as missing (a row of another width: what is missing is missing, what is too much is dropped).
    Missing,
}

impl BadCells {
    pub(crate) fn check(self, error: DataError) -> Result<(), DataError> {
        match self {
            Self::Error => Err(error),
            Self::Missing => Ok(()),
        }
    }
}

/// The cell as a finite number.
#[inline]
pub(crate) fn field_number(field: Field<'_>) -> Option<f64> {
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
pub(crate) fn field_text<'a>(field: Field<'a>, scratch: &'a mut Vec<u8>) -> Option<&'a [u8]> {
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
pub(crate) fn is_missing_marker(field: Field<'_>) -> bool {
    match field {
        Field::Missing => true,
        Field::Text(text) => is_missing_text(text),
        _ => false,
    }
}

pub(crate) fn is_missing_text(text: &[u8]) -> bool {
    matches!(text, b"" | b"?" | b"NA" | b"N/A" | b"null" | b"NULL")
}
