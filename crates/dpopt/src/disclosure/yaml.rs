//! Writes the subset of YAML that an entry needs: nested maps, quoted text, numbers, lists of text.

use dpopt_privacy::rounding::foreign_lines;

/// A document under construction.
#[derive(Default)]
pub(super) struct Yaml(String);

impl Yaml {
    fn line(&mut self, depth: usize, text: &str) {
        if !text.is_empty() {
            self.0.push_str(&"  ".repeat(depth));
            self.0.push_str(text);
        }
        self.0.push('\n');
    }

    /// A comment, one line for each line of the text.
    pub(super) fn comment(&mut self, depth: usize, text: &str) {
        for line in printable(text).lines() {
            self.line(depth, format!("# {line}").trim_end());
        }
    }

    /// Opens a map under `key`; what belongs to it is one deeper.
    pub(super) fn map(&mut self, depth: usize, key: &str) {
        self.line(depth, &format!("{key}:"));
    }

    /// A word of this library, or a number: written as it is.
    pub(super) fn plain(&mut self, depth: usize, key: &str, value: &str) {
        self.line(depth, &format!("{key}: {value}"));
    }

    /// Any text: quoted on one line, or as a literal block where it has several.
    pub(super) fn text(&mut self, depth: usize, key: &str, text: &str) {
        let text = printable(text);
        let text = text.trim();
        if text.contains('\n') {
            self.line(depth, &format!("{key}: |-"));
            for line in text.lines() {
                self.line(depth + 1, line.trim_end());
            }
        } else {
            self.line(depth, &format!("{key}: {}", quoted(text)));
        }
    }

    /// A list of texts.
    pub(super) fn list(&mut self, depth: usize, key: &str, items: &[String]) {
        self.map(depth, key);
        for item in items {
            let item = printable(item).split_whitespace().collect::<Vec<_>>().join(" ");
            self.line(depth + 1, &format!("- {}", quoted(&item)));
        }
    }

    pub(super) fn finish(self) -> String {
        self.0
    }
}

/// A finite number that every reader of YAML takes for one: `1.0e-6`, where some take `1e-6` for text.
pub(super) fn number(x: f64) -> String {
    if x == 0.0 || (1e-4..1e15).contains(&x.abs()) {
        return x.to_string();
    }
    let text = format!("{x:e}");
    match text.split_once('e') {
        Some((mantissa, exponent)) => {
            let point = if mantissa.contains('.') { "" } else { ".0" };
            let sign = if exponent.starts_with('-') { "" } else { "+" };
            format!("{mantissa}{point}e{sign}{exponent}")
        }
        None => text,
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Without what no YAML document may hold.
fn printable(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\t', " ");
    foreign_lines(&text).replace(['\u{fffe}', '\u{ffff}', '\u{feff}'], "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_text_leaves_its_place() {
        let mut yaml = Yaml::default();
        yaml.text(1, "a", "x\": y\\ # z\u{1b}\u{85}");
        yaml.text(1, "b", "  one: 1\n\n- two\r\n\u{2028}# three");
        yaml.list(0, "c", &["p\nq: 1".into()]);
        yaml.comment(0, "FILL IN\nx: 1");
        assert_eq!(
            yaml.finish(),
            "  a: \"x\\\": y\\\\ # z\u{fffd}\u{fffd}\"\n  b: |-\n    one: 1\n\n    - two\n    \u{fffd}# three\nc:\n  - \"p q: 1\"\n\
             # FILL IN\n# x: 1\n"
        );
    }

    #[test]
    fn numbers_are_numbers_for_every_reader() {
        for (x, text) in
            [(1.0, "1"), (0.0, "0"), (0.5, "0.5"), (1e-6, "1.0e-6"), (2.5e-9, "2.5e-9"), (1e300, "1.0e+300")]
        {
            assert_eq!(number(x), text);
        }
    }
}
