//! The page, in the order a reader asks: what is promised, how good the answer is and what it says, what was released, at what price, how to check it.

use super::markup::{Markup, Row, capital, sentences};
use super::{
    Answer, CandidateRow, Coefficient, IntervalRow, Intervals, Outcome, Report, TWO_SIDED, checklist, figures, findings,
};
use crate::guarantee::Guarantee;
use dpopt_mechanism::ReleaseRecord;
use dpopt_optimize::plan::Grade;
use dpopt_privacy::rounding::{count, detection_bound, neighbours, number, probability, probability_up, rounded_up};
use dpopt_privacy::{Event, Relation, Unit, accountant};
use dpopt_refusal::option;

const STYLE: &str = include_str!("style.css");
/// Coefficients shown in the figure; the table has more.
const FIGURE_ROWS: usize = 15;
/// Coefficients shown in the table.
const TABLE_ROWS: usize = 100;

pub(super) fn page(report: &Report) -> String {
    let mut m = Markup::new();
    m.raw("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n");
    m.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n");
    m.element("title", &format!("Privacy report: {}", report.facts.target));
    m.raw("<style>\n").raw(STYLE).raw("</style>\n</head>\n<body>\n<main>\n");
    notices(&mut m, report);
    opening(&mut m, report);
    findings::quality(&mut m, report);
    if let Some(effects) = &report.effects {
        findings::importance(&mut m, effects);
        findings::effects(&mut m, effects);
    }
    // where a model is a sum over columns its weights say the same again, one by one
    let said_again = report.effects.is_some();
    if report.answer == Answer::LinearModel && !said_again {
        coefficients(&mut m, report);
    }
    released(&mut m, report);
    // of anything but a model the numbers are the answer, and what was released says how good they are
    if report.answer != Answer::LinearModel {
        coefficients(&mut m, report);
    }
    guarantee(&mut m, report);
    not_protected(&mut m, report);
    ledger(&mut m, report);
    if said_again {
        coefficients(&mut m, report);
    }
    plan(&mut m, report);
    curves(&mut m, report);
    foundations(&mut m, report);
    checklist::section(&mut m, report);
    reproduce(&mut m, report);
    not_applicable(&mut m, report);
    m.raw("<footer>");
    m.text(&format!(
        "Planned and certified in {} s. Timings of work on the records are left out on purpose. {}.",
        number((report.planning_seconds * 100.0).round() / 100.0),
        report.provenance
    ));
    m.raw("</footer>\n</main>\n</body>\n</html>\n");
    m.finish()
}

fn notices(m: &mut Markup, report: &Report) {
    if report.guarantee.grade == Grade::Research {
        m.element(
            "p class=\"notice\"",
            "Research grade: the privacy of this method is not proved or not enforced. Treat the result as if it had \
             no guarantee.",
        );
    }
    if report.guarantee.grade == Grade::Checked {
        m.element(
            "p class=\"notice\"",
            "Checked, not proved: code from outside this library was tested on synthetic records before the first \
             release. The tests passed, which is not a proof.",
        );
    }
    if report.guarantee.insecure_seed {
        m.element(
            "p class=\"notice\"",
            &format!(
                "Made with a fixed seed ({}): the noise is predictable, so there is no privacy. For tests only.",
                option("insecure_seed")
            ),
        );
    }
    if !report.guarantee.evidence.is_empty() {
        m.list(&sentences(&report.guarantee.evidence));
    }
}

fn opening(m: &mut Markup, report: &Report) {
    let g = &report.guarantee;
    m.element("p class=\"eyebrow\"", "Differential privacy report");
    let heading = match report.answer {
        Answer::LinearModel => format!("A private model of {}", report.facts.target),
        Answer::Mean { .. } => "A private mean of vectors".into(),
        Answer::Means { .. } => "Private means of columns".into(),
        Answer::Minimum => format!("A private minimizer of {}", report.facts.target),
        Answer::Agreed { .. } => "What groups of records agree on".into(),
    };
    let shape = match report.answer {
        Answer::LinearModel => "features after encoding",
        Answer::Mean { .. } => "coordinates",
        Answer::Means { .. } => "columns",
        Answer::Minimum => "parameters",
        Answer::Agreed { .. } => "numbers",
    };
    m.element("h1", &heading);
    m.element(
        "p class=\"lead\"",
        &format!(
            "{}; {}, {} {shape}, from {}.",
            capital(&report.facts.task),
            size(report),
            count(report.facts.features as u64),
            report.facts.source
        ),
    );
    m.raw("<dl class=\"promise\">\n");
    for (term, value) in [
        ("ε, at most", rounded_up(g.epsilon)),
        ("δ, at most", probability_up(g.delta)),
        ("protects each", g.protected().into()),
        ("neighbours", g.relation.name().into()),
    ] {
        m.raw("<div>").element("dt", term).element("dd", &value).raw("</div>\n");
    }
    m.raw("</dl>\n");
}

