//! Known faults of earlier versions, from a list that ships with the program: which files they concern, and what follows for them.
//!
//! A file does not always say enough to tell whether it is concerned; then it *may* be, and the reasons are given. What is found depends on the file and
//! the list alone, never on a record.
//!
//! ```
//! use dpopt::recall::{Facts, Recalls};
//!
//! let newer = r#"
//! format = "dpopt-recalls"
//! version = 1
//! date = "2027-01-10"
//!
//! [[recall]]
//! id = "DPOPT-2027-001"
//! date = "2027-01-09"
//! summary = "An invented fault."
//! follows = "Fit the model again."
//! effect = "understated"
//! files = ["model", "estimate"]
//! versions = "<0.3.0"
//! relations = ["zero-out"]
//! "#;
//! let recalls = Recalls::shipped().renewed_by(Recalls::from_toml(newer)?);
//! assert!(recalls.all().iter().any(|recall| recall.id == "DPOPT-2027-001"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod facts;
mod pattern;
mod predicate;
mod written;

use dpopt_data::{failure, listed};
use dpopt_optimize::plan::Grade;
use dpopt_privacy::ledger::Status;
use dpopt_privacy::rounding::foreign;
use dpopt_privacy::{Relation, Unit};
use facts::FileKind;
use pattern::EventPattern;
use predicate::{Builds, Predicate};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fmt::{self, Display, Formatter};
use std::io::Read;
use std::path::Path;
use std::sync::OnceLock;
use thiserror::Error;
use written::{Day, VersionRange};

pub use facts::Facts;
pub use predicate::Doubt;

/// The list that ships with this version.
const SHIPPED: &str = include_str!("../recalls.toml");
/// First field of a list.
const FORMAT: &str = "dpopt-recalls";
/// Raised when a field changes its meaning or a new condition comes.
const VERSION: i64 = 1;
/// Most bytes of a list: some thousand recalls.
const LARGEST: u64 = 1 << 21;
/// Most characters of a sentence.
const LONGEST: usize = 500;

/// What a fault changes of a guarantee.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Effect {
    /// The run cost more than the file states.
    Understated,
    /// The numbers hold, at a lower grade than the file states.
    Grade,
    /// Nothing that anybody has to act on.
    None,
}

/// A known fault: what it was, and what follows for files that were made with it.
#[derive(Clone, Debug)]
pub struct Recall {
    /// Its name, `DPOPT-2026-001`.
    pub id: String,
    /// The day on which it was made known.
    pub date: String,
    /// The fault, in one sentence.
    pub summary: String,
    /// What to do, in one sentence or two.
    pub follows: String,
    /// What it changes of a guarantee.
    pub effect: Effect,
    /// Accounting the events of a file anew finds out whether it is concerned.
    pub settled_by_accounting: bool,
    concerns: Predicate,
}

/// Whether a file is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Concern {
    /// It says all that the recall asks for.
    Certain,
    /// It says nothing against it, but not all; with what it leaves open.
    Possible(Vec<Doubt>),
}

impl Concern {
    fn of(doubts: Vec<Doubt>) -> Self {
        if doubts.is_empty() { Self::Certain } else { Self::Possible(doubts) }
    }

    /// Adds to a JSON object what this says.
    fn write_to(&self, document: &mut Value) {
        let (word, doubts) = match self {
            Self::Certain => ("certain", &[][..]),
            Self::Possible(doubts) => ("possible", &doubts[..]),
        };
        document["concern"] = word.into();
        document["reasons"] = doubts.iter().map(Doubt::to_string).collect();
    }
}

/// A recall that concerns a file, or may.
#[derive(Clone, Debug)]
pub struct Notice<'a> {
    /// The known fault.
    pub recall: &'a Recall,
    /// Whether it certainly concerns the file.
    pub concern: Concern,
}

/// A recall that concerns charges of a ledger, or may.
#[derive(Clone, Debug)]
pub struct LedgerNotice<'a> {
    /// The known fault.
    pub recall: &'a Recall,
    /// Numbers of the charges, from 1, and whether each is certainly concerned.
    pub charges: Vec<(usize, Concern)>,
}

/// A list of recalls, in the order of their names.
#[derive(Clone, Debug)]
pub struct Recalls {
    date: Day,
    all: Vec<Recall>,
}

/// Why a list of recalls is not used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RecallError {
    /// The file cannot be read.
    #[error("cannot read {path}: {reason}; check the path and its permissions")]
    Unreadable {
        /// The path as it was given.
        path: String,
        /// What the operating system says.
        reason: String,
    },
    /// A file of something else.
    #[error("not a list of recalls: {why}; a list is a TOML file that begins with format = \"dpopt-recalls\"")]
    NotAList {
        /// What is wrong with it.
        why: String,
    },
    /// A list of a later form.
    #[error("the list of recalls has version {found}, and this program reads version 1; update dpopt")]
    Later {
        /// The version in the list.
        found: i64,
    },
    /// A list with a wrong entry: it is refused as a whole.
    #[error("the list of recalls is damaged: {why}; get it again from the repository")]
    Damaged {
        /// What is wrong with it, and where.
        why: String,
    },
}

