//! The plan in some ten lines: what would run and why, what stood next to it, what to expect, and what it promises.

use super::{Explained, counts, intervals, regime};
use dpopt::data::{FeatureKind, Layout, TextForm, Trend};
use dpopt::loss::Loss;
use dpopt::plan::Grade;
use dpopt::report::{CandidateRow, Outcome, PlannedRow, number, probability};
use dpopt_privacy::Shown;
use dpopt_privacy::rounding::{foreign, protected, six_digits_up};

/// Methods that are named beside the one that would run.
const RUNNERS_UP: usize = 2;

/// How far a prediction may be off, either way: methods are told apart by powers of it, and no further.
const BAND: f64 = 2.0;

/// The plan of a candidate, if it has one that may run without being named.
fn proved(row: &CandidateRow) -> Option<(&str, &PlannedRow)> {
    match &row.outcome {
        Outcome::Planned(plan) if plan.grade < Grade::Research => Some((&row.method, plan)),
        _ => None,
    }
}

/// `unit_columns`: the columns whose values are protected, none where each row is.
pub(super) fn shown(e: &Explained, read: &str, unit_columns: &[String]) -> String {
    let mut out = String::new();
    let mut line = |name: &str, text: &str| out.push_str(&format!("{name:<12}{text}\n"));
    match &e.selection {
        Err(why) => line("method", &format!("none: {why}")),
        Ok(selection) => {
            let chosen = &e.candidates[selection.place];
            if let Outcome::Planned(plan) = &chosen.outcome {
                line("method", &method(&chosen.method, plan));
                line("because", &selection.reason.to_string());
                line("runners-up", &runners_up(e, selection.place));
                line("accuracy", &accuracy(e, plan.predicted_excess_risk));
                line("time", &time(e, plan.gradients));
                plan.notes.iter().for_each(|note| line("note", note));
            }
        }
    }
    if let Some(layout) = &e.layout {
        line("encoder", &encoder(layout));
    }
    line("table", &format!("{}; {read}", counts(e)));
    line("guarantee", &guarantee(e, unit_columns));
    line("budget", &budget(e));
    if let Some(owned) = &e.ownership {
        line("owners", &owned.to_string());
    }
    if let Some(clip) = &e.target_clip {
        line("target", &clip.in_words());
    }
    if let Some(intervals) = intervals(e) {
        line("intervals", &intervals);
    }
    if let Some(regime) = regime(e) {
        line("regime", regime.trim_start_matches("regime: "));
    }
    let forms = match e.encoders.len() {
        0 | 1 => String::new(),
        forms => format!(" and every form of the encoder ({forms})"),
    };
    let all = e.candidates.len();
    line("more", &format!("--all shows every method ({all}){forms}, with noise, cost and prediction; --json as data"));
    out
}

fn method(name: &str, plan: &PlannedRow) -> String {
    let steps = if plan.steps == 1 { "1 step".to_string() } else { format!("{} steps", plan.steps) };
    let clips = plan.clips.as_ref().map_or(String::new(), |clips| format!(", clips each {clips}"));
    format!("{name}: {steps}, noise multiplier {}{clips}", number(plan.noise_multiplier))
}

/// What the gradients take, beside reading the file.
fn time(e: &Explained, gradients: f64) -> String {
    let passes = (gradients / e.problem.rows as f64).ceil();
    let passes = if passes == 1.0 { "a pass over the rows".into() } else { format!("{passes} passes over the rows") };
    let seconds = match e.core_seconds.unwrap_or(0.0) {
        s if s < 1.0 => "less than a second".into(),
        s if s < 1.5 => "about a second".into(),
        // two digits, as many as are of use
        s => format!("about {} seconds", format!("{s:.1e}").parse::<f64>().map_or(s, f64::round)),
    };
    format!("{seconds} of one core for {passes}, within a factor of five, beside reading and encoding the file")
}

/// The best of the others, and how many there are.
fn runners_up(e: &Explained, chosen: usize) -> String {
    let others = || e.candidates.iter().enumerate().filter(|(place, _)| *place != chosen).map(|(_, row)| row);
    let applicable: Vec<_> = others().filter_map(proved).collect();
    let named = applicable.iter().take(RUNNERS_UP);
    let named: Vec<String> = named
        .map(|(name, plan)| format!("{name} (predicted excess risk {})", number(plan.predicted_excess_risk)))
        .collect();
    match (named.len(), applicable.len() - named.len()) {
        (0, _) => "none: no other method applies".into(),
        (_, 0) => format!("{}; no other method applies", named.join(", ")),
        (_, 1) => format!("{}; 1 more method applies", named.join(", ")),
        (_, more) => format!("{}; {more} more methods apply", named.join(", ")),
    }
}

