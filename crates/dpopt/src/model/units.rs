//! Units of privacy that have several rows: whose rows they are, what a plan is made for, and how it is run.

use super::error::FitError;
use crate::report::Ownership;
use crate::run::{UnitClipping, UnitOptions};
use crate::session::SessionError;
use dpopt_data::{Kind, RowOwners, Schema, TableReader, groups_of_units, kept_rows};
use dpopt_mechanism::progress::Progress;
use dpopt_mechanism::{Curator, CuratorError, Sensitive};
use dpopt_noise::NoiseSource;
use dpopt_objective::records::{self, Encoded, KeptRows, Owners, RecordSet, UnitsError};
use dpopt_optimize::plan::{Problem, RecordUnit};
use dpopt_optimize::{Prepared, Run, RunError, Solution};
use dpopt_privacy::Relation;
use dpopt_refusal::{Refusal, Step, Text, option, text};
use serde::Deserialize;
use std::num::NonZeroU64;

/// Refuses what needs a bound on the rows of a unit where there is none.
fn check_bound(clipping: UnitClipping, most_rows: Option<NonZeroU64>) -> Result<(), FitError> {
    match (clipping, most_rows) {
        (UnitClipping::Row, None) => Err(FitError::Option(
            text!["clipping row by row needs a public bound on the rows of a unit; give ", option("max_rows_per_unit")]
                .into(),
        )),
        _ => Ok(()),
    }
}

/// Public facts of units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitFacts {
    /// N; a public guess under add-or-remove.
    pub count: u64,
    /// Public bound on the rows of a unit, as in [`UnitOptions`].
    pub most_rows: Option<NonZeroU64>,
    /// Whether the mean gradient of a unit is clipped, or each row's.
    pub clipping: UnitClipping,
    /// Rows that are kept, where a row may have several owners.
    pub kept: Option<KeptCounts>,
}

/// Public numbers of rows where a row may have several owners. They follow from who owns what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptCounts {
    /// k: most rows of a unit that are kept.
    pub most: NonZeroU64,
    /// Rows of which no unit owns more than k: what a method sees.
    pub rows: u64,
    /// Rows of which no unit owns two: what is counted before the method.
    pub one_each: u64,
}

impl KeptCounts {
    /// Counts of the kept rows of `owners`; `None` where a row has one owner.
    fn of(owners: &RowOwners, most: NonZeroU64) -> Option<Self> {
        let count = |most| Some(owners.kept(most)?.positions().len() as u64);
        Some(Self { most, rows: count(most)?, one_each: count(NonZeroU64::MIN)? })
    }
}

/// Refuses what several owners of a row leave no room for.
fn check_shared(
    clipping: UnitClipping,
    most_rows: Option<NonZeroU64>,
    relation: Relation,
) -> Result<NonZeroU64, FitError> {
    let refused = |why: Text| Err(FitError::Option(why.into()));
    if clipping == UnitClipping::Unit {
        return refused(text![
            "rows have several owners here, so that a unit cannot be clipped as a whole; leave out ",
            option("unit_clipping"),
            ", or set it to row"
        ]);
    }
    if relation == Relation::AddOrRemove {
        return refused(
            "rows have several owners here, and under add-or-remove one owner more or less changes which rows of \
             others are kept, without bound; use zero-out or replace-one"
                .into(),
        );
    }
    match most_rows {
        Some(most) => Ok(most),
        None => refused(text![
            "rows have several owners here, and only so many rows of each owner can be kept; give a public bound, ",
            option("max_rows_per_unit")
        ]),
    }
}

impl UnitFacts {
    /// Refuses so few that nothing can be learned, a bound that is not there, and what several owners of a row leave no room for. `what`: how they are called.
    pub(super) fn check(&self, what: &str, relation: Relation) -> Result<(), FitError> {
        check_bound(self.clipping, self.most_rows)?;
        if let Some(kept) = self.kept {
            check_shared(self.clipping, Some(kept.most), relation)?;
            if kept.rows < 2 {
                return Err(FitError::Option(
                    format!(
                        "only {} {} kept where rows have several owners, too few to learn from privately; raise the \
                         bound on the rows of an owner",
                        kept.rows,
                        if kept.rows == 1 { "row is" } else { "rows are" }
                    )
                    .into(),
                ));
            }
        }
        match self.count {
            0 | 1 => Err(FitError::Option(
                format!(
                    "{} {what}: too few to learn from privately; a useful answer takes at least some hundred",
                    self.count
                )
                .into(),
            )),
            _ => Ok(()),
        }
    }

