//! Numbers of plans, laws of whole runs, slopes of cost.

use super::parameters::{RiskFacts as Public, empirical};
use super::*;
use dpopt_mechanism::progress::Silent;
use dpopt_mechanism::{Curator, CuratorError, Sensitive};
use dpopt_noise::NoiseSource;
use dpopt_objective::records::{Examples, Rows};
use dpopt_objective::synthetic::Lcg;
use dpopt_privacy::{Neighbours, gibbs};
use dpopt_problems::laws::{Tabulated, kolmogorov, kolmogorov_distance, kolmogorov_limit};

const LOGISTIC: Loss = Loss::Logistic { shift: 0.0 };

fn problem(rows: u64, features: usize, loss: Loss) -> Problem {
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
        loss,
        neighbours: Neighbours::of_records(Relation::ZeroOut),
    }
}

fn budget(epsilon: f64) -> Budget {
    Budget::new(epsilon, 1e-6).unwrap()
}

/// λ = nμ of the worst-case tuning for a minimiser of norm at most `radius`.
fn theory(problem: &Problem, budget: Budget, radius: f64) -> f64 {
    let facts = Public {
        rows: problem.rows as f64,
        dimension: problem.weights() as f64,
        radius,
        difference_lipschitz: problem.relation().sum_sensitivity(),
    };
    facts.rows * empirical(facts, shares(budget).mu).modulus
}

fn plan(problem: &Problem, epsilon: f64, regularization: Option<f64>) -> Plan<GibbsSchedule> {
    // other losses have no shift
    let shift = matches!(problem.loss, Loss::Logistic { .. }).then_some(0.0);
    let options = ExponentialMechanism { regularization, shift, ..ExponentialMechanism::default() };
    options.plan(problem, budget(epsilon)).unwrap()
}

fn examples(n: usize, d: usize, seed: u64) -> Examples {
    let mut random = Lcg::new(seed);
    let mut examples = Examples { rows: Rows::new(d), targets: Vec::new() };
    for _ in 0..n {
        let mut row: Vec<(u32, f32)> = (0..d as u32).map(|j| (j, random.normal() as f32)).collect();
        let score: f64 = row.iter().map(|e| f64::from(e.1)).sum::<f64>() + random.normal();
        examples.rows.push_clipped(&mut row, 1.0);
        examples.targets.push(if score > 0.0 { 1.0 } else { -1.0 });
    }
    examples
}

fn draw(plan: &Plan<GibbsSchedule>, problem: &Problem, data: &Sensitive<Examples>, seed: u64) -> Vec<f64> {
    let mut curator = Curator::new(&plan.summary.certificate, NoiseSource::insecure(seed));
    let algorithm = ExponentialMechanism::default();
    let run = Run::new(problem, data, &mut curator, &Silent).unwrap();
    let weights = algorithm.run(plan, run).unwrap().into_inner().weights;
    assert!(curator.is_spent());
    weights
}

#[test]
fn plans_keep_their_promises() {
    for loss in [LOGISTIC, Loss::Hinge, Loss::Absolute, Loss::Squared, Loss::Softmax { classes: 3 }] {
        for relation in [Relation::ZeroOut, Relation::ReplaceOne] {
            for (rows, features, epsilon) in [(300, 3, 0.5), (2_000, 20, 4.0)] {
                let problem = Problem { neighbours: Neighbours::of_records(relation), ..problem(rows, features, loss) };
                let Ok(plan) = ExponentialMechanism::default().plan(&problem, budget(epsilon)) else {
                    // corners and many rows: too many rounds
                    assert!(matches!(loss, Loss::Hinge | Loss::Absolute) && rows == 2_000, "{loss:?} {rows}");
                    continue;
                };
                let (s, chain) = (&plan.schedule, &plan.schedule.chain);
                let lipschitz = s.loss.facts().lipschitz.unwrap() * relation.sum_sensitivity();
                let beta = chain.inverse_temperature;
                assert!(gibbs::mu(beta * lipschitz, beta * chain.regularization) <= s.draw_mu);
                let all = shares(budget(epsilon));
                assert!(s.draw_mu <= all.mu && s.draw_mu > 0.999_999 * all.mu);
                assert!(chain.total_variation <= all.total_variation);
                assert!(chain.least_acceptance > 0.0 && chain.oscillation < 1e-8);
                let bound = plan.summary.certificate.bound().upper;
                assert!(bound <= epsilon && bound > 0.98 * epsilon, "{bound}");
            }
        }
    }
}

