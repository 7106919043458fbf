//! Tables that are elsewhere, in parts: what can be fitted, and the run.

use super::error::FitError;
use super::options::FitOptions;
use super::parts::{Asked, View};
use super::scheme::Planned;
use dpopt_data::{BadCells, Layout, Pairs, TargetRule};
use dpopt_mechanism::progress::Progress;
use dpopt_mechanism::{Curator, Sensitive};
use dpopt_objective::records::{Elsewhere, Parts};
use dpopt_optimize::{Run, Solution};
use std::sync::Arc;

/// Who holds the parts, and how many records each has, and their digest.
pub(super) type Held = (Arc<dyn Parts>, Vec<(u64, u64)>);

/// Refuses what is not done with tables in parts: whatever needs a release before the rows can be encoded.
pub(super) fn check(options: &FitOptions, layout: &Layout) -> Result<(), FitError> {
    let refuse = |why: &str| Err(FitError::Option(why.into()));
    let labels = layout.target.is_none() || matches!(layout.target, Some((_, TargetRule::Undeclared)));
    let unbounded = layout.unbounded();
    match &options.schema.form.pairs {
        _ if options.unit.is_some() => refuse(
            "units of several rows are not fitted with columns by name in parts; encode the columns before, and give parts of numbers",
        ),
        _ if options.embedding.is_some() => {
            refuse("an embedding model looks into single rows, and they are elsewhere, in parts")
        }
        _ if options.memory.is_some() => refuse("rows that are elsewhere take no memory here; leave out the cap on it"),
        _ if options.rows.is_none() => refuse("the number of rows that are elsewhere must be said"),
        _ if options.bad_cells != BadCells::Missing => refuse(
            "a cell that cannot be read is an error where the parts are, and would be told of from there; let it count as missing",
        ),
        _ if labels && !options.regression => refuse(
            "which labels occur is not known beforehand, and what a part answers has a public shape; declare them",
        ),
        _ if labels || !unbounded.is_empty() => refuse(
            "ranges are found before rows are encoded, and parts are encoded first: find them by private_bounds, or declare them for every number, the target too",
        ),
        _ if options.schema.form.spread == Some(true) => refuse(
            "numbers are spread by what is released of them before rows are encoded, and parts are encoded first; leave out spread",
        ),
        Some(Pairs::Private) => refuse(
            "pairs are found by a first private model that looks into single rows, and they are elsewhere, in parts; name the pairs, or say \"all\" or \"none\"",
        ),
        _ => Ok(()),
    }
}

/// Runs the plan on parts.
pub(super) fn run(
    planned: &Planned,
    (parts, known): &Held,
    curator: &mut Curator,
    progress: &dyn Progress,
) -> Result<Solution, FitError> {
    let plan = planned.plan()?;
    let problem = plan.problem();
    let rows = Elsewhere::new(parts.clone(), known.clone(), problem.features, problem.row_norm);
    let rows = Sensitive::new(rows.read_as(Asked::Model(View::of(planned, 0)).to_bytes()));
    Ok(plan.run_elsewhere(Run::new(problem, &rows, curator, progress)?)?.into_inner())
}
