//! The sums for prediction intervals (docs/proofs/prediction-intervals.md).

use super::LibraryAudit;
use super::releases::TIGHT_RUNS;
use crate::worst_cases::coverage::{Absent, CoverageSum};

pub(super) fn audit() -> LibraryAudit {
    let sums = CoverageSum::new(1.0, Absent::Zeros);
    LibraryAudit::new(
        "sums for prediction intervals",
        "record whose target an interval misses, or zeroed",
        Ok(sums.event()),
        (1e-5, TIGHT_RUNS),
        move |with, draws| sums.release(with, draws).unwrap_or(f64::NAN),
    )
    .gaussian()
}
