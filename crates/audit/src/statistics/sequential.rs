//! Stop as soon as the evidence suffices: a betting test that stays valid at any time (docs/proofs/sequential-audit.md).
//!
//! Pairs of runs give Z = 1{run on D in E} − e^ε·1{run on D′ in E} − δ. Under the claim E[Z | past] ≤ 0, so the wealth
//! Π(1 + λ_t Z_t) with predictable 0 ≤ λ_t < 1/(e^ε + δ) is a non-negative supermartingale, and by Ville's inequality
//! it ever reaches 1/α with probability at most α. Peeking at the fixed-size test instead is not valid. Event and point
//! may change between pairs, as long as both are chosen from the past ([`Bet::turn_to`]); docs/proofs/sequential-audit.md.

use super::threshold::Event;
use serde::Serialize;

/// The largest share of the admissible stake: keeps the wealth positive.
const LARGEST_STAKE: f64 = 0.999;

/// How the stake λ is chosen. Both are predictable: they use past pairs only.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub enum Stake {
    /// One λ for every pair.
    Constant(f64),
    /// The λ that would have been best on the pairs seen so far and on imagined ones (one of each kind, or
    /// [`turn_to`](Bet::turn_to)'s).
    Adaptive,
}

/// A bet against the point (ε, δ) of a claim, for an event chosen before the pair that it is observed on.
#[derive(Clone, Debug, Serialize)]
pub struct Bet {
    factor: f64,
    delta: f64,
    stake: Stake,
    ln_wealth: f64,
    ln_largest: f64,
    pairs: u64,
    /// Pairs, imagined ones included: neither, only D, only D′, both.
    weights: [f64; 4],
    next_stake: f64,
    /// Number of pairs at which the adaptive stake is computed again.
    next_update: u64,
}

impl Bet {
    /// Opens the bet with wealth 1.
    pub fn new(epsilon: f64, delta: f64, stake: Stake) -> Self {
        let mut bet = Self {
            factor: epsilon.exp(),
            delta,
            stake,
            ln_wealth: 0.0,
            ln_largest: 0.0,
            pairs: 0,
            weights: [1.0; 4],
            next_stake: 0.0,
            next_update: 1,
        };
        bet.next_stake = match stake {
            Stake::Constant(lambda) => lambda.clamp(0.0, LARGEST_STAKE * bet.limit()),
            // no opinion yet: a tenth of the limit
            Stake::Adaptive => 0.1 * bet.limit(),
        };
        bet
    }

    fn limit(&self) -> f64 {
        1.0 / (self.factor + self.delta)
    }

    /// Z = 1{event on D} − e^ε·1{event on D′} − δ of a pair of runs: its mean is at most 0 where the claim is true.
    fn outcome(&self, with: bool, without: bool) -> f64 {
        f64::from(u8::from(with)) - self.factor * f64::from(u8::from(without)) - self.delta
    }

    /// Takes the next pair of independent runs, one on each world.
    pub fn observe(&mut self, event_with: bool, event_without: bool) {
        self.ln_wealth += (self.next_stake * self.outcome(event_with, event_without)).ln_1p();
        self.ln_largest = self.ln_largest.max(self.ln_wealth);
        self.pairs += 1;
        self.weights[usize::from(event_with) + 2 * usize::from(event_without)] += 1.0;
        // a stake a little out of date is still predictable: recompute when the counts have grown by an eighth
        if self.stake == Stake::Adaptive && self.pairs >= self.next_update {
            self.next_update = self.pairs + self.pairs / 8 + 1;
            self.next_stake = self.best_stake(self.weights);
        }
    }

    /// Keeps the wealth and bets from now on against another point of the same claim, on another event, with adaptive stakes
    /// that start from `imagined` pairs (neither, only D, only D′, both). All of it must be chosen from past pairs only.
    pub fn turn_to(&mut self, (epsilon, delta): (f64, f64), imagined: [f64; 4]) {
        self.factor = epsilon.exp();
        self.delta = delta;
        self.stake = Stake::Adaptive;
        self.weights = imagined;
        self.next_stake = self.best_stake(imagined);
        self.next_update = self.pairs + 1;
    }

