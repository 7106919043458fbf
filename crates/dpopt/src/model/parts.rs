//! Rows that are elsewhere, in parts: what each part holds, and how a question says which model it is for.

use super::error::FitError;
use super::scheme::Planned;
use dpopt_mechanism::{CuratorError, answer};
use dpopt_objective::loss::Loss;
use dpopt_objective::records::{Bounded, Examples, Rows, fingerprint};
use serde::{Deserialize, Serialize};
use std::sync::{Mutex, PoisonError};

/// How one of several models reads targets as they were given.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct View {
    /// What is minimised.
    pub loss: Loss,
    /// The class that the others are held against.
    pub against: Option<usize>,
}

impl View {
    /// That of model `k`.
    pub fn of(planned: &Planned, k: usize) -> Self {
        Self { loss: planned.problem.loss, against: (planned.models > 1).then_some(k) }
    }

    /// A target as the loss reads it; what is not a number is one of no record.
    pub fn target(&self, given: f64) -> f32 {
        let sign = |second: bool| if second { 1.0 } else { -1.0 };
        match (self.against, self.loss) {
            _ if given.is_nan() => 0.0,
            (Some(class), _) => sign(given == class as f64),
            (None, Loss::Logistic { .. } | Loss::Hinge | Loss::SmoothedHinge { .. } | Loss::Sigmoid) => {
                sign(given == 1.0)
            }
            (None, Loss::Softmax { .. } | Loss::Squared | Loss::Absolute | Loss::Huber { .. }) => given as f32,
        }
    }

    /// What a question begins with: a length of 4 bytes, little-endian, and so many of JSON.
    pub fn to_bytes(self) -> Vec<u8> {
        // names and numbers: nothing of it fails
        let words = serde_json::to_vec(&self).unwrap_or_default();
        [&(words.len() as u32).to_le_bytes(), &words[..]].concat()
    }

    /// The view that a message begins with, and where that ends.
    fn begins(message: &[u8]) -> Option<(Self, usize)> {
        let (length, rest) = message.split_first_chunk::<4>()?;
        let length = u32::from_le_bytes(*length) as usize;
        Some((serde_json::from_slice(rest.get(..length)?).ok()?, 4 + length))
    }
}

/// One part of the records, with whoever is near them: bounded rows and targets as [`MatrixRun::fit`](super::MatrixRun::fit) takes them.
pub struct Shard {
    part: u32,
    digest: u64,
    given: Vec<f64>,
    /// Targets as the model that was asked for last reads them.
    read: Mutex<(Option<View>, Examples)>,
}

impl Shard {
    /// Part number `part`, from 0.
    pub fn new(records: Bounded, part: u32) -> Self {
        let digest = digest(&records.rows, &records.targets);
        Self::of(records, part, digest)
    }

    fn of(records: Bounded, part: u32, digest: u64) -> Self {
        let Bounded { rows, targets } = records;
        let examples = Examples { targets: vec![0.0; rows.len()], rows };
        Self { part, digest, given: targets, read: Mutex::new((None, examples)) }
    }

    /// The same under another number.
    pub fn numbered(self, part: u32) -> Self {
        Self { part, ..self }
    }

    /// How many records it has.
    pub fn records(&self) -> u64 {
        self.given.len() as u64
    }

