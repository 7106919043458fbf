//! A whole run of DP-SGD with lazily aggregated noise as one release (spec 19 §3, docs/proofs/lazy-noise.md).
//!
//! Steps can't be released one by one: which coordinates a step touches is secret. The run as a whole has the law of dense
//! DP-SGD, so it is charged as all of its steps at once, and only the answer leaves.

use super::curator::{CuratorError, Mechanism, sealed};
use super::gradient::{ClippedGradient, Weights};
use crate::data::{RecordBuffer, Records};
use crate::progress::Progress;
use dpopt_noise::{LazyIterate, LazyOptions, NoiseSource, PoissonSkips, Purpose, Stream};
use dpopt_privacy::Event;
use std::marker::PhantomData;

/// Records whose rows and weights are asked for together: they fit the first-level cache.
const GROUP: usize = 16;

/// T steps of noisy descent on Poisson batches, from weights 0.
pub(crate) struct SparseDescent<'a, R> {
    /// Clipped gradients on the grid of `lazy`.
    pub(crate) gradient: ClippedGradient,
    /// Steps and noise; d = weights.
    pub(crate) lazy: LazyOptions,
    /// Number of scores per record.
    pub(crate) outputs: usize,
    /// q.
    pub(crate) sampling_probability: f64,
    /// As certified: T Poisson-sampled Gaussians.
    pub(crate) event: Event,
    /// Clip norm that the noise was calibrated for.
    pub(crate) clip_norm: f64,
    /// Ticks once per step.
    pub(crate) progress: &'a dyn Progress,
    /// What it reads.
    pub(crate) records: PhantomData<fn(&R)>,
}

impl<R: Records> sealed::Sealed for SparseDescent<'_, R> {}

impl<R: Records> Mechanism for SparseDescent<'_, R> {
    type Input = R;
    /// Weights, outputs × features.
    type Output = Vec<f64>;

    fn event(&self) -> Event {
        self.event.clone()
    }

    fn label(&self) -> &'static str {
        "weights after all steps, noise drawn lazily"
    }

    fn check(&self, input: &R) -> Result<(), CuratorError> {
        if self.gradient.clip_norm() > self.clip_norm {
            return Err(CuratorError::Sensitivity { input: self.gradient.clip_norm(), mechanism: self.clip_norm });
        }
        if input.columns() * self.outputs != self.lazy.dimension {
            return Err(CuratorError::Shape);
        }
        Ok(())
    }

    fn apply(&self, input: &R, noise: &mut NoiseSource) -> Result<Vec<f64>, CuratorError> {
        let broken = |e: &dyn std::error::Error| CuratorError::Noise(e.to_string());
        let skips = PoissonSkips::new(self.sampling_probability).map_err(|e| broken(&e))?;
        let mut descent = LazyIterate::new(&self.lazy).map_err(|e| broken(&e))?;
        let steps: u64 = self.lazy.runs.iter().map(|run| u64::from(run.steps)).sum();
        let (mut batch, mut scratch, mut buffer) = (Vec::new(), self.gradient.scratch(), RecordBuffer::default());
        for step in 0..steps {
            skips.subset(input.len() as u64, &mut noise.stream(Purpose::Batch, step), &mut batch);
            let mut stream = noise.stream(Purpose::Touch, step);
            let mut weights = LazyWeights { descent: &mut descent, stream: &mut stream, outputs: self.outputs };
            for group in batch.chunks(GROUP) {
                if R::IN_MEMORY {
                    for &i in group {
                        let (columns, ..) = input.record(i as usize, &mut buffer).map_err(Into::into)?;
                        weights.warm(columns);
                    }
                }
                for &i in group {
                    self.gradient.add_record(input, i as usize, &mut weights, &mut scratch).map_err(Into::into)?;
                }
            }
            if !descent.end_step(&mut stream) {
                return Err(CuratorError::Unforeseen { label: self.label() });
            }
            self.progress.tick();
        }
        let answer = descent.finish(&mut noise.stream(Purpose::Flush, steps));
        // all outputs of a feature lie together while training; the answer is outputs × features
        let (k, d) = (self.outputs, input.columns());
        Ok(if k == 1 { answer } else { (0..k * d).map(|at| answer[at % d * k + at / d]).collect() })
    }
}

/// Coordinate (output, feature) is feature·outputs + output.
struct LazyWeights<'a> {
    descent: &'a mut LazyIterate,
    stream: &'a mut Stream,
    outputs: usize,
}

impl LazyWeights<'_> {
    /// Asks for the weights of a row, those of its first output standing for the others beside them.
    #[inline]
    fn warm(&self, columns: &[u32]) {
        self.descent.warm(columns.iter().map(|&column| column as usize * self.outputs));
    }
}

impl Weights for LazyWeights<'_> {
    #[inline]
    fn score(&mut self, out: usize, columns: &[u32], values: &[f32]) -> f64 {
        let k = self.outputs;
        self.descent.dot(columns.iter().zip(values).map(|(&j, &x)| (j as usize * k + out, x)), self.stream)
    }

    #[inline]
    fn add_scaled(&mut self, out: usize, columns: &[u32], values: &[f32], scale: f64) {
        let k = self.outputs;
        self.descent.add_scaled(columns.iter().zip(values).map(|(&j, &x)| (j as usize * k + out, x)), scale);
    }

    #[inline]
    fn add(&mut self, out: usize, column: u32, units: i64) {
        self.descent.add(column as usize * self.outputs + out, units);
    }
}
