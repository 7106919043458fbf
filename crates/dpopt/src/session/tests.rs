use super::*;
use dpopt_mechanism::{ClippedVectors, Gaussian};
use dpopt_noise::Grid;
use dpopt_optimize::plan::Grade;
use dpopt_privacy::{Neighbours, Relation};

const RECORDS: Neighbours = Neighbours::of_records(Relation::ZeroOut);

fn budget(epsilon: f64) -> Budget {
    Budget::new(epsilon, 1e-6).unwrap()
}

fn part(neighbours: Neighbours) -> Certificate {
    certify(&Event::gaussian(20.0).approximate(1e-30), neighbours.within(Budget::new(0.5, 5e-7).unwrap())).unwrap()
}

fn stage(name: &str, stream: u64) -> StageFacts<'_> {
    StageFacts { name, rests_on: Evidence::Proved, stream }
}

/// A noisy sum of three numbers.
fn sum(curator: &mut Curator) -> Result<Vec<f64>, SessionError> {
    let grid = Grid::for_sum(1.0, 20.0, 3, 1);
    let clipped = ClippedVectors::new(1.0, grid).unwrap();
    let rows = [0.5, -0.25, 1.0];
    let sum = clipped.sum(3, 1, |i, out: &mut Vec<f64>| out.push(rows[i]));
    Ok(curator.release(&Gaussian::new(20.0, 1.0, grid, 1, "sum"), &sum).unwrap().into_inner())
}

fn opened(seed: u64) -> Session {
    let opening = Opening::new(RECORDS.within(budget(1.0)), None, Some(seed)).unwrap();
    opening.charge("run", &[&part(RECORDS), &part(RECORDS)]).unwrap()
}

#[test]
fn stages_are_written_down_in_order_each_with_noise_of_its_own() {
    let mut session = opened(3);
    let first = session.stage(stage("first", 1), &part(RECORDS), sum).unwrap();
    let second = session.stage(stage("second", 0), &part(RECORDS), sum).unwrap();
    assert_ne!(first, second);
    let closed = session.close();
    let names: Vec<&str> = closed.guarantee.stages.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["first", "second"]);
    assert_eq!(closed.releases.len(), 2);
    assert!(closed.releases.iter().all(|stage| stage.len() == 1 && stage[0].label == "sum"));
    assert!(closed.guarantee.insecure_seed && closed.receipt.is_none());
    assert!(closed.guarantee.recompute().faults.is_empty());
    // streams, not the order of stages, decide the noise
    let mut again = opened(3);
    assert_eq!(again.stage(stage("second", 0), &part(RECORDS), sum).unwrap(), second);
}

#[test]
fn a_stage_for_other_neighbours_or_with_used_noise_does_not_run() {
    for other in [Neighbours::of_users(Relation::ZeroOut), Neighbours::of_records(Relation::ReplaceOne)] {
        let mut session = opened(1);
        let ran = std::cell::Cell::new(false);
        let refused = session.stage(stage("model", 0), &part(other), |_| {
            ran.set(true);
            Ok::<(), SessionError>(())
        });
        assert!(matches!(refused, Err(SessionError::OtherNeighbours(_))) && !ran.get());
    }
    let mut session = opened(1);
    session.stage(stage("one", 0), &part(RECORDS), sum).unwrap();
    assert!(matches!(session.stage(stage("two", 0), &part(RECORDS), sum), Err(SessionError::Stream)));
    assert_eq!(session.close().guarantee.stages.len(), 1);
}

