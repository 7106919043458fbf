//! Fits of matrices: labels and ranges that are found, units, what is refused before anything is read.

use super::*;
use crate::model::fit::Fit;
use crate::model::stage_plan::ClassLoss;
use crate::run::UnitClipping;
use crate::session::{Account, SessionError, default_delta};
use dpopt_data::{Format, ReadOptions, open_bytes};
use dpopt_mechanism::progress::Silent;
use dpopt_objective::records::Bounding;
use dpopt_privacy::Unit;
use dpopt_privacy::ledger::{Quote, Receipt};
use std::num::NonZeroU64;

const ROWS: usize = 3000;
const HINGE: ClassLoss = ClassLoss::OneAgainstRest(Loss::SmoothedHinge { width: 0.5 });

/// Three classes that a line tells apart, every hundredth record without a class.
fn records() -> Bounded {
    let bounding = Bounding::in_box(vec![-1.0; 2], vec![1.0; 2], 1.0, 0.5, false).unwrap();
    let place = |i: usize| (i % 3) as f64;
    let row = |i: usize| [place(i) - 1.0, if i.is_multiple_of(2) { 0.3 } else { -0.3 }];
    let targets: Vec<f64> = (0..ROWS).map(|i| if i % 100 == 0 { f64::NAN } else { place(i) }).collect();
    bounding.dense((ROWS, 2), row, &targets).unwrap()
}

fn run(epsilon: f64) -> RunOptions {
    RunOptions::within(epsilon).delta(1e-6).insecure_seed(1)
}

fn facts() -> MatrixFacts {
    MatrixFacts { rows: ROWS as u64, features: 3, nonzeros: 3, row_norm: records().rows.norm_bound(), units: None }
}

fn fit(target: Target, epsilon: f64) -> Fit<BoundedMatrix> {
    Fit::of_matrix(facts(), target, run(epsilon), MatrixOptions::default()).unwrap()
}

fn with_range(target: Target, epsilon: f64, range: TargetRange) -> Result<Fit<BoundedMatrix>, FitError> {
    Fit::of_matrix(facts(), target, run(epsilon), MatrixOptions::default().range(range))
}

/// These rows, which are here.
fn here(records: Bounded, owners: Option<&RowOwners>) -> MatrixRecords {
    MatrixRecords::Here { records, labels: None, owners: owners.cloned() }
}

/// The rows of [`records`] with labels: `place(i)` is the label of row i, one of `occurring`.
fn labelled(place: impl Fn(usize) -> f64, occurring: usize, owners: Option<&RowOwners>) -> MatrixRecords {
    let records = Bounded { targets: (0..ROWS).map(place).collect(), ..records() };
    let labels = Labels { rank: (0..occurring).collect() };
    MatrixRecords::Here { records, labels: Some(labels), owners: owners.cloned() }
}

fn taken(fit: &Fit<BoundedMatrix>, records: MatrixRecords) -> Result<MatrixFitted, FitError> {
    fit.run_on(records, &Silent)
}

#[test]
fn classes_are_fitted_one_against_the_rest_within_one_budget() {
    let target = Target::Classes { loss: HINGE, known: Some(3) };
    let fitted = taken(&fit(target, 4.0), here(records(), None)).unwrap();
    assert_eq!((fitted.planned.models, fitted.solutions.len(), fitted.releases.len()), (3, 3, 3));
    let names: Vec<&str> = fitted.guarantee.stages.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["model 1 of 3", "model 2 of 3", "model 3 of 3"]);
    assert!(fitted.guarantee.certified_epsilon <= 4.0 && fitted.guarantee.recompute().faults.is_empty());
    // the middle class is no half space; the outer ones lie on their sides of it
    assert!(fitted.solutions[0].weights[0] < 0.0 && fitted.solutions[2].weights[0] > 0.0);
    // two classes are one model
    let two = fit(Target::Classes { loss: HINGE, known: Some(2) }, 4.0);
    assert_eq!(two.planned(2).unwrap().models, 1);
}

