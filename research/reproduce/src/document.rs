//! Writes an outcome: SVG charts, CSV tables, `result.json` and a `README.md` with the verdict, and the page of all results.

use crate::entry::{Compared, Entry, Outcome, Verdict};
use crate::failure::Failure;
use crate::lab::{Lab, Scale};
use dpopt::output::write_all_atomically;
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// What `result.json` holds of one run of an entry.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    /// Name of the entry.
    pub name: String,
    /// Paper, and the figure or theorem of it.
    pub source: String,
    /// What the entry shows, in one line.
    pub shows: String,
    /// How closely the source is followed.
    pub fidelity: String,
    /// Revision of the entry.
    pub revision: u32,
    /// Version of dpopt that computed it.
    pub version: String,
    /// Scale of the run: `short` or `full`.
    pub scale: String,
    /// Seed of the run.
    pub seed: u64,
    /// All settings, in the order of the run.
    pub settings: Vec<(String, serde_json::Value)>,
    /// Reported values beside ours.
    pub compared: Vec<Compared>,
    /// What the reader should know.
    pub notes: Vec<String>,
    /// Whether what the source says was seen, and why.
    pub verdict: Verdict,
    /// File names of the charts.
    pub charts: Vec<String>,
    /// File names of the tables.
    pub tables: Vec<String>,
}

/// Writes everything into `folder`, all or nothing.
///
/// # Errors
/// A chart could not be drawn or a file not written.
pub fn write(entry: &Entry, lab: &Lab, outcome: &Outcome, folder: &Path) -> Result<Record, Failure> {
    std::fs::create_dir_all(folder).map_err(|e| Failure::file(folder, e))?;
    let mut files: Vec<(PathBuf, Vec<u8>)> = Vec::new();
    for (name, chart) in &outcome.charts {
        files.push((folder.join(format!("{name}.svg")), chart.svg()?.into_bytes()));
    }
    for table in &outcome.tables {
        let mut csv = csv::Writer::from_writer(Vec::new());
        csv.write_record(&table.columns)?;
        for row in &table.rows {
            csv.write_record(row)?;
        }
        let bytes = csv.into_inner().map_err(Failure::of)?;
        files.push((folder.join(format!("{}.csv", table.name)), bytes));
    }
    let record = Record {
        name: entry.name.into(),
        source: entry.source.into(),
        shows: entry.shows.into(),
        fidelity: entry.fidelity.to_string(),
        revision: entry.revision,
        version: env!("CARGO_PKG_VERSION").into(),
        scale: match lab.scale {
            Scale::Short => "short".into(),
            Scale::Full => "full".into(),
        },
        seed: lab.seed,
        settings: lab.settings(),
        compared: outcome.compared.clone(),
        notes: outcome.notes.clone(),
        verdict: outcome.verdict.clone(),
        charts: outcome.charts.iter().map(|c| format!("{}.svg", c.0)).collect(),
        tables: outcome.tables.iter().map(|t| format!("{}.csv", t.name)).collect(),
    };
    let mut json = serde_json::to_vec_pretty(&record)?;
    json.push(b'\n');
    files.push((folder.join("result.json"), json));
    files.push((folder.join("README.md"), page(&record).into_bytes()));
    let list: Vec<(&Path, &[u8])> = files.iter().map(|(p, b)| (p.as_path(), b.as_slice())).collect();
    write_all_atomically(&list).map_err(|e| Failure::file(folder, e))?;
    Ok(record)
}

/// The record of an earlier run.
pub fn read(folder: &Path) -> Option<Record> {
    serde_json::from_slice(&std::fs::read(folder.join("result.json")).ok()?).ok()
}

