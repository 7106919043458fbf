//! The trusted core has at most 10,000 lines of code. Its crates are those that docs/architecture.md lists under "The trusted core".
//!
//! A line of code has something on it besides blanks and comments. What is compiled for tests only is none: items under `#[cfg(test)]` or
//! `#[cfg(doctest)]`, the files of modules that are declared so, and files or folders named as tests.
//! `cargo test -p dpopt --test trusted_core -- --nocapture` prints the table.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Most lines of code of all crates together.
const MOST: usize = 10_000;

/// The source with blanks for comments and a letter for each character of a literal; lines stay lines.
fn without_comments(source: &str) -> String {
    let c: Vec<char> = source.chars().collect();
    let at = |i: usize| c.get(i).copied().unwrap_or('\0');
    let word = |x: char| x.is_alphanumeric() || x == '_';
    let mut out = String::new();
    let keep = |x: char, other: char| if x == '\n' { '\n' } else { other };
    let mut i = 0;
    while i < c.len() {
        let start = i;
        if at(i) == '/' && at(i + 1) == '/' {
            while i < c.len() && at(i) != '\n' {
                i += 1;
            }
            out.extend(c[start..i].iter().map(|_| ' '));
        } else if at(i) == '/' && at(i + 1) == '*' {
            let mut depth = 0;
            loop {
                match (at(i), at(i + 1)) {
                    ('/', '*') => (depth, i) = (depth + 1, i + 2),
                    ('*', '/') => (depth, i) = (depth - 1, i + 2),
                    _ => i += 1,
                }
                if depth == 0 || i >= c.len() {
                    break;
                }
            }
            out.extend(c[start..i.min(c.len())].iter().map(|&x| keep(x, ' ')));
        } else if at(i) == '"' {
            i += 1;
            while i < c.len() && at(i) != '"' {
                i += if at(i) == '\\' { 2 } else { 1 };
            }
            i = (i + 1).min(c.len());
            out.extend(c[start..i].iter().map(|&x| keep(x, 'x')));
        } else if at(i) == '\'' && (at(i + 1) == '\\' || at(i + 2) == '\'') {
            i += if at(i + 1) == '\\' { 3 } else { 2 };
            while i < c.len() && at(i) != '\'' {
                i += 1;
            }
            i = (i + 1).min(c.len());
            out.extend(c[start..i].iter().map(|_| 'x'));
        } else if word(at(i)) {
            while word(at(i)) {
                i += 1;
            }
            let hashes = c[i..].iter().take_while(|x| **x == '#').count();
            let raw = matches!(c[start..i].iter().collect::<String>().as_str(), "r" | "br" | "cr");
            if raw && at(i + hashes) == '"' {
                let end: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
                i += hashes + 1;
                while i < c.len() && !c[i..].starts_with(&end) {
                    i += 1;
                }
                i = (i + end.len()).min(c.len());
                out.extend(c[start..i].iter().map(|&x| keep(x, 'x')));
            } else {
                out.extend(&c[start..i]);
            }
        } else {
            out.push(at(i));
            i += 1;
        }
    }
    out
}

