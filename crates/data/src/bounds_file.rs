//! The public facts file `bounds.toml`: one table per column, and `[dpopt]` for the encoder's constants.

use std::io::Read;
use std::path::Path;

use dpopt_privacy::Shown;
use toml::{Table, Value};

use super::declared::{Bounds, Kind, Transform, Trend};
use super::encoder_form::{EncoderForm, Pairs, TextForm};
use super::error::{DataError, name_of, one_line};
use super::nearest::did_you_mean;
use super::numerals::{Unit, date, date_text, duration};
use super::schema::Schema;
use super::word_vectors::VectorsFile;

const COLUMN_KEYS: &str = "lower, upper, transform, monotone, numeric, levels, hash, text, ignore";
const OPTION_KEYS: &str = "knots, fine_knots, centred, additive, spread, pairs, pair_knots, pair_share, hash_bits, text_bits, counts_share, vectors_share, \
                           public_vectors, row_norm";
/// What stands where a value is still to be filled in.
pub const PLACEHOLDER: &str = "FILL IN";
/// Name of the table that is not a column. A column of that name cannot be declared in the file.
pub(crate) const OPTIONS: &str = "dpopt";
/// Most bytes of a bounds file: room for a million columns, none for a table or a device given by mistake.
const LARGEST: u64 = 1 << 27;

impl Schema {
    /// Reads a bounds file.
    pub fn from_toml_file(path: impl AsRef<Path>) -> Result<Self, DataError> {
        let path = path.as_ref();
        let mut schema = Self::from_toml(&text_of(path)?)?;
        // a path in a file is meant from where the file is
        if let (Some(vectors), Some(directory)) = (&schema.vectors, path.parent()) {
            schema.vectors = Some(VectorsFile::new(directory.join(vectors.path())));
        }
        Ok(schema)
    }

    /// Reads the text of a bounds file. Unknown keys, bounds upside down and contradictions are errors.
    ///
    /// ```
    /// use dpopt_data::Schema;
    /// let typo = Schema::from_toml("[age]\nlowr = 17\nupper = 90\n").unwrap_err();
    /// assert!(typo.to_string().contains("did you mean `lower`?"));
    /// ```
    pub fn from_toml(text: &str) -> Result<Self, DataError> {
        let mut schema = Self::default();
        for (name, table) in &parsed(text)? {
            if name == OPTIONS {
                schema.read_options(table)?;
            } else {
                let (kind, trend) = column(name, table)?;
                schema.columns.extend(kind.map(|kind| (name.clone(), kind)));
                schema.trends.extend(trend.map(|trend| (name.clone(), trend)));
            }
        }
        schema.check_options()?;
        Ok(schema)
    }

    /// Whether what `[dpopt]` says is within its ranges.
    fn check_options(&self) -> Result<(), DataError> {
        self.options.check()?;
        let text = TextForm::usual(self.vectors.is_some());
        let text = Some(TextForm { bits: self.options.text_bits.unwrap_or(text.bits), ..text });
        let form = self.form.or(EncoderForm { pair_knots: 8, pair_share: 0.5, text, ..EncoderForm::default() });
        form.check()?;
        form.text.map_or(Ok(()), |text| text.check(self.vectors.is_some()))
    }

