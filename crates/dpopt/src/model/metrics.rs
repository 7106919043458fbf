//! Exact statistics of predictions against known targets, each beside what a constant would reach. Not private.

use serde::Serialize;

/// How well a classifier does. Exact numbers of the table they were computed on: nothing here is private.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassificationMetrics {
    /// Number of rows that are scored.
    pub rows: usize,
    /// Rows that do not.
    pub left_out: LeftOut,
    /// Share of rows whose most probable class is the true one.
    pub accuracy: f64,
    /// Share of the most frequent true class: what a constant answer would reach.
    pub majority: f64,
    /// Probability that a random row of the second class gets a higher probability of it than a random row of the
    /// first class, ties counted half. `None` unless there are two classes and both occur.
    pub auc: Option<f64>,
    /// Mean of -ln p(true class), natural logarithm.
    pub log_loss: f64,
    /// Log loss of the base rate: of answering each class's share of these rows to everybody.
    pub log_loss_of_base_rate: f64,
    /// Mean distance of what is claimed from what happened, over rows in ten equal bins of probability: of the second of two classes, of the most probable of several.
    /// Not 0 for right probabilities: few rows of a bin have another share than expected.
    pub calibration_error: f64,
    /// Each class by itself, in the model's order.
    pub classes: Vec<ClassMetrics>,
    /// Rows of each true class by the class that is predicted.
    pub confusion: Vec<Vec<usize>>,
}

/// One class against all others.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassMetrics {
    /// Label of the class.
    pub label: String,
    /// Number of rows of the class.
    pub rows: usize,
    /// Rows that are predicted to be of it.
    pub predicted: usize,
    /// Share of its rows that are predicted to be of it; `None` where it has none.
    pub recall: Option<f64>,
    /// Share of the rows that are predicted to be of it that are; `None` where none is.
    pub precision: Option<f64>,
    /// Mean precision over its rows, those first that are given the highest probability of it; of rows with one probability that of all. `None` where it has no rows.
    pub average_precision: Option<f64>,
}

/// How well a regression does. Exact numbers of the table they were computed on: nothing here is private.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RegressionMetrics {
    /// Number of rows that are scored.
    pub rows: usize,
    /// Rows that do not.
    pub left_out: LeftOut,
    /// Root of the mean squared error, in the target's unit.
    pub rmse: f64,
    /// Root of the mean squared error of the mean of these rows, answered to everybody.
    pub rmse_of_mean: f64,
    /// Mean absolute error, in the target's unit.
    pub mae: f64,
    /// Mean absolute error of the mean of these rows.
    pub mae_of_mean: f64,
    /// 1 - squared error / squared deviation from the mean. `None` for a constant target.
    pub r_squared: Option<f64>,
    /// How well means of counts are told; `None` unless the model is one of counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deviance: Option<Deviance>,
    /// What the model's prediction intervals hold; `None` unless it has some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intervals: Option<Held>,
    /// How well a quantile is told; `None` unless the model is one of a quantile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pinball: Option<Pinball>,
    /// The range that the model's answers keep to.
    pub range: (f64, f64),
    /// Rows whose target lies below that range. They are scored as they stand.
    pub below_range: usize,
    /// Rows whose target lies above it.
    pub above_range: usize,
}

/// What prediction intervals hold. Exact numbers: nothing here is private.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Held {
    /// The share of targets that they are to hold.
    pub level: f64,
    /// The share that they hold.
    pub coverage: f64,
    /// Mean width, in the target's unit; `None` where an end is infinite.
    pub mean_width: Option<f64>,
}

impl Held {
    /// Of intervals with these ends.
    pub fn of(level: f64, ends: &[(f64, f64)], truth: &[f64]) -> Self {
        let n = truth.len().max(1) as f64;
        let held = ends.iter().zip(truth).filter(|((lower, upper), y)| lower <= *y && *y <= upper).count();
        let width: f64 = ends.iter().map(|(lower, upper)| (upper - lower) / n).sum();
        Self { level, coverage: held as f64 / n, mean_width: width.is_finite().then_some(width) }
    }
}

