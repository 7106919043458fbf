//! Writing well-formed markup: every text and attribute escaped, every element closed.

use dpopt_privacy::rounding::foreign_lines;

/// A document under construction.
pub(super) struct Markup(String);

impl Markup {
    pub(super) fn new() -> Self {
        Self(String::with_capacity(1 << 16))
    }

    /// Markup that is known to be well-formed (ours, never a user's text).
    pub(super) fn raw(&mut self, markup: &str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Appends `text` with its special characters escaped.
    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        self.0.push_str(&escape(text));
        self
    }

    /// `<tag>text</tag>`, where `tag` may carry attributes of ours.
    pub(super) fn element(&mut self, tag: &str, text: &str) -> &mut Self {
        let name = tag.split(' ').next().unwrap_or(tag);
        self.0.push_str(&format!("<{tag}>{}</{name}>\n", escape(text)));
        self
    }

    /// A bulleted list; nothing for no items.
    pub(super) fn list(&mut self, items: &[String]) -> &mut Self {
        if !items.is_empty() {
            self.raw("<ul>\n");
            for item in items {
                self.element("li", item);
            }
            self.raw("</ul>\n");
        }
        self
    }

    /// A table; columns whose heading starts with `#` are numbers (right-aligned, the mark is dropped).
    pub(super) fn table(&mut self, caption: &str, headings: &[&str], rows: &[Row]) -> &mut Self {
        // not a <caption>: it would scroll away with a wide table
        self.element("p class=\"caption\"", caption);
        // which scrolls by itself, by keys too
        self.raw("<div class=\"scroll\" role=\"region\" aria-label=\"table\" tabindex=\"0\"><table>\n<thead><tr>");
        for heading in headings {
            match heading.strip_prefix('#') {
                Some(h) => self.element("th scope=\"col\" class=\"number\"", h),
                None => self.element("th scope=\"col\"", heading),
            };
        }
        self.raw("</tr></thead>\n<tbody>\n");
        for row in rows {
            self.raw(if row.marked { "<tr class=\"marked\">" } else { "<tr>" });
            let spanned = row.cells.len() < headings.len();
            for (i, (cell, heading)) in row.cells.iter().zip(headings).enumerate() {
                let last = i + 1 == row.cells.len();
                if spanned && last {
                    self.element(&format!("td class=\"why\" colspan=\"{}\"", headings.len() - i), cell);
                } else if heading.starts_with('#') {
                    self.element("td class=\"number\"", cell);
                } else {
                    self.element("td", cell);
                }
            }
            self.raw("</tr>\n");
        }
        self.raw("</tbody></table></div>\n")
    }

    pub(super) fn finish(self) -> String {
        self.0
    }
}

/// A table row. With fewer cells than headings, the last one spans the rest.
pub(super) struct Row {
    pub(super) cells: Vec<String>,
    pub(super) marked: bool,
}

impl Row {
    pub(super) fn new(cells: Vec<String>) -> Self {
        Self { cells, marked: false }
    }
}

/// Each item with a capital first letter and a full stop.
pub(super) fn sentences(items: &[String]) -> Vec<String> {
    let stop = |item: &String| if item.ends_with(['.', ')', '!', '?']) { "" } else { "." };
    items.iter().map(|item| capital(item) + stop(item)).collect()
}

/// The text with a capital first letter.
pub(super) fn capital(text: &str) -> String {
    let mut rest = text.chars();
    let first: String = rest.next().map(|c| c.to_uppercase().collect()).unwrap_or_default();
    first + rest.as_str()
}

/// Escapes for text and for double-quoted attributes; drops control characters that XML forbids.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if forbidden(c) => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    // marks that turn the direction of writing show a line as another
    foreign_lines(&out).into_owned()
}

/// Characters that no XML document may hold.
pub(super) fn forbidden(c: char) -> bool {
    !matches!(c, '\t' | '\n' | '\r') && (c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_text_becomes_markup() {
        assert_eq!(escape("<a href=\"x\">&'\u{0}"), "&lt;a href=&quot;x&quot;&gt;&amp;&#39;\u{fffd}");
        let mut m = Markup::new();
        m.element("td class=\"why\"", "</td><script>");
        assert_eq!(m.finish(), "<td class=\"why\">&lt;/td&gt;&lt;script&gt;</td>\n");
    }

    #[test]
    fn short_rows_span() {
        let mut m = Markup::new();
        m.table("c", &["a", "#b", "d"], &[Row::new(vec!["1".into(), "why".into()])]);
        assert!(m.finish().contains("<td class=\"why\" colspan=\"2\">why</td>"));
    }
}
