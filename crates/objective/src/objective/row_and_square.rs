//! Rows themselves, with their squared norms beside them: gradients of a linear function, for sums that tell where rows lie.

use super::{Gradient, Objective, Point};
use crate::records::{RecordBuffer, Records};

/// φ_i(x, u) = row_i·x + w·‖row_i‖²·u, whose gradient is (row_i, w·‖row_i‖²) everywhere.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowAndSquare {
    features: usize,
    weight: f64,
}

impl RowAndSquare {
    /// The objective of rows with `features` columns; `weight` is w.
    pub fn new(features: usize, weight: f64) -> Self {
        Self { features, weight }
    }
}

/// Buffers of one record.
#[derive(Default)]
pub struct RowScratch {
    buffer: RecordBuffer,
    places: Vec<usize>,
    values: Vec<f64>,
}

impl RowAndSquare {
    fn read<R: Records>(&self, records: &R, i: usize, scratch: &mut RowScratch) -> Result<(), R::Error> {
        let RowScratch { buffer, places, values } = scratch;
        let (columns, entries, _) = records.record(i, buffer)?;
        places.clear();
        values.clear();
        places.extend(columns.iter().map(|&j| j as usize));
        values.extend(entries.iter().map(|&x| f64::from(x)));
        let square: f64 = values.iter().map(|x| x * x).sum();
        places.push(self.features);
        values.push(self.weight * square);
        Ok(())
    }
}

impl<R: Records> Objective<R> for RowAndSquare {
    type Scratch = RowScratch;

    fn dimension(&self) -> usize {
        self.features + 1
    }

    fn describes(&self, records: &R) -> bool {
        records.columns() == self.features
    }

    fn value(&self, x: &[f64], records: &R, i: usize, scratch: &mut RowScratch) -> Result<f64, R::Error> {
        self.read(records, i, scratch)?;
        Ok(scratch.places.iter().zip(&scratch.values).map(|(&at, v)| x.get(at).map_or(0.0, |x| x * v)).sum())
    }

    fn gradient<'a>(
        &self,
        _: &mut impl Point,
        records: &'a R,
        i: usize,
        scratch: &'a mut RowScratch,
    ) -> Result<Gradient<'a>, R::Error> {
        self.read(records, i, scratch)?;
        Ok(Gradient::Entries { places: &scratch.places, values: &mut scratch.values })
    }
}
