//! Arguments that the program cannot read: the problem, what is allowed and the way out, as all other messages tell them.

use crate::TRAINING;
use crate::typed::arguments;
use crate::usage;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error};
use dpopt::data::{did_you_mean, listed};
use std::num::{IntErrorKind, ParseFloatError, ParseIntError};
use std::process::ExitCode;

/// Commands that run, with the arguments that they need, for whoever left some out.
const EXAMPLES: [&str; 13] = [
    "dpopt init data.csv --target outcome",
    "dpopt fit data.csv --target outcome --epsilon 1 --bounds bounds.toml",
    "dpopt check data.csv --target outcome --epsilon 1 --bounds bounds.toml",
    "dpopt explain data.csv --target outcome --epsilon 1 --bounds bounds.toml",
    "dpopt predict model.json new.csv",
    "dpopt evaluate model.json test.csv",
    "dpopt account 'gaussian(1.1)' --delta 1e-6",
    "dpopt ledger budget.jsonl",
    "dpopt verify model.json",
    "dpopt generate census -o census.csv",
    "dpopt generate panel -o visits.csv",
    "dpopt generate messages -o messages.csv",
    "dpopt split data.csv -o train.csv test.csv",
];

/// Options that other programs have under another name, and what is to be said of those here.
const OTHERWISE: [(&str, &str, &str); 1] = [("--seed", "--insecure-seed", " (for tests only: no privacy)")];

/// Shows the help that was asked for, or why the arguments cannot be read.
pub(crate) fn told(error: &Error, program: &Command) -> ExitCode {
    match message(error, program, &arguments()) {
        Some(message) => usage(message).report(),
        None => error.exit(),
    }
}

/// The message, where the error is one and no help that was asked for.
fn message(error: &Error, program: &Command, words: &[String]) -> Option<String> {
    let (path, command) = named(program, words);
    Some(match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
        | ErrorKind::MissingSubcommand
        | ErrorKind::Io
        | ErrorKind::Format => return None,
        ErrorKind::MissingRequiredArgument => missing(&strings(error, ContextKind::InvalidArg), &path),
        ErrorKind::UnknownArgument => unknown(&string(error, ContextKind::InvalidArg)?, &path, command),
        ErrorKind::InvalidSubcommand => {
            let given = string(error, ContextKind::InvalidSubcommand)?;
            let known = command.get_subcommands().filter(|c| !c.is_hide_set()).map(Command::get_name);
            let meant = asked(did_you_mean(&given, known));
            let of = if path.is_empty() { String::new() } else { format!("{path} ") };
            format!("there is no command `{of}{given}`{meant} `dpopt help{}` lists the commands", after(&path))
        }
        ErrorKind::ValueValidation | ErrorKind::InvalidValue => wrong_value(error)?,
        // the first paragraph, without advice that is not ours
        _ => {
            let text = error.to_string();
            let first = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
            format!("{first}; {}", more(&path))
        }
    })
}

/// The command that the first words name, by its path and as the program knows it.
fn named<'a>(program: &'a Command, words: &[String]) -> (String, &'a Command) {
    let (mut path, mut command) = (Vec::new(), program);
    for word in words {
        let Some(next) = command.find_subcommand(word) else { break };
        (command, path) = (next, [&path[..], &[word.as_str()]].concat());
    }
    (path.join(" "), command)
}

/// What follows "dpopt help" for a command.
fn after(path: &str) -> String {
    // there is help about first words only
    path.split(' ').next().filter(|first| !first.is_empty()).map_or(String::new(), |first| format!(" {first}"))
}

/// Where the options of a command are told.
fn more(path: &str) -> String {
    if TRAINING.contains(&path) {
        return format!("`dpopt help {path} --all` lists the options, `dpopt help options` those of methods");
    }
    let page = if path.contains(' ') { format!("dpopt {path} --help") } else { format!("dpopt help{}", after(path)) };
    format!("`{page}` lists the options")
}

fn string(error: &Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        _ => None,
    }
}

