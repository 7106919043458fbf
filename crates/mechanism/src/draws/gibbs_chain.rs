//! All numbers of a certified draw, proved from public facts: temperature, step, rounds, precision, and how far the chain's end is
//! from its law (docs/proofs/proximal-sampler.md).

use super::solved::Minimised;
use crate::sampler::norm_square::PublicTerm;
use crate::sampler::precision::{Arithmetic, error_per_step};
use crate::sampler::{Contraction, Convexity, Domain, MAX_STEPS, NormSquare, best_exponent};
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::Linear;
use dpopt_privacy::{Relation, gibbs};

/// Where a chain starts; its certificate counts the distance to the minimiser.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Start {
    /// The solver's point, within what it promises for so many records: needs a smooth loss. The origin of coordinates moves there.
    Minimiser,
    /// 0: no look at the data before the first step.
    Centre,
}

/// The l_p norm, 1 ≤ p ≤ 2, in which a record's slope is bounded and the regulariser is strongly convex.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LpGeometry {
    /// The order p of the norm, from 1 to 2.
    pub p: f64,
    /// q from p to 2, above 1: the regulariser is (c/2)‖θ‖_q².
    pub exponent: f64,
    /// C: the draw shrinks rows whose norm of order p* = p/(p − 1) is larger.
    pub dual_row_norm: f64,
}

impl LpGeometry {
    /// The geometry of l_p with the best regulariser for so many weights.
    pub fn new(p: f64, dual_row_norm: f64, weights: usize) -> Self {
        Self { p, exponent: best_exponent(p, weights), dual_row_norm }
    }

    /// The dual exponent p* = p/(p − 1).
    pub fn dual(&self) -> f64 {
        if self.p == 1.0 { f64::INFINITY } else { self.p / (self.p - 1.0) }
    }
}

/// What a Gibbs draw is made from, all public.
#[derive(Clone, Copy, Debug)]
pub struct GibbsFacts {
    /// Σφ over rows of at most its norm.
    pub objective: Linear,
    /// Number n of rows.
    pub rows: u64,
    /// Bound on the non-zeros of a row, enforced where the rows were made: rounding errors depend on it.
    pub nonzeros: usize,
    /// Largest |target|; targets are clamped to it.
    pub target_bound: f64,
    /// The neighbouring relation, under which the potentials are compared.
    pub relation: Relation,
    /// s of one exact draw.
    pub mu: f64,
    /// τ: the total variation that a draw may be from the exact law, everything included.
    pub total_variation: f64,
    /// Whether the number of evaluations is one for all data; for the Euclidean norm only.
    pub constant_time: bool,
    /// `None`: the Euclidean norm, (λ/2)‖θ‖².
    pub geometry: Option<LpGeometry>,
}

/// A chain with its certificate.
#[derive(Clone, Debug)]
pub struct GibbsChain {
    /// λ of the sum objective.
    pub regularization: f64,
    /// β: the draw has density ∝ e^(−β(Σφ + λr(θ))).
    pub inverse_temperature: f64,
    /// The regulariser r; `None`: ‖θ‖²/2.
    pub norm: Option<NormSquare>,
    /// Order and bound of the norm to which rows are shrunk.
    pub shrunk: Option<(f64, f64)>,
    /// Number T of rounds.
    pub rounds: u64,
    /// √η: standard deviation of the forward step.
    pub step_std: f64,
    /// Proved bound on the total-variation distance of the answer from the exact law, everything included.
    pub total_variation: f64,
    /// Upper bound on how far floating point can move the potential.
    pub oscillation: f64,
    /// A lower bound on the acceptance probability, for every data set.
    pub least_acceptance: f64,
    /// Step of the public grid of the answer, a power of two.
    pub grid: f64,
    /// The point or law at which the chain begins.
    pub start: Start,
    /// All of space within a radius of the start.
    pub domain: Domain,
    /// The inner step of the chain.
    pub oracle: Convexity,
}

/// Distance of the start to the solver's point, in units of 1/√m: rounding to the grid stays below it.
const START_ROUNDING: f64 = 1e-6;

/// References of a round in a general norm.
const MAX_REFERENCES: u32 = 20;

