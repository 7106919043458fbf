//! Predicted excess training risk from public facts only: what `explain` ranks methods by.
//!
//! Model: the mean loss is quadratic around its minimiser θ*, with curvature a in each of p effective directions and
//! none elsewhere. Rows of norm R with k non-zeros spread their energy over about p = min(d, 2k) directions (correlated
//! columns and rare categories leave fewer directions than columns), so a = φ''·R²/p. Scores of useful models have a
//! known size s₀ per kind of loss, so ‖θ*‖² = p·s₀²/R². Then each method's error splits into bias (regularisation or
//! early stopping) and noise, both in closed form:
//!
//! excess = (p·a/2)·(bias² + noise variance per direction).
//!
//! The numbers are a guess of the order of magnitude and serve to *rank*; they claim nothing about privacy.

use crate::loss::Loss;
use crate::plan::Problem;

/// The quadratic model of a learning problem.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RiskModel {
    /// n.
    pub(crate) rows: f64,
    /// p: directions that carry curvature, all outputs together.
    pub(crate) directions: f64,
    /// a: curvature of the mean loss per direction.
    pub(crate) curvature: f64,
    /// Squared distance of the minimiser from 0, per direction.
    pub(crate) signal: f64,
}

impl RiskModel {
    pub(crate) fn of(problem: &Problem) -> Self {
        let spread = (2 * problem.nonzeros).clamp(1, problem.features.max(1)) as f64;
        // typical curvature of the loss, and size of a useful score
        let (curvature, score) = match problem.loss {
            Loss::Logistic { .. } => (0.15, 2.0),
            Loss::Softmax { classes } => (0.5 / f64::from(classes.max(2)), 2.0),
            Loss::Squared | Loss::Huber { .. } => (1.0, 0.5),
            Loss::Absolute => (1.0, 0.5),
            Loss::Hinge => (0.5, 1.0),
            Loss::SmoothedHinge { width } => (0.5f64.min(0.25 / width), 1.0),
        };
        let r2 = problem.row_norm * problem.row_norm;
        Self {
            rows: problem.rows.max(1) as f64,
            directions: spread * problem.loss.outputs() as f64,
            curvature: curvature * r2 / spread,
            signal: score * score / r2,
        }
    }

    fn excess(&self, bias_squared: f64, variance: f64) -> f64 {
        0.5 * self.directions * self.curvature * (bias_squared + variance)
    }

    /// Σφ + (λ/2)‖θ‖² + b·θ with b of standard deviation σ, and noise σ_out on the minimiser.
    pub(crate) fn regularized(&self, lambda: f64, linear_noise: f64, output_noise: f64) -> f64 {
        let total = self.rows * self.curvature + lambda;
        let bias = self.signal * (lambda / total).powi(2);
        self.excess(bias, (linear_noise / total).powi(2) + output_noise * output_noise)
    }

    /// Gradient descent for learning time s = ηT/(1−β) on the mean loss; `flat_noise` is the standard deviation that the
    /// noise of all steps leaves in a direction without curvature.
    pub(crate) fn learning_time(&self, time: f64, flat_noise: f64) -> f64 {
        let done = self.curvature * time;
        let bias = self.signal * (-2.0 * done).exp();
        let damped = -(-2.0 * done).exp_m1() / (2.0 * done).max(f64::MIN_POSITIVE);
        self.excess(bias, flat_noise * flat_noise * damped)
    }

    /// T steps θ ← θ − P(gradient + noise) with P = `step` per direction on the *sum*, then the mean of the last half.
    pub(crate) fn preconditioned(&self, steps: f64, step: f64, lambda: f64, noise: f64) -> f64 {
        let total = self.rows * self.curvature + lambda;
        let rate = (step * total).clamp(1e-12, 1.0);
        let bias_left = (1.0 - rate).powf(steps);
        let bias = self.signal * (lambda / total + bias_left).powi(2);
        // stationary variance of the iterate, reduced by averaging T/2 iterates of correlation time 1/rate
        let variance = (step * noise).powi(2) / (rate * (2.0 - rate));
        let averaging = ((2.0 - rate) / (rate * 0.5 * steps)).clamp(1.0 / steps, 1.0);
        self.excess(bias, variance * averaging)
    }

    /// T damped Newton steps with regulariser λ0 from noisy gradients, with noise on each step.
    pub(crate) fn newton(&self, lambda: f64, gradient_noise: f64, step_noise: f64, steps: f64) -> f64 {
        let total = self.rows * self.curvature;
        // a step moves by total/max(total, λ0): what is left after T steps is bias
        let rate = (total / total.max(lambda)).clamp(1e-12, 1.0);
        let bias = self.signal * (1.0 - rate).powf(2.0 * steps);
        self.excess(bias, (gradient_noise / total.max(lambda)).powi(2) / rate + step_noise * step_noise / rate)
    }
}
