//! From records to bounded rows by public facts only: hat functions, one-hot levels, hashing, text (spec 17 §1.1).
//!
//! Every block of a column has l2 norm at most about 1; the row, with a bias entry 1, is divided by the square root of
//! the number of blocks and then clipped to `row_norm` exactly ([`Rows::push_clipped`]). That last step is all that
//! privacy needs; see `docs/proofs/encoder.md`.

use std::collections::HashMap;
use std::hash::Hasher;
use std::io::Write;

use rayon::prelude::*;

use super::error::DataError;
use super::hashing::{Fnv, FnvBuild};
use super::reader::{Block, Column, Field, TableReader};
use super::rows::{Examples, Rows};
use super::schema::{Bounds, EncodingOptions, FeatureKind, Kind, Layout};
use super::target::{TargetReader, TargetSpec};
use super::text::{COUNTS, MAX_WORDS, TextFeatures};
use crate::sensitive::Sensitive;

/// Version of the encoder's stored form; a change of any feature's meaning raises it.
const VERSION: u32 = 1;

/// What to do with a cell that cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BadCells {
    /// Stop with an error that names column and row. It tells the data owner that such a cell exists, so it must not
    /// be shown to anyone else.
    #[default]
    Error,
    /// Treat the cell as missing (a row of another width: what is missing is missing, what is too much is dropped).
    Missing,
}

impl BadCells {
    pub(crate) fn check(self, error: DataError) -> Result<(), DataError> {
        match self {
            Self::Error => Err(error),
            Self::Missing => Ok(()),
        }
    }
}

/// Turns records into rows of l2 norm at most [`row_norm`](Encoder::row_norm), without looking at any other record.
///
/// Serialises to JSON so that a saved model encodes new records in the same way.
///
/// ```
/// use dpopt::data::{open_bytes, BadCells, Encoder, Format, ReadOptions, Schema};
/// let bounds = "[age]\nlower = 17\nupper = 90\n[income]\nlevels = ['<=50K', '>50K']\n";
/// let table = open_bytes(b"age,income\n39,<=50K\n50,>50K\n".to_vec(), Format::Csv, &ReadOptions::default())?;
/// let layout = Schema::from_toml(bounds)?.resolve(table.columns(), Some("income"))?;
/// let encoder = Encoder::new(&layout)?;
/// assert_eq!(encoder.dimension(), 1 + 2 + 8 + 1); // intercept, line, eight knots, "missing"
/// let examples = encoder.encode(&*table, BadCells::Error)?; // Sensitive<Examples>
/// # let _ = examples;
/// # Ok::<(), dpopt::data::DataError>(())
/// ```
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "EncoderSpec", into = "EncoderSpec")]
pub struct Encoder {
    spec: EncoderSpec,
    blocks: Vec<FeatureBlock>,
    target: Option<TargetReader>,
    dimension: u32,
    scale: f64,
}

/// Stored form of an [`Encoder`].
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct EncoderSpec {
    version: u32,
    knots: u32,
    row_norm: f64,
    scale_rows: bool,
    features: Vec<FeatureSpec>,
    target: Option<NamedTarget>,
}

#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct NamedTarget {
    column: String,
    #[serde(rename = "as")]
    spec: TargetSpec,
}

#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct FeatureSpec {
    column: String,
    #[serde(rename = "as")]
    kind: FeatureForm,
}

#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum FeatureForm {
    Numeric { lower: f64, upper: f64, log: bool },
    Categorical { levels: Vec<String> },
    Hashed { bits: u32 },
    Text { bits: u32 },
    Sparse { dimension: u32 },
}

/// One column made ready for encoding; its features start at `offset`.
#[derive(Clone, Debug)]
struct FeatureBlock {
    offset: u32,
    width: u32,
    form: Prepared,
}

#[derive(Clone, Debug)]
enum Prepared {
    Numeric { scale: NumericScale },
    Categorical { slots: HashMap<Box<[u8]>, u32, FnvBuild> },
    Hashed { salt: Fnv, bits: u32 },
    Text { salt: Fnv, bits: u32 },
    Sparse { to_row_norm: bool },
}

/// From a value to [0, 1].
#[derive(Clone, Copy, Debug)]
pub(crate) struct NumericScale {
    lower: f64,
    upper: f64,
    log: bool,
}

impl NumericScale {
    /// Position of `value` within the bounds, clipped to [0, 1].
    #[inline]
    fn unit(&self, value: f64) -> f64 {
        let v = value.clamp(self.lower, self.upper);
        let u = if self.log {
            (v.ln_1p() - self.lower.ln_1p()) / (self.upper.ln_1p() - self.lower.ln_1p())
        } else {
            (v - self.lower) / (self.upper - self.lower)
        };
        u.clamp(0.0, 1.0) // rounding of the quotient
    }

    /// The value at a position: the inverse of [`unit`](Self::unit).
    fn value(&self, unit: f64) -> f64 {
        if self.log {
            let (low, high) = (self.lower.ln_1p(), self.upper.ln_1p());
            (low + unit * (high - low)).exp_m1()
        } else {
            self.lower + unit * (self.upper - self.lower)
        }
    }
}

