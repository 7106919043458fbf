//! From an event to the directed pairs of its leaves (docs/proofs/accounting-pld.md, "Pairs"): each
//! order of the neighbours is composed by itself, and the larger result is taken at the end.

use super::atoms::Atoms;
use super::closed::{self, BoundedRangePair, LaplacePair};
use super::discrete_gaussian::{DiscreteGaussianPair, several};
use super::grid::LARGEST_LOSS;
#[cfg(test)]
use super::injected::{Bug, is as injected};
use super::mixture::{PoissonReplacePair, ShiftMixturePair};
use super::objective::ObjectiveProfile;
use super::pair::{GatedPair, GaussianPair, Pair, Sides, U};
use super::poisson::PoissonPair;
use super::{allocation, chi_square, fixed_size, product, stated, truncated};
use crate::accountant::integer_shift::IntegerShift;
use crate::accountant::{AccountingError, gdp, pure};
use dpopt_event::group;
use dpopt_event::special::ln_binomial_mass;
use dpopt_event::{Event, Relation};
use std::sync::Arc;

/// An event as a product of leaves.
#[derive(Debug, Default)]
pub(crate) struct Leaves {
    pub sides: Vec<(Sides, u64)>,
    /// Σ total variation of `Approximate` nodes.
    pub total_variation: f64,
    /// Whether every leaf is the same in both orders.
    pub symmetric: bool,
}

pub(crate) fn unsupported(relation: Relation, reason: impl Into<String>) -> AccountingError {
    AccountingError::Unsupported { accountant: "pld", relation, reason: reason.into() }
}

/// The products of leaves one of which dominates `event`: several if a record may sit in one of several blocks, and
/// then the largest result counts.
pub(crate) fn alternatives(event: &Event, relation: Relation) -> Result<Vec<Leaves>, AccountingError> {
    let exact = event.exact(relation).map_err(|e| AccountingError::Parameter(e.to_string()))?;
    let mut lists = vec![Parts::default()];
    let mut parallel_nodes = 0;
    for (part, count) in &exact.parts {
        let Event::Parallel { blocks } = part else {
            lists.iter_mut().try_for_each(|list| list.add(part, *count, relation))?;
            continue;
        };
        let mut distinct: Vec<&Event> = vec![];
        for block in blocks {
            if !distinct.contains(&block) {
                distinct.push(block);
            }
        }
        // a record stays in one block of one release; over several releases it might change blocks
        parallel_nodes += 1;
        if distinct.len() > 1 && *count > 1 && gdp::mu(part, relation).is_err() {
            return Err(unsupported(relation, "repeated Parallel nodes with different blocks are not implemented"));
        }
        if distinct.len() > 1 && gdp::mu(part, relation).is_ok() {
            lists.iter_mut().try_for_each(|list| list.add(part, *count, relation))?;
            continue;
        }
        let mut next = vec![];
        for list in &lists {
            for block in &distinct {
                let mut list = list.clone();
                for (inner, times) in
                    &block.exact(relation).map_err(|e| AccountingError::Parameter(e.to_string()))?.parts
                {
                    list.add(inner, count.saturating_mul(*times), relation)?;
                }
                next.push(list);
            }
        }
        lists = next;
        if lists.len() > MAX_ALTERNATIVES {
            return Err(unsupported(
                relation,
                format!("{parallel_nodes} Parallel nodes have more than {MAX_ALTERNATIVES} combinations of blocks"),
            ));
        }
    }
    let mut all = Vec::with_capacity(lists.len());
    for list in lists {
        list.alternatives(exact.total_variation, relation, &mut all)?;
    }
    Ok(all)
}

/// Combinations of blocks that are accounted one by one.
const MAX_ALTERNATIVES: usize = 256;

/// Leaves of an event while they are collected.
#[derive(Clone, Debug, Default)]
struct Parts {
    sides: Vec<(Sides, u64)>,
    /// Σ μ² of everything that is a Gaussian pair.
    mu_squared: f64,
    /// Σ ρ and Σ ξ of everything of which only concentrated privacy is known: added up before a pair is made of them.
    concentrated: (f64, f64),
    /// Stated Rényi curves and how often.
    curves: Vec<(Event, u64)>,
    /// Releases that depend on a test, and how often.
    tested: Vec<(Tested, u64)>,
}

