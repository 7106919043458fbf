//! Events as flat tagged JSON, interchangeable with `dp_accounting` 0.6.
//!
//! A node is an object with `class_name` and the class's own fields, as `DpEvent.to_named_tuple()._asdict()` gives
//! them: `{"class_name": "GaussianDpEvent", "module_name": "dp_accounting.dp_event", "noise_multiplier": 1.5}`.
//! `module_name` may be left out when reading and must be right when present. Nothing is guessed: an unknown class,
//! an unknown, repeated or missing field, a number of the wrong kind, NaN and infinities are errors. (The infinite
//! `shape` of a Poisson-distributed `RepeatAndSelectDpEvent` is the string `"Infinity"`.)

use super::Event;
use super::table::{Entry, Value, entry, from_tree};
use super::tree::Tree;
use serde::de::{Deserialize, Deserializer, Error as _};
use serde::ser::{Error as _, Serialize, SerializeMap, Serializer};
use std::fmt;

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        from_tree(Tree::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Entry { class, module, fields } = entry(self);
        let mut map = serializer.serialize_map(Some(fields.len() + 2))?;
        map.serialize_entry("class_name", class)?;
        map.serialize_entry("module_name", module)?;
        for field in &fields {
            let (name, finite) = (&field.name, |x: &f64| x.is_finite());
            match &field.value {
                Value::Real(x) if *x == f64::INFINITY && *name == "shape" => map.serialize_entry(name, "Infinity")?,
                // serde_json would write null
                Value::Real(x) if !finite(x) => {
                    return Err(S::Error::custom(format!("field `{name}` of {class} is not a finite number")));
                }
                Value::Reals(list) if !list.iter().all(finite) => {
                    return Err(S::Error::custom(format!("field `{name}` of {class} is not finite")));
                }
                Value::Real(x) => map.serialize_entry(name, x)?,
                Value::Integer(n) => map.serialize_entry(name, n)?,
                Value::Reals(list) => map.serialize_entry(name, list)?,
                Value::Maybe(n) => map.serialize_entry(name, n)?,
                Value::Integers([n]) => map.serialize_entry(name, n)?,
                Value::Integers(list) => map.serialize_entry(name, list)?,
                Value::Word(w) => map.serialize_entry(name, w)?,
                Value::One(event) => map.serialize_entry(name, event)?,
                Value::Many(events) => map.serialize_entry(name, events)?,
            }
        }
        map.end()
    }
}

/// Feeds the structure and the bits of every number to a hash; each item is tagged or length-prefixed.
pub(super) fn feed(event: &Event, hasher: &mut blake3::Hasher) {
    fn word(hasher: &mut blake3::Hasher, text: &str) {
        hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
    }
    // −0 and 0 mean the same
    fn real(hasher: &mut blake3::Hasher, x: f64) {
        hasher.update(&(x + 0.0).to_bits().to_le_bytes());
    }
    let Entry { class, fields, .. } = entry(event);
    word(hasher, class);
    for field in fields {
        word(hasher, field.name);
        match field.value {
            Value::Real(x) => real(hasher, x),
            Value::Integer(n) => {
                hasher.update(&n.to_le_bytes());
            }
            Value::Maybe(n) => {
                hasher.update(&[u8::from(n.is_some())]).update(&n.unwrap_or(0).to_le_bytes());
            }
            Value::Word(w) => word(hasher, w),
            Value::Reals(list) => {
                hasher.update(&(list.len() as u64).to_le_bytes());
                list.iter().for_each(|x| real(hasher, *x));
            }
            Value::Integers(list) => {
                hasher.update(&(list.len() as u64).to_le_bytes());
                list.iter().for_each(|n| {
                    hasher.update(&n.to_le_bytes());
                });
            }
            Value::One(child) => feed(child, hasher),
            Value::Many(children) => {
                hasher.update(&(children.len() as u64).to_le_bytes());
                children.iter().for_each(|child| feed(child, hasher));
            }
        }
    }
}

impl Event {
    /// Reads an event from JSON text; see [`json`](self).
    ///
    /// ```
    /// use dpopt_event::Event;
    /// let text = r#"{"class_name": "SelfComposedDpEvent", "count": 400, "event":
    ///     {"class_name": "PoissonSampledDpEvent", "sampling_probability": 0.1, "event":
    ///         {"class_name": "GaussianDpEvent", "noise_multiplier": 7.57}}}"#;
    /// let event = Event::from_json(text)?;
    /// assert_eq!(event, Event::gaussian(7.57).poisson_sampled(0.1).self_composed(400));
    /// assert_eq!(event.to_string(), "400 × Poisson(0.1, Gaussian(7.57))");
    /// assert!(Event::from_json(r#"{"class_name": "GaussianDpEvent", "sigma": 1.0}"#).is_err());
    /// # Ok::<(), dpopt_event::event::json::JsonError>(())
    /// ```
    pub fn from_json(text: &str) -> Result<Self, JsonError> {
        serde_json::from_str(text).map_err(|e| JsonError(e.to_string()))
    }

    /// JSON text of the event; an error if a number is not finite.
    pub fn to_json(&self) -> Result<String, JsonError> {
        serde_json::to_string(self).map_err(|e| JsonError(e.to_string()))
    }
}

/// Text that is not an event, or an event that JSON cannot hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonError(String);

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a privacy event: {}", self.0)
    }
}

impl std::error::Error for JsonError {}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
