//! `--seeded`: what seeded runs answer and what they say they spent, as digests. A rearrangement of the code moves none of them.
//!
//! A line per case: its name, a digest of the answer (predictions for the table it was fitted to; the numbers of a mean) and one of
//! the event with the privacy parameters; or how a refused run ended. Words and the form of files are not looked at.

use crate::cases::Case;
use crate::equivalence::write;
use crate::neighbours::Record;
use crate::observe::{Ended, ended};
use serde_json::Value;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The lines of all cases whose noise has a seed, in the order of their names.
pub(crate) fn lines(cases: &[Case]) -> Vec<String> {
    let seeded: Vec<&Case> = cases.iter().filter(|case| case.is_seeded()).collect();
    let (found, next) = (Mutex::new(Vec::new()), AtomicUsize::new(0));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(case) = seeded.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let directory = tempfile::tempdir().expect("a directory");
                    let line = format!("{}\t{}", case.name, digest(directory.path(), case));
                    found.lock().expect("no panic elsewhere").push(line);
                }
            });
        }
    });
    let mut lines = found.into_inner().expect("no panic elsewhere");
    lines.sort_unstable();
    lines
}

/// Runs a case on the usual table.
fn digest(directory: &Path, case: &Case) -> String {
    let inputs = write(directory, case, Record::Usual);
    let command = case.arguments[0].as_str();
    let mut arguments = case.arguments.clone();
    if command == "mean" {
        arguments.extend(["-o", "mean.json"].map(String::from));
    }
    let Ended { code, messages, .. } = ended(directory, &arguments);
    if code != Some(0) {
        assert!(code == Some(2), "{}: ended with {code:?}: {messages}", case.name);
        return "refused".into();
    }
    let document = directory.join(if command == "fit" { "model.json".into() } else { format!("{command}.json") });
    let document: Value = serde_json::from_slice(&std::fs::read(document).expect("a document")).expect("JSON");
    let guarantee = &document["guarantee"];
    assert!(guarantee.is_object(), "{}: no guarantee", case.name);
    let answer = if command == "fit" {
        let mut arguments = ["predict", "model.json", inputs[0], "-o", "seen.csv"].map(String::from).to_vec();
        if inputs.contains(&"v.txt") {
            arguments.extend(["--public-vectors", "v.txt"].map(String::from));
        }
        let Ended { code, messages, .. } = ended(directory, &arguments);
        assert!(code == Some(0), "{}: predict ended with {code:?}: {messages}", case.name);
        String::from_utf8(std::fs::read(directory.join("seen.csv")).expect("predictions")).expect("text")
    } else {
        let mut rest = document.clone();
        rest.as_object_mut().expect("an object").remove("guarantee");
        numbers(&rest)
    };
    format!("answer {}\tguarantee {}", short(&answer), short(&numbers(guarantee)))
}

/// All numbers of a document, in order of their digits: whatever the keys are called.
fn numbers(value: &Value) -> String {
    fn collect(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Number(number) => found.push(number.to_string()),
            Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
            Value::Object(entries) => entries.values().for_each(|item| collect(item, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    collect(value, &mut found);
    found.sort_unstable();
    found.join(" ")
}

fn short(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex()[..16].to_string()
}
