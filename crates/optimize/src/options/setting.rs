//! One option: its name, the values it takes, and what it does.

use super::{Value, shown};
use crate::plan::NotApplicable;
use dpopt_privacy::Shown;
use dpopt_refusal::{Refusal, option};
use serde::Serialize;

/// The values of an option.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "form", rename_all = "kebab-case")]
pub enum Form {
    /// A number in a range.
    Real {
        /// The lowest number of the range.
        low: f64,
        /// Whether it is allowed itself.
        low_included: bool,
        /// The highest number, allowed.
        high: f64,
        /// The range as a phrase after "give".
        in_words: &'static str,
    },
    /// A whole number, at least 1.
    Whole,
    /// True or false, a flag.
    Flag,
    /// One of these words; what each means.
    Words {
        /// Each word with its meaning.
        words: Vec<(&'static str, &'static str)>,
    },
    /// Numbers, one per encoded feature.
    Reals,
    /// A norm of weights: l1, l2, or lp:P.
    Norm,
}

/// What a [`Form::Norm`] takes, as a phrase after "give".
pub const NORMS: &str = "l1, l2, or lp:P with a number P from 1 on, as in lp:1.5";

/// P of a norm as it is written.
fn order(word: &str) -> Option<f64> {
    match word {
        "l1" => Some(1.0),
        "l2" => Some(2.0),
        _ => word.strip_prefix("lp:")?.parse().ok().filter(|p: &f64| *p >= 1.0 && p.is_finite()),
    }
}

/// What is known of an option: all that a flag, a keyword or a line of documentation needs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OptionInfo {
    /// As in Python; with dashes for underscores it is the flag.
    pub name: &'static str,
    /// One line that says what it does.
    pub help: &'static str,
    /// What the value is called where a program shows its use.
    pub value_name: &'static str,
    /// The values it takes.
    #[serde(flatten)]
    pub form: Form,
    /// It says what the answer may be, not how a method finds it: methods without it do not apply to the same question.
    pub of_the_answer: bool,
}

impl OptionInfo {
    /// Refuses a value that the option never takes.
    ///
    /// # Errors
    /// Names the option and what to give instead.
    pub fn check(&self, value: &Value) -> Result<(), NotApplicable> {
        let name = self.name;
        let refused = |what: String, give: &str| {
            Err(NotApplicable::Option(Refusal::of(option(name)).given(what).allowed(give.to_string())))
        };
        let other = || match value {
            Value::Flag(flag) => flag.to_string(),
            Value::Whole(number) => number.to_string(),
            Value::Real(number) => Shown(*number).to_string(),
            Value::Word(word) => format!("`{}`", shown(word)),
            Value::Reals(_) => "a list".to_string(),
        };
        match &self.form {
            Form::Real { low, low_included, high, in_words } => match value.real() {
                // NaN is in no range
                Some(x) if (x > *low || (*low_included && x == *low)) && x <= *high => Ok(()),
                Some(x) => refused(Shown(x).to_string(), in_words),
                None => refused(other(), in_words),
            },
            Form::Whole => match value {
                Value::Whole(0) => refused("0".into(), "at least 1"),
                Value::Whole(_) => Ok(()),
                _ => refused(other(), "a whole number, at least 1"),
            },
            Form::Flag if matches!(value, Value::Flag(_)) => Ok(()),
            Form::Flag => refused(other(), "true or false"),
            Form::Words { words } => {
                let known = |word: &String| words.iter().any(|(w, _)| w == word);
                if matches!(value, Value::Word(word) if known(word)) {
                    return Ok(());
                }
                let list: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
                refused(other(), &format!("one of {}", list.join(", ")))
            }
            Form::Reals => match value {
                Value::Reals(numbers) if numbers.iter().all(|x| x.is_finite()) => Ok(()),
                Value::Reals(_) => refused("a list with a number that is not finite".into(), "finite numbers"),
                _ => refused(other(), "a list of numbers"),
            },
            Form::Norm if matches!(value, Value::Word(word) if order(word).is_some()) => Ok(()),
            Form::Norm => refused(other(), NORMS),
        }
    }
}

/// A word of an option, what it means to a reader, and to the method.
pub struct Choice<T> {
    /// The word as it is typed.
    pub word: &'static str,
    /// What the word means to a reader.
    pub meaning: &'static str,
    /// What the word means to the method.
    pub value: T,
}

/// One option of type `T`, kept as a static beside the method that has it.
pub struct Setting<T: 'static> {
    name: &'static str,
    help: &'static str,
    value_name: &'static str,
    form: fn(&Self) -> Form,
    range: Range,
    choices: &'static [Choice<T>],
    of_the_answer: bool,
    read: fn(&Self, &Value) -> Option<T>,
}

