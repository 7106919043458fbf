//! What a user fits, predicts with and evaluates.

mod guarantee;
pub mod metrics;
pub mod probability;

pub use guarantee::{Guarantee, Stage};
