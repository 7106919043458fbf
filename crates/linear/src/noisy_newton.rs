//! Double-noise Newton (Ganesh, Haghifam, Steinke, Thakurta 2023): each step releases a noisy gradient g̃,
//! then the Newton step s = H⁻¹g̃ with noise fitted to ‖g̃‖. The matrix H itself is never released.
//!
//! H weighs records by tanh(u/2)/(2u), u = shift − margin: the quadratic upper bound of the logistic loss, so that a step
//! never diverges.

use super::released_preconditioner::refuse_large;
use dpopt_mechanism::{Gaussian, Inverse, Mechanism, NewtonFacts, NewtonStep, SolvedRecords};
use dpopt_noise::Grid;
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::OfRows;
use dpopt_objective::records::Examples;
use dpopt_objective::solver::norm;
use dpopt_optimize::algorithm::{ByRow, Capabilities};
use dpopt_optimize::options::OptionReader;
use dpopt_optimize::options::common::{REGULARIZATION, STEPS};
use dpopt_optimize::oracle::NoisySum;
use dpopt_optimize::plan::{Assumption, NotApplicable, Plan, Problem, Summary};
use dpopt_optimize::planning::{
    SamplerError, Solver, asked_steps, check_problem, gaussian_mu, most_rows, most_rows_assumption, noise, positive,
    sum_grid,
};
use dpopt_optimize::risk::RiskModel;
use dpopt_optimize::{Algorithm, Run, RunError, RunResult, Solution};
use dpopt_privacy::{Budget, Event};
use serde::Serialize;
use std::marker::PhantomData;

/// Options of double-noise Newton. `None` means: chosen from public facts.
#[derive(Clone, Debug, Default)]
pub struct NoisyNewton {
    /// T ≥ 1. Default 6.
    pub steps: Option<u64>,
    /// λ0 > 0. Default (nβ/ρ)^(1/3), β = R²/4, ρ the zCDP of one step's noise: the cube-root law.
    pub regularization: Option<f64>,
    /// How H is regularised.
    pub inverse: Inverse,
    /// Where the rows are.
    pub solver: Solver,
}

/// The schedule of double-noise Newton.
#[derive(Clone, Debug, Serialize)]
pub struct NewtonSchedule {
    /// The loss that is minimised.
    pub loss: Loss,
    /// T: number of Newton steps.
    pub steps: u64,
    /// λ0: regularisation of the matrix H.
    pub regularization: f64,
    /// How H is regularised.
    pub inverse: Inverse,
    /// What the sensitivity of a step follows from.
    #[serde(skip)]
    pub facts: NewtonFacts,
    /// β = R²/4: bound on a record's share of H.
    pub curvature: f64,
    /// Noise multiplier of both releases of each step.
    pub noise_multiplier: f64,
    /// Sensitivity of a step is this times ‖g̃‖ (one record's share under the relation), solver error included.
    pub step_sensitivity: f64,
    /// Extra error of the linear solver allowed for `add`, relative to ‖g̃‖.
    pub residual: f64,
    /// log2 of the grid step of the gradients.
    pub grid_exponent: i32,
}

impl NoisyNewton {
    /// What the sensitivity of its steps follows from.
    pub fn facts(&self, problem: &Problem, regularization: f64) -> NewtonFacts {
        NewtonFacts {
            objective: problem.objective(),
            most_rows: most_rows(problem),
            relation: problem.relation(),
            regularization,
            inverse: self.inverse,
            integers: self.solver == Solver::InPartitions,
        }
    }
}

impl Algorithm for NoisyNewton {
    type Schedule = NewtonSchedule;
    const NAME: &'static str = "noisy-newton";
    const ABOUT: &'static str = "releases noisy gradients and noisy Newton steps; for two labels and few features";
    // it is for two classes
    const CAPABILITIES: Capabilities = Capabilities { sums: true, intervals: false, ..Capabilities::NONE };

