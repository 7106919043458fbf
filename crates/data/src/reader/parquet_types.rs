//! What a Parquet schema says of its columns: which cells their values become, and where lists are.

use parquet::basic::{ConvertedType, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::file::metadata::FileMetaData;
use parquet::schema::types::{ColumnDescriptor, Type};

use super::Stored;
use super::parquet_arrow::{Hint, hints};
use crate::numerals::{Ticks, Unit};

/// Which cells the values of a leaf become.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    Truth,
    /// Whole numbers of so many bits, with a sign or without.
    Whole(u8, bool),
    /// FLOAT, DOUBLE, and two bytes of FLOAT16.
    Float,
    /// Whole numbers or big-endian bytes, times 10^−scale.
    Decimal(i32),
    /// Whole numbers, each so many ticks.
    Time(Ticks, i64),
    /// Bytes, of which the schema may say that they are UTF-8.
    Text(bool),
}

impl Kind {
    fn is_numeric(self) -> bool {
        matches!(self, Self::Whole(..) | Self::Float | Self::Decimal(_))
    }

    fn stored(self) -> Stored {
        match self {
            Self::Truth => Stored::Boolean,
            Self::Time(ticks, _) => Stored::Time(ticks),
            Self::Text(_) => Stored::Text,
            Self::Whole(..) | Self::Float | Self::Decimal(_) => Stored::Number,
        }
    }
}

/// A column without columns inside, which is where Parquet keeps values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaf {
    /// Position among the file's leaves.
    pub(super) at: usize,
    pub(super) kind: Kind,
    /// Definition level of a value that is there.
    pub(super) present: i16,
}

/// How a column of the table is laid out in the file.
#[derive(Clone, Copy, Debug)]
pub(super) enum Layout {
    Cells(Leaf),
    /// Lists of numbers, and the definition level from which on an item is there, be it null.
    Lists(Leaf, i16),
    /// Nothing that is read: what no cell can hold, or nulls only.
    Unread,
}

/// A column of the table.
pub(super) struct FileColumn {
    pub(super) name: String,
    pub(super) layout: Layout,
    pub(super) stored: Stored,
}

/// The columns of a file.
pub(super) fn columns(file: &FileMetaData) -> Vec<FileColumn> {
    let schema = file.schema_descr();
    let fields = schema.root_schema().get_fields();
    let names: Vec<&str> = fields.iter().map(|field| field.name()).collect();
    let arrow = file.key_value_metadata().into_iter().flatten().rev().find(|pair| pair.key == "ARROW:schema");
    let hints = arrow.and_then(|pair| hints(pair.value.as_deref()?, &names)).unwrap_or_default();
    let mut leaves = schema.columns().iter().enumerate().peekable();
    let mut columns = Vec::with_capacity(fields.len());
    for (root, field) in fields.iter().enumerate() {
        let first = leaves.next_if(|(at, _)| schema.get_column_root_idx(*at) == root);
        // an empty group holds nothing
        let Some((at, leaf)) = first else { continue };
        let mut alone = true;
        while leaves.next_if(|(at, _)| schema.get_column_root_idx(*at) == root).is_some() {
            alone = false;
        }
        let layout = match alone {
            true => layout(field, at, leaf, hints.get(root).copied().flatten()),
            false => Layout::Unread,
        };
        let stored = match layout {
            Layout::Cells(leaf) => leaf.kind.stored(),
            Layout::Unread if is_of_nulls(field) => Stored::Text,
            Layout::Lists(..) | Layout::Unread => Stored::Unsupported(words(field).chars().take(60).collect()),
        };
        columns.push(FileColumn { name: field.name().trim().to_string(), layout, stored });
    }
    columns
}

