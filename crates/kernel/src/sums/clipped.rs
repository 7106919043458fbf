//! Sums of clipped per-record gradients of any objective, in exact integers (docs/proofs/gaussian-sum.md).
//!
//! Each record's gradient is clipped to C, truncated toward zero to a public grid with a proof that its norm is at most C, and
//! summed in wrapping integers: the sensitivity is exact whatever the objective puts, and the order of summation (so the number of
//! threads) does not matter. A gradient `slope ⊗ row` is clipped through the scalar ‖slope‖·‖row‖ and never materialised.

use super::aggregate_query::{AggregateQuery, Sample};
use super::contributions::{add_up, merge_equal};
use super::grid_sum::GridSum;
use crate::Sensitive;
use crate::curator::batch::{Batch, BatchId};
use crate::refused::CuratorError;
use dpopt_lanes::{add_truncated, add_truncated_lines, add_truncated_of, squared_norm};
use dpopt_noise::{Grid, Norm, Quantizer};
use dpopt_objective::objective::{Gradient, Objective, Point};
use dpopt_objective::records::{PartitionsError, ReadError, RecordSet, Row};
use dpopt_process::stop::paced;
use std::convert::Infallible;
use std::ops::Range;

/// Records that a thread takes at least.
const GRAIN: usize = 64;

/// An objective's gradients, each clipped to l2 norm C on a public grid. `dpopt_optimize::oracle` makes a plan of many such sums, with clip norm, grid and
/// event said once.
///
/// ```
/// use dpopt_kernel::{Clipped, Curator, Gaussian, SamplerError, Sensitive};
/// use dpopt_noise::{Grid, NoiseSource};
/// use dpopt_objective::objective::Closures;
/// use dpopt_privacy::{Budget, Event, Neighbours, Relation, certify};
///
/// let loss = Closures::new(1, |x: &[f64], r: &f64| (x[0] - r).powi(2) / 2.0, |x: &[f64], r: &f64, g: &mut [f64]| g[0] = x[0] - r);
/// let records = Sensitive::new(vec![0.5; 20_000]);
/// let (z, clip_norm) = (4.0, 1.0);
/// let grid = Grid::for_sum(clip_norm, z * clip_norm, 20_000, 1);
/// let (clipped, noise) = (Clipped::new(loss, clip_norm, grid)?, Gaussian::new(z, clip_norm, grid, 1, "gradient"));
/// let event = SamplerError::rounded(1.0).on(Event::gaussian(z));
/// let terms = Neighbours::of_records(Relation::ZeroOut).within(Budget::new(1.5, 1e-6)?);
/// let mut curator = Curator::new(&certify(&event, terms)?, NoiseSource::secure()?);
/// let gradient = curator.release(&noise, &clipped.sum(&records, &[0.0]))?;
/// assert!((gradient.get()[0] / 20_000.0 + 0.5).abs() < 0.01);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Clipped<O> {
    objective: O,
    quantizer: Quantizer,
}

impl<O> Clipped<O> {
    /// Gradients of `objective` clipped to l2 norm `clip_norm` on `grid`.
    ///
    /// # Errors
    /// If the clip norm is not positive and finite, or the grid too fine for it.
    pub fn new(objective: O, clip_norm: f64, grid: Grid) -> Result<Self, CuratorError> {
        let quantizer = Quantizer::new(Norm::L2, clip_norm, grid).map_err(|e| CuratorError::Noise(e.to_string()))?;
        Ok(Self { objective, quantizer })
    }

    /// Another objective's gradients, clipped to the same norm on the same grid.
    pub(crate) fn with<P>(&self, objective: P) -> Clipped<P> {
        Clipped { objective, quantizer: self.quantizer }
    }

    /// The objective whose gradients are clipped.
    pub fn objective(&self) -> &O {
        &self.objective
    }

    /// The l2 clip norm C.
    pub fn clip_norm(&self) -> f64 {
        self.quantizer.clip_norm()
    }

    /// How a gradient is clipped.
    pub(crate) fn quantizer(&self) -> &Quantizer {
        &self.quantizer
    }

    /// What the integers are multiples of.
    pub fn grid(&self) -> Grid {
        self.quantizer.grid()
    }

