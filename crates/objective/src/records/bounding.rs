//! From matrices of numbers to bounded rows, by public facts: the only copy that is made of the records.

use super::rows::{Rows, keep_largest};
use super::spill::RecordSet;
use super::units::Units;
use dpopt_process::stop::paced;
use thiserror::Error;

/// How a row x is bounded: scale·(clip(x, lower, upper) − centre), clipped to l2 norm `row_norm`, the constant `intercept` appended.
/// All of it is public; what is not finite after that counts as 0.
#[derive(Clone, Debug, PartialEq)]
pub struct Bounding {
    lower: Vec<f64>,
    upper: Vec<f64>,
    scale: Vec<f64>,
    centre: Vec<f64>,
    intercept: f32,
    /// l2 norm of a whole row, the intercept included, rounded up.
    whole: f64,
    /// Entries that are kept besides the intercept, the largest.
    most: Option<usize>,
}

/// What a bounding can't be made of. No record was read.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum BoundingError {
    /// A range that is none.
    #[error("bounds must be finite with lower < upper for every feature")]
    Range,
    /// A norm that is none.
    #[error("row_norm is {0}; give a positive, finite number")]
    Norm(f64),
    /// A row of a box is never longer than 1 after scaling.
    #[error("row_norm is {0}, but with bounds no row is longer than 1 after scaling; give at most 1")]
    LongNorm(f64),
    /// More features than a row can have.
    #[error("X has {0} features, more than 2147483646; use fewer")]
    Wide(usize),
    /// An intercept that is none.
    #[error("intercept_scaling is {0}; give a finite number, at least 0")]
    Intercept(f64),
    /// No entry would be left.
    #[error("max_nonzeros is 0; give a whole number, at least 1, or None")]
    Nonzeros,
}

/// Bounded rows with the targets as they were given; a row without a target is empty, its target not a number.
#[derive(Clone, Debug, PartialEq)]
pub struct Bounded {
    /// The rows, of bounded norm.
    pub rows: Rows,
    /// The targets, one per row.
    pub targets: Vec<f64>,
}

impl Bounded {
    /// Replaces each target by `read(target)`; a row whose new target is not a number becomes empty.
    pub fn read_as(mut self, read: impl Fn(f64) -> f64) -> Self {
        let mut some_left_out = false;
        for target in &mut self.targets {
            let before = target.is_nan();
            *target = read(*target);
            some_left_out |= target.is_nan() && !before;
        }
        if some_left_out {
            self.rows = self.rows.emptied(|row| self.targets[row].is_nan());
        }
        self
    }

    /// Sorts the rows of each unit, with their targets, by what they hold, within the places that the unit has: sums over a unit's rows are then the same bits in
    /// whichever order the rows came. Rows without an owner stay where they are.
    pub fn by_content(self, units: &Units<Vec<()>>) -> Self {
        let content = |row: u64| {
            let (columns, values) = self.rows.row(row as usize);
            (columns, values, self.targets[row as usize].to_bits())
        };
        let in_order = |a: &u64, b: &u64| {
            let ((columns, values, target), other) = (content(*a), content(*b));
            let same = values.iter().map(|v| v.to_bits()).cmp(other.1.iter().map(|v| v.to_bits()));
            columns.cmp(other.0).then(same).then(target.cmp(&other.2))
        };
        let mut positions: Vec<usize> = (0..self.targets.len()).collect();
        for unit in (0..units.len()).filter(|&unit| units.of(unit).len() > 1) {
            let places = units.of(unit);
            let mut own = places.to_vec();
            own.sort_unstable_by(in_order);
            places.iter().zip(own).for_each(|(&place, row)| positions[place as usize] = row as usize);
        }
        let targets = positions.iter().map(|&row| self.targets[row]).collect();
        Self { rows: self.rows.select(&positions), targets }
    }
}

