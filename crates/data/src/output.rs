//! Files that appear whole or not at all, and that nobody may read who could not before.

use flate2::Compression;
use flate2::write::GzEncoder;
use std::collections::BTreeSet;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{BufWriter, ErrorKind, Read, Result, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Temporary files and directories that are removed when the process is ended by a signal.
static UNFINISHED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Written and taken back when a place is reserved: a disk without even this much room is full.
const PROBE: usize = 1 << 14;
/// Bytes that are written together.
const BUFFER: usize = 1 << 17;
/// Bytes that are held back in memory.
const HELD: usize = 1 << 26;

/// Writes `bytes` to a new file beside `path`, syncs it and renames it over `path`. Whatever goes wrong, `path` keeps
/// what it had and the new file is removed. Devices and pipes (`/dev/stdout`) are written directly.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    write_all_atomically(&[(path, bytes)])
}

/// Writes `bytes` to a file that is not there yet, whole or not at all.
///
/// # Errors
/// `AlreadyExists`: something stands there, and is left as it was. Or the file cannot be written.
pub fn write_new(path: &Path, bytes: &[u8]) -> Result<()> {
    let taken = || std::fs::symlink_metadata(path).is_ok();
    if taken() {
        return Err(ErrorKind::AlreadyExists.into());
    }
    let Place::Beside(mut file, path, _) = place(path, &[])? else { return Err(ErrorKind::AlreadyExists.into()) };
    file.0.write_all(bytes)?;
    file.0.as_file().sync_all()?;
    // a link, unlike a new name, is never put in the place of a file that has come since
    match std::fs::hard_link(file.0.path(), &path) {
        Err(e) if e.kind() == ErrorKind::AlreadyExists || taken() => Err(ErrorKind::AlreadyExists.into()),
        // a file system without links
        Err(_) => write_where_none_is(&path, bytes),
        Ok(()) => Ok(()),
    }
}

/// A file that is gzipped, or not, as its content comes.
#[expect(clippy::large_enum_variant, reason = "there is one for each file that is written")]
pub enum Packed<W: Write> {
    /// As it is.
    Plain(BufWriter<W>),
    /// The bytes that [`gzipped`] gives, up to where they are divided.
    Gzip(GzEncoder<BufWriter<W>>),
}

impl<W: Write> Packed<W> {
    /// Nothing written yet.
    pub fn new(file: W, gzip: bool) -> Self {
        let file = BufWriter::with_capacity(BUFFER, file);
        if gzip { Self::Gzip(GzEncoder::new(file, Compression::default())) } else { Self::Plain(file) }
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(self) -> Result<()> {
        match self {
            Self::Plain(mut file) => file.flush(),
            Self::Gzip(encoder) => encoder.finish()?.flush(),
        }
    }
}

impl<W: Write> Write for Packed<W> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        match self {
            Self::Plain(file) => file.write(bytes),
            Self::Gzip(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> Result<()> {
        match self {
            Self::Plain(file) => file.flush(),
            Self::Gzip(encoder) => encoder.flush(),
        }
    }
}

/// Text that is to appear whole or not at all where files cannot: in memory, and what is more than that in a temporary file without a name, which only its owner
/// may read.
pub struct HeldBack(tempfile::SpooledTempFile);

impl HeldBack {
    /// Nothing held back yet.
    pub fn new() -> Self {
        Self(tempfile::spooled_tempfile(HELD))
    }

    /// What was held back, from its beginning.
    ///
    /// # Errors
    /// If it cannot be read again.
    pub fn released(mut self) -> Result<impl Read> {
        self.0.rewind()?;
        Ok(self.0)
    }
}

impl Default for HeldBack {
    fn default() -> Self {
        Self::new()
    }
}

impl Write for HeldBack {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> Result<()> {
        self.0.flush()
    }
}

/// Writes where no file is, and leaves none that is half written.
fn write_where_none_is(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).inspect_err(|_| {
        let _ = std::fs::remove_file(path);
    })
}

/// The bytes of a gzip file that holds `bytes`, without a name or a time.
pub fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    // memory does not fail
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default()
}

