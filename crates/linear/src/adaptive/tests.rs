//! Reference noise multipliers, the law of the noise, scale invariance, clips, learning, refusals.

use super::*;
use dpopt_mechanism::progress::Silent;
use dpopt_mechanism::{Clipped, Curator, Gaussian};
use dpopt_noise::{Grid, NoiseSource};
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::Linear;
use dpopt_objective::records::{Examples, Rows};
use dpopt_objective::synthetic::Lcg;
use dpopt_optimize::{MethodOptions, Run};
use dpopt_privacy::{Neighbours, Relation, calibrate};

const LOGISTIC: Loss = Loss::Logistic { shift: 0.0 };

#[test]
fn reference_noise_multipliers() {
    let z = |q: f64, steps: u64, epsilon: f64, delta: f64, relation: Relation| {
        let event = |z: f64| Event::gaussian(z).poisson_sampled(q).self_composed(steps);
        calibrate::noise(event, Neighbours::of_records(relation).within(Budget::new(epsilon, delta).unwrap()))
            .unwrap()
            .0
    };
    let (small, language) = ((70.0 / 5000.0, 1000), (250.0 / 59_674.0, 1671));
    for ((q, steps), epsilon, delta, relation, expected) in [
        (small, 0.1, 1e-5, Relation::AddOrRemove, 13.68),
        (small, 1.0, 1e-5, Relation::ZeroOut, 1.843),
        (small, 4.0, 1e-5, Relation::AddOrRemove, 0.8322),
        (small, 0.1, 1e-5, Relation::ReplaceOne, 27.23),
        (small, 1.0, 1e-5, Relation::ReplaceOne, 3.304),
        (small, 4.0, 1e-5, Relation::ReplaceOne, 1.025),
        (language, 0.5, 1e-5, Relation::ZeroOut, 1.4243),
        (language, 1.0, 1e-5, Relation::ZeroOut, 0.9581),
        (language, 3.0, 1e-5, Relation::ZeroOut, 0.6680),
        (language, 0.5, 1e-6, Relation::ZeroOut, 1.5886),
        (language, 1.0, 1e-6, Relation::ZeroOut, 1.0327),
        (language, 3.0, 1e-6, Relation::ZeroOut, 0.7102),
        (language, 0.5, 1e-5, Relation::ReplaceOne, 2.4141),
        (language, 1.0, 1e-5, Relation::ReplaceOne, 1.3135),
        (language, 3.0, 1e-5, Relation::ReplaceOne, 0.7040),
    ] {
        let z = z(q, steps, epsilon, delta, relation);
        assert!((z / expected - 1.0).abs() < 2e-3, "{epsilon} {delta} {relation:?}: {z}, not {expected}");
    }
}

/// n rows of d features whose spreads fall like j^−1.5; all of them decide the class alike.
fn table(n: usize, d: usize, seed: u64) -> Examples {
    let mut random = Lcg::new(seed);
    let mut examples = Examples { rows: Rows::new(d), targets: Vec::new() };
    for _ in 0..n {
        let spread = |j: usize| 0.5 * ((j + 1) as f64).powf(-1.5);
        let x: Vec<f64> = (0..d).map(|j| spread(j) * random.normal()).collect();
        let score: f64 = x.iter().enumerate().map(|(j, x)| x / spread(j) / (d as f64).sqrt()).sum();
        let mut entries: Vec<(u32, f32)> = x.iter().enumerate().map(|(j, x)| (j as u32, *x as f32)).collect();
        examples.rows.push_clipped(&mut entries, 1.0);
        examples.targets.push(if score > 0.0 { 1.0 } else { -1.0 });
    }
    examples
}

fn problem(examples: &Examples, loss: Loss) -> Problem {
    Problem {
        directions: None,
        prior_release: None,
        calibrated: None,
        intervals: None,
        record: Default::default(),
        rows: examples.rows.len() as u64,
        features: examples.rows.columns(),
        nonzeros: examples.rows.columns(),
        row_norm: 1.0,
        loss,
        neighbours: Neighbours::of_records(Relation::ZeroOut),
    }
}

fn budget(epsilon: f64) -> Budget {
    Budget::new(epsilon, 1e-6).unwrap()
}

/// Runs a plan once on made-up records.
fn run_once<A: Algorithm>(
    method: &A,
    plan: &Plan<A::Schedule>,
    examples: &Examples,
    loss: Loss,
    seed: u64,
) -> Solution {
    let problem = problem(examples, loss);
    let sensitive = Sensitive::new(examples.clone());
    let mut curator = Curator::new(&plan.summary.certificate, NoiseSource::insecure(seed));
    let answer = method.run(plan, Run::new(&problem, &sensitive, &mut curator, &Silent).unwrap()).unwrap().into_inner();
    assert!(curator.is_spent());
    assert!(
        method.run(plan, Run::new(&problem, &sensitive, &mut curator, &Silent).unwrap()).is_err(),
        "the budget is spent"
    );
    answer
}

