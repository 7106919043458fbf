//! `dpopt generate`: tables with known truth, for trying things out.

use crate::output::{Failure, print};
use crate::paths::Paths;
use crate::typed::typed;
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
    /// Visits of persons who have many rows each; the target is `outcome` (no, yes), and `person` identifies the
    /// person
    #[command(after_help = "\
Rows are in random order. Labels given the features are independent, from the same model at every correlation.
To get a test table of other persons, use another --seed; `dpopt split` would put rows of one person on both sides.

Examples:
  dpopt generate panel --units 5000 --rows-per-unit 100 --correlation 0.5 --seed 1 -o visits.csv
  dpopt generate panel --units 1000 --rows-per-unit 100 --correlation 0.5 --seed 2 -o test.csv")]
    Panel(PanelArguments),
    /// Messages between persons, of whom a few have very many; the target is `answered` (no, yes)
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
    /// Correlation between the rows of a person: 0 for independent rows, 1 for equal features, in between the share
    /// of the variance that they have in common
    #[arg(long, default_value_t = 0.5, allow_negative_numbers = true)]
    correlation: f64,
    /// Uneven numbers of rows: some persons have one row and a few have very many; the total stays the same
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
    /// Seed of the generator: equal seeds give equal tables
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// CSV file, or TSV if the name ends so, also gzipped. The public facts go to bounds.toml beside it, or to
    /// NAME.bounds.toml if bounds.toml holds others
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Overwrite a bounds.toml with other public facts
    #[arg(long)]
    overwrite: bool,
}

impl Place {
    /// Table and public facts, both or neither; `rows` as the answer calls them, and what a fit is told beside both.
    fn write(&self, csv: &str, facts: &str, (rows, fit): (&str, &[&str]), bayes_accuracy: f64) -> Result<(), Failure> {
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
                "{} exists with other contents; choose another name or directory for -o, or replace it with \
                 --overwrite",
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
        let (table, bounds) = (self.output.display().to_string(), bounds.display().to_string());
        let usual = ["--epsilon", "1", "--bounds", &bounds];
        let next = ["fit", &table].into_iter().chain(fit.iter().copied()).chain(usual).map(String::from);
        print(&format!(
            "{rows} to {table}, public facts to {bounds}\n\
             labels are drawn at random: the best possible model has an expected accuracy of {bayes_accuracy:.4}\n\
             next: {}\n",
            typed(next.collect())
        ))
    }
}

pub(crate) fn run(arguments: &GenerateArguments) -> Result<(), Failure> {
    match &arguments.table {
        Table::Census(asked) => {
            let census = problems::census(asked.rows as usize, asked.place.seed);
            let told = (&*format!("{} rows", asked.rows), &["--target", "income"][..]);
            asked.place.write(&census.csv, &census.bounds, told, census.bayes_accuracy)
        }
        Table::Panel(asked) => panel(asked),
        Table::Messages(asked) => {
            let made = problems::messages(asked.units as usize, asked.rows as usize, asked.place.seed);
            let rows = format!("{} messages among {} persons", asked.rows, asked.units);
            let fit = "--target answered --unit sender --unit recipient --max-rows-per-unit 16".split(' ');
            asked.place.write(&made.csv, &made.bounds, (&rows, &fit.collect::<Vec<_>>()), made.bayes_accuracy)
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
            "--units {} with --rows-per-unit {} make more than {} rows; give fewer",
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
    let fit = ["--target", "outcome", "--unit", "person"];
    asked.place.write(&panel.csv, &panel.bounds, (&rows, &fit), panel.bayes_accuracy)
}
