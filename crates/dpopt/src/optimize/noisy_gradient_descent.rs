//! Full-batch DP gradient descent with heavy-ball momentum and no tuning (spec 17 §5).
//!
//! T steps of v ← βv + (Σ clip(∇φ_i) + noise)/n, θ ← θ − ηv. Only the learning time s = ηT/(1−β) decides what noise and
//! data do to the answer (a direction without curvature ends with noise s·C/(μn)), so s is chosen by the noise that is
//! tolerable and T by stability.

use super::planning::{approximate, check_problem, gaussian_mu, in_range, noise, positive, require_delta};
use super::risk::RiskModel;
use super::{Algorithm, MethodOptions, RunError, Solution, check_shape};
use crate::data::Examples;
use crate::loss::Loss;
use crate::mechanism::{ClippedGradient, Curator, Gaussian};
use crate::plan::{Grade, NotApplicable, Plan, Problem, Summary};
use crate::progress::Progress;
use crate::{Released, Sensitive};
use dpopt_noise::Grid;
use dpopt_privacy::{Budget, Event};
use serde::Serialize;

/// Options of DP gradient descent. `None` means: chosen from public facts.
#[derive(Clone, Debug, Default)]
pub struct NoisyGradientDescent {
    /// T ≥ 1. Default: from the learning time, at most 400.
    pub steps: Option<u64>,
    /// η > 0 on the *mean* loss. Default: at most 1/(φ''·R²), less if the learning time asks for it.
    pub learning_rate: Option<f64>,
    /// C > 0: l2 bound on a record's gradient. Default: half of the loss's own bound R·sup|φ'|.
    pub clip_norm: Option<f64>,
    /// β in [0, 1). Default 0.95.
    pub momentum: Option<f64>,
    /// Weight decay λ ≥ 0 in units of the sum of losses. Default 0.
    pub regularization: Option<f64>,
    /// What is returned. Default: the mean of the last half of the iterates.
    pub average: Average,
}

/// Which iterates make the answer; all are released, so this is post-processing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Average {
    /// Mean of the last half: less noise, the default.
    #[default]
    LastHalf,
    /// The last iterate.
    Last,
}

/// The schedule of gradient descent, full-batch (`sampling_probability` 1) or stochastic.
#[derive(Clone, Debug, Serialize)]
pub struct DescentSchedule {
    /// The loss that is minimised.
    pub loss: Loss,
    /// T.
    pub steps: u64,
    /// η on the mean loss.
    pub learning_rate: f64,
    /// β.
    pub momentum: f64,
    /// C.
    pub clip_norm: f64,
    /// z: noise standard deviation of the *sum*, over C.
    pub noise_multiplier: f64,
    /// Noise standard deviation of the sum, per coordinate.
    pub noise_std: f64,
    /// q; 1 for full batches.
    pub sampling_probability: f64,
    /// λ of the sum objective.
    pub regularization: f64,
    /// What is returned.
    pub average: Average,
    /// log2 of the grid step.
    pub grid_exponent: i32,
}

/// Noise std of a score that is tolerable in a flat direction, in units of a useful score (spec 17 §5: κ = 3 for
/// classification); scores of regression targets in [−1, 1] are ten times smaller.
pub(crate) fn tolerable_noise(loss: Loss) -> f64 {
    match loss {
        Loss::Logistic { .. } | Loss::Softmax { .. } => 3.0,
        Loss::Hinge | Loss::SmoothedHinge { .. } => 1.0,
        Loss::Squared | Loss::Absolute | Loss::Huber { .. } => 0.3,
    }
}

/// Default clip norm: half of what the loss's slope bound allows; half the target range for squared loss.
pub(crate) fn default_clip_norm(problem: &Problem) -> f64 {
    0.5 * problem.row_norm * problem.loss.facts().lipschitz.unwrap_or(1.0)
}

/// Everything but the noise: the part that full-batch and stochastic descent share.
pub(crate) struct Recipe {
    pub(crate) steps: u64,
    pub(crate) learning_rate: f64,
    pub(crate) momentum: f64,
    pub(crate) clip_norm: f64,
    pub(crate) regularization: f64,
}

impl NoisyGradientDescent {
    /// Checks the options and fills in the defaults from public facts.
    pub(crate) fn recipe(&self, problem: &Problem, budget: Budget) -> Result<Recipe, NotApplicable> {
        check_problem(problem)?;
        require_delta(budget)?;
        let r2 = problem.row_norm * problem.row_norm;
        let momentum = in_range("momentum", self.momentum.unwrap_or(0.95), 0.0, 0.999)?;
        let clip_norm = positive("the clip norm", self.clip_norm.unwrap_or_else(|| default_clip_norm(problem)))?;
        let regularization = in_range("the regularization", self.regularization.unwrap_or(0.0), 0.0, f64::MAX)?;
        let n = problem.rows as f64;
        let mu = gaussian_mu(problem, budget)?;
        // κ is in units of a score; weights of rows of norm R are 1/R times that
        let time = tolerable_noise(problem.loss) / problem.row_norm * mu * n / clip_norm;
        let smoothness = problem.loss.facts().smoothness.unwrap_or(1.0);
        let largest = match self.learning_rate {
            Some(rate) => positive("the learning rate", rate)?,
            None => 1.0 / (smoothness * r2),
        };
        let wanted = (time * (1.0 - momentum) / largest).ceil();
        let steps = match self.steps {
            Some(0) => return Err(NotApplicable::Option("steps is 0; give at least 1".into())),
            Some(steps) => steps,
            // fewer than 2/(1−β) steps never reach the momentum's stationary speed; beyond 400 only time is lost
            None => (wanted as u64).max((2.0 / (1.0 - momentum)).ceil() as u64).min(400),
        };
        let learning_rate = match self.learning_rate {
            Some(rate) => rate,
            None => largest.min(time * (1.0 - momentum) / steps as f64),
        };
        Ok(Recipe { steps, learning_rate, momentum, clip_norm, regularization })
    }
}

