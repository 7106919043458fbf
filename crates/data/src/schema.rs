//! What is publicly known about a table: kinds, bounds, levels. Never read from sensitive rows.
//!
//! A [`Schema`] collects declarations (a bounds file, flags, a public table). [`Schema::resolve`] lays them over the
//! columns of a table: a declared column is what it was declared to be; an undeclared one is what the file's own schema
//! says (Parquet), or else categorical and hashed, and listed as such.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::declared::{Bounds, EncodingOptions, Kind, TEXT_BITS, Transform, Trend};
use super::encoder_form::{AskedForm, EncoderForm, Pairs, TextForm};
use super::error::DataError;
use super::layout::{FeatureKind, Layout, TargetRule};
use super::numerals::Unit;
use super::table::{Column, Stored};
use super::word_vectors::VectorsFile;
use dpopt_privacy::Shown;

/// Public declarations about columns, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schema {
    pub(crate) columns: BTreeMap<String, Kind>,
    /// Which way predictions may move with a number.
    pub(crate) trends: BTreeMap<String, Trend>,
    /// Public constants of the encoder.
    pub options: EncodingOptions,
    /// What is said of the form of numbers, texts and products.
    pub form: AskedForm,
    /// Public vectors of the words of texts.
    pub vectors: Option<VectorsFile>,
}

impl Schema {
    /// What `name` is declared to be.
    pub fn get(&self, name: &str) -> Option<&Kind> {
        self.columns.get(name)
    }

    /// Declared columns in the order of their names.
    pub fn declared(&self) -> impl Iterator<Item = (&str, &Kind)> {
        self.columns.iter().map(|(name, kind)| (name.as_str(), kind))
    }

    /// Which way predictions may move with numbers, in the order of their names.
    pub fn trends(&self) -> impl Iterator<Item = (&str, Trend)> {
        self.trends.iter().map(|(name, trend)| (name.as_str(), *trend))
    }

    /// Says which way predictions may move with a number. Saying both is an error.
    pub fn declare_trend(&mut self, name: &str, trend: Trend) -> Result<(), DataError> {
        match self.trends.insert(name.to_string(), trend) {
            Some(other) if other != trend => {
                Err(DataError::declaration(name, "is declared increasing and decreasing", "keep one of the two"))
            }
            _ => Ok(()),
        }
    }

    /// Number of columns of a table without a header, if the declarations and the target name all of them: c1, c2, … without a gap.
    pub fn numbered_columns(&self, target: Option<&str>) -> Option<u64> {
        let number = |name: &str| name.strip_prefix('c').filter(|n| !n.starts_with(['0', '+']))?.parse::<u64>().ok();
        let names = self.columns.keys().map(String::as_str).chain(target);
        let numbers: BTreeSet<u64> = names.map(number).collect::<Option<_>>()?;
        numbers.last().copied().filter(|last| *last == numbers.len() as u64)
    }

    /// Adds a declaration (a flag such as `--numeric age`). What an earlier one says in more detail stays: bounds and
    /// levels are kept. Two different kinds for one column are an error.
    pub fn declare(&mut self, name: &str, kind: Kind) -> Result<(), DataError> {
        let merged = match (self.columns.get(name), kind) {
            (None, kind) => kind,
            (Some(old @ Kind::Numeric { bounds: Some(_), .. }), Kind::Numeric { bounds: None, .. }) => old.clone(),
            (Some(old @ Kind::Categorical { .. }), Kind::Hashed) => old.clone(),
            (Some(Kind::Numeric { bounds: None, transform }), Kind::Numeric { bounds, .. }) => {
                Kind::Numeric { bounds, transform: *transform }
            }
            (Some(Kind::Hashed), new @ Kind::Categorical { .. }) => new,
            (Some(old), new) if *old == new => new,
            (Some(old), new) => {
                return Err(DataError::declaration(
                    name,
                    format!("declared {} and {}, or twice with different facts", old.word(), new.word()),
                    "keep one of the two declarations",
                ));
            }
        };
        self.columns.insert(name.to_string(), merged);
        Ok(())
    }

