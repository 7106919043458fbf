//! Whose rows a table's are: units of privacy by the values of one column, or of several where a row may have several owners; and one row of each of them.

use super::cell::{bad_row, field_number, field_text, is_missing_text};
use super::encode::position;
use super::error::{DataError, Fault};
use super::table::{Block, Column, Field, Stored, TableReader, Visit};
use dpopt_mechanism::Sensitive;
use dpopt_noise::{NoiseSource, Purpose};
use dpopt_objective::records::{KeptRows, NOBODY, Owners, SharedOwners, Units, UnitsError};
use dpopt_process::stop;
use std::collections::HashMap;
use std::num::NonZeroU64;

/// Which unit has which row, by the values of a column: rows with equal values belong to one unit. A row without a value, or that can't be read, belongs to
/// nobody and counts nowhere.
///
/// It holds 4 bytes per row, and each value once while they are read.
///
/// ```
/// use dpopt_data::{Format, ReadOptions, RowOwners, open_bytes};
/// let table = open_bytes(b"patient,age\n 7,40\n8,50\n7,41\n,60\n".to_vec(), Format::Csv, &ReadOptions::default())?;
/// assert_eq!(RowOwners::read(&*table, "patient")?.units(), 2);
/// # Ok::<(), dpopt_data::DataError>(())
/// ```
#[derive(Clone)]
pub struct RowOwners {
    /// Columns whose values name the units.
    columns: Vec<String>,
    whose: Whose,
}

/// How many owners a row may have.
#[derive(Clone)]
enum Whose {
    /// One owner for each row.
    One(Owners),
    /// One owner in each of several columns.
    Several {
        owners: SharedOwners,
        /// Units, those without a row among them.
        units: usize,
    },
}

/// What names a unit: the cell as text, without white space around it; whole numbers as whole numbers, so that `7`, ` 7`, `07`, `7.0` and the integer 7 of a
/// Parquet file are one. To take two persons for one protects them; to take one for two would not. `None`: nobody.
fn key(field: Field<'_>, scratch: &mut Vec<u8>) -> Option<Vec<u8>> {
    unit_key(field_text(field, scratch)?)
}

/// What names the unit that `text` stands for: without white space around it, whole numbers in one spelling. `None` if the text means a missing value.
pub fn unit_key(text: &[u8]) -> Option<Vec<u8>> {
    let text = match std::str::from_utf8(text) {
        Ok(text) => text.trim().as_bytes(),
        Err(_) => text.trim_ascii(),
    };
    if is_missing_text(text) {
        return None;
    }
    Some(match field_number(Field::Text(text)) {
        // whole, and small enough that no other number has the same value
        Some(value) if value.fract() == 0.0 && value.abs() < 9e15 => format!("{}", value as i64).into_bytes(),
        _ => text.to_vec(),
    })
}

/// What each row's unit is called under a secret key, by which whoever holds parts of a table knows a unit again without its name; `None`: a row without an owner. As
/// sensitive as the names. The same in other tables only where the column has the same type: an integer of 17 digits is no float.
///
/// # Errors
/// If there is no such column, or the table can't be read.
pub fn unit_marks(table: &dyn TableReader, column: &str, key: &[u8; 32]) -> Result<Vec<Option<[u8; 16]>>, DataError> {
    let at = position(table.columns(), column, "the unit")?;
    let width = table.columns().len();
    let (mut marks, mut scratch) = (Vec::new(), Vec::new());
    table.for_each_block(&mut |block| {
        stop::point();
        for row in 0..block.len() {
            let readable = bad_row(&*block, row, width).is_none();
            let own = if readable { self::key(block.field(row, at), &mut scratch) } else { None };
            let mark = own.map(|name| *blake3::keyed_hash(key, &name).as_bytes());
            marks.push(mark.and_then(|mark| mark.first_chunk().copied()));
        }
        Ok(())
    })?;
    Ok(marks)
}

impl RowOwners {
    /// One pass over the table's column `column`.
    ///
    /// # Errors
    /// If there is no such column, the table can't be read, or it has more than 2³² − 1 units.
    pub fn read(table: &dyn TableReader, column: &str) -> Result<Self, DataError> {
        Self::read_all(table, &[column])
    }

