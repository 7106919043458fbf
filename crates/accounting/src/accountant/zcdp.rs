//! Zero-concentrated accounting: D_α ≤ ξ + ρα for all α > 1 at once; ρ and ξ add up (Bun, Steinke 2016).
//!
//! For all-Gaussian events `gdp` is exact and this is not; its use is the filter of `dpopt-privacy`.

use super::integer_shift::IntegerShift;
use super::sampler_error::{delta_with_error, epsilon_with_error};
use super::{Accountant, AccountingError, Bound, conversion, gdp, pure};
use dpopt_event::special::UNIT_ROUNDOFF;
use dpopt_event::{Event, Relation};

/// Trees of Gaussian mechanisms, stated zCDP and pure DP.
#[derive(Clone, Copy, Debug)]
pub struct ZcdpAccountant;

const NAME: &str = "zcdp";

/// (ξ, ρ)-zCDP of an event up to an event of probability `delta`, in both directions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// ρ, the coefficient of α.
    pub rho: f64,
    /// ξ, the constant term.
    pub xi: f64,
    /// The probability of the event that is set aside; it is part of δ.
    pub delta: f64,
    /// τ, the total variation between the samplers' laws and the exact ones.
    pub total_variation: f64,
}

/// ρ, ξ and what is set aside, rounded up.
///
/// ```
/// use dpopt_privacy::{Event, Relation, accountant::zcdp};
/// let cost = zcdp::cost(&Event::gaussian(10.0).self_composed(100), Relation::ZeroOut)?;
/// assert!((cost.rho - 0.5).abs() < 1e-14);
/// # Ok::<(), dpopt_privacy::accountant::AccountingError>(())
/// ```
pub fn cost(event: &Event, relation: Relation) -> Result<Cost, AccountingError> {
    let exact = event.exact(relation).map_err(|e| AccountingError::Parameter(e.to_string()))?;
    let mut total = Cost { rho: 0.0, xi: 0.0, delta: 0.0, total_variation: exact.total_variation };
    for (part, count) in &exact.parts {
        let count = *count as f64;
        let (rho, xi, delta) = part_cost(part, relation)?;
        // a square that underflows is more than nothing
        let stated = matches!(part, Event::Zcdp { rho: 0.0, .. });
        let rho = if stated { rho } else { super::not_underflown(part, rho) };
        let up = |x: f64| x * (1.0 + 8.0 * UNIT_ROUNDOFF);
        total.rho = up(total.rho + count * rho);
        total.xi = up(total.xi + count * xi);
        total.delta = up(total.delta + count * delta);
    }
    Ok(total)
}

fn part_cost(part: &Event, relation: Relation) -> Result<(f64, f64, f64), AccountingError> {
    if let Event::Parallel { blocks } = part {
        let mut most: (f64, f64, f64) = (0.0, 0.0, 0.0);
        for block in blocks {
            let block = cost(block, relation)?;
            most = (most.0.max(block.rho), most.1.max(block.xi), most.2.max(block.delta));
        }
        return Ok(most);
    }
    // at high orders a gate takes nothing off
    if let Event::Gated { event, .. } = part {
        let inside = cost(event, relation)?;
        return Ok((inside.rho, inside.xi, inside.delta));
    }
    if let Event::Zcdp { rho, xi } = part {
        return Ok((*rho, *xi, 0.0));
    }
    if let Event::ExponentialMechanism { epsilon } = part {
        return Ok((epsilon * epsilon / 8.0, 0.0, 0.0));
    }
    if let Event::DiscreteGaussian { sigma, sensitivity, dimension } = part {
        return Ok((IntegerShift::new(*sensitivity, *dimension, relation).rho(*sigma), 0.0, 0.0));
    }
    // permute-and-flip is dominated by Laplace noise
    let laplace_shift = match part {
        Event::Laplace { noise_multiplier } if *noise_multiplier > 0.0 => {
            Some(relation.sum_sensitivity() / noise_multiplier)
        }
        Event::PermuteAndFlip { epsilon } => Some(*epsilon),
        _ => None,
    };
    if let Some(shift) = laplace_shift {
        return Ok((laplace(shift), 0.0, 0.0));
    }
    if let Ok((mu, _)) = gdp::mu(part, relation) {
        return Ok((0.5 * mu * mu, 0.0, 0.0));
    }
    if let Event::UserUnit { records_per_user, event } = part {
        let one = cost(event, relation)?;
        if one.xi == 0.0 && one.delta == 0.0 {
            let k = *records_per_user as f64;
            // (Bun, Steinke 2016, Proposition 27), or what an ε as many times as large comes to
            let of_group = pure::worst(part, relation).filter(|(_, delta)| *delta == 0.0).map(|(e, _)| pure_dp(e));
            return Ok(((k * k * one.rho).min(of_group.unwrap_or(f64::INFINITY)), 0.0, 0.0));
        }
    }
    // whichever steps it takes part in
    if let Event::RandomAllocation { event, num_selected, .. } = part {
        let one = cost(event, relation)?;
        let k = *num_selected as f64;
        return Ok((k * one.rho, k * one.xi, k * one.delta));
    }
    if let Some((epsilon, delta)) = pure::worst(part, relation) {
        return Ok((pure_dp(epsilon), 0.0, delta));
    }
    let reason = format!("{part} is not concentrated at every order; use the pld or rdp accountant");
    Err(AccountingError::Unsupported { accountant: NAME, relation, reason })
}

