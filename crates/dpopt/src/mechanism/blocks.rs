//! Disjoint blocks of records, each with releases of its own: parallel composition that is *run* (docs/proofs/blocks.md).
//!
//! A record is in the block of its position, which is public and does not depend on any record's value. The whole is charged as
//! one event when the blocks are opened; each block then has a curator that knows only its own records: it draws batches
//! among them, and refuses whatever was not computed on such a batch.

use super::allowances::distance;
use super::curator::Curator;
use super::door::{Interactive, Opening, sealed};
use crate::refused::CuratorError;
use dpopt_privacy::Event;
use std::ops::Range;

/// One event per block; block b of m holds the positions n·b/m to n·(b+1)/m. Event: `Parallel`. Under add-or-remove no
/// accountant takes it: a record that comes or goes moves the borders.
///
/// ```
/// use dpopt::mechanism::{Blocks, Curator, Interactive};
/// use dpopt::{noise::NoiseSource, privacy::{Budget, Event, Neighbours, Relation, certify}};
/// // two halves of the records, each with one Gaussian release: the price of one
/// let blocks = Blocks::new(1000, vec![Event::gaussian(4.0); 2])?;
/// let terms = Neighbours::of_records(Relation::ZeroOut).within(Budget::new(1.0, 1e-6)?);
/// let mut curator = Curator::new(&certify(&blocks.event(), terms)?, NoiseSource::secure()?);
/// let halves = curator.open(&blocks)?;
/// assert_eq!(halves[1].block(), Some(500..1000));
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

    /// What each block may draw, of all of them.
    fn sampler_error(&self) -> Result<f64, CuratorError> {
        Ok(distance(&self.event(), 1.0))
    }

    fn start(&self, opening: Opening<'_>) -> Result<Vec<Curator>, CuratorError> {
        let Opening { noise, allowances, seen } = opening;
        let block = |(b, event)| {
            let own = allowances.of_block(event);
            Curator::of_block(own, self.records, self.positions(b), noise.child(), seen.clone())
        };
        Ok(self.events.iter().enumerate().map(block).collect())
    }
}
