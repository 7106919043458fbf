//! Full-batch gradient descent whose clip norm follows the records' gradients (Andrew, Thakkar, McMahan, Ramaswamy 2021).
//!
//! A loss without a slope bound gets its scale from the residuals, and those shrink while a model is learnt: a clip norm that fits the
//! first step is several times too large for the last, and so is the noise. Before a few of the steps a noisy histogram of
//! gradient norms is released; the clip norm is a quantile of it from then on. Noise multipliers are fixed beforehand, so the event
//! does not depend on what is found. The rate does not either: what scores are worth goes with the size of the residuals, as noise does.
//!
//! Where a record is a unit with several rows, its gradient is a mean and shorter than a row's by as much as its rows disagree, whatever the loss.

use super::pace::Pace;
use super::{DescentOptions, Recipe, default_clip_norm};
use dpopt_mechanism::Gaussian;
use dpopt_noise::Grid;
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::GradientSizes;
use dpopt_objective::objective::OfRows;
use dpopt_optimize::algorithm::{Capabilities, RowAccess};
use dpopt_optimize::driver::{Course, HeavyBall, drive};
use dpopt_optimize::options::OptionReader;
use dpopt_optimize::options::common::{LEARNING_RATE, MOMENTUM, STEPS};
use dpopt_optimize::oracle::NoisySum;
use dpopt_optimize::plan::{Assumption, NotApplicable, Plan, Problem, Summary};
use dpopt_optimize::planning::{SamplerError, can_sum, check_problem, clipped, gaussian_mu, noise, products};
use dpopt_optimize::risk::RiskModel;
use dpopt_optimize::{Algorithm, Run, RunError, RunResult, Solution};
use dpopt_privacy::{Budget, Event};
use serde::Serialize;
use std::cell::Cell;

/// Options of descent with a clip norm that follows the gradients. `None` means: chosen from public facts.
#[derive(Clone, Debug, Default)]
pub struct AdaptiveClipDescent {
    /// T ≥ 1. Default: from the learning time, 200 to 400; 40 to 200 where a pass over the rows is dear.
    pub steps: Option<u64>,
    /// η > 0 on the mean loss, the same for all steps. Default: nine tenths of what is stable for any rows, 2(1 + β)/(φ''·R²), or up to eight times that as long as
    /// released gradients show no direction in which it is unstable; less where noise would be too large.
    pub learning_rate: Option<f64>,
    /// β in [0, 1). Default 0.9.
    pub momentum: Option<f64>,
}

/// Of all norms of gradients together a clip takes no more than this share: a fifth of bell-shaped residuals is cut off at [`QUANTILE`], and nearly everything where
/// most are 0: what is learnt then has nothing to do with means.
const MAX_CUT: f64 = 0.25;
/// Standard deviations of its noise by which that has to be seen.
const SURE: f64 = 2.0;

/// The schedule of descent with a clip norm that follows the gradients.
#[derive(Clone, Debug, Serialize)]
pub struct AdaptiveClipSchedule {
    /// T: number of noisy steps.
    pub steps: u64,
    /// η on the mean loss.
    pub learning_rate: f64,
    /// η of the first eighth of the steps, at most 1/(φ''·R²): no step goes beyond the minimum, however steep it is.
    pub first_learning_rate: f64,
    /// The largest η that a step may have after these, as long as released gradients show no direction in which it is unstable.
    pub largest_learning_rate: f64,
    /// β: momentum of the heavy ball.
    pub momentum: f64,
    /// C of the steps before the first histogram.
    pub first_clip_norm: f64,
    /// Steps before which a histogram of gradient norms is released.
    pub looks: Vec<u64>,
    /// Cells of a histogram, the largest norm in the first, and the ratio of one's end to the next.
    pub cells: usize,
    /// Largest gradient norm in the first cell of a histogram.
    pub smallest: f64,
    /// Ratio of the ends of two neighbouring cells.
    pub ratio: f64,
    /// Share of the records whose gradients are not clipped, at the time of the histogram.
    pub quantile: f64,
    /// Noise standard deviation of a histogram's cell.
    pub sizes_multiplier: f64,
    /// Noise standard deviation of a gradient sum, over C.
    pub noise_multiplier: f64,
}

