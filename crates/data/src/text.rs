//! Free text as two public blocks: a few counts that any writing has, and hashed words and word pairs.
//!
//! Nothing here is learnt: tokens, ranges and slots are fixed in advance, so a record's features depend on that record
//! only. The noise of a private model is the same in every direction, so a handful of counts that many records share
//! is learnt at small budgets where single words are not; both blocks get the same share of the row's norm.

use std::hash::Hasher;

use super::cell::Rules;
use super::hashing::Fnv;
use super::numerals::is_currency;

/// Words read per record at most: bounds the non-zeros of a row by a public number.
pub(crate) const MAX_WORDS: usize = 512;

/// Counts of a text and the largest value told apart; values are taken as `ln(1+v)/ln(1+largest)`.
pub(crate) const COUNTS: [(&str, f64); 12] = [
    ("characters", 1000.0),
    ("words", 200.0),
    ("digits", 100.0),
    ("longest number", 20.0),
    ("capitals", 200.0),
    ("words in capitals", 30.0),
    ("exclamation marks", 10.0),
    ("question marks", 10.0),
    ("currency signs", 5.0),
    ("links", 5.0),
    ("other marks", 50.0),
    ("non-ASCII characters", 100.0),
];

/// Words, numbers and signs of a text in order, at most [`MAX_WORDS`].
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    /// One after the other, and where each ends.
    spelt: String,
    ends: Vec<usize>,
}

impl Tokens {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.spelt[start..end])
    }

    fn clear(&mut self) {
        self.spelt.clear();
        self.ends.clear();
    }

    fn push(&mut self, token: &str) {
        if self.ends.len() < MAX_WORDS {
            self.spelt.push_str(token);
            self.ends.push(self.spelt.len());
        }
    }
}

/// The first of the counts say how long a text is.
pub(crate) const LENGTHS: u32 = 2;

/// What one text gives.
#[derive(Default)]
pub(crate) struct TextFeatures {
    /// One value in [0, 1] per entry of [`COUNTS`].
    pub(crate) counts: [f64; COUNTS.len()],
    pub(crate) tokens: Tokens,
    /// Slots of words and pairs with their weights: sorted, distinct, l2 norm 1 (or empty).
    pub(crate) slots: Vec<(u32, f64)>,
    hashes: Vec<(u32, f64)>,
    lowered: String,
}

/// Weight of a pair of neighbouring words against 1 for a word: pairs are rarer, so less can be learnt of each.
const PAIR_WEIGHT: f64 = 0.5;

impl TextFeatures {
    /// Reads the counts and tokens of `text` (invalid UTF-8 is replaced).
    pub(crate) fn read(&mut self, text: &[u8], rules: Rules) {
        let text = String::from_utf8_lossy(text);
        let mut raw = [0u32; COUNTS.len()];
        self.tokens.clear();
        for chunk in text.split_whitespace() {
            raw[1] = raw[1].saturating_add(1);
            if is_link(chunk) {
                raw[9] += 1;
                self.tokens.push("<link>");
            }
            match rules {
                Rules::First => self.chunk(chunk, &mut raw),
                Rules::ByValue => self.parts(chunk, &mut raw),
            }
        }
        raw[0] = text.chars().count().min(u32::MAX as usize) as u32;
        for ((value, &count), (_, largest)) in self.counts.iter_mut().zip(&raw).zip(&COUNTS) {
            // libm: the same bits on every machine
            *value = (libm::log1p(f64::from(count)) / libm::log1p(*largest)).min(1.0);
        }
    }

    /// One run of non-white characters, of which those of scripts without spaces are words of their own, and so is every pair of neighbours.
    fn parts(&mut self, chunk: &str, raw: &mut [u32; COUNTS.len()]) {
        let mut rest = chunk;
        while !rest.is_empty() {
            let dense = rest.starts_with(is_written_without_spaces);
            let end = rest.find(|c| is_written_without_spaces(c) != dense).unwrap_or(rest.len());
            let (part, more) = rest.split_at(end);
            rest = more;
            if !dense {
                self.chunk(part, raw);
                continue;
            }
            let starts: Vec<usize> = part.char_indices().map(|(at, _)| at).chain([part.len()]).collect();
            raw[11] = raw[11].saturating_add(starts.len() as u32 - 1);
            for at in 0..starts.len() - 1 {
                self.tokens.push(&part[starts[at]..starts[at + 1]]);
                if let Some(end) = starts.get(at + 2) {
                    self.tokens.push(&part[starts[at]..*end]);
                }
            }
        }
    }

