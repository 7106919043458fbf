//! Events at which accountants once answered below the truth.

use dpopt_privacy::accountant::pld::{Pld, Quality};
use dpopt_privacy::accountant::{self, Accountant};
use dpopt_privacy::filter::{Filter, Rule};
use dpopt_privacy::{Budget, Event, Neighbours, Relation, calibrate, certify};

const ZERO_OUT: Relation = Relation::ZeroOut;

fn integers(sigma: f64, sensitivity: f64) -> Event {
    Event::DiscreteGaussian { sigma, sensitivity, dimension: Some(1) }
}

/// A loss of 800 nats: e^800 overflows. One such release already has δ(600) above .99.
#[test]
fn losses_beyond_the_exponential_are_not_lost() {
    for (event, relation, delta, least) in [
        (integers(0.2, 8.0).self_composed(3), ZERO_OUT, 1e-3, 2000.0),
        (integers(0.2051, 4.0).self_composed(7), Relation::ReplaceOne, 1e-3, 4000.0),
    ] {
        assert!(certify(&event, Neighbours::of_records(relation).within(Budget::new(least, delta).unwrap())).is_err());
        if let Ok(bound) = accountant::epsilon(&event, relation, delta) {
            assert!(bound.upper > least, "{event}: {bound:?}");
        }
        for (name, answer) in accountant::compare(&event, relation, delta) {
            assert!(answer.as_ref().map_or(true, |b| b.upper > least), "{name} of {event}: {answer:?}");
        }
    }
    // the whole grid of small σ against integer sensitivities; one part alone is exact
    for i in 1..=16 {
        for c in 1..=12 {
            let (sigma, c) = (0.05 * f64::from(i), f64::from(c));
            for t in [2, 5] {
                for quality in [Quality::FINE, Quality::COARSE, Quality::BRACKET] {
                    let one = Pld { quality }.claim_delta(&integers(sigma, c), ZERO_OUT, 1.0).unwrap().upper;
                    let many =
                        Pld { quality }.claim_delta(&integers(sigma, c).self_composed(t), ZERO_OUT, 1.0).unwrap().upper;
                    assert!(many >= one * (1.0 - 1e-9), "{sigma} {c} {t}: {many} {one}");
                }
            }
        }
    }
}

/// One step alone has δ(1) of about .8.
#[test]
fn a_hundred_million_steps_cost_more_than_one() {
    let step = Event::gaussian(0.3).poisson_sampled(0.9);
    let one = accountant::delta(&step, ZERO_OUT, 1.0).unwrap().upper;
    assert!(one > 0.75);
    for t in [200_000, 10_000_000, 100_000_000, 1_000_000_000] {
        let many = Pld::default().claim_delta(&step.clone().self_composed(t), ZERO_OUT, 1.0).unwrap().upper;
        assert!(many >= one, "{t}: {many}");
        assert!(accountant::delta(&step.clone().self_composed(t), ZERO_OUT, 1.0).unwrap().upper > 0.999999);
    }
}

#[test]
fn delta_zero_is_for_pure_privacy() {
    let budget = Budget::new(1.0, 0.0).unwrap();
    assert!(calibrate::noise(Event::gaussian, Neighbours::of_records(ZERO_OUT).within(budget)).is_err());
    assert!(certify(&Event::gaussian(100.0), Neighbours::of_records(ZERO_OUT).within(budget)).is_err());
    assert!(certify(&Event::laplace(1.01), Neighbours::of_records(ZERO_OUT).within(budget)).is_ok());
    let filter = Filter::new(Rule::Basic, ZERO_OUT, budget).unwrap();
    assert!(filter.price(&Event::gaussian(100.0), 0.0).is_err());
    assert!((filter.price(&Event::laplace(2.0), 0.0).unwrap().amount - 0.5).abs() < 1e-14);
    for event in [
        Event::gaussian(100.0),
        Event::gaussian(100.0).poisson_sampled(0.1).self_composed(3),
        Event::Zcdp { rho: 1e-9, xi: 0.0 },
    ] {
        for (name, answer) in accountant::compare(&event, ZERO_OUT, 0.0) {
            assert!(answer.is_err(), "{name} of {event}: {answer:?}");
        }
        for (name, answer) in accountant::compare_delta(&event, ZERO_OUT, 500.0) {
            assert!(answer.as_ref().map_or(true, |b| b.upper > 0.0), "{name} of {event}: {answer:?}");
        }
    }
    // two thousand fair coins: 2^-2000 underflows and is not nothing
    let many = accountant::epsilon(&Event::laplace(1.0).self_composed(2000), ZERO_OUT, 0.0).unwrap().upper;
    assert!(many >= 2000.0, "{many}");
}

