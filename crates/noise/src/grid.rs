//! The public grid γ·Z on which sums and noise live (docs/proofs/rounded-gaussian.md).
//!
//! Adding noise that was rounded to the grid of an *integer* sum equals rounding (sum + continuous noise), so every
//! guarantee of the continuous mechanism carries over (docs/proofs/rounded-gaussian.md). Floating-point sums and
//! floating-point noise have no such property.

/// A grid of step γ = 2^exponent. Chosen from public facts only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    exponent: i32,
}

/// Largest |exponent|: the step, its inverse and their squares stay far from overflow.
const MAX_EXPONENT: i32 = 400;
/// log2 of the largest clip norm in grid steps that [`Quantizer`](crate::Quantizer) accepts.
pub(crate) const MAX_LOG2_CLIP: i32 = 48;

impl Grid {
    /// The grid of step 2^`exponent`; the exponent is brought into −400..=400.
    pub fn new(exponent: i32) -> Self {
        Self { exponent: exponent.clamp(-MAX_EXPONENT, MAX_EXPONENT) }
    }

    /// A grid for a sum of at most `max_records` vectors of norm at most `clip_norm` in `dimension` coordinates with noise
    /// of standard deviation `noise_std` (of the sum, per coordinate).
    ///
    /// The step is the largest power of two below 2^−6·σ/B, 2^−10·C/√d and 2^−10·σ: truncation then moves the sum by at
    /// most 1/64 of the noise and shrinks a record by at most 0.1%. If the sum could leave 62 bits on that grid, it is
    /// made coarser. Any grid is private; a bad one only costs accuracy. Arguments that are not positive and finite are
    /// ignored here (the quantizer and the sampler refuse them).
    pub fn for_sum(clip_norm: f64, noise_std: f64, max_records: u64, dimension: usize) -> Self {
        let usable = |x: f64| if x.is_finite() && x > 0.0 { x } else { f64::INFINITY };
        let records = max_records.max(1) as f64;
        let sigma = usable(noise_std);
        let clip = usable(clip_norm);
        let step =
            (sigma / (64.0 * records)).min(clip / (1024.0 * (dimension.max(1) as f64).sqrt())).min(sigma / 1024.0);
        if !(step.is_finite() && step > 0.0) {
            return Self::new(-20);
        }
        let known = |x: f64| if x.is_finite() { x } else { 0.0 };
        Self::new(floor_log2(step).max(least_exponent(known(clip), known(sigma), max_records)))
    }

    /// The finest grid with room for the sum of at most `max_records` squares x xᵀ of Frobenius norm at most `clip_norm`, with noise of standard deviation `noise_std`:
    /// rows are rounded to the root of its step. What is said [of a sum](Self::for_sum) about bad arguments holds here too.
    pub fn for_products(clip_norm: f64, noise_std: f64, max_records: u64) -> Self {
        let known = |x: f64| if x.is_finite() && x > 0.0 { x } else { 0.0 };
        match (known(clip_norm), known(noise_std)) {
            (0.0, 0.0) => Self::new(-20),
            (clip, sigma) => Self::new(least_exponent(clip, sigma, max_records)),
        }
    }

    /// g with γ = 2^g.
    pub fn exponent(self) -> i32 {
        self.exponent
    }

    /// The grid's step γ.
    pub fn step(self) -> f64 {
        power_of_two(self.exponent)
    }

    /// `units`·γ as a float; post-processing of a released integer.
    pub fn to_f64(self, units: i64) -> f64 {
        units as f64 * self.step()
    }
}

/// The least exponent with room in an i64: B·C/γ + 15σ/γ < 2^62, and C/γ < 2^48, σ/γ ≤ 2^57 for the quantizer and the sampler. What is 0 is not asked for.
fn least_exponent(clip: f64, sigma: f64, max_records: u64) -> i32 {
    let above = |x: f64| if x > 0.0 { floor_log2(x) + 1 } else { i32::MIN / 2 };
    let sum = if clip > 0.0 { max_records.max(1) as f64 * clip + 15.0 * sigma } else { 0.0 };
    (above(sum) - 62).max(above(clip) - MAX_LOG2_CLIP).max(above(sigma) - 57)
}

