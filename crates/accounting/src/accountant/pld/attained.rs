//! Pairs that some mechanism described by the event really has: what the event costs at least.
//!
//! A dominating pair lies above every mechanism of an event's kind; where no mechanism reaches it, what it attains is no lower
//! bound. Here every leaf is replaced by a pair of one mechanism of its kind (`docs/proofs/accounting-gate.md`, table), a leaf
//! without one is left out (dropping a release is post-processing), and so are samplers' errors (the exact law is allowed).

use super::allocation;
use super::atoms::Atoms;
use super::closed::{self, BoundedRangePair, LaplacePair};
use super::discrete_gaussian::DiscreteGaussianPair;
use super::grid::LARGEST_LOSS;
use super::mixture::{PoissonReplacePair, ShiftMixturePair};
use super::pair::{GaussianPair, Pair, Sides, U};
use super::poisson::PoissonPair;
use super::stated;
use super::tree::Leaves;
use super::truncated;
use crate::accountant::gdp;
use crate::accountant::integer_shift::IntegerShift;
use dpopt_event::special::ln_binomial_mass;
use dpopt_event::{Event, Relation};
use dpopt_process::stop::paced;
use std::sync::Arc;

/// How a pair will be used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Use {
    /// For one release at one ε: the mechanism may be chosen for that ε.
    Alone,
    /// In compositions at every ε: one mechanism for all of them.
    Composed,
}

/// Rounding of stated and computed parameters, taken off: sums of a thousand parts lie within 1e-12.
const DOWN: f64 = 1.0 - 1e-12;
/// Copies of a record in a sample with replacement that are told apart.
const MAX_COPIES: u64 = 64;

