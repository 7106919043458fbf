//! Discrete Gaussian noise, permute-and-flip and stated (ε, δ) under every accountant.

use super::{Accountant, all, gdp, pld::Pld, pure::PureAccountant, rdp, zcdp};
use dpopt_event::{Event, Relation};
use proptest::prelude::*;

fn integer_noise(sigma: f64, sensitivity: f64) -> Event {
    Event::DiscreteGaussian { sigma, sensitivity, dimension: Some(1) }
}

fn lattice(event: &Event, relation: Relation, delta: f64) -> super::Bound {
    Pld::default().bracket(event, relation, delta).unwrap()
}

/// σ, shift, releases, δ, ε in 50 digits (crosscheck/truth.py).
const INTEGER_NOISE: [(f64, f64, u64, f64, f64); 6] = [
    (1.0, 1.0, 1, 1e-6, 4.499590982194307),
    (1.5, 1.0, 10, 1e-6, 11.738413238219977),
    (0.6, 2.0, 5, 1e-8, 66.65378873821076),
    (8.0, 3.0, 12, 1e-10, 8.746227017340974),
    (4.0, 1.0, 12, 1e-5, 3.7092164604668367),
    (0.4, 1.0, 3, 1e-9, 34.31370456046387),
];

#[test]
fn integer_noise_composes_exactly() {
    for (sigma, shift, count, delta, exact) in INTEGER_NOISE {
        let bound = lattice(&integer_noise(sigma, shift).self_composed(count), Relation::ZeroOut, delta);
        assert!(bound.upper >= exact * (1.0 - 1e-14) && bound.upper < exact * (1.0 + 1e-6), "{bound:?} {exact}");
        let lower = bound.lower.unwrap();
        assert!(lower <= exact * (1.0 + 1e-14) && lower > exact * (1.0 - 1e-3), "{bound:?} {exact}");
        if shift % 2.0 == 0.0 {
            // replacing a record is twice the shift
            let half = integer_noise(sigma, shift / 2.0).self_composed(count);
            assert_eq!(lattice(&half, Relation::ReplaceOne, delta).upper, bound.upper);
        }
    }
}

/// Integers cost about what real numbers cost, never more than the concentrated bound; several sums a little more than one.
#[test]
fn integer_noise_is_as_good_as_the_gaussian() {
    for (sigma, delta) in [(2.0, 1e-6), (30.0, 1e-9), (1e4, 1e-6), (1e6, 1e-9)] {
        let (real, integer) = (Event::gaussian(sigma).self_composed(50), integer_noise(sigma, 1.0).self_composed(50));
        let exact = gdp::GdpAccountant.epsilon(&real, Relation::ZeroOut, delta).unwrap().upper;
        let got = lattice(&integer, Relation::ZeroOut, delta).upper;
        assert!((got / exact - 1.0).abs() < 2e-2, "{sigma}: {got} {exact}");
        let loose = zcdp::ZcdpAccountant.epsilon(&integer, Relation::ZeroOut, delta).unwrap().upper;
        assert!(got < loose, "{sigma}: {got} {loose}");
    }
    let several = Event::DiscreteGaussian { sigma: 3.0, sensitivity: 2.0, dimension: None };
    let one = lattice(&integer_noise(3.0, 2.0), Relation::ZeroOut, 1e-6).upper;
    let many = lattice(&several, Relation::ZeroOut, 1e-6).upper;
    assert!(many >= one && many < 1.05 * one, "{many} {one}");
    assert!(gdp::mu(&several, Relation::ZeroOut).is_err());
    assert!(PureAccountant.supports(&several, Relation::ZeroOut).is_err());
}

