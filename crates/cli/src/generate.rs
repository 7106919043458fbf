//! `dpopt generate`: tables with known truth, for trying things out.

use crate::output::{Failure, print};
use crate::paths::Paths;
use crate::usage;
use clap::{Args, ValueEnum};
use dpopt::output::write_all_atomically;
use dpopt::problems;
use std::io::ErrorKind;
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct GenerateArguments {
    /// What to generate
    #[arg(value_enum)]
    table: Table,
    /// Number of rows
    #[arg(long, default_value_t = 30_000, value_parser = clap::value_parser!(u32).range(1..))]
    rows: u32,
    /// The same seed gives the same table
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// CSV file; its public facts go to bounds.toml beside it
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Replace a bounds.toml with other public facts that is there already
    #[arg(long)]
    overwrite: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Table {
    /// A census-like table: ages, jobs, hours; the target is `income` (low, high)
    Census,
}

pub(crate) fn run(arguments: &GenerateArguments) -> Result<(), Failure> {
    let Table::Census = arguments.table;
    let census = problems::census(arguments.rows as usize, arguments.seed);
    let bounds = arguments.output.with_file_name("bounds.toml");
    Paths::default().written("-o", Some(&arguments.output)).written("the public facts", Some(&bounds)).check()?;
    // the same facts again are no loss; anything else may be somebody's work
    if !arguments.overwrite
        && std::fs::read(&bounds).map_or_else(|e| e.kind() != ErrorKind::NotFound, |b| b != census.bounds.as_bytes())
    {
        return Err(usage(format!(
            "{} exists and is not what would be written there; choose another directory for -o, or replace it with --overwrite",
            bounds.display()
        )));
    }
    write_all_atomically(&[(&arguments.output, census.csv.as_bytes()), (&bounds, census.bounds.as_bytes())])
        .map_err(|e| Failure::machine(format!("cannot write {}: {}", arguments.output.display(), e.kind())))?;
    print(&format!(
        "{} rows to {}, public facts to {}\nno model can expect a higher accuracy than {:.4}\n",
        arguments.rows,
        arguments.output.display(),
        bounds.display(),
        census.bayes_accuracy
    ))
}
