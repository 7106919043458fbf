//! What a mechanism does to privacy, as a plain value, and what a user allows. No data, no randomness, no accounting.
//!
//! * [`Event`]: what a mechanism does (names of Google's `dp_accounting`); [`expression`] reads it from a line of text.
//! * [`Budget`]: the (ε, δ) a user allows. [`Relation`]: which data sets are neighbours. [`Terms`]: both, and the unit.
//! * [`group`]: what a guarantee for one record says of several.
//! * [`special`]: functions of the normal law with bounds on their errors; [`rounding`]: numbers and guarantees in words, rounded toward what costs more.
//!
//! This crate is part of the trusted core (docs/architecture.md). How events add up is `dpopt-accounting`'s; `dpopt-privacy` hands
//! on the names of both.
#![forbid(unsafe_code)]

pub mod budget;
pub mod event;
pub mod expression;
pub mod neighbours;
pub mod rounding;
mod shown;
pub mod special;

pub use budget::Budget;
pub use event::{Event, group};
pub use neighbours::{Neighbours, Relation, Terms, Unit};
pub use shown::Shown;
