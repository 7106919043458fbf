//! Comma- and tab-separated text: quotes on request, white space around fields dropped, ragged rows kept as they are.

use std::io::BufRead;

use csv_core::ReadRecordResult;

use super::source::Source;
use super::{BLOCK_BYTES, BLOCK_ROWS, Block, Column, Field, ROW_BYTES, ReadOptions, Stored, TableReader, Visit, checked_names};
use crate::data::error::DataError;

/// Appended to the stream after a line end: outside quotes it is a record of its own; inside an unclosed quote it ends
/// up at the end of the last field, which tells an unclosed quote from a field that really ends there.
const END_MARK: &[u8] = b"\n\0\x1fdpopt end of table\x1f\0";

/// Longest name of a column in a header.
const NAME_BYTES: usize = 200;

/// First field that is no name but a number or a long text. The positions 0, 1, 2, … or 1, 2, 3, … as names are fine.
fn looks_like_data(names: &[String]) -> Option<usize> {
    let counts_from = |start: usize| names.iter().enumerate().all(|(i, name)| *name == (start + i).to_string());
    if counts_from(0) || counts_from(1) {
        return None;
    }
    names.iter().position(|name| name.len() > NAME_BYTES || name.parse::<f64>().is_ok_and(f64::is_finite))
}

pub(crate) struct Delimited {
    source: Source,
    separator: u8,
    quoting: bool,
    header: bool,
    columns: Vec<Column>,
}

impl Delimited {
    pub(crate) fn open(source: Source, separator: u8, quoting: bool, options: &ReadOptions) -> Result<Self, DataError> {
        let mut table = Self {
            source,
            separator: options.separator.unwrap_or(separator),
            quoting: options.quoting.unwrap_or(quoting),
            header: options.header,
            columns: Vec::new(),
        };
        // the first record: its fields are the names or, without a header, only their number is looked at
        let mut first = TextBlock::new(0);
        if !table.records()?.next_into(&mut first)? {
            return Err(DataError::Empty { source_name: table.source.name() });
        }
        let names = if table.header {
            let names = (0..first.width(0))
                .map(|i| String::from_utf8(first.bytes_of(0, i).to_vec()))
                .collect::<Result<Vec<_>, _>>()
                .map_err(|_| DataError::HeaderNotText { source_name: table.source.name() })?;
            if let Some(i) = looks_like_data(&names) {
                let source_name = table.source.name();
                return Err(DataError::HeaderLooksLikeData { source_name, position: i + 1, limit: NAME_BYTES });
            }
            names
        } else {
            (1..=first.width(0)).map(|i| format!("c{i}")).collect()
        };
        table.columns = checked_names(names)?.into_iter().map(|name| Column { name, stored: Stored::Unknown }).collect();
        Ok(table)
    }

    /// All records from the beginning of the file, the header among them.
    fn records(&self) -> Result<Records<'_>, DataError> {
        let (stream, gzip) = self.source.open()?;
        let mut parser = csv_core::ReaderBuilder::new();
        parser.delimiter(self.separator).quoting(self.quoting);
        if !self.quoting {
            // a lone carriage return inside a text is not the end of a row
            parser.terminator(csv_core::Terminator::Any(b'\n'));
        }
        Ok(Records { table: self, gzip, stream, parser: parser.build(), tail: END_MARK, row: 0 })
    }

    /// The data rows: after the header if there is one.
    fn rows(&self) -> Result<Records<'_>, DataError> {
        let mut records = self.records()?;
        if self.header {
            records.next_into(&mut TextBlock::new(0))?;
            records.row = 0;
        }
        Ok(records)
    }
}

/// A pass over the records of a file.
struct Records<'a> {
    table: &'a Delimited,
    gzip: bool,
    stream: Box<dyn BufRead + Send>,
    parser: csv_core::Reader,
    /// What is left of the end mark.
    tail: &'static [u8],
    /// Records returned so far.
    row: u64,
}