/// Several files: all are written and synced before the first is renamed.
pub fn write_all_atomically(files: &[(&Path, &[u8])]) -> Result<()> {
    let paths: Vec<&Path> = files.iter().map(|(path, _)| *path).collect();
    let contents: Vec<&[u8]> = files.iter().map(|(_, bytes)| *bytes).collect();
    Places::reserve(&paths, &[])?.write(&contents)
}

/// Places for outputs, found writable: their new files exist and are open, under names of their own, until they are
/// [written](Self::write). Dropped, they leave everything as it was.
///
/// ```
/// use dpopt_data::output::Places;
/// # let directory = tempfile::tempdir()?;
/// # let (model, report) = (directory.path().join("model.json"), directory.path().join("report.html"));
/// let places = Places::reserve(&[&model, &report], &[])?; // an error here has cost nothing yet
/// places.write(&[b"{}", b"<html></html>"])?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use]
pub struct Places(Vec<Place>);

enum Place {
    /// A new file, the path it is for, and the directory of both.
    Beside(Unfinished, PathBuf, PathBuf),
    /// A device or a pipe.
    Direct(File),
}

impl Places {
    /// Opens a new file beside each of `paths`. A file that stands there already keeps its rights; a new one gets those
    /// of any new file; and neither may be read by anyone who may not read all of `sources`, the tables that it is made of
    /// (none for what was released privately).
    ///
    /// # Errors
    /// The path is a directory or lies in none, there is no right to write there, or the disk is full.
    pub fn reserve(paths: &[&Path], sources: &[PathBuf]) -> Result<Self> {
        let limit =
            sources.iter().map(|source| std::fs::metadata(source).map(Rights::of)).collect::<Result<Vec<_>>>()?;
        paths.iter().map(|path| place(path, &limit)).collect::<Result<_>>().map(Self)
    }

    /// Writes `contents`, one for each path, and gives the files their names: all of them, or none.
    pub fn write(mut self, contents: &[&[u8]]) -> Result<()> {
        if contents.len() != self.0.len() {
            return Err(ErrorKind::InvalidInput.into());
        }
        self.files().zip(contents).try_for_each(|(file, bytes)| file.write_all(bytes))?;
        self.finish()
    }

    /// The new files, one for each path, for content that comes bit by bit and is [finished](Self::finish) then.
    pub fn files(&mut self) -> impl Iterator<Item = &mut File> {
        self.0.iter_mut().map(|place| match place {
            Place::Beside(file, ..) => file.0.as_file_mut(),
            Place::Direct(file) => file,
        })
    }

    /// Gives the files their names, with what was written to them: all of them, or none.
    pub fn finish(self) -> Result<()> {
        for place in &self.0 {
            if let Place::Beside(file, ..) = place {
                file.0.as_file().sync_all()?;
            }
        }
        // Ctrl-C waits until every file has its name
        let list = unfinished();
        for place in &self.0 {
            if let Place::Beside(file, path, _) = place {
                std::fs::rename(file.0.path(), path)?;
            }
        }
        drop(list);
        for place in self.0 {
            let Place::Beside(file, _, directory) = place else { continue };
            drop(file); // its old name is gone; nothing is left to remove
            if let Ok(directory) = File::open(&directory) {
                // some file systems refuse to sync a directory; the file itself is already safe
                let _ = directory.sync_all();
            }
        }
        Ok(())
    }
}

