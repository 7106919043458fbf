//! Objective perturbation as one mechanism: a secret linear term, an exact-enough minimiser, closing noise
//! (docs/proofs/objective-perturbation.md).
//!
//! The closing noise is not optional: with b on a grid (or in floating point) the possible minimisers of two neighbours
//! are different finite sets, so the minimiser alone has no differential privacy at all.

use super::solved::sealed::Solved as _;
use super::solved::{Minimised, SolvedRecords};
use crate::sums::laplace::rounded_laplace;
use dpopt_kernel::beside::{Sealed, add_rounded_gaussian, rounded_gaussian};
use dpopt_kernel::{CuratorError, GridSum, Mechanism, SamplerError};
use dpopt_noise::{Grid, NoiseSource, Purpose};
use dpopt_objective::objective::{Fact, Linear};
use dpopt_objective::records::Examples;
use dpopt_privacy::event::GlmLink;
use dpopt_privacy::{Event, Relation};
use std::marker::PhantomData;

/// No normal draw is larger, in standard deviations, but with probability 2·10^-38 < 2^-110.
const LARGEST_NORMAL: f64 = 13.0;

/// Upper bound on the norm of a Gaussian linear term with `weights` entries, but for that probability each: what the solver's
/// promise for a perturbed objective is made for.
pub fn largest_linear_term(std: f64, weights: usize) -> f64 {
    LARGEST_NORMAL * 1.001 * std * (weights as f64).sqrt()
}

/// Grid for a d-vector of sensitivity Δ: fine against the noise, and h√d far below Δ.
pub fn closing_grid(noise_std: f64, sensitivity: f64, dimension: usize) -> Grid {
    let step = (noise_std * 2f64.powi(-10)).min(sensitivity * 2f64.powi(-10) / (dimension as f64).sqrt());
    Grid::new(step.log2().floor() as i32)
}

/// argmin Σφ + (λ/2)‖θ‖² + b·θ with b ~ N(0, σ²I), plus Gaussian noise that covers the solver's error.
#[derive(Clone, Debug)]
pub struct PerturbedObjective<R = Examples> {
    /// Σφ over rows of at most the norm that the noise was made for.
    pub objective: Linear,
    /// z: standard deviation of b over R·C. C is the slope bound; 1 for softmax, whose √2 the accountants add.
    pub noise_multiplier: f64,
    /// λ of the sum objective over R²·C.
    pub relative_regularization: f64,
    /// Grid of the linear term.
    pub linear_grid: Grid,
    /// A bound on the number of records; public where that number is protected.
    pub most_rows: u64,
    /// Standard deviation of the closing noise over the largest distance of both neighbours' points from the exact minimiser.
    pub closing_multiplier: f64,
    /// Grid of the closing noise.
    pub closing_grid: Grid,
    /// Largest |target| of regression losses; targets are clamped to it.
    pub target_bound: f64,
    /// Which data sets are neighbours.
    pub relation: Relation,
    /// The kind of the records, local or remote: decides how their sums are added up.
    pub records: PhantomData<fn(&R)>,
}

impl<R: SolvedRecords> PerturbedObjective<R> {
    /// C of the units that the proof divides by; infinite for a loss without one, which no proof covers.
    fn slope(&self) -> f64 {
        let loss = self.objective.loss().facts();
        match loss.link {
            Some(GlmLink::Softmax { .. }) => 1.0,
            Some(_) => loss.lipschitz.unwrap_or(f64::INFINITY),
            None => f64::INFINITY,
        }
    }

    /// λ of the sum objective.
    pub fn regularization(&self) -> f64 {
        self.relative_regularization * self.slope() * self.objective.row_norm() * self.objective.row_norm()
    }

    /// Standard deviation of the linear term b.
    pub(crate) fn linear_std(&self) -> f64 {
        self.noise_multiplier * self.slope() * self.objective.row_norm()
    }

