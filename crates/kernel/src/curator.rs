//! The curator of a run: the only one that turns [`Sensitive`] into [`Released`].
//!
//! It holds the certified event as [allowances](self::allowances). A release whose event is not among the remaining ones is
//! refused, so that a run can never release more than its plan certified, whatever the algorithm's code does. It also
//! draws the Poisson batches itself: a release on a batch matches only allowances sampled with the same probability, and
//! each batch serves exactly one release. What its samplers are off is counted as they draw, and refused beyond what the
//! certificate pays for.

pub(crate) mod allowances;
pub(crate) mod batch;
pub(crate) mod blocks;
pub(crate) mod mechanism;
pub(crate) mod seen;

use self::allowances::{Allowances, Denied};
use self::batch::{Batch, BatchId, FixedBatch, Sampling};
use self::blocks::Block;
use self::mechanism::{Interactive, InteractiveStart, Mechanism};
use self::seen::Seen;
use crate::refused::CuratorError;
use crate::sampler_error::SamplerError;
use crate::{Released, Sensitive};
use dpopt_noise::{NoiseSource, PoissonSkips, Purpose, Stream, SubsetKey};
use dpopt_objective::objective::Evidence;
use dpopt_objective::records::RecordSet;
use dpopt_privacy::{Certificate, Event, Relation};
use dpopt_process::{Process, stop};
use serde::Serialize;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// One line of a run's ledger.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReleaseRecord {
    /// What was released, in words.
    pub label: &'static str,
    /// The event of one such release.
    pub event: Event,
    /// Number of such releases.
    pub count: u64,
}

/// Guards one run: opens its mechanisms, and refuses every release that its certified event does not foresee.
pub struct Curator {
    /// No other curator of the process has this number: it ties batches to the one that drew them.
    number: u64,
    /// The process in which it was opened: a forked copy has the same allowances, which were charged once.
    process: Process,
    allowances: Allowances,
    /// The certificate's neighbouring relation; `None` for an event alone.
    relation: Option<Relation>,
    /// Whether the certificate has a δ to pay samplers from.
    pays: bool,
    /// The records it may release of; `None` for all.
    block: Option<Block>,
    noise: NoiseSource,
    records: Vec<ReleaseRecord>,
    batches: u64,
    unused: BTreeSet<u64>,
    /// The least sure of what its releases rest on.
    rests_on: Evidence,
    /// Everything released so far, where a test or an audit watches: it is public, so keeping it shows nothing more.
    seen: Option<Seen>,
}

/// Kinds of releases that may alternate and still be counted in one line each.
const KINDS: usize = 64;

impl Curator {
    /// Opens a run for a certified event. A file ledger must have been charged before.
    pub fn new(certificate: &Certificate, noise: NoiseSource) -> Self {
        Self {
            relation: Some(certificate.relation()),
            pays: certificate.budget().delta() > 0.0,
            ..Self::with(Allowances::certified(certificate), noise)
        }
    }

    /// A curator for an event whose samplers are taken as exact.
    pub(crate) fn for_event(event: &Event, noise: NoiseSource) -> Self {
        Self::with(Allowances::exact(event), noise)
    }

    /// A curator for the records of one block.
    pub(crate) fn of_block(
        allowances: Allowances,
        block: Block,
        relation: Option<Relation>,
        noise: NoiseSource,
        seen: Option<Seen>,
    ) -> Self {
        Self { block: Some(block), relation, seen, ..Self::with(allowances, noise) }
    }

