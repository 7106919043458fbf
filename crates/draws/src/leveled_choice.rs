//! The exponential mechanism over very many candidates whose integer scores change a few at a time
//! (docs/proofs/frank-wolfe.md, "Sampler").
//!
//! P(i) ∝ e^(score_i/scale). Candidates lie in levels of equal width, at most one scale wide. A draw takes a level with
//! probability ∝ (its number of candidates)·e^(its upper edge/scale), a uniform candidate of it, and keeps that with
//! probability e^(−(edge − score)/scale) ≥ 1/e; otherwise it starts again. Changing a score costs a logarithm, a draw costs
//! the levels that matter, a few hundred at most: neither grows with the number of candidates. (The published way keeps groups
//! of √N weights in floating point: a draw costs √N, and rounding changes probabilities, so privacy. Here no weight is ever
//! stored, and the powers of e^(−width/scale) are good to 2^-350.)
//!
//! Time depends on the scores: the claim is about outputs.
use crate::selection::choice_scale;
use dpopt_noise::parts::{Fixed, L, exp_minus, inverse};
use dpopt_noise::{Geometric, ScaleError, Stream};
use std::collections::BTreeMap;

/// Candidates further behind than this many scales are left out: with fewer than 2^34 of them all together have probability
/// below 2^34·e^-119 < 2^-137.
const REACH: f64 = 120.0;

/// Most candidates, so that sums of weights stay below 2^64.
const MOST: u64 = 1 << 34;

/// The candidate that a draw chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chosen {
    /// The candidate +p, of this number p.
    Plus(u32),
    /// The candidate −p, of this number p.
    Minus(u32),
    /// One of the candidates without a number: the how-manieth.
    Other(u64),
}

/// The exponential mechanism over signed candidates, +p with score s_p and −p with score −s_p, whose scores are kept up to date.
///
/// Each draw is within 2^-110 of the exact law in total variation.
///
/// ```
/// use dpopt_draws::{Chosen, LeveledChoice};
/// use dpopt_noise::{NoiseSource, Purpose};
/// // a billion candidates of score 0, and two pairs that have a score: ε = 1, a record moves a score by at most 1
/// let mut choice = LeveledChoice::new(1.0, 1, &[0, 100], 1_000_000_000)?;
/// let mut stream = NoiseSource::insecure(1).stream(Purpose::Selection, 0);
/// assert_eq!(choice.choose(&mut stream), Some(Chosen::Plus(1)));
/// choice.set(1, -100);
/// assert_eq!(choice.choose(&mut stream), Some(Chosen::Minus(1)));
/// choice.set(1, 0);
/// assert!(matches!(choice.choose(&mut stream), Some(Chosen::Other(_))));
/// # Ok::<(), dpopt_noise::ScaleError>(())
/// ```
#[derive(Clone, Debug)]
pub struct LeveledChoice {
    /// P(Z ≥ k) = e^(−k/scale).
    gap: Geometric,
    /// Width of a level in units of the scores: at most one scale, at least 1.
    width: i64,
    /// e^(−k·width/scale) for k = 0, 1, …: weights of the levels.
    powers: Vec<Fixed<L>>,
    pairs: Vec<Pair>,
    /// Places of +p and −p within their levels.
    places: Vec<[u32; 2]>,
    /// Candidates (2p for +p, 2p + 1 for −p) by level: level l holds scores in (l − 1)·width < score ≤ l·width.
    levels: BTreeMap<i64, Vec<u32>>,
    /// Candidates without a number, of score 0.
    others: u64,
    /// Whether there is −p beside each +p.
    signed: bool,
}

/// Score of +p and its level, side by side: most changes read and write nothing else.
#[derive(Clone, Copy, Debug)]
struct Pair {
    score: i64,
    level: i64,
}

/// Larger scores count as this.
const LARGEST_SCORE: i64 = 1 << 61;

impl LeveledChoice {
    /// A choice that is ε-DP and of bounded range ε when one record moves each score by at most `sensitivity`, in any
    /// direction: scale 2·sensitivity/ε. Besides the pairs with `scores` there are `others` candidates whose score is 0.
    ///
    /// # Errors
    /// If ε is not positive and finite, the sensitivity is 0, their ratio is out of range, or there are 2^31 scores or 2^34
    /// candidates.
    pub fn new(epsilon: f64, sensitivity: u64, scores: &[i64], others: u64) -> Result<Self, ScaleError> {
        Self::with(epsilon, sensitivity, scores, others, true)
    }

