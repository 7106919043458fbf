//! Tastes: rows are what a person said of an item, and a person's ways show in no column alone: whether an item is liked follows from the inner product of hidden
//! vectors of the person's region and job with one of the item. For embedding models that protect persons.
//!
//! Deterministic: every machine writes the same bytes.

use crate::draws::Draws;

/// A generated table of tastes with its public facts and what the truth reaches.
#[derive(Clone, Debug, PartialEq)]
pub struct Tastes {
    /// The table as CSV with a header: `person`, `region`, `job`, `item` and the target `liked`, classes `no` and `yes`.
    pub csv: String,
    /// The `bounds.toml` of the table: levels as a codebook would state them; they are not read off the rows. `person` is no feature (`ignore`).
    pub bounds: String,
    /// Mean over the rows of max(p, 1-p): the accuracy of the true model, which no classifier exceeds in expectation.
    pub bayes_accuracy: f64,
}

const REGIONS: usize = 12;
const JOBS: usize = 12;
const ITEMS: usize = 60;
/// Length of the hidden vectors.
const HIDDEN: usize = 3;
/// Standard deviation of the log-odds that the hidden vectors give.
const SHARPNESS: f64 = 2.5;
/// Standard deviation of an item's popularity, in log-odds.
const POPULARITY: f64 = 0.3;
/// Seed of the hidden vectors, which are the same in every table.
const LAW: u64 = 0x7a57_e500;

/// `units` persons with `rows_per_unit` items each, from `seed`; another seed gives other persons of the same law.
///
/// ```
/// let tastes = dpopt_problems::tastes(50, 8, 1);
/// assert_eq!(tastes.csv.lines().count(), 401);
/// ```
pub fn tastes(units: usize, rows_per_unit: usize, seed: u64) -> Tastes {
    let mut law = Draws::from_seed(LAW);
    let mut vectors =
        |count: usize| -> Vec<[f64; HIDDEN]> { (0..count).map(|_| std::array::from_fn(|_| law.normal())).collect() };
    let (regions, jobs, items) = (vectors(REGIONS), vectors(JOBS), vectors(ITEMS));
    let popularity: Vec<f64> = (0..ITEMS).map(|_| POPULARITY * law.normal()).collect();
    let mut draw = Draws::from_seed(seed);
    let digits = units.saturating_sub(1).to_string().len().max(6);
    let mut csv = String::with_capacity(24 * units * rows_per_unit);
    csv.push_str("person,region,job,item,liked\n");
    let mut best = 0.0;
    for person in 0..units {
        let (region, job) = (draw.below(REGIONS), draw.below(JOBS));
        for _ in 0..rows_per_unit {
            let item = draw.below(ITEMS);
            let way = |h: usize| (regions[region][h] + jobs[job][h]) * items[item][h];
            let product: f64 = (0..HIDDEN).map(way).sum();
            let log_odds = SHARPNESS * product / libm::sqrt(2.0 * HIDDEN as f64) + popularity[item];
            let p = 1.0 / (1.0 + libm::exp(-log_odds));
            best += p.max(1.0 - p);
            let liked = if draw.uniform() < p { "yes" } else { "no" };
            csv.push_str(&format!("p{person:0digits$},r{region},j{job},i{item},{liked}\n"));
        }
    }
    let rows = (units * rows_per_unit).max(1);
    Tastes { csv, bounds: bounds(), bayes_accuracy: best / rows as f64 }
}

/// The codebook as a bounds file.
fn bounds() -> String {
    let mut text = String::from(
        "# Public facts about the table, from its codebook and not from its rows.\n\n[person]\nignore = true\n",
    );
    for (column, letter, count) in [("region", 'r', REGIONS), ("job", 'j', JOBS), ("item", 'i', ITEMS)] {
        let levels: Vec<String> = (0..count).map(|at| format!("\"{letter}{at}\"")).collect();
        text.push_str(&format!("\n[{column}]\nlevels = [{}]\n", levels.join(", ")));
    }
    text.push_str("\n[liked]\nlevels = [\"no\", \"yes\"]\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_data::{BadCells, Encoder, Format, ReadOptions, Schema, open_bytes};
    use std::collections::BTreeMap;

    #[test]
    fn every_machine_writes_the_same_bytes() {
        // FNV-1a, 64 bits
        let hash = |text: &str| {
            text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
        };
        assert_eq!(hash(&tastes(40, 10, 7).csv), 0xeeaf_674a_3213_1c27);
        assert_eq!(tastes(40, 10, 7), tastes(40, 10, 7));
        assert_ne!(tastes(40, 10, 7).csv, tastes(40, 10, 8).csv);
    }

    #[test]
    fn its_bounds_fit() {
        let made = tastes(200, 10, 3);
        let table = open_bytes(made.csv.clone().into_bytes(), Format::Csv, &ReadOptions::default()).unwrap();
        let layout = Schema::from_toml(&made.bounds).unwrap().resolve(table.columns(), Some("liked")).unwrap();
        assert!(layout.undeclared.is_empty() && layout.unbounded().is_empty() && layout.ignored == ["person"]);
        let encoder = Encoder::new(&layout).unwrap();
        let examples = encoder.encode_public(&*table, BadCells::Error).unwrap();
        assert!(examples.rows.len() == 2_000 && examples.targets.iter().all(|t| t.abs() == 1.0));
    }

    #[test]
    fn no_column_alone_predicts_much_and_all_together_predict_as_documented() {
        let made = tastes(4_000, 50, 5);
        // the share that is liked, and the accuracy of the best rule, by the values of some columns; every cell of the last has 23 rows on average
        let best = |columns: &[usize]| {
            let mut counts: BTreeMap<Vec<&str>, [f64; 2]> = BTreeMap::new();
            for line in made.csv.lines().skip(1) {
                let row: Vec<&str> = line.split(',').collect();
                let key = columns.iter().map(|&column| row[column]).collect();
                counts.entry(key).or_default()[usize::from(row[4] == "yes")] += 1.0;
            }
            counts.values().map(|c| c[0].max(c[1])).sum::<f64>() / 200_000.0
        };
        assert!((0.72..0.82).contains(&made.bayes_accuracy), "{}", made.bayes_accuracy);
        for column in 1..4 {
            assert!(best(&[column]) < made.bayes_accuracy - 0.1, "{column}: {}", best(&[column]));
        }
        // in sample, so a little above the truth
        let all = best(&[1, 2, 3]);
        assert!(all > made.bayes_accuracy && all < made.bayes_accuracy + 0.05, "{all}");
    }
}
