//! Density of the positive c-stable law, E e^(−tλ) = e^(−t^c), in logarithms (Zolotarev's integral over an angle).
//!
//! μ(λ) = c/(1 − c)·λ^(−1/(1−c))·(1/π)∫_0^π A(u)e^(−A(u)·B) du, B = λ^(−c/(1−c)),
//! A(u) = sin((1−c)u)·sin(cu)^(c/(1−c))/sin(u)^(1/(1−c)), increasing from A(0) = (1−c)·c^(c/(1−c)). For small λ all mass of the
//! integral is near 0, for large λ near π: the rule's nodes crowd at both ends (tanh and sinh).

use dpopt_privacy::special::log_sum_exp;
use std::f64::consts::{FRAC_PI_2, PI};

pub(super) struct Stable {
    c: f64,
    /// ln A(0), the smallest value of ln A(u).
    ln_least: f64,
    /// ln(A/A(0)) and ln(weight/π·A) at each node.
    nodes: Vec<(f64, f64)>,
}

/// ln(sin(v)/v), to the last digits for small v too.
fn ln_sinc(v: f64) -> f64 {
    if v > 0.3 {
        return (v.sin() / v).ln();
    }
    let s = v * v;
    -s / 6.0 * (1.0 + s / 30.0 * (1.0 + s * (4.0 / 63.0) * (1.0 + s * (3.0 / 40.0) * (1.0 + s * (80.0 / 990.0)))))
}

impl Stable {
    pub(super) fn new(c: f64) -> Self {
        let rest = 1.0 - c;
        let ln_least = rest.ln() + c / rest * c.ln();
        let step = 1.0 / 128.0;
        let nodes = (-512..=512)
            .map(|k| {
                let t = step * f64::from(k);
                let g = FRAC_PI_2 * t.sinh();
                let (u, short) = (PI / (1.0 + (-2.0 * g).exp()), PI / (1.0 + (2.0 * g).exp()));
                let ln_sine = if u < short { ln_sinc(u) } else { (short.sin() / u).ln() };
                let ln_rise = ln_sinc(rest * u) + c / rest * ln_sinc(c * u) - ln_sine / rest;
                // du = (π/2)/cosh²(g)·(π/2)cosh(t)·dt
                let ln_cosh = g.abs() + (-2.0 * g.abs()).exp().ln_1p() - 2f64.ln();
                let ln_weight = 2.0 * FRAC_PI_2.ln() + t.cosh().ln() - 2.0 * ln_cosh + step.ln() - PI.ln();
                (ln_rise.max(0.0), ln_weight + ln_least + ln_rise.max(0.0))
            })
            .collect();
        Self { c, ln_least, nodes }
    }

    /// ln μ(e^τ): the logarithm of the density of the mixing law.
    pub(super) fn ln_density(&self, tau: f64) -> f64 {
        let rest = 1.0 - self.c;
        let ln_b = -tau * self.c / rest;
        let least = (self.ln_least + ln_b).exp();
        let angle = self.nodes.iter().map(|&(ln_rise, ln_weight)| {
            // (A − A(0))·B
            let excess =
                if ln_rise < 1.0 { least * ln_rise.exp_m1() } else { (self.ln_least + ln_rise + ln_b).exp() - least };
            ln_weight - excess
        });
        (self.c / rest).ln() - tau / rest - least + log_sum_exp(angle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sines() {
        for v in [1e-9f64, 0.01, 0.1, 0.2999] {
            let direct: f64 = if v < 0.05 { -v * v / 6.0 - v.powi(4) / 180.0 } else { (v.sin() / v).ln() };
            assert!((ln_sinc(v) / direct - 1.0).abs() < 1e-9, "{v}");
        }
    }

    /// c = 1/2 has the density λ^(−3/2)e^(−1/(4λ))/(2√π).
    #[test]
    fn one_half_has_a_closed_form() {
        let stable = Stable::new(0.5);
        for tau in [-9.0, -5.0, -2.0, 0.0, 3.0, 20.0, 40.0] {
            let closed = -1.5 * tau - 0.25 * f64::exp(-tau) - (2.0 * PI.sqrt()).ln();
            assert!((stable.ln_density(tau) - closed).abs() < 1e-10 * closed.abs().max(1.0), "{tau}");
        }
    }

    #[test]
    fn transforms_of_other_laws() {
        for c in [0.2, 0.4, 2.0 / 3.0, 0.9] {
            let stable = Stable::new(c);
            for s in [0.0f64, 0.3, 1.0, 4.0] {
                let (low, step) = (-30.0, 0.02);
                // beyond e^28 a stable law of c = .2 still has 5e-3 of its mass: only the transform of s > 0 is finite here
                let to = if s == 0.0 { 160.0 } else { 28.0 };
                let sum: f64 = (0..((to - low) / step) as i32)
                    .map(|i| {
                        let tau = low + step * f64::from(i);
                        (stable.ln_density(tau) + tau - s * tau.exp()).exp() * step
                    })
                    .sum();
                assert!((sum - (-s.powf(c)).exp()).abs() < 1e-8, "{c} {s}: {sum}");
            }
        }
    }
}
