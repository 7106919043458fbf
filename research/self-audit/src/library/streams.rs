//! DP-FTRL end to end: the shipped plan and run on a record of the first batch, all noisy steps seen.

use super::methods::{BUDGET, on_disk, row};
use super::releases::TIGHT_RUNS;
use super::{LibraryAudit, Reach};
use crate::worst_cases::methods::{Subject, View, coordinate, descent, problem};
use crate::worst_cases::streams::Filter;
use crate::worst_cases::sums::canaries;
use dpopt_linear::{DpFtrl, StreamSchedule};
use dpopt_mechanism::{Correlation, StreamShape};
use dpopt_objective::loss::Loss;
use dpopt_optimize::plan::Problem;
use dpopt_privacy::{Neighbours, Relation};

/// One record per batch.
const BATCHES: usize = 8;

/// Where the rows are while the stream runs.
#[derive(Clone, Copy, PartialEq)]
enum Rows {
    InMemory,
    OnDisk,
}

fn stream(
    (name, pair): (&'static str, &'static str),
    correlation: Correlation,
    steps: usize,
    relation: Relation,
    rows: Rows,
) -> LibraryAudit {
    let shape = StreamShape { batches: BATCHES, steps, correlation };
    let algorithm = DpFtrl {
        batch_share: Some(1.0 / BATCHES as f64),
        correlation: Some(correlation),
        descent: descent(steps as u64).descent,
        arrives: false,
    };
    let problem = Problem { neighbours: Neighbours::of_records(relation), ..problem(BATCHES, 1, Loss::Absolute) };
    let without = if relation == Relation::ReplaceOne { -1.0 } else { 0.0 };
    let subject =
        Subject::new(algorithm, problem, BUDGET, [without, 1.0].map(|target| canaries(BATCHES, 1, &[target])));
    let first_of_epochs: Vec<usize> = (0..steps).step_by(BATCHES).collect();
    let filter = Filter::new(shape, &first_of_epochs);
    let reach = match (&filter, subject.schedule()) {
        (Ok(filter), Some(s)) => {
            Reach::Mu(relation.sum_sensitivity() * filter.norm / s.sensitivity / s.descent.noise_multiplier)
        }
        _ => Reach::Unknown,
    };
    let statistic = move |schedule: &StreamSchedule, view: View| match &filter {
        Ok(filter) => filter.apply(&coordinate(view.seen, 0, schedule.descent.clip_norm)),
        Err(_) => f64::NAN,
    };
    let audit = match rows {
        Rows::InMemory => {
            row((name, pair), subject, (BUDGET.1, TIGHT_RUNS), move |_, schedule, view| statistic(schedule, view))
        }
        Rows::OnDisk => on_disk((name, pair), subject, (BUDGET.1, TIGHT_RUNS), statistic),
    };
    audit.under(relation).gaussian().reaching(reach).costly()
}

pub(super) fn audits() -> Vec<LibraryAudit> {
    let zeroed =
        |text, correlation, epochs| stream(text, correlation, epochs * BATCHES, Relation::ZeroOut, Rows::InMemory);
    let cut = |text, correlation| stream(text, correlation, 2 * BATCHES + 3, Relation::ZeroOut, Rows::InMemory);
    let matched = "canary in the first of 8 batches, all sums seen; matched filter";
    let nodes = "canary in the first of 8 batches, all sums seen; the nodes that hold it";
    vec![
        zeroed(("dp-ftrl, buffered noise, one epoch", matched), Correlation::Blt, 1),
        zeroed(("dp-ftrl, buffered noise, three epochs", matched), Correlation::Blt, 3),
        zeroed(("dp-ftrl, banded noise, one epoch", matched), Correlation::Banded, 1),
        zeroed(("dp-ftrl, banded noise, three epochs", matched), Correlation::Banded, 3),
        zeroed(("dp-ftrl, a tree, one epoch", nodes), Correlation::Tree, 1),
        zeroed(("dp-ftrl, a tree per epoch, three epochs", nodes), Correlation::Tree, 3),
        zeroed(("dp-ftrl, independent noise, three epochs", matched), Correlation::Independent, 3),
        stream(
            (
                "dp-ftrl, banded noise, two epochs, replace-one",
                "record +C or -C in the first of 8 batches, all sums seen; matched filter",
            ),
            Correlation::Banded,
            2 * BATCHES,
            Relation::ReplaceOne,
            Rows::InMemory,
        )
        .with_runs(2),
        cut(("dp-ftrl, banded noise, third epoch cut short", matched), Correlation::Banded),
        cut(("dp-ftrl, buffered noise, third epoch cut short", matched), Correlation::Blt),
        stream(
            ("dp-ftrl, banded noise, two epochs, rows on disk", matched),
            Correlation::Banded,
            2 * BATCHES,
            Relation::ZeroOut,
            Rows::OnDisk,
        ),
    ]
}
