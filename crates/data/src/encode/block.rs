//! One column of one record as features of the row.

use std::hash::Hasher;

use super::numeric::{NumericScale, ends, line, splines};
use super::pairs::Factor;
use crate::cell::{Rules, Scratch as CellScratch, field_text};
use crate::declared::Trend;
use crate::hashing::Fnv;
use crate::levels::Levels;
use crate::numerals::Unit;
use crate::table::Field;
use crate::text::{COUNTS, LENGTHS, TextFeatures};
use crate::word_vectors::{Pooled, WordVectors};
use dpopt_objective::records::rows::keep_largest;

/// One column made ready for encoding; its features start at `offset`.
#[derive(Clone, Debug)]
pub(super) struct FeatureBlock {
    pub(super) offset: u32,
    pub(super) width: u32,
    pub(super) form: PreparedColumn,
}

#[derive(Clone, Debug)]
pub(super) enum PreparedColumn {
    Numeric {
        scale: NumericScale,
        unit: Unit,
        trend: Option<Trend>,
    },
    Categorical {
        levels: Levels,
    },
    Hashed {
        salt: Fnv,
        bits: u32,
    },
    /// Without `parts` as in the first versions: counts on linear B-splines, and words and pairs of words.
    Text {
        salt: Fnv,
        bits: u32,
        parts: Option<TextParts>,
    },
    Sparse {
        to_row_norm: bool,
        most: usize,
    },
}

/// What a text consists of: its counts, its words in slots, its vector; each with its norm among blocks of norm 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct TextParts {
    pub(super) counts: f64,
    pub(super) words: f64,
    pub(super) slots: u32,
    pub(super) vectors: f64,
    pub(super) dimension: u32,
}

impl PreparedColumn {
    /// Whether its values are 0 or 1, as far as was released.
    pub(super) fn is_zero_or_one(&self) -> bool {
        matches!(self, Self::Numeric { scale, unit: Unit::Number, .. } if scale.is_zero_or_one())
    }

    /// Which way predictions move with it, of a fitted model.
    pub(super) fn trend(&self) -> Option<Trend> {
        match self {
            Self::Numeric { trend, .. } => *trend,
            _ => None,
        }
    }

    /// Features of its line.
    pub(super) fn line(&self, centred: bool) -> u32 {
        if self.trend().is_some() { 0 } else { line(centred) }
    }

    /// The B-splines of its scales: its own, or those of `all` columns of the encoder.
    pub(super) fn splines<'a>(&self, all: &'a [u32]) -> &'a [u32] {
        if self.trend().is_some() { &[TREND_KNOTS] } else { all }
    }
}

impl TextParts {
    /// Features of the counts.
    pub(super) fn counted(&self) -> u32 {
        if self.counts > 0.0 { COUNTS.len() as u32 } else { 0 }
    }

    /// Number of features of the block.
    pub(super) fn width(&self) -> u32 {
        self.counted() + self.slots + self.dimension
    }
}

/// Buffers of one thread.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) entries: Vec<(u32, f32)>,
    pub(super) cell: CellScratch,
    pub(super) text: TextFeatures,
    pub(super) pooled: Pooled,
    /// Where each column's value lies, for products with others.
    pub(super) factors: Vec<Factor>,
    /// Plain numbers of the record that is read.
    pub(super) plain: PlainRow,
}

/// What is known of a record's plain numbers; not a number where a cell is none.
#[derive(Default)]
pub(super) struct PlainRow {
    /// Positions in the ranges, in [0, 1].
    pub(super) units: Vec<f64>,
    /// What a block of features is multiplied with.
    pub(super) each: Vec<f64>,
    /// Positions on scales that are not linear.
    pub(super) others: Vec<f64>,
}

/// Linear B-splines of a number with which predictions move one way: four between two of the usual finer scale.
pub(super) const TREND_KNOTS: u32 = 125;

/// What features of such a number are multiplied by: a little less than other blocks, so that no row is clipped, and with four binary digits, so that products with
/// nineteen others are exact in 32 bits.
pub(super) fn trend_scale(each: f64) -> f64 {
    f64::from_bits((0.99 * each).to_bits() & !((1 << 49) - 1))
}

/// What all columns of an encoder share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scales<'a> {
    /// The rules by which cells are read.
    pub(super) rules: Rules,
    /// Numbers of linear B-splines of the scales of a numeric column.
    pub(super) splines: &'a [u32],
    /// Whether numbers and few levels lie around 0.
    pub(super) centred: bool,
    /// Linear B-splines of a count of a text.
    pub(super) text_knots: u32,
    /// Linear B-splines of a number in a product; 0 where there are none.
    pub(super) pair_knots: u32,
    /// What a block of norm 1 is multiplied by.
    pub(super) each: f64,
    /// l2 norm that no row exceeds.
    pub(super) row_norm: f64,
    /// Public vectors, where texts have some.
    pub(super) vectors: Option<&'a WordVectors>,
}

