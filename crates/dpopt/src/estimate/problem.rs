//! The mean of sparse vectors as a problem, and what a plan of it says, whichever method made it (Ghazi et al. 2024, Algorithms 1 and 2).

use dpopt_mechanism::Projection;
use dpopt_optimize::plan::NotApplicable;
use dpopt_privacy::{Certificate, Neighbours, Shown};
use serde::Serialize;

/// Public facts about vectors whose mean is wanted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MeanProblem {
    /// n: number of records, which are rows or units (the mean of a unit's vectors is its record). Public under zero-out and replace-one; under
    /// add-or-remove a public guess.
    pub records: u64,
    /// d: number of coordinates.
    pub dimension: u64,
    /// s: expected number of non-zeros of a record. Records with more are shrunk to l1 norm L·√s; a wrong s costs
    /// accuracy, never privacy.
    pub sparsity: f64,
    /// L: longer records are shrunk to this l2 norm.
    pub norm: f64,
    /// k: a unit has at most so many of the records, which are rows then; 1 where a record is a unit.
    #[serde(skip_serializing_if = "is_one")]
    pub group: u64,
    /// Which data sets are neighbours.
    #[serde(flatten)]
    pub neighbours: Neighbours,
}

fn is_one(group: &u64) -> bool {
    *group == 1
}

/// Probability with which the stated error may be exceeded.
pub(crate) const ERROR_CONFIDENCE: f64 = 0.05;

/// Up to here an array of all coordinates costs nothing worth saving.
const SMALL: u64 = 1 << 20;

/// Coordinates beyond which no array of all of them is kept (8 bytes each: 1 GiB).
pub(super) const MAX_DENSE: u64 = 1 << 27;

/// A planned and certified way to estimate a mean.
#[derive(Clone, Debug)]
pub struct MeanPlan {
    /// Name as in `--method`.
    pub method: &'static str,
    /// Noise scale over the norm bound of a record.
    pub noise_multiplier: f64,
    /// Standard deviation of the noise in one coordinate of the mean, before the projection.
    pub noise_std: f64,
    /// With probability 0.95 the l2 distance from the mean of the clipped records is at most this (proved).
    pub error_bound: f64,
    /// The certified privacy event of the plan.
    pub certificate: Certificate,
    /// How many coordinates of the answer are expected to differ from 0 because of noise.
    pub expected_entries: f64,
    /// Everything the run needs.
    pub schedule: MeanSchedule,
}

/// All parameters, for the report.
#[derive(Clone, Debug, Serialize)]
pub struct MeanSchedule {
    /// L: the l2 norm that records are clipped to.
    pub norm: f64,
    /// L·√s: the l1 norm that records are clipped to.
    pub l1_norm: f64,
    /// Standard deviation (Gaussian) or scale (Laplace) of the noise of the *sum*.
    pub noise_scale: f64,
    /// log2 of the grid step.
    pub grid_exponent: i32,
    /// Whether all coordinates are kept in memory.
    pub dense: bool,
    /// The sum is projected on l2 norm n·L and l1 norm n·L·√s.
    pub projection_radius: f64,
    /// m: rows of the random matrix (l1-recovery).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sketch_rows: Option<u64>,
}

pub(super) const L1_RECOVERY: &str = "l1-recovery";

pub(super) fn check(problem: &MeanProblem) -> Result<(), NotApplicable> {
    let refuse = |text: String| Err(NotApplicable::Problem(text.into()));
    if problem.records == 0 || problem.dimension == 0 {
        return refuse("there are no records or no coordinates; check the table".into());
    }
    if problem.dimension > 1 << 32 {
        return refuse(format!(
            "there are {} coordinates, more than 2^32; hash the indices to fewer",
            problem.dimension
        ));
    }
    if !(problem.norm > 0.0 && problem.norm.is_finite()) {
        return refuse(format!("the norm bound is {}; give a positive, finite number", Shown(problem.norm)));
    }
    if !(problem.sparsity >= 1.0 && problem.sparsity.is_finite()) {
        return refuse(format!(
            "the sparsity is {}; give how many entries of a vector differ from 0, at least 1",
            Shown(problem.sparsity)
        ));
    }
    Ok(())
}

/// Where noise is drawn from the largest on, an entry of the answer takes so many times as long as one that records touch (15 µs, of 128-bit numbers).
const READING: f64 = 32.0;

impl MeanProblem {
    pub(super) fn l1_norm(&self) -> f64 {
        self.norm * self.sparsity.min(self.dimension as f64).sqrt()
    }

    pub(super) fn projection(&self) -> Projection {
        Projection { radius: self.records as f64 * self.norm, sparsity: self.sparsity.min(self.dimension as f64) }
    }

    /// Both lie in the projection's set.
    pub(super) fn largest_error(&self) -> f64 {
        2.0 * self.norm
    }

    /// Whether to keep all coordinates: if they are few, if the records touch a good part of them, or if the noise does.
    pub(super) fn keep_all(&self, expected_entries: f64) -> bool {
        let d = self.dimension as f64;
        let touched = self.records as f64 * self.sparsity;
        let work = touched.max(READING * expected_entries);
        self.dimension <= SMALL || (self.dimension <= MAX_DENSE && work > d / 8.0)
    }
}
