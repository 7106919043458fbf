//! The stream of correlated noises σ·C⁻¹z, rounded to the grid (docs/proofs/correlated.md, "Rounding").
//!
//! The noise path y = C⁻¹z is kept in integers of 2^-112, so that round(y·s) equals the rounding of the exact path except
//! near a cell's edge: with probability at most 2.02·κ/γ per value, κ the error of the path (docs/proofs/correlated.md).
use super::factor::{Factor, FactorError, Form, times_coefficient};
use crate::fixed::Fixed;
use crate::grid::{Grid, dyadic};
use crate::stream::Stream;
use crate::wide_normal::{FRACTION_BITS as PATH_BITS, WideNormal};
use dpopt_process::in_threads;
use rayon::prelude::*;

/// Coordinates per part of a step; a part has its own stream.
const PART: usize = 1 << 12;

/// Generates σ·(C⁻¹z)_t for t = 0, 1, …, for d coordinates. Not printable: its memory is noise.
pub struct CorrelatedNoise {
    factor: Factor,
    noise_std: f64,
    mantissa: u64,
    exponent: i32,
    max_steps: usize,
    step: usize,
    /// Past values (banded: y, banded inverse: z; newest first) or buffers s_i (BLT), per coordinate.
    memory: Vec<i128>,
    per_coordinate: usize,
    dimension: usize,
    /// Largest row sum of |C⁻¹|.
    growth: f64,
    normal: WideNormal,
}

impl CorrelatedNoise {
    /// Noise with z ~ N(0, `noise_std`²) per coordinate on `grid`, for at most `max_steps` steps.
    ///
    /// # Errors
    /// If the grid step is not between 2^-40 and 1/16 of `noise_std`, or C⁻¹ has rows of l1 norm above 2^8.
    pub fn new(
        factor: Factor,
        noise_std: f64,
        grid: Grid,
        dimension: usize,
        max_steps: usize,
    ) -> Result<Self, FactorError> {
        let s = noise_std / grid.step();
        if !(s >= 16.0 && s <= 2f64.powi(40)) {
            return Err(FactorError::Grid);
        }
        let (mantissa, exponent) = dyadic(noise_std);
        let growth: f64 = factor.inverse_coefficients(max_steps.max(1)).iter().map(|c| c.abs()).sum();
        // |y| and a buffer s exceed 16 of their standard deviations with probability below 2^-180 only
        let largest = 16.0 * growth * factor.buffer_deviation(max_steps).max(1.0);
        if !(growth <= 256.0 && largest < 2f64.powi(14)) {
            return Err(FactorError::Unstable);
        }
        let per_coordinate = match &factor.0 {
            Form::Banded(rest) | Form::InverseBanded(rest) => rest.len(),
            Form::Blt(pairs) => pairs.len(),
        };
        Ok(Self {
            factor,
            noise_std,
            mantissa,
            exponent: exponent - grid.exponent(),
            max_steps,
            step: 0,
            memory: vec![0; per_coordinate * dimension],
            per_coordinate,
            dimension,
            growth,
            normal: WideNormal::new(),
        })
    }

    /// Standard deviation σ of each normal variable z.
    pub fn noise_std(&self) -> f64 {
        self.noise_std
    }

    /// The factor C.
    pub fn factor(&self) -> &Factor {
        &self.factor
    }

    /// Upper bound on the total-variation distance of all `max_steps`·d values from a post-processing of the exact ones:
    /// N·(2.02·κ/γ + 5·2^-180) with κ = growth·(terms + 2 + buffer gain)·2^-112·σ. Put it into `Approximate`.
    pub fn total_variation(&self) -> f64 {
        let samples = self.max_steps as f64 * self.dimension as f64;
        let units = self.per_coordinate as f64 + 2.0 + self.factor.buffer_gain();
        let kappa_over_sigma = self.growth * units * 2f64.powi(-(PATH_BITS as i32));
        let steps_per_sigma = self.mantissa as f64 * 2f64.powi(self.exponent);
        samples * (2.02 * kappa_over_sigma * steps_per_sigma + 5.0 * 2f64.powi(-180)) * (1.0 + 1e-9)
    }

