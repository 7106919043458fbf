//! From a file of sensitive records to bounded rows, by public facts only.
//!
//! [`open`] a table (names and row count are public), declare what its columns hold in a [`Schema`] (bounds file, flags
//! or a public table), [`resolve`](Schema::resolve) it to a [`Layout`], build the [`Encoder`], and
//! [`encode`](Encoder::encode) to `Sensitive<Examples>`: rows of l2 norm at most 1, exactly.

mod bounds_file;
mod cell;
mod encode;
mod error;
mod hashing;
mod inspect;
mod labels;
mod nearest;
mod public_table;
mod quantile_counts;
mod reader;
pub mod rows;
mod scaled;
mod schema;
mod spill;
mod target;
mod text;

pub use cell::BadCells;
pub(crate) use cell::{bad_row, field_number, is_missing_marker};
pub use encode::Encoder;
pub use error::DataError;
pub(crate) use error::listed;
pub use inspect::{Finding, inspect};
pub use labels::label_counts;
pub use quantile_counts::{BelowCounts, quantile_counts, quantile_grid};
pub use reader::{
    Block, Column, Field, Format, MAX_FEATURES, RawTable, ReadOptions, Stored, TableReader, Visit, files_of, open,
    open_all, open_bytes, raw_rows, same_table,
};
pub use rows::{Examples, Rows, keep_largest};
pub(crate) use scaled::ScaledRecords;
pub use schema::{Bounds, EncodingOptions, FeatureKind, Kind, Layout, Schema, TargetRule, Transform};
pub(crate) use spill::Encoded;
pub use spill::{Record, RecordBuffer, Records, SpilledExamples};
pub use target::TargetSpec;