/// 2^`exponent` for |exponent| ≤ 1000.
pub fn power_of_two(exponent: i32) -> f64 {
    debug_assert!(exponent.abs() <= 1000);
    f64::from_bits(((1023 + exponent) as u64) << 52)
}

/// floor(log2 x) for a positive finite x, exactly for normal numbers.
pub fn floor_log2(x: f64) -> i32 {
    ((x.to_bits() >> 52) & 0x7ff) as i32 - 1023
}

/// x = mantissa·2^exponent exactly, for finite x ≥ 0; the mantissa is odd or 0.
pub fn dyadic(x: f64) -> (u64, i32) {
    let bits = x.to_bits();
    let biased = ((bits >> 52) & 0x7ff) as i32;
    let fraction = bits & ((1 << 52) - 1);
    let (mantissa, exponent) = if biased == 0 { (fraction, -1074) } else { (fraction | 1 << 52, biased - 1075) };
    if mantissa == 0 {
        return (0, 0);
    }
    let zeros = mantissa.trailing_zeros();
    (mantissa >> zeros, exponent + zeros as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_of_grids() {
        // (C, σ, B, d) → g
        for (clip, sigma, records, d, g) in [
            (1.0, 1.0, 4096, 1 << 20, -20),
            (1.0, 1.1, 256, 100_000, -19),
            (1.0, 4.2247, 1_000_000, 10_000, -24),
            (1.0, 50.0, 100_000, 10_000_000, -22),
        ] {
            assert_eq!(Grid::for_sum(clip, sigma, records, d).exponent(), g);
        }
        assert_eq!(Grid::new(-20).step(), 1.0 / 1048576.0);
    }

    #[test]
    fn the_sum_fits_and_bad_input_still_gives_a_grid() {
        for (clip, sigma, records) in [(1.0, 1e-9, 1 << 40), (1e100, 1e-30, 1), (1e-100, 1e100, u64::MAX)] {
            let grid = Grid::for_sum(clip, sigma, records, 10);
            let units = (records as f64 * clip + 15.0 * sigma) / grid.step();
            assert!(units < 2f64.powi(63), "{clip} {sigma} {records}: {units}");
            // of products it is the finest that fits
            let grid = Grid::for_products(clip, sigma, records);
            let fits = |step: f64| {
                (records as f64 * clip + 15.0 * sigma) / step < 2f64.powi(62)
                    && clip / step < 2f64.powi(MAX_LOG2_CLIP)
                    && sigma / step <= 2f64.powi(57)
            };
            assert!(fits(grid.step()) && !fits(grid.step() / 4.0), "{clip} {sigma} {records}");
        }
        for bad in [f64::NAN, 0.0, -1.0, f64::INFINITY] {
            assert!(Grid::for_sum(bad, bad, 0, 0).step() > 0.0);
            assert!(Grid::for_sum(1.0, bad, 0, 0).step() > 0.0);
            assert!(Grid::for_sum(bad, 1.0, 0, 0).step() > 0.0);
            for (clip, sigma) in [(bad, bad), (1.0, bad), (bad, 1.0)] {
                assert!(Grid::for_products(clip, sigma, 0).step() > 0.0);
            }
        }
    }

    #[test]
    fn dyadic_is_exact() {
        for x in [1.0, 0.1, 3.5, 1e300, 5e-324, 1.7976931348623157e308] {
            let (mantissa, exponent) = dyadic(x);
            assert_eq!(mantissa as f64 * 2f64.powi(exponent / 2) * 2f64.powi(exponent - exponent / 2), x);
        }
        assert_eq!(dyadic(0.0), (0, 0));
        assert_eq!(dyadic(12.0), (3, 2));
    }
}
