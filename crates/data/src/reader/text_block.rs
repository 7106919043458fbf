//! Rows of delimited text as they stand in the file. Where their fields are is found when a cell is first looked at, in whichever thread that is.

use std::sync::OnceLock;

use super::text_rows::{Chunk, split_fields};
use super::{Block, Field};
use crate::decimal::plain_decimal;
use crate::error::Fault;

/// How the rows of a table are written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dialect {
    pub(super) separator: u8,
    pub(super) quoting: bool,
    /// A line break inside quotes does not end a row.
    pub(super) quoted_newlines: bool,
    /// Number of columns.
    pub(super) width: usize,
}

/// Consecutive records.
pub(super) struct TextBlock {
    first_row: u64,
    chunk: Chunk,
    dialect: Dialect,
    fields: OnceLock<Fields>,
}

/// Where the fields of records are.
#[derive(Debug, Default)]
struct Fields {
    /// First field of each record within `spans`; [`FAULTY`] of one that can't be read.
    starts: Vec<u32>,
    /// Begin and end of each field: within the bytes of the block, or beyond them within `copied`.
    spans: Vec<(u32, u32)>,
    /// Fields that do not stand in the file as they are, one after the other.
    copied: Vec<u8>,
    /// What is wrong with a record, by its number in the block. Its fields are not kept.
    faults: Vec<(usize, Bad)>,
}

const FAULTY: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Bad {
    Unreadable(Fault),
    /// It has this many fields, the table another number.
    Ragged(usize),
}

/// A byte in each of eight.
const EACH: u64 = 0x0101_0101_0101_0101;
const LOW: u64 = EACH * 0x7f;

/// Bytes that are looked at together.
const WINDOW: usize = 64;

/// Which of 64 bytes are one of three, as bits; the first byte's is the lowest.
#[inline]
fn marks(window: &[u8; WINDOW], wanted: [u64; 3]) -> u64 {
    let mut bits = 0;
    for (at, eight) in window.as_chunks::<8>().0.iter().enumerate() {
        let word = u64::from_le_bytes(*eight);
        // the highest bit of a byte stays 0 where it is equal
        let others = wanted.map(|wanted| (((word ^ wanted) & LOW) + LOW) | (word ^ wanted));
        let equal = (!(others[0] & others[1] & others[2]) >> 7) & EACH;
        bits |= (equal.wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * at);
    }
    bits
}

/// Where a field is with its quotes.
#[derive(Clone, Copy, PartialEq)]
enum Quotes {
    None,
    Open,
    /// After a quote at this place: the end of the quoted part, or half of a doubled quote.
    Closed(usize),
}

/// The fields of the records that were read so far, and the one that is being read.
struct Splitting<'a> {
    bytes: &'a [u8],
    dialect: Dialect,
    fields: Fields,
    /// Where the record began, and its first field among the spans and the copied ones.
    row: usize,
    first: usize,
    copied: usize,
    /// Fields of the record so far.
    found: usize,
    /// Where the field begins.
    field: usize,
    quotes: Quotes,
    doubled: bool,
}

