//! Whole events under the Rényi accountant.

use super::*;

fn divergence(event: &Event, relation: Relation, order: f64) -> f64 {
    cost(event, relation, order).unwrap().divergence
}

#[test]
fn relations_of_one_event() {
    let step = Event::gaussian(1.0).poisson_sampled(0.01);
    assert!((divergence(&step, Relation::ZeroOut, 2.0) / 1.718134220745e-4 - 1.0).abs() < 1e-9);
    assert!((divergence(&step, Relation::ReplaceOne, 2.0) / 4.57554382538e-4 - 1.0).abs() < 1e-9);
    // noise multiplier per record; the sampled slot is refilled, so the pair has shift 2
    let fixed = Event::gaussian(4.0).sampled_without_replacement(100, 1);
    for relation in [Relation::ZeroOut, Relation::ReplaceOne] {
        assert!((divergence(&fixed, relation, 2.0) / 3.907912468e-5 - 1.0).abs() < 1e-8);
    }
    assert!(cost(&fixed, Relation::AddOrRemove, 2.0).is_err());
    // a stated μ is for the relation it is accounted for; refilling doubles it under zero-out only
    let stated = Event::Gdp { mu: 0.25 }.sampled_without_replacement(100, 1);
    let (out, replaced) = (divergence(&stated, Relation::ZeroOut, 2.0), divergence(&stated, Relation::ReplaceOne, 2.0));
    assert!((out / 3.907912468e-5 - 1.0).abs() < 1e-8 && replaced < 0.3 * out);
}

#[test]
fn choices_cost_what_their_bounded_range_costs() {
    let choice = |epsilon: f64| Event::ExponentialMechanism { epsilon };
    // the curve of bounded range (Dong, Durfee, Rogers 2020), and where the pure bound takes over
    for (order, epsilon, exact) in [
        (2.0, 1.0, 0.24022901),
        (8.0, 1.0, 0.6354594),
        (64.0, 1.0, 0.92551818),
        (8.0, 4.0, 3.5720463),
        (1.5, 0.1, 0.0018745444),
    ] {
        for relation in [Relation::ZeroOut, Relation::ReplaceOne, Relation::AddOrRemove] {
            let computed = divergence(&choice(epsilon), relation, order);
            assert!((computed / exact - 1.0).abs() < 1e-7, "{order} {epsilon}: {computed}");
        }
    }
    for (order, epsilon) in [(2.0, 1e-7), (1.0001, 1e-3), (1e9, 1e-6), (3.0, 800.0), (1e12, 30.0), (1.001, 1e3)] {
        let computed = divergence(&choice(epsilon), Relation::ZeroOut, order);
        let limit = epsilon.min(order * epsilon * epsilon / 8.0);
        // the largest of a grid of two-point pairs is a lower bound
        let pairs = (1..200).map(|i| f64::from(i) / 200.0 * epsilon).map(|t| {
            let ln_p = -t + (-(t - epsilon).exp_m1()).ln() - (-(-epsilon).exp_m1()).ln();
            let rest = (-ln_p.exp()).ln_1p();
            dpopt_event::special::log_add_exp(ln_p + order * t, rest + order * (t - epsilon)) / (order - 1.0)
        });
        let most = pairs.fold(0.0, f64::max);
        // the grid's own rounding: a few ulps of 1 and of the exponents, over α − 1
        let rounding = 1e-15 * (1.0 + order * epsilon) / (order - 1.0);
        assert!(
            computed <= limit * 1.000001 && computed >= most - rounding,
            "{order} {epsilon}: {computed} {most} {limit}"
        );
        assert!(computed > 0.2 * limit, "{order} {epsilon}: {computed} of {limit}");
    }
    // ε at δ = 1e-6 by this curve, and what a choice may cost in 400 steps of Frank–Wolfe
    for (count, epsilon, total) in
        [(10, 0.5, 3.632), (100, 0.1, 2.400), (100, 0.3, 8.224), (1000, 0.05, 4.007), (400, 0.0221054, 1.0009)]
    {
        let bound =
            RdpAccountant.epsilon(&choice(epsilon).self_composed(count), Relation::ZeroOut, 1e-6).unwrap().upper;
        assert!((bound / total - 1.0).abs() < 1e-3, "{count} {epsilon}: {bound}");
    }
}

