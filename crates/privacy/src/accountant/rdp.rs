//! Rényi accounting (spec 18 §4; Mironov 2017; Mironov, Talwar, Zhang 2019; Wang, Balle, Kasiviswanathan 2019).
//!
//! Divergences of one order add up, and each order converts to (ε, δ) by itself ([`conversion`]).
//! Looser than the loss distribution of `pld` but valid at a fixed order under full adaptivity, which is what
//! [filters](crate::filter) and the [ledger](crate::ledger) need.

mod closed;
mod excess;
mod generic;
mod hull;
mod objective;
mod repeat;

use super::sampler_error::{delta_with_error, epsilon_with_error};
use super::integer_shift::IntegerShift;
use super::{Accountant, AccountingError, Bound, conversion, gdp, pure};
use crate::special::UNIT_ROUNDOFF;
use crate::{Event, Relation, group};

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
    if !(order > 1.0 && order.is_finite()) {
        return Err(AccountingError::Parameter(format!("the Rényi order is {order}; it must be above 1 and finite")));
    }
    let exact = event.exact(relation).map_err(|e| AccountingError::Parameter(e.to_string()))?;
    let mut total = Cost { divergence: 0.0, delta: 0.0, total_variation: exact.total_variation };
    for (part, count) in &exact.parts {
        let (divergence, delta) = part_cost(part, relation, order)?;
        total.divergence = up(total.divergence + *count as f64 * divergence);
        total.delta = up(total.delta + *count as f64 * delta);
    }
    Ok(total)
}

fn up(x: f64) -> f64 {
    if x == 0.0 { 0.0 } else { x * (1.0 + 8.0 * UNIT_ROUNDOFF) }
}

/// Rounding of the closed forms, relative; quadratures carry their own.
const CLOSED: f64 = 1.0 + 1e-13;

/// (divergence, δ set aside) of one part of a simplified event.
fn part_cost(part: &Event, relation: Relation, order: f64) -> Result<(f64, f64), AccountingError> {
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
        Event::ApproxDp { epsilon, delta } | Event::EpsilonDelta { epsilon, delta } => return Ok((closed::pure(*epsilon, order) * CLOSED, *delta)),
        Event::PrivacyProfile { epsilons, deltas } => {
            let (atoms, delta) = hull::atoms(epsilons, deltas);
            return Ok((hull::divergence(&atoms, order), delta));
        }
        Event::Rdp { orders, divergences } => closed::interpolate(orders, divergences, order) * CLOSED,
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
            return poisson(*sampling_probability, event, relation, order);
        }
        Event::SampledWithoutReplacement { source_dataset_size, sample_size, event } => {
            let q = (*sample_size as f64 / *source_dataset_size as f64).next_up().min(1.0);
            return fixed_size(q, event, relation, order);
        }
        Event::Parallel { blocks } => {
            let mut most: (f64, f64) = (0.0, 0.0);
            for block in blocks {
                let block = cost(block, relation, order)?;
                most = (most.0.max(block.divergence), most.1.max(block.delta));
            }
            return Ok(most);
        }
        Event::UserUnit { records_per_user, event } => return user(*records_per_user, event, relation, order),
        Event::RepeatAndSelect { event, mean, shape } => {
            // only a plain curve has a place in that proof
            let failed = std::cell::Cell::new(None);
            let base = |a: f64| match cost(event, relation, a) {
                Ok(Cost { divergence, delta: 0.0, total_variation: 0.0 }) => divergence,
                Ok(_) => {
                    failed.set(Some(no_pair(event, relation)));
                    f64::INFINITY
                }
                Err(error) => {
                    failed.set(Some(error));
                    f64::INFINITY
                }
            };
            let value = repeat::divergence(&base, *mean, *shape, order);
            if let Some(error) = failed.into_inner() {
                return Err(error);
            }
            match value {
                Ok(value) => value * CLOSED,
                Err(reason) => return refuse(reason),
            }
        }
        Event::NonPrivate => return refuse("something is released without noise".into()),
        Event::Unsupported => return refuse("the event says that it has no description".into()),
        other => return refuse(format!("{other} has no Rényi bound here; use the pld accountant")),
    };
    Ok((if divergence.is_nan() { f64::INFINITY } else { divergence }, 0.0))
}

fn poisson(q: f64, event: &Event, relation: Relation, order: f64) -> Result<(f64, f64), AccountingError> {
    if relation == Relation::ReplaceOne {
        return match event {
            Event::Gaussian { noise_multiplier } => {
                Ok((excess::poisson_gaussian_replaced(q, 1.0 / noise_multiplier, order), 0.0))
            }
            // the symmetrised replace-one pair, as for a sample of fixed size (spec 18 §2.2)
            _ if group::admits_nothing(event)
                && (gdp::mu(event, relation).is_ok()
                    || matches!(event, Event::DiscreteGaussian { .. })
                    || closed::atoms(event, relation, q, order).is_some()) =>
            {
                fixed_size(q, event, relation, order)
            }
            _ => Err(no_pair(event, relation)),
        };
    }
    if let Ok((mu, _)) = gdp::mu(event, relation) {
        return Ok((excess::poisson_gaussian(q, mu, order), 0.0));
    }
    match closed::atoms(event, relation, q, order) {
        Some((atoms, delta)) => Ok((excess::poisson_atoms(&atoms, q, order), delta)),
        None => unsampled(event, relation, order),
    }
}

