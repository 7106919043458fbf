//! Comma- and tab-separated text: quotes on request, white space around fields dropped, ragged rows kept as they are.

use super::text_block::{Dialect, TextBlock};
use super::text_rows::{RowEnd, TextRows, split_fields};
use super::{Column, MAX_COLUMNS, ReadOptions, Stored, TableReader, Visit, checked_names};
use crate::cell::Rules;
use crate::error::{DataError, Fault};
use crate::source::{Source, Zip};

/// Longest name of a column in a header.
const NAME_BYTES: usize = 200;

/// First field that is no name but a number, a mark of a missing value or a long text. The positions 0, 1, 2, … or 1, 2, 3, … as
/// names are fine.
fn looks_like_data(names: &[String]) -> Option<usize> {
    let counts_from = |start: usize| names.iter().enumerate().all(|(i, name)| *name == (start + i).to_string());
    if counts_from(0) || counts_from(1) {
        return None;
    }
    let missing = |name: &str| !name.is_empty() && Rules::First.is_missing(name.as_bytes());
    names
        .iter()
        .position(|name| name.len() > NAME_BYTES || name.parse::<f64>().is_ok_and(f64::is_finite) || missing(name))
}

pub(crate) struct Delimited {
    source: Source,
    separator: u8,
    quoting: bool,
    header: bool,
    quoted_newlines: bool,
    columns: Vec<Column>,
}

impl Delimited {
    pub(crate) fn open(source: Source, separator: u8, quoting: bool, options: &ReadOptions) -> Result<Self, DataError> {
        let quoting = options.quoting.unwrap_or(quoting);
        let mut table = Self {
            source,
            separator: options.separator.unwrap_or(separator),
            quoting,
            header: options.header,
            quoted_newlines: quoting && options.quoted_newlines,
            columns: Vec::new(),
        };
        let mut rows = table.all_rows()?;
        let names = if table.header {
            if !next_header(&mut rows)? {
                return Err(DataError::Empty { source_name: table.source.name() });
            }
            table.names(&rows)?
        } else {
            // how many fields the first row has is a fact about a record
            let given = options.columns.ok_or(DataError::ColumnsUnknown)?;
            if given == 0 || given > MAX_COLUMNS {
                return Err(DataError::ColumnsOutOfRange { given, limit: MAX_COLUMNS });
            }
            (1..=given).map(|i| format!("c{i}")).collect()
        };
        drop(rows);
        let unnamed = |name: &String| if name.is_empty() { Stored::Unnamed } else { Stored::Unknown };
        let stored: Vec<Stored> = names.iter().map(unnamed).collect();
        table.columns =
            checked_names(names)?.into_iter().zip(stored).map(|(name, stored)| Column { name, stored }).collect();
        Ok(table)
    }

    /// The fields of the header, which is the current row.
    fn names(&self, rows: &TextRows<'_>) -> Result<Vec<String>, DataError> {
        let bad = |reason: Fault| DataError::BadHeader { source_name: self.source.name(), reason };
        let line = rows.content().ok_or_else(|| bad("is longer than 64 MiB".into()))?;
        if line.starts_with(&[0xff, 0xfe]) || line.starts_with(&[0xfe, 0xff]) || line.contains(&0) {
            return Err(bad("is not UTF-8 text, it looks like UTF-16; save the file as UTF-8".into()));
        }
        if !self.quoted_newlines && line.contains(&b'\r') {
            return Err(bad("holds a carriage return; lines must end in a line feed, so convert the file".into()));
        }
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        if split_fields(line, self.separator, self.quoting, usize::MAX, &mut bytes, &mut ends).is_none() {
            return Err(bad(Fault::OpenQuote));
        }
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let names = starts
            .zip(&ends)
            .map(|(from, &to)| String::from_utf8(bytes[from..to].trim_ascii().to_vec()))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| bad("is not UTF-8 text; save the file as UTF-8".into()))?;
        match looks_like_data(&names) {
            Some(i) => {
                let source_name = self.source.name();
                Err(DataError::HeaderLooksLikeData { source_name, position: i + 1, limit: NAME_BYTES })
            }
            None => Ok(names),
        }
    }

    /// All rows from the beginning of the file, the header among them.
    fn all_rows(&self) -> Result<TextRows<'_>, DataError> {
        // without a header the first bytes are a record's and may say nothing about the others
        let zip = if self.header { Zip::ByFirstBytes } else { Zip::ByName };
        let end = if self.quoted_newlines { RowEnd::LineBreakOutsideQuotes(self.separator) } else { RowEnd::LineBreak };
        TextRows::open(&self.source, zip, end)
    }

    /// The data rows: after the header if there is one.
    pub(super) fn rows(&self) -> Result<TextRows<'_>, DataError> {
        let mut rows = self.all_rows()?;
        if self.header {
            next_header(&mut rows)?;
            rows.count = 0;
        }
        Ok(rows)
    }

    /// The header's line as it is; empty without one.
    pub(super) fn header(&self) -> Result<Vec<u8>, DataError> {
        let mut rows = self.all_rows()?;
        let found = self.header && next_header(&mut rows)?;
        Ok(if found { rows.raw().unwrap_or_default().to_vec() } else { Vec::new() })
    }
}

/// Goes to the header: the first line that is not blank. What stands before it is no record.
fn next_header(rows: &mut TextRows<'_>) -> Result<bool, DataError> {
    while rows.advance()? {
        if rows.content().is_none_or(|line| !line.trim_ascii().is_empty()) {
            return Ok(true);
        }
    }
    Ok(false)
}

impl TableReader for Delimited {
    fn name(&self) -> String {
        self.source.name()
    }

    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn quotes_join_lines(&self) -> bool {
        self.quoted_newlines
    }

