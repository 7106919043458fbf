//! What an outsider sees of one run, with the numbers taken out where they are the (noisy) answer.

use crate::neighbours::CANARY;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Every run ends within this, whatever its records: a public bound on work, wide enough for a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// Everything that is seen of one run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Observed {
    /// `None`: it did not end.
    pub(crate) code: Option<i32>,
    pub(crate) messages: String,
    pub(crate) text: String,
    /// Names of files and the shape of what is in them.
    pub(crate) files: Vec<(String, String)>,
    /// Where the canary was found.
    pub(crate) leaks: Vec<String>,
}

/// How a run of the binary ended.
pub(crate) struct Ended {
    /// `None`: it did not.
    pub(crate) code: Option<i32>,
    pub(crate) text: String,
    pub(crate) messages: String,
    pub(crate) seconds: f64,
}

/// Runs the binary in `directory`; temporary files go there too.
pub(crate) fn ended(directory: &Path, arguments: &[String]) -> Ended {
    let started = Instant::now();
    let (out, err) = (directory.join(".out"), directory.join(".err"));
    let create = |path: &PathBuf| std::fs::File::create(path).expect("a file");
    let mut child = Command::new(env!("CARGO_BIN_EXE_dpopt"))
        .args(arguments)
        .current_dir(directory)
        .env("TMPDIR", directory)
        .env("RAYON_NUM_THREADS", "1")
        .stdin(Stdio::null())
        .stdout(create(&out))
        .stderr(create(&err))
        .spawn()
        .expect("the binary starts");
    let mut pause = Duration::from_micros(500);
    let code = loop {
        match child.try_wait().expect("a child") {
            // a signal has no code: it differs from every code there is
            Some(status) => break Some(status.code().unwrap_or(-1)),
            None if started.elapsed() > PATIENCE => {
                let _ = child.kill();
                let _ = child.wait();
                break None;
            }
            None => std::thread::sleep(pause),
        }
        pause = (pause * 2).min(Duration::from_millis(20));
    };
    let seconds = started.elapsed().as_secs_f64();
    let read = |path: &Path| String::from_utf8_lossy(&std::fs::read(path).expect("a file")).into_owned();
    let (text, messages) = (read(&out), read(&err));
    std::fs::remove_file(&out).expect("removed");
    std::fs::remove_file(&err).expect("removed");
    Ended { code, text, messages, seconds }
}

/// Runs the binary in `directory`, where `inputs` lie, and looks at all that it leaves there.
pub(crate) fn run(directory: &Path, arguments: &[String], inputs: &[&str]) -> (Observed, f64) {
    let Ended { code, text, messages, seconds } = ended(directory, arguments);
    let mut leaks = Vec::new();
    for (place, content) in [("stdout", &text), ("stderr", &messages)] {
        if holds_canary(content.as_bytes()) {
            leaks.push(place.to_string());
        }
    }
    let mean = arguments.first().is_some_and(|a| a == "mean" || a == "aggregate");
    let mut files = Vec::new();
    let mut names: Vec<PathBuf> =
        std::fs::read_dir(directory).expect("a directory").map(|e| e.expect("an entry").path()).collect();
    names.sort();
    for path in names {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if inputs.contains(&name.as_str()) {
            continue;
        }
        let content = std::fs::read(&path).expect("a file");
        if holds_canary(&content) {
            leaks.push(name.clone());
        }
        let mut seen = shape(&name, &String::from_utf8_lossy(&content));
        if mean && !name.ends_with(".jsonl") {
            // which entries of a released mean are not 0, and so how many lines tell of them, is the released answer
            let mut kinds: Vec<&str> = seen.lines().collect();
            kinds.dedup();
            seen = kinds.join("\n");
        }
        files.push((name.clone(), seen));
        std::fs::remove_file(&path).expect("removed");
    }
    let text = if mean { without_numbers(&text) } else { text };
    (Observed { code, messages, text, files, leaks }, seconds)
}

/// The form of a file's contents: keys, lengths, words; numbers only where they are public.
fn shape(name: &str, content: &str) -> String {
    match name.rsplit('.').next() {
        Some("json") => match serde_json::from_str::<serde_json::Value>(content) {
            Ok(value) => json(&value),
            Err(_) => format!("not JSON: {}", content.len()),
        },
        Some("jsonl") => {
            content.lines().map(|l| serde_json::from_str(l).map_or("not JSON".into(), |v| json(&v)) + "\n").collect()
        }
        Some("html") => page(content),
        _ => without_numbers(content),
    }
}

