//! Reweighted stochastic queries and ball acceleration: minimising a non-smooth convex function in few rounds of many queries
//! (Liu 2024, sections 2.2 and 2.3). **Not private**: gradients are used as they come, and nothing here is a mechanism.
//!
//! | part | what it does |
//! |---|---|
//! | [`Samples`] | unbiased gradients of f * N(0, ρ²I) at many points from queries at one centre |
//! | [`epoch_sgd`], [`ac_sa`] | a regularised problem on a small ball, all queries in one round |
//! | [`accelerated`], [`plain`] | the whole domain from about (R/r)^(2/3) such balls, and from R/r of them |
//! | [`minimise_in_parallel`] | both together, rounds and queries counted |
//! | [`aggregate`] | one of several answers that most of them are near to |
//! | [`Chain`] | a hard function, with exact solutions |
//! | [`drift`] | how far apart two neighbours' reweighted runs come: a constant of the literature |

mod acceleration;
mod aggregate;
mod balls;
mod chain;
pub mod drift;
mod parallel;
mod reweighted;

pub use acceleration::{Acceleration, BallOracle, Found, accelerated, plain};
pub use aggregate::{aggregate, aggregate_within};
pub use balls::{BallProblem, SOURCE_CONSTANT, ac_sa, ac_sa_schedule, epoch_sgd};
pub use chain::Chain;
pub use parallel::{BallSolver, ParallelOptions, minimise_in_parallel};
pub use reweighted::{BatchOracle, Counted, Samples, log_weight, weight_moment};
