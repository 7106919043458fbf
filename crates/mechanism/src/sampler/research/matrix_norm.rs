//! r(M) = (c/2)‖M‖²_{S_q}, 1-strongly convex in the Schatten norm S_p, 1 ≤ p ≤ 2 (spec 04 §A5): [`NormSquare`] of the singular values.

use crate::sampler::norm_square::{NormSquare, best_exponent};
use faer::Mat;

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

    pub(super) fn matrix(&self, entries: &[f64]) -> Mat<f64> {
        Mat::from_fn(self.rows, self.columns, |i, j| entries[i * self.columns + j])
    }

    /// r(M); not-a-number where the singular values are not found.
    pub fn value(&self, entries: &[f64]) -> f64 {
        self.matrix(entries).singular_values().map_or(f64::NAN, |s| self.of_singular_values.value(&s))
    }

    /// Adds `weight`·∇r(M) to `gradient`: U·diag(∇r(σ))·Vᵀ. Not-a-number where the singular values are not found.
    pub fn add_slope(&self, entries: &[f64], weight: f64, gradient: &mut [f64]) {
        let Ok(svd) = self.matrix(entries).thin_svd() else {
            gradient.fill(f64::NAN);
            return;
        };
        let norm = self.of_singular_values;
        let s: Vec<f64> = svd.S().column_vector().iter().copied().collect();
        // the quadratic part is left out of what norms add
        let mut slope: Vec<f64> = s.iter().map(|s| norm.convexity * s).collect();
        norm.add_slope(&s, 1.0, &mut slope);
        let (u, v) = (svd.U(), svd.V());
        for (at, g) in gradient.iter_mut().enumerate() {
            let (i, j) = (at / self.columns, at % self.columns);
            *g += weight * slope.iter().enumerate().map(|(k, slope)| slope * u[(i, k)] * v[(j, k)]).sum::<f64>();
        }
    }
}
