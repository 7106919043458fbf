//! Faults of training over a stream and of lazily noised runs: epochs, trees, batches, pending gradients, run boundaries
//! (docs/proofs/correlated.md, docs/proofs/lazy-noise.md). The correct code is the shipped stream and the shipped lazy iterate.
//!
//! Covers: thesis algorithm 20, theorem 7.2.2, proposition 8.2.5 (07.stale-prefix, 07.one-tree)
//! Covers: thesis algorithm 21 (07.one-tree)

use super::Source::{Altered, Shipped};
use super::{Code, InjectedFault};
use crate::worst_cases::indicator;
use crate::worst_cases::noise::{lazy, lazy_average};
use crate::worst_cases::streams::{Filter, Stream, one_tree, shape, tree_nodes};
use dpopt_audit::statistics::Claim;
use dpopt_mechanism::Correlation;

/// A claim of μ = 1 on a shipped stream, or what is wrong with it.
type Built = Result<(Stream, Filter), String>;

fn stream(correlation: Correlation, batches: usize, epochs: usize, taken: &[usize]) -> Built {
    let shape = shape(correlation, batches, epochs);
    Ok((Stream::new(shape, 1.0), Filter::new(shape, taken)?))
}

/// One tree for all four epochs of four batches, noised as four trees of depth 3.
fn tree_of_all_epochs() -> InjectedFault {
    let taken = [1, 5, 9, 13];
    let built = stream(Correlation::Tree, 4, 4, &[0, 4, 8, 12]);
    InjectedFault::counting(
        (
            "07.one-tree",
            Altered,
            "one tree across 4 epochs, accounted as a fresh one for each",
            "canary in the first of 4 batches; the nodes that hold it, each as often as it does",
        ),
        Claim::gaussian(1.0),
        (561, 30_000),
        move |code, with, draws| {
            let Ok((stream, filter)) = &built else { return f64::NAN };
            match code {
                Code::Correct => filter.apply(&stream.run(with, |_| 0, draws)),
                Code::Injected => {
                    let prefix = |t: usize| if with { taken.iter().filter(|&&s| s <= t).count() as i64 } else { 0 };
                    tree_nodes(&one_tree(12f64.sqrt(), 16, prefix, draws), &taken)
                }
            }
        },
    )
}

/// A fresh tree in the second epoch, over a prefix sum that still holds the first.
fn prefix_not_reset() -> InjectedFault {
    let built = stream(Correlation::Tree, 8, 2, &[0, 8]);
    InjectedFault::counting(
        (
            "07.stale-prefix",
            Altered,
            "a fresh tree per epoch, but the prefix sum is not reset with it",
            "canary in the first of 8 batches, 2 epochs; the nodes that hold it, twice those of the second tree",
        ),
        Claim::gaussian(1.0),
        (561, 30_000),
        move |code, with, draws| {
            let Ok((stream, filter)) = &built else { return f64::NAN };
            match code {
                Code::Correct => filter.apply(&stream.run(with, |_| 0, draws)),
                Code::Injected => [1i64, 2]
                    .iter()
                    .map(|&held| {
                        let prefixes = one_tree(8f64.sqrt(), 8, |_| if with { held } else { 0 }, draws);
                        held as f64 * tree_nodes(&prefixes, &[1])
                    })
                    .sum(),
            }
        },
    )
}

/// Three epochs under noise for one.
fn epochs_counted_once() -> InjectedFault {
    let (one, three) = (shape(Correlation::Banded, 8, 1), shape(Correlation::Banded, 8, 3));
    let built = || -> Result<([Stream; 2], Filter), String> {
        let sensitivity = |s: dpopt_mechanism::StreamShape| s.sensitivity().map_err(|e| e.to_string());
        let share = sensitivity(one)? / sensitivity(three)?;
        Ok(([1.0, share].map(|z| Stream::new(three, z)), Filter::new(three, &[0, 8, 16])?))
    }();
    InjectedFault::counting(
        (
            "07.epochs-once",
            Shipped,
            "a stream of three epochs with the noise of one",
            "canary in the first of 8 batches, banded noise; matched filter",
        ),
        Claim::gaussian(1.0),
        (369, 40_000),
        move |code, with, draws| {
            let Ok((streams, filter)) = &built else { return f64::NAN };
            filter.apply(&streams[code.pick(0, 1)].run(with, |_| 0, draws))
        },
    )
}

/// The batches of the second epoch in another order: the last of the first epoch comes first.
fn reshuffled() -> InjectedFault {
    let built = [[0, 8], [7, 8]].map(|taken| stream(Correlation::Banded, 8, 2, &taken));
    InjectedFault::counting(
        (
            "07.reshuffled",
            Shipped,
            "batches reshuffled between epochs, accounted as one epoch apart",
            "canary in the last batch, then in the first; banded noise; matched filter",
        ),
        Claim::gaussian(1.0),
        (2_380, 30_000),
        move |code, with, draws| {
            let Ok((stream, filter)) = &built[code.pick(0, 1)] else { return f64::NAN };
            filter.apply(&stream.run(with, |epoch| code.pick(0, 7 * (1 - epoch)), draws))
        },
    )
}

pub(super) fn bugs() -> Vec<InjectedFault> {
    vec![
        tree_of_all_epochs(),
        prefix_not_reset(),
        epochs_counted_once(),
        reshuffled(),
        InjectedFault::counting(
            (
                "19.lazy-own-noise",
                Altered,
                "a pending gradient enters without the noise of its own step",
                "coordinate touched in the only step; 1{it moved by exactly the gradient}",
            ),
            Claim::gaussian(1.0),
            (40, 3_000),
            |code, with, draws| {
                let moved = lazy(1, 1.0, &[0], with, draws);
                // injected: the noise of that step is left to coordinates that it did not touch
                let weight = if with { code.pick(moved, 1.0) } else { moved };
                indicator(weight == 1.0)
            },
        ),
        InjectedFault::counting(
            (
                "19.lazy-boundary",
                Shipped,
                "a run's last flush skipped: noise owed from before the averaged half is lost",
                "coordinate touched in the first averaged step (8 of 16); the average",
            ),
            // the noises of 8 steps, and of 8 averaged ones: Σ (i/8)² = 3.1875
            Claim::gaussian(11.1875f64.powf(-0.5)),
            (2_300, 4_000),
            |code, with, draws| lazy_average(code.pick(8, 0), 8, with, draws),
        ),
    ]
}
