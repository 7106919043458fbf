//! `dpopt verify`: the guarantee of a released file, accounted anew from the events in it.

use crate::output::{Failure, print, print_json, table};
use crate::usage;
use clap::Args;
use dpopt::data::failure;
use dpopt::model::{Guarantee, Recomputed};
use dpopt::report::probability;
use dpopt_privacy::ledger::Receipt;
use dpopt_privacy::words::foreign;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Models, reports (.json), means or aggregates (.json)
    #[arg(required = true)]
    files: Vec<PathBuf>,
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
        serde_json::from_slice(&bytes).map_err(|_| {
            usage(format!(
                "{} holds no guarantee that this version of dpopt can read; give a model, or a report or mean written as .json",
                path.display()
            ))
        })
    }
}

/// Said of what was made with a fixed seed.
pub(crate) const PREDICTABLE: &str =
    "made with a fixed seed (--insecure-seed): its noise is predictable, so it has no privacy";

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut documents = Vec::new();
    let mut text = String::new();
    let mut bad = Vec::new();
    for path in &arguments.files {
        let claim = Claim::read(path)?.guarantee;
        let mut found = claim.recompute();
        if claim.insecure_seed {
            found.faults.push(PREDICTABLE.into());
        }
        let name = path.display().to_string();
        text.push_str(&shown(&name, &claim, &found));
        documents.push(document(&name, &claim, &found));
        if let Some(first) = found.faults.first() {
            bad.push(format!("{name}: {first}"));
        }
    }
    if arguments.json {
        print_json(&documents)?
    } else {
        print(&text)?
    }
    if bad.is_empty() { Ok(()) } else { Err(usage(bad.join("; "))) }
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
            "holds: the events cost epsilon {:.6} at delta {} together\nthe file's own word, not checked: {}\n\n",
            up(found.epsilon),
            probability(found.delta),
            own_word(claim).join("; ")
        ));
    } else {
        found.faults.iter().for_each(|fault| out.push_str(&format!("does not hold: {fault}\n")));
        out.push('\n');
    }
    out
}

/// What no accountant can tell, of a file whose noise is said to be secret.
fn own_word(claim: &Guarantee) -> Vec<String> {
    let unit = foreign(claim.protected());
    let mut words = vec![
        "that these events are all that was released, and what was released came from them".into(),
        "that noise came from secret coins and no fixed seed".into(),
        format!("that noise was made for one {unit}, {}, and that a person has one", claim.relation),
        format!("that the grade is {}", serde_json::json!(claim.grade).as_str().unwrap_or("unknown")),
    ];
    if claim.public_ownership {
        words.push("that who owns which rows may be known".into());
    }
    words
}

fn up(epsilon: f64) -> f64 {
    (epsilon * 1e6).ceil() / 1e6
}

fn document(name: &str, claim: &Guarantee, found: &Recomputed) -> serde_json::Value {
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
    })
}
