//! The steps of every run: terms and ledger are opened, all stages are charged before a record is read, each stage gets its
//! curator, and what was promised and released comes out at the end.

mod account;
mod error;
mod ledger_file;

pub use account::Account;
pub use error::SessionError;
pub use ledger_file::{LedgerFile, charged_files};

use crate::guarantee::{Guarantee, OtherNeighbours};
use dpopt_mechanism::{Curator, ReleaseRecord};
use dpopt_noise::NoiseSource;
use dpopt_objective::objective::Evidence;
use dpopt_privacy::certify::CertifyError;
use dpopt_privacy::ledger::{Quote, Receipt};
use dpopt_privacy::{Budget, Certificate, Event, Terms, certify};
use dpopt_process::Process;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

/// A run before its charge: nothing is reserved, no record was read.
pub struct Opening {
    terms: Terms,
    account: Option<Box<dyn Account>>,
    insecure_seed: Option<u64>,
}

/// A run whose charge, if there is an account, is written down: records may be read.
pub struct Session {
    /// Tells its stages from those of others.
    number: u64,
    /// That it was charged in: a forked one has the same parts, which were charged once.
    process: Process,
    insecure_seed: Option<u64>,
    /// Streams of noise that were handed out.
    streams: BTreeSet<u64>,
    parts: Vec<Part>,
    guarantee: Guarantee,
    releases: Vec<Vec<ReleaseRecord>>,
    charged: bool,
    receipt: Option<Receipt>,
}

/// A part of a charge and what its stages have used of it.
struct Part {
    certificate: Certificate,
    /// ε and δ, rounded up; `None` if no stage used it.
    used: Option<(f64, f64)>,
}

/// A stage that is running: its curator, and where its releases belong.
pub struct ActiveStage {
    /// The curator, through which every release goes.
    pub curator: Curator,
    session: u64,
    place: usize,
}

/// What a run promised and did.
pub struct Closed {
    /// The guarantee of all stages together.
    pub guarantee: Guarantee,
    /// What each stage released, in order.
    pub releases: Vec<Vec<ReleaseRecord>>,
    /// Proof of the charge.
    pub receipt: Option<Receipt>,
}

/// Which stage of a run: its name, why its claim may be believed, and the stream that its noise comes from (every stage has its
/// own).
#[derive(Clone, Copy, Debug)]
pub struct StageFacts<'a> {
    /// Name of the stage, as the guarantee calls it.
    pub name: &'a str,
    /// The least sure of the reasons to believe what its method claims.
    pub rests_on: Evidence,
    /// Any number that no other stage has.
    pub stream: u64,
}

/// Default δ of a run: 1/n^1.1, below 1/n, and at most 0.01.
pub fn default_delta(units: u64) -> f64 {
    (units.max(2) as f64).powf(-1.1).min(0.01)
}

/// A budget as an event: any mechanism within it.
pub fn any_within(budget: Budget) -> Event {
    Event::ApproxDp { epsilon: budget.epsilon(), delta: budget.delta() }
}

/// The certificate of all stages together. Their parameters are fixed (a stage that is not planned yet is there as the (ε, δ) it
/// may spend), so that any valid accountant may compose them; where none has a number within the terms, basic composition of the
/// stages' budgets holds, if their sums (rounded up) are within them.
fn of_all_stages(terms: Terms, parts: &[&Certificate]) -> Result<Certificate, CertifyError> {
    match parts {
        [only] if within(only.budget(), terms.budget) => return Ok((*only).clone()),
        _ => {}
    }
    let joint = certify(&Event::composed(parts.iter().map(|c| c.event().clone()).collect()), terms);
    let sum = |part: fn(Budget) -> f64| parts.iter().map(|c| part(c.budget())).reduce(sum_up).unwrap_or(0.0);
    let stated = sum(Budget::epsilon) <= terms.budget.epsilon() && sum(Budget::delta) <= terms.budget.delta();
    joint.or_else(|error| if stated { certify(&any_within(terms.budget), terms) } else { Err(error) })
}

/// A sum of costs, rounded up; what costs nothing leaves the other as it is.
fn sum_up(a: f64, b: f64) -> f64 {
    if a == 0.0 || b == 0.0 { a + b } else { (a + b).next_up() }
}

impl Opening {
    /// # Errors
    /// If predictable noise would be charged to a ledger: it keeps no promise.
    pub fn new(
        terms: Terms,
        account: Option<Box<dyn Account>>,
        insecure_seed: Option<u64>,
    ) -> Result<Self, SessionError> {
        if account.is_some() && insecure_seed.is_some() {
            return Err(SessionError::Predictable);
        }
        Ok(Self { terms, account, insecure_seed })
    }

    /// What is promised, and between which data sets.
    pub fn terms(&self) -> Terms {
        self.terms
    }

    /// The certificate of all stages together: what is charged for.
    fn whole(&self, parts: &[&Certificate]) -> Result<Certificate, SessionError> {
        let promised = self.terms.neighbours;
        match parts.iter().find(|part| part.neighbours() != promised) {
            Some(part) => Err(OtherNeighbours { stage: "of it".into(), certified: part.neighbours(), promised }.into()),
            None => Ok(of_all_stages(self.terms, parts)?),
        }
    }

    /// What the account would do with a run of these stages, if there is one that can tell; charges nothing.
    ///
    /// # Errors
    /// Why it would refuse; if the stages cost more than the terms allow.
    pub fn quote(&self, parts: &[&Certificate]) -> Result<Option<Quote>, SessionError> {
        let whole = self.whole(parts)?;
        self.account.as_ref().map_or(Ok(None), |account| account.quote(&whole))
    }

