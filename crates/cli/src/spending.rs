//! What commands that spend a budget on an answer share: the budget file, the files of the answer, and how failures are told.

use crate::output::Failure;
use crate::usage;
use clap::Args;
use dpopt::model::{FitError, LedgerFile};
use dpopt::output::write_all_atomically;
use dpopt_privacy::{Budget, Relation};
use std::path::{Path, PathBuf};

/// A budget kept in a file across runs.
#[derive(Args, Clone)]
pub(crate) struct BudgetFile {
    /// Budget file of this data set, kept across runs; charged before any record is read
    #[arg(long, value_name = "FILE", requires = "total_epsilon")]
    pub(crate) ledger: Option<PathBuf>,
    /// ε that all runs on this data set may spend together
    #[arg(long, requires = "ledger", allow_negative_numbers = true)]
    total_epsilon: Option<f64>,
    /// δ that all runs on this data set may spend together; by default that of this run
    #[arg(long, requires = "ledger", allow_negative_numbers = true)]
    total_delta: Option<f64>,
}

impl BudgetFile {
    /// The file, if one was given; refuses what it has no room for, before the table is opened.
    pub(crate) fn open(&self, epsilon: f64, delta: Option<f64>, relation: Relation) -> Result<Option<LedgerFile>, Failure> {
        let (Some(path), Some(total)) = (&self.ledger, self.total_epsilon) else { return Ok(None) };
        let total_delta = self.total_delta.or(delta).ok_or_else(|| {
            usage("a ledger needs a fixed delta: give --total-delta (or --delta) besides --total-epsilon")
        })?;
        let file = LedgerFile { path: path.clone(), total: Budget::new(total, total_delta).map_err(usage)? };
        let budget = Budget::new(epsilon, delta.unwrap_or(file.total.delta())).map_err(usage)?;
        file.refuse_hopeless(relation, budget).map_err(failed)?;
        Ok(Some(file))
    }
}

/// The files of a run.
pub(crate) struct Outputs<'a> {
    /// Model or mean.
    pub(crate) answer: &'a Path,
    /// HTML.
    pub(crate) report: Option<&'a Path>,
}

impl Outputs<'_> {
    /// Fails early, before a budget is spent on an answer that could not be written.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        writable(self.answer)?;
        self.report.map_or(Ok(()), writable)
    }
}

/// Both files or none.
pub(crate) fn write_outputs(outputs: &Outputs<'_>, answer: &str, html: Option<&str>) -> Result<(), Failure> {
    let mut files = vec![(outputs.answer, answer.as_bytes())];
    if let (Some(path), Some(html)) = (outputs.report, html) {
        files.push((path, html.as_bytes()));
    }
    write_all_atomically(&files).map_err(|e| {
        let paths: Vec<String> = files.iter().map(|f| f.0.display().to_string()).collect();
        Failure::machine(format!(
            "cannot write {}: {}; nothing was left there, and the budget of this run is spent",
            paths.join(" and "),
            e.kind()
        ))
    })
}

/// Exit code 1 for the machine's failures, 2 for everything the user can mend.
pub(crate) fn failed(error: FitError) -> Failure {
    match error {
        FitError::Entropy(e) => Failure::machine(e),
        FitError::Spent(inner) if matches!(*inner, FitError::Entropy(_)) => Failure::machine(FitError::Spent(inner)),
        other => usage(other),
    }
}

/// Fails early, before a budget is spent on an answer that could not be written.
fn writable(path: &Path) -> Result<(), Failure> {
    let directory = match path.parent() {
        Some(d) if !d.as_os_str().is_empty() => d,
        _ => Path::new("."),
    };
    if path.is_dir() {
        return Err(usage(format!("{} is a directory; give a file name", path.display())));
    }
    if !directory.is_dir() {
        return Err(usage(format!("{} does not exist; create it first", directory.display())));
    }
    Ok(())
}

/// The command as it can be typed again.
pub(crate) fn command_line() -> String {
    let mut words = vec!["dpopt".to_string()];
    for argument in std::env::args_os().skip(1) {
        let word = argument.to_string_lossy().into_owned();
        let plain = !word.is_empty()
            && word.chars().all(|c| c.is_alphanumeric() || "-_./=,:+@%".contains(c));
        words.push(if plain { word } else { format!("'{}'", word.replace('\'', r"'\''")) });
    }
    words.join(" ")
}
