//! Disjoint blocks of records, each with releases of its own: parallel composition that is *run* (docs/proofs/blocks.md).
//!
//! A record is in the block of its position, which is public and does not depend on any record's value. The whole is charged as
//! one event when the blocks are opened; each block then has a curator that knows only its own records: it draws batches
//! among them, and refuses whatever was not computed on such a batch.

use super::Curator;
use super::door::{Interactive, Opening, sealed};
use crate::refused::CuratorError;
use dpopt_privacy::Event;
use std::ops::Range;

/// One event per block; block b of m holds the positions n·b/m to n·(b+1)/m. Event: `Parallel`. Under add-or-remove no
/// accountant takes it: a record that comes or goes moves the borders.
///
/// ```
/// use dpopt_mechanism::{Blocks, ClippedVectors, Curator, Gaussian, Interactive, SamplerError};
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
///     let records: Vec<usize> = half.block().into_iter().flatten().collect();
///     let batch = half.all_of(1000)?;
///     let clipped = ClippedVectors::new(1.0, grid)?;
///     let sum = clipped.sum_batch(batch, records.len(), 1, |i, out| out.push(numbers[records[i]]))?;
///     sums.push(half.release(&Gaussian::new(5.0, 1.0, grid, 1, "sum"), &sum)?.into_inner()[0]);
/// }
/// assert!(sums.iter().all(|sum| (sum - 250.0).abs() < 60.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Blocks {
    records: usize,
    events: Vec<Event>,
}

impl Blocks {
    /// The blocks of `records` records.
    ///
    /// # Errors
    /// If there is no block.
    pub fn new(records: usize, events: Vec<Event>) -> Result<Self, CuratorError> {
        if events.is_empty() { Err(CuratorError::Shape) } else { Ok(Self { records, events }) }
    }

    /// Positions of block `b`.
    pub fn positions(&self, b: usize) -> Range<usize> {
        let (n, m) = (self.records as u128, self.events.len() as u128);
        let at = |b: usize| (n * b as u128 / m) as usize;
        at(b)..at(b + 1)
    }
}

impl sealed::Sealed for Blocks {}

impl Interactive for Blocks {
    /// A curator per block.
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

    fn start(&self, opening: Opening<'_>) -> Result<Vec<Curator>, CuratorError> {
        let Opening { noise, allowances, pays, relation, seen } = opening;
        if pays {
            // the event as the certificate has it: nothing is rounded twice
            let denied = |_| CuratorError::Inexact { label: self.label() };
            allowances.draw_planned(&self.event()).map_err(denied)?;
        }
        let block = |(b, event)| {
            let own = allowances.of_block(event, pays, self.events.len());
            Curator::of_block(own, self.records, self.positions(b), relation, noise.child(), seen.clone())
        };
        Ok(self.events.iter().enumerate().map(block).collect())
    }
}