#[test]
fn the_range_of_a_target_is_found_within_its_share_and_the_model_within_the_rest() {
    let fit = with_range(Target::Number(Loss::Squared), 4.0, TargetRange::Found).unwrap();
    assert!(fit.finds_range() && fit.budget_split.bounds.unwrap().epsilon() == 4.0 * 0.05);
    let target = |i: usize| if i.is_multiple_of(100) { f64::NAN } else { 500.0 + (i % 50) as f64 };
    let raw = Bounded { targets: (0..ROWS).map(target).collect(), ..records() };
    let fitted = taken(&fit, here(raw, None)).unwrap();
    let (lower, upper) = fitted.range.unwrap();
    assert!((400.0..500.0).contains(&lower) && (545.0..650.0).contains(&upper), "{lower} {upper}");
    assert_eq!(fitted.guarantee.stages.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["bounds", "model"]);
    assert!(fitted.guarantee.certified_epsilon <= 4.0 && fitted.guarantee.recompute().faults.is_empty());
    // known beforehand, it costs nothing, and the rows are the same
    let known = with_range(Target::Number(Loss::Squared), 4.0, TargetRange::Known(lower, upper)).unwrap();
    let raw = Bounded { targets: (0..ROWS).map(target).collect(), ..records() };
    let fitted = taken(&known, here(raw, None)).unwrap();
    assert_eq!((fitted.range, fitted.guarantee.stages.len()), (Some((lower, upper)), 1));
}

#[test]
fn ranges_of_classes_and_of_few_rows_are_not_looked_for() {
    assert!(with_range(Target::Classes { loss: HINGE, known: Some(3) }, 4.0, TargetRange::Found).is_err());
    // 30 % of this would need more rows
    let few = with_range(Target::Number(Loss::Squared), 0.05, TargetRange::Found).unwrap();
    assert!(!few.finds_range() && few.budget_split.bounds.is_none());
    assert_eq!(taken(&few, here(records(), None)).unwrap().range, Some((-1.0, 1.0)));
}

#[test]
fn labels_are_found_within_their_share_and_models_within_the_rest() {
    let target = Target::Classes { loss: HINGE, known: None };
    // the second of four occurs twice
    let place = |i: usize| match i {
        3 | 4 => 1.0,
        i if i.is_multiple_of(100) => f64::NAN,
        i => [0.0, 2.0, 3.0][i % 3],
    };
    let fitted = taken(&fit(target, 4.0), labelled(place, 4, None)).unwrap();
    assert_eq!(fitted.labels.as_deref(), Some(&[0, 2, 3][..]));
    assert_eq!((fitted.guarantee.stages.len(), fitted.solutions.len()), (4, 3));
    assert!(fitted.guarantee.stages[0].epsilon == 4.0 * 0.05 && fitted.guarantee.certified_epsilon <= 4.0);
    assert!(fitted.guarantee.recompute().faults.is_empty());
    // in the order that is asked for, and the models with them
    let records = labelled(place, 4, None);
    let MatrixRecords::Here { records, owners, .. } = records else { panic!("here") };
    let labels = Some(Labels { rank: vec![3, 2, 1, 0] });
    let turned = taken(&fit(target, 4.0), MatrixRecords::Here { records, labels, owners }).unwrap();
    assert_eq!(turned.labels.as_deref(), Some(&[3, 2, 0][..]));
    assert!(turned.solutions[2].weights[0] < 0.0 && fitted.solutions[0].weights[0] < 0.0);
    // declared classes are not looked for, and undeclared ones not forgotten
    let known = fit(Target::Classes { loss: HINGE, known: Some(3) }, 4.0);
    assert!(taken(&known, labelled(place, 4, None)).is_err());
    assert!(taken(&fit(target, 4.0), here(self::records(), None)).is_err());
}

/// Whose the rows are: `persons` in turn, but the first row of ten without an owner.
fn owners(persons: usize) -> RowOwners {
    let name = |i: usize| if i.is_multiple_of(10) { String::new() } else { format!("p{}", i % persons) };
    let rows: String = (0..ROWS).map(|i| name(i) + ",0\n").collect();
    let table = open_bytes(format!("person,y\n{rows}").into_bytes(), Format::Csv, &ReadOptions::default()).unwrap();
    RowOwners::read(&*table, "person").unwrap()
}

fn fit_by_unit(target: Target, units: UnitFacts, range: TargetRange) -> Result<Fit<BoundedMatrix>, FitError> {
    let facts = MatrixFacts { units: Some(units), ..facts() };
    let run = RunOptions::within(4.0).insecure_seed(1);
    Fit::of_matrix(facts, target, run, MatrixOptions::default().range(range))
}

