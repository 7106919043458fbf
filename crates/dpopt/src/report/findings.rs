//! What a model says and how well, as sections of the page: its quality, which columns matter, what their values add.

use super::effects::{Effects, Importance, Scale, is_step};
use super::markup::{Markup, Row, sentences};
use super::{Answer, CandidateRow, Outcome, Report, figures};
use dpopt_data::Shape;
use dpopt_privacy::rounding::{count, number};
use dpopt_refusal::Text;

/// Columns, and pairs of them, whose shapes are drawn.
const SHAPES: usize = 8;
const MAPS: usize = 4;
/// Columns in the figure, and in the table.
const FIGURE_ROWS: usize = 15;
const TABLE_ROWS: usize = 100;

/// How good the answer is, as far as that is known; warnings.
pub(super) fn quality(m: &mut Markup, report: &Report) {
    if report.answer == Answer::LinearModel {
        m.element("h2", "How good it is");
        match &report.score {
            Some(score) => {
                let (low, high) = score.band();
                m.element(
                    "p",
                    &format!(
                        "{} on the {} {} of the validation set: {}, with a 95 % interval from {} to {}. The score \
                         was released with noise; the interval covers this noise and the sampling error. It is the \
                         best score of several candidates, and so slightly optimistic.",
                        score.name,
                        count(score.held_out),
                        if report.facts.units.is_some() { "units" } else { "rows" },
                        number(score.value),
                        number(low),
                        number(high)
                    ),
                );
            }
            None => {
                m.element(
                    "p",
                    "This run released no score. To get one, evaluate the model on a test table (dpopt evaluate, or \
                     score in Python); that score is exact and not private for the rows of the test table.",
                );
            }
        }
        if let Some(CandidateRow { outcome: Outcome::Planned(row), .. }) = report.chosen() {
            m.element("p", &excess(row.predicted_excess_risk, report));
        }
        calibration(m, report);
    }
    if !report.warnings.is_empty() {
        m.element("h3", "Warnings");
        let warnings: Vec<String> = report.warnings.iter().map(Text::to_string).collect();
        m.list(&sentences(&warnings));
    }
}

/// The predicted excess risk as text, beside what a model has that says nothing.
fn excess(excess: f64, report: &Report) -> String {
    let predicted = format!(
        "Predicted excess risk: the mean loss is expected to be about {} above that of the best model of this form, \
         which is the price of privacy. The prediction uses public facts only; no row was read for it.",
        number(excess)
    );
    let Some(baseline) = &report.baseline else {
        return format!("{predicted} The loss of the best model itself comes on top.");
    };
    let verdict = baseline.verdict(excess);
    let (loss, share) = (number(baseline.loss), percent(excess / baseline.loss));
    match baseline.half_range {
        None if baseline.counts => format!(
            "{predicted} It is half the Poisson deviance, in units of a usual count. For comparison: {} has a loss of {loss} \
             where a row has none. The excess risk is {share} % of that: {verdict}.",
            baseline.answer
        ),
        None => format!(
            "{predicted} For comparison: {} has a mean loss of {loss}. The excess risk is {share} % of that: \
             {verdict}.",
            baseline.answer
        ),
        Some(half) => {
            let target = &report.facts.target;
            let error = if let Some(level) = baseline.quantile {
                format!(" It is the pinball loss of the quantile at {}, in halves of the range.", number(level))
            } else if baseline.squared {
                let error = number((2.0 * excess).sqrt() * half);
                format!(" In the unit of {target} this adds a root-mean-square error of {error} to the predictions.")
            } else {
                String::new()
            };
            format!(
                "{predicted}{error} For comparison: {} is off by up to {}, a loss of at most {loss}. The excess risk \
                 is {share} % of that: {verdict}.",
                baseline.answer,
                number(half)
            )
        }
    }
}

fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    match percent {
        p if p < 0.1 => "less than 0.1".into(),
        p if p < 10.0 => number((p * 10.0).round() / 10.0),
        p => number(p.round()),
    }
}

