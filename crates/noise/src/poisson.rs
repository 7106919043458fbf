//! Poisson sampling: each of n records enters with probability q exactly, in time proportional to the batch.
//!
//! The gaps between chosen records are geometric with ratio 1−q, see [`Geometric`].
use crate::geometric::{Geometric, one_minus};
use crate::stream::Stream;
use dpopt_process::stop::Pace;
use rand::Rng as _;
use std::ops::Range;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// Numbers that share a stream where a key decides the subset: a holder of a few of them draws for so many at most.
const BLOCK: u64 = 1 << 14;

/// A sampling probability that can't be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the sampling probability must be 0, 1 or between 2^-40 and 1")]
pub struct ProbabilityError;

/// Random subsets of 0..n in which each record is, independently, with probability q. Keep the subset secret:
/// amplification by sampling rests on it.
///
/// ```
/// use dpopt_noise::{NoiseSource, PoissonSkips, Purpose};
/// let skips = PoissonSkips::new(0.01)?;
/// let mut batch = Vec::new();
/// skips.subset(100_000, &mut NoiseSource::insecure(1).stream(Purpose::Batch, 0), &mut batch);
/// assert!((800..1200).contains(&batch.len()) && batch.is_sorted());
/// # Ok::<(), dpopt_noise::ProbabilityError>(())
/// ```
#[derive(Clone, Debug)]
pub struct PoissonSkips {
    probability: f64,
    /// Records skipped between two chosen ones; `None` if q is 0 or 1.
    gap: Option<Geometric>,
}

impl PoissonSkips {
    /// Records enter with probability `probability`, taken as the exact value of the f64.
    ///
    /// # Errors
    /// If it is not 0, 1 or in \[2^-40, 1\].
    pub fn new(probability: f64) -> Result<Self, ProbabilityError> {
        if !(probability == 0.0 || (2f64.powi(-40)..=1.0).contains(&probability)) {
            return Err(ProbabilityError);
        }
        let proper = probability > 0.0 && probability < 1.0;
        Ok(Self { probability, gap: proper.then(|| Geometric::from_ratio(one_minus(probability))) })
    }

    /// The sampling probability q.
    pub fn probability(&self) -> f64 {
        self.probability
    }

    /// Upper bound on the total-variation distance of one subset of 0..`records` from the exact law: every comparison
    /// errs with probability below 2^-250, and there are at most 41 + n comparisons per chosen record.
    pub fn total_variation(records: u64) -> f64 {
        let n = records as f64;
        (n + 1.0) * (n + 64.0) * 2f64.powi(-250)
    }

    /// Replaces `out` by the chosen records among 0..`records`, in increasing order.
    pub fn subset(&self, records: u64, stream: &mut Stream, out: &mut Vec<u64>) {
        out.clear();
        let Some(gap) = &self.gap else {
            if self.probability == 1.0 {
                out.extend(0..records);
            }
            return;
        };
        let (mut next, mut pace) = (0, Pace::default());
        while let Some(skipped) = gap.sample_below(records - next, stream) {
            pace.step();
            out.push(next + skipped);
            next += skipped + 1;
        }
    }
}

/// The key of one subset of 0..n where several places hold the records: each place that has the key finds the same records chosen, among its own and as often as it
/// likes, and without the key the subset is as random as its 32 bytes. **As secret as the subset**, and for one subset.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct SubsetKey([u8; 32]);

impl SubsetKey {
    /// A fresh key, drawn from `stream`.
    pub fn drawn(stream: &mut Stream) -> Self {
        let mut key = Self([0; 32]);
        stream.fill_bytes(&mut key.0);
        key
    }

    /// The key that these bytes are.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The key's bytes, for those who hold records.
    pub fn bytes(&self) -> [u8; 32] {
        self.0
    }

    /// The bits of one block of numbers.
    fn of_block(&self, block: u64) -> Stream {
        let mut hash = blake3::Hasher::new_keyed(&self.0);
        hash.update(&block.to_le_bytes());
        let stream = Stream::secure(&mut hash.finalize().into());
        hash.zeroize();
        stream
    }
}

