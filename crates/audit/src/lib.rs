//! Empirical lower bounds on ε: statistics, attacks, and a catalogue of planted bugs (spec 20 §1).
//!
//! An audit can refute a guarantee, never prove one. A pass says that the attack with the stated power found nothing;
//! the catalogue says what the attacks would have found.

pub mod attack;
pub mod catalogue;
pub mod document;
pub mod draws;
pub mod library;
#[cfg(test)]
mod linear_methods;
pub mod samplers;
pub mod statistics;
mod tier;
mod worst_cases;

pub use tier::Tier;
