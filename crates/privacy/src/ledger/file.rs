//! Opening and locking a ledger's file: only a regular file that begins like a ledger, only for a bounded wait.

use super::record::{FORMAT_START, SEPARATOR, Scan, scan};
use super::{LedgerError, io_error};
use crate::rounding::foreign;
use dpopt_process::{LockedFile, stop};
use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::path::Path;
use std::time::{Duration, Instant};

/// A wait that is shorter than this is not worth a word.
const SILENCE: Duration = Duration::from_millis(300);
/// Pause between two attempts to lock the file.
const PAUSE: Duration = Duration::from_millis(5);

/// How a ledger is waited for, and who is told of what a person should know.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// How long to wait while another process holds the file. Default: a minute.
    pub patience: Duration,
    /// Receives one sentence when the file is held by another process, and when its last line is cut.
    pub tell: fn(&str),
}

impl Default for Access {
    fn default() -> Self {
        Self { patience: Duration::from_secs(60), tell: |_| {} }
    }
}

/// The locked file and its checked content; `None` if there is no file and none is to be created.
pub(super) fn lock_and_scan(
    path: &Path,
    create: bool,
    access: &Access,
) -> Result<Option<(LockedFile, Scan)>, LedgerError> {
    let started = Instant::now();
    let mut told = false;
    let mut file = loop {
        // before opening: to open a pipe may wait for ever
        match std::fs::metadata(path) {
            Ok(found) => only_regular(path, &found)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound && !create => return Ok(None),
            Err(_) => {}
        }
        let file = OpenOptions::new().read(true).append(true).create(create).open(path);
        let file = file.map_err(|source| io_error(path, "open", source))?;
        only_regular(path, &file.metadata().map_err(|source| io_error(path, "open", source))?)?;
        let held = match LockedFile::new(file) {
            Ok(locked) if is_at(&locked, path) => break locked,
            // it was replaced meanwhile: what is appended to the old one would be lost
            Ok(_) => None,
            Err((file, TryLockError::WouldBlock)) => Some(file),
            Err((_, TryLockError::Error(source))) => return Err(io_error(path, "lock", source)),
        };
        let holder = || held.as_ref().map_or("another process".into(), holder);
        let waited = started.elapsed();
        if waited >= access.patience {
            let seconds = access.patience.as_secs_f64();
            return Err(LedgerError::Held { path: foreign(&path.display().to_string()), holder: holder(), seconds });
        }
        if waited >= SILENCE && !told {
            (access.tell)(&format!(
                "waiting for {}, which is locked by {}; giving up after {} seconds",
                path.display(),
                holder(),
                access.patience.as_secs_f64()
            ));
            told = true;
        }
        std::thread::sleep(PAUSE.min(access.patience - waited));
        // the wait may be called off: nothing is locked, and nothing was written
        stop::point();
    };
    let mut bytes = Vec::new();
    let mut read = |most: u64, bytes: &mut Vec<u8>| {
        (&mut *file).take(most).read_to_end(bytes).map_err(|source| io_error(path, "read", source))
    };
    // whatever is not a ledger is not read to its end
    read(FORMAT_START.len() as u64 + 1, &mut bytes)?;
    if !begins_like_a_ledger(&bytes) {
        return Err(not_a_ledger(path, "its first line is not the header of a ledger"));
    }
    read(u64::MAX, &mut bytes)?;
    match scan(&bytes) {
        Ok(scan) => Ok(Some((file, scan))),
        Err((line, damage)) => Err(LedgerError::Damaged { path: foreign(&path.display().to_string()), line, damage }),
    }
}

pub(super) fn not_a_ledger(path: &Path, why: &'static str) -> LedgerError {
    LedgerError::NotALedger { path: foreign(&path.display().to_string()), why }
}

/// Empty, the start of a header, or what an interrupted first write left of one.
fn begins_like_a_ledger(bytes: &[u8]) -> bool {
    let end = bytes.iter().position(|b| *b == SEPARATOR).unwrap_or(bytes.len()).min(FORMAT_START.len());
    let (start, whole) = (&bytes[..end], end == FORMAT_START.len());
    FORMAT_START.starts_with(start) && (whole || end == bytes.len() || bytes[end] == SEPARATOR)
}

fn only_regular(path: &Path, found: &Metadata) -> Result<(), LedgerError> {
    if found.is_file() {
        return Ok(());
    }
    Err(not_a_ledger(path, if found.is_dir() { "it is a directory" } else { "it is a device, a pipe or a socket" }))
}

/// Whether `path` still leads to this file.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let place = |m: Metadata| (m.dev(), m.ino());
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(open), Ok(named)) => place(open) == place(named),
        _ => false,
    }
}

#[cfg(not(unix))]
fn is_at(_: &File, _: &Path) -> bool {
    // an open file cannot be replaced there
    true
}

/// Who holds the lock, as far as the system tells.
fn holder(file: &File) -> String {
    holding_process(file).map_or("another process".into(), |id| format!("process {id}"))
}

/// From `/proc/locks`: `1: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF`, the place being device and inode.
#[cfg(target_os = "linux")]
fn holding_process(file: &File) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    let found = file.metadata().ok()?;
    let device = found.dev();
    let major = ((device >> 8) & 0xfff) | ((device >> 32) & !0xfff);
    let minor = (device & 0xff) | ((device >> 12) & 0xfff_ff00);
    let place = format!("{major:02x}:{minor:02x}:{}", found.ino());
    std::fs::read_to_string("/proc/locks").ok()?.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        // those that wait have an arrow as their second word
        match words[..] {
            [_, "FLOCK", _, "WRITE", process, at, ..] if at == place => process.parse().ok(),
            _ => None,
        }
    })
}

#[cfg(not(target_os = "linux"))]
fn holding_process(_: &File) -> Option<u32> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_headers_and_their_beginnings_begin_like_a_ledger() {
        let torn = [&FORMAT_START[..5], &[SEPARATOR], FORMAT_START].concat();
        for good in [&b""[..], b"{", &FORMAT_START[..9], FORMAT_START, &torn, &[FORMAT_START, b"1"].concat()] {
            assert!(begins_like_a_ledger(good), "{}", String::from_utf8_lossy(good));
        }
        for bad in [&b"hello"[..], b"\n", b"{\n", b"\0", b"{}", b"{\"format\":\"dpopt-model\"", b"x\x1e", b" "] {
            assert!(!begins_like_a_ledger(bad), "{}", String::from_utf8_lossy(bad));
        }
    }
}
