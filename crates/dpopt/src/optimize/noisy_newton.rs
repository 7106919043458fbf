//! Double-noise Newton (Ganesh, Haghifam, Steinke, Thakurta 2023; spec 17 §4): each step releases a noisy gradient g̃,
//! then the Newton step s = H⁻¹g̃ with noise fitted to ‖g̃‖. The matrix H itself is never released.
//!
//! H weighs records by tanh(u/2)/(2u), u = shift − margin: the quadratic upper bound of the logistic loss, so that a step
//! never diverges.

use super::planning::{SamplerError, check_problem, gaussian_mu, most_rows, most_rows_assumption, noise, positive};
use super::released_preconditioner::refuse_large;
use super::risk::RiskModel;
use super::spectrum::{Spectrum, decomposition_error};
use super::{Algorithm, Run, RunError, Solution};
use crate::loss::Loss;
use crate::mechanism::{ClippedGradient, Gaussian, GridSum};
use crate::optimize::options::Said;
use crate::optimize::options::common::{REGULARIZATION, STEPS};
use crate::plan::{Assumption, NotApplicable, Plan, Problem, Summary};
use crate::records::Examples;
use crate::solver::{Objective, UNIT, dot, norm};
use crate::{Released, Sensitive};
use dpopt_noise::Grid;
use dpopt_privacy::{Budget, Event, Relation};
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

/// Options of double-noise Newton. `None` means: chosen from public facts.
#[derive(Clone, Debug, Default)]
pub struct NoisyNewton {
    /// T ≥ 1. Default 6.
    pub steps: Option<u64>,
    /// λ0 > 0. Default (nβ/ρ)^(1/3), β = R²/4, ρ the zCDP of one step's noise: the cube-root law.
    pub regularization: Option<f64>,
    /// How H is regularised.
    pub inverse: Inverse,
}

/// The schedule of double-noise Newton.
#[derive(Clone, Debug, Serialize)]
pub struct NewtonSchedule {
    /// The loss that is minimised.
    pub loss: Loss,
    /// T.
    pub steps: u64,
    /// λ0.
    pub regularization: f64,
    /// How H is regularised.
    pub inverse: Inverse,
    /// R: bound on a row's norm.
    #[serde(skip)]
    pub row_norm: f64,
    /// β = R²/4: bound on a record's share of H.
    pub curvature: f64,
    /// Bound on ‖H‖, for any number of records that the plan allows.
    #[serde(skip)]
    pub matrix_bound: f64,
    /// Noise multiplier of both releases of each step.
    pub noise_multiplier: f64,
    /// Sensitivity of a step is this times ‖g̃‖ (one record's share under the relation), solver error included.
    pub step_sensitivity: f64,
    /// Extra error of the linear solver allowed for `add`, relative to ‖g̃‖.
    pub residual: f64,
    /// log2 of the grid step of the gradients.
    pub grid_exponent: i32,
}

impl Algorithm for NoisyNewton {
    type Schedule = NewtonSchedule;
    const NAME: &'static str = "noisy-newton";
    const ABOUT: &'static str = "releases noisy gradients and noisy Newton steps; for two labels and few features";

    fn read(said: &Said<'_>) -> Self {
        Self { steps: said.get(&STEPS), regularization: said.get(&REGULARIZATION), ..Self::default() }
    }

