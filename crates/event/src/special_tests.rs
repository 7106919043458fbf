//! Reference values: mpmath, 60 to 1500 digits, rounded to f64.

use super::*;
use proptest::prelude::*;

const ERFCX: &[(f64, f64)] = &[
    (-20.0, 1.0442939379528289e+174),
    (-3.7, 1764092.7560908962),
    (-0.5, 1.952360489182557),
    (0.0, 1.0),
    (1e-09, 0.9999999988716208),
    (0.3, 0.7345993345676551),
    (1.0, 0.427583576155807),
    (2.5, 0.2108063640611436),
    (7.9, 0.07085747736739713),
    (9.999, 0.05614655260396594),
    (10.0, 0.05614099274382259),
    (10.001, 0.05613543397942035),
    (26.0, 0.021683584850562907),
    (300.0, 0.0018806214973780646),
    (100000000.0, 5.641895835477562e-09),
];
#[allow(clippy::approx_constant, reason = "reference values, written out")]
const LN_PHI: &[(f64, f64)] = &[
    (-40.0, -804.6084420137538),
    (-8.3, -37.49421742374825),
    (-1.0001, -1.8411741625414106),
    (-1.0, -1.8410216450092636),
    (-0.5, -1.1759117615936185),
    (0.0, -0.6931471805599453),
    (0.7, -0.2770239422771313),
    (3.0, -0.0013508099647481938),
    (8.0, -6.220960574271786e-16),
];
const SLOPE: &[(f64, f64)] = &[
    (-1.0, 4.477051811703695),
    (0.0, 1.0),
    (1.5, 0.22627654267305497),
    (1.999, 0.157368438005546),
    (2.0, 0.15726154142389107),
    (3.0, 0.08622910386969011),
    (5.0, 0.03595947642342118),
    (8.0, 0.01494429393654163),
    (30.0, 0.0011074278250835985),
    (10000.0, 9.999999700000015e-09),
];
const LN_PROFILE: &[(f64, f64, f64)] = &[
    (0.0, 1.0, -0.9599163336956223),
    (1.0, 1.0, -2.0640664465003904),
    (0.0, 1e-08, -19.339619277157038),
    (0.001, 0.001, -9.392376384039412),
    (1.0, 0.1, -57.35693372483395),
    (10.0, 1.0, -50.675779079990114),
    (20.0, 2.0, -45.35057222341172),
    (50.0, 5.0, -32.00852439856899),
    (5.0, 0.2, -318.97588567023416),
    (100.0, 20.0, -3.85331517793376e-07),
    (0.5, 0.01, -1263.0993655444768),
    (-1.0, 1.0, -0.3874022655857648),
    (1e-09, 1e-06, -14.735702690234042),
    (0.3, 0.9, -1.3708057124404789),
    (3.0, 2.0, -1.6938359260827185),
    (0.0, 2.5, -0.23736868463859556),
    (1.0, 2.1, -0.6080860544072422),
    (10000.0, 141.5, -0.6376723274530832),
    (2.0, 0.004, -125017.86962964773),
    (0.7, 0.5, -3.671093252876179),
    (2.0, 0.03, -2234.0479157271834),
    (0.001, 0.3, -2.130352256948051),
    (700.0, 30.0, -38.02416970442124),
    (1e-12, 1e-12, -30.11614214164069),
    (-5.0, 0.3, -0.006760749449488557),
    (-0.0001, 0.0001, -9.130364152803276),
];
const BINOMIAL: &[(u64, u64, f64, f64)] = &[
    (3, 10, 0.3, -1.3211512777668886),
    (500, 1000, 0.5, -3.6799189920941293),
    (1, 1000000, 1e-06, -0.9999994999998333),
    (499000, 1000000, 0.5, -9.133546214959665),
    (123456, 1000000000, 0.0001, -2565.041340332604),
    (999999, 1000000, 0.25, -1386279.446997044),
    (8, 16, 0.01, -27.45910987414257),
    (40, 50, 0.8, -1.9674065129692726),
];
#[allow(clippy::approx_constant, reason = "reference values, written out")]
const CHOOSE: &[(u64, u64, f64)] = &[
    (5, 2, 2.302585092994046),
    (100, 50, 66.78384165201743),
    (1000000, 3, 39.654769204662266),
    (1000000000, 500000000, 693147169.9725211),
    (64, 1, 4.1588830833596715),
];

#[track_caller]
fn close(value: f64, reference: f64, tolerance: f64, what: impl std::fmt::Debug) {
    let error = (value - reference).abs() / reference.abs().max(f64::MIN_POSITIVE);
    assert!(error <= tolerance || value == reference, "{what:?}: {value:e} against {reference:e}, error {error:e}");
}

#[test]
fn tails_agree_with_high_precision() {
    for &(x, reference) in ERFCX {
        close(erfcx(x), reference, 2e-15, ("erfcx", x));
    }
    for &(x, reference) in LN_PHI {
        close(ln_normal_cdf(x), reference, 2e-15, ("ln Φ", x));
    }
    for &(x, reference) in SLOPE {
        close(mills_slope(x), reference, 1e-14, ("1 − tR", x));
    }
    assert_eq!(ln_normal_cdf(f64::NEG_INFINITY), f64::NEG_INFINITY);
    assert_eq!(ln_normal_cdf(f64::INFINITY), 0.0);
    assert_eq!(normal_cdf(0.0), 0.5);
    close(normal_cdf(-30.0), 4.906713927148187e-198, 1e-13, "Φ(-30)");
}

