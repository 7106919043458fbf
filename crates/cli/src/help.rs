//! `dpopt help`: commands, methods and their options.

use crate::methods::registry;
use crate::output::{Failure, print};
use crate::training::argument;
use crate::usage;
use clap::{Args, Command};
use dpopt::data::did_you_mean;
use dpopt::optimize::options::{Form, NORMS};
use dpopt::optimize::{Described, RowAccess};

/// The method of embedding models, which is not chosen by name.
const EMBEDDING: &str = "embedding-sgd";

#[derive(Args)]
pub(crate) struct Arguments {
    /// A command, a method, `methods`, `options` or `bounds`; without it the list of commands
    topic: Option<String>,
    /// Of a command: all options, also those that few need
    #[arg(long, requires = "topic")]
    all: bool,
    /// `options` as a table in Markdown
    #[arg(long, hide = true)]
    markdown: bool,
}

/// The format of the file of public facts.
const BOUNDS: &str = include_str!("help/bounds.txt");

fn methods() -> impl Iterator<Item = &'static str> {
    registry().names().chain([EMBEDDING])
}

/// A page of flags as the commands show them.
fn page(name: &str, text: String, options: impl Iterator<Item = &'static Described>) -> String {
    let flags = options.map(|option| argument(option).hide(false));
    let command = Command::new(name.to_string()).about(text).disable_help_flag(true).args(flags);
    command.help_template("{about-with-newline}\n{options}").render_long_help().to_string()
}

fn of_method(name: &str) -> String {
    let how = match name {
        EMBEDDING => "--model embedding, --model two-tower".to_string(),
        _ => format!("--method {name}"),
    };
    let rows = match registry().row_access(name) {
        Some(RowAccess::Batches) => "memory, or on disk in batches (--memory)",
        Some(RowAccess::Passes) => "memory, or on disk (--memory)",
        _ => "memory",
    };
    let text = format!(
        "{how}: {}\nrows: {rows}\n\nEvery option is chosen from public facts unless it is given:",
        registry().about(name).unwrap_or("")
    );
    page(name, text, registry().catalogue().iter().filter(|option| option.methods.contains(&name)))
}

fn all_methods() -> String {
    let mut text = String::from("Methods (--method NAME; `dpopt help NAME` shows the options of each):\n\n");
    for name in methods() {
        text.push_str(&format!("  {name:<28}{}\n", registry().about(name).unwrap_or("")));
    }
    text
}

/// One line per option and per method, for docs/methods/options.md.
fn markdown() -> String {
    let mut text = String::from(
        "# Options of methods\n\n\
         Made by `make options` from the descriptions in the code of the methods. As flags of the command line (`--clip-norm`), as parameters of a\n\
         method's class in Python (`method=dpopt.methods.NoisySGD(clip_norm=…)`). Every option is chosen from public facts unless it is given. A method that does not have an option\n\
         refuses it by name; without `--method`, only methods that have all given options are compared.\n\n\
         | option | values | what it does |\n|---|---|---|\n",
    );
    for Described { info, .. } in registry().catalogue() {
        let values = match &info.form {
            Form::Real { in_words, .. } => in_words.to_string(),
            Form::Norm => NORMS.to_string(),
            Form::Whole => "a whole number, at least 1".to_string(),
            Form::Flag => "yes or no".to_string(),
            Form::Reals => "a list of numbers; for the flag a file with one per line".to_string(),
            Form::Words { words } => {
                words.iter().map(|(word, meaning)| format!("`{word}`: {meaning}")).collect::<Vec<_>>().join("<br>")
            }
        };
        text.push_str(&format!("| `{}` | {values} | {} |\n", info.name, info.help));
    }
    text.push_str("\n| method | what it does | its options |\n|---|---|---|\n");
    for name in methods() {
        let own = registry().catalogue().iter().filter(|option| option.methods.contains(&name));
        let own = own.map(|option| format!("`{}`", option.info.name)).collect::<Vec<_>>().join(" ");
        text.push_str(&format!("| `{name}` | {} | {own} |\n", registry().about(name).unwrap_or("")));
    }
    text
}

/// The program with all options of its commands in sight but those of methods.
fn everything() -> Command {
    let commands = crate::TRAINING;
    commands.into_iter().fold(crate::commands(), |program, name| {
        program.mut_subcommand(name, |command| command.after_help(crate::OPTIONS))
    })
}

/// What there is help about.
pub(crate) fn topics(program: &Command) -> Vec<String> {
    let commands = program.get_subcommands().filter(|c| !c.is_hide_set()).map(|c| c.get_name().to_string());
    commands.chain(methods().chain(["options", "methods", "bounds"]).map(String::from)).collect()
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut program = if arguments.all { everything() } else { crate::program() };
    let Some(topic) = arguments.topic.as_deref() else {
        return print(&program.render_long_help().to_string());
    };
    program.build();
    if arguments.all && program.find_subcommand(topic).is_none() && topics(&program).iter().any(|t| t == topic) {
        return Err(usage("--all is for the options of a command: `dpopt help fit --all`"));
    }
    let text = match topic {
        "options" if arguments.markdown => markdown(),
        "options" => page(
            "options",
            "Options of methods (`dpopt help METHOD` shows those of one):".into(),
            registry().catalogue().iter(),
        ),
        "methods" => all_methods(),
        "bounds" => BOUNDS.into(),
        name if methods().any(|method| method == name) => of_method(name),
        name => match program.find_subcommand_mut(name) {
            // as `--help` shows them
            Some(command) if crate::TRAINING.contains(&name) && !arguments.all => command.render_help().to_string(),
            Some(command) => command.render_long_help().to_string(),
            None => {
                let known = topics(&program);
                let meant = did_you_mean(name, known.iter().map(String::as_str));
                return Err(usage(format!(
                    "there is no command or method `{name}`{meant}{} `dpopt help` lists the commands, `dpopt help methods` the methods",
                    if meant.is_empty() { ";" } else { "" }
                )));
            }
        },
    };
    print(&text)
}
