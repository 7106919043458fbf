//! Remote rows in partitions: what each partition holds, and how it answers aggregate queries.

mod bytes;
mod large;
mod view;

use self::bytes::{Head, Stored};
pub use self::large::{LargeShard, LostPiece};
pub(super) use self::view::{QueryTarget, View};
use super::error::FitError;
use dpopt_data::{BadCells, Encoder, RowOwners, TableReader, TargetSpec};
use dpopt_mechanism::{CuratorError, PartFacts, answer, answer_numbers};
use dpopt_objective::records::{
    Bounded, Examples, Owners, PartialSum, Partitions, RecordSet, RemoteRecords, Rows, Units, fingerprint,
};
use dpopt_process::stop::awaited;
use std::sync::{Arc, Mutex};

/// One partition of the records, with whoever is near them: bounded rows and targets as [`MatrixRecords::Here`](super::MatrixRecords::Here) takes them, or numbers.
pub struct Shard {
    head: Head,
    /// Targets, in the order of the rows; or numbers, row by row.
    given: Vec<f64>,
    held: Held,
}

/// The records, and which model's targets they have now.
type Read<R> = Mutex<(Option<View>, R)>;

enum Held {
    /// Rows that are units of their own.
    Rows(Read<Examples>),
    /// All rows of so many units.
    Units(u64, Read<Units<Examples>>),
    /// So many numbers in each record.
    Numbers(usize),
}

/// Records whose targets can be read in another way.
trait Viewed {
    fn rows(&self) -> &Rows;
    fn read(&mut self, target: impl Fn(usize) -> f32);
}

impl Viewed for Examples {
    fn rows(&self) -> &Rows {
        &self.rows
    }

    fn read(&mut self, target: impl Fn(usize) -> f32) {
        self.targets.iter_mut().enumerate().for_each(|(i, to)| *to = target(i));
    }
}

impl Viewed for Units<Examples> {
    fn rows(&self) -> &Rows {
        &Units::rows(self).rows
    }

    fn read(&mut self, target: impl Fn(usize) -> f32) {
        self.set_targets(target);
    }
}

impl Shard {
    /// Partition number `part`, counted from 0, whose records are rows.
    pub fn new(records: Bounded, part: u32) -> Self {
        let whole = bytes::rows(&records).map(|row| fingerprint(&row));
        let head = Head::new(part, records.targets.len() as u64, whole);
        Self::of_rows(records, head)
    }

    /// Partition number `part` whose records are units, with **all** rows of each; rows without an owner are left out.
    ///
    /// # Errors
    /// If the owners are those of other rows.
    pub fn of_units(records: Bounded, owners: &RowOwners, part: u32) -> Result<Self, FitError> {
        let units = owners.positions().map_err(|why| FitError::Option(why.to_string().into()))?;
        let other = || {
            FitError::Option(
                "the number of owners differs from the number of rows; give one owner for \
                                         each row"
                    .into(),
            )
        };
        let all = owners.rows();
        if all != records.targets.len() as u64 {
            return Err(other());
        }
        let records = records.by_content(&units);
        // units, as their rows, in an order that follows from what they hold: it is the same whenever the partition is made again
        let rows: Vec<Vec<u8>> = bytes::rows(&records).collect();
        let own = |unit: usize| units.of(unit).iter().flat_map(|&row| rows[row as usize].iter().copied());
        let mut known: Vec<(u64, usize)> =
            (0..units.len()).map(|unit| (fingerprint(&own(unit).collect::<Vec<u8>>()), unit)).collect();
        known.sort_unstable();
        let in_turn = known.iter().map(|known| units.of(known.1)).zip(0u32..);
        let (positions, of_row): (Vec<usize>, Vec<u32>) =
            in_turn.flat_map(|(rows, unit)| rows.iter().map(move |&row| (row as usize, unit))).unzip();
        let targets = positions.iter().map(|&row| records.targets[row]).collect();
        let records = Bounded { rows: records.rows.select(&positions), targets };
        let owners = Owners { of_row, units: units.len() };
        let head = Head::new(part, all, known.into_iter().map(|known| known.0));
        Self::grouped(records, &owners, head).ok_or_else(other)
    }