impl PoissonSkips {
    /// Replaces `out` by the records of `within` that are in the subset of 0..`records` which `key` decides, in increasing order: the same ones however 0..`records`
    /// is divided into ranges. [`total_variation`](Self::total_variation) bounds the law of the whole subset, drawn block by block.
    ///
    /// ```
    /// use dpopt_noise::{NoiseSource, PoissonSkips, Purpose, SubsetKey};
    /// let skips = PoissonSkips::new(0.1)?;
    /// let key = SubsetKey::drawn(&mut NoiseSource::insecure(1).stream(Purpose::Batch, 0));
    /// let within = |range| {
    ///     let mut chosen = Vec::new();
    ///     skips.subset_within(&key, 100_000, range, &mut chosen);
    ///     chosen
    /// };
    /// assert_eq!([within(0..70_000), within(70_000..100_000)].concat(), within(0..100_000));
    /// # Ok::<(), dpopt_noise::ProbabilityError>(())
    /// ```
    pub fn subset_within(&self, key: &SubsetKey, records: u64, within: Range<u64>, out: &mut Vec<u64>) {
        out.clear();
        let within = within.start..within.end.min(records);
        if within.is_empty() {
            return;
        }
        let mut chosen = Vec::new();
        for block in within.start / BLOCK..=(within.end - 1) / BLOCK {
            let first = block * BLOCK;
            self.subset(BLOCK.min(records - first), &mut key.of_block(block), &mut chosen);
            out.extend(chosen.iter().map(|at| first + at).filter(|i| within.contains(i)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NoiseSource, Purpose};
    use proptest::prelude::*;

    fn key(seed: u64) -> SubsetKey {
        SubsetKey::drawn(&mut NoiseSource::insecure(seed).stream(Purpose::Batch, 0))
    }

    fn within(key: &SubsetKey, q: f64, records: u64, range: Range<u64>) -> Vec<u64> {
        let mut chosen = vec![7];
        PoissonSkips::new(q).unwrap().subset_within(key, records, range, &mut chosen);
        chosen
    }

    proptest! {
        #[test]
        fn a_key_chooses_the_same_records_however_they_are_divided(
            seed: u64, records in 0..200_000u64, cuts in prop::collection::vec(0..210_000u64, 0..6), q in prop::sample::select(vec![0.0, 0.001, 0.3, 1.0]),
        ) {
            let key = key(seed);
            let mut ends = [cuts, vec![0, 210_000]].concat();
            ends.sort_unstable();
            let parts: Vec<u64> = ends.windows(2).flat_map(|pair| within(&key, q, records, pair[0]..pair[1])).collect();
            let whole = within(&key, q, records, 0..records);
            prop_assert_eq!(&parts, &whole);
            prop_assert!(whole.is_sorted_by(|a, b| a < b) && whole.last().is_none_or(|&last| last < records));
            prop_assert_eq!(whole, within(&SubsetKey::from_bytes(key.bytes()), q, records, 0..records));
        }
    }

    #[test]
    fn by_a_key_too_every_record_enters_with_probability_q_independently() {
        // the two records at the seam of two blocks, and those at one place of them
        for (first, second) in [(BLOCK - 1, BLOCK), (5, BLOCK + 5)] {
            let (q, runs) = (0.05, 20_000);
            let mut counts = [0.0; 4];
            let mut source = NoiseSource::insecure(3);
            for step in 0..runs {
                let key = SubsetKey::drawn(&mut source.stream(Purpose::Batch, step));
                let is_in = |i: u64| usize::from(!within(&key, q, 2 * BLOCK, i..i + 1).is_empty());
                counts[is_in(first) + 2 * is_in(second)] += 1.0;
            }
            crate::tests::assert_multinomial(&counts, |set| {
                let k = set.count_ones() as i32;
                q.powi(k) * (1.0 - q).powi(2 - k)
            });
        }
    }

    #[test]
    fn bad_probabilities_are_refused() {
        for bad in [-0.1, 1.1, f64::NAN, 1e-20] {
            assert!(PoissonSkips::new(bad).is_err());
        }
    }

    #[test]
    fn extremes() {
        let mut stream = NoiseSource::insecure(1).stream(Purpose::Batch, 0);
        let mut batch = vec![7];
        PoissonSkips::new(0.0).unwrap().subset(10, &mut stream, &mut batch);
        assert!(batch.is_empty());
        PoissonSkips::new(1.0).unwrap().subset(3, &mut stream, &mut batch);
        assert_eq!(batch, [0, 1, 2]);
        PoissonSkips::new(0.5).unwrap().subset(0, &mut stream, &mut batch);
        assert!(batch.is_empty());
        PoissonSkips::new(2f64.powi(-40)).unwrap().subset(5, &mut stream, &mut batch);
        assert!(batch.len() <= 5);
    }

    #[test]
    fn every_record_enters_with_probability_q_independently() {
        let mut stream = NoiseSource::insecure(2).stream(Purpose::Batch, 0);
        for q in [0.003, 0.1, 0.5, 0.9] {
            let skips = PoissonSkips::new(q).unwrap();
            let (n, runs) = (8u64, 100_000u32);
            let mut counts = [0u32; 256];
            let mut batch = Vec::new();
            for _ in 0..runs {
                skips.subset(n, &mut stream, &mut batch);
                counts[batch.iter().fold(0usize, |set, &i| set | 1 << i)] += 1;
            }
            // all 256 subsets
            let counts: Vec<f64> = counts.iter().map(|&c| f64::from(c)).collect();
            crate::tests::assert_multinomial(&counts, |set| {
                let k = set.count_ones() as i32;
                q.powi(k) * (1.0 - q).powi(8 - k)
            });
        }
    }
}
