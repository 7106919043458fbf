//! A census-like table: mixed columns, missing values, and a binary target from a known logistic model.
//!
//! Deterministic: every machine writes the same bytes.

use crate::draws::Draws;

/// One term of the true model's log-odds.
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    /// `(intercept)`, a numeric term such as `(age-45)/10`, or `column=level` (1 if the record has that level).
    pub name: &'static str,
    /// Coefficient of the term.
    pub coefficient: f64,
}

/// A generated table with its public facts and its truth.
#[derive(Clone, Debug, PartialEq)]
pub struct Census {
    /// The table as CSV with a header; target `income`, classes `low` and `high`.
    pub csv: String,
    /// The `bounds.toml` of the table: ranges and levels as a codebook would state them; they are not read off the rows.
    pub bounds: String,
    /// The true log-odds of `high`. Terms not listed are zero.
    pub truth: Vec<Term>,
    /// Mean over the rows of max(p, 1-p): the accuracy of the true model, which no classifier exceeds in expectation.
    pub bayes_accuracy: f64,
    /// Expected share of `high`: mean over the rows of p.
    pub positive_rate: f64,
}

const WORKCLASS: [(&str, f64); 6] = [
    ("private", 0.70),
    ("self-employed", 0.10),
    ("local-government", 0.08),
    ("state-government", 0.05),
    ("federal-government", 0.04),
    ("unpaid", 0.03),
];
const OCCUPATION: [(&str, f64); 12] = [
    ("craft", 0.14),
    ("professional", 0.14),
    ("managerial", 0.13),
    ("clerical", 0.12),
    ("sales", 0.11),
    ("service", 0.11),
    ("machine-operator", 0.07),
    ("transport", 0.05),
    ("labourer", 0.05),
    ("farming", 0.04),
    ("technical", 0.03),
    ("protective", 0.01),
];
const MARITAL: [(&str, f64); 5] =
    [("married", 0.47), ("never-married", 0.31), ("divorced", 0.14), ("separated", 0.04), ("widowed", 0.04)];
const SEX: [(&str, f64); 2] = [("female", 0.5), ("male", 0.5)];
/// Regions have Zipf frequencies: the last ones are rare.
const REGIONS: usize = 40;

const TRUTH: [Term; 16] = [
    Term { name: "(intercept)", coefficient: -2.2 },
    Term { name: "(age-45)/10", coefficient: 0.35 },
    Term { name: "((age-45)/10)^2", coefficient: -0.22 },
    Term { name: "education_years-10", coefficient: 0.36 },
    Term { name: "(hours_per_week-40)/10", coefficient: 0.40 },
    Term { name: "ln(1+capital_gain)", coefficient: 0.25 },
    Term { name: "ln(1+capital_loss)", coefficient: 0.12 },
    Term { name: "marital_status=married", coefficient: 1.9 },
    Term { name: "marital_status=widowed", coefficient: 0.3 },
    Term { name: "occupation=managerial", coefficient: 0.9 },
    Term { name: "occupation=professional", coefficient: 0.6 },
    Term { name: "occupation=service", coefficient: -0.9 },
    Term { name: "occupation=farming", coefficient: -1.0 },
    Term { name: "workclass=federal-government", coefficient: 0.5 },
    Term { name: "workclass=unpaid", coefficient: -1.2 },
    Term { name: "sex=male", coefficient: 0.2 },
];

/// Share of `?` in `workclass`, `occupation` and `region`, drawn independently of everything else.
const UNANSWERED: f64 = 0.04;
/// Share of empty `hours_per_week`.
const NO_HOURS: f64 = 0.02;

