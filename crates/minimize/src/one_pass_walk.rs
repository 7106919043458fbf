//! One pass: x ← x − (1/M)·v along running sums, whose batches are as large as the way since the last one (Liu 2024, Algorithm 21).

use super::one_pass_schedule::OnePassSchedule;
use super::problem::MinimizeProblem;
use super::schedule::MinimizeSchedule;
use super::source::Source;
use super::spider_walk::{Escapes, GREW, distance, norm};
use dpopt_mechanism::progress::Progress;
use dpopt_mechanism::{Curator, Leaf, RestartedPlan};
use dpopt_noise::Grid;
use dpopt_optimize::RunError;

/// The way from `start`. It ends when the next batch would be larger than what is unread: sizes follow from released points, so that this is public.
pub(super) fn walk(
    (once, s): (&OnePassSchedule, &MinimizeSchedule),
    problem: &MinimizeProblem,
    step_size: f64,
    start: &[f64],
    (source, curator): (&mut dyn Source, &mut Curator),
    progress: &dyn Progress,
) -> Result<Vec<f64>, RunError> {
    let at = |way: &[f64]| -> Vec<f64> { start.iter().zip(way).map(|(x, w)| x + w).collect() };
    let mut escapes = Escapes::new(once.escape, curator.public_coins());
    let mut sums = curator.open(&RestartedPlan {
        records: problem.records,
        dimension: problem.dimension,
        leaves: once.leaves,
        steps: s.steps,
        clip_norm: once.leaf_clip,
        grid: Grid::new(s.grid_exponent),
        noise_multiplier: s.noise_multiplier,
        relation: problem.neighbours.relation,
    })?;
    let mut way = vec![0.0; start.len()];
    let (mut x, mut before) = (at(&way), at(&way));
    let mut path = f64::INFINITY;
    while sums.steps_left() > 0 {
        let moved = distance(&x, &before);
        let (leaf, size) = match path >= once.path || sums.leaves_left() == 0 {
            true => (Leaf::First, once.first_batch),
            false => (Leaf::Next, once.batch_after(moved)),
        };
        if size > sums.unused() {
            break;
        }
        let of_vector = if leaf == Leaf::First { s.clip_norm } else { once.difference_clip * moved };
        if leaf == Leaf::First {
            path = 0.0;
        }
        let how = (size, once.clip_of(of_vector, size));
        let estimate = source.leaf(&mut sums, leaf, how, &x, &before)?.into_inner();
        let along = escapes.along(&estimate);
        way.iter_mut().zip(&along).for_each(|(w, v)| *w -= step_size * v);
        s.domain.keep(&mut way);
        path += norm(&along);
        before = std::mem::replace(&mut x, at(&way));
        if x.iter().any(|x| !x.is_finite()) {
            return Err(GREW);
        }
        progress.tick();
    }
    Ok(way)
}
