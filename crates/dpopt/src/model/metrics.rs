//! Exact statistics of predictions against known targets: accuracy, AUC, log loss, RMSE, MAE. Not private.

use serde::Serialize;

/// How well a classifier does. Exact numbers of the table they were computed on: nothing here is private.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassificationMetrics {
    /// Number of rows.
    pub rows: usize,
    /// Share of rows whose most probable class is the true one.
    pub accuracy: f64,
    /// Share of the most frequent true class: what a constant answer would reach.
    pub majority: f64,
    /// Probability that a random row of the second class gets a higher probability of it than a random row of the
    /// first class, ties counted half. `None` unless there are two classes and both occur.
    pub auc: Option<f64>,
    /// Mean of -ln p(true class), natural logarithm.
    pub log_loss: f64,
}

/// How well a regression does. Exact numbers of the table they were computed on: nothing here is private.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RegressionMetrics {
    /// Number of rows.
    pub rows: usize,
    /// Root of the mean squared error, in the target's unit.
    pub rmse: f64,
    /// Mean absolute error, in the target's unit.
    pub mae: f64,
    /// 1 - squared error / squared deviation from the mean. `None` for a constant target.
    pub r_squared: Option<f64>,
}

/// A probability of exactly 0 for the true class is counted as the smallest normal number, so that one certain
/// mistake makes the log loss large and not infinite.
const SMALLEST_PROBABILITY: f64 = f64::MIN_POSITIVE;

/// `probabilities`: one row of K numbers per record; `truth`: indices below K. `None` for no rows.
pub fn classification(probabilities: &[Vec<f64>], truth: &[usize]) -> Option<ClassificationMetrics> {
    let rows = truth.len();
    let classes = probabilities.first()?.len();
    let mut counts = vec![0usize; classes];
    let (mut right, mut log_loss) = (0usize, 0.0);
    for (p, &y) in probabilities.iter().zip(truth) {
        counts[y] += 1;
        right += usize::from(most_probable(p) == y);
        log_loss -= p[y].max(SMALLEST_PROBABILITY).ln();
    }
    let auc = (classes == 2)
        .then(|| area_under_curve(&probabilities.iter().map(|p| p[1]).collect::<Vec<_>>(), truth))
        .flatten();
    let n = rows as f64;
    let majority = counts.iter().copied().max().unwrap_or(0) as f64 / n;
    Some(ClassificationMetrics { rows, accuracy: right as f64 / n, majority, auc, log_loss: log_loss / n })
}

/// `predicted` and `truth` in the target's unit. `None` for no rows.
pub fn regression(predicted: &[f64], truth: &[f64]) -> Option<RegressionMetrics> {
    let rows = truth.len();
    if rows == 0 {
        return None;
    }
    let n = rows as f64;
    let mean = truth.iter().sum::<f64>() / n;
    let (mut squares, mut absolutes, mut spread) = (0.0, 0.0, 0.0);
    for (p, y) in predicted.iter().zip(truth) {
        squares += (p - y).powi(2);
        absolutes += (p - y).abs();
        spread += (y - mean).powi(2);
    }
    let r_squared = (spread > 0.0).then(|| 1.0 - squares / spread);
    Some(RegressionMetrics { rows, rmse: (squares / n).sqrt(), mae: absolutes / n, r_squared })
}

/// Index of the largest entry, the first one of equals.
pub fn most_probable(probabilities: &[f64]) -> usize {
    let mut best = 0;
    for (k, p) in probabilities.iter().enumerate() {
        if *p > probabilities[best] {
            best = k;
        }
    }
    best
}

/// Mann–Whitney statistic by ranks, ties counted half. `truth` is 1 for positives.
fn area_under_curve(scores: &[f64], truth: &[usize]) -> Option<f64> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_unstable_by(|&a, &b| scores[a].total_cmp(&scores[b]));
    let (mut positives, mut wins, mut negatives_below) = (0.0, 0.0, 0.0);
    let mut start = 0;
    while start < order.len() {
        let tied = order[start..].iter().take_while(|&&i| scores[i] == scores[order[start]]).count().max(1);
        let group = &order[start..start + tied];
        let up = group.iter().filter(|&&i| truth[i] == 1).count() as f64;
        let down = tied as f64 - up;
        wins += up * (negatives_below + 0.5 * down);
        positives += up;
        negatives_below += down;
        start += tied;
    }
    (positives > 0.0 && negatives_below > 0.0).then(|| wins / (positives * negatives_below))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn two(p: f64) -> Vec<f64> {
        vec![1.0 - p, p]
    }

    #[test]
    fn small_example_by_hand() {
        let p = [two(0.9), two(0.4), two(0.4), two(0.1)];
        let m = classification(&p, &[1, 1, 0, 0]).unwrap();
        assert_eq!((m.rows, m.accuracy, m.majority), (4, 0.75, 0.5));
        // pairs (positive, negative): .9>.4, .9>.1, .4=.4 half, .4>.1
        assert_eq!(m.auc, Some(3.5 / 4.0));
        let expected = -(0.9f64.ln() + 0.4f64.ln() + 0.6f64.ln() + 0.9f64.ln()) / 4.0;
        assert!((m.log_loss - expected).abs() < 1e-15);
        assert_eq!(classification(&p, &[1, 1, 1, 1]).unwrap().auc, None);
        assert_eq!(classification(&[], &[]), None);
    }

    #[test]
    fn a_certain_mistake_is_finite() {
        assert!(classification(&[two(1.0)], &[0]).unwrap().log_loss.is_finite());
    }

    #[test]
    fn regression_by_hand() {
        let m = regression(&[1.0, 2.0], &[2.0, 4.0]).unwrap();
        assert_eq!((m.mae, m.rmse, m.r_squared), (1.5, 2.5f64.sqrt(), Some(1.0 - 5.0 / 2.0)));
        assert_eq!(regression(&[1.0], &[1.0]).unwrap().r_squared, None);
        assert_eq!(regression(&[], &[]), None);
    }

    proptest! {
        #[test]
        fn auc_equals_the_count_of_pairs(rows in prop::collection::vec((0u8..5, 0usize..2), 2..40)) {
            let scores: Vec<f64> = rows.iter().map(|r| f64::from(r.0)).collect();
            let truth: Vec<usize> = rows.iter().map(|r| r.1).collect();
            let (mut pairs, mut wins) = (0.0, 0.0);
            for (i, &a) in truth.iter().enumerate() {
                for (j, &b) in truth.iter().enumerate() {
                    if a == 1 && b == 0 {
                        pairs += 1.0;
                        wins += if scores[i] > scores[j] { 1.0 } else if scores[i] == scores[j] { 0.5 } else { 0.0 };
                    }
                }
            }
            let expected = (pairs > 0.0).then(|| wins / pairs);
            let got = area_under_curve(&scores, &truth);
            prop_assert_eq!(got.is_some(), expected.is_some());
            if let (Some(a), Some(b)) = (got, expected) {
                prop_assert!((a - b).abs() < 1e-12);
            }
        }
    }
}
