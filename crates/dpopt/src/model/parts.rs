//! Rows that are elsewhere, in parts: what each part holds, and how it answers.

mod asked;
mod bytes;
mod large;

pub(super) use self::asked::{Asked, View};
use self::bytes::{Head, Stored};
pub use self::large::{LargeShard, LostPiece};
use super::error::FitError;
use dpopt_data::{BadCells, Encoder, RowOwners, TableReader, TargetSpec};
use dpopt_mechanism::{CuratorError, PartFacts, answer, answer_numbers};
use dpopt_objective::records::{
    Bounded, Elsewhere, Examples, Owners, PartialSum, Parts, RecordSet, Rows, Units, fingerprint,
};
use std::sync::{Arc, Mutex, PoisonError};

/// One part of the records, with whoever is near them: bounded rows and targets as [`MatrixRun::fit`](super::MatrixRun::fit) takes them, or numbers.
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
    /// All rows of some units.
    Units(Read<Units<Examples>>),
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
    /// Part number `part`, from 0.
    pub fn new(records: Bounded, part: u32) -> Self {
        let whole = bytes::rows(&records).map(|row| fingerprint(&row));
        let head = Head::new(part, records.targets.len() as u64, whole);
        Self::of_rows(records, head)
    }

    /// The same with **all** rows of some units; rows of nobody are left out.
    ///
    /// # Errors
    /// If the owners are those of other rows.
    pub fn of_units(records: Bounded, owners: &RowOwners, part: u32) -> Result<Self, FitError> {
        let units = owners.positions().map_err(|why| FitError::Option(why.to_string()))?;
        let other = || FitError::Option("the owners are those of other rows; give one for each".into());
        let all = owners.rows();
        if all != records.targets.len() as u64 {
            return Err(other());
        }
        let records = records.by_content(&units);
        // units, as their rows, in an order that follows from what they hold: it is the same whenever the part is made again
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

    /// The same of a table's rows, encoded as `encoder` says, by public facts alone; a cell that can't be read is missing.
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

    /// The same with `width` numbers in each record, row by row; what is left over at the end is no record.
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
        Some(Self { head, given: targets, held: Held::Units(Mutex::new((None, units))) })
    }

    /// The same under another number.
    pub fn numbered(self, part: u32) -> Self {
        Self { head: Head { part, ..self.head }, ..self }
    }

    /// The same as a piece of a part that has so many records before these.
    fn after(self, before: u64) -> Self {
        Self { head: Head { before, ..self.head }, ..self }
    }

    /// How many records it has: rows, or units.
    pub fn records(&self) -> u64 {
        match &self.held {
            Held::Rows(_) => self.given.len() as u64,
            Held::Units(read) => unlocked(read, |(_, units)| units.len() as u64),
            Held::Numbers(width) => (self.given.len() / width) as u64,
        }
    }

    /// How many rows there are, with those of nobody; a row of numbers counts as one.
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
            Held::Units(read) => {
                unlocked(read, |(_, units)| of_rows(Viewed::rows(units)) + 8 * (self.given.len() + units.len()))
            }
            Held::Numbers(_) => 8 * self.given.len(),
        }
    }

    /// Its number.
    pub fn part(&self) -> u32 {
        self.head.part
    }

    /// What its records add up to. **As sensitive as they are**: for the driver, encrypted on the way, and for nobody else.
    ///
    /// # Errors
    /// If the question is not one of this version, or about other records; whatever they hold.
    pub fn answer(&self, message: &[u8]) -> Result<Vec<u8>, CuratorError> {
        let (asked, begins) = Asked::begins(message).ok_or(CuratorError::Shape)?;
        let Head { part, digest, order, before, .. } = self.head;
        let facts = PartFacts { part, digest, order, before };
        match (&self.held, asked) {
            (Held::Rows(read), Asked::Model(view)) => {
                self.viewed(read, view, |examples| answer(examples, message, begins, facts))
            }
            (Held::Units(read), Asked::Model(view)) => {
                self.viewed(read, view, |units| answer(units, message, begins, facts))
            }
            (Held::Rows(_), Asked::Numbers) => answer_numbers((1, &self.given), message, begins, (part, digest)),
            (Held::Numbers(width), Asked::Numbers) => {
                answer_numbers((*width, &self.given), message, begins, (part, digest))
            }
            (_, Asked::Nothing) => {
                let known = (self.records(), self.head.digest);
                Ok(PartialSum::new(fingerprint(message), self.head.part, known, Vec::new()).to_bytes())
            }
            // a unit's numbers one by one would be those of several records
            (Held::Units(_), Asked::Numbers) | (Held::Numbers(_), Asked::Model(_)) => Err(CuratorError::Shape),
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

    /// The same by one thread: where every core has a worker of its own, each would otherwise start as many as there are cores.
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
            Held::Units(read) => unlocked(read, |(_, units)| {
                let of_each: Vec<u32> = (0..units.len()).map(|unit| units.of(unit).len() as u32).collect();
                bytes::encode(head, given, Viewed::rows(units), Some(&of_each))
            }),
            Held::Numbers(width) => bytes::encode_numbers(head, *width, given),
        }
    }

    /// From [`to_bytes`](Self::to_bytes); bounds of rows are enforced again.
    ///
    /// # Errors
    /// If the bytes are not such a part, whole.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, FitError> {
        let shard = bytes::decode(bytes).and_then(|(head, stored)| match stored {
            Stored::Rows(records) => Some(Self::of_rows(records, head)),
            Stored::Units(records, owners) => Self::grouped(records, &owners, head),
            Stored::Numbers(width, given) => Some(Self { head, given, held: Held::Numbers(width) }),
        });
        shard.ok_or_else(|| FitError::Option("these bytes are no part of this version of dpopt".into()))
    }
}

/// Numbers as they were given, `width` in each record, in parts of which is `known` how many records each has, and their digest.
pub fn numbers_elsewhere(parts: Arc<dyn Parts>, known: Vec<(u64, u64)>, width: usize) -> Elsewhere {
    Elsewhere::new(parts, known, width, f64::INFINITY).read_as(Asked::Numbers.to_bytes())
}

/// A question that asks for nothing: what a pass costs besides the sums.
pub fn empty_question() -> Vec<u8> {
    Asked::Nothing.to_bytes()
}

fn unlocked<R, T>(read: &Read<R>, with: impl FnOnce(&mut (Option<View>, R)) -> T) -> T {
    with(&mut read.lock().unwrap_or_else(PoisonError::into_inner))
}

#[cfg(test)]
mod tests;