#[test]
fn a_ledger_is_charged_once_before_the_first_stage_and_never_for_seeded_noise() {
    let directory = tempfile::tempdir().unwrap();
    let file = LedgerFile {
        path: directory.path().join("budget.jsonl"),
        total: Budget::new(2.0, 1e-5).unwrap(),
        access: dpopt_privacy::ledger::Access::default(),
        unit: Vec::new(),
    };
    let terms = RECORDS.within(budget(1.0));
    assert!(matches!(Opening::new(terms, LedgerFile::account(Some(&file)), Some(1)), Err(SessionError::Predictable)));
    let opening = Opening::new(terms, LedgerFile::account(Some(&file)), None).unwrap();
    assert!(opening.quote(&[&part(RECORDS)]).unwrap().unwrap().first);
    assert!(!file.path.exists());
    let mut session = opening.charge("run", &[&part(RECORDS)]).unwrap();
    assert!(session.is_charged() && file.path.exists());
    session.stage(stage("sum", 0), &part(RECORDS), sum).unwrap();
    let closed = session.close();
    assert_eq!(closed.receipt.unwrap().number, 1);
    assert!(!closed.guarantee.insecure_seed);
    // another unit has no place in it
    let users = Neighbours::of_users(Relation::ZeroOut);
    let opening = Opening::new(users.within(budget(1.0)), LedgerFile::account(Some(&file)), None).unwrap();
    assert!(opening.charge("run", &[&part(users)]).is_err());
    // nor have the values of a column in one of another's
    let of = |column: &str| LedgerFile {
        path: directory.path().join("persons.jsonl"),
        unit: vec![column.into()],
        ..file.clone()
    };
    let charge = |file: LedgerFile| {
        let opening = Opening::new(users.within(budget(1.0)), LedgerFile::account(Some(&file)), None).unwrap();
        opening.charge("run", &[&part(users)]).map(drop).map_err(|why| why.to_string())
    };
    assert_eq!(charge(of("patient")), Ok(()));
    let message = charge(of("visit")).unwrap_err();
    assert!(message.contains("values of patient") && message.contains("values of visit"), "{message}");
}

#[test]
fn the_default_delta_is_below_one_over_n_and_never_large() {
    for n in [0, 1, 2, 10, 65, 66, 1000, 1_000_000] {
        let delta = default_delta(n);
        assert!(delta <= 0.01 && delta < 1.0 / n.max(1) as f64, "{n}: {delta}");
    }
    assert_eq!(default_delta(1000), 1000f64.powf(-1.1));
}

#[test]
fn a_stage_that_was_not_charged_for_does_not_run_and_one_that_fails_is_written_down() {
    let small =
        certify(&Event::gaussian(200.0).approximate(1e-30), RECORDS.within(Budget::new(0.1, 5e-7).unwrap())).unwrap();
    let opened =
        |parts: &[&Certificate]| Opening::new(RECORDS.within(budget(1.0)), None, Some(1)).unwrap().charge("run", parts);
    let mut session = opened(&[&small]).unwrap();
    let refused = session.stage(stage("model", 0), &part(RECORDS), sum);
    assert!(matches!(refused, Err(SessionError::NotCharged { .. })));
    // a budget pays for what stays within it, once
    let own = certify(&any_within(budget(0.6)), RECORDS.within(budget(0.6))).unwrap();
    let mut session = opened(&[&own]).unwrap();
    let failed = session.stage(stage("one", 0), &part(RECORDS), |curator| {
        sum(curator)?;
        Err::<(), _>(SessionError::Stream)
    });
    assert!(failed.is_err());
    assert!(matches!(session.stage(stage("two", 1), &part(RECORDS), sum), Err(SessionError::NotCharged { .. })));
    let closed = session.close();
    assert_eq!((closed.guarantee.stages.len(), closed.releases[0].len()), (1, 1));
    // the same event at a larger budget would promise more than was charged
    let wide = certify(&Event::gaussian(20.0).approximate(1e-30), RECORDS.within(budget(5.0))).unwrap();
    let mut session = opened(&[&part(RECORDS)]).unwrap();
    assert!(matches!(session.stage(stage("model", 0), &wide, sum), Err(SessionError::NotCharged { .. })));
    // parts beyond the terms, or of another unit, are not charged; one whose event fits is, as what it costs within the terms
    let costly = certify(&Event::gaussian(2.0), RECORDS.within(budget(5.0))).unwrap();
    assert!(matches!(opened(&[&costly]).err(), Some(SessionError::Certify(_))));
    assert!(opened(&[&wide]).is_ok());
    let users = Neighbours::of_users(Relation::ZeroOut);
    assert!(matches!(opened(&[&part(users)]).err(), Some(SessionError::OtherNeighbours(_))));
    assert!(matches!(opened(&[&own, &own]).err(), Some(SessionError::Certify(_))));
}

