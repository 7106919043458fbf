//! The classes of events as data, one per entry: what a package in another language makes its own classes from.

use super::entries::entries;
use super::table::{OWN, PEER, Range};
use super::{Event, GlmLink};
use serde::Serialize;

/// A class of events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Class {
    /// Its name, `class_name` in JSON.
    pub name: &'static str,
    /// The module that has it, `module_name` in JSON.
    pub module: &'static str,
    /// What the event is, in one sentence.
    pub about: String,
    /// Its fields, in the order of JSON.
    pub fields: Vec<ClassField>,
}

/// A field of a class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClassField {
    /// The field's name in JSON.
    pub name: &'static str,
    /// `real`, `whole`, `word`, `event`; `reals`, `wholes`, `events` for lists of them; `real or none`, `whole or none`.
    pub kind: &'static str,
    /// What its number, or each of its numbers, may be: `any`, `at least 0`, `at least 0 or infinity`, `at least 1`, `at least 2`, `above 0`, `0 to 1`,
    /// `0 to below 1`.
    pub range: &'static str,
    /// The value of a field that is left out, as Rust and Python write it; none where it must be given.
    pub default: Option<String>,
}

/// All classes, in the order of the entries.
///
/// ```
/// let classes = dpopt_event::event::classes();
/// let gaussian = classes.iter().find(|class| class.name == "GaussianDpEvent").unwrap();
/// assert_eq!((gaussian.fields[0].name, gaussian.fields[0].kind), ("noise_multiplier", "real"));
/// ```
pub fn classes() -> Vec<Class> {
    described()
}

/// Takes what the entries say of classes; the type of a field is that of the event.
macro_rules! described {
    ($(
        $(#[doc = $about:literal])*
        $variant:ident $class:literal $module:ident { $($field:ident : $range:ident $(= $default:expr)?),* } $([$($language:tt)*])?
    )*) => {
        fn described() -> Vec<Class> {
            vec![$(Class {
                name: $class,
                module: $module,
                about: about(&[$($about),*]),
                fields: Vec::<Vec<ClassField>>::from([$(fields(
                    |event| if let Event::$variant { $field, .. } = event { Some($field) } else { None },
                    stringify!($field),
                    Range::$range,
                    described!(@ $($default)?),
                )),*]).concat(),
            }),*]
        }
    };
    (@ $default:expr) => { Some($default) };
    (@) => { None };
}
entries!(described);

/// Lines of documentation as text.
fn about(lines: &[&str]) -> String {
    lines.iter().map(|line| line.strip_prefix(' ').unwrap_or(line)).collect::<Vec<_>>().join("\n")
}

/// The description of the field that `_of` finds in an event.
fn fields<P: Part>(
    _of: impl Fn(&Event) -> Option<&P>,
    name: &'static str,
    range: Range,
    default: Option<P>,
) -> Vec<ClassField> {
    P::fields(name, range.in_words(), default)
}

/// The type of a field of an event.
trait Part: Sized {
    fn fields(name: &'static str, range: &'static str, default: Option<Self>) -> Vec<ClassField>;
}

/// `Part` of types with one field, by its kind.
macro_rules! part {
    ($($type:ty => $kind:literal),*) => {
        $(impl Part for $type {
            fn fields(name: &'static str, range: &'static str, default: Option<Self>) -> Vec<ClassField> {
                vec![ClassField { name, kind: $kind, range, default: default.map(|value| format!("{value:?}")) }]
            }
        })*
    };
}

part!(
    f64 => "real",
    u64 => "whole",
    Option<u64> => "whole or none",
    Vec<f64> => "reals",
    Vec<u64> => "wholes",
    Box<Event> => "event",
    Vec<Event> => "events"
);

impl Part for GlmLink {
    fn fields(name: &'static str, range: &'static str, _: Option<Self>) -> Vec<ClassField> {
        let more = |name, kind, range: Range| ClassField {
            name,
            kind,
            range: range.in_words(),
            default: Some("None".to_owned()),
        };
        vec![
            ClassField { name, kind: "word", range, default: None },
            more("smoothness", "real or none", Range::AtLeast0),
            more("classes", "whole or none", Range::From2),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What JSON writes of an event is what its class says.
    #[test]
    fn a_class_has_the_fields_that_json_writes() {
        let all = classes();
        for text in [
            "gaussian(1)",
            "discrete_gaussian(4, 2, 1)",
            "mixture(2, 0: 0.9, 1: 0.1)",
            "tree(8, 1000)",
            "best_of(5, 1, gaussian(8)) x 3",
            "gaussian(1) + nothing()",
            "parallel(gaussian(4), laplace(9))",
            "random_allocation(20, gaussian(2))",
        ] {
            let event = crate::expression::parse(text, None).unwrap();
            let json: serde_json::Value = serde_json::from_str(&event.to_json().unwrap()).unwrap();
            let class = all.iter().find(|class| class.name == json["class_name"]).unwrap();
            assert_eq!(json["module_name"], class.module, "{text}");
            let mut written: Vec<_> = json.as_object().unwrap().keys().map(String::as_str).collect();
            let mut said: Vec<_> = class.fields.iter().map(|field| field.name).collect();
            said.extend(["class_name", "module_name"]);
            written.sort_unstable();
            said.sort_unstable();
            assert_eq!(written, said, "{text}");
        }
    }

    #[test]
    fn what_is_left_out_and_what_is_said_of_a_class() {
        let all = classes();
        let class = all.iter().find(|class| class.name == "DiscreteGaussianDpEvent").unwrap();
        assert!(class.about.starts_with("Integer noise") && class.about.contains(".\n\n`sensitivity` is"), "{class:?}");
        let fields: Vec<_> = class.fields.iter().map(|f| (f.name, f.kind, f.range, f.default.as_deref())).collect();
        let expected = [
            ("sigma", "real", "at least 0", None),
            ("sensitivity", "real", "at least 1", Some("1.0")),
            ("dimension", "whole or none", "at least 1", Some("None")),
        ];
        assert_eq!(fields, expected);
    }
}
