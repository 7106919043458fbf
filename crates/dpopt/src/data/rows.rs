//! Rows of features in compressed sparse form, with their targets.

/// A sparse matrix of `f32` features: row i holds columns `indices[offsets[i]..offsets[i+1]]`, strictly
/// increasing within a row (equal indices are merged on construction), all values finite.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    offsets: Vec<usize>,
    indices: Vec<u32>,
    values: Vec<f32>,
    columns: usize,
    norm_bound: f64,
}

impl Rows {
    /// No rows yet, `columns` features.
    pub fn new(columns: usize) -> Self {
        Self { offsets: vec![0], indices: Vec::new(), values: Vec::new(), columns, norm_bound: 0.0 }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// True if there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of features d.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Every row's l2 norm is at most this: the largest `max_norm` any row was pushed with. Public.
    pub fn norm_bound(&self) -> f64 {
        self.norm_bound
    }

    /// Number of stored entries per row, on average. Depends on the records: for choosing how to compute only.
    pub(crate) fn mean_nonzeros(&self) -> usize {
        self.values.len().div_ceil(self.len().max(1))
    }

    /// Columns and values of row `i`.
    pub fn row(&self, i: usize) -> (&[u32], &[f32]) {
        let span = self.offsets[i]..self.offsets[i + 1];
        (&self.indices[span.clone()], &self.values[span])
    }

    /// Appends a row; sorts it, merges equal columns by adding, drops zeros, replaces non-finite values by 0,
    /// and scales it down to l2 norm at most `max_norm` (rounding toward zero, so the bound holds exactly in f64).
    ///
    /// # Panics
    /// If a column is out of range (a bug of the encoder, never of the data).
    pub fn push_clipped(&mut self, entries: &mut Vec<(u32, f32)>, max_norm: f64) {
        entries.sort_unstable_by_key(|e| e.0);
        let start = self.values.len();
        for &(column, value) in entries.iter() {
            assert!((column as usize) < self.columns, "column out of range");
            let value = if value.is_finite() { value } else { 0.0 };
            if self.indices.len() > start && self.indices.last() == Some(&column) {
                *self.values.last_mut().expect("same length as indices") += value;
            } else {
                self.indices.push(column);
                self.values.push(value);
            }
        }
        let row = &mut self.values[start..];
        for value in row.iter_mut() {
            if !value.is_finite() {
                *value = 0.0; // two huge values of one column
            }
        }
        enforce_norm(row, max_norm);
        self.norm_bound = self.norm_bound.max(max_norm);
        self.offsets.push(self.values.len());
    }
}

/// Shrinks `row` until its l2 norm, computed in f64 with an upper bound on the rounding error, is at most `max_norm`.
fn enforce_norm(row: &mut [f32], max_norm: f64) {
    loop {
        let norm = row.iter().map(|&v| f64::from(v) * f64::from(v)).sum::<f64>().sqrt();
        // f32 squares are exact in f64; n additions and a square root err by less than (n+2) ulp
        let upper = norm * (1.0 + (row.len() as f64 + 4.0) * f64::EPSILON);
        if upper <= max_norm {
            return;
        }
        // strictly below 1, so that every pass makes progress
        let factor = (max_norm / upper).min(1.0 - 2f64.powi(-40));
        for value in row.iter_mut() {
            let scaled = f64::from(*value) * factor;
            let nearest = scaled as f32;
            *value = if f64::from(nearest).abs() > scaled.abs() { toward_zero(nearest) } else { nearest };
        }
    }
}

fn toward_zero(value: f32) -> f32 {
    f32::from_bits(value.to_bits() - 1)
}

/// Rows with their targets: class index, ±1, or a scaled number, as the model's plan says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Examples {
    /// n × d features, every row of l2 norm at most the public row norm.
    pub rows: Rows,
    /// n targets.
    pub targets: Vec<f32>,
}
