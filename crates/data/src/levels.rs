//! Declared levels and labels, and which of them a cell is: by value, not by spelling.

use std::collections::HashMap;

use super::cell::{Rules, Scratch, field_text};
use super::hashing::FnvBuild;
use super::numerals::canonical;
use super::table::Field;

type Places = HashMap<Box<[u8]>, u32, FnvBuild>;

/// Declared levels made ready to be found.
///
/// A cell is the level that is spelled as it is; else the one level of the same value: `1`, `1.0` and the number 1 are equal, `true`, `True` and the
/// truth value too, and so are truth values and 1 and 0, or `yes` and `no` where these are the levels. `01` is a code: it is equal to itself alone.
#[derive(Clone, Debug)]
pub struct Levels {
    spelled: Places,
    valued: Places,
}

impl Levels {
    /// Levels in their order.
    pub fn new<S: AsRef<str>>(levels: &[S]) -> Self {
        let (mut spelled, mut valued, mut shared) = (Places::default(), Places::default(), Vec::new());
        let mut scratch = Vec::new();
        for (level, at) in levels.iter().zip(0..) {
            let level = level.as_ref().trim().as_bytes();
            spelled.insert(level.into(), at);
            if valued.insert(canonical(level, &mut scratch).into(), at).is_some() {
                shared.push(level);
            }
        }
        // a value that two levels have is found by their spellings alone
        for level in shared {
            valued.remove(canonical(level, &mut scratch));
        }
        // truth values go by the first pair of words that is there
        for words in [["false", "true"], ["no", "yes"], ["No", "Yes"], ["NO", "YES"], ["0", "1"]] {
            let found = words.map(|word| spelled.get(word.as_bytes()).or_else(|| valued.get(word.as_bytes())).copied());
            if found.iter().all(Option::is_none) {
                continue;
            }
            for ((word, number), place) in [("false", "0"), ("true", "1")].into_iter().zip(found) {
                let Some(place) = place else { continue };
                valued.entry(word.as_bytes().into()).or_insert(place);
                if words[0] == "false" {
                    valued.entry(number.as_bytes().into()).or_insert(place);
                }
            }
            break;
        }
        Self { spelled, valued }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.spelled.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.spelled.is_empty()
    }

    /// The place of the level that the cell is.
    pub fn place(&self, field: Field<'_>) -> Option<u32> {
        self.place_by(Rules::ByValue, field, &mut Scratch::default())
    }

    pub(crate) fn place_by(&self, rules: Rules, field: Field<'_>, scratch: &mut Scratch) -> Option<u32> {
        let text = match (rules, field) {
            (Rules::First, Field::Time(ticks, _)) => field_text(Field::Integer(ticks), &mut scratch.0),
            _ => field_text(field, &mut scratch.0),
        }?;
        match self.spelled.get(text) {
            Some(place) => Some(*place),
            // the first versions knew words of truth values, where a table of Python held some
            None if rules == Rules::First && !matches!(field, Field::Truth(_)) => None,
            None => self.valued.get(canonical(text, &mut scratch.1)).copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerals::{Ticks, Unit};

    #[test]
    fn levels_are_found_by_value_whatever_the_cell_is_stored_as() {
        let place = |levels: &[&str], field: Field<'_>| Levels::new(levels).place(field);
        let text = |text: &'static str| Field::Text(text.as_bytes());
        for levels in [["0", "1"], ["0.0", "1.0"], ["false", "true"], ["False", "True"]] {
            for no in [
                text("0"),
                text("0.0"),
                text("-0"),
                text("False"),
                text("FALSE"),
                Field::Number(0.0),
                Field::Integer(0),
                Field::Truth(false),
            ] {
                assert_eq!(place(&levels, no), Some(0), "{levels:?} {no:?}");
            }
            for yes in [
                text("1"),
                text("1.0"),
                text("+1"),
                text("true"),
                text("True"),
                Field::Number(1.0),
                Field::Integer(1),
                Field::Truth(true),
            ] {
                assert_eq!(place(&levels, yes), Some(1), "{levels:?} {yes:?}");
            }
            for other in [
                text("2"),
                text("01"),
                text("yes"),
                text("$1"),
                text("1e0"),
                Field::Number(f64::NAN),
                Field::Missing,
                Field::Integer(-1),
            ] {
                assert_eq!(place(&levels, other), None, "{levels:?} {other:?}");
            }
        }
        assert_eq!(place(&["no", "yes"], Field::Truth(true)), Some(1));
        assert_eq!(place(&["no", "yes"], text("TRUE")), Some(1));
        assert_eq!(place(&["no", "yes"], text("1")), None);
        assert_eq!(place(&["no", "yes"], text("Yes")), None);
        // a code is no number
        assert_eq!(place(&["01", "1"], text("01")), Some(0));
        assert_eq!(place(&["01", "1"], text("1.0")), Some(1));
        assert_eq!(place(&["01"], Field::Integer(1)), None);
        // two levels of one value
        assert_eq!(place(&["1", "1.0"], text("1.0")), Some(1));
        assert_eq!(place(&["1", "1.0"], text("+1")), None);
        assert_eq!(place(&["a", "1.50"], Field::Number(1.5)), Some(1));
        let days = Ticks { per_day: 1, unit: Unit::Date };
        assert_eq!(place(&["2010-01-01"], Field::Time(14610, days)), Some(0));
        assert_eq!(place(&["b"], Field::Text(b"b")), Some(0));
    }
}
