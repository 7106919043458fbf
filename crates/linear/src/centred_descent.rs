//! DP gradient descent on rows around their noisy mean, for classes.
//!
//! What all rows have in common says nothing about the class, but it takes most of their norm, which is what the noise is made for:
//! for images or positive columns more than half. So a small share of the budget pays for one noisy sum of the rows and of their
//! squared norms. Of what it says, public from there on, new coordinates are made: each feature less its mean (times the constant
//! feature, so that the map is linear), the constant feature at half of the norm that is left, all of it scaled so that the rest has
//! the norm R that the plan is made for; a longer row is shortened. Full-batch descent follows, and the weights are brought back.

use super::descent::{DescentOptions, DescentSchedule, Releases, descend};
use dpopt_mechanism::Gaussian;
use dpopt_noise::Grid;
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::OfRows;
use dpopt_objective::objective::RowAndSquare;
use dpopt_objective::records::Shear;
use dpopt_optimize::options::OptionReader;
use dpopt_optimize::oracle::NoisySum;
use dpopt_optimize::plan::{NotApplicable, Plan, Problem};
use dpopt_optimize::planning::{MAX_DENSE_FEATURES, SamplerError, in_range, sum_grid};
use dpopt_optimize::{Algorithm, Capabilities, Run, RunResult, Solution};
use dpopt_privacy::{Budget, Event};
use serde::Serialize;

/// Options of descent on centred rows.
#[derive(Clone, Debug)]
pub struct CentredDescent {
    /// Share of μ² that pays for the mean, in (0, 1). Default 0.1.
    pub mean_share: f64,
    /// The feature that is the same in all rows, or nearly.
    pub intercept: Option<u32>,
    /// What every descent has.
    pub descent: DescentOptions,
}

impl Default for CentredDescent {
    fn default() -> Self {
        Self { mean_share: 0.1, intercept: None, descent: DescentOptions::default() }
    }
}

/// The schedule of descent on centred rows.
#[derive(Clone, Debug, Serialize)]
pub struct CentredSchedule {
    /// Descent after the mean is known.
    #[serde(flatten)]
    pub descent: DescentSchedule,
    /// Noise multiplier of the sum of rows, over its clip norm.
    pub mean_multiplier: f64,
    /// log2 of the grid step of that sum.
    pub mean_grid_exponent: i32,
    /// Index of the constant feature.
    pub intercept: usize,
    /// Bound on the noise in a weight in the new coordinates.
    pub centred_weight_noise: f64,
}

/// Entries of a centred copy of the rows that are still made: 512 MiB with their columns.
const MAX_ENTRIES: f64 = (1u64 << 26) as f64;
/// Weight of a row's squared norm over R beside the row: costs 3 % of the mean's noise.
const SQUARE_WEIGHT: f64 = 0.25;
/// Standard deviations of its noise that a mean has to be large to be taken off.
const SEEN: f64 = 1.5;
/// Norm of the constant feature over that of the rest.
const INTERCEPT_SHARE: f64 = 0.5;
/// Least norm of the constant feature and of centred rows, over R: below, the noise is all there is to see.
const LEAST_INTERCEPT: f64 = 0.05;
const LEAST_NORM: f64 = 0.1;

/// What the noisy sum says.
#[derive(Clone, Copy, Debug)]
struct Centre {
    /// Noise standard deviation of each entry of the mean.
    std: f64,
    /// Mean of the constant feature.
    constant: f64,
    /// Root of the mean squared norm of what is left of a row.
    norm: f64,
}

impl CentredSchedule {
    /// R·√(1 + w²), rounded up.
    fn mean_clip(row_norm: f64) -> f64 {
        row_norm * 1f64.hypot(SQUARE_WEIGHT) * (1.0 + 1e-12)
    }