#[test]
fn a_budget_is_shared_by_stages_that_together_stay_within_it() {
    let terms = RECORDS.within(budget(1.0));
    let own = certify(&any_within(terms.budget), terms).unwrap();
    let share =
        certify(&Event::gaussian(20.0).approximate(1e-30), RECORDS.within(Budget::new(0.4, 4e-7).unwrap())).unwrap();
    let mut session = Opening::new(terms, None, Some(1)).unwrap().charge("run", &[&own]).unwrap();
    session.stage(stage("one", 0), &share, sum).unwrap();
    session.stage(stage("two", 1), &share, sum).unwrap();
    assert!(matches!(session.stage(stage("three", 2), &share, sum), Err(SessionError::NotCharged { .. })));
    // the same event twice needs two parts
    let mut session = Opening::new(terms, None, Some(1)).unwrap().charge("run", &[&share]).unwrap();
    session.stage(stage("one", 0), &share, sum).unwrap();
    assert!(matches!(session.stage(stage("two", 1), &share, sum), Err(SessionError::NotCharged { .. })));
}

#[test]
fn an_account_of_the_callers_own_is_charged_before_the_first_stage_and_may_refuse() {
    struct Purse(std::sync::Arc<std::sync::Mutex<f64>>);
    impl Account for Purse {
        fn quote(&self, _: &Certificate) -> Result<Option<Quote>, SessionError> {
            Ok(None)
        }

        fn charge(&self, _: &str, whole: &Certificate) -> Result<Option<Receipt>, SessionError> {
            let mut left = self.0.lock().unwrap();
            if *left < whole.budget().epsilon() {
                return Err(SessionError::Account("the purse is empty".into()));
            }
            *left -= whole.budget().epsilon();
            Ok(None)
        }
    }
    let left = std::sync::Arc::new(std::sync::Mutex::new(0.75));
    let open = || Opening::new(RECORDS.within(budget(0.5)), Some(Box::new(Purse(left.clone()))), None).unwrap();
    assert!(open().quote(&[&part(RECORDS)]).unwrap().is_none() && *left.lock().unwrap() == 0.75);
    let session = open().charge("run", &[&part(RECORDS)]).unwrap();
    assert!(session.is_charged() && *left.lock().unwrap() == 0.25);
    let refused = open().charge("run", &[&part(RECORDS)]).err().unwrap();
    assert!(refused.to_string().contains("purse is empty") && *left.lock().unwrap() == 0.25);
}

#[test]
fn one_vouched_stage_makes_a_run_research_grade() {
    let assumed = |name, stream| StageFacts { rests_on: Evidence::Assumed, ..stage(name, stream) };
    let mut session = opened(1);
    session.stage(stage("first", 0), &part(RECORDS), sum).unwrap();
    // a stage that is refused promises nothing
    assert!(session.stage(assumed("second", 0), &part(RECORDS), sum).is_err());
    assert_eq!(session.guarantee().grade, Grade::Certified);
    session.stage(assumed("second", 1), &part(RECORDS), sum).unwrap();
    assert_eq!(session.guarantee().grade, Grade::Research);
    // what comes after does not mend it
    let mut session = opened(1);
    session.stage(assumed("first", 0), &part(RECORDS), sum).unwrap();
    session.stage(stage("second", 1), &part(RECORDS), sum).unwrap();
    assert_eq!(session.close().guarantee.grade, Grade::Research);
    // what is found while a stage runs counts too
    let mut session = opened(1);
    let active = session.enter(stage("first", 0), &part(RECORDS)).unwrap();
    session.rest_on(Evidence::Public);
    assert_eq!(session.guarantee().grade, Grade::Certified);
    session.rest_on(Evidence::Assumed);
    session.rest_on(Evidence::Enforced);
    session.note(&active);
    assert_eq!(session.close().guarantee.grade, Grade::Research);
}

#[test]
fn a_stage_does_not_run_in_a_forked_copy() {
    let mut session = opened(5);
    session.process = Process::another();
    let ran = std::cell::Cell::new(false);
    let refused = session.stage(stage("model", 0), &part(RECORDS), |_| {
        ran.set(true);
        Ok::<(), SessionError>(())
    });
    assert!(matches!(refused, Err(SessionError::Copied)) && !ran.get());
    assert!(session.releases().is_empty() && session.guarantee().stages.is_empty());
    session.process = Process::here();
    assert!(session.stage(stage("model", 0), &part(RECORDS), sum).is_ok());
}
