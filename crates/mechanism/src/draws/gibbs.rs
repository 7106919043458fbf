//! One draw from e^(−β(Σφ + λr(θ))), r = ‖θ‖²/2 or a squared norm of another geometry, by a certified chain (Liu 2024, Theorems 3.1.5 and 4.4.2;
//! docs/proofs/gibbs-gdp.md, docs/proofs/proximal-sampler.md).

use super::gibbs_chain::{GibbsChain, GibbsFacts, Start};
use super::solved::made_for;
use crate::sampler::norm_square::WithNorm;
use crate::sampler::potential::GlmPotential;
use crate::sampler::{Chain, Domain, Oracle, Tally};
use dpopt_kernel::beside::Sealed;
use dpopt_kernel::{CuratorError, Mechanism};
use dpopt_noise::{NoiseSource, Purpose};
use dpopt_objective::records::Examples;
use dpopt_objective::solver::{RegularizedSum, minimise};
use dpopt_privacy::{Event, Relation, gibbs};

/// The Gibbs measure of a regularised GLM objective, with the chain that was proved for it: [`GibbsFacts::draw`] makes it.
#[derive(Clone, Debug)]
pub struct GibbsDraw {
    facts: GibbsFacts,
    pub(crate) chain: GibbsChain,
}

impl GibbsFacts {
    /// The draw at λ > 0 of the sum objective, its chain proved from these facts. `None` if there is no certificate: rounding or the
    /// number of rounds does not fit τ, the loss is not convex with a bounded slope, or the number of records is protected.
    pub fn draw(&self, lambda: f64) -> Option<GibbsDraw> {
        Some(GibbsDraw { facts: *self, chain: self.chain(lambda)? })
    }
}

impl Sealed for GibbsDraw {}

impl Mechanism for GibbsDraw {
    type Input = Examples;
    type Output = Vec<f64>;

    fn event(&self) -> Event {
        // proved for rows of norm at most R and every target; without convexity there is no theorem
        let GibbsChain { inverse_temperature, regularization, .. } = self.chain;
        gibbs::event(inverse_temperature * self.facts.difference_lipschitz(), inverse_temperature * regularization)
    }

    fn sampler_error(&self, _input: &Examples) -> f64 {
        self.chain.total_variation
    }

    fn relation(&self) -> Option<Relation> {
        Some(self.facts.relation)
    }

    fn label(&self) -> &'static str {
        "draw from the Gibbs measure"
    }

    fn check(&self, input: &Examples) -> Result<(), CuratorError> {
        made_for(&self.facts.objective, input)?;
        // the chain's certificate counts records
        if input.rows.len() as u64 == self.facts.rows { Ok(()) } else { Err(CuratorError::Shape) }
    }

    fn numbers(output: &Vec<f64>) -> Option<&[f64]> {
        Some(output)
    }

    fn apply(&self, input: &Examples, noise: &mut NoiseSource) -> Result<Vec<f64>, CuratorError> {
        Ok(self.walk(input, noise).0)
    }
}

impl GibbsDraw {
    /// What it was made from.
    pub fn facts(&self) -> &GibbsFacts {
        &self.facts
    }

    /// The chain of the draw, with its proved numbers.
    pub fn chain(&self) -> &GibbsChain {
        &self.chain
    }

    /// The answer, and what it cost: the latter depends on the records unless the oracle takes constant time.
    pub fn walk(&self, input: &Examples, noise: &mut NoiseSource) -> (Vec<f64>, Tally) {
        let proved = &self.chain;
        let origin = self.origin(input);
        let shrunk = proved.shrunk.map(|(order, bound)| input.rows.within_norm(order, bound));
        let losses = GlmPotential::new(
            shrunk.as_ref().unwrap_or(&input.rows),
            &input.targets,
            self.facts.objective.loss(),
            self.facts.target_bound,
            proved.inverse_temperature,
            &origin,
        );
        let chain = Chain {
            steps: proved.rounds,
            step_std: proved.step_std,
            convexity: proved.inverse_temperature * proved.regularization * proved.norm.map_or(1.0, |r| r.convexity),
            // of the quadratic: 0, as seen from the origin
            centre: origin.iter().map(|o| 0.0 - o).collect(),
            domain: proved.domain.clone(),
            oracle: Oracle::Convexity(proved.oracle.clone()),
            grid: proved.grid,
        };
        let start = vec![0.0; origin.len()];
        let mut stream = noise.stream(Purpose::Sampling, 0);
        let (last, tally) = match proved.norm {
            None => chain.run(&losses, &start, &mut stream),
            Some(norm) => chain.run(&WithNorm { losses, norm, weight: proved.regularization }, &start, &mut stream),
        };
        // out of proposals: the public centre; the chance of that is part of the certificate
        let Ok(last) = last else { return (start, tally) };
        let mut answer: Vec<f64> = last.iter().zip(&origin).map(|(v, o)| v + o).collect();
        if !matches!(proved.domain, Domain::Whole { .. }) {
            proved.domain.project(&mut answer); // a grid point may lie outside by a rounding
        }
        (answer, tally)
    }

    /// Where the coordinates of the chain begin: a grid point.
    fn origin(&self, input: &Examples) -> Vec<f64> {
        let GibbsFacts { objective, target_bound, .. } = &self.facts;
        let GibbsChain { regularization, grid, .. } = self.chain;
        let zero = vec![0.0; objective.weights()];
        match self.chain.start {
            Start::Centre => zero,
            Start::Minimiser => {
                let sum = RegularizedSum::of(input, objective, (regularization, &zero), *target_bound);
                let promised = self.facts.minimised(regularization).accuracy(false);
                minimise(&sum, promised).theta.rounded().iter().map(|x| (x / grid).round() * grid).collect()
            }
        }
    }
}

#[cfg(test)]
#[path = "gibbs_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "general_norm_tests.rs"]
mod general_norm_tests;