/// The attained pairs of a part of a simplified event; `None` where none is known.
pub(crate) fn sides(part: &Event, relation: Relation, how: Use) -> Option<Sides> {
    if let Some(mu) = gaussian(part, relation) {
        return Some(Sides::symmetric(GaussianPair { mu: mu * DOWN }));
    }
    let sensitivity = relation.sum_sensitivity();
    Some(match part {
        Event::Laplace { noise_multiplier } if *noise_multiplier > 0.0 => {
            Sides::symmetric(LaplacePair { shift: (sensitivity / noise_multiplier).next_down() })
        }
        Event::DiscreteLaplace { noise_parameter, sensitivity: s } => {
            Sides::symmetric(closed::discrete_laplace(*noise_parameter, s.saturating_mul(sensitivity as u64))?)
        }
        Event::RandomizedResponse { noise_parameter, num_buckets } if *noise_parameter > 0.0 => {
            let (forward, backward) = closed::randomized_response(*noise_parameter, *num_buckets, relation);
            Sides { with_to_without: Arc::new(forward), without_to_with: Arc::new(backward) }
        }
        Event::DiscreteGaussian { sigma, sensitivity, dimension } if *sigma > 0.0 => {
            Sides::symmetric(DiscreteGaussianPair::new(*sigma, line(*sensitivity, *dimension, relation, 1)))
        }
        Event::ExponentialMechanism { epsilon } if how == Use::Alone && *epsilon > 0.0 => {
            Sides::symmetric(BoundedRangePair { epsilon: *epsilon })
        }
        // two candidates whose scores move against each other: losses ±ε/2
        Event::ExponentialMechanism { epsilon } => Sides::symmetric(coin(0.5 * epsilon, 0.0)?),
        Event::PermuteAndFlip { epsilon } if *epsilon > 0.0 => Sides::symmetric(LaplacePair { shift: *epsilon }),
        // randomized response has the stated ε (and reports the data outright with probability δ)
        Event::PureStream { epsilon } => Sides::symmetric(coin(*epsilon, 0.0)?),
        Event::ApproxDp { epsilon, delta } | Event::EpsilonDelta { epsilon, delta } => {
            Sides::symmetric(coin(*epsilon, *delta)?)
        }
        // every convex profile is the profile of some pair
        Event::PrivacyProfile { epsilons, deltas } if epsilons.last().is_some_and(|e| *e <= LARGEST_LOSS) => {
            Sides::symmetric(stated::listed(epsilons, deltas))
        }
        Event::MixtureOfGaussians { standard_deviation, sensitivities, sampling_probs } => {
            let shifts = sensitivities.iter().zip(sampling_probs).filter(|(_, p)| **p > 0.0);
            shifted(shifts.map(|(c, p)| (c / standard_deviation, p.ln())).collect())
        }
        Event::PoissonSampled { sampling_probability, event } => poisson(*sampling_probability, event, relation, how)?,
        Event::SampledWithoutReplacement { source_dataset_size, sample_size, event } => {
            // the other records look like the absent one, so that a sample without the record tells nothing
            let q = (*sample_size as f64 / *source_dataset_size as f64).next_down();
            sampled(q, whole(event, relation, how)?)
        }
        Event::SampledWithReplacement { source_dataset_size, sample_size, event } => {
            // the other records contribute nothing: j copies are a shift of j
            let mu = gaussian(event, relation)? * DOWN;
            let p = 1.0 / *source_dataset_size as f64;
            let weight = |j: u64| ln_binomial_mass(j, *sample_size, p, 1.0 - p);
            let copies = (0..=MAX_COPIES.min(*sample_size)).map(|j| (j as f64 * mu, weight(j)));
            let mut copies: Vec<(f64, f64)> = copies.filter(|(_, ln)| *ln > f64::NEG_INFINITY).collect();
            // a sum may count at most so many copies: one copy still moves it by one, and all further ones lie there
            let rest = 1.0 - copies.iter().map(|(_, ln)| ln.exp()).sum::<f64>();
            if *sample_size > MAX_COPIES && rest > 0.0 {
                // what may be rounding is not taken for a shift
                copies.push((if rest > 1e-9 { MAX_COPIES as f64 * mu } else { 0.0 }, rest.ln()));
            }
            shifted(copies)
        }
        Event::TruncatedSubsampledGaussian {
            dataset_size,
            sampling_probability: q,
            truncated_batch_size,
            noise_multiplier,
        } if *noise_multiplier > 0.0 && *q > 0.0 && *q < 1.0 => {
            // the other records contribute nothing; where their number is not known there may be none
            let records = if relation == Relation::AddOrRemove { 1 } else { *dataset_size };
            let kept = truncated::inclusion(records, *q, *truncated_batch_size);
            let mu = (1.0 / noise_multiplier).next_down();
            if relation == Relation::ReplaceOne {
                Sides::symmetric(PoissonReplacePair { probability: kept, mu })
            } else {
                sampled(kept, Arc::new(GaussianPair { mu }))
            }
        }
        Event::RandomAllocation { .. } => one_of_few(part, relation)?,
        Event::UserUnit { records_per_user, event } => return user(*records_per_user, event, relation, how),
        _ => return None,
    })
}

/// μ of a part that a Gaussian mechanism is an instance of.
fn gaussian(part: &Event, relation: Relation) -> Option<f64> {
    let mu = match part {
        Event::Zcdp { rho, .. } => (2.0 * rho).sqrt(),
        Event::Rdp { orders, divergences } => {
            let least = orders.iter().zip(divergences).map(|(a, d)| d / a).fold(f64::INFINITY, f64::min);
            (2.0 * least).sqrt()
        }
        // all steps added up
        Event::RandomAllocation { event, num_selected, num_steps } if one_of_few(part, relation).is_none() => {
            gaussian(event, relation)? * *num_selected as f64 / (*num_steps as f64).sqrt()
        }
        // a loss that is linear in the score has no curvature: the minimiser is a Gaussian
        Event::ObjectivePerturbation { noise_multiplier, .. } => 1.0 / noise_multiplier,
        other => gdp::mu(other, relation).ok()?.0,
    };
    (mu > 0.0 && mu.is_finite()).then_some(mu)
}