impl Records<'_> {
    /// Appends the next record to `block`; false at the end of the table. Blank lines are not records.
    fn next_into(&mut self, block: &mut TextBlock) -> Result<bool, DataError> {
        loop {
            let (bytes, fields) = (block.used, block.fields);
            if !self.parse_into(block)? {
                return Ok(false);
            }
            let row = block.starts.len() - 1;
            let width = block.width(row);
            let last = block.raw(row, width - 1);
            if width == 1 && (last.trim_ascii().is_empty() || last == &END_MARK[1..]) {
                (block.used, block.fields) = (bytes, fields);
                block.starts.pop();
                continue;
            }
            if last.ends_with(END_MARK) {
                return Err(DataError::UnbalancedQuote { row: self.row + 1 });
            }
            self.row += 1;
            return Ok(true);
        }
    }

    /// One record of the parser, the end mark's own among them.
    fn parse_into(&mut self, block: &mut TextBlock) -> Result<bool, DataError> {
        let base = block.used;
        let first_field = block.fields;
        loop {
            let input = match self.stream.fill_buf() {
                Ok(input) => input,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(self.table.source.error(&error, self.gzip)),
            };
            let from_tail = input.is_empty();
            let input = if from_tail { self.tail } else { input };
            if block.bytes.len() < block.used + 256 {
                block.bytes.resize((block.bytes.len() * 2).max(1 << 12), 0);
            }
            if block.ends.len() < block.fields + 16 {
                block.ends.resize((block.ends.len() * 2).max(64), 0);
            }
            let (result, read, written, ended) =
                self.parser.read_record(input, &mut block.bytes[block.used..], &mut block.ends[block.fields..]);
            if from_tail {
                self.tail = &self.tail[read..];
            } else {
                self.stream.consume(read);
            }
            block.used += written;
            block.fields += ended;
            match result {
                ReadRecordResult::Record => {
                    // the parser counts field ends from the record's beginning
                    for end in &mut block.ends[first_field..block.fields] {
                        *end += base;
                    }
                    block.starts.push(first_field);
                    return Ok(true);
                }
                ReadRecordResult::End => {
                    (block.used, block.fields) = (base, first_field);
                    return Ok(false);
                }
                ReadRecordResult::InputEmpty | ReadRecordResult::OutputFull | ReadRecordResult::OutputEndsFull => {
                    if block.used - base > ROW_BYTES {
                        return Err(DataError::RowTooLong { row: self.row + 1, limit: ROW_BYTES });
                    }
                }
            }
        }
    }
}

impl TableReader for Delimited {
    fn name(&self) -> String {
        self.source.name()
    }

    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn count_rows(&self) -> Result<u64, DataError> {
        let mut rows = self.rows()?;
        let mut scratch = TextBlock::new(0);
        while rows.next_into(&mut scratch)? {
            scratch.clear();
        }
        Ok(rows.row)
    }

    fn for_each_block(&self, visit: &mut Visit<'_>) -> Result<(), DataError> {
        let mut rows = self.rows()?;
        loop {
            let mut block = TextBlock::new(rows.row);
            block.bytes.reserve(BLOCK_BYTES / 4);
            while block.starts.len() < BLOCK_ROWS && block.used < BLOCK_BYTES {
                if !rows.next_into(&mut block)? {
                    return if block.starts.is_empty() { Ok(()) } else { visit(Box::new(block)) };
                }
            }
            visit(Box::new(block))?;
        }
    }
}

/// Records as one piece of bytes with the ends of its fields.
struct TextBlock {
    first_row: u64,
    /// Field contents one after the other; `..used` is valid.
    bytes: Vec<u8>,
    used: usize,
    /// End of each field within `bytes`; `..fields` is valid.
    ends: Vec<usize>,
    fields: usize,
    /// First field of each record within `ends`.
    starts: Vec<usize>,
}

impl TextBlock {
    fn new(first_row: u64) -> Self {
        Self { first_row, bytes: Vec::new(), used: 0, ends: Vec::new(), fields: 0, starts: Vec::new() }
    }

