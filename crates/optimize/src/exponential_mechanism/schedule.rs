//! All numbers of a certified draw, from public facts: temperature, step, rounds, precision (spec 03 §5, §7).

use super::parameters::Shares;
use crate::plan::Problem;
use crate::planning::{TARGET_BOUND, accuracy};
use dpopt_mechanism::Start;
use dpopt_mechanism::sampler::precision::{Arithmetic, error_per_step};
use dpopt_mechanism::sampler::{Contraction, Convexity, Domain, MAX_STEPS, Oracle};
use dpopt_objective::loss::Loss;
use serde::Serialize;

/// The chain of one draw with its certificate.
#[derive(Clone, Debug, Serialize)]
pub struct ChainSchedule {
    /// λ of the sum objective.
    pub regularization: f64,
    /// β: the draw has density ∝ e^(−β(Σφ + (λ/2)‖θ‖²)).
    pub inverse_temperature: f64,
    /// T: rounds of the proximal sampler.
    pub rounds: u64,
    /// √η: standard deviation of its Gaussian step.
    pub step_std: f64,
    /// Certified total-variation distance of the answer from the exact law, everything included.
    pub total_variation: f64,
    /// Upper bound on how far floating point can move the potential.
    pub oscillation: f64,
    /// A lower bound on the acceptance probability, for every data set.
    pub least_acceptance: f64,
    /// Proposals per round: all of them are evaluated in constant time, else as many as it takes.
    pub proposals: Option<u64>,
    /// log2 of the grid step of the answer.
    pub grid_exponent: i32,
    #[serde(skip)]
    pub(super) start: Start,
    #[serde(skip)]
    pub(super) domain: Domain,
    #[serde(skip)]
    pub(super) oracle: Oracle,
}

/// Distance of the start to the solver's point, in units of 1/√m: rounding to the grid stays below it.
const START_ROUNDING: f64 = 1e-6;

/// What a chain is planned from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts<'a> {
    pub(super) problem: &'a Problem,
    pub(super) loss: Loss,
    /// L: bound on the slope.
    pub(super) slope: f64,
    /// s and τ of one draw.
    pub(super) shares: Shares,
    pub(super) constant_time: bool,
}

/// Largest |φ(0; y)| over admitted targets.
fn value_at_zero(loss: Loss) -> f64 {
    let zero = vec![0.0; loss.outputs()];
    [-1.0, 0.0, 1.0]
        .into_iter()
        .filter_map(|y| loss.usable_target(y, TARGET_BOUND))
        .map(|y| loss.value(&zero, y))
        .fold(0.0, f64::max)
}

