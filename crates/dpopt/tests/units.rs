//! A person with many rows is protected as a whole.

use dpopt::data::{Format, ReadOptions, Schema, open_bytes};
use dpopt::model::{Fit, FitError, FitOptions, Fitted, StageShares};
use dpopt::optimize::MethodOptions;
use dpopt::{RunOptions, UnitClipping, UnitOptions};
use dpopt_privacy::{Event, Relation, Unit};
use std::fmt::Write;

const PERSONS: usize = 400;
const ROWS: usize = 10;
const BOUNDS: &str = "[x]\nlower = -1\nupper = 1\n[z]\nlower = -1\nupper = 1\n[y]\nlevels = ['no', 'yes']\n";

/// Rows of persons: y says whether x is above 0, ten rows each.
fn table() -> String {
    let mut text = String::from("person,x,z,y\n");
    for row in 0..PERSONS * ROWS {
        let x = ((row * 7919) % 2001) as f64 / 1000.0 - 1.0;
        let z = ((row * 104_729) % 2001) as f64 / 1000.0 - 1.0;
        let _ = writeln!(text, "p{},{x},{z},{}", row % PERSONS, if x > 0.0 { "yes" } else { "no" });
    }
    text
}

fn unit(most_rows: Option<u64>) -> UnitOptions {
    let mut unit = UnitOptions::of("person");
    unit.most_rows = most_rows.map(|most| most.try_into().unwrap());
    unit
}

/// Options of a run and of a fit.
type Options = (RunOptions, FitOptions);

fn options(unit: Option<UnitOptions>) -> Options {
    let mut run = RunOptions::within(4.0).delta(1e-5).insecure_seed(1);
    run.unit = unit;
    (run, FitOptions::default().schema(Schema::from_toml(BOUNDS).unwrap()))
}

fn fit(text: &str, (run, options): Options) -> Result<Fit, FitError> {
    Fit::new(open_bytes(text.as_bytes().to_vec(), Format::Csv, &ReadOptions::default())?, "y", run, options)
}

fn fitted(text: &str, options: Options) -> Fitted {
    fit(text, options).unwrap().run().unwrap()
}

fn why(result: Result<Fit, FitError>) -> String {
    result.err().unwrap().to_string()
}

/// Whether an event, or a part of it, is one for users with several records.
fn is_of_a_group(event: &Event) -> bool {
    matches!(event, Event::UserUnit { .. }) || event.children().iter().any(is_of_a_group)
}

#[test]
fn what_is_promised_is_promised_per_person_and_says_so() {
    let Fitted { model, report, planned, .. } = fitted(&table(), options(Some(unit(None))));
    let guarantee = model.guarantee();
    assert_eq!((guarantee.unit, guarantee.unit_column.as_deref()), (Unit::User, Some("person")));
    assert!(guarantee.to_string().contains("per person"), "{guarantee}");
    assert!(guarantee.certified_epsilon <= 4.0 && guarantee.recompute().faults.is_empty());
    let written: dpopt::model::Guarantee = serde_json::from_str(&serde_json::to_string(guarantee).unwrap()).unwrap();
    assert_eq!(written, *guarantee);
    assert_eq!((report.facts.rows, report.facts.units), (Some((PERSONS * ROWS) as u64), Some(PERSONS as u64)));
    let html = report.html();
    for sentence in [
        "protects each",
        "Each person has one value of `person`",
        "all rows of one user contribute",
        "How many rows a unit has, which is public.",
    ] {
        assert!(html.contains(sentence), "{sentence}");
    }
    assert!(!html.contains("Each person has one row") && !html.contains("k rows per person"));
    // n is the number of persons, and a person is no feature
    assert_eq!(planned.plan().unwrap().problem().rows, PERSONS as u64);
    assert!(model.encoder().columns().all(|column| column != "person"));
    let test = open_bytes(table().into_bytes(), Format::Csv, &ReadOptions::default()).unwrap();
    assert!(model.predict(&*test, dpopt::data::BadCells::Error).is_ok());
}

#[test]
fn a_units_mean_is_clipped_or_a_group_of_rows_is_accounted() {
    let planned = |clipping, most, method: &str| {
        let (run, options) = options(Some(unit(most).clipping(clipping)));
        let fit = fit(&table(), (run, options.method(MethodOptions::of(method))))?;
        let planned = fit.planned(2)?;
        let plan = planned.plan()?;
        Ok::<_, FitError>((plan.summary().noise_multiplier, is_of_a_group(plan.summary().certificate.event())))
    };
    let (by_unit, group) = planned(UnitClipping::Auto, Some(10), "noisy-gradient-descent").unwrap();
    assert!(!group);
    let (by_row, group) = planned(UnitClipping::Row, Some(10), "noisy-gradient-descent").unwrap();
    // the noise of a group of ten is ten times that of one
    assert!(group && (by_row / by_unit / 10.0 - 1.0).abs() < 0.5, "{by_row} {by_unit}");
    // output perturbation solves for rows one by one
    let (_, group) = planned(UnitClipping::Auto, Some(3), "output-perturbation").unwrap();
    assert!(group);
    let refusal = planned(UnitClipping::Auto, None, "output-perturbation").unwrap_err().to_string();
    assert!(refusal.contains("`max_rows_per_unit`"), "{refusal}");
    assert!(planned(UnitClipping::Unit, Some(3), "output-perturbation").is_err());
    assert!(planned(UnitClipping::Row, None, "noisy-sgd").unwrap_err().to_string().contains("`max_rows_per_unit`"));
}

