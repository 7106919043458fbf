//! Minimising a non-smooth convex function in few rounds of queries (Liu 2024, Theorems 2.3.2 and 2.3.3): balls of radius r = ρ = ε/(L√d), whose smoothed function
//! is within ε of the function, and acceleration from ball to ball.
//!
//! Covers: thesis proposition 2.2.9, theorem 2.3.2, theorem 2.3.3 (not private: neither here nor in the source)

use super::acceleration::{Acceleration, Found, accelerated};
use super::balls::{BallProblem, SOURCE_CONSTANT, ac_sa, epoch_sgd};
use super::reweighted::BatchOracle;

/// What solves a ball problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BallSolver {
    /// As many steps as queries, all queries in one round.
    EpochSgd,
    /// About √(1 + L/(ρλ)) steps of batches.
    AcSa,
}

/// Options of [`minimise_in_parallel`].
#[derive(Clone, Copy, Debug)]
pub struct ParallelOptions {
    /// R: the answer is in the ball of this radius around 0.
    pub domain_radius: f64,
    /// L: root mean square norm of a subgradient, anywhere in R^d.
    pub lipschitz: f64,
    /// ε, a half of it for smoothing and a half for the loop.
    pub accuracy: f64,
    /// The solver of the ball problems.
    pub solver: BallSolver,
    /// φ over λr²: how far from its optimum a ball problem may end. 1/(162·256) is what a proof with nine tenths in each trial needs,
    /// at hundreds of thousands of queries a trial; 1/64 is what is practical.
    pub ball_gap: f64,
    /// Steps at most; none: what [`Acceleration::new`] says.
    pub most_steps: Option<u64>,
}

/// A point of small F, by few rounds of queries. Its accuracy is that of Liu 2024, Theorems 2.3.2 and 2.3.3, up to constants that are not given there:
/// a target, and no guarantee.
pub fn minimise_in_parallel(
    options: &ParallelOptions,
    oracle: &mut impl BatchOracle,
    normal: &mut impl FnMut() -> f64,
) -> Found {
    let ParallelOptions { domain_radius, lipschitz, accuracy, solver, ball_gap, most_steps } = *options;
    let half = 0.5 * accuracy;
    let dimension = oracle.dimension();
    let radius = (half / (lipschitz * (dimension as f64).sqrt())).min(domain_radius);
    let usual = Acceleration::new(domain_radius, radius, lipschitz, half);
    let plan = Acceleration { most_steps: most_steps.unwrap_or(usual.most_steps), ..usual };
    let mut solve = |y: &[f64], lambda: f64| {
        let problem = BallProblem { centre: y.to_vec(), radius, lambda, lipschitz };
        let gap = ball_gap * lambda * radius * radius;
        match solver {
            BallSolver::EpochSgd => epoch_sgd(&problem, gap, SOURCE_CONSTANT, oracle, normal),
            BallSolver::AcSa => ac_sa(&problem, gap, oracle, normal),
        }
    };
    let enough = 4.0 * domain_radius * domain_radius / half;
    accelerated(&plan, &vec![0.0; dimension], &mut solve, |_, certificate| certificate >= enough)
}

#[cfg(test)]
mod tests {
    use super::super::Counted;
    use super::super::reweighted::tests::{Exact, normals};
    use super::*;
    use crate::geometry::norm;

    #[test]
    fn a_corner_is_found_in_far_fewer_rounds_than_queries() {
        // F(x) = ‖x − c‖ in three dimensions
        let target = [0.6, -0.3, 0.2];
        let away = |x: &[f64]| -> Vec<f64> { x.iter().zip(target).map(|(x, c)| x - c).collect() };
        let unit = |x: &[f64]| {
            let away = away(x);
            let length = norm(&away);
            away.into_iter().map(|v| if length > 0.0 { v / length } else { 0.0 }).collect()
        };
        for solver in [BallSolver::EpochSgd, BallSolver::AcSa] {
            let mut oracle = Counted::new(Exact(3, unit));
            let options = ParallelOptions {
                domain_radius: 1.0,
                lipschitz: 1.0,
                accuracy: 0.5,
                solver,
                ball_gap: 0.25,
                most_steps: Some(10),
            };
            let found = minimise_in_parallel(&options, &mut oracle, &mut normals(4));
            let gap = norm(&away(&found.point));
            println!(
                "{solver:?}: gap {gap:.3}, {} steps, {} rounds, {} queries",
                found.steps, oracle.rounds, oracle.queries
            );
            assert!(gap <= 0.5, "{gap}");
            assert_eq!(oracle.rounds, found.solves);
            assert!(oracle.queries > 10 * oracle.rounds);
        }
    }
}
