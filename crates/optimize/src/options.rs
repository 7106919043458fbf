//! Options of methods. An option is one [`Setting`], kept where the method that has it is, and a method has the
//! options that it [asks for](OptionReader::get) and no others: what it does not ask for is refused by name, so nothing that a user says is
//! ignored. Flags of the command line, keywords of Python and the tables of the documentation are made from the same
//! descriptions ([`Registry::catalogue`](super::Registry::catalogue)).

pub mod common;
mod reader;
mod setting;
mod value;

pub(crate) use reader::NO_SUCH_OPTION;
pub use reader::{OptionReader, options_of};
pub use setting::{Choice, Form, NORMS, OptionInfo, Range, Setting};
pub use value::Value;

use dpopt_objective::loss::embedding::Embedding;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The method and what a user fixes of it, by name; everything else is chosen from public facts.
///
/// ```
/// use dpopt_optimize::MethodOptions;
/// let options = MethodOptions::of("noisy-sgd").with("clip-norm", 0.5).with("steps", 100);
/// assert_eq!(options.names().collect::<Vec<_>>(), ["clip_norm", "steps"]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MethodOptions {
    /// Only this method (its name in the registry).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Index of the feature that is always kept, not counted and not decayed. Set by whoever encodes the rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intercept: Option<u32>,
    /// What that feature is in every row, or nearly. Set by whoever encodes the rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub constant: Option<f64>,
    /// An embedding model instead of a linear one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub embedding: Option<Embedding>,
    /// The target's range is declared, and holds every target. Set by whoever reads the targets.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub declared_range: bool,
    /// Rows are in remote partitions, which answer with sums only.
    #[serde(default, rename = "elsewhere", skip_serializing_if = "std::ops::Not::not")]
    pub remote: bool,
    /// What is said of single options.
    #[serde(flatten)]
    said: BTreeMap<String, Value>,
}

/// A flag that is not set says nothing.
const NOT_SAID: Value = Value::Flag(false);

impl MethodOptions {
    /// Only this method, as it is by itself.
    pub fn of(method: impl Into<String>) -> Self {
        Self { method: Some(method.into()), ..Self::default() }
    }

    /// Share of the budget (of μ²) for the scale of the scores, if the user gave one.
    pub fn calibration(&self) -> Option<f64> {
        OptionReader::new(self).get(&common::CALIBRATION)
    }

    /// Share of targets that prediction intervals are to hold, if they are asked for.
    pub fn intervals(&self) -> Option<f64> {
        OptionReader::new(self).get(&common::INTERVALS)
    }

    /// Whether anything was said of how a method learns; what happens after it says nothing of that.
    pub fn tunes(&self) -> bool {
        self.names().any(|name| name != common::CALIBRATION.name() && name != common::INTERVALS.name())
    }

    /// Whether the weights are to stay within a ball or a box that was said.
    pub fn bounds_weights(&self) -> bool {
        ["ball_radius", "box_radius", "l1_norm"].iter().any(|name| self.given(name).is_some())
    }

    /// These options, for this method only.
    pub fn by(self, method: impl Into<String>) -> Self {
        Self { method: Some(method.into()), ..self }
    }

    /// With one option said; an unknown name or value is refused by whoever plans.
    pub fn with(mut self, option: &str, value: impl Into<Value>) -> Self {
        self.said.insert(option.replace('-', "_"), value.into());
        self
    }

    /// With the feature that is always kept, not counted and not decayed.
    #[must_use]
    pub fn with_intercept(mut self, feature: u32) -> Self {
        self.intercept = Some(feature);
        self
    }

    /// With all that `more` says of single options, too.
    #[must_use]
    pub fn with_all(mut self, more: &Self) -> Self {
        self.said.extend(more.said.clone());
        self
    }

    /// These options with one more, as [`with`](Self::with), if there is a value.
    pub fn with_if<T: Into<Value>>(self, option: &str, value: Option<T>) -> Self {
        match value {
            Some(value) => self.with(option, value),
            None => self,
        }
    }

    /// What is said of an option.
    pub fn given(&self, option: &str) -> Option<&Value> {
        self.said.get(option).filter(|value| **value != NOT_SAID)
    }

    /// All that was said of single options, as it was said.
    pub fn said_values(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.said.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// With only those of the options that were said whose name `keeps` takes.
    #[must_use]
    pub fn saying_only(mut self, keeps: impl Fn(&str) -> bool) -> Self {
        self.said.retain(|name, _| keeps(name));
        self
    }

    /// Names of the options of which something is said.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.said.iter().filter(|(_, value)| **value != NOT_SAID).map(|(name, _)| name.as_str())
    }
}

/// A word that the user typed, short enough for a message.
pub fn shown(word: &str) -> String {
    match word.char_indices().nth(40) {
        Some((end, _)) => format!("{}…", &word[..end]),
        None => word.to_string(),
    }
}

/// Why a published method is refused by name: as it was published it is not private.
///
/// ```
/// let refused = dpopt_optimize::options::not_private("localized-clipped-sgd").unwrap();
/// assert!(refused.contains("not differentially private") && refused.contains("clipped-sgd"));
/// ```
pub fn not_private(method: &str) -> Option<String> {
    matches!(method, "localized-clipped-sgd" | "clip-count-sgd").then(|| {
        format!(
            "`{method}` is not differentially private as published: the noise of its threshold is redrawn only when \
             a clip fires, which reveals the record that made it fire (docs/proofs/certified-clipped-sgd.md); choose \
             clipped-sgd, whose test of the same count is proved, or phased-sgd where each record has one score, or \
             noisy-sgd for an objective of your own"
        )
    })
}

/// The method that the field calls by another name.
pub(crate) fn usual_name(name: &str) -> Option<&'static str> {
    match &*name.to_lowercase().replace('_', "-") {
        "dp-sgd" | "dpsgd" => Some("noisy-sgd"),
        "dp-gd" | "dpgd" => Some("noisy-gradient-descent"),
        _ => None,
    }
}

/// The name that was probably meant.
pub fn nearest<'a>(word: &str, names: &[&'a str]) -> Option<&'a str> {
    names
        .iter()
        .map(|name| (strsim::jaro_winkler(word, name), *name))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}
