//! Records that are elsewhere, in parts: each part answers questions with its own sums, which are merged here.

use super::partial_sum::{PartialSum, fingerprint};
use super::parts::{Parts, PartsError};
use super::spill::{ReadError, Record, RecordBuffer, RecordSet, Records, sealed};
use std::sync::Arc;

/// Rows in parts elsewhere, each of known size. There are sums of them, and no single one can be read.
pub struct Elsewhere {
    parts: Arc<dyn Parts>,
    /// What every question begins with.
    context: Vec<u8>,
    /// How many records each part has, and a digest of what they hold.
    known: Vec<(u64, u64)>,
    columns: usize,
    norm_bound: f64,
}

impl Elsewhere {
    /// Rows of `columns` entries and l2 norm at most `norm_bound`, which whoever encoded them enforced, in parts of which is `known` how many records
    /// each has and a digest of what they hold: what a part answers counts only as long as it is the same records.
    pub fn new(parts: Arc<dyn Parts>, known: Vec<(u64, u64)>, columns: usize, norm_bound: f64) -> Self {
        Self { parts, context: Vec::new(), known, columns, norm_bound }
    }

    /// Every question begins with these bytes, which say how its records are to be read.
    pub fn read_as(self, context: Vec<u8>) -> Self {
        Self { context, ..self }
    }

    /// Σ of what all parts answer, `width` integers: of each part once, or nothing.
    fn sum(&self, question: &[u8], width: usize) -> Result<Vec<i64>, PartsError> {
        let mut sum = vec![0; width];
        // of each part that has answered, what it said
        let mut said: Vec<Option<u64>> = vec![None; self.known.len()];
        let message = [&self.context, question].concat();
        let asked = fingerprint(&message);
        for bytes in self.parts.ask(&message).map_err(|_| PartsError::Failed)? {
            let answer = PartialSum::from_bytes(&bytes).map_err(|_| PartsError::Malformed)?;
            if answer.question() != asked || answer.width() != width {
                return Err(PartsError::Malformed);
            }
            let part = answer.part();
            if self.known.get(part as usize) != Some(&answer.records()) {
                return Err(PartsError::Changed { part });
            }
            let content = fingerprint(&bytes);
            match said[part as usize].replace(content) {
                Some(first) if first != content => return Err(PartsError::Differs { part }),
                Some(_) => {}
                None => answer.add_to(&mut sum),
            }
        }
        match said.iter().position(Option::is_none) {
            Some(part) => Err(PartsError::Missing { part: part as u32 }),
            None => Ok(sum),
        }
    }
}

impl sealed::Sealed for Elsewhere {}

impl RecordSet for Elsewhere {
    type Error = ReadError;
    const IN_MEMORY: bool = false;

    fn len(&self) -> usize {
        self.known.iter().map(|part| part.0).sum::<u64>() as usize
    }

    fn told_by_sums(&self) -> bool {
        true
    }

    fn ask(&self, question: &mut dyn FnMut() -> Vec<u8>, width: usize) -> Option<Result<Vec<i64>, ReadError>> {
        Some(self.sum(&question(), width).map_err(ReadError::from))
    }
}

impl Records for Elsewhere {
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
        Err(PartsError::Single.into())
    }
}

#[cfg(test)]
mod tests {
    use super::super::parts::PartsFailed;
    use super::*;

    /// Answers as they are.
    struct Said(Vec<(u64, u32, (u64, u64), Vec<i64>)>);

    impl Parts for Said {
        fn ask(&self, _: &[u8]) -> Result<Vec<Vec<u8>>, PartsFailed> {
            if self.0.is_empty() {
                return Err(PartsFailed);
            }
            Ok(self
                .0
                .iter()
                .cloned()
                .map(|(q, part, n, units)| PartialSum::new(q, part, n, units).to_bytes())
                .collect())
        }
    }

    fn sum(answers: &[(u32, u64, i64)]) -> Result<Vec<i64>, PartsError> {
        let asked = fingerprint(b"how many");
        let said = answers.iter().map(|&(part, records, units)| (asked, part, (records, 7), vec![units])).collect();
        Elsewhere::new(Arc::new(Said(said)), vec![(3, 7), (0, 7), (5, 7)], 1, 1.0).sum(b"how many", 1)
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

    #[test]
    fn what_is_not_one_answer_from_each_part_is_no_sum() {
        assert_eq!(sum(&[]), Err(PartsError::Failed));
        assert_eq!(sum(&[(0, 3, 10), (2, 5, -4)]), Err(PartsError::Missing { part: 1 }));
        assert_eq!(sum(&[(0, 3, 10), (1, 0, 0), (2, 5, -4), (0, 3, 11)]), Err(PartsError::Differs { part: 0 }));
        assert_eq!(sum(&[(0, 4, 10), (1, 0, 0), (2, 5, -4)]), Err(PartsError::Changed { part: 0 }));
        assert_eq!(sum(&[(0, 3, 10), (1, 0, 0), (2, 5, -4), (3, 1, 1)]), Err(PartsError::Changed { part: 3 }));
        let other = Said(vec![(fingerprint(b"something else"), 0, (3, 7), vec![1])]);
        assert_eq!(
            Elsewhere::new(Arc::new(other), vec![(3, 7)], 1, 1.0).sum(b"how many", 1),
            Err(PartsError::Malformed)
        );
        // as many records, but others
        let other = Said(vec![(fingerprint(b"how many"), 0, (3, 8), vec![1])]);
        assert_eq!(
            Elsewhere::new(Arc::new(other), vec![(3, 7)], 1, 1.0).sum(b"how many", 1),
            Err(PartsError::Changed { part: 0 })
        );
        let long = Said(vec![(fingerprint(b"how many"), 0, (3, 7), vec![1, 2])]);
        assert_eq!(
            Elsewhere::new(Arc::new(long), vec![(3, 7)], 1, 1.0).sum(b"how many", 1),
            Err(PartsError::Malformed)
        );
    }
}
