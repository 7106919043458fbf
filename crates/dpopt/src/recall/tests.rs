//! The list that ships against files that it concerns and files that it does not; lists that are newer, older and wrong.

use super::*;
use crate::guarantee::Guarantee;
use dpopt_objective::objective::Evidence;
use dpopt_privacy::ledger::{Entry, Purpose};
use dpopt_privacy::{Budget, Event, Neighbours, certify};

const BUDGET: (f64, f64) = (8.0, 1e-6);

fn guarantee(event: &Event, neighbours: Neighbours) -> Guarantee {
    let terms = neighbours.within(Budget::new(BUDGET.0, BUDGET.1).unwrap());
    let certificate = certify(event, terms).unwrap();
    Guarantee::new(terms, false).with("model", Evidence::Proved, &certificate).unwrap()
}

/// A released file of version 0.1.0 as early programs wrote it, with `more` fields.
fn file(event: &Event, relation: Relation, more: Value) -> Value {
    let mut file = json!({ "software": "0.1.0", "guarantee": guarantee(event, Neighbours::of_records(relation)) });
    for (key, value) in more.as_object().unwrap() {
        file[key] = value.clone();
    }
    file
}

fn model(event: &Event, relation: Relation) -> Value {
    file(event, relation, json!({ "format": "dpopt-model", "version": 1, "weights": [0.5] }))
}

fn report(method: &str, answer: &str, event: &Event, relation: Relation) -> Value {
    let other = json!({ "method": "noisy-newton", "not_applicable": "too few rows" });
    let more = json!({ "answer": answer, "candidates": [other, { "method": method }], "chosen": 1 });
    file(event, relation, more)
}

fn facts(file: &Value) -> Facts {
    Facts::of_release(file.to_string().as_bytes()).unwrap()
}

/// A ledger with one charge.
fn ledger(event: &Event, neighbours: Neighbours, unit_names: &[&str], time: &str) -> Status {
    let requested = Budget::new(BUDGET.0, BUDGET.1).unwrap();
    let charge = Entry {
        number: 1,
        id: "0".repeat(16),
        label: "run".into(),
        time: time.into(),
        event: event.clone(),
        requested,
        certified_epsilon: 1.0,
        check: "0".repeat(16),
    };
    let purpose = Purpose {
        label: "records".into(),
        terms: neighbours.within(Budget::new(9.0, 1e-4).unwrap()),
        unit_names: unit_names.iter().map(|name| name.to_string()).collect(),
        rule: None,
    };
    Status { purpose, rule: None, share: 0.1, epsilon: 1.0, charges: vec![charge], cuts: Vec::new() }
}

/// Names of the recalls that concern a file or may, and whether each does for certain.
fn found(file: &Value) -> Vec<(String, bool)> {
    let recalls = Recalls::shipped();
    let certain = |notice: Notice<'_>| (notice.recall.id.clone(), notice.concern == Concern::Certain);
    recalls.of(&facts(file)).into_iter().map(certain).collect()
}

fn found_in(ledger: &Status) -> Vec<(String, bool)> {
    let recalls = Recalls::shipped();
    let certain = |notice: LedgerNotice<'_>| (notice.recall.id.clone(), notice.charges[0].1 == Concern::Certain);
    recalls.of_ledger(ledger).into_iter().map(certain).collect()
}

fn has(found: &[(String, bool)], number: u32) -> bool {
    found.iter().any(|(id, _)| *id == format!("DPOPT-2026-{number:03}"))
}

fn with_histograms() -> Event {
    let parts = vec![Event::gaussian(20.0).self_composed(2), Event::gaussian(60.0).self_composed(400)];
    Event::composed(parts).approximate(1e-29)
}

fn several_on_one_sample() -> Event {
    let releases = vec![Event::gaussian(5.0), Event::gaussian(5.0).approximate(1e-9)];
    Event::composed(releases).poisson_sampled(0.1).self_composed(10)
}