    /// Partition number `part` of a table's rows, which `encoder` encodes by public facts alone; a cell that can't be read is missing.
    ///
    /// # Errors
    /// If the table has other columns.
    pub fn of_table(encoder: &Encoder, table: &dyn TableReader, part: u32) -> Result<Self, FitError> {
        Ok(Self::encoded(encoder, encoder.encode_public(table, BadCells::Missing)?, part))
    }

    /// Rows that `encoder` made.
    fn encoded(encoder: &Encoder, Examples { rows, targets }: Examples, part: u32) -> Self {
        let two = matches!(encoder.target(), Some((_, TargetSpec::Classes { levels })) if levels.len() == 2);
        let given = targets.iter().map(|&target| match (two, f64::from(target)) {
            (false, target) => target,
            (true, 0.0) => f64::NAN,
            (true, target) => f64::from(target > 0.0),
        });
        Self::new(Bounded { targets: given.collect(), rows }, part)
    }

    /// Partition number `part` with records of `width` numbers each, row by row; an incomplete record at the end is dropped.
    pub fn of_numbers(width: usize, mut numbers: Vec<f64>, part: u32) -> Self {
        let width = width.max(1);
        numbers.truncate(numbers.len() / width * width);
        let of = |row: &[f64]| fingerprint(&row.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<_>>());
        let head = Head::new(part, (numbers.len() / width) as u64, numbers.chunks_exact(width).map(of));
        Self { head, given: numbers, held: Held::Numbers(width) }
    }

    fn of_rows(Bounded { rows, targets }: Bounded, head: Head) -> Self {
        let examples = Examples { targets: vec![0.0; rows.len()], rows };
        Self { head, given: targets, held: Held::Rows(Mutex::new((None, examples))) }
    }

    fn grouped(Bounded { rows, targets }: Bounded, owners: &Owners, head: Head) -> Option<Self> {
        let examples = Examples { targets: vec![0.0; rows.len()], rows };
        let units = Units::new(examples, owners).ok()?;
        Some(Self { head, given: targets, held: Held::Units(units.len() as u64, Mutex::new((None, units))) })
    }

    /// This partition under the number `part`.
    pub fn numbered(self, part: u32) -> Self {
        Self { head: Head { part, ..self.head }, ..self }
    }

    /// This data as a piece of a partition with `before` records before it.
    fn after(self, before: u64) -> Self {
        Self { head: Head { before, ..self.head }, ..self }
    }

    /// How many records it has: rows, or units.
    pub fn records(&self) -> u64 {
        match &self.held {
            Held::Rows(_) => self.given.len() as u64,
            Held::Units(count, _) => *count,
            Held::Numbers(width) => (self.given.len() / width) as u64,
        }
    }

    /// How many rows there are, those without an owner among them; a row of numbers counts as one.
    pub fn rows(&self) -> u64 {
        self.head.rows
    }

    /// A digest of what they hold, whatever their order; as sensitive as a sum of them.
    pub fn digest(&self) -> u64 {
        self.head.digest
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        let of_rows = |rows: &Rows| rows.bytes() as usize + 12 * self.given.len();
        match &self.held {
            Held::Rows(read) => unlocked(read, |(_, examples)| of_rows(&examples.rows)),
            Held::Units(_, read) => {
                unlocked(read, |(_, units)| of_rows(Viewed::rows(units)) + 8 * (self.given.len() + units.len()))
            }
            Held::Numbers(_) => 8 * self.given.len(),
        }
    }

    /// Number of the partition, counted from 0.
    pub fn part(&self) -> u32 {
        self.head.part
    }

