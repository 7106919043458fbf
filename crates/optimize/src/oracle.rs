//! Where the gradients of a run come from: sums that have been released, and paid for, one per call.

use crate::RunError;
use dpopt_mechanism::{Clipped, Curator, CuratorError, Gaussian, Released, SecondMoment, Sensitive, symmetric_matrix};
use dpopt_noise::Grid;
use dpopt_objective::objective::Objective;
use dpopt_objective::records::{RecordSet, Records};
use dpopt_objective::solver::Spectrum;

/// Σ clip(∇φ_i(x)) + N(0, (z·C)²) over all records, or over a secret Poisson batch of them.
pub struct NoisySum<O> {
    clipped: Clipped<O>,
    noise: Gaussian,
    /// q; `None` for all records.
    sampling: Option<f64>,
}

impl<O> NoisySum<O> {
    /// Over all records, each gradient clipped to the norm that the noise is made for.
    pub fn new(objective: O, noise: Gaussian) -> Result<Self, CuratorError> {
        let clipped = Clipped::new(objective, noise.clip_norm(), noise.grid())?;
        Ok(Self { clipped, noise, sampling: None })
    }

    /// Over Poisson batches, one per call.
    pub fn sampled(self, q: f64) -> Self {
        Self { sampling: Some(q), ..self }
    }

    /// The same of another objective.
    pub fn with<P>(&self, objective: P) -> Result<NoisySum<P>, CuratorError> {
        Ok(NoisySum { sampling: self.sampling, ..NoisySum::new(objective, self.noise.clone())? })
    }

    /// Whose gradients they are.
    pub fn objective(&self) -> &O {
        self.clipped.objective()
    }

    /// The noisy sum at `x`.
    pub fn release<R: RecordSet>(
        &self,
        records: &Sensitive<R>,
        curator: &mut Curator,
        x: &[f64],
    ) -> Result<Released<Vec<f64>>, RunError>
    where
        O: Objective<R>,
    {
        let batch = self.sampling.map(|q| curator.poisson_sample_for_sum(records, q)).transpose()?;
        let sum = self.clipped.sum_of(records, batch, x).map_err(CuratorError::unreadable)?;
        Ok(curator.release(&self.noise, &sum)?)
    }
}

/// A noisy second moment of the rows, released once.
pub struct NoisyMoment {
    /// R.
    pub row_norm: f64,
    /// What each record's outer product is multiplied by.
    pub factor: f64,
    /// z: noise standard deviation of the sum, over its sensitivity factor·R².
    pub noise_multiplier: f64,
    /// Of the sum.
    pub grid: Grid,
}

impl NoisyMoment {
    /// Its spectrum, for rows of d features.
    pub fn release<R: Records>(
        &self,
        rows: &Sensitive<R>,
        curator: &mut Curator,
        d: usize,
    ) -> Result<Spectrum, RunError> {
        let moment = SecondMoment::new(self.factor, self.row_norm, self.grid)?;
        let bound = self.factor * self.row_norm * self.row_norm;
        let coordinates = SecondMoment::coordinates(d);
        let noise = Gaussian::new(self.noise_multiplier, bound, self.grid, coordinates, "second moment");
        let matrix =
            symmetric_matrix(d, curator.release(&noise, &moment.sum(rows).map_err(CuratorError::unreadable)?)?.get());
        Spectrum::of(&matrix, d).ok_or(RunError::Numerical("the released matrix has no spectrum"))
    }
}
