//! LIBSVM lines `label index:value …`: the number of features is declared, never counted.
//!
//! A table of two columns, `label` (a number) and `features` (a sparse vector).

use std::io::BufRead;

use super::source::Source;
use super::{BLOCK_BYTES, BLOCK_ROWS, Block, Column, Field, MAX_FEATURES, ROW_BYTES, ReadOptions, Stored, TableReader, Visit};
use crate::data::error::DataError;

pub(crate) struct Libsvm {
    source: Source,
    features: u32,
    zero_based: bool,
    columns: Vec<Column>,
}

impl Libsvm {
    pub(crate) fn open(source: Source, options: &ReadOptions) -> Result<Self, DataError> {
        let given = options.features.ok_or(DataError::FeaturesUnknown)?;
        if given == 0 || given > MAX_FEATURES {
            return Err(DataError::FeaturesOutOfRange { given, limit: MAX_FEATURES });
        }
        source.open()?; // a missing file is reported now and not after planning
        let features = given as u32;
        let columns = vec![
            Column { name: "label".into(), stored: Stored::Number },
            Column { name: "features".into(), stored: Stored::Sparse(features) },
        ];
        Ok(Self { source, features, zero_based: options.zero_based, columns })
    }

    fn lines(&self) -> Result<Lines<'_>, DataError> {
        let (stream, gzip) = self.source.open()?;
        Ok(Lines { table: self, stream, gzip, line: Vec::new(), row: 0 })
    }

    /// Label and pairs of a line; the pairs are appended to `entries`.
    fn parse(&self, line: &[u8], entries: &mut Vec<(u32, f32)>) -> (Label, Option<&'static str>) {
        let mut tokens = line.split(u8::is_ascii_whitespace).filter(|t| !t.is_empty());
        let label = match tokens.next().map(number) {
            Some(Some(value)) => Label::Number(value),
            _ => Label::Malformed,
        };
        let mut bad = None;
        for token in tokens {
            if token.starts_with(b"qid:") {
                continue;
            }
            match self.pair(token) {
                Ok(pair) => entries.push(pair),
                Err(reason) => bad = bad.or(Some(reason)),
            }
        }
        (label, bad)
    }

    fn pair(&self, token: &[u8]) -> Result<(u32, f32), &'static str> {
        let colon = token.iter().position(|&b| b == b':').ok_or("a feature is not of the form index:value")?;
        let index = std::str::from_utf8(&token[..colon]).ok().and_then(|t| t.parse::<u64>().ok());
        let index = index.ok_or("a feature index is not a whole number")?;
        let value = number(&token[colon + 1..]).map(|v| v as f32).filter(|v| v.is_finite());
        let value = value.ok_or("a feature value is not a finite number")?;
        let index = if self.zero_based {
            index
        } else {
            index.checked_sub(1).ok_or("a feature has index 0 (pass --zero-based if indices start at 0)")?
        };
        if index >= u64::from(self.features) {
            return Err("a feature index is beyond the declared --features");
        }
        Ok((index as u32, value))
    }
}

fn number(token: &[u8]) -> Option<f64> {
    std::str::from_utf8(token).ok()?.parse::<f64>().ok()
}

struct Lines<'a> {
    table: &'a Libsvm,
    stream: Box<dyn BufRead + Send>,
    gzip: bool,
    line: Vec<u8>,
    row: u64,
}

impl Lines<'_> {
    /// Reads the next record's line, without its comment; false at the end. Blank lines are not records.
    fn advance(&mut self) -> Result<bool, DataError> {
        use std::io::Read;
        loop {
            self.line.clear();
            let limit = ROW_BYTES as u64 + 1;
            let got = (&mut self.stream).take(limit).read_until(b'\n', &mut self.line);
            let got = got.map_err(|e| self.table.source.error(&e, self.gzip))?;
            if got == 0 {
                return Ok(false);
            }
            if got > ROW_BYTES {
                return Err(DataError::RowTooLong { row: self.row + 1, limit: ROW_BYTES });
            }
            if let Some(comment) = self.line.iter().position(|&b| b == b'#') {
                self.line.truncate(comment);
            }
            if !self.line.trim_ascii().is_empty() {
                self.row += 1;
                return Ok(true);
            }
        }
    }
}

