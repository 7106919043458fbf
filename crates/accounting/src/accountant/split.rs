//! Basic composition of two mechanisms with known profiles, at the best split of ε: δ₁(ε₁) + δ₂(ε − ε₁).
//!
//! Exact where the lattice has a grid, so it is the tighter one for a large mechanism followed by a tiny one, as
//! objective perturbation and its closing Gaussian (docs/proofs/objective-perturbation.md). Valid for adaptive composition in either order.

use super::pld::objective::ObjectiveProfile;
use super::sampler_error::{delta_with_error, epsilon_with_error};
use super::{Accountant, AccountingError, Bound, gdp};
use dpopt_event::group;
use dpopt_event::special::{UNIT_ROUNDOFF, gaussian_ln_delta_upper};
use dpopt_event::{Event, Relation};

/// Objective perturbation, of a record or of a group, alone or with Gaussians, which are one.
#[derive(Clone, Copy, Debug)]
pub struct SplitAccountant;

const NAME: &str = "split";

/// A profile for ε ≥ 0 in both orders, rounded up, non-increasing.
enum Profile {
    Objective(ObjectiveProfile),
    /// The profile of a group of so many records (docs/proofs/accounting-groups.md).
    Group(u64, ObjectiveProfile),
    Gaussian {
        mu: f64,
    },
}

impl Profile {
    fn delta(&self, epsilon: f64) -> f64 {
        let delta = match self {
            Self::Objective(profile) => profile.delta(epsilon),
            Self::Group(records, profile) => {
                // rounded down: as many times as much is at most ε
                let each = epsilon / *records as f64 * (1.0 - 4.0 * UNIT_ROUNDOFF);
                group::approximate(*records, each, profile.delta(each).max(f64::MIN_POSITIVE)).1
            }
            Self::Gaussian { mu } => gaussian_ln_delta_upper(epsilon, *mu).exp(),
        };
        // an underflow is not nothing
        delta.max(f64::MIN_POSITIVE)
    }
}

fn profiles(event: &Event, relation: Relation) -> Result<(Vec<Profile>, f64), AccountingError> {
    let exact = event.exact(relation).map_err(|e| AccountingError::Parameter(e.to_string()))?;
    let unsupported = |reason: &str| AccountingError::Unsupported { accountant: NAME, relation, reason: reason.into() };
    let objective = |part: &Event| match part {
        Event::ObjectivePerturbation { noise_multiplier, regularization, link } => Some(
            ObjectiveProfile::new(*noise_multiplier, *regularization, *link, relation).map_err(|why| unsupported(&why)),
        ),
        _ => None,
    };
    let (mut list, mut gaussians) = (vec![], vec![]);
    for (part, count) in &exact.parts {
        if let Ok((mu, _)) = gdp::mu(part, relation) {
            gaussians.push((mu, *count));
            continue;
        }
        let profile = match part {
            Event::UserUnit { records_per_user, event } => {
                let of_group = |profile| Profile::Group(*records_per_user, profile);
                objective(event).map(|profile| profile.map(of_group))
            }
            part => objective(part).map(|profile| profile.map(Profile::Objective)),
        };
        match profile {
            Some(profile) if *count == 1 => list.push(profile?),
            _ => return Err(unsupported("only objective perturbation and Gaussians; use the pld accountant")),
        }
    }
    if !gaussians.is_empty() {
        list.push(Profile::Gaussian { mu: gdp::together(&gaussians) });
    }
    if list.is_empty() || list.len() > 2 {
        return Err(unsupported("only one or two mechanisms; use the pld accountant"));
    }
    // the larger one first: its ε is what is searched for
    list.sort_by(|a, b| b.delta(0.0).total_cmp(&a.delta(0.0)));
    Ok((list, exact.total_variation))
}

/// Smallest δ₁(ε − x) + δ₂(x) over x, to the accuracy of a golden-section search in ln x; any x is valid.
fn split_delta(list: &[Profile], epsilon: f64) -> f64 {
    let [large, small] = list else { return list[0].delta(epsilon) };
    let total = |ln_x: f64| {
        let x = ln_x.exp().min(epsilon);
        // rounded down, so that the two parts do not exceed ε
        large.delta(((epsilon - x) * (1.0 - 4.0 * f64::EPSILON)).max(0.0)) + small.delta(x * (1.0 - 4.0 * f64::EPSILON))
    };
    if epsilon <= 0.0 {
        return (large.delta(0.0) + small.delta(0.0)).min(1.0);
    }
    let (mut low, mut high) = ((1e-9 * epsilon).ln(), epsilon.ln());
    // the sum is flat at both ends: look before narrowing
    const LOOKS: usize = 24;
    let at = |i: usize| low + (high - low) * i as f64 / LOOKS as f64;
    let looks: Vec<f64> = (0..=LOOKS).map(|i| total(at(i))).collect();
    let best = (0..=LOOKS).min_by(|&a, &b| looks[a].total_cmp(&looks[b])).unwrap_or(0);
    (low, high) = (at(best.saturating_sub(1)), at((best + 1).min(LOOKS)));
    let golden = 0.5 * (5f64.sqrt() - 1.0);
    let (mut a, mut b) = (high - golden * (high - low), low + golden * (high - low));
    let (mut fa, mut fb) = (total(a), total(b));
    for _ in 0..24 {
        if fa <= fb {
            (high, b, fb) = (b, a, fa);
            a = high - golden * (high - low);
            fa = total(a);
        } else {
            (low, a, fa) = (a, b, fb);
            b = low + golden * (high - low);
            fb = total(b);
        }
    }
    (fa.min(fb) * (1.0 + 4.0 * f64::EPSILON)).min(1.0)
}

