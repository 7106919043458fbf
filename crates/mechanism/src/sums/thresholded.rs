//! Hard thresholding of a noisy step as one release: only the k largest coordinates of the noisy vector leave, and the noise
//! of coordinates that neither data nor the iterate touch is drawn from the top (docs/proofs/hard-thresholding.md,
//! docs/proofs/largest-coordinates.md).
//!
//! With R = Σ clip(∇φ_i) + noise the dense integer release and x the iterate, what leaves is H_k(x − s·R): a fixed function
//! of R and of public numbers. Outside the support of x and of the sum, R is pure noise, and of that only the largest
//! entries matter; they come from [`Descending`] without the others.

use dpopt_draws::Descending;
use dpopt_kernel::beside::{Expose, Members, Sealed};
use dpopt_kernel::{Batch, BatchId, Clipped, CuratorError, Mechanism, SamplerError, Sensitive};
use dpopt_lanes::LaneSum;
use dpopt_noise::{Grid, NoiseSource, Purpose, RoundedGaussian};
use dpopt_objective::objective::{Linear, Point};
use dpopt_objective::records::{Records, Row};
use dpopt_privacy::Event;
use std::cmp::Ordering;
use std::collections::HashMap;

/// A vector of which few coordinates are not zero.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SparseVector {
    indices: Vec<u32>,
    values: Vec<f64>,
}

impl SparseVector {
    /// A vector from (index, value) in increasing order of indices.
    ///
    /// # Panics
    /// If the indices do not increase.
    pub fn new(entries: impl IntoIterator<Item = (u32, f64)>) -> Self {
        let (indices, values): (Vec<u32>, Vec<f64>) = entries.into_iter().unzip();
        assert!(indices.windows(2).all(|pair| pair[0] < pair[1]), "indices increase");
        Self { indices, values }
    }

    /// H_k of a vector: its `keep` largest entries. Ties go to the smaller index; the exempt coordinate is kept and not counted.
    pub fn largest(y: &[f64], keep: usize, exempt: Option<u32>) -> Self {
        let mut order: Vec<u32> = (0..y.len() as u32).filter(|j| Some(*j) != exempt).collect();
        let rank = |a: &u32, b: &u32| y[*b as usize].abs().total_cmp(&y[*a as usize].abs()).then(a.cmp(b));
        if keep < order.len() {
            if keep > 0 {
                order.select_nth_unstable_by(keep - 1, rank);
            }
            order.truncate(keep);
        }
        order.extend(exempt.filter(|j| (*j as usize) < y.len()));
        order.sort_unstable();
        Self::new(order.into_iter().map(|j| (j, y[j as usize])))
    }

    /// Indices of the stored coordinates, increasing.
    pub fn indices(&self) -> &[u32] {
        &self.indices
    }

    /// Values, in the order of the indices.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// The stored coordinates as (index, value), indices increasing.
    pub fn iter(&self) -> impl Iterator<Item = (u32, f64)> + '_ {
        self.indices.iter().copied().zip(self.values.iter().copied())
    }

    /// Value at `index`; 0 where nothing is stored.
    pub fn at(&self, index: u32) -> f64 {
        self.indices.binary_search(&index).map_or(0.0, |at| self.values[at])
    }

    /// Number of stored coordinates.
    pub fn len(&self) -> usize {
        self.indices.len()
    }

    /// True if nothing is stored.
    pub fn is_empty(&self) -> bool {
        self.indices.is_empty()
    }

    /// All `dimension` coordinates, zeros included.
    pub fn dense(&self, dimension: usize) -> Vec<f64> {
        let mut out = vec![0.0; dimension];
        self.iter().for_each(|(j, x)| out[j as usize] = x);
        out
    }

    /// The combination a·self + b·other.
    pub fn combined(&self, a: f64, other: &Self, b: f64) -> Self {
        let mut out = Self::default();
        let (mut i, mut j) = (0, 0);
        while i < self.len() || j < other.len() {
            let (left, right) = (self.indices.get(i), other.indices.get(j));
            let from_left = left.is_some_and(|l| right.is_none_or(|r| l <= r));
            let from_right = right.is_some_and(|r| left.is_none_or(|l| r <= l));
            let mut value = 0.0;
            if from_left {
                value += a * self.values[i];
                out.indices.push(self.indices[i]);
                i += 1;
            }
            if from_right {
                value += b * other.values[j];
                if !from_left {
                    out.indices.push(other.indices[j]);
                }
                j += 1;
            }
            out.values.push(value);
        }
        out
    }
}

