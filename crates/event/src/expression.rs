//! A small language for events: `poisson(0.01, gaussian(1.1)) x 1000 + laplace(2)`.
//!
//! ```text
//! event   := term ( "+" term )*                      composition
//! term    := factor ( ("x" | "*") count )*           repetition with fresh randomness; also `count x factor`
//! factor  := name "(" arguments ")" | "(" event ")"
//! number  := 1.5 | 2e-3 | 256/60000 | "?"            "?" is the number to be found ([`Free`])
//! ```
//!
//! The names, their parameters and what they mean: [`mechanisms`].
//!
//! Arguments may be named: `gaussian(noise_multiplier=1.1)`.

mod mechanisms;
#[cfg(test)]
mod tests;

pub use mechanisms::{Mechanism, mechanism, mechanisms};

use crate::Event;
use thiserror::Error;

/// Why a text is not an event.
#[derive(Clone, Debug, Error, PartialEq)]
#[error("character {position} of the mechanism: {message}")]
pub struct ExpressionError {
    /// Position of the character at fault, counted from 1.
    pub position: usize,
    /// What is wrong and what would be right.
    pub message: String,
    /// The name at fault: one that is no mechanism, or of a mechanism without its parameters.
    pub name: Option<String>,
}

impl ExpressionError {
    fn at(position: usize, message: impl Into<String>) -> Self {
        Self { position, message: message.into(), name: None }
    }
}

/// Reads an event; `unknown` is the value of every `?`.
///
/// ```
/// use dpopt_event::{Event, expression::parse};
/// let event = parse("poisson(1/100, gaussian(1.1)) x 1000", None).unwrap();
/// assert_eq!(event, Event::gaussian(1.1).poisson_sampled(0.01).self_composed(1000));
/// assert_eq!(parse("gaussian(?)", Some(2.0)).unwrap(), Event::gaussian(2.0));
/// ```
pub fn parse(text: &str, unknown: Option<f64>) -> Result<Event, ExpressionError> {
    Parser::new(text, unknown).whole()
}

/// What a `?` stands for, and with that on which side the private values lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Free {
    /// A noise: the larger the more private.
    Noise,
    /// An ε, μ, ρ or decay: the smaller the more private.
    Cost,
    /// A sampling probability.
    SamplingProbability,
    /// How often something is repeated.
    Steps,
    /// The size of a sample from so many records.
    SampleSize {
        /// Number of records.
        of: u64,
    },
}

/// What the `?` of a text stand for, each kind once.
///
/// ```
/// use dpopt_event::expression::{Free, free_parameters};
/// assert_eq!(free_parameters("poisson(?, gaussian(1.1)) x 1000").unwrap(), [Free::SamplingProbability]);
/// assert_eq!(free_parameters("gaussian(?) + laplace(?)").unwrap(), [Free::Noise]);
/// ```
pub fn free_parameters(text: &str) -> Result<Vec<Free>, ExpressionError> {
    let mut parser = Parser::new(text, Some(1.0));
    parser.whole()?;
    Ok(parser.free)
}

/// True if `text` has a `?` to be found.
pub fn has_unknown(text: &str) -> bool {
    text.contains('?')
}

/// Nesting that no real mechanism needs; bounds the stack.
const DEEPEST: usize = 64;

struct Parser<'a> {
    text: &'a str,
    at: usize,
    unknown: Option<f64>,
    free: Vec<Free>,
    depth: usize,
}

type Parsed<T> = Result<T, ExpressionError>;

impl<'a> Parser<'a> {
    fn new(text: &'a str, unknown: Option<f64>) -> Self {
        Self { text, at: 0, unknown, free: vec![], depth: 0 }
    }

    fn whole(&mut self) -> Parsed<Event> {
        let event = self.event()?;
        self.skip_space();
        if self.at < self.text.len() {
            return Err(self.wrong("expected `+`, `x COUNT` or the end"));
        }
        Ok(event)
    }

