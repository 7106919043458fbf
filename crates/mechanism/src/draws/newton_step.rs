//! The step H⁻¹g̃ of double-noise Newton, with noise fitted to the released ‖g̃‖ (Ganesh, Haghifam, Steinke, Thakurta 2023;
//! docs/proofs/noisy-newton.md). The matrix H itself never leaves.

use super::minimiser::closing_grid;
use super::solved::{SolvedRecords, made_for, majorant_here};
use dpopt_kernel::beside::{Sealed, add_rounded_gaussian, rounded_gaussian};
use dpopt_kernel::{CuratorError, GridSum, Mechanism, SamplerError};
use dpopt_noise::{Grid, NoiseSource};
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::Linear;
use dpopt_objective::records::Examples;
use dpopt_objective::solver::{Factor, RegularizedSum, Spectrum, UNIT, decomposition_error, dot, norm};
use dpopt_privacy::{Event, Relation};
use serde::Serialize;
use std::marker::PhantomData;

/// How H is kept away from singular.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Inverse {
    /// Eigenvalues below λ0 are raised to λ0. Sensitivity β‖g̃‖/λ0².
    #[default]
    Clip,
    /// λ0 is added to all eigenvalues. Sensitivity β‖g̃‖/(λ0² + βλ0).
    Add,
}

/// What the sensitivity of a step follows from, all public.
#[derive(Clone, Copy, Debug)]
pub struct NewtonFacts {
    /// A logistic loss of rows of at most its norm R.
    pub objective: Linear,
    /// A bound on the number of records.
    pub most_rows: u64,
    /// Which data sets are neighbours.
    pub relation: Relation,
    /// λ0: what keeps the curvature away from 0.
    pub regularization: f64,
    /// How the curvature is inverted.
    pub inverse: Inverse,
    /// Whether the curvature is a sum of integers, as for remote records. What each record adds is the square of a rounded
    /// row; [`Inverse::Add`] is not proved for that.
    pub integers: bool,
}

impl NewtonFacts {
    /// β = R²/4: bound on a record's share of H.
    pub(crate) fn curvature(&self) -> f64 {
        0.25 * self.objective.row_norm() * self.objective.row_norm()
    }

    /// Bound on the norm ‖H‖ of the curvature.
    pub(crate) fn matrix_bound(&self) -> f64 {
        self.most_rows as f64 * self.curvature()
    }

    /// Bound on what floating point does to H, as an error of H: rounding of the sum over any number of records that the plan
    /// allows, in blocks ([`RegularizedSum::dense_hessian`]), and the decomposition's residual and skewness.
    pub(crate) fn matrix_error(&self) -> f64 {
        let (n, d) = (self.most_rows as f64, self.objective.features());
        let (bound, lambda) = (n * 0.25 * self.objective.row_norm() * self.objective.row_norm(), self.regularization);
        // an exact sum is rounded when it becomes a float and is divided by 41/29; in floats: products, the sum within a block, over blocks and over chunks
        let roundings = if self.integers { 4.0 } else { 32.0 + RegularizedSum::summation_depth(n, d) };
        let sum = UNIT * roundings * bound;
        sum + decomposition_error(d) * 3.0 * (bound + lambda) + 4.0 * d as f64 * UNIT * lambda
    }

    /// Whether the bound covers what the machine does: λ0 is positive, and for [`Inverse::Add`] so large that the factor is sure to exist
    /// and refinement to converge; neither may fail for some data only.
    pub fn are_proved(&self) -> bool {
        let (d, lambda) = (self.objective.features() as f64, self.regularization);
        let digits = (1e3 * d).max(40.0 * d * d) * UNIT;
        let factored = digits * (self.matrix_bound() + lambda) <= 0.1 * lambda && self.matrix_error() <= 0.01 * lambda;
        let logistic = matches!(self.objective.loss(), Loss::Logistic { .. });
        let inverted = self.inverse == Inverse::Clip || (factored && !self.integers);
        logistic && lambda > 0.0 && lambda.is_finite() && inverted
    }

    /// (Sensitivity of a step over ‖g̃‖ as one record's share under the relation, residual of the solver over ‖g̃‖.)
    pub fn sensitivity(&self) -> (f64, f64) {
        let (beta, lambda, matrix_error) = (self.curvature(), self.regularization, self.matrix_error());
        match (self.inverse, self.relation) {
            (Inverse::Clip, relation) => {
                let pair = match (relation, self.integers) {
                    (Relation::ReplaceOne, false) => std::f64::consts::SQRT_2,
                    // two rounded products: the triangle inequality, and no more
                    (Relation::ReplaceOne, true) => 2.0,
                    _ => 1.0,
                };
                let change = (pair * beta + 2.0 * matrix_error) / (lambda * lambda);
                (change / relation.sum_sensitivity(), 0.0)
            }
            (Inverse::Add, relation) => {
                let pair = relation.sum_sensitivity();
                // certified residual ‖(H+λ0)s − g̃‖ ≤ r‖g̃‖: error r/λ0 on each side, plus the rounding of H itself
                let residual = 1e-6f64.max(8.0 * matrix_error / lambda);
                let change = pair * beta / (lambda * lambda + beta * lambda)
                    + 2.0 * residual / lambda
                    + 2.0 * matrix_error / (lambda * lambda);
                (change / pair, residual)
            }
        }
    }

