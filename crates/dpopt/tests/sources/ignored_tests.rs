//! A test is left out of `make test` for one reason only, and `make test-slow` runs it.

use std::path::Path;

const REASON: &str = "long by nature: make test-slow";

/// Lines of `source` that ignore a test for another reason.
fn other_reasons(source: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = source.lines().enumerate().map(|(i, line)| (i + 1, line.trim()));
    lines.filter(|(_, line)| line.starts_with("#[ignore") && *line != format!("#[ignore = \"{REASON}\"]"))
}

fn read(folder: &Path, ignored: &mut usize, wrong: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).expect("folders of sources are readable").flatten() {
        let path = entry.path();
        if path.is_dir() {
            read(&path, ignored, wrong);
        } else if path.extension().is_some_and(|e| e == "rs") {
            let source = std::fs::read_to_string(&path).expect("sources are text");
            *ignored += source.lines().filter(|line| line.trim().starts_with("#[ignore")).count();
            wrong.extend(other_reasons(&source).map(|(line, what)| format!("{}:{line}: {what}", path.display())));
        }
    }
}

#[test]
fn no_test_is_ignored_but_for_its_length() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (mut ignored, mut wrong) = (0, Vec::new());
    for wing in ["crates", "research"] {
        for package in std::fs::read_dir(root.join(wing)).expect("the wing is readable").flatten() {
            for part in ["src", "tests", "examples", "benches"] {
                let folder = package.path().join(part);
                if folder.is_dir() {
                    read(&folder, &mut ignored, &mut wrong);
                }
            }
        }
    }
    assert!(ignored > 5, "{ignored} ignored tests: not all were read");
    assert!(wrong.is_empty(), "mend them, or say `{REASON}`:\n{}", wrong.join("\n"));
    // and those are run
    let makefile = std::fs::read_to_string(root.join("Makefile")).expect("the Makefile is text");
    let slow = makefile.split("\ntest-slow:").nth(1).and_then(|rest| rest.split("\n\n").next()).expect("a target");
    assert!(slow.contains("$(PRODUCT) --lib --bins --tests -- --ignored"), "{slow}");
}

#[test]
fn another_reason_is_noticed() {
    let source = format!("#[test]\n#[ignore]\nfn a() {{}}\n    #[ignore = \"{REASON}\"]\n #[ignore = \"fails\"]\n");
    assert_eq!(other_reasons(&source).map(|(line, _)| line).collect::<Vec<_>>(), [2, 5]);
}
