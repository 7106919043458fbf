//! Where clipped sums come from: records in memory with an objective, or an outside program that evaluates an objective.

use super::around::{Around, Estimator, Surroundings};
use super::directions::{Along, Directions};
use super::smoothed::Smoothed;
use dpopt_mechanism::progress::Progress;
use dpopt_mechanism::{
    BatchSum, Batching, Clipped, ClippedVectors, Counts, Curator, CuratorError, GradientStream, GridSum, Leaf,
    Released, RestartedSums, ScoredPoints, Sensitive, StreamPlan, StreamShape, TreeChoice,
};
use dpopt_noise::{Grid, Stream};
use dpopt_objective::objective::{Objective, Recursive};
use dpopt_objective::records::RecordSet;
use dpopt_optimize::RunError;
use dpopt_privacy::Relation;

/// Whom a sum is over.
#[derive(Clone, Copy, Debug)]
pub(super) enum Whom {
    All,
    Poisson(f64),
    Fixed(u64),
}

/// How a sum is made: clip norm, grid, whom it is over, and in how large a ball each record's point is moved.
#[derive(Clone, Copy, Debug)]
pub struct Summing {
    pub(super) clip_norm: f64,
    pub(super) grid: Grid,
    pub(super) whom: Whom,
    pub(super) smoothing: f64,
}

/// What a stream is opened for.
#[derive(Clone, Copy, Debug)]
pub struct Streaming {
    pub(super) shape: StreamShape,
    pub(super) batching: Batching,
    pub(super) clip_norm: f64,
    pub(super) grid: Grid,
    pub(super) noise_multiplier: f64,
    pub(super) dimension: usize,
    pub(super) records: u64,
    pub(super) relation: Relation,
}

impl Streaming {
    fn plan<O>(&self, objective: O) -> Result<StreamPlan<O>, CuratorError> {
        Ok(StreamPlan {
            shape: self.shape,
            gradient: Clipped::new(objective, self.clip_norm, self.grid)?,
            noise_multiplier: self.noise_multiplier,
            dimension: self.dimension,
            records: self.records,
            relation: self.relation,
            batching: self.batching,
        })
    }
}

/// An objective with its records. Made by [`InMemory::new`] and [`ReadByObjective::new`]; no other type can make a clipped sum.
pub trait Source: sealed::Sealed {
    /// The sum of clipped gradients, Σ clip(∇φ_i(x)).
    ///
    /// # Errors
    /// If records can't be read, or the objective not evaluated.
    fn gradients(&mut self, curator: &mut Curator, how: Summing, x: &[f64]) -> Result<Sensitive<GridSum>, RunError>;

    /// Σ clip(∇φ_i(x) − ∇φ_i(before)): of each record one vector, clipped as one.
    ///
    /// # Errors
    /// As [`gradients`](Self::gradients).
    fn changes(
        &mut self,
        curator: &mut Curator,
        how: Summing,
        x: &[f64],
        before: &[f64],
    ) -> Result<Sensitive<GridSum>, RunError>;

    /// Σ clip(estimate of record i's gradient around `x`), or of its change since `before`, along directions from coins that are for this sum alone: of each record one vector,
    /// clipped as one.
    ///
    /// # Errors
    /// As [`gradients`](Self::gradients).
    fn around(
        &mut self,
        curator: &mut Curator,
        how: Summing,
        around: (Around, Stream),
        x: &[f64],
        before: Option<&[f64]>,
    ) -> Result<Sensitive<GridSum>, RunError>;

    /// The running sum with one leaf more: the mean over the next unread records of ∇φ_i(x), or of ∇φ_i(x) − ∇φ_i(before); `how` many they are, and to what norm each one's part
    /// in the mean is clipped.
    ///
    /// # Errors
    /// As [`gradients`](Self::gradients).
    fn leaf(
        &mut self,
        sums: &mut RestartedSums,
        leaf: Leaf,
        how: (u64, f64),
        x: &[f64],
        before: &[f64],
    ) -> Result<Released<Vec<f64>>, RunError>;

    /// The running sum with one leaf more, made of estimates around `x` and `before`, along directions from coins that are for this leaf alone.
    ///
    /// # Errors
    /// As [`gradients`](Self::gradients).
    fn leaf_around(
        &mut self,
        sums: &mut RestartedSums,
        leaf: Leaf,
        how: (u64, f64),
        around: (Around, Stream),
        x: &[f64],
        before: &[f64],
    ) -> Result<Released<Vec<f64>>, RunError>;

