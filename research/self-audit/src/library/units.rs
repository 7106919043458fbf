//! Methods where a person has several rows: by the mean of a person's gradients, and by a group of rows.

use super::LibraryAudit;
use super::methods::BUDGET;
use super::releases::TIGHT_RUNS;
use crate::worst_cases::methods::{Subject, View, coordinate, descent, problem, sgd};
use crate::worst_cases::streams::Filter;
use dpopt_linear::{DpFtrl, StreamSchedule};
use dpopt_mechanism::{Correlation, Sensitive};
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::OfRows;
use dpopt_objective::records::{Examples, Owners, Rows, Units};
use dpopt_optimize::Algorithm;
use dpopt_optimize::plan::{Problem, RecordUnit};
use dpopt_privacy::special::log_sum_exp;
use dpopt_privacy::{Neighbours, Relation};
use std::num::NonZeroU64;

/// Persons; all but the first have rows of nothing.
const PERSONS: usize = 3;
/// Rows of each person.
const ROWS: usize = 4;

/// The first person's rows, all alike, or rows of nothing in their place; nobody's rows are together.
fn persons(with: bool) -> Option<Units<Examples>> {
    let (mut rows, mut targets, mut of_row) = (Rows::new(1), Vec::new(), Vec::new());
    for row in 0..PERSONS * ROWS {
        let own = with && row % PERSONS == 0;
        if own {
            rows.push_clipped(&mut [(0, 1.0)], 1.0)
        } else {
            rows.push_zero()
        }
        targets.push(f32::from(u8::from(own)));
        of_row.push((row % PERSONS) as u32);
    }
    Units::new(Examples { rows, targets }, &Owners { of_row, units: PERSONS }).ok()
}

fn by_persons(records: usize, record: RecordUnit) -> Problem {
    Problem { record, neighbours: Neighbours::of_users(Relation::ZeroOut), ..problem(records, 1, Loss::Absolute) }
}

fn row<A: Algorithm, R: OfRows + Send + 'static>(
    (name, pair): (&'static str, &'static str),
    algorithm: A,
    problem: Problem,
    worlds: Option<[Sensitive<R>; 2]>,
    statistic: impl Fn(&A::Schedule, View) -> f64 + Send + Sync + 'static,
) -> LibraryAudit {
    let nobody = || Sensitive::new(Examples { rows: Rows::new(1), targets: Vec::new() });
    let subject = Subject::new(algorithm, problem, BUDGET, [nobody(), nobody()]);
    LibraryAudit::new(name, pair, subject.event(), (BUDGET.1, TIGHT_RUNS), move |with, draws| {
        let Some(worlds) = &worlds else { return f64::NAN };
        subject.run_on(&worlds[usize::from(with)], draws, &statistic).unwrap_or(f64::NAN)
    })
}

/// Batches of a stream, and its epochs.
const BATCHES: usize = 2;
const EPOCHS: usize = 2;

/// A person in one of the batches of a stream, whichever its coin says: exact log-likelihood ratio, but for a constant factor.
fn dealt() -> LibraryAudit {
    let stream = DpFtrl {
        batch_share: Some(1.0 / BATCHES as f64),
        correlation: Some(Correlation::Banded),
        descent: descent((BATCHES * EPOCHS) as u64).descent,
        arrives: false,
    };
    row(
        (
            "dp-ftrl by unit, banded noise, two epochs",
            "person with four rows in one of 2 batches, by coin, all sums seen; exact log-likelihood ratio",
        ),
        stream,
        by_persons(PERSONS, RecordUnit::Unit { rows: (PERSONS * ROWS) as u64, most: None }),
        worlds(|units| Some(units.gathered())),
        |s: &StreamSchedule, view| {
            let sums = coordinate(view.seen, 0, s.descent.clip_norm);
            let noise = s.sensitivity * s.descent.noise_multiplier;
            let of_batch = |batch: usize| {
                let taken: Vec<usize> = (0..EPOCHS).map(|epoch| batch + epoch * BATCHES).collect();
                let filter = Filter::new(s.shape, &taken).ok()?;
                Some((filter.apply(&sums) - 0.5 * filter.norm * filter.norm) / (noise * noise))
            };
            let ratios: Option<Vec<f64>> = (0..BATCHES).map(of_batch).collect();
            ratios.map_or(f64::NAN, log_sum_exp)
        },
    )
}

/// Nobody's rows, and the first person's.
fn worlds<R>(make: impl Fn(Units<Examples>) -> Option<R>) -> Option<[Sensitive<R>; 2]> {
    let world = |with| persons(with).and_then(&make).map(Sensitive::new);
    Some([world(false)?, world(true)?])
}

pub(super) fn audits() -> Vec<LibraryAudit> {
    let unit = RecordUnit::Unit { rows: (PERSONS * ROWS) as u64, most: None };
    let most = NonZeroU64::MIN.saturating_add(1);
    let rows = worlds(|units| units.capped(most, |_| 0).one_by_one());
    let sum = |s: &dpopt_linear::DescentSchedule, view: View| coordinate(view.seen, 0, s.clip_norm).iter().sum();
    vec![
        row(
            (
                "noisy-gradient-descent by unit, all sums seen",
                "person with four rows, clipped as one; sum of its coordinate",
            ),
            descent(4),
            by_persons(PERSONS, unit),
            worlds(Some),
            sum,
        )
        .gaussian(),
        row(
            ("noisy-sgd by unit, q = 1, all sums seen", "person with four rows, clipped as one; sum of its coordinate"),
            sgd(4, 1.0, false),
            by_persons(PERSONS, unit),
            worlds(|units| Some(units.gathered())),
            sum,
        )
        .gaussian(),
        row(
            (
                "noisy-gradient-descent, two rows of a unit",
                "person with four rows, two of them left; sum of its coordinate",
            ),
            descent(4),
            by_persons(PERSONS * most.get() as usize, RecordUnit::UnitsRow { most }),
            rows,
            sum,
        )
        .gaussian(),
        dealt(),
    ]
}
