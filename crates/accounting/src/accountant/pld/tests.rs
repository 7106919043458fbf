//! Compositions against reference values: Laplace inversion of the exact one-step transform in high precision (mpmath).

use super::*;

fn dp_sgd(q: f64, sigma: f64, steps: u64) -> Event {
    Event::gaussian(sigma).poisson_sampled(q).self_composed(steps)
}

fn epsilon(event: &Event, delta: f64) -> Bound {
    // before the gate, which would notice some injected faults by itself
    Pld::default().claim_epsilon(event, Relation::ZeroOut, delta).unwrap()
}

/// (q, σ, T, δ, with → without, without → with)
const COMPOSITIONS: [(f64, f64, u64, f64, f64, f64); 15] = [
    (0.01, 1.0, 1000, 1e-6, 2.12451517, 1.58908876),
    (0.004, 0.8, 10_000, 1e-6, 4.02843604, 3.30082226),
    (0.01, 1.0, 1000, 1e-12, 3.91429816, 2.32555331),
    (0.01, 1.0, 1000, 1e-20, 6.36170020, 2.96058487),
    (0.01, 1.0, 1000, 1e-30, 9.34189563, 3.52437641),
    (0.125, 0.8, 1000, 1e-6, 56.72594998, 37.01787613),
    (0.2, 1.0, 10, 1e-5, 4.98421340, 1.59325025),
    (0.00033, 4.0, 10_000, 1.13e-18, 0.06718545, 0.06579580),
    (0.00033, 4.0, 10_000, 1e-30, 0.09204986, 0.08947887),
    (0.001, 0.5, 100_000, 1e-8, 17.93802233, 10.43683472),
    (1e-4, 0.6, 1_000_000, 1e-9, 3.41209621, 2.10781063),
    (0.5, 20.0, 5000, 1e-5, 8.60484680, 8.58688946),
    (0.014, 3.308, 1000, 1e-5, 0.48852698, 0.47037557),
    (250.0 / 59_674.0, 0.9581, 1671, 1e-5, 0.99994156, 0.79816642),
    (256.0 / 60_000.0, 1.1, 14_063, 1e-5, 2.38168973, 2.24365080),
];

#[test]
fn compositions_of_sampled_gaussians() {
    for (q, sigma, steps, delta, forward, backward) in COMPOSITIONS {
        let b = epsilon(&dp_sgd(q, sigma, steps), delta);
        // the printed digits are rounded: 1e-8 below is allowed; slack above is at most 2e-5 of ε, the tail that the
        // truncation charges in full (and the reference has not) included
        let (f, r) = (b.with_to_without.unwrap(), b.without_to_with.unwrap());
        assert!(
            f > forward - 1e-8 && f < forward * (1.0 + 2e-5) + 1e-7,
            "{q} {sigma} {steps} {delta:e}: {f} {forward}"
        );
        assert!(r > backward - 1e-8 && r < backward * 1.001, "{q} {sigma} {steps} {delta:e}: {r} {backward}");
        assert_eq!(b.upper, f.max(r));
    }
}

/// Coarse cells must be sized by the tilted mass: otherwise the tail is inflated.
#[test]
fn coarse_cells_follow_the_tilt() {
    let event = dp_sgd(0.01, 1.0, 1000);
    let inflated = injected::with(injected::Bug::UntiltedWidths, || epsilon(&event, 1e-30).upper);
    let fine = epsilon(&event, 1e-30).upper;
    assert!(fine < 9.3421, "{fine}");
    assert!(inflated > 9.3421, "the injected fault was not noticed: {inflated}");
}

fn epsilon_under(event: &Event, relation: Relation, delta: f64) -> f64 {
    Pld::default().claim_epsilon(event, relation, delta).unwrap().upper
}

/// Truth (inversion, or two independent lattice codes) and the largest relative slack allowed.
fn close(value: f64, truth: f64, slack: f64) {
    assert!(value >= truth - 1e-8 && value <= truth * (1.0 + slack), "{value} against {truth}");
}

#[test]
fn poisson_under_replace_one() {
    for (q, sigma, steps, delta, truth) in [
        (0.014, 3.308, 1000, 1e-5, 0.99866282),
        (0.01, 1.0, 1000, 1e-6, 3.21423097),
        (0.001, 1.0, 10_000, 1e-6, 0.91042707),
        (0.1, 5.0, 100, 1e-6, 1.76409640),
        (0.05, 2.0, 200, 1e-8, 3.96402988),
    ] {
        close(epsilon_under(&dp_sgd(q, sigma, steps), Relation::ReplaceOne, delta), truth, 1e-4);
    }
}

