//! Where randomness comes from: one [`NoiseSource`] per run, one [`Stream`] per use (docs/proofs/streams.md).
//!
//! A secure source is keyed by the operating system. Every stream gets a fresh key, made from the run's key and new
//! bytes of the operating system, and the run's key is replaced at once (fast key erasure), so neither a restored
//! virtual machine, nor a forked process, nor a later look into memory can replay a stream.
//! An insecure source is a pure function of (seed, purpose, pass, step) and exists for tests.
use crate::stream::{Stream, fork_mark};
use rand::Rng as _;
use std::collections::BTreeMap;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// What a stream is drawn for. Different purposes never share random bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Purpose {
    /// Noise of a release.
    Noise,
    /// Which records enter a batch (secret: amplification by sampling needs it).
    Batch,
    /// BudgetSplit of records into parts.
    Split,
    /// Private selection: noisy max, exponential mechanism, above-threshold.
    Selection,
    /// Starting points of optimisers and chains.
    Initialisation,
    /// Steps of a sampler (log-concave sampling, rejection oracles).
    Sampling,
    /// Audits and tests of the output law.
    Audit,
    /// Deferred noise of coordinates touched at a step.
    Touch,
    /// Deferred noise of all coordinates at the end.
    Flush,
    /// Tree and other correlated noise.
    Correlated,
    /// The key of a source for a part of a run.
    Child,
    /// A further purpose of the caller, by number.
    Other(u32),
}

impl Purpose {
    /// A fixed number per purpose; part of the address in insecure mode, so never change it.
    fn code(self) -> u64 {
        match self {
            Purpose::Noise => 1,
            Purpose::Batch => 2,
            Purpose::Split => 3,
            Purpose::Selection => 4,
            Purpose::Initialisation => 5,
            Purpose::Sampling => 6,
            Purpose::Audit => 7,
            Purpose::Touch => 8,
            Purpose::Flush => 9,
            Purpose::Correlated => 10,
            Purpose::Child => 11,
            Purpose::Other(n) => 1 << 32 | u64::from(n),
        }
    }
}

