//! Partitions in this process, moved to and fro.

use super::super::fit::Fit;
use super::super::stage_plan::{ClassLoss, Target};
use super::super::units::UnitFacts;
use super::super::{BoundedMatrix, MatrixFacts, MatrixFitted, MatrixOptions, MatrixRecords};
use super::*;
use crate::run::{RunOptions, UnitClipping};
use dpopt_data::{Format, ReadOptions, open_bytes};
use dpopt_mechanism::progress::Silent;
use dpopt_objective::loss::Loss;
use dpopt_objective::records::{Bounding, Partitions, PartitionsFailed};
use dpopt_optimize::MethodOptions;
use proptest::prelude::*;
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

/// Partitions in this process, each sent to and fro before every answer.
struct Here(Vec<Shard>);

impl Partitions for Here {
    fn ask(&self, query: &[u8]) -> Result<Vec<Vec<u8>>, PartitionsFailed> {
        let moved = |shard: &Shard| Shard::from_bytes(&shard.to_bytes()).map_err(|_| PartitionsFailed);
        self.0.iter().rev().map(|shard| moved(shard)?.answer(query).map_err(|_| PartitionsFailed)).collect()
    }
}

fn fit(target: Target, method: &str, remote: bool, number: bool) -> Result<Fit<BoundedMatrix>, FitError> {
    let row_norm = records(0..10, number).rows.norm_bound();
    let facts = MatrixFacts { rows: ROWS as u64, features: 4, nonzeros: 4, row_norm, units: None };
    let mut options = MethodOptions::default();
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

#[test]
fn a_model_is_the_same_bits_whatever_the_parts_are() {
    let one_of = |loss: ClassLoss| Target::Classes { loss, known: Some(3) };
    let hinge = ClassLoss::OneAgainstRest(Loss::SmoothedHinge { width: 0.5 });
    let number = Target::Number(Loss::Squared);
    for (target, method, is_number) in [
        (one_of(ClassLoss::Logistic), "noisy-gradient-descent", false),
        (one_of(ClassLoss::Logistic), "noisy-sgd", false),
        (number, "noisy-sgd", true),
        (one_of(hinge), "noisy-gradient-descent", false),
        (number, "adaptive-clip-descent", true),
        (number, "sufficient-statistics", true),
        (number, "noisy-gradient-descent", true),
        (one_of(ClassLoss::Logistic), "auto", false),
    ] {
        let there = fit(target, method, true, is_number).unwrap();
        let taken = there.planned(3).unwrap().plan().unwrap().summary().method;
        let here = fit(target, taken, false, is_number).unwrap();
        let whole = here.run_on(self::here(records(0..ROWS, is_number)), &Silent).unwrap();
        for ends in [vec![ROWS], vec![700, ROWS], vec![0, 100, 150, 151, 900, 900, ROWS]] {
            let parts = in_parts(&there, &ends, is_number).unwrap();
            assert!(parts.solutions == whole.solutions, "{method} {ends:?}");
            assert_eq!(parts.guarantee.certified_epsilon, whole.guarantee.certified_epsilon);
            assert_eq!(parts.releases.len(), whole.releases.len());
        }
    }
}

/// These rows, in this order.
fn chosen(which: &[usize], number: bool) -> Bounded {
    let (mut rows, mut targets) = (Rows::new(4), Vec::new());
    for &i in which {
        let one = records(i..i + 1, number);
        rows.append(&one.rows);
        targets.push(one.targets[0]);
    }
    Bounded { rows, targets }
}

/// Whose these rows are: of 150 persons in turn, but every tenth row without an owner.
fn owners(which: &[usize]) -> RowOwners {
    let name = |i: usize| if i.is_multiple_of(10) { String::new() } else { format!("p{}", i % 150) };
    let rows: String = which.iter().map(|&i| name(i) + ",0\n").collect();
    let table = open_bytes(format!("person,y\n{rows}").into_bytes(), Format::Csv, &ReadOptions::default()).unwrap();
    RowOwners::read(&*table, "person").unwrap()
}

#[test]
fn a_model_of_units_is_the_same_bits_whatever_the_parts_are() {
    let all: Vec<usize> = (0..ROWS).collect();
    // persons whose number a tenth row has are nobody's there: 135 have rows
    let count = owners(&all).units();
    let units = UnitFacts { count, most_rows: None, clipping: UnitClipping::Auto, kept: None };
    let row_norm = records(0..10, false).rows.norm_bound();
    let facts = MatrixFacts { rows: ROWS as u64, features: 4, nonzeros: 4, row_norm, units: Some(units) };
    let planned = |target, method: &str, remote| {
        let mut options = MethodOptions::of(method).with("steps", 4u64);
        options.remote = remote;
        let run = RunOptions::within(20.0).delta(1e-6).insecure_seed(1);
        Fit::of_matrix(facts, target, run, MatrixOptions::default().methods(options))
    };
    let classes =
        Target::Classes { loss: ClassLoss::OneAgainstRest(Loss::SmoothedHinge { width: 0.5 }), known: Some(3) };
    for (target, method, number) in
        [(classes, "noisy-gradient-descent", false), (Target::Number(Loss::Squared), "adaptive-clip-descent", true)]
    {
        let open = |remote| planned(target, method, remote).unwrap();
        let owned = MatrixRecords::Here { records: records(0..ROWS, number), labels: None, owners: Some(owners(&all)) };
        let whole = open(false).run_on(owned, &Silent).unwrap();
        for borders in [vec![150], vec![40, 150], vec![0, 7, 7, 149, 150]] {
            let starts = std::iter::once(0).chain(borders.iter().copied());
            let shards = starts.zip(&borders).zip(0..).map(|((from, &to), part)| {
                // in changed their order
                let own: Vec<usize> = all.iter().rev().copied().filter(|i| (from..to).contains(&(i % 150))).collect();
                Shard::of_units(chosen(&own, number), &owners(&own), part).unwrap()
            });
            let shards: Vec<Shard> = shards.collect();
            let known: Vec<(u64, u64)> = shards.iter().map(|shard| (shard.records(), shard.digest())).collect();
            assert_eq!(known.iter().map(|part| part.0).sum::<u64>(), count);
            let parts: Arc<dyn Partitions> = Arc::new(Here(shards));
            let of = |owner: Option<&str>| MatrixRecords::Partitions {
                parts: parts.clone(),
                known: known.clone(),
                owner: owner.map(String::from),
            };
            let found = open(true).run_on(of(Some("person")), &Silent).unwrap();
            assert!(found.solutions == whole.solutions, "{method} {borders:?}");
            assert_eq!(found.guarantee.protected(), "person");
            // as rows they would each be clipped by themselves
            assert!(open(true).run_on(of(None), &Silent).is_err());
        }
    }
    // a sample of units is of places that follow from what they hold, however their rows came
    let sampled = |reversed: bool| {
        let shards = [0..40, 40..150].into_iter().zip(0..).map(|(span, part)| {
            let mut own: Vec<usize> = all.iter().copied().filter(|i| span.contains(&(i % 150))).collect();
            if reversed {
                own.reverse();
            }
            Shard::of_units(chosen(&own, false), &owners(&own), part).unwrap()
        });
        let shards: Vec<Shard> = shards.collect();
        let known: Vec<(u64, u64)> = shards.iter().map(|shard| (shard.records(), shard.digest())).collect();
        let fit = planned(classes, "noisy-sgd", true).unwrap();
        let parts: Arc<dyn Partitions> = Arc::new(Here(shards));
        fit.run_on(MatrixRecords::Partitions { parts, known, owner: Some("person".into()) }, &Silent).unwrap().solutions
    };
    assert!(sampled(false) == sampled(true));
    let bounded = UnitFacts { most_rows: 3.try_into().ok(), ..units };
    let facts = MatrixFacts { units: Some(bounded), ..facts };
    let mut options = MethodOptions::default();
    options.remote = true;
    let options = MatrixOptions::default().methods(options);
    let why = Fit::of_matrix(facts, classes, 4.0, options).err().unwrap();
    assert!(why.to_string().contains("secret choice"), "{why}");
}

#[test]
fn numbers_and_units_answer_to_their_own_questions_only_and_survive_moving() {
    let which: Vec<usize> = (0..30).collect();
    let rows = Shard::new(chosen(&which, true), 0);
    let units = Shard::of_units(chosen(&which, true), &owners(&which), 1).unwrap();
    let numbers = Shard::of_numbers(3, (0..31).map(f64::from).collect(), 2);
    assert_eq!((rows.records(), units.records(), numbers.records()), (30, 27, 10));
    assert_eq!((rows.rows(), units.rows(), numbers.rows()), (30, 30, 10));
    let asked = |parts: &Shard, asked: QueryTarget| parts.answer(&[&asked.to_bytes()[..], b"?"].concat());
    for shard in [&rows, &units, &numbers] {
        let moved = Shard::from_bytes(&shard.to_bytes()).unwrap();
        assert_eq!((moved.to_bytes(), moved.digest()), (shard.to_bytes(), shard.digest()));
        assert_eq!((moved.records(), moved.rows(), moved.part()), (shard.records(), shard.rows(), shard.part()));
        assert!(shard.answer(&empty_query()).is_ok() && asked(shard, QueryTarget::Numbers).is_err());
        let bytes = shard.to_bytes();
        for at in [9, 40, bytes.len() / 2, bytes.len() - 1] {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(Shard::from_bytes(&damaged).is_err() && Shard::from_bytes(&bytes[..at]).is_err());
        }
    }
    assert!(Shard::of_units(chosen(&which[..3], true), &owners(&which), 0).is_err());
}

/// A partition whose bytes were changed at `at`, with the fingerprint that they have then.
fn sealed(shard: &Shard, at: usize, with: &[u8]) -> Vec<u8> {
    let mut bytes = shard.to_bytes();
    bytes[at..at + with.len()].copy_from_slice(with);
    let body = bytes.len() - 8;
    let whole = fingerprint(&bytes[..body]);
    bytes[body..].copy_from_slice(&whole.to_le_bytes());
    bytes
}

/// Two rows of three columns, of which the first has two entries and the second one.
#[test]
fn what_no_rows_can_hold_is_refused_with_a_right_fingerprint_too() {
    let mut rows = Rows::new(3);
    rows.push_clipped(&mut [(0, 0.5), (2, 0.5)], 1.0);
    rows.push_clipped(&mut [(1, 0.25)], 1.0);
    let shard = Shard::new(Bounded { rows, targets: vec![1.0, 0.0] }, 0);
    // magic, kind, part, digest, order, rows before, rows; columns, norm bound, four counts; targets; entries of each row
    let (head, counts) = (8 * 7, 8 * 2);
    let lengths = head + counts + 8 * 4 + 8 * 2;
    let (values, columns) = (lengths + 4 * 2, lengths + 4 * 2 + 4 * 3);
    assert_eq!(shard.to_bytes().len(), columns + 4 * 3 + 8);
    let unchanged = sealed(&shard, values, &0.5f32.to_le_bytes());
    assert!(unchanged == shard.to_bytes() && Shard::from_bytes(&unchanged).is_ok());
    for (at, with) in [
        (values, f32::NAN.to_le_bytes()),
        (values, f32::INFINITY.to_le_bytes()),
        // out of order, twice the same, and one that is not there
        (columns, 2u32.to_le_bytes()),
        (columns + 4, 0u32.to_le_bytes()),
        (columns + 4, 3u32.to_le_bytes()),
        // entries of rows that are not as many as there are
        (lengths, 3u32.to_le_bytes()),
        (lengths, u32::MAX.to_le_bytes()),
    ] {
        assert!(Shard::from_bytes(&sealed(&shard, at, &with)).is_err(), "{at} {with:?}");
    }
    for bound in [f64::NAN, f64::INFINITY, -1.0] {
        assert!(Shard::from_bytes(&sealed(&shard, head + 8, &bound.to_le_bytes())).is_err(), "{bound}");
    }
    // a row that is too long is brought back within its bound
    let long = Shard::from_bytes(&sealed(&shard, values, &1e6f32.to_le_bytes())).unwrap();
    let Held::Rows(read) = &long.held else { panic!("rows") };
    let read = read.lock().unwrap();
    let norm = |row: usize| read.1.rows.row(row).1.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>().sqrt();
    assert!(norm(0) <= read.1.rows.norm_bound() && norm(0) > 0.5 && norm(1) == 0.25);
}

/// Sums do not know in which order records come, and samples do.
#[test]
fn a_sample_ends_with_the_order_of_the_records_and_a_sum_does_not() {
    struct Shuffled(Mutex<(usize, Vec<Shard>)>);
    impl Partitions for Shuffled {
        fn ask(&self, query: &[u8]) -> Result<Vec<Vec<u8>>, PartitionsFailed> {
            let mut held = self.0.lock().unwrap();
            held.0 += 1;
            if held.0 == 5 {
                let turned: Vec<usize> = (0..ROWS).rev().collect();
                held.1[0] = Shard::new(chosen(&turned, false), 0);
            }
            held.1.iter().map(|shard| shard.answer(query).map_err(|_| PartitionsFailed)).collect()
        }
    }
    let logistic = Target::Classes { loss: ClassLoss::Logistic, known: Some(3) };
    for (method, stays) in [("noisy-gradient-descent", true), ("noisy-sgd", false)] {
        let shard = Shard::new(chosen(&(0..ROWS).collect::<Vec<_>>(), false), 0);
        let known = vec![(shard.records(), shard.digest())];
        let parts: Arc<dyn Partitions> = Arc::new(Shuffled(Mutex::new((0, vec![shard]))));
        let fit = fit(logistic, method, true, false).unwrap();
        match fit.run_on(MatrixRecords::Partitions { parts, known, owner: None }, &Silent) {
            Ok(_) => assert!(stays, "{method}"),
            Err(why) => assert!(!stays && why.to_string().contains("changed their order"), "{method}: {why}"),
        }
    }
}

#[test]
fn what_needs_more_than_sums_is_refused_before_anything_is_asked() {
    let logistic = Target::Classes { loss: ClassLoss::Logistic, known: Some(3) };
    let sampled = fit(logistic, "dp-ftrl", true, false).unwrap().quote();
    let why = sampled.err().unwrap().to_string();
    assert!(why.contains("noisy-gradient-descent") && why.contains("remote records answer with sums only"), "{why}");
    let hinge = ClassLoss::OneAgainstRest(Loss::SmoothedHinge { width: 0.5 });
    for target in [Target::Number(Loss::Squared), Target::Classes { loss: hinge, known: Some(2) }] {
        let number = matches!(target, Target::Number(_));
        let jumps = fit(target, "objective-perturbation", true, number).unwrap().quote();
        assert!(jumps.err().unwrap().to_string().contains("curvature of a loss jumps"));
    }
    let unknown = Target::Classes { loss: ClassLoss::Logistic, known: None };
    assert!(fit(unknown, "auto", true, false).err().unwrap().to_string().contains("declare the classes"));
    let here = fit(logistic, "auto", false, false).unwrap();
    assert!(in_parts(&here, &[ROWS], false).err().unwrap().to_string().contains("planned for rows in memory"));
    // rows that are not as many as was planned for
    let there = fit(logistic, "auto", true, false).unwrap();
    assert!(in_parts(&there, &[ROWS - 1], false).is_err());
}

#[test]
fn a_lost_part_ends_the_run() {
    struct Losing(Here);
    impl Partitions for Losing {
        fn ask(&self, query: &[u8]) -> Result<Vec<Vec<u8>>, PartitionsFailed> {
            self.0.ask(query).map(|answers| answers.into_iter().skip(1).collect())
        }
    }
    let shards = vec![Shard::new(records(0..1000, false), 0), Shard::new(records(1000..ROWS, false), 1)];
    let known: Vec<(u64, u64)> = shards.iter().map(|shard| (shard.records(), shard.digest())).collect();
    let parts: Arc<dyn Partitions> = Arc::new(Losing(Here(shards)));
    let logistic = Target::Classes { loss: ClassLoss::Logistic, known: Some(3) };
    let fit = fit(logistic, "auto", true, false).unwrap();
    let why = fit.run_on(MatrixRecords::Partitions { parts, known, owner: None }, &Silent).err().unwrap();
    assert!(why.to_string().starts_with("partition 1 was lost by the engine"), "{why:?}");
}

#[test]
fn a_part_is_known_by_what_it_holds_in_any_order() {
    let digest = |which: &[usize]| Shard::new(chosen(which, true), 0).digest();
    assert_eq!(digest(&[1, 2, 3]), digest(&[3, 1, 2]));
    assert!(digest(&[1, 2, 3]) != digest(&[1, 2, 4]) && digest(&[1, 1, 3]) != digest(&[1, 3, 3]));
}

/// A value that is smaller than any number by which its row is scaled stays stored, as 0: a moved row has as many entries.
#[test]
fn a_moved_part_has_the_same_entries() {
    let mut rows = Rows::new(3);
    rows.push_clipped(&mut [(0, 3.0), (1, f32::from_bits(1)), (2, 4.0)], 1.0);
    let shard = Shard::new(Bounded { rows, targets: vec![1.0] }, 0);
    let moved = Shard::from_bytes(&shard.to_bytes()).unwrap();
    assert_eq!((moved.to_bytes(), moved.digest()), (shard.to_bytes(), shard.digest()));
    let entries = |shard: &Shard| match &shard.held {
        Held::Rows(read) => read.lock().unwrap().1.rows.row(0).0.len(),
        _ => panic!("rows"),
    };
    assert_eq!((entries(&shard), entries(&moved)), (3, 3));
}

proptest! {
    #[test]
    fn any_bytes_are_a_part_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300), at: prop::sample::Index) {
        prop_assert!(Shard::from_bytes(&bytes).is_err());
        let shard = Shard::new(records(0..7, false), 3);
        let good = shard.to_bytes();
        prop_assert!(Shard::from_bytes(&good).unwrap().to_bytes() == good);
        prop_assert!(Shard::from_bytes(&good[..at.index(good.len())]).is_err());
        prop_assert!(shard.answer(&bytes).is_err());
        let mut damaged = good.clone();
        damaged[at.index(good.len())] ^= 0x80;
        prop_assert!(Shard::from_bytes(&damaged).is_err());
    }
}
