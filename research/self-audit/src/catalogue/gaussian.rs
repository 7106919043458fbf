//! Faults of Gaussian releases that the ledger misdescribes. Values are in multiples of the clip norm C.

use super::Source::{Altered, Shipped};
use super::{Code, InjectedFault};
use crate::worst_cases::choices::RareLabel;
use crate::worst_cases::indicator;
use crate::worst_cases::noise::tree;
use crate::worst_cases::sums::{GradientSums, SumMechanism, canaries};
use dpopt_audit::statistics::Claim;
use dpopt_mechanism::LabelSelection;
use dpopt_privacy::{Budget, Event, Neighbours, Relation};

pub(super) fn bugs() -> Vec<InjectedFault> {
    let mut bugs = vec![InjectedFault::counting(
        (
            "20.5",
            Shipped,
            "tree of partial sums: one of 5 levels not counted",
            "a leaf of all 5 levels, sum of its nodes",
        ),
        Claim::gaussian(1.0),
        (12_000, 5_000),
        // a record is in one node per level: sensitivity √levels
        |code, with, draws| tree(5, code.pick(5f64, 4f64).sqrt(), with, draws),
    )];

    // the injected ledger foresees one release per step; the curator is opened for the two that are made
    let step = |noise: f64| GradientSums::new(Event::gaussian(noise).self_composed(2), 3, noise);
    let (right, wrong) = (step(2f64.sqrt()), step(1.0));
    let worlds = [0.0, 1.0].map(|t| canaries(3, 1, &[t]));
    bugs.push(InjectedFault::counting(
        ("20.8", Shipped, "two Gaussian releases in a step, one in the ledger", "sum of both"),
        Claim::gaussian(1.0),
        (1_050, 5_000),
        move |code, with, draws| {
            let sums = code.pick(&right, &wrong).release(&worlds[usize::from(with)], None, 2, draws);
            sums.map_or(f64::NAN, |g| g.iter().sum())
        },
    ));

    let sums = GradientSums::new(Event::gaussian(1.0).poisson_sampled(0.1), 1, 1.0);
    let worlds = [canaries(0, 1, &[]), canaries(1, 1, &[1.0])];
    bugs.push(InjectedFault::counting(
        // the neighbours are one record and none (add-or-remove): under zero-out the absent record keeps its place in the
        // batches, and an empty one tells nothing about it
        ("20.12", Altered, "an empty batch gets no noise (q = .1)", "canary alone in the data; 1{output is not 0}"),
        Claim::gaussian(1.0),
        (2_100, 3_000),
        move |code, with, draws| {
            let released = sums.batch(&worlds[usize::from(with)], 0.1, code == Code::Injected, draws);
            released.map_or(f64::NAN, |y| indicator(y != 0.0))
        },
    ));

    // 99 users at -S, clipped, and one at +S: the noisy sum over the public number of users, or an average over the realised one
    let mechanism = SumMechanism::new(2.0, 1);
    bugs.push(InjectedFault::counting(
        (
            "20.13",
            Altered,
            "federated average over the realised weight, noise for the sensitivity S/W_min of a public weight (it is 2S/W_min)",
            "all other users at -S, one user at +S",
        ),
        Claim::gaussian(0.5),
        (664, 4_000),
        move |code, with, draws| {
            let (others, unit) = (99i64, mechanism.clipped(&[1.0])[0]);
            let sum = i64::from(with) * unit - others * unit;
            let units = match code {
                Code::Correct => sum,
                // in units of S/W_min with W_min = 99
                Code::Injected => sum * others / (others + i64::from(with)),
            };
            mechanism.release(&[units], draws).first().map_or(f64::NAN, |y| *y)
        },
    ));

    // both releases of a step, each clipped to 1: the number of records in the bucket, then its gradient
    let (right, wrong) = (SumMechanism::new(2f64.sqrt(), 1), SumMechanism::new(1.0, 1));
    bugs.push(InjectedFault::counting(
        (
            "20.16",
            Shipped,
            "adaptive filtering of embeddings accounted with the gradient noise only (sigma1 = sigma2 = 1)",
            "bucket count plus gradient",
        ),
        Claim::gaussian(1.0),
        (1_050, 3_000),
        move |code, with, draws| {
            let mechanism = code.pick(&right, &wrong);
            let record = mechanism.clipped(&[indicator(with)]);
            (0..2).map(|_| mechanism.release(&record, draws).first().map_or(f64::NAN, |y| *y)).sum()
        },
    ));

    let mechanism = SumMechanism::new(1.0, 1);
    bugs.push(InjectedFault::counting(
        (
            "20.18",
            Altered,
            "buckets that no record touched get no count noise (threshold 3 sigma)",
            "canary alone; 1{bucket passes}",
        ),
        Claim::gaussian(1.0),
        (16_000, 1_500),
        move |code, with, draws| {
            if !with && code == Code::Injected {
                return 0.0;
            }
            let noisy = mechanism.release(&mechanism.clipped(&[indicator(with)]), draws);
            noisy.first().map_or(f64::NAN, |&y| indicator(y > 3.0))
        },
    ));

    let plan = Budget::new(1.0, 1e-8)
        .map_err(|e| e.to_string())
        .and_then(|b| {
            LabelSelection::plan(Neighbours::of_records(Relation::ZeroOut).within(b)).map_err(|e| e.to_string())
        })
        .map(RareLabel::new);
    let claim = plan
        .as_ref()
        .map_err(Clone::clone)
        .and_then(|p| Claim::reported(&p.event(), Relation::ZeroOut, super::DELTA).map_err(|e| e.to_string()));
    bugs.push(InjectedFault::counting(
        (
            "20.19",
            Altered,
            "labels chosen by their counts without noise",
            "a label around the threshold; 1{it is shown}",
        ),
        claim,
        (60, 3_000),
        move |code, with, draws| match (&plan, code) {
            (Err(_), _) => f64::NAN,
            (Ok(labels), Code::Correct) => labels.run(with, draws),
            (Ok(labels), Code::Injected) => labels.run_without_noise(with),
        },
    ));
    bugs
}