fn place(path: &Path, limit: &[Rights]) -> Result<Place> {
    // a symbolic link keeps pointing where it did: the file behind it is replaced
    let path = resolved(path);
    let standing = match std::fs::metadata(&path) {
        Ok(m) if m.is_dir() => return Err(ErrorKind::IsADirectory.into()),
        Ok(m) if !m.is_file() => return Ok(Place::Direct(OpenOptions::new().write(true).open(&path)?)),
        Ok(m) => Some(Rights::of(m)),
        Err(e) if e.kind() == ErrorKind::NotFound => None,
        Err(e) => return Err(e),
    };
    let directory = match path.parent() {
        Some(d) if !d.as_os_str().is_empty() => d.to_path_buf(),
        _ => PathBuf::from("."),
    };
    let mut builder = tempfile::Builder::new();
    builder.prefix(".dpopt-").suffix(".unfinished");
    // as any new file, not the private rights of a temporary one; never more than in the end, not even while it is empty
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(
        limit.iter().chain(&standing).fold(0o666, |mode, rights| mode & rights.mode),
    ));
    // Ctrl-C finds the file in the list, or finds no file: never one without the other
    let mut list = unfinished();
    let file = builder.tempfile_in(&directory)?;
    list.as_mut().map(|list| list.insert(file.path().to_path_buf()));
    drop(list);
    let mut file = Unfinished(file);
    restrict(file.0.as_file(), standing.as_ref(), limit)?;
    probe(file.0.as_file_mut())?;
    Ok(Place::Beside(file, path, directory))
}

/// The path behind symbolic links, also where the last one leads to nothing yet.
pub(crate) fn resolved(path: &Path) -> PathBuf {
    let mut path = path.to_path_buf();
    // as many as systems follow
    for _ in 0..40 {
        if let Ok(real) = std::fs::canonicalize(&path) {
            return real;
        }
        match std::fs::read_link(&path) {
            // a link without a name behind it, such as /dev/stdout to a pipe, exists all the same
            Ok(target) if std::fs::metadata(&path).is_err() => {
                path = path.parent().unwrap_or(Path::new("")).join(target)
            }
            _ => break,
        }
    }
    path
}

/// Says now what a full disk would say later.
fn probe(file: &mut File) -> Result<()> {
    // not zeros: those may be stored as a hole
    file.write_all(&[1; PROBE])?;
    file.sync_data()?;
    file.set_len(0)?;
    file.rewind()
}

/// Who may do what with a file.
struct Rights {
    /// The nine permission bits of Unix.
    #[cfg_attr(not(unix), allow(dead_code, reason = "other systems have no such thing"))]
    mode: u32,
    #[cfg_attr(not(unix), allow(dead_code, reason = "other systems have no such thing"))]
    group: u32,
}

impl Rights {
    #[cfg(unix)]
    fn of(m: Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        Self { mode: m.mode() & 0o777, group: m.gid() }
    }

    #[cfg(not(unix))]
    fn of(_: Metadata) -> Self {
        Self { mode: 0o777, group: 0 }
    }

    /// What of these rights a file of `group` may have: another group's members are strangers here.
    #[cfg(unix)]
    fn for_group(&self, group: u32) -> u32 {
        let strangers = (self.mode & 0o007) << 3;
        if self.group == group { self.mode } else { self.mode & (!0o070 | strangers) }
    }
}

/// The rights of what stood there, and no more than the sources'.
#[cfg(unix)]
fn restrict(file: &File, standing: Option<&Rights>, limit: &[Rights]) -> Result<()> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
    if let Some(standing) = standing
        && standing.group != file.metadata()?.gid()
    {
        // who may not give a file to the group keeps it from the group
        let _ = fchown(file, None, Some(standing.group));
    }
    let found = file.metadata()?;
    let usual = standing.map_or(found.mode() & 0o777, |standing| standing.for_group(found.gid()));
    let mode = limit.iter().fold(usual, |mode, source| mode & source.for_group(found.gid()));
    if mode != found.mode() & 0o777 { file.set_permissions(PermissionsExt::from_mode(mode)) } else { Ok(()) }
}

#[cfg(not(unix))]
fn restrict(_: &File, _: Option<&Rights>, _: &[Rights]) -> Result<()> {
    Ok(())
}

/// Removes files under construction; for a handler that ends the process on Ctrl-C. No file can be begun or finished
/// afterwards: whoever tries waits for the end of the process.
pub fn remove_unfinished() {
    let mut list = unfinished();
    for path in list.as_mut().map(|list| std::mem::take(&mut **list)).unwrap_or_default() {
        // one of the two it is
        let _ = std::fs::remove_file(&path);
        let _ = std::fs::remove_dir_all(&path);
    }
    std::mem::forget(list); // stays locked
}