#[test]
fn composition_is_additive() {
    let step = Event::gaussian(1.0).poisson_sampled(0.01);
    let event = Event::composed(vec![step.clone().self_composed(1000), Event::laplace(10.0)]);
    let sum =
        1000.0 * divergence(&step, Relation::ZeroOut, 8.0) + divergence(&Event::laplace(10.0), Relation::ZeroOut, 8.0);
    assert!((divergence(&event, Relation::ZeroOut, 8.0) / sum - 1.0).abs() < 1e-12);
}

#[test]
fn upper_bounds_lie_above_the_truth() {
    // exact values by inversion of the moment generating function, both directions
    for (q, sigma, count, delta, truth) in [
        (0.01, 1.0, 1000, 1e-6, 2.12451517),
        (0.004, 0.8, 10000, 1e-6, 4.02843604),
        (0.2, 1.0, 10, 1e-5, 4.98421340),
        (0.5, 20.0, 5000, 1e-5, 8.60484680),
        (0.00033, 4.0, 10000, 1.13e-18, 0.06718545),
    ] {
        let event = Event::gaussian(sigma).poisson_sampled(q).self_composed(count);
        let bound = RdpAccountant.epsilon(&event, Relation::ZeroOut, delta).unwrap().upper;
        assert!(bound >= truth && bound < 2.5 * truth, "{bound} against {truth}");
    }
    // 100 Laplace mechanisms, b = 20
    let laplace = Event::laplace(20.0).self_composed(100);
    let bound = RdpAccountant.epsilon(&laplace, Relation::ZeroOut, 1e-6).unwrap().upper;
    assert!((2.19328088..2.4).contains(&bound), "{bound}");
}

#[test]
fn gaussian_value_is_the_concentrated_one() {
    let bound = RdpAccountant.epsilon(&Event::gaussian(1.0), Relation::ZeroOut, 1e-6).unwrap().upper;
    assert!((bound - 5.22153444453).abs() < 1e-7, "{bound}");
    let back = RdpAccountant.delta(&Event::gaussian(1.0), Relation::ZeroOut, bound).unwrap().upper;
    assert!((back / 1e-6 - 1.0).abs() < 1e-4);
    assert_eq!(RdpAccountant.epsilon(&Event::NoOp, Relation::ZeroOut, 1e-6).unwrap().upper, 0.0);
}

#[test]
fn sampled_pure_mechanisms() {
    // Laplace b = 1 sampled at q = .1, order 3: both directions by direct summation of the loss atoms
    let sampled = divergence(&Event::laplace(1.0).poisson_sampled(0.1), Relation::ZeroOut, 3.0);
    let reference = {
        let n = 400_000;
        let (low, high) = (-40.0, 41.0);
        let h = (high - low) / f64::from(n);
        let (mut forward, mut backward) = (0.0, 0.0);
        for i in 0..n {
            let x: f64 = low + (f64::from(i) + 0.5) * h;
            let q_density = 0.5 * (-x.abs()).exp();
            let ratio = 0.9 + 0.1 * (x.abs() - (x - 1.0).abs()).exp();
            forward += h * q_density * ratio.powi(3);
            backward += h * q_density * ratio.powi(-2);
        }
        forward.max(backward).ln() / 2.0
    };
    assert!((sampled / reference - 1.0).abs() < 1e-6, "{sampled} {reference}");
    // an arbitrary ε-DP base costs at least as much
    let stream = divergence(&Event::PureStream { epsilon: 1.0 }.poisson_sampled(0.1), Relation::ZeroOut, 3.0);
    assert!(stream > sampled);
    // and what is set aside of an (ε, δ) base stays set aside
    let approximate = Event::ApproxDp { epsilon: 1.0, delta: 1e-7 }.poisson_sampled(0.1).self_composed(3);
    let total = cost(&approximate, Relation::ZeroOut, 3.0).unwrap();
    assert!((total.delta - 3e-7).abs() < 1e-15 && (total.divergence / (3.0 * stream) - 1.0).abs() < 1e-12);
}

