//! Exact values of the bound of Liu 2024, Theorem 11.3.3, the bound against 1,000 random runs, and the method through its plan.

use super::*;
use crate::descent::descend;
use dpopt_mechanism::Curator;
use dpopt_mechanism::progress::Silent;
use dpopt_noise::{NoiseSource, Purpose};
use dpopt_objective::loss::Loss;
use dpopt_optimize::Algorithm;
use dpopt_optimize::plan::Problem;
use dpopt_privacy::{Budget, Neighbours, Relation};
use dpopt_problems::GeometricMedian;
use rayon::prelude::*;

fn close(a: f64, b: f64, relative: f64) {
    assert!((a / b - 1.0).abs() < relative, "{a} is not {b}");
}

#[test]
fn parameters_of_the_theorem() {
    let p = formula_parameters(10_000, 1000, (2.0, 1e-6), 1.0, (3.0, 1.0));
    assert_eq!((p.directions, p.levels), (308, 2));
    close(p.regularization, 0.0238587, 1e-5);
    close(p.steps, 1.000993e8, 1e-6);
    close(p.noise_multiplier, 1.859384, 1e-6);
    close(p.learning_rate, 1.020984e-6, 1e-6);
    let p = formula_parameters(1000, 2000, (1.0, 1e-6), 1.0, (1.0, 1.0));
    assert_eq!((p.directions, p.levels), (42, 6));
    close(p.regularization, 0.1061462, 1e-6);
    close(p.learning_rate, 3.346542e-5, 1e-6);
    let p = formula_parameters(1000, 2000, (1.0, 1e-6), 1.0, (1.0, 0.75));
    assert_eq!((p.directions, p.levels), (88, 5));
    close(p.regularization, 0.2214153, 1e-6);
}

/// f(x; s) = s·x with s = 1/2, α = 0.2, η = 0.1, T = 2 and no noise, from x⁰ = 0: x¹ = −0.05, x² = −0.05 − 0.1(0.5 − 0.2·0.05).
#[test]
fn the_loop_is_the_listing() {
    let problem = Problem { rows: 1, ..problem(1) };
    let budget = Budget::new(1.0, 1e-6).unwrap();
    let options = RegularizedDescent {
        steps: Some(2),
        learning_rate: Some(0.1),
        regularization: Some(0.2),
        ..RegularizedDescent::default()
    };
    let plan = options.plan(&problem, budget).unwrap();
    let curator = Curator::new(&plan.summary.certificate, NoiseSource::insecure(1));
    let schedule = plan.schedule.descent;
    let run = descend(&mut schedule.heavy_ball(&problem), &schedule, &problem, &Silent, "test", |_| {
        Ok(curator.postprocess(vec![0.5]))
    })
    .unwrap();
    assert!((run.weights[0] + 0.0745).abs() < 1e-12);
}

#[test]
fn tails_and_profiles() {
    let rank = Profile::Rank { rank: 5 };
    assert_eq!(rank.tail(5, 1000, 2.0), 0.0);
    assert!(rank.tail(4, 1000, 2.0) > 0.0);
    assert_eq!(Profile::Flat.tail(30, 30, 1.0), 0.0);
    // S = 2: 2·G_1² + 4·4·G_2² with d = 3, k = 1: ⌊log2 3⌋ + 1 = 2
    let decay = Profile::Decay { exponent: 1.0 };
    close(decay.tail(1, 3, 1.0), (2.0 / 4.0 + 16.0 / 9.0f64).sqrt(), 1e-12);
    let fit = fit_decay(&(0..50).map(|k| decay.coefficient(k, 51, 3.0)).collect::<Vec<_>>()).unwrap();
    assert!((fit.exponent() - 1.0).abs() < 1e-9 && fit.dimension_free);
    assert!(!fit_decay(&[1.0, 0.9, 0.85]).unwrap().dimension_free);
    for bad in [
        Profile::Decay { exponent: -1.0 },
        Profile::Rank { rank: 0 },
        Profile::Shares(vec![0.5, 0.6]),
        Profile::Shares(vec![]),
    ] {
        assert!(bad.problem().is_some());
    }
}

