//! What the publisher states: everything that no released file can say.

use dpopt_data::did_you_mean;
use std::collections::BTreeMap;
use thiserror::Error;

/// Stands where the publisher has to write something.
pub const FILL_IN: &str = "FILL IN";

/// What a fact may be.
enum Kind {
    Text,
    List,
    /// A day as `2026-11-29`.
    Date,
    /// One of the values that the registry allows.
    OneOf(&'static [&'static str]),
}

/// Industries that the registry knows.
pub(super) const SECTORS: &[&str] = &["Technology", "Healthcare", "Education", "Government", "Energy", "Finance"];
/// Deployment models that the registry knows and that are not of its past.
pub(super) const MODELS: &[&str] = &["Local", "Central", "Shuffle", "Federated"];
pub(super) const RELEASES: &[&str] = &["One release", "Many releases"];
pub(super) const SOURCES: &[&str] = &["Static", "Dynamic"];
pub(super) const ACCESS: &[&str] = &["Interactive", "Non-interactive"];

/// Every fact by its name. Those of the registry have its names.
const KEYS: &[(&str, Kind)] = &[
    // of the registry
    ("url_slug", Kind::Text),
    ("name", Kind::Text),
    ("data_curators", Kind::List),
    ("intended_use", Kind::Text),
    ("data_product_region", Kind::Text),
    ("description", Kind::Text),
    ("publication_date", Kind::Date),
    ("data_product_sector", Kind::OneOf(SECTORS)),
    ("data_domain", Kind::Text),
    ("model_name", Kind::OneOf(MODELS)),
    ("model_name_details", Kind::Text),
    ("actors", Kind::Text),
    ("release_type", Kind::OneOf(RELEASES)),
    ("release_type_details", Kind::Text),
    ("data_source_type", Kind::OneOf(SOURCES)),
    ("data_source_type_details", Kind::Text),
    ("access_type", Kind::OneOf(ACCESS)),
    ("access_type_details", Kind::Text),
    ("preprocessing_and_hyperparameter_tuning", Kind::Text),
    ("justification", Kind::Text),
    ("sources", Kind::Text),
    ("notes", Kind::Text),
    ("registry_authors", Kind::List),
    // of the checklist and the model card alone
    ("access_control", Kind::Text),
    ("bias", Kind::Text),
    ("contact", Kind::Text),
    ("contributions", Kind::Text),
    ("data_collection", Kind::Text),
    ("ethical_considerations", Kind::Text),
    ("evaluation", Kind::Text),
    ("license", Kind::Text),
    ("other_releases", Kind::Text),
    ("out_of_scope_uses", Kind::Text),
    ("security", Kind::Text),
    ("statistical_bias", Kind::Text),
    ("timing", Kind::Text),
    ("training_data", Kind::Text),
];

/// Fields of the registry that the released file decides.
const OF_THE_FILE: [&str; 14] = [
    "composition",
    "data_product_type",
    "delta",
    "epsilon",
    "mechanisms",
    "post_processing",
    "privacy_parameters",
    "privacy_parameters_details",
    "privacy_unit",
    "privacy_unit_details",
    "rho",
    "status",
    "unprotected_quantities",
    "variant_name",
];

/// Why stated facts cannot be used.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum FactsError {
    /// The text is no table of facts.
    #[error("the facts cannot be read: {0}")]
    Unreadable(String),
    /// There is no such fact.
    #[error("there is no fact `{name}`{meant} the facts are {known}")]
    Unknown {
        /// As it was given.
        name: String,
        /// The nearest name, as a question; a semicolon if none is near.
        meant: String,
        /// Names of all facts.
        known: String,
    },
    /// The file decides it.
    #[error("`{0}` follows from the released file and cannot be stated; leave it out")]
    OfTheFile(String),
    /// The value is none of those allowed.
    #[error("`{name}` must be {allowed}")]
    Value {
        /// Name of the fact.
        name: String,
        /// What it may be.
        allowed: String,
    },
}

/// Facts by name, checked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts(BTreeMap<&'static str, Vec<String>>);

/// A value as TOML or JSON has it.
enum Given {
    Text(String),
    List(Vec<String>),
    Other,
}