/// A test and what comes after it.
#[derive(Clone, Copy, Debug)]
struct Tested {
    epsilon: f64,
    delta: f64,
    mu: f64,
}

impl Parts {
    fn add(&mut self, part: &Event, count: u64, relation: Relation) -> Result<(), AccountingError> {
        // Gaussian, Gdp, trees, users and blocks of them
        if let Ok((mu, _)) = gdp::mu(part, relation) {
            // rounded up for square, product and sum
            self.mu_squared = (self.mu_squared + count as f64 * mu * mu) * (1.0 + 8.0 * U);
            return Ok(());
        }
        match part {
            Event::Zcdp { rho, xi } => {
                self.add_concentrated(*rho, *xi, count);
                return Ok(());
            }
            Event::ProposeTestRelease { epsilon, delta, noise_multiplier } if *noise_multiplier > 0.0 => {
                let (mu, _) = gdp::mu(&Event::gaussian(*noise_multiplier), relation)?;
                self.tested.push((Tested { epsilon: *epsilon, delta: *delta, mu }, count));
                return Ok(());
            }
            Event::Rdp { .. } => {
                self.curves.push((part.clone(), count));
                return Ok(());
            }
            Event::DiscreteGaussian { sigma, sensitivity, dimension } if *sigma > 0.0 => {
                self.add_integers(*sigma, IntegerShift::new(*sensitivity, *dimension, relation), count);
                return Ok(());
            }
            _ => {}
        }
        if let Event::RandomAllocation { event, num_selected, num_steps } = part {
            return self.add_allocated(event, *num_selected, *num_steps, count, relation);
        }
        if let Event::UserUnit { records_per_user, event } = part {
            let inner = event.exact(relation).map_err(|e| AccountingError::Parameter(e.to_string()))?;
            for (part, times) in &inner.parts {
                let times = count.saturating_mul(*times);
                let records = *records_per_user as f64;
                match (gdp::mu(part, relation), part) {
                    (Ok((mu, _)), _) => {
                        let mu = mu * records;
                        self.mu_squared = (self.mu_squared + times as f64 * mu * mu) * (1.0 + 8.0 * U);
                    }
                    // a group of k: k²ρ (Bun, Steinke 2016, Prop. 27)
                    (_, Event::Zcdp { rho, xi: 0.0 }) => self.add_concentrated(records * records * rho, 0.0, times),
                    (_, Event::DiscreteGaussian { sigma, sensitivity, dimension }) if *sigma > 0.0 => {
                        let shift = IntegerShift::of_users(*sensitivity, *dimension, relation, *records_per_user);
                        self.add_integers(*sigma, shift, times);
                    }
                    _ => self.sides.push((user_sides(*records_per_user, part, relation)?, times)),
                }
            }
            return Ok(());
        }
        self.sides.push((leaf_sides(part, relation)?, count));
        Ok(())
    }

    /// k of t steps (docs/proofs/accounting-allocation.md).
    fn add_allocated(
        &mut self,
        event: &Event,
        k: u64,
        t: u64,
        count: u64,
        relation: Relation,
    ) -> Result<(), AccountingError> {
        if let (Ok((mu, _)), true) = (gdp::mu(event, relation), relation != Relation::ReplaceOne) {
            for (steps, times) in allocation::groups(k, t) {
                let times = count.saturating_mul(times);
                match allocation::sides(steps, mu) {
                    _ if times == 0 => {}
                    Some(sides) => self.sides.push((sides, times)),
                    None => self.add(&Event::Gdp { mu }, times, relation)?,
                }
            }
            return Ok(());
        }
        // whichever steps it takes part in: no less is known of other mechanisms and of replaced records
        let inner = event.exact(relation).map_err(|e| AccountingError::Parameter(e.to_string()))?;
        let times = count.saturating_mul(k);
        inner.parts.iter().try_for_each(|(part, n)| self.add(part, times.saturating_mul(*n), relation))
    }

    fn add_concentrated(&mut self, rho: f64, xi: f64, count: u64) {
        let up = |sum: f64, next: f64| (sum + count as f64 * next) * (1.0 + 8.0 * U);
        self.concentrated = (up(self.concentrated.0, rho), up(self.concentrated.1, xi));
    }

    fn add_integers(&mut self, sigma: f64, shift: IntegerShift, count: u64) {
        match integer_noise(sigma, shift) {
            Some(sides) => self.sides.push((sides, count)),
            None => self.add_concentrated(shift.rho(sigma), 0.0, count),
        }
    }

