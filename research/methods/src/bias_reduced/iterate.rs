//! The iterate of sparse steps in a ball and the sum of all iterates, at the cost of the steps' non-zeros.
//!
//! x = c·v, so that a projection on a ball around 0 only changes c; Σ_t x_t = A·v + r with A = Σ_t c_t, so that a step
//! changes r where it changes v.

use dpopt_mechanism::ScaledPoint;

/// x, and the sum of the iterates recorded so far.
pub(super) struct Iterate {
    scale: f64,
    direction: Vec<f64>,
    /// ‖v‖², and its largest value since it was last summed afresh.
    squares: f64,
    peak: f64,
    /// D, if there is a ball.
    radius: Option<f64>,
    recorded: f64,
    scales: f64,
    rest: Vec<f64>,
    steps: u64,
}

/// ‖v‖² is summed afresh after this many steps, before rounding could matter.
const REFRESH: u64 = 4096;

impl Iterate {
    /// 0 in `dimension` coordinates.
    pub(super) fn zero(dimension: usize, radius: Option<f64>) -> Self {
        Self {
            scale: 1.0,
            direction: vec![0.0; dimension],
            squares: 0.0,
            peak: 0.0,
            radius,
            recorded: 0.0,
            scales: 0.0,
            rest: vec![0.0; dimension],
            steps: 0,
        }
    }

    /// x, where somebody reads it.
    pub(super) fn point(&self) -> ScaledPoint<'_> {
        ScaledPoint { scale: self.scale, direction: &self.direction }
    }

    /// The iterate x in full.
    pub(super) fn weights(&self) -> Vec<f64> {
        self.direction.iter().map(|v| self.scale * v).collect()
    }

    /// Counts x into the mean.
    pub(super) fn record(&mut self) {
        self.recorded += 1.0;
        self.scales += self.scale;
    }

    /// Mean of the recorded iterates.
    pub(super) fn mean(&self) -> Vec<f64> {
        self.direction.iter().zip(&self.rest).map(|(v, r)| (self.scales * v + r) / self.recorded.max(1.0)).collect()
    }

    /// x ← Π(x − `rate`·Σ `weight`·g) over the parts (weight, g) of a gradient.
    pub(super) fn step(&mut self, rate: f64, parts: &[(f64, &[(u64, f64)])]) {
        for (weight, gradient) in parts {
            for &(j, g) in *gradient {
                let change = -rate * weight * g / self.scale;
                let v = &mut self.direction[j as usize];
                self.squares += change * (2.0 * *v + change);
                *v += change;
                self.rest[j as usize] -= self.scales * change;
            }
        }
        self.steps += 1;
        self.peak = self.peak.max(self.squares);
        // differences of large numbers: what is left of the digits after a fall by 10^4 is still 12 of them
        if self.steps.is_multiple_of(REFRESH) || self.squares < 1e-4 * self.peak {
            self.squares = self.direction.iter().map(|v| v * v).sum();
            self.peak = self.squares;
        }
        if let Some(radius) = self.radius {
            let norm = self.scale * self.squares.max(0.0).sqrt();
            if norm > radius {
                self.scale *= radius / norm;
            }
        }
        // A·v and r grow like 1/c and cancel: at most three digits are given away
        if self.scale < 1e-3 {
            for (v, r) in self.direction.iter_mut().zip(&mut self.rest) {
                *r += self.scales * *v;
                *v *= self.scale;
            }
            (self.scale, self.scales) = (1.0, 0.0);
            self.squares = self.direction.iter().map(|v| v * v).sum();
            self.peak = self.squares;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sparse_steps_are_dense_ones(
            steps in prop::collection::vec(prop::collection::vec((0u64..6, -3.0f64..3.0), 0..4), 1..40),
            radius in prop::option::of(0.5f64..4.0),
        ) {
            let mut sparse = Iterate::zero(6, radius);
            let (mut x, mut sum) = ([0.0; 6], [0.0; 6]);
            for (t, step) in steps.iter().enumerate() {
                sparse.record();
                (0..6).for_each(|j| sum[j] += x[j]);
                let factor = 1.0 + t as f64;
                sparse.step(0.3, &[(factor, &step[..]), (-0.5, &step[..])]);
                for &(j, g) in step {
                    x[j as usize] -= 0.3 * (factor - 0.5) * g;
                }
                let norm = x.iter().map(|v: &f64| v * v).sum::<f64>().sqrt();
                if let Some(r) = radius && norm > r {
                    x.iter_mut().for_each(|v| *v *= r / norm);
                }
            }
            let (weights, mean) = (sparse.weights(), sparse.mean());
            // rounding shows most where ‖v‖² falls by nearly 10⁴ between two sums: 240 roundings are 2e-10 of a radius of 4 then
            for j in 0..6 {
                prop_assert!((weights[j] - x[j]).abs() < 1e-9);
                prop_assert!((mean[j] - sum[j] / steps.len() as f64).abs() < 1e-9);
            }
        }
    }
}
