//! What a released file says of itself: a model, a report, a mean, an aggregate, a game.

use crate::guarantee::Guarantee;
use crate::provenance::Provenance;
use crate::recall::{Notice, Recalls};
use dpopt_optimize::plan::Grade;
use dpopt_privacy::ledger::Receipt;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use thiserror::Error;

/// What kind of thing was released.
#[derive(Clone, Debug, PartialEq)]
pub enum Product {
    /// A model that predicts one of so many classes, if their number is known.
    Classifier(Option<usize>),
    /// A model that predicts a number.
    Regressor,
    /// A model of which the file does not say what it predicts.
    Model,
    /// The mean of vectors.
    Mean,
    /// Means of so many columns.
    Means(usize),
    /// The parameters at which a loss is small.
    Minimum,
    /// What the answers of a program for groups of records agree on.
    Agreed,
    /// The plays of a game of many rounds.
    Game,
    /// Something that has a guarantee.
    Unknown,
}

/// A column that a model reads, by its declaration.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Column {
    pub(super) name: String,
    /// What it is, in words.
    pub(super) kind: String,
}

/// Facts of a released file. None of them depends on a record but by what was released.
#[derive(Clone, Debug)]
pub struct Release {
    /// What was promised, stage by stage.
    pub guarantee: Guarantee,
    /// What kind of thing was released.
    pub product: Product,
    /// The charge that paid for it.
    pub receipt: Option<Receipt>,
    /// Version of the program that wrote the file, where the file says it.
    pub software: Option<String>,
    /// The build of that program, where the file says it.
    pub build: Option<Provenance>,
    /// What recalls are held against, of a released file.
    pub(super) recall_facts: Option<crate::recall::Facts>,
    pub(super) rows: Option<u64>,
    pub(super) units: Option<u64>,
    pub(super) method: Option<String>,
    pub(super) target: Option<String>,
    pub(super) loss: Option<String>,
    pub(super) columns: Vec<Column>,
    pub(super) preparation: Vec<String>,
    pub(super) assumptions: Vec<String>,
    /// What is known of how good it is, one sentence each.
    pub(super) quality: Vec<String>,
}

/// A file that holds no guarantee.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("it holds no guarantee that this version of dpopt can read")]
pub struct Unreadable;

/// A file as it stands. What this version does not know is passed over.
#[derive(Deserialize)]
struct Document {
    guarantee: Guarantee,
    #[serde(default)]
    receipt: Option<Receipt>,
    #[serde(default)]
    software: Option<String>,
    #[serde(default)]
    provenance: Option<Provenance>,
    #[serde(default)]
    loss: Value,
    #[serde(default)]
    encoder: Value,
    #[serde(default)]
    embedding: Value,
    #[serde(default)]
    weights: Option<IgnoredAny>,
    #[serde(default)]
    answer: Value,
    #[serde(default)]
    facts: Value,
    #[serde(default)]
    candidates: Value,
    /// Place of the method that ran.
    #[serde(default, alias = "chosen")]
    place: Option<usize>,
    #[serde(default)]
    score: Value,
    #[serde(default)]
    assumptions: Vec<String>,
    #[serde(default)]
    error_bound: Option<f64>,
    #[serde(default)]
    indices: Option<IgnoredAny>,
    #[serde(default)]
    columns: Value,
    #[serde(default)]
    confidence: Option<f64>,
    #[serde(default)]
    groups: Option<u64>,
    #[serde(default)]
    game: Value,
}

impl Release {
    /// Reads a file of any kind that has a guarantee.
    ///
    /// # Errors
    /// There is none in it, or it is not JSON.
    pub fn read(file: &[u8]) -> Result<Self, Unreadable> {
        let release = serde_json::from_slice(file).map_err(|_| Unreadable).map(Self::of)?;
        Ok(Self { recall_facts: crate::recall::Facts::of_release(file), ..release })
    }

    /// What a file would say that holds these fields.
    pub(crate) fn of_value(value: Value) -> Result<Self, Unreadable> {
        serde_json::from_value(value).map_err(|_| Unreadable).map(Self::of)
    }

    fn of(document: Document) -> Self {
        let product = document.product();
        let software = document.software.as_deref().map(|software| software.trim_start_matches("dpopt ").to_string());
        let features = document.encoder["features"].as_array().map_or(&[][..], Vec::as_slice);
        let facts = &document.facts;
        let target = [&facts["target"], &document.encoder["target"]["column"]].into_iter().find_map(text);
        let chosen = document.place.and_then(|place| document.candidates.get(place));
        Self {
            product,
            software,
            recall_facts: None,
            rows: facts["rows"].as_u64(),
            units: facts["units"].as_u64(),
            method: chosen.and_then(|row| text(&row["method"])),
            target,
            loss: text(&document.loss["name"]),
            columns: features.iter().filter_map(column).collect(),
            preparation: texts(&facts["preparation"]),
            quality: document.quality(chosen),
            build: document.provenance,
            receipt: document.receipt,
            assumptions: document.assumptions,
            guarantee: document.guarantee,
        }
    }

