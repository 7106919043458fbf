//! Laplace noise on the grid: the discrete law (smaller variance, pure ε) and the rounded one (valid wherever the
//! continuous law is): Canonne, Kamath, Steinke 2020; docs/proofs/counts.md.
use crate::geometric::{ExponentialCoin, Geometric, ScaleError};
use crate::grid::Grid;
use crate::stream::Stream;
use dpopt_process::stop::paced;

/// P(X = k) = tanh(1/(2t))·e^(−|k|/t): discrete Laplace noise of scale t grid steps, t any number.
///
/// With integer l1 sensitivity m (in grid steps) it is ε-DP with ε = m/t; event `DiscreteLaplace` with
/// `noise_parameter` 1/t ([`decay`](Self::decay)). Its (ε, δ) curve is *not* that of the continuous law (at smaller ε its δ can be larger).
///
/// ```
/// use dpopt_noise::{DiscreteLaplace, NoiseSource, Purpose};
/// let noise = DiscreteLaplace::new(8)?; // counts with sensitivity 1: ε = 1/8
/// let mut counts = [120i64, 35];
/// noise.add_to(&mut counts, &mut NoiseSource::secure()?.stream(Purpose::Noise, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct DiscreteLaplace {
    scale: f64,
    size: Geometric,
}

impl DiscreteLaplace {
    /// Scale of `scale` grid steps, 1..=2^50.
    ///
    /// # Errors
    /// If the scale is outside that range.
    pub fn new(scale: u64) -> Result<Self, ScaleError> {
        if scale == 0 || scale > 1 << 50 {
            return Err(ScaleError);
        }
        Self::with_scale(scale as f64)
    }

    /// Scale of `scale` grid steps in \[2^-6, 2^50\], taken as the exact value of the f64: a decay of ε per step needs no more
    /// noise than 1/ε.
    ///
    /// # Errors
    /// If the scale is outside that range.
    ///
    /// ```
    /// use dpopt_noise::DiscreteLaplace;
    /// let noise = DiscreteLaplace::with_scale(2.0 / 3.0)?;
    /// assert!((noise.decay() - 1.5).abs() < 1e-15);
    /// # Ok::<(), dpopt_noise::ScaleError>(())
    /// ```
    pub fn with_scale(scale: f64) -> Result<Self, ScaleError> {
        Ok(Self { scale, size: Geometric::new(scale)? })
    }

    /// The scale b in units of the value, rounded *up* to a whole number of steps of `grid`.
    ///
    /// # Errors
    /// If b is not positive and finite or is more than 2^50 steps.
    pub fn at_least(b: f64, grid: Grid) -> Result<Self, ScaleError> {
        let steps = b / grid.step(); // exact: a power of two
        if !(steps > 0.0 && steps <= 2f64.powi(50)) {
            return Err(ScaleError);
        }
        Self::new(steps.ceil() as u64)
    }

    /// The scale t in grid steps.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// 1/t, the `noise_parameter` of the event: rounded up where it is no f64, so that the event never says less.
    pub fn decay(&self) -> f64 {
        Self::decay_of(self.scale)
    }

    /// [`decay`](Self::decay) of the law with this scale.
    pub fn decay_of(scale: f64) -> f64 {
        let inverse = 1.0 / scale;
        // the sign of inverse·scale − 1 is exact
        if inverse.mul_add(scale, -1.0) < 0.0 { inverse.next_up() } else { inverse }
    }

    /// Upper bound on the total-variation distance of one sample from the exact law.
    pub fn total_variation_per_sample(&self) -> f64 {
        2f64.powi(-170)
    }

    /// One sample, in grid steps.
    pub fn sample(&self, stream: &mut Stream) -> i64 {
        loop {
            let negative = stream.coin();
            let size = self.size.sample(stream).min(i64::MAX as u64) as i64;
            // −0 is refused, so that 0 does not count twice
            match (negative, size) {
                (true, 0) => {}
                (true, _) => return -size,
                (false, _) => return size,
            }
        }
    }

    /// Adds independent samples to every cell, modulo 2^64.
    pub fn add_to(&self, sums: &mut [i64], stream: &mut Stream) {
        for cell in paced(sums) {
            *cell = cell.wrapping_add(self.sample(stream));
        }
    }
}

/// round(Laplace(b)/γ): a post-processing of the continuous Laplace mechanism, event `Laplace`.
#[derive(Clone, Debug)]
pub struct RoundedLaplace {
    /// P(X ≠ 0) = e^(−γ/(2b)).
    not_zero: ExponentialCoin,
    /// |X| − 1 given X ≠ 0.
    beyond: Geometric,
}