/// Largest number of proposals per round that is planned.
const MAX_PROPOSALS: f64 = 1e12;

/// Largest |φ(0; y)| over admitted targets; infinite for a loss that has no value there.
fn value_at_zero(loss: Loss, target_bound: f64) -> f64 {
    let zero = vec![0.0; loss.outputs()];
    [-target_bound, 0.0, target_bound]
        .into_iter()
        .filter_map(|y| loss.usable_target(y, target_bound))
        .map(|y| loss.value(&zero, y))
        .fold(0.0, |most, value| if value.is_nan() { f64::INFINITY } else { most.max(value) })
}

/// A law e^(−β(Σφ + λr(θ))) in the units of its exponent.
struct Law {
    lambda: f64,
    loss: Loss,
    /// Bound on the l_2 norm of rows, as they count.
    row_norm: f64,
    /// Bound on the slope |φ'|.
    slope: f64,
    /// Number d of weights.
    dimension: f64,
    beta: f64,
    /// βλr, where it is not the quadratic.
    public: Option<PublicTerm>,
    /// m: strong convexity in l_2.
    convexity: f64,
    /// Bound on ‖∇Σφ‖.
    pull: f64,
    /// Bound on ‖β∇Σφ‖.
    lipschitz: f64,
    /// Bound on |φ(0; y)|.
    value_at_zero: f64,
    /// Bound on the norm ‖θ*‖ of the minimiser.
    minimiser_norm: f64,
    /// How fast β∇Σφ changes, if φ is smooth.
    smoothness: Option<f64>,
}

/// The grid of answers, how far floating point can move the potential, and by how much the oracle may be wrong.
struct Rounding {
    grid: f64,
    oscillation: f64,
    slack: f64,
}

/// The proposals of a round.
struct Proposals {
    /// Bound on the mean gap between the potential and the quadratic that proposals are drawn from.
    mean_gap: f64,
    /// The gap that errors of a step are counted for.
    counted_gap: f64,
    /// How far a reference may be from the centre of its proposals.
    reference_distance: f64,
    /// How often references are improved.
    references: u32,
}

impl Law {
    fn proposals(&self, inverse_precision: f64, steepest: f64, radius: f64, grid: f64) -> Proposals {
        let (m, d) = (self.convexity, self.dimension);
        // how far the centre of proposals is from the reference y at most
        let drift = inverse_precision * (steepest + m * (2.0 * radius + self.minimiser_norm));
        let near = (d * inverse_precision).sqrt();
        let bent = self.public.filter(|term| !term.norm.is_euclidean());
        // of a reference, to the grid and into the domain
        let moved = bent.map_or(0.0, |_| 10.0 * grid * d.sqrt());
        let (mean_gap, reference_distance, references) = match (self.smoothness, bent) {
            // references are improved as below, but near 0 the term is not smooth
            (Some(b), Some(term)) => {
                let closer = |apart: f64, _| {
                    let change = (b * apart + term.slope_change(radius, apart)).min(2.0 * steepest);
                    1.001 * inverse_precision * change + moved
                };
                let last = (1..MAX_REFERENCES).fold(1.001 * drift + moved, closer);
                // `max` would take a distance that is no number for a short one
                let apart = near + if last.is_nan() { f64::INFINITY } else { last.max(near) };
                let gap = 0.5 * b * apart * apart + term.mean_gap(radius, apart);
                (gap.min(2.0 * steepest * apart), near, MAX_REFERENCES)
            }
            (Some(b), None) => {
                let halvings = ((drift / near).ln() / (1.0 / (b * inverse_precision)).ln()).ceil().max(0.0);
                (0.5 * b * 2.0 * d * inverse_precision, near, 2 + halvings as u32)
            }
            (None, term) => {
                let apart = near + drift + moved;
                let of_term = term.map_or(0.0, |term| term.mean_gap(radius, 1.001 * apart));
                ((2.0 * self.lipschitz * apart + of_term).min(2.0 * steepest * apart), f64::INFINITY, 1)
            }
        };
        // where the mode of proposals lies outside of the ball, a reference is as far from its projection as the search allows
        let counted_gap = if self.smoothness.is_some() && bent.is_none() { 2.0 * mean_gap } else { mean_gap };
        Proposals { mean_gap, counted_gap, reference_distance, references }
    }
}