    /// Draws noise, so that a system without randomness is noticed, then charges the account for all `parts` of the `run`: the
    /// last that happens before records are read. A part whose stages are not planned yet is the budget that they may spend
    /// ([`any_within`]).
    ///
    /// # Errors
    /// If the parts cost more than the terms allow, there is no randomness, or the account refuses: nothing may be released
    /// then.
    pub fn charge(self, run: &str, parts: &[&Certificate]) -> Result<Session, SessionError> {
        let whole = self.whole(parts)?;
        source(self.insecure_seed, 0)?;
        let guarantee = Guarantee::new(self.terms, self.insecure_seed.is_some());
        let receipt = self.account.as_ref().map(|account| account.charge(run, &whole)).transpose()?;
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Ok(Session {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            process: Process::here(),
            insecure_seed: self.insecure_seed,
            streams: BTreeSet::new(),
            parts: parts.iter().map(|part| Part { certificate: (*part).clone(), used: None }).collect(),
            guarantee,
            releases: Vec::new(),
            charged: receipt.is_some(),
            receipt: receipt.flatten(),
        })
    }
}

/// The noise of a stream: secure, unless there is a seed.
fn source(insecure_seed: Option<u64>, stream: u64) -> Result<NoiseSource, SessionError> {
    match insecure_seed {
        Some(seed) => Ok(NoiseSource::insecure(seed.wrapping_add(stream.wrapping_mul(0x9e37_79b9_7f4a_7c15)))),
        None => Ok(NoiseSource::secure()?),
    }
}

impl Session {
    /// Whether an account holds the charge of this run.
    pub fn is_charged(&self) -> bool {
        self.charged
    }

    /// Opens the curator of one stage, and writes down what the stage promises.
    ///
    /// # Errors
    /// If this is a copy in a forked process, the certificate is for other neighbours, no part of the charge pays for it, or its stream of noise was used.
    pub fn enter(&mut self, stage: StageFacts<'_>, certificate: &Certificate) -> Result<ActiveStage, SessionError> {
        if !self.process.is_here() {
            return Err(SessionError::Copied);
        }
        let promised = self.guarantee.with(stage.name, stage.rests_on, certificate)?;
        let part = self.parts.iter_mut().find_map(|part| Some((part.after(certificate)?, part)));
        let (used, part) = part.ok_or_else(|| SessionError::NotCharged { stage: stage.name.into() })?;
        if !self.streams.insert(stage.stream) {
            return Err(SessionError::Stream);
        }
        let curator = Curator::new(certificate, source(self.insecure_seed, stage.stream)?);
        part.used = Some(used);
        self.guarantee = promised;
        self.releases.push(Vec::new());
        Ok(ActiveStage { curator, session: self.number, place: self.releases.len() - 1 })
    }

    /// Writes down what a stage of this session released so far; one of another is none of its business.
    pub fn note(&mut self, stage: &ActiveStage) {
        let own = stage.session == self.number;
        if let Some(place) = self.releases.get_mut(stage.place).filter(|_| own) {
            *place = stage.curator.records().to_vec();
            self.guarantee.rest_on(stage.curator.rests_on());
        }
    }

    /// Runs one stage through a curator of its own, and writes down what it promised and released, also where it fails. A stage that
    /// was not charged for, or is for other neighbours, is refused before it runs.
    ///
    /// # Errors
    /// As `release`, and as [`enter`](Self::enter).
    pub fn stage<T, E: From<SessionError>>(
        &mut self,
        stage: StageFacts<'_>,
        certificate: &Certificate,
        release: impl FnOnce(&mut Curator) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut active = self.enter(stage, certificate)?;
        let released = release(&mut active.curator);
        self.note(&active);
        released
    }

    /// Notes that the run rests on something more than its stages said: where the caller vouches for it, the guarantee is
    /// research grade from here on.
    pub fn rest_on(&mut self, evidence: Evidence) {
        self.guarantee.rest_on(evidence);
    }

    /// Notes that the run rests on something more than its stages said, and `why`, which the guarantee then shows.
    pub fn rest_on_evidence(&mut self, evidence: Evidence, why: &str) {
        self.guarantee.rest_on_evidence(evidence, why);
    }

    /// What each stage released so far, in order.
    pub fn releases(&self) -> &[Vec<ReleaseRecord>] {
        &self.releases
    }

    /// The proof of the charge, if the account gives one.
    pub fn receipt(&self) -> Option<&Receipt> {
        self.receipt.as_ref()
    }

    /// The privacy guarantee of all that was released so far.
    pub fn guarantee(&self) -> &Guarantee {
        &self.guarantee
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

impl Part {
    /// What will be used of it after `stage`; `None` if it does not pay for it. A part pays once for its own event, and for any
    /// stages that together stay within it where it is nothing but a budget.
    fn after(&self, stage: &Certificate) -> Option<(f64, f64)> {
        let (asked, allowed) = (stage.budget(), self.certificate.budget());
        let (epsilon, delta) = self.used.unwrap_or((0.0, 0.0));
        let after = (sum_up(epsilon, asked.epsilon()), sum_up(delta, asked.delta()));
        let pays = match self.used {
            None if self.certificate.event() == stage.event() => true,
            _ => *self.certificate.event() == any_within(allowed),
        };
        (pays && after.0 <= allowed.epsilon() && after.1 <= allowed.delta()).then_some(after)
    }
}

#[cfg(test)]
mod tests;