#[test]
fn fixed_size_samples() {
    let sampled = |m: u64, n: u64, sigma: f64, steps: u64| {
        Event::gaussian(sigma).sampled_without_replacement(n, m).self_composed(steps)
    };
    for (m, n, sigma, steps, delta, truth) in [
        (14, 1000, 3.308, 1000, 1e-5, 1.36003785),
        (1, 100, 1.0, 1000, 1e-6, 16.96210601),
        (1, 1000, 1.0, 10_000, 1e-6, 6.80259371),
        (1, 10, 5.0, 100, 1e-6, 2.13322409),
        (1, 20, 2.0, 200, 1e-8, 7.51344901),
    ] {
        close(epsilon_under(&sampled(m, n, sigma, steps), Relation::ReplaceOne, delta), truth, 1e-4);
    }
    // zero-out, directed form (docs/proofs/accounting-pld.md, to three digits), never below the attack in the last column
    for (m, n, sigma, steps, delta, forward, backward, attack) in
        [(14, 1000, 3.308, 1000, 1e-5, 0.810, 0.695, 0.619), (1, 10, 5.0, 100, 1e-6, 1.305, 0.98, 1.020)]
    {
        let bound = Pld::default().epsilon(&sampled(m, n, sigma, steps), Relation::ZeroOut, delta).unwrap();
        let (f, b) = (bound.with_to_without.unwrap(), bound.without_to_with.unwrap());
        assert!(f > attack && (f / forward - 1.0).abs() < 4e-3, "{f}");
        assert!((b / backward - 1.0).abs() < 2e-2, "{b}");
    }
}

#[test]
fn laplace_mixed_and_pure() {
    close(epsilon_under(&Event::laplace(20.0).self_composed(100), Relation::ZeroOut, 1e-6), 2.19328088, 1e-4);
    close(epsilon_under(&Event::laplace(100.0).self_composed(10_000), Relation::ZeroOut, 1e-9), 6.16050495, 1e-4);
    let mixed = Event::composed(vec![
        dp_sgd(0.01, 1.0, 500),
        Event::laplace(10.0).self_composed(3),
        Event::PureStream { epsilon: 0.1 }.self_composed(5),
    ]);
    let bound = epsilon(&mixed, 1e-6);
    close(bound.with_to_without.unwrap(), 1.92947058, 1e-4);
    close(bound.without_to_with.unwrap(), 1.57000746, 1e-3);
    // optimal composition of pure and (ε, δ) mechanisms
    let pure = Event::ApproxDp { epsilon: 0.1, delta: 1e-8 }.self_composed(100);
    let delta = Pld::default().delta(&pure, Relation::ZeroOut, 4.0).unwrap().upper;
    // ε = 4 is an atom of the sum, a kink of δ(ε): the lattice has it as a point
    close(delta, 3.522308847386e-5, 1e-6);
    let five = Event::composed([0.1, 0.2, 0.3, 0.5, 0.7].map(|epsilon| Event::PureStream { epsilon }).to_vec());
    let delta = Pld::default().delta(&five, Relation::ZeroOut, 1.0).unwrap().upper;
    close(delta, 0.1032696321411, 1e-6);
}

/// A sampled Gaussian that is written as a mixture costs what the sampled Gaussian costs; with the mixture on the wrong side it comes out too small.
#[test]
fn a_mixture_is_present_against_absent() {
    let mixture = Event::MixtureOfGaussians {
        standard_deviation: 1.0,
        sensitivities: vec![0.0, 1.0],
        sampling_probs: vec![0.99, 0.01],
    };
    let event = Event::composed(vec![dp_sgd(0.01, 1.0, 500), mixture.self_composed(500)]);
    close(epsilon(&event, 1e-6).upper, 2.12451517, 1e-4);
    let wrong = injected::with(injected::Bug::MixtureOnTheWrongSide, || epsilon(&event, 1e-6).upper);
    assert!(wrong < 1.93, "the injected fault was not noticed: {wrong}");
}