/// Every numeric block begins with the line: `1 - u` and `u`, the hat functions of two knots.
const LINEAR: u32 = 2;

/// The two hat functions that are not zero at `unit`: the first one's index, and its and the next one's value.
#[inline]
fn hats(unit: f64, knots: u32) -> (u32, f64, f64) {
    let t = unit * f64::from(knots - 1);
    let i = (t.floor() as u32).min(knots - 2);
    let f = t - f64::from(i);
    (i, 1.0 - f, f)
}

impl Encoder {
    /// From a resolved layout. Errors if a numeric column still has no bounds or the target is not declared.
    pub fn new(layout: &Layout) -> Result<Self, DataError> {
        let unbounded = layout.unbounded();
        if !unbounded.is_empty() {
            return Err(DataError::Unbounded { columns: unbounded.join(", ") });
        }
        let features = layout
            .features
            .iter()
            .map(|(column, kind)| {
                let kind = match kind {
                    FeatureKind::Numeric { bounds: Some(b), log } => {
                        FeatureForm::Numeric { lower: b.lower(), upper: b.upper(), log: *log }
                    }
                    FeatureKind::Numeric { bounds: None, .. } => {
                        return Err(DataError::Unbounded { columns: column.clone() });
                    }
                    FeatureKind::Categorical { levels } => FeatureForm::Categorical { levels: levels.clone() },
                    FeatureKind::Hashed { bits } => FeatureForm::Hashed { bits: *bits },
                    FeatureKind::Text { bits } => FeatureForm::Text { bits: *bits },
                    FeatureKind::Sparse { dimension } => FeatureForm::Sparse { dimension: *dimension },
                };
                Ok(FeatureSpec { column: column.clone(), kind })
            })
            .collect::<Result<_, _>>()?;
        let target = match &layout.target {
            Some((column, rule)) => Some(NamedTarget { column: column.clone(), spec: TargetSpec::new(column, rule)? }),
            None => None,
        };
        Self::try_from(EncoderSpec {
            version: VERSION,
            knots: layout.options.knots,
            row_norm: layout.options.row_norm,
            scale_rows: layout.options.scale_rows,
            features,
            target,
        })
    }

    /// Number of features d, the intercept among them.
    pub fn dimension(&self) -> usize {
        self.dimension as usize
    }

    /// Every row has l2 norm at most this, exactly.
    pub fn row_norm(&self) -> f64 {
        self.spec.row_norm
    }

    /// Feature columns in order.
    pub fn columns(&self) -> impl Iterator<Item = &str> {
        self.spec.features.iter().map(|f| f.column.as_str())
    }

    /// Name and form of the target.
    pub fn target(&self) -> Option<(&str, &TargetSpec)> {
        self.spec.target.as_ref().map(|t| (t.column.as_str(), &t.spec))
    }

    /// True if the first feature is an intercept (all tables except LIBSVM, whose rows stay as they are).
    pub fn has_intercept(&self) -> bool {
        self.intercept() == 1
    }

    fn intercept(&self) -> u32 {
        let only_sparse = self.spec.features.iter().all(|f| matches!(f.kind, FeatureForm::Sparse { .. }));
        u32::from(!only_sparse)
    }

    /// No row has more non-zeros than this (a public fact).
    pub fn max_nonzeros(&self) -> usize {
        let per_block = self.spec.features.iter().map(|f| match &f.kind {
            FeatureForm::Numeric { .. } => 5,
            FeatureForm::Categorical { .. } | FeatureForm::Hashed { .. } => 1,
            FeatureForm::Text { bits } => 2 * COUNTS.len() + (2 * MAX_WORDS).min(1 << bits),
            FeatureForm::Sparse { dimension } => *dimension as usize,
        });
        (self.intercept() as usize + per_block.sum::<usize>()).min(self.dimension())
    }

    /// Name of feature `index`: `(intercept)`, `age:low`, `age:high` (the line), `age@53.5` (a knot), `age=(missing)`, `sex=Male`, `sex=(other)`,
    /// `city#17` (a slot of a hash), `text:digits@0.25`. `None` beyond the last.
    pub fn feature_name(&self, index: usize) -> Option<String> {
        let index = u32::try_from(index).ok().filter(|i| *i < self.dimension)?;
        if index < self.intercept() {
            return Some("(intercept)".into());
        }
        let b = self.blocks.partition_point(|b| b.offset <= index) - 1;
        let (block, spec) = (&self.blocks[b], &self.spec.features[b]);
        let (i, column) = (index - block.offset, &spec.column);
        let knots = self.spec.knots;
        Some(match (&spec.kind, &block.form) {
            (FeatureForm::Numeric { .. }, _) if i < LINEAR => {
                format!("{column}:{}", if i == 0 { "low" } else { "high" })
            }
            (FeatureForm::Numeric { .. }, Prepared::Numeric { scale }) if i < LINEAR + knots => {
                format!("{column}@{}", short(scale.value(f64::from(i - LINEAR) / f64::from(knots - 1))))
            }
            (FeatureForm::Categorical { levels }, _) if (i as usize) < levels.len() => {
                format!("{column}={}", levels[i as usize])
            }
            (FeatureForm::Categorical { levels }, _) if i as usize == levels.len() => format!("{column}=(other)"),
            (FeatureForm::Hashed { bits }, _) if i < 1 << bits => format!("{column}#{i}"),
            (FeatureForm::Text { .. }, _) => {
                let counted = COUNTS.len() as u32 * knots;
                if i < counted {
                    let knot = f64::from(i % knots) / f64::from(knots - 1);
                    let (name, largest) = COUNTS[(i / knots) as usize];
                    format!("{column}:{name}@{}", short((knot * largest.ln_1p()).exp_m1()))
                } else {
                    format!("{column}#{}", i - counted)
                }
            }
            (FeatureForm::Sparse { .. }, _) => format!("{column}[{}]", i + 1),
            _ => format!("{column}=(missing)"),
        })
    }