fn page(record: &Record) -> String {
    let mut out = format!("# {}\n\n{}: {}\n\n", record.name, record.source, record.shows);
    body(&mut out, record, "");
    let _ = writeln!(out, "\n| setting | value |\n|---|---|");
    let _ = writeln!(out, "| scale | {} |\n| seed | {} |\n| dpopt | {} |", record.scale, record.seed, record.version);
    for (name, value) in &record.settings {
        let _ = writeln!(out, "| {name} | {} |", text(value));
    }
    let short = if record.scale == "short" { " --short" } else { "" };
    let _ = writeln!(
        out,
        "\nTables: {}. Again: `dpopt-reproduce run {}{short} --seed {}`.",
        record.tables.iter().map(|t| format!("[{t}]({t})")).collect::<Vec<_>>().join(", "),
        record.name,
        record.seed
    );
    out
}

/// A JSON value as a reader expects it: no quotes around texts.
fn text(value: &serde_json::Value) -> String {
    let plain = match value {
        serde_json::Value::String(s) => s.clone(),
        serde_json::Value::Array(items) => items.iter().map(text).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    };
    plain.replace('|', "\\|")
}

/// Verdict, charts, comparison and notes; `folder` is where the charts are, seen from the page.
fn body(out: &mut String, record: &Record, folder: &str) {
    let _ = writeln!(out, "**{}.** {}\n", sentence_case(&record.verdict.holds.to_string()), record.verdict.sentence);
    for chart in &record.charts {
        let _ = writeln!(out, "![{}: {}]({folder}{chart})\n", record.name, record.shows);
    }
    let _ = writeln!(out, "Follows the source: {}.\n", record.fidelity);
    if !record.compared.is_empty() {
        let _ = writeln!(out, "| | reported or predicted | here | |\n|---|---|---|---|");
        for row in &record.compared {
            let mark = match row.agrees {
                Some(true) => "agrees",
                Some(false) => "**differs**",
                None => "",
            };
            let _ = writeln!(out, "| {} | {} | {} | {mark} |", row.what, row.reported, row.ours);
        }
    }
    if !record.notes.is_empty() {
        let _ = writeln!(out);
        for note in &record.notes {
            let _ = writeln!(out, "- {note}");
        }
    }
}

fn sentence_case(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |c| c.to_uppercase().collect::<String>() + chars.as_str())
}

/// The page of all results that stand below `folder`, as seen from a page beside `folder`.
pub fn all_results(entries: &[&Entry], folder: &Path) -> String {
    let link = folder.file_name().map_or_else(String::new, |n| format!("{}/", n.to_string_lossy()));
    let records: Vec<Record> = entries.iter().filter_map(|e| read(&folder.join(e.name))).collect();
    let mut out = String::from(INTRODUCTION);
    let _ = writeln!(out, "| figure | source | verdict |\n|---|---|---|");
    for entry in entries {
        match records.iter().find(|r| r.name == entry.name) {
            Some(r) => {
                let _ = writeln!(out, "| [{0}](#{0}) | {1} | {2} |", entry.name, entry.source, r.verdict.holds);
            }
            None => {
                let _ = writeln!(out, "| {} | {} | not run yet |", entry.name, entry.source);
            }
        }
    }
    for record in &records {
        let _ = writeln!(out, "\n## {}\n\n{}: {}\n", record.name, record.source, record.shows);
        body(&mut out, record, &format!("{link}{}/", record.name));
        let _ = writeln!(out, "\nSettings and tables: [{link}{0}]({link}{0}/README.md).", record.name);
    }
    out
}

const INTRODUCTION: &str = "# Figures and tables of the papers, computed again

Every entry is one command: `make reproduce NAME=…` (or `dpopt-reproduce run NAME`). It prints its seed and settings, keeps
finished trials (stop it with Ctrl-C and start it again), and writes a chart, its numbers as CSV, and the source's reported
values beside ours with a verdict. `dpopt-reproduce list` shows all of them; `--short` takes seconds and runs in the tests.
The rules by which a value *agrees* stand in the code; where one was changed after a run was seen, the entry says so. This page is written by `dpopt-reproduce page`.

";