    /// argmax over λ of Σ weight·ln(1 + λZ), which is concave: bisection on the derivative.
    fn best_stake(&self, weights: [f64; 4]) -> f64 {
        let z = [
            self.outcome(false, false),
            self.outcome(true, false),
            self.outcome(false, true),
            self.outcome(true, true),
        ];
        let slope = |l: f64| (0..4).map(|i| weights[i] * z[i] / (1.0 + l * z[i])).sum::<f64>();
        let (mut low, mut high) = (0.0, LARGEST_STAKE * self.limit());
        if slope(low) <= 0.0 {
            return 0.0;
        }
        for _ in 0..40 {
            let middle = 0.5 * (low + high);
            if slope(middle) > 0.0 { low = middle } else { high = middle }
        }
        low
    }

    /// Whether the claim was refuted at confidence 1 − `alpha` at any time so far.
    pub fn refuted(&self, alpha: f64) -> bool {
        self.ln_largest >= -alpha.ln()
    }

    /// 1 over the largest wealth so far: a p-value at any stopping time.
    pub fn p_value(&self) -> f64 {
        (-self.ln_largest).exp().min(1.0)
    }

    /// Number of pairs observed so far.
    pub fn pairs(&self) -> u64 {
        self.pairs
    }
}

/// Largest growth rate E[ln(1 + λZ)] over constant λ, and that λ: ln(1/α) over it is the expected number of pairs.
pub fn best_growth(epsilon: f64, delta: f64, tpr: f64, fpr: f64) -> (f64, f64) {
    let bet = Bet::new(epsilon, delta, Stake::Adaptive);
    let weights = imagined(tpr, fpr, 1.0);
    let lambda = bet.best_stake(weights);
    let growth = [(false, false), (true, false), (false, true), (true, true)]
        .iter()
        .zip(weights)
        .map(|(&(x, y), w)| w * (lambda * bet.outcome(x, y)).ln_1p())
        .sum();
    (growth, lambda)
}

/// Four kinds of pairs that independent worlds with these rates show in `pairs` pairs: neither, only D, only D′, both.
pub fn imagined(tpr: f64, fpr: f64, pairs: f64) -> [f64; 4] {
    [(1.0 - tpr) * (1.0 - fpr), tpr * (1.0 - fpr), (1.0 - tpr) * fpr, tpr * fpr].map(|w| pairs * w)
}

/// The point of `points` that loses fastest at these rates, and its growth rate per pair (0 if none can lose).
pub fn best_point(points: impl IntoIterator<Item = (f64, f64)>, tpr: f64, fpr: f64) -> Option<((f64, f64), f64)> {
    points
        .into_iter()
        .map(|(epsilon, delta)| ((epsilon, delta), best_growth(epsilon, delta, tpr, fpr).0))
        .max_by(|a, b| a.1.total_cmp(&b.1))
}

/// What to bet on: the event or its complement (which a test of both rates does not tell apart, but a bet does), with its rates and the
/// point of `points` that falls fastest.
pub fn best_bet(
    event: Event,
    (tpr, fpr): (f64, f64),
    points: &[(f64, f64)],
) -> Option<(Event, (f64, f64), (f64, f64))> {
    [(event, (tpr, fpr)), (event.complement(), (1.0 - fpr, 1.0 - tpr))]
        .into_iter()
        .filter_map(|(event, rates)| {
            best_point(points.iter().copied(), rates.0, rates.1).map(|(point, growth)| (event, rates, point, growth))
        })
        .max_by(|a, b| a.3.total_cmp(&b.3))
        .map(|(event, rates, point, _)| (event, rates, point))
}

