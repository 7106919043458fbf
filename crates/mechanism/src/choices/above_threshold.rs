//! Above-threshold: counts of a stream are compared with a threshold until enough of them were above (the sparse vector
//! technique; Lyu, Su and Li 2017, algorithm 7; docs/proofs/above-threshold.md).
//!
//! The noise of the threshold is drawn **once** and kept; each query gets fresh noise; the stream ends after `cutoff` answers
//! "above". Answers "below" are then free, however many there are. Published variants that break one of these rules are not
//! private at any ε, or cost a multiple; four of them are injected faults of the audits.
//!
//! Covers: thesis algorithm 27, algorithm 34 (certified: integer counts of any sensitivity, discrete noise)
//! Covers: thesis algorithm 41 (part: the same with several answers above; noise is not truncated, that of the threshold is drawn once)

use super::counts::Counts;
use dpopt_kernel::beside::{Expose, Sealed, Seen, opened, released};
use dpopt_kernel::{CuratorError, Interactive, InteractiveStart, Released, SamplerError, Sensitive};
use dpopt_noise::{DiscreteLaplace, Grid, Purpose, Stream};
use dpopt_privacy::{Event, Relation};
use dpopt_process::Process;
use std::sync::Arc;

/// log2 of the grid steps per unit of a count: noise scales are rounded up to a step.
const FINE: i32 = 20;

/// Answers of a stream at most: more than can ever be asked, and few enough to know how far their samplers are from the law.
const MAX_QUERIES: u64 = (1 << 53) - 2;

/// The public facts of a stream of comparisons. Event: `PureStream(ε)`.
///
/// ```
/// use dpopt_mechanism::AboveThreshold;
/// use dpopt_privacy::Relation;
/// // 100 counts, one of which each person moves by at most 1; stop at the third that is above
/// let plan = AboveThreshold::new(1.0, 1, 3, false, Relation::ZeroOut)?;
/// assert!((plan.threshold_scale() - 4.3019).abs() < 1e-4 && (plan.query_scale() - 7.8171).abs() < 1e-4);
/// # Ok::<(), dpopt_mechanism::CuratorError>(())
/// ```
#[derive(Clone, Debug)]
pub struct AboveThreshold {
    epsilon: f64,
    sensitivity: u64,
    pub(crate) cutoff: u64,
    scales: Scales,
    relation: Relation,
    /// Samplers of the threshold's and of a query's noise: their tables take longer to compute than a draw.
    samplers: Arc<[DiscreteLaplace; 2]>,
}

/// Laplace scales of the two noises, in units of the counts.
#[derive(Clone, Copy, Debug)]
struct Scales {
    threshold: f64,
    query: f64,
}

impl AboveThreshold {
    /// All answers together are `epsilon`-DP, if one record's presence moves each count by at most `sensitivity` and the
    /// stream ends at the `cutoff`-th answer "above". `monotone`: a record moves all counts in the same direction, which
    /// halves the noise of the queries; never under replace-one.
    ///
    /// ε is split 1 : (2·cutoff)^⅔ between threshold and queries (cutoff^⅔ if monotone), which makes the variance of a
    /// comparison least.
    ///
    /// # Errors
    /// If a number is out of range, or `monotone` is asked for under replace-one.
    pub fn new(
        epsilon: f64,
        sensitivity: u64,
        cutoff: u64,
        monotone: bool,
        relation: Relation,
    ) -> Result<Self, CuratorError> {
        if !(epsilon > 0.0 && epsilon.is_finite()) || sensitivity == 0 || cutoff == 0 {
            return Err(CuratorError::Noise(
                "above-threshold needs epsilon > 0, sensitivity >= 1 and cutoff >= 1".into(),
            ));
        }
        if monotone && relation == Relation::ReplaceOne {
            return Err(CuratorError::Noise(
                "under replace-one a record can lower one count and raise another, so that counts are not monotone; \
                 use monotone = false"
                    .into(),
            ));
        }
        let moved = relation.sum_sensitivity() * sensitivity as f64;
        let charged = if monotone { cutoff as f64 } else { 2.0 * cutoff as f64 };
        // three roundings below 2^-52 each can't exceed what is held back
        let usable = epsilon * (1.0 - 1e-12);
        let share = charged.powf(2.0 / 3.0);
        let threshold = usable / (1.0 + share);
        let scales = Scales { threshold: moved / threshold, query: charged * moved / (usable - threshold) };
        let sampler = |scale| {
            DiscreteLaplace::at_least(scale, Grid::new(-FINE))
                .map_err(|_| CuratorError::Noise("the noise of above-threshold is out of range; raise epsilon".into()))
        };
        let samplers = Arc::new([sampler(scales.threshold)?, sampler(scales.query)?]);
        Ok(Self { epsilon, sensitivity, cutoff, scales, relation, samplers })
    }

