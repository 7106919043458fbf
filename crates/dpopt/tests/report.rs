//! The HTML report: well-formed, self-contained, and nothing of a user's text becomes markup.

use dpopt::data::{Shape, Unit as Counts};
use dpopt::loss::Loss;
use dpopt::mechanism::ReleaseRecord;
use dpopt::model::{Guarantee, Stage};
use dpopt::optimize::{Reason, Selection};
use dpopt::plan::Grade;
use dpopt::privacy::ledger::Receipt;
use dpopt::privacy::{Bound, Event, Relation, Unit};
use dpopt::report::{
    Answer, Baseline, CandidateRow, Coefficient, DataFacts, Effects, Importance, Outcome, PlannedRow, Report, Scale,
    Score,
};

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
        provenance: dpopt::Provenance {
            version: "0.1.0".into(),
            commit: None,
            features: Vec::new(),
            target: "x86_64-linux".into(),
            cpu: vec!["avx2".into()],
        },
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
                outcome: Outcome::Refused { not_applicable: format!("it needs two classes {hostile}").into() },
            },
        ],
        selection: Selection { place: 0, reason: Reason::Only },
        schedule: serde_json::json!({ "steps": 400, "step_size": 0.25, "momentum": 0.95, "note": hostile }),
        coefficients: (0..40)
            .map(|i| Coefficient {
                name: format!("occupation{hostile} = level number {i}"),
                value: (f64::from(i) * 1.7).sin() * 3.0 / (1.0 + f64::from(i)),
                noise: (i % 7 != 3).then_some(0.15),
                std_error: None,
                slot: false,
            })
            .collect(),
        intervals: None,
        effects: None,
        baseline: None,
        score: None,
        assumptions: vec![format!("Rows are scaled to norm at most 1 {hostile}.")],
        warnings: vec![format!("delta is above 1/n {hostile}.").into()],
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

/// Three classes, of a date, of a truth value, and of a column of hashes.
fn of_classes(hostile: &str) -> Report {
    let classes = ["stay", "upgrade", "leave"].map(|class| format!("{class}{hostile}")).to_vec();
    let date = |slope: f64| Shape::Curve {
        column: format!("signup{hostile}"),
        points: (0..=64).map(|k| (14_610.0 + 60.0 * f64::from(k), slope * (f64::from(k) - 32.0))).collect(),
        unit: Counts::Date,
    };
    let step = |effect: f64| Shape::Levels {
        column: format!("vip{hostile}"),
        levels: vec![("0".into(), -effect), ("1".into(), effect)],
    };
    let row = |name: &str, value| Importance { columns: vec![format!("{name}{hostile}")], value };
    let mut report = sample(hostile);
    report.effects = Some(Effects {
        scale: Scale::Scores { classes },
        shapes: [0.01, 0.02, -0.03].map(|slope| vec![date(slope), step(30.0 * slope)]).to_vec(),
        importance: vec![row("signup", 0.4), row("vip", 0.3)],
        hashed: vec![format!("city{hostile}")],
    });
    report.baseline = Some(Baseline::new(&Loss::Softmax { classes: 3 }, None));
    for slot in 0..30 {
        let name = format!("city{hostile}#{slot}");
        report.coefficients.push(Coefficient { name, value: 900.0, noise: Some(100.0), std_error: None, slot: true });
    }
    report
}

fn headings<'a>(document: &'a roxmltree::Document<'_>) -> Vec<&'a str> {
    document.descendants().filter(|n| n.has_tag_name("h2")).filter_map(|n| n.text()).collect()
}

