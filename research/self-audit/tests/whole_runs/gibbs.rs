//! Draws from a Gibbs measure on a ball, where no plan draws.

use crate::{LOGISTIC, facts};
use dpopt_linear::gibbs_parameters::RiskFacts;
use dpopt_linear::{ExponentialMechanism, gibbs_parameters};
use dpopt_mechanism::sampler::{Contraction, Convexity, Domain};
use dpopt_mechanism::{Mechanism, Sensitive, Start, past_the_curator};
use dpopt_noise::NoiseSource;
use dpopt_objective::records::{Examples, Rows};
use dpopt_objective::synthetic::Lcg;
use dpopt_optimize::Algorithm;
use dpopt_privacy::Budget;
use dpopt_problems::laws::{Tabulated, kolmogorov_distance, kolmogorov_limit};

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

/// The pure mechanism (Liu 2024, equation 3.2) with k = εn/(G_ΔD) on a ball, and with the public quadratic that gives the chain its certificate.
#[test]
fn the_pure_mechanism_on_a_ball_follows_its_law() {
    let (n, d, radius, epsilon) = (20usize, 2usize, 1.0, 4.0);
    let public = RiskFacts { rows: n as f64, dimension: d as f64, radius, difference_lipschitz: 1.0 };
    let t = gibbs_parameters::bounded(public, 2.0 * radius, epsilon);
    let beta = t.temperature / n as f64;
    let lambda = n as f64 * t.modulus;
    let m = beta * lambda;
    let data = examples(n, d, 10);
    let step_std = (0.25 / (0.25 * t.temperature)).sqrt().min((0.25 / m).sqrt());
    let contraction =
        Contraction { step_std, strong_convexity: m, start_distance: 2.0 * radius, dimension: d, oscillation: 1e-9 };
    // no plan draws on a ball: the chain of one is altered
    let method =
        ExponentialMechanism { regularization: Some(lambda), shift: Some(0.0), ..ExponentialMechanism::default() };
    let problem = facts(n as u64, d, LOGISTIC);
    let planned = method.plan(&problem, Budget::new(epsilon, 1e-6).unwrap()).unwrap().schedule.mechanism;
    let mechanism = past_the_curator::altered_draw(planned, |chain| {
        chain.inverse_temperature = beta;
        chain.start = Start::Centre;
        chain.rounds = contraction.steps(1e-3).unwrap();
        chain.step_std = step_std;
        chain.domain = Domain::Ball { radius };
        chain.oracle = Convexity { slack: 1e-9, ..Convexity::default() };
        chain.grid = 2f64.powi(-40);
        chain.total_variation = 1e-3;
    });
    let event = mechanism.event().self_composed(1_000).approximate(0.5);
    let mut curator = past_the_curator::uncharged(&event, NoiseSource::insecure(3));
    let held = Sensitive::new(data.clone());
    let sample: Vec<Vec<f64>> = (0..1_000).map(|_| curator.release(&mechanism, &held).unwrap().into_inner()).collect();
    assert!(sample.iter().all(|x| x[0] * x[0] + x[1] * x[1] <= radius * radius));
    let ln = |a: f64, b: f64| {
        if a * a + b * b > radius * radius {
            return f64::NEG_INFINITY;
        }
        let sum: f64 = (0..n)
            .map(|i| {
                let v = data.rows.row(i).1;
                LOGISTIC.scalar_value(f64::from(v[0]) * a + f64::from(v[1]) * b, f64::from(data.targets[i]))
            })
            .sum();
        -beta * (sum + 0.5 * lambda * (a * a + b * b))
    };
    let law = Tabulated::new(
        |u| {
            (0..1000).map(|i| -1.0 + 0.002 * (f64::from(i) + 0.5)).map(|v| ln(u, v).exp()).sum::<f64>().max(1e-300).ln()
        },
        -1.0,
        1.0,
        1000,
    );
    let mut first: Vec<f64> = sample.iter().map(|x| x[0]).collect();
    let distance = kolmogorov_distance(&mut first, |x| law.cdf(x));
    assert!(distance < kolmogorov_limit(1_000) + 3e-3, "{distance}");
}
