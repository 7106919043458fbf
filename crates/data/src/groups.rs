//! Rows of a table in groups, for a program that is to see one group and no other.

use super::cell::{BadCells, bad_row, field_text};
use super::error::DataError;
use super::owners::RowOwners;
use super::table::{Field, TableReader};
use dpopt_noise::{NoiseSource, Purpose};
use dpopt_objective::records::{NOBODY, UnitsError};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::num::NonZeroU64;
use std::sync::{Mutex, PoisonError};

/// Bytes of rows that wait in memory for the file.
const WAITING: usize = 1 << 25;

/// The rows of each group as a comma-separated table of its own, all in one temporary file without a name: whatever ends the process, nothing of it is left.
///
/// ```
/// use dpopt_data::{BadCells, Format, ReadOptions, RowGroups, open_bytes};
/// let table = open_bytes(b"name,age\nAda,36\n\"Ng, Li\",41\nBo,\n".to_vec(), Format::Csv, &ReadOptions::default())?;
/// let groups = RowGroups::split(&*table, 2, |row| Some(row % 2), BadCells::Error)?;
/// let mut second = Vec::new();
/// groups.write(1, &mut second)?;
/// assert_eq!(second, b"name,age\n\"Ng, Li\",41\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RowGroups {
    header: Vec<u8>,
    /// The rows of all groups, in pieces.
    file: Mutex<File>,
    /// Where each group's pieces are, and how long.
    pieces: Vec<Vec<(u64, usize)>>,
}

impl RowGroups {
    /// One pass over the table. Row number `row`, from 0 on, goes to group `group_of(row)`; to none, if that says so or the row can't be read. The cells are
    /// written as they are read: text without white space around it, numbers of Parquet in decimal, what is missing as nothing.
    ///
    /// # Errors
    /// If the table can't be read, or there is no room for the file.
    pub fn split(
        table: &dyn TableReader,
        groups: usize,
        mut group_of: impl FnMut(usize) -> Option<usize>,
        bad_cells: BadCells,
    ) -> Result<Self, DataError> {
        let no_room = |e: io::Error| DataError::TemporaryFile { reason: e.kind().to_string() };
        let width = table.columns().len();
        let mut header = Vec::new();
        for (i, column) in table.columns().iter().enumerate() {
            push_text(&mut header, i, column.name.as_bytes());
        }
        header.push(b'\n');
        let mut waiting =
            Waiting { buffers: vec![Vec::new(); groups], bytes: 0, at: 0, pieces: vec![Vec::new(); groups] };
        let mut file = tempfile::tempfile().map_err(no_room)?;
        table.for_each_block(&mut |block| {
            for r in 0..block.len() {
                // the coin is tossed for rows that can't be read, too
                let group = group_of(block.first_row() as usize + r);
                if let Some(error) = bad_row(&*block, r, width) {
                    bad_cells.check(error)?;
                    continue;
                }
                let Some(buffer) = group.and_then(|group| waiting.buffers.get_mut(group)) else { continue };
                let before = buffer.len();
                (0..width).for_each(|column| push_field(buffer, column, block.field(r, column)));
                buffer.push(b'\n');
                waiting.bytes += buffer.len() - before;
            }
            if waiting.bytes > WAITING { waiting.store(&mut file).map_err(no_room) } else { Ok(()) }
        })?;
        waiting.store(&mut file).map_err(no_room)?;
        Ok(Self { header, file: Mutex::new(file), pieces: waiting.pieces })
    }

    /// How many groups there are.
    pub fn len(&self) -> usize {
        self.pieces.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Whether the group has no row.
    pub fn has_no_row(&self, group: usize) -> bool {
        self.pieces[group].is_empty()
    }

    /// Writes the group's table: names, then its rows in the order in which they stood.
    ///
    /// # Errors
    /// If the file cannot be read, or `to` written.
    pub fn write(&self, group: usize, to: &mut dyn Write) -> io::Result<()> {
        to.write_all(&self.header)?;
        let mut piece = Vec::new();
        for &(at, bytes) in &self.pieces[group] {
            piece.resize(bytes, 0);
            let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
            file.seek(SeekFrom::Start(at))?;
            file.read_exact(&mut piece)?;
            drop(file);
            to.write_all(&piece)?;
        }
        Ok(())
    }
}

/// Rows on their way to the file.
struct Waiting {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
    /// Where the file ends.
    at: u64,
    pieces: Vec<Vec<(u64, usize)>>,
}

impl Waiting {
    fn store(&mut self, file: &mut File) -> io::Result<()> {
        for (buffer, pieces) in self.buffers.iter_mut().zip(&mut self.pieces).filter(|(buffer, _)| !buffer.is_empty()) {
            file.write_all(buffer)?;
            pieces.push((self.at, buffer.len()));
            self.at += buffer.len() as u64;
            buffer.clear();
        }
        self.bytes = 0;
        Ok(())
    }
}

fn push_field(line: &mut Vec<u8>, column: usize, field: Field<'_>) {
    match field {
        Field::Text(text) => push_text(line, column, text),
        Field::Number(value) => push_text(line, column, value.to_string().as_bytes()),
        Field::Integer(_) | Field::Truth(_) | Field::Time(..) => {
            push_text(line, column, field_text(field, &mut Vec::new()).unwrap_or_default())
        }
        Field::Missing | Field::Malformed(_) | Field::Sparse(_) => push_text(line, column, b""),
    }
}

/// In quotes where it would not be read as it is.
fn push_text(line: &mut Vec<u8>, column: usize, text: &[u8]) {
    if column > 0 {
        line.push(b',');
    }
    if text.iter().any(|b| matches!(b, b',' | b'"' | b'\n' | b'\r')) {
        line.push(b'"');
        for &byte in text {
            line.extend_from_slice(if byte == b'"' { b"\"\"" } else { std::slice::from_ref(&byte) });
        }
        line.push(b'"');
    } else {
        line.extend_from_slice(text);
    }
}

/// The group of each row, where each unit goes to one of `groups` by a coin that depends on nothing, with all of its rows or, of one with more, `most` of them
/// at random. `None`: the row is in none.
///
/// # Errors
/// If a row may have several owners: it would be in the groups of all of them.
pub fn groups_of_units(
    owners: &RowOwners,
    groups: u64,
    most: Option<NonZeroU64>,
    coins: &mut NoiseSource,
) -> Result<Vec<Option<u32>>, UnitsError> {
    let units = owners.positions()?;
    let (mut group, mut choice) = (coins.stream(Purpose::Split, 0), coins.stream(Purpose::Split, 1));
    let (mut of_row, mut chosen) = (vec![None; owners.rows() as usize], Vec::new());
    for unit in 0..owners.units() as usize {
        let own = group.below(groups) as u32;
        chosen.clear();
        match most {
            Some(most) => units.choose(unit, most, |bound| choice.below(bound), &mut chosen),
            None => chosen.extend_from_slice(units.of(unit)),
        }
        chosen.iter().for_each(|&row| of_row[row as usize] = Some(own));
    }
    debug_assert!(groups <= u64::from(NOBODY));
    Ok(of_row)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Format, ReadOptions, open_bytes};

