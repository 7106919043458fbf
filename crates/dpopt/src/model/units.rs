//! Units of privacy that have several rows: whose rows they are, what a plan is made for, and how it is run.

use super::error::FitError;
use crate::session::SessionError;
use dpopt_data::{Kind, RowOwners, Schema, TableReader};
use dpopt_mechanism::progress::Progress;
use dpopt_mechanism::{Curator, CuratorError, Sensitive};
use dpopt_noise::NoiseSource;
use dpopt_objective::records::{self, Encoded, Owners, RecordSet};
use dpopt_optimize::plan::{Problem, RecordOf};
use dpopt_optimize::{Prepared, Run, RunError, Solution};
use dpopt_privacy::Relation;
use serde::Deserialize;
use std::num::NonZeroU64;

/// Who is protected where it is not a row: all rows with one value of a column.
///
/// What is released then is as private for a person with a thousand rows as for one with a single row. How a method gets there is a part of its plan: a
/// method that sums gradients takes the mean of a unit's gradients and clips that; one that needs rows one by one takes the guarantee of a row for a group
/// of `most_rows`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitOptions {
    /// The column: its values are the units. It is no feature.
    pub column: String,
    /// Public bound k on the rows of a unit: of one with more, k are left, a uniform choice. `None`: no bound; methods that need rows one by one do not apply.
    pub most_rows: Option<NonZeroU64>,
    /// What is clipped.
    pub clipping: UnitClipping,
    /// Public number of units, at least as many as have rows; required under add-or-remove, a guess there. `None`: counted.
    pub units: Option<u64>,
}

/// What is clipped where a unit may have several rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UnitClipping {
    /// Whatever promises the smaller risk, of each method.
    #[default]
    Auto,
    /// The mean of a unit's gradients; methods that need rows one by one do not apply.
    Unit,
    /// Each row; the guarantee of a row is taken for a group of as many as a unit may have.
    Row,
}

impl UnitClipping {
    /// Refuses what needs a bound on the rows of a unit where there is none.
    fn check(self, most_rows: Option<NonZeroU64>) -> Result<(), FitError> {
        match (self, most_rows) {
            (Self::Row, None) => Err(FitError::Option(
                "clipping row by row needs a public bound on the rows of a unit: give --max-rows-per-unit".into(),
            )),
            _ => Ok(()),
        }
    }
}

/// Public facts of units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitFacts {
    /// N; a public guess under add-or-remove.
    pub count: u64,
    /// Public bound on the rows of a unit, as in [`UnitOptions`].
    pub most_rows: Option<NonZeroU64>,
    /// What is clipped.
    pub clipping: UnitClipping,
}

impl UnitFacts {
    /// Refuses so few that nothing can be learned, and a bound that is not there. `what`: how they are called.
    pub(super) fn check(&self, what: &str) -> Result<(), FitError> {
        self.clipping.check(self.most_rows)?;
        match self.count {
            0 | 1 => Err(FitError::Option(format!(
                "{} {what}: nothing private can be learned from so few; a useful answer takes some hundred at least",
                self.count
            ))),
            _ => Ok(()),
        }
    }

    /// A problem of rows with a unit as record.
    pub(super) fn pooled(&self, problem: Problem) -> Problem {
        let most = self.most_rows.filter(|_| self.clipping != UnitClipping::Unit);
        let pooled = Problem { record: RecordOf::Unit { rows: problem.rows, most }, rows: self.count, ..problem };
        match self.clipping {
            UnitClipping::Auto | UnitClipping::Unit => pooled,
            // a bound is there
            UnitClipping::Row => pooled.by_row().unwrap_or(pooled),
        }
    }
}

/// Units of which no row is left have a place all the same: a public number of them stays what it is.
pub(super) fn placed(owners: RowOwners, count: u64, relation: Relation) -> RowOwners {
    match relation {
        Relation::AddOrRemove => owners,
        Relation::ZeroOut | Relation::ReplaceOne => owners.among(count),
    }
}

/// Secret coins for which row of a unit is counted.
pub(super) fn coins(insecure_seed: Option<u64>) -> Result<NoiseSource, FitError> {
    Ok(match insecure_seed {
        Some(seed) => NoiseSource::insecure(!seed),
        None => NoiseSource::secure().map_err(SessionError::from)?,
    })
}

/// Whose rows a table's are.
pub(crate) struct Units {
    asked: UnitOptions,
    owners: RowOwners,
    /// N, or a public guess of it.
    count: u64,
}

impl Units {
    /// One pass over the column of a table that a model is learned from; it is no feature from here on.
    pub(super) fn read(
        asked: UnitOptions,
        table: &dyn TableReader,
        schema: &mut Schema,
        target: &str,
        relation: Relation,
    ) -> Result<Self, FitError> {
        if asked.column == target {
            return Err(FitError::Option(format!(
                "`{target}` is both what is learned and the unit of privacy; name the column whose values are persons"
            )));
        }
        schema.declare(&asked.column, Kind::Ignored).map_err(|_| {
            FitError::Option(format!(
                "`{}` is the unit of privacy, and no feature; leave its declaration out, or say ignore = true",
                asked.column
            ))
        })?;
        Self::of(asked, table, relation)
    }

