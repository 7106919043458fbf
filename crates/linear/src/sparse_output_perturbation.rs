//! Output perturbation for sparse rows: a regularised minimiser with Laplace (δ = 0) or Gaussian noise, then the sparsest
//! l∞-nearest point of a public ball (Ghazi, Guzmán, Kamath, Kumar, Manurangsi 2024, Theorem 5.1 of the first version;
//! docs/proofs/sparse-output-perturbation.md).
//!
//! The excess risk is at most ‖∇F‖₁·‖x̂ − x_λ‖∞ ≤ 2√s·L·‖ξ‖∞ plus what the regularisation costs: the *largest* entry of the
//! noise counts, which grows with ln d only, where the norm of the noise grows with √d. The minimiser of the regularised
//! loss is no longer than that of the loss itself, so a ball that holds the latter holds the former.
//!
//! Covers: sparse-v1 algorithm 3 (certified: linear models; its solver ends within a public number of steps)
//! Covers: sparse-v2 algorithm 6 (certified: linear models; its solver ends within a public number of steps)
//! Covers: sparse-v1 theorem 5.1 (certified: linear models, the bound with constants)
//! Covers: sparse-v2 theorem 7.1 (certified: linear models, the bound with constants)
//! Covers: sparse-v1 theorem 5.6 (part: certified with the regularisation for the population; of the bound, noise and stability)
//! Covers: sparse-v2 theorem 7.6 (part: certified with the regularisation for the population; of the bound, noise and stability)

use super::output_perturbation::smooth_loss;
use dpopt_mechanism::{Laplace, LaplaceMinimiser, Mechanism, MinimiserReach, PerturbedMinimiser, closing_grid};
use dpopt_noise::Grid;
use dpopt_objective::geometry::nearest_in_l2_ball;
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::OfRows;
use dpopt_objective::solver::Accuracy;
use dpopt_optimize::algorithm::Capabilities;
use dpopt_optimize::options::OptionReader;
use dpopt_optimize::options::common::{CLIP_NORM, DISTANCE, REGULARIZATION, SHIFT};
use dpopt_optimize::plan::{Assumption, NotApplicable, Plan, Problem, Summary};
use dpopt_optimize::planning::{
    SamplerError, Solver, TARGET_BOUND, can_sum, check_problem, most_rows, most_rows_assumption, noise, positive,
};
use dpopt_optimize::risk::RiskModel;
use dpopt_optimize::{Algorithm, Run, RunResult};
use dpopt_privacy::{Budget, Event, Relation};
use serde::{Deserialize, Serialize};

/// Options of sparse output perturbation. `None` means: chosen from public facts.
#[derive(Clone, Debug, Default)]
pub struct SparseOutputPerturbation {
    /// λ > 0 of the sum objective. Default: the best for `goal`.
    pub regularization: Option<f64>,
    /// D > 0: the answer lies in the l2 ball of this radius, which should hold the minimiser. Default: the norm that the
    /// risk model expects.
    pub radius: Option<f64>,
    /// Which risk λ is tuned for.
    pub goal: Goal,
    /// Shift of a logistic loss, ≥ 0. Default 2.
    pub shift: Option<f64>,
    /// Slope bound of Huber's loss when the problem's loss is squared. Default 0.5.
    pub clip_norm: Option<f64>,
}

/// Which risk the regularisation is chosen for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Goal {
    /// The mean loss of the records (empirical risk), as predicted: the smaller of the proved bound and of the risk model.
    #[default]
    Training,
    /// The proved bound on it.
    Proved,
    /// The proved bound on the mean loss of their source (population risk): a larger λ, for stability.
    Population,
}

/// Law of the noise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoiseLaw {
    /// Laplace noise, for δ = 0.
    Laplace,
    /// Gaussian noise, for δ > 0.
    Gaussian,
}

/// The schedule of sparse output perturbation.
#[derive(Clone, Debug, Serialize)]
pub struct SparseOutputSchedule {
    /// The loss that is minimised.
    pub loss: Loss,
    /// λ of the sum objective.
    pub regularization: f64,
    /// D: radius of the ball that holds the weights.
    pub radius: f64,
    /// s: bound on the non-zeros of a record's gradient.
    pub sparsity: usize,
    /// Enforced l1 norm of a row (Laplace noise only).
    pub row_l1_norm: f64,
    /// τ: certified bound on the gradient norm of the sum objective.
    pub tolerance: f64,
    /// Steps within which it is certified, whatever the records.
    pub most_solver_steps: u64,
    /// Sensitivity of the rounded minimiser to one record, in l1 (Laplace) or l2 norm (Gaussian).
    pub sensitivity: f64,
    /// Law of the noise.
    pub noise: NoiseLaw,
    /// Scale (Laplace) or standard deviation (Gaussian) over the sensitivity.
    pub noise_multiplier: f64,
    /// Scale (Laplace) or standard deviation (Gaussian) of the noise of each weight.
    pub noise_scale: f64,
    /// With probability 0.95 the excess risk is at most this, if the minimiser of the loss lies in the ball.
    pub risk_bound: f64,
    /// log2 of the grid step h.
    pub grid_exponent: i32,
}

