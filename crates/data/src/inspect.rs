//! What a fit would make of every row: counts and positions, never a value. For the operator's eyes: **not private**.

use super::cell::{BadCells, Rules, Scratch, bad_row, field_text, is_missing_marker, is_missing_text};
use super::declared::Bounds;
use super::encode::position;
use super::error::{DataError, Fault, listed};
use super::layout::{FeatureKind, Layout, TargetRule};
use super::levels::Levels;
use super::numerals::{Unit, why_no_number};
use super::table::{Block, Column, Field, TableReader};
use dpopt_refusal::option;
use std::collections::BTreeMap;

/// Most row numbers that a finding keeps.
const POSITIONS: usize = 10;

/// Something about some rows of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// In words after the count: "cells of column `age` are no finite number".
    pub what: String,
    /// "cell" or "row"; empty for what has no count of its own: a whole sentence.
    pub unit: &'static str,
    /// Number of cells or rows.
    pub count: u64,
    /// The first few rows, from 1, the header not counted.
    pub rows: Vec<u64>,
    /// Whether a fit stops at it.
    pub stops: bool,
}

impl Finding {
    /// The finding as one line of text.
    pub fn text(&self) -> String {
        if self.count == 0 {
            return self.what.clone();
        }
        let (s, rows) = (if self.count == 1 { "" } else { "s" }, if self.rows.len() == 1 { "row" } else { "rows" });
        if self.rows.is_empty() {
            return format!("{} {}{s} {}", self.count, self.unit, self.what);
        }
        format!("{} {}{s} {} ({rows} {})", self.count, self.unit, self.what, first_of(&self.rows, self.count))
    }
}

/// The first few of `count` rows by their numbers.
fn first_of(rows: &[u64], count: u64) -> String {
    let list: Vec<String> = rows.iter().map(u64::to_string).collect();
    format!("{}{}", list.join(", "), if count > rows.len() as u64 { " …" } else { "" })
}

/// In the order in which they are shown: rows as a whole, then columns, then the target.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Ragged,
    BadRow(Fault),
    Unreadable(usize, Fault),
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
    let Collected { found, unused, rows: all, outcome } = collect(table, layout)?;
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
            What::Outside(at) => cells(format!("of column `{}` outside its range: clipped to it", name(at)), false),
            What::NothingListed(at) => {
                (format!("and no cell of column `{}` is one of its declared levels", name(at)), "row", true)
            }
            What::Unlisted(at) => {
                cells(format!("of column `{}` not among its levels: treated as \"other\"", name(at)), false)
            }
            What::NoTarget => (format!("without a target `{target}`: {}", taught(count)), "row", false),
            What::BadTarget(why) => cells(format!("of the target `{target}` cannot be read{why}"), stops),
            What::NoUsableTarget => (
                format!("and none has a usable target `{target}`: a fit would spend its budget and learn nothing"),
                "row",
                true,
            ),
            What::OutsideTarget => cells(format!("of the target `{target}` outside its range: clipped to it"), false),
            // misspelt labels have both: labels that no row has, and rows whose label nobody declared
            What::UnlistedTarget if !unused.is_empty() => return misspelt(target, &unused, (count, &rows), all),
            What::UnlistedTarget => {
                let what = format!("with a label of the target `{target}` that is not declared: {}", taught(count));
                (what, "row", false)
            }
        };
        Finding { what, unit, count, rows, stops }
    };
    let all_listed = !found.contains_key(&What::UnlistedTarget);
    let mut findings: Vec<Finding> = found.into_iter().map(finding).collect();
    if all_listed && !unused.is_empty() && all > 0 {
        let what = format!("no row has the {} of the target `{target}`", declared(&unused));
        findings.push(Finding { what, unit: "", count: 0, rows: Vec::new(), stops: false });
    }
    // a reader that stops is no reason to forget what was seen before
    if let Err(error) = outcome {
        findings.push(Finding { what: error.to_string(), unit: "", count: 0, rows: Vec::new(), stops: true });
    }
    Ok(findings)
}

/// Declared labels, as a part of a sentence.
fn declared(labels: &[&str]) -> String {
    let names = listed(labels.iter().map(|label| format!("`{label}`")));
    format!("declared label{} {names}", if labels.len() == 1 { "" } else { "s" })
}

