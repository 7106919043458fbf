//! What released weights say of each column and of each pair of columns, for drawings: functions of a value, and of two.

use super::Encoder;
use super::block::{FeatureBlock, PreparedColumn};
use super::block::{Scales, Scratch, TREND_KNOTS};
use super::form::FeatureForm;
use crate::numerals::Unit;
use crate::table::Field;
use crate::text::COUNTS;
use std::collections::HashMap;

/// Points of a curve: every knot of the usual finer scale, and of a number with a trend, is one of them.
const POINTS: usize = TREND_KNOTS as usize;

/// What a model adds to the score, to the scaling of the whole row; around 0 over the points or levels that are shown.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// A number: values that are equally far apart on the encoder's scale, and what is added for each.
    Curve {
        /// Name of the column.
        column: String,
        /// Value of the column, and what is added to the score there.
        points: Vec<(f64, f64)>,
        /// What the values count.
        #[serde(default, skip_serializing_if = "Unit::is_number")]
        unit: Unit,
    },
    /// A category with declared levels, or a number that is 0 or 1.
    Levels {
        /// Name of the column.
        column: String,
        /// Level of the column, and what is added to the score for it.
        levels: Vec<(String, f64)>,
    },
    /// Two columns together, beyond what each does alone.
    Map {
        /// Names of the two columns.
        columns: (String, String),
        /// Values of the first column, one per row of `effects`.
        first: Vec<String>,
        /// Values of the second column, one per column of `effects`.
        second: Vec<String>,
        /// What is added to the score at each pair of values.
        effects: Vec<Vec<f64>>,
    },
}

/// A column, or a pair of columns, of a model that is a sum over them.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Term {
    /// One name, or two.
    pub columns: Vec<String>,
    /// Its features: the first, and the one after the last.
    pub features: (u32, u32),
    /// Mean of what is added over the points, levels or cells that its [`Shape`] shows; 0 of one without a shape.
    pub mean: f64,
}

impl Shape {
    /// Names of its columns: one, or two.
    pub fn columns(&self) -> Vec<&str> {
        match self {
            Self::Curve { column, .. } | Self::Levels { column, .. } => vec![column],
            Self::Map { columns, .. } => vec![&columns.0, &columns.1],
        }
    }

    /// All effects, in order.
    pub fn effects(&self) -> Vec<f64> {
        match self {
            Self::Curve { points, .. } => points.iter().map(|p| p.1).collect(),
            Self::Levels { levels, .. } => levels.iter().map(|l| l.1).collect(),
            Self::Map { effects, .. } => effects.iter().flatten().copied().collect(),
        }
    }

    /// All effects in order, to be changed.
    pub fn effects_mut(&mut self) -> Vec<&mut f64> {
        match self {
            Self::Curve { points, .. } => points.iter_mut().map(|p| &mut p.1).collect(),
            Self::Levels { levels, .. } => levels.iter_mut().map(|l| &mut l.1).collect(),
            Self::Map { effects, .. } => effects.iter_mut().flatten().collect(),
        }
    }

    /// The difference between the largest and the smallest effect.
    pub fn reach(&self) -> f64 {
        let ends = |(low, high): (f64, f64), e: f64| (low.min(e), high.max(e));
        let (low, high) = self.effects().into_iter().fold((f64::INFINITY, f64::NEG_INFINITY), ends);
        (high - low).max(0.0)
    }

    /// Mean square of the effects. Values of a curve are as frequent as the encoder's scale says; levels count alike.
    pub fn mean_square(&self) -> f64 {
        let effects = self.effects();
        effects.iter().map(|e| e * e).sum::<f64>() / effects.len().max(1) as f64
    }

    /// Mean of the effects.
    fn mean(&self) -> f64 {
        let effects = self.effects();
        effects.iter().sum::<f64>() / effects.len().max(1) as f64
    }

    /// Takes off the mean; of a map the means of rows and of columns.
    pub fn centre(&mut self) {
        match self {
            Self::Map { effects, .. } => doubly_centred(effects),
            _ => {
                let mean = self.mean();
                self.effects_mut().into_iter().for_each(|e| *e -= mean);
            }
        }
    }
}

/// Subtracts the mean of `effects` from each.
fn centred(effects: &mut [f64]) {
    let mean = effects.iter().sum::<f64>() / effects.len().max(1) as f64;
    effects.iter_mut().for_each(|e| *e -= mean);
}

/// Less the means of rows and columns: what two columns do together and neither alone.
fn doubly_centred(effects: &mut [Vec<f64>]) {
    effects.iter_mut().for_each(|row| centred(row));
    for j in 0..effects.first().map_or(0, Vec::len) {
        let mut column: Vec<f64> = effects.iter().map(|row| row[j]).collect();
        centred(&mut column);
        effects.iter_mut().zip(column).for_each(|(row, e)| row[j] = e);
    }
}

