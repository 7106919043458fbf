//! The chain of a draw as plans show it, and what it costs. The kernel proves its numbers.

use dpopt_mechanism::{GibbsDraw, Start};
use serde::Serialize;

/// The chain of one draw with its certificate.
#[derive(Clone, Debug, Serialize)]
pub struct ChainSchedule {
    /// λ of the sum objective.
    pub regularization: f64,
    /// β: the draw has density ∝ e^(−β(Σφ + λr(θ))), r = ‖θ‖²/2 but in another geometry.
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
}

impl ChainSchedule {
    /// The chain of `draw` as the kernel proved it.
    pub(super) fn of(draw: &GibbsDraw) -> Self {
        let chain = draw.chain();
        Self {
            regularization: chain.regularization,
            inverse_temperature: chain.inverse_temperature,
            rounds: chain.rounds,
            step_std: chain.step_std,
            total_variation: chain.total_variation,
            oscillation: chain.oscillation,
            least_acceptance: chain.least_acceptance,
            proposals: chain.oracle.proposals,
            grid_exponent: chain.grid.log2() as i32,
        }
    }
}

/// Expected number of evaluations of one record: a gradient and about one and a half values per round.
pub(super) fn gradients(draw: &GibbsDraw) -> f64 {
    let chain = draw.chain();
    let per_round = chain.oracle.proposals.map_or(2.5, |all| all as f64 + f64::from(chain.oracle.references));
    let solver = if chain.start == Start::Minimiser { 15.0 } else { 0.0 };
    draw.facts().rows as f64 * (chain.rounds as f64 * per_round + solver)
}
