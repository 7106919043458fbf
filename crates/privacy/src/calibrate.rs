//! Finds the one free parameter of an event that meets a budget.
//!
//! The search uses coarse accounting; what is returned was certified at full quality *after* rounding to seven
//! significant digits toward the private side.

use crate::accountant::pld::Quality;
use crate::accountant::{self, AccountingError};
use crate::certify::{Certificate, CertifyError, certify};
use crate::{Event, Terms};
use dpopt_process::stop;

/// Range searched for a noise parameter.
pub const NOISE_RANGE: (f64, f64) = (1e-6, 1e9);
/// Smallest sampling probability searched.
pub const LEAST_PROBABILITY: f64 = 1e-12;
/// Range searched for a parameter that costs privacy.
pub const COST_RANGE: (f64, f64) = (1e-9, 1e6);
/// Largest number of steps searched.
pub const MAX_STEPS: u64 = 1_000_000_000;

/// Smallest noise parameter in [`NOISE_RANGE`] (to seven significant digits) for which `event_of(parameter)` is
/// certified within the budget of `terms`; ε must not grow with the parameter. The returned certificate is of the returned
/// value. If the budget is met already at the lower end of the range, that end is returned.
///
/// ```
/// use dpopt_privacy::{Budget, Event, Neighbours, Relation, calibrate};
/// let terms = Neighbours::of_records(Relation::ZeroOut).within(Budget::new(1.0, 1e-6).unwrap());
/// let event = |noise| Event::gaussian(noise).poisson_sampled(0.01).self_composed(1000);
/// let (noise, certificate) = calibrate::noise(event, terms).unwrap();
/// assert!(noise > 1.562666 && noise < 1.56270);
/// assert!(certificate.bound().upper <= 1.0);
/// ```
pub fn noise(event_of: impl Fn(f64) -> Event, terms: Terms) -> Result<(f64, Certificate), CertifyError> {
    search(&event_of, terms, NOISE_RANGE, Toward::Larger)
}

/// Largest sampling probability in (0, 1] (to seven significant digits) for which `event_of(probability)` is
/// certified within the budget of `terms`; ε must not fall with it.
pub fn sampling_probability(event_of: impl Fn(f64) -> Event, terms: Terms) -> Result<(f64, Certificate), CertifyError> {
    search(&event_of, terms, (LEAST_PROBABILITY, 1.0), Toward::Smaller)
}

/// Largest parameter in [`COST_RANGE`] that costs more privacy the larger it is, such as the ε of a choice, a μ, a ρ or the decay
/// of integer noise (to seven significant digits), for which `event_of(parameter)` is certified within the budget of `terms`.
///
/// ```
/// use dpopt_privacy::{Budget, Event, Neighbours, Relation, calibrate};
/// let terms = Neighbours::of_records(Relation::ZeroOut).within(Budget::new(1.0, 1e-6).unwrap());
/// let choices = |epsilon| Event::ExponentialMechanism { epsilon }.self_composed(20);
/// let (epsilon, _) = calibrate::cost(choices, terms).unwrap();
/// // twenty choices of 1/20 each would be pure; composition allows more
/// assert!(epsilon > 0.07 && epsilon < 0.2, "{epsilon}");
/// ```
pub fn cost(event_of: impl Fn(f64) -> Event, terms: Terms) -> Result<(f64, Certificate), CertifyError> {
    search(&event_of, terms, COST_RANGE, Toward::Smaller)
}

/// Largest number of steps, at most [`MAX_STEPS`], for which `event_of(steps)` is certified within the budget of `terms`;
/// ε must not fall with it.
pub fn steps(event_of: impl Fn(u64) -> Event, terms: Terms) -> Result<(u64, Certificate), CertifyError> {
    count(event_of, MAX_STEPS, terms)
}

/// Largest count from 1 to `most`, for example of a sample's records, for which `event_of(count)` is certified within
/// `budget`; ε must not fall with it.
pub fn count(event_of: impl Fn(u64) -> Event, most: u64, terms: Terms) -> Result<(u64, Certificate), CertifyError> {
    let mut best = certify(&event_of(1), terms).map(|c| (1, c))?;
    let (mut low, mut high) = (1, 2);
    let coarse = |t: u64| coarse_epsilon(&event_of(t), terms);
    while high < most && coarse(high)? <= terms.budget.epsilon() {
        (low, high) = (high, high.saturating_mul(2));
    }
    high = high.min(most + 1);
    while high - low > (1 + low / 1000) {
        let middle = low + (high - low) / 2;
        if coarse(middle)? <= terms.budget.epsilon() { low = middle } else { high = middle }
    }
    // coarse accounting is an upper bound, so `low` fits; sharpen upward with certificates
    let mut stride = (high - low).max(1);
    let mut at = low;
    if at > best.0 {
        best = (at, certify(&event_of(at), terms)?);
    }
    let mut growing = true;
    while stride >= 1 && at < most {
        let next = (at + stride).min(most);
        match certify(&event_of(next), terms) {
            Ok(certificate) => {
                at = next;
                best = (at, certificate);
                if growing {
                    stride *= 2;
                }
            }
            Err(
                CertifyError::OverBudget { .. }
                | CertifyError::Accounting(AccountingError::Unreachable(_) | AccountingError::Contradicted { .. }),
            ) => {
                growing = false;
                stride /= 2;
            }
            Err(e) => return Err(e),
        }
    }
    Ok(best)
}

