//! Which data sets are neighbours: the relation and the unit of a guarantee, and what is promised between them.

use crate::Budget;
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

/// The privacy unit: what neighbouring data sets differ in one of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// One row of the table.
    Record,
    /// All rows of one user.
    User,
    /// One round of a stream: all that it tells the learner.
    Round,
}

impl Unit {
    /// The name used on the command line and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Record => "record",
            Self::User => "user",
            Self::Round => "round",
        }
    }
}

impl std::fmt::Display for Unit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Which data sets are neighbours: they differ in one unit, in the way of the relation. Made where the privacy unit of
/// the data is known ([`of_records`](Self::of_records), [`of_users`](Self::of_users),
/// [`of_rounds`](Self::of_rounds)), and handed on from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Neighbours {
    /// The privacy unit.
    pub unit: Unit,
    /// How they differ in one unit.
    pub relation: Relation,
}

impl Neighbours {
    /// Neighbours for data whose privacy unit is one record.
    pub const fn of_records(relation: Relation) -> Self {
        Self { unit: Unit::Record, relation }
    }

    /// Neighbours for data whose privacy unit is all that one user has.
    pub const fn of_users(relation: Relation) -> Self {
        Self { unit: Unit::User, relation }
    }

    /// Neighbours for streams whose privacy unit is one round.
    pub const fn of_rounds(relation: Relation) -> Self {
        Self { unit: Unit::Round, relation }
    }

    /// These neighbours and what may be spent between them.
    pub const fn within(self, budget: Budget) -> Terms {
        Terms { budget, neighbours: self }
    }
}

impl std::fmt::Display for Neighbours {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of one {}", self.relation, self.unit)
    }
}

/// What is promised: a budget, between neighbours. Every certificate has its terms, and is worth nothing under others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// The budget (ε, δ).
    pub budget: Budget,
    /// Between which data sets it holds.
    pub neighbours: Neighbours,
}