    fn event(&mut self) -> Parsed<Event> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.wrong("nested too deeply"));
        }
        let mut parts = vec![self.term()?];
        while self.eat("+") {
            parts.push(self.term()?);
        }
        self.depth -= 1;
        Ok(if parts.len() == 1 { parts.remove(0) } else { Event::composed(parts) })
    }

    fn term(&mut self) -> Parsed<Event> {
        self.skip_space();
        let leading = if self.rest().starts_with(|c: char| c.is_ascii_digit() || c == '?') {
            let count = self.count_or(Free::Steps)?;
            if !self.times() {
                return Err(self.wrong("expected `x` after a count, as in `1000 x gaussian(1)`"));
            }
            Some(count)
        } else {
            None
        };
        let mut event = self.factor()?;
        if let Some(count) = leading {
            event = event.self_composed(count);
        }
        while self.times() {
            let count = self.count_or(Free::Steps)?;
            event = event.self_composed(count);
        }
        Ok(event)
    }

    fn factor(&mut self) -> Parsed<Event> {
        if self.eat("(") {
            let event = self.event()?;
            self.close()?;
            return Ok(event);
        }
        let start = self.at;
        let name = self.name();
        if name.is_empty() {
            return Err(self.wrong("expected a mechanism such as gaussian(1.1)"));
        }
        let event = self.mechanism(&name, start + 1)?;
        self.close()?;
        Ok(event)
    }

    /// `x` or `*`, not the first letter of a name.
    fn times(&mut self) -> bool {
        self.skip_space();
        let rest = self.rest();
        if rest.starts_with('×') {
            self.at += '×'.len_utf8();
            return true;
        }
        let mut chars = rest.chars();
        let is_times = match chars.next() {
            Some('*') => true,
            Some('x') => !chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_'),
            _ => false,
        };
        if is_times {
            self.at += 1;
        }
        is_times
    }

    fn count(&mut self) -> Parsed<u64> {
        self.skip_space();
        let start = self.at;
        let value = self.plain_number()?;
        // beyond 2^53 the text would not name one integer
        if value.fract() == 0.0 && (1.0..=9_007_199_254_740_992.0).contains(&value) {
            Ok(value as u64)
        } else {
            Err(ExpressionError::at(start + 1, "expected a whole number of at least 1"))
        }
    }

    /// A count that may be searched for.
    fn count_or(&mut self, free: Free) -> Parsed<u64> {
        self.skip_space();
        if self.rest().starts_with('?') { Ok(self.unknown(free)? as u64) } else { self.count() }
    }

    /// The value of a `?`.
    fn unknown(&mut self, free: Free) -> Parsed<f64> {
        let position = self.at + 1;
        self.eat("?");
        if !self.free.contains(&free) {
            self.free.push(free);
        }
        let message = "`?` is a number to be found; give a budget to find it with, or write a number";
        self.unknown.ok_or_else(|| ExpressionError::at(position, message))
    }

    fn positive(&mut self, label: &str, free: Option<Free>) -> Parsed<f64> {
        self.number_within(label, f64::MIN_POSITIVE, f64::MAX, free)
    }

    /// A number of a range, or a `?` where one can be searched for.
    fn number_within(&mut self, label: &str, low: f64, high: f64, free: Option<Free>) -> Parsed<f64> {
        self.label(label)?;
        self.skip_space();
        let start = self.at;
        let value = match (self.rest().starts_with('?'), free) {
            (true, Some(free)) => self.unknown(free)?,
            (true, None) => return Err(self.wrong(&format!("{label} cannot be searched for; write a number"))),
            (false, _) => self.ratio()?,
        };
        if (low..=high).contains(&value) {
            return Ok(value);
        }
        let range = match (low == f64::MIN_POSITIVE, high == f64::MAX) {
            (true, true) => "a positive number".to_string(),
            (true, false) => format!("a positive number of at most {high}"),
            (false, true) => format!("a number of at least {low}"),
            (false, false) => format!("a number from {low} to {high}"),
        };
        Err(ExpressionError::at(start + 1, format!("{label} must be {range}")))
    }

    fn ratio(&mut self) -> Parsed<f64> {
        let value = self.plain_number()?;
        if self.eat("/") { Ok(value / self.plain_number()?) } else { Ok(value) }
    }

    fn plain_number(&mut self) -> Parsed<f64> {
        self.skip_space();
        let start = self.at;
        let (mut previous, mut end) = (' ', start);
        for c in self.rest().chars() {
            let sign_of_exponent = matches!(c, '+' | '-') && matches!(previous, 'e' | 'E');
            let leading_sign = c == '-' && previous == ' ';
            if !(c.is_ascii_digit() || c == '.' || matches!(c, 'e' | 'E') || sign_of_exponent || leading_sign) {
                break;
            }
            previous = c;
            end += 1;
        }
        self.at = end;
        self.text[start..self.at].parse().map_err(|_| ExpressionError::at(start + 1, "expected a number"))
    }

    /// Accepts `name =` before an argument.
    fn label(&mut self, expected: &str) -> Parsed<()> {
        self.skip_space();
        let start = self.at;
        let name = self.name();
        if !name.is_empty() && self.eat("=") {
            if name == expected {
                return Ok(());
            }
            return Err(ExpressionError::at(start + 1, format!("expected `{expected}`, not `{name}`")));
        }
        self.at = start;
        Ok(())
    }

    fn name(&mut self) -> String {
        self.skip_space();
        let name: String = self.rest().chars().take_while(|c| c.is_ascii_alphabetic() || *c == '_').collect();
        self.at += name.len();
        name
    }

    fn comma(&mut self) -> Parsed<()> {
        if self.eat(",") { Ok(()) } else { Err(self.wrong("expected `,` and another argument")) }
    }

    fn close(&mut self) -> Parsed<()> {
        if self.eat(")") { Ok(()) } else { Err(self.wrong("expected `)`")) }
    }

    fn eat(&mut self, token: &str) -> bool {
        self.skip_space();
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn skip_space(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn wrong(&self, message: &str) -> ExpressionError {
        ExpressionError::at(self.at + 1, message)
    }
}