    /// A digest of what they hold, whatever their order; as sensitive as a sum of them.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        let read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        read.1.rows.bytes() as usize + 12 * self.given.len()
    }

    /// Its number.
    pub fn part(&self) -> u32 {
        self.part
    }

    /// What its records add up to. **As sensitive as they are**: for the driver, encrypted on the way, and for nobody else.
    ///
    /// # Errors
    /// If the question is not one of this version, or about other rows; whatever the records hold.
    pub fn answer(&self, message: &[u8]) -> Result<Vec<u8>, CuratorError> {
        let (view, begins) = View::begins(message).ok_or(CuratorError::Shape)?;
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, examples) = &mut *read;
        if *last != Some(view) {
            examples.targets.iter_mut().zip(&self.given).for_each(|(target, &given)| *target = view.target(given));
            *last = Some(view);
        }
        answer(examples, message, begins, (self.part, self.digest))
    }

    /// The same by one thread: where every core has a worker of its own, each would otherwise start as many as there are cores.
    ///
    /// # Errors
    /// As [`answer`](Self::answer).
    pub fn answer_alone(&self, message: &[u8]) -> Result<Vec<u8>, CuratorError> {
        match rayon::ThreadPoolBuilder::new().num_threads(1).build() {
            Ok(pool) => pool.install(|| self.answer(message)),
            Err(_) => self.answer(message),
        }
    }

    /// All of it, for an engine that moves it from one machine to another.
    pub fn to_bytes(&self) -> Vec<u8> {
        let read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let rows = &read.1.rows;
        let mut bytes = MAGIC.to_vec();
        let mut put = |number: u64| bytes.extend_from_slice(&number.to_le_bytes());
        put(u64::from(self.part));
        put(rows.columns() as u64);
        put(rows.norm_bound().to_bits());
        put(self.digest);
        put(rows.len() as u64);
        for (i, given) in self.given.iter().enumerate() {
            let (columns, values) = rows.row(i);
            bytes.extend_from_slice(&given.to_bits().to_le_bytes());
            bytes.extend_from_slice(&(columns.len() as u32).to_le_bytes());
            columns.iter().for_each(|column| bytes.extend_from_slice(&column.to_le_bytes()));
            values.iter().for_each(|value| bytes.extend_from_slice(&value.to_le_bytes()));
        }
        let whole = fingerprint(&bytes);
        bytes.extend_from_slice(&whole.to_le_bytes());
        bytes
    }

    /// From [`to_bytes`](Self::to_bytes); bounds of rows are enforced again.
    ///
    /// # Errors
    /// If the bytes are not such a part, whole.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, FitError> {
        let whole = bytes.split_last_chunk::<8>().filter(|(body, sum)| fingerprint(body) == u64::from_le_bytes(**sum));
        whole
            .and_then(|(body, _)| Taking(body).shard())
            .ok_or_else(|| FitError::Option("these bytes are no part of this version of dpopt".into()))
    }
}

const MAGIC: &[u8; 8] = b"dpoptsh1";

/// What rows and targets are, whatever their order: a sum of a fingerprint of each.
fn digest(rows: &Rows, targets: &[f64]) -> u64 {
    let mut bytes = Vec::new();
    targets.iter().enumerate().fold(0, |sum: u64, (i, target)| {
        let (columns, values) = rows.row(i);
        bytes.clear();
        bytes.extend_from_slice(&target.to_bits().to_le_bytes());
        columns.iter().for_each(|column| bytes.extend_from_slice(&column.to_le_bytes()));
        values.iter().for_each(|value| bytes.extend_from_slice(&value.to_bits().to_le_bytes()));
        sum.wrapping_add(fingerprint(&bytes))
    })
}

/// Bytes that are still to be read.
struct Taking<'a>(&'a [u8]);

impl Taking<'_> {
    fn chunk<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (chunk, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*chunk)
    }

    fn number(&mut self) -> Option<u64> {
        self.chunk().map(u64::from_le_bytes)
    }

    fn shard(mut self) -> Option<Shard> {
        if self.chunk()? != *MAGIC {
            return None;
        }
        let part = u32::try_from(self.number()?).ok()?;
        let columns = usize::try_from(self.number()?).ok()?;
        let norm = f64::from_bits(self.number()?);
        let digest = self.number()?;
        let records = self.number()?;
        // each has a target and a length at least
        if records > self.0.len() as u64 / 12 {
            return None;
        }
        let mut rows = Rows::new(columns);
        let mut targets = Vec::with_capacity(records as usize);
        let (mut places, mut values) = (Vec::new(), Vec::new());
        for _ in 0..records {
            targets.push(f64::from_bits(self.number()?));
            let length = u32::from_le_bytes(self.chunk()?) as usize;
            if length > self.0.len() / 8 {
                return None;
            }
            places.clear();
            values.clear();
            for _ in 0..length {
                places.push(u32::from_le_bytes(self.chunk()?));
            }
            for _ in 0..length {
                values.push(f32::from_le_bytes(self.chunk()?));
            }
            if !rows.push_moved(&places, &values, norm) {
                return None;
            }
        }
        self.0.is_empty().then(|| Shard::of(Bounded { rows, targets }, part, digest))
    }
}

