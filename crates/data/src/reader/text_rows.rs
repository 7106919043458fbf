//! Where the rows of a text table end: at every line break or, on request, at every line break outside quotes.
//!
//! A line break is `\n`; a `\r` before it belongs to it. Every line is a row, a blank one too: whether a line is blank is a fact
//! about one record, and the number of rows must not depend on it. What follows the last line break is a row if it has a byte.

use std::io::{self, BufRead, Read};

use super::{BLOCK_ROWS, ROW_BYTES};
use crate::error::DataError;
use crate::source::{Source, Zip};

/// What ends a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum RowEnd {
    /// A line break, whatever stands before it.
    LineBreak,
    /// A line break outside quotes; a quote opens at the beginning of a field, which follows this separator.
    LineBreakOutsideQuotes(u8),
}

/// Bytes of a chunk of rows, so that a chunk and what becomes of it stay in the processor's cache; its last row may take it further.
const CHUNK_BYTES: usize = 1 << 17;
/// Bytes in which line breaks are counted together.
const PIECE: usize = 1 << 12;

/// Consecutive rows as they stand in the file, with their line ends.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    pub(super) bytes: Vec<u8>,
    pub(super) rows: usize,
    /// Where the rows end, if not at each line break.
    pub(super) ends: Option<Vec<usize>>,
    /// It stands for one row that is too long, and has no bytes.
    pub(super) is_too_long: bool,
}

impl Chunk {
    /// No table of `width` columns has more fields here that are kept.
    pub(super) fn fields(&self, width: usize) -> usize {
        self.rows.saturating_mul(width).min(self.bytes.len() + self.rows)
    }

    /// Each row without its line end.
    pub(super) fn each_row(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.bytes.as_slice();
        let mut ends = self.ends.as_ref().map(|ends| ends.iter());
        let mut used = 0;
        std::iter::from_fn(move || {
            let length = match &mut ends {
                Some(ends) => *ends.next()? - used,
                None if rest.is_empty() => return None,
                None => rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |at| at + 1),
            };
            let (row, after) = rest.split_at(length);
            (rest, used) = (after, used + length);
            Some(without_line_end(row))
        })
    }
}

fn without_line_end(row: &[u8]) -> &[u8] {
    let row = row.strip_suffix(b"\n").unwrap_or(row);
    row.strip_suffix(b"\r").unwrap_or(row)
}

/// How many line breaks there are.
fn line_breaks(bytes: &[u8]) -> usize {
    // sums of few bytes fit into a byte, and many such sums are formed at once
    let few = |bytes: &[u8]| bytes.iter().map(|byte| u8::from(*byte == b'\n')).sum::<u8>();
    bytes.chunks(255).map(|bytes| usize::from(few(bytes))).sum()
}

/// A pass over the rows of a file, one in memory at a time, none longer than [`ROW_BYTES`].
pub(crate) struct TextRows<'a> {
    source: &'a Source,
    stream: Box<dyn BufRead + Send>,
    gzip: bool,
    end: RowEnd,
    /// The current row with its line end; empty if it is too long.
    row: Vec<u8>,
    too_long: bool,
    /// The row after the chunk that was returned is too long, and was skipped.
    long_next: bool,
    /// Rows returned so far.
    pub(crate) count: u64,
}

/// Where a pass over quoted fields is.
#[derive(Clone, Copy, PartialEq)]
enum Quotes {
    FieldStart,
    Outside,
    Inside,
    /// After a quote inside quotes: the end of the quoted part, or half of a doubled quote.
    Closing,
}

impl<'a> TextRows<'a> {
    pub(crate) fn open(source: &'a Source, zip: Zip, end: RowEnd) -> Result<Self, DataError> {
        let (stream, gzip) = source.open(zip)?;
        Ok(Self { source, stream, gzip, end, row: Vec::new(), too_long: false, long_next: false, count: 0 })
    }

