//! Events as JSON: round trips, and refusals of what is no event.

use crate::event::{Event, GlmLink};
use proptest::prelude::*;

fn real() -> impl Strategy<Value = f64> {
    prop_oneof![0.0f64..10.0, any::<f64>().prop_filter("finite", |x| x.is_finite()), Just(5e-324), Just(f64::MAX)]
}

fn leaf() -> impl Strategy<Value = Event> {
    prop_oneof![
        Just(Event::NoOp),
        Just(Event::NonPrivate),
        Just(Event::Unsupported),
        real().prop_map(Event::gaussian),
        real().prop_map(Event::laplace),
        (real(), any::<u64>())
            .prop_map(|(noise_parameter, sensitivity)| Event::DiscreteLaplace { noise_parameter, sensitivity }),
        (real(), any::<u64>())
            .prop_map(|(noise_parameter, num_buckets)| Event::RandomizedResponse { noise_parameter, num_buckets }),
        real().prop_map(|epsilon| Event::ExponentialMechanism { epsilon }),
        real().prop_map(|epsilon| Event::PermuteAndFlip { epsilon }),
        (real(), real()).prop_map(|(epsilon, delta)| Event::EpsilonDelta { epsilon, delta }),
        (real(), real(), any::<Option<u64>>()).prop_map(|(sigma, sensitivity, dimension)| Event::DiscreteGaussian {
            sigma,
            sensitivity,
            dimension
        }),
        real().prop_map(|mu| Event::Gdp { mu }),
        real().prop_map(|epsilon| Event::PureStream { epsilon }),
        (real(), real()).prop_map(|(rho, xi)| Event::Zcdp { rho, xi }),
        (real(), real()).prop_map(|(epsilon, delta)| Event::ApproxDp { epsilon, delta }),
        (real(), real(), real()).prop_map(|(epsilon, delta, noise_multiplier)| Event::ProposeTestRelease {
            epsilon,
            delta,
            noise_multiplier
        }),
        prop::collection::vec((real(), real()), 0..4).prop_map(|points| {
            let (orders, divergences) = points.into_iter().unzip();
            Event::Rdp { orders, divergences }
        }),
        prop::collection::vec((real(), real()), 0..4).prop_map(|points| {
            let (epsilons, deltas) = points.into_iter().unzip();
            Event::PrivacyProfile { epsilons, deltas }
        }),
        (any::<u64>(), real()).prop_map(|(degrees_of_freedom, mu)| Event::ChiSquareGaussian { degrees_of_freedom, mu }),
        (real(), prop::collection::vec((real(), real()), 0..4)).prop_map(|(standard_deviation, points)| {
            let (sensitivities, sampling_probs) = points.into_iter().unzip();
            Event::MixtureOfGaussians { standard_deviation, sensitivities, sampling_probs }
        }),
        (real(), prop::collection::vec(any::<u64>(), 0..3)).prop_map(|(noise_multiplier, step_counts)| {
            Event::SingleEpochTreeAggregation { noise_multiplier, step_counts }
        }),
        (any::<u64>(), real(), any::<u64>(), real()).prop_map(
            |(dataset_size, sampling_probability, truncated_batch_size, noise_multiplier)| {
                Event::TruncatedSubsampledGaussian {
                    dataset_size,
                    sampling_probability,
                    truncated_batch_size,
                    noise_multiplier,
                }
            }
        ),
        (real(), real(), 0u32..3, real(), any::<u32>()).prop_map(
            |(noise_multiplier, regularization, kind, smoothness, classes)| Event::ObjectivePerturbation {
                noise_multiplier,
                regularization,
                link: match kind {
                    0 => GlmLink::Monotone,
                    1 => GlmLink::Smooth { smoothness },
                    _ => GlmLink::Softmax { classes },
                },
            }
        ),
    ]
}

