//! The vocabulary of Python: options are keywords. The one place where messages of the library get it.

use dpopt_refusal::{Face, Step, in_words};
use std::fmt::Display;

/// How Python calls options and ways out.
struct Python;

/// Options whose keyword has another name.
const RENAMED: [(&str, &str); 5] = [
    ("rows", "n_rows"),
    ("unit", "units"),
    ("relation", "neighbors"),
    ("ledger", "budget"),
    ("features", "n_features"),
];

/// Options that are parameters of an object: the keyword, the class of the object, and what they are called there.
const IN_OBJECTS: [(&str, &str, &str, &str); 5] = [
    ("units", "unit", "Unit", "count"),
    ("max_rows_per_unit", "unit", "Unit", "max_rows"),
    ("unit_clipping", "unit", "Unit", "clipping"),
    ("ignore", "columns", "Columns", "ignore"),
    ("public_vectors", "columns", "Columns", "public_vectors"),
];

fn in_object(id: &str) -> Option<(&str, &str, &str)> {
    IN_OBJECTS.iter().find(|row| row.0 == id).map(|&(_, keyword, class, name)| (keyword, class, name))
}

/// The keyword of an option.
fn keyword(id: &str) -> &str {
    RENAMED.iter().find(|(there, _)| *there == id).map_or(id, |(_, here)| here)
}

/// `value` as it is written: words in quotes, numbers, truth and placeholders (in capitals) without.
fn literal(value: &str) -> String {
    match value {
        "true" => "True".into(),
        value if value.parse::<f64>().is_ok() || value.chars().all(|c| c.is_ascii_uppercase()) => value.into(),
        value if value.starts_with(['"', '\'', '[']) => value.into(),
        value => format!("\"{value}\""),
    }
}

impl Face for Python {
    fn option(&self, id: &str) -> String {
        match in_object(id) {
            Some((_, class, name)) => format!("{name} of dpopt.{class}"),
            None => keyword(id).into(),
        }
    }

    fn setting(&self, id: &str, value: &str) -> String {
        match id {
            "classes" => "classes=[...]".into(),
            "unit" => "fit(..., units=...) with the column".into(),
            "ignore" => format!("columns=dpopt.Columns(ignore=[{}])", literal(value)),
            _ => match in_object(id) {
                Some((keyword, class, name)) => format!("{keyword}=dpopt.{class}({name}={})", literal(value)),
                None => format!("{}={}", keyword(id), literal(value)),
            },
        }
    }

    fn step(&self, step: Step) -> Option<&'static str> {
        Some(match step {
            Step::DeclareColumns => {
                "give one of: bounds={\"age\": (17, 90)} or bounds=\"bounds.toml\"; columns=dpopt.Columns(levels={\"sex\": [...]}, text=[...], hashed=[...]); or \
                 columns=dpopt.Columns(numeric=[...]) with bounds_budget=0.1 (spend a tenth of the budget on private \
                 ranges)"
            }
            Step::DeclareRanges => {
                "give bounds={\"age\": (17, 90)} with the public range of each, or bounds_budget=0.1 (spend a tenth \
                 of the budget on private ranges), or list them in columns=dpopt.Columns(ignore=[...])"
            }
            Step::DeclareNumbers => {
                "declare columns of numbers with bounds={...} or columns=dpopt.Columns(numeric=[...]), and \
                 categories with columns=dpopt.Columns(hashed=[...])"
            }
            Step::DeclareClasses => "give classes=[\"no\", \"yes\"]",
            Step::DeclareLabels => "give classes=[...], which costs nothing",
            Step::DeclareTargetRange => {
                "give target_bounds=(lower, upper), or a bound on one of its moments, heavy_tailed=(2, 100, 50)"
            }
            Step::DeclareRangeOrIgnore => {
                "declare lower and upper for it, or list it in columns=dpopt.Columns(ignore=[...])"
            }
            Step::SayWhatTheTargetIs => {
                "for a number use a regressor, with target_bounds=(lower, upper); for labels a classifier, with classes=[...]"
            }
            Step::AskForClasses => "use a classifier",
            Step::TwoClasses => {
                "declare two classes, use LogisticRegression, or encode the table first: \
                 make_pipeline(TableEncoder(...), ...)"
            }
            Step::NoHeader => "if the first line is a record, read the table without a header and name its columns",
            Step::DeclareText => {
                "list a column of text in columns=dpopt.Columns(text=[...]), or leave the vectors \
                                  out"
            }
            Step::GiveVectors => "give dpopt.load(path, public_vectors=...) that file",
            Step::CountUnits => {
                "leave count of dpopt.Unit out to have them counted, or use neighbors=\"add-or-remove\", which takes \
                 a public guess"
            }
            Step::BoundsFile => "bounds",
            Step::GiveRoot => "give the bound of the moment as well, moment=(k, m)",
            // several classes are fitted one against the rest, always with a number of features; no rows are put aside; and no ledger
            // is waited for longer
            Step::LeaveOutMaxFeatures | Step::RoomOnDisk | Step::WaitForLedger => return None,
        })
    }
}

/// What `show` makes, with messages of the library in the words of Python.
pub(crate) fn pythonic<T>(show: impl FnOnce() -> T) -> T {
    in_words(&Python, show)
}

/// `message` in the words of Python.
pub(crate) fn in_python(message: impl Display) -> String {
    pythonic(|| message.to_string())
}