    /// One release that depends on a test, alone: on each pair of neighbours either the test passes wrongly, with probability δ and as often on both, or it is
    /// a release; so the larger one of both curves. With other releases, which of the two it is may hang on what these show: then both at once.
    fn alternatives(
        mut self,
        total_variation: f64,
        relation: Relation,
        all: &mut Vec<Leaves>,
    ) -> Result<(), AccountingError> {
        let tested = std::mem::take(&mut self.tested);
        let nothing_else = self.sides.is_empty()
            && self.mu_squared == 0.0
            && self.concentrated == (0.0, 0.0)
            && self.curves.is_empty();
        let passed = |delta: f64| leaf_sides(&Event::EpsilonDelta { epsilon: 0.0, delta }, relation);
        let add = |this: &mut Self, one: Tested, count: u64| {
            this.mu_squared = (this.mu_squared + count as f64 * one.mu * one.mu) * (1.0 + 8.0 * U);
            if one.epsilon > 0.0 {
                this.sides.push((leaf_sides(&Event::PureStream { epsilon: one.epsilon }, relation)?, count));
            }
            Ok(())
        };
        if let ([(one, 1)], true) = (&tested[..], nothing_else) {
            if one.delta > 0.0 {
                let sides = vec![(passed(one.delta)?, 1)];
                all.push(Self { sides, ..Self::default() }.finish(total_variation));
            }
            add(&mut self, *one, 1)?;
        } else {
            for (one, count) in tested {
                if one.delta > 0.0 {
                    self.sides.push((passed(one.delta)?, count));
                }
                add(&mut self, one, count)?;
            }
        }
        all.push(self.finish(total_variation));
        Ok(())
    }

    fn finish(mut self, total_variation: f64) -> Leaves {
        let curves: Vec<(&[f64], &[f64], u64)> = self
            .curves
            .iter()
            .filter_map(|(event, count)| match event {
                Event::Rdp { orders, divergences } => Some((&orders[..], &divergences[..], *count)),
                _ => None,
            })
            .collect();
        match &curves[..] {
            [] => {}
            [(orders, divergences, 1)] => self.sides.push((Sides::symmetric(stated::renyi(orders, divergences)), 1)),
            several => {
                let (orders, divergences) = stated::added(several);
                self.sides.push((Sides::symmetric(stated::renyi(&orders, &divergences)), 1));
            }
        }
        let (rho, xi) = self.concentrated;
        if rho > 0.0 || xi > 0.0 {
            self.sides.push((Sides::symmetric(stated::concentrated(rho, xi)), 1));
        }
        if self.mu_squared > 0.0 {
            let pair = GaussianPair { mu: self.mu_squared.sqrt().next_up() };
            self.sides.push((Sides::symmetric(pair), 1));
        }
        let symmetric = self.sides.iter().all(|(s, _)| s.is_symmetric());
        Leaves { sides: self.sides, total_variation, symmetric }
    }
}

