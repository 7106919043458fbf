//! min f * N(0, ρ²I) + (λ/2)‖x − x̄‖² over a ball around x̄, all queries placed before the first step (Liu 2024, Algorithms 6 and 7).
//!
//! Covers: thesis algorithm 6, algorithm 7, proposition 2.3.4, proposition 2.3.5 (not private: neither here nor in the source)

use super::reweighted::{BatchOracle, Samples};

/// A regularised problem on a ball.
#[derive(Clone, Debug)]
pub struct BallProblem {
    /// x̄: centre of the ball.
    pub centre: Vec<f64>,
    /// r; also ρ of the smoothing.
    pub radius: f64,
    /// λ: weight of the regulariser.
    pub lambda: f64,
    /// L: Lipschitz constant of the function.
    pub lipschitz: f64,
}

/// Queries of [`epoch_sgd`] over L²/(λφ): 16 of the rate times the bound 3 on e.
pub const SOURCE_CONSTANT: f64 = 48.0;

fn into_ball(x: &mut [f64], centre: &[f64], radius: f64) {
    let distance = x.iter().zip(centre).map(|(x, c)| (x - c) * (x - c)).sum::<f64>().sqrt();
    if distance > radius {
        x.iter_mut().zip(centre).for_each(|(x, c)| *x = c + (*x - c) * (radius / distance));
    }
}

/// A point of the ball whose gap is `gap` or less in expectation, from `constant`·L²/(λφ) queries at most, in one round. The bound
/// is proved for [`SOURCE_CONSTANT`].
pub fn epoch_sgd(
    problem: &BallProblem,
    gap: f64,
    constant: f64,
    oracle: &mut impl BatchOracle,
    normal: &mut impl FnMut() -> f64,
) -> Vec<f64> {
    let BallProblem { centre, radius, lambda, lipschitz } = problem;
    let most = (constant * lipschitz * lipschitz / (lambda * gap)).ceil() as usize;
    // epochs of 16, 32, … that fit: the rest would not be used
    let epochs = (most as f64 / 16.0 + 1.0).log2().floor() as u32;
    let used = 16 * ((1usize << epochs) - 1);
    let samples = Samples::draw(oracle, centre, *radius, used, normal);
    let (mut start, mut rate, mut next) = (centre.clone(), 0.25 / lambda, 0);
    for epoch in 0..epochs {
        let length = 16usize << epoch;
        let decay = 1.0 + rate * lambda;
        let toward =
            |x: &[f64]| -> Vec<f64> { x.iter().zip(centre).map(|(x, c)| (x + rate * lambda * c) / decay).collect() };
        let mut x = toward(&start);
        let mut sum = x.clone();
        for t in 1..length {
            let mut moved = toward(&x);
            samples.add(next + t, &x, -rate / decay, &mut moved);
            into_ball(&mut moved, centre, *radius);
            x = moved;
            sum.iter_mut().zip(&x).for_each(|(s, x)| *s += x);
        }
        start = sum.into_iter().map(|s| s / length as f64).collect();
        next += length;
        rate *= 0.5;
    }
    start
}

/// (rounds of steps K, steps T of each, queries of each step in round k) of [`ac_sa`].
pub fn ac_sa_schedule(problem: &BallProblem, gap: f64) -> (u32, usize, Vec<usize>) {
    let BallProblem { radius, lambda, lipschitz, .. } = problem;
    let stages = (lambda * radius * radius / gap).log2().ceil().max(1.0) as u32;
    let steps = (4.0 * (lipschitz / (radius * lambda) + 1.0).sqrt()).ceil();
    let batch = |k: i32| {
        let needed = SOURCE_CONSTANT * 2f64.powi(k) * lipschitz * lipschitz;
        (needed / (lambda * lambda * radius * radius * steps)).ceil() as usize
    };
    (stages, steps as usize, (1..=stages as i32).map(batch).collect())
}

/// Solves the ball problem in about √(1 + L/(ρλ)) steps, each of a batch: accelerated stochastic approximation, restarted. Four errors of
/// the published listing are corrected: coefficients of the query point that add up to 1, α before the whole linear term, fresh batches, the 1 inside of the root.
pub fn ac_sa(
    problem: &BallProblem,
    gap: f64,
    oracle: &mut impl BatchOracle,
    normal: &mut impl FnMut() -> f64,
) -> Vec<f64> {
    let BallProblem { centre, radius, lambda, lipschitz } = problem;
    let (_, steps, batches) = ac_sa_schedule(problem, gap);
    let samples = Samples::draw(oracle, centre, *radius, steps * batches.iter().sum::<usize>(), normal);
    let (mut x, mut answer, mut next) = (centre.clone(), centre.clone(), 0);
    for batch in batches {
        for t in 1..=steps {
            let alpha = 2.0 / (t as f64 + 1.0);
            let gamma = 4.0 * (lipschitz / radius + lambda) / (t as f64 * (t as f64 + 1.0));
            let [of_answer, of_x] = query_coefficients(alpha, gamma, *lambda);
            let middle: Vec<f64> = answer.iter().zip(&x).map(|(a, x)| of_answer * a + of_x * x).collect();
            let mut gradient = vec![0.0; x.len()];
            (next..next + batch).for_each(|i| samples.add(i, &middle, 1.0 / batch as f64, &mut gradient));
            next += batch;
            for ((x, c), g) in x.iter_mut().zip(centre).zip(&gradient) {
                *x = ((gamma + lambda * (1.0 - alpha)) * *x + alpha * lambda * c - alpha * g) / (gamma + lambda);
            }
            into_ball(&mut x, centre, *radius);
            answer.iter_mut().zip(&x).for_each(|(a, x)| *a = alpha * x + (1.0 - alpha) * *a);
        }
        x.clone_from(&answer);
    }
    answer
}

