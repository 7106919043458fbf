//! Certified minimisation of a regularised convex sum: the numerical core of output and objective perturbation
//! (docs/proofs/solver.md).
//!
//! Newton's method with backtracking on the gradient: a dense Cholesky factor (reused while it contracts well) when
//! there are few weights, conjugate gradients on the sparse rows otherwise (preconditioned by a factor of some rows' curvature, where that pays); from a start on an eighth of the rows, with
//! plain gradients until they are small enough to be worth a proof. If 100 steps do not certify ‖∇J‖ ≤ τ,
//! accelerated gradient descent does, within a number of steps that is public and proved for every data set, rounding
//! included ([`Scale::accuracy`], docs/proofs/solver.md). It never loosens τ; iteration counts stay inside.

mod accuracy;
mod by_sums;
mod clipped_pass;
mod dense;
mod double;
mod integer_sums;
mod pass;
mod preconditioner;
mod spectrum;
mod sums;

#[cfg(test)]
mod by_sums_tests;
#[cfg(test)]
mod tests;

pub use accuracy::{Accuracy, NoPromise, Scale};
pub use by_sums::{AskedSum, USUAL_PASSES, minimise_by_sums};
pub use clipped_pass::{ClippedPass, Walked};
pub use dense::Factor;
pub use integer_sums::{IntegerSums, MAX_CURVED_WEIGHTS};
pub use pass::Pass;
pub use spectrum::{Spectrum, decomposition_error};
pub use sums::{Evaluation, RegularizedSum, Split, UNIT, dot, majorising_curvature, norm, plain_add, plain_dot};

use dpopt_process::stop;
use preconditioner::Preconditioner;
use std::convert::Infallible;
use sums::Curvature;

/// A minimiser with its certificate.
pub struct Minimiser {
    /// θ with ‖∇J(θ)‖ ≤ τ, proved.
    pub theta: Split,
    /// The proved bound, at most τ. Depends on records: must not leave.
    pub certified_norm: f64,
}

/// Dense factorisation pays off up to this many weights …
const DENSE_WEIGHTS: usize = 512;
/// … and up to this many non-zeros per row: a dense Hessian costs nonzeros²/2 per record, a product 2·nonzeros.
const DENSE_NONZEROS: usize = 160;

/// Minimises `objective` to certified gradient norm at most τ, if `accuracy` was made for these facts.
///
/// Columns without an entry are solved in closed form, θ_j = −b_j/λ; only the rest is left to iterate on.
pub fn minimise(objective: &RegularizedSum<'_>, accuracy: Accuracy) -> Minimiser {
    let (d, k) = (objective.rows.columns(), objective.loss.outputs());
    let (rows, used) = objective.rows.without_empty_columns();
    if used.len() == d {
        return iterate(objective, accuracy);
    }
    let linear: Vec<f64> =
        (0..k).flat_map(|out| used.iter().map(move |&j| objective.linear[out * d + j as usize])).collect();
    let lambda = objective.regularization;
    let mut theta = Split::zero(d * k).moved(-1.0 / lambda, objective.linear);
    // one correction by the exact residual: |λθ_j + b_j| falls from about 2^-52|b_j| to below 2^-75|b_j|
    let residual = theta.ridge_residual(lambda, objective.linear);
    theta = theta.moved(-1.0 / lambda, &residual);
    let closed_form_error = 2f64.powi(-75) * norm(objective.linear);
    // τ is at least thirty times the rounding bound, hence fifteen times this error
    let left = Accuracy { tolerance: accuracy.tolerance - closed_form_error, ..accuracy };
    let part = iterate(&RegularizedSum { rows: &rows, linear: &linear, ..*objective }, left);
    for out in 0..k {
        for (new, &old) in used.iter().enumerate() {
            theta.copy_entry(out * d + old as usize, &part.theta, out * used.len() + new);
        }
    }
    Minimiser { theta, certified_norm: part.certified_norm + closed_form_error }
}

/// A start on every eighth row pays off from this many rows on.
const ROWS_FOR_A_START: usize = 8 * 512;

/// The minimiser for every eighth row, with λ and b shrunk alike: as far from the answer as an eighth of the data can
/// tell, at an eighth of the cost. Any start is valid, because only the certificate at the end counts.
fn start(objective: &RegularizedSum<'_>) -> Split {
    let n = objective.rows.len();
    if n < ROWS_FOR_A_START.max(8 * objective.weights()) {
        return Split::zero(objective.weights());
    }
    let positions: Vec<usize> = (0..n).step_by(8).collect();
    let rows = objective.rows.select(&positions);
    let targets: Vec<f32> = positions.iter().map(|&i| objective.targets[i]).collect();
    let share = positions.len() as f64 / n as f64;
    let linear: Vec<f64> = objective.linear.iter().map(|b| share * b).collect();
    let part = RegularizedSum {
        rows: &rows,
        targets: &targets,
        linear: &linear,
        regularization: share * objective.regularization,
        ..*objective
    };
    // a tenth of what the choice of the rows does to the gradient
    let enough = 0.1 * (positions.len() as f64).sqrt() * objective.row_norm * objective.slope_bound();
    let mut search = Search::new(&part, Split::zero(objective.weights()));
    for _ in 0..20 {
        if norm(&search.here.gradient) <= enough || !search.step() {
            break;
        }
    }
    search.theta
}