fn public(spreads: Vec<f64>) -> AdaptiveOptions {
    AdaptiveOptions { moments: Some(Moments::Public { spreads }), ..AdaptiveOptions::default() }
}

fn short(steps: u64) -> DescentOptions {
    DescentOptions { steps: Some(steps), learning_rate: Some(0.1), clip_norm: Some(0.5), ..DescentOptions::default() }
}

#[test]
fn noise_has_the_shape_of_the_ellipsoid() {
    // no record contributes: what is released is noise, isotropic in the units of the clip, z·B/√C_j in the gradient's
    let d = 6;
    let mut rows = Rows::new(d);
    rows.push_zero();
    let empty = Examples { rows, targets: vec![0.0] };
    let spreads: Vec<f64> = (1..=d).map(|j| (j as f64).powf(-1.5)).collect();
    let squares: Vec<f64> = spreads.iter().map(|s| s * s).collect();
    let method = Pagan::new(Some(1.0), public(spreads), short(20_000));
    let plan = method.plan(&problem(&empty, Loss::Absolute), budget(1.0)).unwrap();
    let problem = problem(&empty, Loss::Absolute);
    let sensitive = Sensitive::new(empty);
    let mut curator = Curator::new(&plan.summary.certificate, NoiseSource::insecure(4));
    let s = &plan.schedule;
    let mut units = Units::new(geometry::scales(&squares, s.exponent));
    let scales = units.scales.clone();
    let gradient =
        Clipped::new(Linear::new(s.descent.loss, d, 1.0), s.descent.clip_norm, Grid::new(s.descent.grid_exponent))
            .unwrap();
    let grid = Grid::new(s.descent.grid_exponent);
    let mechanism = Gaussian::new(s.descent.noise_multiplier, s.descent.clip_norm, grid, d, "batch gradient");
    let mut sums = vec![0.0; d];
    let draws = 20_000;
    for _ in 0..draws {
        let scaled = sensitive.in_units(&scales);
        let batch = curator.poisson_sample(1, 1.0).unwrap();
        let sum = gradient.sum_batch(&scaled, batch, &units.weights(&vec![0.3; d]));
        let noisy = curator.release(&mechanism, &sum).unwrap().into_inner();
        units.gradient(noisy, s.descent.noise_std).iter().zip(&mut sums).for_each(|(g, s)| *s += g * g);
    }
    // χ² with 20000 degrees of freedom has standard deviation 200: 6.3 of them, false alarm 2e-9 in all six
    for j in 0..d {
        let expected = (s.descent.noise_std / scales[j]).powi(2);
        assert!((sums[j] / expected - f64::from(draws)).abs() < 6.3 * 200.0, "{j}: {}", sums[j] / expected);
    }
    assert_eq!(problem.weights(), d);
}

#[test]
fn the_unit_of_the_ellipsoid_does_not_matter() {
    // C and B² times a power of 4: the same steps, bit for bit
    let examples = table(300, 5, 2);
    let problem = problem(&examples, LOGISTIC);
    let answer = |moments: f64| {
        let spreads = (1..=5).map(|j| moments * f64::from(j).powf(-1.5)).collect();
        let method = Pagan::new(Some(0.5), public(spreads), short(30));
        let plan = method.plan(&problem, budget(1.0)).unwrap();
        run_once(&method, &plan, &examples, LOGISTIC, 7).weights
    };
    let all = [answer(1.0), answer(0.5), answer(1024.0)];
    assert!(all[0] == all[1] && all[1] == all[2], "{all:?}");
}

#[test]
fn a_ball_is_the_ellipsoid_of_equal_moments_and_both_clips_agree_in_it() {
    let examples = table(300, 5, 3);
    let problem = problem(&examples, LOGISTIC);
    let answer = |adaptive: AdaptiveOptions| {
        let method = Pasan::new(Some(0.5), adaptive, short(30));
        let plan = method.plan(&problem, budget(1.0)).unwrap();
        run_once(&method, &plan, &examples, LOGISTIC, 7).weights
    };
    let none = AdaptiveOptions { moments: Some(Moments::None), ..AdaptiveOptions::default() };
    let ball = answer(none.clone());
    assert_eq!(ball, answer(public(vec![3.0; 5])));
    let nearest = answer(AdaptiveOptions { euclidean_clip: true, ..none });
    for (a, b) in ball.iter().zip(&nearest) {
        // another way of rounding the same contributions
        assert!((a - b).abs() < 1e-6, "{ball:?} {nearest:?}");
    }
}

