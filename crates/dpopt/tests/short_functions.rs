//! No function of what ships is longer than a person reads at a glance: from the line of its `fn` to its closing brace.
//!
//! `make lint` holds layout against rustfmt, so a function ends at the first line that is its indentation and a brace.

use std::path::{Path, PathBuf};

/// Lines of the longest function that is allowed.
const MOST: usize = 100;

/// Name and lines of every function of a source file, without those of test code at its end.
fn functions(source: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = source.lines().collect();
    let tests = lines.windows(2).position(|two| two[0] == "#[cfg(test)]" && two[1].ends_with('{'));
    let lines = &lines[..tests.unwrap_or(lines.len())];
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(name) = name(line) else { continue };
        let indentation = &line[..line.len() - line.trim_start().len()];
        let rest = |line: &str| line.strip_prefix(indentation).map(str::to_string);
        // a declaration has no body
        let end = lines[at..].iter().position(|line| {
            line.ends_with(';') && rest(line).is_some_and(|rest| !rest.starts_with(' '))
                || rest(line).as_deref() == Some("}")
        });
        let one_line = line.ends_with('}') || line.ends_with(';');
        found.push((name, if one_line { 1 } else { end.map_or(lines.len() - at, |end| end + 1) }));
    }
    found
}

/// The name of the function that begins on this line.
fn name(line: &str) -> Option<String> {
    let mut words = line.split_whitespace();
    let before = ["pub", "const", "async", "unsafe", "default", "extern", "\"C\""];
    let word = words.find(|word| !before.contains(word) && !word.starts_with("pub("))?;
    let name: String = words.next()?.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    (word == "fn" && !name.is_empty()).then_some(name)
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() {
            sources(&path, found);
        } else if name.ends_with(".rs") && name != "tests.rs" && !name.ends_with("_tests.rs") {
            found.push(path);
        }
    }
}

#[test]
fn no_function_is_long() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&crates).expect("the folder of crates is readable").flatten() {
        sources(&entry.path().join("src"), &mut files);
    }
    let (mut all, mut long) = (0, Vec::new());
    for file in &files {
        let text = std::fs::read_to_string(file).expect("a source file is readable");
        for (name, lines) in functions(&text) {
            all += 1;
            if lines > MOST {
                let file = file.strip_prefix(&crates).unwrap_or(file).display();
                long.push(format!("crates/{file}: {name} has {lines} lines"));
            }
        }
    }
    assert!(files.len() > 300 && all > 5000, "{all} functions in {} files: not all were read", files.len());
    long.sort();
    assert!(long.is_empty(), "split them along their steps ({MOST} lines at most):\n{}", long.join("\n"));
}

#[test]
fn lines_are_counted_from_the_name_to_the_brace() {
    let body = "        let x = if y { 1 } else { 2 };\n        {\n            x\n        };\n";
    let source = format!(
        "fn one() {{}}\n\npub trait T {{\n    fn declared(\n        a: u8,\n    ) -> u8;\n    fn short() -> u8;\n    \
         pub(crate) const fn long<T>(\n        a: T,\n    ) -> u8\n    where\n        T: Copy,\n    {{\n{body}    }}\n}}\n\n\
         #[cfg(test)]\nmod declared_elsewhere;\n\nfn last() {{\n}}\n\n#[cfg(test)]\nmod tests {{\n    fn test() {{\n    }}\n}}\n"
    );
    let expected = [("one", 1), ("declared", 3), ("short", 1), ("long", 11), ("last", 2)];
    let found = functions(&source);
    assert_eq!(found.iter().map(|(name, lines)| (name.as_str(), *lines)).collect::<Vec<_>>(), expected);
}