fn leaf_sides(leaf: &Event, relation: Relation) -> Result<Sides, AccountingError> {
    let refuse = |reason: String| Err(unsupported(relation, reason));
    if let Ok((mu, _)) = gdp::mu(leaf, relation) {
        return Ok(Sides::symmetric(GaussianPair { mu }));
    }
    Ok(match leaf {
        Event::Laplace { noise_multiplier } if *noise_multiplier > 0.0 => {
            Sides::symmetric(LaplacePair { shift: (relation.sum_sensitivity() / noise_multiplier).next_up() })
        }
        Event::DiscreteLaplace { noise_parameter, sensitivity } => {
            let shift = sensitivity.saturating_mul(relation.sum_sensitivity() as u64);
            match closed::discrete_laplace(*noise_parameter, shift) {
                Some(atoms) => Sides::symmetric(atoms.raised()),
                None => return refuse("the sensitivity of DiscreteLaplace is too large; use a coarser grid".into()),
            }
        }
        Event::RandomizedResponse { noise_parameter, num_buckets } if *noise_parameter > 0.0 => {
            let (forward, backward) = closed::randomized_response(*noise_parameter, *num_buckets, relation);
            Sides { with_to_without: Arc::new(forward.raised()), without_to_with: Arc::new(backward.raised()) }
        }
        Event::DiscreteGaussian { sigma, sensitivity, dimension } if *sigma > 0.0 => {
            discrete_gaussian(*sigma, IntegerShift::new(*sensitivity, *dimension, relation))
        }
        Event::ExponentialMechanism { epsilon } => Sides::symmetric(BoundedRangePair { epsilon: *epsilon }),
        // dominated by Laplace noise, and attained with two candidates (docs/proofs/accounting-pld.md)
        Event::PermuteAndFlip { epsilon } => Sides::symmetric(LaplacePair { shift: *epsilon }),
        Event::PureStream { epsilon } => Sides::symmetric(Atoms::symmetric(&[*epsilon], &[0.0])),
        Event::ApproxDp { epsilon, delta } | Event::EpsilonDelta { epsilon, delta } => {
            Sides::symmetric(Atoms::symmetric(&[*epsilon], &[*delta]))
        }
        Event::PrivacyProfile { epsilons, deltas } => Sides::symmetric(stated::listed(epsilons, deltas)),
        Event::Rdp { orders, divergences } => Sides::symmetric(stated::renyi(orders, divergences)),
        Event::Zcdp { rho, xi } => Sides::symmetric(stated::concentrated(*rho, *xi)),
        Event::MixtureOfGaussians { standard_deviation, sensitivities, sampling_probs } => {
            mixture(*standard_deviation, sensitivities, sampling_probs)
        }
        Event::ObjectivePerturbation { noise_multiplier, regularization, link } => {
            let profile = ObjectiveProfile::new(*noise_multiplier, *regularization, *link, relation)
                .map_err(|reason| unsupported(relation, reason))?;
            Sides::symmetric(profile.pair())
        }
        Event::PoissonSampled { sampling_probability, event } => poisson(*sampling_probability, event, relation)?,
        Event::Gated { probability, event } => {
            let base = whole(event, relation)?;
            let gate = |base: &Arc<dyn Pair>| GatedPair { probability: *probability, base: base.clone() };
            if base.is_symmetric() {
                Sides::symmetric(gate(&base.with_to_without))
            } else {
                Sides {
                    with_to_without: Arc::new(gate(&base.with_to_without)),
                    without_to_with: Arc::new(gate(&base.without_to_with)),
                }
            }
        }
        Event::SampledWithoutReplacement { source_dataset_size, sample_size, event } => {
            let q = (*sample_size as f64 / *source_dataset_size as f64).next_up().min(1.0);
            without_replacement(q, event, relation)?
        }
        Event::SampledWithReplacement { source_dataset_size, sample_size, event } => {
            let Some(replaced) = group::for_replacement(event, relation) else {
                return refuse(format!("{} has no replace-one profile to sample from", name(event)));
            };
            let changed = changed_slots(&replaced, relation)?;
            Sides::symmetric(fixed_size::with_replacement(*source_dataset_size, *sample_size, changed))
        }
        Event::ChiSquareGaussian { degrees_of_freedom, mu } if *mu > 0.0 => {
            Sides::symmetric(chi_square::pair(*degrees_of_freedom, relation.sum_sensitivity() * mu))
        }
        Event::TruncatedSubsampledGaussian {
            dataset_size,
            sampling_probability: q,
            truncated_batch_size,
            noise_multiplier,
        } if *noise_multiplier > 0.0 && *q > 0.0 && *q < 1.0 => {
            let mu = (1.0 / noise_multiplier).next_up();
            let pair = truncated::pair(*dataset_size, *q, *truncated_batch_size, mu, relation);
            if relation == Relation::ReplaceOne { Sides::symmetric(pair) } else { Sides::directed(pair) }
        }
        Event::NonPrivate => return refuse("a value is released without noise".into()),
        Event::Unsupported => return refuse("the event has no description".into()),
        Event::RepeatAndSelect { .. } => match pure::worst(leaf, relation) {
            Some((epsilon, 0.0)) => Sides::symmetric(Atoms::symmetric(&[epsilon], &[0.0])),
            _ => return refuse("the best of a random number of runs is bounded by the rdp accountant only".into()),
        },
        _ => return refuse(format!("no dominating pair is known for {}", name(leaf))),
    })
}

fn discrete_gaussian(sigma: f64, shift: IntegerShift) -> Sides {
    integer_noise(sigma, shift).unwrap_or_else(|| Sides::symmetric(stated::concentrated(shift.rho(sigma), 0.0)))
}