/// Mean loss of the table at `weights`.
fn mean_loss(examples: &Examples, loss: Loss, weights: &[f64]) -> f64 {
    let d = examples.rows.columns();
    let one = |i: usize| {
        let (columns, values) = examples.rows.row(i);
        let score = |line: &[f64]| columns.iter().zip(values).map(|(&j, &x)| f64::from(x) * line[j as usize]).sum();
        loss.value(&weights.chunks_exact(d).map(score).collect::<Vec<f64>>(), f64::from(examples.targets[i]))
    };
    (0..examples.rows.len()).map(one).sum::<f64>() / examples.rows.len() as f64
}

#[test]
fn private_moments_beat_a_ball_where_spreads_differ() {
    let examples = table(8000, 20, 5);
    let problem = problem(&examples, LOGISTIC);
    let mean = |moments: Option<Moments>| {
        let method =
            Pagan::new(None, AdaptiveOptions { moments, ..AdaptiveOptions::default() }, DescentOptions::default());
        let plan = method.plan(&problem, budget(1.0)).unwrap();
        (0..5)
            .map(|seed| mean_loss(&examples, LOGISTIC, &run_once(&method, &plan, &examples, LOGISTIC, seed).weights))
            .sum::<f64>()
            / 5.0
    };
    let (ball, private) = (mean(Some(Moments::None)), mean(None));
    println!("ball {ball}, private moments {private}, start {}", 2f64.ln());
    assert!(private < ball && ball < 2f64.ln(), "{private} {ball}");
}

#[test]
fn all_methods_learn_with_all_losses_and_stay_in_their_domain() {
    let mut examples = table(4000, 6, 8);
    let classes =
        Examples { targets: examples.targets.iter().map(|t| t.max(0.0)).collect(), rows: examples.rows.clone() };
    for (loss, examples) in [
        (LOGISTIC, &mut examples.clone()),
        (Loss::Hinge, &mut examples),
        (Loss::Softmax { classes: 3 }, &mut classes.clone()),
    ] {
        fn check<K: AdaptiveKind>(examples: &Examples, loss: Loss, radius: f64) {
            let adaptive = AdaptiveOptions { domain: Some(Domain::Box { radius }), ..AdaptiveOptions::default() };
            let method = Adaptive::<K>::new(
                Some(0.2),
                adaptive,
                DescentOptions { steps: Some(100), ..DescentOptions::default() },
            );
            let plan = method.plan(&problem(examples, loss), budget(4.0)).unwrap();
            let answer = run_once(&method, &plan, examples, loss, 3);
            assert!(answer.weights.iter().all(|w| w.abs() <= radius));
            let noise = answer.noise.unwrap();
            assert!(noise.len() == answer.weights.len() && noise.iter().all(|n| *n > 0.0 && n.is_finite()));
            let start = mean_loss(examples, loss, &vec![0.0; answer.weights.len()]);
            let end = mean_loss(examples, loss, &answer.weights);
            println!("{} {loss:?}: {start} to {end}", K::NAME);
            assert!(end < 0.97 * start, "{} {loss:?}: {start} to {end}", K::NAME);
        }
        for radius in if loss == LOGISTIC { vec![2.0, 1e3] } else { vec![2.0] } {
            check::<PasanKind>(examples, loss, radius);
            check::<PaganKind>(examples, loss, radius);
            check::<DpAdamKind>(examples, loss, radius);
            check::<DpAdaGradKind>(examples, loss, radius);
            check::<PdpSgdKind>(examples, loss, radius);
        }
    }
}

