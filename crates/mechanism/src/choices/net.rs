//! Scores of the points of a public net, for a choice among them (spec 20 §2.4; docs/proofs/sparse-exponential.md).

use super::counts::Counts;
use crate::Sensitive;
use dpopt_objective::loss::Loss;
use dpopt_objective::records::Examples;
use rayon::prelude::*;

/// What one record moves a score by at most.
pub const NET_UNITS: u64 = 1 << 20;

/// By how much each sparse point is better than 0 for all records together, in units of `range`/2^20, each record clipped to
/// ±2^20; targets are clamped to `target_bound`.
pub fn net_scores(
    examples: &Sensitive<Examples>,
    (loss, target_bound): (Loss, f64),
    range: f64,
    points: &[Vec<(u32, f64)>],
) -> Sensitive<Counts> {
    let (examples, unit) = (examples.expose(), range / NET_UNITS as f64);
    let scores = points
        .par_iter()
        .map(|point| {
            let mut total = 0i64;
            for i in 0..examples.rows.len() {
                let Some(target) = loss.usable_target(f64::from(examples.targets[i]), target_bound) else { continue };
                let (columns, values) = examples.rows.row(i);
                let score: f64 = point
                    .iter()
                    .filter_map(|&(j, w)| columns.binary_search(&j).ok().map(|at| w * f64::from(values[at])))
                    .sum();
                let gain = (loss.scalar_value(0.0, target) - loss.scalar_value(score, target)) / unit;
                if gain.is_finite() {
                    total += (gain as i64).clamp(-(NET_UNITS as i64), NET_UNITS as i64);
                }
            }
            total
        })
        .collect();
    Counts::declared(scores, NET_UNITS as f64)
}
