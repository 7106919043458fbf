//! Canaries in correlated and deferred noise: trees, factors, lazy iterates (docs/proofs/correlated.md, docs/proofs/lazy-noise.md).

use dpopt_audit::draws::Draws;
use dpopt_draws::{LazyIterate, LazyOptions, Phase, StepRule};
use dpopt_noise::correlated::{CorrelatedNoise, Factor, TreeNoise};
use dpopt_noise::{Grid, PoissonSkips, RoundedGaussian};

/// 2^20 units are a contribution of 1.
const EXPONENT: i32 = -20;
const ONE: i64 = 1 << 20;

fn contribution(with: bool) -> i64 {
    if with { ONE } else { 0 }
}

/// All prefixes of a tree with noise `node_std` per node, 2^(levels−1) steps, the canary in the first: the sum of the noisy
/// nodes that hold it, which is sufficient. Node l of the first leaf is the prefix of 2^l steps itself.
pub(crate) fn tree(levels: u32, node_std: f64, with: bool, draws: &mut Draws) -> f64 {
    let grid = Grid::new(EXPONENT);
    let Ok(node_noise) = RoundedGaussian::new(node_std, grid) else { return f64::NAN };
    let steps = 1u64 << (levels - 1);
    let mut tree = TreeNoise::new(node_noise, 1, steps);
    let mut total = 0.0;
    for step in 1..=steps {
        let mut prefix = [contribution(with)];
        if tree.add_next(&mut prefix, draws.noise()).is_err() {
            return f64::NAN;
        }
        if step.is_power_of_two() {
            total += grid.to_f64(prefix[0]);
        }
    }
    total
}

/// A run with noise σ·C⁻¹z in which the canary contributes 1 at some steps.
pub(crate) struct Correlated {
    factor: Factor,
    coefficients: Vec<f64>,
    noise_std: f64,
    steps: usize,
}

impl Correlated {
    /// σ = `noise_std`; the event is one Gaussian of multiplier σ over the factor's sensitivity.
    pub(crate) fn new(factor: Factor, noise_std: f64, steps: usize) -> Self {
        Self { coefficients: factor.coefficients(steps), factor, noise_std, steps }
    }

    /// The noisy contributions of all steps.
    fn outputs(&self, participates: &[bool], draws: &mut Draws) -> Option<Vec<f64>> {
        let grid = Grid::new(EXPONENT);
        let mut noise = CorrelatedNoise::new(self.factor.clone(), self.noise_std, grid, 1, self.steps).ok()?;
        let step = |&in_batch: &bool| {
            let mut sum = [contribution(in_batch)];
            noise.add_next(&mut sum, draws.noise()).then(|| grid.to_f64(sum[0]))
        };
        participates.iter().map(step).collect()
    }

    /// (C e)_t for a record that contributes at the steps of `participates`.
    fn column(&self, participates: &[bool]) -> Vec<f64> {
        self.apply(&participates.iter().map(|&p| super::indicator(p)).collect::<Vec<f64>>())
    }

    fn apply(&self, x: &[f64]) -> Vec<f64> {
        (0..x.len()).map(|t| (0..=t).map(|j| self.coefficients[t - j] * x[j]).sum()).collect()
    }

    /// (C 1)_t: the weight of a record that takes part in every step.
    pub(crate) fn everywhere(&self) -> Vec<f64> {
        self.column(&vec![true; self.steps])
    }

    /// The statistic Σ y_t·w_t of one run's outputs y_t; NaN if it is refused.
    pub(crate) fn weighted(&self, actual: &[bool], weights: &[f64], draws: &mut Draws) -> f64 {
        self.outputs(actual, draws).map_or(f64::NAN, |y| y.iter().zip(weights).map(|(y, w)| y * w).sum())
    }

    /// ⟨C y, C e⟩: the matched filter for participation `expected`, when the record really takes part at `actual`.
    pub(crate) fn matched(&self, actual: &[bool], expected: &[bool], draws: &mut Draws) -> f64 {
        let Some(y) = self.outputs(actual, draws) else { return f64::NAN };
        self.apply(&y).iter().zip(self.column(expected)).map(|(a, b)| a * b).sum()
    }
}

