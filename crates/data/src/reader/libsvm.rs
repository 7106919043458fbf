//! LIBSVM lines `label index:value …`: the number of features is declared, never counted.
//!
//! A table of two columns, `label` (a number) and `features` (a sparse vector).

use super::text_rows::{RowEnd, TextRows};
use super::{BLOCK_BYTES, BLOCK_ROWS, Block, Column, Field, MAX_FEATURES, ReadOptions, Stored, TableReader, Visit};
use crate::error::{DataError, Fault};
use crate::source::{Source, Zip};

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
        source.open(Zip::ByName)?; // a missing file is reported now and not after planning
        let features = given as u32;
        let columns = vec![
            Column { name: "label".into(), stored: Stored::Number },
            Column { name: "features".into(), stored: Stored::Sparse(features) },
        ];
        Ok(Self { source, features, zero_based: options.zero_based, columns })
    }

    /// Every line is a row; a blank one, or one with a comment only, is a row that can't be read.
    pub(super) fn rows(&self) -> Result<TextRows<'_>, DataError> {
        TextRows::open(&self.source, Zip::ByName, RowEnd::LineBreak)
    }

    /// Label and pairs of a line; the pairs are appended to `entries`.
    fn parse(&self, line: &[u8], entries: &mut Vec<(u32, f32)>) -> (Label, Option<Fault>) {
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

    fn pair(&self, token: &[u8]) -> Result<(u32, f32), Fault> {
        let colon = token.iter().position(|&b| b == b':').ok_or("a feature is not of the form index:value")?;
        let index = std::str::from_utf8(&token[..colon]).ok().and_then(|t| t.parse::<u64>().ok());
        let index = index.ok_or("a feature index is not a whole number")?;
        let value = number(&token[colon + 1..]).map(|v| v as f32).filter(|v| v.is_finite());
        let value = value.ok_or("a feature value is not a finite number")?;
        let index = if self.zero_based { index } else { index.checked_sub(1).ok_or(Fault::IndexZero)? };
        if index >= u64::from(self.features) {
            return Err(BEYOND.into());
        }
        Ok((index as u32, value))
    }
}

/// The reason of a row with an index that no feature has.
const BEYOND: &str = "a feature index is above the declared number of features";

fn number(token: &[u8]) -> Option<f64> {
    std::str::from_utf8(token).ok()?.parse::<f64>().ok()
}

impl TableReader for Libsvm {
    fn name(&self) -> String {
        self.source.name()
    }

    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn count_rows(&self) -> Result<u64, DataError> {
        self.rows()?.count_rest()
    }

    fn for_each_block(&self, visit: &mut Visit<'_>) -> Result<(), DataError> {
        let mut rows = self.rows()?;
        loop {
            let mut block = SparseBlock { first_row: rows.count, ..SparseBlock::default() };
            while block.labels.len() < BLOCK_ROWS && block.entries.len() * size_of::<(u32, f32)>() < BLOCK_BYTES {
                if !rows.advance()? {
                    return if block.labels.is_empty() { Ok(()) } else { visit(Box::new(block)) };
                }
                let line = rows.content().map(|line| line.split(|&b| b == b'#').next().unwrap_or_default());
                let (label, bad) = match line {
                    None => (Label::Unreadable(super::TOO_LONG.into()), None),
                    Some(line) if line.trim_ascii().is_empty() => {
                        (Label::Unreadable("is blank or a comment; remove the line".into()), None)
                    }
                    Some(line) => self.parse(line, &mut block.entries),
                };
                block.labels.push(label);
                block.bad.push(bad);
                block.ends.push(block.entries.len());
            }
            visit(Box::new(block))?;
        }
    }
}

#[derive(Clone, Copy)]
enum Label {
    Number(f64),
    Malformed,
    /// So is the whole row.
    Unreadable(Fault),
}

#[derive(Default)]
struct SparseBlock {
    first_row: u64,
    labels: Vec<Label>,
    bad: Vec<Option<Fault>>,
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

    fn bytes(&self) -> usize {
        self.entries.len() * size_of::<(u32, f32)>()
    }

    fn width(&self, _row: usize) -> usize {
        2
    }

    fn fault(&self, row: usize) -> Option<Fault> {
        match self.labels[row] {
            Label::Unreadable(reason) => Some(reason),
            _ => None,
        }
    }

    fn field(&self, row: usize, column: usize) -> Field<'_> {
        match column {
            0 => match self.labels[row] {
                Label::Number(value) => Field::Number(value),
                Label::Malformed => Field::Malformed("the label is not a number".into()),
                Label::Unreadable(_) => Field::Missing,
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
    use crate::{DataError, Field, Format, ReadOptions, open_bytes};

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
        let text = b"+1 1:0.5 3:-2 # note\n\n# note\n-1\n0 3:1 1:1 1:1\nx 1:1\n1 4:1\n1 0:1\n1 a\n1 1:nan\n2 qid:7 2:1";
        let table = open_bytes(text.to_vec(), Format::Libsvm, &options(3)).unwrap();
        assert_eq!(table.count_rows().unwrap(), 11);
        let mut seen = Vec::new();
        table
            .for_each_block(&mut |b| {
                for r in 0..b.len() {
                    seen.push(match (b.field(r, 0), b.field(r, 1)) {
                        _ if b.fault(r).is_some() => "no row".into(),
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
            "no row",
            "no row",
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