    /// Sets the range of a numeric column as its cells are read (for instance one released by a private quantile): of points or spans of time, days.
    pub fn set_bounds(&mut self, name: &str, lower: f64, upper: f64) -> Result<(), DataError> {
        let bounds = Some(Bounds::new(name, lower, upper)?.as_read());
        let transform = match self.columns.get(name) {
            Some(Kind::Numeric { transform, .. }) => *transform,
            _ => Transform::Auto,
        };
        self.columns.insert(name.to_string(), Kind::Numeric { bounds, transform });
        Ok(())
    }

    /// Sets the levels of a column (`--labels ham,spam`, or labels released by a private selection).
    pub fn set_levels(&mut self, name: &str, levels: Vec<String>) -> Result<(), DataError> {
        self.columns.insert(name.to_string(), Kind::categorical(name, levels)?);
        Ok(())
    }

    /// Takes a declaration back, for instance of a target that a table of features does not have.
    pub fn forget(&mut self, name: &str) {
        self.columns.remove(name);
        self.trends.remove(name);
    }

    /// Lays the declarations over a table.
    ///
    /// `target` is the column to learn, if any. A declared column that the table does not have is an error, and so is
    /// a table of undeclared text columns about which nothing at all is declared ([`DataError::NothingDeclared`]).
    pub fn resolve(&self, columns: &[Column], target: Option<&str>) -> Result<Layout, DataError> {
        self.options.check()?;
        self.check_names(columns, target)?;
        let mut layout = Layout {
            options: self.options,
            form: EncoderForm::default(),
            pairs: Vec::new(),
            features: Vec::new(),
            target: None,
            undeclared: Vec::new(),
            ignored: Vec::new(),
            vectors: None,
        };
        for column in columns.iter().filter(|c| Some(c.name.as_str()) != target) {
            let kind = self.feature(column)?;
            if self.trends.contains_key(&column.name) && !matches!(kind, Some(FeatureKind::Numeric { .. })) {
                let (what, fix) = match kind {
                    None => ("is declared monotone and ignored", "leave out one of the two"),
                    Some(_) => (
                        "is declared monotone and is no number",
                        "write lower and upper, or numeric = true, or leave out `monotone`",
                    ),
                };
                return Err(DataError::declaration(&column.name, what, fix));
            }
            let Some(kind) = kind else {
                layout.ignored.push(column.name.clone());
                continue;
            };
            if !self.columns.contains_key(&column.name) && matches!(column.stored, Stored::Unknown | Stored::Text) {
                layout.undeclared.push(column.name.clone());
            }
            layout.features.push((column.name.clone(), kind));
        }
        if layout.features.is_empty() {
            return Err(DataError::declaration(
                target.unwrap_or("(all)"),
                "no column is left to learn from",
                "declare at least one feature column that is not ignored",
            ));
        }
        if let Some(name) = target.filter(|name| self.trends.contains_key(*name)) {
            return Err(DataError::declaration(
                name,
                "is the target and declared monotone",
                "write `monotone` for the columns that predictions move with",
            ));
        }
        if let Some(name) = target {
            let stored = columns.iter().find(|c| c.name == name).map(|c| &c.stored);
            if let Some(Stored::Unsupported(stored)) = stored {
                return Err(DataError::UnsupportedType { column: name.into(), stored: stored.clone() });
            }
            layout.target = Some((name.to_string(), self.target_rule(name, stored)?));
        }
        self.settle_form(&mut layout)?;
        Ok(layout)
    }

    /// Refuses what names a column that the table does not have, and a table of which nothing at all is known.
    fn check_names(&self, columns: &[Column], target: Option<&str>) -> Result<(), DataError> {
        let names: HashSet<&str> = columns.iter().map(|c| c.name.as_str()).collect();
        let absent = |role: &str, name: &str| {
            let names: Vec<&str> = columns.iter().map(|c| c.name.as_str()).collect();
            let declared: Vec<&str> = self.columns.keys().map(String::as_str).chain(target).collect();
            DataError::no_such_column(role, name, &names, &declared)
        };
        if let Some(target) = target.filter(|target| !names.contains(target)) {
            return Err(absent("the target", target));
        }
        if let Some(name) = self.columns.keys().chain(self.trends.keys()).find(|name| !names.contains(name.as_str())) {
            return Err(absent("the declared column", name));
        }
        let features = || columns.iter().filter(|c| Some(c.name.as_str()) != target);
        if features().next().is_some()
            && features()
                .all(|c| matches!(c.stored, Stored::Unknown | Stored::Unnamed) && !self.columns.contains_key(&c.name))
        {
            return Err(DataError::NothingDeclared);
        }
        Ok(())
    }

