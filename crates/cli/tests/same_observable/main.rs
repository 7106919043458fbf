//! Same observable: neighbouring tables look the same from outside.
//!
//! Runs the real binary on pairs of neighbouring tables, which differ in one record (usual, without content, hostile),
//! over methods, relations, tasks and options, and compares everything an outsider sees: exit code, messages, text,
//! files, the shape of every number in them, and whether the program ends within a public time. Every record that is not
//! usual carries a canary, and no output, message, report or left-over file may hold it.
//!
//! `cargo test -p dpopt-cli --test same_observable` walks a part; `make same-observable` (`-- --full`) the whole.
//! Words after that keep the cases with all of them in their names (`canary`: the commands with files in each other's places).
//! It ends with `pairs N, differing M` and fails if M > 0. With `--seeded` nothing is compared: a line per case goes to standard
//! output, with a digest of what its seeded run answers (`make seeded-fits`).

mod canary;
mod cases;
mod neighbours;
mod observe;
mod seeded;
mod walk;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|a| a == "--list") {
        // cargo's own question to a target without its harness
        return ExitCode::SUCCESS;
    }
    let full = arguments.iter().any(|a| a == "--full");
    let seeded = arguments.iter().any(|a| a == "--seeded");
    let only: Vec<String> = arguments.into_iter().filter(|a| !a.starts_with('-')).collect();
    if seeded {
        // every option in turn, and every method, relation and task as it is by default
        let mut cases = cases::all(false, &only);
        let known: std::collections::HashSet<String> = cases.iter().map(|case| case.name.clone()).collect();
        cases.extend(
            cases::all(true, &only).into_iter().filter(|c| c.name.ends_with(" plain") && !known.contains(&c.name)),
        );
        self::seeded::lines(&cases).iter().for_each(|line| println!("{line}"));
        return ExitCode::SUCCESS;
    }
    let planted = observe::notices_planted_differences();
    let cases = cases::all(full, &only);
    let walked = walk::walk(&cases);
    let leaks = if only.is_empty() || only.iter().any(|w| w == "canary") {
        canary::walk(full)
    } else {
        canary::Leaks::default()
    };
    for line in planted.iter().chain(&leaks.differences) {
        println!("DIFFERS {line}");
    }
    println!(
        "{} groups, of them {} refused alike; {} runs with a canary over swapped and hostile files; slowest run {:.1} s ({})",
        walked.groups, walked.refused, leaks.pairs, walked.slowest.0, walked.slowest.1
    );
    let differing = walked.differing + leaks.differences.len() + planted.len();
    println!("pairs {}, differing {differing}", walked.pairs + leaks.pairs);
    if differing == 0 && walked.pairs + leaks.pairs > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