    fn count_rows(&self) -> Result<u64, DataError> {
        self.rows()?.count_rest()
    }

    fn for_each_block(&self, visit: &mut Visit<'_>) -> Result<(), DataError> {
        let (mut rows, width) = (self.rows()?, self.columns.len());
        let Self { separator, quoting, quoted_newlines, .. } = *self;
        let dialect = Dialect { separator, quoting, quoted_newlines, width };
        let mut first_row = 0;
        while let Some(chunk) = rows.chunk()? {
            visit(Box::new(TextBlock::new(first_row, chunk, dialect)))?;
            first_row = rows.count;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::{DataError, Field, Format, ReadOptions, open_bytes};

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
                            Field::Missing if block.width(r) != table.columns().len() => "-".into(),
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
    fn white_space_marks_and_line_ends_are_dropped() {
        let bytes = "\u{feff} \r\nage , income\r\n39, <=50K \r\n50,>50K".as_bytes();
        let rows = cells(bytes, Format::Csv, &ReadOptions::default()).unwrap();
        assert_eq!(rows, [["age", "income"], ["39", "<=50K"], ["50", ">50K"]]);
    }

    #[test]
    fn a_blank_line_is_a_row() {
        // a record's line may be blank, and how many rows there are is public
        let table = open_bytes(b"a,b\n1,2\n\n \n3,4\n\n".to_vec(), Format::Csv, &ReadOptions::default()).unwrap();
        assert_eq!(table.count_rows().unwrap(), 5);
        let mut faults = Vec::new();
        table
            .for_each_block(&mut |block| {
                faults.extend((0..block.len()).map(|r| block.fault(r)));
                Ok(())
            })
            .unwrap();
        let blank = Some("is a blank line; remove it".into());
        assert_eq!(faults, [None, blank, blank, None, blank]);
        assert_eq!(cells(b"a\n1\n\n2\n", Format::Csv, &ReadOptions::default()).unwrap(), [["a"], ["1"], [""], ["2"]]);
    }

    #[test]
    fn without_a_header_the_number_of_columns_is_declared() {
        let open = |text: &[u8], columns| {
            let options = ReadOptions { header: false, columns, ..ReadOptions::default() };
            open_bytes(text.to_vec(), Format::Csv, &options)
        };
        assert!(matches!(open(b"1,2\n", None).err(), Some(DataError::ColumnsUnknown)));
        for given in [0, u64::MAX] {
            assert!(matches!(open(b"1,2\n", Some(given)).err(), Some(DataError::ColumnsOutOfRange { .. })));
        }
        // whatever the first row is
        for first in ["1,2", "1", "1,2,3", "", "\"", "\0"] {
            let table = open(format!("{first}\n1,2\n").as_bytes(), Some(2)).unwrap();
            assert_eq!(table.columns().iter().map(|c| &c.name[..]).collect::<Vec<_>>(), ["c1", "c2"]);
            assert_eq!(table.count_rows().unwrap(), 2);
        }
    }

    #[test]
    fn a_header_that_says_the_rows_end_elsewhere_is_refused() {
        for text in ["a,b\r1,2\r3,4\r", "a,\"b\n1,2\n"] {
            let error = cells(text.as_bytes(), Format::Csv, &ReadOptions::default()).unwrap_err();
            assert!(matches!(error, DataError::BadHeader { .. }), "{error}");
        }
    }

    #[test]
    fn quotes_are_read_in_csv_and_plain_in_tsv() {
        let quoted = ReadOptions { quoted_newlines: true, ..ReadOptions::default() };
        let rows = cells(b"a,b\n\"x,\"\"y\"\"\n\",1\n", Format::Csv, &quoted).unwrap();
        assert_eq!(rows[1], ["x,\"y\"", "1"]);
        let no_header = ReadOptions { header: false, columns: Some(2), ..ReadOptions::default() };
        let rows = cells(b"ham\t\"so he said\nspam\tfree\rnow\n", Format::Tsv, &no_header).unwrap();
        assert_eq!(rows, [["c1", "c2"], ["ham", "\"so he said"], ["spam", "free\rnow"]]);
    }

    #[test]
    fn an_unclosed_quote_concerns_its_line_only() {
        for quoted_newlines in [false, true] {
            let options = ReadOptions { quoted_newlines, ..ReadOptions::default() };
            for text in ["a,b\n1,2\n3,\"4\n5,6\n", "a,b\n1,2\n3,\"4\n5,6"] {
                let read = cells(text.as_bytes(), Format::Csv, &options);
                if quoted_newlines {
                    assert!(matches!(read.unwrap_err(), DataError::UnbalancedQuote { row: 2 }), "{text:?}");
                } else {
                    assert_eq!(read.unwrap()[1..], [vec!["1", "2"], vec![], vec!["5", "6"]], "{text:?}");
                }
            }
            assert_eq!(
                cells(b"a,b\n1,\"2\n\"\n", Format::Csv, &options).unwrap().len(),
                if quoted_newlines { 2 } else { 3 }
            );
        }
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
        assert!(matches!(cells(b"a,\xff\n", Format::Csv, &ReadOptions::default()), Err(DataError::BadHeader { .. })));
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
        let schema = crate::Schema::from_toml("[age]\nlower = 0\nupper = 9\n").unwrap();
        let error = schema.resolve(table.columns(), Some("income")).unwrap_err().to_string();
        assert!(error.contains("pass `separator` = ';'"), "{error}");
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
        assert!(matches!(
            cells(&zipped[..7], Format::Csv, &ReadOptions::default()),
            Err(DataError::DamagedGzip { .. })
        ));
    }
}
