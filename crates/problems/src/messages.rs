//! Messages: rows that belong to two persons each, a sender and a recipient, of whom few are in very many and most in few; mixed columns, and a binary target from a
//! known logistic model. For models that protect every owner of a row.
//!
//! Persons are drawn with weights whose tail falls like 1/x^1.5, sender and recipient alike, so that who writes to whom is a power-law graph. Each person has ways of
//! their own: a third of the variance of every column's normal score is the sender's, and a sixth the recipient's.
//!
//! Deterministic: every machine writes the same bytes.

use crate::census::Term;
use crate::draws::{Draws, quantile};

/// A generated table of messages with its public facts and its truth.
#[derive(Clone, Debug, PartialEq)]
pub struct Messages {
    /// The table as CSV with a header: `sender`, `recipient`, six features and the target `answered`, classes `no` and `yes`. Nobody writes to themselves.
    pub csv: String,
    /// The `bounds.toml` of the table: ranges and levels as a codebook would state them, not read off the rows; `sender` and `recipient` are no features (`ignore`).
    pub bounds: String,
    /// The true log-odds of `yes`. Terms not listed are zero.
    pub truth: Vec<Term>,
    /// Mean over the rows of max(p, 1-p): the accuracy of the true model, which no classifier exceeds in expectation.
    pub bayes_accuracy: f64,
}

const CHANNEL: [(&str, f64); 3] = [("mail", 0.5), ("chat", 0.35), ("forum", 0.15)];
const TOPIC: [(&str, f64); 6] =
    [("question", 0.30), ("news", 0.22), ("meeting", 0.18), ("greeting", 0.14), ("invoice", 0.10), ("advert", 0.06)];

const TRUTH: [Term; 10] = [
    Term { name: "(intercept)", coefficient: 0.2 },
    Term { name: "ln(words)-4", coefficient: -0.6 },
    Term { name: "links-1", coefficient: -0.5 },
    Term { name: "warmth", coefficient: 1.6 },
    Term { name: "(hour-13)/4", coefficient: -0.4 },
    Term { name: "channel=chat", coefficient: 0.9 },
    Term { name: "channel=forum", coefficient: -0.8 },
    Term { name: "topic=question", coefficient: 1.3 },
    Term { name: "topic=news", coefficient: -1.4 },
    Term { name: "topic=advert", coefficient: -2.0 },
];

/// Number of features.
const FEATURES: usize = 6;
/// Share of the variance of a score that the sender has.
const SENDERS: f64 = 1.0 / 3.0;
const RECIPIENTS: f64 = 1.0 / 6.0;
/// The tail of a person's weight falls like 1/x to this power.
const TAIL: f64 = 1.5;

/// One row without its persons and its label.
struct Message {
    channel: &'static str,
    topic: &'static str,
    hour: f64,
    words: f64,
    links: f64,
    warmth: f64,
}

impl Message {
    /// Each column's inverse law at its normal score.
    fn at(scores: &[f64; FEATURES]) -> Self {
        let share = |score: f64| 0.5 * libm::erfc(-score * std::f64::consts::FRAC_1_SQRT_2);
        let [channel, topic, hour, words, links, warmth] = *scores;
        Self {
            channel: quantile(&CHANNEL, share(channel)),
            topic: quantile(&TOPIC, share(topic)),
            hour: (13.0 + 4.0 * hour).round().clamp(0.0, 23.0),
            words: libm::exp(4.0 + 0.9 * words).round().clamp(1.0, 2000.0),
            links: (-libm::log(1.0 - 0.999 * share(links))).round().min(9.0),
            warmth: ((2.0 * share(warmth) - 1.0) * 100.0).round() / 100.0,
        }
    }

