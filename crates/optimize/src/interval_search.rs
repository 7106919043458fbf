//! The width of prediction intervals: a binary search by noisy sums over all records, at the released weights, of which rows an interval would hold
//! (docs/proofs/prediction-intervals.md).

use crate::RunResult;
use crate::algorithm::{Run, RunError, Solution};
use crate::intervals::Intervals;
use crate::oracle::NoisySum;
use crate::plan::{NotApplicable, Problem};
use crate::planning::sum_grid;
use dpopt_mechanism::{Gaussian, Released};
use dpopt_noise::Grid;
use dpopt_objective::objective::{Coverage, Interval, OfRows};

/// What the sums are called among releases.
pub const LABEL: &str = "prediction intervals";

fn grid(problem: &Problem, intervals: &Intervals) -> Result<Grid, NotApplicable> {
    let clip = intervals.clip_norm();
    sum_grid(clip, problem.intervals_noise(intervals) * clip, problem.rows, problem.weights())
}

/// Refuses what could not be drawn.
pub fn can_find_width(problem: &Problem) -> Result<(), NotApplicable> {
    problem.intervals.as_ref().map_or(Ok(()), |intervals| grid(problem, intervals).map(drop))
}

/// The released solution of a method, with the width of its prediction intervals if they are asked for.
pub fn find_width<R: OfRows + 'static>(solution: Released<Solution>, run: Run<'_, R>) -> RunResult {
    let Run { problem, examples, curator, .. } = run;
    let Some(intervals) = &problem.intervals else { return Ok(solution) };
    let grid = grid(problem, intervals)
        .map_err(|_| RunError::Numerical("the sums for prediction intervals cannot be drawn"))?;
    let (noise, clip, margin) =
        (problem.intervals_noise(intervals), intervals.clip_norm(), intervals.margin(problem.sensitivity()));
    let solution = solution.into_inner();
    let interval = |half_width| Interval { half_width, level: intervals.level(), ends: intervals.declared() };
    // the widest holds without a question, and none holds all but one narrower than the narrowest
    let (mut holds, mut below) = (Intervals::widest(), 0);
    for _ in 0..Intervals::ROUNDS {
        let at = below + (holds - below) / 2;
        let Some(sums) = Coverage::new(problem.objective(), interval(Intervals::half_width(at))) else {
            return Err(RunError::Numerical("this loss has no prediction intervals"));
        };
        let gaussian = Gaussian::new(noise, clip, grid, problem.weights(), LABEL);
        let sum = NoisySum::new(R::over(sums), gaussian)?.release(examples, curator, &solution.weights)?;
        match sum.get().first() {
            Some(sum) if *sum >= margin => holds = at,
            _ => below = (at + 1).min(holds),
        }
    }
    let half_width = match holds == Intervals::widest() {
        true if !intervals.declared() => f64::INFINITY,
        _ => Intervals::half_width(holds),
    };
    Ok(curator.postprocess(Solution { interval: Some(interval(half_width)), ..solution }))
}