    fn clear(&mut self) {
        (self.used, self.fields) = (0, 0);
        self.starts.clear();
    }

    /// A field with its white space.
    fn raw(&self, row: usize, column: usize) -> &[u8] {
        let field = self.starts[row] + column;
        let from = if field == 0 { 0 } else { self.ends[field - 1] };
        &self.bytes[from..self.ends[field]]
    }

    fn bytes_of(&self, row: usize, column: usize) -> &[u8] {
        self.raw(row, column).trim_ascii()
    }
}

impl Block for TextBlock {
    fn first_row(&self) -> u64 {
        self.first_row
    }

    fn len(&self) -> usize {
        self.starts.len()
    }

    fn width(&self, row: usize) -> usize {
        self.starts.get(row + 1).copied().unwrap_or(self.fields) - self.starts[row]
    }

    fn field(&self, row: usize, column: usize) -> Field<'_> {
        if column < self.width(row) { Field::Text(self.bytes_of(row, column)) } else { Field::Missing }
    }
}

#[cfg(test)]
mod tests {
    use crate::data::{DataError, Field, Format, ReadOptions, open_bytes};

    fn cells(bytes: &[u8], format: Format, options: &ReadOptions) -> Result<Vec<Vec<String>>, DataError> {
        let table = open_bytes(bytes.to_vec(), format, options)?;
        let mut rows = vec![table.columns().iter().map(|c| c.name.clone()).collect::<Vec<_>>()];
        table.for_each_block(&mut |block| {
            for r in 0..block.len() {
                assert_eq!(block.first_row() as usize + r, rows.len() - 1);
                rows.push(
                    (0..block.width(r))
                        .map(|c| match block.field(r, c) {
                            Field::Text(t) => String::from_utf8_lossy(t).into_owned(),
                            other => panic!("delimited cells are text, not {other:?}"),
                        })
                        .collect(),
                );
            }
            Ok(())
        })?;
        assert_eq!(table.count_rows()? as usize, rows.len() - 1);
        Ok(rows)
    }

    #[test]
    fn white_space_marks_blank_lines_and_line_ends_are_dropped() {
        let bytes = "\u{feff}age , income\r\n39, <=50K \r\n\r\n  \n50,>50K".as_bytes();
        let rows = cells(bytes, Format::Csv, &ReadOptions::default()).unwrap();
        assert_eq!(rows, [["age", "income"], ["39", "<=50K"], ["50", ">50K"]]);
    }

    #[test]
    fn quotes_are_read_in_csv_and_plain_in_tsv() {
        let rows = cells(b"a,b\n\"x,\"\"y\"\"\n\",1\n", Format::Csv, &ReadOptions::default()).unwrap();
        assert_eq!(rows[1], ["x,\"y\"", "1"]);
        let no_header = ReadOptions { header: false, ..ReadOptions::default() };
        let rows = cells(b"ham\t\"so he said\nspam\tfree\rnow\n", Format::Tsv, &no_header).unwrap();
        assert_eq!(rows, [["c1", "c2"], ["ham", "\"so he said"], ["spam", "free\rnow"]]);
    }

    #[test]
    fn an_unclosed_quote_is_found_at_its_row() {
        for text in ["a,b\n1,2\n3,\"4\n5,6\n", "a,b\n1,2\n3,\"4\n5,6", "a\n1\n\"x"] {
            let error = cells(text.as_bytes(), Format::Csv, &ReadOptions::default()).unwrap_err();
            assert!(matches!(error, DataError::UnbalancedQuote { row: 2 }), "{text:?}: {error}");
        }
        assert!(cells(b"a,b\n1,\"2\n\"\n", Format::Csv, &ReadOptions::default()).is_ok());
        assert!(cells(b"a,b\n1,\"2\n\"", Format::Csv, &ReadOptions::default()).is_ok());
    }

    #[test]
    fn ragged_rows_keep_their_width() {
        let rows = cells(b"a,b\n1\n1,2,3\n", Format::Csv, &ReadOptions::default()).unwrap();
        assert_eq!((rows[1].len(), rows[2].len()), (1, 3));
    }

