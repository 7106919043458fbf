//! Poisson sampling: each of n records enters with probability q exactly, in time proportional to the batch (spec 19 §2).
//!
//! The gaps between chosen records are geometric with ratio 1−q, see [`Geometric`].
use crate::geometric::{Geometric, one_minus};
use crate::stream::Stream;

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

    /// q.
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
        let mut next = 0;
        while let Some(skipped) = gap.sample_below(records - next, stream) {
            out.push(next + skipped);
            next += skipped + 1;
        }
    }
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
