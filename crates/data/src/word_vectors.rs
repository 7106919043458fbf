//! Vectors of words that are public, and what they make of a text: its words' vectors, weighted, added up, less what all texts share.
//!
//! Everything here comes from a public file and from one text: words that are frequent in the file's language count less (Arora, Liang and Ma
//! 2017: a/(a + p), p by Zipf's law from the word's place in the file), the mean that this gives to texts is taken away, and directions along which
//! all texts vary are shortened, so that the norm that a row may have is not spent on what texts have in common.

mod reader;
#[cfg(test)]
mod tests;

pub(crate) use reader::MAX_DIMENSIONS;

use super::error::DataError;
use super::text::Tokens;
use dpopt_objective::solver::Spectrum;
use nalgebra::DMatrix;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// A word of probability a counts half.
const HALF_WEIGHT: f64 = 1e-2;
/// Zipf and Mandelbrot: the word at place r (from 0) has a probability in proportion to 1/(r + 2.7).
const ZIPF_SHIFT: f64 = 2.7;
/// A direction with second moment m is divided by m to the power of this: 0 leaves it, ½ makes all equally strong. In between what texts have
/// in common does not take the norm, and what is noise in the vectors does not get it (docs/decisions/0012).
const WHITENING: f64 = 0.25;
/// Moments are made larger by this part of the largest before that, so that rounding decides nothing.
const FLOOR: f64 = 1e-6;
/// Words that means and moments are taken over: rarer ones have little weight together.
const MAX_COUNTED: usize = 1 << 15;

/// Public vectors, one for each word.
#[derive(Debug)]
pub struct WordVectors {
    name: String,
    fingerprint: String,
    dimension: usize,
    places: HashMap<Box<str>, u32>,
    /// Words × dimension, as in the file.
    values: Vec<f32>,
    /// a/(a + p) of each word.
    weights: Vec<f64>,
    /// What a word of weight 1 has on average.
    mean: Vec<f64>,
    /// Dimension × dimension, symmetric: a sum of words less their means is multiplied by it.
    shortening: DMatrix<f64>,
    /// Second moments of texts along their directions, were their words drawn by their probabilities: falling, of sum 1.
    moments: Vec<f64>,
}

/// What a file of vectors holds.
struct Read {
    fingerprint: String,
    dimension: usize,
    places: HashMap<Box<str>, u32>,
    values: Vec<f32>,
    /// Place in the file of each word, from 0.
    ranks: Vec<u32>,
    /// Whether words stand in the order of the alphabet, so that places say nothing.
    alphabetical: bool,
}

impl WordVectors {
    /// Reads a public file: a word and its numbers on every line, as GloVe writes it, with or without a first line `words dimension`, as word2vec and
    /// fastText do; also gzipped. Words are read as those of texts are (lower case, a run of digits as its length); of equal ones the first counts.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, DataError> {
        let path = path.as_ref();
        let name = path.file_name().map_or_else(|| path.to_string_lossy(), |n| n.to_string_lossy());
        Self::prepared(super::error::one_line(&name), reader::read_path(path)?)
    }

    /// Reads the content `bytes` of a public file of word vectors, called `name` in messages, in the format of [`open`](Self::open).
    pub fn from_bytes(name: &str, bytes: Vec<u8>) -> Result<Self, DataError> {
        Self::prepared(super::error::one_line(name), reader::read_bytes(name, bytes)?)
    }

    fn prepared(name: String, read: Read) -> Result<Self, DataError> {
        let Read { fingerprint, dimension, places, values, ranks, alphabetical } = read;
        let probabilities = probabilities(&ranks, alphabetical);
        let weights: Vec<f64> = probabilities.iter().map(|p| HALF_WEIGHT / (HALF_WEIGHT + p)).collect();
        let counted = weights.len().min(MAX_COUNTED);
        let word = |at: usize| &values[at * dimension..][..dimension];
        let mut mean = vec![0.0; dimension];
        let mut total = 0.0;
        for at in 0..counted {
            let weight = probabilities[at] * weights[at];
            total += weight;
            mean.iter_mut().zip(word(at)).for_each(|(m, v)| *m += weight * f64::from(*v));
        }
        mean.iter_mut().for_each(|m| *m /= total);
        let centred = DMatrix::from_fn(dimension, counted, |d, at| {
            probabilities[at].sqrt() * weights[at] * (f64::from(word(at)[d]) - mean[d])
        });
        let second = &centred * centred.transpose();
        let unusable = || DataError::WordVectors {
            source_name: name.clone(),
            reason: "its vectors are all equal, or too large or too small to be told apart; give trained vectors"
                .into(),
        };
        let (shortening, moments) = shortened(&second).ok_or_else(unusable)?;
        Ok(Self { name, fingerprint, dimension, places, values, weights, mean, shortening, moments })
    }

    /// The file's name, without its directory.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A hash of what the file holds, unzipped: the same vectors have the same.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Numbers per word.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// Number of words.
    pub fn words(&self) -> usize {
        self.weights.len()
    }

    /// Second moments of texts of norm 1 along their directions, to be expected of the file's words: falling, of sum 1.
    pub(crate) fn moments(&self) -> &[f64] {
        &self.moments
    }

    /// The vector of a text, of norm 1; of norm 0 if none of its words has one. A word that is repeated counts by the square root.
    pub(crate) fn pool(&self, tokens: &Tokens, pooled: &mut Pooled) {
        let Pooled { places, sum, vector } = pooled;
        places.clear();
        places.extend(tokens.iter().filter_map(|token| self.places.get(token)).map(|place| *place as usize));
        places.sort_unstable();
        sum.clear();
        sum.resize(self.dimension, 0.0);
        vector.clear();
        vector.resize(self.dimension, 0.0);
        for run in places.chunk_by(|a, b| a == b) {
            let weight = self.weights[run[0]] * (run.len() as f64).sqrt();
            let word = &self.values[run[0] * self.dimension..][..self.dimension];
            let parts = sum.iter_mut().zip(word).zip(&self.mean);
            parts.for_each(|((s, v), m)| *s += weight * (f64::from(*v) - m));
        }
        for (d, s) in sum.iter().enumerate().filter(|(_, s)| **s != 0.0) {
            // symmetric: a column is a row, and lies together in memory
            vector.iter_mut().zip(self.shortening.column(d).iter()).for_each(|(v, m)| *v += s * m);
        }
        let norm = vector.iter().map(|v| v * v).sum::<f64>().sqrt();
        let scale = if norm > 0.0 && norm.is_finite() { 1.0 / norm } else { 0.0 };
        vector.iter_mut().for_each(|v| *v = if scale == 0.0 { 0.0 } else { *v * scale });
    }
}

