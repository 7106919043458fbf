//! Numbers, truth values, dates and spans of time as people and programs write them.
//!
//! One public rule for each, which looks at one cell and at nothing else; `docs/data.md` says them in words.

use super::decimal::plain_decimal;
use std::io::Write;

/// Microseconds of a day, and of its parts.
const DAY: i64 = 86_400_000_000;
const HOUR: i64 = 3_600_000_000;
const MINUTE: i64 = 60_000_000;
const SECOND: i64 = 1_000_000;

/// What the numbers of a column count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Plain numbers, of no unit that the library knows.
    #[default]
    Number,
    /// Days since 1970-01-01T00:00:00 UTC: points in time.
    Date,
    /// Days: spans of time.
    Duration,
}

impl Unit {
    /// Whether the unit is that of plain numbers, which need not be stored.
    pub(crate) fn is_number(&self) -> bool {
        *self == Self::Number
    }

    /// A value in a few characters: four significant digits; of a date its day.
    pub fn short(self, value: f64) -> String {
        if let Some(text) = date_text(value.round()).filter(|_| self == Self::Date) {
            return text;
        }
        if value == 0.0 {
            return "0".into();
        }
        let digits = (3 - value.abs().log10().floor() as i32).clamp(0, 12) as usize;
        let text = format!("{value:.digits$}");
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
    }

    /// A cell's text in this unit.
    pub(crate) fn read(self, text: &[u8]) -> Option<f64> {
        match self {
            Self::Number => number(text),
            Self::Date => date(std::str::from_utf8(text).ok()?),
            Self::Duration => duration(std::str::from_utf8(text).ok()?),
        }
    }
}

/// How a column of points or spans of time is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticks {
    /// How many are a day.
    pub per_day: i64,
    /// What they count to: points in time (from 1970), or spans.
    pub unit: Unit,
}

impl Ticks {
    /// So many ticks as days; equal times give equal numbers, whatever their ticks.
    pub fn days(self, ticks: i64) -> f64 {
        ticks.div_euclid(self.per_day) as f64 + ticks.rem_euclid(self.per_day) as f64 / self.per_day as f64
    }
}

/// Longest text that may be a number with signs around it.
const LONGEST: usize = 64;

/// A finite number: as programs write it, a truth value as 0 or 1, or as spreadsheets show it.
#[inline]
pub(crate) fn number(text: &[u8]) -> Option<f64> {
    match plain_decimal(text, 0, text.len()) {
        Some(value) => Some(value),
        None => written(text),
    }
}

/// The less common cases.
fn written(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?.trim();
    match text.parse::<f64>() {
        Ok(value) => value.is_finite().then_some(value),
        Err(_) if text.len() > LONGEST => None,
        Err(_) => truth(text.as_bytes()).map(|truth| f64::from(u8::from(truth))).or_else(|| as_shown(text)),
    }
}

/// Up to 15 digits and nothing else: exact.
#[inline]
fn small_integer(text: &[u8]) -> Option<f64> {
    if text.is_empty() || text.len() > 15 {
        return None;
    }
    let mut value = 0u64;
    for &byte in text {
        if !byte.is_ascii_digit() {
            return None;
        }
        value = value * 10 + u64::from(byte - b'0');
    }
    Some(value as f64)
}

/// `true` and `false` in lower case, in capitals, or with a capital.
pub(crate) fn truth(text: &[u8]) -> Option<bool> {
    match text {
        b"true" | b"True" | b"TRUE" => Some(true),
        b"false" | b"False" | b"FALSE" => Some(false),
        _ => None,
    }
}

/// `$ ¢ £ ¤ ¥ € ₹ …`
pub(crate) fn is_currency(c: char) -> bool {
    matches!(c, '$' | '\u{a2}'..='\u{a5}' | '\u{20a0}'..='\u{20cf}')
}

fn is_minus(c: char) -> bool {
    matches!(c, '-' | '\u{2212}')
}

/// Between groups of three digits: a comma, an apostrophe, or a blank that does not break the line.
fn parts_thousands(c: char) -> bool {
    matches!(c, ',' | '\'' | '\u{2019}' | ' ' | '\u{a0}' | '\u{2009}' | '\u{202f}')
}

