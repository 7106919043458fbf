//! Samples of a mechanism of which only the Rényi curve is known: of fixed size (Wang, Balle, Kasiviswanathan 2019,
//! Theorem 9), or Poisson (docs/proofs/accounting-sampled-curves.md). Where a pair is known, [`excess`](super::excess) is smaller.

use dpopt_event::special::{ln_binomial, log_add_exp, log_sum_exp};

/// Above this order the sum over all integers below it is not worth its time.
const MAX_ORDER: f64 = 1024.0;

/// Divergence of order `order` of a sample at rate `q`, where `curve(j)` bounds the mechanism's replace-one divergence of
/// integer order j ≥ 2 and `pure` its loss (+∞ if unknown).
///
/// Between integers (α−1)·D_α is interpolated linearly: it is convex in α.
pub(super) fn fixed_size<E>(q: f64, order: f64, pure: f64, curve: impl Fn(f64) -> Result<f64, E>) -> Result<f64, E> {
    if order > MAX_ORDER {
        return Ok(f64::INFINITY);
    }
    between_integers(order, |n| ln_moment(q, n, pure, &curve))
}

/// D_α from `ln_moment`(n) ≥ (n−1)·D_n at integers n ≥ 2.
fn between_integers<E>(order: f64, ln_moment: impl Fn(f64) -> Result<f64, E>) -> Result<f64, E> {
    let (low, high) = (order.floor(), order.ceil());
    let at = |integer: f64| match integer {
        // (α−1)·D_α at α = 1
        1.0 => Ok(0.0),
        n => ln_moment(n),
    };
    let right = at(high)?;
    let scaled = if low == high { right } else { at(low)? * (high - order) + right * (order - low) };
    Ok(scaled * (1.0 + 1e-12) / (order - 1.0))
}

/// Divergence of order `order`, in both directions, of Poisson sampling at rate `q` in (0, 1), where `curve(j)` bounds the
/// mechanism's divergence of order j in both directions (record against nothing). Never above `curve(order)`.
///
/// With the sample (1−q)Q + qP against Q: Σ_k C(n,k)(1−q)^(n−k)q^k·e^((k−1)ρ(k)) by expansion, exact where the curve is. The
/// reverse: by Taylor's formula at most C(n,2)q²(1−q)^(−n−1)·(e^ρ(2) − 1), or C(n,2)q²(e^ρ(2) − 1) plus the former.
pub(super) fn poisson<E>(q: f64, order: f64, curve: impl Fn(f64) -> Result<f64, E>) -> Result<f64, E> {
    let whole = curve(order)?;
    if order > MAX_ORDER || !whole.is_finite() {
        return Ok(whole);
    }
    let ln_gain = |x: f64| if x > 30.0 { x } else { x.exp_m1().ln() };
    let (ln_q, ln_rest) = (q.ln(), (-q).ln_1p());
    let ln_moment = |n: f64| {
        let mut terms = Vec::with_capacity(n as usize);
        for k in 2..=n as u64 {
            let kf = k as f64;
            terms.push(ln_binomial(n as u64, k) + (n - kf) * ln_rest + kf * ln_q + ln_gain((kf - 1.0) * curve(kf)?));
        }
        // two infinite terms have no sum in logarithms
        let forward = match log_sum_exp(terms) {
            sum if sum.is_nan() => f64::INFINITY,
            sum => sum,
        };
        let second = (0.5 * n * (n - 1.0)).ln() + 2.0 * ln_q + ln_gain(curve(2.0)?);
        let backward = (second - (n + 1.0) * ln_rest).min(log_add_exp(second, forward));
        let excess = forward.max(backward);
        Ok(if excess.is_nan() { f64::INFINITY } else { log_add_exp(0.0, excess) })
    };
    Ok(between_integers(order, ln_moment)?.min(whole))
}

