//! `dpopt aggregate`: any program's answer, made private by groups of records that agree.

use crate::flags::{GUARANTEE, TableFlags};
use crate::output::{Failure, note, print, print_json};
use crate::paths::{Paths, is_standard_output};
use crate::progress::Bar;
use crate::relation::RelationFlag;
use crate::spending::{BudgetFile, Outputs, Reserved, failed};
use crate::typed::command_line;
use crate::unit::OwnerFlags;
use crate::usage;
use clap::Args;
use dpopt::RunOptions;
use dpopt::estimate::{Aggregate, AggregateOptions, Aggregated, AgreedPlan, GroupCommand};
use dpopt::report::{number, probability};
use dpopt_privacy::Shown;
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Args)]
pub(crate) struct Arguments {
    /// CSV, TSV or Parquet; several files are one table
    #[arg(required = true)]
    data: Vec<PathBuf>,
    /// Program that answers for one group. {group} is replaced by the path of a CSV file with the rows of the group.
    /// The program prints the numbers of its answer, separated by white space or as one JSON list, and nothing else.
    /// It runs without a shell; for a pipe write sh -c '…'
    #[arg(long, value_name = "COMMAND")]
    command: String,
    /// Number of groups, usually some hundred. Each row, or unit with its rows, is assigned to one at random and in
    /// secret
    #[arg(long, value_name = "N")]
    groups: u64,
    /// Public range of each number of an answer, LOW:HIGH,LOW:HIGH; answers are clipped to it. With --dimension one
    /// range holds for all numbers
    #[arg(long, value_name = "LOW:HIGH", value_delimiter = ',', required = true, allow_hyphen_values = true)]
    range: Vec<String>,
    /// How many numbers an answer has; by default as many as there are ranges
    #[arg(long, value_name = "D")]
    dimension: Option<usize>,
    /// ε of the answer
    #[arg(long, allow_negative_numbers = true)]
    epsilon: f64,
    /// δ of the answer; by default 1/n^1.1 for n rows or units, at most 0.01
    #[arg(long, allow_negative_numbers = true)]
    delta: Option<f64>,
    /// Public guess of the distance between the answers of groups (l2 norm, in units of half the ranges), from theory
    /// or public data; by default it is found privately, for a fifth of ε
    #[arg(long, value_name = "R", allow_negative_numbers = true)]
    radius: Option<f64>,
    /// Share of groups whose answers may be far from the others, 0 to 0.15
    #[arg(long, value_name = "SHARE", default_value_t = 0.05, allow_negative_numbers = true)]
    outliers: f64,
    /// Time limit of a run: 500ms, 60s, 5m, 2h. A run that takes longer is killed and gives no answer
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = time)]
    time_limit: Duration,
    /// Let each run last exactly the time limit, so that the run time does not depend on the records
    #[arg(long)]
    fixed_time: bool,
    /// Number of runs at a time. With more than one the time limit must be far above the run time: otherwise a run
    /// could slow others down past it, and one record would change several answers
    #[arg(long, value_name = "N", default_value_t = 1)]
    jobs: usize,
    /// Which tables are neighbours; the noise is the same for all relations
    #[arg(long, value_enum, default_value_t, help_heading = GUARANTEE)]
    relation: RelationFlag,
    /// Number of rows, if known publicly; under add-or-remove a public guess. The default of δ depends on it. By
    /// default rows are counted
    #[arg(long, conflicts_with = "unit", help_heading = GUARANTEE)]
    rows: Option<u64>,
    #[command(flatten)]
    unit: OwnerFlags,
    /// Output: one object (.json), or number,value,noise_std lines (.csv); `-` for standard output
    #[arg(short, long, value_name = "FILE", default_value = "aggregate.json")]
    output: PathBuf,
    /// Also write a report: one HTML page, or JSON if the name ends in .json
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Show the noise and the required agreement, and stop: no record is read, nothing is run or written
    #[arg(long, conflicts_with_all = ["report", "ledger"])]
    explain: bool,
    /// Machine-readable plan (with --explain)
    #[arg(long, requires = "explain")]
    json: bool,
    #[command(flatten)]
    budget_file: BudgetFile,
    /// Reproducible noise and groups for tests: NO privacy, and no charge to a ledger
    #[arg(long, value_name = "N")]
    insecure_seed: Option<u64>,
    /// Print nothing but warnings and errors
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    reading: TableFlags,
}

/// Reads the value of `--time-limit`.
fn time(given: &str) -> Result<Duration, String> {
    let digits = given.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let scale = match &given[digits.len()..] {
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err("write a time like 500ms, 60s, 5m or 2h".into()),
    };
    let seconds = digits.parse::<f64>().ok().filter(|n| *n > 0.0).map(|n| n * scale);
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| "write a time like 500ms, 60s, 5m or 2h".into())
}