/// A sum of integer vectors, each of l2 norm at most `clip_norm` on `grid`, that is zero outside its entries.
pub struct SparseGridSum {
    /// Entries by index; any superset of the support.
    pub(crate) entries: Vec<(u32, i64)>,
    dimension: u64,
    grid: Grid,
    clip_norm: f64,
    batch: Option<BatchId>,
}

/// Whether a sum is formed entry by entry or over all coordinates: a matter of cost, not of law.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Formed {
    /// Time and memory of the batch's non-zeros.
    BySparseEntries,
    /// Time and memory of all coordinates.
    OverAllCoordinates,
}

impl SparseGridSum {
    /// Σ clip(∇φ_i(x)) of a model with one output over `batch` (which is used up), or over all records.
    pub fn of<R: Records>(
        gradient: &Clipped<Linear>,
        examples: &Sensitive<R>,
        batch: Option<Batch>,
        weights: &SparseVector,
        formed: Formed,
    ) -> Result<Sensitive<SparseGridSum>, CuratorError> {
        let rows = examples.expose();
        if gradient.objective().loss().outputs() != 1 || gradient.objective().features() != rows.columns() {
            return Err(CuratorError::Shape);
        }
        let id = batch.as_ref().map(Batch::id);
        let count = batch.as_ref().map_or(rows.len(), |b| b.records().len());
        let record = |i: usize| batch.as_ref().map_or(i, |b| b.records()[i] as usize);
        let entries = match formed {
            Formed::OverAllCoordinates => {
                let quanta = gradient
                    .add_up(rows, &weights.dense(rows.columns()), count, record)
                    .map_err(CuratorError::unreadable)?;
                quanta.into_iter().enumerate().map(|(j, z)| (j as u32, z)).collect()
            }
            Formed::BySparseEntries => {
                let point = Iterate(weights.iter().collect());
                let sum = gradient.touched(rows, point, (0..count).map(record)).map_err(CuratorError::unreadable)?;
                sum.into_iter().map(|(j, z)| (j as u32, z)).collect()
            }
        };
        let (grid, clip_norm) = (gradient.grid(), gradient.clip_norm());
        Ok(Sensitive::new(SparseGridSum { entries, dimension: rows.columns() as u64, grid, clip_norm, batch: id }))
    }
}

/// Weights that are not zero.
struct Iterate(HashMap<u32, f64>);

impl Point for Iterate {
    fn read(&mut self, at: usize) -> f64 {
        self.0.get(&(at as u32)).copied().unwrap_or(0.0)
    }

    fn score(&mut self, _: usize, _: usize, row: Row<'_>) -> f64 {
        if self.0.is_empty() {
            return 0.0;
        }
        let mut sum = LaneSum::default();
        for (j, &x) in row.columns().iter().zip(row.values()) {
            sum.add(*j as usize, self.0.get(j).map_or(0.0, |w| w * f64::from(x)));
        }
        sum.total()
    }
}

/// H_k(start − scale·R), R a noisy [`SparseGridSum`] in units of the gradient; event: `Gaussian(z)`, of which it is a function.
///
/// `exempt` (an intercept) is always kept and not counted. Order: by size, then by the size of the noisy sum, then the
/// smaller index.
#[derive(Clone, Debug)]
pub struct ThresholdedGaussian<'a> {
    /// Standard deviation of the noise, in clip norms.
    pub noise_multiplier: f64,
    /// Clip norm of a record.
    pub clip_norm: f64,
    /// Grid of the sums.
    pub grid: Grid,
    /// Number of weights.
    pub dimension: u64,
    /// Released: where the step starts, decay and momentum applied.
    pub start: &'a SparseVector,
    /// Step size on the noisy *sum*.
    pub scale: f64,
    /// Number k of coordinates that are kept.
    pub keep: usize,
    /// A coordinate that is always kept, besides the k.
    pub exempt: Option<u32>,
}

impl Sealed for ThresholdedGaussian<'_> {}

/// A coordinate of the stepped vector, with what ranks it.
#[derive(Clone, Copy, Debug)]
struct Stepped {
    index: u32,
    value: f64,
    quanta: i64,
}

impl Stepped {
    /// Orders by size, larger first.
    fn rank(&self, other: &Self) -> Ordering {
        (other.value.abs().total_cmp(&self.value.abs()))
            .then(other.quanta.unsigned_abs().cmp(&self.quanta.unsigned_abs()))
            .then(self.index.cmp(&other.index))
    }
}