/// The layout of a column with one leaf.
fn layout(field: &Type, at: usize, leaf: &ColumnDescriptor, hint: Option<Hint>) -> Layout {
    let listed = listed(field);
    // Arrow says of a list what its items are, which is no type of times
    let Some(kind) = kind(leaf, hint.filter(|_| field.is_primitive())) else { return Layout::Unread };
    let leaf = Leaf { at, kind, present: leaf.max_def_level() };
    match listed {
        Some(level) if kind.is_numeric() => Layout::Lists(leaf, level),
        None if field.is_primitive() => Layout::Cells(leaf),
        _ => Layout::Unread,
    }
}

fn is_of_nulls(field: &Type) -> bool {
    field.is_primitive()
        && !is_repeated(field)
        && field.get_basic_info().logical_type_ref() == Some(&LogicalType::Unknown)
}

fn is_repeated(field: &Type) -> bool {
    let info = field.get_basic_info();
    info.has_repetition() && info.repetition() == Repetition::REPEATED
}

/// The definition level from which on an item is there, if the field is a list of what is not nested. Parquet has had several forms of
/// lists: a group with a repeated group of one field, a group with a repeated field, and a repeated field.
fn listed(field: &Type) -> Option<i16> {
    if field.is_primitive() {
        return is_repeated(field).then_some(1);
    }
    let info = field.get_basic_info();
    let is_list = info.converted_type() == ConvertedType::LIST || info.logical_type_ref() == Some(&LogicalType::List);
    let [items] = field.get_fields() else { return None };
    if !is_list || is_repeated(field) || !is_repeated(items) {
        return None;
    }
    let of_values = match items.is_primitive() {
        true => true,
        false => match items.get_fields() {
            // by these names a list of groups of one field
            [_] if items.name() == "array" || items.name() == format!("{}_tuple", field.name()) => false,
            [item] => item.is_primitive() && !is_repeated(item),
            _ => false,
        },
    };
    of_values.then_some(if field.is_optional() { 2 } else { 1 })
}

/// Which cells a leaf's values become; `None` if no cell can hold them.
fn kind(leaf: &ColumnDescriptor, hint: Option<Hint>) -> Option<Kind> {
    let (logical, converted) = (leaf.logical_type_ref(), leaf.converted_type());
    if logical == Some(&LogicalType::Unknown) {
        return None;
    }
    let decimal = match (logical, converted) {
        (Some(LogicalType::Decimal(decimal)), _) => Some(Kind::Decimal(decimal.scale)),
        (None, ConvertedType::DECIMAL) => Some(Kind::Decimal(leaf.type_scale())),
        _ => None,
    };
    match leaf.physical_type() {
        Physical::BOOLEAN => Some(Kind::Truth),
        Physical::INT32 => decimal.or_else(|| of_32_bits(logical, converted, hint)),
        Physical::INT64 => decimal.or_else(|| of_64_bits(logical, converted, hint)),
        Physical::INT96 => {
            let per_day = match hint {
                Some(Hint::Timestamp(per_day)) => per_day,
                _ => NANOSECONDS,
            };
            Some(point(per_day))
        }
        Physical::FLOAT | Physical::DOUBLE => Some(Kind::Float),
        Physical::BYTE_ARRAY => {
            let is_utf8 = converted == ConvertedType::UTF8 || logical == Some(&LogicalType::String);
            decimal.or(Some(Kind::Text(is_utf8)))
        }
        Physical::FIXED_LEN_BYTE_ARRAY => match (logical, converted) {
            (Some(LogicalType::Float16), _) => (leaf.type_length() == 2).then_some(Kind::Float),
            (None, ConvertedType::INTERVAL) => None,
            _ => decimal.or(Some(Kind::Text(false))),
        },
    }
}

const MILLISECONDS: i64 = 86_400_000;
const MICROSECONDS: i64 = 86_400_000_000;
const NANOSECONDS: i64 = 86_400_000_000_000;

fn per_day(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::MILLIS => MILLISECONDS,
        TimeUnit::MICROS => MICROSECONDS,
        TimeUnit::NANOS => NANOSECONDS,
    }
}

fn point(per_day: i64) -> Kind {
    Kind::Time(Ticks { per_day, unit: Unit::Date }, 1)
}