    /// Why it must not be called private, if so.
    pub fn no_guarantee(&self) -> Option<&'static str> {
        if self.guarantee.insecure_seed {
            return Some("it was made with a fixed seed, so its noise is predictable");
        }
        let research = self.guarantee.grade == Grade::Research;
        research.then_some(
            "it is of research grade: its privacy is not proved, or rests on an assumption that nobody checked",
        )
    }

    /// What neighbouring data sets have in common beside the plan, so that it is public and not protected.
    pub(super) fn public_quantities(&self) -> Vec<&'static str> {
        self.guarantee.public_quantities(self.rows.is_some() || self.units.is_none())
    }

    /// The recalls that concern the file, or may; what accounting finds out is settled where the guarantee holds.
    pub(super) fn notices<'a>(&self, recalls: &'a Recalls) -> Vec<Notice<'a>> {
        let mut notices = self.recall_facts.as_ref().map_or(Vec::new(), |stated| recalls.of(stated));
        let by_accounting = |notice: &Notice<'_>| notice.recall.settled_by_accounting;
        if notices.iter().any(by_accounting) && self.guarantee.recompute().faults.is_empty() {
            notices.retain(|notice| !by_accounting(notice));
        }
        notices
    }
}

impl Document {
    fn product(&self) -> Product {
        let classes = self.encoder["target"]["as"]["classes"]["levels"].as_array().map(Vec::len);
        let kind = text(&self.answer).or_else(|| self.answer.as_object()?.keys().next().cloned());
        let task = text(&self.facts["task"]).unwrap_or_default().to_lowercase();
        match kind.as_deref() {
            Some("linear-model") if task.starts_with("classification") => {
                let count = task.split_whitespace().find_map(|word| word.parse().ok());
                return Product::Classifier(count);
            }
            Some("linear-model") if task.starts_with("regression") => return Product::Regressor,
            Some("linear-model") => return Product::Model,
            Some("mean") => return Product::Mean,
            Some("means") => return Product::Means(self.facts["features"].as_u64().unwrap_or_default() as usize),
            Some("minimum") => return Product::Minimum,
            Some("agreed") => return Product::Agreed,
            _ => {}
        }
        if self.weights.is_some() || !self.encoder.is_null() || !self.embedding.is_null() {
            let number = !self.encoder["target"]["as"]["number"].is_null();
            return match classes {
                Some(count) => Product::Classifier(Some(count)),
                None if number => Product::Regressor,
                None => Product::Model,
            };
        }
        if !self.game.is_null() {
            return Product::Game;
        }
        if self.groups.is_some() {
            return Product::Agreed;
        }
        match self.columns.as_array() {
            Some(columns) => Product::Means(columns.len()),
            None if self.indices.is_some() => Product::Mean,
            None => Product::Unknown,
        }
    }

    /// What the file says of its error.
    fn quality(&self, chosen: Option<&Value>) -> Vec<String> {
        let mut said = Vec::new();
        let shown = dpopt_privacy::rounding::number;
        let bound = self.error_bound.or_else(|| self.answer["mean"]["error_bound"].as_f64());
        if let Some(bound) = bound {
            said.push(format!("With probability 0.95 the l2 error of the mean is at most {}.", shown(bound)));
        }
        let confidence = self.confidence.or_else(|| self.answer["means"]["confidence"].as_f64());
        if let Some(confidence) = confidence {
            said.push(format!(
                "Each mean has an interval; all of them hold together with a probability of at least {}, under the \
                 assumptions that the answer lists.",
                shown(confidence)
            ));
        }
        if let (Some(name), Some(value), Some(noise)) =
            (text(&self.score["name"]), self.score["value"].as_f64(), self.score["noise"].as_f64())
        {
            said.push(format!(
                "{name} on records that were kept aside: {}, released with noise of standard deviation {}.",
                shown(value),
                shown(noise)
            ));
        }
        let model = text(&self.answer).as_deref() == Some("linear-model");
        if let Some(excess) = chosen.filter(|_| model).and_then(|row| row["predicted_excess_risk"].as_f64()) {
            said.push(format!(
                "Predicted excess risk: the mean loss is expected to be about {} above that of the best model of this \
                 form. This is a prediction from public facts, accurate to about a factor of two, and no measurement.",
                shown(excess)
            ));
        }
        said
    }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(String::from)
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().map_or(&[][..], Vec::as_slice).iter().filter_map(text).collect()
}

/// A feature's column and its declaration.
fn column(feature: &Value) -> Option<Column> {
    let (kind, details) = feature["as"].as_object()?.iter().next()?;
    let shown = |field: &str| details[field].as_f64().map(dpopt_privacy::rounding::number);
    let kind = match (kind.as_str(), shown("lower"), shown("upper")) {
        ("numeric", Some(lower), Some(upper)) => format!("number, clipped to {lower} … {upper}"),
        ("categorical", ..) => {
            format!("category with {} levels", details["levels"].as_array().map_or(0, Vec::len))
        }
        ("hashed", ..) => "category whose values are hashed".into(),
        ("text", ..) => "text whose words are hashed".into(),
        ("sparse", ..) => "sparse vector".into(),
        (other, ..) => other.to_string(),
    };
    Some(Column { name: text(&feature["column"])?, kind })
}
