//! `dpopt check`: lists everything that would stop a fit, for people who may see the table, at no budget.

use crate::fit::RunFlags;
use crate::flags::unfilled;
use crate::output::{Failure, print, print_json};
use crate::training::{Common, Task};
use crate::typed::{arguments, command_line, typed};
use crate::usage;
use clap::Args;
use dpopt::data::{BoundsReview, DataError, Kind, Layout, Schema, TargetRule, inspect, listed, repeats};
use dpopt::model::{Fit, StageShares};
use dpopt_privacy::Shown;
use dpopt_refusal::Text;
use std::collections::HashSet;

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    run: RunFlags,
    /// Machine-readable output
    #[arg(long)]
    json: bool,
}

const NOT_PRIVATE: &str = "NOT PRIVATE: exact counts and row numbers, only for people who may see the table. Nothing \
                           was released, charged or written";

/// What was found, in the order in which a fit would meet it.
#[derive(Default)]
struct Findings {
    /// What is still open in the bounds file.
    open: Vec<String>,
    /// In how many columns of it.
    columns_open: usize,
    /// Whether ranges or kinds of columns are missing, and no bounds file is there to say them.
    undeclared: bool,
    /// What stops a fit.
    problems: Vec<String>,
    /// What a user should know and does not stop a fit.
    notes: Vec<String>,
}

