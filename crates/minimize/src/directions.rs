//! Derivatives along few public directions in place of gradients: for objectives that can only be evaluated (Zhang et al. 2024).
//!
//! u is uniform on the sphere of radius √d, so that E uuᵀ = I and ⟨g, u⟩u is g in expectation. A record's derivatives along the K
//! directions of a step are one vector, clipped as one and summed; the noisy sum s gives the estimate (1/K)Σ s_k·u_k. Directions depend on no
//! record, so all but s is post-processing.

use dpopt_noise::Stream;
use dpopt_objective::objective::{Facts, Gradient, Objective, Point};
use dpopt_objective::records::RecordSet;

/// K directions of length √d, and how far apart the two points of a difference are.
#[derive(Clone, Debug, PartialEq)]
pub struct Directions {
    dimension: usize,
    all: Vec<f64>,
    width: f64,
}

impl Directions {
    /// Draws `count` directions of length √d, with differences of half width `width`.
    pub(super) fn draw(count: usize, dimension: usize, width: f64, coins: &mut Stream) -> Self {
        let mut all = vec![0.0; count * dimension];
        coins.fill_standard_normal(&mut all);
        for u in all.chunks_mut(dimension) {
            let norm = u.iter().map(|v| v * v).sum::<f64>().sqrt();
            // a vector of zeros has no direction; its estimate is 0 then
            let scale = if norm > 0.0 { (dimension as f64).sqrt() / norm } else { 0.0 };
            u.iter_mut().for_each(|v| *v *= scale);
        }
        Self { dimension, all, width }
    }

    /// The directions, one by one.
    pub fn each(&self) -> impl ExactSizeIterator<Item = &[f64]> {
        self.all.chunks(self.dimension)
    }

    /// h: a derivative is (φ(x + h·u) − φ(x − h·u))/(2h).
    pub fn width(&self) -> f64 {
        self.width
    }

    /// The points x ± h·u, two by two.
    pub fn around(&self, x: &[f64]) -> Vec<[Vec<f64>; 2]> {
        let at = |sign: f64, u: &[f64]| x.iter().zip(u).map(|(x, u)| x + sign * self.width * u).collect();
        self.each().map(|u| [at(1.0, u), at(-1.0, u)]).collect()
    }

    /// The gradient estimate (1/K)Σ s_k·u_k from derivatives s_k along the directions u_k.
    pub(super) fn estimate(&self, sums: &[f64]) -> Vec<f64> {
        let mut estimate = vec![0.0; self.dimension];
        let share = 1.0 / sums.len().max(1) as f64;
        for (u, s) in self.each().zip(sums) {
            estimate.iter_mut().zip(u).for_each(|(e, u)| *e += share * s * u);
        }
        estimate
    }
}

/// φ_i's derivatives along directions at one point, as the gradient of an objective of K dimensions.
pub(super) struct Along<'a, O> {
    objective: &'a O,
    around: Vec<[Vec<f64>; 2]>,
    width: f64,
}

impl<'a, O> Along<'a, O> {
    pub(super) fn new(objective: &'a O, directions: &Directions, x: &[f64]) -> Self {
        Self { objective, around: directions.around(x), width: directions.width }
    }
}

impl<O: Objective<R>, R: RecordSet> Objective<R> for Along<'_, O> {
    type Scratch = (O::Scratch, Vec<f64>);

    fn dimension(&self) -> usize {
        self.around.len()
    }

    fn facts(&self) -> Facts {
        Facts::UNKNOWN
    }

    /// Linear in a point that nobody asks for.
    fn value(&self, _: &[f64], _: &R, _: usize, _: &mut Self::Scratch) -> Result<f64, R::Error> {
        Ok(0.0)
    }

    fn gradient<'a>(
        &self,
        _: &mut impl Point,
        records: &'a R,
        i: usize,
        scratch: &'a mut Self::Scratch,
    ) -> Result<Gradient<'a>, R::Error> {
        let (inner, derivatives) = scratch;
        derivatives.clear();
        for [ahead, behind] in &self.around {
            let difference =
                self.objective.value(ahead, records, i, inner)? - self.objective.value(behind, records, i, inner)?;
            derivatives.push(difference / (2.0 * self.width));
        }
        Ok(Gradient::Dense(derivatives))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_noise::{NoiseSource, Purpose};
    use dpopt_objective::objective::Closures;

    fn directions(count: usize, dimension: usize) -> Directions {
        let mut source = NoiseSource::insecure(7);
        Directions::draw(count, dimension, 1e-3, &mut source.stream(Purpose::Initialisation, 0))
    }

    #[test]
    fn directions_have_length_root_d_and_their_outer_products_the_identity_as_mean() {
        let (count, d) = (20_000, 5);
        let all = directions(count, d);
        let mut mean = [0.0; 25];
        for u in all.each() {
            assert!((u.iter().map(|v| v * v).sum::<f64>() - 5.0).abs() < 1e-12);
            (0..25).for_each(|at| mean[at] += u[at / 5] * u[at % 5] / count as f64);
        }
        for (at, m) in mean.iter().enumerate() {
            // an entry has standard deviation below √2 in each draw: 5.2 of them in the mean, false alarm 5e-6 in all
            let room = 5.2 * (2.0 / count as f64).sqrt();
            assert!((m - f64::from(at / 5 == at % 5)).abs() < room, "{at} {m}");
        }
    }

    #[test]
    fn derivatives_are_those_of_the_values_and_the_estimate_is_their_mean() {
        let objective = Closures::new(
            3,
            |x: &[f64], a: &f64| a * (x[0] + 2.0 * x[1] - x[2]),
            |_: &[f64], _: &f64, _: &mut [f64]| {},
        );
        let all = directions(4, 3);
        let along = Along::new(&objective, &all, &[0.5, -1.0, 2.0]);
        let (records, mut scratch) = (vec![3.0], Default::default());
        let mut derivatives = vec![0.0; 4];
        let Ok(gradient) = along.gradient(&mut &[][..], &records, 0, &mut scratch);
        gradient.add_to(&mut derivatives);
        for (u, s) in all.each().zip(&derivatives) {
            assert!((s - 3.0 * (u[0] + 2.0 * u[1] - u[2])).abs() < 1e-9);
        }
        let estimate = all.estimate(&derivatives);
        let by_hand: f64 = all.each().zip(&derivatives).map(|(u, s)| u[1] * s / 4.0).sum();
        assert!((estimate[1] - by_hand).abs() < 1e-12);
    }
}