    fn minimised(&self) -> Minimised<'_> {
        Minimised {
            objective: &self.objective,
            most_rows: self.most_rows,
            regularization: self.regularization(),
            linear_norm: largest_linear_term(self.linear_std(), self.objective.weights()),
            target_bound: self.target_bound,
        }
    }

    /// Standard deviation of the closing noise.
    pub fn closing_std(&self) -> f64 {
        let root = (self.objective.weights() as f64).sqrt();
        // the grid of b is a part of the gradient at the answer
        let reached = self.minimised().accuracy(R::INTEGERS).tolerance + 0.5 * self.linear_grid.step() * root;
        let deviation = (2.0 * reached / self.regularization() + self.closing_grid.step() * root) * (1.0 + 1e-12);
        // both neighbours' points lie around the *same* exact minimiser: this is the whole change, also for replace-one
        self.closing_multiplier * deviation / self.relation.sum_sensitivity()
    }
}

impl<R> Sealed for PerturbedObjective<R> {}

impl<R: SolvedRecords> Mechanism for PerturbedObjective<R> {
    type Input = R;
    type Output = Vec<f64>;

    fn event(&self) -> Event {
        let Some(link) = self.objective.loss().facts().link else { return Event::NonPrivate };
        let main = Event::ObjectivePerturbation {
            noise_multiplier: self.noise_multiplier,
            regularization: self.relative_regularization,
            link,
        };
        Event::composed(vec![main, Event::gaussian(self.closing_multiplier)])
    }

    fn sampler_error(&self, _input: &R) -> f64 {
        // both noises, and that no entry of b is above 13σ (2·10^-38): the solver's promise is for such b
        SamplerError::rounded(3.0 * self.objective.weights() as f64).total_variation()
    }

    fn relation(&self) -> Option<Relation> {
        Some(self.relation)
    }

    fn label(&self) -> &'static str {
        "minimiser of the perturbed objective"
    }

    fn can_draw(&self) -> Result<(), CuratorError> {
        rounded_gaussian(self.linear_std(), self.linear_grid)?;
        rounded_gaussian(self.closing_std(), self.closing_grid).map(drop)
    }

    fn check(&self, input: &R) -> Result<(), CuratorError> {
        self.minimised().check(input, self.relation)
    }

    fn numbers(output: &Vec<f64>) -> Option<&[f64]> {
        Some(output)
    }

    fn apply(&self, input: &R, noise: &mut NoiseSource) -> Result<Vec<f64>, CuratorError> {
        let mut b = vec![0i64; self.objective.weights()];
        add_rounded_gaussian(&mut b, self.linear_std(), self.linear_grid, noise)?;
        let linear: Vec<f64> = b.iter().map(|&u| self.linear_grid.to_f64(u)).collect();
        let minimiser = input.minimised(&self.minimised(), &linear)?;
        let mut quanta = GridSum::of_query(minimiser.into_iter(), self.closing_grid, 0.0).into_quanta();
        add_rounded_gaussian(&mut quanta, self.closing_std(), self.closing_grid, noise)?;
        Ok(quanta.into_iter().map(|u| self.closing_grid.to_f64(u)).collect())
    }
}

/// argmin Σφ + (λ/2)‖θ‖² with Gaussian noise for how far one record moves it: L/λ, and what the solver and the grid add.
/// Event: `Gaussian(z)`.
#[derive(Clone, Debug)]
pub struct PerturbedMinimiser<R = Examples> {
    /// Σφ over rows of at most the norm that the noise is made for.
    pub objective: Linear,
    /// λ of the sum objective.
    pub regularization: f64,
    /// A bound on the number of records; public where that number is protected.
    pub most_rows: u64,
    /// Which data sets are neighbours.
    pub relation: Relation,
    /// z: noise over the sensitivity.
    pub noise_multiplier: f64,
    /// Grid of the noise.
    pub grid: Grid,
    /// Largest |target| of regression losses; targets are clamped to it.
    pub target_bound: f64,
    /// The kind of the records, local or remote: decides how their sums are added up.
    pub records: PhantomData<fn(&R)>,
}

impl<R: SolvedRecords> PerturbedMinimiser<R> {
    fn minimised(&self) -> Minimised<'_> {
        let (most_rows, regularization, target_bound) = (self.most_rows, self.regularization, self.target_bound);
        Minimised { objective: &self.objective, most_rows, regularization, linear_norm: 0.0, target_bound }
    }

    /// How far one record's presence moves the rounded answer; infinite for a loss that no theorem covers.
    pub fn sensitivity(&self) -> f64 {
        let lipschitz = self.objective.known().convex_lipschitz();
        let bare = (lipschitz + 2.0 * self.minimised().accuracy(R::INTEGERS).tolerance) / self.regularization;
        (bare + self.grid.step() * (self.objective.weights() as f64).sqrt()) * (1.0 + 1e-12)
    }

    /// Standard deviation of each weight's noise.
    pub fn noise_std(&self) -> f64 {
        self.sensitivity() * self.noise_multiplier
    }
}