#[test]
fn what_has_no_proof_is_refused() {
    let facts = problem(1000, 3, LOGISTIC);
    let options = ExponentialMechanism::default();
    let refused =
        |problem: &Problem, budget: Budget, options: &ExponentialMechanism| options.plan(problem, budget).is_err();
    assert!(refused(&facts, Budget::new(1.0, 0.0).unwrap(), &options));
    assert!(refused(
        &Problem { neighbours: Neighbours::of_records(Relation::AddOrRemove), ..facts.clone() },
        budget(1.0),
        &options
    ));
    assert!(refused(&facts, budget(1.0), &ExponentialMechanism { draws: Some(0), ..options.clone() }));
    for regularization in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        // a flat density has no certificate
        assert!(refused(
            &facts,
            budget(1.0),
            &ExponentialMechanism { regularization: Some(regularization), ..options.clone() }
        ));
    }
    // an ocean of rows: doubles can't carry the potential
    assert!(refused(&problem(1 << 40, 20, LOGISTIC), budget(1.0), &options));
}

#[test]
fn rounds_grow_like_n_for_smooth_losses_and_like_n_squared_with_corners() {
    let rounds = |n: u64, loss: Loss| {
        let problem = problem(n, 10, loss);
        plan(&problem, 1.0, Some(theory(&problem, budget(1.0), 1.0))).schedule.chain.rounds as f64
    };
    let slope = |loss: Loss, low: u64, high: u64| {
        (rounds(high, loss) / rounds(low, loss)).ln() / (high as f64 / low as f64).ln()
    };
    let smooth = slope(LOGISTIC, 1_000, 16_000);
    assert!((smooth - 1.0).abs() < 0.15, "{smooth}");
    let corners = slope(Loss::Absolute, 100, 800);
    assert!((corners - 2.0).abs() < 0.15, "{corners}");
    // about 328 rounds for n = 1000, d = 10 (replace-one, R = 1) without the cost of finite precision
    let problem = Problem { neighbours: Neighbours::of_records(Relation::ReplaceOne), ..problem(1000, 10, LOGISTIC) };
    let plan = plan(&problem, 1.0, Some(theory(&problem, budget(1.0), 1.0)));
    let rounds = plan.schedule.chain.rounds;
    assert!((328..345).contains(&rounds), "{rounds}");
}

/// One weight, fifty records: the run's answer against integration over a grid.
#[test]
fn one_weight_follows_its_exact_law() {
    for (k, loss) in [LOGISTIC, Loss::Absolute, Loss::Hinge].into_iter().enumerate() {
        let problem = problem(50, 1, loss);
        let data = examples(50, 1, 5);
        let plan = plan(&problem, 2.0, Some(8.0));
        let beta = plan.schedule.chain.inverse_temperature;
        let ln = |x: f64| {
            let sum: f64 = (0..50)
                .map(|i| {
                    let a = data.rows.row(i).1.first().map_or(0.0, |&a| f64::from(a));
                    loss.scalar_value(a * x, f64::from(data.targets[i]))
                })
                .sum();
            -beta * (sum + 4.0 * x * x)
        };
        let law = Tabulated::new(ln, -6.0, 6.0, 60_000);
        let data = Sensitive::new(data.clone());
        // corners need ten times as many rounds
        let n = if k == 0 { 4_000 } else { 600 };
        let mut sample: Vec<f64> =
            (0..n).map(|seed| draw(&plan, &problem, &data, 10_000 * k as u64 + seed)[0]).collect();
        kolmogorov(&mut sample, |x| law.cdf(x));
    }
}

