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
        let row_norm = records(0..10, number).rows.norm_bound();
        let facts = MatrixFacts { rows: ROWS as u64, features: 4, nonzeros: 4, row_norm, units: None };
        let mut options = MethodOptions::default();
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
