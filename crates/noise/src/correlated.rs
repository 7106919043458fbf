//! Noise for streams of sums that cancels over time (docs/proofs/correlated.md): binary tree and Toeplitz factorizations.
//!
//! For lower-triangular C, releasing g_t + σ·(C⁻¹z)_t for all t is a post-processing of C·g + σz, hence *one* Gaussian
//! mechanism with sensitivity max ‖C·G‖ over what one record can contribute, also when the g_t depend on earlier
//! releases (Denisov et al. 2022). Event: `Gaussian(σ/(ζ·sensitivity))`, ζ the clip norm of one participation. There is no
//! amplification by sampling.
mod factor;
mod noise;
mod sensitivity;
mod tree;

pub use factor::{Factor, FactorError};
pub use noise::CorrelatedNoise;
pub use sensitivity::Participation;
pub use tree::{TreeNoise, TreeNoiseError, tree_depth};