impl Encoder {
    /// What `weights`, one per feature, say of each column with a range or declared levels, and of each pair.
    pub fn shapes(&self, weights: &[f64]) -> Vec<Shape> {
        let mut shapes = self.shapes_as_they_are(weights);
        shapes.iter_mut().for_each(Shape::centre);
        shapes
    }

    /// All columns and all pairs of them, in order, with what `weights`, one per feature, say of each in the mean.
    pub fn terms(&self, weights: &[f64]) -> Vec<Term> {
        let shapes = self.shapes_as_they_are(weights);
        let means: HashMap<Vec<&str>, f64> = shapes.iter().map(|shape| (shape.columns(), shape.mean())).collect();
        let term = |columns: Vec<&str>, features: (u32, u32)| Term {
            mean: means.get(&columns).copied().unwrap_or(0.0),
            columns: columns.into_iter().map(str::to_string).collect(),
            features,
        };
        let alone = self.columns().zip(&self.blocks);
        let alone = alone.map(|(name, block)| term(vec![name], (block.offset, block.offset + block.width)));
        let pairs = self
            .pairs()
            .zip(&self.pairs)
            .map(|((first, second), pair)| term(vec![first, second], (pair.offset, pair.offset + pair.width() as u32)));
        alone.chain(pairs).collect()
    }

    /// What columns share, without vectors of words; `pair_knots` for a number in a product.
    pub(super) fn scales(&self, pair_knots: u32) -> Scales<'_> {
        Scales {
            rules: self.spec.rules(),
            splines: &self.splines,
            centred: self.spec.centred,
            text_knots: self.spec.text_knots(),
            vectors: None,
            pair_knots,
            each: self.scale,
            row_norm: self.spec.row_norm,
        }
    }

    /// As [`shapes`](Self::shapes), not around 0.
    fn shapes_as_they_are(&self, weights: &[f64]) -> Vec<Shape> {
        if weights.len() != self.dimension() {
            return Vec::new();
        }
        let scales = self.scales(0);
        let mut scratch = Scratch::default();
        let mut shapes = Vec::new();
        for (block, feature) in self.blocks.iter().zip(&self.spec.features) {
            let mut effect = |field: Field<'_>| {
                scratch.entries.clear();
                scratch.factors.clear();
                block.push(field, &scales, &mut scratch);
                scratch.entries.iter().map(|e| f64::from(e.1) * weights[e.0 as usize]).sum::<f64>()
            };
            let column = feature.column.clone();
            match (&block.form, &feature.kind) {
                (form, _) if form.is_zero_or_one() => {
                    let level = |value: f64| (value.to_string(), effect(Field::of(value, Unit::Number)));
                    shapes.push(Shape::Levels { column, levels: [0.0, 1.0].map(level).to_vec() });
                }
                (PreparedColumn::Numeric { scale, unit, .. }, _) => {
                    let at = |k: usize| scale.shown_value(k as f64 / (POINTS - 1) as f64);
                    let point = |value: f64| (value, effect(Field::of(value, *unit)));
                    shapes.push(Shape::Curve { column, points: (0..POINTS).map(at).map(point).collect(), unit: *unit });
                }
                (_, FeatureForm::Categorical { levels }) => {
                    let level = |level: &String| (level.clone(), effect(Field::Text(level.trim().as_bytes())));
                    shapes.push(Shape::Levels { column, levels: levels.iter().map(level).collect() });
                }
                _ => {}
            }
        }
        let values = |column: usize, width: u32| {
            let name = &self.spec.features[column].column;
            (0..width).map(|at| self.name_in_pair(column, at)[name.len() + 1..].to_string()).collect()
        };
        for pair in &self.pairs {
            let cell = |i: u32, j: u32| self.pair_scale * weights[(pair.offset + i * pair.widths.1 + j) as usize];
            let row = |i: u32| (0..pair.widths.1).map(|j| cell(i, j)).collect();
            let name = |at: usize| self.spec.features[at].column.clone();
            shapes.push(Shape::Map {
                columns: (name(pair.first), name(pair.second)),
                first: values(pair.first, pair.widths.0),
                second: values(pair.second, pair.widths.1),
                effects: (0..pair.widths.0).map(row).collect(),
            });
        }
        shapes
    }

    /// Whether feature `index` belongs to no value that is known: a slot of a hash, of which nothing declares which values fall into it and most have none,
    /// or a knot between 0 and 1 of a column that is one of them.
    pub fn is_slot(&self, index: usize) -> bool {
        let Ok(index) = u32::try_from(index) else { return false };
        if let Some(pair) = self.pairs.iter().rfind(|pair| pair.offset <= index) {
            let at = index - pair.offset;
            let (left, right) = (at / pair.widths.1, at % pair.widths.1);
            let between = |column: usize, knot: u32, knots: u32| {
                self.blocks[column].form.is_zero_or_one() && knot > 0 && knot + 1 < knots
            };
            return left < pair.widths.0
                && (between(pair.first, left, pair.widths.0) || between(pair.second, right, pair.widths.1));
        }
        let at = self.blocks.partition_point(|block| block.offset <= index);
        let Some(block) = at.checked_sub(1).map(|at| &self.blocks[at]) else { return false };
        let i = index - block.offset;
        match &block.form {
            PreparedColumn::Hashed { bits, .. } => i < 1 << bits,
            PreparedColumn::Text { parts: Some(parts), .. } => {
                (parts.counted()..parts.counted() + parts.slots).contains(&i)
            }
            PreparedColumn::Text { bits, parts: None, .. } => {
                let counted = COUNTS.len() as u32 * self.spec.text_knots();
                (counted..counted + (1 << bits)).contains(&i)
            }
            form if form.is_zero_or_one() => {
                let mut knot = i.checked_sub(form.line(self.spec.centred));
                for &knots in form.splines(&self.splines) {
                    match knot {
                        Some(at) if at >= knots => knot = Some(at - knots),
                        _ => return knot.is_some_and(|at| at > 0 && at + 1 < knots),
                    }
                }
                false
            }
            _ => false,
        }
    }

    /// Columns whose values fall into slots of a hash.
    pub fn columns_of_slots(&self) -> Vec<&str> {
        let has_slots = |block: &FeatureBlock| match &block.form {
            PreparedColumn::Text { parts: Some(parts), .. } => parts.slots > 0,
            form => matches!(form, PreparedColumn::Hashed { .. } | PreparedColumn::Text { .. }),
        };
        self.columns().zip(&self.blocks).filter(|(_, block)| has_slots(block)).map(|(name, _)| name).collect()
    }
}