pub(crate) fn any_event() -> impl Strategy<Value = Event> {
    leaf().prop_recursive(5, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Event::composed),
            prop::collection::vec(inner.clone(), 0..4).prop_map(|blocks| Event::Parallel { blocks }),
            (inner.clone(), any::<u64>()).prop_map(|(e, n)| e.self_composed(n)),
            (inner.clone(), real()).prop_map(|(e, q)| e.poisson_sampled(q)),
            (inner.clone(), any::<u64>(), any::<u64>()).prop_map(|(e, n, m)| e.sampled_without_replacement(n, m)),
            (inner.clone(), any::<u64>(), any::<u64>()).prop_map(|(e, n, m)| Event::SampledWithReplacement {
                source_dataset_size: n,
                sample_size: m,
                event: Box::new(e)
            }),
            (inner.clone(), any::<u64>(), any::<u64>()).prop_map(|(e, num_selected, num_steps)| {
                Event::RandomAllocation { event: Box::new(e), num_selected, num_steps }
            }),
            (inner.clone(), any::<u64>())
                .prop_map(|(e, k)| Event::UserUnit { records_per_user: k, event: Box::new(e) }),
            (inner.clone(), real()).prop_map(|(e, t)| e.approximate(t)),
            (inner, real(), prop_oneof![real(), Just(f64::INFINITY)])
                .prop_map(|(e, mean, shape)| Event::RepeatAndSelect { event: Box::new(e), mean, shape }),
        ]
    })
}

proptest! {
    #[test]
    fn round_trip(event in any_event()) {
        let text = event.to_json().unwrap();
        let back = Event::from_json(&text).unwrap();
        prop_assert_eq!(&back, &event);
        prop_assert_eq!(back.fingerprint(), event.fingerprint());
        // formulas, checks and simplification never panic
        let _ = (event.to_string(), event.exact(crate::Relation::ZeroOut), event.exact(crate::Relation::ReplaceOne));
    }

    #[test]
    fn garbage_is_an_error(text in ".{0,200}") {
        prop_assert!(Event::from_json(&text).is_err());
    }

    #[test]
    fn a_damaged_event_never_panics(event in any_event(), place in any::<prop::sample::Index>(), byte in 32u8..127) {
        let mut text = event.to_json().unwrap().into_bytes();
        let place = place.index(text.len());
        text[place] = byte;
        let _ = Event::from_json(&String::from_utf8(text).unwrap());
    }
}

/// RandomAllocationDpEvent(GaussianDpEvent(1.5), num_selected=2, num_steps=10) of dp_accounting.
#[test]
fn random_allocation_is_that_of_dp_accounting() {
    let text = r#"{"module_name": "dp_accounting.dp_event", "class_name": "RandomAllocationDpEvent", "event":
        {"module_name": "dp_accounting.dp_event", "class_name": "GaussianDpEvent", "noise_multiplier": 1.5},
        "num_selected": 2, "num_steps": 10}"#;
    let event = Event::RandomAllocation { event: Box::new(Event::gaussian(1.5)), num_selected: 2, num_steps: 10 };
    assert_eq!(Event::from_json(text).unwrap(), event);
    assert!(event.to_json().unwrap().contains(r#""module_name":"dp_accounting.dp_event""#));
    assert_eq!(event.to_string(), "Allocate(2 of 10 steps, Gaussian(1.5))");
}

#[test]
fn reads_and_writes_what_dp_accounting_does() {
    // GaussianDpEvent(1.5).to_named_tuple()._asdict() and so on, dp_accounting 0.6
    let text = r#"{"module_name": "dp_accounting.dp_event", "class_name": "ComposedDpEvent", "events": [
        {"module_name": "dp_accounting.dp_event", "class_name": "SelfComposedDpEvent", "event":
            {"module_name": "dp_accounting.dp_event", "class_name": "SampledWithoutReplacementDpEvent",
             "source_dataset_size": 100, "sample_size": 10, "event":
                {"module_name": "dp_accounting.dp_event", "class_name": "GaussianDpEvent", "noise_multiplier": 1.5}},
         "count": 7},
        {"module_name": "dp_accounting.dp_event", "class_name": "ZCDpEvent", "rho": 1, "xi": 0.0},
        {"module_name": "dp_accounting.dp_event", "class_name": "SingleEpochTreeAggregationDpEvent",
         "noise_multiplier": 2.0, "step_counts": 8}]}"#;
    let expected = Event::composed(vec![
        Event::gaussian(1.5).sampled_without_replacement(100, 10).self_composed(7),
        Event::Zcdp { rho: 1.0, xi: 0.0 },
        Event::SingleEpochTreeAggregation { noise_multiplier: 2.0, step_counts: vec![8] },
    ]);
    assert_eq!(Event::from_json(text).unwrap(), expected);
    assert_eq!(
        Event::gaussian(1.5).to_json().unwrap(),
        r#"{"class_name":"GaussianDpEvent","module_name":"dp_accounting.dp_event","noise_multiplier":1.5}"#
    );
}