/// The mean Poisson deviance of predicted counts. Exact numbers: nothing here is private.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Deviance {
    /// Mean of 2·(y·ln(y/μ) − y + μ), of a count y and its prediction μ.
    pub mean: f64,
    /// Mean deviance of the mean of these rows, answered to everybody.
    pub of_mean: f64,
    /// D²: 1 − mean/of_mean. `None` for a constant target.
    pub d_squared: Option<f64>,
}

impl Deviance {
    /// Of `predicted` counts, all above 0; `None` for no rows, or where a target is no count: below 0.
    pub fn new(predicted: &[f64], truth: &[f64]) -> Option<Self> {
        if truth.is_empty() || truth.iter().any(|y| *y < 0.0) {
            return None;
        }
        let n = truth.len() as f64;
        let mean = truth.iter().map(|y| y / n).sum::<f64>();
        let of_one = |y: f64, mu: f64| 2.0 * (if y > 0.0 { y * (y / mu).ln() } else { 0.0 } - y + mu);
        let of = |mu: &dyn Fn(usize) -> f64| truth.iter().enumerate().map(|(i, y)| of_one(*y, mu(i)) / n).sum::<f64>();
        let (own, constant) = (of(&|i| predicted[i].max(f64::MIN_POSITIVE)), of(&|_| mean));
        Some(Self { mean: own, of_mean: constant, d_squared: (constant > 0.0).then(|| 1.0 - own / constant) })
    }
}

/// The mean pinball loss of a predicted quantile. Exact numbers: nothing here is private.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Pinball {
    /// The quantile's level, between 0 and 1.
    pub level: f64,
    /// Mean of max(level·(y − q), (level − 1)·(y − q)), of a target y and its predicted quantile q.
    pub mean: f64,
    /// Mean pinball loss of the best constant, which is that quantile of these rows.
    pub of_constant: f64,
    /// D²: 1 − mean/of_constant. `None` for a constant target.
    pub d_squared: Option<f64>,
    /// Share of the rows whose target is at most what is predicted: the level, if all is well.
    pub share_below: f64,
}

impl Pinball {
    /// Of `predicted` quantiles; `None` for no rows.
    pub fn new(level: f64, predicted: &[f64], truth: &[f64]) -> Option<Self> {
        if truth.is_empty() {
            return None;
        }
        let n = truth.len() as f64;
        let mut sorted = truth.to_vec();
        sorted.sort_by(f64::total_cmp);
        let constant = sorted[((level * n).ceil() as usize).clamp(1, truth.len()) - 1];
        let loss = |y: f64, q: f64| (level * (y - q)).max((level - 1.0) * (y - q)) / n;
        let mean: f64 = truth.iter().zip(predicted).map(|(y, q)| loss(*y, *q)).sum();
        let of_constant: f64 = truth.iter().map(|y| loss(*y, constant)).sum();
        let below = truth.iter().zip(predicted).filter(|(y, q)| y <= q).count();
        let d_squared = (of_constant > 0.0).then(|| 1.0 - mean / of_constant);
        Some(Self { level, mean, of_constant, d_squared, share_below: below as f64 / n })
    }
}

/// Rows that are not scored, by the reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Rows without a target.
    pub missing: usize,
    /// Rows with a label that the model does not have.
    pub undeclared: usize,
    /// With a target that cannot be read, or unreadable as a whole.
    pub unreadable: usize,
}

impl LeftOut {
    /// Number of all rows left out, whatever the reason.
    pub fn all(self) -> usize {
        self.missing + self.undeclared + self.unreadable
    }
}

/// A probability of exactly 0 for the true class is counted as the smallest normal number, so that one certain
/// mistake makes the log loss large and not infinite.
const SMALLEST_PROBABILITY: f64 = f64::MIN_POSITIVE;

/// Scores of a classifier that come row by row: of each row a probability is kept for each class, of two classes for the second alone.
pub(super) struct ClassScores {
    labels: Vec<String>,
    rows: usize,
    confusion: Vec<Vec<usize>>,
    log_loss: f64,
    /// What is claimed less what happened, added up in each bin.
    excess: [f64; BINS],
    /// Probabilities of each class, of the rows of each true class.
    by_truth: Vec<Vec<Vec<f64>>>,
    /// Of two classes the first has the rest of the second's probability, so far, and nothing is kept of it.
    rest: bool,
}