    fn read_options(&mut self, table: &Table) -> Result<(), DataError> {
        for (key, value) in table {
            let whole = |option: &'static str| {
                value.as_integer().and_then(|v| u32::try_from(v).ok()).ok_or_else(|| DataError::Option {
                    option,
                    given: value.to_string(),
                    allowed: "a whole number".into(),
                })
            };
            match key.as_str() {
                "knots" => self.form.knots = Some(whole("knots")?),
                "fine_knots" => self.form.fine_knots = Some(whole("fine_knots")?),
                "pair_knots" => self.form.pair_knots = Some(whole("pair_knots")?),
                "pair_share" => self.form.pair_share = Some(decimal("pair_share", value)?),
                "centred" => self.form.centred = Some(truth("centred", value)?),
                "additive" => self.form.additive = Some(truth("additive", value)?),
                "spread" => self.form.spread = Some(truth("spread", value)?),
                "pairs" => self.form.pairs = Some(pairs(value)?),
                "hash_bits" => self.options.hash_bits = whole("hash_bits")?,
                "text_bits" => self.options.text_bits = Some(whole("text_bits")?),
                "counts_share" => self.form.counts_share = Some(decimal("counts_share", value)?),
                "vectors_share" => self.form.vectors_share = Some(decimal("vectors_share", value)?),
                "public_vectors" => {
                    let path = value.as_str().filter(|path| !path.is_empty()).ok_or_else(|| DataError::Option {
                        option: "public_vectors",
                        given: "something else".into(),
                        allowed: "the path of a file in quotes".into(),
                    })?;
                    self.vectors = Some(VectorsFile::new(path));
                }
                "row_norm" => self.options.row_norm = decimal("row_norm", value)?,
                _ => return Err(unknown_key(OPTIONS, key, OPTION_KEYS)),
            }
        }
        Ok(())
    }

    /// The bounds file that says the same; reading it back gives an equal schema.
    pub fn to_toml(&self) -> String {
        let mut file = Table::new();
        let mut options = Table::new();
        let default = super::declared::EncodingOptions::default();
        let mut set = |key: &str, given: u32, default: u32| {
            if given != default {
                options.insert(key.into(), Value::Integer(i64::from(given)));
            }
        };
        set("hash_bits", self.options.hash_bits, default.hash_bits);
        if self.options.row_norm != default.row_norm {
            options.insert("row_norm".into(), Value::Float(self.options.row_norm));
        }
        for (key, given) in [
            ("knots", self.form.knots),
            ("fine_knots", self.form.fine_knots),
            ("pair_knots", self.form.pair_knots),
            ("text_bits", self.options.text_bits),
        ] {
            if let Some(given) = given {
                options.insert(key.into(), Value::Integer(i64::from(given)));
            }
        }
        let truths = [("centred", self.form.centred), ("additive", self.form.additive), ("spread", self.form.spread)];
        for (key, given) in truths {
            if let Some(given) = given {
                options.insert(key.into(), Value::Boolean(given));
            }
        }
        for (key, share) in [
            ("pair_share", self.form.pair_share),
            ("counts_share", self.form.counts_share),
            ("vectors_share", self.form.vectors_share),
        ] {
            if let Some(share) = share {
                options.insert(key.into(), Value::Float(share));
            }
        }
        if let Some(file) = &self.vectors {
            options.insert("public_vectors".into(), Value::String(file.path().to_string_lossy().into_owned()));
        }
        let pairs = match &self.form.pairs {
            None => None,
            Some(Pairs::None) => Some(Value::String("none".into())),
            Some(Pairs::All) => Some(Value::String("all".into())),
            Some(Pairs::Private) => Some(Value::String("private".into())),
            Some(Pairs::Listed(named)) => {
                let pair = |(a, b): &(String, String)| Value::Array(vec![a.clone().into(), b.clone().into()]);
                Some(Value::Array(named.iter().map(pair).collect()))
            }
        };
        if let Some(pairs) = pairs {
            options.insert("pairs".into(), pairs);
        }
        if !options.is_empty() {
            file.insert(OPTIONS.into(), Value::Table(options));
        }
        for (name, kind) in &self.columns {
            let mut table = Table::new();
            match kind {
                Kind::Numeric { bounds, transform } => {
                    match bounds {
                        Some(b) => {
                            table.insert("lower".into(), bound_value(b.lower(), b.unit()));
                            table.insert("upper".into(), bound_value(b.upper(), b.unit()));
                        }
                        None => drop(table.insert("numeric".into(), Value::Boolean(true))),
                    }
                    let word = match transform {
                        Transform::Auto => None,
                        Transform::Linear => Some("linear"),
                        Transform::Log => Some("log"),
                    };
                    if let Some(word) = word {
                        table.insert("transform".into(), Value::String(word.into()));
                    }
                }
                Kind::Categorical { levels } => {
                    let levels = levels.iter().map(|l| Value::String(l.clone())).collect();
                    table.insert("levels".into(), Value::Array(levels));
                }
                Kind::Hashed => drop(table.insert("hash".into(), Value::Boolean(true))),
                Kind::Text => drop(table.insert("text".into(), Value::Boolean(true))),
                Kind::Ignored => drop(table.insert("ignore".into(), Value::Boolean(true))),
            }
            file.insert(name.clone(), Value::Table(table));
        }
        for (name, trend) in self.trends() {
            let table = file.entry(name).or_insert_with(|| Value::Table(Table::new()));
            if let Value::Table(table) = table {
                table.insert("monotone".into(), Value::String(trend.word().into()));
            }
        }
        file.to_string()
    }
}

