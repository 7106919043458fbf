//! The hard instance for convex optimisation with value queries: linear losses whose common direction drowns in noise
//! (Liu 2024, Theorem 3.7.1).
//!
//! f(x; s) = ⟨x, s⟩ on the ball of diameter D, s ~ N(δ·v, σ²I) with v uniform on {±1}^d, σ = G/√(d + d²/(4k)) and
//! δ = σ√d/(2√k): then E‖s‖² = G², and whoever asks for k values has expected excess risk at least Dδ√d/16. The Gibbs measure
//! of such losses with a quadratic is Gaussian, so every sampler has an exact truth here.
//!
//! Covers: thesis theorem 3.7.1 (part: the hard instance, for tests)

use dpopt_noise::Stream;

/// An instance by its public numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ValueQueries {
    /// d: number of coordinates.
    pub dimension: usize,
    /// k: value queries it is hard for.
    pub queries: u64,
    /// G: root mean square of a loss's slope.
    pub lipschitz: f64,
    /// D: diameter of the ball around 0.
    pub diameter: f64,
}

impl ValueQueries {
    /// σ: standard deviation of each coordinate of a loss.
    pub fn deviation(&self) -> f64 {
        let (d, k) = (self.dimension as f64, self.queries as f64);
        self.lipschitz / (d + d * d / (4.0 * k)).sqrt()
    }

    /// δ: size of each coordinate of the mean loss.
    pub fn signal(&self) -> f64 {
        self.deviation() * (self.dimension as f64).sqrt() / (2.0 * (self.queries as f64).sqrt())
    }

    /// No algorithm with that many value queries has a smaller expected excess risk: Dδ√d/16 = GD/(16·√(1 + 4k/d)). (The
    /// last form of Liu 2024, Theorem 3.7.1, GD/16·min(1, √(d/4k)), is larger by up to √2 and is not implied.)
    pub fn least_risk(&self) -> f64 {
        self.diameter * self.signal() * (self.dimension as f64).sqrt() / 16.0
    }

    /// Draws v, the direction that is hidden in the noise.
    pub fn direction(&self, stream: &mut Stream) -> Vec<f64> {
        (0..self.dimension).map(|_| if stream.coin() { 1.0 } else { -1.0 }).collect()
    }

    /// One loss, by its slope s.
    pub fn loss(&self, direction: &[f64], stream: &mut Stream) -> Vec<f64> {
        direction.iter().map(|v| self.signal() * v + self.deviation() * stream.standard_normal()).collect()
    }

    /// Excess population risk of a point of the ball over x* = −(D/2)v/√d.
    pub fn excess(&self, direction: &[f64], x: &[f64]) -> f64 {
        let along: f64 = direction.iter().zip(x).map(|(v, x)| v * x).sum();
        self.signal() * (along + 0.5 * self.diameter * (self.dimension as f64).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_noise::{NoiseSource, Purpose};

    const WORKED: ValueQueries = ValueQueries { dimension: 10, queries: 1000, lipschitz: 1.0, diameter: 2.0 };

    #[test]
    fn worked_numbers() {
        assert!((WORKED.deviation() - 0.315833).abs() < 1e-6);
        assert!((WORKED.signal() - 0.0157917).abs() < 1e-7);
        assert!((WORKED.least_risk() - 0.0062422).abs() < 1e-7);
        let closed = 2.0 / (16.0 * (1.0f64 + 400.0).sqrt());
        assert!((WORKED.least_risk() - closed).abs() < 1e-12);
        // the last form of Liu 2024, Theorem 3.7.1: 0.00625
        assert!(WORKED.least_risk() < 2.0 / 16.0 * (10.0f64 / 4000.0).sqrt());
        let d = 10.0;
        assert!((d * (WORKED.deviation().powi(2) + WORKED.signal().powi(2)) - 1.0).abs() < 1e-12);
    }

    /// Two answers from k losses, each of which is at least one query: the empirical minimiser, and a draw from the exact
    /// Gibbs measure N(−mean/μ, I/(kμ)) of temperature k = 2nd·μ/G², projected. Neither beats the bound.
    #[test]
    fn minimisers_and_gibbs_draws_stay_above_the_bound() {
        let mut stream = NoiseSource::insecure(1).stream(Purpose::Audit, 0);
        let (n, d) = (WORKED.queries as usize, WORKED.dimension);
        let half = 0.5 * WORKED.diameter;
        let trials = 60;
        let (mut minimiser, mut draw) = (0.0, 0.0);
        for _ in 0..trials {
            let v = WORKED.direction(&mut stream);
            let mut mean = vec![0.0; d];
            for _ in 0..n {
                mean.iter_mut().zip(WORKED.loss(&v, &mut stream)).for_each(|(m, s)| *m += s / n as f64);
            }
            let size = mean.iter().map(|m| m * m).sum::<f64>().sqrt();
            let least: Vec<f64> = mean.iter().map(|m| -half * m / size).collect();
            minimiser += WORKED.excess(&v, &least) / f64::from(trials);
            let modulus = size / half; // the regularised minimiser lies on the sphere
            let temperature = 2.0 * n as f64 * d as f64 * modulus;
            let mut x: Vec<f64> =
                mean.iter().map(|m| -m / modulus + stream.standard_normal() / (temperature * modulus).sqrt()).collect();
            let reach = x.iter().map(|x| x * x).sum::<f64>().sqrt().max(half);
            x.iter_mut().for_each(|x| *x *= half / reach);
            draw += WORKED.excess(&v, &x) / f64::from(trials);
        }
        assert!(minimiser >= WORKED.least_risk() && draw >= WORKED.least_risk(), "{minimiser} {draw}");
        // and the bound is not empty: standing still costs more than both
        let nothing = WORKED.excess(&[1.0; 10], &[0.0; 10]);
        assert!(minimiser < nothing && draw < nothing, "{minimiser} {draw} {nothing}");
    }
}
