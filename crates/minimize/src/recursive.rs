//! Accelerated-DP-SRGD (Choquette-Choo, Ganesh, Thakurta 2025): one epoch of about √n batches, each record used once, at two points.
//!
//! d_t is the mean over batch t of t·∇φ_i(x_t) − (t − 1)·∇φ_i(x_{t−1}), and ∇_t = (1/t)Σ_{s≤t} d_s: in expectation ∇F(x_t) for every t, since the sum telescopes, with
//! the error of a mean over *all* records read so far. Its steps are Nesterov's. Noise is on the prefix sums of a stream in which a record has one term.

use super::plan::{Draft, Planner};
use super::schedule::Rule;
use dpopt_mechanism::{Batching, Correlation, StreamShape};
use dpopt_optimize::plan::NotApplicable;

/// ∇_t, and where the last step asked.
pub(super) struct RecursiveEstimate {
    shape: StreamShape,
    records: u64,
    step: u64,
    before: Vec<f64>,
    total: Vec<f64>,
}

impl RecursiveEstimate {
    /// Before the first step.
    pub(super) fn new(shape: StreamShape, records: u64, start: Vec<f64>) -> Self {
        Self { shape, records, step: 0, total: vec![0.0; start.len()], before: start }
    }

    /// t of the next step.
    pub(super) fn step(&self) -> u64 {
        self.step + 1
    }

    /// Where the last step asked.
    pub(super) fn before(&self) -> &[f64] {
        &self.before
    }

    /// ∇_t, from the released sum of the t-th batch, at `x`.
    pub(super) fn with(&mut self, sum: Vec<f64>, x: Vec<f64>) -> Vec<f64> {
        let size = self.shape.batch_size(self.records, self.step as usize).max(1) as f64;
        self.step += 1;
        self.before = x;
        self.total.iter_mut().zip(&sum).for_each(|(total, d)| *total += d / size);
        let t = self.step as f64;
        self.total.iter().map(|total| total / t).collect()
    }
}

impl Planner<'_> {
    /// One epoch in so many batches.
    pub(super) fn one_epoch(&self, batches: u64) -> Result<Draft, NotApplicable> {
        self.stream(batches, batches, self.asked.correlation.unwrap_or(Correlation::Blt), Batching::Shuffled)
    }

    /// Bound on the excess, and L.
    ///
    /// With S_t = t(∇_t − ∇F(x_t)), a martingale and noise, and steps t/(2L) of the prox centre z_t, L ≥ β:
    /// T(T + 1)/2·(F(y_T) − F(x*)) ≤ LD² − Σ⟨S_t, z_t − z₀⟩ in expectation, and to first order z_t − z₀ has −(1/2L)Σ_{s≤t} S_s of it. With E‖S_t‖² = tv + w (v of sampling a
    /// batch, w of the noise of a prefix sum of means) that is (1/2L)(vT³/6 + wT²/2): 2LD²/T² + (vT/6 + w/2)/L in all, least at L = T√((vT/6 + w/2)/2)/D.
    pub(super) fn one_epoch_bound(&self, draft: &Draft) -> (f64, f64) {
        let (t, d, c) = (draft.steps as f64, self.distance, self.clip_norm);
        let batch = self.n() / t;
        let sampling = c * c / batch;
        let noise = self.problem.dimension as f64 * (draft.of_prefix / batch).powi(2);
        let error = sampling * t / 6.0 + noise / 2.0;
        let least = self.problem.smoothness.unwrap_or(0.0);
        let smoothness = least.max(t * (error / 2.0).sqrt() / d);
        (2.0 * smoothness * d * d / (t * (t + 1.0)) + error / smoothness, smoothness)
    }

    pub(super) fn recursive_rule(&self, draft: &Draft) -> (Rule, f64, f64) {
        let (bound, smoothness) = self.one_epoch_bound(draft);
        (Rule::Recursive { smoothness }, bound, 0.0)
    }

    /// Powers of two around √n.
    pub(super) fn epoch_lengths(&self) -> Vec<u64> {
        let n = self.problem.records;
        let root = (self.n().sqrt().log2().round() as i32).clamp(0, 20);
        (root - 3..=root + 2).filter(|k| *k >= 0).map(|k| (1u64 << k).min(n)).collect()
    }
}