fn span(per_day: i64) -> Kind {
    Kind::Time(Ticks { per_day, unit: Unit::Duration }, 1)
}

fn of_32_bits(logical: Option<&LogicalType>, converted: ConvertedType, hint: Option<Hint>) -> Option<Kind> {
    let kind = match (logical, converted) {
        (Some(LogicalType::Integer(int)), _) if matches!(int.bit_width, 8 | 16 | 32) => {
            Kind::Whole(int.bit_width as u8, int.is_signed)
        }
        (Some(LogicalType::Date), _) | (None, ConvertedType::DATE) => match hint {
            Some(Hint::Date64) => Kind::Time(Ticks { per_day: MILLISECONDS, unit: Unit::Date }, MILLISECONDS),
            _ => point(1),
        },
        (Some(LogicalType::Time(time)), _) if time.unit == TimeUnit::MILLIS => span(MILLISECONDS),
        (None, ConvertedType::NONE | ConvertedType::INT_32) => Kind::Whole(32, true),
        (None, ConvertedType::INT_8) => Kind::Whole(8, true),
        (None, ConvertedType::INT_16) => Kind::Whole(16, true),
        (None, ConvertedType::UINT_8) => Kind::Whole(8, false),
        (None, ConvertedType::UINT_16) => Kind::Whole(16, false),
        (None, ConvertedType::UINT_32) => Kind::Whole(32, false),
        (None, ConvertedType::TIME_MILLIS) => span(MILLISECONDS),
        _ => return None,
    };
    Some(match (kind, hint) {
        (Kind::Whole(32, true), Some(Hint::Timestamp(per_day))) => point(per_day),
        (Kind::Whole(32, true), Some(Hint::Time(per_day))) => span(per_day),
        _ => kind,
    })
}

fn of_64_bits(logical: Option<&LogicalType>, converted: ConvertedType, hint: Option<Hint>) -> Option<Kind> {
    let kind = match (logical, converted) {
        (Some(LogicalType::Integer(int)), _) if int.bit_width == 64 => Kind::Whole(64, int.is_signed),
        (Some(LogicalType::Time(time)), _) if time.unit != TimeUnit::MILLIS => span(per_day(time.unit)),
        (Some(LogicalType::Timestamp(timestamp)), _) => point(per_day(timestamp.unit)),
        (None, ConvertedType::NONE | ConvertedType::INT_64) => Kind::Whole(64, true),
        (None, ConvertedType::UINT_64) => Kind::Whole(64, false),
        (None, ConvertedType::TIME_MICROS) => span(MICROSECONDS),
        (None, ConvertedType::TIMESTAMP_MILLIS) => point(MILLISECONDS),
        (None, ConvertedType::TIMESTAMP_MICROS) => point(MICROSECONDS),
        _ => return None,
    };
    Some(match (kind, hint) {
        (Kind::Whole(64, true), Some(Hint::Timestamp(per_day))) => point(per_day),
        (Kind::Whole(64, true), Some(Hint::Time(per_day) | Hint::Duration(per_day))) => span(per_day),
        (Kind::Whole(64, true), Some(Hint::Date64)) => point(MILLISECONDS),
        _ => kind,
    })
}

/// A type that can't be read, in Parquet's words.
fn words(field: &Type) -> String {
    let converted = field.get_basic_info().converted_type();
    if field.is_group()
        && converted == ConvertedType::LIST
        && let [items] = field.get_fields()
    {
        let of = match items.is_group().then(|| items.get_fields()) {
            Some([item]) => words(item),
            _ => name(items),
        };
        return format!("LIST of {of}");
    }
    if is_repeated(field) { format!("repeated {}", name(field)) } else { name(field) }
}

fn name(field: &Type) -> String {
    match field.get_basic_info().converted_type() {
        ConvertedType::NONE if field.is_group() => "group".into(),
        ConvertedType::NONE => field.get_physical_type().to_string(),
        converted => converted.to_string(),
    }
}
