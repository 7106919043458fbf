//! Rows of features in compressed sparse form, with their targets.

use std::num::NonZeroU64;

/// A sparse matrix of `f32` features: row i holds columns `indices[offsets[i]..offsets[i+1]]`, strictly
/// increasing within a row (equal indices are merged on construction), all values finite.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    offsets: Vec<usize>,
    indices: Vec<u32>,
    values: Vec<f32>,
    columns: usize,
    norm_bound: f64,
    /// No unit has more of the rows than this, where it is not 1.
    of_a_unit: Option<NonZeroU64>,
}

/// Columns and values of one row, the columns strictly increasing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row<'a> {
    columns: &'a [u32],
    values: &'a [f32],
}

impl<'a> Row<'a> {
    /// `None` if the columns do not increase, or are not as many as the values.
    ///
    /// ```
    /// use dpopt_objective::records::Row;
    /// assert!(Row::new(&[0, 4], &[0.5, 1.0]).is_some());
    /// assert!(Row::new(&[4, 4], &[0.5, 1.0]).is_none());
    /// ```
    pub fn new(columns: &'a [u32], values: &'a [f32]) -> Option<Self> {
        let increasing = columns.windows(2).all(|pair| pair[0] < pair[1]);
        (increasing && columns.len() == values.len()).then_some(Self { columns, values })
    }

    /// A row of [`Records`](super::Records), whose columns increase by construction.
    #[inline]
    pub(crate) fn increasing(columns: &'a [u32], values: &'a [f32]) -> Self {
        Self { columns, values }
    }

    /// Columns of the entries, strictly increasing.
    #[inline]
    pub fn columns(&self) -> &'a [u32] {
        self.columns
    }

    /// One for each column.
    #[inline]
    pub fn values(&self) -> &'a [f32] {
        self.values
    }

    /// Whether it has an entry in each of `width` columns, and no others.
    #[inline]
    pub fn fills(&self, width: usize) -> bool {
        self.columns.len() == width && self.fits(width)
    }

    /// Whether all columns are below `width`.
    #[inline]
    pub fn fits(&self, width: usize) -> bool {
        self.columns.last().is_none_or(|&last| (last as usize) < width)
    }
}

impl Rows {
    /// No rows yet, `columns` features.
    pub fn new(columns: usize) -> Self {
        Self { offsets: vec![0], indices: Vec::new(), values: Vec::new(), columns, norm_bound: 0.0, of_a_unit: None }
    }

