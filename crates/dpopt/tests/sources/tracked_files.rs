//! What is tracked is source: no large binaries, and no packages that were downloaded beside it. A module is `x.rs` beside `x/`.

use std::path::Path;
use std::process::Command;

/// Largest file that need not be text, in bytes.
const LARGEST_BINARY: u64 = 200_000;

/// Paths that git tracks, or `None` outside a git checkout (an unpacked archive).
pub fn tracked(root: &Path) -> Option<Vec<String>> {
    if !root.join(".git").exists() {
        return None;
    }
    let output =
        Command::new("git").args(["ls-files", "-z"]).current_dir(root).output().expect("git runs in a checkout");
    assert!(output.status.success(), "git ls-files: {}", String::from_utf8_lossy(&output.stderr));
    let names = String::from_utf8(output.stdout).expect("names are UTF-8");
    Some(names.split_terminator('\0').map(str::to_string).collect())
}

/// Why a file must not be tracked, if so.
fn refused(name: &str, bytes: &[u8]) -> Option<String> {
    if name.ends_with(".whl") {
        return Some(format!("{name} is a downloaded package"));
    }
    if name.contains("/src/") && name.ends_with("/mod.rs") {
        return Some(format!("{name}: a module `x` is `x.rs` beside `x/`"));
    }
    let text = std::str::from_utf8(bytes).is_ok_and(|text| !text.contains('\0'));
    (bytes.len() as u64 > LARGEST_BINARY && !text).then(|| format!("{name} is a binary file of {} bytes", bytes.len()))
}

#[test]
fn no_large_binary_is_tracked() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let Some(names) = tracked(&root) else {
        eprintln!("not a git checkout: nothing is tracked here");
        return;
    };
    assert!(names.iter().any(|name| name == "Cargo.toml"), "the list is that of the whole repository");
    let found: Vec<String> = names
        .iter()
        // a file that was deleted but not yet staged, or a link to a directory, has no bytes to look at
        .filter_map(|name| std::fs::read(root.join(name)).ok().and_then(|bytes| refused(name, &bytes)))
        .collect();
    assert!(found.is_empty(), "take them out with `git rm --cached`, or move them: {}", found.join("; "));
}

#[test]
fn text_may_be_large_and_binaries_may_not() {
    let (text, binary) = (vec![b'a'; 300_000], vec![0u8; 300_000]);
    assert_eq!(refused("results.json", &text), None);
    assert!(refused("picture.png", &binary).is_some_and(|why| why.contains("300000 bytes")));
    assert_eq!(refused("small.png", &binary[..1000]), None);
    assert!(refused("crates/a/src/b/mod.rs", b"").is_some());
    assert_eq!(refused("crates/a/tests/b/mod.rs", b""), None);
    assert!(refused("tool-1.0-py3-none-any.whl", &binary[..1000]).is_some());
}
