//! What commands that spend a budget on an answer share: the budget file, the files of the answer, and how failures are shown.

use crate::flags::GUARANTEE;
use crate::output::{Failure, note, print};
use crate::paths::is_standard_output;
use crate::usage;
use crate::written::document;
use clap::Args;
use dpopt::data::failure;
use dpopt::model::FitError;
use dpopt::output::Places;
use dpopt::report::{Report, number};
use dpopt::session::{LedgerFile, SessionError};
use dpopt_privacy::ledger::{Access, Ledger, LedgerError};
use dpopt_privacy::{Budget, Neighbours, Shown};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A budget kept in a file across runs.
#[derive(Args, Clone)]
pub(crate) struct BudgetFile {
    /// Budget file of this data set, kept across runs; charged before any record is read
    #[arg(long, value_name = "FILE", help_heading = None)]
    pub(crate) ledger: Option<PathBuf>,
    /// ε that all runs on this data set may spend together; not needed if the ledger exists
    #[arg(long, requires = "ledger", allow_negative_numbers = true, help_heading = None)]
    total_epsilon: Option<f64>,
    /// δ that all runs on this data set may spend together; by default that of the ledger, or for a new ledger that
    /// of this run
    #[arg(long, requires = "ledger", allow_negative_numbers = true, help_heading = GUARANTEE)]
    total_delta: Option<f64>,
    /// How long to wait while another run holds the ledger
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 60,
        requires = "ledger",
        help_heading = GUARANTEE
    )]
    ledger_wait: u32,
}

impl BudgetFile {
    /// The totals of a ledger that is there already, where one is not said.
    fn kept(&self, path: &Path) -> Result<Option<Budget>, Failure> {
        // an empty file is a ledger that is still to begin
        let there = std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() > 0);
        if !there || (self.total_epsilon.is_some() && self.total_delta.is_some()) {
            return Ok(None);
        }
        let mut ledger = Ledger::open(path).map_err(usage)?;
        Ok(Some(ledger.status().map_err(usage)?.purpose.terms.budget))
    }

    /// The file, if one was given; refuses what it has no room for, before the table is opened. Who asks for `quiet` is not
    /// told what a charge costs.
    pub(crate) fn open(
        &self,
        epsilon: f64,
        delta: Option<f64>,
        neighbours: Neighbours,
        unit: Vec<String>,
        quiet: bool,
    ) -> Result<Option<LedgerFile>, Failure> {
        let Some(path) = &self.ledger else { return Ok(None) };
        let kept = self.kept(path)?;
        let total = self.total_epsilon.or(kept.map(|kept| kept.epsilon()));
        let total_delta = self.total_delta.or(kept.map(|kept| kept.delta())).or(delta);
        let (Some(total), Some(total_delta)) = (total, total_delta) else {
            return Err(no_totals(path, (total, epsilon), total_delta));
        };
        let tell = if quiet { |_: &str| {} } else { |text: &str| note(format!("note: {text}")) };
        let access = Access { patience: Duration::from_secs(self.ledger_wait.into()), tell };
        let file =
            LedgerFile { path: path.clone(), total: Budget::new(total, total_delta).map_err(usage)?, access, unit };
        let budget = Budget::new(epsilon, delta.unwrap_or(file.total.delta())).map_err(usage)?;
        file.refuse_hopeless(neighbours.within(budget)).map_err(|e| match &e {
            SessionError::Ledger(LedgerError::Terms { .. }) => {
                self.other_totals(path).unwrap_or_else(|| failed(e.into()))
            }
            _ => failed(e.into()),
        })?;
        Ok(Some(file))
    }

    /// Says which total was given that is not the ledger's.
    fn other_totals(&self, path: &Path) -> Option<Failure> {
        let kept = Ledger::open(path).and_then(|mut ledger| ledger.status()).ok()?.purpose.terms.budget;
        let (epsilon, delta) = (kept.epsilon(), kept.delta());
        let totals = [("--total-epsilon", self.total_epsilon, epsilon), ("--total-delta", self.total_delta, delta)];
        let others = totals.into_iter().filter_map(|(flag, given, kept)| Some((flag, given.filter(|g| *g != kept)?)));
        let (flags, given): (Vec<&str>, Vec<String>) =
            others.map(|(flag, given)| (flag, format!("{flag} is {}", Shown(given)))).unzip();
        (!flags.is_empty()).then(|| {
            usage(format!(
                "{} has the total budget epsilon {}, delta {}, which cannot be changed, but {}; leave out {}",
                path.display(),
                Shown(epsilon),
                Shown(delta),
                given.join(" and "),
                flags.join(" and ")
            ))
        })
    }
}