/// All texts, with one space for any white space.
fn text(document: &roxmltree::Document<'_>) -> String {
    let all: Vec<&str> = document.descendants().filter(|n| n.is_text()).filter_map(|n| n.text()).collect();
    all.join(" ").split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn what_matters_first_comes_first_and_what_does_not_apply_last_and_folded() {
    let html = of_classes("").html();
    let document = parsed(&html);
    let found = headings(&document);
    let first = ["How good it is", "Which columns matter", "The effect of each column", "What was released"];
    assert_eq!(found[..4], first);
    let main = document.descendants().find(|n| n.has_tag_name("main")).unwrap();
    let last = main.children().rfind(|n| n.has_tag_name("details")).unwrap();
    assert!(last.attribute("open").is_none());
    assert!(last.next_siblings().skip(1).filter(|n| n.is_element()).all(|n| n.has_tag_name("footer")));
    let folded: String = last.descendants().filter_map(|n| n.text()).collect();
    assert!(folded.contains("1 method that does not apply") && folded.contains("it needs two classes"), "{folded}");
    assert_eq!(html.matches("it needs two classes").count(), 1);
    assert!(html.contains(" dpopt 0.1.0 (development build, x86_64-linux, processor with avx2).</footer>"), "{html}");
    // without effects the coefficients are what the model says
    let html = sample("").html();
    assert_eq!(headings(&parsed(&html))[..3], ["How good it is", "Coefficients", "What was released"]);
}

#[test]
fn slots_of_hashes_are_no_effects() {
    let html = of_classes("").html();
    let document = parsed(&html);
    assert!(!html.contains("city#"));
    let text = text(&document);
    assert!(text.contains("30 of the 70 weights are left out") && text.contains("Not ranked: city."), "{text}");
    assert!(text.contains("occupation = level number"));
}

#[test]
fn each_class_has_a_curve_of_its_own() {
    let html = of_classes("").html();
    let document = parsed(&html);
    let legend = document.descendants().find(|n| n.attribute("class") == Some("legend")).unwrap();
    let named: Vec<&str> = legend.children().filter(|n| n.has_tag_name("span")).filter_map(|n| n.text()).collect();
    assert_eq!(named, ["stay", "upgrade", "leave"]);
    let figure = |caption: &str| {
        let has = |n: &roxmltree::Node<'_, '_>| {
            n.has_tag_name("figure") && n.children().any(|c| c.has_tag_name("figcaption") && c.text() == Some(caption))
        };
        html[document.descendants().find(has).unwrap().range()].to_string()
    };
    let (curves, steps) = (figure("signup"), figure("vip"));
    for colour in ["#0A0B0C", "#0D0E0F", "#101112"] {
        assert_eq!(curves.matches(&format!("fill=\"none\" opacity=\"1\" stroke=\"{colour}\"")).count(), 1, "{curves}");
        assert_eq!(steps.matches(&format!("fill=\"{colour}\"")).count(), 2, "a point at 0 and one at 1: {steps}");
    }
    for shown in ["stay", "upgrade", "leave", "2010-01-01"] {
        assert!(curves.contains(&format!("\n{shown}\n")), "{shown}");
    }
    assert!(!steps.contains("<polyline fill=\"none\" opacity=\"1\" stroke=\"#0A0B0C\""), "{steps}");
    // the colours are there, light and dark
    for key in ["--s1:", "--s5:", "[stroke=\"#0D0E0F\"]", ".k5::before"] {
        assert!(html.contains(key), "{key}");
    }
}

#[test]
fn more_classes_than_colours_are_reported() {
    let mut report = of_classes("");
    let effects = report.effects.as_mut().unwrap();
    effects.scale = Scale::Scores { classes: (0..9).map(|k| format!("class {k}")).collect() };
    effects.shapes = (0..9)
        .map(|k| {
            let mut shapes = effects.shapes[0].clone();
            shapes.iter_mut().flat_map(Shape::effects_mut).for_each(|e| *e *= f64::from(k));
            shapes
        })
        .collect();
    let html = report.html();
    let text = text(&parsed(&html));
    assert!(text.contains("6 of 9 classes"), "{text}");
    assert!(text.contains("class 8") && text.contains("class 3") && !text.contains("class 2"), "{text}");
}

#[test]
fn excess_risk_is_explained_beside_a_plain_baseline() {
    let html = of_classes("").html();
    let shown = text(&parsed(&html));
    for part in [
        "Predicted excess risk",
        "gives every class the same probability has a mean loss of 1.099",
        "1.1 % of that: small",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let mut report = sample("");
    report.baseline = Some(Baseline::new(&Loss::Squared, Some((0.0, 600.0))));
    let shown = text(&parsed(&report.html()));
    // √(2 · 0.0123) of half the range
    for part in [
        "a root-mean-square error of 47.05",
        "always predicting 300 (the middle of its range) is off by up to 300",
        "2.5 % of that",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    report.baseline = Some(Baseline::new(&Loss::Absolute, Some((0.0, 600.0))));
    let shown = text(&parsed(&report.html()));
    assert!(
        shown.contains("off by up to 300, a loss of at most 1.") && !shown.contains("root-mean-square error"),
        "{shown}"
    );
    let Outcome::Planned(row) = &mut report.candidates[0].outcome else { panic!() };
    row.predicted_excess_risk = 1.2;
    assert!(text(&parsed(&report.html())).contains("no better than a guess"));
}

#[test]
fn a_released_score_has_a_band() {
    let mut report = sample("");
    assert!(text(&parsed(&report.html())).contains("released no score"));
    report.score = Some(Score { name: "Accuracy".into(), value: 0.8, noise: 0.01, held_out: 1600 });
    let (low, high) = report.score.as_ref().unwrap().band();
    // 1.96 · √(.01² + .8·.2/1600)
    assert!((low - 0.7723).abs() < 1e-4 && (high - 0.8277).abs() < 1e-4, "{low} {high}");
    let shown = text(&parsed(&report.html()));
    // the report omits what runs of a search released, and calibration
    assert!(!shown.contains("alibrated"), "{shown}");
    assert!(
        shown.contains(
            "Accuracy on the 1,600 rows of the validation set: 0.8, with a 95 % interval from 0.7723 to 0.8277"
        ),
        "{shown}"
    );
}

#[test]
fn calibration_is_reported_where_it_was() {
    let mut report = of_classes("");
    assert!(text(&parsed(&report.html())).contains("Not calibrated"));
    report.releases[1].push(ReleaseRecord { label: "calibration", event: Event::gaussian(17.0), count: 3 });
    assert!(text(&parsed(&report.html())).contains("fitted from 3 noisy sums"));
}

/// A table is never wider than the page: it scrolls in a place of its own.
#[test]
fn tables_scroll_by_themselves() {
    let html = of_classes("").html();
    let document = parsed(&html);
    let mut tables = 0;
    for table in document.descendants().filter(|n| n.has_tag_name("table")) {
        let parent = table.parent().unwrap();
        assert_eq!((parent.attribute("class"), parent.attribute("tabindex")), (Some("scroll"), Some("0")));
        tables += 1;
    }
    assert!(tables >= 5 && html.contains(".scroll{overflow-x:auto"), "{tables}");
}

#[test]
fn hostile_classes_and_columns_stay_text() {
    let html = of_classes("</span><script>alert(1)</script>").html();
    let document = parsed(&html);
    assert_eq!(document.descendants().filter(|n| n.has_tag_name("script")).count(), 0);
}
