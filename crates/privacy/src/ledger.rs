//! A budget kept in a file across runs on the same data set: charge first, release after.
//!
//! An append-only file of JSON lines: a header with the totals, then one line per charge. A charge counts as soon as
//! its line is complete on disk, and [`Ledger::charge`] returns only after file and (on creation) directory are synced,
//! so that nothing can have been released for a line that is not complete. Check and append happen under an exclusive
//! lock. What was spent is recomputed from the recorded events, never read from recorded numbers.
//!
//! Runs are chosen after seeing the results of earlier ones, so that only a [filter](crate::filter) is valid; the rule
//! is fixed by the totals and, under [`Purpose::rule`] = `None`, by the first charge. `docs/proofs/ledger-filter.md` has
//! the argument.
//!
//! ```
//! use dpopt_privacy::{Budget, Event, Neighbours, Relation, certify, ledger::{Ledger, Purpose}};
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("budget.jsonl");
//! let neighbours = Neighbours::of_records(Relation::ZeroOut);
//! let terms = neighbours.within(Budget::new(4.0, 1e-5)?);
//! let mut ledger = Ledger::open_or_create(&path, &Purpose { label: "census".into(), terms, unit_names: Vec::new(), rule: None })?;
//! let certificate = certify(&Event::gaussian(5.0), neighbours.within(Budget::new(1.0, 1e-6)?))?;
//! let receipt = ledger.charge("logistic regression", &certificate)?; // only now may the run release
//! assert_eq!(receipt.number, 1);
//! assert!(ledger.status()?.share < 0.1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod clock;
mod file;
mod record;

use crate::filter::{Filter, Price, Refusal, Rule};
use crate::rounding::foreign;
use crate::{Budget, Certificate, Terms};
use dpopt_process::LockedFile;
use dpopt_refusal::{Remedy, Step};
use file::{lock_and_scan, not_a_ledger};
use record::{Charge, Header, Record, Scan, hex};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use thiserror::Error;

pub use file::Access;
pub use record::{Cut, Damage};

/// What a ledger is for. A file serves one purpose for ever.
#[derive(Clone, Debug, PartialEq)]
pub struct Purpose {
    /// Name of the data set, public.
    pub label: String,
    /// Total (ε, δ) over all runs, and the neighbours of every charge.
    pub terms: Terms,
    /// What says whose a row is: the names of its columns. None where a unit is a row, or its ids came without a name. What is spent per patient
    /// says nothing of doctors.
    pub unit_names: Vec<String>,
    /// How charges add up; `None`: [`Rule::Renyi`] if the first charge fits it, else [`Rule::Basic`].
    pub rule: Option<Rule>,
}

/// Proof that a charge is on disk; goes into what the run releases, so that a ledger that lost it is found out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receipt {
    /// Which charge of the ledger this is, from 1.
    pub number: usize,
    /// Identity of the charge.
    pub id: String,
    /// The hash in the charge's line, over this line and all before it: 16 hex digits.
    pub check: String,
}

/// What a charge would do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quote {
    /// The rule by which charges add up.
    pub rule: Rule,
    /// This would be the first charge, which fixes the rule for good.
    pub first: bool,
    /// Share of the total spent before it, in [0, 1].
    pub before: f64,
    /// Share of the total spent after it, in [0, 1].
    pub after: f64,
    /// δ of the run itself.
    pub delta: f64,
}

/// Whether a receipt belongs to a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The charge is there.
    There,
    /// The ledger has fewer charges: it was rolled back, or is another one.
    Lost,
    /// At that number stands another charge: the ledger was replaced, or rolled back and charged anew.
    Other,
}

/// One charge, for reports.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Number of the charge in its ledger, from 1.
    pub number: usize,
    /// Identity of the charge.
    pub id: String,
    /// Name of the run.
    pub label: String,
    /// Time of the charge in UTC, as the ledger has it.
    pub time: String,
    /// What was released.
    pub event: crate::Event,
    /// (ε, δ) that the run asked for.
    pub requested: Budget,
    /// ε that was certified for it then.
    pub certified_epsilon: f64,
    /// The hash in its line, 16 hex digits.
    pub check: String,
}

/// What a ledger holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// The purpose that the ledger's header states.
    pub purpose: Purpose,
    /// Rule in force; `None` before the first charge decides it.
    pub rule: Option<Rule>,
    /// Share of the rule's budget spent, in [0, 1].
    pub share: f64,
    /// ε of all charges at the total δ, recomputed.
    pub epsilon: f64,
    /// All charges, oldest first.
    pub charges: Vec<Entry>,
    /// Remains of writes that were cut short: nothing was released for them.
    pub cuts: Vec<Cut>,
}