/// What a new ledger for a run of ε lacks: a total ε, a total δ, or both.
fn no_totals(path: &Path, (total, epsilon): (Option<f64>, f64), total_delta: Option<f64>) -> Failure {
    // room for a few runs like this one
    let few = if epsilon > 0.0 && epsilon.is_finite() { number(3.0 * epsilon) } else { "3".into() };
    let epsilon = total.is_none().then(|| format!("--total-epsilon {few}"));
    let delta = total_delta.is_none().then(|| "--total-delta 1e-5".to_owned());
    let missing: Vec<String> = epsilon.into_iter().chain(delta).collect();
    usage(format!(
        "{} does not exist, and a new ledger needs a total epsilon and delta for all runs on this data set; give for example {}",
        path.display(),
        missing.join(" ")
    ))
}

/// The files of a run; `-` is standard output.
pub(crate) struct Outputs<'a> {
    /// File of the model or of the mean.
    pub(crate) answer: &'a Path,
    /// Whether the answer may be CSV, by its extension.
    pub(crate) csv: bool,
    /// HTML, or JSON by its extension.
    pub(crate) report: Option<&'a Path>,
}

/// Outputs that were found writable and are open.
pub(crate) struct Reserved<'a> {
    outputs: &'a Outputs<'a>,
    places: Places,
}

impl Outputs<'_> {
    /// Fails early, before a budget is spent on an answer that could not be written.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match (self.csv, self.answer.extension().is_some_and(|e| e.eq_ignore_ascii_case("csv"))) {
            (true, true) => {}
            (true, false) => document("-o", self.answer, "lines of CSV or JSON", "csv or .json")?,
            (false, _) => document("-o", self.answer, "JSON", "json")?,
        }
        if let Some(report) = self.report {
            document("--report", report, "one HTML page (or JSON under .json)", "html")?;
        }
        self.files().into_iter().try_for_each(writable)
    }

    /// Opens the files: what keeps them from being written is known before a budget is spent.
    pub(crate) fn reserve(&self) -> Result<Reserved<'_>, Failure> {
        let places = Places::reserve(&self.files(), &[]).map_err(|e| {
            Failure::machine(format!("cannot write {}: {}; nothing was charged or read", self.names(), failure(&e)))
        })?;
        Ok(Reserved { outputs: self, places })
    }

    fn files(&self) -> Vec<&Path> {
        std::iter::once(self.answer).chain(self.report).filter(|path| !is_standard_output(path)).collect()
    }

    fn names(&self) -> String {
        self.files().iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" and ")
    }
}

impl Reserved<'_> {
    /// Both files or none, then what goes to standard output.
    pub(crate) fn write(self, answer: &str, report: &Report) -> Result<(), Failure> {
        let mut texts = vec![(self.outputs.answer, answer.to_string())];
        if let Some(path) = self.outputs.report {
            let json = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("json"));
            texts.push((path, if json { report.json().map_err(Failure::machine)? } else { report.html() }));
        }
        let (standard, files): (Vec<_>, Vec<_>) = texts.into_iter().partition(|(path, _)| is_standard_output(path));
        let contents: Vec<&[u8]> = files.iter().map(|(_, text)| text.as_bytes()).collect();
        self.places.write(&contents).map_err(|e| {
            let names = self.outputs.names();
            Failure::machine(format!(
                "cannot write {names}: {}; no file was left there, and the budget of this run is spent",
                failure(&e)
            ))
        })?;
        standard.iter().try_for_each(|(_, text)| print(text))
    }

    /// What is for people: beside the answer if that goes to standard output.
    pub(crate) fn summarise(outputs: &Outputs<'_>, text: &str) -> Result<(), Failure> {
        if std::iter::once(outputs.answer).chain(outputs.report).any(is_standard_output) {
            text.lines().for_each(note);
            return Ok(());
        }
        print(text)
    }
}

/// Exit code 1 for the machine's failures, 2 for everything the user can mend.
pub(crate) fn failed(error: FitError) -> Failure {
    match error {
        FitError::Session(SessionError::Entropy(e)) => Failure::machine(e),
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
