//! What the answer of a step varies by: its sampling, its noise, and what is left of the distance from its start. Post-processing.

use dpopt_objective::solver::{Spectrum, dot};

/// The spectrum of a released matrix, and what has to be added to it so that its smallest eigenvalue is twice the size of its noise, 2s√(2d).
pub(super) fn regularised(matrix: &[f64], d: usize, noise_std: f64) -> Option<(Spectrum, f64)> {
    let spectrum = Spectrum::of(matrix, d)?;
    let floor = 2.0 * noise_std * (2.0 * d as f64).sqrt();
    let added = (floor - spectrum.smallest()).max(0.0);
    Some((spectrum, added))
}

/// The covariance of the weights, row by row; none where H̃ was regularised.
type Covariance = Option<Vec<f64>>;

/// A Newton step e = −(H̃ + λ)⁻¹g̃ and the noise of what it was made of.
pub(super) struct NewtonStep {
    /// Spectrum of H̃.
    pub(super) spectrum: Spectrum,
    /// λ: what was added to every eigenvalue.
    pub(super) added: f64,
    /// e: the step that was taken.
    pub(super) step: Vec<f64>,
    /// Standard deviation of the noise of g̃, per coordinate.
    pub(super) slope_std: f64,
    /// And of H̃ on the diagonal; beside it 1/√2 of that.
    pub(super) curvature_std: f64,
}

impl NewtonStep {
    /// eᵀHe, at least 0, by the released H.
    pub(super) fn squared_length(&self, curvature: &[f64]) -> f64 {
        let image: Vec<f64> = curvature.chunks_exact(self.step.len()).map(|row| dot(row, &self.step)).collect();
        dot(&self.step, &image).max(0.0)
    }

    /// Covariance (d × d) of the noise in the weights after the step, `before` being that before it: (H̃ + λ)⁻¹(N + λ²V)(H̃ + λ)⁻¹. N is the step's own:
    /// g̃ − g + (H̃ − H)e has covariance s²I + s_H²(‖e‖²I + eeᵀ)/2. Of what the start was off by, λ(H̃ + λ)⁻¹ is left: nothing where λ is 0.
    pub(super) fn noise(&self, before: &[f64]) -> Vec<f64> {
        let (even, half) = self.own_noise();
        let left = self.added * self.added;
        self.sandwich(|k| {
            let mut column: Vec<f64> = self.step.iter().map(|e| half * e * self.step[k]).collect();
            column[k] += even;
            column.iter_mut().zip(&before[k * self.step.len()..]).for_each(|(c, v)| *c += left * v);
            column
        })
    }

    /// H̃⁻¹(M + N)H̃⁻¹, none where H̃ was regularised. M is the sampling's part: what is positive of the released Σφ'²xxᵀ, and a standard deviation of that
    /// one's noise more in every direction. N is as in `noise`. `remainder` bounds what the gradient was off the line.
    pub(super) fn covariance(&self, square: &[f64], square_std: f64, remainder: f64) -> Option<Covariance> {
        if self.added > 0.0 {
            return Some(None);
        }
        let d = self.step.len();
        let (even, half) = self.own_noise();
        let sampling = Spectrum::of(square, d)?;
        Some(Some(self.sandwich(|k| {
            let unit: Vec<f64> = (0..d).map(|j| f64::from(j == k)).collect();
            let mut column = sampling.apply(|w| w.max(0.0) + square_std + even + remainder * remainder, &unit);
            column.iter_mut().zip(&self.step).for_each(|(c, e)| *c += half * e * self.step[k]);
            column
        })))
    }

    /// Of the step's own noise: what is the same in every direction, and what goes with eeᵀ.
    fn own_noise(&self) -> (f64, f64) {
        let half = 0.5 * self.curvature_std * self.curvature_std;
        (self.slope_std * self.slope_std + half * dot(&self.step, &self.step), half)
    }

    /// (H̃ + λ)⁻¹ M (H̃ + λ)⁻¹, row by row, of a symmetric M by its columns.
    fn sandwich(&self, column: impl Fn(usize) -> Vec<f64>) -> Vec<f64> {
        let d = self.step.len();
        let inverse = |w: f64| 1.0 / (w + self.added);
        // row k is (H̃⁻¹ times column k)ᵀ; a column of them is then H̃⁻¹ times what it has
        let middle: Vec<f64> = (0..d).flat_map(|k| self.spectrum.apply(inverse, &column(k))).collect();
        let of = |k: usize| -> Vec<f64> { (0..d).map(|j| middle[j * d + k]).collect() };
        (0..d).flat_map(|k| self.spectrum.apply(inverse, &of(k))).collect()
    }
}