impl Arguments {
    /// A range for each number.
    fn ranges(&self) -> Result<Vec<(f64, f64)>, Failure> {
        let one = |said: &String| {
            let ends = said
                .split_once(':')
                .and_then(|(low, high)| Some((low.trim().parse().ok()?, high.trim().parse().ok()?)));
            ends.ok_or_else(|| usage(format!("--range {said} is not a range; write LOW:HIGH, for example -2:2")))
        };
        let ranges = self.range.iter().map(one).collect::<Result<Vec<_>, _>>()?;
        match (self.dimension, ranges.as_slice()) {
            (Some(0), _) => Err(usage("--dimension is 0; give at least 1")),
            // what is out of range is refused with the plan; it need not be in memory for that
            (Some(dimension), [one]) => Ok(vec![*one; dimension.min((1 << 24) + 1)]),
            (Some(dimension), all) if dimension != all.len() => Err(usage(format!(
                "--dimension is {dimension}, and there are {} ranges; give one range for each number, or one for all",
                all.len()
            ))),
            _ => Ok(ranges),
        }
    }

    fn writes_csv(&self) -> bool {
        self.output.extension().is_some_and(|e| e.eq_ignore_ascii_case("csv"))
    }
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
    let ranges = arguments.ranges()?;
    let mut command = GroupCommand::new(&arguments.command, arguments.time_limit).map_err(failed)?;
    command.jobs = arguments.jobs;
    command.fixed_time = arguments.fixed_time;
    let ledger = arguments.budget_file.open(
        arguments.epsilon,
        arguments.delta,
        arguments.unit.neighbours(arguments.relation),
        arguments.unit.columns(),
        arguments.quiet,
    )?;
    let opened = arguments.reading.open(&arguments.data)?;
    let options = AggregateOptions::default()
        .radius(arguments.radius)
        .outliers(arguments.outliers)
        .rows(arguments.rows)
        .bad_cells(arguments.reading.bad_cells());
    let run = RunOptions::within(arguments.epsilon)
        .delta(arguments.delta)
        .relation(arguments.relation.into())
        .unit(arguments.unit.options())
        .ledger(ledger)
        .insecure_seed(arguments.insecure_seed)
        .command(command_line());
    let aggregate = Aggregate::new(opened, command, arguments.groups, ranges, run, options).map_err(failed)?;
    let unit = arguments.unit.options().map(|unit| unit.name());
    if arguments.explain {
        let plan = aggregate.explain().map_err(|why| failed(why.into()))?;
        return if arguments.json {
            print_json(&document(&aggregate, &plan, unit.as_deref()))
        } else {
            print(&explained(&aggregate, &plan, unit.as_deref()))
        };
    }
    let of = of_whom(aggregate.records(), unit.as_deref());
    let reserved = outputs.reserve()?;
    let aggregated = aggregate.run_with(&Bar::new()).map_err(failed)?;
    for warning in &aggregated.report.warnings {
        note(format!("warning: {warning}"));
    }
    let text = answer(arguments, &aggregated)?;
    reserved.write(&text, &aggregated.report)?;
    if arguments.quiet { Ok(()) } else { Reserved::summarise(&outputs, &summary(arguments, &of, &aggregated)) }
}

/// The answer as a file.
fn answer(arguments: &Arguments, aggregated: &Aggregated) -> Result<String, Failure> {
    if !arguments.writes_csv() {
        let mut document = serde_json::json!({
            "value": aggregated.value,
            "noise_std": aggregated.noise_std,
            "radius": aggregated.radius,
            "groups": aggregated.groups,
            "guarantee": aggregated.guarantee,
            "provenance": aggregated.report.provenance,
        });
        if let Some(receipt) = &aggregated.report.receipt {
            document["receipt"] = serde_json::to_value(receipt).map_err(Failure::machine)?;
        }
        return serde_json::to_string(&document).map(|text| text + "\n").map_err(Failure::machine);
    }
    let mut text = String::from("number,value,noise_std\n");
    for (i, (value, noise)) in aggregated.value.iter().flatten().zip(&aggregated.noise_std).enumerate() {
        // writing to a String cannot fail
        let _ = writeln!(text, "{},{value},{noise}", i + 1);
    }
    Ok(text)
}

