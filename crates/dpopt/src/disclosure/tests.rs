//! Documents about releases of every kind, held against the facts of the registry's schema and against the file that they are about.

mod schema;

use super::{AUDITS, FALSE_POSITIVE_RATES, FILL_IN, Facts, Form, Item, Product, Release, attack_bounds, checklist};
use crate::guarantee::Guarantee;
use crate::recall::Recalls;
use dpopt_objective::objective::Evidence;
use dpopt_privacy::special::normal_cdf;
use dpopt_privacy::{Budget, Event, Neighbours, Relation, Terms, calibrate};
use schema::{Node, faults, parse};
use serde_json::{Value, json};
use std::path::Path;

/// A run with one Gaussian release at ε = 1 and δ = 1e-6.
fn guarantee(neighbours: Neighbours, evidence: Evidence, insecure_seed: bool) -> Guarantee {
    let terms: Terms = neighbours.within(Budget::new(1.0, 1e-6).unwrap());
    let (_, certificate) = calibrate::noise(Event::gaussian, terms).unwrap();
    let mut guarantee = Guarantee::new(terms, insecure_seed).with("model", evidence, &certificate).unwrap();
    if neighbours.unit == dpopt_privacy::Unit::User {
        guarantee.of_units(Some(("person|`<b>$_id".into(), false)));
    }
    guarantee
}

fn rows() -> Neighbours {
    Neighbours::of_records(Relation::ZeroOut)
}

fn classifier(guarantee: &Guarantee) -> Value {
    json!({
        "format": "dpopt-model", "version": 1, "software": "0.1.0", "guarantee": guarantee,
        "receipt": { "number": 3, "id": "59e0f8ae40d6ad7a", "check": "309e20d4da138410" },
        "loss": { "name": "logistic", "shift": 2.0 },
        "encoder": {
            "features": [
                { "column": "age", "as": { "numeric": { "lower": 17.0, "upper": 90.0, "log": false } } },
                { "column": "job|**x**\u{1b}", "as": { "categorical": { "levels": ["a", "b"] } } },
            ],
            "target": { "column": "income: \"# <x>\n", "as": { "classes": { "levels": ["low", "high"] } } },
        },
        "weights": [0.1, 0.2], "what a later version writes": { "commit": "abc" },
    })
}

fn regressor(guarantee: &Guarantee) -> Value {
    json!({
        "software": "0.1.0", "guarantee": guarantee, "loss": { "name": "squared" }, "weights": [0.5],
        "encoder": { "features": [], "target": { "column": "wage", "as": { "number": { "lower": 0, "upper": 9 } } } },
    })
}

fn mean(guarantee: &Guarantee) -> Value {
    json!({
        "dimension": 5, "indices": [1, 4], "values": [0.25, 0.5], "error_bound": 0.125, "guarantee": guarantee,
        "receipt": null,
    })
}

fn read(file: &Value) -> Release {
    Release::read(file.to_string().as_bytes()).expect("a file with a guarantee")
}

fn write(file: &Value, form: Form) -> String {
    read(file).disclose(&Recalls::shipped(), &Facts::default(), form).expect("a guarantee that holds")
}

/// Everything that the registry and the file say agrees.
fn entry(file: &Value) -> Node {
    let text = write(file, Form::Registry);
    let entry = parse(&text);
    assert_eq!(faults(&entry), Vec::<String>::new(), "{text}");
    // no character that commands a terminal, and no text that is markup
    assert!(!text.chars().any(|c| c.is_control() && c != '\n') && !text.contains("<x>"), "{text}");
    entry
}

