//! Single releases for `dpopt.mechanisms` and for estimators that need one: clipped sums with noise, counts, choices.
//!
//! The primitives are those of the noise room: clipping in exact integers on a public grid, rounded or discrete noise.

use crate::accounting::{json, relation};
use crate::errors::{invalid, refused};
use crate::fit::noise;
use dpopt::Sensitive;
use dpopt::mechanism::{Curator, LabelSelection};
use dpopt::noise::{
    DiscreteGaussian, DiscreteLaplace, ExponentialChoice, Geometric, Grid, NoiseSource, NoisyMax, Norm, Purpose, Quantizer,
    RoundedGaussian, RoundedLaplace,
};
use dpopt::privacy::Budget;
use numpy::ndarray::ArrayView2;
use numpy::{PyArray1, PyReadonlyArray2, ToPyArray};
use pyo3::prelude::*;
use std::collections::BTreeMap;

/// Σ clip(row) on the quantizer's grid.
fn clipped_sum(x: ArrayView2<'_, f64>, quantizer: &Quantizer) -> Vec<i64> {
    let mut sum = vec![0i64; x.ncols()];
    let (mut row, mut units) = (Vec::new(), Vec::new());
    for line in x.outer_iter() {
        row.clear();
        row.extend(line.iter().copied());
        quantizer.quantize(&mut row, &mut units);
        sum.iter_mut().zip(&units).for_each(|(s, u)| *s = s.wrapping_add(*u));
    }
    sum
}

/// Σ over rows, each clipped to l2 norm `clip_norm`, plus N(0, (noise_multiplier·clip_norm)²) per coordinate, rounded to a
/// public grid. `records` is a public guess of the number of rows (for the grid only).
#[pyfunction]
pub(crate) fn gaussian_sum<'py>(
    py: Python<'py>,
    x: PyReadonlyArray2<'py, f64>,
    clip_norm: f64,
    noise_multiplier: f64,
    records: u64,
    seed: Option<u64>,
    step: u64,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let std = noise_multiplier * clip_norm;
    let x = x.as_array();
    let mut source = noise(seed)?;
    let grid = Grid::for_sum(clip_norm, std, records, x.ncols());
    let quantizer = Quantizer::new(Norm::L2, clip_norm, grid).map_err(refused)?;
    // the product was rounded once: next_up makes the noise at least what is accounted
    let sampler = RoundedGaussian::new(std.next_up(), grid).map_err(refused)?;
    let values: Vec<f64> = py.detach(|| {
        let mut units = clipped_sum(x, &quantizer);
        sampler.add_to(&mut units, &mut source.stream(Purpose::Noise, step));
        units.into_iter().map(|u| grid.to_f64(u)).collect()
    });
    Ok(values.to_pyarray(py))
}

/// `dimension` samples of rounded Gaussian noise of standard deviation `std`, on a public grid.
#[pyfunction]
pub(crate) fn gaussian_noise<'py>(
    py: Python<'py>,
    dimension: usize,
    std: f64,
    seed: Option<u64>,
    step: u64,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let mut source = noise(seed)?;
    let grid = Grid::for_sum(std, std, 1, dimension);
    let sampler = RoundedGaussian::new(std.next_up(), grid).map_err(refused)?;
    let values: Vec<f64> = py.detach(|| {
        let mut units = vec![0i64; dimension];
        sampler.add_to(&mut units, &mut source.stream(Purpose::Noise, step));
        units.into_iter().map(|u| grid.to_f64(u)).collect()
    });
    Ok(values.to_pyarray(py))
}

/// Σ over rows, each clipped to l1 norm `clip_norm`, plus Laplace noise of scale noise_multiplier·clip_norm per coordinate.
#[pyfunction]
pub(crate) fn laplace_sum<'py>(
    py: Python<'py>,
    x: PyReadonlyArray2<'py, f64>,
    clip_norm: f64,
    noise_multiplier: f64,
    records: u64,
    seed: Option<u64>,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let scale = (noise_multiplier * clip_norm).next_up();
    let x = x.as_array();
    let mut source = noise(seed)?;
    let grid = Grid::for_sum(clip_norm, scale, records, x.ncols());
    let quantizer = Quantizer::new(Norm::L1, clip_norm, grid).map_err(refused)?;
    let sampler = RoundedLaplace::new(scale, grid).map_err(refused)?;
    let values: Vec<f64> = py.detach(|| {
        let mut units = clipped_sum(x, &quantizer);
        sampler.add_to(&mut units, &mut source.stream(Purpose::Noise, 0));
        units.into_iter().map(|u| grid.to_f64(u)).collect()
    });
    Ok(values.to_pyarray(py))
}

