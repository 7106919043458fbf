//! Adaptive descents: clip and noise in the shape of an ellipsoid, moments released before (Asi et al. 2021, Algorithms 2 and 3).
//!
//! A canary with one feature has a gradient along one axis, and is clipped to the end of that axis; the claim is tight for
//! every axis, whatever its length is.
//!
//! Covers: adaptive-gradients algorithm 1, algorithm 2, algorithm 3

use super::LibraryAudit;
use super::methods::{BUDGET, on_disk, row};
use super::releases::TIGHT_RUNS;
use crate::worst_cases::adaptive::{ROWS, anisotropic, axis, moments};
use crate::worst_cases::methods::{Subject, alone, coordinate, problem};
use dpopt_audit::attack::likelihood;
use dpopt_linear::{
    Adaptive, AdaptiveKind, AdaptiveOptions, AdaptiveSchedule, DpAdaGrad, DpAdam, MomentRelease, MomentSchedule,
    Moments, Pagan, PaganKind, Pasan, PasanKind, PdpSgd,
};
use dpopt_objective::loss::Loss;

/// Poisson batches of a method in a ball, all sums seen.
fn sampled<K: AdaptiveKind>(text: (&'static str, &'static str)) -> LibraryAudit {
    let options = AdaptiveOptions { moments: Some(Moments::None), ..AdaptiveOptions::default() };
    let method = Adaptive::<K>::new(Some(0.25), options, anisotropic(8));
    row(
        text,
        Subject::new(method, problem(ROWS, 1, Loss::Absolute), BUDGET, alone(ROWS)),
        (1e-2, 100_000),
        |_, s, view| {
            let s = &s.descent;
            likelihood::poisson(&coordinate(view.seen, 0, s.clip_norm), s.sampling_probability, s.noise_multiplier)
        },
    )
    .counting(0.5)
    .costly()
}

pub(super) fn audits() -> Vec<LibraryAudit> {
    let tight = (BUDGET.1, TIGHT_RUNS);
    let single = |text, j: usize| {
        row(text, axis(j, 1, BUDGET), tight, move |_, s, view| {
            coordinate(view.seen, j, s.descent.clip_norm).iter().sum()
        })
        .gaussian()
    };
    vec![
        single(("pagan, longest axis of an ellipsoid", "canary clipped to the axis, one step; its entry"), 0),
        single(("pagan, middle axis of an ellipsoid", "canary clipped to the axis, one step; its entry"), 1),
        single(("pagan, shortest axis of an ellipsoid", "canary clipped to the axis, one step; its entry"), 2),
        row(
            ("pagan, moments and sums seen", "canary in the moments and clipped in 4 steps; both by their information"),
            moments(Pagan::new(Some(1.0), AdaptiveOptions::default(), anisotropic(4)), BUDGET),
            tight,
            |_, s, view| moments_statistic(s, view.seen),
        )
        .gaussian()
        .costly(),
        row(
            ("pasan, moments and sums seen", "canary in the moments and clipped in 4 steps; both by their information"),
            moments(Pasan::new(Some(1.0), AdaptiveOptions::default(), anisotropic(4)), BUDGET),
            tight,
            |_, s, view| moments_statistic(s, view.seen),
        )
        .gaussian()
        .costly(),
        row(
            ("pagan, Euclidean clip", "canary clipped to the axis, one step; its entry"),
            Subject::new(
                Pagan::new(
                    Some(1.0),
                    AdaptiveOptions { euclidean_clip: true, ..AdaptiveOptions::default() },
                    anisotropic(4),
                ),
                problem(ROWS, 1, Loss::Absolute),
                BUDGET,
                alone(ROWS),
            ),
            tight,
            |_, s, view| coordinate(view.seen, 0, s.descent.clip_norm).iter().sum(),
        )
        .gaussian()
        .costly(),
        sampled::<PaganKind>((
            "pagan, q = .25, all sums seen",
            "canary clipped when sampled, 8 steps; exact log-likelihood ratio",
        )),
        sampled::<PasanKind>((
            "pasan, q = .25, all sums seen",
            "canary clipped when sampled, 8 steps; exact log-likelihood ratio",
        )),
        row(
            ("dp-adam, final weights", "canary clipped in the only step; the weight tells the sign of its entry"),
            Subject::new(
                DpAdam::new(Some(1.0), AdaptiveOptions::default(), anisotropic(1)),
                problem(ROWS, 1, Loss::Absolute),
                BUDGET,
                alone(ROWS),
            ),
            tight,
            |_, _, view| view.weights[0],
        )
        .costly(),
        row(
            ("pdp-sgd, matrix and sums seen", "canary in the matrix and clipped in 4 steps; both by their information"),
            moments(PdpSgd::new(Some(1.0), AdaptiveOptions::default(), anisotropic(4)), BUDGET),
            tight,
            |_, s, view| {
                let z = s.subspace.as_ref().and_then(|s| s.noise_multiplier).unwrap_or(f64::NAN);
                let sums = coordinate(&view.seen[1..], 0, s.descent.clip_norm);
                view.seen[0][0] / z.powi(2) + sums.iter().sum::<f64>() / s.descent.noise_multiplier.powi(2)
            },
        )
        .gaussian()
        .costly(),
        on_disk(
            ("dp-adagrad, all sums seen, rows on disk", "canary clipped in all 4 steps; sum of its coordinate"),
            Subject::new(
                DpAdaGrad::new(Some(1.0), AdaptiveOptions::default(), anisotropic(4)),
                problem(ROWS, 1, Loss::Absolute),
                BUDGET,
                alone(ROWS),
            ),
            tight,
            |s, view| coordinate(view.seen, 0, s.descent.clip_norm).iter().sum(),
        )
        .gaussian()
        .costly(),
    ]
}

/// Moments first, then sums, each weighted by what it tells.
fn moments_statistic(s: &AdaptiveSchedule, seen: &[Vec<f64>]) -> f64 {
    let (first, sums) = match &s.moments {
        MomentSchedule::Private { release: MomentRelease::Direct { noise_multiplier }, .. } => {
            (seen[0][0] / noise_multiplier.powi(2), &seen[1..])
        }
        _ => (f64::NAN, seen),
    };
    let descent = &s.descent;
    first + coordinate(sums, 0, descent.clip_norm).iter().sum::<f64>() / descent.noise_multiplier.powi(2)
}
