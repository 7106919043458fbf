//! The two kinds of mechanism, as the curator sees them: one that is applied once, and one that stays open.

use super::allowances::Allowances;
use super::batch::BatchId;
use super::seen::Seen;
use crate::refused::CuratorError;
use dpopt_noise::NoiseSource;
use dpopt_objective::objective::Evidence;
use dpopt_privacy::{Event, Relation};

/// A randomised function with a known event. Sealed: only the library's own mechanisms can release.
///
/// ```compile_fail,E0277
/// use dpopt_kernel::{CuratorError, Mechanism};
/// struct Leak;
/// impl Mechanism for Leak { // E0277: `Sealed` is not implemented for `Leak`
///     type Input = f64;
///     type Output = f64;
///     fn event(&self) -> dpopt_privacy::Event { dpopt_privacy::Event::NoOp }
///     fn sampler_error(&self, _: &f64) -> f64 { 0.0 }
///     fn label(&self) -> &'static str { "leak" }
///     fn check(&self, _: &f64) -> Result<(), CuratorError> { Ok(()) }
///     fn apply(&self, x: &f64, _: &mut dpopt_noise::NoiseSource) -> Result<f64, CuratorError> { Ok(*x) }
/// }
/// ```
pub trait Mechanism: sealed::Sealed {
    /// The sensitive value that the mechanism reads.
    type Input;
    /// What the mechanism releases.
    type Output;
    /// Exactly what [`apply`](Self::apply) does, as accounted: made from the very numbers that noise is drawn with, so that
    /// less noise is another event.
    fn event(&self) -> Event;
    /// Upper bound on the total-variation distance of what [`apply`](Self::apply) draws from the law of the event; from the
    /// input's public shape only.
    fn sampler_error(&self, input: &Self::Input) -> f64;
    /// For the ledger table: what is released, for example `gradient sum`.
    fn label(&self) -> &'static str;
    /// Makes what it draws with, from public numbers alone, and throws it away: a plan asks before its budget is spent.
    ///
    /// # Errors
    /// If [`apply`](Self::apply) could not make it either.
    fn can_draw(&self) -> Result<(), CuratorError> {
        Ok(())
    }
    /// Refuses an input whose *public* description (clip norm, grid, dimension) is not what the noise was made for.
    fn check(&self, input: &Self::Input) -> Result<(), CuratorError>;
    /// The relation that its noise was made for, where the event does not say it: another certificate's is refused.
    fn relation(&self) -> Option<Relation> {
        None
    }
    /// What its event rests on besides the kernel: a caller's word makes everything after it research grade.
    fn rests_on(&self) -> Evidence {
        Evidence::Proved
    }
    /// The batch that `input` was computed on, if any.
    fn batch(&self, _input: &Self::Input) -> Option<BatchId> {
        None
    }
    /// The numbers in an output, for an audit that attacks everything a run releases; `None` if it is not a list of numbers.
    fn numbers(_output: &Self::Output) -> Option<&[f64]> {
        None
    }
    /// The mechanism itself. Called by the curator only, after the charge.
    fn apply(&self, input: &Self::Input, noise: &mut NoiseSource) -> Result<Self::Output, CuratorError>;
}

/// A mechanism that stays open: it is charged as a whole, then answers as long as its plan allows. Sealed like [`Mechanism`].
///
/// ```compile_fail,E0277
/// use dpopt_kernel::{CuratorError, Interactive, InteractiveStart};
/// struct Leak;
/// impl Interactive for Leak { // E0277: `Sealed` is not implemented for `Leak`
///     type Opened = ();
///     fn event(&self) -> dpopt_privacy::Event { dpopt_privacy::Event::NoOp }
///     fn sampler_error(&self) -> Result<f64, CuratorError> { Ok(0.0) }
///     fn label(&self) -> &'static str { "leak" }
///     fn start(&self, _: InteractiveStart<'_>) -> Result<(), CuratorError> { Ok(()) }
/// }
/// ```
pub trait Interactive: sealed::Sealed {
    /// What the open mechanism answers through.
    type Opened;
    /// The event of everything that it will release, as accounted.
    fn event(&self) -> Event;
    /// As [`Mechanism::sampler_error`], of all answers together.
    ///
    /// # Errors
    /// If there is no such bound for these numbers.
    fn sampler_error(&self) -> Result<f64, CuratorError>;
    /// What is released, in words, for the ledger table.
    fn label(&self) -> &'static str;
    /// As [`Mechanism::relation`].
    fn relation(&self) -> Option<Relation> {
        None
    }
    /// Opens it. Called by the curator only, after the charge.
    fn start(&self, opening: InteractiveStart<'_>) -> Result<Self::Opened, CuratorError>;
}

/// What a mechanism that stays open gets from its curator. Only a curator can make one.
pub struct InteractiveStart<'a> {
    pub(crate) noise: &'a mut NoiseSource,
    /// What is left of the plan, the charge taken.
    pub(crate) allowances: &'a mut Allowances,
    /// Whether the certificate has a δ to pay samplers from.
    pub(crate) pays: bool,
    /// The certificate's neighbouring relation; `None` for an event alone.
    pub(crate) relation: Option<Relation>,
    /// Where a test or an audit watches the curator: what the mechanism releases goes here too.
    pub(crate) seen: Option<Seen>,
}

pub(crate) mod sealed {
    /// Keeps foreign types out of [`Mechanism`](crate::Mechanism) and [`Interactive`](crate::Interactive).
    pub trait Sealed {}
}