#[test]
fn the_list_that_ships_is_in_order_and_the_changelog_names_each_of_it() {
    let recalls = Recalls::shipped();
    let changelog = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../CHANGELOG.md")).unwrap();
    let security = changelog.split("### Security").nth(1).and_then(|rest| rest.split("### ").next()).unwrap();
    assert!(recalls.all().len() >= 9 && recalls.date() >= "2026-11-29");
    assert!(recalls.all().windows(2).all(|pair| pair[0].id < pair[1].id));
    for recall in recalls.all() {
        assert_eq!(security.matches(&recall.id).count(), 1, "{}", recall.id);
        assert!(recall.summary.ends_with('.') && recall.follows.ends_with('.'), "{}", recall.id);
        assert!(recall.date.as_str() <= recalls.date(), "{}", recall.id);
    }
    let named = security.matches("DPOPT-2026-").count();
    assert_eq!(named, recalls.all().len(), "the changelog names recalls that the list does not have");
}

#[test]
fn adaptive_clips_under_zero_out() {
    let event = with_histograms();
    assert!(has(&found(&model(&event, Relation::ZeroOut)), 1));
    assert!(has(&found(&report("adaptive-clip-descent", "linear-model", &event, Relation::ZeroOut)), 1));
    let others = [
        model(&event, Relation::ReplaceOne),
        model(&Event::gaussian(9.0).self_composed(20), Relation::ZeroOut),
        report("centred-descent", "linear-model", &event, Relation::ZeroOut),
    ];
    assert!(others.iter().all(|file| !has(&found(file), 1)));
    let charged = |time| found_in(&ledger(&event, Neighbours::of_records(Relation::ZeroOut), &[], time));
    assert!(!has(&charged("2026-11-24T06:00:00Z"), 1));
    // a ledger does not name the method, and an old program may be run at any time
    for time in ["2026-11-24T09:00:00Z", "2027-03-01T00:00:00Z"] {
        assert!(charged(time).contains(&("DPOPT-2026-001".into(), false)), "{time}");
    }
}

#[test]
fn several_releases_on_one_sample() {
    let (event, once) = (several_on_one_sample(), Event::gaussian(5.0).poisson_sampled(0.1).self_composed(10));
    assert!(has(&found(&model(&event, Relation::AddOrRemove)), 2));
    assert!(!has(&found(&model(&once, Relation::AddOrRemove)), 2));
    let records = Neighbours::of_records(Relation::ZeroOut);
    let early = found_in(&ledger(&event, records, &[], "2026-11-22T12:00:00Z"));
    assert!(early.contains(&("DPOPT-2026-002".into(), true)), "{early:?}");
    assert!(!has(&found_in(&ledger(&once, records, &[], "2026-11-22T12:00:00Z")), 2));
}

#[test]
fn last_iterates_and_objectives_of_ones_own() {
    let event = Event::gaussian(9.0);
    let last = |relation| found(&report("last-iterate", "linear-model", &event, relation));
    assert!(has(&last(Relation::ZeroOut), 3) && !has(&last(Relation::AddOrRemove), 3));
    assert!(!has(&found(&report("noisy-sgd", "linear-model", &event, Relation::ZeroOut)), 3));
    let minimum = report("adam", "minimum", &event, Relation::ZeroOut);
    assert!(has(&found(&minimum), 8) && !has(&found(&minimum), 9));
    let mut checked = minimum.clone();
    checked["guarantee"]["grade"] = "checked".into();
    assert!(!has(&found(&checked), 8));
    assert!(has(&found(&report("adam", "minimum", &event, Relation::AddOrRemove)), 9));
    assert!(!has(&found(&report("adam", "linear-model", &event, Relation::AddOrRemove)), 9));
}

#[test]
fn choices_copies_and_ids_in_ledgers() {
    let choice = Event::PermuteAndFlip { epsilon: 0.5 };
    let of = |event: &Event, relation, time| found_in(&ledger(event, Neighbours::of_records(relation), &[], time));
    assert!(has(&of(&choice, Relation::ReplaceOne, "2026-11-22T12:00:00Z"), 4));
    assert!(!has(&of(&choice, Relation::ZeroOut, "2026-11-22T12:00:00Z"), 4));
    let steps = Event::gaussian(2.0).poisson_sampled(0.01).self_composed(100);
    assert!(has(&of(&steps, Relation::ZeroOut, "2026-11-27T12:00:00Z"), 5));
    assert!(!has(&of(&choice, Relation::ZeroOut, "2026-11-27T12:00:00Z"), 5));
    let persons = Neighbours::of_users(Relation::ZeroOut);
    let named = |names: &[&str]| found_in(&ledger(&choice, persons, names, "2026-11-24T12:00:00Z"));
    assert!(has(&named(&[]), 7) && !has(&named(&["patient"]), 7));
}