impl GibbsFacts {
    /// β for λ: s = β·G_Δ/√(βλ).
    pub fn inverse_temperature(&self, lambda: f64) -> f64 {
        lambda * (self.mu / self.difference_lipschitz()).powi(2) * (1.0 - 1e-14)
    }

    /// G_Δ of the sum objective, in its geometry; infinite for a loss that no theorem covers.
    pub fn difference_lipschitz(&self) -> f64 {
        gibbs::difference_lipschitz(self.record_lipschitz(), self.relation)
    }

    /// How steep a record's loss can be in its geometry; infinite for a loss that no theorem covers.
    fn record_lipschitz(&self) -> f64 {
        match self.geometry {
            None => self.objective.known().convex_lipschitz(),
            Some(geometry) => self.objective.convex_lipschitz_in(geometry.dual(), self.dual_row_norm()),
        }
    }

    /// Bound on the Euclidean norm of rows with at most so many entries, as they count:
    /// ‖a‖₂ ≤ k^(1/2 − 1/p*)‖a‖_p*, and 1/2 − 1/p* = 1/p − 1/2.
    pub fn counted_row_norm(&self, entries: usize) -> f64 {
        let most = self.objective.row_norm();
        self.geometry.map_or(most, |LpGeometry { p, .. }| {
            most.min(self.dual_row_norm() * (entries.max(1) as f64).powf(1.0 / p - 0.5) * (1.0 + 1e-12))
        })
    }

    /// Bound on the rows in the dual norm of its geometry, which is at most the Euclidean norm.
    pub fn dual_row_norm(&self) -> f64 {
        let euclidean = self.objective.row_norm();
        self.geometry.map_or(euclidean, |geometry| geometry.dual_row_norm.min(euclidean))
    }

    /// Order and bound of the norm to which rows are shrunk, where they can be above it.
    fn shrunk(&self) -> Option<(f64, f64)> {
        let geometry = self.geometry.filter(|geometry| geometry.dual_row_norm < self.objective.row_norm())?;
        Some((geometry.dual(), geometry.dual_row_norm))
    }

    /// The regulariser r of the geometry; `None`: ‖θ‖²/2.
    fn norm(&self) -> Option<NormSquare> {
        self.geometry.and_then(|LpGeometry { p, exponent, .. }| NormSquare::new(p, exponent, self.objective.weights()))
    }

