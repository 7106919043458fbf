//! A budget kept in a file across runs on the same data, as a run uses it.

use super::account::Account;
use super::error::SessionError;
use dpopt_data::unit_name;
use dpopt_privacy::filter::{Refusal, Rule};
use dpopt_privacy::ledger::{Access, Found, Ledger, LedgerError, Purpose, Quote, Receipt};
use dpopt_privacy::rounding::probability_up;
use dpopt_privacy::{Budget, Certificate, Event, Neighbours, Terms, Unit};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Ledgers that this process has charged.
static CHARGED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// The ledger files that this process has charged so far: for a handler that ends it on Ctrl-C and says that the charges stay.
pub fn charged_files() -> Vec<PathBuf> {
    dpopt_process::locked(&CHARGED).map(|files| files.iter().cloned().collect()).unwrap_or_default()
}

/// A budget kept in a file across runs on the same data.
#[derive(Clone, Debug)]
pub struct LedgerFile {
    /// Created by the first charge if it does not exist.
    pub path: PathBuf,
    /// What all runs together may spend.
    pub total: Budget,
    /// How long it is waited for, and who is told what a charge will cost.
    pub access: Access,
    /// The columns whose values are the units, where it is not rows that are protected: what is spent per patient says nothing of visits.
    pub unit: Vec<String>,
}

impl LedgerFile {
    /// A budget of `total` in the file `path`, created by the first charge. It is waited for as long as usual, and no callback is told what a charge costs.
    pub fn new(path: impl Into<PathBuf>, total: Budget) -> Self {
        Self { path: path.into(), total, access: Access::default(), unit: Vec::new() }
    }

    fn open(&self, neighbours: Neighbours) -> Result<Ledger, LedgerError> {
        // one file, one data set: the file's name says which, and may change
        let label = match self.unit.as_slice() {
            [] if neighbours.unit == Unit::Round => "rounds".into(),
            [] => "records".into(),
            columns => format!("values of {}", unit_name(columns)),
        };
        let purpose =
            Purpose { label, terms: neighbours.within(self.total), unit_names: self.unit.clone(), rule: None };
        Ledger::prepare(&self.path, &purpose, self.access)
    }

    /// A quote in a few sentences: what the run spends, rounded up, and what is left, rounded down.
    pub fn told(&self, quote: &Quote) -> String {
        let total = self.total.delta();
        let mut told = format!(
            "{}: this run spends {} % of the total budget (epsilon {}, delta {total:e}); {} % is left",
            self.path.display(),
            (1e4 * (quote.after - quote.before)).ceil() / 100.0,
            self.total.epsilon(),
            (1e4 * (1.0 - quote.after)).floor() / 100.0,
        );
        if quote.first {
            let how = match quote.rule {
                Rule::Renyi => "by their Rényi divergence, so that their epsilons do not simply add",
                Rule::Zcdp => "by zCDP, so that their epsilons do not simply add",
                Rule::Gdp => "by Gaussian DP, so that their epsilons do not simply add",
                Rule::Basic => "by adding their epsilons and their deltas",
            };
            told.push_str(&format!(
                ". Runs are composed {how} (the {} rule); this first run fixes the rule for the life of the ledger",
                quote.rule
            ));
        } else {
            told.push_str(&format!(" under the {} rule", quote.rule));
        }
        if quote.delta > total {
            told.push_str(&format!(
                ". The run's own delta {} is above the total delta, and the total still holds: the ledger composes \
                 the noise of the runs at its own delta, not their (epsilon, delta)",
                probability_up(quote.delta)
            ));
        }
        told
    }

    /// Refuses when not even half of the noise cost of a run within `terms` would be accepted. So a spent ledger is
    /// noticed before the table is so much as opened; what passes here is checked again when it is charged.
    pub fn refuse_hopeless(&self, terms: Terms) -> Result<(), SessionError> {
        let budget = terms.budget;
        let mut ledger = self.open(terms.neighbours)?;
        if budget.delta() == 0.0 {
            return Ok(());
        }
        let mu = 0.5 * dpopt_privacy::special::gaussian_mu(budget.epsilon(), budget.delta());
        let certificate = dpopt_privacy::certify(&Event::Gdp { mu }, terms)?;
        match ledger.quote(&certificate) {
            Ok(_) => Ok(()),
            Err(LedgerError::Refused { path, refusal: Refusal::Exceeded { rule, needed, left, .. } }) => {
                let room = ledger.room(budget.delta())?;
                Err(SessionError::Hopeless { path, rule, left, half: needed, terms, room })
            }
            Err(other) => Err(other.into()),
        }
    }

    /// The quote, or the refusal of what is too much with what would fit.
    fn quoted(ledger: &mut Ledger, whole: &Certificate) -> Result<Quote, SessionError> {
        match ledger.quote(whole) {
            Err(LedgerError::Refused { path, refusal: refusal @ Refusal::Exceeded { .. } }) => {
                let delta = whole.budget().delta();
                Err(SessionError::Exceeded { path, refusal, delta, room: ledger.room(delta)? })
            }
            quote => Ok(quote?),
        }
    }
}

impl LedgerFile {
    /// Whether the ledger at `path`, which has to be there, has the charge of `receipt`.
    ///
    /// # Errors
    /// If it is not there, or no ledger.
    pub fn has(path: &Path, receipt: &Receipt) -> Result<bool, SessionError> {
        Ok(Ledger::open(path)?.status()?.find(receipt) == Found::There)
    }

    /// The ledger file as an account of a run.
    pub fn account(file: Option<&Self>) -> Option<Box<dyn Account>> {
        file.map(|file| Box::new(file.clone()) as Box<dyn Account>)
    }
}

impl Account for LedgerFile {
    fn quote(&self, whole: &Certificate) -> Result<Option<Quote>, SessionError> {
        Self::quoted(&mut self.open(whole.neighbours())?, whole).map(Some)
    }

    /// Tells the rule and the cost, then appends a run to the file, synced, or refuses.
    fn charge(&self, run: &str, whole: &Certificate) -> Result<Option<Receipt>, SessionError> {
        let mut ledger = self.open(whole.neighbours())?;
        let quote = Self::quoted(&mut ledger, whole)?;
        (self.access.tell)(&self.told(&quote));
        let receipt = ledger.charge(run, whole)?;
        dpopt_process::locked(&CHARGED).map(|mut files| files.insert(self.path.clone()));
        Ok(Some(receipt))
    }
}
