//! The stored form of an encoder, and how it is checked and made ready again.

use super::Encoder;
use super::block::{FeatureBlock, PreparedColumn};
use super::numeric::{LINEAR, NumericScale};
use crate::error::DataError;
use crate::hashing::Fnv;
use crate::schema::{Bounds, EncodingOptions, Kind};
use crate::target::{TargetReader, TargetSpec};
use crate::text::COUNTS;

/// Version of the encoder's stored form; a change of any feature's meaning raises it.
pub(super) const VERSION: u32 = 1;

/// Stored form of an [`Encoder`].
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EncoderSpec {
    pub(super) version: u32,
    pub(super) knots: u32,
    pub(super) row_norm: f64,
    pub(super) scale_rows: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) max_nonzeros: Option<u32>,
    pub(super) features: Vec<FeatureSpec>,
    pub(super) target: Option<NamedTarget>,
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
    Numeric { lower: f64, upper: f64, log: bool },
    Categorical { levels: Vec<String> },
    Hashed { bits: u32 },
    Text { bits: u32 },
    Sparse { dimension: u32 },
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
            max_nonzeros: spec.max_nonzeros,
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
    fn prepare(&self, options: &EncodingOptions) -> Result<(u32, u64, PreparedColumn), DataError> {
        let salt = Fnv::salted(&self.column);
        Ok(match &self.kind {
            FeatureForm::Numeric { lower, upper, log } => {
                let bounds = Bounds::new(&self.column, *lower, *upper)?;
                if *log && bounds.lower() < 0.0 {
                    return Err(DataError::declaration(&self.column, "log scale below 0", "use lower >= 0"));
                }
                let scale = NumericScale::new(bounds, *log);
                (LINEAR + options.knots + 1, 1, PreparedColumn::Numeric { scale })
            }
            FeatureForm::Categorical { levels } => {
                Kind::categorical(&self.column, levels.clone())?;
                let count = u32::try_from(levels.len()).ok().filter(|c| *c < 1 << 30);
                let count = count
                    .ok_or_else(|| DataError::declaration(&self.column, "too many levels", "write `hash = true`"))?;
                let slots = levels.iter().zip(0..).map(|(level, i)| (level.trim().as_bytes().into(), i)).collect();
                (count + 2, 1, PreparedColumn::Categorical { slots })
            }
            FeatureForm::Hashed { bits } => ((1 << bits) + 1, 1, PreparedColumn::Hashed { salt, bits: *bits }),
            FeatureForm::Text { bits } => {
                (COUNTS.len() as u32 * options.knots + (1 << bits), 2, PreparedColumn::Text { salt, bits: *bits })
            }
            FeatureForm::Sparse { dimension } => {
                let most = options.max_nonzeros.map_or(usize::MAX, |s| s as usize);
                (*dimension, 0, PreparedColumn::Sparse { to_row_norm: options.scale_rows, most })
            }
        })
    }
}
