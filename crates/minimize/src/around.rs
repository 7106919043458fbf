//! Estimates of the gradient of f_α(x) = E f(x + αy), y uniform in the unit ball, and of its change between two points along the *same* directions
//! (Liu 2024, equations 8.4 and 8.17).
//!
//! By gradients: (1/m)Σ∇φ(x + αy_j), y_j uniform in the ball. By values: (1/m)Σ(d/2α)(φ(x + αy_j) − φ(x − αy_j))y_j, y_j uniform on the *sphere*: in the ball the mean
//! would be d/(d + 2) times as long. Both have the mean ∇f_α(x). Directions come from coins that anybody may know, afresh for every sum; what comes out is clipped
//! as one vector.

use super::smoothed::fill_from_ball;
use dpopt_noise::{Parts, Stream};
use dpopt_objective::objective::{Facts, Gradient, Objective, Point};
use dpopt_objective::records::RecordSet;
use serde::Serialize;
use std::sync::Arc;

/// What an objective is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Estimator {
    /// Gradients at points of the ball.
    Gradients,
    /// Values at two opposite points of the sphere.
    Values,
}

/// Around which points, and along how many directions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Around {
    /// What is asked for.
    pub estimator: Estimator,
    /// α: how far from the point.
    #[serde(rename = "goldstein_radius")]
    pub radius: f64,
    /// m: number of directions of an estimate.
    pub directions: usize,
    /// Whether each record has directions of its own, by its position; else all share them.
    pub own_directions: bool,
}

impl Around {
    /// Draws one direction into `y`.
    fn fill(self, y: &mut [f64], coins: &mut Stream) {
        match self.estimator {
            Estimator::Gradients => fill_from_ball(y, 1.0, coins),
            Estimator::Values => {
                coins.fill_standard_normal(y);
                let norm = y.iter().map(|v| v * v).sum::<f64>().sqrt();
                let scale = if norm > 0.0 { 1.0 / norm } else { 0.0 };
                y.iter_mut().for_each(|v| *v *= scale);
            }
        }
    }

    /// m directions that all records share, one after the other.
    pub(super) fn shared(self, dimension: usize, coins: &mut Stream) -> Vec<f64> {
        let mut all = vec![0.0; self.directions * dimension];
        all.chunks_mut(dimension).for_each(|y| self.fill(y, coins));
        all
    }

    /// What a gradient, or a difference of two values, counts.
    fn weight(self, dimension: usize) -> f64 {
        let each = 1.0 / self.directions as f64;
        match self.estimator {
            Estimator::Gradients => each,
            Estimator::Values => each * dimension as f64 / (2.0 * self.radius),
        }
    }

    /// Where gradients are asked for, with their weights, for directions that are shared; `places` (w, x) are what is estimated, Σw·∇f_α(x).
    pub(super) fn gradient_terms(self, shared: &[f64], places: &[(f64, &[f64])]) -> Vec<(f64, Vec<f64>)> {
        let dimension = places[0].1.len();
        let weight = self.weight(dimension);
        let around = |&(sign, x): &(f64, &[f64])| -> Vec<(f64, Vec<f64>)> {
            shared.chunks(dimension).map(|y| (sign * weight, moved(x, self.radius, y))).collect()
        };
        places.iter().flat_map(around).collect()
    }

    /// Where values are asked for: weight, direction and point, two opposite ones for each direction and place.
    pub(super) fn value_terms<'a>(
        self,
        shared: &'a [f64],
        places: &[(f64, &[f64])],
    ) -> Vec<(f64, &'a [f64], Vec<f64>)> {
        let dimension = places[0].1.len();
        let weight = self.weight(dimension);
        let mut all = Vec::with_capacity(2 * self.directions * places.len());
        for &(sign, x) in places {
            for y in shared.chunks(dimension) {
                all.push((sign * weight, y, moved(x, self.radius, y)));
                all.push((-sign * weight, y, moved(x, -self.radius, y)));
            }
        }
        all
    }
}

/// Directions of all sums of a run.
pub(super) struct Fresh {
    around: Around,
    coins: Parts,
    taken: u64,
}

impl Fresh {
    /// Directions from coins that no record has a part in.
    pub(super) fn new(around: Around, mut coins: Stream) -> Self {
        Self { around, coins: coins.parts(), taken: 0 }
    }

    /// The directions of the next sum.
    pub(super) fn next(&mut self) -> (Around, Stream) {
        self.taken += 1;
        (self.around, self.coins.stream(self.taken))
    }
}

/// Which records share the directions.
enum Whose {
    All(Vec<f64>),
    Each(Parts),
}

