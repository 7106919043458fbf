//! The library audited by its makers: injected faults that must be caught, a row for every mechanism and method, laws of the samplers
//! (docs/audit.md).
//!
//! The catalogue says what the attacks of `dpopt-audit` find where there is something to find; a pass of the library's rows says
//! that they found nothing there. Worlds are made up, and the kernel's feature `past-the-curator` lets them be looked at: no
//! package that ships depends on this one.

pub mod catalogue;
pub mod document;
pub mod kept;
pub mod library;
#[cfg(test)]
mod linear_methods;
pub mod samplers;
mod tier;
mod worst_cases;

pub use tier::Tier;