    /// inv(H)·g with H = Σ h_i x_i x_iᵀ at `theta`.
    pub fn direction(&self, examples: &Examples, theta: &[f64], g: &[f64]) -> Vec<f64> {
        self.inverted(majorant_here(examples, &self.objective, theta), g)
    }

    /// inv(H)·g, given H row by row.
    fn inverted(&self, mut matrix: Vec<f64>, g: &[f64]) -> Vec<f64> {
        let (d, lambda) = (g.len(), self.regularization);
        let zero = vec![0.0; d];
        if self.inverse == Inverse::Clip {
            return Spectrum::certified(&matrix, d, self.matrix_bound()).apply(|w| 1.0 / w.max(lambda), g);
        }
        (0..d).for_each(|j| matrix[j * d + j] += lambda);
        // λ0 was planned so far above the rounding of H that its factor exists (Higham 2002, theorem 10.7)
        let Some(factor) = Factor::of(&matrix, d) else { return zero };
        let residual_of =
            |x: &[f64]| -> Vec<f64> { (0..d).map(|j| g[j] - dot(&matrix[j * d..(j + 1) * d], x)).collect() };
        let (_, allowed) = self.sensitivity();
        let mut step = zero;
        let mut residual = g.to_vec();
        // the plan made sure that the factor's backward error is far below λ0: each pass shrinks the residual tenfold
        for _ in 0..20 {
            if norm(&residual) <= 0.5 * allowed * norm(g) {
                break;
            }
            let more = factor.solve(&residual);
            step.iter_mut().zip(&more).for_each(|(x, m)| *x += m);
            residual = residual_of(&step);
        }
        step
    }
}

/// inv(H(θ))·g̃ for released θ and g̃, plus Gaussian noise for how far one record moves it. Event: `Gaussian(z)`.
#[derive(Clone, Debug)]
pub struct NewtonStep<'a, R = Examples> {
    /// What its sensitivity follows from.
    pub facts: NewtonFacts,
    /// The released weights θ.
    pub theta: &'a [f64],
    /// The released noisy gradient g̃, not 0.
    pub gradient: &'a [f64],
    /// z: noise over the sensitivity.
    pub noise_multiplier: f64,
    /// The kind of the records, local or remote: decides how their sums are added up.
    pub records: PhantomData<fn(&R)>,
}

impl<R: SolvedRecords> NewtonStep<'_, R> {
    /// ‖g̃‖ is public by now: scale, grid and noise may depend on it. (Grid, sensitivity of the rounded step.)
    fn scale(&self) -> (Grid, f64) {
        let d = self.gradient.len();
        let bare = self.facts.sensitivity().0 * norm(self.gradient);
        let grid = closing_grid(self.noise_multiplier * bare, bare, d);
        (grid, (bare + grid.step() * (d as f64).sqrt()) * (1.0 + 1e-12))
    }

    /// Standard deviation of each weight's noise.
    pub fn noise_std(&self) -> f64 {
        self.noise_multiplier * self.scale().1
    }
}

impl<R> Sealed for NewtonStep<'_, R> {}