#[derive(Clone, Copy, PartialEq)]
enum Toward {
    /// A larger parameter is more private.
    Larger,
    /// A smaller parameter is more private.
    Smaller,
}

/// ε by coarse accounting, infinite where no finite one exists.
fn coarse_epsilon(event: &Event, terms: Terms) -> Result<f64, CertifyError> {
    stop::point();
    match accountant::epsilon_at(event, terms.neighbours.relation, terms.budget.delta(), Quality::COARSE) {
        // no number that is searched for could mend that
        Ok(bound) if bound.upper.is_infinite() => Err(AccountingError::Parameter(
            "a value is released without noise, so that no finite epsilon holds; leave it out".into(),
        )
        .into()),
        Ok(bound) => Ok(bound.upper),
        Err(AccountingError::Unreachable(_) | AccountingError::Contradicted { .. }) => Ok(f64::INFINITY),
        Err(e) => Err(e.into()),
    }
}

/// `value` rounded to seven significant digits in the private direction.
fn seven_digits(value: f64, toward: Toward) -> f64 {
    let scale = 10f64.powi(6 - value.log10().floor() as i32);
    let scaled = value * scale;
    let rounded = match toward {
        Toward::Larger => scaled.ceil(),
        Toward::Smaller => scaled.floor(),
    };
    // through text, so that the result is the f64 nearest to the seven digits
    format!("{:.6e}", rounded / scale).parse().unwrap_or(value)
}

fn search(
    event_of: &dyn Fn(f64) -> Event,
    terms: Terms,
    (least, most): (f64, f64),
    toward: Toward,
) -> Result<(f64, Certificate), CertifyError> {
    // x grows with privacy: x = ln parameter or −ln parameter
    let sign = if toward == Toward::Larger { 1.0 } else { -1.0 };
    let parameter = |x: f64| (sign * x).exp().clamp(least, most);
    // an epsilon at which the samplers' error takes all of δ can't be had: no search along that edge
    let samplers = event_of(parameter(0.0)).exact(terms.neighbours.relation).map_or(0.0, |e| e.total_variation);
    let edge = (terms.budget.delta() / (8.0 * samplers)).ln();
    let target = if edge > 0.0 { terms.budget.epsilon().min(edge) } else { terms.budget.epsilon() };
    // ln(ε/target), bounded so that 0 and ∞ can be interpolated
    #[allow(clippy::manual_clamp, reason = "this order takes NaN to a bound as well")]
    let excess = |x: f64| -> Result<f64, CertifyError> {
        let e = coarse_epsilon(&event_of(parameter(x)), terms)?;
        Ok((e / target).max(1e-6).min(1e6).ln())
    };
    let (x_min, x_max) = if toward == Toward::Larger { (least.ln(), most.ln()) } else { (-most.ln(), -least.ln()) };
    let mut low = 0f64.clamp(x_min, x_max);
    let mut f_low = excess(low)?;
    let (mut high, mut f_high) = (low, f_low);
    let mut stride = 1.0;
    while f_low <= 0.0 && low > x_min {
        (high, f_high) = (low, f_low);
        low = (low - stride).max(x_min);
        f_low = excess(low)?;
        stride *= 2.0;
    }
    if f_low <= 0.0 {
        let value = if toward == Toward::Larger { least } else { most };
        return Ok((value, certify(&event_of(value), terms)?));
    }
    while f_high > 0.0 {
        if high >= x_max {
            // names the accountant's reason or what the event costs at the most private end
            let value = if toward == Toward::Larger { most } else { least };
            return Ok((value, certify(&event_of(value), terms)?));
        }
        (low, f_low) = (high, f_high);
        high = (high + stride).min(x_max);
        f_high = excess(high)?;
        stride *= 2.0;
    }
    // Illinois on (x, ln ε), down to the noise of coarse accounting
    let mut side = 0;
    let mut start = high;
    while high - low > 1e-5 && f_low - f_high > 1e-4 {
        let mut x = high - f_high * (high - low) / (f_high - f_low);
        let margin = 1e-3 * (high - low);
        // far from the root ln ε is strongly curved: bisect
        x = if f_low - f_high > 3.0 { 0.5 * (low + high) } else { x.clamp(low + margin, high - margin) };
        let f = excess(x)?;
        if f > 0.0 {
            (low, f_low) = (x, f);
            if side == 1 {
                f_high *= 0.5;
            }
            side = 1;
        } else {
            (high, f_high) = (x, f);
            if side == -1 {
                f_low *= 0.5;
            }
            side = -1;
        }
        start = x;
        if f.abs() < 3e-4 {
            break;
        }
    }
    let slope = sign * (f_high - f_low) / (high - low);
    let slope = if slope.is_finite() && slope != 0.0 { slope } else { -sign };
    certified_end(event_of, terms, target, parameter(start), slope, toward)
}

