//! Records as bytes: flat arrays, little-endian, that are copied and checked as a whole. An engine whose workers get a partition anew for every aggregate
//! query decodes it each time.
//!
//! `dpoptsh3`, kind, part, digest, order, rows of the partition before these, rows with those without an owner (8 bytes each), then
//! - rows (kind 0): columns, norm bound, rows, entries, named entries, units (8 bytes each); targets (8), entries of each row (4), values (4), the columns
//!   of all rows that have not all of them (4), rows of each unit (4; none where rows are units of their own);
//! - rows by unit (kind 1): the same;
//! - numbers (kind 2): how many in a record, how many in all; the numbers (8);
//!
//! and the fingerprint of all before (8).

use dpopt_objective::records::{Bounded, Owners, Rows, fingerprint};
use dpopt_process::stop::paced;

const MAGIC: &[u8; 8] = b"dpoptsh3";
const ROWS: u64 = 0;
const UNITS: u64 = 1;
const NUMBERS: u64 = 2;

/// What is known of a partition without its records.
#[derive(Clone, Copy)]
pub(super) struct Head {
    /// Number of the partition, counted from 0.
    pub part: u32,
    /// What its records hold, whatever their order.
    pub digest: u64,
    /// What they hold in their order.
    pub order: u64,
    /// How many records of the partition come before these, if these are a piece of it.
    pub before: u64,
    /// How many rows there are, those without an owner among them.
    pub rows: u64,
}

impl Head {
    /// The head of partition `part` with `rows` rows, those without an owner among them; `fingerprints` are those of its records, one after the other.
    pub fn new(part: u32, rows: u64, fingerprints: impl Iterator<Item = u64>) -> Self {
        paced(fingerprints).fold(Self { part, digest: 0, order: 0, before: 0, rows }, |head, of_record| Self {
            digest: head.digest.wrapping_add(of_record),
            order: (head.order ^ of_record).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29),
            ..head
        })
    }
}

/// What a partition's bytes can hold.
pub(super) enum Stored {
    Rows(Bounded),
    Units(Bounded, Owners),
    Numbers(usize, Vec<f64>),
}

/// What a digest is made of, for each row.
pub(super) fn rows(records: &Bounded) -> impl Iterator<Item = Vec<u8>> {
    records.targets.iter().enumerate().map(|(i, target)| {
        let (columns, values) = records.rows.row(i);
        let mut bytes = target.to_bits().to_le_bytes().to_vec();
        columns.iter().for_each(|column| bytes.extend_from_slice(&column.to_le_bytes()));
        values.iter().for_each(|value| bytes.extend_from_slice(&value.to_bits().to_le_bytes()));
        bytes
    })
}

/// Rows with their targets, and how many each unit has if they are those of units.
pub(super) fn encode(head: Head, targets: &[f64], rows: &Rows, of_units: Option<&[u32]>) -> Vec<u8> {
    let columns = rows.columns();
    let values = rows.values();
    let lengths: Vec<u32> = (0..rows.len()).map(|i| rows.row(i).0.len() as u32).collect();
    let some = (0..rows.len()).map(|i| rows.row(i).0).filter(|row| row.len() != columns);
    let named: Vec<u32> = some.flatten().copied().collect();
    let of_each = of_units.unwrap_or_default();
    let mut out = Out::new(if of_units.is_some() { UNITS } else { ROWS }, head);
    let counts = [targets.len(), values.len(), named.len(), of_each.len()];
    out.put(&[columns as u64, rows.norm_bound().to_bits()], |x| x.to_le_bytes());
    out.put(&counts, |count| (*count as u64).to_le_bytes());
    out.put(targets, |x| x.to_le_bytes());
    out.put(&lengths, |x| x.to_le_bytes());
    out.put(values, |x| x.to_le_bytes());
    out.put(&named, |x| x.to_le_bytes());
    out.put(of_each, |x| x.to_le_bytes());
    out.whole()
}

/// Numbers, row by row.
pub(super) fn encode_numbers(head: Head, width: usize, numbers: &[f64]) -> Vec<u8> {
    let mut out = Out::new(NUMBERS, head);
    out.put(&[width as u64, numbers.len() as u64], |x| x.to_le_bytes());
    out.put(numbers, |x| x.to_le_bytes());
    out.whole()
}