#[test]
fn what_can_t_be_done_is_refused_with_the_reason() {
    let examples = table(50, 4, 1);
    let problem = problem(&examples, LOGISTIC);
    let refused = |adaptive: AdaptiveOptions| {
        Pagan::new(None, adaptive, DescentOptions::default())
            .plan(&problem, budget(1.0))
            .err()
            .map(|e| e.to_string())
            .unwrap_or_default()
    };
    for (options, because) in [
        (AdaptiveOptions { lazy: Some(true), ..AdaptiveOptions::default() }, "every weight in every step"),
        (public(vec![1.0; 3]), "3 public moments were given for 4"),
        (public(vec![1.0, f64::NAN, 1.0, 1.0]), "public moment 2"),
        (AdaptiveOptions { domain: Some(Domain::Ball { radius: -1.0 }), ..AdaptiveOptions::default() }, "radius"),
        (AdaptiveOptions { moment_share: Some(0.9), ..AdaptiveOptions::default() }, "moments' share"),
        (AdaptiveOptions { moment_ratio: Some(0.2), ..AdaptiveOptions::default() }, "moment ratio"),
        (AdaptiveOptions { second_momentum: Some(1.0), ..AdaptiveOptions::default() }, "second momentum"),
        (AdaptiveOptions { subspace: Some(Subspace::Coordinates { rank: 5 }), ..AdaptiveOptions::default() }, "1 to 4"),
    ] {
        let text = refused(options);
        assert!(text.contains(because), "{because}: {text}");
    }
    // 50 records can't pay for moments: the plan says so, and spends nothing on them
    let plan = Pagan::default().plan(&problem, budget(0.1)).unwrap();
    assert!(matches!(plan.schedule.moments, MomentSchedule::None { because: Some(_) }));
    assert!(plan.summary.warnings.iter().any(|w| w.contains("isotropic")), "{:?}", plan.summary.warnings);
    // public zeros are fine: a feature that is always 0 gets a large, finite scale
    let plan = Pagan::new(None, public(vec![1.0, 0.0, 0.5, 0.0]), DescentOptions::default())
        .plan(&problem, budget(1.0))
        .unwrap();
    let MomentSchedule::Public { scales, spread } = plan.schedule.moments else { panic!("public") };
    assert!(spread <= 1000.0 * (1.0 + 1e-9) && scales.iter().all(|s| s.is_finite() && *s > 0.0));
}

#[test]
fn moments_and_steps_share_the_budget() {
    let examples = table(4000, 6, 8);
    let problem = problem(&examples, LOGISTIC);
    let plan = |moments: Option<Moments>, relation: Relation| {
        let method = Pagan::new(Some(0.1), AdaptiveOptions { moments, ..AdaptiveOptions::default() }, short(100));
        method.plan(&Problem { neighbours: Neighbours::of_records(relation), ..problem.clone() }, budget(1.0)).unwrap()
    };
    for relation in [Relation::ZeroOut, Relation::AddOrRemove, Relation::ReplaceOne] {
        let (without, with) = (plan(Some(Moments::None), relation), plan(None, relation));
        assert!(with.summary.certificate.bound().upper <= 1.0);
        let MomentSchedule::Private { release: MomentRelease::Direct { noise_multiplier }, share } =
            with.schedule.moments
        else {
            panic!("4000 records pay for the moments")
        };
        // a tenth of μ²
        let mu = dpopt_privacy::special::gaussian_mu(1.0, 1e-6) / relation.sum_sensitivity();
        assert!((noise_multiplier * mu * share.sqrt() - 1.0).abs() < 1e-12);
        // and the steps pay for it with some 5 % more noise
        let ratio = with.summary.noise_multiplier / without.summary.noise_multiplier;
        assert!((1.005..1.12).contains(&ratio), "{relation:?}: {ratio}");
    }
}

#[test]
fn a_projected_descent_moves_in_its_subspace_only() {
    let examples = table(4000, 6, 8);
    let problem = problem(&examples, LOGISTIC);
    let answer = |subspace: Subspace| {
        let adaptive =
            AdaptiveOptions { subspace: Some(subspace), moments: Some(Moments::None), ..AdaptiveOptions::default() };
        let method = PdpSgd::new(Some(0.2), adaptive, short(60));
        let plan = method.plan(&problem, budget(2.0)).unwrap();
        assert!(plan.summary.certificate.bound().upper <= 2.0);
        run_once(&method, &plan, &examples, LOGISTIC, 3).weights
    };
    let first = answer(Subspace::Coordinates { rank: 2 });
    assert!(first[..2].iter().all(|w| *w != 0.0) && first[2..].iter().all(|w| *w == 0.0), "{first:?}");
    // spreads fall like j^−1.5: the leading direction is the first coordinate
    let leading = answer(Subspace::Private { rank: 1 });
    let rest = dpopt_objective::geometry::norm(&leading[1..]);
    assert!(leading[0].abs() > 5.0 * rest, "{leading:?}");
}

#[test]
fn adaptive_methods_are_not_chosen_for_tables_where_plain_steps_do_as_well() {
    // 5 million rows: hardly any noise; a prediction from the noise alone would promise the moon
    let problem = Problem {
        directions: None,
        prior_release: None,
        calibrated: None,
        intervals: None,
        record: Default::default(),
        rows: 5_000_000,
        features: 1000,
        nonzeros: 1000,
        row_norm: 1.0,
        loss: Loss::Softmax { classes: 10 },
        neighbours: Neighbours::of_records(Relation::ZeroOut),
    };
    let risk = |name: &str| {
        let options = MethodOptions::of(name);
        crate::named(&problem, budget(1.0), &options).unwrap().plan.unwrap().summary().predicted_excess_risk
    };
    let (adaptive, plain) = (risk("pagan"), risk("noisy-sgd"));
    assert!(adaptive > 0.5 * plain, "{adaptive} {plain}");
}
