//! Numbers of a table's columns as they are, of any size: what a mean without a known range is made of.

use super::spill::RecordSet;
use super::units::Units;
use std::convert::Infallible;

/// Rows of so many numbers each, 8 bytes a number; a number that is not finite is missing. Nothing is bounded here.
#[derive(Clone, Debug)]
pub struct Columns {
    width: usize,
    values: Vec<f64>,
}

impl Columns {
    /// No rows yet, of `width` numbers each.
    pub fn new(width: usize) -> Self {
        Self { width: width.max(1), values: Vec::new() }
    }

    /// One more row: as many numbers of `row` as it has columns, the rest of it missing if there are fewer.
    pub fn push(&mut self, row: &[f64]) {
        let end = self.values.len() + self.width;
        self.values.extend_from_slice(&row[..row.len().min(self.width)]);
        self.values.resize(end, f64::NAN);
    }

    fn row(&self, i: usize) -> &[f64] {
        &self.values[i * self.width..(i + 1) * self.width]
    }
}

/// Records that have a number, or none, in each of some columns.
pub trait ColumnValues: RecordSet + Sync {
    /// Number of columns.
    fn width(&self) -> usize;
    /// Puts the numbers of record `i` into `out`, which has one place for each column; NaN where there is none.
    fn values(&self, i: usize, out: &mut [f64]);
}

impl RecordSet for Columns {
    type Error = Infallible;

    fn len(&self) -> usize {
        self.values.len() / self.width
    }
}

impl ColumnValues for Columns {
    fn width(&self) -> usize {
        self.width
    }

    fn values(&self, i: usize, out: &mut [f64]) {
        let finite = |x: f64| if x.is_finite() { x } else { f64::NAN };
        out.iter_mut().zip(self.row(i)).for_each(|(to, &from)| *to = finite(from));
    }
}

/// The record of a unit: in each column the mean over those of its rows that have a number there. In which order it has its rows changes nothing, not the last
/// digit either.
///
/// ```
/// use dpopt_objective::records::{ColumnValues, Columns, Owners, Units};
/// let mut visits = Columns::new(2);
/// for row in [[1.0, f64::NAN], [8.0, 5.0], [3.0, f64::NAN]] {
///     visits.push(&row);
/// }
/// let persons = Units::new(visits, &Owners { of_row: vec![1, 0, 1], units: 2 })?;
/// let mut own = [0.0; 2];
/// persons.values(1, &mut own);
/// assert!(own[0] == 2.0 && own[1].is_nan());
/// # Ok::<(), dpopt_objective::records::UnitsError>(())
/// ```
impl ColumnValues for Units<Columns> {
    fn width(&self) -> usize {
        self.rows().width
    }

    fn values(&self, i: usize, out: &mut [f64]) {
        let mut own = Vec::new();
        for (j, to) in out.iter_mut().enumerate().take(self.rows().width) {
            own.clear();
            own.extend(self.of(i).iter().map(|&row| self.rows().row(row as usize)[j]).filter(|x| x.is_finite()));
            own.sort_unstable_by(f64::total_cmp);
            // divided before they are added up: a sum of large values would not be finite
            let count = own.len() as f64;
            *to = if own.is_empty() { f64::NAN } else { own.iter().map(|x| x / count).sum() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{NOBODY, Owners};

    #[test]
    fn rows_are_as_wide_as_they_should_be_and_a_unit_has_the_mean_of_its_own() {
        let mut rows = Columns::new(2);
        for row in [&[1.0, 2.0][..], &[f64::INFINITY], &[3.0, 4.0, 5.0], &[f64::MAX, 0.0], &[f64::MAX, 9.0]] {
            rows.push(row);
        }
        assert_eq!(rows.len(), 5);
        let mut out = [0.0; 2];
        rows.values(1, &mut out);
        assert!(out.iter().all(|x| x.is_nan()));
        rows.values(2, &mut out);
        assert_eq!(out, [3.0, 4.0]);
        let owners = Owners { of_row: vec![0, 0, 0, 2, 2], units: 4 };
        let units = Units::new(rows.clone(), &owners).unwrap();
        units.values(0, &mut out);
        assert_eq!(out, [2.0, 3.0], "the row without numbers counts nowhere");
        units.values(2, &mut out);
        assert_eq!(out, [f64::MAX, 4.5]);
        units.values(3, &mut out);
        assert!(out.iter().all(|x| x.is_nan()), "a unit without rows");
        let nobody = Units::new(rows, &Owners { of_row: vec![NOBODY; 5], units: 1 }).unwrap();
        nobody.values(0, &mut out);
        assert!(out.iter().all(|x| x.is_nan()));
    }
}
