//! One entry per event: its class in JSON, whose class that is, its fields in order and the range of each. Reading, writing, hashing
//! and the check of ranges are made from it.

use super::Fields;
use crate::event::{Event, GlmLink};

/// The module of classes that `dp_accounting` has.
const PEER: &str = "dp_accounting.dp_event";
/// The module of those that only dpopt has.
pub(in crate::event) const OWN: &str = "dpopt.event";

/// What a number may be; of a list, each of its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::event) enum Range {
    /// Whatever the field's type holds.
    Any,
    /// Finite and at least 0.
    AtLeast0,
    /// At least 0, infinity among them.
    AtLeast0OrInfinity,
    /// Finite and at least 1.
    AtLeast1,
    /// Finite and above 0.
    Positive,
    /// [0, 1].
    Probability,
    /// [0, 1).
    BelowOne,
    /// Whole numbers from 1.
    From1,
    /// Whole numbers from 2.
    From2,
}

/// The value of a field.
pub(in crate::event) enum Value<'a> {
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

/// A field of an event.
pub(in crate::event) struct Field<'a> {
    pub(in crate::event) name: &'static str,
    pub(in crate::event) value: Value<'a>,
    pub(in crate::event) range: Range,
}

/// An event's class and fields.
pub(in crate::event) struct Entry<'a> {
    pub(in crate::event) class: &'static str,
    pub(in crate::event) module: &'static str,
    pub(in crate::event) fields: Vec<Field<'a>>,
}

/// Per event: variant, class, module, `field: range` and, after `=`, the value of a field that is left out.
macro_rules! events {
    ($($variant:ident $class:literal $module:ident { $($field:ident : $range:ident $(= $left_out:expr)?),* })*) => {
        /// The entry of an event.
        pub(in crate::event) fn entry(event: &Event) -> Entry<'_> {
            let mut fields = Vec::new();
            let (class, module) = match event {
                $(Event::$variant { $($field),* } => {
                    $(Part::write($field, stringify!($field), Range::$range, &mut fields);)*
                    ($class, $module)
                })*
            };
            Entry { class, module, fields }
        }

        /// Reads the event of a class, and says which module has it.
        pub(in crate::event) fn build(class: &str, fields: &mut Fields) -> Result<(Event, &'static str), String> {
            Ok(match class {
                $($class => (Event::$variant { $($field: read(stringify!($field), Range::$range, events!(@ $($left_out)?), fields)?),* }, $module),)*
                _ => return Err(format!("unknown class `{class}`")),
            })
        }
    };
    (@ $left_out:expr) => { Some($left_out) };
    (@) => { None };
}

