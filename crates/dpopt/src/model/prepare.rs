//! Private preparation: the labels of an undeclared target, the ranges of numeric columns. Each stage is planned from
//! public facts, certified, and run through a curator of its own.

use super::error::FitError;
use dpopt_data::{BadCells, TableReader, label_counts, quantile_counts};
use dpopt_mechanism::{Curator, LabelSelection, PrivateBounds};
use dpopt_optimize::RunError;
use dpopt_refusal::{Refusal, Step};

/// Finds the labels of `target` that are frequent enough.
pub(super) fn find_labels(
    plan: &LabelSelection,
    table: &dyn TableReader,
    target: &str,
    curator: &mut Curator,
) -> Result<Vec<String>, FitError> {
    let counts = label_counts(table, target)?;
    Ok(curator.release(plan, &counts).map_err(RunError::from)?.into_inner())
}

/// Finds ranges that hold nearly all values of `columns`, of which `target` is predicted; a column without a range is an error that says so.
pub(super) fn find_bounds(
    plan: &PrivateBounds,
    table: &dyn TableReader,
    (columns, target): (&[String], &str),
    bad_cells: BadCells,
    curator: &mut Curator,
) -> Result<Vec<(String, f64, f64)>, FitError> {
    let counts = quantile_counts(table, columns, bad_cells)?;
    let found = plan.run(&counts, curator).map_err(RunError::from)?.into_inner();
    let mut value = Vec::with_capacity(columns.len());
    for (column, bounds) in columns.iter().zip(found) {
        // the missing range is itself a released outcome, so it may be told
        let (lower, upper) = bounds.ok_or_else(|| match column == target {
            true => no_range("the target", Step::DeclareTargetRange),
            false => no_range(&format!("`{column}`"), Step::DeclareRangeOrIgnore),
        })?;
        value.push((column.clone(), lower, upper));
    }
    Ok(value)
}

/// What is said where a released range is none, and what to do about it.
pub(super) fn no_range(of: &str, instead: Step) -> FitError {
    let none = format!("no range was found for {of}: its 1 % and 99 % quantiles cannot be told apart at this budget");
    FitError::Option(Refusal::of(none).or(instead))
}
