//! Gradient sums of a stream of batches with noise that cancels over time: all steps are *one* Gaussian release
//! (docs/proofs/correlated.md).
//!
//! Each record is in one batch of every epoch: epochs are passes over the same batches in the same order, so two participations
//! of a record are exactly one epoch apart. Which batch that is its position says, where that is public, or else a secret coin of
//! its own (docs/proofs/units.md). There is no amplification by sampling.

mod shape;
#[cfg(test)]
mod tests;

pub use shape::{Batching, Correlation, StreamShape};

use super::batch_sum::BatchSum;
use super::clipped::Clipped;
use crate::curator::mechanism::{Interactive, InteractiveStart, sealed};
use crate::curator::seen::Seen;
use crate::refused::CuratorError;
use crate::{Released, Sensitive};
use dpopt_noise::correlated::{CorrelatedNoise, TreeNoise};
use dpopt_noise::{Purpose, RoundedGaussian, Stream};
use dpopt_objective::objective::{Linear, Objective, Recursive};
use dpopt_objective::records::RecordSet;
use dpopt_privacy::{Event, Relation};
use dpopt_process::Process;
use shape::positions;

const LABEL: &str = "gradients of a stream";

enum StreamNoise {
    Factor(CorrelatedNoise),
    Tree {
        node: RoundedGaussian,
        tree: TreeNoise,
        /// Sum of the exact gradient sums of this epoch.
        exact: Vec<i64>,
        /// What was released of it last.
        released: Vec<i64>,
    },
}

/// The noisy gradient sums of a stream, one call per step. Made by [`Curator::open`](crate::Curator::open), which
/// charges all steps at once. Neither printable nor cloneable: it holds noise that later steps take back.
pub struct GradientStream<O = Linear> {
    shape: StreamShape,
    gradient: Clipped<O>,
    dimension: usize,
    records: u64,
    relation: Relation,
    batches: Batches,
    step: usize,
    noise: StreamNoise,
    randomness: Stream,
    /// The process in which it was opened: a forked copy would go on with the same noise.
    process: Process,
    /// What was released, where the curator keeps it for tests and audits.
    seen: Option<Seen>,
}

enum Batches {
    Position,
    /// Batches arrive one by one.
    Arrival,
    /// Batches by secret coins that are not thrown yet: with remote records their number may be known elsewhere only.
    Coins(Box<Stream>),
    Dealt(Dealt),
    /// Batches of a public random order.
    Shuffled(Dealt),
}

/// The records of each batch.
struct Dealt {
    /// Batch by batch, increasing within each.
    records: Vec<u64>,
    /// Where each batch begins in `records`, and where the last one ends.
    starts: Vec<usize>,
}

impl Dealt {
    /// Batches of the sizes that positions give, in a random order.
    fn shuffled(records: u64, batches: usize, coins: &mut Stream) -> Self {
        let mut order: Vec<u64> = (0..records).collect();
        coins.shuffle(&mut order);
        let mut starts = vec![0];
        for batch in 0..batches {
            let range = positions(records, batch, batches);
            starts.push(range.end);
            order[range].sort_unstable();
        }
        Self { records: order, starts }
    }

    /// Deals the records into `batches` batches: the i-th of `coins`, below `batches`, is the batch of record i.
    fn by(coins: &[usize], batches: usize) -> Self {
        let mut starts = vec![0; batches + 1];
        coins.iter().for_each(|&batch| starts[batch + 1] += 1);
        for batch in 0..batches {
            starts[batch + 1] += starts[batch];
        }
        let (mut next, mut records) = (starts.clone(), vec![0; coins.len()]);
        for (record, &batch) in coins.iter().enumerate() {
            records[next[batch]] = record as u64;
            next[batch] += 1;
        }
        Self { records, starts }
    }

    fn batch(&self, batch: usize) -> &[u64] {
        &self.records[self.starts[batch]..self.starts[batch + 1]]
    }
}

