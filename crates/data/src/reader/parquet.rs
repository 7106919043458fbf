//! Apache Parquet with flat columns: names, types and the row count come from the file's footer, without reading rows.
//! Two list columns `indices` and `values` are one sparse vector per row, if the number of features is declared.

use std::cell::Cell;
use std::fs::File;
use std::io::{Cursor, Read, Seek, SeekFrom};
use std::sync::Once;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use bytes::Bytes;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::file::metadata::ParquetMetaData;

use super::parquet_footer::{self, Footer, TAIL};
use super::parquet_values::{SparseColumn, Values, is_list, stored};
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
    At(usize),
    /// Positions of `indices` and `values`, and the dimension.
    Sparse(usize, usize, u32),
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
        let damaged = || table.damaged("its footer");
        // the footer is public, but nothing of it is worth quoting
        let read = |schema: &SchemaRef, metadata: &ParquetMetaData| {
            (schema.clone(), metadata.file_metadata().num_rows(), parquet_footer::unreadable(metadata, bytes))
        };
        let (schema, rows, unreadable) = match &table.memory {
            Some(bytes) => {
                let builder =
                    guarded(|| ParquetRecordBatchReaderBuilder::try_new(bytes.clone()).ok()).ok_or_else(damaged)?;
                read(builder.schema(), builder.metadata())
            }
            None => {
                let file = table.file()?;
                let builder = guarded(|| ParquetRecordBatchReaderBuilder::try_new(file).ok()).ok_or_else(damaged)?;
                read(builder.schema(), builder.metadata())
            }
        };
        if let Some(why) = unreadable {
            return Err(DataError::UnreadableParquet { source_name: table.source.name(), why });
        }
        let names = checked_names(schema.fields().iter().map(|f| f.name().trim().to_string()).collect())?;
        let list = |wanted: &str| {
            names.iter().zip(schema.fields()).position(|(name, field)| name == wanted && is_list(field.data_type()))
        };
        let pair = match (list("indices"), list("values"), options.features) {
            (Some(indices), Some(values), Some(given)) => {
                let features = u32::try_from(given).ok().filter(|d| *d > 0 && u64::from(*d) <= MAX_FEATURES);
                let features = features.ok_or(DataError::FeaturesOutOfRange { given, limit: MAX_FEATURES })?;
                Some((indices, values, features))
            }
            _ => None,
        };
        for (at, (name, field)) in names.into_iter().zip(schema.fields()).enumerate() {
            let (column, place) = match pair {
                Some((_, values, _)) if at == values => continue,
                Some((indices, values, features)) if at == indices => (
                    Column { name: "features".into(), stored: Stored::Sparse(features) },
                    Place::Sparse(indices, values, features),
                ),
                _ => (Column { name, stored: stored(field.data_type()) }, Place::At(at)),
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

    fn batches(&self) -> Result<ParquetRecordBatchReader, DataError> {
        let built = match &self.memory {
            Some(bytes) => guarded(|| {
                ParquetRecordBatchReaderBuilder::try_new(bytes.clone())
                    .and_then(|b| b.with_batch_size(BLOCK_ROWS).build())
                    .ok()
            }),
            None => {
                let file = self.file()?;
                guarded(|| {
                    ParquetRecordBatchReaderBuilder::try_new(file)
                        .and_then(|b| b.with_batch_size(BLOCK_ROWS).build())
                        .ok()
                })
            }
        };
        built.ok_or_else(|| self.damaged("its footer"))
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
        let mut batches = self.batches()?;
        let mut first_row = 0u64;
        loop {
            let block = guarded(|| match batches.next() {
                None => Some(None),
                Some(Ok(batch)) => ArrowBlock::new(&batch, &self.places, first_row).map(Some),
                Some(Err(_)) => None,
            });
            match block.ok_or_else(|| self.damaged("its row data"))? {
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

/// A column of the table, of one block.
enum Cells {
    Values(Values),
    Sparse(SparseColumn),
}

struct ArrowBlock {
    first_row: u64,
    rows: usize,
    bytes: usize,
    columns: Vec<Cells>,
}

impl ArrowBlock {
    fn new(batch: &RecordBatch, places: &[Place], first_row: u64) -> Option<Self> {
        let column = |place: &Place| match *place {
            Place::At(at) => Values::new(batch.columns().get(at)?).map(Cells::Values),
            Place::Sparse(indices, values, features) => {
                let (indices, values) = (batch.columns().get(indices)?, batch.columns().get(values)?);
                SparseColumn::new(indices, values, features).map(Cells::Sparse)
            }
        };
        let columns = places.iter().map(column).collect::<Option<_>>()?;
        Some(Self { first_row, rows: batch.num_rows(), bytes: batch.get_array_memory_size(), columns })
    }
}

impl Block for ArrowBlock {
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
            None => Field::Missing,
        }
    }
}
