//! Faults of batches: what the event says about sampling and what the code does.
//!
//! The batches and the noise are the library's own but for batches of fixed size and shuffles, which it does not have.

use super::Source::{Altered, Shipped};
use super::{Code, DELTA, InjectedFault};
use crate::worst_cases::indicator;
use crate::worst_cases::noise::{Batches, Correlated};
use dpopt_audit::attack::likelihood;
use dpopt_audit::draws::Draws;
use dpopt_audit::statistics::Claim;
use dpopt_noise::correlated::{Factor, Participation};
use dpopt_privacy::{Event, Relation};

/// What the accountants certify for T Poisson batches under zero-out.
fn poisson_claim(q: f64, noise_multiplier: f64, steps: u64) -> Result<Claim, String> {
    let event = Event::gaussian(noise_multiplier).poisson_sampled(q).self_composed(steps);
    Claim::reported(&event, Relation::ZeroOut, DELTA).map_err(|e| e.to_string())
}

/// All of a run's noisy sums with one batch drawn at the start and kept (injected), or one batch per sum.
fn kept_batch(batches: &Batches, steps: usize, code: Code, with: bool, draws: &mut Draws) -> f64 {
    let kept = batches.enters(draws);
    let all = batches.sums(steps, draws, |_, d| indicator(with && code.pick(batches.enters(d), kept)));
    likelihood::gaussian(&all)
}

pub(super) fn bugs() -> Vec<InjectedFault> {
    let mut bugs = Vec::new();

    let (right, wrong) = (Batches::new(0.01, 1.0), Batches::new(0.02, 1.0));
    bugs.push(InjectedFault::counting(
        (
            "20.24",
            Shipped,
            "the sampler uses 2q (q = .01, sigma = 1, T = 100)",
            "exact log-likelihood ratio of the noisy sums",
        ),
        poisson_claim(0.01, 1.0, 100),
        (9_900, 20_000),
        move |code, with, draws| {
            let batches = code.pick(&right, &wrong);
            let sums = batches.sums(100, draws, |_, d| indicator(batches.enters(d) && with));
            likelihood::poisson(&sums, 0.01, 1.0)
        },
    ));

    let batches = Batches::new(0.01, 5.0);
    bugs.push(InjectedFault::counting(
        (
            "20.25",
            Shipped,
            "the Poisson batch is drawn once and kept (q = .01, sigma = 5, T = 100)",
            "sum over all steps",
        ),
        poisson_claim(0.01, 5.0, 100),
        (98_000, 20_000),
        move |code, with, draws| kept_batch(&batches, 100, code, with, draws),
    ));

    let batches = Batches::new(0.1, 1.0);
    bugs.push(InjectedFault::counting(
        (
            "18.shared-sample",
            Shipped,
            "four releases on one Poisson batch accounted as four batches (q = .1, sigma = 1)",
            "sum of the releases",
        ),
        poisson_claim(0.1, 1.0, 4),
        (9_500, 800),
        move |code, with, draws| kept_batch(&batches, 4, code, with, draws),
    ));

    // the injected ledger forgets that the slot of the missing record is filled by another one: 2C, not C
    let batches = Batches::new(0.1, 2.0);
    bugs.push(InjectedFault::counting(
        (
            "20.26",
            Altered,
            "batches of fixed size accounted with the halved Poisson event (q = .1, T = 64)",
            "all others at -C, log-likelihood ratio",
        ),
        poisson_claim(0.1, 2.0, 64),
        (7_800, 15_000),
        move |code, with, draws| {
            // fixed size: a drawn canary takes the slot of a record at -C, and zeroed it still takes it
            let inside = code.pick(0.0, 1.0) + indicator(with);
            let all = batches.sums(64, draws, |_, d| if batches.enters(d) { inside } else { 0.0 });
            match code {
                Code::Correct => likelihood::poisson(&all, 0.1, 2.0),
                Code::Injected => likelihood::without_replacement(&all, 0.1, 2.0),
            }
        },
    ));

    for (number, statistic, runs, others) in [
        ("20.27", "all others at -C, log-likelihood ratio of the shuffle", 106, 1.0),
        ("20.27b", "all others at 0, log-likelihood ratio of the shuffle", 45_000, 0.0),
    ] {
        let batches = Batches::new(1.0 / 64.0, 0.5);
        bugs.push(InjectedFault::counting(
            (number, Altered, "a shuffled epoch accounted as Poisson batches (T = 64, sigma = .5)", statistic),
            poisson_claim(1.0 / 64.0, 0.5, 64),
            (runs, 15_000),
            move |code, with, draws| {
                let chosen = draws.below(64);
                let all = batches.sums(64, draws, |t, d| match code {
                    Code::Correct => indicator(batches.enters(d) && with),
                    Code::Injected if t == chosen => others + indicator(with),
                    Code::Injected => 0.0,
                });
                likelihood::shuffle(&all, 1.0, 0.5)
            },
        ));
    }

    let batches = Batches::new(0.01, 1.0);
    bugs.push(InjectedFault::counting(
        ("20.28", Altered, "the first record is in every batch (q = .01, sigma = 1, T = 100)", "sum over all steps"),
        poisson_claim(0.01, 1.0, 100),
        (23, 20_000),
        move |code, with, draws| {
            likelihood::gaussian(
                &batches.sums(100, draws, |_, d| indicator(with && (code == Code::Injected || batches.enters(d)))),
            )
        },
    ));

    let batches = Batches::new(0.1, 1.0);
    bugs.push(InjectedFault::counting(
        (
            "20.29",
            Altered,
            "gradient divided by the realised batch size, noise for the expected one (q = .1, n = 20, sigma = 1)",
            "one step, all other gradients 0",
        ),
        poisson_claim(0.1, 1.0, 1),
        (750_000, 600),
        move |code, with, draws| {
            // in units of C over the expected size qn = 2
            let others = 19;
            let canary = batches.enters(draws);
            let mut size = indicator(canary);
            if code == Code::Injected {
                for _ in 0..others {
                    size += indicator(draws.coin(0.1));
                }
            }
            let expected = 2.0;
            let share = code.pick(1.0, expected / size.max(1.0));
            batches.release(indicator(canary && with) * share, draws)
        },
    ));

    let banded = Factor::square_root(4).ok().map(|factor| {
        let run = Correlated::new(factor.clone(), 2.0 * factor.sensitivity(100, Participation::Single), 100);
        let weights = run.everywhere();
        (run, weights)
    });
    let batches = Batches::new(0.1, 1.0);
    bugs.push(InjectedFault::counting(
        (
            "20.41",
            Shipped,
            "banded noise: every record sampled at every step instead of in its class (b = 4, T = 100, q = .1, sigma = 2)",
            "sum over t of y_t (C1)_t",
        ),
        // one record is in one of 4 classes: 25 independent chances, each one Gaussian of a whole normalised column
        poisson_claim(0.1, 2.0, 25),
        (426, 60_000),
        move |code, with, draws| {
            let Some((run, weights)) = &banded else { return f64::NAN };
            let taken: Vec<bool> =
                (0..100).map(|t| with && code.pick(t % 4 == 0, true) && batches.enters(draws)).collect();
            run.weighted(&taken, weights, draws)
        },
    ));
    bugs
}