/// How many rows of how many units, as far as that is public.
fn size(report: &Report) -> String {
    let units = report.facts.units.map(|units| format!("{} units ({})", count(units), report.guarantee.protected()));
    match (report.facts.rows.map(|rows| format!("{} rows", count(rows))), units) {
        (Some(rows), Some(units)) => format!("{rows} of {units}"),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => "an uncounted number of rows".into(),
    }
}

fn released(m: &mut Markup, report: &Report) {
    m.element("h2", "What was released");
    let entries = count(report.coefficients.len() as u64);
    let mut items = vec![match report.answer {
        Answer::LinearModel => {
            format!("The {entries} weights of a linear model for {}, with noise added.", report.facts.target)
        }
        Answer::Mean { error_bound } => format!(
            "A vector with {entries} nonzero entries. With probability 0.95 its l2 distance from the mean of the \
             {}clipped vectors is at most {}.",
            match (&report.facts.ownership, report.facts.units) {
                (Some(_), _) => "kept ",
                (None, Some(_)) => "units' ",
                (None, None) => "",
            },
            number(error_bound)
        ),
        Answer::Means { confidence } => format!(
            "{entries} means, each with a confidence interval. With a probability of at least {} all intervals \
             contain the means of the distribution that the records were drawn from.",
            number(confidence)
        ),
        Answer::Minimum => {
            format!("The {entries} parameters that minimize {}, with noise added.", report.facts.target)
        }
        Answer::Agreed { found: true } => {
            format!(
                "{entries} numbers: the mean of those answers of “{}” that agree, with noise added.",
                report.facts.target
            )
        }
        Answer::Agreed { found: false } => {
            format!(
                "The fact that too few answers of “{}” agree. This is a release, too, and cost its budget.",
                report.facts.target
            )
        }
    }];
    items.extend(report.facts.preparation.iter().cloned());
    items.push("This report. All of it is public, part of the plan, or computed from what was released.".into());
    m.list(&items);
}

fn guarantee(m: &mut Markup, report: &Report) {
    let g = &report.guarantee;
    m.element("h2", "The guarantee");
    let power = detection_bound(g.epsilon, g.delta, 0.05);
    m.element(
        "p",
        &format!(
            "Take two tables that differ in one {}: {}. The probability of any outcome of this run under one table \
             is at most e^ε = {} times its probability under the other, plus δ = {}. Someone who knows all other \
             rows, tries to tell which of the two tables was used and accepts 5 % false alarms succeeds with a \
             probability of at most {} %.",
            g.protected(),
            neighbours(g.relation, g.unit),
            number(g.epsilon.exp()),
            probability_up(g.delta),
            // rounded up: the sentence is a bound
            (power * 1000.0).ceil() / 10.0
        ),
    );
    if g.public_ownership {
        m.element(
            "p",
            &format!(
                "Ownership is the same in both tables and public: {}. A row with several owners is protected for \
                 each of them, one at a time.",
                Guarantee::OWNERSHIP
            ),
        );
    }
    m.raw(
        "<p class=\"formula\">Pr[M(D) ∈ S] ≤ e<sup>ε</sup> · Pr[M(D′) ∈ S] + δ &#160; for all neighbours D, D′ and \
         every set S of outcomes</p>\n",
    );
    let mut rows: Vec<Row> = g
        .stages
        .iter()
        .map(|s| {
            Row::new(vec![
                s.name.clone(),
                rounded_up(s.epsilon),
                probability_up(s.delta),
                rounded_up(s.bound.upper),
                s.bound.lower.map_or("–".into(), number),
                s.bound
                    .slack
                    .as_ref()
                    .map_or("–".into(), |k| probability(k.inf_mass + k.fft + k.alias.unwrap_or(0.0))),
                s.bound.accountant.clone(),
            ])
        })
        .collect();
    if g.stages.len() > 1 {
        rows.push(together(g));
    }
    m.table(
        "Budget and certificate of each stage. ε is rounded up. The lower bound is attained by some pair of \
         neighbouring tables. Slack is δ added for numerical error, already included.",
        &["stage", "#ε allowed", "#δ", "#ε certified", "#lower bound", "#slack in δ", "accountant"],
        &rows,
    );
}