#[test]
fn blocks_users_and_trees() {
    let blocks = Event::Parallel { blocks: vec![dp_sgd(0.01, 1.0, 1000), Event::laplace(20.0).self_composed(100)] };
    let both = Event::composed(vec![blocks, Event::laplace(50.0)]);
    let one = |e: Event| epsilon(&Event::composed(vec![e, Event::laplace(50.0)]), 1e-6).upper;
    let largest = one(dp_sgd(0.01, 1.0, 1000)).max(one(Event::laplace(20.0).self_composed(100)));
    assert!((epsilon(&both, 1e-6).upper / largest - 1.0).abs() < 1e-9);
    // four records per user, each sampled: between one record with q = .01 and one with shift 4
    let users = Event::UserUnit { records_per_user: 4, event: Box::new(dp_sgd(0.01, 2.0, 300)) };
    let value = epsilon(&users, 1e-6).upper;
    assert!(value > epsilon(&dp_sgd(0.04, 2.0, 300), 1e-6).upper * 0.999, "{value}");
    assert!(value < epsilon(&dp_sgd(0.04, 0.5, 300), 1e-6).upper);
}

#[test]
fn stated_curves_stay_above_what_they_describe() {
    let exact = epsilon(&Event::gaussian(1.0), 1e-6).upper;
    let orders: Vec<f64> = (1..100).map(|i| 1.0 + 0.2 * f64::from(i)).collect();
    let divergences = orders.iter().map(|a| 0.5 * a).collect();
    let curve = epsilon(&Event::Rdp { orders, divergences }, 1e-6).upper;
    assert!(curve >= exact && curve < 5.23, "{curve}");
    let zcdp = epsilon(&Event::Zcdp { rho: 0.5, xi: 0.0 }, 1e-6).upper;
    assert!((zcdp / 5.22153444453 - 1.0).abs() < 1e-3, "{zcdp}");
}

/// Runs `value` as it is and with an injected fault; the truth must be covered by the first only.
fn caught(bug: injected::Bug, truth: f64, value: impl Fn() -> f64) {
    let sound = value();
    let wrong = injected::with(bug, &value);
    assert!(sound >= truth, "{bug:?}: {sound} is below {truth}");
    assert!(wrong < truth, "the injected fault {bug:?} was not noticed: {wrong} covers {truth}");
}

/// A record, its replacement and all others at the corners of an equilateral triangle: ((1−q)N(0) + qN(u₁), (1−q)N(0) + qN(u₂)) T times has the δ(1) in the fourth
/// place, by the two-dimensional loss distribution on 1600² points, step 1e-4. One order of one pair composed by itself claims less.
#[test]
fn corners_of_a_triangle_are_covered_by_the_mirrored_curve_only() {
    // (m of 1000, distance over noise, T, attained, one order, mirrored)
    for (batch, distance, steps, attained, one_order, mirrored) in [
        (50, 2.0, 100, 0.5328, 0.4483, 0.6076),
        (20, 2.0, 400, 0.5338, 0.4246, 0.6034),
        (100, 1.0, 100, 0.2286, 0.2075, 0.3098),
        (100, 0.5, 200, 0.0521, 0.0513, 0.0796),
    ] {
        let event = Event::gaussian(2.0 / distance).sampled_without_replacement(1000, batch).self_composed(steps);
        let delta = || Pld::default().claim_delta(&event, Relation::ReplaceOne, 1.0).unwrap().upper;
        let (sound, wrong) = (delta(), injected::with(injected::Bug::OneSidedFixedSize, delta));
        assert!((sound - mirrored).abs() < 1e-4, "{batch} {distance} {steps}: {sound}");
        assert!((wrong - one_order).abs() < 1e-4, "{batch} {distance} {steps}: {wrong}");
        assert!(wrong < attained && attained < sound);
    }
}

#[test]
fn injected_mistakes_fall_below_the_truth() {
    use injected::Bug;
    let fixed = |steps| Event::gaussian(3.308).sampled_without_replacement(1000, 14).self_composed(steps);
    let replace = || epsilon_under(&fixed(1000), Relation::ReplaceOne, 1e-5);
    caught(Bug::OneSidedFixedSize, 1.36003784, replace);
    // attained by an attack under zero-out in the same setting: .619; replace-one attains more than
    // the halved profile says
    caught(Bug::HalvedFixedSize, 0.99866282, replace);
    caught(Bug::ReplaceIsZeroOut, 3.21423096, || epsilon_under(&dp_sgd(0.01, 1.0, 1000), Relation::ReplaceOne, 1e-6));
    caught(Bug::RoundedDown, 2.12451516, || epsilon(&dp_sgd(0.01, 1.0, 1000), 1e-6).upper);
    let approximate = Event::ApproxDp { epsilon: 0.1, delta: 1e-8 }.self_composed(100);
    caught(Bug::DroppedInfinity, 3.522308847e-5, || {
        Pld::default().claim_delta(&approximate, Relation::ZeroOut, 4.0).unwrap().upper
    });
}

