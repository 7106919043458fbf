//! Rényi accounting (Mironov 2017; Mironov, Talwar, Zhang 2019; Wang, Balle, Kasiviswanathan 2019).
//!
//! Divergences of one order add up, and each order converts to (ε, δ) by itself ([`conversion`]).
//! Looser than the loss distribution of `pld` but valid at a fixed order under full adaptivity, which is what
//! filters and the ledger of `dpopt-privacy` need.
//!
//! Covers: thesis proposition 2.4.2 (certified)

mod closed;
mod excess;
mod generic;
mod hull;
mod objective;
mod repeat;

use super::integer_shift::IntegerShift;
use super::sampler_error::{delta_with_error, epsilon_with_error};
use super::{Accountant, AccountingError, Bound, conversion, gdp, pld, pure};
use dpopt_event::event::Exact;
use dpopt_event::special::UNIT_ROUNDOFF;
use dpopt_event::{Event, Relation, group};
use dpopt_process::stop::Pace;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// Trees of Gaussian, Laplace, discrete Laplace, randomized response, stated guarantees and objective perturbation;
/// Poisson or fixed-size samples of them.
#[derive(Clone, Copy, Debug)]
pub struct RdpAccountant;

const NAME: &str = "rdp";

/// What an event costs at one order: (D_α ≤ `divergence`) outside of an event of probability `delta`, for a mechanism
/// within `total_variation` of the real one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Rényi divergence in nats, the larger of both directions; may be +∞.
    pub divergence: f64,
    /// Probability that is set aside (the δ of (ε, δ)-mechanisms); adds to δ.
    pub delta: f64,
    /// Sampler error τ; adds (1 + e^ε)·τ to δ.
    pub total_variation: f64,
}

/// Cost of `event` at the order `order` > 1, rounded up. An event may have no finite divergence at this order.
///
/// ```
/// use dpopt_privacy::{Event, Relation, accountant::rdp};
/// let step = Event::gaussian(1.0).poisson_sampled(0.01);
/// let cost = rdp::cost(&step, Relation::ZeroOut, 2.0)?;
/// assert!((cost.divergence / 1.718134220745e-4 - 1.0).abs() < 1e-9);
/// # Ok::<(), dpopt_privacy::accountant::AccountingError>(())
/// ```
pub fn cost(event: &Event, relation: Relation, order: f64) -> Result<Cost, AccountingError> {
    Known::default().cost(event, relation, order)
}

/// What has been worked out while one bound is computed. Nested nodes ask for the same orders of the same events again and
/// again; without this their time would grow as a power of the depth.
#[derive(Default)]
struct Known {
    parts: RefCell<HashMap<Place, Result<(f64, f64), AccountingError>>>,
    /// The part of a repetition that does not depend on the order.
    extras: RefCell<HashMap<Place, f64>>,
    /// Curves that are asked for at all integers.
    curves: RefCell<HashMap<Place, Rc<Curve>>>,
    /// Lets a caller stop a long computation.
    pace: RefCell<Pace>,
}

/// The curve of a mechanism that is sampled; orders are asked for many times.
struct Curve {
    exact: Exact,
    relation: Relation,
    /// The divergence at the orders 0, 1, 2, …; NaN where it is not known yet.
    integers: RefCell<Vec<f64>>,
}

impl Curve {
    fn at(&self, known: &Known, order: f64) -> Result<f64, AccountingError> {
        let place = order as usize;
        let integer = place as f64 == order && place < 2048;
        if let Some(stored) = self.integers.borrow().get(place).filter(|x| integer && !x.is_nan()) {
            return Ok(*stored);
        }
        let value = match known.total(&self.exact, self.relation, order)? {
            Cost { divergence, delta: 0.0, total_variation: 0.0 } => divergence,
            _ => return Err(no_pair(&self.exact.event(), self.relation)),
        };
        if integer {
            let mut integers = self.integers.borrow_mut();
            if integers.len() <= place {
                integers.resize(place + 1, f64::NAN);
            }
            integers[place] = value;
        }
        Ok(value)
    }
}

/// An event's fingerprint, the relation and the bits of the order.
type Place = ([u8; 32], Relation, u64);

