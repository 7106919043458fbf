//! Faults of means of columns that have no known range (docs/proofs/heavy-tailed-mean.md).
//!
//! Covers: thesis algorithm 42, theorem 12.7.6 (12.stale-threshold)
//! Covers: thesis corollary 12.3.3 (12.threshold-from-data)

use super::Source::{Altered, Shipped};
use super::{Code, InjectedFault};
use crate::library::columns::columns;
use dpopt_audit::draws::Draws;
use dpopt_audit::statistics::Claim;
use dpopt_mechanism::{ColumnClip, CuratorError, Gaussian, Mechanism, past_the_curator};
use dpopt_noise::{Grid, NoiseSource, Norm};
use dpopt_privacy::{Event, Relation};

/// Records beside the one that is audited.
const OTHERS: usize = 9;

fn claim() -> Result<Claim, String> {
    Claim::reported(&Event::gaussian(1.0), Relation::ZeroOut, super::DELTA).map_err(|e| e.to_string())
}

/// The noisy sum of numbers that are clipped at `threshold`, with noise of standard deviation `threshold`.
fn noisy_sum(numbers: &[f64], threshold: f64, draws: &mut Draws) -> Result<f64, CuratorError> {
    let grid = Grid::new(-30);
    let mechanism = Gaussian::new(1.0, 1.0, grid, 1, "clipped sum of columns");
    let clip = ColumnClip::new(&[0.0], &[threshold], false, Norm::L2, grid)?;
    let sum = clip.sum(&columns(numbers.iter().map(|x| vec![*x])), None)?;
    let mut curator = past_the_curator::uncharged(&mechanism.event(), NoiseSource::insecure(draws.word()));
    Ok(threshold * curator.release(&mechanism, &sum)?.into_inner()[0])
}

/// Nine ones, and a record.
fn with_others(record: f64) -> Vec<f64> {
    let mut numbers = vec![1.0; OTHERS];
    numbers.push(record);
    numbers
}

/// Noise is made for whatever threshold there is, and the threshold is the largest number.
fn threshold() -> InjectedFault {
    InjectedFault::counting(
        (
            "12.threshold-from-data",
            Shipped,
            "the threshold is the largest number in the data, and noise is made for it",
            "record of 1000 beside nine of 1, or nothing; how far the noisy sum is from what the others come to",
        ),
        claim(),
        (1500, 2_500),
        |code, with, draws| {
            let numbers = with_others(if with { 1000.0 } else { f64::NAN });
            let largest = numbers.iter().copied().fold(0.0, f64::max);
            let sum = noisy_sum(&numbers, code.pick(1.0, largest), draws);
            sum.map_or(f64::NAN, |sum| (sum - OTHERS as f64).abs())
        },
    )
}

/// The sum is divided by how many have a number.
fn count() -> InjectedFault {
    InjectedFault::counting(
        (
            "12.realised-count",
            Altered,
            "the noisy sum is divided by how many records have a number, which is not released",
            "record of -1 beside nine of 1, or nothing; the noisy mean",
        ),
        claim(),
        (220, 2_500),
        |code, with, draws| {
            let numbers = with_others(if with { -1.0 } else { f64::NAN });
            let present = numbers.iter().filter(|x| !x.is_nan()).count();
            let divisor = code.pick(numbers.len(), present) as f64;
            noisy_sum(&numbers, 1.0, draws).map_or(f64::NAN, |sum| -sum / divisor)
        },
    )
}

pub(super) fn bugs() -> Vec<InjectedFault> {
    vec![threshold(), count()]
}

