//! A stream of random bits: ChaCha with fast key erasure (secure) or with a plain counter (insecure seed);
//! docs/proofs/streams.md.
use crate::chacha::{WORDS_PER_CALL, keystream};
use rand::rand_core::{Infallible, TryCryptoRng, TryRng};
use zeroize::Zeroize;

/// Words of a full buffer: 16 KiB.
const BUFFER: usize = 16 * WORDS_PER_CALL;
/// 64-bit words of a key.
const KEY_WORDS: usize = 4;

/// Distinguishes a forked child from its parent.
pub(crate) fn fork_mark() -> u64 {
    u64::from(std::process::id())
}

enum Mode {
    /// ChaCha20; the first 32 bytes of each buffer become the next key (Bernstein 2017), in the process of this mark.
    Secure(u64),
    /// ChaCha12 from this block on.
    Insecure(u64),
}

/// Random bits of one address. Implements [`rand::Rng`]; neither printable nor cloneable; wiped when dropped.
pub struct Stream {
    key: [u32; 8],
    nonce: u64,
    mode: Mode,
    /// Unread words are `buffer[position..]`; read words are wiped at the latest with the next refill.
    buffer: Vec<u64>,
    position: usize,
}

impl Stream {
    pub(crate) fn secure(key: &mut [u8; 32]) -> Self {
        Self::new(key, Mode::Secure(fork_mark()))
    }

    /// A stream that anyone can draw who knows the key, which is wiped: for public randomness, and for tests.
    pub fn insecure(key: &mut [u8; 32]) -> Self {
        Self::new(key, Mode::Insecure(0))
    }

    fn new(bytes: &mut [u8; 32], mode: Mode) -> Self {
        let mut key = [0u32; 8];
        for (word, part) in key.iter_mut().zip(bytes.chunks_exact(4)) {
            *word = u32::from_le_bytes([part[0], part[1], part[2], part[3]]);
        }
        bytes.zeroize();
        Self { key, nonce: 0, mode, buffer: Vec::new(), position: 0 }
    }

    /// An independent stream of the same kind whose key is drawn from this one.
    fn child(&mut self) -> Self {
        let mut key = [0u8; 32];
        for part in key.chunks_exact_mut(8) {
            part.copy_from_slice(&self.word().to_le_bytes());
        }
        match self.mode {
            Mode::Secure(_) => Self::secure(&mut key),
            Mode::Insecure(_) => Self::insecure(&mut key),
        }
    }

    /// Independent streams for parts 0, 1, 2, … of a larger job: whatever thread takes a part, the bits are the same.
    pub fn parts(&mut self) -> Parts {
        Parts { parent: self.child() }
    }

    #[cold]
    fn refill(&mut self) {
        // small jobs need few words; long ones get full buffers. The buffer never reallocates after it is full, and what
        // it held is wiped by overwriting.
        let words = (2 * self.buffer.len()).clamp(WORDS_PER_CALL, BUFFER);
        if words != self.buffer.len() {
            self.buffer.zeroize();
            self.buffer = vec![0; words];
        }
        match &mut self.mode {
            Mode::Secure(mark) => {
                let here = fork_mark();
                if *mark != here {
                    *mark = here;
                    self.key = rekeyed(&self.key, here);
                }
                keystream::<10>(&self.key, self.nonce, 0, &mut self.buffer);
                for (pair, word) in self.key.chunks_exact_mut(2).zip(&mut self.buffer[..KEY_WORDS]) {
                    pair[0] = *word as u32;
                    pair[1] = (*word >> 32) as u32;
                    *word = 0;
                }
                self.position = KEY_WORDS;
            }
            Mode::Insecure(block) => {
                keystream::<6>(&self.key, self.nonce, *block, &mut self.buffer);
                *block += (words / 8) as u64;
                self.position = 0;
            }
        }
    }

    /// The next 64 random bits.
    #[inline]
    pub fn word(&mut self) -> u64 {
        if self.position == self.buffer.len() {
            self.refill();
        }
        let word = self.buffer[self.position];
        self.position += 1;
        word
    }

    /// The unread words, at least one.
    #[inline]
    pub(crate) fn unread(&mut self) -> &[u64] {
        if self.position == self.buffer.len() {
            self.refill();
        }
        &self.buffer[self.position..]
    }

    /// Marks `count` of the [`unread`](Self::unread) words as used and wipes them.
    #[inline]
    pub(crate) fn consume(&mut self, count: usize) {
        self.buffer[self.position..self.position + count].fill(0);
        self.position += count;
    }

    /// A uniformly random integer in 0..`bound`, without bias (multiply, reject the remainder; Lemire 2019).
    ///
    /// # Panics
    /// If `bound` is 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "an integer below 0 was asked for; the bound must be at least 1");
        let mut product = u128::from(self.word()) * u128::from(bound);
        if (product as u64) < bound {
            // 2^64 mod bound of the low halves would be hit once too often
            let biased = bound.wrapping_neg() % bound;
            while (product as u64) < biased {
                product = u128::from(self.word()) * u128::from(bound);
            }
        }
        (product >> 64) as u64
    }

    /// A fair coin.
    #[inline]
    pub fn coin(&mut self) -> bool {
        self.word() >> 63 == 1
    }

    /// A uniformly random ordering of `items` (Fisher–Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
}

