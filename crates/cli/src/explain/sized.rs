//! Which ε, how many rows: a goal instead of a budget.

use super::{ExplainArguments, Explained, planned, range};
use crate::output::Failure;
use crate::paths::Paths;
use crate::training::{Common, Rows};
use crate::usage;
use dpopt::data::failure;
use dpopt::model::UnitClipping;
use dpopt::output::write_atomically;
use dpopt::plan::RecordUnit;
use dpopt::report::Outcome;
use dpopt::sizing::{Goal, Scale, Sizing, SizingRequest, size};
use dpopt_privacy::Shown;
use dpopt_privacy::rounding::count;
use dpopt_refusal::Refusal;

/// ε and the number of rows of the first plan, where they are asked for: it tells what is predicted, and whether the flags make sense.
const FIRST_EPSILON: f64 = 1.0;
const FIRST_ROWS: u64 = 10_000;

impl From<Refusal> for Failure {
    fn from(why: Refusal) -> Self {
        usage(why)
    }
}

/// The goal that was given, if one was.
pub(super) fn goal(arguments: &ExplainArguments) -> Result<Option<Goal>, Failure> {
    let flags = &arguments.goal;
    let goal = Goal::of(flags.accuracy, flags.loss_points, flags.error, flags.added_error, flags.best)?;
    if goal.is_none() && flags.plot.is_some() {
        return Err(usage(
            "--plot draws what a goal needs; give one, for example --loss-points 2, or leave --plot out",
        ));
    }
    Ok(goal)
}

/// The plan at the ε and the number of rows that the goal needs, with the answer.
pub(super) fn explained(arguments: &ExplainArguments, goal: &Goal) -> Result<Explained, Failure> {
    let asked = &arguments.common;
    if asked.embedding()?.is_some() {
        return Err(usage(
            "what accuracy follows from a predicted excess risk was measured for linear models only; leave out --model",
        ));
    }
    let table = !arguments.data.is_empty();
    let sought = asked.rows == Some(Rows::Sought) || (asked.rows.is_none() && !table);
    if sought && asked.epsilon.is_none() {
        return Err(usage("neither epsilon nor the number of rows is known; give --epsilon E, or --rows N"));
    }
    let mut first = asked.clone();
    first.supposed = sought;
    first.epsilon = asked.epsilon.or(Some(FIRST_EPSILON));
    if sought {
        first.rows = Some(Rows::Known(FIRST_ROWS));
    }
    let first = planned(arguments, &first)?;
    if first.ownership.is_some() {
        return Err(usage(
            "where a row may have several owners, who owns which rows settles how many are kept, and no curve over rows \
             can be drawn; leave the goal out, and give --epsilon",
        ));
    }
    if asked.unit.options().is_some_and(|unit| unit.clipping == UnitClipping::Row) {
        return Err(usage(
            "a goal is reached by units or by rows; leave out --unit-clipping row, or leave the goal out",
        ));
    }
    let scale = Scale::of(&first.problem.loss, first.layout.as_ref().and_then(range))?;
    let rows_of_a_unit = match first.problem.record {
        RecordUnit::Unit { rows, .. } => rows as f64 / first.problem.rows as f64,
        _ => 1.0,
    };
    let (epsilon, rows) = (asked.epsilon, (!sought).then_some(first.problem.rows));
    let at = |epsilon: f64, rows: u64| supposed(asked, epsilon, rows, rows_of_a_unit);
    let request = SizingRequest { goal: *goal, scale, epsilon, rows };
    let sizing = size(&request, |epsilon, rows| {
        // what cannot be planned there reaches no goal
        Ok::<_, Failure>(planned(arguments, &at(epsilon, rows)).ok().as_ref().and_then(excess))
    })?;
    let explained = planned(arguments, &at(sizing.at.epsilon, sizing.at.rows))?;
    Ok(Explained { sizing: Some(sizing), ..explained })
}

/// The flags at another ε and number of rows, or of units with as many rows each.
fn supposed(asked: &Common, epsilon: f64, rows: u64, rows_of_a_unit: f64) -> Common {
    let unit = match asked.unit.columns().is_empty() {
        true => asked.unit.clone(),
        false => asked.unit.clone().of(rows),
    };
    let rows = (rows as f64 * rows_of_a_unit).round() as u64;
    let mut common = asked.clone();
    (common.epsilon, common.rows, common.unit, common.supposed) = (Some(epsilon), Some(Rows::Known(rows)), unit, true);
    common
}

/// The predicted excess risk of the method that would run.
fn excess(explained: &Explained) -> Option<f64> {
    match &explained.candidates[explained.selection.as_ref().ok()?.place].outcome {
        Outcome::Planned(row) => Some(row.predicted_excess_risk),
        Outcome::Refused { .. } => None,
    }
}

/// The answer before the plan that it belongs to, and its curves after it.
pub(super) fn shown(sizing: &Sizing, plan: &str) -> String {
    let answer: String = sizing.lines().iter().map(|(name, text)| format!("{name:<12}{text}\n")).collect();
    let (epsilon, rows) = (Shown(sizing.at.epsilon), count(sizing.at.rows));
    format!("{answer}\nThe plan at epsilon {epsilon} and {rows} rows:\n{plan}\n{}", sizing.tables())
}

/// Writes the picture, if one was asked for.
pub(super) fn draw(arguments: &ExplainArguments, sizing: Option<&Sizing>) -> Result<(), Failure> {
    let (Some(path), Some(sizing)) = (arguments.goal.plot.as_deref(), sizing) else { return Ok(()) };
    let fails = |why: std::io::Error| Failure::machine(format!("cannot write {}: {}", path.display(), failure(&why)));
    write_atomically(path, sizing.svg().map_err(Failure::machine)?.as_bytes()).map_err(fails)
}

/// Refuses a picture that cannot be written or would be written over what is read, and a table that can be opened only once: each plan opens it.
pub(super) fn check_files(arguments: &ExplainArguments) -> Result<(), Failure> {
    let plot = arguments.goal.plot.as_deref();
    let paths = Paths::default().written("--plot", plot).data(&arguments.data);
    arguments.common.files().into_iter().fold(paths, |paths, (role, path)| paths.read(role, path)).check()?;
    plot.map_or(Ok(()), |path| crate::written::document("--plot", path, "an SVG picture", "svg"))
}
