//! Columns of a Parquet file, cell by cell: the values of each type that such a file may have become those of a few.

use std::fmt::Display;
use std::ops::Range;

use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};

use super::Field;
use super::parquet_types::{Kind, Leaf};
use crate::numerals::Ticks;

/// Levels of the rows that were read last; their memory is used again.
#[derive(Default)]
pub(super) struct Levels {
    definition: Vec<i16>,
    repetition: Vec<i16>,
}

/// The cells of one column.
pub(super) struct Values {
    /// Where each row's value is among the cells, [`NULL`] if it has none; `None`: no row can be without.
    places: Option<Vec<u32>>,
    cells: Cells,
}

const NULL: u32 = u32::MAX;

enum Cells {
    Integers(Vec<i64>),
    Numbers(Vec<f64>),
    Times(Vec<i64>, Ticks),
    Booleans(Vec<bool>),
    /// Parts of the file's pages: those that stand in a dictionary are there once.
    Texts(Vec<ByteArray>),
}

impl Values {
    pub(super) fn new(leaf: &Leaf) -> Self {
        let cells = match leaf.kind {
            Kind::Whole(64, false) | Kind::Float | Kind::Decimal(_) => Cells::Numbers(Vec::new()),
            Kind::Whole(..) => Cells::Integers(Vec::new()),
            Kind::Time(ticks, _) => Cells::Times(Vec::new(), ticks),
            Kind::Truth => Cells::Booleans(Vec::new()),
            Kind::Text(_) => Cells::Texts(Vec::new()),
        };
        Self { places: (leaf.present > 0).then(Vec::new), cells }
    }

    /// Appends the next rows of a column without lists; `None`: it is damaged.
    pub(super) fn read(
        &mut self,
        leaf: &Leaf,
        reader: &mut ColumnReader,
        rows: usize,
        levels: &mut Levels,
    ) -> Option<()> {
        let before = self.cells.len();
        self.cells.read(leaf.kind, reader, rows, levels)?;
        match &self.places {
            None => (self.cells.len() == before + rows).then_some(()),
            Some(_) if levels.definition.len() != rows => None,
            Some(_) => self.place(before, levels.definition.iter().map(|level| *level == leaf.present)),
        }
    }

    /// Says which of further rows the cells from `before` on belong to.
    fn place(&mut self, before: usize, present: impl Iterator<Item = bool>) -> Option<()> {
        let Some(places) = &mut self.places else { return Some(()) };
        let end = u32::try_from(self.cells.len()).ok().filter(|end| *end < NULL)?;
        let mut next = u32::try_from(before).ok()?;
        places.extend(present.map(|present| {
            next += u32::from(present);
            if present { next - 1 } else { NULL }
        }));
        (next == end).then_some(())
    }

    /// The cell of a row of the block; a text without the blanks around it.
    pub(super) fn field(&self, row: usize) -> Field<'_> {
        let at = match &self.places {
            None => row,
            Some(places) if places[row] == NULL => return Field::Missing,
            Some(places) => places[row] as usize,
        };
        match &self.cells {
            Cells::Integers(values) => Field::Integer(values[at]),
            Cells::Numbers(values) => Field::Number(values[at]),
            Cells::Times(values, ticks) => Field::Time(values[at], *ticks),
            Cells::Booleans(values) => Field::Truth(values[at]),
            Cells::Texts(values) => Field::Text(values[at].data().trim_ascii()),
        }
    }

    /// Memory, about: a text counts wherever it stands.
    pub(super) fn bytes(&self) -> usize {
        let of_cells = match &self.cells {
            Cells::Integers(values) | Cells::Times(values, _) => 8 * values.len(),
            Cells::Numbers(values) => 8 * values.len(),
            Cells::Booleans(values) => values.len(),
            Cells::Texts(values) => values.iter().map(|text| size_of::<ByteArray>() + text.len()).sum(),
        };
        of_cells + 4 * self.places.as_ref().map_or(0, Vec::len)
    }
}

