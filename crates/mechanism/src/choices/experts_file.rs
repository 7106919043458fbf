//! A choice among experts, kept in a file so that a killed process goes on where it was (docs/proofs/online-experts.md, restarts).
//!
//! What may happen at any byte: the process is killed, or the machine. So the file is written whole beside its name, synced and
//! renamed; then one byte is appended to the mark beside it, synced; only then may what was decided be shown. The mark's length
//! counts the writes. A file that is older than its mark was copied back: its next draw might be a second one from losses that
//! were drawn from before, so it is refused. So are files without a mark, damaged ones and those of another session. While one
//! process has the session, the mark is locked.
//!
//! The file holds sums of losses, exact: it is as sensitive as the rounds themselves, and only its owner may read it. It holds no
//! randomness: a process that goes on draws fresh coins.

use crate::refused::CuratorError;
use dpopt_noise::{NoiseSource, Purpose};
use dpopt_privacy::Relation;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

const FORMAT: &str = "dpopt experts session 2";
/// Hexadecimal digits of an identity, and a line break: the mark's header.
const HEADER: usize = 33;
/// Largest file that is read: 2^24 experts with two numbers each.
const MOST_BYTES: u64 = 1 << 31;

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

/// Who chooses.
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
    /// Rounds observed.
    pub fn observed(&self) -> u64 {
        self.round
    }

    /// Refuses what was saved of another plan.
    pub(super) fn of(&self, shape: &SavedShape) -> Result<(), CuratorError> {
        if self.shape == *shape {
            return Ok(());
        }
        Err(unusable("the session file was made for another plan; resume with the one that it holds".into()))
    }

    fn is_sound(&self) -> bool {
        let (experts, rounds, totals) = match &self.shape {
            SavedShape::Lazy(shape) => (shape.experts, shape.rounds, shape.experts),
            SavedShape::Blocks(shape) => (shape.experts, shape.rounds, 0),
        };
        let sums = |v: &[i64], length: usize| v.len() == length && v.iter().all(|sum| *sum >= 0);
        self.round <= rounds && self.chosen < experts && sums(&self.total, totals) && sums(&self.current, experts)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    format: String,
    identity: String,
    write: u64,
    shape: SavedShape,
    round: u64,
    chosen: usize,
    total: Vec<i64>,
    current: Vec<i64>,
    public: String,
}

/// The file of one session and its mark, locked until it is dropped.
pub struct ExpertsFile {
    path: PathBuf,
    mark: File,
    identity: String,
    writes: u64,
    /// A write began and did not end: what is on disk is not known here.
    unsure: bool,
}

impl ExpertsFile {
    /// Reserves the place of a new session.
    ///
    /// # Errors
    /// If there is one already, or its place can't be written.
    pub fn create(path: &Path) -> Result<Self, CuratorError> {
        if !exists(path) && exists(&mark_of(path)) {
            return Err(failed(
                path,
                "is not there, but its .mark is: a process ended before anything was shown. What it was charged is spent; remove the mark \
                 and open another game",
            ));
        }
        if exists(path) {
            return Err(failed(path, "is there already; resume it, or take another name"));
        }
        let mut name = NoiseSource::secure().map_err(|e| unusable(e.to_string()))?.stream(Purpose::Initialisation, 0);
        let identity = format!("{:016x}{:016x}", name.below(u64::MAX), name.below(u64::MAX));
        let mut mark = private(true).open(mark_of(path)).map_err(|e| io_failed(path, &e))?;
        lock(&mark, path)?;
        let header = format!("{identity}\n");
        mark.write_all(header.as_bytes()).and_then(|()| mark.sync_all()).map_err(|e| io_failed(path, &e))?;
        Ok(Self { path: path.to_path_buf(), mark, identity, writes: 0, unsure: false })
    }

