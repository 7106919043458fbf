//! Output perturbation: a regularised minimiser with a certified gradient, plus Gaussian noise (docs/proofs/output-perturbation.md).
//!
//! Two neighbours' minimisers differ by at most L/λ (zero-out), the solver's error adds 2τ/λ and the grid h√d. The noise
//! is the same in every direction, also where the data would determine the answer, so other methods are usually better.

use dpopt_mechanism::{Mechanism, PerturbedMinimiser, SolvedRecords, closing_grid};
use dpopt_noise::Grid;
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::OfRows;
use dpopt_objective::records::RemoteRecords;
use dpopt_objective::solver::Accuracy;
use dpopt_optimize::algorithm::{ByRow, Capabilities};
use dpopt_optimize::options::OptionReader;
use dpopt_optimize::options::common::{CLIP_NORM, REGULARIZATION, SHIFT};
use dpopt_optimize::plan::{Assumption, NotApplicable, Plan, Problem, Summary};
use dpopt_optimize::planning::{
    SamplerError, Solver, TARGET_BOUND, check_problem, gaussian_mu, in_range, most_rows, most_rows_assumption, noise,
    positive,
};
use dpopt_optimize::risk::RiskModel;
use dpopt_optimize::{Algorithm, Run, RunError, RunResult, Solution};
use dpopt_privacy::{Budget, Event};
use dpopt_refusal::{option, text};
use serde::Serialize;
use std::marker::PhantomData;

/// Options of output perturbation. `None` means: chosen from public facts.
#[derive(Clone, Debug, Default)]
pub struct OutputPerturbation {
    /// λ > 0 of the sum objective. Default L·R/(κμ) with κ = 1 in units of a useful score.
    pub regularization: Option<f64>,
    /// Shift of a logistic loss, ≥ 0. Default 2.
    pub shift: Option<f64>,
    /// Slope bound of Huber's loss when the problem's loss is squared. Default 0.5.
    pub clip_norm: Option<f64>,
    /// Where the rows are.
    pub solver: Solver,
}

/// The schedule of output perturbation.
#[derive(Clone, Debug, Serialize)]
pub struct OutputSchedule {
    /// The loss that is minimised.
    pub loss: Loss,
    /// λ of the sum objective.
    pub regularization: f64,
    /// τ: certified bound on the gradient norm of the sum objective.
    pub tolerance: f64,
    /// Steps within which it is certified, whatever the records.
    pub most_solver_steps: u64,
    /// Sensitivity of the rounded minimiser to one record.
    pub sensitivity: f64,
    /// Noise standard deviation over the sensitivity.
    pub noise_multiplier: f64,
    /// Noise standard deviation per weight.
    pub noise_std: f64,
    /// log2 of the grid step h.
    pub grid_exponent: i32,
}

impl OutputSchedule {
    /// The release of rows in memory: sensitivity and noise are its own.
    pub fn mechanism(&self, problem: &Problem) -> PerturbedMinimiser {
        self.mechanism_of(problem)
    }

    /// The release, of rows wherever they are.
    pub fn mechanism_of<R: SolvedRecords>(&self, problem: &Problem) -> PerturbedMinimiser<R> {
        PerturbedMinimiser {
            objective: problem.objective().with_loss(self.loss),
            regularization: self.regularization,
            most_rows: most_rows(problem),
            relation: problem.relation(),
            noise_multiplier: self.noise_multiplier,
            grid: Grid::new(self.grid_exponent),
            target_bound: TARGET_BOUND,
            records: PhantomData,
        }
    }
}

/// Refuses a shift of a loss that is not logistic, and a slope bound of one that has its own.
pub(crate) fn check_shape(loss: Loss, shift: Option<f64>, threshold: Option<f64>) -> Result<(), NotApplicable> {
    if shift.is_some() && !matches!(loss, Loss::Logistic { .. }) {
        return Err(NotApplicable::Option(
            text![option("shift"), " works only with the logistic loss of two labels; leave it out"].into(),
        ));
    }
    if threshold.is_some() && loss != Loss::Squared {
        return Err(NotApplicable::Option(
            text![
                option("clip_norm"),
                " only bounds the gradient of the squared loss here, and this loss has its own bound; leave it out, \
                 or choose an iterative method such as noisy-sgd"
            ]
            .into(),
        ));
    }
    Ok(())
}

/// The convex, smooth loss with bounded slope that a minimising method uses in place of the problem's: a logistic loss has the
/// asked `shift`, squared error the slope bound `threshold`; other losses have neither.
pub fn smooth_loss(loss: Loss, shift: Option<f64>, threshold: Option<f64>) -> Result<Loss, NotApplicable> {
    check_shape(loss, shift, threshold)?;
    match loss {
        // an explicit shift of the problem's loss is kept; 2 was best on synthetic tables
        Loss::Logistic { shift: given } => {
            let shift = shift.unwrap_or(if given > 0.0 { given } else { 2.0 });
            Ok(Loss::Logistic { shift: in_range("the shift", shift, 0.0, 20.0)? })
        }
        Loss::Squared => Ok(Loss::Huber { threshold: positive("the clip norm", threshold.unwrap_or(0.5))? }),
        Loss::Huber { .. } | Loss::SmoothedHinge { .. } | Loss::Softmax { .. } | Loss::Quantile { .. } => Ok(loss),
        Loss::Sigmoid => Err(NotApplicable::Problem(
            "this loss is not convex, so that nothing bounds how far one record moves its minimiser; use logistic, \
             or an iterative method such as noisy-sgd"
                .into(),
        )),
        Loss::Poisson { .. } => Err(NotApplicable::Problem(
            "nothing is proved of how far one count moves the minimiser of the Poisson loss; choose a method that clips \
             gradients, such as adaptive-clip-descent or noisy-gradient-descent, or the squared loss"
                .into(),
        )),
        Loss::Absolute | Loss::Hinge => Err(NotApplicable::Problem(
            "this loss is not smooth; use huber instead of absolute, smoothed-hinge instead of hinge".into(),
        )),
    }
}

