//! From a Rényi divergence to (ε, δ) and back (Canonne, Kamath, Steinke 2020, Prop. 12).
//!
//! δ = e^{(α−1)(ρ−ε)}·(1/α)(1−1/α)^{α−1}, because (1−e^{−u})_+ ≤ c_α·e^{(α−1)u}. Valid at every single order α > 1.

use dpopt_event::special::UNIT_ROUNDOFF;

/// Smallest ε ≥ 0 that a divergence `rho` of order `order` gives at `delta`, rounded up.
///
/// ```
/// use dpopt_privacy::accountant::conversion::epsilon;
/// // ρ-zCDP with ρ = 1/2 at its best order
/// assert!((epsilon(5.907, 0.5 * 5.907, 1e-6) - 5.221534).abs() < 1e-5);
/// ```
pub fn epsilon(order: f64, rho: f64, delta: f64) -> f64 {
    if covers_total_variation(rho, delta) { 0.0 } else { epsilon_moment(order, rho, delta) }
}

/// Whether the total variation, at most √(1 − e^{−ρ}) (Bretagnolle, Huber), is at most `delta`: then ε = 0.
fn covers_total_variation(rho: f64, delta: f64) -> bool {
    rho >= 0.0 && delta * (1.0 - 8.0 * UNIT_ROUNDOFF) >= (-(-rho).exp_m1()).sqrt()
}

/// The moment bound alone, unimodal in the order where [`ln_delta_moment`] is at every ε.
fn epsilon_moment(order: f64, rho: f64, delta: f64) -> f64 {
    let shift = (-1.0 / order).ln_1p();
    let tail = (delta.ln() + order.ln()) / (order - 1.0);
    let rounding = 8.0 * UNIT_ROUNDOFF * (rho.abs() + shift.abs() + (delta.ln().abs() + order.ln()) / (order - 1.0));
    let value = rho + shift - tail + rounding;
    if value.is_nan() { f64::INFINITY } else { value.max(0.0) }
}

/// ln δ that a divergence `rho` of order `order` gives at `epsilon`, rounded up, at most 0.
pub fn ln_delta(order: f64, rho: f64, epsilon: f64) -> f64 {
    let mut value = ln_delta_moment(order, rho, epsilon);
    if epsilon >= 0.0 {
        // Bretagnolle, Huber
        value = value.min(0.5 * (-(-rho).exp_m1()).ln() + 4.0 * UNIT_ROUNDOFF);
    }
    if value.is_nan() { 0.0 } else { value.min(0.0) }
}

/// The moment bound alone, of a divergence ξ + ρα convex and so unimodal in the order.
pub(crate) fn ln_delta_moment(order: f64, rho: f64, epsilon: f64) -> f64 {
    let exponent = (order - 1.0) * (rho - epsilon);
    let constant = -order.ln() + (order - 1.0) * (-1.0 / order).ln_1p();
    exponent + constant + 8.0 * UNIT_ROUNDOFF * (((order - 1.0) * (rho + epsilon)).abs() + constant.abs() + 1.0)
}

/// The least order that is asked: α − 1.
const LEAST_ABOVE: f64 = 1e-6;

/// The order α > 1 that minimises `objective(α)`, unimodal.
fn best_of_orders(objective: impl Fn(f64) -> f64) -> f64 {
    1.0 + golden_section(LEAST_ABOVE.ln(), 1e9f64.ln(), |x| objective(1.0 + x.exp())).exp()
}

/// Smallest ε ≥ 0 of (ξ, ρ)-zCDP at `delta`, at its best order, rounded up. Looked for on the moment bound, which is unimodal:
/// with the total variation in the same objective a search ends on the plateau that this one has at orders near 1.
pub(crate) fn concentrated_epsilon(rho: f64, xi: f64, delta: f64) -> f64 {
    let divergence = |order: f64| (xi + rho * order) * (1.0 + 2.0 * UNIT_ROUNDOFF);
    if covers_total_variation(divergence(1.0 + LEAST_ABOVE), delta) {
        return 0.0;
    }
    let order = best_of_orders(|order| epsilon_moment(order, divergence(order), delta));
    epsilon_moment(order, divergence(order), delta)
}

/// ln δ of (ξ, ρ)-zCDP at `epsilon`, at its best order, rounded up, at most 0.
pub(crate) fn concentrated_ln_delta(rho: f64, xi: f64, epsilon: f64) -> f64 {
    if rho == 0.0 && xi == 0.0 && epsilon >= 0.0 {
        return f64::NEG_INFINITY;
    }
    let divergence = |order: f64| (xi + rho * order) * (1.0 + 2.0 * UNIT_ROUNDOFF);
    let best = best_of_orders(|order| ln_delta_moment(order, divergence(order), epsilon));
    // the total variation is bounded best by the least order
    let at = |order: f64| ln_delta(order, divergence(order), epsilon);
    at(best).min(at(1.0 + LEAST_ABOVE))
}

