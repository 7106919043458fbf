//! A canary in a stream of gradient sums with correlated noise, all steps seen (docs/proofs/correlated.md).

use crate::worst_cases::methods::coordinate;
use crate::worst_cases::sums::CLIP;
use dpopt_audit::draws::Draws;
use dpopt_mechanism::{
    Batching, Clipped, Correlation, Interactive, Sensitive, StreamPlan, StreamShape, past_the_curator,
};
use dpopt_noise::correlated::TreeNoise;
use dpopt_noise::{Grid, NoiseSource, RoundedGaussian};
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::Linear;
use dpopt_objective::records::{Examples, Rows};
use dpopt_privacy::Relation;

/// The sufficient statistic Σ w_t y_t of a canary that contributes 1 at known steps.
#[derive(Clone)]
pub(crate) struct Filter {
    weights: Vec<f64>,
    /// l2 norm of what the canary moves, in units of one normal variable of the noise.
    pub(crate) norm: f64,
}

impl Filter {
    /// For a canary that takes part at the steps `taken`. A tree's must be the first steps of epochs of 2^k steps.
    pub(crate) fn new(shape: StreamShape, taken: &[usize]) -> Result<Self, String> {
        let steps = shape.steps;
        let Some(factor) = shape.factor().map_err(|e| e.to_string())? else {
            // node l of an epoch's first leaf is the epoch's prefix of 2^l steps
            let nodes = |step: usize| (0..=shape.batches.ilog2()).filter(|l| 1 << l > step % shape.batches).count();
            let weight =
                |step: usize| if taken.contains(&(step - step % shape.batches)) { nodes(step) as f64 } else { 0.0 };
            let norm = (taken.len() as f64 * f64::from(shape.batches.ilog2() + 1)).sqrt();
            return Ok(Self { weights: (0..steps).map(weight).collect(), norm });
        };
        // y = e + σ·C⁻¹z, so ⟨Cy, Ce⟩ = ⟨y, CᵀCe⟩
        let c = factor.coefficients(steps);
        let moved: Vec<f64> = (0..steps).map(|t| taken.iter().filter(|&&s| s <= t).map(|&s| c[t - s]).sum()).collect();
        let weights = (0..steps).map(|t| (t..steps).map(|u| c[u - t] * moved[u]).sum()).collect();
        Ok(Self { weights, norm: moved.iter().map(|x| x * x).sum::<f64>().sqrt() })
    }

    /// Σ w_t y_t; NaN if steps are missing.
    pub(crate) fn apply(&self, outputs: &[f64]) -> f64 {
        if outputs.len() != self.weights.len() {
            return f64::NAN;
        }
        outputs.iter().zip(&self.weights).map(|(y, w)| y * w).sum()
    }
}

/// Statistic of prefix sums under one tree whose canary adds 1 at the steps `taken` (from 1): each node times what is in it.
pub(crate) fn tree_nodes(prefixes: &[f64], taken: &[usize]) -> f64 {
    let prefix = |t: usize| if t == 0 { 0.0 } else { prefixes.get(t - 1).copied().unwrap_or(f64::NAN) };
    (1..=prefixes.len())
        .map(|t| {
            let start = t - (1 << t.trailing_zeros());
            let inside = taken.iter().filter(|&&s| start < s && s <= t).count();
            inside as f64 * (prefix(t) - prefix(start))
        })
        .sum()
}

/// The shipped stream, one record per batch, one of which may be the canary.
pub(crate) struct Stream {
    shape: StreamShape,
    noise_multiplier: f64,
    /// The canary at each position, then nowhere.
    tables: Vec<Sensitive<Examples>>,
}

impl Stream {
    /// Noise `noise_multiplier` times the clip norm times the stream's sensitivity.
    pub(crate) fn new(shape: StreamShape, noise_multiplier: f64) -> Self {
        let n = shape.batches;
        let table = |position| {
            let mut rows = Rows::new(1);
            let mut targets = vec![0.0f32; n];
            for i in 0..n {
                if i == position { rows.push_clipped(&mut [(0, 1.0)], 1.0) } else { rows.push_zero() }
            }
            if let Some(target) = targets.get_mut(position) {
                *target = 1.0;
            }
            Sensitive::new(Examples { rows, targets })
        };
        Self { shape, noise_multiplier, tables: (0..=n).map(table).collect() }
    }

    /// All steps, in units of C, where the canary is at `position(epoch)` if it is there; empty if refused.
    pub(crate) fn run(&self, with: bool, position: impl Fn(usize) -> usize, draws: &mut Draws) -> Vec<f64> {
        let n = self.shape.batches;
        let grid = Grid::new(-20);
        let outputs = |draws: &mut Draws| {
            let plan = StreamPlan {
                shape: self.shape,
                gradient: Clipped::new(Linear::new(Loss::Absolute, 1, 1.0), CLIP, grid).ok()?,
                noise_multiplier: self.noise_multiplier,
                dimension: 1,
                records: n as u64,
                relation: Relation::ZeroOut,
                batching: Batching::Position,
            };
            let mut curator = past_the_curator::watched(&plan.event(), NoiseSource::insecure(draws.word()));
            let mut stream = curator.open(&plan).ok()?;
            for step in 0..self.shape.steps {
                let table = &self.tables[if with { position(step / n) } else { n }];
                stream.next(table, &[0.0]).ok()?;
            }
            Some(coordinate(&past_the_curator::seen(&curator), 0, CLIP))
        };
        outputs(draws).unwrap_or_default()
    }
}

/// Prefix sums of `steps` steps under one tree with `node_std` per node. `exact(t)` is the prefix after t steps; gives the noisy ones.
pub(crate) fn one_tree(node_std: f64, steps: usize, exact: impl Fn(usize) -> i64, draws: &mut Draws) -> Vec<f64> {
    let grid = Grid::new(-20);
    let Ok(node) = RoundedGaussian::new(node_std, grid) else { return Vec::new() };
    let mut tree = TreeNoise::new(node, 1, steps as u64);
    (1..=steps)
        .map_while(|t| {
            let mut prefix = [exact(t) << 20];
            tree.add_next(&mut prefix, draws.noise()).is_ok().then(|| grid.to_f64(prefix[0]))
        })
        .collect()
}

/// A shape by its numbers.
pub(crate) fn shape(correlation: Correlation, batches: usize, epochs: usize) -> StreamShape {
    StreamShape { batches, steps: batches * epochs, correlation }
}
