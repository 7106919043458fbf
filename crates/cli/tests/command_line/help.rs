//! Help in two tiers, the page of the bounds file, and completions, held against what the program reads.

use crate::{refuse, succeed};
use std::collections::BTreeSet;
use std::path::Path;

/// The flags at the beginning of a page's lines, without the one for help.
fn flags(page: &str) -> BTreeSet<String> {
    let flag = |line: &str| {
        let words = line.strip_prefix("  ")?.trim_start();
        // -o, --output
        let long = words.get(2..4).filter(|after| *after == ", ").map_or(words, |_| &words[4..]);
        let long: String =
            long.strip_prefix("--")?.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
        Some(format!("--{long}"))
    };
    page.lines().filter_map(flag).filter(|flag| !["--help", "--version"].contains(&flag.as_str())).collect()
}

fn set(flags: &[&str]) -> BTreeSet<String> {
    flags.iter().map(ToString::to_string).collect()
}

/// The options of a command, method options too, as completions have them: what the program reads.
fn read(directory: &Path, command: &str) -> BTreeSet<String> {
    let script = succeed(directory, &["completions", "bash"]);
    let section = script.split(&format!("dpopt__subcmd__{command})\n            opts=\"")).nth(1).expect("the command");
    let words = section.split('"').next().unwrap().split(' ');
    words.filter(|word| word.starts_with("--") && !["--help", "--version"].contains(word)).map(String::from).collect()
}

#[test]
fn the_first_page_has_ten_options_and_the_second_has_all() {
    let d = tempfile::tempdir().unwrap();
    let ten = set(&[
        "--target",
        "--epsilon",
        "--delta",
        "--bounds",
        "--task",
        "--unit",
        "--ledger",
        "--total-epsilon",
        "--output",
        "--report",
    ]);
    let of_methods = flags(&succeed(d.path(), &["help", "options"]));
    for (command, missing, more) in [
        ("fit", &[][..], &[][..]),
        ("check", &[], &["--json"]),
        (
            "explain",
            &["--ledger", "--total-epsilon", "--output", "--report"],
            &["--all", "--json", "--accuracy", "--loss-points", "--error", "--added-error", "--best", "--plot"],
        ),
    ] {
        let expected: BTreeSet<String> = ten.difference(&set(missing)).cloned().chain(set(more)).collect();
        for page in [&[command, "--help"][..], &["help", command], &[command, "-h"]] {
            let first = succeed(d.path(), page);
            assert_eq!(flags(&first), expected, "{page:?}");
            assert!(first.contains(&format!("dpopt help {command} --all")), "{first}");
        }
        let all = flags(&succeed(d.path(), &["help", command, "--all"]));
        assert!(all.is_superset(&expected) && all.len() > 40, "{command}: {all:?}");
        assert!(all.is_disjoint(&of_methods), "{command}");
        // nothing that is read is on no page
        assert_eq!(read(d.path(), command), all.union(&of_methods).cloned().collect(), "{command}");
    }
    // a command that has one page shows it either way
    assert_eq!(succeed(d.path(), &["help", "split"]), succeed(d.path(), &["help", "split", "--all"]));
    assert!(refuse(d.path(), &["help", "methods", "--all"]).contains("options of a command"));
}

#[test]
fn the_page_of_the_bounds_file_has_every_key() {
    let d = tempfile::tempdir().unwrap();
    let page = succeed(d.path(), &["help", "bounds"]);
    assert!(page.lines().count() <= 66, "two screens hold {} lines", page.lines().count());
    std::fs::write(d.path().join("t.csv"), "x,y\n1,a\n").unwrap();
    let mut known = 0;
    for section in ["x", "dpopt"] {
        // the refusal of a key that does not exist lists those that do
        std::fs::write(d.path().join("b.toml"), format!("[{section}]\nnosuchkey = 1\n")).unwrap();
        let line = refuse(
            d.path(),
            &["explain", "t.csv", "--target", "y", "--epsilon", "1", "--bounds", "b.toml", "--rows", "9"],
        );
        for key in line.split("known keys: ").nth(1).unwrap().split(", ") {
            // two keys that stand in one line
            let key = if key == "upper" { "lower, upper" } else { key };
            let start = format!("\n    {key}");
            let ends = |rest: &str| rest.starts_with([' ', ',']);
            assert!(
                page.match_indices(&start).any(|(at, _)| ends(&page[at + start.len()..])),
                "{key} is not on the page"
            );
            known += 1;
        }
    }
    assert!(known >= 21, "{known} keys");
}

