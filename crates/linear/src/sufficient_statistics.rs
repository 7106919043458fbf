//! Least squares from noisy sufficient statistics, two parts (after AdaSSP, Wang 2018; docs/proofs/sufficient-statistics.md): release XᵀX and
//! Xᵀy once each, regularise by what the smallest eigenvalue of the *noisy* matrix lacks (free: post-processing).

use super::released_preconditioner::refuse_large;
use dpopt_mechanism::{CuratorError, Gaussian, SecondMoment, TargetMoment};
use dpopt_noise::Grid;
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::OfRows;
use dpopt_objective::records::Records;
use dpopt_optimize::algorithm::{ByRow, Capabilities, RowAccess};
use dpopt_optimize::options::OptionReader;
use dpopt_optimize::options::common::REGULARIZATION;
use dpopt_optimize::oracle::NoisyMoment;
use dpopt_optimize::plan::{Assumption, NotApplicable, Plan, Problem, Summary};
use dpopt_optimize::planning::{
    SamplerError, TARGET_BOUND, check_problem, in_range, noise, product_grid, require_delta, sum_grid,
};
use dpopt_optimize::risk::RiskModel;
use dpopt_optimize::{Algorithm, Run, RunResult, Solution};
use dpopt_privacy::{Budget, Event};
use serde::Serialize;

/// Options. `None` means: chosen from public facts.
#[derive(Clone, Debug, Default)]
pub struct SufficientStatistics {
    /// Smallest λ ≥ 0 added to XᵀX. Default 0; the noise adds what it needs.
    pub regularization: Option<f64>,
}

/// The schedule of least squares from sufficient statistics.
#[derive(Clone, Debug, Serialize)]
pub struct SufficientStatisticsSchedule {
    /// Noise multiplier of both releases, over R² and R·max|y|.
    pub noise_multiplier: f64,
    /// Noise standard deviation of the diagonal of XᵀX (off the diagonal: 29/41 of it, nearly 1/√2).
    pub matrix_std: f64,
    /// Noise standard deviation of Xᵀy.
    pub vector_std: f64,
    /// Smallest λ that is added to the matrix.
    pub regularization: f64,
    /// Smallest eigenvalue the regularised matrix must reach: twice the size of the noise, 2s√(2d).
    pub eigenvalue_floor: f64,
    /// log2 of the grid steps of matrix and vector.
    pub grid_exponents: [i32; 2],
}

impl Algorithm for SufficientStatistics {
    type Schedule = SufficientStatisticsSchedule;
    const NAME: &'static str = "sufficient-statistics";
    const ABOUT: &'static str =
        "releases noisy second moments of features and target; for regression with few features";
    const CAPABILITIES: Capabilities = Capabilities { rows: RowAccess::Passes, sums: true, ..Capabilities::NONE };

    fn read(options: &OptionReader<'_>) -> Self {
        Self { regularization: options.get(&REGULARIZATION) }
    }