#[test]
fn permute_and_flip_costs_what_laplace_noise_costs() {
    for (epsilon, count, delta, exact) in [(0.25, 8, 1e-6, 1.9997440982341563), (0.1, 20, 1e-5, 1.5922295030275515)] {
        let event = Event::PermuteAndFlip { epsilon }.self_composed(count);
        let got = lattice(&event, Relation::ZeroOut, delta).upper;
        assert!(got >= exact * (1.0 - 1e-14) && got < exact * (1.0 + 1e-6), "{got} {exact}");
        assert!(got <= PureAccountant.epsilon(&event, Relation::ZeroOut, delta).unwrap().upper * (1.0 + 1e-9));
    }
    let one = Event::PermuteAndFlip { epsilon: 0.7 };
    for relation in [Relation::ZeroOut, Relation::AddOrRemove, Relation::ReplaceOne] {
        assert_eq!(PureAccountant.epsilon(&one, relation, 0.0).unwrap().upper, 0.7);
        let sampled = one.clone().poisson_sampled(0.01);
        assert!(lattice(&sampled, relation, 1e-9).upper <= (1.0 + 0.01 * 0.7f64.exp_m1()).ln() * (1.0 + 1e-9));
    }
}

#[test]
fn a_stated_pair_is_the_canonical_one() {
    let (epsilon, delta) = (0.3, 1e-7);
    let (stated, stream) = (Event::EpsilonDelta { epsilon, delta }, Event::ApproxDp { epsilon, delta });
    for event in [|e: Event| e, |e: Event| e.self_composed(30), |e: Event| e.poisson_sampled(0.1).self_composed(9)] {
        for accountant in all() {
            let ask = |e: Event| accountant.epsilon(&event(e), Relation::ZeroOut, 1e-5);
            match (ask(stated.clone()), ask(stream.clone())) {
                (Ok(a), Ok(b)) => assert_eq!(a.upper, b.upper),
                (Err(_), Err(_)) => {}
                (a, b) => panic!("{}: {a:?} {b:?}", accountant.name()),
            }
        }
    }
    assert_eq!(PureAccountant.epsilon(&stated, Relation::ZeroOut, 1e-7).unwrap().upper, epsilon);
    assert!(PureAccountant.epsilon(&stated, Relation::ZeroOut, 0.9e-7).is_err());
}

/// Under replace-one a stated pair says nothing of an absent record: Poisson sampling does not lower its ε.
#[test]
fn what_is_stated_for_replacements_is_not_amplified_by_poisson_sampling() {
    for event in [
        Event::EpsilonDelta { epsilon: 1.0, delta: 0.0 },
        Event::PureStream { epsilon: 1.0 },
        Event::Gdp { mu: 1.0 },
        Event::PrivacyProfile { epsilons: vec![1.0], deltas: vec![0.0] },
    ] {
        let sampled = event.poisson_sampled(0.01);
        for accountant in all() {
            match accountant.epsilon(&sampled, Relation::ReplaceOne, 1e-9) {
                // the last part goes to δ
                Ok(bound) => assert!(bound.upper > 1.0 - 1e-6, "{}: {bound:?}", accountant.name()),
                Err(e) => assert!(e.to_string().contains("not support"), "{e}"),
            }
        }
    }
}

