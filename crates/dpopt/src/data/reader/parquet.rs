//! Apache Parquet with flat columns: names, types and the row count come from the file's footer, without reading rows.

use std::cell::Cell;
use std::fs::File;
use std::sync::Once;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use bytes::Bytes;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};

use super::source::Source;
use super::{BLOCK_ROWS, Block, Column, Field, Stored, TableReader, Visit, checked_names};
use crate::data::error::DataError;

pub(crate) struct Parquet {
    source: Source,
    /// The whole file when it had to be gunzipped or came from memory.
    memory: Option<Bytes>,
    columns: Vec<Column>,
    rows: u64,
}

impl Parquet {
    pub(crate) fn open(source: Source) -> Result<Self, DataError> {
        let memory = match (&source, source.gunzipped()?) {
            (_, Some(bytes)) => Some(Bytes::from(bytes)),
            (Source::Memory(bytes), None) => Some(Bytes::copy_from_slice(bytes)),
            (Source::Path(_), None) => None,
        };
        let mut table = Self { source, memory, columns: Vec::new(), rows: 0 };
        let damaged = || DataError::DamagedParquet { source_name: table.source.name(), reason: "its footer" };
        // the footer is public, but nothing of it is worth quoting
        let (schema, rows) = match &table.memory {
            Some(bytes) => {
                let builder = guarded(|| ParquetRecordBatchReaderBuilder::try_new(bytes.clone()).ok()).ok_or_else(damaged)?;
                (builder.schema().clone(), builder.metadata().file_metadata().num_rows())
            }
            None => {
                let file = table.file()?;
                let builder = guarded(|| ParquetRecordBatchReaderBuilder::try_new(file).ok()).ok_or_else(damaged)?;
                (builder.schema().clone(), builder.metadata().file_metadata().num_rows())
            }
        };
        let names = checked_names(schema.fields().iter().map(|f| f.name().trim().to_string()).collect())?;
        let stored = schema.fields().iter().map(|f| stored(f.data_type()));
        table.columns = names.into_iter().zip(stored).map(|(name, stored)| Column { name, stored }).collect();
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

    fn damaged(&self, reason: &'static str) -> DataError {
        DataError::DamagedParquet { source_name: self.source.name(), reason }
    }

    fn batches(&self) -> Result<ParquetRecordBatchReader, DataError> {
        let built = match &self.memory {
            Some(bytes) => guarded(|| {
                ParquetRecordBatchReaderBuilder::try_new(bytes.clone()).and_then(|b| b.with_batch_size(BLOCK_ROWS).build()).ok()
            }),
            None => {
                let file = self.file()?;
                guarded(|| {
                    ParquetRecordBatchReaderBuilder::try_new(file).and_then(|b| b.with_batch_size(BLOCK_ROWS).build()).ok()
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

/// What a Parquet type says about a column.
fn stored(data_type: &DataType) -> Stored {
    match data_type {
        DataType::Boolean => Stored::Boolean,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Stored::Text,
        DataType::Dictionary(_, values) => stored(values),
        DataType::Timestamp(_, _) | DataType::Date32 | DataType::Date64 | DataType::Time32(_) | DataType::Time64(_) => {
            Stored::Number
        }
        numeric if numeric.is_numeric() => Stored::Number,
        DataType::Null => Stored::Text,
        other => Stored::Unsupported(other.to_string().chars().take(60).collect()),
    }
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
                Some(Ok(batch)) => ArrowBlock::new(&batch, first_row).map(Some),
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

/// A column as one of the few types that an encoder reads.
enum Values {
    Integers(Int64Array),
    Numbers(Float64Array),
    Texts(StringArray),
    Booleans(BooleanArray),
    Unsupported,
}

impl Values {
    fn new(array: &ArrayRef) -> Option<Self> {
        let to = |target: &DataType| cast(array, target).ok();
        let integers = |a: ArrayRef| a.as_primitive_opt::<Int64Type>().cloned().map(Self::Integers);
        Some(match array.data_type() {
            DataType::Boolean => Self::Booleans(array.as_boolean_opt()?.clone()),
            DataType::Date32 | DataType::Time32(_) => integers(cast(&to(&DataType::Int32)?, &DataType::Int64).ok()?)?,
            DataType::Date64 | DataType::Time64(_) | DataType::Timestamp(_, _) => integers(to(&DataType::Int64)?)?,
            whole if whole.is_integer() && *whole != DataType::UInt64 => integers(to(&DataType::Int64)?)?,
            other => match stored(other) {
                Stored::Number => Self::Numbers(to(&DataType::Float64)?.as_primitive_opt::<Float64Type>()?.clone()),
                Stored::Text => Self::Texts(to(&DataType::Utf8)?.as_string_opt::<i32>()?.clone()),
                Stored::Boolean => Self::Booleans(to(&DataType::Boolean)?.as_boolean_opt()?.clone()),
                _ => Self::Unsupported,
            },
        })
    }
}

struct ArrowBlock {
    first_row: u64,
    rows: usize,
    columns: Vec<Values>,
}

impl ArrowBlock {
    fn new(batch: &RecordBatch, first_row: u64) -> Option<Self> {
        let columns = batch.columns().iter().map(Values::new).collect::<Option<_>>()?;
        Some(Self { first_row, rows: batch.num_rows(), columns })
    }
}

impl Block for ArrowBlock {
    fn first_row(&self) -> u64 {
        self.first_row
    }

    fn len(&self) -> usize {
        self.rows
    }

    fn width(&self, _row: usize) -> usize {
        self.columns.len()
    }

    fn field(&self, row: usize, column: usize) -> Field<'_> {
        match self.columns.get(column) {
            Some(Values::Integers(a)) if a.is_valid(row) => Field::Integer(a.value(row)),
            Some(Values::Numbers(a)) if a.is_valid(row) => Field::Number(a.value(row)),
            Some(Values::Texts(a)) if a.is_valid(row) => Field::Text(a.value(row).as_bytes().trim_ascii()),
            Some(Values::Booleans(a)) if a.is_valid(row) => Field::Text(if a.value(row) { b"true" } else { b"false" }),
            _ => Field::Missing,
        }
    }
}
