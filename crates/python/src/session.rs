//! Runs that Python drives: their charge, their releases, what they promised.

use crate::accounting::{certify_error, event, json, named_accountant, relation};
use crate::errors::{invalid, refused};
use crate::kept::Kept;
use crate::stop::interruptible;
use dpopt::mechanism::{Curator, ReleaseRecord};
use dpopt::model::Guarantee;
use dpopt::objective::Evidence;
use dpopt::privacy::ledger::{Quote, Receipt};
use dpopt::privacy::{Budget, Certificate, Neighbours, Relation, Unit, certify};
use dpopt::session::{self, Account, ActiveStage, Opening, SessionError, StageFacts};
use dpopt::{Payer, RunOptions};
use pyo3::prelude::*;
use std::sync::Arc;

/// What a release was certified for: event as JSON, ε, δ, relation.
#[derive(FromPyObject)]
pub(crate) struct Price(String, f64, f64, String);

impl Price {
    /// For rows that are units of their own, or for units (`of_units`) of which any number of rows may be.
    fn certificate(&self, of_units: bool) -> PyResult<Certificate> {
        let budget = Budget::new(self.1, self.2).map_err(invalid)?;
        let unit = if of_units { Unit::User } else { Unit::Record };
        let neighbours = Neighbours { unit, relation: self.relation()? };
        certify(&event(&self.0)?, neighbours.within(budget)).map_err(certify_error)
    }

    pub(crate) fn relation(&self) -> PyResult<Relation> {
        relation(&self.3)
    }
}

/// Why Python believes something of code that is not this library's.
pub(crate) fn read_evidence(evidence: &str) -> PyResult<Evidence> {
    match evidence {
        "proved" => Ok(Evidence::Proved),
        "checked" => Ok(Evidence::Checked),
        "vouched" => Ok(Evidence::Assumed),
        other => Err(invalid(format!("no such evidence: {other}"))),
    }
}

/// A ledger of Python: a callable that charges (run, event as JSON, ε, δ, relation, unit) or raises; what it returns is the proof of
/// the charge as JSON, if there is one.
pub(crate) struct Charging(pub Py<PyAny>);

impl Charging {
    pub(crate) fn account(charge: Option<Py<PyAny>>) -> Option<Box<dyn Account>> {
        charge.map(|charge| Box::new(Self(charge)) as Box<dyn Account>)
    }

    /// Who pays for a run: `charge`, if there is one.
    pub(crate) fn payer(charge: Option<Py<PyAny>>) -> Payer {
        charge.map_or(Payer::Nobody, |charge| Payer::Account(Arc::new(Self(charge))))
    }

    /// Options of a run that is charged to `charge`.
    pub(crate) fn run(
        (epsilon, delta, named): (f64, Option<f64>, &str),
        charge: Option<Py<PyAny>>,
        insecure_seed: Option<u64>,
    ) -> PyResult<RunOptions> {
        let mut run = RunOptions::within(epsilon).delta(delta).relation(relation(named)?).insecure_seed(insecure_seed);
        run.payer = Self::payer(charge);
        Ok(run)
    }
}

impl Account for Charging {
    fn quote(&self, _: &Certificate) -> Result<Option<Quote>, SessionError> {
        Ok(None)
    }

    fn charge(&self, run: &str, whole: &Certificate) -> Result<Option<Receipt>, SessionError> {
        let failed = |error: PyErr| SessionError::Account(Box::new(error));
        let event = whole.event().to_json().map_err(|e| failed(invalid(e)))?;
        let (epsilon, delta) = (whole.budget().epsilon(), whole.budget().delta());
        let Neighbours { unit, relation } = whole.neighbours();
        let receipt = Python::attach(|py| {
            let charged = self.0.call1(py, (run, event, epsilon, delta, relation.name(), unit.to_string()))?;
            charged.extract::<Option<String>>(py)
        });
        let receipt = receipt.map_err(failed)?;
        receipt.map(|text| serde_json::from_str(&text).map_err(|e| failed(invalid(e)))).transpose()
    }
}

/// A session's error as Python knows it: what an account of Python raised is raised again.
pub(crate) fn session_error(error: SessionError) -> PyErr {
    match error {
        SessionError::Account(inner) => match inner.downcast::<PyErr>() {
            Ok(raised) => *raised,
            Err(other) => refused(other),
        },
        SessionError::Certify(why) => certify_error(why),
        other => refused(other),
    }
}

