//! Private quantiles on a public grid (Smith 2011; recursive: Kaplan, Schnapp, Stemmer 2022; docs/proofs/quantiles.md).
//!
//! What is chosen is a *part of a cell* between two grid points, by how far it is from holding the wanted rank: that is 0 for at least one,
//! whatever the ties. Scores of the points themselves would be alike beyond a heap of equal values, up to the end of the grid.
//!
//! Scores are integers, the choice is exact, and the grid is public: the usual version draws inside intervals between
//! data points, which leaks through their float bits. Event: `ExponentialMechanism(ε)` per choice, under every relation
//! (one record moves each rank and the number of values by at most 1).

use dpopt_draws::ExponentialChoice;
use dpopt_kernel::beside::Sealed;
use dpopt_kernel::{CuratorError, Mechanism, SamplerError};
use dpopt_noise::{NoiseSource, Purpose};
use dpopt_objective::records::{BelowCounts, quantile_grid};
use dpopt_privacy::{Event, Relation};

/// A quantile as an exact fraction of [`Level::OF`] parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Level(u64);

impl Level {
    /// Denominator of all levels.
    pub const OF: u64 = 1000;

    /// `thousandths`/1000, between 0 and 1.
    pub fn thousandths(thousandths: u64) -> Self {
        Self(thousandths.min(Self::OF))
    }
}

/// Parts of each cell. A heap of equal values is split between two sub-problems to a thirty-second of it.
const PARTS: u64 = 16;

/// Several quantiles of one column by recursive halving; with one level it is the plain exponential mechanism.
///
/// The middle level is chosen on all values; the values below and above the chosen place are then separate problems, and those of the chosen cell are shared
/// out between the two, by a rule that only the chosen place decides. A record lies in one problem per depth, and a problem's scores use *its own records only*,
/// so depths add up and problems of one depth do not: L = ⌊log₂ m⌋+1 choices under zero-out and add-or-remove, 2L−1 under replace-one (the record may leave one
/// problem and enter another at every depth but the first).
#[derive(Clone, Debug)]
pub struct Quantiles {
    column: usize,
    levels: Vec<Level>,
    epsilon: f64,
    relation: Relation,
    /// Number of parts of each cell.
    parts: u64,
    #[cfg(test)]
    injected_fault: Option<QuantileBug>,
}

/// Known mistakes, for tests that must catch them.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QuantileBug {
    /// exp(εu) in place of exp(εu/2): the score is not monotone.
    FullScore,
    /// A sub-problem scores with the counts of the whole column.
    GlobalCounts,
    /// The values of the chosen cell are in both sub-problems.
    TiesOnBothSides,
}

impl Quantiles {
    /// `levels` of column `column` of the counts, each choice with `epsilon`.
    pub fn new(column: usize, mut levels: Vec<Level>, epsilon: f64, relation: Relation) -> Self {
        levels.sort_unstable();
        Self {
            column,
            levels,
            epsilon,
            relation,
            parts: PARTS,
            #[cfg(test)]
            injected_fault: None,
        }
    }

    /// Bound on the total-variation distance of the samplers of `levels` quantiles from their laws.
    pub fn sampler_error_of(levels: usize) -> f64 {
        // a choice among all parts of all cells at most
        let places = (quantile_grid().len() + 1) * PARTS as usize;
        SamplerError::fine((levels * places) as f64).total_variation()
    }

    /// Number of ε-choices that bound the privacy loss of `levels` quantiles.
    pub fn choices(levels: usize, relation: Relation) -> u64 {
        if levels == 0 {
            return 0;
        }
        let depths = u64::from(levels.ilog2()) + 1;
        if relation == Relation::ReplaceOne { 2 * depths - 1 } else { depths }
    }
}

/// A part of a cell of the grid. Cell j holds the values from grid point j−1 up to grid point j; the first what is below the grid, the last what is above.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Number of the cell.
    pub cell: usize,
    /// Number of the part, of those that the cell's values in the problem have.
    pub part: u64,
    /// How far in the cell its middle lies, as if the cell's values were spread evenly, in units of 1/[`Place::WIDTH`].
    within: u64,
}

