//! `--unit` on the command line: what is protected as a whole.

use crate::flags::GUARANTEE;
use crate::relation::RelationFlag;
use clap::{Args, ValueEnum};
use dpopt::model::{UnitClipping, UnitOptions};
use dpopt_privacy::Neighbours;
use std::num::NonZeroU64;

/// Whose rows are protected together.
#[derive(Args, Clone)]
pub(crate) struct OwnerFlags {
    /// Column whose values are what is protected, each with all of its rows: a patient, a user; by default each row by itself
    #[arg(long, value_name = "COLUMN", help_heading = GUARANTEE)]
    unit: Option<String>,
    /// Public bound on the rows of a unit: of one with more, so many are taken at random. Methods that look at rows one by one need it
    #[arg(long, value_name = "N", requires = "unit", help_heading = GUARANTEE)]
    max_rows_per_unit: Option<NonZeroU64>,
    /// Number of units, if it is public otherwise or (add-or-remove) a public guess; by default they are counted
    #[arg(long, value_name = "N", requires = "unit", help_heading = GUARANTEE)]
    units: Option<u64>,
}

/// The same where a model is learned.
#[derive(Args, Clone)]
pub(crate) struct UnitFlags {
    #[command(flatten)]
    owner: OwnerFlags,
    /// What is clipped: the mean of a unit's gradients, or each row (the guarantee of a row is then taken for a group); auto takes, for each
    /// method, what promises the smaller error
    #[arg(long, value_enum, requires = "unit", default_value_t, help_heading = GUARANTEE)]
    unit_clipping: Clipping,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum Clipping {
    #[default]
    Auto,
    Unit,
    Row,
}

impl OwnerFlags {
    /// Whose values are the units.
    pub(crate) fn column(&self) -> Option<&str> {
        self.unit.as_deref()
    }

    /// Which tables are neighbours.
    pub(crate) fn neighbours(&self, relation: RelationFlag) -> Neighbours {
        match self.unit {
            None => Neighbours::of_records(relation.into()),
            Some(_) => Neighbours::of_users(relation.into()),
        }
    }

    /// What was asked for.
    pub(crate) fn options(&self) -> Option<UnitOptions> {
        let column = self.unit.clone()?;
        Some(UnitOptions { column, most_rows: self.max_rows_per_unit, clipping: UnitClipping::Auto, units: self.units })
    }
}

impl UnitFlags {
    /// Whose values are the units.
    pub(crate) fn column(&self) -> Option<&str> {
        self.owner.column()
    }

    /// Which tables are neighbours.
    pub(crate) fn neighbours(&self, relation: RelationFlag) -> Neighbours {
        self.owner.neighbours(relation)
    }

    /// What was asked for.
    pub(crate) fn options(&self) -> Option<UnitOptions> {
        let clipping = match self.unit_clipping {
            Clipping::Auto => UnitClipping::Auto,
            Clipping::Unit => UnitClipping::Unit,
            Clipping::Row => UnitClipping::Row,
        };
        Some(UnitOptions { clipping, ..self.owner.options()? })
    }
}
