//! What released weights say of each column and of each pair of columns, for drawings: functions of a value, and of two.

use super::block::{Scales, Scratch};
use super::form::FeatureForm;
use super::{Encoder, block::PreparedColumn};
use crate::table::Field;

/// Points of a curve.
const POINTS: usize = 65;

/// What a model adds to the score, to the scaling of the whole row; around 0 over the points or levels that are shown.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// A number: values that are equally far apart on the encoder's scale, and what is added for each.
    Curve {
        /// Its name.
        column: String,
        /// Value and effect.
        points: Vec<(f64, f64)>,
    },
    /// A category with declared levels.
    Levels {
        /// Its name.
        column: String,
        /// Level and effect.
        levels: Vec<(String, f64)>,
    },
    /// Two columns together, beyond what each does alone.
    Map {
        /// Their names.
        columns: (String, String),
        /// Values of the first column, one per row of `effects`.
        first: Vec<String>,
        /// Values of the second column, one per column of `effects`.
        second: Vec<String>,
        /// What is added.
        effects: Vec<Vec<f64>>,
    },
}

impl Shape {
    /// The difference between the largest and the smallest effect.
    pub fn reach(&self) -> f64 {
        let ends = |effects: &mut dyn Iterator<Item = f64>| {
            let (low, high) =
                effects.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), e| (low.min(e), high.max(e)));
            (high - low).max(0.0)
        };
        match self {
            Self::Curve { points, .. } => ends(&mut points.iter().map(|p| p.1)),
            Self::Levels { levels, .. } => ends(&mut levels.iter().map(|l| l.1)),
            Self::Map { effects, .. } => ends(&mut effects.iter().flatten().copied()),
        }
    }
}

/// Less their mean.
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
        if weights.len() != self.dimension() {
            return Vec::new();
        }
        let scales = Scales {
            rules: self.spec.rules(),
            hats: &self.hats,
            centred: self.spec.centred,
            text_knots: self.spec.text_knots(),
            vectors: None,
            pair_knots: 0,
            each: self.scale,
            row_norm: self.spec.row_norm,
        };
        let mut scratch = Scratch::default();
        let mut shapes = Vec::new();
        for (block, feature) in self.blocks.iter().zip(&self.spec.features) {
            let mut effect = |field: Field<'_>| {
                scratch.entries.clear();
                scratch.factors.clear();
                block.push(field, scales, &mut scratch);
                scratch.entries.iter().map(|e| f64::from(e.1) * weights[e.0 as usize]).sum::<f64>()
            };
            let column = feature.column.clone();
            match (&block.form, &feature.kind) {
                (PreparedColumn::Numeric { scale, unit }, _) => {
                    let at = |k: usize| scale.value(k as f64 / (POINTS - 1) as f64);
                    let values: Vec<f64> = (0..POINTS).map(at).collect();
                    let mut effects: Vec<f64> = values.iter().map(|v| effect(Field::of(*v, *unit))).collect();
                    centred(&mut effects);
                    shapes.push(Shape::Curve { column, points: values.into_iter().zip(effects).collect() });
                }
                (_, FeatureForm::Categorical { levels }) => {
                    let mut effects: Vec<f64> =
                        levels.iter().map(|level| effect(Field::Text(level.trim().as_bytes()))).collect();
                    centred(&mut effects);
                    shapes.push(Shape::Levels { column, levels: levels.iter().cloned().zip(effects).collect() });
                }
                _ => {}
            }
        }
        let values = |column: usize, width: u32| {
            let name = &self.spec.features[column].column;
            (0..width).map(|at| self.name_in_pair(column, at)[name.len() + 1..].to_string()).collect()
        };
        for pair in &self.pairs {
            let weight = |i: u32, j: u32| self.pair_scale * weights[(pair.offset + i * pair.widths.1 + j) as usize];
            let row = |i: u32| (0..pair.widths.1).map(|j| weight(i, j)).collect();
            let mut effects: Vec<Vec<f64>> = (0..pair.widths.0).map(row).collect();
            doubly_centred(&mut effects);
            let name = |at: usize| self.spec.features[at].column.clone();
            shapes.push(Shape::Map {
                columns: (name(pair.first), name(pair.second)),
                first: values(pair.first, pair.widths.0),
                second: values(pair.second, pair.widths.1),
                effects,
            });
        }
        shapes
    }
}

impl Encoder {
    /// Of each pair, the variance of what `weights` (outputs × features) add to the scores for it beyond what its columns do alone.
    pub(super) fn strengths_of_pairs(&self, weights: &[f64]) -> Vec<f64> {
        let mut strengths = vec![0.0; self.pairs.len()];
        for output in weights.chunks_exact(self.dimension()) {
            let variance = |shape| match shape {
                Shape::Map { effects, .. } => {
                    let cells = effects.iter().map(Vec::len).sum::<usize>().max(1);
                    Some(effects.iter().flatten().map(|e| e * e).sum::<f64>() / cells as f64)
                }
                _ => None,
            };
            let found = self.shapes(output).into_iter().filter_map(variance);
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
        let Shape::Curve { column, points } = &shapes[0] else { panic!("{shapes:?}") };
        // half of the norm is the product's, and the row has three blocks: a weight of 2 on −1..1
        let each = (0.5f64 / 3.0).sqrt();
        assert_eq!((column.as_str(), points.len(), points[0].0, points[64].0), ("a", POINTS, 0.0, 8.0));
        assert!((points[64].1 - 2.0 * each).abs() < 1e-6 && (points[0].1 + 2.0 * each).abs() < 1e-6);
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
}
