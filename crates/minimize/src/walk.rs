//! Walks of anybody's own: a method outside of this crate decides where to ask next, and sees what was released only.

use super::problem::MinimizeProblem;
use super::schedule::MinimizeSchedule;
use super::source::Source;
use dpopt_mechanism::progress::Progress;
use dpopt_mechanism::{Curator, Gaussian};
use dpopt_optimize::RunError;
use dpopt_optimize::choices::Domain;
use std::collections::BTreeMap;
use std::fmt;

/// What moves x in a method of anybody's own. It sees noisy mean gradients and nothing else, so all that it does is post-processing.
pub trait Walk: fmt::Debug + Send + Sync {
    /// The way from the start to the answer: d numbers. What lies outside of the domain is brought back to it.
    ///
    /// # Errors
    /// Those of the oracle, or what makes a walk end early: an error is seen by everybody, so it must follow from what was released.
    fn walk(&self, oracle: &mut Oracle<'_>) -> Result<Vec<f64>, RunError>;

    /// Public numbers of its own, for reports.
    fn numbers(&self) -> BTreeMap<&'static str, f64> {
        BTreeMap::new()
    }
}

/// Noisy mean gradients for a [`Walk`]: at most as many as the plan has steps.
pub struct Oracle<'a> {
    pub(super) schedule: &'a MinimizeSchedule,
    pub(super) problem: &'a MinimizeProblem,
    pub(super) start: &'a [f64],
    pub(super) source: &'a mut dyn Source,
    pub(super) curator: &'a mut Curator,
    pub(super) progress: &'a dyn Progress,
    pub(super) asked: u64,
}

impl Oracle<'_> {
    /// How many numbers x has.
    pub fn dimension(&self) -> usize {
        self.problem.dimension
    }

    /// How many gradients may be asked for.
    pub fn steps(&self) -> u64 {
        self.schedule.steps
    }

    /// How many are left.
    pub fn left(&self) -> u64 {
        self.schedule.steps - self.asked
    }

    /// Where the way from the start may lie.
    pub fn domain(&self) -> Domain {
        self.schedule.domain
    }

    /// Standard deviation of the noise of a mean gradient, per coordinate.
    pub fn noise_std(&self) -> f64 {
        self.schedule.noise_std * self.schedule.per_record(self.problem.records)
    }

    /// The mean of the records' clipped gradients at the start and `way`, with noise: over all records, or over a fresh batch of them, divided by the public
    /// size that is expected.
    ///
    /// # Errors
    /// If none is left, `way` has not d finite numbers, or records can't be read.
    pub fn mean_gradient(&mut self, way: &[f64]) -> Result<Vec<f64>, RunError> {
        if self.left() == 0 {
            return Err(RunError::Numerical("the walk asks for more gradients than its plan has steps"));
        }
        if way.len() != self.dimension() || way.iter().any(|w| !w.is_finite()) {
            return Err(RunError::Numerical("the walk left the numbers: its way has not as many finite ones as x"));
        }
        self.asked += 1;
        let x: Vec<f64> = self.start.iter().zip(way).map(|(x, w)| x + w).collect();
        let how = self.schedule.summing();
        let noise =
            Gaussian::new(self.schedule.noise_multiplier, how.clip_norm, how.grid, self.dimension(), "gradient");
        let sum = self.source.gradients(self.curator, how, &x)?;
        let mut mean = self.curator.release(&noise, &sum)?.into_inner();
        let per_record = self.schedule.per_record(self.problem.records);
        mean.iter_mut().for_each(|g| *g *= per_record);
        self.progress.tick();
        Ok(mean)
    }
}
