//! Poisson sampling of a directed pair: ((1−q)Q + qP, Q) and its reverse (Zhu, Dong, Wang 2022).

use super::pair::{Masses, Pair, PointLosses, U};

/// ((1−q)Q + qP, Q) for the pair (P, Q) of the sampled mechanism; wrap in `Reversed` for absent → present.
#[derive(Clone, Debug)]
pub(crate) struct PoissonPair<T> {
    pub probability: f64,
    pub base: T,
}

/// Loss of the base mechanism at which the sampled loss is `loss`: ln(1 + (e^loss − 1)/q), −∞ below ln(1−q).
pub(crate) fn base_loss(loss: f64, q: f64) -> f64 {
    if loss > 40.0 {
        // e^-40 is below one ulp
        return loss - q.ln() + (-(1.0 - q) * (-loss).exp()).ln_1p();
    }
    let x = loss.exp_m1();
    if x + q <= 0.0 {
        f64::NEG_INFINITY
    } else if x < -0.5 * q {
        ((x + q) / q).ln()
    } else {
        (x / q).ln_1p()
    }
}

/// ln(1 − q + q·e^loss), the inverse of [`base_loss`].
fn sampled_loss(loss: f64, q: f64) -> f64 {
    if loss < 40.0 { (q * loss.exp_m1()).ln_1p() } else { loss + q.ln() + ((1.0 - q) / q * (-loss).exp()).ln_1p() }
}

impl<T: Pair> Pair for PoissonPair<T> {
    fn masses(&self, borders: &[f64]) -> Masses {
        let q = self.probability;
        let inner: Vec<f64> = borders.iter().map(|&e| base_loss(e, q)).collect();
        let mut m = self.base.masses(&inner);
        for i in 0..m.p.len() {
            m.p[i] = q * m.p[i] + (1.0 - q) * m.q[i];
            m.p_error[i] = q * m.p_error[i] + (1.0 - q) * m.q_error[i] + 4.0 * U * m.p[i];
        }
        m
    }

    fn atoms(&self) -> PointLosses {
        self.base.atoms().map(|l| sampled_loss(l, self.probability))
    }
}

#[cfg(test)]
mod tests {
    use super::super::pair::{GaussianPair, Reversed};
    use super::*;

    fn profile(pair: &dyn Pair, epsilon: f64) -> f64 {
        let m = pair.masses(&[epsilon]);
        m.p[1] - epsilon.exp() * m.q[1]
    }

    /// One-step profiles: reference values in high precision (mpmath).
    #[test]
    fn one_step_profiles() {
        let pair = |q: f64, s: f64| PoissonPair { probability: q, base: GaussianPair { mu: 1.0 / s } };
        for (q, s, e, value) in [
            (0.01, 1.0, 0.5, 2.214519013153e-7),
            (0.01, 1.0, -0.005, 0.00594586144021),
            (1e-6, 0.5, 1.0, 7.665107359276e-17),
            (0.5, 0.1, 20.0, 0.4987767591875),
        ] {
            let got = profile(&pair(q, s), e);
            assert!((got / value - 1.0).abs() < 1e-9, "{q} {s} {e}: {got}");
        }
        let reversed = Reversed(pair(0.01, 1.0));
        assert!((profile(&reversed, 0.005) / 9.631443353053e-4 - 1.0).abs() < 1e-10);
        assert_eq!(profile(&reversed, 0.02), 0.0);
    }
}