impl Place {
    const WIDTH: u64 = 1 << 60;

    /// The number at which the place lies; the cell that begins at 0 is 0, and what is beyond the grid is its end.
    fn value(self, grid: &[f64]) -> f64 {
        match self.cell {
            0 => grid[0],
            cell if cell >= grid.len() => grid[grid.len() - 1],
            cell if grid[cell - 1] == 0.0 => 0.0,
            cell => {
                let share = self.within as f64 / Self::WIDTH as f64;
                grid[cell - 1] + share * (grid[cell] - grid[cell - 1])
            }
        }
    }
}

/// One problem of the recursion: how many of its values lie in each of its cells, and the levels between which it lies.
#[derive(Clone, Debug)]
struct Problem {
    /// Number of its first cell.
    first: usize,
    cells: Vec<u64>,
    low: u64,
    high: u64,
    /// Where in its first cell the problem begins, and where in its last one it ends, as [`Place::within`].
    begin: u64,
    end: u64,
}

/// How far one record moves a score: with 1 more in N, b·p − a·N moves between −a and b − a; a replacement moves p alone, by 1.
fn sensitivity(low: u64, level: u64, high: u64, relation: Relation) -> u64 {
    let most = if relation == Relation::ReplaceOne { high - low } else { (level - low).max(high - level) };
    most.max(1)
}

impl Problem {
    /// All values of a column, of which `below` lie below each grid point.
    fn whole(below: &[u64], values: u64) -> Self {
        let ends = below.iter().copied().chain([values]);
        let cells = ends.scan(0, |before, end| Some(end.saturating_sub(std::mem::replace(before, end)))).collect();
        Self::of(cells)
    }

    fn of(cells: Vec<u64>) -> Self {
        Self { first: 0, cells, low: 0, high: Level::OF, begin: 0, end: Place::WIDTH }
    }

    /// How far one record moves a score, in units of 1/parts; span = high − low.
    fn sensitivity(&self, level: u64, relation: Relation, parts: u64) -> u64 {
        sensitivity(self.low, level, self.high, relation) * parts
    }

    /// −max(0, span·p − wanted, wanted − span·q) for each part of each cell, from rank p to rank q of the problem's values, where wanted = (level − low)·#{values}.
    /// One record moves p, q and the number of values by at most 1, all in one direction or, if it is replaced, p and q alone.
    fn scores(&self, level: u64, parts: u64) -> Vec<i64> {
        let (span, size) = (i128::from(self.high - self.low), self.cells.iter().map(|&m| i128::from(m)).sum::<i128>());
        let wanted = i128::from(parts) * i128::from(level - self.low) * size;
        let mut scores = Vec::with_capacity(self.cells.len() * parts as usize);
        let mut before = 0i128;
        for &values in &self.cells {
            let values = i128::from(values);
            for part in 0..i128::from(parts) {
                let from = span * (i128::from(parts) * before + part * values);
                let to = from + span * values;
                // counts below 2^45 and spans of at most 1000 fit easily; the clamp is for hostile counts only
                let off = (from - wanted).max(wanted - to).max(0);
                scores.push((-off).max(i128::from(i64::MIN / 4)) as i64);
            }
            before += values;
        }
        scores
    }

    /// The place of the `index`-th score.
    fn place(&self, index: usize, parts: u64) -> Place {
        let (at, part) = (index / parts as usize, index as u64 % parts);
        let begin = if at == 0 { self.begin } else { 0 };
        let end = if at + 1 == self.cells.len() { self.end } else { Place::WIDTH };
        let into = u128::from(end - begin) * u128::from(2 * part + 1) / u128::from(2 * parts);
        Place { cell: self.first + at, part, within: begin + into as u64 }
    }

