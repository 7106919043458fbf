//! What a user fits, predicts with and evaluates.

mod describe;
mod division;
mod embedding;
mod error;
mod fit;
mod forms;
mod interactions;
mod linear;
mod matrix;
pub mod metrics;
mod options;
mod prepare;
pub mod probability;
mod scheme;
mod search;
mod spread;
mod stream;
mod target_range;
mod telling;
mod units;

pub use crate::guarantee::{Guarantee, Recomputed, Stage};
pub(crate) use describe::{large_delta, whose_rows};
pub use division::{Division, StageShares};
pub use embedding::EmbeddingRequest;
pub use error::FitError;
pub(crate) use error::same_count;
pub use fit::{Explanation, Fit, Fitted};
pub use linear::{Evaluation, Model, ModelError, Predictions};
pub use matrix::{MatrixFacts, MatrixFit, MatrixFitted, MatrixRun};
pub use options::FitOptions;
pub use scheme::{ClassLoss, Planned, Target};
pub use search::{SearchLaw, SearchPlan, SearchTheorem, score_event};
pub use stream::{MatrixStream, MatrixStreamPlan};
pub use units::{KeptCounts, UnitClipping, UnitFacts, UnitOptions};
pub(crate) use units::{Units, coins};