    fn read(options: &OptionReader<'_>) -> Self {
        Self {
            steps: options.get(&STEPS),
            regularization: options.get(&REGULARIZATION),
            solver: Solver::of(options),
            ..Self::default()
        }
    }

    fn plan(&self, problem: &Problem, budget: Budget) -> Result<Plan<NewtonSchedule>, NotApplicable> {
        check_problem(problem)?;
        refuse_large(problem)?;
        let Loss::Logistic { .. } = problem.loss else {
            return Err(NotApplicable::Problem(
                "it is proved for the logistic loss only; use logistic, or choose \
                                               another method"
                    .into(),
            ));
        };
        let steps = asked_steps(self.steps)?.unwrap_or(6);
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
        let facts = self.facts(problem, regularization);
        if !facts.are_proved() {
            return Err(NotApplicable::Option("the regularization is too small for this many rows; raise it".into()));
        }
        // half of μ² to gradients, half to steps: all multipliers are equal
        let draws = 2.0 * steps as f64 * d as f64;
        let event = |z: f64| SamplerError::rounded(draws).on(Event::gaussian(z).self_composed(2 * steps));
        let (noise_multiplier, certificate) = noise(problem, budget, event)?;
        let (step_sensitivity, residual) = facts.sensitivity();
        let grid = sum_grid(r, noise_multiplier * r, problem.rows, d)?;
        // a step's noise follows a released gradient: of the size of its noise, or of that of all records
        for size in [noise_multiplier * r, problem.rows as f64 * r] {
            let mut gradient = vec![0.0; d];
            gradient[0] = size;
            let (theta, gradient) = (&[][..], &gradient[..]);
            NewtonStep::<Examples> { facts, theta, gradient, noise_multiplier, records: PhantomData }.can_draw()?;
        }
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
                facts,
                curvature: beta,
                noise_multiplier,
                step_sensitivity,
                residual,
                grid_exponent: grid.exponent(),
            },
        })
    }

    fn run<R: OfRows + 'static>(&self, plan: &Plan<NewtonSchedule>, run: Run<'_, R>) -> RunResult {
        match run.by_row(Self::NAME)? {
            ByRow::Memory(run) => on(&plan.schedule, run),
            ByRow::Disk(_) => Err(RunError::InMemory { method: Self::NAME }),
            ByRow::Partitions(run) => on(&plan.schedule, run),
        }
    }
}

/// All steps, on rows wherever they are.
fn on<R: SolvedRecords + OfRows>(s: &NewtonSchedule, run: Run<'_, R>) -> RunResult {
    let Run { problem, examples, curator, progress } = run;
    let d = problem.features;
    let noise_multiplier = s.noise_multiplier;
    let noise = Gaussian::new(noise_multiplier, problem.row_norm, Grid::new(s.grid_exponent), d, "gradient sum");
    let gradients = NoisySum::new(problem.objective().with_loss(s.loss), noise)?;
    let mut theta = vec![0.0; d];
    let mut variance = 0.0;
    progress.start(NoisyNewton::NAME, s.steps);
    for _ in 0..s.steps {
        let noisy = gradients.release(examples, curator, &theta)?;
        let size = norm(noisy.get());
        if !(size.is_finite() && size > 0.0) {
            return Err(RunError::Numerical("a released gradient is not a number"));
        }
        let newton: NewtonStep<'_, R> =
            NewtonStep { facts: s.facts, theta: &theta, gradient: noisy.get(), noise_multiplier, records: PhantomData };
        let (noise_std, step) = (newton.noise_std(), curator.release(&newton, examples)?);
        theta.iter_mut().zip(step.get()).for_each(|(t, s)| *t -= s);
        variance += noise_std.powi(2) + (s.noise_multiplier * problem.row_norm / s.regularization).powi(2);
        progress.tick();
    }
    progress.finish();
    // at most: where the data bend the loss, earlier noise is forgotten and H is larger than λ0
    Ok(curator.postprocess(Solution { noise: Some(vec![variance.sqrt(); d]), ..theta.into() }))
}