impl Mechanism for ThresholdedGaussian<'_> {
    type Input = SparseGridSum;
    type Output = SparseVector;

    fn event(&self) -> Event {
        Event::gaussian(self.noise_multiplier)
    }

    fn sampler_error(&self, _input: &SparseGridSum) -> f64 {
        SamplerError::rounded(self.dimension as f64).total_variation()
    }

    fn label(&self) -> &'static str {
        "largest coordinates of a noisy step"
    }

    fn check(&self, input: &SparseGridSum) -> Result<(), CuratorError> {
        if input.clip_norm > self.clip_norm {
            return Err(CuratorError::Sensitivity { input: input.clip_norm, mechanism: self.clip_norm });
        }
        let inside = |index: Option<&u32>| index.is_none_or(|j| u64::from(*j) < self.dimension);
        if input.grid != self.grid
            || input.dimension != self.dimension
            || !inside(self.start.indices().last())
            || !inside(self.exempt.as_ref())
        {
            return Err(CuratorError::Shape);
        }
        Ok(())
    }

    fn batch(&self, input: &SparseGridSum) -> Option<BatchId> {
        input.batch
    }

    fn numbers(output: &SparseVector) -> Option<&[f64]> {
        Some(output.values())
    }

    fn apply(&self, input: &SparseGridSum, noise: &mut NoiseSource) -> Result<SparseVector, CuratorError> {
        // the product z·C was rounded once: next_up makes the noise at least what was accounted
        let std = (self.noise_multiplier * self.clip_norm).next_up();
        let sampler = RoundedGaussian::new(std, self.grid).map_err(|e| CuratorError::Noise(e.to_string()))?;
        let mut stream = noise.stream(Purpose::Noise, 0);
        let step = |index: u32, start: f64, quanta: i64| Stepped {
            index,
            value: start - self.scale * self.grid.to_f64(quanta),
            quanta,
        };
        // the touched coordinates: of the sum, of the start, and the exempt one
        let known = self.touched(input);
        let mut quanta: Vec<i64> = known.iter().map(|entry| entry.2).collect();
        sampler.add_to(&mut quanta, &mut stream);
        let mut kept = Vec::with_capacity(self.keep + 1);
        let mut ranked = Vec::with_capacity(known.len());
        for (&(index, start, _), &noisy) in known.iter().zip(&quanta) {
            let all = if self.exempt == Some(index) { &mut kept } else { &mut ranked };
            all.push(step(index, start, noisy));
        }
        if ranked.len() > self.keep && self.keep > 0 {
            ranked.select_nth_unstable_by(self.keep - 1, Stepped::rank);
            ranked.truncate(self.keep);
        }
        ranked.sort_unstable_by(Stepped::rank);
        // the others: from the top, as long as one of them is among the k largest
        let remote = known.iter().map(|entry| u64::from(entry.0)).collect();
        let mut others = Descending::untouched(&sampler, self.dimension, remote).aiming_at(self.keep);
        let all_touched = known.len() as u64 == self.dimension;
        let mut draw = || {
            let (index, quanta) = if all_touched { None } else { others.next(&mut stream) }?;
            Some(step(index as u32, 0.0, quanta))
        };
        let mut touched = ranked.into_iter().peekable();
        let mut other = if self.keep > 0 { draw() } else { None };
        for _ in 0..self.keep {
            let ahead = match (&other, touched.peek()) {
                (Some(o), Some(t)) => o.rank(t) == Ordering::Less,
                (Some(_), None) => true,
                (None, _) => false,
            };
            if ahead {
                kept.extend(other.take());
                other = draw();
            } else {
                kept.extend(touched.next());
            }
        }
        kept.sort_unstable_by_key(|entry| entry.index);
        Ok(SparseVector::new(kept.into_iter().map(|entry| (entry.index, entry.value))))
    }
}

impl ThresholdedGaussian<'_> {
    /// (index, start, sum) of all coordinates that are not pure noise, by index.
    fn touched(&self, input: &SparseGridSum) -> Vec<(u32, f64, i64)> {
        let mut all: Vec<(u32, f64, i64)> = Vec::with_capacity(input.entries.len() + self.start.len() + 1);
        let mut start = self.start.iter().peekable();
        for &(index, quanta) in &input.entries {
            while let Some((j, x)) = start.next_if(|entry| entry.0 < index) {
                all.push((j, x, 0));
            }
            let x = start.next_if(|entry| entry.0 == index).map_or(0.0, |entry| entry.1);
            all.push((index, x, quanta));
        }
        all.extend(start.map(|(j, x)| (j, x, 0)));
        if let Some(exempt) = self.exempt
            && let Err(at) = all.binary_search_by_key(&exempt, |entry| entry.0)
        {
            all.insert(at, (exempt, 0.0, 0));
        }
        all
    }
}

#[cfg(test)]
#[path = "thresholded_tests.rs"]
mod tests;