#[test]
fn completions_know_commands_options_and_values() {
    let d = tempfile::tempdir().unwrap();
    let commands = succeed(d.path(), &["help"]);
    let commands: Vec<&str> = (commands.lines().skip_while(|line| *line != "Commands:").skip(1))
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')))
        .map(|line| line.split(' ').next().unwrap())
        .collect();
    assert!(commands.len() > 15 && commands.contains(&"init") && commands.contains(&"completions"), "{commands:?}");
    for shell in ["bash", "zsh", "fish", "powershell"] {
        let script = succeed(d.path(), &["completions", shell]);
        // PowerShell's has no values
        let values = if shell == "powershell" { &[][..] } else { &["zero-out", "objective-perturbation"] };
        for word in commands.iter().chain(&["relation", "clip-norm"]).chain(values) {
            assert!(script.contains(word), "{shell}: {word}");
        }
        assert!(!script.contains("A process of"), "{shell} completes what nobody calls");
    }
}

#[test]
fn every_command_has_a_man_page_with_its_options() {
    let d = tempfile::tempdir().unwrap();
    succeed(d.path(), &["manual", "-o", "man"]);
    let page = |name: &str| std::fs::read_to_string(d.path().join("man").join(name)).expect(name);
    assert!(page("dpopt.1").contains("dpopt\\-fit(1)") && !page("dpopt.1").contains("dpopt\\-worker"));
    for command in ["fit", "explain", "verify", "account", "ledger", "init", "online"] {
        let text = page(&format!("dpopt-{command}.1"));
        assert!(text.contains(".TH dpopt-") && text.contains(".SH NAME"), "{command}: {text}");
        let shown = text.replace('\\', "");
        for option in read(d.path(), command) {
            assert!(shown.contains(&option), "{command}: {option}");
        }
    }
}

/// What bash offers for the last of some words.
#[cfg(target_os = "linux")]
fn offered(directory: &Path, words: &[&str]) -> BTreeSet<String> {
    let (last, before) = (words[words.len() - 1], words[words.len() - 2]);
    let script = format!(
        "source dpopt.bash; COMP_WORDS=({}); COMP_CWORD={}; _dpopt dpopt '{last}' '{before}'; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" "),
        words.len() - 1
    );
    let output = std::process::Command::new("bash").args(["--norc", "-c", &script]).current_dir(directory).output();
    let output = output.expect("bash runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(String::from).collect()
}

#[cfg(target_os = "linux")]
#[test]
fn bash_completes_by_the_script() {
    let d = tempfile::tempdir().unwrap();
    std::fs::write(d.path().join("dpopt.bash"), succeed(d.path(), &["completions", "bash"])).unwrap();
    assert_eq!(offered(d.path(), &["dpopt", "exp"]), set(&["explain"]));
    assert_eq!(offered(d.path(), &["dpopt", "fit", "t.csv", "--rel"]), set(&["--relation"]));
    assert_eq!(offered(d.path(), &["dpopt", "fit", "t.csv", "--clip-n"]), set(&["--clip-norm"]));
    let relations = set(&["zero-out", "replace-one", "add-or-remove"]);
    assert_eq!(offered(d.path(), &["dpopt", "fit", "t.csv", "--relation", ""]), relations);
    assert_eq!(offered(d.path(), &["dpopt", "fit", "t.csv", "--method", "noisy-n"]), set(&["noisy-newton"]));
    assert_eq!(offered(d.path(), &["dpopt", "help", "bou"]), set(&["bounds"]));
    assert!(offered(d.path(), &["dpopt", "wor"]).is_disjoint(&set(&["worker"])));
}
