//! Files that appear whole or not at all.

use std::collections::BTreeSet;
use std::io::{Result, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Files under construction.
static UNFINISHED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Writes `bytes` to a new file beside `path`, syncs it and renames it over `path`. Whatever goes wrong, `path` keeps
/// what it had and the new file is removed. Devices and pipes (`/dev/stdout`) are written directly.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    write_all_atomically(&[(path, bytes)])
}

/// Several files: all are written and synced before the first is renamed.
pub fn write_all_atomically(files: &[(&Path, &[u8])]) -> Result<()> {
    let mut waiting = Vec::new();
    for (path, bytes) in files {
        // a symbolic link keeps pointing where it did: the file behind it is replaced
        let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        match std::fs::metadata(&path) {
            Ok(m) if m.is_dir() => return Err(std::io::ErrorKind::IsADirectory.into()),
            Ok(m) if !m.is_file() => {
                std::fs::OpenOptions::new().write(true).open(&path)?.write_all(bytes)?;
                continue;
            }
            _ => {}
        }
        let directory = match path.parent() {
            Some(d) if !d.as_os_str().is_empty() => d.to_path_buf(),
            _ => PathBuf::from("."),
        };
        let mut builder = tempfile::Builder::new();
        builder.prefix(".dpopt-").suffix(".unfinished");
        // the same rights as any new file would get, not the private ones of a temporary file
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        // Ctrl-C finds the file in the list, or finds no file: never one without the other
        let mut list = unfinished();
        let file = builder.tempfile_in(&directory)?;
        list.insert(file.path().to_path_buf());
        drop(list);
        let mut file = Unfinished(file);
        file.0.write_all(bytes)?;
        file.0.as_file().sync_all()?;
        waiting.push((file, path, directory));
    }
    // Ctrl-C waits until every file has its name
    let list = unfinished();
    for (file, path, _) in &waiting {
        std::fs::rename(file.0.path(), path)?;
    }
    drop(list);
    for (file, _, directory) in waiting {
        drop(file); // its old name is gone; nothing is left to remove
        if let Ok(directory) = std::fs::File::open(&directory) {
            // some file systems refuse to sync a directory; the file itself is already safe
            let _ = directory.sync_all();
        }
    }
    Ok(())
}

/// Removes files under construction; for a handler that ends the process on Ctrl-C. No file can be begun or finished
/// afterwards: whoever tries waits for the end of the process.
pub fn remove_unfinished() {
    let mut list = unfinished();
    for path in std::mem::take(&mut *list) {
        let _ = std::fs::remove_file(path);
    }
    std::mem::forget(list); // stays locked
}

fn unfinished() -> std::sync::MutexGuard<'static, BTreeSet<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Unfinished(tempfile::NamedTempFile);

impl Drop for Unfinished {
    fn drop(&mut self) {
        unfinished().remove(self.0.path());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(directory)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn replaces_whole_files() {
        let d = tempfile::tempdir().unwrap();
        let (a, b) = (d.path().join("a"), d.path().join("b"));
        std::fs::write(&a, "old").unwrap();
        write_all_atomically(&[(&a, b"new"), (&b, b"second")]).unwrap();
        assert_eq!((std::fs::read(&a).unwrap(), std::fs::read(&b).unwrap()), (b"new".to_vec(), b"second".to_vec()));
        assert_eq!(names(d.path()), ["a", "b"]);
        assert!(unfinished().is_empty());
    }

    #[test]
    fn a_failure_leaves_everything_as_it_was() {
        let d = tempfile::tempdir().unwrap();
        let a = d.path().join("a");
        std::fs::write(&a, "old").unwrap();
        let missing = d.path().join("no/such/directory");
        assert!(write_all_atomically(&[(&a, b"new"), (&missing, b"x")]).is_err());
        assert!(write_all_atomically(&[(&a, b"new"), (d.path(), b"x")]).is_err());
        assert_eq!(std::fs::read(&a).unwrap(), b"old");
        assert_eq!(names(d.path()), ["a"]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_device_is_an_error() {
        assert!(write_atomically(Path::new("/dev/full"), b"x").is_err());
        assert!(Path::new("/dev/full").exists());
    }

    #[cfg(unix)]
    #[test]
    fn a_link_stays_a_link() {
        let d = tempfile::tempdir().unwrap();
        let (real, link) = (d.path().join("real"), d.path().join("link"));
        std::fs::write(&real, "old").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        write_atomically(&link, b"new").unwrap();
        assert!(link.is_symlink() && std::fs::read(&real).unwrap() == b"new");
    }
}
