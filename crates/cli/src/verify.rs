//! `dpopt verify`: the guarantee of a released file, accounted anew from the events in it.

use crate::output::{Failure, print, print_json, table};
use crate::recalls::RecallFlags;
use crate::usage;
use clap::Args;
use dpopt::data::failure;
use dpopt::model::{Guarantee, Recomputed};
use dpopt::recall::{Facts, Notice, Recalls};
use dpopt::report::probability;
use dpopt_privacy::ledger::Receipt;
use dpopt_privacy::rounding::{foreign, probability_up};
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Models, reports (.json), means or aggregates (.json)
    #[arg(required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    recalls: RecallFlags,
    /// Machine-readable output
    #[arg(long)]
    json: bool,
}

/// What a released file says of its guarantee, and of who paid for it.
#[derive(serde::Deserialize)]
pub(crate) struct Claim {
    pub(crate) guarantee: Guarantee,
    #[serde(default)]
    pub(crate) receipt: Option<Receipt>,
    /// What recalls are held against.
    #[serde(skip)]
    facts: Option<Facts>,
}

impl Claim {
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let unreadable = |why: &dyn std::fmt::Display| usage(format!("cannot read {}: {why}", path.display()));
        // a device may have no end, a pipe no beginning
        if !std::fs::metadata(path).map_err(|e| unreadable(&failure(&e)))?.is_file() {
            return Err(unreadable(&"it is not a regular file"));
        }
        let bytes = std::fs::read(path).map_err(|e| unreadable(&failure(&e)))?;
        // without the parser's words: the file may be anything
        let claim: Self = serde_json::from_slice(&bytes).map_err(|e| {
            let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
            let why = match extension.to_str() {
                Some("html" | "htm") => {
                    "is a page, which cannot be verified; give the model, or a report written as JSON (--report report.json)"
                }
                Some("json") if e.is_eof() => "is not complete JSON: it may be damaged; ask who made it for the original",
                _ => {
                    "has no guarantee that this version of dpopt can read; give a model, or a report or mean written as \
                     .json"
                }
            };
            usage(format!("{} {why}", path.display()))
        })?;
        Ok(Self { facts: Facts::of_release(&bytes), ..claim })
    }

    /// The recalls that concern the file, or may; what accounting finds out is settled where the guarantee holds.
    pub(crate) fn notices<'a>(&self, recalls: &'a Recalls, found: &Recomputed) -> Vec<Notice<'a>> {
        let mut notices = self.facts.as_ref().map_or(Vec::new(), |facts| recalls.of(facts));
        notices.retain(|notice| !(notice.recall.settled_by_accounting && found.faults.is_empty()));
        notices
    }
}

/// Said of what was made with a fixed seed.
pub(crate) const PREDICTABLE: &str =
    "made with a fixed seed (--insecure-seed): its noise is predictable, so that it has no privacy";

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let recalls = arguments.recalls.list()?;
    let mut documents = Vec::new();
    let mut text = String::new();
    let mut bad = Vec::new();
    for path in &arguments.files {
        let whole = Claim::read(path)?;
        let claim = &whole.guarantee;
        let mut found = claim.recompute();
        if claim.insecure_seed {
            found.faults.push(PREDICTABLE.into());
        }
        let notices = whole.notices(&recalls, &found);
        found.faults.extend(notices.iter().filter(|notice| notice.refutes()).map(Notice::to_string));
        let name = path.display().to_string();
        text.push_str(&shown(&name, claim, &found));
        text.push_str(&recalled(&notices, recalls.date()));
        documents.push(document(&name, claim, &found, &notices));
        if let Some(first) = found.faults.first() {
            bad.push(format!("{name} does NOT hold: {first}"));
        }
    }
    if arguments.json {
        print_json(&documents)?
    } else {
        print(&text)?
    }
    if bad.is_empty() { Ok(()) } else { Err(usage(bad.join("; "))) }
}

/// One line for each recall that is no fault already.
fn recalled(notices: &[Notice<'_>], date: &str) -> String {
    if notices.is_empty() {
        return format!("recalls: none in the list of {date}\n\n");
    }
    let lines = notices.iter().filter(|notice| !notice.refutes()).map(|notice| format!("{notice}\n"));
    lines.chain(["\n".to_string()]).collect()
}

fn shown(name: &str, claim: &Guarantee, found: &Recomputed) -> String {
    let rows: Vec<Vec<String>> = claim
        .stages
        .iter()
        .zip(&found.stages)
        .map(|(stage, bound)| {
            let (epsilon, accountant) = match bound {
                Ok(bound) => (format!("{:.6}", up(bound.upper)), bound.accountant.clone()),
                Err(why) => ("-".into(), why.clone()),
            };
            let stated = format!("{:.6}", up(stage.bound.upper));
            vec![stage.name.clone(), stage.epsilon.to_string(), probability(stage.delta), stated, epsilon, accountant]
        })
        .collect();
    let mut out = format!(
        "{name}: epsilon {}, delta {} per {}, {}\n",
        claim.epsilon,
        probability(claim.delta),
        foreign(claim.protected()),
        claim.relation
    );
    out.push_str(&table(
        &["stage", "#epsilon allowed", "#delta", "#epsilon stated", "#recomputed", "accountant"],
        &rows,
    ));
    if found.faults.is_empty() {
        out.push_str(&format!(
            "holds: the events cost epsilon {:.6} at delta {} together\nnot checked, only stated by the file:\n",
            up(found.epsilon),
            probability_up(found.delta),
        ));
        own_word(claim).iter().for_each(|word| out.push_str(&format!("- {word}\n")));
    } else {
        found.faults.iter().for_each(|fault| out.push_str(&format!("does NOT hold: {fault}\n")));
        out.push_str("do not rely on this file; if somebody changed it, its author has the original\n");
    }
    out
}

/// What no accountant can tell, of a file whose noise is said to be secret.
fn own_word(claim: &Guarantee) -> Vec<String> {
    let unit = foreign(claim.protected());
    let mut words = vec![
        "all that was released came from these events, and nothing else was released".into(),
        "the noise was secret (no fixed seed)".into(),
        format!("the noise was made to protect one {unit}, {}, and each person has only one {unit}", claim.relation),
        format!("the grade is {}", serde_json::json!(claim.grade).as_str().unwrap_or("unknown")),
    ];
    if claim.public_ownership {
        words.push("who owns which rows is public".into());
    }
    words
}

fn up(epsilon: f64) -> f64 {
    (epsilon * 1e6).ceil() / 1e6
}

fn document(name: &str, claim: &Guarantee, found: &Recomputed, notices: &[Notice<'_>]) -> serde_json::Value {
    let stages: Vec<serde_json::Value> = claim
        .stages
        .iter()
        .zip(&found.stages)
        .map(|(stage, bound)| {
            serde_json::json!({
                "name": stage.name, "epsilon_stated": stage.bound.upper,
                "epsilon": bound.as_ref().ok().map(|b| b.upper), "delta": stage.delta,
                "accountant": bound.as_ref().ok().map(|b| &b.accountant),
            })
        })
        .collect();
    serde_json::json!({
        "file": name, "holds": found.faults.is_empty(), "faults": found.faults, "epsilon_allowed": claim.epsilon,
        "protected": claim.protected(), "relation": claim.relation.to_string(),
        "own_word": own_word(claim), "delta_allowed": claim.delta, "epsilon": found.epsilon, "delta": found.delta, "stages": stages,
        "recalls": notices.iter().map(Notice::document).collect::<Vec<_>>(),
    })
}
