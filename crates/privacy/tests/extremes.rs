//! Extreme public numbers: a bound or a clear refusal, never NaN, a panic or a long wait.

use dpopt_privacy::accountant::{self, Accountant, AccountingError};
use dpopt_privacy::{Event, Relation};
use proptest::prelude::*;
use std::time::{Duration, Instant};

/// Uniform in the logarithm.
fn scale(low: f64, high: f64) -> impl Strategy<Value = f64> {
    (low.ln()..high.ln()).prop_map(f64::exp)
}

fn relation() -> impl Strategy<Value = Relation> {
    prop_oneof![Just(Relation::ZeroOut), Just(Relation::AddOrRemove), Just(Relation::ReplaceOne)]
}

fn leaf() -> impl Strategy<Value = Event> {
    prop_oneof![
        scale(0.05, 1e6).prop_map(Event::gaussian),
        (scale(0.05, 1e6), scale(1e-9, 1.0)).prop_map(|(s, q)| Event::gaussian(s).poisson_sampled(q)),
        scale(0.05, 1e6).prop_map(Event::laplace),
        (scale(0.05, 1e6), scale(1e-9, 1.0)).prop_map(|(s, q)| Event::laplace(s).poisson_sampled(q)),
        (scale(0.05, 1e4), 1..1000u64).prop_map(|(s, m)| Event::gaussian(s).sampled_without_replacement(1000, m)),
        (scale(1e-6, 50.0), scale(1e-30, 0.1)).prop_map(|(epsilon, delta)| Event::ApproxDp { epsilon, delta }),
        scale(1e-6, 50.0).prop_map(|epsilon| Event::ExponentialMechanism { epsilon }),
    ]
}

fn accounted(event: &Event, relation: Relation, delta: f64) -> Result<f64, TestCaseError> {
    let clock = Instant::now();
    let pld = accountant::pld::Pld::default();
    let answer = pld.epsilon(event, relation, delta);
    // one second alone; the machine may be shared
    prop_assert!(clock.elapsed() < Duration::from_secs(20), "{event}: {:?}", clock.elapsed());
    match answer {
        Ok(bound) => {
            prop_assert!(bound.upper.is_finite() && bound.upper >= 0.0, "{event}: {bound:?}");
            Ok(bound.upper)
        }
        Err(AccountingError::Unreachable(_) | AccountingError::Unsupported { .. } | AccountingError::Parameter(_)) => {
            Ok(f64::INFINITY)
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_bound_or_a_refusal(leaf in leaf(), steps in scale(1.0, 1e9), delta in scale(1e-30, 0.9), relation in relation()) {
        let event = leaf.self_composed(steps as u64);
        accounted(&event, relation, delta)?;
    }

    #[test]
    fn a_delta_or_a_refusal(leaf in leaf(), steps in scale(1.0, 1e6), epsilon in scale(1e-6, 100.0)) {
        let event = leaf.self_composed(steps as u64);
        if let Ok(bound) = accountant::pld::Pld::default().delta(&event, Relation::ZeroOut, epsilon) {
            prop_assert!((0.0..=1.0).contains(&bound.upper), "{event}: {bound:?}");
        }
    }

    #[test]
    fn more_noise_costs_less_and_more_steps_cost_more(
        q in scale(1e-4, 0.5), sigma in scale(0.5, 20.0), steps in 1..2000u64, delta in scale(1e-12, 1e-3),
    ) {
        let event = |sigma: f64, steps: u64| Event::gaussian(sigma).poisson_sampled(q).self_composed(steps);
        let base = accounted(&event(sigma, steps), Relation::ZeroOut, delta)?;
        // up to the slack of the lattice
        let slack = 2e-4 * base + 1e-7;
        prop_assert!(accounted(&event(1.05 * sigma, steps), Relation::ZeroOut, delta)? <= base + slack);
        prop_assert!(accounted(&event(sigma, steps + steps / 10 + 1), Relation::ZeroOut, delta)? >= base - slack);
        prop_assert!(accounted(&event(sigma, steps), Relation::ReplaceOne, delta)? >= base - slack);
    }

    #[test]
    fn the_order_of_the_parts_does_not_matter(
        q in scale(1e-3, 0.3), sigma in scale(0.7, 10.0), b in scale(3.0, 100.0), steps in 1..500u64,
    ) {
        let parts = [Event::gaussian(sigma).poisson_sampled(q).self_composed(steps), Event::laplace(b).self_composed(3)];
        let forth = accounted(&Event::composed(parts.to_vec()), Relation::ZeroOut, 1e-6)?;
        let back = accounted(&Event::composed(parts.into_iter().rev().collect()), Relation::ZeroOut, 1e-6)?;
        prop_assert!((forth - back).abs() <= 1e-9 * forth);
    }
}

/// Thousands of different parts.
#[test]
fn a_long_schedule() {
    let parts = (0..500).map(|i| Event::gaussian(1.0 + f64::from(i) / 500.0).poisson_sampled(0.01)).collect();
    let value = accountant::epsilon(&Event::composed(parts), Relation::ZeroOut, 1e-6).unwrap().upper;
    let most = Event::gaussian(1.0).poisson_sampled(0.01).self_composed(500);
    let least = Event::gaussian(2.0).poisson_sampled(0.01).self_composed(500);
    assert!(value < accountant::epsilon(&most, Relation::ZeroOut, 1e-6).unwrap().upper);
    assert!(value > accountant::epsilon(&least, Relation::ZeroOut, 1e-6).unwrap().upper);
}
