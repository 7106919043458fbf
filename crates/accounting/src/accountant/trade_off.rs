//! What a guarantee says of an attack: the largest rate of true alarms at a rate of false ones, and a μ that sums it up.
//!
//! Every (ε, δ) in both orders bounds a test with false-alarm rate α: it detects with probability at most e^ε·α + δ, and misses with
//! probability at least e^(−ε)(1 − δ − α) (Kairouz, Oh, Viswanath 2015; Dong, Roth, Su 2022).

use super::{AccountingError, deltas, epsilon, gdp};
use dpopt_event::special::{UNIT_ROUNDOFF, gaussian_ln_delta, gaussian_ln_delta_upper};
use dpopt_event::{Event, Relation};

/// (ε, δ)'s at which an event's curve is read.
const POINTS: u32 = 96;
/// δ down to which it is read.
const LEAST: f64 = 1e-12;

/// Certified (ε, δ)'s of `event`, from ε = 0 to where δ is 1e-12, or to where it no longer falls.
fn guarantees(event: &Event, relation: Relation) -> Result<Vec<(f64, f64)>, AccountingError> {
    let reachable = [LEAST, 1e-9, 1e-6, 1e-3, 0.1].into_iter().find_map(|d| epsilon(event, relation, d).ok());
    let last = reachable.map_or(1.0, |bound| bound.upper).clamp(1e-6, 700.0);
    let exact = gdp::mu(event, relation).ok().filter(|(_, error)| *error == 0.0);
    // denser where the curve bends
    let epsilons: Vec<f64> = (0..=POINTS).map(|i| last * (f64::from(i) / f64::from(POINTS)).powi(2)).collect();
    let read = match exact {
        Some((mu, _)) => epsilons.iter().map(|e| gaussian_ln_delta_upper(*e, mu).exp().next_up()).collect(),
        None => deltas(event, relation, &epsilons)?,
    };
    let mut points: Vec<(f64, f64)> = Vec::with_capacity(epsilons.len());
    for (epsilon, at) in epsilons.into_iter().zip(read) {
        // δ never grows with ε
        points.push((epsilon, points.last().map_or(at, |p| at.min(p.1)).min(1.0)));
    }
    Ok(points)
}

/// Upper bounds on the probability that a test of false-alarm rate `false_positive_rates[i]` detects the record, whatever the
/// attacker knows; 1 for events without protection. Another name of the trade-off curve: 1 − f(α).
///
/// ```
/// use dpopt_privacy::{Event, Relation, accountant::true_positive_rates};
/// let rates = true_positive_rates(&Event::gaussian(1.0), Relation::ZeroOut, &[0.0, 0.05, 1.0])?;
/// // Φ(Φ⁻¹(.05) + 1) = .2595
/// assert!(rates[0] < 1e-9 && rates[1] > 0.2595 && rates[1] < 0.2600 && rates[2] == 1.0);
/// # Ok::<(), dpopt_privacy::accountant::AccountingError>(())
/// ```
///
/// # Errors
/// If a rate is not in [0, 1], or no accountant has a bound.
pub fn true_positive_rates(
    event: &Event,
    relation: Relation,
    false_positive_rates: &[f64],
) -> Result<Vec<f64>, AccountingError> {
    if let Some(wrong) = false_positive_rates.iter().find(|a| !(0.0..=1.0).contains(*a)) {
        return Err(AccountingError::Parameter(format!("a false positive rate is {wrong}; give numbers in [0, 1]")));
    }
    let points = guarantees(event, relation)?;
    let rate = |alpha: f64| {
        let up = 1.0 + 8.0 * UNIT_ROUNDOFF;
        points.iter().fold(1.0f64, |least, (epsilon, delta)| {
            let detected = (epsilon.exp() * alpha + delta) * up;
            let missed = (-epsilon).exp() * (1.0 - delta - alpha);
            least.min(detected).min(1.0 - missed * (1.0 - 8.0 * UNIT_ROUNDOFF) + 2.0 * UNIT_ROUNDOFF)
        })
    };
    Ok(false_positive_rates.iter().map(|alpha| rate(*alpha)).collect())
}

/// The least μ for which μ-Gaussian privacy allows every certified (ε, δ) that is read, δ from 1e-10: one number to compare mechanisms
/// by (Gomez, Kaissis, Kulynych 2025). Exact for Gaussian mechanisms; otherwise an estimate and no guarantee, as between and
/// beyond these points the curve may lie higher. Infinite where δ does not reach 1e-10.
///
/// # Errors
/// If no accountant has a bound.
pub fn gdp_estimate(event: &Event, relation: Relation) -> Result<f64, AccountingError> {
    const SMALLEST: f64 = 1e-10;
    if let Ok((mu, 0.0)) = gdp::mu(event, relation) {
        return Ok(mu);
    }
    let points = guarantees(event, relation)?;
    if points.last().is_none_or(|(_, delta)| *delta > SMALLEST) {
        return Ok(f64::INFINITY);
    }
    let needed = |epsilon: f64, delta: f64| {
        let (mut low, mut high) = (-40f64, 12f64);
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            if gaussian_ln_delta(epsilon, middle.exp()) < delta.ln() { low = middle } else { high = middle }
        }
        high.exp()
    };
    let worth = points.iter().filter(|(_, delta)| *delta >= SMALLEST);
    Ok(worth.map(|(epsilon, delta)| needed(*epsilon, *delta)).fold(0.0, f64::max))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_of_known_mechanisms() {
        // randomized response: e^ε·α up to the corner α = 1/(1+e^ε), which it detects with e^ε/(1+e^ε)
        let event = Event::PureStream { epsilon: 1.0 };
        let e = 1f64.exp();
        for alpha in [0.0, 0.1, 0.2, 1.0 / (1.0 + e), 0.5, 0.9, 1.0] {
            let exact = (e * alpha).min(1.0 - (1.0 - alpha) / e);
            let got = true_positive_rates(&event, Relation::ZeroOut, &[alpha]).unwrap()[0];
            assert!(got >= exact - 1e-15 && got < exact + 1e-3, "{alpha}: {got} {exact}");
        }
        let sampled = Event::gaussian(1.0).poisson_sampled(0.01).self_composed(100);
        let rates = true_positive_rates(&sampled, Relation::ZeroOut, &[1e-3, 1e-2, 0.1, 0.5]).unwrap();
        assert!(rates.windows(2).all(|w| w[0] < w[1]) && rates[0] > 1e-3 && rates[2] < 0.2, "{rates:?}");
        assert_eq!(true_positive_rates(&Event::NonPrivate, Relation::ZeroOut, &[0.0, 0.3]).unwrap(), [1.0, 1.0]);
        assert!(true_positive_rates(&sampled, Relation::ZeroOut, &[1.5]).is_err());
    }

    #[test]
    fn one_number() {
        let gaussians = Event::gaussian(2.0).self_composed(4);
        assert!((gdp_estimate(&gaussians, Relation::ZeroOut).unwrap() - 1.0).abs() < 1e-12);
        // full-batch steps hidden in a sampling of everything but a little
        let nearly = Event::gaussian(2.0).poisson_sampled(0.999999).self_composed(4);
        let mu = gdp_estimate(&nearly, Relation::ZeroOut).unwrap();
        assert!((mu - 1.0).abs() < 1e-2, "{mu}");
        assert_eq!(
            gdp_estimate(&Event::ApproxDp { epsilon: 1.0, delta: 1e-5 }, Relation::ZeroOut).unwrap(),
            f64::INFINITY
        );
    }
}
