//! What a user fits, predicts with and evaluates.

mod budget_split;
mod describe;
mod embedding;
mod error;
mod fit;
mod forms;
mod interactions;
mod interval;
mod linear;
mod matrix;
mod matrix_report;
pub mod metrics;
mod options;
mod partitioned_table;
mod partitions;
mod prepare;
pub mod probability;
mod reading;
mod search;
mod source;
mod spread;
mod stage_plan;
mod stream;
mod table;
mod target_range;
mod telling;
mod units;

pub use crate::guarantee::{Guarantee, Recomputed, Stage};
pub use crate::run::{UnitClipping, UnitOptions};
pub use budget_split::{BudgetSplit, StageShares};
pub(crate) use describe::{large_delta, whose_rows};
pub use embedding::EmbeddingRequest;
pub use error::FitError;
pub(crate) use error::same_count;
pub use fit::Fit;
pub use interval::PredictionInterval;
pub use linear::{Evaluation, Model, ModelError, Predictions};
pub use matrix::{
    BoundedMatrix, Labels, MatrixFacts, MatrixFitted, MatrixOptions, MatrixRecords, MatrixState, TargetRange,
};
pub use matrix_report::MatrixAnswer;
pub use options::{FitOptions, MethodRequest};
pub use partitions::{LargeShard, LostPiece, Shard, empty_query, remote_numbers};
pub use reading::Reading;
pub use search::{SearchLaw, SearchPlan, SearchTheorem, score_event};
pub use source::{Source, StageKind, Taken};
pub use stage_plan::{ClassLoss, Planned, Target};
pub use stream::{MatrixStream, MatrixStreamPlan};
pub use table::{Explanation, Fitted, NamedTable, TableState};
pub use units::{KeptCounts, UnitFacts};
pub(crate) use units::{Units, coins};
