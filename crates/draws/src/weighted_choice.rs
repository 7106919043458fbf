//! A choice among few entries that stand for very many candidates each (docs/proofs/tree.md, "Sampler").
//!
//! An entry of 2^m candidates with a common score is chosen with probability ∝ 2^m·e^(score/scale). Entries lie in groups of one m and one level of scores, at
//! most one scale wide, as in [`LeveledChoice`](crate::LeveledChoice): a group is taken by its number of entries and its upper edge, a uniform entry of it
//! is kept with probability e^(−(edge − score)/scale) ≥ 1/e, otherwise the choice begins anew.
//!
//! Time depends on the scores: the claim is about outputs.

use crate::leveled_choice::{level_of, level_ratio, uniform_below};
use crate::selection::ExponentialChoice;
use crate::selection::choice_scale;
use dpopt_noise::parts::{Fixed, L};
use dpopt_noise::{ScaleError, Stream};
use dpopt_process::stop::Pace;
use std::collections::BTreeMap;

/// Levels further behind than this many scales weigh less than a unit of 2^-384 and are left out.
const REACH: f64 = 267.0;

/// Most doublings of an entry.
pub const MAX_DOUBLINGS: u32 = 120;

/// Scores beyond this count as this.
const LARGEST_SCORE: i64 = 1 << 62;

/// Entries of 2^m candidates each, of which choices take one at a time, by the exponential mechanism.
///
/// Each choice, and each coin of [`keeps`](Self::keeps), is within 2^-190 of its exact law in total variation, with up to 2^32 entries.
///
/// ```
/// use dpopt_draws::WeightedChoice;
/// use dpopt_noise::{NoiseSource, Purpose};
/// // ε = 1, a record moves a score by at most 1: scale 2
/// let mut choice = WeightedChoice::new(1.0, 1)?;
/// choice.put(100, 0, "2^100 candidates of score 0");
/// choice.put(0, 60, "one of score 60, which weighs e^30 < 2^44");
/// let mut stream = NoiseSource::insecure(1).stream(Purpose::Selection, 0);
/// assert_eq!(choice.take(&mut stream), Some(("2^100 candidates of score 0", 0)));
/// assert_eq!(choice.take(&mut stream).map(|(_, score)| score), Some(60));
/// assert_eq!(choice.take(&mut stream), None);
/// # Ok::<(), dpopt_noise::ScaleError>(())
/// ```
#[derive(Clone, Debug)]
pub struct WeightedChoice<T> {
    coins: ExponentialChoice,
    /// The scale over ln 2: scores for one more doubling.
    per_doubling: f64,
    /// Width of a level in units of the scores: at most one scale, at least 1.
    width: i64,
    /// e^(−k·width/scale) for k = 0, 1, ….
    powers: Vec<Fixed<L>>,
    /// Entries by level, l for scores in (l − 1)·width < score ≤ l·width, and doublings.
    groups: BTreeMap<(i64, u32), Vec<(i64, T)>>,
}

impl<T> WeightedChoice<T> {
    /// An empty choice whose scale is 2·sensitivity/ε, that of an ε-DP choice where one record moves each score by at most `sensitivity`, in any direction.
    ///
    /// # Errors
    /// If ε is not positive and finite, the sensitivity is 0, or their ratio is out of range.
    pub fn new(epsilon: f64, sensitivity: u64) -> Result<Self, ScaleError> {
        let scale = choice_scale(epsilon, sensitivity, false)?;
        let width = (scale.floor() as i64).max(1);
        let count = (REACH * scale / width as f64).ceil() as usize + 2;
        let ratio = level_ratio(scale, width)?;
        let powers =
            std::iter::successors(Some(Fixed::integer(1)), |p| Some(p.times_down(&ratio))).take(count).collect();
        let coins = ExponentialChoice::new(epsilon, sensitivity, false)?;
        Ok(Self { coins, per_doubling: scale * std::f64::consts::LN_2, width, powers, groups: BTreeMap::new() })
    }

    /// Adds an entry for 2^`doublings` candidates of this score; more than [`MAX_DOUBLINGS`] count as so many.
    pub fn put(&mut self, doublings: u32, score: i64, what: T) {
        let score = score.clamp(-LARGEST_SCORE, LARGEST_SCORE);
        let group = (level_of(score, self.width), doublings.min(MAX_DOUBLINGS));
        self.groups.entry(group).or_default().push((score, what));
    }

    /// Chooses an entry and takes it out, with its score; `None` where there is none.
    pub fn take(&mut self, stream: &mut Stream) -> Option<(T, i64)> {
        let cells = self.cells()?;
        let total = cells.last()?.1;
        let mut pace = Pace::default();
        loop {
            pace.step();
            let uniform = uniform_below(&total, stream);
            let group = cells[cells.partition_point(|cell| cell.1 <= uniform)].0;
            let entries = self.groups.get_mut(&group)?;
            let at = stream.below(entries.len() as u64) as usize;
            // edge − score, without overflow: scores lie in (edge − width, edge]
            let behind = (i128::from(group.0) * i128::from(self.width) - i128::from(entries[at].0)) as u64;
            if self.coins.keeps(behind, stream) {
                let (score, what) = entries.swap_remove(at);
                if entries.is_empty() {
                    self.groups.remove(&group);
                }
                return Some((what, score));
            }
        }
    }

