//! How many there are of what a mean is of, where that is public: rows, or units.

use crate::model::{FitError, UnitClipping, UnitOptions, Units, same_count};
use dpopt_data::TableReader;
use dpopt_privacy::Relation;
use dpopt_refusal::{option, text};

/// n. Where it is public, it is counted, and a wrong `rows` is an error: the answer would be a multiple of the mean.
pub(super) fn public_rows(table: &dyn TableReader, rows: Option<u64>, relation: Relation) -> Result<u64, FitError> {
    let rows = match (rows, relation) {
        (None, Relation::AddOrRemove) => {
            return Err(FitError::Option(
                text!["under add-or-remove the number of rows is protected; give a public guess with ", option("rows")]
                    .into(),
            ));
        }
        (Some(guess), Relation::AddOrRemove) => guess,
        (given, _) => {
            let counted = table.count_rows()?;
            given.map_or(Ok(()), |given| same_count(given, counted))?;
            counted
        }
    };
    if rows < 2 {
        return Err(FitError::Option(
            format!(
                "{rows} {}: too few for a private mean; use at least two rows, and some hundred for a useful answer",
                if rows == 1 { "row" } else { "rows" }
            )
            .into(),
        ));
    }
    Ok(rows)
}

/// Whose vectors they are. Where the number of units is public, a wrong one is an error, as for [rows](public_rows). How many rows they have is none of the
/// public facts: it is not counted, and neighbouring tables need not agree on it.
pub(super) fn public_units(
    table: &dyn TableReader,
    (is_data, data): (impl Fn(&str) -> bool, &str),
    asked: &UnitOptions,
    rows: Option<u64>,
    relation: Relation,
) -> Result<Units, FitError> {
    if rows.is_some() {
        return Err(FitError::Option(
            text![
                "with a privacy unit the mean is over units, and the number of rows has no effect; give ",
                option("units"),
                ", or leave both out"
            ]
            .into(),
        ));
    }
    if asked.clipping == UnitClipping::Row && !asked.shares_rows() {
        return Err(FitError::Option(
            "a mean over units clips the mean vector of each unit, and cannot clip row by row; leave the clipping \
             out, or leave the unit out"
                .into(),
        ));
    }
    if let Some(column) = asked.columns.iter().find(|column| is_data(column)) {
        return Err(FitError::Option(
            format!("`{column}` holds {data} and cannot be the privacy unit; name the column that identifies persons")
                .into(),
        ));
    }
    let units = Units::of(asked.clone(), table, relation)?;
    units.check_count(relation)?;
    Ok(units)
}