    /// How many rows what counts one row of each unit sees, or a public guess of it.
    pub(super) fn counted(&self) -> u64 {
        self.kept.map_or(self.count, |kept| kept.one_each)
    }

    /// A problem of rows with a unit as record, or, where a row may have several, with the rows that are kept.
    pub(super) fn pooled(&self, problem: Problem) -> Problem {
        if let Some(KeptCounts { most, rows, .. }) = self.kept {
            return Problem { record: RecordUnit::UnitsRow { most }, rows, ..problem };
        }
        let most = self.most_rows.filter(|_| self.clipping != UnitClipping::Unit);
        let pooled = Problem { record: RecordUnit::Unit { rows: problem.rows, most }, rows: self.count, ..problem };
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
pub(crate) fn coins(insecure_seed: Option<u64>) -> Result<NoiseSource, FitError> {
    Ok(match insecure_seed {
        Some(seed) => NoiseSource::insecure(!seed),
        None => NoiseSource::secure().map_err(SessionError::from)?,
    })
}

/// The owners of a table's rows.
pub(crate) struct Units {
    asked: UnitOptions,
    owners: RowOwners,
    /// N, or a public guess of it.
    count: u64,
    /// Where a row may have several owners.
    kept: Option<KeptCounts>,
}

impl Units {
    /// One pass over the columns of a table that a model is learned from; they are no features from here on.
    pub(super) fn read(
        asked: UnitOptions,
        table: &dyn TableReader,
        schema: &mut Schema,
        target: &str,
        relation: Relation,
    ) -> Result<Self, FitError> {
        if asked.columns.iter().any(|column| column == target) {
            return Err(FitError::Option(
                format!(
                    "`{target}` is both the target and the privacy unit; as the unit name the column that identifies \
                 persons"
                )
                .into(),
            ));
        }
        for column in &asked.columns {
            schema.declare(column, Kind::Ignored).map_err(|_| {
                FitError::Option(
                    format!(
                        "`{column}` is the privacy unit and cannot be a feature; remove its declaration, or declare \
                     ignore = true"
                    )
                    .into(),
                )
            })?;
        }
        Self::of(asked, table, relation)
    }

    /// One pass over the columns.
    pub(crate) fn of(asked: UnitOptions, table: &dyn TableReader, relation: Relation) -> Result<Self, FitError> {
        check_bound(asked.clipping, asked.most_rows)?;
        let columns: Vec<&str> = asked.columns.iter().map(String::as_str).collect();
        if columns.is_empty() {
            return Err(FitError::Option(
                "no column of privacy units is named; name the column that identifies \
                                         persons"
                    .into(),
            ));
        }
        if let Some(twice) = (1..columns.len()).find(|at| columns[..*at].contains(&columns[*at])) {
            return Err(FitError::Option(
                format!("the unit `{}` is named twice; once is enough", columns[twice]).into(),
            ));
        }
        let bound = asked.shares_rows().then(|| check_shared(asked.clipping, asked.most_rows, relation)).transpose()?;
        if asked.units.is_none() && relation == Relation::AddOrRemove {
            return Err(FitError::Option(
                text![
                    "under add-or-remove the number of units is protected; give a public guess with ",
                    option("units")
                ]
                .into(),
            ));
        }
        let owners = RowOwners::read_all(table, &columns)?;
        let owners = match asked.units {
            Some(given) => placed(owners, given, relation),
            None => owners,
        };
        let count = asked.units.unwrap_or(owners.units());
        let kept = bound.and_then(|most| KeptCounts::of(&owners, most));
        let units = Self { asked, owners, count, kept };
        units.facts().check(&format!("units of `{}`", units.asked.name()), relation)?;
        Ok(units)
    }

    /// N, or a public guess of it.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// How many rows what counts one row of each unit sees, or a public guess of it.
    pub(super) fn counted(&self) -> u64 {
        self.facts().counted()
    }

    /// The owners of the rows, for a run.
    pub(super) fn owned(&self) -> Owned {
        Owned::of(&self.owners, self.asked.most_rows)
    }

    /// The units with their `rows`, within the bound on them if there is one.
    ///
    /// # Errors
    /// If a row may have several owners (a bug of the caller): it is in no unit's mean.
    pub(crate) fn own<R: RecordSet>(
        &self,
        rows: Sensitive<R>,
        curator: &mut Curator,
    ) -> Result<Sensitive<records::Units<R>>, CuratorError> {
        let owners = self.owners.sensitive().ok_or(CuratorError::Shape)?;
        own(&owners, self.asked.most_rows, rows, curator)
    }

    /// The group of each row, where every unit is in one of `groups`, within the bound on its rows if there is one; `None`: in none.
    ///
    /// # Errors
    /// If a row may have several owners.
    pub(crate) fn in_groups(&self, groups: u64, coins: &mut NoiseSource) -> Result<Vec<Option<u32>>, UnitsError> {
        groups_of_units(&self.owners, groups, self.asked.most_rows, coins)
    }

    /// The rows of `table` that are kept, where a row may have several owners.
    pub(crate) fn kept<'a>(&self, table: &'a dyn TableReader) -> Option<impl TableReader + use<'a>> {
        Some(kept_rows(table, &self.owners.kept(self.kept?.most)?))
    }

