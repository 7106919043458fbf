//! One pass over a table: from a block of records to rows.

use super::Encoder;
use super::block::{Scales, Scratch};
use super::plain::PlainColumns;
use crate::cell::{BadCells, bad_row};
use crate::error::DataError;
use crate::table::{Block, Field};
use dpopt_objective::records::{Examples, Rows};
use std::sync::atomic::{AtomicUsize, Ordering};

/// What one pass over a table needs besides the encoder.
pub(super) struct PassPlan<'a> {
    encoder: &'a Encoder,
    positions: Vec<usize>,
    plain: PlainColumns<'a>,
    scales: Scales<'a>,
    target: Option<usize>,
    width: usize,
    bad_cells: BadCells,
    /// Entries of a block before: room for so many is made at once. Changes nothing but speed.
    entries: AtomicUsize,
}

impl<'a> PassPlan<'a> {
    pub(super) fn new(
        encoder: &'a Encoder,
        positions: Vec<usize>,
        target: Option<usize>,
        width: usize,
        bad_cells: BadCells,
    ) -> Self {
        let pair_knots = encoder.spec.pairs.as_ref().map_or(0, |p| p.knots);
        let scales = Scales { vectors: encoder.vectors.as_deref(), ..encoder.scales(pair_knots) };
        let plain = PlainColumns::new(encoder.blocks.iter().zip(positions.iter().copied()));
        Self { encoder, positions, plain, scales, target, width, bad_cells, entries: AtomicUsize::new(0) }
    }

    /// Encodes the records of a block.
    pub(super) fn block(&self, block: &dyn Block) -> Result<Examples, DataError> {
        let mut part = Examples { rows: Rows::new(self.encoder.dimension()), targets: Vec::with_capacity(block.len()) };
        part.rows.reserve(block.len(), self.entries.load(Ordering::Relaxed));
        let mut scratch = Scratch::default();
        for r in 0..block.len() {
            let row = block.first_row() + r as u64;
            if let Some(error) = bad_row(block, r, self.width) {
                self.bad_cells.check(error)?;
                part.rows.push_zero();
                part.targets.push(0.0);
                continue;
            }
            let target = match (self.target, &self.encoder.target, &self.encoder.spec.target) {
                (Some(at), Some(reader), Some(named)) => {
                    let how = (self.bad_cells, self.encoder.spec.rules());
                    reader.read(block.field(r, at), &named.column, row, how, &mut scratch.cell)?
                }
                _ => Some(0.0),
            };
            // a record without a usable target is still checked, so that the error does not depend on its target
            self.row(block, r, row, &mut scratch)?;
            match target {
                Some(target) => {
                    part.rows.push_clipped(&mut scratch.entries, self.encoder.spec.row_norm);
                    part.targets.push(target);
                }
                None => {
                    part.rows.push_zero();
                    part.targets.push(0.0);
                }
            }
        }
        self.entries.store(part.rows.nonzeros(), Ordering::Relaxed);
        Ok(part)
    }

    fn row(&self, block: &dyn Block, r: usize, row: u64, scratch: &mut Scratch) -> Result<(), DataError> {
        let encoder = self.encoder;
        let scales = &self.scales;
        scratch.entries.clear();
        scratch.factors.clear();
        if encoder.has_intercept() {
            scratch.entries.push((0, scales.each as f32));
        }
        let mut row_of_numbers = std::mem::take(&mut scratch.plain);
        self.plain.read(block, r, scales, &mut row_of_numbers);
        let mut plain = row_of_numbers.units.iter().zip(&row_of_numbers.each);
        for (b, (features, &at)) in encoder.blocks.iter().zip(&self.positions).enumerate() {
            if features.plain_scale().is_some()
                && let Some((unit, each)) = plain.next().filter(|(unit, _)| !unit.is_nan())
            {
                let factor = features.plain(*unit, *each, scales, &mut scratch.entries);
                scratch.factors.push(factor);
                continue;
            }
            let field = block.field(r, at);
            if let Field::Malformed(reason) = field {
                self.bad_cells.check(DataError::BadSparseRow { row: row + 1, reason })?;
            }
            if !features.push(field, scales, scratch) {
                let column = encoder.spec.features[b].column.clone();
                self.bad_cells.check(DataError::NotANumber { column, row: row + 1 })?;
            }
        }
        scratch.plain = row_of_numbers;
        for pair in &encoder.pairs {
            pair.push(&scratch.factors, encoder.pair_scale, &mut scratch.entries);
        }
        if encoder.spec.scales_rows() {
            let square: f64 = scratch.entries.iter().map(|e| f64::from(e.1).powi(2)).sum();
            let factor = encoder.spec.row_norm / square.sqrt();
            if factor.is_finite() {
                scratch.entries.iter_mut().for_each(|e| e.1 = (f64::from(e.1) * factor) as f32);
            }
        }
        Ok(())
    }
}