fn selection(source: &mut NoiseSource) -> dpopt::noise::Stream {
    source.stream(Purpose::Selection, 0)
}

/// Integer counts plus noise P(x) ∝ exp(−|x|/scale).
#[pyfunction]
pub(crate) fn discrete_laplace(mut counts: Vec<i64>, scale: u64, seed: Option<u64>) -> PyResult<Vec<i64>> {
    let sampler = DiscreteLaplace::new(scale).map_err(refused)?;
    sampler.add_to(&mut counts, &mut noise(seed)?.stream(Purpose::Noise, 0));
    Ok(counts)
}

/// Integer counts plus noise P(x) ∝ exp(−x²/(2σ²)).
#[pyfunction]
pub(crate) fn discrete_gaussian(mut counts: Vec<i64>, sigma: f64, seed: Option<u64>) -> PyResult<Vec<i64>> {
    let sampler = DiscreteGaussian::new(sigma).map_err(refused)?;
    sampler.add_to(&mut counts, &mut noise(seed)?.stream(Purpose::Noise, 0));
    Ok(counts)
}

/// Index of the noisy maximum of integer scores.
#[pyfunction]
pub(crate) fn permute_and_flip(
    scores: Vec<i64>,
    epsilon: f64,
    sensitivity: u64,
    monotone: bool,
    seed: Option<u64>,
) -> PyResult<Option<usize>> {
    let choice = NoisyMax::new(epsilon, sensitivity, monotone).map_err(refused)?;
    Ok(choice.choose(scores, &mut selection(&mut noise(seed)?)))
}

/// Index chosen by the exponential mechanism on integer scores.
#[pyfunction]
pub(crate) fn choose_exponential(
    scores: Vec<i64>,
    epsilon: f64,
    sensitivity: u64,
    monotone: bool,
    seed: Option<u64>,
) -> PyResult<Option<usize>> {
    let choice = ExponentialChoice::new(epsilon, sensitivity, monotone).map_err(refused)?;
    Ok(choice.choose(&scores, &mut selection(&mut noise(seed)?)))
}

/// Uniform integers below `bound` from the generator of releases.
#[pyfunction]
pub(crate) fn random_below(bound: u64, count: usize, seed: Option<u64>) -> PyResult<Vec<u64>> {
    if bound == 0 {
        return Err(invalid("bound is 0; give at least 1"));
    }
    let mut source = noise(seed)?;
    let mut stream = source.stream(Purpose::Other(1), 0);
    Ok((0..count).map(|_| stream.below(bound)).collect())
}

/// One uniform number in [0, 1) with 53 bits from the generator of releases.
#[pyfunction]
pub(crate) fn random_unit(seed: Option<u64>) -> PyResult<f64> {
    let mut source = noise(seed)?;
    Ok(source.stream(Purpose::Other(2), 0).below(1 << 53) as f64 * 2f64.powi(-53))
}

/// A geometric number of runs, at least 1, with mean at most `expected`.
#[pyfunction]
pub(crate) fn geometric_runs(expected: f64, seed: Option<u64>) -> PyResult<u64> {
    if !(expected >= 1.0 && expected.is_finite()) {
        return Err(invalid(format!("expected_runs is {expected}; give a finite number, at least 1")));
    }
    if expected == 1.0 {
        return Ok(1);
    }
    // P(K > k) = e^{-k/b} = (1 - 1/E)^k; b is rounded down, so the mean is at most E
    let b = (-1.0 / (-1.0 / expected).ln_1p()) * (1.0 - 1e-12);
    if b < 2f64.powi(-6) {
        return Ok(1);
    }
    let law = Geometric::new(b).map_err(refused)?;
    let mut source = noise(seed)?;
    Ok(law.sample(&mut source.stream(Purpose::Selection, 0)).saturating_add(1))
}

/// Which labels are frequent enough to be published: (labels, event, bound and releases as JSON).
#[pyfunction]
pub(crate) fn select_labels(
    py: Python<'_>,
    counts: BTreeMap<String, u64>,
    epsilon: f64,
    delta: f64,
    under: &str,
    seed: Option<u64>,
) -> PyResult<(Vec<String>, String, String, String)> {
    let relation = relation(under)?;
    let budget = Budget::new(epsilon, delta).map_err(invalid)?;
    let source = noise(seed)?;
    py.detach(|| {
        let mechanism = LabelSelection::plan(relation, budget).map_err(refused)?;
        let certificate = mechanism.certificate();
        let mut curator = Curator::open(certificate, source);
        let found = curator.release(&mechanism, &Sensitive::new(counts)).map_err(refused)?;
        let event = certificate.event().to_json().map_err(invalid)?;
        Ok((found.into_inner(), event, json(certificate.bound())?, json(&curator.records())?))
    })
}
