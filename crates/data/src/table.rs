//! What every table is, whatever file it comes from: named columns, and records that are handed out a bounded block at a time.

use super::error::{DataError, Fault};
use super::numerals::{Ticks, Unit};

/// What a file's own schema says about a column, without looking at rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored {
    /// Delimited text: may be anything.
    Unknown,
    /// Delimited text in a column without a name in the header, called by its place.
    Unnamed,
    /// Text.
    Text,
    /// A number.
    Number,
    /// Points in time, or spans of it.
    Time(Ticks),
    /// True or false.
    Boolean,
    /// A sparse vector of this dimension.
    Sparse(u32),
    /// A type no encoder understands, by its name.
    Unsupported(String),
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Name, unique within the table, without surrounding white space.
    pub name: String,
    /// What the file's schema says.
    pub stored: Stored,
}

/// One cell of a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Field<'a> {
    /// A null, or a field beyond the end of a short row.
    Missing,
    /// Bytes without surrounding white space (UTF-8 or not).
    Text(&'a [u8]),
    /// A floating-point number, possibly not finite.
    Number(f64),
    /// An integer.
    Integer(i64),
    /// True or false.
    Truth(bool),
    /// A point in time or a span, in ticks.
    Time(i64, Ticks),
    /// Columns and values of a sparse vector; columns in range, in the file's order.
    Sparse(&'a [(u32, f32)]),
    /// Could not be read, and why.
    Malformed(Fault),
}

impl Field<'_> {
    /// A number in its unit, to the microsecond.
    pub(crate) fn of(value: f64, unit: Unit) -> Self {
        const DAY: i64 = 86_400_000_000;
        match unit {
            Unit::Number => Self::Number(value),
            _ => Self::Time((value * DAY as f64).round() as i64, Ticks { per_day: DAY, unit }),
        }
    }
}

/// Some consecutive records in memory.
pub trait Block: Send + Sync {
    /// 0-based number of the first record.
    fn first_row(&self) -> u64;
    /// Number of records.
    fn len(&self) -> usize;
    /// True if there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Memory of the block, about.
    fn bytes(&self) -> usize;
    /// Number of fields of record `row` (0-based within the block); differs from the table's if the row is ragged.
    fn width(&self, row: usize) -> usize;
    /// Why the record can't be read at all, if so: the end of a sentence that begins with its row.
    fn fault(&self, _row: usize) -> Option<Fault> {
        None
    }
    /// True if the record is to count nowhere, whatever it holds: no error of it is shown.
    fn is_left_out(&self, _row: usize) -> bool {
        false
    }
    /// The cell; [`Field::Missing`] when the row is ragged or can't be read.
    fn field(&self, row: usize, column: usize) -> Field<'_>;
    /// Puts the cells of a record in some columns into `numbers`, one for each column, where a cell surely is that plain number by all rules; what is not
    /// finite there is to be read by [`field`](Self::field).
    fn plain_numbers(&self, row: usize, columns: &[usize], numbers: &mut [f64]) {
        for (number, &column) in numbers.iter_mut().zip(columns) {
            *number = match self.field(row, column) {
                Field::Number(value) => value,
                Field::Integer(value) => value as f64,
                _ => f64::NAN,
            };
        }
    }
}

/// What [`TableReader::for_each_block`] calls.
pub type Visit<'a> = dyn FnMut(Box<dyn Block>) -> Result<(), DataError> + 'a;

/// A table that can be read from its beginning any number of times.
pub trait TableReader: Send + Sync {
    /// How messages call the file.
    fn name(&self) -> String;
    /// Names and stored types: public facts, known without touching a row.
    fn columns(&self) -> &[Column];
    /// True if a quote can hide the end of a row, so that rows are not lines.
    fn quotes_join_lines(&self) -> bool {
        false
    }
    /// Number of records n (a public fact under zero-out and replace-one). Looks at no value.
    fn count_rows(&self) -> Result<u64, DataError>;
    /// All records in order, a bounded block at a time.
    fn for_each_block(&self, visit: &mut Visit<'_>) -> Result<(), DataError>;
}