fn iterate(objective: &RegularizedSum<'_>, accuracy: Accuracy) -> Minimiser {
    let tau = accuracy.tolerance;
    let mut search = Search::new(objective, start(objective));
    for _ in 0..100 {
        // the rounding error of a plain gradient is far below τ in all but contrived cases; the proof needs more digits
        if !search.exact && norm(&search.here.gradient) <= 0.5 * tau {
            search.be_exact();
        }
        if search.exact && search.here.certified_norm <= tau {
            return Minimiser { theta: search.theta, certified_norm: search.here.certified_norm };
        }
        if !search.step() {
            if search.exact {
                break;
            }
            search.be_exact();
        }
    }
    descend(objective, accuracy)
}

/// Newton's method at its current point.
struct Search<'a> {
    objective: &'a RegularizedSum<'a>,
    theta: Split,
    here: Evaluation,
    /// Whether gradients are summed to almost twice working precision.
    exact: bool,
    factor: Option<Factor>,
    /// Made for another point, mostly; `None` where it would not pay, or not yet.
    preconditioner: Option<Preconditioner>,
}

impl<'a> Search<'a> {
    fn new(objective: &'a RegularizedSum<'a>, theta: Split) -> Self {
        let here = objective.evaluate_plainly(&theta);
        Self { objective, theta, here, exact: false, factor: None, preconditioner: None }
    }

    fn be_exact(&mut self) {
        self.exact = true;
        self.here = self.objective.evaluate(&self.theta);
    }

    /// One Newton step with backtracking; false if no step along a fresh direction helps.
    fn step(&mut self) -> bool {
        loop {
            let old = norm(&self.here.gradient);
            let (direction, fresh) =
                newton_direction(self.objective, &self.here, &mut self.factor, &mut self.preconditioner);
            match self.backtrack(&direction) {
                Some((theta, here)) => {
                    if norm(&here.gradient) > 0.15 * old {
                        self.factor = None; // a new Hessian costs about five gradients: keep it while it contracts well
                    }
                    (self.theta, self.here) = (theta, here);
                    return true;
                }
                None if !fresh => self.factor = None,
                None => return false,
            }
        }
    }

    /// Halves (or interpolates) until the gradient shrinks or the slope along the direction is still negative; by
    /// convexity the objective has then decreased.
    fn backtrack(&self, direction: &[f64]) -> Option<(Split, Evaluation)> {
        let old = norm(&self.here.gradient);
        let slope = dot(&self.here.gradient, direction);
        let mut t = 1.0;
        for _ in 0..30 {
            let trial = self.theta.moved(t, direction);
            let next = match self.exact {
                true => self.objective.evaluate(&trial),
                false => self.objective.evaluate_plainly(&trial),
            };
            let along = dot(&next.gradient, direction);
            if norm(&next.gradient) <= (1.0 - 1e-4 * t) * old || (along <= 0.0 && along > slope) {
                return Some((trial, next));
            }
            // the slope along the line is increasing: its zero by regula falsi, kept inside [t/10, t/2]
            t *= (slope / (slope - along)).clamp(0.1, 0.5);
        }
        None
    }
}

/// Nesterov's accelerated descent from 0: ‖∇J‖ ≤ τ is certified within `accuracy.steps` steps for every data set.
fn descend(objective: &RegularizedSum<'_>, accuracy: Accuracy) -> Minimiser {
    let facts = objective.loss.facts();
    let (n, r, lambda) = (objective.rows.len() as f64, objective.row_norm, objective.regularization);
    let smoothness = n * r * r * facts.smoothness.unwrap_or(1.0) + lambda;
    let start = Split::zero(objective.weights());
    let Ok((theta, certified_norm)) = accelerated(start, (smoothness, lambda), accuracy, |theta| {
        let here = objective.evaluate(theta);
        Ok::<_, Infallible>((here.gradient, here.certified_norm))
    });
    Minimiser { theta, certified_norm }
}