/// A million steps at δ = 1e-9: without the tilt the rounding of the transform is larger than δ.
#[test]
fn without_the_tilt_rounding_swamps_delta() {
    let coarse = Pld { quality: Quality::COARSE };
    let value = || coarse.claim_epsilon(&dp_sgd(1e-4, 0.6, 1_000_000), Relation::ZeroOut, 1e-9).unwrap();
    let (sound, wrong) = (value(), injected::with(injected::Bug::NoTilt, value));
    let rounding = |b: &Bound| b.slack.as_ref().unwrap().fft;
    assert!(sound.upper > 3.41209620 && sound.upper < 3.4132, "{}", sound.upper);
    assert!(rounding(&sound) < 1e-12);
    assert!(wrong.upper > 3.5, "the injected fault was not noticed: {}", wrong.upper);
}

/// What a sampler's error costs is verified at the ε that is returned.
#[test]
fn total_variation_is_charged_at_the_returned_epsilon() {
    let tv = 5e-8;
    let event = dp_sgd(0.01, 1.0, 1000).approximate(tv);
    let total = |e: f64| {
        Pld::default().delta(&dp_sgd(0.01, 1.0, 1000), Relation::ZeroOut, e).unwrap().upper + (1.0 + e.exp()) * tv
    };
    let value = || epsilon(&event, 2e-6).upper;
    assert!(total(value()) <= 2e-6 * (1.0 + 1e-4), "{}", total(value()));
    for bug in [injected::Bug::FlatTotalVariation, injected::Bug::UnverifiedFixedPoint] {
        let wrong = injected::with(bug, value);
        assert!(total(wrong) > 2e-6 * (1.0 + 1e-3), "the injected fault {bug:?} was not noticed");
    }
    // no ε at all, and none that so little noise has
    let refusal = |event: Event| match Pld::default().epsilon(&event, Relation::ZeroOut, 1e-6) {
        Err(AccountingError::Unreachable(why)) => why,
        other => panic!("{other:?}"),
    };
    assert!(refusal(dp_sgd(0.01, 1.0, 1000).approximate(1e-6)).contains("at every epsilon; use finer samplers"));
    let why = refusal(Event::gaussian(0.05).approximate(1e-30));
    // ln(1e24)
    assert!(why.contains("too little noise") && why.contains("from epsilon 55.262 on"), "{why}");
}

/// One-step masses known to a relative 1e-7 only, and wrong in the worst way: P too small, Q too large.
#[derive(Clone, Debug)]
struct Wrong<T>(T);

impl<T: Pair> Pair for Wrong<T> {
    fn masses(&self, borders: &[f64]) -> pair::Masses {
        const ETA: f64 = 1e-7;
        let mut m = self.0.masses(borders);
        for i in 0..m.p.len() {
            m.p_error[i] += 1.01 * ETA * m.p[i];
            m.q_error[i] += 1.01 * ETA * m.q[i];
            m.p[i] *= 1.0 - ETA;
            m.q[i] *= 1.0 + ETA;
        }
        m
    }
}

/// Three counterexamples to adding rounding errors up relatively: errors of the masses must be turned into dominating masses.
#[test]
fn errors_of_one_step_masses_are_covered() {
    for (q, sigma, steps, delta, truth) in [
        (0.01, 1.0, 1000, 1e-6, 2.12451516),
        (0.014, 3.308, 1000, 1e-5, 0.48852697),
        (0.00033, 4.0, 10_000, 1.13e-18, 0.06718544),
    ] {
        let base = poisson::PoissonPair { probability: q, base: pair::GaussianPair { mu: 1.0 / sigma } };
        let draws: Direction = vec![(Arc::new(Wrong(base)), steps)];
        // the lattice's own slack would hide the error: subtract it
        let slack = {
            let base = poisson::PoissonPair { probability: q, base: pair::GaussianPair { mu: 1.0 / sigma } };
            let draws: Direction = vec![(Arc::new(base), steps)];
            compose::epsilon(&draws, delta, Quality::FINE).unwrap().value - truth
        };
        let value = || compose::epsilon(&draws, delta, Quality::FINE).unwrap().value - slack;
        caught(injected::Bug::IgnoredErrors, truth * (1.0 - 1e-9), value);
    }
}