/// No grid of (k, η, α) finds a smaller bound than the minimiser does.
#[test]
fn the_bound_is_minimised() {
    let mut stream = NoiseSource::insecure(2).stream(Purpose::Other(1), 0);
    for case in 0..60 {
        let dimension = 2 + stream.below(300) as usize;
        let profile = match case % 3 {
            0 => Profile::Decay { exponent: 2.0 * stream.uniform() },
            1 => Profile::Rank { rank: 1 + stream.below(dimension as u64) },
            _ => Profile::Flat,
        };
        let std = 10f64.powf(3.0 * stream.uniform() - 2.0);
        let noise = GradientNoise { lipschitz: 1.0, sampling: 0.1, smoothness: None, std };
        let (distance, steps) = (10f64.powf(2.0 * stream.uniform() - 1.0), 1 + stream.below(500));
        let best = minimise_bound(&profile, dimension, noise, distance, steps);
        let own = profile.tail(best.parameters.directions, dimension, 1.0);
        close(bound(noise, own, distance, steps, best.parameters), best.excess_risk, 1e-12);
        for k in [1, 2, 3, 5, 8, 16, 50, 120, dimension].into_iter().filter(|k| *k <= dimension) {
            let tail = profile.tail(k, dimension, 1.0);
            for i in 0..25 {
                for j in 0..25 {
                    let learning_rate = best.parameters.learning_rate * 10f64.powf(f64::from(i) / 6.0 - 2.0);
                    let middle = if tail > 0.0 { 6f64.sqrt() * tail / distance } else { 0.0 };
                    let parameters = Parameters {
                        directions: k,
                        learning_rate,
                        regularization: middle * 10f64.powf(f64::from(j) / 6.0 - 2.0),
                    };
                    let other = bound(noise, tail, distance, steps, parameters);
                    // ηα may be 0.5 in the grid, 0.499 in the choice
                    assert!(
                        other >= best.excess_risk * (1.0 - 3e-3),
                        "case {case}: {other} with {parameters:?}, {best:?}"
                    );
                }
            }
        }
    }
}

/// Eq. (11.11) in 1,000 random settings: the mean excess risk of 8 runs stays below the bound for the best k of the profile,
/// whatever the learning rate, regularisation, noise and decay. Six standard errors of room: false alarm below 1e-6.
#[test]
fn the_bound_is_never_violated_in_a_thousand_random_settings() {
    const RUNS: usize = 8;
    let tightest = (0..1000u64)
        .into_par_iter()
        .map(|case| {
            let mut stream = NoiseSource::insecure(case).stream(Purpose::Other(2), 0);
            let (n, d) = (1 + stream.below(40) as usize, 1 + stream.below(40) as usize);
            let exponent = 2.0 * stream.uniform();
            let scale = 10f64.powf(2.0 * stream.uniform() - 1.0);
            let f = GeometricMedian::generate(n, d, scale, exponent, case);
            let steps = 1 + stream.below(60);
            let std = scale * 10f64.powf(3.0 * stream.uniform() - 2.5);
            let optimum = f.minimiser();
            let distance = optimum[0].abs();
            let noise = GradientNoise { lipschitz: f.lipschitz(), sampling: 0.0, smoothness: None, std };
            let profile = Profile::Decay { exponent };
            let chosen = minimise_bound(&profile, d, noise, distance.max(1e-9), steps);
            // the minimiser's parameters in half of the cases, any admissible ones in the others
            let mut p = chosen.parameters;
            if case % 2 == 1 {
                p.regularization = 10f64.powf(3.0 * stream.uniform() - 2.0);
                p.learning_rate = (0.5 / p.regularization).min(10f64.powf(4.0 * stream.uniform() - 3.0) / scale);
            }
            let least = (1..=d)
                .map(|k| {
                    bound(noise, profile.tail(k, d, f.lipschitz()), distance, steps, Parameters { directions: k, ..p })
                })
                .fold(f64::INFINITY, f64::min);
            let minimum = f.value(&optimum);
            let excesses: Vec<f64> = (0..RUNS)
                .map(|_| {
                    let (mut x, mut mean, mut g) = (vec![0.0; d], vec![0.0; d], vec![0.0; d]);
                    for t in 1..=steps {
                        f.gradient(&x, &mut g);
                        for j in 0..d {
                            x[j] -= p.learning_rate * (g[j] + p.regularization * x[j] + std * stream.standard_normal());
                            mean[j] += (x[j] - mean[j]) / t as f64;
                        }
                    }
                    f.value(&mean) - minimum
                })
                .collect();
            let mean = excesses.iter().sum::<f64>() / RUNS as f64;
            let variance = excesses.iter().map(|e| (e - mean).powi(2)).sum::<f64>() / (RUNS - 1) as f64;
            let room = 6.0 * (variance / RUNS as f64).sqrt();
            assert!(
                mean <= least + room,
                "case {case}: {mean} > {least} + {room} ({p:?}, n = {n}, d = {d}, T = {steps})"
            );
            mean / least
        })
        .reduce(|| 0.0, f64::max);
    // the test has power: some settings come within a factor of five
    assert!(tightest > 0.2, "{tightest}");
}

