//! Terms, rules, torn writes at every byte, damage, full disks.

use super::*;
use crate::{Event, certify};
use std::sync::atomic::{AtomicUsize, Ordering};

fn terms() -> Terms {
    Terms {
        label: "census".into(),
        relation: Relation::ZeroOut,
        unit: Unit::Record,
        total: Budget::new(4.0, 1e-5).unwrap(),
        rule: None,
    }
}

fn certificate(event: Event, epsilon: f64, delta: f64) -> Certificate {
    certify(&event, Relation::ZeroOut, Budget::new(epsilon, delta).unwrap()).unwrap()
}

fn gaussian() -> Certificate {
    certificate(Event::gaussian(5.0), 1.0, 1e-6)
}

/// In memory where the system has it: syncing a disk a thousand times is slow.
fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn new_ledger() -> (tempfile::TempDir, PathBuf, Ledger) {
    let directory = directory();
    let path = directory.path().join("budget.jsonl");
    let ledger = Ledger::open_or_create(&path, &terms()).unwrap();
    (directory, path, ledger)
}

#[test]
fn charges_add_up_over_reopening_and_end() {
    let (_directory, path, mut ledger) = new_ledger();
    assert_eq!(ledger.status().unwrap().rule, None);
    ledger.would_accept(&gaussian()).unwrap();
    assert_eq!(ledger.status().unwrap().share, 0.0);
    let mut count = 0;
    let refusal = loop {
        // another process each time
        let mut ledger = Ledger::open_or_create(&path, &terms()).unwrap();
        match ledger.charge("run", &gaussian()) {
            Ok(receipt) => {
                count += 1;
                assert_eq!(receipt.number, count);
            }
            Err(error) => break error,
        }
    };
    assert!(matches!(refusal, LedgerError::Refused { refusal: Refusal::Exceeded { rule: Rule::Renyi, .. }, .. }));
    let status = ledger.status().unwrap();
    assert_eq!((status.rule, status.charges.len()), (Some(Rule::Renyi), count));
    // never over, and the last one did not fit
    let exact = |n: usize| {
        let all = Event::gaussian(5.0).self_composed(n as u64);
        crate::accountant::epsilon(&all, Relation::ZeroOut, 1e-5).unwrap().upper
    };
    assert!(exact(count) <= 4.0 && status.epsilon <= 4.0 && status.share > 0.9, "{count} {status:?}");
    assert!(exact(count) > 3.4, "the rule wastes too much: {count} charges cost {}", exact(count));
}

#[test]
fn first_charge_decides_between_renyi_and_basic() {
    // its own δ is far above the reserved share, but its (ε, δ) fits the totals
    let (_directory, _, mut ledger) = new_ledger();
    let own_delta = certificate(Event::ApproxDp { epsilon: 1.0, delta: 4e-6 }, 1.0, 4e-6);
    ledger.charge("screening", &own_delta).unwrap();
    ledger.charge("screening again", &own_delta).unwrap();
    let status = ledger.status().unwrap();
    assert_eq!(status.rule, Some(Rule::Basic));
    assert!((status.epsilon - 2.0).abs() < 1e-9);
    // Σδ: 8e-6 of 1e-5 are spent
    assert!(matches!(ledger.charge("third", &own_delta), Err(LedgerError::Refused { .. })));
    ledger.charge("other", &certificate(Event::gaussian(10.0), 1.0, 1e-6)).unwrap();

    // under the Rényi rule it never fits, whatever is left
    let (_directory, _, mut ledger) = new_ledger();
    ledger.charge("fit", &gaussian()).unwrap();
    let refusal = ledger.charge("screening", &own_delta).unwrap_err().to_string();
    assert!(refusal.contains("basic rule"), "{refusal}");
    assert_eq!(ledger.status().unwrap().charges.len(), 1);
}

#[test]
fn a_rule_can_be_fixed_from_the_start() {
    let directory = directory();
    let path = directory.path().join("gdp.jsonl");
    let gdp = Terms { rule: Some(Rule::Gdp), ..terms() };
    let mut ledger = Ledger::open_or_create(&path, &gdp).unwrap();
    ledger.charge("newton", &gaussian()).unwrap();
    let sampled = Event::gaussian(5.0).poisson_sampled(0.1).self_composed(10);
    assert!(matches!(
        ledger.charge("sgd", &certificate(sampled, 1.0, 1e-6)),
        Err(LedgerError::Refused { refusal: Refusal::Unsupported { .. }, .. })
    ));
    // who does not care about the rule may use it, who asks for another may not
    Ledger::open_or_create(&path, &terms()).unwrap();
    let other = Terms { rule: Some(Rule::Basic), ..terms() };
    assert!(matches!(Ledger::open_or_create(&path, &other), Err(LedgerError::Terms { field: "rule", .. })));
    let hopeless = Terms { rule: Some(Rule::Renyi), total: Budget::new(1.0, 0.0).unwrap(), ..terms() };
    assert!(Ledger::open_or_create(directory.path().join("pure.jsonl"), &hopeless).is_err());
}

