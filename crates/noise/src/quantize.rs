//! From a record to an integer vector whose norm is at most C *exactly* (docs/proofs/rounded-gaussian.md,
//! "Quantization").
//!
//! Clip in floating point, truncate toward zero, then check the norm of the integers without any rounding and shrink
//! them if it is too large (a float clip alone exceeds C for about half of all vectors). The sum of such integers
//! changes by exactly one record's vector, whatever the order of summation; it is formed with wrapping addition, because
//! reduction modulo 2^64 commutes with adding the noise, while a saturated or checked sum leaks.
use crate::grid::{Grid, MAX_LOG2_CLIP, dyadic, power_of_two};
use dpopt_lanes::{add_truncated, squared_norm, squared_norm_of};
use dpopt_process::stop::point;

/// Which norm bounds a record's contribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Norm {
    /// The Euclidean norm.
    L2,
    /// The sum of absolute values.
    L1,
    /// The largest absolute value.
    LInfinity,
}

/// A clip norm that can't be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuantizeError {
    /// The clip norm is not a positive finite number.
    #[error(
        "the clip norm is not a positive, finite number; rescale the data so that norms and clip norms are \
             nearer to 1"
    )]
    ClipNorm,
    /// The clip norm has too many grid steps.
    #[error(
        "the noise is too small compared with the clip norm for exact sums: the clip norm is 2^{MAX_LOG2_CLIP} steps \
         of its grid or more; lower epsilon, or rescale the data so that norms and clip norms are nearer to 1"
    )]
    GridTooFine,
}

/// Turns records into integer vectors z with norm(γ·z) ≤ C, exactly.
///
/// ```
/// use dpopt_noise::{Grid, Norm, Quantizer};
/// let quantizer = Quantizer::new(Norm::L2, 1.0, Grid::new(-20))?;
/// let mut integers = Vec::new();
/// quantizer.quantize(&mut [3.0, -4.0], &mut integers);
/// assert_eq!(integers, [629145, -838860]); // 0.6 and -0.8 in steps of 2^-20, toward zero
/// # Ok::<(), dpopt_noise::QuantizeError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantizer {
    norm: Norm,
    grid: Grid,
    clip_norm: f64,
    /// 1/γ: grid steps per unit of value.
    per_unit: f64,
    /// Largest integer (squared, for l2) norm: floor(C/γ) or floor((C/γ)²).
    limit: u128,
}

/// Length from which a vector is so long that a caller may stop the work within it.
const LONG: usize = 1 << 20;
/// Unit roundoff of f64.
const UNIT: f64 = f64::EPSILON / 2.0;

impl Quantizer {
    /// Contributions of norm at most `clip_norm` on `grid`.
    ///
    /// # Errors
    /// If `clip_norm` is not positive and finite, or is 2^48 grid steps or more.
    pub fn new(norm: Norm, clip_norm: f64, grid: Grid) -> Result<Self, QuantizeError> {
        if !(clip_norm.is_finite() && clip_norm > 0.0) {
            return Err(QuantizeError::ClipNorm);
        }
        let per_unit = power_of_two(-grid.exponent());
        let (mantissa, exponent) = dyadic(clip_norm);
        if clip_norm * per_unit >= power_of_two(MAX_LOG2_CLIP) {
            return Err(QuantizeError::GridTooFine);
        }
        let shift = exponent - grid.exponent();
        let limit = match norm {
            Norm::L2 => shifted(u128::from(mantissa) * u128::from(mantissa), 2 * shift),
            Norm::L1 | Norm::LInfinity => shifted(u128::from(mantissa), shift),
        };
        Ok(Self { norm, grid, clip_norm, per_unit, limit })
    }

    /// The grid γ·Z.
    pub fn grid(&self) -> Grid {
        self.grid
    }

    /// The norm that is bounded.
    pub fn norm(&self) -> Norm {
        self.norm
    }

    /// The clip norm C.
    pub fn clip_norm(&self) -> f64 {
        self.clip_norm
    }

    /// C in grid steps, rounded down: the largest change of any coordinate of the sum.
    pub fn max_units(&self) -> u64 {
        match self.norm {
            Norm::L2 => self.limit.isqrt() as u64,
            Norm::L1 | Norm::LInfinity => self.limit as u64,
        }
    }

