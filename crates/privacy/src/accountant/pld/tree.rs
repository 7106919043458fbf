//! From an event to the directed pairs of its leaves (spec 18 §0 "the one rule", §1, §2).

use super::objective::ObjectiveProfile;
use super::pair::{GaussianPair, Pair, Reversed, U};
use super::poisson::PoissonPair;
use crate::accountant::AccountingError;
use crate::{Event, Relation};
use std::sync::Arc;

/// The pair of a leaf for each order of the neighbours. A symmetric leaf has the same one twice.
#[derive(Clone, Debug)]
pub(crate) struct Sides {
    pub with_to_without: Arc<dyn Pair>,
    pub without_to_with: Arc<dyn Pair>,
}

impl Sides {
    fn directed<T: Pair + Clone + 'static>(pair: T) -> Self {
        Self { with_to_without: Arc::new(pair.clone()), without_to_with: Arc::new(Reversed(pair)) }
    }

    fn symmetric<T: Pair + 'static>(pair: T) -> Self {
        let pair: Arc<dyn Pair> = Arc::new(pair);
        Self { with_to_without: pair.clone(), without_to_with: pair }
    }
}

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

/// Sensitivity over noise of a Gaussian under `relation`, rounded up.
fn gaussian_mu(noise_multiplier: f64, relation: Relation) -> f64 {
    (relation.sum_sensitivity() / noise_multiplier).next_up()
}

/// The product of leaves that dominates `event`.
pub(crate) fn leaves(event: &Event, relation: Relation) -> Result<Leaves, AccountingError> {
    let exact = event.exact(relation).map_err(|e| AccountingError::Parameter(e.to_string()))?;
    let mut out = Leaves { sides: vec![], total_variation: exact.total_variation, symmetric: true };
    let mut mu_squared = 0.0;
    for (part, count) in &exact.parts {
        let mu = match part {
            Event::Gaussian { noise_multiplier } => gaussian_mu(*noise_multiplier, relation),
            Event::Gdp { mu } => *mu,
            other => {
                let sides = leaf_sides(other, relation)?;
                out.symmetric &= Arc::ptr_eq(&sides.with_to_without, &sides.without_to_with);
                out.sides.push((sides, *count));
                continue;
            }
        };
        // all unsampled Gaussians are one; rounded up for square, product and sum
        mu_squared = (mu_squared + *count as f64 * mu * mu) * (1.0 + 8.0 * U);
    }
    if mu_squared > 0.0 {
        out.sides.push((Sides::symmetric(GaussianPair { mu: mu_squared.sqrt().next_up() }), 1));
    }
    Ok(out)
}

fn leaf_sides(leaf: &Event, relation: Relation) -> Result<Sides, AccountingError> {
    match leaf {
        Event::PoissonSampled { sampling_probability, event } => poisson(*sampling_probability, event, relation),
        Event::ObjectivePerturbation { noise_multiplier, regularization, link } => {
            let profile = ObjectiveProfile::new(*noise_multiplier, *regularization, *link, relation)
                .map_err(|reason| unsupported(relation, reason))?;
            Ok(Sides::symmetric(profile.pair()))
        }
        _ => Err(unsupported(relation, format!("no dominating pair is implemented for {}", name(leaf)))),
    }
}

/// q in (0, 1): `Event::exact` has removed the ends and pooled Gaussians on one sample.
fn poisson(q: f64, event: &Event, relation: Relation) -> Result<Sides, AccountingError> {
    let mu = match event {
        Event::Gaussian { noise_multiplier } => gaussian_mu(*noise_multiplier, relation),
        Event::Gdp { mu } => *mu,
        _ => return Err(unsupported(relation, format!("Poisson sampling of {} is not implemented", name(event)))),
    };
    match relation {
        Relation::ZeroOut | Relation::AddOrRemove => {
            Ok(Sides::directed(PoissonPair { probability: q, base: GaussianPair { mu } }))
        }
        Relation::ReplaceOne => Err(unsupported(relation, "Poisson sampling is implemented for zero-out only")),
    }
}

/// The class name of an event.
pub(crate) fn name(event: &Event) -> String {
    format!("{event:?}").chars().take_while(|c| c.is_alphanumeric()).collect()
}