/// Keys, strings, truths and lengths of arrays as they are; a number is a number.
fn json(value: &serde_json::Value) -> String {
    use serde_json::Value;
    match value {
        Value::Number(_) => "#".into(),
        Value::Array(items) => {
            let parts: Vec<String> = items.iter().map(json).collect();
            format!("[{}]", parts.join(","))
        }
        Value::Object(entries) => {
            let parts: Vec<String> = entries
                .iter()
                // a ledger's clock and chain differ between any two runs
                .map(|(key, item)| match key.as_str() {
                    "time" | "id" | "previous" | "digest" | "check" => format!("{key}:…"),
                    // how many knots stretch a column follows from its noisy histogram: a released answer, paid for
                    "spread" if item.as_array().is_some_and(|knots| knots.iter().all(is_knot)) => "spread:…".into(),
                    _ => format!("{key}:{}", json(item)),
                })
                .collect();
            format!("{{{}}}", parts.join(","))
        }
        other => other.to_string(),
    }
}

/// A released knot: two numbers.
fn is_knot(item: &serde_json::Value) -> bool {
    item.as_array().is_some_and(|pair| pair.len() == 2 && pair.iter().all(serde_json::Value::is_number))
}

/// The part of the report that draws released weights: which columns have any to draw is the released answer.
const SHAPES: &str = "<h2>The effect of each column</h2>";

/// Whether any report had that part: a heading that is reworded would be looked for in vain.
static SHAPES_SEEN: AtomicBool = AtomicBool::new(false);

/// That no report of a whole run had the part whose numbers are left out: what is left out must be what is meant.
pub(crate) fn shapes_were_never_seen() -> Option<String> {
    let seen = SHAPES_SEEN.load(Ordering::Relaxed);
    (!seen).then(|| format!("no report has the part that is left out, {SHAPES}"))
}

/// An HTML report without pictures and numbers; lines sorted, since some tables are in the order of released values.
fn page(html: &str) -> String {
    let mut rest = html;
    let mut kept = String::new();
    while let Some(start) = rest.find("<svg") {
        kept.push_str(&rest[..start]);
        kept.push_str("<svg/>");
        rest = rest[start..].find("</svg>").map_or("", |end| &rest[start + end + 6..]);
    }
    kept.push_str(rest);
    if let Some(start) = kept.find(SHAPES) {
        SHAPES_SEEN.store(true, Ordering::Relaxed);
        let end = kept[start..].find("</div>").expect("the figures end") + start;
        kept.replace_range(start..end + "</div>".len(), "");
    }
    let text = without_numbers(&without_hashes(&kept));
    let mut lines: Vec<&str> = text.split_inclusive('>').collect();
    lines.sort_unstable();
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join("\n")
}

/// Words of sixteen or more hexadecimal digits become `#`: a charge's identity and hash, drawn anew in every run.
fn without_hashes(text: &str) -> String {
    let mut out = String::new();
    for word in text.split_inclusive(|c: char| !c.is_ascii_hexdigit()) {
        let digits = word.chars().take_while(char::is_ascii_hexdigit).count();
        out.push_str(if digits >= 16 { "#" } else { &word[..digits] });
        out.push_str(&word[digits..]);
    }
    out
}

/// Every number becomes `#`, signs and exponents with it.
pub(crate) fn without_numbers(text: &str) -> String {
    let mut out = String::new();
    let mut inside = false;
    let mut previous = ' ';
    for c in text.chars() {
        let part = c.is_ascii_digit() || (inside && matches!(c, '.' | 'e' | '-' | '+'));
        if part && !inside {
            if matches!(previous, '-' | '−' | '+') {
                out.pop();
            }
            let _ = write!(out, "#");
        }
        if !part {
            out.push(c);
        }
        inside = part;
        previous = c;
    }
    out
}

/// How two runs differ, in few words and without their contents' numbers.
pub(crate) fn difference(a: &Observed, b: &Observed) -> Option<String> {
    if a.code != b.code {
        let name = |code: Option<i32>| code.map_or("no end".into(), |c| format!("exit code {c}"));
        let last_line = |o: &Observed| o.messages.lines().last().unwrap_or("").chars().take(300).collect::<String>();
        return Some(format!("{} and {} ({} | {})", name(a.code), name(b.code), last_line(a), last_line(b)));
    }
    let first = |x: &str, y: &str| {
        x.lines().zip(y.lines()).find(|(l, r)| l != r).map_or("another number of lines".into(), |(l, r)| {
            let at = l.chars().zip(r.chars()).take_while(|(x, y)| x == y).count().saturating_sub(60);
            let part = |s: &str| s.chars().skip(at).take(160).collect::<String>();
            format!("{} | {}", part(l), part(r))
        })
    };
    if a.messages != b.messages {
        return Some(format!("messages: {}", first(&a.messages, &b.messages)));
    }
    if a.text != b.text {
        return Some(format!("standard output: {}", first(&a.text, &b.text)));
    }
    if a.files.len() != b.files.len() {
        return Some(format!("{} and {} files", a.files.len(), b.files.len()));
    }
    for ((name, x), (other, y)) in a.files.iter().zip(&b.files) {
        if name != other {
            return Some(format!("files {name} and {other}"));
        }
        if x != y {
            return Some(format!("{name}: {}", first(x, y)));
        }
    }
    None
}

