//! Apache Parquet with flat columns: names, types and the row count come from the file's footer, without reading rows.
//! Two list columns `indices` and `values` are one sparse vector per row, if the number of features is declared.

use std::cell::Cell;
use std::fs::File;
use std::io::{Cursor, Read, Seek, SeekFrom};
use std::sync::Once;

use bytes::Bytes;
use parquet::column::reader::ColumnReader;
use parquet::file::reader::{FileReader, SerializedFileReader};

use super::parquet_footer::{self, Footer, TAIL};
use super::parquet_types::{self, FileColumn, Layout, Leaf};
use super::parquet_values::{Levels, Lists, SparseColumn, Values};
use super::{
    BLOCK_ROWS, Block, Column, Field, MAX_FEATURES, ReadOptions, Stored, TableReader, UNZIPPED_BYTES, Visit,
    checked_names,
};
use crate::error::DataError;
use crate::source::Source;

pub(crate) struct Parquet {
    source: Source,
    /// The whole file when it had to be gunzipped or came from memory.
    memory: Option<Bytes>,
    columns: Vec<Column>,
    /// Where each column of the table is in the file.
    places: Vec<Place>,
    rows: u64,
}

/// A column of the table in the file.
#[derive(Clone, Copy)]
enum Place {
    At(Leaf),
    /// Lists of `indices` and `values`, each with the definition level from which on there is an item; and the dimension.
    Sparse([(Leaf, i16); 2], u32),
    /// In nothing that is read: every cell is missing.
    Nowhere,
}

impl Place {
    /// Positions of the leaves that are read.
    fn leaves(&self) -> impl Iterator<Item = usize> {
        let (first, second) = match self {
            Self::At(leaf) => (Some(leaf.at), None),
            Self::Sparse([(indices, _), (values, _)], _) => (Some(indices.at), Some(values.at)),
            Self::Nowhere => (None, None),
        };
        first.into_iter().chain(second)
    }
}

impl Parquet {
    pub(crate) fn open(source: Source, options: &ReadOptions) -> Result<Self, DataError> {
        let memory = match (&source, source.gunzipped(options.memory.unwrap_or(UNZIPPED_BYTES))?) {
            (_, Some(bytes)) => Some(Bytes::from(bytes)),
            (Source::Memory(bytes), None) => Some(Bytes::copy_from_slice(bytes)),
            (Source::Path(_), None) => None,
        };
        let mut table = Self { source, memory, columns: Vec::new(), places: Vec::new(), rows: 0 };
        let bytes = table.check_encryption()?;
        let file = table.reader()?;
        // the footer is public, but nothing of it is worth quoting
        let read = guarded(|| {
            let metadata = file.metadata();
            let rows = metadata.file_metadata().num_rows();
            Some((parquet_types::columns(metadata.file_metadata()), rows, parquet_footer::unreadable(metadata, bytes)))
        });
        let (fields, rows, unreadable) = read.ok_or_else(|| table.damaged("its footer"))?;
        if let Some(why) = unreadable {
            return Err(DataError::UnreadableParquet { source_name: table.source.name(), why });
        }
        let names = checked_names(fields.iter().map(|f| f.name.clone()).collect())?;
        let list = |wanted: &str| {
            let lists = |(at, (name, field)): (usize, (&String, &FileColumn))| match field.layout {
                Layout::Lists(leaf, from) if name == wanted => Some((at, (leaf, from))),
                _ => None,
            };
            names.iter().zip(&fields).enumerate().find_map(lists)
        };
        let pair = match (list("indices"), list("values"), options.features) {
            (Some(indices), Some(values), Some(given)) => {
                let features = u32::try_from(given).ok().filter(|d| *d > 0 && u64::from(*d) <= MAX_FEATURES);
                let features = features.ok_or(DataError::FeaturesOutOfRange { given, limit: MAX_FEATURES })?;
                Some((indices, values, features))
            }
            _ => None,
        };
        for (at, (name, field)) in names.into_iter().zip(fields).enumerate() {
            let (column, place) = match (pair, field.layout) {
                (Some((_, (values, _), _)), _) if at == values => continue,
                (Some(((indices, of_indices), (_, of_values), features)), _) if at == indices => (
                    Column { name: "features".into(), stored: Stored::Sparse(features) },
                    Place::Sparse([of_indices, of_values], features),
                ),
                (_, Layout::Cells(leaf)) => (Column { name, stored: field.stored }, Place::At(leaf)),
                _ => (Column { name, stored: field.stored }, Place::Nowhere),
            };
            table.columns.push(column);
            table.places.push(place);
        }
        if table.columns.is_empty() {
            return Err(DataError::Empty { source_name: table.source.name() });
        }
        table.rows = u64::try_from(rows).map_err(|_| table.damaged("its row count"))?;
        Ok(table)
    }

