//! `dpopt generate`: tables with known truth, for trying things out.

use crate::output::{Failure, print};
use crate::paths::Paths;
use crate::usage;
use crate::written::Written;
use clap::{Args, Subcommand};
use dpopt::data::failure;
use dpopt::output::write_all_atomically;
use dpopt_privacy::Shown;
use dpopt_problems as problems;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(crate) struct GenerateArguments {
    #[command(subcommand)]
    table: Table,
}

#[derive(Subcommand)]
enum Table {
    /// A census-like table: ages, jobs, hours; the target is `income` (low, high)
    Census(CensusArguments),
    /// Visits of persons who have many rows each; the target is `outcome` (no, yes), and `person` says whose row it is
    #[command(after_help = "\
Rows are in random order. Labels given the features are independent, from the same model at every correlation.
For a table of other persons to test on give another --seed, not `dpopt split`, which has rows of one person on both sides.

Examples:
  dpopt generate panel --units 5000 --rows-per-unit 100 --correlation 0.5 --seed 1 -o visits.csv
  dpopt generate panel --units 1000 --rows-per-unit 100 --correlation 0.5 --seed 2 -o test.csv")]
    Panel(PanelArguments),
    /// Messages, each of a sender and a recipient, of whom few have very many; the target is `answered` (no, yes)
    #[command(after_help = "\
Examples:
  dpopt generate messages --units 5000 --rows 100000 --seed 1 -o messages.csv
  dpopt fit messages.csv --target answered --epsilon 1 --bounds bounds.toml --unit sender --unit recipient --max-rows-per-unit 16
  dpopt generate messages --units 5000 --rows 20000 --seed 2 -o test.csv")]
    Messages(MessagesArguments),
}

#[derive(Args)]
struct CensusArguments {
    /// Number of rows
    #[arg(long, default_value_t = 30_000, value_parser = clap::value_parser!(u32).range(1..))]
    rows: u32,
    #[command(flatten)]
    place: Place,
}

#[derive(Args)]
struct PanelArguments {
    /// Number of persons
    #[arg(long, default_value_t = 5000, value_parser = clap::value_parser!(u32).range(1..))]
    units: u32,
    /// Rows of each person; with --uneven their mean
    #[arg(long, value_name = "ROWS", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    rows_per_unit: u32,
    /// How much the rows of a person say the same: 0 nothing (independent rows), 1 all (the same features), between the share of
    /// the variance that they have in common
    #[arg(long, default_value_t = 0.5, allow_negative_numbers = true)]
    correlation: f64,
    /// Some persons have a single row and few have very many; as many rows in all
    #[arg(long)]
    uneven: bool,
    #[command(flatten)]
    place: Place,
}

#[derive(Args)]
struct MessagesArguments {
    /// Number of persons
    #[arg(long, default_value_t = 5000, value_parser = clap::value_parser!(u32).range(2..))]
    units: u32,
    /// Number of messages
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..))]
    rows: u32,
    #[command(flatten)]
    place: Place,
}

#[derive(Args)]
struct Place {
    /// The same seed gives the same table
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// CSV file, or TSV by its name, also gzipped; its public facts go to bounds.toml beside it, or to NAME.bounds.toml where that holds others
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Replace a bounds.toml with other public facts
    #[arg(long)]
    overwrite: bool,
}

impl Place {
    /// Table and public facts, both or neither; `rows` as the answer calls them.
    fn write(&self, csv: &str, facts: &str, rows: &str, bayes_accuracy: f64) -> Result<(), Failure> {
        let written = Written::table("-o", &self.output)?;
        // the same facts again are no loss; anything else may be somebody's work
        let free = |place: &Path| {
            self.overwrite
                || std::fs::read(place).map_or_else(|e| e.kind() == ErrorKind::NotFound, |b| b == facts.as_bytes())
        };
        let usual = self.output.with_file_name("bounds.toml");
        let name = self.output.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let own = self.output.with_file_name(format!("{}.bounds.toml", name.split('.').next().unwrap_or_default()));
        let bounds = if free(&usual) { usual } else { own };
        Paths::default().written("-o", Some(&self.output)).written("the public facts", Some(&bounds)).check()?;
        if !free(&bounds) {
            return Err(usage(format!(
                "{} exists and is not what would be written there; choose another name or directory for -o, or replace it with --overwrite",
                bounds.display()
            )));
        }
        let text = match written.separator() {
            // no field of a generated table needs a quote
            '\t' => csv.replace(',', "\t"),
            _ => csv.to_string(),
        };
        let bytes = written.bytes(text.into_bytes());
        write_all_atomically(&[(&self.output, &bytes), (&bounds, facts.as_bytes())])
            .map_err(|e| Failure::machine(format!("cannot write {}: {}", self.output.display(), failure(&e))))?;
        print(&format!(
            "{rows} to {}, public facts to {}\nno model can expect a higher accuracy than {bayes_accuracy:.4}\n",
            self.output.display(),
            bounds.display(),
        ))
    }
}

pub(crate) fn run(arguments: &GenerateArguments) -> Result<(), Failure> {
    match &arguments.table {
        Table::Census(asked) => {
            let census = problems::census(asked.rows as usize, asked.place.seed);
            asked.place.write(&census.csv, &census.bounds, &format!("{} rows", asked.rows), census.bayes_accuracy)
        }
        Table::Panel(asked) => panel(asked),
        Table::Messages(asked) => {
            let made = problems::messages(asked.units as usize, asked.rows as usize, asked.place.seed);
            let rows = format!("{} messages among {} persons", asked.rows, asked.units);
            asked.place.write(&made.csv, &made.bounds, &rows, made.bayes_accuracy)
        }
    }
}

fn panel(asked: &PanelArguments) -> Result<(), Failure> {
    if !(0.0..=1.0).contains(&asked.correlation) {
        return Err(usage(format!(
            "--correlation is {}; give a number from 0 (independent rows) to 1 (a person's rows have the same features)",
            Shown(asked.correlation)
        )));
    }
    let Some(rows) = asked.units.checked_mul(asked.rows_per_unit) else {
        return Err(usage(format!(
            "--units {} with --rows-per-unit {} are more than {} rows; give fewer",
            asked.units,
            asked.rows_per_unit,
            u32::MAX
        )));
    };
    let make = if asked.uneven { problems::uneven_panel } else { problems::panel };
    let panel = make(asked.units as usize, asked.rows_per_unit as usize, asked.correlation, asked.place.seed);
    let spread = match (asked.uneven, panel.rows_per_unit.iter().min(), panel.rows_per_unit.iter().max()) {
        (true, Some(least), Some(most)) => format!(" ({least} to {most} each)"),
        _ => String::new(),
    };
    let rows = format!("{rows} rows of {} persons{spread}", asked.units);
    asked.place.write(&panel.csv, &panel.bounds, &rows, panel.bayes_accuracy)
}
