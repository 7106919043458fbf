//! Who holds records that are elsewhere, and what can go wrong there.

use thiserror::Error;

/// Who holds the parts: a cluster, other processes, this one.
pub trait Parts: Send + Sync {
    /// The bytes of a [`PartialSum`](super::PartialSum) from every part, in any order: the answer of its records to `question`. One that comes twice,
    /// because a task was tried again or in two places at once, counts once.
    ///
    /// # Errors
    /// If a part can't be asked, whatever it holds; what went wrong the engine tells its operator itself.
    fn ask(&self, question: &[u8]) -> Result<Vec<Vec<u8>>, PartsFailed>;
}

/// An engine could not ask all parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the engine that holds the records failed")]
pub struct PartsFailed;

/// Why the answers of parts are no sum. It names no value; that records are other ones than before, or in another order, may show in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PartsError {
    /// The engine gave up.
    #[error("the engine that holds the records could not ask all of them; its own log says why")]
    Failed,
    /// A part did not answer.
    #[error("part {part} did not answer; the engine lost it, and a sum without it would be a sum of other records")]
    Missing {
        /// Which.
        part: u32,
    },
    /// A part that nobody knows, or other records than before.
    #[error(
        "part {part} does not hold the records that it held when the fit began; partitions have to stay as they are: persist or cache the data, and \
         sort what is not in a fixed order"
    )]
    Changed {
        /// Which.
        part: u32,
    },
    /// A part answered twice, differently.
    #[error("part {part} answered twice, and not the same; its records have to be the same whenever it is computed")]
    Differs {
        /// Which.
        part: u32,
    },
    /// A part has its records in another order than before, and a sample is of places.
    #[error(
        "the records of a part came in another order than before, and a secret sample is drawn by their places: persist or sort the data, or take a method \
         that reads all records in every pass"
    )]
    Reordered,
    /// What came back is not an answer.
    #[error("what a part sent back is no answer to what was asked; install the same version of dpopt everywhere")]
    Malformed,
    /// A record was asked for.
    #[error("the records are elsewhere, and this asks for single ones")]
    Single,
}
