//! Rényi divergence of sampled pairs as an integral of positive terms.
//!
//! With w = P/Q − 1 one has E_Q w = 0, so E_Q (1+w)^s = 1 + E_Q g, g = (1+w)^s − 1 − sw ≥ 0 for s > 1 and for
//! s < 0: no cancellation however small the divergence. The integrands are analytic at a distance π in the loss, so
//! 10-point Gauss–Legendre panels of width ½ in the loss and in standard deviations give 1e-12; [`INFLATION`] covers it.

use dpopt_event::special::{gauss_legendre_nodes, ln_binomial, ln_normal_pdf, log_add_exp, log_sum_exp};

/// Relative enlargement of ln E_Q g for quadrature and rounding (observed error below 1e-12).
const INFLATION: f64 = 1e-10;

/// How many standard deviations beyond the outermost peak are integrated; the rest is below 1e-23.
const REACH: f64 = 10.0;

/// ln((1+w)^s − 1 − s·w) at w = e^l − 1, for s > 1 or s < 0.
fn ln_excess(l: f64, s: f64) -> f64 {
    if l == 0.0 {
        return f64::NEG_INFINITY;
    }
    let power = s * l;
    if power > 30.0 {
        // e^{sl}·(1 − (1−s)e^{−sl} − s·e^{l−sl})
        return power + (-(1.0 - s) * (-power).exp() - s * (l - power).exp()).ln_1p();
    }
    if l > 600.0 {
        // s < 0: the linear term is all that is left, and e^l overflows
        return (-s).ln() + l;
    }
    let w = l.exp_m1();
    if (w * s).abs().max(w.abs()) < 0.05 {
        // Σ_{k≥2} C(s,k)·w^k
        let mut term = 0.5 * s * (s - 1.0) * w * w;
        let mut sum = term;
        for k in 2..40 {
            let k = f64::from(k);
            term *= (s - k) / (k + 1.0) * w;
            sum += term;
            if term.abs() < 1e-18 * sum {
                break;
            }
        }
        return sum.ln();
    }
    (power.exp_m1() - s * w).ln()
}

/// ln(1 + x) of x given in logs, divided by α − 1: the divergence, enlarged by [`INFLATION`]; overflow is +∞.
fn divergence(ln_excess: f64, order: f64) -> f64 {
    let value = log_add_exp(0.0, ln_excess + INFLATION) / (order - 1.0);
    if value.is_nan() { f64::INFINITY } else { value }
}

/// Panels of an integral at most. A pair that needs more has a divergence in the thousands at that order, where
/// [`jointly_convex`] is as good.
const MAX_PANELS: f64 = 20_000.0;

/// Whether panels of `width` cover `low` to `high`; not if one of them overflowed.
fn coverable(low: f64, high: f64, width: f64) -> bool {
    (high - low) / width <= MAX_PANELS
}

/// Upper bound from joint convexity of ∫P^α Q^(1−α), in either direction: the record takes part with probability p_j,
/// and then shifts a unit Gaussian by μ_j. Close where the shifts are large.
fn jointly_convex(parts: impl Iterator<Item = (f64, f64)>, order: f64) -> f64 {
    let terms = parts.map(|(mu, p)| {
        let exponent = 0.5 * order * (order - 1.0) * mu * mu;
        p.ln() + if exponent > 30.0 { exponent } else { exponent.exp_m1().ln() }
    });
    divergence(log_sum_exp(terms), order)
}

/// ln(1 − q + q·e^base): the loss of the sampled pair.
pub(super) fn sampled_loss(base: f64, q: f64) -> f64 {
    if q > 0.5 && base < -0.5 {
        // what is left of 1 − q would be lost in the sum
        return (1.0 - q + q * base.exp()).ln();
    }
    if base < 30.0 { (q * base.exp_m1()).ln_1p() } else { base + q.ln() + ((1.0 - q) / q * (-base).exp()).ln_1p() }
}

/// Panels from `low` to `high` of width ½, finer by 1/`slope` where the loss is within 40 of a `turn`.
fn ln_integral(low: f64, high: f64, slope: f64, turns: &[f64], ln_f: impl Fn(f64) -> f64) -> f64 {
    let fine = 0.5 / slope.max(1.0);
    let zone = 40.0 / slope;
    let mut terms = Vec::new();
    let mut at = low;
    while at < high {
        let near = turns.iter().any(|turn| (at - turn).abs() <= zone || (at < *turn && at + 0.5 > turn - zone));
        let width = if near { fine } else { 0.5 };
        for (x, weight) in gauss_legendre_nodes(at, width) {
            terms.push(ln_f(x) + f64::ln(weight));
        }
        at += width;
    }
    log_sum_exp(terms)
}

