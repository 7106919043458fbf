//! A whole run of DP-SGD with lazily aggregated noise as one release (spec 19 §3, docs/proofs/lazy-noise.md).
//!
//! Steps can't be released one by one: which coordinates a step touches is secret. The run as a whole has the law of dense
//! DP-SGD, so it is charged as all of its steps at once, and only the answer leaves.

use super::door::{Mechanism, sealed};
use super::gradient::{ClippedGradient, Scratch, Weights};
use crate::progress::Progress;
use crate::records::{RecordBuffer, Records};
use crate::refused::CuratorError;
use crate::sampler_error::SamplerError;
use dpopt_noise::{Grid, LazyIterate, LazyOptions, NoiseSource, PoissonSkips, Purpose, RowSeats, Stream};
use dpopt_privacy::Event;
use std::marker::PhantomData;

/// So many records before a record is used, its row and then its weights are asked for: they come while others are worked on,
/// and fit the first-level cache.
const AHEAD: usize = 16;

/// What a record adds at deferred-noise weights: at most the clip norm in l2, on the grid, whatever the record is.
pub(crate) trait SparseGradient: Sync {
    /// Buffers of one record.
    type Scratch;

    /// C.
    fn clip_norm(&self) -> f64;
    /// What its integers are multiples of.
    fn grid(&self) -> Grid;
    /// Number of weights for so many features.
    fn weights(&self, features: usize) -> usize;
    /// Fresh buffers.
    fn scratch(&self) -> Self::Scratch;
    /// Asks for the memory of the weights of a row.
    fn warm(&self, columns: &[u32], descent: &LazyIterate);
    /// Reads the weights that record i needs, and adds its clipped gradient to them.
    fn add_record<R: Records>(
        &self,
        records: &R,
        i: usize,
        descent: &mut LazyIterate,
        stream: &mut Stream,
        scratch: &mut Self::Scratch,
    ) -> Result<(), R::Error>;
    /// The answer in the order that users know.
    fn arranged(&self, answer: Vec<f64>, features: usize) -> Vec<f64>;
}

/// T steps of noisy descent on Poisson batches, from weights 0.
pub(crate) struct SparseDescent<'a, R, G> {
    /// Clipped gradients on the grid of `lazy`.
    pub(crate) gradient: G,
    /// Steps and noise; d = weights.
    pub(crate) lazy: LazyOptions,
    /// q.
    pub(crate) sampling_probability: f64,
    /// z: noise over clip norm. Event: T Poisson-sampled Gaussians of it.
    pub(crate) noise_multiplier: f64,
    /// Clip norm that the noise was calibrated for.
    pub(crate) clip_norm: f64,
    /// Ticks once per step.
    pub(crate) progress: &'a dyn Progress,
    /// What it reads.
    pub(crate) records: PhantomData<fn(&R)>,
}

impl<R, G> SparseDescent<'_, R, G> {
    /// T.
    fn steps(&self) -> u64 {
        self.lazy.runs.iter().map(|run| u64::from(run.steps)).sum()
    }
}

impl<R: Records, G: SparseGradient> sealed::Sealed for SparseDescent<'_, R, G> {}