    /// Σ clip(∇φ_i(x)) over all records.
    ///
    /// # Panics
    /// If `x` has not as many entries as the objective has dimensions.
    pub fn sum<R>(&self, records: &Sensitive<R>, x: &[f64]) -> Sensitive<GridSum>
    where
        R: RecordSet<Error = Infallible>,
        O: Objective<R>,
    {
        let records = records.expose();
        let Ok(quanta) = self.add_up(records, x, records.len(), |i| i);
        Sensitive::new(self.grid_sum(quanta, None))
    }

    /// Sums the clipped gradients of the records in `batch` at `x`; consumes the batch.
    ///
    /// # Panics
    /// As [`sum`](Self::sum).
    pub fn sum_batch<R>(&self, records: &Sensitive<R>, batch: Batch, x: &[f64]) -> Sensitive<GridSum>
    where
        R: RecordSet<Error = Infallible>,
        O: Objective<R>,
    {
        let sampled = batch.records();
        let Ok(quanta) = self.add_up(records.expose(), x, sampled.len(), |i| sampled[i] as usize);
        Sensitive::new(self.grid_sum(quanta, Some(batch.id())))
    }

    /// Sums the clipped gradients at `x` of all records or of those in a batch, in memory, on disk or remote.
    ///
    /// # Errors
    /// If a record can't be read.
    ///
    /// # Panics
    /// As [`sum`](Self::sum).
    pub fn sum_of<R: RecordSet>(
        &self,
        records: &Sensitive<R>,
        batch: Option<Batch>,
        x: &[f64],
    ) -> Result<Sensitive<GridSum>, ReadError>
    where
        O: Objective<R>,
    {
        let records = records.expose();
        let (clip_norm, grid) = (self.clip_norm(), self.grid().exponent());
        let gradients = |of, sample| AggregateQuery::Gradients { of, clip_norm, grid, sample }.at(x);
        let width = self.objective.dimension();
        let told = match (&batch, self.objective.spec()) {
            (None, Some(of)) => records.ask(&mut || gradients(of.clone(), None), width),
            (Some(batch), Some(of)) => batch.told().filter(|told| told.2 == records.len() as u64).and_then(|told| {
                let sample = |firsts: &[u64]| Sample::new(told, firsts);
                records.ask_sample(&mut |firsts| gradients(of.clone(), Some(sample(firsts))), width)
            }),
            (_, None) => None,
        };
        let of_others = batch.as_ref().is_some_and(|batch| batch.told().is_some());
        if told.is_none() && (of_others || records.is_remote()) {
            return Err(PartitionsError::Single.into());
        }
        let quanta = match (told, &batch) {
            (Some(told), _) => told,
            (None, None) => self.add_up(records, x, records.len(), |i| i),
            (None, Some(batch)) => self.add_up(records, x, batch.records().len(), |i| batch.records()[i] as usize),
        };
        Ok(Sensitive::new(self.grid_sum(quanta.map_err(Into::into)?, batch.as_ref().map(Batch::id))))
    }

    fn grid_sum(&self, quanta: Vec<i64>, batch: Option<BatchId>) -> GridSum {
        GridSum { quanta, grid: self.grid(), clip_norm: self.clip_norm(), batch }
    }

    /// The integer sum over a range of records.
    pub(crate) fn sum_range<R: RecordSet>(
        &self,
        records: &Sensitive<R>,
        range: Range<usize>,
        x: &[f64],
    ) -> Result<Vec<i64>, R::Error>
    where
        O: Objective<R>,
    {
        self.add_up(records.expose(), x, range.len(), |i| range.start + i)
    }

    /// The integer sum over `count` records, the i-th of which is `record(i)`.
    #[doc(hidden)]
    pub fn add_up<R: RecordSet>(
        &self,
        records: &R,
        x: &[f64],
        count: usize,
        record: impl Fn(usize) -> usize + Sync,
    ) -> Result<Vec<i64>, R::Error>
    where
        O: Objective<R>,
    {
        let dimension = self.objective.dimension();
        assert_eq!(x.len(), dimension, "a point has one entry per dimension");
        add_up(count, dimension, GRAIN, |range| {
            let mut weights = Dense { x, sum: vec![0i64; dimension], bound: self.quantizer.bound() };
            let mut scratch = Scratch::default();
            // a batch of more records than there are finds nothing beyond them, and nothing shows it
            for i in paced(range.map(&record).filter(|&i| i < records.len())) {
                self.add_record(records, i, &mut weights, &mut scratch)?;
            }
            Ok(weights.sum)
        })
    }