/// What a stream is calibrated for.
pub struct StreamPlan<O = Linear> {
    /// Steps, batches and correlation.
    pub shape: StreamShape,
    /// Clips and adds up the objective's gradients.
    pub gradient: Clipped<O>,
    /// z: noise of a normal variable over clip norm times sensitivity.
    pub noise_multiplier: f64,
    /// Number of weights.
    pub dimension: usize,
    /// Public number of records; under add-or-remove a guess, which decides nothing here.
    pub records: u64,
    /// Which data sets are neighbours.
    pub relation: Relation,
    /// Which batch a record is in. By coin alone under add-or-remove, which would move all other records to other batches, and for records that do not
    /// [keep their places](RecordSet::keeps_places).
    pub batching: Batching,
}

impl<O> StreamPlan<O> {
    /// Standard deviation of a normal variable of the noise.
    fn noise_std(&self) -> Result<f64, CuratorError> {
        // each product is rounded once: next_up makes the noise at least what was accounted
        let scale = (self.gradient.clip_norm() * self.sensitivity()?).next_up();
        Ok((self.noise_multiplier * scale).next_up())
    }

    /// l2 sensitivity of the whole stream per unit of the clip norm.
    fn sensitivity(&self) -> Result<f64, CuratorError> {
        match self.batching {
            Batching::Arrivals(count) => self.shape.sensitivity_of_arrivals(count),
            _ => self.shape.sensitivity(),
        }
    }
}

impl<O> sealed::Sealed for StreamPlan<O> {}

impl<O: Clone> Interactive for StreamPlan<O> {
    type Opened = GradientStream<O>;

    /// The event of all steps together.
    fn event(&self) -> Event {
        Event::gaussian(self.noise_multiplier)
    }

    fn sampler_error(&self) -> Result<f64, CuratorError> {
        let moved = self.relation == Relation::AddOrRemove && self.batching != Batching::Coin;
        // nothing says that a batch which comes is one that came before
        let again = self.batching.arrives() && self.shape.steps > self.shape.batches;
        if self.shape.batches == 0 || self.shape.steps == 0 || moved || again || self.batching == Batching::Arrivals(0)
        {
            return Err(CuratorError::Shape);
        }
        self.shape.total_variation(self.noise_std()?, self.gradient.grid(), self.dimension)
    }

    fn relation(&self) -> Option<Relation> {
        Some(self.relation)
    }

    fn label(&self) -> &'static str {
        LABEL
    }

    fn start(&self, opening: InteractiveStart<'_>) -> Result<GradientStream<O>, CuratorError> {
        let noise = |e: &dyn std::error::Error| CuratorError::Noise(e.to_string());
        let (shape, d) = (self.shape, self.dimension);
        if shape.batches == 0 || shape.steps == 0 {
            return Err(CuratorError::Shape);
        }
        let grid = self.gradient.grid();
        let std = self.noise_std()?;
        let source = match shape.factor()? {
            Some(factor) => {
                StreamNoise::Factor(CorrelatedNoise::new(factor, std, grid, d, shape.steps).map_err(|e| noise(&e))?)
            }
            None => {
                let node = RoundedGaussian::new(std, grid).map_err(|e| noise(&e))?;
                let tree = TreeNoise::new(node.clone(), d, shape.batches as u64);
                StreamNoise::Tree { node, tree, exact: vec![0; d], released: vec![0; d] }
            }
        };
        Ok(GradientStream {
            shape,
            gradient: self.gradient.clone(),
            dimension: d,
            records: self.records,
            relation: self.relation,
            batches: match self.batching {
                Batching::Position => Batches::Position,
                Batching::Arrival | Batching::Arrivals(_) => Batches::Arrival,
                Batching::Coin => Batches::Coins(Box::new(opening.noise.stream(Purpose::Split, 0))),
                Batching::Shuffled => {
                    let mut coins = opening.noise.stream(Purpose::Split, 0);
                    Batches::Shuffled(Dealt::shuffled(self.records, shape.batches, &mut coins))
                }
            },
            step: 0,
            noise: source,
            randomness: opening.noise.stream(Purpose::Correlated, 0),
            process: Process::here(),
            seen: opening.seen,
        })
    }
}

