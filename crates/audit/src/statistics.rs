//! From counts and samples to statements that are wrong with a stated probability. Knows nothing of mechanisms.
//!
//! | module | what it proves |
//! |---|---|
//! | [`binomial`] | Clopper–Pearson bounds, exact and on the safe side |
//! | [`Claim`] | a claimed trade-off curve, from μ, (ε, δ) or an event |
//! | [`Counts`], [`Rates`] | rejection of a claim, lower bounds on ε and μ from two error rates |
//! | [`sequential`] | a betting test that may stop at any time |
//! | [`threshold`] | events chosen from a pilot, from fixed thresholds, or from a uniform band |
//! | [`one_run`] | many canaries in one run |
//! | [`laws`] | whether a sampler's law is the stated one |

pub mod binomial;
pub(crate) mod claim;
pub mod laws;
pub mod one_run;
mod rates;
pub mod sequential;
pub mod threshold;

pub use claim::Claim;
pub use rates::{Counts, Rates};
