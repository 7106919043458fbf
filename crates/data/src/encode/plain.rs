//! The plain numbers of a record, several columns at once: where each lies in its range, and what its features are multiplied with. The same bits as column by
//! column.

use super::block::{FeatureBlock, PlainRow, Scales};
use super::numeric::{ends, splines};
use crate::table::Block;

/// Columns whose cells may be plain numbers, in the encoder's order.
pub(super) struct PlainColumns<'a> {
    /// Places in the table.
    positions: Vec<usize>,
    /// Ranges: their ends and their lengths.
    lower: Vec<f64>,
    upper: Vec<f64>,
    lengths: Vec<f64>,
    /// Those whose scale is not linear.
    others: Vec<(usize, &'a FeatureBlock)>,
}

impl<'a> PlainColumns<'a> {
    /// Of the columns of an encoder, with their places in a table.
    pub(super) fn new(columns: impl Iterator<Item = (&'a FeatureBlock, usize)>) -> Self {
        let mut plain = Self { positions: vec![], lower: vec![], upper: vec![], lengths: vec![], others: vec![] };
        for (block, at) in columns {
            let Some(scale) = block.plain_scale() else { continue };
            let (lower, upper) = scale.range();
            if !scale.is_linear() {
                plain.others.push((plain.positions.len(), block));
            }
            plain.positions.push(at);
            plain.lower.push(lower);
            plain.upper.push(upper);
            plain.lengths.push(upper - lower);
        }
        plain
    }

    /// Reads row `r` of a block.
    pub(super) fn read(&self, block: &dyn Block, r: usize, scales: &Scales<'_>, row: &mut PlainRow) {
        row.units.resize(self.positions.len(), f64::NAN);
        row.each.resize(self.positions.len(), f64::NAN);
        block.plain_numbers(r, &self.positions, &mut row.units);
        row.others.clear();
        let unit = |(k, block): &(usize, &FeatureBlock)| {
            let number = Some(row.units[*k]).filter(|number| number.is_finite());
            number.zip(block.plain_scale()).map_or(f64::NAN, |(number, scale)| scale.unit(number))
        };
        row.others.extend(self.others.iter().map(unit));
        self.place(&mut row.units);
        self.others.iter().zip(&row.others).for_each(|((k, _), unit)| row.units[*k] = *unit);
        factors(&row.units, &mut row.each, scales);
    }

    /// Numbers as positions on linear scales; plain comparisons, which the compiler does for several at once.
    fn place(&self, numbers: &mut [f64]) {
        let ranges = self.lower.iter().zip(&self.upper).zip(&self.lengths);
        for (number, ((&lower, &upper), &length)) in numbers.iter_mut().zip(ranges) {
            let value = if number.abs() < f64::INFINITY { *number } else { f64::NAN };
            let value = if value < lower { lower } else { value };
            let value = if value > upper { upper } else { value };
            let unit = (value - lower) / length;
            let unit = if unit < 0.0 { 0.0 } else { unit };
            *number = if unit > 1.0 { 1.0 } else { unit };
        }
    }
}

/// What blocks of numbers at `units` are multiplied with to have their norm.
fn factors(units: &[f64], each: &mut [f64], scales: &Scales<'_>) {
    if scales.splines.is_empty() && scales.centred {
        each.fill(scales.each);
        return;
    }
    for (square, &unit) in each.iter_mut().zip(units) {
        let (low, high) = ends(unit, scales.centred);
        *square = low * low + high * high;
    }
    for &knots in scales.splines {
        for (square, &unit) in each.iter_mut().zip(units) {
            let (_, left, right) = splines(unit, knots);
            *square = *square + left * left + right * right;
        }
    }
    each.iter_mut().for_each(|square| *square = scales.each / square.sqrt());
}
