//! Differentially private optimization on sensitive records: **plan → certify → run → report**.
//!
//! Rooms from the ground up; each uses only rooms above it in this list (`docs/architecture.md` has all of them, and a test
//! holds the code against it):
//!
//! | room | what lives there |
//! |---|---|
//! | [`geometry`] | norms, projections |
//! | [`loss`] | per-record losses and their facts |
//! | [`records`] | bounded rows in memory or on disk |
//! | [`objective`] | what one record contributes, with what is known of it and why |
//! | [`plan`] | public facts, plans, candidates: everything before the first record |
//! | [`guarantee`] | what a whole run promises |
//! | [`sampler`] | draws from e^(−F) with a proved distance from that law |
//! | [`mechanism`] | [`Sensitive`] and [`Released`], the curator and the only doors out |
//! | [`optimize`] | one algorithm, one file, each in the same four steps |
//! | [`problems`] | tables made from a seed, with a known truth, for demos and tests |
//! | [`data`] | readers, schema, encoders from public facts |
//! | [`audit`] | empirical lower bounds on ε, for any mechanism here and for foreign ones |
//! | [`report`] | the answer, its guarantee and its cost, as one HTML file |
//! | [`model`] | what a user fits, predicts with and evaluates |
//! | [`estimate`] | answers without a model: the mean of sparse vectors |
#![forbid(unsafe_code)]

pub mod audit;
pub mod data;
pub mod estimate;
pub mod guarantee;
pub mod mechanism;
#[cfg(doctest)]
mod misuse;
pub mod model;
pub mod optimize;
pub mod output;
pub mod plan;
mod power_law;
pub mod problems;
pub mod progress;
mod refused;
pub mod report;
pub mod sampler;
mod sampler_error;
pub mod session;
mod words;

pub use dpopt_noise as noise;
pub(crate) use dpopt_objective::solver;
pub use dpopt_objective::{geometry, loss, objective, records};
pub use dpopt_privacy as privacy;
pub use mechanism::{Public, Released, Sensitive};
