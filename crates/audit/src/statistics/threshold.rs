//! Which event to count: chosen on a pilot, from thresholds fixed in advance, or all at once.
//!
//! Taking the best of many thresholds on the sample that is then counted is **not** valid. Three ways are: choose on
//! one part and count on the other; fix J thresholds and spend α/J on each; or a uniform band (useless at small rates).

use super::binomial::lower_bound;
use super::claim::Claim;
use super::rates::{Counts, Rates};
use dpopt_process::stop::{Pace, point};
use serde::Serialize;

/// An event about one number, and the world in which it should be likelier.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Event {
    /// The statistic is compared with this number.
    pub threshold: f64,
    /// True: the event is s > threshold. False: its complement (NaN counts as not above).
    pub above: bool,
    /// True: the event should be likelier on D (with the record). False: on D′.
    pub positive_with: bool,
}

impl Event {
    /// Whether the event happened in a run with this statistic.
    #[inline]
    pub fn happened(&self, statistic: f64) -> bool {
        (statistic > self.threshold) == self.above
    }

    /// The complement, in the world where it is likelier: says as much of a trade-off curve as the event does.
    pub fn complement(self) -> Self {
        Self { above: !self.above, positive_with: !self.positive_with, ..self }
    }

    /// Counts over two samples of independent runs.
    pub fn count(&self, with: &[f64], without: &[f64]) -> Counts {
        let hits = |sample: &[f64]| {
            point();
            sample.iter().filter(|&&s| self.happened(s)).count() as u64
        };
        let (w, o) = ((hits(with), with.len() as u64), (hits(without), without.len() as u64));
        let (positive, negative) = if self.positive_with { (w, o) } else { (o, w) };
        Counts { true_positives: positive.0, positives: positive.1, false_positives: negative.0, negatives: negative.1 }
    }
}

/// Runs per world until the expected counts at these rates refute the claim at `alpha`; None above `most`.
///
/// About half of the audits of this size reject; at twice as many runs at least 99 % do.
pub fn runs_needed(tpr: f64, fpr: f64, claim: &Claim, alpha: f64, most: u64) -> Option<u64> {
    let rejects = |n: u64| {
        let runs = n as f64;
        Counts::new((runs * tpr) as u64, (runs * fpr).round() as u64, n).rates(alpha).rejects(claim)
    };
    if !rejects(most) {
        return None;
    }
    let (mut low, mut high) = (1u64, most);
    // counts are rounded, so this is monotone up to a few runs
    while high - low > 1 + low / 200 {
        let middle = if high > 4 * low { (low as f64 * high as f64).sqrt() as u64 } else { low.midpoint(high) };
        if rejects(middle) { high = middle } else { low = middle }
    }
    Some(high)
}

/// The events that pilot runs found most telling.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Choice {
    /// The event, to be frozen before fresh runs are counted.
    pub event: Event,
    /// Expected runs per world until the claim is refuted; None if the pilot shows no violation.
    pub runs_needed: Option<u64>,
    /// The event with the largest expected lower bound on ε. The same as `event` if there is no violation to show.
    pub bound: Event,
    /// The event with the largest expected lower bound on μ.
    pub model: Event,
}

/// Sorts; a caller can stop it, as millions of numbers take long.
pub(crate) fn sort(numbers: &mut [f64]) {
    let mut pace = Pace::default();
    numbers.sort_unstable_by(|a, b| {
        pace.step();
        a.total_cmp(b)
    });
}

/// Candidate thresholds: between neighbouring distinct values at quantiles of the pooled pilot, dense in the tails.
fn candidates(with: &[f64], without: &[f64], count: usize) -> Vec<f64> {
    let mut pooled: Vec<f64> = with.iter().chain(without).copied().filter(|s| !s.is_nan()).collect();
    sort(&mut pooled);
    let n = pooled.len();
    if n == 0 {
        return vec![0.0];
    }
    let mut thresholds = Vec::with_capacity(count + 1);
    for i in 1..count {
        // logit-spaced ranks from 8/n to 1 − 8/n
        let edge = (n as f64 / 8.0).max(2.0).ln();
        let z = -edge + 2.0 * edge * i as f64 / count as f64;
        let rank = (n as f64 / (1.0 + (-z).exp())) as usize;
        let here = pooled[rank.min(n - 1)];
        // halfway to the next larger value: discrete statistics are not cut at an atom
        let next = pooled.partition_point(|&s| s <= here);
        let cut = if next < n { 0.5 * here + 0.5 * pooled[next] } else { here };
        thresholds.push(if cut.is_finite() { cut } else { here });
        if next == n {
            // a last atom: also the cut below it
            let first = pooled.partition_point(|&s| s < here);
            if first > 0 {
                thresholds.push(0.5 * here + 0.5 * pooled[first - 1]);
            }
        }
    }
    thresholds.sort_unstable_by(f64::total_cmp);
    thresholds.dedup();
    thresholds
}