/// Fixed-size sampling under any relation, and Poisson sampling under replace-one: the symmetrised replace-one pair.
fn fixed_size(q: f64, event: &Event, relation: Relation, order: f64) -> Result<(f64, f64), AccountingError> {
    let Some(replaced) = group::for_replacement(event, relation) else {
        return Err(no_pair(event, relation));
    };
    if let Ok((mu, _)) = gdp::mu(&replaced, Relation::ReplaceOne) {
        return Ok((excess::fixed_size_gaussian(q, mu, order), 0.0));
    }
    if let Some((atoms, delta)) = closed::atoms(&replaced, Relation::ReplaceOne, q, order) {
        return Ok((excess::fixed_size_atoms(&atoms, q, order), delta));
    }
    if matches!(replaced, Event::DiscreteGaussian { .. }) {
        return unsampled(&replaced, Relation::ReplaceOne, order);
    }
    // only a curve is known; what is set aside has no place in that bound
    let curve = |j: f64| match cost(&replaced, Relation::ReplaceOne, j) {
        Ok(cost) if cost.delta == 0.0 => Ok(cost.divergence),
        Ok(_) => Err(no_pair(event, relation)),
        Err(error) => Err(error),
    };
    Ok((generic::fixed_size(q, order, f64::INFINITY, curve)?, 0.0))
}

/// Without amplification, by quasi-convexity: for integer noise of several sums, or at orders whose sums are too long.
fn unsampled(event: &Event, relation: Relation, order: f64) -> Result<(f64, f64), AccountingError> {
    match event {
        Event::DiscreteGaussian { .. } => part_cost(event, relation, order),
        _ => Err(no_pair(event, relation)),
    }
}

fn no_pair(event: &Event, relation: Relation) -> AccountingError {
    let reason = format!("a sample of {event} has no Rényi bound here; use the pld accountant");
    AccountingError::Unsupported { accountant: NAME, relation, reason }
}

/// A user with up to `records` records.
fn user(records: u64, event: &Event, relation: Relation, order: f64) -> Result<(f64, f64), AccountingError> {
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
            // each record is sampled by itself: Σ Binom(k, q, j)·N(j, σ²) (spec 18 §2.5)
            let q = *sampling_probability;
            let shifts: Vec<f64> = (0..=records).map(|j| j as f64).collect();
            let masses: Vec<f64> = (0..=records)
                .map(|j| crate::special::ln_binomial_mass(j, records, q, 1.0 - q).exp())
                .collect();
            (excess::gaussian_mixture(noise_multiplier, &shifts, &masses, order), 0.0)
        } else if let Some((epsilon, delta)) = pure::worst(part, relation) {
            let (epsilon, delta) = group::approximate(records, epsilon, delta);
            (closed::pure(epsilon, order) * CLOSED, delta)
        } else {
            let failed = std::cell::Cell::new(None);
            let rho = group::renyi(records, order, &|a| match part_cost(part, relation, a) {
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

/// Minimum over orders of an objective of (order, cost): a scan, then golden section around the best order.
fn optimise(
    event: &Event,
    relation: Relation,
    objective: impl Fn(f64, Cost) -> f64,
) -> Result<(f64, Cost), AccountingError> {
    let at = |order: f64| cost(event, relation, order).map(|cost| (objective(order, cost), order, cost));
    let orders = orders(event);
    let mut best = at(orders[0])?;
    let mut place = 0;
    for (i, order) in orders.iter().enumerate().skip(1) {
        let next = at(*order)?;
        if next.0 < best.0 {
            (best, place) = (next, i);
        }
    }
    let low = (orders[place.saturating_sub(1)] - 1.0).ln();
    let high = (orders[(place + 1).min(orders.len() - 1)] - 1.0).ln();
    let value = |x: f64| at(1.0 + x.exp()).map_or(f64::INFINITY, |(value, ..)| value);
    let refined = at(1.0 + conversion::golden_section(low, high, value).exp())?;
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
        let smooth = if cost.divergence == 0.0 { 0.0 } else { conversion::ln_delta(order, cost.divergence, epsilon).exp() };
        Ok(Bound::new(delta_with_error(up(smooth + cost.delta), epsilon, cost.total_variation), NAME))
    }
}

#[cfg(test)]
#[path = "rdp_tests.rs"]
mod tests;
