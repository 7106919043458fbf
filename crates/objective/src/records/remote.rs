//! Remote records: each partition answers aggregate queries with its own sums, which are merged here.

use super::partial_sum::{PartialSum, fingerprint};
use super::partitions::{Partitions, PartitionsError};
use super::spill::{ReadError, Record, RecordBuffer, RecordSet, Records, sealed};
use std::sync::{Arc, OnceLock};

/// Rows in remote partitions, each of known size. Only sums over them can be asked for; no single row can be read.
pub struct RemoteRecords {
    parts: Arc<dyn Partitions>,
    /// What every aggregate query begins with.
    context: Vec<u8>,
    /// How many records each partition has, and a digest of what they hold.
    known: Vec<(u64, u64)>,
    columns: usize,
    norm_bound: f64,
    /// What tells the order of their records from others, once a sample was drawn.
    order: OnceLock<i64>,
}

impl RemoteRecords {
    /// Rows of `columns` entries and l2 norm at most `norm_bound`, which whoever encoded them enforced, in partitions of which is `known` how many records
    /// each has and a digest of what they hold: what a partition answers counts only as long as it is the same records.
    pub fn new(parts: Arc<dyn Partitions>, known: Vec<(u64, u64)>, columns: usize, norm_bound: f64) -> Self {
        Self { parts, context: Vec::new(), known, columns, norm_bound, order: OnceLock::new() }
    }

    /// Every aggregate query begins with these bytes, which say how its records are to be read.
    pub fn read_as(self, context: Vec<u8>) -> Self {
        Self { context, ..self }
    }

    /// Σ of what all partitions answer, `width` integers: of each partition once, or nothing.
    fn sum(&self, query: &[u8], width: usize) -> Result<Vec<i64>, PartitionsError> {
        let mut sum = vec![0; width];
        // of each partition that has answered, what it said
        let mut said: Vec<Option<u64>> = vec![None; self.known.len()];
        let message = [&self.context, query].concat();
        let asked = fingerprint(&message);
        for bytes in self.parts.ask(&message).map_err(|_| PartitionsError::Failed)? {
            let answer = PartialSum::from_bytes(&bytes).map_err(|_| PartitionsError::Malformed)?;
            if answer.query() != asked || answer.width() != width {
                return Err(PartitionsError::Malformed);
            }
            let part = answer.part();
            if self.known.get(part as usize) != Some(&answer.records()) {
                return Err(PartitionsError::Changed { part });
            }
            let content = fingerprint(&bytes);
            match said[part as usize].replace(content) {
                Some(first) if first != content => return Err(PartitionsError::Differs { part }),
                Some(_) => {}
                None => answer.add_to(&mut sum),
            }
        }
        match said.iter().position(Option::is_none) {
            Some(part) => Err(PartitionsError::Missing { part: part as u32 }),
            None => Ok(sum),
        }
    }
}

impl RemoteRecords {
    /// Σ of what all partitions answer about a sample, `width` integers; an error if the records are no longer in the order that they had when the first
    /// sample was drawn.
    fn sum_of_sample(
        &self,
        query: &mut dyn FnMut(&[u64]) -> Vec<u8>,
        width: usize,
    ) -> Result<Vec<i64>, PartitionsError> {
        let mut asked = |firsts: &[u64]| {
            let mut sum = self.sum(&query(firsts), width + 1)?;
            let order = sum.pop().ok_or(PartitionsError::Malformed)?;
            Ok((sum, order))
        };
        let order = match self.order.get() {
            Some(order) => *order,
            None => {
                let (_, order) = asked(&[])?;
                *self.order.get_or_init(|| order)
            }
        };
        let mut next = 0;
        let mut first = |records| {
            next += records;
            next - records
        };
        let firsts: Vec<u64> = self.known.iter().map(|part| first(part.0)).collect();
        match asked(&firsts)? {
            (sum, same) if same == order => Ok(sum),
            _ => Err(PartitionsError::Reordered),
        }
    }
}

impl sealed::Sealed for RemoteRecords {}

impl RecordSet for RemoteRecords {
    type Error = ReadError;
    const IN_MEMORY: bool = false;

    fn len(&self) -> usize {
        self.known.iter().map(|part| part.0).sum::<u64>() as usize
    }

    fn ask(&self, query: &mut dyn FnMut() -> Vec<u8>, width: usize) -> Option<Result<Vec<i64>, ReadError>> {
        Some(self.sum(&query(), width).map_err(ReadError::from))
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn ask_sample(
        &self,
        query: &mut dyn FnMut(&[u64]) -> Vec<u8>,
        width: usize,
    ) -> Option<Result<Vec<i64>, ReadError>> {
        Some(self.sum_of_sample(query, width).map_err(ReadError::from))
    }
}

impl Records for RemoteRecords {
    fn columns(&self) -> usize {
        self.columns
    }

    fn norm_bound(&self) -> f64 {
        self.norm_bound
    }

    fn of_a_unit(&self) -> u64 {
        1
    }

