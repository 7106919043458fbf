//! How far the last point of a proximal sampler can be from its target, as a number (docs/proofs/proximal-sampler.md).
//!
//! For an m-strongly log-concave target on a convex set and exact restricted Gaussian oracles, the law of x_T after T
//! rounds from a fixed x_0 satisfies
//!
//! TV(x_T, π) ≤ W_0 / (2√η·(1 + ηm)^(T−1)),  W_0 = ‖x_0 − x*‖ + √(d/m) ≥ (E‖x_0 − X‖²)^½,
//!
//! for every step size η: KL(y_1) ≤ W_0²/(2η) after the first Gaussian step, each further round divides it by (1 + ηm)²,
//! and Pinsker. A bounded change of the potential by ±ω costs e^(2ω) in m (Holley, Stroock), which is how the rounding of
//! the potential enters ([`super::precision`]). η, T and x_0 are fixed before the chain starts; a pilot that chooses them
//! must be thrown away.
//!
//! Covers: thesis theorem 3.5.2 (certified: with constants)

/// The public numbers that the bound on the distance follows from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Contraction {
    /// √η: standard deviation of the forward step.
    pub step_std: f64,
    /// m: strong convexity of the whole potential.
    pub strong_convexity: f64,
    /// Upper bound on ‖x_0 − x*‖, enforced or proved for every data set: never a hope about the data.
    pub start_distance: f64,
    /// Dimension d of the space.
    pub dimension: usize,
    /// ω: the code's potential is within ±ω of a convex one.
    pub oscillation: f64,
}

/// Largest number of rounds that is planned.
pub const MAX_STEPS: u64 = 1 << 40;

impl Contraction {
    /// W_0 = ‖x_0 − x*‖ + √(d/m): bound on the root mean square distance of the start from a draw of the target.
    fn distance(&self) -> f64 {
        self.start_distance + (self.dimension as f64 / self.strong_convexity).sqrt()
    }

    /// ln(1 + ηm) with the strong convexity that the change of the potential leaves.
    fn rate(&self) -> f64 {
        let m = self.strong_convexity * (-2.0 * self.oscillation).exp();
        (self.step_std * self.step_std * m).ln_1p() * (1.0 - 8.0 * f64::EPSILON)
    }

    /// ln of the bound after one round.
    fn ln_first(&self) -> f64 {
        (0.5 * self.distance() / self.step_std).ln() + self.oscillation + 1e-12
    }

    /// Upper bound on the total-variation distance after `steps` rounds; infinite if the target is not strongly convex.
    ///
    /// ```
    /// use dpopt_mechanism::sampler::Contraction;
    /// // e^(−x²) from 3 with η = 0.1: 1.248e-4 after 60 rounds (the exact distance is 3.0e-5)
    /// let chain = Contraction {
    ///     step_std: 0.1f64.sqrt(), strong_convexity: 2.0, start_distance: 3.0, dimension: 1, oscillation: 0.0,
    /// };
    /// assert!((chain.total_variation(60) / 1.248e-4 - 1.0).abs() < 1e-3);
    /// ```
    pub fn total_variation(&self, steps: u64) -> f64 {
        if !(self.strong_convexity > 0.0) || steps == 0 {
            return f64::INFINITY;
        }
        (self.ln_first() - (steps - 1) as f64 * self.rate()).exp()
    }

