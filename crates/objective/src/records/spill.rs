//! Encoded rows that do not fit the memory cap: in a temporary file without a name, read back record by record.
//!
//! The file is unlinked as soon as it exists and readable by its owner only; the operating system frees it when the process
//! ends, however it ends. It holds encoded records, so the disk of the temporary directory is as sensitive as the table.

use super::partitions::PartitionsError;
use super::rows::{Examples, Rows};
use std::convert::Infallible;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use thiserror::Error;

/// Columns, values and target of a record.
pub type Record<'a> = (&'a [u32], &'a [f32], f32);

/// Why a record can't be read. It names a kind of failure only, nothing of what was being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file that holds the records cannot be read.
    #[error("the temporary file of rows can't be read: {0}")]
    File(io::ErrorKind),
    /// Remote records cannot be read.
    #[error(transparent)]
    Partitions(#[from] PartitionsError),
}

impl From<Infallible> for ReadError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl From<io::Error> for ReadError {
    fn from(e: io::Error) -> Self {
        Self::File(e.kind())
    }
}

/// A set of records, by number: what an [`Objective`](crate::objective::Objective) is a sum over.
pub trait RecordSet: Sync {
    /// Why a record can't be read: nothing, for records in memory.
    type Error: Send + Into<ReadError>;
    /// Whether reading a record twice costs next to nothing.
    const IN_MEMORY: bool = true;
    /// Number of records.
    fn len(&self) -> usize;
    /// True if there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Asks for the memory of records that will be read soon; see [`Rows::fetch`].
    fn fetch(&self, _: &[u64]) {}
    /// The sum of `width` integers that `question` asks for, over remote records, which answer with sums only; `None` where records are here.
    fn ask(&self, _question: &mut dyn FnMut() -> Vec<u8>, _width: usize) -> Option<Result<Vec<i64>, Self::Error>> {
        None
    }
    /// Whether the records are remote, so that none of them can be read here.
    fn is_remote(&self) -> bool {
        false
    }
    /// The sum of `width` integers over a sample of remote records, given by their places: `question` gets the number of the first record of each
    /// partition (no numbers for a first look at the order); each answer has one more integer at its end, which identifies the order of the records. `None`
    /// where records are here.
    fn ask_sample(
        &self,
        _question: &mut dyn FnMut(&[u64]) -> Vec<u8>,
        _width: usize,
    ) -> Option<Result<Vec<i64>, Self::Error>> {
        None
    }
    /// Whether a record keeps its number whatever the others hold. Not if others are numbered by what they hold, as units are by which of them have rows.
    fn keeps_places(&self) -> bool {
        true
    }
}

/// Records of a user-defined type, in memory.
impl<T: Sync> RecordSet for Vec<T> {
    type Error = Infallible;

    fn len(&self) -> usize {
        self.as_slice().len()
    }
}

/// Rows of features with their targets, read one at a time, from memory or from disk. Sealed: clips rest on the order of a row's
/// columns and on the bound of its norm, which the rows of this crate have by construction.
///
/// ```compile_fail,E0277
/// use dpopt_objective::records::{Record, RecordBuffer, RecordSet, Records};
/// struct Mine;
/// impl RecordSet for Mine {
///     type Error = std::convert::Infallible;
///     fn len(&self) -> usize { 1 }
/// }
/// impl Records for Mine { // E0277: `Sealed` is not implemented for `Mine`
///     fn columns(&self) -> usize { 2 }
///     fn norm_bound(&self) -> f64 { 1.0 }
///     fn of_a_unit(&self) -> u64 { 1 }
///     fn record<'a>(&'a self, _: usize, _: &'a mut RecordBuffer) -> Result<Record<'a>, Self::Error> {
///         Ok((&[1, 1], &[1.0, 1.0], 0.0)) // one column twice
///     }
/// }
/// ```
pub trait Records: RecordSet + sealed::Sealed {
    /// Number of features d.
    fn columns(&self) -> usize;
    /// Every row's l2 norm is at most this.
    fn norm_bound(&self) -> f64;
    /// No unit has more of the rows than this; 1 where each row is a unit of its own. See [`Rows::of_a_unit`].
    fn of_a_unit(&self) -> u64;
    /// Columns, values and target of record i, in `buffer` if they have to be brought from elsewhere.
    fn record<'a>(&'a self, i: usize, buffer: &'a mut RecordBuffer) -> Result<Record<'a>, Self::Error>;
}

pub(crate) mod sealed {
    /// Keeps foreign types out of [`Records`](super::Records).
    pub trait Sealed {}
}