/// Inputs on which other accountants were seen to abort, to jump or to return less than the truth.
#[test]
fn known_failures_of_other_accountants() {
    // aborts in others: large q; ε jumping to 3.8; ε = ∞ at δ ≤ 1e-15; below the truth: see the table above
    for (q, sigma, steps, delta, truth) in [
        (0.125, 0.8, 1000, 1e-6, 56.72594998),
        (0.2, 1.0, 10, 1e-5, 4.98421340),
        (0.00033, 4.0, 10_000, 1.13e-18, 0.06718545),
        (0.01, 1.0, 1000, 1e-30, 9.34189563),
    ] {
        close(epsilon(&dp_sgd(q, sigma, steps), delta).upper, truth, 1e-4);
    }
    // a negative ε at a large δ
    assert_eq!(epsilon(&dp_sgd(0.001, 2.0, 10), 0.5).upper, 0.0);
    // everything is (0, 1)-private, and nothing is asked beyond
    assert_eq!(epsilon(&dp_sgd(0.001, 2.0, 10), 1.0).upper, 0.0);
    assert!(Pld::default().epsilon(&dp_sgd(0.001, 2.0, 10), Relation::ZeroOut, 1.01).is_err());
    // the central-limit value 1.83571 is no bound
    assert!(epsilon(&dp_sgd(0.01, 1.0, 1000), 1e-6).upper > 1.83571);
    // replace-one is not add-or-remove
    assert!(epsilon_under(&Event::gaussian(4.0), Relation::ReplaceOne, 1e-6) > 2.2540);
    let laplace = epsilon_under(&Event::laplace(1.0), Relation::ReplaceOne, 1e-9);
    assert!(laplace > 1.99 && laplace <= 2.0 + 1e-12, "{laplace}");
}

#[test]
fn lower_bounds_bracket_the_truth() {
    for i in [0, 1, 3, 6, 12] {
        let (q, sigma, steps, delta, forward, _) = COMPOSITIONS[i];
        let bound = Pld::default().bracket(&dp_sgd(q, sigma, steps), Relation::ZeroOut, delta).unwrap();
        let lower = bound.lower.unwrap();
        assert!(lower <= forward + 1e-8 && lower > forward * 0.999, "{q} {sigma}: {lower} {forward}");
    }
}

/// A pair that lies above all shifts of several integer sums shows nothing that a mechanism attains; one shift does.
#[test]
fn only_pairs_that_a_mechanism_has_show_lower_bounds() {
    let lower = |sensitivity, dimension, records, relation| {
        let one = Event::DiscreteGaussian { sigma: 3.0, sensitivity, dimension };
        let event = Event::UserUnit { records_per_user: records, event: Box::new(one) };
        Pld::default().bracket(&event, relation, 1e-6).unwrap().lower
    };
    let zero_out = Relation::ZeroOut;
    // of two records with steps of 2, not of ⌊2·2.66⌋ = 5
    let two = lower(2.66, Some(1), 2, zero_out).unwrap();
    let four = lower(4.0, Some(1), 1, zero_out).unwrap();
    assert!((two / four - 1.0).abs() < 1e-12, "{two} {four}");
    assert!(lower(1.0, None, 1, zero_out).is_some(), "a unit step goes along one sum");
    // of several sums: that of a shift along one of them
    for (sensitivity, records, relation) in [(1.0, 2, zero_out), (2.0, 1, zero_out), (1.0, 1, Relation::ReplaceOne)] {
        assert_eq!(lower(sensitivity, None, records, relation), lower(sensitivity, Some(1), records, relation));
    }
    let (several, one) = (lower(2.7, None, 1, zero_out).unwrap(), lower(2.7, Some(1), 1, zero_out).unwrap());
    assert!(several == one, "{several} {one}");
}