    fn with(allowances: Allowances, noise: NoiseSource) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let (records, unused) = (Vec::new(), BTreeSet::new());
        Self {
            number,
            process: Process::here(),
            allowances,
            relation: None,
            pays: true,
            block: None,
            noise,
            records,
            batches: 0,
            unused,
            rests_on: Evidence::Enforced,
            seen: None,
        }
    }

    /// Whether it may release of the records of a [block](crate::Blocks) only.
    pub fn is_of_block(&self) -> bool {
        self.block.is_some()
    }

    /// The places that a batch of `records` is drawn from.
    fn places(&self, records: usize) -> Result<Range<usize>, CuratorError> {
        self.here()?;
        match &self.block {
            None => Ok(0..records),
            Some(block) if block.records == records => Ok(block.places.clone()),
            Some(_) => Err(CuratorError::Shape),
        }
    }

    /// Which records stand at places from `first` on.
    fn at_places(&self, first: u64, chosen: &mut [u64]) {
        match self.block.as_ref().and_then(|block| block.order.as_ref()) {
            Some(order) => chosen.iter_mut().for_each(|i| *i = order[(first + *i) as usize]),
            None if first > 0 => chosen.iter_mut().for_each(|i| *i += first),
            None => {}
        }
    }

    /// A curator that also keeps what it releases: the view of the strongest adversary that the event allows.
    pub(crate) fn watched(event: &Event, noise: NoiseSource) -> Self {
        Self { seen: Some(Seen::default()), ..Self::for_event(event, noise) }
    }

    /// The releases of a [watched](Self::watched) run, in order.
    pub(crate) fn seen(&self) -> Vec<Vec<f64>> {
        self.seen.as_ref().map_or(Vec::new(), Seen::all)
    }

    /// Draws a secret Poisson sample of `0..records` with `sampling_probability` for exactly one release.
    pub fn poisson_sample(&mut self, records: usize, sampling_probability: f64) -> Result<Batch, CuratorError> {
        let places = self.places(records)?;
        let (count, first) = (places.len() as u64, places.start as u64);
        let (skips, key) = self.subset(count, sampling_probability)?;
        let mut chosen = Vec::new();
        skips.subset_within(&key, count, 0..count, &mut chosen);
        self.at_places(first, &mut chosen);
        if self.block.is_some() {
            chosen.sort_unstable();
        }
        Ok(Batch::of(self.next_batch(Sampling::Poisson { probability: sampling_probability }), chosen))
    }

    /// Draws a Poisson batch of all records of a set, for exactly one release: nobody outside needs to know how many records there are.
    pub fn poisson_sample_of<R: RecordSet>(
        &mut self,
        records: &Sensitive<R>,
        sampling_probability: f64,
    ) -> Result<Batch, CuratorError> {
        self.poisson_sample(records.expose().len(), sampling_probability)
    }

    /// Draws a Poisson batch for [`Clipped::sum_of`](crate::Clipped::sum_of). Of remote records it lists none here: those who hold them find out which ones are
    /// in it.
    pub fn poisson_sample_for_sum<R: RecordSet>(
        &mut self,
        records: &Sensitive<R>,
        sampling_probability: f64,
    ) -> Result<Batch, CuratorError> {
        let records = records.expose();
        if !records.is_remote() {
            return self.poisson_sample(records.len(), sampling_probability);
        }
        // the places of a block are known here only
        if self.block.is_some() {
            return Err(CuratorError::Shape);
        }
        let count = records.len() as u64;
        let (_, key) = self.subset(count, sampling_probability)?;
        let id = self.next_batch(Sampling::Poisson { probability: sampling_probability });
        Ok(Batch { key: Some((key, count)), ..Batch::of(id, Vec::new()) })
    }

    /// What decides a subset of so many records, paid for.
    fn subset(&mut self, count: u64, probability: f64) -> Result<(PoissonSkips, SubsetKey), CuratorError> {
        self.here()?;
        let skips = PoissonSkips::new(probability).map_err(|e| CuratorError::Noise(e.to_string()))?;
        if probability > 0.0 && probability < 1.0 {
            self.allowances.draw(SamplerError::subset(count)).map_err(|denied| refused(denied, "sampled batch"))?;
        }
        Ok((skips, SubsetKey::drawn(&mut self.noise.stream(Purpose::Batch, self.batches))))
    }

    /// Coins for a view of records, which is as sensitive as they are.
    pub(crate) fn secret(&mut self, purpose: Purpose) -> Stream {
        self.batches += 1;
        self.noise.stream(purpose, self.batches)
    }

    /// Coins that no record has any part in and that anybody may know: starting points, directions. Each call gives others.
    pub fn public_coins(&mut self) -> Stream {
        self.batches += 1;
        self.noise.stream(Purpose::Initialisation, self.batches)
    }

    /// The certificate's neighbouring relation; `None` without a certificate.
    pub(crate) fn relation(&self) -> Option<Relation> {
        self.relation
    }

    /// What is released from here on rests on a caller's word.
    pub(crate) fn rest_on_a_word(&mut self) {
        self.rests_on = self.rests_on.and(Evidence::Assumed);
    }

    /// What the releases so far rest on: a caller's word makes all of them research grade.
    pub fn rests_on(&self) -> Evidence {
        self.rests_on
    }

    /// The result of post-processing of releases, marked as released. Outside of the kernel nothing sensitive can be read, so whatever a method computes
    /// there is post-processing, by type.
    pub fn postprocess<T>(&self, value: T) -> Released<T> {
        Released::new(value)
    }

    /// Draws `size` of the records `0..records` without replacement, in random order, for exactly one release.
    ///
    /// # Errors
    /// If there are fewer records than asked for.
    pub fn fixed_sample(&mut self, records: usize, size: usize) -> Result<FixedBatch, CuratorError> {
        let places = self.places(records)?;
        let (records, first) = (places.len(), places.start as u64);
        if size == 0 || size > records {
            return Err(CuratorError::Shape);
        }
        let mut stream = self.noise.stream(Purpose::Batch, self.batches);
        // the first `size` steps of Fisher and Yates, on the moved places only
        let mut moved: HashMap<u64, u64> = HashMap::with_capacity(2 * size);
        let mut chosen: Vec<u64> = (0..size as u64)
            .map(|i| {
                let j = i + stream.below(records as u64 - i);
                let at_j = moved.get(&j).copied().unwrap_or(j);
                let at_i = moved.get(&i).copied().unwrap_or(i);
                moved.insert(j, at_i);
                at_j
            })
            .collect();
        self.at_places(first, &mut chosen);
        let sampling = Sampling::WithoutReplacement { records: records as u64, size: size as u64 };
        Ok(FixedBatch { id: self.next_batch(sampling), records: chosen })
    }

    /// Draws `size` of all records of a set without replacement, in random order, for exactly one release.
    ///
    /// # Errors
    /// As [`fixed_sample`](Self::fixed_sample).
    pub fn fixed_sample_of<R: RecordSet>(
        &mut self,
        records: &Sensitive<R>,
        size: usize,
    ) -> Result<FixedBatch, CuratorError> {
        self.fixed_sample(records.expose().len(), size)
    }

    /// Draws a batch of `size` of the records `0..records` for data that are loaded outside of this library: the batch, and the indices of its records.
    /// **The indices are as secret as the records.**
    ///
    /// # Errors
    /// As [`fixed_sample`](Self::fixed_sample).
    pub fn fixed_for_loader(&mut self, records: usize, size: usize) -> Result<(Batch, Vec<u64>), CuratorError> {
        let batch = self.fixed_sample(records, size)?.unordered();
        let indices = batch.records.clone();
        Ok((batch, indices))
    }

    /// All records of the block, or of the run, as a batch for one release.
    ///
    /// # Errors
    /// If the block was made for another number of records.
    pub fn all_of(&mut self, records: usize) -> Result<Batch, CuratorError> {
        let places = self.places(records)?;
        let mut chosen: Vec<u64> = (0..places.len() as u64).collect();
        self.at_places(places.start as u64, &mut chosen);
        if self.block.is_some() {
            chosen.sort_unstable();
        }
        Ok(Batch::of(self.next_batch(Sampling::All), chosen))
    }

    /// All records of the block, or of the run, for data that are loaded outside of this library: the batch, and the indices of its records, which may be as
    /// secret as the records.
    ///
    /// # Errors
    /// As [`all_of`](Self::all_of).
    pub fn all_for_loader(&mut self, records: usize) -> Result<(Batch, Vec<u64>), CuratorError> {
        let batch = self.all_of(records)?;
        let indices = batch.records.clone();
        Ok((batch, indices))
    }

    /// The block's records of a set, as a batch that ties what is computed on them to the block. `None` where there are no blocks: then no batch is needed.
    ///
    /// # Errors
    /// As [`all_of`](Self::all_of).
    pub fn block_of<R: RecordSet>(&mut self, records: &Sensitive<R>) -> Result<Option<Batch>, CuratorError> {
        self.is_of_block().then(|| self.all_of(records.expose().len())).transpose()
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
    ) -> Result<(Batch, Vec<u64>), CuratorError> {
        let batch = self.poisson_sample(records, sampling_probability)?;
        let indices = batch.records.clone();
        Ok((batch, indices))
    }

    /// A batch that a loader outside this library drew. The caller vouches that each record entered it with
    /// `sampling_probability`, independently of everything else; the guarantee rests on that.
    pub fn sampled_remotely(&mut self, sampling_probability: f64) -> Batch {
        self.rest_on_a_word();
        let id = self.next_batch(Sampling::Poisson { probability: sampling_probability });
        Batch { drawn_here: false, ..Batch::of(id, Vec::new()) }
    }

    /// Applies `mechanism` to `input` if the plan foresees exactly this release.
    ///
    /// # Errors
    /// If it does not, `input` is not what the mechanism was made for, or this is a copy of the curator in a forked process: nothing was drawn then.
    pub fn release<M: Mechanism>(
        &mut self,
        mechanism: &M,
        input: &Sensitive<M::Input>,
    ) -> Result<Released<M::Output>, CuratorError> {
        self.here()?;
        self.same_relation(mechanism.relation(), mechanism.label())?;
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
        } else if self.block.is_some() {
            // computed on whichever records: the other blocks pay for theirs
            return Err(CuratorError::OutsideBlock { label: mechanism.label() });
        }
        self.charge(&event, mechanism.sampler_error(input.expose()), mechanism.label())?;
        if let Some(batch) = batch {
            self.unused.remove(&batch.number);
        }
        self.rests_on = self.rests_on.and(mechanism.rests_on());
        let output = mechanism.apply(input.expose(), &mut self.noise)?;
        if let (Some(seen), Some(numbers)) = (&self.seen, M::numbers(&output)) {
            seen.push(numbers);
        }
        Ok(Released::new(output))
    }

    /// Charges a mechanism that stays open, as a whole, and opens it.
    ///
    /// # Errors
    /// If the plan does not foresee it, or this is a copy in a forked process; within a block only mechanisms that know their records can be opened, and
    /// there are none yet.
    pub fn open<M: Interactive>(&mut self, mechanism: &M) -> Result<M::Opened, CuratorError> {
        self.here()?;
        if self.block.is_some() {
            return Err(CuratorError::OutsideBlock { label: mechanism.label() });
        }
        self.same_relation(mechanism.relation(), mechanism.label())?;
        self.charge(&mechanism.event(), mechanism.sampler_error()?, mechanism.label())?;
        mechanism.start(InteractiveStart {
            noise: &mut self.noise,
            allowances: &mut self.allowances,
            relation: self.relation,
            pays: self.pays,
            seen: self.seen.clone(),
        })
    }

    /// Refuses a copy in a forked process: both would release all that was charged for once.
    fn here(&self) -> Result<(), CuratorError> {
        stop::point(); // nothing is taken from the plan yet
        CuratorError::unless_opened_in(self.process, "run")
    }

    /// Refuses noise that was made for another relation than the certificate's: the events may be alike.
    fn same_relation(&self, made_for: Option<Relation>, label: &'static str) -> Result<(), CuratorError> {
        match (made_for, self.relation) {
            (Some(made_for), Some(certified)) if made_for != certified => {
                Err(CuratorError::OtherRelation { label, made_for, certified })
            }
            _ => Ok(()),
        }
    }

    /// What has been released so far.
    pub fn records(&self) -> &[ReleaseRecord] {
        &self.records
    }

    /// True if everything the plan foresees has been released.
    pub fn is_spent(&self) -> bool {
        self.allowances.is_spent()
    }

    /// True if the noise comes from an insecure seed; a report must say so.
    pub fn is_insecure(&self) -> bool {
        self.noise.is_insecure()
    }

    /// Takes `event` and its samplers' error from the allowances, or nothing, and writes the release down.
    fn charge(&mut self, event: &Event, error: f64, label: &'static str) -> Result<(), CuratorError> {
        self.allowances.take(event, SamplerError::proved(error)).map_err(|denied| refused(denied, label))?;
        // releases that alternate share their lines: a report with one line for each of thousands says less, slowly
        let known = self.records.iter_mut().rev().take(KINDS).find(|r| r.label == label && r.event == *event);
        match known {
            Some(known) => known.count += 1,
            None => self.records.push(ReleaseRecord { label, event: event.clone(), count: 1 }),
        }
        Ok(())
    }
}

