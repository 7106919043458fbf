//! The stored form of an encoder, and how it is checked and made ready again.

use super::Encoder;
use super::block::{FeatureBlock, PreparedColumn, TextParts};
use super::numeric::NumericScale;
use super::pairs::PairBlock;
use super::spread::Spread;
use crate::cell::Rules;
use crate::declared::{Bounds, EncodingOptions, Kind, Trend};
use crate::encoder_form::{EncoderForm, TextForm};
use crate::error::DataError;
use crate::hashing::Fnv;
use crate::layout::MAX_LEVELS_OF_A_PAIR;
use crate::levels::Levels;
use crate::numerals::Unit;
use crate::target::{TargetReader, TargetSpec};
use crate::text::COUNTS;
use crate::word_vectors::MAX_DIMENSIONS;

/// Version of the encoder's stored form; a change of any feature's meaning raises it. An encoder of an earlier one reads cells as it did.
const VERSIONS: std::ops::RangeInclusive<u32> = 1..=5;
/// The first whose cells are read by value.
const BY_VALUE: u32 = 5;

/// Stored form of an [`Encoder`].
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EncoderSpec {
    pub(super) version: u32,
    /// Linear B-splines of a numeric column beside its linear term, 0 for the linear term alone; and of a count of a text.
    pub(super) knots: u32,
    /// Linear B-splines of a second, finer scale.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) fine_knots: u32,
    /// Whether numbers and few levels lie around 0.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) centred: bool,
    /// Whether rows are not scaled though they are centred.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) additive: bool,
    /// Whether numbers are, or will be, mapped so that they lie evenly.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) spread: bool,
    pub(super) row_norm: f64,
    pub(super) scale_rows: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) max_nonzeros: Option<u32>,
    pub(super) features: Vec<FeatureSpec>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) pairs: Option<PairSpec>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<TextSpec>,
    pub(super) target: Option<NamedTarget>,
}

/// Which pairs of columns have products, and how these are encoded.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PairSpec {
    /// Linear B-splines of a number.
    pub(super) knots: u32,
    /// Share of the squared norm of a row that all products have together.
    pub(super) share: f64,
    /// Which columns, by their places among the features.
    pub(super) columns: Vec<(u32, u32)>,
    /// How the share is divided among them; in equal parts where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) weights: Option<Vec<f64>>,
}

/// How texts become features; before version 3, and where nothing is said: counts on linear B-splines, and words with pairs of words, half and half.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TextSpec {
    /// Shares of the squared norm of a text; words have the rest.
    pub(super) counts: f64,
    pub(super) vectors: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) file: Option<VectorsSpec>,
}

/// Public vectors that are needed to encode. A model does not hold them: those of the words that occurred would tell of the records, and those of all
/// words are a large file that everybody can have.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VectorsSpec {
    /// Name of the file of vectors, for messages.
    pub(super) name: String,
    /// The value of [`WordVectors::fingerprint`](crate::WordVectors::fingerprint) of the vectors.
    pub(super) fingerprint: String,
    pub(super) dimension: u32,
}

/// Blocks of norm 1 that a text is worth: it says more than a number does. With more the constant of a row is too small to learn at small budgets
/// that one class is rare.
pub(super) const TEXT_BLOCKS: u64 = 3;

fn is_zero(knots: &u32) -> bool {
    *knots == 0
}

/// Linear B-splines of a count of a text where numeric columns have none.
const TEXT_KNOTS: u32 = 8;

impl EncoderSpec {
    /// The rules by which cells are read.
    pub(super) fn rules(&self) -> Rules {
        if self.version < BY_VALUE { Rules::First } else { Rules::ByValue }
    }

    /// The version of encoders that are made now.
    pub(super) const NEWEST: u32 = *VERSIONS.end();

    /// The version that can say it.
    fn least_version(&self) -> u32 {
        let has_unit =
            |feature: &FeatureSpec| matches!(feature.kind, FeatureForm::Numeric { unit, .. } if !unit.is_number());
        let target = self.target.as_ref().map(|target| &target.spec);
        match self {
            _ if self.features.iter().any(has_unit) => BY_VALUE,
            _ if matches!(target, Some(TargetSpec::Number { unit, .. }) if !unit.is_number()) => BY_VALUE,
            Self { pairs: Some(PairSpec { weights: Some(_), .. }), .. } => 4,
            Self { text: Some(_), .. } | Self { spread: true, .. } => 3,
            _ if self.knots == 0 || self.fine_knots > 0 || self.centred || self.pairs.is_some() => 2,
            _ => 1,
        }
    }