/// The text of a bounds file.
fn text_of(path: &Path) -> Result<String, DataError> {
    let unreadable = |e: std::io::Error| DataError::unreadable(&name_of(path), &e);
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(unreadable)?;
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > LARGEST {
        return Err(unreadable(std::io::ErrorKind::FileTooLarge.into()));
    }
    match String::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => Ok(text),
        other => {
            let bytes = other.map_or_else(|error| error.into_bytes(), String::into_bytes);
            let how = if looks_like_utf_16(&bytes) { ", it looks like UTF-16" } else { "" };
            Err(DataError::BoundsEncoding { source_name: name_of(path), how })
        }
    }
}

/// The sections of a bounds file, by their names.
fn parsed(text: &str) -> Result<Vec<(String, Table)>, DataError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let file: Table = text.parse().map_err(|error: toml::de::Error| {
        let line = error.span().map(|span| {
            let before = text.get(..span.start).unwrap_or(text);
            format!(" line {}", before.matches('\n').count() + 1)
        });
        let heading = error.span().and_then(|span| bare_heading(text, span.start));
        if let Some(name) = heading {
            return DataError::BoundsName { name };
        }
        // the parser's own words may quote the file, which may be a table given by mistake
        let reason = match error.message() {
            "duplicate key" => "the key or table appears twice; keep one of them",
            _ => {
                "not TOML; write [column] and lower = 0, upper = 1 or levels = [\"a\", \"b\"] below it; names with dots, blanks or \
                 other signs stand in quotes: [\"my column\"]"
            }
        };
        DataError::BoundsSyntax { line: line.unwrap_or_default(), reason }
    })?;
    let section = |(name, value)| match value {
        Value::Table(table) => Ok((name, table)),
        _ => Err(DataError::BoundsSyntax {
            line: String::new(),
            reason: "a key stands outside any table; write it under [dpopt] or its column",
        }),
    };
    file.into_iter().map(section).collect()
}

/// What a bounds file says column by column, for whoever is still filling it in. Names stand in the order of the alphabet.
#[derive(Debug, Default)]
pub struct BoundsReview {
    /// The columns that have a section without a mistake.
    pub columns: Vec<String>,
    /// Those whose section declares nothing yet.
    pub undecided: Vec<String>,
    /// Those with keys that still hold [`PLACEHOLDER`], and these keys.
    pub unfilled: Vec<(String, Vec<String>)>,
    /// What is wrong with the rest, one error for each section.
    pub mistakes: Vec<DataError>,
}

impl BoundsReview {
    /// Looks at every section of a bounds file, where [`Schema::from_toml_file`] stops at the first that is wrong.
    ///
    /// # Errors
    /// The file cannot be read, or is not TOML.
    pub fn of_file(path: impl AsRef<Path>) -> Result<Self, DataError> {
        Self::of(&text_of(path.as_ref())?)
    }