#[test]
fn every_kind_of_plan_has_a_price() {
    let (_directory, _, mut ledger) = new_ledger();
    let objective = Event::ObjectivePerturbation {
        noise_multiplier: 20.0,
        regularization: 10.0,
        link: crate::event::GlmLink::Monotone,
    };
    let events = [
        Event::gaussian(4.0).poisson_sampled(0.01).self_composed(100),
        Event::gaussian(30.0).sampled_without_replacement(1000, 10).self_composed(10),
        Event::composed(vec![objective, Event::gaussian(3619.0)]),
        Event::laplace(20.0),
        Event::ExponentialMechanism { epsilon: 0.1 }.self_composed(4),
    ];
    for event in events {
        let name = event.to_string();
        // certified at their own Rényi value: the ledger reads event and δ only
        let certificate = certificate(event, 4.0, 1e-6);
        ledger.charge(&name, &certificate).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    let status = ledger.status().unwrap();
    assert_eq!(status.charges.len(), 5);
    assert!(status.share > 0.0 && status.share < 1.0 && status.epsilon < 4.0);
}

#[test]
fn other_terms_are_refused_and_both_are_told() {
    let (_directory, path, _) = new_ledger();
    for (other, field) in [
        (Terms { total: Budget::new(5.0, 1e-5).unwrap(), ..terms() }, "total budget"),
        (Terms { relation: Relation::ReplaceOne, ..terms() }, "relation"),
        (Terms { unit: Unit::User, ..terms() }, "unit"),
        (Terms { label: "other".into(), ..terms() }, "data set"),
    ] {
        let error = Ledger::open_or_create(&path, &other).unwrap_err();
        assert!(matches!(&error, LedgerError::Terms { field: f, .. } if *f == field), "{error}");
    }
    let error = Ledger::open_or_create(&path, &Terms { total: Budget::new(5.0, 1e-5).unwrap(), ..terms() });
    let text = error.unwrap_err().to_string();
    assert!(text.contains("epsilon 4,") && text.contains("epsilon 5,"), "{text}");
    // a certificate for another relation
    let mut ledger = Ledger::open_or_create(&path, &terms()).unwrap();
    let budget = Budget::new(1.0, 1e-6).unwrap();
    let replaced = certify(&Event::gaussian(10.0), Relation::ReplaceOne, budget).unwrap();
    assert!(matches!(ledger.charge("run", &replaced), Err(LedgerError::Terms { field: "relation", .. })));
}

/// A file cut as by kill -9 or a power cut: it opens, complete charges count, the cut one counts only if all of it but the
/// newline is there, and it can be charged again. (Every byte: `record::tests`; here a sample, through real files.)
#[test]
fn torn_files_go_on() {
    let (directory, path, mut ledger) = new_ledger();
    ledger.charge("first", &gaussian()).unwrap();
    ledger.charge("second", &gaussian()).unwrap();
    let whole = std::fs::read(&path).unwrap();
    let ends: Vec<usize> = whole.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(i, _)| i).collect();
    assert_eq!(ends.len(), 3);
    let torn = directory.path().join("torn.jsonl");
    let cuts = ends.iter().flat_map(|end| [end - 40, end - 1, *end, end + 1]).chain([0, 1]);
    for cut in cuts {
        std::fs::write(&torn, &whole[..cut]).unwrap();
        // charges whose closing brace is there
        let complete = ends[1..].iter().filter(|end| cut >= **end).count();
        let mut ledger = Ledger::open_or_create(&torn, &terms()).unwrap_or_else(|e| panic!("cut at {cut}: {e}"));
        assert_eq!(ledger.status().unwrap().charges.len(), complete, "cut at {cut}");
        let receipt = ledger.charge("after", &gaussian()).unwrap();
        assert_eq!(receipt.number, complete + 1, "cut at {cut}");
        // what was on disk is still there, byte by byte
        assert_eq!(&std::fs::read(&torn).unwrap()[..cut], &whole[..cut]);
        let status = Ledger::open_or_create(&torn, &terms()).unwrap().status().unwrap();
        assert_eq!(status.charges.last().unwrap().label, "after");
    }
}

