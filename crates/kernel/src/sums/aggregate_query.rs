//! Aggregate queries: sums over remote records. What is asked for is public, and what a partition answers is as sensitive as its records.
//! So is the point at which a minimiser asks, which no noise has made fit to be seen.
//!
//! A query is a line of JSON and the point it is asked at, 8 bytes per coordinate, so that every partition has the same bits. Where the
//! records are, [`answers`](super::answers) has the same loops as here.

use crate::refused::CuratorError;
use dpopt_noise::{PoissonSkips, SubsetKey};
use dpopt_objective::objective::ObjectiveSpec;
use dpopt_objective::records::{PartitionsError, ReadError, RecordSet, RemoteRecords};
use dpopt_objective::solver::IntegerSums;
use serde::{Deserialize, Serialize};
use std::fmt;

/// First line of a query, with the version of the format.
const VERSION: &str = "dpopt question 5\n";

/// A secret Poisson sample of all records, for one sum: each partition finds out which of its own records are in it. As secret as the records.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sample {
    probability: f64,
    /// Number of records of all partitions.
    records: u64,
    /// The sample's key in hexadecimal, which always has one length.
    key: String,
    /// The number of the first record of each partition; empty, and no record is in the sample.
    firsts: Vec<u64>,
}

impl Sample {
    /// A sample of so many records, in partitions that begin at `firsts`. A query about no records does not contain the key.
    pub(crate) fn new((key, probability, records): (&SubsetKey, f64, u64), firsts: &[u64]) -> Self {
        let bytes = if firsts.is_empty() { [0; 32] } else { key.bytes() };
        let key = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Self { probability, records, key, firsts: firsts.to_vec() }
    }

    fn key(&self) -> Option<SubsetKey> {
        let mut bytes = [0; 32];
        let (pairs, rest) = self.key.as_bytes().as_chunks::<2>();
        if pairs.len() != bytes.len() || !rest.is_empty() {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(pairs) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(SubsetKey::from_bytes(bytes))
    }

    /// Which of the `records` of partition `part` that come after `before` others are in the sample; `None` if it is not a sample of them.
    pub(crate) fn of_part(&self, part: u32, before: u64, records: u64) -> Option<Vec<u64>> {
        let mut chosen = Vec::new();
        if self.firsts.is_empty() {
            return Some(chosen);
        }
        let first = self.firsts.get(part as usize)?.checked_add(before)?;
        let last = first.checked_add(records).filter(|&last| last <= self.records)?;
        let skips = PoissonSkips::new(self.probability).ok()?;
        skips.subset_within(&self.key()?, self.records, first..last, &mut chosen);
        chosen.iter_mut().for_each(|i| *i -= first);
        Some(chosen)
    }
}

impl fmt::Debug for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sample")
    }
}

/// A sum over all records, or over a sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum AggregateQuery {
    /// Σ clip(∇φ_i(x)). Of a sample there is one integer more, which tells the order of the records from others.
    Gradients { of: ObjectiveSpec, clip_norm: f64, grid: i32, sample: Option<Sample> },
    /// The second moment Σ weight·x_i x_iᵀ.
    SecondMoment { weight: f64, row_norm: f64, grid: i32 },
    /// The moment Σ y_i·x_i of target and row.
    TargetMoment { target_bound: f64, row_norm: f64, grid: i32 },
    /// Σ∇φ_i(x) and Σ∇²φ_i(x), not clipped: for the certified minimiser. The point is heads and tails.
    Curved(IntegerSums),
    /// Σ h_i(x)·x_i x_iᵀ for a Newton step.
    Majorant { shift: f64, row_norm: f64, grid: i32 },
    /// Σ clip(v_i − x) over numbers as they were given, `width` in each record.
    Vectors { width: usize, clip_norm: f64, grid: i32 },
    /// How many numbers are in each cell of the public grid of quantiles, column by column.
    Cells { width: usize },
}

impl AggregateQuery {
    /// The query at `point`, as the bytes that are sent.
    pub(crate) fn at(&self, point: &[f64]) -> Vec<u8> {
        let mut bytes = VERSION.as_bytes().to_vec();
        // numbers and names: nothing of it fails
        bytes.extend(serde_json::to_vec(self).unwrap_or_default());
        bytes.push(b'\n');
        point.iter().for_each(|x| bytes.extend_from_slice(&x.to_le_bytes()));
        bytes
    }

    pub(crate) fn parse(bytes: &[u8]) -> Option<(Self, Vec<f64>)> {
        let rest = bytes.strip_prefix(VERSION.as_bytes())?;
        let end = rest.iter().position(|&byte| byte == b'\n')?;
        let (words, point) = (&rest[..end], &rest[end + 1..]);
        if !point.len().is_multiple_of(8) {
            return None;
        }
        let point = point.chunks_exact(8).map(|x| x.try_into().map(f64::from_le_bytes));
        Some((serde_json::from_slice(words).ok()?, point.collect::<Result<_, _>>().ok()?))
    }
}

/// The sum of all partitions' answers, as integers.
pub(crate) fn asked(
    records: &RemoteRecords,
    query: &AggregateQuery,
    point: &[f64],
    width: usize,
) -> Result<Vec<i64>, CuratorError> {
    let told = records.ask(&mut || query.at(point), width);
    told.unwrap_or(Err(ReadError::Partitions(PartitionsError::Single))).map_err(CuratorError::from)
}

/// The `sums` that a minimiser needs of remote records, at `theta`, as integers.
pub fn remote_sums(records: &RemoteRecords, sums: &IntegerSums, theta: &[f64]) -> Result<Vec<i64>, CuratorError> {
    asked(records, &AggregateQuery::Curved(*sums), theta, sums.width())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_of_a_query_are_sent_to_the_last_bit() {
        let query = AggregateQuery::TargetMoment { target_bound: 0.1 + 0.2, row_norm: 1.0 / 3.0, grid: -17 };
        let point = [f64::MIN_POSITIVE, -0.0, 0.1 + 0.2, 1e300, f64::from_bits(1)];
        let (told, at) = AggregateQuery::parse(&query.at(&point)).unwrap();
        assert_eq!(told, query);
        assert!(at.iter().zip(&point).all(|(a, b)| a.to_bits() == b.to_bits()));
    }
}
