//! What is asked of a fit, checked and settled before any value of a row is read.

use super::super::error::FitError;
use super::super::options::FitOptions;
use crate::session::{LedgerFile, Opening};
use dpopt_data::{FeatureKind, Kind, Layout, Stored, TableReader, TargetRule, Transform};
use dpopt_objective::loss::embedding::Embedding;
use dpopt_optimize::{RowAccess, RunError};
use dpopt_privacy::{Budget, Relation, Shown};

/// What can be said without the table: the budget, the ledger, the method and its options.
pub(super) fn without_table(epsilon: f64, options: &mut FitOptions) -> Result<(), FitError> {
    let least = Budget::new(epsilon, options.delta.unwrap_or(0.0))?;
    let account = LedgerFile::account(options.ledger.as_ref());
    Opening::new(options.neighbours().within(least), account, options.insecure_seed)?;
    if let Some(asked) = &options.embedding {
        // what the columns do not settle; the towers follow when the layout is known
        let model = Embedding { dimension: asked.dimension, towers: None, seed: asked.seed };
        options.method.embedding = Some(model);
    }
    options.registry().check_options(&options.method)?;
    if options.memory.is_some() && options.method.embedding.is_none() { from_disk(options) } else { Ok(()) }
}

/// Settles a method that reads rows from disk. It is decided by the flag, not by the size of the data: which method runs is public.
fn from_disk(options: &mut FitOptions) -> Result<(), FitError> {
    let registry = options.registry().clone();
    let taken = match options.method.method.as_deref() {
        Some(named) => registry.names().find(|m| *m == named),
        None => registry.first_from_disk(&options.method),
    };
    match taken {
        Some(method) if registry.row_access(method) != Some(RowAccess::Memory) => {
            options.method.method = Some(method.into());
            Ok(())
        }
        method => Err(RunError::InMemory { method: method.unwrap_or("a method with these options") }.into()),
    }
}

/// Declares a target that is to be a number: in the range that a moment of it says, or of unknown range.
pub(super) fn declare_target(target: &str, options: &mut FitOptions) -> Result<(), FitError> {
    if let Some(moment) = options.target_moment {
        options.target_moment = Some(moment.checked()?);
        options.regression = true;
        if options.schema.get(target).is_some_and(|kind| !matches!(kind, Kind::Numeric { bounds: None, .. })) {
            return Err(FitError::Option(format!(
                "`{target}` is declared already, and a moment says where to clip a number of unknown range; leave out one of the two"
            )));
        }
        if let Some(root) = moment.root {
            // of the right scale; where it is clipped follows from the plan
            options.schema.set_bounds(target, moment.about - root, moment.about + root)?;
        }
    }
    if options.regression && options.schema.get(target).is_none() {
        options.schema.declare(target, Kind::Numeric { bounds: None, transform: Transform::Auto })?;
    }
    Ok(())
}

/// How the target is read, if that is what was asked for and no guess.
pub(super) fn target_rule(
    table: &dyn TableReader,
    target: &str,
    options: &FitOptions,
    layout: &Layout,
) -> Result<TargetRule, FitError> {
    let rule = layout.target.as_ref().map(|(_, rule)| rule.clone()).unwrap_or(TargetRule::Undeclared);
    if options.regression && matches!(rule, TargetRule::Classes { .. }) {
        return Err(FitError::Option(format!(
            "the target `{target}` is declared with levels, but regression was asked for; declare lower and upper \
             instead, or leave out --task regression"
        )));
    }
    if matches!(rule, TargetRule::Undeclared) && !options.regression && !options.classification {
        refuse_a_guess(table, target, options, layout)?;
    }
    Ok(rule)
}

/// A target of which nothing is declared may be a number: labels would then be looked for, and not found, at the price of the whole run.
fn refuse_a_guess(
    table: &dyn TableReader,
    target: &str,
    options: &FitOptions,
    layout: &Layout,
) -> Result<(), FitError> {
    let stored = table.columns().iter().find(|column| column.name == target).map(|column| &column.stored);
    // the label of a sparse file is a number by its format
    let sparse = layout.features.iter().any(|(_, kind)| matches!(kind, FeatureKind::Sparse { .. }));
    let what = match options.schema.get(target) {
        Some(Kind::Numeric { .. }) => "is declared a number without a range",
        None if stored == Some(&Stored::Number) && !sparse => "is a number by its type, without a declared range",
        _ if options.ledger.is_some() => "is not declared",
        _ => return Ok(()),
    };
    Err(FitError::Option(format!(
        "the target `{target}` {what}, so it may be a number or labels: for a number give --task regression, with its lower and upper in the bounds \
         file; for labels give --classes A,B, or --task classification to have them found privately. Nothing was charged"
    )))
}

/// Number of rows, or a public guess of it.
pub(super) fn rows(table: &dyn TableReader, options: &FitOptions) -> Result<u64, FitError> {
    let rows = match (options.rows, options.relation) {
        (Some(rows), _) => rows,
        (None, Relation::AddOrRemove) => {
            return Err(FitError::Option(
                "under add-or-remove the number of rows is protected; give a public guess with --rows".into(),
            ));
        }
        (None, _) => table.count_rows()?,
    };
    if rows < 2 {
        return Err(FitError::Option(format!(
            "{rows} {}: nothing private can be learned from that; a useful model takes some hundred rows at least",
            if rows == 1 { "row" } else { "rows" }
        )));
    }
    Ok(rows)
}

/// Refuses shares of ε that are none.
pub(super) fn check_shares(options: &FitOptions) -> Result<(), FitError> {
    for (share, flag) in
        [(Some(options.shares.labels), "the labels' share"), (options.shares.bounds, "--bounds-budget")]
    {
        if let Some(share) = share
            && !(share > 0.0 && share < 1.0)
        {
            return Err(FitError::Option(format!(
                "{flag} is {}; give a share of epsilon above 0 and below 1",
                Shown(share)
            )));
        }
    }
    Ok(())
}
