//! Rows with several owners: which of them are kept so that no unit owns more than k (docs/proofs/units.md).

use super::rows::Examples;
use super::units::{NOBODY, UnitsError};
use std::num::NonZeroU64;

/// Whose rows a table's are, where a row may have several owners: a message has a sender and a recipient. It says nothing of what is in the rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedOwners {
    /// Row by row, [`NOBODY`] where there is none.
    of_row: Vec<u32>,
    /// Places for owners that a row has.
    places: usize,
    units: usize,
}

impl SharedOwners {
    /// From the numbers of the owners of each row, `places` of them, each from 0 to below `units` or [`NOBODY`]. An owner that comes twice owns the row once.
    ///
    /// # Errors
    /// If the numbers are not `places` for each row, or one is not below `units`.
    pub fn new(of_row: Vec<u32>, places: usize, units: usize) -> Result<Self, UnitsError> {
        if places == 0 || !of_row.len().is_multiple_of(places) {
            return Err(UnitsError::Length);
        }
        match of_row.iter().all(|&unit| unit == NOBODY || (unit as usize) < units) {
            true => Ok(Self { of_row, places, units }),
            false => Err(UnitsError::Number),
        }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.of_row.len() / self.places
    }

    /// Number of owners.
    pub fn units(&self) -> usize {
        self.units
    }

    /// Owners of row `row`, each once.
    pub fn of(&self, row: usize) -> impl Iterator<Item = u32> + Clone + '_ {
        let all = &self.of_row[row * self.places..(row + 1) * self.places];
        all.iter()
            .enumerate()
            .filter(|(at, unit)| **unit != NOBODY && !all[..*at].contains(unit))
            .map(|(_, unit)| *unit)
    }

    /// How many rows each owner has.
    pub fn rows_of_each(&self) -> Vec<u64> {
        let mut rows = vec![0; self.units];
        (0..self.rows()).flat_map(|row| self.of(row)).for_each(|unit| rows[unit as usize] += 1);
        rows
    }

    /// A choice of rows of which no unit owns more than `most`, and to which no row could be added: one row after the other where all of its owners have room, those first
    /// whose owners have the fewest rows together, since they leave the most room to others. Of equals none is preferred for where it stands: a fixed mix of their
    /// places decides. It depends on who owns what and on nothing else.
    ///
    /// ```
    /// use dpopt_objective::records::SharedOwners;
    /// // 0 writes to everybody, 1 and 2 to each other as well
    /// let messages = SharedOwners::new(vec![0, 1, 0, 2, 0, 3, 1, 2], 2, 4)?;
    /// let kept = messages.kept(1.try_into()?);
    /// assert_eq!(kept.positions(), [2, 3]); // 0 to 3, 1 to 2: nobody has two, and 0 to 1 would have taken the place of both
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn kept(&self, most: NonZeroU64) -> KeptRows {
        let each = self.rows_of_each();
        let claims = |row: usize| self.of(row).fold(0u64, |sum, unit| sum.saturating_add(each[unit as usize]));
        let mut order: Vec<(u64, u64, usize)> = (0..self.rows())
            .filter(|&row| self.of(row).next().is_some())
            .map(|row| (claims(row), mix(row), row))
            .collect();
        order.sort_unstable();
        let mut left = vec![most.get(); self.units];
        let mut positions = Vec::new();
        for (_, _, row) in order {
            if self.of(row).all(|unit| left[unit as usize] > 0) {
                self.of(row).for_each(|unit| left[unit as usize] -= 1);
                positions.push(row);
            }
        }
        positions.sort_unstable();
        KeptRows { rows: self.rows(), positions, most }
    }
}

