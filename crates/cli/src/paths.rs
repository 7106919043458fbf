//! All files of a command: nothing is written over what is read, and no two outputs are one file.

use crate::output::Failure;
use crate::usage;
use dpopt::data::{check_regular, files_of};
use dpopt::output::same_file;
use std::fmt::{self, Display};
use std::path::{Path, PathBuf};

/// Standard output, where a file is asked for.
pub(crate) fn is_standard_output(path: &Path) -> bool {
    path == Path::new("-")
}

/// A file that was written, for people: whether there was one of its name before.
pub(crate) struct Placed<'a> {
    path: &'a Path,
    replaces: bool,
}

impl<'a> Placed<'a> {
    /// Looks at the place before it is written to.
    pub(crate) fn at(path: &'a Path) -> Self {
        Self { path, replaces: path.is_file() }
    }
}

impl Display for Placed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.path.display(), if self.replaces { " (the file of that name was replaced)" } else { "" })
    }
}

/// What a table is for.
const DATA: &str = "the data";

/// Files by what they are for, as messages call it.
#[derive(Default)]
pub(crate) struct Paths {
    read: Vec<(String, PathBuf)>,
    written: Vec<(String, PathBuf)>,
}

impl Paths {
    /// A file that is read.
    pub(crate) fn read(mut self, role: impl Into<String>, path: Option<&Path>) -> Self {
        self.read.extend(path.map(|path| (role.into(), path.to_path_buf())));
        self
    }

    /// A table: files, or directories of files. What cannot be listed is told by whoever opens it.
    pub(crate) fn data(mut self, paths: &[PathBuf]) -> Self {
        let files = files_of(paths).unwrap_or_else(|_| paths.to_vec());
        self.read.extend(files.into_iter().map(|file| (DATA.to_string(), file)));
        self
    }

    /// A file that is written: an output or a ledger.
    pub(crate) fn written(mut self, role: impl Into<String>, path: Option<&Path>) -> Self {
        self.written.extend(path.map(|path| (role.into(), path.to_path_buf())));
        self
    }

    /// Refuses the first clash.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        self.clashes().into_iter().chain(self.gone()).next().map_or(Ok(()), |clash| Err(usage(clash)))
    }

    /// Tables that could not be read a second time.
    pub(crate) fn gone(&self) -> Vec<String> {
        let tables = self.read.iter().filter(|(role, _)| role == DATA);
        tables.filter_map(|(_, path)| check_regular(path).err()).map(|why| why.to_string()).collect()
    }

    /// All pairs that are one file and must not be.
    pub(crate) fn clashes(&self) -> Vec<String> {
        let mut clashes = Vec::new();
        for (i, (role, path)) in self.written.iter().enumerate() {
            for (other, second) in self.written[i + 1..].iter().chain(&self.read) {
                let twice_standard = is_standard_output(path) && is_standard_output(second);
                if twice_standard || same_file(place(path), place(second)) {
                    clashes.push(format!(
                        "{role} {} and {other} {} are the same file, and writing one would destroy the other; give \
                         different files",
                        path.display(),
                        second.display()
                    ));
                }
            }
        }
        clashes
    }
}

/// Where a path leads; standard output may lead into a file.
fn place(path: &Path) -> &Path {
    if is_standard_output(path) { Path::new("/dev/stdout") } else { path }
}
