//! Σ h_i·x_i x_iᵀ with h_i = tanh(u/2)/(2u), u = shift − margin: the curvature of the parabolas above a logistic loss, as integers
//! (docs/proofs/noisy-newton.md). Every record's share is clipped to Frobenius norm R²/4 on a public grid, so that a record moves the sum by at most
//! that, exactly, however the records are divided.

use super::aggregate_query::{AggregateQuery, asked};
use super::matrix::{SecondMoment, symmetric_matrix};
use crate::refused::CuratorError;
use dpopt_noise::Grid;
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::Linear;
use dpopt_objective::records::{Records, RemoteRecords};
use dpopt_objective::solver::{majorising_curvature, plain_dot};

/// The largest curvature weight h_i of a record.
const LARGEST: f64 = 0.25;

/// How the sum is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Majorant {
    shift: f64,
    row_norm: f64,
    moment: SecondMoment,
}

impl Majorant {
    /// The majorant of a logistic loss with this shift, for rows of norm at most R.
    pub(crate) fn new(shift: f64, row_norm: f64, grid: Grid) -> Result<Self, CuratorError> {
        Ok(Self { shift, row_norm, moment: SecondMoment::new(LARGEST, row_norm, grid)? })
    }

    /// The majorant of the loss of `objective`, for at most `most_rows` records: on a grid as fine as their sum allows.
    pub(crate) fn of(objective: &Linear, most_rows: u64) -> Result<Self, CuratorError> {
        let Loss::Logistic { shift } = objective.loss() else { return Err(CuratorError::Shape) };
        let share = LARGEST * objective.row_norm() * objective.row_norm();
        Self::new(shift, objective.row_norm(), Grid::for_products(share, 0.0, most_rows))
    }

    /// What is asked at a point.
    pub(crate) fn query(&self) -> AggregateQuery {
        AggregateQuery::Majorant { shift: self.shift, row_norm: self.row_norm, grid: self.grid().exponent() }
    }

    /// What the integers are multiples of, in the coordinates of a [`SecondMoment`].
    pub(crate) fn grid(&self) -> Grid {
        self.moment.grid()
    }

    /// The integers at `theta`; a record without a usable target counts as one at u = 0, as it does in one process.
    pub(crate) fn add_up<R: Records>(&self, records: &R, theta: &[f64]) -> Result<Vec<i64>, R::Error> {
        let loss = Loss::Logistic { shift: self.shift };
        self.moment.add_up_weighted(records, |columns, values, target| {
            let target = loss.usable_target(f64::from(target), f64::MAX);
            majorising_curvature(target.map_or(0.0, |y| self.shift - y * plain_dot(columns, values, theta)))
        })
    }
}

/// Σ h_i·x_i x_iᵀ of the loss of `objective` at `theta`, row-major, of at most `most_rows` remote records.
pub fn remote_majorant(
    records: &RemoteRecords,
    objective: &Linear,
    most_rows: u64,
    theta: &[f64],
) -> Result<Vec<f64>, CuratorError> {
    let (d, majorant) = (theta.len(), Majorant::of(objective, most_rows)?);
    let quanta = asked(records, &majorant.query(), theta, SecondMoment::coordinates(d))?;
    let coordinates: Vec<f64> = quanta.into_iter().map(|unit| majorant.grid().to_f64(unit)).collect();
    Ok(symmetric_matrix(d, &coordinates))
}
