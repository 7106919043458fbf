//! A release that depends on a test against the closed form of its curve (docs/proofs/certified-clipped-sgd.md).

use crate::accountant::{self, Accountant, AccountingError, delta, epsilon, pure::PureAccountant, rdp};
use dpopt_event::special::gaussian_ln_delta;
use dpopt_event::{Budget, Event, Neighbours, Relation};
use dpopt_privacy::calibrate;

/// δ of N(0, 1) against N(μ, 1), also below 0.
fn gaussian(epsilon: f64, mu: f64) -> f64 {
    let at = gaussian_ln_delta(epsilon.abs(), mu).exp();
    if epsilon >= 0.0 { at } else { -epsilon.exp_m1() + epsilon.exp() * at }
}

/// Randomised response of ε₁ composed with a Gaussian pair.
fn passed(epsilon: f64, test: f64, mu: f64) -> f64 {
    let p = 1.0 / (1.0 + (-test).exp());
    p * gaussian(epsilon - test, mu) + (1.0 - p) * gaussian(epsilon + test, mu)
}

fn tested(epsilon: f64, delta: f64, noise_multiplier: f64) -> Event {
    Event::ProposeTestRelease { epsilon, delta, noise_multiplier }
}

#[test]
fn alone_it_costs_the_larger_of_both_curves() {
    for (test, own, z, at) in
        [(0.25, 1e-9, 4.0, 1.0), (0.25, 1e-6, 8.0, 1.0), (1.0, 1e-7, 1.0, 4.0), (0.5, 1e-2, 6.0, 0.1)]
    {
        for (relation, mu) in [(Relation::ZeroOut, 1.0 / z), (Relation::ReplaceOne, 2.0 / z)] {
            let exact = passed(at, test, mu).max(own);
            let bound = delta(&tested(test, own, z), relation, at).unwrap().upper;
            assert!(
                bound >= exact * (1.0 - 1e-9) && bound < exact * 1.002 + 1e-15,
                "{test} {own} {z}: {bound:e} {exact:e}"
            );
            // blocks of such releases cost what one of them does
            let blocks = Event::Parallel { blocks: vec![tested(test, own, z); 5] };
            assert_eq!(delta(&blocks, relation, at).unwrap().upper, bound);
            // with another release that hangs on the same records, both: 1 − (1 − δ)(1 − H) and more
            let with = Event::composed(vec![tested(test, own, z), Event::gaussian(1e6)]);
            let both = own + (1.0 - own) * passed(at, test, mu);
            let bound = delta(&with, relation, at).unwrap().upper;
            assert!(bound >= both * (1.0 - 1e-9) && bound < both * 1.003 + 1e-15, "{bound:e} {both:e}");
            let twice = delta(&tested(test, own, z).self_composed(2), relation, at).unwrap().upper;
            assert!(twice >= 1.0 - (1.0 - own).powi(2) - 1e-15 && twice > both, "{twice:e}");
        }
    }
}

#[test]
fn noise_is_calibrated_from_above() {
    // two-line claim: μ(.75, 10^-6) = .181161; the composed curve needs no more
    let budget = Neighbours::of_records(Relation::ReplaceOne).within(Budget::new(1.0, 1e-6).unwrap());
    let (z, certificate) = calibrate::noise(|z| tested(0.25, 0.999e-6, z), budget).unwrap();
    assert!(certificate.bound().upper <= 1.0);
    assert!(2.0 / z >= 0.181161, "{}", 2.0 / z);
    assert!(passed(1.0, 0.25, 2.0 / z) <= 1e-6 && passed(1.0, 0.25, 2.001 / z) > 1e-6, "{}", 2.0 / z);
    // no noise makes up for a test that passes too often
    assert!(calibrate::noise(|z| tested(0.25, 1.1e-6, z), budget).is_err());
    assert!(matches!(
        epsilon(&tested(0.25, 1e-5, 10.0), Relation::ZeroOut, 1e-6),
        Err(AccountingError::Unreachable(_))
    ));
}

#[test]
fn it_has_no_concentrated_bound_and_none_of_a_group() {
    let event = tested(0.25, 1e-6, 10.0);
    assert!(rdp::RdpAccountant.supports(&event, Relation::ZeroOut).is_err());
    assert!(PureAccountant.supports(&event, Relation::ZeroOut).is_err());
    assert!(accountant::zcdp::ZcdpAccountant.supports(&event, Relation::ZeroOut).is_err());
    assert!(accountant::gdp::mu(&event, Relation::ZeroOut).is_err());
    assert!(epsilon(&event.clone().for_users_of(3), Relation::ZeroOut, 1e-3).is_err());
    assert!(epsilon(&event.sampled_without_replacement(10, 2), Relation::ZeroOut, 1e-3).is_err());
    assert_eq!(epsilon(&tested(0.25, 1e-6, 0.0), Relation::ZeroOut, 1e-3).unwrap().upper, f64::INFINITY);
}