    /// One pass over `columns`, each of which names an owner of a row: the same value is the same unit in whichever of them it stands. A row belongs to all whom its cells
    /// name, and to nobody if none can be read. Of one column the same as [`read`](Self::read).
    ///
    /// ```
    /// use dpopt_data::{Format, ReadOptions, RowOwners, open_bytes};
    /// let table = open_bytes(b"from,to,words\na,b,3\nb,a,5\nc,,2\n".to_vec(), Format::Csv, &ReadOptions::default())?;
    /// let owners = RowOwners::read_all(&*table, &["from", "to"])?;
    /// assert_eq!((owners.units(), owners.kept(1.try_into()?).unwrap().positions().len()), (3, 2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If there is no such column, the table can't be read, or there are more than 2³² − 1 units.
    pub fn read_all(table: &dyn TableReader, columns: &[&str]) -> Result<Self, DataError> {
        let places = columns.iter().map(|column| position(table.columns(), column, "the unit"));
        let places = places.collect::<Result<Vec<_>, _>>()?;
        for &at in &places {
            let Column { name, stored } = &table.columns()[at];
            if let Stored::Unsupported(stored) = stored {
                return Err(DataError::UnsupportedType { column: name.clone(), stored: stored.clone() });
            }
        }
        let width = table.columns().len();
        let mut numbers: HashMap<Box<[u8]>, u32> = HashMap::new();
        let (mut of_row, mut scratch) = (Vec::new(), Vec::new());
        table.for_each_block(&mut |block| {
            stop::point();
            for row in 0..block.len() {
                let readable = bad_row(&*block, row, width).is_none();
                for &at in &places {
                    let own = if readable { key(block.field(row, at), &mut scratch) } else { None };
                    of_row.push(match own {
                        None => NOBODY,
                        Some(key) => match numbers.get(&*key) {
                            Some(&number) => number,
                            None => {
                                let number = numbers.len() as u32;
                                if number == NOBODY {
                                    return Err(DataError::TooManyUnits);
                                }
                                numbers.insert(key.into(), number);
                                number
                            }
                        },
                    });
                }
            }
            Ok(())
        })?;
        let units = numbers.len();
        let whose = match columns.len() {
            0 | 1 => Whose::One(Owners { of_row, units }),
            // numbers are below `units`, and as many for each row
            several => match SharedOwners::new(of_row, several, units) {
                Ok(owners) => Whose::Several { owners, units },
                Err(_) => return Err(DataError::TooManyUnits),
            },
        };
        Ok(Self { columns: columns.iter().map(|column| column.to_string()).collect(), whose })
    }

    /// The column whose values name the units; columns, as in "sender and recipient".
    pub fn column(&self) -> String {
        unit_name(&self.columns)
    }

    /// Number of rows of the table.
    pub fn rows(&self) -> u64 {
        match &self.whose {
            Whose::One(owners) => owners.of_row.len() as u64,
            Whose::Several { owners, .. } => owners.rows() as u64,
        }
    }

    /// Number of units: a public fact under zero-out and replace-one, as the number of rows is.
    pub fn units(&self) -> u64 {
        match &self.whose {
            Whose::One(owners) => owners.units as u64,
            Whose::Several { units, .. } => *units as u64,
        }
    }

    /// These owners among `given` units, of which some may be without a row; unchanged where more units have rows, or where there are fewer rows than `given`.
    pub fn among(mut self, given: u64) -> Self {
        if given <= self.rows() {
            match &mut self.whose {
                Whose::One(Owners { units, .. }) | Whose::Several { units, .. } => {
                    *units = (*units).max(given as usize)
                }
            }
        }
        self
    }

    /// Which unit has which row; `None` where a row may have several owners.
    pub fn sensitive(&self) -> Option<Sensitive<Owners>> {
        match &self.whose {
            Whose::One(owners) => Some(Sensitive::new(owners.clone())),
            Whose::Several { .. } => None,
        }
    }

    /// The positions of each unit's rows, for whoever holds the remote rows.
    ///
    /// # Errors
    /// If a row may have several owners.
    pub fn positions(&self) -> Result<Units<Vec<()>>, UnitsError> {
        match &self.whose {
            Whose::One(owners) => Units::new(vec![(); owners.of_row.len()], owners),
            Whose::Several { .. } => Err(UnitsError::Shared),
        }
    }

    /// Whether a row may have several owners. Who owns which rows is known then, and not protected.
    pub fn are_shared(&self) -> bool {
        matches!(self.whose, Whose::Several { .. })
    }

    /// Rows of which no unit owns more than `most`, [chosen](SharedOwners::kept) from who owns what alone; `None` where a row has one owner.
    pub fn kept(&self, most: NonZeroU64) -> Option<KeptRows> {
        match &self.whose {
            Whose::One(_) => None,
            Whose::Several { owners, .. } => Some(owners.kept(most)),
        }
    }

    /// The most rows that a unit owns, and the mean over those that own one; `None` where a row has one owner, since the number is not public there.
    pub fn rows_of_a_unit(&self) -> Option<(u64, f64)> {
        let Whose::Several { owners, .. } = &self.whose else { return None };
        let each = owners.rows_of_each();
        let all: u64 = each.iter().sum();
        Some((each.iter().copied().max().unwrap_or(0), all as f64 / each.len().max(1) as f64))
    }

