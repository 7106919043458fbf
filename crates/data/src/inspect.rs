//! What a fit would make of every row: counts and positions, never a value. For the operator's eyes: **not private**.

use super::cell::{BadCells, Rules, Scratch, bad_row, field_text, is_missing_marker, is_missing_text};
use super::encode::position;
use super::error::DataError;
use super::layout::{FeatureKind, Layout, TargetRule};
use super::levels::Levels;
use super::numerals::{Unit, why_no_number};
use super::table::{Field, TableReader};
use std::collections::BTreeMap;

/// As many positions are kept.
const POSITIONS: usize = 10;

/// Something about some rows of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// In words after the count: "cells of column `age` are no finite number".
    pub what: String,
    /// "cell" or "row"; empty for what keeps the rest of the table from being read, which has no count.
    pub unit: &'static str,
    /// How many.
    pub count: u64,
    /// The first few rows, from 1, the header not counted.
    pub rows: Vec<u64>,
    /// Whether a fit stops at it.
    pub stops: bool,
}

impl Finding {
    /// One line.
    pub fn text(&self) -> String {
        if self.count == 0 {
            return self.what.clone();
        }
        let (s, rows) = (if self.count == 1 { "" } else { "s" }, if self.rows.len() == 1 { "row" } else { "rows" });
        if self.rows.is_empty() {
            return format!("{} {}{s} {}", self.count, self.unit, self.what);
        }
        let list: Vec<String> = self.rows.iter().map(u64::to_string).collect();
        let more = if self.count > self.rows.len() as u64 { " …" } else { "" };
        format!("{} {}{s} {} ({rows} {}{more})", self.count, self.unit, self.what, list.join(", "))
    }
}