    /// Reviews the text of a bounds file.
    ///
    /// ```
    /// use dpopt_data::{BoundsReview, PLACEHOLDER};
    /// let review = BoundsReview::of(&format!("[age]\nlower = 17\nupper = \"{PLACEHOLDER}\"\n[sex]\n"))?;
    /// assert_eq!(review.undecided, ["sex"]);
    /// assert_eq!(review.unfilled, [("age".to_string(), vec!["upper".to_string()])]);
    /// # Ok::<(), dpopt_data::DataError>(())
    /// ```
    ///
    /// # Errors
    /// The text is not TOML.
    pub fn of(text: &str) -> Result<Self, DataError> {
        let (mut review, mut schema) = (Self::default(), Schema::default());
        for (name, table) in parsed(text)? {
            if name == OPTIONS {
                review.mistakes.extend(schema.read_options(&table).and_then(|()| schema.check_options()).err());
                continue;
            }
            let open: Vec<String> =
                table.iter().filter(|(_, value)| is_placeholder(value)).map(|(key, _)| key.clone()).collect();
            if table.values().all(|value| value == &Value::Boolean(false)) {
                review.undecided.push(name.clone());
            } else if !open.is_empty() {
                review.unfilled.push((name.clone(), open));
            } else if let Err(mistake) = column(&name, &table) {
                review.mistakes.push(mistake);
                continue;
            }
            review.columns.push(name);
        }
        Ok(review)
    }

    /// Whether the file says all that it begins to say, without a mistake.
    pub fn is_complete(&self) -> bool {
        self.undecided.is_empty() && self.unfilled.is_empty() && self.mistakes.is_empty()
    }
}

/// Whether a value, or one in a list, is still to be filled in.
fn is_placeholder(value: &Value) -> bool {
    match value {
        Value::String(text) => text == PLACEHOLDER,
        Value::Array(values) => values.iter().any(is_placeholder),
        _ => false,
    }
}

/// What a heading names, where the mistake at `at` is one that quotes mend: a line in brackets of letters, digits, blanks, dots and the like.
fn bare_heading(text: &str, at: usize) -> Option<String> {
    let at = at.min(text.len());
    let from = text.get(..at)?.rfind('\n').map_or(0, |end| end + 1);
    let line = text.get(from..)?.lines().next()?.trim();
    let name = line.strip_prefix('[')?.strip_suffix(']')?.trim();
    let may_be = |c: char| c.is_alphanumeric() || " ._-/%&+#:()".contains(c);
    let bare = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let is_name = !name.chars().all(bare)
        && name.chars().count() <= 80
        && name.chars().all(may_be)
        && name.chars().any(char::is_alphabetic);
    is_name.then(|| one_line(name))
}

/// By its mark, or by every second byte of its beginning.
fn looks_like_utf_16(bytes: &[u8]) -> bool {
    let start = &bytes[..bytes.len().min(64)];
    let zeros = |odd: usize| start.iter().skip(odd).step_by(2).filter(|b| **b == 0).count() * 3 > start.len();
    matches!(start, [0xff, 0xfe, ..] | [0xfe, 0xff, ..]) || zeros(0) || zeros(1)
}

/// A name with dots without quotes: TOML takes it for tables in tables.
fn dotted(name: &str, table: &Table) -> Option<String> {
    let (key, value) =
        table.iter().find(|(key, value)| value.is_table() && !COLUMN_KEYS.split(", ").any(|k| k == *key))?;
    let (whole, inner) = (format!("{name}.{key}"), value.as_table()?);
    Some(dotted(&whole, inner).unwrap_or(whole))
}

fn unknown_key(table: &str, key: &str, known: &'static str) -> DataError {
    DataError::BoundsKey {
        table: one_line(table),
        key: one_line(key),
        nearest: did_you_mean(key, known.split(", ")),
        known,
    }
}

