//! Documents about releases of every kind, held against the facts of the registry's schema and against the file that they are about.

mod schema;

use super::{AUDITS, FALSE_POSITIVE_RATES, FILL_IN, Facts, Form, Product, Release, attack_bounds, checklist};
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

#[test]
fn the_checklist_says_what_it_does_not_know() {
    let release = read(&classifier(&guarantee(rows(), Evidence::Proved, false)));
    let items = checklist(&release);
    let told = |question: &str| items.iter().find(|item| item.question == question).unwrap().told();
    assert!(told("What are ε and δ?").starts_with("ε is at most 1 and δ at most 1e-6"));
    assert!(told("What else was released about the same people?").contains("charge 3 of a budget ledger"));
    for open in ["How accurate is it?", "Who has access to the data?", "Is it less accurate for some groups?"] {
        assert!(told(open).starts_with("Not known to dpopt: "), "{open}");
    }
    assert!(told("Do time and other side channels leak?").starts_with("Not protected"));
    assert!(
        told("Why should they be believed?")
            .ends_with("The file does not say from which build of the library it came.")
    );
    let mut built = classifier(&guarantee(rows(), Evidence::Proved, false));
    built["provenance"] =
        json!({ "version": "0.1.0", "commit": "1a2b3c", "features": [], "target": "x86_64-linux", "cpu": ["fma"] });
    let believed =
        checklist(&read(&built)).into_iter().find(|item| item.question == "Why should they be believed?").unwrap();
    let build = "The program that made it: dpopt 0.1.0 (commit 1a2b3c, x86_64-linux, processor with fma).";
    assert!(believed.answer.ends_with(build), "{}", believed.answer);
    let mean = read(&mean(&guarantee(rows(), Evidence::Proved, false)));
    let accurate = checklist(&mean).into_iter().find(|item| item.question == "How accurate is it?").unwrap();
    assert!(accurate.known && accurate.answer.contains("at most 0.125"), "{accurate:?}");
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
