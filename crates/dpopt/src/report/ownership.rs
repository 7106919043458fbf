//! Who owns what, where a row may have several owners.

use crate::guarantee::Guarantee;
use serde::Serialize;
use std::fmt::{self, Display, Formatter};

/// What is public of tables whose rows may have several owners. All of it follows from who owns which rows, which is taken as known; none of it from
/// what is in them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ownership {
    /// Columns whose values are the owners.
    pub columns: Vec<String>,
    /// Rows of the table.
    pub rows: u64,
    /// Owners of a row, or more of them if so many were said.
    pub owners: u64,
    /// Rows that an owner of a row has, on average.
    pub rows_of_an_owner: f64,
    /// Rows of the owner who has most.
    pub most_rows_of_an_owner: u64,
    /// k: most rows that a unit owns of those that are kept.
    pub bound: u64,
    /// Rows that are kept.
    pub kept: u64,
    /// Rows that count before a model, of which no unit owns two.
    pub one_each: u64,
}

impl Display for Ownership {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { rows, owners, rows_of_an_owner, most_rows_of_an_owner, bound, kept, one_each, .. } = self;
        write!(
            f,
            "a row may have several owners ({}): {kept} of {rows} rows of {owners} owners are kept, at most {bound} \
             per owner (an owner has {rows_of_an_owner:.1} rows on average and at most {most_rows_of_an_owner}); \
             {one_each} rows are used where each owner counts once. Which rows are kept depends on ownership alone, \
             and {}",
            self.columns.join(", "),
            Guarantee::OWNERSHIP
        )
    }
}
