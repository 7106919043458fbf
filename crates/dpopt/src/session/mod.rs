//! One road for every run: terms and ledger are opened, all stages are charged before a record is read, each stage gets its
//! curator, and what was promised and released comes out at the end.

mod error;
mod ledger_file;

pub use error::SessionError;
pub use ledger_file::LedgerFile;

use crate::guarantee::{Guarantee, OtherNeighbours};
use crate::mechanism::{Curator, ReleaseRecord};
use crate::noise::NoiseSource;
use crate::plan::Grade;
use dpopt_privacy::certify::CertifyError;
use dpopt_privacy::ledger::{Quote, Receipt};
use dpopt_privacy::{Budget, Certificate, Event, Terms, certify};

/// A run before its charge: nothing is reserved, no record was read.
pub struct Opening {
    terms: Terms,
    ledger: Option<LedgerFile>,
    insecure_seed: Option<u64>,
}

/// A run whose charge, if there is a ledger, is on disk: records may be read.
pub struct Session {
    /// One source per stream; `None` once it was handed out.
    noise: Vec<Option<NoiseSource>>,
    /// What was charged for; `None` once a stage has used it.
    parts: Vec<Option<Certificate>>,
    guarantee: Guarantee,
    releases: Vec<Vec<ReleaseRecord>>,
    receipt: Option<Receipt>,
}

/// What a run promised and did.
pub struct Closed {
    /// Of all stages.
    pub guarantee: Guarantee,
    /// What each stage released, in order.
    pub releases: Vec<Vec<ReleaseRecord>>,
    /// Proof of the charge.
    pub receipt: Option<Receipt>,
}

/// Which stage of a run: its name, how far its claim can be trusted, and the stream that its noise comes from (every stage has
/// its own).
#[derive(Clone, Copy, Debug)]
pub struct StageFacts<'a> {
    /// As the guarantee calls it.
    pub name: &'a str,
    /// Of its method.
    pub grade: Grade,
    /// From 0, below the number that was asked for.
    pub stream: usize,
}

/// δ of a run that nobody gave one: 1/n^1.1, below 1/n, and at most 0.01.
pub fn default_delta(units: u64) -> f64 {
    (units.max(2) as f64).powf(-1.1).min(0.01)
}

/// A budget as an event: any mechanism within it.
pub fn any_within(budget: Budget) -> Event {
    Event::ApproxDp { epsilon: budget.epsilon(), delta: budget.delta() }
}

/// The certificate of all stages together. Their parameters are fixed (a stage that is not planned yet is there as the (ε, δ) it
/// may spend), so that any valid accountant may compose them; where none has a number, basic composition of the stages'
/// budgets holds.
fn of_all_stages(terms: Terms, parts: &[&Certificate]) -> Result<Certificate, CertifyError> {
    match parts {
        [only] if within(only.budget(), terms.budget) => return Ok((*only).clone()),
        _ => {}
    }
    certify(&Event::composed(parts.iter().map(|c| c.event().clone()).collect()), terms)
        .or_else(|_| certify(&Event::composed(parts.iter().map(|c| any_within(c.budget())).collect()), terms))
}

impl Opening {
    /// # Errors
    /// If predictable noise would be charged to a ledger: it keeps no promise.
    pub fn new(terms: Terms, ledger: Option<LedgerFile>, insecure_seed: Option<u64>) -> Result<Self, SessionError> {
        if ledger.is_some() && insecure_seed.is_some() {
            return Err(SessionError::Predictable);
        }
        Ok(Self { terms, ledger, insecure_seed })
    }

    /// What is promised, and between which data sets.
    pub fn terms(&self) -> Terms {
        self.terms
    }

    /// The certificate of all stages together: what the ledger is charged for.
    fn whole(&self, parts: &[&Certificate]) -> Result<Certificate, SessionError> {
        let promised = self.terms.neighbours;
        match parts.iter().find(|part| part.neighbours() != promised) {
            Some(part) => Err(OtherNeighbours { stage: "of it".into(), certified: part.neighbours(), promised }.into()),
            None => Ok(of_all_stages(self.terms, parts)?),
        }
    }

