//! From scores to probabilities and values: post-processing of released weights.

use dpopt_objective::loss::{Loss, softplus};

/// Probability of the second class at a released margin `score`.
///
/// The shifted loss softplus(m0 - y·s) is a conditional log loss up to normalisation: p = σ(m0+s)/(σ(m0+s)+σ(m0-s)).
/// Losses without a probability model (hinge) give (1+s)/2 cut to [0, 1]: the right order, not calibrated.
pub fn of_margin(loss: &Loss, score: f64) -> f64 {
    match *loss {
        // ln σ(a) = -softplus(-a); the ratio of two σ as one logistic function never divides 0 by 0
        Loss::Logistic { shift } => dpopt_objective::loss::sigmoid(softplus(score - shift) - softplus(-score - shift)),
        // σ(−ys) estimates the chance of an error, not of a class: its scores are read on the logistic scale
        Loss::Sigmoid => dpopt_objective::loss::sigmoid(score),
        _ => ((1.0 + score) / 2.0).clamp(0.0, 1.0),
    }
}

/// Replaces scores by their softmax, in place.
pub fn softmax(scores: &mut [f64]) {
    let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut sum = 0.0;
    for s in scores.iter_mut() {
        *s = (*s - top).exp();
        sum += *s;
    }
    for s in scores.iter_mut() {
        *s /= sum;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shifted_map_has_the_published_values() {
        let loss = Loss::Logistic { shift: 2.0 };
        for (t, p) in [(1.0, 0.565785), (0.5, 0.530593), (-1.0, 0.434215), (0.0, 0.5)] {
            assert!((of_margin(&loss, t) - p).abs() < 5e-7, "{t}");
        }
    }

    #[test]
    fn without_shift_it_is_the_logistic_function() {
        for t in [-40.0, -3.0, 0.0, 0.2, 40.0] {
            let p = of_margin(&Loss::Logistic { shift: 0.0 }, t);
            assert!((p - dpopt_objective::loss::sigmoid(t)).abs() < 1e-15);
        }
    }

    #[test]
    fn extreme_scores_give_probabilities() {
        for loss in [Loss::Logistic { shift: 2.0 }, Loss::Hinge, Loss::SmoothedHinge { width: 0.5 }] {
            for t in [-1e300, -800.0, 800.0, 1e300] {
                assert_eq!(of_margin(&loss, t), if t > 0.0 { 1.0 } else { 0.0 });
            }
        }
        let mut scores = [1e300, -1e300, 1e300];
        softmax(&mut scores);
        assert_eq!(scores, [0.5, 0.0, 0.5]);
    }
}
