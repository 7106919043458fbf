//! A bounds file to be filled in, from the names and stored types of columns alone.

use super::bounds_file::{OPTIONS, PLACEHOLDER};
use super::table::{Column, Stored};
use std::fmt::Write;

/// What can be said of a column, one of which its section keeps.
#[derive(Clone, Copy, PartialEq)]
enum Choice {
    Range,
    Numeric,
    Levels,
    Hash,
    Text,
    Ignore,
}

impl Choice {
    /// Its lines, without the mark of a comment.
    fn lines(self) -> Vec<String> {
        match self {
            Self::Range => ["lower", "upper"].map(|key| format!("{key} = \"{PLACEHOLDER}\"")).to_vec(),
            Self::Levels => vec![format!("levels = [\"{PLACEHOLDER}\", \"{PLACEHOLDER}\"]")],
            Self::Numeric => vec!["numeric = true".into()],
            Self::Hash => vec!["hash = true".into()],
            Self::Text => vec!["text = true".into()],
            Self::Ignore => vec!["ignore = true".into()],
        }
    }
}

/// A section for each column, every choice in it commented out. Nothing but `columns` and `target` is looked at: no value of a row, and no type that was
/// guessed from values. A section in which nothing is chosen is refused when the file is read, so that no column is forgotten.
///
/// ```
/// use dpopt_data::{bounds_template, open_bytes, Format, ReadOptions, Schema};
/// let table = open_bytes(b"age,income\n39,low\n".to_vec(), Format::Csv, &ReadOptions::default())?;
/// let template = bounds_template(table.columns(), Some("income"));
/// assert!(template.contains("[age]\n# lower = \"FILL IN\"\n") && !template.contains("39"));
/// assert!(Schema::from_toml(&template).is_err());
/// # Ok::<(), dpopt_data::DataError>(())
/// ```
pub fn bounds_template(columns: &[Column], target: Option<&str>) -> String {
    let mut text = String::new();
    for column in columns {
        section(&mut text, column, target == Some(column.name.as_str()));
    }
    text
}

/// The section of one column, after a blank line.
fn section(text: &mut String, column: &Column, is_target: bool) {
    use Choice::{Hash, Ignore, Levels, Numeric, Range, Text};
    let name = key(&column.name);
    if column.name == OPTIONS {
        let _ = writeln!(
            text,
            "\n# a column called {OPTIONS} has no section, since [{OPTIONS}] is for the encoder; give it another name"
        );
        return;
    }
    let (note, choices): (&str, &[Choice]) = match (&column.stored, is_target) {
        (Stored::Boolean, true) => return closed(text, &name, "stored as true or false: its two classes are known"),
        (Stored::Boolean, false) => {
            return closed(text, &name, "stored as true or false: nothing to fill in, unless it is not used");
        }
        (Stored::Sparse(_), _) => return,
        (Stored::Unsupported(_), _) => {
            let _ = write!(text, "\n[{name}]\n# stored in a type that no feature is made of\nignore = true\n");
            return;
        }
        (_, true) => (
            "the column to learn: levels for classes (of two the second is the positive one), a range for a number",
            &[Range, Levels],
        ),
        (Stored::Unnamed, _) => (
            "the header has no name for it, and calls it by its place: often row numbers",
            &[Ignore, Range, Numeric, Levels, Hash, Text],
        ),
        (Stored::Unknown, _) => ("", &[Range, Numeric, Levels, Hash, Text, Ignore]),
        (Stored::Text, _) => ("stored as text", &[Levels, Hash, Text, Range, Numeric, Ignore]),
        (Stored::Number, _) => ("stored as a number", &[Range, Numeric, Levels, Hash, Ignore]),
        (Stored::Time(_), _) => {
            ("stored as times: lower = 2020-01-31, or spans of time: lower = \"P30D\"", &[Range, Numeric, Ignore])
        }
    };
    let _ = writeln!(text, "\n[{name}]");
    if !note.is_empty() {
        let _ = writeln!(text, "# {note}");
    }
    for line in choices.iter().flat_map(|choice| choice.lines()) {
        let _ = writeln!(text, "# {line}");
    }
}

/// A column of which the file's own schema says enough: its section is a comment.
fn closed(text: &mut String, name: &str, note: &str) {
    let _ = write!(text, "\n# [{name}]\n# {note}\n# ignore = true\n");
}

/// A name as TOML writes it.
fn key(name: &str) -> String {
    let bare = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if bare { name.into() } else { format!("\"{}\"", name.replace('\\', r"\\").replace('"', "\\\"")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BoundsReview, Schema};

    fn columns(stored: &[(&str, Stored)]) -> Vec<Column> {
        stored.iter().map(|(name, stored)| Column { name: (*name).into(), stored: stored.clone() }).collect()
    }

    /// The template with the lines of `choices` without their comment mark, and every placeholder a number.
    fn filled(template: &str, choices: &[&str]) -> String {
        let chosen = |line: &str| choices.iter().any(|choice| line.starts_with(&format!("# {choice} =")));
        let open = |line: &str| if chosen(line) { line[2..].to_string() } else { line.to_string() };
        let mut number = 0;
        let lines: Vec<String> = template.lines().map(open).collect();
        lines.join("\n").split(&format!("\"{PLACEHOLDER}\"")).fold(String::new(), |text, part| {
            number += 1;
            if number == 1 { part.to_string() } else { format!("{text}{number}{part}") }
        })
    }

    #[test]
    fn every_choice_is_a_declaration_once_it_is_filled_in() {
        let names = ["age", "marital status", "a\"b\\c", "größe", "hours.per.week", "c1"];
        let table = columns(&names.map(|name| (name, Stored::Unknown)));
        let template = bounds_template(&table, None);
        let review = BoundsReview::of(&template).unwrap();
        assert_eq!(review.undecided.len(), names.len());
        for choices in [&["lower", "upper"][..], &["levels"], &["numeric"], &["hash"], &["text"], &["ignore"]] {
            let schema = Schema::from_toml(&filled(&template, choices)).unwrap();
            assert_eq!(schema.declared().count(), names.len(), "{choices:?}");
            assert!(names.iter().all(|name| schema.get(name).is_some()), "{choices:?}");
        }
        let target = bounds_template(&table, Some("age"));
        let own = target.split("\n\n").find(|section| section.contains("[age]")).unwrap();
        assert!(own.contains("levels") && own.contains("lower") && !own.contains("hash") && !own.contains("ignore"));
    }

    #[test]
    fn what_the_files_own_schema_says_is_not_asked_for() {
        let table = columns(&[
            ("flag", Stored::Boolean),
            ("list", Stored::Unsupported("List(Int64)".into())),
            ("features", Stored::Sparse(9)),
            (OPTIONS, Stored::Unknown),
            ("n", Stored::Number),
        ]);
        let template = bounds_template(&table, None);
        let review = BoundsReview::of(&template).unwrap();
        assert_eq!(
            (review.undecided, review.columns),
            (vec!["n".to_string()], vec!["list".to_string(), "n".to_string()])
        );
        assert!(!template.contains("List") && !template.contains("features"));
        let schema = Schema::from_toml(&filled(&template, &["lower", "upper"])).unwrap();
        assert_eq!(schema.declared().map(|(name, _)| name).collect::<Vec<_>>(), ["list", "n"]);
    }
}