    /// Opens a session that was saved: the file, what it holds, and what was written beside it.
    ///
    /// # Errors
    /// If it is held by another process, damaged, or older than what was shown of it.
    pub fn open(path: &Path) -> Result<(Self, SavedExperts, String), CuratorError> {
        let no_mark = "has no mark beside it (its name and .mark), so that nobody can tell whether it is the newest; a session's two \
                       files stay together";
        let mut mark = match OpenOptions::new().read(true).append(true).open(mark_of(path)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound && exists(path) => return Err(failed(path, no_mark)),
            other => other.map_err(|e| io_failed(path, &e))?,
        };
        lock(&mark, path)?;
        let mut bytes = Vec::new();
        mark.rewind().and_then(|()| mark.read_to_end(&mut bytes)).map_err(|e| io_failed(path, &e))?;
        let mut text = Vec::new();
        let file = File::open(path).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => failed(path, "is gone; nothing can be resumed"),
            _ => io_failed(path, &e),
        })?;
        file.take(MOST_BYTES).read_to_end(&mut text).map_err(|e| io_failed(path, &e))?;
        let content =
            parse(&text).ok_or_else(|| failed(path, "is damaged, or no session; nothing is resumed from it"))?;
        let header = format!("{}\n", content.identity);
        if bytes.len() < HEADER || bytes[..HEADER] != *header.as_bytes() {
            return Err(failed(path, "belongs to another mark than the one beside it"));
        }
        let marked = (bytes.len() - HEADER) as u64;
        if content.write < marked {
            return Err(failed(
                path,
                "is older than what was shown of it (it was copied back): going on would draw a second time from losses that were \
                 drawn from before; nothing is resumed",
            ));
        }
        if content.write > marked + 1 {
            return Err(failed(path, "is newer than its mark, which was copied back; nothing is resumed"));
        }
        let mut file =
            Self { path: path.to_path_buf(), mark, identity: content.identity, writes: content.write, unsure: false };
        if marked < content.write {
            file.append_mark()?;
        }
        let Content { shape, round, chosen, total, current, public, .. } = content;
        let saved = SavedExperts { shape, round, chosen, total, current };
        if !saved.is_sound() {
            return Err(failed(path, "is damaged; nothing is resumed from it"));
        }
        Ok((file, saved, public))
    }

    /// After a failure nothing more is written: the file and its mark may be one apart, which only opening them again mends.
    pub(super) fn write(&mut self, saved: &SavedExperts, public: &str) -> Result<(), CuratorError> {
        if std::mem::replace(&mut self.unsure, true) {
            return Err(failed(&self.path, "could not be written before; resume it in a new process"));
        }
        let content = Content {
            format: FORMAT.into(),
            identity: self.identity.clone(),
            write: self.writes + 1,
            shape: saved.shape.clone(),
            round: saved.round,
            chosen: saved.chosen,
            total: saved.total.clone(),
            current: saved.current.clone(),
            public: public.into(),
        };
        let body = serde_json::to_string(&content).map_err(|e| unusable(e.to_string()))?;
        let text = format!("{body}\n{}\n", blake3::hash(body.as_bytes()).to_hex());
        self.replace(text.as_bytes()).map_err(|e| io_failed(&self.path, &e))?;
        self.writes += 1;
        self.append_mark()?;
        self.unsure = false;
        Ok(())
    }

    /// Writes beside, syncs, renames, syncs the directory.
    fn replace(&self, text: &[u8]) -> io::Result<()> {
        let new = beside(&self.path, ".new");
        // left over from a process that was killed
        match std::fs::remove_file(&new) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let mut file = private(true).open(&new)?;
        file.write_all(text)?;
        file.sync_all()?;
        std::fs::rename(&new, &self.path)?;
        sync_directory(&self.path)
    }

    fn append_mark(&mut self) -> Result<(), CuratorError> {
        self.mark.write_all(b".").and_then(|()| self.mark.sync_data()).map_err(|e| io_failed(&self.path, &e))
    }
}

fn parse(text: &[u8]) -> Option<Content> {
    let text = std::str::from_utf8(text).ok()?;
    let (body, hash) = text.strip_suffix('\n')?.rsplit_once('\n')?;
    if blake3::hash(body.as_bytes()).to_hex().as_str() != hash {
        return None;
    }
    serde_json::from_str(body).ok().filter(|content: &Content| content.format == FORMAT)
}

/// A new file that only its owner may read.
fn private(new: bool) -> OpenOptions {
    let mut options = OpenOptions::new();
    options.append(true).create_new(new);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn sync_directory(path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match File::open(directory) {
        // some file systems refuse to sync a directory; the file itself is already safe
        Ok(directory) => directory.sync_all().or(Ok(())),
        Err(_) => Ok(()),
    }
}

fn exists(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok()
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn mark_of(path: &Path) -> PathBuf {
    beside(path, ".mark")
}

fn lock(mark: &File, path: &Path) -> Result<(), CuratorError> {
    match mark.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(failed(path, "is held by another process; one at a time")),
        Err(TryLockError::Error(e)) => Err(io_failed(path, &e)),
    }
}

fn unusable(text: String) -> CuratorError {
    CuratorError::Noise(text)
}

fn failed(path: &Path, what: &str) -> CuratorError {
    CuratorError::Unusable(format!("session {} {what}", path.display()))
}

fn io_failed(path: &Path, error: &io::Error) -> CuratorError {
    failed(path, &format!("can't be used: {error}"))
}
