//! Accountants that look right and are wrong, written out here: the truth, worked out by other means, refutes
//! each of them, and the accountant of this crate stands above it.

use super::fixed_size::Symmetrised;
use super::pair::GaussianPair;
use super::poisson::PoissonPair;
use super::*;
use dpopt_event::special::ln_binomial_mass;

/// δ(ε) of `steps` draws of a two-point loss, exactly: `up` with probability `p`, else `down`.
fn two_points(p: f64, up: f64, down: f64, steps: u64, epsilon: f64) -> f64 {
    (0..=steps)
        .map(|j| {
            let loss = j as f64 * up + (steps - j) as f64 * down;
            let mass = ln_binomial_mass(j, steps, p, 1.0 - p).exp();
            if loss > epsilon { -mass * (epsilon - loss).exp_m1() } else { 0.0 }
        })
        .sum()
}

/// Smallest ε with δ(ε) ≤ `delta`.
fn inverse(delta: f64, profile: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (0.0, 100.0);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if profile(middle) > delta { low = middle } else { high = middle }
    }
    high
}

/// The worse direction of one step need not be the worse one of the composition: the maximum over directions is taken
/// after composing.
#[test]
fn the_direction_is_chosen_after_composing() {
    // randomized response over three answers, the true one kept with probability .62, against a uniform answer
    let (keep, buckets, delta, steps) = (0.62f64, 3.0f64, 0.1, 4);
    let other = (1.0 - keep) / (buckets - 1.0);
    let (up, down) = ((buckets * keep).ln(), (buckets * other).ln());
    let forward = |steps: u64| inverse(delta, |e| two_points(keep, up, down, steps, e));
    let backward = |steps: u64| inverse(delta, |e| two_points(1.0 / buckets, -up, -down, steps, e));
    assert!(forward(1) > 1.1 * backward(1));
    // composes the direction that is worse in one step
    let wrong = if forward(1) >= backward(1) { forward(steps) } else { backward(steps) };
    let truth = forward(steps).max(backward(steps));
    assert!(wrong < 0.9 * truth, "the mistake was not noticed: {wrong} covers {truth}");
    let event = Event::RandomizedResponse { noise_parameter: (1.0 - keep) * buckets / (buckets - 1.0), num_buckets: 3 };
    let bound = Pld::default().epsilon(&event.self_composed(steps), Relation::ZeroOut, delta).unwrap();
    assert!(bound.upper >= truth * (1.0 - 1e-12) && bound.upper < truth * (1.0 + 1e-3), "{} {truth}", bound.upper);
}

/// Under fixed-size sampling the slot of an absent record is taken by another record. So zero-out is not covered by the
/// profile of one record's shift C.
#[test]
fn zero_out_of_fixed_size_samples_needs_more_than_one_clip() {
    let (n, m, sigma) = (10, 5, 1.0);
    let (q, mu) = (0.5, 1.0 / sigma);
    // the attack: all other records at v, ours at −v, where |v| = C. In units of noise and relative to the sum m·v of a sample
    // without our slot: qN(2μ) + (1−q)N(0) with the record, qN(μ) + (1−q)N(0) without it
    let attack = |epsilon: f64| {
        let normal = |z: f64| (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt();
        let width = 1e-3;
        (-12_000..16_000)
            .map(|i| {
                let z = width * f64::from(i);
                let with = q * normal(z - 2.0 * mu) + (1.0 - q) * normal(z);
                let without = q * normal(z - mu) + (1.0 - q) * normal(z);
                width * (with - epsilon.exp() * without).max(0.0)
            })
            .sum::<f64>()
    };
    let event = Event::gaussian(sigma).sampled_without_replacement(n, m);
    for epsilon in [0.5, 1.0, 2.0] {
        let wrong: Direction =
            vec![(Arc::new(Symmetrised(PoissonPair { probability: q, base: GaussianPair { mu } })), 1)];
        let wrong = compose::delta(&wrong, epsilon, Quality::FINE).value;
        let truth = attack(epsilon);
        assert!(wrong < 0.95 * truth, "the mistake was not noticed: {wrong} covers {truth} at {epsilon}");
        let bound = Pld::default().delta(&event, Relation::ZeroOut, epsilon).unwrap();
        assert!(bound.upper >= truth * (1.0 - 1e-6), "{} is below {truth} at {epsilon}", bound.upper);
    }
}