impl<R: SolvedRecords> Mechanism for NewtonStep<'_, R> {
    type Input = R;
    type Output = Vec<f64>;

    fn event(&self) -> Event {
        Event::gaussian(self.noise_multiplier)
    }

    fn sampler_error(&self, _input: &R) -> f64 {
        SamplerError::rounded(self.gradient.len() as f64).total_variation()
    }

    fn relation(&self) -> Option<Relation> {
        Some(self.facts.relation)
    }

    fn label(&self) -> &'static str {
        "newton step"
    }

    fn can_draw(&self) -> Result<(), CuratorError> {
        rounded_gaussian(self.noise_std(), self.scale().0).map(drop)
    }

    fn check(&self, input: &R) -> Result<(), CuratorError> {
        made_for(&self.facts.objective, input)?;
        let d = self.facts.objective.weights();
        let counted = self.facts.relation == Relation::AddOrRemove || input.len() as u64 <= self.facts.most_rows;
        let size = norm(self.gradient);
        let proved = self.facts.are_proved() && self.facts.integers == R::INTEGERS && size > 0.0 && size.is_finite();
        let shaped = self.gradient.len() == d && self.theta.len() == d;
        if counted && proved && shaped { Ok(()) } else { Err(CuratorError::Shape) }
    }

    fn numbers(output: &Vec<f64>) -> Option<&[f64]> {
        Some(output)
    }

    fn apply(&self, input: &R, noise: &mut NoiseSource) -> Result<Vec<f64>, CuratorError> {
        let grid = self.scale().0;
        let direction = self
            .facts
            .inverted(input.majorant(&self.facts.objective, self.facts.most_rows, self.theta)?, self.gradient);
        let mut units = GridSum::of_query(direction.into_iter(), grid, 0.0).into_quanta();
        add_rounded_gaussian(&mut units, self.noise_std(), grid, noise)?;
        Ok(units.into_iter().map(|u| grid.to_f64(u)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LaplaceMinimiser;
    use dpopt_kernel::{Curator, Sensitive};
    use dpopt_objective::records::Rows;
    use dpopt_privacy::{Budget, Neighbours, certify};

    fn examples(n: usize) -> Sensitive<Examples> {
        let mut rows = Rows::new(2);
        (0..n).for_each(|_| rows.push_clipped(&mut [(0, 0.6), (1, 0.8)], 1.0));
        Sensitive::new(Examples { rows, targets: vec![1.0; n] })
    }

    fn released<M: Mechanism<Input = Examples>>(mechanism: &M, under: Relation, n: usize) -> Result<(), CuratorError> {
        let terms = Neighbours::of_records(under).within(Budget::new(50.0, 1e-5).unwrap());
        let event = SamplerError::rounded(2.0).on(mechanism.event());
        let mut curator = Curator::new(&certify(&event, terms).unwrap(), NoiseSource::insecure(1));
        curator.release(mechanism, &examples(n)).map(drop)
    }

    #[test]
    fn a_step_is_refused_where_its_bound_is_not_proved() {
        let logistic = Loss::Logistic { shift: 0.0 };
        let facts = NewtonFacts {
            objective: Linear::new(logistic, 2, 1.0),
            most_rows: 5,
            relation: Relation::ZeroOut,
            regularization: 1.0,
            inverse: Inverse::Clip,
            integers: false,
        };
        let of = |facts: NewtonFacts, gradient: &[f64], n: usize| {
            let step = NewtonStep { facts, theta: &[0.0, 0.0], gradient, noise_multiplier: 3.0, records: PhantomData };
            released(&step, Relation::ZeroOut, n)
        };
        let g = [0.5, -1.0];
        assert_eq!(of(facts, &g, 5), Ok(()));
        assert_eq!(of(NewtonFacts { inverse: Inverse::Add, ..facts }, &g, 5), Ok(()));
        // more rows than the rounding was bounded for; a step from nothing; no curvature, or less than none
        assert_eq!(of(facts, &g, 6), Err(CuratorError::Shape));
        for g in [&[0.0, 0.0][..], &[f64::NAN, 1.0], &[f64::INFINITY, 1.0], &[1.0]] {
            assert_eq!(of(facts, g, 5), Err(CuratorError::Shape), "{g:?}");
        }
        for regularization in [-1.0, 0.0, f64::NAN] {
            assert_eq!(of(NewtonFacts { regularization, ..facts }, &g, 5), Err(CuratorError::Shape));
        }
        // so little that the factor is not sure to exist; a loss without the theorem; longer rows than the facts are about
        let flat = NewtonFacts { inverse: Inverse::Add, regularization: 1e-14, ..facts };
        let squared = NewtonFacts { objective: facts.objective.with_loss(Loss::Squared), ..facts };
        assert_eq!(of(flat, &g, 5), Err(CuratorError::Shape));
        assert_eq!(of(squared, &g, 5), Err(CuratorError::Shape));
        let short = NewtonFacts { objective: Linear::new(logistic, 2, 0.5), ..facts };
        assert!(matches!(of(short, &g, 5), Err(CuratorError::Sensitivity { .. })));
        let step = NewtonStep { facts, theta: &[0.0, 0.0], gradient: &g, noise_multiplier: 3.0, records: PhantomData };
        assert!(matches!(released(&step, Relation::ReplaceOne, 5), Err(CuratorError::OtherRelation { .. })));
    }

    #[test]
    fn a_minimiser_in_l1_norm_is_for_its_relation_and_number_of_records() {
        let mechanism = |relation| LaplaceMinimiser {
            objective: Linear::new(Loss::Logistic { shift: 0.0 }, 2, 1.0),
            nonzeros: 1,
            records: 5,
            relation,
            regularization: 10.0,
            most_rows: 5,
            noise_multiplier: 3.0,
            grid: Grid::new(-30),
            target_bound: 1.0,
        };
        assert_eq!(released(&mechanism(Relation::ZeroOut), Relation::ZeroOut, 5), Ok(()));
        assert_eq!(released(&mechanism(Relation::ZeroOut), Relation::ZeroOut, 4), Err(CuratorError::Shape));
        // under add-or-remove the number is protected: neither looked at nor counted on
        assert_eq!(released(&mechanism(Relation::AddOrRemove), Relation::AddOrRemove, 4), Ok(()));
        assert!(mechanism(Relation::AddOrRemove).sensitivity() > mechanism(Relation::ZeroOut).sensitivity());
        for other in [Relation::ReplaceOne, Relation::AddOrRemove] {
            let refused = released(&mechanism(Relation::ZeroOut), other, 5);
            assert!(matches!(refused, Err(CuratorError::OtherRelation { .. })), "{refused:?}");
        }
    }
}