/// Share of records that are not clipped: noise over curvature, C/P(|r| < C), is within a fifth of its smallest for residuals of any
/// bell shape, and a mean is still nearly one.
const QUANTILE: f64 = 0.7;
/// Cells of gradient norms begin at R/50 and end at 4R or beyond.
const FIRST_END: f64 = 0.02;

/// How often the sizes of gradients are looked at.
#[derive(Clone, Copy)]
struct Looks {
    /// Before steps T/2^k for these k.
    halvings: &'static [u32],
    /// Share of μ² for all histograms together.
    share: f64,
    /// Cells of a histogram, each ending `ratio` times later than the one before.
    cells: usize,
    ratio: f64,
}

/// The most looks first; those are taken whose histograms give a quantile good to a thirtieth of the records.
const LOOKS: [Looks; 4] = [
    Looks { halvings: &[5, 4, 3, 2, 1], share: 0.03, cells: 17, ratio: std::f64::consts::SQRT_2 },
    Looks { halvings: &[4, 3, 1], share: 0.06, cells: 17, ratio: std::f64::consts::SQRT_2 },
    Looks { halvings: &[4, 2], share: 0.1, cells: 9, ratio: 2.0 },
    Looks { halvings: &[3], share: 0.1, cells: 9, ratio: 2.0 },
];
const WELL_COUNTED: f64 = 1.0 / 30.0;
/// Of the learning time that predictions ask for: on tables that a line explains badly residuals are larger than expected, and learning too long costs more there
/// than learning too briefly costs on others (docs/decisions/0026).
const CAUTION: f64 = 0.5;
/// Residuals to expect once a model is learnt, over the targets' bound: what plans are made for. Scores are expected to vary by
/// .26 of it (`risk`), so this says that they are 1.24 times as large as residuals, whatever the scale of both.
const EXPECTED_CLIP: f64 = 0.21;
/// Residuals of counts to expect, in usual counts: about as large as what Poisson's law leaves of a count of one or two.
const EXPECTED_CLIP_OF_COUNTS: f64 = 0.8;

/// The clip norm to expect of a loss whose slopes have no bound of their own.
fn expected_clip(problem: &Problem) -> f64 {
    let slope = match problem.loss {
        Loss::Poisson { .. } => EXPECTED_CLIP_OF_COUNTS,
        _ => EXPECTED_CLIP,
    };
    slope * problem.row_norm
}

impl Looks {
    /// Standard deviation of the count up to a quantile, over the budget's: it sums up to all cells of a histogram, each with its
    /// noise.
    fn spread(self, mu: f64) -> f64 {
        (self.cells as f64 * self.halvings.len() as f64 / self.share).sqrt() / mu
    }

    /// Those that tell the sizes of residuals from noise; `None` where there are too few rows.
    fn of(rows: u64, mu: f64) -> Option<Self> {
        LOOKS.into_iter().find(|looks| looks.spread(mu) <= WELL_COUNTED * rows as f64)
    }
}

/// The clip norm that gradients have once a model is learnt: what encoders are compared by.
pub(super) fn expected_clip_norm(problem: &Problem, mu: f64) -> f64 {
    let first = default_clip_norm(problem);
    match Looks::of(problem.rows, mu) {
        Some(_) if problem.loss.facts().lipschitz.is_none() => first.min(expected_clip(problem)),
        _ => first,
    }
}

/// β where none is asked for.
const MOMENTUM_OF_DEFAULT: f64 = 0.9;
/// Most steps where none are asked for.
const MAX_STEPS: u64 = 400;
/// Products of entries with weights in the passes of a run: more take longer than a second on two cores, and a run has fewer steps, down to 40: where there are so many rows
/// noise lets the rate grow.
const DEAR: f64 = 1e9;
/// Of the rate from which on heavy-ball momentum is unstable.
const STABLE: f64 = 0.9;
/// The largest rate of a step over the one at which momentum is stable whatever the rows are (docs/decisions/0064).
const FASTER: f64 = 8.0;

