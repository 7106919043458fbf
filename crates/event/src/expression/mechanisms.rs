//! The mechanisms by name, from the entries of events, and the forms of their arguments.

use super::{ExpressionError, Free, Parsed, Parser};
use crate::Event;
use crate::event::GlmLink;
use crate::event::entries::entries;

/// A mechanism of the language.
pub struct Mechanism {
    /// How it is written: `gaussian(z)`.
    pub written: &'static str,
    /// What it is, in one line.
    pub meaning: &'static str,
    /// Its name, and others that are understood.
    names: &'static [&'static str],
    /// Reads the arguments.
    read: fn(&mut Parser<'_>) -> Parsed<Event>,
}

/// Takes what the entries say of the language. Arguments that are no plain list are read by the entry's own function.
macro_rules! language {
    ($(
        $(#[doc = $about:literal])*
        $variant:ident $class:literal $module:ident { $($fields:tt)* } $([$($language:tt)*])?
    )*) => {
        /// Every mechanism of the language.
        static MECHANISMS: &[Mechanism] = &[$($(language!(@row $variant $($language)*),)?)*];
    };
    (@row $variant:ident $name:ident $(or $alias:ident)* $parameters:literal $meaning:literal $($arguments:tt)*) => {
        Mechanism {
            written: concat!(stringify!($name), "(", $parameters, ")"),
            meaning: $meaning,
            names: &[stringify!($name) $(, stringify!($alias))*],
            read: language!(@read $variant $($arguments)*),
        }
    };
    (@read $variant:ident by $read:expr) => { $read };
    (@read $variant:ident {}) => { |_| Ok(Event::$variant {}) };
    (@read $variant:ident { $first:ident : $form:ident $(, $argument:ident : $next:ident $(= $default:expr)?)* }) => {
        |parser| {
            Ok(Event::$variant {
                $first: parser.$form(stringify!($first))?,
                $($argument: language!(@next parser $argument $next $($default)?)),*
            })
        }
    };
    (@next $parser:ident $argument:ident $form:ident) => {{
        $parser.comma()?;
        $parser.$form(stringify!($argument))?
    }};
    (@next $parser:ident $argument:ident $form:ident $default:expr) => {
        if $parser.eat(",") { $parser.$form(stringify!($argument))? } else { $default }
    };
}
entries!(language);

/// Every mechanism of the language, in the order of the entries; `M x 1000` and `M + M'` are more than a name.
///
/// ```
/// let mechanisms = dpopt_event::expression::mechanisms();
/// assert_eq!(mechanisms[0].written, "gaussian(z)");
/// ```
pub fn mechanisms() -> &'static [Mechanism] {
    MECHANISMS
}

/// The mechanism of that name, which may be one of its other names; in any case of letters.
///
/// ```
/// let named = dpopt_event::expression::mechanism("Exponential_Mechanism");
/// assert_eq!(named.map(|mechanism| mechanism.name()), Some("exponential"));
/// ```
pub fn mechanism(name: &str) -> Option<&'static Mechanism> {
    let lower = name.to_ascii_lowercase();
    MECHANISMS.iter().find(|mechanism| mechanism.names.contains(&lower.as_str()))
}

impl Mechanism {
    /// The name by which it is listed.
    ///
    /// ```
    /// assert_eq!(dpopt_event::expression::mechanisms()[0].name(), "gaussian");
    /// ```
    pub fn name(&self) -> &'static str {
        self.names[0]
    }

    /// How it is written where somebody left its parameters out: with an example if there is only one.
    fn needs(&self, name: &str) -> String {
        let (written, meaning) = (self.written, self.meaning);
        let parameters = written[self.name().len()..].trim_matches(['(', ')']);
        match parameters {
            "" => format!("`{name}` needs brackets: '{written}' ({meaning})"),
            one if one.chars().all(|c| c.is_ascii_lowercase()) => format!(
                "`{name}` needs its parameter in brackets: '{written}', for example '{}(1)' ({meaning})",
                self.name()
            ),
            _ => format!("`{name}` needs its parameters in brackets: '{written}' ({meaning})"),
        }
    }
}

impl Parser<'_> {
    /// The mechanism `name`, which begins at the character `position`, with its arguments up to its closing bracket.
    pub(super) fn mechanism(&mut self, name: &str, position: usize) -> Parsed<Event> {
        let of_name = |message: String| ExpressionError { position, message, name: Some(name.into()) };
        let Some(found) = mechanism(name) else {
            let names: Vec<_> = MECHANISMS.iter().map(Mechanism::name).collect();
            return Err(of_name(format!("`{name}` is not a mechanism; give one of {}", names.join(", "))));
        };
        let open = self.eat("(");
        self.skip_space();
        let empty = self.rest().starts_with(')') && !found.written.ends_with("()");
        if !open || empty {
            return Err(of_name(found.needs(name)));
        }
        (found.read)(self)
    }
}

