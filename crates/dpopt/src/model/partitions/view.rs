//! The header of an aggregate query: which model it is for, or that it is about numbers as they were given.

use super::super::stage_plan::Planned;
use dpopt_objective::loss::Loss;
use serde::{Deserialize, Serialize};

/// How one of several models reads targets as they were given.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(in super::super) struct View {
    /// The loss that is minimised.
    pub loss: Loss,
    /// The class that the others are held against.
    pub against: Option<usize>,
    /// A range that was not known when the partitions were made: targets are clipped to it and scaled to [-1, 1].
    pub range: Option<(f64, f64)>,
}

impl View {
    /// How model `k` reads targets.
    pub fn of(planned: &Planned, k: usize) -> Self {
        Self { loss: planned.problem.loss, against: (planned.models > 1).then_some(k), range: None }
    }

    /// This view with targets clipped to `range` and scaled to [-1, 1].
    pub fn within(self, range: Option<(f64, f64)>) -> Self {
        Self { range, ..self }
    }

    /// A target clipped to the range, if there is one, and scaled to [-1, 1]; what is not a number stays none.
    pub fn scaled(&self, given: f64) -> f64 {
        match self.range {
            Some((lower, upper)) if !given.is_nan() => {
                let (middle, half) = ((lower + upper) / 2.0, (upper - lower) / 2.0);
                ((given.max(lower).min(upper) - middle) / half).clamp(-1.0, 1.0)
            }
            _ => given,
        }
    }

    /// A target as the loss reads it; what is not a number is one of no record.
    pub fn target(&self, given: f64) -> f32 {
        let sign = |second: bool| if second { 1.0 } else { -1.0 };
        let given = self.scaled(given);
        match (self.against, self.loss) {
            _ if given.is_nan() => 0.0,
            (Some(class), _) => sign(given == class as f64),
            (None, Loss::Logistic { .. } | Loss::Hinge | Loss::SmoothedHinge { .. } | Loss::Sigmoid) => {
                sign(given == 1.0)
            }
            (
                None,
                Loss::Softmax { .. }
                | Loss::Squared
                | Loss::Absolute
                | Loss::Huber { .. }
                | Loss::Poisson { .. }
                | Loss::Quantile { .. },
            ) => given as f32,
        }
    }
}

/// What an aggregate query is about.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in super::super) enum QueryTarget {
    /// Bounded rows, with targets as a model reads them.
    Model(View),
    /// Numbers as they were given: targets, or rows that are nothing but numbers.
    Numbers,
    /// Nothing: to measure what a query costs, and whether whoever answers is of this version.
    #[serde(rename = "nothing-4")]
    Nothing,
}

impl QueryTarget {
    /// As bytes: a length of 4, little-endian, and so many of JSON.
    pub fn to_bytes(self) -> Vec<u8> {
        // names and numbers: nothing of it fails
        let words = serde_json::to_vec(&self).unwrap_or_default();
        [&(words.len() as u32).to_le_bytes(), &words[..]].concat()
    }

    /// What a message begins with, and where that ends.
    pub fn begins(message: &[u8]) -> Option<(Self, usize)> {
        let (length, rest) = message.split_first_chunk::<4>()?;
        let length = u32::from_le_bytes(*length) as usize;
        Some((serde_json::from_slice(rest.get(..length)?).ok()?, 4 + length))
    }
}