/// A threshold is judged by rates that the pilot proves at this level. Affects power only, never validity.
const PILOT_ALPHA: f64 = 0.05;

/// Chooses the event that refutes the claim with the fewest runs on the pilot, or, if none does within `runs`, the one
/// with the largest lower bound on ε at `delta` for `runs` fresh runs per world.
pub fn choose(with: &[f64], without: &[f64], claim: &Claim, delta: f64, runs: u64, alpha: f64) -> Choice {
    let mut best: Option<Choice> = None;
    let nothing = (f64::NEG_INFINITY, Event { threshold: 0.0, above: true, positive_with: true });
    let (mut fallback, mut model) = (nothing, nothing);
    for threshold in candidates(with, without, 48) {
        for (above, positive_with) in [(true, true), (true, false), (false, true), (false, false)] {
            let event = Event { threshold, above, positive_with };
            let counts = event.count(with, without);
            let tpr = counts.true_positives as f64 / counts.positives.max(1) as f64;
            // one imagined hit: a pilot that saw none does not prove that there is none
            let fpr = (counts.false_positives as f64 + 1.0) / (counts.negatives as f64 + 1.0);
            if tpr <= fpr {
                continue;
            }
            // what the pilot itself is sure of: the maximum over thresholds picks lucky tails otherwise
            let sure = counts.rates(PILOT_ALPHA);
            let expected = Counts::new((sure.tpr_low * runs as f64) as u64, (sure.fpr_high * runs as f64) as u64, runs);
            let rates = expected.rates(alpha);
            if rates.mu_lower() > model.0 {
                model = (rates.mu_lower(), event);
            }
            let value = rates.epsilon_lower(delta);
            if value > fallback.0 {
                fallback = (value, event);
            }
            if tpr > claim.largest_tpr(fpr) {
                // a violation that `runs` fresh runs would not show is noise of the pilot as likely as not
                let most = best.and_then(|b| b.runs_needed).unwrap_or(runs);
                if let Some(needed) = runs_needed(tpr, fpr, claim, alpha, most)
                    && best.is_none_or(|b| b.runs_needed.is_none_or(|old| needed < old))
                {
                    best = Some(Choice { event, runs_needed: Some(needed), bound: event, model: event });
                }
            }
        }
    }
    let (bound, model) = (fallback.1, model.1);
    best.map_or(Choice { event: bound, runs_needed: None, bound, model }, |b| Choice { bound, model, ..b })
}

/// Largest lower bound on ε over thresholds **fixed in advance**, each at α/J (both rates at α/(2J)).
pub fn fixed_thresholds(with: &[f64], without: &[f64], thresholds: &[f64], delta: f64, alpha: f64) -> f64 {
    let share = alpha / thresholds.len().max(1) as f64;
    thresholds
        .iter()
        .map(|&threshold| {
            let counts = Event { threshold, above: true, positive_with: true }.count(with, without);
            counts.rates(share).epsilon_lower(delta)
        })
        .fold(0.0, f64::max)
}

/// Rates of one event that hold for **all** thresholds at once (DKW–Massart, α/2 per world).
pub fn uniform_band(counts: Counts, alpha: f64) -> Rates {
    let width = |n: u64| ((2.0 / alpha).ln() / (2.0 * n.max(1) as f64)).sqrt();
    let share = |k: u64, n: u64| k as f64 / n.max(1) as f64;
    Rates {
        tpr_low: (share(counts.true_positives, counts.positives) - width(counts.positives)).max(0.0),
        fpr_high: (share(counts.false_positives, counts.negatives) + width(counts.negatives)).min(1.0),
    }
}

