//! Pairs of guarantees that are stated as numbers: lists of (ε, δ), Rényi curves, concentrated privacy (spec 18 §1, Lemma A).

use super::atoms::Atoms;
use super::grid::LARGEST_LOSS;
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
    let divergence = |order: f64| (xi + rho * order) * (1.0 + f64::EPSILON);
    profile(|e| {
        // the best order for each ε; any order is valid
        let at = |x: f64| conversion::ln_delta(1.0 + x.exp(), divergence(1.0 + x.exp()), e);
        at(conversion::golden_section(1e-6f64.ln(), 1e9f64.ln(), at)).min(0.0)
    })
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
        // ρ = .5: ε = 5.22153444453 at δ = 1e-6 (spec 18 §10)
        let m = concentrated(0.5, 0.0).masses(&[5.22153444453]);
        let delta = m.p[1] - 5.22153444453f64.exp() * m.q[1];
        // between its points the profile is a chord: below one percent in δ
        assert!(delta > 0.99999e-6 && delta < 1.01e-6, "{delta}");
    }
}