    /// The problems on both sides of a place. Of the m values of its cell ⌊θm⌋ go left and the others right, θ being the middle of its part: one more of
    /// them is one more on one side, and nothing on the other.
    fn split(&self, place: Place, level: u64, parts: u64) -> (Self, Self) {
        let at = place.cell - self.first;
        let tied = self.cells[at];
        let left_ties = (u128::from(tied) * u128::from(2 * place.part + 1) / u128::from(2 * parts)) as u64;
        let left = [&self.cells[..at], &[left_ties]].concat();
        let right = [&[tied - left_ties], &self.cells[at + 1..]].concat();
        (
            Self { cells: left, high: level, end: place.within, ..*self },
            Self { first: place.cell, cells: right, low: level, begin: place.within, ..*self },
        )
    }
}

impl Sealed for Quantiles {}

impl Mechanism for Quantiles {
    type Input = BelowCounts;
    type Output = Vec<f64>;

    fn event(&self) -> Event {
        let choices = Self::choices(self.levels.len(), self.relation);
        Event::ExponentialMechanism { epsilon: self.epsilon }.self_composed(choices)
    }

    fn sampler_error(&self, _input: &BelowCounts) -> f64 {
        Self::sampler_error_of(self.levels.len())
    }

    fn relation(&self) -> Option<Relation> {
        Some(self.relation)
    }

    fn label(&self) -> &'static str {
        "quantiles"
    }

    fn can_draw(&self) -> Result<(), CuratorError> {
        self.choices_can_be_drawn(0..self.levels.len(), 0, Level::OF)
    }

    fn check(&self, input: &BelowCounts) -> Result<(), CuratorError> {
        if self.column >= input.below.len() || self.levels.is_empty() {
            return Err(CuratorError::Shape);
        }
        Ok(())
    }

    fn apply(&self, input: &BelowCounts, noise: &mut NoiseSource) -> Result<Vec<f64>, CuratorError> {
        let grid = quantile_grid();
        let places = self.choose(&input.below[self.column], input.values[self.column], noise)?;
        Ok(places.into_iter().map(|place| place.value(&grid)).collect())
    }
}

impl Quantiles {
    /// Chooses the place of each level, in the order of the levels.
    pub fn choose(&self, below: &[u64], values: u64, noise: &mut NoiseSource) -> Result<Vec<Place>, CuratorError> {
        let mut chosen = vec![Place { cell: 0, part: 0, within: 0 }; self.levels.len()];
        self.solve(&Problem::whole(below, values), 0..self.levels.len(), noise, &mut chosen)?;
        Ok(chosen)
    }

    /// Probability of each place to be the first level, if there is no other: for audits, which know the counts.
    pub fn law(&self, below: &[u64], values: u64) -> Vec<(Place, f64)> {
        let problem = Problem::whole(below, values);
        let level = self.levels.first().map_or(0, |level| level.0);
        let rate = 0.5 * self.epsilon / problem.sensitivity(level, self.relation, self.parts) as f64;
        let weights: Vec<f64> =
            problem.scores(level, self.parts).iter().map(|&score| (rate * score as f64).exp()).collect();
        let total: f64 = weights.iter().sum();
        weights.iter().enumerate().map(|(i, w)| (problem.place(i, self.parts), w / total)).collect()
    }

    /// The choices of [`solve`](Self::solve) by what the levels alone decide, their sensitivities.
    fn choices_can_be_drawn(&self, levels: std::ops::Range<usize>, low: u64, high: u64) -> Result<(), CuratorError> {
        if levels.is_empty() {
            return Ok(());
        }
        let middle = levels.start + levels.len() / 2;
        let level = self.levels[middle].0.clamp(low, high);
        ExponentialChoice::new(self.epsilon, sensitivity(low, level, high, self.relation) * self.parts, false)
            .map_err(|e| CuratorError::Noise(e.to_string()))?;
        self.choices_can_be_drawn(levels.start..middle, low, level)?;
        self.choices_can_be_drawn(middle + 1..levels.end, level, high)
    }

