//! What is summed over records, and nothing about how privately: records, losses and objectives with what is known of them, domains,
//! solvers.
//!
//! Everything here works on open values. Who holds sensitive records wraps them, and lets the kernel (`dpopt-mechanism`) call
//! what is here; of what comes out nothing may leave but through a mechanism.
//!
//! | module | what it holds |
//! |---|---|
//! | [`geometry`] | norms, projections |
//! | [`loss`] | per-record losses and their facts |
//! | [`records`] | bounded rows in memory or on disk, counts of values |
//! | [`objective`] | what one record contributes, with what is known of it and why |
//! | [`solver`] | minimisers with a proved distance, and the sums they are made of |
//! | [`resque`] | non-smooth convex functions in few rounds of many queries, without privacy |
#![forbid(unsafe_code)]

pub mod geometry;
pub mod loss;
pub mod objective;
pub mod records;
pub mod resque;
pub mod solver;
#[doc(hidden)]
pub mod synthetic;
