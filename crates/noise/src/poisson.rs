//! Poisson sampling: each of n records enters with probability q exactly, in time proportional to the batch (spec 19 §2).
//!
//! The gaps between chosen records are geometric with ratio 1−q. The binary digits of a geometric variable are
//! independent (digit i is 1 with probability p/(1+p), p = (1−q)^(2^i)), so a gap costs about log2(1/q) comparisons of
//! uniform words with tabulated 256-bit thresholds, and no logarithm.
use crate::fixed::Fixed;
use crate::lazy_uniform::LazyUniform;
use crate::stream::Stream;

/// A sampling probability that can't be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the sampling probability must be 0, 1 or between 2^-40 and 1")]
pub struct ProbabilityError;

/// Precision of the thresholds.
const L: usize = 6;
type Threshold = [u64; 4];

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
    /// P(digit i of a gap is 1), i = 0..h.
    digits: Vec<Threshold>,
    /// (1−q)^(2^h): a whole block of 2^h records is skipped.
    block: Threshold,
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
        let mut skips = Self { probability, digits: Vec::new(), block: [0; 4] };
        if probability > 0.0 && probability < 1.0 {
            let (mantissa, exponent) = crate::grid::dyadic(probability);
            // exact: q has at most 40 + 53 fraction bits
            let q = Fixed::<L>::negative_power_of_two(-exponent as usize).times_integer(mantissa);
            let one = Fixed::<L>::integer(1);
            let mut power = one.minus(&q);
            // each squaring doubles the relative error and adds a unit of 2^-320: after at most 40, below 2^-275
            while power.0[L - 2] > 1 << 63 {
                skips.digits.push(odds(&power));
                power = power.times_down(&power);
            }
            skips.block = top_words(&power);
        }
        Ok(skips)
    }

    /// q.
    pub fn probability(&self) -> f64 {
        self.probability
    }

    /// Upper bound on the total-variation distance of one subset of 0..`records` from the exact law: every comparison
    /// errs with probability below 2^-250, and there are at most 41 + n comparisons per chosen record.
    pub fn total_variation(&self, records: u64) -> f64 {
        let n = records as f64;
        (n + 1.0) * (n + 64.0) * 2f64.powi(-250)
    }

    /// Records skipped before the next chosen one, or `None` if there are at least `left` of them.
    #[inline]
    fn gap(&self, left: u64, stream: &mut Stream) -> Option<u64> {
        let mut gap = 0u64;
        let block = 1u64 << self.digits.len();
        while LazyUniform::below_threshold(stream, &self.block) {
            gap += block;
            if gap >= left {
                return None;
            }
        }
        for (i, digit) in self.digits.iter().enumerate() {
            gap += u64::from(LazyUniform::below_threshold(stream, digit)) << i;
        }
        (gap < left).then_some(gap)
    }

    /// Replaces `out` by the chosen records among 0..`records`, in increasing order.
    pub fn subset(&self, records: u64, stream: &mut Stream, out: &mut Vec<u64>) {
        out.clear();
        if self.probability == 0.0 {
            return;
        }
        if self.probability == 1.0 {
            out.extend(0..records);
            return;
        }
        let mut next = 0;
        while let Some(gap) = self.gap(records - next, stream) {
            out.push(next + gap);
            next += gap + 1;
        }
    }
}

/// p/(1+p) to 256 bits, rounded down, for p in [1/2, 1): by 1 − 1/(1+p), Newton-free long division on bits.
fn odds(p: &Fixed<L>) -> Threshold {
    let one_plus = Fixed::<L>::integer(1).plus(p);
    let mut rest = *p;
    let mut words = [0u64; 4];
    for bit in 0..256 {
        rest = rest.plus(&rest);
        if rest >= one_plus {
            rest = rest.minus(&one_plus);
            words[bit / 64] |= 1 << (63 - bit % 64);
        }
    }
    words
}

/// The first 256 fraction bits, most significant word first.
fn top_words(p: &Fixed<L>) -> Threshold {
    std::array::from_fn(|i| p.0[L - 2 - i])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NoiseSource, Purpose};

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
    fn thresholds() {
        // q = 1/4: p = 3/4, p/(1+p) = 3/7; next p = 9/16 → 9/25; then 81/256 is the block
        let skips = PoissonSkips::new(0.25).unwrap();
        let word = |x: f64| (x * 2f64.powi(64)) as u64;
        assert_eq!(skips.digits.len(), 2);
        assert!(skips.digits[0][0].abs_diff(word(3.0 / 7.0)) < 1 << 12);
        assert!(skips.digits[1][0].abs_diff(word(9.0 / 25.0)) < 1 << 12);
        assert_eq!(skips.block, [81 << 56, 0, 0, 0]);
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
            // all 256 subsets against q^k (1-q)^(8-k); rare ones pooled
            let (mut chi2, mut cells, mut pool_seen, mut pool_expected) = (0.0, 0.0, 0.0, 0.0);
            for (set, &count) in counts.iter().enumerate() {
                let k = set.count_ones() as i32;
                let expected = f64::from(runs) * q.powi(k) * (1.0 - q).powi(8 - k);
                if expected < 20.0 {
                    pool_seen += f64::from(count);
                    pool_expected += expected;
                } else {
                    chi2 += (f64::from(count) - expected).powi(2) / expected;
                    cells += 1.0;
                }
            }
            if pool_expected > 5.0 {
                chi2 += (pool_seen - pool_expected).powi(2) / pool_expected;
                cells += 1.0;
            }
            let df: f64 = cells - 1.0;
            // Laurent–Massart: false alarm below e^-15.2 = 2.5e-7 each, four tests
            let limit = df + 2.0 * (15.2 * df).sqrt() + 30.4;
            assert!(chi2 < limit, "q = {q}: chi-square {chi2} with {df} degrees of freedom");
        }
    }
}
