//! The curator of a run: the only one that turns [`Sensitive`] into [`Released`].
//!
//! It holds the certified event as a list of allowances. A release whose event is not among the remaining ones is
//! refused, so that a run can never release more than its plan certified, whatever the algorithm's code does. It also
//! draws the Poisson batches itself: a release on a batch matches only allowances sampled with the same probability, and
//! each batch serves exactly one release.

use super::above_threshold::{AboveThreshold, Comparisons};
use super::batch::{BatchId, FixedBatch, PoissonBatch, Sampling};
use super::door::Mechanism;
use super::seen::Seen;
use super::stream::{GradientStream, StreamPlan};
use crate::refused::CuratorError;
use crate::{Released, Sensitive};
use dpopt_noise::{NoiseSource, PoissonSkips, Purpose, Stream};
use dpopt_privacy::{Certificate, Event};
use serde::Serialize;
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};

/// One line of a run's ledger.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReleaseRecord {
    /// What was released.
    pub label: &'static str,
    /// Its event.
    pub event: Event,
    /// How often.
    pub count: u64,
}

#[derive(Clone, PartialEq)]
struct Allowance {
    event: Event,
    remaining: u64,
}

/// Guards one run.
pub struct Curator {
    /// No other curator of the process has this number: it ties batches to the one that drew them.
    number: u64,
    allowances: Vec<Allowance>,
    noise: NoiseSource,
    records: Vec<ReleaseRecord>,
    batches: u64,
    unused: BTreeSet<u64>,
    /// Everything let out so far, if somebody watches: it is public, so keeping it shows nothing more.
    seen: Option<Seen>,
}

/// Kinds of releases that may alternate and still be counted in one line each.
const KINDS: usize = 64;

impl Curator {
    /// Opens a run for a certified event. A file ledger must have been charged before.
    pub fn open(certificate: &Certificate, noise: NoiseSource) -> Self {
        Self::for_event(certificate.event(), noise)
    }

    pub(crate) fn for_event(event: &Event, noise: NoiseSource) -> Self {
        let mut allowances = Vec::new();
        flatten(event, 1, &mut allowances);
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self { number, allowances, noise, records: Vec::new(), batches: 0, unused: BTreeSet::new(), seen: None }
    }

    /// A curator that also keeps what it lets out: the view of the strongest adversary that the event allows.
    pub(crate) fn watched(event: &Event, noise: NoiseSource) -> Self {
        Self { seen: Some(Seen::default()), ..Self::for_event(event, noise) }
    }

    /// The releases of a [watched](Self::watched) run, in order.
    pub(crate) fn seen(&self) -> Vec<Vec<f64>> {
        self.seen.as_ref().map_or(Vec::new(), Seen::all)
    }

    /// Draws a secret Poisson sample of `0..records` with `sampling_probability` for exactly one release.
    pub fn poisson_sample(&mut self, records: usize, sampling_probability: f64) -> Result<PoissonBatch, CuratorError> {
        let mut stream = self.noise.stream(Purpose::Batch, self.batches);
        let skips = PoissonSkips::new(sampling_probability).map_err(|e| CuratorError::Noise(e.to_string()))?;
        let mut chosen = Vec::new();
        skips.subset(records as u64, &mut stream, &mut chosen);
        Ok(PoissonBatch {
            id: self.next_batch(Sampling::Poisson { probability: sampling_probability }),
            records: chosen,
            drawn_here: true,
        })
    }

    /// Draws `size` of the records `0..records` without replacement, in random order, for exactly one release.
    ///
    /// # Errors
    /// If there are fewer records than asked for.
    pub fn fixed_sample(&mut self, records: usize, size: usize) -> Result<FixedBatch, CuratorError> {
        if size == 0 || size > records {
            return Err(CuratorError::Shape);
        }
        let mut stream = self.noise.stream(Purpose::Batch, self.batches);
        // the first `size` steps of Fisher and Yates, on the moved places only
        let mut moved: HashMap<u64, u64> = HashMap::with_capacity(2 * size);
        let chosen = (0..size as u64)
            .map(|i| {
                let j = i + stream.below(records as u64 - i);
                let at_j = moved.get(&j).copied().unwrap_or(j);
                let at_i = moved.get(&i).copied().unwrap_or(i);
                moved.insert(j, at_i);
                at_j
            })
            .collect();
        let sampling = Sampling::WithoutReplacement { records: records as u64, size: size as u64 };
        Ok(FixedBatch { id: self.next_batch(sampling), records: chosen })
    }

    fn next_batch(&mut self, sampling: Sampling) -> BatchId {
        let number = self.batches;
        self.batches += 1;
        self.unused.insert(number);
        BatchId { curator: self.number, number, sampling }
    }

    /// [`poisson_sample`](Self::poisson_sample) for a training loop outside this library, which has to load the records:
    /// the batch, and the indices of its records. **The indices are as secret as the records.**
    pub fn sample_for_loader(
        &mut self,
        records: usize,
        sampling_probability: f64,
    ) -> Result<(PoissonBatch, Vec<u64>), CuratorError> {
        let batch = self.poisson_sample(records, sampling_probability)?;
        let indices = batch.records.clone();
        Ok((batch, indices))
    }

