//! Scores that are products of learned vectors: sums of embeddings, and two towers.
//!
//! Feature j of an encoded row x has a vector E_j of k numbers.
//! * **Sum of embeddings** (fastText): h = Σ_j x_j·E_j, scores V·h with V outputs × k.
//! * **Two towers** (matrix factorisation with side features): u = Σ x_j·E_j over the features of the user, v over those of
//!   the item, score ⟨u, v⟩ + Σ x_j·b_j over all features, b_j a number per feature.
//!
//! A record's gradient has entries for the rows of its own features only (and V). It is not convex in the weights, so nothing
//! about privacy rests on the loss: the whole gradient of a record is clipped. Weights start at pseudo-random values of a
//! *public* seed; training moves them by released amounts.

use super::Loss;
use serde::{Deserialize, Serialize};

/// Most numbers per feature.
pub const MAX_DIMENSIONS: usize = 1024;

/// An embedding model over encoded rows.
///
/// ```
/// use dpopt_objective::loss::embedding::{Embedding, Towers};
/// let bag = Embedding { dimension: 16, towers: None, seed: 0 };
/// assert_eq!(bag.weights(1000, 3), 1000 * 16 + 3 * 16);
/// // features 1..101 say who, 101..601 say what; feature 0 is the intercept
/// let towers = Towers { users: vec![(1, 101)], items: vec![(101, 601)] };
/// assert_eq!(Embedding { towers: Some(towers), ..bag }.weights(601, 1), 601 * 17);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Embedding {
    /// k, from 1 to 1024.
    pub dimension: usize,
    /// Which features belong to whom; none: a sum of embeddings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub towers: Option<Towers>,
    /// Public seed of the values the weights start at.
    #[serde(default)]
    pub seed: u64,
}

/// Half-open ranges of features; those in neither have only their number b_j.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Towers {
    /// Features of the user.
    pub users: Vec<(u32, u32)>,
    /// Features of the item.
    pub items: Vec<(u32, u32)>,
}

#[derive(Clone, Copy, PartialEq)]
enum Side {
    User,
    Item,
    Neither,
}

impl Towers {
    #[inline]
    fn side(&self, feature: u32) -> Side {
        let within = |ranges: &[(u32, u32)]| ranges.iter().any(|r| (r.0..r.1).contains(&feature));
        if within(&self.users) {
            Side::User
        } else if within(&self.items) {
            Side::Item
        } else {
            Side::Neither
        }
    }
}

/// Buffers of one record: what was read, the scores, and the gradient.
#[derive(Default)]
pub(crate) struct Pass {
    /// Weights of the row's features, one after the other, then V.
    weights: Vec<f64>,
    /// h, or u and v.
    hidden: Vec<f64>,
    pub(crate) scores: Vec<f64>,
    pub(crate) slope: Vec<f64>,
    /// The gradient, in the order of `weights`.
    pub(crate) gradient: Vec<f64>,
}

impl Embedding {
    /// Numbers per feature: k, and b_j.
    #[inline]
    pub fn width(&self) -> usize {
        self.dimension + usize::from(self.towers.is_some())
    }

    /// Number of entries of V.
    #[inline]
    pub fn head(&self, outputs: usize) -> usize {
        if self.towers.is_none() { outputs * self.dimension } else { 0 }
    }

    /// Number of weights: features × width, then V, row-major.
    pub fn weights(&self, features: usize, outputs: usize) -> usize {
        features * self.width() + self.head(outputs)
    }

    /// What a model of `loss` on `features` features can't be.
    pub fn check(&self, features: usize, loss: &Loss) -> Result<(), String> {
        if !(1..=MAX_DIMENSIONS).contains(&self.dimension) {
            return Err(format!("the dimension of an embedding is {}; give 1 to {MAX_DIMENSIONS}", self.dimension));
        }
        let Some(towers) = &self.towers else { return Ok(()) };
        if loss.outputs() > 1 {
            return Err("two towers give one score and cannot fit several classes; give two classes or a number".into());
        }
        let mut all: Vec<(u32, u32)> = towers.users.iter().chain(&towers.items).copied().collect();
        if towers.users.is_empty() || towers.items.is_empty() {
            return Err("two towers need at least one feature each".into());
        }
        all.sort_unstable();
        let apart = all.windows(2).all(|pair| pair[0].1 <= pair[1].0);
        if !apart || all.iter().any(|r| r.0 >= r.1 || r.1 as usize > features) {
            return Err("the towers' ranges of features must not overlap, be empty, or go beyond the features".into());
        }
        Ok(())
    }

