//! The sums after a fit (docs/proofs/calibration.md).

use super::LibraryAudit;
use super::releases::TIGHT_RUNS;
use crate::worst_cases::calibration::{Absent, CalibrationSum};

pub(super) fn audit() -> LibraryAudit {
    let sums = CalibrationSum::new(1.0, Absent::Zeros);
    LibraryAudit::new(
        "sums of a calibration",
        "record of the second of three classes, surely of the first, or zeroed; along its contribution",
        Ok(sums.event()),
        (1e-5, TIGHT_RUNS),
        move |with, draws| sums.release(with, draws).unwrap_or(f64::NAN),
    )
    .gaussian()
}