impl<R> Sealed for PerturbedMinimiser<R> {}

impl<R: SolvedRecords> Mechanism for PerturbedMinimiser<R> {
    type Input = R;
    type Output = Vec<f64>;

    fn event(&self) -> Event {
        Event::gaussian(self.noise_multiplier)
    }

    fn sampler_error(&self, _input: &R) -> f64 {
        SamplerError::rounded(self.objective.weights() as f64).total_variation()
    }

    fn relation(&self) -> Option<Relation> {
        Some(self.relation)
    }

    fn label(&self) -> &'static str {
        "regularised minimiser"
    }

    fn can_draw(&self) -> Result<(), CuratorError> {
        rounded_gaussian(self.noise_std(), self.grid).map(drop)
    }

    fn check(&self, input: &R) -> Result<(), CuratorError> {
        self.minimised().check(input, self.relation)
    }

    fn numbers(output: &Vec<f64>) -> Option<&[f64]> {
        Some(output)
    }

    fn apply(&self, input: &R, noise: &mut NoiseSource) -> Result<Vec<f64>, CuratorError> {
        let zero = vec![0.0; self.objective.weights()];
        let minimiser = input.minimised(&self.minimised(), &zero)?;
        let mut quanta = GridSum::of_query(minimiser.into_iter(), self.grid, 0.0).into_quanta();
        add_rounded_gaussian(&mut quanta, self.noise_std(), self.grid, noise)?;
        Ok(quanta.into_iter().map(|u| self.grid.to_f64(u)).collect())
    }
}

/// What moves argmin Σφ + (λ/2)‖θ‖² when one record's presence changes, all public.
#[derive(Clone, Copy, Debug)]
pub struct MinimiserReach {
    /// L: bound on a record's gradient.
    pub lipschitz: f64,
    /// H: bound on a record's curvature.
    pub smoothness: f64,
    /// s: bound on the non-zeros of a record's gradient.
    pub sparsity: f64,
    /// Number d of weights.
    pub dimension: f64,
    /// Records that two neighbours share; infinite if their number is protected.
    pub common: f64,
}

impl MinimiserReach {
    /// The reach for rows with at most `nonzeros` non-zeros, so many `records` (`None` where their number is protected). Infinite for a loss
    /// that no theorem covers.
    pub fn of(objective: &Linear, nonzeros: usize, records: Option<u64>) -> Self {
        let known = objective.known();
        let of = |fact: Option<Fact>| fact.filter(|_| known.convex().is_some()).map_or(f64::INFINITY, Fact::value);
        let dimension = objective.weights();
        Self {
            lipschitz: of(known.lipschitz()),
            smoothness: of(known.smoothness()),
            sparsity: (nonzeros.max(1) * objective.loss().outputs()).min(dimension) as f64,
            dimension: dimension as f64,
            common: records.map_or(f64::INFINITY, |n| n as f64 - 1.0),
        }
    }

    /// Sensitivity of the exact minimiser in l2 norm, plus twice the solver's error; without rounding.
    pub fn in_l2(&self, lambda: f64, tolerance: f64) -> f64 {
        self.lipschitz / lambda + 2.0 * tolerance / lambda
    }

    /// Sensitivity of the exact minimiser in l1 norm, plus twice the solver's error; without rounding.
    ///
    /// λ·(θ̂ − θ̂′) is the change of the gradient: the one record's own gradient, and that of the others, whose
    /// differences are multiples of their rows: at most H·‖θ̂ − θ̂′‖₂ each, spread over s entries.
    pub fn in_l1(&self, lambda: f64, tolerance: f64) -> f64 {
        let own = self.sparsity.sqrt() * self.lipschitz / lambda;
        let spread = own * (1.0 + self.common * self.smoothness / lambda);
        spread.min(self.dimension.sqrt() * (self.lipschitz / lambda)) + 2.0 * self.dimension.sqrt() * tolerance / lambda
    }
}