impl Splitting<'_> {
    #[inline]
    fn see(&mut self, at: usize) {
        match (self.bytes[at], self.quotes) {
            (b'\n', quotes) if !(quotes == Quotes::Open && self.dialect.quoted_newlines) => self.end_row(at),
            (b'"', quotes) if self.dialect.quoting => match quotes {
                Quotes::None if at == self.field => self.quotes = Quotes::Open,
                Quotes::None => {}
                Quotes::Open => self.quotes = Quotes::Closed(at),
                Quotes::Closed(closed) if at == closed + 1 => (self.quotes, self.doubled) = (Quotes::Open, true),
                Quotes::Closed(_) => {}
            },
            (byte, quotes) if byte == self.dialect.separator && quotes != Quotes::Open => {
                self.end_field(at);
                self.field = at + 1;
            }
            _ => {}
        }
    }

    #[inline]
    fn end_field(&mut self, end: usize) {
        self.found += 1;
        if self.found <= self.dialect.width {
            let span = match self.quotes {
                Quotes::None => (self.field as u32, end as u32),
                Quotes::Closed(closed) if closed + 1 == end && !self.doubled => (self.field as u32 + 1, closed as u32),
                _ => self.copy(end),
            };
            self.fields.spans.push(span);
        }
        (self.quotes, self.doubled) = (Quotes::None, false);
    }

    /// A field with quotes inside, or with something behind them.
    #[cold]
    fn copy(&mut self, end: usize) -> (u32, u32) {
        let from = self.bytes.len() + self.fields.copied.len();
        split_fields(
            &self.bytes[self.field..end],
            self.dialect.separator,
            true,
            1,
            &mut self.fields.copied,
            &mut Vec::new(),
        );
        (from as u32, (self.bytes.len() + self.fields.copied.len()) as u32)
    }

    /// Ends the record before the line break at `at`.
    #[inline]
    fn end_row(&mut self, at: usize) {
        let end = if at > self.row && self.bytes[at - 1] == b'\r' { at - 1 } else { at };
        let open = self.quotes == Quotes::Open;
        self.end_field(end);
        if open || self.found != self.dialect.width {
            self.fault(if open { None } else { Some(self.found) }, end);
        } else {
            self.fields.starts.push(self.first as u32);
        }
        (self.row, self.field, self.found) = (at + 1, at + 1, 0);
        (self.first, self.copied) = (self.fields.spans.len(), self.fields.copied.len());
    }

    /// Drops the record's fields.
    #[cold]
    fn fault(&mut self, found: Option<usize>, end: usize) {
        self.fields.spans.truncate(self.first);
        self.fields.copied.truncate(self.copied);
        self.fields.push_fault(fault_of(&self.bytes[self.row..end], found, self.dialect.width));
    }
}

/// What is wrong with a record that has another number of fields, or a quote that it does not close.
fn fault_of(row: &[u8], found: Option<usize>, width: usize) -> Option<Bad> {
    match found {
        None => Some(Bad::Unreadable(Fault::OpenQuote)),
        Some(found) if found == width => None,
        Some(_) if row.trim_ascii().is_empty() => Some(Bad::Unreadable("is a blank line; remove it".into())),
        Some(found) => Some(Bad::Ragged(found)),
    }
}

impl Fields {
    fn push_fault(&mut self, fault: Option<Bad>) {
        if let Some(fault) = fault {
            self.faults.push((self.starts.len(), fault));
            self.starts.push(FAULTY);
        }
    }

    /// The fields of `chunk`, 64 bytes at a time.
    fn of(chunk: &Chunk, dialect: Dialect) -> Self {
        if chunk.is_too_long {
            let mut fields = Self::default();
            fields.push_fault(Some(Bad::Unreadable(super::TOO_LONG.into())));
            return fields;
        }
        if matches!(dialect.separator, b'"' | b'\r' | b'\n') {
            return Self::one_by_one(chunk, dialect);
        }
        let bytes = chunk.bytes.as_slice();
        let mut fields = Self::default();
        fields.starts.reserve_exact(chunk.rows);
        fields.spans.reserve_exact(chunk.fields(dialect.width));
        let (row, first, copied, found, field) = (0, 0, 0, 0, 0);
        let (quotes, doubled) = (Quotes::None, false);
        let mut splitting = Splitting { bytes, dialect, fields, row, first, copied, found, field, quotes, doubled };
        let quote = if dialect.quoting { b'"' } else { b'\n' };
        let wanted = [dialect.separator, b'\n', quote].map(|byte| EACH * u64::from(byte));
        let (windows, rest) = bytes.as_chunks::<WINDOW>();
        for (at, window) in windows.iter().enumerate() {
            let mut seen = marks(window, wanted);
            while seen != 0 {
                splitting.see(WINDOW * at + seen.trailing_zeros() as usize);
                seen &= seen - 1;
            }
        }
        (bytes.len() - rest.len()..bytes.len()).for_each(|at| splitting.see(at));
        if splitting.row < bytes.len() {
            splitting.end_row(bytes.len());
        }
        splitting.fields
    }

