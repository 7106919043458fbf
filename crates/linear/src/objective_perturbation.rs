//! Objective perturbation (Chaudhuri, Monteleoni, Sarwate 2011; docs/proofs/objective-perturbation.md): minimise Σφ + (λ/2)‖θ‖² + b·θ for a secret
//! Gaussian b, close with a little noise.
//!
//! For logistic losses with λ ≥ R²/(ε + R²/(2σ²)) the change of variables is free: it costs exactly one Gaussian release
//! of sensitivity R (corollary A1), with noise that is small wherever the data determine the answer. The default for
//! binary classification.

use super::output_perturbation::smooth_loss;
use dpopt_mechanism::{Mechanism, PerturbedObjective, SolvedRecords, closing_grid, largest_linear_term};
use dpopt_noise::Grid;
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::OfRows;
use dpopt_objective::records::RemoteRecords;
use dpopt_objective::solver::Accuracy;
use dpopt_optimize::algorithm::{ByRow, Capabilities};
use dpopt_optimize::options::OptionReader;
use dpopt_optimize::options::common::{CLIP_NORM, REGULARIZATION, SHIFT};
use dpopt_optimize::plan::{Assumption, NotApplicable, Plan, Problem, Summary, certify};
use dpopt_optimize::planning::{
    SamplerError, Solver, TARGET_BOUND, check_problem, most_rows, most_rows_assumption, noise, positive, remaining_mu,
    require_delta,
};
use dpopt_optimize::risk::RiskModel;
use dpopt_optimize::{Algorithm, Run, RunError, RunResult, Solution};
use dpopt_privacy::event::GlmLink;
use dpopt_privacy::{Budget, Event, Relation, Shown, special};
use serde::Serialize;
use std::marker::PhantomData;

/// Options of objective perturbation. `None` means: chosen from public facts.
#[derive(Clone, Debug, Default)]
pub struct ObjectivePerturbation {
    /// λ > 0 of the sum objective; raised where the proof needs more. Default L·R/(κμ), κ = 3 in units of a score; larger where
    /// closing noise would cost more than a tenth.
    pub regularization: Option<f64>,
    /// Shift of a logistic loss, 0 to 20. Default 2 (best accuracy at small ε); 0 for calibrated probabilities.
    pub shift: Option<f64>,
    /// Slope bound of Huber's loss when the problem's loss is squared. Default 0.5.
    pub clip_norm: Option<f64>,
    /// Where the rows are.
    pub solver: Solver,
}

/// The schedule of objective perturbation.
#[derive(Clone, Debug, Serialize)]
pub struct ObjectiveSchedule {
    /// The loss that is minimised.
    pub loss: Loss,
    /// λ of the sum objective.
    pub regularization: f64,
    /// σ: standard deviation of b.
    pub linear_std: f64,
    /// log2 of the grid step of b.
    pub linear_grid_exponent: i32,
    /// τ: certified bound on the gradient norm of the perturbed objective.
    pub tolerance: f64,
    /// Steps within which it is certified, whatever the records.
    pub most_solver_steps: u64,
    /// Multiplier of the closing noise.
    pub closing_multiplier: f64,
    /// Standard deviation of the closing noise per weight.
    pub closing_std: f64,
    /// log2 of the grid step of the released weights.
    pub closing_grid_exponent: i32,
    /// What the answer is multiplied with: the order of scores stays, and they become no surer than their noise allows.
    pub answer_scale: f64,
    /// Multiplier of b, and λ in the units of the proof: what the event is made of.
    #[serde(skip)]
    pub multipliers: [f64; 2],
}

impl ObjectiveSchedule {
    /// The release of rows in memory.
    pub fn mechanism(&self, problem: &Problem) -> PerturbedObjective {
        self.mechanism_of(problem)
    }

