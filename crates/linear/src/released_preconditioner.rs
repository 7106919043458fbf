//! DP gradient descent with a released preconditioner: the matrix βΣxxᵀ, which dominates every Hessian, is
//! released once with isometric Gaussian noise; then T noisy gradient steps are taken in its geometry.

use super::descent::default_clip_norm;
use dpopt_mechanism::{Gaussian, SecondMoment};
use dpopt_noise::Grid;
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::OfRows;
use dpopt_objective::records::Records;
use dpopt_objective::solver::Spectrum;
use dpopt_optimize::algorithm::{ByRow, Capabilities};
use dpopt_optimize::driver::{Course, Driver, drive};
use dpopt_optimize::options::OptionReader;
use dpopt_optimize::options::common::{CLIP_NORM, REGULARIZATION, STEPS};
use dpopt_optimize::oracle::{NoisyMoment, NoisySum};
use dpopt_optimize::plan::{Assumption, NotApplicable, Plan, Problem, Summary};
use dpopt_optimize::planning::{
    SamplerError, asked_steps, check_problem, gaussian_mu, in_range, noise, positive, product_grid, sum_grid,
};
use dpopt_optimize::risk::RiskModel;
use dpopt_optimize::{Algorithm, Run, RunError, RunResult, Solution};
use dpopt_privacy::{Budget, Event};
use serde::Serialize;

/// Options. `None` means: chosen from public facts.
#[derive(Clone, Debug)]
pub struct ReleasedPreconditioner {
    /// T ≥ 1. Default 32.
    pub steps: Option<u64>,
    /// C > 0: l2 bound on a record's gradient. Default: half of the loss's own bound.
    pub clip_norm: Option<f64>,
    /// λ > 0 of the sum objective. Default R²/(8μ).
    pub regularization: Option<f64>,
    /// Share of μ² that pays for the matrix, in (0, 1). Default 0.4.
    pub matrix_share: f64,
}

impl Default for ReleasedPreconditioner {
    fn default() -> Self {
        Self { steps: None, clip_norm: None, regularization: None, matrix_share: 0.4 }
    }
}

/// The schedule of preconditioned descent.
#[derive(Clone, Debug, Serialize)]
pub struct PreconditionedSchedule {
    /// The loss that is minimised.
    pub loss: Loss,
    /// T: number of noisy steps.
    pub steps: u64,
    /// C of the gradients.
    pub clip_norm: f64,
    /// λ of the sum objective.
    pub regularization: f64,
    /// β: bound on the loss's curvature; the released matrix is βΣxxᵀ.
    pub smoothness: f64,
    /// Noise multiplier of the matrix, over βR².
    pub matrix_multiplier: f64,
    /// γ: what is added to the matrix so that its noise cannot make a step too long.
    pub damping: f64,
    /// Noise multiplier of each gradient sum, over C.
    pub gradient_multiplier: f64,
    /// log2 of the grid steps of matrix and gradients.
    pub grid_exponents: [i32; 2],
}

/// Largest d for which a d × d matrix is released: beyond, its noise (norm s√(2d)) and its size defeat the purpose.
pub(crate) const LARGEST_MATRIX: usize = 1000;

pub(crate) fn refuse_large(problem: &Problem) -> Result<(), NotApplicable> {
    if problem.features > LARGEST_MATRIX {
        return Err(NotApplicable::Problem(
            format!(
                "a {0} x {0} matrix is too large to release; use at most {LARGEST_MATRIX} features, or choose \
                 another method",
                problem.features
            )
            .into(),
        ));
    }
    Ok(())
}

impl Algorithm for ReleasedPreconditioner {
    type Schedule = PreconditionedSchedule;
    const NAME: &'static str = "released-preconditioner";
    const ABOUT: &'static str =
        "releases the noisy second-moment matrix once, then noisy gradients; for features of very different scale";

    const CAPABILITIES: Capabilities = Capabilities { sums: true, ..Capabilities::NONE };

