//! Lines of Shakespeare's speakers: does a line end with a question mark? From its words, without punctuation; a speaker is a unit.

use super::fits::{Encoded, Scores};
use super::shown::Shown;
use crate::{Failure, Lab, Table, Trial};
use dpopt::noise::{NoiseSource, Purpose};
use dpopt::report::chart::Chart;
use serde::Serialize;
use std::collections::BTreeMap;

const DELTA: f64 = 1e-4;
const BOUNDS: &str =
    "[speaker]\nignore = true\n[line]\ntext = true\n[question]\nlevels = [\"no\", \"yes\"]\n[dpopt]\ntext_bits = 12\n";

#[derive(Clone, Serialize)]
struct Setting {
    epsilon: f64,
    bounds: Vec<u64>,
}

/// What speakers add to the entry.
pub(super) struct Part {
    pub(super) table: Table,
    pub(super) chart: Chart,
    pub(super) note: String,
}

/// Words of each speaker's lines, and whether the line ends with a question mark.
type Lines = BTreeMap<String, Vec<(String, bool)>>;

fn read(text: &str) -> Lines {
    let mut lines = Lines::new();
    let mut speaker: Option<&str> = None;
    for line in text.lines().map(str::trim) {
        match (speaker, line.strip_suffix(':')) {
            _ if line.is_empty() => speaker = None,
            (None, name) => speaker = name,
            (Some(name), _) => {
                let letters = |c: char| if c.is_alphabetic() || c == '\'' { c.to_ascii_lowercase() } else { ' ' };
                let words: String = line.chars().map(letters).collect();
                let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
                lines.entry(name.into()).or_default().push((words, line.ends_with('?')));
            }
        }
    }
    lines
}

fn table<'a>(speakers: impl IntoIterator<Item = (&'a String, &'a Vec<(String, bool)>)>) -> Result<Encoded, Failure> {
    let mut csv = String::from("speaker,line,question\n");
    let mut units = 0;
    for (speaker, lines) in speakers {
        units += 1;
        for (words, question) in lines {
            csv.push_str(&format!("\"{speaker}\",{words},{}\n", if *question { "yes" } else { "no" }));
        }
    }
    Encoded::new(csv, BOUNDS, "speaker", units, "question")
}

/// Probability that a row of the second class has the larger score of two, ties counted half.
fn auc(scored: impl Iterator<Item = (f64, f64)>) -> f64 {
    let mut all: Vec<(f64, f64)> = scored.collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut below, mut won, mut positives) = (0.0, 0.0, 0.0);
    for ties in all.chunk_by(|a, b| a.0 == b.0) {
        let yes = ties.iter().filter(|row| row.1 > 0.0).count() as f64;
        let no = ties.len() as f64 - yes;
        won += yes * (below + 0.5 * no);
        (below, positives) = (below + no, positives + yes);
    }
    won / (below * positives)
}

/// Models of 70 % of the speakers, tested on the others.
fn measure(lines: &Lines, setting: &Setting, trial: Trial) -> Result<Scores, Failure> {
    let mut speakers: Vec<_> = lines.iter().collect();
    NoiseSource::insecure(trial.shared_seed).stream(Purpose::Split, 0).shuffle(&mut speakers);
    let test = speakers.split_off(speakers.len() * 7 / 10);
    let (train, test) = (table(speakers)?, table(test)?);
    train.scores(setting.epsilon, DELTA, &setting.bounds, trial, |weights| auc(test.scored(weights)))
}

pub(super) fn run(lab: &Lab) -> Result<Part, Failure> {
    let path = lab.data("tinyshakespeare/input.txt", "the text of char-rnn's tinyshakespeare")?;
    let text = std::fs::read_to_string(&path).map_err(|why| Failure::File { path: path.display().to_string(), why })?;
    let lines = read(&text);
    let epsilons = lab.pick(vec![4.0], vec![0.5, 1.0, 2.0, 4.0]);
    let bounds: Vec<u64> = lab.pick(vec![10], vec![1, 10, 100]);
    let repeats = lab.pick(1, 5);
    lab.setting("speakers, their lines", [lines.len(), lines.values().map(Vec::len).sum()])?;
    lab.setting("speakers: delta (zero-out)", DELTA)?;
    lab.setting("speakers: splits", repeats)?;
    let settings: Vec<Setting> = epsilons.iter().map(|&epsilon| Setting { epsilon, bounds: bounds.clone() }).collect();
    let results = lab.trials("speakers", &settings, repeats, |setting, trial| measure(&lines, setting, trial))?;
    let shown = Shown { epsilons: &epsilons, bounds: &bounds, results: &results, units: "speakers" };
    let [per_unit, group, per_row] = shown.at(epsilons.len() - 1);
    let note = format!(
        "Speakers: {} of them in tinyshakespeare, 70 % to learn from; at ε = {} the AUC is {:.3} ± {:.3} per unit, {:.3} by group privacy at its best bound, \
         and {:.3} where rows are protected and speakers are not. A few hundred units of very different sizes are too few: not judged; group privacy has the better of two methods, chosen on the lines to test on.",
        lines.len(),
        epsilons.last().copied().unwrap_or(f64::NAN),
        per_unit.mean,
        per_unit.standard_error(),
        group.mean,
        per_row.mean,
    );
    let panel = shown.panel("does a line end with a question mark?", "AUC").level("nothing learned", 0.5);
    Ok(Part { table: shown.table("speakers", "AUC"), chart: Chart::of([panel]), note })
}
