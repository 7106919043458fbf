//! Audits of samples that were drawn in Python.

use crate::accounting::{event, json, relation};
use crate::errors::{invalid, refused};
use dpopt::audit::attack::{Options, audit_samples, roc_svg};
use dpopt::audit::statistics::Claim;
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;

/// A claim from (ε, δ), or from an event (as JSON) under a relation. Tests a claim with statistics of runs on two
/// neighbours: the report as JSON, and its picture as SVG.
#[pyfunction]
#[allow(clippy::too_many_arguments)]
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
    py.detach(|| {
        let claim = match (event, claimed_epsilon) {
            // 200 points of the profile: the claim's curve is then within a few percent of the certified one, above it
            (Some(event), _) => {
                let smallest = if claimed_delta > 0.0 { claimed_delta } else { 1e-12 };
                Claim::of_event(&event, relation, 200, smallest).map_err(refused)?
            }
            (None, Some(epsilon)) => Claim::ApproxDp { epsilon, delta: claimed_delta },
            (None, None) => return Err(invalid("give the claimed epsilon or the event")),
        };
        let report = audit_samples(&claim, with, without, &options).map_err(invalid)?;
        Ok((json(&report)?, roc_svg(&report, &claim).map_err(refused)?))
    })
}
