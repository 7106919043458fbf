//! Contributions within a diagonal ellipsoid: anisotropic clipping on the integer grid (docs/proofs/adaptive-gradients.md).
//!
//! ‖v‖_w = √Σ(w_j·v_j)². Adding N(0, (σ/w_j)²) to coordinate j of a sum of such contributions of ‖·‖_w ≤ C is the Gaussian
//! mechanism with multiplier σ/C after a fixed change of units. Weights are not integers, so the norm of the integer vector is
//! compared in floating point rounded upward; truncation toward zero only lowers it.
use dpopt_noise::parts::power_of_two;
use dpopt_noise::{Grid, QuantizeError};

/// Unit roundoff of f64.
const UNIT: f64 = f64::EPSILON / 2.0;

/// Turns records into integers z with ‖γz‖_w ≤ C, whatever the record is.
///
/// ```
/// use dpopt_draws::EllipsoidQuantizer;
/// use dpopt_noise::Grid;
/// // the second coordinate may be ten times as long as the first
/// let clip = EllipsoidQuantizer::new(&[1.0, 0.1], 1.0, Grid::new(-20))?;
/// let mut units = Vec::new();
/// clip.quantize(&mut [0.0, 50.0], &mut units);
/// assert!(units[0] == 0 && (units[1] - (10 << 20)).abs() < 4);
/// # Ok::<(), dpopt_noise::QuantizeError>(())
/// ```
#[derive(Clone, Debug)]
pub struct EllipsoidQuantizer {
    weights: Vec<f64>,
    clip_norm: f64,
    grid: Grid,
    /// 1/γ: grid steps per unit of value.
    per_unit: f64,
    /// C/γ, rounded down, less what the upward evaluation may add.
    limit: f64,
}

impl EllipsoidQuantizer {
    /// Contributions of ‖v‖_w ≤ `clip_norm` on `grid`, with public weights w_j > 0.
    ///
    /// # Errors
    /// If a weight or the clip norm is not positive and finite, or a coordinate may reach 2^48 grid steps.
    pub fn new(weights: &[f64], clip_norm: f64, grid: Grid) -> Result<Self, QuantizeError> {
        let positive = |x: f64| x.is_finite() && x > 0.0;
        if !positive(clip_norm) || !weights.iter().all(|&w| positive(w)) {
            return Err(QuantizeError::ClipNorm);
        }
        let per_unit = power_of_two(-grid.exponent());
        let least = weights.iter().copied().fold(f64::INFINITY, f64::min);
        let limit = clip_norm * per_unit;
        if !(limit / least < 2f64.powi(48)) || !limit.is_normal() {
            return Err(QuantizeError::GridTooFine);
        }
        Ok(Self { weights: weights.to_vec(), clip_norm, grid, per_unit, limit })
    }

    /// The grid γ·Z.
    pub fn grid(&self) -> Grid {
        self.grid
    }

    /// The clip norm C.
    pub fn clip_norm(&self) -> f64 {
        self.clip_norm
    }

    /// The public weights w_j of the ellipsoid norm.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// The integer vector of a record; non-finite entries count as 0. `values` is used as scratch space, `out` is cleared and
    /// filled.
    ///
    /// # Panics
    /// If the record has another length than the weights.
    pub fn quantize(&self, values: &mut [f64], out: &mut Vec<i64>) {
        assert_eq!(values.len(), self.weights.len(), "one weight per coordinate");
        let room = 1.0 - (values.len() as f64 + 16.0) * 4.0 * UNIT;
        let mut largest = 0.0f64;
        for v in values.iter_mut() {
            if !v.is_finite() {
                *v = 0.0;
            }
            largest = largest.max(v.abs());
        }
        // beyond 1e100 squares could overflow, and every record is clipped: a positive multiple of it does as well
        let huge = largest > 1e100;
        if huge {
            values.iter_mut().for_each(|v| *v /= largest);
        }
        let norm = values.iter().zip(&self.weights).map(|(v, w)| (v * w).powi(2)).sum::<f64>().sqrt();
        if huge || norm > self.clip_norm * room {
            let factor = self.clip_norm * room / norm;
            values.iter_mut().for_each(|v| *v *= factor);
        }
        out.clear();
        out.extend(values.iter().zip(&self.weights).map(|(v, w)| {
            let most = self.limit / w;
            (v * self.per_unit).clamp(-most, most) as i64
        }));
        while !self.within(out) {
            for z in out.iter_mut() {
                let size = z.unsigned_abs();
                *z = z.signum() * (size - size.div_ceil(1 << 40)) as i64;
            }
        }
    }