/// The pair of a record that is in one of so few steps that their joint law is known.
fn one_of_few(part: &Event, relation: Relation) -> Option<Sides> {
    let Event::RandomAllocation { event, num_selected: 1, num_steps } = part else { return None };
    let mu = if relation == Relation::ReplaceOne { None } else { gaussian(event, relation) };
    allocation::attained(*num_steps, mu? * DOWN)
}

/// Losses ±ε, and +∞ with probability δ; `None` where e^ε overflows.
fn coin(epsilon: f64, delta: f64) -> Option<Atoms> {
    (epsilon <= LARGEST_LOSS).then(|| Atoms::symmetric(&[epsilon], &[delta]))
}

/// A shift along one of the sums.
fn line(sensitivity: f64, dimension: Option<u64>, relation: Relation, records: u64) -> f64 {
    let shift = IntegerShift::of_users(sensitivity, dimension, relation, records);
    shift.line.unwrap_or_else(|| sensitivity.floor() * relation.sum_sensitivity() * records as f64)
}

fn shifted(mut shifts: Vec<(f64, f64)>) -> Sides {
    shifts.sort_by(|a, b| a.0.total_cmp(&b.0));
    Sides::directed(ShiftMixturePair { shifts })
}

fn sampled(q: f64, base: Arc<dyn Pair>) -> Sides {
    Sides::directed(PoissonPair { probability: q, base })
}

fn poisson(q: f64, event: &Event, relation: Relation, how: Use) -> Option<Sides> {
    if let (Event::Gaussian { noise_multiplier }, Relation::ReplaceOne) = (event, relation) {
        return Some(Sides::symmetric(PoissonReplacePair { probability: q, mu: (1.0 / noise_multiplier).next_down() }));
    }
    // under replace-one the record may be replaced by one that contributes nothing, but not what was stated
    let noise = matches!(event, Event::Laplace { .. } | Event::DiscreteLaplace { .. } | Event::DiscreteGaussian { .. });
    match relation {
        Relation::ReplaceOne if noise => Some(sampled(q, whole(event, Relation::ZeroOut, how)?)),
        Relation::ReplaceOne => None,
        _ => Some(sampled(q, whole(event, relation, how)?)),
    }
}

/// (with → without) of the release on a sample: of several releases the one that tells most at ε = 0.
fn whole(event: &Event, relation: Relation, how: Use) -> Option<Arc<dyn Pair>> {
    let exact = event.exact(relation).ok()?;
    let pairs = exact.parts.iter().filter_map(|(part, _)| Some(sides(part, relation, how)?.with_to_without));
    pairs.max_by(|a, b| single_delta(a, 0.0).total_cmp(&single_delta(b, 0.0)))
}

/// A user with `k` records; one record where no more is known.
fn user(k: u64, event: &Event, relation: Relation, how: Use) -> Option<Sides> {
    let exact = event.exact(relation).ok()?;
    let [(part, 1)] = &exact.parts[..] else {
        // of several releases one; which order of the neighbours it is must not be mixed up in a composition
        let pair = whole(event, relation, how)?;
        return (how == Use::Alone).then(|| Sides { with_to_without: pair.clone(), without_to_with: pair });
    };
    match part {
        Event::DiscreteGaussian { sigma, sensitivity, dimension } if *sigma > 0.0 => {
            Some(Sides::symmetric(DiscreteGaussianPair::new(*sigma, line(*sensitivity, *dimension, relation, k))))
        }
        Event::PoissonSampled { sampling_probability: q, event }
            if relation != Relation::ReplaceOne && k <= MAX_COPIES =>
        {
            let mu = gaussian(event, relation)? * DOWN;
            let shifts = (0..=k).map(|j| (j as f64 * mu, ln_binomial_mass(j, k, *q, 1.0 - q)));
            Some(shifted(shifts.filter(|(_, ln)| *ln > f64::NEG_INFINITY).collect()))
        }
        other => sides(other, relation, how),
    }
}

