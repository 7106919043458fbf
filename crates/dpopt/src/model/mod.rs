//! What a user fits, predicts with and evaluates.

mod division;
mod embedding;
mod fit;
mod guarantee;
mod ledger_file;
mod linear;
pub mod metrics;
mod prepare;
pub mod probability;

pub use division::{Division, StageShares};
pub use embedding::EmbeddingRequest;
pub use fit::{Explanation, Fit, FitError, FitOptions, Fitted};
pub(crate) use fit::{charges_noise, same_count};
pub use guarantee::{Guarantee, Recomputed, Stage};
pub use ledger_file::LedgerFile;
pub use linear::{Evaluation, Model, ModelError, Predictions};