impl AdaptiveClipDescent {
    /// Steps, rate and momentum, as every descent checks them where they are asked for; and the largest rate that a step may have.
    fn recipe(&self, problem: &Problem, budget: Budget, clip_norm: f64) -> Result<(Recipe, f64), NotApplicable> {
        let momentum = self.momentum.unwrap_or(MOMENTUM_OF_DEFAULT);
        // a swing shrinks by √β a step, and what is found of the residuals is as old as the momentum is long
        let least = |settled: f64| (settled / (1.0 - momentum)).round();
        let pass = products(problem, problem.rows as f64);
        let dear = least(20.0) * pass > DEAR;
        let asked = DescentOptions {
            steps: self.steps.or(Some(MAX_STEPS)),
            learning_rate: self.learning_rate,
            momentum: Some(momentum),
            clip_norm: Some(clip_norm),
            ..DescentOptions::default()
        };
        let mut recipe = asked.recipe(problem, budget)?;
        if self.learning_rate.is_none() {
            let caution = if problem.loss.facts().lipschitz.is_none() { CAUTION } else { 1.0 };
            let wanted = caution * recipe.tolerable_time * (1.0 - momentum);
            // the largest second moment is at most R², of any rows
            let largest = STABLE * 2.0 * (1.0 + momentum) * recipe.largest_rate;
            let most = if dear { (DEAR / pass).min(MAX_STEPS as f64) } else { MAX_STEPS as f64 };
            let least = least(if dear { 4.0 } else { 20.0 }).min(MAX_STEPS as f64);
            recipe.steps = self.steps.unwrap_or((wanted / largest).ceil().min(most).max(least) as u64);
            let even = wanted / recipe.steps as f64;
            recipe.learning_rate = largest.min(even);
            return Ok((recipe, even.min(FASTER * largest)));
        }
        let rate = recipe.learning_rate;
        Ok((recipe, rate))
    }
}

impl Algorithm for AdaptiveClipDescent {
    type Schedule = AdaptiveClipSchedule;
    const NAME: &'static str = "adaptive-clip-descent";
    const ABOUT: &'static str = "releases noisy sums of gradients over all rows, clipped to a norm that adapts to \
                                 noisy histograms of the residuals; best for regression";
    const CAPABILITIES: Capabilities =
        Capabilities { rows: RowAccess::Passes, supports_user_level: true, sums: true, ..Capabilities::NONE };

    fn read(options: &OptionReader<'_>) -> Self {
        Self {
            steps: options.get(&STEPS),
            learning_rate: options.get(&LEARNING_RATE),
            momentum: options.get(&MOMENTUM),
        }
    }