/// The cap of any such audit: with `pairs` pairs no (ε, 0) above this can be refuted at `alpha`, whatever happens.
pub fn largest_epsilon(pairs: u64, alpha: f64) -> f64 {
    // every pair shows the event on D only, every stake is the largest
    let growth = -alpha.ln() / pairs.max(1) as f64;
    (LARGEST_STAKE / growth.exp_m1()).ln().max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draws::Draws;
    use dpopt_privacy::special::{gaussian_ln_delta, normal_cdf};

    #[test]
    fn expected_number_of_pairs() {
        // Gaussian claim μ_c against truth μ at the total-variation point, threshold μ/2, α = 1e-6
        for (claimed, truth, pairs) in
            [(1.0, 2.0, 127.0), (0.5, 1.0, 381.0), (0.5, 2.0, 59.0), (1.0, 2f64.sqrt(), 603.0)]
        {
            let delta = gaussian_ln_delta(0.0, claimed).exp();
            let (growth, _) = best_growth(0.0, delta, normal_cdf(truth / 2.0), normal_cdf(-truth / 2.0));
            let got = 1e6f64.ln() / growth;
            assert!((got - pairs).abs() < 0.01 * pairs + 1.0, "{claimed} -> {truth}: {got} against {pairs}");
        }
    }

    fn pairs_until(claimed: f64, truth: f64, stake: Stake, cap: u64, draws: &mut Draws) -> Option<u64> {
        let mut bet = Bet::new(0.0, gaussian_ln_delta(0.0, claimed).exp(), stake);
        while bet.pairs() < cap {
            bet.observe(draws.gaussian() + truth > 1.0, draws.gaussian() > 1.0);
            if bet.refuted(1e-6) {
                return Some(bet.pairs());
            }
        }
        None
    }

    #[test]
    fn catches_a_bug_and_passes_the_correct_code() {
        // μ = 2 against a claim of 1: 127 pairs on average; adaptive stakes pay some of it for learning
        let mut draws = Draws::new(20, 0);
        let mut total = 0;
        for _ in 0..50 {
            total += pairs_until(1.0, 2.0, Stake::Adaptive, 2000, &mut draws).expect("caught within 2000 pairs");
        }
        assert!(total / 50 < 220, "mean {}", total / 50);
        // the correct code: 50 × 2000 pairs, false alarm at most 50·1e-6 over all
        for _ in 0..50 {
            assert_eq!(pairs_until(1.0, 1.0, Stake::Adaptive, 2000, &mut draws), None);
        }
    }

    #[test]
    fn a_bet_takes_the_side_that_the_claim_forbids_most() {
        // always on D, 7 of 10 times on D′: the event itself refutes little, its complement (never against 3 of 10) everything
        let event = Event { threshold: 0.0, above: true, positive_with: true };
        let points = [(0.0, gaussian_ln_delta(0.0, 1.0).exp()), (2.0, gaussian_ln_delta(2.0, 1.0).exp())];
        let (side, rates, point) = best_bet(event, (0.999, 0.7), &points).expect("points");
        assert_eq!((side, point.0), (event.complement(), 2.0));
        assert!((rates.0 - 0.3).abs() < 1e-12 && (rates.1 - 0.001).abs() < 1e-12);
        assert!(!side.happened(1.0) && side.happened(-1.0) && !side.positive_with);
    }

    #[test]
    fn the_cap_is_what_a_perfect_attack_reaches() {
        for pairs in [100, 10_000] {
            let cap = largest_epsilon(pairs, 1e-6);
            let run = |epsilon: f64| {
                let mut bet = Bet::new(epsilon, 0.0, Stake::Constant(f64::INFINITY));
                (0..pairs).for_each(|_| bet.observe(true, false));
                bet.refuted(1e-6)
            };
            assert!(run(cap - 1e-3) && !run(cap + 1e-3), "{pairs}: {cap}");
        }
    }

    #[test]
    fn a_bet_that_turns_keeps_its_wealth_and_its_validity() {
        // point and event change at every pair by what was seen last; the claim (μ = 1) is true. Wealth 20 has probability
        // at most 1/20 in each of 400 runs: more than 52 have probability below 1e-8 (binomial)
        let mut draws = Draws::new(21, 3);
        let mut reached = 0;
        for _ in 0..400 {
            let mut bet = Bet::new(0.0, gaussian_ln_delta(0.0, 1.0).exp(), Stake::Adaptive);
            let mut last = (0.0, 0.0);
            for _ in 0..200 {
                let threshold: f64 = if last.0 > last.1 { 0.5 } else { 1.5 };
                let epsilon = if threshold > 1.0 { 1.0 } else { 0.0 };
                let delta = gaussian_ln_delta(epsilon, 1.0).exp();
                bet.turn_to((epsilon, delta), imagined(normal_cdf(1.3 - threshold), normal_cdf(-threshold), 50.0));
                last = (draws.gaussian() + 1.0, draws.gaussian());
                bet.observe(last.0 > threshold, last.1 > threshold);
            }
            reached += u32::from(bet.refuted(0.05));
        }
        assert!(reached <= 52, "{reached}");
    }

    #[test]
    fn wealth_can_not_become_negative() {
        let mut bet = Bet::new(1.0, 0.1, Stake::Constant(5.0));
        for _ in 0..100 {
            bet.observe(false, true);
        }
        assert!(bet.p_value() == 1.0 && bet.ln_wealth.is_finite() && !bet.refuted(0.5));
    }
}
