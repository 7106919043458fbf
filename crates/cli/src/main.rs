//! `dpopt`: the commands of `dpopt-cli`, with the methods that ship and those of the literature.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    dpopt_cli::run(dpopt_methods::registry().clone())
}