    /// More than the size of every product of an entry with the factor that clips its row, before it is truncated: for [`add_truncated`].
    #[inline]
    pub fn bound(&self) -> f64 {
        2.0 * self.clip_norm * self.per_unit
    }

    /// The integer vector of a dense record. `values` is used as scratch space (it ends up clipped); non-finite entries
    /// count as 0. `out` is cleared and filled; no allocation once it has the capacity.
    pub fn quantize(&self, values: &mut [f64], out: &mut Vec<i64>) {
        let long = values.len() >= LONG;
        if long {
            point();
        }
        self.clip_floats(values);
        out.clear();
        out.extend(values.iter().map(|v| (v * self.per_unit) as i64));
        if long {
            point();
        }
        self.enforce(out);
    }

    /// The integer vector of a sparse record. Entries are sorted by index and equal indices are merged first: two entries
    /// of one index would pass the check one by one and move the sum by their total.
    pub fn quantize_sparse(&self, entries: &mut Vec<(u32, f64)>, indices: &mut Vec<u32>, out: &mut Vec<i64>) {
        for entry in entries.iter_mut() {
            if !entry.1.is_finite() {
                entry.1 = 0.0;
            }
        }
        entries.sort_by_key(|entry| entry.0);
        entries.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 += next.1;
            }
            same
        });
        let mut values: Vec<f64> = entries.iter().map(|entry| entry.1).collect();
        self.quantize(&mut values, out);
        indices.clear();
        indices.extend(entries.iter().map(|entry| entry.0));
    }

    /// Floating-point part: makes values finite and their norm about C or less, in place.
    fn clip_floats(&self, values: &mut [f64]) {
        let mut largest = 0.0f64;
        for v in values.iter_mut() {
            if !v.is_finite() {
                *v = 0.0;
            }
            largest = largest.max(v.abs());
        }
        if largest > 1e100 {
            // squares would overflow: first to at most 1, which is a positive multiple of the record
            for v in values.iter_mut() {
                *v /= largest;
            }
            // then up to C, if that is what the clip would give (C is far below `largest` or the grid is absurd)
            let target = self.clip_norm.min(1e100);
            for v in values.iter_mut() {
                *v *= target;
            }
        }
        let norm = match self.norm {
            Norm::L2 => values.iter().map(|v| v * v).sum::<f64>().sqrt(),
            Norm::L1 => values.iter().map(|v| v.abs()).sum(),
            Norm::LInfinity => values.iter().fold(0.0, |m: f64, v| m.max(v.abs())),
        };
        if norm > self.clip_norm {
            let factor = self.clip_norm / norm;
            for v in values.iter_mut() {
                *v = (*v * factor).clamp(-self.clip_norm, self.clip_norm);
            }
        }
    }

    /// Whether the integer vector is within the limit, decided exactly.
    fn within(&self, quanta: &[i64]) -> bool {
        match self.norm {
            Norm::L2 => {
                // |z| ≤ 2^48 here, so z as f64 is exact; the float sum errs by less than (n+1)·2^-53, relatively
                let sum: f64 = quanta.iter().map(|&z| z as f64 * z as f64).sum();
                if sum * (1.0 + (quanta.len() as f64 + 4.0) * 2.0 * UNIT) < self.limit as f64 * (1.0 - 4.0 * UNIT) {
                    return true;
                }
                let exact: u128 = quanta.iter().map(|z| u128::from(z.unsigned_abs()).pow(2)).sum();
                exact <= self.limit
            }
            Norm::L1 => quanta.iter().map(|z| u128::from(z.unsigned_abs())).sum::<u128>() <= self.limit,
            Norm::LInfinity => quanta.iter().all(|z| u128::from(z.unsigned_abs()) <= self.limit),
        }
    }

    /// Shrinks the integers until the norm is within the limit; each pass lowers every non-zero entry.
    fn enforce(&self, quanta: &mut [i64]) {
        while !self.within(quanta) {
            for z in quanta.iter_mut() {
                let size = z.unsigned_abs();
                let less = size - size.div_ceil(1 << 40);
                *z = z.signum() * less as i64;
            }
        }
    }

    /// Adds `scale`·row to a sum of integers, clipped to l2 norm C: the hot loop of linear models, whose per-record
    /// gradient is a scalar times the row. Columns are `indices` (strictly increasing; anything else is merged first, on
    /// a slower path) and `values`. Never allocates on the fast path.
    ///
    /// The bound norm(γz) ≤ C holds exactly, by proof instead of by a second pass: with N² = Σv² (f32 squares are exact
    /// in f64, the computed sum is at least N²(1 − n·2^-53)), the factor t is made at most (C/γ)·(1 − (n+8)·2^-52)/N of the computed N, up to three roundings, so
    /// each product fl(t·v) is at most |t·v|·(1 + 2^-53) in size, and truncation only lowers it.
    ///
    /// # Panics
    /// If the quantizer's norm is not l2, or an index is outside `sum` (bugs of the caller, independent of values).
    pub fn add_scaled_row(&self, scale: f64, indices: &[u32], values: &[f32], sum: &mut [i64]) {
        assert_eq!(indices.len(), values.len(), "one column per value");
        let increasing = indices.windows(2).fold(true, |all, pair| all & (pair[0] < pair[1]));
        let factor = self.factor(scale, squared_norm(values), values.len());
        match factor {
            Some(factor)
                if increasing
                    && indices.len() == sum.len()
                    && indices.last().is_none_or(|&last| (last as usize) < sum.len()) =>
            {
                add_truncated(values, factor, self.bound(), sum)
            }
            Some(factor) if increasing => {
                for (&index, &value) in indices.iter().zip(values) {
                    let cell = &mut sum[index as usize];
                    *cell = cell.wrapping_add((factor * f64::from(value)) as i64);
                }
            }
            _ => {
                let mut entries: Vec<(u32, f64)> =
                    indices.iter().zip(values).map(|(&i, &v)| (i, scale * f64::from(v))).collect();
                let (mut merged, mut quanta) = (Vec::new(), Vec::new());
                self.quantize_sparse(&mut entries, &mut merged, &mut quanta);
                for (&index, unit) in merged.iter().zip(quanta) {
                    sum[index as usize] = sum[index as usize].wrapping_add(unit);
                }
            }
        }
    }

    /// t such that truncating t·v_j gives the integers of `scale`·row clipped to l2 norm C: for callers that add them up
    /// themselves. Only for rows whose columns are all different (else the sum of equal columns would exceed C); the proof is
    /// that of [`add_scaled_row`](Self::add_scaled_row). `None`: take [`quantize_sparse`](Self::quantize_sparse).
    ///
    /// # Panics
    /// If the quantizer's norm is not l2.
    #[inline]
    pub fn row_factor(&self, scale: f64, values: &[f32]) -> Option<f64> {
        self.factor(scale, squared_norm(values), values.len())
    }

    /// t such that truncating t·v_j gives the integers of an f64 vector of distinct coordinates, clipped to l2 norm C. The
    /// squares are rounded too, each by 2^-53 relatively, which the eight spare roundings of [`row_factor`](Self::row_factor)'s
    /// proof cover. `None`: take [`quantize`](Self::quantize).
    ///
    /// # Panics
    /// If the quantizer's norm is not l2.
    #[inline]
    pub fn vector_factor(&self, values: &[f64]) -> Option<f64> {
        let squared = squared_norm_of(values);
        // squares below 2^-1022 lose digits: nothing beside a sum that is not tiny itself. If all are 0, no entry reaches 2^-537, and no grid is finer than 2^-400
        if squared > 0.0 && squared < 1e-200 { None } else { self.factor(1.0, squared, values.len()) }
    }

    /// [`vector_factor`](Self::vector_factor), but none either for a vector whose norm is C up to rounding: [`quantize`](Self::quantize) has no use for the factor's spare
    /// roundings, so that a vector at its clip norm loses nothing.
    ///
    /// # Panics
    /// If the quantizer's norm is not l2.
    #[inline]
    pub fn factor_off_the_norm(&self, values: &[f64]) -> Option<f64> {
        let at_the_norm = |factor: f64| factor < self.per_unit && factor > self.per_unit * (1.0 - 1e-9);
        self.vector_factor(values).filter(|&factor| !at_the_norm(factor))
    }

    /// t such that truncating t·v_j gives the clipped integers, or `None` where only the general path is proved.
    ///
    /// # Panics
    /// If the quantizer's norm is not l2.
    #[inline]
    fn factor(&self, scale: f64, squared_norm: f64, entries: usize) -> Option<f64> {
        assert_eq!(self.norm, Norm::L2, "rows are clipped in l2");
        let quanta = scale * self.per_unit; // exact unless it over- or underflows: a power of two
        // below 1e-200 an f32 row is zero; 2^28 entries keep the error term far below 1
        let usable = quanta.is_finite() && squared_norm.is_finite() && entries < 1 << 28;
        if !usable {
            return None;
        }
        // nothing to clip, and no quotient: with an extreme scale it would be no number
        if squared_norm == 0.0 {
            return Some(0.0);
        }
        let limit = self.clip_norm * self.per_unit * (1.0 - (entries as f64 + 8.0) * 2.0 * UNIT) / squared_norm.sqrt();
        Some(if quanta.abs() <= limit { quanta } else { limit.copysign(quanta) })
    }
}