    /// Makes room for so many more rows with so many entries together, so that they are not moved while they are pushed; as far as the system gives it.
    pub fn reserve(&mut self, rows: usize, entries: usize) {
        // most entries may be zeros, which are not stored: what is not given now may never be needed
        let _ = self.offsets.try_reserve_exact(rows);
        let _ = self.indices.try_reserve_exact(entries);
        let _ = self.values.try_reserve_exact(entries);
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

    /// No unit has more of the rows than this: 1, where each row is a unit of its own. Public.
    pub fn of_a_unit(&self) -> u64 {
        self.of_a_unit.map_or(1, NonZeroU64::get)
    }

    /// No rows yet, `columns` features; no unit will have more of them than `of_a_unit`.
    pub(super) fn of_units(columns: usize, of_a_unit: u64) -> Self {
        Self { of_a_unit: NonZeroU64::new(of_a_unit).filter(|most| most.get() > 1), ..Self::new(columns) }
    }

    /// The rows at the given positions, in that order, and a row of zeros where there is none; at most `most` are of one unit.
    pub(super) fn arranged(&self, positions: &[Option<usize>], most: NonZeroU64) -> Self {
        let mut rows = Self { norm_bound: self.norm_bound, of_a_unit: Some(most), ..Self::new(self.columns) };
        for position in positions {
            if let Some(i) = position {
                let (columns, values) = self.row(*i);
                rows.indices.extend_from_slice(columns);
                rows.values.extend_from_slice(values);
            }
            rows.push_zero();
        }
        rows
    }

    /// These rows without empty columns, and which columns are left (increasing). Depends on the records: for
    /// choosing how to compute only.
    pub(crate) fn without_empty_columns(&self) -> (Rows, Vec<u32>) {
        let mut place = vec![u32::MAX; self.columns];
        self.indices.iter().for_each(|&j| place[j as usize] = 0);
        let used: Vec<u32> = (0..self.columns as u32).filter(|&j| place[j as usize] == 0).collect();
        used.iter().enumerate().for_each(|(new, &old)| place[old as usize] = new as u32);
        let rows = Rows {
            offsets: self.offsets.clone(),
            indices: self.indices.iter().map(|&j| place[j as usize]).collect(),
            values: self.values.clone(),
            columns: used.len(),
            norm_bound: self.norm_bound,
            of_a_unit: self.of_a_unit,
        };
        (rows, used)
    }

    /// Number of stored entries per row, on average. Depends on the records: for choosing how to compute only.
    pub(crate) fn mean_nonzeros(&self) -> usize {
        self.values.len().div_ceil(self.len().max(1))
    }

    /// Columns and values of row `i`.
    #[inline]
    pub fn row(&self, i: usize) -> (&[u32], &[f32]) {
        let span = self.offsets[i]..self.offsets[i + 1];
        (&self.indices[span.clone()], &self.values[span])
    }

    /// Asks for the memory of some rows, all at once: rows of a random batch lie anywhere, and one by one each would be
    /// waited for. Changes nothing but speed.
    pub fn fetch(&self, rows: &[u64]) {
        let mut all = 0;
        for &i in rows {
            let (indices, values) = self.row(i as usize);
            // an entry per cache line
            all = indices.iter().step_by(16).fold(all, |all, j| all ^ j);
            all = values.iter().step_by(16).fold(all, |all, x| all ^ x.to_bits());
        }
        std::hint::black_box(all);
    }

    /// Memory of all rows, in bytes.
    pub fn bytes(&self) -> u64 {
        (8 * self.values.len() + 8 * self.offsets.len()) as u64
    }

    /// Number of stored entries of all rows.
    pub fn nonzeros(&self) -> usize {
        self.values.len()
    }

    /// Appends a row; sorts it, merges equal columns by adding, drops zeros, replaces non-finite values by 0,
    /// and scales it down to l2 norm at most `max_norm` (rounding toward zero, so the bound holds exactly in f64).
    ///
    /// # Panics
    /// If a column is out of range (a bug of the encoder, never of the data).
    pub fn push_clipped(&mut self, entries: &mut [(u32, f32)], max_norm: f64) {
        let start = self.values.len();
        if self.is_row(entries) {
            self.indices.extend(entries.iter().map(|entry| entry.0));
            self.values.extend(entries.iter().map(|entry| entry.1));
        } else {
            self.merge(entries);
        }
        enforce_norm(&mut self.values[start..], max_norm, norm_up);
        self.norm_bound = self.norm_bound.max(max_norm);
        self.offsets.push(self.values.len());
    }

    /// Whether the entries are a row as they are: their columns increase and are all there, no value is 0 or not finite.
    #[inline]
    fn is_row(&self, entries: &[(u32, f32)]) -> bool {
        let increasing = entries.windows(2).fold(true, |all, pair| all & (pair[0].0 < pair[1].0));
        let values = entries.iter().fold(true, |all, entry| all & entry.1.is_finite() & (entry.1 != 0.0));
        increasing & values && entries.last().is_none_or(|last| (last.0 as usize) < self.columns)
    }

    /// Appends entries in the order of their columns, equal columns added up, without zeros.
    fn merge(&mut self, entries: &mut [(u32, f32)]) {
        if !entries.is_sorted_by_key(|e| e.0) {
            // stable, so that the sum of equal columns does not depend on the sorting algorithm
            entries.sort_by_key(|e| e.0);
        }
        let mut rest = entries.iter().peekable();
        while let Some(&(column, value)) = rest.next() {
            assert!((column as usize) < self.columns, "column out of range");
            let mut sum = finite(value);
            while let Some(&&(_, more)) = rest.peek().filter(|next| next.0 == column) {
                sum += finite(more);
                rest.next();
            }
            let sum = finite(sum); // two huge values of one column
            if sum != 0.0 {
                self.indices.push(column);
                self.values.push(sum);
            }
        }
    }

    /// These rows, each shrunk if its norm of order `s` (from 2 to ∞) is above `bound`, independently of all other rows.
    ///
    /// ```
    /// use dpopt_objective::records::Rows;
    /// let mut rows = Rows::new(4);
    /// rows.push_clipped(&mut [(0, 0.5), (1, 0.5), (2, 0.5), (3, 0.5)], 1.0);
    /// rows.push_clipped(&mut [(2, 1.0)], 1.0);
    /// let shrunk = rows.within_norm(f64::INFINITY, 0.5);
    /// assert_eq!(shrunk.row(0), rows.row(0));
    /// assert!(shrunk.row(1).1[0] <= 0.5 && shrunk.row(1).1[0] > 0.499_999);
    /// ```
    pub fn within_norm(&self, s: f64, bound: f64) -> Self {
        let mut shrunk = self.clone();
        for ends in self.offsets.windows(2) {
            enforce_norm(&mut shrunk.values[ends[0]..ends[1]], bound, |row| higher_norm_up(row, s));
        }
        shrunk
    }

    /// Rows as they were in another table of so many columns: entries of each, then all columns and values, row by row. Zeros that are stored among the values
    /// stay, and the bound of each row is enforced again. `None` where they cannot have been rows.
    ///
    /// ```
    /// use dpopt_objective::records::Rows;
    /// let rows = Rows::moved(4, &[2, 0, 1], vec![0, 3, 2], vec![0.6, 0.0, 3.0], 1.0).unwrap();
    /// assert_eq!((rows.len(), rows.row(0)), (3, (&[0, 3][..], &[0.6, 0.0][..])));
    /// assert!(rows.row(2).1[0] <= 1.0);
    /// assert!(Rows::moved(4, &[2], vec![3, 0], vec![0.6, 0.1], 1.0).is_none());
    /// ```
    pub fn moved(columns: usize, lengths: &[u32], indices: Vec<u32>, values: Vec<f32>, max_norm: f64) -> Option<Self> {
        let mut offsets = Vec::with_capacity(lengths.len() + 1);
        let mut end = 0usize;
        offsets.push(end);
        for &length in lengths {
            end = end.checked_add(length as usize)?;
            offsets.push(end);
        }
        let bounded = max_norm >= 0.0 && max_norm.is_finite() && values.iter().all(|v| v.is_finite());
        if end != values.len() || end != indices.len() || !bounded {
            return None;
        }
        let norm_bound = if lengths.is_empty() { 0.0 } else { max_norm };
        let mut rows = Self { offsets, indices, values, columns, norm_bound, of_a_unit: None };
        for i in 0..rows.len() {
            let (start, end) = (rows.offsets[i], rows.offsets[i + 1]);
            if !Row::new(&rows.indices[start..end], &rows.values[start..end])?.fits(columns) {
                return None;
            }
            enforce_norm(&mut rows.values[start..end], max_norm, norm_up);
        }
        Some(rows)
    }

    /// Values of all rows, row by row.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// Appends a row of zeros: the record that contributes nothing.
    pub fn push_zero(&mut self) {
        self.offsets.push(self.values.len());
    }

    /// These rows, each scaled down to l1 norm at most `max_norm` (rounding toward zero): where a sensitivity rests on
    /// the number of non-zeros, this is what enforces it.
    pub fn within_l1(&self, max_norm: f64) -> Rows {
        let mut rows = self.clone();
        for span in self.offsets.windows(2) {
            let row = &mut rows.values[span[0]..span[1]];
            let size =
                row.iter().map(|&v| f64::from(v.abs())).sum::<f64>() * (1.0 + (row.len() as f64 + 4.0) * f64::EPSILON);
            if size > max_norm {
                scale_toward_zero(row, max_norm.max(0.0) / size * (1.0 - 2f64.powi(-40)));
            }
        }
        rows
    }

    /// Appends all rows of `other`.
    ///
    /// # Panics
    /// If the numbers of columns differ (a bug of the caller, never of the data).
    pub fn append(&mut self, other: &Rows) {
        assert_eq!(self.columns, other.columns, "rows of different tables");
        let base = self.values.len();
        self.indices.extend_from_slice(&other.indices);
        self.values.extend_from_slice(&other.values);
        self.offsets.extend(other.offsets[1..].iter().map(|o| base + o));
        self.norm_bound = self.norm_bound.max(other.norm_bound);
        self.of_a_unit = self.of_a_unit.max(other.of_a_unit);
    }

    /// These rows padded with empty columns up to `columns`: for a plan that was made for that many columns before their number was known.
    ///
    /// # Panics
    /// If there are more columns already.
    pub fn widened(self, columns: usize) -> Self {
        assert!(columns >= self.columns, "rows are not narrowed");
        Self { columns, ..self }
    }

    /// These rows, of which those with `left_out(row)` are empty.
    pub fn emptied(&self, left_out: impl Fn(usize) -> bool) -> Rows {
        let mut rows = Rows { norm_bound: self.norm_bound, of_a_unit: self.of_a_unit, ..Rows::new(self.columns) };
        for i in 0..self.len() {
            if !left_out(i) {
                let (columns, values) = self.row(i);
                rows.indices.extend_from_slice(columns);
                rows.values.extend_from_slice(values);
            }
            rows.push_zero();
        }
        rows
    }

    /// The rows at the given positions, in that order.
    pub fn select(&self, positions: &[usize]) -> Rows {
        let mut chosen = Rows::new(self.columns);
        (chosen.norm_bound, chosen.of_a_unit) = (self.norm_bound, self.of_a_unit);
        for &i in positions {
            let (columns, values) = self.row(i);
            chosen.indices.extend_from_slice(columns);
            chosen.values.extend_from_slice(values);
            chosen.offsets.push(chosen.values.len());
        }
        chosen
    }
}

/// Keeps the `most` entries from `start` on with the largest absolute values, of equal ones those that come first, and drops the
/// others; what is not finite counts as 0. The kept ones stay in their order.
pub fn keep_largest<T: Copy + Into<f64>>(entries: &mut Vec<(u32, T)>, start: usize, most: usize) {
    let count = entries.len() - start;
    if count <= most {
        return;
    }
    let size = |i: &usize| Some(entries[start + i].1.into().abs()).filter(|v| v.is_finite()).unwrap_or(0.0);
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|a, b| size(b).total_cmp(&size(a))); // stable
    order.truncate(most);
    order.sort_unstable();
    for (to, from) in order.into_iter().enumerate() {
        entries[start + to] = entries[start + from];
    }
    entries.truncate(start + most);
}

