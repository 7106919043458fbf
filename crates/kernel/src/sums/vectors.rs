//! Sums of ready-made vectors, one per record: rows for a mean, per-sample gradients of a model trained elsewhere
//! (docs/proofs/gaussian-sum.md).
//!
//! Each vector is clipped and truncated toward zero to a public grid with a proof that its norm is at most C, and summed
//! in wrapping integers: the sensitivity is exact and the order of summation does not matter.

use super::contributions::{add_up, merge};
use super::grid_sum::GridSum;
use crate::Sensitive;
use crate::curator::batch::{Batch, BatchId, Sampling};
use crate::curator::mechanism::{Mechanism, sealed};
use crate::refused::CuratorError;
use crate::sampler_error::SamplerError;
use dpopt_lanes::add_truncated_of;
use dpopt_noise::{Grid, NoiseSource, Norm, Purpose, Quantizer, RoundedLaplace};
use dpopt_privacy::Event;
use dpopt_process::stop::paced;
use pulp::{Arch, Simd};
use std::convert::Infallible;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Clips vectors to l2 norm `clip_norm` on a grid; what [`Gaussian`](crate::Gaussian) adds noise to.
#[derive(Clone, Copy, Debug)]
pub struct ClippedVectors {
    quantizer: Quantizer,
}

impl ClippedVectors {
    /// C and the public grid.
    pub fn new(clip_norm: f64, grid: Grid) -> Result<Self, CuratorError> {
        Ok(Self { quantizer: quantizer(Norm::L2, clip_norm, grid)? })
    }

    /// Σ clip(v_i) over `records` vectors of `dimension` entries; `vector(i, out)` appends the entries of v_i to the empty
    /// `out`. Non-finite entries count as 0.
    pub fn sum(
        &self,
        records: usize,
        dimension: usize,
        vector: impl Fn(usize, &mut Vec<f64>) + Sync,
    ) -> Sensitive<GridSum> {
        let quanta = add_up_vectors(&self.quantizer, records, dimension, vector);
        Sensitive::new(GridSum {
            quanta,
            grid: self.quantizer.grid(),
            clip_norm: self.quantizer.clip_norm(),
            batch: None,
        })
    }

    /// [`sum`](Self::sum) of vectors that lie in memory: `vector(i)` is v_i, of which entries beyond `dimension` count as none.
    pub fn sum_slices<'a>(
        &self,
        records: usize,
        dimension: usize,
        vector: impl Fn(usize) -> &'a [f64] + Sync,
    ) -> Sensitive<GridSum> {
        let quanta = add_up_slices(&self.quantizer, records, dimension, vector);
        Sensitive::new(GridSum {
            quanta,
            grid: self.quantizer.grid(),
            clip_norm: self.quantizer.clip_norm(),
            batch: None,
        })
    }

    /// The l2 clip norm C.
    pub(super) fn clip_norm(&self) -> f64 {
        self.quantizer.clip_norm()
    }

    /// What the integers are multiples of.
    pub(super) fn grid(&self) -> Grid {
        self.quantizer.grid()
    }

    /// [`sum`](Self::sum) as integers.
    pub(super) fn add_up(
        &self,
        records: usize,
        dimension: usize,
        vector: impl Fn(usize, &mut Vec<f64>) + Sync,
    ) -> Vec<i64> {
        add_up_vectors(&self.quantizer, records, dimension, vector)
    }

    /// Sums clipped vectors, one for each record of `batch`; consumes the batch.
    ///
    /// # Errors
    /// If there are more vectors than records in a batch that the curator drew: some record would count twice.
    pub fn sum_batch(
        &self,
        batch: Batch,
        vectors: usize,
        dimension: usize,
        vector: impl Fn(usize, &mut Vec<f64>) + Sync,
    ) -> Result<Sensitive<GridSum>, CuratorError> {
        let mut sum = self.in_parts(batch, dimension);
        sum.add(vectors, vector)?;
        Ok(sum.finish())
    }

    /// Begins a sum over `batch` whose vectors come in several calls, because memory holds a part of them only.
    pub fn in_parts(&self, batch: Batch, dimension: usize) -> BatchSum {
        BatchSum::new(&self.quantizer, batch, dimension)
    }

    /// Sums clipped vectors, one for each set of records (all that a user or a client has), over a batch of the sets or over all of them.
    pub(crate) fn sum_of_sets<R: Sync>(
        &self,
        sets: &[Sensitive<R>],
        batch: Option<Batch>,
        dimension: usize,
        vector: impl Fn(&R, &mut Vec<f64>) + Sync,
    ) -> Sensitive<GridSum> {
        let of = |i: usize, out: &mut Vec<f64>| vector(sets[i].expose(), out);
        let quanta = match &batch {
            Some(batch) => {
                let chosen: Vec<u64> = batch.records().iter().copied().filter(|&i| i < sets.len() as u64).collect();
                let each = |i: usize, out: &mut Vec<f64>| of(chosen[i] as usize, out);
                add_up_vectors(&self.quantizer, chosen.len(), dimension, each)
            }
            None => add_up_vectors(&self.quantizer, sets.len(), dimension, of),
        };
        let (grid, clip_norm) = (self.quantizer.grid(), self.quantizer.clip_norm());
        Sensitive::new(GridSum { quanta, grid, clip_norm, batch: batch.map(|b| b.id()) })
    }

    /// Sums clipped f32 vectors, one for each record of `batch`, for gradients of a neural network: wide, zero in many places, and made
    /// several at a time. `make` gets ranges of at most `chunk` vectors and adds each vector of its range once, in any order.
    ///
    /// # Errors
    /// As [`sum_batch`](Self::sum_batch); and if the grid is finer than 2^-24 of the clip norm, which f32 entries cannot fill
    /// ([`Grid::for_sum`] is coarser for noise multipliers above a half, fewer than 2^16 records and fewer than 2^26 entries).
    pub fn sum_batch_in_chunks(
        &self,
        batch: Batch,
        vectors: usize,
        dimension: usize,
        chunk: usize,
        make: impl Fn(Range<usize>, &mut PieceSum) + Sync,
    ) -> Result<Sensitive<GridSum>, CuratorError> {
        let mut sum = self.in_parts(batch, dimension);
        sum.add_in_chunks(vectors, chunk, make)?;
        Ok(sum.finish())
    }

    /// Whether the grid is one that f32 entries can fill: what [`sum_batch_in_chunks`](Self::sum_batch_in_chunks) asks for.
    pub fn fits_f32(&self, dimension: usize) -> bool {
        PieceSum::fits(&self.quantizer, dimension)
    }
}

