//! Same observable: neighbouring tables look the same from outside.
//!
//! Runs the real binary on pairs of neighbouring tables, which differ in one record (usual, without content, hostile),
//! over methods, relations, tasks and options, and compares everything an outsider sees: exit code, messages, text,
//! files, the shape of every number in them, and whether the program ends within a public time. Every record that is not
//! usual carries a canary, and no output, message, report or left-over file may hold it.
//!
//! `cargo test -p dpopt-cli --test same_observable` runs a part of the cases; `make same-observable` (`-- --full`) runs all.
//! Words after that keep the cases with all of them in their names (`canary`: the commands with files in each other's places).
//! It ends with `pairs N, differing M` and fails if M > 0. With `--seeded` nothing is compared: a line per case goes to standard
//! output, with a digest of what its seeded run answers (`make seeded-fits`).

mod canary;
mod cases;
mod equivalence;
mod neighbours;
mod observe;
mod seeded;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|a| a == "--list") {
        // what cargo asks a target without its harness
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
    let injected = observe::notices_injected_differences();
    let cases = cases::all(full, &only);
    let compared = equivalence::compare(&cases);
    let leaks = if only.is_empty() || only.iter().any(|w| w == "canary") {
        canary::search(full)
    } else {
        canary::Leaks::default()
    };
    let unseen = observe::shapes_were_never_seen().filter(|_| only.is_empty());
    for line in injected.iter().chain(&leaks.differences).chain(&unseen) {
        println!("DIFFERS {line}");
    }
    println!(
        "{} groups, of them {} refused alike; {} runs with a canary over swapped and hostile files; slowest run {:.1} s ({})",
        compared.groups, compared.refused, leaks.pairs, compared.slowest.0, compared.slowest.1
    );
    let differing = compared.differing + leaks.differences.len() + injected.len() + usize::from(unseen.is_some());
    println!("pairs {}, differing {differing}", compared.pairs + leaks.pairs);
    if differing == 0 && compared.pairs + leaks.pairs > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
