//! Normal tails, Mills' ratio and the Gaussian privacy profile in the log domain (Balle, Wang 2018).
//!
//! With a = μ/2 − ε/μ, b = −μ/2 − ε/μ and R(t) = Φ(−t)/φ(t) the profile of the pair N(0,1), N(μ,1) is
//! δ(ε;μ) = φ(a)·(R(−a) − R(−b)), which has no cancellation but that of the bracket; a narrow bracket is the
//! integral of 1 − tR(t). Functions whose name ends in `_upper`, and the two inverses, round to the safe side.

use std::f64::consts::{FRAC_1_SQRT_2, LN_2, PI};

/// Unit roundoff of f64, 2^-53.
pub const UNIT_ROUNDOFF: f64 = f64::EPSILON / 2.0;

const LN_SQRT_2PI: f64 = 0.918_938_533_204_672_8;
const SQRT_2PI: f64 = 2.506_628_274_631_000_7;
const SQRT_HALF_PI: f64 = 1.253_314_137_315_500_3;

/// Scaled complementary error function e^{x²}·erfc(x); relative error a few ulps; +∞ below about −26.6.
pub fn erfcx(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    if x < 0.0 {
        if x < -27.0 {
            return f64::INFINITY;
        }
        return 2.0 * exp_square(x) - erfcx(-x);
    }
    if x < 10.0 {
        return exp_square(x) * libm::erfc(x);
    }
    // asymptotic series; at x = 10 the terms fall below 1e-17 after 12 and the remainder is below the first one left out
    let inverse = 0.5 / (x * x);
    let (mut term, mut sum) = (1.0, 1.0);
    for k in 1..16 {
        term *= -f64::from(2 * k - 1) * inverse;
        sum += term;
        if term.abs() < 1e-18 {
            break;
        }
    }
    sum / (x * PI.sqrt())
}

/// e^{x²} without the error of rounding x² (which e^· would amplify by x²).
fn exp_square(x: f64) -> f64 {
    let square = x * x;
    let rest = x.mul_add(x, -square);
    square.exp() * (1.0 + rest)
}

/// Density of N(0,1) in logs.
pub fn ln_normal_pdf(x: f64) -> f64 {
    -0.5 * x * x - LN_SQRT_2PI
}

/// Density of N(0,1), relative error a few ulps in the tails too.
pub fn normal_pdf(x: f64) -> f64 {
    let square = x * x;
    let rest = x.mul_add(x, -square);
    (-0.5 * square).exp() * (1.0 - 0.5 * rest) / SQRT_2PI
}

/// Φ(x), relative error a few ulps in both tails.
pub fn normal_cdf(x: f64) -> f64 {
    if x < -1.0 {
        return if x < -39.0 { 0.0 } else { normal_pdf(x) * mills(-x) };
    }
    0.5 * libm::erfc(-x * FRAC_1_SQRT_2)
}

/// ln Φ(x), with full relative accuracy in both tails.
///
/// ```
/// use dpopt_event::special::ln_normal_cdf;
/// assert!((ln_normal_cdf(-40.0) + 804.608_442_013_754).abs() < 1e-9);
/// ```
pub fn ln_normal_cdf(x: f64) -> f64 {
    if x < -1.0 {
        ln_normal_pdf(x) + mills(-x).ln()
    } else if x < 0.0 {
        (0.5 * libm::erfc(-x * FRAC_1_SQRT_2)).ln()
    } else {
        (-normal_cdf(-x)).ln_1p()
    }
}

/// Mills' ratio R(t) = Φ(−t)/φ(t), decreasing.
pub fn mills(t: f64) -> f64 {
    SQRT_HALF_PI * erfcx(t * FRAC_1_SQRT_2)
}

/// −R'(t) = 1 − tR(t) > 0.
pub fn mills_slope(t: f64) -> f64 {
    if t < 4.0 {
        // costs at most a factor 18 in relative accuracy
        return 1.0 - t * mills(t);
    }
    // 1 − tR = R/(t + 2/(t + 3/(t + …))), started from the fixed point of tail = t + k/tail
    let terms = (900.0 / (t * t)) as u32 + 6;
    let mut tail = 0.5 * (t + (t * t + 4.0 * f64::from(terms + 2)).sqrt());
    for k in (2..=terms + 1).rev() {
        tail = t + f64::from(k) / tail;
    }
    mills(t) / tail
}

