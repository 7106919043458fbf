//! Words that must not come back, in code, comments, docs, messages and pages, each with what stands in its place.

use Word::{Identifier, Numbered, Opening, Phrase, ShorterThan};
use std::path::Path;

/// What must not stand in the sources.
#[derive(Clone, Copy)]
enum Word {
    /// A whole word of code, or of what stands between backquotes. A `*` at an end stands for any letters.
    Identifier(&'static str),
    /// Words of comments, messages and pages, in either case; the last may have an s more.
    Phrase(&'static str),
    /// A phrase with a number behind it.
    Numbered(&'static str),
    /// The first words of a doc comment.
    Opening(&'static str),
    /// A doc comment of fewer characters.
    ShorterThan(usize),
}

/// A word, and what to write instead.
type Row = (Word, &'static str);

const FORBIDDEN: &[Row] = &[
    (Numbered("spec"), "the source (authors, year, theorem) or docs/proofs/NAME.md"),
    (Opening("The same"), "what the item does, subject first, complete by itself"),
    (ShorterThan(4), "what the item is, with its unit"),
];

/// Phrases of comments, messages and pages.
const PHRASES: &[Row] = &[
    (Phrase("planted bug"), "injected fault"),
    (Phrase("planted fault"), "injected fault"),
    (Phrase("planted mistake"), "injected fault"),
    (Phrase("planted and not noticed"), "injected and not noticed"),
    (Phrase("records that are elsewhere"), "remote records"),
    (Phrase("standing order"), "tie-break order"),
    (Phrase("hat function"), "linear B-spline"),
    (Phrase("lines and hats"), "linear terms and linear B-splines"),
    (Phrase("spread evenly by private histograms"), "private quantile transform"),
    (Phrase("factor-of-two octave"), "factor-of-two bucket"),
];

/// Identifiers of earlier days (docs/decisions/0045-one-vocabulary.md).
const IDENTIFIERS: &[Row] = &[
    (Identifier("Elsewhere"), "RemoteRecords, or ReadByObjective in minimize"),
    (Identifier("*_elsewhere"), "…_remote"),
    (Identifier("PartsError"), "PartitionsError"),
    (Identifier("PartsFailed"), "PartitionsFailed"),
    (Identifier("Question"), "AggregateQuery"),
    (Identifier("Said"), "OptionReader"),
    (Identifier("Traits"), "Capabilities"),
    (Identifier("RecordOf"), "RecordUnit"),
    (Identifier("PoissonBatch"), "Batch"),
    (Identifier("Warrant"), "Evidence"),
    (Identifier("Vouched*"), "Assumed"),
    (Identifier("*_on_my_word"), "assume_…"),
    (Identifier("InWords"), "ObjectiveSpec"),
    (Identifier("Entered"), "ActiveStage"),
    (Identifier("Division"), "BudgetSplit"),
    (Identifier("Scheme"), "StagePlan"),
    (Identifier("octave*"), "factor_of_two_bucket"),
    (Identifier("StandingOrder"), "TieBreakOrder"),
    (Identifier("PlantedBug"), "InjectedFault"),
    (Identifier("planted"), "injected"),
    (Identifier("door"), "mechanism"),
    (Identifier("doors"), "mechanisms"),
    (Identifier("_door"), "_mechanism"),
    (Identifier("DOORS"), "ROW_OF_MECHANISM"),
    (Identifier("rooms"), "modules, or folders"),
    (Identifier("hats"), "knots"),
    (Identifier("Walker"), "Comparer"),
    (Identifier("SAID"), "what the constant holds: DECLARED, FACTS, …"),
    (Identifier("TOLD"), "what the constant holds: BUDGET, NOTICES, …"),
    (Identifier("*_is_told"), "…_is_reported, …_is_refused"),
    (Identifier("*_are_told"), "…_are_reported, …_are_named"),
    (Identifier("*_is_said"), "…_is_reported, …_is_refused"),
    (Identifier("*_are_said"), "…_are_reported, …_are_named"),
    (Identifier("whoever_*"), "the subject by its name: caller, reader, process, player"),
    (Identifier("*_whoever_*"), "the subject by its name: caller, reader, process, player"),
    (Identifier("MOST_*"), "MAX_*"),
];

/// What is not searched: this file, what was written about the past, and the page that says what others call things.
const LEFT_OUT: [&str; 5] = [
    "crates/dpopt/tests/sources/vocabulary.rs",
    "CHANGELOG.md",
    "docs/audits/",
    "docs/decisions/0045-one-vocabulary.md",
    "docs/glossary.md",
];

impl Word {
    fn shown(self) -> String {
        match self {
            Identifier(word) | Phrase(word) => format!("`{word}`"),
            Numbered(word) => format!("`{word}` with a number"),
            Opening(words) => format!("a doc comment that begins with `{words}`"),
            ShorterThan(least) => format!("a doc comment of fewer than {least} characters"),
        }
    }
}

fn is_letter(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// One line of a source: its code, and the text of its comments and strings.
#[derive(Default)]
struct Line {
    code: String,
    prose: String,
}

impl Line {
    fn names(&self, pattern: &str) -> bool {
        let name = pattern.trim_matches('*');
        let whole = |text: &str, at: usize| {
            (pattern.starts_with('*') || !text[..at].ends_with(is_letter))
                && (pattern.ends_with('*') || !text[at + name.len()..].starts_with(is_letter))
        };
        let quoted = self.prose.split('`').skip(1).step_by(2);
        let mut texts = std::iter::once(self.code.as_str()).chain(quoted);
        texts.any(|text| text.match_indices(name).any(|(at, _)| whole(text, at)))
    }
}

/// A doc comment: consecutive lines with one marker (`/` or `!`), or a docstring. Lines are counted from 0.
struct Doc {
    first: usize,
    last: usize,
    marker: Option<char>,
    text: String,
}

/// A source, taken apart.
#[derive(Default)]
struct Source {
    lines: Vec<Line>,
    docs: Vec<Doc>,
    /// Prose of all lines in lower case, with one blank between lines.
    prose: String,
    /// Where in it each line begins, in bytes.
    starts: Vec<usize>,
}

/// What stands before `close`, and what comes after it. A backslash takes the next character with it if it `escapes`.
fn inside<'a>(text: &'a str, close: &str, escapes: bool) -> (&'a str, &'a str) {
    let mut at = 0;
    while at < text.len() && !text[at..].starts_with(close) {
        let taken = 1 + usize::from(escapes && text[at..].starts_with('\\'));
        at += text[at..].chars().take(taken).map(char::len_utf8).sum::<usize>();
    }
    (&text[..at], text.get(at + close.len()..).unwrap_or_default())
}

impl Source {
    /// None for files that are neither Rust nor Python nor Markdown.
    fn of(path: &str, text: &str) -> Option<Self> {
        let mut source = match path.rsplit_once('.')?.1 {
            "rs" => Self::program(text, false),
            "py" | "pyi" => Self::program(text, true),
            "md" => Self::page(text),
            _ => return None,
        };
        for line in &source.lines {
            source.starts.push(source.prose.len());
            source.prose += line.prose.trim().trim_end_matches('\\').trim_end();
            source.prose.push(' ');
        }
        source.prose.make_ascii_lowercase();
        Some(source)
    }

    fn page(text: &str) -> Self {
        let mut fenced = false;
        let line = |line: &str| {
            let fence = line.trim_start().starts_with("```");
            fenced ^= fence;
            let [code, prose] = if fenced || fence { [line, ""] } else { ["", line] };
            Line { code: code.into(), prose: prose.into() }
        };
        Self { lines: text.lines().map(line).collect(), ..Self::default() }
    }

    fn program(text: &str, python: bool) -> Self {
        let mut source = Self { lines: vec![Line::default()], ..Self::default() };
        let mark = if python { "#" } else { "//" };
        let mut rest = text;
        while let Some(next) = rest.chars().next() {
            if let Some(comment) = rest.strip_prefix(mark) {
                let (comment, after) = comment.split_at(comment.find('\n').unwrap_or(comment.len()));
                source.comment(comment, python);
                rest = after;
            } else if !python && rest.starts_with("/*") {
                let (comment, after) = inside(&rest[2..], "*/", false);
                source.says(comment);
                rest = after;
            } else if next == '"' || python && next == '\'' {
                let (opening, close, escapes) = source.quotes(rest, python);
                let (string, after) = inside(&rest[opening..], &close, escapes);
                source.string(string, python);
                rest = after;
            } else if next == '\'' && (rest.starts_with("'\\") || rest.chars().nth(2) == Some('\'')) {
                // a character; any other quote of Rust is a lifetime's
                rest = inside(&rest[1..], "'", true).1;
            } else {
                let (one, after) = rest.split_at(next.len_utf8());
                source.add(one, |line| &mut line.code);
                rest = after;
            }
        }
        source
    }

    /// Bytes of the opening quotes at the start of `rest`, what ends the string, and whether a backslash escapes in it.
    fn quotes(&self, rest: &str, python: bool) -> (usize, String, bool) {
        if python {
            let three = ["\"\"\"", "'''"].into_iter().find(|three| rest.starts_with(three));
            let close = three.unwrap_or(&rest[..1]);
            return (close.len(), close.into(), true);
        }
        let code = self.lines.last().map_or("", |line| line.code.as_str());
        let prefix = code.trim_end_matches('#');
        let raw = matches!(prefix.rsplit(|c: char| !is_letter(c)).next(), Some("r" | "br" | "cr"));
        let hashes = if raw { code.len() - prefix.len() } else { 0 };
        (1, format!("\"{}", "#".repeat(hashes)), !raw)
    }

    fn comment(&mut self, text: &str, python: bool) {
        let at = self.lines.len() - 1;
        let marker = text.chars().next().filter(|c| !python && (*c == '!' || *c == '/' && !text.starts_with("//")));
        if marker.is_some() && self.lines[at].code.trim().is_empty() {
            let text = text[1..].trim();
            match self.docs.last_mut() {
                Some(doc) if doc.marker == marker && doc.last + 1 == at => {
                    doc.last = at;
                    doc.text.push(' ');
                    doc.text += text;
                }
                _ => self.docs.push(Doc { first: at, last: at, marker, text: text.into() }),
            }
        }
        self.says(text.trim_start_matches(['/', '!']));
    }

    fn string(&mut self, text: &str, python: bool) {
        let first = self.lines.len() - 1;
        let docstring = python && self.opens_a_block();
        self.says(text);
        let last = self.lines.len() - 1;
        if docstring {
            self.docs.push(Doc { first, last, marker: None, text: text.into() });
        }
        self.add("\"", |line| &mut line.code);
    }

    /// Whether nothing stands between here and a colon at a line's end, or the file's beginning, but for a string's prefix.
    fn opens_a_block(&self) -> bool {
        let Some((here, before)) = self.lines.split_last() else { return false };
        let here = here.code.trim();
        let last = before.iter().rev().find_map(|line| line.code.trim_end().chars().next_back());
        here.len() <= 2 && here.chars().all(|c| c.is_ascii_alphabetic()) && last.is_none_or(|c| c == ':')
    }

    fn says(&mut self, text: &str) {
        self.add(" ", |line| &mut line.prose);
        self.add(text, |line| &mut line.prose);
    }

    fn add(&mut self, text: &str, to: fn(&mut Line) -> &mut String) {
        for (at, part) in text.split('\n').enumerate() {
            if at > 0 {
                self.lines.push(Line::default());
            }
            if let Some(line) = self.lines.last_mut() {
                to(line).push_str(part);
            }
        }
    }

    /// The lines, counted from 1, on which `word` stands or begins.
    fn lines_with(&self, word: Word) -> Vec<usize> {
        match word {
            Identifier(pattern) => {
                (self.lines.iter().enumerate()).filter(|(_, line)| line.names(pattern)).map(|(at, _)| at + 1).collect()
            }
            Phrase(words) => self.prose_with(words, |after| !after.starts_with(is_letter)),
            Numbered(words) => self.prose_with(words, |after| {
                after.strip_prefix(' ').is_some_and(|after| after.starts_with(|c: char| c.is_ascii_digit()))
            }),
            Opening(words) => {
                self.docs_that(|text| text.strip_prefix(words).is_some_and(|after| !after.starts_with(is_letter)))
            }
            ShorterThan(least) => self.docs_that(|text| text.chars().count() < least),
        }
    }

    fn prose_with(&self, words: &str, goes_on: impl Fn(&str) -> bool) -> Vec<usize> {
        let words = words.to_ascii_lowercase();
        let stands = |at: usize| {
            let after = &self.prose[at + words.len()..];
            !self.prose[..at].ends_with(is_letter) && (goes_on(after) || after.strip_prefix('s').is_some_and(&goes_on))
        };
        let places = self.prose.match_indices(words.as_str()).map(|(at, _)| at);
        places.filter(|at| stands(*at)).map(|at| self.starts.partition_point(|start| *start <= at)).collect()
    }

    fn docs_that(&self, offend: impl Fn(&str) -> bool) -> Vec<usize> {
        self.docs.iter().filter(|doc| offend(doc.text.trim())).map(|doc| doc.first + 1).collect()
    }
}

/// Every place of a file where a word of `rows` stands, with what to write instead.
fn offences<'a>(path: &str, text: &str, rows: impl IntoIterator<Item = &'a Row>) -> Vec<String> {
    let Some(source) = Source::of(path, text) else { return Vec::new() };
    let mut all = Vec::new();
    for (word, instead) in rows {
        let lines = source.lines_with(*word);
        all.extend(lines.iter().map(|line| format!("{path}:{line}: {}; write: {instead}", word.shown())));
    }
    all
}

#[test]
fn words_that_went_do_not_come_back() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let Some(names) = super::tracked_files::tracked(&root) else {
        eprintln!("not a git checkout: nothing is tracked here");
        return;
    };
    let searched = |name: &&String| {
        let kind = [".rs", ".py", ".pyi", ".md"].iter().any(|end| name.ends_with(end));
        kind && !LEFT_OUT.iter().any(|out| name.starts_with(out))
    };
    let (mut read, mut found) = (0, Vec::new());
    for name in names.iter().filter(searched) {
        // a file that was deleted but not yet staged has no text
        let Ok(text) = std::fs::read_to_string(root.join(name)) else { continue };
        read += 1;
        found.extend(offences(name, &text, FORBIDDEN.iter().chain(PHRASES).chain(IDENTIFIERS)));
    }
    assert!(read > 1000, "{read} files: not all were read");
    assert!(found.is_empty(), "{} words that must not come back:\n{}", found.len(), found.join("\n"));
}

/// The lines of `text` with each of some words.
fn lines<const N: usize>(path: &str, text: &str, words: [Word; N]) -> [Vec<usize>; N] {
    let source = Source::of(path, text).expect("a known language");
    words.map(|word| source.lines_with(word))
}

const OF_EACH_KIND: [Word; 5] =
    [Opening("The same"), ShorterThan(4), Numbered("spec"), Phrase("planted bug"), Identifier("Elsewhere")];

#[test]
fn every_kind_of_offence_is_found_in_rust() {
    let source = r##"//! The same of a file.

/// C.
pub const C: f64 = 1.0; // as in spec 07 §2

/// Sensitivity as planted
/// bugs have it.
fn f<'a>(x: &'a str) -> char {
    let elsewhere = "Elsewhere"; /* Elsewhere, spec 3 */
    let y: Elsewhere = r#"a "hat" of Specs 12"#;
    // `Elsewhere` is quoted, Elsewhere is not
    '"'
}

/// The sameness of things is no offence, nor are hatsful of respect 3 or the spec of accounting.
const MOST_ROWS: &[&str] = &["two octaves", "half \
    a Standing order"];
//// Not a doc comment.
const HERMOST_ROWS: [&str; 2] = ["\" planted", /* not a bug */ "// spec"];
"##;
    let expected = [vec![1], vec![3], vec![4, 9, 10], vec![6], vec![10, 11]];
    assert_eq!(lines("a.rs", source, OF_EACH_KIND), expected);
    let others =
        [Phrase("hat"), Phrase("octave"), Phrase("standing order"), Identifier("MOST_*"), Identifier("*_ROWS")];
    assert_eq!(lines("a.rs", source, others), [vec![10], vec![16], vec![17], vec![16], vec![16, 19]]);
}

#[test]
fn every_kind_of_offence_is_found_in_python() {
    let source = r##""""The same in Python."""
import x  # spec 4


def f(a, b='"'):
    r"""Says
    what it does."""
    return {"The same": a}, '''two
planted bugs'''  # `Elsewhere`


class C:
    # "The same"
    "C."
    y = "The same"
    z: Elsewhere
"##;
    let expected = [vec![1], vec![14], vec![2], vec![9], vec![9, 16]];
    assert_eq!(lines("a.py", source, OF_EACH_KIND), expected);
}

#[test]
fn names_are_judged_and_plain_english_is_not() {
    let source = "fn door(told: u32) {}\n// a door is told of: whoever is there\nfn what_is_wrong_is_told() {}\n\
                  fn what_is_told_twice() {}\nfn whoever_asks_gets_it() {}\nfn indoor() {}\n";
    let words = [Identifier("door"), Identifier("*_is_told"), Identifier("whoever_*")];
    assert_eq!(lines("a.rs", source, words), [vec![1], vec![3], vec![5]]);
}

#[test]
fn words_are_found_on_pages_and_messages_say_what_to_write() {
    let page =
        "Two planted\nbugs, `Elsewhere` and Elsewhere.\n\n```rust\nlet x: Elsewhere;\n```\n\nElsewhere, specs 09.\n";
    assert_eq!(lines("a.md", page, OF_EACH_KIND), [vec![], vec![], vec![8], vec![1], vec![2, 5]]);
    let rows = [(Identifier("Elsewhere"), "RemoteRecords"), (ShorterThan(4), "what it is")];
    let found = offences("a.rs", "/// C.\nstruct Elsewhere;\n", &rows);
    let expected = [
        "a.rs:2: `Elsewhere`; write: RemoteRecords",
        "a.rs:1: a doc comment of fewer than 4 characters; write: what it is",
    ];
    assert_eq!(found, expected);
    assert!(offences("a.toml", "Elsewhere", &rows).is_empty());
}
