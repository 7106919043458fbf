//! Vectors clipped and added up, as integers (docs/proofs/gaussian-sum.md).

use super::contributions::{add_up, merge};
use crate::refused::CuratorError;
use dpopt_lanes::add_truncated_of;
use dpopt_noise::{Grid, Norm, Quantizer};
use dpopt_process::stop::paced;
use std::convert::Infallible;

/// What clips vectors to `clip_norm` on `grid`.
pub fn quantizer(norm: Norm, clip_norm: f64, grid: Grid) -> Result<Quantizer, CuratorError> {
    Quantizer::new(norm, clip_norm, grid).map_err(|e| CuratorError::Noise(e.to_string()))
}

/// Σ over `records` vectors of `dimension` entries, each clipped, in integers; `vector(i, out)` appends the entries of the i-th to the empty `out`.
pub fn add_up_vectors(
    quantizer: &Quantizer,
    records: usize,
    dimension: usize,
    vector: impl Fn(usize, &mut Vec<f64>) + Sync,
) -> Vec<i64> {
    let Ok(quanta) = add_up(records, dimension, 64, |range| {
        let mut sum = vec![0i64; dimension];
        let (mut values, mut quanta) = (Vec::with_capacity(dimension), Vec::new());
        for i in paced(range) {
            values.clear();
            vector(i, &mut values);
            // a longer vector is cut, so that what was clipped is what is summed
            values.truncate(dimension);
            if !add_clipped(quantizer, &values, &mut sum) {
                quantizer.quantize(&mut values, &mut quanta);
                merge(&mut sum, &quanta);
            }
        }
        Ok::<_, Infallible>(sum)
    });
    quanta
}

/// As [`add_up_vectors`], of vectors that lie in memory; of longer ones the rest is cut off.
pub(super) fn add_up_slices<'a>(
    quantizer: &Quantizer,
    records: usize,
    dimension: usize,
    vector: impl Fn(usize) -> &'a [f64] + Sync,
) -> Vec<i64> {
    let Ok(quanta) = add_up(records, dimension, 64, |range| {
        let mut sum = vec![0i64; dimension];
        let mut quanta = Vec::new();
        for i in paced(range) {
            let values = vector(i);
            let values = &values[..values.len().min(dimension)];
            if !add_clipped(quantizer, values, &mut sum) {
                quantizer.quantize(&mut values.to_vec(), &mut quanta);
                merge(&mut sum, &quanta);
            }
        }
        Ok::<_, Infallible>(sum)
    });
    quanta
}

/// Adds a vector clipped in l2 norm by the factor that is proved for it, if there is one.
#[inline]
fn add_clipped(quantizer: &Quantizer, values: &[f64], sum: &mut [i64]) -> bool {
    let factor = if quantizer.norm() == Norm::L2 { quantizer.factor_off_the_norm(values) } else { None };
    factor.is_some_and(|factor| {
        add_truncated_of(values, factor, quantizer.bound(), sum);
        true
    })
}