    /// The release, of rows wherever they are.
    pub fn mechanism_of<R: SolvedRecords>(&self, problem: &Problem) -> PerturbedObjective<R> {
        let [noise_multiplier, relative_regularization] = self.multipliers;
        PerturbedObjective {
            objective: problem.objective().with_loss(self.loss),
            noise_multiplier,
            relative_regularization,
            linear_grid: Grid::new(self.linear_grid_exponent),
            most_rows: most_rows(problem),
            closing_multiplier: self.closing_multiplier,
            closing_grid: Grid::new(self.closing_grid_exponent),
            target_bound: TARGET_BOUND,
            relation: problem.relation(),
            records: PhantomData,
        }
    }
}

/// Standard deviation of the closing noise, if all noise can be drawn.
fn closing<R: SolvedRecords>(release: &PerturbedObjective<R>) -> Result<f64, NotApplicable> {
    release.can_draw()?;
    Ok(release.closing_std())
}

/// Least noise of a score in a flat direction that λ is chosen for where a loss has labels. Bias and noise of the *loss* balance at less where there is much noise,
/// but labels follow the order of scores alone, and what is shrunk that far follows the directions that all rows have in common (docs/decisions/0056).
const LEAST_NOISE_OF_LABELS: f64 = 1.2;

/// Share of ε (at most of 1) and of δ that pays for the closing noise: costs the main noise about 0.1%.
const CLOSING_SHARE: f64 = 1e-3;

impl ObjectivePerturbation {
    fn schedule(
        &self,
        problem: &Problem,
        budget: Budget,
    ) -> Result<(ObjectiveSchedule, dpopt_privacy::Certificate, f64), NotApplicable> {
        check_problem(problem)?;
        require_delta(budget)?;
        let loss = smooth_loss(problem.loss, self.shift, self.clip_norm)?;
        let facts = loss.facts();
        let (Some(slope), Some(link)) = (facts.lipschitz, facts.link) else {
            return Err(NotApplicable::Problem(
                "it needs a loss with bounded gradient; choose logistic or huber".into(),
            ));
        };
        // Theorems A and B are stated for slopes in [0, 1]: divide the whole objective by C. Softmax keeps its √2 inside
        // the event.
        let c = if matches!(link, GlmLink::Softmax { .. }) { 1.0 } else { slope };
        let r = problem.row_norm;
        let (epsilon, delta) = (budget.epsilon(), budget.delta());
        let (closing_epsilon, closing_delta) = (CLOSING_SHARE * epsilon.min(1.0), CLOSING_SHARE * delta);
        let (main_epsilon, main_delta) = (epsilon - closing_epsilon, delta - closing_delta);
        let neighbours = problem.relation().sum_sensitivity();
        let closing_multiplier = special::gaussian_noise_multiplier(closing_epsilon, closing_delta) * neighbours;
        let mu = remaining_mu(problem, main_epsilon, main_delta) / neighbours;
        let wanted = match self.regularization {
            Some(lambda) => positive("the regularization", lambda)?,
            None => {
                let risk = RiskModel::of(problem);
                let score = match &problem.directions {
                    None => super::descent::tolerable_noise(problem.loss),
                    Some(_) => {
                        let balanced = risk.tolerable_noise(slope * r / mu / RiskModel::pull(loss), r);
                        if is_scaled(loss) { balanced.max(LEAST_NOISE_OF_LABELS) } else { balanced }
                    }
                };
                let usual = slope * r * r / (score * mu);
                // with many rows and a small λ the certificate is coarser, and closing noise covers it: λ is raised by factors of
                // √2 until that costs less than a tenth
                let quiet = |lambda: &f64| {
                    let linear = c * r / mu / RiskModel::pull(loss);
                    let b = largest_linear_term(c * r / mu, problem.weights());
                    self.solver.accuracy(problem, loss, *lambda, b).is_ok_and(|a| {
                        let closing = 2.1 * closing_multiplier * a.tolerance / lambda / neighbours;
                        risk.regularized(*lambda, linear, closing) <= 1.1 * risk.regularized(*lambda, linear, 0.0)
                    })
                };
                (0..=40).map(|k| usual * 2f64.powf(0.5 * f64::from(k))).find(quiet).unwrap_or(usual)
            }
        } / (c * r * r);
        // λ/(C·R²) as a function of the multiplier
        let regularization = |z: f64| match determinant_is_free(link, problem) {
            true => wanted.max(1.0 / (main_epsilon + 0.5 / (z * z))),
            // it costs ln(1 + β/λ): at most a quarter of ε
            false => wanted.max(curvature_of(link) / (0.25 * main_epsilon).exp_m1()),
        };
        let dimension = problem.weights();
        let event = |z: f64| {
            let main = Event::ObjectivePerturbation { noise_multiplier: z, regularization: regularization(z), link };
            let parts = vec![main, Event::gaussian(closing_multiplier)];
            // both noises, and that no entry of b is above 13σ (2·10^-38): the solver's promise is for such b
            SamplerError::rounded(3.0 * dimension as f64).on(Event::composed(parts))
        };
        let free = determinant_is_free(link, problem).then_some(mu);
        let (multiplier, certificate) = least_noise(problem, budget, free, event)?;
        let lambda = regularization(multiplier) * c * r * r;
        let linear_std = multiplier * c * r;
        // the grid of b enters τ' = τ + h_b√d/2: at most 1% of τ
        let root = (dimension as f64).sqrt();
        let Accuracy { tolerance, steps } =
            self.solver.accuracy(problem, loss, lambda, largest_linear_term(linear_std, dimension))?;
        let linear_grid =
            Grid::new(((tolerance / (64.0 * root)).min(linear_std * 2f64.powi(-20))).log2().floor() as i32);
        let linear_grid = Grid::new(linear_grid.exponent().max((linear_std.log2() - 55.0).ceil() as i32));
        let reached = tolerance + 0.5 * linear_grid.step() * root;
        let bare = 2.0 * reached / lambda;
        let grid = closing_grid(closing_multiplier * bare / neighbours, bare, dimension);
        let mut schedule = ObjectiveSchedule {
            loss,
            regularization: lambda,
            linear_std,
            linear_grid_exponent: linear_grid.exponent(),
            tolerance,
            most_solver_steps: steps,
            closing_multiplier,
            closing_std: 0.0,
            closing_grid_exponent: grid.exponent(),
            answer_scale: 1.0,
            multipliers: [multiplier, regularization(multiplier)],
        };
        schedule.closing_std = match self.solver {
            Solver::Here => closing(&schedule.mechanism(problem))?,
            Solver::InPartitions => closing(&schedule.mechanism_of::<RemoteRecords>(problem))?,
        };
        Ok((schedule, certificate, multiplier))
    }

