//! `dpopt mean`: the private mean of sparse vectors; with `--of`, means of [columns].

mod arguments;
mod columns;

use crate::output::{Failure, note, print, print_json, table};
use crate::paths::Paths;
use crate::progress::Bar;
use crate::spending::{Outputs, Reserved, failed};
pub(crate) use arguments::Arguments;
use dpopt::estimate::{Estimated, MeanCandidate, MeanEstimate, MeanOptions, MeanProblem};
use dpopt::report::{Ownership, number, probability};
use dpopt_privacy::{Budget, Shown};
use std::fmt::Write;

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
        return columns::run(arguments, &outputs, ledger, opened);
    }
    let options = MeanOptions::default()
        .norm(arguments.norm)
        .rows(arguments.rows)
        .method(arguments.method.clone())
        .bad_cells(arguments.reading.bad_cells());
    // clap asks for it where there is no --of
    let sparsity = arguments.sparsity.unwrap_or(f64::NAN);
    let estimate = MeanEstimate::new(opened, sparsity, arguments.run(ledger), options).map_err(failed)?;
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
            "provenance": estimated.report.provenance,
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
    let method = estimated.report.chosen().map_or("", |c| &c.method);
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
