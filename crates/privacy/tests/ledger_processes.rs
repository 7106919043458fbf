//! Several processes, each with several threads, charge one ledger: never more than the total, and every receipt that
//! a killed process had printed is in the file. Own `main`: the same program is parent and child.

use dpopt_privacy::ledger::{Ledger, LedgerError, Purpose};
use dpopt_privacy::{Budget, Certificate, Event, Neighbours, Relation, certify};
use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

fn purpose() -> Purpose {
    let total = Budget::new(2.0, 1e-5).expect("a budget");
    Purpose {
        label: "shared".into(),
        terms: Neighbours::of_records(Relation::ZeroOut).within(total),
        unit_names: Vec::new(),
        rule: None,
    }
}

fn certificate(noise_multiplier: f64) -> Certificate {
    let budget = Budget::new(1.0, 1e-6).expect("a budget");
    certify(&Event::gaussian(noise_multiplier), Neighbours::of_records(Relation::ZeroOut).within(budget))
        .expect("within budget")
}

/// Charges until refused, from two threads; prints each receipt once it may be relied on.
fn child(path: &Path, noise_multiplier: f64) {
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut ledger = Ledger::open_or_create(path, &purpose()).expect("opens");
                loop {
                    match ledger.charge("race", &certificate(noise_multiplier)) {
                        Ok(receipt) => {
                            let mut out = std::io::stdout().lock();
                            writeln!(out, "{}", receipt.id).and_then(|()| out.flush()).expect("parent listens");
                        }
                        Err(LedgerError::Refused { .. }) => break,
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
    });
}

fn spawn(path: &Path, noise_multiplier: f64) -> Child {
    Command::new(std::env::current_exe().expect("own path"))
        .arg("charge-until-refused")
        .arg(path)
        .arg(noise_multiplier.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("child starts")
}

fn receipts(child: &mut Child) -> Vec<String> {
    let out = child.stdout.take().expect("piped");
    BufReader::new(out).lines().map(|line| line.expect("text")).collect()
}

fn race_never_exceeds() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("budget.jsonl");
    let mut children: Vec<Child> = (0..4).map(|_| spawn(&path, 15.0)).collect();
    let mut ids = Vec::new();
    for child in &mut children {
        ids.extend(receipts(child));
        assert!(child.wait().expect("ends").success());
    }
    let status = Ledger::open_or_create(&path, &purpose()).expect("opens").status().expect("reads");
    let distinct: HashSet<&String> = ids.iter().collect();
    assert_eq!(distinct.len(), ids.len(), "two charges share an identity");
    assert_eq!(ids.len(), status.charges.len());
    // exactly as many as one process alone gets
    let alone = directory.path().join("alone.jsonl");
    let mut one = spawn(&alone, 15.0);
    let count = receipts(&mut one).len();
    assert!(one.wait().expect("ends").success());
    assert!(count > 10);
    assert_eq!(ids.len(), count, "racing processes got another number of charges than one alone");
    assert!(status.epsilon <= 2.0);
    println!("race: {count} charges by 8 threads in 4 processes");
}

fn killed_processes_forget_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("budget.jsonl");
    let mut promised = Vec::new();
    for round in 0..12u64 {
        let mut victim = spawn(&path, 150.0);
        std::thread::sleep(Duration::from_millis(8 + 7 * round));
        victim.kill().expect("SIGKILL");
        promised.extend(receipts(&mut victim));
        victim.wait().expect("ends");
        let status = Ledger::open_or_create(&path, &purpose()).expect("opens").status().expect("reads");
        let recorded: HashSet<&str> = status.charges.iter().map(|charge| charge.id.as_str()).collect();
        for id in &promised {
            // the last line of a killed process may be cut
            assert!(id.len() < 16 || recorded.contains(id.as_str()), "charge {id} is lost");
        }
    }
    assert!(promised.len() > 12, "the children were killed before they charged anything");
    println!("kill: {} receipts survived 12 kills", promised.len());
}

fn main() {
    let mut args = std::env::args().skip(1);
    match args.next().as_deref() {
        Some("charge-until-refused") => {
            let path = args.next().expect("path");
            let noise = args.next().and_then(|x| x.parse().ok()).expect("noise multiplier");
            child(Path::new(&path), noise);
        }
        _ => {
            race_never_exceeds();
            killed_processes_forget_nothing();
            println!("test result: ok. 2 passed");
        }
    }
}
