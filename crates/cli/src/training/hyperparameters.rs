//! Flags of methods' options, one for each option of the library's catalogue.

use crate::face::flag;
use crate::methods::registry;
use crate::output::Failure;
use crate::usage;
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};
use dpopt::optimize::options::{Form, Value};
use dpopt::optimize::{Described, MethodOptions};
use std::path::{Path, PathBuf};

/// Leaves an option to the program, as `--method auto` does.
const AUTO: &str = "auto";

/// Hyper-parameters; all of them are chosen from public facts.
#[derive(Clone, Default)]
pub(crate) struct Tuning {
    said: Vec<(&'static str, Value)>,
    /// Options whose numbers are in a public file.
    files: Vec<(&'static str, PathBuf)>,
}

/// The flag of an option, not shown among those that everyone needs.
pub(crate) fn argument(option: &'static Described) -> Arg {
    let info = &option.info;
    let flag = Arg::new(info.name).long(flag(info.name)).help(info.help).hide(true);
    let value = |flag: Arg| flag.value_name(info.value_name).allow_negative_numbers(true);
    match &info.form {
        Form::Flag => flag.action(ArgAction::SetTrue),
        Form::Real { .. } => value(flag).value_parser(value_parser!(f64)),
        Form::Whole => value(flag).value_parser(value_parser!(u64)),
        Form::Norm => value(flag),
        Form::Reals => value(flag).value_parser(value_parser!(PathBuf)),
        Form::Words { words } => {
            let words = words.iter().map(|(word, meaning)| PossibleValue::new(*word).help(*meaning));
            let auto = PossibleValue::new(AUTO).help("choose it automatically");
            value(flag).value_parser(PossibleValuesParser::new(words.chain([auto])))
        }
    }
}

impl Args for Tuning {
    fn augment_args(command: Command) -> Command {
        command.args(registry().catalogue().iter().map(argument))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Tuning {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut tuning = Self::default();
        tuning.update_from_arg_matches(matches)?;
        Ok(tuning)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for option in registry().catalogue() {
            let name = option.info.name;
            let value = match &option.info.form {
                Form::Flag => matches.get_flag(name).then_some(Value::Flag(true)),
                Form::Real { .. } => matches.get_one::<f64>(name).map(|x| Value::Real(*x)),
                Form::Whole => matches.get_one::<u64>(name).map(|n| Value::Whole(*n)),
                Form::Words { .. } => {
                    matches.get_one::<String>(name).filter(|word| *word != AUTO).map(|word| Value::Word(word.clone()))
                }
                Form::Norm => matches.get_one::<String>(name).map(|word| Value::Word(word.clone())),
                Form::Reals => {
                    self.files.extend(matches.get_one::<PathBuf>(name).map(|path| (name, path.clone())));
                    None
                }
            };
            self.said.extend(value.map(|value| (name, value)));
        }
        Ok(())
    }
}

impl Tuning {
    /// What was said, with the numbers of public files.
    pub(super) fn options(&self) -> Result<MethodOptions, Failure> {
        let said = self.said.iter().cloned();
        let mut options = said.fold(MethodOptions::default(), |options, (name, value)| options.with(name, value));
        for (name, path) in &self.files {
            options = options.with(name, numbers(path)?);
        }
        Ok(options)
    }

    /// Public files that are read, by their flags.
    pub(super) fn files(&self) -> impl Iterator<Item = (String, &Path)> {
        self.files.iter().map(|(name, path)| (format!("--{}", flag(name)), path.as_path()))
    }
}

/// A public file with one number per line.
fn numbers(path: &Path) -> Result<Vec<f64>, Failure> {
    let text = std::fs::read_to_string(path).map_err(|e| usage(format!("{}: {e}", path.display())))?;
    text.lines()
        .map(str::trim)
        .enumerate()
        .filter(|(_, line)| !line.is_empty())
        .map(|(i, line)| line.parse().map_err(|_| usage(format!("{}: line {} is not a number", path.display(), i + 1))))
        .collect()
}
