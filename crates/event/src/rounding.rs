//! Numbers and guarantees as people read them.

use crate::{Relation, Unit};
use std::borrow::Cow;

/// Four significant digits, scientific outside 1e-3..1e6.
pub fn number(x: f64) -> String {
    if x == 0.0 || !x.is_finite() {
        return format!("{x}");
    }
    let magnitude = x.abs().log10().floor();
    if !(-3.0..6.0).contains(&magnitude) {
        return trim_mantissa(&format!("{x:.3e}"));
    }
    let decimals = (3.0 - magnitude).max(0.0) as usize;
    let text = format!("{x:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
}

/// A small probability such as δ: `1e-5`.
pub fn probability(x: f64) -> String {
    if x == 0.0 { "0".into() } else { trim_mantissa(&format!("{x:.3e}")) }
}

/// A small probability such as δ, rounded *up*: what is shown is never less than what is meant.
pub fn probability_up(x: f64) -> String {
    let text = probability(x);
    if text.parse::<f64>().is_ok_and(|shown| shown >= x) {
        return text;
    }
    // one in the last of four digits
    let unit = 10f64.powf(x.log10().floor() - 3.0);
    probability(x + 0.75 * unit)
}

/// ε rounded *up* to four decimals: what is shown is never less than what is certified.
pub fn rounded_up(epsilon: f64) -> String {
    if !epsilon.is_finite() {
        return "∞".into();
    }
    if epsilon == 0.0 {
        return "0".into();
    }
    if epsilon >= 1e15 {
        return trim_mantissa(&format!("{:.3e}", epsilon * 1.001));
    }
    // four digits, at least four decimals
    let unit = 10f64.powf((epsilon.log10().floor() - 3.0).min(-4.0));
    // the relative 1e-12 keeps a budget such as 0.3 from becoming 0.3001 by the rounding of 0.3 / 1e-4
    let up = (epsilon / unit * (1.0 - 1e-12)).ceil() * unit;
    if epsilon > 0.0 && epsilon < 1e-3 { probability(up) } else { number_trimmed(up, 4) }
}

/// ε rounded *up* to six digits.
pub fn six_digits_up(epsilon: f64) -> String {
    if !(epsilon > 0.0 && epsilon.is_finite()) {
        return rounded_up(epsilon);
    }
    let magnitude = epsilon.log10().floor();
    let unit = 10f64.powf(magnitude - 5.0);
    let up = (epsilon / unit * (1.0 - 1e-12)).ceil() * unit;
    if (-6.0..15.0).contains(&magnitude) {
        return number_trimmed(up, (5.0 - magnitude).max(0.0) as usize);
    }
    trim_mantissa(&format!("{up:.5e}"))
}

fn number_trimmed(x: f64, decimals: usize) -> String {
    let text = format!("{x:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
}

fn trim_mantissa(text: &str) -> String {
    match text.split_once('e') {
        Some((m, e)) if m.contains('.') => format!("{}e{e}", m.trim_end_matches('0').trim_end_matches('.')),
        _ => text.into(),
    }
}

/// A whole number with its digits in groups of three: `12,345`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// Largest power any test of "was the record there?" can have at `false_alarm`, under (ε, δ)-DP.
///
/// ```
/// let power = dpopt_event::rounding::detection_bound(1.0, 1e-5, 0.05);
/// assert!((power - 0.13592).abs() < 1e-4);
/// ```
pub fn detection_bound(epsilon: f64, delta: f64, false_alarm: f64) -> f64 {
    let one = epsilon.exp() * false_alarm + delta;
    let other = 1.0 - (-epsilon).exp() * (1.0 - delta - false_alarm);
    one.min(other).clamp(0.0, 1.0)
}

/// Text of a foreign file on one line of a terminal: control characters, line breaks and marks that turn the direction of writing
/// become U+FFFD, so that a file can neither command the terminal nor make a line look like another.
///
/// ```
/// use dpopt_event::rounding::foreign;
/// assert_eq!(foreign("age in years"), "age in years");
/// assert_eq!(foreign("age\u{1b}[2J\n\u{202e}holds"), "age\u{fffd}[2J\u{fffd}\u{fffd}holds");
/// ```
pub fn foreign(text: &str) -> String {
    text.replace(commands, "\u{fffd}")
}

/// Text of several lines, in which words of files may stand: as [`foreign`], and line breaks and tabs stay.
pub fn foreign_lines(text: &str) -> Cow<'_, str> {
    let commands = |c: char| !matches!(c, '\n' | '\t') && commands(c);
    if text.contains(commands) { text.replace(commands, "\u{fffd}").into() } else { text.into() }
}

/// JSON whose texts may come from files: every such character is written as its escape, so that the values are what they were.
pub fn foreign_json(json: &str) -> Cow<'_, str> {
    let commands = |c: char| !matches!(c, '\n' | '\t') && commands(c);
    if !json.contains(commands) {
        return json.into();
    }
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            c if commands(c) => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.into()
}

