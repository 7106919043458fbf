//! Chains without a proved distance from their law, and regularisers of matrices, for which there is no other chain.
//!
//! **Research grade: numbers, no guarantee of privacy.** [`hit_and_run`] has the right law in the limit and no usable bound on how
//! far it is after a number of rounds; [`unadjusted_langevin`] has another law for every step. No method uses them, and nothing that
//! they draw may be called private: a run that looks mixed is no evidence of a total-variation distance of 1e-7. They are here to look at
//! the utility of exact draws where none is certified (Schatten norms: Liu 2024, chapter 4).
//!
//! Covers: thesis corollary 4.4.13 (research: regulariser of matrices, no certified chain)

mod hit_and_run;
mod langevin;
mod matrix_norm;
#[cfg(test)]
mod tests;

pub use hit_and_run::hit_and_run;
pub use langevin::unadjusted_langevin;
pub use matrix_norm::{SchattenSquare, Singular};