    /// The sum over some records as its touched coordinates, increasing: in time and memory of what they touch.
    #[doc(hidden)]
    pub fn touched<R: RecordSet>(
        &self,
        records: &R,
        point: impl Point,
        which: impl Iterator<Item = usize>,
    ) -> Result<Vec<(usize, i64)>, R::Error>
    where
        O: Objective<R>,
    {
        let (mut touched, mut scratch) = (Touched::at(point), Scratch::default());
        for i in paced(which.filter(|&i| i < records.len())) {
            self.add_record(records, i, &mut touched, &mut scratch)?;
        }
        Ok(touched.entries())
    }

    /// Reads what the gradient of record i needs, and adds its clipped integers: at most C in l2 norm, whatever the objective put.
    #[doc(hidden)]
    #[inline]
    pub fn add_record<R: RecordSet, W: Weights>(
        &self,
        records: &R,
        i: usize,
        weights: &mut W,
        scratch: &mut Scratch<O::Scratch>,
    ) -> Result<(), R::Error>
    where
        O: Objective<R>,
    {
        let dimension = self.objective.dimension();
        let Scratch { objective, quanta } = scratch;
        weights.next_record();
        match self.objective.gradient(weights, records, i, objective)? {
            Gradient::Zero => {}
            // a column beyond its line would add up with one of the next line
            Gradient::Outer { slope, width, row } => {
                if !row.fits(width) || slope.len().saturating_mul(width) > dimension {
                    return Ok(());
                }
                match slope {
                    [c] => self.add_row(*c, width, row, weights),
                    _ => self.add_outer(slope, width, row, weights),
                }
            }
            Gradient::Entries { places, values } => self.add_entries(places, values, dimension, quanta, weights),
            Gradient::Dense(values) => {
                // a longer vector is cut, so that what is clipped is what is summed
                let most = values.len().min(dimension);
                match self.quantizer.factor_off_the_norm(&values[..most]) {
                    Some(factor) => weights.add_vector(&values[..most], factor),
                    None => {
                        self.quantizer.quantize(&mut values[..most], quanta);
                        quanta.iter().enumerate().filter(|(_, z)| **z != 0).for_each(|(at, &z)| weights.add(at, z));
                    }
                }
            }
        }
        Ok(())
    }

    /// clip(c·row): columns are all different, so the factor's proof applies (see [`Quantizer::row_factor`]).
    #[inline]
    fn add_row<W: Weights>(&self, c: f64, width: usize, row: Row<'_>, weights: &mut W) {
        if let Some(factor) = self.quantizer.row_factor(c, row.values()) {
            weights.add_scaled(0, width, row, factor);
            return;
        }
        let mut values: Vec<f64> = row.values().iter().map(|&x| c * f64::from(x)).collect();
        let mut quanta = Vec::new();
        self.quantizer.quantize(&mut values, &mut quanta);
        row.columns().iter().zip(quanta).for_each(|(&j, z)| weights.add(j as usize, z));
    }

    /// slope ⊗ row with ‖slope‖·‖row‖ ≤ C. The factor leaves room for every rounding below (each product errs by at most
    /// three relative roundings, the two norms by (entries + 4)·2^-53 each), and truncation only shrinks.
    fn add_outer<W: Weights>(&self, slope: &[f64], width: usize, row: Row<'_>, weights: &mut W) {
        let values = row.values();
        let length = squared_norm(values).sqrt();
        let size = slope.iter().map(|c| c * c).sum::<f64>().sqrt();
        let room = 1.0 - (values.len() + slope.len() + 16) as f64 * f64::EPSILON;
        let norm = length * size;
        // a slope whose squares lose digits has no norm; on no grid of use has it an integer
        if size.is_nan() || size < 1e-150 || norm.is_nan() || norm == f64::INFINITY {
            return;
        }
        // in steps of the grid, so that the quotient is a normal number
        let per_unit = 1.0 / self.quantizer.grid().step();
        let limit = self.clip_norm() * per_unit * room;
        let factor = if norm * per_unit > limit { limit / norm } else { per_unit };
        weights.add_outer(slope, factor, width, row);
    }