    /// A choice among the candidates +p only, each with its score, and `others` candidates whose score is 0.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn unsigned(epsilon: f64, sensitivity: u64, scores: &[i64], others: u64) -> Result<Self, ScaleError> {
        Self::with(epsilon, sensitivity, scores, others, false)
    }

    fn with(epsilon: f64, sensitivity: u64, scores: &[i64], others: u64, signed: bool) -> Result<Self, ScaleError> {
        let scale = choice_scale(epsilon, sensitivity, false)?;
        if scores.len() >= 1 << 31 || others > MOST || 2 * scores.len() as u64 + others > MOST {
            return Err(ScaleError);
        }
        let width = (scale.floor() as i64).max(1);
        // a level is more than half a scale wide, or there are few: 242 at most
        let count = (REACH * scale / width as f64).ceil() as usize + 2;
        let ratio = level_ratio(scale, width)?;
        let powers =
            std::iter::successors(Some(Fixed::integer(1)), |p| Some(p.times_down(&ratio))).take(count).collect();
        let mut choice = Self {
            gap: Geometric::new(scale)?,
            width,
            powers,
            pairs: Vec::with_capacity(scores.len()),
            places: vec![[0; 2]; scores.len()],
            levels: BTreeMap::new(),
            others,
            signed,
        };
        for (number, &score) in scores.iter().enumerate() {
            let score = score.clamp(-LARGEST_SCORE, LARGEST_SCORE);
            choice.pairs.push(Pair { score, level: level_of(score, width) });
            for (candidate, score) in choice.candidates(number as u32, score) {
                choice.enter(candidate, level_of(score, width));
            }
        }
        Ok(choice)
    }

    /// The candidates of a number and their scores.
    fn candidates(&self, number: u32, score: i64) -> impl Iterator<Item = (u32, i64)> + use<> {
        [(2 * number, score), (2 * number + 1, -score)].into_iter().take(1 + usize::from(self.signed))
    }

    /// Score of the candidate +p of a number p.
    #[inline]
    pub fn score(&self, number: u32) -> i64 {
        self.pairs[number as usize].score
    }

    /// Changes the score of +p, and with it that of −p.
    ///
    /// # Panics
    /// If there is no such pair.
    #[inline]
    pub fn set(&mut self, number: u32, score: i64) {
        let score = score.clamp(-LARGEST_SCORE, LARGEST_SCORE);
        let pair = &mut self.pairs[number as usize];
        let edge = pair.level * self.width;
        let old = std::mem::replace(&mut pair.score, score);
        // strictly inside, neither of the two leaves its level, unless it came from an edge
        if score < edge && score > edge - self.width && old != edge {
            return;
        }
        self.relocate(number, old, score);
    }

    #[cold]
    fn relocate(&mut self, number: u32, old: i64, new: i64) {
        for ((candidate, old), (_, new)) in self.candidates(number, old).zip(self.candidates(number, new)) {
            let (old, new) = (level_of(old, self.width), level_of(new, self.width));
            if old != new {
                self.leave(candidate, old);
                self.enter(candidate, new);
            }
        }
        self.pairs[number as usize].level = level_of(new, self.width);
    }

    fn place(&mut self, candidate: u32) -> &mut u32 {
        &mut self.places[candidate as usize / 2][candidate as usize % 2]
    }

    fn enter(&mut self, candidate: u32, level: i64) {
        let members = self.levels.entry(level).or_default();
        let place = members.len() as u32;
        members.push(candidate);
        *self.place(candidate) = place;
    }

    fn leave(&mut self, candidate: u32, level: i64) {
        let place = *self.place(candidate);
        let Some(members) = self.levels.get_mut(&level) else { return };
        members.swap_remove(place as usize);
        let moved = members.get(place as usize).copied();
        if members.is_empty() {
            self.levels.remove(&level);
        }
        if let Some(moved) = moved {
            *self.place(moved) = place;
        }
    }

    /// Takes the pair ±p (or +p alone, where there is no other) out of all further draws; at most once.
    pub fn remove(&mut self, number: u32) {
        for (candidate, score) in self.candidates(number, self.pairs[number as usize].score) {
            self.leave(candidate, level_of(score, self.width));
        }
    }

    /// Takes `count` candidates without a number out of all further draws.
    pub fn remove_others(&mut self, count: u64) {
        self.others = self.others.saturating_sub(count);
    }

    /// One draw; `None` without candidates.
    pub fn choose(&self, stream: &mut Stream) -> Option<Chosen> {
        let cells = self.cells()?;
        let total = cells.last()?.1;
        loop {
            let uniform = uniform_below(&total, stream);
            let level = cells[cells.partition_point(|cell| cell.1 <= uniform)].0;
            let here = self.levels.get(&level).map_or(&[][..], Vec::as_slice);
            let others = if level == 0 { self.others } else { 0 };
            let at = stream.below(here.len() as u64 + others);
            let (chosen, score) = match here.get(at as usize) {
                Some(&candidate) if candidate % 2 == 0 => (Chosen::Plus(candidate / 2), self.score(candidate / 2)),
                Some(&candidate) => (Chosen::Minus(candidate / 2), -self.score(candidate / 2)),
                None => (Chosen::Other(at - here.len() as u64), 0),
            };
            // edge − score, without overflow: scores lie in (edge − width, edge]
            let behind = (i128::from(level) * i128::from(self.width) - i128::from(score)) as u64;
            if behind == 0 || self.gap.sample_below(behind, stream).is_none() {
                return Some(chosen);
            }
        }
    }

    /// Levels from the highest down, with the sum of weights up to and including each, relative to the highest edge.
    fn cells(&self) -> Option<Vec<(i64, Fixed<L>)>> {
        let highest = self.levels.keys().next_back().copied();
        let top = match (highest, self.others) {
            (highest, 0) => highest?,
            (highest, _) => highest.unwrap_or(0).max(0),
        };
        let mut cells: Vec<(i64, Fixed<L>)> = Vec::new();
        let mut sum = Fixed::ZERO;
        let mut add = |level: i64, count: u64| {
            if let Some(power) = usize::try_from(top.abs_diff(level)).ok().and_then(|k| self.powers.get(k)) {
                sum = sum.plus(&power.times_integer(count));
                cells.push((level, sum));
            }
        };
        let mut others = self.others;
        for (&level, members) in self.levels.range(top.saturating_sub(self.powers.len() as i64)..).rev() {
            if level <= 0 && others > 0 {
                if level < 0 {
                    add(0, std::mem::take(&mut others));
                } else {
                    add(0, members.len() as u64 + std::mem::take(&mut others));
                    continue;
                }
            }
            add(level, members.len() as u64);
        }
        if others > 0 {
            add(0, others);
        }
        Some(cells)
    }
}

