//! A table in memory as columns: what a data frame holds, read like a file. Cells mean what they mean in files: the same markers of
//! missing values, numbers in columns of text, text without the white space around it.
//!
//! A declared column is what it was declared to be, whatever type it has here: types of data frames are often guessed from rows.

use std::sync::Arc;

use super::{BLOCK_ROWS, Block, Column, Field, Stored, TableReader, Visit, checked_names};
use crate::error::DataError;
use crate::numerals::Ticks;

/// Cells of one column.
#[derive(Clone, Debug)]
pub enum Cells {
    /// Numbers; NaN is a missing one.
    Numbers(Vec<f64>),
    /// Whole numbers, and the rows without one in order.
    Integers(Vec<i64>, Vec<usize>),
    /// Truth values: false, true, and anything else missing.
    Truths(Vec<u8>),
    /// Points or spans of time, and the rows without one in order.
    Times(Vec<i64>, Ticks, Vec<usize>),
    /// Texts, one per cell.
    Texts(Texts),
    /// Places in a list of texts; one beyond it is a missing cell.
    Coded(Vec<u32>, Texts),
    /// So many cells of a type that holds neither numbers, texts nor truth values, which is called so.
    Unsupported(String, usize),
}

/// Texts one after the other.
#[derive(Clone, Debug, Default)]
pub struct Texts {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// Cells that hold no text, in order.
    others: Vec<(usize, Other)>,
}

#[derive(Clone, Copy, Debug)]
enum Other {
    Missing,
    Unreadable,
    Truth(bool),
    Time(i64, Ticks),
}

impl Texts {
    /// Appends a text.
    pub fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text.trim_ascii());
        self.ends.push(self.bytes.len());
    }

    /// Appends a missing cell.
    pub fn push_missing(&mut self) {
        self.push_other(Other::Missing);
    }

    /// Appends a cell that is neither a text nor a number.
    pub fn push_unreadable(&mut self) {
        self.push_other(Other::Unreadable);
    }

    /// Appends a truth value.
    pub fn push_truth(&mut self, value: bool) {
        self.push_other(Other::Truth(value));
    }

    /// Appends a point or span of time.
    pub fn push_time(&mut self, value: i64, ticks: Ticks) {
        self.push_other(Other::Time(value, ticks));
    }

    fn push_other(&mut self, other: Other) {
        self.others.push((self.ends.len(), other));
        self.ends.push(self.bytes.len());
    }

    /// Number of cells.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    fn field(&self, row: usize) -> Field<'_> {
        if let Ok(at) = self.others.binary_search_by_key(&row, |other| other.0) {
            return match self.others[at].1 {
                Other::Missing => Field::Missing,
                Other::Unreadable => Field::Malformed("is neither text nor a number".into()),
                Other::Truth(value) => Field::Truth(value),
                Other::Time(value, ticks) => Field::Time(value, ticks),
            };
        }
        // a place that no list has, as of a missing cell in a column of categories
        let Some(&to) = self.ends.get(row) else { return Field::Missing };
        let from = if row == 0 { 0 } else { self.ends[row - 1] };
        Field::Text(&self.bytes[from..to])
    }
}

impl Cells {
    fn len(&self) -> usize {
        match self {
            Self::Numbers(values) => values.len(),
            Self::Integers(values, _) => values.len(),
            Self::Truths(values) => values.len(),
            Self::Times(values, ..) => values.len(),
            Self::Unsupported(_, rows) => *rows,
            Self::Texts(texts) => texts.len(),
            Self::Coded(places, _) => places.len(),
        }
    }

    fn stored(&self) -> Stored {
        match self {
            Self::Numbers(_) | Self::Integers(..) => Stored::Number,
            Self::Truths(..) => Stored::Boolean,
            Self::Times(_, ticks, _) => Stored::Time(*ticks),
            Self::Unsupported(kind, _) => Stored::Unsupported(kind.clone()),
            Self::Texts(_) | Self::Coded(..) => Stored::Text,
        }
    }