    /// Entries at places that an objective named: only different places below the dimension have the norm of their vector.
    #[inline]
    fn add_entries<W: Weights>(
        &self,
        places: &[usize],
        values: &mut [f64],
        dimension: usize,
        quanta: &mut Vec<i64>,
        weights: &mut W,
    ) {
        let increasing = places.windows(2).fold(true, |all, pair| all & (pair[0] < pair[1]));
        if increasing && places.len() == values.len() && places.last().is_none_or(|&last| last < dimension) {
            self.add_vector(places.iter().copied(), values, quanta, weights);
            return;
        }
        let mut entries: Vec<(usize, f64)> = places.iter().copied().zip(values.iter().copied()).collect();
        entries.retain(|entry| entry.0 < dimension && entry.1.is_finite());
        merge_equal(&mut entries, |a, b| a + b);
        let mut values: Vec<f64> = entries.iter().map(|entry| entry.1).collect();
        self.add_vector(entries.iter().map(|entry| entry.0), &mut values, quanta, weights);
    }

    /// clip(values), at different places below the dimension.
    #[inline]
    fn add_vector<W: Weights>(
        &self,
        places: impl Iterator<Item = usize>,
        values: &mut [f64],
        quanta: &mut Vec<i64>,
        weights: &mut W,
    ) {
        match self.quantizer.vector_factor(values) {
            Some(factor) => places.zip(values.iter()).for_each(|(at, g)| weights.add(at, (factor * g) as i64)),
            None => {
                self.quantizer.quantize(values, quanta);
                places.zip(quanta.iter()).for_each(|(at, &z)| weights.add(at, z));
            }
        }
    }
}

/// Buffers for the gradient of one record.
#[derive(Default)]
pub struct Scratch<S> {
    pub(crate) objective: S,
    quanta: Vec<i64>,
}

/// Weights as a record sees them: some are read, then its clipped gradient is added to a sum of integers.
pub trait Weights: Point {
    /// What was scored belongs to another record from here on.
    #[inline]
    fn next_record(&mut self) {}
    /// Adds `units` steps of the grid to coordinate `at`.
    fn add(&mut self, at: usize, quanta: i64);
    /// Adds trunc(`scale`·value) per column of a line.
    #[inline]
    fn add_scaled(&mut self, line: usize, width: usize, row: Row<'_>, scale: f64) {
        for (&j, &x) in row.columns().iter().zip(row.values()) {
            self.add(line * width + j as usize, (scale * f64::from(x)) as i64);
        }
    }
    /// Adds trunc(`factor`·value) to the coordinates from the first on. What the record did not read it does not touch, because lazy noise has a place for what was
    /// read only: nothing is added where the integer is 0.
    #[inline]
    fn add_vector(&mut self, values: &[f64], factor: f64) {
        let quanta = values.iter().map(|v| (factor * v) as i64).enumerate();
        quanta.filter(|(_, z)| *z != 0).for_each(|(at, z)| self.add(at, z));
    }
    /// Adds trunc(`slope`·`factor`·value) per column, a line for each entry of the slope.
    #[inline]
    fn add_outer(&mut self, slope: &[f64], factor: f64, width: usize, row: Row<'_>) {
        for (line, &c) in slope.iter().enumerate() {
            self.add_scaled(line, width, row, c * factor);
        }
    }
}

/// A point in memory and a sum of all coordinates.
struct Dense<'a> {
    x: &'a [f64],
    sum: Vec<i64>,
    /// More than the size of a scaled entry of a clipped row.
    bound: f64,
}

