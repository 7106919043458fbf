//! Plans say what they do, runs do what was planned, and features are found.

use super::*;
use crate::{candidates, choose};
use dpopt_mechanism::progress::Silent;
use dpopt_mechanism::{Curator, Sensitive};
use dpopt_noise::NoiseSource;
use dpopt_objective::records::{Examples, Rows};
use dpopt_optimize::plan::Plan;
use dpopt_optimize::{Algorithm, MethodOptions, Run};
use dpopt_privacy::{Budget, Event, Neighbours, Relation};

const LOGISTIC: Loss = Loss::Logistic { shift: 0.0 };

/// n rows of `width` of d features with values ±; the sign of the target is that of the sum of the first three.
pub(super) fn table(n: usize, d: u32, width: u32) -> Examples {
    let mut rows = Rows::new(d as usize);
    let mut targets = Vec::new();
    for i in 0..n as u64 {
        let mut state = i.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d;
        let mut next = |m: u32| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) % u64::from(m)) as u32
        };
        let signs: Vec<f32> = (0..3).map(|_| if next(2) == 0 { 1.0 } else { -1.0 }).collect();
        let mut entries: Vec<(u32, f32)> = signs.iter().enumerate().map(|(j, s)| (j as u32, *s)).collect();
        entries.extend((3..width).map(|_| (3 + next(d - 3), if next(2) == 0 { 1.0 } else { -1.0 })));
        rows.push_clipped(&mut entries, 1.0);
        targets.push(signs.iter().sum::<f32>().signum());
    }
    Examples { rows, targets }
}

pub(super) fn facts(examples: &Examples, nonzeros: usize) -> Problem {
    Problem {
        directions: None,
        prior_release: None,
        calibrated: None,
        intervals: None,
        record: Default::default(),
        rows: examples.rows.len() as u64,
        features: examples.rows.columns(),
        nonzeros,
        row_norm: 1.0,
        loss: LOGISTIC,
        neighbours: Neighbours::of_records(Relation::ZeroOut),
    }
}

pub(super) fn budget(epsilon: f64) -> Budget {
    Budget::new(epsilon, 1e-6).unwrap()
}

pub(super) fn sparse(k: u64) -> SparseOptions {
    SparseOptions { max_features: Some(k), ..Default::default() }
}

fn run(
    plan: &Plan<HardThresholdSchedule>,
    problem: &Problem,
    examples: &Sensitive<Examples>,
    seed: u64,
) -> SparseVector {
    let mut curator = Curator::new(&plan.summary.certificate, NoiseSource::insecure(seed));
    let x = run_sparse(plan, Run::new(problem, examples, &mut curator, &Silent).unwrap()).unwrap().into_inner();
    assert!(curator.is_spent(), "planned more than it released");
    x
}

#[test]
fn the_right_features_are_found_among_a_million() {
    let examples = table(6000, 1_000_000, 6);
    let problem = facts(&examples, 6);
    let examples = Sensitive::new(examples);
    for q in [1.0, 0.2] {
        let method = DpSgdHt { sampling_probability: Some(q), sparse: sparse(5) };
        let plan = method.plan(&problem, budget(4.0)).unwrap();
        assert_eq!(plan.schedule.formed(), dpopt_mechanism::Formed::BySparseEntries);
        let x = run(&plan, &problem, &examples, 1);
        assert_eq!(x.len(), 5);
        assert_eq!(&x.indices()[..3], [0, 1, 2], "{x:?}");
        let others = x.values()[3..].iter().fold(0.0f64, |m, v| m.max(v.abs()));
        assert!(x.values()[..3].iter().all(|w| *w > 2.0 * others), "{x:?}");
    }
}

#[test]
fn sparse_and_dense_computation_have_one_law() {
    // 300 features, by entries and over all: mean and variance of the weights, how often each of some features is kept
    let examples = table(400, 300, 6);
    let problem = facts(&examples, 6);
    let examples = Sensitive::new(examples);
    let mut options = sparse(3);
    options.steps = Some(3);
    options.refit_share = Some(0.0);
    options.momentum = Some(0.5);
    let plan = DpSgdHt { sampling_probability: Some(0.1), sparse: options }.plan(&problem, budget(1.0)).unwrap();
    let mut entries = plan.clone();
    entries.schedule.computed = super::descent::BY_ENTRIES.into();
    let mut all = plan;
    all.schedule.computed = super::descent::OVER_ALL.into();
    let runs = 1500;
    let statistics: [&dyn Fn(&SparseVector) -> f64; 6] = [
        &|x| x.at(0),
        &|x| f64::from(u8::from(x.at(1) != 0.0)),
        &|x| x.values().iter().map(|v| v * v).sum(),
        &|x| f64::from(u8::from(x.indices()[2] > 150)),
        &|x| x.values().iter().fold(f64::INFINITY, |m, v| m.min(v.abs())),
        &|x| x.values().iter().sum(),
    ];
    let mut moments = [[[0.0f64; 2]; 6]; 2];
    for (which, plan) in [&entries, &all].into_iter().enumerate() {
        for seed in 0..runs {
            let x = run(plan, &problem, &examples, 2 * seed + which as u64);
            for (m, f) in moments[which].iter_mut().zip(statistics) {
                m[0] += f(&x) / runs as f64;
                m[1] += f(&x).powi(2) / runs as f64;
            }
        }
    }
    for (i, (a, b)) in moments[0].iter().zip(&moments[1]).enumerate() {
        let variance = (a[1] - a[0] * a[0] + b[1] - b[0] * b[0]) / runs as f64;
        // six comparisons at 5.4 standard deviations: false alarm below 4e-7
        assert!((a[0] - b[0]).abs() < 5.4 * variance.sqrt(), "{i}: {a:?} {b:?}");
    }
}

