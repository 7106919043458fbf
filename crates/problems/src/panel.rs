//! A panel: persons with many visits each, mixed columns, and a binary target from a known logistic model. For models that protect
//! a person and not a row.
//!
//! How much the rows of a person say the same is a dial. Column j of a row has a normal score √ρ · a + √(1 − ρ) · b, with a drawn
//! once per person and column and b anew for every row (a Gaussian copula), and the value is the column's inverse law at that
//! score: at ρ = 0 rows are independent, at ρ = 1 a person's rows have the same features. Columns are independent of each
//! other, and so are labels given the features: ρ changes what the rows of a person know together, and neither the columns'
//! laws nor the model behind the labels.
//!
//! Deterministic: every machine writes the same bytes.

use crate::census::Term;
use crate::draws::{Draws, quantile};

/// A generated table of persons with its public facts and its truth.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// The table as CSV with a header: `person`, eight features and the target `outcome`, classes `no` and `yes`. Rows are in
    /// random order: those of a person are not together, and the order says nothing of them.
    pub csv: String,
    /// The `bounds.toml` of the table: ranges and levels as a codebook would state them; they are not read off the rows. `person` is no
    /// feature (`ignore`).
    pub bounds: String,
    /// Rows of each person, in the order of their identifiers.
    pub rows_per_unit: Vec<usize>,
    /// The true log-odds of `yes`. Terms not listed are zero.
    pub truth: Vec<Term>,
    /// Mean over the rows of max(p, 1-p): the accuracy of the true model, which no classifier exceeds in expectation.
    pub bayes_accuracy: f64,
    /// Expected share of `yes`: mean over the rows of p.
    pub positive_rate: f64,
}

const CLINIC: [(&str, f64); 6] =
    [("north", 0.30), ("south", 0.24), ("east", 0.18), ("west", 0.14), ("harbour", 0.09), ("valley", 0.05)];
const COMPLAINT: [(&str, f64); 8] = [
    ("back", 0.20),
    ("checkup", 0.20),
    ("cough", 0.16),
    ("headache", 0.14),
    ("stomach", 0.12),
    ("skin", 0.08),
    ("chest", 0.06),
    ("injury", 0.04),
];

const TRUTH: [Term; 15] = [
    Term { name: "(intercept)", coefficient: -0.9 },
    Term { name: "(pulse-74)/12", coefficient: 0.8 },
    Term { name: "(blood_pressure-126)/17", coefficient: 0.5 },
    Term { name: "((blood_pressure-126)/17)^2", coefficient: 0.2 },
    Term { name: "(temperature-36.9)/0.5", coefficient: 0.9 },
    Term { name: "(sleep_hours-6.8)/1.3", coefficient: -0.5 },
    Term { name: "ln(1+steps)-8.4", coefficient: -0.7 },
    Term { name: "pain-5", coefficient: 0.2 },
    Term { name: "clinic=south", coefficient: 0.4 },
    Term { name: "clinic=harbour", coefficient: -0.5 },
    Term { name: "clinic=valley", coefficient: -0.8 },
    Term { name: "complaint=checkup", coefficient: -1.5 },
    Term { name: "complaint=skin", coefficient: -0.6 },
    Term { name: "complaint=chest", coefficient: 1.5 },
    Term { name: "complaint=injury", coefficient: 0.9 },
];

/// Number of features.
const FEATURES: usize = 8;

/// `units` persons with `rows_per_unit` rows each, from `seed`. `correlation` is the share of the variance of every column's
/// normal score that the rows of a person have in common (0: none, 1: all). 500,000 rows are about 23 MB.
///
/// One seed gives the same persons at every correlation; another seed gives other persons of the same law, as a test table
/// needs them.
///
/// # Panics
/// If `correlation` is not in [0, 1].
///
/// ```
/// let panel = dpopt_problems::panel(50, 10, 0.5, 1);
/// assert_eq!(panel.csv.lines().count(), 501);
/// assert_eq!(panel.rows_per_unit, [10; 50]);
/// ```
pub fn panel(units: usize, rows_per_unit: usize, correlation: f64, seed: u64) -> Panel {
    let mut draw = Draws::from_seed(seed);
    let persons = persons(units, &mut draw);
    table(&persons, vec![rows_per_unit; units], correlation, &mut draw)
}