    /// Whether every row is scaled to `row_norm`.
    pub(super) fn scales_rows(&self) -> bool {
        self.centred && !self.additive
    }

    /// Linear B-splines of a count of a text.
    pub(super) fn text_knots(&self) -> u32 {
        if self.knots == 0 { TEXT_KNOTS } else { self.knots }
    }
}

impl TextSpec {
    /// What a text of `bits` for its words consists of.
    fn parts(&self, bits: u32) -> TextParts {
        let form = TextForm { bits, counts: self.counts, vectors: self.vectors };
        let part = |share: f64| (TEXT_BLOCKS as f64 * share).sqrt();
        TextParts {
            counts: part(form.counts),
            words: part(form.words()),
            slots: if form.words() > 0.0 { 1 << bits } else { 0 },
            vectors: part(form.vectors),
            dimension: self.file.as_ref().filter(|_| form.vectors > 0.0).map_or(0, |file| file.dimension),
        }
    }
}

impl EncoderSpec {
    /// The form of texts, whose numbers are within their ranges.
    pub(super) fn checked_text(&self, text: &TextSpec) -> Result<TextForm, DataError> {
        let invalid = |reason: &str| Err(DataError::Encoder { reason: reason.into() });
        let mut bits = self.features.iter().filter_map(|feature| match feature.kind {
            FeatureForm::Text { bits } => Some(bits),
            _ => None,
        });
        let Some(first) = bits.next() else { return invalid("it says how texts become features, and has none") };
        if bits.any(|other| other != first) {
            return invalid("its texts have different numbers of slots");
        }
        if let Some(file) = &text.file
            && !(2..=MAX_DIMENSIONS as u32).contains(&file.dimension)
        {
            return invalid("its vectors have no dimension that there is");
        }
        let form = TextForm { bits: first, counts: text.counts, vectors: text.vectors };
        form.check(text.file.is_some())?;
        Ok(form)
    }
}

#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NamedTarget {
    pub(super) column: String,
    #[serde(rename = "as")]
    pub(super) spec: TargetSpec,
}

#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FeatureSpec {
    pub(super) column: String,
    #[serde(rename = "as")]
    pub(super) kind: FeatureForm,
}

#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum FeatureForm {
    Numeric {
        lower: f64,
        upper: f64,
        log: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        spread: Option<Spread>,
        /// What the numbers of the column count.
        #[serde(default, skip_serializing_if = "Unit::is_number")]
        unit: Unit,
        /// Which way predictions move with it, of a fitted model: its features are then the linear B-splines of one scale, as they are.
        #[serde(rename = "monotone", default, skip_serializing_if = "Option::is_none")]
        trend: Option<Trend>,
    },
    Categorical {
        levels: Vec<String>,
    },
    Hashed {
        bits: u32,
    },
    Text {
        bits: u32,
    },
    Sparse {
        dimension: u32,
    },
}

impl From<Encoder> for EncoderSpec {
    fn from(encoder: Encoder) -> Self {
        encoder.spec
    }
}

impl Encoder {
    /// Reads an encoder out of a model file. What is wrong is said without the parser's words, which may quote the file.
    pub fn from_json(value: serde_json::Value) -> Result<Self, DataError> {
        let spec = serde_json::from_value::<EncoderSpec>(value);
        spec.map_err(|_| DataError::Encoder { reason: "a field is missing, unknown or of another type".into() })?
            .try_into()
    }
}

impl TryFrom<EncoderSpec> for Encoder {
    type Error = DataError;

    /// Checks everything again: a model file may have been edited.
    fn try_from(spec: EncoderSpec) -> Result<Self, DataError> {
        let options = spec.checked_options()?;
        options.check()?;
        let form = spec.checked_form()?;
        let target = match &spec.target {
            Some(target) => Some(TargetReader::new(&target.column, &target.spec)?),
            None => None,
        };
        let mut encoder = Self {
            splines: form.scales(),
            spec,
            blocks: Vec::new(),
            pairs: Vec::new(),
            target,
            dimension: 0,
            scale: 0.0,
            pair_scale: 0.0,
            vectors: None,
        };
        let (offset, blocks_of_norm_one) = encoder.place_columns()?;
        let offset = encoder.place_pairs(offset, form.pair_knots)?;
        let pairs = encoder.pairs.len();
        let share = if pairs == 0 { 0.0 } else { form.pair_share };
        encoder.dimension = offset as u32;
        encoder.scale = encoder.spec.row_norm * ((1.0 - share) / blocks_of_norm_one.max(1) as f64).sqrt();
        encoder.pair_scale = encoder.spec.row_norm * (share / pairs.max(1) as f64).sqrt();
        encoder.read_weights()?;
        Ok(encoder)
    }
}

