//! Apache Parquet with flat columns: names, types and the row count come from the file's footer, without reading rows.
//! Two list columns `indices` and `values` are one sparse vector per row, if the number of features is declared.

use std::cell::Cell;
use std::fs::File;
use std::io::{Cursor, Read, Seek, SeekFrom};
use std::sync::{Arc, Once};

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array, LargeBinaryArray, LargeStringArray, RecordBatch,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field as ArrowField, Float32Type, Float64Type, Int64Type, SchemaRef, TimeUnit};
use bytes::Bytes;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::file::metadata::ParquetMetaData;

use super::parquet_footer::{self, Footer, TAIL};
use super::{
    BLOCK_ROWS, Block, Column, Field, MAX_FEATURES, ReadOptions, Stored, TableReader, UNZIPPED_BYTES, Visit,
    checked_names,
};
use crate::error::DataError;
use crate::numerals::{Ticks, Unit};
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

fn is_list(data_type: &DataType) -> bool {
    matches!(data_type, DataType::List(item) | DataType::LargeList(item) if item.data_type().is_numeric())
}

/// Texts of whatever encoding, as some programs store them.
fn is_binary(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_))
}

/// The ticks of points and spans of time.
fn ticks_of(data_type: &DataType) -> Option<Ticks> {
    let per_day = |unit: &TimeUnit| match unit {
        TimeUnit::Second => 86_400,
        TimeUnit::Millisecond => 86_400_000,
        TimeUnit::Microsecond => 86_400_000_000,
        TimeUnit::Nanosecond => 86_400_000_000_000,
    };
    let (per_day, unit) = match data_type {
        DataType::Date32 => (1, Unit::Date),
        DataType::Date64 => (86_400_000, Unit::Date),
        DataType::Timestamp(unit, _) => (per_day(unit), Unit::Date),
        DataType::Time32(unit) | DataType::Time64(unit) | DataType::Duration(unit) => (per_day(unit), Unit::Duration),
        _ => return None,
    };
    Some(Ticks { per_day, unit })
}

