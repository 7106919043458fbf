//! Linear losses on the matrices of trace norm at most 1: draws by hit-and-run, for which nothing is certified, beside the bound of exact draws.

use super::linear::{Drawn, RECORDS};
use super::noisy::decomposed;
use super::tilted::Tilted;
use super::{DELTA, EPSILON, RELATION};
use crate::{Failure, Trial};
use dpopt::estimate::NoiseLaw;
use dpopt::optimize::gibbs_parameters::Temperature;
use dpopt::privacy::{Budget, Neighbours};
use dpopt_mechanism::sampler::research::{SchattenSquare, hit_and_run};
use serde::Serialize;

/// Which mean slope the losses have; its largest singular value is `share` of the bound.
#[derive(Clone, Copy, PartialEq, Serialize)]
pub(super) struct Cell {
    pub(super) side: usize,
    pub(super) share: f64,
    /// Equal singular values, or one.
    pub(super) equal: bool,
}

/// k, μ and the bound on the excess in the unit ball.
pub(super) fn tuning(side: usize) -> Result<Temperature, Failure> {
    super::tilted::tuning(1.0, side, side * side, 1.0, RECORDS)
}

impl Cell {
    fn slope(&self) -> Result<Vec<f64>, Failure> {
        let size = self.share * tuning(self.side)?.risk;
        let diagonal = |k: usize| if self.equal || k == 0 { size } else { 0.0 };
        let entry = |at: usize| if at / self.side == at % self.side { diagonal(at / self.side) } else { 0.0 };
        Ok((0..self.side * self.side).map(entry).collect())
    }
}

/// Means along one walk, the first fifth left out.
pub(super) fn draws(cell: &Cell, trial: Trial) -> Result<Drawn, Failure> {
    const POINTS: usize = 500;
    let Temperature { temperature, modulus, .. } = tuning(cell.side)?;
    let regularizer =
        SchattenSquare::new(1.0, cell.side, cell.side).ok_or_else(|| Failure::of("no such norm of matrices"))?;
    let potential = Tilted { slope: cell.slope()?, term: regularizer, temperature, modulus };
    let stiffness = temperature * modulus;
    let width = (stiffness * regularizer.of_singular_values.coefficient).sqrt().recip();
    let d = cell.side * cell.side;
    let (mut x, mut random) = (vec![0.0; d], trial.stream());
    let (mut loss, mut virial) = (0.0, 0.0);
    for point in 0..POINTS {
        hit_and_run(&potential, &mut x, width, d as u64, &mut random);
        if point >= POINTS / 5 {
            let linear = potential.linear(&x);
            loss += linear;
            virial += temperature * linear + 2.0 * stiffness * regularizer.value(&x);
        }
    }
    let kept = (POINTS - POINTS / 5) as f64;
    let singular_values = if cell.equal { cell.side as f64 } else { 1.0 };
    let largest = potential.slope.iter().sum::<f64>() / singular_values;
    Ok(Drawn { excess: loss / kept + largest, virial: virial / (kept * d as f64) })
}

/// The sum with Gaussian noise, and the best matrix of the ball for it: of rank one.
pub(super) fn noisy_sum(cell: &Cell, trial: Trial) -> Result<f64, Failure> {
    const DRAWS: usize = 500;
    let (side, d) = (cell.side, cell.side * cell.side);
    let budget = Budget::new(EPSILON, DELTA).map_err(Failure::of)?;
    let terms = Neighbours::of_records(RELATION).within(budget);
    let (z, _) = NoiseLaw::Gaussian.least(d as u64, terms).map_err(Failure::of)?;
    // a slope whose largest singular value is 1 has Euclidean norm √m at most
    let std = z * (side as f64).sqrt() / RECORDS;
    let slope = cell.slope()?;
    let mut random = trial.stream();
    let mut total = 0.0;
    for _ in 0..DRAWS {
        let noisy: Vec<f64> = slope.iter().map(|s| s + std * random.standard_normal()).collect();
        let found = decomposed(&noisy, side)?;
        let (u, v) = (found.left(0), found.right(0));
        let loss: f64 = (0..side).map(|k| -slope[k * side + k] * u[k] * v[k]).sum();
        total += loss + slope[0];
    }
    Ok(total / DRAWS as f64)
}
