//! The sum over one partition of the records: integers, so that partitions merge to the same bits in any order.
//!
//! As bytes (little-endian): `dpoptps1`, the fingerprint of the aggregate query (8 bytes), partition (4), records (8), what
//! they are (8), length (8), the integers
//! (8 each), the fingerprint of all before (8). Other versions begin with other eight bytes.

use thiserror::Error;

const MAGIC: &[u8; 8] = b"dpoptps1";
/// Bytes before the integers, and after them.
const HEAD: usize = 44;
const TAIL: usize = 8;

/// Tells one aggregate query from another and a damaged answer from a whole one, and is no protection against an attacker. Of 8 bytes at a time, each step
/// a permutation, so that bytes which differ in one such word have different fingerprints.
pub fn fingerprint(bytes: &[u8]) -> u64 {
    let step = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let (words, rest) = bytes.as_chunks::<8>();
    let whole = words.iter().fold(bytes.len() as u64, |hash, word| step(hash, u64::from_le_bytes(*word)));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    // a last mix, so that sums of fingerprints of like records are not alike
    let mixed = step(step(whole, u64::from_le_bytes(last)), 0);
    step(mixed ^ (mixed >> 32), 0)
}

/// The sum over the records of one part, and which records they were: as sensitive as they are: whoever sends one somewhere encrypts the way.
///
/// ```
/// use dpopt_objective::records::PartialSum;
/// let (a, b) = (PartialSum::new(7, 0, (10, 77), vec![1, -2]), PartialSum::new(7, 1, (5, 78), vec![i64::MAX, 3]));
/// let sent = PartialSum::from_bytes(&b.to_bytes())?;
/// let mut sum = [0; 2];
/// [a, sent].iter().for_each(|part| part.add_to(&mut sum));
/// assert_eq!(sum, [i64::MIN, 1]); // modulo 2^64, like every sum of contributions
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct PartialSum {
    query: u64,
    part: u32,
    records: (u64, u64),
    quanta: Vec<i64>,
}

/// Bytes that are no partial sum of this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a worker returned no complete partial sum of this version of dpopt; install the same version everywhere")]
pub struct NoPartialSum;

impl PartialSum {
    /// The answer of partition `part` to the aggregate query of that [`fingerprint`]; how many records it has, and a digest of what they hold.
    pub fn new(query: u64, part: u32, records: (u64, u64), quanta: Vec<i64>) -> Self {
        Self { query, part, records, quanta }
    }

    /// Fingerprint of the aggregate query that it answers.
    pub fn query(&self) -> u64 {
        self.query
    }

    /// Which partition it is of.
    pub fn part(&self) -> u32 {
        self.part
    }

    /// How many records the partition has, and a digest of what they hold.
    pub fn records(&self) -> (u64, u64) {
        self.records
    }

    /// Number of integers of the sum.
    pub fn width(&self) -> usize {
        self.quanta.len()
    }

    /// Adds it to a sum, modulo 2^64; where that has another width (a bug of the caller), what both have.
    pub fn add_to(&self, sum: &mut [i64]) {
        sum.iter_mut().zip(&self.quanta).for_each(|(a, b)| *a = a.wrapping_add(*b));
    }

    /// The sum as bytes, to be sent.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD + 8 * self.quanta.len() + TAIL);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&self.query.to_le_bytes());
        bytes.extend_from_slice(&self.part.to_le_bytes());
        bytes.extend_from_slice(&self.records.0.to_le_bytes());
        bytes.extend_from_slice(&self.records.1.to_le_bytes());
        bytes.extend_from_slice(&(self.quanta.len() as u64).to_le_bytes());
        self.quanta.iter().for_each(|unit| bytes.extend_from_slice(&unit.to_le_bytes()));
        let whole = fingerprint(&bytes);
        bytes.extend_from_slice(&whole.to_le_bytes());
        bytes
    }

    /// Reads a sum from bytes.
    ///
    /// # Errors
    /// If they are not one, whole.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, NoPartialSum> {
        let body = bytes.len().checked_sub(HEAD + TAIL).filter(|body| body.is_multiple_of(8)).ok_or(NoPartialSum)?;
        let eight = |at: usize| bytes[at..at + 8].try_into().map(u64::from_le_bytes).map_err(|_| NoPartialSum);
        let part = bytes[16..20].try_into().map(u32::from_le_bytes).map_err(|_| NoPartialSum)?;
        let (whole, length) = (eight(HEAD + body)?, eight(36)?);
        if bytes[..8] != MAGIC[..] || length != (body / 8) as u64 || fingerprint(&bytes[..HEAD + body]) != whole {
            return Err(NoPartialSum);
        }
        let quanta = bytes[HEAD..HEAD + body].chunks_exact(8);
        let quanta = quanta.map(|unit| unit.try_into().map(i64::from_le_bytes).map_err(|_| NoPartialSum));
        Ok(Self {
            query: eight(8)?,
            part,
            records: (eight(20)?, eight(28)?),
            quanta: quanta.collect::<Result<_, _>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_sent_arrives_and_what_is_damaged_is_refused(
            query: u64, part: u32, records: (u64, u64), quanta in prop::collection::vec(any::<i64>(), 0..20), at: prop::sample::Index, bit in 0..8u8,
        ) {
            let sum = PartialSum::new(query, part, records, quanta);
            let bytes = sum.to_bytes();
            prop_assert!(PartialSum::from_bytes(&bytes) == Ok(sum));
            let mut damaged = bytes.clone();
            damaged[at.index(bytes.len())] ^= 1 << bit;
            prop_assert!(PartialSum::from_bytes(&damaged).is_err());
            prop_assert!(PartialSum::from_bytes(&bytes[..at.index(bytes.len())]).is_err());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(PartialSum::from_bytes(&bytes).is_err());
        }
    }
}