/// How much of the averaged and of the last point makes the one that is queried: they add up to 1.
fn query_coefficients(alpha: f64, gamma: f64, lambda: f64) -> [f64; 2] {
    let whole = gamma + (1.0 - alpha * alpha) * lambda;
    [(1.0 - alpha) * (lambda + gamma) / whole, alpha * ((1.0 - alpha) * lambda + gamma) / whole]
}

#[cfg(test)]
mod tests {
    use super::super::Counted;
    use super::super::reweighted::tests::{Exact, normals};
    use super::*;
    use crate::geometry::norm;

    const TARGET: [f64; 3] = [0.3, -0.2, 0.1];

    /// f = ‖x − c‖, λ = L = 1, ρ = r = .5, x̄ = 0.
    fn toy() -> BallProblem {
        BallProblem { centre: vec![0.0; 3], radius: 0.5, lambda: 1.0, lipschitz: 1.0 }
    }

    fn oracle() -> Counted<Exact<impl Fn(&[f64]) -> Vec<f64>>> {
        let unit = |x: &[f64]| {
            let away: Vec<f64> = x.iter().zip(TARGET).map(|(x, c)| x - c).collect();
            let length = norm(&away);
            away.into_iter().map(|v| if length > 0.0 { v / length } else { 0.0 }).collect()
        };
        Counted::new(Exact(3, unit))
    }

    /// The smoothed objective by a fixed large sample, so that gaps of points are compared on the same draws.
    fn value(x: &[f64]) -> f64 {
        let mut normal = normals(99);
        let draws = 100_000;
        let mean = (0..draws).map(|_| norm(&[0, 1, 2].map(|j: usize| x[j] + 0.5 * normal() - TARGET[j]))).sum::<f64>();
        mean / f64::from(draws) + 0.5 * x.iter().map(|v| v * v).sum::<f64>()
    }

    /// The minimiser is a multiple of the target, by symmetry.
    fn least() -> f64 {
        let at = |t: f64| value(&TARGET.map(|c| t * c));
        (0..=40).map(|i| at(0.4 + 0.01 * f64::from(i))).fold(f64::INFINITY, f64::min)
    }

    #[test]
    fn both_keep_their_promise_with_the_queries_of_the_specification_in_one_round() {
        let least = least();
        let runs = 5;
        for (gap, sgd_queries, ac_queries) in [(0.1, 240, 1155), (0.02, 2032, 5768)] {
            let (mut of_sgd, mut of_ac) = (0.0, 0.0);
            for seed in 0..runs {
                let mut counted = oracle();
                let x = epoch_sgd(&toy(), gap, SOURCE_CONSTANT, &mut counted, &mut normals(seed));
                assert_eq!((counted.rounds, counted.queries), (1, sgd_queries));
                assert!(norm(&x) <= 0.5 + 1e-12);
                of_sgd += (value(&x) - least) / runs as f64;
                let mut counted = oracle();
                let x = ac_sa(&toy(), gap, &mut counted, &mut normals(seed));
                assert_eq!((counted.rounds, counted.queries), (1, ac_queries));
                of_ac += (value(&x) - least) / runs as f64;
            }
            println!("gap {gap}: EpochSGD {of_sgd:.5}, AC-SA {of_ac:.5}");
            assert!(of_sgd <= gap && of_ac <= gap, "{of_sgd} {of_ac}");
        }
    }

    #[test]
    fn schedules_of_the_accelerated_method_are_the_specifications() {
        assert_eq!(ac_sa_schedule(&toy(), 0.1), (2, 7, vec![55, 110]));
        assert_eq!(ac_sa_schedule(&toy(), 0.02), (4, 7, vec![55, 110, 220, 439]));
    }

    #[test]
    fn the_query_point_is_a_mean_and_starts_at_the_last_point() {
        for (alpha, gamma, lambda) in [(1.0, 3.0, 0.5), (0.3, 0.2, 2.0), (0.01, 1e-3, 10.0)] {
            let [a, x] = query_coefficients(alpha, gamma, lambda);
            assert!((a + x - 1.0f64).abs() < 1e-14);
        }
        assert_eq!(query_coefficients(1.0, 3.0, 0.5), [0.0, 1.0]);
    }

    #[test]
    fn a_gap_that_the_centre_has_costs_no_query() {
        let mut counted = oracle();
        let x = epoch_sgd(&toy(), 4.0, SOURCE_CONSTANT, &mut counted, &mut normals(1));
        assert_eq!((x, counted.rounds, counted.queries), (vec![0.0; 3], 0, 0));
    }
}
