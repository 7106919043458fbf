//! Rows with several owners: each of them is protected, and what is kept follows from who owns what alone.

use dpopt::data::{BadCells, Format, Kind, ReadOptions, Schema, TableReader, Transform, open_bytes};
use dpopt::estimate::{MeanEstimate, MeanOptions};
use dpopt::model::{Evaluation, Fit, FitError, FitOptions, Fitted, Guarantee, StageShares};
use dpopt::{RunOptions, UnitClipping, UnitOptions};
use dpopt_privacy::{Event, Relation, Unit};

fn messages(rows: usize, seed: u64) -> dpopt_problems::Messages {
    dpopt_problems::messages(400, rows, seed)
}

fn table(text: &str) -> Box<dyn TableReader> {
    open_bytes(text.as_bytes().to_vec(), Format::Csv, &ReadOptions::default()).unwrap()
}

fn both(most: Option<u64>) -> UnitOptions {
    let mut unit = UnitOptions::of_all(["sender", "recipient"]);
    unit.most_rows = most.map(|most| most.try_into().unwrap());
    unit
}

/// Options of a run and of a fit.
type Options = (RunOptions, FitOptions);

fn options(bounds: &str, unit: UnitOptions) -> Options {
    let run = RunOptions::within(4.0).delta(1e-5).unit(unit).insecure_seed(1);
    (run, FitOptions::default().schema(Schema::from_toml(bounds).unwrap()))
}

fn fit(text: &str, (run, options): Options) -> Result<Fit, FitError> {
    Fit::new(table(text), "answered", run, options)
}

/// The groups of which an event is, with how many rows each.
fn groups(event: &Event) -> Vec<u64> {
    match event {
        Event::UserUnit { records_per_user, .. } => vec![*records_per_user],
        other => other.children().iter().flat_map(groups).collect(),
    }
}

#[test]
fn every_owner_is_promised_a_group_of_rows_and_what_is_not_protected_is_reported() {
    let made = messages(6_000, 1);
    let fit = fit(&made.csv, options(&made.bounds, both(Some(2)))).unwrap();
    let owned = fit.ownership().unwrap();
    let explained = fit.explain(2).unwrap();
    assert_eq!(explained.ownership.as_ref(), Some(&owned));
    assert_eq!((owned.rows, owned.owners, owned.bound), (6_000, 400, 2));
    assert!(owned.kept <= 400 && owned.kept > 350 && owned.one_each <= 200 && owned.one_each > 150, "{owned}");
    let Fitted { model, report, planned, .. } = fit.run().unwrap();
    let problem = planned.plan().unwrap().problem().clone();
    assert_eq!((problem.rows, problem.group()), (owned.kept, 2));
    let guarantee = model.guarantee();
    assert_eq!((guarantee.unit, guarantee.unit_column.as_deref()), (Unit::User, Some("sender and recipient")));
    assert!(
        guarantee.public_ownership && guarantee.certified_epsilon <= 4.0 && guarantee.recompute().faults.is_empty()
    );
    assert_eq!(guarantee.stages.iter().flat_map(|stage| groups(&stage.event)).collect::<Vec<_>>(), [2]);
    // as a sentence, in the page and in what programs read
    let json = serde_json::to_string(guarantee).unwrap();
    assert!(json.contains("\"public_ownership\":true"));
    assert_eq!(serde_json::from_str::<Guarantee>(&json).unwrap(), *guarantee);
    for text in [guarantee.to_string(), report.html(), report.json().unwrap(), owned.to_string()] {
        assert!(text.contains(Guarantee::OWNERSHIP) || text.contains("\"public_ownership\": true"), "{text}");
    }
    let html = report.html();
    assert!(
        html.contains(&format!("{} of {} rows of", owned.kept, owned.rows))
            && html.contains("Who owns which rows, and so who shares rows with whom, which is public")
    );
    // no owner is a feature; and it has learned something
    assert!(model.encoder().columns().all(|column| column != "sender" && column != "recipient"));
    let test = messages(4_000, 2);
    match model.evaluate(&*table(&test.csv), BadCells::Error).unwrap() {
        Some(Evaluation::Classification(metrics)) => {
            assert!(metrics.accuracy > test.bayes_accuracy - 0.1, "{} of {}", metrics.accuracy, test.bayes_accuracy);
        }
        _ => panic!("classes"),
    }
}

