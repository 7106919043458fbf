//! Files that earlier versions wrote are read as those versions read them. `tests/old_files/make.sh` makes a set of them with a program of its day.

use crate::{command, dpopt, path, succeed};
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// The sets, by the day of the version that wrote them.
const DAYS: [&str; 1] = ["2026-11-27"];
const MODELS: [&str; 6] = ["labels", "sampled", "several", "number", "charged", "charged-again"];

fn sets() -> impl Iterator<Item = PathBuf> {
    DAYS.iter().map(|day| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/old_files").join(day))
}

fn text(set: &Path, name: &str) -> String {
    std::fs::read_to_string(set.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

/// Whether two answers are the same but for the last digits of their numbers, which another processor may round otherwise.
fn alike(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(a), Value::Number(b)) => match (a.as_f64(), b.as_f64()) {
            (Some(a), Some(b)) => (a - b).abs() <= 1e-9 * a.abs().max(1e-300),
            _ => a == b,
        },
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| alike(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| alike(a, b)))
        }
        _ => one == other,
    }
}

/// The cells of a table, numbers as numbers.
fn cells(csv: &str) -> Value {
    let cell = |cell: &str| cell.parse::<f64>().map_or_else(|_| Value::from(cell), Value::from);
    csv.lines().map(|line| line.split(',').map(cell).collect::<Value>()).collect()
}

/// What `verify` told of a file without the ε that were worked out, of the whole and of its stages; and these.
fn without_epsilons(told: &Value) -> (Value, Vec<f64>) {
    let mut told = told[0].clone();
    let mut found: Vec<f64> = told["epsilon"].take().as_f64().into_iter().collect();
    for stage in told["stages"].as_array_mut().into_iter().flatten() {
        found.extend(stage["epsilon"].take().as_f64());
    }
    (told, found)
}

#[test]
fn old_models_predict_and_promise_what_they_did() {
    let d = tempfile::tempdir().unwrap();
    for set in sets() {
        for name in MODELS {
            let model = path(&set, &format!("{name}.json"));
            succeed(d.path(), &["predict", &model, &path(&set, "rows.csv"), "-o", "new.csv"]);
            let (before, now) = (text(&set, &format!("{name}.predictions.csv")), text(d.path(), "new.csv"));
            assert!(before.lines().count() > 20 && alike(&cells(&before), &cells(&now)), "{model}: {now}");
            let verified = json(&succeed(d.path(), &["verify", &model, "--json"]));
            let before = json(&text(&set, &format!("{name}.verified.json")));
            let [(before, was), (now, is)] = [&before, &verified].map(without_epsilons);
            for key in ["holds", "epsilon_allowed", "delta", "stages", "relation"] {
                assert!(before.get(key).is_some(), "{name}: {key}");
                assert!(alike(&before[key], &now[key]), "{model}: {key} was {}", before[key]);
            }
            // upper bounds: a closer accountant says less, and never more than was said
            let closer = |(was, is): (&f64, &f64)| *is <= was * (1.0 + 1e-9) && *is > was * (1.0 - 1e-5);
            assert!(was.len() > 1 && was.len() == is.len(), "{model}: {was:?}");
            assert!(was.iter().zip(&is).all(closer), "{model}: epsilon was {was:?}, is {is:?}");
        }
        for name in ["number.report.json", "mean.json", "game.json"] {
            assert!(succeed(d.path(), &["verify", &path(&set, name)]).contains("holds"), "{name}");
        }
    }
}

#[test]
fn old_ledgers_keep_their_charges_and_take_more() {
    for set in sets() {
        let d = tempfile::tempdir().unwrap();
        std::fs::copy(set.join("ledger.jsonl"), d.path().join("l.jsonl")).unwrap();
        let (before, now) =
            (json(&text(&set, "ledger.shown.json")), json(&succeed(d.path(), &["ledger", "l.jsonl", "--json"])));
        assert_eq!(before["charges"].as_array().map(Vec::len), Some(2));
        for (before, now) in before["charges"].as_array().unwrap().iter().zip(now["charges"].as_array().unwrap()) {
            for key in ["check", "event", "certified_epsilon", "epsilon", "delta"] {
                assert!(alike(&before[key], &now[key]), "{key} was {}", before[key]);
            }
            // the event by itself, for other accountants
            std::fs::write(d.path().join("event.json"), before["event"].to_string()).unwrap();
            let delta = before["delta"].to_string();
            let priced = json(&succeed(d.path(), &["account", "--event", "event.json", "--delta", &delta, "--json"]));
            assert!(priced.to_string().contains("epsilon"), "{priced}");
        }
        let models = [path(&set, "charged.json"), path(&set, "charged-again.json")];
        succeed(d.path(), &["ledger", "l.jsonl", "--verify", &models[0], &models[1]]);
        succeed(d.path(), &["generate", "census", "--rows", "1500", "--seed", "1", "-o", "t.csv"]);
        let fit = |epsilon: &str| {
            let more = ["--target", "income", "--bounds", "bounds.toml", "--delta", "1e-6", "--ledger", "l.jsonl"];
            dpopt(d.path(), &[&["fit", "t.csv", "--epsilon", epsilon, "-o", "m.json"][..], &more].concat())
        };
        let refused = fit("3.5");
        assert!(!refused.status.success(), "more than is left was charged");
        let taken = fit("0.5");
        assert!(taken.status.success(), "{}", String::from_utf8_lossy(&taken.stderr));
        let after = json(&succeed(d.path(), &["ledger", "l.jsonl", "--json"]));
        assert_eq!(after["charges"].as_array().map(Vec::len), Some(3));
    }
}

#[test]
fn old_games_go_on_where_they_were() {
    for set in sets() {
        let d = tempfile::tempdir().unwrap();
        for name in ["game", "game.mark"] {
            std::fs::copy(set.join(name), d.path().join(name)).unwrap();
        }
        let game = ["online", "experts", "--experts", "3", "--rounds", "40", "--epsilon", "2", "--delta", "1e-4"];
        let more = ["--quiet", "--session", "game", "--moved", "--replay"];
        let mut child = command(d.path(), &[&game[..], &more].concat())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(text(&set, "rounds.txt").as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let plays: Vec<Value> = String::from_utf8(output.stdout).unwrap().lines().map(json).collect();
        // what was played is printed again, all but the first play, which no line asks for; then the game goes on
        let before: Vec<Value> = text(&set, "game.plays").lines().map(json).collect();
        assert!(before.len() == 13 && plays.starts_with(&before[1..]), "{plays:?}");
        assert_eq!(plays.last().unwrap()["round"], 40);
    }
}
