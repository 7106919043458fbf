//! Fits of matrices: labels and ranges that are found, units, what is refused before anything is read.

use super::*;
use crate::model::scheme::ClassLoss;
use crate::model::units::UnitClipping;
use crate::session::SessionError;
use dpopt_data::{Format, ReadOptions, open_bytes};
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

fn fit(target: Target, epsilon: f64) -> Arc<MatrixFit> {
    let facts =
        MatrixFacts { rows: ROWS as u64, features: 3, nonzeros: 3, row_norm: records().rows.norm_bound(), units: None };
    let made = MatrixFit::new(facts, target, Relation::ZeroOut, (epsilon, Some(1e-6)), MethodOptions::default());
    Arc::new(made.unwrap())
}

#[test]
fn classes_are_fitted_one_against_the_rest_within_one_budget() {
    let target = Target::Classes { loss: HINGE, known: Some(3) };
    let run = fit(target, 4.0).open("run", None, Some(1), None).unwrap();
    let fitted = run.fit(records(), 3, None).unwrap();
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
    let fit = Arc::into_inner(fit(Target::Number(Loss::Squared), 4.0)).unwrap().finding_range().unwrap();
    assert!(fit.finds_range() && fit.division.bounds.unwrap().epsilon() == 4.0 * 0.05);
    let mut run = Arc::new(fit).open("run", None, Some(1), None).unwrap();
    let targets: Vec<f64> = (0..ROWS).map(|i| if i % 100 == 0 { f64::NAN } else { 500.0 + (i % 50) as f64 }).collect();
    let (lower, upper) = run.find_range(&targets, None).unwrap();
    assert!((400.0..500.0).contains(&lower) && (545.0..650.0).contains(&upper), "{lower} {upper}");
    assert!(run.find_range(&targets, None).is_err(), "found twice");
    let fitted = run.fit(records(), 0, None).unwrap();
    assert_eq!(fitted.guarantee.stages.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["bounds", "model"]);
    assert!(fitted.guarantee.certified_epsilon <= 4.0 && fitted.guarantee.recompute().faults.is_empty());
}

#[test]
fn ranges_of_classes_and_of_few_rows_are_not_looked_for() {
    let classes = Arc::into_inner(fit(Target::Classes { loss: HINGE, known: Some(3) }, 4.0)).unwrap();
    assert!(classes.finding_range().is_err());
    // 30 % of this would need more rows
    let few = Arc::into_inner(fit(Target::Number(Loss::Squared), 0.05)).unwrap().finding_range().unwrap();
    assert!(!few.finds_range() && few.division.bounds.is_none());
    assert!(Arc::new(few).open("run", None, Some(1), None).unwrap().find_range(&[0.0; ROWS], None).is_err());
}

#[test]
fn labels_are_found_within_their_share_and_models_within_the_rest() {
    let target = Target::Classes { loss: HINGE, known: None };
    let mut run = fit(target, 4.0).open("run", None, Some(1), None).unwrap();
    assert_eq!(run.frequent_labels(vec![990, 2, 990, 990]).unwrap(), [0, 2, 3]);
    assert!(run.frequent_labels(vec![990, 990]).is_err(), "found twice");
    let fitted = run.fit(records(), 3, None).unwrap();
    assert_eq!(fitted.guarantee.stages.len(), 4);
    assert!(fitted.guarantee.stages[0].epsilon == 4.0 * 0.05 && fitted.guarantee.certified_epsilon <= 4.0);
    assert!(fitted.guarantee.recompute().faults.is_empty());
    // declared classes are not looked for
    let mut run = fit(Target::Classes { loss: HINGE, known: Some(3) }, 4.0).open("run", None, Some(1), None).unwrap();
    assert!(run.frequent_labels(vec![990, 990]).is_err());
}

/// Whose the rows are: `persons` in turn, but the first row of ten nobody's.
fn owners(persons: usize) -> RowOwners {
    let name = |i: usize| if i.is_multiple_of(10) { String::new() } else { format!("p{}", i % persons) };
    let rows: String = (0..ROWS).map(|i| name(i) + ",0\n").collect();
    let table = open_bytes(format!("person,y\n{rows}").into_bytes(), Format::Csv, &ReadOptions::default()).unwrap();
    RowOwners::read(&*table, "person").unwrap()
}