/// A matrix that is not one.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum MatrixError {
    /// Targets and rows differ in number.
    #[error("X and y have different numbers of rows")]
    Targets,
    /// Columns and bounds differ in number.
    #[error("X does not have the number of columns that the bounds were made for")]
    Columns,
    /// Zeros of a sparse matrix stay zeros.
    #[error("X is sparse, and the bounds were made for rows that are centred; make them for sparse ones")]
    Centred,
    /// A compressed matrix that contradicts itself.
    #[error("the CSR matrix is not well formed; rebuild it with scipy.sparse.csr_matrix")]
    Sparse,
}

/// A matrix in compressed sparse rows: entries of row i are at `offsets[i]..offsets[i + 1]`.
#[derive(Clone, Copy, Debug)]
pub struct SparseRows<'a, T> {
    /// Values of the entries.
    pub values: &'a [T],
    /// Column of each entry.
    pub columns: &'a [i32],
    /// One more than rows.
    pub offsets: &'a [i32],
}

impl Bounding {
    /// Rows of `features` numbers, clipped to l2 norm `norm` and divided by it.
    ///
    /// # Errors
    /// If the norm or the intercept is out of range.
    pub fn in_ball(features: usize, norm: f64, intercept: f64) -> Result<Self, BoundingError> {
        if !(norm > 0.0 && norm.is_finite()) {
            return Err(BoundingError::Norm(norm));
        }
        if features >= i32::MAX as usize {
            return Err(BoundingError::Wide(features));
        }
        let all = |x: f64| vec![x; features];
        Self::new(all(f64::NEG_INFINITY), all(f64::INFINITY), all(1.0 / norm), all(0.0), intercept)
    }

    /// Rows clipped to a box and scaled so that no row is longer than 1; then clipped to `norm` of that, and divided by it. Rows are
    /// centred, which fills zeros, or not (`sparse`).
    ///
    /// # Errors
    /// If a range is none, or the norm or the intercept is out of range.
    pub fn in_box(
        lower: Vec<f64>,
        upper: Vec<f64>,
        norm: f64,
        intercept: f64,
        sparse: bool,
    ) -> Result<Self, BoundingError> {
        if lower.len() >= i32::MAX as usize {
            return Err(BoundingError::Wide(lower.len()));
        }
        let ranges = || lower.iter().copied().zip(upper.iter().copied());
        if lower.len() != upper.len() || !ranges().all(|(l, u)| l.is_finite() && u.is_finite() && l < u) {
            return Err(BoundingError::Range);
        }
        if !(norm > 0.0 && norm.is_finite()) {
            return Err(BoundingError::Norm(norm));
        }
        if norm > 1.0 {
            return Err(BoundingError::LongNorm(norm));
        }
        let root = (lower.len() as f64).sqrt();
        let half = |l: f64, u: f64| if sparse { l.abs().max(u.abs()) } else { (u - l) / 2.0 };
        let scale = ranges().map(|(l, u)| 1.0 / (half(l, u) * root * norm)).collect();
        let centre = ranges().map(|(l, u)| if sparse { 0.0 } else { (u + l) / 2.0 }).collect();
        Self::new(lower, upper, scale, centre, intercept)
    }

    fn new(
        lower: Vec<f64>,
        upper: Vec<f64>,
        scale: Vec<f64>,
        centre: Vec<f64>,
        intercept: f64,
    ) -> Result<Self, BoundingError> {
        if !(intercept >= 0.0 && intercept.is_finite() && (intercept as f32).is_finite()) {
            return Err(BoundingError::Intercept(intercept));
        }
        let intercept = intercept as f32;
        let whole = (1f64.hypot(f64::from(intercept)) * (1.0 + 1e-12)).next_up();
        Ok(Self { lower, upper, scale, centre, intercept, whole, most: None })
    }

    /// Keeps the `most` largest entries of a row only, the intercept not counted.
    ///
    /// # Errors
    /// If that is none.
    pub fn keeping(self, most: usize) -> Result<Self, BoundingError> {
        if most == 0 { Err(BoundingError::Nonzeros) } else { Ok(Self { most: Some(most), ..self }) }
    }

