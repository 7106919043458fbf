//! The mean over units: of what, by whose rows, and what is seen of them.

use super::{Estimated, MeanEstimate, MeanOptions};
use crate::model::FitError;
use crate::run::{RunOptions, UnitClipping, UnitOptions};
use dpopt_data::{BadCells, DataError, Format, ReadOptions, open_bytes};
use dpopt_mechanism::progress::Progress;
use dpopt_privacy::{Relation, Unit};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// ε at which Laplace noise on a sum of vectors of norm 10 has scale 10·√2·10⁻⁶: of a mean over four it is within [`NEAR`] but for a probability of e⁻²⁸.
const HUGE: f64 = 1e6;
const NEAR: f64 = 1e-4;

/// Options of a run and of a mean.
type Options = (RunOptions, MeanOptions);

/// Options of a mean over units, at the ε that [`estimate`] is given.
fn by_unit(most_rows: Option<u64>) -> Options {
    let most_rows = most_rows.map(|most| most.try_into().unwrap());
    let run = RunOptions::within(1.0).unit(UnitOptions { most_rows, ..UnitOptions::of("id") });
    let options = MeanOptions { norm: Some(10.0), bad_cells: BadCells::Missing, ..Default::default() };
    (run.delta(0.0).insecure_seed(4), options)
}

fn estimate(text: &str, epsilon: f64, (run, options): Options) -> Result<MeanEstimate, FitError> {
    let table = open_bytes(text.as_bytes().to_vec(), Format::Csv, &ReadOptions::default()).unwrap();
    MeanEstimate::new(table, 2.0, RunOptions { epsilon, ..run }, options)
}

fn run(text: &str, epsilon: f64, options: Options) -> Estimated {
    estimate(text, epsilon, options).unwrap().run().unwrap()
}

/// Both coordinates of the answer.
fn answer(estimated: &Estimated) -> [f64; 2] {
    assert_eq!(estimated.dimension, 2);
    [0, 1].map(|j| estimated.entries.iter().find(|entry| entry.0 == j).map_or(0.0, |entry| entry.1))
}

fn assert_near(found: [f64; 2], expected: [f64; 2]) {
    assert!(found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < NEAR), "{found:?}");
}

/// Means are (2, 3), (−1, 0), (0, 4) and, of the unit whose cells can't be read, (0, 0). The unit's column stands between the coordinates.
const TABLE: &str = "x,id,y\n1,7,2\n-1,b,0\n4, 7,3\n9,,9\n0,c,4\noops,d,oops\n1,\"7 \",4\n9,?,-9\n";
const MEAN: [f64; 2] = [0.25, 1.75];

#[test]
fn the_mean_is_of_the_means_of_units_whatever_their_numbers_of_rows() {
    let estimated = run(TABLE, HUGE, by_unit(None));
    assert_near(answer(&estimated), MEAN);
    let guarantee = &estimated.guarantee;
    assert_eq!((guarantee.unit, guarantee.protected()), (Unit::User, "id"));
    assert!(guarantee.to_string().ends_with(", per id, zero-out") && guarantee.recompute().faults.is_empty());
    let facts = &estimated.report.facts;
    assert_eq!((facts.units, facts.rows), (Some(4), None), "how many rows there are is nobody's business");
    let html = estimated.report.html();
    assert!(
        html.contains("4 units (id), 2 coordinates") && html.contains("Each person has one value of `id`"),
        "{html}"
    );
    assert!(!html.contains("The number of rows,") && html.contains("The number of units,"));
    // a bound that no unit reaches
    assert_eq!(answer(&run(TABLE, HUGE, by_unit(Some(3)))), answer(&estimated));
    // one that they do: 7 has one of its rows
    let [x, y] = answer(&run(TABLE, HUGE, by_unit(Some(1))));
    let chosen = [[1.0, 2.0], [4.0, 3.0], [1.0, 4.0]].map(|[a, b]| [(a - 1.0) / 4.0, (b + 4.0) / 4.0]);
    assert!(chosen.iter().any(|[a, b]| (x - a).abs() < NEAR && (y - b).abs() < NEAR), "{x} {y}");
    // a unit is clipped, and not its rows: 7's mean has norm √13, and two of its rows are longer than 4
    let shrunk = 2.0 / 13f64.sqrt();
    let clipped = (by_unit(None).0, by_unit(None).1.norm(2.0));
    assert_near(answer(&run(TABLE, HUGE, clipped)), [(2.0 * shrunk - 1.0) / 4.0, (3.0 * shrunk + 2.0) / 4.0]);
}

