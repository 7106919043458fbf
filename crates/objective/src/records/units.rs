//! Rows by unit: a record is all that one unit (a person, a device) has.

use super::remote::RemoteRecords;
use super::rows::Examples;
use super::spill::RecordSet;
use dpopt_process::stop::paced;
use std::num::NonZeroU64;
use thiserror::Error;

/// The number of no unit: a row without a known owner counts nowhere.
pub const NOBODY: u32 = u32::MAX;

/// Owners of a table's rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owners {
    /// The unit of each row, from 0 on, or [`NOBODY`].
    pub of_row: Vec<u32>,
    /// How many units there are.
    pub units: usize,
}

impl Owners {
    /// Which rows are left if each unit keeps one, any of its rows as likely as any other. `below(b)` is a uniform number below b. Which row of a unit is
    /// left depends on nothing but how many it has and on those numbers.
    ///
    /// ```
    /// use dpopt_objective::records::{NOBODY, Owners};
    /// let visits = Owners { of_row: vec![1, 0, NOBODY, 1], units: 2 };
    /// assert_eq!(visits.one_row_each(|_| 0), [true, true, false, false]);
    /// ```
    pub fn one_row_each(&self, mut below: impl FnMut(u64) -> u64) -> Vec<bool> {
        let mut ahead = vec![0u64; self.units];
        let owned = || self.of_row.iter().filter(|unit| **unit != NOBODY);
        owned().for_each(|&unit| ahead[unit as usize] += 1);
        // each row with the probability that it is the one, if none before it was: 1 over those that are ahead
        let left = self.of_row.iter().map(|&unit| {
            let Some(ahead) = ahead.get_mut(unit as usize) else { return false };
            if *ahead == 0 {
                return false;
            }
            let chosen = below(*ahead) == 0;
            *ahead = if chosen { 0 } else { *ahead - 1 };
            chosen
        });
        left.collect()
    }
}

/// Rows that belong to units: record u of the set is all rows of unit u, in their order. Which rows those are is as sensitive as the rows are; how many
/// units there are is public.
///
/// ```
/// use dpopt_objective::records::{Owners, RecordSet, Units};
/// let visits = vec!["a", "b", "c", "d"];
/// let patients = Units::new(visits, &Owners { of_row: vec![2, 0, 2, 2], units: 4 })?;
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
    /// No unit has more rows, if there is such a bound.
    most: Option<NonZeroU64>,
    /// Units after these, whose rows can't be seen here.
    unseen: usize,
}

/// Why rows can't be given to units: a bug of the caller, who numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum UnitsError {
    /// One number of a unit for each row is needed.
    #[error("the number of unit ids differs from the number of rows; give one for each row")]
    Length,
    /// Rows by unit have one unit each.
    #[error("rows have several owners here, and grouping by unit needs a single one; give one id for each row")]
    Shared,
    /// Units are numbered from 0.
    #[error("a unit's number is not below the number of units; number units from 0")]
    Number,
}

impl<R: RecordSet> Units<R> {
    /// Rows with their `owners`. Units without rows contribute nothing.
    ///
    /// # Errors
    /// If a row has no unit, or one that there is not. No message tells which.
    pub fn new(rows: R, owners: &Owners) -> Result<Self, UnitsError> {
        let Owners { of_row: unit_of, units } = owners;
        let units = *units;
        if unit_of.len() != rows.len() {
            return Err(UnitsError::Length);
        }
        let mut starts = vec![0; units + 1];
        for &unit in unit_of.iter().filter(|unit| **unit != NOBODY) {
            *starts.get_mut(unit as usize + 1).ok_or(UnitsError::Number)? += 1;
        }
        for unit in 0..units {
            starts[unit + 1] += starts[unit];
        }
        let mut next = starts.clone();
        let mut members = vec![0; starts[units]];
        for (row, &unit) in unit_of.iter().enumerate().filter(|(_, unit)| **unit != NOBODY) {
            let place = &mut next[unit as usize];
            members[*place] = row as u64;
            *place += 1;
        }
        Ok(Self { rows, members, starts, most: None, unseen: 0 })
    }