/// As [`panel`], with as many rows in all, unevenly spread: everybody has a row, and the rest is given out in proportion to a draw
/// per person whose tail falls like 1/x² (Lomax): three in four have less than the mean, and of some thousands the busiest has
/// fifty to two hundred times the mean.
///
/// # Panics
/// As [`panel`], and if the mean is zero.
pub fn uneven_panel(units: usize, mean_rows_per_unit: usize, correlation: f64, seed: u64) -> Panel {
    assert!(mean_rows_per_unit > 0, "everybody has a row");
    let mut draw = Draws::from_seed(seed);
    let persons = persons(units, &mut draw);
    let counts = uneven(units, mean_rows_per_unit, &mut draw);
    table(&persons, counts, correlation, &mut draw)
}

/// What the rows of each person have in common: a standard normal per column.
fn persons(units: usize, draw: &mut Draws) -> Vec<[f64; FEATURES]> {
    (0..units).map(|_| std::array::from_fn(|_| draw.normal())).collect()
}

/// Counts of at least one with mean `mean` exactly: where the cumulated weights, scaled to all rows beyond the first ones and
/// rounded, go up.
fn uneven(units: usize, mean: usize, draw: &mut Draws) -> Vec<usize> {
    let cumulated: Vec<f64> = (0..units)
        .scan(0.0, |sum, _| {
            *sum += 1.0 / libm::sqrt(1.0 - draw.uniform()) - 1.0;
            Some(*sum)
        })
        .collect();
    let total = cumulated.last().copied().unwrap_or(1.0);
    let spare = (units * (mean - 1)) as f64;
    let mut before = 0;
    let count = |sum: &f64| {
        let up_to_here = (sum / total * spare).round() as usize;
        1 + up_to_here - std::mem::replace(&mut before, up_to_here)
    };
    cumulated.iter().map(count).collect()
}

/// One row without its person and its label.
struct Visit {
    clinic: &'static str,
    complaint: &'static str,
    pulse: f64,
    blood_pressure: f64,
    temperature: f64,
    sleep_hours: f64,
    steps: f64,
    pain: f64,
}

impl Visit {
    /// Each column's inverse law at its normal score.
    fn at(scores: &[f64; FEATURES]) -> Self {
        let [clinic, complaint, pulse, blood_pressure, temperature, sleep, steps, pain] = *scores;
        let tenths = |value: f64| (value * 10.0).round() / 10.0;
        Self {
            clinic: quantile(&CLINIC, normal_cdf(clinic)),
            complaint: quantile(&COMPLAINT, normal_cdf(complaint)),
            pulse: (74.0 + 12.0 * pulse).round().clamp(40.0, 180.0),
            blood_pressure: (126.0 + 17.0 * blood_pressure).round().clamp(80.0, 220.0),
            temperature: tenths(36.9 + 0.5 * temperature).clamp(34.0, 42.0),
            sleep_hours: tenths(6.8 + 1.3 * sleep).clamp(2.0, 14.0),
            steps: libm::exp(8.4 + 0.7 * steps).round().min(40_000.0),
            pain: (11.0 * normal_cdf(pain)).floor().min(10.0),
        }
    }

    fn log_odds(&self) -> f64 {
        TRUTH.iter().map(|term| term.coefficient * self.value(term.name)).sum()
    }