impl Encoder {
    /// For each pair, the variance of what `weights` (outputs × features) add to the scores beyond what its columns do alone.
    pub(super) fn strengths_of_pairs(&self, weights: &[f64]) -> Vec<f64> {
        let mut strengths = vec![0.0; self.pairs.len()];
        for output in weights.chunks_exact(self.dimension()) {
            let of_pairs = self.shapes(output).into_iter().filter(|shape| matches!(shape, Shape::Map { .. }));
            let found = of_pairs.map(|shape| shape.mean_square());
            strengths.iter_mut().zip(found).for_each(|(all, one)| *all += one);
        }
        strengths
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Format, ReadOptions, Schema, open_bytes};

    #[test]
    fn shapes_are_what_weights_add_for_each_value() {
        let table = open_bytes(b"a,s\n1,x\n".to_vec(), Format::Csv, &ReadOptions::default()).unwrap();
        let bounds = "[a]\nlower = 0\nupper = 8\n[s]\nlevels = ['x', 'y']\n[dpopt]\nknots = 0\ncentred = true\npairs = [['a', 's']]\npair_knots = 2\n";
        let encoder =
            Encoder::new(&Schema::from_toml(bounds).unwrap().resolve(table.columns(), None).unwrap()).unwrap();
        let names: Vec<String> = (0..encoder.dimension()).map(|i| encoder.feature_name(i).unwrap()).collect();
        let weight = |name: &str| match name {
            "a:line" => 2.0,
            "s=x" => 1.0,
            "a@8 & s=y" => 3.0,
            _ => 0.0,
        };
        let weights: Vec<f64> = names.iter().map(|name| weight(name)).collect();
        let shapes = encoder.shapes(&weights);
        assert_eq!(shapes.len(), 3);
        let Shape::Curve { column, points, unit: Unit::Number } = &shapes[0] else { panic!("{shapes:?}") };
        // half of the norm is the product's, and the row has three blocks: a weight of 2 on −1..1
        let each = (0.5f64 / 3.0).sqrt();
        assert_eq!((column.as_str(), points.len(), points[0].0, points[POINTS - 1].0), ("a", POINTS, 0.0, 8.0));
        assert!((points[POINTS - 1].1 - 2.0 * each).abs() < 1e-6 && (points[0].1 + 2.0 * each).abs() < 1e-6);
        let Shape::Levels { levels, .. } = &shapes[1] else { panic!("{shapes:?}") };
        assert!(levels[0].1 > 0.0 && (levels[0].1 + levels[1].1).abs() < 1e-9);
        let Shape::Map { columns, first, second, effects } = &shapes[2] else { panic!("{shapes:?}") };
        assert_eq!((columns.0.as_str(), columns.1.as_str()), ("a", "s"));
        assert_eq!((first.join(","), second.join(",")), ("0,8".into(), "x,y,(other)".into()));
        let sum: f64 = effects.iter().flatten().sum();
        // one entry of six less the means of its row and column
        assert!(
            sum.abs() < 1e-9
                && (effects[1][1] - 3.0 * 0.5f64.sqrt() * (1.0 - 1.0 / 3.0 - 0.5 + 1.0 / 6.0)).abs() < 1e-6
        );
        assert!(shapes[2].reach() > 0.0 && encoder.shapes(&weights[1..]).is_empty());
    }