    /// These units with at most `most` rows each: of a unit that has more, any `most` of them are as likely to be left as any others. `below(b)` is a
    /// uniform number below b. Which rows of a unit are left depends on nothing but how many it has and on those numbers, so that what another unit
    /// holds, and where its rows stand, changes nothing.
    pub fn capped(mut self, most: NonZeroU64, mut below: impl FnMut(u64) -> u64) -> Self {
        let (mut members, mut starts) = (Vec::with_capacity(self.members.len()), Vec::with_capacity(self.starts.len()));
        for unit in paced(0..self.starts.len() - 1) {
            starts.push(members.len());
            self.choose(unit, most, &mut below, &mut members);
        }
        starts.push(members.len());
        (self.members, self.starts) = (members, starts);
        self.most = Some(self.most.map_or(most, |before| before.min(most)));
        self
    }

    /// Appends `most` rows of unit `unit` to `chosen`, in their order: all of them if it has no more, else a uniform choice by the numbers of `below`, as
    /// [`capped`](Self::capped) makes it.
    pub fn choose(&self, unit: usize, most: NonZeroU64, mut below: impl FnMut(u64) -> u64, chosen: &mut Vec<u64>) {
        let rows = self.of(unit);
        let mut wanted = most.get().min(rows.len() as u64);
        // each row with the probability that it is among the wanted ones of those that are left: they keep their order
        for (&row, left) in rows.iter().zip((1..=rows.len() as u64).rev()) {
            if wanted == left || (wanted > 0 && below(left) < wanted) {
                chosen.push(row);
                wanted -= 1;
            }
        }
    }

    /// No unit has more rows, if they were [`capped`](Self::capped).
    pub fn most(&self) -> Option<NonZeroU64> {
        self.most
    }

    /// These units with `rows` in the place of their rows.
    ///
    /// # Errors
    /// If there is another number of rows.
    pub fn of_rows<T: RecordSet>(&self, rows: T) -> Result<Units<T>, UnitsError> {
        if rows.len() != self.rows.len() {
            return Err(UnitsError::Length);
        }
        let (members, starts) = (self.members.clone(), self.starts.clone());
        Ok(Units { rows, members, starts, most: self.most, unseen: self.unseen })
    }

    /// All rows, of whichever units.
    pub fn rows(&self) -> &R {
        &self.rows
    }

    /// Which rows unit `unit` has, in order.
    pub fn of(&self, unit: usize) -> &[u64] {
        match self.starts.get(unit + 1) {
            Some(&end) => &self.members[self.starts[unit]..end],
            None => {
                assert!(unit < self.starts.len() - 1 + self.unseen, "there are not so many units");
                // a row that can't be read: whoever looks into such a unit is refused, and takes it for none without rows
                &[0]
            }
        }
    }
}

impl Units<RemoteRecords> {
    /// Units whose rows are in remote partitions, all rows of a unit in one partition: sums over them are asked for there, and no single unit is read here.
    pub fn remote(rows: RemoteRecords, units: usize) -> Self {
        Self { rows, members: Vec::new(), starts: vec![0], most: None, unseen: units }
    }
}

impl Units<Examples> {
    /// Gives row i the target `target(i)`.
    pub fn set_targets(&mut self, target: impl Fn(usize) -> f32) {
        self.rows.targets.iter_mut().enumerate().for_each(|(i, to)| *to = target(i));
    }

    /// These units with the rows of each next to each other in memory, and without rows that have no owner: a pass over all units reads memory from its
    /// beginning to its end.
    pub fn gathered(self) -> Self {
        let positions: Vec<usize> = self.members.iter().map(|&row| row as usize).collect();
        let targets = positions.iter().map(|&row| self.rows.targets[row]).collect();
        let rows = Examples { rows: self.rows.rows.select(&positions), targets };
        Self { rows, members: (0..positions.len() as u64).collect(), ..self }
    }

