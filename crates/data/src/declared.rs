//! What can be declared of a column, and constants of the encoder.

use super::encoder_form::MAX_TEXT_BITS;
use super::error::{DataError, listed};
use super::numerals::{Ticks, Unit};
use dpopt_privacy::Shown;

/// How a numeric column is mapped to [0, 1] before the linear B-splines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transform {
    /// Logarithmic if `lower >= 0` and `upper >= 1000·max(lower, 1)`, else linear.
    #[default]
    Auto,
    /// Linear: `(v-lower)/(upper-lower)`.
    Linear,
    /// `(ln(1+v)-ln(1+lower))/(ln(1+upper)-ln(1+lower))`; needs `lower >= 0`.
    Log,
}

/// Which way predictions may move where a number grows and all else stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Trend {
    /// They never fall.
    Increasing,
    /// They never rise.
    Decreasing,
}

impl Trend {
    /// Its word in a bounds file.
    pub fn word(self) -> &'static str {
        match self {
            Self::Increasing => "increasing",
            Self::Decreasing => "decreasing",
        }
    }

    /// What is promised of predictions by so many columns, as the end of a sentence; nothing where there are none.
    pub fn in_words<'a>(all: impl Iterator<Item = (&'a str, Self)>) -> Option<String> {
        let (rising, falling): (Vec<_>, Vec<_>) = all.partition(|(_, trend)| *trend == Self::Increasing);
        let part = |how: &str, columns: &[(&str, Self)]| {
            let names: Vec<String> = columns.iter().map(|(name, _)| (*name).to_string()).collect();
            (!names.is_empty()).then(|| format!("predictions never {how} with {}", listed(&names)))
        };
        let parts: Vec<String> = [part("fall", &rising), part("rise", &falling)].into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

/// A public range: finite, `lower < upper`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    lower: f64,
    upper: f64,
    unit: Unit,
    /// Of a column of points or spans of time: whether they count days, and not the ticks in which the column is stored.
    in_days: bool,
}

impl Bounds {
    /// Checks the range of `column`.
    pub fn new(column: &str, lower: f64, upper: f64) -> Result<Self, DataError> {
        let error = |what: String, fix: &str| Err(DataError::declaration(column, what, fix));
        let (low, high) = (Shown(lower), Shown(upper));
        if !lower.is_finite() || !upper.is_finite() || !(upper - lower).is_finite() {
            return error(format!("bounds {low} to {high} are not finite"), "give two finite numbers");
        }
        if lower > upper {
            return error(format!("lower = {low} is above upper = {high}"), "swap them");
        }
        if lower == upper {
            return error(
                format!("lower and upper are both {low}, so that it holds one value only"),
                "widen the range or write `ignore = true`",
            );
        }
        Ok(Self { lower, upper, unit: Unit::Number, in_days: false })
    }

    /// Checks the range of `column` in days: of dates, or of spans of time.
    pub fn of_time(column: &str, lower: f64, upper: f64, unit: Unit) -> Result<Self, DataError> {
        Ok(Self { unit, in_days: true, ..Self::new(column, lower, upper)? })
    }

    /// Numbers as cells of the column are read: of points or spans of time, days.
    pub(crate) fn as_read(self) -> Self {
        Self { in_days: true, ..self }
    }

    /// The range of a column of points or spans of time that is stored in `ticks`; plain numbers are read as ticks.
    pub(crate) fn stored_in(self, ticks: Ticks) -> Self {
        if self.in_days {
            return Self { unit: ticks.unit, ..self };
        }
        let each = ticks.per_day as f64;
        Self { lower: self.lower / each, upper: self.upper / each, unit: ticks.unit, in_days: true }
    }

    /// What the numbers of the range count.
    pub fn unit(&self) -> Unit {
        self.unit
    }

    /// The smallest value; smaller ones are clipped to it.
    pub fn lower(&self) -> f64 {
        self.lower
    }

    /// The largest value; larger ones are clipped to it.
    pub fn upper(&self) -> f64 {
        self.upper
    }
}

