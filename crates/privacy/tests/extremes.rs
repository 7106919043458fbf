//! Extreme public numbers: a bound or a clear refusal, never NaN, a panic or a long wait.

use dpopt_privacy::accountant::{self, Accountant, AccountingError};
use dpopt_privacy::{Budget, Event, Neighbours, Relation, calibrate};
use proptest::prelude::*;
use std::time::{Duration, Instant};

/// Numbers whose logarithm is uniform.
fn scale(low: f64, high: f64) -> impl Strategy<Value = f64> {
    (low.ln()..high.ln()).prop_map(f64::exp)
}

fn relation() -> impl Strategy<Value = Relation> {
    prop_oneof![Just(Relation::ZeroOut), Just(Relation::AddOrRemove), Just(Relation::ReplaceOne)]
}

/// Leaves of every family, over the whole range of their parameters.
fn leaf() -> impl Strategy<Value = Event> {
    let sigma = || scale(0.05, 1e6);
    let q = || scale(1e-9, 1.0);
    prop_oneof![
        3 => (sigma(), q()).prop_map(|(s, q)| Event::gaussian(s).poisson_sampled(q)),
        1 => sigma().prop_map(Event::gaussian),
        1 => sigma().prop_map(Event::laplace),
        1 => (sigma(), q()).prop_map(|(s, q)| Event::laplace(s).poisson_sampled(q)),
        1 => (sigma(), 1..1000u64).prop_map(|(s, m)| Event::gaussian(s).sampled_without_replacement(1000, m)),
        1 => (sigma(), 1..1000u64).prop_map(|(s, m)| Event::laplace(s).sampled_without_replacement(1000, m)),
        1 => (scale(1e-6, 100.0), scale(1e-30, 0.1)).prop_map(|(epsilon, delta)| Event::ApproxDp { epsilon, delta }),
        1 => (scale(1e-6, 100.0), q()).prop_map(|(epsilon, q)| Event::PureStream { epsilon }.poisson_sampled(q)),
        1 => scale(1e-6, 100.0).prop_map(|epsilon| Event::ExponentialMechanism { epsilon }),
        1 => (scale(1e-6, 100.0), q()).prop_map(|(epsilon, q)| Event::PermuteAndFlip { epsilon }.poisson_sampled(q)),
        1 => (scale(1e-6, 100.0), scale(1e-30, 0.1)).prop_map(|(epsilon, delta)| Event::EpsilonDelta { epsilon, delta }),
        2 => (sigma(), scale(1.0, 1e4), any::<bool>(), q()).prop_map(|(sigma, sensitivity, one, q)| {
            let dimension = one.then_some(1);
            Event::DiscreteGaussian { sigma, sensitivity, dimension }.poisson_sampled(q)
        }),
        1 => scale(1e-12, 100.0).prop_map(|rho| Event::Zcdp { rho, xi: 0.0 }),
        1 => (sigma(), q()).prop_map(|(s, q)| Event::MixtureOfGaussians {
            standard_deviation: s,
            sensitivities: vec![0.0, 0.5, 1.0],
            sampling_probs: vec![1.0 - q, 0.5 * q, 0.5 * q],
        }),
    ]
}

/// The most points of a Fourier window of `Quality::FINE`: 2²¹ numbers of 8 bytes. It bounds memory whatever is asked.
const MAX_POINTS: usize = 1 << 21;

