//! A second certified path to ε: no tolerance, no Fourier transform, no trusted libm (`docs/proofs/accounting-gate.md`).
//!
//! One-step masses are enclosed by interval arithmetic, put on a lattice by connect-the-dots with every rounding toward larger
//! losses, and convolved term by term with one upward rounding per operation. It takes seconds where the lattice accountant takes
//! milliseconds, and its ε is a little larger. What it rests on: correctly rounded f64 arithmetic, and the domination theorems.

mod interval;
mod law;
mod pairs;

use super::{AccountingError, gdp};
use dpopt_event::{Event, Relation};
use law::Law;
use pairs::Pair;

/// Points of a lattice that give ε to about a thousandth within seconds.
pub const POINTS: usize = 8192;

/// An ε with δ(ε) ≤ `delta`, rigorously, for compositions of Gaussian, Poisson-sampled Gaussian (not under replace-one) and Laplace
/// mechanisms; other events are refused. `points`: lattice points of each law, at least 64; time grows with their square.
///
/// ```
/// use dpopt_privacy::{Event, Relation, accountant::{self, verify}};
/// let event = Event::gaussian(1.0).poisson_sampled(0.01).self_composed(100);
/// let headline = accountant::epsilon(&event, Relation::ZeroOut, 1e-6)?.upper;
/// let verified = verify::epsilon(&event, Relation::ZeroOut, 1e-6, 2048)?;
/// assert!((verified / headline - 1.0).abs() < 0.02);
/// # Ok::<(), accountant::AccountingError>(())
/// ```
pub fn epsilon(event: &Event, relation: Relation, delta: f64, points: usize) -> Result<f64, AccountingError> {
    super::check_delta(delta)?;
    if delta < 1e-290 || points < 64 {
        return Err(AccountingError::Parameter(
            "verification needs delta of at least 1e-290 and at least 64 points".into(),
        ));
    }
    let exact = event.exact(relation).map_err(|e| AccountingError::Parameter(e.to_string()))?;
    let refuse = |reason: String| AccountingError::Unsupported { accountant: "interval", relation, reason };
    if exact.total_variation > 0.0 {
        return Err(refuse("samplers' errors are not verified here".into()));
    }
    let (mut forward, mut backward, mut gaussians) = (vec![], vec![], vec![]);
    for (part, count) in &exact.parts {
        if let Ok((mu, _)) = gdp::mu(part, relation) {
            gaussians.push((mu, *count));
            continue;
        }
        match part {
            Event::Laplace { noise_multiplier } if *noise_multiplier > 0.0 => {
                let pair = Pair::Laplace { shift: (relation.sum_sensitivity() / noise_multiplier).next_up() };
                forward.push((pair.clone(), *count));
                backward.push((pair, *count));
            }
            Event::PoissonSampled { sampling_probability: q, event }
                if relation != Relation::ReplaceOne && gdp::mu(event, relation).is_ok() =>
            {
                let (mu, _) = gdp::mu(event, relation)?;
                forward.push((Pair::Present { q: *q, mu }, *count));
                backward.push((Pair::Absent { q: *q, mu }, *count));
            }
            other => return Err(refuse(format!("{other} is not verified here"))),
        }
    }
    // the composition of Gaussians is one Gaussian
    let mu = gdp::together(&gaussians);
    if mu > 0.0 {
        let pair = Pair::Present { q: 1.0, mu };
        forward.push((pair.clone(), 1));
        backward.push((pair, 1));
    }
    let order = |parts: &[(Pair, u64)]| composed(parts, delta, points);
    match (order(&forward), order(&backward)) {
        (Some(a), Some(b)) => Ok(a.max(b)),
        _ => Err(AccountingError::Unreachable(format!("no epsilon is verified at delta {delta:e} on {points} points"))),
    }
}

/// ε of one order of the neighbours.
fn composed(parts: &[(Pair, u64)], delta: f64, points: usize) -> Option<f64> {
    let draws: f64 = parts.iter().map(|(_, count)| *count as f64).sum();
    // what is cut off adds to δ: a ten-thousandth in all
    let negligible = 1e-5 * delta / draws.max(1.0);
    let mut total: Option<Law> = None;
    for (pair, count) in parts {
        let law = pair.law(points, negligible)?.power(*count, points, negligible);
        total = Some(match total {
            Some(sum) => sum.times(law, points, negligible),
            None => law,
        });
    }
    total.map_or(Some(0.0), |law| law.epsilon(delta))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accountant::Accountant;
    use crate::accountant::pld::{Pld, Quality};

    /// (event, δ, largest excess over the headline): verified from above, and the headline is not above what is verified.
    fn headlines() -> Vec<(Event, f64, f64)> {
        let dp_sgd = |q: f64, sigma: f64, t: u64| Event::gaussian(sigma).poisson_sampled(q).self_composed(t);
        vec![
            (Event::gaussian(1.0), 1e-6, 1e-5),
            (Event::gaussian(20.0).self_composed(100), 1e-30, 1e-5),
            (Event::laplace(10.0).self_composed(50), 1e-6, 1e-3),
            (dp_sgd(0.01, 1.0, 1000), 1e-6, 2e-3),
            (dp_sgd(0.1, 4.0, 500), 1e-9, 2e-3),
            (
                Event::composed(vec![
                    dp_sgd(0.02, 1.0, 200),
                    Event::laplace(20.0).self_composed(10),
                    Event::gaussian(5.0),
                ]),
                1e-5,
                2e-3,
            ),
        ]
    }

    #[test]
    fn headline_numbers_are_verified() {
        for (event, delta, room) in headlines() {
            let bound = Pld { quality: Quality::BRACKET }.epsilon(&event, Relation::ZeroOut, delta).unwrap();
            let verified = epsilon(&event, Relation::ZeroOut, delta, 4096).unwrap();
            println!("{event} at {delta:e}: headline {}, attained {:?}, verified {verified}", bound.upper, bound.lower);
            assert!(verified >= bound.lower.unwrap(), "{event}: {verified} is below what is attained, {bound:?}");
            assert!(verified < bound.upper * (1.0 + room), "{event}: {verified} {bound:?}");
        }
    }

    /// The total variation is about 4e-171, above δ; a lattice whose spacing underflows is not made.
    #[test]
    fn what_is_nearly_nothing_is_not_nothing() {
        for event in [Event::gaussian(1e170), Event::gaussian(1e170).self_composed(2), Event::laplace(1e170)] {
            let verified = epsilon(&event, Relation::ZeroOut, 1e-290, 256).unwrap();
            assert!(verified > 0.0 && verified < 1e-9, "{event} {verified:e}");
        }
        let verified = epsilon(&Event::laplace(1e308), Relation::ZeroOut, 1e-200, 256).unwrap();
        assert!(verified < 1e-200, "{verified:e}");
    }

    #[test]
    fn what_is_not_verified_is_refused() {
        let refused = |event: &Event, relation| epsilon(event, relation, 1e-6, 256).is_err();
        assert!(refused(&Event::gaussian(1.0).approximate(1e-12), Relation::ZeroOut));
        assert!(refused(&Event::gaussian(1.0).poisson_sampled(0.1), Relation::ReplaceOne));
        assert!(refused(&Event::NonPrivate, Relation::ZeroOut));
        assert!(refused(&Event::laplace(1e-3), Relation::ZeroOut), "losses of 1000 nats");
        assert_eq!(epsilon(&Event::NoOp, Relation::ZeroOut, 1e-6, 256), Ok(0.0));
    }
}