#[test]
fn the_event_is_what_is_released() {
    let problem = Problem { rows: 5000, ..facts(&table(10, 50, 4), 4) };
    let full = DpGdHt { sparse: sparse(7) }.plan(&problem, budget(2.0)).unwrap();
    let Event::Approximate { event, .. } = full.summary.certificate.event() else { panic!("samplers are approximate") };
    let refit = full.schedule.refit.as_ref().unwrap();
    assert_eq!(
        **event,
        Event::composed(vec![
            Event::gaussian(full.schedule.noise_multiplier).self_composed(full.schedule.steps),
            Event::gaussian(refit.noise_multiplier).self_composed(refit.steps),
        ])
    );
    // without a second stage and sampling it is one Gaussian of √T
    let alone = DpGdHt { sparse: SparseOptions { refit_share: Some(0.0), steps: Some(100), ..sparse(7) } };
    let plan = alone.plan(&problem, Budget::new(4.0, 1e-5).unwrap()).unwrap();
    let exact = 10.0 / dpopt_privacy::special::gaussian_mu(4.0, 1e-5);
    assert!((plan.schedule.noise_multiplier / exact - 1.0).abs() < 1e-4);
    // under replace-one the noise doubles: 2l/n·√T·multiplier
    let replaced =
        Problem { neighbours: Neighbours::of_records(Relation::ReplaceOne), rows: 16_193, ..problem.clone() };
    let plan = alone.plan(&replaced, Budget::new(4.0, 1e-5).unwrap()).unwrap();
    let of_the_mean = plan.schedule.noise_multiplier / 16_193.0;
    assert!((of_the_mean - 0.001_335_34).abs() < 2e-7, "{of_the_mean}");
}

#[test]
fn what_the_intercept_is_exempt_from() {
    let sparsity = Sparsity { max_features: 10, initial_features: 80, intercept: Some(0) };
    let x = SparseVector::new([(0, 2.0), (5, 1.0)]);
    let start = sparsity.start(&x, &SparseVector::new([(5, 0.5)]), 0.9, 0.5);
    // no decay of the intercept, momentum for both
    assert!((start.at(0) - (2.0 + 0.5 * 2.0)).abs() < 1e-15 && (start.at(5) - (0.9 + 0.5 * 0.5)).abs() < 1e-15);
    // 80 to 10 over the first half of the steps
    let kept: Vec<usize> = (0..8).map(|t| sparsity.at(t, 8)).collect();
    assert_eq!(kept, [80, 48, 28, 17, 10, 10, 10, 10]);
    assert_eq!(Sparsity { initial_features: 10, ..sparsity }.at(0, 1), 10);
    // kept whatever its size, beside k others
    let examples = table(200, 30, 4);
    let problem = facts(&examples, 4);
    let options = SparseOptions { intercept: Some(29), ..sparse(3) };
    let plan = DpGdHt { sparse: options }.plan(&problem, budget(1.0)).unwrap();
    let x = run(&plan, &problem, &Sensitive::new(examples), 1);
    assert!(x.len() == 4 && x.indices()[3] == 29);
}

#[test]
fn only_methods_that_limit_features_apply_when_few_are_asked_for() {
    let problem = facts(&table(3000, 50, 4), 4);
    let options = MethodOptions::default().with("max_features", 5);
    let all = candidates(&problem, budget(1.0), &options);
    for c in &all {
        assert_eq!(
            c.plan.is_ok(),
            c.method.ends_with("-ht") || ["peeling", "frank-wolfe"].contains(&c.method),
            "{}",
            c.method
        );
    }
    assert!(choose(&problem, budget(1.0), &options).unwrap().summary().method.ends_with("-ht"));
    let named = options.clone().by("noisy-sgd");
    assert!(choose(&problem, budget(1.0), &named).is_err());
    let without = MethodOptions::of("dp-gd-ht");
    let Err(why) = choose(&problem, budget(1.0), &without) else { panic!("k is needed") };
    assert!(why.to_string().contains("`max_features`"));
    for (wrong, word) in [
        (options.clone().with("max_features", 0), "max_features"),
        (options.clone().with("initial_features", 3), "initial_features"),
        (options.clone().with("refit_share", 1.0), "refit_share"),
        (options.clone().with("steps", 0), "steps"),
        (options.clone().with_intercept(50), "intercept"),
        (options.clone().with("regularization", 1e9), "regularization"),
    ] {
        let named = wrong.by("dp-gd-ht");
        let Err(why) = choose(&problem, budget(1.0), &named) else { panic!("{word}") };
        assert!(why.to_string().contains(word), "{why}");
    }
    let softmax = Problem { loss: Loss::Softmax { classes: 3 }, ..problem };
    assert!(choose(&softmax, budget(1.0), &options).is_err());
}
