//! Eigenvalues of symmetric matrices: what preconditioners and regularised inverses are made of.
//!
//! A decomposition of a *released* matrix may fail, and says so. One of a secret matrix may not: [`Spectrum::certified`] checks
//! what the fast solver found, and turns to Jacobi's method, whose convergence is proved (docs/proofs/noisy-newton.md).

use super::dense::eigen;
use super::sums::UNIT;
use nalgebra::{DMatrix, DVector};

/// M = V diag(w) Vᵀ.
pub struct Spectrum {
    eigenvalues: Vec<f64>,
    vectors: DMatrix<f64>,
}

impl Spectrum {
    /// Spectrum of a symmetric matrix, row-major d × d; `None` if it has no finite decomposition.
    pub fn of(matrix: &[f64], d: usize) -> Option<Self> {
        let (eigenvalues, vectors) = eigen(matrix, d)?;
        Some(Self { eigenvalues, vectors })
    }

    /// Spectrum of a secret symmetric matrix, d × d, of Frobenius norm at most `scale`: V diag(w) Vᵀ with ‖AV − V diag(w)‖ ≤ r·`scale` and
    /// ‖VᵀV − I‖ ≤ r, r = [`decomposition_error`], whatever the matrix.
    pub fn certified(matrix: &[f64], d: usize, scale: f64) -> Self {
        let certificate = 0.5 * decomposition_error(d);
        if let Some(fast) = Self::of(matrix, d)
            && fast.residual(matrix) <= certificate * scale
            && fast.skewness() <= certificate
        {
            return fast;
        }
        jacobi(matrix, d, scale)
    }

    /// ‖AV − V diag(w)‖ in Frobenius norm, computed: off by less than d^1.5·u‖A‖.
    fn residual(&self, matrix: &[f64]) -> f64 {
        let d = self.eigenvalues.len();
        // symmetric: rows are columns
        let image = DMatrix::from_column_slice(d, d, matrix) * &self.vectors;
        let entry = |i: usize, j: usize| image[(i, j)] - self.vectors[(i, j)] * self.eigenvalues[j];
        (0..d * d).map(|at| entry(at / d, at % d).powi(2)).sum::<f64>().sqrt()
    }

    /// ‖VᵀV − I‖ in Frobenius norm.
    fn skewness(&self) -> f64 {
        let d = self.eigenvalues.len();
        let gram = self.vectors.tr_mul(&self.vectors);
        (0..d * d).map(|at| (gram[(at / d, at % d)] - f64::from(at / d == at % d)).powi(2)).sum::<f64>().sqrt()
    }

    /// In ascending order, unless made by [`certified`](Self::certified).
    pub fn eigenvalues(&self) -> &[f64] {
        &self.eigenvalues
    }

