//! One draw from e^(−β(Σφ + (λ/2)‖θ − θ_c‖²)) by a certified chain, as one mechanism (spec 03 §3; docs/proofs/gibbs-gdp.md,
//! docs/proofs/proximal-sampler.md).

use super::minimiser::{Minimised, made_for};
use crate::curator::door::{Mechanism, sealed};
use crate::refused::CuratorError;
use crate::sampler::potential::GlmPotential;
use crate::sampler::{Chain, Domain, Oracle, Tally};
use dpopt_noise::{NoiseSource, Purpose};
use dpopt_objective::objective::Linear;
use dpopt_objective::records::Examples;
use dpopt_objective::solver::{RegularizedSum, minimise};
use dpopt_privacy::{Event, Relation, gibbs};

/// Where a chain starts; its certificate counts the distance to the minimiser.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Start {
    /// The solver's point, within what it promises for so many records: needs a smooth loss. The origin of coordinates moves there.
    Minimiser,
    /// The public centre: no look at the data before the first step.
    Centre,
}

/// The Gibbs measure of a regularised GLM objective, with all numbers of its chain.
#[derive(Clone, Debug)]
pub struct GibbsDraw {
    /// Σφ over rows of at most the norm that the temperature was chosen for.
    pub objective: Linear,
    /// Number of records; public.
    pub rows: u64,
    /// Largest |target|; targets are clamped to it.
    pub target_bound: f64,
    /// λ of the sum objective.
    pub regularization: f64,
    /// β: the potential is β·(Σφ + (λ/2)‖θ − θ_c‖²).
    pub scale: f64,
    /// Where the chain begins.
    pub start: Start,
    /// θ_c, a public grid point.
    pub centre: Vec<f64>,
    /// T.
    pub steps: u64,
    /// √η.
    pub step_std: f64,
    /// All of space within a radius of the start, or a public bounded set around 0.
    pub domain: Domain,
    /// The inner step of the chain.
    pub oracle: Oracle,
    /// Step of the public grid of the answer, a power of two.
    pub grid: f64,
    /// Bound on the total-variation distance of the chain's end from the exact law, as proved for these numbers.
    pub distance: f64,
    /// Under which the potentials of neighbours are compared.
    pub relation: Relation,
}

impl sealed::Sealed for GibbsDraw {}

impl Mechanism for GibbsDraw {
    type Input = Examples;
    type Output = Vec<f64>;

    fn event(&self) -> Event {
        // proved for rows of norm at most R and every target; without convexity there is no theorem
        let lipschitz = self.objective.known().convex_lipschitz();
        let difference = self.scale * gibbs::difference_lipschitz(lipschitz, self.relation);
        gibbs::event(difference, self.scale * self.regularization)
    }

    fn sampler_error(&self, _input: &Examples) -> f64 {
        self.distance
    }

    fn relation(&self) -> Option<Relation> {
        Some(self.relation)
    }

    fn label(&self) -> &'static str {
        "draw from the Gibbs measure"
    }

    fn check(&self, input: &Examples) -> Result<(), CuratorError> {
        made_for(&self.objective, input)?;
        let positive = |x: f64| x > 0.0 && x.is_finite();
        // the chain's certificate counts records and distances from 0; it has none where their number is protected
        let planned = self.relation != Relation::AddOrRemove
            && input.rows.len() as u64 == self.rows
            && self.centre.len() == self.objective.weights()
            && self.centre.iter().all(|c| *c == 0.0)
            && positive(self.scale)
            && positive(self.regularization);
        if planned { Ok(()) } else { Err(CuratorError::Shape) }
    }

    fn numbers(output: &Vec<f64>) -> Option<&[f64]> {
        Some(output)
    }

    fn apply(&self, input: &Examples, noise: &mut NoiseSource) -> Result<Vec<f64>, CuratorError> {
        Ok(self.walk(input, noise).0)
    }
}

impl GibbsDraw {
    /// The answer, and what it cost: the latter depends on the records unless the oracle takes constant time.
    pub fn walk(&self, input: &Examples, noise: &mut NoiseSource) -> (Vec<f64>, Tally) {
        let origin = self.origin(input);
        let potential = GlmPotential::new(
            &input.rows,
            &input.targets,
            self.objective.loss(),
            self.target_bound,
            self.scale,
            &origin,
        );
        let chain = Chain {
            steps: self.steps,
            step_std: self.step_std,
            convexity: self.scale * self.regularization,
            centre: self.centre.iter().zip(&origin).map(|(c, o)| c - o).collect(),
            domain: self.domain.clone(),
            oracle: self.oracle.clone(),
            grid: self.grid,
        };
        let start = vec![0.0; origin.len()];
        let (last, tally) = chain.run(&potential, &start, &mut noise.stream(Purpose::Sampling, 0));
        // out of proposals: the public centre; the chance of that is part of the certificate
        let Ok(last) = last else { return (self.centre.clone(), tally) };
        let mut answer: Vec<f64> = last.iter().zip(&origin).map(|(v, o)| v + o).collect();
        if !matches!(self.domain, Domain::Whole { .. }) {
            self.domain.project(&mut answer); // a grid point may lie outside by a rounding
        }
        (answer, tally)
    }

    /// Where the coordinates of the chain begin: a grid point.
    fn origin(&self, input: &Examples) -> Vec<f64> {
        match self.start {
            Start::Centre if matches!(self.domain, Domain::Whole { .. }) => self.centre.clone(),
            Start::Centre => vec![0.0; self.centre.len()],
            Start::Minimiser => {
                // ∇(λ/2)‖θ − θ_c‖² = λθ − λθ_c
                let linear: Vec<f64> = self.centre.iter().map(|c| -self.regularization * c).collect();
                let sum = (self.regularization, &linear[..]);
                let objective = RegularizedSum::of(input, &self.objective, sum, self.target_bound);
                let promised = Minimised {
                    objective: &self.objective,
                    most_rows: self.rows,
                    regularization: self.regularization,
                    linear_norm: 0.0,
                    target_bound: self.target_bound,
                };
                let minimiser = minimise(&objective, promised.accuracy()).theta.rounded();
                minimiser.iter().map(|x| (x / self.grid).round() * self.grid).collect()
            }
        }
    }
}
