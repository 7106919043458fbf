//! From balls to the whole domain: acceleration of Monteiro–Svaiter type (Liu 2024, Proposition 2.2.8), and plain proximal steps to compare with.
//!
//! The chapter prints no listing. This one fits every identity of its proof: with g = λ(y − x̂) a subgradient at x̂ strictly inside of the
//! ball around y, λa² = A′ and A′y = Ax + av, the potential A(F(x) − F*) + ‖v − x*‖² falls by ¾λA′‖x̂ − y‖² in each step, so that
//! F(x) − F* ≤ ‖x₀ − x*‖²/A at any time.
//!
//! Covers: thesis proposition 2.2.8 (not private: neither here nor in the source)

use crate::geometry::{norm, project_l2_ball};

/// Solves ball problems of one convex function F.
pub trait BallOracle {
    /// About argmin F(z) + (λ/2)‖z − y‖² over the ball of radius r around y, within the domain.
    fn solve(&mut self, y: &[f64], lambda: f64) -> Vec<f64>;
}

impl<F: FnMut(&[f64], f64) -> Vec<f64>> BallOracle for F {
    fn solve(&mut self, y: &[f64], lambda: f64) -> Vec<f64> {
        self(y, lambda)
    }
}

/// What the loop needs to know.
#[derive(Clone, Copy, Debug)]
pub struct Acceleration {
    /// R: the domain is the ball of this radius around 0.
    pub domain_radius: f64,
    /// r: how far a ball reaches.
    pub radius: f64,
    /// The smallest λ that is tried; the largest is 2L/r, where a solution is within r/2 of the centre.
    pub least_lambda: f64,
    /// L: Lipschitz constant of the function.
    pub lipschitz: f64,
    /// The longest move that is accepted over r: 7/8, so that a solution that is off by r/16 is still inside; 1 with exact ones.
    pub longest_move: f64,
    /// Largest number of steps.
    pub most_steps: u64,
}

impl Acceleration {
    /// With λ from .05·ε(R/r)^(4/3)/R² on, solutions off by at most r/16, and ⌈4(R/r)^(2/3)(1 + ln(LR/ε))⌉ steps at most.
    pub fn new(domain_radius: f64, radius: f64, lipschitz: f64, accuracy: f64) -> Self {
        let ratio = domain_radius / radius;
        let kappa = (lipschitz * domain_radius / accuracy).max(1.0);
        Self {
            domain_radius,
            radius,
            least_lambda: 0.05 * accuracy * ratio.powf(4.0 / 3.0) / (domain_radius * domain_radius),
            lipschitz,
            longest_move: 0.875,
            most_steps: (4.0 * ratio.powf(2.0 / 3.0) * (1.0 + kappa.ln())).ceil() as u64,
        }
    }

    fn largest_lambda(&self) -> f64 {
        (2.0 * self.lipschitz / self.radius).max(self.least_lambda)
    }

    /// Bisections after which λ is settled to a sixteenth, and four more.
    fn most_trials(&self) -> u32 {
        ((self.largest_lambda() / self.least_lambda).ln() / (1.0f64 + 1.0 / 16.0).ln()).log2().ceil().max(0.0) as u32
            + 4
    }
}

/// Where a loop ended.
#[derive(Clone, Debug)]
pub struct Found {
    /// The point that the loop returns.
    pub point: Vec<f64>,
    /// Number of steps made.
    pub steps: u64,
    /// Number of ball problems solved.
    pub solves: u64,
    /// A: with exact solutions F(point) − F* ≤ ‖start − x*‖²/A.
    pub certificate: f64,
}

/// One trial of a λ.
struct Trial {
    lambda: f64,
    a: f64,
    whole: f64,
    centre: Vec<f64>,
    point: Vec<f64>,
    moved: f64,
}

/// Accelerated steps from `start`, until `done` says so of the point and A, or as many as `plan` has.
pub fn accelerated(
    plan: &Acceleration,
    start: &[f64],
    oracle: &mut impl BallOracle,
    mut done: impl FnMut(&[f64], f64) -> bool,
) -> Found {
    let (mut x, mut v, mut sum) = (start.to_vec(), start.to_vec(), 0.0f64);
    let (mut steps, mut solves) = (0, 0);
    while steps < plan.most_steps && !done(&x, sum) {
        let mut trial = |lambda: f64| {
            solves += 1;
            // λa² = A + a
            let a = (1.0 + (1.0 + 4.0 * lambda * sum).sqrt()) / (2.0 * lambda);
            let whole = sum + a;
            let centre: Vec<f64> = x.iter().zip(&v).map(|(x, v)| (sum * x + a * v) / whole).collect();
            let point = oracle.solve(&centre, lambda);
            let moved = norm(&point.iter().zip(&centre).map(|(p, c)| p - c).collect::<Vec<_>>());
            Trial { lambda, a, whole, centre, point, moved }
        };
        let (shortest, longest) = (0.5 * plan.radius, plan.longest_move * plan.radius);
        let mut chosen = trial(plan.least_lambda);
        if chosen.moved > longest {
            let (mut low, mut high) = (plan.least_lambda.ln(), plan.largest_lambda().ln());
            let mut upper = None;
            for _ in 0..plan.most_trials() {
                chosen = trial((0.5 * (low + high)).exp());
                if chosen.moved > longest {
                    low = chosen.lambda.ln();
                } else if chosen.moved < shortest {
                    high = chosen.lambda.ln();
                    upper = Some(chosen.lambda);
                } else {
                    break;
                }
            }
            if chosen.moved > longest {
                // the upper end, which moves less
                chosen = trial(upper.unwrap_or(plan.largest_lambda()));
            }
        }
        let step = 0.5 * chosen.a * chosen.lambda;
        for ((v, y), z) in v.iter_mut().zip(&chosen.centre).zip(&chosen.point) {
            *v -= step * (y - z);
        }
        project_l2_ball(&mut v, plan.domain_radius);
        (x, sum) = (chosen.point, chosen.whole);
        steps += 1;
    }
    Found { point: x, steps, solves, certificate: sum }
}

