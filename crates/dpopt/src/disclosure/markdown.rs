//! Text of files inside Markdown: nothing of it becomes markup.

use dpopt_privacy::rounding::{foreign, foreign_lines};

/// Text on one line, in which no character is markup. Registries show their fields as Markdown with formulas, so dollar signs are escaped too.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in foreign(text).chars() {
        match c {
            // two backslashes in a row are taken for a mistake by the registry's checks
            '\\' => out.push_str("&#92;"),
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '`' | '*' | '_' | '[' | ']' | '|' | '~' | '$' | '#' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    // what would be linked by itself
    out.replace("://", ":&#47;&#47;").replace("www.", "www&#46;")
}

/// What the publisher wrote, who may use markup: without control characters, line breaks stay.
pub(super) fn own(text: &str) -> String {
    foreign_lines(text.replace("\r\n", "\n").trim()).replace('\t', " ")
}

/// Text of the publisher in a cell of a table or an item of a list: on one line.
pub(super) fn own_line(text: &str) -> String {
    own(text).split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}