    /// What its records add up to. **As sensitive as they are**: for the driver, encrypted on the way, and for nobody else.
    ///
    /// # Errors
    /// If the aggregate query is not one of this version, or about other records; whatever they hold.
    pub fn answer(&self, message: &[u8]) -> Result<Vec<u8>, CuratorError> {
        let (asked, begins) = QueryTarget::begins(message).ok_or(CuratorError::Shape)?;
        let Head { part, digest, order, before, .. } = self.head;
        let facts = PartFacts { part, digest, order, before };
        match (&self.held, asked) {
            (Held::Rows(read), QueryTarget::Model(view)) => {
                self.viewed(read, view, |examples| answer(examples, message, begins, facts))
            }
            (Held::Units(_, read), QueryTarget::Model(view)) => {
                self.viewed(read, view, |units| answer(units, message, begins, facts))
            }
            (Held::Rows(_), QueryTarget::Numbers) => answer_numbers((1, &self.given), message, begins, (part, digest)),
            (Held::Numbers(width), QueryTarget::Numbers) => {
                answer_numbers((*width, &self.given), message, begins, (part, digest))
            }
            (_, QueryTarget::Nothing) => {
                let known = (self.records(), self.head.digest);
                Ok(PartialSum::new(fingerprint(message), self.head.part, known, Vec::new()).to_bytes())
            }
            // a unit's numbers one by one would be those of several records
            (Held::Units(..), QueryTarget::Numbers) | (Held::Numbers(_), QueryTarget::Model(_)) => {
                Err(CuratorError::Shape)
            }
        }
    }

    /// `with` the records as `view` reads their targets.
    fn viewed<R: Viewed, T>(&self, read: &Read<R>, view: View, with: impl FnOnce(&R) -> T) -> T {
        unlocked(read, |(last, records)| {
            if *last != Some(view) {
                records.read(|i| view.target(self.given[i]));
                *last = Some(view);
            }
            with(records)
        })
    }

    /// Answers an aggregate query with one thread: where every core has a worker of its own, each worker would otherwise start as many threads as there are cores.
    ///
    /// # Errors
    /// As [`answer`](Self::answer).
    pub fn answer_alone(&self, message: &[u8]) -> Result<Vec<u8>, CuratorError> {
        match rayon::ThreadPoolBuilder::new().num_threads(1).build() {
            Ok(pool) => pool.install(|| self.answer(message)),
            Err(_) => self.answer(message),
        }
    }

    /// All of it, for an engine that moves it from one machine to another.
    pub fn to_bytes(&self) -> Vec<u8> {
        let (head, given) = (self.head, &self.given);
        match &self.held {
            Held::Rows(read) => unlocked(read, |(_, examples)| bytes::encode(head, given, &examples.rows, None)),
            Held::Units(_, read) => unlocked(read, |(_, units)| {
                let of_each: Vec<u32> = (0..units.len()).map(|unit| units.of(unit).len() as u32).collect();
                bytes::encode(head, given, Viewed::rows(units), Some(&of_each))
            }),
            Held::Numbers(width) => bytes::encode_numbers(head, *width, given),
        }
    }

    /// From [`to_bytes`](Self::to_bytes); bounds of rows are enforced again.
    ///
    /// # Errors
    /// If the bytes are not such a partition, whole.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, FitError> {
        let shard = bytes::decode(bytes).and_then(|(head, stored)| match stored {
            Stored::Rows(records) => Some(Self::of_rows(records, head)),
            Stored::Units(records, owners) => Self::grouped(records, &owners, head),
            Stored::Numbers(width, given) => Some(Self { head, given, held: Held::Numbers(width) }),
        });
        shard.ok_or_else(|| {
            FitError::Option(
                "this is no partition written by this version of dpopt; install the \
                                              same version everywhere"
                    .into(),
            )
        })
    }
}

/// Numbers as they were given, `width` in each record, in partitions of which is `known` how many records each has, and their digest.
pub fn remote_numbers(parts: Arc<dyn Partitions>, known: Vec<(u64, u64)>, width: usize) -> RemoteRecords {
    RemoteRecords::new(parts, known, width, f64::INFINITY).read_as(QueryTarget::Numbers.to_bytes())
}

/// An aggregate query that asks for nothing: what a pass costs besides the sums.
pub fn empty_query() -> Vec<u8> {
    QueryTarget::Nothing.to_bytes()
}

fn unlocked<R, T>(read: &Read<R>, with: impl FnOnce(&mut (Option<View>, R)) -> T) -> T {
    with(&mut awaited(read))
}

#[cfg(test)]
mod tests;
