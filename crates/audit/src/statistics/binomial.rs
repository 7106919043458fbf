//! Exact binomial tails and Clopper–Pearson bounds, (Clopper, Pearson 1934), rounded to the safe side.
//!
//! A tail is its first mass (Loader's formula, a few ulps) times a series of positive terms, so that it keeps its
//! relative accuracy at 1e-300 too; the bisection returns the end of the bracket that makes the bound weaker.

use dpopt_privacy::special::ln_binomial_mass;

/// Relative error allowed for a computed tail. The mass is good to about 1e-12 for n up to 1e9 and a series of
/// positive terms adds one rounding each (at most some 1e5 terms, growing like √n): 1e-9 is a wide margin.
const TAIL_SLACK: f64 = 1e-9;

/// Halvings of a bracket of at most 1600: ends within 2e-13.
const BISECTIONS: usize = 53;

/// ln P[Binomial(n, p) ≥ k], with q = 1 − p passed on its own so that neither end loses digits.
pub fn ln_upper_tail(k: u64, n: u64, p: f64, q: f64) -> f64 {
    if k == 0 {
        return 0.0;
    }
    if k > n || p == 0.0 {
        return f64::NEG_INFINITY;
    }
    if q == 0.0 {
        return 0.0;
    }
    if (k as f64) < n as f64 * p {
        // the complement is the small side
        return (-ln_lower_tail_series(k - 1, n, p, q).exp()).ln_1p();
    }
    // P(X=k)·(1 + r₁ + r₁r₂ + …), r_j = (n−k−j+1)/(k+j)·p/q, decreasing and below 1
    let odds = p / q;
    let (mut term, mut sum) = (1.0, 1.0);
    for j in 1..=(n - k) {
        term *= (n - k - j + 1) as f64 / (k + j) as f64 * odds;
        sum += term;
        if term < 1e-17 * sum {
            break;
        }
    }
    (ln_binomial_mass(k, n, p, q) + sum.ln()).min(0.0)
}

fn ln_lower_tail_series(k: u64, n: u64, p: f64, q: f64) -> f64 {
    // P(X ≤ k) = P(n − X ≥ n − k) with n − X ~ Binomial(n, q), where the series converges
    ln_upper_tail(n - k, n, q, p)
}

/// ln P[Binomial(n, p) ≤ k].
pub fn ln_lower_tail(k: u64, n: u64, p: f64, q: f64) -> f64 {
    if k >= n { 0.0 } else { ln_upper_tail(n - k, n, q, p) }
}

/// A lower confidence bound on p from `k` successes in `n` trials: `P(bound > p)` ≤ `alpha` for every p.
///
/// The Clopper–Pearson bound Beta⁻¹(alpha; k, n−k+1), rounded down; 0 if k = 0.
///
/// ```
/// use dpopt_audit::statistics::binomial::lower_bound;
/// let p = lower_bound(75, 100, 0.025);
/// assert!((p - 0.653_447).abs() < 1e-6 && p < 0.75);
/// ```
pub fn lower_bound(k: u64, n: u64, alpha: f64) -> f64 {
    if k == 0 || n == 0 {
        return 0.0;
    }
    let target = alpha.ln() - TAIL_SLACK;
    // in logits, so that 1e-12 and 1 − 1e-12 have the same resolution
    let (mut low, mut high) = (-800.0_f64, logit_of(k as f64, (n - k) as f64));
    for _ in 0..BISECTIONS {
        let middle = 0.5 * (low + high);
        let (p, q) = (logistic(middle), logistic(-middle));
        if ln_upper_tail(k, n, p, q) <= target { low = middle } else { high = middle }
    }
    logistic(low).next_down().max(0.0)
}

/// An upper confidence bound on p from `k` successes in `n` trials: `P(bound < p)` ≤ `alpha` for every p.
///
/// The Clopper–Pearson bound Beta⁻¹(1−alpha; k+1, n−k), rounded up; 1 if k = n.
pub fn upper_bound(k: u64, n: u64, alpha: f64) -> f64 {
    if n == 0 || k >= n {
        return 1.0;
    }
    if k == 0 {
        // (1 − p)^n = alpha, without losing digits for large n
        return ((-(alpha.ln() / n as f64).exp_m1()) * (1.0 + TAIL_SLACK)).min(1.0);
    }
    (1.0 - lower_bound(n - k, n, alpha)).next_up().min(upper_small(k, n, alpha)).min(1.0)
}