/// Divergence of order `order` of ((1−q)N(0,1) + qN(μ,1)) against N(0,1); the reverse is smaller
/// (Mironov, Talwar, Zhang 2019).
pub(super) fn poisson_gaussian(q: f64, mu: f64, order: f64) -> f64 {
    if order.fract() == 0.0 && order <= 2000.0 {
        // Σ_{k≥2} C(α,k)(1−q)^{α−k}q^k (e^{(k²−k)μ²/2} − 1)
        let (ln_q, ln_rest) = (q.ln(), (-q).ln_1p());
        let terms = (2..=order as u64).map(|k| {
            let kf = k as f64;
            let exponent = 0.5 * kf * (kf - 1.0) * mu * mu;
            let gain = if exponent > 30.0 { exponent } else { exponent.exp_m1().ln() };
            // (1−q)^0 = 1 also at q = 1
            let stay = if kf == order { 0.0 } else { (order - kf) * ln_rest };
            ln_binomial(order as u64, k) + stay + kf * ln_q + gain
        });
        return divergence(log_sum_exp(terms), order);
    }
    let high = order.max(2.0) * mu + REACH;
    if !coverable(-REACH, high, 0.5) {
        return jointly_convex([(mu, q)].into_iter(), order);
    }
    let turn = ((1.0 / q - 1.0).ln() + 0.5 * mu * mu) / mu;
    let ln_f = |z: f64| ln_normal_pdf(z) + ln_excess(sampled_loss(mu * z - 0.5 * mu * mu, q), order);
    divergence(ln_integral(-REACH, high, mu, &[turn], ln_f), order)
}

/// Poisson sampling under replace-one: (1−q)N(0,1) + qN(μ,1) against (1−q)N(0,1) + qN(−μ,1) (docs/proofs/accounting-pld.md).
pub(super) fn poisson_gaussian_replaced(q: f64, mu: f64, order: f64) -> f64 {
    // N(μ)^α N(−μ)^(1−α) has its peak at (2α − 1)μ: with q near 1 nothing else is in the sample
    let reach = 2.0 * order.max(2.0) * mu + REACH;
    if !coverable(-reach, reach, 0.5) {
        return jointly_convex([(2.0 * mu, q)].into_iter(), order);
    }
    let turn = ((1.0 / q - 1.0).ln() + 0.5 * mu * mu) / mu;
    let ln_f = |z: f64| {
        let with = sampled_loss(mu * z - 0.5 * mu * mu, q);
        let without = sampled_loss(-mu * z - 0.5 * mu * mu, q);
        ln_normal_pdf(z) + without + ln_excess(with - without, order)
    };
    divergence(ln_integral(-reach, reach, mu, &[turn, -turn], ln_f), order)
}

/// Fixed-size sampling at rate q of a Gaussian with replace-one shift μ: the symmetrised pair of docs/proofs/accounting-pld.md, whose
/// positive losses are ln(1 − q + q·e^L) with the Q-mass of L, mirrored, and an atom at 0.
pub(super) fn fixed_size_gaussian(q: f64, mu: f64, order: f64) -> f64 {
    let high = order.max(2.0) * mu + REACH;
    if !coverable(0.5 * mu, high, 0.5) {
        // the symmetrised profile is at most q times the profile of the shift, plus 1 − q times that of nothing
        return jointly_convex([(mu, q)].into_iter(), order);
    }
    let turn = (-q.ln() + 0.5 * mu * mu) / mu;
    let ln_f = |z: f64| {
        let l = sampled_loss(mu * z - 0.5 * mu * mu, q);
        ln_normal_pdf(z) + log_add_exp(ln_excess(l, order), ln_excess(l, 1.0 - order))
    };
    divergence(ln_integral(0.5 * mu, high, mu, &[turn], ln_f), order)
}

