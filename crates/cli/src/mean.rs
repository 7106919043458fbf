//! `dpopt mean`: the private mean of sparse vectors; with `--of`, means of [columns](crate::mean_of_columns).

use crate::flags::TableFlags;
use crate::mean_of_columns::{self, ColumnFlags};
use crate::output::{Failure, note, print, print_json, table};
use crate::paths::{Paths, is_standard_output};
use crate::progress::Bar;
use crate::relation::RelationFlag;
use crate::spending::{BudgetFile, Outputs, Reserved, command_line, failed};
use crate::unit::OwnerFlags;
use clap::Args;
use dpopt::estimate::{Estimated, MeanCandidate, MeanEstimate, MeanOptions, MeanProblem};
use dpopt::model::Guarantee;
use dpopt::report::{Ownership, number, probability};
use dpopt_privacy::ledger::Receipt;
use dpopt_privacy::{Budget, Shown};
use std::fmt::Write;
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Parquet with the list columns `indices` and `values`, LIBSVM (labels are not used), or a table of numbers; several
    /// files are one table
    #[arg(required = true)]
    data: Vec<PathBuf>,
    /// About how many entries of a vector (with --unit, of the mean of a unit's vectors) differ from 0: a public guess. A wrong one costs accuracy,
    /// never privacy
    #[arg(long, value_name = "S", required_unless_present = "of", allow_negative_numbers = true)]
    sparsity: Option<f64>,
    #[command(flatten)]
    pub(crate) columns: ColumnFlags,
    /// ε of the answer
    #[arg(long, allow_negative_numbers = true, help_heading = None)]
    pub(crate) epsilon: f64,
    /// δ of the answer; by default 1/n^1.1 for n rows or units, at most 0.01; 0 for a pure guarantee
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) delta: Option<f64>,
    /// Vectors longer than this (with --unit, means of a unit's vectors) are shrunk to it
    #[arg(long, value_name = "L", default_value_t = 1.0, allow_negative_numbers = true)]
    norm: f64,
    /// Which tables are neighbours
    #[arg(long, value_enum, default_value_t)]
    pub(crate) relation: RelationFlag,
    /// Number of rows, if it is public otherwise or (add-or-remove) a public guess; by default rows are counted
    #[arg(long, conflicts_with = "unit")]
    pub(crate) rows: Option<u64>,
    #[command(flatten)]
    pub(crate) unit: OwnerFlags,
    /// projected-gaussian, projected-laplace or l1-recovery, by default the smallest proved error; with --of clipped-laplace or clipped-gaussian, by default
    /// the narrowest intervals
    #[arg(long)]
    pub(crate) method: Option<String>,
    /// Where the answer goes: index,value lines (.csv) or one object (.json), `-` for standard output; entries that are not
    /// there are 0. With --of a line for each column
    #[arg(short, long, value_name = "FILE", default_value = "mean.csv")]
    output: PathBuf,
    /// Also write a report: one HTML page, or JSON if the name ends in .json
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Show every method with its noise and proved error; no record is read, nothing is written
    #[arg(long, conflicts_with_all = ["report", "ledger"])]
    pub(crate) explain: bool,
    /// Machine-readable plan (with --explain)
    #[arg(long, requires = "explain")]
    pub(crate) json: bool,
    #[command(flatten)]
    budget_file: BudgetFile,
    /// Reproducible noise for tests: NO privacy, and no charge to a ledger
    #[arg(long, value_name = "N")]
    pub(crate) insecure_seed: Option<u64>,
    /// Print nothing but warnings and errors
    #[arg(short, long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) reading: TableFlags,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let outputs = Outputs { answer: &arguments.output, csv: true, report: arguments.report.as_deref() };
    if !arguments.explain {
        Paths::default()
            .written("-o", Some(&arguments.output))
            .written("--report", arguments.report.as_deref())
            .written("--ledger", arguments.budget_file.ledger.as_deref())
            .data(&arguments.data)
            .check()?;
        outputs.check()?;
    }
    let budget_file = &arguments.budget_file;
    let ledger = budget_file.open(
        arguments.epsilon,
        arguments.delta,
        arguments.unit.neighbours(arguments.relation),
        arguments.unit.columns(),
        arguments.quiet,
    )?;
    let opened = arguments.reading.open(&arguments.data)?;
    if arguments.columns.are_asked_for() {
        return mean_of_columns::run(arguments, &outputs, ledger, opened);
    }
    let options = MeanOptions {
        delta: arguments.delta,
        norm: Some(arguments.norm),
        relation: arguments.relation.into(),
        unit: arguments.unit.options(),
        rows: arguments.rows,
        method: arguments.method.clone(),
        bad_cells: arguments.reading.bad_cells(),
        ledger,
        insecure_seed: arguments.insecure_seed,
        command: Some(command_line()),
    };
    // clap asks for it where there is no --of
    let sparsity = arguments.sparsity.unwrap_or(f64::NAN);
    let estimate = MeanEstimate::new(opened, sparsity, arguments.epsilon, options).map_err(failed)?;
    if arguments.explain {
        let (problem, budget) = (estimate.problem().clone(), estimate.budget());
        let candidates = estimate.explain();
        let unit = arguments.unit.options().map(|unit| unit.name());
        let (unit, ownership) = (unit.as_deref(), estimate.ownership());
        return if arguments.json {
            print_json(&document(&problem, unit, ownership.as_ref(), budget, &candidates))
        } else {
            print(&explained(&problem, unit, ownership.as_ref(), budget, &candidates))
        };
    }
    let records = estimate.problem().records;
    let reserved = outputs.reserve()?;
    let estimated = estimate.run_with(&Bar::new()).map_err(failed)?;
    for warning in &estimated.report.warnings {
        note(format!("warning: {warning}"));
    }
    let text = answer(arguments, &estimated)?;
    reserved.write(&text, &estimated.report)?;
    if arguments.quiet { Ok(()) } else { Reserved::summarise(&outputs, &summary(arguments, records, &estimated)) }
}

