//! Terms, rules, torn writes at every byte, damage, full disks.

use super::*;
use crate::{Event, Neighbours, Relation, certify};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const RECORDS: Neighbours = Neighbours::of_records(Relation::ZeroOut);

fn total(epsilon: f64, delta: f64) -> Terms {
    RECORDS.within(Budget::new(epsilon, delta).unwrap())
}

fn purpose() -> Purpose {
    Purpose { label: "census".into(), terms: total(4.0, 1e-5), unit_names: Vec::new(), rule: None }
}

fn certificate(event: Event, epsilon: f64, delta: f64) -> Certificate {
    certify(&event, Neighbours::of_records(Relation::ZeroOut).within(Budget::new(epsilon, delta).unwrap())).unwrap()
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
    let ledger = Ledger::open_or_create(&path, &purpose()).unwrap();
    (directory, path, ledger)
}

/// A run of the size that `room` gives fits, and it gives none where nothing fits: at δ = 0 pure runs are priced, which Gaussian ones of no noise are not.
#[test]
fn what_fits_next_is_true_of_pure_runs() {
    let pure = |epsilon: f64| certificate(Event::ApproxDp { epsilon, delta: 0.0 }, epsilon, 0.0);
    for (delta, first, runs) in [(0.0, 0.25, 4), (0.0, 0.3, 3), (1e-5, 0.5, 1), (1e-5, 0.05, 3), (0.0, 1.0, 0)] {
        let directory = directory();
        let purpose = Purpose { terms: total(1.0, delta), ..purpose() };
        let open = || Ledger::open_or_create(directory.path().join("l.jsonl"), &purpose).unwrap();
        for _ in 0..runs {
            open().charge("run", &pure(first)).unwrap();
        }
        let room = open().room(0.0).unwrap();
        let bound = (1.0 - first * f64::from(runs)).max(0.0);
        assert!(if runs == 4 { room == 0.0 } else { room > 0.0 }, "{delta} {first}: {room}");
        assert!(delta > 0.0 || room <= bound + 1e-9 && room >= 0.99 * bound - 1e-9, "{first}: {room} of {bound}");
        if room > 0.0 {
            open().charge("next", &pure(room)).unwrap();
            assert!(open().room(0.0).unwrap() < 0.02, "{}", open().room(0.0).unwrap());
        }
    }
}

#[test]
fn terms_of_files_never_command_a_terminal() {
    let (_directory, path, mut ledger) = new_ledger();
    ledger.charge("run", &gaussian()).unwrap();
    let other = Purpose { label: "x\u{9b}2J".into(), ..purpose() };
    let refused = Ledger::open_or_create(&path, &other).unwrap_err().to_string();
    assert!(refused.contains("x\u{fffd}2J") && !refused.contains(char::is_control), "{refused}");
}

#[test]
fn numbers_are_cut_and_never_rounded_up() {
    for (x, cut) in
        [(0.1, 0.1), (0.3, 0.3), (0.09997, 0.0999), (1.0, 1.0), (123.456, 123.0), (2.5e-7, 2.5e-7), (0.0, 0.0)]
    {
        assert_eq!(three_digits_down(x), cut);
        let below = x.next_down().max(0.0);
        assert!(three_digits_down(below) <= below);
    }
}

