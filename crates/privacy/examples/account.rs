//! Accounts events from standard input, one JSON object per line:
//! `{"event": {...}, "relation": "zero-out", "delta": 1e-6}` (or `"expression": "poisson(0.01, gaussian(1)) x 1000"`, `"epsilon"`, or `"accountant": "rdp"`), and prints one
//! JSON object per line with the bound and the time taken.

use dpopt_privacy::accountant::{self, Accountant};
use dpopt_privacy::{Event, Relation};
use std::io::BufRead;
use std::time::Instant;

fn answer(line: &str) -> Result<serde_json::Value, String> {
    let task: serde_json::Value = serde_json::from_str(line).map_err(|e| e.to_string())?;
    let event = match task["expression"].as_str() {
        Some(text) => dpopt_privacy::expression::parse(text, None).map_err(|e| e.to_string())?,
        None => serde_json::from_value::<Event>(task["event"].clone()).map_err(|e| e.to_string())?,
    };
    let relation: Relation = serde_json::from_value(task["relation"].clone()).map_err(|e| e.to_string())?;
    let named: Option<&dyn Accountant> = match task["accountant"].as_str() {
        Some(name) => Some(
            *accountant::all().iter().find(|a| a.name() == name).ok_or_else(|| format!("no accountant {name}"))?,
        ),
        None => None,
    };
    let clock = Instant::now();
    let bound = match (task["delta"].as_f64(), task["epsilon"].as_f64()) {
        (Some(delta), None) => match named {
            Some(a) => a.epsilon(&event, relation, delta),
            None => accountant::epsilon(&event, relation, delta),
        },
        (None, Some(epsilon)) => match named {
            Some(a) => a.delta(&event, relation, epsilon),
            None => accountant::delta(&event, relation, epsilon),
        },
        _ => return Err("give either delta or epsilon".into()),
    }
    .map_err(|e| e.to_string())?;
    let seconds = clock.elapsed().as_secs_f64();
    let mut out = serde_json::to_value(&bound).map_err(|e| e.to_string())?;
    out["seconds"] = seconds.into();
    Ok(out)
}

fn main() {
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        match answer(&line) {
            Ok(value) => println!("{value}"),
            Err(error) => println!("{}", serde_json::json!({ "error": error })),
        }
    }
}
