//! What Liu 2024, Proposition 5.5.6 says of privacy in this geometry, and what it costs (docs/proofs/value-sampler.md, "What is printed and is not
//! private").

use super::*;
use dpopt_privacy::special::{gaussian_ln_delta, gaussian_mu};

fn delta(epsilon: f64, mu: f64) -> f64 {
    gaussian_ln_delta(epsilon, mu).exp()
}

/// X the segment along equal entries, losses ±G·Σx_i, p = 1 replaced by p' = 1 + 1/ln d with G as it was: for small a the
/// regulariser is ‖x‖²_p'/(2(p' − 1)), whose modulus along the segment is too small by (d^(1/q')/√ln d)².
#[test]
fn raising_p_without_its_factor_is_a_privacy_bug() {
    let t = gaussian_mu(1.0, 1e-5);
    for (d, times, at_one) in [(3, 1.610, 2.4e-3), (4, 1.518, 1.5e-3), (10, 1.323, 4.1e-4), (100, 1.060, 2.5e-5)] {
        let (raised, factor) = raised_exponent(1.0, d);
        // unit l_1 length along equal entries in the new norm, and the modulus 1 of ‖·‖²_p'/(2(p' − 1)) in its own direction
        let size = d as f64;
        let length = size.powf(1.0 / raised - 1.0);
        let modulus = length * length / (raised - 1.0);
        let shift = 1.0 / modulus.sqrt();
        assert!((shift - times).abs() < 6e-4, "{d}: {shift}");
        assert!((delta(1.0, t * shift) / at_one - 1.0).abs() < 0.03, "{d}: {}", delta(1.0, t * shift));
        assert!(delta(1.0, t * shift) > 1.02e-5);
        // with the factor the modulus is measured in the norm in which G is: the shift is at most t
        assert!(factor > 1.0 && shift / factor <= 1.0, "{d}: {factor}");
    }
    // the transform itself at d = 3: where l_1 needs 4.5, it rises by 1.705 to 1.735 (a 200³ grid: 1.70517, 1.72373)
    for (a, rise) in [(1.0, 1.7052), (0.1, 1.724), (0.01, 1.734), (0.001, 1.735)] {
        let (p, _) = raised_exponent(1.0, 3);
        let psi = LogLaplace::new(3, p, a).unwrap();
        let got = 2.0 * a / (p - 1.0) * (psi.value(&[1.0; 3]) - psi.at_zero());
        assert!((got - rise).abs() < 6e-4, "{a}: {got}");
    }
}

/// Proposition 5.5.6 as printed, for population risk: k and μ.
fn printed_population(n: f64, d: f64, lipschitz: f64, theta: f64, epsilon: f64, delta: f64) -> (f64, f64) {
    let l = (1.0 / (2.0 * delta)).ln();
    let (private, statistical) = (d * l / (epsilon * n).powi(2), 1.0 / n);
    let k = (private + statistical).sqrt() / (lipschitz * theta.sqrt()) * ((epsilon * n).powi(2) / l).min(n * d);
    let mu = lipschitz * lipschitz * k * (l / (n * epsilon).powi(2)).max(1.0 / (n * d));
    (k, mu)
}

#[test]
fn the_printed_population_parameters_are_not_private() {
    // d/n large
    let (n, d, g, theta) = (50.0, 5000.0, 1.3, 0.8);
    let shift = |sensitivity: f64, epsilon: f64, delta: f64| {
        let (k, mu) = printed_population(n, d, g, theta, epsilon, delta);
        sensitivity * k.sqrt() / (n * mu.sqrt())
    };
    for (times, at_one) in [(1.0, 6.575e-5), (2.0, 2.025e-2)] {
        let spent = delta(1.0, shift(times * g, 1.0, 1e-5));
        assert!((spent / at_one - 1.0).abs() < 1e-3, "{times}: {spent}");
        assert!(spent > 1e-5);
    }
    for (wanted, first) in [(1e-3, 0.82), (1e-5, 0.23), (1e-6, 0.10), (1e-8, 0.02)] {
        let fails = |k: &u32| {
            let epsilon = 0.01 * f64::from(*k);
            delta(epsilon, shift(g, epsilon, wanted)) > wanted
        };
        let found = (1..200).find(fails).unwrap();
        assert_eq!(found, (100.0 * first + 0.5) as u32, "{wanted}");
    }
    // what is built instead: k/μ = (nt/G_Δ)² with t from the exact profile
    let t = gaussian_mu(1.0, 1e-5);
    assert!(delta(1.0, t) <= 1e-5 * (1.0 + 1e-9) && shift(g, 1.0, 1e-5) > 1.1 * t);
}
