//! The certified minimiser of remote records, which answer with sums only: the same promise as [`minimise`](super::minimise), in few
//! passes (docs/proofs/solver.md).
//!
//! Every pass asks for gradient and curvature at a point, exact to the public grid, so that each step of Newton's method is one pass and
//! each may end with the certificate. How many passes it took shows in an engine's logs; so there are 32 of them, or if that is
//! not enough 64, 128, …, whatever the step at which the certificate was there.

use super::accuracy::Accuracy;
use super::dense::Factor;
use super::integer_sums::{IntegerSums, MAX_CURVED_WEIGHTS};
use super::sums::{Ridge, Split, dot, norm, with_ridge};
use super::{Minimiser, accelerated, negative};

/// Passes that a minimiser makes, unless records resist.
pub const USUAL_PASSES: u64 = 32;

/// Passes of Newton's method, before the descent.
const NEWTON_PASSES: u64 = 128;

/// J(θ) = Σφ + (λ/2)‖θ‖² + b·θ over remote records.
#[derive(Clone, Copy)]
pub struct AskedSum<'a> {
    /// How Σφ is summed in integers.
    pub sums: IntegerSums,
    /// λ of the sum objective.
    pub regularization: f64,
    /// b, one entry for each weight.
    pub linear: &'a [f64],
}

/// Minimises to certified gradient norm at most τ, if `accuracy` was made for these facts and the grid of the sums. `ask` gives the integers of
/// all records at a point.
///
/// # Errors
/// As `ask`.
pub fn minimise_by_sums<E>(
    objective: &AskedSum<'_>,
    accuracy: Accuracy,
    ask: impl FnMut(&IntegerSums, &Split) -> Result<Vec<i64>, E>,
) -> Result<Minimiser, E> {
    let mut passes = Passes { objective, ask, made: 0 };
    let near = newton(&mut passes, accuracy.tolerance)?;
    if near.certified_norm <= accuracy.tolerance {
        return passes.ended(near, objective.sums);
    }
    let facts = objective.sums;
    let flat = facts.flat();
    let smoothness =
        facts.most_rows() as f64 * facts.row_norm().powi(2) * facts.loss().facts().smoothness.unwrap_or(1.0)
            + objective.regularization;
    let zero = Split::zero(facts.weights());
    let (theta, certified_norm) = accelerated(zero, (smoothness, objective.regularization), accuracy, |theta| {
        let there = passes.at(theta.clone(), flat)?;
        Ok((there.gradient, there.certified_norm))
    })?;
    passes.ended(There { theta, gradient: Vec::new(), certified_norm, sums: Vec::new() }, flat)
}

/// A point that was asked about.
struct There {
    theta: Split,
    gradient: Vec<f64>,
    /// Certified upper bound on the norm of the gradient.
    certified_norm: f64,
    sums: Vec<i64>,
}

/// Passes over the records, counted.
struct Passes<'a, F> {
    objective: &'a AskedSum<'a>,
    ask: F,
    made: u64,
}

impl<E, F: FnMut(&IntegerSums, &Split) -> Result<Vec<i64>, E>> Passes<'_, F> {
    fn at(&mut self, theta: Split, asked: IntegerSums) -> Result<There, E> {
        let AskedSum { regularization, linear, .. } = *self.objective;
        let sums = (self.ask)(&asked, &theta)?;
        self.made += 1;
        let gradient = with_ridge(&asked.gradient(&sums), &theta, regularization, linear);
        let ridge = Ridge { loss: asked.loss(), row_norm: asked.row_norm(), regularization, linear };
        let certified_norm = ridge.certified_norm(&gradient, asked.most_rows() as f64, &theta) + asked.grid_error();
        Ok(There { theta, gradient, certified_norm, sums })
    }

    /// Asks on at the last point, as if there were more to find out, until as many passes are made as are made of every table that takes about
    /// as many.
    fn ended(mut self, last: There, asked: IntegerSums) -> Result<Minimiser, E> {
        let until = self.made.next_power_of_two().max(USUAL_PASSES);
        for _ in self.made..until {
            (self.ask)(&asked, &last.theta)?;
        }
        Ok(Minimiser { theta: last.theta, certified_norm: last.certified_norm })
    }
}

/// Newton's method with backtracking on the gradient, until a point carries the certificate, no step helps or the passes are made.
fn newton<E, F: FnMut(&IntegerSums, &Split) -> Result<Vec<i64>, E>>(
    passes: &mut Passes<'_, F>,
    tolerance: f64,
) -> Result<There, E> {
    let objective = passes.objective;
    let sums = objective.sums;
    let mut here = passes.at(Split::zero(sums.weights()), sums)?;
    // how far a step is tried: further where the last one left much of the slope, as it does in the tails of losses, where a whole step
    // divides it by e
    let mut reach = 1.0;
    while here.certified_norm > tolerance {
        let Some(direction) = direction(objective, &here) else { break };
        let (old, slope) = (norm(&here.gradient), dot(&here.gradient, &direction));
        let mut step = reach;
        // as in one process: until the gradient shrinks, or the objective has decreased by convexity
        let next = loop {
            if passes.made >= NEWTON_PASSES {
                return Ok(here);
            }
            let next = passes.at(here.theta.moved(step, &direction), sums)?;
            let along = dot(&next.gradient, &direction);
            if norm(&next.gradient) <= (1.0 - 1e-4 * step) * old || (along <= 0.0 && along > slope) {
                reach = if step >= reach && along < 0.25 * slope { (2.0 * step).min(16.0) } else { 1.0 };
                break next;
            }
            step *= (slope / (slope - along)).clamp(0.1, 0.5);
        };
        here = next;
    }
    Ok(here)
}

/// The Newton direction −(∇²J)⁻¹∇J.
fn direction(objective: &AskedSum<'_>, here: &There) -> Option<Vec<f64>> {
    let w = objective.sums.weights();
    if w > MAX_CURVED_WEIGHTS {
        return None;
    }
    let mut matrix = objective.sums.hessian(&here.sums);
    // a matrix that rounding to the grid left without a factor gets what it may lack
    [objective.regularization, objective.sums.curvature_error()].into_iter().find_map(|more| {
        (0..w).for_each(|j| matrix[j * w + j] += more);
        let direction = Factor::of(&matrix, w)?.solve(&negative(&here.gradient));
        direction.iter().all(|x| x.is_finite()).then_some(direction)
    })
}