impl Status {
    /// Looks a receipt up.
    pub fn find(&self, receipt: &Receipt) -> Found {
        match receipt.number.checked_sub(1).and_then(|at| self.charges.get(at)) {
            Some(entry) if entry.check == receipt.check && entry.id == receipt.id => Found::There,
            Some(_) => Found::Other,
            None => Found::Lost,
        }
    }
}

/// Why a ledger does not charge.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LedgerError {
    /// The budget does not allow it.
    #[error("{path}: {refusal}")]
    Refused {
        /// Path of the ledger file.
        path: String,
        /// Why the charge does not fit.
        refusal: Refusal,
    },
    /// The file is for other terms.
    #[error(
        "{path} was started with {field} {file}, which cannot be changed, but this run has {asked}; give the same, or for \
         another data set its own ledger"
    )]
    Terms {
        /// Path of the ledger file.
        path: String,
        /// The term that differs.
        field: &'static str,
        /// Its value in the file.
        file: String,
        /// The value that was asked for.
        asked: String,
    },
    /// The file is not what was appended to it.
    #[error(
        "{path}, line {line}: {damage}; nothing can be charged to a damaged ledger; restore the file from a \
             backup"
    )]
    Damaged {
        /// Path of the ledger file.
        path: String,
        /// Number of the damaged line, from 1.
        line: usize,
        /// What is wrong with the line.
        damage: Damage,
    },
    /// Not a file that a ledger can be kept in, or a file of something else: nothing is written to it.
    #[error("{path} is not a ledger: {why}; name the ledger of this data set, or a file that does not exist yet")]
    NotALedger {
        /// The path as it was given.
        path: String,
        /// Why it cannot be a ledger file.
        why: &'static str,
    },
    /// Another process held the file all the time.
    #[error(
        "{path} was locked by {holder} for {seconds} seconds, although a run locks it for a moment only; nothing was \
         charged: {}",
        Remedy::one_of(["check that process".into(), Step::WaitForLedger.into()])
    )]
    Held {
        /// Path of the ledger file.
        path: String,
        /// A process, by number where the system tells.
        holder: String,
        /// How long it was waited for.
        seconds: f64,
    },
    /// Charges that this process has seen are no longer in the file.
    #[error("{path} has lost charges since it was opened; restore it from a backup")]
    RolledBack {
        /// Path of the ledger file.
        path: String,
    },
    /// Reading, locking, writing or syncing failed: nothing may be released.
    #[error("{path}: cannot {action} the ledger ({source}); nothing was released")]
    Io {
        /// Path of the ledger file.
        path: String,
        /// open, lock, read, append to or sync.
        action: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

/// An open ledger. Every operation locks the file and reads it anew, so that any number of processes may share it.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    purpose: Purpose,
    access: Access,
    /// Checksum and number of the last record seen: the file may only grow from there.
    seen: (usize, [u8; 8]),
    /// Prices by (rule, event fingerprint, bits of δ): events are recomputed once per process.
    prices: HashMap<(Rule, [u8; 32], u64), Price>,
    /// How bytes get to the disk; replaced by tests of full disks.
    append: fn(&mut File, &[u8]) -> io::Result<()>,
}

/// A file that is locked until dropped, with its checked content.
struct Locked {
    /// `None` while no charge has created it.
    file: Option<LockedFile>,
    scan: Scan,
    /// The header in the file, or the one to be written before the first charge.
    header: Header,
}

impl Ledger {
    /// Opens the file at `path`, whose terms must be the same, or creates it for `terms`.
    pub fn open_or_create(path: impl AsRef<Path>, purpose: &Purpose) -> Result<Self, LedgerError> {
        let mut ledger = Self::prepare(path, purpose, Access::default())?;
        let mut locked = ledger.lock(true)?;
        if locked.scan.records.is_empty() {
            let mut bytes = Vec::new();
            ledger.begin(&mut locked, &mut bytes)?;
            ledger.write(&mut locked, &bytes)?;
        }
        Ok(ledger)
    }

    /// Opens the file at `path`, whose terms must be the same, waiting and telling as `access` says. If there is none, the
    /// first charge creates it, so that a run which is refused leaves nothing behind.
    pub fn prepare(path: impl AsRef<Path>, purpose: &Purpose, access: Access) -> Result<Self, LedgerError> {
        let mut ledger = Self {
            path: path.as_ref().to_owned(),
            purpose: purpose.clone(),
            access,
            seen: (0, [0; 8]),
            prices: HashMap::new(),
            append: |file, bytes| file.write_all(bytes),
        };
        if let Some(rule) = purpose.rule {
            // totals that the rule cannot hold are an error now, not at the first run
            unspent(rule, purpose.terms).map_err(|refusal| ledger.refused(refusal))?;
        }
        let locked = ledger.lock(false)?;
        ledger.filter(&locked)?;
        drop(locked);
        Ok(ledger)
    }