#[cfg(test)]
mod tests {
    use super::super::scheme::{ClassLoss, Target};
    use super::super::{MatrixFacts, MatrixFit, MatrixFitted};
    use super::*;
    use dpopt_objective::records::{Bounding, Parts, PartsFailed};
    use dpopt_optimize::MethodOptions;
    use dpopt_privacy::Relation;
    use proptest::prelude::*;
    use std::sync::Arc;

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

    impl Parts for Here {
        fn ask(&self, question: &[u8]) -> Result<Vec<Vec<u8>>, PartsFailed> {
            let moved = |shard: &Shard| Shard::from_bytes(&shard.to_bytes()).map_err(|_| PartsFailed);
            self.0.iter().rev().map(|shard| moved(shard)?.answer(question).map_err(|_| PartsFailed)).collect()
        }
    }

    fn fit(target: Target, method: &str, elsewhere: bool, number: bool) -> Result<Arc<MatrixFit>, FitError> {
        fit_with(MethodOptions::default(), target, method, elsewhere, number)
    }

    fn fit_with(
        mut options: MethodOptions,
        target: Target,
        method: &str,
        elsewhere: bool,
        number: bool,
    ) -> Result<Arc<MatrixFit>, FitError> {
        let row_norm = records(0..10, number).rows.norm_bound();
        let facts = MatrixFacts { rows: ROWS as u64, features: 4, nonzeros: 4, row_norm, units: None };
        options.elsewhere = elsewhere;
        options.method = (method != "auto").then(|| method.into());
        MatrixFit::new(facts, target, Relation::ZeroOut, (2.0, Some(1e-6)), options).map(Arc::new)
    }

    fn in_parts(fit: Arc<MatrixFit>, classes: usize, ends: &[usize], number: bool) -> Result<MatrixFitted, FitError> {
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let shards: Vec<Shard> =
            starts.zip(ends).zip(0..).map(|((a, &b), part)| Shard::new(records(a..b, number), part)).collect();
        let known: Vec<(u64, u64)> = shards.iter().map(|shard| (shard.records(), shard.digest())).collect();
        let parts: Arc<dyn Parts> = Arc::new(Here(shards));
        fit.open("run", None, Some(1), None)?.fit_elsewhere(&parts, &known, classes)
    }

