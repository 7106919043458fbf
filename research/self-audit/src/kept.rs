//! Rows that are done, kept on disk: a run that was broken off goes on after the last whole row.
//!
//! A file of JSON lines. The first names the program, the tier and the seed that the rows come from; another program's rows are refused. A row's outcome
//! depends on nothing but these, so a run in pieces finds what a run in one piece finds; only its seconds are those of the pieces.

use super::Tier;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

/// What the rows of a file come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Hash of the program that ran them.
    pub program: String,
    /// How much of each row was run.
    pub tier: Tier,
    /// Seed of the run.
    pub seed: u64,
}

impl Origin {
    /// Rows of the program that runs.
    ///
    /// # Errors
    /// The program's file cannot be read.
    pub fn of_this_program(tier: Tier, seed: u64) -> std::io::Result<Self> {
        let program = std::fs::read(std::env::current_exe()?)?;
        Ok(Self { program: blake3::hash(&program).to_hex().to_string(), tier, seed })
    }
}

/// One line after the first.
#[derive(Serialize, Deserialize)]
struct Row {
    kind: String,
    name: String,
    outcome: Value,
}

/// The rows of earlier runs, and where those of this one are added.
#[derive(Debug, Default)]
pub struct Kept {
    rows: HashMap<(String, String), Value>,
    file: Option<RefCell<File>>,
    failure: RefCell<Option<String>>,
}

impl Kept {
    /// Nothing is kept.
    pub fn nothing() -> Self {
        Self::default()
    }

    /// The rows in `path`, which is made if it isn't there. Half a last line, of a run that was killed while it wrote, is dropped.
    ///
    /// # Errors
    /// The file cannot be read or written, or its rows come from something else than `origin`.
    pub fn open(path: &Path, origin: &Origin) -> Result<Self, String> {
        let here = |e: std::io::Error| format!("cannot keep rows in {}: {e}", path.display());
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(here)?;
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(here)?;
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        file.set_len(whole as u64).and_then(|()| file.seek(SeekFrom::End(0))).map_err(here)?;
        let mut lines = text[..whole].lines();
        let mut rows = HashMap::new();
        let other = || {
            format!(
                "{} holds no rows of this program, tier and seed: remove it, or keep rows elsewhere",
                path.display()
            )
        };
        match lines.next() {
            None => writeln!(file, "{}", serde_json::json!(origin)).map_err(here)?,
            Some(first) if serde_json::from_str::<Origin>(first).is_ok_and(|kept| kept == *origin) => {}
            Some(_) => return Err(other()),
        }
        for line in lines {
            let row: Row = serde_json::from_str(line).map_err(|_| other())?;
            rows.insert((row.kind, row.name), row.outcome);
        }
        Ok(Self { rows, file: Some(RefCell::new(file)), failure: RefCell::new(None) })
    }

    /// The outcome of row `name` of `kind`: the kept one, or that of `run`, which is kept.
    pub fn or_run<T: Serialize + DeserializeOwned>(&self, kind: &str, name: &str, run: impl FnOnce() -> T) -> T {
        let key = (kind.to_owned(), name.to_owned());
        if let Some(outcome) = self.rows.get(&key).and_then(|value| T::deserialize(value).ok()) {
            return outcome;
        }
        let outcome = run();
        if let Some(file) = &self.file {
            let (kind, name) = key;
            let row = Row { kind, name, outcome: serde_json::json!(outcome) };
            // one write for a line, so that no other line gets into it
            if let Err(e) = file.borrow_mut().write_all(format!("{}\n", serde_json::json!(row)).as_bytes()) {
                self.failure.borrow_mut().get_or_insert(format!("cannot keep row {}: {e}", row.name));
            }
        }
        outcome
    }

    /// The first row that could not be kept, and why.
    pub fn failure(&self) -> Option<String> {
        self.failure.borrow().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(seed: u64) -> Origin {
        Origin { program: "p".into(), tier: Tier::Short, seed }
    }

    #[test]
    fn a_row_that_is_kept_is_not_run_again_and_half_a_line_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("rows.jsonl");
        let first = Kept::open(&path, &origin(1)).expect("a new file");
        assert_eq!(first.or_run("fault", "a", || 0.1 + 0.2), 0.1 + 0.2);
        assert_eq!(first.or_run("law", "a", || 2.0), 2.0);
        drop(first);
        let whole = std::fs::read(&path).expect("the file");
        std::fs::write(&path, &whole[..whole.len() - 3]).expect("a torn line");

        let second = Kept::open(&path, &origin(1)).expect("the file again");
        assert_eq!(second.or_run("fault", "a", || 7.0), 0.1 + 0.2);
        assert_eq!(second.or_run("law", "a", || 3.0), 3.0);
        drop(second);
        let third = Kept::open(&path, &origin(1)).expect("the file again");
        assert_eq!(third.or_run("law", "a", || 7.0), 3.0);
        assert_eq!(third.failure(), None);
    }

    #[test]
    fn no_two_rows_of_a_kind_have_one_name() {
        let rows: Vec<(&str, String)> = crate::library::all()
            .iter()
            .map(|row| ("row", row.name.to_owned()))
            .chain(crate::samplers::all().iter().map(|law| ("law", law.name())))
            .collect();
        let distinct: std::collections::HashSet<_> = rows.iter().collect();
        assert_eq!(distinct.len(), rows.len(), "{rows:?}");
    }

    #[test]
    fn rows_of_another_seed_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("rows.jsonl");
        drop(Kept::open(&path, &origin(1)).expect("a new file"));
        let refused = Kept::open(&path, &origin(2)).expect_err("other rows");
        assert!(refused.contains("remove it"), "{refused}");
    }
}