#[test]
fn users_and_blocks() {
    let four = |event: Event| Event::UserUnit { records_per_user: 4, event: Box::new(event) };
    let step = Event::gaussian(2.0).poisson_sampled(0.01);
    let user = divergence(&four(step.clone().self_composed(10)), Relation::ZeroOut, 8.0);
    let one = divergence(&step, Relation::ZeroOut, 8.0);
    // between one and sixteen times one record's (all records sampled together would be q and shift 4)
    let together = divergence(&Event::gaussian(0.5).poisson_sampled(0.01), Relation::ZeroOut, 8.0);
    assert!(user > 10.0 * 4.0 * one && user < 10.0 * together, "{user} {one} {together}");
    assert!((divergence(&four(Event::gaussian(4.0)), Relation::ZeroOut, 8.0) - 4.0).abs() < 1e-12);
    assert!(divergence(&four(Event::PureStream { epsilon: 0.1 }), Relation::ZeroOut, 8.0) < 0.4);
    let blocks = Event::Parallel { blocks: vec![Event::gaussian(2.0), Event::laplace(1.0)] };
    let most = divergence(&Event::gaussian(2.0), Relation::ZeroOut, 2.0).max(divergence(
        &Event::laplace(1.0),
        Relation::ZeroOut,
        2.0,
    ));
    assert_eq!(divergence(&blocks, Relation::ZeroOut, 2.0), up(most));
}

#[test]
fn sample_of_a_curve() {
    // replace-one ρ(α) = α/8 of a Gaussian with shift ½: generic bound and exact pair
    let stated = Event::Zcdp { rho: 0.125, xi: 0.0 }.sampled_without_replacement(100, 1);
    let known = Event::gaussian(4.0).sampled_without_replacement(100, 1);
    let (generic, exact) =
        (divergence(&stated, Relation::ReplaceOne, 2.0), divergence(&known, Relation::ReplaceOne, 2.0));
    assert!((generic / 1.136037135e-4 - 1.0).abs() < 1e-8 && generic > 2.9 * exact);
    // stated under zero-out, a replacement is two steps: four times ρ
    let quarter = Event::Zcdp { rho: 0.03125, xi: 0.0 }.sampled_without_replacement(100, 1);
    assert!((divergence(&quarter, Relation::ZeroOut, 2.0) / generic - 1.0).abs() < 1e-9);
}

#[test]
fn refusals_are_honest() {
    for event in [
        Event::NonPrivate,
        Event::Unsupported,
        Event::gaussian(0.0),
        // a δ of its own has no place in that proof; fewer than one run on average is no truncated law
        Event::RepeatAndSelect {
            event: Box::new(Event::ApproxDp { epsilon: 0.1, delta: 1e-9 }),
            mean: 2.0,
            shape: 1.0,
        },
        Event::RepeatAndSelect { event: Box::new(Event::gaussian(1.0)), mean: 0.5, shape: 1.0 },
        // stated for zero-out, and a curve does not say what a replacement costs
        Event::composed(vec![Event::gaussian(1.0), Event::Rdp { orders: vec![2.0], divergences: vec![0.1] }])
            .sampled_without_replacement(10, 1),
        // without a record nothing is stated
        Event::Rdp { orders: vec![2.0], divergences: vec![0.1] }.sampled_without_replacement(10, 1),
    ] {
        assert!(RdpAccountant.supports(&event, Relation::ZeroOut).is_err(), "{event}");
    }
    assert!(cost(&Event::gaussian(1.0), Relation::ZeroOut, 1.0).is_err());
    assert!(cost(&Event::gaussian(1.0), Relation::ZeroOut, f64::NAN).is_err());
    let curve = Event::Rdp { orders: vec![2.0, 8.0], divergences: vec![0.01, 0.05] };
    let bound = RdpAccountant.epsilon(&curve, Relation::ZeroOut, 1e-5).unwrap().upper;
    let at_8 = conversion::epsilon(8.0, 0.05, 1e-5);
    assert!((bound / at_8 - 1.0).abs() < 1e-9, "{bound} {at_8}");
}

