//! The only doors out: the curator, and the mechanisms it applies.

mod curator;

pub use curator::{Curator, CuratorError, Mechanism, ReleaseRecord};
