//! What a regression pays for the range of an undeclared target (docs/decisions/0021-the-range-of-a-target.md), and which ranges counts have
//! (docs/decisions/0058-models-of-counts.md).

use super::error::FitError;
use dpopt_mechanism::PrivateBounds;
use dpopt_objective::loss::Loss;
use dpopt_privacy::{Budget, Neighbours};
use dpopt_refusal::Refusal;

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

/// Refuses a declared range that the loss has no use for: counts begin at 0.
pub(super) fn check(loss: Loss, lower: f64) -> Result<(), FitError> {
    match loss {
        Loss::Poisson { .. } if lower != 0.0 => Err(FitError::Option(
            Refusal::of("the Poisson loss is for counts, and the declared range of the target does not begin at 0")
                .or("declare the range from 0 to the largest count that matters")
                .or("take the squared loss"),
        )),
        _ => Ok(()),
    }
}

/// Refuses a moment of what is no mean of numbers that may lie on either side: for these it was balanced where to clip.
pub(super) fn without_moment(loss: Loss) -> Result<(), FitError> {
    match loss {
        Loss::Poisson { .. } => Err(FitError::Option(
            Refusal::of("a bound on a moment of the target says where to clip it for the squared loss, and counts are asked for")
                .or("declare the range of the counts")
                .or("leave both out, and the range is found privately"),
        )),
        Loss::Quantile { .. } => Err(FitError::Option(
            Refusal::of(
                "a bound on a moment of the target says where to clip it for the squared loss, and a quantile is asked for, which \
                 clipping far away does not move",
            )
            .or("declare the range of the target")
            .or("leave both out, and the range is found privately"),
        )),
        _ => Ok(()),
    }
}

/// The range that targets of `loss` are clipped to where this one was found. Counts begin at 0, one count at least is told from none, and what was found holds 99 of 100:
/// twice as much leaves hardly any of a mean out. Post-processing of what was released.
pub(super) fn of_found(loss: Loss, (lower, upper): (f64, f64)) -> (f64, f64) {
    match loss {
        Loss::Poisson { .. } => (0.0, (2.0 * upper).max(1.0)),
        _ => (lower, upper),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_begin_at_zero_and_have_room_above() {
        let counts = Loss::Poisson { top: Loss::USUAL_TOP };
        assert_eq!(of_found(counts, (-1.5, 7.0)), (0.0, 14.0));
        assert_eq!(of_found(counts, (-3.0, -2.0)), (0.0, 1.0));
        assert_eq!(of_found(Loss::Squared, (-1.5, 7.0)), (-1.5, 7.0));
        assert!(check(counts, 0.0).is_ok() && check(Loss::Squared, 1.0).is_ok());
        let refused = check(counts, 1.0).unwrap_err().to_string();
        assert!(refused.contains("does not begin at 0"), "{refused}");
        assert!(without_moment(counts).is_err() && without_moment(Loss::Squared).is_ok());
        let half = Loss::Quantile { level: 0.5, width: Loss::USUAL_WIDTH };
        assert!(without_moment(half).is_err() && check(half, 1.0).is_ok());
    }
}