/// Two weights: radius and angle against a grid.
#[test]
fn two_weights_follow_their_exact_law() {
    let problem = problem(40, 2, LOGISTIC);
    let data = examples(40, 2, 6);
    let plan = plan(&problem, 2.0, Some(6.0));
    let beta = plan.schedule.chain.inverse_temperature;
    let ln = |a: f64, b: f64| {
        let sum: f64 = (0..40)
            .map(|i| {
                let v = data.rows.row(i).1;
                LOGISTIC.scalar_value(f64::from(v[0]) * a + f64::from(v[1]) * b, f64::from(data.targets[i]))
            })
            .sum();
        -beta * (sum + 3.0 * (a * a + b * b))
    };
    // marginals by integrating the other weight out; and the projection on (1, 1)/√2 by rotating the axes
    let marginal = |angle: f64| {
        let (s, c) = angle.sin_cos();
        Tabulated::new(
            |u| {
                let column: Vec<f64> = (0..400)
                    .map(|i| -5.0 + 0.025 * (f64::from(i) + 0.5))
                    .map(|v| ln(c * u - s * v, s * u + c * v))
                    .collect();
                let top = column.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                top + column.iter().map(|l| (l - top).exp()).sum::<f64>().ln()
            },
            -5.0,
            5.0,
            500,
        )
    };
    let held = Sensitive::new(data.clone());
    let sample: Vec<Vec<f64>> = (0..3_000).map(|seed| draw(&plan, &problem, &held, seed)).collect();
    for angle in [0.0, 0.25, 0.5, 0.75] {
        let angle = angle * std::f64::consts::PI;
        let law = marginal(angle);
        let mut along: Vec<f64> = sample.iter().map(|x| angle.cos() * x[0] + angle.sin() * x[1]).collect();
        let distance = kolmogorov_distance(&mut along, |x| law.cdf(x));
        assert!(distance < kolmogorov_limit(3_000) + 1e-3, "{angle}: {distance}");
    }
}

#[test]
fn constant_time_takes_the_same_number_of_passes_and_has_the_same_law() {
    let facts = problem(30, 1, LOGISTIC);
    let options = ExponentialMechanism {
        regularization: Some(8.0),
        shift: Some(0.0),
        constant_time: true,
        ..ExponentialMechanism::default()
    };
    let constant = options.plan(&facts, budget(2.0)).unwrap();
    let chain = &constant.schedule.chain;
    // the chance that all proposals of a round are refused, in any of the rounds, is 1% of the sampler's share
    let proposals = chain.proposals.unwrap();
    let never = chain.rounds as f64 * (1.0 - chain.least_acceptance).powf(proposals as f64);
    assert!(never <= 0.0101 * shares(budget(2.0)).total_variation, "{never}");
    let data = Sensitive::new(examples(30, 1, 7));
    let free = plan(&facts, 2.0, Some(8.0));
    let n = 400;
    let sample = |plan: &Plan<GibbsSchedule>, first: u64| -> Vec<f64> {
        let mut s: Vec<f64> = (first..first + n).map(|seed| draw(plan, &facts, &data, seed)[0]).collect();
        s.sort_by(f64::total_cmp);
        s
    };
    let (a, b) = (sample(&constant, 0), sample(&free, n));
    let distance = a
        .iter()
        .enumerate()
        .map(|(i, x)| (i as f64 - b.partition_point(|y| y <= x) as f64).abs() / n as f64)
        .fold(0.0, f64::max);
    assert!(distance < 2.0 * kolmogorov_limit(n as usize), "{distance}");
}

/// Somebody who counts evaluations tells clear records from contradictory ones, but for constant time.
#[test]
fn only_constant_time_hides_the_records_from_a_clock() {
    let facts = problem(30, 1, LOGISTIC);
    let mut clear = examples(30, 1, 7);
    clear.targets = (0..30).map(|i| clear.rows.row(i).1[0].signum()).collect();
    let mut contradictory = clear.clone();
    contradictory.targets.iter_mut().step_by(2).for_each(|y| *y = -*y);
    let options =
        ExponentialMechanism { regularization: Some(2.0), shift: Some(0.0), ..ExponentialMechanism::default() };
    let passes = |options: &ExponentialMechanism, data: &Examples| -> Vec<(u64, u64)> {
        let mechanism = options.plan(&facts, budget(2.0)).unwrap().schedule.mechanism;
        let walks = (0..10).map(|seed| mechanism.walk(data, &mut NoiseSource::insecure(seed)).1);
        walks.map(|tally| (tally.values, tally.gradients)).collect()
    };
    let mean = |passes: &[(u64, u64)]| passes.iter().map(|p| p.0 as f64).sum::<f64>() / passes.len() as f64;
    let free = [passes(&options, &clear), passes(&options, &contradictory)];
    assert!((mean(&free[0]) / mean(&free[1]) - 1.0).abs() > 0.02, "{free:?}");
    let constant = ExponentialMechanism { constant_time: true, ..options };
    let both = [passes(&constant, &clear), passes(&constant, &contradictory)].concat();
    assert!(both.iter().all(|p| *p == both[0]) && both[0].0 > 0, "{both:?}");
}