    /// Which rows are left if each unit keeps [one of them](Owners::one_row_each); where rows have several owners, [at most one](SharedOwners::kept). Whatever counts the
    /// rows that are left counts units.
    pub fn one_row_of_each(&self, coins: &mut NoiseSource) -> Vec<bool> {
        match &self.whose {
            Whose::One(owners) => {
                let mut stream = coins.stream(Purpose::Split, 0);
                owners.one_row_each(|bound| stream.below(bound))
            }
            Whose::Several { owners, .. } => owners.kept(NonZeroU64::MIN).mask(),
        }
    }

    /// The table with [one row of each](Self::one_row_of_each) unit; all others are [left out](Block::is_left_out).
    pub fn one_row_each<'a>(&self, table: &'a dyn TableReader, coins: &mut NoiseSource) -> impl TableReader + use<'a> {
        SomeRows { table, left: self.one_row_of_each(coins) }
    }
}

/// The table with these rows only; all others are [left out](Block::is_left_out).
pub fn kept_rows<'a>(table: &'a dyn TableReader, kept: &KeptRows) -> impl TableReader + use<'a> {
    SomeRows { table, left: kept.mask() }
}

/// How a unit of these columns is called: `person`, "sender and recipient".
pub fn unit_name(columns: &[String]) -> String {
    match columns {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        _ => columns.concat(),
    }
}

/// A table of which some rows are left out.
struct SomeRows<'a> {
    table: &'a dyn TableReader,
    /// Whether each row is left out.
    left: Vec<bool>,
}

impl TableReader for SomeRows<'_> {
    fn name(&self) -> String {
        self.table.name()
    }

    fn columns(&self) -> &[Column] {
        self.table.columns()
    }

    fn quotes_join_lines(&self) -> bool {
        self.table.quotes_join_lines()
    }

    fn count_rows(&self) -> Result<u64, DataError> {
        self.table.count_rows()
    }

    fn for_each_block(&self, visit: &mut Visit<'_>) -> Result<(), DataError> {
        self.table.for_each_block(&mut |block| {
            stop::point();
            let first = block.first_row() as usize;
            let left = (first..first + block.len()).map(|row| self.left.get(row).copied().unwrap_or(false)).collect();
            visit(Box::new(Part { block, left }))
        })
    }
}

/// A block of which some rows are left out.
struct Part {
    block: Box<dyn Block>,
    left: Vec<bool>,
}

impl Block for Part {
    fn first_row(&self) -> u64 {
        self.block.first_row()
    }

    fn len(&self) -> usize {
        self.block.len()
    }

    fn bytes(&self) -> usize {
        self.block.bytes()
    }

    fn width(&self, row: usize) -> usize {
        self.block.width(row)
    }

    fn fault(&self, row: usize) -> Option<Fault> {
        self.block.fault(row)
    }

    fn is_left_out(&self, row: usize) -> bool {
        !self.left[row] || self.block.is_left_out(row)
    }

