//! A mechanism repeated a random, secret number K of times and the best output released (Papernot, Steinke 2022,
//! Theorems 2 and 6); the proof is written out in docs/proofs/repeat-and-select.md.
//!
//! K is truncated negative binomial: shape 0 logarithmic, 1 geometric; shape ∞ is Poisson.

use crate::accountant::conversion;
use crate::special::log_add_exp;

/// E K of the truncated negative binomial law with parameter γ.
fn mean_of(gamma: f64, shape: f64) -> f64 {
    let ln = gamma.ln();
    if shape == 0.0 {
        return (1.0 - gamma) / (gamma * -ln);
    }
    shape * (1.0 - gamma) / (gamma * -(shape * ln).exp_m1())
}

/// The γ in (0, 1) whose mean is `mean` > 1, rounded down (a smaller γ only enlarges the bound).
fn gamma_of(mean: f64, shape: f64) -> f64 {
    let (mut low, mut high) = (-700.0f64, 0.0f64);
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if mean_of(middle.exp(), shape) > mean { low = middle } else { high = middle }
    }
    low.exp() * (1.0 - 1e-12)
}

/// Divergence of order `order`; `base` bounds the repeated mechanism's divergence in both directions.
pub(super) fn divergence(base: &impl Fn(f64) -> f64, mean: f64, shape: f64, order: f64) -> Result<f64, String> {
    let own = base(order);
    if shape == f64::INFINITY {
        // δ̂ of the base at e^ε̂ = 1 + 1/(α−1); the outcome of K = 0 has the same probability on both sides
        let epsilon = (1.0 / (order - 1.0)).ln_1p();
        let at = |x: f64| conversion::ln_delta(1.0 + x.exp(), base(1.0 + x.exp()), epsilon);
        let delta = at(conversion::golden_section(1e-3f64.ln(), 1e4f64.ln(), at)).min(0.0).exp();
        let some = mean.ln() + (order - 1.0) * (own + mean * delta);
        return Ok(log_add_exp(some, -mean) / (order - 1.0));
    }
    if mean < 1.0 {
        return Err(format!("a truncated negative binomial number of runs has a mean of at least 1, not {mean}"));
    }
    if mean == 1.0 {
        return Ok(own);
    }
    let ln_inverse = -gamma_of(mean, shape).ln();
    // any second order is valid
    let extra = |x: f64| {
        let a = 1.0 + x.exp();
        (1.0 - 1.0 / a) * base(a) + ln_inverse / a
    };
    let least = extra(conversion::golden_section(1e-3f64.ln(), 1e5f64.ln(), extra));
    Ok(own + (1.0 + shape) * least + mean.ln() / (order - 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parameter_has_the_mean() {
        for (mean, shape) in [(10.0, 0.0), (10.0, 1.0), (3.0, 0.5), (1e6, 1.0)] {
            let gamma = gamma_of(mean, shape);
            assert!((mean_of(gamma, shape) / mean - 1.0).abs() < 1e-9, "{mean} {shape} {gamma}");
        }
        // geometric: γ = 1/mean
        assert!((gamma_of(8.0, 1.0) * 8.0 - 1.0).abs() < 1e-9);
    }

    /// Exact Rényi divergence of the best of K randomized answers over {0, 1} (1 is best): P{best = 0} = E[p0^K].
    #[test]
    fn never_below_an_exact_instance() {
        let epsilon = 0.3f64;
        let (keep, flip) = (1.0 / (1.0 + (-epsilon).exp()), 1.0 / (1.0 + epsilon.exp()));
        let base = |a: f64| {
            let x = (a - 1.0) * epsilon;
            ((keep * x.exp() + flip * (-x).exp()).ln() / (a - 1.0)).min(epsilon)
        };
        for (mean, shape) in [(5.0, 1.0), (5.0, 0.0), (4.0, f64::INFINITY), (1.5, 2.0)] {
            let gamma = if shape.is_finite() { gamma_of(mean, shape) } else { 0.5 };
            let none = |p0: f64| -> f64 {
                let y = (1.0 - gamma) * p0;
                if shape == f64::INFINITY {
                    f64::exp(mean * (p0 - 1.0)) - f64::exp(-mean)
                } else if shape == 0.0 {
                    (1.0 - y).ln() / gamma.ln()
                } else {
                    ((1.0 - y).powf(-shape) - 1.0) / (gamma.powf(-shape) - 1.0)
                }
            };
            let rest = if shape == f64::INFINITY { (-mean).exp() } else { 0.0 };
            for order in [1.5, 2.0, 4.0, 16.0] {
                for (a, b) in [(keep, flip), (flip, keep)] {
                    let (p, q) = (none(a), none(b));
                    let (p1, q1) = (1.0 - rest - p, 1.0 - rest - q);
                    let term = |p: f64, q: f64| if p > 0.0 { p.powf(order) * q.powf(1.0 - order) } else { 0.0 };
                    let exact = (term(p, q) + term(p1, q1) + rest).ln() / (order - 1.0);
                    let bound = divergence(&base, mean, shape, order).unwrap();
                    assert!(bound >= exact, "{mean} {shape} {order}: {bound} {exact}");
                }
            }
        }
    }
}