/// The whole run: stages add up.
fn together(g: &Guarantee) -> Row {
    Row {
        cells: vec![
            "together".into(),
            rounded_up(g.epsilon),
            probability_up(g.delta),
            rounded_up(g.certified_epsilon),
            String::new(),
            String::new(),
            "basic composition".into(),
        ],
        marked: true,
    }
}

fn not_protected(m: &mut Markup, report: &Report) {
    m.element("h2", "What is not protected");
    let g = &report.guarantee;
    let counts_rows = report.facts.rows.is_some() || report.facts.units.is_none();
    let public = g.public_quantities(counts_rows).into_iter();
    let mut items: Vec<String> = public.map(|quantity| format!("{}, which is public.", capital(quantity))).collect();
    items.push("The column names, declared ranges, levels and labels, the settings and the plan: all public.".into());
    items.push(
        "What is true of the population. If smoking raises a risk, the answer may show it for every smoker, whether \
         or not their row was used."
            .into(),
    );
    if g.unit == Unit::Record {
        items.push(
            "People with several rows: the guarantee is for one row. With k rows per person it is k·ε with a δ of \
             k·e^((k−1)·ε)·δ (group privacy). Name the column of persons as the privacy unit to protect them as a \
             whole."
                .into(),
        );
    }
    items.push(
        "The run time, the memory used and error messages, which only the person who runs dpopt sees: do not publish \
         them."
            .into(),
    );
    items.push("What dpopt evaluate prints about a test table: its numbers are exact, not private.".into());
    m.list(&items);
}

fn ledger(m: &mut Markup, report: &Report) {
    m.element("h2", "Ledger of the run");
    let g = &report.guarantee;
    let mut rows = Vec::new();
    for (i, (stage, records)) in g.stages.iter().zip(&report.releases).enumerate() {
        let before = g.epsilon_of_first(i);
        for (k, record) in records.iter().enumerate() {
            // the last line of a stage is what was certified, sampler error included
            let spent = if k + 1 == records.len() {
                Some(stage.bound.upper)
            } else {
                epsilon_of(&records[..=k], g.relation, stage.delta)
            };
            rows.push(Row::new(vec![
                stage.name.clone(),
                record.label.to_string(),
                record.event.to_string(),
                count(record.count),
                spent.map_or("–".into(), |e| rounded_up(before + e)),
            ]));
        }
    }
    let caption = match &report.ledger {
        Some(path) => format!(
            "Each kind of release, in order. The whole cost was charged to {path}{} before any row was read.",
            report.receipt.as_ref().map_or(String::new(), |r| format!(" as charge {} (check {})", r.number, r.check))
        ),
        None => {
            "Each kind of release, in order. No ledger was used, so that nothing adds up the cost of several runs on \
             the same table; give every run the same ledger to bound it."
                .into()
        }
    };
    m.table(&caption, &["stage", "release", "event", "#times", "#ε so far"], &rows);
}

/// Certified ε of some releases at δ.
fn epsilon_of(records: &[ReleaseRecord], relation: Relation, delta: f64) -> Option<f64> {
    let event = Event::composed(records.iter().map(|r| r.event.clone().self_composed(r.count)).collect());
    accountant::epsilon(&event, relation, delta).ok().map(|b| b.upper)
}

