//! Faults of running sums that begin anew: one tree for all of them, a node that is forgotten, a batch that is smaller than its clip says (Liu 2024,
//! Algorithms 20 and 21; docs/proofs/restarted-sums.md).
//!
//! Covers: thesis algorithm 21, algorithm 22 (07.restart-tree, 07.last-node, 07.short-batch)

use super::Source::{Altered, Shipped};
use super::{Code, InjectedFault};
use crate::worst_cases::indicator;
use crate::worst_cases::restarted::{matched, plan, run};
use crate::worst_cases::streams::one_tree;
use dpopt_audit::statistics::Claim;
use dpopt_privacy::Relation;

/// Trees of 4 leaves have 3 nodes above a leaf. One tree goes on through all of 24 leaves, and the sum with leaf 13 in it is taken back at leaf 17: 7 nodes move.
fn one_tree_for_all() -> InjectedFault {
    let (leaves, steps, place) = (4, 24, 12);
    let sums = plan(leaves, steps, 1.0, Relation::ZeroOut);
    InjectedFault::counting(
        (
            "07.restart-tree",
            Altered,
            "a sum that is restarted every 4 leaves under one tree, accounted as trees of 4",
            "canary in the first leaf of the fourth sum; the nodes that it moves",
        ),
        Claim::gaussian(1.0),
        (2_200, 30_000),
        move |code, with, draws| {
            let own = place as usize..(place + leaves) as usize;
            let record = f64::from(u8::from(with));
            match code {
                Code::Correct => match run(&sums, place, record, draws) {
                    seen if seen.len() == steps as usize => matched(&seen[own], |_| 1.0),
                    _ => f64::NAN,
                },
                Code::Injected => {
                    let inside = |t: usize| own.contains(&(t - 1));
                    let prefix = |t: usize| i64::from(with && inside(t));
                    let seen = one_tree(3f64.sqrt(), steps as usize, prefix, draws);
                    matched(&seen, |t| f64::from(u8::from(inside(t))))
                }
            }
        },
    )
}

/// Nodes from half the length down: the prefix of all 8 leaves has the noise of the prefix of 7.
fn forgotten_node() -> InjectedFault {
    let sums = plan(8, 8, 1.0, Relation::ZeroOut);
    InjectedFault::counting(
        (
            "07.last-node",
            Altered,
            "the node of all 8 leaves is forgotten: the last sum has the noise of the one before",
            "canary in the last leaf; 1{the last two sums differ by exactly it}",
        ),
        Claim::gaussian(1.0),
        (40, 3_000),
        move |code, with, draws| {
            let mut seen = run(&sums, 7, f64::from(u8::from(with)), draws);
            if seen.len() != 8 {
                return f64::NAN;
            }
            if code == Code::Injected {
                seen[7] = seen[6] + f64::from(u8::from(with));
            }
            indicator((seen[7] - seen[6] - 1.0).abs() < 1e-9)
        },
    )
}

/// A cap on batches halves one, and the clip of what a record adds to a mean is not halved with it.
fn short_batch() -> InjectedFault {
    let [correct, injected] = [1.0, 0.5].map(|z| plan(8, 8, z, Relation::ZeroOut));
    InjectedFault::counting(
        (
            "07.short-batch",
            Shipped,
            "a batch of half the size that the clip was made for: a record adds twice as much to its mean",
            "canary in the first of 8 leaves; the nodes that hold it",
        ),
        Claim::gaussian(1.0),
        (561, 20_000),
        move |code, with, draws| {
            let seen = run(code.pick(&correct, &injected), 0, f64::from(u8::from(with)), draws);
            if seen.len() == 8 { matched(&seen, |_| 1.0) } else { f64::NAN }
        },
    )
}

pub(super) fn bugs() -> Vec<InjectedFault> {
    vec![one_tree_for_all(), forgotten_node(), short_batch()]
}
