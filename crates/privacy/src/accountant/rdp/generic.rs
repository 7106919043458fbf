//! Fixed-size sampling of a mechanism of which only the Rényi curve is known (spec 18 §4.4; Wang, Balle,
//! Kasiviswanathan 2019, Theorem 9). Where a pair is known, [`excess`](super::excess) is 3 to 16 times smaller.

use crate::special::{ln_binomial, log_add_exp, log_sum_exp};

/// Above this order the sum over all integers below it is not worth its time.
const MAX_ORDER: f64 = 1024.0;

/// Divergence of order `order` of a sample at rate `q`, where `curve(j)` bounds the mechanism's replace-one divergence of
/// integer order j ≥ 2 and `pure` its loss (+∞ if unknown).
///
/// Between integers (α−1)·D_α is interpolated linearly: it is convex in α.
pub(super) fn fixed_size<E>(
    q: f64,
    order: f64,
    pure: f64,
    curve: impl Fn(f64) -> Result<f64, E>,
) -> Result<f64, E> {
    if order > MAX_ORDER {
        return Ok(f64::INFINITY);
    }
    let (low, high) = (order.floor(), order.ceil());
    let at = |integer: f64| match integer {
        // (α−1)·D_α at α = 1
        1.0 => Ok(0.0),
        n => ln_moment(q, n, pure, &curve),
    };
    let right = at(high)?;
    let scaled = if low == high { right } else { at(low)? * (high - order) + right * (order - low) };
    Ok(scaled * (1.0 + 1e-12) / (order - 1.0))
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