/// The level of a score: ⌈score/width⌉.
pub(crate) fn level_of(score: i64, width: i64) -> i64 {
    let floor = score.div_euclid(width);
    if score.rem_euclid(width) == 0 { floor } else { floor + 1 }
}

/// e^(−width/scale): the ratio of the weights of neighbouring levels.
pub(crate) fn level_ratio(scale: f64, width: i64) -> Result<Fixed<L>, ScaleError> {
    Ok(exp_minus(&inverse(scale)?.times_integer(width as u64)))
}

/// Uniform on [0, `bound`), by rejection from the next power of two; 384 bits after the point.
pub(crate) fn uniform_below(bound: &Fixed<L>, stream: &mut Stream) -> Fixed<L> {
    let integer = bound.0[L - 1];
    let mask = if integer == 0 { 0 } else { u64::MAX >> integer.leading_zeros() };
    loop {
        let mut words = [0u64; L];
        words[..L - 1].iter_mut().for_each(|word| *word = stream.word());
        words[L - 1] = if mask == 0 { 0 } else { stream.word() & mask };
        let uniform = Fixed(words);
        if uniform < *bound {
            return uniform;
        }
    }
}

/// The `rank`-th index (from 0) that is not among `known`, which increase.
///
/// ```
/// assert_eq!(dpopt_draws::unnamed_index(2, &[0, 3]), 4);
/// ```
pub fn unnamed_index(rank: u64, known: &[u32]) -> u64 {
    // known[m] − m unnamed indices lie below known[m], and that does not fall with m
    let (mut low, mut high) = (0, known.len());
    while low < high {
        let middle = low + (high - low) / 2;
        if u64::from(known[middle]) - middle as u64 <= rank {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    rank + low as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ExponentialChoice;
    use crate::tests::assert_multinomial;
    use dpopt_noise::{NoiseSource, Purpose};
    use proptest::prelude::*;

    fn stream(seed: u64) -> Stream {
        NoiseSource::insecure(seed).stream(Purpose::Selection, 0)
    }

    /// Place among +0, −0, +1, −1, …, then the others.
    fn place(chosen: Chosen, pairs: usize) -> usize {
        match chosen {
            Chosen::Plus(number) => 2 * number as usize,
            Chosen::Minus(number) => 2 * number as usize + 1,
            Chosen::Other(rank) => 2 * pairs + rank as usize,
        }
    }

    #[test]
    fn the_law_is_the_exponential_mechanism() {
        // scales from far below one unit to many units; negative, equal and far scores; candidates that have no number
        for (seed, (epsilon, sensitivity)) in
            [(1.0, 1), (40.0, 1), (0.3, 1), (1.0, 1000), (0.007, 3)].into_iter().enumerate()
        {
            let scale = 2.0 * sensitivity as f64 / epsilon;
            let scores: Vec<i64> =
                [-2.0, -0.2, 0.0, 0.4, 1.0, 1.1].iter().map(|s| (s * scale).round() as i64).collect();
            let choice = LeveledChoice::new(epsilon, sensitivity, &scores, 3).unwrap();
            let all: Vec<f64> = scores.iter().flat_map(|&s| [s as f64, -s as f64]).chain([0.0; 3]).collect();
            let total: f64 = all.iter().map(|s| (s / scale).exp()).sum();
            let mut counts = [0.0; 15];
            let mut stream = stream(seed as u64);
            for _ in 0..60_000 {
                counts[place(choice.choose(&mut stream).unwrap(), scores.len())] += 1.0;
            }
            assert_multinomial(&counts, |i| (all[i] / scale).exp() / total);
        }
    }

    #[test]
    fn the_law_is_that_of_the_dense_sampler_after_many_changes() {
        let scores: Vec<i64> = (0..100).map(|i| (i * i) % 37 - 18).collect();
        let mut choice = LeveledChoice::new(0.5, 1, &[0; 101], 0).unwrap();
        let mut draws = stream(9);
        for round in 0..2_000u64 {
            choice.set((round * 7 % 101) as u32, draws.below(1000) as i64 - 500);
        }
        scores.iter().enumerate().for_each(|(i, &s)| choice.set(i as u32, s));
        choice.remove(100);
        let dense = ExponentialChoice::new(0.5, 1, false).unwrap();
        let signed: Vec<i64> = scores.iter().flat_map(|&s| [s, -s]).collect();
        let mut counts = [[0f64; 37]; 2];
        for _ in 0..60_000 {
            let fast = place(choice.choose(&mut draws).unwrap(), 100);
            let slow = dense.choose(&signed, &mut draws).unwrap();
            counts[0][(signed[fast] + 18) as usize] += 1.0;
            counts[1][(signed[slow] + 18) as usize] += 1.0;
        }
        // two samples of equal size: Σ (a − b)²/(a + b) over cells with at least 20; limit as in `assert_multinomial`
        let cells: Vec<_> = (0..37).map(|i| (counts[0][i], counts[1][i])).filter(|(a, b)| a + b >= 20.0).collect();
        let chi2: f64 = cells.iter().map(|(a, b)| (a - b).powi(2) / (a + b)).sum();
        let freedom = cells.len() as f64 - 1.0;
        assert!(chi2 < freedom + 2.0 * (15.2 * freedom).sqrt() + 30.4, "{chi2} on {freedom}");
    }

    #[test]
    fn unsigned_candidates_are_drawn_and_taken_out() {
        // without −p; two of the three others and one candidate gone
        let scores = [3i64, 0, -2, 9, 1];
        let mut choice = LeveledChoice::unsigned(1.0, 1, &scores, 3).unwrap();
        choice.set(4, 2);
        choice.remove(3);
        choice.remove_others(2);
        let weight = |i: usize| if i == 3 { 0.0 } else { ([3.0, 0.0, -2.0, 0.0, 2.0, 0.0][i] / 2.0f64).exp() };
        let total: f64 = (0..6).map(weight).sum();
        let mut counts = [0.0; 6];
        let mut draws = stream(5);
        for _ in 0..60_000 {
            counts[match choice.choose(&mut draws) {
                Some(Chosen::Plus(i)) => i as usize,
                Some(Chosen::Other(0)) => 5,
                other => panic!("{other:?}"),
            }] += 1.0;
        }
        assert_eq!(counts[3], 0.0);
        assert_multinomial(&[counts[0], counts[1], counts[2], counts[4], counts[5]], |i| {
            weight([0, 1, 2, 4, 5][i]) / total
        });
        [0, 1, 2, 4].into_iter().for_each(|i| choice.remove(i));
        choice.remove_others(1);
        assert_eq!(choice.choose(&mut draws), None);
    }

    #[test]
    fn a_billion_candidates_without_a_score_weigh_what_they_should() {
        // e^18 ≈ 6.566e7 = one of them against 2^30 others of score 0
        let choice = LeveledChoice::new(2.0, 1, &[18], 1 << 30).unwrap();
        let mut draws = stream(4);
        let hits = (0..20_000).filter(|_| choice.choose(&mut draws) == Some(Chosen::Plus(0))).count() as f64;
        let p = 18f64.exp() / (18f64.exp() + 2f64.powi(30));
        assert!(
            (hits - 20_000.0 * p).abs() < 5.3 * (20_000.0 * p * (1.0 - p)).sqrt(),
            "{hits} against {}",
            20_000.0 * p
        );
    }

    #[test]
    fn odd_inputs() {
        let mut draws = stream(3);
        assert_eq!(LeveledChoice::new(1.0, 1, &[], 0).unwrap().choose(&mut draws), None);
        let mut far = LeveledChoice::new(1.0, 1, &[i64::MAX, 5], 3).unwrap();
        assert_eq!(far.choose(&mut draws), Some(Chosen::Plus(0)));
        far.set(0, i64::MIN);
        assert_eq!(far.choose(&mut draws), Some(Chosen::Minus(0)));
        far.remove(0);
        assert!(!matches!(far.choose(&mut draws), Some(Chosen::Plus(0) | Chosen::Minus(0))));
        for (epsilon, sensitivity, others) in [(0.0, 1, 1), (f64::NAN, 1, 1), (1.0, 0, 1), (1.0, 1, 1 << 40)] {
            assert!(LeveledChoice::new(epsilon, sensitivity, &[], others).is_err());
        }
    }

    proptest! {
        #[test]
        fn levels_hold_every_candidate_once_whatever_is_changed(
            changes in prop::collection::vec((0u32..6, prop_oneof![-40i64..40, -1_000_000i64..1_000_000]), 0..80), epsilon in 0.01f64..50.0,
        ) {
            let mut choice = LeveledChoice::new(epsilon, 1, &[0; 6], 0).unwrap();
            let mut scores = [0i64; 6];
            for (number, score) in changes {
                // also exactly on edges of levels
                let score = if score % 3 == 0 { score * choice.width } else { score };
                choice.set(number, score);
                scores[number as usize] = score;
            }
            let mut found = [0; 12];
            for (&level, members) in &choice.levels {
                prop_assert!(!members.is_empty());
                for (place, &candidate) in members.iter().enumerate() {
                    found[candidate as usize] += 1;
                    let number = candidate as usize / 2;
                    prop_assert_eq!(choice.places[number][candidate as usize % 2] as usize, place);
                    let score = if candidate % 2 == 0 { scores[number] } else { -scores[number] };
                    prop_assert!(score <= level * choice.width && score > (level - 1) * choice.width);
                }
            }
            prop_assert!(found.iter().all(|&f| f == 1));
        }

        #[test]
        fn unnamed_indices_are_those_that_are_left(known in prop::collection::btree_set(0u32..60, 0..40), rank in 0usize..60) {
            let known: Vec<u32> = known.into_iter().collect();
            let left = (0u32..).filter(|i| !known.contains(i)).nth(rank).unwrap();
            prop_assert_eq!(unnamed_index(rank as u64, &known), u64::from(left));
        }
    }
}
