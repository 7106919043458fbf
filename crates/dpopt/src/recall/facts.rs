//! What a released file or a ledger says of itself that a recall can be held against.

use super::written::{Commit, Moment, Version};
use crate::guarantee::Guarantee;
use dpopt_optimize::plan::Grade;
use dpopt_privacy::ledger::{Entry, Purpose};
use dpopt_privacy::{Event, Relation, Unit};
use serde::Deserialize;
use serde_json::Value;

/// Every program that writes `provenance` into its answers was built from a commit of this moment or later.
const PROVENANCE_SINCE: &str = "2026-11-29T21:00:00Z";

/// Kinds of files that people keep, as a list of recalls calls them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum FileKind {
    /// A model of a table.
    Model,
    /// A report in JSON.
    Report,
    /// A mean or an aggregate in JSON.
    Estimate,
    /// The guarantee of a game of many rounds.
    Game,
    /// A charge in a ledger.
    Ledger,
}

/// What one file, or one charge of a ledger, says of how it was made. It comes from the file alone: no record is in it.
#[derive(Clone, Debug)]
pub struct Facts {
    pub(super) file: FileKind,
    pub(super) version: Option<Version>,
    pub(super) commit: Option<Commit>,
    /// The program was built from a commit of this moment or later.
    pub(super) built_since: Option<Moment>,
    /// The program was built before this moment.
    pub(super) charged: Option<Moment>,
    pub(super) relation: Relation,
    pub(super) unit: Unit,
    pub(super) unit_is_named: bool,
    pub(super) grade: Option<Grade>,
    pub(super) method: Option<String>,
    pub(super) answer: Option<String>,
    /// Events of all stages, as JSON has them.
    pub(super) events: Vec<Value>,
}

/// The fields of a released file that count here, whatever else is in it.
#[derive(Deserialize)]
struct Stated {
    guarantee: Guarantee,
    #[serde(default)]
    format: Value,
    #[serde(default)]
    software: Value,
    #[serde(default)]
    provenance: Value,
    #[serde(default)]
    answer: Value,
    #[serde(default)]
    candidates: Value,
    #[serde(default)]
    chosen: Value,
    #[serde(default)]
    game: Value,
}

impl Stated {
    fn kind(&self) -> FileKind {
        if self.format == "dpopt-model" {
            FileKind::Model
        } else if self.candidates.is_array() {
            FileKind::Report
        } else if self.game.is_object() {
            FileKind::Game
        } else {
            FileKind::Estimate
        }
    }

    /// The method that ran, which reports name.
    fn method(&self) -> Option<String> {
        let place = usize::try_from(self.chosen.as_u64()?).ok()?;
        Some(self.candidates.get(place)?.get("method")?.as_str()?.into())
    }

    /// What kind of answer a report is about: a word, or an object of which it is the only key.
    fn answer(&self) -> Option<String> {
        match &self.answer {
            Value::String(word) => Some(word.clone()),
            Value::Object(fields) => fields.keys().next().cloned(),
            _ => None,
        }
    }

    fn version(&self) -> Option<Version> {
        let stated = self.provenance.get("version").unwrap_or(&self.software).as_str()?;
        // games name the program too
        Version::parse(stated.strip_prefix("dpopt ").unwrap_or(stated))
    }
}

fn as_json(event: &Event) -> Value {
    serde_json::to_value(event).unwrap_or_default()
}

impl Facts {
    /// What a model, a report, a mean, an aggregate or the guarantee of a game says; `None` if the text holds no guarantee.
    pub fn of_release(text: &[u8]) -> Option<Self> {
        let stated: Stated = serde_json::from_slice(text).ok()?;
        let guarantee = &stated.guarantee;
        Some(Self {
            file: stated.kind(),
            version: stated.version(),
            commit: stated.provenance.get("commit").and_then(Value::as_str).and_then(Commit::parse),
            built_since: stated.provenance.is_object().then(|| Moment::parse(PROVENANCE_SINCE)).flatten(),
            charged: None,
            relation: guarantee.relation,
            unit: guarantee.unit,
            unit_is_named: guarantee.unit_column.is_some(),
            grade: Some(guarantee.grade),
            method: stated.method(),
            answer: stated.answer(),
            events: guarantee.stages.iter().map(|stage| as_json(&stage.event)).collect(),
        })
    }

    /// What a charge of a ledger says, and the ledger's header of all its charges.
    pub fn of_charge(purpose: &Purpose, charge: &Entry) -> Self {
        Self {
            file: FileKind::Ledger,
            version: None,
            commit: None,
            built_since: None,
            charged: Moment::parse(&charge.time),
            relation: purpose.terms.neighbours.relation,
            unit: purpose.terms.neighbours.unit,
            unit_is_named: !purpose.unit_names.is_empty(),
            grade: None,
            method: None,
            answer: None,
            events: vec![as_json(&charge.event)],
        }
    }
}
