//! Records as methods see them: bounded rows in memory or on disk, and counts of values. What is read here is sensitive; who holds
//! it wraps it in the kernel's `Sensitive`.

mod below_counts;
mod bounding;
mod columns;
mod directions;
mod partial_sum;
mod partitions;
mod remote;
pub mod rows;
mod scaled;
mod shared;
mod sheared;
mod spill;
mod units;
mod vectors;

pub use below_counts::{BelowCounts, quantile_grid};
pub use bounding::{Bounded, Bounding, BoundingError, MatrixError, SparseRows};
pub use columns::{ColumnValues, Columns};
pub use directions::{Direction, Directions};
pub use partial_sum::{NoPartialSum, PartialSum, fingerprint};
pub use partitions::{Partitions, PartitionsError, PartitionsFailed};
pub use remote::RemoteRecords;
pub use rows::{Examples, Row, Rows, keep_largest};
pub use scaled::ScaledRecords;
pub use shared::{KeptRows, SharedOwners};
pub use sheared::Shear;
pub use spill::{Collector, Encoded, ReadError, Record, RecordBuffer, RecordSet, Records, SpilledExamples};
pub use units::{NOBODY, Owners, Units, UnitsError, slots};
pub use vectors::SparseVectors;
