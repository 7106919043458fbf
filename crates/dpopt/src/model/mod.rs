//! What a user fits, predicts with and evaluates.

mod describe;
mod division;
mod embedding;
mod error;
mod fit;
mod linear;
pub mod metrics;
mod options;
mod prepare;
pub mod probability;

pub use crate::guarantee::{Guarantee, Recomputed, Stage};
pub use division::{Division, StageShares};
pub use embedding::EmbeddingRequest;
pub use error::FitError;
pub(crate) use error::same_count;
pub use fit::{Explanation, Fit, Fitted};
pub use linear::{Evaluation, Model, ModelError, Predictions};
pub use options::FitOptions;
