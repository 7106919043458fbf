//! K(z) = ∫e^(zu − |u|^q) du, and the law of one coordinate, ∝ e^(zu − |u|^q).

use super::peak::Peak;
use crate::sampler::log_concave::LogConcave;
use dpopt_noise::Stream;
use dpopt_privacy::special::ln_gamma;

pub(super) struct Coordinate {
    q: f64,
    /// K(0) = 2Γ(1 + 1/q).
    at_zero: f64,
    /// Quotients of the terms of K(z) = (2/q)Σ z^(2k)Γ((2k + 1)/q)/(2k)!.
    quotients: Vec<f64>,
}

/// ln K with its first two derivatives: mean and variance of the coordinate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cumulants {
    pub(super) ln_k: f64,
    pub(super) mean: f64,
    pub(super) variance: f64,
}

/// The power series is used while K(z) is below about e^60: beyond, nothing of the integral is left at 0.
const LARGEST: f64 = 60.0;

impl Coordinate {
    pub(super) fn new(q: f64) -> Self {
        let quotient = |k: u32| {
            let a = f64::from(2 * k + 1);
            (ln_gamma((a + 2.0) / q) - ln_gamma(a / q)).exp() / (a * (a + 1.0))
        };
        Self { q, at_zero: 2.0 * ln_gamma(1.0 + 1.0 / q).exp(), quotients: (0..500).map(quotient).collect() }
    }

    /// The point u at which e^(zu − u^q) is largest, z ≥ 0.
    fn mode(&self, z: f64) -> f64 {
        (z / self.q).powf(1.0 / (self.q - 1.0))
    }

    /// The cumulants at z ≥ 0.
    pub(super) fn cumulants(&self, z: f64) -> Cumulants {
        let mode = self.mode(z);
        if (self.q - 1.0) * mode.powf(self.q) > LARGEST {
            return self.around(mode, z);
        }
        let square = z * z;
        let (mut term, mut k, mut slope, mut curvature) = (self.at_zero, self.at_zero, 0.0, 0.0);
        for (i, quotient) in self.quotients.iter().enumerate() {
            term *= square * quotient;
            let power = 2.0 * (i as f64 + 1.0);
            k += term;
            slope += power * term;
            curvature += power * (power - 1.0) * term;
            if term * power * power < 1e-18 * k {
                break;
            }
        }
        if z == 0.0 {
            let variance = 2.0 * self.quotients[0];
            return Cumulants { ln_k: k.ln(), mean: 0.0, variance };
        }
        let mean = slope / (k * z);
        // E u² of a tiny z is that of 0: z² may underflow
        let second = if square > 1e-280 { curvature / (k * square) } else { 2.0 * self.quotients[0] };
        Cumulants { ln_k: k.ln(), mean, variance: second - mean * mean }
    }

    /// The cumulants by the trapezoidal rule around the mode.
    fn around(&self, mode: f64, z: f64) -> Cumulants {
        let q = self.q;
        let width = 1.0 / (q * (q - 1.0) * mode.powf(q - 2.0)).sqrt();
        let peak = Peak::of(|u: f64| z * u - u.abs().powf(q), mode, width, 0.3, f64::INFINITY);
        let weights = peak.weights();
        let mean = mode + weights.iter().zip(&peak.nodes).map(|(w, u)| w * (u - mode)).sum::<f64>();
        let variance = weights.iter().zip(&peak.nodes).map(|(w, u)| w * (u - mean).powi(2)).sum();
        Cumulants { ln_k: peak.ln_integral(), mean, variance }
    }

    /// An exact draw of the coordinate, z of any sign.
    pub(super) fn draw(&self, z: f64, stream: &mut Stream) -> f64 {
        let q = self.q;
        let mode = self.mode(z.abs());
        let curvature = q * (q - 1.0) * mode.powf(q - 2.0);
        let width = (1.4 / curvature.sqrt()).min(1.0);
        let all = (f64::NEG_INFINITY, f64::INFINITY);
        LogConcave::new(|u: f64| z * u - u.abs().powf(q), all, mode.copysign(z), width).sample(stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// q = 2: K = √π·e^(z²/4), mean z/2, variance 1/2, by the series and by the rule.
    #[test]
    fn gaussian_coordinates() {
        let coordinate = Coordinate::new(2.0);
        for z in [0.0, 1e-170, 1e-3, 1.0, 7.0, 15.4, 15.6, 40.0, 1e4] {
            let c = coordinate.cumulants(z);
            let ln_k = 0.5 * std::f64::consts::PI.ln() + 0.25 * z * z;
            assert!((c.ln_k - ln_k).abs() < 1e-12 * ln_k.max(1.0), "{z}");
            assert!((c.mean - 0.5 * z).abs() < 1e-11 * z.max(1.0) && (c.variance - 0.5).abs() < 1e-9, "{z}: {c:?}");
        }
    }

    /// Both ways agree on either side of where they change, and the derivatives are those of ln K.
    #[test]
    fn series_and_rule_agree() {
        for q in [2.1, 3.0, 4.0, 11.0, 40.0] {
            let coordinate = Coordinate::new(q);
            let mode = (1.0001 * LARGEST / (q - 1.0)).powf(1.0 / q);
            let z = q * mode.powf(q - 1.0);
            let (above, below) = (coordinate.cumulants(z), coordinate.cumulants(z * (1.0 - 2e-4)));
            let step = z * 2e-4;
            let predicted = above.ln_k - step * above.mean + 0.5 * step * step * above.variance;
            assert!((predicted - below.ln_k).abs() < 1e-7, "{q}: {predicted} {}", below.ln_k);
            assert!((above.variance / below.variance - 1.0).abs() < 5e-3, "{q}");
            for z in [0.3, 3.0, 2.0 * z] {
                let h = 1e-4 * z;
                let [low, middle, high] = [z - h, z, z + h].map(|z| coordinate.cumulants(z));
                assert!(((high.ln_k - low.ln_k) / (2.0 * h) / middle.mean - 1.0).abs() < 1e-6, "{q} {z}");
                assert!(((high.mean - low.mean) / (2.0 * h) / middle.variance - 1.0).abs() < 1e-5, "{q} {z}");
            }
        }
    }
}
