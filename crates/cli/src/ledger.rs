//! `dpopt ledger`: a budget file read by people.

use crate::output::{Failure, print, print_json, table};
use crate::usage;
use clap::Args;
use dpopt::report::{number, probability};
use dpopt_privacy::Unit;
use dpopt_privacy::ledger::{Ledger, Status};
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The file given to `fit --ledger`
    file: PathBuf,
    /// Machine-readable output
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut ledger = Ledger::open(&arguments.file).map_err(usage)?;
    let status = ledger.status().map_err(usage)?;
    // what the next run may have is told for the δ that the last one asked for
    let delta = status.charges.last().map_or(status.terms.total.delta(), |c| c.requested.delta());
    let room = ledger.room(delta).map_err(usage)?;
    if arguments.json {
        return print_json(&document(&status, delta, room));
    }
    print(&shown(&arguments.file.display().to_string(), &status, delta, room))
}

fn document(status: &Status, delta: f64, room: f64) -> serde_json::Value {
    let charges: Vec<serde_json::Value> = status
        .charges
        .iter()
        .map(|c| {
            serde_json::json!({
                "number": c.number, "id": c.id, "time": c.time, "run": c.label,
                "epsilon": c.requested.epsilon(), "delta": c.requested.delta(),
                "certified_epsilon": c.certified_epsilon, "event": c.event,
            })
        })
        .collect();
    serde_json::json!({
        "total": { "epsilon": status.terms.total.epsilon(), "delta": status.terms.total.delta() },
        "relation": status.terms.relation,
        "rule": status.rule.map(|r| r.name()),
        "spent_share": status.share,
        "spent_epsilon": status.epsilon,
        "next_run": { "epsilon_at_most": room, "delta": delta },
        "charges": charges,
    })
}

fn shown(file: &str, status: &Status, delta: f64, room: f64) -> String {
    let total = status.terms.total;
    let unit = match status.terms.unit {
        Unit::Record => "row",
        Unit::User => "user",
    };
    let mut out = format!(
        "{file}: total epsilon {}, delta {}, per {unit}, {}\n",
        number(total.epsilon()),
        probability(total.delta()),
        status.terms.relation
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
        "guarantee: all runs together stay within epsilon {} and delta {}, however each is chosen after the ones before\n",
        number(total.epsilon()),
        probability(total.delta())
    ));
    if status.charges.is_empty() {
        out.push_str("no run was charged yet\n");
    }
    out.push_str(&match room > 0.0 {
        true => format!("a next run fits with about epsilon {} at delta {}\n", number(room), probability(delta)),
        false => "no next run fits\n".into(),
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
