//! From one record to a group, and from one relation to another (docs/proofs/accounting-groups.md).
//!
//! The rules bound what any mechanism with the stated guarantee can do. Describing the group's own event (shift kC)
//! is tighter where it is possible; the accountants do that for Gaussian and Laplace noise.

use crate::special::UNIT_ROUNDOFF;
use crate::{Event, Relation};

/// Group sizes up to which both halves are followed.
const FOLLOWED: u64 = 4;

/// k steps at (ε, δ): (kε, δ·(e^{kε} − 1)/(e^ε − 1)), rounded up.
///
/// ```
/// use dpopt_event::group::approximate;
/// let (epsilon, delta) = approximate(2, 1.0, 1e-6);
/// assert!((epsilon - 2.0).abs() < 1e-12 && (delta - 1e-6 * (1.0 + 1f64.exp())).abs() < 1e-18);
/// ```
pub fn approximate(size: u64, epsilon: f64, delta: f64) -> (f64, f64) {
    let k = size as f64;
    let total = k * epsilon;
    let growth = if epsilon == 0.0 { k } else { total.exp_m1() / epsilon.exp_m1() };
    // the exponent is rounded, relative to itself
    let rounding = 1.0 + (16.0 + 4.0 * total) * UNIT_ROUNDOFF;
    let delta = if delta == 0.0 { 0.0 } else { (delta * growth * rounding).min(1.0) };
    (total * (1.0 + 2.0 * UNIT_ROUNDOFF), delta)
}

/// What `event`, described for one record, is for a group of `size` where that is an event of the same kind, no more and no less: scores and sums move by as
/// many times as much. `None` where it is not, or is no number (docs/proofs/accounting-groups.md).
///
/// ```
/// use dpopt_event::{Event, group};
/// let three = group::of_kind(3, &Event::ExponentialMechanism { epsilon: 0.5 });
/// assert!(matches!(three, Some(Event::ExponentialMechanism { epsilon }) if (epsilon - 1.5).abs() < 1e-15 && epsilon >= 1.5));
/// assert_eq!(group::of_kind(3, &Event::gaussian(1.0).poisson_sampled(0.1)), None);
/// ```
pub fn of_kind(size: u64, event: &Event) -> Option<Event> {
    event.of_group(size)
}

/// Group sizes up to which [`pure`] follows every step.
const MAX_STEPS: u64 = 512;

/// The composition of k steps at a pure ε: (E, δ(E)) where the largest possible profile has its kinks, E ≥ 0 increasing, and at 0; between them it is linear in e^E.
/// P(S) is at most min(e^ε·Q(S), 1 − e^−ε·(1 − Q(S))) at each step, and the k-fold of that is attained
/// (docs/proofs/accounting-groups.md). The last E is kε, where δ is 0.
pub fn pure(size: u64, epsilon: f64) -> Vec<(f64, f64)> {
    let end = approximate(size, epsilon, 0.0);
    if size > MAX_STEPS || epsilon > 300.0 {
        return vec![end];
    }
    // losses (2j − k)ε: ln of the mass under Q, from the largest on
    let k = size as i64;
    let ln_x = -(epsilon.exp()).ln_1p();
    let mass = |j: i64| {
        let ln_q = ln_x - (j - 1) as f64 * epsilon;
        let ln_q = if j == k { ln_q } else { ln_q + (-(-epsilon).exp_m1()).ln() };
        ((2 * j - k) as f64 * epsilon, ln_q)
    };
    // exponents and logarithms of at most kε and a few: each is off by a few u of that
    let rounding = 1.0 + (32.0 + 8.0 * end.0) * UNIT_ROUNDOFF;
    let delta = |from: i64, at: f64| {
        let over = |j: i64| {
            let (loss, ln_q) = mass(j);
            (ln_q + loss).exp() * -(at - loss).exp_m1()
        };
        ((from..=k).map(over).sum::<f64>() * (rounding + k as f64 * UNIT_ROUNDOFF)).min(1.0)
    };
    let mut points = vec![(0.0, delta(k / 2 + 1, 0.0))];
    for j in k / 2 + 1..k {
        let (loss, _) = mass(j);
        points.push((loss * (1.0 + 2.0 * UNIT_ROUNDOFF), delta(j + 1, loss)));
    }
    points.push(end);
    points
}

