//! A mechanism repeated a random, secret number K of times and the best output released (Papernot, Steinke 2022,
//! Theorems 2 and 6); the proof is written out in docs/proofs/repeat-and-select.md.
//!
//! K is truncated negative binomial: shape 0 logarithmic, 1 geometric; shape ∞ is Poisson.

use dpopt_event::special::log_add_exp;

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

/// A mean number of runs that the law cannot have.
pub(super) fn refused(mean: f64, shape: f64) -> Option<String> {
    (shape.is_finite() && mean < 1.0)
        .then(|| format!("a truncated negative binomial number of runs has a mean of at least 1, not {mean}"))
}

/// What a Poisson number of runs needs of the base for order `order`: δ̂ at this ε̂, e^ε̂ = 1 + 1/(α−1).
pub(super) fn poisson_epsilon(order: f64) -> f64 {
    // a smaller ε̂ only enlarges δ̂
    (1.0 / (order - 1.0)).ln_1p() * (1.0 - 4.0 * f64::EPSILON)
}

/// A Poisson number of runs: `own` bounds the base's divergence at `order`, `delta` its δ at [`poisson_epsilon`], both in both
/// directions. The outcome of K = 0 has the same probability on both sides.
pub(super) fn poisson(own: f64, delta: f64, mean: f64, order: f64) -> f64 {
    log_add_exp(mean.ln() + (order - 1.0) * (own + mean * delta), -mean) / (order - 1.0)
}

/// The part of a truncated negative binomial number of runs that does not depend on the order: (1 + η)·min over a of
/// (1 − 1/a)·D_a + ln(1/γ)/a. Any second order a is valid; `orders` are tried, then what lies around the best of them.
pub(super) fn negative_binomial_extra(base: impl Fn(f64) -> f64, mean: f64, shape: f64, orders: &[f64]) -> f64 {
    let ln_inverse = -gamma_of(mean, shape).ln();
    let extra = |a: f64| (1.0 - 1.0 / a) * base(a) + ln_inverse / a;
    (1.0 + shape) * least(extra, orders)
}

/// The least value at `orders` (increasing), or near the best of them.
pub(super) fn least(value: impl Fn(f64) -> f64, orders: &[f64]) -> f64 {
    let values: Vec<f64> = orders.iter().map(|a| value(*a)).collect();
    let best = (0..values.len()).min_by(|&i, &j| values[i].total_cmp(&values[j])).unwrap_or(0);
    let ln_above = |i: usize| (orders[i.min(orders.len() - 1)] - 1.0).ln();
    let (mut low, mut high) = (ln_above(best.saturating_sub(1)), ln_above(best + 1));
    let mut least = values[best];
    // a third is taken off each time: 2 % of the order are left, where the minimum is flat
    for _ in 0..8 {
        let (a, b) = (low + (high - low) / 3.0, high - (high - low) / 3.0);
        let (at_a, at_b) = (value(1.0 + a.exp()), value(1.0 + b.exp()));
        least = least.min(at_a).min(at_b);
        if at_a <= at_b { high = b } else { low = a }
    }
    least
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
                    let bound = if shape.is_finite() {
                        base(order)
                            + negative_binomial_extra(base, mean, shape, &[1.1, 2.0, 5.0, 50.0, 500.0])
                            + mean.ln() / (order - 1.0)
                    } else {
                        let at = poisson_epsilon(order);
                        let delta = (keep - at.exp() * flip).max(0.0);
                        poisson(base(order), delta, mean, order)
                    };
                    assert!(bound >= exact, "{mean} {shape} {order}: {bound} {exact}");
                }
            }
        }
    }
}