/// A column of more levels is one of them and not centred: it would have as many entries.
pub(super) const MAX_CENTRED: u32 = 4;

impl FeatureBlock {
    /// Appends the column's features; false if the cell of a numeric column was not a number (it is then missing).
    #[inline]
    pub(super) fn push(&self, field: Field<'_>, scales: &Scales<'_>, scratch: &mut Scratch) -> bool {
        let (mut factor, mut readable) = (Factor::Absent, true);
        match &self.form {
            PreparedColumn::Numeric { scale, unit, .. } => {
                (factor, readable) =
                    self.number(scale, scales.rules.number(field, *unit), scales, &mut scratch.entries);
                readable = readable || scales.rules.is_missing_cell(field);
            }
            PreparedColumn::Categorical { levels } => factor = self.level(levels, field, scales, scratch),
            PreparedColumn::Hashed { salt, bits } => {
                let slot = match scales.rules.category(field, &mut scratch.cell) {
                    Some(text) if !scales.rules.is_missing(text) => {
                        let mut hash = *salt;
                        hash.write(text);
                        self.offset + hash.slot(*bits)
                    }
                    _ => self.missing(),
                };
                scratch.entries.push((slot, scales.each as f32));
            }
            PreparedColumn::Text { salt, bits, parts } => {
                scratch.text.read(field_text(field, &mut scratch.cell.0).unwrap_or_default(), scales.rules);
                match parts {
                    Some(parts) => self.text(parts, (*salt, *bits), scales, scratch),
                    None => self.text_on_splines((*salt, *bits), scales, scratch),
                }
            }
            PreparedColumn::Sparse { to_row_norm, most } => {
                let row_norm = to_row_norm.then_some(scales.row_norm);
                self.sparse(field, row_norm, *most, &mut scratch.entries);
            }
        }
        scratch.factors.push(factor);
        readable
    }

    /// The scale of a column of plain numbers without a trend, which may be read by [`plain_numbers`](crate::table::Block::plain_numbers).
    #[inline]
    pub(super) fn plain_scale(&self) -> Option<&NumericScale> {
        match &self.form {
            PreparedColumn::Numeric { scale, unit, trend: None } if unit.is_number() => Some(scale),
            _ => None,
        }
    }

    /// The feature that says that a value is missing.
    fn missing(&self) -> u32 {
        self.offset + self.width - 1
    }

    /// A plain number at a position of its range, its features multiplied with `each`; what products see of it.
    #[inline]
    pub(super) fn plain(&self, unit: f64, each: f64, scales: &Scales<'_>, entries: &mut Vec<(u32, f32)>) -> Factor {
        let (low, high) = ends(unit, scales.centred);
        let mut first = self.offset + line(scales.centred);
        let entry = |column: u32, weight: f64| (column, (weight * each) as f32);
        if low != 0.0 && high != 0.0 {
            entries.extend_from_slice(&[entry(self.offset, low), entry(self.offset + 1, high)]);
        } else if low != 0.0 {
            entries.push(entry(self.offset, low));
        } else if high != 0.0 {
            entries.push(entry(self.offset + 1, high));
        }
        for &knots in scales.splines {
            let (i, left, right) = splines(unit, knots);
            // of two neighbours at a knot one is 0
            if left != 0.0 && right != 0.0 {
                entries.extend_from_slice(&[entry(first + i, left), entry(first + i + 1, right)]);
            } else {
                entries.push(if left != 0.0 { entry(first + i, left) } else { entry(first + i + 1, right) });
            }
            first += knots;
        }
        if scales.pair_knots > 0 { Factor::number(unit, scales.pair_knots) } else { Factor::Absent }
    }

    /// A number as a linear term, linear B-splines and whether it is missing; what products see of it, and whether there is one.
    #[inline]
    fn number(
        &self,
        range: &NumericScale,
        value: Option<f64>,
        scales: &Scales<'_>,
        entries: &mut Vec<(u32, f32)>,
    ) -> (Factor, bool) {
        if self.form.trend().is_some() {
            let each = trend_scale(scales.each);
            match value {
                Some(value) => self.one_way(range.unit(value), each, entries),
                None => entries.push((self.missing(), each as f32)),
            }
            return (Factor::Absent, value.is_some());
        }
        // a missing value sits in the middle and says that it is missing
        let unit = value.map_or(0.5, |v| range.unit(v));
        self.at(unit, value.is_none(), scales, entries)
    }

