//! Private search: how many runs, and which one leaves.

use crate::errors::{invalid, refused};
use crate::fit::noise;
use crate::session::Session;
use dpopt::mechanism::{CuratorError, Run, VouchedRun};
use dpopt::noise::{Purpose, Repetitions};
use pyo3::prelude::*;

fn law(shape: f64, mean: f64) -> PyResult<Repetitions> {
    if shape == f64::INFINITY {
        Repetitions::truncated_poisson(mean)
    } else {
        Repetitions::negative_binomial(shape, mean)
    }
    .map_err(invalid)
}

/// (mean, bound on the sampler's total variation) of the law of the number of runs; shape 0 is logarithmic, 1 geometric,
/// infinity Poisson without zero (whose mean is stated before zero is cut off).
#[pyfunction]
pub(crate) fn repetition_law(shape: f64, mean: f64) -> PyResult<(f64, f64)> {
    let law = law(shape, mean)?;
    Ok((law.mean(), law.total_variation()))
}

/// A secret number of runs.
#[pyfunction]
pub(crate) fn repetitions(shape: f64, mean: f64, seed: Option<u64>) -> PyResult<u64> {
    Ok(law(shape, mean)?.sample(&mut noise(seed)?.stream(Purpose::Selection, 0)))
}

/// What ended a search: a refusal of the curator, or an exception of a run.
struct Stop(PyErr);

impl From<CuratorError> for Stop {
    fn from(why: CuratorError) -> Self {
        Self(refused(why))
    }
}

/// The search itself: `run(k)` -> (noisy score, tie breaker) is called a secret number of times; the index of the best, released
/// once for the price of the search, which the session was charged before the first run.
#[pyfunction]
pub(crate) fn select_best(shape: f64, mean: f64, run: Bound<'_, PyAny>, session: &Session) -> PyResult<usize> {
    let law = law(shape, mean)?;
    let certificate = &session.certificate;
    session.stage(certificate, |curator| {
        let best = curator.select_vouched(certificate.event(), &law, |k| {
            let (score, tie) = run.call1((k,)).and_then(|pair| pair.extract::<(f64, u64)>()).map_err(Stop)?;
            Ok::<_, Stop>(VouchedRun { run: Run { score, tie }, output: k as usize })
        });
        Ok(best.map_err(|Stop(why)| why)?.into_inner())
    })
}