/// φ_i with w·(its estimate at the point that is asked for) − w'·(the one at a point before, along the same directions) as gradient.
#[derive(Clone)]
pub(super) struct Surroundings<'a, O> {
    objective: &'a O,
    around: Around,
    before: &'a [f64],
    weights: (f64, f64),
    whose: Arc<Whose>,
}

impl<'a, O> Surroundings<'a, O> {
    /// Estimates with weights w and w'; at w' = 0 `before` is not looked at.
    pub(super) fn new(
        objective: &'a O,
        around: Around,
        (before, weights): (&'a [f64], (f64, f64)),
        mut coins: Stream,
    ) -> Self {
        let whose = match around.own_directions {
            true => Whose::Each(coins.parts()),
            false => Whose::All(around.shared(before.len(), &mut coins)),
        };
        Self { objective, around, before, weights, whose: Arc::new(whose) }
    }
}

/// Buffers of one record.
#[derive(Default)]
pub(super) struct SurroundingsScratch<S> {
    inner: S,
    point: Vec<f64>,
    direction: Vec<f64>,
    moved: Vec<f64>,
    /// What comes together at the point, and at the one before.
    sums: [Vec<f64>; 2],
}

impl<O: Objective<R>, R: RecordSet> Objective<R> for Surroundings<'_, O> {
    type Scratch = SurroundingsScratch<O::Scratch>;

    fn dimension(&self) -> usize {
        self.objective.dimension()
    }

    fn facts(&self) -> Facts {
        Facts::UNKNOWN
    }

    fn value(&self, x: &[f64], records: &R, i: usize, scratch: &mut Self::Scratch) -> Result<f64, R::Error> {
        self.objective.value(x, records, i, &mut scratch.inner)
    }

    fn gradient<'a>(
        &self,
        x: &mut impl Point,
        records: &'a R,
        i: usize,
        scratch: &'a mut Self::Scratch,
    ) -> Result<Gradient<'a>, R::Error> {
        let SurroundingsScratch { inner, point, direction, moved, sums } = scratch;
        let (dimension, radius) = (self.objective.dimension(), self.around.radius);
        let places = [(self.weights.0, x.whole(dimension, point)), (self.weights.1, self.before)];
        for sum in &mut *sums {
            sum.clear();
            sum.resize(dimension, 0.0);
        }
        direction.resize(dimension, 0.0);
        let mut own = match &*self.whose {
            Whose::Each(parts) => Some(parts.stream(i as u64)),
            Whose::All(_) => None,
        };
        for j in 0..self.around.directions {
            match (&*self.whose, &mut own) {
                (Whose::All(all), _) => direction.copy_from_slice(&all[j * dimension..(j + 1) * dimension]),
                (Whose::Each(_), coins) => coins.iter_mut().for_each(|coins| self.around.fill(direction, coins)),
            }
            for ((weight, at), sum) in places.iter().zip(&mut *sums) {
                if *weight == 0.0 {
                    continue;
                }
                put(moved, at, radius, direction);
                match self.around.estimator {
                    Estimator::Gradients => {
                        self.objective.gradient(&mut &moved[..], records, i, inner)?.add_to(sum);
                    }
                    Estimator::Values => {
                        let ahead = self.objective.value(moved, records, i, inner)?;
                        put(moved, at, -radius, direction);
                        let difference = ahead - self.objective.value(moved, records, i, inner)?;
                        sum.iter_mut().zip(&*direction).for_each(|(s, y)| *s += difference * y);
                    }
                }
            }
        }
        let each = self.around.weight(dimension);
        let [here, there] = sums;
        let (own, other) = self.weights;
        here.iter_mut().zip(&*there).for_each(|(a, b)| *a = each * (own * *a - other * b));
        Ok(Gradient::Dense(here))
    }
}

/// The point x + r·y.
fn moved(x: &[f64], r: f64, y: &[f64]) -> Vec<f64> {
    let mut there = Vec::with_capacity(x.len());
    put(&mut there, x, r, y);
    there
}

