//! Randomly stopped SGD with bias-reduced sparse gradients (Ghazi et al. 2024, Algorithms 3 and 4; docs/proofs/bias-reduced-sgd.md).
//!
//! Projecting a noisy mean on sparse vectors removes most of the noise and leaves a bias that shrinks with the batch. A step
//! draws a batch size 2^{N+1} with P(N = k) ∝ 2^{-k}, and the difference between the batch's projected mean and those of its
//! random halves, weighed by 1/P(N): the expectations telescope, so a step has the bias of a batch of 2^{M+1} ≈ n records
//! at the price of log n.
//!
//! Covers: sparse-v1 algorithm 6 (certified: batch sizes are public, the run is composed numerically)
//! Covers: sparse-v2 algorithm 4 (certified: batch sizes are public, the run is composed numerically)
//! Covers: sparse-v1 theorem 6.7, theorem 6.8 (part: the method is certified; the rate is measured, not claimed)
//! Covers: sparse-v2 theorem 5.7, theorem 5.8 (part: the method is certified; the rate is measured, not claimed)
//! Covers: sparse-v1 proposition 6.6 (part: with a factor that the print forgets, in plans)
//! Covers: sparse-v2 proposition 5.6 (part: with a factor that the print forgets, in plans)
//! Covers: sparse-v1 theorem a.4 (part: the published rule can be asked for; what certifies the run is composition)
//! Covers: sparse-v2 theorem a.4 (part: the published rule can be asked for; what certifies the run is composition)

mod iterate;
mod levels;

use dpopt_mechanism::{BatchGradients, Clipped, ProjectedGradients};
use dpopt_noise::Grid;
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::OfRows;
use dpopt_optimize::algorithm::Capabilities;
use dpopt_optimize::options::OptionReader;
use dpopt_optimize::options::common::{CLIP_NORM, DISTANCE, LEARNING_RATE, STEPS};
use dpopt_optimize::plan::{Assumption, NotApplicable, Plan, Problem, Summary, certify};
use dpopt_optimize::planning::{
    SamplerError, asked_steps, check_problem, clipped, in_range, positive, require_delta, sum_grid,
};
use dpopt_optimize::risk::RiskModel;
use dpopt_optimize::{Algorithm, Run, RunError, RunResult};
use dpopt_privacy::{Budget, Event, Relation};
use iterate::Iterate;
use levels::{Costs, Levels, counts, event, least_noise, published_steps, steps_with_reserve};
use serde::{Deserialize, Serialize};

/// Options of bias-reduced SGD. `None` means: chosen from public facts.
#[derive(Clone, Debug, Default)]
pub struct BiasReducedSgd {
    /// z > 0: noise standard deviation of every gradient sum over C. Default: [`SPARE`] times what one step of the
    /// largest batch would need.
    pub noise_multiplier: Option<f64>,
    /// M: the largest batch has 2^{M+1} records. Default and most: ⌊log₂ n⌋ − 1.
    pub top_level: Option<u32>,
    /// Most steps. Default: as many as the budget allows.
    pub steps: Option<u64>,
    /// η > 0 on the mean loss. Default D/(ν√T), ν² bounding the second moment of a step's gradient.
    pub learning_rate: Option<f64>,
    /// C > 0. Default: the loss's own bound R·sup|φ'| (1·R for squared loss), so that nothing is clipped.
    pub clip_norm: Option<f64>,
    /// D > 0: iterates stay in the l2 ball of this radius. Default: the norm that the risk model expects.
    pub radius: Option<f64>,
    /// How T is chosen and accounted.
    pub stopping: Stopping,
    /// Which iterates make the answer.
    pub output: Output,
    /// Public seed of the batch sizes.
    pub size_seed: u64,
}

/// When a run stops. Both rules look at past batch sizes only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stopping {
    /// Plain composition of the releases made so far and one step of the largest batch stays within the budget.
    #[default]
    Composition,
    /// The published privacy filter with the published noise (ε ≤ 1 only): 30 to 45 times as much as needed.
    Filter,
}

/// Which iterates make the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Output {
    /// The mean of the iterates: convex losses.
    #[default]
    Mean,
    /// A uniformly random iterate: any smooth loss, for a small gradient.
    Random,
}