/// Largest divergence of order `order` that is certified as (`epsilon`, `delta`)-DP, rounded down; negative if none.
pub fn budget(order: f64, epsilon: f64, delta: f64) -> f64 {
    let shift = (-1.0 / order).ln_1p();
    let tail = (delta.ln() + order.ln()) / (order - 1.0);
    let rounding = 16.0 * UNIT_ROUNDOFF * (epsilon + shift.abs() + (delta.ln().abs() + order.ln()) / (order - 1.0));
    epsilon - shift + tail - rounding
}

/// The order at which (`epsilon`, `delta`) leaves most room for Gaussian mechanisms (largest budget / order), and
/// that order's budget. Depends on public numbers only.
pub fn best_order(epsilon: f64, delta: f64) -> (f64, f64) {
    let room = |x: f64| budget(1.0 + x.exp(), epsilon, delta) / (1.0 + x.exp());
    // ln(α − 1) from 1e-3 to 1e6: the room is unimodal there
    let x = golden_section(1e-3f64.ln(), 1e6f64.ln(), |x| -room(x));
    let order = 1.0 + x.exp();
    (order, budget(order, epsilon, delta))
}

/// A stated curve at any order: (α−1)·D_α is convex in α and 0 at 1, so chords lie above it; nothing is known beyond
/// the last order.
pub(crate) fn interpolate(orders: &[f64], divergences: &[f64], order: f64) -> f64 {
    let after = orders.partition_point(|a| *a < order);
    let Some(&right) = orders.get(after) else {
        return f64::INFINITY;
    };
    let (left, at_left) = match after {
        0 => (1.0, 0.0),
        i => (orders[i - 1], (orders[i - 1] - 1.0) * divergences[i - 1]),
    };
    let at_right = (right - 1.0) * divergences[after];
    let share = (order - left) / (right - left);
    let chord = (at_left + (at_right - at_left) * share) / (order - 1.0);
    // D_α does not decrease with α
    chord.min(divergences[after])
}

/// Abscissa of a minimum of a unimodal function, to about 1e-8 of the range.
pub fn golden_section(low: f64, high: f64, f: impl Fn(f64) -> f64) -> f64 {
    golden_section_rounds(low, high, 40, f)
}

/// Abscissa of a minimum of a unimodal function, to 0.618^`rounds` of the range.
pub(crate) fn golden_section_rounds(mut low: f64, mut high: f64, rounds: usize, f: impl Fn(f64) -> f64) -> f64 {
    const RATIO: f64 = 0.618_033_988_749_894_9;
    let (mut a, mut b) = (high - RATIO * (high - low), low + RATIO * (high - low));
    let (mut fa, mut fb) = (f(a), f(b));
    for _ in 0..rounds {
        if fa <= fb {
            (high, b, fb) = (b, a, fa);
            a = high - RATIO * (high - low);
            fa = f(a);
        } else {
            (low, a, fa) = (a, b, fb);
            b = low + RATIO * (high - low);
            fb = f(b);
        }
    }
    if fa <= fb { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_forms_agree() {
        for (order, rho, delta) in [(5.9, 2.0, 1e-6), (1.01, 0.3, 1e-3), (500.0, 3.0, 1e-50)] {
            let e = epsilon(order, rho, delta);
            assert!((ln_delta(order, rho, e) - f64::ln(delta)).abs() < 1e-9 * f64::ln(delta).abs());
            assert!((budget(order, e, delta) - rho).abs() < 1e-9 * (1.0 + e) && budget(order, e, delta) <= rho);
        }
        assert_eq!(epsilon(2.0, 1e-10, 1e-4), 0.0);
        assert!(epsilon(2.0, 1e-4, 1e-4) > 0.0);
        assert!(ln_delta(2.0, 1e-10, 0.0) < -11.0);
    }

    #[test]
    fn a_stated_curve_between_its_orders() {
        let (orders, rho) = ([2.0, 4.0], [0.2, 0.6]);
        assert_eq!(interpolate(&orders, &rho, 2.0), 0.2);
        assert_eq!(interpolate(&orders, &rho, 4.0), 0.6);
        assert!((interpolate(&orders, &rho, 3.0) - (0.2 + 1.8) / 2.0 / 2.0).abs() < 1e-12);
        assert_eq!(interpolate(&orders, &rho, 1.5), 0.2);
        assert_eq!(interpolate(&orders, &rho, 5.0), f64::INFINITY);
    }

    #[test]
    fn order_with_most_room() {
        // a Gaussian with μ²/2 = room has this (ε, δ) by its zCDP value (order 5.907)
        let (order, rho) = best_order(5.221_534_444_53, 1e-6);
        assert!((order - 5.907).abs() < 2e-3 && (rho / order - 0.5).abs() < 1e-6, "{order} {rho}");
    }
}