/// Lowest and highest value, and whether the lowest itself is allowed.
#[derive(Clone, Copy)]
pub struct Range {
    low: f64,
    low_included: bool,
    high: f64,
    in_words: &'static str,
}

/// The largest f64 below 1.
const BELOW_ONE: f64 = 1.0 - f64::EPSILON / 2.0;

impl Range {
    /// All numbers above 0.
    pub const POSITIVE: Self =
        Self { low: 0.0, low_included: false, high: f64::MAX, in_words: "a positive, finite number" };
    /// All numbers from 0 on.
    pub const NOT_NEGATIVE: Self =
        Self { low: 0.0, low_included: true, high: f64::MAX, in_words: "a finite number, 0 or more" };
    /// Above 0, at most 1.
    pub const PROBABILITY: Self =
        Self { low: 0.0, low_included: false, high: 1.0, in_words: "a number above 0, at most 1" };
    /// All numbers from 0 on that are below 1.
    pub const SHARE: Self =
        Self { low: 0.0, low_included: true, high: BELOW_ONE, in_words: "a number from 0, below 1" };

    /// From `low` to `high`, both allowed; `in_words` follows "give".
    pub const fn closed(low: f64, high: f64, in_words: &'static str) -> Self {
        Self { low, low_included: true, high, in_words }
    }
}

impl<T> Setting<T> {
    const fn new(
        name: &'static str,
        help: &'static str,
        value_name: &'static str,
        form: fn(&Self) -> Form,
        read: fn(&Self, &Value) -> Option<T>,
    ) -> Self {
        Self { name, help, value_name, form, range: Range::POSITIVE, choices: &[], of_the_answer: false, read }
    }

    /// The option says what the answer may be, not how it is found.
    pub const fn of_the_answer(mut self) -> Self {
        self.of_the_answer = true;
        self
    }

    /// Shown with its value called `value_name`.
    pub const fn called(mut self, value_name: &'static str) -> Self {
        self.value_name = value_name;
        self
    }

    /// Name of the option.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What is known of it.
    pub fn info(&self) -> OptionInfo {
        let Self { name, help, value_name, of_the_answer, .. } = *self;
        OptionInfo { name, help, value_name, form: (self.form)(self), of_the_answer }
    }

    /// The value, if it is one of this option's.
    pub(super) fn read(&self, value: &Value) -> Option<T> {
        (self.read)(self, value)
    }
}

impl Setting<f64> {
    /// An option whose value is a number in `range`.
    pub const fn real(name: &'static str, range: Range, help: &'static str) -> Self {
        let form = |s: &Self| {
            let Range { low, low_included, high, in_words } = s.range;
            Form::Real { low, low_included, high, in_words }
        };
        let mut setting = Self::new(name, help, "X", form, |_, value| value.real());
        setting.range = range;
        setting
    }

    /// The order P of a norm of weights.
    pub const fn norm(name: &'static str, help: &'static str) -> Self {
        let read = |_: &Self, value: &Value| match value {
            Value::Word(word) => order(word),
            _ => None,
        };
        Self::new(name, help, "NORM", |_| Form::Norm, read)
    }
}

impl Setting<u64> {
    /// A whole number, at least 1.
    pub const fn whole(name: &'static str, help: &'static str) -> Self {
        let read = |_: &Self, value: &Value| match value {
            Value::Whole(number) => Some(*number),
            _ => None,
        };
        Self::new(name, help, "N", |_| Form::Whole, read)
    }
}

impl Setting<bool> {
    /// An option that is true or false.
    pub const fn flag(name: &'static str, help: &'static str) -> Self {
        Self::new(name, help, "", |_| Form::Flag, |_, value| matches!(value, Value::Flag(true)).then_some(true))
    }
}

impl Setting<Vec<f64>> {
    /// Numbers, one per encoded feature; a public file with one per line.
    pub const fn reals(name: &'static str, help: &'static str) -> Self {
        let read = |_: &Self, value: &Value| match value {
            Value::Reals(numbers) => Some(numbers.clone()),
            _ => None,
        };
        Self::new(name, help, "FILE", |_| Form::Reals, read)
    }
}

impl<T: Clone> Setting<T> {
    /// One of some words.
    pub const fn choice(name: &'static str, choices: &'static [Choice<T>], help: &'static str) -> Self {
        let form = |s: &Self| Form::Words { words: s.choices.iter().map(|c| (c.word, c.meaning)).collect() };
        let read = |s: &Self, value: &Value| match value {
            Value::Word(word) => s.choices.iter().find(|c| c.word == word).map(|c| c.value.clone()),
            _ => None,
        };
        let mut setting = Self::new(name, help, "WORD", form, read);
        setting.choices = choices;
        setting
    }
}