/// Where a record that is not in memory is put.
#[derive(Default)]
pub struct RecordBuffer {
    bytes: Vec<u8>,
    indices: Vec<u32>,
    pub(super) values: Vec<f32>,
    /// A buffer for the records that these are made of.
    pub(super) inner: Option<Box<RecordBuffer>>,
}

impl sealed::Sealed for Examples {}

impl RecordSet for Examples {
    type Error = Infallible;

    fn len(&self) -> usize {
        self.rows.len()
    }

    fn fetch(&self, records: &[u64]) {
        self.rows.fetch(records);
    }

    // rows of a unit may stand where the units before it leave them a place
    fn keeps_places(&self) -> bool {
        self.rows.of_a_unit() == 1
    }
}

impl Records for Examples {
    fn columns(&self) -> usize {
        self.rows.columns()
    }

    fn norm_bound(&self) -> f64 {
        self.rows.norm_bound()
    }

    fn of_a_unit(&self) -> u64 {
        self.rows.of_a_unit()
    }

    #[inline]
    fn record<'a>(&'a self, i: usize, _: &'a mut RecordBuffer) -> Result<Record<'a>, Infallible> {
        let (indices, values) = self.rows.row(i);
        Ok((indices, values, self.targets[i]))
    }
}

impl Examples {
    /// The records with the columns of `support` only, numbered in their order, their rows of norm at most `row_norm`.
    ///
    /// # Errors
    /// If a record can't be read.
    pub fn restricted<R: Records>(records: &R, support: &[u32], row_norm: f64) -> Result<Self, R::Error> {
        let rows = Rows::of_units(support.len(), records.of_a_unit());
        let mut out = Self { rows, targets: Vec::with_capacity(records.len()) };
        let (mut buffer, mut entries) = (RecordBuffer::default(), Vec::new());
        for i in 0..records.len() {
            let (columns, values, target) = records.record(i, &mut buffer)?;
            entries.clear();
            entries.extend(
                columns.iter().zip(values).filter_map(|(j, &x)| support.binary_search(j).ok().map(|at| (at as u32, x))),
            );
            out.rows.push_clipped(&mut entries, row_norm);
            out.targets.push(target);
        }
        Ok(out)
    }
}

/// Examples in a file without a name; in memory are 12 bytes per record.
pub struct SpilledExamples {
    file: File,
    /// First entry of each record, and the end.
    offsets: Vec<u64>,
    targets: Vec<f32>,
    columns: usize,
    norm_bound: f64,
    of_a_unit: u64,
}

/// Bytes of an entry: column, then value, little-endian.
const ENTRY: usize = 8;

impl SpilledExamples {
    /// Writes all of `examples` to a temporary file.
    ///
    /// # Errors
    /// If the temporary file can't be made or written.
    pub fn of(examples: &Examples) -> io::Result<Self> {
        let mut spilled = Self::new(examples.rows.columns())?;
        spilled.append(examples)?;
        Ok(spilled)
    }

    /// No records yet, `columns` features.
    fn new(columns: usize) -> io::Result<Self> {
        let file = tempfile::tempfile()?;
        Ok(Self { file, offsets: vec![0], targets: Vec::new(), columns, norm_bound: 0.0, of_a_unit: 1 })
    }

    /// Appends all of `part`. What failed to is not to be read or appended to again.
    fn append(&mut self, part: &Examples) -> io::Result<()> {
        let mut out = BufWriter::with_capacity(1 << 20, &self.file);
        for i in 0..part.rows.len() {
            let (indices, values) = part.rows.row(i);
            for (j, x) in indices.iter().zip(values) {
                out.write_all(&j.to_le_bytes())?;
                out.write_all(&x.to_le_bytes())?;
            }
            self.offsets.push(self.offsets.last().copied().unwrap_or(0) + indices.len() as u64);
        }
        out.flush()?;
        drop(out);
        self.targets.extend_from_slice(&part.targets);
        self.norm_bound = self.norm_bound.max(part.rows.norm_bound());
        self.of_a_unit = self.of_a_unit.max(part.rows.of_a_unit());
        Ok(())
    }
}

impl sealed::Sealed for SpilledExamples {}

impl RecordSet for SpilledExamples {
    type Error = io::Error;
    const IN_MEMORY: bool = false;

    fn len(&self) -> usize {
        self.targets.len()
    }

    fn keeps_places(&self) -> bool {
        self.of_a_unit == 1
    }
}