    /// New coordinates from the noisy sum of d features and the squared norm; and how they were found.
    fn shear(&self, problem: &Problem, sum: &[f64]) -> (Shear, Centre) {
        let (n, r, d) = (problem.rows as f64, problem.row_norm, problem.features);
        let std = self.mean_multiplier * Self::mean_clip(r) / n;
        let mean = |j: usize| sum[j] / n;
        let constant = mean(self.intercept).abs().max(LEAST_INTERCEPT * r);
        let others = || (0..d).filter(|&j| j != self.intercept);
        // what is no larger than noise of that size mostly is: of an empty column 13 % pass, and zeros stay zeros elsewhere
        let seen = |j: &usize| mean(*j).abs() > SEEN * std;
        let (count, square) =
            others().filter(seen).fold((0.0, 0.0), |(count, sum), j| (count + 1.0, sum + mean(j).powi(2)));
        // noise alone has a squared norm of σ² an entry: the mean is drawn towards 0 by that share (James and Stein)
        let kept = (1.0 - count * std * std / f64::max(square, f64::MIN_POSITIVE)).max(0.0);
        // E‖x − k·m‖² = E‖x‖² − (2k·m·E x − k²‖m‖²), with m·E x about k‖m‖²
        let squares = mean(d) * r / SQUARE_WEIGHT;
        let left = squares - constant * constant - kept * kept * square;
        // a norm that cannot be told from its noise is taken to be as large as that
        let least = (LEAST_NORM * r).powi(2).max(std * r / SQUARE_WEIGHT);
        let norm = left.clamp(least.min(r * r), r * r).sqrt();
        let shift = |j: usize| if j != self.intercept && seen(&j) { kept * mean(j) / constant } else { 0.0 };
        let shifts = (0..d).map(shift).collect();
        let shear = Shear {
            origin: self.intercept,
            shifts,
            origin_scale: INTERCEPT_SHARE * norm / constant,
            scale: r / norm,
            row_norm: r,
        };
        (shear, Centre { std, constant, norm })
    }

    /// First-order bound on the noise of each weight in the old coordinates.
    fn noise(&self, problem: &Problem, shear: &Shear, centre: Centre, weights: &[f64]) -> Vec<f64> {
        let (Centre { std, constant, norm }, each) = (centre, self.centred_weight_noise);
        // in flat directions weights grow like R²/norm², and the noise of norm² is at most that of the mean squared norm, and twice R
        // times that of the constant feature's mean and of the others'
        let stretch = std * problem.row_norm * (1.0 / SQUARE_WEIGHT + 4.0) / (norm * norm);
        let shifts: f64 = shear.shifts.iter().map(|t| t * t).sum();
        let line = |theta: &[f64]| -> Vec<f64> {
            let others: f64 = theta.iter().enumerate().filter(|(j, _)| *j != shear.origin).map(|(_, w)| w * w).sum();
            let of = |(j, w): (usize, &f64)| {
                let drawn = if j == shear.origin {
                    let own = each * shear.scale * shear.origin_scale.hypot(shifts.sqrt());
                    own.hypot(std / constant * others.sqrt())
                } else {
                    each * shear.scale
                };
                drawn.hypot(stretch * w)
            };
            theta.iter().enumerate().map(of).collect()
        };
        weights.chunks_exact(problem.features).flat_map(line).collect()
    }
}

impl Algorithm for CentredDescent {
    type Schedule = CentredSchedule;
    const NAME: &'static str = "centred-descent";
    const ABOUT: &'static str =
        "releases the mean of the rows, then noisy sums of clipped gradients of the centred rows; for classes";
    const CAPABILITIES: Capabilities = Capabilities {
        usual_scale: 0.6,
        // of two classes it has the better labels at some budgets and the worse probabilities at others (docs/decisions/0056)
        stands_last: |loss| matches!(loss, Loss::Logistic { .. }),
        // it is for classes
        intervals: false,
        ..Capabilities::NONE
    };

    fn read(options: &OptionReader<'_>) -> Self {
        Self { intercept: options.intercept(), descent: DescentOptions::read(options), ..Self::default() }
    }

