//! Which data sets are neighbours: the relation and the unit of a guarantee.

use serde::{Deserialize, Serialize};

/// When two data sets are neighbours. Never mix two relations in one number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Relation {
    /// One record's contribution is replaced by nothing; the number of records stays public.
    /// `dp_accounting` calls it `REPLACE_SPECIAL`. A sum of vectors clipped to C moves by at most C.
    #[default]
    ZeroOut,
    /// One record is added or removed; the number of records is itself protected. Sums move by at most C.
    AddOrRemove,
    /// One record is replaced by any other. Sums move by at most 2C.
    ReplaceOne,
}

impl Relation {
    /// The name used on the command line and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::ZeroOut => "zero-out",
            Self::AddOrRemove => "add-or-remove",
            Self::ReplaceOne => "replace-one",
        }
    }

    /// How far the sum of contributions of norm at most 1 can move between neighbours: 1 or 2.
    pub fn sum_sensitivity(self) -> f64 {
        match self {
            Self::ZeroOut | Self::AddOrRemove => 1.0,
            Self::ReplaceOne => 2.0,
        }
    }
}

impl std::fmt::Display for Relation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Who is protected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// One row of the table.
    #[default]
    Record,
    /// All rows of one user.
    User,
}