    /// Σ clip(derivatives of φ_i at x along each of `directions`).
    ///
    /// # Errors
    /// As [`gradients`](Self::gradients).
    fn derivatives(
        &mut self,
        curator: &mut Curator,
        how: Summing,
        x: &[f64],
        directions: &Directions,
    ) -> Result<Sensitive<GridSum>, RunError>;

    /// Opens a stream of its gradients.
    ///
    /// # Errors
    /// If the curator refuses it.
    fn open(&mut self, curator: &mut Curator, streaming: Streaming) -> Result<(), RunError>;

    /// The noisy gradient sum of the open stream's next batch.
    ///
    /// # Errors
    /// As [`gradients`](Self::gradients), and if no stream is open.
    fn next(&mut self, x: &[f64]) -> Result<Released<Vec<f64>>, RunError>;

    /// The noisy sum of t·∇φ_i(x) − (t − 1)·∇φ_i(before) of the open stream's next batch, t from 1: of each record one vector, clipped as one.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    fn next_recursive(&mut self, t: u64, x: &[f64], before: &[f64]) -> Result<Released<Vec<f64>>, RunError>;

    /// Σ of what φ_i is better at each point than at the centre, each record's part cut by distance.
    ///
    /// # Errors
    /// As [`gradients`](Self::gradients).
    fn scores(
        &mut self,
        curator: &mut Curator,
        points: &ScoredPoints,
        progress: &dyn Progress,
    ) -> Result<Sensitive<Counts>, RunError>;

    /// One point of a tree, by how much better it is than others for all records together. Which points are asked for depends on the records.
    ///
    /// # Errors
    /// As [`gradients`](Self::gradients).
    fn point_of(&mut self, curator: &mut Curator, choice: &TreeChoice) -> Result<Released<Vec<f64>>, RunError>;

    /// How many records there are; `None` where that is protected.
    fn public_count(&self, curator: &Curator) -> Option<u64>;

    /// d, if the objective says it.
    fn dimension(&self) -> Option<usize>;

    /// Whether it is evaluated outside of this library.
    fn is_remote(&self) -> bool;
}

const NOT_OPEN: RunError = RunError::Numerical("no stream is open");

/// What the gradients here and there count in a mean over `size` records.
fn leaf_weights(leaf: Leaf, size: u64) -> (f64, f64) {
    let each = 1.0 / size.max(1) as f64;
    (each, if leaf == Leaf::First { 0.0 } else { each })
}

/// Numbers of vectors that are held at a time: 32 MB.
const HELD: usize = 1 << 22;

/// Σ weight·(estimate around a place) over `places`, of each record one vector.
fn estimated<P: PerRecord>(
    objective: &mut P,
    records: &[u64],
    (around, shared): (Around, &[f64]),
    places: &[(f64, &[f64])],
    sum: &mut BatchSum,
) -> Result<(), RunError> {
    match around.estimator {
        Estimator::Gradients => {
            let terms = around.gradient_terms(shared, places);
            let terms: Vec<(f64, &[f64])> = terms.iter().map(|(weight, x)| (*weight, &x[..])).collect();
            objective.combined(records, &terms, sum)
        }
        Estimator::Values => by_values(objective, records, &around.value_terms(shared, places), sum),
    }
}

/// Σ weight·(loss at a point)·direction over `terms`, of each record one vector.
fn by_values<P: PerRecord>(
    objective: &mut P,
    records: &[u64],
    terms: &[(f64, &[f64], Vec<f64>)],
    sum: &mut BatchSum,
) -> Result<(), RunError> {
    let d = sum.dimension();
    let mut values = Vec::new();
    for part in records.chunks((HELD / d).max(1)) {
        let mut rows = vec![0.0; part.len() * d];
        for (weight, direction, x) in terms {
            values.clear();
            objective.values(part, x, &mut values)?;
            if values.len() != part.len() {
                return Err(RunError::Numerical("the objective did not give one loss for each record"));
            }
            for (row, value) in rows.chunks_mut(d).zip(&values) {
                row.iter_mut().zip(*direction).for_each(|(r, y)| *r += weight * value * y);
            }
        }
        sum.add(part.len(), |k, out| out.extend(&rows[k * d..(k + 1) * d]))?;
    }
    Ok(())
}

mod sealed {
    /// Keeps foreign types out of [`Source`](super::Source).
    pub trait Sealed {}
}