/// Head and records of these bytes, bounds of rows enforced again; `None` if they are no part, whole.
pub(super) fn decode(bytes: &[u8]) -> Option<(Head, Stored)> {
    let (body, whole) = bytes.split_last_chunk::<8>()?;
    if fingerprint(body) != u64::from_le_bytes(*whole) {
        return None;
    }
    let mut taking = Taking(body);
    if taking.array::<8>(1)?.first()? != MAGIC {
        return None;
    }
    let kind = taking.number()?;
    let part = u32::try_from(taking.number()?).ok()?;
    let [digest, order, before, rows] = [taking.number()?, taking.number()?, taking.number()?, taking.number()?];
    let stored = match kind {
        ROWS | UNITS => taking.rows(kind)?,
        NUMBERS => {
            let (width, count) = (taking.count()?, taking.count()?);
            let numbers = taking.array(count)?.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect();
            Some(Stored::Numbers(width, numbers)).filter(|_| width > 0 && count.is_multiple_of(width))?
        }
        _ => return None,
    };
    taking.0.is_empty().then_some((Head { part, digest, order, before, rows }, stored))
}

/// Bytes that are being written.
struct Out(Vec<u8>);

impl Out {
    fn new(kind: u64, Head { part, digest, order, before, rows }: Head) -> Self {
        let mut out = Self(MAGIC.to_vec());
        out.put(&[kind, u64::from(part), digest, order, before, rows], |x| x.to_le_bytes());
        out
    }

    fn put<T, const N: usize>(&mut self, values: &[T], bytes: impl Fn(&T) -> [u8; N]) {
        self.0.reserve(N * values.len());
        values.iter().for_each(|value| self.0.extend_from_slice(&bytes(value)));
    }

    fn whole(mut self) -> Vec<u8> {
        let whole = fingerprint(&self.0);
        self.0.extend_from_slice(&whole.to_le_bytes());
        self.0
    }
}

/// Bytes that are still to be read.
struct Taking<'a>(&'a [u8]);

impl<'a> Taking<'a> {
    fn array<const N: usize>(&mut self, count: usize) -> Option<&'a [[u8; N]]> {
        let (taken, rest) = self.0.split_at_checked(count.checked_mul(N)?)?;
        self.0 = rest;
        Some(taken.as_chunks().0)
    }

    fn number(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(*self.array(1)?.first()?))
    }

    fn count(&mut self) -> Option<usize> {
        usize::try_from(self.number()?).ok()
    }

    fn small(&mut self, count: usize) -> Option<Vec<u32>> {
        Some(self.array(count)?.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect())
    }

    fn rows(&mut self, kind: u64) -> Option<Stored> {
        let columns = self.count()?;
        let norm = f64::from_bits(self.number()?);
        let [records, entries, named, units] = [self.count()?, self.count()?, self.count()?, self.count()?];
        let targets = self.array(records)?.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect();
        let lengths = self.small(records)?;
        let values = self.array(entries)?.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        let mut names = self.array(named)?;
        let of_each = self.small(units)?;
        let sum = |counts: &[u32]| counts.iter().map(|&count| u64::from(count)).sum::<u64>();
        if sum(&lengths) != entries as u64 || kind == UNITS && sum(&of_each) != records as u64 {
            return None;
        }
        let all = u32::try_from(columns).ok()?;
        let mut indices = Vec::with_capacity(entries);
        for &length in &lengths {
            if length == all {
                indices.extend(0..all);
            } else {
                let (own, rest) = names.split_at_checked(length as usize)?;
                indices.extend(own.iter().map(|bytes| u32::from_le_bytes(*bytes)));
                names = rest;
            }
        }
        let rows = Rows::moved(columns, &lengths, indices, values, norm).filter(|_| names.is_empty())?;
        let records = Bounded { rows, targets };
        if kind == ROWS {
            return of_each.is_empty().then_some(Stored::Rows(records));
        }
        let of_row = (0u32..).zip(&of_each).flat_map(|(unit, &own)| std::iter::repeat_n(unit, own as usize));
        let owners = Owners { of_row: of_row.collect(), units };
        Some(Stored::Units(records, owners))
    }
}