impl ClassScores {
    /// No rows yet.
    pub(super) fn new(labels: &[String]) -> Self {
        let k = labels.len();
        Self {
            labels: labels.to_vec(),
            rows: 0,
            confusion: vec![vec![0; k]; k],
            log_loss: 0.0,
            excess: [0.0; BINS],
            by_truth: vec![Vec::new(); k],
            rest: k == 2,
        }
    }

    /// One more row: a probability for each label, and the place of the true one.
    pub(super) fn add(&mut self, p: &[f64], truth: usize) {
        let chosen = most_probable(p);
        self.rows += 1;
        self.confusion[truth][chosen] += 1;
        self.log_loss -= p[truth].max(SMALLEST_PROBABILITY).ln();
        let class = if p.len() == 2 { 1 } else { chosen };
        let bin = ((p[class] * BINS as f64) as usize).min(BINS - 1);
        self.excess[bin] += p[class] - f64::from(u8::from(truth == class));
        if self.rest && p[0].to_bits() != (1.0 - p[1]).to_bits() {
            self.rest = false;
            for of_truth in self.by_truth.iter_mut().filter(|of_truth| !of_truth.is_empty()) {
                of_truth[0] = of_truth[1].iter().map(|p| 1.0 - p).collect();
            }
        }
        let of_truth = &mut self.by_truth[truth];
        of_truth.resize(p.len(), Vec::new());
        for (k, scores) in of_truth.iter_mut().enumerate().skip(usize::from(self.rest)) {
            scores.push(p[k]);
        }
    }

    /// The scores of all rows; `None` for no rows.
    pub(super) fn finish(mut self, left_out: LeftOut) -> Option<ClassificationMetrics> {
        if self.rows == 0 {
            return None;
        }
        let n = self.rows as f64;
        let share = |part: usize, of: usize| (of > 0).then(|| part as f64 / of as f64);
        let (mut classes, mut auc) = (Vec::new(), None);
        // the second of two first: the first may be made of it
        for k in (0..self.labels.len()).rev() {
            let (positive, negative) = self.take(k);
            let of_class: usize = self.confusion[k].iter().sum();
            let predicted: usize = self.confusion.iter().map(|row| row[k]).sum();
            if (k, self.labels.len()) == (1, 2) {
                auc = area_under_curve(&positive, &negative);
            }
            classes.push(ClassMetrics {
                label: self.labels[k].clone(),
                rows: of_class,
                predicted,
                recall: share(self.confusion[k][k], of_class),
                precision: share(self.confusion[k][k], predicted),
                average_precision: average_precision(&positive, &negative),
            });
            if self.rest && k == 1 {
                // of the first class, in the same order from its other end
                let rest = |scores: Vec<f64>| scores.into_iter().rev().map(|p| 1.0 - p).collect();
                self.by_truth = vec![vec![rest(negative)], vec![rest(positive)]];
            }
        }
        classes.reverse();
        let shares = || classes.iter().map(|class| class.rows as f64 / n);
        Some(ClassificationMetrics {
            rows: self.rows,
            left_out,
            accuracy: (0..classes.len()).map(|k| self.confusion[k][k]).sum::<usize>() as f64 / n,
            majority: shares().fold(0.0, f64::max),
            auc,
            log_loss: self.log_loss / n,
            log_loss_of_base_rate: -shares().filter(|p| *p > 0.0).map(|p| p * p.ln()).sum::<f64>() + 0.0,
            calibration_error: self.excess.iter().map(|sum| sum.abs()).sum::<f64>() / n,
            classes,
            confusion: self.confusion,
        })
    }

    /// Probabilities of class `k`, of its own rows and of the others, in increasing order.
    fn take(&mut self, k: usize) -> (Vec<f64>, Vec<f64>) {
        let (mut positive, mut negative) = (Vec::new(), Vec::new());
        for (truth, of_truth) in self.by_truth.iter_mut().enumerate() {
            let Some(scores) = of_truth.get_mut(k).map(std::mem::take) else { continue };
            let side = if truth == k { &mut positive } else { &mut negative };
            if side.is_empty() { *side = scores } else { side.extend(scores) }
        }
        positive.sort_unstable_by(f64::total_cmp);
        negative.sort_unstable_by(f64::total_cmp);
        (positive, negative)
    }
}

