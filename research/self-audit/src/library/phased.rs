//! Phased SGD (docs/proofs/phased-sgd.md): the mean of a phase, and both means of two.
//!
//! Covers: thesis algorithm 43

use super::LibraryAudit;
use super::methods::{BUDGET, row};
use super::releases::TIGHT_RUNS;
use crate::worst_cases::methods::{Subject, alone, problem};
use dpopt_methods::PhasedSgd;
use dpopt_objective::loss::Loss;

/// Half of the largest slope, which a logistic loss has at 0: the first step is as long as the clip allows.
pub(crate) fn phased(phases: u64) -> PhasedSgd {
    PhasedSgd {
        phases: Some(phases),
        learning_rate: Some(1.0),
        clip_norm: Some(0.5),
        radius: Some(1e3),
        ..PhasedSgd::default()
    }
}

pub(super) fn audits() -> Vec<LibraryAudit> {
    let logistic = Loss::Logistic { shift: 0.0 };
    vec![
        row(
            ("phased-sgd", "record alone in its phase, its step at the clip norm; weight"),
            Subject::new(phased(1), problem(1, 1, logistic), BUDGET, alone(1)),
            (BUDGET.1, TIGHT_RUNS),
            |_, _, view| view.weights[0],
        )
        .gaussian(),
        row(
            (
                "phased-sgd, two phases",
                "record in the first or in the second, by a coin, both means seen; each over its noise, added up",
            ),
            Subject::new(phased(2), problem(2, 1, logistic), BUDGET, alone(2)),
            (1e-2, 100_000),
            |_, s, view| {
                let points = &view.seen[0];
                points[0] / s.noise_stds[0] + (points[1] - points[0]) / s.noise_stds[1]
            },
        )
        .costly(),
    ]
}