impl Known {
    fn cost(&self, event: &Event, relation: Relation, order: f64) -> Result<Cost, AccountingError> {
        let exact = event.exact(relation).map_err(|e| AccountingError::Parameter(e.to_string()))?;
        self.total(&exact, relation, order)
    }

    fn total(&self, exact: &Exact, relation: Relation, order: f64) -> Result<Cost, AccountingError> {
        if !(order > 1.0 && order.is_finite()) {
            return Err(AccountingError::Parameter(format!(
                "the Rényi order is {order}; it must be above 1 and finite"
            )));
        }
        let mut total = Cost { divergence: 0.0, delta: 0.0, total_variation: exact.total_variation };
        for (part, count) in &exact.parts {
            let (divergence, delta) = self.part(part, relation, order)?;
            total.divergence = up(total.divergence + *count as f64 * divergence);
            total.delta = up(total.delta + *count as f64 * delta);
        }
        Ok(total)
    }

    /// The curve of `event` alone. It has values only where nothing is set aside: that has no place in the bounds that use it.
    fn curve(&self, event: &Event, relation: Relation) -> Result<Rc<Curve>, AccountingError> {
        let place = (event.fingerprint(), relation, 0);
        if let Some(curve) = self.curves.borrow().get(&place) {
            return Ok(curve.clone());
        }
        let exact = event.exact(relation).map_err(|e| AccountingError::Parameter(e.to_string()))?;
        let curve = Rc::new(Curve { exact, relation, integers: RefCell::default() });
        self.curves.borrow_mut().insert(place, curve.clone());
        Ok(curve)
    }

    /// (divergence, δ set aside) of one part of a simplified event.
    fn part(&self, part: &Event, relation: Relation, order: f64) -> Result<(f64, f64), AccountingError> {
        if part.children().is_empty() {
            return part_cost(self, part, relation, order);
        }
        let place = (part.fingerprint(), relation, order.to_bits());
        if let Some(known) = self.parts.borrow().get(&place) {
            return known.clone();
        }
        let cost = part_cost(self, part, relation, order);
        self.parts.borrow_mut().insert(place, cost.clone());
        cost
    }
}

fn up(x: f64) -> f64 {
    if x == 0.0 { 0.0 } else { x * (1.0 + 8.0 * UNIT_ROUNDOFF) }
}

/// Rounding of the closed forms, relative; quadratures carry their own.
const CLOSED: f64 = 1.0 + 1e-13;

/// (divergence, δ set aside), what underflows being more than nothing.
fn part_cost(known: &Known, part: &Event, relation: Relation, order: f64) -> Result<(f64, f64), AccountingError> {
    known.pace.borrow_mut().step();
    let (divergence, delta) = computed_cost(known, part, relation, order)?;
    // what is no number is no knowledge
    let known = divergence > f64::NEG_INFINITY;
    let divergence = if known { super::not_underflown(part, divergence) } else { f64::INFINITY };
    Ok((divergence, delta))
}

