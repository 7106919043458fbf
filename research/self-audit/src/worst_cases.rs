//! Worst-case neighbours, and the shipped code that runs on them.
//!
//! The library's rows and the injected faults run the same functions: the former with the parameters that the claim
//! describes, the latter with one that it does not. A bug that is a wrong parameter, a wrong event or a wrong use of real
//! code needs no switch in that code, so nothing here can be switched on in a build that users have.

pub(super) mod adaptive;
pub(super) mod arrivals;
pub(super) mod calibration;
pub(super) mod candidates;
pub(super) mod choices;
pub(super) mod comparisons;
pub(super) mod coverage;
pub(super) mod embeddings;
pub(super) mod experts;
mod logistic;
pub(super) mod methods;
pub(super) mod noise;
pub(super) mod o2nc;
pub(super) mod peeling;
pub(super) mod restarted;
pub(super) mod sparse;
pub(super) mod spider;
pub(super) mod streams;
pub(super) mod sums;

pub(super) use logistic::Logistic;

/// 1 or 0 as a statistic.
pub(super) fn indicator(event: bool) -> f64 {
    f64::from(u8::from(event))
}