/// A number with, each at most once, a sign before or after it or brackets around it, a currency sign before or after it, and a percent sign after it.
fn as_shown(text: &str) -> Option<f64> {
    let (mut rest, mut minus, mut currency, mut percent) = (text, None, false, false);
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        rest = match c {
            '+' if minus.is_none() => {
                minus = Some(false);
                after
            }
            '(' if minus.is_none() => {
                minus = Some(true);
                // a currency or percent sign may stand behind the bracket
                let (inside, behind) = after.rsplit_once(')')?;
                match behind.trim() {
                    "" => {}
                    "%" => percent = true,
                    sign if !currency && sign.chars().all(is_currency) && sign.chars().count() == 1 => currency = true,
                    _ => return None,
                }
                inside
            }
            c if is_minus(c) && minus.is_none() => {
                minus = Some(true);
                after
            }
            c if is_currency(c) && !currency => {
                currency = true;
                after
            }
            c if c.is_whitespace() => after,
            _ => break,
        };
    }
    while let Some(c) = rest.chars().next_back() {
        let before = &rest[..rest.len() - c.len_utf8()];
        rest = match c {
            '%' if !percent => {
                percent = true;
                before
            }
            c if is_minus(c) && minus.is_none() => {
                minus = Some(true);
                before
            }
            c if is_currency(c) && !currency => {
                currency = true;
                before
            }
            c if c.is_whitespace() => before,
            _ => break,
        };
    }
    let value = digits(rest)?;
    (!(currency && percent)).then_some(if minus == Some(true) { -value } else { value })
}

/// Digits without a sign, with or without groups of three, and decimals after a point.
fn digits(text: &str) -> Option<f64> {
    if !text.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    if let Ok(value) = text.parse::<f64>() {
        return value.is_finite().then_some(value);
    }
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let separator = whole.chars().find(|c| parts_thousands(*c))?;
    let mut groups = whole.split(separator);
    let first = groups.next()?;
    let is_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    // 0,5 and 01,234 are no thousands
    let grouped = (1..=3).contains(&first.len()) && is_digits(first) && !first.starts_with('0');
    if !(grouped && groups.all(|group| group.len() == 3 && is_digits(group)) && is_digits(decimals)) {
        return None;
    }
    let plain: String = text.chars().filter(|c| *c != separator).collect();
    plain.parse::<f64>().ok().filter(|value| value.is_finite())
}

/// What may be the reason why a text is no number, for the operator: the end of a sentence, or nothing.
pub(crate) fn why_no_number(text: &[u8]) -> &'static str {
    let Some(text) = std::str::from_utf8(text).ok().map(str::trim).filter(|text| text.len() <= LONGEST) else {
        return "";
    };
    let inner = text.trim_matches(|c: char| {
        is_currency(c) || is_minus(c) || matches!(c, '(' | ')' | '%' | '+') || c.is_whitespace()
    });
    let number_like = |c: char| c.is_ascii_digit() || c == '.' || parts_thousands(c);
    let has_digit = inner.bytes().any(|b| b.is_ascii_digit());
    if date(text).is_some() {
        return " but a date; write its bounds as dates, lower = 2020-01-01";
    }
    if has_digit && inner.contains(',') && inner.chars().all(number_like) {
        return ": its commas are not thousands separators (groups of three digits, decimals after a point); write \
                decimals with a point";
    }
    if has_digit && inner.chars().all(number_like) {
        return ": its separators do not group thousands; write groups of three digits, and decimals after a point";
    }
    if inner.starts_with(|c: char| c.is_ascii_digit()) || inner.ends_with(|c: char| c.is_ascii_digit()) {
        return ": there is a unit or a word beside the number; write the number alone";
    }
    ""
}