    /// Least value of each feature.
    pub fn lower(&self) -> &[f64] {
        &self.lower
    }

    /// Largest value of each feature.
    pub fn upper(&self) -> &[f64] {
        &self.upper
    }

    /// What each feature is multiplied with.
    pub fn scale(&self) -> &[f64] {
        &self.scale
    }

    /// What is taken off each feature before.
    pub fn centre(&self) -> &[f64] {
        &self.centre
    }

    /// The constant that every row ends with; 0 if there is none.
    pub fn intercept(&self) -> f32 {
        self.intercept
    }

    /// l2 norm that no bounded row exceeds.
    pub fn row_norm(&self) -> f64 {
        self.whole
    }

    /// Entries of a bounded row.
    pub fn width(&self) -> usize {
        self.scale.len() + usize::from(self.intercept != 0.0)
    }

    /// No bounded row has more entries that are not 0.
    pub fn nonzeros(&self) -> usize {
        let constant = usize::from(self.intercept != 0.0);
        self.most.map_or(self.width(), |most| self.width().min(most.saturating_add(constant)))
    }

    fn value(&self, j: usize, x: f64) -> f64 {
        self.scale[j] * (x.clamp(self.lower[j], self.upper[j]) - self.centre[j])
    }

    /// Keeps the largest of `values`, clips them to norm 1, appends the constant and pushes the row, whose bound is enforced in f32
    /// there.
    fn push(&self, entries: &mut Vec<(u32, f32)>, values: &mut Vec<(u32, f64)>, rows: &mut Rows) {
        keep_largest(values, 0, self.most.unwrap_or(usize::MAX));
        for v in values.iter_mut() {
            if !v.1.is_finite() {
                v.1 = 0.0;
            }
        }
        let largest = values.iter().fold(0.0f64, |m, v| m.max(v.1.abs()));
        // divided by the largest first: squares never overflow
        let norm = if largest == 0.0 {
            0.0
        } else {
            largest * values.iter().map(|v| (v.1 / largest).powi(2)).sum::<f64>().sqrt()
        };
        let factor = if norm.is_infinite() { 0.0 } else { (1.0 / norm).min(1.0) };
        entries.clear();
        entries.extend(values.iter().map(|&(j, v)| (j, (v * factor) as f32)));
        if self.intercept != 0.0 {
            entries.push((self.scale.len() as u32, self.intercept));
        }
        rows.push_clipped(entries, self.whole);
    }

    /// Bounds `targets.len()` rows, of at most `entries` entries together; `fill(i, out)` gives the entries of row i.
    fn rows(&self, targets: &[f64], entries: usize, mut fill: impl FnMut(usize, &mut Vec<(u32, f64)>)) -> Bounded {
        let mut rows = Rows::new(self.width());
        // the intercept of each row besides
        rows.reserve(
            targets.len(),
            entries.saturating_add(targets.len()).min(targets.len().saturating_mul(self.nonzeros())),
        );
        let (mut entries, mut values) = (Vec::new(), Vec::new());
        for (i, target) in paced(targets.iter().enumerate()) {
            if target.is_nan() {
                rows.push_zero();
                continue;
            }
            values.clear();
            fill(i, &mut values);
            self.push(&mut entries, &mut values, &mut rows);
        }
        Bounded { rows, targets: targets.to_vec() }
    }

    /// Bounds the rows of a dense matrix; `row(i)` is row i.
    ///
    /// # Errors
    /// If numbers of rows or columns differ.
    pub fn dense<T: Copy + Into<f64>, R: IntoIterator<Item = T>>(
        &self,
        (count, columns): (usize, usize),
        row: impl Fn(usize) -> R,
        targets: &[f64],
    ) -> Result<Bounded, MatrixError> {
        match () {
            () if count != targets.len() => Err(MatrixError::Targets),
            () if columns != self.scale.len() => Err(MatrixError::Columns),
            () => Ok(self.rows(targets, count.saturating_mul(columns), |i, values| {
                values.extend(row(i).into_iter().enumerate().map(|(j, v)| (j as u32, self.value(j, v.into()))));
            })),
        }
    }

