//! Options of every run, whatever it computes: ε and δ, who is protected, who pays, and where its noise comes from.

use crate::session::{Account, LedgerFile, Opening, SessionError, default_delta};
use dpopt_data::unit_name;
use dpopt_privacy::budget::BudgetError;
use dpopt_privacy::{Budget, Neighbours, Relation};
use serde::Deserialize;
use std::fmt;
use std::num::NonZeroU64;
use std::sync::Arc;

/// Options of every run, whatever it computes. An ε alone makes them: `1.0.into()`.
///
/// | field | default | meaning |
/// |---|---|---|
/// | `epsilon` | – | ε of the whole run |
/// | `delta` | 1/n^1.1, at most 0.01 | δ of the whole run |
/// | `relation` | zero-out | which data sets are neighbours |
/// | `unit` | none: a row | whose rows are protected as a whole |
/// | `payer` | none | where the cost of runs on the same records is kept |
/// | `insecure_seed` | none | reproducible noise, no privacy; not together with a payer |
/// | `command` | none | for the report: how the run was started |
///
/// ```
/// use dpopt::privacy::Relation;
/// use dpopt::RunOptions;
/// let run = RunOptions::within(1.0).delta(1e-6).relation(Relation::ReplaceOne);
/// assert_eq!(run.budget(10_000)?.delta(), 1e-6);
/// # Ok::<(), dpopt::privacy::budget::BudgetError>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RunOptions {
    /// ε of the whole run.
    pub epsilon: f64,
    /// δ of the whole run. `None`: 1/n^1.1 for n units of privacy, at most 0.01.
    pub delta: Option<f64>,
    /// Which data sets are neighbours.
    pub relation: Relation,
    /// Who is protected, where rows of one person are to be protected as a whole. `None`: each row by itself.
    pub unit: Option<UnitOptions>,
    /// Where the cost of runs on the same records is kept.
    pub payer: Payer,
    /// Reproducible noise for tests: no privacy against who knows the seed, and no charge.
    pub insecure_seed: Option<u64>,
    /// For the report: how the run was started.
    pub command: Option<String>,
}

/// Where the cost of runs on the same records is kept.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum Payer {
    /// Nowhere: whoever runs adds up what runs cost.
    #[default]
    Nobody,
    /// In a ledger file.
    Ledger(LedgerFile),
    /// With an account that the caller keeps.
    Account(Arc<dyn Account>),
}

impl fmt::Debug for Payer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nobody => f.write_str("Nobody"),
            Self::Ledger(file) => f.debug_tuple("Ledger").field(file).finish(),
            Self::Account(_) => f.write_str("Account(…)"),
        }
    }
}

impl From<f64> for RunOptions {
    fn from(epsilon: f64) -> Self {
        Self::within(epsilon)
    }
}

impl RunOptions {
    /// A run within ε, with the default δ.
    pub fn within(epsilon: f64) -> Self {
        Self {
            epsilon,
            delta: None,
            relation: Relation::default(),
            unit: None,
            payer: Payer::Nobody,
            insecure_seed: None,
            command: None,
        }
    }

    /// These options with the given δ.
    #[must_use]
    pub fn delta(self, delta: impl Into<Option<f64>>) -> Self {
        Self { delta: delta.into(), ..self }
    }

    /// These options with the given neighbouring relation.
    #[must_use]
    pub fn relation(self, relation: Relation) -> Self {
        Self { relation, ..self }
    }

    /// Protecting all rows of a unit as a whole.
    #[must_use]
    pub fn unit(self, unit: impl Into<Option<UnitOptions>>) -> Self {
        Self { unit: unit.into(), ..self }
    }

    /// Charged to a budget that is kept in a file.
    #[must_use]
    pub fn ledger(self, file: impl Into<Option<LedgerFile>>) -> Self {
        Self { payer: file.into().map_or(Payer::Nobody, Payer::Ledger), ..self }
    }

    /// Charged to an account of the caller's own.
    #[must_use]
    pub fn account(self, account: Arc<dyn Account>) -> Self {
        Self { payer: Payer::Account(account), ..self }
    }

    /// With reproducible noise, for tests: no privacy against who knows the seed.
    #[must_use]
    pub fn insecure_seed(self, seed: impl Into<Option<u64>>) -> Self {
        Self { insecure_seed: seed.into(), ..self }
    }

    /// Shown in the report as started by `command`.
    #[must_use]
    pub fn command(self, command: impl Into<String>) -> Self {
        Self { command: Some(command.into()), ..self }
    }

    /// Which data sets are neighbours: those that differ in all rows of one unit, or in one row where rows have no declared owners.
    pub fn neighbours(&self) -> Neighbours {
        match self.unit {
            None => Neighbours::of_records(self.relation),
            Some(_) => Neighbours::of_users(self.relation),
        }
    }

