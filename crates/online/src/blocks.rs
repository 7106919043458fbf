//! Blocks for a player that trusts, in each of them, the expert that was drawn from the losses of the one before alone: each loss enters
//! one choice, so that all of them are ε-DP together (doubling blocks: Asi, Feldman, Koren, Talwar 2023; the bound, for losses that are drawn
//! independently, and why there is none for others: docs/proofs/online-experts.md, blocks).

/// Blocks whose proved regret is least among those that grow by a constant factor.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct BlockSchedule {
    /// The last rounds of all blocks but the last.
    pub(super) ends: Vec<u64>,
}

/// Growths that are looked at: 1.2, 1.3, …, 6.
const GROWTHS: std::ops::RangeInclusive<u32> = 12..=60;

/// How much more than the best expert in expectation one draws that was drawn with `rate` from the sums of `rounds` losses, at most:
/// min over η ≤ rate of (ln d/η + ηn/8)/n.
pub(super) fn excess(rounds: u64, experts: usize, rate: f64) -> f64 {
    let (n, log) = (rounds as f64, (experts as f64).ln());
    let eta = rate.min((8.0 * log / n).sqrt());
    ((log / eta + eta * n / 8.0) / n).min(1.0)
}

impl BlockSchedule {
    /// The block lengths with the least bound for `rounds` ≥ 2 rounds.
    pub(super) fn least(rounds: u64, experts: usize, rate: f64) -> Self {
        let (mut best, mut least) = (Self { ends: vec![1] }, f64::INFINITY);
        for growth in GROWTHS {
            let mut first = 1;
            while first < rounds {
                let other = Self::growing(rounds, first, f64::from(growth) / 10.0);
                let lost = other.lost(rounds, experts, rate);
                if lost < least {
                    (best, least) = (other, lost);
                }
                first = (first + 1).max(first + first / 5);
            }
        }
        best
    }

    /// A first block of `first` < `rounds` rounds, each later one `growth` times as long, the last one cut.
    fn growing(rounds: u64, first: u64, growth: f64) -> Self {
        let (mut ends, mut end, mut block) = (Vec::new(), first, first);
        while end < rounds {
            ends.push(end);
            block = (block as f64 * growth).ceil() as u64;
            end = end.saturating_add(block);
        }
        Self { ends }
    }

    /// Expected loss beyond T times the mean of the best expert, at most.
    pub(super) fn lost(&self, rounds: u64, experts: usize, rate: f64) -> f64 {
        let (mut from, mut before, mut lost) = (0, 0, 0.0);
        for end in self.ends.iter().copied().chain([rounds]) {
            let block = end - from;
            // whoever plays first is anyone
            let each = if from == 0 { 1.0 - 1.0 / experts as f64 } else { excess(before, experts, rate) };
            lost += block as f64 * each;
            (from, before) = (end, block);
        }
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two experts with independent coins as losses: the exact excess of a draw, by the law of the difference of their sums, is below its
    /// bound for every gap; and not far below it for the worst.
    #[test]
    fn the_exact_excess_of_a_draw_is_below_its_bound() {
        for (n, rate) in [(5usize, 0.2), (20, 0.05), (20, 1.0), (60, 0.3), (60, 5.0)] {
            let mut largest = 0.0f64;
            for step in 0..50 {
                let gap = 0.02 * f64::from(step) * 0.98;
                let (good, bad) = (0.5 - gap / 2.0, 0.5 + gap / 2.0);
                // P(sum of n coins = k)
                let binomial = |p: f64| {
                    let mut law = vec![1.0f64];
                    for _ in 0..n {
                        let with = |k: usize| if k > 0 { law[k - 1] * p } else { 0.0 };
                        law = (0..=law.len()).map(|k| with(k) + law.get(k).map_or(0.0, |q| q * (1.0 - p))).collect();
                    }
                    law
                };
                let (of_good, of_bad) = (binomial(good), binomial(bad));
                let mut wrong = 0.0;
                for (g, p) in of_good.iter().enumerate() {
                    for (b, q) in of_bad.iter().enumerate() {
                        wrong += p * q / (1.0 + (rate * (b as f64 - g as f64)).exp());
                    }
                }
                let bound = excess(n as u64, 2, rate);
                assert!(gap * wrong <= bound, "{n} {rate} {gap}: {} {bound}", gap * wrong);
                largest = largest.max(gap * wrong);
            }
            assert!(largest > 0.15 * excess(n as u64, 2, rate), "{n} {rate}: {largest}");
        }
    }

    #[test]
    fn blocks_cover_all_rounds_and_follow_the_rate() {
        let log = 100f64.ln();
        for (rounds, rate) in [(2, 1.0), (3, 0.1), (1000, 0.5), (100_000, 0.05), (1 << 30, 1e-4), (1 << 38, 10.0)] {
            let blocks = BlockSchedule::least(rounds, 100, rate);
            assert!(!blocks.ends.is_empty() && blocks.ends.windows(2).all(|pair| pair[0] < pair[1]));
            assert!(*blocks.ends.last().unwrap() < rounds && blocks.lost(rounds, 100, rate) <= rounds as f64);
        }
        let least = |rate| {
            let blocks = BlockSchedule::least(100_000, 100, rate);
            (blocks.ends[0], blocks.lost(100_000, 100, rate))
        };
        let (high, low) = (least(0.5), least(0.005));
        // √(r − 1)/(1 − r^(−1/2)) ≥ 3.33 times √(T ln d/2), what blocks that grow by r lose to the losses' own chance
        let chance = (5e4 * log).sqrt();
        assert!(high.1 > 3.2 * chance && high.1 < 3.4 * chance, "{high:?}");
        // a choice from few losses at a small rate is no choice
        assert!(low.0 > 10 * high.0 && low.1 > 5.0 * high.1, "{low:?}");
    }
}