    /// Opens an existing file with the terms it was started with.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, LedgerError> {
        let path = path.as_ref();
        let purpose = match lock_and_scan(path, false, &Access::default())? {
            Some((_, scan)) => match scan.records.first() {
                Some(Record::Header(header)) => header.purpose(),
                _ => return Err(not_a_ledger(path, "it has no header")),
            },
            None => return Err(io_error(path, "open", io::ErrorKind::NotFound.into())),
        };
        Self::open_or_create(path, &purpose)
    }

    /// What [`charge`](Self::charge) would do now, or why it would refuse. Another process may charge in between.
    pub fn quote(&mut self, certificate: &Certificate) -> Result<Quote, LedgerError> {
        let locked = self.lock(false)?;
        let before = self.filter(&locked)?.map_or(0.0, |filter| filter.spent_share());
        let filter = self.admit(&locked, certificate)?;
        let first = locked.scan.charges().next().is_none();
        let delta = certificate.budget().delta();
        Ok(Quote { rule: filter.rule(), first, before, after: filter.spent_share(), delta })
    }

    /// Appends the charge and returns once it is durable. On any error nothing may be released.
    pub fn charge(&mut self, label: &str, certificate: &Certificate) -> Result<Receipt, LedgerError> {
        let mut locked = self.lock(false)?;
        let mut filter = self.admit(&locked, certificate)?;
        if locked.file.is_none() {
            // now that it would be accepted there may be a file; another process may have been faster
            locked = self.lock(true)?;
            filter = self.admit(&locked, certificate)?;
        }
        if let Some(cut) = locked.scan.last_cut() {
            (self.access.tell)(&format!(
                "{} ends with {} bytes of an incomplete charge (line {}; a crash or a full disk, and nothing was \
                 released for it). The bytes are ignored and kept, and this charge follows them",
                self.name(),
                cut.bytes,
                cut.line
            ));
        }
        let mut bytes = Vec::new();
        self.begin(&mut locked, &mut bytes)?;
        let number = locked.scan.records.len();
        let time = clock::now();
        let charge = Charge {
            charge: number,
            id: locked.scan.identity(&time, std::process::id()),
            time,
            label: label.to_owned(),
            rule: filter.rule(),
            requested: certificate.budget(),
            certified_epsilon: certificate.bound().upper,
            accountant: certificate.bound().accountant.clone(),
            event: certificate.event().clone(),
        };
        let id = charge.id.clone();
        self.append_to(&mut bytes, &mut locked.scan, Record::Charge(charge))?;
        self.write(&mut locked, &bytes)?;
        Ok(Receipt { number, id, check: hex(&self.seen.1) })
    }

    /// What was spent, recomputed from the events.
    pub fn status(&mut self) -> Result<Status, LedgerError> {
        let locked = self.lock(false)?;
        let filter = self.filter(&locked)?;
        // the first check is the header's
        let checks = locked.scan.checks.iter().skip(1);
        let charges = locked.scan.charges().zip(checks).map(|(charge, check)| Entry {
            number: charge.charge,
            id: charge.id.clone(),
            label: charge.label.clone(),
            time: charge.time.clone(),
            event: charge.event.clone(),
            requested: charge.requested,
            certified_epsilon: charge.certified_epsilon,
            check: hex(check),
        });
        Ok(Status {
            purpose: locked.header.purpose(),
            rule: filter.as_ref().map(Filter::rule),
            share: filter.as_ref().map_or(0.0, Filter::spent_share),
            epsilon: filter.as_ref().map_or(0.0, Filter::spent_epsilon),
            charges: charges.collect(),
            cuts: locked.scan.cuts.clone(),
        })
    }

    /// The largest ε (rounded down to three digits) at which one more release within (ε, `delta`) would be accepted now: a Gaussian
    /// one, or any pure one where `delta` is 0. 0 if none would.
    pub fn room(&mut self, delta: f64) -> Result<f64, LedgerError> {
        let locked = self.lock(false)?;
        let filters = match self.filter(&locked)? {
            Some(filter) => vec![filter],
            // the first charge decides the rule, so that it has the larger room
            None => [Rule::Renyi, Rule::Basic]
                .into_iter()
                .filter_map(|rule| unspent(rule, self.purpose.terms).ok())
                .collect(),
        };
        let event_of = |epsilon: f64| match delta > 0.0 {
            true => crate::Event::Gdp { mu: crate::special::gaussian_mu(epsilon, delta) },
            false => crate::Event::ApproxDp { epsilon, delta: 0.0 },
        };
        let fits = |epsilon: f64| {
            let fits_in =
                |filter: &Filter| filter.price(&event_of(epsilon), delta).and_then(|price| filter.fits(price)).is_ok();
            epsilon > 0.0 && filters.iter().any(fits_in)
        };
        let total = self.purpose.terms.budget.epsilon();
        let (mut low, mut high) = (0.0, total);
        if fits(total) {
            low = total;
        }
        while high - low > 1e-4 * total {
            let middle = 0.5 * (low + high);
            if fits(middle) { low = middle } else { high = middle }
        }
        Ok(three_digits_down(low.max(0.0)))
    }

    /// The filter after `certificate`, if it fits.
    fn admit(&mut self, locked: &Locked, certificate: &Certificate) -> Result<Filter, LedgerError> {
        let (kept, given) = (self.purpose.terms.neighbours, certificate.neighbours());
        if given.relation != kept.relation {
            return Err(self.differs("relation", kept.relation, given.relation));
        }
        if given.unit != kept.unit {
            return Err(self.differs("unit", kept.unit, given.unit));
        }
        if let Some(mut filter) = self.filter(locked)? {
            let price = self.price(&filter, certificate.event(), certificate.budget().delta())?;
            filter.spend(price).map_err(|refusal| self.refused(refusal))?;
            return Ok(filter);
        }
        // the first charge decides the rule: from its event and the totals, which are public
        let attempt = |rule: Rule, ledger: &mut Self| {
            let mut filter = unspent(rule, ledger.purpose.terms).map_err(|refusal| ledger.refused(refusal))?;
            let price = ledger.price(&filter, certificate.event(), certificate.budget().delta())?;
            filter.spend(price).map_err(|refusal| ledger.refused(refusal))?;
            Ok(filter)
        };
        attempt(Rule::Renyi, self).or_else(|_: LedgerError| attempt(Rule::Basic, self))
    }

    /// The rule's filter with all charges of the file; `None` while no rule is decided.
    fn filter(&mut self, locked: &Locked) -> Result<Option<Filter>, LedgerError> {
        let first = locked.scan.charges().next().map(|charge| charge.rule);
        let Some(rule) = locked.header.rule.or(first) else {
            return Ok(None);
        };
        let header = &locked.header;
        let mut filter = unspent(rule, header.purpose().terms).map_err(|refusal| self.refused(refusal))?;
        for (line, charge) in locked.scan.numbered_charges() {
            let damaged = |damage| LedgerError::Damaged { path: self.name(), line, damage };
            if charge.rule != rule {
                return Err(damaged(Damage::Rule { stated: charge.rule, in_force: rule }));
            }
            let price = self.price(&filter, &charge.event, charge.requested.delta())?;
            // spent is spent: a later version may find an event a little dearer than the one that admitted it
            filter.record(price);
        }
        Ok(Some(filter))
    }

    fn price(&mut self, filter: &Filter, event: &crate::Event, delta: f64) -> Result<Price, LedgerError> {
        let key = (filter.rule(), event.fingerprint(), delta.to_bits());
        if let Some(price) = self.prices.get(&key) {
            return Ok(*price);
        }
        let price = filter.price(event, delta).map_err(|refusal| self.refused(refusal))?;
        self.prices.insert(key, price);
        Ok(price)
    }

    /// Locks, reads and checks the file, creating it only if asked to; what was seen in it must still be there.
    fn lock(&mut self, create: bool) -> Result<Locked, LedgerError> {
        let (file, scan) = match lock_and_scan(&self.path, create, &self.access)? {
            Some((file, scan)) => (Some(file), scan),
            None if self.seen.0 > 0 => return Err(self.io("open", io::ErrorKind::NotFound.into())),
            None => (None, Scan::default()),
        };
        // the last record seen must still be at its place
        if self.seen.0 > 0 && scan.checks.get(self.seen.0 - 1) != Some(&self.seen.1) {
            return Err(LedgerError::RolledBack { path: self.name() });
        }
        self.remember(&scan);
        let header = match scan.records.first() {
            Some(Record::Header(header)) => header.clone(),
            _ => Header::of(&self.purpose),
        };
        self.same_purpose(&header)?;
        Ok(Locked { file, scan, header })
    }

    /// Adds the header to `bytes` if there is none yet.
    fn begin(&self, locked: &mut Locked, bytes: &mut Vec<u8>) -> Result<(), LedgerError> {
        if locked.scan.records.is_empty() {
            self.append_to(bytes, &mut locked.scan, Record::Header(locked.header.clone()))?;
        }
        Ok(())
    }

    /// Adds the line of a record to `bytes`.
    fn append_to(&self, bytes: &mut Vec<u8>, scan: &mut Scan, record: Record) -> Result<(), LedgerError> {
        let line = scan.encode(&record).map_err(|error| self.io("append to", io::Error::other(error)))?;
        scan.push(record, &line);
        bytes.extend(line);
        Ok(())
    }

    /// Appends in one write and syncs the file; `locked.scan` holds what was appended already.
    fn write(&mut self, locked: &mut Locked, bytes: &[u8]) -> Result<(), LedgerError> {
        let file = locked.file.as_mut().ok_or_else(|| self.io("open", io::ErrorKind::NotFound.into()))?;
        (self.append)(file, bytes).map_err(|source| self.io("append to", source))?;
        file.sync_all().map_err(|source| self.io("sync", source))?;
        // the name of a new file is durable only once its directory is; who created it may have been killed before that
        self.sync_directory()?;
        self.remember(&locked.scan);
        Ok(())
    }

    fn sync_directory(&self) -> Result<(), LedgerError> {
        let parent = match self.path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        File::open(parent).and_then(|directory| directory.sync_all()).map_err(|source| self.io("sync", source))
    }

    fn remember(&mut self, scan: &Scan) {
        self.seen = (scan.checks.len(), scan.checks.last().copied().unwrap_or([0; 8]));
    }

    fn same_purpose(&self, header: &Header) -> Result<(), LedgerError> {
        let asked = Header::of(&self.purpose);
        if header.label != asked.label {
            return Err(self.differs("data set", &header.label, &asked.label));
        }
        if header.relation != asked.relation {
            return Err(self.differs("relation", header.relation, asked.relation));
        }
        if header.unit != asked.unit {
            return Err(self.differs("unit", header.unit, asked.unit));
        }
        if header.unit_names != asked.unit_names && !header.names_in_label(&asked.unit_names) {
            let show = |names: &[String]| match names {
                [] => "no name".to_string(),
                names => names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" and "),
            };
            return Err(self.differs("unit's name", show(&header.unit_names), show(&asked.unit_names)));
        }
        if header.total != asked.total {
            let show = |b: Budget| format!("(epsilon {}, delta {:e})", b.epsilon(), b.delta());
            return Err(self.differs("total budget", show(header.total), show(asked.total)));
        }
        if asked.rule.is_some() && header.rule != asked.rule {
            let show = |rule: Option<Rule>| rule.map_or("auto", Rule::name);
            return Err(self.differs("rule", show(header.rule), show(asked.rule)));
        }
        Ok(())
    }

    fn differs(&self, field: &'static str, file: impl ToString, asked: impl ToString) -> LedgerError {
        let (file, asked) = (foreign(&file.to_string()), foreign(&asked.to_string()));
        LedgerError::Terms { path: self.name(), field, file, asked }
    }

    fn refused(&self, refusal: Refusal) -> LedgerError {
        LedgerError::Refused { path: self.name(), refusal }
    }

    fn io(&self, action: &'static str, source: io::Error) -> LedgerError {
        io_error(&self.path, action, source)
    }

    fn name(&self) -> String {
        foreign(&self.path.display().to_string())
    }
}

/// The filter of a rule before the first charge.
fn unspent(rule: Rule, terms: Terms) -> Result<Filter, Refusal> {
    Filter::new(rule, terms.neighbours.relation, terms.budget)
}

/// The largest number of three decimal digits that is at most `x`, for x ≥ 0.
fn three_digits_down(x: f64) -> f64 {
    if !(x > 0.0 && x.is_finite()) {
        return 0.0;
    }
    let exponent = x.log10().floor() as i32 - 2;
    let digits = (x / 10f64.powi(exponent)).round();
    // through decimals: quotients and products with a power of ten are rounded
    let written = |digits: f64| format!("{digits}e{exponent}").parse::<f64>().unwrap_or(0.0);
    let nearest = written(digits);
    if nearest <= x { nearest } else { written(digits - 1.0) }
}

fn io_error(path: &Path, action: &'static str, source: io::Error) -> LedgerError {
    LedgerError::Io { path: foreign(&path.display().to_string()), action, source }
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