impl RoundedLaplace {
    /// Scale `b` in units of the value.
    ///
    /// # Errors
    /// If b is not within 2^-6 and 2^49 steps of `grid`.
    pub fn new(b: f64, grid: Grid) -> Result<Self, ScaleError> {
        let steps = b / grid.step();
        Ok(Self { not_zero: ExponentialCoin::new(2.0 * steps)?, beyond: Geometric::new(steps)? })
    }

    /// Upper bound on the total-variation distance of one sample from the exact law.
    pub fn total_variation_per_sample(&self) -> f64 {
        2f64.powi(-170)
    }

    /// One sample, in grid steps.
    pub fn sample(&self, stream: &mut Stream) -> i64 {
        if !self.not_zero.flip(stream) {
            return 0;
        }
        let negative = stream.coin();
        let size = self.beyond.sample(stream).min(i64::MAX as u64 - 1) as i64 + 1;
        if negative { -size } else { size }
    }

    /// Adds independent samples to every cell, modulo 2^64.
    pub fn add_to(&self, sums: &mut [i64], stream: &mut Stream) {
        for cell in paced(sums) {
            *cell = cell.wrapping_add(self.sample(stream));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::assert_multinomial;
    use crate::{NoiseSource, Purpose};

    fn counts(mut sample: impl FnMut() -> i64) -> Vec<f64> {
        let mut counts = vec![0.0; 25];
        for _ in 0..60_000 {
            counts[(sample().clamp(-12, 12) + 12) as usize] += 1.0;
        }
        counts
    }

    #[test]
    fn discrete_law() {
        let mut stream = NoiseSource::insecure(1).stream(Purpose::Audit, 0);
        for t in [1.0, 3.0, 2.0 / 3.0, 0.2, 2.7] {
            let noise = DiscreteLaplace::with_scale(t).unwrap();
            let h = 1.0 / t;
            // P(|X| ≥ 12) = (1 − tanh(h/2)…) summed: tanh(h/2)·e^(−12h)/(1−e^(−h))
            assert_multinomial(&counts(|| noise.sample(&mut stream)), |k| {
                let k = (k as f64 - 12.0).abs();
                let p = (h / 2.0).tanh() * (-h * k).exp();
                if k == 12.0 { p / -(-h).exp_m1() } else { p }
            });
        }
    }

    #[test]
    fn rounded_law() {
        let mut stream = NoiseSource::insecure(2).stream(Purpose::Audit, 0);
        for (b, g) in [(1.0, 0), (0.5, -2), (3.3, 0)] {
            let noise = RoundedLaplace::new(b, Grid::new(g)).unwrap();
            let h = Grid::new(g).step() / b;
            let p = |k: f64| if k == 0.0 { -(-h / 2.0).exp_m1() } else { (h / 2.0).sinh() * (-h * k).exp() };
            if h == 1.0 {
                assert!((p(0.0) - 0.393469).abs() < 1e-6 && (p(1.0) - 0.191700).abs() < 1e-6);
            }
            assert_multinomial(&counts(|| noise.sample(&mut stream)), |k| {
                let k = (k as f64 - 12.0).abs();
                if k == 12.0 { p(k) / -(-h).exp_m1() } else { p(k) }
            });
        }
    }

    #[test]
    fn scales_round_up() {
        assert_eq!(DiscreteLaplace::at_least(1.0, Grid::new(-3)).unwrap().scale(), 8.0);
        assert_eq!(DiscreteLaplace::at_least(1.01, Grid::new(-3)).unwrap().scale(), 9.0);
        assert_eq!(DiscreteLaplace::at_least(0.01, Grid::new(0)).unwrap().scale(), 1.0);
        assert!(DiscreteLaplace::at_least(f64::NAN, Grid::new(0)).is_err());
        assert!(DiscreteLaplace::new(0).is_err());
        for scale in [0.0, 0.01, -1.0, f64::NAN, f64::INFINITY, 1e16] {
            assert!(DiscreteLaplace::with_scale(scale).is_err());
        }
    }

    /// What is charged is never below what is done, and exact where it can be.
    #[test]
    fn the_decay_is_rounded_up() {
        assert_eq!(DiscreteLaplace::decay_of(8.0), 0.125);
        for i in 1..2000 {
            let t = 0.02 * f64::from(i);
            let inverse = DiscreteLaplace::decay_of(t);
            assert!(inverse.mul_add(t, -1.0) >= 0.0 && inverse.next_down().mul_add(t, -1.0) < 0.0, "{t}");
        }
    }
}