    fn plan(&self, problem: &Problem, budget: Budget) -> Result<Plan<AdaptiveClipSchedule>, NotApplicable> {
        check_problem(problem)?;
        let averaged = problem.rows_of_a_record() > 1.0;
        if problem.loss.facts().lipschitz.is_some() && !averaged {
            return Err(NotApplicable::Problem(
                "the gradient of this loss is bounded whatever the residuals are, so that an adaptive clip norm has \
                 no use; choose noisy-gradient-descent, or the squared loss"
                    .into(),
            ));
        }
        let first = default_clip_norm(problem);
        let expected = match problem.loss.facts().lipschitz {
            None => expected_clip(problem),
            Some(_) => first / problem.rows_of_a_record().sqrt(),
        };
        let (recipe, fastest) = self.recipe(problem, budget, expected)?;
        let (steps, weights) = (recipe.steps, problem.weights());
        let mu = gaussian_mu(problem, budget)?;
        let choice = Looks::of(problem.rows, mu);
        let Some(Looks { halvings, share, cells, ratio }) = choice else {
            let least = LOOKS[LOOKS.len() - 1].spread(mu) / WELL_COUNTED;
            return Err(NotApplicable::Problem(
                format!(
                    "there are too few rows to estimate the size of residuals at this budget; give {least:.0} \
                         rows or more, or choose noisy-gradient-descent"
                )
                .into(),
            ));
        };
        // of a short run some fall together
        let mut places: Vec<u64> = halvings.iter().map(|k| steps >> k).collect();
        places.dedup();
        let looks = places.len() as u64;
        let (sizes_of, sum_of) =
            (move |t: f64| t * (looks as f64 / share).sqrt(), move |t: f64| t * (steps as f64 / (1.0 - share)).sqrt());
        let draws = steps as f64 * weights as f64 + looks as f64 * weights.max(cells) as f64;
        let event = |t: f64| {
            let parts = vec![
                Event::gaussian(sizes_of(t)).self_composed(looks),
                Event::gaussian(sum_of(t)).self_composed(steps),
            ];
            SamplerError::rounded(draws).on(Event::composed(parts))
        };
        let (t, certificate) = noise(problem, budget, event)?;
        let noise_multiplier = sum_of(t);
        let schedule = AdaptiveClipSchedule {
            steps,
            learning_rate: recipe.learning_rate,
            first_learning_rate: match self.learning_rate {
                Some(rate) => rate,
                None => recipe.learning_rate.min(recipe.largest_rate),
            },
            largest_learning_rate: fastest,
            momentum: recipe.momentum,
            first_clip_norm: first,
            looks: places,
            cells,
            smallest: FIRST_END * problem.row_norm,
            ratio,
            quantile: QUANTILE,
            sizes_multiplier: sizes_of(t),
            noise_multiplier,
        };
        can_sum(1.0, schedule.sizes_multiplier, schedule.sizes_grid(problem))?;
        for clip in [first, schedule.smallest] {
            can_sum(clip, noise_multiplier * clip, schedule.gradients_grid(problem, clip))?;
        }
        // half way from what any rows allow to what most tables do
        let time = 0.5 * (1.0 + fastest / recipe.learning_rate) * recipe.time();
        let flat_noise = time * noise_multiplier * expected / (problem.rows as f64 * (steps as f64).sqrt());
        let summary = Summary {
            method: Self::NAME,
            loss: problem.loss,
            noise_multiplier,
            steps,
            gradients: problem.rows as f64 * steps as f64,
            // the noise follows what is found
            weight_noise: None,
            predicted_excess_risk: RiskModel::of(problem).learning_time(time, flat_noise),
            certificate,
            assumptions: vec![
                clipped(),
                Assumption::enforced(
                    "a record is in one bin of a histogram of gradient norms, which is released like a clipped \
                     gradient",
                ),
            ],
            warnings: Vec::new(),
        };
        Ok(Plan { schedule, summary })
    }

    /// A look is a pass of its own.
    fn passes(&self, plan: &Plan<AdaptiveClipSchedule>, _: &Problem) -> u64 {
        plan.summary.steps + plan.schedule.looks.len() as u64
    }

    fn run<R: OfRows + 'static>(&self, plan: &Plan<AdaptiveClipSchedule>, run: Run<'_, R>) -> RunResult {
        let Run { problem, examples, curator, progress } = run;
        let s = &plan.schedule;
        let weights = problem.weights();
        let objective = || R::over(problem.objective());
        let sizes = s.sizes(objective(), problem)?;
        let mut gradients = s.gradients(objective(), problem, s.first_clip_norm)?;
        let rate = Cell::new(s.first_learning_rate);
        let mut driver = HeavyBall::new(weights, s.momentum, None, |_| (rate.get(), 1.0));
        let mut pace = Pace::new(s.learning_rate, s.largest_learning_rate, s.momentum);
        let per_record = 1.0 / problem.rows as f64;
        let course = Course { steps: s.steps, first_averaged: s.steps / 2, per_record };
        progress.start(Self::NAME, s.steps);
        // Σ of the squared noise that steps leave where nothing pulls back
        let (mut step, mut clip, mut variance) = (0, s.first_clip_norm, 0.0);
        let one_step = s.noise_multiplier * per_record / (1.0 - s.momentum);
        let answer = drive(&mut driver, course, vec![0.0; weights], progress, |theta| {
            if s.looks.contains(&step) {
                let mut point = theta.to_vec();
                point.resize(weights.max(s.cells), 0.0);
                clip = s.clip_norm(sizes.release(examples, curator, &point)?.get());
                gradients = s.gradients(objective(), problem, clip)?;
                pace.forget();
            }
            let sum = gradients.release(examples, curator, theta)?;
            rate.set(if step < s.steps / 8 {
                s.first_learning_rate
            } else if s.largest_learning_rate <= s.learning_rate {
                s.learning_rate
            } else {
                let mean = sum.get().iter().map(|g| g * per_record).collect();
                pace.next(theta, mean, s.noise_multiplier * clip * per_record)
            });
            variance += (rate.get() * one_step * clip).powi(2);
            step += 1;
            Ok(sum)
        })?;
        progress.finish();
        Ok(curator.postprocess(Solution { noise: Some(vec![variance.sqrt(); weights]), ..answer.into() }))
    }
}