    /// One run of non-white characters: counts, and its words, numbers and currency signs as tokens.
    fn chunk(&mut self, chunk: &str, raw: &mut [u32; COUNTS.len()]) {
        let mut lowered = std::mem::take(&mut self.lowered);
        lowered.clear();
        let (mut digits, mut letters, mut capitals) = (0u32, 0u32, 0u32);
        let mut characters = chunk.chars().peekable();
        while let Some(c) = characters.next() {
            raw[11] += u32::from(!c.is_ascii());
            let inner = c == '\'' && !lowered.is_empty() && characters.peek().is_some_and(|n| n.is_alphanumeric());
            if c.is_ascii_digit() {
                digits += 1;
                raw[2] += 1;
            } else if c.is_alphabetic() {
                letters += 1;
                if c.is_uppercase() {
                    capitals += 1;
                    raw[4] += 1;
                }
                close_number(&mut lowered, &mut digits, raw);
                lowered.extend(c.to_lowercase());
            } else if !inner {
                match c {
                    '!' => raw[6] += 1,
                    '?' => raw[7] += 1,
                    _ if is_currency(c) => raw[8] += 1,
                    _ => raw[10] += 1,
                }
                close_number(&mut lowered, &mut digits, raw);
                raw[5] += u32::from(letters >= 2 && capitals == letters);
                (letters, capitals) = (0, 0);
                if !lowered.is_empty() {
                    self.tokens.push(&lowered);
                    lowered.clear();
                }
                if is_currency(c) {
                    self.tokens.push("<currency>");
                }
            }
        }
        close_number(&mut lowered, &mut digits, raw);
        raw[5] += u32::from(letters >= 2 && capitals == letters);
        if !lowered.is_empty() {
            self.tokens.push(&lowered);
        }
        self.lowered = lowered;
    }

    /// Hashes the tokens, and with `pairs` every two that follow each other, into 2^`bits` slots. What is repeated counts by the square root;
    /// then the block gets norm 1.
    pub(crate) fn hash(&mut self, salt: Fnv, bits: u32, pairs: bool) {
        self.hashes.clear();
        let mut previous: Option<Fnv> = None;
        for token in self.tokens.iter() {
            let mut single = salt;
            single.write(token.as_bytes());
            self.hashes.push((single.slot(bits), 1.0));
            if let Some(mut pair) = previous {
                pair.write_u8(0xfe); // in no UTF-8 text, so a pair is never a word
                pair.write(token.as_bytes());
                self.hashes.push((pair.slot(bits), PAIR_WEIGHT));
            }
            previous = pairs.then_some(single);
        }
        self.slots.clear();
        self.hashes.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        for &(slot, weight) in &self.hashes {
            match self.slots.last_mut() {
                Some(last) if last.0 == slot => last.1 += weight * weight,
                _ => self.slots.push((slot, weight * weight)),
            }
        }
        let total: f64 = self.slots.iter().map(|s| s.1).sum();
        for slot in &mut self.slots {
            slot.1 = (slot.1 / total).sqrt();
        }
    }
}

/// A run of digits becomes `#` and its length, so that `08001234567` and `08007654321` are one token.
fn close_number(lowered: &mut String, digits: &mut u32, raw: &mut [u32; COUNTS.len()]) {
    if *digits > 0 {
        raw[3] = raw[3].max(*digits);
        lowered.push('#');
        lowered.push_str(&(*digits).min(20).to_string());
        *digits = 0;
    }
}

/// Thai, Lao, Burmese, Khmer, Kana and Han, by their blocks: scripts that write no spaces between words.
fn is_written_without_spaces(c: char) -> bool {
    matches!(c,
        '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{19e0}'..='\u{19ff}'
        | '\u{3005}'..='\u{3007}' | '\u{3040}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}' | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}' | '\u{a9e0}'..='\u{a9ff}' | '\u{aa60}'..='\u{aa7f}' | '\u{f900}'..='\u{faff}'
        | '\u{ff66}'..='\u{ff9f}' | '\u{1b000}'..='\u{1b16f}' | '\u{20000}'..='\u{323af}')
}