/// The forms of arguments that the entries name.
impl Parser<'_> {
    /// A noise: positive, may be searched for.
    fn noise(&mut self, label: &str) -> Parsed<f64> {
        self.positive(label, Some(Free::Noise))
    }

    /// An ε, μ, ρ, decay or mean: positive, may be searched for.
    fn cost(&mut self, label: &str) -> Parsed<f64> {
        self.positive(label, Some(Free::Cost))
    }

    /// An ε that may be 0 and may be searched for.
    fn cost_from_0(&mut self, label: &str) -> Parsed<f64> {
        self.number_within(label, 0.0, f64::MAX, Some(Free::Cost))
    }

    fn positive_number(&mut self, label: &str) -> Parsed<f64> {
        self.positive(label, None)
    }

    fn at_least_0(&mut self, label: &str) -> Parsed<f64> {
        self.number_within(label, 0.0, f64::MAX, None)
    }

    fn at_least_1(&mut self, label: &str) -> Parsed<f64> {
        self.number_within(label, 1.0, f64::MAX, None)
    }

    /// A number of at least 0, or `inf`.
    fn at_least_0_or_infinity(&mut self, label: &str) -> Parsed<f64> {
        self.label(label)?;
        if self.eat("inf") { Ok(f64::INFINITY) } else { self.at_least_0(label) }
    }

    fn probability(&mut self, label: &str) -> Parsed<f64> {
        self.number_within(label, 0.0, 1.0, None)
    }

    /// A positive probability that may be searched for.
    fn sampling_probability(&mut self, label: &str) -> Parsed<f64> {
        self.number_within(label, f64::MIN_POSITIVE, 1.0, Some(Free::SamplingProbability))
    }

    /// A whole number of at least 1.
    fn integer(&mut self, label: &str) -> Parsed<u64> {
        self.label(label)?;
        self.count()
    }

    /// A whole number of at least 1 that may be unknown where it is left out.
    fn known_integer(&mut self, label: &str) -> Parsed<Option<u64>> {
        self.integer(label).map(Some)
    }

    /// An event, which has no label.
    fn nested(&mut self, _: &str) -> Parsed<Box<Event>> {
        self.event().map(Box::new)
    }

    /// Events up to the closing bracket.
    fn list(&mut self, _: &str) -> Parsed<Vec<Event>> {
        let mut events = vec![self.event()?];
        while self.eat(",") {
            events.push(self.event()?);
        }
        Ok(events)
    }

    /// Whether a number comes next, or the label `label`.
    fn is_next_number_or(&mut self, label: &str) -> bool {
        self.skip_space();
        self.rest().starts_with(|c: char| c.is_ascii_digit()) || self.rest().starts_with(label)
    }

    /// `n, m` of a sample of m from n records.
    fn sample(&mut self) -> Parsed<(u64, u64)> {
        let of = self.integer("source_dataset_size")?;
        self.comma()?;
        self.label("sample_size")?;
        self.skip_space();
        // an empty sample is one too
        let empty = self.rest().strip_prefix('0').is_some_and(|rest| rest.trim_start().starts_with(','));
        let size = if empty {
            self.eat("0");
            0
        } else {
            self.count_or(Free::SampleSize { of })?
        };
        Ok((of, size))
    }

    /// Reads a list of pairs, `x: y, x: y`.
    fn pairs(&mut self) -> Parsed<(Vec<f64>, Vec<f64>)> {
        let (mut left, mut right) = (vec![], vec![]);
        loop {
            left.push(self.ratio()?);
            if !self.eat(":") {
                return Err(self.wrong("expected `:` and a second number, as in 2: 0.1, 4: 0.3"));
            }
            right.push(self.ratio()?);
            if !self.eat(",") {
                return Ok((left, right));
            }
        }
    }

    fn link(&mut self, label: &str) -> Parsed<GlmLink> {
        self.label(label)?;
        let start = self.at;
        match self.name().as_str() {
            "monotone" | "logistic" => Ok(GlmLink::Monotone),
            "smooth" if self.eat("(") => {
                let smoothness = self.positive_number("smoothness")?;
                self.close()?;
                Ok(GlmLink::Smooth { smoothness })
            }
            "softmax" if self.eat("(") => {
                self.label("classes")?;
                let classes = self.count()?;
                let classes = u32::try_from(classes).ok().filter(|k| *k >= 2);
                let Some(classes) = classes else {
                    return Err(self.wrong("softmax needs at least 2 classes"));
                };
                self.close()?;
                Ok(GlmLink::Softmax { classes })
            }
            _ => Err(ExpressionError::at(start + 1, "expected monotone, smooth(BOUND) or softmax(CLASSES)")),
        }
    }
}
