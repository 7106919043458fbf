//! A column of a record batch, cell by cell: each type that a Parquet file may have is read as one of a few. What Arrow offers for
//! any type to any other takes longer to compile than the rest of this crate.

use std::fmt::Display;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, Float16Type, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BinaryArray, BinaryViewArray, BooleanArray, FixedSizeBinaryArray,
    GenericListArray, LargeBinaryArray, OffsetSizeTrait,
};
use arrow_buffer::{ArrowNativeType, NullBuffer, ScalarBuffer};
use arrow_schema::{DataType, TimeUnit};

use super::{Field, Stored};
use crate::numerals::{Ticks, Unit};

/// Whether a column can be a half of sparse vectors.
pub(super) fn is_list(data_type: &DataType) -> bool {
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
pub(super) fn stored(data_type: &DataType) -> Stored {
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

/// The cells of one column.
pub(super) struct Values {
    nulls: Option<NullBuffer>,
    cells: Cells,
}

enum Cells {
    Integers(ScalarBuffer<i64>),
    Numbers(ScalarBuffer<f64>),
    Times(ScalarBuffer<i64>, Ticks),
    Booleans(BooleanArray),
    Texts(BinaryArray),
    LongTexts(LargeBinaryArray),
    TextViews(BinaryViewArray),
    FixedTexts(FixedSizeBinaryArray),
    /// Each cell is one of a few values, at its place among them.
    Dictionary(Vec<usize>, Box<Values>),
    /// Nothing that can be read: every cell is missing.
    Nothing,
}

impl Values {
    /// `None`: the array is not what its type says.
    pub(super) fn new(array: &ArrayRef) -> Option<Self> {
        Some(Self { nulls: array.nulls().cloned(), cells: Cells::new(array)? })
    }

    /// The cell of a row of the block; a text without the blanks around it.
    pub(super) fn field(&self, row: usize) -> Field<'_> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return Field::Missing;
        }
        match &self.cells {
            Cells::Integers(values) => Field::Integer(values[row]),
            Cells::Numbers(values) => Field::Number(values[row]),
            Cells::Times(values, ticks) => Field::Time(values[row], *ticks),
            Cells::Booleans(values) => Field::Truth(values.value(row)),
            Cells::Texts(values) => Field::Text(values.value(row).trim_ascii()),
            Cells::LongTexts(values) => Field::Text(values.value(row).trim_ascii()),
            Cells::TextViews(values) => Field::Text(values.value(row).trim_ascii()),
            Cells::FixedTexts(values) => Field::Text(values.value(row).trim_ascii()),
            Cells::Dictionary(places, values) => values.field(places[row]),
            Cells::Nothing => Field::Missing,
        }
    }
}

impl Cells {
    fn new(array: &ArrayRef) -> Option<Self> {
        if let Some(ticks) = ticks_of(array.data_type()) {
            return Some(Self::Times(ticks_in(array)?, ticks));
        }
        Some(match array.data_type() {
            DataType::Boolean => Self::Booleans(array.as_boolean_opt()?.clone()),
            DataType::Int8 => Self::Integers(each::<Int8Type, _>(array, i64::from)?),
            DataType::Int16 => Self::Integers(each::<Int16Type, _>(array, i64::from)?),
            DataType::Int32 => Self::Integers(each::<Int32Type, _>(array, i64::from)?),
            DataType::Int64 => Self::Integers(array.as_primitive_opt::<Int64Type>()?.values().clone()),
            DataType::UInt8 => Self::Integers(each::<UInt8Type, _>(array, i64::from)?),
            DataType::UInt16 => Self::Integers(each::<UInt16Type, _>(array, i64::from)?),
            DataType::UInt32 => Self::Integers(each::<UInt32Type, _>(array, i64::from)?),
            DataType::UInt64 => Self::Numbers(each::<UInt64Type, _>(array, |v| v as f64)?),
            DataType::Float16 => Self::Numbers(each::<Float16Type, _>(array, |v| v.to_f64())?),
            DataType::Float32 => Self::Numbers(each::<Float32Type, _>(array, f64::from)?),
            DataType::Float64 => Self::Numbers(array.as_primitive_opt::<Float64Type>()?.values().clone()),
            DataType::Decimal32(_, s) => Self::Numbers(each::<Decimal32Type, _>(array, |v| small(v.into(), *s))?),
            DataType::Decimal64(_, s) => Self::Numbers(each::<Decimal64Type, _>(array, |v| small(v, *s))?),
            DataType::Decimal128(_, s) => Self::Numbers(each::<Decimal128Type, _>(array, |v| {
                i64::try_from(v).map_or(decimal(v, *s), |v| small(v, *s))
            })?),
            DataType::Decimal256(_, s) => Self::Numbers(each::<Decimal256Type, _>(array, |v| decimal(v, *s))?),
            DataType::Utf8 => Self::Texts(array.as_string_opt::<i32>()?.clone().into()),
            DataType::LargeUtf8 => Self::LongTexts(array.as_string_opt::<i64>()?.clone().into()),
            DataType::Utf8View => Self::TextViews(array.as_string_view_opt()?.clone().to_binary_view()),
            DataType::Binary => Self::Texts(array.as_binary_opt::<i32>()?.clone()),
            DataType::LargeBinary => Self::LongTexts(array.as_binary_opt::<i64>()?.clone()),
            DataType::BinaryView => Self::TextViews(array.as_binary_view_opt()?.clone()),
            DataType::FixedSizeBinary(_) => Self::FixedTexts(array.as_fixed_size_binary_opt()?.clone()),
            DataType::Dictionary(..) => {
                let dictionary = array.as_any_dictionary_opt()?;
                match dictionary.values().is_empty() {
                    true => Self::Nothing,
                    false => {
                        Self::Dictionary(dictionary.normalized_keys(), Box::new(Values::new(dictionary.values())?))
                    }
                }
            }
            _ => Self::Nothing,
        })
    }
}

