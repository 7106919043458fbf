//! `dpopt ledger`: a budget file read by people.

use crate::output::{Failure, print, print_json, table};
use crate::recalls::RecallFlags;
use crate::usage;
use crate::verify::{Claim, PREDICTABLE};
use clap::Args;
use dpopt::data::unit_name;
use dpopt::model::{Guarantee, Stage};
use dpopt::recall::{LedgerNotice, Notice, Recalls};
use dpopt::report::{number, probability, protected};
use dpopt_privacy::Event;
use dpopt_privacy::ledger::{Entry, Found, Ledger, LedgerError, Status};
use dpopt_privacy::rounding::foreign;
use std::io::ErrorKind;
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The ledger file, as given to `fit --ledger`
    file: PathBuf,
    /// Models, reports (.json) or means (.json): check that their charges are in the ledger, which shows whether it
    /// was rolled back or replaced
    #[arg(long, value_name = "FILES", num_args = 1..)]
    verify: Vec<PathBuf>,
    #[command(flatten)]
    recalls: RecallFlags,
    /// Machine-readable output
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let recalls = arguments.recalls.list()?;
    let mut ledger = Ledger::open(&arguments.file).map_err(|e| match e {
        LedgerError::Io { path, source, .. } if source.kind() == ErrorKind::NotFound => {
            usage(format!("cannot read {path}: no such file; name the file that was given to fit --ledger"))
        }
        other => usage(other),
    })?;
    let status = ledger.status().map_err(usage)?;
    if !arguments.verify.is_empty() {
        return verify(arguments, &status, &recalls);
    }
    // what the next run may have is told for the δ that the last one asked for
    let delta = status.charges.last().map_or(status.purpose.terms.budget.delta(), |c| c.requested.delta());
    let room = ledger.room(delta).map_err(usage)?;
    if arguments.json {
        return print_json(&document(&status, delta, room, &recalls));
    }
    let shown = shown(&arguments.file.display().to_string(), &status, delta, room);
    print(&(shown + &recalled(&recalls, &status)))
}

/// Checks the receipts in the files of `--verify` against the ledger, and says which recalls concern the files.
fn verify(arguments: &Arguments, status: &Status, recalls: &Recalls) -> Result<(), Failure> {
    let mut rows = Vec::new();
    let mut text = String::new();
    let mut bad = 0;
    for path in &arguments.verify {
        let claim = Claim::read(path)?;
        let verdict = verdict(&claim, status);
        let notices = claim.notices(recalls, &claim.guarantee.recompute());
        bad += usize::from(verdict.is_err());
        let found = verdict.is_ok();
        let what = verdict.unwrap_or_else(|why| why);
        let file = path.display().to_string();
        text.push_str(&format!("{file}: {what}\n"));
        notices.iter().for_each(|notice| text.push_str(&format!("{file}: {notice}\n")));
        let recalled: Vec<_> = notices.iter().map(Notice::document).collect();
        rows.push(serde_json::json!({ "file": file, "found": found, "what": what, "recalls": recalled }));
    }
    if arguments.json {
        print_json(&rows)?;
    } else {
        print(&text)?;
    }
    match bad {
        0 => Ok(()),
        bad => Err(usage(format!(
            "{}: {bad} of {} files have no matching charge in this ledger",
            arguments.file.display(),
            rows.len()
        ))),
    }
}

/// Whether a charge of the ledger pays for what a file promises.
fn verdict(claim: &Claim, status: &Status) -> Result<String, String> {
    let guarantee = &claim.guarantee;
    if guarantee.insecure_seed {
        return Err(PREDICTABLE.into());
    }
    let Some(receipt) = &claim.receipt else {
        return Err("it has no receipt: it was made without a ledger, or by a version that wrote none".into());
    };
    let number = receipt.number;
    match (status.find(receipt), number.checked_sub(1).and_then(|at| status.charges.get(at))) {
        (Found::There, Some(entry)) => {
            if guarantee.epsilon > entry.requested.epsilon()
                || guarantee.neighbours() != status.purpose.terms.neighbours
                || !pays(entry, guarantee)
            {
                return Err(format!(
                    "charge {number} in the ledger belongs to another run: event, epsilon or neighbours differ from \
                     those in the file"
                ));
            }
            Ok(format!("its charge {number} of {} is in the ledger", foreign(&entry.time)))
        }
        (Found::Lost, _) | (_, None) => Err(format!(
            "its charge {number} is missing; the ledger has {} charges, so that it was rolled back to an earlier \
             state or is another ledger",
            status.charges.len()
        )),
        (Found::Other, _) => Err(format!(
            "the ledger has another charge at number {number}: it is another ledger, or was rolled back and charged \
             anew"
        )),
    }
}