    /// The smallest eigenvalue.
    pub fn smallest(&self) -> f64 {
        self.eigenvalues.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// The diagonal of V diag(f(w)) Vᵀ.
    pub fn diagonal(&self, f: impl Fn(f64) -> f64) -> Vec<f64> {
        let images: Vec<f64> = self.eigenvalues.iter().map(|w| f(*w)).collect();
        (0..images.len())
            .map(|j| images.iter().enumerate().map(|(k, image)| image * self.vectors[(j, k)].powi(2)).sum())
            .collect()
    }

    /// V diag(f(w)) Vᵀ v.
    pub fn apply(&self, f: impl Fn(f64) -> f64, v: &[f64]) -> Vec<f64> {
        let mut turned = self.vectors.tr_mul(&DVector::from_column_slice(v));
        for (j, w) in self.eigenvalues.iter().enumerate() {
            turned[j] *= f(*w);
        }
        (&self.vectors * turned).data.into()
    }

    /// The eigenvector of the k-th eigenvalue.
    pub fn vector(&self, k: usize) -> &[f64] {
        let d = self.eigenvalues.len();
        &self.vectors.as_slice()[k * d..(k + 1) * d]
    }
}

/// r of [`Spectrum::certified`], relative to the bound on the matrix: 35d² rotations err by 20u each, and what is left beside the
/// diagonal is below 24d²·u.
pub fn decomposition_error(d: usize) -> f64 {
    (35.0 * 20.0 + 24.0) * (d * d) as f64 * UNIT
}

/// Jacobi's method, largest entry first: every rotation removes at least the share 2/(d(d−1)) of what is beside the diagonal, so
/// that 35d² of them reach 24d²·u·`scale` from any matrix of norm `scale`.
fn jacobi(matrix: &[f64], d: usize, scale: f64) -> Spectrum {
    let mut a = matrix.to_vec();
    let mut vectors = DMatrix::<f64>::identity(d, d);
    let enough = 24.0 * (d * d) as f64 * UNIT * scale;
    // column of the largest entry right of the diagonal, per row
    let largest_in =
        |a: &[f64], i: usize| (i + 1..d).max_by(|&j, &k| a[i * d + j].abs().total_cmp(&a[i * d + k].abs()));
    let mut largest: Vec<Option<usize>> = (0..d).map(|i| largest_in(&a, i)).collect();
    for _ in 0..35 * d * d {
        let size = |i: usize| largest[i].map_or(0.0, |j| a[i * d + j].abs());
        let Some((p, q)) = (0..d).max_by(|&i, &k| size(i).total_cmp(&size(k))).and_then(|i| Some((i, largest[i]?)))
        else {
            break;
        };
        // all of them together are at most d/√2 times the largest
        if a[p * d + q].abs() * d as f64 <= enough {
            break;
        }
        let (sine, cosine) = rotation(a[p * d + p], a[p * d + q], a[q * d + q]);
        for k in 0..d {
            let (x, y) = (a[p * d + k], a[q * d + k]);
            (a[p * d + k], a[q * d + k]) = (cosine * x - sine * y, sine * x + cosine * y);
        }
        for k in 0..d {
            let (x, y) = (a[k * d + p], a[k * d + q]);
            (a[k * d + p], a[k * d + q]) = (cosine * x - sine * y, sine * x + cosine * y);
            let (x, y) = (vectors[(k, p)], vectors[(k, q)]);
            (vectors[(k, p)], vectors[(k, q)]) = (cosine * x - sine * y, sine * x + cosine * y);
        }
        (a[p * d + q], a[q * d + p]) = (0.0, 0.0);
        for i in 0..d {
            // rows p and q are new; in the others the entries of columns p and q
            let stale = |j: usize| i == p || i == q || j == p || j == q;
            if largest[i].is_none_or(stale) {
                largest[i] = largest_in(&a, i);
            } else {
                for j in [p, q].into_iter().filter(|j| *j > i) {
                    if largest[i].is_some_and(|old| a[i * d + j].abs() > a[i * d + old].abs()) {
                        largest[i] = Some(j);
                    }
                }
            }
        }
    }
    Spectrum { eigenvalues: (0..d).map(|j| a[j * d + j]).collect(), vectors }
}

/// (sin, cos) of the smaller angle whose rotation makes the off-diagonal entry of ((a, b), (b, c)) zero.
fn rotation(a: f64, b: f64, c: f64) -> (f64, f64) {
    let ratio = (c - a) / (2.0 * b);
    let tangent = ratio.signum() / (ratio.abs() + ratio.hypot(1.0));
    let cosine = 1.0 / tangent.hypot(1.0);
    (tangent * cosine, cosine)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::Lcg;

    /// Random, of rank one, zero, of equal eigenvalues, graded over 30 decades, a chain.
    fn matrices(d: usize) -> Vec<Vec<f64>> {
        let mut random = Lcg::new(d as u64);
        let v: Vec<f64> = (0..d).map(|_| random.normal()).collect();
        let symmetric = |entry: &mut dyn FnMut(usize, usize) -> f64| {
            let mut m = vec![0.0; d * d];
            for i in 0..d {
                for j in 0..=i {
                    m[i * d + j] = entry(i, j);
                    m[j * d + i] = m[i * d + j];
                }
            }
            m
        };
        vec![
            symmetric(&mut |_, _| random.normal()),
            symmetric(&mut |i, j| v[i] * v[j]),
            symmetric(&mut |_, _| 0.0),
            symmetric(&mut |i, j| f64::from(i == j)),
            symmetric(&mut |i, j| 10f64.powi(-((i + j) as i32 % 31))),
            symmetric(&mut |i, j| f64::from(i - j == 1)),
        ]
    }

    #[test]
    fn jacobi_keeps_its_certificate_for_every_matrix_and_agrees_with_the_fast_solver() {
        for d in [1, 2, 3, 17, 60] {
            for (which, m) in matrices(d).into_iter().enumerate() {
                let scale = m.iter().map(|x| x * x).sum::<f64>().sqrt();
                let slow = jacobi(&m, d, scale);
                let error = decomposition_error(d);
                assert!(slow.residual(&m) <= error * scale && slow.skewness() <= error, "d={d} matrix {which}");
                let mut slowly = slow.eigenvalues().to_vec();
                slowly.sort_by(f64::total_cmp);
                let fast = Spectrum::of(&m, d).unwrap();
                assert!(slowly.iter().zip(fast.eigenvalues()).all(|(a, b)| (a - b).abs() <= 2.0 * error * scale));
                let certified = Spectrum::certified(&m, d, scale);
                let ones = vec![1.0; d];
                let (a, b) = (certified.apply(|w| 1.0 / w.max(0.5), &ones), slow.apply(|w| 1.0 / w.max(0.5), &ones));
                assert!(a.iter().zip(&b).all(|(x, y)| (x - y).abs() < 1e-6 * (1.0 + scale)), "d={d} matrix {which}");
            }
        }
    }
}