#[test]
fn damage_is_found_and_its_line_named() {
    let (_directory, path, mut ledger) = new_ledger();
    for label in ["one", "two", "three"] {
        ledger.charge(label, &gaussian()).unwrap();
    }
    drop(ledger);
    let whole = std::fs::read_to_string(&path).unwrap();
    let line_of = |text: &str| {
        std::fs::write(&path, text).unwrap();
        match Ledger::open_or_create(&path, &terms()) {
            Err(LedgerError::Damaged { line, .. }) => Some(line),
            Err(error) => panic!("{error}"),
            Ok(_) => None,
        }
    };
    // cheaper event, larger totals, removed and swapped lines
    assert_eq!(line_of(&whole.replacen("\"noise_multiplier\":5.0", "\"noise_multiplier\":9.0", 1)), Some(2));
    assert_eq!(line_of(&whole.replacen("\"epsilon\":4.0", "\"epsilon\":9.0", 1)), Some(1));
    let lines: Vec<&str> = whole.lines().collect();
    assert_eq!(line_of(&format!("{}\n{}\n{}\n", lines[0], lines[2], lines[3])), Some(2));
    assert_eq!(line_of(&format!("{}\n{}\n{}\n{}\n", lines[0], lines[2], lines[1], lines[3])), Some(2));
    assert_eq!(line_of(&format!("{}\nnonsense\n", lines[0])), Some(2));
    assert_eq!(line_of(&format!("{}\n\n{}\n", lines[0], lines[1])), Some(2));
    // any single changed byte is found, or at worst the last line is incomplete
    for place in (0..whole.len()).step_by(3) {
        let mut bytes = whole.clone().into_bytes();
        bytes[place] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        match Ledger::open_or_create(&path, &terms()) {
            Err(LedgerError::Damaged { .. }) => {}
            // the newline of the last line, which carries no charge
            Ok(mut ledger) => assert_eq!(ledger.status().unwrap().charges.len(), 3, "byte {place}"),
            Err(error) => panic!("byte {place}: {error}"),
        }
    }
    assert_eq!(line_of(&whole), None);
}

#[test]
fn a_vanished_file_is_not_a_fresh_budget() {
    let (_directory, path, mut ledger) = new_ledger();
    ledger.charge("one", &gaussian()).unwrap();
    let early = std::fs::read(&path).unwrap();
    ledger.charge("two", &gaussian()).unwrap();
    std::fs::write(&path, early).unwrap();
    assert!(matches!(ledger.charge("three", &gaussian()), Err(LedgerError::RolledBack { .. })));
    std::fs::write(&path, "").unwrap();
    assert!(matches!(ledger.charge("three", &gaussian()), Err(LedgerError::RolledBack { .. })));
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(ledger.charge("three", &gaussian()), Err(LedgerError::Io { action: "open", .. })));
}

/// How many bytes the disk of [`full_disk`] still takes.
static FREE: AtomicUsize = AtomicUsize::new(usize::MAX);

fn full_disk(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    let take = bytes.len().min(FREE.load(Ordering::SeqCst));
    file.write_all(&bytes[..take])?;
    FREE.fetch_sub(take, Ordering::SeqCst);
    if take < bytes.len() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
}

#[test]
fn a_full_disk_is_an_error_and_nothing_is_charged() {
    let directory = directory();
    let path = directory.path().join("budget.jsonl");
    for free in [0, 1, 17, 100, 250] {
        FREE.store(usize::MAX, Ordering::SeqCst);
        let mut ledger = Ledger::open_with(&path, &terms(), full_disk).unwrap();
        let before = ledger.status().unwrap().charges.len();
        FREE.store(free, Ordering::SeqCst);
        let error = ledger.charge("run", &gaussian()).unwrap_err();
        assert!(matches!(&error, LedgerError::Io { action: "append to", .. }), "{error}");
        assert!(error.to_string().contains("nothing was released"));
        assert_eq!(ledger.status().unwrap().charges.len(), before);
        // space again: the same ledger goes on behind the fragment
        FREE.store(usize::MAX, Ordering::SeqCst);
        ledger.charge("run", &gaussian()).unwrap();
        assert_eq!(ledger.status().unwrap().charges.len(), before + 1);
    }
    FREE.store(10, Ordering::SeqCst);
    assert!(Ledger::open_with(&directory.path().join("new.jsonl"), &terms(), full_disk).is_err());
    FREE.store(usize::MAX, Ordering::SeqCst);
    Ledger::open_with(&directory.path().join("new.jsonl"), &terms(), full_disk).unwrap();
}

#[test]
fn labels_cannot_forge_lines() {
    let (_directory, path, mut ledger) = new_ledger();
    let label = "x\n{\"charge\":2}\u{1e}\",\"check\":\"0123456789abcdef\"}";
    ledger.charge(label, &gaussian()).unwrap();
    let status = Ledger::open_or_create(&path, &terms()).unwrap().status().unwrap();
    assert_eq!(status.charges.len(), 1);
    assert_eq!(status.charges[0].label, label);
}