    fn plan(&self, problem: &Problem, budget: Budget) -> Result<Plan<SufficientStatisticsSchedule>, NotApplicable> {
        check_problem(problem)?;
        require_delta(budget)?;
        if problem.loss != Loss::Squared {
            return Err(NotApplicable::Problem(
                "sufficient statistics exist for the squared loss only; use squared, \
                                               or choose another method"
                    .into(),
            ));
        }
        refuse_large(problem)?;
        let d = problem.features;
        let regularization = in_range("the regularization", self.regularization.unwrap_or(0.0), 0.0, f64::MAX)?;
        let draws = (SecondMoment::coordinates(d) + d) as f64;
        let event =
            |z: f64| SamplerError::rounded(draws).on(Event::composed(vec![Event::gaussian(z), Event::gaussian(z)]));
        let (z, certificate) = noise(problem, budget, event)?;
        let r2 = problem.row_norm * problem.row_norm;
        let (matrix_std, vector_std) = (z * r2, z * problem.row_norm * TARGET_BOUND);
        let grids = [
            product_grid(r2, matrix_std, problem)?,
            sum_grid(problem.row_norm * TARGET_BOUND, vector_std, problem.rows, d)?,
        ];
        let eigenvalue_floor = 2.0 * matrix_std * (2.0 * d as f64).sqrt();
        let risk = RiskModel::of(problem);
        let norm = risk.squared_norm().sqrt();
        // Eθ has variance s²(½‖θ‖² + ½θ_j²) per coordinate, about s²‖θ‖²/2; the regulariser's bias is at most its floor
        let vector_noise = vector_std.hypot(matrix_std * norm * std::f64::consts::FRAC_1_SQRT_2);
        let lambda = regularization + (eigenvalue_floor - risk.rows * risk.smallest_moment()).max(0.0);
        Ok(Plan {
            summary: Summary {
                method: Self::NAME,
                loss: problem.loss,
                noise_multiplier: z,
                steps: 1,
                gradients: problem.rows as f64,
                weight_noise: None,
                predicted_excess_risk: risk.regularized(lambda, vector_noise, 0.0),
                certificate,
                assumptions: vec![Assumption::enforced(
                    "rows and targets are bounded: enforced per record in exact integers",
                )],
                warnings: Vec::new(),
            },
            schedule: SufficientStatisticsSchedule {
                noise_multiplier: z,
                matrix_std,
                vector_std,
                regularization,
                eigenvalue_floor,
                grid_exponents: grids.map(Grid::exponent),
            },
        })
    }

    /// One for each statistic.
    fn passes(&self, _: &Plan<SufficientStatisticsSchedule>, _: &Problem) -> u64 {
        2
    }

    fn run<R: OfRows + 'static>(&self, plan: &Plan<SufficientStatisticsSchedule>, run: Run<'_, R>) -> RunResult {
        match run.by_row(Self::NAME)? {
            ByRow::Memory(run) => on(&plan.schedule, run),
            ByRow::Disk(run) => on(&plan.schedule, run),
            ByRow::Partitions(run) => on(&plan.schedule, run),
        }
    }
}

/// The two releases, on rows wherever they are.
fn on<R: Records>(s: &SufficientStatisticsSchedule, run: Run<'_, R>) -> RunResult {
    let Run { problem, examples, curator, progress } = run;
    let d = problem.features;
    let r = problem.row_norm;
    let [matrix_grid, vector_grid] = s.grid_exponents.map(Grid::new);
    progress.start(SufficientStatistics::NAME, 2);
    let noise_multiplier = s.noise_multiplier;
    let moment = NoisyMoment { row_norm: r, factor: 1.0, noise_multiplier, grid: matrix_grid };
    let spectrum = moment.release(examples, curator, d)?;
    progress.tick();
    let bound = r * TARGET_BOUND;
    let release = Gaussian::new(s.noise_multiplier, bound, vector_grid, d, "features times target");
    let moment = TargetMoment::new(TARGET_BOUND, r, vector_grid)?.sum(examples).map_err(CuratorError::unreadable)?;
    let vector = curator.release(&release, &moment)?;
    progress.tick();
    progress.finish();
    let lambda = s.regularization + (s.eigenvalue_floor - spectrum.smallest()).max(0.0);
    Ok(vector.map(|v| {
        let inverse = |w: f64| 1.0 / (w + lambda);
        let weights = spectrum.apply(inverse, &v);
        // e − Eθ, the noise of vector and matrix, has covariance s_b²I + s_A²(‖θ‖²I + θθᵀ)/2
        let size: f64 = weights.iter().map(|t| t * t).sum();
        let half = 0.5 * s.matrix_std * s.matrix_std;
        let spread = spectrum.diagonal(|w| inverse(w).powi(2));
        let along = spectrum.apply(inverse, &weights);
        let noise = spread
            .iter()
            .zip(&along)
            .map(|(p, a)| ((s.vector_std * s.vector_std + half * size) * p + half * a * a).sqrt())
            .collect();
        Solution { noise: Some(noise), ..weights.into() }
    }))
}
