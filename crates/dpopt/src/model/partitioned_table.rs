//! Remote tables in partitions: what can be fitted, and the run.

use super::error::FitError;
use super::options::FitOptions;
use super::partitions::{QueryTarget, View};
use super::stage_plan::Planned;
use crate::run::RunOptions;
use dpopt_data::{BadCells, Layout, Pairs, TargetRule};
use dpopt_mechanism::progress::Progress;
use dpopt_mechanism::{Curator, Sensitive};
use dpopt_objective::records::{Partitions, RemoteRecords};
use dpopt_optimize::{Run, Solution};
use std::sync::Arc;

/// Who holds the partitions, and how many records each has, and their digest.
pub type Held = (Arc<dyn Partitions>, Vec<(u64, u64)>);

/// Refuses what is not done with tables in partitions: whatever needs a release before the rows can be encoded.
pub(super) fn check(run: &RunOptions, options: &FitOptions, layout: &Layout) -> Result<(), FitError> {
    let refuse = |why: &'static str| Err(FitError::Option(why.into()));
    let labels = layout.target.is_none() || matches!(layout.target, Some((_, TargetRule::Undeclared)));
    let unbounded = layout.unbounded();
    match &options.schema.form.pairs {
        _ if run.unit.is_some() => refuse(
            "remote records with privacy units cannot be encoded from named columns; encode the columns first, and \
             give partitions of numbers",
        ),
        _ if options.embedding.is_some() => refuse(
            "an embedding model needs single rows, and remote records answer with sums only; fit a linear \
                    model, or bring the rows to one place",
        ),
        _ if options.memory.is_some() => refuse("remote records take no memory here; leave out the memory cap"),
        _ if options.rows.is_none() => refuse("the number of remote records is unknown; give the number of rows"),
        _ if options.bad_cells != BadCells::Missing => refuse(
            "unreadable cells cannot be errors with remote records, since the workers would report them; treat them \
             as missing",
        ),
        _ if labels && !options.regression => refuse(
            "the labels are not declared, and remote records need them before the first pass; declare the labels",
        ),
        _ if labels || !unbounded.is_empty() => refuse(
            "a number has no declared range, and remote records are encoded before ranges could be found; declare a \
             range for every number, also for the target, or find the ranges with private_bounds first",
        ),
        _ if options.schema.form.spread == Some(true) => refuse(
            "the private quantile transform (`spread`) needs histograms that are released before rows are encoded, \
             and remote records are encoded first; leave out spread",
        ),
        Some(Pairs::Private) => refuse(
            "choosing pairs privately needs single rows, and remote records answer with sums only; name the pairs, \
             or give \"all\" or \"none\"",
        ),
        _ => Ok(()),
    }
}

/// Runs the plan on partitions.
pub(super) fn run(
    planned: &Planned,
    (parts, known): &Held,
    curator: &mut Curator,
    progress: &dyn Progress,
) -> Result<Solution, FitError> {
    let plan = planned.plan()?;
    let problem = plan.problem();
    let rows = RemoteRecords::new(parts.clone(), known.clone(), problem.features, problem.row_norm);
    let rows = Sensitive::new(rows.read_as(QueryTarget::Model(View::of(planned, 0)).to_bytes()));
    Ok(plan.run_remote(Run::new(problem, &rows, curator, progress)?)?.into_inner())
}