    /// Encodes a table of sensitive records with their targets: n rows in the table's order.
    ///
    /// Errors depend on records: they are for the data owner, and [`BadCells::Missing`] avoids those about cells.
    pub fn encode(&self, table: &dyn TableReader, bad_cells: BadCells) -> Result<Sensitive<Examples>, DataError> {
        let examples = self.encode_public(table, bad_cells)?;
        if examples.rows.is_empty() {
            return Err(DataError::NoRows { source_name: table.name() });
        }
        Ok(Sensitive::new(examples))
    }

    /// Encodes records whose owner also gets the result: a public hold-out table.
    pub fn encode_public(&self, table: &dyn TableReader, bad_cells: BadCells) -> Result<Examples, DataError> {
        let target = match &self.spec.target {
            Some(target) => Some(position(table.columns(), &target.column, "the target")?),
            None => None,
        };
        self.pass(table, target, bad_cells)
    }

    /// Encodes records to predict for; the target's column may be absent.
    pub fn encode_features(&self, table: &dyn TableReader, bad_cells: BadCells) -> Result<Rows, DataError> {
        Ok(self.pass(table, None, bad_cells)?.rows)
    }

    fn pass(&self, table: &dyn TableReader, target: Option<usize>, bad_cells: BadCells) -> Result<Examples, DataError> {
        let positions =
            self.columns().map(|name| position(table.columns(), name, "the model's column")).collect::<Result<Vec<_>, _>>()?;
        for (block, &at) in self.blocks.iter().zip(&positions) {
            if let (Prepared::Sparse { .. }, super::reader::Stored::Sparse(given)) = (&block.form, &table.columns()[at].stored)
                && *given != block.width
            {
                return Err(DataError::FeaturesOutOfRange { given: u64::from(*given), limit: u64::from(block.width) });
            }
        }
        let plan = PassPlan { encoder: self, positions, target, width: table.columns().len(), bad_cells };
        let mut whole = Examples { rows: Rows::new(self.dimension()), targets: Vec::new() };
        let mut waiting: Vec<Box<dyn Block>> = Vec::new();
        // enough blocks for every thread to stay busy, few enough to bound memory
        let at_once = 2 * rayon::current_num_threads();
        let mut flush = |waiting: &mut Vec<Box<dyn Block>>| -> Result<(), DataError> {
            let parts: Vec<Result<Examples, DataError>> = waiting.par_iter().map(|b| plan.block(&**b)).collect();
            waiting.clear();
            for part in parts {
                let part = part?; // the first faulty row of the file is the one reported
                whole.rows.append(&part.rows);
                whole.targets.extend_from_slice(&part.targets);
            }
            Ok(())
        };
        table.for_each_block(&mut |block| {
            waiting.push(block);
            if waiting.len() >= at_once { flush(&mut waiting) } else { Ok(()) }
        })?;
        flush(&mut waiting)?;
        Ok(whole)
    }
}

/// A number for a feature's name: four significant digits.
fn short(value: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    let digits = (3 - value.abs().log10().floor() as i32).clamp(0, 12) as usize;
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
}

pub(crate) fn position(columns: &[Column], name: &str, role: &str) -> Result<usize, DataError> {
    columns.iter().position(|c| c.name == name).ok_or_else(|| {
        let names: Vec<&str> = columns.iter().map(|c| c.name.as_str()).collect();
        DataError::no_such_column(role, name, &names)
    })
}

/// What one pass over a table needs besides the encoder.
struct PassPlan<'a> {
    encoder: &'a Encoder,
    positions: Vec<usize>,
    target: Option<usize>,
    width: usize,
    bad_cells: BadCells,
}

/// Buffers of one thread.
#[derive(Default)]
struct Scratch {
    entries: Vec<(u32, f32)>,
    bytes: Vec<u8>,
    text: TextFeatures,
}