    fn value(&self, term: &str) -> f64 {
        let pressure = (self.blood_pressure - 126.0) / 17.0;
        match term {
            "(intercept)" => 1.0,
            "(pulse-74)/12" => (self.pulse - 74.0) / 12.0,
            "(blood_pressure-126)/17" => pressure,
            "((blood_pressure-126)/17)^2" => pressure * pressure,
            "(temperature-36.9)/0.5" => (self.temperature - 36.9) / 0.5,
            "(sleep_hours-6.8)/1.3" => (self.sleep_hours - 6.8) / 1.3,
            "ln(1+steps)-8.4" => libm::log1p(self.steps) - 8.4,
            "pain-5" => self.pain - 5.0,
            level => {
                let given = [("clinic", self.clinic), ("complaint", self.complaint)];
                f64::from(u8::from(given.iter().any(|pair| level.split_once('=') == Some(*pair))))
            }
        }
    }
}

/// P(standard normal ≤ z).
fn normal_cdf(z: f64) -> f64 {
    0.5 * libm::erfc(-z * std::f64::consts::FRAC_1_SQRT_2)
}

fn table(persons: &[[f64; FEATURES]], rows_per_unit: Vec<usize>, correlation: f64, draw: &mut Draws) -> Panel {
    assert!((0.0..=1.0).contains(&correlation), "the correlation within a person lies in [0, 1]");
    let (common, own) = (libm::sqrt(correlation), libm::sqrt(1.0 - correlation));
    // whose row each row is: Fisher–Yates
    let mut order: Vec<usize> =
        rows_per_unit.iter().enumerate().flat_map(|(i, &rows)| std::iter::repeat_n(i, rows)).collect();
    for last in (1..order.len()).rev() {
        order.swap(last, draw.below(last + 1));
    }
    let digits = persons.len().saturating_sub(1).to_string().len().max(6);
    let mut csv = String::with_capacity(64 * order.len());
    csv.push_str("person,clinic,complaint,pulse,blood_pressure,temperature,sleep_hours,steps,pain,outcome\n");
    let (mut best, mut positive) = (0.0, 0.0);
    for &i in &order {
        let scores = std::array::from_fn(|j| common * persons[i][j] + own * draw.normal());
        let visit = Visit::at(&scores);
        let p = 1.0 / (1.0 + libm::exp(-visit.log_odds()));
        best += p.max(1.0 - p);
        positive += p;
        let outcome = if draw.uniform() < p { "yes" } else { "no" };
        let Visit { clinic, complaint, pulse, blood_pressure, temperature, sleep_hours, steps, pain } = visit;
        csv.push_str(&format!(
            "p{i:0digits$},{clinic},{complaint},{pulse},{blood_pressure},{temperature},{sleep_hours},{steps},{pain},{outcome}\n"
        ));
    }
    let rows = order.len().max(1) as f64;
    Panel {
        csv,
        bounds: bounds(),
        rows_per_unit,
        truth: TRUTH.to_vec(),
        bayes_accuracy: best / rows,
        positive_rate: positive / rows,
    }
}

/// The codebook as a bounds file.
fn bounds() -> String {
    let mut text = String::from(
        "# Public facts about the table, from its codebook and not from its rows.\n\n[person]\nignore = true\n",
    );
    for (column, lower, upper) in [
        ("pulse", 40, 180),
        ("blood_pressure", 80, 220),
        ("temperature", 34, 42),
        ("sleep_hours", 2, 14),
        ("steps", 0, 40_000),
        ("pain", 0, 10),
    ] {
        text.push_str(&format!("\n[{column}]\nlower = {lower}\nupper = {upper}\n"));
    }
    let names = |table: &[(&'static str, f64)]| table.iter().map(|entry| entry.0).collect::<Vec<_>>();
    for (column, levels) in
        [("clinic", names(&CLINIC)), ("complaint", names(&COMPLAINT)), ("outcome", vec!["no", "yes"])]
    {
        text.push_str(&format!("\n[{column}]\nlevels = [\"{}\"]\n", levels.join("\", \"")));
    }
    text
}

#[cfg(test)]
#[path = "panel_tests.rs"]
mod tests;
