//! What a differential-privacy guarantee is, and how guarantees add up. No data, no randomness.
//!
//! * [`Budget`]: the (ε, δ) a user allows. [`Relation`]: which data sets are neighbours.
//! * [`Event`]: a plain value that describes what a mechanism does (names of Google's `dp_accounting`).
//! * [`accountant`]: upper bounds on ε or δ of an event; each says honestly what it [supports](accountant::Accountant::supports).
//! * [`certify`](certify::certify): the tightest valid accountant against a budget; [`calibrate`]: the noise that meets it.
//! * [`gibbs`]: what a draw from a strongly log-concave density costs.
//! * [`ledger`]: a budget kept in a file across runs.
#![forbid(unsafe_code)]

pub mod accountant;
pub mod budget;
pub mod calibrate;
pub mod certify;
pub mod event;
pub mod expression;
pub mod filter;
pub mod gibbs;
pub mod group;
pub mod ledger;
pub mod neighbours;
mod shown;
pub mod special;
pub mod words;

pub use accountant::Bound;
pub use budget::Budget;
pub use certify::{Certificate, certify};
pub use event::Event;
pub use filter::Filter;
pub use ledger::Ledger;
pub use neighbours::{Neighbours, Relation, Terms, Unit};
pub use shown::Shown;