#[test]
fn what_the_rows_hold_moves_neither_the_choice_nor_the_plan() {
    let made = messages(3_000, 1);
    // everything but the owners of the rows of the busiest person is nothing
    let mut count = std::collections::BTreeMap::new();
    let cells = |line: &str| line.split(',').map(str::to_string).collect::<Vec<_>>();
    made.csv.lines().skip(1).map(cells).for_each(|row| *count.entry(row[0].clone()).or_insert(0) += 1);
    let busiest = count.iter().max_by_key(|entry| entry.1).unwrap().0.clone();
    let emptied: Vec<String> = made
        .csv
        .lines()
        .map(|line| match cells(line) {
            row if row[0] == busiest || row[1] == busiest => format!("{},{},,,,,,,", row[0], row[1]),
            row => row.join(","),
        })
        .collect();
    let asked = || {
        let (run, options) = options(&made.bounds, both(Some(1)));
        (run, options.bad_cells(BadCells::Missing))
    };
    let [with, without] = [made.csv.clone(), emptied.join("\n") + "\n"].map(|text| {
        let fit = fit(&text, asked()).unwrap();
        let owned = fit.ownership().unwrap();
        let fitted = fit.run().unwrap();
        (owned, fitted.model.guarantee().clone(), fitted.planned.plan().unwrap().schedule())
    });
    assert_eq!(with, without);
}

/// Rows of one owner are no crowd, whatever other owners there are.
#[test]
fn labels_are_counted_once_for_each_owner() {
    let made = messages(3_000, 1);
    let mut text = made.csv.clone();
    for i in 0..3_000 {
        text += &format!("loud,p{:06},mail,news,3,20,0,0,rare\n", i % 400);
    }
    let bounds = made.bounds.split("\n[answered]").next().unwrap().to_string();
    let labels = |unit: Option<UnitOptions>| {
        let shares = StageShares { labels: 0.5, ..StageShares::default() };
        let (mut run, options) = options(&bounds, both(Some(1)));
        run.unit = unit;
        fit(&text, (run, options.shares(shares))).unwrap().run().unwrap().model.labels().to_vec()
    };
    assert_eq!(labels(Some(both(Some(1)))), ["no", "yes"]);
    let alone = UnitOptions::of("recipient");
    assert!(labels(Some(alone)).contains(&"rare".into()), "of recipients many have it");
}

/// What is counted before the model has as many rows as nobody owns two of, and not as many as there are owners.
#[test]
fn ranges_are_planned_for_as_many_rows_as_count() {
    let made = messages(3_000, 1);
    let bounds = made.bounds.replace("[warmth]\nlower = -1\nupper = 1\n", "");
    let planned = |unit: UnitOptions| {
        let mut asked = options(&bounds, unit);
        asked.1.schema.declare("warmth", Kind::Numeric { bounds: None, transform: Transform::Auto }).unwrap();
        // enough for 400 rows, too little for the 200 at most of whom nobody owns two
        asked.1.shares.bounds = Some(0.16);
        asked.1.method.method = Some("noisy-gradient-descent".into());
        fit(&made.csv, asked).unwrap().stages().map(|stages| stages.len()).map_err(|why| why.to_string())
    };
    let alone = UnitOptions::of("sender");
    assert_eq!(planned(alone), Ok(2));
    assert!(
        planned(both(Some(2))).unwrap_err().contains("too few rows for private ranges: 1 numeric column needs about")
    );
}

