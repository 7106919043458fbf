//! What the solver promises for every data set, from public facts: a tolerance that rounding cannot hide, and a number of
//! steps by which it is reached (docs/proofs/solver.md).

use crate::loss::Loss;
use thiserror::Error;

/// The public facts on which the promise rests.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// n: at least the number of records.
    pub rows: u64,
    /// R: at least the norm of every row.
    pub row_norm: f64,
    /// What is minimised; its facts decide whether there is a promise at all.
    pub loss: Loss,
    /// λ of the sum objective.
    pub regularization: f64,
    /// Upper bound on ‖b‖, the norm of the linear term.
    pub linear_norm: f64,
    /// Upper bound on every |target| of a regression.
    pub target_bound: f64,
    /// What adding up on a grid moves a gradient by, at most ([`IntegerSums::grid_error`](super::IntegerSums::grid_error)); 0 for sums of floats.
    pub grid_error: f64,
}

/// The promise: whatever the records, a gradient norm of at most `tolerance` is certified within `steps` steps of the
/// accelerated descent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Accuracy {
    /// τ: certified bound on the norm of the gradient.
    pub tolerance: f64,
    /// Passes over the records after which the descent ends at the latest.
    pub steps: u64,
}

/// Why nothing can be promised.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NoPromise {
    /// The loss is not one that a certified minimiser exists for.
    #[error("{0}")]
    Problem(String),
    /// A number is outside the range that the promise is proved for.
    #[error("{0}")]
    Option(String),
}

/// Plans that might take more passes than this are refused: hours for thousands of records.
const MAX_STEPS: f64 = 5e7;

/// Beyond this condition number the relative rounding of steps is no longer proved to be harmless.
const LARGEST_CONDITION: f64 = 1e10;

/// A tolerance of more than this share of one record's largest gradient would be paid for in noise.
const LARGEST_SHARE: f64 = 1e-3;

/// Rounding of one gradient, per unit of what is summed: see [`rounding`].
pub(super) const GRADIENT_ROUNDING: f64 = 1.323_488_980_084_844_3e-23; // 2^-76

/// Bound on the error of a gradient computed by [`RegularizedSum::evaluate`](super::RegularizedSum::evaluate) at ‖θ‖ ≤ `size`, apart from
/// the relative one of its last rounding: scores err by 2^-79·R‖θ‖, slopes by 2^-85, products by 2^-78 of their parts; what sums
/// of n terms lose in their third part grows as n²u²(2^-28 + nu), and they are cut into two chunks at least.
pub(super) fn rounding(n: f64, smoothness: f64, gradients: f64, linear: f64, size: f64) -> f64 {
    let long = n * 2f64.powi(-27) + (n * 2f64.powi(-29)).powi(3);
    GRADIENT_ROUNDING * (smoothness * size + gradients + linear) * (1.0 + long)
}

impl Scale {
    /// L = nβR² + λ, the smoothness of the objective.
    pub(super) fn smoothness(&self) -> Option<f64> {
        Some(self.rows as f64 * self.loss.facts().smoothness? * self.row_norm * self.row_norm + self.regularization)
    }

    /// The loss of a record at score 0, at most: losses are not negative.
    fn loss_at_zero(&self) -> f64 {
        match self.loss {
            Loss::Logistic { shift } => shift + std::f64::consts::LN_2,
            Loss::Softmax { classes } => f64::from(classes).ln(),
            Loss::Huber { threshold } => threshold * self.target_bound,
            Loss::SmoothedHinge { width } => 1.0 + width,
            Loss::Quantile { level, width } => level.max(1.0 - level) * self.target_bound + 0.25 * width,
            Loss::Squared | Loss::Absolute | Loss::Hinge | Loss::Sigmoid | Loss::Poisson { .. } => f64::INFINITY, // no promise is made for these
        }
    }

    /// The accuracy and the number of steps that are proved for these facts.
    ///
    /// # Errors
    /// If the loss is not convex and smooth with a bounded slope, or no useful promise can be made: λ is too small for so many
    /// records.
    pub fn accuracy(&self) -> Result<Accuracy, NoPromise> {
        let facts = self.loss.facts();
        let (Some(slope), Some(_), true) = (facts.lipschitz, facts.smoothness, facts.convex) else {
            return Err(NoPromise::Problem(
                "a certified minimiser needs a convex, smooth loss with bounded slope; use logistic, huber, smoothed-hinge, \
                 quantile or softmax"
                    .into(),
            ));
        };
        // outside, products of f64 might lose digits by underflow
        for (name, value) in
            [("regularization", self.regularization), ("row norm", self.row_norm), ("clip norm", slope)]
        {
            if !(1e-60..=1e60).contains(&value) {
                return Err(NoPromise::Option(format!("the {name} is {value:e}; give a number from 1e-60 to 1e60")));
            }
        }
        self.promise().ok_or_else(|| {
            let able = |k: &i32| Self { regularization: 2f64.powi(*k), ..*self }.promise().is_some();
            let way_out = match (-180..=180).find(able) {
                Some(k) => format!("raise the regularization to {:.1e} or more", 2f64.powi(k)),
                None => "choose another method".into(),
            };
            NoPromise::Option(format!(
                "the regularization {:.1e} is too small for {} records of norm {}: the solver may need more than \
                 {MAX_STEPS:e} passes over some records; {way_out}",
                self.regularization, self.rows, self.row_norm
            ))
        })
    }

    fn promise(&self) -> Option<Accuracy> {
        let (n, lambda, smoothness) = (self.rows as f64, self.regularization, self.smoothness()?);
        let gradient = self.row_norm * self.loss.facts().lipschitz?;
        let condition = smoothness / lambda;
        // J(0) − J* with J* ≥ −‖b‖²/2λ
        let above = n * self.loss_at_zero() + self.linear_norm * self.linear_norm / (2.0 * lambda);
        // every iterate lies within six times √(2(J(0) − J*)/λ) of 0
        let radius = 6.0 * (2.0 * above / lambda).sqrt();
        let rounding = rounding(n, smoothness, n * gradient, self.linear_norm, radius) + self.grid_error;
        let tolerance = (1e-8 * gradient).max(30.0 * rounding).max(12.0 * condition.powf(0.75) * rounding);
        let steps =
            (8.0 * condition.sqrt() * (8.0 * (smoothness * above).sqrt() / tolerance).max(1.0).ln()).ceil().max(1.0);
        let within = tolerance <= LARGEST_SHARE * gradient && steps <= MAX_STEPS && condition <= LARGEST_CONDITION;
        within.then_some(Accuracy { tolerance, steps: steps as u64 })
    }
}