/// zero-out (or add-or-remove) profile to replace-one: one step out, one step in. `profile(ε)` must bound δ in both
/// directions; the best split of `epsilon` on a grid of 64 points.
///
/// ```
/// use dpopt_event::{group::replace_one_delta, special::gaussian_ln_delta};
/// let delta = replace_one_delta(2.0, |e| gaussian_ln_delta(e, 1.0).exp());
/// // an even split gives .471987; the best one reaches the event with shift 2 itself
/// let exact = gaussian_ln_delta(2.0, 2.0).exp();
/// assert!(delta >= exact && delta < exact + 1e-4);
/// ```
pub fn replace_one_delta(epsilon: f64, profile: impl Fn(f64) -> f64) -> f64 {
    const SPLITS: u32 = 64;
    let split = |i: u32| {
        let first = epsilon * f64::from(i) / f64::from(SPLITS);
        profile(first) + first.exp() * profile((epsilon - first).max(0.0))
    };
    let best = (0..=SPLITS).map(split).fold(f64::INFINITY, f64::min);
    (best * (1.0 + 8.0 * UNIT_ROUNDOFF)).min(1.0)
}

/// Rényi divergence of order `order` over `size` steps, each bounded by `curve(α)` in both directions: repeated weak
/// triangle inequality D_α(P‖R) ≤ ((α−1/p)/(α−1))·D_{pα}(P‖Q) + D_r(Q‖R), r = (pα−1)/(p−1), with p = 2
/// (Mironov 2017, Prop. 11).
pub fn renyi(size: u64, order: f64, curve: &impl Fn(f64) -> f64) -> f64 {
    if size <= 1 {
        return curve(order);
    }
    // split into halves: depth log2(size), each level about doubles the order
    let (left, right) = (size / 2, size - size / 2);
    let factor = (order - 0.5) / (order - 1.0);
    // one evaluation per member is too many for large groups; the divergence grows with the group and with the order
    if size > FOLLOWED {
        return (factor + 1.0) * renyi(right, 2.0 * order, curve);
    }
    factor * renyi(left, 2.0 * order, curve) + renyi(right, 2.0 * order - 1.0, curve)
}

