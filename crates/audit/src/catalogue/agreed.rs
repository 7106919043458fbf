//! Bugs of means of answers that agree (spec 09 §9.1, §9.4b; docs/proofs/agreed-mean.md).

use super::Source::{Altered, Shipped};
use super::{Code, PlantedBug};
use crate::draws::Draws;
use crate::statistics::Claim;
use crate::worst_cases::indicator;
use dpopt_mechanism::{AgreedMean, Agreement, Answers, CuratorError, Mechanism, Sensitive, past_the_curator};
use dpopt_noise::NoiseSource;
use dpopt_privacy::Relation;

const GROUPS: u64 = 200;
const MISS: f64 = 1e-3;
/// In steps.
const RADIUS: u64 = 1 << 30;

fn at(steps: f64) -> Option<Vec<f64>> {
    Some(vec![steps * Answers::grid().step()])
}

/// What a mean of `answers` with noise multiplier `z` lets out.
fn released(
    test_epsilon: f64,
    z: f64,
    answers: &[Option<Vec<f64>>],
    seed: u64,
) -> Result<Option<Vec<f64>>, CuratorError> {
    let agreement = Agreement::of(GROUPS, test_epsilon, MISS, 0.0).ok_or(CuratorError::Shape)?;
    let mechanism = AgreedMean::new(agreement, test_epsilon, RADIUS, 1, z, Relation::ZeroOut)?;
    let answers = Sensitive::new(Answers::new(1, answers.iter().map(Option::as_deref))?);
    let mut curator = past_the_curator::uncharged(&mechanism.event(), NoiseSource::insecure(seed));
    Ok(curator.release(&mechanism, &answers)?.into_inner())
}

/// Close pairs move by nearly twice as many as there are groups.
fn small_test() -> PlantedBug {
    PlantedBug::counting(
        (
            "09.small-test",
            Shipped,
            "whether answers agree, with noise for pairs that move by the number of groups: they move by twice that",
            "about as many answers together as it takes, one more or less; 1{there is a mean}",
        ),
        Claim::ApproxDp { epsilon: 0.5, delta: MISS * (1.0 + 0.5f64.exp()) },
        (1500, 150_000),
        |code, with, draws: &mut Draws| {
            let test_epsilon = code.pick(0.5, 1.0);
            let Some(agreement) = Agreement::of(GROUPS, test_epsilon, MISS, 0.0) else { return f64::NAN };
            let together = (agreement.threshold as f64).sqrt() as u64 - u64::from(!with);
            // the others are far from all
            let answer = |i: u64| at(if i < together { 0.0 } else { 4.0 * (i + 1) as f64 * RADIUS as f64 });
            let answers: Vec<_> = (0..GROUPS).map(answer).collect();
            released(test_epsilon, 1e3, &answers, draws.word()).map_or(f64::NAN, |mean| indicator(mean.is_some()))
        },
    )
}

/// How far the mean moves with one answer, over what noise is made for, where answers lie far from 0.
fn far_away(code: Code) -> Result<(), String> {
    let agreement = Agreement::of(GROUPS, 1.0, MISS, 0.0).ok_or("too few groups")?;
    let moved = agreement.moved_mean();
    let offset = code.pick(1024.0, 4e14);
    // irregular within the radius; the first on one side or the other
    let answer = |i: u64, k: u64, first: f64| {
        if i == 0 { first } else { ((i * 7919 + k * 104_729) % 1000) as f64 / 1000.0 - 0.5 }
    };
    let mean = |k: u64, first: f64| -> Result<f64, String> {
        match code {
            Code::Correct => {
                let answers: Vec<_> = (0..GROUPS).map(|i| at((offset + answer(i, k, first)) * RADIUS as f64)).collect();
                let mean = released(1.0, 1e-6, &answers, 7).map_err(|e| e.to_string())?;
                Ok(mean.ok_or("no mean")?[0] / Answers::grid().step() / RADIUS as f64)
            }
            // all weights are 1
            Code::Planted => Ok((0..GROUPS).map(|i| offset + answer(i, k, first)).sum::<f64>() / GROUPS as f64),
        }
    };
    let worst =
        (0..400).try_fold(0f64, |worst, k| Ok::<f64, String>(worst.max((mean(k, 0.5)? - mean(k, -0.5)?).abs())))?;
    if worst <= moved {
        Ok(())
    } else {
        Err(format!("the mean moves by {worst} radii where noise is made for {moved:.3}"))
    }
}

pub(super) fn bugs() -> Vec<PlantedBug> {
    let far = PlantedBug::looking(
        (
            "09.mean-far-away",
            Altered,
            "the mean of answers that agree is a sum of floating-point numbers, which are 4e14 radii from 0",
            "one answer on either side of the others: how far the mean moves",
        ),
        far_away,
    );
    vec![small_test(), far]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn far_from_zero_only_exact_means_move_as_they_should() {
        assert_eq!(far_away(Code::Correct), Ok(()));
        assert!(far_away(Code::Planted).unwrap_err().contains("radii"));
    }
}