/// A list as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenList {
    #[serde(rename = "format")]
    _format: String,
    #[serde(rename = "version")]
    _version: i64,
    date: Day,
    #[serde(default)]
    recall: Vec<WrittenRecall>,
}

/// A recall as it is written: its conditions stand beside its words.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenRecall {
    id: String,
    date: Day,
    summary: String,
    follows: String,
    effect: Effect,
    #[serde(default)]
    settled_by_accounting: bool,
    files: Vec<FileKind>,
    versions: Option<VersionRange>,
    builds: Option<Builds>,
    relations: Option<Vec<Relation>>,
    units: Option<Vec<Unit>>,
    unit_is_named: Option<bool>,
    grades: Option<Vec<Grade>>,
    methods: Option<Vec<String>>,
    answers: Option<Vec<String>>,
    events: Option<Vec<EventPattern>>,
    unknown: Option<String>,
}

impl WrittenRecall {
    fn checked(self) -> Result<Recall, String> {
        let Self { versions, builds, relations, units, unit_is_named, grades, methods, answers, events, .. } = self;
        let concerns = Predicate {
            files: self.files,
            versions,
            builds,
            relations,
            units,
            unit_is_named,
            grades,
            methods,
            answers,
            events,
            unknown: self.unknown,
        };
        concerns.check()?;
        let digits = |text: &str, count: usize| text.len() == count && text.bytes().all(|b| b.is_ascii_digit());
        match self.id.split('-').collect::<Vec<_>>()[..] {
            ["DPOPT", year, number] if digits(year, 4) && digits(number, 3) => {}
            _ => return Err("its id is not of the form DPOPT-2026-001".into()),
        }
        let unknown = concerns.unknown.iter();
        if [&self.summary, &self.follows].into_iter().chain(unknown).any(|text| {
            let length = text.chars().count();
            length == 0 || length > LONGEST || *text != foreign(text)
        }) {
            return Err(format!("a text of it is empty, longer than {LONGEST} characters or not on one line"));
        }
        Ok(Recall {
            id: self.id,
            date: self.date.as_str().into(),
            summary: self.summary,
            follows: self.follows,
            effect: self.effect,
            settled_by_accounting: self.settled_by_accounting,
            concerns,
        })
    }
}

impl Recalls {
    /// The list that ships with this version.
    pub fn shipped() -> Self {
        static READ: OnceLock<Recalls> = OnceLock::new();
        // a test reads it
        READ.get_or_init(|| Self::from_toml(SHIPPED).unwrap_or_else(|e| panic!("the list that ships: {e}"))).clone()
    }

    /// The list in a file, with what only the shipped one has; of a recall in both counts what the list of the later day says.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, RecallError> {
        let path = path.as_ref();
        let unreadable = |e: std::io::Error| RecallError::Unreadable {
            path: foreign(&path.display().to_string()),
            reason: failure(&e),
        };
        // a device may have no end
        let file = std::fs::File::open(path).map_err(unreadable)?;
        let mut bytes = Vec::new();
        file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        if bytes.len() as u64 > LARGEST {
            return Err(RecallError::NotAList { why: "it is too large".into() });
        }
        let text = String::from_utf8(bytes).map_err(|_| RecallError::NotAList { why: "it is not UTF-8".into() })?;
        Ok(Self::shipped().renewed_by(Self::from_toml(&text)?))
    }

    /// Reads the text of a list. A field or a word that is not known is an error.
    pub fn from_toml(text: &str) -> Result<Self, RecallError> {
        // without the parser's words, which quote the file: it may be a table
        let not_a_list = |why: &str| RecallError::NotAList { why: why.into() };
        let mark: toml::Table = text.parse().map_err(|_| not_a_list("it is not TOML"))?;
        if mark.get("format").and_then(toml::Value::as_str) != Some(FORMAT) {
            return Err(not_a_list("it has another format"));
        }
        match mark.get("version").and_then(toml::Value::as_integer) {
            Some(VERSION) => {}
            Some(found) => return Err(RecallError::Later { found }),
            None => return Err(RecallError::Damaged { why: "it has no version".into() }),
        }
        let list: WrittenList = toml::from_str(text).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start));
            let line = before.map_or(String::new(), |text| format!("line {}: ", text.matches('\n').count() + 1));
            let words: String = error.message().chars().take(LONGEST).collect();
            RecallError::Damaged { why: line + &foreign(&words) }
        })?;
        let mut all: Vec<Recall> = Vec::new();
        for written in list.recall {
            let id: String = foreign(&written.id).chars().take(40).collect();
            let recall = written.checked().map_err(|why| RecallError::Damaged { why: format!("{id}: {why}") })?;
            if all.last().is_some_and(|last| last.id >= recall.id) {
                return Err(RecallError::Damaged { why: format!("{id} stands twice, or before an earlier one") });
            }
            all.push(recall);
        }
        Ok(Self { date: list.date, all })
    }

    /// Both lists together: of a recall in both, what the list of the later day says; of lists of one day, what `other` says.
    pub fn renewed_by(self, other: Self) -> Self {
        let (older, newer) = if other.date >= self.date { (self, other) } else { (other, self) };
        let kept = older.all.into_iter().filter(|recall| newer.all.iter().all(|newer| newer.id != recall.id));
        let mut all: Vec<Recall> = kept.chain(newer.all.iter().cloned()).collect();
        all.sort_by(|a, b| a.id.cmp(&b.id));
        Self { date: newer.date, all }
    }

    /// The day of the list, `2026-11-29`; of lists that were put together, that of the latest.
    pub fn date(&self) -> &str {
        self.date.as_str()
    }

    /// All recalls, in the order of their names.
    pub fn all(&self) -> &[Recall] {
        &self.all
    }

    /// The recalls that concern a file, or may.
    pub fn of(&self, facts: &Facts) -> Vec<Notice<'_>> {
        let notice = |recall: &'_ Recall| recall.concerns.doubts(facts).map(Concern::of);
        self.all.iter().filter_map(|recall| Some(Notice { recall, concern: notice(recall)? })).collect()
    }

    /// The recalls that concern charges of a ledger, or may.
    pub fn of_ledger(&self, status: &Status) -> Vec<LedgerNotice<'_>> {
        let facts: Vec<(usize, Facts)> =
            status.charges.iter().map(|charge| (charge.number, Facts::of_charge(&status.purpose, charge))).collect();
        let charges = |recall: &Recall| -> Vec<(usize, Concern)> {
            let concern =
                |(number, facts): &(usize, Facts)| Some((*number, Concern::of(recall.concerns.doubts(facts)?)));
            facts.iter().filter_map(concern).collect()
        };
        let notices = self.all.iter().map(|recall| LedgerNotice { recall, charges: charges(recall) });
        notices.filter(|notice| !notice.charges.is_empty()).collect()
    }
}