impl PartialEq for WordVectors {
    fn eq(&self, other: &Self) -> bool {
        self.fingerprint == other.fingerprint
    }
}

/// Buffers of [`WordVectors::pool`], and what it gives.
#[derive(Debug, Default)]
pub(crate) struct Pooled {
    places: Vec<usize>,
    sum: Vec<f64>,
    /// One number per dimension.
    pub(crate) vector: Vec<f64>,
}

/// Probability of each word, from its place in the file; equal for all where places say nothing.
fn probabilities(ranks: &[u32], alphabetical: bool) -> Vec<f64> {
    let frequency = |rank: &u32| if alphabetical { 1.0 } else { 1.0 / (f64::from(*rank) + ZIPF_SHIFT) };
    let all: f64 = ranks.iter().map(frequency).sum();
    ranks.iter().map(|rank| frequency(rank) / all).collect()
}

/// C^(−w) of second moments C, and the moments that are then left in falling order; nothing where there are none. A function of C that is
/// continuous: two machines that round differently get nearly the same.
fn shortened(second: &DMatrix<f64>) -> Option<(DMatrix<f64>, Vec<f64>)> {
    let dimension = second.nrows();
    let spectrum = Spectrum::of(second.as_slice(), dimension)?;
    let values = spectrum.eigenvalues();
    let largest = values.iter().copied().fold(0.0, f64::max);
    if !largest.is_normal() {
        return None;
    }
    let factor: Vec<f64> = values.iter().map(|v| (v.max(0.0) / largest + FLOOR).powf(-WHITENING)).collect();
    let vectors = DMatrix::from_fn(dimension, dimension, |i, k| spectrum.vector(k)[i]);
    let scaled = DMatrix::from_fn(dimension, dimension, |i, k| vectors[(i, k)] * factor[k] / largest.sqrt());
    let shortening = scaled * vectors.transpose();
    let mut moments: Vec<f64> = values.iter().zip(&factor).map(|(v, f)| v.max(0.0) / largest * f * f).collect();
    moments.sort_unstable_by(|a, b| b.total_cmp(a));
    let all: f64 = moments.iter().sum();
    moments.iter_mut().for_each(|m| *m /= all);
    Some((shortening, moments))
}

/// A public file of vectors that is read when it is needed first, once for all copies.
#[derive(Clone, Debug)]
pub struct VectorsFile {
    path: PathBuf,
    read: Arc<OnceLock<Arc<WordVectors>>>,
}

impl PartialEq for VectorsFile {
    fn eq(&self, other: &Self) -> bool {
        self.path == other.path
    }
}

impl VectorsFile {
    /// A file that is not read yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), read: Arc::default() }
    }

    /// Path of the file of vectors.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The vectors of the file, which is read at the first call.
    pub fn vectors(&self) -> Result<Arc<WordVectors>, DataError> {
        if let Some(vectors) = self.read.get() {
            return Ok(vectors.clone());
        }
        let vectors = Arc::new(WordVectors::open(&self.path)?);
        Ok(self.read.get_or_init(|| vectors).clone())
    }
}