#[test]
fn both_ways_run_and_learn() {
    let accuracy = |fitted: &Fitted| {
        let table = open_bytes(table().into_bytes(), Format::Csv, &ReadOptions::default()).unwrap();
        match fitted.model.evaluate(&*table, dpopt::data::BadCells::Error).unwrap() {
            Some(dpopt::model::Evaluation::Classification(metrics)) => metrics.accuracy,
            _ => panic!("classes"),
        }
    };
    let by_unit = fitted(&table(), options(Some(unit(None))));
    let by_row = fitted(&table(), options(Some(unit(Some(2)).clipping(UnitClipping::Row))));
    assert!(is_of_a_group(&by_row.model.guarantee().stages[0].event));
    assert!(!is_of_a_group(&by_unit.model.guarantee().stages[0].event));
    assert!(accuracy(&by_unit) > 0.85, "{}", accuracy(&by_unit));
    assert!(accuracy(&by_row) > 0.6, "{}", accuracy(&by_row));
}

/// Rows of one person are no crowd: what they alone have is not found, however many they are.
#[test]
fn labels_are_counted_by_persons() {
    let mut text = table();
    for _ in 0..3_000 {
        text += "p0,0.5,0,rare\n";
    }
    let undeclared = |unit| {
        let schema = Schema::from_toml("[x]\nlower = -1\nupper = 1\n[z]\nlower = -1\nupper = 1\n").unwrap();
        let (run, options) = options(unit);
        (run, options.schema(schema).shares(StageShares { labels: 0.5, ..StageShares::default() }))
    };
    let labels = |fitted: &Fitted| fitted.model.labels().to_vec();
    assert_eq!(labels(&fitted(&text, undeclared(None))), ["no", "rare", "yes"]);
    assert_eq!(labels(&fitted(&text, undeclared(Some(unit(None))))), ["no", "yes"]);
}

#[test]
fn what_cannot_be_kept_is_refused_before_anything_is_read() {
    let asked = |change: fn(&mut UnitOptions)| {
        let mut asked = unit(None);
        change(&mut asked);
        asked
    };
    let refused = |unit: UnitOptions, change: fn(&mut Options)| {
        let mut options = options(Some(unit));
        change(&mut options);
        why(fit(&table(), options))
    };
    assert!(refused(asked(|u| u.columns = vec!["y".into()]), |_| ()).contains("both the target and the privacy unit"));
    assert!(refused(asked(|u| u.columns = vec!["persons".into()]), |_| ()).contains("not a column"));
    let guess = |(run, options): &mut Options| {
        run.relation = Relation::AddOrRemove;
        options.rows = Some(5_000);
    };
    assert!(refused(unit(None), guess).contains("`units`"));
    let mut guessed = options(Some(asked(|u| u.units = Some(500))));
    guess(&mut guessed);
    assert!(fit(&table(), guessed).is_ok());
    // a person as a feature with levels, or as something else than a unit
    let declared =
        |o: &mut Options| o.1.schema = Schema::from_toml(&format!("{BOUNDS}[person]\nhash = true\n")).unwrap();
    assert!(refused(unit(None), declared).contains("is the privacy unit"));
    // fewer than there are, or more than there are rows; one that has no row left is none the less counted
    let refusal = |units: u64| {
        let asked = unit(None).units(units);
        fit(&table(), options(Some(asked))).unwrap().run().err().map(|why| why.to_string())
    };
    for wrong in [399, 4_001, u64::MAX] {
        assert!(refusal(wrong).unwrap().contains(&format!("`units` is {wrong}")));
    }
    assert_eq!(refusal(450), None);
    let schema = Schema::from_toml(&format!("[dpopt]\npairs = 'private'\n{BOUNDS}")).unwrap();
    let (run, options) = options(Some(unit(None)));
    let private = (run, options.schema(schema));
    let refusal = fit(&table(), private).unwrap().run().err().unwrap();
    assert!(refusal.to_string().contains("a unit has several rows") && !matches!(refusal, FitError::Spent(_)));
}

#[test]
fn rows_may_lie_on_disk_where_units_are_clipped() {
    let asked = |clipping, most| {
        let (run, options) = options(Some(unit(most).clipping(clipping)));
        (run, options.memory(1 << 10))
    };
    let fitted = fitted(&table(), asked(UnitClipping::Auto, None));
    assert_eq!(fitted.model.guarantee().unit, Unit::User);
    let refusal = match fit(&table(), asked(UnitClipping::Row, Some(3))) {
        Ok(fit) => fit.run().err().unwrap().to_string(),
        Err(why) => why.to_string(),
    };
    assert!(refusal.contains("all rows in memory"), "{refusal}");
}

#[test]
fn the_order_of_the_file_changes_no_guarantee() {
    let shuffled = {
        let text = table();
        let (header, rows) = text.split_once('\n').unwrap();
        let mut rows: Vec<&str> = rows.lines().collect();
        rows.sort_by_key(|row| row.len() * 1_000 + row.bytes().map(usize::from).sum::<usize>());
        format!("{header}\n{}\n", rows.join("\n"))
    };
    for clipping in [UnitClipping::Auto, UnitClipping::Row] {
        let asked = || Some(unit(Some(2)).clipping(clipping));
        let (a, b) = (fitted(&table(), options(asked())), fitted(&shuffled, options(asked())));
        assert_eq!(a.model.guarantee(), b.model.guarantee());
    }
}
