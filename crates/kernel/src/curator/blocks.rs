//! Disjoint blocks of records, each with releases of its own: parallel composition that is *run* (docs/proofs/blocks.md).
//!
//! A record is in the block of its position, or of its place in an order that coins make: neither depends on any record's value. The
//! whole is charged as one event when the blocks are opened; each block then has a curator that knows only its own records: it draws
//! batches among them, and refuses whatever was not computed on such a batch.

use super::Curator;
use super::mechanism::{Interactive, InteractiveStart, sealed};
use crate::refused::CuratorError;
use dpopt_noise::Purpose;
use dpopt_privacy::Event;
use std::ops::Range;
use std::sync::Arc;

/// One event per block; of m blocks, block b holds the positions n·b/m to n·(b+1)/m, or [as many as is said](Self::of_sizes). Event:
/// `Parallel`. Under add-or-remove no accountant takes it: a record that comes or goes moves the borders.
///
/// ```
/// use dpopt_kernel::{Blocks, ClippedVectors, Curator, Gaussian, Interactive, SamplerError};
/// use dpopt_noise::{Grid, NoiseSource};
/// use dpopt_privacy::{Budget, Event, Neighbours, Relation, certify};
/// // the sum of one number per record, of each half of the records: two answers for the price of one
/// let numbers = vec![0.5; 1000];
/// let half = SamplerError::rounded(1.0).on(Event::gaussian(5.0));
/// let blocks = Blocks::new(1000, vec![half; 2])?;
/// let terms = Neighbours::of_records(Relation::ZeroOut).within(Budget::new(1.0, 1e-6)?);
/// let mut curator = Curator::new(&certify(&blocks.event(), terms)?, NoiseSource::secure()?);
/// let (grid, mut sums) = (Grid::for_sum(1.0, 5.0, 1000, 1), Vec::new());
/// for mut half in curator.open(&blocks)? {
///     let (batch, records) = half.all_for_loader(1000)?;
///     let clipped = ClippedVectors::new(1.0, grid)?;
///     let sum = clipped.sum_batch(batch, records.len(), 1, |i, out| out.push(numbers[records[i] as usize]))?;
///     sums.push(half.release(&Gaussian::new(5.0, 1.0, grid, 1, "sum"), &sum)?.into_inner()[0]);
/// }
/// assert!(sums.iter().all(|sum| (sum - 250.0).abs() < 60.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Blocks {
    /// Where each block begins, and where the last one ends.
    borders: Vec<usize>,
    events: Vec<Event>,
    shuffled: bool,
}

/// The records of one block.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    /// Number of all records, those of other blocks included.
    pub(crate) records: usize,
    /// Places of the block's records in the order of all records.
    pub(crate) places: Range<usize>,
    /// Which record stands at which place; `None`: each at its own.
    pub(crate) order: Option<Arc<[u64]>>,
}

impl Blocks {
    /// Blocks of `records` records, as equal as they come.
    ///
    /// # Errors
    /// If there is no block.
    pub fn new(records: usize, events: Vec<Event>) -> Result<Self, CuratorError> {
        let (n, m) = (records as u128, events.len() as u128);
        if m == 0 {
            return Err(CuratorError::Shape);
        }
        Ok(Self { borders: (0..=m).map(|b| (n * b / m) as usize).collect(), events, shuffled: false })
    }

    /// Blocks of so many records each, one after the other; together they are all records.
    ///
    /// # Errors
    /// If there is no block, or not one event for each.
    pub fn of_sizes(sizes: &[usize], events: Vec<Event>) -> Result<Self, CuratorError> {
        if events.is_empty() || events.len() != sizes.len() {
            return Err(CuratorError::Shape);
        }
        let mut borders = vec![0usize];
        for &size in sizes {
            let last = borders.last().copied().unwrap_or(0);
            borders.push(last.checked_add(size).ok_or(CuratorError::Shape)?);
        }
        Ok(Self { borders, events, shuffled: false })
    }

    /// Takes the records of the blocks in a random order that coins of the run make when the blocks are opened: whatever order records come in, each
    /// block is a uniform choice of them.
    pub fn shuffled(self) -> Self {
        Self { shuffled: true, ..self }
    }

    /// Places of block `b`: positions of its records, unless they are shuffled.
    pub fn positions(&self, b: usize) -> Range<usize> {
        self.borders[b]..self.borders[b + 1]
    }

    fn records(&self) -> usize {
        self.borders.last().copied().unwrap_or(0)
    }
}

impl sealed::Sealed for Blocks {}

impl Interactive for Blocks {
    /// One curator for each block.
    type Opened = Vec<Curator>;

    fn event(&self) -> Event {
        Event::Parallel { blocks: self.events.clone() }
    }

    fn label(&self) -> &'static str {
        "disjoint blocks of records"
    }

    /// Opening draws nothing; what the blocks may draw is set aside for them when they are opened.
    fn sampler_error(&self) -> Result<f64, CuratorError> {
        Ok(0.0)
    }

    fn start(&self, opening: InteractiveStart<'_>) -> Result<Vec<Curator>, CuratorError> {
        let InteractiveStart { noise, allowances, pays, relation, seen } = opening;
        if pays {
            // the event as the certificate has it: nothing is rounded twice
            let denied = |_| CuratorError::Inexact { label: self.label() };
            allowances.draw_planned(&self.event()).map_err(denied)?;
        }
        let records = self.records();
        // any law would do that knows nothing of the records: only what is found depends on it
        let order: Option<Arc<[u64]>> = self.shuffled.then(|| {
            let mut coins = noise.stream(Purpose::Split, 0);
            let mut order: Vec<u64> = (0..records as u64).collect();
            coins.shuffle(&mut order);
            order.into()
        });
        let block = |(b, event)| {
            let own = allowances.of_block(event, pays, self.events.len());
            let block = Block { records, places: self.positions(b), order: order.clone() };
            Curator::of_block(own, block, relation, noise.child(), seen.clone())
        };
        Ok(self.events.iter().enumerate().map(block).collect())
    }
}