#[test]
fn draws_share_the_budget() {
    let facts = problem(200, 2, LOGISTIC);
    let many = ExponentialMechanism { draws: Some(4), regularization: Some(20.0), ..ExponentialMechanism::default() };
    let (four, one) = (many.plan(&facts, budget(1.0)).unwrap(), plan(&facts, 1.0, Some(20.0)));
    assert!((four.schedule.draw_mu / one.schedule.draw_mu - 0.5).abs() < 1e-9);
    assert!(four.summary.certificate.bound().upper <= 1.0);
    // the mean of r draws is as noisy as one draw of the whole budget
    assert!((four.summary.weight_noise.unwrap() / one.summary.weight_noise.unwrap() - 1.0).abs() < 1e-6);
    let data = Sensitive::new(examples(200, 2, 8));
    assert_eq!(draw(&four, &facts, &data, 1).len(), 2);
    // a fifth draw is not foreseen
    let mut curator = Curator::new(&four.summary.certificate, NoiseSource::insecure(1));
    let mechanism = &four.schedule.mechanism;
    for _ in 0..4 {
        assert!(curator.release(mechanism, &data).is_ok());
    }
    assert!(curator.release(mechanism, &data).is_err());
}

/// What the kernel refuses of a draw's facts and numbers, its own tests say.
#[test]
fn a_plan_draws_for_its_own_problem_only() {
    let facts = problem(40, 2, LOGISTIC);
    let planned = plan(&facts, 1.0, Some(10.0));
    let data = Sensitive::new(examples(40, 2, 9));
    let mut curator = Curator::new(&planned.summary.certificate, NoiseSource::insecure(1));
    let mut refused = |other: &Plan<GibbsSchedule>| curator.release(&other.schedule.mechanism, &data).map(drop).err();
    for (other, epsilon) in [
        (Problem { row_norm: 0.5, ..facts.clone() }, 1.0),
        (problem(40, 3, LOGISTIC), 1.0),
        (problem(41, 2, LOGISTIC), 1.0),
        (facts.clone(), 2.0),
        (Problem { neighbours: Neighbours::of_records(Relation::ReplaceOne), ..facts.clone() }, 1.0),
    ] {
        assert!(refused(&plan(&other, epsilon, Some(10.0))).is_some(), "{other:?}");
    }
    let mut other_loss = planned.clone();
    other_loss.schedule.mechanism =
        plan(&problem(40, 2, Loss::Huber { threshold: 2.0 }), 2.0, Some(10.0)).schedule.mechanism;
    assert!(matches!(refused(&other_loss), Some(CuratorError::Unforeseen { .. })));
    assert_eq!(refused(&planned), None);
}

/// A draw for a group of rows, or after another release, is made for what is left: it fits the budget and uses it.
#[test]
fn groups_of_rows_and_earlier_releases_leave_less_to_a_draw() {
    use dpopt_optimize::plan::{PriorRelease, RecordUnit};
    let alone = Problem { neighbours: Neighbours::of_users(Relation::ZeroOut), ..problem(4_000, 5, LOGISTIC) };
    for most in [2u64, 5] {
        let rows = Problem { record: RecordUnit::UnitsRow { most: most.try_into().unwrap() }, ..alone.clone() };
        let plan = ExponentialMechanism::default().plan(&rows, budget(2.0)).unwrap();
        let spent = plan.summary.certificate.bound().upper;
        assert!(spent <= 2.0 && spent > 1.98, "{most}: {spent}");
    }
    let later = Problem { prior_release: Some(PriorRelease::gaussian(8.0, 3, Relation::ZeroOut)), ..alone };
    let spent = ExponentialMechanism::default().plan(&later, budget(2.0)).unwrap().summary.certificate.bound().upper;
    assert!(spent <= 2.0 && spent > 1.98, "{spent}");
}

