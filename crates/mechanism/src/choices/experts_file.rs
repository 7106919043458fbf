//! A choice among experts in a [session file](super::session_file).

use super::session_file::{SessionFile, unusable};
use dpopt_kernel::CuratorError;
use dpopt_privacy::Relation;
use serde::{Deserialize, Serialize};
use std::path::Path;

const FORMAT: &str = "dpopt experts session 2";

/// What a lazy choice is, as a session file keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LazyShape {
    pub(super) experts: usize,
    pub(super) rounds: u64,
    pub(super) batch: u64,
    pub(super) learning_rate: f64,
    /// p in units of 2^-53.
    pub(super) fresh: u64,
    pub(super) rounds_per_user: u64,
    pub(super) relation: Relation,
}

/// What a choice by blocks is, as a session file keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BlockShape {
    pub(super) experts: usize,
    pub(super) rounds: u64,
    /// The last rounds of all blocks but the last.
    pub(super) ends: Vec<u64>,
    pub(super) learning_rate: f64,
    pub(super) rounds_per_user: u64,
    pub(super) relation: Relation,
}

/// The kind of choice that is saved, with its public numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum SavedShape {
    Lazy(LazyShape),
    Blocks(BlockShape),
}

/// A choice among experts at one moment, as sensitive as the rounds that it has seen.
#[derive(Clone)]
pub struct SavedExperts {
    pub(super) shape: SavedShape,
    pub(super) round: u64,
    pub(super) chosen: usize,
    /// Losses of whole batches; of a choice by blocks there are none, its blocks are forgotten.
    pub(super) total: Vec<i64>,
    /// Losses of the batch or block that is under way.
    pub(super) current: Vec<i64>,
}

impl std::fmt::Debug for SavedExperts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SavedExperts(after round {})", self.round)
    }
}

impl SavedExperts {
    /// Number of rounds observed.
    pub fn observed(&self) -> u64 {
        self.round
    }

    /// Refuses what was saved of another plan.
    pub(super) fn of(&self, shape: &SavedShape) -> Result<(), CuratorError> {
        if self.shape == *shape {
            return Ok(());
        }
        Err(unusable("the session file was made for another plan; resume it with the plan that it holds".into()))
    }
}

/// [`SavedExperts`] as the session file holds it: no other file has it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    shape: SavedShape,
    round: u64,
    chosen: usize,
    total: Vec<i64>,
    current: Vec<i64>,
}

impl State {
    fn is_sound(&self) -> bool {
        let (experts, rounds, totals) = match &self.shape {
            SavedShape::Lazy(shape) => (shape.experts, shape.rounds, shape.experts),
            SavedShape::Blocks(shape) => (shape.experts, shape.rounds, 0),
        };
        let sums = |v: &[i64], length: usize| v.len() == length && v.iter().all(|sum| *sum >= 0);
        self.round <= rounds && self.chosen < experts && sums(&self.total, totals) && sums(&self.current, experts)
    }
}

/// The file of one session and its mark, locked until it is dropped.
pub struct ExpertsFile(SessionFile);

impl ExpertsFile {
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
    pub fn open(path: &Path) -> Result<(Self, SavedExperts, String), CuratorError> {
        Self::opened(path, false)
    }

    /// Opens a saved session that was moved to another file system, and trusts the caller that no other copy of it goes on.
    ///
    /// # Errors
    /// As [`open`](Self::open); also if the session that it was copied from is still there.
    pub fn open_moved(path: &Path) -> Result<(Self, SavedExperts, String), CuratorError> {
        Self::opened(path, true)
    }

    fn opened(path: &Path, moved: bool) -> Result<(Self, SavedExperts, String), CuratorError> {
        let (file, state, public) = SessionFile::open(path, FORMAT, State::is_sound, moved)?;
        let State { shape, round, chosen, total, current } = state;
        Ok((Self(file), SavedExperts { shape, round, chosen, total, current }, public))
    }

    pub(super) fn write(&mut self, saved: SavedExperts, public: &str) -> Result<(), CuratorError> {
        let SavedExperts { shape, round, chosen, total, current } = saved;
        self.0.write(FORMAT, &State { shape, round, chosen, total, current }, public)
    }
}
