//! Choices from data: worst pairs of the exponential mechanism and of what is built on it, with the largest loss that the
//! pair has (Dong, Durfee, Rogers 2020).

use dpopt_audit::draws::Draws;
use dpopt_mechanism::{
    Curator, LabelSelection, Level, Mechanism, Place, Quantiles, RangeEnd, Sensitive, past_the_curator,
};
use dpopt_noise::NoiseSource;
use dpopt_objective::records::{BelowCounts, quantile_grid};
use dpopt_privacy::{Event, Relation};
use std::collections::BTreeMap;

/// Largest |ln P/P′| over all outcomes of two choices with weights e^`scale·score`.
pub(crate) fn largest_loss(scale: f64, scores: [&[i64]; 2]) -> f64 {
    let [p, q] = scores.map(|s| {
        let weights: Vec<f64> = s.iter().map(|&u| (scale * u as f64).exp()).collect();
        let total: f64 = weights.iter().sum();
        weights.into_iter().map(|w| w / total).collect::<Vec<f64>>()
    });
    p.iter().zip(q).map(|(p, q)| (p / q).ln().abs()).fold(0.0, f64::max)
}

/// 60 candidates: on D the first rises, on D′ all others do, so that the loss of the first approaches ε.
pub(crate) fn saturating(with: bool) -> Vec<i64> {
    (0..60).map(|i| i64::from((i == 0) == with)).collect()
}

/// One private 1% quantile for `epsilon` on the cells of a grid of 25 points.
pub(crate) fn low_quantile(epsilon: f64) -> Quantiles {
    Quantiles::new(0, vec![Level::thousandths(10)], epsilon, Relation::ZeroOut)
}

/// What that pair is, in the words of the catalogue and of the library.
pub(crate) const LOW_QUANTILE: &str =
    "a record below three empty cells just below the 1% rank, twenty above it; 1{none above}";

/// Cells that lie below the wanted rank: the record's, and three empty ones.
const LOW_CELLS: usize = 4;

/// 5 values in the first cell of 500, or 4 of 499 without the record; none in three, one in the next, none in twenty more, the others above. The first
/// empty cells are nearer to the wanted rank with the record, the others further, each by as much as can be.
fn low_counts(with: bool) -> ([u64; 25], u64) {
    let record = u64::from(with);
    (std::array::from_fn(|k| if k < LOW_CELLS { 4 + record } else { 5 + record }), 499 + record)
}

/// 1 if a cell below the wanted rank is chosen.
pub(crate) fn quantile_choice(quantiles: &Quantiles, with: bool, draws: &mut Draws) -> f64 {
    let (below, values) = low_counts(with);
    let mut noise = NoiseSource::insecure(draws.word());
    let low = |places: Vec<Place>| f64::from(u8::from(places[0].cell < LOW_CELLS));
    quantiles.choose(&below, values, &mut noise).map_or(f64::NAN, low)
}

/// The loss of that event at `epsilon`.
pub(crate) fn quantile_loss(epsilon: f64) -> f64 {
    let [without, with] = [false, true].map(|with| {
        let (below, values) = low_counts(with);
        let law = low_quantile(epsilon).law(&below, values);
        law.into_iter().filter(|(place, _)| place.cell < LOW_CELLS).map(|(_, p)| p).sum::<f64>()
    });
    (with / without).ln()
}

/// Three quartiles by recursion, ε per choice: all values in three tied heaps, the record in the lowest one or absent.
pub(crate) struct Quartiles {
    mechanism: Quantiles,
    /// Middle of the grid.
    middle: f64,
    counts: [Sensitive<BelowCounts>; 2],
}

impl Quartiles {
    pub(crate) fn new(epsilon: f64) -> Self {
        let levels = [250, 500, 750].map(Level::thousandths).to_vec();
        let mechanism = Quantiles::new(0, levels, epsilon, Relation::ZeroOut);
        let grid = quantile_grid();
        Self {
            mechanism,
            middle: grid[grid.len() / 2],
            counts: [false, true].map(|with| heaps([3 + u64::from(with), 2, 3])),
        }
    }

