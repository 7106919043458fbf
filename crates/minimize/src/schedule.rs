//! All numbers of a run: which records its steps read, what moves x, and in which phases.

use super::cells::{NetSchedule, TreeSchedule};
use super::o2nc_schedule::ConversionSchedule;
use super::one_pass_schedule::OnePassSchedule;
use super::source::{Summing, Whom};
use super::spider_schedule::SpiderSchedule;
use dpopt_mechanism::{Batching, StreamShape};
use dpopt_noise::Grid;
use dpopt_optimize::choices::Domain;
use dpopt_privacy::Budget;
use serde::Serialize;
use std::collections::BTreeMap;

/// Which iterates make the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Averaged {
    /// Mean of the last half.
    #[default]
    LastHalf,
    /// The last iterate alone.
    Last,
    /// Mean of all iterates.
    All,
}

/// Which records a step reads.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "batches", rename_all = "kebab-case")]
pub enum Batches {
    /// All records at every step.
    All,
    /// Each with this probability, independently and secretly.
    Poisson {
        /// q: probability of a record to be in a batch.
        sampling_probability: f64,
    },
    /// So many of them, a uniform choice, secretly.
    Fixed {
        /// m: number of records of a batch.
        batch_size: u64,
    },
    /// Each once an epoch, with correlated noise.
    Stream {
        /// Number of batches and steps, and the correlation of the noise.
        #[serde(flatten)]
        shape: StreamShape,
        /// Which batch a record is in.
        batching: Batching,
        /// l2 sensitivity of the whole stream over the clip norm.
        sensitivity: f64,
    },
    /// Each once, in batches whose sizes what was released decides; a step's noise is that of a running sum.
    Once(OnePassSchedule),
}

/// The rule that moves the iterate x.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "rule", rename_all = "kebab-case")]
pub enum Rule {
    /// v ← βv + g, x ← x − ηv.
    HeavyBall {
        /// η on the mean loss.
        learning_rate: f64,
        /// β: momentum of the heavy ball.
        momentum: f64,
    },
    /// Adam: steps scaled by running moments of the gradients.
    Adam {
        /// α: learning rate of Adam.
        learning_rate: f64,
        /// β₁: decay of the first moments.
        momentum: f64,
        /// β₂: decay of the second moments.
        second_momentum: f64,
    },
    /// x ← x − 2/(μ(t + 1))·(g + the added term's slope); the answer is the mean of all, step t with weight t.
    Shrinking {
        /// μ that it works with.
        strong_convexity: f64,
        /// 2u of the term u‖x − x₀‖² that is added.
        added_curvature: f64,
    },
    /// x ← argmin ⟨g, x⟩ + (λ/2)‖x − c‖² + ‖x − x_t‖²/(2η_t), η_t = 4/((λ + μ)(t + 1)), c where the phase starts; the answer is the mean of all, step t ≥ 0 with
    /// weight t + 4.
    Proximal {
        /// μ of the loss.
        strong_convexity: f64,
        /// λ: curvature of the added quadratic.
        added_curvature: f64,
    },
    /// AC-SA: accelerated stochastic approximation.
    Accelerated {
        /// L that it works with.
        smoothness: f64,
        /// μ that it works with.
        strong_convexity: f64,
        /// 2u of the term u‖x − x₀‖² that is added where the loss itself may be flat; 0 otherwise.
        added_curvature: f64,
    },
    /// Accelerated-DP-SRGD: accelerated steps along (1/t)Σ_s of the batches' mean t·∇φ(x_t) − (t − 1)·∇φ(x_{t−1}).
    Recursive {
        /// L that the steps work with: at least that of the mean loss, and more where noise asks for shorter steps.
        smoothness: f64,
    },
    /// A choice among the points of a public net.
    Net(NetSchedule),
    /// A choice among the points of a public tree.
    Tree(TreeSchedule),
    /// Steps that clipped online descent chooses, and the mean of a block of points along them.
    Conversion(ConversionSchedule),
    /// The steps of a user-defined method.
    Own,
}

/// Derivatives along directions in place of gradients.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DirectionSchedule {
    /// K: number of directions.
    pub directions: usize,
    /// h: half width of the differences.
    pub difference: f64,
}