fn strings(error: &Error, kind: ContextKind) -> Vec<String> {
    match error.get(kind) {
        Some(ContextValue::Strings(texts)) => texts.clone(),
        Some(ContextValue::String(text)) => vec![text.clone()],
        _ => Vec::new(),
    }
}

/// A question, or the end of what it would be about.
fn asked(question: String) -> String {
    if question.is_empty() { ";".into() } else { question }
}

/// `--epsilon <EPSILON>` is `--epsilon`, `<DATA>...` is `DATA`.
fn bare(argument: &str) -> String {
    let word = argument.split(' ').next().unwrap_or_default().split('=').next().unwrap_or_default();
    word.trim_end_matches("...").trim_matches(['<', '>', '[', ']']).to_string()
}

/// Arguments that a command needs and does not have.
fn missing(arguments: &[String], path: &str) -> String {
    let mut names: Vec<String> = arguments.iter().map(|argument| bare(argument)).collect();
    // files come before flags, as they are typed
    names.sort_by_key(|name| name.starts_with('-'));
    let example = EXAMPLES.iter().find(|example| example.strip_prefix("dpopt ").is_some_and(|e| e.starts_with(path)));
    let way_out = match (&names[..], example) {
        ([only], _) if only == "--epsilon" => "for example --epsilon 1".into(),
        (_, Some(example)) if names.iter().all(|name| is_in(name, example)) => format!("for example: {example}"),
        _ => more(path),
    };
    format!("{} {} missing; {way_out}", names.join(" and "), if names.len() == 1 { "is" } else { "are" })
}

/// Whether an example shows an argument: all have those without a dash.
fn is_in(name: &str, example: &str) -> bool {
    let word = if name == "--output" { "-o" } else { name };
    !word.starts_with('-') || example.split(' ').any(|other| other == word)
}

/// An option that the command does not have, or a word too many.
fn unknown(given: &str, path: &str, command: &Command) -> String {
    if !given.starts_with('-') {
        return format!("`{given}` is one argument too many; `dpopt {path} --help` shows what it takes");
    }
    let flags: Vec<String> = command.get_arguments().filter_map(|a| a.get_long()).map(|l| format!("--{l}")).collect();
    let known = |flag: &str| flags.iter().any(|other| other == flag);
    let otherwise = OTHERWISE.iter().find(|(other, here, _)| *other == given && known(here));
    let begun = flags.iter().find(|flag| given.len() > 4 && flag.starts_with(given));
    let meant = match (otherwise, begun) {
        (Some((_, here, what)), _) => format!(", did you mean `{here}`{what}?"),
        (None, Some(flag)) => format!(", did you mean `{flag}`?"),
        (None, None) => did_you_mean(given, flags.iter().map(String::as_str)),
    };
    format!("there is no option `{given}`{} {}", asked(meant), more(path))
}

/// A value that an option does not take.
fn wrong_value(error: &Error) -> Option<String> {
    let (option, given) = (bare(&string(error, ContextKind::InvalidArg)?), string(error, ContextKind::InvalidValue)?);
    let words = strings(error, ContextKind::ValidValue);
    if given.is_empty() {
        let like = if option == "--epsilon" { ", for example --epsilon 1".into() } else { of_words(&words) };
        return Some(format!("{option} has no value; give one{like}"));
    }
    if !words.is_empty() {
        let meant = asked(did_you_mean(&given, words.iter().map(String::as_str)));
        return Some(format!("{option} is `{given}`{meant} give one{}", of_words(&words)));
    }
    let source = std::error::Error::source(error)?;
    let allowed = if source.is::<ParseFloatError>() {
        if option == "--epsilon" {
            "give a positive, finite number, for example 1".into()
        } else {
            "give a number".into()
        }
    } else if let Some(why) = source.downcast_ref::<ParseIntError>() {
        let small = matches!(why.kind(), IntErrorKind::PosOverflow);
        if small { "give a smaller number".into() } else { "give a whole number".into() }
    } else {
        within(&source.to_string())
    };
    Some(format!("{option} is `{given}`; {allowed}"))
}