    /// [`of`](Self::of), row by row and field by field.
    fn one_by_one(chunk: &Chunk, dialect: Dialect) -> Self {
        let (mut fields, mut ends) = (Self::default(), Vec::new());
        for row in chunk.each_row() {
            let (used, before) = (fields.copied.len(), fields.spans.len());
            ends.clear();
            let found =
                split_fields(row, dialect.separator, dialect.quoting, dialect.width, &mut fields.copied, &mut ends);
            let fault = fault_of(row, found, dialect.width);
            if fault.is_some() {
                fields.copied.truncate(used);
                fields.push_fault(fault);
                continue;
            }
            let place = |within: usize| (chunk.bytes.len() + within) as u32;
            let begins = std::iter::once(used).chain(ends.iter().copied());
            fields.spans.extend(begins.zip(&ends).map(|(from, to)| (place(from), place(*to))));
            fields.starts.push(before as u32);
        }
        fields
    }

    fn fault(&self, row: usize) -> Option<Bad> {
        self.faults.binary_search_by_key(&row, |fault| fault.0).ok().map(|at| self.faults[at].1)
    }
}

impl TextBlock {
    pub(super) fn new(first_row: u64, chunk: Chunk, dialect: Dialect) -> Self {
        Self { first_row, chunk, dialect, fields: OnceLock::new() }
    }

    #[inline]
    fn fields(&self) -> &Fields {
        self.fields.get_or_init(|| Fields::of(&self.chunk, self.dialect))
    }

    /// Begin and end of the fields of a record; none of one that can't be read.
    #[inline]
    fn spans<'a>(&self, fields: &'a Fields, row: usize) -> &'a [(u32, u32)] {
        match fields.starts[row] {
            FAULTY => &[],
            first => &fields.spans[first as usize..][..self.dialect.width],
        }
    }

    /// What a span is within, and where.
    #[inline]
    fn place<'a>(&'a self, fields: &'a Fields, (from, to): (u32, u32)) -> (&'a [u8], usize, usize) {
        let (bytes, from, to) = (&self.chunk.bytes, from as usize, to as usize);
        match from.checked_sub(bytes.len()) {
            // an empty field at the end of the file is an empty copy
            Some(from) => (&fields.copied, from, to - bytes.len()),
            None => (bytes, from, to),
        }
    }
}

impl Block for TextBlock {
    fn first_row(&self) -> u64 {
        self.first_row
    }

    fn len(&self) -> usize {
        self.chunk.rows
    }

    fn bytes(&self) -> usize {
        self.chunk.bytes.len() + size_of::<(u32, u32)>() * self.chunk.fields(self.dialect.width)
    }

    fn width(&self, row: usize) -> usize {
        let fields = self.fields();
        match fields.starts[row] {
            FAULTY => match fields.fault(row) {
                Some(Bad::Ragged(found)) => found,
                _ => 0,
            },
            _ => self.dialect.width,
        }
    }

    fn fault(&self, row: usize) -> Option<Fault> {
        let fields = self.fields();
        match fields.starts[row] {
            FAULTY => match fields.fault(row) {
                Some(Bad::Unreadable(reason)) => Some(reason),
                _ => None,
            },
            _ => None,
        }
    }

