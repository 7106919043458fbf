//! Declarations laid over the columns of a table: what becomes a feature, and what is the target.

use super::declared::{Bounds, EncodingOptions, Trend};
use super::encoder_form::EncoderForm;
use super::error::DataError;
use super::numerals::Unit;
use super::word_vectors::WordVectors;
use std::sync::Arc;

/// How a feature column will be encoded.
#[derive(Clone, Debug, PartialEq)]
pub enum FeatureKind {
    /// Linear B-splines on a range (`None`: still to be found privately).
    Numeric {
        /// The public range; `None` if it is still to be found privately.
        bounds: Option<Bounds>,
        /// Whether the scale is logarithmic.
        log: bool,
        /// Which way predictions may move with it, if that is declared: it has no products then.
        trend: Option<Trend>,
    },
    /// One slot per level, one for any other, one for missing.
    Categorical {
        /// The declared levels, in order.
        levels: Vec<String>,
    },
    /// 2^bits slots and one for missing.
    Hashed {
        /// log2 of the slots.
        bits: u32,
    },
    /// Words and bigrams in 2^bits slots, and some counts.
    Text {
        /// log2 of the slots.
        bits: u32,
    },
    /// A sparse vector as it is.
    Sparse {
        /// Dimension of the sparse vector.
        dimension: u32,
    },
}

impl FeatureKind {
    /// Whether it can be multiplied with another column: its number of features does not grow beyond use.
    pub fn has_products(&self) -> bool {
        match self {
            Self::Numeric { trend, .. } => trend.is_none(),
            Self::Categorical { levels } => levels.len() < MAX_LEVELS_OF_A_PAIR,
            _ => false,
        }
    }

    /// Its features in a product with another column, with `knots` for a number; 0 if it has none.
    fn width_in_pairs(&self, knots: u32) -> u64 {
        match self {
            Self::Numeric { .. } if self.has_products() => u64::from(knots),
            Self::Categorical { levels } if self.has_products() => levels.len() as u64 + 1,
            _ => 0,
        }
    }
}

/// A column of more levels takes part in no product.
pub(crate) const MAX_LEVELS_OF_A_PAIR: usize = 1 << 12;

/// What the target is.
#[derive(Clone, Debug, PartialEq)]
pub enum TargetRule {
    /// One of some classes. Two: targets are -1 (first) and +1 (second); more: their index.
    Classes {
        /// Declared labels in order.
        levels: Vec<String>,
    },
    /// A number, clipped to the range and scaled to [-1, 1].
    Number {
        /// Smallest value of the range.
        lower: f64,
        /// Largest value of the range.
        upper: f64,
        /// What the numbers of the target count.
        unit: Unit,
    },
    /// Nothing is declared: levels must be found privately ([`label_counts`](super::label_counts)) or declared.
    Undeclared,
}

/// Declarations laid over the columns of a table: all that is needed to plan, before any row is read.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    /// Constants of the encoder.
    pub options: EncodingOptions,
    /// How numbers and products become features.
    pub form: EncoderForm,
    /// Columns that are multiplied, by their places among the features.
    pub pairs: Vec<(u32, u32)>,
    /// Feature columns in the table's order.
    pub features: Vec<(String, FeatureKind)>,
    /// The target, if one was named.
    pub target: Option<(String, TargetRule)>,
    /// Columns that nothing declares: hashed as categorical. Public; to be listed in the plan and the report, because a
    /// forgotten numeric column would be among them.
    pub undeclared: Vec<String>,
    /// Columns that are not used.
    pub ignored: Vec<String>,
    /// Public vectors of the words of texts.
    pub vectors: Option<Arc<WordVectors>>,
}

impl Layout {
    /// The places of all pairs of columns that have products: numbers, and declared levels.
    pub fn products(&self) -> Vec<(u32, u32)> {
        let able: Vec<u32> =
            (0u32..).zip(&self.features).filter(|(_, (_, kind))| kind.has_products()).map(|(i, _)| i).collect();
        let after = |i: usize| able[i + 1..].iter().map(move |j| (i, *j));
        (0..able.len()).flat_map(after).map(|(i, j)| (able[i], j)).collect()
    }