/// An objective of the library's, or closures, and records of its type.
pub struct InMemory<'a, O, R> {
    objective: O,
    records: &'a Sensitive<R>,
    stream: Option<GradientStream<O>>,
}

impl<'a, O: Objective<R> + Clone, R: RecordSet> InMemory<'a, O, R> {
    /// The objective Σφ_i over `records`.
    pub fn new(objective: O, records: &'a Sensitive<R>) -> Self {
        Self { objective, records, stream: None }
    }
}

impl<O, R> sealed::Sealed for InMemory<'_, O, R> {}

impl<O: Objective<R> + Clone, R: RecordSet> InMemory<'_, O, R> {
    fn sum<P: Objective<R>>(
        &self,
        curator: &mut Curator,
        how: Summing,
        objective: P,
        x: &[f64],
    ) -> Result<Sensitive<GridSum>, RunError> {
        let batch = match how.whom {
            Whom::All => curator.block_of(self.records)?,
            Whom::Poisson(q) => Some(curator.poisson_sample_of(self.records, q)?),
            Whom::Fixed(size) => Some(curator.fixed_sample_of(self.records, size as usize)?.unordered()),
        };
        let clipped = Clipped::new(objective, how.clip_norm, how.grid)?;
        Ok(clipped.sum_of(self.records, batch, x).map_err(CuratorError::unreadable)?)
    }

    /// Coins go by a record's number: one more record before it must not change them.
    fn numbered(&self) -> Result<(), RunError> {
        if self.records.keeps_places() { Ok(()) } else { Err(RunError::Numbered) }
    }
}

impl<O: Objective<R> + Clone, R: RecordSet> Source for InMemory<'_, O, R> {
    fn gradients(&mut self, curator: &mut Curator, how: Summing, x: &[f64]) -> Result<Sensitive<GridSum>, RunError> {
        if how.smoothing > 0.0 {
            self.numbered()?;
            let coins = curator.public_coins();
            return self.sum(curator, how, Smoothed::new(self.objective.clone(), how.smoothing, coins), x);
        }
        self.sum(curator, how, self.objective.clone(), x)
    }

    fn changes(
        &mut self,
        curator: &mut Curator,
        how: Summing,
        x: &[f64],
        before: &[f64],
    ) -> Result<Sensitive<GridSum>, RunError> {
        self.sum(curator, how, Recursive::change(&self.objective, before), x)
    }

    fn around(
        &mut self,
        curator: &mut Curator,
        how: Summing,
        (around, coins): (Around, Stream),
        x: &[f64],
        before: Option<&[f64]>,
    ) -> Result<Sensitive<GridSum>, RunError> {
        if around.own_directions {
            self.numbered()?;
        }
        let places = before.map_or((x, (1.0, 0.0)), |before| (before, (1.0, 1.0)));
        self.sum(curator, how, Surroundings::new(&self.objective, around, places, coins), x)
    }

    fn leaf(
        &mut self,
        sums: &mut RestartedSums,
        leaf: Leaf,
        how: (u64, f64),
        x: &[f64],
        before: &[f64],
    ) -> Result<Released<Vec<f64>>, RunError> {
        let weighted = Recursive::weighted(&self.objective, before, leaf_weights(leaf, how.0));
        Ok(sums.add(leaf, self.records, &weighted, how, x)?)
    }

    fn leaf_around(
        &mut self,
        sums: &mut RestartedSums,
        leaf: Leaf,
        how: (u64, f64),
        (around, coins): (Around, Stream),
        x: &[f64],
        before: &[f64],
    ) -> Result<Released<Vec<f64>>, RunError> {
        let near = Surroundings::new(&self.objective, around, (before, leaf_weights(leaf, how.0)), coins);
        Ok(sums.add(leaf, self.records, &near, how, x)?)
    }

    fn derivatives(
        &mut self,
        curator: &mut Curator,
        how: Summing,
        x: &[f64],
        directions: &Directions,
    ) -> Result<Sensitive<GridSum>, RunError> {
        let nowhere = vec![0.0; directions.each().len()];
        self.sum(curator, how, Along::new(&self.objective, directions, x), &nowhere)
    }

    fn open(&mut self, curator: &mut Curator, streaming: Streaming) -> Result<(), RunError> {
        self.stream = Some(curator.open(&streaming.plan(self.objective.clone())?)?);
        Ok(())
    }

    fn next(&mut self, x: &[f64]) -> Result<Released<Vec<f64>>, RunError> {
        Ok(self.stream.as_mut().ok_or(NOT_OPEN)?.next(self.records, x)?)
    }

    fn next_recursive(&mut self, _: u64, x: &[f64], before: &[f64]) -> Result<Released<Vec<f64>>, RunError> {
        Ok(self.stream.as_mut().ok_or(NOT_OPEN)?.next_recursive(self.records, x, before)?)
    }

    fn scores(
        &mut self,
        _: &mut Curator,
        points: &ScoredPoints,
        progress: &dyn Progress,
    ) -> Result<Sensitive<Counts>, RunError> {
        Ok(points.scores(self.records, &self.objective, progress).map_err(CuratorError::unreadable)?)
    }

    fn point_of(&mut self, curator: &mut Curator, choice: &TreeChoice) -> Result<Released<Vec<f64>>, RunError> {
        Ok(curator.open(choice)?.choose(self.records, &self.objective)?)
    }

    fn public_count(&self, curator: &Curator) -> Option<u64> {
        curator.public_count(self.records)
    }

    fn dimension(&self) -> Option<usize> {
        Some(self.objective.dimension())
    }

    fn is_remote(&self) -> bool {
        false
    }
}

