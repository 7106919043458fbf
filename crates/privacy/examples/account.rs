//! Accounts events from standard input, one JSON object per line:
//! `{"event": {...}, "relation": "zero-out", "delta": 1e-6}` (or `"expression": "poisson(0.01, gaussian(1)) x 1000"`, `"epsilon"`, `"epsilons": [...]` for a curve, or `"accountant": "rdp"`), and prints one
//! JSON object per line with the bound and the time taken. With both `epsilon` and `delta` and an expression that holds
//! an unknown, the noise is calibrated. A line that comes again is answered for a δ smaller by 2⁻⁴⁰ of itself each time, since the library remembers what it was
//! asked and its time is what is measured.

use dpopt_privacy::accountant::{self, Accountant};
use dpopt_privacy::{Budget, Event, Neighbours, Relation, calibrate};
use std::collections::HashMap;
use std::io::BufRead;
use std::time::Instant;

fn answer(line: &str, again: u32) -> Result<serde_json::Value, String> {
    let mut task: serde_json::Value = serde_json::from_str(line).map_err(|e| e.to_string())?;
    if let Some(delta) = task["delta"].as_f64() {
        task["delta"] = (delta * (1.0 - f64::from(again) * 2f64.powi(-40))).into();
    }
    if let (Some(text), Some(epsilon), Some(delta)) =
        (task["expression"].as_str(), task["epsilon"].as_f64(), task["delta"].as_f64())
    {
        return calibrated(text, epsilon, delta, &task);
    }
    let event = match task["expression"].as_str() {
        Some(text) => dpopt_privacy::expression::parse(text, None).map_err(|e| e.to_string())?,
        None => serde_json::from_value::<Event>(task["event"].clone()).map_err(|e| e.to_string())?,
    };
    let relation: Relation = serde_json::from_value(task["relation"].clone()).map_err(|e| e.to_string())?;
    let named: Option<&dyn Accountant> = match task["accountant"].as_str() {
        // the upper bound alone, as other lattice accountants give it; "bracket" adds the lower one
        Some("pld") if task["bracket"] != true => {
            Some(&accountant::pld::Pld { quality: accountant::pld::Quality::FINE })
        }
        Some(name) => {
            Some(*accountant::all().iter().find(|a| a.name() == name).ok_or_else(|| format!("no accountant {name}"))?)
        }
        None => None,
    };
    let clock = Instant::now();
    if let Some(epsilons) = task["epsilons"].as_array() {
        let epsilons: Vec<f64> = epsilons.iter().filter_map(serde_json::Value::as_f64).collect();
        let deltas = accountant::deltas(&event, relation, &epsilons).map_err(|e| e.to_string())?;
        return Ok(serde_json::json!({ "deltas": deltas, "seconds": clock.elapsed().as_secs_f64() }));
    }
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

fn calibrated(text: &str, epsilon: f64, delta: f64, task: &serde_json::Value) -> Result<serde_json::Value, String> {
    let relation: Relation = serde_json::from_value(task["relation"].clone()).map_err(|e| e.to_string())?;
    let budget = Budget::new(epsilon, delta).map_err(|e| e.to_string())?;
    dpopt_privacy::expression::parse(text, Some(1.0)).map_err(|e| e.to_string())?;
    // parsed once above, so that the closure cannot fail
    let event = |x: f64| dpopt_privacy::expression::parse(text, Some(x)).unwrap_or(Event::Unsupported);
    let clock = Instant::now();
    let (noise, certificate) =
        calibrate::noise(event, Neighbours::of_records(relation).within(budget)).map_err(|e| e.to_string())?;
    let seconds = clock.elapsed().as_secs_f64();
    Ok(serde_json::json!({ "noise": noise, "upper": certificate.bound().upper, "seconds": seconds }))
}

fn main() {
    let mut asked: HashMap<String, u32> = HashMap::new();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let again = *asked.entry(line.clone()).and_modify(|times| *times += 1).or_default();
        match answer(&line, again) {
            Ok(value) => println!("{value}"),
            Err(error) => println!("{}", serde_json::json!({ "error": error })),
        }
    }
}