impl PassPlan<'_> {
    fn block(&self, block: &dyn Block) -> Result<Examples, DataError> {
        let mut part = Examples { rows: Rows::new(self.encoder.dimension()), targets: Vec::with_capacity(block.len()) };
        let mut scratch = Scratch::default();
        for r in 0..block.len() {
            let row = block.first_row() + r as u64;
            if block.width(r) != self.width {
                let (expected, found) = (self.width, block.width(r));
                self.bad_cells.check(DataError::RaggedRow { row: row + 1, expected, found })?;
            }
            let target = match (self.target, &self.encoder.target, &self.encoder.spec.target) {
                (Some(at), Some(reader), Some(named)) => {
                    reader.read(block.field(r, at), &named.column, row, self.bad_cells, &mut scratch.bytes)?
                }
                _ => Some(0.0),
            };
            // a record without a usable target is still checked, so that the error does not depend on its target
            self.row(block, r, row, &mut scratch)?;
            match target {
                Some(target) => {
                    part.rows.push_clipped(&mut scratch.entries, self.encoder.spec.row_norm);
                    part.targets.push(target);
                }
                None => {
                    part.rows.push_zero();
                    part.targets.push(0.0);
                }
            }
        }
        Ok(part)
    }

    fn row(&self, block: &dyn Block, r: usize, row: u64, scratch: &mut Scratch) -> Result<(), DataError> {
        let encoder = self.encoder;
        let scale = encoder.scale;
        scratch.entries.clear();
        if encoder.has_intercept() {
            scratch.entries.push((0, scale as f32));
        }
        for (b, (features, &at)) in encoder.blocks.iter().zip(&self.positions).enumerate() {
            let field = block.field(r, at);
            if let Field::Malformed(reason) = field {
                self.bad_cells.check(DataError::BadSparseRow { row: row + 1, reason })?;
            }
            if !features.push(field, encoder.spec.knots, scale, encoder.spec.row_norm, scratch) {
                let column = encoder.spec.features[b].column.clone();
                self.bad_cells.check(DataError::NotANumber { column, row: row + 1 })?;
            }
        }
        Ok(())
    }
}

impl FeatureBlock {
    /// Appends the column's features; false if the cell of a numeric column was not a number (it is then missing).
    #[inline]
    fn push(&self, field: Field<'_>, knots: u32, scale: f64, row_norm: f64, scratch: &mut Scratch) -> bool {
        let entries = &mut scratch.entries;
        let missing = self.offset + self.width - 1;
        match &self.form {
            Prepared::Numeric { scale: range } => {
                let value = field_number(field);
                // a missing value sits in the middle and says that it is missing
                let unit = value.map_or(0.5, |v| range.unit(v));
                let (i, left, right) = hats(unit, knots);
                let absent = f64::from(u8::from(value.is_none()));
                let square = (1.0 - unit).powi(2) + unit * unit + left * left + right * right + absent;
                let each = scale / square.sqrt();
                let knot = self.offset + LINEAR + i;
                for (column, weight) in [(self.offset, 1.0 - unit), (self.offset + 1, unit), (knot, left), (knot + 1, right)] {
                    if weight != 0.0 {
                        entries.push((column, (weight * each) as f32));
                    }
                }
                if value.is_none() {
                    entries.push((missing, each as f32));
                    return is_missing_marker(field);
                }
            }
            Prepared::Categorical { slots } => {
                let slot = match field_text(field, &mut scratch.bytes) {
                    // a declared level wins over a missing marker: "?" may be a level
                    Some(text) => match slots.get(text) {
                        Some(slot) => self.offset + slot,
                        None if is_missing_text(text) => missing,
                        None => missing - 1,
                    },
                    None => missing,
                };
                entries.push((slot, scale as f32));
            }
            Prepared::Hashed { salt, bits } => {
                let slot = match field_text(field, &mut scratch.bytes) {
                    Some(text) if !is_missing_text(text) => {
                        let mut hash = *salt;
                        hash.write(text);
                        self.offset + hash.slot(*bits)
                    }
                    _ => missing,
                };
                entries.push((slot, scale as f32));
            }
            Prepared::Text { salt, bits } => {
                let text = field_text(field, &mut scratch.bytes).unwrap_or_default();
                scratch.text.read(text, *salt, *bits);
                let each = scale / (COUNTS.len() as f64).sqrt();
                for (c, &unit) in scratch.text.counts.iter().enumerate() {
                    let (i, left, right) = hats(unit, knots);
                    let at = self.offset + c as u32 * knots + i;
                    entries.push((at, (left * each) as f32));
                    entries.push((at + 1, (right * each) as f32));
                }
                let words = self.offset + COUNTS.len() as u32 * knots;
                entries.extend(scratch.text.slots.iter().map(|&(slot, weight)| (words + slot, (weight * scale) as f32)));
            }
            Prepared::Sparse { to_row_norm } => {
                let Field::Sparse(pairs) = field else { return true };
                let norm = pairs.iter().map(|p| f64::from(p.1).powi(2)).sum::<f64>().sqrt();
                let factor = if *to_row_norm && norm > 0.0 { row_norm / norm } else { 1.0 };
                entries.extend(pairs.iter().map(|&(i, v)| (self.offset + i, (f64::from(v) * factor) as f32)));
            }
        }
        true
    }
}