/// `"all"`, `"none"`, `"private"`, or pairs of names.
fn pairs(value: &Value) -> Result<Pairs, DataError> {
    let pair = |pair: &Value| match pair.as_array()?.as_slice() {
        [Value::String(a), Value::String(b)] => Some((a.clone(), b.clone())),
        _ => None,
    };
    let read = match value {
        Value::String(word) if word == "all" => Some(Pairs::All),
        Value::String(word) if word == "none" => Some(Pairs::None),
        Value::String(word) if word == "private" => Some(Pairs::Private),
        Value::Array(named) => named.iter().map(pair).collect::<Option<_>>().map(Pairs::Listed),
        _ => None,
    };
    read.ok_or_else(|| DataError::Option {
        option: "pairs",
        given: "something else".into(),
        allowed: "\"all\", \"none\", \"private\" or pairs of names: [[\"age\", \"sex\"]]".into(),
    })
}

fn decimal(option: &'static str, value: &Value) -> Result<f64, DataError> {
    number(value).ok_or_else(|| DataError::Option {
        option,
        given: value.to_string(),
        allowed: "a number above 0".into(),
    })
}

fn truth(option: &'static str, value: &Value) -> Result<bool, DataError> {
    value.as_bool().ok_or_else(|| DataError::Option {
        option,
        given: value.to_string(),
        allowed: "true or false".into(),
    })
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(v) => Some(*v as f64),
        Value::Float(v) => Some(*v),
        _ => None,
    }
}

/// Reads the declaration of one column from its table of the file: what it holds, and which way predictions may move with it.
fn column(name: &str, table: &Table) -> Result<(Option<Kind>, Option<Trend>), DataError> {
    let error = |what: String, fix: &str| Err(DataError::declaration(name, what, fix));
    if let Some(name) = dotted(name, table) {
        return Err(DataError::BoundsName { name: one_line(&name) });
    }
    if let Some((key, _)) = table.iter().find(|(_, value)| is_placeholder(value)) {
        return error(format!("{} still holds \"{PLACEHOLDER}\"", one_line(key)), "write a value in its place");
    }
    let (mut lower, mut upper, mut transform, mut levels, mut trend) = (None, None, None, None, None);
    let mut flags: Vec<&str> = Vec::new();
    for (key, value) in table {
        match key.as_str() {
            "lower" | "upper" => {
                let Some(bound) = bound(value) else {
                    return error(
                        format!("{key} is not a number"),
                        "write a number without quotes, a date like 2020-01-31 without quotes, or a span of time like \"P30D\" or \"PT12H\"",
                    );
                };
                *(if key == "lower" { &mut lower } else { &mut upper }) = Some(bound);
            }
            "transform" => {
                transform = Some(scale(name, value)?);
            }
            "monotone" => {
                trend = Some(direction(name, value)?);
            }
            "levels" => {
                let Some(array) = value.as_array() else {
                    return error("levels is not a list".into(), "write levels = [\"a\", \"b\"]");
                };
                levels = Some(array.iter().map(|level| level_text(name, level)).collect::<Result<Vec<_>, _>>()?);
            }
            "numeric" | "hash" | "text" | "ignore" => match value.as_bool() {
                Some(true) => flags.push(key),
                Some(false) => {}
                None => return error(format!("{key} is not true or false"), "write true or false"),
            },
            _ => return Err(unknown_key(name, key, COLUMN_KEYS)),
        }
    }
    let bounded = lower.is_some() || upper.is_some();
    let numeric = bounded || transform.is_some() || flags.contains(&"numeric");
    let kinds =
        usize::from(numeric) + usize::from(levels.is_some()) + flags.iter().filter(|flag| **flag != "numeric").count();
    if kinds > 1 {
        return error(
            "is declared as more than one kind".into(),
            "keep one of lower/upper, levels, hash, text, ignore",
        );
    }
    if trend.is_some() && (levels.is_some() || flags.iter().any(|flag| *flag != "numeric")) {
        return error("is declared monotone and is no number".into(), "keep one of the two");
    }
    if let Some(levels) = levels {
        return Ok((Some(Kind::categorical(name, levels)?), trend));
    }
    if numeric {
        let bounds = match (lower, upper) {
            (Some((lower, unit)), Some((upper, other))) if unit == other => Some(match unit {
                Unit::Number => Bounds::new(name, lower, upper)?,
                unit => Bounds::of_time(name, lower, upper, unit)?,
            }),
            (Some(_), Some(_)) => {
                return error("lower and upper are not of one kind".into(), "write two numbers, or two dates");
            }
            (None, None) => None,
            (Some(_), None) => return error("has lower but no upper".into(), "write both"),
            (None, Some(_)) => return error("has upper but no lower".into(), "write both"),
        };
        let transform = transform.unwrap_or_default();
        if let Some(b) = bounds
            && transform == Transform::Log
            && b.lower() < 0.0
        {
            return error(
                format!("transform = \"log\" with lower = {}", Shown(b.lower())),
                "use lower >= 0 or transform = \"linear\"",
            );
        }
        return Ok((Some(Kind::Numeric { bounds, transform }), trend));
    }
    let kind = match flags.first() {
        Some(&"hash") => Some(Kind::Hashed),
        Some(&"text") => Some(Kind::Text),
        Some(&"ignore") => Some(Kind::Ignored),
        // the type of its cells, or another declaration, may say that it is a number
        _ if trend.is_some() => None,
        _ => {
            return error(
                "declares nothing".into(),
                "write lower and upper, or levels, or hash, text, ignore or numeric = true",
            );
        }
    };
    Ok((kind, trend))
}

