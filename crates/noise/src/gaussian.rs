//! Rounded Gaussian noise round(N(0, σ²)/γ), exact up to 2^-110 in total variation per sample (docs/proofs/rounded-gaussian.md).
use crate::fixed::Fixed;
use crate::gaussian_block::BlockTable;
use crate::grid::{Grid, dyadic};
use crate::stream::Stream;
use crate::ziggurat::{Point, WIDTH_BITS, table};
use dpopt_process::in_threads;
use dpopt_process::stop::Stop;
use rayon::prelude::*;
use zeroize::Zeroize;

/// Cells per part of a large job; each part has its own stream, so the bits don't depend on the number of threads.
const PART: usize = 1 << 15;

/// Random words of a block.
const BLOCK: usize = 512;

/// Bound on |x·s·2^e − high product word| on the fast path: the 9 low bits of the word are not digits and 2^-55 of the
/// position is not drawn yet (both within the same 2^9·M/2^64 < 2^8, as M < 2^63), M is cut (1), the low product word is
/// dropped (1).
const SPREAD: u64 = 260;

/// A noise scale that can't be sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoiseScaleError {
    /// The standard deviation is not a positive finite number.
    #[error(
        "the standard deviation of the noise is not a positive, finite number; give an epsilon nearer to 1, or \
         rescale the data so that norms and clip norms are nearer to 1"
    )]
    NotPositive,
    /// The noise is too small for its grid: σ/γ < 1/4.
    #[error(
        "the noise is too small to be drawn exactly: it is below a quarter of a step of its grid; lower epsilon, or \
         rescale the data so that norms and clip norms are nearer to 1"
    )]
    GridTooCoarse,
    /// The noise is too large for its grid: σ/γ > 2^57.
    #[error(
        "the noise is too large to be drawn exactly: it is above 2^57 steps of its grid; give an epsilon nearer to \
         1, or rescale the data so that norms and clip norms are nearer to 1"
    )]
    GridTooFine,
}

/// round(N(0, σ²)/γ) as an integer. Added to an integer sum of sensitivity C (in units of the value, C/γ in steps) this
/// is a post-processing of the continuous Gaussian mechanism: event `Gaussian(σ/C)`.
///
/// ```
/// use dpopt_noise::{Grid, NoiseSource, Purpose, RoundedGaussian};
/// let grid = Grid::new(-20);
/// let noise = RoundedGaussian::new(1.5, grid)?;
/// let mut stream = NoiseSource::insecure(1).stream(Purpose::Noise, 0);
/// let mut sum = vec![0i64; 100];
/// noise.add_to(&mut sum, &mut stream);
/// assert!(sum.iter().any(|&z| grid.to_f64(z).abs() > 0.1));
/// # Ok::<(), dpopt_noise::NoiseScaleError>(())
/// ```
#[derive(Clone)]
pub struct RoundedGaussian {
    noise_std: f64,
    grid: Grid,
    /// s = σ/γ = mantissa·2^exponent.
    mantissa: u64,
    exponent: i32,
    /// Per piece: C_i·2^9 and floor(W_i·s·2^e).
    pieces: Box<[(u64, u64); 256]>,
    /// e: number of fraction bits of the widths.
    fraction_bits: u32,
    /// The pieces as tables for whole blocks of samples; `None` where s is very large.
    block: Option<BlockTable>,
}

impl RoundedGaussian {
    /// Noise of standard deviation `noise_std` (of the sum, per coordinate) on `grid`. Takes about a microsecond; the first
    /// call of the process also builds and certifies a table (a few milliseconds).
    ///
    /// # Errors
    /// If `noise_std` is not positive and finite, or σ/γ is outside \[1/4, 2^57\].
    pub fn new(noise_std: f64, grid: Grid) -> Result<Self, NoiseScaleError> {
        if !(noise_std.is_finite() && noise_std > 0.0) {
            return Err(NoiseScaleError::NotPositive);
        }
        let (mantissa, exponent) = dyadic(noise_std);
        let exponent = exponent - grid.exponent();
        // s = σ/γ lies in [2^(top-1), 2^top)
        let top = exponent + 64 - mantissa.leading_zeros() as i32;
        if top < -1 {
            return Err(NoiseScaleError::GridTooCoarse);
        }
        if top > 57 {
            return Err(NoiseScaleError::GridTooFine);
        }
        // W_i < 4, so W_i·s·2^e < 2^63 for this e in 4..=62
        let fraction_bits = (61 - top) as u32;
        let shift = WIDTH_BITS as i32 - exponent - fraction_bits as i32;
        let mut pieces = Box::new([(0, 0); 256]);
        for (entry, (core, width)) in pieces.iter_mut().zip(table().cores_and_widths()) {
            *entry = (core, ((u128::from(width) * u128::from(mantissa)) >> shift) as u64);
        }
        let block = BlockTable::new(&pieces, fraction_bits);
        Ok(Self { noise_std, grid, mantissa, exponent, pieces, fraction_bits, block })
    }