    fn file(&self) -> Result<File, DataError> {
        match &self.source {
            Source::Path(path) => File::open(path).map_err(|e| DataError::unreadable(&self.source.name(), &e)),
            Source::Memory(_) => Err(self.damaged("its source")),
        }
    }

    /// Refuses what is encrypted; how many bytes there are.
    fn check_encryption(&self) -> Result<u64, DataError> {
        let failed = |e: std::io::Error| DataError::unreadable(&self.source.name(), &e);
        match &self.memory {
            Some(bytes) => self.check_encryption_of(&mut Cursor::new(bytes)).map_err(failed)?,
            None => self.check_encryption_of(&mut self.file()?).map_err(failed)?,
        }
    }

    fn check_encryption_of(&self, file: &mut (impl Read + Seek)) -> std::io::Result<Result<u64, DataError>> {
        let encrypted = |what: &str| {
            let why = format!("{what} encrypted, and dpopt takes no keys; write the file without encryption");
            Err(DataError::UnreadableParquet { source_name: self.source.name(), why })
        };
        let end = file.seek(SeekFrom::End(0))?;
        let Some(after_footer) = end.checked_sub(TAIL as u64) else { return Ok(Err(self.damaged("its footer"))) };
        let mut tail = [0; TAIL];
        file.seek(SeekFrom::Start(after_footer))?;
        file.read_exact(&mut tail)?;
        let length = match Footer::of(tail) {
            Footer::Encrypted => return Ok(encrypted("its footer is")),
            Footer::Plain(length) if length as u64 <= after_footer => length,
            _ => return Ok(Err(self.damaged("its footer"))),
        };
        let mut footer = vec![0; length];
        file.seek(SeekFrom::Start(after_footer - length as u64))?;
        file.read_exact(&mut footer)?;
        Ok(if parquet_footer::encrypts_columns(&footer) { encrypted("its columns are") } else { Ok(end) })
    }

    fn damaged(&self, reason: &'static str) -> DataError {
        DataError::DamagedParquet { source_name: self.source.name(), reason }
    }

    /// The file with its footer read.
    fn reader(&self) -> Result<Box<dyn FileReader>, DataError> {
        let opened = match &self.memory {
            Some(bytes) => guarded(|| Some(Box::new(SerializedFileReader::new(bytes.clone()).ok()?) as _)),
            None => {
                let file = self.file()?;
                guarded(|| Some(Box::new(SerializedFileReader::new(file).ok()?) as _))
            }
        };
        opened.ok_or_else(|| self.damaged("its footer"))
    }
}

thread_local! {
    /// True while this thread is inside [`guarded`].
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs a call into the Parquet library on bytes that may be damaged. It panics on some of them (a missing dictionary
/// page, for one); that counts as damage, and nothing is printed, because a panic's message is an output too.
fn guarded<T>(call: impl FnOnce() -> Option<T>) -> Option<T> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let other = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !GUARDED.get() {
                other(panic);
            }
        }));
    });
    let outer = GUARDED.replace(true);
    // nothing that the call borrows is used again after a panic: the table reports damage and stops
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(call));
    GUARDED.set(outer);
    result.ok().flatten()
}

impl TableReader for Parquet {
    fn name(&self) -> String {
        self.source.name()
    }

    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn count_rows(&self) -> Result<u64, DataError> {
        Ok(self.rows)
    }

    fn for_each_block(&self, visit: &mut Visit<'_>) -> Result<(), DataError> {
        let file = self.reader()?;
        let mut rows = Rows { places: &self.places, file: &*file, group: 0, readers: Vec::new(), left: 0 };
        let mut first_row = 0u64;
        loop {
            match guarded(|| rows.block(first_row)).ok_or_else(|| self.damaged("its row data"))? {
                None if first_row == self.rows => return Ok(()),
                None => return Err(self.damaged("its row data")),
                Some(block) => {
                    first_row += block.rows as u64;
                    visit(Box::new(block))?;
                }
            }
        }
    }
}