    fn solve(
        &self,
        problem: &Problem,
        levels: std::ops::Range<usize>,
        noise: &mut NoiseSource,
        chosen: &mut [Place],
    ) -> Result<(), CuratorError> {
        if levels.is_empty() {
            return Ok(());
        }
        let middle = levels.start + levels.len() / 2;
        let level = self.levels[middle].0.clamp(problem.low, problem.high);
        let choice = ExponentialChoice::new(self.epsilon, problem.sensitivity(level, self.relation, self.parts), false)
            .map_err(|e| CuratorError::Noise(e.to_string()))?;
        let scores = problem.scores(level, self.parts);
        let index = choice.choose(&scores, &mut noise.stream(Purpose::Selection, 0)).unwrap_or(0);
        let place = problem.place(index, self.parts);
        chosen[middle] = place;
        let (left, right) = problem.split(place, level, self.parts);
        self.solve(&left, levels.start..middle, noise, chosen)?;
        self.solve(&right, middle + 1..levels.end, noise, chosen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Law of all chosen places, by enumeration of the recursion. The loss of several levels is found with few parts, of which the proof knows nothing.
    fn law(quantiles: &Quantiles, cells: &[u64]) -> std::collections::BTreeMap<Vec<Place>, f64> {
        fn go(q: &Quantiles, all: &[u64], p: &Problem, levels: std::ops::Range<usize>) -> Vec<(Vec<Place>, f64)> {
            if levels.is_empty() {
                return vec![(Vec::new(), 1.0)];
            }
            let bug = q.injected_fault;
            let middle = levels.start + levels.len() / 2;
            let level = q.levels[middle].0.clamp(p.low, p.high);
            let (scores, unit) = if bug == Some(QuantileBug::GlobalCounts) {
                let whole = Problem::of(all.to_vec());
                let from = p.first * q.parts as usize;
                let own = from..from + p.cells.len() * q.parts as usize;
                (whole.scores(level, q.parts)[own].to_vec(), whole.sensitivity(level, q.relation, q.parts))
            } else {
                (p.scores(level, q.parts), p.sensitivity(level, q.relation, q.parts))
            };
            let factor = if bug == Some(QuantileBug::FullScore) { 1.0 } else { 0.5 };
            let weights: Vec<f64> =
                scores.iter().map(|&u| (factor * q.epsilon * u as f64 / unit as f64).exp()).collect();
            let total: f64 = weights.iter().sum();
            let mut out = Vec::new();
            for (index, w) in weights.iter().enumerate() {
                let place = p.place(index, q.parts);
                let (mut left, mut right) = p.split(place, level, q.parts);
                if bug == Some(QuantileBug::TiesOnBothSides) {
                    let tied = p.cells[place.cell - p.first];
                    *left.cells.last_mut().unwrap() = tied;
                    right.cells[0] = tied;
                }
                for (a, pa) in go(q, all, &left, levels.start..middle) {
                    for (b, pb) in go(q, all, &right, middle + 1..levels.end) {
                        let places = a.iter().copied().chain([place]).chain(b).collect();
                        out.push((places, w / total * pa * pb));
                    }
                }
            }
            out
        }
        let whole = Problem::of(cells.to_vec());
        go(quantiles, cells, &whole, 0..quantiles.levels.len()).into_iter().collect()
    }

    /// Largest log-ratio, and largest difference of two log-ratios, over all data sets of up to `n` values in four cells and all neighbours: a value more or less, which is
    /// what a missing one in its place is too, or one in another cell.
    fn worst(quantiles: &Quantiles, n: u64, replace: bool) -> (f64, f64) {
        const CELLS: usize = 4;
        let base = n + 1;
        let tables: Vec<[u64; CELLS]> = (0..base.pow(CELLS as u32))
            .map(|code| std::array::from_fn(|i| code / base.pow(i as u32) % base))
            .filter(|c: &[u64; CELLS]| c.iter().sum::<u64>() <= n)
            .collect();
        let laws: std::collections::BTreeMap<_, _> = tables.iter().map(|t| (*t, law(quantiles, t))).collect();
        let (mut worst, mut range) = (0.0f64, 0.0f64);
        for (table, base) in &laws {
            for to in 0..CELLS {
                for from in (0..=CELLS).filter(|&from| from == CELLS || replace && from != to) {
                    let mut changed = *table;
                    changed[to] += 1;
                    if from < CELLS {
                        let Some(left) = changed[from].checked_sub(1) else { continue };
                        changed[from] = left;
                    }
                    let Some(other) = laws.get(&changed) else { continue };
                    assert_eq!(base.len(), other.len());
                    let ratios = || base.values().zip(other.values()).map(|(p, q)| (p / q).ln());
                    let (least, most) = ratios().fold((f64::MAX, f64::MIN), |(a, b), r| (a.min(r), b.max(r)));
                    worst = worst.max(-least).max(most);
                    range = range.max(most - least);
                }
            }
        }
        (worst, range)
    }

    fn worst_loss(quantiles: &Quantiles, n: u64, replace: bool) -> f64 {
        worst(quantiles, n, replace).0
    }

    fn quantiles(thousandths: &[u64], relation: Relation) -> Quantiles {
        let levels = thousandths.iter().map(|&t| Level::thousandths(t)).collect();
        Quantiles { parts: 2, ..Quantiles::new(0, levels, 1.0, relation) }
    }

    #[test]
    fn losses_stay_within_the_event_for_all_small_data_sets() {
        for levels in [&[500][..], &[10, 990], &[250, 500, 750]] {
            for relation in [Relation::ZeroOut, Relation::ReplaceOne] {
                let q = quantiles(levels, relation);
                let bound = Quantiles::choices(levels.len(), relation) as f64;
                let (loss, range) = worst(&q, 4, relation == Relation::ReplaceOne);
                assert!(loss <= bound + 1e-12, "{levels:?} {relation:?}: {loss} > {bound}");
                // bounded range: ε of one choice; of several, each has its own after each answer of the one before
                assert!(levels.len() > 1 || range <= bound + 1e-12, "{levels:?} {relation:?}: {range} > {bound}");
                // four values say little of ranks near the ends
                let inside = levels.iter().all(|level| (250..=750).contains(level));
                assert!(!inside || loss > 0.3 * bound, "the search sees nothing: {levels:?} {relation:?}: {loss}");
            }
        }
        assert_eq!(Quantiles::choices(3, Relation::ZeroOut), 2);
        assert_eq!(Quantiles::choices(3, Relation::ReplaceOne), 3);
        assert_eq!(Quantiles::choices(1, Relation::ReplaceOne), 1);
    }

    #[test]
    fn injected_faults_exceed_it() {
        let mut one = quantiles(&[500], Relation::ZeroOut);
        one.injected_fault = Some(QuantileBug::FullScore);
        assert!(worst_loss(&one, 6, true) > 1.0 + 1e-6);
        // a value less, with the sensitivities of replaced ones
        let mut three = quantiles(&[250, 500, 750], Relation::ReplaceOne);
        let right = worst_loss(&three, 4, false);
        for bug in [QuantileBug::GlobalCounts, QuantileBug::TiesOnBothSides] {
            three.injected_fault = Some(bug);
            let wrong = worst_loss(&three, 4, false);
            assert!(wrong > right * 1.1, "{bug:?}: {wrong} against {right}");
        }
    }

    #[test]
    fn a_value_more_is_one_more_in_one_problem_of_a_depth() {
        for cells in [[3, 0, 5, 2], [0, 7, 0, 0], [1, 1, 1, 1]] {
            let problem = |cells: [u64; 4]| Problem::of(cells.to_vec());
            for more in 0..4 {
                let mut other = cells;
                other[more] += 1;
                for (cell, part) in (0..4).flat_map(|cell| (0..PARTS).map(move |part| (cell, part))) {
                    let sides = |c| problem(c).split(Place { cell, part, within: 0 }, 500, PARTS);
                    let ((a, b), (c, d)) = (sides(cells), sides(other));
                    let gained = |x: &Problem, y: &Problem| -> u64 {
                        assert!(x.cells.iter().zip(&y.cells).all(|(x, y)| x <= y));
                        y.cells.iter().sum::<u64>() - x.cells.iter().sum::<u64>()
                    };
                    assert_eq!(gained(&a, &c) + gained(&b, &d), 1, "{cells:?} {more} {cell} {part}");
                }
            }
        }
    }

    #[test]
    fn ties_constants_and_the_ends_of_a_range_are_found() {
        let grid = quantile_grid();
        let found = |values: &[f64], levels: &[u64], epsilon: f64, seed: u64| {
            let counts = BelowCounts::of_columns([values.iter().copied()]);
            let levels = levels.iter().map(|&t| Level::thousandths(t)).collect();
            let quantiles = Quantiles::new(0, levels, epsilon, Relation::ZeroOut);
            let mut noise = NoiseSource::insecure(seed);
            let places = quantiles.choose(&counts.below[0], counts.values[0], &mut noise).unwrap();
            places.into_iter().map(|place| place.value(&grid)).collect::<Vec<f64>>()
        };
        let near = |found: f64, truth: f64| (found - truth).abs() <= 0.1 * truth.abs().max(0.1);
        let n = 5000;
        let constant = vec![5.0; n];
        let coin: Vec<f64> = (0..n).map(|i| (i % 2) as f64).collect();
        let zeros: Vec<f64> = (0..n).map(|i| if i % 25 < 23 { 0.0 } else { 1000.0 + i as f64 }).collect();
        let ages: Vec<f64> = (0..n).map(|i| (18 + i % 63) as f64).collect();
        // a rank is missed by 0.2 n = 1000 with probability below 25000·e^(−ε·1000/2) < 1e-200 at ε ≥ 1, and by 0.01 n = 50 below 25000·e^(−10·50/2) < 1e-100 at 10
        for seed in 0..20 {
            for epsilon in [1.0, 10.0, 20.0] {
                let of_constant = found(&constant, &[250, 500, 750], epsilon, seed);
                assert!(of_constant.iter().all(|&q| near(q, 5.0)) && of_constant.is_sorted(), "{of_constant:?}");
                let of_coin = found(&coin, &[250, 750], epsilon, seed);
                assert!(near(of_coin[0], 0.0) && near(of_coin[1], 1.0), "{of_coin:?}");
                assert!(found(&zeros, &[250, 500], epsilon, seed).iter().all(|&q| q == 0.0));
            }
            let end = found(&ages, &[980], 10.0, seed)[0];
            assert!((77.0..82.0).contains(&end), "{end}");
        }
    }

    #[test]
    fn one_place_scores_zero_whatever_the_ties() {
        for cells in [vec![0, 500, 0, 0], vec![250, 0, 0, 250], vec![1, 2, 3, 4], vec![0, 0, 0, 0]] {
            let problem = Problem::of(cells);
            for level in [0, 10, 250, 500, 990, 1000] {
                assert_eq!(problem.scores(level, PARTS).iter().max(), Some(&0));
            }
        }
    }

    #[test]
    fn rank_error_is_as_predicted() {
        // 1025 cells of 16 parts, ε = 0.1: P(rank error > (2/ε) ln(G/β)) ≤ β; at β = 1e-9 and 100 draws the test fails wrongly
        // with probability below 1e-7
        let below: Vec<u64> = (0..1024u64).map(|k| k * 50).collect();
        let q = Quantiles::new(0, vec![Level::thousandths(500)], 0.1, Relation::ZeroOut);
        let mut noise = NoiseSource::insecure(17);
        let allowed = 20.0 * (1025.0 * PARTS as f64 / 1e-9).ln();
        for _ in 0..100 {
            let place = q.choose(&below, 1023 * 50, &mut noise).unwrap()[0];
            // cell j holds ranks from 50(j − 1) to 50j
            assert!((50.0 * place.cell as f64 - 25.0 - 511.5 * 50.0).abs() <= allowed + 50.0);
        }
    }
}