fn is_link(chunk: &str) -> bool {
    let has = |needle: &str| chunk.as_bytes().windows(needle.len()).any(|w| w.eq_ignore_ascii_case(needle.as_bytes()));
    has("://")
        || has("www.")
        || has(".com")
        || has(".co.")
        || has(".net")
        || has(".org")
        || has("t.me/")
        || chunk.char_indices().any(|(i, c)| c == '@' && chunk[i + 1..].starts_with(char::is_alphanumeric))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> TextFeatures {
        let mut features = TextFeatures::default();
        features.read(text.as_bytes(), Rules::ByValue);
        features.hash(Fnv::salted("text"), 16, true);
        features
    }

    fn count(features: &TextFeatures, name: &str) -> f64 {
        let i = COUNTS.iter().position(|c| c.0 == name).unwrap();
        features.counts[i]
    }

    #[test]
    fn counts_of_a_known_text() {
        let f = read("WIN £500 now!! Call 08001234567, it's http://x.com");
        let on_scale = |v: f64, largest: f64| libm::log1p(v) / libm::log1p(largest);
        assert_eq!(count(&f, "words"), on_scale(7.0, 200.0));
        assert_eq!(count(&f, "digits"), on_scale(14.0, 100.0));
        assert_eq!(count(&f, "longest number"), on_scale(11.0, 20.0));
        assert_eq!(count(&f, "capitals"), on_scale(4.0, 200.0));
        assert_eq!(count(&f, "words in capitals"), on_scale(1.0, 30.0));
        assert_eq!(count(&f, "exclamation marks"), on_scale(2.0, 10.0));
        assert_eq!(count(&f, "currency signs"), on_scale(1.0, 5.0));
        assert_eq!(count(&f, "links"), on_scale(1.0, 5.0));
        assert_eq!(count(&f, "non-ASCII characters"), on_scale(1.0, 100.0));
        // win £ #3 now call #11 it's <link> http x com: 11 words and 10 pairs
        assert_eq!(f.slots.len(), 21);
    }

    #[test]
    fn numbers_of_equal_length_and_letter_case_do_not_matter() {
        assert_eq!(read("call 12345 NOW").slots, read("Call 67890 now").slots);
        assert_ne!(read("call now").slots, read("now call").slots);
    }

    #[test]
    fn repeated_words_count_by_the_square_root() {
        let f = read("a a a a b");
        let weights: Vec<f64> = f.slots.iter().map(|s| s.1).collect();
        let top = weights.iter().cloned().fold(0.0, f64::max);
        // four times a: 4, three pairs a-a: .75, pair a-b: .25, b: 1; total 6
        assert!((top - (4.0f64 / 6.0).sqrt()).abs() < 1e-12, "{weights:?}");
    }

    proptest! {
        #[test]
        fn any_bytes_give_bounded_features(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut f = TextFeatures::default();
            f.read(&bytes, Rules::ByValue);
            f.hash(Fnv::salted("t"), 10, true);
            prop_assert!(f.tokens.iter().count() <= MAX_WORDS && f.tokens.iter().all(|t| !t.is_empty()));
            prop_assert!(f.counts.iter().all(|c| (0.0..=1.0).contains(c)));
            let norm: f64 = f.slots.iter().map(|s| s.1 * s.1).sum();
            prop_assert!(f.slots.is_empty() || (norm - 1.0).abs() < 1e-9);
            prop_assert!(f.slots.windows(2).all(|w| w[0].0 < w[1].0));
            prop_assert!(f.slots.iter().all(|s| s.0 < 1 << 10));
        }
    }

    #[test]
    fn scripts_without_spaces_have_a_word_for_each_character_and_each_pair() {
        let tokens = |text: &str, rules| {
            let mut f = TextFeatures::default();
            f.read(text.as_bytes(), rules);
            f.tokens.iter().map(str::to_string).collect::<Vec<_>>()
        };
        assert_eq!(
            tokens("很好用 iPhone14很 ok", Rules::ByValue),
            ["很", "很好", "好", "好用", "用", "iphone#2", "很", "ok"]
        );
        assert_eq!(tokens("ไทย", Rules::ByValue), ["ไ", "ไท", "ท", "ทย", "ย"]);
        assert_eq!(tokens("カナ", Rules::ByValue), ["カ", "カナ", "ナ"]);
        // Korean writes spaces
        assert_eq!(tokens("한국어 문장 Привет", Rules::ByValue), ["한국어", "문장", "привет"]);
        // as the first versions read it
        assert_eq!(tokens("很好用 ok", Rules::First), ["很好用", "ok"]);
        for text in ["WIN £500 now!! it's http://x.com", "a-b"] {
            assert_eq!(tokens(text, Rules::ByValue), tokens(text, Rules::First));
        }
    }

    #[test]
    fn a_huge_text_has_a_bounded_number_of_slots() {
        let text: String = (0..100_000).map(|i| format!("w{} ", i)).collect();
        assert!(read(&text).slots.len() <= 2 * MAX_WORDS);
    }
}
