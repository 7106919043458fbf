//! r(M) = (c/2)‖M‖²_{S_q}, 1-strongly convex in the Schatten norm S_p, 1 ≤ p ≤ 2 (spec 04 §A5): [`NormSquare`] of the singular values.

use crate::sampler::norm_square::{NormSquare, best_exponent};
use nalgebra::linalg::SVD;
use nalgebra::{DMatrix, Dyn};

/// r of matrices whose entries stand row by row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SchattenSquare {
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub columns: usize,
    /// What is taken of the singular values; its dimension is the smaller side.
    pub of_singular_values: NormSquare,
}

impl SchattenSquare {
    /// With the q that makes c smallest; `None` for p outside of [1, 2] or no entries.
    pub fn new(p: f64, rows: usize, columns: usize) -> Option<Self> {
        let side = rows.min(columns);
        if !(1.0..=2.0).contains(&p) || side == 0 {
            return None;
        }
        Some(Self { rows, columns, of_singular_values: NormSquare::new(p, best_exponent(p, side), side)? })
    }

    /// Its singular values in falling order, with the vectors that are asked for; `None` where they are not found.
    pub(super) fn decomposed(&self, entries: &[f64], vectors: bool) -> Option<SVD<f64, Dyn, Dyn>> {
        let finite = entries.iter().all(|x| x.is_finite());
        let matrix = finite.then(|| DMatrix::from_row_slice(self.rows, self.columns, entries))?;
        SVD::try_new(matrix, vectors, vectors, f64::EPSILON, 64 * (self.rows + self.columns))
    }

    /// r(M); not-a-number where the singular values are not found.
    pub fn value(&self, entries: &[f64]) -> f64 {
        let of = |found: SVD<f64, Dyn, Dyn>| self.of_singular_values.value(found.singular_values.as_slice());
        self.decomposed(entries, false).map_or(f64::NAN, of)
    }

    /// Adds `weight`·∇r(M) to `gradient`: U·diag(∇r(σ))·Vᵀ. Not-a-number where the singular values are not found.
    pub fn add_slope(&self, entries: &[f64], weight: f64, gradient: &mut [f64]) {
        let Some(SVD { u: Some(u), v_t: Some(v), singular_values }) = self.decomposed(entries, true) else {
            gradient.fill(f64::NAN);
            return;
        };
        let norm = self.of_singular_values;
        let s = singular_values.as_slice();
        // the quadratic part is left out of what norms add
        let mut slope: Vec<f64> = s.iter().map(|s| norm.convexity * s).collect();
        norm.add_slope(s, 1.0, &mut slope);
        for (at, g) in gradient.iter_mut().enumerate() {
            let (i, j) = (at / self.columns, at % self.columns);
            *g += weight * slope.iter().enumerate().map(|(k, slope)| slope * u[(i, k)] * v[(k, j)]).sum::<f64>();
        }
    }
}