/// The event of a charge is that of all stages; a stage that could not be planned yet stands there as its budget.
fn pays(entry: &Entry, guarantee: &Guarantee) -> bool {
    let stages = &guarantee.stages;
    if let [only] = &stages[..] {
        // undeclared labels or ranges are stages of their own, so that the only one was planned
        return only.event == entry.event;
    }
    // labels, ranges, model: three at most
    (0u32..1 << stages.len().min(3)).any(|budgets| {
        let part = |(i, stage): (usize, &Stage)| match budgets >> i & 1 {
            1 => Event::ApproxDp { epsilon: stage.epsilon, delta: stage.delta },
            _ => stage.event.clone(),
        };
        Event::composed(stages.iter().enumerate().map(part).collect()) == entry.event
    })
}

/// One line for each recall that concerns charges, or may. Those that take a program older than a fix at a charge after it are in the JSON alone: nearly all
/// ledgers have them.
fn recalled(recalls: &Recalls, status: &Status) -> String {
    let notices = recalls.of_ledger(status);
    let out: String =
        notices.iter().filter(|notice| !notice.only_after_fix()).map(|notice| format!("{notice}\n")).collect();
    if out.is_empty() { out } else { format!("\n{out}") }
}

fn document(status: &Status, delta: f64, room: f64, recalls: &Recalls) -> serde_json::Value {
    let charges: Vec<serde_json::Value> = status
        .charges
        .iter()
        .map(|c| {
            serde_json::json!({
                "number": c.number, "id": c.id, "time": c.time, "run": c.label,
                "epsilon": c.requested.epsilon(), "delta": c.requested.delta(),
                "certified_epsilon": c.certified_epsilon, "check": c.check, "event": c.event,
            })
        })
        .collect();
    serde_json::json!({
        "total": { "epsilon": status.purpose.terms.budget.epsilon(), "delta": status.purpose.terms.budget.delta() },
        "relation": status.purpose.terms.neighbours.relation,
        "unit": status.purpose.terms.neighbours.unit,
        "unit_names": status.purpose.unit_names,
        "rule": status.rule.map(|r| r.name()),
        "spent_share": status.share,
        "spent_epsilon": status.epsilon,
        "cut_lines": status.cuts.iter().map(|c| serde_json::json!({ "line": c.line, "bytes": c.bytes })).collect::<Vec<_>>(),
        "next_run": { "epsilon_at_most": room, "delta": delta },
        "charges": charges,
        "recalls": recalls.of_ledger(status).iter().map(LedgerNotice::document).collect::<Vec<_>>(),
    })
}

fn shown(file: &str, status: &Status, delta: f64, room: f64) -> String {
    let total = status.purpose.terms.budget;
    let unit = match status.purpose.unit_names.as_slice() {
        [] => protected(status.purpose.terms.neighbours.unit).to_string(),
        names => foreign(&unit_name(names)),
    };
    let mut out = format!(
        "{file}: total epsilon {}, delta {}, per {unit}, {}\n",
        number(total.epsilon()),
        probability(total.delta()),
        status.purpose.terms.neighbours.relation
    );
    const WIDTH: usize = 40;
    // a spent sliver is shown, and a full bar means full
    let filled = ((status.share * WIDTH as f64).ceil() as usize).min(WIDTH);
    out.push_str(&format!(
        "spent  [{}{}] {:.1} %{}\n",
        "#".repeat(filled),
        ".".repeat(WIDTH - filled),
        (status.share * 1e3).ceil() / 10.0,
        status.rule.map_or(String::new(), |r| format!(", added up by the {} filter", r.name()))
    ));
    out.push_str(&format!(
        "guarantee: all runs together stay within epsilon {} and delta {}, even if each run is chosen after seeing \
         the earlier results\n",
        number(total.epsilon()),
        probability(total.delta())
    ));
    if status.charges.is_empty() {
        out.push_str("no run has been charged yet\n");
    }
    for cut in &status.cuts {
        out.push_str(&format!(
            "{} bytes on line {} are an incomplete charge (a crash or a full disk): nothing was released for it, so \
             it costs nothing. The bytes stay in the file\n",
            cut.bytes, cut.line
        ));
    }
    out.push_str(&match room > 0.0 {
        true => format!("the next run may have about epsilon {} at delta {}\n", number(room), probability(delta)),
        false => format!("nothing is left for a next run at delta {}\n", probability(delta)),
    });
    if status.charges.is_empty() {
        return out;
    }
    let rows: Vec<Vec<String>> = status
        .charges
        .iter()
        .map(|c| {
            vec![
                c.number.to_string(),
                c.time.clone(),
                number(c.requested.epsilon()),
                probability(c.requested.delta()),
                format!("{:.6}", (c.certified_epsilon * 1e6).ceil() / 1e6),
                c.label.clone(),
            ]
        })
        .collect();
    out.push('\n');
    out.push_str(&table(&["#run", "time (UTC)", "#epsilon", "#delta", "#certified", "what"], &rows));
    out
}
