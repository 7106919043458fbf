//! A door out: what a mechanism is, to the curator that opens it.

use super::batch::BatchId;
use crate::refused::CuratorError;
use dpopt_noise::NoiseSource;
use dpopt_privacy::Event;

/// A randomised function with a known event. Sealed: only this crate's mechanisms are doors.
///
/// ```compile_fail,E0277
/// use dpopt::mechanism::{CuratorError, Mechanism};
/// struct Leak;
/// impl Mechanism for Leak { // E0277: `Sealed` is not implemented for `Leak`
///     type Input = f64;
///     type Output = f64;
///     fn event(&self) -> dpopt::privacy::Event { dpopt::privacy::Event::NoOp }
///     fn label(&self) -> &'static str { "leak" }
///     fn check(&self, _: &f64) -> Result<(), CuratorError> { Ok(()) }
///     fn apply(&self, x: &f64, _: &mut dpopt::noise::NoiseSource) -> Result<f64, CuratorError> { Ok(*x) }
/// }
/// ```
pub trait Mechanism: sealed::Sealed {
    /// What it reads.
    type Input;
    /// What it lets out.
    type Output;
    /// Exactly what [`apply`](Self::apply) does, as accounted.
    fn event(&self) -> Event;
    /// For the ledger table: what is released, for example `gradient sum`.
    fn label(&self) -> &'static str;
    /// Refuses an input whose *public* description (clip norm, grid, dimension) is not what the noise was made for.
    fn check(&self, input: &Self::Input) -> Result<(), CuratorError>;
    /// The Poisson batch that `input` was computed on, if any.
    fn batch(&self, _input: &Self::Input) -> Option<BatchId> {
        None
    }
    /// The numbers in an output, for an audit that attacks everything a run lets out; `None` if it is not a list of numbers.
    fn numbers(_output: &Self::Output) -> Option<&[f64]> {
        None
    }
    /// The mechanism itself. Called by the curator only, after the charge.
    fn apply(&self, input: &Self::Input, noise: &mut NoiseSource) -> Result<Self::Output, CuratorError>;
}

pub(crate) mod sealed {
    /// Keeps foreign types out of [`Mechanism`](super::Mechanism).
    pub trait Sealed {}
}
