//! Private choice of k features one after another, "peeling" (docs/proofs/peeling.md).
//!
//! The score of feature j is |Σ_i c_ij|, where c_i is the integer gradient of record i at a released point, every entry of it at most
//! C in size: a record moves each score by at most C, in any direction. One pass over the records makes all scores. A pick is
//! the exponential mechanism among the features that are left, so k picks have the law of one-shot Gumbel noise (one noise per
//! score, the k largest; Durfee, Rogers 2019); or report-noisy-max with fresh Laplace noise.
//!
//! With the exponential mechanism a pick costs a few hundred levels of scores, with Laplace noise the features that some record has.

use super::vertex::VertexFacts;
use crate::sums::thresholded::SparseVector;
use dpopt_draws::{Chosen, LaplaceMaximum, LeveledChoice, unnamed_index};
use dpopt_kernel::beside::{Expose, Sealed};
use dpopt_kernel::{CuratorError, Mechanism, SamplerError, Sensitive};
use dpopt_noise::{NoiseSource, Purpose};
use dpopt_objective::records::{RecordBuffer, Records};
use dpopt_privacy::{Event, Relation};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// How a feature is picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PeelingLaw {
    /// The exponential mechanism: k picks together are the k largest scores with one Gumbel noise each.
    Gumbel,
    /// Report-noisy-max with fresh Laplace noise for every pick.
    Laplace,
}

/// Scores of all features, without those that were picked.
pub struct FeatureScores {
    facts: VertexFacts,
    dimension: u64,
    /// Columns that a record has, increasing: only their scores are stored.
    columns: Vec<u32>,
    /// Scores of the stored columns, in units of C/2^20.
    scores: Vec<i64>,
    taken: Vec<bool>,
    /// Picked features that no record has: positions among those, increasing.
    taken_others: Vec<u32>,
    gumbel: LeveledChoice,
    laplace: LaplaceMaximum,
}

impl FeatureScores {
    /// The scores at `point`, without feature `exempt`, which counts neither as a candidate nor for the bound of the others.
    pub fn new<R: Records>(
        examples: &Sensitive<R>,
        facts: VertexFacts,
        point: &SparseVector,
        exempt: Option<u32>,
    ) -> Result<Sensitive<Self>, CuratorError> {
        let records = examples.expose();
        let mut sums: HashMap<u32, i64> = HashMap::new();
        let mut buffer = RecordBuffer::default();
        for i in 0..records.len() {
            let (columns, values, target) = records.record(i, &mut buffer).map_err(CuratorError::unreadable)?;
            let score = columns.iter().zip(values).map(|(&j, &x)| point.at(j) * f64::from(x)).sum();
            let own = || columns.iter().zip(values).filter(|(j, _)| Some(**j) != exempt);
            let slope = facts.slope(score, facts.target(target), own().map(|(_, x)| *x));
            for (&j, &x) in own() {
                // at most 2^20 per record: 2^41 records fit
                *sums.entry(j).or_insert(0) += facts.units(slope, x);
            }
        }
        let mut sums: Vec<(u32, i64)> = sums.into_iter().map(|(j, sum)| (j, sum.abs())).collect();
        sums.sort_unstable();
        let (columns, scores): (Vec<u32>, Vec<i64>) = sums.into_iter().unzip();
        let dimension = records.columns() as u64;
        let noise = |e: dpopt_noise::ScaleError| CuratorError::Noise(e.to_string());
        let (epsilon, moved) = (facts.epsilon, facts.sensitivity());
        let gumbel =
            LeveledChoice::unsigned(epsilon, moved, &scores, dimension - columns.len() as u64).map_err(noise)?;
        let laplace = LaplaceMaximum::new(epsilon, moved).map_err(noise)?;
        let taken = vec![false; columns.len()];
        let mut all = Self { facts, dimension, columns, scores, taken, taken_others: Vec::new(), gumbel, laplace };
        if let Some(feature) = exempt {
            all.remove(feature);
        }
        Ok(Sensitive::new(all))
    }

    /// Takes a feature out of all further picks.
    fn remove(&mut self, feature: u32) {
        match self.columns.binary_search(&feature) {
            Ok(place) if !self.taken[place] => {
                self.taken[place] = true;
                self.gumbel.remove(place as u32);
            }
            Ok(_) => {}
            Err(below) => {
                let position = feature - below as u32;
                if let Err(at) = self.taken_others.binary_search(&position) {
                    self.taken_others.insert(at, position);
                    self.gumbel.remove_others(1);
                }
            }
        }
    }

    /// Features that no record has and that are left.
    fn others(&self) -> u64 {
        self.dimension - (self.columns.len() + self.taken_others.len()) as u64
    }
}