/// Where the reading of a file's row groups is.
struct Rows<'a> {
    places: &'a [Place],
    file: &'a dyn FileReader,
    /// The next row group.
    group: usize,
    /// Readers of the row group before it, one for each leaf that is read.
    readers: Vec<ColumnReader>,
    /// How many of its rows are left.
    left: usize,
}

impl Rows<'_> {
    /// The next rows, of as many row groups as it takes, in a block; no block at the end of the file. `None`: it is damaged.
    fn block(&mut self, first_row: u64) -> Option<Option<ParquetBlock>> {
        let mut columns: Vec<Unfinished> = self.places.iter().map(Unfinished::new).collect();
        let (mut rows, mut levels) = (0, Levels::default());
        while rows < BLOCK_ROWS {
            if self.left == 0 {
                if self.group == self.file.num_row_groups() {
                    break;
                }
                let group = self.file.get_row_group(self.group).ok()?;
                let leaves = self.places.iter().flat_map(Place::leaves);
                self.readers = leaves.map(|leaf| group.get_column_reader(leaf).ok()).collect::<Option<_>>()?;
                self.left = usize::try_from(group.metadata().num_rows()).ok()?;
                self.group += 1;
                continue;
            }
            let taken = self.left.min(BLOCK_ROWS - rows);
            let mut readers = self.readers.iter_mut();
            for (column, place) in columns.iter_mut().zip(self.places) {
                column.read(place, &mut readers, taken, &mut levels)?;
            }
            self.left -= taken;
            rows += taken;
        }
        if rows == 0 {
            return Some(None);
        }
        let columns = columns.into_iter().zip(self.places).map(|(column, place)| column.finished(place));
        Some(Some(ParquetBlock::new(first_row, rows, columns.collect())))
    }
}

/// A column of a block that is being read.
enum Unfinished {
    Values(Values),
    Lists(Lists, Lists),
    Nothing,
}

impl Unfinished {
    fn new(place: &Place) -> Self {
        match place {
            Place::At(leaf) => Self::Values(Values::new(leaf)),
            Place::Sparse([(indices, _), (values, _)], _) => Self::Lists(Lists::new(indices), Lists::new(values)),
            Place::Nowhere => Self::Nothing,
        }
    }

    /// Appends the next rows by the next readers, one for each of the column's leaves.
    fn read<'r>(
        &mut self,
        place: &Place,
        readers: &mut impl Iterator<Item = &'r mut ColumnReader>,
        rows: usize,
        levels: &mut Levels,
    ) -> Option<()> {
        match (self, place) {
            (Self::Values(values), Place::At(leaf)) => values.read(leaf, readers.next()?, rows, levels),
            (Self::Lists(indices, values), Place::Sparse([of_indices, of_values], _)) => {
                indices.read(&of_indices.0, of_indices.1, readers.next()?, rows, levels)?;
                values.read(&of_values.0, of_values.1, readers.next()?, rows, levels)
            }
            _ => Some(()),
        }
    }

    fn finished(self, place: &Place) -> Cells {
        match (self, place) {
            (Self::Values(values), _) => Cells::Values(values),
            (Self::Lists(indices, values), Place::Sparse(_, features)) => {
                Cells::Sparse(SparseColumn::new(&indices, &values, *features))
            }
            _ => Cells::Nothing,
        }
    }
}

/// A column of the table, of one block.
enum Cells {
    Values(Values),
    Sparse(SparseColumn),
    Nothing,
}

struct ParquetBlock {
    first_row: u64,
    rows: usize,
    bytes: usize,
    columns: Vec<Cells>,
}

impl ParquetBlock {
    fn new(first_row: u64, rows: usize, columns: Vec<Cells>) -> Self {
        let bytes = |column: &Cells| match column {
            Cells::Values(values) => values.bytes(),
            Cells::Sparse(vectors) => vectors.bytes(),
            Cells::Nothing => 0,
        };
        Self { first_row, rows, bytes: columns.iter().map(bytes).sum(), columns }
    }
}

impl Block for ParquetBlock {
    fn first_row(&self) -> u64 {
        self.first_row
    }

    fn len(&self) -> usize {
        self.rows
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn width(&self, _row: usize) -> usize {
        self.columns.len()
    }

    fn field(&self, row: usize, column: usize) -> Field<'_> {
        match self.columns.get(column) {
            Some(Cells::Values(values)) => values.field(row),
            Some(Cells::Sparse(vectors)) => vectors.row(row),
            Some(Cells::Nothing) | None => Field::Missing,
        }
    }
}