/// ρ of an ε-DP mechanism: the Kullback–Leibler divergence of randomized response, ε·tanh(ε/2) ≤ ε²/2.
///
/// With t = α − ½ the moment of a symmetric pair is E e^((α−1)L) = M(t)/M(½), M even. Where ln M is concave as a function of
/// t², its tangent at t = ½ bounds it, and that is D_α ≤ α·KL. Here M = cosh(εt), whose zeros in t² are negative.
fn pure_dp(epsilon: f64) -> f64 {
    epsilon * (0.5 * epsilon).tanh() * (1.0 + 8.0 * UNIT_ROUNDOFF)
}

/// ρ of a Laplace pair: its Kullback–Leibler divergence s − 1 + e^−s, by the same argument. M = cosh(st) + sinh(st)/(2t), an
/// entire function of t² of order ½ whose zeros are the negated eigenvalues of v'' = −λv, v(0) = 0, v'(s) + v(s)/2 = 0, all real
/// and positive, so that ln M is a sum of ln(1 + t²/λ_k).
fn laplace(shift: f64) -> f64 {
    // s − 1 + e^−s = s²/2 − s³/6 + …
    let divergence = if shift < 0.05 {
        let terms = [3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0];
        let (mut term, mut sum) = (0.5 * shift * shift, 0.0);
        for k in terms {
            sum += term;
            term *= -shift / k;
        }
        sum
    } else {
        shift + (-shift).exp_m1()
    };
    // rounding, relative: 40u at s = 0.05
    divergence * (1.0 + 100.0 * UNIT_ROUNDOFF)
}

impl Accountant for ZcdpAccountant {
    fn name(&self) -> &'static str {
        NAME
    }

    fn supports(&self, event: &Event, relation: Relation) -> Result<(), AccountingError> {
        cost(event, relation).map(|_| ())
    }

    fn claim_epsilon(&self, event: &Event, relation: Relation, delta: f64) -> Result<Bound, AccountingError> {
        super::check_delta(delta)?;
        let cost = cost(event, relation)?;
        if cost.rho == 0.0 && cost.xi == 0.0 && cost.delta == 0.0 && cost.total_variation == 0.0 {
            return Ok(Bound::new(0.0, NAME));
        }
        let rest = (delta - cost.delta) * (1.0 - 4.0 * UNIT_ROUNDOFF);
        if rest <= 0.0 {
            return Err(AccountingError::Unreachable(format!(
                "concentrated mechanisms with {:e} set aside have no finite epsilon at delta {delta:e}; raise delta",
                cost.delta
            )));
        }
        let upper = epsilon_with_error(
            rest,
            cost.total_variation,
            |d| conversion::concentrated_epsilon(cost.rho, cost.xi, d),
            |e| conversion::concentrated_ln_delta(cost.rho, cost.xi, e).exp(),
        )?;
        if !upper.is_finite() {
            return Err(AccountingError::Unreachable(format!(
                "no finite epsilon at delta {delta:e} follows from rho {:e}; add noise or raise delta",
                cost.rho
            )));
        }
        Ok(Bound::new(upper, NAME))
    }

    fn claim_delta(&self, event: &Event, relation: Relation, epsilon: f64) -> Result<Bound, AccountingError> {
        super::check_epsilon(epsilon)?;
        let cost = cost(event, relation)?;
        let smooth = conversion::concentrated_ln_delta(cost.rho, cost.xi, epsilon).exp();
        Ok(Bound::new(delta_with_error(smooth + cost.delta, epsilon, cost.total_variation), NAME))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversion_at_the_best_real_order() {
        for (rho, delta, value) in [
            (0.5, 1e-6, 5.22153444453),
            (0.001, 1e-6, 0.1828953771901),
            (10.0, 1e-9, 37.63745357791),
            (0.1, 1e-30, 5.191852417706),
        ] {
            let event = Event::Zcdp { rho, xi: 0.0 };
            let epsilon = ZcdpAccountant.epsilon(&event, Relation::ZeroOut, delta).unwrap().upper;
            assert!((epsilon / value - 1.0).abs() < 1e-10 && epsilon > value * (1.0 - 1e-12), "{epsilon} {value}");
            let back = ZcdpAccountant.delta(&event, Relation::ZeroOut, epsilon).unwrap().upper;
            assert!((back / delta - 1.0).abs() < 1e-6);
            let shifted = Event::Zcdp { rho, xi: 0.25 };
            let more = ZcdpAccountant.epsilon(&shifted, Relation::ZeroOut, delta).unwrap().upper;
            assert!((more - epsilon - 0.25).abs() < 1e-9);
        }
    }

    #[test]
    fn parts_add_up_and_samples_are_refused() {
        let event = Event::composed(vec![
            Event::gaussian(2.0),
            Event::laplace(10.0),
            Event::ExponentialMechanism { epsilon: 0.4 },
        ]);
        let cost = cost(&event, Relation::ZeroOut).unwrap();
        // s − 1 + e^−s at 0.1
        assert!((cost.rho - (0.125 + 4.837418035959573e-3 + 0.02)).abs() < 1e-14);
        let sampled = Event::gaussian(2.0).poisson_sampled(0.1);
        assert!(ZcdpAccountant.supports(&sampled, Relation::ZeroOut).is_err());
        // of a Gaussian the exact accountant knows more
        let exact = super::super::gdp::GdpAccountant.epsilon(&Event::gaussian(1.0), Relation::ZeroOut, 1e-6).unwrap();
        let loose = ZcdpAccountant.epsilon(&Event::gaussian(1.0), Relation::ZeroOut, 1e-6).unwrap();
        assert!((loose.upper - 5.22153444453).abs() < 1e-9 && exact.upper < loose.upper);
    }
}