/// A run of one part, whose charge (if it has a ledger) is written down.
#[pyclass(frozen, module = "dpopt._core")]
pub(crate) struct Session {
    inner: Kept<session::Session>,
    stage: String,
    /// How a unit is called that may have several rows; `None`: a row is one.
    unit: Option<String>,
    /// Certificate of the part that the session runs.
    pub(crate) certificate: Certificate,
}

impl Session {
    /// Opens the curator of the part. What Python declares of its records (how many, of which sensitivity) is an assumption of the caller.
    pub(crate) fn enter(&self, certificate: &Certificate) -> PyResult<ActiveStage> {
        let stage = StageFacts { name: &self.stage, rests_on: Evidence::Public, stream: 0 };
        self.inner.own()?.enter(stage, certificate).map_err(session_error)
    }

    /// What was promised so far, and the proof of its charge, if there is one.
    pub(crate) fn promised(&self) -> PyResult<(Guarantee, Option<Receipt>)> {
        let session = self.inner.shown()?;
        let guarantee = Guarantee { unit_column: self.unit.clone(), ..session.guarantee().clone() };
        Ok((guarantee, session.receipt().cloned()))
    }

    /// Notes that a release rested on this too.
    pub(crate) fn rest_on(&self, evidence: Evidence) -> PyResult<()> {
        self.inner.own()?.rest_on(evidence);
        Ok(())
    }

    /// Notes that a release rested on a word, and on which.
    pub(crate) fn rest_on_a_word(&self, word: &str) -> PyResult<()> {
        self.inner.own()?.rest_on_evidence(Evidence::Assumed, word);
        Ok(())
    }

    /// Writes down what was released through it.
    pub(crate) fn note(&self, active: &ActiveStage) -> PyResult<()> {
        self.inner.own()?.note(active);
        Ok(())
    }

    /// What was released so far by each stage.
    pub(crate) fn released(&self) -> PyResult<Vec<Vec<ReleaseRecord>>> {
        Ok(self.inner.shown()?.releases().to_vec())
    }

    /// Hands the session to what runs its stages by itself.
    pub(crate) fn run_in<T>(&self, run: impl FnOnce(&mut session::Session) -> T) -> PyResult<T> {
        Ok(run(&mut *self.inner.own()?))
    }

    /// Runs the part, planned as `certificate`, through a curator of its own.
    pub(crate) fn stage<T>(
        &self,
        certificate: &Certificate,
        release: impl FnOnce(&mut Curator) -> PyResult<T>,
    ) -> PyResult<T> {
        let mut active = self.enter(certificate)?;
        let released = release(&mut active.curator);
        self.note(&active)?;
        released
    }
}

#[pymethods]
impl Session {
    /// Charges `charge` (run, event, ε, δ, relation, unit), if there is one, for what `price` says of its one `stage`. Refused before
    /// if the accountant `by` has no bound for it. `unit`: how those are called who are protected with all their rows, if it is not each row by itself.
    #[new]
    #[pyo3(signature = (run, stage, price, charge, seed, by=None, unit=None))]
    #[allow(clippy::too_many_arguments, reason = "the arguments of the Python class")]
    fn new(
        py: Python<'_>,
        run: &str,
        stage: String,
        price: Price,
        charge: Option<Py<PyAny>>,
        seed: Option<u64>,
        by: Option<&str>,
        unit: Option<&str>,
    ) -> PyResult<Self> {
        let by = by.map(named_accountant).transpose()?;
        interruptible(py, || {
            let certificate = price.certificate(unit.is_some())?;
            if let Some(by) = by {
                let budget = certificate.budget();
                by.epsilon(certificate.event(), certificate.relation(), budget.delta()).map_err(refused)?;
            }
            let opening = Opening::new(certificate.terms(), Charging::account(charge), seed).map_err(session_error)?;
            let session = opening.charge(run, &[&certificate]).map_err(session_error)?;
            let unit = unit.map(|name| name.trim().to_string());
            Ok(Self { inner: Kept::new("run", session), stage, unit, certificate })
        })?
    }

    /// Notes what the guarantee rests on too, and why: `"checked"` on made-up records and not refuted, or `"vouched"`: assumed by the caller and not checked.
    fn rest_on_evidence(&self, evidence: &str, why: &str) -> PyResult<()> {
        let evidence = read_evidence(evidence)?;
        self.inner.own()?.rest_on_evidence(evidence, why);
        Ok(())
    }

    /// What was promised so far, as JSON.
    fn guarantee(&self) -> PyResult<String> {
        json(&self.promised()?.0)
    }

    /// What was released so far by each stage, as JSON.
    fn releases(&self) -> PyResult<String> {
        json(&self.inner.shown()?.releases())
    }
}
