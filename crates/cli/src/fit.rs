//! `dpopt fit`: trains a model with a certified guarantee.

use crate::flags::GUARANTEE;
use crate::output::{Failure, note};
use crate::paths::{Paths, Placed, is_standard_output};
use crate::progress::Bar;
use crate::spending::{BudgetFile, Outputs, Reserved, failed};
use crate::training::Common;
use crate::typed::typed;
use crate::workers;
use clap::Args;
use dpopt::model::Guarantee;
use dpopt::report::{CandidateRow, Outcome, number};
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(crate) struct FitArguments {
    #[command(flatten)]
    run: RunFlags,
    /// Print nothing but warnings and errors
    #[arg(short, long, help_heading = None)]
    quiet: bool,
}

/// A run: what `dpopt fit` does and `dpopt check` looks at.
#[derive(Args)]
pub(crate) struct RunFlags {
    /// CSV, TSV, Parquet or LIBSVM file, also gzipped; several files, or directories of files, with the same columns
    /// are read as one table
    #[arg(required = true)]
    pub(crate) data: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) common: Common,
    /// File to write the model to; `-` for standard output
    #[arg(short, long, value_name = "FILE", default_value = "model.json", help_heading = None)]
    pub(crate) output: PathBuf,
    /// Also write a report: one HTML page, or JSON if the name ends in .json
    #[arg(long, value_name = "FILE", help_heading = None)]
    pub(crate) report: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) budget_file: BudgetFile,
    /// Reproducible noise for tests: NO privacy, and no charge to a ledger
    #[arg(long, value_name = "N", help_heading = GUARANTEE)]
    pub(crate) insecure_seed: Option<u64>,
}

impl RunFlags {
    /// All files of the run.
    pub(crate) fn paths(&self) -> Paths {
        let paths = Paths::default()
            .written("-o", Some(&self.output))
            .written("--report", self.report.as_deref())
            .written("--ledger", self.budget_file.ledger.as_deref())
            .data(&self.data);
        self.common.files().into_iter().fold(paths, |paths, (role, path)| paths.read(role, path))
    }
}

pub(crate) fn fit(arguments: &FitArguments) -> Result<(), Failure> {
    let run = &arguments.run;
    let common = &run.common;
    run.paths().check()?;
    let ledger = run.budget_file.open(
        common.epsilon()?,
        common.delta,
        common.neighbours(),
        common.unit.columns(),
        arguments.quiet,
    )?;
    let outputs = Outputs { answer: &run.output, csv: false, report: run.report.as_deref() };
    outputs.check()?;
    let fit = common.fit(&run.data, ledger, run.insecure_seed)?;
    let fit = if run.report.is_some() { fit } else { fit.alone() };
    for warning in fit.warnings() {
        note(format!("warning: {warning}"));
    }
    let placed = [Some(&*run.output), run.report.as_deref()].map(|path| path.map(Placed::at));
    let reserved = outputs.reserve()?;
    let bar = Bar::new();
    let fitted = match common.workers {
        None => fit.run_with(&bar).map_err(failed)?,
        Some(count) => workers::run(common.shared(&fit, &run.data)?, count, fit, &bar)?,
    };
    let json = fitted.model.to_json().map_err(Failure::machine)?;
    reserved.write(&json, &fitted.report)?;
    if let Some(ending) = &fitted.note {
        note(format!("warning: {ending}"));
    }
    if arguments.quiet { Ok(()) } else { Reserved::summarise(&outputs, &summary(run, &fitted, &placed)) }
}

/// A few lines about a run whose model and report are at these places. They are the same on neighbouring tables.
fn summary(run: &RunFlags, fitted: &dpopt::model::Fitted, [model, of_run]: &[Option<Placed<'_>>; 2]) -> String {
    let report = &fitted.report;
    let g = &report.guarantee;
    let mut out = format!(
        "{}: {}, {}{}, {} features\n",
        report.facts.target,
        report.facts.task,
        report.facts.rows.map_or("rows".into(), |rows| format!("{rows} rows")),
        match (report.facts.units, &report.facts.ownership) {
            (Some(owners), Some(owned)) => format!(" of {owners} owners ({})", owned.columns.join(", ")),
            (Some(units), None) => format!(" of {units} {}", g.protected()),
            (None, _) => String::new(),
        },
        report.facts.features
    );
    if let Some(owned) = &report.facts.ownership {
        out.push_str(&format!(
            "rows        {} kept, at most {} per owner; {}\n",
            owned.kept,
            owned.bound,
            Guarantee::OWNERSHIP
        ));
    }
    if let Some(CandidateRow { method, outcome: Outcome::Planned(p) }) = report.chosen() {
        out.push_str(&format!(
            "method      {method}: noise multiplier {}, {} {}, predicted excess risk {}\n",
            number(p.noise_multiplier),
            p.steps,
            if p.steps == 1 { "step" } else { "steps" },
            number(p.predicted_excess_risk)
        ));
        out.push_str(&format!("            because {}\n", report.selection.reason));
    }
    out.push_str(&format!("guarantee   {g}\n"));
    if g.insecure_seed {
        out.push_str("            NO privacy: the noise comes from a fixed seed\n");
    }
    let is_file = |path: Option<&Path>| path.is_some_and(|path| !is_standard_output(path));
    if let Some(model) = model.as_ref().filter(|_| is_file(Some(&run.output))) {
        out.push_str(&format!("model       {model}\n"));
    }
    if let Some(of_run) = of_run.as_ref().filter(|_| is_file(run.report.as_deref())) {
        out.push_str(&format!("report      {of_run}\n"));
    }
    if let (Some(path), Some(receipt)) = (&run.budget_file.ledger, fitted.model.receipt()) {
        out.push_str(&format!("ledger      {}, charge {}\n", path.display(), receipt.number));
    }
    out.push_str(
        "note        a fit never says whether the declared labels, levels and ranges fit the rows; dpopt check does\n",
    );
    if is_file(Some(&run.output)) {
        out.push_str(&format!("next        {}\n", predict(run)));
    }
    out
}

/// The command that takes the model to new rows.
fn predict(run: &RunFlags) -> String {
    let [.., (flag, vectors)] = run.common.schema.files();
    let vectors = vectors.map(|path| [flag.to_string(), path.display().to_string()]);
    let words = ["predict".into(), run.output.display().to_string(), "NEW.csv".into()];
    typed(words.into_iter().chain(vectors.into_iter().flatten()).collect())
}
