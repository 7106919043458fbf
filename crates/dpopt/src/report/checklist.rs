//! The checklist of the page: what to ask of a guarantee, and what this run answers.

use super::Report;
use super::markup::{Markup, Row};
use crate::disclosure::{AUDITS, Release, checklist};
use crate::recall::Recalls;

/// The section; left out where the numbers of a report are no numbers.
pub(super) fn section(m: &mut Markup, report: &Report) {
    let fields = serde_json::json!({
        "answer": report.answer, "software": report.software, "facts": report.facts, "guarantee": report.guarantee,
        "candidates": report.candidates, "place": report.selection.place, "score": report.score,
        "assumptions": report.assumptions, "receipt": report.receipt, "provenance": report.provenance,
    });
    let Ok(release) = Release::of_value(fields) else { return };
    m.element("h2", "Checklist");
    m.element(
        "p",
        "What to ask of a guarantee, by the pyramid of NIST SP 800-226 (Guidelines for Evaluating Differential Privacy \
         Guarantees, initial public draft, 2023), from its top to its base.",
    );
    let items = checklist(&release, &Recalls::shipped());
    let rows: Vec<Row> =
        items.iter().map(|item| Row::new(vec![item.layer.into(), item.question.into(), item.told()])).collect();
    m.raw("<details><summary>").text(&format!("{} questions and their answers", rows.len())).raw("</summary>\n");
    m.table("What dpopt does not know is for the publisher to say.", &["layer", "question", "this release"], &rows);
    let audits: Vec<Row> = AUDITS
        .iter()
        .map(|audit| Row::new([audit.page, audit.commit, audit.blake3, audit.result].map(String::from).to_vec()))
        .collect();
    m.table(
        "Audits of the library's code, as pages of its source repository.",
        &["page", "came with commit", "BLAKE3 of the page", "result"],
        &audits,
    );
    m.raw("</details>\n");
}
