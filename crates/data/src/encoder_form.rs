//! How columns become features: the options, and the form that is settled.

use super::error::DataError;
use dpopt_privacy::Shown;
use std::fmt::{Display, Formatter};

/// How a text becomes features: counts, words in slots of a hash, and the vector that public vectors of its words give.
///
/// | field | default | range | meaning |
/// |---|---|---|---|
/// | `bits` | 16 | 1..=22, 0 | words fall into 2^bits slots; 0: no words |
/// | `counts` | 0.3 | 0..1 | share of a text's squared norm that its counts have |
/// | `vectors` | 0, or 0.4 with public vectors | 0..1 | share that its vector has; the rest is that of the words |
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TextForm {
    /// log2 of the slots of words.
    #[serde(rename = "text_bits")]
    pub bits: u32,
    /// Share of the squared norm of a row that products have.
    #[serde(rename = "counts_share")]
    pub counts: f64,
    /// Share of the squared norm of a row that products have.
    #[serde(rename = "vectors_share")]
    pub vectors: f64,
}

impl TextForm {
    /// What is taken where nothing is said and no plan chooses.
    pub(crate) fn usual(vectors: bool) -> Self {
        Self { bits: 16, counts: 0.3, vectors: if vectors { 0.4 } else { 0.0 } }
    }

    /// Share of the squared norm that words have.
    pub fn words(&self) -> f64 {
        if self.bits == 0 { 0.0 } else { (1.0 - self.counts - self.vectors).max(0.0) }
    }

    /// All numbers within their ranges.
    pub fn check(&self, has_vectors: bool) -> Result<(), DataError> {
        let error = |option, given: f64, allowed: &str| {
            Err(DataError::Option { option, given: Shown(given).to_string(), allowed: allowed.into() })
        };
        if self.bits > MAX_TEXT_BITS {
            return error("text_bits", f64::from(self.bits), "0 for no words, or 1 to 22");
        }
        if !(0.0..1.0).contains(&self.counts) {
            return error("counts_share", self.counts, "a number from 0, below 1");
        }
        if !(0.0..=1.0).contains(&self.vectors) || self.counts + self.vectors > 1.0 {
            return error("vectors_share", self.vectors, "a number from 0 to 1, with counts_share at most 1");
        }
        if self.vectors > 0.0 && !has_vectors {
            return error("vectors_share", self.vectors, "0 without public_vectors");
        }
        if self.counts + self.vectors == 0.0 && self.bits == 0 {
            return error("text_bits", 0.0, "1 to 22 where a text has neither counts nor vectors");
        }
        Ok(())
    }
}

impl TextForm {
    /// The features of a text in words, each with its share of the norm: `text statistics (30 %), …`.
    pub fn features(&self) -> String {
        let percent = |share: f64| Shown((1000.0 * share).round() / 10.0);
        let mut features = Vec::new();
        if self.counts > 0.0 {
            features.push(format!("text statistics ({} %)", percent(self.counts)));
        }
        if self.words() > 0.0 {
            let share = percent(self.words());
            features.push(format!("words and word pairs hashed to 2^{} features ({share} %)", self.bits));
        }
        if self.vectors > 0.0 {
            features.push(format!("public word vectors ({} %)", percent(self.vectors)));
        }
        features.join(", ")
    }
}

impl Display for TextForm {
    fn fmt(&self, out: &mut Formatter<'_>) -> std::fmt::Result {
        write!(out, "text columns: {}", self.features())
    }
}

/// Most bits of a hash of words.
pub(crate) const MAX_TEXT_BITS: u32 = 22;

/// How numbers, texts, and pairs of columns, become features. Chosen by the plan unless the user fixes it.
///
/// | field | default | range | meaning |
/// |---|---|---|---|
/// | `knots` | 8 | 0, 2..=64 | linear B-splines per numeric column, beside its linear term; 0: the linear term alone |
/// | `fine_knots` | 0 | 0, 3..=256 | more of them on a second scale; 0: none |
/// | `centred` | false | | numbers (the line `2u - 1` in place of `1 - u, u`) and up to 4 levels lie around 0, and rows are scaled to norm `row_norm` |
/// | `additive` | false | | rows are not scaled, so that what a column adds does not depend on the others |
/// | `spread` | false | | numbers are mapped so that they lie evenly, by a private histogram of their column |
/// | `pair_knots` | 0 | 0, 2..=16 | linear B-splines of a number in a product with another column; 0: no products |
/// | `pair_share` | 0 | 0..1 | share of the squared norm of a row that products have together |
/// | `private_pairs` | false | | which pairs have products, and how the share is divided among them, is found by a first private model |
/// | `text` | none | | how texts become features; none: as counts on linear B-splines, and words and pairs of words in slots, half and half |
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct EncoderForm {
    /// Linear B-splines per numeric column.
    pub knots: u32,
    /// Linear B-splines of a second, finer scale per numeric column.
    pub fine_knots: u32,
    /// Whether numbers and few levels lie around 0, and rows are scaled to their norm.
    pub centred: bool,
    /// Whether rows are not scaled though they are centred, so that what a column adds does not depend on the others.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub additive: bool,
    /// Whether numbers get the private quantile transform: they are mapped so that they lie evenly, by private histograms.
    pub spread: bool,
    /// Knots of a numeric column in products of columns.
    pub pair_knots: u32,
    /// Share of the squared norm of a row that products have.
    pub pair_share: f64,
    /// Whether a first private model says which pairs have products, and how much of the norm each has.
    pub private_pairs: bool,
    /// How texts become features; `None` as in the first versions.
    #[serde(flatten)]
    pub text: Option<TextForm>,
}

