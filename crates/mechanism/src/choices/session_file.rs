//! A game that is kept in a file, so that a killed process goes on where it was (docs/proofs/online-experts.md, restarts).
//!
//! What may happen at any byte: the process is killed, or the machine. So the file is written whole beside its name, synced and
//! renamed; then one byte is appended to the mark beside it, synced; only then may what was decided be shown. The mark's length
//! counts the writes. A file that is older than its mark was copied back: its next draw might be a second one from rounds that
//! were drawn from before, so it is refused. So are files without a mark, damaged ones and those of another session. While one
//! process has the session, the mark is locked.
//!
//! Each write also says which file the mark is, as far as the system tells: two files that were copied beside their originals are another
//! session's, and going on with both would play the rest twice on one charge. Whoever moved a session on purpose says so.
//!
//! The file holds sums of what rounds told, exact: it is as sensitive as the rounds themselves, and only its owner may read it. It holds no
//! randomness: a process that goes on draws fresh coins.

use dpopt_kernel::CuratorError;
use dpopt_noise::{NoiseSource, Purpose};
use dpopt_privacy::rounding::foreign;
use dpopt_process::LockedFile;
use dpopt_refusal::{Text, setting, text};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// Hexadecimal digits of an identity, and a line break: the mark's header.
const HEADER: usize = 33;
/// Largest file that is read: 2^24 experts with two numbers each.
const MAX_BYTES: u64 = 1 << 31;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content<S> {
    format: String,
    identity: String,
    write: u64,
    /// None in files of versions that wrote none.
    #[serde(default)]
    place: Option<Place>,
    state: S,
    public: String,
}

/// Which file the mark was when the state was written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Place {
    /// The session's file, from the root.
    path: String,
    mark: Inode,
}

/// What tells a file from its copies, and stays when it is renamed. Not the device, whose number may change when a machine starts.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Inode {
    number: u64,
    /// Nanoseconds from 1970, where the file system tells: a removed file's number is given to another.
    born: Option<u64>,
}

impl Inode {
    fn of(file: &File) -> io::Result<Self> {
        let found = file.metadata()?;
        #[cfg(unix)]
        let number = std::os::unix::fs::MetadataExt::ino(&found);
        #[cfg(not(unix))]
        let number = 0;
        let born = found.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
        Ok(Self { number, born: born.and_then(|since| u64::try_from(since.as_nanos()).ok()) })
    }
}

impl Place {
    fn of(path: &Path, mark: &File) -> io::Result<Self> {
        let path = std::path::absolute(path)?.to_string_lossy().into_owned();
        Ok(Self { path, mark: Inode::of(mark)? })
    }

    /// Whether the session is still where this was written.
    fn is_there(&self) -> bool {
        File::open(mark_of(Path::new(&self.path))).and_then(|mark| Inode::of(&mark)).is_ok_and(|mark| mark == self.mark)
    }
}

/// The file of one session and its mark, locked until it is dropped.
pub(super) struct SessionFile {
    path: PathBuf,
    mark: LockedFile,
    identity: String,
    writes: u64,
    /// A write began and did not end: what is on disk is not known here.
    unsure: bool,
}

impl SessionFile {
    /// Reserves the place of a new session.
    ///
    /// # Errors
    /// If there is one already, or its place can't be written.
    pub(super) fn create(path: &Path) -> Result<Self, CuratorError> {
        if !exists(path) && exists(&mark_of(path)) {
            // one that is about to save for the first time holds it
            let mark = OpenOptions::new().append(true).open(mark_of(path)).map_err(|e| io_failed(path, &e))?;
            lock(mark, path)?;
            return Err(failed(
                path,
                "does not exist, but its .mark does: a process ended before it showed anything, and its charge is \
                 spent; remove the mark and open another game",
            ));
        }
        if exists(path) {
            return Err(failed(path, "exists already; resume it, or choose another name"));
        }
        let mut name = NoiseSource::secure().map_err(|e| unusable(e.to_string()))?.stream(Purpose::Initialisation, 0);
        let identity = format!("{:016x}{:016x}", name.below(u64::MAX), name.below(u64::MAX));
        let mark = private(true).open(mark_of(path)).map_err(|e| io_failed(path, &e))?;
        let mut mark = lock(mark, path)?;
        let header = format!("{identity}\n");
        mark.write_all(header.as_bytes()).and_then(|()| mark.sync_all()).map_err(|e| io_failed(path, &e))?;
        Ok(Self { path: path.to_path_buf(), mark, identity, writes: 0, unsure: false })
    }

    /// Gives the place back, of a session that was never written: nothing was charged for it.
    pub(super) fn withdraw(self) {
        if self.writes == 0 && !self.unsure && self.mark.process().is_here() {
            // one that stays says what to do with it
            let _ = std::fs::remove_file(mark_of(&self.path));
        }
    }