    /// How many pairs that is.
    pub fn count_products(&self) -> u64 {
        let able = self.features.iter().filter(|(_, kind)| kind.has_products()).count() as u64;
        able * able.saturating_sub(1) / 2
    }

    /// How many features products of all these pairs have, with `knots` for a number.
    pub fn product_features(&self, knots: u32) -> u64 {
        // Σ_{i<j} w_i·w_j
        let (sum, squares) = self
            .features
            .iter()
            .map(|(_, kind)| kind.width_in_pairs(knots))
            .fold((0u64, 0u64), |(sum, squares), w| (sum.saturating_add(w), squares.saturating_add(w * w)));
        sum.saturating_mul(sum).saturating_sub(squares) / 2
    }

    /// The places of two columns that are to be multiplied; `declared`: names that say whether the table's are column names, for an error.
    pub(super) fn product(&self, a: &str, b: &str, declared: &[&str]) -> Result<(u32, u32), DataError> {
        let place = |name: &str| {
            let names: Vec<&str> = self.features.iter().map(|(name, _)| name.as_str()).collect();
            let at = names.iter().position(|n| *n == name);
            let at = at.ok_or_else(|| DataError::no_such_column("the column of a pair", name, &names, declared))?;
            if self.features[at].1.has_products() {
                return Ok(at as u32);
            }
            let (what, fix) = match self.features[at].1 {
                FeatureKind::Numeric { .. } => (
                    "is in a pair and declared monotone, and in a product it would move predictions both ways",
                    "leave out the pair or `monotone`",
                ),
                _ => (
                    "is in a pair, but is not a number and has no declared levels",
                    "declare its range or its levels, or leave the pair out",
                ),
            };
            Err(DataError::declaration(name, what, fix))
        };
        let (a_at, b_at) = (place(a)?, place(b)?);
        if a_at == b_at {
            return Err(DataError::declaration(a, "is paired with itself", "name two columns"));
        }
        Ok((a_at.min(b_at), a_at.max(b_at)))
    }

    /// These columns as features of the form `form`; with products of all columns if the form has products and no pairs are named.
    pub fn with_form(&self, form: EncoderForm) -> Self {
        let pairs = match form.pair_knots {
            0 => Vec::new(),
            _ if self.pairs.is_empty() => self.products(),
            _ => self.pairs.clone(),
        };
        let layout = Self { pairs, ..self.clone() };
        Self { form: layout.form_of_pairs(form), ..layout }
    }

    /// Without products where there are no pairs.
    pub(super) fn form_of_pairs(&self, form: EncoderForm) -> EncoderForm {
        if self.pairs.is_empty() {
            EncoderForm { pair_knots: 0, pair_share: 0.0, private_pairs: false, ..form }
        } else {
            form
        }
    }

    /// Names of the columns with which predictions may move one way only, and which way.
    pub fn trends(&self) -> impl Iterator<Item = (&str, Trend)> {
        self.features.iter().filter_map(|(name, kind)| match kind {
            FeatureKind::Numeric { trend, .. } => Some((name.as_str(), (*trend)?)),
            _ => None,
        })
    }

    /// Whether a column is text.
    pub fn has_text(&self) -> bool {
        self.features.iter().any(|(_, kind)| matches!(kind, FeatureKind::Text { .. }))
    }

    /// A form as text, as far as these columns are concerned.
    pub fn in_words(&self, form: &EncoderForm) -> String {
        let numbers = self.features.iter().any(|(_, kind)| matches!(kind, FeatureKind::Numeric { .. }));
        let words = match &form.text {
            Some(text) if !numbers && form.pair_knots == 0 => text.to_string(),
            _ => form.to_string(),
        };
        Trend::in_words(self.trends()).map_or(words.clone(), |trends| format!("{words}; {trends}"))
    }

    /// Numeric columns whose range is still to be found privately.
    pub fn unbounded(&self) -> Vec<String> {
        self.features
            .iter()
            .filter(|(_, kind)| matches!(kind, FeatureKind::Numeric { bounds: None, .. }))
            .map(|(name, _)| name.clone())
            .collect()
    }
}
