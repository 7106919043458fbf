//! Bugs of batches: what the event says about sampling and what the code does (spec 20 §1.5, 18 §1.1).

use super::correlated::{banded_root, correlated_run};
use super::{Code, PlantedBug, indicator};
use crate::audit::attack::likelihood;
use crate::audit::draws::Draws;
use crate::audit::statistics::Claim;
use dpopt_privacy::{Event, Relation, accountant};

/// What the accountants certify for T Poisson batches under zero-out.
fn poisson_claim(q: f64, noise_multiplier: f64, steps: u64) -> Result<Claim, String> {
    let event = Event::gaussian(noise_multiplier).poisson_sampled(q).self_composed(steps);
    // 40 points down to δ = 1e-7 (audits can't see smaller δ), and the reported δ itself
    let curve = Claim::of_event(&event, Relation::ZeroOut, 40, 1e-7).map_err(|e| e.to_string())?;
    let reported = accountant::epsilon(&event, Relation::ZeroOut, 1e-5).map_err(|e| e.to_string())?.upper;
    Ok(match curve {
        Claim::Profile { mut points } => {
            points.push((reported, 1e-5));
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            Claim::Profile { points }
        }
        other => other,
    })
}

/// The canary's coordinate of T noisy sums; `in_batch` decides step by step.
fn sums(steps: usize, noise: f64, draws: &mut Draws, mut contribution: impl FnMut(usize, &mut Draws) -> f64) -> Vec<f64> {
    (0..steps)
        .map(|t| {
            let c = contribution(t, draws);
            c + noise * draws.gaussian()
        })
        .collect()
}

pub(super) fn bugs() -> Vec<PlantedBug> {
    let mut bugs = Vec::new();

    bugs.push(PlantedBug::counting_event(
        "20.24",
        "the sampler uses 2q (q = .01, sigma = 1, T = 100)",
        "exact log-likelihood ratio of the noisy sums",
        poisson_claim(0.01, 1.0, 100),
        (9_900, 300),
        |code, with, draws| {
            let q = code.pick(0.01, 0.02);
            likelihood::poisson(&sums(100, 1.0, draws, |_, d| indicator(with && d.coin(q))), 0.01, 1.0)
        },
    ));

    bugs.push(PlantedBug::counting_event(
        "20.25",
        "the Poisson batch is drawn once and kept (q = .01, sigma = 5, T = 100)",
        "sum over all steps",
        poisson_claim(0.01, 5.0, 100),
        (98_000, 200),
        |code, with, draws| {
            let kept = draws.coin(0.01);
            let all = sums(100, 5.0, draws, |_, d| indicator(with && code.pick(d.coin(0.01), kept)));
            likelihood::gaussian(&all)
        },
    ));

    bugs.push(PlantedBug::counting_event(
        "18.shared-sample",
        "four releases on one Poisson batch accounted as four batches (q = .1, sigma = 1)",
        "sum of the releases",
        poisson_claim(0.1, 1.0, 4),
        (9_500, 5),
        |code, with, draws| {
            let kept = draws.coin(0.1);
            likelihood::gaussian(&sums(4, 1.0, draws, |_, d| indicator(with && code.pick(d.coin(0.1), kept))))
        },
    ));

    bugs.push(PlantedBug::counting_event(
        "20.26",
        "batches of fixed size accounted with the halved Poisson event (q = .1, T = 64)",
        "all others at -C, log-likelihood ratio",
        poisson_claim(0.1, 2.0, 64),
        (7_800, 200),
        |code, with, draws| {
            // the planted ledger forgets that the slot of the missing record is filled by another one: 2C, not C
            let noise = code.pick(4.0, 2.0);
            let mean = if with { 2.0 } else { 1.0 };
            let all = sums(64, noise, draws, |_, d| if d.coin(0.1) { mean } else { 0.0 });
            likelihood::without_replacement(&all, 0.1, noise)
        },
    ));

    for (number, statistic, runs, others) in [
        ("20.27", "all others at -C, log-likelihood ratio of the shuffle", 106, true),
        ("20.27b", "all others at 0, log-likelihood ratio of the shuffle", 33_000, false),
    ] {
        bugs.push(PlantedBug::counting_event(
            number,
            "a shuffled epoch accounted as Poisson batches (T = 64, sigma = .5)",
            statistic,
            poisson_claim(1.0 / 64.0, 0.5, 64),
            (runs, 200),
            move |code, with, draws| {
                let chosen = draws.below(64);
                let all = match code {
                    Code::Correct => sums(64, 0.5, draws, |_, d| indicator(d.coin(1.0 / 64.0) && with)),
                    Code::Planted => {
                        let mean = if others { 1.0 + indicator(with) } else { indicator(with) };
                        sums(64, 0.5, draws, |t, _| if t == chosen { mean } else { 0.0 })
                    }
                };
                likelihood::shuffle(&all, 1.0, 0.5)
            },
        ));
    }

    bugs.push(PlantedBug::counting_event(
        "20.28",
        "the first record is in every batch (q = .01, sigma = 1, T = 100)",
        "sum over all steps",
        poisson_claim(0.01, 1.0, 100),
        (23, 200),
        |code, with, draws| {
            likelihood::gaussian(&sums(100, 1.0, draws, |_, d| indicator(with && code.pick(d.coin(0.01), true))))
        },
    ));

    bugs.push(PlantedBug::counting_event(
        "20.29",
        "gradient divided by the realised batch size, noise for the expected one (q = .1, n = 20, sigma = 1)",
        "one step, all other gradients 0",
        poisson_claim(0.1, 1.0, 1),
        (750_000, 21),
        |code, with, draws| {
            let (q, others) = (0.1, 19);
            let expected = q * f64::from(others + 1);
            let canary = draws.coin(q);
            let mut size = f64::from(u8::from(canary));
            for _ in 0..others {
                size += indicator(draws.coin(q));
            }
            let divisor = code.pick(expected, size.max(1.0));
            indicator(canary && with) / divisor + draws.gaussian() / expected
        },
    ));

    bugs.push(PlantedBug::counting_event(
        "20.41",
        "banded noise: every record sampled at every step instead of in its class (b = 4, T = 100, q = .1, sigma = 2)",
        "sum over t of y_t (C1)_t",
        // one record is in one of 4 classes: 25 independent chances, each one Gaussian of a whole normalised column
        poisson_claim(0.1, 2.0, 25),
        (426, 400),
        |code, with, draws| {
            let c = banded_root(4);
            let participates: Vec<bool> =
                (0..100).map(|t| draws.coin(0.1) && with && code.pick(t % 4 == 0, true)).collect();
            let y = correlated_run(&c, &participates, 2.0, draws);
            let mut reach = 0.0;
            y.iter()
                .enumerate()
                .map(|(t, value)| {
                    reach += c.get(t).copied().unwrap_or(0.0);
                    value * reach
                })
                .sum()
        },
    ));
    bugs
}