    /// Standard deviation σ of the noise.
    pub fn noise_std(&self) -> f64 {
        self.noise_std
    }

    /// The grid γ·Z.
    pub fn grid(&self) -> Grid {
        self.grid
    }

    /// Upper bound on the total-variation distance of one sample from the exact law: 2^-110. With N samples (N a public
    /// bound, never the realised number) δ grows by (1 + e^ε)·N·2^-110.
    pub fn total_variation_per_sample(&self) -> f64 {
        2f64.powi(-110)
    }

    /// One sample, in grid steps.
    #[inline]
    pub fn sample(&self, stream: &mut Stream) -> i64 {
        let word = stream.word();
        self.fast(word).unwrap_or_else(|| self.slow(word, stream))
    }

    /// round(x·s) of a half-normal point.
    pub(crate) fn round_point(&self, point: &mut Point, stream: &mut Stream) -> i64 {
        point.rounded(self.mantissa, self.exponent, stream) as i64
    }

    /// round(s·`numerator`/`denominator`) for a fraction below 64: the largest |sample| of a point up to there.
    pub fn units_at(&self, numerator: u64, denominator: u64) -> u64 {
        Fixed::<4>::integer(numerator).over_integer(denominator).scaled_and_rounded(self.mantissa, self.exponent)
    }

    /// Adds independent samples to every cell, modulo 2^64. Long slices are divided among threads; the result
    /// does not depend on how many there are.
    pub fn add_to(&self, sums: &mut [i64], stream: &mut Stream) {
        if sums.len() <= PART {
            self.add_run(sums, stream);
        } else {
            let parts = stream.parts();
            let stop = Stop::here();
            let add = |(index, part): (usize, &mut [i64])| {
                stop.point();
                self.add_run(part, &mut parts.stream(index as u64));
            };
            in_threads(|| sums.par_chunks_mut(PART).enumerate().for_each(add));
        }
    }

    /// `sums` with the noise that [`add_to`](Self::add_to) adds, as numbers on `grid`: without a second copy of all cells.
    pub fn noisy(&self, sums: &[i64], grid: Grid, stream: &mut Stream) -> Vec<f64> {
        let mut out = vec![0.0; sums.len()];
        let with_noise = |sums: &[i64], out: &mut [f64], stream: &mut Stream| {
            let mut cells = sums.to_vec();
            self.add_run(&mut cells, stream);
            out.iter_mut().zip(cells).for_each(|(value, z)| *value = grid.to_f64(z));
        };
        if sums.len() <= PART {
            with_noise(sums, &mut out, stream);
        } else {
            let parts = stream.parts();
            let stop = Stop::here();
            let add = |(index, (sums, out)): (usize, (&[i64], &mut [f64]))| {
                stop.point();
                with_noise(sums, out, &mut parts.stream(index as u64));
            };
            in_threads(|| sums.par_chunks(PART).zip(out.par_chunks_mut(PART)).enumerate().for_each(add));
        }
        out
    }

    /// One stream, one thread. Words are taken in blocks; those that don't decide their sample are finished afterwards, in
    /// order, with the words that follow the block.
    fn add_run(&self, sums: &mut [i64], stream: &mut Stream) {
        let Some(block) = &self.block else {
            for cell in sums {
                *cell = cell.wrapping_add(self.sample(stream));
            }
            return;
        };
        let mut open = [0u16; BLOCK];
        let mut open_words = [0u64; BLOCK];
        let mut rest = sums;
        while !rest.is_empty() {
            let words = stream.unread();
            let count = words.len().min(rest.len()).min(BLOCK);
            let (cells, after) = rest.split_at_mut(count);
            let undecided = block.add(&words[..count], cells, &mut open[..count]);
            for (word, &k) in open_words.iter_mut().zip(&open[..undecided]) {
                *word = words[usize::from(k)];
            }
            stream.consume(count);
            for (&k, &word) in open[..undecided].iter().zip(&open_words) {
                let cell = &mut cells[usize::from(k)];
                *cell = cell.wrapping_add(self.fast(word).unwrap_or_else(|| self.slow(word, stream)));
            }
            rest = after;
        }
        open_words.zeroize();
    }