/// The one spelling of a number or a truth value, in `scratch`; of anything else the text itself. Whole numbers keep all of their digits; what
/// begins with a zero that means nothing (`01`) is a code and no number.
pub(crate) fn canonical<'a>(text: &'a [u8], scratch: &'a mut Vec<u8>) -> &'a [u8] {
    match truth(text) {
        Some(true) => return b"true",
        Some(false) => return b"false",
        None => {}
    }
    let unsigned = match text {
        [b'+' | b'-', rest @ ..] => rest,
        _ => text,
    };
    let is_code = matches!(unsigned, [b'0', b'0'..=b'9', ..]);
    let whole = !unsigned.is_empty() && unsigned.iter().all(u8::is_ascii_digit);
    let letter = unsigned.iter().position(u8::is_ascii_alphabetic);
    // 1e+20 and 1e-05 as programs write them, and not 5e1, which may be a code
    let exponent = letter.is_none_or(|at| {
        matches!(&unsigned[at..], [b'e' | b'E', b'+' | b'-', digits @ ..] if !digits.is_empty() && digits.iter().all(u8::is_ascii_digit))
    });
    if is_code || !exponent || !matches!(unsigned, [b'0'..=b'9' | b'.', ..]) {
        return text;
    }
    if whole && text[0] != b'+' && text != b"-0" {
        return text;
    }
    if whole && unsigned != b"0" {
        return unsigned;
    }
    match std::str::from_utf8(text).ok().and_then(|text| text.parse::<f64>().ok()).filter(|value| value.is_finite()) {
        Some(value) => {
            scratch.clear();
            // writing to a Vec cannot fail; adding 0 turns -0 into 0
            let _ = write!(scratch, "{}", value + 0.0);
            scratch
        }
        None => text,
    }
}

/// `2020-01-31`, and with a time of day after a `T` or a blank `2020-01-31T12:30`, `…:45.5`, `…Z`, `…+02:00`: days since 1970-01-01 UTC.
pub(crate) fn date(text: &str) -> Option<f64> {
    let (day, rest) = (text.get(..10)?, text.get(10..)?);
    let &[y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = day.as_bytes() else { return None };
    let whole = |bytes: &[u8]| small_integer(bytes).map(|v| v as u32);
    let (year, month, day) = (whole(&[y1, y2, y3, y4])?, whole(&[m1, m2])?, whole(&[d1, d2])?);
    let days = chrono::NaiveDate::from_ymd_opt(year as i32, month, day)?.to_epoch_days();
    let mut micros = 0;
    if !rest.is_empty() {
        let time = rest.strip_prefix(['T', 't', ' '])?;
        let at = time.find(['Z', 'z', '+', '-']).unwrap_or(time.len());
        micros = time_of_day(time[..at].trim_end())? - offset(&time[at..])?;
    }
    Some(in_days(i64::from(days) * DAY + micros))
}

/// Microseconds as days: the same bits as ticks of any other length give.
fn in_days(micros: i64) -> f64 {
    Ticks { per_day: DAY, unit: Unit::Date }.days(micros)
}

/// Microseconds since midnight of a time `HH:MM`, `HH:MM:SS` or `HH:MM:SS.f`.
fn time_of_day(text: &str) -> Option<i64> {
    let mut parts = text.split(':');
    let two =
        |part: Option<&str>| part.filter(|p| p.len() == 2).and_then(|p| small_integer(p.as_bytes())).map(|v| v as i64);
    let (hours, minutes) = (two(parts.next())?, two(parts.next())?);
    let micros = match parts.next() {
        None => 0,
        Some(seconds) => {
            let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
            let whole = two(Some(whole))?;
            if whole > 60 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
                return None;
            }
            whole * SECOND + fraction_of_second(fraction)
        }
    };
    (parts.next().is_none() && hours < 25 && minutes < 60).then_some(hours * HOUR + minutes * MINUTE + micros)
}

fn fraction_of_second(digits: &str) -> i64 {
    digits.bytes().chain(std::iter::repeat(b'0')).take(6).fold(0, |micros, digit| micros * 10 + i64::from(digit - b'0'))
}

/// Offset of a time zone: nothing, `Z`, `+02:00`, `+0200`, `+02`.
fn offset(text: &str) -> Option<i64> {
    if matches!(text, "" | "Z" | "z") {
        return Some(0);
    }
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let digits: Vec<u8> = text[1..].bytes().filter(|b| *b != b':').collect();
    let two = |pair: &[u8]| small_integer(pair).map(|v| v as i64);
    match digits.len() {
        2 => Some(sign * two(&digits)? * HOUR),
        4 => Some(sign * (two(&digits[..2])? * HOUR + two(&digits[2..])? * MINUTE)),
        _ => None,
    }
}

