//! Why an entry could not be computed.

use std::path::Path;

/// Why an entry could not be computed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A file could not be read or written.
    #[error("{path}: {why}")]
    File {
        /// Path of the file.
        path: String,
        /// What the system says.
        why: std::io::Error,
    },
    /// A result could not be kept as JSON.
    #[error("a result can't be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// A chart could not be drawn.
    #[error(transparent)]
    Chart(#[from] dpopt::report::chart::ChartError),
    /// A table could not be written.
    #[error("a table can't be written: {0}")]
    Table(#[from] csv::Error),
    /// Data that are not here.
    #[error(
        "no folder of data sets has {name} ({hint}); name the folder that has it with --data DIR, or in $DPOPT_DATA"
    )]
    Data {
        /// Name of the data set.
        name: &'static str,
        /// Where the data set comes from.
        hint: &'static str,
    },
    /// The computation itself failed.
    #[error("{0}")]
    Computation(String),
}

impl Failure {
    /// A failure of the computation itself.
    pub fn of(why: impl std::fmt::Display) -> Self {
        Self::Computation(why.to_string())
    }

    pub(crate) fn file(path: &Path, why: std::io::Error) -> Self {
        Self::File { path: path.display().to_string(), why }
    }
}
