//! Bugs of the sums after a fit (docs/proofs/calibration.md).

use super::InjectedFault;
use super::Source::{Altered, Shipped};
use crate::worst_cases::calibration::{Absent, CalibrationSum};
use dpopt_audit::statistics::Claim;

pub(super) fn bugs() -> Vec<InjectedFault> {
    let sum = CalibrationSum::new;
    // scores of a row of zeros are 0, and their residual would be one of a record that is not there
    let (right, wrong) = (sum(1.0, Absent::Zeros), sum(1.0, Absent::Residual));
    let residual = InjectedFault::counting(
        (
            "41.absent-residual",
            Altered,
            "calibration: the residual of a row of zeros counts, noise for one record's contribution",
            "record alone, surely wrong; along the difference of both contributions",
        ),
        Claim::gaussian(1.0),
        (1_500, 3_000),
        move |code, with, draws| code.pick(&right, &wrong).release(with, draws).unwrap_or(f64::NAN),
    );
    let (right, wrong) = (sum(1.0, Absent::Zeros), sum(0.5f64.sqrt(), Absent::Zeros));
    let clip = InjectedFault::counting(
        (
            "41.other-clip",
            Shipped,
            "calibration: noise for a clip norm of 1, contributions clipped to sqrt(2)",
            "record alone, surely wrong; along its contribution",
        ),
        Claim::gaussian(1.0),
        (1_500, 3_000),
        move |code, with, draws| code.pick(&right, &wrong).release(with, draws).unwrap_or(f64::NAN),
    );
    vec![residual, clip]
}