#[test]
fn entries_of_models_and_means_fit_the_registry() {
    let rows = guarantee(rows(), Evidence::Proved, false);
    let people = guarantee(Neighbours::of_users(Relation::ReplaceOne), Evidence::Proved, false);
    for (file, product, unit) in [
        (classifier(&rows), "Machine learning model", "row"),
        (regressor(&rows), "Machine learning model", "row"),
        (mean(&rows), "Summary statistics", "row"),
        (classifier(&people), "Machine learning model", r"person\|\`&lt;b&gt;\$\_id"),
    ] {
        let entry = entry(&file);
        let of = |path: &str| entry.at(path).unwrap_or_else(|| panic!("no {path}")).text();
        assert_eq!(of("deployment/basic/data_product_type"), product);
        assert_eq!(of("deployment/privacy_loss/privacy_unit"), unit);
        assert_eq!(of("deployment/privacy_loss/privacy_parameters/epsilon"), "1");
        assert_eq!(of("deployment/privacy_loss/privacy_parameters/delta"), "1.0e-6");
        assert_eq!(of("deployment/dp_variant/variant_name"), "Approximate DP");
        assert_eq!(of("deployment/deployment_model/model_name"), "Central");
        assert!(of("deployment/accounting/composition").contains("Gaussian mechanism"));
        assert!(of("deployment/implementation/mechanisms").contains("Event of the stage model: Gaussian("));
        assert!(of("deployment/basic/name").starts_with(FILL_IN));
    }
    assert_eq!(read(&classifier(&rows)).product, Product::Classifier(Some(2)));
    assert_eq!(read(&regressor(&rows)).product, Product::Regressor);
    assert_eq!(read(&mean(&rows)).product, Product::Mean);
    // the same file, the same text
    assert_eq!(write(&mean(&rows), Form::ModelCard), write(&mean(&rows), Form::ModelCard));
}

#[test]
fn what_protects_nobody_is_said_first_and_has_no_parameters() {
    for without in [guarantee(rows(), Evidence::Proved, true), guarantee(rows(), Evidence::Assumed, false)] {
        let file = classifier(&without);
        let entry = entry(&file);
        assert!(entry.at("deployment/privacy_loss/privacy_parameters").is_none());
        assert!(entry.at("deployment/dp_variant/variant_name").is_none());
        let description = entry.at("deployment/basic/description").unwrap().text();
        assert!(description.starts_with("NO PRIVACY GUARANTEE"), "{description}");
        assert!(write(&file, Form::Registry).starts_with("# NO PRIVACY GUARANTEE"));
        for form in [Form::Checklist, Form::ModelCard] {
            let text = write(&file, form);
            let third = text.lines().nth(2).unwrap();
            assert!(third.starts_with("> **NO PRIVACY GUARANTEE:**"), "{text}");
            assert!(!text.contains("true-positive rate for any") && text.contains("NO GUARANTEE"), "{text}");
        }
    }
    // a guarantee of a lower grade is one, and says what it rests on
    let checked = guarantee(rows(), Evidence::Checked, false);
    let entry = entry(&classifier(&checked));
    let details = entry.at("deployment/privacy_loss/privacy_parameters_details").unwrap().text();
    assert!(details.contains("checked, not proved"), "{details}");
}

#[test]
fn a_guarantee_that_does_not_hold_is_not_published() {
    let mut understated = guarantee(rows(), Evidence::Proved, false);
    understated.stages[0].event = Event::gaussian(1.0);
    let refused =
        read(&mean(&understated)).disclose(&Recalls::shipped(), &Facts::default(), Form::Registry).unwrap_err();
    assert!(refused.to_string().contains("does not hold"), "{refused}");
    for file in [&b"{}"[..], b"", b"{\"guarantee\": 1}", b"\xff\xfe"] {
        assert!(Release::read(file).is_err());
    }
}

