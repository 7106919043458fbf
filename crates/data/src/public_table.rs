//! Kinds, ranges and levels from a table that is public, so that it may be read freely.

use std::collections::BTreeSet;

use super::cell::{Scratch, bad_row, field_number, field_text, is_missing_marker};
use super::declared::{Bounds, Kind};
use super::error::DataError;
use super::layout::TargetRule;
use super::numerals::{canonical, truth};
use super::schema::Schema;
use super::table::{Field, Stored, TableReader};

/// A public sample rarely holds the extremes: each end of its range moves out by this part of it.
const WIDEN: f64 = 0.1;
/// More distinct values than this are hashed instead of listed.
const MAX_LEVELS: usize = 1000;
/// A target of numbers with at most this many distinct ones is taken for classes.
const MAX_CLASSES: usize = 20;
/// Mean number of words from which values that hardly repeat are taken for free text.
const WORDS_OF_TEXT: f64 = 3.0;

/// What a pass over a public table finds out about one column.
#[derive(Default)]
struct Summary {
    values: u64,
    numbers: u64,
    smallest: Option<f64>,
    largest: Option<f64>,
    words: u64,
    /// Up to one more than [`MAX_LEVELS`].
    distinct: BTreeSet<Vec<u8>>,
}

impl Summary {
    fn see(&mut self, field: Field<'_>, scratch: &mut Scratch) {
        if is_missing_marker(field) {
            return;
        }
        self.values += 1;
        if let Some(v) = field_number(field) {
            self.numbers += 1;
            self.smallest = Some(self.smallest.map_or(v, |s| s.min(v)));
            self.largest = Some(self.largest.map_or(v, |l| l.max(v)));
        }
        if let Some(text) = field_text(field, &mut scratch.0) {
            self.words += text.split(u8::is_ascii_whitespace).filter(|w| !w.is_empty()).count() as u64;
            // equal numbers are one level, and words are levels as they are spelled
            let text = if truth(text).is_some() { text } else { canonical(text, &mut scratch.1) };
            if self.distinct.len() <= MAX_LEVELS && !self.distinct.contains(text) {
                self.distinct.insert(text.to_vec());
            }
        }
    }

    /// The levels as text, numbers in numeric order; `None` if there are too many or one is not UTF-8.
    fn levels(&self) -> Option<Vec<String>> {
        if self.distinct.len() > MAX_LEVELS {
            return None;
        }
        let mut levels: Vec<String> =
            self.distinct.iter().map(|l| String::from_utf8(l.clone())).collect::<Result<_, _>>().ok()?;
        if self.numbers == self.values {
            let number = |level: &String| level.parse::<f64>().unwrap_or(f64::NAN);
            levels.sort_by(|a, b| number(a).total_cmp(&number(b)));
        }
        Some(levels)
    }

    /// The range, each end moved out, but not below 0 if no value is.
    fn range(&self) -> Option<(f64, f64)> {
        let (low, high) = (self.smallest?, self.largest?);
        let margin = if low == high { low.abs().max(1.0) } else { WIDEN * (high - low) };
        let lower = if low >= 0.0 { (low - margin).max(0.0) } else { low - margin };
        Some((lower, high + margin))
    }

    fn kind(&self, name: &str, is_target: bool) -> Result<Kind, DataError> {
        let all_numbers = self.values > 0 && self.numbers == self.values;
        if all_numbers
            && !(is_target && self.distinct.len() <= MAX_CLASSES)
            && let Some((lower, upper)) = self.range()
        {
            return Kind::numeric(name, lower, upper);
        }
        let long = self.values > 0 && self.words as f64 >= WORDS_OF_TEXT * self.values as f64;
        if long && !is_target && (self.distinct.len() > MAX_LEVELS || 2 * self.distinct.len() as u64 > self.values) {
            return Ok(Kind::Text);
        }
        match self.levels() {
            Some(levels) if !levels.is_empty() => Kind::categorical(name, levels),
            _ => Ok(Kind::Hashed),
        }
    }
}