/// What a Parquet type says about a column.
fn stored(data_type: &DataType) -> Stored {
    if let Some(ticks) = ticks_of(data_type) {
        return Stored::Time(ticks);
    }
    match data_type {
        DataType::Boolean => Stored::Boolean,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Stored::Text,
        DataType::Dictionary(_, values) => stored(values),
        binary if is_binary(binary) => Stored::Text,
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

/// A column as one of the few types that an encoder reads.
enum Values {
    Integers(Int64Array),
    Times(Int64Array, Ticks),
    Binaries(LargeBinaryArray),
    Numbers(Float64Array),
    Texts(LargeStringArray),
    Booleans(BooleanArray),
    Sparse(SparseColumn),
    Unsupported,
}

/// Sparse vectors of a block.
#[derive(Default)]
struct SparseColumn {
    entries: Vec<(u32, f32)>,
    ends: Vec<usize>,
    bad: Vec<Option<&'static str>>,
}

impl SparseColumn {
    fn new(indices: &ArrayRef, values: &ArrayRef, features: u32) -> Option<Self> {
        let whole = DataType::LargeList(Arc::new(ArrowField::new("item", DataType::Int64, true)));
        let real = DataType::LargeList(Arc::new(ArrowField::new("item", DataType::Float32, true)));
        // indices beyond 63 bits become nulls, which are refused below
        let (indices, values) = (cast(indices, &whole).ok()?, cast(values, &real).ok()?);
        let (indices, values) = (indices.as_list_opt::<i64>()?, values.as_list_opt::<i64>()?);
        let mut column = Self::default();
        for row in 0..indices.len() {
            let mut bad = None;
            if indices.is_valid(row) != values.is_valid(row) || indices.value_length(row) != values.value_length(row) {
                bad = Some("`indices` and `values` differ in length");
            } else if indices.is_valid(row) {
                let (at, size) = (indices.value(row), values.value(row));
                let (at, size) = (at.as_primitive_opt::<Int64Type>()?, size.as_primitive_opt::<Float32Type>()?);
                for (j, v) in at.iter().zip(size) {
                    match (j.and_then(|j| u32::try_from(j).ok()).filter(|j| *j < features), v) {
                        (Some(j), Some(v)) if v.is_finite() => column.entries.push((j, v)),
                        (None, _) => bad = bad.or(Some("an index is not a whole number below the declared --features")),
                        _ => bad = bad.or(Some("a value is not a finite number")),
                    }
                }
            }
            column.ends.push(column.entries.len());
            column.bad.push(bad);
        }
        Some(column)
    }

    fn row(&self, row: usize) -> Field<'_> {
        match self.bad[row] {
            Some(reason) => Field::Malformed(reason),
            None => {
                let from = if row == 0 { 0 } else { self.ends[row - 1] };
                Field::Sparse(&self.entries[from..self.ends[row]])
            }
        }
    }
}

impl Values {
    fn new(array: &ArrayRef) -> Option<Self> {
        let to = |target: &DataType| cast(array, target).ok();
        let integers = |a: ArrayRef| a.as_primitive_opt::<Int64Type>().cloned();
        if let Some(ticks) = ticks_of(array.data_type()) {
            let whole = match array.data_type() {
                DataType::Date32 | DataType::Time32(_) => cast(&to(&DataType::Int32)?, &DataType::Int64).ok()?,
                _ => to(&DataType::Int64)?,
            };
            return integers(whole).map(|whole| Self::Times(whole, ticks));
        }
        Some(match array.data_type() {
            DataType::Boolean => Self::Booleans(array.as_boolean_opt()?.clone()),
            whole if whole.is_integer() && *whole != DataType::UInt64 => {
                integers(to(&DataType::Int64)?).map(Self::Integers)?
            }
            DataType::Dictionary(_, values) if ticks_of(values).is_some() || is_binary(values) => {
                Self::new(&to(values)?)?
            }
            binary if is_binary(binary) => Self::Binaries(to(&DataType::LargeBinary)?.as_binary_opt::<i64>()?.clone()),
            other => match stored(other) {
                Stored::Number => Self::Numbers(to(&DataType::Float64)?.as_primitive_opt::<Float64Type>()?.clone()),
                Stored::Text => Self::Texts(to(&DataType::LargeUtf8)?.as_string_opt::<i64>()?.clone()),
                Stored::Boolean => Self::Booleans(to(&DataType::Boolean)?.as_boolean_opt()?.clone()),
                _ => Self::Unsupported,
            },
        })
    }
}

struct ArrowBlock {
    first_row: u64,
    rows: usize,
    bytes: usize,
    columns: Vec<Values>,
}

impl ArrowBlock {
    fn new(batch: &RecordBatch, places: &[Place], first_row: u64) -> Option<Self> {
        let column = |place: &Place| match *place {
            Place::At(at) => Values::new(batch.columns().get(at)?),
            Place::Sparse(indices, values, features) => {
                let (indices, values) = (batch.columns().get(indices)?, batch.columns().get(values)?);
                SparseColumn::new(indices, values, features).map(Values::Sparse)
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
            Some(Values::Integers(a)) if a.is_valid(row) => Field::Integer(a.value(row)),
            Some(Values::Numbers(a)) if a.is_valid(row) => Field::Number(a.value(row)),
            Some(Values::Texts(a)) if a.is_valid(row) => Field::Text(a.value(row).as_bytes().trim_ascii()),
            Some(Values::Sparse(column)) => column.row(row),
            Some(Values::Booleans(a)) if a.is_valid(row) => Field::Truth(a.value(row)),
            Some(Values::Times(a, ticks)) if a.is_valid(row) => Field::Time(a.value(row), *ticks),
            Some(Values::Binaries(a)) if a.is_valid(row) => Field::Text(a.value(row).trim_ascii()),
            _ => Field::Missing,
        }
    }
}
