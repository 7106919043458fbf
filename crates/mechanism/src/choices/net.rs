//! Scores of the points of a public net, for a choice among them (Ghazi et al. 2024;
//! docs/proofs/sparse-exponential.md).

use super::counts::Counts;
use dpopt_kernel::Sensitive;
use dpopt_kernel::beside::Expose;
use dpopt_objective::loss::Loss;
use dpopt_objective::records::Examples;
use dpopt_process::in_threads;
use dpopt_process::stop::Stop;
use rayon::prelude::*;

/// What one record moves a score by at most.
pub const NET_QUANTA: u64 = 1 << 20;

/// By how much each sparse point is better than 0 for all records together, in units of `range`/2^20, each record clipped to
/// ±2^20; targets are clamped to `target_bound`.
pub fn net_scores(
    examples: &Sensitive<Examples>,
    (loss, target_bound): (Loss, f64),
    range: f64,
    points: &[Vec<(u32, f64)>],
) -> Sensitive<Counts> {
    let (examples, unit) = (examples.expose(), range / NET_QUANTA as f64);
    let rows = examples.rows.len();
    let mut columns: Vec<Vec<(usize, f64)>> = vec![Vec::new(); examples.rows.columns()];
    for i in 0..rows {
        let (places, values) = examples.rows.row(i);
        places.iter().zip(values).for_each(|(&j, &x)| columns[j as usize].push((i, f64::from(x))));
    }
    // where a record has a target that can be used, and its loss at 0: the same for all points
    let targets: Vec<Option<(f64, f64)>> = examples
        .targets
        .iter()
        .map(|&y| loss.usable_target(f64::from(y), target_bound).map(|y| (y, loss.scalar_value(0.0, y))))
        .collect();
    let stop = Stop::here();
    let total = |scores: &mut Vec<f64>, point: &Vec<(u32, f64)>| {
        stop.point();
        scores.fill(0.0);
        for (column, w) in point.iter().filter_map(|&(j, w)| Some((columns.get(j as usize)?, w))) {
            column.iter().for_each(|&(i, x)| scores[i] += w * x);
        }
        let gain = |score: f64, (target, at_zero): (f64, f64)| {
            let gain = (at_zero - loss.scalar_value(score, target)) / unit;
            if gain.is_finite() { (gain as i64).clamp(-(NET_QUANTA as i64), NET_QUANTA as i64) } else { 0 }
        };
        let of = |(score, target): (&f64, &Option<(f64, f64)>)| target.map_or(0, |target| gain(*score, target));
        scores.iter().zip(&targets).map(of).sum::<i64>()
    };
    let scores = in_threads(|| points.par_iter().map_init(|| vec![0.0; rows], total).collect());
    Counts::declared(scores, NET_QUANTA as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_objective::records::Rows;

    const LOGISTIC: Loss = Loss::Logistic { shift: 0.0 };

    fn scores(rows: &[(&[(u32, f32)], f32)], range: f64, points: &[Vec<(u32, f64)>]) -> Vec<i64> {
        let mut examples = Examples { rows: Rows::new(3), targets: Vec::new() };
        for (entries, target) in rows {
            examples.rows.push_clipped(&mut entries.to_vec(), 10.0);
            examples.targets.push(*target);
        }
        net_scores(&Sensitive::new(examples), (LOGISTIC, 1.0), range, points).expose().values.clone()
    }

    #[test]
    fn a_point_is_as_good_as_the_records_gains_each_cut_to_whole_units() {
        let points = vec![vec![], vec![(0, 2.0)], vec![(0, -1.0), (2, 0.5)], vec![(7, 1.0)]];
        let records: [(&[(u32, f32)], f32); 4] =
            [(&[(0, 0.5), (2, 0.25)], 1.0), (&[(2, 0.75)], -1.0), (&[], 1.0), (&[(0, 1.0)], f32::NAN)];
        let unit = 1.0 / NET_QUANTA as f64;
        let gain =
            |score: f64, y: f64| ((LOGISTIC.scalar_value(0.0, y) - LOGISTIC.scalar_value(score, y)) / unit) as i64;
        // the third record has a score of 0 everywhere, the fourth no target
        let expected = [0, gain(1.0, 1.0), gain(-0.375, 1.0) + gain(0.375, -1.0), 0];
        assert_eq!(scores(&records, 1.0, &points), expected);
        // of a range of a quarter a record moves no score by more than all of its units
        let cut = scores(&records[..1], 0.25, &points);
        assert_eq!(cut[1], NET_QUANTA as i64);
    }
}
