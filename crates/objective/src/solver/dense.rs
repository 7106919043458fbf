//! Dense linear algebra for matrices of a few hundred rows: the one place where factors and eigenvectors are computed.

use nalgebra::linalg::{Cholesky, SymmetricEigen};
use nalgebra::{DMatrix, DVector, Dyn};

/// The Cholesky factor of a positive definite matrix.
pub struct Factor(Cholesky<f64, Dyn>);

impl Factor {
    /// Of a symmetric matrix, row-major d × d; `None` if rounding leaves it without a factor.
    pub fn of(matrix: &[f64], d: usize) -> Option<Self> {
        // symmetric: rows are columns
        Cholesky::new(DMatrix::from_column_slice(d, d, matrix)).map(Self)
    }

    /// M⁻¹v.
    pub fn solve(&self, v: &[f64]) -> Vec<f64> {
        let mut x = DVector::from_column_slice(v);
        self.0.solve_mut(&mut x);
        x.data.into()
    }
}

/// Steps of the eigenvalue iteration, for each eigenvalue; it takes two or three.
const STEPS_EACH: usize = 64;

/// Eigenvalues of a symmetric matrix, row-major d × d, in ascending order, and the eigenvectors as columns in the same order; `None` where it has entries that
/// are not finite, or the iteration does not end.
pub(super) fn eigen(matrix: &[f64], d: usize) -> Option<(Vec<f64>, DMatrix<f64>)> {
    if matrix.iter().any(|x| !x.is_finite()) {
        return None;
    }
    let most = STEPS_EACH * d.max(1);
    let found = SymmetricEigen::try_new(DMatrix::from_column_slice(d, d, matrix), f64::EPSILON, most)?;
    let mut order: Vec<usize> = (0..d).collect();
    order.sort_by(|&i, &j| found.eigenvalues[i].total_cmp(&found.eigenvalues[j]));
    let values: Vec<f64> = order.iter().map(|&j| found.eigenvalues[j]).collect();
    let vectors = found.eigenvectors.select_columns(&order);
    (values.iter().all(|w| w.is_finite()) && vectors.iter().all(|v| v.is_finite())).then_some((values, vectors))
}
