//! Worst pairs of above-threshold: counts around a threshold of 0 that the record moves by 1 (docs/proofs/above-threshold.md).

use dpopt_audit::draws::Draws;
use dpopt_mechanism::{AboveThreshold, Counts, CuratorError, Interactive, past_the_curator};
use dpopt_noise::NoiseSource;
use dpopt_privacy::{Event, Relation};

/// ε = 1, one answer "above".
pub(crate) fn plan(monotone: bool) -> Result<AboveThreshold, CuratorError> {
    AboveThreshold::new(1.0, 1, 1, monotone, Relation::ZeroOut)
}

/// Answers of the shipped stream to `queries`, until it ends; empty if it is refused.
pub(crate) fn answers(plan: &AboveThreshold, queries: &[i64], draws: &mut Draws) -> Vec<bool> {
    let mut curator = past_the_curator::uncharged(&plan.event(), NoiseSource::insecure(draws.word()));
    let Ok(mut stream) = curator.open(plan) else { return Vec::new() };
    queries.iter().map_while(|&q| stream.is_above(&Counts::declared(vec![q], 1.0), 0).ok().map(|a| *a.get())).collect()
}

/// Answers to `queries` by a stream of its own for each, until the first is above: the threshold's noise is drawn again for each.
pub(crate) fn redrawn(plan: &AboveThreshold, queries: &[i64], draws: &mut Draws) -> Vec<bool> {
    let event = Event::composed(vec![plan.event(); queries.len()]);
    let mut curator = past_the_curator::uncharged(&event, NoiseSource::insecure(draws.word()));
    let mut all = Vec::with_capacity(queries.len());
    for &q in queries {
        let Ok(mut stream) = curator.open(plan) else { return all };
        let Ok(above) = stream.is_above(&Counts::declared(vec![q], 1.0), 0) else { return all };
        all.push(*above.get());
        if *above.get() {
            break;
        }
    }
    all
}

/// `low` queries that the record moves down, then one that it moves up: all below, then above, is where the loss is largest.
pub(crate) fn then_one_above(with: bool, low: usize, height: i64) -> Vec<i64> {
    let moved = i64::from(with);
    let mut queries = vec![-moved; low];
    queries.push(height - 1 + moved);
    queries
}

/// Whether only the last of `n` answers is "above".
pub(crate) fn only_the_last(answers: &[bool], n: usize) -> bool {
    answers.len() == n && answers.iter().enumerate().all(|(i, &above)| above == (i + 1 == n))
}

/// ln of the ratio of the probabilities of that event on the pair of [`then_one_above`], by the trapezoid rule.
pub(crate) fn then_one_above_loss(plan: &AboveThreshold, low: usize, height: i64) -> f64 {
    let (b1, b2) = (plan.threshold_scale(), plan.query_scale());
    // P(q + ν < z)
    let below = |z: f64| if z < 0.0 { 0.5 * (z / b2).exp() } else { 1.0 - 0.5 * (-z / b2).exp() };
    let probability = |with: bool| -> f64 {
        let queries = then_one_above(with, low, height);
        let (rest, last) = (queries[0] as f64, queries[low] as f64);
        let step = 1e-3;
        (-80_000..=80_000)
            .map(|i| step * f64::from(i))
            .map(|z| (-z.abs() / b1).exp() * below(z - rest).powi(low as i32) * (1.0 - below(z - last)))
            .sum()
    };
    (probability(true) / probability(false)).ln()
}