    fn plan(&self, problem: &Problem, budget: Budget) -> Result<Plan<CentredSchedule>, NotApplicable> {
        if !matches!(problem.loss, Loss::Softmax { .. } | Loss::Logistic { .. }) {
            return Err(NotApplicable::Problem(
                "it needs classes and the logistic loss; choose noisy-gradient-descent".into(),
            ));
        }
        let Some(intercept) = self.intercept.map(|j| j as usize).filter(|&j| j < problem.features) else {
            return Err(NotApplicable::Problem(
                "centring rows needs a constant feature; fit an intercept, or choose noisy-gradient-descent".into(),
            ));
        };
        let (d, entries) = (problem.features, problem.rows as f64 * problem.features as f64);
        if entries > MAX_ENTRIES || d > MAX_DENSE_FEATURES || d > 2 * problem.nonzeros {
            return Err(NotApplicable::Problem(
                "centred rows are dense and would need too much memory and time here; choose noisy-gradient-descent"
                    .into(),
            ));
        }
        let share = in_range("the mean's share", self.mean_share, 1e-3, 0.5)?;
        let recipe = DescentOptions { by_order: true, ..self.descent.clone() }.recipe(problem, budget)?;
        let steps = recipe.steps;
        // 1/z_m² is the share, T/z² the rest of the same sum
        let mean_of = |z: f64| z * ((1.0 - share) / (share * steps as f64)).sqrt();
        let draws = (problem.features + 1) as f64 + steps as f64 * problem.weights() as f64;
        let releases = Releases {
            method: Self::NAME,
            sampling_probability: 1.0,
            event: |z: f64| {
                let parts = vec![Event::gaussian(mean_of(z)), Event::gaussian(z).self_composed(steps)];
                SamplerError::rounded(draws).on(Event::composed(parts))
            },
            assumptions: Vec::new(),
            noise_drawn: "at each step: full batches read every weight".into(),
        };
        let Plan { mut summary, schedule: descent } = recipe.plan(problem, budget, releases)?;
        summary.gradients += problem.rows as f64;
        // in the old coordinates it depends on what is released
        let centred_weight_noise = summary.weight_noise.take().unwrap_or(f64::INFINITY);
        let mean_multiplier = mean_of(descent.noise_multiplier);
        let clip = CentredSchedule::mean_clip(problem.row_norm);
        let grid = sum_grid(clip, mean_multiplier * clip, problem.rows, problem.features + 1)?;
        let schedule = CentredSchedule {
            descent,
            mean_multiplier,
            mean_grid_exponent: grid.exponent(),
            intercept,
            centred_weight_noise,
        };
        Ok(Plan { summary, schedule })
    }

    fn run<R: OfRows + 'static>(&self, plan: &Plan<CentredSchedule>, run: Run<'_, R>) -> RunResult {
        let Run { problem, examples, curator, progress } = run.in_memory(Self::NAME)?;
        let (s, descent) = (&plan.schedule, &plan.schedule.descent);
        let (r, d) = (problem.row_norm, problem.features);

        let rows = RowAndSquare::new(d, SQUARE_WEIGHT / r);
        let grid = Grid::new(s.mean_grid_exponent);
        let noise = Gaussian::new(s.mean_multiplier, CentredSchedule::mean_clip(r), grid, d + 1, "sum of rows");
        let sum = NoisySum::new(rows, noise)?.release(examples, curator, &vec![0.0; d + 1])?;
        let (shear, centre) = s.shear(problem, sum.get());
        let centred = examples.sheared(&shear);

        let objective = problem.objective().with_loss(descent.loss);
        let gradients = NoisySum::new(objective, descent.noise(problem.weights(), "gradient sum"))?;
        let mut driver = descent.heavy_ball(problem);
        let solution = descend(&mut driver, descent, problem, progress, Self::NAME, |weights| {
            gradients.release(&centred, curator, weights)
        })?;
        let solution = descent.scaled(solution);
        let weights: Vec<f64> = solution.weights.chunks_exact(d).flat_map(|line| shear.back(line)).collect();
        let noise = s.noise(problem, &shear, centre, &weights);
        Ok(curator.postprocess(Solution { weights, noise: Some(noise), usual_row: Some(shear.shifts), ..solution }))
    }
}

#[cfg(test)]
mod tests;