/// The comparison itself must see what it is for: each injected difference that it does not see is returned.
pub(crate) fn notices_injected_differences() -> Vec<String> {
    let seen = Observed {
        code: Some(0),
        messages: "dpopt: warning: w\n".into(),
        text: "three rows\n".into(),
        files: vec![("m.json".into(), shape("m.json", r#"{"weights":[1.5,-2e-7],"labels":["no","yes"],"ok":true}"#))],
        leaks: Vec::new(),
    };
    let file = |text: &str| Observed { files: vec![("m.json".into(), shape("m.json", text))], ..seen.clone() };
    let injected = [
        ("exit code", Observed { code: Some(2), ..seen.clone() }),
        ("no end", Observed { code: None, ..seen.clone() }),
        ("a warning", Observed { messages: String::new(), ..seen.clone() }),
        ("text", Observed { text: "four rows\n".into(), ..seen.clone() }),
        (
            "a file more",
            Observed { files: [seen.files.clone(), vec![("x".into(), String::new())]].concat(), ..seen.clone() },
        ),
        ("a weight more", file(r#"{"weights":[1.5,-2e-7,3],"labels":["no","yes"],"ok":true}"#)),
        ("a label", file(r#"{"weights":[1.5,-2e-7],"labels":["no","perhaps"],"ok":true}"#)),
        ("a key", file(r#"{"weights":[1.5,-2e-7],"labels":["no","yes"],"ok":true,"rows":3}"#)),
        ("null", file(r#"{"weights":[1.5,null],"labels":["no","yes"],"ok":true}"#)),
        ("a column spread", file(r#"{"weights":[1.5,-2e-7],"labels":["no","yes"],"ok":true,"spread":[[0,0],[1,1]]}"#)),
    ];
    let mut missed: Vec<String> = injected
        .iter()
        .filter(|(_, o)| difference(&seen, o).is_none())
        .map(|(what, _)| format!("injected and not noticed: {what}"))
        .collect();
    let other_numbers = file(r#"{"weights":[-7,0.25],"labels":["no","yes"],"ok":true}"#);
    if difference(&seen, &other_numbers).is_some() {
        missed.push("other values of the same shape are no difference".into());
    }
    let knots = |knots: &str| file(&format!(r#"{{"spread":{knots}}}"#));
    if difference(&knots("[[0,0],[1,1]]"), &knots("[[0,0],[0.5,0.2],[1,1]]")).is_some() {
        missed.push("another number of released knots is no difference".into());
    }
    if difference(&knots("[[0,0],[1,1]]"), &knots("[[0,0],[1,null]]")).is_none() {
        missed.push("injected and not noticed: a knot that is none".into());
    }
    let canaries = [
        ("zqxcanary7731977", true),
        ("cell 7731977.25 is wide", true),
        ("[0.5,7731977]", true),
        ("1.773197725e9", true),
        ("0.12773197712", false),
        ("77319", false),
    ];
    let unseen = canaries.iter().filter(|(text, holds)| holds_canary(text.as_bytes()) != *holds);
    missed.extend(unseen.map(|(text, _)| format!("canary in `{text}`")));
    missed
}

/// Whether a text holds the canary: its seven digits as a number or a word of their own, or all nine of the number anywhere.
/// Seven digits in a row *inside* a longer number are chance, for a run of the test writes some 10⁸ digits of fresh noise.
fn holds_canary(content: &[u8]) -> bool {
    let digit = |at: Option<&u8>| at.is_some_and(u8::is_ascii_digit);
    let whole = |tail: &[u8]| [&b"25"[..], b".25"].iter().any(|cents| tail.starts_with(cents));
    content.windows(CANARY.len()).enumerate().filter(|(_, window)| *window == CANARY.as_bytes()).any(|(at, _)| {
        let (before, tail) = (at.checked_sub(1).and_then(|at| content.get(at)), &content[at + CANARY.len()..]);
        whole(tail) || !(digit(before) || digit(tail.first()))
    })
}