    /// For tests: the sample of an accepted word from 256 digits.
    #[cfg(test)]
    pub(crate) fn exact_sample_of(&self, word: u64, stream: &mut Stream) -> i64 {
        let size = table().point(word, stream).unwrap().rounded(self.mantissa, self.exponent, stream) as i64;
        if word >> 8 & 1 == 1 { -size } else { size }
    }

    /// The table for blocks, for tests.
    #[cfg(test)]
    pub(crate) fn block_table(&self) -> Option<&BlockTable> {
        self.block.as_ref()
    }

    /// The sample, if 64 bits decide it: the point lies in the core of its piece, and all numbers with these first digits
    /// round alike.
    #[inline(always)]
    fn fast(&self, word: u64) -> Option<i64> {
        let (core, width) = self.pieces[(word & 255) as usize];
        let size = self.rounded(width, word);
        let sign = -((word >> 8 & 1) as i64);
        if word < core { size.map(|size| (size ^ sign) - sign) } else { None }
    }

    /// round(x·s) from the piece's scaled width and the first digits of the position, if all numbers with these digits
    /// round alike.
    #[inline(always)]
    fn rounded(&self, width: u64, position: u64) -> Option<i64> {
        let high = ((u128::from(width) * u128::from(position)) >> 64) as u64;
        // x·s·2^e lies within SPREAD of high; + ½ to round
        let shifted = high + (1 << (self.fraction_bits - 1));
        let room = (1u64 << self.fraction_bits).saturating_sub(2 * SPREAD);
        let fraction = shifted & ((1 << self.fraction_bits) - 1);
        (fraction.wrapping_sub(SPREAD) < room).then_some((shifted >> self.fraction_bits) as i64)
    }

    #[cold]
    fn slow(&self, mut word: u64, stream: &mut Stream) -> i64 {
        loop {
            if let Some(mut point) = table().point(word, stream) {
                let quick = match &point {
                    Point::Scaled(_, u) => self.rounded(self.pieces[(word & 255) as usize].1, u.first_word()),
                    Point::Tail(_) | Point::Beyond { .. } => None,
                };
                let size = quick.unwrap_or_else(|| point.rounded(self.mantissa, self.exponent, stream) as i64);
                return if word >> 8 & 1 == 1 { -size } else { size };
            }
            word = stream.word();
            if let Some(sample) = self.fast(word) {
                return sample;
            }
        }
    }
}

impl std::fmt::Debug for RoundedGaussian {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RoundedGaussian").field("noise_std", &self.noise_std).field("grid", &self.grid).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NoiseSource, Purpose};