/// 10-point Gauss–Legendre rule on [−1, 1]: positive nodes and weights.
const GAUSS_LEGENDRE: [(f64, f64); 5] = [
    (0.148_874_338_981_631_22, 0.295_524_224_714_752_87),
    (0.433_395_394_129_247_2, 0.269_266_719_309_996_36),
    (0.679_409_568_299_024_4, 0.219_086_362_515_982_04),
    (0.865_063_366_688_984_5, 0.149_451_349_150_580_6),
    (0.973_906_528_517_171_7, 0.066_671_344_308_688_14),
];

/// ∫ f over [low, low + width] by 10-point Gauss–Legendre (the width on its own: high − low would cancel).
pub(crate) fn gauss_legendre(low: f64, width: f64, f: impl Fn(f64) -> f64) -> f64 {
    gauss_legendre_nodes(low, width).map(|(x, weight)| weight * f(x)).sum()
}

/// The (node, weight) pairs of [`gauss_legendre`].
pub fn gauss_legendre_nodes(low: f64, width: f64) -> impl Iterator<Item = (f64, f64)> {
    let (half, middle) = (0.5 * width, low + 0.5 * width);
    GAUSS_LEGENDRE.iter().flat_map(move |&(x, w)| [(middle - half * x, half * w), (middle + half * x, half * w)])
}

/// R(s) − R(s + width) for width ≥ 0 and s ≥ −1.
fn mills_difference(s: f64, width: f64) -> f64 {
    // the relative width at which the plain difference keeps all but about two bits
    if width >= 0.5 * s.max(1.0) {
        return mills(s) - mills(s + width);
    }
    gauss_legendre(s, width, mills_slope)
}

/// ln δ(ε; μ): the privacy profile of μ-GDP at any real ε, rounded to nearest (error: [`gaussian_ln_delta_slack`]).
///
/// ```
/// use dpopt_event::special::gaussian_ln_delta;
/// // far below the smallest f64: δ = 2.77e-549
/// assert!((gaussian_ln_delta(0.5, 0.01) + 1263.099_365_544_5).abs() < 1e-9);
/// ```
pub fn gaussian_ln_delta(epsilon: f64, mu: f64) -> f64 {
    if epsilon < 0.0 {
        // δ(ε) = 1 − e^ε + e^ε δ(−ε)
        let rest = (epsilon + gaussian_ln_delta(-epsilon, mu)).exp();
        return (rest - epsilon.exp_m1()).ln();
    }
    if mu == 0.0 || epsilon == f64::INFINITY {
        return f64::NEG_INFINITY;
    }
    if mu == f64::INFINITY {
        return 0.0;
    }
    let shift = epsilon / mu;
    let a = 0.5 * mu - shift;
    if a > 1.0 {
        let missing = normal_pdf(a) * (mills(a) + mills(0.5 * mu + shift));
        return (-missing).ln_1p();
    }
    ln_normal_pdf(a) + mills_difference(-a, mu).ln()
}

/// Bound on the absolute error of [`gaussian_ln_delta`].
pub fn gaussian_ln_delta_slack(epsilon: f64, mu: f64) -> f64 {
    if mu == 0.0 || mu == f64::INFINITY || epsilon.is_infinite() {
        return 0.0;
    }
    // a carries the rounding of its two terms and enters as a²/2; 32u covers the tails (each within 4 ulps)
    let spread = 0.5 * mu + epsilon.abs() / mu;
    let a = (0.5 * mu - epsilon.abs() / mu).abs();
    UNIT_ROUNDOFF * (64.0 + 4.0 * (a + 1.0) * spread + 2.0 * a * a)
}

/// ln δ(ε; μ) rounded up, at most 0.
pub fn gaussian_ln_delta_upper(epsilon: f64, mu: f64) -> f64 {
    (gaussian_ln_delta(epsilon, mu) + gaussian_ln_delta_slack(epsilon, mu)).min(0.0)
}

/// Smallest ε ≥ 0 with δ(ε; μ) ≤ δ, rounded up. `delta` in (0, 1); +∞ if μ = ∞.
///
/// ```
/// use dpopt_event::special::gaussian_epsilon;
/// let eps = gaussian_epsilon(1e-6, 1.0);
/// assert!(eps >= 4.886_554_117_46 && eps < 4.886_554_117_47);
/// ```
pub fn gaussian_epsilon(delta: f64, mu: f64) -> f64 {
    gaussian_epsilon_ln(delta.ln(), mu)
}