/// Sampling a mechanism with a δ of its own: Q keeps that much mass where P has none, at the sampled loss ln(1 − q).
#[test]
fn a_sampled_mechanism_keeps_the_mass_that_only_the_other_side_has() {
    let (q, e, d, steps) = (0.3f64, 0.4f64, 0.1f64, 3u32);
    let event = Event::ApproxDp { epsilon: e, delta: d }.poisson_sampled(q).self_composed(u64::from(steps));
    // (P, Q) masses of the four outcomes, sampled
    let (up, down) = ((1.0 - d) / (1.0 + (-e).exp()), (1.0 - d) / (1.0 + e.exp()));
    let base = [(d, 0.0), (up, down), (down, up), (0.0, d)];
    let sampled = base.map(|(p, r)| (q * p + (1.0 - q) * r, r));
    for at in [0.0, 0.1, 0.3] {
        let (mut forward, mut backward) = (0.0, 0.0);
        for outcome in 0..4usize.pow(steps) {
            let (p, r) = (0..steps).fold((1.0, 1.0), |(p, r), k| {
                let (a, b) = sampled[outcome / 4usize.pow(k) % 4];
                (p * a, r * b)
            });
            forward += (p - f64::exp(at) * r).max(0.0);
            backward += (r - f64::exp(at) * p).max(0.0);
        }
        let bound = Pld::default().delta(&event, Relation::ZeroOut, at).unwrap();
        let (f, b) = (bound.with_to_without.unwrap(), bound.without_to_with.unwrap());
        assert!(f >= forward && f < forward * 1.001, "{at}: {f} {forward}");
        assert!(b >= backward && b < backward * 1.001, "{at}: {b} {backward}");
    }
}

/// One sample for several releases, under the three kinds of sampling.
#[test]
fn several_releases_on_one_sample() {
    let both = Event::composed(vec![Event::laplace(20.0), Event::gaussian(5.0)]);
    let one = |e: &Event, r| epsilon_under(&e.clone().poisson_sampled(0.05).self_composed(200), r, 1e-6);
    for relation in [Relation::ZeroOut, Relation::ReplaceOne] {
        let shared = one(&both, relation);
        // sharing the sample costs more than two samples, and less than no sampling
        let apart = Event::composed(vec![
            Event::laplace(20.0).poisson_sampled(0.05).self_composed(200),
            Event::gaussian(5.0).poisson_sampled(0.05).self_composed(200),
        ]);
        let least = one(&Event::laplace(20.0), relation).max(one(&Event::gaussian(5.0), relation));
        assert!(shared > epsilon_under(&apart, relation, 1e-6) && shared > least);
        assert!(shared < epsilon_under(&both.clone().self_composed(200), relation, 1e-6));
    }
    // the composition of Laplace releases as a product against the pure bound ε = 3/10 on the sample
    let laplace = Event::laplace(10.0).self_composed(3).poisson_sampled(0.1);
    let pure = Event::PureStream { epsilon: 0.3 }.poisson_sampled(0.1);
    let at = |e: &Event| Pld::default().delta(e, Relation::ZeroOut, 0.01).unwrap().upper;
    assert!(at(&laplace) < at(&pure) && at(&laplace) > 0.2 * at(&pure), "{} {}", at(&laplace), at(&pure));
    let fixed = both.sampled_without_replacement(1000, 50).self_composed(20);
    let value = epsilon_under(&fixed, Relation::ZeroOut, 1e-6);
    assert!(
        value
            > epsilon_under(
                &Event::gaussian(5.0).sampled_without_replacement(1000, 50).self_composed(20),
                Relation::ZeroOut,
                1e-6
            )
    );
    // with replacement: at least one draw of Poisson's rate, of Laplace noise too
    for base in [Event::gaussian(5.0), Event::laplace(20.0), Event::ExponentialMechanism { epsilon: 0.1 }] {
        let event = |base: Event| Event::SampledWithReplacement {
            source_dataset_size: 1000,
            sample_size: 50,
            event: Box::new(base),
        };
        let value = epsilon_under(&event(base.clone()).self_composed(50), Relation::ReplaceOne, 1e-6);
        let fixed = base.sampled_without_replacement(1000, 50).self_composed(50);
        assert!(value > 0.9 * epsilon_under(&fixed, Relation::ReplaceOne, 1e-6));
    }
}