fn computed_cost(known: &Known, part: &Event, relation: Relation, order: f64) -> Result<(f64, f64), AccountingError> {
    let refuse = |reason: String| Err(AccountingError::Unsupported { accountant: NAME, relation, reason });
    let gaussian = |mu: f64| 0.5 * order * mu * mu * CLOSED;
    let sensitivity = relation.sum_sensitivity();
    let divergence = match part {
        Event::NoOp => 0.0,
        Event::Gaussian { .. } | Event::Gdp { .. } | Event::SingleEpochTreeAggregation { .. } => {
            gaussian(gdp::mu(part, relation)?.0)
        }
        Event::Laplace { noise_multiplier } => closed::laplace(sensitivity / noise_multiplier, order) * CLOSED,
        Event::DiscreteLaplace { noise_parameter, sensitivity: s } => {
            closed::discrete_laplace(*noise_parameter, *s as f64 * sensitivity, order) * CLOSED
        }
        Event::RandomizedResponse { noise_parameter, num_buckets } => {
            closed::randomized_response(*noise_parameter, *num_buckets, order, relation) * CLOSED
        }
        Event::ExponentialMechanism { epsilon } => closed::bounded_range(*epsilon, order) * CLOSED,
        Event::PermuteAndFlip { epsilon } => closed::laplace(*epsilon, order) * CLOSED,
        Event::DiscreteGaussian { sigma, sensitivity, dimension } => {
            let shift = IntegerShift::new(*sensitivity, *dimension, relation);
            closed::discrete_gaussian(*sigma, shift, order) * CLOSED
        }
        Event::PureStream { epsilon } => closed::pure(*epsilon, order) * CLOSED,
        Event::ApproxDp { epsilon, delta } | Event::EpsilonDelta { epsilon, delta } => {
            return Ok((closed::pure(*epsilon, order) * CLOSED, *delta));
        }
        Event::PrivacyProfile { epsilons, deltas } => {
            let (atoms, delta) = hull::atoms(epsilons, deltas);
            // the finite part made a law of its own: bounds of the total variation need one
            let whole = -(-delta).ln_1p() * order / (order - 1.0);
            return Ok((hull::divergence(&atoms, order) + up(whole), delta));
        }
        Event::Rdp { orders, divergences } => conversion::interpolate(orders, divergences, order) * CLOSED,
        Event::Zcdp { rho, xi } => (xi + rho * order) * CLOSED,
        Event::ChiSquareGaussian { degrees_of_freedom, mu } => {
            closed::chi_square(*degrees_of_freedom, sensitivity * mu, order) * CLOSED
        }
        Event::MixtureOfGaussians { standard_deviation, sensitivities, sampling_probs } => {
            excess::gaussian_mixture(*standard_deviation, sensitivities, sampling_probs, order)
        }
        Event::ObjectivePerturbation { .. } => match objective::divergence(part, relation, order) {
            Ok(divergence) => divergence,
            Err(reason) => return refuse(reason.into()),
        },
        Event::PoissonSampled { sampling_probability, event } => {
            return poisson(known, *sampling_probability, event, relation, order);
        }
        Event::Gated { probability, event } => {
            let inside = known.cost(event, relation, order)?;
            return Ok((
                closed::gated(*probability, inside.divergence, order) * CLOSED,
                up(probability * inside.delta),
            ));
        }
        Event::RandomAllocation { event, num_selected, num_steps } => {
            let several =
                |divergence: f64, delta: f64, count: u64| (up(count as f64 * divergence), up(count as f64 * delta));
            if let (Ok((mu, _)), true) = (gdp::mu(event, relation), relation != Relation::ReplaceOne) {
                let mut sum = (0.0, 0.0);
                for (steps, count) in pld::allocation::groups(*num_selected, *num_steps) {
                    if count > 0 {
                        let (divergence, delta) = pld::allocation::divergence(steps, mu, order);
                        let group = several(divergence, delta, count);
                        sum = (up(sum.0 + group.0), up(sum.1 + group.1));
                    }
                }
                return Ok(sum);
            }
            // whichever steps it takes part in
            let cost = known.cost(event, relation, order)?;
            return Ok(several(cost.divergence, cost.delta, *num_selected));
        }
        Event::SampledWithoutReplacement { source_dataset_size, sample_size, event } => {
            let q = (*sample_size as f64 / *source_dataset_size as f64).next_up().min(1.0);
            return fixed_size(known, q, event, relation, order);
        }
        Event::Parallel { blocks } => {
            let mut most: (f64, f64) = (0.0, 0.0);
            for block in blocks {
                let block = known.cost(block, relation, order)?;
                most = (most.0.max(block.divergence), most.1.max(block.delta));
            }
            return Ok(most);
        }
        Event::UserUnit { records_per_user, event } => return user(known, *records_per_user, event, relation, order),
        Event::RepeatAndSelect { event, mean, shape } => {
            repeated(known, event, *mean, *shape, relation, order)? * CLOSED
        }
        Event::NonPrivate => return refuse("a value is released without noise".into()),
        Event::Unsupported => return refuse("the event has no description".into()),
        other => return refuse(format!("{other} has no Rényi bound here; use the pld accountant")),
    };
    Ok((divergence, 0.0))
}