/// All numbers of a run.
#[derive(Clone, Debug, Serialize)]
pub struct MinimizeSchedule {
    /// Which records a step reads.
    #[serde(flatten)]
    pub batches: Batches,
    /// The rule that moves the iterate x.
    #[serde(flatten)]
    pub rule: Rule,
    /// T: number of noisy steps.
    pub steps: u64,
    /// C of what a record contributes: its gradient, the weighted difference of two, or its derivatives along all directions of a step.
    pub clip_norm: f64,
    /// Most that clipping takes from the mean gradient, if the stated moment of gradients is true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clip_bias: Option<f64>,
    /// z: of a sum, over C; of a stream, of one normal variable over C times the sensitivity; of Spider and o2nc, of one sum that would cost what all cost.
    pub noise_multiplier: f64,
    /// Standard deviation of the noise of a sum, per coordinate.
    pub noise_std: f64,
    /// log2 of the grid step.
    pub grid_exponent: i32,
    /// λ of (λ/2)‖x − x₀‖², in units of the sum of losses.
    pub regularization: f64,
    /// Where x may lie, around the start.
    pub domain: Domain,
    /// What of the iterates is the answer.
    pub average: Averaged,
    /// What is to be small: the loss of these records, or of others like them.
    pub goal: Goal,
    /// Radius of the ball that each record's point is drawn from; 0: none is moved.
    pub smoothing: f64,
    /// If there are several, `rule`, `noise_multiplier` and `smoothing` are those of the first one: on blocks of their own for the population's sake,
    /// else on all records.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<Phase>,
    /// J: of so many disjoint chunks' answers the most central one is where a phase led.
    #[serde(skip_serializing_if = "is_one")]
    pub chunks: u64,
    /// Derivatives along directions in place of gradients; `None` where gradients are used.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub along: Option<DirectionSchedule>,
    /// `None`: every gradient is asked for afresh.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub spider: Option<SpiderSchedule>,
    /// Numbers of a user-defined method.
    #[serde(flatten)]
    pub own: BTreeMap<&'static str, f64>,
}

impl MinimizeSchedule {
    /// Whether sums of gradients over all records are all that a run asks for, so that remote records can be asked for them.
    pub fn asks_for_whole_sums(&self) -> bool {
        let steps = !matches!(self.rule, Rule::Net(_) | Rule::Tree(_)) && self.along.is_none() && self.spider.is_none();
        steps && self.batches == Batches::All && self.goal == Goal::Empirical && self.smoothing == 0.0
    }
}

/// The grid of a sum of clipped vectors: at most 2^24 steps below the clip norm, since gradients of f32 have no finer digits and are added up where they lie.
pub(super) fn sum_grid(clip_norm: f64, noise_std: f64, records: u64, released: usize) -> Grid {
    let grid = Grid::for_sum(clip_norm, noise_std, records, released);
    Grid::new(grid.exponent().max(clip_norm.log2().ceil() as i32 - 24))
}

/// Whether there is one chunk, of which nothing need be said.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_one(chunks: &u64) -> bool {
    *chunks == 1
}

impl MinimizeSchedule {
    /// Records of all blocks of a run in phases, in order.
    pub(super) fn blocks(&self, records: u64) -> Vec<u64> {
        let mut sizes: Vec<u64> =
            self.phases.iter().flat_map(|phase| vec![phase.records; self.chunks as usize]).collect();
        let left = records - sizes.iter().sum::<u64>().min(records);
        sizes.first_mut().into_iter().for_each(|first| *first += left);
        sizes
    }

    /// What turns the sum over a batch into a mean: public numbers alone.
    pub(super) fn per_record(&self, records: u64) -> f64 {
        1.0 / (self.share(records) * records as f64)
    }

    /// How a step's sum is made.
    pub(super) fn summing(&self) -> Summing {
        let whom = match self.batches {
            Batches::Poisson { sampling_probability } => Whom::Poisson(sampling_probability),
            Batches::Fixed { batch_size } => Whom::Fixed(batch_size),
            Batches::All | Batches::Stream { .. } | Batches::Once(_) => Whom::All,
        };
        Summing { clip_norm: self.clip_norm, grid: Grid::new(self.grid_exponent), whom, smoothing: self.smoothing }
    }

