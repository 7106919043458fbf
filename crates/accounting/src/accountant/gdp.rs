//! Exact accounting of Gaussian mechanisms: μ = √Σμ_i², then the profile of N(0,1), N(μ,1) (Dong,
//! Roth, Su 2022; Balle, Wang 2018).
//!
//! No central-limit approximation: sampled mechanisms are not Gaussian and are refused.

use super::sampler_error::{delta_with_error, epsilon_with_error};
use super::{Accountant, AccountingError, Bound};
use dpopt_event::special::{
    UNIT_ROUNDOFF, gaussian_epsilon, gaussian_ln_delta, gaussian_ln_delta_slack, gaussian_ln_delta_upper,
};
use dpopt_event::{Event, Relation};

/// Trees of Gaussian, Gdp and tree-aggregation events, blocks of them in parallel, and users with several records.
#[derive(Clone, Copy, Debug)]
pub struct GdpAccountant;

const NAME: &str = "gdp";

/// μ of the whole event rounded up, and the samplers' total variation error.
///
/// ```
/// use dpopt_privacy::{Event, Relation, accountant::gdp};
/// let (mu, tv) = gdp::mu(&Event::gaussian(10.0).self_composed(25), Relation::ReplaceOne)?;
/// assert!((mu - 1.0).abs() < 1e-14 && tv == 0.0);
/// # Ok::<(), dpopt_privacy::accountant::AccountingError>(())
/// ```
pub fn mu(event: &Event, relation: Relation) -> Result<(f64, f64), AccountingError> {
    let exact = event.exact(relation).map_err(|e| AccountingError::Parameter(e.to_string()))?;
    let parts = exact.parts.iter().map(|(part, count)| Ok((part_mu(part, relation)?, *count)));
    Ok((together(&parts.collect::<Result<Vec<_>, _>>()?), exact.total_variation))
}

/// μ of a composition of (μ, how often), rounded up.
pub(super) fn together(parts: &[(f64, u64)]) -> f64 {
    if let [(mu, 1)] = *parts {
        return mu;
    }
    // squares of the largest must not underflow; times a power of two is exact
    let largest = parts.iter().fold(0.0f64, |most, (mu, _)| most.max(*mu));
    let scale = if largest < 1e-130 { 2f64.powi(500) } else { 1.0 };
    let sum = |square: f64, (mu, count): &(f64, u64)| {
        (square + *count as f64 * (mu * scale) * (mu * scale)) * (1.0 + 4.0 * UNIT_ROUNDOFF)
    };
    let mu = parts.iter().fold(0.0, sum).sqrt() * (1.0 + 2.0 * UNIT_ROUNDOFF) / scale;
    // a factor does not round a subnormal number up
    if mu > 0.0 { mu.next_up() } else { 0.0 }
}

fn part_mu(part: &Event, relation: Relation) -> Result<f64, AccountingError> {
    let refuse = |reason: &str| Err(AccountingError::Unsupported { accountant: NAME, relation, reason: reason.into() });
    Ok(match part {
        Event::Gaussian { noise_multiplier } => (relation.sum_sensitivity() / noise_multiplier).next_up(),
        Event::Gdp { mu } => *mu,
        Event::SingleEpochTreeAggregation { noise_multiplier, step_counts } if *noise_multiplier > 0.0 => {
            // a leaf lies below ⌈log2(steps + 1)⌉ complete nodes
            let steps = step_counts.iter().max().copied().unwrap_or(0);
            let height = f64::from(u64::BITS - steps.leading_zeros());
            relation.sum_sensitivity() * height.sqrt() / noise_multiplier * (1.0 + 4.0 * UNIT_ROUNDOFF)
        }
        Event::UserUnit { records_per_user, event } => {
            *records_per_user as f64 * mu(event, relation)?.0 * (1.0 + 2.0 * UNIT_ROUNDOFF)
        }
        Event::Parallel { blocks } => {
            blocks.iter().try_fold(0.0, |worst: f64, block| Ok(worst.max(mu(block, relation)?.0)))?
        }
        Event::NonPrivate => return refuse("a value is released without noise"),
        Event::PoissonSampled { .. }
        | Event::SampledWithoutReplacement { .. }
        | Event::SampledWithReplacement { .. } => {
            return refuse("a sampled mechanism is not a Gaussian one; use the pld accountant");
        }
        _ => return refuse("only Gaussian mechanisms; use the pld or pure accountant"),
    })
}