events! {
    NoOp "NoOpDpEvent" PEER {}
    NonPrivate "NonPrivateDpEvent" PEER {}
    Unsupported "UnsupportedDpEvent" PEER {}
    RandomizedResponse "RandomizedResponseDpEvent" PEER { noise_parameter: Probability, num_buckets: From2 }
    Gaussian "GaussianDpEvent" PEER { noise_multiplier: AtLeast0 }
    Laplace "LaplaceDpEvent" PEER { noise_multiplier: AtLeast0 }
    DiscreteLaplace "DiscreteLaplaceDpEvent" PEER { noise_parameter: Positive, sensitivity: From1 }
    // a sensitivity below 1 is a mistake of units: two integer vectors that differ are at least 1 apart
    DiscreteGaussian "DiscreteGaussianDpEvent" PEER { sigma: AtLeast0, sensitivity: AtLeast1 = 1.0, dimension: From1 = None }
    ExponentialMechanism "ExponentialMechanismDpEvent" PEER { epsilon: AtLeast0 }
    PermuteAndFlip "PermuteAndFlipDpEvent" PEER { epsilon: AtLeast0 }
    EpsilonDelta "EpsilonDeltaDpEvent" PEER { epsilon: AtLeast0, delta: BelowOne }
    Zcdp "ZCDpEvent" PEER { rho: AtLeast0, xi: AtLeast0 = 0.0 }
    MixtureOfGaussians "MixtureOfGaussiansDpEvent" PEER { standard_deviation: Positive, sensitivities: AtLeast0, sampling_probs: Probability }
    SingleEpochTreeAggregation "SingleEpochTreeAggregationDpEvent" PEER { noise_multiplier: AtLeast0, step_counts: From1 }
    TruncatedSubsampledGaussian "TruncatedSubsampledGaussianDpEvent" PEER {
        dataset_size: From1, sampling_probability: Probability, truncated_batch_size: From1, noise_multiplier: AtLeast0
    }
    SelfComposed "SelfComposedDpEvent" PEER { event: Any, count: Any }
    Composed "ComposedDpEvent" PEER { events: Any }
    PoissonSampled "PoissonSampledDpEvent" PEER { sampling_probability: Probability, event: Any }
    SampledWithReplacement "SampledWithReplacementDpEvent" PEER { source_dataset_size: From1, sample_size: Any, event: Any }
    SampledWithoutReplacement "SampledWithoutReplacementDpEvent" PEER { source_dataset_size: From1, sample_size: Any, event: Any }
    RandomAllocation "RandomAllocationDpEvent" PEER { event: Any, num_selected: Any, num_steps: From1 }
    RepeatAndSelect "RepeatAndSelectDpEvent" PEER { event: Any, mean: Positive, shape: AtLeast0OrInfinity }
    Gdp "GdpDpEvent" OWN { mu: AtLeast0 }
    Rdp "RdpDpEvent" OWN { orders: Any, divergences: AtLeast0 }
    PrivacyProfile "PrivacyProfileDpEvent" OWN { epsilons: Any, deltas: Probability }
    PureStream "PureStreamDpEvent" OWN { epsilon: AtLeast0 }
    ApproxDp "ApproxDpDpEvent" OWN { epsilon: AtLeast0, delta: BelowOne }
    ChiSquareGaussian "ChiSquareGaussianDpEvent" OWN { degrees_of_freedom: From1, mu: AtLeast0 }
    ProposeTestRelease "ProposeTestReleaseDpEvent" OWN { epsilon: AtLeast0, delta: BelowOne, noise_multiplier: AtLeast0 }
    Gated "GatedDpEvent" OWN { probability: Probability, event: Any }
    Parallel "ParallelDpEvent" OWN { blocks: Any }
    UserUnit "UserUnitDpEvent" OWN { records_per_user: From1, event: Any }
    Approximate "ApproximateDpEvent" OWN { total_variation: BelowOne, event: Any }
    ObjectivePerturbation "ObjectivePerturbationDpEvent" OWN { noise_multiplier: Positive, regularization: Positive, link: Any }
}

/// A field's type: how it is written and read.
trait Part: Sized {
    fn write<'a>(&'a self, name: &'static str, range: Range, fields: &mut Vec<Field<'a>>);
    fn read(name: &'static str, range: Range, fields: &mut Fields) -> Result<Self, String>;
}

fn read<P: Part>(name: &'static str, range: Range, left_out: Option<P>, fields: &mut Fields) -> Result<P, String> {
    match left_out {
        Some(value) if !fields.has(name) => Ok(value),
        _ => P::read(name, range, fields),
    }
}

impl Part for f64 {
    fn write<'a>(&'a self, name: &'static str, range: Range, fields: &mut Vec<Field<'a>>) {
        fields.push(Field { name, value: Value::Real(*self), range });
    }

    fn read(name: &'static str, range: Range, fields: &mut Fields) -> Result<Self, String> {
        if range == Range::AtLeast0OrInfinity { fields.real_or_infinity(name) } else { fields.real(name) }
    }
}

