//! What a method of this folder is: options that plan, and a plan that runs through a curator.

use crate::options::OptionReader;
use crate::plan::{NotApplicable, Plan, Problem, RecordUnit};
use dpopt_mechanism::progress::Progress;
use dpopt_mechanism::{Curator, PublicShape, Released, Sensitive};
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::{Interval, OfRows};
use dpopt_objective::records::{Examples, RemoteRecords, SpilledExamples};
use dpopt_privacy::{Budget, Unit};
use dpopt_refusal::Remedy;
use serde::Serialize;
use std::any::Any;

/// What a run of a linear method releases.
#[derive(Clone, Debug, PartialEq)]
pub struct Solution {
    /// outputs × features, row-major.
    pub weights: Vec<f64>,
    /// Upper bound, to first order, on the standard deviation of the noise in each weight, where the released values tell
    /// more than [`Summary::weight_noise`].
    pub noise: Option<Vec<f64>>,
    /// Covariance of the weights about the best ones of the population, of sampling and noise together: weights × weights, row by row. Where a method finds
    /// one.
    pub covariance: Option<Vec<f64>>,
    /// What usual rows have beside an intercept of 1, where that is released: a number for each feature.
    pub usual_row: Option<Vec<f64>>,
    /// What all weights were multiplied with at the end, a public number.
    pub scaled_by: f64,
    /// What holds the targets of so many rows around predictions, where that was asked for: half its width infinite where no finite one was found to.
    pub interval: Option<Interval>,
    /// A sentence on the run, where it may have ended in several ways. Made of released values alone.
    pub note: Option<String>,
}

impl From<Vec<f64>> for Solution {
    fn from(weights: Vec<f64>) -> Self {
        Self { weights, noise: None, covariance: None, usual_row: None, scaled_by: 1.0, interval: None, note: None }
    }
}

impl Solution {
    /// With all weights multiplied by a public number, and what is known of their noise with them.
    pub fn scaled(mut self, by: f64) -> Self {
        self.weights.iter_mut().for_each(|w| *w *= by);
        self.noise.iter_mut().flatten().for_each(|std| *std *= by.abs());
        self.covariance.iter_mut().flatten().for_each(|product| *product *= by * by);
        self.scaled_by *= by;
        self
    }
}

/// What a run of a linear method comes to.
pub type RunResult = Result<Released<Solution>, RunError>;

/// How a method reads the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowAccess {
    /// Needs all of them in memory.
    Memory,
    /// Passes over them: they may be on disk.
    Passes,
    /// Reads them in batches: made for rows on disk.
    Batches,
}

/// What is true of a method whatever the problem.
#[derive(Clone, Copy, Debug)]
pub struct Capabilities {
    /// How it reads the rows.
    pub rows: RowAccess,
    /// Whether the proved error grows with ln d and not with √d.
    pub logarithmic: bool,
    /// A reference of the literature, never the best: planned only when it is asked for by name.
    pub reference: bool,
    /// A record may be all rows of a unit: nothing rests on its gradient being a multiple of one row.
    pub supports_user_level: bool,
    /// Needs nothing of the records but sums that an aggregate query can ask for, over all of them or over Poisson samples: records may be remote.
    pub sums: bool,
    /// It has the option `calibration`: its scores of linear models can be calibrated after the run.
    pub calibrates: bool,
    /// Its models are linear, so that the width of prediction intervals can be found after the run.
    pub intervals: bool,
    /// For which losses it stands after all methods that predictions cannot tell from it.
    pub stands_last: fn(Loss) -> bool,
    /// What its scores of several classes usually have to be multiplied with to be probabilities.
    pub usual_scale: f64,
}

impl Capabilities {
    /// Rows in memory, and nothing special.
    pub const NONE: Self = Self {
        rows: RowAccess::Memory,
        logarithmic: false,
        reference: false,
        supports_user_level: false,
        sums: false,
        calibrates: true,
        intervals: true,
        stands_last: |_| false,
        usual_scale: 1.0,
    };
}

/// An algorithm that fits the weights of a linear model; implemented by its options.
pub trait Algorithm: Clone + Send + Sync + 'static {
    /// All hyper-parameters and noise scales, fixed by [`plan`](Self::plan).
    type Schedule: Clone + Serialize + Send + Sync;
    /// Name as in `--method`.
    const NAME: &'static str;
    /// What it releases, and when to take it: a phrase for tables and help.
    const ABOUT: &'static str;
    /// What is true of it whatever the problem.
    const CAPABILITIES: Capabilities = Capabilities::NONE;

    /// Its options as a user says them. What it does not ask for here it does not have, and whoever says it is told so; so
    /// everything is asked for, whatever the answers are.
    fn read(options: &OptionReader<'_>) -> Self;

    /// Chooses the schedule from public facts and certifies its event. Touches no record.
    fn plan(&self, problem: &Problem, budget: Budget) -> Result<Plan<Self::Schedule>, NotApplicable>;

    /// Runs the plan; releases only through the run's curator.
    fn run<R: OfRows + 'static>(&self, plan: &Plan<Self::Schedule>, run: Run<'_, R>) -> RunResult;

    /// Whether the plan can be run with rows on disk.
    fn runs_from_disk(&self, _plan: &Plan<Self::Schedule>) -> bool {
        Self::CAPABILITIES.rows != RowAccess::Memory
    }

    /// Passes over the records that a run on parts makes: one for each question. Public; a certified minimiser makes more of them where records
    /// resist.
    fn passes(&self, plan: &Plan<Self::Schedule>, problem: &Problem) -> u64 {
        (plan.summary.gradients / problem.rows as f64).ceil() as u64
    }
}