impl TableReader for Libsvm {
    fn name(&self) -> String {
        self.source.name()
    }

    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn count_rows(&self) -> Result<u64, DataError> {
        let mut lines = self.lines()?;
        while lines.advance()? {}
        Ok(lines.row)
    }

    fn for_each_block(&self, visit: &mut Visit<'_>) -> Result<(), DataError> {
        let mut lines = self.lines()?;
        loop {
            let mut block = SparseBlock { first_row: lines.row, ..SparseBlock::default() };
            let mut more = true;
            while block.labels.len() < BLOCK_ROWS && block.entries.len() * 8 < BLOCK_BYTES {
                more = lines.advance()?;
                if !more {
                    break;
                }
                let (label, bad) = self.parse(&lines.line, &mut block.entries);
                block.labels.push(label);
                block.bad.push(bad);
                block.ends.push(block.entries.len());
            }
            if !block.labels.is_empty() {
                visit(Box::new(block))?;
            }
            if !more {
                return Ok(());
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Label {
    Number(f64),
    Malformed,
}

#[derive(Default)]
struct SparseBlock {
    first_row: u64,
    labels: Vec<Label>,
    bad: Vec<Option<&'static str>>,
    entries: Vec<(u32, f32)>,
    ends: Vec<usize>,
}

impl Block for SparseBlock {
    fn first_row(&self) -> u64 {
        self.first_row
    }

    fn len(&self) -> usize {
        self.labels.len()
    }

    fn width(&self, _row: usize) -> usize {
        2
    }

    fn field(&self, row: usize, column: usize) -> Field<'_> {
        match column {
            0 => match self.labels[row] {
                Label::Number(value) => Field::Number(value),
                Label::Malformed => Field::Malformed("the label is not a number"),
            },
            1 => match self.bad[row] {
                Some(reason) => Field::Malformed(reason),
                None => {
                    let from = if row == 0 { 0 } else { self.ends[row - 1] };
                    Field::Sparse(&self.entries[from..self.ends[row]])
                }
            },
            _ => Field::Missing,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::data::{DataError, Field, Format, ReadOptions, open_bytes};

    fn options(features: u64) -> ReadOptions {
        ReadOptions { features: Some(features), ..ReadOptions::default() }
    }

    #[test]
    fn the_dimension_must_be_declared() {
        let open = |o: &ReadOptions| open_bytes(b"+1 1:2\n".to_vec(), Format::Libsvm, o).err();
        assert!(matches!(open(&ReadOptions::default()), Some(DataError::FeaturesUnknown)));
        assert!(matches!(open(&options(0)), Some(DataError::FeaturesOutOfRange { .. })));
        assert!(matches!(open(&options(u64::MAX)), Some(DataError::FeaturesOutOfRange { .. })));
        assert!(open(&options(1)).is_none());
    }

    #[test]
    fn lines_labels_comments_and_faults() {
        let text = b"+1 1:0.5 3:-2 # note\n\n-1\n0 3:1 1:1 1:1\nx 1:1\n1 4:1\n1 0:1\n1 a\n1 1:nan\n2 qid:7 2:1";
        let table = open_bytes(text.to_vec(), Format::Libsvm, &options(3)).unwrap();
        assert_eq!(table.count_rows().unwrap(), 9);
        let mut seen = Vec::new();
        table
            .for_each_block(&mut |b| {
                for r in 0..b.len() {
                    seen.push(match (b.field(r, 0), b.field(r, 1)) {
                        (Field::Number(y), Field::Sparse(x)) => format!("{y} {x:?}"),
                        (_, Field::Malformed(_)) => "bad row".into(),
                        (Field::Malformed(_), _) => "bad label".into(),
                        other => panic!("{other:?}"),
                    });
                }
                Ok(())
            })
            .unwrap();
        let expected = [
            "1 [(0, 0.5), (2, -2.0)]",
            "-1 []",
            "0 [(2, 1.0), (0, 1.0), (0, 1.0)]",
            "bad label",
            "bad row",
            "bad row",
            "bad row",
            "bad row",
            "2 [(1, 1.0)]",
        ];
        assert_eq!(seen, expected);
    }
}
