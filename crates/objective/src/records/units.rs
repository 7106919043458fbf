//! Rows by unit: a record is all that one unit (a person, a device) has.

use super::spill::RecordSet;
use thiserror::Error;

/// Rows that belong to units: record u of the set is all rows of unit u, in their order. Which rows those are is as sensitive as the rows are; how many
/// units there are is public.
///
/// ```
/// use dpopt_objective::records::{RecordSet, Units};
/// let visits = vec!["a", "b", "c", "d"];
/// let patients = Units::new(visits, &[2, 0, 2, 2], 4)?;
/// assert_eq!((patients.len(), patients.of(2), patients.of(3)), (4, &[0, 2, 3][..], &[][..]));
/// # Ok::<(), dpopt_objective::records::UnitsError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Units<R> {
    rows: R,
    /// Rows, unit by unit.
    members: Vec<u64>,
    /// Where each unit's rows begin, and the end.
    starts: Vec<usize>,
}

/// Why rows can't be given to units: a bug of the caller, who numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum UnitsError {
    /// One number of a unit for each row is needed.
    #[error("the rows and the numbers of their units are not as many; give one for each row")]
    Length,
    /// Units are numbered from 0.
    #[error("the number of a unit is not below the number of units; number them from 0")]
    Number,
}

impl<R: RecordSet> Units<R> {
    /// Row j belongs to unit `unit_of[j]`, of `units`. Units without rows contribute nothing.
    ///
    /// # Errors
    /// If a row has no unit, or one that there is not. No message tells which.
    pub fn new(rows: R, unit_of: &[u32], units: usize) -> Result<Self, UnitsError> {
        if unit_of.len() != rows.len() {
            return Err(UnitsError::Length);
        }
        let mut starts = vec![0; units + 1];
        for &unit in unit_of {
            *starts.get_mut(unit as usize + 1).ok_or(UnitsError::Number)? += 1;
        }
        for unit in 0..units {
            starts[unit + 1] += starts[unit];
        }
        let mut next = starts.clone();
        let mut members = vec![0; unit_of.len()];
        for (row, &unit) in unit_of.iter().enumerate() {
            let place = &mut next[unit as usize];
            members[*place] = row as u64;
            *place += 1;
        }
        Ok(Self { rows, members, starts })
    }

    /// All rows, of whichever units.
    pub fn rows(&self) -> &R {
        &self.rows
    }

    /// Which rows unit `unit` has, in order.
    pub fn of(&self, unit: usize) -> &[u64] {
        &self.members[self.starts[unit]..self.starts[unit + 1]]
    }
}

impl<R: RecordSet> RecordSet for Units<R> {
    type Error = R::Error;
    const IN_MEMORY: bool = R::IN_MEMORY;

    fn len(&self) -> usize {
        self.starts.len() - 1
    }

    fn fetch(&self, records: &[u64]) {
        for &unit in records {
            self.rows.fetch(self.of(unit as usize));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_one_unit_and_keeps_its_order() {
        let units = Units::new(vec![(); 7], &[1, 4, 1, 0, 4, 4, 1], 5).unwrap();
        assert_eq!(units.len(), 5);
        let all: Vec<Vec<u64>> = (0..5).map(|unit| units.of(unit).to_vec()).collect();
        assert_eq!(all, [vec![3], vec![0, 2, 6], vec![], vec![], vec![1, 4, 5]]);
        assert_eq!(Units::new(vec![(); 2], &[0], 1).unwrap_err(), UnitsError::Length);
        assert_eq!(Units::new(vec![(); 1], &[1], 1).unwrap_err(), UnitsError::Number);
        assert!(Units::new(Vec::<()>::new(), &[], 0).unwrap().is_empty());
        assert_eq!(Units::new(vec![(); 1], &[u32::MAX], 0).unwrap_err(), UnitsError::Number);
    }
}