/// Probabilities of permute-and-flip: candidates are drawn in a random order and accepted with probability e^(score − best).
fn chosen(scores: &[f64]) -> Vec<f64> {
    let best = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut reached = vec![0.0; 1 << scores.len()];
    let last = reached.len() - 1;
    reached[last] = 1.0;
    let mut out = vec![0.0; scores.len()];
    for left in (1..=last).rev() {
        let share = reached[left] / left.count_ones() as f64;
        for (i, score) in scores.iter().enumerate().filter(|(i, _)| left >> i & 1 == 1) {
            let accepted = (score - best).exp();
            out[i] += share * accepted;
            reached[left & !(1 << i)] += share * (1.0 - accepted);
        }
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Scores (times ε/2Δ) that move by at most ε/2: Laplace noise of scale 1/ε is at least as distinguishable.
    #[test]
    fn permute_and_flip_is_dominated_by_laplace_noise(
        scores in prop::collection::vec((-4.0f64..4.0, -0.5f64..0.5), 2..6), epsilon in 0.01f64..5.0, at in -1.0f64..1.0,
    ) {
        let without: Vec<f64> = scores.iter().map(|s| s.0).collect();
        let with: Vec<f64> = scores.iter().map(|s| s.0 + epsilon * s.1).collect();
        let (p, q) = (chosen(&with), chosen(&without));
        prop_assert!((p.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        let ln_gamma = at * epsilon;
        let attained: f64 = p.iter().zip(&q).map(|(p, q)| (p - ln_gamma.exp() * q).max(0.0)).sum();
        prop_assert!(attained <= -(0.5 * (ln_gamma - epsilon)).exp_m1() + 1e-12);
        // two candidates attain it: the second is chosen with e^(score − best)/2, the tail of Laplace noise
        let gap = 0.5 * (ln_gamma - epsilon).abs().min(epsilon + ln_gamma);
        if ln_gamma >= 0.0 {
            let (p, q) = (chosen(&[0.0, gap]), chosen(&[0.0, gap + epsilon]));
            prop_assert!(p[0] <= epsilon.exp() * q[0] * (1.0 + 1e-12) && p[1] <= epsilon.exp() * q[1]);
        }
    }

    /// Kullback–Leibler divergences are concentrated costs: D_α ≤ α·KL for Laplace noise and for randomized response.
    #[test]
    fn concentrated_costs_bound_every_order(epsilon in 1e-3f64..20.0, order in 1.0001f64..200.0) {
        for event in [
            Event::laplace(1.0 / epsilon),
            Event::PermuteAndFlip { epsilon },
            Event::PureStream { epsilon },
            integer_noise(1.0 / epsilon, 2.0),
        ] {
            let cost = zcdp::cost(&event, Relation::ZeroOut).unwrap();
            let renyi = rdp::cost(&event, Relation::ZeroOut, order).unwrap().divergence;
            prop_assert!(renyi <= order * cost.rho * (1.0 + 1e-9), "{event} at {order}: {renyi} {cost:?}");
            let near_one = rdp::cost(&event, Relation::ZeroOut, 1.0 + 1e-4).unwrap().divergence;
            prop_assert!(near_one > 0.9 * cost.rho || event == integer_noise(1.0 / epsilon, 2.0), "{event}");
        }
    }

    /// The pair of integer noise and its Rényi moments, sampled or not, are of one mechanism.
    #[test]
    fn rdp_of_integer_noise_is_never_below_the_lattice(
        sigma in 0.3f64..12.0, shift in 1u32..4, q in 0.005f64..0.5, count in 1u64..40, log_delta in -10.0f64..-2.0,
    ) {
        let delta = 10f64.powf(log_delta);
        for relation in [Relation::ZeroOut, Relation::ReplaceOne] {
            let one = integer_noise(sigma, f64::from(shift));
            for event in [one.clone().self_composed(count), one.clone().poisson_sampled(q).self_composed(count)] {
                let attained = lattice(&event, relation, delta);
                let renyi = rdp::RdpAccountant.epsilon(&event, relation, delta).unwrap().upper;
                // where nothing is attained above 0, there is no lower bound
                prop_assert!(renyi >= attained.lower.unwrap_or(0.0) * (1.0 - 1e-9), "{event}: {renyi} {attained:?}");
            }
        }
    }
}

/// The truncated tails are charged, not dropped: at δ below them an ε exists still, and it grows.
#[test]
fn integer_noise_at_tiny_delta() {
    let mut last = 0.0;
    for delta in [1e-10, 1e-30, 1e-100, 1e-250] {
        let bound =
            Pld::default().epsilon(&integer_noise(5.0, 1.0).self_composed(3), Relation::ZeroOut, delta).unwrap();
        let real =
            gdp::GdpAccountant.epsilon(&Event::gaussian(5.0).self_composed(3), Relation::ZeroOut, delta).unwrap();
        assert!(bound.upper > last && (bound.upper / real.upper - 1.0).abs() < 0.02, "{delta:e}: {bound:?} {real:?}");
        last = bound.upper;
    }
}