/// The upper bound for small k, by bisection on the lower tail: keeps its relative accuracy where 1 − (…) would keep only the absolute one.
fn upper_small(k: u64, n: u64, alpha: f64) -> f64 {
    let target = alpha.ln() - TAIL_SLACK;
    let (mut low, mut high) = (logit_of(k as f64, (n - k) as f64), 800.0_f64);
    for _ in 0..BISECTIONS {
        let middle = 0.5 * (low + high);
        if ln_lower_tail(k, n, logistic(middle), logistic(-middle)) <= target { high = middle } else { low = middle }
    }
    logistic(high).next_up()
}

fn logit_of(successes: f64, failures: f64) -> f64 {
    (successes / failures).ln().clamp(-800.0, 800.0)
}

fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantiles_match_high_precision_values() {
        // mpmath, 40 digits: betaincinv by bisection
        for (k, n, alpha, low, high) in REFERENCE {
            let (l, h) = (lower_bound(k, n, alpha), upper_bound(k, n, alpha));
            assert!(l <= low && (low - l) <= 2e-9 * low.max(1e-300), "lower {k}/{n} at {alpha}: {l} against {low}");
            assert!(h >= high && (h - high) <= 2e-9 * high, "upper {k}/{n} at {alpha}: {h} against {high}");
        }
        assert_eq!(lower_bound(0, 10, 0.05), 0.0);
        assert_eq!(upper_bound(10, 10, 0.05), 1.0);
    }

    #[test]
    fn coverage_is_exact_at_the_boundary() {
        // at p = the lower bound itself, the chance of k or more successes is alpha: not less (tight), not more (valid)
        let p = lower_bound(30, 2000, 5e-7);
        let tail = ln_upper_tail(30, 2000, p, 1.0 - p).exp();
        assert!(tail <= 5e-7 && tail > 5e-7 * (1.0 - 1e-7), "{tail}");
    }

    proptest! {
        #[test]
        fn bounds_bracket_the_frequency_and_mirror(n in 1u64..5000, share in 0.0..=1.0f64, exponent in 1.0..12.0f64) {
            let k = (share * n as f64) as u64;
            let alpha = 10f64.powf(-exponent);
            let (l, h) = (lower_bound(k, n, alpha), upper_bound(k, n, alpha));
            let p = k as f64 / n as f64;
            prop_assert!(l <= p && p <= h);
            prop_assert!((l - (1.0 - upper_bound(n - k, n, alpha))).abs() < 1e-8);
            prop_assert!(k == 0 || ln_upper_tail(k, n, l, 1.0 - l) <= alpha.ln() + 1e-9);
        }

        #[test]
        fn tails_add_up(n in 1u64..2000, share in 0.0..1.0f64, p in 0.001..0.999f64) {
            let k = (share * n as f64) as u64;
            let q = 1.0 - p;
            let total = ln_lower_tail(k, n, p, q).exp() + ln_upper_tail(k + 1, n, p, q).exp();
            prop_assert!((total - 1.0).abs() < 1e-10, "{total}");
        }
    }

    /// (k, n, alpha, Beta⁻¹(alpha; k, n−k+1), Beta⁻¹(1−alpha; k+1, n−k))
    const REFERENCE: [(u64, u64, f64, f64, f64); 5] = [
        (75, 100, 0.025, 0.6534475042411918, 0.8312202619006582),
        (1, 1000, 5.0e-7, 5.000001248750416e-10, 0.01727990526120852),
        (999, 1000, 5.0e-7, 0.9827200947387915, 0.9999999994999999),
        (50000, 100000, 1e-12, 0.48887390975872563, 0.5111260902412744),
        (3, 1000000, 1e-06, 1.8254301050976877e-08, 2.135026106897479e-05),
    ];
}