    /// A number with a trend, at a position of its range.
    fn one_way(&self, unit: f64, each: f64, entries: &mut Vec<(u32, f32)>) {
        // a place of few digits, so that both features are what they are in 32 bits and add up to the same number everywhere
        const PARTS: f64 = (1 << 19) as f64;
        let place = (unit * f64::from(TREND_KNOTS - 1) * PARTS).round() / PARTS;
        let i = (place as u32).min(TREND_KNOTS - 2);
        let right = place - f64::from(i);
        let (left, right) = ((1.0 - right) * each, right * each);
        let features = [(self.offset + i, left as f32), (self.offset + i + 1, right as f32)];
        entries.extend(features.into_iter().filter(|feature| feature.1 != 0.0));
    }

    /// A number at a position of its range, or in the middle and `missing`, as a block of its norm; what products see of it, and whether it is there.
    #[inline]
    pub(super) fn at(
        &self,
        unit: f64,
        missing: bool,
        scales: &Scales<'_>,
        entries: &mut Vec<(u32, f32)>,
    ) -> (Factor, bool) {
        let absent = f64::from(u8::from(missing));
        let (low, high) = ends(unit, scales.centred);
        let mut square = low * low + high * high;
        for &knots in scales.splines {
            let (_, left, right) = splines(unit, knots);
            square = square + left * left + right * right;
        }
        // a line around 0 is short in the middle; the row as a whole has its norm
        let short = scales.splines.is_empty() && scales.centred;
        let each = if short { scales.each } else { scales.each / (square + absent).sqrt() };
        let factor = self.plain(unit, each, scales, entries);
        if missing {
            entries.push((self.missing(), each as f32));
            return (Factor::Absent, false);
        }
        (factor, true)
    }

    /// A level as its own feature, or around 0 where there are few; what products see of it.
    #[inline]
    fn level(&self, levels: &Levels, field: Field<'_>, scales: &Scales<'_>, scratch: &mut Scratch) -> Factor {
        let (entries, missing) = (&mut scratch.entries, self.missing());
        let (scale, rules) = (scales.each, scales.rules);
        let slot = match levels.place_by(rules, field, &mut scratch.cell) {
            // a declared level wins over a missing marker: "?" may be a level
            Some(slot) => self.offset + slot,
            None => match field_text(field, &mut scratch.cell.0) {
                Some(text) if !rules.is_missing(text) => missing - 1,
                _ => missing,
            },
        };
        let levels = levels.len() as u32;
        if scales.centred && (2..=MAX_CENTRED).contains(&levels) && slot < self.offset + levels {
            let (mean, each) = (1.0 / f64::from(levels), scale / (1.0 - 1.0 / f64::from(levels)).sqrt());
            for level in self.offset..self.offset + levels {
                let centred = if level == slot { 1.0 - mean } else { -mean };
                entries.push((level, (centred * each) as f32));
            }
        } else {
            entries.push((slot, scale as f32));
        }
        if slot == missing { Factor::Absent } else { Factor::Level(slot - self.offset) }
    }

    /// The text that was read as counts, words in slots and the vector of its words.
    #[inline]
    fn text(&self, parts: &TextParts, (salt, bits): (Fnv, u32), scales: &Scales<'_>, scratch: &mut Scratch) {
        let (entries, scale) = (&mut scratch.entries, scales.each);
        let each = scale * parts.counts / (COUNTS.len() as f64).sqrt();
        if parts.counts > 0.0 {
            // how long a text is lies around 0; of what most texts have none, none is 0; both move by 2
            let counted = scratch.text.counts.iter().zip(0..);
            let unit = |c: u32, unit: f64| if c < LENGTHS { 2.0 * unit - 1.0 } else { 2.0 * unit };
            let counted = counted.map(|(&value, c)| (self.offset + c, (unit(c, value) * each) as f32));
            entries.extend(counted.filter(|entry| entry.1 != 0.0));
        }
        let words = self.offset + parts.counted();
        if parts.slots > 0 {
            scratch.text.hash(salt, bits, false);
            let each = scale * parts.words;
            entries.extend(scratch.text.slots.iter().map(|&(slot, w)| (words + slot, (w * each) as f32)));
        }
        if let (Some(vectors), true) = (scales.vectors, parts.dimension > 0) {
            vectors.pool(&scratch.text.tokens, &mut scratch.pooled);
            let each = scale * parts.vectors;
            let pooled = (words + parts.slots..).zip(&scratch.pooled.vector);
            entries.extend(pooled.filter(|(_, v)| **v != 0.0).map(|(at, v)| (at, (v * each) as f32)));
        }
    }