/// The attained pairs of a composition, one list for each choice of blocks; parts without one are left out.
pub(crate) fn alternatives(event: &Event, relation: Relation) -> Vec<Leaves> {
    let Ok(exact) = event.exact(relation) else { return vec![] };
    let mut lists: Vec<Vec<(Event, u64)>> = vec![vec![]];
    for (part, count) in exact.parts {
        match part {
            Event::Parallel { ref blocks } if gaussian(&part, relation).is_none() => {
                let inner: Vec<_> = blocks.iter().filter_map(|b| b.exact(relation).ok()).collect();
                // the blocks of the first such node are tried one by one, all others stay in their first one
                let tried = if lists.len() == 1 { inner.len() } else { 1 };
                let old = std::mem::take(&mut lists);
                for block in inner.into_iter().take(tried.clamp(1, 16)) {
                    for list in &old {
                        let more = block.parts.iter().map(|(e, t)| (e.clone(), t.saturating_mul(count)));
                        lists.push(list.iter().cloned().chain(more).collect());
                    }
                }
                if lists.is_empty() {
                    lists = old;
                }
            }
            part => lists.iter_mut().for_each(|list| list.push((part.clone(), count))),
        }
    }
    lists.iter().map(|list| leaves(list, relation)).collect()
}

fn leaves(parts: &[(Event, u64)], relation: Relation) -> Leaves {
    let (mut out, mut mu_squared) = (Leaves::default(), 0.0);
    let how = if let [(_, 1)] = parts { Use::Alone } else { Use::Composed };
    for (part, count) in parts {
        match gaussian(part, relation) {
            Some(mu) => mu_squared += *count as f64 * mu * mu,
            None => out.sides.extend(sides(part, relation, how).map(|s| (s, *count))),
        }
    }
    if mu_squared > 0.0 && mu_squared.is_finite() {
        out.sides.push((Sides::symmetric(GaussianPair { mu: mu_squared.sqrt() * DOWN }), 1));
    }
    out.symmetric = out.sides.iter().all(|(s, _)| s.is_symmetric());
    out
}

/// δ(ε) = P{L > ε} − e^ε Q{L > ε} of one pair, rounded down; 0 where it cannot be told.
pub(crate) fn single_delta(pair: &dyn Pair, epsilon: f64) -> f64 {
    let m = pair.masses(&[epsilon]);
    let p = m.p[1] - m.p_error[1];
    // by logarithms: e^ε may overflow where Q has no mass left
    let q = (m.q[1] + m.q_error[1] + f64::MIN_POSITIVE).ln() + epsilon;
    let delta =
        p - q.exp() * (1.0 + 8.0 * (1.0 + q.abs() + epsilon.abs()) * U) - 16.0 * (1.0 + epsilon.abs()) * U * p.abs();
    // NaN knows nothing
    if delta > 0.0 { delta.min(1.0) } else { 0.0 }
}

/// What δ(ε) of the event is certainly not below: of any one part, and of many equal draws by counting.
pub(crate) fn delta_floor(event: &Event, relation: Relation, epsilon: f64) -> f64 {
    let mut floor = 0.0f64;
    let mut look = |sides: Sides, draws: Option<u64>| {
        let backward = (!sides.is_symmetric()).then(|| sides.without_to_with.clone());
        for pair in std::iter::once(sides.with_to_without).chain(backward) {
            floor = floor.max(match draws {
                None => single_delta(&pair, epsilon),
                Some(draws) => counted(&pair, draws, epsilon),
            });
        }
    };
    let Ok(exact) = event.exact(relation) else { return 0.0 };
    for (part, _) in paced(&exact.parts) {
        if let Some(sides) = sides(part, relation, Use::Alone) {
            look(sides, None);
        }
    }
    for leaves in alternatives(event, relation) {
        for (sides, count) in paced(leaves.sides) {
            look(sides, Some(count));
        }
    }
    floor
}

