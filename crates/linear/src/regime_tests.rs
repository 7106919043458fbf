//! Regimes of learning with sparse gradients, and what is chosen in each.

use crate::{candidates, choose, registry};
use dpopt_objective::loss::Loss;
use dpopt_objective::records::Directions;
use dpopt_optimize::MethodOptions;
use dpopt_optimize::plan::Problem;
use dpopt_optimize::regime::FAILURE;
use dpopt_optimize::{Regime, Regimes};
use dpopt_privacy::{Budget, special};
use dpopt_privacy::{Neighbours, Relation};

fn problem(features: usize, nonzeros: usize) -> Problem {
    let loss = Loss::Logistic { shift: 0.0 };
    Problem {
        directions: None,
        before: None,
        calibrated: None,
        record: Default::default(),
        rows: 1,
        features,
        nonzeros,
        row_norm: 1.0,
        loss,
        neighbours: Neighbours::of_records(Relation::ZeroOut),
    }
}

#[test]
fn wide_sparse_tables_have_three_regimes_and_narrow_ones_two() {
    let budget = Budget::new(1.0, 1e-6).unwrap();
    let wide = Regimes::of(&problem(100_000, 10), budget).unwrap();
    assert!(wide.enough > 100.0 && wide.dense > 10.0 * wide.enough, "{wide:?}");
    assert_eq!([10.0, 2000.0, 1e6].map(|n| wide.at(n)), [Regime::TooFew, Regime::Sparse, Regime::Dense]);
    let narrow = Regimes::of(&problem(100, 10), budget).unwrap();
    assert_eq!(narrow.enough, narrow.dense);
    assert_eq!([1.0, 1e6].map(|n| narrow.at(n)), [Regime::TooFew, Regime::Dense]);
}

#[test]
fn the_automatic_choice_follows_the_regime() {
    let budget = Budget::new(1.0, 1e-6).unwrap();
    let chosen = |rows: u64| {
        let p = Problem { rows, ..problem(100_000, 10) };
        let method = choose(&p, budget, &MethodOptions::default()).unwrap().summary().method;
        (Regimes::of(&p, budget).unwrap().at(rows as f64), method)
    };
    let (regime, method) = chosen(2000);
    assert_eq!(regime, Regime::Sparse);
    assert!(["sparse-output-perturbation", "frank-wolfe"].contains(&method), "{method}");
    assert_eq!(chosen(1_000_000), (Regime::Dense, "objective-perturbation"));
    assert_eq!(chosen(50).0, Regime::TooFew);
    // a method asked for by name comes first all the same
    let named = MethodOptions::of("noisy-sgd");
    let p = Problem { rows: 2000, ..problem(100_000, 10) };
    assert_eq!(candidates(&p, budget, &named)[0].method, "noisy-sgd");
}

#[test]
fn features_of_an_encoder_have_no_regime() {
    let budget = Budget::new(1.0, 1e-6).unwrap();
    let vectors = Problem { rows: 2000, ..problem(100_000, 10) };
    // ten columns of a hundred thousand slots, where few are known to have anything
    let mut directions = Directions::default();
    directions.push(64.0, 1.0 / 64.0, 1.0 / 64.0);
    let table = Problem { directions: Some(directions.into()), ..vectors.clone() };
    assert!(Regimes::of(&table, budget).is_none());
    let chosen = |p: &Problem| choose(p, budget, &MethodOptions::default()).unwrap().summary().method;
    assert_eq!([&vectors, &table].map(|p| registry().logarithmic(chosen(p))), [true, false]);
}

#[test]
fn at_the_borders_the_bounds_agree() {
    let (d, s): (f64, f64) = (1e6, 20.0);
    let budget = Budget::new(0.5, 1e-8).unwrap();
    let r = Regimes::of(&problem(d as usize, s as usize), budget).unwrap();
    let z = 1.0 / special::gaussian_mu(0.5, 1e-8);
    let q = (2.0 * (2.0 * d / FAILURE).ln()).sqrt();
    let sparse = |n: f64| (4.0 * s.sqrt() * z * q / n).sqrt();
    assert!((sparse(r.enough) - 1.0).abs() < 1e-12);
    assert!((sparse(r.dense) / (d.sqrt() * z / r.dense) - 1.0).abs() < 1e-12);
    // more features: a wider sparse regime; pure noise: wider still
    assert!(Regimes::of(&problem(10_000_000, 20), budget).unwrap().dense > r.dense);
    let pure = Regimes::of(&problem(d as usize, s as usize), Budget::new(0.5, 0.0).unwrap()).unwrap();
    assert!(pure.dense > pure.enough && pure.dense > r.dense);
    assert!(((s * (d / FAILURE).ln() * 2.0 / pure.dense).powf(1.0 / 3.0) / (d * 2.0 / pure.dense) - 1.0).abs() < 1e-12);
}