/// `None` where only concentrated privacy is known of integer noise.
fn integer_noise(sigma: f64, shift: IntegerShift) -> Option<Sides> {
    match shift.line {
        Some(line) => Some(Sides::symmetric(DiscreteGaussianPair::new(sigma, line))),
        None => several(sigma, shift.square).map(Sides::symmetric),
    }
}

fn mixture(standard_deviation: f64, sensitivities: &[f64], sampling_probs: &[f64]) -> Sides {
    // equal shifts together; the law is the same
    let mut shifts: Vec<(f64, f64)> = sensitivities
        .iter()
        .zip(sampling_probs)
        .filter(|(_, p)| **p > 0.0)
        .map(|(c, p)| (c / standard_deviation, *p))
        .collect();
    shifts.sort_by(|a, b| a.0.total_cmp(&b.0));
    shifts.dedup_by(|b, a| {
        let same = a.0 == b.0;
        if same {
            a.1 += b.1;
        }
        same
    });
    shift_mixture(shifts.into_iter().map(|(c, p)| (c, p.ln())).collect())
}

fn shift_mixture(shifts: Vec<(f64, f64)>) -> Sides {
    #[cfg(test)]
    if injected(Bug::MixtureOnTheWrongSide) {
        let sides = Sides::directed(ShiftMixturePair { shifts });
        return Sides { with_to_without: sides.without_to_with, without_to_with: sides.with_to_without };
    }
    Sides::directed(ShiftMixturePair { shifts })
}

/// q in (0, 1): `Event::exact` has removed the ends and pooled Gaussians on one sample.
fn poisson(q: f64, event: &Event, relation: Relation) -> Result<Sides, AccountingError> {
    match relation {
        Relation::ZeroOut | Relation::AddOrRemove => {
            if let Ok((mu, _)) = gdp::mu(event, relation) {
                return Ok(Sides::directed(PoissonPair { probability: q, base: GaussianPair { mu } }));
            }
            let base = whole(event, relation)?.with_to_without;
            Ok(Sides::directed(PoissonPair { probability: q, base }))
        }
        Relation::ReplaceOne => match event {
            Event::Gaussian { noise_multiplier } => {
                let mu = (1.0 / noise_multiplier).next_up();
                #[cfg(test)]
                if injected(Bug::ReplaceIsZeroOut) {
                    return Ok(Sides::directed(PoissonPair { probability: q, base: GaussianPair { mu } }));
                }
                Ok(Sides::symmetric(PoissonReplacePair { probability: q, mu }))
            }
            _ if group::admits_nothing(event) => {
                let base = whole(event, relation)?.with_to_without;
                Ok(Sides::symmetric(fixed_size::without_replacement(q, base)))
            }
            _ => Err(unsupported(
                relation,
                format!(
                    "Poisson sampling of {} under replace-one needs a profile that admits an absent record; use zero-out",
                    name(event)
                ),
            )),
        },
    }
}

/// The sides of everything that is released on one sample.
fn whole(event: &Event, relation: Relation) -> Result<Sides, AccountingError> {
    let exact = event.exact(relation).map_err(|e| AccountingError::Parameter(e.to_string()))?;
    if let [(part, 1)] = &exact.parts[..] {
        return leaf_sides(part, relation);
    }
    let mut list = Parts::default();
    exact.parts.iter().try_for_each(|(part, count)| list.add(part, *count, relation))?;
    if !list.tested.is_empty() {
        return Err(unsupported(
            relation,
            "a release that depends on a test stands inside another event; compose the two instead",
        ));
    }
    let mut sides = list.finish(0.0).sides;
    if let [(_, 1)] = sides[..] {
        return Ok(sides.remove(0).0);
    }
    let compose = |side: fn(&Sides) -> &Arc<dyn Pair>| {
        let parts: Vec<_> = sides.iter().map(|(s, t)| (side(s).clone(), *t)).collect();
        product::product(&parts).ok_or_else(|| {
            unsupported(relation, "the releases on one sample span too wide a range; describe them by one event")
        })
    };
    if sides.iter().all(|(s, _)| s.is_symmetric()) {
        return Ok(Sides::symmetric(compose(|s| &s.with_to_without)?));
    }
    Ok(Sides {
        with_to_without: Arc::new(compose(|s| &s.with_to_without)?),
        without_to_with: Arc::new(compose(|s| &s.without_to_with)?),
    })
}