/// The sum over one Poisson batch while its vectors are still coming; made by [`ClippedVectors::in_parts`]. Each vector is clipped
/// when it comes, and nothing but their sum is kept, in integers: how the batch was divided changes no bit of it.
///
/// ```
/// use dpopt_kernel::{ClippedVectors, Curator, Gaussian, SamplerError};
/// use dpopt_noise::{Grid, NoiseSource};
/// use dpopt_privacy::{Budget, Event, Neighbours, Relation, certify};
///
/// let drawn = SamplerError::rounded(1.0) + SamplerError::subset(100);
/// let event = drawn.on(Event::gaussian(2.0).poisson_sampled(0.5));
/// let terms = Neighbours::of_records(Relation::ZeroOut).within(Budget::new(3.0, 1e-6)?);
/// let certificate = certify(&event, terms)?;
/// let mut curator = Curator::new(&certificate, NoiseSource::insecure(1));
/// let grid = Grid::new(-20);
/// let (batch, records) = curator.sample_for_loader(100, 0.5)?;
/// let mut sum = ClippedVectors::new(1.0, grid)?.in_parts(batch, 1);
/// for part in records.chunks(16) {
///     sum.add(part.len(), |_, out| out.push(1.0))?;
/// }
/// let released = curator.release(&Gaussian::new(2.0, 1.0, grid, 1, "sum"), &sum.finish())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct BatchSum {
    quantizer: Quantizer,
    batch: Batch,
    given: usize,
    /// As sensitive as the records.
    quanta: Vec<i64>,
}

impl BatchSum {
    /// Begins a sum over `batch`, without any vector yet.
    pub(crate) fn new(quantizer: &Quantizer, batch: Batch, dimension: usize) -> Self {
        Self { quantizer: *quantizer, batch, given: 0, quanta: vec![0; dimension] }
    }

    /// The sums so far: as sensitive as the records.
    pub(crate) fn sums(&self) -> &[i64] {
        &self.quanta
    }