/// floor(x·2^shift), for results below 2^128.
fn shifted(x: u128, shift: i32) -> u128 {
    match shift {
        0.. => x << shift,
        -127..0 => x >> -shift,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn l2_squared(quanta: &[i64]) -> u128 {
        quanta.iter().map(|z| u128::from(z.unsigned_abs()).pow(2)).sum()
    }

    /// A row of zeros under extreme scales, clip norms and grids: no number may reach a cell.
    #[test]
    fn rows_of_zeros_add_nothing() {
        for (clip_norm, grid) in [(1.0, -27), (1e-300, 400), (1.0, 0)] {
            let Ok(quantizer) = Quantizer::new(Norm::L2, clip_norm, Grid::new(grid)) else { continue };
            for scale in [0.0, 1.0, -1.3e308, 1.3e308 / 2f64.powi(27), f64::MAX, f64::INFINITY, f64::NAN] {
                let mut sum = vec![3i64; 20];
                quantizer.add_scaled_row(scale, &(0..20).collect::<Vec<u32>>(), &[0.0; 20], &mut sum);
                assert_eq!(sum, vec![3; 20], "{clip_norm} {grid} {scale}");
            }
        }
    }

    #[test]
    fn limits_are_exact() {
        let limit = |norm, clip, g| Quantizer::new(norm, clip, Grid::new(g)).unwrap().limit;
        assert_eq!(limit(Norm::L2, 1.0, -20), 1 << 40);
        assert_eq!(limit(Norm::L2, 1.5, 0), 2); // 2.25
        assert_eq!(limit(Norm::L2, 0.1, -47), 198070406285660865974092431); // floor of the exact square of the f64 0.1·2^47
        assert_eq!(limit(Norm::L1, 3.75, 0), 3);
        assert_eq!(limit(Norm::L2, 1e-300, 0), 0);
        assert_eq!(Quantizer::new(Norm::L2, 1.0, Grid::new(-48)), Err(QuantizeError::GridTooFine));
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(Quantizer::new(Norm::L1, bad, Grid::new(0)), Err(QuantizeError::ClipNorm));
        }
    }

    #[test]
    fn odd_records() {
        let q = Quantizer::new(Norm::L2, 1.0, Grid::new(-10)).unwrap();
        let mut out = Vec::new();
        q.quantize(&mut [f64::NAN, f64::INFINITY, 0.5], &mut out);
        assert_eq!(out, [0, 0, 512]);
        q.quantize(&mut [f64::MAX, -f64::MAX], &mut out);
        assert_eq!(out, [724, -724]);
        q.quantize(&mut [5e-324, -1e-300], &mut out);
        assert_eq!(out, [0, 0]);
        q.quantize(&mut [], &mut out);
        assert!(out.is_empty());
    }

    #[test]
    fn repeated_indices_count_once() {
        let q = Quantizer::new(Norm::L2, 1.0, Grid::new(-20)).unwrap();
        let half = 0.5f32.sqrt();
        let mut sum = vec![0i64; 3];
        q.add_scaled_row(1.0, &[1, 1], &[half, half], &mut sum);
        assert!(l2_squared(&sum) <= 1 << 40 && sum[1] > 1_048_000, "moved by at most C, not √2·C: {sum:?}");
    }

    #[test]
    fn overflow_wraps() {
        let q = Quantizer::new(Norm::L2, 1.0, Grid::new(-20)).unwrap();
        let mut sum = vec![i64::MAX];
        q.add_scaled_row(1.0, &[0], &[1.0], &mut sum);
        assert!(sum[0] < 0, "no saturation");
    }

    proptest! {
        #[test]
        fn the_norm_never_exceeds_the_clip(
            mut values in prop::collection::vec(prop_oneof![-1e3..1e3f64, any::<f64>()], 0..40),
            clip in 1e-3..1e3f64,
            g in -36i32..4,
        ) {
            let grid = Grid::new(g);
            let mut out = Vec::new();
            let (mantissa, exponent) = dyadic(clip);
            let mut copy = values.clone();
            let of = |norm| Quantizer::new(norm, clip, grid).unwrap();
            of(Norm::L2).quantize(&mut copy, &mut out);
            prop_assert!(l2_squared(&out) <= shifted(u128::from(mantissa).pow(2), 2 * (exponent - g)));
            let mut copy = values.clone();
            of(Norm::L1).quantize(&mut copy, &mut out);
            let limit = shifted(u128::from(mantissa), exponent - g);
            prop_assert!(out.iter().map(|z| u128::from(z.unsigned_abs())).sum::<u128>() <= limit);
            of(Norm::LInfinity).quantize(&mut values, &mut out);
            prop_assert!(out.iter().all(|z| u128::from(z.unsigned_abs()) <= limit));
        }

        #[test]
        fn vectors_never_exceed_the_clip_and_stay_close(
            mut values in prop::collection::vec(prop_oneof![-1e3..1e3f64, -1e-3..1e-3f64, any::<f64>()], 1..60),
            g in -36i32..0,
        ) {
            let q = Quantizer::new(Norm::L2, 1.5, Grid::new(g)).unwrap();
            let Some(factor) = q.vector_factor(&values) else { return Ok(()) };
            let quanta: Vec<i64> = values.iter().map(|v| (factor * v) as i64).collect();
            prop_assert!(l2_squared(&quanta) <= q.limit);
            let mut general = Vec::new();
            q.quantize(&mut values, &mut general);
            for (a, b) in quanta.iter().zip(&general) {
                prop_assert!((a - b).abs() <= 2, "{} {}", a, b);
            }
        }

        #[test]
        fn scaled_rows_never_exceed_the_clip_and_stay_close(
            row in prop::collection::vec(-1e3..1e3f32, 1..60),
            scale in prop_oneof![-1e-6..1e-6f64, -1e3..1e3f64, any::<f64>()],
            g in -36i32..0,
        ) {
            let q = Quantizer::new(Norm::L2, 1.5, Grid::new(g)).unwrap();
            let indices: Vec<u32> = (0..row.len() as u32).collect();
            let mut sparse = vec![0i64; row.len()];
            q.add_scaled_row(scale, &indices, &row, &mut sparse);
            prop_assert!(l2_squared(&sparse) <= q.limit);
            // a row among columns that it has no entry in goes the other way
            let mut wider = vec![0i64; row.len() + 1];
            q.add_scaled_row(scale, &indices, &row, &mut wider);
            prop_assert_eq!(&sparse[..], &wider[..row.len()]);
            // the general path agrees to one unit plus rounding of the clip factor
            if scale.is_finite() && scale.abs() < 1e50 {
                let mut values: Vec<f64> = row.iter().map(|&v| scale * f64::from(v)).collect();
                let mut general = Vec::new();
                q.quantize(&mut values, &mut general);
                for (a, b) in sparse.iter().zip(&general) {
                    prop_assert!((a - b).abs() <= 2, "{} {}", a, b);
                }
            }
        }
    }

    #[test]
    fn a_float_clip_alone_exceeds_the_norm() {
        // the injected fault (round to nearest after a float clip) fails, the quantizer does not
        let mut stream = crate::NoiseSource::insecure(4).stream(crate::Purpose::Audit, 0);
        let q = Quantizer::new(Norm::L2, 1.0, Grid::new(-30)).unwrap();
        let (mut bug, mut out) = (0, Vec::new());
        for _ in 0..400 {
            let mut v: Vec<f64> = (0..50).map(|_| stream.below(1 << 53) as f64 - 2f64.powi(52)).collect();
            let norm = v.iter().map(|x| x * x).sum::<f64>().sqrt();
            let nearest: Vec<i64> = v.iter().map(|x| (x / norm * 2f64.powi(30)).round() as i64).collect();
            bug += u32::from(l2_squared(&nearest) > 1 << 60);
            q.quantize(&mut v, &mut out);
            assert!(l2_squared(&out) <= 1 << 60);
        }
        assert!((120..280).contains(&bug), "about half of the float-clipped vectors exceed C: {bug} of 400");
    }
}