/// δ of `draws` equal draws from below: of the test that counts losses above 0. With k between the means of the two binomial
/// counts, κ = k/T, Chernoff gives P{count ≥ k} ≥ 1 − e^(−T·KL(κ‖p)) and Q{count ≥ k} ≤ e^(−T·KL(κ‖q)).
fn counted(pair: &dyn Pair, draws: u64, epsilon: f64) -> f64 {
    const WORTH: u64 = 8;
    // larger counts would feel the rounding of divergences
    if !(WORTH..=1 << 40).contains(&draws) {
        return 0.0;
    }
    let t = draws as f64;
    let m = pair.masses(&[0.0]);
    // it falls in x and in y: with both from above it is at most what it is with the masses themselves
    let above = |mass: f64, error: f64| (mass + error) * (1.0 + 2.0 * U);
    let (p, not_p) = (above(m.p[1], m.p_error[1]), above(m.p[0], m.p_error[0]));
    let (q, not_q) = (above(m.q[1], m.q_error[1]), above(m.q[0], m.q_error[0]));
    // counts between the means, whatever these are
    let (least, most) = (t * q, t * (m.p[1] - m.p_error[1]) * (1.0 - 4.0 * U));
    let mut best = 0.0f64;
    // κ ln(κ/x) + (1 − κ) ln((1 − κ)/y) rounded down
    let divergence = |k: f64, x: f64, y: f64| {
        let (a, b) = (k / t, (t - k) / t);
        let (first, second) = (a * (a / x).ln(), b * (b / y).ln());
        first + second - 16.0 * U * (first.abs() + second.abs() + 1.0)
    };
    for share in [0.02, 0.1, 0.3, 0.5, 0.7, 0.9] {
        let k = (most + share * (least - most)).round();
        if !(k > least && k < most && not_p > 0.0 && not_q > 0.0 && k < t) {
            continue;
        }
        let kept = -(-t * divergence(k, p, not_p)).exp_m1();
        let mistaken = (epsilon - t * divergence(k, q, not_q)).exp();
        let delta = kept * (1.0 - 1e-9) - mistaken * (1.0 + 1e-9);
        if delta > best {
            best = delta.min(1.0);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::super::pair::Masses;
    use super::*;

    /// Losses ±ln 1.5, of which three of the four masses are known well and one badly.
    #[derive(Debug)]
    struct Coin {
        badly: usize,
    }

    impl Pair for Coin {
        fn masses(&self, _: &[f64]) -> Masses {
            let error = |i: usize| if self.badly == i { 0.05 } else { 0.0 };
            let (p, q) = (vec![0.4, 0.6], vec![0.6, 0.4]);
            Masses { p, q, p_error: vec![error(0), error(1)], q_error: vec![error(2), error(3)] }
        }
    }

    /// No loss of the event is above 61 · 4.3188e-5 = 0.00263: what is released beyond that is the sampler's error, 1e-66, and
    /// what Q has alone must not be the rounding of a sum.
    #[test]
    fn a_rounded_sum_is_no_floor() {
        let integers = Event::DiscreteLaplace { noise_parameter: 4.3188e-5, sensitivity: 61 };
        for event in [integers.clone(), integers.clone().poisson_sampled(1.0), integers.poisson_sampled(0.25)] {
            for relation in [Relation::ZeroOut, Relation::AddOrRemove] {
                assert_eq!(delta_floor(&event, relation, 3.804248894504615e-3), 0.0, "{event} {relation:?}");
                assert!(delta_floor(&event, relation, 1e-4) > 0.0);
            }
        }
    }

    /// Of 100,000 coins 60,000 show heads, ± 155: a summed loss above 10,000 needs 62,332 and has a probability below 1e-40.
    #[test]
    fn masses_known_badly_do_not_make_counts_tell_more() {
        for badly in 0..5 {
            assert!(counted(&Coin { badly }, 100_000, 10_000.0) < 1e-40, "{badly}");
            assert!(badly < 4 || counted(&Coin { badly }, 100_000, 7_000.0) > 0.9);
        }
    }
}