#[test]
fn stated_facts_fill_the_places_that_are_marked() {
    let said = "name = 'Incomes 2026'\ndata_curators = ['Office of Statistics']\npublication_date = 2026-12-01\n\
                data_product_sector = 'Government'\nrelease_type = 'One release'\ndata_source_type = 'Static'\n\
                access_control = 'two analysts'\nintended_use = \"Research\\non *wages*\"\n";
    let others = [
        "data_product_region",
        "description",
        "data_domain",
        "actors",
        "justification",
        "sources",
        "preprocessing_and_hyperparameter_tuning",
        "registry_authors",
    ];
    let said = others.iter().fold(said.to_string(), |said, name| format!("{said}{name} = 'said of {name}'\n"));
    let facts = Facts::from_toml(&said).unwrap();
    let release = read(&classifier(&guarantee(rows(), Evidence::Proved, false)));
    let text = release.disclose(&Recalls::shipped(), &facts, Form::Registry).unwrap();
    let entry = parse(&text);
    assert_eq!(faults(&entry), Vec::<String>::new(), "{text}");
    assert_eq!(entry.at("deployment/basic/intended_use").unwrap().text(), "Research\non *wages*");
    assert_eq!(entry.at("deployment/basic/publication_date").unwrap().text(), "2026-12-01");
    assert!(!text.contains("FILL IN:") && !text.contains("FILL IN,"), "{text}");
    let page = release.disclose(&Recalls::shipped(), &facts, Form::Checklist).unwrap();
    assert!(page.contains("**Who has access to the data?** *Stated:* two analysts"), "{page}");

    for (wrong, why) in [
        ("nmae = 'x'", "did you mean `name`?"),
        ("epsilon = 0.1", "follows from the released file"),
        ("publication_date = 2026-02-30", "line 1"),
        ("publication_date = '2026-02-29'", "a day as 2026-11-29"),
        ("data_product_sector = 'Banking'", "\"Finance\""),
        ("name = ''", "not empty"),
        ("registry_authors = []", "a list of texts"),
        ("name = \n", "line 1"),
    ] {
        let refused = Facts::from_toml(wrong).unwrap_err().to_string();
        assert!(refused.contains(why), "{wrong}: {refused}");
    }
    assert_eq!(Facts::from_json("{\"name\": \"x\"}").unwrap().get("name"), Some("x"));
}

/// The number below which the normal law has this probability, by bisection.
fn normal_quantile(probability: f64) -> f64 {
    let (mut low, mut high) = (-10.0, 10.0);
    for _ in 0..60 {
        let middle: f64 = 0.5 * (low + high);
        if normal_cdf(middle) < probability { low = middle } else { high = middle }
    }
    low
}

#[test]
fn attack_bounds_lie_above_the_gaussian_curve_and_close_to_it() {
    let one = guarantee(rows(), Evidence::Proved, false);
    let Event::Gaussian { noise_multiplier } = one.stages[0].event else { panic!("one Gaussian release") };
    for (bound, rate) in attack_bounds(&one).into_iter().zip(FALSE_POSITIVE_RATES) {
        let exact = normal_cdf(normal_quantile(rate) + 1.0 / noise_multiplier);
        let by_events = bound.by_events.unwrap();
        assert!(
            bound.false_positive_rate == rate && by_events >= exact && by_events < 1.01 * exact,
            "{bound:?}: {exact}"
        );
        assert!(by_events < bound.by_budget && bound.by_budget < 3.0 * rate + 1e-5, "{bound:?}");
    }
    // docs/privacy-model.md: 0.3 % and 2.8 % at ε = 1
    let card = write(&mean(&one), Form::ModelCard);
    assert!(card.contains("\n| 0.1 % | 0.3 % | ") && card.contains("\n| 1 % | 2.8 % | "), "{card}");
}

/// All items of a file, held against the list that ships.
fn items(file: &Value) -> Vec<Item> {
    checklist(&read(file), &Recalls::shipped())
}

/// The answer to a question of the checklist, marked where there is none.
fn answer(items: &[Item], question: &str) -> String {
    items.iter().find(|item| item.question == question).unwrap_or_else(|| panic!("no {question}")).told()
}