/// The best of a random number of runs.
fn repeated(
    known: &Known,
    event: &Event,
    mean: f64,
    shape: f64,
    relation: Relation,
    order: f64,
) -> Result<f64, AccountingError> {
    if let Some(reason) = repeat::refused(mean, shape) {
        return Err(AccountingError::Unsupported { accountant: NAME, relation, reason });
    }
    let curve = known.curve(event, relation)?;
    let own = curve.at(known, order)?;
    if shape.is_finite() && mean == 1.0 {
        return Ok(own);
    }
    if shape == f64::INFINITY {
        let delta = delta_of_base(known, event, &curve, repeat::poisson_epsilon(order));
        return Ok(repeat::poisson(own, delta, mean, order));
    }
    let whole = Event::RepeatAndSelect { event: Box::new(event.clone()), mean, shape };
    let place = (whole.fingerprint(), relation, 0);
    let stored = known.extras.borrow().get(&place).copied();
    let extra = stored.unwrap_or_else(|| {
        // an order without a bound is one that is not chosen
        let base = |a: f64| curve.at(known, a).unwrap_or(f64::INFINITY);
        repeat::negative_binomial_extra(base, mean, shape, &orders(event))
    });
    known.extras.borrow_mut().insert(place, extra);
    let several = own + extra + mean.ln() / (order - 1.0);
    // a pure base stays pure
    let pure = match pure::worst(&whole, relation) {
        Some((epsilon, 0.0)) => closed::pure(epsilon, order),
        _ => f64::INFINITY,
    };
    Ok(several.min(pure))
}

/// Smallest δ that some accountant certifies at `epsilon` for the mechanism that is repeated.
fn delta_of_base(known: &Known, event: &Event, curve: &Curve, epsilon: f64) -> f64 {
    let relation = curve.relation;
    let place = (event.fingerprint(), relation, epsilon.to_bits());
    if let Some(known) = known.extras.borrow().get(&place) {
        return *known;
    }
    let mut least = 1.0f64;
    match gdp::GdpAccountant.delta(event, relation, epsilon) {
        Ok(bound) => least = bound.upper,
        Err(_) => {
            let others: [&dyn Accountant; 2] = [&pure::PureAccountant, &pld::Pld { quality: pld::Quality::COARSE }];
            for bound in others.iter().filter_map(|a| a.delta(event, relation, epsilon).ok()) {
                least = least.min(bound.upper);
            }
            let at = |order: f64| match curve.at(known, order) {
                Ok(divergence) => conversion::ln_delta(order, divergence, epsilon).exp().next_up(),
                Err(_) => 1.0,
            };
            least = least.min(repeat::least(at, &orders(event)));
        }
    }
    known.extras.borrow_mut().insert(place, least);
    least
}

fn poisson(
    known: &Known,
    q: f64,
    event: &Event,
    relation: Relation,
    order: f64,
) -> Result<(f64, f64), AccountingError> {
    if relation == Relation::ReplaceOne {
        return match event {
            Event::Gaussian { noise_multiplier } => {
                Ok((excess::poisson_gaussian_replaced(q, 1.0 / noise_multiplier, order), 0.0))
            }
            // the symmetrised replace-one pair, as for a sample of fixed size (docs/proofs/accounting-pld.md)
            _ if group::admits_nothing(event)
                && (gdp::mu(event, relation).is_ok()
                    || matches!(event, Event::DiscreteGaussian { .. })
                    || closed::atoms(event, relation, q, order).is_some()) =>
            {
                fixed_size(known, q, event, relation, order)
            }
            _ => Err(no_pair(event, relation)),
        };
    }
    if let Ok((mu, _)) = gdp::mu(event, relation) {
        return Ok((excess::poisson_gaussian(q, mu, order), 0.0));
    }
    match closed::atoms(event, relation, q, order) {
        Some((atoms, delta)) => Ok((excess::poisson_atoms(&atoms, q, order), delta)),
        // only a curve is known
        None => {
            let curve = known.curve(event, relation)?;
            Ok((generic::poisson(q, order, |a| curve.at(known, a))?, 0.0))
        }
    }
}

