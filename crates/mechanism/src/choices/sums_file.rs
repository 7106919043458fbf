//! Sums that each have rounds of their own, in a [session file](super::session_file).
//!
//! What is released of a sum is noise that was drawn when it was closed, and it leaves only after a state in which that sum is closed is on
//! disk. So a restart never draws noise for a sum whose noisy value somebody has seen; and no noise is ever written down but in values that
//! were released.

use super::session_file::{SessionFile, unusable};
use dpopt_kernel::CuratorError;
use dpopt_privacy::Relation;
use serde::{Deserialize, Serialize};
use std::path::Path;

const FORMAT: &str = "dpopt sums session 1";

/// What the sums are, as a session file keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SumsShape {
    pub(super) rounds: u64,
    pub(super) releases: u64,
    pub(super) epsilon: f64,
    pub(super) rounds_per_user: u64,
    pub(super) relation: Relation,
}

/// Sums at one moment, as sensitive as the rounds of the one that is under way.
#[derive(Clone)]
pub struct SavedSums {
    pub(super) shape: SumsShape,
    pub(super) added: u64,
    pub(super) released: u64,
    pub(super) sum: i64,
}

impl std::fmt::Debug for SavedSums {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SavedSums(after {} rounds)", self.added)
    }
}

impl SavedSums {
    /// Refuses what was saved of another plan.
    pub(super) fn of(&self, shape: &SumsShape) -> Result<(), CuratorError> {
        if self.shape == *shape {
            return Ok(());
        }
        Err(unusable("the session file was made for another plan; resume it with the plan that it holds".into()))
    }
}

/// [`SavedSums`] as the session file holds them: no other file has them.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    shape: SumsShape,
    added: u64,
    released: u64,
    sum: i64,
}

impl State {
    fn is_sound(&self) -> bool {
        self.added <= self.shape.rounds && self.released <= self.shape.releases && self.sum >= 0
    }
}

/// The file of one session and its mark, locked until it is dropped.
pub struct SumsFile(SessionFile);

impl SumsFile {
    /// Reserves the place of a new session.
    ///
    /// # Errors
    /// If there is one already, or its place can't be written.
    pub fn create(path: &Path) -> Result<Self, CuratorError> {
        Ok(Self(SessionFile::create(path)?))
    }

    /// Gives the place back, if nothing was saved there: for a game that could not be charged.
    pub fn withdraw(self) {
        self.0.withdraw();
    }

    /// Opens a session that was saved: the file, what it holds, and what was written beside it.
    ///
    /// # Errors
    /// If it is held by another process, damaged, older than what was shown of it, or a copy of one.
    pub fn open(path: &Path) -> Result<(Self, SavedSums, String), CuratorError> {
        Self::opened(path, false)
    }

    /// Opens a saved session that was moved to another file system, and trusts the caller that no other copy of it goes on.
    ///
    /// # Errors
    /// As [`open`](Self::open); also if the session that it was copied from is still there.
    pub fn open_moved(path: &Path) -> Result<(Self, SavedSums, String), CuratorError> {
        Self::opened(path, true)
    }

    fn opened(path: &Path, moved: bool) -> Result<(Self, SavedSums, String), CuratorError> {
        let (file, state, public) = SessionFile::open(path, FORMAT, State::is_sound, moved)?;
        let State { shape, added, released, sum } = state;
        Ok((Self(file), SavedSums { shape, added, released, sum }, public))
    }

    pub(super) fn write(&mut self, saved: &SavedSums, public: &str) -> Result<(), CuratorError> {
        let SavedSums { shape, added, released, sum } = *saved;
        self.0.write(FORMAT, &State { shape, added, released, sum }, public)
    }
}