/// What is wrong with an encoder.
fn invalid(reason: impl Into<String>) -> DataError {
    DataError::Encoder { reason: reason.into() }
}

/// The place of the next feature, if there may be one.
fn placed(offset: u64) -> Result<u64, DataError> {
    if offset > u64::from(u32::MAX) { Err(invalid("it has more than 2^32 features")) } else { Ok(offset) }
}

impl EncoderSpec {
    /// The options of an encoder of a version that is read, whose columns are all different and have features.
    fn checked_options(&self) -> Result<EncodingOptions, DataError> {
        if !VERSIONS.contains(&self.version) || self.version < self.least_version() {
            let (first, last) = (VERSIONS.start(), VERSIONS.end());
            return Err(invalid(format!(
                "it has version {}, this program reads versions {first} to {last}",
                self.version
            )));
        }
        if self.features.is_empty() {
            return Err(invalid("it has no feature"));
        }
        let (mut hash_bits, mut text_bits) = (1, 1);
        let mut seen = std::collections::HashSet::new();
        if let Some(target) = &self.target {
            seen.insert(target.column.as_str());
        }
        for feature in &self.features {
            if !seen.insert(&feature.column) {
                return Err(invalid(format!("column `{}` is there twice", feature.column)));
            }
            match feature.kind {
                FeatureForm::Numeric { spread: Some(_), .. } if !self.spread => {
                    return Err(invalid(format!("column `{}` is spread where none is", feature.column)));
                }
                FeatureForm::Numeric { trend: Some(_), .. } if self.scales_rows() => {
                    return Err(invalid(format!("column `{}` is monotone where rows are scaled", feature.column)));
                }
                FeatureForm::Hashed { bits } => hash_bits = hash_bits.max(bits),
                FeatureForm::Text { bits } => text_bits = text_bits.max(bits),
                _ => {}
            }
            let no_words = self.text.is_none() && matches!(feature.kind, FeatureForm::Text { bits: 0 });
            if no_words || matches!(feature.kind, FeatureForm::Hashed { bits: 0 }) {
                return Err(invalid(format!("column `{}` has 0 bits", feature.column)));
            }
        }
        Ok(EncodingOptions {
            row_norm: self.row_norm,
            scale_rows: self.scale_rows,
            max_nonzeros: self.max_nonzeros,
            hash_bits,
            text_bits: Some(text_bits),
        })
    }

    fn checked_form(&self) -> Result<EncoderForm, DataError> {
        let text = match &self.text {
            Some(text) => Some(self.checked_text(text)?),
            None => None,
        };
        let form = EncoderForm {
            knots: self.knots,
            fine_knots: self.fine_knots,
            centred: self.centred,
            additive: self.additive,
            spread: self.spread,
            pair_knots: self.pairs.as_ref().map_or(0, |p| p.knots),
            pair_share: self.pairs.as_ref().map_or(0.0, |p| p.share),
            private_pairs: false,
            text,
        };
        form.check()?;
        Ok(form)
    }
}

impl Encoder {
    /// Places the features of all columns; the next free place, and the number of blocks of norm 1.
    fn place_columns(&mut self) -> Result<(u64, u64), DataError> {
        let mut offset = u64::from(self.intercept());
        let mut blocks_of_norm_one = offset;
        for feature in &self.spec.features {
            let (width, shares, form) = feature.prepare(&self.spec, &self.splines)?;
            let next = placed(offset + u64::from(width))?;
            self.blocks.push(FeatureBlock { offset: offset as u32, width, form });
            offset = next;
            blocks_of_norm_one += shares;
        }
        Ok((offset, blocks_of_norm_one))
    }