    /// Whether ‖z‖_w ≤ C/γ is certain: |z| ≤ 2^48 is exact in f64; each term errs by two products, the sum by one addition
    /// each, so the true sum is at most the computed one times 1 + (n+8)·2^-52.
    fn within(&self, units: &[i64]) -> bool {
        let sum: f64 = units.iter().zip(&self.weights).map(|(&z, w)| (z as f64 * w).powi(2)).sum();
        // underflow of a square loses less than 2^-1022, which matters only beside sums as small
        sum * (1.0 + (units.len() as f64 + 8.0) * 2.0 * UNIT) + f64::MIN_POSITIVE
            <= self.limit * self.limit * (1.0 - 4.0 * UNIT)
            || units.iter().all(|z| *z == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_noise::{Norm, Quantizer};
    use proptest::prelude::*;

    #[test]
    fn bad_ellipsoids_are_refused() {
        let grid = Grid::new(-10);
        for (weights, clip) in
            [(vec![0.0], 1.0), (vec![-1.0], 1.0), (vec![f64::NAN], 1.0), (vec![1.0], 0.0), (vec![1.0], f64::INFINITY)]
        {
            assert!(EllipsoidQuantizer::new(&weights, clip, grid).is_err());
        }
        assert_eq!(EllipsoidQuantizer::new(&[1e-30], 1.0, grid).err(), Some(QuantizeError::GridTooFine));
    }

    #[test]
    fn odd_records() {
        let clip = EllipsoidQuantizer::new(&[1.0, 2.0, 4.0], 1.0, Grid::new(-10)).unwrap();
        let mut out = Vec::new();
        clip.quantize(&mut [f64::NAN, f64::INFINITY, 0.1], &mut out);
        assert_eq!(out, [0, 0, 102]);
        clip.quantize(&mut [f64::MAX, -f64::MAX, f64::MAX], &mut out);
        assert!(out[0] > 200 && (out[0] + out[1]).abs() <= 1, "{out:?}");
        clip.quantize(&mut [1e-300, 0.0, -5e-324], &mut out);
        assert_eq!(out, [0, 0, 0]);
    }

    proptest! {
        #[test]
        fn the_norm_never_exceeds_the_clip(
            entries in prop::collection::vec((prop_oneof![-1e3..1e3f64, any::<f64>()], 1u64..64), 1..40),
            clip in 1u64..1000,
            g in -24i32..4,
        ) {
            // integer weights and an integer C/γ: the exact norm is a sum of integers
            let weights: Vec<f64> = entries.iter().map(|e| e.1 as f64).collect();
            let grid = Grid::new(g);
            let ellipsoid = EllipsoidQuantizer::new(&weights, clip as f64 * grid.step(), grid).unwrap();
            let mut values: Vec<f64> = entries.iter().map(|e| e.0).collect();
            let mut out = Vec::new();
            ellipsoid.quantize(&mut values, &mut out);
            let exact: u128 = out.iter().zip(&entries).map(|(z, e)| (u128::from(z.unsigned_abs()) * u128::from(e.1)).pow(2)).sum();
            prop_assert!(exact <= u128::from(clip).pow(2));
        }

        #[test]
        fn a_ball_is_the_ellipsoid_of_equal_weights(values in prop::collection::vec(-10.0..10.0f64, 1..40), g in -30i32..-10) {
            let grid = Grid::new(g);
            let ball = Quantizer::new(Norm::L2, 1.5, grid).unwrap();
            let ellipsoid = EllipsoidQuantizer::new(&vec![1.0; values.len()], 1.5, grid).unwrap();
            let (mut a, mut b) = (Vec::new(), Vec::new());
            ball.quantize(&mut values.clone(), &mut a);
            ellipsoid.quantize(&mut values.clone(), &mut b);
            for (a, b) in a.iter().zip(&b) {
                prop_assert!((a - b).abs() <= 2, "{} {}", a, b);
            }
        }
    }
}
