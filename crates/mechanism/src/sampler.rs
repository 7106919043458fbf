//! Draws from e^(−F), with a number for how far they are from that law.
//!
//! A guarantee of a Gibbs measure (docs/proofs/gibbs-gdp.md) is one for its exact law; what a program draws must come with a proved bound
//! on the total-variation distance, because (1 + e^ε) times that is added to δ. Heuristic chains (Langevin, Hamiltonian
//! Monte Carlo, R-hat) have no such number. Here:
//!
//! * [`Chain`]: the proximal sampler, whose distance after T rounds [`Contraction`] bounds for every strongly log-concave
//!   target on a convex [`Domain`] (all of space, a box, a ball), every data set and every step size.
//!   [`DrawnStart`] does the same for a random start and in any norm; [`certified_value_chain`] plans a chain of values only.
//! * [`Oracle`]: its inner step. C ([`Convexity`], exact, the default), B ([`ratio`]), A ([`series`]).
//! * [`Potential`]: β·Σφ_i, of linear models or of any [`Objective`](dpopt_objective::objective::Objective).
//! * [`log_laplace`]: the couplings of other norms, as numbers; [`research`]: hit-and-run, Langevin, norms of matrices. Research grade:
//!   nothing is claimed of them.
//! * Finite sets of candidates need no chain: [`dpopt_draws::ExponentialChoice`] and [`dpopt_draws::NoisyMax`] draw from
//!   the exponential mechanism and permute-and-flip exactly, where Gumbel noise from 53-bit uniforms cannot (a candidate
//!   that trails by 41 has probability 0 on one data set and not on its neighbour).
//!
//! The number of proposals depends on the data: running time is outside the claim unless the chain runs in constant time.

mod certificate;
pub(crate) mod domain;
mod drawn_start;
#[cfg(test)]
pub(crate) mod laws;
mod log_concave;
pub mod log_laplace;
pub(crate) mod norm_square;
mod oracle;
pub(crate) mod potential;
pub mod precision;
mod proximal;
pub mod research;
#[cfg(test)]
mod tests;
pub(crate) mod wide;

pub use certificate::{Contraction, MAX_STEPS};
pub use domain::Domain;
pub use drawn_start::{DrawnStart, Start, ValueChain, ValueFacts, certified_value_chain};
pub use norm_square::{NormSquare, best_exponent};
pub use oracle::{Convexity, Exhausted, Oracle, Tally, ratio, series};
pub use potential::Potential;
pub use precision::{Arithmetic, error_per_step};
pub use proximal::Chain;
