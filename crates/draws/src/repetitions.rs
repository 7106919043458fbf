//! A secret number of repetitions for private selection: truncated negative binomial and zero-truncated Poisson
//! (Papernot and Steinke 2022; docs/proofs/repeat-and-select.md).
//!
//! Weights follow the law's recurrence in integers and a uniform integer below their sum picks one, so the sampled law is
//! known exactly; its distance from the named one is bounded by counting the roundings. Every draw visits all
//! weights: its time does not depend on the number drawn.

use dpopt_noise::Stream;

/// A law of K = 1, 2, 3, … that depends on nothing but public numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Repetitions {
    family: Family,
    mean: f64,
    total: u128,
    last: u64,
    total_variation: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Family {
    /// P(k+1)/P(k) = (ratio/2^32)·(2k + h)/(2k + 2), h = 2η.
    NegativeBinomial { ratio: u64, twice_shape: u64 },
    /// P(k+1)/P(k) = (rate/2^16)/(k + 1).
    Poisson { rate: u64 },
}

/// A law that can't be sampled.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RepetitionsError {
    /// The mean is out of range.
    #[error("the mean number of runs must be a finite number from 1 to 10000 (from 1 to 16 for the Poisson law)")]
    Mean,
    /// Another shape than 0, 1/2 or 1.
    #[error("the shape must be 0 (logarithmic), 0.5 or 1 (geometric)")]
    Shape,
}

/// First weight. Room for a factor of 2^32 above it, and for the growth e^16 of Poisson weights times a rate of 2^20.
const FIRST: [u128; 2] = [1 << 90, 1 << 80];

/// E[K] of the truncated negative binomial law of shape η ≥ 0 and parameter γ.
fn negative_binomial_mean(shape: f64, gamma: f64) -> f64 {
    if shape == 0.0 {
        (1.0 / gamma - 1.0) / -gamma.ln()
    } else {
        shape * (1.0 - gamma) / (gamma * -(shape * gamma.ln()).exp_m1())
    }
}

impl Repetitions {
    /// Truncated negative binomial of `shape` η in {0, 1/2, 1} with a mean of at most `mean`, 1..=10000.
    ///
    /// # Errors
    /// If the shape or the mean is out of range.
    pub fn negative_binomial(shape: f64, mean: f64) -> Result<Self, RepetitionsError> {
        if !(1.0..=1e4).contains(&mean) {
            return Err(RepetitionsError::Mean);
        }
        let twice_shape = [0.0, 0.5, 1.0].iter().position(|s| *s == shape).ok_or(RepetitionsError::Shape)? as u64;
        // the mean falls with γ
        let (mut low, mut high) = (1e-12, 1.0 - 1e-12);
        for _ in 0..200 {
            let middle = 0.5 * (low + high);
            if negative_binomial_mean(shape, middle) > mean { low = middle } else { high = middle }
        }
        // γ rounded up: the mean stays below the one asked for
        let gamma_units = (high * 2f64.powi(32)).ceil();
        let ratio = (2f64.powi(32) - gamma_units).max(0.0) as u64;
        let gamma = gamma_units * 2f64.powi(-32);
        let exact = if ratio == 0 { 1.0 } else { negative_binomial_mean(shape, gamma) };
        Ok(Self::built(Family::NegativeBinomial { ratio, twice_shape }, exact, 1.0, gamma.recip()))
    }

    /// Poisson of at most `mean` before zero is cut off; 1..=16.
    ///
    /// # Errors
    /// If the mean is out of range.
    pub fn truncated_poisson(mean: f64) -> Result<Self, RepetitionsError> {
        if !(1.0..=16.0).contains(&mean) {
            return Err(RepetitionsError::Mean);
        }
        let rate = (mean * 65536.0).floor() as u64;
        // 2 beyond the last weight: the ratio is then below 1/2
        Ok(Self::built(Family::Poisson { rate }, rate as f64 / 65536.0, mean.exp(), 2.0))
    }

    /// `growth` bounds how a rounding of one weight grows in later ones, `beyond` Σ of all later weights over the last.
    fn built(family: Family, mean: f64, growth: f64, beyond: f64) -> Self {
        let (mut total, mut last, mut weight) = (0u128, 0u64, 0u128);
        let mut walk = Walk::new(family);
        // a weight below 2^16 of 2^80 or more: what is cut off is counted below
        while last < 4 || walk.weight >= 1 << 16 {
            (total, last, weight) = (total + walk.weight, walk.k, walk.weight);
            if walk.weight == 0 {
                break;
            }
            walk.advance();
        }
        // two roundings per weight, each carried on: Σ_k 2k·growth; then the tail
        let roundings = (last as f64 + 1.0).powi(2) * growth;
        let tail = (weight as f64 + 2.0 * last as f64 * growth) * beyond;
        let total_variation = (roundings + tail) / total as f64 * 1.001;
        Self { family, mean, total, last, total_variation }
    }

