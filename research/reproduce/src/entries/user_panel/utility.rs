//! Accuracy of logistic models of a generated panel on persons of another seed, by who is protected and what is clipped.

use super::fits::{BY_ROW, Encoded, Model, Scores};
use crate::{Compared, Failure, Lab, Summary, Table, Trial, cell};
use dpopt::report::chart::{Axis, Chart, Panel, Series};
use dpopt_problems as problems;
use serde::{Deserialize, Serialize};

const DELTA: f64 = 1e-5;
/// Tables at full size.
const REPEATS: u32 = 3;
const EPSILONS: [f64; 4] = [0.5, 1.0, 2.0, 4.0];
const CORRELATIONS: [f64; 3] = [0.0, 0.5, 1.0];
/// Rows of a person of the table to test on: many persons say more than many rows of each.
const TEST_ROWS: usize = 10;
/// One form of the encoder for all, so that nothing differs but what is protected and how.
const FORM: &str = "\n[dpopt]\nknots = 8\nfine_knots = 0\ncentred = true\nspread = false\npairs = \"none\"\n";

#[derive(Clone, Serialize)]
struct Setting {
    correlation: f64,
    epsilon: f64,
    units: usize,
    rows_per_unit: usize,
    test_units: usize,
    bounds: Vec<u64>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Measured {
    #[serde(flatten)]
    accuracy: Scores,
    /// Of the table that is tested on.
    majority: f64,
    /// The true model's expected accuracy on it.
    truth: f64,
}

fn encoded(panel: problems::Panel) -> Result<Encoded, Failure> {
    let units = panel.rows_per_unit.len();
    Encoded::new(panel.csv, &(panel.bounds + FORM), "person", units, "outcome")
}

fn measure(setting: &Setting, trial: Trial) -> Result<Measured, Failure> {
    let Setting { correlation, epsilon, units, rows_per_unit, test_units, .. } = *setting;
    // the same persons for every ε, correlation and guarantee
    let train = encoded(problems::panel(units, rows_per_unit, correlation, trial.shared_seed))?;
    let test = problems::panel(test_units, TEST_ROWS, correlation, !trial.shared_seed);
    let truth = test.bayes_accuracy;
    let test = encoded(test)?;
    let positive = test.positive_rate();
    let accuracy = |weights: &[f64]| {
        let right = test.scored(weights).filter(|(score, target)| (*score > 0.0) == (*target > 0.0)).count();
        right as f64 / test.rows() as f64
    };
    Ok(Measured {
        accuracy: train.scores(epsilon, DELTA, &setting.bounds, trial, accuracy)?,
        majority: positive.max(1.0 - positive),
        truth,
    })
}

/// What the panel adds to the entry.
pub(super) struct Part {
    pub(super) accuracy: Table,
    pub(super) chart: Chart,
    pub(super) compared: Vec<Compared>,
    pub(super) notes: Vec<String>,
    pub(super) sentence: String,
}

/// Means over the repeats of one setting.
struct Row {
    per_unit: Summary,
    groups: Vec<Summary>,
    per_row: Summary,
    majority: Summary,
    truth: Summary,
    /// Per unit less group privacy at the table's own bound; less that at the bound that is best on the table to test on.
    gains: [f64; 2],
}

impl Row {
    fn of(trials: &[Measured]) -> Self {
        let over = |of: &dyn Fn(&Measured) -> f64| Summary::of(trials.iter().map(of));
        let count = trials.first().map_or(0, |trial| trial.accuracy.groups.len());
        let per_unit = over(&|m| m.accuracy.per_unit.score);
        let groups: Vec<Summary> = (0..count).map(|k| over(&|m| m.accuracy.groups[k].score)).collect();
        let best = groups.iter().map(|s| s.mean).fold(f64::NEG_INFINITY, f64::max);
        let own = groups.last().map_or(f64::NAN, |s| s.mean);
        Self {
            gains: [per_unit.mean - own, per_unit.mean - best],
            per_unit,
            groups,
            per_row: over(&|m| m.accuracy.per_row.score),
            majority: over(&|m| m.majority),
            truth: over(&|m| m.truth),
        }
    }
}

pub(super) fn run(lab: &Lab) -> Result<Part, Failure> {
    let (units, rows_per_unit, test_units) = lab.pick((300, 10, 1_000), (5_000, 100, 4_000));
    let correlations = lab.pick(vec![0.5], CORRELATIONS.to_vec());
    let epsilons = lab.pick(vec![1.0, 4.0], EPSILONS.to_vec());
    let bounds: Vec<u64> = lab.pick(vec![1, 10], vec![1, 10, 100]);
    let repeats = lab.pick(1, REPEATS);
    lab.setting("panel: units, rows of each", [units, rows_per_unit])?;
    lab.setting("panel: persons to test on, rows of each", [test_units, TEST_ROWS])?;
    lab.setting("panel: delta (zero-out)", DELTA)?;
    lab.setting("panel: seeds", repeats)?;
    let mut settings = Vec::new();
    for &correlation in &correlations {
        for &epsilon in &epsilons {
            let bounds = bounds.clone();
            settings.push(Setting { correlation, epsilon, units, rows_per_unit, test_units, bounds });
        }
    }
    let results = lab.trials("panel", &settings, repeats, measure)?;
    let rows: Vec<Row> = results.iter().map(|trials| Row::of(trials)).collect();
    let mut accuracy = Table::new(
        "accuracy",
        ["correlation", "epsilon", "protected", "test accuracy", "sd over seeds", "method", "noise multiplier"],
    );
    let group_name = |most: u64| format!("group of {most}");
    for ((setting, trials), row) in settings.iter().zip(&results).zip(&rows) {
        let Some(first) = trials.first() else { continue };
        let mut line = |name: String, s: &Summary, model: Option<&Model>| {
            accuracy.row([
                setting.correlation.to_string(),
                setting.epsilon.to_string(),
                name,
                cell(s.mean),
                cell(s.sd),
                model.map_or_else(String::new, |m| m.method.clone()),
                model.map_or_else(String::new, |m| cell(m.noise_multiplier)),
            ]);
        };
        line("person, per unit".into(), &row.per_unit, Some(&first.accuracy.per_unit));
        for ((&most, s), model) in bounds.iter().zip(&row.groups).zip(&first.accuracy.groups) {
            line(format!("person, {}", group_name(most)), s, Some(model));
        }
        line("row only".into(), &row.per_row, Some(&first.accuracy.per_row));
        line("true model".into(), &row.truth, None);
        line("majority".into(), &row.majority, None);
    }
    let panels = rows.chunks(epsilons.len()).zip(&correlations).map(|(rows, correlation)| {
        let series = |name: String, of: &dyn Fn(&Row) -> Summary| {
            Series::band(name, rows.iter().zip(&epsilons).map(|(row, &epsilon)| of(row).at(epsilon)))
        };
        let mut panel = Panel::new(
            format!("correlation within a person {correlation}"),
            Axis::log("ε"),
            Axis::linear("test accuracy"),
        )
        .with(series("per unit".into(), &|row| row.per_unit));
        for (k, &most) in bounds.iter().enumerate().rev() {
            panel = panel.with(series(group_name(most), &|row| row.groups[k]));
        }
        panel = panel.with(series("row only: persons are not protected".into(), &|row| row.per_row));
        match rows.first() {
            // the majority, far below, stands in the table: an axis down to it would hide what the panel is about
            Some(row) => panel.level("true model", row.truth.mean),
            None => panel,
        }
    });
    let chart = Chart::of(panels);
    let least = |which: usize, upto: f64| {
        let chosen = settings.iter().zip(&rows).filter(|(setting, _)| setting.epsilon <= upto);
        chosen.map(|(_, row)| row.gains[which]).fold(f64::INFINITY, f64::min)
    };
    let largest_epsilon = epsilons.last().copied().unwrap_or(f64::NAN);
    let shortfall = settings
        .iter()
        .zip(&rows)
        .filter(|(setting, _)| setting.epsilon == largest_epsilon)
        .map(|(_, row)| row.truth.mean - row.per_unit.mean)
        .fold(f64::NEG_INFINITY, f64::max);
    // the margins were chosen before an accuracy had been seen
    let mut compared = vec![
        Compared::within(
            "panel: least gain over group privacy at the table's own bound, ε ≤ 1",
            0.01..=1.0,
            least(0, 1.0),
        ),
        Compared::within(
            "panel: least gain over group privacy at its best bound, every ε",
            -0.005..=1.0,
            least(1, f64::INFINITY),
        ),
        Compared::within("panel: largest shortfall per unit of the true model, ε = 4", -1.0..=0.03, shortfall),
    ];
    // seen after the margins: not judged
    for epsilon in &epsilons {
        let mean = |of: &dyn Fn(&Row) -> f64| {
            let chosen = settings.iter().zip(&rows).filter(|(setting, _)| setting.epsilon == *epsilon);
            Summary::of(chosen.map(|(_, row)| row.truth.mean - of(row))).mean
        };
        compared.push(Compared {
            what: format!("panel: what is lost against the true model, ε = {epsilon}, mean over correlations"),
            reported: format!(
                "group of {rows_per_unit}: {:.4}",
                mean(&|row| row.groups.last().map_or(f64::NAN, |s| s.mean))
            ),
            ours: format!(
                "per unit: {:.4}; row only: {:.4}",
                mean(&|row| row.per_unit.mean),
                mean(&|row| row.per_row.mean)
            ),
            agrees: None,
        });
    }
    let sentence = format!(
        "Per unit, models of the panel lose at most {:.3} of accuracy against the true model at ε = {largest_epsilon}; they gain at least {:.3} over \
         group privacy at the bound of {rows_per_unit} rows for ε ≤ 1, and at least {:.3} over its best bound at any ε.",
        shortfall,
        least(0, 1.0),
        least(1, f64::INFINITY),
    );
    Ok(Part {
        accuracy,
        chart,
        compared,
        notes: vec![
            format!(
                "Panel: one form of the encoder for all (linear B-splines on eight knots, no products). Per unit takes the library's default; group privacy and rows take \
                 the better, on the table to test on, of {} at their defaults: an oracle that a user does not have, and so is the best bound on rows.",
                BY_ROW.join(" and ")
            ),
            "The rows of a person agree in their features only as much as the correlation says; their labels are independent given the features.".into(),
            format!("{repeats} seed{} of the panel; bands are standard deviations over seeds.", if repeats == 1 { "" } else { "s" }),
        ],
        sentence,
    })
}
