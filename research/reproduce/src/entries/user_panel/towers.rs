//! Two towers of how persons rated items, on persons of another seed: per unit, by group privacy, and row by row.

use super::fits::{Encoded, Scores};
use super::shown::Shown;
use crate::{Compared, Failure, Lab, Summary, Table, Trial};
use dpopt::report::chart::Chart;
use dpopt_problems as problems;
use serde::Serialize;

const DELTA: f64 = 1e-5;
/// Numbers of a vector: more than the truth's.
const DIMENSION: usize = 8;
const EPSILONS: [f64; 3] = [0.5, 1.0, 2.0];
/// Of a person of the table to test on.
const TEST_ROWS: usize = 10;

#[derive(Clone, Serialize)]
struct Setting {
    epsilon: f64,
    units: usize,
    rows_per_unit: usize,
    test_units: usize,
    bounds: Vec<u64>,
}

/// What two towers add to the entry.
pub(super) struct Part {
    pub(super) table: Table,
    pub(super) chart: Chart,
    pub(super) compared: Vec<Compared>,
    pub(super) note: String,
    pub(super) sentence: String,
}

fn encoded(tastes: problems::Tastes, units: usize) -> Result<Encoded, Failure> {
    let table = Encoded::new(tastes.csv, &tastes.bounds, "person", units, "liked")?;
    table.with_towers(&["region", "job"], &["item"], DIMENSION)
}

fn measure(setting: &Setting, trial: Trial) -> Result<Scores, Failure> {
    let Setting { epsilon, units, rows_per_unit, test_units, .. } = *setting;
    let train = encoded(problems::tastes(units, rows_per_unit, trial.shared_seed), units)?;
    let test = encoded(problems::tastes(test_units, TEST_ROWS, !trial.shared_seed), test_units)?;
    let accuracy = |weights: &[f64]| {
        let right = test.scored(weights).filter(|(score, target)| (*score > 0.0) == (*target > 0.0)).count();
        right as f64 / test.rows() as f64
    };
    train.scores(epsilon, DELTA, &setting.bounds, trial, accuracy)
}

pub(super) fn run(lab: &Lab) -> Result<Part, Failure> {
    let (units, rows_per_unit, test_units) = lab.pick((500, 5, 1_000), (5_000, 40, 4_000));
    let epsilons = lab.pick(vec![2.0], EPSILONS.to_vec());
    let bounds: Vec<u64> = lab.pick(vec![1, 5], vec![1, 8, 40]);
    let repeats = lab.pick(1, 3);
    lab.setting("two towers: persons, rows of each", [units, rows_per_unit])?;
    lab.setting("two towers: persons to test on, rows of each", [test_units, TEST_ROWS])?;
    lab.setting("two towers: numbers of a vector", DIMENSION)?;
    lab.setting("two towers: delta (zero-out)", DELTA)?;
    lab.setting("two towers: seeds", repeats)?;
    let setting = |&epsilon: &f64| Setting { epsilon, units, rows_per_unit, test_units, bounds: bounds.clone() };
    let settings: Vec<Setting> = epsilons.iter().map(setting).collect();
    let results = lab.trials("towers", &settings, repeats, measure)?;
    let shown = Shown { epsilons: &epsilons, bounds: &bounds, results: &results, units: "persons" };
    let truth = Summary::of([problems::tastes(test_units, TEST_ROWS, u64::MAX).bayes_accuracy]).mean;
    let gains: Vec<f64> = (0..epsilons.len())
        .map(|place| {
            let [per_unit, group, _] = shown.at(place);
            per_unit.mean - group.mean
        })
        .collect();
    let least = gains.iter().copied().fold(f64::INFINITY, f64::min);
    let panel = shown.panel("is an item liked?", "test accuracy").level("true model", truth);
    // the margin was chosen before an accuracy had been seen
    let what = "two towers: least gain over group privacy at its best bound, every ε";
    Ok(Part {
        table: shown.table("towers", "test accuracy"),
        chart: Chart::of([panel]),
        compared: vec![Compared::within(what, 0.01..=1.0, least)],
        note: format!(
            "Two towers: vectors of {DIMENSION} numbers for region and job of a person, and for an item; defaults of embedding-sgd. The best bound on rows is chosen on the \
             table to test on. {repeats} seeds; bands are standard deviations."
        ),
        sentence: format!("Two towers by unit gain at least {least:.3} over group privacy at its best bound."),
    })
}