/// In the order in which they are told: rows as a whole, then columns, then the target.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Ragged,
    BadRow(&'static str),
    Unreadable(usize, &'static str),
    NothingRead(usize, &'static str),
    NotANumber(usize, &'static str),
    Outside(usize),
    NothingListed(usize),
    Unlisted(usize),
    NoTarget,
    UnlistedTarget,
    BadTarget(&'static str),
    OutsideTarget,
    NoUsableTarget,
}

/// Cells of a column that say something, and those of them that are read; and why not, as the first one has it.
#[derive(Clone, Default)]
struct Tally {
    said: u64,
    read: u64,
    why: &'static str,
}

impl Tally {
    fn add(&mut self, read: bool) {
        self.said += 1;
        self.read += u64::from(read);
    }
}

/// Why a cell is no number of that unit, as far as can be said.
fn why_not(field: Field<'_>, unit: Option<Unit>) -> &'static str {
    match (field, unit.unwrap_or_default()) {
        (Field::Text(text), Unit::Number) => why_no_number(text),
        (_, Unit::Number) => "",
        (_, Unit::Date) => " but its bounds are dates; write 2020-01-31 or 2020-01-31T12:30:00",
        (_, Unit::Duration) => " but its bounds are spans of time; write P3D, PT1H30M or 01:30:00",
    }
}

/// Reads all rows and says what a fit with `layout` would stop at, leave out or change. All of it, not only the first; an
/// error is what keeps the table from being read any further.
pub fn inspect(table: &dyn TableReader, layout: &Layout, bad_cells: BadCells) -> Result<Vec<Finding>, DataError> {
    let (found, outcome) = collect(table, layout)?;
    let name = |at: usize| &layout.features[at].0;
    let target = layout.target.as_ref().map_or("", |(name, _)| name);
    let stops = bad_cells == BadCells::Error;
    let finding = |(what, (count, rows)): (What, (u64, Vec<u64>))| {
        let cells = |what: String, stops: bool| (what, "cell", stops);
        let (what, unit, stops) = match what {
            What::Ragged => (
                format!("{} more or fewer fields than the header", if count == 1 { "has" } else { "have" }),
                "row",
                stops,
            ),
            What::BadRow(reason) => (reason.to_string(), "row", stops),
            What::Unreadable(at, reason) => cells(format!("of column `{}` cannot be read: {reason}", name(at)), stops),
            What::NothingRead(at, why) => {
                (format!("and no cell of column `{}` can be read as a number{why}", name(at)), "row", true)
            }
            What::NotANumber(at, why) => cells(format!("of column `{}`: not a finite number{why}", name(at)), stops),
            What::Outside(at) => {
                cells(format!("of column `{}` outside its range, to be clipped to it", name(at)), false)
            }
            What::NothingListed(at) => {
                (format!("and no cell of column `{}` is one of its declared levels", name(at)), "row", true)
            }
            What::Unlisted(at) => {
                cells(format!("of column `{}` not among its levels, to be taken as \"other\"", name(at)), false)
            }
            What::NoTarget => (format!("without a target `{target}`, to contribute nothing"), "row", false),
            What::BadTarget(why) => cells(format!("of the target `{target}` cannot be read{why}"), stops),
            What::NoUsableTarget => (
                format!("and not one with a usable target `{target}`: a fit would learn nothing and spend its budget"),
                "row",
                true,
            ),
            What::OutsideTarget => {
                cells(format!("of the target `{target}` outside its range, to be clipped to it"), false)
            }
            What::UnlistedTarget => {
                (format!("whose target `{target}` is not declared, to contribute nothing"), "row", false)
            }
        };
        Finding { what, unit, count, rows, stops }
    };
    let mut findings: Vec<Finding> = found.into_iter().map(finding).collect();
    // a reader that stops is no reason to forget what was seen before
    if let Err(error) = outcome {
        findings.push(Finding { what: error.to_string(), unit: "", count: 0, rows: Vec::new(), stops: true });
    }
    Ok(findings)
}

type Found = BTreeMap<What, (u64, Vec<u64>)>;

fn collect(table: &dyn TableReader, layout: &Layout) -> Result<(Found, Result<(), DataError>), DataError> {
    let columns = table.columns();
    let places =
        layout.features.iter().map(|(name, _)| position(columns, name, "the column")).collect::<Result<Vec<_>, _>>()?;
    let listed = |kind: &FeatureKind| match kind {
        FeatureKind::Categorical { levels } => Levels::new(levels),
        _ => Levels::new::<&str>(&[]),
    };
    let levels: Vec<Levels> = layout.features.iter().map(|(_, kind)| listed(kind)).collect();
    let target =
        layout.target.as_ref().map(|(name, rule)| Ok::<_, DataError>((position(columns, name, "the target")?, rule)));
    let target = target.transpose()?;
    let mut found = Found::new();
    let classes = match target {
        Some((_, TargetRule::Classes { levels })) => Levels::new(levels),
        _ => Levels::new::<&str>(&[]),
    };
    let (mut scratch, rules) = (Scratch::default(), Rules::ByValue);
    let (mut tallies, mut rows, mut usable) = (vec![Tally::default(); layout.features.len()], 0u64, 0u64);
    let outcome = table.for_each_block(&mut |block| {
        for r in 0..block.len() {
            let row = block.first_row() + r as u64 + 1;
            rows += 1;
            let mut saw = |what: What| {
                let (count, rows) = found.entry(what).or_default();
                *count += 1;
                if rows.len() < POSITIONS {
                    rows.push(row);
                }
            };
            if bad_row(&*block, r, columns.len()).is_some() {
                // as a whole: it contributes nothing, so its cells do not matter
                saw(block.fault(r).map_or(What::Ragged, What::BadRow));
                continue;
            }
            for (i, ((_, kind), &at)) in layout.features.iter().zip(&places).enumerate() {
                let field = block.field(r, at);
                if let Field::Malformed(reason) = field {
                    saw(What::Unreadable(i, reason));
                }
                match kind {
                    FeatureKind::Numeric { bounds, .. } => {
                        match (rules.number(field, bounds.map_or(Unit::Number, |b| b.unit())), bounds) {
                            (Some(value), bounds) => {
                                tallies[i].add(true);
                                if bounds.is_some_and(|b| value < b.lower() || value > b.upper()) {
                                    saw(What::Outside(i));
                                }
                            }
                            (None, _) if is_missing_marker(field) => {}
                            (None, bounds) => {
                                let why = why_not(field, bounds.map(|b| b.unit()));
                                if tallies[i].said == 0 {
                                    tallies[i].why = why;
                                }
                                tallies[i].add(false);
                                saw(What::NotANumber(i, why));
                            }
                        }
                    }
                    FeatureKind::Categorical { .. } => {
                        let listed = levels[i].place_by(rules, field, &mut scratch).is_some();
                        if listed || field_text(field, &mut scratch.0).is_some_and(|text| !is_missing_text(text)) {
                            tallies[i].add(listed);
                            if !listed {
                                saw(What::Unlisted(i));
                            }
                        }
                    }
                    FeatureKind::Hashed { .. } | FeatureKind::Text { .. } | FeatureKind::Sparse { .. } => {}
                }
            }
            let Some((at, rule)) = target else { continue };
            let field = block.field(r, at);
            if let Field::Malformed(_) = field {
                saw(What::BadTarget(""));
                continue;
            }
            match rule {
                TargetRule::Number { lower, upper, unit } => match rules.number(field, *unit) {
                    Some(value) => {
                        usable += 1;
                        if value < *lower || value > *upper {
                            saw(What::OutsideTarget);
                        }
                    }
                    None if is_missing_marker(field) => saw(What::NoTarget),
                    None => saw(What::BadTarget(why_not(field, Some(*unit)))),
                },
                TargetRule::Classes { .. } => match classes.place_by(rules, field, &mut scratch) {
                    Some(_) => usable += 1,
                    None if field_text(field, &mut scratch.0).is_some_and(|text| !is_missing_text(text)) => {
                        saw(What::UnlistedTarget)
                    }
                    None => saw(What::NoTarget),
                },
                TargetRule::Undeclared if is_missing_marker(field) => saw(What::NoTarget),
                TargetRule::Undeclared => usable += 1,
            }
        }
        Ok(())
    });
    for ((i, (_, kind)), tally) in layout.features.iter().enumerate().zip(&tallies) {
        if tally.said > 0 && tally.read == 0 {
            let numbers = matches!(kind, FeatureKind::Numeric { .. });
            let what = if numbers { What::NothingRead(i, tally.why) } else { What::NothingListed(i) };
            found.insert(what, (rows, Vec::new()));
        }
    }
    if outcome.is_ok() && target.is_some() && rows > 0 && usable == 0 {
        found.insert(What::NoUsableTarget, (rows, Vec::new()));
    }
    Ok((found, outcome))
}
