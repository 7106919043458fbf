//! The library's ledger file for `dpopt.Ledger(path=…)`.

use crate::accounting::{certify_error, event, json, neighbours};
use crate::errors::{BudgetExceeded, invalid, refused};
use crate::kept::Kept;
use crate::stop::interruptible;
use dpopt::privacy::ledger::{Ledger, LedgerError, Purpose, Status};
use dpopt::privacy::{Budget, Terms, certify};
use dpopt::recall::{LedgerNotice, Recalls};
use pyo3::prelude::*;
use serde_json::{Value, json as value};

/// An open ledger file; every operation locks the file and reads it anew, so that one that is stopped, as it can be until it writes, leaves it as it was.
#[pyclass(frozen, module = "dpopt._core")]
pub(crate) struct FileLedger {
    ledger: Kept<Ledger>,
}

fn ledger_error(error: LedgerError) -> PyErr {
    match error {
        LedgerError::Refused { .. } => BudgetExceeded::new_err(crate::face::in_python(&error)),
        other => refused(other),
    }
}

impl FileLedger {
    fn opened(ledger: Result<Ledger, LedgerError>) -> PyResult<Self> {
        Ok(Self { ledger: Kept::lasting("ledger", ledger.map_err(ledger_error)?) })
    }
}

#[pymethods]
impl FileLedger {
    /// Opens or creates the file for these totals.
    #[new]
    #[allow(clippy::too_many_arguments, reason = "the arguments of the Python class")]
    fn new(
        py: Python<'_>,
        path: &str,
        label: &str,
        unit: &str,
        unit_names: Vec<String>,
        under: &str,
        epsilon: f64,
        delta: f64,
    ) -> PyResult<Self> {
        let total = Budget::new(epsilon, delta).map_err(invalid)?;
        let terms = neighbours(unit, under)?.within(total);
        let purpose = Purpose { label: label.into(), terms, unit_names, rule: None };
        Self::opened(interruptible(py, || Ledger::open_or_create(path, &purpose))?)
    }

    /// Opens a file that exists, with the terms it was started with; never makes one.
    #[staticmethod]
    fn open(py: Python<'_>, path: &str) -> PyResult<Self> {
        Self::opened(interruptible(py, || Ledger::open(path))?)
    }

    /// Certifies the event against (ε, δ) and appends it, synced, or refuses; the proof of it, as JSON.
    #[allow(clippy::too_many_arguments, reason = "the arguments of the Python function")]
    fn charge(
        &self,
        py: Python<'_>,
        label: &str,
        event_json: &str,
        epsilon: f64,
        delta: f64,
        unit: &str,
        under: &str,
    ) -> PyResult<String> {
        let neighbours = neighbours(unit, under)?;
        let budget = Budget::new(epsilon, delta).map_err(invalid)?;
        interruptible(py, || {
            let certificate = certify(&event(event_json)?, neighbours.within(budget)).map_err(certify_error)?;
            let mut ledger = self.ledger.own()?;
            json(&ledger.charge(label, &certificate).map_err(ledger_error)?)
        })?
    }

    /// The recalls that concern charges or may, as JSON; by the list that ships and the file of a newer one.
    #[pyo3(signature = (newer=None))]
    fn recalls(&self, py: Python<'_>, newer: Option<&str>) -> PyResult<String> {
        interruptible(py, || {
            let recalls = known_faults(newer)?;
            let status = self.ledger.own()?.status().map_err(ledger_error)?;
            json(&recalls.of_ledger(&status).iter().map(LedgerNotice::document).collect::<Vec<_>>())
        })?
    }

    /// Terms, rule, share of the budget spent, ε of all charges at the total δ, and all charges; as JSON.
    fn status(&self, py: Python<'_>) -> PyResult<String> {
        interruptible(py, || {
            let status = self.ledger.own()?.status().map_err(ledger_error)?;
            Ok(shown(&status))
        })?
    }
}

/// The list of recalls that ships, renewed by the file of a newer one.
pub(crate) fn known_faults(newer: Option<&str>) -> PyResult<Recalls> {
    newer.map_or_else(|| Ok(Recalls::shipped()), Recalls::open).map_err(invalid)
}

fn shown(status: &Status) -> String {
    let charges: Vec<Value> = status
        .charges
        .iter()
        .map(|c| {
            value!({
                "name": c.label, "event": c.event, "epsilon": c.requested.epsilon(), "delta": c.requested.delta(),
                "id": c.id, "check": c.check,
            })
        })
        .collect();
    let rule = status.rule.map(|r| r.name());
    let Terms { budget: total, neighbours } = status.purpose.terms;
    let terms = value!({
        "name": status.purpose.label, "relation": neighbours.relation.name(), "unit": neighbours.unit,
        "unit_names": status.purpose.unit_names,
        "epsilon": total.epsilon(), "delta": total.delta(),
    });
    value!({ "terms": terms, "rule": rule, "share": status.share, "epsilon": status.epsilon, "charges": charges })
        .to_string()
}