/// Σ p_j N(c_j, σ²) against N(0, σ²), the larger of both directions; all c_j ≥ 0.
pub(super) fn gaussian_mixture(sigma: f64, shifts: &[f64], probabilities: &[f64], order: f64) -> f64 {
    let parts: Vec<(f64, f64)> =
        shifts.iter().zip(probabilities).filter(|(_, p)| **p > 0.0).map(|(c, p)| (c / sigma, *p)).collect();
    let largest = parts.iter().fold(0.0f64, |m, (mu, _)| m.max(*mu));
    if largest == 0.0 {
        return 0.0;
    }
    let reach = order.max(2.0) * largest + REACH;
    if !coverable(-reach, reach, 0.5 / largest.max(1.0)) {
        return jointly_convex(parts.into_iter(), order);
    }
    let loss = |z: f64| {
        let small: f64 = parts.iter().map(|(mu, p)| p * (mu * z - 0.5 * mu * mu).min(30.0).exp_m1()).sum();
        if parts.iter().all(|(mu, _)| mu * z - 0.5 * mu * mu < 30.0) {
            small.ln_1p()
        } else {
            log_sum_exp(parts.iter().map(|(mu, p)| p.ln() + mu * z - 0.5 * mu * mu))
        }
    };
    // the mixture turns once per part; fine panels everywhere are cheap enough
    let turns: Vec<f64> = {
        let zone = 80.0 / largest;
        let high = order.max(2.0) * largest + REACH;
        let low = -high;
        (0..=((high - low) / zone) as usize + 1).map(|i| low + i as f64 * zone).collect()
    };
    let direction = |s: f64, low: f64, high: f64| {
        ln_integral(low, high, largest, &turns, |z| ln_normal_pdf(z) + ln_excess(loss(z), s))
    };
    let forward = direction(order, -REACH, order.max(2.0) * largest + REACH);
    let backward = direction(1.0 - order, -(order * largest + REACH), 2.0 * largest + REACH);
    divergence(forward.max(backward), order)
}

/// Poisson sampling at rate q of a pair given as atoms (loss, ln Q-mass): the larger of both directions.
pub(super) fn poisson_atoms(atoms: &[(f64, f64)], q: f64, order: f64) -> f64 {
    let direction = |s: f64| log_sum_exp(atoms.iter().map(|(l, ln_q)| ln_q + ln_excess(sampled_loss(*l, q), s)));
    divergence(direction(order).max(direction(1.0 - order)), order)
}

