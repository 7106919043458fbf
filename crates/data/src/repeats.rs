//! How often the values of columns repeat, for the operator's eyes (**not private**): identifiers among the features, and numbers where labels are expected.

use super::cell::{bad_row, field_number, field_text, is_missing_marker};
use super::encode::position;
use super::error::DataError;
use super::layout::{FeatureKind, Layout, TargetRule};
use super::table::TableReader;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Fewer cells say nothing.
const FEW: u64 = 20;
/// So many cells of which half repeat are no identifiers: no more of them are kept.
const ENOUGH: u64 = 1000;
/// Labels that are numbers are rarely more.
const MAX_NUMBERS: usize = 30;
/// No identifier is longer, in bytes.
const LONGEST: usize = 64;

/// Columns whose values hardly repeat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repeats {
    /// Features that have another value in nearly every row and are no measurements: names, and how many of how many values differ.
    pub identifiers: Vec<(String, u64, u64)>,
    /// Columns that are not used of which every value stands once.
    pub unused_and_distinct: Vec<String>,
    /// For a target of which nothing is declared: how many values differ, if all are numbers and these are too many for labels.
    pub numbers_as_labels: Option<u64>,
}

/// What is seen of one column.
#[derive(Default)]
struct Seen {
    cells: u64,
    numbers: u64,
    whole: u64,
    words: u64,
    distinct: HashSet<u64>,
}

impl Seen {
    fn repeats(&self) -> bool {
        self.cells >= ENOUGH && 2 * (self.distinct.len() as u64) < self.cells
    }

    fn hardly_repeats(&self) -> bool {
        self.cells >= FEW && 10 * self.distinct.len() as u64 >= 9 * self.cells
    }
}

/// Reads all rows and says which columns of `layout` hardly repeat.
///
/// # Errors
/// If the table can't be read, or has other columns.
pub fn repeats(table: &dyn TableReader, layout: &Layout) -> Result<Repeats, DataError> {
    let columns = table.columns();
    let features = layout.features.iter().filter(|(_, kind)| may_identify(kind)).map(|(name, _)| name);
    let target = layout.target.iter().filter(|(_, rule)| *rule == TargetRule::Undeclared).map(|(name, _)| name);
    let names: Vec<&String> = features.chain(&layout.ignored).chain(target).collect();
    let places = names.iter().map(|name| position(columns, name, "the column")).collect::<Result<Vec<_>, _>>()?;
    let mut seen: Vec<Seen> = names.iter().map(|_| Seen::default()).collect();
    let mut scratch = Vec::new();
    table.for_each_block(&mut |block| {
        for r in (0..block.len()).filter(|&r| bad_row(&*block, r, columns.len()).is_none()) {
            for (seen, &at) in seen.iter_mut().zip(&places) {
                let field = block.field(r, at);
                if is_missing_marker(field) || seen.repeats() {
                    continue;
                }
                let number = field_number(field);
                let Some(text) = field_text(field, &mut scratch) else { continue };
                seen.cells += 1;
                seen.numbers += u64::from(number.is_some());
                seen.whole += u64::from(number.is_some_and(|value| value.fract() == 0.0));
                let word = text.is_ascii() && text.len() <= LONGEST && !text.iter().any(u8::is_ascii_whitespace);
                seen.words += u64::from(word);
                let mut hasher = DefaultHasher::new();
                text.hash(&mut hasher);
                seen.distinct.insert(hasher.finish());
            }
        }
        Ok(())
    })?;
    let mut found = Repeats::default();
    for (name, seen) in names.iter().zip(&seen) {
        let kind = layout.features.iter().find(|(feature, _)| feature == *name).map(|(_, kind)| kind);
        let distinct = seen.distinct.len() as u64;
        match kind {
            Some(kind) if seen.hardly_repeats() && identifies(kind, seen) => {
                found.identifiers.push((name.to_string(), distinct, seen.cells));
            }
            None if layout.ignored.contains(name) && seen.cells > 0 && distinct == seen.cells => {
                found.unused_and_distinct.push(name.to_string());
            }
            None if !layout.ignored.contains(name)
                && seen.cells > 0
                && seen.numbers == seen.cells
                && seen.distinct.len() > MAX_NUMBERS =>
            {
                found.numbers_as_labels = Some(distinct);
            }
            _ => {}
        }
    }
    Ok(found)
}

/// Whether a column of this kind may hold identifiers: not what has a declared range, or declared levels.
fn may_identify(kind: &FeatureKind) -> bool {
    matches!(kind, FeatureKind::Hashed { .. } | FeatureKind::Text { .. } | FeatureKind::Numeric { bounds: None, .. })
}

/// Whether values that hardly repeat are identifiers: amounts and sentences do not repeat either.
fn identifies(kind: &FeatureKind, seen: &Seen) -> bool {
    match kind {
        FeatureKind::Numeric { .. } => seen.whole == seen.cells,
        FeatureKind::Text { .. } => seen.words == seen.cells,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Format, ReadOptions, Schema, open_bytes};

    fn of(bounds: &str, header: &str, row: impl Fn(usize) -> String) -> Repeats {
        let rows: String = (0..200).map(|i| row(i) + "\n").collect();
        let table = open_bytes(format!("{header}\n{rows}").into_bytes(), Format::Csv, &ReadOptions::default()).unwrap();
        let layout = Schema::from_toml(bounds).unwrap().resolve(table.columns(), Some("y")).unwrap();
        repeats(&*table, &layout).unwrap()
    }

    #[test]
    fn identifiers_are_found_by_their_values_and_measurements_and_sentences_are_not() {
        let bounds = "[pay]\nlower = 0\nupper = 9\n[note]\ntext = true\n[mail]\ntext = true\n[key]\nignore = true\n\
                      [y]\nlevels = ['a', 'b']\n";
        let found = of(bounds, "who,town,pay,note,mail,key,y", |i| {
            format!("u{i},t{},{},word {i} of many,m{i}@example.org,{i},a", i % 50, i as f64 / 100.0)
        });
        assert_eq!(found.identifiers, [("who".to_string(), 200, 200), ("mail".to_string(), 200, 200)]);
        assert_eq!(found.unused_and_distinct, ["key"]);
        assert_eq!(found.numbers_as_labels, None);
    }

    #[test]
    fn a_target_of_numbers_is_found_where_they_are_too_many_for_labels() {
        let bounds = "[x]\nlower = 0\nupper = 9\n";
        assert_eq!(of(bounds, "x,y", |i| format!("1,{}", i * 7)).numbers_as_labels, Some(200));
        assert_eq!(of(bounds, "x,y", |i| format!("1,{}", i % 10)).numbers_as_labels, None);
        assert_eq!(of(bounds, "x,y", |i| format!("1,k{i}")).numbers_as_labels, None);
    }
}