    #[test]
    fn bad_scales_are_refused() {
        let new = |s, g| RoundedGaussian::new(s, Grid::new(g)).map(|_| ());
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(new(bad, 0), Err(NoiseScaleError::NotPositive));
        }
        assert_eq!(new(0.2499, 0), Err(NoiseScaleError::GridTooCoarse));
        assert_eq!(new(0.25, 0), Ok(()));
        assert_eq!(new(1.0, -56), Ok(()));
        assert_eq!(new(1.0, -57), Err(NoiseScaleError::GridTooFine));
    }

    #[test]
    fn same_law_as_the_reference_sampler() {
        // two-sample chi-square against rejection from the exponential law, at scales with and without slow roundings
        let mut stream = NoiseSource::insecure(9).stream(Purpose::Audit, 0);
        for (noise_std, grid) in [(0.25, 0), (0.75, 0), (3.3, 0), (1.0, -57 + 1)] {
            let noise = RoundedGaussian::new(noise_std, Grid::new(grid)).unwrap();
            let unit = (noise_std / Grid::new(grid).step() / 4.0).max(1.0);
            let cell = |z: i64| ((z as f64 / unit).round() as i64).clamp(-12, 12) + 12;
            let (mut ours, mut reference) = ([0f64; 25], [0f64; 25]);
            for _ in 0..40_000 {
                ours[cell(noise.sample(&mut stream)) as usize] += 1.0;
                let size = crate::exact_normal::rounded_half_normal(noise.mantissa, noise.exponent, &mut stream) as i64;
                reference[cell(if stream.coin() { -size } else { size }) as usize] += 1.0;
            }
            let (mut chi2, mut cells) = (0.0, 0.0);
            for (a, b) in ours.iter().zip(&reference).filter(|(a, b)| *a + *b >= 20.0) {
                chi2 += (a - b) * (a - b) / (a + b);
                cells += 1.0;
            }
            let limit = cells + 2.0 * (15.2f64 * cells).sqrt() + 30.4; // Laurent–Massart, false alarm below 2.5e-7
            assert!(chi2 < limit, "{noise_std}: {chi2} with {cells} cells");
        }
    }

    #[test]
    fn the_fast_path_rounds_exactly() {
        // every decision of the fast path against 256-digit intervals
        let mut stream = NoiseSource::insecure(10).stream(Purpose::Audit, 0);
        for (noise_std, grid) in [(0.25, 0), (1.3, -20), (1.7, -40), (1.0, -50)] {
            let noise = RoundedGaussian::new(noise_std, Grid::new(grid)).unwrap();
            let mut fast = 0;
            for _ in 0..5000 {
                let word = stream.word();
                if let Some(sample) = noise.fast(word) {
                    let mut point = table().point(word, &mut stream).unwrap();
                    let exact = point.rounded(noise.mantissa, noise.exponent, &mut stream) as i64;
                    assert_eq!(sample, if word >> 8 & 1 == 1 { -exact } else { exact });
                    fast += 1;
                }
            }
            assert!(fast > 1000 || grid == -50, "{noise_std}: {fast}");
        }
    }

    #[test]
    fn parts_do_not_depend_on_threads() {
        let noise = RoundedGaussian::new(2.0, Grid::new(-10)).unwrap();
        let stream = || NoiseSource::insecure(3).stream(Purpose::Noise, 0);
        let run = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let mut sums = vec![0i64; 5 * PART + 17];
            pool.install(|| noise.add_to(&mut sums, &mut stream()));
            sums
        };
        let one = run(1);
        assert_eq!(one, run(2));
        assert_eq!(one, run(8));
    }

    #[test]
    fn numbers_with_noise_are_the_sums_with_noise() {
        let grid = Grid::new(-10);
        let noise = RoundedGaussian::new(2.0, grid).unwrap();
        for len in [0, 1, 700, PART, 3 * PART + 5] {
            let sums: Vec<i64> = (0..len as i64).map(|j| j * 1001 - 7).collect();
            let mut added = sums.clone();
            noise.add_to(&mut added, &mut NoiseSource::insecure(3).stream(Purpose::Noise, 0));
            let numbers = noise.noisy(&sums, grid, &mut NoiseSource::insecure(3).stream(Purpose::Noise, 0));
            assert!(len == 0 || added != sums);
            assert_eq!(numbers, added.iter().map(|&z| grid.to_f64(z)).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_sum_wraps() {
        let noise = RoundedGaussian::new(1000.0, Grid::new(0)).unwrap();
        let mut sums = vec![i64::MAX; 64];
        noise.add_to(&mut sums, &mut NoiseSource::insecure(3).stream(Purpose::Noise, 0));
        assert!(sums.iter().any(|&z| z < 0) && sums.iter().any(|&z| z > 0));
    }

    #[test]
    fn moments() {
        let noise = RoundedGaussian::new(3.3, Grid::new(0)).unwrap();
        let mut stream = NoiseSource::insecure(8).stream(Purpose::Audit, 0);
        let n = 100_000;
        let mut z = vec![0i64; n];
        noise.add_to(&mut z, &mut stream);
        let mean = z.iter().sum::<i64>() as f64 / n as f64;
        let variance = z.iter().map(|&z| (z * z) as f64).sum::<f64>() / n as f64;
        let exact = 3.3 * 3.3 + 1.0 / 12.0; // rounding to integers adds the variance of a uniform number
        let n = n as f64;
        assert!(mean.abs() < 5.0 * (exact / n).sqrt(), "mean {mean}, false alarm 6e-7");
        assert!((variance / exact - 1.0).abs() < 5.0 * (2.0 / n).sqrt(), "variance {variance}, false alarm 6e-7");
    }
}