/// `rows` records from `seed`; 30,000 rows are about 2 MB.
///
/// ```
/// let census = dpopt_problems::census(500, 1);
/// assert_eq!(census.csv.lines().count(), 501);
/// assert!(census.bayes_accuracy > 0.8);
/// ```
pub fn census(rows: usize, seed: u64) -> Census {
    let mut draw = Draws::from_seed(seed);
    let regions: Vec<(String, f64)> = (1..=REGIONS).map(|i| (format!("region-{i:02}"), 1.0 / i as f64)).collect();
    let regions: Vec<(&str, f64)> = regions.iter().map(|(name, weight)| (name.as_str(), *weight)).collect();
    let mut csv = String::from(
        "age,workclass,survey_weight,education_years,marital_status,occupation,sex,region,capital_gain,capital_loss,\
         hours_per_week,income\n",
    );
    let (mut best, mut positive) = (0.0, 0.0);
    for _ in 0..rows {
        let sex = draw.one_of(&SEX);
        let age = (17.0 + libm::fabs(56.0 * libm::pow(draw.uniform(), 1.4) + 6.0 * draw.normal())).round().min(90.0);
        let education = (10.3 + 2.6 * draw.normal()).round().clamp(1.0, 16.0);
        let marital = if age < 25.0 && draw.uniform() < 0.75 { "never-married" } else { draw.one_of(&MARITAL) };
        let occupation = draw.one_of(&OCCUPATION);
        let workclass = draw.one_of(&WORKCLASS);
        let region = draw.one_of(&regions);
        let weight = libm::exp(12.0 + 0.5 * draw.normal()).round().clamp(10_000.0, 1_500_000.0);
        let hours = (40.0 + if draw.uniform() < 0.5 { 0.0 } else { 12.0 * draw.normal() }).round().clamp(1.0, 99.0);
        let gain = if draw.uniform() < 0.08 { libm::exp(8.2 + 1.1 * draw.normal()).round().min(99_999.0) } else { 0.0 };
        let loss =
            if draw.uniform() < 0.05 { (1870.0 + 380.0 * draw.normal()).round().clamp(150.0, 4356.0) } else { 0.0 };

        let decades = (age - 45.0) / 10.0;
        let log_odds: f64 = TRUTH
            .iter()
            .map(|term| {
                let value = match term.name {
                    "(intercept)" => 1.0,
                    "(age-45)/10" => decades,
                    "((age-45)/10)^2" => decades * decades,
                    "education_years-10" => education - 10.0,
                    "(hours_per_week-40)/10" => (hours - 40.0) / 10.0,
                    "ln(1+capital_gain)" => libm::log1p(gain),
                    "ln(1+capital_loss)" => libm::log1p(loss),
                    level => {
                        let given = [
                            ("marital_status", marital),
                            ("occupation", occupation),
                            ("workclass", workclass),
                            ("sex", sex),
                        ];
                        let holds =
                            given.iter().any(|(column, value)| level.split_once('=') == Some((*column, *value)));
                        f64::from(u8::from(holds))
                    }
                };
                term.coefficient * value
            })
            .sum();
        let p = 1.0 / (1.0 + libm::exp(-log_odds));
        best += p.max(1.0 - p);
        positive += p;
        let income = if draw.uniform() < p { "high" } else { "low" };

        let mut answer = |value: &'static str| if draw.uniform() < UNANSWERED { "?" } else { value };
        let (workclass, occupation) = (answer(workclass), answer(occupation));
        let region = if draw.uniform() < UNANSWERED { "?" } else { region };
        let hours = if draw.uniform() < NO_HOURS { String::new() } else { hours.to_string() };
        csv.push_str(&format!(
            "{age},{workclass},{weight},{education},{marital},{occupation},{sex},{region},{gain},{loss},{hours},{income}\n"
        ));
    }
    let rows = rows.max(1) as f64;
    Census {
        csv,
        bounds: bounds(&regions),
        truth: TRUTH.to_vec(),
        bayes_accuracy: best / rows,
        positive_rate: positive / rows,
    }
}

/// The codebook as a bounds file.
fn bounds(regions: &[(&str, f64)]) -> String {
    let mut text = String::from("# Public facts about the table, from its codebook and not from its rows.\n");
    for (column, lower, upper) in [
        ("age", 17, 90),
        ("survey_weight", 0, 1_500_000),
        ("education_years", 1, 16),
        ("capital_gain", 0, 99_999),
        ("capital_loss", 0, 4356),
        ("hours_per_week", 1, 99),
    ] {
        text.push_str(&format!("\n[{column}]\nlower = {lower}\nupper = {upper}\n"));
    }
    let mut levels = |column: &str, names: Vec<&str>| {
        let quoted: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
        text.push_str(&format!("\n[{column}]\nlevels = [{}]\n", quoted.join(", ")));
    };
    let names = |table: &[(&'static str, f64)]| table.iter().map(|entry| entry.0).collect();
    levels("workclass", names(&WORKCLASS));
    levels("marital_status", names(&MARITAL));
    levels("occupation", names(&OCCUPATION));
    levels("sex", names(&SEX));
    levels("region", regions.iter().map(|entry| entry.0).collect());
    levels("income", vec!["low", "high"]);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_data::{BadCells, Encoder, Format, ReadOptions, Schema, open_bytes};

    #[test]
    fn the_table_is_deterministic_and_its_bounds_fit() {
        let census = census(4000, 7);
        assert_eq!(census, super::census(4000, 7));
        assert_ne!(census.csv, super::census(4000, 8).csv);
        let table = open_bytes(census.csv.clone().into_bytes(), Format::Csv, &ReadOptions::default()).unwrap();
        let schema = Schema::from_toml(&census.bounds).unwrap();
        let layout = schema.resolve(table.columns(), Some("income")).unwrap();
        assert!(layout.undeclared.is_empty() && layout.unbounded().is_empty());
        let encoder = Encoder::new(&layout).unwrap();
        let examples = encoder.encode_public(&*table, BadCells::Error).unwrap();
        assert_eq!(examples.rows.len(), 4000);
        // no label is unknown, and the share of +1 is as the model says: 6 standard deviations of .5/sqrt(4000)
        assert!(examples.targets.iter().all(|t| t.abs() == 1.0));
        let share = examples.targets.iter().filter(|t| **t > 0.0).count() as f64 / 4000.0;
        assert!((share - census.positive_rate).abs() < 6.0 * 0.5 / 4000f64.sqrt(), "{share} {}", census.positive_rate);
        assert!(census.positive_rate > 0.2 && census.positive_rate < 0.35, "{}", census.positive_rate);
        assert!(census.bayes_accuracy > 0.82 && census.bayes_accuracy < 0.9, "{}", census.bayes_accuracy);
        // missing values appear as such and never as "other"
        let names: Vec<String> = (0..encoder.dimension()).map(|i| encoder.feature_name(i).unwrap()).collect();
        let mut seen = std::collections::BTreeMap::new();
        for i in 0..4000 {
            for &c in examples.rows.row(i).0 {
                *seen.entry(names[c as usize].as_str()).or_insert(0) += 1;
            }
        }
        assert!(names.iter().filter(|n| n.ends_with("=(other)")).all(|n| !seen.contains_key(n.as_str())));
        for column in ["workclass", "occupation", "region", "hours_per_week"] {
            assert!(seen[format!("{column}=(missing)").as_str()] > 20, "{column}");
        }
    }
}