/// The cell as a finite number.
#[inline]
pub(crate) fn field_number(field: Field<'_>) -> Option<f64> {
    let value = match field {
        Field::Number(value) => value,
        Field::Integer(value) => value as f64,
        Field::Text(text) => match small_integer(text) {
            Some(value) => value,
            None => std::str::from_utf8(text).ok()?.parse().ok()?,
        },
        Field::Missing | Field::Sparse(_) | Field::Malformed(_) => return None,
    };
    value.is_finite().then_some(value)
}

/// The common case, exact: up to 15 digits and nothing else.
#[inline]
fn small_integer(text: &[u8]) -> Option<f64> {
    if text.is_empty() || text.len() > 15 {
        return None;
    }
    let mut value = 0u64;
    for &byte in text {
        if !byte.is_ascii_digit() {
            return None;
        }
        value = value * 10 + u64::from(byte - b'0');
    }
    Some(value as f64)
}

/// The cell as text; numbers are written in full (`1`, `0.5`). `None` if there is nothing to write.
#[inline]
pub(crate) fn field_text<'a>(field: Field<'a>, scratch: &'a mut Vec<u8>) -> Option<&'a [u8]> {
    scratch.clear();
    match field {
        Field::Text(text) => return Some(text),
        // writing to a Vec cannot fail
        Field::Number(value) if !value.is_nan() => write!(scratch, "{value}").ok()?,
        Field::Integer(value) => write!(scratch, "{value}").ok()?,
        _ => return None,
    }
    Some(scratch)
}

/// `""`, `?`, `NA`, `N/A`, `null`, `NULL`, and nulls.
pub(crate) fn is_missing_marker(field: Field<'_>) -> bool {
    match field {
        Field::Missing => true,
        Field::Text(text) => is_missing_text(text),
        _ => false,
    }
}

pub(crate) fn is_missing_text(text: &[u8]) -> bool {
    matches!(text, b"" | b"?" | b"NA" | b"N/A" | b"null" | b"NULL")
}

impl From<Encoder> for EncoderSpec {
    fn from(encoder: Encoder) -> Self {
        encoder.spec
    }
}

impl TryFrom<EncoderSpec> for Encoder {
    type Error = DataError;

    /// Checks everything again: a model file may have been edited.
    fn try_from(spec: EncoderSpec) -> Result<Self, DataError> {
        let invalid = |reason: String| DataError::Encoder { reason };
        if spec.version != VERSION {
            return Err(invalid(format!("it has version {}, this program reads version {VERSION}", spec.version)));
        }
        if spec.features.is_empty() {
            return Err(invalid("it has no feature".into()));
        }
        let (mut hash_bits, mut text_bits) = (1, 1);
        let mut seen = std::collections::HashSet::new();
        if let Some(target) = &spec.target {
            seen.insert(target.column.as_str());
        }
        for feature in &spec.features {
            if !seen.insert(&feature.column) {
                return Err(invalid(format!("column `{}` is there twice", feature.column)));
            }
            match feature.kind {
                FeatureForm::Hashed { bits } => hash_bits = hash_bits.max(bits),
                FeatureForm::Text { bits } => text_bits = text_bits.max(bits),
                _ => {}
            }
            if matches!(feature.kind, FeatureForm::Hashed { bits: 0 } | FeatureForm::Text { bits: 0 }) {
                return Err(invalid(format!("column `{}` has 0 bits", feature.column)));
            }
        }
        let options = EncodingOptions {
            knots: spec.knots,
            row_norm: spec.row_norm,
            scale_rows: spec.scale_rows,
            hash_bits,
            text_bits,
        };
        options.check()?;
        let target = match &spec.target {
            Some(target) => Some(TargetReader::new(&target.column, &target.spec)?),
            None => None,
        };
        let mut encoder = Self { spec, blocks: Vec::new(), target, dimension: 0, scale: 0.0 };
        let mut offset = u64::from(encoder.intercept());
        let mut blocks_of_norm_one = offset;
        for feature in &encoder.spec.features {
            let (width, shares, form) = feature.prepare(&options)?;
            if offset + u64::from(width) > u64::from(u32::MAX) {
                return Err(invalid("it has more than 2^32 features".into()));
            }
            encoder.blocks.push(FeatureBlock { offset: offset as u32, width, form });
            offset += u64::from(width);
            blocks_of_norm_one += shares;
        }
        encoder.dimension = offset as u32;
        encoder.scale = encoder.spec.row_norm / (blocks_of_norm_one.max(1) as f64).sqrt();
        Ok(encoder)
    }
}