impl Cells {
    fn len(&self) -> usize {
        match self {
            Self::Integers(values) | Self::Times(values, _) => values.len(),
            Self::Numbers(values) => values.len(),
            Self::Booleans(values) => values.len(),
            Self::Texts(values) => values.len(),
        }
    }

    /// Appends the values of the next rows; `None` if they are damaged, or not of the type that the schema says.
    fn read(&mut self, kind: Kind, reader: &mut ColumnReader, rows: usize, levels: &mut Levels) -> Option<()> {
        use ColumnReader::*;
        levels.definition.clear();
        levels.repetition.clear();
        match (self, kind, reader) {
            (Self::Booleans(to), Kind::Truth, BoolColumnReader(from)) => values(from, rows, levels, to),
            (Self::Integers(to), Kind::Whole(bits, signed), Int32ColumnReader(from)) => {
                // what a type has no bits for is cut off
                each(from, rows, levels, to, |value| match (bits, signed) {
                    (8, true) => i64::from(value as i8),
                    (16, true) => i64::from(value as i16),
                    (8, false) => i64::from(value as u8),
                    (16, false) => i64::from(value as u16),
                    (_, true) => i64::from(value),
                    (_, false) => i64::from(value as u32),
                })
            }
            (Self::Integers(to), Kind::Whole(..), Int64ColumnReader(from)) => values(from, rows, levels, to),
            (Self::Numbers(to), Kind::Whole(..), Int64ColumnReader(from)) => {
                each(from, rows, levels, to, |value| value as u64 as f64)
            }
            (Self::Numbers(to), Kind::Float, FloatColumnReader(from)) => each(from, rows, levels, to, f64::from),
            (Self::Numbers(to), Kind::Float, DoubleColumnReader(from)) => values(from, rows, levels, to),
            (Self::Numbers(to), Kind::Float, FixedLenByteArrayColumnReader(from)) => {
                each(from, rows, levels, to, |value| value.data().try_into().map_or(f64::NAN, half))
            }
            (Self::Numbers(to), Kind::Decimal(scale), Int32ColumnReader(from)) => {
                each(from, rows, levels, to, |value| small(i64::from(value), scale))
            }
            (Self::Numbers(to), Kind::Decimal(scale), Int64ColumnReader(from)) => {
                each(from, rows, levels, to, |value| small(value, scale))
            }
            (Self::Numbers(to), Kind::Decimal(scale), ByteArrayColumnReader(from)) => {
                each(from, rows, levels, to, |value| big_endian(value.data(), scale))
            }
            (Self::Numbers(to), Kind::Decimal(scale), FixedLenByteArrayColumnReader(from)) => {
                each(from, rows, levels, to, |value| big_endian(value.data(), scale))
            }
            (Self::Times(to, _), Kind::Time(_, times), Int32ColumnReader(from)) => {
                each(from, rows, levels, to, |value| i64::from(value) * times)
            }
            (Self::Times(to, _), Kind::Time(..), Int64ColumnReader(from)) => values(from, rows, levels, to),
            (Self::Times(to, _), Kind::Time(ticks, _), Int96ColumnReader(from)) => {
                each(from, rows, levels, to, |value| match ticks.per_day {
                    86_400 => value.to_seconds(),
                    86_400_000 => value.to_millis(),
                    86_400_000_000 => value.to_micros(),
                    _ => value.to_nanos(),
                })
            }
            (Self::Texts(to), Kind::Text(is_utf8), ByteArrayColumnReader(from)) => {
                let before = to.len();
                values(from, rows, levels, to)?;
                // short ASCII is found faster than short UTF-8
                let is_text = |bytes: &[u8]| bytes.is_ascii() || std::str::from_utf8(bytes).is_ok();
                (!is_utf8 || to[before..].iter().all(|text| is_text(text.data()))).then_some(())
            }
            (Self::Texts(to), Kind::Text(_), FixedLenByteArrayColumnReader(from)) => {
                each(from, rows, levels, to, |value| value.into())
            }
            _ => None,
        }
    }
}

