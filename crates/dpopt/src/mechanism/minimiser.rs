//! Objective perturbation as one mechanism: a secret linear term, an exact-enough minimiser, closing noise
//! (spec 17 §3, §3.5; docs/proofs/objective-perturbation.md).
//!
//! The closing noise is not optional: with b on a grid (or in floating point) the possible minimisers of two neighbours
//! are different finite sets, so the minimiser alone has no differential privacy at all.

use super::door::{Mechanism, sealed};
use super::gaussian::add_rounded_gaussian;
use super::gradient::GridSum;
use crate::loss::Loss;
use crate::records::Examples;
use crate::refused::CuratorError;
use crate::solver::{Accuracy, Objective, minimise};
use dpopt_noise::{Grid, NoiseSource};
use dpopt_privacy::Event;

/// argmin Σφ + (λ/2)‖θ‖² + b·θ with b ~ N(0, σ²I), plus Gaussian noise that covers the solver's error.
#[derive(Clone, Debug)]
pub(crate) struct PerturbedObjective {
    pub(crate) loss: Loss,
    /// R: the noise was made for rows of at most this norm.
    pub(crate) row_norm: f64,
    /// λ of the sum objective.
    pub(crate) regularization: f64,
    /// σ of b.
    pub(crate) linear_std: f64,
    pub(crate) linear_grid: Grid,
    /// τ: certified norm of the gradient at the released point's origin, and the steps within which it is reached.
    pub(crate) accuracy: Accuracy,
    /// Standard deviation of the closing noise.
    pub(crate) closing_std: f64,
    pub(crate) closing_grid: Grid,
    /// Largest |target| of regression losses; targets are clamped to it.
    pub(crate) target_bound: f64,
    /// `Composed[ObjectivePerturbation, Gaussian]`, as planned.
    pub(crate) event: Event,
}

impl sealed::Sealed for PerturbedObjective {}

impl Mechanism for PerturbedObjective {
    type Input = Examples;
    type Output = Vec<f64>;

    fn event(&self) -> Event {
        self.event.clone()
    }

    fn label(&self) -> &'static str {
        "minimiser of the perturbed objective"
    }

    fn check(&self, input: &Examples) -> Result<(), CuratorError> {
        if input.rows.norm_bound() > self.row_norm {
            return Err(CuratorError::Sensitivity { input: input.rows.norm_bound(), mechanism: self.row_norm });
        }
        Ok(())
    }

    fn numbers(output: &Vec<f64>) -> Option<&[f64]> {
        Some(output)
    }

    fn apply(&self, input: &Examples, noise: &mut NoiseSource) -> Result<Vec<f64>, CuratorError> {
        let dimension = self.loss.outputs() * input.rows.columns();
        let mut b = vec![0i64; dimension];
        add_rounded_gaussian(&mut b, self.linear_std, self.linear_grid, noise)?;
        let linear: Vec<f64> = b.iter().map(|&u| self.linear_grid.to_f64(u)).collect();
        let objective = Objective {
            rows: &input.rows,
            targets: &input.targets,
            row_norm: self.row_norm,
            loss: self.loss,
            regularization: self.regularization,
            linear: &linear,
            target_bound: self.target_bound,
        };
        let minimiser = minimise(&objective, self.accuracy);
        let mut units = GridSum::of_query(minimiser.theta.rounded().into_iter(), self.closing_grid, 0.0).units;
        add_rounded_gaussian(&mut units, self.closing_std, self.closing_grid, noise)?;
        Ok(units.into_iter().map(|u| self.closing_grid.to_f64(u)).collect())
    }
}
