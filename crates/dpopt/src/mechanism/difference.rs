//! Sums of clipped gradient *differences* for variance reduction (spec 16 §3): Σ clip(∇φ_i(x) − ∇φ_i(x̃), c).
//!
//! For a linear model the difference is (φ'(⟨x, a⟩) − φ'(⟨x̃, a⟩))·a: one scalar, clipped as one vector, so that the sensitivity is c
//! and not the 2l of two clipped gradients. c is fixed by the plan.

use super::batch::PoissonBatch;
use super::contributions::add_up;
use super::gradient::{ClippedGradient, GridSum};
use crate::Sensitive;
use crate::records::Examples;
use std::convert::Infallible;

impl ClippedGradient {
    /// Over a Poisson batch, which is used up; the quantizer's clip norm is c. Models with one output.
    pub(crate) fn difference_sum(
        &self,
        examples: &Sensitive<Examples>,
        batch: PoissonBatch,
        weights: &[f64],
        anchor: &[f64],
    ) -> Sensitive<GridSum> {
        let examples = examples.expose();
        let records = batch.records();
        let Ok(units) = add_up(records.len(), weights.len(), 256, |range| {
            let mut sum = vec![0i64; weights.len()];
            for &i in &records[range] {
                let (indices, values) = examples.rows.row(i as usize);
                let Some(target) = self.loss().usable_target(f64::from(examples.targets[i as usize]), f64::MAX) else {
                    continue;
                };
                let score = |w: &[f64]| -> f64 {
                    indices.iter().zip(values).map(|(&j, &x)| w[j as usize] * f64::from(x)).sum()
                };
                let slope = |w: &[f64]| self.loss().scalar_slope(score(w), target);
                let change = slope(weights) - slope(anchor);
                // anything else counts as a zero contribution: never an error, which would be an output
                if change.is_finite() {
                    self.quantizer().add_scaled_row(change, indices, values, &mut sum);
                }
            }
            Ok::<_, Infallible>(sum)
        });
        Sensitive::new(GridSum { units, grid: self.grid(), clip_norm: self.clip_norm(), batch: Some(batch.id()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::Loss;
    use crate::mechanism::Curator;
    use crate::records::Rows;
    use dpopt_noise::{Grid, NoiseSource};
    use dpopt_privacy::Event;

    #[test]
    fn one_record_moves_the_sum_by_at_most_c_and_nothing_moves_at_the_anchor() {
        let mut rows = Rows::new(3);
        rows.push_clipped(&mut [(0, 0.6), (2, 0.8)], 1.0);
        let examples = Sensitive::new(Examples { rows, targets: vec![1.0] });
        let mut curator = Curator::for_event(&Event::NoOp, NoiseSource::insecure(1));
        let mut norm = |clip_norm: f64, weights: &[f64], anchor: &[f64]| {
            let gradient = ClippedGradient::new(Loss::Logistic { shift: 0.0 }, clip_norm, Grid::new(-40)).unwrap();
            let batch = curator.poisson_sample(1, 1.0).unwrap();
            let sum = gradient.difference_sum(&examples, batch, weights, anchor);
            let step = Grid::new(-40).step();
            sum.expose().units.iter().map(|&z| (z as f64 * step).powi(2)).sum::<f64>().sqrt()
        };
        let (far, zero) = ([50.0, 0.0, 50.0], [0.0; 3]);
        assert_eq!(norm(1.0, &far, &far), 0.0);
        // slopes −σ(−70) and −1/2: the difference is 1/2 before the clip
        assert!((norm(1.0, &far, &zero) - 0.5).abs() < 1e-6);
        let clipped = norm(0.1, &far, &zero);
        assert!(clipped <= 0.1 && clipped > 0.0999);
        assert_eq!(norm(1.0, &[f64::NAN, 0.0, 0.0], &zero), 0.0);
    }
}
