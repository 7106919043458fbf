//! Tests make what they read, or read what is tracked: no file of tests names a folder outside of the repository, or a setting that holds one.

use std::path::Path;

/// What names such folders; each in two pieces, so that this file does not name it.
const NAMES: [[&str; 2]; 6] = [
    ["DPOPT_", "DATA"],
    ["DPOPT_", "SHARED"],
    ["../", "shared"],
    ["shared/", "data"],
    ["shared/", "accounting"],
    ["/work", "/"],
];

/// Folders from the repository's root down to a package's, where cargo runs its tests.
const PACKAGE_DEPTH: usize = 2;

/// Whether all of a file is of tests, by its path from the root.
fn is_of_tests(path: &str) -> bool {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let stem = name.split('.').next().unwrap_or_default();
    let named = stem == "tests" || stem == "conftest" || stem.ends_with("_tests") || stem.starts_with("test_");
    named || folder.split('/').any(|part| part == "tests")
}

/// Whether a relative path on the line leaves the repository: seen from the file where the compiler reads it, else from the package.
fn climbs_out(path: &str, line: &str) -> bool {
    let by_compiler = line.contains("include") || line.contains("#[path");
    let depth = if by_compiler { path.matches('/').count() } else { PACKAGE_DEPTH };
    let strings = line.split(['"', '\'']).skip(1);
    strings.map(|text| text.split('/').take_while(|part| *part == "..").count()).any(|ups| ups > depth)
}

/// Lines of tests, with their numbers from 1, that name a folder outside: all lines of a file of tests, else those from `#[cfg(test)]` on.
fn offences(path: &str, text: &str) -> Vec<String> {
    let lines = text.lines().enumerate();
    let tests = lines.skip_while(|(_, line)| !is_of_tests(path) && !line.trim_start().starts_with("#[cfg(test)]"));
    let outside = |line: &str| NAMES.iter().any(|name| line.contains(&name.concat())) || climbs_out(path, line);
    tests.filter(|(_, line)| outside(line)).map(|(i, line)| format!("{path}:{}: {}", i + 1, line.trim())).collect()
}

/// Paths from `root` of the sources in `folder`, without what is hidden or built.
fn sources(root: &Path, folder: &str, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(root.join(folder)).expect("folders of sources are readable").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{folder}/{name}");
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if !name.starts_with('.') && name != "target" {
                sources(root, &path, found);
            }
        } else if name.ends_with(".rs") || name.ends_with(".py") {
            found.push(path);
        }
    }
}

#[test]
fn no_test_reads_a_folder_outside_of_the_repository() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut paths = Vec::new();
    for folder in ["crates", "research", "examples", "benches"] {
        sources(&root, folder, &mut paths);
    }
    let read = |path: &String| std::fs::read_to_string(root.join(path)).expect("sources are text");
    let found: Vec<String> = paths.iter().flat_map(|path| offences(path, &read(path))).collect();
    let count = paths.iter().filter(|path| is_of_tests(path)).count();
    assert!(count > 150, "{count} files of tests: not all were read");
    assert!(found.is_empty(), "generate what these tests read, or make them programs:\n{}", found.join("\n"));
}

#[test]
fn every_way_to_name_a_folder_outside_is_noticed() {
    let lines = |path: &str, text: &str| -> Vec<usize> {
        let number = |found: String| found.split(':').nth(1).and_then(|number| number.parse().ok()).expect("a number");
        offences(path, text).into_iter().map(number).collect()
    };
    let names: String = NAMES.iter().map(|name| format!("let a = \"{}\";\n", name.concat())).collect();
    let all = [1, 2, 3, 4, 5, 6];
    for path in ["crates/a/tests/b.rs", "crates/a/src/b_tests.rs", "crates/a/src/b/tests.rs", "crates/a/c/test_b.py"] {
        assert_eq!(lines(path, &names), all, "{path}");
    }
    // programs may have such a setting, and their unit tests not
    assert!(lines("crates/a/src/b.rs", &names).is_empty());
    assert_eq!(
        lines("crates/a/src/b.rs", &format!("fn f() {{}}\n    #[cfg(test)]\n{names}")),
        all.map(|line| line + 2)
    );
    // up to the root and no further, from the package or, for the compiler, from the file
    let ups = |count: usize| format!("{}x", "../".repeat(count));
    for (before, depth) in [("open(\"", 2), ("Some('", 2), ("include_str!(\"", 3), ("#[path = \"", 3)] {
        assert!(lines("crates/a/tests/b.rs", &format!("{before}{}\"", ups(depth))).is_empty(), "{before}");
        assert_eq!(lines("crates/a/tests/b.rs", &format!("{before}{}\"", ups(depth + 1))), [1], "{before}");
    }
}