/// A fixed permutation of the numbers of rows (the finishing mix of splitmix64).
fn mix(row: usize) -> u64 {
    let mut x = (row as u64).wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Rows that were [kept](SharedOwners::kept), by their places: no unit owns more than a public number of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptRows {
    /// How many there were.
    rows: usize,
    /// Places of the rows that were kept, increasing.
    positions: Vec<usize>,
    most: NonZeroU64,
}

impl KeptRows {
    /// Places of the rows that were kept, increasing.
    pub fn positions(&self) -> &[usize] {
        &self.positions
    }

    /// k: most of these rows that a unit owns.
    pub fn most(&self) -> NonZeroU64 {
        self.most
    }

    /// For each row, whether it is kept.
    pub fn mask(&self) -> Vec<bool> {
        let mut mask = vec![false; self.rows];
        self.positions.iter().for_each(|&row| mask[row] = true);
        mask
    }

    /// The kept ones of `rows`, in their order: they say that a unit has at most so many.
    ///
    /// # Errors
    /// If the choice was made of another number of rows.
    pub fn of(&self, rows: &Examples) -> Result<Examples, UnitsError> {
        if rows.targets.len() != self.rows || rows.rows.len() != self.rows {
            return Err(UnitsError::Length);
        }
        let slots: Vec<Option<usize>> = self.positions.iter().copied().map(Some).collect();
        let targets = self.positions.iter().map(|&row| rows.targets[row]).collect();
        Ok(Examples { rows: rows.rows.arranged(&slots, self.most), targets })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Rows;
    use proptest::prelude::*;

    fn most(k: u64) -> NonZeroU64 {
        k.try_into().unwrap()
    }

    /// Whether `kept` bounds every owner and leaves no row out that would fit.
    fn holds(owners: &SharedOwners, kept: &KeptRows) -> Result<(), TestCaseError> {
        let mut has = vec![0; owners.units()];
        kept.positions().iter().flat_map(|&row| owners.of(row)).for_each(|unit| has[unit as usize] += 1);
        prop_assert!(has.iter().all(|&rows| rows <= kept.most().get()));
        let mask = kept.mask();
        for row in (0..owners.rows()).filter(|&row| !mask[row]) {
            let owned = owners.of(row).next().is_some();
            prop_assert!(!owned || owners.of(row).any(|unit| has[unit as usize] == kept.most().get()));
        }
        prop_assert!(kept.positions().iter().all(|&row| owners.of(row).next().is_some()));
        prop_assert!(kept.positions().windows(2).all(|pair| pair[0] < pair[1]));
        Ok(())
    }

    proptest! {
        /// Of any graph, also with rows of nobody, of one owner twice, and of three places.
        #[test]
        fn nobody_owns_more_than_the_bound_and_nothing_could_be_added(
            places in 1usize..4,
            numbers in prop::collection::vec(0u32..14, 0..240),
            k in 1u64..6,
        ) {
            let rows = numbers.len() / places;
            // two of the fourteen are nobody
            let of_row: Vec<u32> =
                numbers[..rows * places].iter().map(|&unit| if unit < 12 { unit } else { NOBODY }).collect();
            let owners = SharedOwners::new(of_row, places, 12).unwrap();
            let kept = owners.kept(most(k));
            holds(&owners, &kept)?;
            prop_assert_eq!(&owners.clone().kept(most(k)), &kept);
            // a bound that nobody reaches keeps all that have an owner
            let all = owners.kept(most(1_000));
            prop_assert_eq!(all.positions().len(), (0..rows).filter(|&row| owners.of(row).next().is_some()).count());
        }
    }

    #[test]
    fn kept_rows_are_the_rows_in_their_order_and_say_the_bound() {
        let mut rows = Rows::new(1);
        (1..=4).for_each(|value| rows.push_clipped(&mut [(0, value as f32)], 9.0));
        let examples = Examples { rows, targets: vec![1.0, 2.0, 3.0, 4.0] };
        let n = NOBODY;
        // the third row has no owner, the fourth one that it names twice
        let owners = SharedOwners::new(vec![0, 1, 0, n, n, n, 2, 2], 2, 3).unwrap();
        assert_eq!(owners.rows_of_each(), [2, 1, 1]);
        let two = owners.kept(most(2)).of(&examples).unwrap();
        assert_eq!(
            (two.targets.as_slice(), two.rows.of_a_unit(), two.rows.norm_bound()),
            (&[1.0, 2.0, 4.0][..], 2, 9.0)
        );
        assert_eq!(two.rows.row(2).1, [4.0]);
        // of 0's rows the one that nobody else has
        let one = owners.kept(most(1)).of(&examples).unwrap();
        assert_eq!((one.targets.as_slice(), one.rows.of_a_unit()), (&[2.0, 4.0][..], 1));
        let fewer = SharedOwners::new(vec![0, 1], 2, 2).unwrap().kept(most(1));
        assert_eq!(fewer.of(&examples).unwrap_err(), UnitsError::Length);
        assert_eq!(SharedOwners::new(vec![0, 1, 2], 2, 3).unwrap_err(), UnitsError::Length);
        assert_eq!(SharedOwners::new(vec![0, 3], 2, 3).unwrap_err(), UnitsError::Number);
    }

    /// The example of the proof: without the first row, every other one changes sides.
    #[test]
    fn one_row_less_may_change_all_others_so_ownership_is_not_protected() {
        const LONG: u32 = 40;
        let kept = |first: [u32; 2]| {
            // row i of a path belongs to i and i + 1; i also has i rows with a hub, so that rows of the path come first, and in their order
            let path = first.into_iter().chain((1..LONG).flat_map(|i| [i, i + 1]));
            let hub = (0..=LONG).flat_map(|i| (0..i).flat_map(move |_| [i, LONG + 1]));
            let owners = SharedOwners::new(path.chain(hub).collect(), 2, LONG as usize + 2).unwrap();
            let kept = owners.kept(most(1));
            kept.positions().iter().copied().filter(|&row| row < LONG as usize).collect::<Vec<_>>()
        };
        let even = |parity: usize| (0..LONG as usize).filter(|row| row % 2 == parity).collect::<Vec<_>>();
        assert_eq!((kept([0, 1]), kept([NOBODY, NOBODY])), (even(0), even(1)));
    }
}
