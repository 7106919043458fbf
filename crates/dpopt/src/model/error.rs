//! The errors that stop a fit.

use crate::session::SessionError;
use dpopt_data::DataError;
use dpopt_mechanism::CuratorError;
use dpopt_optimize::RunError;
use dpopt_optimize::plan::NotApplicable;
use dpopt_privacy::budget::BudgetError;
use dpopt_refusal::{Refusal, option};
use thiserror::Error;

/// Why a fit stopped. The text never holds a value of a record.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FitError {
    /// The table or its declarations.
    #[error(transparent)]
    Data(#[from] DataError),
    /// ε or δ is out of range.
    #[error(transparent)]
    Budget(#[from] BudgetError),
    /// No method applies to the problem.
    #[error(transparent)]
    NotApplicable(#[from] NotApplicable),
    /// The run does not open, or a stage of it does not run.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The number of rows that was given is not the table's.
    #[error(
        "{} is {given}, but the table has {counted} rows; give {counted}, or leave it out to have the rows counted",
        option("rows")
    )]
    Rows {
        /// The number of rows that was given.
        given: u64,
        /// Counted; public except under add-or-remove, where it is a guess and nothing is compared.
        counted: u64,
    },
    /// A stage of the fit stopped.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Options that do not go together.
    #[error(transparent)]
    Option(Refusal),
    /// The run stopped after the ledger was charged.
    #[error("{0}; the ledger keeps the charge of this run")]
    Spent(Box<FitError>),
}

impl FitError {
    /// Whether a release succeeded, and its private answer is that nothing could be found: an outcome, and no failure.
    pub fn is_an_answer(&self) -> bool {
        match self {
            Self::Spent(why) => why.is_an_answer(),
            Self::Run(RunError::Curator(CuratorError::Unusable(_))) => true,
            _ => false,
        }
    }
}

pub(crate) fn same_count(given: u64, counted: u64) -> Result<(), FitError> {
    if given == counted { Ok(()) } else { Err(FitError::Rows { given, counted }) }
}