impl<R: Records, G: SparseGradient> Mechanism for SparseDescent<'_, R, G> {
    type Input = R;
    /// The weights.
    type Output = Vec<f64>;

    fn event(&self) -> Event {
        Event::gaussian(self.noise_multiplier).poisson_sampled(self.sampling_probability).self_composed(self.steps())
    }

    fn sampler_error(&self, input: &R) -> f64 {
        let subsets = SamplerError::subset(input.len() as u64) * self.steps() as f64;
        let bound = self.lazy.total_variation().unwrap_or(f64::INFINITY);
        (subsets + SamplerError::proved(bound)).total_variation()
    }

    fn label(&self) -> &'static str {
        "weights after all steps, noise drawn lazily"
    }

    fn check(&self, input: &R) -> Result<(), CuratorError> {
        if self.gradient.clip_norm() > self.clip_norm {
            return Err(CuratorError::Sensitivity { input: self.gradient.clip_norm(), mechanism: self.clip_norm });
        }
        if !(self.lazy.noise_std >= self.noise_multiplier * self.clip_norm) {
            return Err(CuratorError::LessNoise { label: self.label() });
        }
        if self.gradient.weights(input.columns()) != self.lazy.dimension || self.gradient.grid() != self.lazy.grid {
            return Err(CuratorError::Shape);
        }
        Ok(())
    }

    fn apply(&self, input: &R, noise: &mut NoiseSource) -> Result<Vec<f64>, CuratorError> {
        let broken = |e: &dyn std::error::Error| CuratorError::Noise(e.to_string());
        let skips = PoissonSkips::new(self.sampling_probability).map_err(|e| broken(&e))?;
        let mut descent = LazyIterate::new(&self.lazy).map_err(|e| broken(&e))?;
        let steps = self.steps();
        let (mut batch, mut scratch, mut buffer) = (Vec::new(), self.gradient.scratch(), RecordBuffer::default());
        for step in 0..steps {
            skips.subset(input.len() as u64, &mut noise.stream(Purpose::Batch, step), &mut batch);
            let mut stream = noise.stream(Purpose::Touch, step);
            for at in 0..batch.len() + AHEAD {
                if R::IN_MEMORY
                    && let Some(&later) = batch.get(at)
                {
                    if at % AHEAD == 0 {
                        input.fetch(&batch[at..batch.len().min(at + AHEAD)]);
                    }
                    let (columns, ..) = input.record(later as usize, &mut buffer).map_err(Into::into)?;
                    self.gradient.warm(columns, &descent);
                }
                if let Some(now) = at.checked_sub(AHEAD) {
                    self.gradient
                        .add_record(input, batch[now] as usize, &mut descent, &mut stream, &mut scratch)
                        .map_err(Into::into)?;
                }
            }
            if !descent.end_step(&mut stream) {
                return Err(CuratorError::Unforeseen { label: self.label() });
            }
            self.progress.tick();
        }
        let answer = descent.finish(&mut noise.stream(Purpose::Flush, steps));
        Ok(self.gradient.arranged(answer, input.columns()))
    }
}

impl SparseGradient for ClippedGradient {
    type Scratch = (Scratch, Vec<RowSeats>);

    fn clip_norm(&self) -> f64 {
        self.clip_norm()
    }

    fn grid(&self) -> Grid {
        self.grid()
    }

    fn weights(&self, features: usize) -> usize {
        self.outputs() * features
    }

    fn scratch(&self) -> Self::Scratch {
        (self.scratch(), vec![RowSeats::default(); self.outputs()])
    }

    /// Those of a feature's first output stand for the others beside them.
    #[inline]
    fn warm(&self, columns: &[u32], descent: &LazyIterate) {
        descent.warm(columns.iter().map(|&column| column as usize * self.outputs()));
    }

    #[inline]
    fn add_record<R: Records>(
        &self,
        records: &R,
        i: usize,
        descent: &mut LazyIterate,
        stream: &mut Stream,
        (scratch, seats): &mut Self::Scratch,
    ) -> Result<(), R::Error> {
        self.add_record(records, i, &mut LazyWeights { descent, stream, seats }, scratch)
    }

    /// All outputs of a feature lie together while training; the answer is outputs × features.
    fn arranged(&self, answer: Vec<f64>, features: usize) -> Vec<f64> {
        let (k, d) = (self.outputs(), features);
        if k == 1 { answer } else { (0..k * d).map(|at| answer[at % d * k + at / d]).collect() }
    }
}

/// Coordinate (output, feature) is feature·outputs + output.
struct LazyWeights<'a> {
    descent: &'a mut LazyIterate,
    stream: &'a mut Stream,
    /// The row's, per output.
    seats: &'a mut [RowSeats],
}

impl Weights for LazyWeights<'_> {
    #[inline]
    fn score(&mut self, out: usize, columns: &[u32], values: &[f32]) -> f64 {
        let (k, seats) = (self.seats.len(), &mut self.seats[out]);
        self.descent.seat(columns.iter().map(|&j| j as usize * k + out), seats, self.stream);
        self.descent.dot(seats, values)
    }

    /// After the row's score.
    #[inline]
    fn add_scaled(&mut self, out: usize, _: &[u32], values: &[f32], scale: f64) {
        self.descent.add_scaled(&self.seats[out], values, scale);
    }

    #[inline]
    fn add(&mut self, out: usize, column: u32, units: i64) {
        self.descent.add(column as usize * self.seats.len() + out, units);
    }
}
