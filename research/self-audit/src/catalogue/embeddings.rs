//! Faults of embedding models and of privately chosen rows (Ghazi et al. 2023; docs/proofs/embeddings.md).

use super::Source::{Altered, Shipped};
use super::{Code, InjectedFault};
use crate::worst_cases::embeddings::one_row;
use crate::worst_cases::indicator;
use crate::worst_cases::methods::{Subject, descent, problem};
use crate::worst_cases::sums::SumMechanism;
use dpopt_audit::draws::Draws;
use dpopt_audit::statistics::Claim;
use dpopt_draws::Exceedances;
use dpopt_linear::{EmbeddingSgd, RowSelection};
use dpopt_noise::{Grid, RoundedGaussian};
use dpopt_objective::loss::Loss;
use dpopt_objective::loss::embedding::Embedding;

/// log2 of counts per unit.
const GRID: i32 = 10;

/// A row that nobody touched is never chosen.
fn untouched_rows() -> InjectedFault {
    let level = RoundedGaussian::new(1.0, Grid::new(-GRID)).ok().and_then(|noise| Exceedances::new(noise, 24));
    InjectedFault::counting(
        (
            "20.5-untouched",
            Altered,
            "only touched features can be chosen (level 3 sigma)",
            "the only record that touches feature 7 of 1000; 1{7 is chosen}",
        ),
        Claim::gaussian(1.0),
        (16_000, 1_500),
        move |code, with, draws| {
            let Some(level) = &level else { return f64::NAN };
            let touched = [(7, 1i64 << GRID)];
            let touched = if with { &touched[..] } else { &[] };
            let chosen = match code {
                Code::Correct => level.draw(1000, touched, draws.noise()),
                // indices among the touched ones
                Code::Injected => level.draw(
                    touched.len() as u64,
                    &touched.iter().map(|t| (0, t.1)).collect::<Vec<_>>(),
                    draws.noise(),
                ),
            };
            let own = if code == Code::Correct { 7 } else { 0 };
            indicator(chosen.contains(&own))
        },
    )
}

/// Each row of the gradient clipped by itself.
fn rows_clipped_one_by_one() -> InjectedFault {
    let (whole, single) = (SumMechanism::new(1.0, 4), SumMechanism::new(1.0, 1));
    InjectedFault::counting(
        (
            "20.5-row-clip",
            Shipped,
            "every embedding's gradient is clipped by itself, not the record's whole gradient",
            "canary with four rows; their noisy sums added",
        ),
        Claim::gaussian(1.0),
        (400, 3_000),
        move |code, with, draws| {
            let gradient = [indicator(with); 4];
            let units = match code {
                Code::Correct => whole.clipped(&gradient),
                Code::Injected => gradient.iter().flat_map(|&row| single.clipped(&[row])).collect(),
            };
            let released = whole.release(&units, draws);
            if released.is_empty() { f64::NAN } else { released.iter().sum() }
        },
    )
}

/// The noise of the gradients alone is accounted: what the curator says to it.
fn counts_not_accounted() -> InjectedFault {
    InjectedFault::looking(
        (
            "20.5-joint",
            Shipped,
            "counts with less noise than the certified joint event stands for",
            "a run of embedding-sgd with half of the planned count noise; whether it is refused",
        ),
        |code| {
            let mut descent = descent(2).descent;
            descent.clip_norm = Some(0.1);
            let sgd = EmbeddingSgd {
                model: Embedding { dimension: 2, towers: None, seed: 1 },
                selection: Some(RowSelection { noise_ratio: Some(1.0), ..RowSelection::default() }),
                sampling_probability: Some(1.0),
                lazy: None,
                update: None,
                adaptive: Default::default(),
                descent,
            };
            let worlds = [false, true].map(|with| one_row(4, 1, with));
            let subject = Subject::new(sgd, problem(4, 1, Loss::Logistic { shift: 0.0 }), (4.0, 1e-5), worlds);
            let subject = match code {
                Code::Correct => subject,
                Code::Injected => subject.altered(|s| {
                    if let Some(selection) = &mut s.selection {
                        selection.count_noise_multiplier /= 2.0;
                    }
                }),
            };
            match subject.run(true, &mut Draws::new(1, 0), |_, _, view| view.weights.len() as f64) {
                refused if refused.is_nan() => Err("the curator refused the release".into()),
                _ => Ok(()),
            }
        },
    )
}

pub(super) fn bugs() -> Vec<InjectedFault> {
    vec![untouched_rows(), rows_clipped_one_by_one(), counts_not_accounted()]
}
