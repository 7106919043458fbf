//! The command line of dpopt: init, fit, check, explain, predict, evaluate, mean, aggregate, online, account, ledger, verify, disclose, audit, split,
//! generate, completions, help. Thin: the work is in the library.
//!
//! The command `dpopt` is [`run`] with the methods that ship and those of the literature. A program with methods of its own has the same commands, which
//! compare, explain, fit and describe its methods and their options beside the others:
//!
//! ```no_run
//! fn main() -> std::process::ExitCode {
//!     let methods = dpopt::optimize::registry().clone(); // .with::<MyMethod>()
//!     dpopt_cli::run(methods)
//! }
//! ```
#![forbid(unsafe_code)]

mod account;
mod aggregate;
mod audit;
mod check;
mod completions;
mod disclose;
mod explain;
mod face;
mod fit;
mod flags;
mod generate;
mod help;
mod init;
mod ledger;
mod manual;
mod mean;
mod methods;
mod misread;
mod online;
mod output;
mod paths;
mod predict;
mod progress;
mod recalls;
mod relation;
mod spending;
mod split;
mod training;
mod typed;
mod unit;
mod verify;
mod workers;
mod written;

use clap::{Arg, CommandFactory, FromArgMatches, Parser, Subcommand};
use dpopt::Provenance;
use dpopt::optimize::Registry;
use output::Failure;
use std::process::ExitCode;

/// Where the flags of methods are shown.
const OPTIONS: &str = "Methods have options of their own (--steps, --clip-norm, --moments, …), chosen from public facts unless given:\n  \
    dpopt help METHOD    those of one method\n  dpopt help methods   all methods\n  dpopt help options   all options";

/// Differentially private models of sensitive tables: plan, certify, run, report.
#[derive(Parser)]
#[command(name = "dpopt", version, long_version = Provenance::of_this_build().in_lines(), propagate_version = true, disable_help_subcommand = true)]
#[command(after_help = "A first model:
  dpopt generate census --rows 30000 --seed 1 -o census.csv     # also writes bounds.toml
  dpopt fit census.csv --target income --epsilon 1 --bounds bounds.toml --report report.html
Your own table (init writes a bounds.toml to fill in; check lists what is still missing in it, and prints the next command):
  dpopt init data.csv --target outcome
  dpopt check data.csv --target outcome --epsilon 1 --bounds bounds.toml")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Write a bounds file to fill in, from the names of a table's columns alone
    Init(init::Arguments),
    /// Fit a private model of one column and write model.json
    Fit(Box<fit::FitArguments>),
    /// Check a table for all problems that a fit with the same flags would meet, without spending budget (exact
    /// output, not private)
    Check(Box<check::Arguments>),
    /// Show what a fit would do and how good its model will be, before any record is read
    Explain(Box<explain::ExplainArguments>),
    /// Predict labels and probabilities, or values, for the rows of a table
    Predict(predict::PredictArguments),
    /// Score a model on a table with known targets (exact numbers, not private)
    Evaluate(predict::EvaluateArguments),
    /// Estimate the mean of sparse vectors privately
    Mean(Box<mean::Arguments>),
    /// Make the answer of any program private: run it on many groups of rows and release what the answers agree on
    /// (sample and aggregate)
    Aggregate(Box<aggregate::Arguments>),
    /// Private online learning: experts, convex optimization and bandits
    Online(online::Arguments),
    /// Privacy accounting: the cost of a mechanism, or the noise that a budget needs
    Account(account::Arguments),
    /// Show the total budget of a ledger, what each run spent, and what is left
    Ledger(ledger::Arguments),
    /// Recompute the guarantee of a model, report or mean from the events in it
    Verify(verify::Arguments),
    /// Write what is published about a release: an entry for the registry of deployments, a checklist, a model card
    Disclose(disclose::Arguments),
    /// Try to refute the privacy claim of any program
    Audit(Box<audit::Arguments>),
    /// Generate a table with a known truth
    Generate(generate::GenerateArguments),
    /// Split a text table into two files at random
    Split(split::SplitArguments),
    /// Worker process, started by `fit --workers`
    #[command(hide = true)]
    Worker,
    /// Print a script that lets a shell complete commands and options
    #[command(after_help = completions::HOW)]
    Completions(completions::Arguments),
    /// Write man pages into a directory
    #[command(hide = true)]
    Manual(manual::Arguments),
    /// Show a command, a method and its options, or lists of them
    Help(help::Arguments),
}

