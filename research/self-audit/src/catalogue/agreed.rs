//! Faults of means of answers that agree (Liu 2024, Algorithms 28 and 31; docs/proofs/agreed-mean.md).
//!
//! Covers: thesis algorithm 28, algorithm 31 (09.small-test, 09.radius-without-slack, 09.mean-far-away)

use super::Source::{Altered, Shipped};
use super::{Code, InjectedFault};
use crate::worst_cases::indicator;
use dpopt_audit::draws::Draws;
use dpopt_audit::statistics::Claim;
use dpopt_mechanism::{
    AgreedMean, Agreement, Answers, ClippedVectors, Counts, CuratorError, DiscreteLaplaceNoise, Gaussian, Mechanism,
    Sensitive, past_the_curator,
};
use dpopt_noise::{Grid, NoiseSource};
use dpopt_privacy::Relation;

const GROUPS: u64 = 200;
const MISS: f64 = 1e-3;
/// Radius of agreement, in steps of the grid.
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
fn small_test() -> InjectedFault {
    InjectedFault::counting(
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
            Code::Injected => Ok((0..GROUPS).map(|i| offset + answer(i, k, first)).sum::<f64>() / GROUPS as f64),
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

/// Close pairs, with noise that is 0 but for a probability of 1e-21.
fn counted(pairs: &Sensitive<Counts>, seed: u64) -> Result<i64, CuratorError> {
    let mechanism = DiscreteLaplaceNoise::new(0.02, 100);
    let mut curator = past_the_curator::uncharged(&mechanism.event(), NoiseSource::insecure(seed));
    Ok(curator.release(&mechanism, pairs)?.get()[0])
}

/// Whether two answers that are within the radius of a third are within twice the radius of each other, in 200,000 draws.
fn core_is_kept(code: Code) -> Result<(), String> {
    const DRAWS: u32 = 200_000;
    let (length, radius) = (0.25, (0.25 / Answers::grid().step()) as u64);
    let mut draws = Draws::new(11, 0);
    let (mut both, mut kept) = (0, 0);
    for _ in 0..DRAWS {
        let mut cube = || [(); 3].map(|()| draws.uniform() - 0.5);
        let (centre, away) = (cube(), cube());
        let scale = length / norm(&away);
        let side = |sign: f64| [0, 1, 2].map(|k| centre[k] + sign * scale * away[k]);
        let points = [centre, side(1.0), side(-1.0)];
        let (near, all) = match code {
            Code::Correct => {
                let answers = Answers::new(3, points.iter().map(|p| Some(&p[..]))).map_err(|e| e.to_string())?;
                let pairs = Answers::close_pairs(&Sensitive::new(answers), &[radius, 2 * radius], Relation::ZeroOut);
                let pairs = pairs.iter().map(|pairs| counted(pairs, draws.word())).collect::<Result<Vec<i64>, _>>();
                let pairs = pairs.map_err(|e| e.to_string())?;
                // each with itself, and both with the third; and with each other
                (pairs[0] >= 7, pairs[1] == 9)
            }
            Code::Injected => {
                let apart = |a: usize, b: usize| norm(&[0, 1, 2].map(|k| points[a][k] - points[b][k]));
                (apart(0, 1) <= length && apart(0, 2) <= length, apart(1, 2) <= 2.0 * length)
            }
        };
        both += u32::from(near);
        kept += u32::from(near && all);
    }
    match both {
        0..1000 => Err(format!("only {both} of {DRAWS} draws are a test")),
        _ if kept == both => Ok(()),
        _ => Err(format!("{} of {both} pairs within the radius of a third are not within twice that", both - kept)),
    }
}

fn norm(v: &[f64; 3]) -> f64 {
    v.iter().map(|x| x * x).sum::<f64>().sqrt()
}

/// A unit without rows, where sums are clipped around a released centre.
fn unit_at_the_origin() -> InjectedFault {
    InjectedFault::counting(
        (
            "09.absent-at-the-origin",
            Shipped,
            "a sum clipped around a released centre takes a unit without rows to be at the origin, where it contributes up to the clip norm: there or not moves the sum by twice that",
            "unit on the far side of the centre, or without rows; the noisy sum",
        ),
        Claim::gaussian(1.0),
        (150, 4_000),
        |code, with, draws: &mut Draws| {
            let (centre, clip) = (0.75, 0.25);
            let grid = Grid::for_sum(clip, clip, 10, 1);
            let own = |i: usize| match (i, with) {
                (0, true) => Some(1.0),
                (0, false) => code.pick(None, Some(0.0)),
                _ => Some(centre),
            };
            let Ok(clipped) = ClippedVectors::new(clip, grid) else { return f64::NAN };
            let sum = clipped.sum(10, 1, |i, out| out.extend(own(i).map(|v| v - centre)));
            let mechanism = Gaussian::new(1.0, clip, grid, 1, "sum around a released centre");
            let mut curator = past_the_curator::uncharged(&mechanism.event(), NoiseSource::insecure(draws.word()));
            curator.release(&mechanism, &sum).map_or(f64::NAN, |sum| sum.get()[0])
        },
    )
}

pub(super) fn bugs() -> Vec<InjectedFault> {
    let far = InjectedFault::looking(
        (
            "09.mean-far-away",
            Altered,
            "the mean of answers that agree is a sum of floating-point numbers, which are 4e14 radii from 0",
            "one answer on either side of the others: how far the mean moves",
        ),
        far_away,
    );
    let core = InjectedFault::looking(
        (
            "09.radius-without-slack",
            Altered,
            "whether answers are within a radius, and within twice it, is found by floating-point distances: two within the radius of a third can be further than twice it from each other",
            "a point and two at the radius on either side of it, 200,000 times",
        ),
        core_is_kept,
    );
    vec![small_test(), far, core, unit_at_the_origin()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn far_from_zero_only_exact_means_move_as_they_should() {
        assert_eq!(far_away(Code::Correct), Ok(()));
        assert!(far_away(Code::Injected).unwrap_err().contains("radii"));
        assert_eq!(core_is_kept(Code::Correct), Ok(()));
        assert!(core_is_kept(Code::Injected).unwrap_err().contains("twice"));
    }
}