fn fit_by_unit(target: Target, units: UnitFacts, epsilon: f64) -> Result<Arc<MatrixFit>, FitError> {
    let row_norm = records().rows.norm_bound();
    let facts = MatrixFacts { rows: ROWS as u64, features: 3, nonzeros: 3, row_norm, units: Some(units) };
    let made = MatrixFit::new(facts, target, Relation::ZeroOut, (epsilon, None), MethodOptions::default());
    made.map(Arc::new)
}

#[test]
fn units_are_planned_for_and_run_on() {
    let target = Target::Classes { loss: HINGE, known: Some(3) };
    let owners = owners(301);
    for most_rows in [None, NonZeroU64::new(4)] {
        let units = UnitFacts { count: owners.units(), most_rows, clipping: UnitClipping::Auto, kept: None };
        let fit = fit_by_unit(target, units, 4.0).unwrap();
        assert_eq!(fit.budget().delta(), default_delta(owners.units()));
        let fitted = fit.clone().open("run", None, Some(1), None).unwrap().fit(records(), 3, Some(&owners)).unwrap();
        assert_eq!((fitted.guarantee.unit, fitted.guarantee.protected()), (Unit::User, "person"));
        assert!(fitted.guarantee.recompute().faults.is_empty() && fitted.guarantee.certified_epsilon <= 4.0);
        assert!(fitted.solutions[0].weights[0] < 0.0 && fitted.solutions[2].weights[0] > 0.0);
        // without the owners a row would be taken for a unit
        let run = || fit.clone().open("run", None, Some(1), None).unwrap();
        assert!(run().fit(records(), 3, None).is_err());
        assert!(run().find_labels(&vec![0; ROWS], 1, None).is_err());
    }
    let rows = self::fit(target, 4.0).open("run", None, Some(1), None).unwrap();
    assert!(rows.fit(records(), 3, Some(&owners)).is_err(), "planned for rows");
    let few = UnitFacts { count: 1, most_rows: None, clipping: UnitClipping::Auto, kept: None };
    assert!(matches!(fit_by_unit(target, few, 4.0), Err(FitError::Option(why)) if why.starts_with("1 units")));
    // a public number of units is one of places; fewer than have rows are a bug of the caller, who counted them
    let places = UnitFacts { count: 450, most_rows: None, clipping: UnitClipping::Auto, kept: None };
    let run = fit_by_unit(target, places, 4.0).unwrap().open("run", None, Some(1), None).unwrap();
    assert!(run.fit(records(), 3, Some(&owners)).is_ok());
    let other = UnitFacts { count: 7, most_rows: None, clipping: UnitClipping::Auto, kept: None };
    let run = fit_by_unit(target, other, 4.0).unwrap().open("run", None, Some(1), None).unwrap();
    assert!(run.fit(records(), 3, Some(&owners)).is_err());
}

/// Parts that are not to be asked.
struct Unasked;

impl Parts for Unasked {
    fn ask(&self, _: &[u8]) -> Result<Vec<Vec<u8>>, dpopt_objective::records::PartsFailed> {
        panic!("asked")
    }
}

#[test]
fn a_range_of_units_is_not_found_in_parts_of_rows() {
    let units = UnitFacts { count: ROWS as u64, most_rows: None, clipping: UnitClipping::Auto, kept: None };
    let fit = Arc::into_inner(fit_by_unit(Target::Number(Loss::Squared), units, 4.0).unwrap()).unwrap();
    let mut run = Arc::new(fit.finding_range().unwrap()).open("run", None, Some(1), None).unwrap();
    assert!(run.finds_range());
    let parts: Arc<dyn Parts> = Arc::new(Unasked);
    assert!(matches!(run.find_range_elsewhere(&parts, &[(2000, 0)]), Err(FitError::Option(_))));
    // refused like that, it is still to be found
    assert!(run.finds_range());
}