impl Schema {
    /// Declares what is not declared yet from a **public** table: kinds; ranges, widened by a tenth at each end; levels.
    ///
    /// Columns whose values all are numbers become numeric (a target with at most 20 distinct ones: classes); long and
    /// hardly repeated values are text; at most 1000 distinct values are levels; anything else is hashed. Columns that
    /// are declared keep their declaration, and numeric ones without bounds get them. Never give it sensitive records:
    /// everything it finds ends up in the released model.
    pub fn complete_from_public(&mut self, table: &dyn TableReader, target: Option<&str>) -> Result<(), DataError> {
        let columns = table.columns();
        let mut summaries: Vec<Summary> = columns.iter().map(|_| Summary::default()).collect();
        let mut scratch = Scratch::default();
        let mut rows = 0usize;
        table.for_each_block(&mut |block| {
            rows += block.len();
            for row in (0..block.len()).filter(|&row| bad_row(&*block, row, columns.len()).is_none()) {
                for (c, summary) in summaries.iter_mut().enumerate() {
                    summary.see(block.field(row, c), &mut scratch);
                }
            }
            Ok(())
        })?;
        if rows == 0 {
            return Err(DataError::NoRows { source_name: table.name() });
        }
        for (column, summary) in columns.iter().zip(&summaries) {
            let is_target = Some(column.name.as_str()) == target;
            let name = &column.name;
            match (self.get(name), &column.stored) {
                (Some(Kind::Numeric { bounds: None, .. }), _) => match summary.range() {
                    Some((lower, upper)) => self.set_bounds(name, lower, upper)?,
                    None => {
                        return Err(DataError::declaration(
                            name,
                            "the public table holds no number in it",
                            "write lower and upper in the bounds file",
                        ));
                    }
                },
                (Some(_), _) | (None, Stored::Sparse(_) | Stored::Unsupported(_)) => {}
                (None, stored) => {
                    let in_days = matches!(stored, Stored::Time(_));
                    let as_read = |bounds: Bounds| if in_days { bounds.as_read() } else { bounds };
                    let kind = match summary.kind(name, is_target)? {
                        Kind::Numeric { bounds, transform } => Kind::Numeric { bounds: bounds.map(as_read), transform },
                        kind => kind,
                    };
                    self.declare(name, kind)?;
                }
            }
        }
        if let Some(target) = target
            && let Some(column) = columns.iter().find(|c| c.name == target)
            && self.target_rule(target, Some(&column.stored))? == TargetRule::Undeclared
        {
            return Err(DataError::TargetUndeclared { column: target.into() });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Format, ReadOptions, open_bytes};

    #[test]
    fn kinds_ranges_and_levels_of_a_public_table() {
        let mut text = String::from("age,gain,sex,id,note,y\n");
        for i in 0..3000 {
            let (sex, y) = (["M", "F", "?"][i % 3], i % 2);
            text.push_str(&format!("{},{},{sex},x{i},this is remark {i},{y}\n", 20 + i % 50, i * 40));
        }
        let table = open_bytes(text.into_bytes(), Format::Csv, &ReadOptions::default()).unwrap();
        let mut schema = Schema::from_toml("[age]\nnumeric = true\n").unwrap();
        schema.complete_from_public(&*table, Some("y")).unwrap();
        let Some(Kind::Numeric { bounds: Some(age), .. }) = schema.get("age") else { panic!("age") };
        assert!((age.lower() - (20.0 - 4.9)).abs() < 1e-12 && (age.upper() - (69.0 + 4.9)).abs() < 1e-12);
        let Some(Kind::Numeric { bounds: Some(gain), .. }) = schema.get("gain") else { panic!("gain") };
        assert_eq!(gain.lower(), 0.0);
        assert_eq!(schema.get("sex"), Some(&Kind::Categorical { levels: vec!["F".into(), "M".into()] }));
        assert_eq!(schema.get("id"), Some(&Kind::Hashed));
        assert_eq!(schema.get("note"), Some(&Kind::Text));
        assert_eq!(schema.get("y"), Some(&Kind::Categorical { levels: vec!["0".into(), "1".into()] }));
        assert!(schema.resolve(table.columns(), Some("y")).is_ok());
    }

    #[test]
    fn numbers_as_classes_are_in_numeric_order_and_constants_get_a_range() {
        let text = b"v,y\n5,10\n5,9\n5,-1\n".to_vec();
        let table = open_bytes(text, Format::Csv, &ReadOptions::default()).unwrap();
        let mut schema = Schema::default();
        schema.complete_from_public(&*table, Some("y")).unwrap();
        let levels = vec!["-1".to_string(), "9".into(), "10".into()];
        assert_eq!(schema.get("y"), Some(&Kind::Categorical { levels }));
        assert_eq!(schema.get("v"), Some(&Kind::numeric("v", 0.0, 10.0).unwrap()));
    }
}
