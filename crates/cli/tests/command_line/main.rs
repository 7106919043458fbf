//! The real binary, as a user runs it.

mod account;
mod adaptive;
mod aggregate;
mod bad_input;
mod check;
mod disclose;
mod embeddings;
mod explain;
mod first_steps;
mod fit;
mod formats;
mod help;
mod init;
mod interrupted;
mod ledger;
mod ledger_guard;
mod mean;
mod messages;
mod numbers;
mod old_files;
mod online;
mod paths;
mod reading;
mod recalls;
mod sizing;
mod sparse;
mod texts;
mod tools;
mod workers;
#[allow(dead_code, reason = "the reader's own tests use the rest")]
#[path = "../../../data/tests/parquet/written.rs"]
mod written;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// Runs `dpopt` with `arguments` in `directory`.
fn dpopt(directory: &Path, arguments: &[&str]) -> Output {
    command(directory, arguments).output().expect("the binary starts")
}

fn command(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dpopt"));
    command.args(arguments).current_dir(directory);
    command
}

/// Runs and demands success; returns stdout.
fn succeed(directory: &Path, arguments: &[&str]) -> String {
    let output = dpopt(directory, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Runs and demands exit code 2 and exactly one error line; returns the line.
fn refuse(directory: &Path, arguments: &[&str]) -> String {
    let output = dpopt(directory, arguments);
    let stderr = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
    let errors: Vec<&str> =
        stderr.lines().filter(|l| !l.starts_with("dpopt: warning:") && !l.starts_with("dpopt: note:")).collect();
    assert_eq!(errors.len(), 1, "{arguments:?}: {stderr}");
    assert!(errors[0].starts_with("dpopt: error: "), "{stderr}");
    errors[0].to_string()
}

/// Names of the files in a directory, sorted.
fn files(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(directory)
        .expect("a directory")
        .map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// A disk of 16 KiB at a folder, for as long as this lives.
#[cfg(target_os = "linux")]
struct SmallDisk<'a> {
    folder: &'a Path,
    as_root: &'static [&'static str],
}

#[cfg(target_os = "linux")]
impl<'a> SmallDisk<'a> {
    /// Makes `folder` such a disk: as root, or by sudo where it asks for no password. None, and said aloud, where neither may be; in CI that is a failure.
    fn at(folder: &'a Path) -> Option<Self> {
        std::fs::create_dir(folder).expect("a folder");
        for as_root in [&[][..], &["sudo", "-n"]] {
            // everybody may write, as in any temporary folder
            let words = ["mount", "-t", "tmpfs", "-o", "size=16k,mode=1777", "tmpfs"];
            if Self::run(as_root, &words, folder) {
                return Some(Self { folder, as_root });
            }
        }
        assert!(
            std::env::var_os("CI").is_none(),
            "no small disk can be mounted here: run the tests as root, or allow sudo"
        );
        eprintln!("not tested: mounting a small disk needs root, or sudo without a password");
        None
    }

    fn run(as_root: &[&str], words: &[&str], folder: &Path) -> bool {
        let all: Vec<&str> = as_root.iter().chain(words).copied().collect();
        let mut command = Command::new(all[0]);
        command.args(&all[1..]).arg(folder).stderr(std::process::Stdio::null());
        command.status().is_ok_and(|status| status.success())
    }
}

#[cfg(target_os = "linux")]
impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        // a folder that is still a disk cannot be removed, and the test that made it says so
        Self::run(self.as_root, &["umount"], self.folder);
    }
}

/// A census-like table of 3,000 rows with its bounds, made once.
fn census() -> &'static Path {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("census-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        succeed(&directory, &["generate", "census", "--rows", "3000", "--seed", "1", "-o", "census.csv"]);
        directory
    })
}

/// An absolute path as text.
fn path(directory: &Path, name: &str) -> String {
    directory.join(name).display().to_string()
}
