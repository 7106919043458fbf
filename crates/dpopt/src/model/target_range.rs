//! What a regression pays for the range of an undeclared target (docs/decisions/0021-the-range-of-a-target.md).

use dpopt_mechanism::PrivateBounds;
use dpopt_privacy::{Budget, Neighbours};

/// Shares of ε: the first that is enough for so many targets is taken.
const SHARES: [f64; 4] = [0.05, 0.1, 0.2, 0.3];

/// The least share of ε that finds the range of about `counted` targets, if one does: decided by public numbers.
pub(super) fn enough(budget: Budget, neighbours: Neighbours, counted: u64) -> Option<f64> {
    SHARES.into_iter().find(|share| {
        let terms = Budget::new(budget.epsilon() * share, 0.0).map(|part| neighbours.within(part));
        terms.is_ok_and(|terms| PrivateBounds::plan(1, counted, terms).is_ok())
    })
}

/// The least share of ε that finds the range of about `counted` targets; the largest share if none does, whose plan is then refused with the number of rows that
/// would be enough.
pub(super) fn share(budget: Budget, neighbours: Neighbours, counted: u64) -> f64 {
    let [.., most] = SHARES;
    enough(budget, neighbours, counted).unwrap_or(most)
}