    /// Bounds the rows of a sparse matrix; entries of one column add up.
    ///
    /// # Errors
    /// If the matrix contradicts itself, or numbers of rows or columns differ.
    pub fn sparse<T: Copy + Into<f64>>(
        &self,
        matrix: SparseRows<'_, T>,
        targets: &[f64],
    ) -> Result<Bounded, MatrixError> {
        let SparseRows { values, columns, offsets } = matrix;
        let sorted = offsets.windows(2).all(|w| w[0] <= w[1]);
        let ends = offsets.first() == Some(&0) && offsets.last().is_some_and(|&e| e as usize == values.len());
        let inside = columns.iter().all(|&j| j >= 0 && (j as usize) < self.scale.len());
        if !sorted || !ends || columns.len() != values.len() || !inside {
            return Err(MatrixError::Sparse);
        }
        if offsets.len() != targets.len() + 1 {
            return Err(MatrixError::Targets);
        }
        if self.centre.iter().any(|c| *c != 0.0) {
            return Err(MatrixError::Centred);
        }
        Ok(self.rows(targets, values.len(), |i, line| {
            let span = offsets[i] as usize..offsets[i + 1] as usize;
            let entries = columns[span.clone()].iter().zip(&values[span]);
            line.extend(entries.map(|(&j, &v)| (j as u32, self.value(j as usize, v.into()))));
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn dense(bounding: &Bounding, rows: &[Vec<f64>]) -> Rows {
        let targets = vec![1.0; rows.len()];
        let columns = bounding.scale().len();
        bounding.dense((rows.len(), columns), |i| rows[i].iter().copied(), &targets).unwrap().rows
    }

    #[test]
    fn a_corner_of_the_box_has_norm_one_and_its_middle_is_zero() {
        let bounding = Bounding::in_box(vec![0.0, -1.0], vec![10.0, 3.0], 1.0, 0.0, false).unwrap();
        let rows = dense(&bounding, &[vec![10.0, 3.0], vec![5.0, 1.0], vec![1e308, f64::NAN]]);
        let (_, corner) = rows.row(0);
        let norm = corner.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>().sqrt();
        assert!((norm - 1.0).abs() < 1e-6 && corner.iter().all(|v| (v - 0.5f32.sqrt()).abs() < 1e-6));
        assert!(rows.row(1).0.is_empty());
        // what is not a number is the middle
        assert_eq!(rows.row(2).0, [0]);
    }

    #[test]
    fn a_row_without_a_target_is_empty_and_its_intercept_too() {
        let bounding = Bounding::in_ball(2, 4.0, 0.5).unwrap();
        let bounded = bounding.dense((2, 2), |_| [1.0f32, 2.0], &[f64::NAN, 3.0]).unwrap();
        assert!(bounded.rows.row(0).0.is_empty() && bounded.targets[0].is_nan());
        assert_eq!(bounded.rows.row(1), (&[0, 1, 2][..], &[0.25, 0.5, 0.5][..]));
        assert_eq!((bounding.width(), bounding.nonzeros()), (3, 3));
        assert_eq!(bounding.keeping(1).unwrap().nonzeros(), 2);
    }

    #[test]
    fn a_sparse_matrix_gives_the_rows_of_the_same_dense_one_and_a_broken_one_an_error() {
        let bounding = Bounding::in_box(vec![-2.0; 3], vec![4.0; 3], 0.5, 0.25, true).unwrap();
        let matrix = SparseRows { values: &[1.0, -9.0, 3.0], columns: &[2, 0, 1], offsets: &[0, 2, 3] };
        let sparse = bounding.sparse(matrix, &[1.0, 2.0]).unwrap().rows;
        assert_eq!(sparse, dense(&bounding, &[vec![-9.0, 0.0, 1.0], vec![0.0, 3.0, 0.0]]));
        let broken = |columns: &[i32], offsets: &[i32], targets: &[f64]| {
            bounding.sparse(SparseRows { values: &[1.0, -9.0, 3.0], columns, offsets }, targets).unwrap_err()
        };
        let two = [1.0, 2.0];
        for (columns, offsets) in [
            (&[2, 0, 3][..], &[0, 2, 3][..]),
            (&[2, -1, 1], &[0, 2, 3]),
            (&[2, 0], &[0, 2, 3]),
            (&[2, 0, 1], &[0, 3, 2]),
            (&[2, 0, 1], &[0, 2, 4]),
            (&[2, 0, 1], &[1, 2, 3]),
            (&[2, 0, 1], &[]),
        ] {
            assert_eq!(broken(columns, offsets, &two), MatrixError::Sparse);
        }
        assert_eq!(broken(&[2, 0, 1], &[0, 2, 3], &[1.0]), MatrixError::Targets);
        let centred = Bounding::in_box(vec![0.0; 3], vec![4.0; 3], 1.0, 0.0, false).unwrap();
        assert_eq!(centred.sparse(matrix, &two).unwrap_err(), MatrixError::Centred);
        assert_eq!(bounding.dense((1, 3), |_| [0.0; 3], &two).unwrap_err(), MatrixError::Targets);
        assert_eq!(bounding.dense((2, 2), |_| [0.0; 2], &two).unwrap_err(), MatrixError::Columns);
    }

    #[test]
    fn facts_out_of_range_are_refused() {
        let in_box = |l: f64, u: f64, norm, intercept| Bounding::in_box(vec![l], vec![u], norm, intercept, false);
        for (l, u) in [(1.0, 1.0), (2.0, 1.0), (f64::NAN, 1.0), (0.0, f64::INFINITY)] {
            assert_eq!(in_box(l, u, 1.0, 0.0).unwrap_err(), BoundingError::Range);
        }
        for norm in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(matches!(in_box(0.0, 1.0, norm, 0.0), Err(BoundingError::Norm(_))));
            assert!(matches!(Bounding::in_ball(1, norm, 0.0), Err(BoundingError::Norm(_))));
        }
        assert_eq!(in_box(0.0, 1.0, 1.5, 0.0).unwrap_err(), BoundingError::LongNorm(1.5));
        for intercept in [-0.5, f64::NAN, f64::INFINITY, 1e300] {
            assert!(matches!(Bounding::in_ball(1, 1.0, intercept), Err(BoundingError::Intercept(_))));
        }
        assert_eq!(Bounding::in_ball(1 << 60, 1.0, 0.0).unwrap_err(), BoundingError::Wide(1 << 60));
        assert_eq!(Bounding::in_ball(1, 1.0, 0.0).unwrap().keeping(0).unwrap_err(), BoundingError::Nonzeros);
    }

    proptest! {
        #[test]
        fn no_row_is_longer_than_its_norm(
            rows in proptest::collection::vec(proptest::collection::vec(any::<f64>(), 3), 1..5),
            low in -1e3f64..1e3, width in 1e-3f64..1e6, norm in 1e-3f64..1.0, intercept in 0.0f64..10.0, boxed: bool,
        ) {
            let bounding = if boxed {
                Bounding::in_box(vec![low; 3], vec![low + width; 3], norm, intercept, false)
            } else {
                Bounding::in_ball(3, norm * 1e3, intercept)
            };
            let bounding = bounding.unwrap();
            let bounded = dense(&bounding, &rows);
            for i in 0..rows.len() {
                let length = bounded.row(i).1.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>().sqrt();
                prop_assert!(length <= bounding.row_norm());
            }
        }
    }
}
