//! Predictions that move one way with a number: what released weights say of it, brought to the nearest function that does so (docs/proofs/monotone.md).

use super::Encoder;
use super::block::{FeatureBlock, Scratch, TREND_KNOTS, trend_scale};
use super::form::FeatureForm;
use crate::declared::Trend;
use crate::error::DataError;

/// A model whose scores move one way with some numbers.
#[derive(Clone, Debug)]
pub struct OneWay {
    /// The encoder of rows to predict for: those numbers are linear B-splines of one scale in it.
    pub encoder: Encoder,
    /// Its weights, one for each feature.
    pub weights: Vec<f64>,
    /// Where each feature stood before; `None` for those of these numbers.
    pub places: Vec<Option<usize>>,
}

impl Encoder {
    /// Columns with which predictions move one way only, and which way.
    pub fn trends(&self) -> impl Iterator<Item = (&str, Trend)> {
        let named = self.blocks.iter().zip(&self.spec.features);
        named.filter_map(|(block, feature)| Some((feature.column.as_str(), block.form.trend()?)))
    }

    /// Whether feature `index` is of a column with which predictions move one way only.
    pub fn follows_trend(&self, index: usize) -> bool {
        let at = self.blocks.partition_point(|block| block.offset as usize <= index);
        let block = at.checked_sub(1).map(|at| &self.blocks[at]);
        block.is_some_and(|block| block.form.trend().is_some() && index < (block.offset + block.width) as usize)
    }

    /// The model of released `weights`, one for each feature of one output, with the functions of these columns brought in order.
    ///
    /// A column's values at the knots become the nearest ones in order, by least squares with half of the weight at the ends, as lengths between knots are: if the
    /// true values there are in order, the mean square of the errors does not grow. Between knots the function is linear then. What is said of a missing
    /// value, and everything else, stays.
    ///
    /// # Errors
    /// If a column is no number, is in a pair, or rows are centred, and if there are not so many weights.
    pub fn one_way(&self, trends: &[(&str, Trend)], weights: &[f64]) -> Result<OneWay, DataError> {
        let invalid = |reason: &str| Err(DataError::Encoder { reason: reason.into() });
        if weights.len() != self.dimension() {
            return invalid("there is not one weight for each of its features");
        }
        let trend_of = |column: &str| trends.iter().find(|(name, _)| *name == column).map(|(_, trend)| *trend);
        let mut changed = self.clone();
        for feature in &mut changed.spec.features {
            let wanted = trend_of(&feature.column);
            match &mut feature.kind {
                FeatureForm::Numeric { trend, .. } => *trend = wanted,
                _ if wanted.is_some() => return invalid("a column that is to move predictions one way is no number"),
                _ => {}
            }
        }
        let encoder = changed.again()?;
        let of_one_block = |from: u32, to: u32| (from as usize..to as usize).map(Some);
        let mut places: Vec<Option<usize>> = of_one_block(0, self.intercept()).collect();
        let mut told: Vec<f64> = weights[..places.len()].to_vec();
        for (old, new) in self.blocks.iter().zip(&encoder.blocks) {
            match new.form.trend() {
                None => {
                    places.extend(of_one_block(old.offset, old.offset + old.width));
                    told.extend_from_slice(&weights[old.offset as usize..(old.offset + old.width) as usize]);
                }
                Some(trend) => {
                    places.extend(std::iter::repeat_n(None, new.width as usize));
                    told.extend(self.in_order(old, trend, weights));
                }
            }
        }
        let before = self.pairs.first().map_or(self.dimension(), |pair| pair.offset as usize);
        places.extend((before..self.dimension()).map(Some));
        told.extend_from_slice(&weights[before..]);
        if told.len() != encoder.dimension() {
            return invalid("its features are not those of the weights");
        }
        Ok(OneWay { encoder, weights: told, places })
    }

    /// The weights of a number's new features: values at the knots in order, and that of a missing one.
    fn in_order(&self, block: &FeatureBlock, trend: Trend, weights: &[f64]) -> Vec<f64> {
        let (scales, each) = (self.scales(0), trend_scale(self.scale));
        let mut scratch = Scratch::default();
        let said = |unit: Option<f64>, scratch: &mut Scratch| {
            scratch.entries.clear();
            block.at(unit.unwrap_or(0.5), unit.is_none(), &scales, &mut scratch.entries);
            scratch.entries.iter().map(|e| f64::from(e.1) * weights[e.0 as usize]).sum::<f64>() / each
        };
        let sign = if trend == Trend::Increasing { 1.0 } else { -1.0 };
        let last = TREND_KNOTS - 1;
        let at_knots: Vec<f64> =
            (0..=last).map(|k| sign * said(Some(f64::from(k) / f64::from(last)), &mut scratch)).collect();
        let share = |k: usize| if k == 0 || k == last as usize { 0.5 } else { 1.0 };
        let missing = said(None, &mut scratch);
        in_order(&at_knots, share).into_iter().map(|value| sign * value).chain([missing]).collect()
    }
}