    /// A batch that a loader outside this library drew. The caller vouches that each record entered it with
    /// `sampling_probability`, independently of everything else; the guarantee rests on that.
    pub fn sampled_elsewhere(&mut self, sampling_probability: f64) -> PoissonBatch {
        PoissonBatch {
            id: self.next_batch(Sampling::Poisson { probability: sampling_probability }),
            records: Vec::new(),
            drawn_here: false,
        }
    }

    /// Applies `mechanism` to `input` if the plan foresees exactly this release.
    pub fn release<M: Mechanism>(
        &mut self,
        mechanism: &M,
        input: &Sensitive<M::Input>,
    ) -> Result<Released<M::Output>, CuratorError> {
        mechanism.check(input.expose())?;
        let mut event = mechanism.event();
        let batch = mechanism.batch(input.expose());
        if let Some(batch) = batch {
            if batch.curator != self.number {
                return Err(CuratorError::ForeignBatch { label: mechanism.label() });
            }
            if !self.unused.contains(&batch.number) {
                return Err(CuratorError::BatchUsed { label: mechanism.label() });
            }
            event = batch.sampling.of(event);
        }
        self.charge(&event, mechanism.label())?;
        if let Some(batch) = batch {
            self.unused.remove(&batch.number);
        }
        let output = mechanism.apply(input.expose(), &mut self.noise)?;
        if let (Some(seen), Some(numbers)) = (&self.seen, M::numbers(&output)) {
            seen.push(numbers);
        }
        Ok(Released::new(output))
    }

    /// Charges all steps of a stream of gradients with correlated noise, which are one release, and starts it.
    pub(crate) fn open_stream(&mut self, plan: StreamPlan) -> Result<GradientStream, CuratorError> {
        self.charge(&plan.event(), "gradients of a stream")?;
        plan.start(self.noise.stream(Purpose::Correlated, 0), self.seen.clone())
    }

    /// Charges a whole stream of comparisons with a threshold, which is one release, and opens it.
    ///
    /// # Errors
    /// If the plan does not foresee it.
    pub fn compare(&mut self, plan: &AboveThreshold) -> Result<Comparisons, CuratorError> {
        self.charge(&plan.event(), "answers of above-threshold")?;
        Ok(plan.start(self.noise.stream(Purpose::Selection, 0)))
    }

    /// Charges a release whose mechanism runs outside [`release`](Self::release), and gives it its randomness.
    pub(super) fn begin(
        &mut self,
        event: &Event,
        label: &'static str,
        purpose: Purpose,
    ) -> Result<Stream, CuratorError> {
        self.charge(event, label)?;
        Ok(self.noise.stream(purpose, 0))
    }

    /// What has been released so far.
    pub fn records(&self) -> &[ReleaseRecord] {
        &self.records
    }

    /// True if everything the plan foresees has been released.
    pub fn is_spent(&self) -> bool {
        self.allowances.iter().all(|a| a.remaining == 0)
    }

    /// True if the noise comes from an insecure seed; a report must say so.
    pub fn is_insecure(&self) -> bool {
        self.noise.is_insecure()
    }

    /// Takes every leaf of `event` from the allowances, or none.
    fn charge(&mut self, event: &Event, label: &'static str) -> Result<(), CuratorError> {
        let mut wanted = Vec::new();
        flatten(event, 1, &mut wanted);
        if wanted.is_empty() {
            return Err(CuratorError::Unforeseen { label });
        }
        let mut left = self.allowances.clone();
        for need in &wanted {
            let mut count = need.remaining;
            for allowance in left.iter_mut().filter(|a| a.event == need.event) {
                let taken = count.min(allowance.remaining);
                allowance.remaining -= taken;
                count -= taken;
            }
            if count > 0 {
                return Err(CuratorError::Unforeseen { label });
            }
        }
        self.allowances = left;
        // releases that alternate share their lines: a report with one line for each of thousands says less, slowly
        let known = self.records.iter_mut().rev().take(KINDS).find(|r| r.label == label && r.event == *event);
        match known {
            Some(known) => known.count += 1,
            None => self.records.push(ReleaseRecord { label, event: event.clone(), count: 1 }),
        }
        Ok(())
    }
}

/// Compositions become lists of leaves with multiplicities; sampled events and single leaves stay whole.
fn flatten(event: &Event, times: u64, out: &mut Vec<Allowance>) {
    match event {
        Event::NoOp => {}
        Event::Composed { events } => events.iter().for_each(|e| flatten(e, times, out)),
        Event::SelfComposed { event, count } => flatten(event, times.saturating_mul(*count), out),
        Event::Approximate { event, .. } => flatten(event, times, out),
        leaf => out.push(Allowance { event: leaf.clone(), remaining: times }),
    }
}
