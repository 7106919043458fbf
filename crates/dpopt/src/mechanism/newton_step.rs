//! The step H⁻¹g̃ of double-noise Newton, with noise fitted to the released ‖g̃‖ (spec 17 §4; docs/proofs/noisy-newton.md). The
//! matrix H itself never leaves.

use super::door::{Mechanism, sealed};
use super::gaussian::add_rounded_gaussian;
use super::grid_sum::GridSum;
use super::minimiser::{closing_grid, made_for};
use crate::loss::Loss;
use crate::objective::Linear;
use crate::records::Examples;
use crate::refused::CuratorError;
use crate::sampler_error::SamplerError;
use crate::solver::{RegularizedSum, Spectrum, UNIT, decomposition_error, dot, norm};
use dpopt_noise::{Grid, NoiseSource};
use dpopt_privacy::{Event, Relation};
use faer::linalg::solvers::Solve;
use serde::Serialize;

/// How H is kept away from singular.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Inverse {
    /// Eigenvalues below λ0 are raised to λ0. Sensitivity β‖g̃‖/λ0².
    #[default]
    Clip,
    /// λ0 is added to all eigenvalues. Sensitivity β‖g̃‖/(λ0² + βλ0).
    Add,
}

/// What the sensitivity of a step follows from, all public.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewtonFacts {
    /// A logistic loss of rows of at most its norm R.
    pub(crate) objective: Linear,
    /// At least the number of records.
    pub(crate) most_rows: u64,
    pub(crate) relation: Relation,
    /// λ0.
    pub(crate) regularization: f64,
    pub(crate) inverse: Inverse,
}

impl NewtonFacts {
    /// β = R²/4: bound on a record's share of H.
    pub(crate) fn curvature(&self) -> f64 {
        0.25 * self.objective.row_norm() * self.objective.row_norm()
    }

    /// Bound on ‖H‖.
    pub(crate) fn matrix_bound(&self) -> f64 {
        self.most_rows as f64 * self.curvature()
    }

    /// Bound on what floating point does to H, as an error of H: rounding of the sum over any number of records that the plan
    /// allows, in blocks ([`RegularizedSum::dense_hessian`]), and the decomposition's residual and skewness.
    pub(crate) fn matrix_error(&self) -> f64 {
        let (n, d) = (self.most_rows as f64, self.objective.features());
        let (bound, lambda) = (n * 0.25 * self.objective.row_norm() * self.objective.row_norm(), self.regularization);
        // products, the sum within a block, over blocks and over chunks
        let sum = UNIT * (32.0 + RegularizedSum::summation_depth(n, d)) * bound;
        sum + decomposition_error(d) * 3.0 * (bound + lambda) + 4.0 * d as f64 * UNIT * lambda
    }

    /// Whether the bound covers what the machine does: λ0 is positive, and for [`Inverse::Add`] so large that the factor is sure to exist
    /// and refinement to converge; neither may fail for some data only.
    pub(crate) fn are_proved(&self) -> bool {
        let (d, lambda) = (self.objective.features() as f64, self.regularization);
        let digits = (1e3 * d).max(40.0 * d * d) * UNIT;
        let factored = digits * (self.matrix_bound() + lambda) <= 0.1 * lambda && self.matrix_error() <= 0.01 * lambda;
        let logistic = matches!(self.objective.loss(), Loss::Logistic { .. });
        logistic && lambda > 0.0 && lambda.is_finite() && (self.inverse == Inverse::Clip || factored)
    }

    /// (Sensitivity of a step over ‖g̃‖ as one record's share under the relation, residual of the solver over ‖g̃‖.)
    pub(crate) fn sensitivity(&self) -> (f64, f64) {
        let (beta, lambda, matrix_error) = (self.curvature(), self.regularization, self.matrix_error());
        match (self.inverse, self.relation) {
            (Inverse::Clip, relation) => {
                let pair = if relation == Relation::ReplaceOne { std::f64::consts::SQRT_2 } else { 1.0 };
                let change = (pair * beta + 2.0 * matrix_error) / (lambda * lambda);
                (change / relation.sum_sensitivity(), 0.0)
            }
            (Inverse::Add, relation) => {
                let pair = relation.sum_sensitivity();
                // certified residual ‖(H+λ0)s − g̃‖ ≤ r‖g̃‖: error r/λ0 on each side, plus the rounding of H itself
                let residual = 1e-6f64.max(8.0 * matrix_error / lambda);
                let change = pair * beta / (lambda * lambda + beta * lambda)
                    + 2.0 * residual / lambda
                    + 2.0 * matrix_error / (lambda * lambda);
                (change / pair, residual)
            }
        }
    }

