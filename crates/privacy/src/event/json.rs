//! Events as flat tagged JSON, interchangeable with `dp_accounting` 0.6.
//!
//! A node is an object with `class_name` and the class's own fields, as `DpEvent.to_named_tuple()._asdict()` gives
//! them: `{"class_name": "GaussianDpEvent", "module_name": "dp_accounting.dp_event", "noise_multiplier": 1.5}`.
//! `module_name` may be left out when reading and must be right when present. Nothing is guessed: an unknown class,
//! an unknown, repeated or missing field, a number of the wrong kind, NaN and infinities are errors. (The infinite
//! `shape` of a Poisson-distributed `RepeatAndSelectDpEvent` is the string `"Infinity"`.)

mod tree;

use super::{Event, GlmLink};
use serde::de::{Deserialize, Deserializer, Error as _};
use serde::ser::{Error as _, Serialize, SerializeMap, Serializer};
use std::fmt;
use tree::Tree;

const PEER_MODULE: &str = "dp_accounting.dp_event";
const OWN_MODULE: &str = "dpopt.event";

/// One field of a class.
enum Value<'a> {
    Real(f64),
    Integer(u64),
    Reals(&'a [f64]),
    Integers(&'a [u64]),
    /// A whole number that may be unknown: null.
    Maybe(Option<u64>),
    Word(&'static str),
    One(&'a Event),
    Many(&'a [Event]),
}

/// Class name, whether `dp_accounting` has it, and the fields: the one table that writing and hashing share.
fn describe(event: &Event) -> (&'static str, bool, Vec<(&'static str, Value<'_>)>) {
    use Value::{Integer, Integers, Many, Maybe, One, Real, Reals, Word};
    match event {
        Event::NoOp => ("NoOpDpEvent", true, vec![]),
        Event::NonPrivate => ("NonPrivateDpEvent", true, vec![]),
        Event::Unsupported => ("UnsupportedDpEvent", true, vec![]),
        Event::RandomizedResponse { noise_parameter, num_buckets } => (
            "RandomizedResponseDpEvent",
            true,
            vec![("noise_parameter", Real(*noise_parameter)), ("num_buckets", Integer(*num_buckets))],
        ),
        Event::Gaussian { noise_multiplier } => {
            ("GaussianDpEvent", true, vec![("noise_multiplier", Real(*noise_multiplier))])
        }
        Event::Laplace { noise_multiplier } => {
            ("LaplaceDpEvent", true, vec![("noise_multiplier", Real(*noise_multiplier))])
        }
        Event::DiscreteLaplace { noise_parameter, sensitivity } => (
            "DiscreteLaplaceDpEvent",
            true,
            vec![("noise_parameter", Real(*noise_parameter)), ("sensitivity", Integer(*sensitivity))],
        ),
        Event::SelfComposed { event, count } => {
            ("SelfComposedDpEvent", true, vec![("event", One(event)), ("count", Integer(*count))])
        }
        Event::Composed { events } => ("ComposedDpEvent", true, vec![("events", Many(events))]),
        Event::PoissonSampled { sampling_probability, event } => (
            "PoissonSampledDpEvent",
            true,
            vec![("sampling_probability", Real(*sampling_probability)), ("event", One(event))],
        ),
        Event::SampledWithReplacement { source_dataset_size, sample_size, event } => (
            "SampledWithReplacementDpEvent",
            true,
            vec![
                ("source_dataset_size", Integer(*source_dataset_size)),
                ("sample_size", Integer(*sample_size)),
                ("event", One(event)),
            ],
        ),
        Event::RandomAllocation { event, num_selected, num_steps } => (
            "RandomAllocationDpEvent",
            true,
            vec![("event", One(event)), ("num_selected", Integer(*num_selected)), ("num_steps", Integer(*num_steps))],
        ),
        Event::SampledWithoutReplacement { source_dataset_size, sample_size, event } => (
            "SampledWithoutReplacementDpEvent",
            true,
            vec![
                ("source_dataset_size", Integer(*source_dataset_size)),
                ("sample_size", Integer(*sample_size)),
                ("event", One(event)),
            ],
        ),
        Event::SingleEpochTreeAggregation { noise_multiplier, step_counts } => (
            "SingleEpochTreeAggregationDpEvent",
            true,
            vec![("noise_multiplier", Real(*noise_multiplier)), ("step_counts", Integers(step_counts))],
        ),
        Event::RepeatAndSelect { event, mean, shape } => (
            "RepeatAndSelectDpEvent",
            true,
            vec![("event", One(event)), ("mean", Real(*mean)), ("shape", Real(*shape))],
        ),
        Event::MixtureOfGaussians { standard_deviation, sensitivities, sampling_probs } => (
            "MixtureOfGaussiansDpEvent",
            true,
            vec![
                ("standard_deviation", Real(*standard_deviation)),
                ("sensitivities", Reals(sensitivities)),
                ("sampling_probs", Reals(sampling_probs)),
            ],
        ),
        Event::Zcdp { rho, xi } => ("ZCDpEvent", true, vec![("rho", Real(*rho)), ("xi", Real(*xi))]),
        Event::TruncatedSubsampledGaussian {
            dataset_size,
            sampling_probability,
            truncated_batch_size,
            noise_multiplier,
        } => (
            "TruncatedSubsampledGaussianDpEvent",
            true,
            vec![
                ("dataset_size", Integer(*dataset_size)),
                ("sampling_probability", Real(*sampling_probability)),
                ("truncated_batch_size", Integer(*truncated_batch_size)),
                ("noise_multiplier", Real(*noise_multiplier)),
            ],
        ),
        Event::DiscreteGaussian { sigma, sensitivity, dimension } => (
            "DiscreteGaussianDpEvent",
            true,
            vec![("sigma", Real(*sigma)), ("sensitivity", Real(*sensitivity)), ("dimension", Maybe(*dimension))],
        ),
        Event::ExponentialMechanism { epsilon } => {
            ("ExponentialMechanismDpEvent", true, vec![("epsilon", Real(*epsilon))])
        }
        Event::PermuteAndFlip { epsilon } => ("PermuteAndFlipDpEvent", true, vec![("epsilon", Real(*epsilon))]),
        Event::EpsilonDelta { epsilon, delta } => {
            ("EpsilonDeltaDpEvent", true, vec![("epsilon", Real(*epsilon)), ("delta", Real(*delta))])
        }
        Event::Gdp { mu } => ("GdpDpEvent", false, vec![("mu", Real(*mu))]),
        Event::Rdp { orders, divergences } => {
            ("RdpDpEvent", false, vec![("orders", Reals(orders)), ("divergences", Reals(divergences))])
        }
        Event::PrivacyProfile { epsilons, deltas } => {
            ("PrivacyProfileDpEvent", false, vec![("epsilons", Reals(epsilons)), ("deltas", Reals(deltas))])
        }
        Event::PureStream { epsilon } => ("PureStreamDpEvent", false, vec![("epsilon", Real(*epsilon))]),
        Event::ApproxDp { epsilon, delta } => {
            ("ApproxDpDpEvent", false, vec![("epsilon", Real(*epsilon)), ("delta", Real(*delta))])
        }
        Event::ChiSquareGaussian { degrees_of_freedom, mu } => (
            "ChiSquareGaussianDpEvent",
            false,
            vec![("degrees_of_freedom", Integer(*degrees_of_freedom)), ("mu", Real(*mu))],
        ),
        Event::ProposeTestRelease { epsilon, delta, noise_multiplier } => (
            "ProposeTestReleaseDpEvent",
            false,
            vec![("epsilon", Real(*epsilon)), ("delta", Real(*delta)), ("noise_multiplier", Real(*noise_multiplier))],
        ),
        Event::Gated { probability, event } => {
            ("GatedDpEvent", false, vec![("probability", Real(*probability)), ("event", One(event))])
        }
        Event::Parallel { blocks } => ("ParallelDpEvent", false, vec![("blocks", Many(blocks))]),
        Event::UserUnit { records_per_user, event } => {
            ("UserUnitDpEvent", false, vec![("records_per_user", Integer(*records_per_user)), ("event", One(event))])
        }
        Event::Approximate { total_variation, event } => {
            ("ApproximateDpEvent", false, vec![("total_variation", Real(*total_variation)), ("event", One(event))])
        }
        Event::ObjectivePerturbation { noise_multiplier, regularization, link } => {
            let mut fields =
                vec![("noise_multiplier", Real(*noise_multiplier)), ("regularization", Real(*regularization))];
            match link {
                GlmLink::Monotone => fields.push(("link", Word("monotone"))),
                GlmLink::Smooth { smoothness } => {
                    fields.extend([("link", Word("smooth")), ("smoothness", Real(*smoothness))]);
                }
                GlmLink::Softmax { classes } => {
                    fields.extend([("link", Word("softmax")), ("classes", Integer(u64::from(*classes)))]);
                }
            }
            ("ObjectivePerturbationDpEvent", false, fields)
        }
    }
}

/// Reads the class back; the mirror image of [`describe`].
fn build(class: &str, fields: &mut Fields) -> Result<(Event, bool), String> {
    let event = match class {
        "NoOpDpEvent" => Event::NoOp,
        "NonPrivateDpEvent" => Event::NonPrivate,
        "UnsupportedDpEvent" => Event::Unsupported,
        "RandomizedResponseDpEvent" => Event::RandomizedResponse {
            noise_parameter: fields.real("noise_parameter")?,
            num_buckets: fields.integer("num_buckets")?,
        },
        "GaussianDpEvent" => Event::Gaussian { noise_multiplier: fields.real("noise_multiplier")? },
        "LaplaceDpEvent" => Event::Laplace { noise_multiplier: fields.real("noise_multiplier")? },
        "DiscreteLaplaceDpEvent" => Event::DiscreteLaplace {
            noise_parameter: fields.real("noise_parameter")?,
            sensitivity: fields.integer("sensitivity")?,
        },
        "SelfComposedDpEvent" => Event::SelfComposed { event: fields.event()?, count: fields.integer("count")? },
        "ComposedDpEvent" => Event::Composed { events: fields.events("events")? },
        "PoissonSampledDpEvent" => {
            Event::PoissonSampled { sampling_probability: fields.real("sampling_probability")?, event: fields.event()? }
        }
        "SampledWithReplacementDpEvent" => Event::SampledWithReplacement {
            source_dataset_size: fields.integer("source_dataset_size")?,
            sample_size: fields.integer("sample_size")?,
            event: fields.event()?,
        },
        "SampledWithoutReplacementDpEvent" => Event::SampledWithoutReplacement {
            source_dataset_size: fields.integer("source_dataset_size")?,
            sample_size: fields.integer("sample_size")?,
            event: fields.event()?,
        },
        "RandomAllocationDpEvent" => Event::RandomAllocation {
            event: fields.event()?,
            num_selected: fields.integer("num_selected")?,
            num_steps: fields.integer("num_steps")?,
        },
        "SingleEpochTreeAggregationDpEvent" => Event::SingleEpochTreeAggregation {
            noise_multiplier: fields.real("noise_multiplier")?,
            step_counts: fields.integers("step_counts")?,
        },
        "RepeatAndSelectDpEvent" => Event::RepeatAndSelect {
            event: fields.event()?,
            mean: fields.real("mean")?,
            shape: fields.real_or_infinity("shape")?,
        },
        "MixtureOfGaussiansDpEvent" => Event::MixtureOfGaussians {
            standard_deviation: fields.real("standard_deviation")?,
            sensitivities: fields.reals("sensitivities")?,
            sampling_probs: fields.reals("sampling_probs")?,
        },
        // xi is optional in dp_accounting, with this value
        "ZCDpEvent" => {
            Event::Zcdp { rho: fields.real("rho")?, xi: if fields.has("xi") { fields.real("xi")? } else { 0.0 } }
        }
        // both with dp_accounting's values where they are left out
        "DiscreteGaussianDpEvent" => Event::DiscreteGaussian {
            sigma: fields.real("sigma")?,
            sensitivity: if fields.has("sensitivity") { fields.real("sensitivity")? } else { 1.0 },
            dimension: if fields.has("dimension") { fields.integer_or_null("dimension")? } else { None },
        },
        "ExponentialMechanismDpEvent" => Event::ExponentialMechanism { epsilon: fields.real("epsilon")? },
        "PermuteAndFlipDpEvent" => Event::PermuteAndFlip { epsilon: fields.real("epsilon")? },
        "EpsilonDeltaDpEvent" => Event::EpsilonDelta { epsilon: fields.real("epsilon")?, delta: fields.real("delta")? },
        "TruncatedSubsampledGaussianDpEvent" => Event::TruncatedSubsampledGaussian {
            dataset_size: fields.integer("dataset_size")?,
            sampling_probability: fields.real("sampling_probability")?,
            truncated_batch_size: fields.integer("truncated_batch_size")?,
            noise_multiplier: fields.real("noise_multiplier")?,
        },
        _ => return Ok((build_own(class, fields)?, false)),
    };
    Ok((event, true))
}

fn build_own(class: &str, fields: &mut Fields) -> Result<Event, String> {
    Ok(match class {
        "GdpDpEvent" => Event::Gdp { mu: fields.real("mu")? },
        "RdpDpEvent" => Event::Rdp { orders: fields.reals("orders")?, divergences: fields.reals("divergences")? },
        "PrivacyProfileDpEvent" => {
            Event::PrivacyProfile { epsilons: fields.reals("epsilons")?, deltas: fields.reals("deltas")? }
        }
        "PureStreamDpEvent" => Event::PureStream { epsilon: fields.real("epsilon")? },
        "ApproxDpDpEvent" => Event::ApproxDp { epsilon: fields.real("epsilon")?, delta: fields.real("delta")? },
        "ChiSquareGaussianDpEvent" => Event::ChiSquareGaussian {
            degrees_of_freedom: fields.integer("degrees_of_freedom")?,
            mu: fields.real("mu")?,
        },
        "ProposeTestReleaseDpEvent" => Event::ProposeTestRelease {
            epsilon: fields.real("epsilon")?,
            delta: fields.real("delta")?,
            noise_multiplier: fields.real("noise_multiplier")?,
        },
        "GatedDpEvent" => Event::Gated { probability: fields.real("probability")?, event: fields.event()? },
        "ParallelDpEvent" => Event::Parallel { blocks: fields.events("blocks")? },
        "UserUnitDpEvent" => {
            Event::UserUnit { records_per_user: fields.integer("records_per_user")?, event: fields.event()? }
        }
        "ApproximateDpEvent" => {
            Event::Approximate { total_variation: fields.real("total_variation")?, event: fields.event()? }
        }
        "ObjectivePerturbationDpEvent" => Event::ObjectivePerturbation {
            noise_multiplier: fields.real("noise_multiplier")?,
            regularization: fields.real("regularization")?,
            link: match fields.word("link")?.as_str() {
                "monotone" => GlmLink::Monotone,
                "smooth" => GlmLink::Smooth { smoothness: fields.real("smoothness")? },
                "softmax" => GlmLink::Softmax {
                    classes: u32::try_from(fields.integer("classes")?)
                        .map_err(|_| "field `classes` is too large".to_owned())?,
                },
                other => return Err(format!("unknown link `{other}`; known: monotone, smooth, softmax")),
            },
        },
        _ => return Err(format!("unknown class `{class}`")),
    })
}

/// The fields of one object, taken out one by one; what is left over is an error.
struct Fields {
    class: String,
    entries: Vec<(String, Tree)>,
}

impl Fields {
    fn has(&self, name: &str) -> bool {
        self.entries.iter().any(|(key, _)| key == name)
    }

    fn take(&mut self, name: &str) -> Result<Tree, String> {
        let position = self.entries.iter().position(|(key, _)| key == name);
        let position = position.ok_or_else(|| format!("{} has no field `{name}`", self.class))?;
        Ok(self.entries.swap_remove(position).1)
    }

    fn wrong<T>(&self, name: &str, expected: &str) -> Result<T, String> {
        Err(format!("field `{name}` of {} must be {expected}", self.class))
    }

    fn real(&mut self, name: &str) -> Result<f64, String> {
        match self.take(name)?.as_real() {
            Some(x) => Ok(x),
            None => self.wrong(name, "a finite number"),
        }
    }

    fn real_or_infinity(&mut self, name: &str) -> Result<f64, String> {
        let field = self.take(name)?;
        if matches!(&field, Tree::Text(t) if t == "Infinity") {
            return Ok(f64::INFINITY);
        }
        match field.as_real() {
            Some(x) => Ok(x),
            None => self.wrong(name, "a finite number or \"Infinity\""),
        }
    }

    fn integer(&mut self, name: &str) -> Result<u64, String> {
        match self.take(name)? {
            Tree::Integer(n) => Ok(n),
            _ => self.wrong(name, "a non-negative integer"),
        }
    }

    fn integer_or_null(&mut self, name: &str) -> Result<Option<u64>, String> {
        match self.take(name)? {
            Tree::Integer(n) => Ok(Some(n)),
            Tree::Null => Ok(None),
            _ => self.wrong(name, "a non-negative integer or null"),
        }
    }

    fn reals(&mut self, name: &str) -> Result<Vec<f64>, String> {
        match self.take(name)? {
            Tree::List(items) => match items.iter().map(Tree::as_real).collect() {
                Some(list) => Ok(list),
                None => self.wrong(name, "a list of finite numbers"),
            },
            _ => self.wrong(name, "a list of finite numbers"),
        }
    }

    fn integers(&mut self, name: &str) -> Result<Vec<u64>, String> {
        match self.take(name)? {
            Tree::Integer(n) => Ok(vec![n]),
            Tree::List(items) => {
                let list = items.iter().map(|i| if let Tree::Integer(n) = i { Some(*n) } else { None }).collect();
                match list {
                    Some(list) => Ok(list),
                    None => self.wrong(name, "a non-negative integer or a list of them"),
                }
            }
            _ => self.wrong(name, "a non-negative integer or a list of them"),
        }
    }

    fn word(&mut self, name: &str) -> Result<String, String> {
        match self.take(name)? {
            Tree::Text(t) => Ok(t),
            _ => self.wrong(name, "a string"),
        }
    }

    fn event(&mut self) -> Result<Box<Event>, String> {
        from_tree(self.take("event")?).map(Box::new)
    }

    fn events(&mut self, name: &str) -> Result<Vec<Event>, String> {
        match self.take(name)? {
            Tree::List(items) => items.into_iter().map(from_tree).collect(),
            _ => self.wrong(name, "a list of events"),
        }
    }
}

fn from_tree(tree: Tree) -> Result<Event, String> {
    let Tree::Object(entries) = tree else {
        return Err("an event is an object with a `class_name`".into());
    };
    let mut fields = Fields { class: "event".into(), entries };
    fields.class = fields.word("class_name")?;
    let class = fields.class.clone();
    let module = if fields.has("module_name") { Some(fields.word("module_name")?) } else { None };
    let (event, of_peer) = build(&class, &mut fields)?;
    let expected = if of_peer { PEER_MODULE } else { OWN_MODULE };
    // events that were dpopt's own before dp_accounting had them are read under both names
    let moved = class == "ExponentialMechanismDpEvent" && module.as_deref() == Some(OWN_MODULE);
    if !moved && module.is_some_and(|m| m != expected) {
        return Err(format!("module_name of {class} must be `{expected}`"));
    }
    if let Some((extra, _)) = fields.entries.first() {
        return Err(format!("{class} has no field `{extra}`"));
    }
    Ok(event)
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        from_tree(Tree::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (class, of_peer, fields) = describe(self);
        let mut map = serializer.serialize_map(Some(fields.len() + 2))?;
        map.serialize_entry("class_name", class)?;
        map.serialize_entry("module_name", if of_peer { PEER_MODULE } else { OWN_MODULE })?;
        for (name, value) in &fields {
            let finite = |x: &f64| x.is_finite();
            match value {
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
    let (class, _, fields) = describe(event);
    word(hasher, class);
    for (name, value) in fields {
        word(hasher, name);
        match value {
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
    /// use dpopt_privacy::Event;
    /// let text = r#"{"class_name": "SelfComposedDpEvent", "count": 400, "event":
    ///     {"class_name": "PoissonSampledDpEvent", "sampling_probability": 0.1, "event":
    ///         {"class_name": "GaussianDpEvent", "noise_multiplier": 7.57}}}"#;
    /// let event = Event::from_json(text)?;
    /// assert_eq!(event, Event::gaussian(7.57).poisson_sampled(0.1).self_composed(400));
    /// assert_eq!(event.to_string(), "400 × Poisson(0.1, Gaussian(7.57))");
    /// assert!(Event::from_json(r#"{"class_name": "GaussianDpEvent", "sigma": 1.0}"#).is_err());
    /// # Ok::<(), dpopt_privacy::event::json::JsonError>(())
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
