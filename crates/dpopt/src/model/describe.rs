//! What a user should know of a fit before it runs, and what every run rests on, in sentences.

use super::budget_split::MAX_PLANNED_EPSILON;
use crate::run::{RunOptions, UnitOptions};
use crate::session::default_delta;
use dpopt_data::{Layout, listed};
use dpopt_optimize::plan::Assumption;
use dpopt_privacy::rounding::probability;
use dpopt_privacy::{Budget, Relation, Shown};
use dpopt_refusal::{Step, Text, option, setting, text};

/// A δ that lets too much pass, of `count` rows, or of `count` units where one is named.
pub(crate) fn large_delta(budget: Budget, count: u64, unit: Option<&UnitOptions>) -> Option<Text> {
    let share = 1.0 / count as f64;
    (budget.delta() * count as f64 > 1.0).then(|| {
        let one = if unit.is_some() { "unit" } else { "row" };
        // two digits, rounded down: less than what is shown is less than 1/n
        let digit = 10f64.powf(share.log10().floor() - 1.0);
        let most = probability((share / digit * (1.0 + 1e-12)).floor() * digit);
        text![
            format!(
                "delta {} is above 1/{one}s = {most}: a program that publishes one random {one} in clear would have \
                 the same guarantee; give less than {most}, or leave out ",
                Shown(budget.delta())
            ),
            option("delta"),
            format!(" (then it is {})", probability(default_delta(count)))
        ]
    })
}

/// Who is taken to own which rows.
pub(crate) fn whose_rows(unit: Option<&UnitOptions>) -> Assumption {
    match unit {
        None => Assumption::public(
            "Each person has one row: dpopt cannot tell whether two rows belong to one \
                                    person.",
        ),
        Some(unit) if unit.shares_rows() => Assumption::public(format!(
            "Each person has one value, the same in all of the columns {}, and no two persons share it. Rows without \
             a value in any of them are not used. Who owns which rows is public.",
            unit.name()
        )),
        Some(unit) => Assumption::public(format!(
            "Each person has one value of `{}`, and no two persons share it. Rows without a value are not used.",
            unit.name()
        )),
    }
}

/// `units` are rows where nothing else is protected.
pub(super) fn warnings(run: &RunOptions, layout: &Layout, units: u64, budget: Budget) -> Vec<Text> {
    let mut warnings: Vec<Text> = large_delta(budget, units, run.unit.as_ref()).into_iter().collect();
    let n = units as f64;
    let what = if run.unit.is_some() { "units" } else { "rows" };
    if budget.epsilon() > 10.0 {
        let weak = format!("epsilon {} is a weak guarantee; values of 1 or less are usual", Shown(budget.epsilon()));
        let planned = match budget.epsilon() > MAX_PLANNED_EPSILON && budget.delta() > 0.0 {
            true => format!(". Noise is planned for epsilon {MAX_PLANNED_EPSILON}, the largest that is used"),
            false => String::new(),
        };
        warnings.push((weak + &planned).into());
    }
    if n * budget.epsilon() < 100.0 {
        warnings.push(
            format!(
                "{units} {what} at epsilon {} are few: the model may be little better than a guess",
                Shown(budget.epsilon())
            )
            .into(),
        );
    }
    if run.insecure_seed.is_some() {
        warnings.push("a fixed seed makes the noise predictable: no privacy, for tests only".into());
    }
    warnings.extend(named_as_unit(run, layout).map(advice_on_units));
    if !layout.undeclared.is_empty() {
        let taken = format!("undeclared columns are treated as categories: {}; ", listed(&layout.undeclared));
        warnings.push(text![taken, Step::DeclareNumbers]);
    }
    warnings
}

/// The first column that is named like an identifier, where each row is protected by itself.
pub(super) fn named_as_unit<'a>(run: &RunOptions, layout: &'a Layout) -> Option<&'a str> {
    let mut columns = layout.features.iter().map(|(name, _)| name).chain(&layout.ignored);
    columns.find(|name| run.unit.is_none() && names_units(name)).map(String::as_str)
}

pub(super) fn advice_on_units(column: &str) -> Text {
    let looks =
        "looks like an identifier by its name; if a person may have several rows, protect persons instead of rows: ";
    text![format!("`{column}` {looks}"), setting("unit", column.to_string())]
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
pub(super) fn general_assumptions(run: &RunOptions) -> Vec<Assumption> {
    let mut assumptions = vec![
        whose_rows(run.unit.as_ref()),
        Assumption::enforced(
            "Every encoded row has norm at most 1, enforced row by row from public ranges and levels.",
        ),
        Assumption::public("Declared ranges, levels and labels do not come from the records themselves."),
        Assumption::enforced(
            "Noise comes from a cryptographic generator seeded by the operating system, on a public grid.",
        ),
    ];
    if run.relation != Relation::AddOrRemove {
        assumptions.push(Assumption::public(match run.unit {
            None => "The number of rows is public.",
            Some(ref unit) if unit.shares_rows() => {
                "The number of rows, the number of owners, the number of rows that are kept and who owns which row \
                 are public; so is which rows have a readable owner."
            }
            Some(_) => {
                "The number of rows is public; so are the number of units with a readable name, where units are \
                 counted, and which rows have a readable unit."
            }
        }));
    }
    assumptions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_found_by_their_names() {
        for name in ["patient_id", "UserID", "id", "person", "customer_key", "device-id"] {
            assert!(names_units(name), "{name}");
        }
        for name in ["paid", "grid", "age", "user_agent", "identity", "members", "number"] {
            assert!(!names_units(name), "{name}");
        }
    }
}