    #[test]
    fn empty_header_only_and_doubled_names() {
        assert!(matches!(cells(b"", Format::Csv, &ReadOptions::default()), Err(DataError::Empty { .. })));
        assert!(matches!(cells(b"\n \n", Format::Csv, &ReadOptions::default()), Err(DataError::Empty { .. })));
        assert_eq!(cells(b"a,b\n", Format::Csv, &ReadOptions::default()).unwrap().len(), 1);
        assert_eq!(cells(b"a,b", Format::Csv, &ReadOptions::default()).unwrap().len(), 1);
        let doubled = cells(b"a,b, a\n", Format::Csv, &ReadOptions::default()).unwrap_err();
        assert!(matches!(doubled, DataError::DuplicateColumn { first: 1, second: 3, .. }));
        assert!(matches!(
            cells(b"a,\xff\n", Format::Csv, &ReadOptions::default()),
            Err(DataError::HeaderNotText { .. })
        ));
        assert_eq!(cells(b",b\n1,2\n", Format::Csv, &ReadOptions::default()).unwrap()[0], ["c1", "b"]);
    }

    #[test]
    fn a_record_is_not_taken_for_a_header() {
        for text in ["39,State-gov\n", "a,-1.5e3\n", &format!("spam,{}\n", "x".repeat(300))] {
            let error = cells(text.as_bytes(), Format::Csv, &ReadOptions::default()).unwrap_err();
            assert!(matches!(error, DataError::HeaderLooksLikeData { .. }), "{error}");
            assert!(!error.to_string().contains("State") && !error.to_string().contains("xx"));
        }
        for header in ["0,1,2", "1,2", "a,nan,x1", "inf,b"] {
            assert!(cells(header.as_bytes(), Format::Csv, &ReadOptions::default()).is_ok(), "{header}");
        }
    }

    #[test]
    fn another_separator_is_suggested_and_read() {
        let table = open_bytes(b"age;income\n3;low\n".to_vec(), Format::Csv, &ReadOptions::default()).unwrap();
        let schema = crate::data::Schema::from_toml("[age]\nlower = 0\nupper = 9\n").unwrap();
        let error = schema.resolve(table.columns(), Some("income")).unwrap_err().to_string();
        assert!(error.contains("--separator ';'"), "{error}");
        let options = ReadOptions { separator: Some(b';'), ..ReadOptions::default() };
        assert_eq!(cells(b"age;income\n3;low\n", Format::Csv, &options).unwrap()[1], ["3", "low"]);
    }

    #[test]
    fn many_rows_cross_block_borders() {
        let mut text = String::from("a,b\n");
        for i in 0..5000 {
            text.push_str(&format!("{i},{}\n", "x".repeat(i % 700)));
        }
        let rows = cells(text.as_bytes(), Format::Csv, &ReadOptions::default()).unwrap();
        assert_eq!(rows.len(), 5001);
        assert!((0..5000).all(|i| rows[i + 1] == [i.to_string(), "x".repeat(i % 700)]));
    }

    #[test]
    fn gzip_is_seen_by_its_first_bytes_and_a_cut_one_is_an_error() {
        use std::io::Write;
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        let mut text = String::from("a,b\n");
        for i in 0..3000 {
            text.push_str(&format!("{i},{}\n", i * i));
        }
        encoder.write_all(text.as_bytes()).unwrap();
        let zipped = encoder.finish().unwrap();
        assert_eq!(cells(&zipped, Format::Csv, &ReadOptions::default()).unwrap().len(), 3001);
        let cut = &zipped[..zipped.len() / 2];
        assert!(matches!(cells(cut, Format::Csv, &ReadOptions::default()), Err(DataError::DamagedGzip { .. })));
        assert!(matches!(cells(&zipped[..7], Format::Csv, &ReadOptions::default()), Err(DataError::DamagedGzip { .. })));
    }
}