#[test]
fn units_are_planned_for_and_run_on() {
    let target = Target::Classes { loss: HINGE, known: Some(3) };
    let by_unit = |units| fit_by_unit(target, units, TargetRange::Scaled);
    let owners = owners(301);
    for most_rows in [None, NonZeroU64::new(4)] {
        let units = UnitFacts { count: owners.units(), most_rows, clipping: UnitClipping::Auto, kept: None };
        let fit = by_unit(units).unwrap();
        assert_eq!(fit.budget().delta(), default_delta(owners.units()));
        let fitted = taken(&fit, here(records(), Some(&owners))).unwrap();
        assert_eq!((fitted.guarantee.unit, fitted.guarantee.protected()), (Unit::User, "person"));
        assert!(fitted.guarantee.recompute().faults.is_empty() && fitted.guarantee.certified_epsilon <= 4.0);
        assert!(fitted.solutions[0].weights[0] < 0.0 && fitted.solutions[2].weights[0] > 0.0);
        // without the owners a row would be taken for a unit
        assert!(taken(&fit, here(records(), None)).is_err());
    }
    let rows = self::fit(target, 4.0);
    assert!(taken(&rows, here(records(), Some(&owners))).is_err(), "planned for rows");
    let few = UnitFacts { count: 1, most_rows: None, clipping: UnitClipping::Auto, kept: None };
    assert!(matches!(by_unit(few), Err(FitError::Option(why)) if why.to_string().starts_with("1 units")));
    // a public number of units is one of places; fewer than have rows are a bug of the caller, who counted them
    let places = UnitFacts { count: 450, most_rows: None, clipping: UnitClipping::Auto, kept: None };
    assert!(taken(&by_unit(places).unwrap(), here(records(), Some(&owners))).is_ok());
    let other = UnitFacts { count: 7, most_rows: None, clipping: UnitClipping::Auto, kept: None };
    assert!(taken(&by_unit(other).unwrap(), here(records(), Some(&owners))).is_err());
}

#[test]
fn a_range_of_units_is_not_found_in_parts_of_rows() {
    let units = UnitFacts { count: ROWS as u64, most_rows: None, clipping: UnitClipping::Auto, kept: None };
    let number = Target::Number(Loss::Squared);
    assert!(fit_by_unit(number, units, TargetRange::Found).unwrap().finds_range());
    let mut remote = MethodOptions::default();
    remote.remote = true;
    let options = MatrixOptions::default().methods(remote).range(TargetRange::Found);
    let refused = Fit::of_matrix(MatrixFacts { units: Some(units), ..facts() }, number, run(4.0), options);
    assert!(refused.err().unwrap().to_string().contains("secret choice"));
}

#[test]
fn a_unit_says_one_label_however_many_rows_it_has() {
    let target = Target::Classes { loss: HINGE, known: None };
    let owners = owners(301);
    let of = |owners: &RowOwners| UnitFacts {
        count: owners.units(),
        most_rows: None,
        clipping: UnitClipping::Auto,
        kept: None,
    };
    let found = |place: &dyn Fn(usize) -> f64, owners: &RowOwners| {
        let fit = fit_by_unit(target, of(owners), TargetRange::Scaled).unwrap();
        taken(&fit, labelled(place, 3, Some(owners))).map(|fitted| fitted.labels)
    };
    // all rows of each person have one label; every third person's is none of the three
    let label = |i: usize| [0.0, 2.0, -1.0][i % 301 % 3];
    assert_eq!(found(&label, &owners).unwrap(), Some(vec![0, 2]));
    // two persons with half of the rows each: as rows, both labels are frequent
    let half = |i: usize| (i % 2) as f64;
    assert!(found(&half, &self::owners(2)).is_err());
    assert_eq!(taken(&fit(target, 4.0), labelled(half, 2, None)).unwrap().labels, Some(vec![0, 1]));
}

/// What each charge was for.
struct Book(Arc<Mutex<Vec<(f64, f64)>>>);

impl Account for Book {
    fn quote(&self, _: &Certificate) -> Result<Option<Quote>, SessionError> {
        Ok(None)
    }

