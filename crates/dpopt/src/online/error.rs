//! Why a game is not played.

use crate::session::SessionError;
use dpopt_mechanism::{CuratorError, NotApplicable};
use dpopt_optimize::RunError;
use thiserror::Error;

/// Why a game is not played, or does not go on. Nothing here shows a loss.
#[derive(Debug, Error)]
pub enum OnlineError {
    /// Nothing is planned.
    #[error(transparent)]
    Plan(#[from] NotApplicable),
    /// Nothing is charged.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// Nothing is released or saved.
    #[error(transparent)]
    Release(#[from] CuratorError),
    /// A game does not go on.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Something that was said is out of range.
    #[error("{0}")]
    Option(String),
}