/// What a column is declared to hold.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// Numbers; without bounds they must be found privately before anything can be encoded.
    Numeric {
        /// Public range of the column; `None` if it is to be found privately.
        bounds: Option<Bounds>,
        /// How it is mapped to [0, 1].
        transform: Transform,
    },
    /// One of some public levels.
    Categorical {
        /// The levels, distinct; for a target with two, the second is the positive class.
        levels: Vec<String>,
    },
    /// Any value; its hash chooses one of some slots.
    Hashed,
    /// Free text, encoded by its words.
    Text,
    /// A column that is not used.
    Ignored,
}

impl Kind {
    /// Numbers in `lower..=upper`, transform chosen by the range.
    pub fn numeric(column: &str, lower: f64, upper: f64) -> Result<Self, DataError> {
        Ok(Self::Numeric { bounds: Some(Bounds::new(column, lower, upper)?), transform: Transform::Auto })
    }

    /// Public levels: at least one, distinct.
    pub fn categorical(column: &str, levels: Vec<String>) -> Result<Self, DataError> {
        if levels.is_empty() {
            return Err(DataError::declaration(column, "levels is empty", "list its values, or write `hash = true`"));
        }
        // cells are read without white space around them
        let levels: Vec<String> = levels.iter().map(|l| l.trim().to_string()).collect();
        let mut sorted: Vec<&String> = levels.iter().collect();
        sorted.sort();
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(DataError::declaration(column, format!("level `{}` is listed twice", pair[0]), "list it once"));
        }
        Ok(Self::Categorical { levels })
    }

    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Numeric { .. } => "numeric",
            Self::Categorical { .. } | Self::Hashed => "categorical",
            Self::Text => "text",
            Self::Ignored => "ignored",
        }
    }
}

/// Public constants of the encoder.
///
/// | field | default | range | meaning |
/// |---|---|---|---|
/// | `hash_bits` | 12 | 1..=20 | a hashed column has 2^bits slots: two of 100 levels share one with chance 0.7 |
/// | `text_bits` | the plan, or 16 | 0..=22 | a text column has 2^bits word slots; 0: none |
/// | `row_norm` | 1 | > 0 | every encoded row has l2 norm at most this, exactly |
/// | `scale_rows` | false | | LIBSVM: scale each row to the row norm instead of clipping only |
/// | `max_nonzeros` | none | >= 1 | LIBSVM and lists of indices: entries of a row that are kept, the largest ones |
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EncodingOptions {
    /// log2 of the slots of a hashed column.
    pub hash_bits: u32,
    /// log2 of the word slots of a text column; 0: no words. `None`: the plan chooses, or 16.
    pub text_bits: Option<u32>,
    /// l2 norm of a row at most.
    pub row_norm: f64,
    /// LIBSVM rows are scaled to the row norm.
    pub scale_rows: bool,
    /// Entries of a sparse vector that are kept: the largest in absolute value, of equal ones the first. What makes the number of
    /// non-zeros of a row a public fact.
    pub max_nonzeros: Option<u32>,
}

impl Default for EncodingOptions {
    fn default() -> Self {
        Self { hash_bits: 12, text_bits: None, row_norm: 1.0, scale_rows: false, max_nonzeros: None }
    }
}

/// Bits of the hash of words where nothing is said and no plan chooses.
pub(crate) const TEXT_BITS: u32 = 16;

impl EncodingOptions {
    /// All options within their ranges.
    pub fn check(&self) -> Result<(), DataError> {
        let text_bits = self.text_bits.unwrap_or(TEXT_BITS);
        for (option, given, low, high) in
            [("hash_bits", self.hash_bits, 1, 20), ("text_bits", text_bits, 0, MAX_TEXT_BITS)]
        {
            if given < low || given > high {
                return Err(DataError::Option {
                    option,
                    given: given.to_string(),
                    allowed: format!("{low} to {high}"),
                });
            }
        }
        if !(self.row_norm > 0.0 && self.row_norm <= 1e6) {
            let given = Shown(self.row_norm).to_string();
            return Err(DataError::Option {
                option: "row_norm",
                given,
                allowed: "a number above 0, at most 1e6".into(),
            });
        }
        if self.max_nonzeros == Some(0) {
            return Err(DataError::Option { option: "max_nonzeros", given: "0".into(), allowed: "1 or more".into() });
        }
        Ok(())
    }
}
