//! Methods of few passes over partitions: the same bits however records are divided, near a fit in memory, and asked as often as they say.

use dpopt::RunOptions;
use dpopt::loss::Loss;
use dpopt::model::{
    BoundedMatrix, ClassLoss, Fit, FitError, MatrixFacts, MatrixFitted, MatrixOptions, MatrixRecords, Shard, Target,
};
use dpopt::optimize::MethodOptions;
use dpopt::progress::Silent;
use dpopt::records::{Bounded, Bounding, Partitions, PartitionsFailed, Rows};
use std::sync::{Arc, Mutex};

const ROWS: usize = 2000;

/// Three classes that lines tell apart, and a number; every hundredth record has no target.
fn records(which: std::ops::Range<usize>, number: bool) -> Bounded {
    let bounding = Bounding::in_box(vec![-1.0; 3], vec![1.0; 3], 1.0, 0.5, false).unwrap();
    let (first, count) = (which.start, which.len());
    let entry = |i: usize, j: usize| ((i * (j + 3) * 7919) % 2001) as f64 / 1000.0 - 1.0;
    let row = |i: usize| (0..3).map(move |j| entry(first + i, j));
    let target = |i: usize| match (i % 100, number) {
        (0, _) => f64::NAN,
        (_, true) => 0.5 * entry(i, 0) - 0.3 * entry(i, 1),
        (_, false) => (0..3).max_by(|&a, &b| entry(i, a).total_cmp(&entry(i, b))).unwrap() as f64,
    };
    let targets: Vec<f64> = which.map(target).collect();
    bounding.dense((count, 3), row, &targets).unwrap()
}

/// Parts in this process, each sent to and fro before every answer.
struct Here(Vec<Shard>);

impl Partitions for Here {
    fn ask(&self, query: &[u8]) -> Result<Vec<Vec<u8>>, PartitionsFailed> {
        let moved = |shard: &Shard| Shard::from_bytes(&shard.to_bytes()).map_err(|_| PartitionsFailed);
        self.0.iter().rev().map(|shard| moved(shard)?.answer(query).map_err(|_| PartitionsFailed)).collect()
    }
}

fn fit(target: Target, method: &str, remote: bool, number: bool) -> Result<Fit<BoundedMatrix>, FitError> {
    fit_with(MethodOptions::default(), target, method, remote, number)
}

fn fit_with(
    mut options: MethodOptions,
    target: Target,
    method: &str,
    remote: bool,
    number: bool,
) -> Result<Fit<BoundedMatrix>, FitError> {
    let row_norm = records(0..10, number).rows.norm_bound();
    let facts = MatrixFacts { rows: ROWS as u64, features: 4, nonzeros: 4, row_norm, units: None };
    options.remote = remote;
    options.method = (method != "auto").then(|| method.into());
    let run = RunOptions::within(2.0).delta(1e-6).insecure_seed(1);
    Fit::of_matrix(facts, target, run, MatrixOptions::default().methods(options))
}

/// These rows, which are here.
fn here(records: Bounded) -> MatrixRecords {
    MatrixRecords::Here { records, labels: None, owners: None }
}

fn in_parts(fit: &Fit<BoundedMatrix>, ends: &[usize], number: bool) -> Result<MatrixFitted, FitError> {
    let starts = std::iter::once(0).chain(ends.iter().copied());
    let shards: Vec<Shard> =
        starts.zip(ends).zip(0..).map(|((a, &b), part)| Shard::new(records(a..b, number), part)).collect();
    let known: Vec<(u64, u64)> = shards.iter().map(|shard| (shard.records(), shard.digest())).collect();
    let parts: Arc<dyn Partitions> = Arc::new(Here(shards));
    fit.run_on(MatrixRecords::Partitions { parts, known, owner: None }, &Silent)
}

const CUTS: [&[usize]; 3] = [&[ROWS], &[700, ROWS], &[0, 100, 150, 151, 900, 900, ROWS]];