    #[inline]
    fn field(&self, row: usize, column: usize) -> Field<'_> {
        let fields = self.fields();
        match self.spans(fields, row).get(column) {
            Some(span) => {
                let (bytes, from, to) = self.place(fields, *span);
                Field::Text(bytes[from..to].trim_ascii())
            }
            None => Field::Missing,
        }
    }

    fn plain_numbers(&self, row: usize, columns: &[usize], numbers: &mut [f64]) {
        let fields = self.fields();
        let spans = self.spans(fields, row);
        for (number, &column) in numbers.iter_mut().zip(columns) {
            let plain = spans.get(column).and_then(|span| {
                let (bytes, from, to) = self.place(fields, *span);
                plain_decimal(bytes, from, to)
            });
            *number = plain.unwrap_or(f64::NAN);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn dialect(separator: u8, quoting: bool, quoted_newlines: bool, width: usize) -> Dialect {
        Dialect { separator, quoting, quoted_newlines: quoting && quoted_newlines, width }
    }

    /// Every record: its fault, or its cells.
    fn records(chunk: &Chunk, dialect: Dialect, fields: Fields) -> Vec<Result<Vec<Vec<u8>>, Bad>> {
        let rows = chunk.rows;
        let copy = Chunk { bytes: chunk.bytes.clone(), rows, ..Chunk::default() };
        let block = TextBlock { first_row: 0, chunk: copy, dialect, fields: fields.into() };
        let cell = |row, column| match block.field(row, column) {
            Field::Text(text) => text.to_vec(),
            other => panic!("a cell of text, not {other:?}"),
        };
        assert_eq!(block.fields().starts.len(), rows);
        let record = |row| match block.fields().fault(row) {
            Some(bad) => {
                assert_eq!(block.field(row, 0), Field::Missing);
                Err(bad)
            }
            None => {
                assert_eq!(block.width(row), dialect.width);
                let columns: Vec<usize> = (0..dialect.width).rev().collect();
                let mut numbers = vec![0.0; columns.len()];
                block.plain_numbers(row, &columns, &mut numbers);
                for (&column, number) in columns.iter().zip(&numbers) {
                    let slow = std::str::from_utf8(&cell(row, column)).ok().and_then(|text| text.parse::<f64>().ok());
                    assert!(number.is_nan() || slow.map(f64::to_bits) == Some(number.to_bits()));
                }
                Ok((0..dialect.width).map(|column| cell(row, column)).collect())
            }
        };
        (0..rows).map(record).collect()
    }

    fn lines(text: &[u8]) -> Chunk {
        let rows = text.split_inclusive(|byte| *byte == b'\n').count();
        Chunk { bytes: text.to_vec(), rows, ..Chunk::default() }
    }

    #[test]
    fn marks_are_the_bytes_that_are_wanted() {
        let wanted = [b',', 0, 0xff];
        for start in 0..=192u8 {
            let window: [u8; WINDOW] = std::array::from_fn(|i| start.wrapping_add(i as u8));
            let expected = (0..WINDOW).filter(|i| wanted.contains(&window[*i])).fold(0, |all, i| all | 1 << i);
            assert_eq!(marks(&window, wanted.map(|byte| EACH * u64::from(byte))), expected, "{start}");
        }
        assert_eq!(marks(&[7; WINDOW], [EACH * 7, EACH, 0]), u64::MAX);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1024))]

        /// Fields are found 64 bytes at a time where they are found one by one, whatever the bytes.
        #[test]
        fn windows_and_single_fields_give_the_same_cells(
            text in proptest::collection::vec(prop_oneof![
                4 => proptest::sample::select(b"\",;\n\r \t\0\xff".to_vec()),
                2 => proptest::sample::select(b"0123456789.-ea".to_vec()),
                1 => any::<u8>(),
            ], 0..400),
            separator in proptest::sample::select(b",;\t\0\xff \"\r\n".to_vec()), quoting: bool, width in 1usize..5,
        ) {
            let dialect = dialect(separator, quoting, false, width);
            let chunk = lines(&text);
            let (fast, slow) = (Fields::of(&chunk, dialect), Fields::one_by_one(&chunk, dialect));
            prop_assert_eq!(records(&chunk, dialect, fast), records(&chunk, dialect, slow));
        }

        /// So they are where most rows are as they should be.
        #[test]
        fn quoted_tables_have_the_same_cells(
            rows in proptest::collection::vec(proptest::collection::vec("[a1.5]{0,9}|\"[a, ]{0,9}\"|\"[a\",]{0,9}\"|\"a\"b|-?[0-9]{1,6}[.][0-9]{0,8}", 3), 0..40),
            crlf: bool, last: bool,
        ) {
            let end = if crlf { "\r\n" } else { "\n" };
            let mut text = rows.iter().map(|row| row.join(",")).collect::<Vec<_>>().join(end);
            if last {
                text += end;
            }
            let (chunk, dialect) = (lines(text.as_bytes()), dialect(b',', true, false, 3));
            let (fast, slow) = (Fields::of(&chunk, dialect), Fields::one_by_one(&chunk, dialect));
            prop_assert_eq!(records(&chunk, dialect, fast), records(&chunk, dialect, slow));
        }
    }
}