/// ln of the bound on E(P/Q)^α at an integer α ≥ 2.
fn ln_moment<E>(q: f64, order: f64, pure: f64, curve: impl Fn(f64) -> Result<f64, E>) -> Result<f64, E> {
    let n = order as u64;
    // ln min(2, (e^{ρ(∞)} − 1)^j)
    let cap = |j: f64| std::f64::consts::LN_2.min(if pure > 30.0 { j * pure } else { j * pure.exp_m1().ln() });
    let mut terms = Vec::with_capacity(n as usize);
    let rho = curve(2.0)?;
    let growth = if rho > 30.0 { rho } else { rho.exp_m1().ln() };
    let second = (4f64.ln() + growth).min(rho + cap(2.0));
    terms.push(2.0 * q.ln() + ln_binomial(n, 2) + second);
    for j in 3..=n {
        let jf = j as f64;
        terms.push(jf * q.ln() + ln_binomial(n, j) + (jf - 1.0) * curve(jf)? + cap(jf));
    }
    let sum = log_sum_exp(terms);
    Ok(if sum.is_nan() { f64::INFINITY } else { log_add_exp(0.0, sum) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a Gaussian the expansion is exact, and the reverse is no larger; a pure pair's reverse direction is bounded too.
    #[test]
    fn poisson_samples_of_curves() {
        for (q, sigma, order, value) in [
            (0.01, 1.0, 2.0, 1.718134220745e-4),
            (0.01, 1.0, 32.0, 11.24627593705),
            (0.5, 10.0, 64.0, 0.09495729716241),
        ] {
            let curve = |j: f64| Ok::<f64, ()>(0.5 * j / (sigma * sigma));
            let computed = poisson(q, order, curve).unwrap();
            // the reverse bound adds up to the factor that the direction forward has at large q·order
            let most = if q * order < 0.05 { 1.05 } else { 1.3 };
            assert!(computed >= value * (1.0 - 1e-10) && computed < value * most, "{computed:e} {value:e}");
        }
        for (q, epsilon, order) in
            [(0.01, 0.5, 2.0), (0.2, 3.0, 5.0), (0.9, 1.0, 12.0), (0.3, 0.1, 40.0), (0.05, 6.0, 3.5)]
        {
            let (keep, flip) = (1.0 / (1.0 + f64::exp(-epsilon)), 1.0 / (1.0 + f64::exp(epsilon)));
            let moment =
                |p: [f64; 2], r: [f64; 2], a: f64| (0..2).map(|i| p[i].powf(a) * r[i].powf(1.0 - a)).sum::<f64>();
            let curve = |a: f64| Ok::<f64, ()>(moment([keep, flip], [flip, keep], a).ln() / (a - 1.0));
            let mixed = [(1.0 - q) * flip + q * keep, (1.0 - q) * keep + q * flip];
            let bound = poisson(q, order, curve).unwrap();
            for (a, b) in [(mixed, [flip, keep]), ([flip, keep], mixed)] {
                let exact = moment(a, b, order).ln() / (order - 1.0);
                assert!(bound >= exact * (1.0 - 1e-12), "{q} {epsilon} {order}: {bound} {exact}");
            }
        }
    }

    /// Nothing is known of the terms of two orders: their sum is no number, and no reason to forget them.
    #[test]
    fn terms_that_overflow_are_not_dropped() {
        let bound = poisson(0.5, 10.0, |_| Ok::<f64, ()>(1e308)).unwrap();
        assert!(bound >= 1e308 * (1.0 - 1e-12), "{bound:e}");
    }

    #[test]
    fn bound_for_gaussian_curves() {
        for (q, sigma, order, value) in [
            (0.01, 2.0, 2.0, 1.136037135e-4),
            (0.01, 2.0, 8.0, 4.88393042e-4),
            (0.014, 1.654, 16.0, 3.391469713e-3),
            (0.1, 5.0, 10.0, 3.784466681e-2),
        ] {
            let curve = |j: f64| Ok::<f64, ()>(0.5 * j / (sigma * sigma));
            let computed = fixed_size(q, order, f64::INFINITY, curve).unwrap();
            assert!((computed / value - 1.0).abs() < 1e-8, "{computed:e} {value:e}");
            let between = fixed_size(q, order - 0.5, f64::INFINITY, curve).unwrap();
            assert!(between <= computed * (1.0 + 1e-9));
        }
    }
}