#[test]
fn a_unit_says_one_label_however_many_rows_it_has() {
    let target = Target::Classes { loss: HINGE, known: None };
    let owners = owners(301);
    let units = UnitFacts { count: owners.units(), most_rows: None, clipping: UnitClipping::Auto, kept: None };
    let found = |place: &dyn Fn(usize) -> i64, owners: &RowOwners, units| {
        let mut run = fit_by_unit(target, units, 4.0).unwrap().open("run", None, Some(1), None).unwrap();
        let places: Vec<i64> = (0..ROWS).map(place).collect();
        run.find_labels(&places, 3, Some(owners))
    };
    // all rows of each person have one label; every third person's is none of the three
    let label = |i: usize| [0, 2, -1][i % 301 % 3];
    assert_eq!(found(&label, &owners, units).unwrap(), [0, 2]);
    // two persons with half of the rows each: as rows, both labels are frequent
    let two = self::owners(2);
    let facts = UnitFacts { count: two.units(), most_rows: None, clipping: UnitClipping::Auto, kept: None };
    assert!(found(&|i| (i % 2) as i64, &two, facts).is_err());
    let mut rows = self::fit(target, 4.0).open("run", None, Some(1), None).unwrap();
    let places: Vec<i64> = (0..ROWS as i64).map(|i| i % 2).collect();
    assert_eq!(rows.find_labels(&places, 2, None).unwrap(), [0, 1]);
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
        let book = Box::new(Book(charges.clone()));
        let run = fit(target, 2.0).open("run", Some(book), None, None).unwrap();
        // rows of another shape than was planned for
        let narrow = Bounding::in_ball(1, 1.0, 0.0).unwrap();
        let narrow = narrow.dense((ROWS, 1), |_| [0.5], &vec![1.0; ROWS]).unwrap();
        assert!(matches!(run.fit(narrow, 3, None), Err(FitError::Spent(_))));
    }
    assert_eq!(*charges.lock().unwrap(), [(2.0, 1e-6), (2.0, 1e-6)]);
}

#[test]
fn what_cannot_run_is_refused_before_the_charge() {
    let charges = Arc::new(Mutex::new(Vec::new()));
    let open = |options: MethodOptions, accountant: Option<&'static dyn Accountant>| {
        let facts = MatrixFacts { rows: 3000, features: 3, nonzeros: 3, row_norm: 1.2, units: None };
        let target = Target::Classes { loss: ClassLoss::Logistic, known: None };
        let fit = MatrixFit::new(facts, target, Relation::ZeroOut, (1.0, None), options)?;
        assert_eq!(fit.budget().delta(), default_delta(3000));
        Arc::new(fit).open("run", Some(Box::new(Book(charges.clone()))), None, accountant).map(drop)
    };
    assert!(matches!(open(MethodOptions::default().by("no-such"), None), Err(FitError::NotApplicable(_))));
    // squared loss only
    let other = MethodOptions::default().by("sufficient-statistics");
    assert!(matches!(open(other, None), Err(FitError::NotApplicable(_))));
    // an accountant without a bound for how labels are found
    let gdp = dpopt_privacy::accountant::all().iter().copied().find(|a| a.name() == "gdp");
    assert!(matches!(open(MethodOptions::default(), gdp), Err(FitError::Option(_))));
    assert!(charges.lock().unwrap().is_empty());
    assert!(open(MethodOptions::default(), None).is_ok());
    assert_eq!(charges.lock().unwrap().len(), 1);
}

/// Large ε: the composition of stages leaves no room for the error of finding labels, and the stated budgets add up exactly.
#[test]
fn labels_are_found_at_any_epsilon() {
    for (epsilon, delta) in [(30.0, 1e-7), (50.0, 1e-6), (50.0, 1e-9), (300.0, 1e-6)] {
        let facts = MatrixFacts { rows: 3000, features: 3, nonzeros: 3, row_norm: 1.2, units: None };
        let target = Target::Classes { loss: ClassLoss::Logistic, known: None };
        let options = MethodOptions::default();
        let fit = MatrixFit::new(facts, target, Relation::ZeroOut, (epsilon, Some(delta)), options).unwrap();
        assert!(Arc::new(fit).open("run", None, Some(1), None).is_ok(), "{epsilon} {delta}");
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
