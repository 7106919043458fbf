//! Objective perturbation as one mechanism: a secret linear term, an exact-enough minimiser, closing noise
//! (spec 17 §3, §3.5; docs/proofs/objective-perturbation.md).
//!
//! The closing noise is not optional: with b on a grid (or in floating point) the possible minimisers of two neighbours
//! are different finite sets, so the minimiser alone has no differential privacy at all.

use super::door::{Mechanism, sealed};
use super::gaussian::add_rounded_gaussian;
use super::grid_sum::GridSum;
use crate::objective::Linear;
use crate::records::Examples;
use crate::refused::CuratorError;
use crate::sampler_error::SamplerError;
use crate::solver::{Accuracy, RegularizedSum, minimise};
use dpopt_noise::{Grid, NoiseSource};
use dpopt_privacy::event::GlmLink;
use dpopt_privacy::{Event, Relation};

/// Refuses rows of another width, or longer than the facts of `objective` say.
pub(super) fn made_for(objective: &Linear, input: &Examples) -> Result<(), CuratorError> {
    let (norm, bound) = (input.rows.norm_bound(), objective.row_norm());
    if norm > bound {
        return Err(CuratorError::Sensitivity { input: norm, mechanism: bound });
    }
    if input.rows.columns() != objective.features() {
        return Err(CuratorError::Shape);
    }
    Ok(())
}

/// argmin Σφ + (λ/2)‖θ‖² + b·θ with b ~ N(0, σ²I), plus Gaussian noise that covers the solver's error.
#[derive(Clone, Debug)]
pub(crate) struct PerturbedObjective {
    /// Σφ over rows of at most the norm that the noise was made for.
    pub(crate) objective: Linear,
    /// z: standard deviation of b over R·C. C is the slope bound; 1 for softmax, whose √2 the accountants add.
    pub(crate) noise_multiplier: f64,
    /// λ of the sum objective over R²·C.
    pub(crate) relative_regularization: f64,
    pub(crate) linear_grid: Grid,
    /// τ: certified norm of the gradient at the released point's origin, and the steps within which it is reached.
    pub(crate) accuracy: Accuracy,
    /// Of the closing noise, over how far both neighbours' points are from the exact minimiser at most.
    pub(crate) closing_multiplier: f64,
    pub(crate) closing_grid: Grid,
    /// Largest |target| of regression losses; targets are clamped to it.
    pub(crate) target_bound: f64,
    pub(crate) relation: Relation,
}

impl PerturbedObjective {
    /// C of the units that the proof divides by; infinite for a loss without one, which no proof covers.
    fn slope(&self) -> f64 {
        let loss = self.objective.loss().facts();
        match loss.link {
            Some(GlmLink::Softmax { .. }) => 1.0,
            Some(_) => loss.lipschitz.unwrap_or(f64::INFINITY),
            None => f64::INFINITY,
        }
    }

    /// λ.
    pub(crate) fn regularization(&self) -> f64 {
        self.relative_regularization * self.slope() * self.objective.row_norm() * self.objective.row_norm()
    }

    /// Standard deviation of b.
    pub(crate) fn linear_std(&self) -> f64 {
        self.noise_multiplier * self.slope() * self.objective.row_norm()
    }

    /// Standard deviation of the closing noise.
    pub(crate) fn closing_std(&self) -> f64 {
        let root = (self.objective.weights() as f64).sqrt();
        // the grid of b is a part of the gradient at the answer
        let reached = self.accuracy.tolerance + 0.5 * self.linear_grid.step() * root;
        let deviation = (2.0 * reached / self.regularization() + self.closing_grid.step() * root) * (1.0 + 1e-12);
        // both neighbours' points lie around the *same* exact minimiser: this is the whole change, also for replace-one
        self.closing_multiplier * deviation / self.relation.sum_sensitivity()
    }
}

impl sealed::Sealed for PerturbedObjective {}

impl Mechanism for PerturbedObjective {
    type Input = Examples;
    type Output = Vec<f64>;

    fn event(&self) -> Event {
        let Some(link) = self.objective.loss().facts().link else { return Event::NonPrivate };
        let main = Event::ObjectivePerturbation {
            noise_multiplier: self.noise_multiplier,
            regularization: self.relative_regularization,
            link,
        };
        Event::composed(vec![main, Event::gaussian(self.closing_multiplier)])
    }

