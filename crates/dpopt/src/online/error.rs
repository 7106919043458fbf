//! The errors that stop a game.

use crate::session::SessionError;
use dpopt_mechanism::{CuratorError, NotApplicable};
use dpopt_optimize::RunError;
use thiserror::Error;

/// Why a game is not played, or does not go on. Nothing here shows a loss.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OnlineError {
    /// No plan exists for the game.
    #[error(transparent)]
    Plan(#[from] NotApplicable),
    /// The account refuses the charge, or the session does not open.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The curator refused a release: nothing is released or saved.
    #[error(transparent)]
    Release(#[from] CuratorError),
    /// A game does not go on.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Something that was said is out of range.
    #[error("{0}")]
    Option(String),
}
