//! Embedding models as a user asks for them: by the names of columns.

use super::error::FitError;
use dpopt_data::{Encoder, listed};
use dpopt_objective::loss::embedding::{Embedding, Towers};

/// An embedding model over the columns of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct EmbeddingRequest {
    /// k: numbers per feature.
    pub dimension: usize,
    /// Columns of the user and of the item; `None`: a sum of the embeddings of all columns.
    ///
    /// In a LIBSVM table, which has no columns, ranges of feature numbers as they stand in the file: `1-1000`.
    pub towers: Option<(Vec<String>, Vec<String>)>,
    /// Public seed of the values the weights start at.
    pub seed: u64,
}

impl Default for EmbeddingRequest {
    fn default() -> Self {
        Self { dimension: 16, towers: None, seed: 0 }
    }
}

impl EmbeddingRequest {
    /// The embedding with its towers as ranges of encoded features instead of column names.
    pub(super) fn resolve(&self, encoder: &Encoder) -> Result<Embedding, FitError> {
        let side = |names: &[String]| names.iter().map(|name| features(encoder, name)).collect::<Result<Vec<_>, _>>();
        let towers = match &self.towers {
            Some((users, items)) => Some(Towers { users: side(users)?, items: side(items)? }),
            None => None,
        };
        Ok(Embedding { dimension: self.dimension, towers, seed: self.seed })
    }
}

/// Features of a column, or of a range `a-b` of a LIBSVM table's feature numbers.
fn features(encoder: &Encoder, name: &str) -> Result<(u32, u32), FitError> {
    if let Some(range) = encoder.features_of(name) {
        return Ok(range);
    }
    let numbers =
        name.split_once('-').and_then(|(a, b)| Some((a.trim().parse::<u32>().ok()?, b.trim().parse::<u32>().ok()?)));
    match numbers {
        Some((first, last))
            if !encoder.has_intercept() && 1 <= first && first <= last && last as usize <= encoder.dimension() =>
        {
            Ok((first - 1, last))
        }
        _ => {
            let known: Vec<&str> = encoder.columns().collect();
            Err(FitError::Option(
                format!(
                    "there is no feature column `{name}` for a tower; choose one of {}{}",
                    listed(&known),
                    if encoder.has_intercept() { "" } else { ", or give a range of feature numbers such as 1-1000" }
                )
                .into(),
            ))
        }
    }
}