impl Point for Dense<'_> {
    #[inline]
    fn read(&mut self, at: usize) -> f64 {
        self.x[at]
    }

    #[inline]
    fn score(&mut self, line: usize, width: usize, row: Row<'_>) -> f64 {
        self.x.score(line, width, row)
    }

    #[inline]
    fn scores(&mut self, scores: &mut [f64], width: usize, row: Row<'_>) {
        self.x.scores(scores, width, row);
    }

    fn whole<'a>(&'a mut self, _: usize, _: &'a mut Vec<f64>) -> &'a [f64] {
        self.x
    }
}

impl Weights for Dense<'_> {
    #[inline]
    fn add(&mut self, at: usize, quanta: i64) {
        let cell = &mut self.sum[at];
        *cell = cell.wrapping_add(quanta);
    }

    #[inline]
    fn add_scaled(&mut self, line: usize, width: usize, row: Row<'_>, scale: f64) {
        let line = &mut self.sum[line * width..(line + 1) * width];
        if row.fills(width) {
            add_truncated(row.values(), scale, self.bound, line);
            return;
        }
        for (&j, &x) in row.columns().iter().zip(row.values()) {
            let cell = &mut line[j as usize];
            *cell = cell.wrapping_add((scale * f64::from(x)) as i64);
        }
    }

    #[inline]
    fn add_vector(&mut self, values: &[f64], factor: f64) {
        add_truncated_of(values, factor, self.bound, &mut self.sum);
    }

    #[inline]
    fn add_outer(&mut self, slope: &[f64], factor: f64, width: usize, row: Row<'_>) {
        if row.fills(width) {
            add_truncated_lines(row.values(), slope, factor, self.bound, &mut self.sum[..slope.len() * width]);
            return;
        }
        for (line, &c) in slope.iter().enumerate() {
            self.add_scaled(line, width, row, c * factor);
        }
    }
}

/// Any point, and the sum's entries in the order of the records; merged whenever they have doubled.
pub struct Touched<P> {
    point: P,
    entries: Vec<(usize, i64)>,
    /// Number of entries after the last merge.
    merged: usize,
}

impl<P> Touched<P> {
    /// Begins at `point`, without entries.
    pub fn at(point: P) -> Self {
        Self { point, entries: Vec::new(), merged: 0 }
    }

    /// The merged entries as (place, sum), places increasing.
    pub fn entries(mut self) -> Vec<(usize, i64)> {
        self.merge();
        self.entries
    }

    /// Sorts the entries by place, and adds up those of one place.
    fn merge(&mut self) {
        merge_equal(&mut self.entries, i64::wrapping_add);
        self.merged = self.entries.len();
    }
}

impl<P: Point> Point for Touched<P> {
    #[inline]
    fn read(&mut self, at: usize) -> f64 {
        self.point.read(at)
    }

    #[inline]
    fn score(&mut self, line: usize, width: usize, row: Row<'_>) -> f64 {
        self.point.score(line, width, row)
    }
}

