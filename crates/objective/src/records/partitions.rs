//! Who holds remote records, and what can go wrong there.

use thiserror::Error;

/// Who holds the partitions: a cluster, other processes, this one.
pub trait Partitions: Send + Sync {
    /// The bytes of a [`PartialSum`](super::PartialSum) from every part, in any order: the answer of its records to `question`. One that comes twice,
    /// because a task was tried again or in two places at once, counts once.
    ///
    /// # Errors
    /// If a part can't be asked, whatever it holds; what went wrong the engine tells its operator itself.
    fn ask(&self, query: &[u8]) -> Result<Vec<Vec<u8>>, PartitionsFailed>;
}

/// An engine could not ask all partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the engine that holds the records failed")]
pub struct PartitionsFailed;

/// Why the answers of partitions are no sum. It names no value; that records are other ones than before, or in another order, may show in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PartitionsError {
    /// The engine gave up.
    #[error("the engine that holds the records failed on some partitions; see its log")]
    Failed,
    /// A partition did not answer.
    #[error("partition {part} was lost by the engine and did not answer, so that the sum is incomplete; run again")]
    Missing {
        /// Number of the partition.
        part: u32,
    },
    /// An unknown partition, or other records than before.
    #[error(
        "partition {part} changed since the fit began; persist or cache the data, and sort data that have no fixed \
         order"
    )]
    Changed {
        /// Number of the partition.
        part: u32,
    },
    /// A partition answered twice, differently.
    #[error(
        "partition {part} gave two different answers to one query; persist or cache the data, so that its \
             records stay the same"
    )]
    Differs {
        /// Number of the partition.
        part: u32,
    },
    /// A partition has its records in another order than before, and a sample consists of places.
    #[error(
        "the records of a partition changed their order, and a sample is drawn by position; persist or sort the \
         data, or choose a method that reads all records in every pass"
    )]
    Reordered,
    /// What came back is not an answer.
    #[error(
        "a partition returned an answer that does not fit the query; install the same version of dpopt \
             everywhere"
    )]
    Malformed,
    /// A record was asked for.
    #[error(
        "this needs single records, and remote records answer with sums only; choose another method, or bring \
             the records to one place"
    )]
    Single,
}