    /// Over the records at public positions: of a step of a stream, which releases it itself. No curator draws such a batch, so none releases on it, and no two
    /// calls give the same.
    pub(crate) fn of_positions(quantizer: &Quantizer, positions: Vec<u64>, dimension: usize) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let id = BatchId { curator: u64::MAX, number, sampling: Sampling::All };
        Self::new(quantizer, Batch::of(id, positions), dimension)
    }

    /// Which batch it is over.
    pub fn id(&self) -> BatchId {
        self.batch.id()
    }

    /// What was added, if it is [the sum](Self::of_positions) that has this id.
    pub(crate) fn into_units_of(self, id: BatchId) -> Option<Vec<i64>> {
        (self.id() == id).then_some(self.quanta)
    }

    /// Room for `vectors` more, or an error.
    fn take(&mut self, vectors: usize) -> Result<(), CuratorError> {
        let given = self.given.saturating_add(vectors);
        if self.batch.drawn_here() && given > self.batch.records().len() {
            return Err(CuratorError::Shape);
        }
        self.given = given;
        Ok(())
    }

    /// Adds `vectors` more, each clipped; `vector` as in [`ClippedVectors::sum`].
    ///
    /// # Errors
    /// If there are more vectors than records in a batch that the curator drew; then nothing is added.
    pub fn add(&mut self, vectors: usize, vector: impl Fn(usize, &mut Vec<f64>) + Sync) -> Result<(), CuratorError> {
        self.take(vectors)?;
        let quanta = add_up_vectors(&self.quantizer, vectors, self.quanta.len(), vector);
        merge(&mut self.quanta, &quanta);
        Ok(())
    }

    /// Adds `vectors` more, each clipped, of f32 and in pieces: `chunk` and `make` as in [`ClippedVectors::sum_batch_in_chunks`].
    ///
    /// # Errors
    /// As there; then nothing is added.
    pub fn add_in_chunks(
        &mut self,
        vectors: usize,
        chunk: usize,
        make: impl Fn(Range<usize>, &mut PieceSum) + Sync,
    ) -> Result<(), CuratorError> {
        let dimension = self.quanta.len();
        // what is wrong with the grid is wrong without vectors too
        if !PieceSum::fits(&self.quantizer, dimension) {
            return Err(CuratorError::Noise(
                "the grid of a sum of f32 vectors is finer than 2^-24 of the clip norm, or out of their range".into(),
            ));
        }
        self.take(vectors)?;
        let chunk = chunk.max(1);
        let Ok(quanta) = add_up(vectors, dimension, chunk, |part| {
            let mut sum = PieceSum::new(&self.quantizer, dimension);
            for start in paced(part.clone().step_by(chunk)) {
                let range = start..(start + chunk).min(part.end);
                sum.awaited = range.len();
                make(range, &mut sum);
            }
            Ok::<_, Infallible>(sum.finished())
        });
        merge(&mut self.quanta, &quanta);
        Ok(())
    }

    /// Whether its grid is one that f32 entries can fill: what [`add_in_chunks`](Self::add_in_chunks) asks for.
    pub fn fits_f32(&self) -> bool {
        PieceSum::fits(&self.quantizer, self.quanta.len())
    }

    /// How many entries a vector has.
    pub fn dimension(&self) -> usize {
        self.quanta.len()
    }

    /// The sum of what was added: what [`Gaussian`](crate::Gaussian) adds noise to. The batch is used up.
    pub fn finish(self) -> Sensitive<GridSum> {
        let (grid, clip_norm) = (self.quantizer.grid(), self.quantizer.clip_norm());
        Sensitive::new(GridSum { quanta: self.quanta, grid, clip_norm, batch: Some(self.batch.id()) })
    }
}

/// A sum of clipped f32 vectors that are given in pieces; see [`ClippedVectors::sum_batch_in_chunks`].
///
/// The bound ‖γz‖ ≤ C is exact by proof: f32 squares are exact in f64, so the computed norm is at least N(1 − n·2^-53) with
/// n < 2^28; the factor t is at most (C/γ)(1 − 2^-20) over it, rounded to f32; each product fl(t·v) is at most |t·v|(1 + 2^-24)
/// in size where it reaches 1, and truncation only lowers it. All of this is less than 2^-20.
pub struct PieceSum {
    sum: Vec<i64>,
    /// The sum of the last few vectors, so few that no entry can overflow.
    near: Vec<i32>,
    in_near: u32,
    /// Vectors that `near` has room for.
    room: u32,
    /// Vectors of the current range that have not been added yet.
    awaited: usize,
    /// (C/γ)(1 − 2^-20): the largest norm of a vector, in grid steps, before its entries are cut toward zero.
    limit: f64,
    /// 1/γ: grid steps per unit of value.
    per_unit: f64,
}

/// Bits of an f32's significand.
const F32_DIGITS: u32 = f32::MANTISSA_DIGITS;

