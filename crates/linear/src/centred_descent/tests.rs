//! Coordinates from exact numbers, the event, what is refused, error bars, and what centring is for.

use super::*;
use crate::choose;
use dpopt_mechanism::progress::Silent;
use dpopt_mechanism::{Curator, Sensitive};
use dpopt_noise::NoiseSource;
use dpopt_objective::records::{Examples, Rows};
use dpopt_objective::synthetic::Lcg;
use dpopt_optimize::{MethodOptions, Prepared};
use dpopt_privacy::{Neighbours, Relation, special};

fn problem(rows: u64, features: usize, classes: u32) -> Problem {
    Problem {
        directions: None,
        prior_release: None,
        calibrated: None,
        intervals: None,
        record: Default::default(),
        rows,
        features,
        nonzeros: features,
        row_norm: 1.0,
        loss: Loss::Softmax { classes },
        neighbours: Neighbours::of_records(Relation::ZeroOut),
    }
}

fn budget(epsilon: f64) -> Budget {
    Budget::new(epsilon, 1e-5).unwrap()
}

fn centred() -> CentredDescent {
    CentredDescent { intercept: Some(0), ..CentredDescent::default() }
}

/// `classes` clouds with standard deviation `spread` around centres of norm 1, all of it far from 0, and a constant feature.
fn clouds(seed: u64, n: usize, d: usize, classes: usize, spread: f64) -> Examples {
    let mut random = Lcg::new(seed);
    let mut centre = || {
        let point: Vec<f64> = (1..d).map(|_| random.normal()).collect();
        let norm = point.iter().map(|x| x * x).sum::<f64>().sqrt();
        point.into_iter().map(|x| x / norm).collect::<Vec<f64>>()
    };
    let (common, centres) = (centre(), (0..classes).map(|_| centre()).collect::<Vec<_>>());
    let mut examples = Examples { rows: Rows::new(d), targets: Vec::new() };
    for i in 0..n {
        let k = i % classes;
        // three, one and what is random: rows are about four long, and are scaled to 1
        let place = |j: usize, noise: f64| 3.0 * common[j] + centres[k][j] + spread * noise;
        let mut row = vec![(0, 0.1)];
        row.extend((1..d).map(|j| (j as u32, (place(j - 1, random.normal()) / 4.0) as f32)));
        examples.rows.push_clipped(&mut row, 1.0);
        examples.targets.push(k as f32);
    }
    examples
}

fn run(plan: &dyn Prepared, problem: &Problem, examples: &Examples, seed: u64) -> Solution {
    let mut curator = Curator::new(&plan.summary().certificate, NoiseSource::insecure(seed));
    let examples = Sensitive::new(examples.clone());
    let solution = plan.run(Run::new(problem, &examples, &mut curator, &Silent).unwrap()).unwrap().into_inner();
    assert!(curator.is_spent(), "{} planned more than it released", plan.summary().method);
    solution
}

fn accuracy(weights: &[f64], examples: &Examples) -> f64 {
    let d = examples.rows.columns();
    let hit = |i: &usize| {
        let (columns, values) = examples.rows.row(*i);
        let score = |line: &[f64]| columns.iter().zip(values).map(|(&j, &x)| line[j as usize] * f64::from(x)).sum();
        let scores: Vec<f64> = weights.chunks_exact(d).map(score).collect();
        (0..scores.len()).max_by(|a, b| scores[*a].total_cmp(&scores[*b])) == Some(examples.targets[*i] as usize)
    };
    (0..examples.rows.len()).filter(hit).count() as f64 / examples.rows.len() as f64
}

#[test]
fn the_budget_is_one_gaussian_and_a_tenth_of_it_is_the_means() {
    for (epsilon, mu) in [(0.1, 0.0325207841), (1.0, 0.2680511232), (4.0, 0.9249308977)] {
        let plan = centred().plan(&problem(8000, 30, 5), budget(epsilon)).unwrap();
        let (s, steps) = (&plan.schedule, plan.schedule.descent.steps as f64);
        let of_mean = s.mean_multiplier.powi(-2);
        let all = of_mean + steps * s.descent.noise_multiplier.powi(-2);
        assert!((all.sqrt() / mu - 1.0).abs() < 1e-5, "{all}");
        assert!((of_mean / all - 0.1).abs() < 1e-9);
        assert!(special::gaussian_mu(epsilon, 1e-5) / mu - 1.0 < 1e-8);
        assert_eq!(plan.summary.gradients, 8000.0 * (steps + 1.0));
    }
}

#[test]
fn coordinates_follow_from_what_was_released() {
    // so many records that the mean is exact but for a millionth
    let problem = problem(1 << 24, 3, 3);
    let plan = centred().plan(&problem, budget(1.0)).unwrap();
    // a constant ½, means .4 and −.3, and a mean squared norm of .8: what is left is .8 − .25 − .25
    let n = problem.rows as f64;
    let (shear, centre) = plan.schedule.shear(&problem, &[0.5 * n, 0.4 * n, -0.3 * n, 0.25 * 0.8 * n]);
    let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-6, "{a} {b}");
    assert_eq!((shear.origin, shear.row_norm, shear.shifts[0]), (0, 1.0, 0.0));
    close(shear.shifts[1], 0.8);
    close(shear.shifts[2], -0.6);
    close(centre.norm, 0.3f64.sqrt());
    close(shear.scale, 1.0 / 0.3f64.sqrt());
    close(shear.origin_scale, 0.3f64.sqrt());
    // numbers that no rows have still give coordinates
    for sum in [[0.0; 4], [-n, 9.0 * n, n, -n], [0.0, 0.0, 0.0, 1e30]] {
        let (shear, centre) = plan.schedule.shear(&problem, &sum);
        assert!(shear.scale >= 1.0 && shear.scale <= 10.0 && centre.norm >= 0.1, "{shear:?}");
        assert!(shear.origin_scale.is_finite() && shear.shifts.iter().all(|t| t.is_finite()), "{shear:?}");
    }
    // few records: a mean that is as long as its noise would be is not believed
    let few = self::problem(100, 50, 3);
    let plan = centred().plan(&few, budget(0.1)).unwrap();
    let std = plan.schedule.mean_multiplier * CentredSchedule::mean_clip(1.0);
    let mut sum = vec![0.5 * std; 51];
    sum[0] = 30.0;
    assert!(plan.schedule.shear(&few, &sum).0.shifts.iter().all(|t| *t == 0.0));
}

