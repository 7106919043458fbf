//! The kernel: sensitive values, and the mechanisms that alone release anything of them.
//!
//! [`Sensitive`] depends on records, [`Released`] has passed through a mechanism that was planned, certified and charged, and only
//! the [`Curator`] turns one into the other. What is sensitive can't be read outside of this crate, and the compiler says so; an
//! objective sees each record that it is asked about.
//!
//! | layer | what stands there |
//! |---|---|
//! | [`progress`], `refused`, `sampler_error` | where steps are shown, why a release does not happen, how far samplers are from their exact laws |
//! | `sensitive` | what may not leave, and what may |
//! | `curator` | what a plan still allows, what a mechanism is and one that stays open, batches, blocks, the curator |
//! | `views` | what can be said of sensitive records, and views that stay sensitive |
//! | `sums` | clipped sums of what records give, and the noise that is added to them |
//!
//! **What has to be trusted** for a guarantee is this crate and what it stands on: `dpopt-event`, `dpopt-privacy`, `dpopt-noise`, the accountants of
//! `dpopt-accounting`, and of `dpopt-objective` the records and the facts of objectives. docs/architecture.md lists them in the order in which to read them, and a
//! test counts their lines.
//!
//! **What stands beside it**: `dpopt-mechanism`, with every mechanism that this crate has not: choices, draws from laws that depend on records, sums that one
//! method needs. Each has to be trusted for its own releases, and for nothing else that a run does. What it needs of the kernel is in `beside`; no other crate of
//! the workspace depends on this one, so none can name it.
#![forbid(unsafe_code)]

#[doc(hidden)]
pub mod beside;
mod curator;
#[cfg(doctest)]
mod misuse;
pub mod progress;
mod refused;
mod sampler_error;
mod sensitive;
mod sums;
#[cfg(test)]
mod tests;
mod views;

pub use curator::batch::{Batch, BatchId, FixedBatch};
pub use curator::blocks::Blocks;
pub use curator::mechanism::{Interactive, InteractiveStart, Mechanism};
pub use curator::{Curator, ReleaseRecord};
pub use refused::{CuratorError, NotApplicable};
pub use sampler_error::SamplerError;
pub use sensitive::{Public, Released, Sensitive};
pub use sums::answers::{PartFacts, answer};
pub use sums::batch_sum::BatchSum;
pub use sums::clipped::Clipped;
pub use sums::gaussian::Gaussian;
pub use sums::grid_sum::GridSum;
pub use sums::matrix::{SecondMoment, symmetric_matrix};
pub use sums::moments::{FeatureMoments, TargetMoment, moment_bound};
pub use sums::pieces::PieceSum;
pub use sums::remote_numbers::{answer_numbers, below_counts};
pub use sums::stream::{Batching, Correlation, GradientStream, StreamPlan, StreamShape};
pub use sums::vectors::ClippedVectors;
pub use views::PublicShape;
