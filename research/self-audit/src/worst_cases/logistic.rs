//! Exact densities of a one-dimensional logistic problem: the likelihood ratio of a perturbed minimiser (docs/proofs/objective-perturbation.md).

use super::indicator;

fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// Many equal records (x, y = −1) and one (x = 1, y = 1) that is there or not: J(θ) = n·ln(1+e^{xθ}) + \[ln(1+e^{−θ})\] + λθ²/2 + bθ.
#[derive(Clone, Copy)]
pub(crate) struct Logistic {
    pub(crate) others: f64,
    pub(crate) feature: f64,
    pub(crate) lambda: f64,
}

impl Logistic {
    /// J′ without the linear term.
    pub(crate) fn slope(&self, theta: f64, with: bool) -> f64 {
        self.others * self.feature * logistic(self.feature * theta) - indicator(with) * logistic(-theta)
            + self.lambda * theta
    }

    pub(crate) fn curvature(&self, theta: f64, with: bool) -> f64 {
        let bend = |u: f64| logistic(u) * logistic(-u);
        self.others * self.feature * self.feature * bend(self.feature * theta)
            + indicator(with) * bend(theta)
            + self.lambda
    }

    /// ln p_with(θ) / p_without(θ) for b ~ N(0, σ²): the change of variables b(θ) = −J′(θ).
    pub(crate) fn log_ratio(&self, theta: f64, sigma: f64) -> f64 {
        let ln_density = |with: bool| {
            let b = self.slope(theta, with) / sigma;
            -0.5 * b * b + self.curvature(theta, with).ln()
        };
        ln_density(true) - ln_density(false)
    }
}