    /// Goes to the next row; false at the end of the file.
    pub(crate) fn advance(&mut self) -> Result<bool, DataError> {
        self.row.clear();
        self.too_long = false;
        let step = match self.end {
            RowEnd::LineBreak => self.line(),
            RowEnd::LineBreakOutsideQuotes(separator) => self.quoted(separator),
        };
        match step {
            Ok(Some(Quotes::Inside)) => Err(DataError::UnbalancedQuote { row: self.count + 1 }),
            Ok(found) => {
                self.count += u64::from(found.is_some());
                Ok(found.is_some())
            }
            Err(error) => Err(self.source.error(&error, self.gzip)),
        }
    }

    /// The row without its line end; `None` if it is longer than [`ROW_BYTES`].
    pub(crate) fn content(&self) -> Option<&[u8]> {
        self.raw().map(without_line_end)
    }

    /// The row with its line end, byte for byte.
    pub(crate) fn raw(&self) -> Option<&[u8]> {
        (!self.too_long).then_some(&self.row)
    }

    /// Goes on to the end of the file; how many rows were left.
    pub(super) fn count_rest(&mut self) -> Result<u64, DataError> {
        let before = self.count;
        if self.end == RowEnd::LineBreak {
            self.count += self.line_breaks_left().map_err(|error| self.source.error(&error, self.gzip))?;
        } else {
            while self.advance()? {}
        }
        Ok(self.count - before)
    }

    fn line_breaks_left(&mut self) -> io::Result<u64> {
        let (mut rows, mut ended) = (0, true);
        loop {
            let input = filled(&mut self.stream)?;
            let Some(last) = input.last() else { return Ok(rows + u64::from(!ended)) };
            ended = *last == b'\n';
            rows += line_breaks(input) as u64;
            let used = input.len();
            self.stream.consume(used);
        }
    }

    /// The next rows, which end at line breaks or, on request, outside of quotes; `None` at the end of the file.
    pub(super) fn chunk(&mut self) -> Result<Option<Chunk>, DataError> {
        if std::mem::take(&mut self.long_next) {
            self.count += 1;
            return Ok(Some(Chunk { rows: 1, is_too_long: true, ..Chunk::default() }));
        }
        if self.end != RowEnd::LineBreak {
            return self.chunk_of_rows();
        }
        let chunk = self.lines().map_err(|error| self.source.error(&error, self.gzip))?;
        self.count += chunk.rows as u64;
        match chunk.rows {
            0 if self.long_next => self.chunk(),
            rows => Ok((rows > 0).then_some(chunk)),
        }
    }

    fn chunk_of_rows(&mut self) -> Result<Option<Chunk>, DataError> {
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        while ends.len() < BLOCK_ROWS && bytes.len() < CHUNK_BYTES && self.advance()? {
            match self.raw() {
                Some(row) => bytes.extend_from_slice(row),
                None if ends.is_empty() => {
                    return Ok(Some(Chunk { rows: 1, is_too_long: true, ..Chunk::default() }));
                }
                None => {
                    // counted again when it is returned
                    (self.long_next, self.count) = (true, self.count - 1);
                    break;
                }
            }
            ends.push(bytes.len());
        }
        let rows = ends.len();
        Ok((rows > 0).then_some(Chunk { bytes, rows, ends: Some(ends), is_too_long: false }))
    }