/// What rows without a usable target are good for.
fn taught(count: u64) -> &'static str {
    if count == 1 { "it teaches the model nothing" } else { "they teach the model nothing" }
}

/// Labels that no row has, while some of `all` rows have labels that are not declared.
fn misspelt(target: &str, unused: &[&str], (count, rows): (u64, &[u64]), all: u64) -> Finding {
    let (row, have) = if count == 1 { ("row", "has") } else { ("rows", "have") };
    let what = format!(
        "no row has the {} of the target `{target}`, and {count} of {all} rows ({row} {}) {have} a label that is not \
         declared: {}; check how the declared labels are spelt (levels in [{target}], or {})",
        declared(unused),
        first_of(rows, count),
        taught(count),
        option("classes")
    );
    Finding { what, unit: "", count: 0, rows: Vec::new(), stops: true }
}

type Found = BTreeMap<What, (u64, Vec<u64>)>;

/// What was seen in the rows of a table.
struct Collected<'a> {
    found: Found,
    /// Declared labels that no row has, if all rows were read.
    unused: Vec<&'a str>,
    rows: u64,
    /// Whether all rows were read.
    outcome: Result<(), DataError>,
}

fn collect<'a>(table: &dyn TableReader, layout: &'a Layout) -> Result<Collected<'a>, DataError> {
    let mut inspection = Inspection::new(table.columns(), layout)?;
    let outcome = table.for_each_block(&mut |block| {
        for r in 0..block.len() {
            inspection.row(&*block, r);
        }
        Ok(())
    });
    let unused = if outcome.is_ok() { inspection.unused() } else { Vec::new() };
    Ok(Collected { unused, rows: inspection.rows, found: inspection.ended(outcome.is_ok()), outcome })
}

/// What was seen in the rows so far.
struct Inspection<'a> {
    layout: &'a Layout,
    columns: usize,
    /// Where each feature's column is.
    places: Vec<usize>,
    /// Levels of each feature, none where it is no category.
    levels: Vec<Levels>,
    target: Option<(usize, &'a TargetRule)>,
    classes: Levels,
    /// Which of the classes some row has.
    used: Vec<bool>,
    scratch: Scratch,
    found: Found,
    tallies: Vec<Tally>,
    rows: u64,
    /// Rows with a target that a fit can use.
    usable: u64,
}

/// What is found in one row goes here.
struct Row<'a> {
    found: &'a mut Found,
    number: u64,
}

impl Row<'_> {
    fn saw(&mut self, what: What) {
        let (count, rows) = self.found.entry(what).or_default();
        *count += 1;
        if rows.len() < POSITIONS {
            rows.push(self.number);
        }
    }
}

const RULES: Rules = Rules::ByValue;

impl<'a> Inspection<'a> {
    fn new(columns: &[Column], layout: &'a Layout) -> Result<Self, DataError> {
        let places = layout.features.iter().map(|(name, _)| position(columns, name, "the column"));
        let places = places.collect::<Result<Vec<_>, _>>()?;
        let listed = |kind: &FeatureKind| match kind {
            FeatureKind::Categorical { levels } => Levels::new(levels),
            _ => Levels::new::<&str>(&[]),
        };
        let levels = layout.features.iter().map(|(_, kind)| listed(kind)).collect();
        let target = layout.target.as_ref();
        let target = target.map(|(name, rule)| Ok::<_, DataError>((position(columns, name, "the target")?, rule)));
        let target = target.transpose()?;
        let classes = match target {
            Some((_, TargetRule::Classes { levels })) => Levels::new(levels),
            _ => Levels::new::<&str>(&[]),
        };
        Ok(Self {
            layout,
            columns: columns.len(),
            places,
            levels,
            target,
            used: vec![false; classes.len()],
            classes,
            scratch: Scratch::default(),
            found: Found::new(),
            tallies: vec![Tally::default(); layout.features.len()],
            rows: 0,
            usable: 0,
        })
    }