/// Every value of an array of numbers as another type; what stands at a null means nothing.
fn each<T: ArrowPrimitiveType, U: ArrowNativeType>(
    array: &ArrayRef,
    to: impl Fn(T::Native) -> U,
) -> Option<ScalarBuffer<U>> {
    Some(array.as_primitive_opt::<T>()?.values().iter().map(|value| to(*value)).collect::<Vec<U>>().into())
}

/// The whole numbers that points and spans of time are stored as.
fn ticks_in(array: &ArrayRef) -> Option<ScalarBuffer<i64>> {
    let data = array.to_data();
    let buffer = data.buffers().first()?.clone();
    Some(match array.data_type() {
        DataType::Date32 | DataType::Time32(_) => {
            let short = ScalarBuffer::<i32>::new(buffer, data.offset(), data.len());
            short.iter().map(|value| i64::from(*value)).collect::<Vec<i64>>().into()
        }
        _ => ScalarBuffer::new(buffer, data.offset(), data.len()),
    })
}

/// unscaled·10^−scale, rounded once.
fn small(unscaled: i64, scale: i8) -> f64 {
    // whole numbers below 2⁵³ and powers of ten up to 10²² are exact, so that only the quotient is rounded
    if unscaled.unsigned_abs() < 1 << 53 && (0..=22).contains(&scale) {
        return unscaled as f64 / 10f64.powi(scale.into());
    }
    decimal(unscaled, scale)
}

/// unscaled·10^−scale by its digits, rounded once.
fn decimal(unscaled: impl Display, scale: i8) -> f64 {
    format!("{unscaled}e{}", -i16::from(scale)).parse().unwrap_or(f64::NAN)
}

/// Sparse vectors of a block.
#[derive(Default)]
pub(super) struct SparseColumn {
    entries: Vec<(u32, f32)>,
    ends: Vec<usize>,
    bad: Vec<Option<&'static str>>,
}

impl SparseColumn {
    pub(super) fn new(indices: &ArrayRef, values: &ArrayRef, features: u32) -> Option<Self> {
        let (indices, values) = (Lists::new(indices)?, Lists::new(values)?);
        let mut column = Self::default();
        for (at, size) in indices.rows.iter().zip(&values.rows) {
            let mut bad = None;
            match (at, size) {
                (None, None) => {}
                (Some(at), Some(size)) if at.len() == size.len() => {
                    for (j, v) in at.clone().zip(size.clone()) {
                        match (place(indices.items.field(j), features), real(values.items.field(v))) {
                            (Some(j), Some(v)) => column.entries.push((j, v)),
                            (None, _) => {
                                bad = bad.or(Some("an index is not a whole number below the declared --features"));
                            }
                            _ => bad = bad.or(Some("a value is not a finite number")),
                        }
                    }
                }
                _ => bad = Some("`indices` and `values` differ in length"),
            }
            column.ends.push(column.entries.len());
            column.bad.push(bad);
        }
        Some(column)
    }

    pub(super) fn row(&self, row: usize) -> Field<'_> {
        match self.bad[row] {
            Some(reason) => Field::Malformed(reason),
            None => {
                let from = if row == 0 { 0 } else { self.ends[row - 1] };
                Field::Sparse(&self.entries[from..self.ends[row]])
            }
        }
    }
}

fn place(field: Field<'_>, features: u32) -> Option<u32> {
    let whole = match field {
        Field::Integer(whole) => u32::try_from(whole).ok()?,
        Field::Number(number) if number.fract() == 0.0 && (0.0..f64::from(features)).contains(&number) => number as u32,
        _ => return None,
    };
    (whole < features).then_some(whole)
}

fn real(field: Field<'_>) -> Option<f32> {
    let value = match field {
        Field::Integer(whole) => whole as f32,
        Field::Number(number) => number as f32,
        _ => return None,
    };
    value.is_finite().then_some(value)
}

/// A column of lists: where each row's items are, if it has a list.
struct Lists {
    rows: Vec<Option<std::ops::Range<usize>>>,
    items: Values,
}

impl Lists {
    fn new(array: &ArrayRef) -> Option<Self> {
        fn of<O: OffsetSizeTrait>(lists: &GenericListArray<O>) -> Option<Lists> {
            let rows = lists.value_offsets().windows(2).enumerate();
            let rows = rows.map(|(row, ends)| lists.is_valid(row).then(|| ends[0].as_usize()..ends[1].as_usize()));
            Some(Lists { rows: rows.collect(), items: Values::new(lists.values())? })
        }
        match array.data_type() {
            DataType::List(_) => of(array.as_list_opt::<i32>()?),
            _ => of(array.as_list_opt::<i64>()?),
        }
    }
}