    fn sampler_error(&self, _input: &Examples) -> f64 {
        // both noises, and that no entry of b is above 13σ (2·10^-38): the solver's promise is for such b
        SamplerError::rounded(3.0 * self.objective.weights() as f64).total_variation()
    }

    fn relation(&self) -> Option<Relation> {
        Some(self.relation)
    }

    fn label(&self) -> &'static str {
        "minimiser of the perturbed objective"
    }

    fn check(&self, input: &Examples) -> Result<(), CuratorError> {
        made_for(&self.objective, input)
    }

    fn numbers(output: &Vec<f64>) -> Option<&[f64]> {
        Some(output)
    }

    fn apply(&self, input: &Examples, noise: &mut NoiseSource) -> Result<Vec<f64>, CuratorError> {
        let mut b = vec![0i64; self.objective.weights()];
        add_rounded_gaussian(&mut b, self.linear_std(), self.linear_grid, noise)?;
        let linear: Vec<f64> = b.iter().map(|&u| self.linear_grid.to_f64(u)).collect();
        let sum = (self.regularization(), &linear[..]);
        let objective = RegularizedSum::of(input, &self.objective, sum, self.target_bound);
        let minimiser = minimise(&objective, self.accuracy);
        let mut units = GridSum::of_query(minimiser.theta.rounded().into_iter(), self.closing_grid, 0.0).units;
        add_rounded_gaussian(&mut units, self.closing_std(), self.closing_grid, noise)?;
        Ok(units.into_iter().map(|u| self.closing_grid.to_f64(u)).collect())
    }
}

/// argmin Σφ + (λ/2)‖θ‖² with Gaussian noise for how far one record moves it: L/λ, and what the solver and the grid add.
/// Event: `Gaussian(z)`.
#[derive(Clone, Debug)]
pub(crate) struct PerturbedMinimiser {
    /// Σφ over rows of at most the norm that the noise is made for.
    pub(crate) objective: Linear,
    /// λ of the sum objective.
    pub(crate) regularization: f64,
    /// τ: certified norm of the gradient at the answer, and the steps within which it is reached.
    pub(crate) accuracy: Accuracy,
    /// z: noise over the sensitivity.
    pub(crate) noise_multiplier: f64,
    pub(crate) grid: Grid,
    /// Largest |target| of regression losses; targets are clamped to it.
    pub(crate) target_bound: f64,
}

impl PerturbedMinimiser {
    /// How far one record's presence moves the rounded answer; infinite for a loss that no theorem covers.
    pub(crate) fn sensitivity(&self) -> f64 {
        let facts = self.objective.known();
        let lipschitz = facts.lipschitz.filter(|_| facts.convex.is_some()).map_or(f64::INFINITY, |l| l.value);
        let bare = (lipschitz + 2.0 * self.accuracy.tolerance) / self.regularization;
        (bare + self.grid.step() * (self.objective.weights() as f64).sqrt()) * (1.0 + 1e-12)
    }

    /// Of each weight's noise.
    pub(crate) fn noise_std(&self) -> f64 {
        self.sensitivity() * self.noise_multiplier
    }
}

impl sealed::Sealed for PerturbedMinimiser {}

impl Mechanism for PerturbedMinimiser {
    type Input = Examples;
    type Output = Vec<f64>;

    fn event(&self) -> Event {
        Event::gaussian(self.noise_multiplier)
    }

    fn sampler_error(&self, _input: &Examples) -> f64 {
        SamplerError::rounded(self.objective.weights() as f64).total_variation()
    }

    fn label(&self) -> &'static str {
        "regularised minimiser"
    }

    fn check(&self, input: &Examples) -> Result<(), CuratorError> {
        made_for(&self.objective, input)
    }

    fn numbers(output: &Vec<f64>) -> Option<&[f64]> {
        Some(output)
    }

    fn apply(&self, input: &Examples, noise: &mut NoiseSource) -> Result<Vec<f64>, CuratorError> {
        let zero = vec![0.0; self.objective.weights()];
        let objective = RegularizedSum::of(input, &self.objective, (self.regularization, &zero), self.target_bound);
        let minimiser = minimise(&objective, self.accuracy).theta.rounded();
        let mut units = GridSum::of_query(minimiser.into_iter(), self.grid, 0.0).units;
        add_rounded_gaussian(&mut units, self.noise_std(), self.grid, noise)?;
        Ok(units.into_iter().map(|u| self.grid.to_f64(u)).collect())
    }
}
