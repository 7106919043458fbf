//! `dpopt check`: everything a fit would trip over, told to whoever may see the table, at no budget.

use crate::fit::RunFlags;
use crate::output::{Failure, print, print_json};
use crate::usage;
use clap::Args;
use dpopt::data::inspect;

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    run: RunFlags,
    /// Machine-readable output
    #[arg(long)]
    json: bool,
}

const NOT_PRIVATE: &str = "NOT PRIVATE: exact counts and row numbers, for whoever may see the table. Nothing was released, charged or written";

/// What was found, in the order in which a fit would meet it.
#[derive(Default)]
struct Findings {
    /// What stops a fit.
    problems: Vec<String>,
    /// What does not.
    notes: Vec<String>,
}

impl Findings {
    /// Keeps what is there, or why it is not, once.
    fn keep<T, E: std::fmt::Display>(&mut self, outcome: Result<T, E>) -> Option<T> {
        match outcome {
            Ok(value) => Some(value),
            Err(why) => {
                let why = why.to_string();
                if !self.problems.contains(&why) {
                    self.problems.push(why);
                }
                None
            }
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut found = Findings::default();
    examine(&arguments.run, &mut found);
    let count = found.problems.len();
    if arguments.json {
        print_json(&serde_json::json!({
            "private": false, "note": NOT_PRIVATE, "problems": found.problems, "notes": found.notes,
        }))?;
    } else {
        let mut text = format!("{NOT_PRIVATE}\n\n");
        found.problems.iter().for_each(|problem| text.push_str(&format!("problem  {problem}\n")));
        found.notes.iter().for_each(|note| text.push_str(&format!("note     {note}\n")));
        if count == 0 {
            text.push_str("nothing stands in the way of this fit\n");
        }
        print(&text)?;
    }
    match count {
        0 => Ok(()),
        1 => Err(usage("1 problem stands in the way of this fit")),
        n => Err(usage(format!("{n} problems stand in the way of this fit"))),
    }
}

fn examine(run: &RunFlags, found: &mut Findings) {
    let common = &run.common;
    found.problems.extend(run.paths().clashes());
    if run.insecure_seed.is_some() && run.budget_file.ledger.is_some() {
        found
            .problems
            .push("--insecure-seed and --ledger do not go together: predictable noise keeps no promise".into());
    }
    let ledger = found
        .keep(run.budget_file.open(common.epsilon, common.delta, common.neighbours(), common.unit.columns(), true))
        .flatten();
    // one by one: both may be wrong
    for path in [Some(&run.output), run.report.as_ref()].into_iter().flatten() {
        let output = crate::spending::Outputs { answer: path, report: None };
        found.keep(output.check().and_then(|()| output.reserve().map(drop)));
    }
    found.keep(common.not_public(&run.data));
    let schema = found.keep(common.target().and_then(|target| Ok((common.declarations(&target)?.0, target))));
    let table = found.keep(match &schema {
        Some((schema, target)) => common.reading.open_declared(&run.data, schema, target),
        None => common.reading.open(&run.data),
    });
    found.keep(common.method().map(drop));
    let (Some((schema, target)), Some(table)) = (schema, table) else { return };
    let layout = found.keep(schema.resolve(table.columns(), Some(&target)));
    if let Some(findings) = layout.and_then(|layout| found.keep(inspect(&*table, &layout, common.reading.bad_cells())))
    {
        for finding in findings {
            if finding.stops { found.problems.push(finding.text()) } else { found.notes.push(finding.text()) }
        }
    }
    let Some(fit) = found.keep(common.fit(&run.data, ledger.clone(), None)) else { return };
    let fit = fit.alone();
    found.keep(fit.check_rows());
    found.notes.extend(fit.warnings().iter().cloned());
    found.notes.extend(fit.ownership().map(|owned| owned.to_string()));
    let quote = found.keep(fit.quote()).flatten();
    if let (Some(file), Some(quote)) = (ledger, quote) {
        found.notes.push(file.told(&quote));
    }
}