#[test]
fn gaussian_profile_agrees_with_high_precision() {
    for &(epsilon, mu, reference) in LN_PROFILE {
        let value = gaussian_ln_delta(epsilon, mu);
        let slack = gaussian_ln_delta_slack(epsilon, mu);
        assert!((value - reference).abs() <= slack, "({epsilon}, {mu}): {value} against {reference}, slack {slack:e}");
        assert!(slack <= 1e-12 * reference.abs().max(1.0) || epsilon > 1e3, "slack {slack:e} at ({epsilon}, {mu})");
        assert!(gaussian_ln_delta_upper(epsilon, mu) >= reference);
    }
    for (epsilon, mu, delta) in [
        (0.0, 1.0, 0.382924922548),
        (1.0, 1.0, 0.1269367375066),
        (0.0, 1e-8, 3.989422804014e-9),
        (1e-3, 1e-3, 8.335713212521e-5),
        (1.0, 0.1, 1.230835983643e-25),
        (10.0, 1.0, 9.812705826847e-23),
        (20.0, 2.0, 2.016028801306e-20),
        (50.0, 5.0, 1.255666997291e-14),
        (5.0, 0.2, 2.954833357711e-139),
        (100.0, 20.0, 0.9999996146686),
        (-1.0, 1.0, 0.6788179748866),
    ] {
        close(gaussian_ln_delta(epsilon, mu).exp(), delta, 1e-12, (epsilon, mu));
    }
}

#[test]
fn inverses_land_on_the_safe_side() {
    for (delta, mu, epsilon) in [
        (1e-6, 1.0, 4.886554117462),
        (1e-30, 1.0, 11.74388302523),
        (1e-100, 1.0, 21.62750809365),
        (1e-300, 1.0, 37.44884791214),
        (1e-5, 0.01, 0.02721941981458),
        (0.1, 0.5, 0.2864961017568),
        (1e-6, 30.0, 591.6747178259),
    ] {
        close(gaussian_epsilon(delta, mu), epsilon, 1e-12, (delta, mu));
        assert!(gaussian_ln_delta_upper(gaussian_epsilon(delta, mu), mu) <= f64::ln(delta));
    }
    for (epsilon, delta, sigma) in [
        (1.0, 1e-5, 3.730631634816),
        (0.1, 1e-6, 36.3046904262),
        (10.0, 1e-5, 0.499888619709),
        (0.001, 1e-10, 4584.218227174),
        (100.0, 1e-10, 0.1087604260201),
        (1.0, 1e-50, 14.6049183418),
    ] {
        close(gaussian_noise_multiplier(epsilon, delta), sigma, 1e-11, (epsilon, delta));
    }
    // δ at ε = 0 is 2Φ(μ/2) − 1; above it no ε is needed
    assert_eq!(gaussian_epsilon(0.39, 1.0), 0.0);
    assert!(gaussian_epsilon(0.38, 1.0) > 0.0);
    assert_eq!(gaussian_epsilon(1e-6, f64::INFINITY), f64::INFINITY);
    assert_eq!(gaussian_epsilon(1e-6, 0.0), 0.0);
    assert_eq!(gaussian_mu(1.0, 0.0), 0.0);
}

#[test]
fn binomials_and_sums_of_logs() {
    for &(k, n, p, reference) in BINOMIAL {
        close(ln_binomial_mass(k, n, p, 1.0 - p), reference, 2e-13, (k, n, p));
    }
    for &(n, k, reference) in CHOOSE {
        close(ln_binomial(n, k), reference, 1e-14, (n, k));
    }
    close(log_sum_exp([-1000.0, -1000.0]), -1000.0 + LN_2, 1e-15, "log_sum_exp");
    close(log_sum_exp([-1e4, 3.0, f64::NEG_INFINITY]), 3.0, 1e-15, "log_sum_exp");
    assert_eq!(log_sum_exp([]), f64::NEG_INFINITY);
    close(ln_one_minus_exp_neg(1e-20), (1e-20f64).ln(), 1e-15, "small");
    close(ln_one_minus_exp_neg(50.0), -(-50f64).exp(), 1e-12, "large");
}

proptest! {
    #[test]
    fn inverse_and_profile_agree(ln_mu in -9.0f64..4.0, ln_delta in -200.0f64..-0.5) {
        let (mu, delta) = (ln_mu.exp(), ln_delta.exp());
        let epsilon = gaussian_epsilon(delta, mu);
        prop_assert!(gaussian_ln_delta_upper(epsilon, mu) <= delta.ln());
        if epsilon > 0.0 {
            // not needlessly large: a relative 1e-9 less is already over
            prop_assert!(gaussian_ln_delta(epsilon * (1.0 - 1e-9), mu) > delta.ln() - 1e-9);
            let back = gaussian_mu(epsilon, delta);
            prop_assert!((back / mu - 1.0).abs() < 1e-9, "{} {}", back, mu);
        }
    }

    #[test]
    fn profile_is_monotone(ln_mu in -9.0f64..4.0, x in -3.0f64..30.0) {
        let mu = ln_mu.exp();
        let epsilon = x * mu;
        // where δ is within rounding of 1 the computed values may swap, by no more than their stated error
        let next = epsilon + 1e-3 * mu;
        let error = |e: f64, mu: f64| gaussian_ln_delta_slack(e, mu);
        prop_assert!(gaussian_ln_delta(epsilon, mu) + error(epsilon, mu) + error(next, mu) >= gaussian_ln_delta(next, mu));
        let more = mu * 1.001;
        prop_assert!(gaussian_ln_delta(epsilon, mu) <= gaussian_ln_delta(epsilon, more) + error(epsilon, mu) + error(epsilon, more));
    }
}
