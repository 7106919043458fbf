//! Geometric variables, exactly, by their binary digits.
//!
//! For P(Z ≥ k) = p^k the binary digits of Z are independent: digit i is 1 with probability p^(2^i)/(1+p^(2^i)). A draw is
//! about log2(1/(1−p)) comparisons of random words with tabulated 256-bit thresholds, without a logarithm, and its time
//! does not depend on the low digits.
use crate::fixed::Fixed;
use crate::lazy_uniform::LazyUniform;
use crate::stream::Stream;

/// Words of the fixed-point thresholds.
pub const L: usize = 7;
type Threshold = [u64; 4];

/// A scale that can't be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "noise of this size cannot be drawn exactly: its scale lies outside 2^-6 to 2^50 steps of its grid; give an \
     epsilon nearer to 1, or rescale the data so that norms and clip norms are nearer to 1"
)]
pub struct ScaleError;

/// P(Z ≥ k) = e^(−k/scale), k = 0, 1, 2, …: the integer part of scale·Exp(1).
///
/// Each draw is within 2^-180 of the exact law in total variation (thresholds are good to 2^-245 and more than 2^64
/// comparisons do not happen).
///
/// ```
/// use dpopt_noise::{Geometric, NoiseSource, Purpose};
/// let z = Geometric::new(3.0)?.sample(&mut NoiseSource::insecure(1).stream(Purpose::Audit, 0));
/// assert!(z < 1000);
/// # Ok::<(), dpopt_noise::ScaleError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Geometric {
    /// P(digit i of Z is 1), i = 0..h.
    digits: Vec<Threshold>,
    /// p^(2^h), below 1/2: probability of one more block of 2^h.
    block: Threshold,
}

impl Geometric {
    /// Scale in \[2^-6, 2^50\], taken as the exact value of the f64.
    ///
    /// # Errors
    /// If the scale is outside that range.
    pub fn new(scale: f64) -> Result<Self, ScaleError> {
        Ok(Self::from_ratio(exp_minus(&inverse(scale)?)))
    }

    /// P(Z ≥ k) = p^k for p in (0, 1) given to within a few units of its last place.
    pub fn from_ratio(p: Fixed<L>) -> Self {
        let mut digits = Vec::new();
        let mut power = p;
        // each squaring doubles the error and adds a unit of 2^-384: after at most 57 of them below 2^-315
        while power.0[L - 2] > 1 << 63 {
            digits.push(odds(&power));
            power = power.times_down(&power);
        }
        Self { digits, block: top_words(&power) }
    }

    /// One draw; the largest u64 stands for all that is beyond.
    #[inline]
    pub fn sample(&self, stream: &mut Stream) -> u64 {
        self.sample_below(u64::MAX, stream).unwrap_or(u64::MAX)
    }

    /// One draw Z, or `None` if Z ≥ `limit`.
    #[inline]
    pub fn sample_below(&self, limit: u64, stream: &mut Stream) -> Option<u64> {
        let mut z = 0u64;
        let block = 1u64 << self.digits.len();
        while LazyUniform::below_threshold(stream, &self.block) {
            z = z.checked_add(block)?;
            if z >= limit {
                return None;
            }
        }
        for (i, digit) in self.digits.iter().enumerate() {
            let one = LazyUniform::below_threshold(stream, digit);
            z = z.checked_add(u64::from(one) << i)?;
        }
        (z < limit).then_some(z)
    }
}

#[cfg(test)]
impl Geometric {
    /// P(Z = k) from the thresholds that the sampler compares with.
    pub(crate) fn mass(&self, k: u64) -> Fixed<L> {
        let number = |threshold: &Threshold| {
            let mut out = Fixed::<L>::ZERO;
            threshold.iter().enumerate().for_each(|(i, word)| out.0[L - 2 - i] = *word);
            out
        };
        let one = Fixed::<L>::integer(1);
        let block = number(&self.block);
        let mut mass = (0..k >> self.digits.len()).fold(one.minus(&block), |mass, _| mass.times_down(&block));
        for (i, digit) in self.digits.iter().enumerate() {
            let digit = number(digit);
            mass = mass.times_down(&if k >> i & 1 == 1 { digit } else { one.minus(&digit) });
        }
        mass
    }
}

/// A coin that shows heads with probability e^(−1/scale) to within 2^-250.
#[derive(Clone, Debug)]
pub(crate) struct ExponentialCoin(Threshold);

impl ExponentialCoin {
    pub(crate) fn new(scale: f64) -> Result<Self, ScaleError> {
        Ok(Self(top_words(&exp_minus(&inverse(scale)?))))
    }

    #[inline]
    pub(crate) fn flip(&self, stream: &mut Stream) -> bool {
        LazyUniform::below_threshold(stream, &self.0)
    }
}

