//! Hard-thresholded descent: the iterates are all that is released, so the attacks read them (docs/proofs/hard-thresholding.md).
//!
//! With one feature every noisy step can be computed back from the iterates, and the claim is tight; with several, what the
//! threshold hides is lost to the attacker.
//!
//! Covers: hard-thresholding algorithm 1, algorithm 2

use super::LibraryAudit;
use super::methods::{BUDGET, row};
use super::releases::TIGHT_RUNS;
use crate::worst_cases::methods::{Subject, alone, problem};
use crate::worst_cases::sums::canaries;
use dpopt_audit::attack::likelihood;
use dpopt_linear::{
    DpGdHt, DpScsgHt, DpSgdHt, DpSvrgHt, HardThresholdSchedule, InnerSteps, SparseOptions, VarianceOptions,
    VarianceReducedSchedule,
};
use dpopt_objective::loss::Loss;
use dpopt_optimize::Algorithm;

/// Records of the small problems; only the first is ever present.
const ROWS: usize = 4;

/// Steps so small that the gradient of the absolute loss never turns.
fn sparse(steps: u64, refit_share: f64) -> SparseOptions {
    SparseOptions {
        max_features: Some(1),
        steps: Some(steps),
        learning_rate: Some(1e-3),
        refit_share: Some(refit_share),
        ..SparseOptions::default()
    }
}

/// On one feature, the record alone or nothing.
fn tight<A: Algorithm>(algorithm: A) -> Subject<A> {
    Subject::new(algorithm, problem(ROWS, 1, Loss::Absolute), BUDGET, alone(ROWS))
}

/// The noisy gradient sums behind a sequence of iterates from 0, in units of C; larger with the canary.
fn sums(iterates: &[Vec<f64>], s: &HardThresholdSchedule) -> Vec<f64> {
    let scale = s.learning_rate / (s.sampling_probability * ROWS as f64) * s.clip_norm;
    let mut before = 0.0;
    iterates.iter().map(|x| (x[0] - std::mem::replace(&mut before, x[0])) / scale).collect()
}

/// All noisy sums of a variance-reduced run, snapshots and inner steps, weighted by their information.
fn reduced(seen: &[Vec<f64>], s: &VarianceReducedSchedule) -> f64 {
    let mut releases = seen.iter();
    let mut total = 0.0;
    for &inner in &s.inner_steps {
        let snapshot = releases.next().map_or(f64::NAN, |v| -v[0] / s.clip_norm);
        total += snapshot / s.snapshot_multiplier.powi(2);
        for _ in 1..inner {
            // the canary's gradient does not turn, so differences are pure noise: nothing to see
            releases.next();
        }
    }
    total
}

pub(super) fn audits() -> Vec<LibraryAudit> {
    let bound = (BUDGET.1, TIGHT_RUNS);
    let mut rows = vec![
        row(
            (
                "dp-gd-ht, all iterates seen",
                "canary clipped in all 4 steps, one feature; the noisy sums behind the iterates",
            ),
            tight(DpGdHt { sparse: sparse(4, 0.0) }),
            bound,
            |_, s, view| likelihood::gaussian(&sums(view.seen, s)),
        )
        .gaussian(),
        row(
            (
                "dp-gd-ht, second fit seen",
                "canary clipped in both stages, one feature; sums of both, by their information",
            ),
            tight(DpGdHt { sparse: sparse(4, 0.5) }),
            bound,
            |_, s, view| {
                let first = likelihood::gaussian(&sums(&view.seen[..s.steps as usize], s)) / s.noise_multiplier.powi(2);
                let second = s.refit.as_ref().map_or(f64::NAN, |r| {
                    view.seen[s.steps as usize..].iter().map(|v| -v[0] / r.clip_norm).sum::<f64>()
                        / r.noise_multiplier.powi(2)
                });
                first + second
            },
        )
        .gaussian()
        .costly(),
        row(
            (
                "dp-gd-ht, one of 1000 features",
                "canary in one coordinate, one step, by entries; its weight, 0 where it is dropped",
            ),
            Subject::new(
                DpGdHt { sparse: sparse(1, 0.0) },
                problem(ROWS, 1000, Loss::Absolute),
                BUDGET,
                [canaries(ROWS, 1000, &[0.0]), canaries(ROWS, 1000, &[1.0])],
            )
            .altered(HardThresholdSchedule::by_entries),
            bound,
            |_, _, view| view.weights[0],
        )
        .costly(),
        row(
            (
                "dp-sgd-ht, q = .25, all iterates seen",
                "canary clipped when sampled, 8 steps; exact log-likelihood ratio",
            ),
            tight(DpSgdHt { sampling_probability: Some(0.25), sparse: sparse(8, 0.0) }),
            (1e-2, 100_000),
            |_, s, view| likelihood::poisson(&sums(view.seen, s), s.sampling_probability, s.noise_multiplier),
        )
        .counting(0.5)
        .costly(),
    ];
    let variance = VarianceOptions { difference_clip: Some(0.5), sampling_probability: Some(0.5) };
    rows.push(
        row(
            (
                "dp-svrg-ht, all sums seen",
                "canary clipped in all snapshots, one feature; snapshots by their information",
            ),
            tight(DpSvrgHt { variance: variance.clone(), sparse: sparse(4, 0.0) }),
            bound,
            |_, s, view| reduced(view.seen, s),
        )
        .costly(),
    );
    rows.push(
        row(
            (
                "dp-scsg-ht, all sums seen",
                "canary clipped in snapshots when sampled, one feature; snapshots by their information",
            ),
            tight(DpScsgHt {
                inner: InnerSteps::Geometric,
                snapshot_probability: Some(0.8),
                variance,
                sparse: sparse(4, 0.0),
            }),
            bound,
            |_, s, view| reduced(view.seen, s),
        )
        .costly(),
    );
    rows
}
