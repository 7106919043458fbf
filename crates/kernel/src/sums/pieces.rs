//! Sums of clipped f32 vectors that are given in pieces: gradients of neural networks (docs/proofs/gaussian-sum.md).

use super::contributions::add_up;
use dpopt_noise::Quantizer;
use dpopt_process::stop::paced;
use pulp::{Arch, Simd};
use std::convert::Infallible;
use std::ops::Range;

/// A sum of clipped f32 vectors that are given in pieces; see [`ClippedVectors::sum_batch_in_chunks`](crate::ClippedVectors::sum_batch_in_chunks).
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
    pub(super) fn fits(quantizer: &Quantizer, dimension: usize) -> bool {
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

/// Σ over `vectors` vectors that `make` adds in ranges of at most `chunk`, for a quantizer and a dimension that [fit](PieceSum::fits).
pub(super) fn add_up_pieces(
    quantizer: &Quantizer,
    vectors: usize,
    dimension: usize,
    chunk: usize,
    make: impl Fn(Range<usize>, &mut PieceSum) + Sync,
) -> Vec<i64> {
    let chunk = chunk.max(1);
    let Ok(quanta) = add_up(vectors, dimension, chunk, |part| {
        let mut sum = PieceSum::new(quantizer, dimension);
        for start in paced(part.clone().step_by(chunk)) {
            let range = start..(start + chunk).min(part.end);
            sum.awaited = range.len();
            make(range, &mut sum);
        }
        Ok::<_, Infallible>(sum.finished())
    });
    quanta
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClippedVectors, Curator, CuratorError};
    use dpopt_noise::{Grid, NoiseSource, Norm};
    use dpopt_privacy::Event;
    use proptest::prelude::*;

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
}
