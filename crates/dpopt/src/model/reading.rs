//! How the table of a fit was read: what its predictions are read with unless something else is said.

use serde::{Deserialize, Serialize};

/// Public facts about the file that are no facts about its columns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Reading {
    /// The character between fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub separator: Option<char>,
    /// Quotes are plain text.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_quoting: bool,
    /// A line break inside quotes does not end a row.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub quoted_newlines: bool,
    /// The first line is a row.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_header: bool,
    /// How many columns a table without a header has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub columns: Option<u64>,
    /// Number of features of a sparse table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub features: Option<u64>,
    /// The first of them has index 0.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub zero_based: bool,
    /// What cannot be read stops.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub bad_cells_error: bool,
}

impl Reading {
    /// Whether nothing of it was said.
    pub fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}