/// A cap on the batch that is never met changes nothing; a low one costs, but less than sampling with shift 2 throughout.
#[test]
fn truncated_batches() {
    let event = |most: u64| Event::TruncatedSubsampledGaussian {
        dataset_size: 10_000,
        sampling_probability: 0.01,
        truncated_batch_size: most,
        noise_multiplier: 1.0,
    };
    let cost = |e: &Event| epsilon_under(&e.clone().self_composed(1000), Relation::ZeroOut, 1e-6);
    let (plain, loose, tight) = (epsilon(&dp_sgd(0.01, 1.0, 1000), 1e-6).upper, cost(&event(250)), cost(&event(100)));
    assert!((loose / plain - 1.0).abs() < 1e-6, "{loose} {plain}");
    let doubled = epsilon(&dp_sgd(0.01, 0.5, 1000), 1e-6).upper;
    assert!(tight > 1.5 * plain && tight < doubled, "{tight} {plain} {doubled}");
    // fewer records are allowed as well; a cap that is never met changes nothing here either
    let any_size = |most| epsilon_under(&event(most).self_composed(1000), Relation::AddOrRemove, 1e-6);
    assert!((any_size(250) / plain - 1.0).abs() < 1e-6);
    assert!(any_size(100) > 1.5 * plain && any_size(100) < doubled, "{} {plain} {doubled}", any_size(100));
    let bracket = Pld::default().bracket(&event(250).self_composed(1000), Relation::AddOrRemove, 1e-6).unwrap();
    assert!(bracket.lower.unwrap() > 0.999 * bracket.upper, "{bracket:?}");
}

/// Epochs in which every record is in one random step: between no allocation and one sum of all steps, and near what is attained.
#[test]
fn random_allocation_composes() {
    let step = |sigma| Event::gaussian(sigma).randomly_allocated(50);
    let epochs = |sigma: f64| step(sigma).self_composed(10);
    for relation in [Relation::ZeroOut, Relation::AddOrRemove] {
        let bound = Pld::default().bracket(&epochs(1.5), relation, 1e-6).unwrap();
        let lower = bound.lower.unwrap();
        assert!(lower > 0.96 * bound.upper && lower <= bound.upper, "{bound:?}");
        // no allocation at all, and one sum of all steps in each epoch
        let alone = epsilon_under(&Event::gaussian(1.5).self_composed(10), relation, 1e-6);
        let summed = epsilon_under(&Event::gaussian(1.5 * 50f64.sqrt()).self_composed(10), relation, 1e-6);
        assert!(bound.upper < 0.6 * alone && bound.upper > summed, "{bound:?} {alone} {summed}");
        let renyi = super::super::rdp::RdpAccountant.epsilon(&epochs(1.5), relation, 1e-6).unwrap().upper;
        assert!(renyi > bound.upper && renyi < 1.5 * bound.upper, "{renyi} {bound:?}");
    }
    // the more steps have it the larger the loss, up to all of them
    let several = |k| Event::RandomAllocation { event: Box::new(Event::gaussian(1.5)), num_selected: k, num_steps: 50 };
    let cost = |k| epsilon_under(&several(k), Relation::ZeroOut, 1e-6);
    assert!(cost(1) < cost(7) && cost(7) < cost(26) && cost(26) < cost(50));
    assert!((cost(50) - epsilon_under(&Event::gaussian(1.5).self_composed(50), Relation::ZeroOut, 1e-6)).abs() < 1e-9);
    // what has no proof is not amplified: replaced records, and other mechanisms
    let replaced = epsilon_under(&epochs(1.5), Relation::ReplaceOne, 1e-6);
    let shared = epsilon_under(&Event::gaussian(1.5).self_composed(10), Relation::ReplaceOne, 1e-6);
    assert!((replaced / shared - 1.0).abs() < 1e-9);
    let noise = Event::laplace(3.0);
    let allocated = epsilon_under(&noise.clone().randomly_allocated(50).self_composed(10), Relation::ZeroOut, 1e-6);
    assert_eq!(allocated, epsilon_under(&noise.self_composed(10), Relation::ZeroOut, 1e-6));
}

/// Thousands of composed releases with fresh scales: the lattice never above the Rényi bound of the same releases.
#[test]
fn random_scales_compose() {
    let event = Event::ChiSquareGaussian { degrees_of_freedom: 50, mu: 0.05 }.self_composed(100);
    let lattice = epsilon(&event, 1e-6).upper;
    let renyi = super::super::rdp::RdpAccountant.epsilon(&event, Relation::ZeroOut, 1e-6).unwrap().upper;
    let fixed_scale = epsilon(&Event::gaussian(20.0).self_composed(100), 1e-6).upper;
    assert!(lattice > fixed_scale && lattice < renyi, "{fixed_scale} {lattice} {renyi}");
    assert!(epsilon_under(&event, Relation::ReplaceOne, 1e-6) > 1.9 * lattice);
}