impl AdaptiveClipSchedule {
    fn sizes_grid(&self, problem: &Problem) -> Grid {
        Grid::for_sum(1.0, self.sizes_multiplier, problem.rows, problem.weights().max(self.cells))
    }

    fn gradients_grid(&self, problem: &Problem, clip: f64) -> Grid {
        Grid::for_sum(clip, self.noise_multiplier * clip, problem.rows, problem.weights())
    }

    fn sizes<O>(&self, objective: O, problem: &Problem) -> Result<NoisySum<GradientSizes<O>>, RunError> {
        let (dimension, grid) = (problem.weights().max(self.cells), self.sizes_grid(problem));
        let noise = Gaussian::new(self.sizes_multiplier, 1.0, grid, dimension, "sizes of gradients");
        Ok(NoisySum::new(GradientSizes::new(objective, self.smallest, self.ratio, self.cells), noise)?)
    }

    fn gradients<O>(&self, objective: O, problem: &Problem, clip: f64) -> Result<NoisySum<O>, RunError> {
        let (z, weights, grid) = (self.noise_multiplier, problem.weights(), self.gradients_grid(problem, clip));
        Ok(NoisySum::new(objective, Gaussian::new(z, clip, grid, weights, "gradient sum"))?)
    }

    /// The cell of a gradient's norm.
    pub fn cell(&self, norm: f64) -> usize {
        GradientSizes::new((), self.smallest, self.ratio, self.cells).cell(norm)
    }

    /// C after a histogram: the end of the first cell up to which a share of `quantile` of the noisy counts lies, and behind which no more than
    /// [`MAX_CUT`] of all norms would be cut off as far as noise lets see; at most the first clip norm.
    pub fn clip_norm(&self, counts: &[f64]) -> f64 {
        let counts = &counts[..self.cells];
        let wanted = self.quantile * counts.iter().sum::<f64>();
        let mut below = 0.0;
        let cell = counts.iter().position(|count| {
            below += count;
            below >= wanted
        });
        let sizes = GradientSizes::new((), self.smallest, self.ratio, self.cells);
        let norm = |cell: usize| sizes.end(cell) / self.ratio.sqrt();
        // how much more than the share may be is cut off at `clip`, and the noise of that
        let too_much = |clip: f64| {
            let of = |cell: usize| (norm(cell) - clip).max(0.0) - MAX_CUT * norm(cell);
            let noise = self.sizes_multiplier * (0..self.cells).map(|cell| of(cell).powi(2)).sum::<f64>().sqrt();
            (0..self.cells).map(|cell| counts[cell] * of(cell)).sum::<f64>() > SURE * noise
        };
        let ends = (cell.unwrap_or(self.cells)..self.cells).map(|cell| sizes.end(cell));
        let clip = ends.take_while(|clip| *clip < self.first_clip_norm).find(|clip| !too_much(*clip));
        clip.unwrap_or(self.first_clip_norm)
    }
}

#[cfg(test)]
mod tests {
    use super::super::NoisyGradientDescent;
    use super::*;
    use crate::tests::{LOGISTIC, budget, facts, fit, problem};
    use dpopt_objective::loss::Loss;
    use dpopt_objective::synthetic::table;
    use dpopt_privacy::{Relation, special};