/// The operating system gave no random bytes.
#[derive(Debug, thiserror::Error)]
#[error(
    "the operating system gave no random bytes ({0}), so that no noise can be drawn and nothing is released; \
         check its random number generator"
)]
pub struct EntropyError(#[from] getrandom::Error);

/// Key material: wiped when dropped.
#[derive(Zeroize, ZeroizeOnDrop)]
struct Key([u8; 32]);

enum Root {
    /// The run's key, replaced after each stream.
    Secure(Key),
    Insecure(u64),
}

/// The randomness of one run. Neither printable, nor cloneable, nor serialisable: a checkpoint can't hold a key, and a
/// resumed run starts from a new source.
///
/// ```
/// use dpopt_noise::{NoiseSource, Purpose};
/// let mut source = NoiseSource::secure()?;
/// let mut stream = source.stream(Purpose::Noise, 0);
/// let die = 1 + stream.below(6);
/// assert!((1..=6).contains(&die));
/// # Ok::<(), dpopt_noise::EntropyError>(())
/// ```
/// A source has no `Debug`, and is never the same stream twice; what is left out here compiles:
/// ```compile_fail,E0277
/// let source = dpopt_noise::NoiseSource::insecure(1);
/// println!("{source:?}");
/// ```
/// ```compile_fail,E0599
/// let source = dpopt_noise::NoiseSource::insecure(1);
/// let twin = source.clone();
/// ```
/// ```
/// let source = dpopt_noise::NoiseSource::insecure(1);
/// let moved = source;
/// ```
pub struct NoiseSource {
    root: Root,
    /// Per purpose the last consumed (pass, step). Addresses only move forward.
    last: BTreeMap<Purpose, (u64, u64)>,
}

impl NoiseSource {
    /// A source for real releases, keyed by 32 bytes of the operating system.
    ///
    /// # Errors
    /// If the operating system has no entropy source.
    pub fn secure() -> Result<Self, EntropyError> {
        let mut key = Key([0; 32]);
        getrandom::fill(&mut key.0)?;
        Ok(Self { root: Root::Secure(key), last: BTreeMap::new() })
    }

    /// A reproducible source for tests. Nothing released with it is private: with the seed one can subtract the
    /// noise and knows the batches. A report must say so (see [`is_insecure`](Self::is_insecure)).
    pub fn insecure(seed: u64) -> Self {
        Self { root: Root::Insecure(seed), last: BTreeMap::new() }
    }

    /// True if made by [`insecure`](Self::insecure).
    pub fn is_insecure(&self) -> bool {
        matches!(self.root, Root::Insecure(_))
    }

    /// A source of its own for a part of a run, independent of this one and of its other children; insecure if this one is.
    ///
    /// ```
    /// use dpopt_noise::{NoiseSource, Purpose};
    /// let mut source = NoiseSource::insecure(1);
    /// let (mut first, mut second) = (source.child(), source.child());
    /// let word = |source: &mut NoiseSource| source.stream(Purpose::Noise, 0).below(u64::MAX);
    /// assert!(word(&mut first) != word(&mut second) && first.is_insecure());
    /// ```
    pub fn child(&mut self) -> Self {
        let mut stream = self.stream(Purpose::Child, 0);
        let root = match self.root {
            Root::Insecure(_) => Root::Insecure(stream.next_u64()),
            Root::Secure(_) => {
                let mut key = Key([0; 32]);
                stream.fill_bytes(&mut key.0);
                Root::Secure(key)
            }
        };
        Self { root, last: BTreeMap::new() }
    }

    /// A new stream for `purpose` at `step`.
    ///
    /// No two calls give the same bits. Within a purpose the address (pass, step) only moves forward: asking for a step
    /// that is not later than the last one starts a new *pass*, so two draws in one step, or a second loop over the
    /// steps, are independent. With an insecure seed the answer depends only on the seed and on the sequence of
    /// (purpose, step) asked so far for this purpose.
    pub fn stream(&mut self, purpose: Purpose, step: u64) -> Stream {
        let pass = match self.last.get(&purpose) {
            None => 0,
            Some(&(pass, last)) if step > last => pass,
            Some(&(pass, _)) => pass + 1,
        };
        self.last.insert(purpose, (pass, step));

        let mut address = [0u8; 24];
        address[..8].copy_from_slice(&purpose.code().to_le_bytes());
        address[8..16].copy_from_slice(&pass.to_le_bytes());
        address[16..].copy_from_slice(&step.to_le_bytes());
        match &mut self.root {
            Root::Insecure(seed) => {
                let mut hash = blake3::Hasher::new_derive_key("dpopt-noise 2026 insecure stream");
                hash.update(&seed.to_le_bytes()).update(&address);
                Stream::insecure(&mut hash.finalize().into())
            }
            Root::Secure(key) => {
                let mut fresh = [0u8; 32];
                // The run's key is already secret; these bytes make a copied state (snapshot, fork) diverge. Where the
                // system can't give more, the process id below still separates forks.
                let _ = getrandom::fill(&mut fresh);
                let mut hash = blake3::Hasher::new_keyed(&key.0);
                hash.update(&address).update(&fresh).update(&fork_mark().to_le_bytes());
                let mut out = [0u8; 64];
                hash.finalize_xof().fill(&mut out);
                hash.zeroize();
                fresh.zeroize();
                key.0.copy_from_slice(&out[..32]);
                let mut child = [0u8; 32];
                child.copy_from_slice(&out[32..]);
                out.zeroize();
                Stream::secure(&mut child)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::Rng;

    fn words(stream: &mut Stream) -> [u64; 8] {
        std::array::from_fn(|_| stream.next_u64())
    }

    #[test]
    fn insecure_streams_are_reproducible_and_never_repeat_an_address() {
        let draw = || {
            let mut source = NoiseSource::insecure(5);
            [(Purpose::Noise, 0), (Purpose::Noise, 0), (Purpose::Noise, 1), (Purpose::Batch, 0), (Purpose::Noise, 0)]
                .map(|(purpose, step)| words(&mut source.stream(purpose, step)))
        };
        let a = draw();
        assert_eq!(a, draw());
        for i in 0..a.len() {
            for j in 0..i {
                assert_ne!(a[i], a[j], "addresses {j} and {i} share a stream");
            }
        }
        assert_ne!(a[0], words(&mut NoiseSource::insecure(6).stream(Purpose::Noise, 0)));
    }

    #[test]
    fn purposes_do_not_disturb_each_other() {
        let mut a = NoiseSource::insecure(1);
        let mut b = NoiseSource::insecure(1);
        b.stream(Purpose::Batch, 0);
        assert_eq!(words(&mut a.stream(Purpose::Noise, 3)), words(&mut b.stream(Purpose::Noise, 3)));
    }

    #[test]
    fn secure_streams_differ_between_runs_and_calls() {
        let mut source = NoiseSource::secure().unwrap();
        assert!(!source.is_insecure());
        let a = words(&mut source.stream(Purpose::Noise, 0));
        let b = words(&mut source.stream(Purpose::Noise, 0));
        let c = words(&mut NoiseSource::secure().unwrap().stream(Purpose::Noise, 0));
        // 512 bits each
        assert!(a != b && b != c && a != c);
    }
}