fn finite(value: f32) -> f32 {
    if value.is_finite() { value } else { 0.0 }
}

/// Shrinks `row` until its norm, rounded up, is at most `max_norm`.
fn enforce_norm(row: &mut [f32], max_norm: f64, rounded_up: impl Fn(&[f32]) -> f64) {
    loop {
        let upper = rounded_up(row);
        if upper <= max_norm {
            return;
        }
        // strictly below 1, so that every pass makes progress
        let factor = (max_norm / upper).min(1.0 - 2f64.powi(-40));
        scale_toward_zero(row, factor);
    }
}

/// An upper bound on ‖row‖₂, rounding included.
fn norm_up(row: &[f32]) -> f64 {
    let norm = row.iter().map(|&v| f64::from(v) * f64::from(v)).sum::<f64>().sqrt();
    // f32 squares are exact in f64; n additions and a square root err by less than (n+2) ulp
    norm * (1.0 + (row.len() as f64 + 4.0) * f64::EPSILON)
}

/// An upper bound on ‖row‖_s for s from 2 to ∞, rounding included.
fn higher_norm_up(row: &[f32], s: f64) -> f64 {
    let largest = row.iter().fold(0.0, |most, v| f64::from(v.abs()).max(most));
    if s == f64::INFINITY || largest == 0.0 {
        return largest;
    }
    let sum: f64 = row.iter().map(|&v| (f64::from(v.abs()) / largest).powf(s)).sum();
    // a quotient is off by half an ulp, which the power takes s times and the root gives back; two powers, n additions; and s itself
    // may be rounded, which changes the norm by less than ln(n)/s ulp
    largest * sum.powf(1.0 / s) * (1.0 + (row.len() as f64 + 16.0) * f64::EPSILON)
}