    fn table(text: &[u8]) -> Box<dyn TableReader> {
        open_bytes(text.to_vec(), Format::Csv, &ReadOptions::default()).unwrap()
    }

    fn text(groups: &RowGroups, group: usize) -> String {
        let mut out = Vec::new();
        groups.write(group, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_row_is_in_one_group_as_it_was_read() {
        let source = table(b"a,\"b,c\"\n1,x\n2,\"say \"\"no\"\"\"\nshort\n3,\n 4 ,y\n");
        let error = RowGroups::split(&*source, 2, |_| Some(0), BadCells::Error).err().unwrap();
        assert!(matches!(error, DataError::RaggedRow { row: 3, .. }), "{error}");
        let seen = std::cell::RefCell::new(Vec::new());
        let group_of = |row| {
            seen.borrow_mut().push(row);
            (row != 4).then_some(usize::from(row > 0))
        };
        let groups = RowGroups::split(&*source, 3, group_of, BadCells::Missing).unwrap();
        assert_eq!(*seen.borrow(), [0, 1, 2, 3, 4]);
        assert_eq!(text(&groups, 0), "a,\"b,c\"\n1,x\n");
        assert_eq!(text(&groups, 1), "a,\"b,c\"\n2,\"say \"\"no\"\"\"\n3,\n");
        assert_eq!(
            (text(&groups, 2).as_str(), groups.has_no_row(2), groups.has_no_row(1)),
            ("a,\"b,c\"\n", true, false)
        );
    }

    #[test]
    fn what_does_not_fit_in_memory_comes_back_in_order() {
        let mut source = b"i,t\n".to_vec();
        let long = "x".repeat(20_000);
        for i in 0..4000 {
            source.extend_from_slice(format!("{i},{long}\n").as_bytes());
        }
        let groups = RowGroups::split(&*table(&source), 7, |row| Some(row % 7), BadCells::Error).unwrap();
        assert!(groups.pieces[3].len() > 1, "no group was stored twice");
        for group in 0..7 {
            let lines: Vec<usize> =
                text(&groups, group).lines().skip(1).map(|l| l.split(',').next().unwrap().parse().unwrap()).collect();
            let expected: Vec<usize> = (0..4000).filter(|i| i % 7 == group).collect();
            assert_eq!(lines, expected);
        }
    }

    #[test]
    fn a_unit_is_in_one_group_with_its_rows_and_groups_are_as_likely() {
        let mut source = b"id\n".to_vec();
        for row in 0..9000 {
            let id = if row % 10 == 9 { "NA".to_string() } else { (row % 3000).to_string() };
            source.extend_from_slice(format!("{id}\n").as_bytes());
        }
        let owners = RowOwners::read(&*table(&source), "id").unwrap();
        let mut coins = NoiseSource::insecure(3);
        let all = groups_of_units(&owners, 10, None, &mut coins).unwrap();
        let mut of_unit = std::collections::BTreeMap::new();
        let mut sizes = [0u32; 10];
        for (row, group) in all.iter().enumerate() {
            assert_eq!(group.is_none(), row % 10 == 9);
            if let Some(group) = group
                && *of_unit.entry(row % 3000).or_insert(*group) == *group
            {
                sizes[*group as usize] += 1;
            }
        }
        assert_eq!((of_unit.len(), sizes.iter().sum::<u32>()), (2700, 8100));
        // 270 units in each, standard deviation 15.6: within five of them
        assert!(sizes.iter().all(|n| (192 * 3..=348 * 3).contains(n)), "{sizes:?}");
        let two = groups_of_units(&owners, 10, Some(2.try_into().unwrap()), &mut coins).unwrap();
        assert_eq!(two.iter().flatten().count(), 5400);
        let shared = RowOwners::read_all(&*table(b"a,b\n1,2\n"), &["a", "b"]).unwrap();
        assert!(groups_of_units(&shared, 10, None, &mut coins).is_err());
    }
}
