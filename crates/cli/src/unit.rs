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
    /// Column whose values are what is protected, each with all of its rows: a patient, a user; by default each row by itself. Where a row may have several
    /// owners (sender, recipient) say it for each of their columns: who owns which rows is taken as known then, and not protected
    #[arg(long, value_name = "COLUMN", help_heading = GUARANTEE)]
    unit: Vec<String>,
    /// Public bound on the rows of a unit: of one with more, so many are taken at random. Methods that look at rows one by one need it, and rows with several
    /// owners: of these so many are kept that nobody owns more, whatever is in them
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
    /// The columns whose values are the units, in no order of theirs.
    pub(crate) fn columns(&self) -> Vec<String> {
        let mut columns = self.unit.clone();
        columns.sort();
        columns
    }

    /// Which tables are neighbours.
    pub(crate) fn neighbours(&self, relation: RelationFlag) -> Neighbours {
        match self.unit.is_empty() {
            true => Neighbours::of_records(relation.into()),
            false => Neighbours::of_users(relation.into()),
        }
    }

    /// What was asked for.
    pub(crate) fn options(&self) -> Option<UnitOptions> {
        let columns = self.unit.clone();
        let (most_rows, units) = (self.max_rows_per_unit, self.units);
        (!columns.is_empty()).then_some(UnitOptions { columns, most_rows, clipping: UnitClipping::Auto, units })
    }
}

impl UnitFlags {
    /// The columns whose values are the units, in no order of theirs.
    pub(crate) fn columns(&self) -> Vec<String> {
        self.owner.columns()
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
