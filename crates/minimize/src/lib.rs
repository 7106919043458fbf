//! min_x (1/n)Σφ_i(x) for a user-defined objective: a driver along released sums of clipped gradients (Liu 2024, Algorithms 1 and 2).
//!
//! Privacy rests on the clip and on the batches, whatever the objective is, convex or not; facts such as smoothness steer steps and predictions
//! only. A method is a choice of batches (all, Poisson, a stream) and of what moves x (heavy ball, Adam, AC-SA), with gradients, differences of them or
//! derivatives along few directions; once, in rounds of falling noise, or on disjoint blocks of the records, one after the other, for the loss of records
//! that nobody has seen.
//!
//! Covers: thesis algorithm 1 (certified: along released sums only)
//! Covers: thesis algorithm 2 (certified: noise by the accountant)
//! Covers: thesis theorem 1.3.1 (part: privacy, by the accountant; the closed formula is not used)

mod accelerated;
mod aggregate;
mod along;
mod around;
mod assumptions;
mod cells;
mod directions;
mod kind;
mod method;
mod net;
#[cfg(test)]
mod net_tests;
mod o2nc;
mod o2nc_facts;
mod o2nc_once;
mod o2nc_schedule;
#[cfg(test)]
mod o2nc_tests;
mod o2nc_walk;
mod one_pass;
mod one_pass_schedule;
#[cfg(test)]
mod one_pass_tests;
mod one_pass_walk;
mod phases;
mod plan;
mod problem;
mod proximal;
mod recursive;
mod registry;
mod run;
mod schedule;
mod shrinking;
mod smoothed;
mod source;
mod spider;
mod spider_schedule;
#[cfg(test)]
mod spider_tests;
mod spider_walk;
pub mod stationary;
#[cfg(test)]
mod tests;
mod tree;
#[cfg(test)]
mod tree_tests;
mod walk;

pub use along::Sums;
pub use around::{Around, Estimator};
pub use cells::{NetSchedule, TreeSchedule};
pub use directions::Directions;
pub use method::{candidates, choose, registry};
pub use o2nc_schedule::{ConversionSchedule, KeptBlock};
pub use one_pass_schedule::OnePassSchedule;
pub use plan::{Candidate, MinimizePlan};
pub use problem::{Answers, MinimizeProblem, usual_distance};
pub use registry::{MinimizeRegistry, Minimizer};
pub use run::run;
pub use schedule::{Averaged, Batches, DirectionSchedule, Goal, MinimizeSchedule, Phase, Rule, block_sizes};
pub use source::{InMemory, PerRecord, ReadByObjective, Source, Streaming, Summing};
pub use spider_schedule::{Escape, SecondStage, SpiderSchedule};
pub use walk::{Oracle, Walk};