/// Writes x + r·y into the buffer `moved`.
fn put(moved: &mut Vec<f64>, x: &[f64], r: f64, y: &[f64]) {
    moved.clear();
    moved.extend(x.iter().zip(y).map(|(x, y)| x + r * y));
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_noise::{NoiseSource, Purpose};
    use dpopt_objective::objective::Closures;

    fn coins(seed: u64) -> Stream {
        NoiseSource::insecure(seed).stream(Purpose::Initialisation, 0)
    }

    /// The estimate at `x`, or its change since `before`, for each of `records`.
    fn estimates<T: Sync>(
        objective: &impl Objective<Vec<T>>,
        around: Around,
        records: &Vec<T>,
        (x, before): (&[f64], Option<&[f64]>),
        coins: Stream,
    ) -> Vec<Vec<f64>> {
        let weights = (1.0, f64::from(u8::from(before.is_some())));
        let all = Surroundings::new(objective, around, (before.unwrap_or(x), weights), coins);
        let mut scratch = Default::default();
        (0..records.len())
            .map(|i| match all.gradient(&mut &x[..], records, i, &mut scratch) {
                Ok(Gradient::Dense(g)) => g.to_vec(),
                _ => Vec::new(),
            })
            .collect()
    }

    fn mean(all: &[Vec<f64>]) -> Vec<f64> {
        let n = all.len() as f64;
        (0..all[0].len()).map(|j| all.iter().map(|g| g[j]).sum::<f64>() / n).collect()
    }

    const OWN: Around = Around { estimator: Estimator::Gradients, radius: 0.5, directions: 1, own_directions: true };

    fn sizes() -> impl Objective<Vec<f64>> {
        Closures::new(1, |x: &[f64], _: &f64| x[0].abs(), |x: &[f64], _: &f64, g: &mut [f64]| g[0] = x[0].signum())
    }

    #[test]
    fn both_estimates_have_the_slope_of_the_smoothing_as_mean() {
        let records = vec![0.0; 20_000];
        for x in [-3.0, -0.4, 0.0, 0.125, 0.5] {
            let expected = (x / 0.5f64).clamp(-1.0, 1.0);
            for estimator in [Estimator::Gradients, Estimator::Values] {
                let around = Around { estimator, ..OWN };
                let found = mean(&estimates(&sizes(), around, &records, (&[x], None), coins(3)))[0];
                // a gradient has standard deviation 1 at most, two values on the sphere {−1, 1} none
                let room = if estimator == Estimator::Gradients { 5.2 / 20_000f64.sqrt() } else { 1e-9 };
                assert!((found - expected).abs() < room, "{estimator:?} {x}: {found}");
            }
        }
    }

    /// Two opposite points with y in the ball of radius α, as Liu 2024, Algorithm 25, has it, have the mean α²·d/(d + 2)·a on ⟨a, x⟩, .17857 at d = 5,
    /// α = .5; on the sphere it is a.
    #[test]
    fn the_sphere_has_no_bias_and_the_ball_has() {
        let (d, alpha) = (5, 0.5f64);
        let slope = |x: &[f64]| x[0];
        let linear = Closures::new(d, move |x: &[f64], _: &f64| slope(x), |_: &[f64], _: &f64, _: &mut [f64]| {});
        let around = Around { estimator: Estimator::Values, radius: alpha, directions: 4, own_directions: true };
        let right = mean(&estimates(&linear, around, &vec![0.0; 20_000], (&[0.3; 5], None), coins(5)))[0];
        // dy₁² has standard deviation √(2(d − 1)/(d + 2)) = 1.07
        let room = 5.2 * 1.07 / 80_000f64.sqrt();
        assert!((right - 1.0).abs() < room, "{right}");
        // as in Liu 2024, Algorithm 25: (d/2α)(φ(x + αy) − φ(x − αy))·y with ‖y‖ ≤ α
        let (mut random, mut y, mut biased) = (coins(6), vec![0.0; d], 0.0);
        for _ in 0..80_000 {
            fill_from_ball(&mut y, alpha, &mut random);
            let at = |sign: f64| -> Vec<f64> { y.iter().map(|y| 0.3 + sign * alpha * y).collect() };
            biased += d as f64 / (2.0 * alpha) * (slope(&at(1.0)) - slope(&at(-1.0))) * y[0] / 80_000.0;
        }
        let predicted = alpha * alpha * d as f64 / (d as f64 + 2.0);
        assert!((predicted - 0.17857).abs() < 1e-5);
        assert!((biased - predicted).abs() < room * predicted, "{biased}");
    }

    /// Along one direction the second moment on ⟨a, x⟩ is d and the norm at most d; of the mean of m it is 1 + (d − 1)/m, and with m = 4d above 2 next to never.
    #[test]
    fn many_directions_make_values_as_short_as_gradients() {
        let d = 10;
        let linear = Closures::new(d, |x: &[f64], _: &f64| x[0], |_: &[f64], _: &f64, _: &mut [f64]| {});
        let squares = |directions: usize| -> Vec<f64> {
            let around = Around { estimator: Estimator::Values, radius: 0.5, directions, own_directions: true };
            let all = estimates(&linear, around, &vec![0.0; 4000], (&[0.0; 10], None), coins(7));
            all.iter().map(|g| g.iter().map(|v| v * v).sum()).collect()
        };
        let (one, many) = (squares(1), squares(40));
        assert!(one.iter().all(|s| *s <= 100.0 * (1.0 + 1e-9)));
        for (all, m, deviation) in [(&one, 1.0, 12.7), (&many, 40.0, 0.5)] {
            let found = all.iter().sum::<f64>() / 4000.0;
            assert!((found - (1.0 + 9.0 / m)).abs() < 5.2 * deviation / 4000f64.sqrt(), "{m}: {found}");
        }
        assert!(many.iter().filter(|s| **s > 4.0).count() <= 4);
    }

    /// For ‖x‖₁/√d at d = 20, α = .5, m = d, by values. The change over a way of .1, .01, .001: .105, .0088, .0013 with the same directions at both points and
    /// 1.23, 1.17, 1.12 with others.
    #[test]
    fn a_change_along_common_directions_shrinks_with_the_way() {
        let d = 20;
        let root = (d as f64).sqrt();
        let length = Closures::new(
            d,
            move |x: &[f64], _: &f64| x.iter().map(|x| x.abs()).sum::<f64>() / root,
            |_: &[f64], _: &f64, _: &mut [f64]| {},
        );
        let around = Around { estimator: Estimator::Values, radius: 0.5, directions: d, own_directions: true };
        let mut random = coins(11);
        let records = vec![0.0; 400];
        for (way, common, independent) in [(0.1, 0.105, 1.23), (0.01, 0.0088, 1.17), (0.001, 0.0013, 1.12)] {
            let (mut same, mut other) = (0.0, 0.0);
            for repeat in 0..10 {
                // kinks are at 0: some of them are near
                let point: Vec<f64> = (0..d).map(|_| 0.4 * random.standard_normal()).collect();
                let mut step = vec![0.0; d];
                Around { estimator: Estimator::Values, ..around }.fill(&mut step, &mut random);
                let before: Vec<f64> = point.iter().zip(&step).map(|(x, s)| x + way * s).collect();
                let of = |x: &[f64], before: Option<&[f64]>, seed| {
                    estimates(&length, around, &records, (x, before), coins(seed))
                };
                let changes = of(&point, Some(&before), 100 + repeat);
                let (here, there) = (of(&point, None, 200 + repeat), of(&before, None, 300 + repeat));
                let square = |v: &mut dyn Iterator<Item = f64>| v.map(|v| v * v).sum::<f64>();
                for i in 0..records.len() {
                    same += square(&mut changes[i].iter().copied()) / 4000.0;
                    other += square(&mut here[i].iter().zip(&there[i]).map(|(a, b)| a - b)) / 4000.0;
                }
            }
            let (same, other) = (same.sqrt(), other.sqrt());
            assert!(same / common < 1.5 && common / same < 1.5, "{way}: {same}");
            assert!((other / independent - 1.0).abs() < 0.25, "{way}: {other}");
            // always below the way times d·L/α
            assert!(same < d as f64 / 0.5 * way);
        }
    }

    #[test]
    fn directions_that_are_shared_are_the_same_for_all_and_terms_say_where() {
        let slopes = Closures::new(
            3,
            |x: &[f64], a: &f64| a * (x[0] * x[1] - x[2].abs()),
            |x: &[f64], a: &f64, g: &mut [f64]| g.copy_from_slice(&[a * x[1], a * x[0], -a * x[2].signum()]),
        );
        let (x, before) = ([0.2, -0.4, 0.1], [0.25, -0.3, 0.05]);
        let records = vec![1.0, 2.0];
        for estimator in [Estimator::Gradients, Estimator::Values] {
            let around = Around { estimator, radius: 0.3, directions: 5, own_directions: false };
            let found = estimates(&slopes, around, &records, (&x, Some(&before)), coins(9));
            found[0].iter().zip(&found[1]).for_each(|(a, b)| assert!((2.0 * a - b).abs() < 1e-12));
            let shared = around.shared(3, &mut coins(9));
            let places: [(f64, &[f64]); 2] = [(1.0, &x), (-1.0, &before)];
            let mut by_terms = [0.0; 3];
            match estimator {
                Estimator::Gradients => {
                    for (weight, at) in around.gradient_terms(&shared, &places) {
                        let g = [at[1], at[0], -at[2].signum()];
                        by_terms.iter_mut().zip(g).for_each(|(t, g)| *t += weight * g);
                    }
                }
                Estimator::Values => {
                    for (weight, y, at) in around.value_terms(&shared, &places) {
                        let value = at[0] * at[1] - at[2].abs();
                        by_terms.iter_mut().zip(y).for_each(|(t, y)| *t += weight * value * y);
                    }
                }
            }
            found[0].iter().zip(by_terms).for_each(|(a, b)| assert!((a - b).abs() < 1e-12, "{estimator:?} {a} {b}"));
        }
    }
}
