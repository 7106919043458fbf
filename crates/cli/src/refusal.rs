//! Options by the names that a person types, in messages too.

use crate::output::Failure;
use crate::usage;
use dpopt::plan::NotApplicable;
use dpopt_methods::registry;

/// The flag of an option.
pub(crate) fn flag(option: &str) -> String {
    option.replace('_', "-")
}

/// A refusal. The library names an option as Python does (`clip_norm`); here it is a flag (`--clip-norm`).
pub(crate) fn refused(why: &NotApplicable) -> Failure {
    usage(in_flags(why))
}

/// The same as text.
pub(crate) fn in_flags(why: &NotApplicable) -> String {
    with_flags(&why.to_string())
}

/// `text` with the names of options as flags: those in backticks, those of several words anywhere, a single word where the text
/// opens with "word is".
pub(crate) fn with_flags(text: &str) -> String {
    let is_option = |word: &str| registry().catalogue().iter().any(|option| option.info.name == word);
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let opens = text.split_once(" is ").map_or("", |(first, _)| first);
    let mut before = ' ';
    text.split_inclusive(|c: char| !is_word(c))
        .enumerate()
        .map(|(i, piece)| {
            let word = piece.trim_end_matches(|c: char| !is_word(c));
            let after = &piece[word.len()..];
            let quoted = before == '`' && after.starts_with('`');
            before = piece.chars().next_back().unwrap_or(' ');
            let named = word.contains('_') || quoted || (i == 0 && word == opens);
            match named && is_option(word) {
                true => format!("--{}{after}", flag(word)),
                false => piece.to_string(),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::with_flags;

    #[test]
    fn options_are_flags_and_other_words_stay() {
        for (text, shown) in [
            ("clip_norm is -1; give a positive, finite number", "--clip-norm is -1; give a positive, finite number"),
            ("momentum is 5; give less", "--momentum is 5; give less"),
            ("steps is 0; raise max_features, not steps", "--steps is 0; raise --max-features, not steps"),
            ("dp-sgd has no `momentum`; it has `steps`, `x`", "dp-sgd has no `--momentum`; it has `--steps`, `x`"),
            ("the shift is 30", "the shift is 30"),
            ("no_option is 3", "no_option is 3"),
        ] {
            assert_eq!(with_flags(text), shown);
        }
    }
}