/// β of the stated bound.
const FAILURE: f64 = 0.05;

/// How far one record's presence moves the minimiser in the norm that the noise is made for; without rounding.
fn reach(of: &MinimiserReach, noise: NoiseLaw, lambda: f64, tolerance: f64) -> f64 {
    match noise {
        NoiseLaw::Gaussian => of.in_l2(lambda, tolerance),
        NoiseLaw::Laplace => of.in_l1(lambda, tolerance),
    }
}

/// What the largest of d noises exceeds with probability β, in units of the scale.
fn largest_noise(dimension: f64, noise: NoiseLaw) -> f64 {
    match noise {
        NoiseLaw::Gaussian => (2.0 * (2.0 * dimension / FAILURE).ln()).sqrt(),
        NoiseLaw::Laplace => (dimension / FAILURE).ln(),
    }
}

/// Number of records, where it is public.
fn counted(problem: &Problem) -> Option<u64> {
    (problem.relation() != Relation::AddOrRemove).then_some(problem.rows)
}

/// Bound on the l1 norm of rows of so many non-zeros.
fn row_l1_norm(problem: &Problem) -> f64 {
    (problem.nonzeros.max(1) as f64).sqrt() * problem.row_norm
}

/// The grid of the released point, and how far rounding to it moves what neighbours release apart, `bare` of which they are apart without: each world's minimiser moves by
/// at most h/2 per coordinate, h√d in l2 and h·d in l1 norm.
fn closing_rounding(law: NoiseLaw, noise_multiplier: f64, bare: f64, dimension: usize) -> (Grid, f64) {
    match law {
        NoiseLaw::Gaussian => {
            let grid = closing_grid(bare * noise_multiplier, bare, dimension);
            (grid, grid.step() * (dimension as f64).sqrt())
        }
        NoiseLaw::Laplace => {
            let grid = closing_grid(bare * noise_multiplier, bare, dimension.saturating_mul(dimension));
            (grid, grid.step() * dimension as f64)
        }
    }
}

/// What the guarantee rests on.
fn rests_on(problem: &Problem, law: NoiseLaw) -> Vec<Assumption> {
    let mut assumptions = vec![
        Assumption::enforced("every row has norm at most the row norm: enforced when rows are built"),
        Assumption::proved(
            "the gradient at the minimiser is certified to be below the public tolerance before anything is released",
        ),
    ];
    assumptions.extend(most_rows_assumption(problem));
    if law == NoiseLaw::Laplace {
        assumptions.push(Assumption::enforced(format!(
            "a row has at most {} non-zeros: enforced by scaling its l1 norm to at most {:.6}",
            problem.nonzeros,
            row_l1_norm(problem)
        )));
        assumptions.push(Assumption::proved(
            "each sample of the noise is within 2^-170 of its exact distribution in total \
                                      variation",
        ));
    }
    assumptions
}

impl SparseOutputPerturbation {
    fn radius(&self, problem: &Problem) -> Result<f64, NotApplicable> {
        positive("the radius", self.radius.unwrap_or_else(|| RiskModel::usual(problem).squared_norm().sqrt()))
    }
}

impl Algorithm for SparseOutputPerturbation {
    type Schedule = SparseOutputSchedule;
    const NAME: &'static str = "sparse-output-perturbation";
    const ABOUT: &'static str = "releases the sparsest point near the noisy minimiser; for very many features with \
                                 few nonzeros per row, also with delta = 0";
    const CAPABILITIES: Capabilities = Capabilities { logarithmic: true, ..Capabilities::NONE };

    fn read(options: &OptionReader<'_>) -> Self {
        Self {
            regularization: options.get(&REGULARIZATION),
            radius: options.get(&DISTANCE),
            goal: Goal::default(),
            shift: options.get(&SHIFT),
            clip_norm: options.get(&CLIP_NORM),
        }
    }