    /// Smallest T with a bound of at most `total_variation`; `None` without strong convexity, or beyond [`MAX_STEPS`].
    pub fn steps(&self, total_variation: f64) -> Option<u64> {
        let rate = self.rate();
        if !(self.strong_convexity > 0.0 && rate > 0.0 && total_variation > 0.0) {
            return None;
        }
        let more = ((self.ln_first() - total_variation.ln()) / rate).ceil().max(0.0);
        if more >= MAX_STEPS as f64 {
            return None;
        }
        let mut steps = 1 + more as u64;
        while self.total_variation(steps) > total_variation {
            steps += 1;
        }
        Some(steps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(step_std: f64, strong_convexity: f64, start_distance: f64, dimension: usize) -> Contraction {
        Contraction { step_std, strong_convexity, start_distance, dimension, oscillation: 0.0 }
    }

    #[test]
    fn worked_numbers() {
        // H = x², η = .1, x_0 = 3
        let square = chain(0.1f64.sqrt(), 2.0, 3.0, 1);
        for (steps, bound) in [(1, 5.86), (10, 1.136), (40, 4.786e-3), (60, 1.248e-4)] {
            assert!((square.total_variation(steps) / bound - 1.0).abs() < 1e-3, "{steps}");
        }
        // n = 1000, d = 10, s = .2355, k = 526.6, μ = .0380, η = 4/(β_s d), τ = .1·1e-6/(1+e)
        let tau = 1e-7 / (1.0 + 1f64.exp());
        let (s, n, d) = (0.2355, 1000.0, 10.0);
        let mu = (2.0f64 * d).sqrt() / (s * n) * 2.0;
        let k = s * s * n * n * mu / 4.0;
        let step_std = (4.0 / (0.25 * k * d)).sqrt();
        assert_eq!(chain(step_std, k * mu, 0.0, 10).steps(tau), Some(328));
        assert_eq!(chain(step_std, k * mu, 1.0 / mu, 10).steps(tau), Some(390));
    }

    #[test]
    fn a_flat_target_has_no_certificate() {
        assert_eq!(chain(0.1, 0.0, 1.0, 3).steps(1e-6), None);
        assert_eq!(chain(0.1, 0.0, 1.0, 3).total_variation(1 << 30), f64::INFINITY);
        assert_eq!(chain(1e-12, 1e-12, 1.0, 3).steps(1e-6), None);
        assert_eq!(chain(0.1, 1.0, 1.0, 3).total_variation(0), f64::INFINITY);
    }

    #[test]
    fn steps_are_the_smallest_that_suffice() {
        for (m, w) in [(0.3, 10.0), (40.0, 0.1), (1e3, 1e3)] {
            let c = Contraction { oscillation: 1e-9, ..chain(0.05, m, w, 7) };
            let t = c.steps(1e-9).unwrap();
            assert!(c.total_variation(t) <= 1e-9 && (t == 1 || c.total_variation(t - 1) > 1e-9));
        }
    }

    /// The exact law of a Gaussian target's chain stays Gaussian: the bound dominates its distance and has its slope.
    #[test]
    fn the_bound_dominates_the_exact_distance_of_a_gaussian_chain() {
        let (m, eta, x0) = (2.0f64, 0.1f64, 3.0f64);
        let square = chain(eta.sqrt(), m, x0, 1);
        let (mut mean, mut variance) = (x0, 0.0f64);
        let mut ratios = Vec::new();
        for step in 1..=60 {
            // y ~ N(mean, variance + η); x|y ~ N(y/(1+ηm), η/(1+ηm))
            let shrink = 1.0 / (1.0 + eta * m);
            mean *= shrink;
            variance = (variance + eta) * shrink * shrink + eta * shrink;
            let density = |x: f64, mu: f64, v: f64| {
                (-(x - mu) * (x - mu) / (2.0 * v)).exp() / (2.0 * std::f64::consts::PI * v).sqrt()
            };
            let exact: f64 = (-60_000..60_000)
                .map(|i| {
                    (density(f64::from(i) * 1e-4, mean, variance) - density(f64::from(i) * 1e-4, 0.0, 1.0 / m)).abs()
                })
                .sum::<f64>()
                * 0.5e-4;
            for (t, value) in [(1, 0.978), (10, 0.270), (40, 1.152e-3), (60, 3.00e-5)] {
                assert!(t != step || (exact / value - 1.0).abs() < 6e-3, "{step}: {exact}");
            }
            assert!(exact <= square.total_variation(step));
            ratios.push(exact / square.total_variation(step));
        }
        assert!((ratios[59] / ratios[49] - 1.0).abs() < 0.01, "the slopes differ: {ratios:?}");
    }
}
