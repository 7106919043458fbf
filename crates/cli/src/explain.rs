//! `dpopt explain`: what a fit would do and cost, without reading records.

mod brief;

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
use dpopt::optimize::{Candidate, Regime, Regimes, Selection};
use dpopt::plan::{NotApplicable, Problem, RecordUnit};
use dpopt::report::{Baseline, CandidateRow, Outcome, Ownership, number, probability};
use dpopt::session::default_delta;
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
    #[serde(skip_serializing_if = "Option::is_none")]
    ownership: Option<Ownership>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_clip: Option<TargetClip>,
    warnings: Vec<Text>,
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
    let (explained, read) = match arguments.data.as_slice() {
        data @ [_, ..] => {
            let e = common.fit(data, None, None)?.explain(arguments.class_count as usize).map_err(failed)?;
            let read = match (common.unit.columns().is_empty(), common.rows) {
                (false, Some(_)) => "only the header and the columns of units were read",
                (false, None) => "only the header and the columns of units were read, and rows were counted",
                (true, Some(_)) => "only the header was read",
                (true, None) => "only the header was read, and rows were counted without looking at their values",
            };
            let range = match e.layout.target {
                Some((_, TargetRule::Number { lower, upper, .. })) => Some((lower, upper)),
                _ => None,
            };
            let explained = Explained {
                baseline: baseline(&e.candidates, &e.selection, range),
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
                selection: e.selection,
                layout: Some(e.layout),
            };
            (explained, read)
        }
        [] => (from_numbers(arguments)?, "no table was opened"),
    };
    if arguments.json {
        return print_json(&explained);
    }
    for warning in &explained.warnings {
        note(format!("warning: {warning}"));
    }
    print(&if arguments.all { shown(&explained, read) } else { brief::shown(&explained, read, &common.unit.columns()) })
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
fn from_numbers(arguments: &ExplainArguments) -> Result<Explained, Failure> {
    let common = &arguments.common;
    let Some(rows) = common.rows.filter(|n| *n >= 2) else {
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
    let budget = Budget::new(common.epsilon, delta).map_err(usage)?;
    let classes = match common.schema.classes().len() {
        0 => arguments.class_count,
        1 => common.schema.classes()[0].parse().unwrap_or(1),
        k => u32::try_from(k).unwrap_or(u32::MAX),
    };
    if common.target_moment.is_some() {
        return Err(usage("--target-moment says where a table's target is clipped; leave it out, or give a table"));
    }
    let regression = common.task == Some(Task::Regression) || classes == 0;
    let loss = match classes {
        _ if regression => dpopt::loss::Loss::Squared,
        1 => return Err(usage("one class leaves nothing to tell apart; give at least two")),
        2 => dpopt::loss::Loss::Logistic { shift: 0.0 },
        classes => dpopt::loss::Loss::Softmax { classes },
    };
    let nonzeros = common.schema.max_nonzeros.map_or(features, |s| features.min(s as usize));
    let problem = Problem {
        directions: None,
        prior_release: None,
        calibrated: None,
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
    let candidates = registry().candidates(&problem, budget, &method);
    let selection = registry().select(&candidates, &method);
    Ok(Explained {
        epsilon: budget.epsilon(),
        delta: budget.delta(),
        model_epsilon: budget.epsilon(),
        model_delta: budget.delta(),
        baseline: baseline(&candidates, &selection, None),
        selection,
        candidates: candidates.iter().map(CandidateRow::from).collect(),
        weights: method.embedding.as_ref().map_or(problem.weights(), |model| model.weights(features, loss.outputs())),
        encoders: Vec::new(),
        problem,
        ownership: None,
        target_clip: None,
        warnings: Vec::new(),
        layout: None,
    })
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
    if let Some(regime) = regime(e) {
        out.push_str(&format!("\n{regime}\n"));
    }
    out
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
