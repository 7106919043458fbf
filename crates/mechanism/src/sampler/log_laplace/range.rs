//! How much the regulariser ηψ varies over the unit ball of l_p, and how to reach l_1 (Liu 2024, section 5.5.1).

use super::peak::Peak;
use dpopt_privacy::special::{ln_gamma, log_sum_exp};

/// Λ(d, a) ≥ ψ(x) − ψ(0) for ‖x‖_p ≤ 1: ln E e^R of the radius R = ‖y‖_q, whose density at x = 0 is ∝ r^(d−1)·e^(−ar²) for every p. The
/// regulariser's range is Θ = ηΛ = 2aΛ/(p − 1). Exact up to the error of a quadrature, which nothing proves.
///
/// ```
/// use dpopt_mechanism::sampler::log_laplace::{printed_range, range};
/// assert!((range(10, 0.01) - 38.204).abs() < 1e-3);
/// assert!((printed_range(10, 0.01) - 1043.1).abs() < 0.1);
/// ```
pub fn range(dimension: usize, a: f64) -> f64 {
    let d = dimension as f64;
    let mode = ((1.0 + (1.0 + 8.0 * a * d).sqrt()) / (4.0 * a)).ln();
    // in ln r: e^(d·t + r − ar²)
    let ln_f = |t: f64| d * t + t.exp() - a * (2.0 * t).exp();
    let peak = Peak::of(ln_f, mode, 0.1, 0.25, 0.1);
    let without = ln_gamma(0.5 * d) - 2f64.ln() - 0.5 * d * a.ln();
    peak.ln_integral() - without
}

/// The source's bound on Λ: 8 + 8/a + √((8d/a)·ln(a + d/a)).
pub fn printed_range(dimension: usize, a: f64) -> f64 {
    let d = dimension as f64;
    8.0 + 8.0 / a + ((8.0 * d / a) * (a + d / a).ln()).sqrt()
}

/// ψ(e_1) − ψ(0) for φ = ‖y‖_∞², p = a = 1: ln E((1/d)cosh R + ((d − 1)/d)·sinh(R)/R). Grows with √(d/2), which is why a must be small.
pub fn max_norm_rise(dimension: usize) -> f64 {
    let d = dimension as f64;
    let ln_f = |t: f64| d * t - (2.0 * t).exp();
    let peak = Peak::of(ln_f, 0.5 * (0.5 * d).ln(), 0.1, 0.2, 0.1);
    let terms = peak.nodes.iter().zip(&peak.ln_weights).map(|(t, ln)| {
        let r = t.exp();
        // cosh r = e^r(1 + e^(−2r))/2, sinh(r)/r = e^r(1 − e^(−2r))/(2r)
        let e = (-2.0 * r).exp();
        let sinh = if r < 1e-8 { 2.0 } else { -(-2.0 * r).exp_m1() / r };
        ln + r + (((1.0 + e) + (d - 1.0) * sinh) / (2.0 * d)).ln()
    });
    log_sum_exp(terms) - peak.ln_integral()
}

/// The exponent p' ≥ p with which a draw for l_p is made, and the factor d^(1/p − 1/p') by which every Lipschitz constant grows on
/// the way: ‖g‖_(q') ≤ d^(1/p − 1/p')‖g‖_q, with equality for equal entries. Near p = 1, ηψ is strongly convex in the new norm
/// only, so leaving out the factor is leaving out noise: 1.61 times too little at d = 3 (test).
///
/// ```
/// use dpopt_mechanism::sampler::log_laplace::raised_exponent;
/// let (p, factor) = raised_exponent(1.0, 100);
/// assert!((p - 1.2171).abs() < 1e-4 && (factor - 2.2741).abs() < 1e-4);
/// assert_eq!(raised_exponent(1.5, 100), (1.5, 1.0));
/// ```
pub fn raised_exponent(p: f64, dimension: usize) -> (f64, f64) {
    let d = dimension as f64;
    let least = if dimension <= 2 { 2.0 } else { (1.0 + 1.0 / d.ln()).min(2.0) };
    let raised = p.max(least);
    (raised, d.powf(1.0 / p - 1.0 / raised))
}