    /// The mean of the law before rounding (for Poisson: before zero is cut off).
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// Upper bound on the total-variation distance of one draw from the named law.
    pub fn total_variation(&self) -> f64 {
        self.total_variation
    }

    /// One draw of the number of repetitions K.
    pub fn sample(&self, stream: &mut Stream) -> u64 {
        let mask = u128::MAX >> self.total.leading_zeros();
        let chosen = loop {
            let word = (u128::from(stream.word()) << 64 | u128::from(stream.word())) & mask;
            if word < self.total {
                break word;
            }
        };
        let (mut walk, mut below, mut k) = (Walk::new(self.family), 0u128, 1u64);
        while walk.k <= self.last {
            below += walk.weight;
            k += u64::from(below <= chosen);
            walk.advance();
        }
        k.min(self.last)
    }
}

/// The weights of K = 1, 2, … one after another.
struct Walk {
    family: Family,
    k: u64,
    weight: u128,
}

impl Walk {
    fn new(family: Family) -> Self {
        let first = FIRST[usize::from(matches!(family, Family::Poisson { .. }))];
        Self { family, k: 1, weight: first }
    }

    fn advance(&mut self) {
        let k = u128::from(self.k);
        self.weight = match self.family {
            Family::NegativeBinomial { ratio, twice_shape } => {
                ((self.weight * u128::from(ratio)) >> 32) * (2 * k + u128::from(twice_shape)) / (2 * k + 2)
            }
            Family::Poisson { rate } => ((self.weight * u128::from(rate)) >> 16) / (k + 1),
        };
        self.k += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::assert_multinomial;
    use dpopt_noise::{NoiseSource, Purpose};

    #[test]
    fn parameters_for_a_mean_of_ten_and_a_hundred() {
        // γ for E[K] = 10 (η = 0: .0269183, η = 1: .1) and 100 (.00154212, .01)
        for (shape, gamma, mean) in
            [(0.0, 0.0269183, 10.0), (1.0, 0.1, 10.0), (0.0, 0.00154212, 100.0), (1.0, 0.01, 100.0)]
        {
            assert!((negative_binomial_mean(shape, gamma) / mean - 1.0).abs() < 1e-5);
            let law = Repetitions::negative_binomial(shape, mean).unwrap();
            assert!(law.mean() <= mean && law.mean() > 0.999 * mean, "{law:?}");
            assert!(law.total_variation() < 1e-15, "{law:?}");
        }
        assert!(Repetitions::truncated_poisson(3.0).unwrap().total_variation() < 1e-17);
    }

    #[test]
    fn draws_follow_the_named_laws() {
        let check = |law: Repetitions, p: &dyn Fn(usize) -> f64| {
            let mut stream = NoiseSource::insecure(3).stream(Purpose::Selection, 0);
            let mut counts = vec![0.0; 4000];
            for _ in 0..20_000 {
                counts[law.sample(&mut stream) as usize] += 1.0;
            }
            assert_multinomial(&counts, |k| if k == 0 { 0.0 } else { p(k) });
        };
        let gamma = 0.1f64;
        check(Repetitions::negative_binomial(1.0, 10.0).unwrap(), &|k| gamma * (1.0 - gamma).powi(k as i32 - 1));
        let gamma = 0.0269183f64;
        check(Repetitions::negative_binomial(0.0, 10.0).unwrap(), &|k| {
            (1.0 - gamma).powi(k as i32) / (k as f64 * -gamma.ln())
        });
        let poisson = |k: usize| (1..=k).fold(1.0 / 3f64.exp_m1(), |p, i| p * 3.0 / i as f64);
        check(Repetitions::truncated_poisson(3.0).unwrap(), &poisson);
    }

    #[test]
    fn a_mean_of_one_is_one_run_and_bad_numbers_are_refused() {
        let mut stream = NoiseSource::insecure(3).stream(Purpose::Selection, 0);
        let one = Repetitions::negative_binomial(1.0, 1.0).unwrap();
        assert!((0..1000).all(|_| one.sample(&mut stream) == 1));
        assert_eq!(Repetitions::negative_binomial(1.0, 0.5), Err(RepetitionsError::Mean));
        assert_eq!(Repetitions::negative_binomial(0.3, 5.0), Err(RepetitionsError::Shape));
        assert_eq!(Repetitions::negative_binomial(1.0, f64::NAN), Err(RepetitionsError::Mean));
        assert_eq!(Repetitions::truncated_poisson(20.0), Err(RepetitionsError::Mean));
    }
}