/// Who evaluates an objective outside of this library: a program's own model, a callable of another language.
///
/// **What is added for a record must depend on that record and `x` only.** Nothing can check it, and the guarantee rests on it.
pub trait PerRecord {
    /// Adds the gradient at `x` of each of `records` to `sum`, in any number of parts.
    ///
    /// # Errors
    /// If it can't be evaluated; the run ends there.
    fn gradients(&mut self, records: &[u64], x: &[f64], sum: &mut BatchSum) -> Result<(), RunError>;

    /// Adds of each of `records` *one* vector, Σ w·∇φ_i(x) over the `terms` (w, x).
    ///
    /// # Errors
    /// As [`gradients`](Self::gradients).
    fn combined(&mut self, records: &[u64], terms: &[(f64, &[f64])], sum: &mut BatchSum) -> Result<(), RunError>;

    /// Adds the derivatives at `x` of each of `records` along each of `directions` to `sum`.
    ///
    /// # Errors
    /// As [`gradients`](Self::gradients).
    fn derivatives(
        &mut self,
        records: &[u64],
        x: &[f64],
        directions: &Directions,
        sum: &mut BatchSum,
    ) -> Result<(), RunError>;

    /// Appends the loss of each of `records` at `x` to `out`, in order.
    ///
    /// # Errors
    /// As [`gradients`](Self::gradients).
    fn values(&mut self, records: &[u64], x: &[f64], out: &mut Vec<f64>) -> Result<(), RunError>;
}

/// Records that are read where an objective is evaluated.
pub struct ReadByObjective<P> {
    objective: P,
    records: usize,
    stream: Option<GradientStream<()>>,
}

impl<P: PerRecord> ReadByObjective<P> {
    /// So many records; how many there are is not told where that is protected.
    pub fn new(objective: P, records: usize) -> Self {
        Self { objective, records, stream: None }
    }

    fn sum(
        &mut self,
        curator: &mut Curator,
        how: Summing,
        dimension: usize,
        add: impl FnOnce(&mut P, &[u64], &mut BatchSum) -> Result<(), RunError>,
    ) -> Result<Sensitive<GridSum>, RunError> {
        let (batch, chosen) = match how.whom {
            Whom::Poisson(q) => curator.sample_for_loader(self.records, q)?,
            Whom::Fixed(size) => curator.fixed_for_loader(self.records, size as usize)?,
            Whom::All => curator.all_for_loader(self.records)?,
        };
        let mut sum = ClippedVectors::new(how.clip_norm, how.grid)?.in_parts(batch, dimension);
        add(&mut self.objective, &chosen, &mut sum)?;
        Ok(sum.finish())
    }
}

impl<P> sealed::Sealed for ReadByObjective<P> {}

impl<P: PerRecord> Source for ReadByObjective<P> {
    fn gradients(&mut self, curator: &mut Curator, how: Summing, x: &[f64]) -> Result<Sensitive<GridSum>, RunError> {
        if how.smoothing > 0.0 {
            return Err(RunError::Numerical("records that a callable evaluates share one point"));
        }
        self.sum(curator, how, x.len(), |objective, records, sum| objective.gradients(records, x, sum))
    }

