//! Objectives: what one record contributes to Σφ_i(x), with what is known of it.

mod facts;

pub use facts::{Fact, Facts, Warrant};
