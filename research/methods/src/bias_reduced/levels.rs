//! Random batch sizes 2^{N+1}, N truncated geometric, and when a run of them stops (Ghazi et al. 2024, Algorithms 3 and 4).
//!
//! The N's depend on nothing but a public seed: they are public randomness, and given them a run is an ordinary
//! composition of releases with fixed parameters. Rules that stop it may look at past N's and public numbers only, never at
//! the next one: skipping dear draws would bias the gradient towards small batches.

use dpopt_mechanism::telescoped_multiplier;
use dpopt_noise::{NoiseSource, Purpose, Stream};
use dpopt_privacy::accountant::{AccountingError, conversion, rdp};
use dpopt_privacy::{Budget, Event, Relation};

/// P(N = k) = C_M·2^{-k}, k = 0..=M.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Levels {
    /// The largest level M.
    pub(super) top: u32,
}

impl Levels {
    /// M = ⌊log₂ n⌋ − 1: the largest batch 2^{M+1} is at most n ≥ 2.
    pub(super) fn of(records: u64) -> Self {
        Self { top: records.max(2).ilog2() - 1 }
    }

    /// p_k = P(N = k).
    pub(super) fn probability(self, k: u32) -> f64 {
        // C_M = 1/(2(1 − 2^{−(M+1)})) = 2^M/(2^{M+1} − 1)
        let total = 2f64.powi(self.top as i32 + 1) - 1.0;
        2f64.powi(self.top as i32 - k as i32) / total
    }

    /// One N, exactly: k has weight 2^{M−k} of 2^{M+1} − 1.
    fn draw(self, stream: &mut Stream) -> u32 {
        let mut left = stream.below((1u64 << (self.top + 1)) - 1);
        let mut k = 0;
        while left >= 1 << (self.top - k) {
            left -= 1 << (self.top - k);
            k += 1;
        }
        k
    }

    /// The first `count` N's of a public seed.
    pub(super) fn sequence(self, seed: u64, count: usize) -> Vec<u8> {
        // not a secret: readers of the report may know the batch sizes
        let mut stream = NoiseSource::insecure(seed).stream(Purpose::Initialisation, 0);
        (0..count).map(|_| self.draw(&mut stream) as u8).collect()
    }
}

/// How often each level occurs.
pub(super) fn counts(sequence: &[u8], levels: Levels) -> Vec<u64> {
    let mut counts = vec![0; levels.top as usize + 1];
    sequence.iter().for_each(|&k| counts[usize::from(k)] += 1);
    counts
}

/// All releases of steps with these `counts` per level: per step a batch with its halves, and one record.
pub(super) fn event(counts: &[u64], records: u64, noise_multiplier: f64) -> Event {
    let halves = Event::gaussian(telescoped_multiplier(noise_multiplier));
    let mut events: Vec<Event> = counts
        .iter()
        .enumerate()
        .filter(|(_, count)| **count > 0)
        .map(|(k, &count)| halves.clone().sampled_without_replacement(records, 2 << k).self_composed(count))
        .collect();
    let steps: u64 = counts.iter().sum();
    let single = Event::gaussian(noise_multiplier).sampled_without_replacement(records, 1);
    events.push(single.self_composed(steps));
    Event::composed(events)
}

/// From the few steps of a large ε to thousands of a small one.
fn orders() -> Vec<f64> {
    (0..32).map(|i| 1.0 + 0.1 * 1.35f64.powi(i)).collect()
}

/// The relation that costs are counted under: where another record takes an absent one's slot, zero-out has the constants of
/// replace-one; only a batch of all records would be cheaper, and a reserve must cover every size.
const COUNTED: Relation = Relation::ReplaceOne;

/// Smallest noise multiplier, to 1 %, with which one step of the largest batch fits the budget by its Rényi costs.
pub(super) fn least_noise(levels: Levels, records: u64, budget: Budget) -> Result<f64, AccountingError> {
    let mut one = vec![0; levels.top as usize + 1];
    one[levels.top as usize] = 1;
    let fits = |z: f64| -> Result<bool, AccountingError> {
        let step = event(&one, records, z);
        for order in orders() {
            let room = conversion::budget(order, budget.epsilon(), budget.delta());
            if rdp::cost(&step, COUNTED, order)?.divergence <= room {
                return Ok(true);
            }
        }
        Ok(false)
    };
    let (mut low, mut high) = (1e-3f64, 1e6f64);
    while high > 1.01 * low {
        let middle = (low * high).sqrt();
        if fits(middle)? { high = middle } else { low = middle }
    }
    Ok(high)
}