impl<P: Point> Weights for Touched<P> {
    #[inline]
    fn add(&mut self, at: usize, quanta: i64) {
        if self.entries.len() >= 2 * self.merged + (1 << 16) {
            self.merge();
        }
        self.entries.push((at, quanta));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_objective::objective::Closures;
    use proptest::prelude::*;

    /// Puts whatever a record says, in the form it says.
    struct Says(usize);

    #[derive(Clone, Debug)]
    enum Reply {
        Outer(Vec<f64>, usize, Vec<u32>, Vec<f32>),
        Entries(Vec<usize>, Vec<f64>),
        Dense(Vec<f64>),
    }

    impl Objective<Vec<Reply>> for Says {
        type Scratch = Vec<f64>;

        fn dimension(&self) -> usize {
            self.0
        }

        fn value(&self, _: &[f64], _: &Vec<Reply>, _: usize, _: &mut Vec<f64>) -> Result<f64, Infallible> {
            Ok(0.0)
        }

        fn gradient<'a>(
            &self,
            _: &mut impl Point,
            said: &'a Vec<Reply>,
            i: usize,
            scratch: &'a mut Vec<f64>,
        ) -> Result<Gradient<'a>, Infallible> {
            scratch.clear();
            Ok(match &said[i] {
                Reply::Outer(slope, width, columns, values) => match Row::new(columns, values) {
                    Some(row) => Gradient::Outer { slope, width: *width, row },
                    None => Gradient::Zero,
                },
                Reply::Entries(places, values) => {
                    scratch.extend(values);
                    Gradient::Entries { places, values: scratch }
                }
                Reply::Dense(values) => {
                    scratch.extend(values);
                    Gradient::Dense(scratch)
                }
            })
        }
    }

    fn number() -> impl Strategy<Value = f64> {
        prop_oneof![
            8 => -10.0..10.0,
            1 => prop::num::f64::ANY,
            1 => prop::sample::select(vec![0.0, -0.0, f64::NAN, f64::INFINITY, f64::MAX, 1e-310, 1e155]),
        ]
    }

    fn said() -> impl Strategy<Value = Reply> {
        let numbers = |most| prop::collection::vec(number(), 0..most);
        prop_oneof![
            (numbers(4), 0..9usize, prop::collection::btree_set(0..12u32, 0..8), numbers(12)).prop_map(
                |(s, w, c, v)| {
                    let columns: Vec<u32> = c.into_iter().collect();
                    let values = (0..columns.len()).map(|k| v.get(k).copied().unwrap_or(1.0) as f32).collect();
                    Reply::Outer(s, w, columns, values)
                }
            ),
            (prop::collection::vec(0..14usize, 0..20), numbers(20)).prop_map(|(p, v)| Reply::Entries(p, v)),
            numbers(20).prop_map(Reply::Dense),
        ]
    }

    proptest! {
        #[test]
        fn one_record_moves_the_sum_by_at_most_c_whatever_is_put(said in said(), clip_norm in 0.01..10.0f64) {
            let clipped = Clipped::new(Says(12), clip_norm, Grid::new(-30)).unwrap();
            let records = vec![said];
            let sum = clipped.sum(&Sensitive::new(records.clone()), &[0.0; 12]);
            let quanta = sum.expose().quanta();
            prop_assert_eq!(quanta.len(), 12);
            // (C/γ)² from the exact value of C: products of 53-bit numbers with 2^30 are exact in u128 after rounding down
            let limit = (clip_norm * 2f64.powi(30)).powi(2) * (1.0 + 4.0 * f64::EPSILON);
            let squared: u128 = quanta.iter().map(|z| u128::from(z.unsigned_abs()).pow(2)).sum();
            prop_assert!(squared as f64 <= limit, "{:?}: {} against {}", records, squared, limit);
            // touched coordinates are the same sum
            let Ok(touched) = clipped.touched(&records, &[0.0f64; 12][..], 0..1);
            let mut again = vec![0; 12];
            touched.iter().for_each(|&(at, z)| again[at] = z);
            prop_assert_eq!(&again, quanta);
            prop_assert!(touched.windows(2).all(|pair| pair[0].0 < pair[1].0));
        }

        #[test]
        fn what_needs_no_clip_is_summed_as_it_is(values in prop::collection::vec(-1.0..1.0f64, 12), order in 0..12usize) {
            let places: Vec<usize> = (0..12).map(|k| (k + order) % 12).collect();
            let turned: Vec<f64> = places.iter().map(|&at| values[at]).collect();
            let doubled = (places.iter().chain(&places).copied().collect(), turned.iter().chain(&turned).map(|v| v / 2.0).collect());
            let clipped = Clipped::new(Says(12), 100.0, Grid::new(-30)).unwrap();
            for said in [Reply::Dense(values.clone()), Reply::Entries(places, turned), Reply::Entries(doubled.0, doubled.1)] {
                let sum = clipped.sum(&Sensitive::new(vec![said]), &[0.0; 12]);
                for (z, v) in sum.expose().quanta().iter().zip(&values) {
                    prop_assert!((*z as f64 * 2f64.powi(-30) - v).abs() < 2f64.powi(-29));
                }
            }
        }
    }

    /// Slopes whose squares lose digits, and factors that would: on a grid so fine that their integers are not 0.
    #[test]
    fn several_outputs_move_the_sum_by_at_most_c_at_the_ends_of_floats() {
        let grid = Grid::new(-400);
        let tiny = 2f64.powi(-528) * 1.000_000_952;
        let long = f32::MAX / 1.000_001;
        for (slope, row, clip_norm) in [
            (vec![tiny, tiny], vec![long, long], 1.999_998 * 2f64.powi(-400)),
            (vec![1.957_3 * 2f64.powi(510), 0.0], vec![1.909_8 * 2f32.powi(126)], 1.999_999 * 2f64.powi(-401)),
            (vec![1e-180, 1e-150], vec![1.0], 1.5 * 2f64.powi(-400)),
        ] {
            let columns = (0..row.len() as u32).collect();
            let width = row.len();
            let Ok(clipped) = Clipped::new(Says(slope.len() * width), clip_norm, grid) else { continue };
            let sum = clipped.sum(
                &Sensitive::new(vec![Reply::Outer(slope, width, columns, row)]),
                &vec![0.0; clipped.objective().0],
            );
            let squared: u128 = sum.expose().quanta().iter().map(|z| u128::from(z.unsigned_abs()).pow(2)).sum();
            // C/γ is below 2, so that its square is below 4
            let limit = (clip_norm * 2f64.powi(400)).powi(2);
            assert!(squared as f64 <= limit, "{squared} against {limit}");
        }
    }

    #[test]
    fn closures_see_the_point_and_their_record() {
        let objective = Closures::new(
            2,
            |x: &[f64], a: &f64| a * x[0],
            |x: &[f64], a: &f64, g: &mut [f64]| {
                g[0] = *a;
                g[1] = x[1];
            },
        );
        let clipped = Clipped::new(objective, 100.0, Grid::new(-20)).unwrap();
        let sum = clipped.sum(&Sensitive::new(vec![1.5, -4.0, 8.0]), &[9.0, 0.25]);
        assert_eq!(sum.expose().quanta(), [11 << 19, 3 << 18]); // 5.5 and 0.75 in steps of 2^-20
    }

    #[test]
    fn a_unit_moves_the_sum_by_the_clip_norm_however_many_rows_it_has() {
        use dpopt_objective::loss::Loss;
        use dpopt_objective::objective::{Linear, OfUnits};
        use dpopt_objective::records::{Examples, Owners, Rows, Units};
        // unit 1 has most rows, all alike and far from their targets; its rows with other units' in between
        let table = |present: bool| {
            let (mut rows, mut targets, mut owners) = (Rows::new(3), Vec::new(), Vec::new());
            for j in 0..400u32 {
                let mut row = if j % 4 == 0 { vec![(0, 1.0)] } else { vec![(1, 0.6), (2, 0.8)] };
                let owner = if j % 4 == 0 { 0 } else { 1 };
                if present || owner == 0 {
                    rows.push_clipped(&mut row, 1.0);
                    targets.push(if owner == 0 { 0.1 } else { 1.0 });
                    owners.push(owner);
                }
            }
            Units::new(Examples { rows, targets }, &Owners { of_row: owners, units: 2 }).unwrap()
        };
        let clip_norm = 0.5;
        let clipped =
            Clipped::new(OfUnits::new(Linear::new(Loss::Squared, 3, 1.0)), clip_norm, Grid::new(-30)).unwrap();
        let weights = [0.0, -2.0, -2.0];
        let sum = |present| clipped.sum(&Sensitive::new(table(present)), &weights).expose().quanta().to_vec();
        let (with, without) = (sum(true), sum(false));
        let moved =
            with.iter().zip(&without).map(|(a, b)| ((a - b) as f64).powi(2)).sum::<f64>().sqrt() * 2f64.powi(-30);
        assert!(moved <= clip_norm && moved > 0.999 * clip_norm, "{moved}");
        // row by row the same person moves it by three hundred clip norms
        let by_row = Clipped::new(Linear::new(Loss::Squared, 3, 1.0), clip_norm, Grid::new(-30)).unwrap();
        let row_sum =
            |present| by_row.sum(&Sensitive::new(table(present).rows().clone()), &weights).expose().quanta().to_vec();
        let (with, without) = (row_sum(true), row_sum(false));
        let moved =
            with.iter().zip(&without).map(|(a, b)| ((a - b) as f64).powi(2)).sum::<f64>().sqrt() * 2f64.powi(-30);
        assert!((moved / clip_norm - 300.0).abs() < 1.0, "{moved}");
    }
}