impl Recall {
    fn document(&self) -> Value {
        json!({ "id": self.id, "effect": self.effect, "summary": self.summary, "follows": self.follows })
    }

    /// The fault and what follows, as sentences.
    fn sentences(&self) -> String {
        format!("{} What follows: {}", foreign(&self.summary), foreign(&self.follows))
    }
}

impl Notice<'_> {
    /// Whether the file certainly cost more than it states.
    pub fn refutes(&self) -> bool {
        self.concern == Concern::Certain && self.recall.effect == Effect::Understated
    }

    /// The notice as JSON: `id`, `concern` (`certain` or `possible`), `reasons`, `effect`, `summary`, `follows`.
    pub fn document(&self) -> Value {
        let mut document = self.recall.document();
        self.concern.write_to(&mut document);
        document
    }
}

/// `recall DPOPT-2026-001 (may concern this file: it does not name its method): …`.
impl Display for Notice<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let concern = match &self.concern {
            Concern::Certain => "concerns this file".to_string(),
            Concern::Possible(doubts) => format!("may concern this file: {}", reasons(doubts)),
        };
        write!(f, "recall {} ({concern}): {}", self.recall.id, self.recall.sentences())
    }
}

fn reasons(doubts: &[Doubt]) -> String {
    doubts.iter().map(|doubt| foreign(&doubt.to_string())).collect::<Vec<_>>().join(", ")
}

impl LedgerNotice<'_> {
    /// Whether all that may be concerned was charged after the fix, so that an older program had to be in use.
    pub fn only_after_fix(&self) -> bool {
        self.charges.iter().all(|(_, concern)| after_fix(concern))
    }

    /// The notice as JSON: `id`, `effect`, `summary`, `follows`, and `charges` with `number`, `concern` and `reasons`.
    pub fn document(&self) -> Value {
        let charge = |(number, concern): &(usize, Concern)| {
            let mut document = json!({ "number": number });
            concern.write_to(&mut document);
            document
        };
        let mut document = self.recall.document();
        document["charges"] = self.charges.iter().map(charge).collect();
        document
    }
}

fn after_fix(concern: &Concern) -> bool {
    matches!(concern, Concern::Possible(doubts) if doubts.contains(&Doubt::AfterFix))
}

/// `recall DPOPT-2026-002 (concerns charge 1; may concern charges 2, 3): …`; charges after the fix stand in [`LedgerNotice::document`] alone.
impl Display for LedgerNotice<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let numbers = |certain: bool| {
            let wanted = |concern: &Concern| (*concern == Concern::Certain) == certain && !after_fix(concern);
            let all: Vec<String> =
                self.charges.iter().filter(|(_, c)| wanted(c)).map(|(number, _)| number.to_string()).collect();
            let word = if all.len() == 1 { "charge" } else { "charges" };
            (!all.is_empty()).then(|| format!("{word} {}", listed(&all)))
        };
        let open = self.charges.iter().find_map(|(_, concern)| match concern {
            Concern::Possible(doubts) if !after_fix(concern) => Some(reasons(doubts)),
            _ => None,
        });
        let parts = [
            numbers(true).map(|charges| format!("concerns {charges}")),
            numbers(false).zip(open).map(|(charges, why)| format!("may concern {charges}: {why}")),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        write!(f, "recall {} ({}): {}", self.recall.id, parts.join("; "), self.recall.sentences())
    }
}

#[cfg(test)]
mod tests;