    #[test]
    fn dates_say_so() {
        let table = open_bytes(b"d\n2010-05-01\n".to_vec(), Format::Csv, &ReadOptions::default()).unwrap();
        let bounds = "[d]\nlower = 2010-01-01\nupper = 2012-12-31\n";
        let encoder =
            Encoder::new(&Schema::from_toml(bounds).unwrap().resolve(table.columns(), None).unwrap()).unwrap();
        let weights = vec![0.3; encoder.dimension()];
        let Shape::Curve { points, unit, .. } = &encoder.shapes(&weights)[0] else { panic!("a curve") };
        assert_eq!(
            (unit.short(points[0].0).as_str(), unit.short(points[POINTS - 1].0).as_str()),
            ("2010-01-01", "2012-12-31")
        );
    }

    #[test]
    fn a_truth_value_is_a_step_where_a_histogram_says_so() {
        let table = open_bytes(b"vip,share\n1,0.5\n".to_vec(), Format::Csv, &ReadOptions::default()).unwrap();
        let bounds = "[vip]\nlower = 0\nupper = 1\n[share]\nlower = 0\nupper = 1\n[dpopt]\nspread = true\n";
        let encoder =
            Encoder::new(&Schema::from_toml(bounds).unwrap().resolve(table.columns(), None).unwrap()).unwrap();
        let shape = super::super::spread::shape(1);
        let cells = shape.cells();
        // ends alone, and everywhere
        let of = |ends: bool| -> Vec<f64> {
            (1..=3u32)
                .flat_map(|scale| {
                    let count = 8usize.pow(scale);
                    (0..count).map(move |k| match ends {
                        true => 500.0 * f64::from(u8::from(k == 0 || k + 1 == count)),
                        false => 1000.0 / count as f64,
                    })
                })
                .collect()
        };
        assert!(cells == 512 && of(true).len() == shape.dimension());
        let weights = vec![0.5; encoder.dimension()];
        assert!(matches!(encoder.shapes(&weights)[0], Shape::Curve { .. }), "nothing is known");
        let known = encoder.clone().spread(&[of(true), of(false)].concat(), 1.0, false).unwrap();
        let shapes = known.shapes(&weights);
        assert!(
            matches!(&shapes[0], Shape::Levels { levels, .. } if levels[0].0 == "0" && levels[1].0 == "1"),
            "{shapes:?}"
        );
        assert!(matches!(shapes[1], Shape::Curve { .. }));
        // half of the rows have the least value: half of the picture is that of this value
        let mut crowded = of(false);
        [0, 8, 8 + 64].into_iter().for_each(|first| crowded[first] += 1000.0);
        let Shape::Curve { points, .. } =
            &encoder.spread(&[of(true), crowded].concat(), 1.0, false).unwrap().shapes(&weights)[1]
        else {
            panic!("a curve")
        };
        let least = points.iter().filter(|point| **point == points[0]).count();
        assert!(points[0].0 == 0.0 && (2 * POINTS / 5..=POINTS * 34 / 65).contains(&least), "{points:?}");
        // what only knots between them have is noise
        let of = |name: &str| {
            (0..known.dimension()).filter(|i| known.feature_name(*i).unwrap().starts_with(name)).collect::<Vec<_>>()
        };
        let slots = |name: &str| of(name).into_iter().filter(|i| known.is_slot(*i)).count();
        assert_eq!((of("vip@").len() - slots("vip@"), slots("share"), slots("vip=")), (2, 0, 0));
    }

    #[test]
    fn slots_of_hashes_are_known() {
        let table =
            open_bytes(b"a,city,note\n1,x,some words\n".to_vec(), Format::Csv, &ReadOptions::default()).unwrap();
        let bounds = "[a]\nlower = 0\nupper = 8\n[city]\nhash = true\n[note]\ntext = true\n";
        let encoder =
            Encoder::new(&Schema::from_toml(bounds).unwrap().resolve(table.columns(), None).unwrap()).unwrap();
        let mut slots = 0;
        for i in 0..encoder.dimension() + 3 {
            let named = encoder.feature_name(i).is_some_and(|name| name.contains('#'));
            assert_eq!(encoder.is_slot(i), named, "{i}");
            slots += u32::from(named);
        }
        assert!(slots > 100 && encoder.columns_of_slots() == ["city", "note"]);
    }
}
