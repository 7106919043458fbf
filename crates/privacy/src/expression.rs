//! A small language for events: `poisson(0.01, gaussian(1.1)) x 1000 + laplace(2)`.
//!
//! ```text
//! event   := term ( "+" term )*                      composition
//! term    := factor ( ("x" | "*") count )*           repetition with fresh randomness; also `count x factor`
//! factor  := name "(" arguments ")" | "(" event ")"
//! number  := 1.5 | 2e-3 | 256/60000 | "?"            "?" is the number to be found
//! ```
//!
//! | name | arguments | event |
//! |---|---|---|
//! | `gaussian(z)` | noise multiplier | [`Event::Gaussian`] |
//! | `laplace(b)` | scale / C | [`Event::Laplace`] |
//! | `discrete_laplace(a, s)` | decay per unit, integer sensitivity (default 1) | [`Event::DiscreteLaplace`] |
//! | `exponential(ε)` | ε of the choice | [`Event::ExponentialMechanism`] |
//! | `approx(ε, δ)` | any (ε, δ)-DP mechanism (δ default 0) | [`Event::ApproxDp`] |
//! | `objective(z, λ, link)` | noise multiplier, λ/R², `monotone`, `smooth(β)` or `softmax(K)` | [`Event::ObjectivePerturbation`] |
//! | `poisson(q, event)` | sampling probability | [`Event::PoissonSampled`] |
//! | `subset(n, m, event)` | m of n records without replacement | [`Event::SampledWithoutReplacement`] |
//! | `approximate(τ, event)` | total variation of the sampler | [`Event::Approximate`] |
//! | `nothing()` | | [`Event::NoOp`] |
//!
//! Arguments may be named: `gaussian(noise_multiplier=1.1)`.

use crate::Event;
use crate::event::GlmLink;
use thiserror::Error;

/// Why a text is not an event.
#[derive(Clone, Debug, Error, PartialEq)]
#[error("character {position} of the mechanism: {message}")]
pub struct ExpressionError {
    /// Counted from 1.
    pub position: usize,
    /// What is wrong and what would be right.
    pub message: String,
}

/// Reads an event; `unknown` is the value of every `?`.
///
/// ```
/// use dpopt_privacy::{Event, expression::parse};
/// let event = parse("poisson(1/100, gaussian(1.1)) x 1000", None).unwrap();
/// assert_eq!(event, Event::gaussian(1.1).poisson_sampled(0.01).self_composed(1000));
/// assert_eq!(parse("gaussian(?)", Some(2.0)).unwrap(), Event::gaussian(2.0));
/// ```
pub fn parse(text: &str, unknown: Option<f64>) -> Result<Event, ExpressionError> {
    let mut parser = Parser { text, at: 0, unknown, depth: 0 };
    let event = parser.event()?;
    parser.skip_space();
    if parser.at < text.len() {
        return Err(parser.wrong("expected `+`, `x COUNT` or the end"));
    }
    Ok(event)
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
    depth: usize,
}

type Parsed<T> = Result<T, ExpressionError>;