    /// Length of a score's gradient in the weights where they start, for rows of norm `row_norm`: hidden vectors and V's rows
    /// then have length about 1.
    pub fn linearised_norm(&self, row_norm: f64) -> f64 {
        match self.towers {
            None => (row_norm * row_norm + 1.0).sqrt(),
            Some(_) => row_norm * (1.0 + 2.0 * SHARE_OF_A_TOWER).sqrt(),
        }
    }

    /// The value that weight `at` starts at.
    #[inline]
    pub fn start(&self, at: usize, features: usize, row_norm: f64) -> f64 {
        let (k, w) = (self.dimension, self.width());
        let length = match self.towers {
            _ if at >= features * w => 1.0,
            Some(_) if at % w == k => return 0.0,
            Some(_) => 1.0 / (row_norm * SHARE_OF_A_TOWER.sqrt()),
            None => 1.0 / row_norm,
        };
        // uniform on ±√3·length/√k: k of them have squared norm length² on average
        length * (3.0 / k as f64).sqrt() * (2.0 * uniform(self.seed, at as u64) - 1.0)
    }

    /// Where the weights of a row's feature begin.
    #[inline]
    pub(crate) fn place(&self, feature: u32) -> usize {
        feature as usize * self.width()
    }

    /// All places that a row's gradient may touch, in the order of [`Pass::gradient`].
    #[inline]
    pub(crate) fn places<'a>(
        &'a self,
        columns: &'a [u32],
        features: usize,
        outputs: usize,
    ) -> impl Iterator<Item = usize> + 'a {
        let (w, end) = (self.width(), features * self.width());
        columns.iter().flat_map(move |&j| self.place(j)..self.place(j) + w).chain(end..end + self.head(outputs))
    }

    /// Reads the row's weights and computes its scores.
    pub(crate) fn forward(
        &self,
        (columns, values): (&[u32], &[f32]),
        (features, outputs): (usize, usize),
        weight: impl FnMut(usize) -> f64,
        pass: &mut Pass,
    ) {
        let (k, w) = (self.dimension, self.width());
        pass.weights.clear();
        pass.weights.extend(self.places(columns, features, outputs).map(weight));
        pass.scores.clear();
        pass.scores.resize(outputs, 0.0);
        pass.hidden.clear();
        pass.hidden.resize(2 * k, 0.0);
        let (user, item) = pass.hidden.split_at_mut(k);
        let (table, head) = pass.weights.split_at(columns.len() * w);
        for ((vector, &j), &x) in table.chunks_exact(w).zip(columns).zip(values) {
            let x = f64::from(x);
            let hidden = match &self.towers {
                None => &mut *user,
                Some(towers) => {
                    pass.scores[0] += x * vector[k];
                    match towers.side(j) {
                        Side::User => &mut *user,
                        Side::Item => &mut *item,
                        Side::Neither => continue,
                    }
                }
            };
            hidden.iter_mut().zip(vector).for_each(|(h, e)| *h += x * e);
        }
        if self.towers.is_some() {
            pass.scores[0] += dot(user, item);
        } else {
            pass.scores.iter_mut().zip(head.chunks_exact(k)).for_each(|(s, v)| *s = dot(user, v));
        }
    }

    /// The gradient in the weights that [`forward`](Self::forward) read, from the slope in the scores.
    #[inline]
    pub(crate) fn backward(&self, (columns, values): (&[u32], &[f32]), pass: &mut Pass) {
        let (k, w) = (self.dimension, self.width());
        let (user, item) = pass.hidden.split_at(k);
        pass.gradient.clear();
        match &self.towers {
            Some(towers) => {
                let slope = pass.slope[0];
                for (&j, &x) in columns.iter().zip(values) {
                    let each = slope * f64::from(x);
                    match towers.side(j) {
                        Side::User => pass.gradient.extend(item.iter().map(|h| each * h)),
                        Side::Item => pass.gradient.extend(user.iter().map(|h| each * h)),
                        Side::Neither => pass.gradient.extend(std::iter::repeat_n(0.0, k)),
                    }
                    pass.gradient.push(each);
                }
            }
            None => {
                let head = &pass.weights[columns.len() * w..];
                let mut back = vec![0.0; k];
                for (v, slope) in head.chunks_exact(k).zip(&pass.slope) {
                    back.iter_mut().zip(v).for_each(|(b, v)| *b += slope * v);
                }
                values.iter().for_each(|&x| pass.gradient.extend(back.iter().map(|b| f64::from(x) * b)));
                pass.slope.iter().for_each(|slope| pass.gradient.extend(user.iter().map(|h| slope * h)));
            }
        }
    }

    /// Scores of a row at given weights.
    pub fn scores(
        &self,
        weights: &[f64],
        features: usize,
        outputs: usize,
        columns: &[u32],
        values: &[f32],
    ) -> Vec<f64> {
        let mut pass = Pass::default();
        self.forward((columns, values), (features, outputs), |at| weights[at], &mut pass);
        pass.scores
    }
}

