//! Why a session does not open, or a stage of it does not run. Nothing here depends on a record.

use crate::guarantee::OtherNeighbours;
use dpopt_noise::EntropyError;
use dpopt_privacy::certify::CertifyError;
use dpopt_privacy::filter::Rule;
use dpopt_privacy::ledger::LedgerError;
use thiserror::Error;

/// Why a session does not open, or a stage of it does not run.
#[derive(Debug, Error)]
pub enum SessionError {
    /// The ledger refuses, or its file can't be used.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The caller's own account refuses, or fails.
    #[error(transparent)]
    Account(Box<dyn std::error::Error + Send + Sync>),
    /// Nothing is certified.
    #[error(transparent)]
    Certify(#[from] CertifyError),
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
    /// A seed and a ledger.
    #[error(
        "--insecure-seed and --ledger do not go together: predictable noise keeps no promise, and a ledger that charged it would \
         count it as one that was kept; leave one of them out"
    )]
    Predictable,
    /// No safe randomness.
    #[error(transparent)]
    Entropy(#[from] EntropyError),
    /// A stage was planned for other neighbours (a bug of the caller).
    #[error(transparent)]
    OtherNeighbours(#[from] OtherNeighbours),
    /// A stage that no part of the charge pays for (a bug of the caller).
    #[error("stage {stage} was not charged for; open the session with the certificates of all stages")]
    NotCharged {
        /// Its name.
        stage: String,
    },
    /// It was charged in a process of which this one is a forked copy: two would go on with what was paid for once.
    #[error(
        "this run was opened in another process, of which this one is a copy: it goes on there only; open another after forking"
    )]
    Copied,
    /// A stream of noise that was used (a bug of the caller).
    #[error("a stage asks for a stream of noise that was used; give every stage one of its own")]
    Stream,
}
