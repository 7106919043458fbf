//! Private search: how many runs, and which one leaves.

use crate::accounting::json;
use crate::errors::{invalid, refused};
use crate::fit::noise;
use crate::release::Price;
use dpopt::Sensitive;
use dpopt::mechanism::{BestRun, Curator, Run};
use dpopt::noise::{Purpose, Repetitions};
use pyo3::prelude::*;

fn law(shape: f64, mean: f64) -> PyResult<Repetitions> {
    if shape == f64::INFINITY { Repetitions::truncated_poisson(mean) } else { Repetitions::negative_binomial(shape, mean) }
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

/// Index of the best of all runs (noisy score, tie breaker), released once for the price of the search; and the record.
#[pyfunction]
pub(crate) fn best_run(py: Python<'_>, runs: Vec<(f64, u64)>, price: Price) -> PyResult<(usize, String, String)> {
    py.detach(|| {
        let certificate = price.certificate()?;
        // nothing is drawn here: the runs' noise is inside them
        let mut curator = Curator::open(&certificate, noise(Some(0))?);
        let runs = Sensitive::new(runs.into_iter().map(|(score, tie)| Run { score, tie }).collect());
        let best = curator.release(&BestRun::new(certificate.event().clone()), &runs).map_err(refused)?;
        Ok((best.into_inner(), json(certificate.bound())?, json(&curator.records())?))
    })
}