/// The nearest numbers that do not fall, by least squares with these shares: neighbours out of order become their mean until none are left
/// (pool adjacent violators; Ayer, Brunk, Ewing, Reid and Silverman 1955).
fn in_order(said: &[f64], share: impl Fn(usize) -> f64) -> Vec<f64> {
    // sums of shares, means, and how many are pooled
    let mut pools: Vec<(f64, f64, usize)> = Vec::with_capacity(said.len());
    for (k, value) in said.iter().enumerate() {
        let mut pool = (share(k), *value, 1);
        while let Some(before) = pools.pop_if(|before| before.1 > pool.1) {
            let shares = before.0 + pool.0;
            pool = (shares, (before.0 * before.1 + pool.0 * pool.1) / shares, before.2 + pool.2);
        }
        pools.push(pool);
    }
    pools.iter().flat_map(|(_, mean, count)| std::iter::repeat_n(*mean, *count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BadCells, EncoderForm, Format, ReadOptions, Schema, TableReader, open_bytes};
    use dpopt_objective::records::Rows;
    use proptest::prelude::*;
    use std::sync::LazyLock;

    /// Places and values of a row.
    fn entries(rows: &Rows, row: usize) -> impl Iterator<Item = (u32, f64)> {
        let (places, values) = rows.row(row);
        places.iter().copied().zip(values.iter().map(|value| f64::from(*value)))
    }

    /// Scores of `weights` for rows.
    fn scores(rows: &Rows, weights: &[f64]) -> Vec<f64> {
        let score = |row: usize| entries(rows, row).map(|(at, value)| value * weights[at as usize]).sum();
        (0..rows.len()).map(score).collect()
    }

    /// Columns a, at 101 places in order, then missing, and b, of which the last row has another.
    static TABLE: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let mut text = "a,b\n".to_string();
        (0..=100).for_each(|k| text.push_str(&format!("{},0.3\n", 20 * k)));
        text.push_str(",0.3\n2000,-0.7\n");
        text.into_bytes()
    });

    fn table(bytes: &[u8]) -> Box<dyn TableReader> {
        open_bytes(bytes.to_vec(), Format::Csv, &ReadOptions::default()).unwrap()
    }

    /// An encoder of this form before a moves scores one way, and the rows of a table.
    fn encoder(trend: &str, form: EncoderForm, transform: &str, bytes: &[u8]) -> (Encoder, Rows) {
        let bounds = format!(
            "[a]\nlower = 0\nupper = 2000\ntransform = \"{transform}\"\nmonotone = \"{trend}\"\n[b]\nlower = -1\nupper = 1\n"
        );
        let table = table(bytes);
        let layout = Schema::from_toml(&bounds).unwrap().resolve(table.columns(), None).unwrap();
        let encoder = Encoder::new(&layout.with_form(form)).unwrap();
        let rows = encoder.encode_features(&*table, BadCells::Error).unwrap();
        (encoder, rows)
    }

    const FORMS: [(u32, u32); 4] = [(8, 0), (8, 32), (0, 0), (2, 0)];

    proptest! {
        /// Whatever was released: scores move one way, the row of a missing value and what other columns add stay, and what was in order already is kept.
        #[test]
        fn scores_move_one_way(seed in any::<u64>(), form in 0..FORMS.len(), falling: bool, log: bool, centred: bool) {
            let (knots, fine_knots) = FORMS[form];
            let (word, trend) = if falling { ("decreasing", Trend::Decreasing) } else { ("increasing", Trend::Increasing) };
            let form = EncoderForm { knots, fine_knots, centred, additive: true, ..EncoderForm::default() };
            let transform = if log { "log" } else { "linear" };
            let (encoder, rows) = encoder(word, form, transform, &TABLE);
            let mut state = seed;
            let weights: Vec<f64> = (0..encoder.dimension()).map(|_| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (state >> 40) as f64 / (1 << 23) as f64 - 1.0
            }).collect();
            let told = encoder.one_way(&[("a", trend)], &weights).unwrap();
            let new_rows = told.encoder.encode_features(&*table(&TABLE), BadCells::Error).unwrap();
            let (before, after) = (scores(&rows, &weights), scores(&new_rows, &told.weights));
            let sign = if falling { -1.0 } else { 1.0 };
            for pair in after[..101].windows(2) {
                // to the last digits of a sum
                prop_assert!(sign * (pair[1] - pair[0]) > -1e-14, "{pair:?}");
            }
            prop_assert!((before[101] - after[101]).abs() < 1e-6);
            // another value of b moves scores as it did
            prop_assert!(((before[102] - before[100]) - (after[102] - after[100])).abs() < 1e-6);
            for (new, old) in told.places.iter().enumerate() {
                prop_assert!(old.is_none_or(|old| told.weights[new] == weights[old] && told.encoder.feature_name(new) == encoder.feature_name(old)));
            }
            prop_assert_eq!(told.places.iter().flatten().count(), encoder.dimension() - (knots + fine_knots + if centred { 2 } else { 3 }) as usize);
            // the file's form is read back, and says the same
            let again: Encoder = serde_json::from_value(serde_json::to_value(&told.encoder).unwrap()).unwrap();
            prop_assert_eq!(again.trends().collect::<Vec<_>>(), [("a", trend)]);
            prop_assert_eq!(again.dimension(), told.weights.len());
        }
    }

    /// A line alone is in order already: it is only written otherwise.
    #[test]
    fn what_is_in_order_stays() {
        let form = EncoderForm { knots: 0, additive: true, ..EncoderForm::default() };
        let (encoder, rows) = encoder("increasing", form, "linear", &TABLE);
        let (first, _) = encoder.features_of("a").unwrap();
        let mut weights = vec![0.0; encoder.dimension()];
        (weights[first as usize], weights[first as usize + 1]) = (-1.0, 1.0);
        let told = encoder.one_way(&[("a", Trend::Increasing)], &weights).unwrap();
        let new_rows = told.encoder.encode_features(&*table(&TABLE), BadCells::Error).unwrap();
        let (before, after) = (scores(&rows, &weights), scores(&new_rows, &told.weights));
        let far = before.iter().zip(&after).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(before[100] - before[0] > 1.0 && far < 1e-3, "{far}");
        assert!(encoder.one_way(&[("a", Trend::Increasing)], &weights[1..]).is_err());
    }

    #[test]
    fn pooled_neighbours_are_the_nearest_in_order() {
        assert_eq!(in_order(&[1.0, 2.0, 3.0], |_| 1.0), [1.0, 2.0, 3.0]);
        assert_eq!(in_order(&[3.0, 1.0, 2.0], |_| 1.0), [2.0, 2.0, 2.0]);
        assert_eq!(
            in_order(&[4.0, 1.0, 5.0, 0.0], |k| if k == 0 || k == 3 { 0.5 } else { 1.0 }),
            [2.0, 2.0, 10.0 / 3.0, 10.0 / 3.0]
        );
        // against all that are in order, of a grid
        let (said, grid) = ([0.5, -0.25, 0.75, 0.0], |i: usize| (i as f64 - 8.0) / 8.0);
        let share = |k: usize| if k == 0 || k == 3 { 0.5 } else { 1.0 };
        let far = |told: &[f64]| (0..4).map(|k| share(k) * (told[k] - said[k]).powi(2)).sum::<f64>();
        let best = far(&in_order(&said, share));
        for code in 0..17usize.pow(4) {
            let told: Vec<f64> = (0..4).map(|k| grid(code / 17usize.pow(k) % 17)).collect();
            assert!(!told.is_sorted() || far(&told) >= best - 1e-12);
        }
    }

    #[test]
    fn contradictions_are_refused_with_the_fix() {
        let resolved = |bounds: &str| {
            let table = open_bytes(b"a,b,c\n1,2,x\n".to_vec(), Format::Csv, &ReadOptions::default()).unwrap();
            Schema::from_toml(bounds).and_then(|schema| schema.resolve(table.columns(), Some("c")))
        };
        let rest = "lower = 0\nupper = 1\n[c]\nlevels = ['x', 'y']\n[b]\nlower = 0\nupper = 1\n";
        for (bounds, part) in [
            (format!("[dpopt]\nadditive = false\n[a]\nmonotone = 'increasing'\n{rest}"), "leave out additive"),
            (format!("[dpopt]\npairs = [['a', 'b']]\n[a]\nmonotone = 'increasing'\n{rest}"), "leave out the pair"),
            ("[a]\nmonotone = 'increasing'\n[b]\nhash = true\n".into(), "is no number"),
            ("[c]\nmonotone = 'increasing'\n[a]\nhash = true\n".into(), "is the target"),
            ("[d]\nmonotone = 'increasing'\n[a]\nhash = true\n".into(), "`d`"),
            ("[a]\nmonotone = 'increasing'\nlower = 0\nupper = 1\n[b]\ntext = true\n".into(), "with a text"),
        ] {
            let message = resolved(&bounds).expect_err(&bounds).to_string();
            assert!(message.contains(part) && !message.contains('\n'), "{bounds}: {message}");
        }
        let layout = resolved(&format!("[dpopt]\npairs = 'all'\n[a]\nmonotone = 'increasing'\n{rest}")).unwrap();
        assert!(layout.pairs.is_empty() && layout.count_products() == 0 && layout.product_features(8) == 0);
        let mut schema = Schema::default();
        schema.declare_trend("a", Trend::Increasing).unwrap();
        assert!(schema.declare_trend("a", Trend::Decreasing).unwrap_err().to_string().contains("one of the two"));
    }
}