fn accounted(event: &Event, relation: Relation, delta: f64) -> Result<f64, TestCaseError> {
    let clock = Instant::now();
    let pld = accountant::pld::Pld::default();
    let answer = pld.epsilon(event, relation, delta);
    // one second alone; the machine may be shared
    prop_assert!(clock.elapsed() < Duration::from_secs(300), "{event}: {:?}", clock.elapsed());
    match answer {
        Ok(bound) => {
            prop_assert!(bound.upper.is_finite() && bound.upper >= 0.0, "{event}: {bound:?}");
            prop_assert!(bound.slack.is_none_or(|s| s.window_points <= MAX_POINTS), "{event}: the window is too long");
            Ok(bound.upper)
        }
        Err(AccountingError::Unreachable(_) | AccountingError::Unsupported { .. } | AccountingError::Parameter(_)) => {
            Ok(f64::INFINITY)
        }
        // contradicted bounds, and whatever is new
        Err(wrong) => Err(TestCaseError::fail(format!("{event}: {wrong}"))),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 56, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_bound_or_a_refusal(leaf in leaf(), steps in scale(1.0, 1e9), delta in scale(1e-30, 0.9), relation in relation()) {
        let event = leaf.self_composed(steps as u64);
        accounted(&event, relation, delta)?;
    }

    /// The Rényi family too, and what [`accountant::epsilon`] makes of all of them.
    #[test]
    fn every_accountant_has_a_bound_or_a_refusal(
        leaf in leaf(), steps in scale(1.0, 1e9), delta in scale(1e-30, 0.9), relation in relation(),
    ) {
        let event = leaf.self_composed(steps as u64);
        for (name, answer) in accountant::compare(&event, relation, delta) {
            if let Ok(bound) = answer {
                prop_assert!(bound.upper >= 0.0 && bound.upper.is_finite(), "{name} {event}: {bound:?}");
                prop_assert!(bound.lower.is_none_or(|l| l <= bound.upper), "{name} {event}: {bound:?}");
            }
        }
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
        // up to the slack of the lattice: a hundredfold of what `Quality::FINE` aims at, 2e-6 of ε and 2e-10 at least
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

/// Noise that is as good as none, and as good as infinite: no loop whose steps vanish against its length.
#[test]
fn parameters_at_the_ends_of_the_floating_point_range() {
    let clock = Instant::now();
    for sigma in [1e-300, 1e-160, 1e-20, 1e-3, 1e20, 1e160, 1e300] {
        let mixture = Event::MixtureOfGaussians {
            standard_deviation: sigma,
            sensitivities: vec![0.0, 1.0],
            sampling_probs: vec![0.9, 0.1],
        };
        for (seen, event) in [
            (true, Event::gaussian(sigma)),
            (true, Event::gaussian(sigma).poisson_sampled(0.1)),
            (false, Event::gaussian(sigma).poisson_sampled(1e-300)),
            (true, Event::gaussian(sigma).sampled_without_replacement(10, 1)),
            (true, Event::laplace(sigma).poisson_sampled(0.1)),
            (true, mixture),
        ] {
            for steps in [1, 1000] {
                let event = event.clone().self_composed(steps);
                for relation in [Relation::ZeroOut, Relation::AddOrRemove, Relation::ReplaceOne] {
                    if let Ok(bound) = accountant::epsilon(&event, relation, 1e-6) {
                        assert!(bound.upper >= 0.0 && bound.upper.is_finite(), "{event}: {bound:?}");
                        // a shift of 1e20 deviations that is seen with probability .1 has no ε of use
                        assert!(!(seen && sigma <= 1e-20) || bound.upper > 1e10, "{event}: {bound:?}");
                    }
                    let pld = accountant::pld::Pld { quality: accountant::pld::Quality::BRACKET };
                    if let Ok(bound) = pld.delta(&event, relation, 1.0) {
                        assert!((0.0..=1.0).contains(&bound.upper), "{event}: {bound:?}");
                    }
                }
            }
        }
    }
    // a few seconds alone
    assert!(clock.elapsed() < Duration::from_secs(120), "{:?}", clock.elapsed());
}

/// Targets at which other root finders hang, overflow or leave their bracket.
#[test]
fn calibration_at_tiny_and_huge_targets() {
    let clock = Instant::now();
    let event = |noise: f64| Event::gaussian(noise).poisson_sampled(0.01).self_composed(1000);
    let mut last = f64::INFINITY;
    for (epsilon, delta) in [(1e-6, 1e-6), (1e-2, 1e-6), (10.0, 1e-5), (100.0, 1e-30), (1000.0, 1e-6)] {
        let (noise, found) = calibrate::noise(
            event,
            Neighbours::of_records(Relation::ZeroOut).within(Budget::new(epsilon, delta).unwrap()),
        )
        .unwrap();
        assert!(found.bound().upper <= epsilon && found.bound().upper > 0.99 * epsilon, "{epsilon}: {found:?}");
        assert!(noise < last && noise > 0.05, "{epsilon}: {noise}");
        last = noise;
    }
    assert!(clock.elapsed() < Duration::from_secs(60), "{:?}", clock.elapsed());
}

/// (1 + e^ε)·τ of a sampler's error τ outgrows δ: a refusal that says so, found without a search through Rényi orders.
#[test]
fn a_samplers_error_ends_at_some_epsilon() {
    let steps = Event::gaussian(0.2).poisson_sampled(0.1).self_composed(400);
    assert!(accountant::epsilon(&steps, Relation::ZeroOut, 1e-6).unwrap().upper > 300.0);
    let error = accountant::epsilon(&steps.approximate(1e-33), Relation::ZeroOut, 1e-6).unwrap_err();
    assert!(matches!(&error, AccountingError::Unreachable(why) if why.contains("total variation")), "{error}");
}