    /// What the curator is opened for.
    pub(crate) fn event(&self) -> Event {
        self.mechanism.event()
    }

    /// How many of the three lie below the middle of the grid.
    pub(crate) fn run(&self, with: bool, draws: &mut Draws) -> f64 {
        let mut curator = past_the_curator::uncharged(&self.mechanism.event(), NoiseSource::insecure(draws.word()));
        let released = curator.release(&self.mechanism, &self.counts[usize::from(with)]);
        released.map_or(f64::NAN, |q| q.get().iter().filter(|&&x| x < self.middle).count() as f64)
    }
}

/// So many values at the lowest point of the grid, in its middle, and above all of it.
fn heaps([low, middle, high]: [u64; 3]) -> Sensitive<BelowCounts> {
    let points = quantile_grid().len();
    // values equal to a grid point are not below it
    let count = |k: usize| if k == 0 { 0 } else { low + if k > points / 2 { middle } else { 0 } };
    let below = (0..points).map(count).collect();
    Sensitive::new(BelowCounts { columns: vec!["v".into()], below: vec![below], values: vec![low + middle + high] })
}

/// The lower end of a private range: the cell of the 1% level, ε, 100 tied values of which one is in the low heap.
pub(crate) struct LowEnd {
    mechanism: RangeEnd,
    epsilon: f64,
    counts: [Sensitive<BelowCounts>; 2],
}

impl LowEnd {
    /// With the record two of 101 values lie in the low heap, without it one of 100.
    pub(crate) fn new(epsilon: f64) -> Self {
        Self {
            mechanism: RangeEnd::new(0, 10, epsilon),
            epsilon,
            counts: [false, true].map(|with| heaps([1 + u64::from(with), 0, 99])),
        }
    }

    /// 1 if the cell of the low heap was chosen.
    pub(crate) fn run(&self, with: bool, draws: &mut Draws) -> f64 {
        let mut curator = past_the_curator::uncharged(&self.mechanism.event(), NoiseSource::insecure(draws.word()));
        let released = curator.release(&self.mechanism, &self.counts[usize::from(with)]);
        released.map_or(f64::NAN, |cell| super::indicator(*cell.get() == 1))
    }

    /// The largest loss of the pair.
    pub(crate) fn loss(&self) -> f64 {
        let [a, b] = [0, 1].map(|w| {
            let counts = past_the_curator::read_for_tests(&self.counts[w]);
            self.mechanism.scores(&counts.below[0], counts.values[0])
        });
        largest_loss(0.5 * self.epsilon / Level::OF as f64, [&a, &b])
    }
}

/// A label whose count is one or two below the threshold; two frequent labels are always shown.
pub(crate) struct RareLabel {
    plan: LabelSelection,
    counts: [Sensitive<BTreeMap<String, u64>>; 2],
}

impl RareLabel {
    pub(crate) fn new(plan: LabelSelection) -> Self {
        let threshold = plan.threshold().unsigned_abs();
        let counts = |with: bool| {
            let rare = threshold - 2 + u64::from(with);
            [("a", 100 * threshold), ("b", 100 * threshold), ("rare", rare)].map(|(l, c)| (l.to_string(), c)).into()
        };
        Self { counts: [false, true].map(|with| Sensitive::new(counts(with))), plan }
    }

    /// What the curator is opened for.
    pub(crate) fn event(&self) -> Event {
        self.plan.certificate().event().clone()
    }

    /// 1 if the rare label is shown.
    pub(crate) fn run(&self, with: bool, draws: &mut Draws) -> f64 {
        let mut curator = Curator::new(self.plan.certificate(), NoiseSource::insecure(draws.word()));
        let released = curator.release(&self.plan, &self.counts[usize::from(with)]);
        released.map_or(f64::NAN, |shown| super::indicator(shown.get().len() == 3))
    }

    /// 1 if the rare label is shown by counts without noise: an injected fault.
    pub(crate) fn run_without_noise(&self, with: bool) -> f64 {
        let shown = past_the_curator::read_for_tests(&self.counts[usize::from(with)])
            .values()
            .filter(|&&c| c as i64 >= self.plan.threshold() - 1);
        super::indicator(shown.count() == 3)
    }
}
