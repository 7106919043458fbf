//! Groups of records (docs/proofs/accounting-groups.md): bounds for k records against mechanisms whose groups are known exactly.

use dpopt_privacy::accountant::{self, Accountant, pld::Quality};
use dpopt_privacy::event::GlmLink;
use dpopt_privacy::{Event, Relation};
use proptest::prelude::*;

fn epsilon(event: &Event, relation: Relation, delta: f64) -> f64 {
    accountant::epsilon_at(event, relation, delta, Quality::BRACKET).map_or(f64::INFINITY, |bound| bound.upper)
}

fn objective(noise_multiplier: f64, regularization: f64) -> Event {
    Event::ObjectivePerturbation { noise_multiplier, regularization, link: GlmLink::Monotone }
}

/// One of each kind whose groups were not accounted, or not well.
fn kinds() -> Vec<Event> {
    vec![
        Event::ExponentialMechanism { epsilon: 0.1 }.self_composed(10),
        Event::PermuteAndFlip { epsilon: 0.2 },
        Event::PureStream { epsilon: 0.05 }.self_composed(4),
        Event::DiscreteLaplace { noise_parameter: 0.05, sensitivity: 2 },
        Event::EpsilonDelta { epsilon: 0.1, delta: 1e-9 },
        Event::RandomizedResponse { noise_parameter: 0.9, num_buckets: 3 },
        Event::Composed { events: vec![objective(30.0, 2.0), Event::gaussian(1000.0)] },
        Event::Composed { events: vec![Event::ExponentialMechanism { epsilon: 0.1 }, Event::gaussian(20.0)] },
        Event::laplace(20.0).poisson_sampled(0.1).self_composed(3),
        Event::ChiSquareGaussian { degrees_of_freedom: 50, mu: 0.05 },
    ]
}

#[test]
fn a_group_of_one_is_a_record() {
    for event in kinds() {
        let one = Event::UserUnit { records_per_user: 1, event: Box::new(event.clone()) };
        for (a, b) in accountant::compare(&one, Relation::ZeroOut, 1e-6).into_iter().zip(accountant::compare(
            &event,
            Relation::ZeroOut,
            1e-6,
        )) {
            assert_eq!(a.0, b.0);
            assert_eq!(a.1.map(|bound| bound.upper).ok(), b.1.map(|bound| bound.upper).ok(), "{event} by {}", a.0);
        }
    }
}

#[test]
fn larger_groups_cost_more_and_all_of_them_something_finite() {
    for event in kinds() {
        for relation in [Relation::ZeroOut, Relation::ReplaceOne].into_iter().filter(|r| event.check(*r).is_ok()) {
            let mut before = 0.0;
            for k in [1, 2, 8] {
                let now = epsilon(&event.clone().for_users_of(k), relation, 1e-6);
                // a bound is within a thousandth of what it would be on a finer grid
                assert!(now >= before * 0.999, "{event}, {k} records under {relation}: {now} after {before}");
                assert!(now.is_finite(), "{event}, {k} records under {relation}");
                before = now;
            }
        }
    }
}

/// What moves a score by so much more is the same choice at so much more.
#[test]
fn groups_of_choices_and_laplace_noise_are_of_their_kind() {
    for (one, three) in [
        (Event::ExponentialMechanism { epsilon: 0.2 }, Event::ExponentialMechanism { epsilon: 0.6 }),
        (Event::PermuteAndFlip { epsilon: 0.2 }, Event::PermuteAndFlip { epsilon: 0.6 }),
        (Event::laplace(3.0), Event::laplace(1.0)),
        (
            Event::DiscreteLaplace { noise_parameter: 0.1, sensitivity: 2 },
            Event::DiscreteLaplace { noise_parameter: 0.1, sensitivity: 6 },
        ),
    ] {
        for delta in [0.0, 1e-9, 1e-3] {
            let (a, b) = (one.clone().self_composed(20).for_users_of(3), three.clone().self_composed(20));
            let (a, b) = (epsilon(&a, Relation::ZeroOut, delta), epsilon(&b, Relation::ZeroOut, delta));
            assert!((a / b - 1.0).abs() < 1e-9, "{one} at {delta}: {a} {b}");
        }
    }
    // no worse than what was there: k²·ε²/8 of concentrated privacy, 7.30642 at δ = 1e-6
    let choices = Event::ExponentialMechanism { epsilon: 0.2 }.self_composed(20).for_users_of(3);
    assert!(epsilon(&choices, Relation::ZeroOut, 1e-6) < 7.3065);
}

/// A loss that is linear in the score has no curvature: its minimiser is a Gaussian, and so is that of a group.
#[test]
fn groups_of_objective_perturbation_are_not_below_the_gaussian_that_is_one() {
    for relation in [Relation::ZeroOut, Relation::ReplaceOne] {
        for (sigma, lambda) in [(5.0, 4.0), (20.0, 0.5), (100.0, 1.0)] {
            for k in [1, 2, 8] {
                let group = objective(sigma, lambda).for_users_of(k);
                let known = Event::gaussian(sigma).for_users_of(k);
                for delta in [1e-3, 1e-9] {
                    let known = epsilon(&known, relation, delta);
                    let tightest = epsilon(&group, relation, delta);
                    assert!(tightest >= known * (1.0 - 1e-9), "{k} at {sigma}, {lambda}: {tightest} of {known}");
                    assert!(k > 8 || tightest.is_finite(), "{k} records at {sigma}, {lambda}, {delta}");
                }
            }
        }
    }
    // 8 records, as planned for 1: refused before
    let event = Event::composed(vec![objective(32.0, 4.0), Event::gaussian(4000.0)]).for_users_of(8);
    let (bound, known) =
        (epsilon(&event, Relation::ZeroOut, 1e-5), epsilon(&Event::gaussian(4.0), Relation::ZeroOut, 1e-5));
    assert!(bound > known && bound < 1.3 * known, "{bound} {known}");
}