/// `Part` of a type with one field, by the value that it is written as and the function that reads it.
macro_rules! part {
    ($kind:ty, $written:expr, $read:expr) => {
        impl Part for $kind {
            fn write<'a>(&'a self, name: &'static str, range: Range, fields: &mut Vec<Field<'a>>) {
                let written: fn(&'a $kind) -> Value<'a> = $written;
                fields.push(Field { name, value: written(self), range });
            }

            fn read(name: &'static str, _: Range, fields: &mut Fields) -> Result<Self, String> {
                let read: fn(&mut Fields, &str) -> Result<Self, String> = $read;
                read(fields, name)
            }
        }
    };
}

part!(u64, |n| Value::Integer(*n), Fields::integer);
part!(Option<u64>, |n| Value::Maybe(*n), Fields::integer_or_null);
part!(Vec<f64>, |list| Value::Reals(list), Fields::reals);
part!(Vec<u64>, |list| Value::Integers(list), Fields::integers);
part!(Box<Event>, |event| Value::One(event), |fields, name| fields.event(name).map(Box::new));
part!(Vec<Event>, |events| Value::Many(events), Fields::events);

impl Part for GlmLink {
    fn write<'a>(&'a self, name: &'static str, range: Range, fields: &mut Vec<Field<'a>>) {
        let (word, more) = match self {
            GlmLink::Monotone => ("monotone", None),
            GlmLink::Smooth { smoothness } => {
                let value = Value::Real(*smoothness);
                ("smooth", Some(Field { name: "smoothness", value, range: Range::AtLeast0 }))
            }
            GlmLink::Softmax { classes } => {
                let value = Value::Integer(u64::from(*classes));
                ("softmax", Some(Field { name: "classes", value, range: Range::From2 }))
            }
        };
        fields.push(Field { name, value: Value::Word(word), range });
        fields.extend(more);
    }

    fn read(name: &'static str, _: Range, fields: &mut Fields) -> Result<Self, String> {
        Ok(match fields.word(name)?.as_str() {
            "monotone" => GlmLink::Monotone,
            "smooth" => GlmLink::Smooth { smoothness: fields.real("smoothness")? },
            "softmax" => GlmLink::Softmax {
                classes: u32::try_from(fields.integer("classes")?)
                    .map_err(|_| "field `classes` is too large".to_owned())?,
            },
            other => return Err(format!("unknown link `{other}`; known: monotone, smooth, softmax")),
        })
    }
}

impl Field<'_> {
    /// Whether its numbers lie in their range; if one does not, which one it is and what it must be.
    pub(in crate::event) fn check(&self) -> Result<(), String> {
        match &self.value {
            Value::Real(x) => self.real(*x),
            Value::Reals(list) => list.iter().try_for_each(|x| self.real(*x)),
            Value::Integer(n) | Value::Maybe(Some(n)) => self.integer(*n),
            Value::Integers(list) => list.iter().try_for_each(|n| self.integer(*n)),
            Value::Maybe(None) | Value::Word(_) | Value::One(_) | Value::Many(_) => Ok(()),
        }
    }

    fn real(&self, x: f64) -> Result<(), String> {
        let (holds, must) = match self.range {
            Range::AtLeast0 => (x.is_finite() && x >= 0.0, "be finite and at least 0"),
            Range::AtLeast0OrInfinity => (x >= 0.0, "be at least 0"),
            Range::AtLeast1 => (x.is_finite() && x >= 1.0, "be finite and at least 1, as the norm of whole numbers is"),
            Range::Positive => (x.is_finite() && x > 0.0, "be finite and positive"),
            Range::Probability => ((0.0..=1.0).contains(&x), "lie in [0, 1]"),
            Range::BelowOne => ((0.0..1.0).contains(&x), "lie in [0, 1)"),
            Range::Any | Range::From1 | Range::From2 => return Ok(()),
        };
        if holds { Ok(()) } else { Err(format!("{} is {x}; it must {must}", self.name)) }
    }

    fn integer(&self, n: u64) -> Result<(), String> {
        let least = match self.range {
            Range::From1 => 1,
            Range::From2 => 2,
            _ => 0,
        };
        if n >= least { Ok(()) } else { Err(format!("{} is {n}; it must be at least {least}", self.name)) }
    }
}