/// The schedule of bias-reduced SGD.
#[derive(Clone, Debug, Serialize)]
pub struct BiasReducedSchedule {
    /// The loss that is minimised.
    pub loss: Loss,
    /// Number of steps made.
    pub steps: u64,
    /// How often each batch size 2, 4, 8, … occurs among them.
    pub batch_counts: Vec<u64>,
    /// Public seed of their order.
    pub size_seed: u64,
    /// M: the largest batch has 2^(M+1) records.
    pub top_level: u32,
    /// The step size η.
    pub learning_rate: f64,
    /// The l2 clip norm C of a record's gradient.
    pub clip_norm: f64,
    /// The l2 radius D of the ball that iterates stay in.
    pub radius: f64,
    /// s of the sets that means are projected on.
    pub sparsity: usize,
    /// z: noise over what one record's presence moves.
    pub noise_multiplier: f64,
    /// ν: bound on the root mean square of a step's gradient.
    pub gradient_bound: f64,
    /// b: bound on the norm of its bias.
    pub bias_bound: f64,
    /// How T was chosen.
    pub stopping: Stopping,
    /// Which iterates make the answer.
    pub output: Output,
    /// log2 of the grid step.
    pub grid_exponent: i32,
}

impl BiasReducedSchedule {
    /// All that its steps release of so many records, from exact samplers.
    pub fn event(&self, records: u64) -> Event {
        event(&self.batch_counts, records, self.noise_multiplier)
    }
}

/// Default noise over that of one step of the largest batch: room for a few thousand steps beside the reserve for one of
/// the largest batch (measured: a multiplier of 8 where the reserve alone needs 5.97).
pub const SPARE: f64 = 1.34;

/// Bound on E‖projected mean − mean‖² for a batch of `size`: 2C√s·σ√(2 ln 2d), or dσ², or (2C)².
fn squared_error(clip_norm: f64, sparsity: f64, z: f64, dimension: f64, size: f64) -> f64 {
    let sigma = z * clip_norm / size;
    (2.0 * clip_norm * sparsity.sqrt() * sigma * (2.0 * (2.0 * dimension).ln()).sqrt())
        .min(dimension * sigma * sigma)
        .min(4.0 * clip_norm * clip_norm)
}

/// (ν, b): bounds on the root mean square and on the bias of the gradient of a step.
fn moments(levels: Levels, error: impl Fn(f64) -> f64, clip_norm: f64) -> (f64, f64) {
    // ‖G⁺ − (G_O + G_E)/2‖² ≤ 2·error(2^{k+1}) + 2·error(2^k): the batch's own mean cancels
    let telescope: f64 = (0..=levels.top)
        .map(|k| (2.0 * error(2f64.powi(k as i32 + 1)) + 2.0 * error(2f64.powi(k as i32))) / levels.probability(k))
        .sum();
    ((2.0 * telescope + 2.0 * clip_norm * clip_norm).sqrt(), error(2f64.powi(levels.top as i32 + 1)).sqrt())
}

impl BiasReducedSgd {
    /// The published calibration of one call at (ε/8, δ/4), each mechanism at (ε/32, δ/16) by the classical formula, in
    /// units of C (the published sensitivity is 2C).
    fn published_multiplier(budget: Budget) -> f64 {
        2.0 * (2.0 * (1.25 * 16.0 / budget.delta()).ln()).sqrt() / (budget.epsilon() / 32.0)
    }

    /// Event of `counts` with the samplers' errors: the noise of three or one d-vectors per release.
    fn approximate_event(counts: &[u64], problem: &Problem, z: f64) -> Event {
        let steps: u64 = counts.iter().sum();
        let draws = 4.0 * steps as f64 * problem.weights() as f64;
        SamplerError::rounded(draws.min(1e33)).on(event(counts, problem.rows, z))
    }
}

/// Rényi costs of the steps, or why there are none.
fn costs(levels: Levels, problem: &Problem, z: f64) -> Result<Costs, NotApplicable> {
    Costs::of(levels, problem.rows, z).map_err(|e| NotApplicable::Problem(e.to_string().into()))
}

impl Algorithm for BiasReducedSgd {
    type Schedule = BiasReducedSchedule;
    const NAME: &'static str = "bias-reduced-sgd";
    const ABOUT: &'static str =
        "releases noisy means of a batch of random size and of its halves; a reference, never the best";
    const CAPABILITIES: Capabilities = Capabilities { reference: true, ..Capabilities::NONE };