    /// Adds the noise of the next step to `sums` (integers on the grid), modulo 2^64. False, and nothing done, if all planned
    /// steps are used up.
    ///
    /// # Panics
    /// If `sums` has another dimension.
    #[must_use = "without noise nothing may be released"]
    pub fn add_next(&mut self, sums: &mut [i64], stream: &mut Stream) -> bool {
        assert_eq!(sums.len(), self.dimension, "one cell per coordinate");
        if self.step == self.max_steps {
            return false;
        }
        self.step += 1;
        let (mantissa, exponent, width) = (self.mantissa, self.exponent, self.per_coordinate);
        let (form, normal) = (&self.factor.0, &self.normal);
        let parts = stream.parts();
        let run = |(index, (part, memory)): (usize, (&mut [i64], &mut [i128]))| {
            let mut stream = parts.stream(index as u64);
            for (j, cell) in part.iter_mut().enumerate() {
                let own = &mut memory[j * width..(j + 1) * width];
                let y = advance(form, own, normal.sample(&mut stream));
                *cell = cell.wrapping_add(rounded(y, mantissa, exponent));
            }
        };
        if width == 0 {
            in_threads(|| sums.par_chunks_mut(PART).enumerate().for_each(|(i, part)| run((i, (part, &mut [])))));
        } else {
            let memory = &mut self.memory;
            in_threads(|| {
                let memory = memory.par_chunks_mut(PART * width);
                sums.par_chunks_mut(PART).zip(memory).enumerate().for_each(run);
            });
        }
        true
    }
}

/// One step of y = C⁻¹z for a coordinate. All products round down by less than a unit.
fn advance(form: &Form, memory: &mut [i128], z: i128) -> i128 {
    match form {
        Form::Banded(c) => {
            let y = c.iter().zip(memory.iter()).fold(z, |y, (&c, &past)| y.wrapping_sub(times_coefficient(past, c)));
            push(memory, y);
            y
        }
        Form::InverseBanded(c) => {
            let y = c.iter().zip(memory.iter()).fold(z, |y, (&c, &past)| y.wrapping_add(times_coefficient(past, c)));
            push(memory, z);
            y
        }
        Form::Blt(pairs) => {
            let y =
                pairs.iter().zip(memory.iter()).fold(z, |y, (pair, &s)| y.wrapping_sub(times_coefficient(s, pair.0)));
            for (pair, s) in pairs.iter().zip(memory.iter_mut()) {
                *s = times_coefficient(*s, pair.1).wrapping_add(y);
            }
            y
        }
    }
}

/// Adds `newest` to a memory whose first entry is the newest.
fn push(memory: &mut [i128], newest: i128) {
    if !memory.is_empty() {
        memory.rotate_right(1);
        memory[0] = newest;
    }
}