/// The second bound on quadratics F = ½Σ h_j(x_j − c_j)², whose minimiser and curvature are known: 1,000 random settings, the mean
/// of 8 runs, six standard errors of room.
#[test]
fn the_bound_for_smooth_losses_is_never_violated_in_a_thousand_random_settings() {
    const RUNS: usize = 8;
    let tightest = (0..1000u64)
        .into_par_iter()
        .map(|case| {
            let mut stream = NoiseSource::insecure(case).stream(Purpose::Other(4), 0);
            let d = 1 + stream.below(30) as usize;
            let h: Vec<f64> = (0..d).map(|_| 10f64.powf(3.0 * stream.uniform() - 2.0)).collect();
            let c: Vec<f64> = (0..d).map(|_| stream.standard_normal()).collect();
            let beta = h.iter().copied().fold(0.0, f64::max);
            let distance = dpopt_objective::geometry::norm(&c);
            let steps = 1 + stream.below(80);
            let noise = GradientNoise {
                lipschitz: 1e9,
                sampling: 0.0,
                smoothness: Some(beta),
                std: 10f64.powf(3.0 * stream.uniform() - 2.0),
            };
            let chosen = minimise_bound(&Profile::Flat, d, noise, distance, steps);
            let best = chosen.parameters.learning_rate;
            // no other learning rate has a smaller bound
            for i in 0..60 {
                let other = smooth_bound(noise, d, distance, steps, best * 1.15f64.powi(i - 30));
                assert!(other >= chosen.excess_risk * (1.0 - 1e-9));
            }
            let rate = if case % 2 == 0 { best } else { stream.uniform() / beta };
            let value = |x: &[f64]| 0.5 * (0..d).map(|j| h[j] * (x[j] - c[j]).powi(2)).sum::<f64>();
            let excesses: Vec<f64> = (0..RUNS)
                .map(|_| {
                    let (mut x, mut mean) = (vec![0.0; d], vec![0.0; d]);
                    for t in 1..=steps {
                        for j in 0..d {
                            x[j] -= rate * (h[j] * (x[j] - c[j]) + noise.std * stream.standard_normal());
                            mean[j] += (x[j] - mean[j]) / t as f64;
                        }
                    }
                    value(&mean)
                })
                .collect();
            let mean = excesses.iter().sum::<f64>() / RUNS as f64;
            let variance = excesses.iter().map(|e| (e - mean).powi(2)).sum::<f64>() / (RUNS - 1) as f64;
            let (room, limit) = (6.0 * (variance / RUNS as f64).sqrt(), smooth_bound(noise, d, distance, steps, rate));
            assert!(mean <= limit + room, "case {case}: {mean} > {limit} + {room}");
            mean / limit
        })
        .reduce(|| 0.0, f64::max);
    assert!(tightest > 0.2, "{tightest}");
    let rough = GradientNoise { lipschitz: 1.0, sampling: 0.0, smoothness: None, std: 1.0 };
    assert_eq!(smooth_bound(rough, 1, 1.0, 1, 0.1), f64::INFINITY);
}

