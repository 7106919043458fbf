//! A sum of clipped vectors in exact integers (docs/proofs/gaussian-sum.md): what Gaussian noise is added to.

use crate::Sensitive;
use crate::curator::Curator;
use crate::curator::batch::{Batch, BatchId};
use crate::refused::CuratorError;
use dpopt_noise::Grid;

/// What float32 sums of many vectors may be longer than the sum of their clip norms: a sum further off was not clipped.
const ROUNDING: f64 = 1e-3;

/// A sum of integer vectors, each of l2 norm at most `clip_norm` on `grid`; what [`Gaussian`](crate::Gaussian) reads.
///
/// It says on which Poisson batch it was computed, so that the curator can account it.
pub struct GridSum {
    pub(crate) quanta: Vec<i64>,
    pub(crate) grid: Grid,
    pub(crate) clip_norm: f64,
    pub(crate) batch: Option<BatchId>,
}

impl GridSum {
    /// C: bound on the l2 norm of one record's contribution.
    pub fn clip_norm(&self) -> f64 {
        self.clip_norm
    }

    /// Number of coordinates.
    pub fn dimension(&self) -> usize {
        self.quanta.len()
    }

    /// The sum in grid steps: as sensitive as the records.
    pub fn quanta(&self) -> &[i64] {
        &self.quanta
    }

    /// What the integers are multiples of.
    pub fn grid(&self) -> Grid {
        self.grid
    }

    /// Takes the sum in grid steps: as sensitive as the records.
    pub fn into_quanta(self) -> Vec<i64> {
        self.quanta
    }

    /// For quantities whose sensitivity is proved elsewhere (an approximate minimiser, a Newton step): `values` rounded
    /// to the nearest grid point. `sensitivity` must include the h√d of this rounding.
    pub fn of_query(values: impl Iterator<Item = f64>, grid: Grid, sensitivity: f64) -> Self {
        let quanta = values.map(|v| (v / grid.step()).round_ties_even() as i64).collect();
        Self { quanta, grid, clip_norm: sensitivity, batch: None }
    }

    /// A bound on how far one record moves [`clipped_outside`](Self::clipped_outside) in l2 norm: C, and h√d for the rounding of both sums.
    pub fn moved_by(clip_norm: f64, grid: Grid, dimension: usize) -> f64 {
        // the root, the product and the sum are each rounded once
        (clip_norm + grid.step() * (dimension as f64).sqrt().next_up().next_up()).next_up()
    }

    /// A sum over a batch whose vectors were clipped to `clip_norm` outside of the kernel, rounded to the nearest grid points; its sensitivity is
    /// [`moved_by`](Self::moved_by). The caller vouches that the presence of a record moves `values` by at most `clip_norm` in l2 norm,
    /// rounding in its own floats included: what `curator` releases rests on that from here on.
    ///
    /// # Errors
    /// [`CuratorError::Shape`] if `values` cannot be such a sum: there is a number that is not finite, or it is longer than the records of a
    /// batch that was drawn here can add up to. Where the promised clip happened, nothing is refused.
    pub fn clipped_outside(
        curator: &mut Curator,
        batch: &Batch,
        values: &[f64],
        clip_norm: f64,
        grid: Grid,
    ) -> Result<Sensitive<Self>, CuratorError> {
        curator.rest_on_a_word();
        let length = values.iter().map(|v| v * v).sum::<f64>().sqrt();
        let most = if batch.drawn_here() { batch.records().len() as f64 * clip_norm } else { f64::INFINITY };
        // the length of finite numbers may be infinite
        if !(clip_norm > 0.0 && values.iter().all(|v| v.is_finite()) && length <= most * (1.0 + ROUNDING)) {
            return Err(CuratorError::Shape);
        }
        let sensitivity = Self::moved_by(clip_norm, grid, values.len());
        let sum = Self::of_query(values.iter().copied(), grid, sensitivity);
        Ok(Sensitive::new(Self { batch: Some(batch.id()), ..sum }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Gaussian;
    use dpopt_noise::NoiseSource;
    use dpopt_objective::objective::Evidence;
    use dpopt_privacy::Event;

    #[test]
    fn a_sum_that_was_clipped_elsewhere_goes_out_once_rests_on_a_word_and_pays_for_its_rounding() {
        let event = Event::gaussian(1e-6).poisson_sampled(0.5).self_composed(2);
        let mut curator = Curator::for_event(&event, NoiseSource::insecure(3));
        let (grid, values) = (Grid::new(-20), [1.0, -2.0, 0.25]);
        assert!((GridSum::moved_by(1.5, grid, 3) - 1.5 - 3f64.sqrt() * 2f64.powi(-20)).abs() < 1e-12);
        assert_eq!(curator.rests_on(), Evidence::Enforced);
        let batch = curator.poisson_sample(40, 0.5).unwrap();
        let sum = GridSum::clipped_outside(&mut curator, &batch, &values, 1.5, grid).unwrap();
        assert_eq!(curator.rests_on(), Evidence::Assumed);
        // noise that was made for C alone
        let short = Gaussian::new(1e-6, 1.5, grid, 3, "batch gradient");
        assert!(matches!(curator.release(&short, &sum), Err(CuratorError::Sensitivity { .. })));
        let mechanism = Gaussian::new(1e-6, GridSum::moved_by(1.5, grid, 3), grid, 3, "batch gradient");
        let out = curator.release(&mechanism, &sum).unwrap().into_inner();
        assert!(out.iter().zip(values).all(|(a, b)| (a - b).abs() < 1e-4), "{out:?}");
        assert!(matches!(curator.release(&mechanism, &sum), Err(CuratorError::BatchUsed { .. })));
    }

    #[test]
    fn what_no_clipped_sum_can_be_is_refused() {
        let event = Event::gaussian(1.0).poisson_sampled(1.0);
        let mut curator = Curator::for_event(&event, NoiseSource::insecure(3));
        let (grid, batch) = (Grid::new(-20), curator.poisson_sample(4, 1.0).unwrap());
        for (values, fits) in
            [([2.0, 3.46], true), ([4.0, 3.0], false), ([f64::NAN, 0.0], false), ([0.0, f64::INFINITY], false)]
        {
            assert_eq!(GridSum::clipped_outside(&mut curator, &batch, &values, 1.0, grid).is_ok(), fits, "{values:?}");
        }
        // how many there are is not known here
        let outside = curator.sampled_remotely(1.0);
        assert!(GridSum::clipped_outside(&mut curator, &outside, &[1e9, 0.0], 1.0, grid).is_ok());
        assert!(GridSum::clipped_outside(&mut curator, &outside, &[1e200, 0.0], 1.0, grid).is_ok());
        for wild in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert!(GridSum::clipped_outside(&mut curator, &outside, &[wild, 0.0], 1.0, grid).is_err());
        }
    }
}