impl Accountant for GdpAccountant {
    fn name(&self) -> &'static str {
        NAME
    }

    fn supports(&self, event: &Event, relation: Relation) -> Result<(), AccountingError> {
        mu(event, relation).map(|_| ())
    }

    fn claim_epsilon(&self, event: &Event, relation: Relation, delta: f64) -> Result<Bound, AccountingError> {
        super::check_delta(delta)?;
        let (mu, total_variation) = mu(event, relation)?;
        let upper = epsilon_with_error(
            delta,
            total_variation,
            |d| gaussian_epsilon(d, mu),
            |e| gaussian_ln_delta_upper(e, mu).exp().next_up(),
        )?;
        if !upper.is_finite() {
            return Err(AccountingError::Unreachable(if delta == 0.0 {
                "a Gaussian mechanism has no finite epsilon at delta 0; give a positive delta, for example 1e-6".into()
            } else {
                format!(
                    "with sensitivity over noise {mu:e} no finite epsilon is certified at delta {delta:e}; add noise"
                )
            }));
        }
        // 1e-9: how far the inversion and the rounding of μ may lie above the exact value
        let lower = (total_variation == 0.0).then_some(upper * (1.0 - 1e-9));
        Ok(Bound { lower, ..Bound::new(upper, NAME) })
    }

    fn claim_delta(&self, event: &Event, relation: Relation, epsilon: f64) -> Result<Bound, AccountingError> {
        super::check_epsilon(epsilon)?;
        let (mu, total_variation) = mu(event, relation)?;
        let exact = gaussian_ln_delta_upper(epsilon, mu).exp();
        // an underflow is not nothing; a product with subnormal numbers does not round upward
        let exact = if mu > 0.0 { exact.next_up().max(f64::MIN_POSITIVE) } else { 0.0 };
        let upper = delta_with_error(exact, epsilon, total_variation);
        let lower = (gaussian_ln_delta(epsilon, mu) - gaussian_ln_delta_slack(epsilon, mu)).exp();
        let lower = (total_variation == 0.0).then_some(lower * (1.0 - 1e-9));
        Ok(Bound { lower, ..Bound::new(upper, NAME) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epsilon(event: &Event, relation: Relation, delta: f64) -> f64 {
        GdpAccountant.epsilon(event, relation, delta).unwrap().upper
    }

    #[test]
    fn composition_is_exact() {
        // hundred mechanisms of μ = 1/10 are one of μ = 1
        let event = Event::gaussian(10.0).self_composed(100);
        let value = epsilon(&event, Relation::ZeroOut, 1e-30);
        assert!((value - 11.74388302523).abs() < 1e-10 && value >= 11.74388302522);
        assert!((epsilon(&event, Relation::ZeroOut, 1e-100) - 21.62750809365).abs() < 1e-10);
        let mixed = Event::composed(vec![Event::gaussian(2.0), Event::Gdp { mu: 0.75f64.sqrt() }]);
        assert!((epsilon(&mixed, Relation::AddOrRemove, 1e-6) - 4.886554117462).abs() < 1e-11);
    }

    #[test]
    fn replace_one_doubles_the_shift_but_not_a_stated_mu() {
        let event = Event::gaussian(4.0);
        // values of an independent implementation (dp_accounting PLD, discretised)
        assert!((epsilon(&event, Relation::ReplaceOne, 1e-6) - 2.254085).abs() < 1e-4);
        assert!((epsilon(&event, Relation::AddOrRemove, 1e-6) - 1.060702).abs() < 1e-4);
        let stated = Event::Gdp { mu: 0.25 };
        assert_eq!(epsilon(&stated, Relation::ReplaceOne, 1e-6), epsilon(&stated, Relation::ZeroOut, 1e-6));
    }

    #[test]
    fn trees_users_and_blocks() {
        let tree = Event::SingleEpochTreeAggregation { noise_multiplier: 3.0, step_counts: vec![7, 8, 2] };
        assert!((mu(&tree, Relation::ZeroOut).unwrap().0 - 2.0 / 3.0).abs() < 1e-14);
        assert!(mu(&tree, Relation::AddOrRemove).is_err());
        let users = Event::UserUnit { records_per_user: 3, event: Box::new(Event::gaussian(10.0).self_composed(4)) };
        assert!((mu(&users, Relation::ZeroOut).unwrap().0 - 0.6).abs() < 1e-14);
        let blocks = Event::Parallel { blocks: vec![Event::gaussian(2.0), Event::gaussian(1.0).self_composed(4)] };
        assert!((mu(&blocks, Relation::ZeroOut).unwrap().0 - 2.0).abs() < 1e-14);
    }

    #[test]
    fn refuses_what_is_not_gaussian() {
        for event in [
            Event::gaussian(1.0).poisson_sampled(0.01).self_composed(1000),
            Event::laplace(1.0),
            Event::gaussian(0.0),
            Event::NonPrivate,
            Event::Unsupported,
        ] {
            assert!(matches!(
                GdpAccountant.supports(&event, Relation::ZeroOut),
                Err(AccountingError::Unsupported { .. })
            ));
        }
        assert!(GdpAccountant.supports(&Event::gaussian(1.0).poisson_sampled(1.0), Relation::ZeroOut).is_ok());
        assert!(GdpAccountant.epsilon(&Event::gaussian(1.0), Relation::ZeroOut, 0.0).is_err());
        // everything is (0, 1)-private
        assert_eq!(GdpAccountant.epsilon(&Event::gaussian(1.0), Relation::ZeroOut, 1.0).unwrap().upper, 0.0);
        assert!(GdpAccountant.epsilon(&Event::gaussian(1.0), Relation::ZeroOut, 1.5).is_err());
        assert!(GdpAccountant.delta(&Event::gaussian(1.0), Relation::ZeroOut, f64::NAN).is_err());
        assert_eq!(GdpAccountant.epsilon(&Event::NoOp, Relation::ZeroOut, 0.0).unwrap().upper, 0.0);
    }

    #[test]
    fn sampler_errors_raise_delta() {
        let event = Event::gaussian(1.0).approximate(1e-9);
        let bound = GdpAccountant.delta(&event, Relation::ZeroOut, 1.0).unwrap().upper;
        let exact = GdpAccountant.delta(&Event::gaussian(1.0), Relation::ZeroOut, 1.0).unwrap().upper;
        assert!((bound - exact - 1e-9 * (1.0 + 1f64.exp())).abs() < 1e-15);
        assert!(epsilon(&event, Relation::ZeroOut, 1e-6) > epsilon(&Event::gaussian(1.0), Relation::ZeroOut, 1e-6));
    }
}