    fn record<'a>(&'a self, _: usize, _: &'a mut RecordBuffer) -> Result<Record<'a>, ReadError> {
        Err(PartitionsError::Single.into())
    }
}

#[cfg(test)]
mod tests {
    use super::super::partitions::PartitionsFailed;
    use super::*;
    use std::sync::Mutex;

    /// Answers as they are.
    struct Reply(Vec<(u64, u32, (u64, u64), Vec<i64>)>);

    impl Partitions for Reply {
        fn ask(&self, _: &[u8]) -> Result<Vec<Vec<u8>>, PartitionsFailed> {
            if self.0.is_empty() {
                return Err(PartitionsFailed);
            }
            Ok(self
                .0
                .iter()
                .cloned()
                .map(|(q, part, n, units)| PartialSum::new(q, part, n, units).to_bytes())
                .collect())
        }
    }

    fn sum(answers: &[(u32, u64, i64)]) -> Result<Vec<i64>, PartitionsError> {
        let asked = fingerprint(b"how many");
        let said = answers.iter().map(|&(part, records, units)| (asked, part, (records, 7), vec![units])).collect();
        RemoteRecords::new(Arc::new(Reply(said)), vec![(3, 7), (0, 7), (5, 7)], 1, 1.0).sum(b"how many", 1)
    }

    #[test]
    fn each_part_counts_once_whatever_the_order_and_however_often_it_answers() {
        for answers in [
            vec![(0, 3, 10), (1, 0, 0), (2, 5, -4)],
            vec![(2, 5, -4), (1, 0, 0), (0, 3, 10)],
            vec![(2, 5, -4), (0, 3, 10), (2, 5, -4), (1, 0, 0), (0, 3, 10)],
        ] {
            assert_eq!(sum(&answers), Ok(vec![6]));
        }
    }

    /// Answers with what it was asked for, and an order.
    struct Ordered(Mutex<Vec<i64>>);

    impl Partitions for Ordered {
        fn ask(&self, query: &[u8]) -> Result<Vec<Vec<u8>>, PartitionsFailed> {
            let order = self.0.lock().unwrap().remove(0);
            let of = |part: u32| PartialSum::new(fingerprint(query), part, (4, 7), vec![i64::from(part), order]);
            Ok([0, 1].map(|part| of(part).to_bytes()).into())
        }
    }

    #[test]
    fn a_sample_is_of_places_that_stay() {
        let sums = |orders: Vec<i64>| {
            let parts = Arc::new(Ordered(Mutex::new(orders)));
            let remote = RemoteRecords::new(parts, vec![(4, 7), (4, 7)], 1, 1.0);
            let mut asked = Vec::new();
            let mut next = || {
                remote.sum_of_sample(
                    &mut |firsts| {
                        asked.push(firsts.to_vec());
                        b"whom".to_vec()
                    },
                    1,
                )
            };
            let both = (next(), next());
            (both, asked)
        };
        // a look at the order, and two sums
        let ((first, second), asked) = sums(vec![5, 5, 5]);
        assert_eq!((first, second), (Ok(vec![1]), Ok(vec![1])));
        assert_eq!(asked, [vec![], vec![0, 4], vec![0, 4]]);
        assert_eq!(sums(vec![5, 5, 6]).0, (Ok(vec![1]), Err(PartitionsError::Reordered)));
        assert_eq!(sums(vec![5, 6, 5]).0, (Err(PartitionsError::Reordered), Ok(vec![1])));
    }

    #[test]
    fn what_is_not_one_answer_from_each_part_is_no_sum() {
        assert_eq!(sum(&[]), Err(PartitionsError::Failed));
        assert_eq!(sum(&[(0, 3, 10), (2, 5, -4)]), Err(PartitionsError::Missing { part: 1 }));
        assert_eq!(sum(&[(0, 3, 10), (1, 0, 0), (2, 5, -4), (0, 3, 11)]), Err(PartitionsError::Differs { part: 0 }));
        assert_eq!(sum(&[(0, 4, 10), (1, 0, 0), (2, 5, -4)]), Err(PartitionsError::Changed { part: 0 }));
        assert_eq!(sum(&[(0, 3, 10), (1, 0, 0), (2, 5, -4), (3, 1, 1)]), Err(PartitionsError::Changed { part: 3 }));
        let other = Reply(vec![(fingerprint(b"something else"), 0, (3, 7), vec![1])]);
        assert_eq!(
            RemoteRecords::new(Arc::new(other), vec![(3, 7)], 1, 1.0).sum(b"how many", 1),
            Err(PartitionsError::Malformed)
        );
        // as many records, but others
        let other = Reply(vec![(fingerprint(b"how many"), 0, (3, 8), vec![1])]);
        assert_eq!(
            RemoteRecords::new(Arc::new(other), vec![(3, 7)], 1, 1.0).sum(b"how many", 1),
            Err(PartitionsError::Changed { part: 0 })
        );
        let long = Reply(vec![(fingerprint(b"how many"), 0, (3, 7), vec![1, 2])]);
        assert_eq!(
            RemoteRecords::new(Arc::new(long), vec![(3, 7)], 1, 1.0).sum(b"how many", 1),
            Err(PartitionsError::Malformed)
        );
    }
}