/// The pair of `event` (already under replace-one) when j slots of its batch change.
fn changed_slots(event: &Event, relation: Relation) -> Result<impl Fn(u64) -> Option<Arc<dyn Pair>>, AccountingError> {
    let (gaussian, laplace) = (
        gdp::mu(event, Relation::ReplaceOne).ok(),
        match event {
            Event::Laplace { noise_multiplier } if *noise_multiplier > 0.0 => {
                Some(2.0 / noise_multiplier * (1.0 + 4.0 * U))
            }
            _ => None,
        },
    );
    let worst = pure::worst(event, Relation::ReplaceOne);
    if gaussian.is_none() && worst.is_none() {
        return Err(unsupported(relation, format!("sampling with replacement of {} is not implemented", name(event))));
    }
    Ok(move |j: u64| -> Option<Arc<dyn Pair>> {
        let times = j as f64 * (1.0 + 2.0 * U);
        if let Some((mu, _)) = gaussian {
            return Some(Arc::new(GaussianPair { mu: times * mu }));
        }
        if let Some(shift) = laplace {
            return Some(Arc::new(LaplacePair { shift: times * shift }));
        }
        let (epsilon, delta) = group::approximate(j, worst?.0, worst?.1);
        (epsilon <= LARGEST_LOSS && delta < 1.0)
            .then(|| Arc::new(Atoms::symmetric(&[epsilon], &[delta])) as Arc<dyn Pair>)
    })
}

/// m of n: replace-one constants of the sampled mechanism even under zero-out; the directed form for Gaussians.
fn without_replacement(q: f64, event: &Event, relation: Relation) -> Result<Sides, AccountingError> {
    if let (Event::Gaussian { noise_multiplier }, Relation::ZeroOut) = (event, relation) {
        let (forward, backward) = fixed_size::directed(q, (1.0 / noise_multiplier).next_up());
        return Ok(Sides { with_to_without: Arc::new(forward), without_to_with: Arc::new(backward) });
    }
    let Some(replaced) = group::for_replacement(event, relation) else {
        return Err(unsupported(relation, format!("{} has no replace-one profile to sample from", name(event))));
    };
    let base = whole(&replaced, Relation::ReplaceOne)?;
    #[cfg(test)]
    if injected(Bug::OneSidedFixedSize) {
        return Ok(Sides::symmetric(PoissonPair { probability: q, base: base.with_to_without }));
    }
    #[cfg(test)]
    if injected(Bug::HalvedFixedSize) {
        let base = leaf_sides(&replaced, Relation::ZeroOut)?;
        return Ok(Sides::symmetric(fixed_size::without_replacement(q, base.with_to_without)));
    }
    if !base.is_symmetric() {
        return Err(unsupported(relation, format!("the replace-one profile of {} is not symmetric", name(event))));
    }
    Ok(Sides::symmetric(fixed_size::without_replacement(q, base.with_to_without)))
}

/// A user owns at most `k` records, each clipped by itself.
fn user_sides(k: u64, part: &Event, relation: Relation) -> Result<Sides, AccountingError> {
    match part {
        Event::PoissonSampled { sampling_probability: q, event } if has_group_pair(k, part, relation) => {
            let (mu, _) = gdp::mu(event, relation)?;
            let shifts = (0..=k).map(|j| (j as f64 * mu, ln_binomial_mass(j, k, *q, 1.0 - q)));
            Ok(shift_mixture(shifts.filter(|(_, ln_p)| *ln_p > f64::NEG_INFINITY).collect()))
        }
        _ => converted(k, part, relation),
    }
}

/// Whether a group of k has a pair of its own.
pub(crate) fn has_group_pair(k: u64, part: &Event, relation: Relation) -> bool {
    const MAX_RECORDS: u64 = 256;
    match part {
        Event::PoissonSampled { event, .. } => {
            relation != Relation::ReplaceOne && k <= MAX_RECORDS && gdp::mu(event, relation).is_ok()
        }
        _ => false,
    }
}

/// Points of ε, per record, between which the profile of a group is a chord.
const GROUP_POINTS: usize = 700;