/// How often a clip fires among `queries` equal ones, by number: P(N = 0), P(N = 1), …. The threshold is off by Laplace noise of scale 1 that is drawn again
/// when a clip fires and only then, a query by noise of scale 2, as in Liu 2024, Algorithm 42 (scales don't matter).
fn fires(queries: usize) -> Vec<f64> {
    // no fire in t queries: the integral of (1 − p(ξ))^t over the threshold's noise ξ, p(ξ) = P(Lap(2) ≥ ξ)
    let survival = |t: usize| {
        let (t, half) = (t as i32, 0.5f64);
        let above = (1.0 - half.powi(t + 1)) / f64::from(t + 1) - (1.0 - half.powi(t + 2)) / f64::from(t + 2);
        4.0 * above + 0.5 * half.powi(t) / (0.5 * f64::from(t) + 1.0)
    };
    let quiet: Vec<f64> = (0..=queries).map(survival).collect();
    let first = |t: usize| quiet[t - 1] - quiet[t];
    // the n-th fire is at query t
    let mut at: Vec<f64> = (0..=queries).map(|t| f64::from(u8::from(t == 0))).collect();
    let mut law = Vec::with_capacity(queries + 1);
    for _ in 0..=queries {
        law.push(at.iter().enumerate().map(|(t, p)| p * quiet[queries - t]).sum());
        at = (0..=queries).map(|t| (0..t).map(|u| at[u] * first(t - u)).sum()).collect();
    }
    law
}

/// One pass of SGD that stops when clips have fired more often than a noisy bound: `gap` fires below it, `m` records whose norm is the threshold, the record,
/// and as many again. Which of the two outcomes it is, is released.
fn stopped(code: Code) -> Result<(), String> {
    const CLAIMED: f64 = 1e-6;
    // Lap(3/ε) at ε = 1, cut off where 1e-14 of it lies
    let above = |x: f64| if x >= 0.0 { 0.5 * (-x / 3.0).exp() } else { 1.0 - 0.5 * (x / 3.0).exp() };
    for (m, gap) in [(50, 12.0), (100, 30.0)] {
        let one = fires(m);
        let apart = |more: f64| -> f64 {
            let all =
                one.iter().enumerate().flat_map(|(i, p)| one.iter().enumerate().map(move |(j, q)| (i + j, p * q)));
            all.map(|(n, p)| p * above(n as f64 + more - gap)).sum()
        };
        // the record fires: a fresh threshold after it
        let with = apart(1.0);
        let without = match code {
            // a threshold that is drawn again after so many records, whatever fired
            Code::Correct => apart(0.0),
            Code::Injected => fires(2 * m).iter().enumerate().map(|(n, p)| p * above(n as f64 - gap)).sum(),
        };
        let delta = (without - std::f64::consts::E * with).max(with - std::f64::consts::E * without);
        if delta > CLAIMED {
            return Err(format!("delta is at least {delta:.2e} at epsilon 1, and {CLAIMED:e} is claimed"));
        }
    }
    Ok(())
}

pub(super) fn stale_threshold() -> InjectedFault {
    InjectedFault::looking(
        (
            "12.stale-threshold",
            Shipped,
            "one-pass SGD that counts clips: the noise of the threshold is drawn again only when a clip fires (m = 50 and 100)",
            "exact chance that it does not stop, with a record that fires and with one that does not",
        ),
        stopped,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What both variants compute without noise to speak of: the injected count moves the mean by two records' worth.
    #[test]
    fn the_realised_count_moves_the_mean_twice_as_far() {
        let sum = |record: f64| with_others(record).iter().filter(|x| !x.is_nan()).sum::<f64>();
        let (n, present) = (OTHERS as f64 + 1.0, OTHERS as f64);
        let public = (sum(f64::NAN) / n - sum(-1.0) / n) * n;
        let realised = (sum(f64::NAN) / present - sum(-1.0) / n) * n;
        assert!((public - 1.0).abs() < 1e-12 && (realised - 2.0).abs() < 1e-12, "{public} {realised}");
    }

    /// Algorithm 42 with a stale threshold breaks its claim: δ is at least 6.21e-3 at ε = 1.
    #[test]
    fn a_stale_threshold_tells_as_much_as_was_computed() {
        assert!(stopped(Code::Correct).is_ok());
        let why = stopped(Code::Injected).unwrap_err();
        assert!(why.contains("6.21e-3"), "{why}");
        assert!((fires(100).iter().sum::<f64>() - 1.0).abs() < 1e-12);
    }
}
