//! Projected DP-SGD: noisy gradients projected on few directions (Zhou, Wu and Banerjee 2021; spec 14 §8.1, baseline).
//!
//! The directions are public knowledge, or the leading ones of a second-moment matrix that is released first and paid for.
//! Directions taken from private gradients for nothing, as in the source's comparison, have no guarantee and are not offered.

use crate::Sensitive;
use crate::mechanism::{Curator, Gaussian, SecondMoment, symmetric_matrix};
use crate::optimize::RunError;
use crate::optimize::choices::Subspace;
use crate::optimize::released_preconditioner::refuse_large;
use crate::plan::{NotApplicable, Problem};
use crate::records::Examples;
use crate::solver::Spectrum;
use dpopt_noise::Grid;
use dpopt_privacy::Event;
use serde::Serialize;

/// The projection as planned.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SubspaceSchedule {
    /// Where it comes from.
    #[serde(flatten)]
    pub subspace: Subspace,
    /// z of the matrix, over R²; none if it is public.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub noise_multiplier: Option<f64>,
}

impl SubspaceSchedule {
    /// For the share μ² of the budget.
    pub(super) fn plan(subspace: &Subspace, problem: &Problem, mu: f64) -> Result<Self, NotApplicable> {
        let (Subspace::Coordinates { rank } | Subspace::Private { rank }) = *subspace;
        if rank == 0 || rank > problem.features {
            return Err(NotApplicable::Option(format!(
                "a subspace of {rank} directions was asked for; give 1 to {}, the number of features",
                problem.features
            )));
        }
        let private = matches!(subspace, Subspace::Private { .. });
        if private {
            refuse_large(problem)?;
        }
        Ok(Self { subspace: subspace.clone(), noise_multiplier: private.then_some(1.0 / mu) })
    }

    /// What is released for it.
    pub(super) fn event(&self) -> Option<Event> {
        self.noise_multiplier.map(Event::gaussian)
    }

    /// Rounded Gaussians drawn.
    pub(super) fn samples(&self, features: usize) -> f64 {
        if self.noise_multiplier.is_some() { SecondMoment::coordinates(features) as f64 } else { 0.0 }
    }

    /// The projection, ready to use; `examples` are the records, if they are in memory.
    pub(super) fn open(
        &self,
        problem: &Problem,
        examples: Option<&Sensitive<Examples>>,
        curator: &mut Curator,
    ) -> Result<Projection, RunError> {
        let d = problem.features;
        match (&self.subspace, self.noise_multiplier) {
            (Subspace::Private { rank }, Some(multiplier)) => {
                let Some(examples) = examples else { return Err(RunError::InMemory { method: "a private subspace" }) };
                let bound = problem.row_norm * problem.row_norm;
                let coordinates = SecondMoment::coordinates(d);
                let grid = Grid::for_sum(bound, multiplier * bound, problem.rows, coordinates);
                let moment = SecondMoment::new(1.0, problem.row_norm, grid)?;
                let release = Gaussian::new(multiplier, bound, grid, coordinates, "second moment");
                let matrix = symmetric_matrix(d, curator.release(&release, &moment.sum(examples))?.get());
                let spectrum =
                    Spectrum::of(&matrix, d).ok_or(RunError::Numerical("the released matrix has no spectrum"))?;
                let least = spectrum.eigenvalues().get(d - rank).copied().unwrap_or(f64::NEG_INFINITY);
                Ok(Projection::Spectral { spectrum, least })
            }
            (Subspace::Coordinates { rank } | Subspace::Private { rank }, _) => {
                Ok(Projection::Coordinates { rank: *rank })
            }
        }
    }
}

/// A projection of the gradient of each output.
pub(super) enum Projection {
    Coordinates { rank: usize },
    Spectral { spectrum: Spectrum, least: f64 },
}

impl Projection {
    pub(super) fn apply(&self, gradient: &mut [f64], features: usize) {
        for line in gradient.chunks_exact_mut(features) {
            match self {
                Self::Coordinates { rank } => line[*rank..].fill(0.0),
                Self::Spectral { spectrum, least } => {
                    let kept = spectrum.apply(|w| if w >= *least { 1.0 } else { 0.0 }, line);
                    line.copy_from_slice(&kept);
                }
            }
        }
    }
}