/// δ of (P, Q) at ε.
fn hockey_stick(p: &[f64], q: &[f64], epsilon: f64) -> f64 {
    p.iter().zip(q).map(|(p, q)| (p - epsilon.exp() * q).max(0.0)).sum()
}

/// Points of ε at which the steps' profile is stated.
const POINTS: [f64; 12] = [0.0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8, 1.2];

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]
    /// Brute force: any chain of distributions. What is stated of its steps bounds its two ends, at every ε.
    #[test]
    fn the_ends_of_a_chain_are_within_the_bound_of_a_group(
        weights in prop::collection::vec(prop::collection::vec(-1.0f64..1.0, 5), 2..6),
        step in 0.02f64..0.4,
        leak in prop_oneof![Just(0.0), 1e-9f64..1e-3],
    ) {
        // random steps of the logarithms, and outcomes of small mass that only one of the laws has
        let laws: Vec<Vec<f64>> = weights.iter().enumerate().map(|(i, _)| {
            let logs = (0..5).map(|j| weights[..=i].iter().map(|w| step * w[j]).sum::<f64>());
            let masses: Vec<f64> = logs.map(f64::exp).collect();
            let total: f64 = masses.iter().sum();
            let own = (0..weights.len()).map(|other| if other == i { leak } else { 0.0 });
            masses.iter().map(|m| (1.0 - leak) * m / total).chain(own).collect()
        }).collect();
        let k = laws.len() as u64 - 1;
        let steps = |epsilon: f64| {
            let pairs = laws.windows(2).flat_map(|w| [(&w[0], &w[1]), (&w[1], &w[0])]);
            pairs.map(|(p, q)| hockey_stick(p, q, epsilon)).fold(0.0, f64::max)
        };
        let deltas: Vec<f64> = POINTS.iter().map(|e| (steps(*e) + 1e-15).min(1.0)).collect();
        let stated = Event::PrivacyProfile { epsilons: POINTS.to_vec(), deltas: deltas.clone() };
        let ends = |epsilon: f64| {
            let (first, last) = (&laws[0], &laws[k as usize]);
            hockey_stick(first, last, epsilon).max(hockey_stick(last, first, epsilon))
        };
        let group = stated.for_users_of(k);
        // a pure chain of its largest step, too
        let worst = laws.windows(2).flat_map(|w| (0..5).map(move |j| (w[0][j] / w[1][j]).ln().abs())).fold(0.0, f64::max);
        let pure = (leak == 0.0).then(|| Event::PureStream { epsilon: worst * (1.0 + 1e-12) }.for_users_of(k));
        for at in [0.0, 0.05, 0.3, 0.7, 1.5, 3.0] {
            for event in [Some(&group), pure.as_ref()].into_iter().flatten() {
                for accountant in accountant::all() {
                    if let Ok(bound) = accountant.delta(event, Relation::ZeroOut, at) {
                        let name = accountant.name();
                        prop_assert!(bound.upper >= ends(at) - 1e-12, "{name} of {event} at {at}: {} {}", bound.upper, ends(at));
                    }
                }
            }
        }
    }
}

/// P(S) ≤ min(e^ε·Q(S), 1 − e^−ε·(1 − Q(S))) at each step: the k-fold of that, level by level, against the bound for the group.
#[test]
fn groups_of_pure_mechanisms_have_the_curve_of_their_steps() {
    for (k, e) in [(2u64, 0.3f64), (3, 0.7), (8, 0.1), (50, 0.02)] {
        let group = Event::PureStream { epsilon: e }.for_users_of(k);
        let power = |level: f64| (0..k).fold(level, |x, _| (e.exp() * x).min(1.0 - (-e).exp() * (1.0 - x)));
        for share in [0.0, 0.2, 0.5, 0.9, 0.99] {
            let at = share * k as f64 * e;
            // the largest power − e^E·level, at one of the kinks
            let kinks = (0..=k).map(|j| (-(j as f64) * e).exp() / (1.0 + e.exp()));
            let attained = kinks.map(|x| power(x) - at.exp() * x).fold(0.0, f64::max);
            let bound = accountant::pld::Pld::default().delta(&group, Relation::ZeroOut, at).unwrap().upper;
            assert!(
                bound >= attained * (1.0 - 1e-12) && bound < attained * (1.0 + 1e-9) + 1e-13,
                "{k} {e} {at}: {bound} {attained}"
            );
        }
        let pure = accountant::epsilon(&group, Relation::ZeroOut, 0.0).unwrap().upper;
        assert!((pure / (k as f64 * e) - 1.0).abs() < 1e-12 && pure >= k as f64 * e);
        // no mechanism but one with the group's own ε reaches more than this: randomized response with kε
        let coin = accountant::delta(&Event::PureStream { epsilon: k as f64 * e }, Relation::ZeroOut, 0.5 * e).unwrap();
        assert!(accountant::delta(&group, Relation::ZeroOut, 0.5 * e).unwrap().upper < coin.upper);
    }
}