impl From<&MethodOptions> for NoisyGradientDescent {
    fn from(o: &MethodOptions) -> Self {
        Self {
            steps: o.steps,
            learning_rate: o.learning_rate,
            clip_norm: o.clip_norm,
            momentum: o.momentum,
            regularization: o.regularization,
            ..Self::default()
        }
    }
}

impl Algorithm for NoisyGradientDescent {
    type Schedule = DescentSchedule;
    const NAME: &'static str = "noisy-gradient-descent";

    fn plan(&self, problem: &Problem, budget: Budget) -> Result<Plan<DescentSchedule>, NotApplicable> {
        let recipe = self.recipe(problem, budget)?;
        let dimension = problem.weights();
        let draws = recipe.steps as f64 * dimension as f64;
        let event = |z: f64| approximate(Event::gaussian(z).self_composed(recipe.steps), draws);
        let (noise_multiplier, certificate) = noise(problem, budget, event)?;
        let noise_std = noise_multiplier * recipe.clip_norm;
        let grid = Grid::for_sum(recipe.clip_norm, noise_std, problem.rows, dimension);
        let n = problem.rows as f64;
        let time = recipe.learning_rate * recipe.steps as f64 / (1.0 - recipe.momentum);
        let flat_noise = time * noise_std / (n * (recipe.steps as f64).sqrt());
        Ok(Plan {
            summary: Summary {
                method: Self::NAME,
                loss: problem.loss,
                grade: Grade::Certified,
                noise_multiplier,
                steps: recipe.steps,
                gradients: n * recipe.steps as f64,
                weight_noise: Some(time * noise_std / (n * (recipe.steps as f64).sqrt())),
                predicted_excess_risk: RiskModel::of(problem)
                    .clipped(recipe.clip_norm, problem.loss.facts().lipschitz.map(|l| l * problem.row_norm))
                    .learning_time(time, flat_noise),
                certificate,
                assumptions: vec![
                    "each record's gradient has l2 norm at most the clip norm: enforced in exact integers".into(),
                ],
                warnings: Vec::new(),
            },
            schedule: DescentSchedule {
                loss: problem.loss,
                steps: recipe.steps,
                learning_rate: recipe.learning_rate,
                momentum: recipe.momentum,
                clip_norm: recipe.clip_norm,
                noise_multiplier,
                noise_std,
                sampling_probability: 1.0,
                regularization: recipe.regularization,
                average: self.average,
                grid_exponent: grid.exponent(),
            },
        })
    }

    fn run(
        &self,
        plan: &Plan<DescentSchedule>,
        problem: &Problem,
        examples: &Sensitive<Examples>,
        curator: &mut Curator,
        progress: &dyn Progress,
    ) -> Result<Released<Solution>, RunError> {
        check_shape(problem, examples)?;
        let schedule = &plan.schedule;
        let grid = Grid::new(schedule.grid_exponent);
        let gradient = ClippedGradient::new(schedule.loss, schedule.clip_norm, grid)?;
        let mechanism =
            Gaussian::new(schedule.noise_multiplier, schedule.clip_norm, grid, problem.weights(), "gradient sum");
        descend(schedule, problem, progress, Self::NAME, |weights| {
            let sum = gradient.sum(examples, weights);
            Ok(curator.release(&mechanism, &sum)?)
        })
    }
}

/// The loop of full-batch and stochastic descent; `noisy_sum` releases the noisy gradient sum at given weights.
pub(crate) fn descend(
    schedule: &DescentSchedule,
    problem: &Problem,
    progress: &dyn Progress,
    name: &str,
    mut noisy_sum: impl FnMut(&[f64]) -> Result<Released<Vec<f64>>, RunError>,
) -> Result<Released<Solution>, RunError> {
    let dimension = problem.weights();
    // divide by the *planned* number of records, never by the drawn one
    let per_record = 1.0 / (schedule.sampling_probability * problem.rows as f64);
    let decay = schedule.regularization / problem.rows as f64;
    let (mut weights, mut velocity, mut mean) = (vec![0.0; dimension], vec![0.0; dimension], vec![0.0; dimension]);
    let first_averaged = match schedule.average {
        Average::LastHalf => schedule.steps / 2,
        Average::Last => schedule.steps - 1,
    };
    let share = 1.0 / (schedule.steps - first_averaged) as f64;
    progress.start(name, schedule.steps);
    for step in 0..schedule.steps {
        let noisy = noisy_sum(&weights)?;
        for (((w, v), m), g) in weights.iter_mut().zip(&mut velocity).zip(&mut mean).zip(noisy.get()) {
            *v = schedule.momentum * *v + (g * per_record + decay * *w);
            *w -= schedule.learning_rate * *v;
            if step >= first_averaged {
                *m += share * *w;
            }
        }
        progress.tick();
    }
    progress.finish();
    Ok(Released::new(mean.into()))
}
