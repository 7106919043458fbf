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
    /// k: nobody owns more of the rows that are kept.
    pub bound: u64,
    /// Rows that are kept.
    pub kept: u64,
    /// Rows that count before a model, of whom nobody owns two.
    pub one_each: u64,
}

impl Display for Ownership {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { rows, owners, rows_of_an_owner, most_rows_of_an_owner, bound, kept, one_each, .. } = self;
        write!(
            f,
            "a row may have several owners ({}): of {rows} rows of {owners} owners ({rows_of_an_owner:.1} each on average, {most_rows_of_an_owner} at most) {kept} are kept, \
             so that nobody owns more than {bound} of them; {one_each} count where one row of each is counted. Which ones follows from who owns what alone, and {}",
            self.columns.join(", "),
            Guarantee::OWNERSHIP
        )
    }
}