#[test]
fn charges_add_up_over_reopening_and_end() {
    let (_directory, path, mut ledger) = new_ledger();
    assert_eq!(ledger.status().unwrap().rule, None);
    let quote = ledger.quote(&gaussian()).unwrap();
    assert!(quote.rule == Rule::Renyi && quote.first && quote.before == 0.0 && quote.after > 0.0, "{quote:?}");
    assert_eq!(ledger.status().unwrap().share, 0.0);
    let mut count = 0;
    let refusal = loop {
        // another process each time
        let mut ledger = Ledger::open_or_create(&path, &purpose()).unwrap();
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
    let gdp = Purpose { rule: Some(Rule::Gdp), ..purpose() };
    let mut ledger = Ledger::open_or_create(&path, &gdp).unwrap();
    ledger.charge("newton", &gaussian()).unwrap();
    let sampled = Event::gaussian(5.0).poisson_sampled(0.1).self_composed(10);
    assert!(matches!(
        ledger.charge("sgd", &certificate(sampled, 1.0, 1e-6)),
        Err(LedgerError::Refused { refusal: Refusal::Unsupported { .. }, .. })
    ));
    // who does not care about the rule may use it, who asks for another may not
    Ledger::open_or_create(&path, &purpose()).unwrap();
    let other = Purpose { rule: Some(Rule::Basic), ..purpose() };
    assert!(matches!(Ledger::open_or_create(&path, &other), Err(LedgerError::Terms { field: "rule", .. })));
    let hopeless = Purpose { rule: Some(Rule::Renyi), terms: total(1.0, 0.0), ..purpose() };
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
fn other_terms_are_refused_and_both_are_named() {
    let (_directory, path, mut ledger) = new_ledger();
    ledger.charge("run", &gaussian()).unwrap();
    let replaced = Neighbours::of_records(Relation::ReplaceOne).within(purpose().terms.budget);
    let users = Neighbours::of_users(Relation::ZeroOut).within(purpose().terms.budget);
    for (other, field) in [
        (Purpose { terms: total(5.0, 1e-5), ..purpose() }, "total budget"),
        (Purpose { terms: replaced, ..purpose() }, "relation"),
        (Purpose { terms: users, ..purpose() }, "unit"),
        (Purpose { label: "other".into(), ..purpose() }, "data set"),
        (Purpose { unit_names: vec!["patient".into()], ..purpose() }, "unit's name"),
    ] {
        let error = Ledger::open_or_create(&path, &other).unwrap_err();
        assert!(matches!(&error, LedgerError::Terms { field: f, .. } if *f == field), "{error}");
    }
    let error = Ledger::open_or_create(&path, &Purpose { terms: total(5.0, 1e-5), ..purpose() });
    let text = error.unwrap_err().to_string();
    assert!(text.contains("epsilon 4,") && text.contains("epsilon 5,"), "{text}");
    // a certificate for other neighbours: of another relation, or of another unit, in both directions
    let mut records = Ledger::open_or_create(&path, &purpose()).unwrap();
    let before = std::fs::read(&path).unwrap();
    let certified = |neighbours: Neighbours| {
        certify(&Event::gaussian(10.0), neighbours.within(Budget::new(1.0, 1e-6).unwrap())).unwrap()
    };
    let replaced = certified(replaced.neighbours);
    assert!(matches!(records.charge("run", &replaced), Err(LedgerError::Terms { field: "relation", .. })));
    assert!(matches!(records.quote(&certified(users.neighbours)), Err(LedgerError::Terms { field: "unit", .. })));
    let refused = records.charge("run", &certified(users.neighbours)).unwrap_err();
    assert!(
        refused.to_string().contains("started with unit record, which cannot be changed, but this run has user"),
        "{refused}"
    );
    assert_eq!(std::fs::read(&path).unwrap(), before);
    let place = directory();
    let mut of_users =
        Ledger::open_or_create(place.path().join("users.jsonl"), &Purpose { terms: users, ..purpose() }).unwrap();
    let refused = of_users.charge("run", &certified(RECORDS)).unwrap_err();
    assert!(matches!(refused, LedgerError::Terms { field: "unit", .. }), "{refused}");
    of_users.charge("run", &certified(users.neighbours)).unwrap();
}

#[test]
fn units_of_other_columns_have_no_place_in_a_ledger() {
    let terms = Neighbours::of_users(Relation::ZeroOut).within(purpose().terms.budget);
    let of = |label: &str, names: &[&str]| Purpose {
        label: label.into(),
        terms,
        unit_names: names.iter().map(|name| name.to_string()).collect(),
        rule: None,
    };
    let place = directory();
    let file = |name: &str, first: &Purpose, then: &Purpose| {
        let path = place.path().join(name);
        Ledger::open_or_create(&path, first).unwrap();
        Ledger::open_or_create(&path, then).map(drop).map_err(|why| why.to_string())
    };
    assert_eq!(file("same", &of("x", &["a", "b"]), &of("x", &["a", "b"])), Ok(()));
    // two columns, and one of a name that reads like them
    let message = file("two", &of("x", &["a", "b"]), &of("x", &["a and b"])).unwrap_err();
    assert!(
        message.contains("unit's name `a` and `b`, which cannot be changed, but this run has `a and b`"),
        "{message}"
    );
    let message = file("unnamed", &of("x", &["a"]), &of("x", &[])).unwrap_err();
    assert!(message.contains("unit's name `a`, which cannot be changed, but this run has no name"), "{message}");
    assert!(file("named", &of("x", &[]), &of("x", &["a"])).is_err());
    // older files say it in their label
    assert_eq!(file("older", &of("values of a", &[]), &of("values of a", &["a"])), Ok(()));
    assert_eq!(Ledger::open(place.path().join("same")).unwrap().status().unwrap().purpose.unit_names, ["a", "b"]);
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
        let mut ledger = Ledger::open_or_create(&torn, &purpose()).unwrap_or_else(|e| panic!("cut at {cut}: {e}"));
        assert_eq!(ledger.status().unwrap().charges.len(), complete, "cut at {cut}");
        let receipt = ledger.charge("after", &gaussian()).unwrap();
        assert_eq!(receipt.number, complete + 1, "cut at {cut}");
        // what was on disk is still there, byte by byte
        assert_eq!(&std::fs::read(&torn).unwrap()[..cut], &whole[..cut]);
        let status = Ledger::open_or_create(&torn, &purpose()).unwrap().status().unwrap();
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
        match Ledger::open_or_create(&path, &purpose()) {
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
        match Ledger::open_or_create(&path, &purpose()) {
            Err(LedgerError::Damaged { .. }) => {}
            // no longer known for a ledger, and as little written to
            Err(LedgerError::NotALedger { .. }) if place < record::FORMAT_START.len() => {}
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
        let mut ledger = on_a_full_disk(&path);
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
    // the very first charge: cut in the header, and in the line behind it
    for free in [10, 260] {
        let path = directory.path().join(format!("new-{free}.jsonl"));
        FREE.store(free, Ordering::SeqCst);
        let mut first = Ledger::prepare(&path, &purpose(), Access::default()).unwrap();
        first.append = full_disk;
        first.charge("run", &gaussian()).unwrap_err();
        FREE.store(usize::MAX, Ordering::SeqCst);
        let mut ledger = Ledger::prepare(&path, &purpose(), Access::default()).unwrap();
        assert_eq!(ledger.status().unwrap().cuts.len(), 1);
        assert_eq!(ledger.charge("run", &gaussian()).unwrap().number, 1);
        assert_eq!(Ledger::open(&path).unwrap().status().unwrap().charges.len(), 1);
    }
}

fn on_a_full_disk(path: &Path) -> Ledger {
    Ledger { append: full_disk, ..Ledger::open_or_create(path, &purpose()).unwrap() }
}

#[test]
fn a_refused_first_charge_leaves_no_file() {
    let directory = directory();
    let path = directory.path().join("budget.jsonl");
    let mut ledger = Ledger::prepare(&path, &purpose(), Access::default()).unwrap();
    ledger.quote(&gaussian()).unwrap();
    let dear = certificate(Event::gaussian(0.5), 60.0, 1e-6);
    assert!(matches!(ledger.charge("run", &dear), Err(LedgerError::Refused { .. })));
    assert!(!path.exists());
    // the rule that was tried for it is not in force
    ledger.charge("run", &gaussian()).unwrap();
    assert_eq!(ledger.status().unwrap().rule, Some(Rule::Renyi));
}

#[test]
fn receipts_find_a_ledger_that_lost_their_charge() {
    let (directory, path, mut ledger) = new_ledger();
    let receipts: Vec<Receipt> = (0..3).map(|_| ledger.charge("run", &gaussian()).unwrap()).collect();
    let status = ledger.status().unwrap();
    assert!(receipts.iter().all(|r| status.find(r) == Found::There));
    let text = std::fs::read_to_string(&path).unwrap();
    for receipt in &receipts {
        assert!(text.lines().nth(receipt.number).unwrap().ends_with(&format!("\"check\":\"{}\"}}", receipt.check)));
    }
    // a backup from before the third; then charged anew
    let early: String = text.split_inclusive('\n').take(3).collect();
    std::fs::write(&path, early).unwrap();
    let mut restored = Ledger::open(&path).unwrap();
    assert_eq!(
        receipts.iter().map(|r| restored.status().unwrap().find(r)).collect::<Vec<_>>(),
        [Found::There, Found::There, Found::Lost]
    );
    restored.charge("another run", &gaussian()).unwrap();
    assert_eq!(restored.status().unwrap().find(&receipts[2]), Found::Other);
    // a ledger of its own
    let mut other = Ledger::open_or_create(directory.path().join("other.jsonl"), &purpose()).unwrap();
    other.charge("other", &gaussian()).unwrap();
    assert_eq!(other.status().unwrap().find(&receipts[0]), Found::Other);
    let none = Receipt { number: 0, ..receipts[0].clone() };
    assert_eq!(other.status().unwrap().find(&none), Found::Lost);
}

#[test]
fn what_is_not_a_ledger_is_not_written_to() {
    let directory = directory();
    let path = directory.path().join("note");
    for text in ["hello", "hello\n", "{}", "{\n  \"format\": \"dpopt-model\"", "\0\0\0\0"] {
        std::fs::write(&path, text).unwrap();
        for opened in [Ledger::open_or_create(&path, &purpose()), Ledger::open(&path)] {
            assert!(matches!(opened, Err(LedgerError::NotALedger { .. })), "{text:?}");
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
    assert!(matches!(Ledger::open_or_create(directory.path(), &purpose()), Err(LedgerError::NotALedger { .. })));
    if cfg!(unix) {
        assert!(matches!(Ledger::open_or_create("/dev/zero", &purpose()), Err(LedgerError::NotALedger { .. })));
        assert!(matches!(Ledger::open("/dev/null"), Err(LedgerError::NotALedger { .. })));
    }
    // an empty file may become one, but is none
    std::fs::write(&path, "").unwrap();
    assert!(matches!(Ledger::open(&path), Err(LedgerError::NotALedger { .. })));
    Ledger::open_or_create(&path, &purpose()).unwrap().charge("run", &gaussian()).unwrap();
}

static NOTICES: AtomicUsize = AtomicUsize::new(0);

#[test]
fn a_held_file_is_waited_for_but_not_for_ever() {
    let (_directory, path, mut ledger) = new_ledger();
    ledger.charge("run", &gaussian()).unwrap();
    let held = File::open(&path).unwrap();
    held.lock().unwrap();
    let tell = |text: &str| {
        assert!(text.contains("locked by"), "{text}");
        NOTICES.fetch_add(1, Ordering::SeqCst);
    };
    let access = Access { patience: Duration::from_millis(900), tell };
    let started = Instant::now();
    let refused = Ledger::prepare(&path, &purpose(), access);
    assert!(matches!(refused, Err(LedgerError::Held { .. })));
    assert!(started.elapsed() >= access.patience && NOTICES.load(Ordering::SeqCst) == 1);
    let free = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        drop(held);
    });
    // how late the other thread lets go on a busy machine is nothing of this
    Ledger::prepare(&path, &purpose(), Access { patience: Duration::from_secs(60), ..access }).unwrap();
    free.join().unwrap();
}

/// A process that waited for a file which was replaced meanwhile does not append to the old one.
#[cfg(unix)]
#[test]
fn a_file_that_is_replaced_while_it_is_waited_for_is_opened_anew() {
    let (directory, path, mut ledger) = new_ledger();
    ledger.charge("run", &gaussian()).unwrap();
    let held = File::open(&path).unwrap();
    held.lock().unwrap();
    let waiting = std::thread::spawn(move || ledger.charge("second", &gaussian()));
    std::thread::sleep(Duration::from_millis(100));
    let copy = directory.path().join("copy");
    std::fs::copy(&path, &copy).unwrap();
    std::fs::rename(&copy, &path).unwrap();
    drop(held);
    waiting.join().unwrap().unwrap();
    assert_eq!(Ledger::open(&path).unwrap().status().unwrap().charges.len(), 2);
}

#[test]
fn labels_cannot_forge_lines() {
    let (_directory, path, mut ledger) = new_ledger();
    let label = "x\n{\"charge\":2}\u{1e}\",\"check\":\"0123456789abcdef\"}";
    ledger.charge(label, &gaussian()).unwrap();
    let status = Ledger::open_or_create(&path, &purpose()).unwrap().status().unwrap();
    assert_eq!(status.charges.len(), 1);
    assert_eq!(status.charges[0].label, label);
}