#[test]
fn copied_games() {
    let event = Event::gaussian(9.0);
    let game = file(&event, Relation::ZeroOut, json!({ "software": "dpopt 0.1.0", "game": { "experts": 3 } }));
    assert!(has(&found(&game), 6));
    assert!(!has(&found(&file(&event, Relation::ZeroOut, json!({ "software": "dpopt 0.2.0", "game": {} }))), 6));
    assert!(!has(&found(&file(&event, Relation::ZeroOut, json!({ "values": [1.0] }))), 6));
}

#[test]
fn a_file_with_its_build_is_of_a_program_after_all_fixes() {
    let event = Event::composed(vec![with_histograms(), several_on_one_sample()]);
    let mut files = vec![model(&event, Relation::ZeroOut)];
    files.push(report("adaptive-clip-descent", "minimum", &event, Relation::ZeroOut));
    for mut file in files {
        assert!(!found(&file).is_empty());
        file["provenance"] = json!({ "version": "0.1.0", "target": "x86_64-linux" });
        assert_eq!(found(&file), []);
        file["provenance"] = Value::Null;
        assert!(!found(&file).is_empty());
        file["software"] = "0.2.0".into();
        assert_eq!(found(&file), []);
    }
}

const HEAD: &str = "format = \"dpopt-recalls\"\nversion = 1\ndate = \"2027-01-10\"\n";
const ENTRY: &str = "[[recall]]\nid = \"DPOPT-2027-001\"\ndate = \"2027-01-09\"\nsummary = \"A fault.\"\nfollows = \"Fit \
                     again.\"\neffect = \"understated\"\nfiles = [\"model\"]\n";

fn list(more: &str) -> Result<Recalls, RecallError> {
    Recalls::from_toml(&format!("{HEAD}{ENTRY}{more}"))
}

#[test]
fn listed_commits_decide_where_a_file_names_its_own() {
    let recalls =
        list("builds = { before = \"2027-01-09T00:00:00Z\", commits = [\"3d8b1417\", \"0c141ba\"] }\n").unwrap();
    let mut file = model(&Event::gaussian(9.0), Relation::ZeroOut);
    let concern = |file: &Value| recalls.of(&facts(file)).pop().map(|notice| notice.concern);
    assert_eq!(concern(&file), Some(Concern::Possible(vec![Doubt::Build])));
    let built = |commit: &str| json!({ "version": "0.3.0", "commit": commit });
    file["provenance"] = built("0c141ba5e8a1");
    assert_eq!(concern(&file), Some(Concern::Certain));
    let notice = recalls.of(&facts(&file)).pop().unwrap();
    assert!(
        notice.refutes() && notice.to_string().contains("DPOPT-2027-001 (concerns this file): A fault."),
        "{notice}"
    );
    file["provenance"] = built("b08090fb");
    assert_eq!(concern(&file), None);
    file["provenance"] = json!({ "version": "0.3.0" });
    assert_eq!(concern(&file), Some(Concern::Possible(vec![Doubt::Build])));
}

#[test]
fn of_two_lists_the_later_one_counts_and_nothing_is_lost() {
    let shipped = Recalls::shipped();
    let entry = ENTRY.replace("DPOPT-2027-001", "DPOPT-2026-003");
    for (date, words) in [("2027-01-10", "A fault."), ("2026-11-29", "A fault."), ("2026-11-01", "Method last-iterate")]
    {
        let other = format!("{}{}", HEAD.replace("2027-01-10", date), entry);
        let both = shipped.clone().renewed_by(Recalls::from_toml(&other).unwrap());
        assert_eq!(both.all().len(), shipped.all().len());
        assert!(both.all().windows(2).all(|pair| pair[0].id < pair[1].id));
        assert!(both.all()[2].summary.starts_with(words), "{date}");
        assert_eq!(both.date(), date.max(shipped.date()));
    }
    let more = shipped.clone().renewed_by(list("").unwrap());
    assert_eq!(more.all().len(), shipped.all().len() + 1);
}