    /// Opens a session that was saved as `format`: the file, the state in it, and what was written beside it. `moved`: it is believed that
    /// nothing goes on where it was before.
    ///
    /// # Errors
    /// If it is held by another process, damaged, older than what was shown of it, or a copy.
    pub(super) fn open<S: DeserializeOwned>(
        path: &Path,
        format: &str,
        is_sound: fn(&S) -> bool,
        moved: bool,
    ) -> Result<(Self, S, String), CuratorError> {
        let no_mark = "has no mark file beside it (its name and .mark), so that it may be an old copy; keep the two \
                       files of a session together, or open another game";
        let mark = match OpenOptions::new().read(true).append(true).open(mark_of(path)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound && exists(path) => return Err(failed(path, no_mark)),
            other => other.map_err(|e| io_failed(path, &e))?,
        };
        let mut mark = lock(mark, path)?;
        let mut bytes = Vec::new();
        mark.rewind().and_then(|()| mark.read_to_end(&mut bytes)).map_err(|e| io_failed(path, &e))?;
        let mut text = Vec::new();
        let file = File::open(path).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => failed(
                path,
                "does not exist, so that nothing can be resumed; open another \
                                                     game",
            ),
            _ => io_failed(path, &e),
        })?;
        file.take(MAX_BYTES).read_to_end(&mut text).map_err(|e| io_failed(path, &e))?;
        let content: Content<S> = parse(&text, format)
            .ok_or_else(|| failed(path, "is damaged, or not a session, and cannot be resumed; open another game"))?;
        let header = format!("{}\n", content.identity);
        if bytes.len() < HEADER || bytes[..HEADER] != *header.as_bytes() {
            return Err(failed(
                path,
                "does not belong to the mark file beside it; put back the mark file of this \
                                     session, or open another game",
            ));
        }
        let marked = (bytes.len() - HEADER) as u64;
        if content.write < marked {
            return Err(failed(
                path,
                "is an old copy that was put back: plays were shown after it was written, and resuming would release \
                 the same rounds twice; use the newest file, or open another game",
            ));
        }
        if content.write > marked + 1 {
            return Err(failed(
                path,
                "is newer than its mark file, which is an old copy that was put back; put back \
                                     the newest mark file, or open another game",
            ));
        }
        check_place(path, &mark, content.place.as_ref(), moved)?;
        let mut file =
            Self { path: path.to_path_buf(), mark, identity: content.identity, writes: content.write, unsure: false };
        if marked < content.write {
            file.append_mark()?;
        }
        if !is_sound(&content.state) {
            return Err(failed(path, "is damaged and cannot be resumed; open another game"));
        }
        Ok((file, content.state, content.public))
    }

    /// Refused in a forked process, whose parent would not know of it. After a failure nothing more is written: the file and its mark may be one apart, which only opening them again mends.
    pub(super) fn write(&mut self, format: &str, state: &impl Serialize, public: &str) -> Result<(), CuratorError> {
        CuratorError::unless_opened_in(self.mark.process(), "game")?;
        if std::mem::replace(&mut self.unsure, true) {
            return Err(failed(&self.path, "could not be written earlier; resume it in a new process"));
        }
        let (format, identity, public) = (format.into(), self.identity.clone(), public.into());
        let place = Some(Place::of(&self.path, &self.mark).map_err(|e| io_failed(&self.path, &e))?);
        let content = Content { format, identity, write: self.writes + 1, place, state, public };
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

/// Refuses a mark that is not the file that it was, which is a copy unless somebody says that it was moved.
fn check_place(path: &Path, mark: &File, place: Option<&Place>, moved: bool) -> Result<(), CuratorError> {
    let here = Inode::of(mark).map_err(|e| io_failed(path, &e))?;
    let before = match place {
        Some(place) if place.mark == here => return Ok(()),
        Some(place) if place.is_there() => {
            let what = format!(
                "is a copy of {}, which still exists, and both could release the same rounds; resume the original",
                shown(Path::new(&place.path))
            );
            return Err(failed(path, what));
        }
        Some(place) => format!("is a copy of {}, or was moved from there", shown(Path::new(&place.path))),
        None => "was written by a version that did not record its place".into(),
    };
    if moved {
        return Ok(());
    }
    let what = text![
        format!(
            "{before}, and a copy could release the same rounds twice; if it was moved, and no process continues it \
             at its old place, confirm that: "
        ),
        setting("moved", "true")
    ];
    Err(failed(path, what))
}

fn parse<S: DeserializeOwned>(text: &[u8], format: &str) -> Option<Content<S>> {
    let text = std::str::from_utf8(text).ok()?;
    let (body, hash) = text.strip_suffix('\n')?.rsplit_once('\n')?;
    if blake3::hash(body.as_bytes()).to_hex().as_str() != hash {
        return None;
    }
    serde_json::from_str(body).ok().filter(|content: &Content<S>| content.format == format)
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

fn lock(mark: File, path: &Path) -> Result<LockedFile, CuratorError> {
    LockedFile::new(mark).map_err(|(_, why)| match why {
        TryLockError::WouldBlock => failed(path, "is held by another process; wait for it"),
        TryLockError::Error(e) => io_failed(path, &e),
    })
}

pub(super) fn unusable(text: String) -> CuratorError {
    CuratorError::Noise(text)
}

fn failed(path: &Path, what: impl Into<Text>) -> CuratorError {
    CuratorError::Unusable(Text::from(format!("session {} ", shown(path))).and(what))
}

fn shown(path: &Path) -> String {
    foreign(&path.display().to_string())
}

fn io_failed(path: &Path, error: &io::Error) -> CuratorError {
    failed(path, format!("cannot be used: {error}"))
}