    /// The text that was read as in the first versions: counts on linear B-splines, and words and pairs of words.
    #[inline]
    fn text_on_splines(&self, (salt, bits): (Fnv, u32), scales: &Scales<'_>, scratch: &mut Scratch) {
        let (entries, scale) = (&mut scratch.entries, scales.each);
        scratch.text.hash(salt, bits, true);
        let (knots, each) = (scales.text_knots, scale / (COUNTS.len() as f64).sqrt());
        for (c, &unit) in scratch.text.counts.iter().enumerate() {
            let (i, left, right) = splines(unit, knots);
            let at = self.offset + c as u32 * knots + i;
            entries.push((at, (left * each) as f32));
            entries.push((at + 1, (right * each) as f32));
        }
        let words = self.offset + COUNTS.len() as u32 * knots;
        entries.extend(scratch.text.slots.iter().map(|&(slot, weight)| (words + slot, (weight * scale) as f32)));
    }

    /// The `most` largest entries of a sparse vector, brought to `row_norm` where one is given.
    #[inline]
    fn sparse(&self, field: Field<'_>, row_norm: Option<f64>, most: usize, entries: &mut Vec<(u32, f32)>) {
        let start = entries.len();
        if let Field::Sparse(pairs) = field {
            entries.extend_from_slice(pairs);
        }
        keep_largest(entries, start, most);
        let kept = &mut entries[start..];
        let norm = kept.iter().map(|p| f64::from(p.1).powi(2)).sum::<f64>().sqrt();
        let factor = row_norm.filter(|_| norm > 0.0).map_or(1.0, |row_norm| row_norm / norm);
        kept.iter_mut().for_each(|e| *e = (self.offset + e.0, (f64::from(e.1) * factor) as f32));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::declared::Bounds;
    use crate::encode::plain::PlainColumns;
    use crate::table::Block;
    use proptest::prelude::*;

    /// Records of one number each, or of none.
    struct Numbers(Vec<Option<f64>>);

    impl Block for Numbers {
        fn first_row(&self) -> u64 {
            0
        }

        fn len(&self) -> usize {
            1
        }

        fn bytes(&self) -> usize {
            0
        }

        fn width(&self, _: usize) -> usize {
            self.0.len()
        }

        fn field(&self, _: usize, column: usize) -> Field<'_> {
            self.0[column].map_or(Field::Missing, Field::Number)
        }
    }

    proptest! {
        /// Numbers of a row together have the features that each has alone, to the last bit.
        #[test]
        fn plain_numbers_have_the_features_of_any_number(
            values in proptest::collection::vec(proptest::option::of(prop_oneof![
                -4.0f64..4.0,
                proptest::sample::select(vec![-3.0, 3.0, 0.0, -0.0, 0.75, 1e300, -1e300, 5e-324, f64::INFINITY, f64::NEG_INFINITY]),
            ]), 1..9),
            splines in proptest::sample::select(vec![vec![], vec![2], vec![5], vec![8], vec![8, 32]]),
            centred: bool, log: u8, pair_knots in 0u32..4,
        ) {
            let pair_knots = if pair_knots < 2 { 0 } else { pair_knots };
            let scales = Scales {
                rules: Rules::ByValue, splines: &splines, centred, text_knots: 8, pair_knots, each: 0.3, row_norm: 1.0,
                vectors: None,
            };
            let column = |at: usize| {
                let log = log >> (at % 8) & 1 == 1;
                let bounds = Bounds::new("a", if log { 0.0 } else { -3.0 - at as f64 }, 3.0).unwrap();
                let form = PreparedColumn::Numeric {
                    scale: NumericScale::new(bounds, log, None),
                    unit: Unit::Number,
                    trend: None,
                };
                FeatureBlock { offset: 64 * at as u32, width: 64, form }
            };
            let columns: Vec<FeatureBlock> = (0..values.len()).map(column).collect();
            let mut row = PlainRow::default();
            let plain = PlainColumns::new(columns.iter().zip(0..));
            // what a row left behind does not matter to the next
            plain.read(&Numbers(vec![Some(1.0); values.len()]), 0, &scales, &mut row);
            plain.read(&Numbers(values.clone()), 0, &scales, &mut row);
            for (at, (column, value)) in columns.iter().zip(&values).enumerate() {
                let value = value.filter(|value| value.is_finite());
                prop_assert_eq!(row.units[at].is_nan(), value.is_none());
                let (Some(value), Some(scale)) = (value, column.plain_scale()) else { continue };
                let (mut fast, mut slow) = (Vec::new(), Vec::new());
                let factor = column.plain(row.units[at], row.each[at], &scales, &mut fast);
                prop_assert_eq!((factor, true), column.number(scale, Some(value), &scales, &mut slow));
                let bits = |entries: &[(u32, f32)]| entries.iter().map(|e| (e.0, e.1.to_bits())).collect::<Vec<_>>();
                prop_assert_eq!(bits(&fast), bits(&slow));
            }
        }
    }
}