fn calibration(m: &mut Markup, report: &Report) {
    let calibrated = report.releases.iter().flatten().find(|release| release.label == "calibration");
    let number_is_predicted =
        report.baseline.as_ref().is_some_and(|baseline| baseline.half_range.is_some() || baseline.counts);
    let text = match calibrated {
        Some(release) if number_is_predicted => format!(
            "Calibrated: scale and offset of the predictions were fitted from {} noisy sums over all rows, so that \
             predictions match the target on average. These sums are part of the guarantee.",
            release.count
        ),
        Some(release) => format!(
            "Calibrated: scale and offset of the scores were fitted from {} noisy sums over all rows, so that, up to \
             this noise, 30 % of the rows with a predicted probability of 30 % have the class. These sums are part \
             of the guarantee.",
            release.count
        ),
        // nothing was promised of numbers, and of the runs of a search no releases are told
        None if number_is_predicted || report.baseline.is_none() || report.score.is_some() => return,
        None => "Not calibrated: no budget was spent on it. Predicted probabilities rank rows, but may be too \
                 extreme or not extreme enough. A share of the budget for calibration mends that."
            .into(),
    };
    m.element("p", &text);
}

/// Which columns move the answer most.
pub(super) fn importance(m: &mut Markup, effects: &Effects) {
    m.element("h2", "Which columns matter");
    let rows = &effects.importance;
    if !rows.is_empty() {
        m.element(
            "p",
            &format!(
                "The root-mean-square effect of a column on {}, or of a pair of columns beyond the effects of each. \
                 It is computed from the released weights alone. It includes the noise added for privacy, so that \
                 short bars may be noise only. All levels of a category have equal weight, since their frequencies \
                 were not released.",
                moved(&effects.scale)
            ),
        );
        if let Some(figure) = figures::importance(&rows[..rows.len().min(FIGURE_ROWS)]) {
            m.raw("<div class=\"figures\"><figure>\n").raw(&figure);
            m.element("figcaption", &format!("{}.", unit(&effects.scale)));
            m.raw("</figure></div>\n");
        }
        let shown = rows.len().min(TABLE_ROWS);
        let cells = |row: &Importance| Row::new(vec![row.columns.join(" and "), number(row.value)]);
        m.raw("<details><summary>").text("As a table").raw("</summary>\n");
        m.table(
            &format!("{shown} of {} columns and pairs of columns.", rows.len()),
            &["column", "#importance"],
            &rows[..shown].iter().map(cells).collect::<Vec<_>>(),
        );
        m.raw("</details>\n");
    }
    if !effects.hashed.is_empty() {
        m.element(
            "p",
            &format!(
                "Not ranked: {}. Their values are hashed and not declared, so that most of their features are noise. \
                 Declare the levels of a column to have it ranked.",
                dpopt_data::listed(&effects.hashed)
            ),
        );
    }
}

fn moved(scale: &Scale) -> String {
    match scale {
        Scale::LogOdds { class } => format!("the log-odds of “{class}”"),
        Scale::Score { class } => format!("the score for “{class}”"),
        Scale::Scores { .. } => "the scores of the classes".into(),
        Scale::LogMean { target } => format!("the logarithm of the predicted {target}"),
        Scale::Number { target } => format!("the predicted {target}"),
    }
}

fn unit(scale: &Scale) -> String {
    match scale {
        Scale::LogOdds { .. } => "In log-odds: 0.7 doubles the odds".into(),
        Scale::Score { .. } | Scale::Scores { .. } => "In scores".into(),
        Scale::LogMean { .. } => "In logarithms: 0.7 doubles the prediction".into(),
        Scale::Number { target } => format!("In the unit of {target}"),
    }
}

/// What stands beside the axis of effects.
fn axis(scale: &Scale) -> String {
    match scale {
        Scale::LogOdds { class } => format!("log-odds of {class}"),
        Scale::Score { class } => format!("score for {class}"),
        Scale::Scores { .. } => "score".into(),
        Scale::LogMean { target } => format!("ln {target}"),
        Scale::Number { target } => target.clone(),
    }
}