impl<O> GradientStream<O> {
    /// The exact sum over a batch.
    fn batch_sum<R: RecordSet, P: Objective<R>>(
        &mut self,
        gradient: &Clipped<P>,
        examples: &Sensitive<R>,
        batch: usize,
        weights: &[f64],
    ) -> Result<Vec<i64>, CuratorError> {
        let (records, batches) = (examples.expose(), self.shape.batches);
        if let Batches::Coins(coins) = &mut self.batches {
            let coins: Vec<usize> = (0..records.len()).map(|_| coins.below(batches as u64) as usize).collect();
            self.batches = Batches::Dealt(Dealt::by(&coins, batches));
        }
        let sum = match &self.batches {
            Batches::Position if records.keeps_places() => {
                gradient.sum_range(examples, positions(self.records, batch, batches), weights)
            }
            Batches::Shuffled(dealt) if records.keeps_places() => {
                let dealt = dealt.batch(batch);
                gradient.add_up(records, weights, dealt.len(), |i| dealt[i] as usize)
            }
            Batches::Dealt(dealt) if dealt.records.len() == records.len() => {
                let dealt = dealt.batch(batch);
                gradient.add_up(records, weights, dealt.len(), |i| dealt[i] as usize)
            }
            // other records than those that were dealt, or places that others decide
            _ => return Err(CuratorError::Shape),
        };
        sum.map_err(CuratorError::unreadable)
    }

    /// The noisy sum of clipped gradients of the next batch at `weights`.
    ///
    /// # Errors
    /// If all planned steps are used up, the data have another shape, or records can't be read back from disk.
    pub fn next<R: RecordSet>(
        &mut self,
        examples: &Sensitive<R>,
        weights: &[f64],
    ) -> Result<Released<Vec<f64>>, CuratorError>
    where
        O: Objective<R> + Clone,
    {
        let gradient = self.gradient.clone();
        self.next_clipped(&gradient, examples, weights)
    }

    /// The noisy sum of clipped gradients at `weights` of records that came by themselves, where batches are those they came with: a record is in no other
    /// batch, and a stream has one pass.
    ///
    /// # Errors
    /// If all planned steps are used up, batches are made another way, the records are rows of units, or this is a copy of the stream in a forked process.
    pub fn next_arrived<R: RecordSet>(
        &mut self,
        batch: &Sensitive<R>,
        weights: &[f64],
    ) -> Result<Released<Vec<f64>>, CuratorError>
    where
        O: Objective<R>,
    {
        let records = batch.expose();
        let arrived = matches!(self.batches, Batches::Arrival) && records.keeps_places();
        if weights.len() != self.dimension || !arrived {
            return Err(CuratorError::Shape);
        }
        self.next_batch()?;
        let sum = self.gradient.sum_range(batch, 0..records.len(), weights).map_err(CuratorError::unreadable)?;
        self.noisy(sum)
    }

