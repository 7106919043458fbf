//! Discrete Gaussian noise P(X = k) ∝ e^(−k²/(2σ²)) (Canonne, Kamath, Steinke 2020), for integer counts.
//!
//! Not a rounding of the continuous law: its δ can be larger (σ = ½, shift 1, ε = 1: .603 against .510). Account it as
//! zCDP with ρ = Δ²/(2σ²), never with the event of the continuous Gaussian.
use dpopt_noise::parts::{Fixed, Interval, LazyUniform};
use dpopt_noise::{Geometric, ScaleError, Stream};
use dpopt_process::stop::paced;

/// Discrete Gaussian noise with parameter σ (its variance is at most σ²).
#[derive(Clone, Debug)]
pub struct DiscreteGaussian {
    sigma: f64,
    size: Geometric,
}

impl DiscreteGaussian {
    /// σ in \[2^-6, 2^24\], in grid steps.
    ///
    /// # Errors
    /// If σ is outside that range.
    pub fn new(sigma: f64) -> Result<Self, ScaleError> {
        if !(sigma <= 2f64.powi(24)) {
            return Err(ScaleError);
        }
        Ok(Self { sigma, size: Geometric::new(sigma)? })
    }

    /// The parameter σ of the law, in units of the integers.
    pub fn sigma(&self) -> f64 {
        self.sigma
    }

    /// Upper bound on the total-variation distance of one sample from the exact law.
    pub fn total_variation_per_sample(&self) -> f64 {
        2f64.powi(-170)
    }

    /// One sample: a discrete Laplace candidate of scale σ, kept with probability e^(−(|y|−σ)²/(2σ²)).
    pub fn sample(&self, stream: &mut Stream) -> i64 {
        loop {
            let negative = stream.coin();
            let size = self.size.sample(stream);
            if negative && size == 0 {
                continue;
            }
            let mut u = LazyUniform::new();
            let kept = match self.kept::<4>(size, &mut u, stream) {
                Some(decided) => decided,
                None => self.kept::<6>(size, &mut u, stream).unwrap_or(false),
            };
            if kept {
                let size = size as i64;
                return if negative { -size } else { size };
            }
        }
    }

    /// Adds independent samples to every cell, modulo 2^64.
    pub fn add_to(&self, sums: &mut [i64], stream: &mut Stream) {
        for cell in paced(sums) {
            *cell = cell.wrapping_add(self.sample(stream));
        }
    }

    /// (|y| − σ)²/2 < σ²·E for a standard exponential E. σ has at most 59 fraction bits, so its square is exact; a square
    /// that exceeds 2^64 is far above σ²·E < 2^48·178.
    fn kept<const L: usize>(&self, size: u64, u: &mut LazyUniform, stream: &mut Stream) -> Option<bool> {
        let (mantissa, exponent) = dpopt_noise::parts::dyadic(self.sigma);
        let sigma = if exponent >= 0 {
            Fixed::<L>::integer(mantissa << exponent)
        } else {
            Fixed::negative_power_of_two(-exponent as usize).times_integer(mantissa)
        };
        let sigma = Interval::point(sigma);
        let distance = sigma.distance(&Interval::point(Fixed::integer(size)));
        let e = u.exponential::<L>(stream);
        distance.times(&distance).half().less_than(&sigma.times(&sigma).times(&e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::assert_multinomial;
    use dpopt_noise::{NoiseSource, Purpose};

    #[test]
    fn law() {
        let mut stream = NoiseSource::insecure(1).stream(Purpose::Audit, 0);
        for sigma in [0.5, 1.0, 10f64.sqrt()] {
            let noise = DiscreteGaussian::new(sigma).unwrap();
            let mut counts = vec![0.0; 25];
            for _ in 0..40_000 {
                counts[(noise.sample(&mut stream).clamp(-12, 12) + 12) as usize] += 1.0;
            }
            let weight = |k: i32| (-f64::from(k * k) / (2.0 * sigma * sigma)).exp();
            let total: f64 = (-60..=60).map(weight).sum();
            let tail: f64 = (12..=60).map(weight).sum();
            assert_multinomial(&counts, |k| {
                let k = k as i32 - 12;
                if k.abs() == 12 { tail / total } else { weight(k) / total }
            });
        }
    }

    #[test]
    fn bad_scales_are_refused() {
        for bad in [0.0, -1.0, f64::NAN, 1e9] {
            assert!(DiscreteGaussian::new(bad).is_err());
        }
    }
}