/// What one run of a plan works with. Having one says that the examples have the shape the problem promised.
pub struct Run<'a, R: OfRows = Examples> {
    /// The public facts the plan was made from.
    pub problem: &'a Problem,
    /// The records of the run.
    pub examples: &'a Sensitive<R>,
    /// The curator, through which every release goes.
    pub curator: &'a mut Curator,
    /// Where steps are shown.
    pub progress: &'a dyn Progress,
}

impl<'a, R: OfRows> Run<'a, R> {
    /// Refuses examples whose public shape is not the planned one.
    pub fn new(
        problem: &'a Problem,
        examples: &'a Sensitive<R>,
        curator: &'a mut Curator,
        progress: &'a dyn Progress,
    ) -> Result<Self, RunError> {
        let PublicShape { records, features, row_norm, pooled, of_a_unit } = curator.public_shape(examples);
        let counted = records.is_none_or(|records| records == problem.rows);
        // rows that a unit has more of than the plan's guarantee is for would each cost what one of them may
        let units = pooled == problem.is_pooled()
            && (pooled || of_a_unit == problem.group())
            && (problem.neighbours.unit == Unit::Record) == (problem.record == RecordUnit::Row);
        if counted && units && features == problem.features && row_norm <= problem.row_norm {
            return Ok(Self { problem, examples, curator, progress });
        }
        let shape = |records: Option<u64>, pooled, of_a_unit, features, row_norm| {
            let what = match (pooled, of_a_unit) {
                (true, _) => "units".to_string(),
                (false, 1) => "rows".to_string(),
                (false, most) => format!("rows (at most {most} of a unit)"),
            };
            let count = records.map_or(String::new(), |records| format!("{records} "));
            format!("{count}{what}, {features} features, row norm {row_norm}")
        };
        Err(RunError::Shape {
            planned: shape(
                Some(problem.rows),
                problem.is_pooled(),
                problem.group(),
                problem.features,
                problem.row_norm,
            ),
            given: shape(records, pooled, of_a_unit, features, row_norm),
        })
    }

    /// This run for a `method` that needs all rows in memory; rows that are not are refused.
    pub fn in_memory(self, method: &'static str) -> Result<Run<'a>, RunError>
    where
        R: 'static,
    {
        let Self { problem, examples, curator, progress } = self;
        Ok(Run { problem, examples: in_memory(examples, method)?, curator, progress })
    }
}

/// A run on rows, wherever they are.
pub enum ByRow<'a> {
    /// All rows in memory.
    Memory(Run<'a>),
    /// Rows in a temporary file.
    Disk(Run<'a, SpilledExamples>),
    /// Remote rows, held by partitions.
    Partitions(Run<'a, RemoteRecords>),
}

impl<'a, R: OfRows + 'static> Run<'a, R> {
    /// This run for a `method` that reads single rows.
    pub fn by_row(self, method: &'static str) -> Result<ByRow<'a>, RunError> {
        let Self { problem, examples, curator, progress } = self;
        let any = examples as &dyn Any;
        match (any.downcast_ref(), any.downcast_ref(), any.downcast_ref()) {
            (Some(examples), ..) => Ok(ByRow::Memory(Run { problem, examples, curator, progress })),
            (_, Some(examples), _) => Ok(ByRow::Disk(Run { problem, examples, curator, progress })),
            (_, _, Some(examples)) => Ok(ByRow::Partitions(Run { problem, examples, curator, progress })),
            _ => Err(RunError::ByRow { method }),
        }
    }
}

/// The rows, for a method that needs all of them in memory.
pub fn in_memory<'a, R: OfRows + 'static>(
    rows: &'a Sensitive<R>,
    method: &'static str,
) -> Result<&'a Sensitive<Examples>, RunError> {
    if R::POOLED {
        return Err(RunError::ByRow { method });
    }
    (rows as &dyn Any).downcast_ref().ok_or(RunError::InMemory { method })
}

/// Why a run stopped. Never depends on a record's value.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The curator refused a release.
    #[error(transparent)]
    Curator(#[from] dpopt_mechanism::CuratorError),
    /// Post-processing of released values met a number it can't use (overflow, not-a-number).
    #[error("{0}; raise the budget or the regularization, or choose another method")]
    Numerical(&'static str),
    /// The method needs all rows in memory.
    #[error("{method} needs all rows in memory; {}", Remedy::one_of([Remedy::LeaveOut("memory"), "take noisy-sgd".into()]))]
    InMemory {
        /// Name of the method.
        method: &'static str,
    },
    /// Whoever evaluates an objective outside of the library could not.
    #[error("the objective could not be evaluated: {0}")]
    Objective(Box<dyn std::error::Error + Send + Sync>),
    /// The method looks into single rows (a bug of the caller, who planned it for units).
    #[error(
        "{method} clips row by row and cannot clip a unit as a whole; plan it for rows, with a bound on the rows of \
         a unit"
    )]
    ByRow {
        /// Name of the method.
        method: &'static str,
    },
    /// The plan is for single records, and what a record's number is depends on the others (a bug of the caller, who planned units as records).
    #[error(
        "the records are rows of units, and the number of rows depends on which units are present; plan for \
             units"
    )]
    Numbered,
    /// The examples do not have the planned shape (a bug of the caller).
    #[error("the plan was made for {planned}, and the data are {given}; plan again with the facts of this data set")]
    Shape {
        /// What the plan expects.
        planned: String,
        /// The shape of the examples that were passed.
        given: String,
    },
}