    /// Predicted excess risk, and what to multiply the answer with for it; who chose λ gets the answer as it is.
    fn predicted(&self, problem: &Problem, schedule: &ObjectiveSchedule) -> (f64, f64) {
        let risk = RiskModel::of(problem);
        let (lambda, noise) = (schedule.regularization, schedule.linear_std / RiskModel::pull(schedule.loss));
        match is_scaled(schedule.loss) && self.regularization.is_none() {
            true => risk.scaled_regularized(lambda, noise, schedule.closing_std),
            false => (1.0, risk.regularized(lambda, noise, schedule.closing_std)),
        }
    }
}

/// Whether what is minimised has labels, which the scale of scores does not change.
fn is_scaled(loss: Loss) -> bool {
    matches!(loss, Loss::Logistic { .. })
}

/// Whether the determinant of the Jacobian costs nothing (Corollary A1).
fn determinant_is_free(link: GlmLink, problem: &Problem) -> bool {
    link == GlmLink::Monotone && matches!(problem.relation(), Relation::ZeroOut | Relation::AddOrRemove)
}

/// The least noise multiplier that is certified. One Gaussian's noise at (ε, δ) less the closing share, that of `mu`, is proved without a search where the determinant is
/// free, and within 0.1% of the smallest that a search finds.
fn least_noise(
    problem: &Problem,
    budget: Budget,
    free: Option<f64>,
    event: impl Fn(f64) -> Event,
) -> Result<(f64, dpopt_privacy::Certificate), NotApplicable> {
    let known = free.and_then(|mu| {
        let multiplier = (1e9 / mu).ceil() * 1e-9;
        certify(&event(multiplier), problem, budget).ok().map(|certificate| (multiplier, certificate))
    });
    match known {
        Some(known) => Ok(known),
        None => noise(problem, budget, event),
    }
}

