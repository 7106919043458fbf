//! Sums of records that are elsewhere, as questions: what is asked for is public, and what a part answers is as sensitive as its records.
//! So is the point at which a minimiser asks, which no noise has made fit to be seen.
//!
//! A question is a line of JSON and the point it is asked at, 8 bytes per coordinate, so that everybody has the same bits. Where the
//! records are, [`answers`](super::answers) has the same loops as here.

use dpopt_objective::objective::InWords;
use dpopt_objective::solver::IntegerSums;
use serde::{Deserialize, Serialize};

/// First line of a question, version in it.
const VERSION: &str = "dpopt question 2\n";

/// A sum over all records.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Question {
    /// Σ clip(∇φ_i(x)).
    Gradients { of: InWords, clip_norm: f64, grid: i32 },
    /// Σ weight·x_i x_iᵀ.
    SecondMoment { weight: f64, row_norm: f64, grid: i32 },
    /// Σ y_i·x_i.
    TargetMoment { target_bound: f64, row_norm: f64, grid: i32 },
    /// Σ∇φ_i(x) and Σ∇²φ_i(x), not clipped: for the certified minimiser. The point is heads and tails.
    Curved(IntegerSums),
    /// Σ h_i(x)·x_i x_iᵀ for a Newton step.
    Majorant { shift: f64, row_norm: f64, grid: i32 },
    /// Σ clip(v_i − x) over numbers as they were given, `width` in each record.
    Vectors { width: usize, clip_norm: f64, grid: i32 },
    /// How many numbers are in each cell of the public grid of quantiles, column by column.
    Cells { width: usize },
}

impl Question {
    /// As bytes, asked at `point`.
    pub(crate) fn at(&self, point: &[f64]) -> Vec<u8> {
        let mut bytes = VERSION.as_bytes().to_vec();
        // numbers and names: nothing of it fails
        bytes.extend(serde_json::to_vec(self).unwrap_or_default());
        bytes.push(b'\n');
        point.iter().for_each(|x| bytes.extend_from_slice(&x.to_le_bytes()));
        bytes
    }

    pub(crate) fn parse(bytes: &[u8]) -> Option<(Self, Vec<f64>)> {
        let rest = bytes.strip_prefix(VERSION.as_bytes())?;
        let end = rest.iter().position(|&byte| byte == b'\n')?;
        let (words, point) = (&rest[..end], &rest[end + 1..]);
        if !point.len().is_multiple_of(8) {
            return None;
        }
        let point = point.chunks_exact(8).map(|x| x.try_into().map(f64::from_le_bytes));
        Some((serde_json::from_slice(words).ok()?, point.collect::<Result<_, _>>().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_at_is_told_to_the_last_bit() {
        let question = Question::TargetMoment { target_bound: 0.1 + 0.2, row_norm: 1.0 / 3.0, grid: -17 };
        let point = [f64::MIN_POSITIVE, -0.0, 0.1 + 0.2, 1e300, f64::from_bits(1)];
        let (told, at) = Question::parse(&question.at(&point)).unwrap();
        assert_eq!(told, question);
        assert!(at.iter().zip(&point).all(|(a, b)| a.to_bits() == b.to_bits()));
    }
}
