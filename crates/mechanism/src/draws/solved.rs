//! Records whose certified minimiser, or curvature, a mechanism needs: local ones, in floats, or remote ones, in integers.

use dpopt_kernel::CuratorError;
use dpopt_kernel::beside::{remote_majorant, remote_sums};
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::Linear;
use dpopt_objective::records::{Examples, Records, RemoteRecords};
use dpopt_objective::solver::{Accuracy, AskedSum, IntegerSums, RegularizedSum, Scale, minimise, minimise_by_sums};
use dpopt_privacy::Relation;

/// Refuses rows of another width, or longer than the facts of `objective` say.
pub(crate) fn made_for<R: Records>(objective: &Linear, input: &R) -> Result<(), CuratorError> {
    let (norm, bound) = (input.norm_bound(), objective.row_norm());
    if norm > bound {
        return Err(CuratorError::Sensitivity { input: norm, mechanism: bound });
    }
    if input.columns() != objective.features() {
        return Err(CuratorError::Shape);
    }
    Ok(())
}

/// A sum of convex losses that is minimised, all public: what the solver promises for it follows from this alone.
#[derive(Clone, Copy, Debug)]
pub struct Minimised<'a> {
    pub(crate) objective: &'a Linear,
    pub(crate) most_rows: u64,
    pub(crate) regularization: f64,
    pub(crate) linear_norm: f64,
    pub(crate) target_bound: f64,
}

impl Minimised<'_> {
    /// The minimiser's sums, in integers.
    pub(crate) fn integers(&self) -> IntegerSums {
        IntegerSums::new(self.objective, self.most_rows, self.target_bound)
    }

    /// τ and the steps within which it is reached, whatever the records are, by sums in floats or in integers; an infinite τ, and so infinite noise,
    /// where nothing can be promised.
    pub(crate) fn accuracy(&self, integers: bool) -> Accuracy {
        let scale = Scale {
            rows: self.most_rows,
            row_norm: self.objective.row_norm(),
            loss: self.objective.loss(),
            regularization: self.regularization,
            linear_norm: self.linear_norm,
            target_bound: self.target_bound,
            grid_error: if integers { self.integers().grid_error() } else { 0.0 },
        };
        scale.accuracy().unwrap_or(Accuracy { tolerance: f64::INFINITY, steps: 0 })
    }

    /// Refuses rows that the promise does not hold for. Where their number is protected it is not looked at: that there are at most
    /// so many is public then.
    pub(crate) fn check<R: SolvedRecords>(&self, input: &R, relation: Relation) -> Result<(), CuratorError> {
        made_for(self.objective, input)?;
        let counted = relation == Relation::AddOrRemove || input.len() as u64 <= self.most_rows;
        if counted && self.accuracy(R::INTEGERS).tolerance.is_finite() { Ok(()) } else { Err(CuratorError::Shape) }
    }
}

/// Records that there is a solver for.
pub trait SolvedRecords: Records + sealed::Solved {
    /// Whether their sums are integers on a public grid, which is a part of what the solver promises.
    const INTEGERS: bool;
}

pub(crate) mod sealed {
    use super::{CuratorError, Linear, Minimised};

    /// What the solver gives, certified.
    pub trait Solved {
        /// argmin Σφ + (λ/2)‖θ‖² + b·θ, as promised.
        fn minimised(&self, sum: &Minimised<'_>, linear: &[f64]) -> Result<Vec<f64>, CuratorError>;
        /// Σ h_i·x_i x_iᵀ of a logistic loss at `theta`, row-major, of at most `most_rows` records.
        fn majorant(&self, objective: &Linear, most_rows: u64, theta: &[f64]) -> Result<Vec<f64>, CuratorError>;
    }
}

impl SolvedRecords for Examples {
    const INTEGERS: bool = false;
}

impl sealed::Solved for Examples {
    fn minimised(&self, sum: &Minimised<'_>, linear: &[f64]) -> Result<Vec<f64>, CuratorError> {
        let objective = RegularizedSum::of(self, sum.objective, (sum.regularization, linear), sum.target_bound);
        Ok(minimise(&objective, sum.accuracy(Self::INTEGERS)).theta.rounded())
    }

    fn majorant(&self, objective: &Linear, _: u64, theta: &[f64]) -> Result<Vec<f64>, CuratorError> {
        Ok(majorant_here(self, objective, theta))
    }
}

/// The matrix of rows in memory.
pub(crate) fn majorant_here(examples: &Examples, objective: &Linear, theta: &[f64]) -> Vec<f64> {
    let d = theta.len();
    let zero = vec![0.0; d];
    let shift = if let Loss::Logistic { shift } = objective.loss() { shift } else { 0.0 };
    let objective = RegularizedSum::of(examples, objective, (0.0, &zero), 1.0);
    let weights = objective.majorising_curvatures(theta, shift);
    let mut matrix = objective.dense_hessian(&weights);
    for j in 0..d {
        for k in 0..j {
            matrix[k * d + j] = matrix[j * d + k];
        }
    }
    matrix
}

impl SolvedRecords for RemoteRecords {
    const INTEGERS: bool = true;
}

impl sealed::Solved for RemoteRecords {
    fn minimised(&self, sum: &Minimised<'_>, linear: &[f64]) -> Result<Vec<f64>, CuratorError> {
        let objective = AskedSum { sums: sum.integers(), regularization: sum.regularization, linear };
        let found = minimise_by_sums(&objective, sum.accuracy(Self::INTEGERS), |sums, theta| {
            remote_sums(self, sums, &theta.numbers())
        })?;
        Ok(found.theta.rounded())
    }

    fn majorant(&self, objective: &Linear, most_rows: u64, theta: &[f64]) -> Result<Vec<f64>, CuratorError> {
        remote_majorant(self, objective, most_rows, theta)
    }
}
