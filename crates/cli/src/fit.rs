//! `dpopt fit`: trains a model with a certified guarantee.

use crate::output::{Failure, note, print};
use crate::progress::Bar;
use crate::spending::{BudgetFile, Outputs, failed, write_outputs};
use crate::training::Common;
use clap::Args;
use dpopt::report::{CandidateRow, Outcome, number, probability};
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct FitArguments {
    /// CSV, TSV, Parquet or LIBSVM file, also gzipped; several files, or directories of files, with the same columns are one
    /// table
    #[arg(required = true)]
    data: Vec<PathBuf>,
    #[command(flatten)]
    common: Common,
    /// Where the model goes
    #[arg(short, long, value_name = "FILE", default_value = "model.json")]
    output: PathBuf,
    /// Also write a report as one HTML page
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    #[command(flatten)]
    budget_file: BudgetFile,
    /// Reproducible noise for tests: NO privacy
    #[arg(long, value_name = "N")]
    insecure_seed: Option<u64>,
    /// Print nothing but warnings and errors
    #[arg(short, long)]
    quiet: bool,
}

pub(crate) fn fit(arguments: &FitArguments) -> Result<(), Failure> {
    let common = &arguments.common;
    let ledger = arguments.budget_file.open(common.epsilon, common.delta, common.relation.into())?;
    let outputs = Outputs { answer: &arguments.output, report: arguments.report.as_deref() };
    outputs.check()?;
    let fit = common.fit(&arguments.data, ledger, arguments.insecure_seed)?;
    for warning in fit.warnings() {
        note(format!("warning: {warning}"));
    }
    let fitted = fit.run_with(&Bar::new()).map_err(failed)?;
    let json = fitted.model.to_json().map_err(Failure::machine)?;
    let html = arguments.report.as_ref().map(|_| fitted.report.html());
    write_outputs(&outputs, &json, html.as_deref())?;
    if arguments.quiet { Ok(()) } else { print(&summary(arguments, &fitted)) }
}

/// A few lines about a run.
fn summary(arguments: &FitArguments, fitted: &dpopt::model::Fitted) -> String {
    let report = &fitted.report;
    let g = &report.guarantee;
    let mut out = format!(
        "{}: {}, {} rows, {} features\n",
        report.facts.target, report.facts.task, report.facts.rows, report.facts.features
    );
    if let Some(CandidateRow { method, outcome: Outcome::Planned(p) }) = report.candidates.get(report.chosen) {
        out.push_str(&format!(
            "method      {method}: noise multiplier {}, {} {}, predicted excess risk {}\n",
            number(p.noise_multiplier),
            p.steps,
            if p.steps == 1 { "step" } else { "steps" },
            number(p.predicted_excess_risk)
        ));
        out.push_str(&format!("            because {}\n", report.why_chosen()));
    }
    out.push_str(&format!(
        "guarantee   epsilon {} (certified {:.6}), delta {}, per row, {}\n",
        g.epsilon,
        g.certified_epsilon,
        probability(g.delta),
        g.relation
    ));
    if g.insecure_seed {
        out.push_str("            NO privacy: the noise comes from a fixed seed\n");
    }
    out.push_str(&format!("model       {}\n", arguments.output.display()));
    if let Some(path) = &arguments.report {
        out.push_str(&format!("report      {}\n", path.display()));
    }
    if let Some(path) = &arguments.budget_file.ledger {
        out.push_str(&format!("ledger      {}\n", path.display()));
    }
    out
}
