//! Dense linear algebra for matrices of a few hundred rows: the one place where factors and eigenvectors are computed.

use nalgebra::linalg::{Cholesky, SymmetricEigen};
use nalgebra::{DMatrix, DVector, Dyn};

/// The Cholesky factor of a positive definite matrix.
pub struct Factor(Cholesky<f64, Dyn>);

impl Factor {
    /// Factors a symmetric matrix, row-major d × d, of which only the entries on and below the diagonal are read; `None` if rounding leaves it without a factor.
    pub fn of(matrix: &[f64], d: usize) -> Option<Self> {
        Cholesky::new(DMatrix::from_row_slice(d, d, matrix)).map(Self)
    }

    /// The solution M⁻¹v of a linear system.
    pub fn solve(&self, v: &[f64]) -> Vec<f64> {
        let mut x = DVector::from_column_slice(v);
        self.0.solve_mut(&mut x);
        x.data.into()
    }
}

/// Steps of the eigenvalue iteration, for each eigenvalue; it takes two or three.
const STEPS_EACH: usize = 64;

/// Eigenvalues of a symmetric matrix, row-major d × d, of which only the entries on and below the diagonal are read, in ascending order, and the eigenvectors as
/// columns in the same order; `None` where it has entries that are not finite, or the iteration does not end.
pub(super) fn eigen(matrix: &[f64], d: usize) -> Option<(Vec<f64>, DMatrix<f64>)> {
    if d == 0 {
        return Some((Vec::new(), DMatrix::zeros(0, 0)));
    }
    if matrix.iter().any(|x| !x.is_finite()) {
        return None;
    }
    let most = STEPS_EACH * d;
    let found = SymmetricEigen::try_new(DMatrix::from_row_slice(d, d, matrix), f64::EPSILON, most)?;
    let mut order: Vec<usize> = (0..d).collect();
    order.sort_by(|&i, &j| found.eigenvalues[i].total_cmp(&found.eigenvalues[j]));
    let values: Vec<f64> = order.iter().map(|&j| found.eigenvalues[j]).collect();
    let vectors = found.eigenvectors.select_columns(&order);
    (values.iter().all(|w| w.is_finite()) && vectors.iter().all(|v| v.is_finite())).then_some((values, vectors))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ((4, 2, 0), (2, 5, 2), (0, 2, 5)), with something else above the diagonal.
    const HALF: [f64; 9] = [4.0, 9.0, -9.0, 2.0, 5.0, 7.0, 0.0, 2.0, 5.0];

    #[test]
    fn what_is_above_the_diagonal_is_not_read() {
        // the factor is ((2, 0, 0), (1, 2, 0), (0, 1, 2))
        let x = Factor::of(&HALF, 3).expect("positive definite").solve(&[4.0, 11.0, 19.0]);
        assert!(residual(&x) < 1e-12, "{x:?}");
        let (values, vectors) = eigen(&HALF, 3).expect("finite");
        assert!(values.windows(2).all(|pair| pair[0] <= pair[1]));
        for (k, value) in values.iter().enumerate() {
            let v: Vec<f64> = vectors.column(k).iter().copied().collect();
            let image = product(&v);
            assert!(image.iter().zip(&v).all(|(a, b)| (a - value * b).abs() < 1e-12), "{k}");
        }
    }

    fn product(v: &[f64]) -> Vec<f64> {
        let entry = |i: usize, j: usize| HALF[i.max(j) * 3 + i.min(j)];
        (0..3).map(|i| (0..3).map(|j| entry(i, j) * v[j]).sum()).collect()
    }

    fn residual(x: &[f64]) -> f64 {
        product(x).iter().zip([4.0, 11.0, 19.0]).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
    }

    #[test]
    fn what_has_no_factor_or_no_spectrum_has_none() {
        assert!(Factor::of(&[1.0, 0.0, 2.0, 1.0], 2).is_none());
        assert!(Factor::of(&[f64::NAN], 1).is_none());
        assert!(eigen(&[1.0, 0.0, f64::INFINITY, 1.0], 2).is_none());
        assert!(eigen(&[], 0).is_some_and(|(values, _)| values.is_empty()));
    }
}