/// p and q, rows in the dual norm, the event on the exact curve; a smaller dual norm allows a hotter law.
#[test]
fn a_geometry_is_planned_reported_and_drawn_from() {
    let facts = problem(60, 8, LOGISTIC);
    let of = |p: f64, dual_row_norm: Option<f64>| ExponentialMechanism {
        geometry: Some(p),
        dual_row_norm,
        regularization: Some(20.0),
        shift: Some(0.0),
        ..ExponentialMechanism::default()
    };
    let planned = |p: f64, dual: Option<f64>| of(p, dual).plan(&facts, budget(1.0)).unwrap();
    for (p, q, dual) in [(1.0, 1.673_00, None), (1.5, 1.673_00, Some(0.4)), (1.9, 1.9, Some(1.0))] {
        let plan = planned(p, dual);
        let geometry = plan.schedule.geometry.unwrap();
        assert!(
            geometry.p == p && (geometry.exponent - q).abs() < 1e-4 && geometry.dual_row_norm == dual.unwrap_or(1.0),
            "{geometry:?}"
        );
        let bound = plan.summary.certificate.bound().upper;
        assert!(bound <= 1.0 && bound > 0.98, "{bound}");
        let beta = plan.schedule.chain.inverse_temperature;
        assert!((gibbs::mu(beta * geometry.dual_row_norm, beta * 20.0) / plan.schedule.draw_mu - 1.0).abs() < 1e-9);
        assert!(plan.summary.assumptions.len() == 5);
        let data = Sensitive::new(examples(60, 8, 11));
        assert!(draw(&plan, &facts, &data, 1).iter().all(|x| x.is_finite()));
    }
    // sizes that the slope of the regulariser alone would refuse
    for (rows, features, p) in [(60, 20, 1.0), (1000, 10, 1.0), (1000, 10, 1.5), (300, 100, 1.5)] {
        let planned = of(p, None).plan(&problem(rows, features, LOGISTIC), budget(1.0));
        assert!(planned.is_ok(), "{rows} {features} {p}");
    }
    let (all, small) = (planned(1.5, None), planned(1.5, Some(0.5)));
    let ratio = small.schedule.chain.inverse_temperature / all.schedule.chain.inverse_temperature;
    assert!((ratio - 4.0).abs() < 1e-9, "{ratio}");
    // rows that are shrunk to nearly nothing say nothing: the model knows it, though the law is hot
    let risk = |dual: f64| planned(1.5, Some(dual)).summary.predicted_excess_risk;
    let nothing = RiskModel::of(&facts).regularized(1e9, 0.0, 0.0);
    assert!(risk(0.5) < risk(0.05) && (risk(0.05) / nothing - 1.0).abs() < 0.01, "{} {nothing}", risk(0.05));
    // from p = 2 on it is the Euclidean mechanism, to the last bit
    let plain = plan(&facts, 1.0, Some(20.0));
    for p in [2.0, 3.0, 100.0] {
        assert_eq!(
            serde_json::to_string(&planned(p, None).schedule).unwrap(),
            serde_json::to_string(&plain.schedule).unwrap()
        );
    }
    let refused = |options: ExponentialMechanism| options.plan(&facts, budget(1.0)).unwrap_err().to_string();
    assert!(refused(ExponentialMechanism { constant_time: true, ..of(1.5, None) }).contains("geometry"));
    for options in [of(2.0, Some(0.5)), of(1.5, Some(1.5)), of(1.5, Some(0.0)), of(1.5, Some(f64::NAN))] {
        assert!(refused(options).contains("dual_row_norm"));
    }
    assert!(refused(of(0.5, None)).contains("geometry") && refused(of(f64::NAN, None)).contains("geometry"));
}
