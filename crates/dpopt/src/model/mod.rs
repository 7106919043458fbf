//! What a user fits, predicts with and evaluates.

mod division;
mod embedding;
mod fit;
mod guarantee;
mod linear;
pub mod metrics;
mod prepare;
pub mod probability;

pub use division::{Division, StageShares};
pub use embedding::EmbeddingRequest;
pub use fit::{Explanation, Fit, FitError, FitOptions, Fitted, LedgerFile};
pub use guarantee::{Guarantee, Stage};
pub use linear::{Evaluation, Model, ModelError, Predictions};