/// The library's batch sampler and noise, step by step: what the canary's coordinate of a noisy batch sum is made of.
pub(crate) struct Batches {
    skips: PoissonSkips,
    noise: RoundedGaussian,
}

impl Batches {
    /// Probability q, noise of standard deviation `noise_std` on a sum of sensitivity 1.
    pub(crate) fn new(sampling_probability: f64, noise_std: f64) -> Self {
        match (PoissonSkips::new(sampling_probability), RoundedGaussian::new(noise_std, Grid::new(EXPONENT))) {
            (Ok(skips), Ok(noise)) => Self { skips, noise },
            _ => unreachable!("the audits' own probabilities and scales are in range"),
        }
    }

    /// Whether a record enters a batch.
    pub(crate) fn enters(&self, draws: &mut Draws) -> bool {
        let mut batch = Vec::new();
        self.skips.subset(1, draws.noise(), &mut batch);
        !batch.is_empty()
    }

    /// Adds noise to one sum.
    pub(crate) fn release(&self, sum: f64, draws: &mut Draws) -> f64 {
        sum + Grid::new(EXPONENT).to_f64(self.noise.sample(draws.noise()))
    }

    /// `steps` noisy sums of what `contribution` says.
    pub(crate) fn sums(
        &self,
        steps: usize,
        draws: &mut Draws,
        mut contribution: impl FnMut(usize, &mut Draws) -> f64,
    ) -> Vec<f64> {
        (0..steps)
            .map(|step| {
                let sum = contribution(step, draws);
                self.release(sum, draws)
            })
            .collect()
    }
}

/// Which of `steps` steps are `chosen`.
pub(crate) fn at(steps: usize, chosen: &[usize]) -> Vec<bool> {
    (0..steps).map(|s| chosen.contains(&s)).collect()
}

/// The final weight, times −1, of a lazily noised run of `steps` steps of noise 1 (step size 1, decay a), with the canary's
/// gradient 1 in the steps `touched`; all other steps are drawn together when the weight is next needed.
pub(crate) fn lazy(steps: u32, decay: f64, touched: &[u32], with: bool, draws: &mut Draws) -> f64 {
    let rule = StepRule { learning_rate: 1.0, decay, momentum: 0.0, average_weight: 0.0 };
    lazy_runs(vec![Phase { steps, rule }], touched, with, draws)
}

/// The answer, times −1, of a run of `before` steps and another of `after` steps whose iterates are averaged, the canary in the
/// first step of the latter.
pub(crate) fn lazy_average(before: u32, after: u32, with: bool, draws: &mut Draws) -> f64 {
    let rule = |average_weight| StepRule { learning_rate: 1.0, decay: 1.0, momentum: 0.0, average_weight };
    let mut runs = vec![Phase { steps: before, rule: rule(0.0) }, Phase { steps: after, rule: rule(1.0) }];
    runs.retain(|run| run.steps > 0);
    lazy_runs(runs, &[before], with, draws)
}

fn lazy_runs(runs: Vec<Phase>, touched: &[u32], with: bool, draws: &mut Draws) -> f64 {
    let steps: u32 = runs.iter().map(|run| run.steps).sum();
    let options = LazyOptions {
        dimension: 2,
        runs,
        noise_std: 1.0,
        max_gradient: 2.0,
        grid: Grid::new(EXPONENT),
        max_reads: 2 * u64::from(steps),
    };
    let Ok(mut iterate) = LazyIterate::new(&options) else { return f64::NAN };
    for step in 0..steps {
        if with && touched.contains(&step) {
            iterate.read(0, draws.noise());
            iterate.add(0, ONE);
        }
        if !iterate.end_step(draws.noise()) {
            return f64::NAN;
        }
    }
    -iterate.finish(draws.noise())[0]
}