fn plan(m: &mut Markup, report: &Report) {
    m.element("h2", "The plan");
    if let Some(CandidateRow { method, outcome: Outcome::Planned(row) }) = report.chosen() {
        m.element(
            "p",
            &format!(
                "Method {method}: {} noisy {} with noise multiplier {}, about {} {}: {}. All of this was chosen from \
                 public facts, before the first row was read. The method was chosen because {}.",
                count(row.steps),
                if row.steps == 1 { "step" } else { "steps" },
                number(row.noise_multiplier),
                number(row.gradients),
                match report.answer {
                    Answer::LinearModel => {
                        "gradients of single rows. Predicted excess risk, as explained above"
                    }
                    Answer::Means { .. } =>
                        "records read. Half width of an interval divided by the moment's bound, \
                                             averaged over columns",
                    Answer::Mean { .. } => "vectors read. Proved bound on the l2 error (probability 0.95)",
                    Answer::Minimum => {
                        "evaluations of single records. Bound on the expected excess of the mean loss, if the \
                         objective is convex, its gradients are at most the clip norm and the declared distance \
                         holds"
                    }
                    Answer::Agreed { .. } =>
                        "runs of the command. Standard deviation of the noise in each number, \
                                              divided by the radius",
                },
                number(row.predicted_excess_risk),
                report.selection.reason
            ),
        );
    }
    let rows: Vec<Row> = report
        .candidates
        .iter()
        .enumerate()
        .filter_map(|(i, c)| Some(Row { cells: planned_cells(c)?, marked: i == report.selection.place }))
        .collect();
    m.table(
        &match report.answer {
            Answer::LinearModel => {
                "The methods that apply, in order of preference; the marked one was run. Excess risk: the predicted excess of the mean loss over that of \
                 the best model of this form."
                    .to_string()
                    + &report.baseline.as_ref().map_or(String::new(), |baseline| {
                        format!(" For comparison: {} has a loss of {}{}.", baseline.answer, if baseline.half_range.is_some() { "at most " } else { "" }, number(baseline.loss))
                    })
            }
            _ => "The methods that apply, in order of preference; the marked one was run.".into(),
        },
        &match report.answer {
            Answer::LinearModel => ["method", "#noise", "#steps", "#gradients", "#excess risk", "#ε", "accountant"],
            Answer::Mean { .. } => {
                ["method", "#noise", "#releases", "#vectors", "#l2 error, at most", "#ε", "accountant"]
            }
            Answer::Means { .. } => {
                ["method", "#noise", "#releases", "#records", "#half width over moment", "#ε", "accountant"]
            }
            Answer::Minimum => ["method", "#noise", "#steps", "#evaluations", "#excess, if convex", "#ε", "accountant"],
            Answer::Agreed { .. } => {
                ["method", "#noise", "#releases", "#runs", "#noise over radius", "#ε", "accountant"]
            }
        },
        &rows,
    );
    m.raw("<details><summary>Every parameter of the chosen schedule</summary>\n");
    m.element("pre", &serde_json::to_string_pretty(&report.schedule).unwrap_or_default());
    m.raw("</details>\n");
}

fn planned_cells(candidate: &CandidateRow) -> Option<Vec<String>> {
    let Outcome::Planned(p) = &candidate.outcome else { return None };
    Some(vec![
        match p.grade {
            Grade::Certified => candidate.method.clone(),
            Grade::Checked => format!("{} (checked)", candidate.method),
            Grade::Research => format!("{} (research)", candidate.method),
        },
        number(p.noise_multiplier),
        count(p.steps),
        number(p.gradients),
        number(p.predicted_excess_risk),
        rounded_up(p.epsilon),
        p.accountant.clone(),
    ])
}

/// The methods that could not be run, folded; nothing if all could.
fn not_applicable(m: &mut Markup, report: &Report) {
    let refused = |c: &CandidateRow| match &c.outcome {
        Outcome::Refused { not_applicable } => Some(Row::new(vec![c.method.clone(), not_applicable.to_string()])),
        Outcome::Planned(_) => None,
    };
    let rows: Vec<Row> = report.candidates.iter().filter_map(refused).collect();
    if rows.is_empty() {
        return;
    }
    let methods = if rows.len() == 1 { "method that does" } else { "methods that do" };
    m.raw("<details class=\"last\"><summary>")
        .text(&format!("{} {methods} not apply, and why", rows.len()))
        .raw("</summary>\n");
    m.table("Methods that cannot run on this table with these settings.", &["method", "why"], &rows);
    m.raw("</details>\n");
}

fn curves(m: &mut Markup, report: &Report) {
    const POINTS: u32 = 24;
    let g = &report.guarantee;
    let epsilons: Vec<f64> = (1..=POINTS).map(|k| 1.5 * g.epsilon * f64::from(k) / f64::from(POINTS)).collect();
    let deltas = g.deltas_at(&epsilons);
    let curve: Vec<(f64, f64)> = epsilons.into_iter().zip(deltas).filter_map(|(e, d)| Some((e, d?))).collect();
    let drawn = [
        (figures::privacy_curve(&curve, (g.epsilon, g.delta)), "The δ of this run at other values of ε."),
        (figures::epsilon_over_steps(&steps_curve(report)), "ε after each noisy step of the model stage, at its δ."),
    ];
    if drawn.iter().all(|(figure, _)| figure.is_none()) {
        return;
    }
    m.element("h2", "Privacy curves");
    m.raw("<div class=\"figures\">\n");
    for (figure, caption) in drawn {
        if let Some(figure) = figure {
            m.raw("<figure>\n").raw(&figure).element("figcaption", caption).raw("</figure>\n");
        }
    }
    m.raw("</div>\n");
}