/// Events of later versions of dp_accounting; one of them was dpopt's own before.
#[test]
fn later_events_of_dp_accounting_and_earlier_ones_of_dpopt() {
    for (text, event) in [
        (
            r#"{"class_name": "DiscreteGaussianDpEvent", "sigma": 10, "sensitivity": 1.0, "dimension": null}"#,
            Event::DiscreteGaussian { sigma: 10.0, sensitivity: 1.0, dimension: None },
        ),
        (
            r#"{"class_name": "DiscreteGaussianDpEvent", "sigma": 0.5}"#,
            Event::DiscreteGaussian { sigma: 0.5, sensitivity: 1.0, dimension: None },
        ),
        (
            r#"{"class_name": "DiscreteGaussianDpEvent", "sigma": 2, "sensitivity": 3, "dimension": 4}"#,
            Event::DiscreteGaussian { sigma: 2.0, sensitivity: 3.0, dimension: Some(4) },
        ),
        (r#"{"class_name": "PermuteAndFlipDpEvent", "epsilon": 1.0}"#, Event::PermuteAndFlip { epsilon: 1.0 }),
        (
            r#"{"class_name": "EpsilonDeltaDpEvent", "epsilon": 1.0, "delta": 0.1}"#,
            Event::EpsilonDelta { epsilon: 1.0, delta: 0.1 },
        ),
        (
            r#"{"class_name": "ExponentialMechanismDpEvent", "epsilon": 1.0}"#,
            Event::ExponentialMechanism { epsilon: 1.0 },
        ),
    ] {
        assert_eq!(Event::from_json(text).unwrap(), event);
        let theirs = text.replacen('{', r#"{"module_name": "dp_accounting.dp_event", "#, 1);
        assert_eq!(Event::from_json(&theirs).unwrap(), event);
        assert_eq!(Event::from_json(&event.to_json().unwrap()).unwrap(), event);
        let before = text.replacen('{', r#"{"module_name": "dpopt.event", "#, 1);
        let was_ours = matches!(event, Event::ExponentialMechanism { .. });
        assert_eq!(Event::from_json(&before).is_ok(), was_ours, "{text}");
    }
    let wrong = r#"{"class_name": "DiscreteGaussianDpEvent", "sigma": 2, "dimension": 1.5}"#;
    assert!(Event::from_json(wrong).unwrap_err().to_string().contains("non-negative integer or null"));
}

#[test]
fn nothing_is_guessed() {
    for (text, complaint) in [
        (r#"{}"#, "no field `class_name`"),
        (r#"[]"#, "an event is an object"),
        (r#"{"class_name": "GaussDpEvent"}"#, "unknown class `GaussDpEvent`"),
        (r#"{"class_name": "GaussianDpEvent"}"#, "GaussianDpEvent has no field `noise_multiplier`"),
        (r#"{"class_name": "GaussianDpEvent", "noise_multiplier": "1"}"#, "must be a finite number"),
        (r#"{"class_name": "GaussianDpEvent", "noise_multiplier": NaN}"#, "expected value"),
        (r#"{"class_name": "GaussianDpEvent", "noise_multiplier": 1e999}"#, "out of range"),
        (r#"{"class_name": "GaussianDpEvent", "noise_multiplier": 1, "noise_multiplier": 2}"#, "appears twice"),
        (r#"{"class_name": "GaussianDpEvent", "noise_multiplier": 1, "seed": 2}"#, "has no field `seed`"),
        (r#"{"class_name": "GdpDpEvent", "module_name": "dp_accounting.dp_event", "mu": 1}"#, "module_name"),
        (
            r#"{"class_name": "SelfComposedDpEvent", "count": 2.5, "event": {"class_name": "NoOpDpEvent"}}"#,
            "must be a non-negative integer",
        ),
        (
            r#"{"class_name": "SelfComposedDpEvent", "count": -2, "event": {"class_name": "NoOpDpEvent"}}"#,
            "must be a non-negative integer",
        ),
        (
            r#"{"class_name": "ObjectivePerturbationDpEvent", "noise_multiplier": 1, "regularization": 1,
                "link": "monotone", "classes": 3}"#,
            "has no field `classes`",
        ),
    ] {
        let error = Event::from_json(text).unwrap_err().to_string();
        assert!(error.contains(complaint), "{text}: {error}");
    }
    assert!(Event::gaussian(f64::NAN).to_json().is_err());
    let bomb = r#"{"class_name":"SelfComposedDpEvent","event":"#.repeat(100_000);
    assert!(Event::from_json(&bomb).is_err());
}

#[test]
fn formulas_are_short() {
    let step = Event::gaussian(7.571234567).poisson_sampled(0.1);
    assert_eq!(step.clone().self_composed(400).to_string(), "400 × Poisson(0.1, Gaussian(7.57123))");
    let both = Event::composed(vec![step, Event::laplace(1e-9)]);
    assert_eq!(both.self_composed(2).to_string(), "2 × (Poisson(0.1, Gaussian(7.57123)) + Laplace(1e-9))");
    assert_eq!(Event::composed(vec![]).to_string(), "NoOp");
}

#[test]
fn fingerprints_see_structure_and_bits() {
    let flat = Event::composed(vec![Event::gaussian(1.0), Event::gaussian(2.0), Event::gaussian(3.0)]);
    let nested =
        Event::composed(vec![Event::gaussian(1.0), Event::composed(vec![Event::gaussian(2.0), Event::gaussian(3.0)])]);
    assert_ne!(flat.fingerprint(), nested.fingerprint());
    assert_eq!(Event::Gdp { mu: 0.0 }.fingerprint(), Event::Gdp { mu: -0.0 }.fingerprint());
}

/// `json/dp_accounting.json` is what Python writes (docs/accounting.md) for one event of each class of dp_accounting 0.6.
#[test]
fn every_class_of_dp_accounting_is_understood() {
    let text = include_str!("json/dp_accounting.json");
    let event = Event::from_json(text).unwrap();
    let Event::Composed { events } = &event else { panic!("{event}") };
    assert_eq!(events.len(), 13);
    assert_eq!(events[0], Event::gaussian(1.1).poisson_sampled(0.01).self_composed(1000));
    assert_eq!(events[1], Event::laplace(2.0));
    assert_eq!(Event::from_json(&event.to_json().unwrap()).unwrap(), event);
    // the same tree of fields, apart from 2 and 2.0
    let mine: serde_json::Value = serde_json::from_str(&event.to_json().unwrap()).unwrap();
    let theirs: serde_json::Value = serde_json::from_str(text).unwrap();
    fn equal(a: &serde_json::Value, b: &serde_json::Value) -> bool {
        match (a, b) {
            (serde_json::Value::Object(x), serde_json::Value::Object(y)) => {
                x.len() == y.len() && x.iter().all(|(k, v)| y.get(k).is_some_and(|w| equal(v, w)))
            }
            (serde_json::Value::Array(x), serde_json::Value::Array(y)) => {
                x.len() == y.len() && x.iter().zip(y).all(|(v, w)| equal(v, w))
            }
            (a, b) => a == b || a.as_f64().is_some_and(|x| b.as_f64() == Some(x)),
        }
    }
    assert!(equal(&mine, &theirs), "{mine} against {theirs}");
}