    fn plan(&self, problem: &Problem, budget: Budget) -> Result<Plan<NewtonSchedule>, NotApplicable> {
        check_problem(problem)?;
        refuse_large(problem)?;
        let Loss::Logistic { .. } = problem.loss else {
            return Err(NotApplicable::Problem("double-noise Newton is proved here for logistic loss only".into()));
        };
        let steps = self.steps.unwrap_or(6);
        if steps == 0 {
            return Err(NotApplicable::Option("steps is 0; give at least 1".into()));
        }
        let r = problem.row_norm;
        let n = problem.rows as f64;
        let d = problem.features;
        let beta = 0.25 * r * r;
        let mu = gaussian_mu(problem, budget)?;
        let regularization = match self.regularization {
            Some(lambda) => positive("the regularization", lambda)?,
            None => {
                let rho = mu * mu / (2.0 * steps as f64) / 2.0;
                (n * beta / rho).cbrt()
            }
        };
        let most = most_rows(problem) as f64 * beta;
        let digits = (1e3 * d as f64).max(40.0 * (d * d) as f64) * UNIT;
        if self.inverse == Inverse::Add
            && (digits * (most + regularization) > 0.1 * regularization
                || matrix_error(problem, regularization) > 0.01 * regularization)
        {
            // the factor would not be sure to exist, nor refinement below to converge, and neither may fail for some data only
            return Err(NotApplicable::Option("the regularization is too small for this many rows; raise it".into()));
        }
        // half of μ² to gradients, half to steps: all multipliers are equal
        let draws = 2.0 * steps as f64 * d as f64;
        let event = |z: f64| SamplerError::rounded(draws).on(Event::gaussian(z).self_composed(2 * steps));
        let (noise_multiplier, certificate) = noise(problem, budget, event)?;
        let (step_sensitivity, residual) = self.sensitivity(problem, regularization);
        let grid = Grid::for_sum(r, noise_multiplier * r, problem.rows, d);
        let risk = RiskModel::of(problem);
        let gradient_noise = noise_multiplier * r;
        let leftover = gradient_noise * risk.weights.sqrt();
        let step_noise = noise_multiplier * step_sensitivity * leftover;
        Ok(Plan {
            summary: Summary {
                method: Self::NAME,
                loss: problem.loss,
                noise_multiplier,
                steps,
                gradients: 2.0 * n * steps as f64,
                // in a direction without curvature H is λ0 and nothing of earlier noise is forgotten
                weight_noise: Some(step_noise.hypot(gradient_noise / regularization) * (steps as f64).sqrt()),
                predicted_excess_risk: risk.newton(regularization, gradient_noise, step_noise, steps as f64),
                certificate,
                assumptions: [
                    Assumption::enforced("every row has norm at most the row norm: enforced when rows are built"),
                    Assumption::proved("the error of the linear solver is covered by the sensitivity of each step"),
                ]
                .into_iter()
                .chain(most_rows_assumption(problem))
                .collect(),
                warnings: Vec::new(),
            },
            schedule: NewtonSchedule {
                loss: problem.loss,
                steps,
                regularization,
                inverse: self.inverse,
                row_norm: r,
                curvature: beta,
                matrix_bound: most,
                noise_multiplier,
                step_sensitivity,
                residual,
                grid_exponent: grid.exponent(),
            },
        })
    }

    fn run(&self, plan: &Plan<NewtonSchedule>, run: Run<'_>) -> Result<Released<Solution>, RunError> {
        let Run { problem, examples, curator, progress } = run;
        let s = &plan.schedule;
        let d = problem.features;
        let grid = Grid::new(s.grid_exponent);
        let gradient = ClippedGradient::new(s.loss, problem.row_norm, grid)?;
        let gradient_noise = Gaussian::new(s.noise_multiplier, problem.row_norm, grid, d, "gradient sum");
        let mut theta = vec![0.0; d];
        let mut variance = 0.0;
        progress.start(Self::NAME, s.steps);
        for _ in 0..s.steps {
            let noisy = curator.release(&gradient_noise, &gradient.sum(examples, &theta))?;
            let size = norm(noisy.get());
            if !(size.is_finite() && size > 0.0) {
                return Err(RunError::Numerical("a released gradient is not a number"));
            }
            // ‖g̃‖ is public by now: scale, grid and noise may depend on it
            let bare = s.step_sensitivity * size;
            let step_grid = super::output_perturbation::closing_grid(s.noise_multiplier * bare, bare, d);
            let sensitivity = (bare + step_grid.step() * (d as f64).sqrt()) * (1.0 + 1e-12);
            let direction = newton_step(s, examples.expose(), &theta, noisy.get());
            let query = Sensitive::new(GridSum::of_query(direction.into_iter(), step_grid, sensitivity));
            let step_noise = Gaussian::new(s.noise_multiplier, sensitivity, step_grid, d, "newton step");
            let step = curator.release(&step_noise, &query)?;
            theta.iter_mut().zip(step.get()).for_each(|(t, s)| *t -= s);
            variance += (s.noise_multiplier * sensitivity).powi(2)
                + (s.noise_multiplier * problem.row_norm / s.regularization).powi(2);
            progress.tick();
        }
        progress.finish();
        // at most: where the data bend the loss, earlier noise is forgotten and H is larger than λ0
        Ok(Released::new(Solution { weights: theta, noise: Some(vec![variance.sqrt(); d]) }))
    }
}

