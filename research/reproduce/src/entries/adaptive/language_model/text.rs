//! Texts as points of a fixed number of words from one vocabulary.

use std::collections::HashMap;

/// Ends a line of text, and stands before each point.
const END: &str = "<eos>";
/// Any word outside the vocabulary.
const UNKNOWN: &str = "<unk>";

/// The most frequent words of a text, the unknown one, and the end of a line.
pub(super) struct Vocabulary(HashMap<String, u32>);

impl Vocabulary {
    /// At most `size` words; words of equal frequency in alphabetic order.
    pub(super) fn of(words: &[String], size: usize) -> Self {
        let mut counts: HashMap<&str, u64> = HashMap::new();
        words.iter().for_each(|w| *counts.entry(w).or_default() += 1);
        let always = [UNKNOWN, END];
        let mut others: Vec<(&str, u64)> = counts.into_iter().filter(|(w, _)| !always.contains(w)).collect();
        others.sort_unstable_by_key(|&(word, count)| (std::cmp::Reverse(count), word));
        let kept = always.into_iter().chain(others.into_iter().map(|(w, _)| w)).take(size);
        Self(kept.map(String::from).zip(0..).collect())
    }

    fn number(&self, word: &str) -> u32 {
        self.0.get(word).copied().unwrap_or(0)
    }

    /// The text in points of `length` words, each after an end of line; an unfinished last point is dropped.
    pub(super) fn points(&self, words: &[String], length: usize) -> Vec<Vec<u32>> {
        let point = |words: &[String]| {
            std::iter::once(END).chain(words.iter().map(String::as_str)).map(|w| self.number(w)).collect()
        };
        words.chunks_exact(length).map(point).collect()
    }
}

/// The words of a text in which they are separated by spaces, with the ends of lines.
pub(super) fn separated(text: &str) -> Vec<String> {
    text.lines().flat_map(|line| line.split_whitespace().chain([END])).map(String::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_become_points() {
        let text = separated(" \n a b a <unk>\n c a\n");
        assert_eq!(text.join(" "), "<eos> a b a <unk> <eos> c a <eos>");
        let vocabulary = Vocabulary::of(&text, 4);
        // unknown 0, end 1, a 2, then b before c
        assert_eq!(vocabulary.points(&text, 4), [[1, 1, 2, 3, 2], [1, 0, 1, 0, 2]]);
    }
}
