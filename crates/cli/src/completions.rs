//! `dpopt completions`: scripts with which a shell completes commands and options, made from what the program reads.

use crate::help::topics;
use crate::methods::registry;
use crate::output::{Failure, print};
use clap::builder::PossibleValuesParser;
use clap::{Args, Command};
use clap_complete::{Shell, generate};

#[derive(Args)]
pub(crate) struct Arguments {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Where a script goes.
pub(crate) const HOW: &str = "\
bash:        dpopt completions bash > ~/.local/share/bash-completion/completions/dpopt
zsh:         dpopt completions zsh > _dpopt, in a directory of $fpath
fish:        dpopt completions fish > ~/.config/fish/completions/dpopt.fish
powershell:  dpopt completions powershell >> $PROFILE";

/// Under which name the program was called.
fn name() -> String {
    let called = std::env::args_os().next().unwrap_or_default();
    std::path::Path::new(&called).file_stem().map_or("dpopt".into(), |stem| stem.to_string_lossy().into_owned())
}

/// The program with all options in sight, those of methods too, and with names of methods and topics as values; without what people do not call.
pub(crate) fn program() -> Command {
    let whole = crate::commands();
    let topics = topics(&whole);
    let seen = whole.get_subcommands().filter(|command| !command.is_hide_set()).cloned().map(|command| {
        let name = command.get_name().to_string();
        let training = crate::TRAINING.contains(&name.as_str());
        command.mut_args(|argument| match argument.get_id().as_str() {
            "method" if training => {
                argument.hide(false).value_parser(PossibleValuesParser::new(registry().names().chain(["auto"])))
            }
            "topic" if name == "help" => argument.value_parser(PossibleValuesParser::new(topics.clone())),
            "markdown" => argument,
            _ => argument.hide(false),
        })
    });
    Command::new("dpopt")
        .version(env!("CARGO_PKG_VERSION"))
        .about(whole.get_about().cloned().unwrap_or_default())
        .propagate_version(true)
        .disable_help_subcommand(true)
        .subcommands(seen)
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut script = Vec::new();
    generate(arguments.shell, &mut program(), name(), &mut script);
    print(&String::from_utf8_lossy(&script))
}
