//! Bugs of means of columns that have no known range (spec 12 §1; docs/proofs/heavy-tailed-mean.md).

use super::PlantedBug;
use super::Source::{Altered, Shipped};
use crate::draws::Draws;
use crate::library::columns::columns;
use crate::statistics::Claim;
use dpopt_mechanism::{ColumnClip, CuratorError, Gaussian, Mechanism, past_the_curator};
use dpopt_noise::{Grid, NoiseSource, Norm};
use dpopt_privacy::{Event, Relation};

/// Other records.
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
fn threshold() -> PlantedBug {
    PlantedBug::counting(
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
fn count() -> PlantedBug {
    PlantedBug::counting(
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

pub(super) fn bugs() -> Vec<PlantedBug> {
    vec![threshold(), count()]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What both variants compute without noise to speak of: the planted count moves the mean by two records' worth.
    #[test]
    fn the_realised_count_moves_the_mean_twice_as_far() {
        let sum = |record: f64| with_others(record).iter().filter(|x| !x.is_nan()).sum::<f64>();
        let (n, present) = (OTHERS as f64 + 1.0, OTHERS as f64);
        let public = (sum(f64::NAN) / n - sum(-1.0) / n) * n;
        let realised = (sum(f64::NAN) / present - sum(-1.0) / n) * n;
        assert!((public - 1.0).abs() < 1e-12 && (realised - 2.0).abs() < 1e-12, "{public} {realised}");
    }
}