/// Fixed-size sampling at rate q (or Poisson sampling under replace-one) of a symmetric pair given as atoms.
pub(super) fn fixed_size_atoms(atoms: &[(f64, f64)], q: f64, order: f64) -> f64 {
    let positive = atoms.iter().filter(|(l, _)| *l > 0.0).map(|(l, ln_q)| {
        let l = sampled_loss(*l, q);
        ln_q + log_add_exp(ln_excess(l, order), ln_excess(l, 1.0 - order))
    });
    divergence(log_sum_exp(positive), order)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn close(value: f64, reference: f64) {
        assert!((value / reference - 1.0).abs() < 2e-10, "{value:e} against {reference:e}");
        assert!(value >= reference * (1.0 - 1e-12), "{value:e} is below {reference:e}");
    }

    #[test]
    fn poisson_sampled_gaussian() {
        for (q, sigma, order, value) in [
            (0.01, 1.0, 2.0, 1.718134220745e-4),
            (0.01, 1.0, 32.0, 11.24627593705),
            (0.01, 1.0, 1.5, 1.272537433274e-4),
            (0.01, 1.0, 7.3, 7.584451070575e-4),
            (0.001, 0.5, 4.5, 0.2641730932509),
            (0.5, 10.0, 64.0, 0.09495729716241),
            (1e-4, 0.3, 8.0, 33.91834116219),
            (0.9, 2.0, 3.5, 0.3724809901171),
        ] {
            close(poisson_gaussian(q, 1.0 / sigma, order), value);
        }
        // the integral at an integer order against the finite sum
        for (q, sigma, order) in [(0.01, 1.0, 8.0), (0.3, 0.2, 5.0), (1e-6, 3.0, 17.0), (0.001, 0.1, 3.0)] {
            let sum = poisson_gaussian(q, 1.0 / sigma, order);
            let integral = poisson_gaussian(q, 1.0 / sigma, order + 1e-9);
            assert!((integral / sum - 1.0).abs() < 1e-6, "{integral:e} {sum:e}");
        }
    }

    /// A sample that leaves almost no record out is nearly the Gaussian with shift 2μ, whose moment lies at (2α − 1)μ: against the
    /// trapezoidal rule far beyond that.
    #[test]
    fn replaced_records_in_nearly_all_samples() {
        for (left_out, mu, order) in
            [(1e-15, 0.5, 40.0), (1e-9, 0.5, 40.0), (1e-12, 0.143_880_1, 250.0), (1e-15, 3.0, 5.0), (0.001, 1.0, 30.0)]
        {
            let q: f64 = 1.0 - left_out;
            let law = |z: f64, mu: f64| log_add_exp((1.0 - q).ln() + ln_normal_pdf(z), q.ln() + ln_normal_pdf(z - mu));
            let ln_moment = log_sum_exp((-30_000..=30_000).map(|i| {
                let z = 0.005 * f64::from(i);
                0.005f64.ln() + order * law(z, mu) + (1.0 - order) * law(z, -mu)
            }));
            close(poisson_gaussian_replaced(q, mu, order), ln_moment / (order - 1.0));
        }
    }

    #[test]
    fn replaced_and_fixed_size() {
        close(poisson_gaussian_replaced(0.01, 1.0, 2.0), 4.57554382538e-4);
        close(poisson_gaussian_replaced(0.014, 1.0 / 3.308, 16.0), 5.73494700544e-4);
        for (q, sigma, order, value) in [
            (0.01, 2.0, 2.0, 3.907912468e-5),
            (0.01, 2.0, 8.0, 1.564730654e-4),
            (0.014, 1.654, 16.0, 1.017477735e-3),
            (0.1, 5.0, 10.0, 2.327176719e-3),
        ] {
            let computed = fixed_size_gaussian(q, 1.0 / sigma, order);
            assert!((computed / value - 1.0).abs() < 1e-9, "{computed:e} against {value:e}");
        }
    }

    #[test]
    fn mixture_with_one_part_is_poisson_sampling() {
        for (q, sigma, order) in [(0.01, 1.0, 7.3), (0.3, 0.3, 4.0), (0.001, 4.0, 1.01)] {
            let mixture = gaussian_mixture(sigma, &[0.0, 1.0], &[1.0 - q, q], order);
            let poisson = poisson_gaussian(q, 1.0 / sigma, order);
            assert!((mixture / poisson - 1.0).abs() < 1e-8, "{mixture:e} {poisson:e}");
        }
    }

    /// Where a grid would be too long, joint convexity bounds the divergence: never below, no overflow, no wait.
    #[test]
    fn shifts_too_large_for_a_grid() {
        for (q, mu, order) in [(0.1, 1.0, 3.5), (0.01, 4.0, 2.2), (0.3, 30.0, 40.5)] {
            let shift = |mu: f64| jointly_convex([(mu, q)].into_iter(), order);
            // what is given away is at most ln(1/q)
            let close_above =
                |bound: f64, value: f64| bound >= value * (1.0 - 1e-9) && bound - value <= -f64::ln(q) + 1e-9;
            assert!(close_above(shift(mu), poisson_gaussian(q, mu, order)), "{q} {mu} {order}");
            assert!(close_above(shift(mu), fixed_size_gaussian(q, mu, order)), "{q} {mu} {order}");
            assert!(shift(2.0 * mu) >= poisson_gaussian_replaced(q, mu, order), "{q} {mu} {order}");
        }
        for mu in [1e3, 1e10, 1e160, 1e300] {
            for order in [1.01, 2.0, 2.5, 1999.0, 5000.0] {
                for value in [
                    poisson_gaussian(0.1, mu, order),
                    poisson_gaussian_replaced(0.1, mu, order),
                    fixed_size_gaussian(0.1, mu, order),
                    gaussian_mixture(1.0 / mu, &[0.0, 0.5, 1.0], &[0.5, 0.25, 0.25], order),
                ] {
                    // not more than the shift without sampling (twice it under replace-one)
                    assert!(
                        value > 0.2 * mu && value <= 2.0 * order * mu * mu * (1.0 + 1e-9),
                        "{mu:e} {order}: {value:e}"
                    );
                }
            }
        }
    }

    #[test]
    fn sampling_everything_and_tiny_terms() {
        // q = 1: the Gaussian itself
        for (mu, order) in [(1.0, 2.0), (0.3, 5.5), (2.0, 1.7)] {
            close(poisson_gaussian(1.0 - 1e-16, mu, order), 0.5 * order * mu * mu);
        }
        assert!((ln_excess(1e-9, 3.0).exp() / 3e-18 - 1.0).abs() < 1e-8);
        assert!((ln_excess(0.2, -2.0).exp() / ((-0.4f64).exp() - 1.0 + 2.0 * 0.2f64.exp_m1()) - 1.0).abs() < 1e-12);
        assert!((ln_excess(1000.0, 3.0) - 3000.0).abs() < 1e-9);
        assert!((ln_excess(1000.0, -3.0) - 1000.0 - 3f64.ln()).abs() < 1e-9);
    }
}