/// ISO 8601 (`P3D`, `PT1H30M`, `P2W`), `3 days 04:05:06` as pandas writes it, `04:05:06`: days.
pub(crate) fn duration(text: &str) -> Option<f64> {
    let (text, sign) = match text.strip_prefix('-') {
        Some(rest) => (rest, -1),
        None => (text.strip_prefix('+').unwrap_or(text), 1),
    };
    let micros = match text.strip_prefix('P') {
        Some(iso) => iso_duration(iso)?,
        None => {
            let (days, time) = match text.split_once(" day") {
                Some((days, time)) => {
                    let days = small_integer(days.as_bytes())? as i64;
                    (days, time.strip_prefix('s').unwrap_or(time).trim_start())
                }
                None if text.is_empty() => return None,
                None => (0, text),
            };
            let (before, time) = match time.strip_prefix('-') {
                Some(time) => (-1, time),
                None => (1, time.strip_prefix('+').unwrap_or(time)),
            };
            // pandas writes -1 days +02:00:00: the sign is of the days alone
            let time = if time.is_empty() { 0 } else { before * time_of_day(time)? };
            return Some(in_days(if text.contains(" day") {
                sign * days.checked_mul(DAY)? + time
            } else {
                sign * time
            }));
        }
    };
    Some(in_days(sign * micros))
}

fn iso_duration(text: &str) -> Option<i64> {
    let (mut micros, mut in_time, mut number, mut any) = (0f64, false, String::new(), false);
    for c in text.chars() {
        let each = match (c, in_time) {
            ('0'..='9' | '.', _) => {
                number.push(c);
                continue;
            }
            ('T', false) if number.is_empty() => {
                in_time = true;
                continue;
            }
            ('W', false) => 7 * DAY,
            ('D', false) => DAY,
            ('H', true) => HOUR,
            ('M', true) => MINUTE,
            ('S', true) => SECOND,
            _ => return None,
        };
        micros += number.parse::<f64>().ok()? * each as f64;
        number.clear();
        any = true;
    }
    (any && number.is_empty() && micros.abs() < 9e18).then_some(micros.round() as i64)
}

