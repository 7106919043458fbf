//! Bugs of private linear models (spec 17 §8), on one-dimensional logistic problems solved in the run.

use super::{Code, PlantedBug, indicator};
use crate::audit::draws::Draws;
use crate::audit::statistics::Claim;
use dpopt_privacy::special::{gaussian_ln_delta_upper, gaussian_mu};

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
    fn slope(&self, theta: f64, with: bool) -> f64 {
        self.others * self.feature * logistic(self.feature * theta) - indicator(with) * logistic(-theta)
            + self.lambda * theta
    }

    fn curvature(&self, theta: f64, with: bool) -> f64 {
        let bend = |u: f64| logistic(u) * logistic(-u);
        self.others * self.feature * self.feature * bend(self.feature * theta) + indicator(with) * bend(theta) + self.lambda
    }

    /// The minimiser with linear term b, to the last bits: Newton's steps inside a bracket.
    fn minimiser(&self, b: f64, with: bool) -> f64 {
        let reach = (self.others * self.feature + 1.0 + b.abs()) / self.lambda;
        let (mut low, mut high) = (-reach, reach);
        let mut theta = 0.0;
        for _ in 0..100 {
            let slope = self.slope(theta, with) + b;
            if slope > 0.0 { high = theta } else { low = theta }
            // Newton inside the bracket, else its middle
            let newton = theta - slope / self.curvature(theta, with);
            let next = if newton > low && newton < high { newton } else { 0.5 * (low + high) };
            if (next - theta).abs() <= 1e-15 * theta.abs().max(1.0) {
                break;
            }
            theta = next;
        }
        theta
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

/// δ(ε) of the Gaussian mechanism at ε ≥ 1 only: what Corollary A1 of spec 17 §3.2 gives for λ at its threshold for ε = 1.
fn corollary_claim(mu: f64) -> Claim {
    let points = [1.0, 1.25, 1.5, 2.0, 3.0].map(|e| (e, gaussian_ln_delta_upper(e, mu).exp()));
    Claim::Profile { points: points.to_vec() }
}

pub(super) fn bugs() -> Vec<PlantedBug> {
    let mut bugs = Vec::new();
    let mu = gaussian_mu(1.0, 1e-5);
    // λ ≥ R²/(ε + R²/(2σ²)) at ε = 1, R = 1
    let threshold = 1.0 / (1.0 + 0.5 * mu * mu);

    bugs.push(PlantedBug::counting(
        "17.lambda",
        "objective perturbation with a tenth of the required regularisation",
        "record alone in the data; exact log-likelihood ratio of the minimiser",
        corollary_claim(mu),
        (65_000, 30),
        move |code, with, draws| {
            let problem = Logistic { others: 0.0, feature: 1.0, lambda: code.pick(threshold, 0.1 * threshold) };
            let sigma = 1.0 / mu;
            problem.log_ratio(problem.minimiser(sigma * draws.gaussian(), with), sigma)
        },
    ));

    bugs.push(PlantedBug::counting(
        "17.half-sensitivity",
        "objective perturbation with the noise for sensitivity R/2",
        "30 records push the slope to 1; exact log-likelihood ratio of the minimiser",
        corollary_claim(mu),
        (80_000, 30),
        move |code, with, draws| {
            let problem = Logistic { others: 30.0, feature: 1.0, lambda: threshold };
            let sigma = code.pick(1.0, 0.5) / mu;
            problem.log_ratio(problem.minimiser(sigma * draws.gaussian(), with), sigma)
        },
    ));

    bugs.push(PlantedBug::counting(
        "17.coarse-b",
        "objective perturbation released without the closing noise, linear term on a grid",
        "recompute the linear term under D from the output; 1{it lies on the grid}",
        Claim::ApproxDp { epsilon: 1.0, delta: 1e-5 },
        (60, 40),
        move |code, with, draws| {
            let problem = Logistic { others: 5.0, feature: 0.7, lambda: threshold };
            let grid = code.pick(2f64.powi(-30), 0.25);
            let b = (draws.gaussian() / mu / grid).round() * grid;
            // closing Gaussian at ε2 = 1e-3, δ2 = 1e-8: multiplier 3619.152 on Δ = h/λ
            let closing = code.pick(3619.152 * grid / problem.lambda * draws.gaussian(), 0.0);
            let theta = problem.minimiser(b, with) + closing;
            let cells = problem.slope(theta, true) / grid;
            indicator((cells - cells.round()).abs() < 1e-3)
        },
    ));

    // minimisers of the two data sets: no randomness before the noise
    let output = Logistic { others: 40_000.0, feature: 0.001, lambda: 1.0 };
    let minimisers = [output.minimiser(0.0, false), output.minimiser(0.0, true)];
    bugs.push(PlantedBug::counting(
        "17.output",
        "output perturbation with sensitivity L/(2 lambda)",
        "one record of norm 1 against 40 000 of norm .001; the minimiser",
        Claim::gaussian(0.5),
        (700, 1),
        move |code, with, draws| {
            let sensitivity = code.pick(1.0, 0.5) / output.lambda;
            minimisers[usize::from(with)] + 2.0 * sensitivity * draws.gaussian()
        },
    ));

    bugs.push(PlantedBug::counting(
        "17.newton",
        "double-noise Newton: the direction uses the exact gradient",
        "record alone, first step; direction over its noise scale",
        Claim::gaussian(0.5f64.sqrt()),
        (3_000, 2),
        |code, with, draws| newton_step(code, with, draws),
    ));

    bugs.push(PlantedBug::counting(
        "17.isometric",
        "noise of the second moments: variance s²/2 on the diagonal too",
        "record e1; its diagonal entry",
        Claim::gaussian(0.5),
        (3_700, 1),
        |code, with, draws| indicator(with) + 2.0 * code.pick(1f64, 0.5).sqrt() * draws.gaussian(),
    ));

    bugs.push(PlantedBug::counting(
        "17.tolerance",
        "a solver that relaxes its tolerance until it succeeds, and returns it",
        "the tolerance",
        Claim::gaussian(1.0),
        (40, 1),
        |code, with, _| {
            // damped Newton gets 6 steps; with the record the problem needs more for 1e-8
            let problem = Logistic { others: 0.0, feature: 1.0, lambda: 0.01 };
            let mut theta = 8.0;
            for _ in 0..6 {
                theta -= 0.5 * problem.slope(theta, with) / problem.curvature(theta, with);
            }
            let reached = problem.slope(theta, with).abs();
            let mut tolerance = 1e-8;
            while tolerance < reached {
                tolerance *= 2.0;
            }
            code.pick(1e-8, tolerance)
        },
    ));
    bugs
}

/// One step of double-noise Newton at θ = 0, add variant, λ0 = 1, μ_g = μ_s = ½ (spec 17 §4).
fn newton_step(code: Code, with: bool, draws: &mut Draws) -> f64 {
    let (lambda0, mu_g, mu_s, beta) = (1.0, 0.5, 0.5, 0.25);
    let gradient = -0.5 * indicator(with);
    let hessian = 0.25 * indicator(with);
    let released = gradient + draws.gaussian() / mu_g;
    let scale = beta * released.abs() / (lambda0 * lambda0 + beta * lambda0) / mu_s;
    let direction = code.pick(released, gradient) / (hessian + lambda0);
    let step = direction + scale * draws.gaussian();
    // under the bug the direction is 0 without the record, and the noise shrinks with the released gradient
    (step / scale).abs()
}