    #[test]
    fn a_model_is_the_same_bits_whatever_the_parts_are() {
        let one_of = |loss: ClassLoss| Target::Classes { loss, known: Some(3) };
        let hinge = ClassLoss::OneAgainstRest(Loss::SmoothedHinge { width: 0.5 });
        let number = Target::Number(Loss::Squared);
        for (target, method, is_number) in [
            (one_of(ClassLoss::Logistic), "noisy-gradient-descent", false),
            (one_of(hinge), "noisy-gradient-descent", false),
            (number, "adaptive-clip-descent", true),
            (number, "sufficient-statistics", true),
            (number, "noisy-gradient-descent", true),
            (one_of(ClassLoss::Logistic), "auto", false),
        ] {
            let there = fit(target, method, true, is_number).unwrap();
            let taken = there.planned(3).unwrap().plan().unwrap().summary().method;
            let here = fit(target, taken, false, is_number).unwrap();
            let whole =
                here.open("run", None, Some(1), None).unwrap().fit(records(0..ROWS, is_number), 3, None).unwrap();
            for ends in [vec![ROWS], vec![700, ROWS], vec![0, 100, 150, 151, 900, 900, ROWS]] {
                let parts = in_parts(there.clone(), 3, &ends, is_number).unwrap();
                assert!(parts.solutions == whole.solutions, "{method} {ends:?}");
                assert_eq!(parts.guarantee.certified_epsilon, whole.guarantee.certified_epsilon);
                assert_eq!(parts.releases.len(), whole.releases.len());
            }
        }
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
            assert_eq!((plan.summary().method, plan.passes()), (method, 16));
            let schedule = plan.schedule();
            let number_of = |name: &str| schedule[name].as_f64().unwrap();
            let [one, two, seven] = CUTS.map(|ends| in_parts(there.clone(), classes, ends, number).unwrap());
            assert!(one.solutions == two.solutions && one.solutions == seven.solutions, "{method} {target:?}");
            let here = fit(target, method, false, number).unwrap();
            let whole = here.open("run", None, Some(1), None).unwrap().fit(records(0..ROWS, number), classes, None);
            let whole = whole.unwrap();
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
        assert_eq!(planned.plan().unwrap().passes(), 12);
        let [one, two, seven] = CUTS.map(|ends| in_parts(there.clone(), 2, ends, false).unwrap());
        assert!(one.solutions == two.solutions && one.solutions == seven.solutions);
        let whole = fit(target, "noisy-newton", false, false).unwrap().open("run", None, Some(1), None).unwrap();
        let whole = whole.fit(records(0..ROWS, false), 2, None).unwrap();
        // the same noise but for the last digits of its scale
        for (a, b) in one.solutions[0].weights.iter().zip(&whole.solutions[0].weights) {
            assert!((a - b).abs() <= 1e-3 * (1.0 + b.abs()), "{a} {b}");
        }
    }

    #[test]
    fn descents_that_need_no_more_than_sums_are_those_of_one_process() {
        let target = Target::Classes { loss: ClassLoss::Logistic, known: Some(2) };
        for (method, passes) in [("released-preconditioner", 21), ("regularized-descent", 20)] {
            let of = |elsewhere| {
                let options = MethodOptions::default().with("steps", 20u64);
                fit_with(options, target, method, elsewhere, false).unwrap()
            };
            assert_eq!(of(true).planned(2).unwrap().plan().unwrap().passes(), passes);
            let whole = of(false).open("run", None, Some(1), None).unwrap().fit(records(0..ROWS, false), 2, None);
            let whole = whole.unwrap();
            for ends in CUTS {
                assert!(in_parts(of(true), 2, ends, false).unwrap().solutions == whole.solutions, "{method} {ends:?}");
            }
        }
        let sampled = MethodOptions::default().with("sampling_probability", 0.1);
        let refused =
            fit_with(sampled, target, "regularized-descent", true, false).unwrap().open("run", None, Some(1), None);
        assert!(refused.err().unwrap().to_string().contains("are not sampled"));
    }

    /// How often parts are asked is seen by whoever looks at an engine: as often as the plan says, whatever the records are.
    #[test]
    fn parts_are_asked_as_often_as_the_plan_says() {
        struct Counting(Here, Mutex<u64>);
        impl Parts for Counting {
            fn ask(&self, question: &[u8]) -> Result<Vec<Vec<u8>>, PartsFailed> {
                *self.1.lock().unwrap() += 1;
                self.0.ask(question)
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
            let said = planned.plan().unwrap().passes() * planned.models as u64;
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
                let known = [(shard.records(), shard.digest())];
                let parts = Arc::new(Counting(Here(vec![shard]), Mutex::new(0)));
                let run = there.clone().open("run", None, Some(1), None).unwrap();
                run.fit_elsewhere(&(parts.clone() as Arc<dyn Parts>), &known, classes).unwrap();
                assert_eq!(*parts.1.lock().unwrap(), said, "{method} world {world}");
            }
        }
    }

