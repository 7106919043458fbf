//! r(M) = (c/2)‖M‖²_{S_q}, 1-strongly convex in the Schatten norm S_p, 1 ≤ p ≤ 2 (Liu 2024, chapter 4): [`NormSquare`] of the singular values.

use crate::sampler::norm_square::{NormSquare, best_exponent};
use dpopt_objective::solver::Spectrum;

/// Singular values of a matrix, and their vectors.
#[derive(Clone, Debug)]
pub struct Singular {
    /// The singular values in falling order, as many as the smaller side.
    pub values: Vec<f64>,
    rows: usize,
    /// The left and the right vector of each value, one after the other.
    vectors: Vec<Vec<f64>>,
}

impl Singular {
    /// The decomposition of a matrix whose entries stand row by row; `None` where they are not finite, or the iteration does not end.
    ///
    /// Values are the largest eigenvalues of ((0, M), (Mᵀ, 0)), each eigenvector a left and a right vector over √2: as exact as eigenvalues of symmetric matrices
    /// are, also of matrices of low rank. Where a value is 0 up to rounding its two vectors are not of length 1.
    pub fn of(entries: &[f64], rows: usize, columns: usize) -> Option<Self> {
        let side = rows + columns;
        let mut both = vec![0.0; side * side];
        for (at, entry) in entries.iter().enumerate() {
            let (i, j) = (at / columns, rows + at % columns);
            both[i * side + j] = *entry;
            both[j * side + i] = *entry;
        }
        let spectrum = Spectrum::of(&both, side)?;
        let largest = (0..side).rev().take(rows.min(columns));
        let (values, vectors) = largest
            .map(|k| {
                let vector = spectrum.vector(k).iter().map(|v| v * std::f64::consts::SQRT_2).collect();
                (spectrum.eigenvalues()[k].max(0.0), vector)
            })
            .unzip();
        Some(Self { values, rows, vectors })
    }

    /// The left vector of value k.
    pub fn left(&self, k: usize) -> &[f64] {
        &self.vectors[k][..self.rows]
    }

    /// The right vector of value k.
    pub fn right(&self, k: usize) -> &[f64] {
        &self.vectors[k][self.rows..]
    }
}

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
    /// The regulariser with the q that makes c smallest; `None` for p outside of [1, 2] or no entries.
    pub fn new(p: f64, rows: usize, columns: usize) -> Option<Self> {
        let side = rows.min(columns);
        if !(1.0..=2.0).contains(&p) || side == 0 {
            return None;
        }
        Some(Self { rows, columns, of_singular_values: NormSquare::new(p, best_exponent(p, side), side)? })
    }

    pub(super) fn decomposed(&self, entries: &[f64]) -> Option<Singular> {
        Singular::of(entries, self.rows, self.columns)
    }

    /// r(M); not-a-number where the singular values are not found.
    pub fn value(&self, entries: &[f64]) -> f64 {
        self.decomposed(entries).map_or(f64::NAN, |found| self.of_singular_values.value(&found.values))
    }

    /// Adds `weight`·∇r(M) to `gradient`: U·diag(∇r(σ))·Vᵀ. Not-a-number where the singular values are not found.
    pub fn add_slope(&self, entries: &[f64], weight: f64, gradient: &mut [f64]) {
        let Some(found) = self.decomposed(entries) else {
            gradient.fill(f64::NAN);
            return;
        };
        let norm = self.of_singular_values;
        let s = &found.values[..];
        // the quadratic part is left out of what norms add
        let mut slope: Vec<f64> = s.iter().map(|s| norm.convexity * s).collect();
        norm.add_slope(s, 1.0, &mut slope);
        for (at, g) in gradient.iter_mut().enumerate() {
            let (i, j) = (at / self.columns, at % self.columns);
            *g += weight
                * slope.iter().enumerate().map(|(k, slope)| slope * found.left(k)[i] * found.right(k)[j]).sum::<f64>();
        }
    }
}