impl Records for SpilledExamples {
    fn columns(&self) -> usize {
        self.columns
    }

    fn norm_bound(&self) -> f64 {
        self.norm_bound
    }

    fn of_a_unit(&self) -> u64 {
        self.of_a_unit
    }

    fn record<'a>(&'a self, i: usize, buffer: &'a mut RecordBuffer) -> io::Result<Record<'a>> {
        let entries = (self.offsets[i + 1] - self.offsets[i]) as usize;
        buffer.bytes.resize(entries * ENTRY, 0);
        read_at(&self.file, &mut buffer.bytes, self.offsets[i] * ENTRY as u64)?;
        buffer.indices.clear();
        buffer.values.clear();
        for entry in buffer.bytes.chunks_exact(ENTRY) {
            buffer.indices.push(u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]));
            buffer.values.push(f32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]));
        }
        Ok((&buffer.indices, &buffer.values, self.targets[i]))
    }
}

#[cfg(unix)]
fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset)
}

#[cfg(windows)]
fn read_at(file: &File, mut bytes: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        let read = std::os::windows::fs::FileExt::seek_read(file, bytes, offset)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes = &mut bytes[read..];
        offset += read as u64;
    }
    Ok(())
}

/// Examples within the memory cap, or on disk.
pub enum Encoded {
    /// Examples in memory, within the cap.
    Memory(Examples),
    /// Examples on disk, beyond the cap.
    Disk(SpilledExamples),
}

/// Collects encoded blocks; beyond `most_bytes` they go to disk.
pub struct Collector {
    most_bytes: u64,
    part: Examples,
    spilled: Option<SpilledExamples>,
}

impl Collector {
    /// No records yet, `columns` features.
    pub fn new(columns: usize, most_bytes: u64) -> Self {
        Self { most_bytes, part: Examples { rows: Rows::new(columns), targets: Vec::new() }, spilled: None }
    }

    /// Appends all of `block`.
    ///
    /// # Errors
    /// If the temporary file can't be made or written.
    pub fn append(&mut self, block: &Examples) -> io::Result<()> {
        self.part.rows.append(&block.rows);
        self.part.targets.extend_from_slice(&block.targets);
        if self.part.rows.bytes() > self.most_bytes { self.spill() } else { Ok(()) }
    }

    fn spill(&mut self) -> io::Result<()> {
        let columns = self.part.rows.columns();
        let mut spilled = match self.spilled.take() {
            Some(spilled) => spilled,
            None => SpilledExamples::new(columns)?,
        };
        spilled.append(&self.part)?;
        self.part = Examples { rows: Rows::new(columns), targets: Vec::new() };
        self.spilled = Some(spilled);
        Ok(())
    }

    /// Everything that was appended.
    ///
    /// # Errors
    /// If the temporary file can't be written.
    pub fn finish(mut self) -> io::Result<Encoded> {
        if self.spilled.is_some() {
            self.spill()?;
        }
        Ok(match self.spilled {
            Some(spilled) => Encoded::Disk(spilled),
            None => Encoded::Memory(self.part),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spilled_comes_back() {
        let mut all = Examples { rows: Rows::new(1000), targets: Vec::new() };
        let mut collector = Collector::new(1000, 4096);
        for block in 0..20u32 {
            let mut part = Examples { rows: Rows::new(1000), targets: Vec::new() };
            for r in 0..50u32 {
                let i = block * 50 + r;
                match i % 7 {
                    0 => part.rows.push_zero(),
                    k => part.rows.push_clipped(
                        &mut (0..k * 3).map(|j| ((i * 31 + j * 17) % 1000, 0.01 * (i + j) as f32)).collect::<Vec<_>>(),
                        1.0,
                    ),
                }
                part.targets.push(i as f32);
            }
            all.rows.append(&part.rows);
            all.targets.extend_from_slice(&part.targets);
            collector.append(&part).unwrap();
        }
        let Ok(Encoded::Disk(disk)) = collector.finish() else { panic!("4 KiB are less than 1000 rows") };
        assert_eq!((disk.len(), disk.columns(), disk.norm_bound()), (1000, 1000, 1.0));
        let (mut a, mut b) = (RecordBuffer::default(), RecordBuffer::default());
        for i in (0..1000).rev() {
            assert_eq!(disk.record(i, &mut a).unwrap(), all.record(i, &mut b).unwrap());
        }
        let small = Collector::new(5, 1 << 20).finish().unwrap();
        assert!(matches!(small, Encoded::Memory(rows) if rows.is_empty()));
    }
}
