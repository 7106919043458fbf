//! Methods of the literature for linear models that ours are compared with: planned by name only, never taken by themselves.
//!
//! They stand on the interface that anybody's method stands on: [`Algorithm`](dpopt_optimize::Algorithm) and
//! [`Registry::with`]. [`registry`] has them after the methods that ship.

mod bias_reduced;
mod clipped_sgd;
mod last_iterate;
#[cfg(test)]
mod option_tests;
mod phased_sgd;
#[cfg(test)]
mod tests;

pub use bias_reduced::{BiasReducedSchedule, BiasReducedSgd, Output, SPARE, Stopping};
pub use clipped_sgd::{ClippedSchedule, ClippedSgd};
pub use last_iterate::{LastIterateDescent, LastIterateSchedule};
pub use phased_sgd::{PhasedSchedule, PhasedSgd};

use dpopt_optimize::Registry;
use std::sync::LazyLock;

/// The methods that ship in the library, then those of this crate: what the command line and the Python package plan with.
pub fn registry() -> &'static Registry {
    static ALL: LazyLock<Registry> = LazyLock::new(|| {
        dpopt_linear::registry()
            .clone()
            .with::<LastIterateDescent>()
            .with::<BiasReducedSgd>()
            .with::<PhasedSgd>()
            .with::<ClippedSgd>()
    });
    &ALL
}