/// A point in time as ISO 8601: the day alone at midnight.
pub(crate) fn date_text(days: f64) -> Option<String> {
    let micros = (days * DAY as f64).round();
    if micros.is_nan() || micros.abs() > 9e18 {
        return None;
    }
    let moment = chrono::DateTime::from_timestamp_micros(micros as i64)?.naive_utc();
    let midnight = micros as i64 % DAY == 0;
    Some(if midnight { moment.date().to_string() } else { moment.format("%Y-%m-%dT%H:%M:%S%.f").to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_as_spreadsheets_show_them() {
        for (text, value) in [
            ("$1,234.50", 1234.5),
            ("1,234", 1234.0),
            ("1,234,567.25", 1_234_567.25),
            ("45%", 45.0),
            ("-45.5 %", -45.5),
            ("£5", 5.0),
            ("5 €", 5.0),
            ("\u{a3}\u{a0}1\u{a0}234", 1234.0),
            ("1 234", 1234.0),
            ("1'234.5", 1234.5),
            ("1\u{2019}234", 1234.0),
            ("(1,234)", -1234.0),
            ("($1,234.50)", -1234.5),
            ("$(5)", -5.0),
            ("(5)%", -5.0),
            ("1,234-", -1234.0),
            ("12-", -12.0),
            ("-$12", -12.0),
            ("$-12", -12.0),
            ("\u{2212}3", -3.0),
            ("+$3", 3.0),
            ("12.", 12.0),
            ("$.5", 0.5),
            ("1e-3", 0.001),
            ("True", 1.0),
            ("FALSE", 0.0),
            ("007", 7.0),
        ] {
            assert_eq!(number(text.as_bytes()), Some(value), "{text}");
        }
        for text in [
            "1.234,50",
            "1,5",
            "12,34",
            "0,123",
            "1,2345",
            ",123",
            "1,,234",
            "1,234.5.6",
            "$$5",
            "5%%",
            "$5%",
            "--5",
            "(5",
            "5)",
            "(-5)",
            "5 kg",
            "kg 5",
            "a",
            "",
            "$",
            "%",
            "()",
            "inf",
            "nan",
            "-inf",
            "$inf",
            "1,234e3",
            "1 23",
            "1,234 567",
            "2020-01-31",
            "yes",
            "٣",
        ] {
            assert_eq!(number(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn the_operator_learns_why_a_text_is_no_number() {
        for (text, why) in [
            ("1.234,50", "decimals with a point"),
            ("€ 1,5", "decimals with a point"),
            ("1.234.567", "groups of three"),
            ("5 kg", "unit or a word"),
            ("USD 5", "unit or a word"),
            ("2020-01-31", "bounds as dates"),
        ] {
            assert!(why_no_number(text.as_bytes()).contains(why), "{text}: {}", why_no_number(text.as_bytes()));
        }
        assert_eq!(why_no_number(b"oops"), "");
    }

    #[test]
    fn equal_values_have_one_spelling_and_codes_keep_theirs() {
        let canonical =
            |text: &str| String::from_utf8(super::canonical(text.as_bytes(), &mut Vec::new()).to_vec()).unwrap();
        for (text, spelt) in [
            ("1.0", "1"),
            ("1.", "1"),
            ("+1", "1"),
            ("-0.0", "0"),
            ("-0", "0"),
            ("+0", "0"),
            ("0.50", "0.5"),
            (".5", "0.5"),
            ("1e+02", "100"),
            ("12345678901234567890", "12345678901234567890"),
            ("+12345678901234567890", "12345678901234567890"),
            ("-7", "-7"),
            ("True", "true"),
            ("FALSE", "false"),
            ("01", "01"),
            ("-01", "-01"),
            ("00.5", "00.5"),
            ("5e1", "5e1"),
            ("1,234", "1,234"),
            ("$5", "$5"),
            ("yes", "yes"),
            ("-inf", "-inf"),
            ("", ""),
            ("+", "+"),
            ("1.2.3", "1.2.3"),
        ] {
            assert_eq!(canonical(text), spelt, "{text}");
        }
    }

    #[test]
    fn dates_and_spans_are_days() {
        for (text, days) in [
            ("1970-01-01", 0.0),
            ("2010-01-01", 14610.0),
            ("1969-12-31", -1.0),
            ("2000-02-29", 11016.0),
            ("1970-01-02T12:00", 1.5),
            ("1970-01-02 12:00:00", 1.5),
            ("1970-01-02 06:00:00.000", 1.25),
            ("1970-01-01T00:00:00Z", 0.0),
            ("1970-01-01T02:00:00+02:00", 0.0),
            ("1970-01-01T00:00:00-1200", 0.5),
            ("1970-01-01 06:00:00+00", 0.25),
        ] {
            assert_eq!(date(text), Some(days), "{text}");
        }
        for text in [
            "1970-02-30",
            "70-01-01",
            "1970-1-1",
            "01/02/1970",
            "1970-01-01T",
            "1970-01-01T9:00",
            "1970-01-01x",
            "19700101",
            "1970-01-01T00:00:00+",
            "",
        ] {
            assert_eq!(date(text), None, "{text}");
        }
        for (text, days) in [
            ("P3D", 3.0),
            ("PT12H", 0.5),
            ("P1DT6H", 1.25),
            ("-P1W", -7.0),
            ("PT0.5S", 0.5 / 86400.0),
            ("1 days 12:00:00", 1.5),
            ("1 day", 1.0),
            ("-1 days +12:00:00", -0.5),
            ("0 days", 0.0),
            ("06:00:00", 0.25),
        ] {
            assert_eq!(duration(text), Some(days), "{text}");
        }
        for text in ["P", "P1", "PT", "PD", "P1M", "3", "P1H", "days", ""] {
            assert_eq!(duration(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_date_written_is_the_date_read(micros in -7_000_000_000_000_000i64..7_000_000_000_000_000) {
            let days = in_days(micros / 1000 * 1000);
            let again = date(&date_text(days).unwrap()).unwrap();
            prop_assert!((again - days).abs() * DAY as f64 <= 1.5, "{again} {days}");
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(text in "[-+0-9a-zTZP:,.'()$%€ ]{0,24}") {
            for unit in [Unit::Number, Unit::Date, Unit::Duration] {
                prop_assert!(unit.read(text.as_bytes()).is_none_or(f64::is_finite));
            }
            why_no_number(text.as_bytes());
            canonical(text.as_bytes(), &mut Vec::new());
        }
    }
}