    /// What a column becomes, by what is declared of it and how it is stored; `None` if it is ignored.
    fn feature(&self, column: &Column) -> Result<Option<FeatureKind>, DataError> {
        let trend = self.trends.get(&column.name).copied();
        Ok(Some(match (self.columns.get(&column.name), &column.stored) {
            (Some(Kind::Ignored), _) => return Ok(None),
            (_, Stored::Unsupported(stored)) => {
                return Err(DataError::UnsupportedType { column: column.name.clone(), stored: stored.clone() });
            }
            (None, Stored::Sparse(dimension)) => FeatureKind::Sparse { dimension: *dimension },
            (Some(_), Stored::Sparse(_)) => {
                return Err(DataError::declaration(
                    &column.name,
                    "a sparse vector has no kind to declare",
                    "remove the declaration",
                ));
            }
            (None, Stored::Unnamed) => return Err(DataError::NoName { column: column.name.clone() }),
            (Some(Kind::Numeric { bounds, transform }), stored) => {
                let bounds = bounds.map(|bounds| as_stored(&column.name, bounds, stored)).transpose()?;
                FeatureKind::Numeric { bounds, log: log_scale(&column.name, bounds, *transform)?, trend }
            }
            (Some(Kind::Categorical { levels }), _) => FeatureKind::Categorical { levels: levels.clone() },
            (Some(Kind::Text), _) => FeatureKind::Text { bits: self.options.text_bits.unwrap_or(TEXT_BITS) },
            (None, Stored::Number | Stored::Time(_)) => FeatureKind::Numeric { bounds: None, log: false, trend },
            (None, Stored::Boolean) => FeatureKind::Categorical { levels: vec!["false".into(), "true".into()] },
            (Some(Kind::Hashed), _) | (None, Stored::Unknown | Stored::Text) => {
                FeatureKind::Hashed { bits: self.options.hash_bits }
            }
        }))
    }

    /// The form of numbers, texts and products, the products and the public vectors.
    fn settle_form(&self, layout: &mut Layout) -> Result<(), DataError> {
        // blocks that may be longer than others
        let long = |kind: &FeatureKind| matches!(kind, FeatureKind::Sparse { .. } | FeatureKind::Text { .. });
        let clipped = layout.features.iter().any(|(_, kind)| long(kind));
        if let (true, Some((name, _))) = (clipped, self.trends().next()) {
            return Err(DataError::declaration(
                name,
                "is declared monotone in a table with a text or a sparse vector, by which a row may be clipped as a whole",
                "leave out `monotone`",
            ));
        }
        if let (Some(false), Some((name, _))) = (self.form.additive, self.trends().next()) {
            return Err(DataError::declaration(
                name,
                "is declared monotone, and with additive = false rows are scaled as a whole",
                "leave out additive or `monotone`",
            ));
        }
        let products = match &self.form.pairs {
            None | Some(Pairs::None) => Vec::new(),
            Some(Pairs::All | Pairs::Private) => layout.products(),
            Some(Pairs::Listed(named)) => {
                let declared: Vec<&str> = self.columns.keys().map(String::as_str).collect();
                named.iter().map(|(a, b)| layout.product(a, b, &declared)).collect::<Result<Vec<_>, _>>()?
            }
        };
        let has_text = layout.has_text();
        layout.vectors = match &self.vectors {
            Some(_) if !has_text => return Err(DataError::VectorsWithoutText),
            Some(file) => Some(file.vectors()?),
            None => None,
        };
        // a form that the first versions had not is taken where something of it is said, or the plan takes one
        let said = self.form.counts_share.is_some() || self.form.vectors_share.is_some() || self.vectors.is_some();
        let said = said || self.options.text_bits == Some(0);
        let usual = TextForm::usual(layout.vectors.is_some());
        let text = TextForm { bits: self.options.text_bits.unwrap_or(usual.bits), ..usual };
        let text = (has_text && said).then_some(text);
        let additive = self.trends().next().is_some();
        layout.form =
            self.form.or(EncoderForm { pair_knots: 8, pair_share: 0.5, text, additive, ..EncoderForm::default() });
        layout.pairs = products;
        layout.form = layout.form_of_pairs(layout.form);
        layout.form.check()?;
        if let Some(text) = &layout.form.text {
            text.check(layout.vectors.is_some())?;
        }
        Ok(())
    }