#[test]
fn every_part_of_the_pyramid_has_its_questions() {
    let items = items(&classifier(&guarantee(rows(), Evidence::Proved, false)));
    let mut layers: Vec<&str> = items.iter().map(|item| item.layer).collect();
    layers.dedup();
    let pyramid = [
        "ε",
        "Unit of Privacy",
        "Utility",
        "Bias",
        "Algorithms & Correctness",
        "Query Model",
        "Threat Model",
        "Side Channels",
        "Security",
        "Access Control",
        "Data Collection Exposure",
    ];
    assert_eq!(layers, pyramid);
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/disclosure.md")).unwrap();
    for item in &items {
        assert!(item.known || item.fact.is_some(), "nobody can answer {item:?}");
        // the page says where a hazard is answered
        assert!(page.contains(item.question), "{}", item.question);
        if let Some(fact) = item.fact {
            assert!(Facts::from_json(&format!("{{\"{fact}\": \"x\"}}")).is_ok() && page.contains(fact), "{fact}");
        }
    }
}

#[test]
fn a_failure_with_probability_delta_is_denied_where_no_event_has_one() {
    let question = "Can δ disclose a unit as a whole?";
    let one = guarantee(rows(), Evidence::Proved, false);
    assert!(answer(&items(&mean(&one)), question).starts_with("The definition allows it"));
    let mut stated = one.clone();
    stated.stages[0].event = Event::gaussian(9.0).self_composed(1).approximate(1e-30);
    assert!(answer(&items(&mean(&stated)), question).starts_with("The definition allows it"));
    stated.stages[0].event = Event::composed(vec![Event::ApproxDp { epsilon: 0.1, delta: 1e-7 }, Event::gaussian(9.0)]);
    assert!(answer(&items(&mean(&stated)), question).starts_with("Yes: "));
    let mut pure = one.clone();
    pure.delta = 0.0;
    assert_eq!(answer(&items(&mean(&pure)), question), "No: δ is 0.");
    let seeded = guarantee(rows(), Evidence::Proved, true);
    assert!(answer(&items(&mean(&seeded)), question).starts_with("NO GUARANTEE"));
    // and of how many records of a unit there is a bound
    let question = "Is what one unit contributes bounded?";
    assert!(!answer(&items(&mean(&one)), question).contains("At most"));
    stated.stages[0].event = Event::gaussian(9.0).for_users_of(12).self_composed(3);
    assert!(answer(&items(&mean(&stated)), question).ends_with("At most 12 records of a unit are used."));
}

#[test]
fn what_is_public_is_in_every_document() {
    let people = guarantee(Neighbours::of_users(Relation::ZeroOut), Evidence::Proved, false);
    let public = "the number of rows; the number of units; how many rows a unit has";
    for form in [Form::Registry, Form::Checklist, Form::ModelCard] {
        let text = write(&classifier(&people), form);
        assert!(text.contains(&format!("Public, and not protected: {public}.")), "{text}");
    }
    let entry = entry(&classifier(&people));
    let unprotected = entry.at("deployment/dp_variant/unprotected_quantities").unwrap().text();
    assert!(unprotected.starts_with(&format!("Taken as public: {public}; names of columns")), "{unprotected}");
    // the report of a mean over units counts units alone
    let mut report = mean(&people);
    report["facts"] = json!({ "rows": null, "units": 40 });
    let text = write(&report, Form::Checklist);
    assert!(text.contains("Public, and not protected: the number of units."), "{text}");
    let mut owned = guarantee(Neighbours::of_users(Relation::ZeroOut), Evidence::Proved, false);
    owned.of_units(Some(("sender and recipient".into(), true)));
    let text = write(&classifier(&owned), Form::ModelCard);
    assert!(text.contains("so who shares rows with whom; the number of rows that are kept"), "{text}");
}