/// Accelerated descent for half the convexity and twice the smoothness, which is what makes errors of the gradient add up to little.
/// `evaluate` gives the gradient at a point and a bound on its norm.
fn accelerated<E>(
    start: Split,
    (smoothness, lambda): (f64, f64),
    accuracy: Accuracy,
    mut evaluate: impl FnMut(&Split) -> Result<(Vec<f64>, f64), E>,
) -> Result<(Split, f64), E> {
    let rate = 0.5 * (lambda / smoothness).sqrt(); // √((λ/2)/(2L))
    let momentum = (1.0 - rate) / (1.0 + rate);
    let mut theta = start;
    let mut ahead = theta.clone();
    for _ in 0..accuracy.steps {
        stop::point();
        let (gradient, certified_norm) = evaluate(&ahead)?;
        if certified_norm <= accuracy.tolerance {
            return Ok((ahead, certified_norm));
        }
        let next = ahead.moved(-0.5 / smoothness, &gradient);
        ahead = next.moved(momentum, &next.minus(&theta));
        theta = next;
    }
    let (_, certified_norm) = evaluate(&theta)?;
    Ok((theta, certified_norm))
}

fn negative(v: &[f64]) -> Vec<f64> {
    v.iter().map(|x| -x).collect()
}

/// −(∇²J)^{-1}∇J, and whether it was made from the Hessian at this point.
fn newton_direction(
    objective: &RegularizedSum<'_>,
    here: &Evaluation,
    factor: &mut Option<Factor>,
    preconditioner: &mut Option<Preconditioner>,
) -> (Vec<f64>, bool) {
    let d = objective.weights();
    let scalar = objective.loss.outputs() == 1;
    let dense = scalar && d <= DENSE_WEIGHTS && objective.rows.mean_nonzeros() <= DENSE_NONZEROS.max(d.min(64));
    if dense {
        let fresh = factor.is_none();
        if fresh {
            let hessian = objective.dense_hessian(&objective.curvatures(&here.scores));
            *factor = Factor::of(&hessian, d);
        }
        if let Some(factor) = factor {
            return (factor.solve(&negative(&here.gradient)), fresh);
        }
    }
    let curvature = if scalar {
        let curvatures = objective.curvatures(&here.scores);
        if preconditioner.is_none() && Preconditioner::pays(objective) {
            *preconditioner = Preconditioner::of(objective, &curvatures);
        }
        Curvature::Scalar(curvatures)
    } else {
        Curvature::Softmax(softmax_probabilities(&here.scores, objective.loss.outputs()))
    };
    let (direction, products) = conjugate_gradients(objective, &curvature, &here.gradient, preconditioner.as_ref());
    if products > MAX_PRODUCTS {
        *preconditioner = None; // it was made too far from here
    }
    (direction, true)
}

/// Class probabilities of each record's scores.
fn softmax_probabilities(scores: &[f64], classes: usize) -> Vec<f64> {
    let mut p = scores.to_vec();
    for row in p.chunks_exact_mut(classes) {
        let top = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut sum = 0.0;
        for s in row.iter_mut() {
            *s = (*s - top).exp();
            sum += *s;
        }
        row.iter_mut().for_each(|s| *s /= sum);
    }
    p
}

/// Products of a direction after which a preconditioner is made anew.
const MAX_PRODUCTS: usize = 60;

/// Approximately −(∇²J)^{-1} g by conjugate gradients, with the diagonal as preconditioner where there is no better one; and the number of products.
fn conjugate_gradients(
    objective: &RegularizedSum<'_>,
    curvature: &Curvature,
    gradient: &[f64],
    better: Option<&Preconditioner>,
) -> (Vec<f64>, usize) {
    let diagonal = if better.is_none() { objective.hessian_diagonal(curvature) } else { Vec::new() };
    let preconditioned = |residual: &[f64]| match better {
        Some(better) => better.apply(residual),
        None => residual.iter().zip(&diagonal).map(|(r, m)| r / m).collect(),
    };
    let mut residual: Vec<f64> = gradient.iter().map(|g| -g).collect();
    let mut solution = vec![0.0; residual.len()];
    let mut z = preconditioned(&residual);
    let mut direction = z.clone();
    let mut rho = dot(&residual, &z);
    let start = norm(&residual);
    let mut products = 0;
    while products < 400 {
        // inner accuracy 1e-3: about three digits per outer step, as few passes in total as tighter or looser values
        if norm(&residual) <= 1e-3 * start || rho == 0.0 {
            break;
        }
        let image = objective.hessian_product(curvature, &direction);
        products += 1;
        let alpha = rho / dot(&direction, &image);
        if !alpha.is_finite() {
            break;
        }
        for j in 0..solution.len() {
            solution[j] += alpha * direction[j];
            residual[j] -= alpha * image[j];
        }
        z = preconditioned(&residual);
        let next = dot(&residual, &z);
        let beta = next / rho;
        rho = next;
        direction.iter_mut().zip(&z).for_each(|(p, z)| *p = z + beta * *p);
    }
    (solution, products)
}