    fn read(options: &OptionReader<'_>) -> Self {
        Self {
            steps: options.get(&STEPS),
            learning_rate: options.get(&LEARNING_RATE),
            clip_norm: options.get(&CLIP_NORM),
            radius: options.get(&DISTANCE),
            ..Self::default()
        }
    }

    fn plan(&self, problem: &Problem, budget: Budget) -> Result<Plan<BiasReducedSchedule>, NotApplicable> {
        check_problem(problem)?;
        require_delta(budget)?;
        if problem.relation() == Relation::AddOrRemove {
            return Err(NotApplicable::Problem(
                "it samples batches of fixed size from a public number of rows; use zero-out or replace-one".into(),
            ));
        }
        if problem.rows < 4 {
            return Err(NotApplicable::Problem("it needs at least 4 rows".into()));
        }
        asked_steps(self.steps)?;
        let n = problem.rows as f64;
        let most = Levels::of(problem.rows);
        let levels = match self.top_level {
            Some(top) => Levels { top: in_range("the top level", f64::from(top), 0.0, f64::from(most.top))? as u32 },
            None => most,
        };
        let own = problem.row_norm * problem.loss.facts().lipschitz.unwrap_or(1.0);
        let clip_norm = positive("the clip norm", self.clip_norm.unwrap_or(own))?;
        let model = RiskModel::of(problem);
        let radius = positive("the radius", self.radius.unwrap_or_else(|| model.squared_norm().sqrt()))?;
        if self.stopping == Stopping::Filter && budget.epsilon() > 1.0 {
            return Err(NotApplicable::Option("the published filter is proved for epsilon at most 1".into()));
        }
        let published = Self::published_multiplier(budget);
        let z = match (self.stopping, self.noise_multiplier) {
            (Stopping::Filter, _) => published,
            (Stopping::Composition, Some(z)) => positive("the noise multiplier", z)?,
            (Stopping::Composition, None) => {
                let least = least_noise(levels, problem.rows, budget);
                SPARE * least.map_err(|e| NotApplicable::Problem(e.to_string().into()))?
            }
        };
        // more than the published rule ever makes, and than is worth the time
        let longest = (16.0 * n / (4.0 / budget.delta()).ln()).ceil().clamp(64.0, 2e6) as u64;
        let sequence = levels.sequence(self.size_seed, self.steps.unwrap_or(longest).clamp(1, 10_000_000) as usize);
        let filtered = published_steps(&sequence, problem.rows, budget.epsilon(), budget.delta());
        let steps = match self.stopping {
            Stopping::Filter => filtered,
            Stopping::Composition => {
                let costs = costs(levels, problem, z)?;
                steps_with_reserve(&sequence, levels, |counts| costs.fit(counts, budget))
            }
        };
        if steps == 0 {
            return Err(NotApplicable::Option(format!(
                "with noise multiplier {z} not even one step of the largest batch fits the budget; leave it out, or raise it"
            ).into()));
        }
        let batch_counts = counts(&sequence[..steps], levels);
        let certificate = certify(&Self::approximate_event(&batch_counts, problem, z), problem, budget)?;
        let published_counts = counts(&sequence[..filtered], levels);
        let published_cost = costs(levels, problem, published)?.epsilon(&published_counts, budget.delta());
        let dimension = problem.weights();
        let sparsity = (problem.nonzeros.max(1) * problem.loss.outputs()).min(dimension);
        let error = |size: f64| squared_error(clip_norm, sparsity as f64, z, dimension as f64, size);
        let (nu, bias) = moments(levels, error, clip_norm);
        let made = steps as f64;
        let learning_rate = match self.learning_rate {
            Some(rate) => positive("the learning rate", rate)?,
            None => radius / (nu * made.sqrt()),
        };
        // E[excess] ≤ D²/(2ηT) + ην²/2 + b·D, and no more than what the ball allows
        let bound = radius * radius / (2.0 * learning_rate * made) + 0.5 * learning_rate * nu * nu + bias * radius;
        let grid = sum_grid(clip_norm, z * clip_norm, problem.rows, dimension)?;
        let records: u64 = batch_counts.iter().enumerate().map(|(k, c)| c * ((2 << k) + 1)).sum();
        let mut warnings = vec![format!(
            "two accountings of one public sequence of batch sizes: plain composition makes {steps} steps with noise multiplier \
             {z:.2} for ε = {:.3}; the published filter would make {filtered} steps with noise multiplier {published:.1}, which \
             by plain composition cost ε = {published_cost:.3}",
            certificate.bound().upper
        )];
        if bound > own * radius {
            warnings.push(format!(
                "the bound on the excess risk, {bound:.3}, is above that of answering 0, {:.3}: this method needs many more rows",
                own * radius
            ));
        }
        Ok(Plan {
            summary: Summary {
                method: Self::NAME,
                loss: problem.loss,
                noise_multiplier: z,
                steps: steps as u64,
                gradients: records as f64,
                weight_noise: Some(2.0 * radius),
                predicted_excess_risk: bound.min(own * radius),
                certificate,
                assumptions: vec![
                    clipped(),
                    Assumption::enforced(
                        "batches of fixed size and their halves are uniformly random and secret: drawn by the curator",
                    ),
                ],
                warnings,
            },
            schedule: BiasReducedSchedule {
                loss: problem.loss,
                steps: steps as u64,
                batch_counts,
                size_seed: self.size_seed,
                top_level: levels.top,
                learning_rate,
                clip_norm,
                radius,
                sparsity,
                noise_multiplier: z,
                gradient_bound: nu,
                bias_bound: bias,
                stopping: self.stopping,
                output: self.output,
                grid_exponent: grid.exponent(),
            },
        })
    }

