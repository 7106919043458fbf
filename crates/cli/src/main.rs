//! `dpopt`: fit, check, explain, predict, evaluate, mean, aggregate, online, account, ledger, verify, audit, split, generate, help. Thin: the work is in the library.
#![forbid(unsafe_code)]

mod account;
mod aggregate;
mod audit;
mod check;
mod explain;
mod fit;
mod flags;
mod generate;
mod help;
mod ledger;
mod mean;
mod online;
mod output;
mod paths;
mod predict;
mod progress;
mod refusal;
mod relation;
mod spending;
mod split;
mod training;
mod unit;
mod verify;
mod workers;
mod written;

use clap::{Parser, Subcommand};
use output::Failure;
use std::process::ExitCode;

/// Where the flags of methods are shown.
const OPTIONS: &str = "Methods have options of their own (--steps, --clip-norm, --moments, …), chosen from public facts unless given:\n  \
    dpopt help METHOD    those of one method\n  dpopt help methods   all methods\n  dpopt help options   all options";

/// Differentially private models of sensitive tables: plan, certify, run, report.
#[derive(Parser)]
#[command(name = "dpopt", version, propagate_version = true, disable_help_subcommand = true)]
#[command(after_help = "First model in a minute:
  dpopt generate census --rows 30000 --seed 1 -o census.csv
  dpopt fit census.csv --target income --epsilon 1 --bounds bounds.toml --report report.html")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Fit a private model of one column and write model.json
    #[command(after_help = OPTIONS)]
    Fit(Box<fit::FitArguments>),
    /// Look for everything that a fit with the same flags would trip over, at no budget (for your eyes, not private)
    #[command(after_help = OPTIONS)]
    Check(Box<check::Arguments>),
    /// Show every method with its noise, cost and prediction, before any record is read
    #[command(after_help = OPTIONS)]
    Explain(Box<explain::ExplainArguments>),
    /// Predict labels and probabilities, or values, for the rows of a table
    Predict(predict::PredictArguments),
    /// Score a model on a table with known targets (exact numbers, not private)
    Evaluate(predict::EvaluateArguments),
    /// Estimate the mean of sparse vectors privately
    Mean(Box<mean::Arguments>),
    /// Make any program's answer private: it answers for many groups of rows, and what they agree on is released
    Aggregate(Box<aggregate::Arguments>),
    /// Learn privately while it happens: whom to trust, where to stand, which arm to pull in every round
    Online(online::Arguments),
    /// Calculate with privacy: what does a mechanism cost, how much noise does a budget need?
    Account(account::Arguments),
    /// Show what a budget file allows, what was spent by which run, and what is left
    Ledger(ledger::Arguments),
    /// Recompute the guarantee of a model, report or mean from the events in it
    Verify(verify::Arguments),
    /// Try to refute the privacy claim of any program
    Audit(Box<audit::Arguments>),
    /// Generate a table with a known truth
    Generate(generate::GenerateArguments),
    /// Split a text table into two files at random
    Split(split::SplitArguments),
    /// A process of `fit --workers`, started by it
    #[command(hide = true)]
    Worker,
    /// Show a command, a method and its options, or lists of them
    Help(help::Arguments),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
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
    let result = match cli.command {
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
        Command::Audit(arguments) => audit::run(&arguments),
        Command::Generate(arguments) => generate::run(&arguments),
        Command::Split(arguments) => split::run(&arguments),
        Command::Worker => workers::work(),
        Command::Help(arguments) => help::run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// A usage error: exit code 2.
pub(crate) fn usage(message: impl std::fmt::Display) -> Failure {
    Failure::usage(message)
}