    /// Heads with probability e^(−behind/scale).
    pub fn keeps(&self, behind: u64, stream: &mut Stream) -> bool {
        self.coins.keeps(behind, stream)
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.groups.values().map(Vec::len).sum()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Groups, each with the sum of the weights up to and including it; the heaviest group weighs about 1.
    fn cells(&self) -> Option<Vec<((i64, u32), Fixed<L>)>> {
        let &(top, _) = self.groups.keys().next_back()?;
        let behind = |level: i64| usize::try_from(top.abs_diff(level)).ok().filter(|&k| k < self.powers.len());
        // log2 of a group's weight
        let size = |k: usize, doublings: u32, entries: usize| {
            f64::from(doublings) + (entries as f64).log2() - k as f64 * self.width as f64 / self.per_doubling
        };
        let near = || {
            let groups = self.groups.iter().rev();
            groups.map_while(|(&group, entries)| behind(group.0).map(|k| (group, k, entries.len())))
        };
        let heaviest = near().map(|((_, m), k, entries)| size(k, m, entries)).fold(f64::NEG_INFINITY, f64::max);
        let unit = heaviest.round() as i64;
        let mut sum = Fixed::ZERO;
        let cells = near().map(|((level, doublings), k, entries)| {
            let (power, shift) = (&self.powers[k], i64::from(doublings) - unit);
            let one = if shift < 0 {
                power.shifted_right_far(shift.unsigned_abs() as usize)
            } else {
                power.shifted_left(shift as usize)
            };
            sum = sum.plus(&one.times_integer(entries as u64));
            ((level, doublings), sum)
        });
        Some(cells.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::assert_multinomial;
    use dpopt_noise::{NoiseSource, Purpose};
    use proptest::prelude::*;

    fn stream(seed: u64) -> Stream {
        NoiseSource::insecure(seed).stream(Purpose::Selection, 0)
    }

    /// (doublings, score in scales) of each entry.
    fn drawn(entries: &[(u32, f64)], epsilon: f64, sensitivity: u64, seed: u64) {
        let scale = 2.0 * sensitivity as f64 / epsilon;
        let scores: Vec<i64> = entries.iter().map(|(_, s)| (s * scale).round() as i64).collect();
        let log = |i: usize| f64::from(entries[i].0) * 2f64.ln() + scores[i] as f64 / scale;
        let weight = |i: usize| (log(i) - log(0)).exp();
        let total: f64 = (0..entries.len()).map(weight).sum();
        let mut choice = WeightedChoice::new(epsilon, sensitivity).unwrap();
        scores.iter().enumerate().for_each(|(i, &score)| choice.put(entries[i].0, score, i));
        let mut counts = vec![0.0; entries.len()];
        let mut draws = stream(seed);
        for _ in 0..60_000 {
            let (i, score) = choice.take(&mut draws).unwrap();
            assert_eq!(score, scores[i]);
            counts[i] += 1.0;
            choice.put(entries[i].0, score, i);
        }
        assert_multinomial(&counts, |i| weight(i) / total);
    }

    #[test]
    fn entries_are_taken_by_their_weights() {
        let near = [(0, 0.0), (1, -0.4), (3, -2.0), (0, 1.1), (2, 0.3), (0, 1.1), (5, -3.3)];
        for (seed, (epsilon, sensitivity)) in
            [(1.0, 1), (40.0, 1), (0.3, 1), (1.0, 1 << 24), (0.007, 3)].into_iter().enumerate()
        {
            drawn(&near, epsilon, sensitivity, seed as u64);
        }
        // one candidate far ahead, and very many far behind: 2^100 weigh e^69.3, 2^120 e^83.2
        drawn(&[(0, 69.0), (100, 0.0), (120, -13.0), (119, -14.0)], 1.0, 1 << 24, 9);
        drawn(&[(0, -900.0), (1, -901.0), (120, -984.0)], 2.0, 1000, 10);
    }

    #[test]
    fn what_is_far_behind_is_taken_last() {
        let mut choice = WeightedChoice::new(1.0, 1).unwrap();
        let mut draws = stream(3);
        assert!(choice.is_empty() && choice.take(&mut draws).is_none());
        for (doublings, score) in [(0, i64::MIN), (120, 0), (1000, -9000), (0, i64::MAX)] {
            choice.put(doublings, score, score);
        }
        assert_eq!(choice.len(), 4);
        let order: Vec<i64> = std::iter::from_fn(|| choice.take(&mut draws)).map(|(what, _)| what).collect();
        assert_eq!(order, [i64::MAX, 0, -9000, i64::MIN]);
        for (epsilon, sensitivity) in [(0.0, 1), (f64::NAN, 1), (1.0, 0), (1e-300, 1)] {
            assert!(WeightedChoice::<u8>::new(epsilon, sensitivity).is_err());
        }
    }

    proptest! {
        /// Whatever is put in comes out once, with its score.
        #[test]
        fn every_entry_is_taken_once(
            entries in prop::collection::vec((0u32..130, prop_oneof![-50i64..50, any::<i64>()]), 0..40), epsilon in 0.01f64..50.0,
        ) {
            let mut choice = WeightedChoice::new(epsilon, 1).unwrap();
            entries.iter().enumerate().for_each(|(i, &(doublings, score))| choice.put(doublings, score, i));
            let mut draws = stream(1);
            let mut seen = vec![false; entries.len()];
            while let Some((i, score)) = choice.take(&mut draws) {
                prop_assert!(!std::mem::replace(&mut seen[i], true));
                prop_assert_eq!(score, entries[i].1.clamp(-LARGEST_SCORE, LARGEST_SCORE));
            }
            prop_assert!(seen.into_iter().all(|s| s));
        }
    }
}