    fn run<R: OfRows + 'static>(&self, plan: &Plan<BiasReducedSchedule>, run: Run<'_, R>) -> RunResult {
        let Run { problem, examples, curator, progress } = run.in_memory(Self::NAME)?;
        let s = &plan.schedule;
        let (levels, grid) = (Levels { top: s.top_level }, Grid::new(s.grid_exponent));
        let sequence = levels.sequence(s.size_seed, s.steps as usize);
        let gradient = Clipped::new(problem.objective().with_loss(s.loss), s.clip_norm, grid)?;
        let single = ProjectedGradients {
            noise_multiplier: s.noise_multiplier,
            clip_norm: s.clip_norm,
            grid,
            dimension: problem.weights() as u64,
            sparsity: s.sparsity as f64,
            telescoped: false,
        };
        let halved = ProjectedGradients { telescoped: true, ..single.clone() };
        let records = problem.rows as usize;
        let mut x = Iterate::zero(problem.weights(), Some(s.radius));
        // which iterate is returned is decided by public randomness, after that of the batch sizes
        let kept = self.output.choice(s);
        let mut answer = None;
        progress.start(Self::NAME, s.steps);
        for (t, &level) in sequence.iter().enumerate() {
            x.record();
            if kept == Some(t as u64) {
                answer = Some(x.weights());
            }
            let batch = curator.fixed_sample(records, 2 << level)?;
            let sums = BatchGradients::of(&gradient, examples, batch, true, x.point());
            let means = curator.release(&halved, &sums)?;
            let one = curator.fixed_sample(records, 1)?;
            let sum = BatchGradients::of(&gradient, examples, one, false, x.point());
            let first = curator.release(&single, &sum)?;
            // (G⁺ − (G_O + G_E)/2)/p_N + G₀
            let p = levels.probability(u32::from(level));
            let [whole, odd, even] = &means.get()[..] else { return Err(RunError::Numerical("a batch has no halves")) };
            let [start] = &first.get()[..] else { return Err(RunError::Numerical("a record has no gradient")) };
            let parts = [(1.0 / p, &whole[..]), (-0.5 / p, odd), (-0.5 / p, even), (1.0, start)];
            x.step(s.learning_rate, &parts);
            progress.tick();
        }
        progress.finish();
        let weights = answer.unwrap_or_else(|| x.mean());
        if weights.iter().any(|w| !w.is_finite()) {
            return Err(RunError::Numerical("the weights are not finite"));
        }
        Ok(curator.postprocess(weights.into()))
    }
}

impl Output {
    /// The step whose iterate is returned, if it is one of them.
    fn choice(self, schedule: &BiasReducedSchedule) -> Option<u64> {
        let mut stream = dpopt_noise::NoiseSource::insecure(schedule.size_seed).stream(dpopt_noise::Purpose::Split, 0);
        (self == Self::Random).then(|| stream.below(schedule.steps))
    }
}

#[cfg(test)]
mod tests;
