//! Where noise comes from.

use crate::errors::refused;
use dpopt::noise::NoiseSource;
use pyo3::prelude::*;

/// A source of noise: secure unless a seed is given.
pub(crate) fn noise(seed: Option<u64>) -> PyResult<NoiseSource> {
    match seed {
        Some(seed) => Ok(NoiseSource::insecure(seed)),
        None => NoiseSource::secure().map_err(refused),
    }
}