impl PieceSum {
    fn fits(quantizer: &Quantizer, dimension: usize) -> bool {
        // powers of two between these are f32, and so are their products with a clipped vector
        let usable = (1e-30..1e30).contains(&(1.0 / quantizer.grid().step()));
        quantizer.max_units() <= 1 << F32_DIGITS && dimension < 1 << 28 && usable
    }

    /// For a quantizer and a dimension that [fit](Self::fits).
    fn new(quantizer: &Quantizer, dimension: usize) -> Self {
        let per_unit = 1.0 / quantizer.grid().step();
        let room = i32::MAX as u64 / quantizer.max_units().max(1);
        Self {
            sum: vec![0; dimension],
            near: vec![0; dimension],
            in_near: 0,
            room: room.min(u64::from(u32::MAX)) as u32,
            awaited: 0,
            limit: quantizer.clip_norm() * per_unit * (1.0 - (-20f64).exp2()),
            per_unit,
        }
    }

    /// Adds the next vector, clipped: `pieces` are consecutive entries from a place on, in the order of the places, and all
    /// other entries are 0. Counts as 0, because an error would be an output: a vector with entries that are not finite, with
    /// pieces that overlap, are out of order or end outside, and one more vector than there are records.
    pub fn add(&mut self, pieces: &[(usize, &[f32])]) {
        if self.awaited == 0 {
            return;
        }
        self.awaited -= 1;
        let mut end = 0;
        for (start, piece) in pieces {
            if *start < end || start.saturating_add(piece.len()) > self.near.len() {
                return;
            }
            end = start + piece.len();
        }
        let squared: f64 = pieces.iter().map(|(_, piece)| squared_norm(piece)).sum();
        if !squared.is_finite() {
            return;
        }
        // a zero vector has an infinite quotient, and any finite factor is right
        let factor = self.per_unit.min(self.limit / squared.sqrt()) as f32;
        if self.in_near == self.room {
            self.carry();
        }
        for (start, piece) in pieces {
            let cells = &mut self.near[*start..start + piece.len()];
            add_units(cells, factor, piece);
        }
        self.in_near += 1;
    }

    fn carry(&mut self) {
        for (sum, near) in self.sum.iter_mut().zip(&mut self.near) {
            *sum = sum.wrapping_add(i64::from(*near));
            *near = 0;
        }
        self.in_near = 0;
    }

    fn finished(mut self) -> Vec<i64> {
        self.carry();
        self.sum
    }
}

/// Adds factor·v, truncated; |factor·v| is at most 2^24. Wider vectors do not change a bit of it.
#[pulp::with_simd(add_units = Arch::new())]
#[inline(always)]
fn add_units_wide<S: Simd>(_simd: S, cells: &mut [i32], factor: f32, piece: &[f32]) {
    cells.iter_mut().zip(piece).for_each(|(cell, v)| *cell = cell.wrapping_add((factor * v) as i32));
}

/// Σv² in f64, in sixteen running sums: a single one waits for itself.
#[pulp::with_simd(squared_norm = Arch::new())]
#[inline(always)]
fn squared_norm_wide<S: Simd>(_simd: S, values: &[f32]) -> f64 {
    let mut lanes = [0.0f64; 16];
    let chunks = values.chunks_exact(16);
    let rest: f64 = chunks.remainder().iter().map(|&v| f64::from(v) * f64::from(v)).sum();
    for chunk in chunks {
        for (lane, &v) in lanes.iter_mut().zip(chunk) {
            *lane += f64::from(v) * f64::from(v);
        }
    }
    lanes.iter().sum::<f64>() + rest
}

fn quantizer(norm: Norm, clip_norm: f64, grid: Grid) -> Result<Quantizer, CuratorError> {
    Quantizer::new(norm, clip_norm, grid).map_err(|e| CuratorError::Noise(e.to_string()))
}

pub(super) fn add_up_vectors(
    quantizer: &Quantizer,
    records: usize,
    dimension: usize,
    vector: impl Fn(usize, &mut Vec<f64>) + Sync,
) -> Vec<i64> {
    let Ok(quanta) = add_up(records, dimension, 64, |range| {
        let mut sum = vec![0i64; dimension];
        let (mut values, mut quanta) = (Vec::with_capacity(dimension), Vec::new());
        for i in paced(range) {
            values.clear();
            vector(i, &mut values);
            // a longer vector is cut, so that what was clipped is what is summed
            values.truncate(dimension);
            if !add_clipped(quantizer, &values, &mut sum) {
                quantizer.quantize(&mut values, &mut quanta);
                merge(&mut sum, &quanta);
            }
        }
        Ok::<_, Infallible>(sum)
    });
    quanta
}