/// The cap of any count-based audit: with `runs` runs per world no lower bound exceeds about ln(N/ln(2/α)).
pub fn largest_epsilon(runs: u64, alpha: f64) -> f64 {
    let all = lower_bound(runs, runs, 0.5 * alpha);
    Rates { tpr_low: all, fpr_high: super::binomial::upper_bound(0, runs, 0.5 * alpha) }.epsilon_lower(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draws::Draws;
    use crate::statistics::claim::normal_quantile;
    use dpopt_privacy::special::normal_cdf;

    fn gaussians(mu: f64, n: usize, stream: u64) -> Vec<f64> {
        let mut draws = Draws::new(77, stream);
        (0..n).map(|_| draws.gaussian() + mu).collect()
    }

    #[test]
    fn pilot_finds_the_event_and_the_number_of_runs() {
        let claim = Claim::gaussian(1.0);
        let choice = choose(&gaussians(2.0, 20_000, 0), &gaussians(0.0, 20_000, 1), &claim, 1e-5, 422, 1e-6);
        let needed = choice.runs_needed.expect("a violation is visible");
        // the oracle needs 211
        assert!((195..250).contains(&needed), "{needed}");
        // frozen, then counted on fresh runs: caught at 2N, and the correct code passes
        let bug = choice.event.count(&gaussians(2.0, 422, 2), &gaussians(0.0, 422, 3));
        assert!(bug.rates(1e-6).rejects(&claim));
        let correct = choice.event.count(&gaussians(1.0, 422, 4), &gaussians(0.0, 422, 5));
        assert!(!correct.rates(1e-6).rejects(&claim));
    }

    #[test]
    fn pilot_finds_the_reverse_direction_and_atoms() {
        // the event is likelier without the record, and lives on an atom
        let mut draws = Draws::new(3, 0);
        let with: Vec<f64> = (0..4000).map(|_| f64::from(u8::from(draws.coin(0.1)))).collect();
        let without: Vec<f64> = (0..4000).map(|_| f64::from(u8::from(draws.coin(0.9)))).collect();
        let choice = choose(&with, &without, &Claim::pure(0.5), 0.0, 1000, 1e-6);
        assert!(choice.runs_needed.is_some());
        assert_ne!(choice.event.above, choice.event.positive_with, "{choice:?}");
        assert!(choice.event.threshold > 0.0 && choice.event.threshold < 1.0);
    }

    #[test]
    fn three_ways_to_choose_a_threshold() {
        // N = 1e5, μ = 1, δ = 1e-5, α = 1e-3: 64 thresholds 2.402, DKW 1.691, half split 2.355 (expected counts)
        let n = 100_000;
        let (mut fixed, mut band, mut split) = (0.0, 0.0, 0.0);
        let thresholds: Vec<f64> = (1..=64).map(|i| normal_quantile(1.0 - 0.5f64.powf(f64::from(i) * 0.25))).collect();
        let rounds = 6;
        for round in 0..rounds {
            let (with, without) = (gaussians(1.0, n, 100 + 2 * round), gaussians(0.0, n, 101 + 2 * round));
            fixed += fixed_thresholds(&with, &without, &thresholds, 1e-5, 1e-3);
            band += thresholds
                .iter()
                .map(|&threshold| {
                    let event = Event { threshold, above: true, positive_with: true };
                    uniform_band(event.count(&with, &without), 1e-3).epsilon_lower(1e-5)
                })
                .fold(0.0, f64::max);
            let half = n / 2;
            let choice = choose(&with[..half], &without[..half], &Claim::gaussian(1.0), 1e-5, half as u64, 1e-3);
            split += choice.event.count(&with[half..], &without[half..]).rates(1e-3).epsilon_lower(1e-5);
        }
        let k = rounds as f64;
        assert!((fixed / k - 2.402).abs() < 0.12, "{}", fixed / k);
        assert!((band / k - 1.691).abs() < 0.06, "{}", band / k);
        // 2.355 is the oracle threshold on half the runs; learning it from the pilot costs some .25 here
        assert!(split / k > 2.355 - 0.4 && split / k < 2.355 + 0.1, "{}", split / k);
    }

    #[test]
    fn runs_needed_for_probability_zero_events() {
        // p = 1, .5, .1, .01 against μ = 1: 40, 191, 2.1e3, 4.6e4
        for (p, low, high) in [(1.0, 36, 42), (0.5, 170, 200), (0.1, 1_900, 2_200), (0.01, 43_000, 48_000)] {
            let n = runs_needed(p, 0.0, &Claim::gaussian(1.0), 1e-6, 1_000_000).expect("caught");
            assert!((low..=high).contains(&n), "p={p}: {n}");
        }
        assert_eq!(runs_needed(normal_cdf(0.5), normal_cdf(-0.5), &Claim::gaussian(1.0), 1e-6, 1_000_000), None);
        assert!((largest_epsilon(100_000, 1e-6) - 8.84).abs() < 0.01);
    }
}