impl Default for EncoderForm {
    fn default() -> Self {
        Self {
            knots: 8,
            fine_knots: 0,
            centred: false,
            additive: false,
            spread: false,
            pair_knots: 0,
            pair_share: 0.0,
            private_pairs: false,
            text: None,
        }
    }
}

impl Display for EncoderForm {
    fn fmt(&self, out: &mut Formatter<'_>) -> std::fmt::Result {
        write!(out, "numeric columns: {}", self.numeric_features())?;
        if let Some(interactions) = self.interactions() {
            write!(out, "; {interactions}")?;
        }
        if let Some(text) = &self.text {
            write!(out, "; {text}")?;
        }
        Ok(())
    }
}

impl EncoderForm {
    /// The features of a numeric column: `linear term and 8-knot spline`.
    pub fn numeric_features(&self) -> String {
        let mut features = String::from(if self.spread { "private quantile transform, " } else { "" });
        features.push_str(if self.centred { "centred linear term" } else { "linear term" });
        for (i, knots) in self.scales().iter().enumerate() {
            features.push_str(&format!("{} {knots}-knot spline", if i == 0 { " and" } else { ", then" }));
        }
        features
    }

    /// The products of columns, none where there are none: `pairwise interactions on 4 × 4 grids (20 % of …)`.
    pub fn interactions(&self) -> Option<String> {
        let (knots, share) = (self.pair_knots, Shown(100.0 * self.pair_share));
        let which = if self.private_pairs { " of pairs chosen by a first private model" } else { "" };
        (knots > 0).then(|| {
            format!("pairwise interactions{which} on {knots} × {knots} grids ({share} % of the squared row norm)")
        })
    }

    /// Numbers of linear B-splines of all scales.
    pub fn scales(&self) -> Vec<u32> {
        [self.knots, self.fine_knots].into_iter().filter(|knots| *knots > 0).collect()
    }

    /// All numbers within their ranges.
    pub fn check(&self) -> Result<(), DataError> {
        for (option, given, low, high) in [
            ("knots", self.knots, 2, 64),
            ("fine_knots", self.fine_knots, 3, 256),
            ("pair_knots", self.pair_knots, 2, 16),
        ] {
            if given != 0 && !(low..=high).contains(&given) {
                let allowed = format!("0 for none, or {low} to {high}");
                return Err(DataError::Option { option, given: given.to_string(), allowed });
            }
        }
        if self.fine_knots != 0 && self.fine_knots <= self.knots {
            let allowed = "more than knots".into();
            return Err(DataError::Option { option: "fine_knots", given: self.fine_knots.to_string(), allowed });
        }
        let share = self.pair_share;
        let shared = if self.pair_knots == 0 { share == 0.0 } else { share > 0.0 && share < 1.0 };
        if !shared {
            let allowed = "a number above 0 and below 1 where there are products".into();
            return Err(DataError::Option { option: "pair_share", given: Shown(share).to_string(), allowed });
        }
        Ok(())
    }
}

/// Which columns are multiplied.
#[derive(Clone, Debug, PartialEq)]
pub enum Pairs {
    /// No products of columns.
    None,
    /// Each with each, where both are numbers or have declared levels.
    All,
    /// Products of those pairs that a first private model finds to matter.
    Private,
    /// The products of these pairs, by names of columns.
    Listed(Vec<(String, String)>),
}

/// The parts of an [`EncoderForm`] that the user fixes; the plan chooses the rest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AskedForm {
    /// Linear B-splines per numeric column.
    pub knots: Option<u32>,
    /// Linear B-splines of a second, finer scale per numeric column.
    pub fine_knots: Option<u32>,
    /// Whether numbers and few levels lie around 0.
    pub centred: Option<bool>,
    /// Whether what a column adds does not depend on the others: rows are not scaled.
    pub additive: Option<bool>,
    /// Whether numbers get the private quantile transform: they are mapped so that they lie evenly, by private histograms.
    pub spread: Option<bool>,
    /// Knots of a numeric column in products of columns.
    pub pair_knots: Option<u32>,
    /// Share of the squared norm of a row that products have.
    pub pair_share: Option<f64>,
    /// Which columns are multiplied.
    pub pairs: Option<Pairs>,
    /// Share of a text's squared norm that its counts have.
    pub counts_share: Option<f64>,
    /// Share of a text's squared norm that its public vector has.
    pub vectors_share: Option<f64>,
}

impl AskedForm {
    /// What is said, and `rest` where nothing is.
    pub fn or(&self, rest: EncoderForm) -> EncoderForm {
        EncoderForm {
            knots: self.knots.unwrap_or(rest.knots),
            fine_knots: self.fine_knots.unwrap_or(rest.fine_knots),
            centred: self.centred.unwrap_or(rest.centred),
            additive: self.additive.unwrap_or(rest.additive),
            spread: self.spread.unwrap_or(rest.spread),
            pair_knots: self.pair_knots.unwrap_or(rest.pair_knots),
            pair_share: self.pair_share.unwrap_or(rest.pair_share),
            private_pairs: self.pairs.as_ref().map_or(rest.private_pairs, |pairs| *pairs == Pairs::Private),
            text: rest.text.map(|text| TextForm {
                counts: self.counts_share.unwrap_or(text.counts),
                vectors: self.vectors_share.unwrap_or(text.vectors),
                ..text
            }),
        }
    }
}