/// [`gaussian_epsilon`] at e^`ln_delta`, for δ below the smallest f64.
pub fn gaussian_epsilon_ln(ln_delta: f64, mu: f64) -> f64 {
    if mu == 0.0 || ln_delta >= 0.0 {
        return 0.0;
    }
    if mu == f64::INFINITY || ln_delta == f64::NEG_INFINITY {
        return f64::INFINITY;
    }
    let excess = |epsilon: f64| gaussian_ln_delta_upper(epsilon, mu) - ln_delta;
    if excess(0.0) <= 0.0 {
        return 0.0;
    }
    // ln δ is concave and decreasing in ε: Newton from the right never crosses the root
    let mut epsilon = 0.5 * mu * mu + mu * (-2.0 * ln_delta).sqrt();
    for _ in 0..200 {
        let shift = epsilon / mu;
        let ln_slope = ln_normal_pdf(0.5 * mu - shift) + mills(0.5 * mu + shift).ln() - gaussian_ln_delta(epsilon, mu);
        let next = epsilon + excess(epsilon) / ln_slope.exp();
        if !(next < epsilon * (1.0 - 4.0 * UNIT_ROUNDOFF)) {
            break;
        }
        epsilon = next.max(0.0);
    }
    // rounding of the last step may have crossed it: step back until verified
    let mut step = 4.0 * UNIT_ROUNDOFF;
    while excess(epsilon) > 0.0 {
        epsilon = (epsilon * (1.0 + step)).next_up();
        step *= 2.0;
    }
    epsilon
}

