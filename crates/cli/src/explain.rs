//! `dpopt explain`: what a fit would do and cost, without reading records.

mod brief;
mod sized;

use crate::methods::registry;
use crate::output::{Failure, note, print, print_json, table};
use crate::spending::failed;
use crate::training::{Common, Task};
use crate::usage;
use clap::Args;
use dpopt::data::{EncoderForm, Layout, MAX_FEATURES, TargetRule};
use dpopt::loss::embedding::Embedding;
use dpopt::model::{UnitClipping, UnitOptions};
use dpopt::moment::TargetClip;
use dpopt::optimize::registry::core_seconds;
use dpopt::optimize::{Candidate, Intervals, MethodOptions, Regime, Regimes, Selection};
use dpopt::plan::{NotApplicable, Problem, RecordUnit};
use dpopt::report::{Baseline, CandidateRow, Outcome, Ownership, number, probability};
use dpopt::session::default_delta;
use dpopt::sizing::Sizing;
use dpopt_privacy::{Budget, Shown};
use dpopt_refusal::Text;
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct ExplainArguments {
    /// Table; only its header is read, and its rows are counted unless --rows is given
    #[arg(required_unless_present = "features")]
    data: Vec<PathBuf>,
    #[command(flatten)]
    common: Common,
    /// Without a table: number of classes, or 0 for regression
    #[arg(long, value_name = "K", default_value_t = 2)]
    class_count: u32,
    /// Show every method with its noise, cost and prediction, and every form of the encoder that was compared
    #[arg(long)]
    all: bool,
    /// Machine-readable output
    #[arg(long, conflicts_with = "all")]
    json: bool,
    #[command(flatten)]
    goal: GoalFlags,
}

/// The options that say what a fit is to reach.
pub(crate) const GOALS: [&str; 4] = ["accuracy", "loss_points", "error", "added_error"];

/// What a fit is to reach: then the least ε, and the least number of rows, are looked for.
#[derive(Args)]
#[command(next_help_heading = "Which epsilon, how many rows")]
pub(crate) struct GoalFlags {
    /// Goal: this share of right answers, such as 0.8. Needs --best. With rows (a table's, or --rows), the least epsilon
    /// that is predicted to reach the goal is found; with --epsilon, the least number of rows; --rows '?' leaves the
    /// table's uncounted. No record is read
    #[arg(long, value_name = "A", allow_negative_numbers = true)]
    accuracy: Option<f64>,
    /// Goal: privacy costs at most so many points of accuracy, such as 2
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    loss_points: Option<f64>,
    /// Goal for numbers: this root-mean-square error, in the unit of the target. Needs --best
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    error: Option<f64>,
    /// Goal for numbers: privacy adds at most this root-mean-square error, in the unit of the target
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    added_error: Option<f64>,
    /// What a model without privacy reaches (accuracy, or error), from a public table or literature: never from the
    /// records
    #[arg(long, value_name = "B", allow_negative_numbers = true)]
    best: Option<f64>,
    /// Draw what is predicted over epsilon and over the number of rows, with bands and the goal, into this SVG file
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

#[derive(serde::Serialize)]
struct Explained {
    epsilon: f64,
    delta: f64,
    model_epsilon: f64,
    model_delta: f64,
    problem: Problem,
    weights: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    encoders: Vec<EncoderRow>,
    candidates: Vec<CandidateRow>,
    /// Seconds of one core that the method which would run takes, within a factor of five, beside reading and encoding the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    core_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ownership: Option<Ownership>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_clip: Option<TargetClip>,
    warnings: Vec<Text>,
    /// Which ε or how many rows a goal needs, if one was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    sizing: Option<Sizing>,
    /// Which candidate would run and why, or why none would.
    #[serde(skip)]
    selection: Result<Selection, NotApplicable>,
    /// What a model that says nothing has, in the loss of the method that would run.
    #[serde(skip)]
    baseline: Option<Baseline>,
    /// What becomes of the columns of a table.
    #[serde(skip)]
    layout: Option<Layout>,
}

/// A form of the encoder and the excess risk to expect of it.
#[derive(serde::Serialize)]
struct EncoderRow {
    #[serde(flatten)]
    form: EncoderForm,
    /// The form of the encoder as text.
    #[serde(skip)]
    words: String,
    excess_risk: f64,
}

pub(crate) fn explain(arguments: &ExplainArguments) -> Result<(), Failure> {
    let common = &arguments.common;
    let goal = sized::goal(arguments)?;
    let explained = match &goal {
        None => planned(arguments, common)?,
        Some(goal) => {
            sized::check_files(arguments)?;
            sized::explained(arguments, goal)?
        }
    };
    sized::draw(arguments, explained.sizing.as_ref())?;
    if arguments.json {
        return print_json(&explained);
    }
    for warning in &explained.warnings {
        note(format!("warning: {warning}"));
    }
    let read = read(arguments);
    let plan =
        if arguments.all { shown(&explained, read) } else { brief::shown(&explained, read, &common.unit.columns()) };
    print(&match &explained.sizing {
        None => plan,
        Some(sizing) => sized::shown(sizing, &plan),
    })
}

/// What of the table was read.
fn read(arguments: &ExplainArguments) -> &'static str {
    let common = &arguments.common;
    match (arguments.data.is_empty(), common.unit.columns().is_empty(), common.rows) {
        (true, ..) => "no table was opened",
        (false, false, Some(_)) => "only the header and the columns of units were read",
        (false, false, None) => "only the header and the columns of units were read, and rows were counted",
        (false, true, Some(_)) => "only the header was read",
        (false, true, None) => "only the header was read, and rows were counted without looking at their values",
    }
}