impl Facts<'_> {
    /// β for λ: s = β·G_Δ/√(βλ).
    pub(super) fn inverse_temperature(&self, lambda: f64) -> f64 {
        lambda * (self.shares.mu / self.difference_lipschitz()).powi(2) * (1.0 - 1e-14)
    }

    /// G_Δ of the sum objective.
    pub(super) fn difference_lipschitz(&self) -> f64 {
        dpopt_privacy::gibbs::difference_lipschitz(self.slope * self.problem.row_norm, self.problem.relation())
    }

    /// All numbers of the chain at λ; `None` if rounding or the number of rounds has no certificate within τ.
    pub(super) fn chain(&self, lambda: f64) -> Option<ChainSchedule> {
        let (n, d) = (self.problem.rows as f64, self.problem.weights() as f64);
        let tau = self.shares.total_variation;
        let beta = self.inverse_temperature(lambda);
        let m = beta * lambda;
        let pull = n * self.slope * self.problem.row_norm; // ‖∇Σφ‖ at most
        let lipschitz = beta * pull;
        let at_zero = value_at_zero(self.loss);
        // λ‖θ*‖ = ‖∇Σφ(θ*)‖, and φ ≥ 0 gives (λ/2)‖θ*‖² ≤ Σφ(0)
        let minimiser_norm = (pull / lambda).min((2.0 * n * at_zero / lambda).sqrt());
        let smoothness = self.loss.facts().smoothness.map(|b| beta * n * b * self.problem.row_norm.powi(2));
        // a chain in constant time looks at no data before it starts; a loss with corners has no certified minimiser here
        let from_minimiser = smoothness.is_some() && !self.constant_time;
        let start = if from_minimiser { Start::Minimiser } else { Start::Centre };
        let start_distance = match start {
            Start::Minimiser => {
                let tolerance = accuracy(self.problem, self.loss, lambda, 0.0).ok()?.tolerance;
                1.01 * tolerance / lambda + START_ROUNDING / m.sqrt()
            }
            Start::Centre => minimiser_norm,
        };
        // ‖X − x*‖ exceeds √(d/m) + t with probability at most e^(−mt²/2)
        let escape = 0.01 * tau;
        let reach = |probability: f64| start_distance + (d / m).sqrt() + (-2.0 * probability.ln() / m).sqrt();
        // In constant time proposals must fall inside with a proved probability: coupled to a stationary chain, no round
        // (of at most MAX_STEPS) leaves twice the reach but with probability τ/1000, and the rest is room for a step.
        let radius = match self.constant_time {
            false => reach(escape),
            true => 4.0 * (reach(1e-3 * tau / (2.0 * MAX_STEPS as f64)) + (d / m).sqrt()),
        };
        let arithmetic = Arithmetic {
            loss: self.loss,
            rows: n,
            nonzeros: self.problem.nonzeros.max(1) as f64,
            row_norm: self.problem.row_norm,
            scale: beta,
            slope: self.slope,
            value_at_zero: at_zero,
            origin_norm: if from_minimiser { minimiser_norm + start_distance } else { 0.0 },
            radius,
            dimension: d,
        };
        // the start is rounded to the grid, and every answer must fit an f64 on it
        let coarsest = 2f64.powi((START_ROUNDING / (m * d).sqrt()).log2().floor() as i32);
        let grid = arithmetic.grid(tau / 32.0).min(coarsest);
        if !(minimiser_norm + radius < grid * 2f64.powi(53)) {
            return None;
        }
        let oscillation = arithmetic.oscillation(grid);
        let slack = arithmetic.slack(grid);
        let step_std = self.step(smoothness, lipschitz, m, d).sqrt();
        let eta = step_std * step_std;
        let inverse_precision = 1.0 / (m + 1.0 / eta);
        // how far the centre of proposals is from the reference y at most
        let drift = inverse_precision * (lipschitz + m * (2.0 * radius + minimiser_norm));
        let (mean_gap, reference_distance, references) = match smoothness {
            Some(b) => {
                let near = (d * inverse_precision).sqrt();
                let halvings = ((drift / near).ln() / (1.0 / (b * inverse_precision)).ln()).ceil().max(0.0);
                (0.5 * b * 2.0 * d * inverse_precision, near, 2 + halvings as u32)
            }
            None => (2.0 * lipschitz * ((d * inverse_precision).sqrt() + drift), f64::INFINITY, 1),
        };
        let reach_of_sums = radius + minimiser_norm + eta * (lipschitz + m * (radius + minimiser_norm));
        let per_step = error_per_step(reach_of_sums, step_std, grid, d, oscillation, lipschitz, mean_gap + slack);
        let contraction =
            Contraction { step_std, strong_convexity: m, start_distance, dimension: d as usize, oscillation };
        let rounds = contraction.steps(0.5 * tau)?;
        // references beyond 2V: the forward step would have to move by V
        let strayed = (-0.5 * (radius / step_std - d.sqrt()).max(0.0).powi(2)).exp();
        // nine tenths of the proposals fall inside the radius, by far (in constant time: proved, see the radius)
        let least_acceptance = 0.9 * (-1.1 * (mean_gap + slack)).exp();
        let exhaustion = 0.01 * tau;
        let proposals = self
            .constant_time
            .then(|| (((rounds as f64 / exhaustion).ln() / -(-least_acceptance).ln_1p()).ceil()).min(1e12) as u64);
        let total_variation = contraction.total_variation(rounds)
            + 0.5 * (2.0 * oscillation).exp_m1()
            + escape
            + rounds as f64 * (per_step + strayed)
            + d * 2f64.powi(-51) // borders of the answer's cells
            + if self.constant_time { exhaustion + 1e-3 * tau } else { 0.0 };
        if !(total_variation <= tau && slack <= 0.1) {
            return None;
        }
        Some(ChainSchedule {
            regularization: lambda,
            inverse_temperature: beta,
            rounds,
            step_std,
            total_variation,
            oscillation,
            least_acceptance,
            proposals,
            grid_exponent: grid.log2() as i32,
            start,
            domain: Domain::Whole { radius },
            oracle: Oracle::Convexity(Convexity {
                slack,
                loss_convexity: 0.0,
                reference_distance,
                references,
                proposals,
                constant_time: self.constant_time,
            }),
        })
    }

    /// η from public constants. Smooth: ηβ_s = c/d, at most 1/2, which keeps E b ≤ c for every data set; c = 4 has the
    /// least work (longer steps, more proposals). With corners: ηg_0²d = 16 bounds E b by about 40, and real data, whose corners
    /// are spread out, accept nearly always. In constant time every proposal is paid for: c = 1.
    fn step(&self, smoothness: Option<f64>, lipschitz: f64, m: f64, d: f64) -> f64 {
        let c = if self.constant_time { 1.0 } else { 4.0 };
        let eta = match smoothness {
            Some(b) => (c / d).min(0.5) / b,
            None => 0.0625 * c * c / (lipschitz * lipschitz * d) * if self.constant_time { 1.0 } else { 16.0 },
        };
        eta.min(1.0 / m)
    }

    /// Expected number of evaluations of one record: a gradient and about one and a half values per round.
    pub(super) fn gradients(&self, chain: &ChainSchedule) -> f64 {
        let per_round = match (chain.proposals, &chain.oracle) {
            (Some(proposals), Oracle::Convexity(oracle)) => proposals as f64 + f64::from(oracle.references),
            _ => 2.5,
        };
        let solver = if chain.start == Start::Minimiser { 15.0 } else { 0.0 };
        self.problem.rows as f64 * (chain.rounds as f64 * per_round + solver)
    }
}