/// Where the group that opens at `i` has ended.
fn after_group(text: &[u8], mut i: usize) -> usize {
    let mut depth = 0usize;
    while i < text.len() {
        match text[i] {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        i += 1;
        if depth == 0 {
            break;
        }
    }
    i
}

/// Where the item that begins at `i` has ended: behind its `;`, or behind its body.
fn after_item(text: &str, mut i: usize) -> usize {
    let bytes = text.as_bytes();
    let mut words = text[i..].split(|c: char| !c.is_alphanumeric() && c != '_');
    let mut next = || words.find(|word| !matches!(*word, "" | "pub" | "crate" | "super" | "in")).unwrap_or("");
    let statement = match next() {
        "use" | "static" | "type" | "let" => true,
        "const" => next() != "fn",
        _ => false,
    };
    while i < bytes.len() {
        match bytes[i] {
            b';' => return i + 1,
            b'{' if !statement => return after_group(bytes, i),
            b'(' | b'[' | b'{' => i = after_group(bytes, i),
            _ => i += 1,
        }
    }
    i
}

/// The source without comments and items of tests, and the modules in files of their own that it declares for tests.
fn without_tests(source: &str) -> (String, BTreeSet<String>) {
    let text = without_comments(source);
    let (mut out, mut modules, mut i) = (String::new(), BTreeSet::new(), 0);
    let attributes = ["#[cfg(test)]", "#[cfg(doctest)]"];
    while i < text.len() {
        let Some((at, attribute)) = attributes.iter().filter_map(|a| text[i..].find(a).map(|at| (i + at, a))).min()
        else {
            break;
        };
        out.push_str(&text[i..at]);
        let mut item = at + attribute.len();
        let begins = |from: usize| from + text[from..].len() - text[from..].trim_start().len();
        item = begins(item);
        while text[item..].starts_with("#[") {
            item = begins(after_group(text.as_bytes(), item + 1));
        }
        let end = after_item(&text, item);
        let declared = text[item..end].trim_start_matches("pub ").trim_start_matches("pub(crate) ");
        modules.extend(declared.strip_prefix("mod ").and_then(|rest| rest.strip_suffix(';')).map(str::to_string));
        i = end;
    }
    out.push_str(&text[i..]);
    (out, modules)
}

/// Whether a file or a folder is named as tests.
fn named_as_tests(path: &Path) -> bool {
    path.file_stem().and_then(|name| name.to_str()).is_some_and(|name| name == "tests" || name.ends_with("_tests"))
}

/// All source files below a folder.
fn sources(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
}

/// (path below `src`, lines of code) of every file that is not of tests.
fn lines_of_code(src: &Path) -> Vec<(String, usize)> {
    let mut files = Vec::new();
    sources(src, &mut files);
    files.sort();
    let (mut of_tests, mut counted) = (BTreeSet::new(), Vec::new());
    for path in files {
        let source = std::fs::read_to_string(&path).expect("UTF-8");
        let (code, modules) = without_tests(&source);
        let face = matches!(path.file_name().and_then(|name| name.to_str()), Some("lib.rs" | "mod.rs"));
        let folder = if face { path.parent().expect("a folder").to_path_buf() } else { path.with_extension("") };
        of_tests.extend(modules.into_iter().map(|module| folder.join(module)));
        counted.push((path, code.lines().filter(|line| !line.trim().is_empty()).count()));
    }
    let tests = |path: &Path| {
        let below = path.strip_prefix(src).expect("below src");
        let mut names = below.ancestors();
        names.any(|p| named_as_tests(p) || of_tests.contains(&src.join(p).with_extension("")))
    };
    counted.retain(|(path, _)| !tests(path));
    let below = |path: PathBuf| path.strip_prefix(src).expect("below src").display().to_string();
    counted.into_iter().map(|(path, lines)| (below(path), lines)).collect()
}

/// The numbered crates of the section.
fn crates(document: &str) -> Vec<String> {
    let section = document.split("\n## ").find(|s| s.starts_with("The trusted core")).expect("the section");
    let numbered =
        section.lines().filter(|line| line.split_once(". `").is_some_and(|(n, _)| n.parse::<usize>().is_ok()));
    numbered.filter_map(|line| line.split('`').nth(1).map(str::to_string)).collect()
}

#[test]
fn the_trusted_core_is_small_enough_to_read() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let document = std::fs::read_to_string(root.join("docs/architecture.md")).expect("the list of crates");
    let core = crates(&document);
    assert_eq!(core, ["dpopt-event", "dpopt-privacy", "dpopt-noise", "dpopt-kernel"], "docs/architecture.md");
    let mut all = 0;
    for name in core {
        let folder = root.join("crates").join(name.strip_prefix("dpopt-").expect("a crate of the workspace"));
        let files = lines_of_code(&folder.join("src"));
        // a reader that saw nothing would find it small
        assert!(files.iter().any(|(path, lines)| path == "lib.rs" && *lines > 5) && files.len() > 5, "{name}");
        let lines: usize = files.iter().map(|(_, lines)| lines).sum();
        files.iter().for_each(|(path, lines)| println!("{lines:>8}  {name}/{path}"));
        println!("{lines:>8}  {name}\n");
        all += lines;
    }
    println!("{all:>8}  in all, of at most {MOST}");
    assert!(all > 5_000, "only {all} lines seen");
    assert!(all <= MOST, "the trusted core has {all} lines of code, of at most {MOST}: what can stand beside it?");
}

#[test]
fn what_is_counted_is_code() {
    let count = |source: &str| without_tests(source).0.lines().filter(|line| !line.trim().is_empty()).count();
    for (source, lines) in [
        ("//! a\n\n/// b\nfn f() {\n    // c\n    g(); // d\n}\n", 3),
        ("/* a\nb /* c */\n*/\nuse a::{\n    b,\n};\n", 3),
        ("const A: &str = \"// no comment\n\n/* none\";\n", 2),
        ("const A: &str = r#\"\"// none\"#;\nconst B: char = '\"';\nconst C: char = '\\'';\n", 3),
        ("#[cfg(test)]\nmod tests {\n    fn f() {}\n}\nfn g() {}\n", 1),
        ("#[cfg(test)]\nuse a::{b, c};\n#[cfg(test)]\n#[path = \"x.rs\"]\nmod tests;\nfn g<'a>() {}\n", 1),
        ("#[cfg(test)]\npub(crate) fn f(x: [u8; 2]) -> u8 {\n    x[0]\n}\nfn g() {}\n", 1),
        ("#[cfg(not(test))]\nfn f() {}\n#[cfg(any(test, feature = \"a\"))]\nfn g() {}\n", 4),
    ] {
        assert_eq!(count(source), lines, "{source}");
    }
    let declared = without_tests("#[cfg(test)]\nmod a;\nmod b;\n#[cfg(doctest)]\nmod c;\n#[cfg(test)]\nmod d {}\n").1;
    assert_eq!(declared, BTreeSet::from(["a".to_string(), "c".to_string()]));
    assert!(
        named_as_tests(Path::new("a/b_tests.rs"))
            && named_as_tests(Path::new("tests"))
            && !named_as_tests(Path::new("tested.rs"))
    );
}