#[test]
fn all_rows_of_a_bounded_unit_are_chosen_as_often() {
    let mut seen = [0u32; 3];
    let draws = 300;
    for seed in 0..draws {
        let (seeded, options) = by_unit(Some(1));
        let options = (seeded.insecure_seed(seed), options);
        // the second row differs in both, the others in one coordinate each
        let [x, y] = answer(&run("x,id,y\n1,a,0\n1,a,1\n0,a,1\n0,b,0\n", HUGE, options));
        seen[match (x > 0.25, y > 0.25) {
            (true, false) => 0,
            (true, true) => 1,
            (false, true) => 2,
            (false, false) => panic!("no row of a"),
        }] += 1;
    }
    // 100 each; 5.5 standard deviations are 45
    assert!(seen.iter().all(|n| (55..=145).contains(n)), "{seen:?}");
}

#[test]
fn the_order_of_rows_changes_neither_the_answer_nor_the_guarantee() {
    let rows: Vec<String> = (0..60).map(|i| format!("0.{i}1,p{},0.{}", i % 7, 97 - i)).collect();
    let text = |order: &dyn Fn(usize) -> usize| {
        (0..rows.len()).fold(String::from("x,id,y\n"), |text, i| text + &rows[order(i)] + "\n")
    };
    let options = || (by_unit(None).0.delta(1e-6), by_unit(None).1.norm(0.6));
    let one = run(&text(&|i| i), 1.0, options());
    for order in [&(|i: usize| 59 - i) as &dyn Fn(usize) -> usize, &|i| (i * 17) % 60, &|i| (i * 7 + 3) % 60] {
        let other = run(&text(order), 1.0, options());
        assert_eq!(other.entries, one.entries);
        assert_eq!((&other.guarantee, other.error_bound), (&one.guarantee, one.error_bound));
    }
}

#[test]
fn numbers_of_units_are_held_against_the_table_where_they_are_public() {
    let asked = |units, relation, rows| {
        let unit = UnitOptions { clipping: UnitClipping::Unit, units, ..UnitOptions::of("id") };
        let (run, options) = by_unit(None);
        (run.unit(unit).relation(relation), options.rows(rows))
    };
    let refused = |text, options| estimate(text, 1.0, options).err().expect("a refusal").to_string();
    for relation in [Relation::ZeroOut, Relation::ReplaceOne] {
        let error = refused(TABLE, asked(Some(3), relation, None));
        assert!(error.contains("`units` is 3") && error.contains("more values"), "{error}");
        assert_eq!(estimate(TABLE, 1.0, asked(Some(4), relation, None)).unwrap().problem().records, 4);
    }
    let guess = Relation::AddOrRemove;
    assert!(refused(TABLE, asked(None, guess, None)).contains("`units`"));
    assert_eq!(estimate(TABLE, 1.0, asked(Some(9), guess, None)).unwrap().problem().records, 9);
    // a guess of twice as many as there are halves the answer
    assert_near(answer(&run(TABLE, HUGE, asked(Some(8), guess, None))), MEAN.map(|x| x / 2.0));
    assert!(refused(TABLE, asked(None, Relation::ZeroOut, Some(8))).contains("`units`"), "rows are of no use");
    let mut by_row = by_unit(Some(2));
    by_row.0.unit.as_mut().unwrap().clipping = UnitClipping::Row;
    assert!(refused(TABLE, by_row).contains("clips the mean vector of each unit"));
    assert!(refused("x,id\n1,a\n2,a\n", asked(None, Relation::ZeroOut, None)).contains("1 units of `id`"));
    let error = refused("a,b\n1,2\n", asked(None, Relation::ZeroOut, None));
    assert!(error.contains("the unit") && !error.contains("`a`"), "no header was declared: {error}");
    let stop = (by_unit(None).0, by_unit(None).1.bad_cells(BadCells::Error));
    match estimate(TABLE, 1.0, stop).unwrap().run().err() {
        Some(FitError::Data(DataError::NotANumber { column, row })) => assert_eq!((column.as_str(), row), ("c1", 6)),
        other => panic!("{other:?}"),
    }
}

/// The progress that a run showed.
#[derive(Default)]
struct Shown {
    planned: AtomicU64,
    ticks: AtomicU64,
}

impl Progress for Shown {
    fn start(&self, _phase: &str, steps: u64) {
        self.planned.store(steps, Relaxed);
    }
    fn tick(&self) {
        self.ticks.fetch_add(1, Relaxed);
    }
    fn finish(&self) {}
}

#[test]
fn progress_tells_the_public_number_of_units_and_no_other() {
    for (relation, units, expected) in [
        (Relation::ZeroOut, None, (4, 4)),
        (Relation::ReplaceOne, Some(4), (4, 4)),
        // the number of units is protected
        (Relation::AddOrRemove, Some(300), (1, 0)),
    ] {
        for text in [TABLE.to_string(), TABLE.to_string() + &"3,d,3\n".repeat(100)] {
            let (run, options) = by_unit(None);
            let mut options = (run.relation(relation), options);
            options.0.unit.as_mut().unwrap().units = units;
            let shown = Shown::default();
            estimate(&text, 1.0, options).unwrap().run_with(&shown).unwrap();
            assert_eq!((shown.planned.into_inner(), shown.ticks.into_inner()), expected);
        }
    }
}