    /// Share of `records` in a batch: sums become means by public numbers.
    pub(super) fn share(&self, records: u64) -> f64 {
        match self.batches {
            Batches::All => 1.0,
            Batches::Poisson { sampling_probability } => sampling_probability,
            Batches::Fixed { batch_size } => batch_size as f64 / records as f64,
            Batches::Stream { shape, .. } => 1.0 / shape.batches as f64,
            Batches::Once(_) => 1.0 / self.steps as f64,
        }
    }

    /// The first step whose iterate is in the mean.
    pub(super) fn first_averaged(&self) -> u64 {
        match self.average {
            Averaged::LastHalf => self.steps / 2,
            Averaged::Last => self.steps - 1,
            Averaged::All => 0,
        }
    }
}

/// What is to be small.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Goal {
    /// The mean loss of the records.
    #[default]
    Empirical,
    /// The expected loss of a further record of the same kind.
    Population,
}

/// One phase: what moves x from where the phase before it ended.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Phase {
    /// How many records it reads: those of a block of its own, or all.
    pub records: u64,
    /// D it works with, l2.
    pub distance: f64,
    /// The rule that moves the iterate x in this phase.
    #[serde(flatten)]
    pub rule: Rule,
    /// Radius of the ball that each record's point is drawn from; 0: none is moved.
    pub smoothing: f64,
    /// z of its releases.
    pub noise_multiplier: f64,
}

/// How the phases of a run stand to each other.
#[derive(Clone, Debug)]
pub(super) enum Layout {
    /// The run has one phase.
    Once,
    /// So many chunks of each phase, each on a block of its own, all from where the phase before led: what is certified is the event of one of them. Records of
    /// a chunk, phase by phase; those that divisions leave are in the first one.
    Blocks {
        /// Numbers of records of a chunk, stage by stage.
        stages: Vec<Vec<u64>>,
        /// J: number of chunks.
        chunks: u64,
    },
    /// So many, each on all records: their events add up. Noise halves from one to the next.
    Rounds(u32),
}

impl Layout {
    /// How many blocks there are.
    pub(super) fn blocks(&self) -> usize {
        match self {
            Self::Blocks { stages, chunks } => stages.iter().map(Vec::len).sum::<usize>() * *chunks as usize,
            Self::Once | Self::Rounds(_) => 0,
        }
    }

    /// Noise of round `i` over that of the last one.
    pub(super) fn noise_ratio(rounds: u32, i: u32) -> f64 {
        f64::from(rounds - 1 - i).exp2()
    }
}

/// max(64, 2√(d·ln(1/δ))/ε): a solver finds nothing on fewer records.
pub(super) fn least_block(dimension: usize, budget: Budget) -> f64 {
    (2.0 * (dimension as f64 * (1.0 / budget.delta()).ln()).sqrt() / budget.epsilon()).max(64.0)
}

/// Block i ≥ 2 has n/2^i records as long as these are enough for the budget, the first one all others: half of them and what divisions leave.
pub fn block_sizes(records: u64, dimension: usize, budget: Budget) -> Vec<u64> {
    let least = least_block(dimension, budget);
    let later: Vec<u64> = (2..64).map(|i| records >> i).take_while(|&n| n as f64 >= least).collect();
    let mut sizes = vec![records - later.iter().sum::<u64>()];
    sizes.extend(later);
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_halve_and_are_all_records() {
        let budget = Budget::new(1.0, 1e-6).unwrap();
        for (n, d) in [(1, 1), (63, 1), (64, 1), (1000, 1), (1_000_003, 100), (1 << 40, 7)] {
            let sizes = block_sizes(n, d, budget);
            assert_eq!(sizes.iter().sum::<u64>(), n);
            assert!(sizes[0] >= n / 2, "{sizes:?}");
            for (i, &size) in sizes.iter().enumerate().skip(1) {
                assert_eq!(size, n >> (i + 1));
                assert!(size as f64 >= least_block(d, budget));
            }
        }
        // 2√(100·13.8)/1 = 74.3: of 1e6 records thirteen blocks, the last of 122
        assert_eq!(block_sizes(1_000_000, 100, budget).len(), 13);
        assert_eq!(block_sizes(1_000_000, 100, budget).last(), Some(&122));
    }
}