    /// Places the products of pairs of columns from `offset`; the next free place.
    fn place_pairs(&mut self, mut offset: u64, knots: u32) -> Result<u64, DataError> {
        let mut named = std::collections::HashSet::new();
        for &(first, second) in self.spec.pairs.iter().flat_map(|p| &p.columns) {
            let width = |at: u32| self.spec.features.get(at as usize).and_then(|f| f.kind.levels_in_pairs(knots));
            let (Some(left), Some(right)) = (width(first), width(second)) else {
                return Err(invalid("a pair names a column that it does not have, or that has no products"));
            };
            if first == second || !named.insert((first.min(second), first.max(second))) {
                return Err(invalid("a pair of columns is there twice, or is one column"));
            }
            let pair = PairBlock {
                offset: offset as u32,
                first: first as usize,
                second: second as usize,
                widths: (left, right),
                factor: 1.0,
            };
            offset = placed(offset + pair.width())?;
            self.pairs.push(pair);
        }
        if self.spec.pairs.is_some() && self.pairs.is_empty() {
            return Err(invalid("it has products of no columns"));
        }
        Ok(offset)
    }

    /// Gives each pair its share of the norm, where they are not all alike.
    fn read_weights(&mut self) -> Result<(), DataError> {
        let Some(weights) = self.spec.pairs.as_ref().and_then(|p| p.weights.as_ref()) else { return Ok(()) };
        let sum: f64 = weights.iter().sum();
        if weights.len() != self.pairs.len() || !(sum.is_finite() && weights.iter().all(|weight| *weight > 0.0)) {
            return Err(invalid("its pairs' weights are not one positive number for each"));
        }
        for (pair, weight) in self.pairs.iter_mut().zip(weights) {
            pair.factor = (weight / sum * weights.len() as f64).sqrt();
        }
        Ok(())
    }
}

impl FeatureForm {
    /// Features of the column in a product with another; `None` if it takes part in none.
    pub(super) fn levels_in_pairs(&self, knots: u32) -> Option<u32> {
        match self {
            Self::Numeric { trend: None, .. } if knots > 0 => Some(knots),
            // one for all values that are no level
            Self::Categorical { levels } if levels.len() < MAX_LEVELS_OF_A_PAIR => Some(levels.len() as u32 + 1),
            _ => None,
        }
    }
}

impl FeatureSpec {
    /// What it counts, if it is a number.
    pub(super) fn unit(&self) -> Option<Unit> {
        match self.kind {
            FeatureForm::Numeric { unit, .. } => Some(unit),
            _ => None,
        }
    }

    /// Number of features, share of the squared norm, and what encoding needs.
    fn prepare(&self, spec: &EncoderSpec, splines: &[u32]) -> Result<(u32, u64, PreparedColumn), DataError> {
        let salt = Fnv::salted(&self.column);
        Ok(match &self.kind {
            FeatureForm::Numeric { lower, upper, log, spread, unit, trend } => {
                let bounds = Bounds::new(&self.column, *lower, *upper)?;
                if *log && bounds.lower() < 0.0 {
                    return Err(DataError::declaration(&self.column, "log scale below 0", "use lower >= 0"));
                }
                let scale = NumericScale::new(bounds, *log, spread.clone());
                let form = PreparedColumn::Numeric { scale, unit: *unit, trend: *trend };
                (form.line(spec.centred) + form.splines(splines).iter().sum::<u32>() + 1, 1, form)
            }
            FeatureForm::Categorical { levels } => {
                Kind::categorical(&self.column, levels.clone())?;
                let count = u32::try_from(levels.len()).ok().filter(|c| *c < 1 << 30);
                let count = count
                    .ok_or_else(|| DataError::declaration(&self.column, "too many levels", "write `hash = true`"))?;
                (count + 2, 1, PreparedColumn::Categorical { levels: Levels::new(levels) })
            }
            FeatureForm::Hashed { bits } => ((1 << bits) + 1, 1, PreparedColumn::Hashed { salt, bits: *bits }),
            FeatureForm::Text { bits } => match &spec.text {
                None => {
                    let counted = COUNTS.len() as u32 * spec.text_knots();
                    (counted + (1 << bits), 2, PreparedColumn::Text { salt, bits: *bits, parts: None })
                }
                Some(text) => {
                    let parts = text.parts(*bits);
                    (parts.width(), TEXT_BLOCKS, PreparedColumn::Text { salt, bits: *bits, parts: Some(parts) })
                }
            },
            FeatureForm::Sparse { dimension } => {
                let most = spec.max_nonzeros.map_or(usize::MAX, |s| s as usize);
                (*dimension, 0, PreparedColumn::Sparse { to_row_norm: spec.scale_rows, most })
            }
        })
    }
}