    fn plan(&self, problem: &Problem, budget: Budget) -> Result<Plan<SparseOutputSchedule>, NotApplicable> {
        check_problem(problem)?;
        let loss = smooth_loss(problem.loss, self.shift, self.clip_norm)?;
        let radius = self.radius(problem)?;
        let n = problem.rows as f64;
        let dimension = problem.weights();
        let objective = problem.objective().with_loss(loss);
        let shape = MinimiserReach::of(&objective, problem.nonzeros, counted(problem));
        let sparsity = shape.sparsity as usize;
        let law = if budget.delta() > 0.0 { NoiseLaw::Gaussian } else { NoiseLaw::Laplace };
        let (noise_multiplier, certificate) = noise(problem, budget, |z| match law {
            NoiseLaw::Gaussian => SamplerError::rounded(dimension as f64).on(Event::gaussian(z)),
            NoiseLaw::Laplace => Event::laplace(z),
        })?;
        // 2√s·L·‖ξ‖∞ + (λ/n)D²/2, and for the population what one record can do to the loss of another, 2L²/λ
        let tolerance =
            |lambda: f64| Solver::Here.accuracy(problem, loss, lambda, 0.0).map_or(f64::INFINITY, |a| a.tolerance);
        let bound = |lambda: f64| {
            let largest =
                reach(&shape, law, lambda, tolerance(lambda)) * noise_multiplier * largest_noise(shape.dimension, law);
            let stability = match self.goal {
                Goal::Training | Goal::Proved => 0.0,
                Goal::Population => 2.0 * shape.lipschitz * shape.lipschitz / lambda,
            };
            2.0 * shape.sparsity.sqrt() * shape.lipschitz * largest + 0.5 * lambda / n * radius * radius + stability
        };
        let spread =
            noise_multiplier * if law == NoiseLaw::Laplace { 2f64.sqrt() } else { 1.0 } / RiskModel::pull(loss);
        let model = RiskModel::usual(problem);
        let modelled =
            |lambda: f64| model.regularized(lambda, 0.0, reach(&shape, law, lambda, tolerance(lambda)) * spread);
        let tuned = |lambda: f64| match self.goal {
            Goal::Training => bound(lambda).min(modelled(lambda)),
            Goal::Proved | Goal::Population => bound(lambda),
        };
        let regularization = match self.regularization {
            Some(lambda) => positive("the regularization", lambda)?,
            // factors of 2^(1/8) lose less than 0.4 % of the bound
            None => (-480..=480)
                .map(|k| shape.lipschitz * problem.row_norm * 2f64.powf(0.125 * f64::from(k)))
                .min_by(|a, b| tuned(*a).total_cmp(&tuned(*b)))
                .unwrap_or(shape.lipschitz * problem.row_norm),
        };
        let Accuracy { tolerance, steps } = Solver::Here.accuracy(problem, loss, regularization, 0.0)?;
        let bare = reach(&shape, law, regularization, tolerance);
        let (grid, rounding) = closing_rounding(law, noise_multiplier, bare, dimension);
        let sensitivity = (bare + rounding) * (1.0 + 1e-12);
        let noise_scale = sensitivity * noise_multiplier;
        match law {
            NoiseLaw::Gaussian => can_sum(sensitivity, noise_scale, grid)?,
            NoiseLaw::Laplace => Laplace::new(noise_multiplier, sensitivity, grid, 1).can_draw()?,
        }
        let noise_std = if law == NoiseLaw::Laplace { 2f64.sqrt() * noise_scale } else { noise_scale };
        let risk_bound = bound(regularization);
        let mut warnings = Vec::new();
        // where the model of the risk says that the answer is good, a bound that says nothing is no news
        let predicted = risk_bound.min(modelled(regularization));
        if risk_bound > shape.lipschitz * radius && (self.goal != Goal::Training || predicted > 0.5 * loss.at_zero()) {
            warnings.push(format!(
                "the bound on the excess risk, {risk_bound:.3}, is above that of weights 0, {:.3}; raise epsilon, or \
                 use more rows",
                shape.lipschitz * radius
            ));
        }
        Ok(Plan {
            summary: Summary {
                method: Self::NAME,
                loss,
                noise_multiplier,
                steps: 1,
                gradients: n * 15.0,
                weight_noise: Some(noise_std),
                predicted_excess_risk: predicted,
                certificate,
                assumptions: rests_on(problem, law),
                warnings,
            },
            schedule: SparseOutputSchedule {
                loss,
                regularization,
                radius,
                sparsity,
                row_l1_norm: row_l1_norm(problem),
                tolerance,
                most_solver_steps: steps,
                sensitivity,
                noise: law,
                noise_multiplier,
                noise_scale,
                risk_bound,
                grid_exponent: grid.exponent(),
            },
        })
    }

