//! The library's ledger file for `dpopt.Ledger(path=…)`.

use crate::accounting::{certify_error, event, json, neighbours};
use crate::errors::{BudgetExceeded, invalid, refused};
use crate::kept::Kept;
use dpopt::privacy::ledger::{Ledger, LedgerError, Purpose};
use dpopt::privacy::{Budget, Terms, certify};
use pyo3::prelude::*;
use serde_json::{Value, json as value};

/// An open ledger file; every operation locks the file and reads it anew.
#[pyclass(frozen, module = "dpopt._core")]
pub(crate) struct FileLedger {
    ledger: Kept<Ledger>,
}

fn ledger_error(error: LedgerError) -> PyErr {
    match error {
        LedgerError::Refused { .. } => BudgetExceeded::new_err(crate::words::in_python(&error.to_string())),
        other => refused(other),
    }
}

#[pymethods]
impl FileLedger {
    /// Opens or creates the file for these totals.
    #[new]
    fn new(
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
        Ok(Self { ledger: Kept::new("ledger", Ledger::open_or_create(path, &purpose).map_err(ledger_error)?) })
    }

    /// Opens a file that exists, with the terms it was started with; never makes one.
    #[staticmethod]
    fn open(path: &str) -> PyResult<Self> {
        Ok(Self { ledger: Kept::new("ledger", Ledger::open(path).map_err(ledger_error)?) })
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
        let (event, neighbours) = (event(event_json)?, neighbours(unit, under)?);
        let budget = Budget::new(epsilon, delta).map_err(invalid)?;
        py.detach(|| {
            let certificate = certify(&event, neighbours.within(budget)).map_err(certify_error)?;
            let mut ledger = self.ledger.own()?;
            json(&ledger.charge(label, &certificate).map_err(ledger_error)?)
        })
    }

    /// Terms, rule, share of the budget spent, ε of all charges at the total δ, and all charges; as JSON.
    fn status(&self, py: Python<'_>) -> PyResult<String> {
        let status = py.detach(|| {
            let mut ledger = self.ledger.own()?;
            ledger.status().map_err(ledger_error)
        })?;
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
        Ok(value!({ "terms": terms, "rule": rule, "share": status.share, "epsilon": status.epsilon, "charges": charges }).to_string())
    }
}