    fn log_odds(&self) -> f64 {
        let value = |term: &str| match term {
            "(intercept)" => 1.0,
            "ln(words)-4" => libm::log(self.words) - 4.0,
            "links-1" => self.links - 1.0,
            "warmth" => self.warmth,
            "(hour-13)/4" => (self.hour - 13.0) / 4.0,
            level => {
                let given = [("channel", self.channel), ("topic", self.topic)];
                f64::from(u8::from(given.iter().any(|pair| level.split_once('=') == Some(*pair))))
            }
        };
        TRUTH.iter().map(|term| term.coefficient * value(term.name)).sum()
    }
}

/// `rows` messages among `units` persons, from `seed`; another seed gives other persons of the same law.
///
/// # Panics
/// If there are fewer than two persons.
///
/// ```
/// let messages = dpopt_problems::messages(50, 400, 1);
/// assert_eq!(messages.csv.lines().count(), 401);
/// ```
pub fn messages(units: usize, rows: usize, seed: u64) -> Messages {
    assert!(units >= 2, "a message has two persons");
    let mut draw = Draws::from_seed(seed);
    let ways: Vec<[f64; FEATURES]> = (0..units).map(|_| std::array::from_fn(|_| draw.normal())).collect();
    let cumulated: Vec<f64> = (0..units)
        .scan(0.0, |sum, _| {
            *sum += libm::pow(1.0 - draw.uniform(), -1.0 / TAIL);
            Some(*sum)
        })
        .collect();
    let total = cumulated[units - 1];
    let person = |draw: &mut Draws| {
        let at = draw.uniform() * total;
        cumulated.partition_point(|sum| *sum <= at).min(units - 1)
    };
    let digits = (units - 1).to_string().len().max(6);
    let mut csv = String::with_capacity(56 * rows);
    csv.push_str("sender,recipient,channel,topic,hour,words,links,warmth,answered\n");
    let mut best = 0.0;
    for _ in 0..rows {
        let from = person(&mut draw);
        // one of the others: the next one where the draw is the sender
        let to = Some(person(&mut draw)).filter(|to| *to != from).unwrap_or((from + 1) % units);
        let own = libm::sqrt(1.0 - SENDERS - RECIPIENTS);
        let scores = std::array::from_fn(|j| {
            libm::sqrt(SENDERS) * ways[from][j] + libm::sqrt(RECIPIENTS) * ways[to][j] + own * draw.normal()
        });
        let message = Message::at(&scores);
        let p = 1.0 / (1.0 + libm::exp(-message.log_odds()));
        best += p.max(1.0 - p);
        let answered = if draw.uniform() < p { "yes" } else { "no" };
        let Message { channel, topic, hour, words, links, warmth } = message;
        csv.push_str(&format!(
            "p{from:0digits$},p{to:0digits$},{channel},{topic},{hour},{words},{links},{warmth},{answered}\n"
        ));
    }
    Messages { csv, bounds: bounds(), truth: TRUTH.to_vec(), bayes_accuracy: best / rows.max(1) as f64 }
}