    /// The rows one by one: those of no unit are zero, as those beyond the bound are. `None` without a bound.
    ///
    /// There are [`slots`] of them: in the order of the rows, or unit by unit where that takes fewer. Either way what one unit has moves no
    /// other's.
    ///
    /// ```
    /// use dpopt_objective::records::{Examples, NOBODY, Owners, Rows, Units};
    /// let mut rows = Rows::new(1);
    /// for _ in 0..5 {
    ///     rows.push_clipped(&mut vec![(0, 1.0)], 1.0);
    /// }
    /// let owners = Owners { of_row: vec![0, 0, 1, NOBODY, 0], units: 2 };
    /// let visits = Units::new(Examples { rows, targets: vec![1.0; 5] }, &owners)?;
    /// let two_each = visits.capped(2.try_into()?, |left| left - 1).one_by_one().unwrap();
    /// assert_eq!(two_each.rows.of_a_unit(), 2);
    /// assert_eq!(two_each.targets, [1.0, 1.0, 1.0, 0.0]); // two of the first unit's three, one of the other
    /// assert!(two_each.rows.row(3).1.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn one_by_one(&self) -> Option<Examples> {
        let most = self.most?;
        let rows = self.rows.targets.len();
        let slots = slots(rows as u64, self.len() as u64, most) as usize;
        let mut of_slot = vec![None; slots];
        if slots == rows {
            self.members.iter().for_each(|&row| of_slot[row as usize] = Some(row as usize));
        } else {
            for (unit, own) in of_slot.chunks_mut(most.get() as usize).enumerate() {
                own.iter_mut().zip(self.of(unit)).for_each(|(slot, &row)| *slot = Some(row as usize));
            }
        }
        let target = |row: &Option<usize>| row.map_or(0.0, |row| self.rows.targets[row]);
        Some(Examples { rows: self.rows.rows.arranged(&of_slot, most), targets: of_slot.iter().map(target).collect() })
    }
}

/// How many rows [`Units::one_by_one`] gives of `rows` rows and `units` units with at most `most` each.
pub fn slots(rows: u64, units: u64, most: NonZeroU64) -> u64 {
    rows.min(units.saturating_mul(most.get()))
}

impl<R: RecordSet> RecordSet for Units<R> {
    type Error = R::Error;
    const IN_MEMORY: bool = R::IN_MEMORY;

    fn len(&self) -> usize {
        self.starts.len() - 1 + self.unseen
    }

    fn ask(&self, query: &mut dyn FnMut() -> Vec<u8>, width: usize) -> Option<Result<Vec<i64>, R::Error>> {
        self.rows.ask(query, width)
    }

    fn is_remote(&self) -> bool {
        self.rows.is_remote()
    }

    fn ask_sample(&self, query: &mut dyn FnMut(&[u64]) -> Vec<u8>, width: usize) -> Option<Result<Vec<i64>, R::Error>> {
        self.rows.ask_sample(query, width)
    }

    fn fetch(&self, records: &[u64]) {
        for &unit in records {
            self.rows.fetch(self.of(unit as usize));
        }
    }

