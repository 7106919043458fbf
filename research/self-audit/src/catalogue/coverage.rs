//! A bug of the sums for prediction intervals (docs/proofs/prediction-intervals.md).

use super::InjectedFault;
use super::Source::Altered;
use crate::worst_cases::coverage::{Absent, CoverageSum};
use dpopt_audit::statistics::Claim;

pub(super) fn bug() -> InjectedFault {
    // a row of zeros is predicted to be 0, and its target is 0: it would count as one that is held
    let (right, wrong) = (CoverageSum::new(1.0, Absent::Zeros), CoverageSum::new(1.0, Absent::Held));
    InjectedFault::counting(
        (
            "63.absent-row",
            Altered,
            "prediction intervals: a row of zeros counts as held, noise for one record's contribution",
            "record alone whose target the interval misses; the sum",
        ),
        Claim::gaussian(1.0),
        (1_500, 3_000),
        move |code, with, draws| code.pick(&right, &wrong).release(with, draws).unwrap_or(f64::NAN),
    )
}
