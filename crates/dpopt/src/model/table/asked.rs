//! The options of a fit, checked and settled before any value of a row is read.

use super::super::error::FitError;
use super::super::options::FitOptions;
use super::super::target_range;
use crate::run::RunOptions;
use dpopt_data::{FeatureKind, Kind, Layout, Stored, TableReader, TargetRule, Transform};
use dpopt_objective::loss::Loss;
use dpopt_objective::loss::embedding::Embedding;
use dpopt_optimize::{RowAccess, RunError};
use dpopt_privacy::{Relation, Shown};
use dpopt_refusal::{Part, Refusal, Step, option, setting, text};

/// What can be said without the table: the budget, the ledger, the method and its options.
pub(super) fn without_table(run: &RunOptions, options: &mut FitOptions) -> Result<(), FitError> {
    run.opening(run.neighbours(), run.least()?)?;
    if let Some(asked) = &options.embedding {
        // what the columns do not settle; the towers follow when the layout is known
        let model = Embedding { dimension: asked.dimension, towers: None, seed: asked.seed };
        options.method.embedding = Some(model);
    }
    options.methods().check_options(&options.method)?;
    if options.memory.is_some() && options.method.embedding.is_none() { from_disk(options) } else { Ok(()) }
}

/// Settles a method that reads rows from disk. It is decided by the flag, not by the size of the data: which method runs is public.
fn from_disk(options: &mut FitOptions) -> Result<(), FitError> {
    let registry = options.methods().clone();
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
                "`{target}` has a declared range and a bound on a moment, and either determines where it is clipped; \
                 leave out one of the two"
            ).into()));
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
    (run, options): (&RunOptions, &FitOptions),
    layout: &Layout,
) -> Result<TargetRule, FitError> {
    let rule = layout.target.as_ref().map(|(_, rule)| rule.clone()).unwrap_or(TargetRule::Undeclared);
    if options.regression && matches!(rule, TargetRule::Classes { .. }) {
        return Err(FitError::Option(
            Refusal::of(format!("the target `{target}` is declared with levels, but the task is regression"))
                .or("declare lower and upper instead")
                .or(Step::AskForClasses),
        ));
    }
    if matches!(rule, TargetRule::Undeclared) && !options.regression && !options.classification {
        refuse_a_guess(table, target, (run, options), layout)?;
    }
    Ok(rule)
}

/// A target of which nothing is declared may be a number: labels would then be looked for, and not found, at the price of the whole run.
fn refuse_a_guess(
    table: &dyn TableReader,
    target: &str,
    (run, options): (&RunOptions, &FitOptions),
    layout: &Layout,
) -> Result<(), FitError> {
    let stored = table.columns().iter().find(|column| column.name == target).map(|column| &column.stored);
    // the label of a sparse file is a number by its format
    let sparse = layout.features.iter().any(|(_, kind)| matches!(kind, FeatureKind::Sparse { .. }));
    let what = match options.schema.get(target) {
        Some(Kind::Numeric { .. }) => "is declared as a number without a range",
        None if stored == Some(&Stored::Number) && !sparse => "has the type of a number and no declared range",
        _ if run.ledger_file().is_some() => "is not declared",
        _ => return Ok(()),
    };
    let either = format!("the target `{target}` {what}, so that it may be a number or a label: ");
    Err(FitError::Option(text![either, Step::SayWhatTheTargetIs, ". Nothing was charged"].into()))
}

/// Refuses the loss of counts or of a quantile where it is of no use: for classes, for a range that counts do not have, for a moment, for embeddings.
pub(super) fn check_loss(options: &FitOptions, rule: &TargetRule) -> Result<(), FitError> {
    let Some(loss) = options.loss else { return Ok(()) };
    let (name, what) = match loss {
        Loss::Poisson { .. } => ("the Poisson loss", "counts"),
        Loss::Quantile { .. } => ("the quantile loss", "numbers"),
        _ => return Ok(()),
    };
    let refused = |why: String| Err(FitError::Option(Refusal::of(why).or("take another loss")));
    if options.target_moment.is_some() {
        return target_range::without_moment(loss);
    }
    if options.embedding.is_some() {
        return refused(format!("{name} is for linear models, and an embedding model is asked for"));
    }
    match rule {
        TargetRule::Number { lower, .. } => target_range::check(loss, *lower),
        TargetRule::Classes { .. } => refused(format!("{name} is for {what}, and the target is declared with levels")),
        TargetRule::Undeclared if options.regression => Ok(()),
        TargetRule::Undeclared => {
            let add = format!("{name} is for {what}; add ");
            Err(FitError::Option(text![add, setting("task", "regression")].into()))
        }
    }
}

/// Refuses columns that predictions move one way with where there is no one way, or where what follows the fit rests on the weights as they were released.
pub(super) fn check_trends(options: &FitOptions, layout: &Layout, rule: &TargetRule) -> Result<(), FitError> {
    let Some((column, _)) = layout.trends().next() else { return Ok(()) };
    let refused = |why: &str, fix: &'static str| {
        let why = Refusal::of(format!("`{column}` is declared monotone, and {why}")).or(fix);
        Err(FitError::Option(why.or("leave out `monotone`")))
    };
    if options.embedding.is_some() {
        return refused("an embedding model is asked for, which has no function of a column", "fit a linear model");
    }
    if options.method.intervals().is_some() {
        return refused(
            "prediction intervals are measured around predictions before they follow it",
            "leave out the intervals",
        );
    }
    match rule {
        TargetRule::Number { .. } => Ok(()),
        TargetRule::Undeclared if options.regression => Ok(()),
        TargetRule::Classes { levels } if levels.len() == 2 => Ok(()),
        TargetRule::Classes { .. } => refused(
            "there are more than two classes, of which one alone can be more likely",
            "ask for one of them against the rest",
        ),
        TargetRule::Undeclared => refused(
            "which of two labels is the second is not declared: predictions are of that one",
            "declare the levels of the target",
        ),
    }
}

/// Number of rows, or a public guess of it.
pub(super) fn rows(table: &dyn TableReader, given: Option<u64>, relation: Relation) -> Result<u64, FitError> {
    let rows = match (given, relation) {
        (Some(rows), _) => rows,
        (None, Relation::AddOrRemove) => {
            return Err(FitError::Option(
                text!["under add-or-remove the number of rows is protected; give a public guess with ", option("rows")]
                    .into(),
            ));
        }
        (None, _) => table.count_rows()?,
    };
    if rows < 2 {
        return Err(FitError::Option(
            format!(
                "{rows} {}: too few to learn from privately; a useful model takes at least some hundred rows",
                if rows == 1 { "row" } else { "rows" }
            )
            .into(),
        ));
    }
    Ok(rows)
}

/// Refuses shares of ε that are none.
pub(super) fn check_shares(options: &FitOptions) -> Result<(), FitError> {
    let shares: [(_, Part); 2] = [
        (Some(options.shares.labels), "the share of the budget for labels".into()),
        (options.shares.bounds, option("bounds_budget")),
    ];
    for (share, name) in shares {
        if let Some(share) = share
            && !(share > 0.0 && share < 1.0)
        {
            let refusal = Refusal::of(name).given(Shown(share).to_string());
            return Err(FitError::Option(refusal.allowed("a share of epsilon above 0 and below 1")));
        }
    }
    Ok(())
}