impl Facts {
    /// Facts from a table in TOML, one key for each.
    ///
    /// ```
    /// use dpopt::disclosure::Facts;
    /// let facts = Facts::from_toml("name = 'Incomes 2026'\ndata_curators = ['Office of Statistics']\npublication_date = 2026-12-01\n")?;
    /// assert_eq!(facts.get("name"), Some("Incomes 2026"));
    /// assert!(Facts::from_toml("nmae = 'Incomes'").unwrap_err().to_string().contains("did you mean `name`?"));
    /// # Ok::<(), dpopt::disclosure::FactsError>(())
    /// ```
    ///
    /// # Errors
    /// The text is not TOML, a name is not known or decided by the file, or a value is not allowed.
    pub fn from_toml(text: &str) -> Result<Self, FactsError> {
        let table: toml::Table = text.parse().map_err(|e: toml::de::Error| {
            let line = e.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
            FactsError::Unreadable(format!("line {line}: {}", e.message()))
        })?;
        Self::checked(table.into_iter().map(|(name, value)| (name, value.into())))
    }

    /// Facts from an object in JSON.
    ///
    /// # Errors
    /// As [`Self::from_toml`].
    pub fn from_json(text: &str) -> Result<Self, FactsError> {
        let table: BTreeMap<String, serde_json::Value> =
            serde_json::from_str(text).map_err(|e| FactsError::Unreadable(e.to_string()))?;
        Self::checked(table.into_iter().map(|(name, value)| (name, value.into())))
    }

    /// A text, or the first of a list.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.all(name).first().map(String::as_str)
    }

    /// All texts of a list; empty if nothing is stated.
    pub fn all(&self, name: &str) -> &[String] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }

    fn checked(given: impl Iterator<Item = (String, Given)>) -> Result<Self, FactsError> {
        let mut facts = Self::default();
        for (name, value) in given {
            let Some((key, kind)) = KEYS.iter().find(|(key, _)| *key == name) else { return Err(unknown(name)) };
            facts.0.insert(key, texts(&name, value, kind)?);
        }
        Ok(facts)
    }
}

fn unknown(name: String) -> FactsError {
    if OF_THE_FILE.contains(&name.as_str()) {
        return FactsError::OfTheFile(name);
    }
    let known = || KEYS.iter().map(|(key, _)| *key);
    let meant = did_you_mean(&name, known());
    FactsError::Unknown {
        meant: if meant.is_empty() { ";".into() } else { meant },
        known: known().collect::<Vec<_>>().join(", "),
        name,
    }
}

fn texts(name: &str, value: Given, kind: &Kind) -> Result<Vec<String>, FactsError> {
    let refused = |allowed: String| Err(FactsError::Value { name: name.into(), allowed });
    let said = |text: &String| !text.trim().is_empty();
    match (kind, value) {
        (Kind::Text, Given::Text(text)) if said(&text) => Ok(vec![text]),
        (Kind::Text, _) => refused("a text that is not empty".into()),
        (Kind::List, Given::Text(text)) if said(&text) => Ok(vec![text]),
        (Kind::List, Given::List(texts)) if !texts.is_empty() && texts.iter().all(said) => Ok(texts),
        (Kind::List, _) => refused("a list of texts that are not empty".into()),
        (Kind::Date, Given::Text(text)) if is_day(&text) => Ok(vec![text]),
        (Kind::Date, _) => refused("a day as 2026-11-29".into()),
        (Kind::OneOf(values), Given::Text(text)) if values.contains(&text.as_str()) => Ok(vec![text]),
        (Kind::OneOf(values), _) => refused(format!("one of \"{}\"", values.join("\", \""))),
    }
}

/// Whether a text is a day of the calendar: `2026-02-28`.
fn is_day(text: &str) -> bool {
    let plain = text.len() == 10 && text.is_ascii();
    let parts: Vec<u32> = if plain { text.split('-').filter_map(|part| part.parse().ok()).collect() } else { vec![] };
    let &[year, month, day] = &parts[..] else { return false };
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    let dashes = text.as_bytes()[4] == b'-' && text.as_bytes()[7] == b'-';
    dashes && year > 0 && (1..=days).contains(&day)
}

impl From<toml::Value> for Given {
    fn from(value: toml::Value) -> Self {
        match value {
            toml::Value::String(text) => Self::Text(text),
            toml::Value::Datetime(day) => Self::Text(day.to_string()),
            toml::Value::Array(items) => {
                let texts: Option<Vec<String>> = items.iter().map(|item| item.as_str().map(String::from)).collect();
                texts.map_or(Self::Other, Self::List)
            }
            _ => Self::Other,
        }
    }
}

impl From<serde_json::Value> for Given {
    fn from(value: serde_json::Value) -> Self {
        match value {
            serde_json::Value::String(text) => Self::Text(text),
            serde_json::Value::Array(items) => {
                let texts: Option<Vec<String>> = items.iter().map(|item| item.as_str().map(String::from)).collect();
                texts.map_or(Self::Other, Self::List)
            }
            _ => Self::Other,
        }
    }
}