/// Rényi costs of a step, by the size of its batch: what a stopping rule can add up quickly. The event that results is certified
/// by the tightest accountant all the same.
pub(super) struct Costs {
    orders: Vec<f64>,
    /// Per level, per order; never falling with the level.
    steps: Vec<Vec<f64>>,
}

impl Costs {
    /// Of steps with noise multiplier `z` on `records` records.
    ///
    /// # Errors
    /// If the accountant has no curve for such samples.
    pub(super) fn of(levels: Levels, records: u64, z: f64) -> Result<Self, AccountingError> {
        let orders = orders();
        let mut steps: Vec<Vec<f64>> = Vec::with_capacity(levels.top as usize + 1);
        for k in 0..=levels.top {
            let mut counts = vec![0; k as usize + 1];
            counts[k as usize] = 1;
            let one = event(&counts, records, z);
            let mut costs = Vec::with_capacity(orders.len());
            for (i, &order) in orders.iter().enumerate() {
                // the bound for samples can exceed that of all records near q = 1
                let whole = Event::composed(vec![
                    Event::gaussian(telescoped_multiplier(z)),
                    Event::gaussian(z).sampled_without_replacement(records, 1),
                ]);
                let most = rdp::cost(&whole, COUNTED, order)?.divergence;
                let smaller = steps.last().map_or(0.0, |s: &Vec<f64>| s[i]);
                costs.push(rdp::cost(&one, COUNTED, order)?.divergence.min(most).max(smaller));
            }
            steps.push(costs);
        }
        Ok(Self { orders, steps })
    }

    /// Rényi divergence of `counts` per order.
    fn totals<'a>(&'a self, counts: &'a [u64]) -> impl Iterator<Item = (f64, f64)> + 'a {
        self.orders.iter().enumerate().map(move |(i, &order)| {
            let total =
                counts.iter().zip(&self.steps).filter(|(c, _)| **c > 0).map(|(&c, cost)| c as f64 * cost[i]).sum();
            (order, total)
        })
    }

    /// Whether steps with these counts fit the budget.
    pub(super) fn fit(&self, counts: &[u64], budget: Budget) -> bool {
        self.totals(counts).any(|(order, total)| total <= conversion::budget(order, budget.epsilon(), budget.delta()))
    }

    /// ε of steps with these counts.
    pub(super) fn epsilon(&self, counts: &[u64], delta: f64) -> f64 {
        self.totals(counts).map(|(order, total)| conversion::epsilon(order, total, delta)).fold(f64::INFINITY, f64::min)
    }
}

/// r(N) = (3·2^{N+1} + 1)/(16n): the share of the budget that the published accounting charges for a step.
pub(super) fn published_share(level: u8, records: u64) -> f64 {
    (3.0 * 2f64.powi(i32::from(level) + 1) + 1.0) / (16.0 * records as f64)
}

/// Number of steps of the published rule: a step is made while √(2 ln(4/δ)·A) + (ε/2)·A ≤ ½ and R ≤ ¼, with A and R the
/// sums of r(N)² and r(N) over the steps made so far; all of `sequence` if it never stops.
pub(super) fn published_steps(sequence: &[u8], records: u64, epsilon: f64, delta: f64) -> usize {
    let (mut squares, mut sum) = (0.0, 0.0);
    for (t, &level) in sequence.iter().enumerate() {
        if (2.0 * (4.0 / delta).ln() * squares).sqrt() + 0.5 * epsilon * squares > 0.5 || sum > 0.25 {
            return t;
        }
        let share = published_share(level, records);
        squares += share * share;
        sum += share;
    }
    sequence.len()
}

