//! Independent accountants on the same random events: what one proves is attained, no other may undercut.

use dpopt_privacy::accountant::{Accountant, AccountingError, Bound, all};
use dpopt_privacy::{Event, Relation};
use proptest::prelude::*;

fn leaf() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => (0.5f64..20.0).prop_map(Event::gaussian),
        2 => (1.0f64..50.0).prop_map(Event::laplace),
        1 => (0.02f64..1.0, 1u64..4)
            .prop_map(|(noise_parameter, sensitivity)| Event::DiscreteLaplace { noise_parameter, sensitivity }),
        1 => (0.3f64..0.99, 2u64..6)
            .prop_map(|(noise_parameter, num_buckets)| Event::RandomizedResponse { noise_parameter, num_buckets }),
        1 => (0.01f64..1.0).prop_map(|epsilon| Event::PureStream { epsilon }),
        1 => (0.01f64..1.0).prop_map(|mu| Event::Gdp { mu }),
        1 => (0.01f64..1.0).prop_map(|epsilon| Event::PermuteAndFlip { epsilon }),
        1 => (0.5f64..20.0, 1.0f64..3.0, prop::option::of(1u64..3))
            .prop_map(|(sigma, sensitivity, dimension)| Event::DiscreteGaussian { sigma, sensitivity, dimension }),
        1 => (0.01f64..0.5, 1e-9f64..1e-7).prop_map(|(epsilon, delta)| Event::EpsilonDelta { epsilon, delta }),
        1 => (0.01f64..0.5, 1e-9f64..1e-7).prop_map(|(epsilon, delta)| Event::ApproxDp { epsilon, delta }),
    ]
}

fn step() -> impl Strategy<Value = Event> {
    prop_oneof![
        leaf(),
        (leaf(), 0.001f64..0.5).prop_map(|(e, q)| e.poisson_sampled(q)),
        (leaf(), 1u64..500).prop_map(|(e, m)| e.sampled_without_replacement(1000, m)),
        (leaf(), leaf()).prop_map(|(a, b)| Event::Parallel { blocks: vec![a, b] }),
        (leaf(), 2u64..4).prop_map(|(e, k)| Event::UserUnit { records_per_user: k, event: Box::new(e) }),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    prop::collection::vec((step(), 1u64..60), 1..4)
        .prop_map(|parts| Event::composed(parts.into_iter().map(|(e, n)| e.self_composed(n)).collect()))
}

/// Every bound at or above every lower bound, up to rounding; asked before the gate, which refuses what does not fit.
fn compatible(
    event: &Event,
    what: &str,
    ask: impl Fn(&dyn Accountant) -> Result<Bound, AccountingError>,
) -> Result<usize, TestCaseError> {
    let bounds: Vec<Bound> = all().iter().filter_map(|a| ask(*a).ok()).collect();
    for attained in &bounds {
        let Some(lower) = attained.lower else { continue };
        for bound in &bounds {
            prop_assert!(
                bound.upper >= lower * (1.0 - 1e-8) - 1e-12,
                "{what} of {event}: {} proves {} where {} shows {lower} to be attained",
                bound.accountant,
                bound.upper,
                attained.accountant
            );
        }
    }
    Ok(bounds.len())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 64, ..ProptestConfig::default() })]
    #[test]
    fn nobody_undercuts_what_is_attained(event in event(), relation in 0usize..3, log_delta in -9.0f64..-2.0) {
        let relation = [Relation::ZeroOut, Relation::AddOrRemove, Relation::ReplaceOne][relation];
        let delta = 10f64.powf(log_delta);
        compatible(&event, "epsilon", |a| a.claim_epsilon(&event, relation, delta))?;
        compatible(&event, "delta", |a| a.claim_delta(&event, relation, 1.0))?;
    }

    /// `supports` and the answers agree: who supports an event never says that it does not.
    #[test]
    fn support_is_honest(event in event(), relation in 0usize..3) {
        let relation = [Relation::ZeroOut, Relation::AddOrRemove, Relation::ReplaceOne][relation];
        for accountant in all() {
            let supported = accountant.supports(&event, relation).is_ok();
            let answer = accountant.delta(&event, relation, 1.0);
            let refused = matches!(answer, Err(AccountingError::Unsupported { .. } | AccountingError::Parameter(_)));
            prop_assert_eq!(supported, !refused, "{}: {} {:?}", accountant.name(), event, answer);
        }
    }
}

#[test]
fn several_accountants_see_the_same_event() {
    let event = Event::laplace(20.0).self_composed(100);
    let names: Vec<&str> =
        all().iter().filter(|a| a.supports(&event, Relation::ZeroOut).is_ok()).map(|a| a.name()).collect();
    assert_eq!(names, ["pure", "zcdp", "pld", "rdp"]);
}
