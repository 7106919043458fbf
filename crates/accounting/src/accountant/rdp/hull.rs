//! A list of (ε, δ) as a pair: the lower convex hull of the points (0, 1), (e^ε, δ) is the profile of a pair that
//! dominates (docs/proofs/accounting-pld.md, "Hull"), with atoms of the loss at its corners.

use dpopt_event::special::log_sum_exp;

/// Atoms (loss, ln Q-mass) of the hull, and the mass of infinite loss. Profiles bound both directions.
pub(super) fn atoms(epsilons: &[f64], deltas: &[f64]) -> (Vec<(f64, f64)>, f64) {
    // chain of hull corners (γ, h)
    let mut hull: Vec<(f64, f64)> = vec![(0.0, 1.0)];
    for (epsilon, delta) in epsilons.iter().zip(deltas) {
        let gamma = epsilon.exp();
        if !gamma.is_finite() {
            break;
        }
        // a point is dropped when it is not below the chord of its neighbours
        while let [.., (g0, h0), (g1, h1)] = hull[..]
            && (h1 - h0) * (gamma - g0) >= (delta - h0) * (g1 - g0)
        {
            hull.pop();
        }
        hull.push((gamma, *delta));
    }
    let mut atoms = Vec::new();
    for (i, &(gamma, h)) in hull.iter().enumerate().skip(1) {
        let (g0, h0) = hull[i - 1];
        let slope_before = (h - h0) / (gamma - g0);
        // constant beyond the last point
        let slope_after = hull.get(i + 1).map_or(0.0, |(g2, h2)| (h2 - h) / (g2 - gamma));
        let mass = slope_after - slope_before;
        if mass > 0.0 {
            atoms.push((gamma.ln(), mass.ln()));
        }
    }
    (atoms, hull.last().map_or(1.0, |corner| corner.1))
}

/// ln Σ Q·e^{αl} / (α − 1) over the finite atoms, at least 0.
pub(super) fn divergence(atoms: &[(f64, f64)], order: f64) -> f64 {
    let ln_moment = log_sum_exp(atoms.iter().map(|(l, ln_q)| ln_q + order * l));
    // 1e-12: rounding of the slopes
    ((ln_moment + 1e-12) / (order - 1.0)).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_event::special::gaussian_ln_delta;

    #[test]
    fn a_fine_list_is_nearly_the_curve() {
        let epsilons: Vec<f64> = (0..=2000).map(|i| f64::from(i) * 0.01).collect();
        let deltas: Vec<f64> = epsilons.iter().map(|e| gaussian_ln_delta(*e, 1.0).exp()).collect();
        let (atoms, rest) = atoms(&epsilons, &deltas);
        assert!(rest < 1e-80);
        // one-sided list (ε ≥ 0 only): above the Gaussian's α/2, and not by much at a large order
        let value = divergence(&atoms, 8.0);
        assert!(value > 4.0 && value < 4.1, "{value}");
    }

    #[test]
    fn hull_drops_what_is_not_below_a_chord() {
        let (corners, rest) = atoms(&[0.0, 1.0, 2.0], &[0.3, 0.3, 0.1]);
        // (1, .3) and (e, .3) lie on or above the chords to (e², .1)
        assert!(corners.len() <= 2 && rest == 0.1, "{corners:?}");
        // P mass + infinite mass = 1 when the slope at 0 is −1 only; here it is at most 1
        let p: f64 = corners.iter().map(|(l, q)| (l + q).exp()).sum();
        assert!((p + rest - 1.0).abs() < 1e-12, "{p}");
    }
}