/// Fixed-size sampling under any relation, and Poisson sampling under replace-one: the symmetrised replace-one pair.
fn fixed_size(
    known: &Known,
    q: f64,
    event: &Event,
    relation: Relation,
    order: f64,
) -> Result<(f64, f64), AccountingError> {
    let Some(replaced) = group::for_replacement(event, relation) else {
        return Err(no_pair(event, relation));
    };
    if let Ok((mu, _)) = gdp::mu(&replaced, Relation::ReplaceOne) {
        return Ok((excess::fixed_size_gaussian(q, mu, order), 0.0));
    }
    if let Some((atoms, delta)) = closed::atoms(&replaced, Relation::ReplaceOne, q, order) {
        return Ok((excess::fixed_size_atoms(&atoms, q, order), delta));
    }
    let curve = known.curve(&replaced, Relation::ReplaceOne)?;
    let sampled = generic::fixed_size(q, order, f64::INFINITY, |a| curve.at(known, a))?;
    // without amplification, by quasi-convexity
    Ok((sampled.min(curve.at(known, order)?), 0.0))
}

fn no_pair(event: &Event, relation: Relation) -> AccountingError {
    let reason = format!("a sample of {event} has no Rényi bound here; use the pld accountant");
    AccountingError::Unsupported { accountant: NAME, relation, reason }
}

/// A user with up to `records` records.
fn user(
    known: &Known,
    records: u64,
    event: &Event,
    relation: Relation,
    order: f64,
) -> Result<(f64, f64), AccountingError> {
    let exact = event.exact(relation).map_err(|e| AccountingError::Parameter(e.to_string()))?;
    let k = records as f64;
    let (mut divergence, mut delta) = (0.0, 0.0);
    for (part, count) in &exact.parts {
        let count = *count as f64;
        let (rho, set_aside) = if let Ok((mu, _)) = gdp::mu(part, relation) {
            (0.5 * order * (k * mu) * (k * mu) * CLOSED, 0.0)
        } else if let (Event::PoissonSampled { sampling_probability, event }, Relation::ZeroOut) = (part, relation)
            && let Event::Gaussian { noise_multiplier } = **event
            && records <= 10_000
        {
            // each record is sampled by itself: Σ Binom(k, q, j)·N(j, σ²) (docs/proofs/accounting-pld.md)
            let q = *sampling_probability;
            let shifts: Vec<f64> = (0..=records).map(|j| j as f64).collect();
            let masses: Vec<f64> =
                (0..=records).map(|j| dpopt_event::special::ln_binomial_mass(j, records, q, 1.0 - q).exp()).collect();
            (excess::gaussian_mixture(noise_multiplier, &shifts, &masses, order), 0.0)
        } else if let Some((epsilon, delta)) = pure::worst(part, relation) {
            let (epsilon, delta) = group::approximate(records, epsilon, delta);
            (closed::pure(epsilon, order) * CLOSED, delta)
        } else {
            let failed = std::cell::Cell::new(None);
            let rho = group::renyi(records, order, &|a| match known.part(part, relation, a) {
                Ok((rho, 0.0)) => rho,
                Ok(_) => f64::INFINITY,
                Err(error) => {
                    failed.set(Some(error));
                    f64::INFINITY
                }
            });
            if let Some(error) = failed.into_inner() {
                return Err(error);
            }
            (up(rho), 0.0)
        };
        divergence = up(divergence + count * rho);
        delta = up(delta + count * set_aside);
    }
    Ok((divergence, delta))
}

/// Orders tried first: α − 1 from 0.01 to 5000, and the orders at which an `Rdp` leaf is stated.
fn orders(event: &Event) -> Vec<f64> {
    let mut orders: Vec<f64> = (0..40).map(|i| 1.0 + 0.01 * 1.4f64.powi(i)).collect();
    fn stated(event: &Event, orders: &mut Vec<f64>) {
        if let Event::Rdp { orders: own, .. } = event {
            orders.extend(own);
        }
        event.children().iter().for_each(|child| stated(child, orders));
    }
    stated(event, &mut orders);
    orders.sort_by(f64::total_cmp);
    orders.dedup();
    orders
}

/// Compositions of more parts look less closely for the best order: every order is valid, and close ones differ little.
const MANY_PARTS: usize = 16;