    /// Laplace scale of the noise of the threshold, in counts.
    pub fn threshold_scale(&self) -> f64 {
        self.scales.threshold
    }

    /// Laplace scale of the noise of each query, in counts.
    pub fn query_scale(&self) -> f64 {
        self.scales.query
    }
}

impl Sealed for AboveThreshold {}

impl Interactive for AboveThreshold {
    type Opened = Comparisons;

    /// ε-DP however many counts are asked for.
    fn event(&self) -> Event {
        Event::PureStream { epsilon: self.epsilon }
    }

    fn sampler_error(&self) -> Result<f64, CuratorError> {
        // of as many queries as a stream answers at most, and the threshold
        Ok(SamplerError::fine(MAX_QUERIES as f64 + 1.0).total_variation())
    }

    fn relation(&self) -> Option<Relation> {
        Some(self.relation)
    }

    fn label(&self) -> &'static str {
        "answers of above-threshold"
    }

    /// Draws the noise of the threshold.
    fn start(&self, opening: InteractiveStart<'_>) -> Result<Comparisons, CuratorError> {
        let opening = opened(opening);
        let mut noise = opening.noise.stream(Purpose::Selection, 0);
        let level = self.samplers[0].sample(&mut noise);
        Ok(Comparisons {
            sensitivity: self.sensitivity,
            level,
            samplers: Arc::clone(&self.samplers),
            left: self.cutoff,
            queries: MAX_QUERIES,
            noise,
            process: Process::here(),
            seen: opening.seen,
        })
    }
}

/// An open stream of comparisons; see [`Curator::open`](crate::Curator::open).
pub struct Comparisons {
    sensitivity: u64,
    samplers: Arc<[DiscreteLaplace; 2]>,
    /// Noise of the threshold in fine steps, secret until the end.
    level: i64,
    left: u64,
    /// Queries that may still come.
    queries: u64,
    noise: Stream,
    /// The process in which it was opened: a forked copy has the same threshold and the same noise to come.
    process: Process,
    /// What was released, where a test or an audit watches the curator.
    seen: Option<Seen>,
}

impl Comparisons {
    /// Whether the count, with noise, is at least `threshold`, with noise. Counts and thresholds may depend on all answers
    /// before.
    ///
    /// # Errors
    /// If this is a copy in a forked process, the stream has ended (after 2^53 answers at the latest), the input is not one count, or its sensitivity exceeds the planned one.
    pub fn is_above(&mut self, count: &Sensitive<Counts>, threshold: i64) -> Result<Released<bool>, CuratorError> {
        CuratorError::unless_opened_in(self.process, "stream of comparisons")?;
        if self.left == 0 || self.queries == 0 {
            return Err(CuratorError::Unforeseen { label: "answers of above-threshold" });
        }
        let count = count.expose().single(self.sensitivity as f64)?;
        let fine = |units: i64| i128::from(units) << FINE;
        let noisy = fine(count) + i128::from(self.samplers[1].sample(&mut self.noise));
        let above = noisy >= fine(threshold) + i128::from(self.level);
        self.left -= u64::from(above);
        self.queries -= 1;
        if let Some(seen) = &self.seen {
            seen.push(&[f64::from(u8::from(above))]);
        }
        Ok(released(above))
    }