/// `probabilities`: one row of a number per label for each record; `truth`: places of labels. `None` for no rows.
pub fn classification(
    labels: &[String],
    probabilities: &[Vec<f64>],
    truth: &[usize],
    left_out: LeftOut,
) -> Option<ClassificationMetrics> {
    let mut scores = ClassScores::new(labels);
    probabilities.iter().zip(truth).for_each(|(p, truth)| scores.add(p, *truth));
    scores.finish(left_out)
}

/// Bins of predicted probabilities for the calibration error.
const BINS: usize = 10;

/// `predicted` and `truth` in the target's unit, `range` that of the answers. `None` for no rows.
pub fn regression(predicted: &[f64], truth: &[f64], range: (f64, f64), left_out: LeftOut) -> Option<RegressionMetrics> {
    let rows = truth.len();
    if rows == 0 {
        return None;
    }
    let n = rows as f64;
    // divided first: a sum of large numbers is not finite
    let mean = truth.iter().map(|y| y / n).sum::<f64>();
    let rmse = |of: &dyn Fn(usize) -> f64| (0..rows).map(|i| (of(i) - truth[i]).powi(2)).sum::<f64>() / n;
    let mae = |of: &dyn Fn(usize) -> f64| (0..rows).map(|i| (of(i) - truth[i]).abs() / n).sum::<f64>();
    let (squares, spread) = (rmse(&|i| predicted[i]), rmse(&|_| mean));
    Some(RegressionMetrics {
        rows,
        left_out,
        rmse: squares.sqrt(),
        rmse_of_mean: spread.sqrt(),
        mae: mae(&|i| predicted[i]),
        mae_of_mean: mae(&|_| mean),
        r_squared: (spread > 0.0).then(|| 1.0 - squares / spread),
        deviance: None,
        intervals: None,
        pinball: None,
        range,
        below_range: truth.iter().filter(|y| **y < range.0).count(),
        above_range: truth.iter().filter(|y| **y > range.1).count(),
    })
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

/// How many scores at the end of either list, in increasing order, are the highest of all.
fn highest(positive: &[f64], negative: &[f64]) -> (usize, usize) {
    let last = |scores: &[f64]| scores.last().copied();
    let Some(highest) = last(positive).into_iter().chain(last(negative)).max_by(f64::total_cmp) else { return (0, 0) };
    let equal = |scores: &[f64]| {
        let is_equal = |score: &&f64| **score == highest || score.total_cmp(&highest).is_eq();
        scores.iter().rev().take_while(is_equal).count()
    };
    (equal(positive), equal(negative))
}

/// Σ over the distinct scores, the highest first, of the rise in recall times the precision there. Scores are in increasing order.
fn average_precision(mut positive: &[f64], mut negative: &[f64]) -> Option<f64> {
    let all = positive.len();
    let (mut seen, mut found, mut sum) = (0usize, 0usize, 0.0);
    while !positive.is_empty() {
        let (up, down) = highest(positive, negative);
        seen += up + down;
        found += up;
        sum += up as f64 * found as f64 / seen as f64;
        (positive, negative) = (&positive[..positive.len() - up], &negative[..negative.len() - down]);
    }
    (all > 0).then(|| sum / all as f64)
}

/// Mann–Whitney statistic by ranks, ties counted half. Scores are in increasing order.
fn area_under_curve(mut positive: &[f64], mut negative: &[f64]) -> Option<f64> {
    let (positives, negatives) = (positive.len() as f64, negative.len() as f64);
    let mut wins = 0.0;
    while !positive.is_empty() {
        let (up, down) = highest(positive, negative);
        (positive, negative) = (&positive[..positive.len() - up], &negative[..negative.len() - down]);
        wins += up as f64 * (negative.len() as f64 + 0.5 * down as f64);
    }
    (positives > 0.0 && negatives > 0.0).then(|| wins / (positives * negatives))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn two(p: f64) -> Vec<f64> {
        vec![1.0 - p, p]
    }

    fn of_two(probabilities: &[Vec<f64>], truth: &[usize]) -> Option<ClassificationMetrics> {
        classification(&["no".into(), "yes".into()], probabilities, truth, LeftOut::default())
    }

    #[test]
    fn small_example_by_hand() {
        let p = [two(0.9), two(0.4), two(0.4), two(0.1)];
        let m = of_two(&p, &[1, 1, 0, 0]).unwrap();
        assert_eq!((m.rows, m.accuracy, m.majority), (4, 0.75, 0.5));
        // pairs (positive, negative): .9>.4, .9>.1, .4=.4 half, .4>.1
        assert_eq!(m.auc, Some(3.5 / 4.0));
        let expected = -(0.9f64.ln() + 0.4f64.ln() + 0.6f64.ln() + 0.9f64.ln()) / 4.0;
        assert!((m.log_loss - expected).abs() < 1e-15);
        assert!((m.log_loss_of_base_rate - 2f64.ln()).abs() < 1e-15);
        // the bin of .4 has one of each, and .9 and .1 are alone in theirs
        assert!((m.calibration_error - (0.1 + 0.2 + 0.1) / 4.0).abs() < 1e-15);
        assert_eq!(m.confusion, [[2, 0], [1, 1]]);
        let yes = &m.classes[1];
        assert_eq!((yes.rows, yes.predicted, yes.recall, yes.precision), (2, 1, Some(0.5), Some(1.0)));
        // the first of two at precision 1, the second with a tie behind it at 2/3
        assert_eq!(yes.average_precision, Some((1.0 + 2.0 / 3.0) / 2.0));
        assert_eq!(of_two(&[], &[]), None);
    }

    #[test]
    fn a_class_that_never_occurs_and_one_that_is_never_predicted() {
        let m = of_two(&[two(0.9), two(0.8)], &[1, 1]).unwrap();
        assert_eq!((m.auc, m.log_loss_of_base_rate), (None, 0.0));
        assert!(m.log_loss_of_base_rate.is_sign_positive());
        let no = &m.classes[0];
        assert_eq!((no.rows, no.recall, no.precision, no.average_precision), (0, None, None, None));
    }

    #[test]
    fn of_several_classes_the_most_probable_is_held_to_what_it_claims() {
        let labels = ["a", "b", "c"].map(String::from);
        let p = [vec![0.5, 0.3, 0.2], vec![0.1, 0.55, 0.35], vec![1.0, 0.0, 0.0]];
        let m = classification(&labels, &p, &[0, 0, 0], LeftOut::default()).unwrap();
        assert!((m.calibration_error - (0.05 / 3.0)).abs() < 1e-15, "{}", m.calibration_error);
    }

    #[test]
    fn a_certain_mistake_is_finite() {
        assert!(of_two(&[two(1.0)], &[0]).unwrap().log_loss.is_finite());
    }

    #[test]
    fn regression_by_hand() {
        let of = |predicted: &[f64], truth: &[f64]| regression(predicted, truth, (0.0, 3.0), LeftOut::default());
        let m = of(&[1.0, 2.0], &[2.0, 4.0]).unwrap();
        assert_eq!((m.mae, m.rmse, m.r_squared), (1.5, 2.5f64.sqrt(), Some(1.0 - 5.0 / 2.0)));
        assert_eq!((m.mae_of_mean, m.rmse_of_mean, m.below_range, m.above_range), (1.0, 1.0, 0, 1));
        assert_eq!(of(&[1.0], &[1.0]).unwrap().r_squared, None);
        assert_eq!(of(&[], &[]), None);
    }

    #[test]
    fn intervals_by_hand() {
        let held = Held::of(0.9, &[(0.0, 2.0), (1.0, 2.0), (-1.0, 0.0)], &[2.0, 3.0, -1.0]);
        assert_eq!((held.level, held.coverage, held.mean_width), (0.9, 2.0 / 3.0, Some(4.0 / 3.0)));
        assert_eq!(Held::of(0.9, &[(0.0, f64::INFINITY)], &[2.0]).mean_width, None);
    }

    #[test]
    fn deviance_by_hand() {
        let d = Deviance::new(&[1.0, 2.0], &[0.0, 4.0]).unwrap();
        let (own, constant) = ((1.0 + 4.0 * 2f64.ln() - 2.0), (2.0 + 4.0 * 2f64.ln() - 2.0));
        assert!((d.mean - own).abs() < 1e-12 && (d.of_mean - constant).abs() < 1e-12, "{d:?}");
        assert!((d.d_squared.unwrap() - (1.0 - own / constant)).abs() < 1e-12);
        assert_eq!(Deviance::new(&[2.0, 2.0], &[3.0, 3.0]).unwrap().d_squared, None);
        assert_eq!(Deviance::new(&[2.0], &[-1.0]), None);
        assert_eq!(Deviance::new(&[], &[]), None);
    }

    #[test]
    fn pinball_by_hand() {
        let p = Pinball::new(0.25, &[1.0, 1.0, 1.0, 1.0], &[0.0, 4.0, 1.0, 3.0]).unwrap();
        // .75 for the one below, .75 and .5 for those above
        assert!((p.mean - 0.5).abs() < 1e-12 && p.share_below == 0.5, "{p:?}");
        // the quarter quantile of 0, 1, 3, 4 is 0: .25 · 8 / 4
        assert!((p.of_constant - 0.5).abs() < 1e-12 && p.d_squared.unwrap().abs() < 1e-12);
        assert_eq!(Pinball::new(0.5, &[2.0, 2.0], &[3.0, 3.0]).unwrap().d_squared, None);
        assert_eq!(Pinball::new(0.5, &[], &[]), None);
    }

    /// Average precision of one class by its definition, from the scores of all rows.
    fn plain_average_precision(scores: &[f64], is_positive: &[bool]) -> Option<f64> {
        let mut order: Vec<usize> = (0..scores.len()).collect();
        order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
        let (mut seen, mut positives, mut sum) = (0usize, 0usize, 0.0);
        for tied in order.chunk_by(|&a, &b| scores[a] == scores[b]) {
            let found = tied.iter().filter(|&&i| is_positive[i]).count();
            seen += tied.len();
            positives += found;
            sum += found as f64 * positives as f64 / seen as f64;
        }
        (positives > 0).then(|| sum / positives as f64)
    }

    proptest! {
        /// Whether the first of two classes has the rest of the second's probability, in all rows, some or none, or there are three.
        #[test]
        fn average_precision_is_that_of_all_rows_sorted(
            rows in prop::collection::vec((prop::sample::select(vec![0.0f64, 1e-20, 3e-20, 0.25, 0.3, 0.7, 1.0]), 0usize..3), 1..40),
            k in 2usize..4, others in 0usize..40,
        ) {
            let labels: Vec<String> = (0..k).map(|k| k.to_string()).collect();
            let claimed = |i: usize, p: f64| match k {
                2 if i >= others => vec![(1.0 - p) * 0.75, p],
                2 => two(p),
                _ => vec![0.5 * p, 1.0 - p, 0.5 * p],
            };
            let p: Vec<Vec<f64>> = rows.iter().enumerate().map(|(i, row)| claimed(i, row.0)).collect();
            let truth: Vec<usize> = rows.iter().map(|row| row.1 % k).collect();
            let m = classification(&labels, &p, &truth, LeftOut::default()).unwrap();
            for class in 0..k {
                let scores: Vec<f64> = p.iter().map(|p| p[class]).collect();
                let positive: Vec<bool> = truth.iter().map(|y| *y == class).collect();
                prop_assert_eq!(m.classes[class].average_precision, plain_average_precision(&scores, &positive));
            }
        }

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
            let of = |class: usize| {
                let mut own: Vec<f64> = rows.iter().filter(|r| r.1 == class).map(|r| f64::from(r.0)).collect();
                own.sort_by(f64::total_cmp);
                own
            };
            let got = area_under_curve(&of(1), &of(0));
            prop_assert_eq!(got.is_some(), expected.is_some());
            if let (Some(a), Some(b)) = (got, expected) {
                prop_assert!((a - b).abs() < 1e-12);
            }
        }
    }
}