/// Their sums are integers in parts and floats in memory: the same bits in all parts, and of both the same point but for what the closing noise covers.
#[test]
fn a_minimiser_is_the_same_bits_in_all_parts_and_near_that_of_one_process() {
    let one_of = |loss: ClassLoss, classes: usize| Target::Classes { loss, known: Some(classes) };
    let each = ClassLoss::OneAgainstRest(Loss::Logistic { shift: 0.0 });
    for (target, method, classes) in [
        (one_of(ClassLoss::Logistic, 2), "objective-perturbation", 2),
        (one_of(ClassLoss::Logistic, 2), "output-perturbation", 2),
        (one_of(ClassLoss::Logistic, 3), "objective-perturbation", 3),
        (one_of(ClassLoss::Logistic, 3), "output-perturbation", 3),
        (one_of(each, 3), "output-perturbation", 3),
    ] {
        let number = false;
        let there = fit(target, method, true, number).unwrap();
        let planned = there.planned(classes).unwrap();
        let plan = planned.plan().unwrap();
        // the last three are for the calibration of one model of all classes
        let passes = if matches!(target, Target::Classes { loss: ClassLoss::OneAgainstRest(_), .. }) { 32 } else { 35 };
        assert_eq!((plan.summary().method, plan.passes()), (method, passes));
        let schedule = plan.schedule();
        let number_of = |name: &str| schedule[name].as_f64().unwrap();
        let [one, two, seven] = CUTS.map(|ends| in_parts(&there, ends, number).unwrap());
        assert!(one.solutions == two.solutions && one.solutions == seven.solutions, "{method} {target:?}");
        let here = fit(target, method, false, number).unwrap();
        let whole = here.run_on(self::here(records(0..ROWS, number)), &Silent).unwrap();
        // with so few records both promise the same, and so draw the same noise
        let here = here.planned(classes).unwrap().plan().unwrap().schedule();
        assert_eq!(here["tolerance"], schedule["tolerance"], "{method} {target:?}");
        let grid = ["closing_grid_exponent", "grid_exponent"].iter().find_map(|name| schedule[*name].as_f64());
        for (a, b) in one.solutions.iter().zip(&whole.solutions) {
            let gap = a.weights.iter().zip(&b.weights).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
            let root = (a.weights.len() as f64).sqrt();
            let near = 2.0 * number_of("tolerance") / number_of("regularization") + 2f64.powf(grid.unwrap()) * root;
            assert!(gap <= near, "{method} {target:?}: {gap:e} {near:e}");
        }
        assert_eq!(one.guarantee.certified_epsilon, whole.guarantee.certified_epsilon);
        assert_eq!(one.releases.len(), whole.releases.len());
    }
}

/// The matrix of a step is rounded record by record: close to that of one process at a noise that is next to none.
#[test]
fn newton_steps_are_the_same_bits_in_all_parts() {
    let target = Target::Classes { loss: ClassLoss::Logistic, known: Some(2) };
    let there = fit(target, "noisy-newton", true, false).unwrap();
    let planned = there.planned(2).unwrap();
    assert_eq!(planned.plan().unwrap().passes(), 15);
    let [one, two, seven] = CUTS.map(|ends| in_parts(&there, ends, false).unwrap());
    assert!(one.solutions == two.solutions && one.solutions == seven.solutions);
    let whole = fit(target, "noisy-newton", false, false).unwrap();
    let whole = whole.run_on(here(records(0..ROWS, false)), &Silent).unwrap();
    // the same noise but for the last digits of its scale
    for (a, b) in one.solutions[0].weights.iter().zip(&whole.solutions[0].weights) {
        assert!((a - b).abs() <= 1e-3 * (1.0 + b.abs()), "{a} {b}");
    }
}

#[test]
fn descents_that_need_no_more_than_sums_are_those_of_one_process() {
    let target = Target::Classes { loss: ClassLoss::Logistic, known: Some(2) };
    for (method, passes) in [("released-preconditioner", 24), ("regularized-descent", 23)] {
        let of = |remote| {
            let options = MethodOptions::default().with("steps", 20u64);
            fit_with(options, target, method, remote, false).unwrap()
        };
        assert_eq!(of(true).planned(2).unwrap().plan().unwrap().passes(), passes);
        let whole = of(false).run_on(here(records(0..ROWS, false)), &Silent).unwrap();
        for ends in CUTS {
            assert!(in_parts(&of(true), ends, false).unwrap().solutions == whole.solutions, "{method} {ends:?}");
        }
    }
    let sampled = MethodOptions::default().with("sampling_probability", 0.1);
    let refused = fit_with(sampled, target, "regularized-descent", true, false).unwrap().quote();
    assert!(refused.err().unwrap().to_string().contains("cannot be sampled"));
}

