//! Lower-triangular Toeplitz matrices C in forms that need little memory: square root of the prefix-sum matrix (banded),
//! banded inverse, and buffered linear Toeplitz (BLT).
//!
//! Coefficients are integers in units of 2^-62, and the sensitivity is computed from these very integers: it belongs to the
//! matrix that is applied, not to the one that was meant.

/// Units of a coefficient: 2^-COEFFICIENT_BITS.
pub(crate) const COEFFICIENT_BITS: u32 = 62;

/// A factor that can't be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FactorError {
    /// A coefficient is not finite, or above 1 in size.
    #[error("coefficients must be finite and at most 1 in size, the first one exactly 1")]
    Coefficient,
    /// BLT parameters out of range.
    #[error("BLT needs 0 < λ < 1, θ > 0 and Σθ ≤ 1: then its coefficients are non-negative and non-increasing")]
    Blt,
    /// The rows of C⁻¹ are so large that noise would grow beyond 2^8 standard deviations.
    #[error("the noise would grow beyond 2^8 standard deviations: the inverse of the factor has too large rows")]
    Unstable,
    /// The noise does not fit its grid.
    #[error("the grid step must be between 2^-40 and 1/16 of the noise standard deviation")]
    Grid,
}

/// The factor C (c_0 = 1) of the correlated noise σ·C⁻¹z.
#[derive(Clone, Debug, PartialEq)]
pub struct Factor(pub(crate) Form);

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Form {
    /// c_1, …, c_{p−1} of C.
    Banded(Vec<i64>),
    /// c'_1, …, c'_{p−1} of C⁻¹.
    InverseBanded(Vec<i64>),
    /// c_t = Σ θ_i λ_i^(t−1): (θ_i, λ_i).
    Blt(Vec<(i64, i64)>),
}

/// Nearest integer multiple of 2^-62.
fn coefficient(x: f64) -> Result<i64, FactorError> {
    if x.is_finite() && x.abs() <= 1.0 {
        Ok((x * 2f64.powi(COEFFICIENT_BITS as i32)).round() as i64)
    } else {
        Err(FactorError::Coefficient)
    }
}

/// The value of a coefficient.
fn value(units: i64) -> f64 {
    units as f64 * 2f64.powi(-(COEFFICIENT_BITS as i32))
}

/// a·c, rounded down to a unit of a.
#[inline]
pub(crate) fn times_coefficient(a: i128, c: i64) -> i128 {
    let (high, low) = ((a >> 64) as i64, a as u64);
    ((i128::from(high) * i128::from(c)) << (64 - COEFFICIENT_BITS))
        + ((i128::from(low) * i128::from(c)) >> COEFFICIENT_BITS)
}

impl Factor {
    /// Independent noise: C = I.
    pub fn identity() -> Self {
        Self(Form::Banded(Vec::new()))
    }

    /// The first `bands` diagonals of the square root of the prefix-sum matrix: 1, 1/2, 3/8, 5/16, … With as many bands as
    /// steps it is the whole root (Henzinger, Fichtenberger, Upadhyay 2023). Memory bands·d.
    ///
    /// # Errors
    /// Never for `bands` ≥ 1; kept for uniformity.
    pub fn square_root(bands: usize) -> Result<Self, FactorError> {
        Self::banded(&square_root_coefficients(bands))
    }

    /// C with diagonals `c`, `c[0]` = 1.
    ///
    /// # Errors
    /// If a coefficient exceeds 1 or the first is not 1.
    pub fn banded(c: &[f64]) -> Result<Self, FactorError> {
        let (&first, rest) = c.split_first().ok_or(FactorError::Coefficient)?;
        if first != 1.0 {
            return Err(FactorError::Coefficient);
        }
        Ok(Self(Form::Banded(rest.iter().map(|&x| coefficient(x)).collect::<Result<_, _>>()?)))
    }

    /// C whose *inverse* has the first `bands` diagonals of the inverse square root: 1, −1/2, −1/8, −1/16, … (banded inverse
    /// square root). Memory bands·d.
    ///
    /// # Errors
    /// Never for `bands` ≥ 1; kept for uniformity.
    pub fn inverse_square_root(bands: usize) -> Result<Self, FactorError> {
        let mut c = 1.0;
        let rest = (1..bands).map(|k| {
            c *= (2.0 * k as f64 - 3.0) / (2.0 * k as f64);
            coefficient(c)
        });
        Ok(Self(Form::InverseBanded(rest.collect::<Result<_, _>>()?)))
    }

