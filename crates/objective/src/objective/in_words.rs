//! Objectives that can be told to somebody else.

use super::Linear;
use serde::{Deserialize, Serialize};

/// An objective of rows as data: what whoever holds the rows needs to evaluate it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InWords {
    /// A linear model.
    Linear(Linear),
    /// How large its gradients are; see [`GradientSizes`](super::GradientSizes).
    Sizes {
        /// Whose gradients.
        of: Linear,
        /// Where the first cell ends.
        smallest: f64,
        /// Of the ends of neighbouring cells.
        ratio: f64,
        /// Number of cells.
        cells: usize,
    },
}
