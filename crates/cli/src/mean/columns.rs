//! `dpopt mean --of`: private means of heavy-tailed columns, with confidence intervals.

use super::arguments::Arguments;
use crate::output::{Failure, note, print, print_json, table};
use crate::progress::Bar;
use crate::spending::{Outputs, Reserved, failed};
use dpopt::data::TableReader;
use dpopt::estimate::{
    ColumnMean, HeavyTailedCandidate, HeavyTailedMean, HeavyTailedMeans, HeavyTailedOptions, HeavyTailedProblem,
};
use dpopt::report::{number, probability};
use dpopt::session::LedgerFile;
use dpopt_privacy::{Budget, Shown};
use std::fmt::Write;

/// Plans, and estimates unless only the plan is asked for.
pub(super) fn run(
    arguments: &Arguments,
    outputs: &Outputs<'_>,
    ledger: Option<LedgerFile>,
    opened: Box<dyn TableReader>,
) -> Result<(), Failure> {
    let flags = &arguments.columns;
    let columns = flags.columns(&*opened)?;
    let options = HeavyTailedOptions::default()
        .confidence(flags.confidence)
        .spread_factor(flags.spread_factor)
        .rows(arguments.rows)
        .method(arguments.method.clone())
        .bad_cells(arguments.reading.bad_cells());
    let estimate = HeavyTailedMean::new(opened, columns, arguments.run(ledger), options).map_err(failed)?;
    let unit = arguments.unit.options().map(|unit| unit.name());
    if arguments.explain {
        let (problem, budget, names) = (estimate.problem().clone(), estimate.budget(), estimate.columns().to_vec());
        let candidates = estimate.explain();
        return if arguments.json {
            print_json(&document(&problem, &names, unit.as_deref(), budget, &candidates))
        } else {
            print(&explained(&problem, &names, unit.as_deref(), budget, &candidates))
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
    if arguments.quiet { Ok(()) } else { Reserved::summarise(outputs, &summary(arguments, records, &estimated)) }
}

/// The answer as a file.
fn answer(arguments: &Arguments, estimated: &HeavyTailedMeans) -> Result<String, Failure> {
    let named = || estimated.columns.iter().zip(&estimated.means);
    if arguments.writes_json() {
        let columns: Vec<serde_json::Value> = named()
            .map(|(name, mean)| {
                let mut one = serde_json::json!(mean);
                one["column"] = name.as_str().into();
                one
            })
            .collect();
        let mut document = serde_json::json!({
            "columns": columns,
            "confidence": estimated.confidence,
            "intervals_rest_on": estimated.rests_on,
            "guarantee": estimated.guarantee,
            "provenance": estimated.report.provenance,
        });
        if let Some(receipt) = &estimated.report.receipt {
            document["receipt"] = serde_json::to_value(receipt).map_err(Failure::machine)?;
        }
        return serde_json::to_string(&document).map(|text| text + "\n").map_err(Failure::machine);
    }
    let mut text =
        String::from("column,mean,low,high,noise,sampling,clip_bias,noise_std,centre,clipped_at,moment_root\n");
    for (name, m) in named() {
        let ColumnMean { mean, interval: (low, high), parts, noise_std, threshold, centre, root } = m;
        let name = if name.contains([',', '"', '\n', '\r']) {
            format!("\"{}\"", name.replace('"', "\"\""))
        } else {
            name.clone()
        };
        // writing to a String cannot fail
        let _ = writeln!(
            text,
            "{name},{mean},{low},{high},{},{},{},{noise_std},{centre},{threshold},{root}",
            parts.noise, parts.sampling, parts.bias
        );
    }
    Ok(text)
}

fn summary(arguments: &Arguments, records: u64, estimated: &HeavyTailedMeans) -> String {
    let g = &estimated.guarantee;
    let method = estimated.report.chosen().map_or("", |c| &c.method);
    let mut out = format!(
        "means of {} columns of {}; all intervals hold with a probability of at least {}\n",
        estimated.columns.len(),
        of_whom(records, g.unit_column.as_deref()),
        number(estimated.confidence)
    );
    // no columns of equal width: how long numbers are would be seen in all lines
    for (name, m) in estimated.columns.iter().zip(&estimated.means) {
        let [mean, low, high] = [m.mean, m.interval.0, m.interval.1].map(number);
        let [noise, sampling, bias] = [m.parts.noise, m.parts.sampling, m.parts.bias].map(number);
        let _ = writeln!(
            out,
            "{name}: {mean}, between {low} and {high} (noise ± {noise}, sampling ± {sampling}, clip bias ± {bias})"
        );
    }
    for said in estimated.rests_on.iter().filter(|said| said.contains("ASSUMED")) {
        let _ = writeln!(out, "assumes     {said}");
    }
    let _ = writeln!(out, "method      {method}");
    arguments.summarise_tail(&mut out, g, estimated.report.receipt.as_ref());
    out
}

fn of_whom(records: u64, unit: Option<&str>) -> String {
    unit.map_or_else(|| format!("{records} rows"), |unit| format!("{records} units ({unit})"))
}

/// A half width as it will be, or as a multiple of a scale that is not known yet.
fn width(relative: f64, root: Option<f64>) -> String {
    root.map_or_else(|| format!("{} m", number(relative)), |root| number(relative * root))
}

fn explained(
    problem: &HeavyTailedProblem,
    names: &[String],
    unit: Option<&str>,
    budget: Budget,
    candidates: &[HeavyTailedCandidate],
) -> String {
    let mut rows = Vec::new();
    let mut released = false;
    for c in candidates {
        match &c.plan {
            Err(why) => rows.push(vec![c.method.to_string(), format!("not applicable: {why}")]),
            Ok(plan) => {
                for (name, column) in names.iter().zip(&plan.schedule.columns) {
                    let (root, parts) = (column.moment.root, column.half_width);
                    released |= root.is_none();
                    let relative = [
                        parts.half_width(),
                        parts.noise,
                        parts.sampling,
                        parts.bias,
                        column.threshold,
                        column.noise_std,
                    ];
                    let mut row = vec![c.method.to_string(), name.clone()];
                    row.extend(relative.map(|x| width(x, root)));
                    row.push(format!("{:.6}", Shown((plan.certificate.bound().upper * 1e6).ceil() / 1e6)));
                    rows.push(row);
                }
            }
        }
    }
    let headings = [
        "method",
        "column",
        "#half width, at most",
        "#noise",
        "#sampling",
        "#clip bias",
        "#clipped at ±",
        "#noise std",
        "#epsilon",
    ];
    let scale = format!(
        "\nm, the bound of the moment about the centre, is assumed to be {} times the range that is released first\n",
        number(problem.spread_factor)
    );
    format!(
        "means of {} columns of {}, {}; intervals that all hold with probability {}; epsilon {}, delta {}\n{}\n\n{}{}",
        names.len(),
        of_whom(problem.records, unit),
        problem.neighbours.relation,
        Shown(problem.confidence),
        Shown(budget.epsilon()),
        probability(budget.delta()),
        unit.map_or("no record was read".to_string(), |unit| format!("no number was read, only the column `{unit}`")),
        table(&headings, &rows),
        if released { scale } else { String::new() }
    )
}

fn document(
    problem: &HeavyTailedProblem,
    names: &[String],
    unit: Option<&str>,
    budget: Budget,
    candidates: &[HeavyTailedCandidate],
) -> serde_json::Value {
    let rows: Vec<serde_json::Value> = candidates
        .iter()
        .map(|c| match &c.plan {
            Ok(plan) => serde_json::json!({
                "method": c.method, "noise_multiplier": plan.noise_multiplier, "half_width_over_moment": plan.mean_width(),
                "epsilon": plan.certificate.bound().upper, "schedule": plan.schedule,
            }),
            Err(why) => serde_json::json!({ "method": c.method, "not_applicable": why.to_string() }),
        })
        .collect();
    let mut document = serde_json::json!({
        "problem": problem, "columns": names, "epsilon": budget.epsilon(), "delta": budget.delta(), "candidates": rows,
    });
    if let Some(unit) = unit {
        document["unit_column"] = unit.into();
    }
    document
}