/// Proximal steps of at most r each from `start`, λ being `lambda`: about R/r of them.
pub fn plain(
    lambda: f64,
    start: &[f64],
    most_steps: u64,
    oracle: &mut impl BallOracle,
    mut done: impl FnMut(&[f64]) -> bool,
) -> Found {
    let (mut x, mut steps) = (start.to_vec(), 0);
    while steps < most_steps && !done(&x) {
        x = oracle.solve(&x, lambda);
        steps += 1;
    }
    Found { point: x, steps, solves: steps, certificate: 0.0 }
}

#[cfg(test)]
mod tests {
    use super::super::Chain;
    use super::*;
    use std::cell::Cell;

    fn dot_difference(a: &[f64], b: &[f64]) -> f64 {
        a.iter().zip(b).map(|(x, y)| (x - y) * (x - y)).sum()
    }

    const CHAIN: Chain = Chain { dimension: 60, smoothing: 0.002 };

    #[test]
    fn solutions_of_the_chain_are_stationary_and_stay_in_their_ball() {
        let start = vec![0.0; 60];
        assert!((CHAIN.value(&start) - CHAIN.least() - 0.081712).abs() < 1e-6);
        let best = vec![1.0 / 60f64.sqrt(); 60];
        assert!((CHAIN.value(&best) - CHAIN.least()).abs() < 1e-15);
        for lambda in [1e-3, 0.1, 10.0] {
            let x = CHAIN.proximal(&start, lambda);
            let at = |x: &[f64]| CHAIN.value(x) + 0.5 * lambda * dot_difference(x, &start);
            for j in [0, 1, 30] {
                for step in [1e-4, -1e-4] {
                    let mut moved = x.clone();
                    moved[j] += step;
                    assert!(at(&moved) > at(&x), "{lambda} {j}");
                }
            }
            let inside = CHAIN.proximal_in_ball(&start, lambda, 0.01);
            assert!(norm(&inside) <= 0.01 && norm(&inside) > 0.00999);
        }
    }

    /// Counts the balls to within 10 % of the least value on a chain with exact solutions.
    #[test]
    fn steps_grow_like_the_radius_to_two_thirds_and_plain_ones_like_the_radius() {
        let start = vec![0.0; 60];
        let accuracy = 0.1 * (CHAIN.value(&start) - CHAIN.least());
        let good = |x: &[f64]| CHAIN.value(x) - CHAIN.least() <= accuracy;
        let (mut steps, mut solves, mut plain_steps) = (Vec::new(), Vec::new(), Vec::new());
        for radius in [0.2, 0.1, 0.05, 0.025, 0.0125] {
            let plan = Acceleration {
                domain_radius: 1.1,
                radius,
                least_lambda: 0.05 * accuracy * (1.1f64 / radius).powf(4.0 / 3.0) / (1.1 * 1.1),
                lipschitz: 1.0,
                longest_move: 1.0,
                most_steps: 1000,
            };
            let count = Cell::new(0u64);
            let mut oracle = |y: &[f64], lambda: f64| {
                count.set(count.get() + 1);
                CHAIN.proximal(y, lambda)
            };
            let found = accelerated(&plan, &start, &mut oracle, |x, _| good(x));
            assert!(good(&found.point) && found.solves == count.get());
            assert!(CHAIN.value(&found.point) - CHAIN.least() <= 1.0 / found.certificate, "the potential's bound");
            steps.push(found.steps);
            solves.push(found.solves);
            let mut in_ball = |y: &[f64], lambda: f64| CHAIN.proximal_in_ball(y, lambda, radius);
            plain_steps.push(plain(accuracy, &start, 10_000, &mut in_ball, good).steps);
        }
        println!("{steps:?} {solves:?} {plain_steps:?}");
        assert_eq!(steps, [2, 4, 7, 11, 18]);
        let slope = |counts: &[u64]| (counts[4] as f64 / counts[2] as f64).log2() / 2.0;
        assert!((slope(&steps) - 2.0 / 3.0).abs() < 0.05, "{steps:?}");
        assert!((slope(&plain_steps) - 1.0).abs() < 0.1, "{plain_steps:?}");
    }
}
