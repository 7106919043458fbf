//! A uniform number in (0, 1) whose binary digits are drawn when a decision needs them (Karney 2016).
use crate::fixed::{Fixed, Interval, minus_ln};
use crate::stream::Stream;

/// Digits that are ever drawn. What is undecided after them has probability about 2^-256 and goes one fixed way.
const WORDS: usize = 4;

/// A uniform number in (0, 1), with the digits that have been drawn so far.
#[derive(Default)]
pub struct LazyUniform {
    /// Most significant word first.
    words: [u64; WORDS],
    drawn: usize,
}

impl LazyUniform {
    /// No digit has been drawn.
    pub fn new() -> Self {
        Self::default()
    }

    /// A uniform whose first digits are `word`.
    pub(crate) fn starting_with(word: u64) -> Self {
        Self { words: [word, 0, 0, 0], drawn: 1 }
    }

    /// The first 64 digits; only after [`starting_with`](Self::starting_with).
    pub(crate) fn first_word(&self) -> u64 {
        debug_assert!(self.drawn > 0);
        self.words[0]
    }

    fn draw(&mut self, words: usize, stream: &mut Stream) {
        while self.drawn < words {
            self.words[self.drawn] = stream.word();
            self.drawn += 1;
        }
    }

    /// The interval of values with the first 64·(L−2) digits as drawn: 128 for L = 4, 256 for L = 6.
    pub(crate) fn interval<const L: usize>(&mut self, stream: &mut Stream) -> Interval<L> {
        let words = L - 2;
        self.draw(words, stream);
        let mut limbs = [0u64; L];
        for (i, &word) in self.words[..words].iter().enumerate() {
            limbs[L - 2 - i] = word;
        }
        let low = Fixed(limbs);
        Interval { low, high: low.plus(&Fixed::negative_power_of_two(64 * words)) }
    }

    /// The interval of −ln of the uniform (an exponential variable), from the same digits as the interval of the uniform.
    pub fn exponential<const L: usize>(&mut self, stream: &mut Stream) -> Interval<L> {
        let words = L - 2;
        let u = self.interval::<L>(stream).low;
        if u == Fixed::ZERO {
            // probability 2^-128 (first stage) or 2^-256
            return Interval { low: Fixed::integer(40 * words as u64), high: Fixed::MAX };
        }
        let value = minus_ln(&u);
        // u < U < u + 2^-b lowers −ln by at most 2^-b/u, and u ≥ 2^-(leading zeros + 1)
        let slack = Fixed::negative_power_of_two((64 * words).saturating_sub(u.leading_fraction_zeros() + 1));
        Interval { low: value.low.minus(&slack), high: value.high }
    }

    /// Whether the uniform is below the real number between `low` and `low` + 2^-256, given as 256 fraction bits, most
    /// significant word first. Undecided after 256 digits counts as "no".
    #[inline]
    pub(crate) fn below_threshold(stream: &mut Stream, low: &[u64; WORDS]) -> bool {
        for &limb in low {
            let word = stream.word();
            if word != limb {
                return word < limb;
            }
        }
        false
    }
}
