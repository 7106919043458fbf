//! Differentially private optimization on sensitive records: **plan → certify → run → report**.
//!
//! Rooms from the ground up; each uses only rooms above it in this list:
//!
//! | room | what lives there |
//! |---|---|
//! | [`sensitive`] | [`Sensitive`], [`Released`] and [`Public`]: what may not leave, and what may |
//! | [`data`] | rows, encoders from public facts, readers, batch samplers |
//! | [`problems`] | tables made from a seed, with a known truth, for demos and tests |
//! | [`geometry`] | norms, projections |
//! | [`loss`] | per-record losses and their facts |
//! | [`plan`] | public facts, plans, candidates: everything before the first record |
//! | [`sampler`] | draws from e^(−F) with a proved distance from that law |
//! | [`mechanism`] | the curator and the only doors out |
//! | [`optimize`] | one algorithm, one file, each in the same four steps |
//! | [`model`] | what a user fits, predicts with and evaluates |
//! | [`estimate`] | answers without a model: the mean of sparse vectors |
//! | [`report`] | the answer, its guarantee and its cost, as one HTML file |
//! | [`audit`] | empirical lower bounds on ε, for any mechanism here and for foreign ones |
#![forbid(unsafe_code)]

pub mod audit;
pub mod data;
pub mod estimate;
pub mod geometry;
pub mod loss;
pub mod mechanism;
#[cfg(doctest)]
mod misuse;
pub mod model;
pub mod optimize;
pub mod output;
pub mod plan;
pub mod problems;
pub mod progress;
pub mod report;
pub mod sampler;
pub mod sensitive;

pub use dpopt_noise as noise;
pub use dpopt_privacy as privacy;
pub use sensitive::{Public, Released, Sensitive};