/// Appends the values of the next rows as they are.
fn values<T: DataType>(
    from: &mut ColumnReaderImpl<T>,
    rows: usize,
    levels: &mut Levels,
    to: &mut Vec<T::T>,
) -> Option<()> {
    let (definition, repetition) = (Some(&mut levels.definition), Some(&mut levels.repetition));
    let (read, _, _) = from.read_records(rows, definition, repetition, to).ok()?;
    (read == rows).then_some(())
}

/// Appends the values of the next rows, each as another type.
fn each<T: DataType, U>(
    from: &mut ColumnReaderImpl<T>,
    rows: usize,
    levels: &mut Levels,
    to: &mut Vec<U>,
    convert: impl Fn(T::T) -> U,
) -> Option<()> {
    let mut stored = Vec::new();
    values(from, rows, levels, &mut stored)?;
    to.extend(stored.into_iter().map(convert));
    Some(())
}

/// A number of 16 bits.
fn half(bytes: [u8; 2]) -> f64 {
    let bits = u16::from_le_bytes(bytes);
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let fraction = f64::from(bits & 0x3ff);
    sign * match bits >> 10 & 0x1f {
        0 => fraction * 2f64.powi(-24),
        0x1f if fraction == 0.0 => f64::INFINITY,
        0x1f => f64::NAN,
        exponent => (1024.0 + fraction) * 2f64.powi(i32::from(exponent) - 25),
    }
}

/// The decimal number unscaled·10^−scale, rounded once.
fn small(unscaled: i64, scale: i32) -> f64 {
    // whole numbers below 2⁵³ and powers of ten up to 10²² are exact, so that only the quotient is rounded
    if unscaled.unsigned_abs() < 1 << 53 && (0..=22).contains(&scale) {
        return unscaled as f64 / 10f64.powi(scale);
    }
    decimal(unscaled, scale)
}

/// unscaled·10^−scale by its digits, rounded once.
fn decimal(unscaled: impl Display, scale: i32) -> f64 {
    format!("{unscaled}e{}", -i64::from(scale)).parse().unwrap_or(f64::NAN)
}

/// Most bytes of a decimal: 76 digits.
const DECIMAL_BYTES: usize = 32;

/// A decimal in two's complement, its first byte the highest; of no bytes it is 0.
fn big_endian(mut bytes: &[u8], scale: i32) -> f64 {
    let is_negative = bytes.first().is_some_and(|first| *first >= 0x80);
    let fill = if is_negative { 0xff } else { 0 };
    // bytes that only repeat the sign
    while let [first, rest @ ..] = bytes
        && *first == fill
        && rest.first().is_some_and(|next| (*next >= 0x80) == is_negative)
    {
        bytes = rest;
    }
    if bytes.len() > DECIMAL_BYTES {
        return f64::NAN;
    }
    if bytes.len() <= 16 {
        let mut whole = [fill; 16];
        whole[16 - bytes.len()..].copy_from_slice(bytes);
        let whole = i128::from_be_bytes(whole);
        return i64::try_from(whole).map_or_else(|_| decimal(whole, scale), |whole| small(whole, scale));
    }
    // nine digits at a time, the last ones first
    let mut rest: Vec<u8> = bytes.iter().map(|byte| byte ^ fill).collect();
    if is_negative {
        rest.iter_mut().rev().try_for_each(|byte| {
            *byte = byte.wrapping_add(1);
            (*byte == 0).then_some(())
        });
    }
    let mut digits = String::new();
    while rest.iter().any(|byte| *byte != 0) {
        let mut remainder = 0u64;
        for byte in &mut rest {
            remainder = remainder << 8 | u64::from(*byte);
            *byte = (remainder / 1_000_000_000) as u8;
            remainder %= 1_000_000_000;
        }
        digits.insert_str(0, &format!("{remainder:09}"));
    }
    decimal(format_args!("{}{digits}", if is_negative { "-" } else { "" }), scale)
}

/// Sparse vectors of a block.
#[derive(Default)]
pub(super) struct SparseColumn {
    entries: Vec<(u32, f32)>,
    ends: Vec<usize>,
    bad: Vec<Option<&'static str>>,
}