    /// What the solver promises for the start.
    pub(super) fn minimised(&self, lambda: f64) -> Minimised<'_> {
        Minimised {
            objective: &self.objective,
            most_rows: self.rows,
            regularization: lambda,
            linear_norm: 0.0,
            target_bound: self.target_bound,
        }
    }

    /// Whether the proof below is about such facts.
    fn are_covered(&self, lambda: f64) -> bool {
        let loss = self.objective.loss().facts();
        let positive = |x: f64| x > 0.0 && x.is_finite();
        // the number of records, which the chain's length follows from, is not public under add-or-remove
        self.relation != Relation::AddOrRemove
            && self.rows > 0
            && self.objective.weights() > 0
            && loss.convex
            && loss.lipschitz.is_some_and(positive)
            && loss.smoothness.is_none_or(positive)
            && [lambda, self.mu, self.target_bound, self.objective.row_norm()].into_iter().all(positive)
            && self.total_variation > 0.0
            && self.total_variation < 1.0
            && self.geometry.is_none_or(|g| positive(g.dual_row_norm) && self.norm().is_some() && !self.constant_time)
    }

    /// What the law at λ is like, as the proof needs it.
    fn law(&self, lambda: f64) -> Option<Law> {
        // the number of entries was enforced elsewhere, and is not relied on for this
        let (loss, row_norm) = (self.objective.loss(), self.counted_row_norm(self.objective.features()));
        let slope = loss.facts().lipschitz?;
        let (n, dimension) = (self.rows as f64, self.objective.weights() as f64);
        let beta = self.inverse_temperature(lambda);
        let norm = self.norm();
        // in l_2, of which the explicit quadratic of the chain is made
        let convexity = norm.map_or(1.0, |norm| norm.convexity);
        let pull = n * slope * row_norm;
        let value_at_zero = value_at_zero(loss, self.target_bound);
        // λ‖θ*‖ = ‖∇Σφ(θ*)‖, and φ ≥ 0 gives (λ/2)‖θ*‖² ≤ Σφ(0)
        let flattest = lambda * convexity;
        let mut minimiser_norm = (pull / flattest).min((2.0 * n * value_at_zero / flattest).sqrt());
        if norm.is_some() {
            // ‖θ*‖₂ ≤ ‖θ*‖_p ≤ ‖∇Σφ(θ*)‖_p*/λ
            minimiser_norm = minimiser_norm.min(n * self.record_lipschitz() / lambda);
        }
        Some(Law {
            lambda,
            loss,
            row_norm,
            slope,
            dimension,
            beta,
            public: norm.map(|norm| PublicTerm { norm, weight: lambda, scale: beta }),
            convexity: beta * lambda * convexity,
            pull,
            lipschitz: beta * pull,
            value_at_zero,
            minimiser_norm,
            smoothness: loss.facts().smoothness.map(|b| beta * n * b * row_norm.powi(2)),
        })
    }

    /// Where the chain begins, and how far from the minimiser that is at most.
    fn start(&self, law: &Law) -> Option<(Start, f64)> {
        // a chain in constant time looks at no data before it starts; a loss with corners has no certified minimiser here
        if law.smoothness.is_none() || self.constant_time || law.public.is_some() {
            return Some((Start::Centre, law.minimiser_norm));
        }
        let tolerance = Some(self.minimised(law.lambda).accuracy(false).tolerance).filter(|t| t.is_finite())?;
        Some((Start::Minimiser, 1.01 * tolerance / law.lambda + START_ROUNDING / law.convexity.sqrt()))
    }

    /// Radius of the domain around the start, which the law leaves with probability at most `escape`.
    fn radius(&self, law: &Law, start_distance: f64, escape: f64) -> f64 {
        let (m, d) = (law.convexity, law.dimension);
        // ‖X − x*‖ exceeds √(d/m) + t with probability at most e^(−mt²/2)
        let reach = |probability: f64| start_distance + (d / m).sqrt() + (-2.0 * probability.ln() / m).sqrt();
        // In constant time proposals must fall inside with a proved probability: coupled to a stationary chain, no round
        // (of at most MAX_STEPS) leaves twice the reach but with probability τ/1000, and the rest is room for a step.
        match self.constant_time {
            false => reach(escape),
            true => 4.0 * (reach(1e-3 * self.total_variation / (2.0 * MAX_STEPS as f64)) + (d / m).sqrt()),
        }
    }

    /// The grid, and what floating point does to the potential; `None` if answers do not fit on it.
    fn rounding(&self, law: &Law, origin_norm: f64, radius: f64) -> Option<Rounding> {
        let (tau, d, public) = (self.total_variation, law.dimension, law.public);
        let arithmetic = Arithmetic {
            loss: law.loss,
            rows: self.rows as f64,
            nonzeros: self.nonzeros.max(1) as f64,
            row_norm: law.row_norm,
            scale: law.beta,
            slope: law.slope,
            value_at_zero: law.value_at_zero,
            origin_norm,
            radius,
            dimension: d,
        };
        // the start is rounded to the grid, and every answer must fit an f64 on it
        let coarsest = 2f64.powi((START_ROUNDING / (law.convexity * d).sqrt()).log2().floor() as i32);
        let grid = arithmetic.grid(tau / 32.0).min(coarsest);
        let grid = public.map_or(grid, |term| grid.min(term.grid(tau / 32.0, radius)));
        if !(law.minimiser_norm + radius < grid * 2f64.powi(53)) {
            return None;
        }
        let losses = arithmetic.sum_of_values();
        Some(Rounding {
            grid,
            oscillation: arithmetic.oscillation(grid)
                + public.map_or(0.0, |term| term.oscillation(grid, radius, losses)),
            slack: arithmetic.slack(grid) + public.map_or(0.0, |term| term.slack(grid, radius, 2.0 * losses, law.pull)),
        })
    }

    /// All numbers of the chain at λ; `None` if rounding or the number of rounds has no certificate within τ.
    pub(super) fn chain(&self, lambda: f64) -> Option<GibbsChain> {
        if !self.are_covered(lambda) {
            return None;
        }
        let law = self.law(lambda)?;
        let (tau, m, d, public) = (self.total_variation, law.convexity, law.dimension, law.public);
        let (start, start_distance) = self.start(&law)?;
        let escape = 0.01 * tau;
        let radius = self.radius(&law, start_distance, escape);
        let origin_norm = if start == Start::Minimiser { law.minimiser_norm + start_distance } else { 0.0 };
        let Rounding { grid, oscillation, slack } = self.rounding(&law, origin_norm, radius)?;
        let step = self.step(law.smoothness, law.lipschitz, m, d);
        let step_std = public.map_or(step, |term| step.min(term.step(self.typical_size(&term)))).sqrt();
        let steepest = law.lipschitz + public.map_or(0.0, |term| term.lipschitz(2.0 * radius));
        let eta = step_std * step_std;
        let Proposals { mean_gap, counted_gap, reference_distance, references } =
            law.proposals(1.0 / (m + 1.0 / eta), steepest, radius, grid);
        let reach_of_sums = radius + law.minimiser_norm + eta * (steepest + m * (radius + law.minimiser_norm));
        let per_step = error_per_step(reach_of_sums, step_std, grid, d, oscillation, steepest, counted_gap + slack);
        let contraction =
            Contraction { step_std, strong_convexity: m, start_distance, dimension: d as usize, oscillation };
        let rounds = contraction.steps(0.5 * tau)?;
        // references beyond 2V: the forward step would have to move by V
        let strayed = (-0.5 * (radius / step_std - d.sqrt()).max(0.0).powi(2)).exp();
        // nine tenths of the proposals fall inside the radius, by far (in constant time: proved, see the radius)
        let least_acceptance = 0.9 * (-1.1 * (mean_gap + slack)).exp();
        let exhaustion = 0.01 * tau;
        let needed = ((rounds as f64 / exhaustion).ln() / -(-least_acceptance).ln_1p()).ceil();
        if self.constant_time && !(needed <= MAX_PROPOSALS) {
            return None;
        }
        let proposals = self.constant_time.then_some(needed as u64);
        let total_variation = contraction.total_variation(rounds)
            + 0.5 * (2.0 * oscillation).exp_m1()
            + escape
            + rounds as f64 * (per_step + strayed)
            + d * 2f64.powi(-51) // borders of the answer's cells
            + if self.constant_time { exhaustion + 1e-3 * tau } else { 0.0 };
        if !(total_variation <= tau && slack <= 0.1) {
            return None;
        }
        Some(GibbsChain {
            regularization: lambda,
            inverse_temperature: law.beta,
            norm: public.map(|term| term.norm),
            shrunk: self.shrunk(),
            rounds,
            step_std,
            total_variation,
            oscillation,
            least_acceptance,
            grid,
            start,
            domain: Domain::Whole { radius },
            oracle: Convexity {
                slack,
                loss_convexity: 0.0,
                reference_distance,
                references,
                proposals,
                constant_time: self.constant_time,
            },
        })
    }

    /// A bound on the root mean square of ‖θ‖_q under the law: E⟨∇H(θ), θ⟩ = d gives βλc·x² ≤ d + βnLCκ·x, ‖θ‖_p ≤ κ‖θ‖_q.
    fn typical_size(&self, term: &PublicTerm) -> f64 {
        let Some(LpGeometry { p, exponent, .. }) = self.geometry else { return f64::INFINITY };
        let d = term.norm.dimension;
        let pull = term.scale * self.rows as f64 * self.record_lipschitz() * d.powf(1.0 / p - 1.0 / exponent);
        let square = term.scale * term.weight * term.norm.coefficient;
        (pull + (pull * pull + 4.0 * square * d).sqrt()) / (2.0 * square)
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
}