impl Parser<'_> {
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
        let leading = if self.rest().starts_with(|c: char| c.is_ascii_digit()) {
            let count = self.count()?;
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
            let count = self.count()?;
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
        let at_name = |message: String| ExpressionError { position: start + 1, message };
        if name.is_empty() {
            return Err(self.wrong("expected a mechanism such as gaussian(1.1)"));
        }
        if !self.eat("(") {
            return Err(self.wrong("expected `(` after the name of a mechanism, as in gaussian(1.1)"));
        }
        let event = match name.to_ascii_lowercase().as_str() {
            "gaussian" => Event::Gaussian { noise_multiplier: self.positive("noise_multiplier")? },
            "laplace" => Event::Laplace { noise_multiplier: self.positive("noise_multiplier")? },
            "discrete_laplace" => {
                let noise_parameter = self.positive("noise_parameter")?;
                let sensitivity = if self.eat(",") {
                    self.label("sensitivity")?;
                    self.count()?
                } else {
                    1
                };
                Event::DiscreteLaplace { noise_parameter, sensitivity }
            }
            "exponential" | "exponential_mechanism" => {
                Event::ExponentialMechanism { epsilon: self.positive("epsilon")? }
            }
            "approx" | "approx_dp" => {
                let epsilon = self.number_within("epsilon", 0.0, f64::MAX)?;
                let delta = if self.eat(",") { self.number_within("delta", 0.0, 1.0)? } else { 0.0 };
                Event::ApproxDp { epsilon, delta }
            }
            "objective" | "objective_perturbation" => {
                let noise_multiplier = self.positive("noise_multiplier")?;
                self.comma()?;
                let regularization = self.positive("regularization")?;
                let link = if self.eat(",") { self.link()? } else { GlmLink::Monotone };
                Event::ObjectivePerturbation { noise_multiplier, regularization, link }
            }
            "poisson" | "poisson_sampled" => {
                let q = self.number_within("sampling_probability", f64::MIN_POSITIVE, 1.0)?;
                self.comma()?;
                self.event()?.poisson_sampled(q)
            }
            "subset" | "sampled_without_replacement" => {
                self.label("source_dataset_size")?;
                let source_dataset_size = self.count()?;
                self.comma()?;
                self.label("sample_size")?;
                let sample_size = self.count()?;
                if sample_size > source_dataset_size {
                    return Err(self.wrong("the sample is larger than the data set: write subset(n, m, event), m <= n"));
                }
                self.comma()?;
                let event = Box::new(self.event()?);
                Event::SampledWithoutReplacement { source_dataset_size, sample_size, event }
            }
            "approximate" => {
                let total_variation = self.number_within("total_variation", 0.0, 1.0)?;
                self.comma()?;
                Event::Approximate { total_variation, event: Box::new(self.event()?) }
            }
            "nothing" | "no_op" => Event::NoOp,
            _ => {
                return Err(at_name(format!(
                    "`{name}` is not a mechanism; there are gaussian, laplace, discrete_laplace, exponential, approx, \
                     objective, poisson, subset, approximate, nothing"
                )));
            }
        };
        self.close()?;
        Ok(event)
    }

    fn link(&mut self) -> Parsed<GlmLink> {
        self.label("link")?;
        let start = self.at;
        match self.name().as_str() {
            "monotone" | "logistic" => Ok(GlmLink::Monotone),
            "smooth" if self.eat("(") => {
                let smoothness = self.positive("smoothness")?;
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
            _ => Err(ExpressionError {
                position: start + 1,
                message: "expected monotone, smooth(BOUND) or softmax(CLASSES)".into(),
            }),
        }
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
            Err(ExpressionError { position: start + 1, message: "expected a whole number of at least 1".into() })
        }
    }

    fn positive(&mut self, label: &str) -> Parsed<f64> {
        self.number_within(label, f64::MIN_POSITIVE, f64::MAX)
    }

    fn number_within(&mut self, label: &str, low: f64, high: f64) -> Parsed<f64> {
        self.label(label)?;
        self.skip_space();
        let start = self.at;
        let value = if self.eat("?") {
            self.unknown.ok_or(ExpressionError {
                position: start + 1,
                message: "`?` is a number to be found; give a budget to find it with, or write a number".into(),
            })?
        } else {
            let mut value = self.plain_number()?;
            if self.eat("/") {
                value /= self.plain_number()?;
            }
            value
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
        Err(ExpressionError { position: start + 1, message: format!("{label} must be {range}") })
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
        self.text[start..self.at]
            .parse()
            .map_err(|_| ExpressionError { position: start + 1, message: "expected a number".into() })
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
            return Err(ExpressionError { position: start + 1, message: format!("expected `{expected}`, not `{name}`") });
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
        ExpressionError { position: self.at + 1, message: message.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_every_mechanism() {
        let gaussian = Event::gaussian(1.5);
        for (text, event) in [
            ("gaussian(1.5)", gaussian.clone()),
            ("gaussian( noise_multiplier = 1.5 )", gaussian.clone()),
            ("laplace(2)", Event::Laplace { noise_multiplier: 2.0 }),
            ("discrete_laplace(0.5)", Event::DiscreteLaplace { noise_parameter: 0.5, sensitivity: 1 }),
            ("discrete_laplace(0.5, 3)", Event::DiscreteLaplace { noise_parameter: 0.5, sensitivity: 3 }),
            ("exponential(1e-1)", Event::ExponentialMechanism { epsilon: 0.1 }),
            ("approx(1)", Event::ApproxDp { epsilon: 1.0, delta: 0.0 }),
            ("approx(1, 1e-6)", Event::ApproxDp { epsilon: 1.0, delta: 1e-6 }),
            (
                "objective(3.7, 1.2, softmax(4))",
                Event::ObjectivePerturbation {
                    noise_multiplier: 3.7,
                    regularization: 1.2,
                    link: GlmLink::Softmax { classes: 4 },
                },
            ),
            ("poisson(256/1024, gaussian(1.5)) x 10", gaussian.clone().poisson_sampled(0.25).self_composed(10)),
            ("10 x poisson(0.25, gaussian(1.5))", gaussian.clone().poisson_sampled(0.25).self_composed(10)),
            ("gaussian(1.5)*1e3 + gaussian(1.5)", {
                Event::composed(vec![gaussian.clone().self_composed(1000), gaussian.clone()])
            }),
            ("(gaussian(1.5) + nothing()) × 2", {
                Event::composed(vec![gaussian.clone(), Event::NoOp]).self_composed(2)
            }),
            (
                "subset(100, 7, gaussian(1.5))",
                Event::SampledWithoutReplacement {
                    source_dataset_size: 100,
                    sample_size: 7,
                    event: Box::new(gaussian.clone()),
                },
            ),
            ("approximate(1e-15, gaussian(1.5))", {
                Event::Approximate { total_variation: 1e-15, event: Box::new(gaussian.clone()) }
            }),
        ] {
            assert_eq!(parse(text, None), Ok(event), "{text}");
        }
    }

    #[test]
    fn says_where_and_what_is_wrong() {
        for (text, position, part) in [
            ("", 1, "expected a mechanism"),
            ("gausian(1)", 1, "`gausian` is not a mechanism"),
            ("gaussian(0)", 10, "positive"),
            ("gaussian(-1)", 10, "positive"),
            ("gaussian(1", 11, "expected `)`"),
            ("gaussian(?)", 10, "to be found"),
            ("poisson(1.5, gaussian(1))", 9, "at most 1"),
            ("poisson(0.5)", 12, "expected `,`"),
            ("gaussian(1) x 1.5", 15, "whole number"),
            ("gaussian(1) laplace(1)", 13, "expected `+`"),
            ("subset(5, 6, gaussian(1))", 12, "larger"),
            ("gaussian(epsilon=1)", 10, "expected `noise_multiplier`"),
            ("gaussian(1/0)", 10, "positive"),
            ("objective(1, 1, probit)", 17, "monotone"),
        ] {
            let error = parse(text, None).unwrap_err();
            assert!(error.position == position && error.message.contains(part), "{text}: {error}");
        }
        assert!(parse(&"(".repeat(100_000), None).is_err());
    }

    proptest! {
        #[test]
        fn never_panics(text in "[a-z(),+x*?0-9. /=é×-]{0,60}") {
            let _ = parse(&text, Some(1.0));
        }
    }
}
