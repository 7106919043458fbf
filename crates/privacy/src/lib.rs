//! What a differential-privacy guarantee is, and how guarantees add up. No data, no randomness.
//!
//! * [`Budget`]: the (ε, δ) a user allows. [`Relation`]: which data sets are neighbours.
//! * [`Event`]: a plain value that describes what a mechanism does (names of Google's `dp_accounting`).
//! * [`accountant`]: upper bounds on ε or δ of an event; each says honestly what it [supports](accountant::Accountant::supports).
//! * [`certify`](certify::certify): the tightest valid accountant against a budget; [`calibrate`]: the noise that meets it.
//! * [`gibbs`]: what a draw from a strongly log-concave density costs.
//! * [`ledger`]: a budget kept in a file across runs.
//!
//! Events and budgets are defined by `dpopt-event`, accountants by `dpopt-accounting`; their names stand here too, so that
//! a user of this crate needs no other.
#![forbid(unsafe_code)]

pub mod calibrate;
pub mod certify;
pub mod filter;
pub mod ledger;

pub use certify::{Certificate, certify};
pub use dpopt_accounting::{Bound, accountant, gibbs};
pub use dpopt_event::{Budget, Event, Neighbours, Relation, Shown, Terms, Unit};
pub use dpopt_event::{budget, event, expression, group, neighbours, rounding, special};
pub use filter::Filter;
pub use ledger::Ledger;