    fn charge(&self, _: &str, whole: &Certificate) -> Result<Option<Receipt>, SessionError> {
        self.0.lock().unwrap().push((whole.budget().epsilon(), whole.budget().delta()));
        Ok(None)
    }
}

#[test]
fn the_whole_budget_is_charged_once_and_a_later_error_says_so() {
    let charges = Arc::new(Mutex::new(Vec::new()));
    for known in [Some(3), None] {
        let target = Target::Classes { loss: ClassLoss::Logistic, known };
        let run = RunOptions::within(2.0).delta(1e-6).account(Arc::new(Book(charges.clone())));
        let fit = Fit::of_matrix(facts(), target, run, MatrixOptions::default()).unwrap();
        // rows of another shape than was planned for
        let narrow = Bounding::in_ball(1, 1.0, 0.0).unwrap();
        let records = narrow.dense((ROWS, 1), |_| [0.5], &vec![1.0; ROWS]).unwrap();
        let labels = known.is_none().then(|| Labels { rank: vec![0, 1] });
        let result = taken(&fit, MatrixRecords::Here { records, labels, owners: None });
        assert!(matches!(result, Err(FitError::Spent(_))));
    }
    assert_eq!(*charges.lock().unwrap(), [(2.0, 1e-6), (2.0, 1e-6)]);
}

#[test]
fn what_cannot_run_is_refused_before_the_charge() {
    let charges = Arc::new(Mutex::new(Vec::new()));
    let tried = |options: MethodOptions, accountant: Option<&'static dyn Accountant>, records: MatrixRecords| {
        let target = Target::Classes { loss: ClassLoss::Logistic, known: None };
        let run = RunOptions::within(1.0).account(Arc::new(Book(charges.clone())));
        let asked = MatrixOptions::default().methods(options).accountant(accountant);
        let fit = Fit::of_matrix(facts(), target, run, asked)?;
        assert_eq!(fit.budget().delta(), default_delta(3000));
        taken(&fit, records).map(drop)
    };
    let places = || labelled(|i| (i % 3) as f64, 3, None);
    assert!(matches!(tried(MethodOptions::default().by("no-such"), None, places()), Err(FitError::NotApplicable(_))));
    // squared loss only
    let other = MethodOptions::default().by("sufficient-statistics");
    assert!(matches!(tried(other, None, places()), Err(FitError::NotApplicable(_))));
    // an accountant without a bound for how labels are found
    let gdp = dpopt_privacy::accountant::all().iter().copied().find(|a| a.name() == "gdp");
    assert!(matches!(tried(MethodOptions::default(), gdp, places()), Err(FitError::Option(_))));
    // targets that are no places of labels
    assert!(tried(MethodOptions::default(), None, here(records(), None)).is_err());
    assert!(charges.lock().unwrap().is_empty());
    assert!(tried(MethodOptions::default(), None, places()).is_ok());
    assert_eq!(charges.lock().unwrap().len(), 1);
}

/// Large ε: the composition of stages leaves no room for the error of finding labels, and the stated budgets add up exactly.
#[test]
fn labels_are_found_at_any_epsilon() {
    for (epsilon, delta) in [(30.0, 1e-7), (50.0, 1e-6), (50.0, 1e-9), (300.0, 1e-6)] {
        let target = Target::Classes { loss: ClassLoss::Logistic, known: None };
        let run = RunOptions::within(epsilon).delta(delta);
        let fit = Fit::of_matrix(facts(), target, run, MatrixOptions::default()).unwrap();
        assert!(fit.quote().is_ok() && fit.stages().unwrap().len() == 2, "{epsilon} {delta}");
    }
}

#[test]
fn targets_are_read_as_the_loss_wants_them() {
    let logistic = Loss::Logistic { shift: 0.0 };
    for (loss, against, given, read) in [
        (logistic, None, 0.0, -1.0),
        (logistic, None, 1.0, 1.0),
        (Loss::Hinge, Some(2), 2.0, 1.0),
        (Loss::Hinge, Some(2), 1.0, -1.0),
        (Loss::Softmax { classes: 4 }, None, 3.0, 3.0),
        (Loss::Squared, None, -0.25, -0.25),
    ] {
        let view = View { loss, against, range: None };
        assert_eq!(view.target(given), read);
        assert_eq!(view.target(f64::NAN), 0.0);
    }
}
