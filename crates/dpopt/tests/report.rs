//! The HTML report: well-formed, self-contained, and nothing of a user's text becomes markup.

use dpopt::mechanism::ReleaseRecord;
use dpopt::model::{Guarantee, Stage};
use dpopt::plan::Grade;
use dpopt::privacy::ledger::Receipt;
use dpopt::privacy::{Bound, Event, Relation, Unit};
use dpopt::report::{Answer, CandidateRow, Coefficient, DataFacts, Outcome, PlannedRow, Report};

fn sample(hostile: &str) -> Report {
    let gradient = Event::gaussian(74.6);
    let selection = Event::ExponentialMechanism { epsilon: 0.05 };
    let stage = |name: &str, epsilon, event: Event, upper| Stage {
        name: name.into(),
        epsilon,
        delta: 1e-6,
        event,
        bound: Bound::exact(upper * 0.999, upper, "gdp"),
    };
    let model_event = gradient.clone().self_composed(400);
    Report {
        answer: Answer::LinearModel,
        software: "0.1.0".into(),
        command: format!("dpopt fit census.csv --target income --epsilon 1 --note '{hostile}'"),
        facts: DataFacts {
            units: None,
            source: format!("census{hostile}.csv"),
            rows: Some(30_000),
            ownership: None,
            features: 133,
            target: format!("income{hostile}"),
            task: "Classification into 2 classes".into(),
            target_clip: None,
            preparation: vec![format!("Ranges and levels come from bounds{hostile}.toml.")],
        },
        guarantee: Guarantee {
            unit: Unit::Record,
            unit_column: None,
            public_ownership: false,
            relation: Relation::ZeroOut,
            epsilon: 1.0,
            delta: 1e-5,
            certified_epsilon: 0.99999,
            grade: Grade::Research,
            evidence: vec![format!("the clip is the caller's word{hostile}")],
            insecure_seed: true,
            stages: vec![stage("labels", 0.05, selection.clone(), 0.05), stage("model", 0.95, model_event, 0.9499)],
        },
        releases: vec![
            vec![ReleaseRecord { label: "label selection", event: selection, count: 1 }],
            vec![ReleaseRecord { label: "gradient sum", event: gradient, count: 400 }],
        ],
        candidates: vec![
            CandidateRow {
                method: "gradient-descent".into(),
                outcome: Outcome::Planned(PlannedRow {
                    grade: Grade::Certified,
                    noise_multiplier: 74.6,
                    steps: 400,
                    gradients: 1.2e7,
                    predicted_excess_risk: 0.0123,
                    epsilon: 0.9499,
                    delta: 1e-6,
                    accountant: "gdp".into(),
                    clips: None,
                    notes: Vec::new(),
                }),
            },
            CandidateRow {
                method: "objective".into(),
                outcome: Outcome::Refused { not_applicable: format!("it needs two classes {hostile}") },
            },
        ],
        chosen: 0,
        by_name: false,
        schedule: serde_json::json!({ "steps": 400, "step_size": 0.25, "momentum": 0.95, "note": hostile }),
        coefficients: (0..40)
            .map(|i| Coefficient {
                name: format!("occupation{hostile} = level number {i}"),
                value: (f64::from(i) * 1.7).sin() * 3.0 / (1.0 + f64::from(i)),
                noise: (i % 7 != 3).then_some(0.15),
            })
            .collect(),
        intervals: None,
        shapes: Vec::new(),
        assumptions: vec![format!("Rows are scaled to norm at most 1 {hostile}.")],
        warnings: vec![format!("delta is above 1/n {hostile}.")],
        planning_seconds: 0.123,
        ledger: Some(format!("budget{hostile}.jsonl")),
        receipt: Some(Receipt { number: 3, id: hostile.into(), check: hostile.into() }),
    }
}

fn parsed(html: &str) -> roxmltree::Document<'_> {
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    roxmltree::Document::parse_with_options(html, options).expect("well-formed")
}

#[test]
fn a_report_is_well_formed_and_needs_no_network() {
    let html = sample("").html();
    std::fs::write(concat!(env!("CARGO_TARGET_TMPDIR"), "/report.html"), &html).unwrap();
    let document = parsed(&html);
    for node in document.descendants().filter(|n| n.is_element()) {
        assert!(!matches!(node.tag_name().name(), "script" | "link" | "img" | "iframe" | "object" | "use"));
        for attribute in node.attributes() {
            assert!(!attribute.name().starts_with("on"), "{attribute:?}");
            assert!(!matches!(attribute.name(), "src" | "href"), "{attribute:?}");
        }
    }
    assert!(!html.contains("@import") && !html.contains("url("));
    let figures = document.descendants().filter(|n| n.has_tag_name(("http://www.w3.org/2000/svg", "svg"))).count();
    assert_eq!(figures, 3);
}

#[test]
fn hostile_names_stay_text() {
    for hostile in ["</td></title><script>alert(1)</script>", "\" onload=\"x", "]]>&amp;<!--", "\u{0}\u{1b}[31m", "𝔘é"]
    {
        let html = sample(hostile).html();
        let document = parsed(&html);
        assert_eq!(document.descendants().filter(|n| n.has_tag_name("script")).count(), 0);
        let h1 = document.descendants().find(|n| n.has_tag_name("h1")).unwrap();
        let shown: String = hostile.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
        assert_eq!(h1.text(), Some(format!("A private model of income{shown}").as_str()));
    }
}

#[test]
fn what_gives_no_privacy_comes_first() {
    let html = sample("").html();
    let document = parsed(&html);
    let main = document.descendants().find(|n| n.has_tag_name("main")).unwrap();
    let first: Vec<&str> = main.children().filter(|n| n.is_element()).take(2).filter_map(|n| n.text()).collect();
    assert!(first[0].starts_with("Research grade") && first[1].contains("no privacy"));
}