    fn field(&self, row: usize) -> Field<'_> {
        match self {
            Self::Numbers(values) if values[row].is_nan() => Field::Missing,
            Self::Numbers(values) => Field::Number(values[row]),
            Self::Integers(_, missing) if missing.binary_search(&row).is_ok() => Field::Missing,
            Self::Integers(values, _) => Field::Integer(values[row]),
            Self::Truths(values) => match values[row] {
                0 => Field::Truth(false),
                1 => Field::Truth(true),
                _ => Field::Missing,
            },
            Self::Times(_, _, missing) if missing.binary_search(&row).is_ok() => Field::Missing,
            Self::Times(values, ticks, _) => Field::Time(values[row], *ticks),
            Self::Unsupported(..) => Field::Malformed("is neither text nor a number".into()),
            Self::Texts(texts) => texts.field(row),
            Self::Coded(places, texts) => texts.field(places[row] as usize),
        }
    }
}

/// A table in memory as columns.
///
/// ```
/// use dpopt_data::{BadCells, Cells, ColumnTable, Encoder, Schema};
/// let schema = Schema::from_toml("[age]\nlower = 17\nupper = 90\n")?;
/// let table = ColumnTable::new("people", vec![("age".into(), Cells::Integers(vec![39, 50], vec![]))], &["age"])?;
/// let encoder = Encoder::new(&schema.resolve(table.columns(), None)?)?;
/// assert_eq!(encoder.encode_features(&table, BadCells::Error)?.len(), 2);
/// # use dpopt_data::TableReader;
/// # Ok::<(), dpopt_data::DataError>(())
/// ```
#[derive(Clone)]
pub struct ColumnTable {
    name: String,
    columns: Vec<Column>,
    cells: Arc<[Cells]>,
    rows: usize,
}

impl ColumnTable {
    /// Columns of one length with their names. Those that are `declared` are what they are declared to be, but for what their types rule out
    /// (points and spans of time have their unit, and what holds neither numbers nor texts is refused); what the others hold their types say, which
    /// are public facts then.
    pub fn new(name: &str, columns: Vec<(String, Cells)>, declared: &[&str]) -> Result<Self, DataError> {
        if columns.is_empty() {
            return Err(DataError::Empty { source_name: name.into() });
        }
        let (names, cells): (Vec<String>, Vec<Cells>) = columns.into_iter().unzip();
        let rows = cells[0].len();
        if let Some(odd) = cells.iter().position(|cells| cells.len() != rows) {
            return Err(DataError::declaration(
                &names[odd],
                "has another number of rows",
                "give columns of one length",
            ));
        }
        let columns = checked_names(names)?
            .into_iter()
            .zip(&cells)
            .map(|(name, cells)| {
                let known = declared.contains(&name.as_str());
                let stored = match cells {
                    Cells::Times(..) | Cells::Unsupported(..) | Cells::Integers(..) => cells.stored(),
                    _ if known => Stored::Unknown,
                    _ => cells.stored(),
                };
                Column { name, stored }
            })
            .collect();
        Ok(Self { name: name.into(), columns, cells: cells.into(), rows })
    }
}

impl TableReader for ColumnTable {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn count_rows(&self) -> Result<u64, DataError> {
        Ok(self.rows as u64)
    }

    fn for_each_block(&self, visit: &mut Visit<'_>) -> Result<(), DataError> {
        (0..self.rows).step_by(BLOCK_ROWS).try_for_each(|first| {
            let rows = BLOCK_ROWS.min(self.rows - first);
            visit(Box::new(ColumnBlock { cells: self.cells.clone(), first, rows }))
        })
    }
}

/// Some rows of a table in memory: nothing is copied.
struct ColumnBlock {
    cells: Arc<[Cells]>,
    first: usize,
    rows: usize,
}

impl Block for ColumnBlock {
    fn first_row(&self) -> u64 {
        self.first as u64
    }

    fn len(&self) -> usize {
        self.rows
    }

    fn bytes(&self) -> usize {
        size_of::<Self>()
    }

