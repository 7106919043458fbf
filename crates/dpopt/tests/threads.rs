//! Which of the façade's types may go to another thread, and which several threads may look at: what docs/threads.md promises to users of Rust, checked by the compiler.

use dpopt::mechanism::{Curator, ReleaseRecord};
use dpopt::model::{BoundedMatrix, Explanation, Fit, Guarantee, MatrixFitted, MatrixStream, Model, Planned, Shard};
use dpopt::online::{Bandit, Convex, Experts};
use dpopt::privacy::ledger::{Ledger, Receipt, Status};
use dpopt::privacy::{Bound, Budget, Certificate, Event};
use dpopt::report::Report;
use dpopt::session::Session;

fn may_go<T: Send>() {}
fn may_be_shared<T: Send + Sync>() {}

#[test]
fn values_may_be_shared_and_what_goes_on_may_go() {
    may_be_shared::<Model>();
    may_be_shared::<Fit<BoundedMatrix>>();
    may_be_shared::<MatrixFitted>();
    may_be_shared::<Planned>();
    may_be_shared::<Explanation>();
    may_be_shared::<Guarantee>();
    may_be_shared::<Report>();
    may_be_shared::<ReleaseRecord>();
    may_be_shared::<(Event, Budget, Bound, Certificate, Receipt, Status)>();
    may_be_shared::<Shard>();

    may_go::<Fit>();
    may_go::<MatrixStream>();
    may_go::<Session>();
    may_go::<Curator>();
    may_go::<Ledger>();
    may_go::<(Experts, Bandit, Convex)>();
}

/// A fit that was planned once runs in several threads at once, each with a charge and noise of its own.
#[test]
fn one_plan_runs_in_several_threads() {
    use dpopt::RunOptions;
    use dpopt::model::{MatrixFacts, MatrixOptions, MatrixRecords, Target};
    use dpopt::progress::Silent;
    use dpopt::records::Bounding;
    use std::sync::Arc;

    let (rows, columns) = (300, 3);
    let number = |i: usize, j: usize| ((i * 7 + j * 13) % 29) as f64 / 29.0 - 0.5;
    let targets: Vec<f64> = (0..rows).map(|i| f64::from(u8::from(number(i, 0) > 0.0))).collect();
    let bounding = Bounding::in_ball(columns, 1.0, 0.5).unwrap();
    let facts = MatrixFacts {
        rows: rows as u64,
        features: bounding.width(),
        nonzeros: bounding.nonzeros(),
        row_norm: bounding.row_norm(),
        units: None,
    };
    let target = Target::Classes { loss: dpopt::model::ClassLoss::Logistic, known: Some(2) };
    let run = RunOptions::within(1.0).delta(1e-6);
    let fit = Arc::new(Fit::of_matrix(facts, target, run, MatrixOptions::default()).unwrap());
    let weights = |seed: u64| {
        let row = |i: usize| (0..columns).map(move |j| number(i, j));
        let records = bounding.dense((rows, columns), row, &targets).unwrap();
        let run = fit.paid_by(dpopt::Payer::Nobody, Some(seed));
        let records = MatrixRecords::Here { records, labels: None, owners: None };
        run.run_on(records, &Silent).unwrap().solutions.remove(0).weights
    };
    let alone: Vec<_> = (0..4).map(&weights).collect();
    let together: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|seed| scope.spawn(move || weights(seed))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(alone, together);
    assert_ne!(alone[0], alone[1]);
}
