//! Bugs of records and rewards that come one by one (docs/proofs/partial-fit.md, online-convex.md, online-bandit.md).

use super::Source::{Altered, Shipped};
use super::{Code, InjectedFault};
use crate::worst_cases::arrivals::{BATCHES, alone, arrived, fresh, shape, sums};
use crate::worst_cases::indicator;
use crate::worst_cases::streams::Filter;
use dpopt_audit::draws::Draws;
use dpopt_audit::statistics::Claim;
use dpopt_noise::{NoiseSource, Purpose};

fn source(draws: &mut Draws) -> NoiseSource {
    NoiseSource::insecure(draws.word())
}

/// A record that is handed over again in a later batch, accounted as in one.
fn twice() -> InjectedFault {
    let filters = [Filter::new(shape(), &[0]), Filter::new(shape(), &[0, 1])];
    InjectedFault::counting(
        (
            "13.twice-in-stream",
            Shipped,
            "a record is handed over in two batches, and the stream is accounted as if each came in one",
            "canary in the first of 4 batches, and in the second; matched filter",
        ),
        Claim::gaussian(1.0),
        (600, 4_000),
        move |code, with, draws| {
            let (taken, filter): (&[usize], _) = match code {
                Code::Correct => (&[0], &filters[0]),
                Code::Injected => (&[0, 1], &filters[1]),
            };
            let Ok(filter) = filter else { return f64::NAN };
            filter.apply(&arrived(&alone(taken, with), source(draws)))
        },
    )
}

/// Batches that are too small are made up for by what came.
fn realised_count() -> InjectedFault {
    InjectedFault::counting(
        (
            "13.realised-count",
            Altered,
            "the noisy sum of a batch is divided by how many of its records have a target, and not by how many were planned",
            "record of -1 beside nine of 1 in a batch, or nothing; the mean gradient",
        ),
        // one step: the factor's first column is longer than its first entry, so one sum alone tells less than all
        Claim::gaussian(1.0),
        (900, 4_000),
        |code, with, draws| {
            let mut slopes = vec![1.0; 9];
            slopes.push(if with { -1.0 } else { 0.0 });
            let contribute = slopes.iter().filter(|slope| **slope != 0.0).count();
            let divisor = code.pick(slopes.len(), contribute) as f64;
            let all = arrived(&[slopes], source(draws));
            all.first().map_or(f64::NAN, |sum| -sum / divisor)
        },
    )
}

/// What the batches of the two copies in `13.copied-stream` differ by.
const APART: f64 = 3.0;

/// A copied generator: what two copies release differs by what their records do, and by nothing else.
fn copied_stream() -> InjectedFault {
    InjectedFault::looking(
        (
            "13.copied-stream",
            Shipped,
            "two copies of a stream go on with the same noise on different batches, as two copies of an estimator would",
            "the difference of what they release: it must not be the difference of their sums in all 4 steps",
        ),
        |code| {
            let (mut some, none) = (vec![vec![0.0; 3]; BATCHES], vec![vec![0.0; 3]; BATCHES]);
            some.iter_mut().for_each(|slopes| slopes.fill(1.0));
            let other = match code {
                // a copy has no noise to go on with: it opens a stream of its own
                Code::Correct => NoiseSource::secure().map_err(|e| e.to_string())?,
                Code::Injected => NoiseSource::insecure(7),
            };
            let (a, b) = (arrived(&some, NoiseSource::insecure(7)), arrived(&none, other));
            if a.len() != BATCHES || b.len() != BATCHES {
                return Err("the stream was refused".into());
            }
            // a record of exactly the clip norm may lose a step of 2^-20. Of secret noise each difference is as near as that with probability 2e-4 at most:
            // all four with 2e-15
            let exact = a.iter().zip(&b).filter(|(a, b)| ((*a - *b).abs() - APART).abs() < 1e-4).count();
            if exact < BATCHES { Ok(()) } else { Err(format!("all {exact} differences are those of the records")) }
        },
    )
}

/// Noise of sums of gradients that is drawn once and kept: the steps of what is played are exact.
fn kept_noise() -> InjectedFault {
    InjectedFault::counting(
        (
            "13.kept-noise",
            Altered,
            "the noise of the sum of gradients is drawn once and kept: two points that are played after another differ by the gradient between",
            "gradient of 1 in the second round, or nothing; the second noisy sum less the first",
        ),
        Claim::gaussian(1.0),
        (150, 4_000),
        |code, with, draws| {
            let gradient = f64::from(u8::from(with));
            match code {
                Code::Correct => {
                    // sums are those of the noisy gradients, so that the difference is the second of these
                    let all = arrived(&alone(&[1], with), source(draws));
                    all.get(1).copied().unwrap_or(f64::NAN)
                }
                Code::Injected => {
                    let noise = source(draws).stream(Purpose::Other(0), 0).uniform();
                    (gradient + noise) - noise
                }
            }
        },
    )
}

/// A sum that does not begin at 0: its rewards are in two noisy sums.
fn kept_sum() -> InjectedFault {
    let mechanism = sums();
    InjectedFault::counting(
        (
            "13.kept-sum",
            Shipped,
            "the rewards of an arm are kept for its next noisy sum, and each is accounted as in one",
            "reward of 1 or 0; 1{both noisy sums that it is in are at least 1}",
        ),
        Claim::pure(1.0),
        (1_500, 4_000),
        move |code, with, draws| {
            let Ok(mechanism) = &mechanism else { return f64::NAN };
            let reward = f64::from(u8::from(with));
            let second = code.pick(0.0, reward);
            let all = fresh(mechanism, &[vec![reward], vec![second]], draws);
            if all.len() == 2 { indicator(all.iter().all(|sum| *sum >= 1.0)) } else { f64::NAN }
        },
    )
}

pub(super) fn bugs() -> Vec<InjectedFault> {
    vec![twice(), realised_count(), copied_stream(), kept_noise(), kept_sum()]
}