/// The plan for these flags: of a table's columns, or of numbers alone.
fn planned(arguments: &ExplainArguments, common: &Common) -> Result<Explained, Failure> {
    if arguments.data.is_empty() {
        return from_numbers(arguments, common);
    }
    let e = common.fit(&arguments.data, None, None)?.explain(arguments.class_count as usize).map_err(failed)?;
    Ok(Explained {
        baseline: baseline(&e.candidates, &e.selection, range(&e.layout)),
        core_seconds: seconds(&e.problem, &e.candidates, &e.selection),
        epsilon: e.budget.epsilon(),
        delta: e.budget.delta(),
        model_epsilon: e.budget_split.model.epsilon(),
        model_delta: e.budget_split.model.delta(),
        problem: e.problem,
        weights: e.weights,
        encoders: e
            .forms
            .iter()
            .map(|(form, risk)| EncoderRow { form: *form, words: e.layout.in_words(form), excess_risk: *risk })
            .collect(),
        candidates: e.candidates.iter().map(CandidateRow::from).collect(),
        ownership: e.ownership,
        target_clip: e.target_clip,
        warnings: e.warnings,
        sizing: None,
        selection: e.selection,
        layout: Some(e.layout),
    })
}

/// What the method takes that would run.
fn seconds(problem: &Problem, candidates: &[Candidate], selection: &Result<Selection, NotApplicable>) -> Option<f64> {
    let plan = candidates[selection.as_ref().ok()?.place].plan.as_ref().ok()?;
    Some(core_seconds(problem, plan.summary().gradients))
}

/// The range of the target, if it is a number and the range is known.
fn range(layout: &Layout) -> Option<(f64, f64)> {
    match layout.target {
        Some((_, TargetRule::Number { lower, upper, .. })) => Some((lower, upper)),
        _ => None,
    }
}

/// What a model that says nothing has, in the loss of the candidate that would run.
fn baseline(
    candidates: &[Candidate],
    selection: &Result<Selection, NotApplicable>,
    range: Option<(f64, f64)>,
) -> Option<Baseline> {
    let plan = candidates[selection.as_ref().ok()?.place].plan.as_ref().ok()?;
    Some(Baseline::new(&plan.summary().loss, range))
}