/// What the model says of the columns and pairs that matter most.
pub(super) fn effects(m: &mut Markup, effects: &Effects) {
    let places = effects.shapes.first().map_or(0, Vec::len);
    let largest = |of_pairs: bool, most: usize| {
        let is_pair = |place: &usize| matches!(effects.shapes[0][*place], Shape::Map { .. }) == of_pairs;
        let mut found: Vec<(f64, usize)> = (0..places)
            .filter(is_pair)
            .map(|place| (effects.at(place).into_iter().map(Shape::mean_square).sum(), place))
            .collect();
        found.sort_by(|a, b| b.0.total_cmp(&a.0));
        found.truncate(most);
        found.into_iter().map(|(_, place)| place)
    };
    let classes = effects.classes();
    let drawn_classes = most_moved(effects);
    let axis = axis(&effects.scale);
    let drawn: Vec<(String, String)> = largest(false, SHAPES)
        .chain(largest(true, MAPS))
        .filter_map(|place| {
            let all = effects.at(place);
            match all.first()? {
                Shape::Map { columns, .. } => {
                    let most = (0..all.len()).max_by(|a, b| all[*a].reach().total_cmp(&all[*b].reach()))?;
                    let class = classes.get(most).map_or(String::new(), |class| format!(", for “{class}”"));
                    let caption = format!(
                        "{} and {}: interaction{class}, beyond the effects of each; blue cells add, grey cells \
                         subtract",
                        columns.0, columns.1
                    );
                    Some((figures::map_of(all[most])?, caption))
                }
                shape => {
                    let lines: Vec<(&str, usize, &Shape)> = drawn_classes
                        .iter()
                        .enumerate()
                        .map(|(colour, at)| (classes.get(*at).map_or("", String::as_str), colour, all[*at]))
                        .collect();
                    let caption = match shape {
                        Shape::Levels { column, levels } if levels.len() > figures::MAX_LEVELS => {
                            format!(
                                "{column}: the {} of {} levels with the largest effects",
                                figures::MAX_LEVELS,
                                levels.len()
                            )
                        }
                        shape => shape.columns().join(" and "),
                    };
                    Some((figures::shape(&lines, &axis)?, caption))
                }
            }
        })
        .collect();
    if drawn.is_empty() {
        return;
    }
    m.element("h2", "The effect of each column");
    let step = if effects.shapes.iter().flatten().any(is_step) {
        " A column with the range 0 to 1 is drawn at 0 and 1 only, unless a released histogram shows values in \
         between."
    } else {
        ""
    };
    m.element("p", &(introduction(&effects.scale) + step));
    if drawn_classes.len() > 1 {
        legend(m, classes, &drawn_classes);
    }
    m.raw("<div class=\"figures\">\n");
    for (figure, caption) in drawn {
        m.raw("<figure>\n").raw(&figure).element("figcaption", &caption).raw("</figure>\n");
    }
    m.raw("</div>\n");
}

/// The outputs that are drawn, in order: those that columns move most.
fn most_moved(effects: &Effects) -> Vec<usize> {
    let size = |output: &Vec<Shape>| output.iter().map(Shape::mean_square).sum::<f64>();
    let mut outputs: Vec<(usize, f64)> = effects.shapes.iter().map(size).enumerate().collect();
    outputs.sort_by(|a, b| b.1.total_cmp(&a.1));
    outputs.truncate(figures::MAX_SERIES);
    let mut places: Vec<usize> = outputs.into_iter().map(|(at, _)| at).collect();
    places.sort_unstable();
    places
}

fn introduction(scale: &Scale) -> String {
    let added = match scale {
        Scale::LogOdds { class } => format!(
            "Effect on the log-odds of “{class}”, centred at 0: values above 0 make it more likely; 0.7 doubles the \
             odds, −0.7 halves them."
        ),
        Scale::Score { class } => {
            format!("Effect on the score, centred at 0: values above 0 make “{class}” more likely.")
        }
        Scale::Scores { .. } => "Effect on the score of each class, relative to the mean of all classes: where the \
                                 line of one class is 0.7 above that of another, the odds of the first against the \
                                 second double."
            .into(),
        Scale::LogMean { target } => format!(
            "Effect on the logarithm of the predicted {target}, centred at 0: 0.7 doubles the prediction, −0.7 halves it."
        ),
        Scale::Number { target } => {
            format!("Effect on the predicted {target}, in the unit of {target}, centred at 0.")
        }
    };
    format!(
        "{added} Shown are the columns and pairs of columns with the largest effects, computed from the released \
         weights alone. The horizontal axis follows the private quantiles if the encoder uses them. The curves \
         include the noise added for privacy, and are rough where it is large."
    )
}

/// Colours of the classes that are drawn.
fn legend(m: &mut Markup, classes: &[String], drawn: &[usize]) {
    m.raw("<p class=\"legend\">");
    for (colour, at) in drawn.iter().enumerate() {
        m.raw(&format!("<span class=\"key k{colour}\">")).text(&classes[*at]).raw("</span> ");
    }
    if drawn.len() < classes.len() {
        m.text(&format!("({} of {} classes: those with the largest effects)", drawn.len(), classes.len()));
    }
    m.raw("</p>\n");
}
