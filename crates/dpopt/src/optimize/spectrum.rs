//! Eigenvalues of symmetric matrices: what preconditioners and regularised inverses are made of.

use faer::Side;

/// M = V diag(w) Vᵀ.
pub(crate) struct Spectrum {
    eigenvalues: Vec<f64>,
    vectors: faer::Mat<f64>,
}

impl Spectrum {
    /// Of a symmetric matrix, row-major d × d; `None` if it has no finite decomposition.
    pub(crate) fn of(matrix: &[f64], d: usize) -> Option<Self> {
        let view = faer::MatRef::from_row_major_slice(matrix, d, d);
        let eigen = view.self_adjoint_eigen(Side::Lower).ok()?;
        let eigenvalues: Vec<f64> = (0..d).map(|j| eigen.S()[j]).collect();
        eigenvalues.iter().all(|w| w.is_finite()).then(|| Self { eigenvalues, vectors: eigen.U().to_owned() })
    }

    /// In ascending order.
    pub(crate) fn eigenvalues(&self) -> &[f64] {
        &self.eigenvalues
    }

    pub(crate) fn smallest(&self) -> f64 {
        self.eigenvalues.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// The diagonal of V diag(f(w)) Vᵀ.
    pub(crate) fn diagonal(&self, f: impl Fn(f64) -> f64) -> Vec<f64> {
        let images: Vec<f64> = self.eigenvalues.iter().map(|w| f(*w)).collect();
        (0..images.len())
            .map(|j| images.iter().enumerate().map(|(k, image)| image * self.vectors[(j, k)].powi(2)).sum())
            .collect()
    }

    /// V diag(f(w)) Vᵀ v.
    pub(crate) fn apply(&self, f: impl Fn(f64) -> f64, v: &[f64]) -> Vec<f64> {
        let column = faer::Col::from_fn(v.len(), |j| v[j]);
        let mut turned = self.vectors.transpose() * &column;
        for (j, w) in self.eigenvalues.iter().enumerate() {
            turned[j] *= f(*w);
        }
        let back = &self.vectors * &turned;
        (0..v.len()).map(|j| back[j]).collect()
    }
}