/// As [`add_up_vectors`], of vectors that lie in memory; of longer ones the rest is cut off.
fn add_up_slices<'a>(
    quantizer: &Quantizer,
    records: usize,
    dimension: usize,
    vector: impl Fn(usize) -> &'a [f64] + Sync,
) -> Vec<i64> {
    let Ok(quanta) = add_up(records, dimension, 64, |range| {
        let mut sum = vec![0i64; dimension];
        let mut quanta = Vec::new();
        for i in paced(range) {
            let values = vector(i);
            let values = &values[..values.len().min(dimension)];
            if !add_clipped(quantizer, values, &mut sum) {
                quantizer.quantize(&mut values.to_vec(), &mut quanta);
                merge(&mut sum, &quanta);
            }
        }
        Ok::<_, Infallible>(sum)
    });
    quanta
}

/// Adds a vector clipped in l2 norm by the factor that is proved for it, if there is one.
#[inline]
fn add_clipped(quantizer: &Quantizer, values: &[f64], sum: &mut [i64]) -> bool {
    let factor = if quantizer.norm() == Norm::L2 { quantizer.factor_off_the_norm(values) } else { None };
    factor.is_some_and(|factor| {
        add_truncated_of(values, factor, quantizer.bound(), sum);
        true
    })
}

/// A sum of integer vectors, each of *l1* norm at most C; what [`Laplace`] adds noise to.
pub struct L1Sum {
    quanta: Vec<i64>,
    grid: Grid,
    clip_norm: f64,
    batch: Option<BatchId>,
}

impl L1Sum {
    /// Integers of l1 norm at most the quantizer's bound for each record.
    pub(super) fn of_quanta(quanta: Vec<i64>, quantizer: &Quantizer, batch: Option<BatchId>) -> Self {
        Self { quanta, grid: quantizer.grid(), clip_norm: quantizer.clip_norm(), batch }
    }

    /// Σ over `records` vectors of `dimension` entries, each clipped to l1 norm `clip_norm` on `grid`; `vector` as in
    /// [`ClippedVectors::sum`].
    pub fn of(
        records: usize,
        dimension: usize,
        clip_norm: f64,
        grid: Grid,
        vector: impl Fn(usize, &mut Vec<f64>) + Sync,
    ) -> Result<Sensitive<Self>, CuratorError> {
        let quantizer = quantizer(Norm::L1, clip_norm, grid)?;
        let quanta = add_up_vectors(&quantizer, records, dimension, vector);
        Ok(Sensitive::new(Self::of_quanta(quanta, &quantizer, None)))
    }
}

/// Adds Laplace noise of scale b·C, rounded to the grid, to every coordinate of an [`L1Sum`]. Event: `Laplace(b)`.
#[derive(Clone, Debug)]
pub struct Laplace {
    noise_multiplier: f64,
    clip_norm: f64,
    grid: Grid,
    dimension: usize,
}

impl Laplace {
    /// Noise scale `noise_multiplier`·`clip_norm` per coordinate of a sum on `grid`.
    pub fn new(noise_multiplier: f64, clip_norm: f64, grid: Grid, dimension: usize) -> Self {
        Self { noise_multiplier, clip_norm, grid, dimension }
    }
}

/// What draws Laplace noise of at least that scale.
pub fn rounded_laplace(scale: f64, grid: Grid) -> Result<RoundedLaplace, CuratorError> {
    // the product b·C was rounded once: next_up makes the noise at least what was accounted
    RoundedLaplace::new(scale.next_up(), grid).map_err(|e| CuratorError::Noise(e.to_string()))
}

impl sealed::Sealed for Laplace {}

impl Mechanism for Laplace {
    type Input = L1Sum;
    type Output = Vec<f64>;

    fn event(&self) -> Event {
        Event::Laplace { noise_multiplier: self.noise_multiplier }
    }

    fn sampler_error(&self, _input: &L1Sum) -> f64 {
        SamplerError::fine(self.dimension as f64).total_variation()
    }