    // which number a unit has depends on which others have a row
    fn keeps_places(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units<R: RecordSet>(rows: R, of_row: &[u32], units: usize) -> Result<Units<R>, UnitsError> {
        Units::new(rows, &Owners { of_row: of_row.to_vec(), units })
    }

    #[test]
    fn every_row_has_one_unit_and_keeps_its_order() {
        let made = units(vec![(); 7], &[1, 4, 1, 0, 4, 4, 1], 5).unwrap();
        assert_eq!(made.len(), 5);
        let all: Vec<Vec<u64>> = (0..5).map(|unit| made.of(unit).to_vec()).collect();
        assert_eq!(all, [vec![3], vec![0, 2, 6], vec![], vec![], vec![1, 4, 5]]);
        assert_eq!(units(vec![(); 2], &[0], 1).unwrap_err(), UnitsError::Length);
        assert_eq!(units(vec![(); 1], &[1], 1).unwrap_err(), UnitsError::Number);
        assert!(units(Vec::<()>::new(), &[], 0).unwrap().is_empty());
        assert_eq!(units(vec![(); 1], &[u32::MAX - 1], 0).unwrap_err(), UnitsError::Number);
    }

    /// Four rows of values 1 to 4, and what stands where of them.
    fn values(of: &[u32], count: usize, most: u64) -> Vec<f32> {
        let mut rows = crate::records::Rows::new(1);
        for value in 1..=of.len() {
            rows.push_clipped(&mut [(0, value as f32)], 9.0);
        }
        let targets = (1..=of.len()).map(|value| value as f32).collect();
        let made = units(Examples { rows, targets }, of, count).unwrap();
        assert!(made.one_by_one().is_none(), "no bound, no rows");
        let rows = made.capped(most.try_into().unwrap(), |_| 0).one_by_one().unwrap();
        assert_eq!((rows.rows.norm_bound(), rows.rows.of_a_unit()), (9.0, most));
        for (i, &target) in rows.targets.iter().enumerate() {
            assert_eq!(rows.rows.row(i).1.first().copied().unwrap_or(0.0), target);
        }
        rows.targets
    }

    #[test]
    fn rows_stay_where_they_are_or_have_their_units_places() {
        assert_eq!(values(&[1, 0, 1, NOBODY], 2, 2), [1.0, 2.0, 3.0, 0.0]);
        assert_eq!(values(&[1, 0, 1, 1, NOBODY], 2, 2), [2.0, 0.0, 1.0, 3.0]);
        assert_eq!(values(&[2, 0, 2, 2], 3, 1), [2.0, 0.0, 1.0]);
        // without unit 0, the others have the places that they had
        assert_eq!(values(&[2, NOBODY, 2, 2], 3, 1), [0.0, 0.0, 1.0]);
        assert_eq!((slots(10, 3, NonZeroU64::MIN), slots(10, 3, NonZeroU64::MAX)), (3, 10));
    }

    #[test]
    fn gathered_units_have_the_rows_that_they_had() {
        let mut rows = crate::records::Rows::new(1);
        (1..=6).for_each(|value| rows.push_clipped(&mut [(0, value as f32)], 9.0));
        let made = units(Examples { rows, targets: (1..=6).map(|v| v as f32).collect() }, &[1, 0, NOBODY, 1, 3, 0], 4)
            .unwrap();
        let values = |units: &Units<Examples>| -> Vec<Vec<(f32, f32)>> {
            let of_row = |&row: &u64| (units.rows().rows.row(row as usize).1[0], units.rows().targets[row as usize]);
            (0..4).map(|unit| units.of(unit).iter().map(of_row).collect()).collect()
        };
        let before = values(&made);
        let gathered = made.gathered();
        assert_eq!((values(&gathered), gathered.rows().targets.len(), gathered.len()), (before, 5, 4));
    }

    #[test]
    fn rows_of_nobody_are_in_no_unit() {
        let made = units(vec![(); 4], &[NOBODY, 1, NOBODY, 1], 2).unwrap();
        assert_eq!((made.of(0), made.of(1), made.len()), (&[][..], &[1, 3][..], 2));
    }

    /// A cheap generator for which rows are left.
    fn numbers(seed: u64) -> impl FnMut(u64) -> u64 {
        let mut random = crate::synthetic::Lcg::new(seed);
        move |bound| ((random.uniform() * bound as f64) as u64).min(bound - 1)
    }

    #[test]
    fn of_a_unit_all_choices_of_rows_are_equally_likely() {
        // two of four rows of unit 1, whose rows stand among others': six choices
        let of = [1, 0, 1, 1, 0, 1];
        let mut seen = std::collections::BTreeMap::new();
        let mut below = numbers(5);
        let draws = 60_000;
        for _ in 0..draws {
            let left = units(vec![(); 6], &of, 2).unwrap().capped(2.try_into().unwrap(), &mut below);
            assert_eq!((left.of(0), left.of(1).len()), (&[1, 4][..], 2));
            *seen.entry(left.of(1).to_vec()).or_insert(0u32) += 1;
        }
        assert_eq!(seen.len(), 6, "{seen:?}");
        // 10,000 each; five standard deviations are 456
        assert!(seen.values().all(|&n| (9_540..=10_460).contains(&n)), "{seen:?}");
    }

    #[test]
    fn a_bound_holds_for_every_unit_and_leaves_those_within_it_alone() {
        let of: Vec<u32> = (0..500u32).map(|i| (i * i) % 37).collect();
        let before = units(vec![(); 500], &of, 37).unwrap();
        for most in [1u64, 3, 10, 600] {
            let after = before.clone().capped(most.try_into().unwrap(), numbers(most));
            assert_eq!(after.most().map(NonZeroU64::get), Some(most));
            for unit in 0..37 {
                let (had, has) = (before.of(unit), after.of(unit));
                assert_eq!(has.len() as u64, most.min(had.len() as u64));
                assert!(has.iter().all(|row| had.contains(row)) && has.windows(2).all(|pair| pair[0] < pair[1]));
            }
            // a later, larger bound changes nothing
            let later = after.clone().capped(700.try_into().unwrap(), numbers(1));
            assert_eq!((later.most(), &later.members), (after.most(), &after.members));
        }
    }
}
