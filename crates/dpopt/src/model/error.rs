//! Why a fit stops.

use crate::data::DataError;
use crate::guarantee::OtherNeighbours;
use crate::noise::EntropyError;
use crate::optimize::RunError;
use crate::plan::NotApplicable;
use dpopt_privacy::budget::BudgetError;
use dpopt_privacy::filter::Rule;
use dpopt_privacy::ledger::LedgerError;
use thiserror::Error;

/// Why a fit stopped. The text never holds a value of a record.
#[derive(Debug, Error)]
pub enum FitError {
    /// The table or its declarations.
    #[error(transparent)]
    Data(#[from] DataError),
    /// ε or δ.
    #[error(transparent)]
    Budget(#[from] BudgetError),
    /// No method applies.
    #[error(transparent)]
    NotApplicable(#[from] NotApplicable),
    /// A stage was planned for other neighbours (a bug of the caller).
    #[error(transparent)]
    OtherNeighbours(#[from] OtherNeighbours),
    /// The ledger refuses, or its file can't be used.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// What is left of a ledger is so little that a run of this budget need not be planned.
    #[error(
        "{path}: {:.2} % is left of the total budget under the {rule} rule. A run at epsilon {epsilon}, delta {delta:e} cannot \
         have it: even with half the noise cost that its budget allows, the least that is tested before the table is opened, it \
         would need {:.2} %; ask for a smaller epsilon (`dpopt ledger` tells which fits), or end here",
        100.0 * left, 100.0 * half
    )]
    Hopeless {
        /// Ledger file.
        path: String,
        /// Rule in force.
        rule: Rule,
        /// Share of the total that is left.
        left: f64,
        /// Share that half the noise cost would need.
        half: f64,
        /// ε of the run.
        epsilon: f64,
        /// δ of the run.
        delta: f64,
    },
    /// The number of rows that was given is not the table's.
    #[error(
        "--rows says {given}, and the table has {counted} rows; give the number as it is, or leave it out to have rows counted"
    )]
    Rows {
        /// Given.
        given: u64,
        /// Counted; public except under add-or-remove, where it is a guess and nothing is compared.
        counted: u64,
    },
    /// No safe randomness.
    #[error(transparent)]
    Entropy(#[from] EntropyError),
    /// A stage stopped.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Options that do not go together.
    #[error("{0}")]
    Option(String),
    /// The run stopped after the ledger was charged.
    #[error("{0}; the ledger keeps the charge of this run")]
    Spent(Box<FitError>),
}

pub(crate) fn same_count(given: u64, counted: u64) -> Result<(), FitError> {
    if given == counted { Ok(()) } else { Err(FitError::Rows { given, counted }) }
}