    #[test]
    fn histograms_and_sums_share_the_budget_as_planned() {
        for (rows, halvings, share) in
            [(26_048, vec![5, 4, 3, 2, 1], 0.03), (3500, vec![4, 3, 1], 0.06), (1100, vec![3], 0.1)]
        {
            let p = Problem { rows, ..problem(Loss::Squared, Relation::ZeroOut) };
            let plan = AdaptiveClipDescent::default().plan(&p, budget(1.0)).unwrap();
            let s = &plan.schedule;
            let looks: Vec<u64> = halvings.into_iter().map(|k: u32| s.steps >> k).collect();
            assert_eq!(s.looks, looks);
            assert!((200..=400).contains(&s.steps), "{}", s.steps);
            let sizes = looks.len() as f64 / s.sizes_multiplier.powi(2);
            let sums = s.steps as f64 / s.noise_multiplier.powi(2);
            let mu = special::gaussian_mu(1.0, 1e-5);
            assert!(((sizes + sums).sqrt() / mu - 1.0).abs() < 1e-6, "{rows}");
            assert!((sizes / (sizes + sums) - share).abs() < 1e-9, "{rows}");
            // a 30th of the records is what a quantile may be off by
            assert!((s.cells as f64).sqrt() * s.sizes_multiplier <= rows as f64 / 30.0 * (1.0 + 1e-6), "{rows}");
        }
        let few = Problem { rows: 300, ..problem(Loss::Squared, Relation::ZeroOut) };
        let why = AdaptiveClipDescent::default().plan(&few, budget(1.0)).unwrap_err();
        assert!(why.to_string().contains("rows or more"), "{why}");
        let why = AdaptiveClipDescent::default().plan(&problem(LOGISTIC, Relation::ZeroOut), budget(1.0)).unwrap_err();
        assert!(why.to_string().contains("or the squared loss"), "{why}");
    }

    /// A second moment of R² along one direction, the largest that rows have: the rate is nine tenths of where momentum swings out.
    #[test]
    fn rows_that_are_all_alike_are_learnt() {
        let mut examples = dpopt_objective::records::Examples {
            rows: dpopt_objective::records::Rows::new(3),
            targets: vec![0.5; 20_000],
        };
        (0..20_000).for_each(|_| examples.rows.push_clipped(&mut [(1, 1.0)], 1.0));
        let problem = facts(&examples, Loss::Squared);
        let plan = AdaptiveClipDescent::default().plan(&problem, budget(5.0)).unwrap();
        assert!(plan.schedule.learning_rate > 3.0, "{}", plan.schedule.learning_rate);
        let weights = fit(&AdaptiveClipDescent::default(), &examples, &problem, budget(5.0), 3);
        assert!((weights[1] - 0.5).abs() < 0.01, "{weights:?}");
    }

    #[test]
    fn where_a_pass_is_dear_there_are_fewer_and_what_is_asked_for_stays() {
        let problem =
            |rows| Problem { rows, nonzeros: 251, features: 2000, ..problem(Loss::Squared, Relation::ZeroOut) };
        let plan = |of: AdaptiveClipDescent, rows| of.plan(&problem(rows), budget(1.0)).unwrap().schedule;
        let large = plan(AdaptiveClipDescent::default(), 1_000_000);
        assert_eq!((large.steps, large.momentum), (40, 0.9));
        let small = plan(AdaptiveClipDescent::default(), 10_000);
        assert!(small.steps >= 200 && small.momentum == 0.9, "{small:?}");
        let asked = AdaptiveClipDescent { steps: Some(37), momentum: Some(0.5), learning_rate: None };
        let asked = plan(asked, 1_000_000);
        assert_eq!((asked.steps, asked.momentum), (37, 0.5));
        let rate = AdaptiveClipDescent { learning_rate: Some(0.25), ..Default::default() };
        assert_eq!(plan(rate, 10_000).learning_rate, 0.25);
    }

    #[test]
    fn the_clip_norm_is_the_end_of_the_cell_where_the_quantile_lies() {
        let plan =
            AdaptiveClipDescent::default().plan(&problem(Loss::Squared, Relation::ZeroOut), budget(1.0)).unwrap();
        let s = &plan.schedule;
        let counts = |cells: &[(usize, f64)]| {
            let mut counts = vec![0.0; s.cells + 3];
            cells.iter().for_each(|&(cell, count)| counts[cell] = count);
            counts
        };
        let end = |cell: i32| 0.02 * 2f64.sqrt().powi(cell);
        let same = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
        same(s.clip_norm(&counts(&[(2, 69.0), (4, 31.0)])), end(4));
        same(s.clip_norm(&counts(&[(2, 70.0), (4, 30.0)])), end(2));
        // what lies beyond the histogram's cells is noise
        same(s.clip_norm(&counts(&[(2, 70.0), (4, 30.0), (s.cells, 1e6)])), end(2));
        // noise below zero, large residuals, and nothing at all
        same(s.clip_norm(&counts(&[(0, -50.0), (3, 100.0)])), end(3));
        same(s.clip_norm(&counts(&[(15, 100.0)])), 0.5);
        assert!(s.clip_norm(&counts(&[])) <= 0.5);
    }