impl Arguments {
    /// Whether the answer is one JSON object.
    pub(crate) fn writes_json(&self) -> bool {
        self.output.extension().is_some_and(|e| e.eq_ignore_ascii_case("json"))
    }

    /// What every answer's summary ends with: what is promised, and where things are.
    pub(crate) fn summarise_tail(&self, out: &mut String, g: &Guarantee, receipt: Option<&Receipt>) {
        let _ = writeln!(out, "guarantee   {g}");
        if g.insecure_seed {
            out.push_str("            NO privacy: the noise comes from a fixed seed\n");
        }
        if !is_standard_output(&self.output) {
            let _ = writeln!(out, "answer      {}", self.output.display());
        }
        if let Some(path) = self.report.as_ref().filter(|path| !is_standard_output(path)) {
            let _ = writeln!(out, "report      {}", path.display());
        }
        if let (Some(path), Some(receipt)) = (&self.budget_file.ledger, receipt) {
            let _ = writeln!(out, "ledger      {}, charge {}", path.display(), receipt.number);
        }
    }
}

/// The answer as a file.
fn answer(arguments: &Arguments, estimated: &Estimated) -> Result<String, Failure> {
    if arguments.writes_json() {
        let (indices, values): (Vec<u64>, Vec<f64>) = estimated.entries.iter().copied().unzip();
        let mut document = serde_json::json!({
            "dimension": estimated.dimension,
            "indices": indices,
            "values": values,
            "error_bound": estimated.error_bound,
            "guarantee": estimated.guarantee,
        });
        if let Some(receipt) = &estimated.report.receipt {
            document["receipt"] = serde_json::to_value(receipt).map_err(Failure::machine)?;
        }
        return serde_json::to_string(&document).map(|text| text + "\n").map_err(Failure::machine);
    }
    let mut text = String::from("index,value\n");
    for (index, value) in &estimated.entries {
        // writing to a String cannot fail
        let _ = writeln!(text, "{index},{value}");
    }
    Ok(text)
}