/// Largest μ with δ(ε; μ) ≤ δ, rounded down; ε ≥ 0 and δ in (0, 1).
///
/// ```
/// use dpopt_event::special::gaussian_mu;
/// let sigma = 1.0 / gaussian_mu(1.0, 1e-5); // noise multiplier of the analytic Gaussian mechanism
/// assert!((sigma - 3.730_631_634_816).abs() < 1e-10);
/// ```
pub fn gaussian_mu(epsilon: f64, delta: f64) -> f64 {
    let ln_delta = delta.ln();
    if ln_delta.is_nan() || ln_delta == f64::NEG_INFINITY || epsilon.is_nan() || epsilon < 0.0 {
        return 0.0;
    }
    if ln_delta >= 0.0 || epsilon == f64::INFINITY {
        return f64::INFINITY;
    }
    let fits = |mu: f64| gaussian_ln_delta_upper(epsilon, mu) <= ln_delta;
    // zCDP guess: μ²/2 + μ√(2 ln 1/δ) = ε always fits
    let root = (-2.0 * ln_delta).sqrt();
    let mut low = 2.0 * epsilon / (root + (root * root + 2.0 * epsilon).sqrt());
    if low == 0.0 {
        low = delta;
    }
    while low > 0.0 && !fits(low) {
        low *= 0.5;
    }
    let mut high = 2.0 * low.max(f64::MIN_POSITIVE);
    while fits(high) {
        low = high;
        high *= 2.0;
    }
    // ln δ is nearly linear in 1/μ²-like scales: Illinois steps close the bracket from both sides, bisection ends it
    let excess = |mu: f64| gaussian_ln_delta_upper(epsilon, mu) - ln_delta;
    let (mut below, mut above) = (excess(low), excess(high));
    for _ in 0..60 {
        if high - low <= 8.0 * UNIT_ROUNDOFF * high {
            break;
        }
        let middle = low - below * (high - low) / (above - below);
        let middle = if middle > low && middle < high { middle } else { 0.5 * (low + high) };
        let value = excess(middle);
        if value <= 0.0 {
            (low, below, above) = (middle, value, 0.5 * above);
        } else {
            (high, above, below) = (middle, value, 0.5 * below);
        }
    }
    loop {
        let middle = 0.5 * (low + high);
        if !(middle > low && middle < high) {
            return low;
        }
        if fits(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
}

/// Noise multiplier σ/Δ of the analytic Gaussian mechanism for (ε, δ), rounded up.
pub fn gaussian_noise_multiplier(epsilon: f64, delta: f64) -> f64 {
    (1.0 / gaussian_mu(epsilon, delta)).next_up()
}

/// ln(e^x + e^y), without overflow.
pub fn log_add_exp(x: f64, y: f64) -> f64 {
    let (low, high) = if x < y { (x, y) } else { (y, x) };
    if low == f64::NEG_INFINITY || high == f64::INFINITY {
        return high;
    }
    high + (low - high).exp().ln_1p()
}

/// ln Σ e^{x_i}; −∞ for no terms.
pub fn log_sum_exp(terms: impl IntoIterator<Item = f64>) -> f64 {
    // one pass: the running maximum rescales the sum
    let (mut max, mut sum) = (f64::NEG_INFINITY, 0.0);
    for x in terms {
        if x == f64::NEG_INFINITY {
            continue;
        }
        if x <= max {
            sum += (x - max).exp();
        } else {
            sum = sum * (max - x).exp() + 1.0;
            max = x;
        }
    }
    if sum == 0.0 { f64::NEG_INFINITY } else { max + sum.ln() }
}

/// ln(1 − e^{−x}) for x > 0 (Mächler 2012).
pub fn ln_one_minus_exp_neg(x: f64) -> f64 {
    if x < LN_2 { (-(-x).exp_m1()).ln() } else { (-(-x).exp()).ln_1p() }
}

/// ln Γ(x), x > 0.
pub fn ln_gamma(x: f64) -> f64 {
    libm::lgamma(x)
}

/// Logarithm of the binomial coefficient C(n, k).
pub fn ln_binomial(n: u64, k: u64) -> f64 {
    if k > n {
        return f64::NEG_INFINITY;
    }
    if k == 0 || k == n {
        return 0.0;
    }
    // through the mass at p = k/n, so that large n does not cancel
    let (nf, kf) = (n as f64, k as f64);
    let rest = (n - k) as f64;
    ln_binomial_mass(k, n, kf / nf, rest / nf) + kf * (rest / kf).ln_1p() + rest * (kf / rest).ln_1p()
}

/// ln P[Binomial(n, p) = k] with q = 1 − p passed on its own, so that neither tail is lost.
/// Loader (2000): Stirling's error terms and deviances instead of differences of ln Γ.
pub fn ln_binomial_mass(k: u64, n: u64, p: f64, q: f64) -> f64 {
    let (nf, kf) = (n as f64, k as f64);
    if k > n {
        return f64::NEG_INFINITY;
    }
    if p == 0.0 || q == 0.0 {
        let certain = if p == 0.0 { 0 } else { n };
        return if k == certain { 0.0 } else { f64::NEG_INFINITY };
    }
    let ln_of = |x: f64, other: f64| if x > 0.5 { (-other).ln_1p() } else { x.ln() };
    if k == 0 {
        return nf * ln_of(q, p);
    }
    if k == n {
        return nf * ln_of(p, q);
    }
    let rest = (n - k) as f64;
    stirling_error(nf) - stirling_error(kf) - stirling_error(rest) - deviance(kf, nf * p) - deviance(rest, nf * q)
        + 0.5 * (nf / (2.0 * PI * kf * rest)).ln()
}

/// Error of Stirling's formula: ln n! − ln(√(2πn)(n/e)^n).
fn stirling_error(n: f64) -> f64 {
    if n <= 15.0 {
        return libm::lgamma(n + 1.0) - (n + 0.5) * n.ln() + n - LN_SQRT_2PI;
    }
    let s = 1.0 / (n * n);
    (1.0 / 12.0 - s * (1.0 / 360.0 - s * (1.0 / 1260.0 - s * (1.0 / 1680.0 - s / 1188.0)))) / n
}

/// x ln(x/m) + m − x.
fn deviance(x: f64, m: f64) -> f64 {
    let d = x - m;
    if d.abs() < 0.1 * (x + m) {
        // 2x(v³/3 + v⁵/5 + …) + d·v with v = d/(x+m)
        let v = d / (x + m);
        let square = v * v;
        let (mut power, mut sum) = (2.0 * x * v, d * v);
        for j in 1..1000 {
            power *= square;
            let next = sum + power / f64::from(2 * j + 1);
            if next == sum {
                break;
            }
            sum = next;
        }
        return sum;
    }
    x * (x / m).ln() - d
}

#[cfg(test)]
#[path = "special_tests.rs"]
mod tests;