/// Lower bounds are of mechanisms that exist, not of the envelope that bounds them.
#[test]
fn lower_bounds_are_not_above_upper_ones() {
    for (event, upper) in [
        (Event::ExponentialMechanism { epsilon: 0.1 }.self_composed(500), 5.92),
        (Event::Zcdp { rho: 0.001, xi: 0.0 }.self_composed(1000), 7.77),
        (Event::DiscreteGaussian { sigma: 100.0, sensitivity: 10.0, dimension: None }.self_composed(50), 3.6),
    ] {
        let pld = Pld { quality: Quality::BRACKET }.epsilon(&event, ZERO_OUT, 1e-6).unwrap();
        let lower = pld.lower.unwrap();
        // within a fifth of what holds, so that they say something
        assert!(lower <= upper && lower > 0.6 * upper, "{event}: {pld:?}");
        for (name, answer) in accountant::compare(&event, ZERO_OUT, 1e-6) {
            let Ok(bound) = answer else { continue };
            assert!(bound.lower.unwrap() <= bound.upper, "{name} of {event}: {bound:?}");
        }
    }
}

/// More copies of a record than are counted apart: a lower bound counts the most that are, and not nothing.
#[test]
fn samples_with_more_copies_than_are_counted_apart_have_an_answer() {
    let event = Event::SampledWithReplacement {
        source_dataset_size: 1,
        sample_size: 1000,
        event: Box::new(Event::Gdp { mu: 0.0103723 }),
    };
    let bound = accountant::epsilon(&event, Relation::ZeroOut, 1e-6).unwrap();
    // a thousand copies are one Gaussian of mu = 10.3723
    let truth = accountant::epsilon(&Event::Gdp { mu: 10.3723 }, Relation::ZeroOut, 1e-6).unwrap().lower.unwrap();
    assert!(bound.upper >= truth && bound.lower.is_none_or(|lower| lower <= truth), "{bound:?} {truth}");
}

/// Squares of 1e-170 underflow, the total variation does not.
#[test]
fn what_underflows_is_not_nothing() {
    let stated = Event::Gdp { mu: 1e-170 };
    // (event, at most its total variation): 2Φ(μ/2) − 1 of a Gaussian, 1 − e^(−½) of Laplace noise
    for (event, least) in [
        (Event::gaussian(1e170), 3.98e-171),
        (stated.clone().self_composed(4), 7.97e-171),
        (Event::composed(vec![Event::gaussian(1e170), Event::gaussian(2e170)]), 4.45e-171),
        (Event::laplace(1e170), 4.99e-171),
        (Event::gaussian(1.0).poisson_sampled(1e-170), 3.82e-171),
        (Event::laplace(1.0).poisson_sampled(1e-170), 3.93e-171),
        (integers(2.0, 1.0).poisson_sampled(1e-170), 1.9e-171),
        (Event::gaussian(1.0).sampled_without_replacement(u64::MAX, 1), 1.9e-20),
        (Event::Parallel { blocks: vec![Event::laplace(1e170), stated.clone()] }, 4.99e-171),
    ] {
        let mut answers = vec![("", accountant::delta(&event, ZERO_OUT, 0.0))];
        answers.extend(accountant::compare_delta(&event, ZERO_OUT, 0.0));
        assert!(answers.iter().any(|(_, answer)| answer.is_ok()), "{event}");
        for (name, answer) in answers {
            assert!(answer.as_ref().map_or(true, |b| b.upper >= least), "{name} of {event}: {answer:?}");
        }
        let mut answers = vec![("", accountant::epsilon(&event, ZERO_OUT, 1e-300))];
        answers.extend(accountant::compare(&event, ZERO_OUT, 1e-300));
        for (name, answer) in answers {
            assert!(answer.as_ref().map_or(true, |b| b.upper > 0.0), "{name} of {event}: {answer:?}");
        }
    }
    // nothing costs nothing
    for nothing in [Event::NoOp, Event::Zcdp { rho: 0.0, xi: 0.0 }, Event::Gdp { mu: 0.0 }.poisson_sampled(0.5)] {
        assert_eq!(accountant::epsilon(&nothing, ZERO_OUT, 1e-300).unwrap().upper, 0.0, "{nothing}");
    }
    // ten steps of nearly nothing are charged
    let mut filter = Filter::new(Rule::Gdp, ZERO_OUT, Budget::new(1.0, 1e-6).unwrap()).unwrap();
    (0..10).for_each(|_| filter.charge(&stated).unwrap());
    assert!(filter.spent_share() > 0.0);
}
