//! Records in memory and how they get there: readers, schema, encoders, batch samplers.

pub mod rows;

pub use rows::{Examples, Rows};