    /// Answers "above" that may still come.
    pub fn left(&self) -> u64 {
        self.left
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_kernel::beside::uncharged;
    use dpopt_noise::NoiseSource;

    fn count(n: i64) -> Sensitive<Counts> {
        Counts::declared(vec![n], 1.0)
    }

    #[test]
    fn scales_are_those_of_the_theorem() {
        // c = 1: ε1 = 1/(1 + 2^⅔), scales 1/ε1 and 2/ε2
        let plan = |monotone, relation| AboveThreshold::new(1.0, 1, 1, monotone, relation).unwrap();
        let general = plan(false, Relation::ZeroOut);
        assert!(
            (general.threshold_scale() - 2.587_401).abs() < 1e-6 && (general.query_scale() - 3.259_921).abs() < 1e-6
        );
        let monotone = plan(true, Relation::ZeroOut);
        assert!((monotone.threshold_scale() - 2.0).abs() < 1e-9 && (monotone.query_scale() - 2.0).abs() < 1e-9);
        let replaced = plan(false, Relation::ReplaceOne);
        assert!((replaced.query_scale() / general.query_scale() - 2.0).abs() < 1e-12);
        // Δ/b1 + c·2Δ/b2 is ε and not more
        for cutoff in [1, 3, 50] {
            let plan = AboveThreshold::new(0.7, 2, cutoff, false, Relation::ZeroOut).unwrap();
            let spent = 2.0 / plan.threshold_scale() + cutoff as f64 * 2.0 * 2.0 / plan.query_scale();
            assert!(spent <= 0.7 && spent > 0.7 - 1e-11, "{spent}");
        }
        for bad in [
            AboveThreshold::new(0.0, 1, 1, false, Relation::ZeroOut),
            AboveThreshold::new(1.0, 0, 1, false, Relation::ZeroOut),
            AboveThreshold::new(1.0, 1, 0, false, Relation::ZeroOut),
            AboveThreshold::new(1e-12, 1, 1, false, Relation::ZeroOut),
            AboveThreshold::new(1.0, 1, 1, true, Relation::ReplaceOne),
        ] {
            assert!(matches!(bad, Err(CuratorError::Noise(_))));
        }
    }

    #[test]
    fn it_ends_after_the_cutoff_and_is_charged_once() {
        let plan = AboveThreshold::new(2.0, 1, 2, false, Relation::ZeroOut).unwrap();
        let mut curator = uncharged(&plan.event(), NoiseSource::insecure(4));
        let mut stream = curator.open(&plan).unwrap();
        assert!(curator.open(&plan).is_err() && curator.is_spent());
        stream.process = Process::another();
        assert!(matches!(stream.is_above(&count(0), 1000), Err(CuratorError::Copied { .. })));
        stream.process = Process::here();
        for _ in 0..50 {
            assert!(!stream.is_above(&count(0), 1000).unwrap().get());
        }
        assert!(stream.is_above(&count(5000), 1000).unwrap().get());
        assert_eq!(stream.left(), 1);
        assert!(matches!(stream.is_above(&Counts::declared(vec![1, 2], 1.0), 0), Err(CuratorError::Shape)));
        assert!(matches!(stream.is_above(&Counts::declared(vec![1], 2.0), 0), Err(CuratorError::Sensitivity { .. })));
        assert!(stream.is_above(&count(5000), 1000).unwrap().get());
        assert!(matches!(stream.is_above(&count(0), 1000), Err(CuratorError::Unforeseen { .. })));
    }

    #[test]
    fn the_law_of_an_answer_is_that_of_two_laplace_noises() {
        // P(ν − ρ ≥ t) for scales a ≠ b and t > 0: (b²e^{−t/b} − a²e^{−t/a})/(2(b² − a²)); 40 000 streams, five standard
        // deviations are a false alarm of 6e-7
        let plan = AboveThreshold::new(1.0, 1, 1, false, Relation::ZeroOut).unwrap();
        let (a, b, t) = (plan.threshold_scale(), plan.query_scale(), 4.0f64);
        let exact = (b * b * (-t / b).exp() - a * a * (-t / a).exp()) / (2.0 * (b * b - a * a));
        let n = 40_000;
        let above = (0..n)
            .filter(|&seed| {
                let mut curator = uncharged(&plan.event(), NoiseSource::insecure(seed));
                *curator.open(&plan).unwrap().is_above(&count(0), 4).unwrap().get()
            })
            .count();
        let spread = (exact * (1.0 - exact) * n as f64).sqrt();
        assert!((above as f64 - exact * n as f64).abs() < 5.0 * spread, "{above} against {}", exact * n as f64);
    }
}