#[test]
fn what_several_owners_leave_no_room_for_is_refused() {
    let made = messages(600, 1);
    let refused = |change: fn(&mut Options)| {
        let mut asked = options(&made.bounds, both(Some(1)));
        change(&mut asked);
        match fit(&made.csv, asked).map(|fit| fit.run()) {
            Ok(Ok(_)) => panic!("it ran"),
            Ok(Err(why)) | Err(why) => {
                assert!(!matches!(why, FitError::Spent(_)));
                why.to_string()
            }
        }
    };
    fn unit(options: &mut Options) -> &mut UnitOptions {
        options.0.unit.as_mut().unwrap()
    }
    assert!(refused(|o| unit(o).most_rows = None).contains("`max_rows_per_unit`"));
    assert!(refused(|o| unit(o).clipping = UnitClipping::Unit).contains("cannot be clipped as a whole"));
    assert!(refused(|o| unit(o).columns.push("sender".into())).contains("named twice"));
    assert!(refused(|o| unit(o).columns.push("whom".into())).contains("not a column"));
    assert!(refused(|o| unit(o).columns.push("answered".into())).contains("both the target and the privacy unit"));
    assert!(refused(|o| unit(o).columns.clear()).contains("name the column"));
    assert!(refused(|o| unit(o).units = Some(3)).contains("`units` is 3"));
    assert!(refused(|o| o.1.memory = Some(1 << 20)).contains("leave out `memory`"));
    let guess = |o: &mut Options| {
        (o.0.relation, o.1.rows) = (Relation::AddOrRemove, Some(600));
        unit(o).units = Some(400);
    };
    assert!(refused(guess).contains("without bound"));
    let refused = |relation, clipping| {
        let asked = both(Some(2)).clipping(clipping).units(400);
        let run = RunOptions::within(1.0).delta(1e-5).relation(relation).unit(asked);
        let table = table("sender,recipient,x\na,b,1\nb,c,2\n");
        MeanEstimate::new(table, 1.0, run, MeanOptions::default()).err().unwrap().to_string()
    };
    assert!(refused(Relation::AddOrRemove, UnitClipping::Auto).contains("without bound"));
    assert!(refused(Relation::ZeroOut, UnitClipping::Unit).contains("cannot be clipped as a whole"));
}

#[test]
fn a_mean_is_of_the_rows_that_are_kept() {
    // a and b share two rows, of which one can be kept with a bound of 1; d has a row alone; the last row is nobody's
    let text = "from,x,to\na,1,b\nb,1,a\nc,3,\nd,5,d\n,100,\n";
    let unit = |most: u64| UnitOptions::of_all(["from", "to"]).most_rows(most.try_into().unwrap());
    let mean = |most, epsilon: f64| {
        let delta = if epsilon > 1e3 { 0.0 } else { 1e-6 };
        let run = RunOptions::within(epsilon).delta(delta).unit(unit(most)).insecure_seed(2);
        MeanEstimate::new(table(text), 1.0, run, MeanOptions::default().norm(10.0)).unwrap().run().unwrap()
    };
    // Laplace noise of scale 10⁻⁵, and twice that for two rows: off by a thousandth with a probability below e⁻¹⁰⁰
    let one = mean(1, 1e6);
    assert!((one.entries[0].1 - 3.0).abs() < 1e-3, "{:?}", one.entries);
    assert!((mean(2, 1e6).entries[0].1 - 2.5).abs() < 1e-3);
    assert_eq!((one.report.facts.rows, one.report.facts.units), (Some(5), Some(4)));
    assert!(one.guarantee.public_ownership && one.guarantee.to_string().ends_with(Guarantee::OWNERSHIP));
    assert!(one.report.html().contains("the kept clipped vectors") && one.report.html().contains("3 of 5 rows of"));
    // noise for a group of two
    assert_eq!(groups(&mean(2, 1.0).guarantee.stages[0].event), [2]);
    assert!(groups(&mean(1, 1.0).guarantee.stages[0].event).is_empty());
}