    /// Whether a row may have several owners.
    pub(super) fn are_shared(&self) -> bool {
        self.kept.is_some()
    }

    /// Who owns what, where a row may have several owners.
    pub(crate) fn ownership(&self) -> Option<Ownership> {
        let KeptCounts { most, rows: kept, one_each } = self.kept?;
        let (most_rows_of_an_owner, rows_of_an_owner) = self.owners.rows_of_a_unit()?;
        Some(Ownership {
            columns: self.asked.columns.clone(),
            rows: self.owners.rows(),
            owners: self.count,
            rows_of_an_owner,
            most_rows_of_an_owner,
            bound: most.get(),
            kept,
            one_each,
        })
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
                let found = format!(
                    " is {given}, but `{}` has more values than that, or the table has fewer rows",
                    self.asked.name()
                );
                let refusal = Refusal::of(text![option("units"), found]);
                Err(FitError::Option(refusal.or("give the number of units").or(Step::CountUnits)))
            }
            _ => Ok(()),
        }
    }

    /// What is public of them.
    pub(super) fn facts(&self) -> UnitFacts {
        let UnitOptions { most_rows, clipping, .. } = self.asked;
        UnitFacts { count: self.count, most_rows, clipping, kept: self.kept }
    }
}

/// The owners of rows, in the form that a run needs.
pub(super) enum Owned {
    /// Each row has one owner, of whom at most so many rows are taken.
    Units(Sensitive<Owners>, Option<NonZeroU64>),
    /// A row may have several owners; no unit owns more than so many of these rows.
    Rows(Sensitive<KeptRows>),
}

impl Owned {
    /// Without a bound (a bug of the caller) one row of each is kept where a row may have several owners.
    pub fn of(owners: &RowOwners, most: Option<NonZeroU64>) -> Self {
        match (owners.sensitive(), owners.kept(most.unwrap_or(NonZeroU64::MIN))) {
            (None, Some(kept)) => Self::Rows(Sensitive::new(kept)),
            (one, _) => Self::Units(one.unwrap_or_else(|| Sensitive::new(Owners::default())), most),
        }
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
    owned: Option<&Owned>,
    curator: &mut Curator,
    progress: &dyn Progress,
) -> Result<Solution, RunError> {
    let problem = plan.problem();
    let released = match (owned, rows) {
        (None, Encoded::Memory(rows)) => {
            let rows = Sensitive::new(rows);
            plan.run(Run::new(problem, &rows, curator, progress)?)
        }
        (None, Encoded::Disk(rows)) => {
            let rows = Sensitive::new(rows);
            plan.run_spilled(Run::new(problem, &rows, curator, progress)?)
        }
        (Some(Owned::Rows(kept)), Encoded::Memory(rows)) => {
            let rows = kept.of(Sensitive::new(rows))?;
            plan.run(Run::new(problem, &rows, curator, progress)?)
        }
        // refused when it was planned
        (Some(Owned::Rows(_)), Encoded::Disk(_)) => return Err(CuratorError::Shape.into()),
        (Some(Owned::Units(owners, most)), Encoded::Memory(rows)) => {
            let units = own(owners, *most, Sensitive::new(rows), curator)?;
            if problem.is_pooled() {
                let units = units.gathered();
                plan.run_units(Run::new(problem, &units, curator, progress)?)
            } else {
                let rows = units.one_by_one().ok_or(CuratorError::Shape)?;
                drop(units);
                plan.run(Run::new(problem, &rows, curator, progress)?)
            }
        }
        (Some(Owned::Units(owners, most)), Encoded::Disk(rows)) => {
            let units = own(owners, *most, Sensitive::new(rows), curator)?;
            plan.run_spilled_units(Run::new(problem, &units, curator, progress)?)
        }
    };
    Ok(released?.into_inner())
}