impl Findings {
    /// Keeps what is there, or why it is not, once: also where the same is told again with a way out.
    fn keep<T, E: std::fmt::Display>(&mut self, outcome: Result<T, E>) -> Option<T> {
        match outcome {
            Ok(value) => Some(value),
            Err(why) => {
                let why = why.to_string();
                if !self.problems.iter().any(|told| why.starts_with(told.as_str())) {
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
        let problems = [&found.open[..], &found.problems].concat();
        print_json(&serde_json::json!({
            "private": false, "note": NOT_PRIVATE, "problems": problems, "notes": found.notes,
        }))?;
    } else {
        let mut text = format!("{NOT_PRIVATE}\n\n");
        found.open.iter().for_each(|open| text.push_str(&format!("open     {open}\n")));
        found.problems.iter().for_each(|problem| text.push_str(&format!("problem  {problem}\n")));
        found.notes.iter().for_each(|note| text.push_str(&format!("note     {note}\n")));
        if count == 0 && found.open.is_empty() {
            text.push_str("nothing stands in the way of this fit\n");
        }
        text.push_str(&format!("next     {}\n", next(&arguments.run, &found)));
        print(&text)?;
    }
    let problems = match count {
        0 => None,
        1 => Some("1 problem stands in the way of this fit".to_string()),
        n => Some(format!("{n} problems stand in the way of this fit")),
    };
    match still_to_fill_in(&arguments.run, &found).into_iter().chain(problems).collect::<Vec<_>>() {
        why if why.is_empty() => Ok(()),
        why => Err(usage(why.join(", and "))),
    }
}

/// How much of the bounds file is not filled in.
fn still_to_fill_in(run: &RunFlags, found: &Findings) -> Option<String> {
    let path = run.common.schema.bounds().filter(|_| found.columns_open > 0)?.display();
    Some(match found.columns_open {
        1 => format!("1 column of {path} is still to be filled in"),
        n => format!("{n} columns of {path} are still to be filled in"),
    })
}

/// The command to go on with.
fn next(run: &RunFlags, found: &Findings) -> String {
    let again = match run.common.target() {
        Ok(_) => command_line(),
        Err(_) => typed(with_target(arguments())),
    };
    if !found.open.is_empty() {
        return format!("fill it in (dpopt help bounds), then: {again}");
    }
    if found.undeclared {
        return format!("{} (writes a bounds.toml to fill in)", run.common.init(&run.data));
    }
    match found.problems.len() {
        0 => typed(std::iter::once("fit".to_string()).chain(arguments().into_iter().skip(1)).collect()),
        // the command mends it
        1 if run.common.target().is_err() => again,
        _ => format!("mend this, then: {again}"),
    }
}

/// These words with a place for the target, before the first flag.
fn with_target(mut words: Vec<String>) -> Vec<String> {
    let at = words.iter().position(|word| word.starts_with('-')).unwrap_or(words.len());
    words.splice(at..at, ["--target".to_string(), "COLUMN".to_string()]);
    words
}

/// Looks at a bounds file section by section. Whether something is open or wrong in it, so that nothing can be planned.
fn is_open(common: &Common, run: &RunFlags, found: &mut Findings) -> bool {
    // what keeps it from being read is told by whoever reads it
    let review = common.schema.bounds().and_then(|path| Some((path, BoundsReview::of_file(path).ok()?)));
    let Some((path, review)) = review.filter(|(_, review)| !review.is_complete()) else { return false };
    let sections = review
        .columns
        .iter()
        .try_fold(Schema::default(), |mut sections, name| sections.declare(name, Kind::Ignored).map(|()| sections));
    let target = found.keep(common.target()).unwrap_or_default();
    let table = found.keep(common.reading.open_declared(&run.data, &sections.unwrap_or_default(), &target));
    let names: Vec<&str> = table.iter().flat_map(|table| table.columns()).map(|column| column.name.as_str()).collect();
    let in_table: HashSet<&str> = names.iter().copied().collect();
    let quoted = |names: &[&str]| listed(names.iter().map(|name| format!("`{name}`")));
    let path = path.display();
    found.columns_open = review.undecided.len() + review.unfilled.len();
    // in the table's order
    let open: HashSet<&str> = review.undecided.iter().map(String::as_str).collect();
    let mut undecided: Vec<&str> = names.iter().copied().filter(|name| open.contains(name)).collect();
    undecided.extend(review.undecided.iter().map(String::as_str).filter(|name| !in_table.contains(name)));
    for (i, part) in unfilled(&review, &undecided, names.len()).into_iter().enumerate() {
        let how = if i == 0 && !undecided.is_empty() { "; keep one choice in each section" } else { "" };
        found.open.push(format!("{path}: {part}{how}"));
    }
    found.problems.extend(review.mistakes.iter().map(ToString::to_string));
    let (known, absent): (Vec<&str>, Vec<&str>) =
        review.columns.iter().map(String::as_str).partition(|name| in_table.contains(name));
    if !names.is_empty() && !absent.is_empty() {
        found.problems.push(format!("{path}: the table has no column {}", quoted(&absent)));
    }
    // what is called a header where nothing in it is known may be a record
    let with_section: HashSet<&str> = known.iter().copied().collect();
    let rest = names.iter().copied().filter(|name| *name != target && !with_section.contains(name));
    let rest: Vec<&str> = rest.filter(|_| !known.is_empty() && review.mistakes.is_empty()).collect();
    if !rest.is_empty() {
        found
            .notes
            .push(format!("{path}: no section for {}: taken for categories whose values nobody lists", quoted(&rest)));
    }
    true
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

/// The share of the budget, in percent, that a fit of these flags would find labels for.
fn finds_labels(fit: &Fit, common: &Common) -> Option<String> {
    let undeclared = matches!(fit.layout().target, Some((_, TargetRule::Undeclared)));
    let for_labels = undeclared && common.task != Some(Task::Regression);
    for_labels.then(|| Shown(100.0 * StageShares::default().labels).to_string())
}

fn examine(run: &RunFlags, found: &mut Findings) {
    let common = &run.common;
    found.problems.extend(run.paths().clashes());
    found.problems.extend(run.paths().gone());
    if run.insecure_seed.is_some() && run.budget_file.ledger.is_some() {
        found.problems.push(
            "--insecure-seed and --ledger exclude each other: predictable noise protects nobody; leave one of \
                   them out"
                .into(),
        );
    }
    let open = |epsilon| run.budget_file.open(epsilon, common.delta, common.neighbours(), common.unit.columns(), true);
    let ledger = found.keep(common.epsilon().and_then(open)).flatten();
    // one by one: both may be wrong
    for path in [Some(&run.output), run.report.as_ref()].into_iter().flatten() {
        let output = crate::spending::Outputs { answer: path, csv: false, report: None };
        found.keep(output.check().and_then(|()| output.reserve().map(drop)));
    }
    found.keep(common.not_public(&run.data));
    if is_open(common, run, found) {
        return;
    }
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
        Err(_) => {
            let resolved = schema.resolve(table.columns(), Some(&target));
            found.undeclared = common.schema.bounds().is_none()
                && match &resolved {
                    Ok(layout) => !layout.unbounded().is_empty(),
                    Err(why) => matches!(why, DataError::NothingDeclared),
                };
            found.keep(resolved)
        }
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
                "`{column}` looks like an identifier: it has {values} different values in {cells} rows, from which a \
                 model cannot generalize; give --ignore {column}, and if a person may have several rows, name the \
                 column of persons with --unit"
            ));
            distinct.push(column);
        }
        distinct.extend(repeats.unused_and_distinct);
        if let (Some(values), None) = (repeats.numbers_as_labels, common.task) {
            found.problems.push(format!(
                "the target `{target}` holds {values} or more different numbers and is not declared; for a number \
                 give --task regression, with its lower and upper in the bounds file; for labels give --classes A,B, \
                 or --task classification to have them found privately"
            ));
        }
    }
    let Some(fit) = found.keep(fit) else { return };
    found.keep(fit.check_rows());
    // the values tell more than the name
    let named = fit.named_as_unit().filter(|(column, _)| distinct.iter().any(|other| other == column));
    let stale = |warning: &&Text| named.as_ref().is_none_or(|(_, advice)| advice != *warning);
    found.notes.extend(fit.warnings().iter().filter(stale).map(Text::to_string));
    found.notes.extend(finds_labels(&fit, common).map(|share| {
        format!(
            "the labels of the target `{target}` are not declared: {share} % of epsilon and delta will find them privately; \
             declare them to save that, with levels in [{target}] or --classes A,B"
        )
    }));
    found.notes.extend(fit.ownership().map(|owned| owned.to_string()));
    let quote = found.keep(fit.quote()).flatten();
    if let (Some(file), Some(quote)) = (ledger, quote) {
        found.notes.push(file.told(&quote));
    }
}