impl FeatureScores {
    /// Takes a released feature out of all further picks.
    pub fn take(scores: &mut Sensitive<Self>, feature: u32) {
        scores.expose_mut().remove(feature);
    }
}

/// One pick: the feature, with value 1. Event: `ExponentialMechanism(ε₀)`, or `ApproxDp(ε₀, 0)` with Laplace noise.
#[derive(Clone, Debug)]
pub struct FeaturePick {
    /// The law that picks the feature.
    pub law: PeelingLaw,
    /// What its scores are made of.
    pub facts: VertexFacts,
    /// Number d of features.
    pub dimension: u64,
}

impl Sealed for FeaturePick {}

impl Mechanism for FeaturePick {
    type Input = FeatureScores;
    type Output = SparseVector;

    fn event(&self) -> Event {
        match self.law {
            PeelingLaw::Gumbel => Event::ExponentialMechanism { epsilon: self.facts.epsilon },
            PeelingLaw::Laplace => Event::ApproxDp { epsilon: self.facts.epsilon, delta: 0.0 },
        }
    }

    fn sampler_error(&self, _input: &FeatureScores) -> f64 {
        SamplerError::rounded(1.0).total_variation()
    }

    fn relation(&self) -> Option<Relation> {
        Some(self.facts.relation)
    }

    fn label(&self) -> &'static str {
        "feature"
    }

    fn can_draw(&self) -> Result<(), CuratorError> {
        let noise = |e: dpopt_noise::ScaleError| CuratorError::Noise(e.to_string());
        let (epsilon, moved) = (self.facts.epsilon, self.facts.sensitivity());
        LeveledChoice::unsigned(epsilon, moved, &[], self.dimension).map_err(noise)?;
        LaplaceMaximum::new(epsilon, moved).map(drop).map_err(noise)
    }

    fn check(&self, input: &FeatureScores) -> Result<(), CuratorError> {
        if input.dimension != self.dimension || input.facts != self.facts {
            return Err(CuratorError::Shape);
        }
        Ok(())
    }

    fn numbers(output: &SparseVector) -> Option<&[f64]> {
        Some(output.values())
    }

    fn apply(&self, input: &FeatureScores, noise: &mut NoiseSource) -> Result<SparseVector, CuratorError> {
        let mut stream = noise.stream(Purpose::Selection, 0);
        let chosen = match self.law {
            PeelingLaw::Gumbel => input.gumbel.choose(&mut stream),
            PeelingLaw::Laplace => {
                // positions among those that are left
                let left: Vec<u32> = (0..input.columns.len() as u32).filter(|p| !input.taken[*p as usize]).collect();
                let chosen =
                    input.laplace.choose(left.iter().map(|p| input.scores[*p as usize]), input.others(), &mut stream);
                chosen
                    .map(|chosen| if let Chosen::Plus(at) = chosen { Chosen::Plus(left[at as usize]) } else { chosen })
            }
        };
        let feature = match chosen.ok_or(CuratorError::Shape)? {
            Chosen::Plus(place) | Chosen::Minus(place) => input.columns[place as usize],
            Chosen::Other(rank) => {
                let position = unnamed_index(rank, &input.taken_others);
                u32::try_from(unnamed_index(position, &input.columns)).map_err(|_| CuratorError::Shape)?
            }
        };
        Ok(SparseVector::new([(feature, 1.0)]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_objective::loss::Loss;
    use dpopt_objective::records::{Examples, Rows};

    #[test]
    fn one_record_moves_no_score_by_more_than_the_bound() {
        // entries far above what the bound was made for, a huge slope, targets that are no numbers
        let wild = [
            ([1.0f32, 0.0], 1e30f32),
            ([0.6, 0.8], -1e30),
            ([1e-30, 1.0], f32::NAN),
            ([0.0, 0.0], 1.0),
            ([0.3, -0.2], f32::INFINITY),
        ];
        for (row, target) in wild {
            let mut examples = Examples { rows: Rows::new(3), targets: vec![target] };
            examples.rows.push_clipped(&mut [(0, row[0]), (1, row[1])], 1.0);
            let facts = VertexFacts { loss: Loss::Squared, clip_norm: 0.1, epsilon: 1.0, relation: Relation::ZeroOut };
            for weight in [0.0, 1e6, -1e6] {
                let scores = FeatureScores::new(
                    &Sensitive::new(examples.clone()),
                    facts,
                    &SparseVector::new([(0, weight)]),
                    None,
                )
                .unwrap();
                assert!(scores.expose().scores.iter().all(|s| (0..=1 << 20).contains(s)), "{row:?} {target}");
            }
        }
    }
}