fn summary(arguments: &Arguments, records: u64, estimated: &Estimated) -> String {
    let g = &estimated.guarantee;
    let method = estimated.report.candidates.get(estimated.report.chosen).map_or("", |c| &c.method);
    let mut out = format!(
        "mean of {} with {} coordinates: {} entries differ from 0\n",
        vectors(records, g.unit_column.as_deref(), estimated.report.facts.ownership.as_ref()),
        estimated.dimension,
        estimated.entries.len()
    );
    let _ =
        writeln!(out, "method      {method}; l2 error at most {} with probability 0.95", number(estimated.error_bound));
    arguments.summarise_tail(&mut out, g, estimated.report.receipt.as_ref());
    out
}

/// What the mean is of.
fn vectors(records: u64, unit: Option<&str>, ownership: Option<&Ownership>) -> String {
    match (ownership, unit) {
        (Some(owned), _) => format!("{records} vectors, {} of {} at most,", owned.bound, owned.columns.join(" and ")),
        (None, Some(unit)) => format!("{records} vectors, one per {unit},"),
        (None, None) => format!("{records} vectors"),
    }
}

fn explained(
    problem: &MeanProblem,
    unit: Option<&str>,
    ownership: Option<&Ownership>,
    budget: Budget,
    candidates: &[MeanCandidate],
) -> String {
    let rows: Vec<Vec<String>> = candidates
        .iter()
        .map(|c| match &c.plan {
            Ok(plan) => vec![
                c.method.to_string(),
                number(plan.noise_multiplier),
                number(plan.noise_std),
                number(plan.error_bound),
                number(plan.expected_entries.ceil()),
                format!("{:.6}", Shown((plan.certificate.bound().upper * 1e6).ceil() / 1e6)),
                probability(plan.certificate.budget().delta()),
                plan.certificate.bound().accountant.clone(),
            ],
            Err(why) => vec![c.method.to_string(), format!("not applicable: {why}")],
        })
        .collect();
    let headings = [
        "method",
        "#noise",
        "#std per entry",
        "#l2 error, at most",
        "#entries from noise",
        "#epsilon",
        "#delta",
        "accountant",
    ];
    format!(
        "mean of {} with {} coordinates, about {} of them not 0, l2 norm at most {}, {}; epsilon {}, delta {}\n\
         {}\n\n{}",
        vectors(problem.records, unit, ownership),
        problem.dimension,
        Shown(problem.sparsity),
        Shown(problem.norm),
        problem.neighbours.relation,
        Shown(budget.epsilon()),
        probability(budget.delta()),
        match (unit, ownership) {
            (None, _) => "no record was read".to_string(),
            (_, Some(owned)) => format!("no vector was read, only the columns {}; {owned}", owned.columns.join(", ")),
            (Some(unit), None) => format!("no vector was read, only the column `{unit}`"),
        },
        table(&headings, &rows)
    )
}

fn document(
    problem: &MeanProblem,
    unit: Option<&str>,
    ownership: Option<&Ownership>,
    budget: Budget,
    candidates: &[MeanCandidate],
) -> serde_json::Value {
    let rows: Vec<serde_json::Value> = candidates
        .iter()
        .map(|c| match &c.plan {
            Ok(plan) => serde_json::json!({
                "method": c.method, "noise_multiplier": plan.noise_multiplier, "noise_std": plan.noise_std,
                "error_bound": plan.error_bound, "epsilon": plan.certificate.bound().upper, "schedule": plan.schedule,
            }),
            Err(why) => serde_json::json!({ "method": c.method, "not_applicable": why.to_string() }),
        })
        .collect();
    let mut document = serde_json::json!({
        "problem": problem, "epsilon": budget.epsilon(), "delta": budget.delta(), "candidates": rows,
    });
    if let Some(unit) = unit {
        document["unit_column"] = unit.into();
    }
    if let Some(owned) = ownership {
        document["ownership"] = serde_json::json!(owned);
    }
    document
}