    pub(crate) fn target_rule(&self, name: &str, stored: Option<&Stored>) -> Result<TargetRule, DataError> {
        match self.columns.get(name) {
            Some(Kind::Categorical { levels }) if levels.len() < 2 => Err(DataError::declaration(
                name,
                "the target has one level, so there is nothing to tell apart",
                "list at least two levels",
            )),
            Some(Kind::Categorical { levels }) => Ok(TargetRule::Classes { levels: levels.clone() }),
            Some(Kind::Numeric { bounds: Some(b), .. }) => {
                let b = stored.map_or(Ok(*b), |stored| as_stored(name, *b, stored))?;
                Ok(TargetRule::Number { lower: b.lower(), upper: b.upper(), unit: b.unit() })
            }
            None if stored == Some(&Stored::Boolean) => {
                Ok(TargetRule::Classes { levels: vec!["false".into(), "true".into()] })
            }
            None | Some(Kind::Hashed | Kind::Numeric { bounds: None, .. }) => Ok(TargetRule::Undeclared),
            Some(Kind::Text | Kind::Ignored) => Err(DataError::declaration(
                name,
                "the target is declared text or ignored",
                "declare its levels, or lower and upper",
            )),
        }
    }
}

/// The range of a column that is stored in such a way.
fn as_stored(column: &str, bounds: Bounds, stored: &Stored) -> Result<Bounds, DataError> {
    let (unit, said) = (bounds.unit(), |unit| if unit == Unit::Date { "dates" } else { "spans of time" });
    let error = |what: String, fix: &str| Err(DataError::declaration(column, what, fix));
    match stored {
        Stored::Time(ticks) if unit.is_number() || unit == ticks.unit => Ok(bounds.stored_in(*ticks)),
        Stored::Time(ticks) => error(
            format!("its bounds are {} and it holds {}", said(unit), said(ticks.unit)),
            "write bounds of what it holds",
        ),
        Stored::Number | Stored::Boolean if !unit.is_number() => error(
            format!("its bounds are {} and it holds numbers", said(unit)),
            "write numbers as bounds, or store what they stand for",
        ),
        _ => Ok(bounds),
    }
}