/// `dpopt explain --rows N --features D`.
fn from_numbers(arguments: &ExplainArguments, common: &Common) -> Result<Explained, Failure> {
    let Some(rows) = common.rows()?.filter(|n| *n >= 2) else {
        return Err(usage("give --rows N (at least 2), or a table to count"));
    };
    let Some(given) = common.reading.features() else {
        return Err(usage("give --features D (at least 1), or a table"));
    };
    let features = usize::try_from(given).ok().filter(|d| (1..=MAX_FEATURES).contains(&(*d as u64)));
    let features =
        features.ok_or_else(|| usage(format!("--features {given} is out of range; use 1 to {MAX_FEATURES}")))?;
    let (units, record) = match common.unit.options() {
        None => (rows, RecordUnit::Row),
        Some(unit) if unit.shares_rows() => {
            return Err(usage(
                "where a row may have several owners, who owns which rows says how many are kept: give a table",
            ));
        }
        Some(UnitOptions { clipping: UnitClipping::Row, most_rows: None, .. }) => {
            return Err(usage(
                "clipping row by row needs a public bound on the rows of a unit: give --max-rows-per-unit",
            ));
        }
        Some(UnitOptions { units: Some(units), most_rows, clipping, .. }) if units >= 2 => {
            (units, RecordUnit::Unit { rows, most: most_rows.filter(|_| clipping != UnitClipping::Unit) })
        }
        Some(_) => return Err(usage("give --units N (at least 2), or a table to count")),
    };
    let delta = common.delta.unwrap_or_else(|| default_delta(units));
    let budget = Budget::new(common.epsilon()?, delta).map_err(usage)?;
    let classes = match common.schema.classes().len() {
        0 => arguments.class_count,
        1 => common.schema.classes()[0].parse().unwrap_or(1),
        k => u32::try_from(k).unwrap_or(u32::MAX),
    };
    if common.target_moment.is_some() {
        return Err(usage("--target-moment says where a table's target is clipped; leave it out, or give a table"));
    }
    let asked = common.loss()?;
    let regression = common.task == Some(Task::Regression) || classes == 0;
    if asked.is_some() && !regression {
        return Err(usage("--loss is for regression; add --task regression, or leave it out"));
    }
    let loss = match classes {
        _ if regression => asked.unwrap_or(dpopt::loss::Loss::Squared),
        1 => return Err(usage("one class leaves nothing to tell apart; give at least two")),
        2 => dpopt::loss::Loss::Logistic { shift: 0.0 },
        classes => dpopt::loss::Loss::Softmax { classes },
    };
    let nonzeros = common.schema.max_nonzeros.map_or(features, |s| features.min(s as usize));
    let problem = Problem {
        directions: None,
        prior_release: None,
        calibrated: None,
        intervals: None,
        record,
        rows: units,
        features,
        nonzeros,
        row_norm: 1.0,
        loss,
        neighbours: common.neighbours(),
    };
    let by_row = common.unit.options().is_some_and(|unit| unit.clipping == UnitClipping::Row);
    let problem = problem.by_row().filter(|_| by_row).unwrap_or(problem);
    let mut method = common.method()?;
    method.embedding = match common.embedding()? {
        Some(asked) if asked.towers.is_some() => {
            return Err(usage("a two-tower model needs a table that says which features are whose"));
        }
        Some(asked) => Some(Embedding { dimension: asked.dimension, towers: None, seed: asked.seed }),
        None => None,
    };
    registry().check_options(&method).map_err(usage)?;
    if common.reading.memory().is_some() {
        return Err(usage(
            "--memory is about rows that are read, and there is no table here; leave it out, or give a table",
        ));
    }
    let problem = holding(problem, budget, &method)?;
    let candidates = registry().candidates(&problem, budget, &method);
    let selection = registry().select(&candidates, &method);
    Ok(Explained {
        epsilon: budget.epsilon(),
        delta: budget.delta(),
        model_epsilon: budget.epsilon(),
        model_delta: budget.delta(),
        baseline: baseline(&candidates, &selection, None),
        core_seconds: seconds(&problem, &candidates, &selection),
        selection,
        candidates: candidates.iter().map(CandidateRow::from).collect(),
        weights: method.embedding.as_ref().map_or(problem.weights(), |model| model.weights(features, loss.outputs())),
        encoders: Vec::new(),
        problem,
        ownership: None,
        target_clip: None,
        warnings: Vec::new(),
        sizing: None,
        layout: None,
    })
}

/// The problem with prediction intervals, if they are asked for: of a declared range, as no table says otherwise.
fn holding(problem: Problem, budget: Budget, method: &MethodOptions) -> Result<Problem, Failure> {
    match method.intervals() {
        None => Ok(problem),
        Some(level) => problem.with_intervals(budget, level, true).map_err(usage),
    }
}

/// Rows, features and weights.
fn counts(e: &Explained) -> String {
    let p = &e.problem;
    let rows = match p.record {
        RecordUnit::Unit { rows, .. } => format!("{rows} rows of {} units", p.rows),
        RecordUnit::UnitsRow { most } if e.ownership.is_some() => {
            format!("{} rows, at most {most} of each owner", p.rows)
        }
        RecordUnit::Row | RecordUnit::UnitsRow { .. } => format!("{} rows", p.rows),
    };
    format!("{rows}, {} features, {} weights", p.features, e.weights)
}