fn refused(denied: Denied, label: &'static str) -> CuratorError {
    match denied {
        Denied::Unforeseen => CuratorError::Unforeseen { label },
        Denied::Distance => CuratorError::Inexact { label },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Blocks, ClippedVectors, Gaussian};
    use dpopt_noise::Grid;

    #[test]
    fn a_forked_copy_neither_draws_nor_releases() {
        let grid = Grid::new(-20);
        let (clipped, mechanism) = (ClippedVectors::new(1.0, grid).unwrap(), Gaussian::new(3.0, 1.0, grid, 1, "sum"));
        let event = mechanism.event().poisson_sampled(0.5).self_composed(2);
        let mut curator = Curator::for_event(&event, NoiseSource::insecure(1));
        let batch = curator.poisson_sample(4, 0.5).unwrap();
        let sum = clipped.in_parts(batch, 1).finish();
        let blocks = Blocks::new(4, vec![Event::gaussian(3.0)]).unwrap();
        curator.process = Process::another();
        let copied = CuratorError::Copied { what: "run" };
        assert_eq!(curator.release(&mechanism, &sum).err().as_ref(), Some(&copied));
        assert_eq!(curator.open(&blocks).err().as_ref(), Some(&copied));
        assert_eq!(curator.poisson_sample(4, 0.5).err().as_ref(), Some(&copied));
        assert_eq!(curator.sample_for_loader(4, 0.5).err().as_ref(), Some(&copied));
        assert_eq!(curator.fixed_sample(4, 2).err().as_ref(), Some(&copied));
        assert_eq!(curator.all_for_loader(4).err().as_ref(), Some(&copied));
        assert!(curator.records().is_empty());
        // nothing was spent by it
        curator.process = Process::here();
        assert!(curator.release(&mechanism, &sum).is_ok());
        assert!(copied.to_string().contains("opened in another process, and a forked copy cannot continue it"));
    }
}