/// Minimum over orders of an objective of (order, cost), which grows with the cost: a scan, then golden section around the best
/// order.
fn optimise(
    event: &Event,
    relation: Relation,
    objective: impl Fn(f64, Cost) -> f64,
) -> Result<(f64, Cost), AccountingError> {
    let known = Known::default();
    let exact = event.exact(relation).map_err(|e| AccountingError::Parameter(e.to_string()))?;
    let at = |order: f64| known.total(&exact, relation, order).map(|cost| (objective(order, cost), order, cost));
    let many = exact.parts.len() > MANY_PARTS;
    let mut orders = orders(event);
    if many {
        // whole orders have sums instead of integrals
        orders.iter_mut().filter(|order| **order > 2.5).for_each(|order| *order = order.round());
        orders.dedup();
    }
    let mut best = at(orders[0])?;
    let (mut place, mut last) = (0, best.2.divergence);
    for (i, order) in orders.iter().enumerate().skip(1) {
        let next = at(*order)?;
        if next.0 < best.0 {
            (best, place) = (next, i);
        }
        // divergences grow with the order, bounds of repetitions do after their least: none of the rest can be better
        let grows = next.2.divergence >= last;
        last = next.2.divergence;
        if grows && best.0.is_finite() && orders[i + 1..].iter().all(|later| objective(*later, next.2) >= best.0) {
            break;
        }
    }
    let low = (orders[place.saturating_sub(1)] - 1.0).ln();
    let high = (orders[(place + 1).min(orders.len() - 1)] - 1.0).ln();
    let value = |x: f64| at(1.0 + x.exp()).map_or(f64::INFINITY, |(value, ..)| value);
    // orders within 1e-5 of each other differ in the tenth digit of ε
    let rounds = if many { 12 } else { 24 };
    let refined = at(1.0 + conversion::golden_section_rounds(low, high, rounds, value).exp())?;
    let best = if refined.0 < best.0 { refined } else { best };
    Ok((best.1, best.2))
}

impl Accountant for RdpAccountant {
    fn name(&self) -> &'static str {
        NAME
    }

    fn supports(&self, event: &Event, relation: Relation) -> Result<(), AccountingError> {
        cost(event, relation, 2.0).map(|_| ())
    }

    fn claim_epsilon(&self, event: &Event, relation: Relation, delta: f64) -> Result<Bound, AccountingError> {
        super::check_delta(delta)?;
        let rest = |cost: Cost| (delta - cost.delta) * (1.0 - 4.0 * UNIT_ROUNDOFF);
        let (order, cost) = optimise(event, relation, |order, cost| match rest(cost) {
            d if d > 0.0 => conversion::epsilon(order, cost.divergence, d),
            _ => f64::INFINITY,
        })?;
        let upper = if cost == (Cost { divergence: 0.0, delta: 0.0, total_variation: 0.0 }) {
            0.0
        } else if rest(cost) <= 0.0 {
            f64::INFINITY
        } else {
            epsilon_with_error(
                rest(cost),
                cost.total_variation,
                |d| conversion::epsilon(order, cost.divergence, d),
                |e| conversion::ln_delta(order, cost.divergence, e).exp(),
            )?
        };
        if upper.is_infinite() {
            return Err(AccountingError::Unreachable(format!(
                "no order gives a finite epsilon at delta {delta:e}; raise delta or use the pld accountant"
            )));
        }
        Ok(Bound::new(upper, NAME))
    }

    fn claim_delta(&self, event: &Event, relation: Relation, epsilon: f64) -> Result<Bound, AccountingError> {
        super::check_epsilon(epsilon)?;
        let (order, cost) =
            optimise(event, relation, |order, cost| conversion::ln_delta(order, cost.divergence, epsilon))?;
        let smooth =
            if cost.divergence == 0.0 { 0.0 } else { conversion::ln_delta(order, cost.divergence, epsilon).exp() };
        Ok(Bound::new(delta_with_error(up(smooth + cost.delta), epsilon, cost.total_variation), NAME))
    }
}

#[cfg(test)]
#[path = "rdp_tests.rs"]
mod tests;