    /// Whole lines: [`CHUNK_BYTES`] and what is left of the last one, or fewer.
    fn lines(&mut self) -> io::Result<Chunk> {
        let mut bytes: Vec<u8> = Vec::with_capacity(CHUNK_BYTES + PIECE);
        // where the last line begins, once it is all that is waited for
        let (mut rows, mut last) = (0, None);
        loop {
            let input = filled(&mut self.stream)?;
            if input.is_empty() {
                rows += usize::from(bytes.last().is_some_and(|byte| *byte != b'\n'));
                break;
            }
            let piece = &input[..input.len().min(PIECE)];
            let room = CHUNK_BYTES.saturating_sub(bytes.len());
            let breaks = line_breaks(piece);
            let end = if rows + breaks >= BLOCK_ROWS {
                nth_line_break(piece, BLOCK_ROWS - rows)
            } else if piece.len() > room {
                piece[room..].iter().position(|byte| *byte == b'\n').map(|at| room + at + 1)
            } else {
                None
            };
            let taken = end.unwrap_or(piece.len());
            rows += if end.is_some() { line_breaks(&piece[..taken]) } else { breaks };
            bytes.extend_from_slice(&piece[..taken]);
            self.stream.consume(taken);
            if bytes.len() > CHUNK_BYTES {
                let begin = *last.get_or_insert_with(|| {
                    let before = &bytes[..bytes.len() - usize::from(end.is_some())];
                    before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)
                });
                if bytes.len() - begin > ROW_BYTES + usize::from(end.is_some()) {
                    bytes.truncate(begin);
                    bytes.shrink_to_fit();
                    self.long_next = true;
                    match end {
                        Some(_) => rows -= 1,
                        None => drop(self.stream.skip_until(b'\n')?),
                    }
                    break;
                }
            }
            if end.is_some() {
                break;
            }
        }
        Ok(Chunk { bytes, rows, ends: None, is_too_long: false })
    }

    fn line(&mut self) -> io::Result<Option<Quotes>> {
        let most = ROW_BYTES as u64 + 1;
        let got = (&mut self.stream).take(most).read_until(b'\n', &mut self.row)?;
        if got as u64 == most && !self.row.ends_with(b"\n") {
            self.give_up();
            self.stream.skip_until(b'\n')?;
        }
        Ok((got > 0).then_some(Quotes::Outside))
    }

    fn quoted(&mut self, separator: u8) -> io::Result<Option<Quotes>> {
        let (mut quotes, mut any) = (Quotes::FieldStart, false);
        loop {
            let input = match self.stream.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            };
            if input.is_empty() {
                return Ok(any.then_some(quotes));
            }
            any = true;
            let mut used = input.len();
            let mut ended = false;
            for (i, &byte) in input.iter().enumerate() {
                quotes = match (quotes, byte) {
                    (Quotes::Inside, b'"') => Quotes::Closing,
                    (Quotes::Inside, _) => Quotes::Inside,
                    (_, b'\n') => {
                        (used, ended) = (i + 1, true);
                        break;
                    }
                    (Quotes::FieldStart | Quotes::Closing, b'"') => Quotes::Inside,
                    (_, byte) if byte == separator => Quotes::FieldStart,
                    _ => Quotes::Outside,
                };
            }
            if !self.too_long {
                self.row.extend_from_slice(&input[..used]);
            }
            self.stream.consume(used);
            if self.row.len() > ROW_BYTES + 1 {
                self.give_up();
            }
            if ended {
                return Ok(Some(Quotes::Outside));
            }
        }
    }

    /// Drops what was kept of a row that is too long.
    fn give_up(&mut self) {
        self.row = Vec::new();
        self.too_long = true;
    }
}