/// The pair of a group of k, from what is known of one record: (kε, δ(ε)·(e^(kε) − 1)/(e^ε − 1)) for ε on a grid, and what is known of it at the end of its
/// losses (docs/proofs/accounting-groups.md).
fn converted(k: u64, part: &Event, relation: Relation) -> Result<Sides, AccountingError> {
    let mut points = match pure::worst(part, relation) {
        Some((epsilon, 0.0)) => group::pure(k, epsilon),
        Some((epsilon, delta)) => vec![group::approximate(k, epsilon, delta)],
        None => vec![],
    };
    let largest = LARGEST_LOSS / k as f64;
    let mut add = |profile: &dyn Fn(&[f64]) -> Vec<f64>, kinks: Vec<f64>| {
        let mut end = largest.min(1e-6);
        // far beyond any δ that is asked for
        while end < largest && profile(&[end])[0] > 1e-61 {
            end = (end * 1.5).min(largest);
        }
        let share = |i: usize| i as f64 / GROUP_POINTS as f64;
        let mut grid: Vec<f64> = (0..=GROUP_POINTS)
            .flat_map(|i| [end * share(i).powi(2), end * 1e-6f64.powf(share(i))])
            .chain(kinks.into_iter().filter(|loss| *loss > 0.0 && *loss < end))
            .collect();
        grid.sort_by(f64::total_cmp);
        grid.dedup();
        points.extend(grid.iter().zip(profile(&grid)).map(|(epsilon, delta)| group::approximate(k, *epsilon, delta)));
    };
    match part {
        Event::ObjectivePerturbation { noise_multiplier, regularization, link } => {
            let profile = ObjectiveProfile::new(*noise_multiplier, *regularization, *link, relation)
                .map_err(|reason| unsupported(relation, reason))?;
            add(&|grid| grid.iter().map(|e| profile.delta(*e).max(f64::MIN_POSITIVE)).collect(), vec![]);
        }
        _ => {
            if let Ok(sides) = leaf_sides(part, relation) {
                let pairs = [sides.with_to_without, sides.without_to_with];
                let both = |grid: &[f64]| {
                    let [one, other] = [0, 1].map(|i| profile_above(&*pairs[i], grid));
                    one.into_iter().zip(other).map(|(a, b)| a.max(b)).collect()
                };
                add(&both, pairs.iter().flat_map(|pair| pair.atoms().losses).collect());
            }
        }
    }
    points.retain(|(epsilon, delta)| *epsilon <= LARGEST_LOSS && *delta < 1.0);
    if points.is_empty() {
        return Err(unsupported(
            relation,
            format!("{} for users of {k} records is not implemented; describe the users' own event", name(part)),
        ));
    }
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    points.dedup_by(|later, earlier| later.0 == earlier.0);
    let (epsilons, mut deltas): (Vec<f64>, Vec<f64>) = points.into_iter().unzip();
    for i in 1..deltas.len() {
        deltas[i] = deltas[i].min(deltas[i - 1]);
    }
    Ok(Sides::symmetric(Atoms::symmetric(&epsilons, &deltas)))
}

/// Upper bounds of the pair's δ at every ε of an increasing `grid` of numbers that are not negative.
fn profile_above(pair: &dyn Pair, grid: &[f64]) -> Vec<f64> {
    let masses = pair.masses(grid);
    let (mut p, mut q) = (0.0, 0.0);
    let mut above: Vec<(f64, f64)> = (0..=grid.len())
        .rev()
        .map(|cell| {
            p = (p + masses.p[cell] + masses.p_error[cell]) * (1.0 + 2.0 * U);
            q = (q + (masses.q[cell] - masses.q_error[cell]).max(0.0)) * (1.0 - 2.0 * U);
            (p, q)
        })
        .collect();
    above.reverse();
    // cell i + 1 and those above it lie above border i; a border is off by 4u(1 + ε), which costs at most that much of what lies near it
    let delta = |(i, epsilon): (usize, &f64)| {
        let ((p, q), near) = (above[i + 1], above[i].0);
        let moved = 16.0 * U * (1.0 + epsilon) * near;
        let taken = epsilon.exp() * (1.0 - (4.0 + 2.0 * epsilon) * U) * q;
        ((p - taken) * (1.0 + 2.0 * U) + moved).clamp(f64::MIN_POSITIVE, 1.0)
    };
    grid.iter().enumerate().map(|(i, epsilon)| delta((i, epsilon))).collect()
}

/// The class name of an event.
pub(crate) fn name(event: &Event) -> String {
    format!("{event:?}").chars().take_while(|c| c.is_alphanumeric()).collect()
}
