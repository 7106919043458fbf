//! Why a release does not happen, and why a plan does not. It stands below everything that can stop one: samplers, mechanisms, the curator.

use dpopt_objective::records::ReadError;
use dpopt_objective::solver::NoPromise;
use dpopt_privacy::Relation;
use dpopt_privacy::certify::CertifyError;
use dpopt_process::Process;
use dpopt_refusal::{Refusal, Text};
use std::convert::Infallible;
use thiserror::Error;

/// Why a release was refused. Nothing was released. Holds public numbers only.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum CuratorError {
    /// The plan's event has no (more) such release.
    #[error("a release of `{label}` was refused: the certified plan does not foresee it (a bug; please report it)")]
    Unforeseen {
        /// What the mechanism calls itself.
        label: &'static str,
    },
    /// The input's declared sensitivity is not the mechanism's.
    #[error("a release was refused: its input was clipped to {input} but the mechanism is calibrated for {mechanism}")]
    Sensitivity {
        /// Clip norm of the input.
        input: f64,
        /// Clip norm the noise was calibrated for.
        mechanism: f64,
    },
    /// The input has another grid or dimension than the mechanism.
    #[error("a release was refused: its input's grid or dimension is not the mechanism's (a bug; please report it)")]
    Shape,
    /// A batch was drawn by another curator, whose accounting its sample belongs to.
    #[error(
        "a release of `{label}` was refused: its batch was drawn by another curator; draw one with the curator that releases it"
    )]
    ForeignBatch {
        /// What the mechanism calls itself.
        label: &'static str,
    },
    /// A batch was used for a second release.
    #[error("a release of `{label}` was refused: its batch was already used (a bug; please report it)")]
    BatchUsed {
        /// What the mechanism calls itself.
        label: &'static str,
    },
    /// Its samplers are further from their exact laws than what the certificate pays for.
    #[error(
        "a release of `{label}` was refused: its samplers are further from their exact distributions than the \
         certificate accounts for; certify the event with SamplerError::on"
    )]
    Inexact {
        /// What the mechanism calls itself.
        label: &'static str,
    },
    /// The noise was made for another relation than the certificate's.
    #[error(
        "a release of `{label}` was refused: its noise was made for {}, and the certificate is for {}; use the same \
         neighbours for both",
        made_for.name(), certified.name()
    )]
    OtherRelation {
        /// What the mechanism calls itself.
        label: &'static str,
        /// The relation of the mechanism's noise.
        made_for: Relation,
        /// The relation of the certificate.
        certified: Relation,
    },
    /// The noise that would be drawn is less than what the mechanism's event says.
    #[error("a release of `{label}` was refused: its noise is less than its event says (a bug; please report it)")]
    LessNoise {
        /// What the mechanism calls itself.
        label: &'static str,
    },
    /// A block's curator was given what was not computed on a batch of the block.
    #[error("a release of `{label}` was refused: it may read records outside its block; sum over a batch of the block")]
    OutsideBlock {
        /// What the mechanism calls itself.
        label: &'static str,
    },
    /// It was opened in a process of which this one is a forked copy: two would go on with what was paid for once.
    #[error(
        "this {what} was opened in another process, and a forked copy cannot continue it; open another after \
         forking"
    )]
    Copied {
        /// What was opened, in words.
        what: &'static str,
    },
    /// A sampler could not be built for the planned scale.
    #[error("{0}")]
    Noise(String),
    /// The release succeeded but its (private) outcome can't be used; says what to do.
    #[error("{0}")]
    Unusable(Text),
}

impl CuratorError {
    /// Refuses in a forked copy of the process that something was opened in.
    pub fn unless_opened_in(process: Process, what: &'static str) -> Result<(), Self> {
        if process.is_here() { Ok(()) } else { Err(Self::Copied { what }) }
    }

    /// A record that has to be read can't be.
    pub fn unreadable(e: impl Into<ReadError>) -> Self {
        e.into().into()
    }
}

impl From<Infallible> for CuratorError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl From<ReadError> for CuratorError {
    fn from(e: ReadError) -> Self {
        Self::Noise(e.to_string())
    }
}

/// Why a method does not apply to a problem.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum NotApplicable {
    /// The method needs something the problem lacks.
    #[error(transparent)]
    Problem(Refusal),
    /// An option is outside its range.
    #[error(transparent)]
    Option(Refusal),
    /// The budget can't be met.
    #[error(transparent)]
    Budget(#[from] CertifyError),
}

/// What can't be drawn or added up is no plan.
impl From<CuratorError> for NotApplicable {
    fn from(e: CuratorError) -> Self {
        Self::Problem(e.to_string().into())
    }
}

impl From<NoPromise> for NotApplicable {
    fn from(none: NoPromise) -> Self {
        match none {
            NoPromise::Problem(text) => Self::Problem(text.into()),
            NoPromise::Option(text) => Self::Option(text.into()),
        }
    }
}

impl NotApplicable {
    /// What is wrong and what to do, as a value.
    pub fn refusal(&self) -> Refusal {
        match self {
            Self::Problem(why) | Self::Option(why) => why.clone(),
            Self::Budget(why) => why.to_string().into(),
        }
    }

    /// Names the method in the reason, unless the reason does so already.
    pub fn of(self, method: &str) -> Self {
        let named = |why: Refusal| if why.to_string().starts_with(method) { why } else { why.by(method) };
        match self {
            Self::Problem(why) => Self::Problem(named(why)),
            Self::Option(why) => Self::Option(named(why)),
            budget => budget,
        }
    }
}
