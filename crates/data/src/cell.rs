//! What one cell says: a number, a text, or nothing; and what to do when it cannot be read.

use std::io::Write;

use crate::error::DataError;
use crate::numerals::{Unit, canonical, date_text};
use crate::table::{Block, Field};
use dpopt_refusal::{Step, Text, option, setting, text};

/// What to do with a cell that cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BadCells {
    /// Stop with an error that names column and row. It tells the data owner that such a cell exists, so it must not
    /// be shown to anyone else.
    Error,
    /// Treat the cell as missing; a row that can't be read at all, or has another width, contributes nothing but is counted.
    #[default]
    Missing,
}

impl BadCells {
    /// What [`BadCells::Error`] gives away, and what [`BadCells::Missing`] promises, for reports.
    pub fn error_warning() -> Text {
        text![
            "A cell or row that cannot be read would have stopped the run (",
            setting("bad_cells", "error"),
            "), and an observer of the run would have learned that the table has such a cell. "
        ]
        .and(Self::promise())
    }

    /// What [`BadCells::Missing`] promises, as reports, docs/data.md and docs/proofs/encoder.md say it.
    pub fn promise() -> Text {
        text![
            "With ",
            setting("bad_cells", "missing"),
            " no content of a row can stop a run or change how another row is read: what is left are failures of the machine, a file that \
             cannot be read to its end (a damaged gzip or Parquet file, or text in Parquet that is not UTF-8)",
            Step::RoomOnDisk,
            "."
        ]
    }

    /// What that promise leaves out where quotes can hide the end of a row.
    pub fn of_quoted_newlines() -> Text {
        text![
            "With ",
            setting("quoted_newlines", "true"),
            " a stray quote joins rows, which changes their number, and one that is never closed stops the run, whatever ",
            option("bad_cells"),
            " says."
        ]
    }

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

/// How cells are read. A model keeps the way it was fitted with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rules {
    /// Of the first versions: numbers as programs write them, levels and hashes by spelling, times as their ticks, few words for missing.
    First,
    /// By value: equal numbers, dates and truth values are read alike, however they are spelled or stored.
    ByValue,
}

impl Rules {
    /// The cell as a finite number of `unit`.
    #[inline]
    pub(crate) fn number(self, field: Field<'_>, unit: Unit) -> Option<f64> {
        let value = match (field, self) {
            (Field::Number(value), _) if unit.is_number() => value,
            (Field::Integer(value), _) if unit.is_number() => value as f64,
            (Field::Text(text), Self::ByValue) => unit.read(text)?,
            (Field::Text(text), Self::First) => std::str::from_utf8(text).ok()?.parse().ok()?,
            (Field::Time(ticks, _), Self::First) => ticks as f64,
            (Field::Time(value, ticks), Self::ByValue) if unit.is_number() || unit == ticks.unit => ticks.days(value),
            (Field::Truth(value), _) if unit.is_number() => f64::from(u8::from(value)),
            _ => return None,
        };
        value.is_finite().then_some(value)
    }

    /// The words for a missing value.
    pub(crate) fn missing_texts(self) -> &'static [&'static str] {
        match self {
            Self::First => &["", "?", "NA", "N/A", "null", "NULL"],
            Self::ByValue => &MISSING_TEXTS,
        }
    }

    /// Whether the text is one of them; most are told by their first byte.
    pub(crate) fn is_missing(self, text: &[u8]) -> bool {
        let possible = matches!(text.first(), None | Some(b'?' | b'N' | b'n' | b'<' | b'#' | b'-' | b'1' | b'\\'));
        possible && text.len() <= 10 && self.missing_texts().iter().any(|missing| missing.as_bytes() == text)
    }

    /// Whether the cell holds nothing, or one of the words for it.
    pub(crate) fn is_missing_cell(self, field: Field<'_>) -> bool {
        match field {
            Field::Missing => true,
            Field::Text(text) => self.is_missing(text),
            _ => false,
        }
    }

    /// What a category is called: equal values in one way.
    #[inline]
    pub(crate) fn category<'a>(self, field: Field<'a>, scratch: &'a mut Scratch) -> Option<&'a [u8]> {
        match (self, field) {
            (Self::First, Field::Time(ticks, _)) => field_text(Field::Integer(ticks), &mut scratch.0),
            (Self::First, _) => field_text(field, &mut scratch.0),
            (Self::ByValue, _) => Some(canonical(field_text(field, &mut scratch.0)?, &mut scratch.1)),
        }
    }
}

/// Room for a cell's text and its one spelling.
#[derive(Default)]
pub(crate) struct Scratch(pub(crate) Vec<u8>, pub(crate) Vec<u8>);

/// The cell as a finite number; a point or span of time in days, a truth value as 0 or 1.
#[inline]
pub fn field_number(field: Field<'_>) -> Option<f64> {
    Rules::ByValue.number(field, Unit::Number)
}

/// The cell as text; numbers are written in full (`1`, `0.5`), points in time as ISO 8601. `None` if there is nothing to write.
#[inline]
pub fn field_text<'a>(field: Field<'a>, scratch: &'a mut Vec<u8>) -> Option<&'a [u8]> {
    scratch.clear();
    match field {
        Field::Text(text) => return Some(text),
        Field::Truth(value) => return Some(if value { b"true" } else { b"false" }),
        // writing to a Vec cannot fail; adding 0 turns -0 into 0
        Field::Number(value) if !value.is_nan() => write!(scratch, "{}", value + 0.0).ok()?,
        Field::Integer(value) => write!(scratch, "{value}").ok()?,
        Field::Time(value, ticks) => {
            let days = ticks.days(value);
            match date_text(days).filter(|_| ticks.unit == Unit::Date) {
                Some(text) => scratch.extend_from_slice(text.as_bytes()),
                None => write!(scratch, "{days}").ok()?,
            }
        }
        _ => return None,
    }
    Some(scratch)
}

/// Whether the cell is empty, a null or one of the words for a missing value.
pub fn is_missing_marker(field: Field<'_>) -> bool {
    Rules::ByValue.is_missing_cell(field)
}

/// Whether the text is one of the words for a missing value.
pub(crate) fn is_missing_text(text: &[u8]) -> bool {
    Rules::ByValue.is_missing(text)
}

/// What databases, spreadsheets, statistics programs, pandas and NumPy write in place of a missing value; and the errors of spreadsheets.
const MISSING_TEXTS: [&str; 28] = [
    "", "?", "NA", "N/A", "n/a", "<NA>", "#NA", "#N/A", "#N/A N/A", "null", "NULL", "None", "nan", "NaN", "-nan",
    "-NaN", "1.#QNAN", "-1.#QNAN", "1.#IND", "-1.#IND", "NaT", r"\N", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!",
    "#NULL!",
];
