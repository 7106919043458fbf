//! An objective's gradients near the point where they are asked for: each record's at a point of its own, a uniform draw from a ball
//! (Liu 2024, Algorithm 4).
//!
//! E over the draws is the gradient of f̂(x) = E f(x + y), ‖y‖ ≤ r, which is above f by at most Gr, and G√d/r-smooth, however rough f is. A draw belongs
//! to a record's position and to coins that anybody may know, so what a record contributes depends on that record; it is clipped after it was evaluated.
//!
//! Covers: thesis algorithm 4 (certified: clipped after it was evaluated)

use dpopt_noise::{Parts, Stream};
use dpopt_objective::objective::{Facts, Gradient, Objective, Point};
use dpopt_objective::records::RecordSet;

/// y = rU^(1/d)·z/‖z‖, uniform in the ball.
pub(super) fn fill_from_ball(y: &mut [f64], radius: f64, coins: &mut Stream) {
    coins.fill_standard_normal(y);
    let norm = y.iter().map(|v| v * v).sum::<f64>().sqrt();
    // 53 bits of a uniform number in (0, 1)
    let uniform = (coins.below(1 << 53) as f64 + 0.5) / (1u64 << 53) as f64;
    let length = radius * (uniform.ln() / y.len() as f64).exp();
    let scale = if norm > 0.0 { length / norm } else { 0.0 };
    y.iter_mut().for_each(|v| *v *= scale);
}

/// The objective with each record's loss at a point of its own, φ_i(x + y_i).
pub(super) struct Smoothed<O> {
    objective: O,
    radius: f64,
    coins: Parts,
}

impl<O> Smoothed<O> {
    pub(super) fn new(objective: O, radius: f64, mut coins: Stream) -> Self {
        Self { objective, radius, coins: coins.parts() }
    }
}

impl<O: Objective<R>, R: RecordSet> Objective<R> for Smoothed<O> {
    type Scratch = (O::Scratch, Vec<f64>, Vec<f64>);

    fn dimension(&self) -> usize {
        self.objective.dimension()
    }

    fn facts(&self) -> Facts {
        Facts::UNKNOWN
    }

    fn value(&self, x: &[f64], records: &R, i: usize, scratch: &mut Self::Scratch) -> Result<f64, R::Error> {
        self.objective.value(x, records, i, &mut scratch.0)
    }

    fn gradient<'a>(
        &self,
        x: &mut impl Point,
        records: &'a R,
        i: usize,
        scratch: &'a mut Self::Scratch,
    ) -> Result<Gradient<'a>, R::Error> {
        let (inner, moved, buffer) = scratch;
        let dimension = self.objective.dimension();
        moved.resize(dimension, 0.0);
        fill_from_ball(moved, self.radius, &mut self.coins.stream(i as u64));
        let at = x.whole(dimension, buffer);
        moved.iter_mut().zip(at).for_each(|(y, x)| *y += x);
        self.objective.gradient(&mut &moved[..], records, i, inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_noise::{NoiseSource, Purpose};
    use dpopt_objective::objective::Closures;

    #[test]
    fn points_are_uniform_in_the_ball() {
        let (d, r, draws) = (5, 2.0, 40_000);
        let mut coins = NoiseSource::insecure(3).stream(Purpose::Initialisation, 0);
        let (mut y, mut length, mut square) = (vec![0.0; d], 0.0, vec![0.0; d]);
        for _ in 0..draws {
            fill_from_ball(&mut y, r, &mut coins);
            length += y.iter().map(|v| v * v).sum::<f64>().sqrt() / f64::from(draws);
            square.iter_mut().zip(&y).for_each(|(s, v)| *s += v * v / f64::from(draws));
        }
        // E‖y‖ = rd/(d + 1), standard deviation .28; a coordinate's variance r²/(d + 2), its square's standard deviation .69: 5.2 of them in the mean
        assert!((length - r * 5.0 / 6.0).abs() < 5.2 * 0.29 / 200.0, "{length}");
        square.iter().for_each(|s| assert!((s - r * r / 7.0).abs() < 5.2 * 0.75 / 200.0, "{s}"));
    }

    #[test]
    fn the_slope_of_the_absolute_value_is_that_of_its_smoothing() {
        let absolute =
            Closures::new(1, |x: &[f64], _: &f64| x[0].abs(), |x: &[f64], _: &f64, g: &mut [f64]| g[0] = x[0].signum());
        let records = vec![0.0f64; 20_000];
        let coins = NoiseSource::insecure(5).stream(Purpose::Initialisation, 0);
        let smoothed = Smoothed::new(absolute, 2.0, coins);
        for x in [-3.0, -1.0, 0.0, 0.5, 2.5] {
            let mut scratch = Default::default();
            let mut sum = [0.0];
            for i in 0..records.len() {
                let Ok(gradient) = smoothed.gradient(&mut &[x][..], &records, i, &mut scratch);
                gradient.add_to(&mut sum);
            }
            // E sign(x + y) = clip(x/r, −1, 1); a sign has standard deviation at most 1
            let expected = (x / 2.0f64).clamp(-1.0, 1.0);
            assert!((sum[0] / 20_000.0 - expected).abs() < 5.2 / 20_000f64.sqrt(), "{x}: {}", sum[0] / 20_000.0);
        }
    }
}