    /// The noisy sum over the next batch of t·∇φ(x) − (t − 1)·∇φ(before), t the number of the step from 1: one vector for each record,
    /// clipped as one. `before` is the point of the step before this one; the first step does not look at it.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub fn next_recursive<R: RecordSet>(
        &mut self,
        examples: &Sensitive<R>,
        weights: &[f64],
        before: &[f64],
    ) -> Result<Released<Vec<f64>>, CuratorError>
    where
        O: Objective<R> + Clone,
    {
        if before.len() != self.dimension {
            return Err(CuratorError::Shape);
        }
        let objective = self.gradient.objective().clone();
        let recursive = self.gradient.with(Recursive::new(&objective, before, self.step as u64 + 1));
        self.next_clipped(&recursive, examples, weights)
    }

    fn next_clipped<R: RecordSet, P: Objective<R>>(
        &mut self,
        gradient: &Clipped<P>,
        examples: &Sensitive<R>,
        weights: &[f64],
    ) -> Result<Released<Vec<f64>>, CuratorError> {
        let counted = self.relation == Relation::AddOrRemove || examples.expose().len() as u64 == self.records;
        if weights.len() != self.dimension || !counted {
            return Err(CuratorError::Shape);
        }
        let batch = self.next_batch()?;
        let sum = self.batch_sum(gradient, examples, batch, weights)?;
        self.noisy(sum)
    }

    /// The noisy sum of clipped vectors that the caller computes: `add` is given the positions of the next batch, and adds one vector for each of its records, in any
    /// number of calls. Refused where batches go by coin: who is in one is as secret as the records.
    ///
    /// # Errors
    /// If all planned steps are used up, or batches go by coin; as `add`, and then the step is not: it can be tried again.
    pub fn next_in_parts<E: From<CuratorError>>(
        &mut self,
        add: impl FnOnce(&[u64], &mut BatchSum) -> Result<(), E>,
    ) -> Result<Released<Vec<f64>>, E> {
        let positions = self.positions()?;
        let mut sum = BatchSum::of_positions(self.gradient.quantizer(), positions.clone(), self.dimension);
        let id = sum.id();
        add(&positions, &mut sum)?;
        // it was out of these hands: another sum in its place has another clip, or is over another batch
        let quanta = sum.into_units_of(id).ok_or(CuratorError::Shape)?;
        Ok(self.noisy(quanta)?)
    }

    /// Which batch comes next. Refused in a forked process: two copies would go on with the same noise, and the difference of what they release would be that
    /// of the records.
    fn next_batch(&self) -> Result<usize, CuratorError> {
        CuratorError::unless_opened_in(self.process, "stream")?;
        match self.step == self.shape.steps {
            true => Err(CuratorError::Unforeseen { label: LABEL }),
            false => Ok(self.step % self.shape.batches),
        }
    }

    /// Positions of the next batch's records, where they are public.
    fn positions(&self) -> Result<Vec<u64>, CuratorError> {
        let batch = self.next_batch()?;
        match &self.batches {
            Batches::Position => Ok(positions(self.records, batch, self.shape.batches).map(|i| i as u64).collect()),
            Batches::Shuffled(dealt) => Ok(dealt.batch(batch).to_vec()),
            Batches::Coins(_) | Batches::Dealt(_) | Batches::Arrival => Err(CuratorError::Shape),
        }
    }

    /// The next step's noise on the sum over its batch.
    fn noisy(&mut self, mut sum: Vec<i64>) -> Result<Released<Vec<f64>>, CuratorError> {
        let label = LABEL;
        let batch = self.step % self.shape.batches;
        match &mut self.noise {
            StreamNoise::Factor(noise) => {
                if !noise.add_next(&mut sum, &mut self.randomness) {
                    return Err(CuratorError::Unforeseen { label });
                }
            }
            StreamNoise::Tree { node, tree, exact, released } => {
                if batch == 0 && self.step > 0 {
                    // a fresh tree per epoch: one tree over a restarted sum costs more than its depth (docs/proofs/correlated.md)
                    *tree = TreeNoise::new(node.clone(), self.dimension, self.shape.batches as u64);
                    exact.fill(0);
                    released.fill(0);
                }
                for (total, z) in exact.iter_mut().zip(&sum) {
                    *total = total.wrapping_add(*z);
                }
                sum.copy_from_slice(exact);
                tree.add_next(&mut sum, &mut self.randomness).map_err(|_| CuratorError::Unforeseen { label })?;
                // the increment of the noisy prefix sums: post-processing
                for (cell, before) in sum.iter_mut().zip(released.iter_mut()) {
                    let now = *cell;
                    *cell = now.wrapping_sub(*before);
                    *before = now;
                }
            }
        }
        self.step += 1;
        let grid = self.gradient.grid();
        let out: Vec<f64> = sum.into_iter().map(|u| grid.to_f64(u)).collect();
        if let Some(seen) = &self.seen {
            seen.push(&out);
        }
        Ok(Released::new(out))
    }
}
