//! Every table and figure of the papers that dpopt implements, computed again: one file in [`entries`] is one figure.
//!
//! An [`Entry`] says where the figure stands in its source and how far this computation follows it. Its `run` asks a
//! [`Lab`] for trials, which are run in parallel, kept on disk and not computed twice, and returns an [`Outcome`]: tables,
//! charts, the paper's reported values beside ours, and one sentence of verdict. [`document`] writes all that.
//!
//! To add a figure: a file in `entries/` with `pub const ENTRY: Entry`, and its line in `entries.rs`. Everything a
//! trial depends on stands in its cell, so that a change of a setting is a new cell; when the code of a trial changes, raise
//! `revision`. The short scale of every entry is a test and must end within seconds. All data here are public or
//! synthetic: nothing in this crate needs privacy, and nothing in it gives any.
#![forbid(unsafe_code)]

pub mod document;
pub mod entries;
mod entry;
mod failure;
mod lab;
mod statistics;
mod store;

pub use entry::{Compared, Entry, Fidelity, Holds, Outcome, Table, Verdict, cell};
pub use failure::Failure;
pub use lab::{Lab, Scale, Trial};
pub use statistics::{Median, Summary};