    /// One pass over the column.
    pub(crate) fn of(asked: UnitOptions, table: &dyn TableReader, relation: Relation) -> Result<Self, FitError> {
        asked.clipping.check(asked.most_rows)?;
        if asked.units.is_none() && relation == Relation::AddOrRemove {
            return Err(FitError::Option(
                "under add-or-remove the number of units is protected; give a public guess with --units".into(),
            ));
        }
        let owners = RowOwners::read(table, &asked.column)?;
        let owners = match asked.units {
            Some(given) => placed(owners, given, relation),
            None => owners,
        };
        let count = asked.units.unwrap_or(owners.units());
        let units = Self { asked, owners, count };
        units.facts().check(&format!("units of `{}`", units.asked.column))?;
        Ok(units)
    }

    /// N, or a public guess of it.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// What was asked for.
    pub(crate) fn asked(&self) -> &UnitOptions {
        &self.asked
    }

    /// Whose rows they are, and by what.
    pub(super) fn owners(&self) -> &RowOwners {
        &self.owners
    }

    /// The units with their `rows`, within the bound on them if there is one.
    pub(crate) fn own<R: RecordSet>(
        &self,
        rows: Sensitive<R>,
        curator: &mut Curator,
    ) -> Result<Sensitive<records::Units<R>>, CuratorError> {
        own(&self.owners.sensitive(), self.asked.most_rows, rows, curator)
    }

    /// The table with one row of each unit, for what counts records.
    pub(super) fn one_row_each<'a>(
        &self,
        table: &'a dyn TableReader,
        insecure_seed: Option<u64>,
    ) -> Result<impl TableReader + use<'a>, FitError> {
        Ok(self.owners.one_row_each(table, &mut coins(insecure_seed)?))
    }

    /// Refuses a number of units that was given where the table has more, or has fewer rows than that.
    pub(crate) fn check_count(&self, relation: Relation) -> Result<(), FitError> {
        match self.asked.units {
            Some(given) if relation != Relation::AddOrRemove && given != self.owners.units() => {
                Err(FitError::Option(format!(
                    "--units is {given}, and `{}` has more values than that, or the table fewer rows; give the number of units, leave --units out to count \
                     them, or use --relation add-or-remove, which takes a guess",
                    self.asked.column,
                )))
            }
            _ => Ok(()),
        }
    }

    /// What is public of them.
    pub(super) fn facts(&self) -> UnitFacts {
        let UnitOptions { most_rows, clipping, .. } = self.asked;
        UnitFacts { count: self.count, most_rows, clipping }
    }
}

/// The units with their `rows`, at most `most` of them each.
fn own<R: RecordSet>(
    owners: &Sensitive<Owners>,
    most: Option<NonZeroU64>,
    rows: Sensitive<R>,
    curator: &mut Curator,
) -> Result<Sensitive<records::Units<R>>, CuratorError> {
    let units = owners.of(rows)?;
    Ok(match most {
        Some(most) => curator.capped(units, most),
        None => units,
    })
}

/// Runs a plan on rows, or on the units that own them, as it was made.
pub(super) fn run(
    plan: &dyn Prepared,
    rows: Encoded,
    owners: Option<(&Sensitive<Owners>, Option<NonZeroU64>)>,
    curator: &mut Curator,
    progress: &dyn Progress,
) -> Result<Solution, RunError> {
    let problem = plan.problem();
    let released = match (owners, rows) {
        (None, Encoded::Memory(rows)) => {
            let rows = Sensitive::new(rows);
            plan.run(Run::new(problem, &rows, curator, progress)?)
        }
        (None, Encoded::Disk(rows)) => {
            let rows = Sensitive::new(rows);
            plan.run_spilled(Run::new(problem, &rows, curator, progress)?)
        }
        (Some((owners, most)), Encoded::Memory(rows)) => {
            let units = own(owners, most, Sensitive::new(rows), curator)?;
            if problem.is_pooled() {
                let units = units.gathered();
                plan.run_units(Run::new(problem, &units, curator, progress)?)
            } else {
                let rows = units.one_by_one().ok_or(CuratorError::Shape)?;
                drop(units);
                plan.run(Run::new(problem, &rows, curator, progress)?)
            }
        }
        (Some((owners, most)), Encoded::Disk(rows)) => {
            let units = own(owners, most, Sensitive::new(rows), curator)?;
            plan.run_spilled_units(Run::new(problem, &units, curator, progress)?)
        }
    };
    Ok(released?.into_inner())
}