/// The predicted excess risk with its band, beside what a model has that says nothing.
fn accuracy(e: &Explained, excess: f64) -> String {
    let (low, high) = (excess / BAND, excess * BAND);
    // a method may shift the loss: then it is no log loss
    let of_classes = matches!(e.problem.loss, Loss::Logistic { .. } | Loss::Softmax { .. });
    let as_it_is = e.baseline.as_ref().is_some_and(|baseline| baseline.loss == e.problem.loss.at_zero());
    let loss = if of_classes && as_it_is { "log loss" } else { "loss" };
    let predicted = format!(
        "predicted excess risk {} (within a factor of two: {} to {}): how far the mean {loss} is expected to be above that of the \
         best linear model without privacy",
        number(excess),
        number(low),
        number(high)
    );
    let Some(baseline) = &e.baseline else { return predicted };
    let error = match baseline.half_range {
        Some(half) if baseline.squared => {
            let error = |excess: f64| number((2.0 * excess).sqrt() * half);
            format!(
                "; this adds a root-mean-square error of {} ({} to {}) to the predictions",
                error(excess),
                error(low),
                error(high)
            )
        }
        _ => String::new(),
    };
    let most = if baseline.half_range.is_some() { "at most " } else { "" };
    let pinball = baseline.quantile.map(|level| format!("pinball loss at {}, in halves of the range,", number(level)));
    let loss = if baseline.counts {
        "loss (half the Poisson deviance, over a usual count, of a row that has none)"
    } else {
        pinball.as_deref().unwrap_or(loss)
    };
    format!(
        "{predicted}{error}. For scale: {} has a {loss} of {most}{}; the excess is {}",
        baseline.answer,
        number(baseline.loss),
        baseline.verdict(excess)
    )
}

fn guarantee(e: &Explained, unit_columns: &[String]) -> String {
    let unit = match unit_columns {
        [] => protected(e.problem.neighbours.unit).to_string(),
        columns => foreign(&columns.join(" and ")),
    };
    let certified = match e.selection.as_ref().map(|selection| &e.candidates[selection.place].outcome) {
        Ok(Outcome::Planned(plan)) => {
            let grade = match plan.grade {
                Grade::Certified => "",
                Grade::Checked => "; checked, not proved",
                Grade::Research => "; research grade, not proved",
            };
            format!("; the model is certified at epsilon {} ({}){grade}", six_digits_up(plan.epsilon), plan.accountant)
        }
        _ => String::new(),
    };
    format!(
        "epsilon {}, delta {}, per {unit}, {}{certified}",
        Shown(e.epsilon),
        probability(e.delta),
        e.problem.relation()
    )
}

fn budget(e: &Explained) -> String {
    if e.model_epsilon < e.epsilon {
        format!(
            "the model gets epsilon {}, delta {}; the rest pays for private labels or bounds",
            number(e.model_epsilon),
            probability(e.model_delta)
        )
    } else {
        "all of it goes to the model".into()
    }
}

/// What becomes of the columns, in plain words.
fn encoder(layout: &Layout) -> String {
    let count = |is: &dyn Fn(&FeatureKind) -> bool| layout.features.iter().filter(|(_, kind)| is(kind)).count();
    let form = &layout.form;
    let mut parts = Vec::new();
    let mut part = |count: usize, kind: &str, becomes: String| {
        let columns = if count == 1 { "column" } else { "columns" };
        parts.extend((count > 0).then(|| format!("{count} {kind} {columns}: {becomes}")));
    };
    part(count(&|kind| matches!(kind, FeatureKind::Numeric { .. })), "numeric", form.numeric_features());
    part(
        count(&|kind| matches!(kind, FeatureKind::Categorical { .. })),
        "categorical",
        "a feature for each level".into(),
    );
    let bits = layout.options.hash_bits;
    part(
        count(&|kind| matches!(kind, FeatureKind::Hashed { .. })),
        "hashed",
        format!("one of 2^{bits} slots for each value"),
    );
    let text = form.text.as_ref();
    let text = text.map_or("text statistics, words and word pairs in hashed features".into(), TextForm::features);
    part(count(&|kind| matches!(kind, FeatureKind::Text { .. })), "text", text);
    part(count(&|kind| matches!(kind, FeatureKind::Sparse { .. })), "sparse", "their values as they are".into());
    parts.extend(form.interactions());
    parts.extend(Trend::in_words(layout.trends()));
    if !layout.ignored.is_empty() {
        parts.push(format!("{} not used", layout.ignored.len()));
    }
    parts.join("; ")
}