fn summary(arguments: &Arguments, of: &str, aggregated: &Aggregated) -> String {
    let g = &aggregated.guarantee;
    let mut out = format!("answers of {} groups of {of}\n", aggregated.groups);
    match &aggregated.value {
        Some(value) => {
            for (i, (value, noise)) in value.iter().zip(&aggregated.noise_std).take(SHOWN).enumerate() {
                let _ = writeln!(out, "number {}: {} (noise ± {})", i + 1, number(*value), number(*noise));
            }
            if value.len() > SHOWN {
                let _ = writeln!(out, "and {} more", value.len() - SHOWN);
            }
        }
        None => out.push_str(
            "no answer: too few groups agree; this, too, is a release and was charged. Give more \
                              groups, a larger epsilon or a larger radius\n",
        ),
    }
    match aggregated.radius {
        Some(radius) => {
            let _ = writeln!(out, "radius      {} half ranges", number(radius));
        }
        None => out.push_str("radius      none was found\n"),
    }
    let _ = writeln!(out, "guarantee   {g}");
    if g.insecure_seed {
        out.push_str("            NO privacy: noise and groups come from a fixed seed\n");
    }
    if !is_standard_output(&arguments.output) {
        let _ = writeln!(out, "answer      {}", arguments.output.display());
    }
    if let Some(path) = arguments.report.as_ref().filter(|path| !is_standard_output(path)) {
        let _ = writeln!(out, "report      {}", path.display());
    }
    if let (Some(path), Some(receipt)) = (&arguments.budget_file.ledger, &aggregated.report.receipt) {
        let _ = writeln!(out, "ledger      {}, charge {}", path.display(), receipt.number);
    }
    out
}

/// Numbers of an answer that are shown one by one.
const SHOWN: usize = 20;

fn of_whom(records: u64, unit: Option<&str>) -> String {
    unit.map_or_else(|| format!("{records} rows"), |unit| format!("{records} units ({unit})"))
}

fn explained(aggregate: &Aggregate, plan: &AgreedPlan, unit: Option<&str>) -> String {
    let (problem, budget, schedule, command) =
        (aggregate.problem(), aggregate.budget(), &plan.schedule, aggregate.command());
    let mut out = format!(
        "{} groups of {}, answers of {} numbers, {}; epsilon {}, delta {}\n{}\n\n",
        problem.groups,
        of_whom(aggregate.records(), unit),
        problem.dimension,
        problem.neighbours.relation,
        Shown(budget.epsilon()),
        probability(budget.delta()),
        unit.map_or("no record was read".to_string(), |unit| format!("no row was read, only the column `{unit}`"))
    );
    let noise = number(schedule.noise_over_radius);
    let _ = match (problem.radius, &schedule.search) {
        (Some(radius), _) => writeln!(
            out,
            "noise       standard deviation in each number: {noise} times the radius of {}, which is {} half ranges",
            number(radius),
            number(schedule.noise_over_radius * radius)
        ),
        (None, Some(search)) => writeln!(
            out,
            "noise       standard deviation in each number: {noise} times the radius, which is found at epsilon {} \
             among {} values from {} to {} half ranges",
            number(search.epsilon),
            search.radii.len(),
            number(search.radii.first().copied().unwrap_or(f64::NAN)),
            number(search.radii.last().copied().unwrap_or(f64::NAN))
        ),
        (None, None) => writeln!(out, "noise       standard deviation in each number: {noise} times the radius"),
    };
    let _ = writeln!(
        out,
        "agreement   {} of {} answers must lie within the radius of one of them, tested at epsilon {}; up to {} may \
         be anywhere",
        schedule.core,
        schedule.groups,
        number(schedule.test_epsilon),
        number(problem.outliers)
    );
    let limit = command.time_limit().as_secs_f64();
    let rounds = problem.groups.div_ceil(command.jobs as u64);
    let _ = writeln!(
        out,
        "time        at most {} s for each group, {} at a time: {} {} s",
        number(limit),
        command.jobs,
        if command.fixed_time { "about" } else { "at most about" },
        number(if command.fixed_time { command.turn().as_secs_f64() } else { limit } * rounds as f64)
    );
    let bound = plan.certificate.bound();
    let _ = writeln!(
        out,
        "epsilon     {:.6} by the {} accountant",
        Shown((bound.upper * 1e6).ceil() / 1e6),
        bound.accountant
    );
    out
}

fn document(aggregate: &Aggregate, plan: &AgreedPlan, unit: Option<&str>) -> serde_json::Value {
    let (budget, command) = (aggregate.budget(), aggregate.command());
    let mut document = serde_json::json!({
        "problem": aggregate.problem(), "records": aggregate.records(), "epsilon": budget.epsilon(), "delta": budget.delta(),
        "noise_multiplier": plan.noise_multiplier, "certified_epsilon": plan.certificate.bound().upper, "schedule": plan.schedule,
        "time_limit_seconds": command.time_limit().as_secs_f64(), "fixed_time": command.fixed_time, "jobs": command.jobs,
    });
    if let Some(unit) = unit {
        document["unit_column"] = unit.into();
    }
    document
}
