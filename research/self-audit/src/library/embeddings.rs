//! Embedding models from the plan to the released weights: all sums seen, noise drawn lazily, privately chosen rows.
//!
//! Steps are so small that the weights stay where they started: the canary's gradient has one direction, which is public.

use super::LibraryAudit;
use super::methods::{BUDGET, row};
use super::releases::TIGHT_RUNS;
use crate::worst_cases::embeddings::{chosen_rows, direction, one_row, towers};
use crate::worst_cases::methods::{Subject, descent, problem};
use dpopt_linear::{EmbeddingSgd, RowSelection};
use dpopt_mechanism::Sensitive;
use dpopt_objective::loss::Loss;
use dpopt_objective::loss::embedding::Embedding;
use dpopt_objective::objective::Embedded;
use dpopt_objective::records::Examples;

const ROWS: usize = 4;
const LOGISTIC: Loss = Loss::Logistic { shift: 0.0 };

/// Four steps of full batches, gradients far beyond the clip norm.
fn sgd(model: &Embedding, lazy: bool, selection: Option<RowSelection>) -> EmbeddingSgd {
    let mut descent = descent(4).descent;
    (descent.clip_norm, descent.learning_rate) = (Some(0.01), Some(1e-6));
    EmbeddingSgd {
        model: model.clone(),
        selection,
        sampling_probability: Some(1.0),
        lazy: Some(lazy),
        update: None,
        adaptive: Default::default(),
        descent,
    }
}

fn subject(sgd: EmbeddingSgd, features: usize, worlds: [Sensitive<Examples>; 2]) -> Subject<EmbeddingSgd> {
    Subject::new(sgd, problem(ROWS, features, LOGISTIC), BUDGET, worlds)
}

pub(super) fn audits() -> Vec<LibraryAudit> {
    let tight = (BUDGET.1, TIGHT_RUNS);
    let pair = || [false, true].map(|with| one_row(ROWS, 3, with));
    let model = towers();
    let along = direction(&model, 3, LOGISTIC);
    let seen = along.clone();
    let start = Embedded::new(model.clone(), LOGISTIC, 3, 1.0, 0).started(vec![0.0; along.len()]);
    let chosen = Embedding { dimension: 2, towers: None, seed: 1 };
    let selection = RowSelection { noise_ratio: Some(1.0), level: Some(0.125), ..RowSelection::default() };
    let chosen_subject =
        subject(sgd(&chosen, false, Some(selection)), 1, [false, true].map(|with| one_row(ROWS, 1, with)));
    let chosen_along = direction(&chosen, 1, LOGISTIC);
    // of the noisy count only the choice is let out, so this pair can't reach the claim
    vec![
        row(
            ("embedding-sgd, all sums seen", "two towers, canary clipped in all 4 steps; along its gradient"),
            subject(sgd(&model, false, None), 3, pair()),
            tight,
            move |_, _, view| view.seen.iter().map(|sum| inner(sum, &seen)).sum(),
        )
        .gaussian(),
        row(
            (
                "embedding-sgd, noise drawn lazily",
                "two towers, canary clipped in all 4 steps; weights along its gradient",
            ),
            subject(sgd(&model, true, None), 3, pair()),
            (BUDGET.1, 2 * TIGHT_RUNS),
            move |_, _, view| view.weights.iter().zip(&start).zip(&along).map(|((w, s), d)| (s - w) * d).sum::<f64>(),
        )
        .gaussian(),
        row(
            (
                "embedding-sgd, chosen rows",
                "sum of embeddings, canary's row chosen or not, 4 steps; exact log-likelihood ratio",
            ),
            chosen_subject,
            tight,
            move |_, s, view| {
                let Some(selection) = &s.selection else { return f64::NAN };
                view.seen.iter().map(|numbers| chosen_rows(numbers, (&s.descent, selection), &chosen_along)).sum()
            },
        ),
    ]
}

fn inner(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}