/// Largest number of steps t, at most all, such that `fits` holds for the counts of the first t − 1 steps and one step of
/// the *largest* batch: whether step t is made depends on past batch sizes only. `fits` must not become true again.
pub(super) fn steps_with_reserve(sequence: &[u8], levels: Levels, mut fits: impl FnMut(&[u64]) -> bool) -> usize {
    let mut allowed = |made: usize| {
        let mut counts = counts(&sequence[..made], levels);
        counts[levels.top as usize] += 1;
        fits(&counts)
    };
    if !allowed(0) {
        return 0;
    }
    // the first step is allowed; find the last
    let (mut low, mut high) = (0, sequence.len());
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if allowed(middle) { low = middle } else { high = middle }
    }
    low + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_law_of_the_levels() {
        let three = Levels { top: 3 };
        for (k, p) in [8.0, 4.0, 2.0, 1.0].iter().enumerate() {
            assert!((three.probability(k as u32) - p / 15.0).abs() < 1e-15);
        }
        let first: f64 = (0..=3).map(|k| three.probability(k) * 2f64.powi(k as i32 + 1)).sum();
        assert!((first - 64.0 / 15.0).abs() < 1e-12);
        // E[4^{N+1}] = 4C_M(2^{M+1} − 1) = 32; the source has half of it
        let second: f64 = (0..=3).map(|k| three.probability(k) * 4f64.powi(k as i32 + 1)).sum();
        assert!((second - 32.0).abs() < 1e-12);
        assert_eq!((Levels::of(2).top, Levels::of(65_536).top, Levels::of(100_000).top), (0, 15, 15));
        let drawn = counts(&three.sequence(1, 60_000), three);
        for (k, &count) in drawn.iter().enumerate() {
            let (n, p) = (60_000.0, three.probability(k as u32));
            // five and a half standard deviations: false alarm below 2e-7 in total
            assert!((count as f64 - n * p).abs() < 5.5 * (n * p * (1.0 - p)).sqrt(), "{drawn:?}");
        }
    }

    #[test]
    fn the_published_share_and_stopping_times() {
        assert!((published_share(3, 16) - 49.0 / 256.0).abs() < 1e-15);
        // means and quantiles of T (index of the last step) over 300 runs, ε = 1, δ = n^-2.5
        for (n, mean, spread, quantiles) in
            [(1024u64, 131.9, 60.0, [16.9, 97.0, 143.5, 211.0]), (4096, 435.7, 170.0, [100.0, 338.0, 467.0, 662.0])]
        {
            let (levels, delta) = (Levels::of(n), (n as f64).powf(-2.5));
            let mut last: Vec<f64> = (0..1000)
                .map(|seed| published_steps(&levels.sequence(seed, n as usize), n, 1.0, delta) as f64 - 1.0)
                .collect();
            last.sort_unstable_by(f64::total_cmp);
            let seen = last.iter().sum::<f64>() / 1000.0;
            // two samples, 300 and 1000 runs: five and a half standard errors
            assert!((seen - mean).abs() < 5.5 * spread * (1.0f64 / 300.0 + 1e-3).sqrt(), "{n}: {seen}");
            for (share, published) in [0.25, 0.5].iter().zip(&quantiles[1..3]) {
                let at = last[(share * 1000.0) as usize];
                assert!((at / published - 1.0).abs() < 0.15, "{n}: {at} {published}");
            }
            // the bounds on E[T]
            let ln = (4.0 / delta).ln();
            let nf = n as f64;
            assert!(seen > nf * nf / ((nf + 1.0) * ln) - 1.0 && seen < 64.0 * nf / (9.0 * ln));
        }
    }

    #[test]
    fn a_reserve_for_the_largest_batch_is_kept() {
        let levels = Levels { top: 2 };
        let sequence = [0, 2, 1, 0, 2, 0, 0];
        let cost = |c: &[u64]| c[0] + 2 * c[1] + 4 * c[2];
        // made so far costs 1, 5, 7, 8, 12: with 4 in reserve a budget of 11 allows the 4th step (7 + 4), not the 5th
        assert_eq!(steps_with_reserve(&sequence, levels, |c| cost(c) <= 11), 4);
        assert_eq!(steps_with_reserve(&sequence, levels, |c| cost(c) <= 3), 0);
        assert_eq!(steps_with_reserve(&sequence, levels, |c| cost(c) <= 4), 1);
        assert_eq!(steps_with_reserve(&sequence, levels, |_| true), 7);
        // whatever level the allowed step turns out to have, the budget holds
        for budget in 4..20 {
            let made = steps_with_reserve(&sequence, levels, |c| cost(c) <= budget);
            assert!(cost(&counts(&sequence[..made], levels)) <= budget);
        }
    }
}