/// ε of the model stage when its most repeated part is done k times, for at most a dozen values of k from 0.
fn steps_curve(report: &Report) -> Vec<(u64, f64)> {
    const POINTS: u64 = 12;
    let Some(stage) = report.guarantee.stages.last() else { return Vec::new() };
    let steps = most_repetitions(&stage.event);
    if steps < 2 {
        return Vec::new();
    }
    let mut at: Vec<u64> = (0..=POINTS).map(|k| steps * k / POINTS).collect();
    at.dedup();
    at.into_iter()
        .filter_map(|k| {
            let event = with_repetitions(&stage.event, steps, k);
            let bound = accountant::epsilon(&event, report.guarantee.relation, stage.delta).ok()?;
            Some((k, bound.upper))
        })
        .collect()
}

fn most_repetitions(event: &Event) -> u64 {
    match event {
        Event::SelfComposed { count, .. } => *count,
        Event::Approximate { event, .. } => most_repetitions(event),
        Event::Composed { events } => events.iter().map(most_repetitions).max().unwrap_or(1),
        _ => 1,
    }
}

/// `event` with what is repeated `steps` times repeated `k` times instead.
fn with_repetitions(event: &Event, steps: u64, k: u64) -> Event {
    match event {
        Event::SelfComposed { count, .. } if *count == steps && k == 0 => Event::NoOp,
        Event::SelfComposed { event, count } if *count == steps => event.as_ref().clone().self_composed(k),
        Event::Approximate { total_variation, event } => {
            Event::Approximate { total_variation: *total_variation, event: Box::new(with_repetitions(event, steps, k)) }
        }
        Event::Composed { events } => Event::composed(events.iter().map(|e| with_repetitions(e, steps, k)).collect()),
        other => other.clone(),
    }
}

/// Means with their intervals, drawn and as a table; what the intervals rest on.
fn intervals(m: &mut Markup, intervals: &Intervals) {
    m.element("h2", "Means and intervals");
    m.element(
        "p",
        &format!(
            "With a probability of at least {} all intervals hold at once. The half width has three parts: the noise \
             added for privacy (its exact distribution), the sampling error (Bennett's inequality with the largest \
             variance that the moment permits) and the clipping bias (bounded by the moment).",
            number(intervals.confidence)
        ),
    );
    let drawn: Vec<String> = intervals.rows.iter().take(FIGURE_ROWS).filter_map(figures::interval).collect();
    if !drawn.is_empty() {
        m.raw("<div class=\"figures\">\n");
        for figure in drawn {
            m.raw("<figure>\n").raw(&figure).raw("</figure>\n");
        }
        m.raw("</div>\n");
        m.element(
            "p",
            "Each interval has its own scale. From the released mean outwards: noise, sampling error, clipping bias.",
        );
    }
    let shown = intervals.rows.len().min(TABLE_ROWS);
    let cells = |row: &IntervalRow| {
        let numbers =
            [row.value, row.low, row.high, row.noise, row.sampling, row.bias, row.centre, row.threshold, row.root];
        Row::new([row.name.clone()].into_iter().chain(numbers.map(number)).collect())
    };
    let rows: Vec<Row> = intervals.rows[..shown].iter().map(cells).collect();
    m.table(
        &format!("{shown} of {} columns; all of them are in the answer's file.", intervals.rows.len()),
        &[
            "column",
            "#mean",
            "#low",
            "#high",
            "#noise ±",
            "#sampling ±",
            "#clip bias ±",
            "#centre",
            "#clipped at ±",
            "#moment's bound",
        ],
        &rows,
    );
    m.element("h3", "What the intervals rest on");
    m.element("p", "The privacy guarantee does not depend on any of these assumptions.");
    m.list(&sentences(&intervals.rests_on));
}