/// Few draws of point losses at a small δ: ε is near the largest loss and the tilt is extreme, so that e^K overflows at ε = 0.
#[test]
fn an_extreme_tilt_certifies_nothing_by_overflow() {
    for (event, delta, truth) in [
        (
            Event::RandomizedResponse { noise_parameter: 0.2745339184875987, num_buckets: 3 }.self_composed(27),
            2.433e-7,
            59.1069,
        ),
        (
            Event::DiscreteLaplace { noise_parameter: 0.3117899370959317, sensitivity: 4 }.self_composed(2),
            1.659e-10,
            2.4943194,
        ),
        (Event::laplace(1.2699921388494921).self_composed(3), 3.738e-10, 2.3622193),
        (Event::ApproxDp { epsilon: 0.014186602309749042, delta: 0.0 }.self_composed(4), 2.418e-6, 0.05670879),
    ] {
        let relation = if matches!(&event, Event::SelfComposed { event, .. } if matches!(**event, Event::RandomizedResponse { .. }))
        {
            Relation::ReplaceOne
        } else {
            Relation::ZeroOut
        };
        let bound = Pld::default().bracket(&event, relation, delta).unwrap();
        let lower = bound.lower.unwrap();
        assert!(bound.upper >= truth && bound.upper < truth * 1.00001, "{event}: {bound:?}");
        assert!(lower > 0.999 * truth && lower <= bound.upper, "{event}: {bound:?}");
    }
}

/// An answer has identical bits on a fresh thread and on one that has computed other bounds before.
#[test]
fn an_answer_does_not_depend_on_earlier_ones() {
    let ask = |sigma: f64, steps| {
        let event = Event::gaussian(sigma).poisson_sampled(0.1).self_composed(steps);
        format!("{:?}", Pld::default().epsilon(&event, Relation::ZeroOut, 1e-6))
    };
    let fresh = std::thread::scope(|s| s.spawn(|| ask(3.850979, 72)).join().unwrap());
    for steps in [5, 20, 72, 300, 1000] {
        for sigma in [0.7, 1.3, 3.850979, 9.0] {
            ask(sigma, steps);
        }
    }
    assert_eq!(ask(3.850979, 72), fresh);
}

/// q·δ(ε) + (1 − q)·max(0, 1 − e^ε), in closed form for a choice of bounded range, in both directions; and a composition of gates
/// against the sum over how many of them open.
#[test]
fn gates_are_mixtures_with_nothing() {
    let pld = Pld { quality: Quality::FINE };
    let (q, range) = (0.3, 0.8f64);
    let gated = Event::ExponentialMechanism { epsilon: range }.gated(q);
    for epsilon in [0.0, 0.1, 0.5, 0.79] {
        let closed = q * ((0.5 * range).exp() - (0.5_f64 * epsilon).exp()).powi(2) / range.exp_m1();
        let bound = pld.delta(&gated, Relation::ReplaceOne, epsilon).unwrap().upper;
        assert!(
            bound >= closed * (1.0 - 1e-12) && bound < closed * (1.0 + 1e-3) + 1e-12,
            "{epsilon}: {bound} {closed}"
        );
    }
    let coin = |k: u64| Event::PureStream { epsilon: 0.7 }.self_composed(k);
    let gates = Event::PureStream { epsilon: 0.7 }.gated(0.25).self_composed(6);
    for epsilon in [0.2, 1.0, 2.5] {
        let opened: f64 = (0..=6u32)
            .map(|k| {
                let ways = [1.0, 6.0, 15.0, 20.0, 15.0, 6.0, 1.0][k as usize];
                let share = ways * 0.25f64.powi(k as i32) * 0.75f64.powi(6 - k as i32);
                let inside =
                    if k == 0 { 0.0 } else { pld.delta(&coin(k.into()), Relation::ZeroOut, epsilon).unwrap().upper };
                share * inside
            })
            .sum();
        let bound = pld.delta(&gates, Relation::ZeroOut, epsilon).unwrap().upper;
        assert!(bound >= opened * (1.0 - 1e-6) && bound < opened * 1.001, "{epsilon}: {bound} {opened}");
    }
}