fn curvature_of(link: GlmLink) -> f64 {
    match link {
        GlmLink::Monotone => 0.25,
        GlmLink::Smooth { smoothness } => smoothness,
        GlmLink::Softmax { classes } => 1.0 - 1.0 / f64::from(classes),
    }
}

impl Algorithm for ObjectivePerturbation {
    type Schedule = ObjectiveSchedule;
    const NAME: &'static str = "objective-perturbation";
    const ABOUT: &'static str = "releases the minimiser of the loss plus a random linear term, with a little noise added for the solver's \
         error; best for two labels";
    const CAPABILITIES: Capabilities = Capabilities {
        sums: true,
        // its one release is planned for the largest residuals, which it must clip as descents do: those were better in twelve comparisons of fourteen,
        // on seven tables (docs/decisions/0015). The corner of a quantile's loss costs it noise or a larger λ (docs/decisions/0061)
        stands_last: |loss| matches!(loss, Loss::Squared | Loss::Quantile { .. }),
        ..Capabilities::NONE
    };

    fn read(options: &OptionReader<'_>) -> Self {
        Self {
            regularization: options.get(&REGULARIZATION),
            shift: options.get(&SHIFT),
            clip_norm: options.get(&CLIP_NORM),
            solver: Solver::of(options),
        }
    }

    fn plan(&self, problem: &Problem, budget: Budget) -> Result<Plan<ObjectiveSchedule>, NotApplicable> {
        let (mut schedule, certificate, multiplier) = self.schedule(problem, budget)?;
        let (answer_scale, predicted_excess_risk) = self.predicted(problem, &schedule);
        schedule.answer_scale = answer_scale;
        let raised = self.regularization.filter(|asked| *asked < schedule.regularization * (1.0 - 1e-9)).map(|asked| {
            let (asked, least) = (Shown(asked), Shown(schedule.regularization));
            format!("regularization was raised from {asked} to {least}, the smallest value that the proof covers")
        });
        Ok(Plan {
            summary: Summary {
                method: Self::NAME,
                loss: schedule.loss,
                noise_multiplier: multiplier,
                steps: 1,
                gradients: problem.rows as f64 * self.solver.passes(),
                weight_noise: Some(
                    answer_scale * (schedule.linear_std / schedule.regularization).hypot(schedule.closing_std),
                ),
                predicted_excess_risk,
                certificate,
                assumptions: [
                    Assumption::enforced("every row has norm at most the row norm: enforced when rows are built"),
                    Assumption::proved(
                        "the gradient at the minimiser is certified to be below the public tolerance, and additional \
                         noise covers the rest",
                    ),
                ]
                .into_iter()
                .chain(most_rows_assumption(problem))
                .collect(),
                warnings: raised.into_iter().collect(),
            },
            schedule,
        })
    }

    fn run<R: OfRows + 'static>(&self, plan: &Plan<ObjectiveSchedule>, run: Run<'_, R>) -> RunResult {
        match run.by_row(Self::NAME)? {
            ByRow::Memory(run) => on(&plan.schedule, run),
            ByRow::Disk(_) => Err(RunError::InMemory { method: Self::NAME }),
            ByRow::Partitions(run) => on(&plan.schedule, run),
        }
    }
}

/// The one release, of rows wherever they are.
fn on<R: SolvedRecords + OfRows>(schedule: &ObjectiveSchedule, run: Run<'_, R>) -> RunResult {
    let Run { problem, examples, curator, progress } = run;
    progress.start(ObjectivePerturbation::NAME, 1);
    let released = curator.release(&schedule.mechanism_of::<R>(problem), examples)?;
    progress.tick();
    progress.finish();
    Ok(released.map(|weights| Solution::from(weights).scaled(schedule.answer_scale)))
}
