//! What a user should know of a fit before it runs, and what every run rests on, in sentences.

use super::options::FitOptions;
use dpopt_data::{Layout, listed};
use dpopt_optimize::plan::Assumption;
use dpopt_privacy::{Budget, Relation, Shown};

pub(super) fn warnings(options: &FitOptions, layout: &Layout, rows: u64, budget: Budget) -> Vec<String> {
    let mut warnings = Vec::new();
    let n = rows as f64;
    if budget.delta() * n > 1.0 {
        warnings.push(format!(
            "delta {:e} is above 1/n = {:.1e}: a mechanism that publishes a random row outright would pass; lower it",
            budget.delta(),
            1.0 / n
        ));
    }
    if budget.epsilon() > 10.0 {
        warnings.push(format!("epsilon {} is a weak promise; values of 1 or less are usual", Shown(budget.epsilon())));
    }
    if n * budget.epsilon() < 100.0 {
        warnings.push(format!(
            "{rows} rows at epsilon {} are few: expect a model little better than a guess",
            Shown(budget.epsilon())
        ));
    }
    if options.insecure_seed.is_some() {
        warnings.push("a fixed seed makes the noise predictable: no privacy, for tests only".into());
    }
    if !layout.undeclared.is_empty() {
        warnings.push(format!(
            "columns without declaration are taken as categories: {}; declare numbers with bounds or --numeric",
            listed(&layout.undeclared)
        ));
    }
    warnings
}

/// What every run rests on.
pub(super) fn general_assumptions(relation: Relation) -> Vec<Assumption> {
    let mut assumptions = vec![
        Assumption::public("Each person has one row; dpopt cannot see who owns which row."),
        Assumption::enforced(
            "Every encoded row has norm at most 1, enforced row by row from public ranges and levels.",
        ),
        Assumption::public("Declared ranges, levels and labels do not come from the records themselves."),
        Assumption::enforced(
            "Noise comes from a cryptographic generator seeded by the operating system, on a public grid.",
        ),
    ];
    if relation != Relation::AddOrRemove {
        assumptions.push(Assumption::public("The number of rows may be known."));
    }
    assumptions
}