/// How a column is mapped to its scale.
fn scale(name: &str, value: &Value) -> Result<Transform, DataError> {
    match value.as_str() {
        Some("auto") => Ok(Transform::Auto),
        Some("linear") => Ok(Transform::Linear),
        Some("log") => Ok(Transform::Log),
        given => {
            let nearest = did_you_mean(given.unwrap_or(""), ["auto", "linear", "log"]);
            let what = format!("transform has an unknown value{nearest}");
            Err(DataError::declaration(name, what, "use \"auto\", \"linear\" or \"log\""))
        }
    }
}

/// Which way predictions may move with a column.
fn direction(name: &str, value: &Value) -> Result<Trend, DataError> {
    match value.as_str() {
        Some("increasing") => Ok(Trend::Increasing),
        Some("decreasing") => Ok(Trend::Decreasing),
        given => {
            let nearest = did_you_mean(given.unwrap_or(""), ["increasing", "decreasing"]);
            let what = format!("monotone has an unknown value{nearest}");
            Err(DataError::declaration(name, what, "use \"increasing\" or \"decreasing\""))
        }
    }
}

/// A bound and what it counts: a number, a date, or a span of time in quotes.
fn bound(value: &Value) -> Option<(f64, Unit)> {
    match value {
        Value::Datetime(when) if when.date.is_some() => Some((date(&when.to_string())?, Unit::Date)),
        Value::Datetime(when) => Some((duration(&when.to_string())?, Unit::Duration)),
        Value::String(span) => Some((duration(span)?, Unit::Duration)),
        _ => Some((number(value)?, Unit::Number)),
    }
}

/// A bound as it is written into a bounds file: a number, a date, or a span of time in quotes.
fn bound_value(value: f64, unit: Unit) -> Value {
    let date = date_text(value).and_then(|text| text.parse().ok());
    match (unit, date) {
        (Unit::Date, Some(date)) => Value::Datetime(date),
        (Unit::Duration, _) => Value::String(format!("{}P{}D", if value < 0.0 { "-" } else { "" }, value.abs())),
        _ => Value::Float(value),
    }
}