/// All that is known of the plan.
fn shown(e: &Explained, read: &str) -> String {
    let p = &e.problem;
    let mut out =
        format!("{}, {}; epsilon {}, delta {}\n", counts(e), p.relation(), Shown(e.epsilon), probability(e.delta));
    if e.model_epsilon < e.epsilon {
        out.push_str(&format!(
            "of which the model gets epsilon {}, delta {}; the rest pays for private labels or bounds\n",
            number(e.model_epsilon),
            probability(e.model_delta)
        ));
    }
    out.push_str(&format!("{read}\n"));
    if let Some(owned) = &e.ownership {
        out.push_str(&format!("{owned}\n"));
    }
    out.push('\n');
    let by_unit = p.record != RecordUnit::Row;
    let rows: Vec<Vec<String>> = e
        .candidates
        .iter()
        .map(|c| match &c.outcome {
            Outcome::Planned(row) => vec![
                c.method.clone(),
                number(row.noise_multiplier),
                row.steps.to_string(),
                number(row.gradients),
                number(row.predicted_excess_risk),
                format!("{:.6}", Shown((row.epsilon * 1e6).ceil() / 1e6)),
                probability(row.delta),
                row.accountant.clone(),
            ]
            .into_iter()
            .chain(by_unit.then(|| row.clips.clone().unwrap_or_default()))
            .collect(),
            Outcome::Refused { not_applicable } => {
                vec![c.method.clone(), format!("not applicable: {}", not_applicable)]
            }
        })
        .collect();
    let mut headings =
        vec!["method", "#noise", "#steps", "#gradients", "#excess risk", "#epsilon", "#delta", "accountant"];
    headings.extend(by_unit.then_some("clips"));
    out.push_str(&table(&headings, &rows));
    for candidate in &e.candidates {
        if let Outcome::Planned(row) = &candidate.outcome {
            row.notes.iter().for_each(|note| out.push_str(&format!("\n{}: {note}\n", candidate.method)));
        }
    }
    if let [taken, others @ ..] = e.encoders.as_slice() {
        out.push_str(&format!("\nencoder: {}\n", taken.words));
        if !others.is_empty() {
            let row = |e: &EncoderRow| vec![e.words.clone(), number(e.excess_risk)];
            out.push_str(&table(
                &["forms of it that were compared", "#excess risk"],
                &e.encoders.iter().map(row).collect::<Vec<_>>(),
            ));
        }
    }
    if let Some(clip) = &e.target_clip {
        out.push_str(&format!("\n{}\n", clip.in_words()));
    }
    if let Some(intervals) = intervals(e) {
        out.push_str(&format!("\nprediction intervals: {intervals}\n"));
    }
    if let Some(regime) = regime(e) {
        out.push_str(&format!("\n{regime}\n"));
    }
    out
}

/// How the width of prediction intervals would be found, if they are asked for.
fn intervals(e: &Explained) -> Option<String> {
    let intervals = e.problem.intervals.as_ref()?;
    Some(format!(
        "level {}: half their width is found after the fit, by {} noisy sums over all rows, for {} % of the model's budget (of mu squared)",
        Shown(intervals.level()),
        Intervals::ROUNDS,
        number(100.0 * intervals.share())
    ))
}

/// Where sparse rows put a problem, if a row has fewer entries than there are features, and these are not those of an encoder (Ghazi et al. 2024, Tables 1 and 2).
fn regime(e: &Explained) -> Option<String> {
    let p = &e.problem;
    let budget = Budget::new(e.model_epsilon, e.model_delta).ok().filter(|_| p.nonzeros < p.features)?;
    let borders = Regimes::of(p, budget)?;
    let (enough, dense) = (number(borders.enough), number(borders.dense));
    Some(match borders.at(p.rows as f64) {
        Regime::TooFew => format!("regime: too few rows; nothing is proved to beat the answer 0 below {enough}"),
        Regime::Sparse => format!(
            "regime: sparse; from {enough} to {dense} rows the worst-case error of sparse methods grows with ln d, that of others with √d: \
             without --method one of the former is taken"
        ),
        Regime::Dense => {
            format!("regime: dense; from {dense} rows on noise in every weight costs less than a sparse answer")
        }
    })
}