/// What is read next; nothing at the end of the file.
fn filled<'s>(stream: &'s mut (dyn BufRead + Send + 'static)) -> io::Result<&'s [u8]> {
    while let Err(error) = stream.fill_buf() {
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    // what was filled is still there
    stream.fill_buf()
}

/// The end of the `n`-th line.
fn nth_line_break(bytes: &[u8], n: usize) -> Option<usize> {
    let breaks = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    breaks.map(|(at, _)| at + 1).nth(n.checked_sub(1)?)
}

/// Appends the first `most` fields of a row to `bytes`, each field's end to `ends`, and tells how many fields there are. With
/// `quoting`, fields in quotes lose them and doubled quotes inside are one; what follows a closing quote is taken as it is.
/// `None` if a quote is not closed within the row.
pub(crate) fn split_fields(
    row: &[u8],
    separator: u8,
    quoting: bool,
    most: usize,
    bytes: &mut Vec<u8>,
    ends: &mut Vec<usize>,
) -> Option<usize> {
    let (mut rest, mut found) = (row, 0);
    loop {
        let kept = found < most;
        let mut keep = |piece: &[u8]| {
            if kept {
                bytes.extend_from_slice(piece)
            }
        };
        if let [b'"', quoted @ ..] = rest
            && quoting
        {
            rest = quoted;
            loop {
                let at = rest.iter().position(|&byte| byte == b'"')?;
                keep(&rest[..at]);
                rest = &rest[at + 1..];
                let [b'"', more @ ..] = rest else { break };
                keep(b"\"");
                rest = more;
            }
        }
        let at = rest.iter().position(|&byte| byte == separator);
        keep(&rest[..at.unwrap_or(rest.len())]);
        if kept {
            ends.push(bytes.len());
        }
        found += 1;
        match at {
            Some(at) => rest = &rest[at + 1..],
            None => return Some(found),
        }
    }
}

/// Values between commas, those with a comma in quotes; without white space around them. `None` if a quote is not closed.
pub fn comma_separated(text: &str) -> Option<Vec<String>> {
    let (mut bytes, mut ends) = (Vec::new(), Vec::new());
    split_fields(text.as_bytes(), b',', true, usize::MAX, &mut bytes, &mut ends)?;
    let starts = std::iter::once(0).chain(ends.iter().copied());
    // fields end at commas and quotes, which no character holds in part
    Some(starts.zip(&ends).map(|(from, &to)| String::from_utf8_lossy(&bytes[from..to]).trim().to_string()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::Arc;

    fn rows(bytes: &[u8], end: RowEnd) -> Result<Vec<Vec<u8>>, DataError> {
        let source = Source::Memory(Arc::from(bytes));
        let mut rows = TextRows::open(&source, Zip::ByFirstBytes, end)?;
        let mut all = Vec::new();
        while rows.advance()? {
            all.push(rows.content().expect("short").to_vec());
        }
        assert_eq!(rows.count as usize, all.len());
        Ok(all)
    }

    #[test]
    fn every_line_is_a_row_a_blank_one_too() {
        let found = rows(b"a\n\n \r\nb\rc\n\"x\nlast", RowEnd::LineBreak).unwrap();
        assert_eq!(found, [&b"a"[..], b"", b" ", b"b\rc", b"\"x", b"last"]);
        assert!(rows(b"", RowEnd::LineBreak).unwrap().is_empty());
        assert_eq!(rows(b"\n", RowEnd::LineBreak).unwrap().len(), 1);
    }

    #[test]
    fn on_request_quotes_hide_line_breaks() {
        let end = RowEnd::LineBreakOutsideQuotes(b',');
        let found = rows(b"1,\"a\nb\"\n2,it \"is\n\"\"\"\n\",3\n\n", end).unwrap();
        assert_eq!(found, [&b"1,\"a\nb\""[..], b"2,it \"is", b"\"\"\"\n\",3", b""]);
        assert!(matches!(rows(b"1,2\n3,\"4\n5,6\n", end), Err(DataError::UnbalancedQuote { row: 2 })));
    }

    #[test]
    fn a_row_that_is_too_long_is_skipped_to_its_end() {
        for (end, fill) in [(RowEnd::LineBreak, b'"'), (RowEnd::LineBreakOutsideQuotes(b','), b'x')] {
            let mut bytes = b"1\n".to_vec();
            bytes.resize(2 + ROW_BYTES, fill);
            bytes.extend_from_slice(b"\n");
            bytes.resize(bytes.len() + ROW_BYTES + 1, fill);
            bytes.extend_from_slice(b"\n2\n");
            let source = Source::Memory(Arc::from(bytes));
            let mut rows = TextRows::open(&source, Zip::ByFirstBytes, end).unwrap();
            let mut lengths = Vec::new();
            while rows.advance().unwrap() {
                lengths.push(rows.content().map(<[u8]>::len));
            }
            assert_eq!(lengths, [Some(1), Some(ROW_BYTES), None, Some(1)]);
        }
    }

    #[test]
    fn lists_are_read_as_fields_are() {
        let read = |text: &str| comma_separated(text).unwrap();
        assert_eq!(read("-1,1"), ["-1", "1"]);
        assert_eq!(read("no,\"yes, sure\",\"a \"\"b\"\"\", ü"), ["no", "yes, sure", "a \"b\"", "ü"]);
        assert_eq!(comma_separated("no,\"yes"), None);
    }

    #[test]
    fn no_more_fields_are_kept_than_asked_for() {
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        let row = [&b"a,\"b\","[..], &[b','; 1000]].concat();
        assert_eq!(split_fields(&row, b',', true, 2, &mut bytes, &mut ends), Some(1003));
        assert_eq!((&bytes[..], &ends[..]), (&b"ab"[..], &[1, 2][..]));
        assert_eq!(split_fields(b"a,b,\"c", b',', true, 2, &mut bytes, &mut ends), None);
    }

    proptest! {
        /// The fields of one row are those that the `csv` crate finds.
        #[test]
        fn fields_are_those_of_the_csv_crate(row in "[ab,\"\\r é]{1,40}", quoting in any::<bool>()) {
            let mut reader = csv::ReaderBuilder::new()
                .has_headers(false)
                .quoting(quoting)
                .terminator(csv::Terminator::Any(b'\n'))
                .from_reader(row.as_bytes());
            let expected: Vec<Vec<u8>> = reader
                .byte_records()
                .flat_map(|record| record.unwrap().iter().map(<[u8]>::to_vec).collect::<Vec<_>>())
                .collect();
            let (mut bytes, mut ends) = (Vec::new(), Vec::new());
            if let Some(count) = split_fields(row.as_bytes(), b',', quoting, usize::MAX, &mut bytes, &mut ends) {
                prop_assert_eq!(count, ends.len());
                let starts = std::iter::once(0).chain(ends.iter().copied());
                let found: Vec<Vec<u8>> = starts.zip(&ends).map(|(from, &to)| bytes[from..to].to_vec()).collect();
                prop_assert_eq!(found, expected);
            } else {
                // the crate closes an open quote at the end of the file without a word; so does a quote added there
                prop_assert!(quoting && row.contains('"'));
            }
        }

        /// With quoted line breaks, rows end where the `csv` crate ends records (which drops blank lines).
        #[test]
        fn quoted_rows_are_those_of_the_csv_crate(text in "[ab,\"\\n]{0,60}") {
            let mut reader = csv::ReaderBuilder::new()
                .has_headers(false)
                .flexible(true)
                .terminator(csv::Terminator::Any(b'\n'))
                .from_reader(text.as_bytes());
            let expected: Vec<Vec<Vec<u8>>> =
                reader.byte_records().map(|record| record.unwrap().iter().map(<[u8]>::to_vec).collect()).collect();
            if let Ok(found) = rows(text.as_bytes(), RowEnd::LineBreakOutsideQuotes(b',')) {
                let fields = |row: &Vec<u8>| -> Vec<Vec<u8>> {
                    let (mut bytes, mut ends) = (Vec::new(), Vec::new());
                    assert!(split_fields(row, b',', true, 99, &mut bytes, &mut ends).is_some(), "rows end outside quotes");
                    let starts = std::iter::once(0).chain(ends.iter().copied());
                    starts.zip(&ends).map(|(from, &to)| bytes[from..to].to_vec()).collect()
                };
                let found: Vec<_> = found.iter().filter(|row| !row.is_empty()).map(fields).collect();
                prop_assert_eq!(found, expected);
            }
        }
    }
}