impl SparseColumn {
    pub(super) fn new(indices: &Lists, values: &Lists, features: u32) -> Self {
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
                                bad = bad
                                    .or(Some("an index is not a whole number below the declared number of features"));
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
        column
    }

    /// Bytes of memory that the column takes, about.
    pub(super) fn bytes(&self) -> usize {
        8 * self.entries.len() + 24 * self.ends.len()
    }

    pub(super) fn row(&self, row: usize) -> Field<'_> {
        match self.bad[row] {
            Some(reason) => Field::Malformed(reason.into()),
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

/// A column of lists of a block: where each row's items are, if it has a list.
pub(super) struct Lists {
    rows: Vec<Option<Range<usize>>>,
    items: Values,
    /// How many items there are.
    count: usize,
}

impl Lists {
    pub(super) fn new(leaf: &Leaf) -> Self {
        Self { rows: Vec::new(), items: Values::new(leaf), count: 0 }
    }

    /// Appends the next rows; `None`: the column is damaged. There is an item from definition level `from` on; one below it a list is empty.
    pub(super) fn read(
        &mut self,
        leaf: &Leaf,
        from: i16,
        reader: &mut ColumnReader,
        rows: usize,
        levels: &mut Levels,
    ) -> Option<()> {
        let (before, rows_before) = (self.items.cells.len(), self.rows.len());
        self.items.cells.read(leaf.kind, reader, rows, levels)?;
        let Levels { definition, repetition } = levels;
        if definition.len() != repetition.len() {
            return None;
        }
        for (definition, repetition) in definition.iter().zip(repetition) {
            if *repetition == 0 {
                self.rows.push((*definition >= from - 1).then_some(self.count..self.count));
            }
            if *definition >= from {
                self.count += 1;
                self.rows[rows_before..].last_mut()?.as_mut()?.end = self.count;
            }
        }
        let items = definition.iter().filter(|level| **level >= from);
        self.items.place(before, items.map(|level| *level == leaf.present))?;
        (self.rows.len() == rows_before + rows).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_exact() {
        for (bits, value) in [
            (0x0000, 0.0),
            (0x8000, -0.0),
            (0x0001, 5.960_464_477_539_063e-8),
            (0x03ff, 6.097_555_160_522_461e-5),
            (0x0400, 6.103_515_625e-5),
            (0x3555, 0.333_251_953_125),
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x7bff, 65_504.0),
            (0x7c00, f64::INFINITY),
            (0xfc00, f64::NEG_INFINITY),
        ] {
            assert_eq!(half(u16::to_le_bytes(bits)).to_bits(), f64::to_bits(value), "{bits:#x}");
        }
        assert!(half([0x01, 0x7c]).is_nan());
    }

    #[test]
    fn decimals_are_rounded_once() {
        let of = |value: i128, scale| big_endian(&value.to_be_bytes(), scale);
        assert_eq!(of(-125, 10), -125e-10);
        // a quotient of two roundings would be beside the nearest number
        assert_eq!(of(9_007_199_254_740_993, 10), 900_719.925_474_099_3);
        assert_eq!(of(i128::MIN, 3), -170_141_183_460_469_231_731_687_303_715_884_105.728);
        assert_eq!(big_endian(&[], 2), 0.0);
        assert_eq!(big_endian(&[0x80], 0), -128.0);
        assert_eq!(big_endian(&[0, 0x80], 1), 12.8);
        // as many bytes as anybody stores, with and without a value in those above the sixteenth
        let mut long = [0xff; 40];
        long[39] = 0x83;
        assert_eq!(big_endian(&long, 2), -1.25);
        let mut wide = [0; 32];
        wide[0] = 0x80;
        assert_eq!(big_endian(&wide, 0), -(2f64.powi(255)));
        wide[0] = 0x7f;
        assert_eq!(big_endian(&wide, 0), 127.0 * 2f64.powi(248));
        wide[0] = 0;
        wide[15] = 1;
        wide[31] = 1;
        assert_eq!(big_endian(&wide, 0), 2f64.powi(128));
        assert!(big_endian(&[1; 33], 0).is_nan());
    }
}