/// `event` where records may be replaced by others although its stated guarantees are for `relation`: under
/// zero-out a replacement is two steps, so stated μ, ε, ρ grow; noise events stay, their accountants double the
/// shift. `None` if a stated guarantee has no such conversion.
///
/// Needed under fixed-size sampling, where the slot of an absent record is filled by another record.
pub fn for_replacement(event: &Event, relation: Relation) -> Option<Event> {
    if relation == Relation::ReplaceOne {
        return Some(event.clone());
    }
    let below = |event: &Event| for_replacement(event, relation);
    let boxed = |event: &Event| below(event).map(Box::new);
    Some(match event {
        Event::Gdp { mu } => Event::Gdp { mu: 2.0 * mu },
        Event::Zcdp { rho, xi: 0.0 } => Event::Zcdp { rho: 4.0 * rho, xi: 0.0 },
        Event::PureStream { epsilon } => Event::PureStream { epsilon: 2.0 * epsilon },
        Event::ApproxDp { epsilon, delta } | Event::EpsilonDelta { epsilon, delta } => {
            let (epsilon, delta) = approximate(2, *epsilon, *delta);
            Event::ApproxDp { epsilon, delta: if delta < 1.0 { delta } else { return None } }
        }
        Event::PrivacyProfile { epsilons, deltas } => {
            let (epsilon, delta) = approximate(2, *epsilons.last()?, *deltas.last()?);
            Event::ApproxDp { epsilon, delta: if delta < 1.0 { delta } else { return None } }
        }
        Event::Rdp { .. } | Event::Zcdp { .. } | Event::MixtureOfGaussians { .. } => return None,
        Event::Composed { events } => Event::Composed { events: events.iter().map(below).collect::<Option<_>>()? },
        Event::Parallel { blocks } => Event::Parallel { blocks: blocks.iter().map(below).collect::<Option<_>>()? },
        Event::SelfComposed { event, count } => Event::SelfComposed { event: boxed(event)?, count: *count },
        Event::PoissonSampled { sampling_probability, event } => {
            Event::PoissonSampled { sampling_probability: *sampling_probability, event: boxed(event)? }
        }
        Event::SampledWithoutReplacement { source_dataset_size, sample_size, event } => {
            Event::SampledWithoutReplacement {
                source_dataset_size: *source_dataset_size,
                sample_size: *sample_size,
                event: boxed(event)?,
            }
        }
        Event::RandomAllocation { event, num_selected, num_steps } => {
            Event::RandomAllocation { event: boxed(event)?, num_selected: *num_selected, num_steps: *num_steps }
        }
        Event::Approximate { total_variation, event } => {
            Event::Approximate { total_variation: *total_variation, event: boxed(event)? }
        }
        Event::SampledWithReplacement { .. }
        | Event::ProposeTestRelease { .. }
        | Event::UserUnit { .. }
        | Event::Gated { .. }
        | Event::RepeatAndSelect { .. }
        | Event::ObjectivePerturbation { .. } => return None,
        leaf => leaf.clone(),
    })
}

/// Whether the replace-one pair of `event` also covers a record against nothing: a shift of 2C covers C; a choice that is
/// bounded for removal too; a uniform answer is the average of the answers to all records. A number that is merely stated for
/// replace-one says nothing of an absent record, and Poisson sampling mixes with that.
pub fn admits_nothing(event: &Event) -> bool {
    match event {
        Event::Gaussian { .. }
        | Event::Laplace { .. }
        | Event::DiscreteLaplace { .. }
        | Event::DiscreteGaussian { .. }
        | Event::ExponentialMechanism { .. }
        | Event::PermuteAndFlip { .. }
        | Event::RandomizedResponse { .. }
        | Event::ChiSquareGaussian { .. }
        | Event::SingleEpochTreeAggregation { .. }
        | Event::NoOp => true,
        Event::Composed { .. } | Event::SelfComposed { .. } => event.children().iter().all(admits_nothing),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_gaussians_are_bounded() {
        // the group of k of αμ²/2 is αk²μ²/2; the triangle may only exceed it
        for (size, order) in [(2, 3.0), (3, 2.0), (4, 8.0)] {
            let bound = renyi(size, order, &|a| 0.5 * a * 0.01);
            let exact = 0.5 * order * 0.01 * (size * size) as f64;
            assert!(bound >= exact && bound < 4.0 * exact, "{bound} {exact}");
        }
        // a group of any size takes a few evaluations
        let calls = std::cell::Cell::new(0);
        let bound = renyi(1_000_000_000_000, 2.0, &|a| {
            calls.set(calls.get() + 1);
            1e-30 * a
        });
        assert!(bound > 0.5 * 2.0 * 1e-30 * 1e24 && calls.get() <= 16, "{bound} {}", calls.get());
        let delta = approximate(3, 0.0, 0.1).1;
        assert!((0.3..0.3 + 1e-14).contains(&delta));
    }

    #[test]
    fn stated_numbers_grow_and_noise_stays() {
        let event = Event::composed(vec![Event::gaussian(2.0), Event::Gdp { mu: 0.5 }]);
        let expected = Event::composed(vec![Event::gaussian(2.0), Event::Gdp { mu: 1.0 }]);
        assert_eq!(for_replacement(&event, Relation::ZeroOut), Some(expected));
        assert_eq!(for_replacement(&event, Relation::ReplaceOne), Some(event));
    }
}