/// argmin Σφ + (λ/2)‖θ‖² with Laplace noise for how far one record moves it in l1 norm, rows being sparse: scaled down to l1 norm
/// R√s first. Event: `Laplace(z)` (docs/proofs/sparse-output-perturbation.md).
#[derive(Clone, Debug)]
pub struct LaplaceMinimiser {
    /// Σφ over rows of at most the norm that the noise is made for.
    pub objective: Linear,
    /// s: bound on the non-zeros of a row.
    pub nonzeros: usize,
    /// Number of records; not looked at where it is protected.
    pub records: u64,
    /// A bound on the number of records; public where that number is protected.
    pub most_rows: u64,
    /// Which data sets are neighbours.
    pub relation: Relation,
    /// λ of the sum objective.
    pub regularization: f64,
    /// z: scale over the sensitivity.
    pub noise_multiplier: f64,
    /// Grid of the noise.
    pub grid: Grid,
    /// Largest |target| of regression losses; targets are clamped to it.
    pub target_bound: f64,
}

impl LaplaceMinimiser {
    /// l1 norm that rows are scaled down to.
    pub(crate) fn row_l1_norm(&self) -> f64 {
        (self.nonzeros.max(1) as f64).sqrt() * self.objective.row_norm()
    }

    /// The number of records, where it is public.
    fn counted(&self) -> Option<u64> {
        (self.relation != Relation::AddOrRemove).then_some(self.records)
    }

    /// What the sensitivity depends on.
    fn reach(&self) -> MinimiserReach {
        MinimiserReach::of(&self.objective, self.nonzeros, self.counted())
    }

    fn minimised(&self) -> Minimised<'_> {
        let (most_rows, regularization, target_bound) = (self.most_rows, self.regularization, self.target_bound);
        Minimised { objective: &self.objective, most_rows, regularization, linear_norm: 0.0, target_bound }
    }

    /// How far one record's presence moves the rounded answer: each world's moves by at most h/2 per coordinate.
    pub(crate) fn sensitivity(&self) -> f64 {
        let bare = self.reach().in_l1(self.regularization, self.minimised().accuracy(false).tolerance);
        (bare + self.grid.step() * self.objective.weights() as f64) * (1.0 + 1e-12)
    }
}

impl Sealed for LaplaceMinimiser {}

impl Mechanism for LaplaceMinimiser {
    type Input = Examples;
    type Output = Vec<f64>;

    fn event(&self) -> Event {
        Event::laplace(self.noise_multiplier)
    }

    fn sampler_error(&self, _input: &Examples) -> f64 {
        SamplerError::fine(self.objective.weights() as f64).total_variation()
    }

    /// The bound in l1 norm counts the records that two neighbours share.
    fn relation(&self) -> Option<Relation> {
        Some(self.relation)
    }

    fn label(&self) -> &'static str {
        "regularised minimiser"
    }

    fn can_draw(&self) -> Result<(), CuratorError> {
        rounded_laplace(self.noise_multiplier * self.sensitivity(), self.grid).map(drop)
    }

    fn check(&self, input: &Examples) -> Result<(), CuratorError> {
        self.minimised().check(input, self.relation)?;
        let planned = self.counted().is_none_or(|n| n == input.rows.len() as u64);
        if planned { Ok(()) } else { Err(CuratorError::Shape) }
    }

    fn numbers(output: &Vec<f64>) -> Option<&[f64]> {
        Some(output)
    }

    fn apply(&self, input: &Examples, noise: &mut NoiseSource) -> Result<Vec<f64>, CuratorError> {
        let enforced = Examples { rows: input.rows.within_l1(self.row_l1_norm()), targets: input.targets.clone() };
        let zero = vec![0.0; self.objective.weights()];
        let minimiser = enforced.minimised(&self.minimised(), &zero)?;
        let mut quanta = GridSum::of_query(minimiser.into_iter(), self.grid, 0.0).into_quanta();
        let sampler = rounded_laplace(self.noise_multiplier * self.sensitivity(), self.grid)?;
        sampler.add_to(&mut quanta, &mut noise.stream(Purpose::Noise, 0));
        Ok(quanta.into_iter().map(|u| self.grid.to_f64(u)).collect())
    }
}