    /// inv(H)·g with H = Σ h_i x_i x_iᵀ at `theta`.
    pub(crate) fn direction(&self, examples: &Examples, theta: &[f64], g: &[f64]) -> Vec<f64> {
        let (d, lambda) = (theta.len(), self.regularization);
        let zero = vec![0.0; d];
        let objective = RegularizedSum::of(examples, &self.objective, (0.0, &zero), 1.0);
        let shift = if let Loss::Logistic { shift } = self.objective.loss() { shift } else { 0.0 };
        let weights = objective.majorising_curvatures(theta, shift);
        let mut matrix = objective.dense_hessian(&weights);
        for j in 0..d {
            for k in 0..j {
                matrix[k * d + j] = matrix[j * d + k];
            }
        }
        if self.inverse == Inverse::Clip {
            return Spectrum::certified(&matrix, d, self.matrix_bound()).apply(|w| 1.0 / w.max(lambda), g);
        }
        (0..d).for_each(|j| matrix[j * d + j] += lambda);
        let view = faer::MatRef::from_row_major_slice(&matrix, d, d);
        // λ0 was planned so far above the rounding of H that its factor exists (Higham 2002, theorem 10.7)
        let Ok(factor) = view.llt(faer::Side::Lower) else { return zero };
        let residual_of =
            |x: &[f64]| -> Vec<f64> { (0..d).map(|j| g[j] - dot(&matrix[j * d..(j + 1) * d], x)).collect() };
        let (_, allowed) = self.sensitivity();
        let mut step = zero;
        let mut residual = g.to_vec();
        // the plan made sure that the factor's backward error is far below λ0: each pass shrinks the residual tenfold
        for _ in 0..20 {
            if norm(&residual) <= 0.5 * allowed * norm(g) {
                break;
            }
            let more = factor.solve(&faer::Col::from_fn(d, |j| residual[j]));
            step.iter_mut().enumerate().for_each(|(j, x)| *x += more[j]);
            residual = residual_of(&step);
        }
        step
    }
}

/// inv(H(θ))·g̃ for released θ and g̃, plus Gaussian noise for how far one record moves it. Event: `Gaussian(z)`.
#[derive(Clone, Debug)]
pub(crate) struct NewtonStep<'a> {
    pub(crate) facts: NewtonFacts,
    /// θ.
    pub(crate) theta: &'a [f64],
    /// g̃, not 0.
    pub(crate) gradient: &'a [f64],
    /// z: noise over the sensitivity.
    pub(crate) noise_multiplier: f64,
}

impl NewtonStep<'_> {
    /// ‖g̃‖ is public by now: scale, grid and noise may depend on it. (Grid, sensitivity of the rounded step.)
    fn scale(&self) -> (Grid, f64) {
        let d = self.gradient.len();
        let bare = self.facts.sensitivity().0 * norm(self.gradient);
        let grid = closing_grid(self.noise_multiplier * bare, bare, d);
        (grid, (bare + grid.step() * (d as f64).sqrt()) * (1.0 + 1e-12))
    }

    /// Standard deviation per weight.
    pub(crate) fn noise_std(&self) -> f64 {
        self.noise_multiplier * self.scale().1
    }
}

impl sealed::Sealed for NewtonStep<'_> {}

impl Mechanism for NewtonStep<'_> {
    type Input = Examples;
    type Output = Vec<f64>;

    fn event(&self) -> Event {
        Event::gaussian(self.noise_multiplier)
    }

    fn sampler_error(&self, _input: &Examples) -> f64 {
        SamplerError::rounded(self.gradient.len() as f64).total_variation()
    }

    fn relation(&self) -> Option<Relation> {
        Some(self.facts.relation)
    }

    fn label(&self) -> &'static str {
        "newton step"
    }

    fn check(&self, input: &Examples) -> Result<(), CuratorError> {
        made_for(&self.facts.objective, input)?;
        let d = self.facts.objective.weights();
        let counted = self.facts.relation == Relation::AddOrRemove || input.rows.len() as u64 <= self.facts.most_rows;
        let size = norm(self.gradient);
        let proved = self.facts.are_proved() && size > 0.0 && size.is_finite();
        let shaped = self.gradient.len() == d && self.theta.len() == d;
        if counted && proved && shaped { Ok(()) } else { Err(CuratorError::Shape) }
    }

    fn numbers(output: &Vec<f64>) -> Option<&[f64]> {
        Some(output)
    }

    fn apply(&self, input: &Examples, noise: &mut NoiseSource) -> Result<Vec<f64>, CuratorError> {
        let grid = self.scale().0;
        let direction = self.facts.direction(input, self.theta, self.gradient);
        let mut units = GridSum::of_query(direction.into_iter(), grid, 0.0).units;
        add_rounded_gaussian(&mut units, self.noise_std(), grid, noise)?;
        Ok(units.into_iter().map(|u| grid.to_f64(u)).collect())
    }
}