/// Secant steps with certificates from a good start, inside a bracket of refused and certified values. `target` is an ε within
/// the budget.
fn certified_end(
    event_of: &dyn Fn(f64) -> Event,
    terms: Terms,
    target: f64,
    start: f64,
    mut slope: f64,
    toward: Toward,
) -> Result<(f64, Certificate), CertifyError> {
    let sign = if toward == Toward::Larger { 1.0 } else { -1.0 };
    let mut value = seven_digits(start, toward);
    let mut best: Option<(f64, Certificate)> = None;
    let mut refused: Option<f64> = None;
    let mut last: Option<(f64, f64)> = None;
    let mut push = 1e-6;
    for _ in 0..40 {
        let f = match certify(&event_of(value), terms) {
            Ok(certificate) => {
                let f = (certificate.bound().upper / target).max(1e-6).ln();
                best = Some((value, certificate));
                // a millionth of ε is what the seven digits can tell apart
                if f >= -1e-6 {
                    break;
                }
                f
            }
            Err(CertifyError::OverBudget { needed, .. }) => {
                refused = Some(value);
                (needed / target).min(1e6).ln()
            }
            Err(CertifyError::Accounting(AccountingError::Unreachable(_) | AccountingError::Contradicted { .. })) => {
                refused = Some(value);
                1e6f64.ln()
            }
            Err(e) => return Err(e),
        };
        if let Some((x0, f0)) = last {
            let secant = (f - f0) / (value.ln() - x0);
            if secant.is_finite() && secant * sign < 0.0 {
                slope = secant;
            }
        }
        last = Some((value.ln(), f));
        // aim slightly inside the budget
        let mut next = value * (-(f + 4e-7) / slope).clamp(-0.7, 0.7).exp();
        match (refused, &best) {
            (Some(bad), Some((good, _))) => {
                if ((good - bad) / good).abs() < 3e-7 {
                    break;
                }
                let (least, most) = (bad.min(*good), bad.max(*good));
                if !(next > least && next < most) {
                    next = 0.5 * (least + most);
                }
            }
            (Some(bad), None) => {
                // over budget so far: push on by at least a doubling nudge
                let nudged = bad * (1.0 + sign * push);
                next = if sign > 0.0 { next.max(nudged) } else { next.min(nudged) };
                push = (push * 2.0).min(0.5);
            }
            _ => {}
        }
        let rounded = seven_digits(next, toward);
        if Some(rounded) == refused || best.as_ref().is_some_and(|(good, _)| *good == rounded) {
            if best.is_some() {
                break;
            }
            value = seven_digits(next * (1.0 + sign * 1e-6), toward);
        } else {
            value = rounded;
        }
    }
    match best {
        Some(found) => Ok(found),
        None => Ok((value, certify(&event_of(value), terms)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accountant::Accountant;
    use crate::{Budget, Neighbours, Relation};

    #[test]
    fn noise_of_dp_sgd() {
        // 1.562666 by Laplace inversion of the exact one-step transform; less is a fault
        let event = |x: f64| Event::gaussian(x).poisson_sampled(0.01).self_composed(1000);
        let (x, c) =
            noise(event, Neighbours::of_records(Relation::ZeroOut).within(Budget::new(1.0, 1e-6).unwrap())).unwrap();
        assert!((1.562666..1.562680).contains(&x), "{x}");
        assert!(c.bound().upper <= 1.0 && c.bound().upper > 0.9999);
        assert_eq!(*c.event(), event(x));
        assert_eq!(seven_digits(x, Toward::Larger), x);
    }

    /// Where the samplers' error takes all of δ no noise is enough; the search ends before, and soon.
    #[test]
    fn an_epsilon_beyond_what_samplers_allow_takes_no_longer() {
        let asked = std::cell::Cell::new(0);
        let event = |x: f64| {
            asked.set(asked.get() + 1);
            Event::gaussian(x).poisson_sampled(0.1).self_composed(200).approximate(4.5e-29)
        };
        let (x, c) =
            noise(event, Neighbours::of_records(Relation::ZeroOut).within(Budget::new(80.0, 1e-6).unwrap())).unwrap();
        // ln(δ/τ) is 51.4: from there on nothing is left
        assert!(c.bound().upper > 49.0 && c.bound().upper < 51.4, "{x} {}", c.bound().upper);
        assert!(asked.get() < 30, "{}", asked.get());
    }

    #[test]
    fn noise_of_one_gaussian() {
        for (e, d, s) in [(1.0, 1e-5, 3.730631634816), (0.1, 1e-6, 36.3046904262), (10.0, 1e-5, 0.499888619709)] {
            let (x, _) =
                noise(Event::gaussian, Neighbours::of_records(Relation::ZeroOut).within(Budget::new(e, d).unwrap()))
                    .unwrap();
            assert!(x >= s && x < s * (1.0 + 2e-5), "{x} {s}");
        }
    }

    /// σ to seven digits: rounded to nearest, every other one is below what the budget needs.
    #[test]
    fn noise_rounded_to_nearest_is_over_budget() {
        for (e, d, s) in [(0.1, 1e-6, 36.3046904262), (10.0, 1e-5, 0.499888619709)] {
            let budget = Budget::new(e, d).unwrap();
            let wrong: f64 = format!("{s:.6e}").parse().unwrap();
            let spent = accountant::gdp::GdpAccountant.delta(&Event::gaussian(wrong), Relation::ZeroOut, e).unwrap();
            assert!(spent.lower.unwrap_or(spent.upper) > d, "the mistake was not noticed: {wrong} is enough");
            assert!(
                certify(&Event::gaussian(wrong), Neighbours::of_records(Relation::ZeroOut).within(budget)).is_err()
            );
            let (x, _) = noise(Event::gaussian, Neighbours::of_records(Relation::ZeroOut).within(budget)).unwrap();
            assert!(x >= s && x > wrong, "{x}");
        }
    }

    #[test]
    fn probability_and_steps() {
        let budget = Budget::new(1.0, 1e-6).unwrap();
        let (q, c) = sampling_probability(
            |q| Event::gaussian(1.562666).poisson_sampled(q).self_composed(1000),
            Neighbours::of_records(Relation::ZeroOut).within(budget),
        )
        .unwrap();
        assert!(q < 0.010000004 && q > 0.0099998, "{q}");
        assert!(c.bound().upper <= 1.0);
        let event = |t: u64| Event::gaussian(1.5627).poisson_sampled(0.01).self_composed(t);
        let (t, _) = steps(event, Neighbours::of_records(Relation::ZeroOut).within(budget)).unwrap();
        assert!((1000..1004).contains(&t), "{t}");
        assert!(certify(&event(t + 1), Neighbours::of_records(Relation::ZeroOut).within(budget)).is_err());
    }

    #[test]
    fn costs_and_sample_sizes() {
        let budget = Budget::new(1.0, 1e-6).unwrap();
        let (rho, c) =
            cost(|rho| Event::Zcdp { rho, xi: 0.0 }, Neighbours::of_records(Relation::ZeroOut).within(budget)).unwrap();
        assert!(
            c.bound().upper <= 1.0
                && certify(
                    &Event::Zcdp { rho: 1.001 * rho, xi: 0.0 },
                    Neighbours::of_records(Relation::ZeroOut).within(budget)
                )
                .is_err()
        );
        let (epsilon, _) =
            cost(|epsilon| Event::PureStream { epsilon }, Neighbours::of_records(Relation::ZeroOut).within(budget))
                .unwrap();
        assert!((1.0..1.00001).contains(&epsilon), "{epsilon}");
        let sample = |m| Event::gaussian(8.0).sampled_without_replacement(1000, m).self_composed(50);
        let (size, _) = count(sample, 1000, Neighbours::of_records(Relation::ZeroOut).within(budget)).unwrap();
        assert!(
            size > 10
                && size < 1000
                && certify(&sample(size + 1), Neighbours::of_records(Relation::ZeroOut).within(budget)).is_err(),
            "{size}"
        );
        // all of them
        let free = |m| Event::gaussian(1e4).sampled_without_replacement(1000, m);
        assert_eq!(count(free, 1000, Neighbours::of_records(Relation::ZeroOut).within(budget)).unwrap().0, 1000);
        assert!(
            count(
                |t| Event::gaussian(0.1).self_composed(t),
                10,
                Neighbours::of_records(Relation::ZeroOut).within(budget)
            )
            .is_err()
        );
    }

    #[test]
    fn rounding_is_toward_privacy() {
        assert_eq!(seven_digits(1.23456701, Toward::Larger), 1.234568);
        assert_eq!(seven_digits(1.23456799, Toward::Smaller), 1.234567);
        assert_eq!(seven_digits(1.234567, Toward::Larger), 1.234567);
    }
}