    /// Buffered linear Toeplitz (Dvijotham et al. 2024): c_t = Σ θ_i λ_i^(t−1). Memory (number of pairs)·d.
    ///
    /// # Errors
    /// Unless θ > 0, 0 < λ < 1 and Σθ ≤ 1.
    pub fn blt(theta_lambda: &[(f64, f64)]) -> Result<Self, FactorError> {
        let good = |&(theta, lambda): &(f64, f64)| theta > 0.0 && lambda > 0.0 && lambda < 1.0;
        let total: f64 = theta_lambda.iter().map(|pair| pair.0).sum();
        if !(theta_lambda.iter().all(good) && total <= 1.0 - 1e-12) {
            return Err(FactorError::Blt);
        }
        let pairs = theta_lambda.iter().map(|&(theta, lambda)| Ok((coefficient(theta)?, coefficient(lambda)?)));
        Ok(Self(Form::Blt(pairs.collect::<Result<_, _>>()?)))
    }

    /// BLT with `buffers` = 1..=4 and parameters that minimise the largest error at 1024 steps and single participation
    /// (errors 3.865, 3.330, 3.278, 3.273 in units of ζ/μ; the full square root has 3.2726, the tree 10.5). Good for other
    /// lengths too; the sensitivity is always computed for the actual one.
    ///
    /// # Errors
    /// If there are no default parameters for this number of buffers.
    pub fn blt_default(buffers: usize) -> Result<Self, FactorError> {
        match buffers {
            1 => Self::blt(&[(0.14677114, 0.99361098)]),
            2 => Self::blt(&[(0.31927233, 0.90882473), (0.06663838, 0.99811207)]),
            4 => Self::blt(&[
                (0.23056247, 0.56279567),
                (0.16004948, 0.92183605),
                (0.06897161, 0.98890097),
                (0.03715651, 0.99922932),
            ]),
            _ => Err(FactorError::Blt),
        }
    }

    /// Diagonals c_0, …, c_{n−1} of C, as applied.
    pub fn coefficients(&self, n: usize) -> Vec<f64> {
        match &self.0 {
            Form::Banded(rest) => {
                let mut c = vec![0.0; n];
                for (cell, x) in c.iter_mut().zip(std::iter::once(1.0).chain(rest.iter().map(|&x| value(x)))) {
                    *cell = x;
                }
                c
            }
            Form::InverseBanded(rest) => inverse_series(&leading_one(rest, n)),
            Form::Blt(pairs) => {
                let mut powers: Vec<f64> = pairs.iter().map(|pair| value(pair.0)).collect();
                let mut c = Vec::with_capacity(n);
                c.push(1.0);
                while c.len() < n {
                    c.push(powers.iter().sum());
                    for (power, pair) in powers.iter_mut().zip(pairs) {
                        *power *= value(pair.1);
                    }
                }
                c.truncate(n);
                c
            }
        }
    }

    /// The first `n` Toeplitz coefficients of C⁻¹, one for each diagonal.
    pub fn inverse_coefficients(&self, n: usize) -> Vec<f64> {
        match &self.0 {
            Form::InverseBanded(rest) => leading_one(rest, n),
            Form::Blt(pairs) => {
                // the response of the recurrence to an impulse
                let mut buffers = vec![0.0; pairs.len()];
                let impulse = |t| if t == 0 { 1.0 } else { 0.0 };
                (0..n)
                    .map(|t| {
                        let fed: f64 = pairs.iter().zip(&buffers).map(|(pair, s)| value(pair.0) * s).sum();
                        let y = impulse(t) - fed;
                        for (s, pair) in buffers.iter_mut().zip(pairs) {
                            *s = value(pair.1) * *s + y;
                        }
                        y
                    })
                    .collect()
            }
            _ => inverse_series(&self.coefficients(n)),
        }
    }

    /// Standard deviations of the errors of the prefix sums 1..=n per unit of σ: row norms of A·C⁻¹.
    pub fn prefix_errors(&self, n: usize) -> Vec<f64> {
        let (mut partial, mut squares) = (0.0, 0.0);
        self.inverse_coefficients(n)
            .iter()
            .map(|c| {
                partial += c;
                squares += partial * partial;
                f64::sqrt(squares)
            })
            .collect()
    }

    /// Largest standard deviation of a BLT buffer per unit of the growth: √Σλ^(2j) over the steps; 0 for other forms.
    pub(crate) fn buffer_deviation(&self, steps: usize) -> f64 {
        let Form::Blt(pairs) = &self.0 else { return 0.0 };
        pairs
            .iter()
            .map(|pair| (steps as f64).min(1.0 / (1.0 - value(pair.1).powi(2)).max(f64::MIN_POSITIVE)).sqrt())
            .fold(0.0, f64::max)
    }

