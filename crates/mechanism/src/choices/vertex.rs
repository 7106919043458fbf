//! Private choice of a vertex of the l1 ball: the step of Frank–Wolfe as one release (Talwar, Thakurta, Zhang 2015;
//! docs/proofs/frank-wolfe.md).
//!
//! The score of vertex ±λe_j is ∓Σ_i c_ij, where c_i is the integer gradient of record i, every entry of it at most C in size.
//! A record moves each score by at most C, whatever its other entries: the exponential mechanism needs no more.
//!
//! The sums are kept up to date while the iterate moves. A record's slope may be old: it depends on that record and on
//! released vertices only, so the bound, and with it privacy, is the same. When slopes are refreshed must not depend on other
//! records: those of the rows that the new vertex touches at once, all others at fixed steps.

use crate::sums::thresholded::SparseVector;
use dpopt_draws::{Chosen, LeveledChoice, unnamed_index};
use dpopt_kernel::beside::{Expose, Sealed};
use dpopt_kernel::{CuratorError, Mechanism, SamplerError, Sensitive};
use dpopt_noise::{NoiseSource, Purpose};
use dpopt_objective::loss::Loss;
use dpopt_objective::records::Examples;
use dpopt_privacy::{Event, Relation};

/// C in integer units: what one record can move a score by.
pub(crate) const UNITS: u64 = 1 << 20;

/// What is public about the scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VertexFacts {
    /// The loss; one score per record.
    pub loss: Loss,
    /// C: largest entry of a record's gradient.
    pub clip_norm: f64,
    /// ε₀ of one choice.
    pub epsilon: f64,
    /// The neighbouring relation, under which a record moves scores by C, or by 2C.
    pub relation: Relation,
}

impl VertexFacts {
    /// How far one record moves an integer score.
    pub(crate) fn sensitivity(&self) -> u64 {
        if self.relation == Relation::ReplaceOne { 2 * UNITS } else { UNITS }
    }

    /// φ'(score), cut so that no entry of the gradient exceeds C; 0 for a record without a usable target or entry.
    pub(crate) fn slope(&self, score: f64, target: f64, values: impl Iterator<Item = f32>) -> f64 {
        let largest = values.fold(0f32, |m, x| m.max(x.abs()));
        if largest == 0.0 || target.is_nan() {
            return 0.0;
        }
        let slope = self.loss.scalar_slope(score, target);
        let most = self.clip_norm / f64::from(largest);
        if slope.is_nan() { 0.0 } else { slope.clamp(-most, most) }
    }

    /// The target that the loss works with; NaN for one that it can't use.
    pub(crate) fn target(&self, given: f32) -> f64 {
        self.loss.usable_target(f64::from(given), f64::MAX).unwrap_or(f64::NAN)
    }

    /// trunc(slope·x) in units of C/2^20, at most 2^20 in size; NaN counts as 0.
    #[inline]
    pub(crate) fn units(&self, slope: f64, x: f32) -> i64 {
        ((slope * f64::from(x) * (UNITS as f64 / self.clip_norm)) as i64).clamp(-(UNITS as i64), UNITS as i64)
    }
}

/// The scores of all vertices at an iterate w = a·ŵ, with what it takes to move it.
pub struct VertexScores {
    facts: VertexFacts,
    dimension: u64,
    /// Columns that a record has, increasing: only their scores are stored.
    columns: Vec<u32>,
    /// Where each record's entries begin in `places` and `values`; its target is in `targets`.
    offsets: Vec<usize>,
    places: Vec<u32>,
    values: Vec<f32>,
    targets: Vec<f64>,
    /// Where each column's records begin.
    column_offsets: Vec<usize>,
    column_records: Vec<u32>,
    column_values: Vec<f32>,
    /// Margins ⟨ŵ, x_i⟩, and a.
    margins: Vec<f64>,
    shrinkage: f64,
    /// Slope of each record when it was last refreshed.
    slopes: Vec<f64>,
    /// Score of the p-th column: Σ c_ij, which speaks for −e of it.
    choice: LeveledChoice,
}