/// y·s rounded to the nearest integer, s = `mantissa`·2^`exponent`.
fn rounded(y: i128, mantissa: u64, exponent: i32) -> i64 {
    let size = y.unsigned_abs();
    // 112 of 128 fraction bits
    let x = Fixed::<3>([(size << 16) as u64, (size << 16 >> 64) as u64, (size >> PATH_BITS) as u64]);
    let k = x.scaled_and_rounded(mantissa, exponent) as i64;
    if y < 0 { -k } else { k }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NoiseSource, Purpose};

    fn path(factor: &Factor, z: &[i128]) -> Vec<i128> {
        let width = match &factor.0 {
            Form::Banded(rest) | Form::InverseBanded(rest) => rest.len(),
            Form::Blt(pairs) => pairs.len(),
        };
        let mut memory = vec![0; width];
        z.iter().map(|&z| advance(&factor.0, &mut memory, z)).collect()
    }

    #[test]
    fn streaming_forms_apply_the_inverse() {
        let mut stream = NoiseSource::insecure(1).stream(Purpose::Audit, 0);
        let n = 60;
        let normal = WideNormal::new();
        let z: Vec<i128> = (0..n).map(|_| normal.sample(&mut stream)).collect();
        let unit = 2f64.powi(-(PATH_BITS as i32));
        for factor in [
            Factor::identity(),
            Factor::square_root(n).unwrap(),
            Factor::square_root(7).unwrap(),
            Factor::inverse_square_root(5).unwrap(),
            Factor::blt_default(1).unwrap(),
            Factor::blt_default(4).unwrap(),
        ] {
            let inverse = factor.inverse_coefficients(n);
            for (t, y) in path(&factor, &z).into_iter().enumerate() {
                let expected: f64 = (0..=t).map(|j| inverse[t - j] * z[j] as f64 * unit).sum();
                assert!((y as f64 * unit - expected).abs() < 1e-13, "{factor:?} step {t}");
            }
        }
    }

    #[test]
    fn the_path_error_is_within_its_bound() {
        // the banded root applied to impulses: exact values are dyadic, so the error of the path is seen exactly
        let n = 40;
        let factor = Factor::square_root(n).unwrap();
        let mut z = vec![0i128; n];
        z[0] = 12345 << 90 | 987654321;
        let y = path(&factor, &z);
        // C y must give back z up to (terms + 1) units per step
        let coefficients = factor.coefficients(n);
        for t in 0..n {
            let units: Vec<i64> = coefficients.iter().map(|c| (c * 2f64.powi(62)).round() as i64).collect();
            let back: i128 = (0..=t).map(|j| times_coefficient(y[j], units[t - j])).sum();
            assert!((back - z[t]).abs() <= n as i128 + 1, "step {t}");
        }
    }

    #[test]
    fn law_of_a_step() {
        // variance of step t: Σ c'_j², and the covariance of neighbours
        let factor = Factor::blt_default(2).unwrap();
        let inverse = factor.inverse_coefficients(6);
        let (d, s) = (100_000, 1000.0);
        let mut noise = CorrelatedNoise::new(factor, s, Grid::new(0), d, 6).unwrap();
        let mut stream = NoiseSource::insecure(2).stream(Purpose::Correlated, 0);
        let mut steps = Vec::new();
        for _ in 0..6 {
            let mut sums = vec![0i64; d];
            assert!(noise.add_next(&mut sums, &mut stream));
            steps.push(sums);
        }
        assert!(!noise.add_next(&mut vec![0; d], &mut stream));
        for (a, b) in [(0usize, 0usize), (5, 5), (4, 5), (0, 5), (2, 4)] {
            let seen = steps[a].iter().zip(&steps[b]).map(|(x, y)| (x * y) as f64).sum::<f64>() / (d as f64 * s * s);
            let expected: f64 = (0..=a).map(|j| inverse[a - j] * inverse[b - j]).sum();
            // 5 standard deviations of a mean of products of unit-size normals: false alarm 6e-7
            assert!((seen - expected).abs() < 5.0 * (2.0 * 1.3 / d as f64).sqrt(), "{a} {b}: {seen} {expected}");
        }
        assert!(noise.total_variation() < 2f64.powi(-60));
    }

    #[test]
    fn the_bound_of_the_whole_stream() {
        // 2^30 values on a grid of 2^-20·σ
        let noise = CorrelatedNoise::new(Factor::blt_default(4).unwrap(), 1.0, Grid::new(-20), 1 << 10, 1 << 20);
        let bound = noise.unwrap().total_variation();
        assert!((2f64.powi(-56)..2f64.powi(-50)).contains(&bound), "{bound:e}");
        // a buffer that forgets too slowly could leave 128 bits
        let slow = Factor::blt(&[(0.5, 1.0 - 1e-15)]).unwrap();
        let refused = CorrelatedNoise::new(slow, 1.0, Grid::new(-20), 1, 1 << 20);
        assert!(matches!(refused, Err(FactorError::Unstable)));
    }

    #[test]
    fn threads_do_not_matter_and_bad_grids_are_refused() {
        let run = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let mut noise =
                CorrelatedNoise::new(Factor::square_root(4).unwrap(), 1.0, Grid::new(-20), 3 * PART + 5, 3).unwrap();
            let mut stream = NoiseSource::insecure(2).stream(Purpose::Correlated, 0);
            let mut sums = vec![0i64; 3 * PART + 5];
            pool.install(|| (0..3).for_each(|_| assert!(noise.add_next(&mut sums, &mut stream))));
            sums
        };
        assert_eq!(run(1), run(2));
        for (std, g) in [(1.0, -3), (1.0, -41), (f64::NAN, 0), (-1.0, -20)] {
            let refused = CorrelatedNoise::new(Factor::identity(), std, Grid::new(g), 1, 1);
            assert!(matches!(refused, Err(FactorError::Grid)));
        }
    }
}