    fn read(options: &OptionReader<'_>) -> Self {
        Self {
            steps: options.get(&STEPS),
            clip_norm: options.get(&CLIP_NORM),
            regularization: options.get(&REGULARIZATION),
            ..Self::default()
        }
    }

    fn plan(&self, problem: &Problem, budget: Budget) -> Result<Plan<PreconditionedSchedule>, NotApplicable> {
        check_problem(problem)?;
        refuse_large(problem)?;
        let Some(smoothness) = problem.loss.facts().smoothness.filter(|_| problem.loss.facts().convex) else {
            return Err(NotApplicable::Problem(
                "a preconditioner needs a smooth loss; use smoothed-hinge or huber".into(),
            ));
        };
        let mu = gaussian_mu(problem, budget)?;
        let r2 = problem.row_norm * problem.row_norm;
        let share = in_range("the matrix share", self.matrix_share, 0.01, 0.99)?;
        let steps = asked_steps(self.steps)?.unwrap_or(32);
        let clip_norm = positive("the clip norm", self.clip_norm.unwrap_or_else(|| default_clip_norm(problem)))?;
        let regularization = match self.regularization {
            Some(lambda) => positive("the regularization", lambda)?,
            None => r2 / (8.0 * mu),
        };
        let d = problem.features;
        let weights = problem.weights();
        // one parameter t ≈ 1/μ scales both: 1/z_A² = share/t², T/z_g² = (1 − share)/t²
        let matrix_of = |t: f64| t / share.sqrt();
        let gradient_of = |t: f64| t * (steps as f64 / (1.0 - share)).sqrt();
        let draws = SecondMoment::coordinates(d) as f64 + steps as f64 * weights as f64;
        let event = |t: f64| {
            let parts = vec![Event::gaussian(matrix_of(t)), Event::gaussian(gradient_of(t)).self_composed(steps)];
            SamplerError::rounded(draws).on(Event::composed(parts))
        };
        let (t, certificate) = noise(problem, budget, event)?;
        let (matrix_multiplier, gradient_multiplier) = (matrix_of(t), gradient_of(t));
        let matrix_std = matrix_multiplier * smoothness * r2;
        let damping = matrix_std * (2.0 * d as f64).sqrt();
        let grids = [
            product_grid(smoothness * r2, matrix_std, problem)?,
            sum_grid(clip_norm, gradient_multiplier * clip_norm, problem.rows, weights)?,
        ];
        let lipschitz = problem.lipschitz();
        let predicted = RiskModel::of(problem).clipped(clip_norm, lipschitz).preconditioned(
            steps as f64,
            smoothness,
            regularization,
            damping,
            gradient_multiplier * clip_norm,
        );
        Ok(Plan {
            summary: Summary {
                method: Self::NAME,
                loss: problem.loss,
                noise_multiplier: gradient_multiplier,
                steps,
                gradients: problem.rows as f64 * steps as f64,
                weight_noise: None,
                predicted_excess_risk: predicted,
                certificate,
                assumptions: vec![Assumption::enforced(
                    "each record's gradient and outer product have bounded norm: enforced in exact integers",
                )],
                warnings: Vec::new(),
            },
            schedule: PreconditionedSchedule {
                loss: problem.loss,
                steps,
                clip_norm,
                regularization,
                smoothness,
                matrix_multiplier,
                damping,
                gradient_multiplier,
                grid_exponents: grids.map(Grid::exponent),
            },
        })
    }

    fn run<R: OfRows + 'static>(&self, plan: &Plan<PreconditionedSchedule>, run: Run<'_, R>) -> RunResult {
        match run.by_row(Self::NAME)? {
            ByRow::Memory(run) => on(&plan.schedule, run),
            ByRow::Disk(_) => Err(RunError::InMemory { method: Self::NAME }),
            ByRow::Partitions(run) => on(&plan.schedule, run),
        }
    }

    /// One for the matrix.
    fn passes(&self, plan: &Plan<PreconditionedSchedule>, _: &Problem) -> u64 {
        plan.schedule.steps + 1
    }
}