    fn width(&self, _row: usize) -> usize {
        self.cells.len()
    }

    fn field(&self, row: usize, column: usize) -> Field<'_> {
        self.cells.get(column).map_or(Field::Missing, |cells| cells.field(self.first + row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BadCells, Encoder, Format, ReadOptions, Schema, open_bytes};
    use dpopt_objective::records::Examples;
    use proptest::prelude::*;

    const BOUNDS: &str = "[age]\nlower = 0\nupper = 90\n[gain]\nlower = 0\nupper = 1e6\n[sex]\nlevels = ['m', 'f', '7']\n\
        [member]\nlevels = ['False', 'True']\n[city]\nhash = true\n[remarks]\ntext = true\n[income]\nlevels = ['0', '1']\n";

    fn encoded(table: &dyn TableReader, bad_cells: BadCells) -> Result<Examples, DataError> {
        let layout = Schema::from_toml(BOUNDS).unwrap().resolve(table.columns(), Some("income")).unwrap();
        Encoder::new(&layout).unwrap().encode_public(table, bad_cells)
    }

    fn texts(values: &[String]) -> Texts {
        let mut texts = Texts::default();
        values.iter().for_each(|value| texts.push(value.as_bytes()));
        texts
    }

    #[test]
    fn a_place_that_no_list_has_is_a_missing_cell() {
        let levels = || texts(&["m".into(), "f".into()]);
        assert!(matches!(levels().field(1), Field::Text(text) if text == b"f"));
        for place in [2, 3, u32::MAX as usize, usize::MAX] {
            assert!(matches!(levels().field(place), Field::Missing), "{place}");
        }
    }

    const NAMES: [&str; 7] = ["age", "gain", "sex", "member", "city", "remarks", "income"];

    fn word() -> impl Strategy<Value = String> {
        prop_oneof![
            Just(String::new()),
            Just("?".into()),
            Just("NA".into()),
            Just(" m ".into()),
            Just("f".into()),
            Just("7".into()),
            "[a-zé0-9 ]{0,12}",
            Just("free money http://x.org call 0800 NOW!".into())
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// A table is the same table as columns and as text, whichever types its columns have.
        #[test]
        fn columns_and_text_give_the_same_examples(
            rows in proptest::collection::vec(
                (0i64..120, proptest::option::of(-1e3f64..2e6), word(), 0u8..3, word(), word(), 0i64..3), 1..40),
            as_text: bool, coded: bool,
        ) {
            let number = |v: &Option<f64>| v.map(|v| v.to_string()).unwrap_or_default();
            let truth = |v: u8| ["False", "True", ""][usize::from(v)];
            let mut csv = NAMES.join(",") + "\n";
            for (age, gain, sex, member, city, remarks, income) in &rows {
                csv += &format!("{age},{},{sex},{},{city},{remarks},{income}\n", number(gain), truth(*member));
            }
            let file = open_bytes(csv.into_bytes(), Format::Csv, &ReadOptions::default()).unwrap();
            let of = |text: &dyn Fn(usize) -> String| texts(&(0..rows.len()).map(text).collect::<Vec<_>>());
            let sexes = Cells::Texts(of(&|i| rows[i].2.clone()));
            let cells = vec![
                if as_text { Cells::Texts(of(&|i| format!(" {} ", rows[i].0))) }
                else { Cells::Integers(rows.iter().map(|r| r.0).collect(), vec![]) },
                if as_text { Cells::Texts(of(&|i| number(&rows[i].1))) }
                else { Cells::Numbers(rows.iter().map(|r| r.1.unwrap_or(f64::NAN)).collect()) },
                if coded { Cells::Coded((0..rows.len() as u32).collect(), of(&|i| rows[i].2.clone())) } else { sexes },
                Cells::Truths(rows.iter().map(|r| r.3).collect()),
                Cells::Texts(of(&|i| rows[i].4.clone())),
                Cells::Texts(of(&|i| rows[i].5.clone())),
                if as_text { Cells::Numbers(rows.iter().map(|r| r.6 as f64).collect()) }
                else { Cells::Integers(rows.iter().map(|r| r.6).collect(), vec![]) },
            ];
            let columns = NAMES.iter().map(|n| n.to_string()).zip(cells).collect();
            let table = ColumnTable::new("columns", columns, &NAMES).unwrap();
            prop_assert_eq!(table.count_rows().unwrap(), file.count_rows().unwrap());
            let (a, b) = (encoded(&table, BadCells::Error).unwrap(), encoded(&*file, BadCells::Error).unwrap());
            prop_assert_eq!(a.targets, b.targets);
            prop_assert_eq!(a.rows.len(), b.rows.len());
            for i in 0..a.rows.len() {
                prop_assert_eq!(a.rows.row(i), b.rows.row(i));
            }
        }
    }

    #[test]
    fn what_cannot_be_read_is_an_error_or_missing_and_never_shown() {
        let mut ages = Texts::default();
        ages.push(b"41");
        ages.push(b"forty-secret");
        ages.push_unreadable();
        ages.push_missing();
        for (cells, row) in [(Cells::Texts(ages), 2), (Cells::Numbers(vec![1.0, f64::INFINITY, f64::NAN, 4.0]), 2)] {
            let table = ColumnTable::new("t", vec![("age".into(), cells)], &["age"]).unwrap();
            let layout =
                Schema::from_toml("[age]\nlower = 0\nupper = 90\n").unwrap().resolve(table.columns(), None).unwrap();
            let encoder = Encoder::new(&layout).unwrap();
            let error = encoder.encode_features(&table, BadCells::Error).unwrap_err();
            assert!(matches!(error, DataError::NotANumber { row: found, .. } if found == row), "{error}");
            assert!(!error.to_string().contains("secret"));
            assert_eq!(encoder.encode_features(&table, BadCells::Missing).unwrap().len(), 4);
        }
    }

    #[test]
    fn types_count_where_nothing_is_declared_only() {
        let columns = || {
            vec![
                ("a".to_string(), Cells::Integers(vec![1], vec![])),
                ("b".to_string(), Cells::Truths(vec![1])),
                ("c".to_string(), Cells::Texts(texts(&["x".into()]))),
            ]
        };
        let stored = |declared: &[&str]| {
            let table = ColumnTable::new("t", columns(), declared).unwrap();
            table.columns().iter().map(|c| c.stored.clone()).collect::<Vec<_>>()
        };
        assert_eq!(stored(&[]), [Stored::Number, Stored::Boolean, Stored::Text]);
        assert_eq!(stored(&["a", "b", "c"]), [Stored::Number, Stored::Unknown, Stored::Unknown]);
    }

    #[test]
    fn blocks_are_consecutive_and_bounded() {
        let rows = 2 * BLOCK_ROWS + 5;
        let cells = Cells::Integers((0..rows as i64).collect(), vec![]);
        let table = ColumnTable::new("t", vec![("a".into(), cells)], &[]).unwrap();
        let mut next = 0;
        table
            .for_each_block(&mut |block| {
                assert!(block.first_row() == next && block.len() <= BLOCK_ROWS);
                for r in 0..block.len() {
                    assert_eq!(block.field(r, 0), Field::Integer(next as i64 + r as i64));
                }
                next += block.len() as u64;
                Ok(())
            })
            .unwrap();
        assert_eq!(next, rows as u64);
    }

    #[test]
    fn names_and_lengths_are_checked() {
        let one = |n: &str, rows| (n.to_string(), Cells::Numbers(vec![0.0; rows]));
        assert!(matches!(
            ColumnTable::new("t", vec![one("a", 1), one(" a", 1)], &[]).err(),
            Some(DataError::DuplicateColumn { .. })
        ));
        assert!(ColumnTable::new("t", vec![one("a", 1), one("b", 2)], &[]).is_err());
        assert!(ColumnTable::new("t", vec![], &[]).is_err());
    }
}
