//! One table in several files: shards with the same columns, read one after the other.

use super::{Block, Column, Field, ReadOptions, TableReader, Visit, open};
use crate::error::{DataError, Fault, name_of};
use crate::output::{Identity, same_content, same_file};
use crate::source::{Source, Zip};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Opens a table that is one file, several files with the same columns, or directories of such files (in the order of their
/// names; names that start with `.` or `_` are left out). Reads names and types, no rows.
///
/// The rows are those of the files one after the other: a fit on shards is a fit on the whole file.
pub fn open_all<P: AsRef<Path>>(paths: &[P], options: &ReadOptions) -> Result<Box<dyn TableReader>, DataError> {
    let files = files_of(paths)?;
    let mut seen = HashMap::new();
    for second in &files {
        if let Some(identity) = Identity::of(second)
            && let Some(first) = seen.insert(identity, second)
        {
            return Err(DataError::SameFile { first: name_of(first), second: name_of(second) });
        }
    }
    let [first, rest @ ..] = files.as_slice() else {
        return Err(DataError::Unreadable { source_name: "the table".into(), reason: "no file was given".into() });
    };
    let table = open(first, options)?;
    if rest.is_empty() {
        return Ok(table);
    }
    let mut parts = vec![table];
    for file in rest {
        let part = open(file, options)?;
        if part.columns() != parts[0].columns() {
            return Err(DataError::OtherColumns { source_name: part.name(), first: parts[0].name() });
        }
        parts.push(part);
    }
    let columns = parts[0].columns().to_vec();
    Ok(Box::new(Shards { parts, columns }))
}

/// The files of a table in order: those given, and those in the directories given.
pub fn files_of<P: AsRef<Path>>(paths: &[P]) -> Result<Vec<PathBuf>, DataError> {
    let mut files = Vec::new();
    for path in paths {
        let path = path.as_ref();
        if path.is_dir() { files.extend(within(path)?) } else { files.push(path.to_path_buf()) }
    }
    Ok(files)
}

/// Whether two files hold the same table: they are one file, or have the same bytes, gzipped or not. It reads both, up to
/// the first difference.
pub fn same_table(a: &Path, b: &Path) -> Result<bool, DataError> {
    if same_file(a, b) {
        return Ok(true);
    }
    let sources = [a, b].map(|path| Source::Path(path.to_path_buf()));
    let (mut left, gzip) = sources[0].open(Zip::ByFirstBytes)?;
    let (mut right, _) = sources[1].open(Zip::ByFirstBytes)?;
    same_content(&mut left, &mut right).map_err(|e| sources[0].error(&e, gzip))
}

fn within(directory: &Path) -> Result<Vec<PathBuf>, DataError> {
    let unreadable = |e: std::io::Error| DataError::unreadable(&name_of(directory), &e);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let hidden = path.file_name().is_none_or(|name| name.to_string_lossy().starts_with(['.', '_']));
        if !hidden && path.is_file() {
            files.push(path);
        }
    }
    if files.is_empty() {
        return Err(DataError::Unreadable { source_name: name_of(directory), reason: "there is no file in it".into() });
    }
    files.sort();
    Ok(files)
}

struct Shards {
    /// At least two tables, with equal columns.
    parts: Vec<Box<dyn TableReader>>,
    columns: Vec<Column>,
}

impl TableReader for Shards {
    fn name(&self) -> String {
        format!("{} and {} more", self.parts[0].name(), self.parts.len() - 1)
    }

    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn quotes_join_lines(&self) -> bool {
        self.parts.iter().any(|part| part.quotes_join_lines())
    }

    fn count_rows(&self) -> Result<u64, DataError> {
        self.parts.iter().map(|part| part.count_rows()).sum()
    }

    fn for_each_block(&self, visit: &mut Visit<'_>) -> Result<(), DataError> {
        let mut before = 0;
        for part in &self.parts {
            let mut end = before;
            part.for_each_block(&mut |block| {
                end = before + block.first_row() + block.len() as u64;
                visit(Box::new(Later { block, before }))
            })?;
            before = end;
        }
        Ok(())
    }
}

/// A block of a later shard, its rows numbered through.
struct Later {
    block: Box<dyn Block>,
    before: u64,
}

impl Block for Later {
    fn first_row(&self) -> u64 {
        self.before + self.block.first_row()
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
        self.block.is_left_out(row)
    }

    fn field(&self, row: usize, column: usize) -> Field<'_> {
        self.block.field(row, column)
    }

    fn plain_numbers(&self, row: usize, columns: &[usize], numbers: &mut [f64]) {
        self.block.plain_numbers(row, columns, numbers);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BadCells, Encoder, Schema};

    const BOUNDS: &str = "[age]\nlower = 0\nupper = 99\n[y]\nlevels = ['no', 'yes']\n";

    /// Lines of a table with one faulty age, if any.
    fn lines(rows: std::ops::Range<u32>, faulty: Option<u32>) -> String {
        let mut text = String::from("age,y\n");
        for i in rows {
            let age = if faulty == Some(i) { "old".into() } else { (i % 100).to_string() };
            text += &format!("{age},{}\n", if i % 3 == 0 { "yes" } else { "no" });
        }
        text
    }

    #[test]
    fn shards_are_the_whole_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        std::fs::write(path("part-0.csv"), lines(0..5000, None)).unwrap();
        std::fs::write(path("part-1.csv"), lines(5000..5001, None)).unwrap();
        std::fs::write(path("part-2.csv"), lines(5001..9000, None)).unwrap();
        std::fs::write(path("_SUCCESS"), "").unwrap();
        let options = ReadOptions::default();
        let by_directory = open_all(&[directory.path()], &options).unwrap();
        let by_name = open_all(&[path("part-0.csv"), path("part-1.csv"), path("part-2.csv")], &options).unwrap();
        std::fs::write(path("whole.csv"), lines(0..9000, None)).unwrap();
        let whole = open_all(&[path("whole.csv")], &options).unwrap();
        let layout = Schema::from_toml(BOUNDS).unwrap().resolve(whole.columns(), Some("y")).unwrap();
        let encoder = Encoder::new(&layout).unwrap();
        let expected = encoder.encode_public(&*whole, BadCells::Error).unwrap();
        for table in [by_directory, by_name] {
            assert_eq!(table.count_rows().unwrap(), 9000);
            assert_eq!(table.name(), format!("{} and 2 more", path("part-0.csv").display()));
            assert_eq!(encoder.encode_public(&*table, BadCells::Error).unwrap(), expected);
        }
        // a faulty cell is reported by its row in the whole table
        std::fs::write(path("part-2.csv"), lines(5001..9000, Some(7000))).unwrap();
        let faulty = open_all(&[path("part-0.csv"), path("part-1.csv"), path("part-2.csv")], &options).unwrap();
        let error = encoder.encode_public(&*faulty, BadCells::Error).unwrap_err().to_string();
        assert!(error.contains("7001"), "{error}");
    }

    #[test]
    fn other_columns_and_nothing_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let empty = path("empty");
        std::fs::create_dir(&empty).unwrap();
        assert!(open_all(&[&empty], &ReadOptions::default()).is_err());
        assert!(open_all::<&Path>(&[], &ReadOptions::default()).is_err());
        std::fs::write(path("a.csv"), "age,y\n1,no\n").unwrap();
        std::fs::write(path("b.csv"), "y,age\nno,1\n").unwrap();
        let error = open_all(&[path("a.csv"), path("b.csv")], &ReadOptions::default()).err().unwrap().to_string();
        assert!(error.contains("b.csv") && error.contains("columns"), "{error}");
    }
}