/// Lemma 11.3.9 on pure noise: the iterate is an AR(1) process of known variance.
#[test]
fn a_run_on_noise_alone_has_the_variance_of_an_autoregression() {
    let (eta, alpha, std, steps) = (0.3f64, 0.4, 1.5, 20);
    let rho = 1.0 - eta * alpha;
    let mut stream = NoiseSource::insecure(4).stream(Purpose::Other(3), 0);
    const RUNS: usize = 40_000;
    let squares: f64 = (0..RUNS)
        .map(|_| {
            let mut x = 0.0;
            for _ in 0..steps {
                x -= eta * (alpha * x + std * stream.standard_normal());
            }
            x * x
        })
        .sum();
    let wanted = (eta * std).powi(2) * (1.0 - rho.powi(2 * steps)) / (1.0 - rho * rho);
    // relative standard deviation √(2/RUNS), six of them
    close(squares / RUNS as f64, wanted, 6.0 * (2.0 / RUNS as f64).sqrt());
    assert!(wanted <= 2.0 * eta / alpha * std * std); // the lemma's bound for one direction, G = 0
}

fn problem(features: usize) -> Problem {
    Problem {
        directions: None,
        prior_release: None,
        calibrated: None,
        intervals: None,
        record: Default::default(),
        rows: 30_000,
        features,
        nonzeros: features.min(30),
        row_norm: 1.0,
        loss: Loss::Logistic { shift: 0.0 },
        neighbours: Neighbours::of_records(Relation::ZeroOut),
    }
}

#[test]
fn who_knows_the_decay_sees_a_smaller_bound_and_one_that_does_not_grow() {
    let budget = Budget::new(1.0, 1e-6).unwrap();
    let of = |features: usize, profile: Option<Profile>| {
        let options = RegularizedDescent { profile, ..Default::default() };
        options.plan(&problem(features), budget).unwrap()
    };
    let decay = || Some(Profile::Decay { exponent: 1.5 });
    let (plain, known) = (of(3_000_000, None), of(3_000_000, decay()));
    assert!(known.schedule.excess_risk_bound < 0.8 * plain.schedule.excess_risk_bound);
    assert_eq!(plain.schedule.directions, 3_000_000);
    assert!(plain.schedule.alpha == 0.0 && known.schedule.alpha > 0.0);
    close(of(6_000_000, decay()).schedule.excess_risk_bound, known.schedule.excess_risk_bound, 0.02);
    let low = of(3_000_000, Some(Profile::Rank { rank: 20 }));
    assert_eq!(low.schedule.directions, 20);
    assert!(low.schedule.excess_risk_bound < known.schedule.excess_risk_bound);
    assert!(known.summary.warnings[0].contains("k^-1.5"));
    // η·α within the proof, and the schedule is the one that runs
    let s = &known.schedule;
    assert!(s.descent.learning_rate * s.alpha <= 0.5);
    close(s.descent.regularization, s.alpha * 30_000.0, 1e-12);
}

#[test]
fn bad_options_are_refused() {
    let budget = Budget::new(1.0, 1e-6).unwrap();
    let refused = |options: RegularizedDescent| options.plan(&problem(50), budget).is_err();
    assert!(refused(RegularizedDescent { profile: Some(Profile::Rank { rank: 0 }), ..Default::default() }));
    assert!(refused(RegularizedDescent { distance: Some(-1.0), ..Default::default() }));
    assert!(refused(RegularizedDescent { steps: Some(0), ..Default::default() }));
    let classes = Problem { loss: Loss::Softmax { classes: 3 }, ..problem(50) };
    assert!(RegularizedDescent { clip_norm: Some(0.1), ..Default::default() }.plan(&classes, budget).is_err());
    assert!(RegularizedDescent::default().plan(&classes, budget).is_ok());
    assert!(refused(RegularizedDescent { sampling_probability: Some(1.5), ..Default::default() }));
}