    fn run<R: OfRows + 'static>(&self, plan: &Plan<SparseOutputSchedule>, run: Run<'_, R>) -> RunResult {
        let Run { problem, examples, curator, progress } = run.in_memory(Self::NAME)?;
        let s = &plan.schedule;
        let grid = Grid::new(s.grid_exponent);
        let objective = problem.objective().with_loss(s.loss);
        progress.start(Self::NAME, 1);
        let noisy = match s.noise {
            NoiseLaw::Gaussian => {
                let mechanism = PerturbedMinimiser {
                    objective,
                    regularization: s.regularization,
                    most_rows: most_rows(problem),
                    relation: problem.relation(),
                    noise_multiplier: s.noise_multiplier,
                    grid,
                    target_bound: TARGET_BOUND,
                    records: std::marker::PhantomData,
                };
                curator.release(&mechanism, examples)?
            }
            NoiseLaw::Laplace => {
                let mechanism = LaplaceMinimiser {
                    objective,
                    nonzeros: problem.nonzeros,
                    records: problem.rows,
                    relation: problem.relation(),
                    regularization: s.regularization,
                    most_rows: most_rows(problem),
                    noise_multiplier: s.noise_multiplier,
                    grid,
                    target_bound: TARGET_BOUND,
                };
                curator.release(&mechanism, examples)?
            }
        };
        progress.tick();
        progress.finish();
        Ok(noisy.map(|weights| nearest_in_l2_ball(&weights, s.radius).into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{LOGISTIC, facts, fit, problem};
    use dpopt_objective::synthetic::{mean_loss, table};

    fn shape() -> MinimiserReach {
        // λ̄ = .1 for 1000 records: λ = 100 of the sum
        MinimiserReach { lipschitz: 1.0, smoothness: 1.0, sparsity: 4.0, dimension: 1e9, common: 999.0 }
    }

    #[test]
    fn the_published_sensitivities() {
        let s = shape();
        // replace-one doubles: Δ2 = 2L/(λ̄n) = .02
        assert!((2.0 * s.in_l2(100.0, 0.0) - 0.02).abs() < 1e-15);
        let sigma = 2.0 * s.in_l2(100.0, 0.0) * 4.224679; // σ/Δ at (1, 1e-6)
        assert!((sigma - 0.0844936).abs() < 1e-7, "{sigma}");
        // for any loss with 2s-sparse differences of gradients: (2√s·L/(λ̄n))(√2·H/λ̄ + 1), at n for n − 1
        let general = 2.0 * 2.0 / 100.0 * (2f64.sqrt() * 10.0 + 1.0);
        assert!((general - 0.605685).abs() < 1e-6);
        // for a linear model the differences are s-sparse: no √2
        let linear = 2.0 * s.in_l1(100.0, 0.0);
        assert!((linear - 2.0 * 2.0 / 100.0 * (9.99 + 1.0)).abs() < 1e-12, "{linear}");
        // few weights: √d beats √s(1 + (n−1)H/λ)
        let few = MinimiserReach { dimension: 9.0, ..shape() };
        assert!((few.in_l1(100.0, 0.0) - 3.0 / 100.0).abs() < 1e-15);
        // with a protected number of records only that bound is left
        let protected = MinimiserReach { common: f64::INFINITY, ..shape() };
        assert_eq!(protected.in_l1(100.0, 0.0), 1e9f64.sqrt() / 100.0);
    }

    #[test]
    fn a_bound_that_says_nothing_is_no_warning_where_the_prediction_is_good() {
        let (mut good, mut poor) = (0, 0);
        for rows in [100, 1000, 10_000, 100_000, 1_000_000] {
            // what is planned, and one that leaves nothing but noise
            for (epsilon, regularization) in [(0.1, None), (1.0, None), (5.0, None), (1.0, Some(1e-4))] {
                let p = Problem { rows, nonzeros: 4, ..problem(LOGISTIC, Relation::ZeroOut) };
                let of = |goal| {
                    let options =
                        SparseOutputPerturbation { radius: Some(30.0), goal, regularization, ..Default::default() };
                    options.plan(&p, crate::tests::budget(epsilon)).unwrap().summary
                };
                let summary = of(Goal::Training);
                let warned = summary.warnings.iter().any(|warning| warning.contains("above that of weights 0"));
                let predicted = summary.predicted_excess_risk;
                assert!(!warned || predicted > 0.5 * summary.loss.at_zero(), "{rows} {epsilon}: {predicted}");
                // whoever asks for the proof is told
                let proved = of(Goal::Proved);
                let told = proved.warnings.iter().any(|warning| warning.contains("above that of weights 0"));
                good += u32::from(told && !warned);
                poor += u32::from(warned);
            }
        }
        assert!(good > 0 && poor > 0, "{good} {poor}");
    }

    #[test]
    fn the_default_regularization_is_the_closed_form() {
        let p = Problem { nonzeros: 4, ..problem(LOGISTIC, Relation::ZeroOut) };
        let options = SparseOutputPerturbation { radius: Some(3.0), goal: Goal::Proved, ..Default::default() };
        let plan = options.plan(&p, crate::tests::budget(1.0)).unwrap();
        let s = &plan.schedule;
        // bound a/λ̄ + λ̄D²/2 with a = 2√s·L·(z·L/n)·√(2 ln(2d/β)): least at √(2a)/D, where it is D√(2a)
        let n = p.rows as f64;
        let a = 2.0 * 2.0 * s.noise_multiplier / n * (2.0 * (2.0 * 133.0 / FAILURE).ln()).sqrt();
        assert!((s.regularization / n / ((2.0 * a).sqrt() / 3.0)).ln().abs() < 0.05);
        assert!((s.risk_bound / (3.0 * (2.0 * a).sqrt()) - 1.0).abs() < 0.005, "{}", s.risk_bound);
        let population = SparseOutputPerturbation { goal: Goal::Population, ..options.clone() };
        let predicted = SparseOutputPerturbation { goal: Goal::Training, ..options };
        let other = predicted.plan(&p, crate::tests::budget(1.0)).unwrap();
        assert!(other.summary.predicted_excess_risk <= plan.summary.predicted_excess_risk);
        let plan = population.plan(&p, crate::tests::budget(1.0)).unwrap();
        assert!(plan.schedule.regularization >= s.regularization);
    }

    #[test]
    fn the_bound_scales_as_published() {
        let bound = |rows: u64, delta: f64| {
            let p = Problem { rows, features: 100_000, nonzeros: 10, ..problem(LOGISTIC, Relation::ReplaceOne) };
            let options = SparseOutputPerturbation { radius: Some(1.0), goal: Goal::Proved, ..Default::default() };
            options.plan(&p, Budget::new(1.0, delta).unwrap()).unwrap().schedule.risk_bound
        };
        let slope = |delta: f64| (bound(100_000_000, delta) / bound(1_000_000, delta)).log10() / 2.0;
        assert!((slope(1e-9) + 0.5).abs() < 0.01, "{}", slope(1e-9));
        assert!((slope(0.0) + 1.0 / 3.0).abs() < 0.02, "{}", slope(0.0));
    }

    #[test]
    fn pure_noise_is_laplace_and_rows_with_more_entries_than_declared_are_shrunk() {
        let examples = table(3, 4000, 3, 5, 2.0, LOGISTIC);
        let declared = Problem { nonzeros: 1, ..facts(&examples, LOGISTIC) };
        let options = SparseOutputPerturbation::default();
        let pure = Budget::new(4.0, 0.0).unwrap();
        let plan = options.plan(&declared, pure).unwrap();
        assert_eq!(plan.schedule.noise, NoiseLaw::Laplace);
        assert_eq!(plan.summary.certificate.bound().accountant, "pure");
        // the rows have four entries of 1/2: l1 norm 2, now at most 1
        let enforced = examples.rows.within_l1(plan.schedule.row_l1_norm);
        for i in 0..enforced.len() {
            assert!(enforced.row(i).1.iter().map(|&v| f64::from(v.abs())).sum::<f64>() <= 1.0);
        }
        assert_eq!(fit(&options, &examples, &declared, pure, 1).len(), examples.rows.columns());
    }

    #[test]
    fn the_answer_is_sparse_and_learns() {
        // 2001 columns, four entries per row
        let examples = table(5, 20_000, 2, 1000, 3.0, LOGISTIC);
        let p = Problem { nonzeros: 3, ..facts(&examples, LOGISTIC) };
        let options = SparseOutputPerturbation { radius: Some(4.0), ..Default::default() };
        let budget = Budget::new(4.0, 1e-5).unwrap();
        let weights = fit(&options, &examples, &p, budget, 1);
        assert!(weights.iter().map(|w| w * w).sum::<f64>().sqrt() <= 4.0 + 1e-9);
        let plan = options.plan(&p, budget).unwrap();
        let zero = vec![0.0; weights.len()];
        let loss = plan.summary.loss;
        assert!(mean_loss(&examples, loss, &weights) < mean_loss(&examples, loss, &zero));
    }
}
