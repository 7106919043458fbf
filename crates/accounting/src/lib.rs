//! How guarantees add up: upper bounds on ε or δ of an event. No data, no randomness.
//!
//! * [`accountant`]: bounds by Rényi divergences, Gaussian curves, loss distributions and what else is proved; each says
//!   honestly what it [supports](accountant::Accountant::supports).
//! * [`gibbs`]: what a draw from a strongly log-concave density costs.
//!
//! The second ring of the trusted core (docs/architecture.md): a wrong bound here is a wrong guarantee, but several accountants
//! answer for most events, none may stay below what a pair of worlds attains, and headline numbers are verified by interval
//! arithmetic ([`accountant::verify`]).
#![forbid(unsafe_code)]

pub mod accountant;
pub mod gibbs;

pub use accountant::Bound;