/// Whether a column is encoded on a logarithmic scale: when its range is nonnegative and spans three decades.
fn log_scale(column: &str, bounds: Option<Bounds>, transform: Transform) -> Result<bool, DataError> {
    let Some(b) = bounds else { return Ok(false) };
    match transform {
        Transform::Linear => Ok(false),
        // where days are counted from means nothing
        Transform::Auto if b.unit() == Unit::Date => Ok(false),
        Transform::Auto => Ok(b.lower() >= 0.0 && b.upper() >= 1000.0 * b.lower().max(1.0)),
        Transform::Log if b.lower() >= 0.0 => Ok(true),
        Transform::Log => Err(DataError::declaration(
            column,
            format!("transform = \"log\" with lower = {}", Shown(b.lower())),
            "use lower >= 0 or transform = \"linear\"",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_columns(names: &[&str]) -> Vec<Column> {
        names.iter().map(|n| Column { name: n.to_string(), stored: Stored::Unknown }).collect()
    }

    #[test]
    fn bounds_that_make_no_sense_are_refused_with_the_fix() {
        for (lower, upper, word) in [
            (90.0, 17.0, "swap"),
            (1.0, 1.0, "widen"),
            (f64::NAN, 1.0, "finite"),
            (0.0, f64::INFINITY, "finite"),
            (-1.7e308, 1.7e308, "finite"),
        ] {
            let message = Bounds::new("age", lower, upper).unwrap_err().to_string();
            assert!(message.contains("`age`") && message.contains(word) && !message.contains('\n'), "{message}");
        }
    }

    #[test]
    fn nothing_declared_names_three_ways_and_the_target_alone_is_nothing() {
        let mut schema = Schema::default();
        schema.set_levels("income", vec!["a".into(), "b".into()]).unwrap();
        let message = schema.resolve(&text_columns(&["age", "income"]), Some("income")).unwrap_err().to_string();
        for way in ["ranges and levels", "share of the budget", "give a public table"] {
            assert!(message.contains(way), "{message}");
        }
    }

    #[test]
    fn declarations_that_name_all_columns_count_them() {
        let count = |names: &[&str], target: Option<&str>| {
            let mut schema = Schema::default();
            names.iter().for_each(|name| schema.declare(name, Kind::Text).unwrap());
            schema.numbered_columns(target)
        };
        assert_eq!(count(&["c1", "c2", "c4"], Some("c3")), Some(4));
        assert_eq!(count(&["c1", "c2"], Some("c2")), Some(2));
        assert_eq!(count(&["c1", "c4"], Some("c3")), None);
        assert_eq!(count(&["c0", "c1"], None), None);
        assert_eq!(count(&["c1", "age"], None), None);
        assert_eq!(count(&["c01"], None), None);
        assert_eq!(count(&[], None), None);
    }

    #[test]
    fn undeclared_columns_are_hashed_and_listed() {
        let mut schema = Schema::default();
        schema.declare("age", Kind::numeric("age", 17.0, 90.0).unwrap()).unwrap();
        let layout = schema.resolve(&text_columns(&["age", "city", "income"]), Some("income")).unwrap();
        assert_eq!(layout.undeclared, ["city"]);
        assert_eq!(layout.features[1].1, FeatureKind::Hashed { bits: 12 });
        assert_eq!(layout.target, Some(("income".into(), TargetRule::Undeclared)));
        assert!(layout.unbounded().is_empty());
        schema.declare("city", Kind::Numeric { bounds: None, transform: Transform::Auto }).unwrap();
        assert_eq!(schema.resolve(&text_columns(&["age", "city"]), None).unwrap().unbounded(), ["city"]);
    }

    #[test]
    fn names_that_do_not_exist_get_the_nearest() {
        let mut schema = Schema::default();
        schema.declare("agge", Kind::Text).unwrap();
        let error = schema.resolve(&text_columns(&["age", "income"]), Some("income")).unwrap_err().to_string();
        assert!(error.contains("did you mean `age`?"), "{error}");
        let mut schema = Schema::default();
        schema.declare("age", Kind::Text).unwrap();
        let error = schema.resolve(&text_columns(&["age", "income"]), Some("incmoe")).unwrap_err().to_string();
        assert!(error.contains("did you mean `income`?"), "{error}");
        // nothing that was declared is there: the header may be a record
        let error = schema.resolve(&text_columns(&["39", "income"]), Some("incmoe")).unwrap_err().to_string();
        assert!(!error.contains("`income`") && !error.contains("39"), "{error}");
    }

    #[test]
    fn stored_types_decide_where_the_file_has_a_schema() {
        let column = |name: &str, stored| Column { name: name.into(), stored };
        let columns = [
            column("n", Stored::Number),
            column("b", Stored::Boolean),
            column("t", Stored::Text),
            column("list", Stored::Unsupported("List(Int64)".into())),
        ];
        assert!(matches!(Schema::default().resolve(&columns, None), Err(DataError::UnsupportedType { .. })));
        let layout = Schema::default().resolve(&columns[..3], None).unwrap();
        assert_eq!(layout.unbounded(), ["n"]);
        assert_eq!(layout.undeclared, ["t"]);
        assert!(matches!(&layout.features[1].1, FeatureKind::Categorical { levels } if levels.len() == 2));
    }

    #[test]
    fn flags_do_not_contradict_the_file() {
        let mut schema = Schema::default();
        schema.declare("age", Kind::numeric("age", 0.0, 1.0).unwrap()).unwrap();
        schema.declare("age", Kind::Numeric { bounds: None, transform: Transform::Auto }).unwrap();
        assert_eq!(schema.get("age"), Some(&Kind::numeric("age", 0.0, 1.0).unwrap()));
        assert!(schema.declare("age", Kind::Text).is_err());
    }

    #[test]
    fn options_out_of_range_say_the_range() {
        for bad in [
            EncodingOptions { text_bits: Some(40), ..Default::default() },
            EncodingOptions { row_norm: f64::NAN, ..Default::default() },
            EncodingOptions { row_norm: 0.0, ..Default::default() },
        ] {
            assert!(matches!(bad.check(), Err(DataError::Option { .. })));
        }
    }
}
