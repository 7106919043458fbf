//! Why a session does not open, or a stage of it does not run. Nothing here depends on a record.

use crate::guarantee::OtherNeighbours;
use dpopt_noise::EntropyError;
use dpopt_privacy::Terms;
use dpopt_privacy::certify::CertifyError;
use dpopt_privacy::filter::{Refusal, Rule};
use dpopt_privacy::ledger::LedgerError;
use dpopt_privacy::rounding::probability;
use dpopt_refusal::option;
use thiserror::Error;

/// The way out of a ledger that has too little left: an ε that a run at this δ may have, rounded down.
fn fits(room: f64, delta: f64) -> String {
    let at = probability(delta);
    match room > 0.0 {
        true => format!("at delta {at} a run of up to about epsilon {room} fits"),
        false => format!("no further run fits at delta {at}"),
    }
}

/// Why a session does not open, or a stage of it does not run.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The ledger refuses, or its file can't be used.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The caller's own account refuses, or fails.
    #[error(transparent)]
    Account(Box<dyn std::error::Error + Send + Sync>),
    /// No accountant certifies the event within the budget.
    #[error(transparent)]
    Certify(#[from] CertifyError),
    /// What is left of a ledger is so little that a run of this budget need not be planned.
    #[error(
        "{path}: {:.2} % of the total budget is left under the {rule} rule, and a run at epsilon {}, delta {:e} needs \
         more: at least {:.2} %, even if it cost half of what its budget allows; {}",
        100.0 * left, terms.budget.epsilon(), terms.budget.delta(), 100.0 * half, fits(*room, terms.budget.delta())
    )]
    Hopeless {
        /// Path of the ledger file.
        path: String,
        /// The rule by which the ledger adds up charges.
        rule: Rule,
        /// Share of the total that is left.
        left: f64,
        /// Share that half the noise cost would need.
        half: f64,
        /// What the run asked for.
        terms: Terms,
        /// The largest ε that fits at the run's δ.
        room: f64,
    },
    /// The run costs more than is left in a ledger.
    #[error("{path}: {refusal}; {}", fits(*room, *delta))]
    Exceeded {
        /// Path of the ledger file.
        path: String,
        /// What the run needs and what is left.
        refusal: Refusal,
        /// δ of the run.
        delta: f64,
        /// The largest ε that fits at the run's δ.
        room: f64,
    },
    /// A seed and a ledger.
    #[error(
        "{} and {} exclude each other: predictable noise protects nobody, so a ledger must not record it as a \
         private release; leave one of them out",
        option("insecure_seed"),
        option("ledger")
    )]
    Predictable,
    /// The operating system gives no safe randomness.
    #[error(transparent)]
    Entropy(#[from] EntropyError),
    /// A stage was planned for other neighbours (a bug of the caller).
    #[error(transparent)]
    OtherNeighbours(#[from] OtherNeighbours),
    /// A stage that no part of the charge pays for (a bug of the caller).
    #[error("stage {stage} was not charged; open the session with the certificates of all stages")]
    NotCharged {
        /// Name of the stage.
        stage: String,
    },
    /// It was charged in a process of which this one is a forked copy: two would go on with what was paid for once.
    #[error(
        "this run was opened in another process, and a forked copy cannot continue it; open a run of its own \
         after forking"
    )]
    Copied,
    /// A stream of noise that was used (a bug of the caller).
    #[error("two stages use the same noise stream; give every stage one of its own")]
    Stream,
}