/// A level as text. Cells are compared with it by value.
fn level_text(name: &str, level: &Value) -> Result<String, DataError> {
    match level {
        Value::String(text) => Ok(text.clone()),
        Value::Integer(v) => Ok(v.to_string()),
        Value::Float(v) => Ok(v.to_string()),
        Value::Boolean(v) => Ok(v.to_string()),
        Value::Datetime(when) => {
            let when = when.to_string();
            Ok(date(&when).and_then(date_text).unwrap_or(when))
        }
        _ => Err(DataError::declaration(name, "a level is not text or a number", "write levels = [\"a\", \"b\"]")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = r#"
[dpopt]
knots = 7
additive = true
row_norm = 2
text_bits = 14
counts_share = 0.1
vectors_share = 0.5
public_vectors = "glove.txt.gz"
[age]
lower = 17
upper = 90
[gain]
lower = 0
upper = 99999
transform = "log"
[workclass]
levels = ["Private", "State-gov", 3]
[city]
hash = true
[note]
text = true
[id]
ignore = true
[hours]
numeric = true
monotone = "increasing"
[dose]
monotone = "decreasing"
"#;

    #[test]
    fn a_complete_file_is_read_and_written_back() {
        let schema = Schema::from_toml(EXAMPLE).unwrap();
        assert_eq!((schema.form.knots, schema.form.additive), (Some(7), Some(true)));
        assert_eq!(schema.options.row_norm, 2.0);
        assert_eq!((schema.options.text_bits, schema.form.vectors_share), (Some(14), Some(0.5)));
        assert_eq!(schema.vectors.as_ref().map(|file| file.path()), Some(std::path::Path::new("glove.txt.gz")));
        assert_eq!(schema.get("age"), Some(&Kind::numeric("age", 17.0, 90.0).unwrap()));
        assert!(matches!(schema.get("gain"), Some(Kind::Numeric { transform: Transform::Log, .. })));
        assert!(matches!(schema.get("workclass"), Some(Kind::Categorical { levels }) if levels[2] == "3"));
        assert_eq!(schema.get("city"), Some(&Kind::Hashed));
        assert_eq!(schema.get("note"), Some(&Kind::Text));
        assert_eq!(schema.get("id"), Some(&Kind::Ignored));
        assert!(matches!(schema.get("hours"), Some(Kind::Numeric { bounds: None, .. })));
        let trends: Vec<_> = schema.trends().collect();
        assert_eq!(trends, [("dose", Trend::Decreasing), ("hours", Trend::Increasing)]);
        assert_eq!(schema.get("dose"), None);
        assert_eq!(Schema::from_toml(&schema.to_toml()).unwrap(), schema);
    }

    #[test]
    fn every_mistake_is_one_line_with_a_fix() {
        for (text, expected) in [
            ("[age]\nlowr = 1\n", "did you mean `lower`?"),
            ("[dpopt]\nknot = 5\n", "did you mean `knots`?"),
            ("[dpopt]\nknots = 1\n", "2 to 64"),
            ("[dpopt]\nrow_norm = nan\n", "above 0"),
            ("[dpopt]\ncounts_share = 1.0\n", "below 1"),
            ("[dpopt]\nvectors_share = 0.5\n", "0 without public_vectors"),
            ("[dpopt]\npublic_vectors = 'v'\nvectors_share = 0.9\n", "at most 1"),
            ("[dpopt]\npublic_vectors = 3\n", "path of a file"),
            ("[dpopt]\ntext_bits = 0\ncounts_share = 0\n", "neither counts nor vectors"),
            ("[age]\nlower = 90\nupper = 17\n", "swap"),
            ("[age]\nlower = nan\nupper = 17\n", "finite"),
            ("[age]\nlower = 1\nupper = 1\n", "widen"),
            ("[age]\nlower = 1\n", "no upper"),
            ("[age]\nlower = \"1\"\nupper = 2\n", "without quotes"),
            ("[age]\nlower = 2010-01-01\nupper = 'P3D'\n", "not of one kind"),
            ("[age]\nlower = -1\nupper = 2\ntransform = \"log\"\n", "lower >= 0"),
            ("[age]\nlower = 1\nupper = 2\nlevels = [1]\n", "more than one kind"),
            ("[age]\n", "declares nothing"),
            ("[sex]\nlevels = []\n", "empty"),
            ("[sex]\nlevels = [\"a\", \"a\"]\n", "twice"),
            ("[sex]\nlevels = [\"a\", \" a \"]\n", "twice"),
            ("[sex]\nlevels = \"a\"\n", "not a list"),
            ("[sex]\nlevels = [[1]]\n", "not text"),
            ("[sex]\nhash = 1\n", "true or false"),
            ("[a]\nlower = 0\nupper = \"FILL IN\"\n", "upper still holds"),
            ("[a]\nlevels = ['no', \"FILL IN\"]\n", "levels still holds"),
            ("[a]\ntransform = \"lg\"\nlower = 0\nupper = 1\n", "did you mean `log`?"),
            ("[a]\nmonotone = \"incresing\"\nlower = 0\nupper = 1\n", "did you mean `increasing`?"),
            ("[a]\nmonotone = 1\nlower = 0\nupper = 1\n", "or \"decreasing\""),
            ("[a]\nmonotone = \"increasing\"\nlevels = [1, 2]\n", "no number"),
            ("[a]\nmonotone = \"increasing\"\ntext = true\n", "no number"),
            ("knots = 5\n", "outside any table"),
            ("[a]\nlower = 1\n[a]\nlower = 2\n", "line"),
            ("[a\n", "line 1"),
            ("[my age]\nlower = 0\nupper = 1\n", "[\"my age\"]"),
            ("[größe]\nlower = 0\n", "[\"größe\"]"),
            ("[hours.per.week]\nlower = 0\nupper = 1\n", "[\"hours.per.week\"]"),
            ("[a.b]\nlevels = [1]\n[a]\nhash = true\n", "[\"a.b\"]"),
            ("[39, 40, x]\n", "not TOML"),
        ] {
            let message = Schema::from_toml(text).expect_err(text).to_string();
            assert!(message.contains(expected) && !message.contains('\n'), "{text:?}: {message}");
        }
    }

    #[test]
    fn a_review_tells_every_open_section_and_every_mistake() {
        let text = "[dpopt]\nknots = 1\n[a]\n[b]\nlower = \"FILL IN\"\nupper = 3\n[c]\nhash = false\n[d]\nlower = 3\n\
                    [e]\nlevels = ['x', \"FILL IN\"]\n[f]\nhash = true\n[g.h]\nhash = true\n";
        let review = BoundsReview::of(text).unwrap();
        assert_eq!(review.undecided, ["a", "c"]);
        assert_eq!(review.unfilled, [("b".into(), vec!["lower".into()]), ("e".into(), vec!["levels".into()])]);
        assert_eq!(review.columns, ["a", "b", "c", "e", "f"]);
        let mistakes: Vec<String> = review.mistakes.iter().map(ToString::to_string).collect();
        assert_eq!(mistakes.len(), 3, "{mistakes:?}");
        for part in ["2 to 64", "no upper", "[\"g.h\"]"] {
            assert!(mistakes.iter().any(|mistake| mistake.contains(part)), "{part}: {mistakes:?}");
        }
        assert!(!review.is_complete() && BoundsReview::of(EXAMPLE).unwrap().is_complete());
        assert!(BoundsReview::of("[a\n").is_err());
    }

    #[test]
    fn a_file_in_another_encoding_is_called_so() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("b.toml");
        let utf_16 = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
        let latin_1 = b"[gr\xf6\xdfe]\nhash = true\n".to_vec();
        for (bytes, looks) in
            [(utf_16("\u{feff}[a]\nhash = true\n"), true), (utf_16("[a]\nhash = true\n"), true), (latin_1, false)]
        {
            std::fs::write(&path, bytes).unwrap();
            let message = Schema::from_toml_file(&path).unwrap_err().to_string();
            assert!(message.contains("UTF-8") && message.contains("UTF-16") == looks, "{message}");
        }
    }
}