/// What a list leaves after its last δ is no law by itself: the bound of the total variation is of the whole.
#[test]
fn a_list_with_much_set_aside_is_not_below_its_points() {
    let (epsilons, deltas) = (vec![0.0, 1.0, 2.0], vec![0.5, 0.3, 0.2]);
    let event = Event::PrivacyProfile { epsilons, deltas };
    for epsilon in [0.0, 1e-5, 0.5, 1.0] {
        let truth = crate::accountant::pld::Pld::default().delta(&event, Relation::ZeroOut, epsilon).unwrap().upper;
        let got = RdpAccountant.delta(&event, Relation::ZeroOut, epsilon).unwrap().upper;
        assert!(got >= truth * (1.0 - 1e-12), "{epsilon}: {got} {truth}");
    }
}

/// A gate mixes moments: (1 − q) + q·e^((α−1)D), by hand; q = 1 is no gate, and each accountant's number is at most the ungated one's.
#[test]
fn gates_mix_the_moments() {
    let event = Event::gaussian(2.0).gated(0.3);
    for order in [1.5, 2.0, 17.0, 400.0] {
        let inside = cost(&Event::gaussian(2.0), Relation::ZeroOut, order).unwrap().divergence;
        let by_hand: f64 = match (order - 1.0) * inside {
            x if x < 500.0 => (0.7 + 0.3 * x.exp()).ln() / (order - 1.0),
            x => inside + (0.3f64.ln() + (0.7 / 0.3 * (-x).exp()).ln_1p()) / (order - 1.0),
        };
        let gated = cost(&event, Relation::ZeroOut, order).unwrap().divergence;
        assert!(
            (gated / by_hand - 1.0).abs() < 1e-11 && gated >= by_hand * (1.0 - 1e-14),
            "{order}: {gated} {by_hand}"
        );
        assert!(gated < inside);
        let whole = cost(&Event::gaussian(2.0).gated(1.0), Relation::ZeroOut, order).unwrap().divergence;
        assert_eq!(whole, inside);
    }
    assert_eq!(cost(&Event::gaussian(2.0).gated(0.0), Relation::ZeroOut, 2.0).unwrap().divergence, 0.0);
    let aside = Event::ApproxDp { epsilon: 0.5, delta: 1e-5 }.gated(0.25);
    assert!((cost(&aside, Relation::ZeroOut, 3.0).unwrap().delta / 0.25e-5 - 1.0).abs() < 1e-12);
}

/// Of many different parts every order up to the best is looked at: where the total variation bounds δ the objective has a plateau first.
#[test]
fn many_different_parts_find_their_order() {
    let noises = (3..=32).map(|scale| Event::laplace(f64::from(scale))).collect();
    let event = Event::composed(noises);
    let delta = RdpAccountant.delta(&event, Relation::ZeroOut, 2.0).unwrap().upper;
    assert!(delta > 1.756e-5 && delta < 1.7571e-5, "{delta:e}");
    let epsilon = RdpAccountant.epsilon(&event, Relation::ZeroOut, 1e-6).unwrap().upper;
    assert!(epsilon > 2.1866 && epsilon < 2.1867, "{epsilon}");
    // one heavy part among light ones
    let mut parts: Vec<Event> = (0..40).map(|i| Event::laplace(1e4 + f64::from(i))).collect();
    parts.insert(17, Event::laplace(1.0));
    let heavy = RdpAccountant.epsilon(&Event::composed(parts), Relation::ZeroOut, 1e-6).unwrap().upper;
    let alone = RdpAccountant.epsilon(&Event::laplace(1.0), Relation::ZeroOut, 1e-6).unwrap().upper;
    assert!(heavy >= alone && heavy < alone + 5e-3, "{heavy} {alone}");
}

/// The number of runs costs ln(mean)/(α − 1), so that the bound falls before it grows: the search does not stop at its first orders.
#[test]
fn repetitions_find_their_order() {
    let event = Event::RepeatAndSelect { event: Box::new(Event::gaussian(10.0)), mean: 3.0, shape: 1.0 };
    let epsilon = RdpAccountant.epsilon(&event, Relation::ZeroOut, 1e-6).unwrap().upper;
    assert!((epsilon - 0.740363).abs() < 1e-5, "{epsilon}");
    let delta = RdpAccountant.delta(&event, Relation::ZeroOut, epsilon).unwrap().upper;
    assert!((delta / 1e-6 - 1.0).abs() < 1e-3, "{delta:e}");
    assert!(RdpAccountant.delta(&event, Relation::ZeroOut, 2.0).unwrap().upper < 1e-30);
}