impl Algorithm for OutputPerturbation {
    type Schedule = OutputSchedule;
    const NAME: &'static str = "output-perturbation";
    const ABOUT: &'static str = "releases the minimiser plus noise; a baseline for smooth losses";
    const CAPABILITIES: Capabilities = Capabilities { sums: true, ..Capabilities::NONE };

    fn read(options: &OptionReader<'_>) -> Self {
        Self {
            regularization: options.get(&REGULARIZATION),
            shift: options.get(&SHIFT),
            clip_norm: options.get(&CLIP_NORM),
            solver: Solver::of(options),
        }
    }

    fn plan(&self, problem: &Problem, budget: Budget) -> Result<Plan<OutputSchedule>, NotApplicable> {
        check_problem(problem)?;
        let loss = smooth_loss(problem.loss, self.shift, self.clip_norm)?;
        let slope = loss.facts().lipschitz.unwrap_or(1.0);
        let lipschitz = slope * problem.row_norm;
        let mu = gaussian_mu(problem, budget)?;
        let risk = RiskModel::of(problem);
        let predicted = |lambda: f64, noise_std: f64| risk.regularized(lambda, 0.0, noise_std / RiskModel::pull(loss));
        let tried = |lambda: f64| match self.solver.accuracy(problem, loss, lambda, 0.0) {
            Ok(_) => predicted(lambda, lipschitz / (lambda * mu)),
            Err(_) => f64::INFINITY,
        };
        let regularization = match self.regularization {
            Some(lambda) => positive("the regularization", lambda)?,
            // from where the noise of a score is L·R/(λμ) = 1, up or down to the best prediction: factors of √2
            None => (-40..=40)
                .map(|k| lipschitz * problem.row_norm / mu * 2f64.powf(0.5 * f64::from(k)))
                .min_by(|a, b| tried(*a).total_cmp(&tried(*b)))
                .unwrap_or(lipschitz * problem.row_norm / mu),
        };
        let dimension = problem.weights();
        let event = |z: f64| SamplerError::rounded(dimension as f64).on(Event::gaussian(z));
        let (noise_multiplier, certificate) = noise(problem, budget, event)?;
        let Accuracy { tolerance, steps } = self.solver.accuracy(problem, loss, regularization, 0.0)?;
        let bare = (lipschitz + 2.0 * tolerance) / regularization;
        let grid = closing_grid(bare * noise_multiplier, bare, dimension);
        let mut schedule = OutputSchedule {
            loss,
            regularization,
            tolerance,
            most_solver_steps: steps,
            sensitivity: 0.0,
            noise_multiplier,
            noise_std: 0.0,
            grid_exponent: grid.exponent(),
        };
        (schedule.sensitivity, schedule.noise_std) = match self.solver {
            Solver::Here => scales(&schedule.mechanism(problem))?,
            Solver::InPartitions => scales(&schedule.mechanism_of::<RemoteRecords>(problem))?,
        };
        let noise_std = schedule.noise_std;
        Ok(Plan {
            summary: Summary {
                method: Self::NAME,
                loss,
                noise_multiplier,
                steps: 1,
                gradients: problem.rows as f64 * self.solver.passes(),
                weight_noise: Some(noise_std),
                predicted_excess_risk: predicted(regularization, noise_std),
                certificate,
                assumptions: [
                    Assumption::enforced("every row has norm at most the row norm: enforced when rows are built"),
                    Assumption::proved(
                        "the gradient at the minimiser is certified to be below the public tolerance before anything \
                         is released",
                    ),
                ]
                .into_iter()
                .chain(most_rows_assumption(problem))
                .collect(),
                warnings: Vec::new(),
            },
            schedule,
        })
    }

    fn run<R: OfRows + 'static>(&self, plan: &Plan<OutputSchedule>, run: Run<'_, R>) -> RunResult {
        match run.by_row(Self::NAME)? {
            ByRow::Memory(run) => on(&plan.schedule, run),
            ByRow::Disk(_) => Err(RunError::InMemory { method: Self::NAME }),
            ByRow::Partitions(run) => on(&plan.schedule, run),
        }
    }
}

/// Sensitivity, and noise per weight, where it can be drawn.
fn scales<R: SolvedRecords>(mechanism: &PerturbedMinimiser<R>) -> Result<(f64, f64), NotApplicable> {
    mechanism.can_draw()?;
    Ok((mechanism.sensitivity(), mechanism.noise_std()))
}

/// The one release, of rows wherever they are.
fn on<R: SolvedRecords + OfRows>(schedule: &OutputSchedule, run: Run<'_, R>) -> RunResult {
    let Run { problem, examples, curator, progress } = run;
    progress.start(OutputPerturbation::NAME, 1);
    let released = curator.release(&schedule.mechanism_of::<R>(problem), examples)?;
    progress.tick();
    progress.finish();
    Ok(released.map(Solution::from))
}