#[test]
fn wrong_lists_are_refused_whole() {
    assert_eq!(list("").unwrap().all().len(), 1);
    let second = ENTRY.replace("2027-001", "2026-999");
    for (more, why) in [
        ("metods = [\"x\"]\n", "unknown field `metods`"),
        ("files = [\"model\"]\n", "not TOML"),
        ("relations = [\"one-out\"]\n", "one-out"),
        ("relations = []\n", "a list is empty"),
        ("methods = []\n", "a list is empty"),
        ("grades = [\"proved\"]\n", "proved"),
        ("units = [\"row\"]\n", "row"),
        ("versions = \"0.1\"\n", "versions are written"),
        ("events = [\"Gaussian\"]\n", "no class of events"),
        ("builds = {}\n", "builds says nothing"),
        ("builds = { before = \"yesterday\" }\n", "a moment is written"),
        ("builds = { commits = [\"main\"] }\n", "a commit is written"),
        ("builds = { since = \"2027-01-09T00:00:00Z\", before = \"2027-01-08T00:00:00Z\" }\n", "ends before it begins"),
        ("unknown = \"\"\n", "empty, longer than"),
        ("unknown = \"\\u001b[2J\"\n", "not on one line"),
        (ENTRY, "stands twice, or before"),
        (&second, "stands twice, or before"),
    ] {
        let refused = list(more).unwrap_err().to_string();
        assert!(refused.contains(why) && !refused.contains('\u{1b}'), "{more}: {refused}");
    }
    for (from, to, why) in [
        ("DPOPT-2027-001", "DPOPT-27-1", "not of the form"),
        ("files = [\"model\"]", "files = []", "files is empty"),
        ("files = [\"model\"]", "files = [\"table\"]", "table"),
        ("effect = \"understated\"\n", "", "effect"),
        ("version = 1", "version = 2", "update dpopt"),
        ("version = 1\n", "", "no version"),
        ("dpopt-recalls", "dpopt-model", "another format"),
        ("2027-01-10", "10.1.2027", "a date is written"),
    ] {
        let refused = Recalls::from_toml(&format!("{HEAD}{ENTRY}").replace(from, to)).unwrap_err().to_string();
        assert!(refused.contains(why), "{from} → {to}: {refused}");
    }
    for other in ["", "7731977,Zx7731977\n", "Zx7731977 = \"Zx7731977\"\n", "[Zx7731977"] {
        let refused = Recalls::from_toml(other).unwrap_err();
        assert!(
            matches!(refused, RecallError::NotAList { .. }) && !refused.to_string().contains("7731977"),
            "{refused}"
        );
    }
}

#[test]
fn charges_stand_together_in_one_line() {
    let recalls = Recalls::shipped();
    let records = Neighbours::of_records(Relation::ZeroOut);
    let mut status = ledger(&several_on_one_sample(), records, &[], "2026-11-22T12:00:00Z");
    for (number, time) in [(2, "2026-11-23T00:00:00Z"), (3, "2027-01-01T00:00:00Z")] {
        status.charges.push(Entry { number, time: time.into(), ..status.charges[0].clone() });
    }
    let notices = recalls.of_ledger(&status);
    let notice = notices.iter().find(|notice| notice.recall.id == "DPOPT-2026-002").unwrap();
    assert!(notice.to_string().starts_with("recall DPOPT-2026-002 (concerns charges 1, 2): Several"), "{notice}");
    let document = notice.document();
    assert_eq!(document["charges"].as_array().unwrap().len(), 3);
    assert_eq!(
        (&document["charges"][0]["concern"], &document["charges"][2]["concern"]),
        (&json!("certain"), &json!("possible"))
    );
    let copied = notices.iter().find(|notice| notice.recall.id == "DPOPT-2026-005").unwrap();
    assert!(copied.to_string().contains("(may concern charges 1, 2: a ledger does not say"), "{copied}");
    status.charges.drain(..2);
    assert!(recalls.of_ledger(&status).iter().all(LedgerNotice::only_after_fix));
}
