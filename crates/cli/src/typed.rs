//! The command as it was typed, and as it can be typed next.

/// The arguments of this process.
pub(crate) fn arguments() -> Vec<String> {
    std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned()).collect()
}

/// The command as it can be typed again.
pub(crate) fn command_line() -> String {
    typed(arguments())
}

/// A command with these arguments, as it can be typed.
pub(crate) fn typed(arguments: Vec<String>) -> String {
    let plain = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || "-_./=,:+@%".contains(c));
    let quoted = |word: String| if plain(&word) { word } else { format!("'{}'", word.replace('\'', r"'\''")) };
    std::iter::once("dpopt".to_string()).chain(arguments.into_iter().map(quoted)).collect::<Vec<_>>().join(" ")
}