/// Whether a terminal may take a character for a command, or show what follows in another place.
fn commands(c: char) -> bool {
    // line and paragraph separators; Unicode's Bidi_Control
    let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || turns || matches!(c, '\u{2028}' | '\u{2029}')
}

/// Who is protected, as people who look at a table say it.
pub fn protected(unit: Unit) -> &'static str {
    match unit {
        Unit::Record => "row",
        Unit::User => "user",
        Unit::Round => "round",
    }
}

/// What two neighbouring data sets are, in plain words.
pub fn neighbours(relation: Relation, unit: Unit) -> &'static str {
    match (unit, relation) {
        (Unit::Record, Relation::ZeroOut) => {
            "one row of the table contributes, or contributes nothing (the number of rows is public)"
        }
        (Unit::Record, Relation::AddOrRemove) => "one row is present or absent (the number of rows is protected too)",
        (Unit::Record, Relation::ReplaceOne) => "one row is replaced by any other row (the number of rows is public)",
        (Unit::User, Relation::ZeroOut) => {
            "all rows of one user contribute, or contribute nothing (the numbers of rows and of users are public)"
        }
        (Unit::User, Relation::AddOrRemove) => "all rows of one user are present or absent",
        (Unit::User, Relation::ReplaceOne) => {
            "all rows of one user are replaced by as many others (the numbers of rows and of users are public)"
        }
        (Unit::Round, Relation::ZeroOut) => {
            "the input of one round is present, or empty (the number of rounds is public)"
        }
        (Unit::Round, Relation::AddOrRemove) => "one round is present or absent",
        (Unit::Round, Relation::ReplaceOne) => {
            "the input of one round is replaced by any other input (the number of rounds is public)"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_files_neither_command_a_terminal_nor_turn_a_line_round() {
        let hostile = "\u{1b}]52;c;eA==\u{7}\u{9b}2J\u{7f}a\r\n\tb\u{2066}\u{200f}\u{2028}é\u{200d}漢";
        assert_eq!(
            foreign(hostile),
            "\u{fffd}]52;c;eA==\u{fffd}\u{fffd}2J\u{fffd}a\u{fffd}\u{fffd}\u{fffd}b\u{fffd}\u{fffd}\u{fffd}é\u{200d}漢"
        );
        assert_eq!(foreign_lines(hostile).matches(['\n', '\t']).count(), 2);
        assert!(matches!(foreign_lines("one\ntwo\tü"), Cow::Borrowed(_)));
        let json = serde_json::to_string_pretty(&[hostile]).unwrap();
        let escaped = foreign_json(&json);
        assert!(!escaped.contains(|c: char| c != '\n' && commands(c)), "{escaped:?}");
        assert_eq!(serde_json::from_str::<[String; 1]>(&escaped).unwrap(), [hostile]);
    }

    #[test]
    fn numbers_read_well() {
        for (x, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (3.73063, "3.731"),
            (123.456, "123.5"),
            (2e-5, "2e-5"),
            (0.00123456, "0.001235"),
            (1234567.0, "1.235e6"),
            (-0.5, "-0.5"),
            (100000.0, "100000"),
        ] {
            assert_eq!(number(x), text);
        }
        assert_eq!(probability(1e-5), "1e-5");
        assert_eq!(count(1234567), "1,234,567");
        assert_eq!(count(123), "123");
    }

    #[test]
    fn epsilon_is_rounded_up() {
        assert_eq!(rounded_up(0.99990001), "1");
        assert_eq!(rounded_up(1.0), "1");
        assert_eq!(rounded_up(0.12341), "0.1235");
        assert_eq!(rounded_up(0.3), "0.3");
        assert_eq!(rounded_up(2.50001e-7), "2.501e-7");
        assert_eq!(rounded_up(0.0), "0");
        assert_eq!(rounded_up(f64::INFINITY), "∞");
        for (x, text) in [
            (0.999_123_41, "0.999124"),
            (1.0, "1"),
            (0.3, "0.3"),
            (123_456.71, "123457"),
            (2_500_000.1, "2500010"),
            (1.234_561e-9, "1.23457e-9"),
            (3e20, "3e20"),
            (0.0, "0"),
            (f64::INFINITY, "∞"),
        ] {
            assert_eq!(six_digits_up(x), text);
        }
    }

    #[test]
    fn delta_is_rounded_up() {
        for (x, text) in
            [(1e-6, "1e-6"), (1.23441e-6, "1.235e-6"), (1.2348e-6, "1.235e-6"), (9.9991e-7, "1e-6"), (0.0, "0")]
        {
            assert_eq!(probability_up(x), text);
        }
        for i in 1..2000 {
            let x = f64::from(i).powf(-1.1) * 1.000_37e-3;
            let shown: f64 = probability_up(x).parse().unwrap();
            assert!(shown >= x && shown <= x * 1.0011, "{x}: {shown}");
        }
    }

    #[test]
    fn detection_is_between_false_alarm_and_one() {
        assert!((detection_bound(0.0, 0.0, 0.05) - 0.05).abs() < 1e-15);
        assert!(detection_bound(50.0, 0.0, 0.05) <= 1.0);
    }
}