/// The codebook as a bounds file.
fn bounds() -> String {
    let mut text = String::from(
        "# Public facts about the table, from its codebook and not from its rows.\n\n[sender]\nignore = true\n\n[recipient]\nignore = true\n",
    );
    for (column, lower, upper) in [("hour", 0, 23), ("words", 1, 2000), ("links", 0, 9), ("warmth", -1, 1)] {
        text.push_str(&format!("\n[{column}]\nlower = {lower}\nupper = {upper}\n"));
    }
    let names = |table: &[(&'static str, f64)]| table.iter().map(|entry| entry.0).collect::<Vec<_>>();
    for (column, levels) in [("channel", names(&CHANNEL)), ("topic", names(&TOPIC)), ("answered", vec!["no", "yes"])] {
        text.push_str(&format!("\n[{column}]\nlevels = [\"{}\"]\n", levels.join("\", \"")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_data::{BadCells, Encoder, Format, ReadOptions, RowOwners, Schema, open_bytes};

    #[test]
    fn every_machine_writes_the_same_bytes() {
        // FNV-1a, 64 bits
        let hash = |text: &str| {
            text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
        };
        assert_eq!(hash(&messages(40, 400, 7).csv), 0xd4e7_22a2_0b4a_e96c);
        assert_eq!(messages(40, 400, 7), messages(40, 400, 7));
        assert_ne!(messages(40, 400, 7).csv, messages(40, 400, 8).csv);
    }

    #[test]
    fn its_bounds_fit_its_persons_are_no_features_and_few_have_many_rows() {
        let made = messages(1_000, 8_000, 3);
        let table = open_bytes(made.csv.clone().into_bytes(), Format::Csv, &ReadOptions::default()).unwrap();
        let layout = Schema::from_toml(&made.bounds).unwrap().resolve(table.columns(), Some("answered")).unwrap();
        assert!(layout.undeclared.is_empty() && layout.unbounded().is_empty());
        assert_eq!(layout.ignored, ["sender", "recipient"]);
        let encoder = Encoder::new(&layout).unwrap();
        let examples = encoder.encode_public(&*table, BadCells::Error).unwrap();
        assert!(examples.rows.len() == 8_000 && examples.targets.iter().all(|t| t.abs() == 1.0));
        let names: Vec<String> = (0..encoder.dimension()).map(|i| encoder.feature_name(i).unwrap()).collect();
        let other = |i: usize| examples.rows.row(i).0.iter().any(|&c| names[c as usize].ends_with("=(other)"));
        assert!(!(0..8_000).any(other), "a level that the codebook does not have");
        let owners = RowOwners::read_all(&*table, &["sender", "recipient"]).unwrap();
        let (most, mean) = owners.rows_of_a_unit().unwrap();
        assert!(most as f64 > 15.0 * mean && (14.0..18.5).contains(&mean), "{most} {mean}");
        assert!(made.csv.lines().skip(1).all(|line| line[..7] != line[8..15]), "nobody writes to themselves");
    }

    #[test]
    fn labels_come_from_the_truth_that_is_returned() {
        let made = messages(500, 20_000, 11);
        let rows: Vec<Vec<&str>> = made.csv.lines().skip(1).map(|line| line.split(',').collect()).collect();
        let value = |term: &str, row: &[&str]| -> f64 {
            let number = |j: usize| row[j].parse::<f64>().unwrap();
            match term {
                "(intercept)" => 1.0,
                "ln(words)-4" => number(5).ln() - 4.0,
                "links-1" => number(6) - 1.0,
                "warmth" => number(7),
                "(hour-13)/4" => (number(4) - 13.0) / 4.0,
                level => match level.split_once('=').unwrap() {
                    ("channel", name) => f64::from(u8::from(row[2] == name)),
                    ("topic", name) => f64::from(u8::from(row[3] == name)),
                    other => panic!("no column for {other:?}"),
                },
            }
        };
        let p: Vec<f64> = rows
            .iter()
            .map(|row| made.truth.iter().map(|term| term.coefficient * value(term.name, row)).sum::<f64>())
            .map(|log_odds| 1.0 / (1.0 + (-log_odds).exp()))
            .collect();
        let best = p.iter().map(|p| p.max(1.0 - p)).sum::<f64>() / rows.len() as f64;
        assert!((best - made.bayes_accuracy).abs() < 1e-9 && (0.7..0.85).contains(&best), "{best}");
        // the gradient of the likelihood at the truth is zero but for noise: six standard deviations, a false alarm of 2e-9 each
        for term in &made.truth {
            let (mut gradient, mut variance) = (0.0, 0.0);
            for (row, p) in rows.iter().zip(&p) {
                let (x, y) = (value(term.name, row), f64::from(u8::from(row[8] == "yes")));
                gradient += (y - p) * x;
                variance += x * x * p * (1.0 - p);
            }
            assert!(gradient.abs() < 6.0 * variance.sqrt(), "{}: {gradient} {variance}", term.name);
        }
    }
}
