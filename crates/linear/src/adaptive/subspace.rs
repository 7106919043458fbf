//! Projected DP-SGD: noisy gradients projected on few directions (Zhou, Wu and Banerjee 2021), a baseline.
//!
//! The directions are public knowledge, or the leading ones of a second-moment matrix that is released first and paid for.
//! Directions taken from private gradients for nothing, as in the experiments of Asi et al. 2021, have no guarantee and are not offered.

use crate::choices::Subspace;
use crate::released_preconditioner::refuse_large;
use dpopt_mechanism::{Curator, SecondMoment, Sensitive};
use dpopt_noise::Grid;
use dpopt_objective::records::Records;
use dpopt_objective::solver::Spectrum;
use dpopt_optimize::RunError;
use dpopt_optimize::algorithm::in_memory;
use dpopt_optimize::oracle::NoisyMoment;
use dpopt_optimize::plan::{NotApplicable, Problem};
use dpopt_optimize::planning::{most_rows, product_grid};
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
    /// Plans the subspace for the share μ² of the budget.
    pub(super) fn plan(subspace: &Subspace, problem: &Problem, mu: f64) -> Result<Self, NotApplicable> {
        let (Subspace::Coordinates { rank } | Subspace::Private { rank }) = *subspace;
        if rank == 0 || rank > problem.features {
            return Err(NotApplicable::Option(
                format!("the subspace has {rank} directions; give 1 to {}, the number of features", problem.features)
                    .into(),
            ));
        }
        let private = matches!(subspace, Subspace::Private { .. });
        if private {
            refuse_large(problem)?;
            let bound = problem.row_norm * problem.row_norm;
            product_grid(bound, bound / mu, problem)?;
        }
        Ok(Self { subspace: subspace.clone(), noise_multiplier: private.then_some(1.0 / mu) })
    }

    /// What is released for it.
    pub(super) fn event(&self) -> Option<Event> {
        self.noise_multiplier.map(Event::gaussian)
    }

    /// Number of rounded Gaussians that are drawn.
    pub(super) fn samples(&self, features: usize) -> f64 {
        if self.noise_multiplier.is_some() { SecondMoment::coordinates(features) as f64 } else { 0.0 }
    }

    /// The projection, ready to use.
    pub(super) fn open<R: Records + 'static>(
        &self,
        method: &'static str,
        problem: &Problem,
        examples: &Sensitive<R>,
        curator: &mut Curator,
    ) -> Result<Projection, RunError> {
        let d = problem.features;
        match (&self.subspace, self.noise_multiplier) {
            (Subspace::Private { rank }, Some(noise_multiplier)) => {
                let row_norm = problem.row_norm;
                let bound = row_norm * row_norm;
                let grid = Grid::for_products(bound, noise_multiplier * bound, most_rows(problem));
                let moment = NoisyMoment { row_norm, factor: 1.0, noise_multiplier, grid };
                let spectrum = moment.release(in_memory(examples, method)?, curator, d)?;
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