/// How often parts are asked is seen by those who look at an engine: as often as the plan says, whatever the records are.
#[test]
fn parts_are_asked_as_often_as_the_plan_says() {
    struct Counting(Here, Mutex<u64>);
    impl Partitions for Counting {
        fn ask(&self, query: &[u8]) -> Result<Vec<Vec<u8>>, PartitionsFailed> {
            *self.1.lock().unwrap() += 1;
            self.0.ask(query)
        }
    }
    let two = Target::Classes { loss: ClassLoss::Logistic, known: Some(2) };
    let three = Target::Classes { loss: ClassLoss::OneAgainstRest(Loss::Logistic { shift: 0.0 }), known: Some(3) };
    let softmax = Target::Classes { loss: ClassLoss::Logistic, known: Some(3) };
    let number = Target::Number(Loss::Squared);
    for (target, method, classes) in [
        (two, "objective-perturbation", 2),
        (three, "output-perturbation", 3),
        (softmax, "objective-perturbation", 3),
        (two, "noisy-newton", 2),
        (two, "noisy-gradient-descent", 2),
        (two, "released-preconditioner", 2),
        (number, "sufficient-statistics", 0),
        (number, "adaptive-clip-descent", 0),
    ] {
        let there = fit(target, method, true, classes == 0).unwrap();
        let planned = there.planned(classes).unwrap();
        let expected = planned.plan().unwrap().passes() * planned.models as u64;
        // as they are, rows without content, and all of one class
        for world in 0..3 {
            let mut of = records(0..ROWS, classes == 0);
            if world == 1 {
                let norm = of.rows.norm_bound();
                let mut empty = Rows::new(4);
                (0..ROWS).for_each(|_| empty.push_clipped(&mut [], norm));
                of = Bounded { rows: empty, targets: vec![f64::NAN; ROWS] };
            }
            if world == 2 {
                of.targets = vec![1.0; ROWS];
            }
            let shard = Shard::new(of, 0);
            let known = vec![(shard.records(), shard.digest())];
            let parts = Arc::new(Counting(Here(vec![shard]), Mutex::new(0)));
            let records = MatrixRecords::Partitions { parts: parts.clone(), known, owner: None };
            there.run_on(records, &Silent).unwrap();
            assert_eq!(*parts.1.lock().unwrap(), expected, "{method} world {world}");
        }
    }
}

/// A large shift is refused in parts, by name and before anything is asked.
#[test]
fn a_shift_that_makes_passes_many_is_refused() {
    let two = Target::Classes { loss: ClassLoss::Logistic, known: Some(2) };
    for method in ["objective-perturbation", "output-perturbation"] {
        let shifted = |shift: f64, remote: bool| {
            let options = MethodOptions::default().with("shift", shift);
            fit_with(options, two, method, remote, false).unwrap().quote().map(drop)
        };
        assert!(shifted(2.0, true).is_ok() && shifted(5.0, false).is_ok());
        assert!(shifted(5.0, true).is_err_and(|why| why.to_string().contains("the shift is at most 2")), "{method}");
    }
}

#[test]
fn auto_takes_few_passes_where_they_are_as_good() {
    for (target, classes) in [
        (Target::Classes { loss: ClassLoss::Logistic, known: Some(2) }, 2),
        (Target::Classes { loss: ClassLoss::Logistic, known: Some(3) }, 3),
        (Target::Number(Loss::Squared), 0),
    ] {
        let planned = fit(target, "auto", true, classes == 0).unwrap().compared(classes).unwrap();
        let taken = planned.plan().unwrap();
        let risk = taken.summary().predicted_excess_risk;
        for candidate in &planned.candidates {
            if let Ok(plan) = &candidate.plan
                && plan.passes() < taken.passes()
            {
                // what is quicker is worse by its prediction
                let worse = plan.summary().predicted_excess_risk > risk;
                assert!(worse, "{} {}", taken.summary().method, candidate.method);
            }
        }
    }
}