    /// Nine in ten are small, and what is learnt lies in the others: they keep most of their length.
    #[test]
    fn where_most_residuals_are_near_zero_the_clip_norm_is_that_of_the_others() {
        let plan =
            AdaptiveClipDescent::default().plan(&problem(Loss::Squared, Relation::ZeroOut), budget(1.0)).unwrap();
        let s = &plan.schedule;
        let of = |cells: &[(usize, f64)]| {
            let mut counts = vec![0.0; s.cells];
            cells.iter().for_each(|&(cell, count)| counts[cell] = count);
            s.clip_norm(&counts)
        };
        let end = |cell: i32| 0.02 * 2f64.sqrt().powi(cell);
        let (norm, same) = (end(8) / 2f64.sqrt().sqrt(), |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}"));
        let clip = of(&[(0, 9e5), (8, 1e5)]);
        assert!(clip > 0.5 * norm && clip < norm, "{clip} {norm}");
        // a histogram of bell-shaped sizes, and what noise alone would look like
        same(of(&[(2, 7e5), (4, 2e5), (5, 1e5)]), end(2));
        same(of(&[(0, 9e3), (8, s.sizes_multiplier)]), end(0));
    }

    /// Counts of mean four, in units of four: most of what can be explained of their deviance is.
    #[test]
    fn counts_are_learnt() {
        let loss = Loss::Poisson { top: Loss::USUAL_TOP };
        let examples = table(4, 8000, 5, 8, 1.0, loss);
        let problem = facts(&examples, loss);
        let mean = |weights: &[f64]| dpopt_objective::synthetic::mean_loss(&examples, loss, weights);
        let nothing = vec![0.0; problem.weights()];
        let mut best = nothing.clone();
        for _ in 0..600 {
            let mut gradient = vec![0.0; best.len()];
            for (i, target) in examples.targets.iter().enumerate() {
                let (columns, values) = examples.rows.row(i);
                let score: f64 = columns.iter().zip(values).map(|(&j, &x)| best[j as usize] * f64::from(x)).sum();
                let slope = loss.scalar_slope(score, f64::from(*target)) / 8000.0;
                columns.iter().zip(values).for_each(|(&j, &x)| gradient[j as usize] += slope * f64::from(x));
            }
            best.iter_mut().zip(&gradient).for_each(|(w, g)| *w -= 0.5 * g);
        }
        let (worst, least) = (mean(&nothing), mean(&best));
        assert!(worst > 1.1 * least, "{worst} {least}");
        for seed in 0..3 {
            let weights = fit(&AdaptiveClipDescent::default(), &examples, &problem, budget(2.0), seed);
            let left = (mean(&weights) - least) / (worst - least);
            assert!(left < 0.25, "{left}");
        }
        let refused = crate::ObjectivePerturbation::default().plan(&problem, budget(1.0)).map(drop).unwrap_err();
        assert!(refused.to_string().contains("Poisson loss"), "{refused}");
    }

    /// Residuals of .1 in a range of 2: noise for a clip norm of ½ is several times what is needed.
    #[test]
    fn small_residuals_get_little_noise() {
        let examples = table(4, 8000, 5, 8, 2.0, Loss::Squared);
        let problem = facts(&examples, Loss::Squared);
        let excess = |weights: Vec<f64>| {
            let floor = 0.5 * 0.1f64.powi(2);
            dpopt_objective::synthetic::mean_loss(&examples, Loss::Squared, &weights) - floor
        };
        let mean = |fits: &dyn Fn(u64) -> Vec<f64>| (0..6).map(|seed| excess(fits(seed))).sum::<f64>() / 6.0;
        let fixed = NoisyGradientDescent::default();
        let fixed = mean(&|seed| fit(&fixed, &examples, &problem, budget(0.5), seed));
        let follows = AdaptiveClipDescent::default();
        let follows = mean(&|seed| fit(&follows, &examples, &problem, budget(0.5), seed));
        // noise is a fifth, but bias is most of what is left of either
        assert!(follows < 0.8 * fixed, "{follows} against {fixed}");
    }
}
