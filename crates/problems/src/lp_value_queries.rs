//! The hard instance for value queries in l_p geometry, 1 ≤ p ≤ 2 (Liu 2024, Proposition 5.7.4, Corollaries 5.7.5 and 5.7.6).
//!
//! f(x; s) = ⟨s, x⟩ on the l_p ball of diameter D, s ~ N(κv, σ²I) with v uniform on {±1}^d, σ = G·d^(−1/q)/√(d/k + 4·ln d) and
//! κ = σ√d/(2√k): then E‖s‖_q² ≤ G², and whoever asks for k values has an expected excess risk of at least (1 − 1/p)κD·d^(1−1/p)/8.
//!
//! Covers: thesis proposition 5.7.4, corollary 5.7.5 (part: the hard instance, for tests)

use dpopt_noise::Stream;

/// An instance by its public numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LpValueQueries {
    /// d ≥ 2: number of coordinates.
    pub dimension: usize,
    /// p in [1, 2].
    pub exponent: f64,
    /// k: value queries it is hard for. κ depends on it, so make the instance anew for each k.
    pub queries: u64,
    /// G: root mean square of a loss's slope in the dual norm l_q.
    pub lipschitz: f64,
    /// D: diameter of the ball around 0.
    pub diameter: f64,
}

impl LpValueQueries {
    /// σ: standard deviation of each coordinate of a loss. Below four dimensions ln(2d) stands in for ln d, which is too small there.
    pub fn deviation(&self) -> f64 {
        let (d, k) = (self.dimension as f64, self.queries as f64);
        let ln = if self.dimension < 4 { (2.0 * d).ln() } else { d.ln() };
        self.lipschitz * d.powf(1.0 / self.exponent - 1.0) / (d / k + 4.0 * ln).sqrt()
    }

    /// κ: size of each coordinate of the mean loss.
    pub fn signal(&self) -> f64 {
        self.deviation() * (self.dimension as f64).sqrt() / (2.0 * (self.queries as f64).sqrt())
    }

    /// d^(1/q), the dual norm of a vector of ones.
    fn spread(&self) -> f64 {
        (self.dimension as f64).powf(1.0 - 1.0 / self.exponent)
    }

    /// Risk of the best point, x* = −(D/2)·d^(−1/p)·v.
    pub fn least_value(&self) -> f64 {
        -0.5 * self.signal() * self.diameter * self.spread()
    }

    /// No algorithm with that many value queries has a smaller expected excess risk, in the mean over v.
    pub fn least_risk(&self) -> f64 {
        (1.0 - 1.0 / self.exponent) * self.signal() * self.diameter * self.spread() / 8.0
    }

    /// Draws v, the direction that is hidden in the noise.
    pub fn direction(&self, stream: &mut Stream) -> Vec<f64> {
        (0..self.dimension).map(|_| if stream.coin() { 1.0 } else { -1.0 }).collect()
    }

    /// One loss, by its slope s.
    pub fn loss(&self, direction: &[f64], stream: &mut Stream) -> Vec<f64> {
        direction.iter().map(|v| self.signal() * v + self.deviation() * stream.standard_normal()).collect()
    }

    /// Excess population risk of a point of the ball.
    pub fn excess(&self, direction: &[f64], x: &[f64]) -> f64 {
        self.signal() * direction.iter().zip(x).map(|(v, x)| v * x).sum::<f64>() - self.least_value()
    }

    /// The point of the ball that is best for a linear loss of slope s: −(D/2)·sign(s)|s|^(q−1)/‖s‖_q^(q−1).
    pub fn best_for(&self, slope: &[f64]) -> Vec<f64> {
        let largest = slope.iter().fold(0.0f64, |m, s| m.max(s.abs()));
        if self.exponent <= 1.0 {
            let at = slope.iter().position(|s| s.abs() == largest).unwrap_or(0);
            return (0..slope.len())
                .map(|j| if j == at { -0.5 * self.diameter * slope[j].signum() } else { 0.0 })
                .collect();
        }
        let q = self.exponent / (self.exponent - 1.0);
        if largest == 0.0 {
            return vec![0.0; slope.len()];
        }
        let size = slope.iter().map(|s| (s.abs() / largest).powf(q)).sum::<f64>().powf((q - 1.0) / q);
        slope.iter().map(|s| -0.5 * self.diameter * s.signum() * (s.abs() / largest).powf(q - 1.0) / size).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_noise::{NoiseSource, Purpose};

    const WORKED: LpValueQueries =
        LpValueQueries { dimension: 100, exponent: 1.5, queries: 1000, lipschitz: 1.0, diameter: 2.0 };

    #[test]
    fn worked_numbers() {
        assert!((WORKED.deviation() - 0.050_061_6).abs() < 5e-8, "{}", WORKED.deviation());
        assert!((WORKED.signal() - 0.007_915_44).abs() < 5e-9);
        assert!((WORKED.least_value() + 0.036_740_2).abs() < 5e-8);
        assert!((WORKED.least_risk() - 0.003_061_68).abs() < 5e-9);
        let v = vec![1.0; 100];
        let best = WORKED.best_for(&v);
        assert!(WORKED.excess(&v, &best).abs() < 1e-12);
        let size = best.iter().map(|x| x.abs().powf(1.5)).sum::<f64>().powf(2.0 / 3.0);
        assert!((size - 1.0).abs() < 1e-12);
        // few dimensions: E max g² is 1.61 at d = 2, more than 2·ln 2
        let two = LpValueQueries { dimension: 2, ..WORKED };
        assert!(two.deviation() < 2f64.powf(-1.0 / 3.0) / (2.0 / 1000.0 + 4.0 * 2f64.ln()).sqrt());
        let corner = LpValueQueries { exponent: 1.0, ..WORKED };
        assert_eq!(corner.least_risk(), 0.0);
        assert_eq!(corner.best_for(&[0.1, -3.0, 2.0]), [0.0, 1.0, 0.0]);
    }

    /// Slopes are as long as they may be: E‖s‖_q² = .0750 ≤ G² = 1, none of 2,000 above G. A slope costs d values, so that 1,000 values
    /// are those of ten losses: their minimiser stays above the bound, and below standing still. A thousand whole slopes are 100,000 values,
    /// and their minimiser falls below the bound for 1,000.
    #[test]
    fn slopes_and_an_algorithm() {
        let mut stream = NoiseSource::insecure(1).stream(Purpose::Audit, 0);
        let v = WORKED.direction(&mut stream);
        let mut squares = 0.0;
        for _ in 0..2000 {
            let s = WORKED.loss(&v, &mut stream);
            let size = s.iter().map(|s| s.abs().powi(3)).sum::<f64>().powf(2.0 / 3.0);
            assert!(size <= 1.0);
            squares += size / 2000.0;
        }
        assert!((squares - 0.075).abs() < 0.002, "{squares}");
        let trials = 10;
        let risk = |losses: u32, stream: &mut Stream| {
            let mut sum = 0.0;
            for _ in 0..trials {
                let v = WORKED.direction(stream);
                let mut mean = vec![0.0; 100];
                for _ in 0..losses {
                    mean.iter_mut().zip(WORKED.loss(&v, stream)).for_each(|(m, s)| *m += s);
                }
                sum += WORKED.excess(&v, &WORKED.best_for(&mean)) / f64::from(trials);
            }
            sum
        };
        let (bought, given) = (risk(10, &mut stream), risk(1000, &mut stream));
        assert!(bought >= WORKED.least_risk() && bought < -WORKED.least_value(), "{bought}");
        assert!(given < WORKED.least_risk(), "{given}");
    }
}
