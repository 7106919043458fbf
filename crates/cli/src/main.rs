//! `dpopt`: fit, explain, predict, evaluate, account, split, generate. Thin: the work is in the library.
#![forbid(unsafe_code)]

mod account;
mod output;
mod relation;

use clap::{Parser, Subcommand};
use output::Failure;
use std::process::ExitCode;

/// Differentially private models of sensitive tables: plan, certify, run, report.
#[derive(Parser)]
#[command(name = "dpopt", version, propagate_version = true)]
#[command(after_help = "First model in a minute: dpopt generate census --rows 30000 --seed 1 -o census.csv && \
    dpopt fit census.csv --target income --epsilon 1 --bounds bounds.toml --report report.html")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Calculate with privacy: what does a mechanism cost, how much noise does a budget need?
    Account(account::Arguments),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command {
        Command::Account(arguments) => account::run(&arguments),
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