impl FeatureSpec {
    /// Number of features, share of the squared norm, and what encoding needs.
    fn prepare(&self, options: &EncodingOptions) -> Result<(u32, u64, Prepared), DataError> {
        let salt = Fnv::salted(&self.column);
        Ok(match &self.kind {
            FeatureForm::Numeric { lower, upper, log } => {
                let bounds = Bounds::new(&self.column, *lower, *upper)?;
                if *log && bounds.lower() < 0.0 {
                    return Err(DataError::declaration(&self.column, "log scale below 0", "use lower >= 0"));
                }
                let scale = NumericScale { lower: *lower, upper: *upper, log: *log };
                (LINEAR + options.knots + 1, 1, Prepared::Numeric { scale })
            }
            FeatureForm::Categorical { levels } => {
                Kind::categorical(&self.column, levels.clone())?;
                let count = u32::try_from(levels.len()).ok().filter(|c| *c < 1 << 30);
                let count = count.ok_or_else(|| DataError::declaration(&self.column, "too many levels", "write `hash = true`"))?;
                let slots = levels.iter().zip(0..).map(|(level, i)| (level.trim().as_bytes().into(), i)).collect();
                (count + 2, 1, Prepared::Categorical { slots })
            }
            FeatureForm::Hashed { bits } => ((1 << bits) + 1, 1, Prepared::Hashed { salt, bits: *bits }),
            FeatureForm::Text { bits } => {
                (COUNTS.len() as u32 * options.knots + (1 << bits), 2, Prepared::Text { salt, bits: *bits })
            }
            FeatureForm::Sparse { dimension } => (*dimension, 0, Prepared::Sparse { to_row_norm: options.scale_rows }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Format, ReadOptions, Schema, open_bytes};

    fn csv(text: &str) -> Box<dyn TableReader> {
        open_bytes(text.as_bytes().to_vec(), Format::Csv, &ReadOptions::default()).unwrap()
    }

    fn encoder(bounds: &str, table: &dyn TableReader, target: Option<&str>) -> Encoder {
        Encoder::new(&Schema::from_toml(bounds).unwrap().resolve(table.columns(), target).unwrap()).unwrap()
    }

    /// Features of a row by name, multiplied back by the square root of the number of blocks.
    fn named(encoder: &Encoder, rows: &Rows, row: usize, blocks: f64) -> Vec<(String, f64)> {
        let (columns, values) = rows.row(row);
        let name = |c: u32| encoder.feature_name(c as usize).unwrap();
        columns.iter().zip(values).map(|(&c, &v)| (name(c), f64::from(v) * blocks.sqrt())).collect()
    }

    #[test]
    fn the_census_row_of_the_specification() {
        let ranges = [(17.0, 90.0), (0.0, 1.5e6), (1.0, 16.0), (0.0, 99999.0), (0.0, 4356.0), (1.0, 99.0)];
        let row = [39.0, 77516.0, 13.0, 2174.0, 0.0, 40.0];
        // 50-digit arithmetic: ln(77517)/ln(1500001), ln(2175)/ln(100000)
        let unit = [22.0 / 73.0, 0.791665233293944638, 0.8, 0.667491852258131227, 0.0, 39.0 / 98.0];
        for ((&(lower, upper), value), unit) in ranges.iter().zip(row).zip(unit) {
            let mut schema = Schema::default();
            schema.declare("v", Kind::numeric("v", lower, upper).unwrap()).unwrap();
            let table = csv("v\n1\n");
            let layout = schema.resolve(table.columns(), None).unwrap();
            let encoder = Encoder::new(&layout).unwrap();
            let Prepared::Numeric { scale } = &encoder.blocks[0].form else { panic!("numeric") };
            assert!((scale.unit(value) - unit).abs() < 1e-14, "{lower} {upper}: {}", scale.unit(value));
            assert!((scale.value(scale.unit(value)) - value).abs() < 1e-9 * upper);
        }
        let close = |unit: f64, expected: [f64; 5]| {
            let (i, left, right) = hats(unit, 5);
            let mut all = [0.0; 5];
            (all[i as usize], all[i as usize + 1]) = (left, right);
            assert!(all.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-13), "{all:?}");
        };
        close(22.0 / 73.0, [0.0, 58.0 / 73.0, 15.0 / 73.0, 0.0, 0.0]);
        close(0.667491852258131227, [0.0, 0.0, 0.330032590967475, 0.669967409032525, 0.0]);
        close(1.0, [0.0, 0.0, 0.0, 0.0, 1.0]);
    }

    #[test]
    fn one_of_each_kind_with_missing_other_and_unknown_label() {
        let bounds = "[dpopt]\nknots = 5\n[age]\nlower = 0\nupper = 8\n[sex]\nlevels = ['M', 'F', '?']\n[city]\nhash = true\n\
                      [y]\nlevels = ['no', 'yes']\n";
        let table = csv("age,sex,city,y\n3,M,Rome,no\n?, ?,,yes\n99,X,Rome,yes\n1,F,Bern,maybe\n2,NA,Rome,\n");
        let encoder = encoder(bounds, &*table, Some("y"));
        assert_eq!(encoder.dimension(), 1 + 8 + 5 + 4097);
        assert_eq!(encoder.max_nonzeros(), 1 + 5 + 1 + 1);
        let examples = encoder.encode(&*table, BadCells::Error).unwrap();
        let Examples { rows, targets } = examples.expose();
        assert_eq!(targets, &[-1.0, 1.0, 1.0, 0.0, 0.0]);
        let first = named(&encoder, rows, 0, 4.0);
        // 3 of 0..8 is u = 3/8: the line (5/8, 3/8), half way between the knots 2 and 4; the block has norm 1
        let norm = (25.0f64 / 64.0 + 9.0 / 64.0 + 0.5).sqrt();
        let age = [("age:low", 0.625), ("age:high", 0.375), ("age@2", 0.5), ("age@4", 0.5)];
        let age = age.map(|(name, value)| (name, value / norm));
        let expected = [("(intercept)", 1.0), age[0], age[1], age[2], age[3], ("sex=M", 1.0)];
        assert!(first.iter().zip(expected).all(|(a, b)| a.0 == b.0 && (a.1 - b.1).abs() < 1e-6), "{first:?}");
        assert!(first[6].0.starts_with("city#") && first.len() == 7);
        let second = named(&encoder, rows, 1, 4.0);
        let names: Vec<&str> = second.iter().map(|f| f.0.as_str()).collect();
        // "?" is a level of sex and a missing marker elsewhere
        assert_eq!(names, ["(intercept)", "age:low", "age:high", "age@4", "age=(missing)", "sex=?", "city=(missing)"]);
        let expected = [1.0, 0.1f64.sqrt(), 0.1f64.sqrt(), 0.4f64.sqrt(), 0.4f64.sqrt(), 1.0, 1.0];
        assert!(second.iter().zip(expected).all(|(f, e)| (f.1 - e).abs() < 1e-6), "{second:?}");
        let third = named(&encoder, rows, 2, 4.0);
        let names: Vec<&str> = third.iter().take(4).map(|f| f.0.as_str()).collect();
        assert_eq!(names, ["(intercept)", "age:high", "age@8", "sex=(other)"]);
        assert_eq!(third[4].0, first[6].0);
        assert!(rows.row(3).0.is_empty() && rows.row(4).0.is_empty());
    }

    #[test]
    fn encoding_one_record_does_not_depend_on_the_others() {
        let bounds = "[a]\nlower = 0\nupper = 1\n[t]\ntext = true\n";
        let many: String = (0..9000).map(|i| format!("{},row {i} says {}\n", f64::from(i) / 9e3, i * 7)).collect();
        let table = csv(&format!("a,t\n{many}"));
        let encoder = encoder(bounds, &*table, None);
        let all = encoder.encode_features(&*table, BadCells::Error).unwrap();
        for i in [0usize, 2047, 2048, 8999] {
            let alone = csv(&format!("a,t\n{}\n", many.lines().nth(i).unwrap()));
            let alone = encoder.encode_features(&*alone, BadCells::Error).unwrap();
            assert_eq!(alone.row(0), all.row(i));
        }
        let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        assert_eq!(one.install(|| encoder.encode_features(&*table, BadCells::Error).unwrap()), all);
    }

    #[test]
    fn bad_cells_name_column_and_row_and_never_the_value() {
        let bounds = "[age]\nlower = 0\nupper = 8\n[y]\nlower = 0\nupper = 10\n";
        for (text, expected) in [
            ("age,y\n1,1\nsecret,2\n", "column `age`, row 2"),
            ("age,y\n1,1\ninf,2\n", "column `age`, row 2"),
            ("age,y\n1,1\nNaN,2\n", "column `age`, row 2"),
            ("age,y\n1,1\n3,secret\n", "column `y`, row 2"),
            ("age,y\n1,1\nsecret\n", "row 2 has 1 fields"),
            ("age,y\n1,1\n1,2,secret\n", "row 2 has 3 fields"),
        ] {
            let table = csv(text);
            let encoder = encoder(bounds, &*table, Some("y"));
            let message = encoder.encode(&*table, BadCells::Error).err().unwrap().to_string();
            assert!(message.contains(expected) && message.contains("--bad-cells missing"), "{message}");
            assert!(!message.contains("secret") && !message.contains('\n'));
            assert_eq!(encoder.encode(&*table, BadCells::Missing).unwrap().expose().rows.len(), 2);
        }
    }

    #[test]
    fn number_targets_are_clipped_scaled_and_brought_back() {
        let table = csv("x,y\n1,0\n1,10\n1,2.5\n1,99\n1,\n");
        let encoder = encoder("[x]\nlower = 0\nupper = 1\n[y]\nlower = 0\nupper = 10\n", &*table, Some("y"));
        let examples = encoder.encode(&*table, BadCells::Error).unwrap();
        assert_eq!(examples.expose().targets, [-1.0, 1.0, -0.5, 1.0, 0.0]);
        assert!(examples.expose().rows.row(4).0.is_empty());
        assert_eq!(encoder.target().unwrap().1.unscale(-0.5), 2.5);
    }

    #[test]
    fn libsvm_rows_stay_as_they_are_unless_too_long() {
        let options = ReadOptions { features: Some(4), ..ReadOptions::default() };
        let text = b"1 1:0.5 3:0.25\n-1 4:3 2:4\n1 1:1 1:-1\n7 1:1\n".to_vec();
        let table = open_bytes(text, Format::Libsvm, &options).unwrap();
        let mut schema = Schema::default();
        schema.set_levels("label", vec!["-1".into(), "1".into()]).unwrap();
        let encoder = Encoder::new(&schema.resolve(table.columns(), Some("label")).unwrap()).unwrap();
        assert_eq!((encoder.dimension(), encoder.max_nonzeros(), encoder.has_intercept()), (4, 4, false));
        let examples = encoder.encode(&*table, BadCells::Error).unwrap();
        let Examples { rows, targets } = examples.expose();
        assert_eq!(targets, &[1.0, -1.0, 1.0, 0.0]);
        assert_eq!(rows.row(0), (&[0u32, 2][..], &[0.5f32, 0.25][..]));
        let (columns, values) = rows.row(1);
        assert_eq!(columns, [1, 3]);
        assert!((values[0] - 0.8).abs() < 1e-6 && (values[1] - 0.6).abs() < 1e-6);
        assert!(rows.row(2).0.is_empty() && rows.row(3).0.is_empty());
        let mut scaled = schema.clone();
        scaled.options.scale_rows = true;
        let encoder = Encoder::new(&scaled.resolve(table.columns(), Some("label")).unwrap()).unwrap();
        let examples = encoder.encode(&*table, BadCells::Error).unwrap();
        let norm: f64 = examples.expose().rows.row(0).1.iter().map(|v| f64::from(*v).powi(2)).sum();
        assert!(norm <= 1.0 && norm > 1.0 - 1e-6);
    }

    #[test]
    fn json_round_trip_encodes_identically_and_refuses_what_it_does_not_know() {
        let bounds = "[age]\nlower = 0.1\nupper = 8\n[sex]\nlevels = ['M', 'F']\n[city]\nhash = true\n[t]\ntext = true\n\
                      [y]\nlevels = ['no', 'yes', 'so']\n";
        let table = csv("age,sex,city,t,y\n3,M,Rome,hello there,no\n5,F,Bern,call 12345 now!,so\n");
        let original = encoder(bounds, &*table, Some("y"));
        let json = serde_json::to_string(&original).unwrap();
        let back: Encoder = serde_json::from_str(&json).unwrap();
        let (a, b) = (original.encode(&*table, BadCells::Error), back.encode(&*table, BadCells::Error));
        assert_eq!(a.unwrap().expose(), b.unwrap().expose());
        assert_eq!(serde_json::to_string(&back).unwrap(), json);
        for (from, to) in [
            ("\"version\":1", "\"version\":2"),
            ("\"knots\":8", "\"knots\":8,\"extra\":1"),
            ("\"knots\":8", "\"knots\":1"),
            ("\"lower\":0.1", "\"lower\":9.0"),
            ("\"bits\":12", "\"bits\":0"),
            ("\"bits\":12", "\"bits\":64"),
            ("\"column\":\"sex\"", "\"column\":\"age\""),
            ("[\"M\",\"F\"]", "[\"M\",\"M\"]"),
            ("[\"no\",\"yes\",\"so\"]", "[\"no\"]"),
            ("\"row_norm\":1.0", "\"row_norm\":-1.0"),
        ] {
            assert!(json.contains(from), "{from} not in {json}");
            assert!(serde_json::from_str::<Encoder>(&json.replacen(from, to, 1)).is_err(), "{to}");
        }
    }

    #[test]
    fn missing_columns_at_prediction_time_get_the_nearest_name() {
        let table = csv("age,y\n3,no\n");
        let encoder = encoder("[age]\nlower = 0\nupper = 8\n[y]\nlevels = ['no', 'yes']\n", &*table, Some("y"));
        assert_eq!(encoder.encode_features(&*csv("age\n3\n"), BadCells::Error).unwrap().len(), 1);
        let message = encoder.encode_features(&*csv("Age\n3\n"), BadCells::Error).unwrap_err().to_string();
        assert!(message.contains("did you mean `Age`?"), "{message}");
        assert!(matches!(encoder.encode(&*csv("age,y\n"), BadCells::Error), Err(DataError::NoRows { .. })));
    }

    #[test]
    fn every_feature_has_a_name_of_its_own() {
        let bounds = "[dpopt]\ntext_bits = 8\nhash_bits = 6\n[age]\nlower = 0\nupper = 80000\n[sex]\nlevels = ['M', 'F']\n\
                      [city]\nhash = true\n[t]\ntext = true\n";
        let table = csv("age,sex,city,t\n");
        let encoder = encoder(bounds, &*table, None);
        let names: std::collections::BTreeSet<String> =
            (0..encoder.dimension()).map(|i| encoder.feature_name(i).unwrap()).collect();
        assert_eq!(names.len(), encoder.dimension());
        assert_eq!(encoder.feature_name(encoder.dimension()), None);
    }
}
