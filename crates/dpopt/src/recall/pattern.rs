//! Patterns of events: `A(B, C)` is an event of class A made of just a B and a C, `A > B` an A with a B somewhere inside.

use dpopt_privacy::event::classes;
use serde::Deserialize;
use serde_json::Value;

/// How deep patterns may be nested.
const DEEPEST: usize = 16;

/// A pattern that may fit an event, or any part of it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct EventPattern {
    class: String,
    /// The patterns of all its parts, in order; `None`: whatever it is made of.
    parts: Option<Vec<EventPattern>>,
    /// What is somewhere inside.
    inside: Option<Box<EventPattern>>,
}

/// The events that an event is made of.
fn parts(event: &Value) -> Vec<&Value> {
    let one = event.get("event").into_iter();
    let lists = ["events", "blocks"].into_iter().filter_map(|key| event.get(key)?.as_array()).flatten();
    one.chain(lists).collect()
}

impl EventPattern {
    /// Whether the pattern fits the event or any part of it.
    pub(super) fn occurs_in(&self, event: &Value) -> bool {
        self.fits(event) || parts(event).into_iter().any(|part| self.occurs_in(part))
    }

    fn fits(&self, event: &Value) -> bool {
        let own = parts(event);
        event.get("class_name").and_then(Value::as_str) == Some(&self.class)
            && self.parts.as_ref().is_none_or(|patterns| {
                patterns.len() == own.len() && patterns.iter().zip(&own).all(|(pattern, part)| pattern.fits(part))
            })
            && self.inside.as_ref().is_none_or(|pattern| own.iter().any(|part| pattern.occurs_in(part)))
    }

    /// Reads a pattern from the beginning of `text`, and returns what is left.
    fn read(text: &str, depth: usize) -> Result<(Self, &str), String> {
        if depth > DEEPEST {
            return Err("a pattern of an event is nested too deeply".into());
        }
        let text = text.trim_start();
        let end = text.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(text.len());
        let (class, rest) = (&text[..end], text[end..].trim_start());
        if !classes().iter().any(|known| known.name == class) {
            return Err(format!("there is no class of events `{class}`"));
        }
        let (parts, rest) = match rest.strip_prefix('(') {
            Some(list) => Self::read_list(list, depth).map(|(parts, rest)| (Some(parts), rest))?,
            None => (None, rest),
        };
        let (inside, rest) = match rest.strip_prefix('>') {
            Some(inner) => Self::read(inner, depth + 1).map(|(inside, rest)| (Some(Box::new(inside)), rest))?,
            None => (None, rest),
        };
        Ok((Self { class: class.into(), parts, inside }, rest))
    }

    /// Reads patterns up to the bracket that closes their list.
    fn read_list(mut text: &str, depth: usize) -> Result<(Vec<Self>, &str), String> {
        let mut all = Vec::new();
        loop {
            let (part, left) = Self::read(text, depth + 1)?;
            all.push(part);
            if let Some(rest) = left.strip_prefix(')') {
                return Ok((all, rest.trim_start()));
            }
            text = left.strip_prefix(',').ok_or("a list of events in a pattern is not closed by a bracket")?;
        }
    }
}

impl TryFrom<String> for EventPattern {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        match Self::read(&text, 0)? {
            (pattern, "") => Ok(pattern),
            (_, rest) => Err(format!("a pattern of an event ends before `{rest}`")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_privacy::Event;

    #[test]
    fn patterns_fit_parts_and_what_is_inside() {
        let pattern = |text: &str| EventPattern::try_from(text.to_string()).unwrap();
        let sampled = Event::composed(vec![Event::gaussian(2.0), Event::gaussian(1.0).approximate(1e-9)]);
        let event = Event::composed(vec![Event::laplace(3.0), sampled.poisson_sampled(0.1).self_composed(5)]);
        let event = serde_json::to_value(event.approximate(1e-12)).unwrap();
        for fits in [
            "LaplaceDpEvent",
            "ApproximateDpEvent(ComposedDpEvent)",
            "ComposedDpEvent(LaplaceDpEvent, SelfComposedDpEvent(PoissonSampledDpEvent))",
            "PoissonSampledDpEvent > ApproximateDpEvent",
            "SelfComposedDpEvent>PoissonSampledDpEvent>ApproximateDpEvent ( GaussianDpEvent )",
            "ComposedDpEvent(LaplaceDpEvent, SelfComposedDpEvent > ApproximateDpEvent)",
        ] {
            assert!(pattern(fits).occurs_in(&event), "{fits}");
        }
        for other in [
            "GdpDpEvent",
            "ComposedDpEvent(LaplaceDpEvent)",
            "ComposedDpEvent(SelfComposedDpEvent, LaplaceDpEvent)",
            "ApproximateDpEvent(PoissonSampledDpEvent)",
            "PoissonSampledDpEvent > LaplaceDpEvent",
            "GaussianDpEvent > GaussianDpEvent",
        ] {
            assert!(!pattern(other).occurs_in(&event), "{other}");
        }
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for (text, why) in [
            ("", "no class"),
            ("Gaussian", "no class of events `Gaussian`"),
            ("GaussianDpEvent)", "ends before `)`"),
            ("GaussianDpEvent LaplaceDpEvent", "ends before"),
            ("ComposedDpEvent(GaussianDpEvent", "not closed"),
            ("ComposedDpEvent()", "no class"),
            ("ComposedDpEvent >", "no class"),
            (&"ComposedDpEvent(".repeat(40), "too deeply"),
        ] {
            let refused = EventPattern::try_from(text.to_string()).unwrap_err();
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }
}
