//! `--model`: linear, or vectors per feature.

use crate::output::Failure;
use crate::usage;
use clap::{Args, ValueEnum};
use dpopt::model::EmbeddingRequest;

/// Linear, or vectors per feature.
#[derive(Args, Clone)]
#[command(next_help_heading = "Embedding models")]
pub(super) struct ModelFlags {
    /// What is fitted
    #[arg(long, value_enum, default_value_t)]
    pub(super) model: ModelFlag,
    /// Numbers per feature of an embedding model [default: 16]
    #[arg(long, value_name = "K")]
    pub(super) embedding_dim: Option<usize>,
    /// two-tower: columns of the user (LIBSVM: a range of feature numbers, 1-1000)
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    pub(super) user_columns: Vec<String>,
    /// two-tower: columns of the item
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    pub(super) item_columns: Vec<String>,
    /// Public seed of the initial embeddings [default: 0]
    #[arg(long, value_name = "N")]
    pub(super) embedding_seed: Option<u64>,
}

/// The values of `--model`.
#[derive(Clone, Copy, Debug, Default, PartialEq, ValueEnum)]
pub(super) enum ModelFlag {
    /// A weight per feature (and class)
    #[default]
    Linear,
    /// Scores are linear in the sum of the features' vectors
    Embedding,
    /// The score is the product of a user's and an item's vector, plus a weight per feature
    TwoTower,
}

impl ModelFlags {
    pub(super) fn request(&self) -> Result<Option<EmbeddingRequest>, Failure> {
        let towers = !(self.user_columns.is_empty() && self.item_columns.is_empty());
        let towers = match self.model {
            ModelFlag::TwoTower if self.user_columns.is_empty() || self.item_columns.is_empty() => {
                return Err(usage("--model two-tower needs --user-columns and --item-columns"));
            }
            ModelFlag::TwoTower => Some((self.user_columns.clone(), self.item_columns.clone())),
            _ if towers => {
                return Err(usage(
                    "--user-columns and --item-columns need --model two-tower; leave them \
                                             out, or give it",
                ));
            }
            ModelFlag::Linear if self.embedding_dim.is_some() || self.embedding_seed.is_some() => {
                return Err(usage(
                    "--embedding-dim and --embedding-seed need --model embedding or --model two-tower; leave them \
                     out, or give one",
                ));
            }
            ModelFlag::Linear => return Ok(None),
            ModelFlag::Embedding => None,
        };
        Ok(Some(EmbeddingRequest {
            dimension: self.embedding_dim.unwrap_or(16),
            towers,
            seed: self.embedding_seed.unwrap_or(0),
        }))
    }
}
