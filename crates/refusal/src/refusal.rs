//! Sentences that name options by their identifiers, and refusals that are made of them.

use crate::face::{Step, at_work};
use serde::{Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;

/// A piece of a sentence.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Text that is shown as it is.
    Words(Cow<'static, str>),
    /// An option by its identifier.
    Option(Cow<'static, str>),
    /// An option and its value.
    Setting(&'static str, Cow<'static, str>),
    /// What to do, in the words of each face.
    Step(Step),
    /// A refusal within a sentence, cut after so many letters.
    Reason(Box<Refusal>, usize),
}

/// The option of that identifier, within a sentence.
pub fn option(id: impl Into<Cow<'static, str>>) -> Part {
    Part::Option(id.into())
}

/// An option with a value, within a sentence. Capitals stand for a value, `setting("columns", "N")`; `true` switches an
/// option on that has no other.
pub fn setting(id: &'static str, value: impl Into<Cow<'static, str>>) -> Part {
    Part::Setting(id, value.into())
}

/// Shows the piece in the words of the face at work.
impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Words(words) => f.write_str(words),
            Self::Option(id) => f.write_str(&at_work().option(id)),
            Self::Setting(id, value) => f.write_str(&at_work().setting(id, value)),
            Self::Step(step) => step.fmt(f),
            Self::Reason(why, most) => why.to_string().chars().take(*most).try_for_each(|c| write!(f, "{c}")),
        }
    }
}

impl From<&'static str> for Part {
    fn from(words: &'static str) -> Self {
        Self::Words(words.into())
    }
}

impl From<String> for Part {
    fn from(words: String) -> Self {
        Self::Words(words.into())
    }
}

impl From<Step> for Part {
    fn from(step: Step) -> Self {
        Self::Step(step)
    }
}

/// A sentence, or a part of one: words, and options by their identifiers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Text(Vec<Part>);

/// A [`Text`] of these pieces: words, [`option`](crate::option)s, [`setting`](crate::setting)s, [`Step`](crate::Step)s.
///
/// ```
/// use dpopt_refusal::{option, text};
/// let text = text!["give ", option("smoothness"), format!(", or take {}", "noisy-sgd")];
/// assert_eq!(text.to_string(), "give `smoothness`, or take noisy-sgd");
/// ```
#[macro_export]
macro_rules! text {
    ($($part:expr),+ $(,)?) => { <$crate::Text as ::std::iter::FromIterator<$crate::Part>>::from_iter([$($crate::Part::from($part)),+]) };
}

impl Text {
    /// This and then `more`.
    pub fn and(mut self, more: impl Into<Self>) -> Self {
        self.0.extend(more.into().0);
        self
    }

    /// The pieces of the text.
    pub fn parts(&self) -> &[Part] {
        &self.0
    }
}

impl FromIterator<Part> for Text {
    fn from_iter<I: IntoIterator<Item = Part>>(parts: I) -> Self {
        Self(parts.into_iter().collect())
    }
}

impl<T: Into<Part>> From<T> for Text {
    fn from(part: T) -> Self {
        Self(vec![part.into()])
    }
}

/// Shows the text in the words of the face at work.
impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|part| part.fmt(f))
    }
}

/// Serialises as text, in the words of the face at work.
impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Why something is not done, and what to do instead. It holds nothing of a record.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// What it is about: an option, a column, or a sentence that says what is wrong.
    pub subject: Text,
    /// What was given for it.
    pub given: Option<Text>,
    /// What may be given for it, as a phrase after "give".
    pub allowed: Option<Text>,
    /// What else can be done, each by itself.
    pub remedies: Vec<Remedy>,
}

/// One way out of a refusal. Options are named by their identifiers.
#[derive(Clone, Debug, PartialEq)]
pub enum Remedy {
    /// Give an option a value.
    Set(&'static str, String),
    /// Leave an option out.
    LeaveOut(&'static str),
    /// Give an option a larger value.
    Raise(&'static str),
    /// Give an option a smaller value.
    Lower(&'static str),
    /// What every face has words of its own for, if it can be done there at all.
    Do(Step),
    /// Any other advice.
    Advice(Text),
}

impl Remedy {
    /// In the words of the face at work; nothing where it cannot be done there.
    fn words(&self) -> Option<Text> {
        Some(match self {
            Self::Set(id, value) => Text::from_iter(["give ".into(), setting(id, value.clone())]),
            Self::LeaveOut(id) => Text::from_iter(["leave out ".into(), option(*id)]),
            Self::Raise(id) => Text::from_iter(["raise ".into(), option(*id)]),
            Self::Lower(id) => Text::from_iter(["lower ".into(), option(*id)]),
            Self::Do(step) => step.words()?.into(),
            Self::Advice(text) => text.clone(),
        })
    }

    /// Several remedies, of which one is enough: "raise …, or leave out …", without those that cannot be done here.
    pub fn one_of<const N: usize>(remedies: [Self; N]) -> OneOf {
        OneOf(remedies.into())
    }
}

/// Remedies of which one is enough; displayed as a list.
#[derive(Clone, Debug, PartialEq)]
pub struct OneOf(Vec<Remedy>);

impl fmt::Display for OneOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, words) in self.0.iter().filter_map(Remedy::words).enumerate() {
            write!(f, "{}{words}", if i > 0 { ", or " } else { "" })?;
        }
        Ok(())
    }
}

impl From<Step> for Remedy {
    fn from(step: Step) -> Self {
        Self::Do(step)
    }
}

impl From<Text> for Remedy {
    fn from(advice: Text) -> Self {
        Self::Advice(advice)
    }
}

impl From<&'static str> for Remedy {
    fn from(advice: &'static str) -> Self {
        Self::Advice(advice.into())
    }
}

impl Refusal {
    /// About `subject`, which says all there is to say so far.
    pub fn of(subject: impl Into<Text>) -> Self {
        Self { subject: subject.into(), given: None, allowed: None, remedies: Vec::new() }
    }

    /// What was given for it.
    pub fn given(self, given: impl Into<Text>) -> Self {
        Self { given: Some(given.into()), ..self }
    }

    /// What may be given for it, as a phrase after "give".
    pub fn allowed(self, allowed: impl Into<Text>) -> Self {
        Self { allowed: Some(allowed.into()), ..self }
    }

    /// A way out beside those that it has.
    pub fn or(mut self, remedy: impl Into<Remedy>) -> Self {
        self.remedies.push(remedy.into());
        self
    }

    /// This refusal with the name of who refuses put first.
    pub fn by(self, who: &str) -> Self {
        Self { subject: Text::from(format!("{who}: ")).and(self.subject), ..self }
    }
}

/// Shows the refusal in the words of the face at work.
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.subject.fmt(f)?;
        if let Some(given) = &self.given {
            write!(f, " is {given}")?;
        }
        let allowed = self.allowed.iter().map(|allowed| Text::from("give ").and(allowed.clone()));
        for (i, words) in allowed.chain(self.remedies.iter().filter_map(Remedy::words)).enumerate() {
            write!(f, "{}{words}", if i > 0 { ", or " } else { "; " })?;
        }
        Ok(())
    }
}

impl std::error::Error for Refusal {}

/// Serialises as text, in the words of the face at work.
impl Serialize for Refusal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<T: Into<Text>> From<T> for Refusal {
    fn from(subject: T) -> Self {
        Self::of(subject)
    }
}