    fn label(&self) -> &'static str {
        "clipped sum"
    }

    fn can_draw(&self) -> Result<(), CuratorError> {
        quantizer(Norm::L1, self.clip_norm, self.grid)?;
        rounded_laplace(self.noise_multiplier * self.clip_norm, self.grid).map(drop)
    }

    fn check(&self, input: &L1Sum) -> Result<(), CuratorError> {
        if input.clip_norm > self.clip_norm {
            return Err(CuratorError::Sensitivity { input: input.clip_norm, mechanism: self.clip_norm });
        }
        if input.grid != self.grid || input.quanta.len() != self.dimension {
            return Err(CuratorError::Shape);
        }
        Ok(())
    }

    fn batch(&self, input: &L1Sum) -> Option<BatchId> {
        input.batch
    }

    fn numbers(output: &Vec<f64>) -> Option<&[f64]> {
        Some(output)
    }

    fn apply(&self, input: &L1Sum, noise: &mut NoiseSource) -> Result<Vec<f64>, CuratorError> {
        let sampler = rounded_laplace(self.noise_multiplier * self.clip_norm, self.grid)?;
        let mut quanta = input.quanta.clone();
        sampler.add_to(&mut quanta, &mut noise.stream(Purpose::Noise, 0));
        Ok(quanta.into_iter().map(|u| self.grid.to_f64(u)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_at_its_clip_norm_loses_nothing() {
        let clipped = ClippedVectors::new(5.0, Grid::new(-20)).unwrap();
        let sum = clipped.sum_slices(3, 2, |i| if i == 1 { &[-5.0, 0.0] } else { &[3.0, 4.0] });
        assert_eq!(sum.expose().quanta, [(3 + 3 - 5) << 20, (4 + 4) << 20]);
    }

    #[test]
    fn vectors_in_memory_are_summed_as_copies_are() {
        let clipped = ClippedVectors::new(1.5, Grid::new(-20)).unwrap();
        let rows: Vec<Vec<f64>> = (0..70)
            .map(|i| match i % 7 {
                0 => vec![0.0; 40],
                1 => vec![f64::NAN; 40],
                2 => vec![1e200; 40],
                3 => vec![1e-170; 40],
                // longer than the sum
                4 => (0..60).map(|j| f64::from(j - 30)).collect(),
                _ => (0..40).map(|j| f64::from(i * j % 11) / 50.0 - 0.1).collect(),
            })
            .collect();
        let copied = clipped.sum(70, 40, |i, out| out.extend(&rows[i]));
        let sliced = clipped.sum_slices(70, 40, |i| &rows[i]);
        assert_eq!(copied.expose().quanta, sliced.expose().quanta);
        for row in &rows {
            let alone = clipped.sum_slices(1, 40, |_| row);
            let squared: u128 = alone.expose().quanta.iter().map(|z| u128::from(z.unsigned_abs()).pow(2)).sum();
            assert!(squared <= clipped.quantizer.max_units().pow(2).into());
        }
    }
    use crate::{Curator, Gaussian};
    use proptest::prelude::*;

    const GRID: i32 = -30;

    fn rows(data: &[[f64; 2]]) -> impl Fn(usize, &mut Vec<f64>) + Sync + '_ {
        |i, out| out.extend(data[i])
    }

    #[test]
    fn vectors_are_clipped_whatever_they_hold_and_noise_comes_on_top() {
        let wild = [[1e300, 0.0], [f64::INFINITY, 1.0], [f64::NAN, 2.0], [3.0, 4.0]];
        let sum = ClippedVectors::new(1.0, Grid::new(GRID)).unwrap().sum(4, 2, rows(&wild));
        let mut curator = Curator::for_event(&Event::gaussian(1e-6), NoiseSource::insecure(1));
        let mechanism = Gaussian::new(1e-6, 1.0, Grid::new(GRID), 2, "clipped sum");
        let out = curator.release(&mechanism, &sum).unwrap().into_inner();
        // (1, 0) + (0, 1) + (0, 1) + (0.6, 0.8)
        assert!((out[0] - 1.6).abs() < 1e-4 && (out[1] - 2.8).abs() < 1e-4, "{out:?}");
        assert!(curator.release(&mechanism, &sum).is_err());
    }

    type Pieces = Vec<(usize, Vec<f32>)>;

    fn in_chunks(vectors: &[Pieces], dimension: usize, clip_norm: f64, grid: i32, chunk: usize) -> Vec<i64> {
        let mut curator = Curator::for_event(&Event::gaussian(1.0).poisson_sampled(1.0), NoiseSource::insecure(1));
        let batch = curator.poisson_sample(vectors.len(), 1.0).unwrap();
        let clipped = ClippedVectors::new(clip_norm, Grid::new(grid)).unwrap();
        let make = |range: Range<usize>, sum: &mut PieceSum| {
            for vector in &vectors[range] {
                let pieces: Vec<(usize, &[f32])> = vector.iter().map(|(at, v)| (*at, &v[..])).collect();
                sum.add(&pieces);
            }
            // more vectors than records: whatever they are, they count for nothing
            sum.add(&[(0, &[1.0])]);
        };
        let sum = clipped.sum_batch_in_chunks(batch, vectors.len(), dimension, chunk, make).unwrap();
        sum.expose().quanta.clone()
    }

    #[test]
    fn vectors_in_pieces_are_clipped_whatever_they_hold() {
        let odd: Vec<Pieces> = vec![
            vec![(0, vec![3.0]), (2, vec![4.0, 0.0])], // 0.6, 0, 0.8
            vec![(0, vec![0.0, 0.25])],                // short enough
            vec![(0, vec![f32::MAX, f32::MAX])],       // 0.707, 0.707
            vec![(3, vec![f32::from_bits(1)])],        // the smallest f32
            vec![(0, vec![f32::NAN])],
            vec![(0, vec![1.0]), (2, vec![f32::INFINITY])],
            vec![(0, vec![1.0, 1.0]), (1, vec![1.0])], // an entry twice: clipped apart they would add up to more than C
            vec![(2, vec![1.0]), (0, vec![1.0])],
            vec![(3, vec![1.0, 1.0])], // outside
            vec![(usize::MAX, vec![1.0])],
            vec![],
        ];
        let expected = [0.6 + 0.5f64.sqrt(), 0.25 + 0.5f64.sqrt(), 0.8, 0.0];
        for chunk in [1, 3, 100] {
            let quanta = in_chunks(&odd, 4, 1.0, -24, chunk);
            for (unit, e) in quanta.iter().zip(expected) {
                assert!((*unit as f64 / 2f64.powi(24) - e).abs() < 4e-6, "{quanta:?}");
            }
        }
    }

    #[test]
    fn many_vectors_in_pieces_do_not_overflow() {
        // 2^24 steps each: 32 bits hold 127 of them
        let many: Vec<Pieces> = (0..1000).map(|_| vec![(0, vec![7.0])]).collect();
        let sum = in_chunks(&many, 1, 1.0, -24, 64)[0] as f64 / 2f64.powi(24);
        assert!((sum - 1000.0).abs() < 1000.0 * 2e-6, "{sum}");
    }

    #[test]
    fn parts_of_a_batch_sum_to_its_whole_and_hold_no_more_than_its_records() {
        let event = Event::gaussian(1.0).poisson_sampled(0.5).self_composed(3);
        let released = |sizes: &[usize], wide: bool| {
            let mut curator = Curator::for_event(&event, NoiseSource::insecure(7));
            let (batch, records) = curator.sample_for_loader(200, 0.5).unwrap();
            let values: Vec<[f32; 3]> = records.iter().map(|&i| [i as f32 / 50.0, 0.3, -1.0]).collect();
            let mut sum = ClippedVectors::new(1.5, Grid::new(-20)).unwrap().in_parts(batch, 3);
            let mut at = 0;
            for size in sizes.iter().copied().chain([records.len()]) {
                let part = &values[at..(at + size).min(values.len())];
                if wide {
                    let make = |range: Range<usize>, sum: &mut PieceSum| {
                        range.for_each(|i| sum.add(&[(0, &part[i][..1]), (1, &part[i][1..])]));
                    };
                    sum.add_in_chunks(part.len(), 4, make).unwrap();
                    assert!(matches!(sum.add_in_chunks(201, 4, |_, _| {}), Err(CuratorError::Shape)));
                } else {
                    sum.add(part.len(), |i, out| out.extend(part[i].map(f64::from))).unwrap();
                    assert!(matches!(sum.add(201, |_, out| out.push(1.0)), Err(CuratorError::Shape)));
                }
                at += part.len();
            }
            assert_eq!(at, records.len());
            // full: not one more
            assert!(matches!(sum.add(1, |_, out| out.push(1.0)), Err(CuratorError::Shape)));
            curator.release(&Gaussian::new(1.0, 1.5, Grid::new(-20), 3, "batch gradient"), &sum.finish()).unwrap()
        };
        for wide in [false, true] {
            let whole = released(&[], wide);
            assert_eq!(whole, released(&[1, 0, 16, 30], wide));
            assert_eq!(whole, released(&[50, 50], wide));
        }
    }

    #[test]
    fn a_grid_that_f32_cannot_fill_is_refused() {
        let mut curator = Curator::for_event(&Event::NoOp, NoiseSource::insecure(1));
        for grid in [-25, -200] {
            let clipped = ClippedVectors::new((grid as f64 + 25.0).exp2(), Grid::new(grid)).unwrap();
            let batch = curator.poisson_sample(3, 0.5).unwrap();
            assert!(!clipped.fits_f32(1));
            assert!(clipped.sum_batch_in_chunks(batch, 0, 1, 1, |_, _| {}).is_err());
        }
        let batch = curator.poisson_sample(3, 0.5).unwrap();
        let clipped = ClippedVectors::new(1.0, Grid::new(-20)).unwrap();
        assert!(matches!(clipped.sum_batch_in_chunks(batch, 4, 1, 1, |_, _| {}), Err(CuratorError::Shape)));
    }

    proptest! {
        #[test]
        fn a_vector_in_pieces_has_norm_at_most_c_exactly(
            values in prop::collection::vec(prop_oneof![-1e3f32..1e3, any::<f32>(), Just(1.0f32)], 1..200),
            most in 1u32..=1 << 24,
            exponent in -30i32..30,
        ) {
            let (grid, clip) = (Grid::new(exponent), f64::from(most) * f64::from(exponent).exp2());
            let quanta = in_chunks(&[vec![(0, values.clone())]], values.len(), clip, exponent, 1);
            let exact: u128 = quanta.iter().map(|z| u128::from(z.unsigned_abs()).pow(2)).sum();
            prop_assert!(exact <= u128::from(most).pow(2));
            let quantizer = Quantizer::new(Norm::L2, clip, grid).unwrap();
            // and is what the general path gives, up to the room left for rounding
            let finite = values.iter().all(|v| v.is_finite());
            let (mut wide, mut general) = (values.iter().map(|v| f64::from(*v)).collect::<Vec<_>>(), Vec::new());
            quantizer.quantize(&mut wide, &mut general);
            for (ours, theirs) in quanta.iter().zip(&general) {
                let expected = if finite { *theirs as f64 } else { 0.0 };
                prop_assert!((*ours as f64 - expected).abs() <= 1.0 + 1.2e-6 * expected.abs(), "{ours} {theirs}");
            }
        }
    }

    #[test]
    fn l1_sums_get_laplace_noise_once_and_of_the_planned_norm_only() {
        let sum = L1Sum::of(2, 2, 1.0, Grid::new(GRID), rows(&[[3.0, 1.0], [0.2, 0.2]])).unwrap();
        let mut curator = Curator::for_event(&Event::Laplace { noise_multiplier: 1e-4 }, NoiseSource::insecure(1));
        let small = Laplace::new(1e-4, 0.5, Grid::new(GRID), 2);
        assert!(matches!(curator.release(&small, &sum), Err(CuratorError::Sensitivity { .. })));
        let mechanism = Laplace::new(1e-4, 1.0, Grid::new(GRID), 2);
        let out = curator.release(&mechanism, &sum).unwrap().into_inner();
        assert!((out[0] - 0.95).abs() < 0.01 && (out[1] - 0.45).abs() < 0.01, "{out:?}");
        assert!(matches!(curator.release(&mechanism, &sum), Err(CuratorError::Unforeseen { .. })));
    }

    #[test]
    fn a_batch_drawn_for_a_loader_has_at_most_one_vector_per_record() {
        let event = Event::gaussian(1.0).poisson_sampled(0.5).self_composed(2);
        let mut curator = Curator::for_event(&event, NoiseSource::insecure(1));
        let clipped = ClippedVectors::new(1.0, Grid::new(GRID)).unwrap();
        let mechanism = Gaussian::new(1.0, 1.0, Grid::new(GRID), 1, "batch gradient");
        let one = |_: usize, out: &mut Vec<f64>| out.push(1.0);
        let (batch, records) = curator.sample_for_loader(40, 0.5).unwrap();
        assert!(matches!(clipped.sum_batch(batch, records.len() + 1, 1, one), Err(CuratorError::Shape)));
        let (batch, records) = curator.sample_for_loader(40, 0.5).unwrap();
        let sum = clipped.sum_batch(batch, records.len(), 1, one).unwrap();
        assert!(curator.release(&mechanism, &sum).is_ok());
        let remote = curator.sampled_remotely(0.4);
        let sum = clipped.sum_batch(remote, 3, 1, one).unwrap();
        assert!(matches!(curator.release(&mechanism, &sum), Err(CuratorError::Unforeseen { .. })));
        let remote = curator.sampled_remotely(0.5);
        let sum = clipped.sum_batch(remote, 3, 1, one).unwrap();
        assert!(curator.release(&mechanism, &sum).is_ok());
        assert!(curator.is_spent());
    }
}