    fn row(&mut self, block: &dyn Block, r: usize) {
        self.rows += 1;
        let mut row = Row { found: &mut self.found, number: block.first_row() + r as u64 + 1 };
        if bad_row(block, r, self.columns).is_some() {
            // as a whole: it contributes nothing, so its cells do not matter
            row.saw(block.fault(r).map_or(What::Ragged, What::BadRow));
            return;
        }
        for (i, ((_, kind), &at)) in self.layout.features.iter().zip(&self.places).enumerate() {
            let field = block.field(r, at);
            if let Field::Malformed(reason) = field {
                row.saw(What::Unreadable(i, reason));
            }
            match kind {
                FeatureKind::Numeric { bounds, .. } => number(field, *bounds, i, &mut self.tallies[i], &mut row),
                FeatureKind::Categorical { .. } => {
                    let listed = self.levels[i].place_by(RULES, field, &mut self.scratch).is_some();
                    if listed || field_text(field, &mut self.scratch.0).is_some_and(|text| !is_missing_text(text)) {
                        self.tallies[i].add(listed);
                        if !listed {
                            row.saw(What::Unlisted(i));
                        }
                    }
                }
                FeatureKind::Hashed { .. } | FeatureKind::Text { .. } | FeatureKind::Sparse { .. } => {}
            }
        }
        if let Some((at, rule)) = self.target {
            let usable = target(block.field(r, at), rule, (&self.classes, &mut self.used), &mut self.scratch, &mut row);
            self.usable += u64::from(usable);
        }
    }

    /// The declared labels of the target that no row has had so far.
    fn unused(&self) -> Vec<&'a str> {
        let labels = match self.target {
            Some((_, TargetRule::Classes { levels })) => &levels[..],
            _ => &[],
        };
        labels.iter().zip(&self.used).filter(|(_, used)| !**used).map(|(label, _)| label.as_str()).collect()
    }

    /// What was found, when all rows were read or, if not `whole`, those before an error.
    fn ended(mut self, whole: bool) -> Found {
        for ((i, (_, kind)), tally) in self.layout.features.iter().enumerate().zip(&self.tallies) {
            if tally.said > 0 && tally.read == 0 {
                let numbers = matches!(kind, FeatureKind::Numeric { .. });
                let what = if numbers { What::NothingRead(i, tally.why) } else { What::NothingListed(i) };
                self.found.insert(what, (self.rows, Vec::new()));
            }
        }
        if whole && self.target.is_some() && self.rows > 0 && self.usable == 0 {
            self.found.insert(What::NoUsableTarget, (self.rows, Vec::new()));
        }
        self.found
    }
}

/// What is to be said of a cell of the numeric feature `i`.
fn number(field: Field<'_>, bounds: Option<Bounds>, i: usize, tally: &mut Tally, row: &mut Row<'_>) {
    match RULES.number(field, bounds.map_or(Unit::Number, |b| b.unit())) {
        Some(value) => {
            tally.add(true);
            if bounds.is_some_and(|b| value < b.lower() || value > b.upper()) {
                row.saw(What::Outside(i));
            }
        }
        None if is_missing_marker(field) => {}
        None => {
            let why = why_not(field, bounds.map(|b| b.unit()));
            if tally.said == 0 {
                tally.why = why;
            }
            tally.add(false);
            row.saw(What::NotANumber(i, why));
        }
    }
}

/// What is to be said of a target; whether a fit can use it.
fn target(
    field: Field<'_>,
    rule: &TargetRule,
    (classes, used): (&Levels, &mut [bool]),
    scratch: &mut Scratch,
    row: &mut Row<'_>,
) -> bool {
    if let Field::Malformed(_) = field {
        row.saw(What::BadTarget(""));
        return false;
    }
    let wrong = match rule {
        TargetRule::Number { lower, upper, unit } => match RULES.number(field, *unit) {
            Some(value) => {
                if value < *lower || value > *upper {
                    row.saw(What::OutsideTarget);
                }
                return true;
            }
            None if is_missing_marker(field) => What::NoTarget,
            None => What::BadTarget(why_not(field, Some(*unit))),
        },
        TargetRule::Classes { .. } => match classes.place_by(RULES, field, scratch) {
            Some(class) => {
                used[class as usize] = true;
                return true;
            }
            None if field_text(field, &mut scratch.0).is_some_and(|text| !is_missing_text(text)) => {
                What::UnlistedTarget
            }
            None => What::NoTarget,
        },
        TargetRule::Undeclared if is_missing_marker(field) => What::NoTarget,
        TargetRule::Undeclared => return true,
    };
    row.saw(wrong);
    false
}
