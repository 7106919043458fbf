//! `dpopt check`: everything a fit would trip over, told to whoever may see the table, at no budget.

use crate::fit::RunFlags;
use crate::output::{Failure, print, print_json};
use crate::training::Task;
use crate::usage;
use clap::Args;
use dpopt::data::{Layout, TargetRule, inspect, repeats};
use dpopt::model::Fit;

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

/// A number whose range is to be found privately is a number all the same.
fn as_asked(mut layout: Layout, task: Option<Task>) -> Layout {
    if let Some((_, rule)) = layout.target.as_mut().filter(|_| task == Some(Task::Regression))
        && *rule == TargetRule::Undeclared
    {
        *rule = TargetRule::Number { lower: f64::MIN, upper: f64::MAX, unit: Default::default() };
    }
    layout
}

fn examine(run: &RunFlags, found: &mut Findings) {
    let common = &run.common;
    found.problems.extend(run.paths().clashes());
    found.problems.extend(run.paths().gone());
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
        let output = crate::spending::Outputs { answer: path, csv: false, report: None };
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
    let fit = common.fit(&run.data, ledger.clone(), None).map(Fit::alone);
    // that of the fit knows where a target is clipped
    let layout = match &fit {
        Ok(fit) => Some(fit.layout().clone()),
        Err(_) => found.keep(schema.resolve(table.columns(), Some(&target))),
    };
    let mut distinct = Vec::new();
    if let Some(layout) = layout {
        let layout = as_asked(layout, common.task);
        for finding in found.keep(inspect(&*table, &layout, common.reading.bad_cells())).unwrap_or_default() {
            if finding.stops { found.problems.push(finding.text()) } else { found.notes.push(finding.text()) }
        }
        // what keeps it from being read was told
        let repeats = repeats(&*table, &layout).unwrap_or_default();
        for (column, values, cells) in repeats.identifiers {
            found.notes.push(format!(
                "`{column}` looks like an identifier: {values} different values in {cells} rows teach nothing about others; --ignore {column}, and if a \
                 person may have several rows name the column that says whose they are with --unit"
            ));
            distinct.push(column);
        }
        distinct.extend(repeats.unused_and_distinct);
        if let (Some(values), None) = (repeats.numbers_as_labels, common.task) {
            found.problems.push(format!(
                "the target `{target}` holds {values} or more different numbers, and nothing says what they are: for a number give --task regression, with its \
                 lower and upper in the bounds file; for labels give --classes A,B, or --task classification to have them found privately"
            ));
        }
    }
    let Some(fit) = found.keep(fit) else { return };
    found.keep(fit.check_rows());
    // the values tell more than the name
    let named = fit.named_as_unit().filter(|(column, _)| distinct.iter().any(|other| other == column));
    let stale = |warning: &&String| named.as_ref().is_none_or(|(_, advice)| advice != *warning);
    found.notes.extend(fit.warnings().iter().filter(stale).cloned());
    found.notes.extend(fit.ownership().map(|owned| owned.to_string()));
    let quote = found.keep(fit.quote()).flatten();
    if let (Some(file), Some(quote)) = (ledger, quote) {
        found.notes.push(file.told(&quote));
    }
}