/// The decay 1/scale, rounded down.
pub fn inverse(scale: f64) -> Result<Fixed<L>, ScaleError> {
    if !(2f64.powi(-6)..=2f64.powi(50)).contains(&scale) {
        return Err(ScaleError);
    }
    // scale = m·2^e with odd m; 1/scale = 2^(64-e)/m · 2^-64: e lies in -58..=50
    let (mantissa, exponent) = crate::grid::dyadic(scale);
    Ok(if exponent >= 0 {
        Fixed::negative_power_of_two(exponent as usize).over_integer(mantissa)
    } else {
        Fixed::integer(1 << -exponent).over_integer(mantissa)
    })
}

/// e^(−x) for x in \[0, 64\], rounded down by at most 2^-365.
pub fn exp_minus(x: &Fixed<L>) -> Fixed<L> {
    // e^-x = (e^-y)^(2^10), y = x/2^10 ≤ 1/16. The alternating series loses a unit per term (60 terms: 1/16^60/60! is far
    // below a unit); ten squarings double that ten times: below 2^17 units of 2^-384.
    let y = x.shifted_right(10);
    let one = Fixed::<L>::integer(1);
    let mut series = one;
    for k in (1..=60).rev() {
        series = one.minus(&y.times_down(&series).over_integer(k));
    }
    for _ in 0..10 {
        series = series.times_down(&series);
    }
    series
}

/// p/(1+p) to 256 bits, rounded down, by long division.
fn odds(p: &Fixed<L>) -> Threshold {
    let one_plus = Fixed::<L>::integer(1).plus(p);
    let mut rest = *p;
    let mut words = [0u64; 4];
    for bit in 0..256 {
        rest = rest.plus(&rest);
        if rest >= one_plus {
            rest = rest.minus(&one_plus);
            words[bit / 64] |= 1 << (63 - bit % 64);
        }
    }
    words
}

/// The first 256 fraction bits, most significant word first.
fn top_words(p: &Fixed<L>) -> Threshold {
    std::array::from_fn(|i| p.0[L - 2 - i])
}

/// The ratio 1 − q, exactly, for q in (2^-40, 1).
pub(crate) fn one_minus(q: f64) -> Fixed<L> {
    let (mantissa, exponent) = crate::grid::dyadic(q);
    Fixed::integer(1).minus(&Fixed::negative_power_of_two(-exponent as usize).times_integer(mantissa))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NoiseSource, Purpose};

    #[test]
    fn scales_out_of_range_are_refused() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 0.01, 2e15] {
            assert!(Geometric::new(bad).is_err());
        }
        assert!(Geometric::new(2f64.powi(-6)).is_ok() && Geometric::new(2f64.powi(50)).is_ok());
    }

    #[test]
    fn thresholds() {
        // p = 3/4: digits 3/7, 9/25, block 81/256
        let z = Geometric::from_ratio(one_minus(0.25));
        let word = |x: f64| (x * 2f64.powi(64)) as u64;
        assert_eq!(z.digits.len(), 2);
        assert!(z.digits[0][0].abs_diff(word(3.0 / 7.0)) < 1 << 12);
        assert!(z.digits[1][0].abs_diff(word(9.0 / 25.0)) < 1 << 12);
        assert_eq!(z.block, [81 << 56, 0, 0, 0]);
        // e^-1 = 0x0.5e2d58d8b3bcdf1abadec7829054f90dda9805aab56c77333024b9d0a507daedb16…
        let one = Geometric::new(1.0).unwrap();
        assert_eq!(one.block[..3], [0x5e2d58d8b3bcdf1a, 0xbadec7829054f90d, 0xda9805aab56c7733]);
        assert!(one.digits.is_empty());
    }

    #[test]
    fn exponentials_agree_with_f64() {
        for scale in [1.0 / 64.0, 0.3, 1.0, 7.5, 1e6, 2f64.powi(50)] {
            let p = exp_minus(&inverse(scale).unwrap()).to_f64();
            assert!((p / (-1.0 / scale).exp() - 1.0).abs() < 1e-14, "{scale}");
        }
    }

    #[test]
    fn law_of_the_geometric() {
        let mut stream = NoiseSource::insecure(3).stream(Purpose::Audit, 0);
        for scale in [0.4, 1.0, 3.0, 1000.0] {
            let z = Geometric::new(scale).unwrap();
            // 20 cells of equal width in units of scale/4 (at least one)
            let unit = (scale / 4.0f64).ceil() as u64;
            let n = 60_000;
            let mut counts = [0f64; 20];
            for _ in 0..n {
                counts[(z.sample(&mut stream) / unit).min(19) as usize] += 1.0;
            }
            let p = (-(unit as f64) / scale).exp();
            crate::tests::assert_multinomial(
                &counts,
                |k| {
                    if k < 19 { p.powi(k as i32) * (1.0 - p) } else { p.powi(19) }
                },
            );
        }
    }
}
