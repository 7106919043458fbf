//! What a user should know of a fit before it runs, and what every run rests on, in sentences.

use super::options::FitOptions;
use super::units::UnitOptions;
use dpopt_data::{Layout, listed};
use dpopt_optimize::plan::Assumption;
use dpopt_privacy::{Budget, Relation, Shown};

/// A δ that lets too much pass, of `count` rows, or of `count` units where one is named.
pub(crate) fn large_delta(budget: Budget, count: u64, unit: Option<&UnitOptions>) -> Option<String> {
    let n = count as f64;
    (budget.delta() * n > 1.0).then(|| {
        format!(
            "delta {:e} is above 1/n = {:.1e}: a mechanism that publishes a random {} outright would pass; lower it",
            budget.delta(),
            1.0 / n,
            if unit.is_some() { "unit" } else { "row" }
        )
    })
}

/// Who is taken to own which rows.
pub(crate) fn whose_rows(unit: Option<&UnitOptions>) -> Assumption {
    match unit {
        None => Assumption::public("Each person has one row; dpopt cannot see who owns which row."),
        Some(unit) if unit.shares_rows() => Assumption::public(format!(
            "A person has one value, the same in all of {}, and nobody else has it; rows without a value in any of them count nowhere. It is known who owns which rows.",
            unit.name()
        )),
        Some(unit) => Assumption::public(format!(
            "A person has one value of `{}`, and nobody else has it; rows without a value count nowhere.",
            unit.name()
        )),
    }
}

/// `units` are rows where nothing else is protected.
pub(super) fn warnings(options: &FitOptions, layout: &Layout, units: u64, budget: Budget) -> Vec<String> {
    let mut warnings: Vec<String> = large_delta(budget, units, options.unit.as_ref()).into_iter().collect();
    let n = units as f64;
    let what = if options.unit.is_some() { "units" } else { "rows" };
    if budget.epsilon() > 10.0 {
        warnings.push(format!("epsilon {} is a weak promise; values of 1 or less are usual", Shown(budget.epsilon())));
    }
    if n * budget.epsilon() < 100.0 {
        warnings.push(format!(
            "{units} {what} at epsilon {} are few: expect a model little better than a guess",
            Shown(budget.epsilon())
        ));
    }
    if options.insecure_seed.is_some() {
        warnings.push("a fixed seed makes the noise predictable: no privacy, for tests only".into());
    }
    warnings.extend(named_as_unit(options, layout).map(advice_on_units));
    if !layout.undeclared.is_empty() {
        warnings.push(format!(
            "columns without declaration are taken as categories: {}; declare numbers with bounds or --numeric",
            listed(&layout.undeclared)
        ));
    }
    warnings
}

/// The first column that is named like an identifier, where each row is protected by itself.
pub(super) fn named_as_unit<'a>(options: &FitOptions, layout: &'a Layout) -> Option<&'a str> {
    let mut columns = layout.features.iter().map(|(name, _)| name).chain(&layout.ignored);
    columns.find(|name| options.unit.is_none() && names_units(name)).map(String::as_str)
}

pub(super) fn advice_on_units(column: &str) -> String {
    format!(
        "`{column}` looks like an identifier, by its name: if a person may have several rows, protect persons and not rows: --unit {column} \
         (units in Python)"
    )
}

/// Whether a column's name, which is public, says that its values are persons or the like.
fn names_units(column: &str) -> bool {
    const WHO: [&str; 14] = [
        "person",
        "patient",
        "user",
        "customer",
        "client",
        "household",
        "subject",
        "participant",
        "respondent",
        "member",
        "student",
        "employee",
        "device",
        "speaker",
    ];
    let name = column.to_lowercase();
    let stem =
        ["_id", "-id", " id", ".id", "id", "_key", "_no", "_number"].iter().find_map(|end| name.strip_suffix(end));
    WHO.contains(&name.as_str()) || name == "id" || name == "uid" || stem.is_some_and(|stem| WHO.contains(&stem))
}

/// What every run rests on.
pub(super) fn general_assumptions(options: &FitOptions) -> Vec<Assumption> {
    let mut assumptions = vec![
        whose_rows(options.unit.as_ref()),
        Assumption::enforced(
            "Every encoded row has norm at most 1, enforced row by row from public ranges and levels.",
        ),
        Assumption::public("Declared ranges, levels and labels do not come from the records themselves."),
        Assumption::enforced(
            "Noise comes from a cryptographic generator seeded by the operating system, on a public grid.",
        ),
    ];
    if options.relation != Relation::AddOrRemove {
        assumptions.push(Assumption::public(match options.unit {
            None => "The number of rows may be known.",
            Some(ref unit) if unit.shares_rows() => {
                "The numbers of rows, of their owners and of rows that are kept may be known, as whose each row is; and that whose a row is can be read."
            }
            Some(_) => {
                "The number of rows, and of units that can be read where it is counted and not said, may be known; and that whose a row is can be read."
            }
        }));
    }
    assumptions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_told_by_their_names() {
        for name in ["patient_id", "UserID", "id", "person", "customer_key", "device-id"] {
            assert!(names_units(name), "{name}");
        }
        for name in ["paid", "grid", "age", "user_agent", "identity", "members", "number"] {
            assert!(!names_units(name), "{name}");
        }
    }
}
