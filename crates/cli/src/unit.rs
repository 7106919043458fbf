//! `--unit` on the command line: what is protected as a whole.

use crate::flags::GUARANTEE;
use crate::relation::RelationFlag;
use clap::{Args, ValueEnum};
use dpopt::{UnitClipping, UnitOptions};
use dpopt_privacy::Neighbours;
use std::num::NonZeroU64;

/// Whose rows are protected together.
#[derive(Args, Clone)]
pub(crate) struct OwnerFlags {
    /// Privacy unit: a column that identifies persons (patients, users); all rows with one value are protected
    /// together. By default each row is protected by itself. Where a row has several owners (sender, recipient),
    /// repeat it for each of their columns; who owns which rows is public then
    #[arg(long, value_name = "COLUMN", help_heading = GUARANTEE)]
    unit: Vec<String>,
    /// Public bound on the rows of a unit; of a unit with more rows, that many are chosen at random. Needed by
    /// methods that clip row by row, and where rows have several owners: then rows are dropped until no owner has
    /// more, whatever the rows contain
    #[arg(long, value_name = "N", requires = "unit", help_heading = GUARANTEE)]
    max_rows_per_unit: Option<NonZeroU64>,
    /// Number of units, if known publicly; under add-or-remove a public guess. By default units are counted
    #[arg(long, value_name = "N", requires = "unit", help_heading = GUARANTEE)]
    units: Option<u64>,
}

/// Whose rows are protected together, and what is clipped, where a model is fitted.
#[derive(Args, Clone)]
pub(crate) struct UnitFlags {
    #[command(flatten)]
    owner: OwnerFlags,
    /// What is clipped: the mean of a unit's gradients, or each row (the guarantee of a row is then extended to a
    /// group); auto chooses, for each method, what has the smaller predicted error
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
        let mut unit = UnitOptions::of_all(self.unit.clone()).units(self.units);
        unit.most_rows = self.max_rows_per_unit;
        (!self.unit.is_empty()).then_some(unit)
    }
}

impl UnitFlags {
    /// These flags where there are so many units.
    pub(crate) fn of(mut self, units: u64) -> Self {
        self.owner.units = Some(units);
        self
    }

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
        Some(self.owner.options()?.clipping(clipping))
    }
}
