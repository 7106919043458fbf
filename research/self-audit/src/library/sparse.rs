//! Methods for sparse gradients (Ghazi et al. 2024): output perturbation, the exponential mechanism over a net, bias-reduced SGD, and
//! their releases.
//!
//! Covers: sparse-v1 algorithm 3, algorithm 4, algorithm 5, algorithm 6
//! Covers: sparse-v2 algorithm 3, algorithm 4, algorithm 6, algorithm 7

use super::methods::{BUDGET, row};
use super::releases::TIGHT_RUNS;
use super::{LibraryAudit, Reach};
use crate::worst_cases::choices::largest_loss;
use crate::worst_cases::indicator;
use crate::worst_cases::methods::{Subject, alone, crowd, problem};
use crate::worst_cases::sparse::{Halves, Sketches, four_entries, halves_log_ratio};
use dpopt_linear::{SparseExponential, SparseOutputPerturbation};
use dpopt_mechanism::{AssumedRun, Curator, Mechanism, RandomStopping, RunScore};
use dpopt_methods::BiasReducedSgd;
use dpopt_noise::NoiseSource;
use dpopt_objective::loss::Loss;
use dpopt_privacy::{Budget, Neighbours, Relation};

/// Output perturbation whose ball does not touch the answer.
fn output(regularization: f64, shift: f64) -> SparseOutputPerturbation {
    SparseOutputPerturbation {
        regularization: Some(regularization),
        radius: Some(1e6),
        shift: Some(shift),
        ..SparseOutputPerturbation::default()
    }
}

pub(super) fn audits() -> Vec<LibraryAudit> {
    let mut rows = Vec::new();
    let logistic = Loss::Logistic { shift: 0.0 };
    rows.push(
        row(
            ("sparse-output-perturbation", "record of norm 1 against 999 of norm .05; weight"),
            Subject::new(output(5.0, 0.0), problem(1000, 1, logistic), BUDGET, crowd(1000, 0.05)),
            (BUDGET.1, TIGHT_RUNS),
            |_, _, view| view.weights[0],
        )
        .costly(),
    );
    rows.push(
        row(
            ("sparse-output-perturbation, pure", "record (1/2, 1/2, 1/2, 1/2) of slope 1; log-likelihood ratio"),
            Subject::new(output(5.0, 20.0), problem(4, 4, logistic), (2.0, 0.0), four_entries(4)),
            (0.0, 60_000),
            |_, s, view| {
                // each weight is shifted by 1/(2λ)
                let shift = 0.5 / s.regularization;
                view.weights.iter().map(|w| (w.abs() - (w - shift).abs()) / s.noise_scale).sum()
            },
        )
        .counting(0.8)
        .costly(),
    );

    let net = SparseExponential { radius: Some(1.0), support: Some(1), spacing: Some(1.0) };
    // gains of the absolute loss against target 1 at weights 0, 1, −1: 0, 1 and −1 units of L·D
    let reach = largest_loss(1.0, [&[0, 1, -1], &[0, 0, 0]]);
    rows.push(
        row(
            ("sparse-exponential", "record alone, weights -1, 0 and 1; the weight"),
            Subject::new(net, problem(4, 1, Loss::Absolute), (2.0, 0.0), alone(4)),
            (0.0, 200_000),
            |_, _, view| view.weights[0],
        )
        .counting(0.9)
        .reaching(Reach::Epsilon(reach))
        .costly(),
    );

    let sgd =
        BiasReducedSgd { steps: Some(4), learning_rate: Some(1e-3), radius: Some(1e3), ..BiasReducedSgd::default() };
    rows.push(
        row(
            ("bias-reduced-sgd", "canary among 8 records, 4 steps; mean of the iterates"),
            Subject::new(sgd, problem(8, 1, Loss::Absolute), BUDGET, alone(8)),
            (1e-2, 60_000),
            |_, _, view| view.weights[0],
        )
        .costly(),
    );

    // the batch is all records: no amplification, and the canary is in one half
    let z = 3.0;
    let halves = Halves::new(z);
    let event = halves.mechanism(z).event().sampled_without_replacement(128, 128);
    rows.push(
        LibraryAudit::new(
            "gradients of a batch and its halves",
            "canary in a batch of all 128 records and in one half; log-likelihood ratio",
            Ok(event),
            (1e-2, 40_000),
            move |with, draws| halves_log_ratio(halves.sums(with, z, draws), z, z),
        )
        .costly(),
    );

    let sketches = Sketches::new(20, 3, 1.0);
    let event = sketches.event();
    rows.push(
        LibraryAudit::new(
            "sum behind a random projection",
            "record alone, one entry, m = 20, the matrix seen; log-likelihood ratio",
            Ok(event),
            (1e-2, 40_000),
            move |with, draws| sketches.one(with, draws),
        )
        .costly(),
    );

    // δ below the smallest that audits look at: there the event has a finite ε
    let plan = Budget::new(3.0, 1e-9).map_err(|e| e.to_string()).and_then(|b| {
        RandomStopping::plan(5.0, Neighbours::of_records(Relation::ZeroOut).within(b)).map_err(|e| e.to_string())
    });
    let event = plan.as_ref().map(|p| p.certificate().event().clone()).map_err(Clone::clone);
    rows.push(
        LibraryAudit::new(
            "private selection, random stopping",
            "count 1 or 0 plus Laplace noise, the best of a geometric number of runs; its score",
            event,
            (1e-2, 100_000),
            move |with, draws| {
                let Ok(plan) = &plan else { return f64::NAN };
                let mut curator = Curator::new(plan.certificate(), NoiseSource::insecure(draws.word()));
                let scale = 1.0 / plan.run().epsilon();
                let best = plan.select_assumed(&mut curator, |_| {
                    let score = indicator(with) + draws.laplace(scale);
                    let run = RunScore { score, tie: draws.word() };
                    Ok::<_, dpopt_mechanism::CuratorError>(AssumedRun { run, output: score })
                });
                best.map_or(f64::NAN, |score| *score.get())
            },
        )
        .costly(),
    );
    rows
}