fn coefficients(m: &mut Markup, report: &Report) {
    if let Some(all) = &report.intervals {
        return intervals(m, all);
    }
    if report.answer == (Answer::Agreed { found: false }) {
        return;
    }
    let (title, what) = match report.answer {
        Answer::LinearModel => ("Coefficients", "coefficients"),
        Answer::Mean { .. } => ("Entries", "entries"),
        Answer::Means { .. } => ("Means", "means"),
        Answer::Minimum => ("Parameters", "parameters"),
        Answer::Agreed { .. } => ("Numbers", "numbers"),
    };
    m.element("h2", title);
    let mut sorted: Vec<Coefficient> = report.coefficients.iter().filter(|c| !c.slot).cloned().collect();
    let slots = report.coefficients.len() - sorted.len();
    sorted.sort_by(|a, b| b.value.abs().total_cmp(&a.value.abs()));
    let shown = sorted.len().min(TABLE_ROWS);
    let has_noise = sorted.iter().any(|c| c.noise.is_some());
    let sure = sorted.iter().any(|c| c.std_error.is_some());
    m.element(
        "p",
        if matches!(report.answer, Answer::Mean { .. }) {
            "Noise: the standard deviation of what was added to each coordinate for privacy. The projection then \
             moved every entry toward 0 by the same amount and set small ones to 0."
        } else if matches!(report.answer, Answer::Minimum) {
            "The released parameters. There is no general bound on the noise that the steps leave in a single \
             parameter."
        } else if matches!(report.answer, Answer::Agreed { .. }) {
            "Noise: the standard deviation of what was added for privacy. It does not include sampling error, or the \
             effect of groups that are smaller than the table."
        } else if sure {
            "In the units of the columns. Standard error: of sampling and of the noise of privacy together, about the \
             best coefficients of the population the rows are from, of columns within their bounds. The interval holds \
             one of them with a probability of about 95 %. Noise: the part of privacy alone, before units."
        } else if has_noise {
            "Features are scaled so that every row has norm at most 1. Noise: an upper bound on the standard \
             deviation of the noise in a coefficient; it is smaller where the data determine the coefficient well. \
             It does not include sampling error and shrinkage."
        } else {
            "Features are scaled so that every row has norm at most 1. The plan of this method has no simple bound on \
             the noise of a single coefficient."
        },
    );
    if slots > 0 {
        m.element(
            "p",
            &format!(
                "{} of the {} weights are left out, since they belong to no known value: hashed features of \
                 undeclared values, and knots between 0 and 1 of columns that hold only 0 and 1. Most of them are \
                 noise.",
                count(slots as u64),
                count(report.coefficients.len() as u64)
            ),
        );
    }
    // what is said of columns and pairs needs no second picture
    let drawn = report.effects.as_ref().is_none_or(|effects| effects.importance.is_empty());
    if let Some(figure) = figures::coefficients(&sorted[..sorted.len().min(FIGURE_ROWS)]).filter(|_| drawn) {
        m.raw("<div class=\"figures\"><figure>\n").raw(&figure);
        m.element(
            "figcaption",
            &if sure {
                format!("The largest {what}; bars are intervals of 95 %.")
            } else if has_noise {
                format!("The largest {what}; bars are one standard deviation of noise.")
            } else {
                format!("The largest {what}.")
            },
        );
        m.raw("</figure></div>\n");
    }
    let row = |c: &Coefficient| {
        let mut cells = vec![c.name.clone(), number(c.value), c.noise.map_or("–".into(), number)];
        if let Some(error) = c.std_error {
            let reach = TWO_SIDED * error;
            cells.extend([number(error), format!("{} to {}", number(c.value - reach), number(c.value + reach))]);
        } else if sure {
            cells.extend(["–".into(), "–".into()]);
        }
        Row::new(cells)
    };
    let rows: Vec<Row> = sorted[..shown].iter().map(row).collect();
    let mut head = vec![what, "#value", "#noise, at most"];
    head.extend(if sure { &["#standard error", "#interval of 95 %"][..] } else { &[] });
    m.raw("<details><summary>").text(&format!("Table of the {shown} largest")).raw("</summary>\n");
    m.table(
        &format!("{shown} of {} {what}; all of them are in the answer's file.", report.coefficients.len()),
        &head,
        &rows,
    );
    m.raw("</details>\n");
}

fn foundations(m: &mut Markup, report: &Report) {
    m.element("h2", "What the guarantee rests on");
    m.list(&sentences(&report.assumptions));
}

fn reproduce(m: &mut Markup, report: &Report) {
    m.element("h2", "Check it yourself");
    m.element("p", "The command:");
    m.element("pre", &report.command);
    for stage in &report.guarantee.stages {
        m.element(
            "p",
            &format!(
                "The event of the stage {}. Save it as event.json and run dpopt account --event event.json --delta {:e} \
                 --relation {}:",
                stage.name,
                stage.delta,
                report.guarantee.relation.name()
            ),
        );
        m.element("pre", &serde_json::to_string(&stage.event).unwrap_or_default());
    }
}