fn scale_toward_zero(row: &mut [f32], factor: f64) {
    for value in row.iter_mut() {
        let scaled = f64::from(*value) * factor;
        let nearest = scaled as f32;
        *value = if f64::from(nearest).abs() > scaled.abs() { toward_zero(nearest) } else { nearest };
    }
}

fn toward_zero(value: f32) -> f32 {
    f32::from_bits(value.to_bits() - 1)
}

/// Rows with their targets. Two classes: -1 (first declared level) and +1 (second); more: the class index 0, 1, …;
/// regression: the clipped value scaled to [-1, 1]. A record whose target is missing or not declared keeps its place
/// as a row of zeros with target 0, so that it contributes nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Examples {
    /// n × d features, every row of l2 norm at most the public row norm.
    pub rows: Rows,
    /// The n targets, one per row.
    pub targets: Vec<f32>,
}

impl Examples {
    /// The examples at the given positions, in that order.
    pub fn select(&self, positions: &[usize]) -> Examples {
        Examples { rows: self.rows.select(positions), targets: positions.iter().map(|&i| self.targets[i]).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The norm in exact arithmetic: f32 squares as integers times 2^-298 do not fit, so f64 pairs (double-double).
    fn exact_norm_squared(values: &[f32]) -> (f64, f64) {
        values.iter().fold((0.0, 0.0), |(high, low), &v| {
            let square = f64::from(v) * f64::from(v); // exact: 48 bits
            let sum = high + square;
            let t = sum - high;
            let lost = (high - (sum - t)) + (square - t);
            (sum, low + lost)
        })
    }

    #[test]
    fn duplicates_merge_and_zeros_vanish() {
        let mut rows = Rows::new(5);
        rows.push_clipped(&mut [(4, 0.25), (1, 0.5), (4, 0.25), (0, 0.0), (2, f32::NAN), (3, 1.0), (3, -1.0)], 1.0);
        assert_eq!(rows.row(0), (&[1u32, 4][..], &[0.5f32, 0.5][..]));
        rows.push_zero();
        rows.push_clipped(&mut [(0, f32::MAX), (0, f32::MAX)], 1.0);
        assert_eq!(rows.row(2).0.len(), 0);
        let mut twice = rows.clone();
        twice.append(&rows);
        assert_eq!(twice.len(), 6);
        assert_eq!(twice.select(&[3, 0]).row(0), rows.row(0));
    }

    proptest! {
        #[test]
        fn a_row_that_needs_no_merging_is_what_merging_makes_of_it(
            entries in prop::collection::vec((0u32..7, prop::sample::select(vec![0.0f32, -0.0, 0.5, -2.0, 1e-30, f32::NAN, f32::MAX])), 0..7),
            sorted: bool,
        ) {
            let mut entries = entries;
            if sorted {
                entries.sort_by_key(|entry| entry.0);
                entries.dedup_by_key(|entry| entry.0);
            }
            let (mut rows, mut merged) = (Rows::new(7), Rows::new(7));
            merged.merge(&mut entries.clone());
            enforce_norm(&mut merged.values, 1.0, norm_up);
            let usual = entries.iter().all(|entry| entry.1 != 0.0 && entry.1.is_finite());
            prop_assert!(rows.is_row(&entries) || !(sorted && usual));
            rows.push_clipped(&mut entries, 1.0);
            prop_assert_eq!(rows.row(0), (&merged.indices[..], &merged.values[..]));
        }

        #[test]
        fn the_norm_bound_is_exact(bits in prop::collection::vec(any::<u32>(), 0..60), max_norm in prop::sample::select(vec![1.0, 0.1, 1e-3, 7.0])) {
            let mut rows = Rows::new(60);
            let mut entries: Vec<(u32, f32)> = bits.iter().enumerate().map(|(i, &b)| (i as u32, f32::from_bits(b))).collect();
            rows.push_clipped(&mut entries, max_norm);
            let (high, low) = exact_norm_squared(rows.row(0).1);
            // max_norm² itself is rounded; compare with a product that is exact in double-double
            let square = max_norm * max_norm;
            let error = f64::mul_add(max_norm, max_norm, -square);
            prop_assert!((high - square) + (low - error) <= 0.0, "{high} {low} {square} {error}");
        }

        #[test]
        fn the_l1_bound_holds_for_every_row(values in prop::collection::vec(-1e3f32..1e3, 1..60), max_norm in 1e-3f64..100.0) {
            let mut rows = Rows::new(60);
            let mut entries: Vec<(u32, f32)> = values.iter().enumerate().map(|(i, &v)| (i as u32, v)).collect();
            rows.push_clipped(&mut entries, 1e5);
            let before: f64 = rows.row(0).1.iter().map(|v| f64::from(v.abs())).sum();
            // sums of f32 in f64: exact enough to compare at 1e-12
            let after: f64 = rows.within_l1(max_norm).row(0).1.iter().map(|v| f64::from(v.abs())).sum();
            prop_assert!(after <= max_norm * (1.0 + 1e-14) && after >= before.min(max_norm) * (1.0 - 1e-5));
            prop_assert!(rows.within_l1(-max_norm).row(0).1.iter().all(|v| *v == 0.0), "no norm is negative");
        }

        #[test]
        fn rows_of_equal_entries_keep_the_bound_without_losing_much(k in 1usize..60) {
            let mut rows = Rows::new(60);
            let each = (1.0 / (k as f64).sqrt()) as f32;
            let mut entries: Vec<(u32, f32)> = (0..k as u32).map(|i| (i, each)).collect();
            rows.push_clipped(&mut entries, 1.0);
            let (high, low) = exact_norm_squared(rows.row(0).1);
            prop_assert!((high - 1.0) + low <= 0.0);
            prop_assert!(high > 1.0 - 1e-5);
        }
    }
}