    /// What the ledger would do with a run of these stages, if there is a ledger; charges nothing.
    ///
    /// # Errors
    /// Why it would refuse; if the stages cost more than the terms allow.
    pub fn quote(&self, parts: &[&Certificate]) -> Result<Option<Quote>, SessionError> {
        let whole = self.whole(parts)?;
        self.ledger.as_ref().map(|file| file.quote(&whole)).transpose().map_err(SessionError::from)
    }

    /// Draws the seeds of `streams` streams of noise, so that a system without randomness is noticed, then charges the ledger
    /// for all `parts` of the `run`: the last that happens before records are read. A part whose stage is not planned yet is
    /// the budget that it may spend ([`any_within`]).
    ///
    /// # Errors
    /// If the parts cost more than the terms allow, there is no randomness, or the ledger refuses: nothing may be released then.
    pub fn charge(self, run: &str, parts: &[&Certificate], streams: usize) -> Result<Session, SessionError> {
        let whole = self.whole(parts)?;
        let source = |k: u64| match self.insecure_seed {
            // distinct streams per stage
            Some(seed) => Ok(NoiseSource::insecure(seed.wrapping_add(k.wrapping_mul(0x9e37_79b9_7f4a_7c15)))),
            None => NoiseSource::secure(),
        };
        let noise = (0..streams as u64).map(|k| source(k).map(Some)).collect::<Result<Vec<_>, _>>()?;
        let guarantee = Guarantee::new(self.terms, self.insecure_seed.is_some());
        let receipt = self.ledger.as_ref().map(|file| file.charge(run, &whole)).transpose()?;
        let parts = parts.iter().map(|part| Some((*part).clone())).collect();
        Ok(Session { noise, parts, guarantee, releases: Vec::new(), receipt })
    }
}

impl Session {
    /// Whether a ledger holds the charge of this run.
    pub fn is_charged(&self) -> bool {
        self.receipt.is_some()
    }

    /// Runs one stage through a curator of its own, and writes down what it promised and released, also where it fails. A stage that
    /// was not charged for, or is for other neighbours, is refused before it runs.
    ///
    /// # Errors
    /// As `release`; if the certificate is for other neighbours or of no part of the charge, or the stream was used.
    pub fn stage<T, E: From<SessionError>>(
        &mut self,
        stage: StageFacts<'_>,
        certificate: &Certificate,
        release: impl FnOnce(&mut Curator) -> Result<T, E>,
    ) -> Result<T, E> {
        let promised = self.guarantee.with(stage.name, stage.grade, certificate).map_err(SessionError::from)?;
        let part = self.parts.iter_mut().find(|part| part.as_ref().is_some_and(|part| covers(part, certificate)));
        let part = part.ok_or_else(|| SessionError::NotCharged { stage: stage.name.into() })?;
        let noise = self.noise.get_mut(stage.stream).and_then(Option::take).ok_or(SessionError::Stream)?;
        *part = None;
        let mut curator = Curator::open(certificate, noise);
        let released = release(&mut curator);
        self.guarantee = promised;
        self.releases.push(curator.records().to_vec());
        released
    }

    /// What was promised and released.
    pub fn close(self) -> Closed {
        Closed { guarantee: self.guarantee, releases: self.releases, receipt: self.receipt }
    }
}

/// Whether nothing is asked beyond what is allowed.
fn within(asked: Budget, allowed: Budget) -> bool {
    asked.epsilon() <= allowed.epsilon() && asked.delta() <= allowed.delta()
}

/// Whether a part of a charge pays for a stage: it stays within the part's budget, and is the same event, or of a part that is
/// nothing but a budget.
fn covers(part: &Certificate, stage: &Certificate) -> bool {
    let same = part.event() == stage.event() || *part.event() == any_within(part.budget());
    same && within(stage.budget(), part.budget())
}

#[cfg(test)]
mod tests;