/// The words that an option takes, after "give one".
fn of_words(words: &[String]) -> String {
    if words.is_empty() { String::new() } else { format!(" of {}", listed(words)) }
}

/// "0 is not in 1..=1024" says which numbers are allowed; any other reason is a sentence already.
fn within(reason: &str) -> String {
    let ends = reason.split_once(" is not in ").and_then(|(_, range)| range.split_once(".."));
    match ends.map(|(first, last)| (first, last.trim_start_matches('='))) {
        // as far as the type of the number goes
        Some((first, last)) if last.len() > 9 => format!("give a whole number, at least {first}"),
        Some((first, last)) => format!("give a whole number from {first} to {last}"),
        None => reason.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told_of(words: &str) -> String {
        let words: Vec<String> = words.split(' ').map(String::from).collect();
        let program = crate::program();
        let error = program.clone().try_get_matches_from(std::iter::once("dpopt".to_string()).chain(words.clone()));
        message(&error.expect_err("it cannot be read"), &program, &words).expect("a message")
    }

    #[test]
    fn every_example_can_be_read() {
        for example in EXAMPLES {
            let words = example.split(' ').map(|word| word.trim_matches('\''));
            assert!(crate::program().try_get_matches_from(words).is_ok(), "{example}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_told_with_a_way_out() {
        for (words, message) in [
            ("fit t.csv --target y", "--epsilon is missing; for example --epsilon 1"),
            (
                "fit",
                "DATA and --epsilon are missing; for example: dpopt fit data.csv --target outcome --epsilon 1 --bounds bounds.toml",
            ),
            ("generate census", "--output is missing; for example: dpopt generate census -o census.csv"),
            ("fit t.csv --epsilon one", "--epsilon is `one`; give a positive, finite number, for example 1"),
            ("fit t.csv --epsilon 1 --delta x", "--delta is `x`; give a number"),
            ("fit t.csv --epsilon 1 --rows 1e4", "--rows is `1e4`; give a whole number"),
            ("fit t.csv --epsilon 1 --workers 0", "--workers is `0`; give a whole number from 1 to 1024"),
            ("fit t.csv --epsilon 1 --memory 2X", "--memory is `2X`; write a size like 512M or 2G"),
            (
                "fit t.csv --epsilon 1 --task regresion",
                "--task is `regresion`, did you mean `regression`? give one of classification, regression",
            ),
            ("fit t.csv --epsilon", "--epsilon has no value; give one, for example --epsilon 1"),
            (
                "fit t.csv --epsilon 1 --seed 1",
                "there is no option `--seed`, did you mean `--insecure-seed` (for tests only: no privacy)? `dpopt help fit --all` lists the options, `dpopt help options` those of methods",
            ),
            (
                "fit t.csv --epsilon 1 --alpha 3",
                "there is no option `--alpha`; `dpopt help fit --all` lists the options, `dpopt help options` those of methods",
            ),
            (
                "predict m.json t.csv --ouput x",
                "there is no option `--ouput`, did you mean `--output`? `dpopt help predict` lists the options",
            ),
            (
                "generate census now -o t.csv",
                "`now` is one argument too many; `dpopt generate census --help` shows what it takes",
            ),
            (
                "evalute m.json t.csv",
                "there is no command `evalute`, did you mean `evaluate`? `dpopt help` lists the commands",
            ),
            (
                "generate pannel",
                "there is no command `generate pannel`, did you mean `panel`? `dpopt help generate` lists the commands",
            ),
            (
                "fit t.csv --total-epsilon 3 --epsilon 1",
                "--ledger is missing; `dpopt help fit --all` lists the options, `dpopt help options` those of methods",
            ),
            (
                "fit t.csv --epsilon 1 --bounds b --public-data p",
                "the argument '--bounds <FILE>' cannot be used with '--public-data <FILE>'; `dpopt help fit --all` lists the options, `dpopt help options` those of methods",
            ),
        ] {
            assert_eq!(told_of(words), message, "{words}");
        }
    }
}
