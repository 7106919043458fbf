//! What the entry of an event says of its class, whose class that is, its fields in order and the range of each. Reading, writing, hashing
//! and the check of ranges are made from it.

use super::entries::entries;
use super::tree::Tree;
use super::{Event, GlmLink};

/// The module of classes that `dp_accounting` has.
pub(super) const PEER: &str = "dp_accounting.dp_event";
/// The module of those that only dpopt has.
pub(super) const OWN: &str = "dpopt.event";

/// What a number may be; of a list, each of its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Range {
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
    /// Numbers from 0 to 1, both included.
    Probability,
    /// Numbers from 0, and below 1.
    BelowOne,
    /// Whole numbers from 1.
    From1,
    /// Whole numbers from 2.
    From2,
}

impl Range {
    /// The range in words, as the description of a class has it.
    pub(super) fn in_words(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::AtLeast0 => "at least 0",
            Self::AtLeast0OrInfinity => "at least 0 or infinity",
            Self::AtLeast1 | Self::From1 => "at least 1",
            Self::Positive => "above 0",
            Self::Probability => "0 to 1",
            Self::BelowOne => "0 to below 1",
            Self::From2 => "at least 2",
        }
    }
}

/// The value of a field.
pub(super) enum Value<'a> {
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
pub(super) struct Field<'a> {
    pub(super) name: &'static str,
    pub(super) value: Value<'a>,
    pub(super) range: Range,
}

/// An event's class and fields.
pub(super) struct Entry<'a> {
    pub(super) class: &'static str,
    pub(super) module: &'static str,
    pub(super) fields: Vec<Field<'a>>,
}

/// Takes the classes and fields of the entries.
macro_rules! table {
    ($(
        $(#[doc = $about:literal])*
        $variant:ident $class:literal $module:ident { $($field:ident : $range:ident $(= $left_out:expr)?),* } $([$($language:tt)*])?
    )*) => {
        /// The entry of an event.
        pub(super) fn entry(event: &Event) -> Entry<'_> {
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
        pub(super) fn build(class: &str, fields: &mut Fields) -> Result<(Event, &'static str), String> {
            Ok(match class {
                $($class => (Event::$variant { $($field: read(stringify!($field), Range::$range, table!(@ $($left_out)?), fields)?),* }, $module),)*
                _ => return Err(format!("unknown class `{class}`")),
            })
        }
    };
    (@ $left_out:expr) => { Some($left_out) };
    (@) => { None };
}
entries!(table);

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
    pub(super) fn check(&self) -> Result<(), String> {
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

/// The fields of one object, taken out one by one; what is left over is an error.
pub(super) struct Fields {
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

    fn event(&mut self, name: &str) -> Result<Event, String> {
        from_tree(self.take(name)?)
    }

    fn events(&mut self, name: &str) -> Result<Vec<Event>, String> {
        match self.take(name)? {
            Tree::List(items) => items.into_iter().map(from_tree).collect(),
            _ => self.wrong(name, "a list of events"),
        }
    }
}

pub(super) fn from_tree(tree: Tree) -> Result<Event, String> {
    let Tree::Object(entries) = tree else {
        return Err("an event is an object with a `class_name`".into());
    };
    let mut fields = Fields { class: "event".into(), entries };
    fields.class = fields.word("class_name")?;
    let class = fields.class.clone();
    let module = if fields.has("module_name") { Some(fields.word("module_name")?) } else { None };
    let (event, expected) = build(&class, &mut fields)?;
    // events that were dpopt's own before dp_accounting had them are read under both names
    let moved = class == "ExponentialMechanismDpEvent" && module.as_deref() == Some(OWN);
    if !moved && module.is_some_and(|m| m != expected) {
        return Err(format!("module_name of {class} must be `{expected}`"));
    }
    if let Some((extra, _)) = fields.entries.first() {
        return Err(format!("{class} has no field `{extra}`"));
    }
    Ok(event)
}