#[test]
fn recalls_that_may_concern_a_file_are_in_every_document() {
    let list = "format = 'dpopt-recalls'\nversion = 1\ndate = '2027-01-10'\n[[recall]]\nid = 'DPOPT-2027-001'\n\
                date = '2027-01-09'\nsummary = 'An invented fault.'\nfollows = 'Fit *again*.'\n\
                effect = 'understated'\nfiles = ['model']\n";
    let with = |more: &str| Recalls::shipped().renewed_by(Recalls::from_toml(&format!("{list}{more}")).unwrap());
    let (possible, certain) = (with("unknown = 'no file says it'\n"), with(""));
    let file = classifier(&guarantee(rows(), Evidence::Proved, false));
    let facts = Facts::from_toml("notes = 'The first of two.'").unwrap();
    let line = |follows: &str| {
        format!(
            "recall DPOPT-2027-001 (may concern this file: no file says it): An invented fault. What follows: Fit {follows}."
        )
    };
    for form in [Form::Registry, Form::Checklist, Form::ModelCard] {
        let refused = read(&file).disclose(&certain, &facts, form).unwrap_err();
        assert!(refused.to_string().contains("recall DPOPT-2027-001 (concerns this file)"), "{refused}");
        assert!(!read(&file).disclose(&Recalls::shipped(), &facts, form).unwrap().contains("DPOPT-2027-001"));
    }
    let written = |form| read(&file).disclose(&possible, &facts, form).unwrap();
    let entry = parse(&written(Form::Registry));
    assert_eq!(faults(&entry), Vec::<String>::new());
    let notes = format!("The first of two.\n\nKnown fault: {}", line(r"\*again\*"));
    assert_eq!(entry.at("deployment/administrative/notes").unwrap().text(), notes);
    let card = written(Form::ModelCard);
    assert!(card.contains(&format!("\n- **Known fault:** {}\n", line(r"\*again\*"))), "{card}");
    let page = written(Form::Checklist);
    let question = "Does a known fault of an earlier version concern it?";
    assert!(page.contains(&format!("- **{question}** Known fault: {}\n", line(r"\*again\*"))), "{page}");
    let items = checklist(&read(&file), &possible);
    assert_eq!(answer(&items, question), format!("Known fault: {}", line("*again*")));
    // none, of which list; a page that the run writes is no file
    let none = answer(&checklist(&read(&file), &with("relations = ['replace-one']\n")), question);
    assert_eq!(none, "None of the list of 2027-01-10.");
    let page = Release::of_value(file.clone()).unwrap();
    assert!(answer(&checklist(&page, &possible), question).contains("dpopt verify"));
}

#[test]
fn the_checklist_says_what_it_does_not_know() {
    let known = items(&classifier(&guarantee(rows(), Evidence::Proved, false)));
    let answer_to = |question: &str| answer(&known, question);
    assert!(answer_to("What are ε and δ?").starts_with("ε is at most 1 and δ at most 1e-6"));
    assert!(answer_to("What else was released about the same people?").contains("charge 3 of a budget ledger"));
    for open in ["How accurate is it?", "Who has access to the data?", "Is it less accurate for some groups?"] {
        assert!(answer_to(open).starts_with("Not known to dpopt: "), "{open}");
    }
    assert!(answer_to("Do time and other side channels leak?").starts_with("Not protected"));
    assert!(
        answer_to("Why should they be believed?")
            .ends_with("The file does not say from which build of the library it came.")
    );
    let mut built = classifier(&guarantee(rows(), Evidence::Proved, false));
    built["provenance"] =
        json!({ "version": "0.1.0", "commit": "1a2b3c", "features": [], "target": "x86_64-linux", "cpu": ["fma"] });
    let believed = answer(&items(&built), "Why should they be believed?");
    let build = "The program that made it: dpopt 0.1.0 (commit 1a2b3c, x86_64-linux, processor with fma).";
    assert!(believed.ends_with(build), "{believed}");
    let accurate = answer(&items(&mean(&guarantee(rows(), Evidence::Proved, false))), "How accurate is it?");
    assert!(accurate.starts_with("With probability 0.95") && accurate.contains("at most 0.125"), "{accurate}");
}

#[test]
fn pages_of_audits_are_those_that_are_named() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for audit in AUDITS {
        let page = std::fs::read(docs.join(audit.page)).unwrap_or_else(|e| panic!("{}: {e}", audit.page));
        assert_eq!(blake3::hash(&page).to_hex().as_str(), audit.blake3, "{}", audit.page);
        let text = String::from_utf8(page).unwrap();
        for part in audit.result.split(", ") {
            assert!(text.lines().any(|line| line.starts_with(part)), "{}: {part}", audit.page);
        }
    }
}