    fn changes(
        &mut self,
        curator: &mut Curator,
        how: Summing,
        x: &[f64],
        before: &[f64],
    ) -> Result<Sensitive<GridSum>, RunError> {
        self.sum(curator, how, x.len(), |objective, records, sum| {
            objective.combined(records, &[(1.0, x), (-1.0, before)], sum)
        })
    }

    fn around(
        &mut self,
        curator: &mut Curator,
        how: Summing,
        (around, mut coins): (Around, Stream),
        x: &[f64],
        before: Option<&[f64]>,
    ) -> Result<Sensitive<GridSum>, RunError> {
        if around.own_directions {
            return Err(RunError::Numerical("records that a callable evaluates share their directions"));
        }
        let shared = around.shared(x.len(), &mut coins);
        let places: Vec<(f64, &[f64])> = [(1.0, x)].into_iter().chain(before.map(|before| (-1.0, before))).collect();
        self.sum(curator, how, x.len(), |objective, records, sum| {
            estimated(objective, records, (around, &shared), &places, sum)
        })
    }

    fn leaf(
        &mut self,
        sums: &mut RestartedSums,
        leaf: Leaf,
        how: (u64, f64),
        x: &[f64],
        before: &[f64],
    ) -> Result<Released<Vec<f64>>, RunError> {
        let (here, there) = leaf_weights(leaf, how.0);
        // what does not count is asked for where it is finite
        let before = if leaf == Leaf::First { x } else { before };
        sums.add_in_parts(leaf, how, |records, sum| {
            self.objective.combined(records, &[(here, x), (-there, before)], sum)
        })
    }

    fn leaf_around(
        &mut self,
        sums: &mut RestartedSums,
        leaf: Leaf,
        how: (u64, f64),
        (around, mut coins): (Around, Stream),
        x: &[f64],
        before: &[f64],
    ) -> Result<Released<Vec<f64>>, RunError> {
        let shared = around.shared(x.len(), &mut coins);
        let (here, there) = leaf_weights(leaf, how.0);
        let places: Vec<(f64, &[f64])> =
            [(here, x), (-there, before)].into_iter().filter(|(weight, _)| *weight != 0.0).collect();
        sums.add_in_parts(leaf, how, |records, sum| {
            estimated(&mut self.objective, records, (around, &shared), &places, sum)
        })
    }

    fn derivatives(
        &mut self,
        curator: &mut Curator,
        how: Summing,
        x: &[f64],
        directions: &Directions,
    ) -> Result<Sensitive<GridSum>, RunError> {
        let count = directions.each().len();
        self.sum(curator, how, count, |objective, records, sum| objective.derivatives(records, x, directions, sum))
    }

    fn open(&mut self, curator: &mut Curator, streaming: Streaming) -> Result<(), RunError> {
        self.stream = Some(curator.open(&streaming.plan(())?)?);
        Ok(())
    }

    fn next(&mut self, x: &[f64]) -> Result<Released<Vec<f64>>, RunError> {
        let stream = self.stream.as_mut().ok_or(NOT_OPEN)?;
        stream.next_in_parts(|records, sum| self.objective.gradients(records, x, sum))
    }

    fn next_recursive(&mut self, t: u64, x: &[f64], before: &[f64]) -> Result<Released<Vec<f64>>, RunError> {
        let (own, other) = Recursive::<()>::weights(t);
        let stream = self.stream.as_mut().ok_or(NOT_OPEN)?;
        stream.next_in_parts(|records, sum| match other == 0.0 {
            true => self.objective.gradients(records, x, sum),
            false => self.objective.combined(records, &[(own, x), (-other, before)], sum),
        })
    }

    fn scores(
        &mut self,
        curator: &mut Curator,
        points: &ScoredPoints,
        progress: &dyn Progress,
    ) -> Result<Sensitive<Counts>, RunError> {
        let (batch, chosen) = curator.all_for_loader(self.records)?;
        points.remote_scores(batch, progress, |x, out| self.objective.values(&chosen, x, out))
    }

    fn point_of(&mut self, curator: &mut Curator, choice: &TreeChoice) -> Result<Released<Vec<f64>>, RunError> {
        let (batch, chosen) = curator.all_for_loader(self.records)?;
        curator.open(choice)?.choose_by(batch, |x, out| self.objective.values(&chosen, x, out))
    }

    fn public_count(&self, curator: &Curator) -> Option<u64> {
        curator.public_number(self.records as u64)
    }

    fn dimension(&self) -> Option<usize> {
        None
    }

    fn is_remote(&self) -> bool {
        true
    }
}