    /// (ε, δ) of a run that protects so many units.
    ///
    /// # Errors
    /// If ε or δ is out of range.
    pub fn budget(&self, units: u64) -> Result<Budget, BudgetError> {
        Budget::new(self.epsilon, self.delta.unwrap_or_else(|| default_delta(units)))
    }

    /// The least that it may spend: ε, and δ if it is said.
    ///
    /// # Errors
    /// If ε or δ is out of range.
    pub fn least(&self) -> Result<Budget, BudgetError> {
        Budget::new(self.epsilon, self.delta.unwrap_or(0.0))
    }

    /// The run before its charge, within `budget` for one unit of `neighbours`.
    ///
    /// # Errors
    /// If a seed comes with a payer: predictable noise keeps no promise.
    pub fn opening(&self, neighbours: Neighbours, budget: Budget) -> Result<Opening, SessionError> {
        let account = match &self.payer {
            Payer::Nobody => None,
            Payer::Ledger(file) => LedgerFile::account(Some(&self.of_its_unit(file))),
            Payer::Account(account) => Some(Box::new(account.clone()) as Box<dyn Account>),
        };
        Opening::new(neighbours.within(budget), account, self.insecure_seed)
    }

    /// The file with the unit that is protected, where it does not say one: what is spent per patient says nothing of visits.
    fn of_its_unit(&self, file: &LedgerFile) -> LedgerFile {
        let mut file = file.clone();
        if let Some(unit) = self.unit.as_ref().filter(|_| file.unit.is_empty()) {
            file.unit = unit.columns.clone();
            file.unit.sort();
        }
        file
    }

    /// The file that keeps the budget, if one does.
    pub fn ledger_file(&self) -> Option<&LedgerFile> {
        match &self.payer {
            Payer::Ledger(file) => Some(file),
            _ => None,
        }
    }

    /// The file that keeps the budget, as reports show it.
    pub(crate) fn shown_ledger(&self) -> Option<String> {
        self.ledger_file().map(|file| file.path.display().to_string())
    }

    /// How the run was started, as reports show it.
    pub(crate) fn shown_command(&self) -> String {
        self.command.clone().unwrap_or_else(|| "called as a library".into())
    }
}

/// Who is protected where it is not a row: all rows with one value of a column, or of several columns where a row may have several owners.
///
/// What is released then is as private for a person with a thousand rows as for one with a single row. How a method gets there is a part of its plan: a
/// method that sums gradients takes the mean of a unit's gradients and clips that; one that needs rows one by one takes the guarantee of a row for a group
/// of `most_rows`.
///
/// A message has a sender and a recipient, and both are protected, each with all rows: name both columns. Rows are kept so that nobody owns more than `most_rows` of
/// them, which is required then; who owns which rows is taken as known, and not protected.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnitOptions {
    /// The column whose values are the units, or the columns: the same value is the same unit in all of them. None is a feature.
    pub columns: Vec<String>,
    /// Public bound k on the rows of a unit: of one with more, k are left, a uniform choice. `None`: no bound; methods that need rows one by one do not apply.
    pub most_rows: Option<NonZeroU64>,
    /// Whether the mean gradient of a unit is clipped, or each row's.
    pub clipping: UnitClipping,
    /// Public number of units, at least as many as have rows; required under add-or-remove, a guess there. `None`: counted.
    pub units: Option<u64>,
}

/// What is clipped where a unit may have several rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum UnitClipping {
    /// Whatever promises the smaller risk, of each method.
    #[default]
    Auto,
    /// The mean of a unit's gradients; methods that need rows one by one do not apply.
    Unit,
    /// Each row; the guarantee of a row is taken for a group of as many as a unit may have.
    Row,
}

impl UnitOptions {
    /// The values of `column`, each with all its rows.
    pub fn of(column: impl Into<String>) -> Self {
        Self::of_all([column])
    }

    /// The values of several columns, where a row may have several owners.
    pub fn of_all<S: Into<String>>(columns: impl IntoIterator<Item = S>) -> Self {
        let columns = columns.into_iter().map(Into::into).collect();
        Self { columns, most_rows: None, clipping: UnitClipping::Auto, units: None }
    }

    /// These options with at most `most_rows` rows of each unit taken.
    #[must_use]
    pub fn most_rows(self, most: NonZeroU64) -> Self {
        Self { most_rows: Some(most), ..self }
    }

    /// These options with the given clipping.
    #[must_use]
    pub fn clipping(self, clipping: UnitClipping) -> Self {
        Self { clipping, ..self }
    }

    /// These options with a public number of units; a guess under add-or-remove.
    #[must_use]
    pub fn units(self, units: impl Into<Option<u64>>) -> Self {
        Self { units: units.into(), ..self }
    }

    /// How a unit is called: `person`, or "sender and recipient".
    pub fn name(&self) -> String {
        unit_name(&self.columns)
    }

    /// Whether a row may have several owners.
    pub fn shares_rows(&self) -> bool {
        self.columns.len() > 1
    }
}