impl NoisyNewton {
    /// (sensitivity of a step over ‖g̃‖ as one record's share under the relation, residual of the solver over ‖g̃‖).
    pub(super) fn sensitivity(&self, problem: &Problem, lambda: f64) -> (f64, f64) {
        let beta = 0.25 * problem.row_norm * problem.row_norm;
        let matrix_error = matrix_error(problem, lambda);
        match (self.inverse, problem.relation()) {
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
}

/// Bound on what floating point does to H, as an error of H: rounding of the sum over any number of records that the plan
/// allows, in blocks ([`Objective::dense_hessian`]), and the decomposition's residual and skewness.
fn matrix_error(problem: &Problem, lambda: f64) -> f64 {
    let (n, d) = (most_rows(problem) as f64, problem.features);
    let bound = n * 0.25 * problem.row_norm * problem.row_norm;
    // products, the sum within a block, over blocks and over chunks
    let sum = UNIT * (32.0 + Objective::summation_depth(n, d)) * bound;
    sum + decomposition_error(d) * 3.0 * (bound + lambda) + 4.0 * d as f64 * UNIT * lambda
}

/// inv(H)·g with H = Σ h_i x_i x_iᵀ at `theta`.
pub(crate) fn newton_step(s: &NewtonSchedule, examples: &Examples, theta: &[f64], g: &[f64]) -> Vec<f64> {
    let d = theta.len();
    let zero = vec![0.0; d];
    let objective = Objective {
        rows: &examples.rows,
        targets: &examples.targets,
        row_norm: s.row_norm,
        loss: s.loss,
        regularization: 0.0,
        linear: &zero,
        target_bound: 1.0,
    };
    let shift = if let Loss::Logistic { shift } = s.loss { shift } else { 0.0 };
    let weights = objective.majorising_curvatures(theta, shift);
    let mut matrix = objective.dense_hessian(&weights);
    for j in 0..d {
        for k in 0..j {
            matrix[k * d + j] = matrix[j * d + k];
        }
    }
    match s.inverse {
        Inverse::Clip => Spectrum::certified(&matrix, d, s.matrix_bound).apply(|w| 1.0 / w.max(s.regularization), g),
        Inverse::Add => {
            (0..d).for_each(|j| matrix[j * d + j] += s.regularization);
            let view = faer::MatRef::from_row_major_slice(&matrix, d, d);
            use faer::linalg::solvers::Solve;
            // λ0 was planned so far above the rounding of H that its factor exists (Higham 2002, theorem 10.7)
            let Ok(factor) = view.llt(faer::Side::Lower) else { return zero };
            let residual_of =
                |x: &[f64]| -> Vec<f64> { (0..d).map(|j| g[j] - dot(&matrix[j * d..(j + 1) * d], x)).collect() };
            let mut step = zero;
            let mut residual = g.to_vec();
            // the plan made sure that the factor's backward error is far below λ0: each pass shrinks the residual tenfold
            for _ in 0..20 {
                if norm(&residual) <= 0.5 * s.residual * norm(g) {
                    break;
                }
                let more = factor.solve(&faer::Col::from_fn(d, |j| residual[j]));
                step.iter_mut().enumerate().for_each(|(j, x)| *x += more[j]);
                residual = residual_of(&step);
            }
            step
        }
    }
}
