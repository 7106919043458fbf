//! Regimes of learning with sparse gradients, and what is chosen in each.

use crate::{candidates, choose, registry};
use dpopt_objective::loss::Loss;
use dpopt_objective::records::Directions;
use dpopt_optimize::MethodOptions;
use dpopt_optimize::plan::Problem;
use dpopt_optimize::regime::FAILURE;
use dpopt_optimize::{Regime, Regimes, Selection};
use dpopt_privacy::{Budget, special};
use dpopt_privacy::{Neighbours, Relation};

fn problem(features: usize, nonzeros: usize) -> Problem {
    let loss = Loss::Logistic { shift: 0.0 };
    Problem {
        directions: None,
        prior_release: None,
        calibrated: None,
        intervals: None,
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

#[test]
fn reasons_are_given_only_where_they_hold() {
    let budget = Budget::new(1.0, 1e-6).unwrap();
    let mut reasons = [0; 3];
    for (rows, features, nonzeros) in
        [(10_000, 30, 30), (300, 5, 5), (100_000, 200, 20), (2_000, 100_000, 10), (50, 100_000, 10)]
    {
        for loss in [Loss::Logistic { shift: 0.0 }, Loss::Squared, Loss::Softmax { classes: 3 }] {
            let problem = Problem {
                directions: None,
                prior_release: None,
                calibrated: None,
                intervals: None,
                record: Default::default(),
                rows,
                features,
                nonzeros,
                row_norm: 1.0,
                loss,
                neighbours: Neighbours::of_records(Relation::ZeroOut),
            };
            let all = candidates(&problem, budget, &MethodOptions::default());
            let risks: Vec<f64> =
                all.iter().filter_map(|c| Some(c.plan.as_ref().ok()?.summary().predicted_excess_risk)).collect();
            let smallest = risks.iter().copied().fold(f64::INFINITY, f64::min);
            let Selection { place, reason } = registry().select(&all, &MethodOptions::default()).unwrap();
            let plan = all[place].plan.as_ref().unwrap();
            let own = plan.summary().predicted_excess_risk;
            let why = reason.to_string();
            let at = format!("n={rows} d={features} {loss:?} {}: {why}", plan.summary().method);
            if why.starts_with("there are many features") {
                let regimes = Regimes::of(&problem, budget).unwrap();
                assert_eq!(regimes.at(rows as f64), Regime::Sparse, "{at}");
                reasons[0] += 1;
            } else if why.contains("within 2×") {
                assert!(own < 2.0 * smallest && own > smallest, "{at}");
                reasons[1] += 1;
            } else {
                assert!(why.contains("smallest of the") && own == smallest, "{at}");
                reasons[2] += 1;
            }
        }
    }
    assert!(reasons[1] > 0 && reasons[2] > 0 && reasons[0] > 0, "{reasons:?}");
}