    /// What one unit of rounding in every update of the BLT buffers adds to y at a step: Σ θ/(1−λ).
    pub(crate) fn buffer_gain(&self) -> f64 {
        let Form::Blt(pairs) = &self.0 else { return 0.0 };
        pairs.iter().map(|pair| value(pair.0) / (1.0 - value(pair.1)).max(f64::MIN_POSITIVE)).sum()
    }

    /// p if C has p bands, else `None`.
    pub(crate) fn bands(&self) -> Option<usize> {
        match &self.0 {
            Form::Banded(rest) => Some(rest.len() + 1),
            _ => None,
        }
    }
}

fn leading_one(rest: &[i64], n: usize) -> Vec<f64> {
    let mut c = vec![0.0; n];
    for (cell, x) in c.iter_mut().zip(std::iter::once(1.0).chain(rest.iter().map(|&x| value(x)))) {
        *cell = x;
    }
    c
}

/// 1, 1/2, 3/8, …: c_k = c_{k−1}·(2k−1)/(2k).
pub(crate) fn square_root_coefficients(n: usize) -> Vec<f64> {
    let mut c = 1.0;
    let rest = (1..n.max(1)).map(|k| {
        c *= (2.0 * k as f64 - 1.0) / (2.0 * k as f64);
        c
    });
    std::iter::once(1.0).chain(rest).collect()
}

/// Coefficients of the reciprocal power series.
fn inverse_series(c: &[f64]) -> Vec<f64> {
    let support = c.iter().rposition(|&x| x != 0.0).map_or(0, |last| last + 1);
    let mut inverse: Vec<f64> = Vec::with_capacity(c.len());
    for t in 0..c.len() {
        let from = (t + 1).saturating_sub(support);
        let sum: f64 = (from..t).map(|j| c[t - j] * inverse[j]).sum();
        inverse.push((if t == 0 { 1.0 } else { 0.0 }) - sum);
    }
    inverse
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(factor: &Factor, n: usize) -> f64 {
        let squares: f64 = factor.coefficients(n).iter().map(|c| c * c).sum();
        factor.prefix_errors(n)[n - 1] * squares.sqrt()
    }

    #[test]
    fn square_root() {
        // c_k = c_(k−1)·(2k − 1)/(2k)
        assert_eq!(square_root_coefficients(5), [1.0, 0.5, 0.375, 0.3125, 0.2734375]);
        let root = Factor::square_root(5).unwrap();
        assert_eq!(root.inverse_coefficients(5), [1.0, -0.5, -0.125, -0.0625, -0.0390625]);
        assert_eq!(Factor::inverse_square_root(5).unwrap().inverse_coefficients(5), root.inverse_coefficients(5));
        for (n, squares) in [(8, 1.7183792591), (64, 2.3888481083), (1024, 3.2725541503), (1_000_000, 5.4638893669)] {
            let sum: f64 = square_root_coefficients(n).iter().map(|c| c * c).sum();
            assert!((sum - squares).abs() < 1e-9, "{n}: {sum}");
        }
        assert!((error(&Factor::square_root(1024).unwrap(), 1024) - 3.2725541503).abs() < 1e-8);
    }

    #[test]
    fn blt_errors() {
        // n = 1024: largest error of prefix sums times the sensitivity
        for (buffers, expected) in [(1, 3.86489), (2, 3.32979), (4, 3.27294)] {
            let e = error(&Factor::blt_default(buffers).unwrap(), 1024);
            assert!((e - expected).abs() < 2e-5, "{buffers}: {e}");
        }
        assert_eq!(Factor::blt(&[(0.9, 0.5), (0.2, 0.5)]), Err(FactorError::Blt));
        assert_eq!(Factor::blt(&[(0.5, 1.0)]), Err(FactorError::Blt));
        assert_eq!(Factor::blt(&[(f64::NAN, 0.5)]), Err(FactorError::Blt));
        assert_eq!(Factor::banded(&[2.0]), Err(FactorError::Coefficient));
    }

    #[test]
    fn products_round_down() {
        let one = 1i64 << 62;
        for a in [0i128, 1, -1, 1 << 100, -(1 << 120) + 12345] {
            assert_eq!(times_coefficient(a, one), a);
            assert_eq!(times_coefficient(a, -one), -a);
            assert_eq!(times_coefficient(a, one / 2), a >> 1);
        }
    }
}