    #[test]
    fn auto_takes_few_passes_where_they_are_as_good() {
        for (target, classes) in [
            (Target::Classes { loss: ClassLoss::Logistic, known: Some(2) }, 2),
            (Target::Classes { loss: ClassLoss::Logistic, known: Some(3) }, 3),
            (Target::Number(Loss::Squared), 0),
        ] {
            let planned = fit(target, "auto", true, classes == 0).unwrap().explain(classes).unwrap();
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
            println!("{} {} passes", taken.summary().method, taken.passes());
            for c in &planned.candidates {
                if let Ok(plan) = &c.plan {
                    println!("   {} {} {}", c.method, plan.passes(), plan.summary().predicted_excess_risk);
                }
            }
        }
    }

    #[test]
    fn what_needs_more_than_sums_is_refused_before_anything_is_asked() {
        let logistic = Target::Classes { loss: ClassLoss::Logistic, known: Some(3) };
        let sampled = fit(logistic, "noisy-sgd", true, false).unwrap().open("run", None, Some(1), None);
        let why = sampled.err().unwrap().to_string();
        assert!(why.contains("noisy-gradient-descent") && why.contains("elsewhere"), "{why}");
        let hinge = ClassLoss::OneAgainstRest(Loss::SmoothedHinge { width: 0.5 });
        for target in [Target::Number(Loss::Squared), Target::Classes { loss: hinge, known: Some(2) }] {
            let number = matches!(target, Target::Number(_));
            let jumps = fit(target, "objective-perturbation", true, number).unwrap().open("run", None, Some(1), None);
            assert!(jumps.err().unwrap().to_string().contains("curvature of a loss jumps"));
        }
        let unknown = Target::Classes { loss: ClassLoss::Logistic, known: None };
        assert!(fit(unknown, "auto", true, false).err().unwrap().to_string().contains("declare the classes"));
        let here = fit(logistic, "auto", false, false).unwrap();
        assert!(
            in_parts(here, 3, &[ROWS], false).err().unwrap().to_string().contains("planned for rows that are here")
        );
        // rows that are not as many as was planned for
        let there = fit(logistic, "auto", true, false).unwrap();
        assert!(in_parts(there, 3, &[ROWS - 1], false).is_err());
    }

    #[test]
    fn a_lost_part_ends_the_run() {
        struct Losing(Here);
        impl Parts for Losing {
            fn ask(&self, question: &[u8]) -> Result<Vec<Vec<u8>>, PartsFailed> {
                self.0.ask(question).map(|answers| answers.into_iter().skip(1).collect())
            }
        }
        let shards = vec![Shard::new(records(0..1000, false), 0), Shard::new(records(1000..ROWS, false), 1)];
        let known: Vec<(u64, u64)> = shards.iter().map(|shard| (shard.records(), shard.digest())).collect();
        let parts: Arc<dyn Parts> = Arc::new(Losing(Here(shards)));
        let logistic = Target::Classes { loss: ClassLoss::Logistic, known: Some(3) };
        let run = fit(logistic, "auto", true, false).unwrap().open("run", None, Some(1), None).unwrap();
        let why = run.fit_elsewhere(&parts, &known, 3).err().unwrap();
        assert!(why.to_string().starts_with("part 1 did not answer"), "{why:?}");
    }

    #[test]
    fn a_part_is_known_by_what_it_holds_in_any_order() {
        let digest = |which: &[usize]| {
            let (mut rows, mut targets) = (Rows::new(4), Vec::new());
            for &i in which {
                let one = records(i..i + 1, true);
                rows.append(&one.rows);
                targets.push(one.targets[0]);
            }
            Shard::new(Bounded { rows, targets }, 0).digest()
        };
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
        assert_eq!(shard.read.lock().unwrap().1.rows.row(0).0.len(), 3);
        assert_eq!(moved.read.lock().unwrap().1.rows.row(0).0.len(), 3);
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
}
