//! What somebody who tests for one unit achieves at most: the hypothesis-testing reading of differential privacy (Kairouz, Oh, Viswanath 2015; Dong, Roth, Su 2022).

use crate::guarantee::Guarantee;
use dpopt_privacy::accountant::true_positive_rates;
use dpopt_privacy::rounding::detection_bound;

/// False-positive rates for which bounds are told.
pub const FALSE_POSITIVE_RATES: [f64; 3] = [0.001, 0.01, 0.1];

/// Largest true-positive rate of any test whether a unit's data were used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttackBound {
    /// How often the test wrongly says that they were.
    pub false_positive_rate: f64,
    /// Bound for any mechanism with the promised (ε, δ).
    pub by_budget: f64,
    /// Bound for the events of this run, by their trade-off curve. `None` if no accountant has it.
    pub by_events: Option<f64>,
}

/// Bounds at each of [`FALSE_POSITIVE_RATES`].
pub fn attack_bounds(guarantee: &Guarantee) -> Vec<AttackBound> {
    let by_events = by_events(guarantee);
    let bound = |(at, rate): (usize, f64)| {
        let by_budget = detection_bound(guarantee.epsilon, guarantee.delta, rate);
        // the promise holds too
        let by_events = by_events.as_ref().and_then(|rates| rates.get(at)).map(|least| least.min(by_budget));
        AttackBound { false_positive_rate: rate, by_budget, by_events }
    };
    FALSE_POSITIVE_RATES.into_iter().enumerate().map(bound).collect()
}

/// Bounds by the events alone: the trade-off curve of the event of a single stage, tangents of the curve of several.
fn by_events(guarantee: &Guarantee) -> Option<Vec<f64>> {
    if let [stage] = &guarantee.stages[..] {
        return true_positive_rates(&stage.event, guarantee.relation, &FALSE_POSITIVE_RATES).ok();
    }
    let most = 2.0 * guarantee.certified_epsilon;
    let tangents: Vec<(f64, f64)> = (0..=TANGENTS)
        .map(|k| most * f64::from(k) / f64::from(TANGENTS))
        .filter_map(|epsilon| Some((epsilon, guarantee.delta_at(epsilon)?)))
        .collect();
    // each tangent is a guarantee of its own
    let least = |rate: f64| tangents.iter().map(|(e, d)| detection_bound(*e, *d, rate)).reduce(f64::min);
    FALSE_POSITIVE_RATES.into_iter().map(least).collect()
}

/// Tangents of a curve that are tried, from ε′ = 0 to twice the certified ε.
const TANGENTS: u32 = 32;
