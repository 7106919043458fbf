//! Audits of samples that were drawn in Python.

use crate::accounting::{event, json, relation};
use crate::errors::{invalid, refused};
use crate::kept::Kept;
use crate::stop::interruptible;
use dpopt::audit::attack::{Options, Sequential, audit_samples, roc_svg};
use dpopt::audit::statistics::Claim;
use dpopt::privacy::{Event, Relation};
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;

/// A claim from (ε, δ), or the curve of an event.
fn claimed(event: Option<&Event>, relation: Relation, epsilon: Option<f64>, delta: f64) -> PyResult<Claim> {
    match (event, epsilon) {
        // 200 points of the profile: the claim's curve is then within a few percent of the certified one, above it
        (Some(event), _) => {
            let smallest = if delta > 0.0 { delta } else { 1e-12 };
            Claim::of_event(event, relation, 200, smallest).map_err(refused)
        }
        (None, Some(epsilon)) => Ok(Claim::ApproxDp { epsilon, delta }),
        (None, None) => Err(invalid("give the claimed epsilon or the event")),
    }
}

/// An audit that takes pairs of runs as they come and says when it is over; one thread at a time.
#[pyclass(frozen)]
pub(crate) struct SequentialAudit {
    claim: Claim,
    audit: Kept<Sequential>,
}

#[pymethods]
impl SequentialAudit {
    #[new]
    fn new(
        py: Python<'_>,
        claimed_epsilon: Option<f64>,
        claimed_delta: f64,
        claimed_event: Option<&str>,
        under: &str,
        alpha: f64,
        runs: u64,
    ) -> PyResult<Self> {
        let relation = relation(under)?;
        let event = claimed_event.map(event).transpose()?;
        let claim = interruptible(py, || claimed(event.as_ref(), relation, claimed_epsilon, claimed_delta))??;
        let options = Options { alpha, runs, delta: claimed_delta, ..Options::default() };
        let audit = Kept::new("audit", Sequential::new(&claim, &options).map_err(invalid)?);
        Ok(Self { claim, audit })
    }

    /// One run on each data set; true when the audit is over.
    fn observe(&self, py: Python<'_>, with_record: f64, without_record: f64) -> PyResult<bool> {
        interruptible(py, || {
            let mut audit = self.audit.own()?;
            audit.observe(&[with_record], &[without_record]);
            Ok(audit.wanted().is_none())
        })?
    }

    /// The report as JSON, and its picture as SVG.
    fn conclude(&self, py: Python<'_>) -> PyResult<(String, String)> {
        interruptible(py, || {
            let report = self.audit.shown()?.conclude();
            Ok((json(&report)?, roc_svg(&report, &self.claim).map_err(refused)?))
        })?
    }
}

/// A claim from (ε, δ), or from an event (as JSON) under a relation. Tests a claim with statistics of runs on two
/// neighbours: the report as JSON, and its picture as SVG.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "the arguments of the Python function")]
pub(crate) fn audit(
    py: Python<'_>,
    with_record: PyReadonlyArray1<'_, f64>,
    without_record: PyReadonlyArray1<'_, f64>,
    claimed_epsilon: Option<f64>,
    claimed_delta: f64,
    claimed_event: Option<&str>,
    under: &str,
    alpha: f64,
    pilot_share: f64,
) -> PyResult<(String, String)> {
    let (with, without) = (with_record.as_slice().map_err(invalid)?, without_record.as_slice().map_err(invalid)?);
    let options = Options { alpha, pilot_share, delta: claimed_delta, ..Options::default() };
    let relation = relation(under)?;
    let event = claimed_event.map(event).transpose()?;
    interruptible(py, || {
        let claim = claimed(event.as_ref(), relation, claimed_epsilon, claimed_delta)?;
        let report = audit_samples(&claim, with, without, &options).map_err(invalid)?;
        Ok((json(&report)?, roc_svg(&report, &claim).map_err(refused)?))
    })?
}