    fn field(&self, row: usize, column: usize) -> Field<'_> {
        self.block.field(row, column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labels::plain_label_counts;
    use crate::quantile_counts::plain_quantile_counts;
    use crate::{BadCells, Format, ReadOptions, open_bytes};
    use dpopt_objective::records::RecordSet;

    fn table(text: &str) -> Box<dyn TableReader> {
        open_bytes(text.as_bytes().to_vec(), Format::Csv, &ReadOptions::default()).unwrap()
    }

    fn numbers(owners: &RowOwners) -> Vec<u32> {
        match &owners.whose {
            Whose::One(owners) => owners.of_row.clone(),
            Whose::Several { owners, .. } => (0..owners.rows()).flat_map(|row| owners.of(row)).collect(),
        }
    }

    #[test]
    fn equal_keys_are_one_unit_however_they_are_written() {
        let table = table("id,y\n7,a\n 7,b\n\"7 \",c\n07.0,d\nx,e\nX,f\n?,g\n,h\n7,i,j\n7\n\u{a0}7,k\n7.5,l\n");
        let owners = RowOwners::read(&*table, "id").unwrap();
        let n = NOBODY;
        // x and X are other texts; a ragged row and one without a key are nobody's
        assert_eq!(numbers(&owners), [0, 0, 0, 0, 1, 2, n, n, n, n, 0, 3]);
        assert_eq!(owners.units(), 4);
        let positions = owners.among(6).positions().unwrap();
        let of_each: Vec<&[u64]> = (0..positions.len()).map(|unit| positions.of(unit)).collect();
        assert_eq!(of_each, [&[0, 1, 2, 3, 10][..], &[4], &[5], &[11], &[], &[]]);
        let error = RowOwners::read(&*table, "ID").err().unwrap().to_string();
        assert!(error.contains("the unit `ID` is not a column"), "{error}");
    }

    #[test]
    fn one_row_of_each_unit_is_left_any_of_them_as_likely() {
        let table = table("id,y\na,1\nb,2\na,3\n,4\na,5\nb,6\n");
        let owners = RowOwners::read(&*table, "id").unwrap();
        let mut coins = NoiseSource::insecure(3);
        let mut seen = std::collections::BTreeMap::new();
        let draws = 6_000;
        for _ in 0..draws {
            let one = owners.one_row_each(&*table, &mut coins);
            let labels: Vec<String> = plain_label_counts(&one, "y").unwrap().into_keys().collect();
            assert_eq!((labels.len(), one.count_rows().unwrap()), (2, 6));
            *seen.entry(labels).or_insert(0u32) += 1;
        }
        // three rows of a times two of b: 1,000 each; five standard deviations are 145
        assert_eq!(seen.len(), 6, "{seen:?}");
        assert!(seen.values().all(|n| (855..=1145).contains(n)), "{seen:?}");
    }

    #[test]
    fn what_is_left_out_stops_nothing_and_counts_nowhere() {
        let table = table("id,y\na,oops\n,oops\n");
        let owners = RowOwners::read(&*table, "id").unwrap();
        let one = owners.one_row_each(&*table, &mut NoiseSource::insecure(1));
        assert!(plain_quantile_counts(&one, &["y".into()], BadCells::Error).is_err(), "the one row of a is there");
        let nobody = Whose::One(Owners { of_row: vec![NOBODY; 2], units: 0 });
        let nobody = RowOwners { columns: vec!["id".into()], whose: nobody };
        let none = nobody.one_row_each(&*table, &mut NoiseSource::insecure(1));
        let counts = plain_quantile_counts(&none, &["y".into()], BadCells::Error).unwrap();
        assert_eq!(counts.values, [0]);
    }

    #[test]
    fn a_value_is_one_unit_in_whichever_column_it_stands() {
        let table = table("from,x,to\n7,a,8\n8.0,b, 7\n7,c,7\n?,d,9\n9,e,\n,f,NA\n1,g\n");
        let owners = RowOwners::read_all(&*table, &["from", "to"]).unwrap();
        // 7 to itself owns the row once; the last rows are nobody's
        assert_eq!(numbers(&owners), [0, 1, 1, 0, 0, 2, 2]);
        assert_eq!((owners.units(), owners.rows(), owners.column().as_str()), (3, 7, "from and to"));
        assert_eq!(owners.rows_of_a_unit(), Some((3, 7.0 / 3.0)));
        assert!(owners.are_shared() && owners.sensitive().is_none());
        let kept = owners.kept(NonZeroU64::MIN).unwrap();
        assert_eq!(kept.positions().len(), 2, "7 to itself, one of 9's, and then nothing is left for 8");
        assert_eq!(owners.one_row_of_each(&mut NoiseSource::insecure(1)), kept.mask());
        // what the other columns hold says nothing of which rows are kept
        let other = super::tests::table("from,x,to\n7,,8\n8.0,zz, 7\n7,1,7\n?,2,9\n9,3,\n,4,NA\n1,g\n");
        assert_eq!(RowOwners::read_all(&*other, &["from", "to"]).unwrap().kept(NonZeroU64::MIN), Some(kept));
        let error = RowOwners::read_all(&*table, &["from", "whom"]).err().unwrap().to_string();
        assert!(error.contains("the unit `whom` is not a column"), "{error}");
        let one = RowOwners::read_all(&*table, &["from"]).unwrap();
        assert!(!one.are_shared() && one.kept(NonZeroU64::MIN).is_none() && one.rows_of_a_unit().is_none());
    }

    #[test]
    fn of_a_table_the_kept_rows_are_read_and_no_others() {
        let table = table("from,to,y\na,b,1\na,c,2\nb,c,3\n,,4\nd,,5\n");
        let owners = RowOwners::read_all(&*table, &["from", "to"]).unwrap();
        let labels =
            |rows: &dyn TableReader| plain_label_counts(rows, "y").unwrap().into_keys().collect::<Vec<String>>();
        let kept = owners.kept(2.try_into().unwrap()).unwrap();
        assert_eq!(labels(&kept_rows(&*table, &kept)), ["1", "2", "3", "5"]);
        let one = owners.one_row_each(&*table, &mut NoiseSource::insecure(1));
        assert_eq!((labels(&one).len(), one.count_rows().unwrap()), (2, 5));
        assert!(labels(&one).contains(&"5".to_string()));
    }
}
