//! What a figure of a paper is, and what computing it again gives.

use crate::failure::Failure;
use crate::lab::Lab;
use dpopt::report::chart::Chart;
use dpopt::report::number;
use serde::{Deserialize, Serialize};

/// How closely the computation follows its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fidelity {
    /// Same data law, algorithm and settings.
    AsPublished,
    /// As published but for a named error of the source.
    Corrected(&'static str),
    /// The source's question on data or a model that can be had here.
    StandIn(&'static str),
    /// A prediction of the theory that the source does not plot.
    Theory,
}

impl std::fmt::Display for Fidelity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fidelity::AsPublished => write!(f, "as published"),
            Fidelity::Corrected(what) => write!(f, "corrected: {what}"),
            Fidelity::StandIn(what) => write!(f, "stand-in: {what}"),
            Fidelity::Theory => write!(f, "the theory's prediction"),
        }
    }
}

/// One table or figure.
pub struct Entry {
    /// Name on the command line: lower case, with hyphens.
    pub name: &'static str,
    /// Paper and number of the figure or table.
    pub source: &'static str,
    /// What it shows, in one line.
    pub shows: &'static str,
    /// How closely this follows the source.
    pub fidelity: Fidelity,
    /// Raise it when the code of a trial changes: kept trials of other revisions are not used.
    pub revision: u32,
    /// Computes the entry's tables and charts.
    pub run: fn(&Lab) -> Result<Outcome, Failure>,
}

/// Whether what the source says was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Holds {
    /// What the source says was seen.
    Yes,
    /// Some of what the source says was seen.
    InPart,
    /// What the source says was not seen.
    No,
    /// A short run: too little to judge.
    NotJudged,
}

impl std::fmt::Display for Holds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Holds::Yes => "reproduced",
            Holds::InPart => "in part",
            Holds::No => "not reproduced",
            Holds::NotJudged => "short run, not judged",
        })
    }
}

/// What the computation says about the source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// Whether the source's claim was seen.
    pub holds: Holds,
    /// One sentence with the decisive numbers.
    pub sentence: String,
}

impl Verdict {
    /// `Yes` if all checks passed, `No` if none did.
    pub fn of_checks(checks: &[Compared], sentence: impl Into<String>) -> Self {
        let judged: Vec<bool> = checks.iter().filter_map(|c| c.agrees).collect();
        let passed = judged.iter().filter(|a| **a).count();
        let holds = match passed {
            n if n == judged.len() => Holds::Yes,
            0 => Holds::No,
            _ => Holds::InPart,
        };
        Self { holds, sentence: sentence.into() }
    }
}

/// A reported value beside ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compared {
    /// The quantity that is compared.
    pub what: String,
    /// As the source or the theory states it.
    pub reported: String,
    /// What was computed here.
    pub ours: String,
    /// Whether they agree, where that can be judged by a rule fixed before the run.
    pub agrees: Option<bool>,
}

impl Compared {
    /// A value that must lie in a range.
    pub fn within(what: impl Into<String>, range: std::ops::RangeInclusive<f64>, ours: f64) -> Self {
        Self {
            what: what.into(),
            reported: format!("{} to {}", number(*range.start()), number(*range.end())),
            ours: number(ours),
            agrees: Some(range.contains(&ours)),
        }
    }

    /// A reported value that ours must meet up to `tolerance`.
    pub fn near(what: impl Into<String>, reported: f64, ours: f64, tolerance: f64) -> Self {
        Self {
            what: what.into(),
            reported: format!("{} ± {}", number(reported), number(tolerance)),
            ours: number(ours),
            agrees: Some((ours - reported).abs() <= tolerance),
        }
    }
}

/// A table of texts and numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// File name without ending.
    pub name: String,
    /// Headings of the columns, with units.
    pub columns: Vec<String>,
    /// One text per heading.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub fn new<const N: usize>(name: impl Into<String>, columns: [&str; N]) -> Self {
        Self { name: name.into(), columns: columns.map(String::from).to_vec(), rows: Vec::new() }
    }

    /// Adds a row; one text per heading.
    pub fn row(&mut self, row: impl IntoIterator<Item = String>) {
        let row: Vec<String> = row.into_iter().collect();
        debug_assert_eq!(row.len(), self.columns.len());
        self.rows.push(row);
    }
}

/// A number as a table shows it: seven significant digits.
pub fn cell(x: f64) -> String {
    if x == 0.0 || !x.is_finite() {
        return format!("{x}");
    }
    let digits = (6.0 - x.abs().log10().floor()).clamp(0.0, 12.0) as usize;
    if x.abs() < 1e-6 { format!("{x:.6e}") } else { format!("{x:.digits$}") }
}

impl Outcome {
    /// The outcome of a short run: the same numbers without a judgement.
    pub fn not_judged(mut self) -> Self {
        self.verdict.holds = Holds::NotJudged;
        self.compared.iter_mut().for_each(|c| c.agrees = None);
        self
    }
}

/// What a run gives.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The numbers behind the charts.
    pub tables: Vec<Table>,
    /// File name without ending, and the chart.
    pub charts: Vec<(String, Chart)>,
    /// Reported values beside ours.
    pub compared: Vec<Compared>,
    /// What the reader should know: errors of the source, what was not accounted for.
    pub notes: Vec<String>,
    /// Whether what the source says was seen, and why.
    pub verdict: Verdict,
}