/// Share of a row's squared norm that one tower has: user, item and intercept share it.
const SHARE_OF_A_TOWER: f64 = 1.0 / 3.0;

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

/// A number in [0, 1) with 53 bits for each index (splitmix64, Steele, Lea, Flood 2014): public, so it need not be secure.
#[inline]
fn uniform(seed: u64, index: u64) -> f64 {
    let mut z = (seed ^ 0x6a09_e667_f3bc_c908).wrapping_add((index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ z >> 31) >> 11) as f64 * f64::EPSILON / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn towers() -> Embedding {
        Embedding { dimension: 3, towers: Some(Towers { users: vec![(1, 3)], items: vec![(3, 6)] }), seed: 5 }
    }

    fn bag() -> Embedding {
        Embedding { dimension: 4, towers: None, seed: 5 }
    }

    #[test]
    fn gradients_are_the_differences_of_losses() {
        for (model, loss, target) in [
            (towers(), Loss::Logistic { shift: 0.0 }, 1.0),
            (towers(), Loss::Squared, 0.3),
            (bag(), Loss::Logistic { shift: 0.0 }, -1.0),
            (bag(), Loss::Softmax { classes: 3 }, 2.0),
        ] {
            let (features, outputs) = (7, loss.outputs());
            let row: (&[u32], &[f32]) = (&[0, 2, 4, 5, 6], &[0.5, 0.25, -0.5, 0.125, 1.0]);
            let mut weights: Vec<f64> =
                (0..model.weights(features, outputs)).map(|at| model.start(at, features, 1.0)).collect();
            let value = |weights: &[f64]| loss.value(&model.scores(weights, features, outputs, row.0, row.1), target);
            let mut pass = Pass::default();
            model.forward(row, (features, outputs), |at| weights[at], &mut pass);
            pass.slope.resize(outputs, 0.0);
            loss.slope(&pass.scores, target, &mut pass.slope);
            model.backward(row, &mut pass);
            let places: Vec<usize> = model.places(row.0, features, outputs).collect();
            assert_eq!(places.len(), pass.gradient.len());
            for at in 0..weights.len() {
                let (old, step) = (weights[at], 1e-6);
                weights[at] = old + step;
                let above = value(&weights);
                weights[at] = old - step;
                let slope = (above - value(&weights)) / (2.0 * step);
                weights[at] = old;
                let given = places.iter().position(|p| *p == at).map_or(0.0, |i| pass.gradient[i]);
                assert!((slope - given).abs() < 1e-8, "{model:?} {loss:?} {at}: {slope} {given}");
            }
        }
    }

    #[test]
    fn starting_values_give_unit_vectors_and_zero_numbers() {
        let wide = Embedding { dimension: 64, ..towers() };
        let (n, w) = (2000, wide.width());
        let squares: f64 = (0..n * w).map(|at| wide.start(at, n, 1.0).powi(2)).sum();
        // 3 per vector: a tower has a third of the row's squared norm. Standard deviation of the mean: .006
        assert!((squares / n as f64 - 3.0).abs() < 0.04, "{}", squares / n as f64);
        assert!((0..n).all(|j| wide.start(j * w + 64, n, 1.0) == 0.0));
        assert_ne!(wide.start(0, n, 1.0), Embedding { seed: 6, ..wide.clone() }.start(0, n, 1.0));
        let mean: f64 = (0..10_000).map(|i| uniform(0, i)).sum::<f64>() / 1e4;
        assert!((mean - 0.5).abs() < 6.0 * (1.0f64 / 12e4).sqrt());
    }

    #[test]
    fn impossible_models_are_refused() {
        let logistic = Loss::Logistic { shift: 0.0 };
        assert_eq!(towers().check(7, &logistic), Ok(()));
        assert!(towers().check(7, &Loss::Softmax { classes: 3 }).unwrap_err().contains("one score"));
        assert!(towers().check(5, &logistic).is_err());
        assert!(Embedding { dimension: 0, ..bag() }.check(7, &logistic).is_err());
        let overlapping = Towers { users: vec![(0, 4)], items: vec![(3, 6)] };
        assert!(Embedding { towers: Some(overlapping), ..bag() }.check(7, &logistic).is_err());
        assert!(Embedding { towers: Some(Towers::default()), ..bag() }.check(7, &logistic).is_err());
    }
}