/// A key for a forked child: depends on the old key, the process and, where available, new bytes of the system.
fn rekeyed(key: &[u32; 8], mark: u64) -> [u32; 8] {
    let mut old = [0u8; 32];
    for (part, word) in old.chunks_exact_mut(4).zip(key) {
        part.copy_from_slice(&word.to_le_bytes());
    }
    let mut fresh = [0u8; 32];
    let _ = getrandom::fill(&mut fresh);
    let mut hash = blake3::Hasher::new_keyed(&old);
    hash.update(&mark.to_le_bytes()).update(&fresh);
    let new: [u8; 32] = hash.finalize().into();
    old.zeroize();
    fresh.zeroize();
    std::array::from_fn(|i| u32::from_le_bytes([new[4 * i], new[4 * i + 1], new[4 * i + 2], new[4 * i + 3]]))
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.key.zeroize();
        self.buffer.zeroize();
    }
}

impl TryRng for Stream {
    type Error = Infallible;

    #[inline]
    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(self.word() as u32)
    }

    #[inline]
    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.word())
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        let mut whole = bytes.chunks_exact_mut(8);
        loop {
            let mut used = 0;
            for (&word, part) in self.unread().iter().zip(&mut whole) {
                part.copy_from_slice(&word.to_le_bytes());
                used += 1;
            }
            if used == 0 {
                break;
            }
            self.consume(used);
        }
        let rest = whole.into_remainder();
        if !rest.is_empty() {
            let word = self.word().to_le_bytes();
            rest.copy_from_slice(&word[..rest.len()]);
        }
        Ok(())
    }
}

impl TryCryptoRng for Stream {}

/// Streams for the parts of one job, see [`Stream::parts`]. Each part may be taken once.
pub struct Parts {
    parent: Stream,
}

impl Parts {
    /// The stream of part `index`. Asking twice for one index repeats its bits: callers take each index once.
    pub fn stream(&self, index: u64) -> Stream {
        let mode = match self.parent.mode {
            Mode::Secure(mark) => Mode::Secure(mark),
            Mode::Insecure(_) => Mode::Insecure(0),
        };
        Stream { key: self.parent.key, nonce: index, mode, buffer: Vec::new(), position: 0 }
    }

    /// All `count` streams, in order.
    pub fn take(self, count: u64) -> Vec<Stream> {
        (0..count).map(|index| self.stream(index)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NoiseSource, Purpose};
    use rand::Rng;

    #[test]
    fn buffers_of_any_size_give_one_sequence() {
        // the insecure stream is the plain key stream, whatever the refill sizes
        let mut stream = NoiseSource::insecure(3).stream(Purpose::Audit, 0);
        let key = stream.key;
        let got: Vec<u64> = (0..3 * BUFFER).map(|_| stream.next_u64()).collect();
        let mut expected = vec![0; 3 * BUFFER];
        keystream::<6>(&key, 0, 0, &mut expected);
        assert_eq!(got, expected);
    }

    #[test]
    fn secure_keys_are_erased() {
        let mut stream = NoiseSource::secure().unwrap().stream(Purpose::Audit, 0);
        let before = stream.key;
        let first = stream.word();
        assert_ne!(before, stream.key);
        let unread = stream.unread().len();
        stream.consume(unread);
        assert!(stream.buffer.iter().skip(KEY_WORDS + 1).all(|&w| w == 0), "consumed words are wiped");
        // one of 2^64, and below one of so many words: 1e-16 in all
        assert_ne!(first, 0);
        // a later key does not give back the earlier buffer
        let mut replay = vec![0; BUFFER];
        keystream::<10>(&stream.key, 0, 0, &mut replay);
        assert!(!replay.contains(&first));
    }

    #[test]
    fn a_forked_child_draws_other_bits() {
        let mut parent = Stream::new(&mut [9; 32], Mode::Secure(fork_mark()));
        let mut child = Stream::new(&mut [9; 32], Mode::Secure(fork_mark() + 1)); // as after fork: same key, other process
        assert_ne!(parent.word(), child.word());
    }

    #[test]
    fn integers_below_a_bound_are_uniform() {
        // 3·2^62: plain multiply-shift without rejection would give weights 2:1:1 to residues; chi-square on thirds
        let mut stream = NoiseSource::insecure(11).stream(Purpose::Audit, 0);
        let bound = 3u64 << 62;
        let mut counts = [0u32; 12];
        let n = 120_000;
        for _ in 0..n {
            counts[(stream.below(bound) / (bound / 12)) as usize] += 1;
        }
        let expected = f64::from(n) / 12.0;
        let chi2: f64 = counts.iter().map(|&c| (f64::from(c) - expected).powi(2) / expected).sum();
        assert!(chi2 < 51.0, "chi-square {chi2} with 11 degrees of freedom, false alarm 4e-7");
        assert_eq!(stream.below(1), 0);
    }

    #[test]
    fn parts_are_independent_and_reproducible() {
        let take = || {
            let mut stream = NoiseSource::insecure(2).stream(Purpose::Noise, 0);
            let first: Vec<u64> = stream.parts().take(3).iter_mut().map(|s| s.next_u64()).collect();
            let second: Vec<u64> = stream.parts().take(3).iter_mut().map(|s| s.next_u64()).collect();
            [first, second].concat()
        };
        let words = take();
        assert_eq!(words, take());
        let mut distinct = words.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), words.len());
    }
}