impl VertexScores {
    /// The scores at w = 0: one pass over the entries, memory of the entries.
    pub fn new(examples: &Sensitive<Examples>, facts: VertexFacts) -> Result<Sensitive<Self>, CuratorError> {
        let Examples { rows, targets } = examples.expose();
        let dimension = rows.columns() as u64;
        // in memory of the entries, not of the columns
        let mut columns: Vec<u32> = (0..rows.len()).flat_map(|i| rows.row(i).0.iter().copied()).collect();
        columns.sort_unstable();
        columns.dedup();
        let mut offsets = vec![0];
        let (mut places, mut values) = (Vec::with_capacity(rows.nonzeros()), Vec::with_capacity(rows.nonzeros()));
        let mut column_offsets = vec![0usize; columns.len() + 1];
        for i in 0..rows.len() {
            let (indices, entries) = rows.row(i);
            for j in indices {
                let place = columns.partition_point(|column| column < j);
                places.push(place as u32);
                column_offsets[place + 1] += 1;
            }
            values.extend_from_slice(entries);
            offsets.push(places.len());
        }
        for p in 0..columns.len() {
            column_offsets[p + 1] += column_offsets[p];
        }
        let mut next = column_offsets.clone();
        let (mut column_records, mut column_values) = (vec![0u32; places.len()], vec![0f32; places.len()]);
        for i in 0..rows.len() {
            for at in offsets[i]..offsets[i + 1] {
                let p = places[at] as usize;
                column_records[next[p]] = i as u32;
                column_values[next[p]] = values[at];
                next[p] += 1;
            }
        }
        let others = 2 * (dimension - columns.len() as u64);
        let choice = LeveledChoice::new(facts.epsilon, facts.sensitivity(), &vec![0; columns.len()], others)
            .map_err(|e| CuratorError::Noise(e.to_string()))?;
        let mut scores = Self {
            facts,
            dimension,
            columns,
            offsets,
            places,
            values,
            targets: targets.iter().map(|y| facts.target(*y)).collect(),
            column_offsets,
            column_records,
            column_values,
            margins: vec![0.0; targets.len()],
            shrinkage: 1.0,
            slopes: vec![0.0; targets.len()],
            choice,
        };
        scores.refresh_all();
        Ok(Sensitive::new(scores))
    }

    /// w ← (1 − η)w + ηλ·`vertex`; then all slopes, or those of the rows that have the vertex's column, are computed anew.
    fn advance(&mut self, vertex: &SparseVector, rate: f64, radius: f64, refresh_all: bool) {
        if rate >= 1.0 {
            self.shrinkage = 1.0;
            self.margins.fill(0.0);
        } else {
            self.shrinkage *= 1.0 - rate;
        }
        for (column, sign) in vertex.iter() {
            let Ok(place) = self.columns.binary_search(&column) else { continue };
            let moved = rate * sign * radius / self.shrinkage;
            let span = self.column_offsets[place]..self.column_offsets[place + 1];
            for at in span.clone() {
                self.margins[self.column_records[at] as usize] += moved * f64::from(self.column_values[at]);
            }
            if !refresh_all {
                span.for_each(|at| self.refresh(self.column_records[at] as usize));
            }
        }
        if refresh_all {
            self.refresh_all();
        }
    }

    fn refresh_all(&mut self) {
        (0..self.slopes.len()).for_each(|i| self.refresh(i));
    }

    /// The slope of record i at the present iterate, and with it the scores of its columns.
    fn refresh(&mut self, i: usize) {
        let old = self.slopes[i];
        let new = self.slope(i);
        if new == old {
            return;
        }
        self.slopes[i] = new;
        for at in self.offsets[i]..self.offsets[i + 1] {
            let (place, x) = (self.places[at], self.values[at]);
            // at most 2^20 per record: 2^41 records fit
            let change = self.facts.units(new, x) - self.facts.units(old, x);
            if change != 0 {
                self.choice.set(place, self.choice.score(place) + change);
            }
        }
    }

    /// φ'(w·x_i), cut so that no entry of the gradient exceeds C.
    fn slope(&self, i: usize) -> f64 {
        let values = self.values[self.offsets[i]..self.offsets[i + 1]].iter().copied();
        self.facts.slope(self.shrinkage * self.margins[i], self.targets[i], values)
    }

    /// Σ c_ij from the slopes in use, and the sums that are kept.
    #[cfg(test)]
    fn recomputed(&self) -> (Vec<i64>, Vec<i64>) {
        let mut sums = vec![0i64; self.columns.len()];
        for i in 0..self.slopes.len() {
            for at in self.offsets[i]..self.offsets[i + 1] {
                sums[self.places[at] as usize] += self.facts.units(self.slopes[i], self.values[at]);
            }
        }
        let kept = (0..sums.len()).map(|place| self.choice.score(place as u32)).collect();
        (sums, kept)
    }
}

impl VertexScores {
    /// w ← (1 − η)w + ηλ·`vertex` for a released vertex; then all slopes, or those of the rows that have its column, are computed anew.
    pub fn step(scores: &mut Sensitive<Self>, vertex: &SparseVector, rate: f64, radius: f64, refresh_all: bool) {
        scores.expose_mut().advance(vertex, rate, radius, refresh_all);
    }
}

/// A vertex of the unit l1 ball, signed coordinate ±e_j, chosen with probability ∝ e^(score·ε₀/(2Δ)), Δ = C, or 2C under
/// replace-one. Event: `ExponentialMechanism(ε₀)`.
#[derive(Clone, Debug)]
pub struct VertexChoice {
    /// What its scores are made of.
    pub facts: VertexFacts,
    /// Number d of features.
    pub dimension: u64,
}

impl Sealed for VertexChoice {}

impl Mechanism for VertexChoice {
    type Input = VertexScores;
    type Output = SparseVector;

    fn event(&self) -> Event {
        Event::ExponentialMechanism { epsilon: self.facts.epsilon }
    }

    fn sampler_error(&self, _input: &VertexScores) -> f64 {
        SamplerError::rounded(1.0).total_variation()
    }