#[test]
fn what_it_is_not_made_for_is_refused_with_a_reason() {
    let refused = |algorithm: &CentredDescent, problem: &Problem| {
        algorithm.plan(problem, budget(1.0)).err().map(|why| why.to_string()).unwrap_or_default()
    };
    let fits = problem(1000, 20, 3);
    assert_eq!(refused(&centred(), &fits), "");
    assert!(refused(&CentredDescent::default(), &fits).contains("intercept"));
    assert!(refused(&CentredDescent { intercept: Some(20), ..centred() }, &fits).contains("intercept"));
    let two = Problem { loss: Loss::Logistic { shift: 0.0 }, ..fits.clone() };
    assert_eq!(refused(&centred(), &two), "");
    let numbers = Problem { loss: Loss::Squared, ..fits.clone() };
    assert!(refused(&centred(), &numbers).contains("it needs classes"));
    let wide = Problem { features: 10_000, ..fits.clone() };
    assert!(refused(&centred(), &wide).contains("centred rows are dense"));
    let long = Problem { rows: 1 << 30, ..fits };
    assert!(refused(&centred(), &long).contains("memory"));
}

/// Rows that have most of their length in common, with a budget at which that costs much.
#[test]
fn centring_finds_classes_where_plain_descent_sees_what_they_share() {
    let all = clouds(3, 6000, 25, 8, 0.2);
    let part = |range: std::ops::Range<usize>| all.select(&range.collect::<Vec<_>>());
    let (train, test) = (part(0..800), part(4000..6000));
    let problem = problem(800, 25, 8);
    let options = |method: &str| MethodOptions::of(method).with_intercept(0);
    let mean = |method: &str| {
        let plan = choose(&problem, budget(0.2), &options(method)).unwrap();
        (0..4).map(|seed| accuracy(&run(&*plan, &problem, &train, seed).weights, &test)).sum::<f64>() / 4.0
    };
    let (plain, around) = (mean("noisy-gradient-descent"), mean("centred-descent"));
    println!("plain {plain:.3}, around the mean {around:.3}");
    assert!(around > plain + 0.05, "{plain} {around}");
}

/// Two classes of unequal size whose rows have most of their length in common: 2 in 3 would be right without looking.
#[test]
fn two_classes_are_learnt_by_name() {
    let mut all = clouds(8, 6000, 25, 3, 0.2);
    // two clouds of three are one class
    all.targets.iter_mut().for_each(|t| *t = if *t == 0.0 { -1.0 } else { 1.0 });
    let part = |range: std::ops::Range<usize>| all.select(&range.collect::<Vec<_>>());
    let (train, test) = (part(0..400), part(4000..6000));
    let problem = Problem { loss: Loss::Logistic { shift: 0.0 }, ..problem(400, 25, 2) };
    let right = |weights: &[f64]| {
        let score = |i: usize| {
            let (columns, values) = test.rows.row(i);
            columns.iter().zip(values).map(|(&j, &x)| weights[j as usize] * f64::from(x)).sum::<f64>()
        };
        let hits = (0..test.rows.len()).filter(|&i| score(i) * f64::from(test.targets[i]) > 0.0);
        hits.count() as f64 / test.rows.len() as f64
    };
    let plan = choose(&problem, budget(0.5), &MethodOptions::of("centred-descent").with_intercept(0)).unwrap();
    let around = (0..6).map(|seed| right(&run(&*plan, &problem, &train, seed).weights)).sum::<f64>() / 6.0;
    assert!(around > 0.9, "{around}");
    // where nothing is said it stands behind the others
    let chosen = choose(&problem, budget(0.5), &MethodOptions::default().with_intercept(0)).unwrap();
    assert_ne!(chosen.summary().method, "centred-descent");
}

/// Spread of each weight over fresh noise, against the error bar that the run itself tells.
#[test]
fn error_bars_cover_the_noise() {
    let (runs, d) = (60, 12);
    let examples = clouds(5, 3000, d, 4, 0.3);
    let problem = problem(3000, d, 4);
    let plan = dpopt_optimize::prepare(centred(), &problem, budget(1.0)).unwrap();
    let solutions: Vec<Solution> = (0..runs).map(|seed| run(&*plan, &problem, &examples, seed)).collect();
    for j in 0..problem.weights() {
        let mean = solutions.iter().map(|s| s.weights[j]).sum::<f64>() / runs as f64;
        let variance = solutions.iter().map(|s| (s.weights[j] - mean).powi(2)).sum::<f64>() / (runs - 1) as f64;
        let bar = solutions.iter().map(|s| s.noise.as_ref().unwrap()[j]).sum::<f64>() / runs as f64;
        // the spread of 60 runs is off by 9 % (one standard deviation)
        assert!(variance.sqrt() < 1.4 * bar, "{j}: {} against {bar}", variance.sqrt());
    }
}