/// The matrix and all steps, on rows wherever they are.
fn on<R: Records + OfRows>(s: &PreconditionedSchedule, run: Run<'_, R>) -> RunResult {
    let Run { problem, examples, curator, progress } = run;
    let d = problem.features;
    let weights = problem.weights();
    progress.start(ReleasedPreconditioner::NAME, s.steps + 1);

    let moment = NoisyMoment {
        row_norm: problem.row_norm,
        factor: s.smoothness,
        noise_multiplier: s.matrix_multiplier,
        grid: Grid::new(s.grid_exponents[0]),
    };
    let spectrum = moment.release(examples, curator, d)?;
    progress.tick();

    let grid = Grid::new(s.grid_exponents[1]);
    let noise = Gaussian::new(s.gradient_multiplier, s.clip_norm, grid, weights, "gradient sum");
    let gradients = NoisySum::new(problem.objective().with_loss(s.loss), noise)?;
    let shift = s.regularization + s.damping;
    let mut driver = Preconditioned { spectrum: &spectrum, features: d, regularization: s.regularization, shift };
    // everything is on the scale of sums here
    let course = Course { steps: s.steps, first_averaged: s.steps / 2, per_record: 1.0 };
    let mean =
        drive(&mut driver, course, vec![0.0; weights], progress, |theta| gradients.release(examples, curator, theta))?;
    progress.finish();
    let gradient_std = s.gradient_multiplier * s.clip_norm;
    // a step forgets at least the share λ/(w + γ + λ) of earlier noise, and what the data bend comes on top; the noise of
    // the matrix itself moves the answer in second order only
    let variance = |w: f64| {
        let step = 1.0 / (w.max(0.0) + shift);
        (gradient_std * step).powi(2) * variance_of_last_half(1.0 - s.regularization * step, s.steps)
    };
    let noise: Vec<f64> = spectrum.diagonal(variance).iter().map(|v| v.sqrt()).collect();
    Ok(curator.postprocess(Solution { noise: Some(noise.repeat(weights / d)), ..mean.into() }))
}

/// θ ← θ − (H + λ + γ)⁻¹(g + λθ), for each output: H is the released matrix, its negative eigenvalues at 0.
struct Preconditioned<'a> {
    spectrum: &'a Spectrum,
    features: usize,
    /// λ: regularisation of the sum objective.
    regularization: f64,
    /// λ + γ: what is added to the diagonal of the matrix.
    shift: f64,
}

impl Driver for Preconditioned<'_> {
    fn step(&mut self, _: u64, weights: &mut [f64], gradient: &[f64]) {
        for (theta, g) in weights.chunks_exact_mut(self.features).zip(gradient.chunks_exact(self.features)) {
            let total: Vec<f64> = g.iter().zip(&*theta).map(|(g, t)| g + self.regularization * t).collect();
            let direction = self.spectrum.apply(|w| 1.0 / (w.max(0.0) + self.shift), &total);
            theta.iter_mut().zip(direction).for_each(|(t, s)| *t -= s);
        }
    }
}

/// Variance of the mean of the last half of x_t = a·x_{t−1} + e_t, t = 1…T, x_0 = 0, with e_t of variance 1.
fn variance_of_last_half(a: f64, steps: u64) -> f64 {
    let first = steps / 2;
    let averaged = (steps - first) as f64;
    // e_t reaches the mean through every averaged x_s, s ≥ t, as a^(s−t): sums of geometric series, from the last t back
    let (mut reach, mut variance) = (0.0, 0.0);
    for t in (0..steps).rev() {
        reach = if t >= first { 1.0 + a * reach } else { a * reach };
        variance += (reach / averaged).powi(2);
    }
    variance
}
