//! Pairs of guarantees that are stated as numbers: lists of (ε, δ), Rényi curves, concentrated privacy
//! (docs/proofs/accounting-pld.md, "Hull").

use super::atoms::Atoms;
use super::grid::LARGEST_LOSS;
use super::pair::U;
use crate::accountant::conversion;

/// (`epsilon[i]`, `delta[i]`)-DP for every i, in both orders.
pub(crate) fn listed(epsilon: &[f64], delta: &[f64]) -> Atoms {
    let usable = epsilon.partition_point(|e| *e <= LARGEST_LOSS).max(1);
    Atoms::symmetric(&epsilon[..usable], &delta[..usable])
}

/// Rényi divergence at most `divergences[i]` at `orders[i]`, in both orders of the neighbours.
pub(crate) fn renyi(orders: &[f64], divergences: &[f64]) -> Atoms {
    profile(|e| {
        let ln = orders.iter().zip(divergences).map(|(a, rho)| conversion::ln_delta(*a, *rho, e));
        ln.fold(0.0, f64::min)
    })
}

/// Rényi divergence at most xi + rho·α at every order.
pub(crate) fn concentrated(rho: f64, xi: f64) -> Atoms {
    profile(|e| conversion::concentrated_ln_delta(rho, xi, e))
}

/// A Rényi curve that bounds all of `curves` (orders, divergences, how often) together: divergences of one order add up. Between
/// its orders a curve is interpolated, beyond its last one nothing is known.
pub(crate) fn added(curves: &[(&[f64], &[f64], u64)]) -> (Vec<f64>, Vec<f64>) {
    let mut orders: Vec<f64> = curves.iter().flat_map(|(orders, ..)| orders.iter().copied()).collect();
    orders.sort_by(f64::total_cmp);
    orders.dedup();
    let sum = |order: f64| {
        let one = |(orders, divergences, count): &(&[f64], &[f64], u64)| {
            *count as f64 * conversion::interpolate(orders, divergences, order)
        };
        curves.iter().map(one).fold(0.0, |sum: f64, next| (sum + next) * (1.0 + 8.0 * U))
    };
    orders.into_iter().map(|order| (order, sum(order))).filter(|(_, rho)| rho.is_finite()).unzip()
}

/// The pair of a profile given as ln δ(ε), read at points that are dense near 0.
fn profile(ln_delta: impl Fn(f64) -> f64) -> Atoms {
    const POINTS: usize = 700;
    let mut end = 1e-6;
    while end < LARGEST_LOSS && ln_delta(end) > -140.0 {
        end = (end * 1.5f64).min(LARGEST_LOSS);
    }
    let epsilon: Vec<f64> = (0..=POINTS).map(|i| end * (i as f64 / POINTS as f64).powi(2)).collect();
    let mut delta: Vec<f64> = epsilon.iter().map(|e| ln_delta(*e).exp()).collect();
    for i in 1..delta.len() {
        delta[i] = delta[i].min(delta[i - 1]);
    }
    Atoms::symmetric(&epsilon, &delta)
}

#[cfg(test)]
mod tests {
    use super::super::pair::Pair;
    use super::*;

    #[test]
    fn concentrated_profile_is_the_optimal_conversion() {
        // ρ = .5: ε = 5.22153444453 at δ = 1e-6
        let m = concentrated(0.5, 0.0).masses(&[5.22153444453]);
        let delta = m.p[1] - 5.22153444453f64.exp() * m.q[1];
        // between its points the profile is a chord: below one percent in δ
        assert!(delta > 0.99999e-6 && delta < 1.01e-6, "{delta}");
    }
}