/// `None` in a copy of a process that was using it when it was copied.
fn unfinished() -> Option<std::sync::MutexGuard<'static, BTreeSet<PathBuf>>> {
    dpopt_process::locked(&UNFINISHED)
}

/// Takes a file off the list: it is finished, or gone.
fn forget(path: &Path) {
    unfinished().map(|mut list| list.remove(path));
}

struct Unfinished(tempfile::NamedTempFile);

impl Drop for Unfinished {
    fn drop(&mut self) {
        forget(self.0.path());
    }
}

/// A new directory for temporary files that nobody else may read or list, removed with all that is in it when it is dropped, or when the process is
/// [ended by a signal](remove_unfinished) that can be handled.
pub struct PrivateDirectory(tempfile::TempDir);

impl PrivateDirectory {
    /// Where temporary files go (`TMPDIR`).
    ///
    /// # Errors
    /// If a directory cannot be made there.
    pub fn new() -> Result<Self> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(".dpopt-").suffix(".group");
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
        let mut list = unfinished();
        let directory = builder.tempdir()?;
        list.as_mut().map(|list| list.insert(directory.path().to_path_buf()));
        drop(list);
        Ok(Self(directory))
    }

    /// Path of the output.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

/// Removes a directory and what is in it, as far as that can be done: goes on after an error, and takes rights back that a program took away from its own directories.
fn clear(directory: &Path) {
    #[cfg(unix)]
    let _ = std::fs::set_permissions(directory, std::os::unix::fs::PermissionsExt::from_mode(0o700));
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => clear(&entry.path()),
            _ => drop(std::fs::remove_file(entry.path())),
        }
    }
    let _ = std::fs::remove_dir(directory);
}

impl Drop for PrivateDirectory {
    fn drop(&mut self) {
        clear(self.0.path());
        // what could not be removed is tried once more when the process ends
        if !self.0.path().exists() {
            forget(self.0.path());
        }
    }
}

/// Which file a path means, however it is spelled: two equal places are one file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Identity {
    /// Device and inode; hard links have one, too.
    #[cfg(unix)]
    Standing(u64, u64),
    /// A file that does not exist yet: its directory, and its name in small letters, as `A` and `a` are one file on many
    /// systems.
    Named(PathBuf, String),
}

impl Identity {
    /// `None` for devices and pipes, which nothing is lost in.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let path = resolved(path);
        match std::fs::metadata(&path) {
            Ok(m) if !m.is_file() && !m.is_dir() => return None,
            #[cfg(unix)]
            Ok(m) => {
                use std::os::unix::fs::MetadataExt;
                return Some(Self::Standing(m.dev(), m.ino()));
            }
            _ => {}
        }
        let directory = path.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let directory = std::fs::canonicalize(directory).unwrap_or_else(|_| directory.to_path_buf());
        let name = path.file_name().map(|n| n.to_string_lossy().to_lowercase()).unwrap_or_default();
        Some(Self::Named(directory, name))
    }
}

/// Whether two paths mean one file: the same spelling after `.`, `..`, symbolic links and letter case, or hard links.
/// Devices and pipes are never the same.
pub fn same_file(a: &Path, b: &Path) -> bool {
    Identity::of(a).is_some_and(|a| Some(a) == Identity::of(b))
}

/// Whether two readers hold the same bytes.
pub(crate) fn same_content(a: &mut dyn Read, b: &mut dyn Read) -> Result<bool> {
    let (mut left, mut right) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        let (m, n) = (fill(a, &mut left)?, fill(b, &mut right)?);
        if left[..m] != right[..n] {
            return Ok(false);
        }
        if m < left.len() {
            return Ok(true);
        }
    }
}

fn fill(reader: &mut dyn Read, buffer: &mut [u8]) -> Result<usize> {
    let mut got = 0;
    while got < buffer.len() {
        match reader.read(&mut buffer[got..]) {
            Ok(0) => break,
            Ok(n) => got += n,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(got)
}

#[cfg(test)]
#[path = "output_tests.rs"]
mod tests;
