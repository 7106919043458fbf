//! Vectors of any norm, as their entries: what a mean over units is made of.

use super::spill::RecordSet;
use super::units::Units;
use std::convert::Infallible;

/// Vectors as pairs of an index and a value, one vector after the other: 12 bytes an entry, 8 a vector. Nothing is bounded here.
#[derive(Clone, Debug, Default)]
pub struct SparseVectors {
    indices: Vec<u32>,
    values: Vec<f64>,
    /// Where each vector's entries end.
    ends: Vec<usize>,
}

impl SparseVectors {
    /// One more vector, as (index, value) pairs; indices may repeat, their values add up.
    pub fn push(&mut self, entries: &[(u32, f64)]) {
        self.indices.extend(entries.iter().map(|entry| entry.0));
        self.values.extend(entries.iter().map(|entry| entry.1));
        self.ends.push(self.indices.len());
    }

    /// The entries of vector `i`, as they were given.
    fn entries(&self, i: usize) -> impl Iterator<Item = (u32, f64)> {
        let of = i.checked_sub(1).map_or(0, |before| self.ends[before])..self.ends[i];
        self.indices[of.clone()].iter().copied().zip(self.values[of].iter().copied())
    }
}

impl RecordSet for SparseVectors {
    type Error = Infallible;

    fn len(&self) -> usize {
        self.ends.len()
    }
}

impl Units<SparseVectors> {
    /// Puts the mean of the vectors of unit `unit` into `mean`, as (index, value) pairs by increasing index; those of equal indices add up. It has none
    /// for a unit without vectors. Values that are not finite count as 0, each by itself.
    ///
    /// In which order the unit has its vectors changes nothing, not the last digit either: entries stand by index and value.
    ///
    /// ```
    /// use dpopt_objective::records::{Owners, SparseVectors, Units};
    /// let mut visits = SparseVectors::default();
    /// for entries in [&[(3, 1.0)][..], &[(0, 8.0)], &[(3, 3.0), (5, f64::NAN)], &[]] {
    ///     visits.push(entries);
    /// }
    /// let persons = Units::new(visits, &Owners { of_row: vec![1, 0, 1, 1], units: 2 })?;
    /// let mut mean = Vec::new();
    /// persons.mean(1, &mut mean);
    /// assert_eq!(mean, [(3, 1.0 / 3.0), (3, 1.0)]);
    /// # Ok::<(), dpopt_objective::records::UnitsError>(())
    /// ```
    pub fn mean(&self, unit: usize, mean: &mut Vec<(u32, f64)>) {
        let own = self.of(unit);
        // divided before they are added up: a sum of large values would not be finite
        let count = own.len() as f64;
        mean.clear();
        mean.extend(
            (own.iter())
                .flat_map(|&row| self.rows().entries(row as usize))
                .filter(|entry| entry.1.is_finite())
                .map(|(index, value)| (index, value / count)),
        );
        mean.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{NOBODY, Owners};
    use crate::synthetic::Lcg;

    fn units(vectors: &[(u32, Vec<(u32, f64)>)], units: usize) -> Units<SparseVectors> {
        let mut rows = SparseVectors::default();
        vectors.iter().for_each(|(_, entries)| rows.push(entries));
        Units::new(rows, &Owners { of_row: vectors.iter().map(|vector| vector.0).collect(), units }).unwrap()
    }

    fn mean(of: &Units<SparseVectors>, unit: usize) -> Vec<(u32, f64)> {
        let mut mean = vec![(9, 9.0)];
        of.mean(unit, &mut mean);
        mean
    }

    #[test]
    fn a_mean_is_that_of_the_units_own_vectors() {
        let one = |index, value| vec![(index, value)];
        let made = units(&[(1, one(4, 2.0)), (0, one(4, 10.0)), (NOBODY, one(0, 7.0)), (1, one(2, -6.0))], 3);
        assert_eq!(mean(&made, 0), [(4, 10.0)]);
        assert_eq!(mean(&made, 1), [(2, -3.0), (4, 1.0)]);
        assert_eq!(mean(&made, 2), []);
        // large ones as well
        let made = units(&[(0, one(0, f64::MAX)), (0, one(0, f64::MAX))], 1);
        assert_eq!(mean(&made, 0), [(0, f64::MAX / 2.0); 2]);
    }

    #[test]
    fn the_order_of_a_units_vectors_changes_no_bit() {
        let mut random = Lcg::new(7);
        let mut vectors: Vec<(u32, Vec<(u32, f64)>)> = (0..40)
            .map(|i| (i % 2, (0..5).map(|_| ((random.uniform() * 4.0) as u32, random.uniform() - 0.5)).collect()))
            .collect();
        let before = units(&vectors, 2);
        for _ in 0..20 {
            for i in (1..vectors.len()).rev() {
                vectors.swap(i, (random.uniform() * (i + 1) as f64) as usize);
            }
            let after = units(&vectors, 2);
            (0..2).for_each(|unit| assert_eq!(mean(&before, unit), mean(&after, unit)));
        }
    }
}