    fn relation(&self) -> Option<Relation> {
        Some(self.facts.relation)
    }

    fn label(&self) -> &'static str {
        "vertex of the l1 ball"
    }

    fn can_draw(&self) -> Result<(), CuratorError> {
        LeveledChoice::new(self.facts.epsilon, self.facts.sensitivity(), &[], 2 * self.dimension)
            .map(drop)
            .map_err(|e| CuratorError::Noise(e.to_string()))
    }

    fn check(&self, input: &VertexScores) -> Result<(), CuratorError> {
        if input.facts.clip_norm > self.facts.clip_norm {
            return Err(CuratorError::Sensitivity { input: input.facts.clip_norm, mechanism: self.facts.clip_norm });
        }
        if input.facts != self.facts || input.dimension != self.dimension {
            return Err(CuratorError::Shape);
        }
        Ok(())
    }

    fn numbers(output: &SparseVector) -> Option<&[f64]> {
        Some(output.values())
    }

    fn apply(&self, input: &VertexScores, noise: &mut NoiseSource) -> Result<SparseVector, CuratorError> {
        let mut stream = noise.stream(Purpose::Selection, 0);
        let (column, sign) = match input.choice.choose(&mut stream).ok_or(CuratorError::Shape)? {
            Chosen::Plus(place) => (input.columns[place as usize], -1.0),
            Chosen::Minus(place) => (input.columns[place as usize], 1.0),
            Chosen::Other(rank) => {
                let column = unnamed_index(rank / 2, &input.columns);
                (u32::try_from(column).map_err(|_| CuratorError::Shape)?, if rank % 2 == 0 { -1.0 } else { 1.0 })
            }
        };
        Ok(SparseVector::new([(column, sign)]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_objective::records::Rows;
    use dpopt_objective::synthetic::Lcg;

    /// n rows with `width` of d features; the label follows the first three.
    fn table(n: usize, d: usize, width: usize, seed: u64) -> Examples {
        let mut random = Lcg::new(seed);
        let mut examples = Examples { rows: Rows::new(d), targets: Vec::new() };
        for _ in 0..n {
            let mut entries: Vec<(u32, f32)> =
                (0..3).map(|j| (j, if random.uniform() < 0.5 { 1.0 } else { -1.0 })).collect();
            let score: f32 = entries.iter().map(|e| e.1).sum();
            entries.extend((3..width).map(|_| {
                ((3.0 + random.uniform() * (d - 3) as f64) as u32, if random.uniform() < 0.5 { 1.0f32 } else { -1.0 })
            }));
            let size = (width as f32).sqrt();
            entries.iter_mut().for_each(|e| e.1 /= size);
            examples.rows.push_clipped(&mut entries, 1.0);
            examples.targets.push(score.signum());
        }
        examples
    }

    #[test]
    fn sums_stay_what_they_are_by_definition() {
        let examples = table(300, 80, 9, 3);
        let data = Sensitive::new(examples);
        let facts = VertexFacts {
            loss: Loss::Logistic { shift: 0.0 },
            clip_norm: 0.3,
            epsilon: 0.5,
            relation: Relation::ReplaceOne,
        };
        let mut scores = VertexScores::new(&data, facts).unwrap();
        let mut random = Lcg::new(1);
        for t in 0..2_000u64 {
            let vertex = SparseVector::new([(
                (random.uniform() * 80.0) as u32,
                if random.uniform() < 0.5 { 1.0 } else { -1.0 },
            )]);
            VertexScores::step(&mut scores, &vertex, 2.0 / (t as f64 + 2.0), 20.0, t < 3 || t % 50 == 0);
            let (recomputed, kept) = scores.expose().recomputed();
            assert_eq!(recomputed, kept, "step {t}");
        }
    }

    #[test]
    fn one_record_moves_no_sum_by_more_than_the_bound() {
        // entries far above what the bound was made for, a huge slope, targets that are no numbers
        let wild = [
            ([1.0f32, 0.0], 1e30f32),
            ([0.6, 0.8], -1e30),
            ([1e-30, 1.0], f32::NAN),
            ([0.0, 0.0], 1.0),
            ([0.3, -0.2], f32::INFINITY),
        ];
        for (row, target) in wild {
            let mut examples = Examples { rows: Rows::new(2), targets: vec![target] };
            examples.rows.push_clipped(&mut [(0, row[0]), (1, row[1])], 1.0);
            let facts = VertexFacts { loss: Loss::Squared, clip_norm: 0.1, epsilon: 1.0, relation: Relation::ZeroOut };
            let mut scores = VertexScores::new(&Sensitive::new(examples), facts).unwrap();
            for t in 0..20 {
                let sums = scores.expose().recomputed().0;
                assert!(sums.iter().all(|s| s.abs() <= 1 << 20), "{row:?} {target}: {sums:?}");
                VertexScores::step(&mut scores, &SparseVector::new([(t % 2, 1.0)]), 0.5, 1e6, true);
            }
        }
    }
}