/// Smallest ε with certified δ(ε) ≤ `delta`, to a relative 1e-9 from above; infinite beyond 1e4.
fn split_epsilon(list: &[Profile], delta: f64) -> f64 {
    if split_delta(list, 0.0) <= delta {
        return 0.0;
    }
    // ln(δ/delta) at both ends
    let excess = |epsilon: f64| (split_delta(list, epsilon) / delta).ln();
    let (mut low, mut high) = ((0.0, f64::INFINITY), (1e-3, excess(1e-3)));
    // a NaN certifies nothing
    while !(high.1 <= 0.0) {
        if high.0 > 1e4 {
            return f64::INFINITY;
        }
        (low, high) = (high, (high.0 * 4.0, excess(high.0 * 4.0)));
    }
    for round in 0.. {
        let width = high.0 - low.0;
        if !(width > 1e-9 * high.0) {
            break;
        }
        // where a chord says, a little to one side so that both ends move; a half where that does not help
        let share = low.1 / (low.1 - high.1);
        let aside = 4e-10 * high.0 * if low.1 > -high.1 { -1.0 } else { 1.0 };
        let chord = low.0 + share * width + aside;
        let inside = low.0 + 2e-10 * high.0..high.0 - 2e-10 * high.0;
        let at = if round % 4 < 3 && inside.contains(&chord) { chord } else { 0.5 * (low.0 + high.0) };
        match excess(at) {
            below if below <= 0.0 => high = (at, below),
            above => low = (at, above),
        }
    }
    high.0
}

impl Accountant for SplitAccountant {
    fn name(&self) -> &'static str {
        NAME
    }

    fn supports(&self, event: &Event, relation: Relation) -> Result<(), AccountingError> {
        profiles(event, relation).map(|_| ())
    }

    fn claim_epsilon(&self, event: &Event, relation: Relation, delta: f64) -> Result<Bound, AccountingError> {
        super::check_delta(delta)?;
        let (list, tv) = profiles(event, relation)?;
        let upper = epsilon_with_error(delta, tv, |d| split_epsilon(&list, d), |e| split_delta(&list, e))?;
        if upper.is_finite() {
            Ok(Bound::new(upper, NAME))
        } else {
            Err(AccountingError::Unreachable(format!(
                "no epsilon below 10000 is certified at delta {delta:e}; add noise or raise delta"
            )))
        }
    }

    fn claim_delta(&self, event: &Event, relation: Relation, epsilon: f64) -> Result<Bound, AccountingError> {
        super::check_epsilon(epsilon)?;
        let (list, tv) = profiles(event, relation)?;
        Ok(Bound::new(delta_with_error(split_delta(&list, epsilon), epsilon, tv), NAME))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accountant::pld::Pld;
    use dpopt_event::event::GlmLink;

    fn recipe(sigma: f64, lambda: f64, closing: f64) -> Event {
        Event::composed(vec![
            Event::ObjectivePerturbation { noise_multiplier: sigma, regularization: lambda, link: GlmLink::Monotone },
            Event::gaussian(closing),
        ])
    }

    /// Objective perturbation, planned with 1e-3 of the budget for the closing noise.
    #[test]
    fn the_recipe_for_logistic_regression_is_certified() {
        let event = recipe(3.734257, 1.2435, 3619.152);
        // at the printed digits, rounded to nearest, the split alone comes to 1 + 4e-8; one unit more and it fits
        let split = SplitAccountant.epsilon(&event, Relation::ZeroOut, 1e-5).unwrap().upper;
        let above =
            SplitAccountant.epsilon(&recipe(3.734258, 1.2435, 3619.152), Relation::ZeroOut, 1e-5).unwrap().upper;
        assert!(above <= 1.0 && above > 0.999 && split > above && split < above * (1.0 + 1e-6), "{split} {above}");
        let delta = SplitAccountant.delta(&event, Relation::ZeroOut, 1.0).unwrap().upper;
        assert!(delta <= 1.000001e-5 && delta > 0.99e-5, "{delta}");
        let lattice = Pld::default().epsilon(&event, Relation::ZeroOut, 1e-5).unwrap().upper;
        assert!((lattice - split).abs() < 2e-3, "{lattice} {split}");
        // the lattice fits at the printed digits too
        assert!(crate::accountant::epsilon(&event, Relation::ZeroOut, 1e-5).unwrap().upper <= 1.0);
    }

    #[test]
    fn below_the_threshold_it_costs_more_than_a_gaussian() {
        let gaussian = crate::accountant::epsilon(&Event::gaussian(3.734257), Relation::ZeroOut, 1e-5).unwrap().upper;
        let low = SplitAccountant.epsilon(&recipe(3.734257, 0.1, 1e6), Relation::ZeroOut, 1e-5).unwrap().upper;
        assert!(low > gaussian * 1.2, "{low}");
    }
}