/// Commands about training, whose help shows these options first, and besides them what a command has alone.
const TRAINING: [&str; 3] = ["fit", "check", "explain"];
const USUAL: [&str; 10] =
    ["target", "epsilon", "delta", "bounds", "task", "unit", "ledger", "total_epsilon", "output", "report"];
const OWN: [&str; 8] = ["all", "json", "accuracy", "loss_points", "error", "added_error", "best", "plot"];

/// The program as it is declared. An ε that is asked for need not be given.
fn commands() -> clap::Command {
    Cli::command().mut_subcommand("explain", |command| {
        command.mut_arg("epsilon", |epsilon| epsilon.required(false).required_unless_present_any(explain::GOALS))
    })
}

/// The program as it reads its arguments. The help of commands about training shows the options that most people need, and where the others are.
fn program() -> clap::Command {
    let usual = |argument: Arg| {
        let shown = argument.is_positional() || [&USUAL[..], &OWN].concat().contains(&argument.get_id().as_str());
        if shown { argument.help_heading(None::<&str>) } else { argument.hide(true) }
    };
    TRAINING.into_iter().fold(commands(), |program, name| {
        let rest = format!("All options of this command:\n  dpopt help {name} --all\n{OPTIONS}");
        program.mut_subcommand(name, |command| command.mut_args(usual).after_help(rest))
    })
}

/// Runs the command that the arguments of this process name, with `methods` to plan, and returns its exit code. Once in a process.
pub fn run(methods: Registry) -> ExitCode {
    methods::plan_with(methods);
    let program = program();
    let matches = match program.clone().try_get_matches() {
        Ok(matches) => matches,
        Err(e) => return misread::told(&e, &program),
    };
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|e| e.exit());
    if let Err(e) = ctrlc::set_handler(|| {
        // first, so that nothing is written into what is removed
        dpopt::estimate::stop_commands();
        dpopt::output::remove_unfinished();
        for ledger in dpopt::session::charged_files() {
            output::note(format!(
                "interrupted: {} keeps the charge of this run; a charge is never taken back",
                ledger.display()
            ));
        }
        std::process::exit(130);
    }) {
        output::note(format!("warning: Ctrl-C is not handled ({e})"));
    }
    let result = dpopt_refusal::in_words(&face::CommandLine, || match cli.command {
        Command::Init(arguments) => init::run(&arguments),
        Command::Fit(arguments) => fit::fit(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Explain(arguments) => explain::explain(&arguments),
        Command::Predict(arguments) => predict::predict(&arguments),
        Command::Evaluate(arguments) => predict::evaluate(&arguments),
        Command::Mean(arguments) => mean::run(&arguments),
        Command::Aggregate(arguments) => aggregate::run(&arguments),
        Command::Online(arguments) => online::run(&arguments),
        Command::Account(arguments) => account::run(&arguments),
        Command::Ledger(arguments) => ledger::run(&arguments),
        Command::Verify(arguments) => verify::run(&arguments),
        Command::Disclose(arguments) => disclose::run(&arguments),
        Command::Audit(arguments) => audit::run(&arguments),
        Command::Generate(arguments) => generate::run(&arguments),
        Command::Split(arguments) => split::run(&arguments),
        Command::Worker => workers::work(),
        Command::Completions(arguments) => completions::run(&arguments),
        Command::Manual(arguments) => manual::run(&arguments),
        Command::Help(arguments) => help::run(&arguments),
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// A usage error: exit code 2.
pub(crate) fn usage(message: impl std::fmt::Display) -> Failure {
    Failure::usage(message)
}
